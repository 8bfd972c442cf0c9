//! Creates volumes.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use forebay_ask::named;
use forebay_core::adapt::DriveCosts;
use forebay_core::stack::array::{Array, DriveKind, DriveStage, Geometry, Label, Level, Update};
use forebay_live::{Target, TargetOptions};

use crate::find::{Access, FoundVolume, found, is_of, lock};
use crate::labels::{self, Labelled, Unlabelled};
use crate::open::{look, opening};
use crate::used::{holds, unreadable};
use crate::{Error, untold};

/// The maximum number of drives in a volume.
pub const DRIVES_MAX: u16 = 32;

/// The parameters of a new volume.
#[derive(Clone, Copy, Debug)]
pub struct Create {
    /// The level of units when they are first written.
    pub level: Level,
    /// The chunk size in bytes.
    pub chunk_bytes: u32,
    /// The number of data chunks per unit.
    pub chunks: u8,
    /// The number of solid-state drives, which are listed last and form a set of their own.
    pub ssds: usize,
    /// The number of drives that may fail without leaving too little space for their data on the
    /// other drives.
    pub spares: u16,
    /// Whether existing data on the drives may be destroyed.
    pub overwrite: bool,
    /// The costs of writes on the hard disks and on the solid-state drives, if they are known.
    pub costs: [Option<DriveCosts>; 2],
}

impl Create {
    /// Returns the parameters of a volume of hard disks with units of four chunks of 64 KiB.
    pub fn new(level: Level) -> Create {
        let (chunk_bytes, chunks, ssds, spares) = (64 << 10, 4, 0, 0);
        Create { level, chunk_bytes, chunks, ssds, spares, overwrite: false, costs: [None; 2] }
    }
}

/// Creates a volume from the existing drives at `paths`. If this is interrupted, the labels say so,
/// and the command can be repeated.
///
/// # Errors
/// A drive cannot be used, contains data that must not be overwritten, or the volume is impossible.
pub fn create(paths: &[PathBuf], how: Create) -> Result<Geometry, Error> {
    if let Some(mut found) = nearly_made(paths, how) {
        found.mend_labels();
        return Ok(found.geometry);
    }
    if let Some(geometry) = just_made(paths, how) {
        return Ok(geometry);
    }
    for (at, path) in paths.iter().enumerate() {
        refuse_used(path, how.overwrite)?;
        refuse_twice(path, &paths[..at])?;
    }
    let how_opened = TargetOptions { writes: true, overwrite: true, need_bytes: 0, direct: true };
    let mut targets = Vec::new();
    for path in paths {
        let target = Target::open(path, how_opened)?;
        lock(&target, true)?;
        targets.push(target);
    }
    // Each drive reserves its last block for a label.
    let room = |target: &Target| target.capacity_bytes().saturating_sub(2 * Label::BYTES - 1);
    let bytes: Vec<u64> = targets.iter().map(room).collect();
    let hdds = paths.len().saturating_sub(how.ssds);
    let geometry = geometry(&bytes, hdds, how)?;
    let kinds: Vec<DriveKind> = (0..paths.len())
        .map(|at| if at < hdds { DriveKind::Hdd } else { DriveKind::Ssd })
        .collect();
    let mut labels = Vec::new();
    for (drive, target) in (1..).zip(&targets) {
        let (first, given) = (how.level, geometry.lanes as u8);
        let (stage, version) = (DriveStage::Making, Label::VERSION);
        let costs = how.costs;
        let label = Label { geometry, drive, first, stage, given, version, costs };
        labels::write(target.path(), &label, target.capacity_bytes())?;
        labels.push(Labelled::whole(label));
    }
    let array = Array::created(geometry, how.level).with_kinds(&kinds);
    let made: Vec<(PathBuf, u64, Label)> = targets
        .iter()
        .zip(&labels)
        .map(|(target, it)| (target.path().to_path_buf(), target.capacity_bytes(), it.label))
        .collect();
    let drives = (1..).zip(targets).collect();
    let (others, notes) = (Vec::new(), Vec::new());
    let found =
        FoundVolume { geometry, first: how.level, drives, others, notes, labels, too_few: None };
    opening(array, found, None, &mut untold)?;
    for (path, bytes, label) in made {
        labels::write(&path, &Label { stage: DriveStage::Member, ..label }, bytes)?;
    }
    Ok(geometry)
}

