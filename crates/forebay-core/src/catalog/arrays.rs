//! Arrays by name: all disks together, one volume above them.

use super::placements::DeviceSet;
use super::schedulers;
use crate::adapt::{Best, BonusMalus, Costs, Factor, First, RAID6, Tuning, WorkFunction};
use crate::contract::parameter::{Given, Listed, Parameter};
use crate::contract::policy::{AnyPolicy, PolicyVisitor};
use crate::contract::spec::{Spec, SpecError};
use crate::stack::array::{Array, Geometry, LEVELS, Level, Update};
use crate::stack::placed::Placed;

/// Rules by name: they change between RAID 6 and three copies.
const RULES: &[&str] =
    &["never", "bonus-malus", "half-thresholds", "twice-thresholds", "work-function", "best"];

/// Every policy that makes one volume of all disks.
pub const ARRAYS: &[Listed] = &[Listed {
    name: "array",
    summary: "all disks as one volume with redundancy, each 256 KiB at a RAID level of its own that may \
              follow the workload",
    parameters: &[&[
        Parameter::choice("level", &["raid6", "raid0", "raid5", "raid10", "raid10x3", "raid10x4"]),
        Parameter::choice("update", &["fresh", "in-place"]),
        Parameter::choice("adapt", RULES),
        Parameter::choice("costs", &["hdd", "ssd"]),
        Parameter::choice("first", &["level", "write"]),
        Parameter::whole("switch-percent", 0, 0),
        Parameter::whole("chunk-kib", 64, 4),
        Parameter::whole("chunks", 4, 1),
        Parameter::whole("filled-mib", 0, 0),
        Parameter::own("disk", "noop"),
    ]],
}];

/// Whether `spec` names an array.
pub fn is_array(spec: &str) -> bool {
    Spec::parse(spec).is_ok_and(|spec| ARRAYS.iter().any(|listed| listed.name == spec.name()))
}

/// How many bytes the volume has that `spec` makes of `lanes`, if it names an array.
///
/// # Errors
/// Where there can be no such array.
pub fn volume_bytes(spec: &str, lanes: &DeviceSet) -> Result<Option<u64>, SpecError> {
    if !is_array(spec) {
        return Ok(None);
    }
    let spec = Spec::parse(spec)?;
    let tables = tables();
    let given = Given::new(&spec, &tables);
    Ok(Some(Asked::of(&given, lanes)?.geometry.capacity_bytes()))
}

fn tables() -> Vec<&'static [Parameter]> {
    ARRAYS.iter().flat_map(|listed| listed.parameters.to_vec()).collect()
}

/// What is asked for.
struct Asked {
    geometry: Geometry,
    level: Level,
}

impl Asked {
    fn of(given: &Given<'_>, lanes: &DeviceSet) -> Result<Asked, SpecError> {
        let names = ["raid6", "raid0", "raid5", "raid10", "raid10x3", "raid10x4"];
        let level = Level::named(names[given.choice("level")?]).unwrap_or(Level::RAID6);
        let update = [Update::Fresh, Update::InPlace][given.choice("update")?];
        let adapts = given.choice("adapt")? > 0;
        let chunks = given.whole("chunks")?;
        let wrong = |what: String| Err(SpecError(format!("'{}': {what}", given.spec.text())));
        if adapts && ![Level::RAID6, Level::TRIPLE].contains(&level) {
            return wrong(format!(
                "adapt: got level={}, expected raid6 or raid10x3, which it changes between",
                level.name()
            ));
        }
        let levels = if adapts { vec![Level::RAID6, Level::TRIPLE] } else { vec![level] };
        let width = levels.iter().map(|level| level.width(chunks as usize)).max().unwrap_or(1);
        if usize::from(lanes.disks) < width {
            return wrong(format!(
                "got {} disks, expected at least {width} (--disks {width})",
                lanes.disks
            ));
        }
        let copies = levels.iter().map(|level| match level {
            Level::Mirrored { copies } => *copies,
            Level::Striped { .. } => 1,
        });
        let sizes = Geometry {
            volume: 0,
            lanes: lanes.disks,
            chunk_bytes: given.whole("chunk-kib")?.saturating_mul(1024),
            chunks: chunks.min(255) as u8,
            copies_max: copies.max().unwrap_or(1),
            units: 0,
            cells: 0,
            ring: 0,
            update,
        };
        let lean = if adapts { Level::RAID6 } else { level };
        match Geometry::fitting(sizes, lean, lanes.disk_bytes) {
            Some(geometry) => Ok(Asked { geometry, level }),
            None => wrong(format!(
                "got {chunks} chunks of {} KiB on {} disks of {} bytes, expected chunks of 4 to 1024 KiB, \
                 a multiple of 4, no more than 16 copies and parities of a unit's chunks, up to 32 disks, \
                 and room for them",
                sizes.chunk_bytes / 1024,
                lanes.disks,
                lanes.disk_bytes
            )),
        }
    }
}

/// Builds the array that `spec` names and hands it to `visitor`.
pub(super) fn with_array<V: PolicyVisitor>(
    spec: &Spec,
    lanes: &DeviceSet,
    visitor: V,
) -> Result<V::Out, SpecError> {
    let tables = tables();
    let given = Given::new(spec, &tables);
    if lanes.restarts {
        let what = "got an array for one run, expected a volume (forebay volume create)";
        return Err(SpecError(format!("'{}': {what}", spec.text())));
    }
    let Asked { geometry, level } = Asked::of(&given, lanes)?;
    let rule = given.choice("adapt")?;
    let costs = [Costs::paper_hdd, Costs::paper_ssd][given.choice("costs")?]();
    let by_write = !given.is_first("first")?;
    let switch_percent = given.whole("switch-percent")?;
    let filled = u64::from(given.whole("filled-mib")?) << 20;
    let scheduler = spec.inner("disk").unwrap_or_else(|| "noop".to_string());
    let build = |_| {
        schedulers::build(&scheduler, lanes.disk_len_max)
            .map_err(|error| SpecError(format!("'{}': disk: {error}", spec.text())))
    };
    let disks: Vec<AnyPolicy> = (0..lanes.disks).map(build).collect::<Result<_, _>>()?;
    spec.finish()?;
    let units = filled.div_ceil(geometry.unit_bytes());
    let array = Array::new(geometry, level).filled(units);
    let first = match (by_write, level) {
        (true, _) => First::ByFirstWrite,
        (false, level) => First::Fixed(RAID6 + u8::from(level == Level::TRIPLE)),
    };
    let levels = vec![Level::RAID6, Level::TRIPLE];
    let (half, twice) = (Factor { times: 1, over: 2 }, Factor { times: 2, over: 1 });
    let array = match RULES[rule] {
        "bonus-malus" => array.adapting(BonusMalus::new(Factor::ONE), costs, first, levels),
        "half-thresholds" => array.adapting(BonusMalus::new(half), costs, first, levels),
        "twice-thresholds" => array.adapting(BonusMalus::new(twice), costs, first, levels),
        "work-function" => array.adapting(WorkFunction, costs, first, levels),
        "best" => {
            let best = Best::new(&costs, Tuning::default());
            array.adapting(best, costs, first, levels)
        }
        _ => array,
    };
    let array = array.switching_within(switch_percent.into());
    Ok(visitor.visit(Placed::over(array, disks)))
}

/// Their names, for whoever asks for one that there is not.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    ARRAYS.iter().map(|listed| listed.name)
}

const _: () = assert!(LEVELS.len() == 6, "every level can be asked for");
