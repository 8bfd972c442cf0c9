//! Assigns volumes to targets, and opens the targets.

use std::path::Path;

use forebay::input::Input;
use forebay::layout::VolumeLayout as Placement;
use forebay_ask::named;
use forebay_core::Lane;
use forebay_live::{Target, TargetKind, TargetOptions};
use forebay_words::quantities::bytes;

use crate::Plan;
use crate::error::{Error, unfit};
use crate::on::Real;

/// The minimum size of a new flash target. Otherwise its size is a fraction of the total size of
/// the other targets.
const FLASH_MIN_BYTES: u64 = 1 << 30;

/// Opened targets, and the positions of the volumes on them.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) targets: Vec<Target>,
    pub(super) flash: Option<Target>,
    pub(super) placement: Placement,
}

/// Opens the targets in `real` for the volumes of `input`. A placement policy may write anywhere on
/// them.
pub(super) fn open(
    input: &Input,
    real: &Real,
    plan: Plan<'_>,
    placement: bool,
) -> Result<Opened, Error> {
    let map = plan.setup.map;
    let (paths, volumes) = assign(input, real)?;
    let unlimited = vec![u64::MAX; paths.len()];
    let needed: Vec<u64> = Placement::on(&volumes, &unlimited, map).spans().collect();
    let writes = placement || input.description.writes + input.description.trims > 0;
    let how = |writes, need_bytes| TargetOptions {
        writes,
        overwrite: real.overwrite,
        need_bytes,
        direct: real.direct,
    };
    let mut wanted: Vec<_> =
        paths.into_iter().zip(needed.iter().map(|need| how(writes, *need))).collect();
    let flash = real.flash.as_deref().filter(|_| placement);
    let need_bytes = (needed.iter().sum::<u64>() / 10).max(FLASH_MIN_BYTES);
    wanted.extend(flash.map(|path| (path, how(true, need_bytes))));
    let trace = input.kept();
    let kept: Vec<_> =
        (trace.paths().iter().map(|path| (path.as_path(), "the trace itself"))).collect();
    let mut targets: Vec<Target> = Vec::new();
    for (path, how) in wanted {
        match open_one(path, how, &kept, &targets) {
            Ok(target) => targets.push(target),
            Err(error) => {
                targets.into_iter().for_each(Target::discard);
                return Err(error);
            }
        }
    }
    if input.description.reads > 0 {
        targets.iter_mut().filter(|target| target.kind() == TargetKind::Created).for_each(
            |target| {
                target.note(format!(
                    "it was created with {}, the extent of the trace, and is empty: reads of \
                 never-written areas do not measure the disk",
                    bytes(target.capacity_bytes() as f64)
                ));
            },
        );
    }
    let flash = flash.and_then(|_| targets.pop());
    let capacities: Vec<u64> = targets.iter().map(|target| target.capacity_bytes()).collect();
    let placement = Placement::on(&volumes, &capacities, map).without_gaps(&input.stretches);
    Ok(Opened { placement, targets, flash })
}

/// The distinct paths of the targets, and for each volume its size and its target.
type Assigned<'a> = (Vec<&'a Path>, Vec<(u64, Lane)>);