/// Returns the volume of exactly these drives if its creation was interrupted when only the labels
/// had to be completed.
fn nearly_made(paths: &[PathBuf], how: Create) -> Option<FoundVolume> {
    let labels = asked_for(paths, how)?;
    let has = |stage| labels.iter().any(|it| it.stage == stage);
    let is_nearly = has(DriveStage::Making) && has(DriveStage::Member);
    let found = if is_nearly { found(paths, Access::WRITE).ok() } else { None };
    found.filter(|found| found.too_few.is_none())
}

/// Returns the volume of exactly these drives if it is empty, because its creation was interrupted
/// at the very end or is being repeated.
fn just_made(paths: &[PathBuf], how: Create) -> Option<Geometry> {
    let labels = asked_for(paths, how).filter(|_| !how.overwrite)?;
    if labels.iter().any(|it| it.stage != DriveStage::Member) {
        return None;
    }
    let opened = look(paths, Access::READ).ok()?;
    let is_empty = opened.census.units.iter().all(|(_, units)| *units == 0);
    (is_empty && opened.missing().is_empty() && opened.census.lost_units == 0)
        .then_some(opened.geometry)
}

/// Returns the labels of these drives if they belong to one volume with the requested parameters.
fn asked_for(paths: &[PathBuf], how: Create) -> Option<Vec<Label>> {
    let label = |path: &PathBuf| Some(labels::read(path).ok()?.label);
    let labels: Vec<Label> = paths.iter().map(label).collect::<Option<_>>()?;
    let first = labels.first()?;
    let Geometry { lanes, chunk_bytes, chunks, .. } = first.geometry;
    let spares = Array::found(first.geometry, first.first, &[]).spare_drives();
    let is_asked = (usize::from(lanes), chunk_bytes, chunks, first.first, spares, first.costs)
        == (paths.len(), how.chunk_bytes, how.chunks, how.level, how.spares.into(), how.costs);
    let is_one = labels.iter().all(|it| is_of(it, first));
    (is_asked && is_one).then_some(labels)
}

/// Computes the largest volume for drives of these sizes, of which the first `hdds` are hard disks.
fn geometry(bytes: &[u64], hdds: usize, how: Create) -> Result<Geometry, Error> {
    let (drives, width) = (bytes.len(), how.level.width(how.chunks.into()));
    let sets = [&bytes[..hdds], &bytes[hdds..]];
    let sets: Vec<&[u64]> = sets.into_iter().filter(|set| !set.is_empty()).collect();
    let is_narrow = drives == 0 || sets.iter().any(|set| set.len() < width);
    if is_narrow || drives > DRIVES_MAX.into() {
        let counted = |count: usize, what: &str| match count {
            1 => format!("1 {what}"),
            _ => format!("{count} {what}s"),
        };
        let sets = match drives - hdds {
            0 => counted(hdds, "drive"),
            ssds => {
                format!("{} and {}", counted(hdds, "hard disk"), counted(ssds, "solid-state drive"))
            }
        };
        return Err(Error::Volume(format!(
            "{}: got {sets}, expected {width} or more of a kind, and at most {DRIVES_MAX} in all",
            how.level.name()
        )));
    }
    let copies_max = match how.level {
        Level::Mirrored { copies } => copies,
        Level::Striped { .. } => 1,
    };
    let both = how.level.tolerates() == 2 && usize::from(how.chunks) * 3 <= 16;
    let sizes = Geometry {
        volume: name(),
        lanes: drives as u16,
        chunk_bytes: how.chunk_bytes,
        chunks: how.chunks,
        // Room for three copies lets the volume's units change between RAID 6 and three copies.
        copies_max: if both { 3 } else { copies_max },
        units: 0,
        cells: 0,
        ring: 0,
        update: Update::Fresh,
    };
    let is_wide = sets.iter().all(|set| set.len() >= Level::RAID6.width(how.chunks.into()));
    let leanest = if both && is_wide { Level::RAID6 } else { how.level };
    let geometry = match how.spares {
        0 => Geometry::fitting(sizes, leanest, &sets),
        spares => {
            refuse_spares(spares, &sets, leanest.width(how.chunks.into()))?;
            Geometry::sparing(sizes, leanest, bytes, spares)
        }
    };
    geometry.ok_or_else(|| {
        Error::Volume(format!(
            "got {drives} drives of {} bytes or more and chunks of {} KiB, expected chunks of 4 \
             to 1024 KiB, a multiple of 4, and drives with space for more than 64 of them and \
             the records",
            bytes.iter().min().unwrap_or(&0),
            how.chunk_bytes / 1024
        ))
    })
}

