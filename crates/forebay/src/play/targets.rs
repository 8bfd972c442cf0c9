//! Which target each volume goes to, and the targets opened.

use std::path::Path;

use forebay_core::Lane;
use forebay_live::{Opening, Target};

use super::on::Real;
use crate::error::Error;
use crate::input::Input;
use crate::place::{Map, Placement};

/// A flash target that is created is as long as a part of the others together, at least so long.
const FLASH_MIN_BYTES: u64 = 1 << 30;

/// Open targets, and where volumes lie on them.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) targets: Vec<Target>,
    pub(super) flash: Option<Target>,
    pub(super) placement: Placement,
}

/// Opens what `real` names for the volumes of `input`. A placement writes wherever it likes.
pub(super) fn open(input: &Input, real: &Real, map: Map, placement: bool) -> Result<Opened, Error> {
    let (paths, volumes) = assign(input, real)?;
    let unlimited = vec![u64::MAX; paths.len()];
    let needed: Vec<u64> = Placement::on(&volumes, &unlimited, map).spans().collect();
    let writes = placement || input.description.writes + input.description.trims > 0;
    let how = |writes, need_bytes| Opening {
        writes,
        overwrite: real.overwrite,
        need_bytes,
        direct: real.direct,
    };
    let mut targets: Vec<Target> = Vec::new();
    for (path, need_bytes) in paths.iter().zip(&needed) {
        refuse_same(path, &input.path, &targets)?;
        targets.push(Target::open(path, how(writes, *need_bytes))?);
    }
    let mut flash = None;
    if let Some(path) = real.flash.as_deref().filter(|_| placement) {
        refuse_same(path, &input.path, &targets)?;
        let need_bytes = (needed.iter().sum::<u64>() / 10).max(FLASH_MIN_BYTES);
        flash = Some(Target::open(path, how(true, need_bytes))?);
    }
    let capacities: Vec<u64> = targets.iter().map(|target| target.capacity_bytes).collect();
    Ok(Opened { placement: Placement::on(&volumes, &capacities, map), targets, flash })
}

/// The targets' paths, each once, and of each volume how far it reaches and which of them is its.
fn assign<'a>(input: &Input, real: &'a Real) -> Result<(Vec<&'a Path>, Vec<(u64, Lane)>), Error> {
    let label = |volume: usize| input.volumes.get(volume).map_or("", String::as_str);
    if let Some((name, _)) = real.volumes.iter().find(|(name, _)| !input.volumes.contains(name)) {
        let known: Vec<&str> = input.volumes.iter().take(20).map(String::as_str).collect();
        return Err(Error::Unfit(format!(
            "{}: got no volume '{name}', expected one of: {}",
            input.path.display(),
            known.join(", ")
        )));
    }
    let (mut paths, mut volumes) = (Vec::<&Path>::new(), Vec::new());
    for (volume, extent) in input.extents.iter().enumerate() {
        let name = label(volume);
        let own = real.volumes.iter().find(|(mapped, _)| mapped == name).map(|(_, path)| path);
        let Some(path) = own.or(real.target.as_ref()) else {
            return Err(Error::Unfit(format!(
                "{}: volume '{name}' has no target; name one with --map-volume '{name}=FILE', or \
                 --target for all that have none",
                input.path.display()
            )));
        };
        let lane = paths.iter().position(|known| known == path).unwrap_or_else(|| {
            paths.push(path);
            paths.len() - 1
        });
        volumes.push((*extent, lane as Lane));
    }
    Ok((paths, volumes))
}

/// Fails where `path` is the trace, or a target that is open already by another name.
fn refuse_same(path: &Path, trace: &Path, targets: &[Target]) -> Result<(), Error> {
    let what = if is_same(path, trace) {
        "the trace itself".to_string()
    } else if let Some(target) = targets.iter().find(|target| target.is_same(path)) {
        format!("the same target as {}", target.path.display())
    } else {
        return Ok(());
    };
    Err(Error::Unfit(format!("{}: got {what}, expected another file or device", path.display())))
}

fn is_same(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}