/// Assigns a target to each volume.
fn assign<'a>(input: &Input, real: &'a Real) -> Result<Assigned<'a>, Error> {
    let label = |volume: usize| input.volumes.get(volume).map_or("", String::as_str);
    if let Some((name, _)) = real.volumes.iter().find(|(name, _)| !input.volumes.contains(name)) {
        let known: Vec<&str> = input.volumes.iter().take(20).map(String::as_str).collect();
        return Err(unfit(format!(
            "{}: no volume '{name}', expected one of: {}",
            input.path.display(),
            known.join(", ")
        )));
    }
    for (index, (name, path)) in real.volumes.iter().enumerate() {
        let before = real.volumes[..index].iter().find(|(known, _)| known == name);
        if let Some((_, known)) = before.filter(|(_, known)| known != path) {
            return Err(unfit(format!(
                "{} '{name}': got {} and {}, expected one target",
                named("map_volume"),
                known.display(),
                path.display()
            )));
        }
    }
    let (mut paths, mut volumes) = (Vec::<&Path>::new(), Vec::new());
    for (volume, extent) in input.extents.iter().enumerate() {
        let name = label(volume);
        let own = real.volumes.iter().find(|(mapped, _)| mapped == name).map(|(_, path)| path);
        let Some(path) = own.or(real.target.as_ref()) else {
            return Err(unfit(format!(
                "{}: volume '{name}' has no target; specify one with {}, or {} for all volumes \
                 without a target",
                input.path.display(),
                named(&format!("map_volume={name}=FILE")),
                named("target")
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

/// Opens a target. Fails if it is a file whose data must be preserved, or if it is already open
/// under another name.
fn open_one(
    path: &Path,
    how: TargetOptions,
    kept: &[(&Path, &str)],
    open: &[Target],
) -> Result<Target, Error> {
    let refused = |what: String| {
        unfit(format!("{}: got {what}, expected another file or device", path.display()))
    };
    if let Some(target) = open.iter().find(|target| target.is_same(path)) {
        return Err(refused(format!("the same target as {}", target.path().display())));
    }
    let target = Target::open(path, how)?;
    if let Some((_, what)) = kept.iter().find(|(path, _)| target.is_same(path)) {
        target.discard();
        return Err(refused(what.to_string()));
    }
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay::layout::Map;
    use forebay::replayed::{Replay, Setup};
    use forebay_core::replay::Intensity;
    use forebay_core::{Flags, Nanos, Op};
    use forebay_trace::Record;
    use std::fs;

    const PLAN: Plan<'_> = Plan {
        policy: "noop",
        setup: Setup {
            replay: Replay::Open,
            intensity: Intensity::RECORDED,
            map: Map::Scale,
            serves_own: false,
            without: None,
        },
        length: None,
        realtime: false,
    };

    /// Returns two records, for the volumes `a` and `b`; only the first is a write.
    fn records() -> Vec<Record> {
        let record = |volume, op| Record {
            at: Nanos::ZERO,
            offset: 1 << 20,
            latency: None,
            len: 4096,
            stream: 0,
            volume,
            op,
            flags: Flags::NONE,
        };
        vec![record(0, Op::Write), record(1, Op::Read)]
    }

    fn input(folder: &Path) -> Input {
        let mut input = Input::from_records(records(), vec!["s".into()]);
        input.volumes = vec!["a".into(), "b".into()];
        input.path = folder.join("trace");
        input
    }

    fn real(target: Option<&Path>, volumes: &[(&str, &Path)]) -> Real {
        Real {
            target: target.map(Path::to_path_buf),
            volumes: volumes.iter().map(|(name, path)| (name.to_string(), path.into())).collect(),
            flash: None,
            driver: None,
            overwrite: false,
            direct: true,
            depth: 1,
        }
    }

    #[test]
    fn volumes_go_to_their_mapped_targets_and_others_to_the_default() {
        let folder = tempfile::tempdir().unwrap();
        let (x, y) = (folder.path().join("x"), folder.path().join("y"));
        let input = input(folder.path());
        let opened = open(&input, &real(Some(&x), &[("b", &y)]), PLAN, false).unwrap();
        let lens: Vec<_> = opened.targets.iter().map(|target| target.capacity_bytes()).collect();
        assert_eq!(lens, [2 << 20, 2 << 20]);
        assert!(opened.targets.iter().all(|target| target.notes()[0].contains("is empty")));
        let mut placement = opened.placement;
        let lanes: Vec<_> =
            records().iter().map(|record| placement.place(record, 0).unwrap().lane).collect();
        assert_eq!(lanes, [0, 1]);
        opened.targets.into_iter().for_each(Target::discard);
        assert!(!x.exists() && !y.exists());
        // The third volume uses the first target again.
        let mut more = self::input(folder.path());
        more.volumes = ["a", "b", "c"].map(String::from).to_vec();
        more.extents = vec![1 << 20; 3];
        let volumes = [("a", &*x), ("b", &*y), ("c", &*x)];
        let real_three = real(None, &volumes);
        let (paths, lanes) = assign(&more, &real_three).unwrap();
        assert_eq!(paths, [&x, &y]);
        assert_eq!(lanes.iter().map(|(_, lane)| *lane).collect::<Vec<_>>(), [0, 1, 0]);
        // Both volumes are placed back to back on one target.
        let opened = open(&input, &real(Some(&x), &[]), PLAN, false).unwrap();
        assert_eq!(opened.targets[0].capacity_bytes(), 4 << 20);
        assert!(opened.flash.is_none());
        let flash = Real { flash: Some(y.clone()), ..real(None, &[("a", &x), ("b", &x)]) };
        let flash = Real { overwrite: true, ..flash };
        let opened = open(&input, &flash, PLAN, true).unwrap();
        assert_eq!(opened.flash.unwrap().path(), y);
    }

    #[test]
    fn targets_too_small_are_rejected_without_side_effects() {
        let folder = tempfile::tempdir().unwrap();
        let input = input(folder.path());
        let [new, there, link, nowhere] =
            ["new", "there", "link", "nowhere"].map(|name| folder.path().join(name));
        std::os::unix::fs::symlink(folder.path().join("no such"), &nowhere).unwrap();
        fs::write(&there, vec![7; 8192]).unwrap();
        fs::write(&input.path, vec![7; 8192]).unwrap();
        std::os::unix::fs::symlink(&new, &link).unwrap();
        let cases = [
            (real(None, &[("a", &new)]), "volume 'b' has no target"),
            (real(Some(&new), &[("c", &there)]), "no volume 'c', expected one of: a, b"),
            (real(Some(&new), &[("b", &there)]), "overwrite"),
            (real(Some(&new), &[("b", &link)]), "the same target as"),
            (real(Some(&new), &[("b", &new), ("b", &there)]), "expected one target"),
            (real(Some(&nowhere), &[]), "a dangling symbolic link"),
            (Real { overwrite: true, ..real(Some(&input.path), &[]) }, "the trace itself"),
        ];
        for (real, part) in cases {
            let said = open(&input, &real, PLAN, false).unwrap_err().to_string();
            assert!(said.contains(part), "{said}");
            assert!(!new.exists(), "{part}");
        }
        assert_eq!(fs::read(&input.path).unwrap(), vec![7; 8192]);
    }
}
