//! Builds yardsticks by name: policies that schedulers are compared with. They cannot be used in
//! practice, because they know what only the disk knows. They run only in simulation, on a disk
//! without a controller.

use super::placements::{DeviceSet, with_placed};
use super::schedulers;
use crate::contract::{AnyPolicy, Given, Listed, PolicyVisitor, Spec, SpecError};
use crate::device::hdd::Hdd;
use crate::device::list::DeviceModel;
use crate::elevator::{BLOCK_PARAMETERS, BlockLayer, Limits, Sptf};
use crate::stack::PerDisk;

/// All yardsticks.
pub const YARDSTICKS: &[Listed] = &[Sptf::LISTED];

/// Returns whether `spec` names a yardstick.
pub fn is_yardstick(spec: &str) -> bool {
    Spec::parse(spec).is_ok_and(|spec| is_named(&spec))
}

fn is_named(spec: &Spec) -> bool {
    YARDSTICKS.iter().any(|listed| listed.name == spec.name())
}

/// Like [`with_placed`], but also accepts yardsticks; `disk` is the model of each disk.
pub fn with_measured<V: PolicyVisitor>(
    spec: &str,
    lanes: &DeviceSet,
    disk: &DeviceModel,
    visitor: V,
) -> Result<V::Out, SpecError> {
    if !is_yardstick(spec) {
        return with_placed(spec, lanes, visitor);
    }
    let one = yardstick(&Spec::parse(spec)?, lanes.disk_len_max, disk)?;
    if lanes.disks <= 1 {
        return Ok(visitor.visit(one));
    }
    let each = (0..lanes.disks).map(|_| -> AnyPolicy { Box::new(one.clone()) });
    Ok(visitor.visit(PerDisk::new(each.collect())))
}

/// Like [`with_measured`], but returns a boxed policy.
pub fn build_measured(
    spec: &str,
    lanes: &DeviceSet,
    disk: &DeviceModel,
) -> Result<AnyPolicy, SpecError> {
    with_measured(spec, lanes, disk, schedulers::Boxed)
}

fn yardstick(
    spec: &Spec,
    len_max: u32,
    disk: &DeviceModel,
) -> Result<BlockLayer<Sptf<Hdd>>, SpecError> {
    let DeviceModel::Hdd(disk) = disk else {
        return Err(SpecError(format!(
            "'{}': got a device simulated {}, expected a plain disk (NAME:plain), because the \
             policy needs positioning times",
            spec.text(),
            disk.commands()
        )));
    };
    let tables = [Sptf::LISTED.parameters, &[BLOCK_PARAMETERS]].concat();
    let given = Given::new(spec, &tables);
    let (bound, limits) = (Sptf::bound(&given)?, Limits::given(&given, len_max)?);
    spec.finish()?;
    Ok(BlockLayer::new(Sptf::new(disk.clone(), bound), limits))
}

/// Returns the reason why a yardstick cannot be built from its name alone, if `spec` names a
/// yardstick.
pub(super) fn refused(spec: &Spec) -> Option<SpecError> {
    is_named(spec).then(|| {
        SpecError(format!(
            "'{}': got a yardstick, which exists only in simulations because it needs the positions \
             of arm and platters, expected a scheduler",
            spec.text()
        ))
    })
}