/// Returns an error for more spare drives than possible.
fn refuse_spares(spares: u16, sets: &[&[u64]], width: usize) -> Result<(), Error> {
    let [drives] = sets else {
        return Err(Error::Volume(format!(
            "{}: got hard disks and solid-state drives, expected drives of one kind",
            named("spares")
        )));
    };
    let most = drives.len().saturating_sub(width);
    match usize::from(spares) > most {
        true => Err(Error::Volume(format!(
            "{}: got {spares}, expected at most {most}: units span {width} of the {} drives",
            named("spares"),
            drives.len()
        ))),
        false => Ok(()),
    }
}

/// Returns an error if a drive is named twice.
pub(crate) fn refuse_twice(path: &Path, others: &[PathBuf]) -> Result<(), Error> {
    let same = |other: &&PathBuf| fs::canonicalize(path).ok() == fs::canonicalize(other).ok();
    match others.iter().find(same) {
        None => Ok(()),
        Some(other) => {
            let what =
                format!("is named twice (also as {}); name each drive once", other.display());
            Err(Error::drive(path, what))
        }
    }
}

/// Returns an error if a drive contains data, unless it may be overwritten.
pub(crate) fn refuse_used(path: &Path, overwrite: bool) -> Result<(), Error> {
    if overwrite {
        return Ok(());
    }
    let refused = |what: String| Error::drive(path, what);
    let destroys = format!("; {} destroys its contents", named("overwrite=true"));
    let labels = labels::read(path);
    if let Err(Unlabelled { why, is_unknown: true, .. }) = &labels {
        return Err(refused(format!("{why}{destroys}")));
    }
    if let Ok(Labelled { label, .. }) = labels {
        let Label { drive, stage, geometry, .. } = label;
        return match stage {
            DriveStage::Making => Ok(()),
            DriveStage::Joining => Err(refused(format!(
                "is being added to volume {:016x}: run the interrupted `forebay volume replace` \
                 or `grow` again to continue",
                geometry.volume
            ))),
            DriveStage::Member => Err(refused(format!(
                "is drive {drive} of volume {:016x} already{destroys}",
                geometry.volume
            ))),
        };
    }
    let (file, kind, bytes) = labels::drive(path).map_err(refused)?;
    match holds(&file, kind, bytes) {
        Ok(None) => Ok(()),
        Ok(Some(what)) => Err(refused(format!("{what}{destroys}"))),
        Err(place) => Err(refused(format!("{}{destroys}", unreadable(&place)))),
    }
}

/// Chooses a volume id that is unique.
fn name() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seed = since.as_nanos() as u64 ^ u64::from(std::process::id()) << 40;
    forebay_live::checksum(&seed.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::made;

    #[test]
    fn a_volume_needs_drives() {
        let said = create(&[], made(Level::RAID6)).unwrap_err().to_string();
        assert_eq!(
            said,
            "raid6: got 0 drives, expected 6 or more of a kind, and at most 32 in all"
        );
    }
}
