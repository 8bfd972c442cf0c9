//! Stores on files and block devices: creates their disks, and finds them by their labels.
//!
//! A folder stands for the file `forebay.store` in it. All disks of a store must be present. If a
//! disk belongs to no store or to another one, or is given twice, opening fails and nothing is
//! written.

// Allowed because this module works with files.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use forebay_ask::named;
use forebay_live::{DeviceNumber, Target, TargetError, TargetOptions, checksum};

use crate::frame::BLOCK;
use crate::{Config, Layout};

/// The minimum number of disks: one accepts puts, one is read, one is written, and one is spare
/// (the paper, section IV.C).
pub const DISKS_MIN: usize = 4;
/// The maximum number of disks.
pub const DISKS_MAX: usize = 64;
/// The name of a store's file in a folder.
const FILE: &str = "forebay.store";

/// Why a store could not be created or found.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A disk cannot be opened.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// A disk is unsuitable: not a disk of this store, for example.
    #[error("{}: {what}", path.display())]
    Disk {
        /// The path of the disk.
        path: PathBuf,
        /// What the disk contains, and what was expected.
        what: String,
    },
    /// A disk cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// The path of the disk.
        path: PathBuf,
        /// The operating-system error.
        source: io::Error,
    },
    /// The disks do not form a store.
    #[error("{0}")]
    Store(String),
    /// An operating-system error.
    #[error("I/O on the disks is not possible: {0}")]
    Driver(#[from] io::Error),
}

impl StoreError {
    /// Returns whether the error is due to files or options, so that the user can fix it.
    pub fn is_input(&self) -> bool {
        !matches!(self, StoreError::Driver(_))
    }

    fn disk(path: &Path, what: impl Into<String>) -> StoreError {
        StoreError::Disk { path: path.to_path_buf(), what: what.into() }
    }
}

/// Returns the error message for a new disk's path that already contains data.
fn already_there() -> String {
    format!("exists already; {} destroys its contents", named("overwrite=true"))
}

/// The disks of a store, opened and locked, in the order of their numbers.
pub struct Disks {
    /// The layouts according to their labels.
    pub layouts: Vec<Layout>,
    /// The number of the missing disk.
    pub missing: Option<usize>,
    pub(crate) targets: Vec<Target>,
}

impl Disks {
    /// Returns notes for the user, one sentence each.
    pub fn notes(&self) -> impl Iterator<Item = String> {
        let of_each = self.targets.iter().flat_map(|target| {
            target.notes().iter().map(|note| format!("{}: {note}", target.path().display()))
        });
        of_each.chain(self.shared_devices())
    }

    /// Returns the number of distinct devices that contain the disks; it is lower than the number
    /// of disks if some share a device.
    pub fn devices(&self) -> usize {
        let (known, unknown) = self.by_device();
        known.len() + unknown
    }

    /// Groups the disks by device; also returns the number of disks whose device is unknown.
    fn by_device(&self) -> (BTreeMap<DeviceNumber, Vec<&Path>>, usize) {
        let (mut known, mut unknown) = (BTreeMap::<_, Vec<&Path>>::new(), 0);
        for target in &self.targets {
            match target.device() {
                Some(device) => known.entry(device).or_default().push(target.path()),
                None => unknown += 1,
            }
        }
        (known, unknown)
    }

    /// Describes which disks share a device, in one sentence for each device.
    fn shared_devices(&self) -> Vec<String> {
        let shared = self.by_device().0.into_iter().filter(|(_, paths)| paths.len() > 1);
        let said = shared.map(|(device, paths)| {
            let paths: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
            format!(
                "{} are on one device ({}): if it fails, all of them are lost, and each one slows \
                 down the others; use a separate device for each disk",
                paths.join(", "),
                device
            )
        });
        said.collect()
    }
}

/// Options for opening the disks of a store.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiskOptions {
    /// Whether one disk may be missing.
    pub may_miss: bool,
    /// Whether to open the disks read-only.
    pub read_only: bool,
}

/// Returns the file or device that a user's path refers to.
fn file(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(FILE) } else { path.to_path_buf() }
}

fn enough(paths: &[PathBuf]) -> Result<(), StoreError> {
    if (DISKS_MIN..=DISKS_MAX).contains(&paths.len()) {
        return Ok(());
    }
    Err(StoreError::Store(format!(
        "got {} disk{}, expected {DISKS_MIN} to {DISKS_MAX}: one ingests, one is read, one is \
         written",
        paths.len(),
        if paths.len() == 1 { "" } else { "s" }
    )))
}

/// Creates a store with a fixed number of bytes on each of these disks: new files, given by name or
/// by folder, or block devices with `overwrite`.
///
/// # Errors
/// A disk cannot be used, contains data, or is too small.
pub fn create(
    paths: &[PathBuf],
    capacity_bytes: u64,
    config: &Config,
    overwrite: bool,
) -> Result<Disks, StoreError> {
    enough(paths)?;
    let paths: Vec<PathBuf> = paths.iter().map(|path| file(path)).collect();
    for (at, path) in paths.iter().enumerate() {
        if paths[..at].contains(path) {
            return Err(StoreError::disk(path, "is named twice, expected each disk once"));
        }
        if path.exists() && !overwrite {
            return Err(StoreError::disk(path, already_there()));
        }
    }
    // The length is set once the file is locked.
    let how = TargetOptions { writes: true, overwrite: true, need_bytes: 0, direct: true };
    let mut targets: Vec<Target> = Vec::new();
    let made = paths.iter().try_for_each(|path| -> Result<(), StoreError> {
        let target = Target::open(path, how)?;
        if let Some(other) = targets.iter().find(|other| other.is_same(path)) {
            let what =
                format!("is the same disk as {}; specify each disk once", other.path().display());
            return Err(StoreError::disk(path, what));
        }
        targets.push(target);
        Ok(())
    });
    let made = made.and_then(|()| targets.iter().try_for_each(lock));
    let begun = made.and_then(|()| {
        targets.iter_mut().try_for_each(|target| target.reserve(capacity_bytes))?;
        let least = targets.iter().map(Target::capacity_bytes).min().unwrap_or(0);
        let layouts = Layout::all(name(), targets.len() as u16, least, config);
        if !layouts[0].is_sound() {
            let need = layouts[0].segments_at() + (1 << 20);
            let what = format!(
                "the smallest disk has {least} bytes; a store needs {need} or more on each"
            );
            return Err(StoreError::Store(what));
        }
        layouts.iter().zip(&targets).try_for_each(|(layout, target)| begin(layout, target))?;
        Ok(layouts)
    });
    match begun {
        Ok(layouts) => Ok(Disks { layouts, missing: None, targets }),
        Err(error) => {
            // Remove incomplete files.
            targets.into_iter().for_each(Target::discard);
            Err(error)
        }
    }
}

/// Writes zeros to the areas for roots and logs, which allocates their space and erases older data,
/// and then the initial content.
fn begin(layout: &Layout, target: &Target) -> Result<(), StoreError> {
    let refused = |error: io::Error| StoreError::disk(target.path(), error.to_string());
    let disk = File::options().write(true).open(target.path()).map_err(refused)?;
    let zeros = vec![0; 1 << 20];
    let mut at = 0;
    while at < layout.segments_at() {
        let len = (layout.segments_at() - at).min(zeros.len() as u64);
        disk.write_all_at(&zeros[..len as usize], at).map_err(refused)?;
        at += len;
    }
    disk.sync_all().map_err(refused)?;
    for (at, bytes) in layout.blank() {
        disk.write_all_at(&bytes, at).map_err(refused)?;
    }
    disk.sync_all().map_err(refused)
}

/// Returns an id for a new store, derived from the time and the process id so that it is unique.
fn name() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seed = since.as_nanos() as u64 ^ u64::from(std::process::id()) << 40;
    checksum(&seed.to_le_bytes())
}

/// Reads the layouts from the disks' labels. A disk without a label at the usual positions is also
/// searched at the position of the other disks' last label.
fn layouts(paths: &[PathBuf]) -> Result<Vec<Layout>, StoreError> {
    let found = paths.iter().map(|path| label(path, None)).collect::<Result<Vec<_>, _>>()?;
    let last = found.iter().flatten().map(Layout::last_block_at).next();
    let found = paths.iter().zip(found).map(|(path, found)| {
        match found {
        Some(layout) => Ok(layout),
        None => label(path, last)?.ok_or_else(|| {
            let what =
                "has no Forebay label; expected a disk of a store (forebay store create creates \
                 one)";
            StoreError::disk(path, what)
        }),
    }
    });
    found.collect()
}

/// Reads the label of a disk. If the usual positions contain no label, position `at` and the last
/// block are searched.
fn label(path: &Path, at: Option<u64>) -> Result<Option<Layout>, StoreError> {
    let disk =
        File::open(path).map_err(|source| StoreError::File { path: path.to_path_buf(), source })?;
    let (mut bytes, block) = (vec![0; BLOCK], BLOCK as u64);
    let end = (&disk).seek(SeekFrom::End(0)).unwrap_or(0);
    let last = (end / block).checked_sub(1).map(|last| last * block);
    for at in [Some(0), Some(block), at, last].into_iter().flatten() {
        // An unreadable label is skipped because another one may be readable.
        if disk.read_exact_at(&mut bytes, at).is_err() {
            continue;
        }
        match Layout::parse(&bytes) {
            Some(Ok(layout)) => return Ok(Some(layout)),
            Some(Err(format)) => return Err(StoreError::disk(path, unreadable_format(format))),
            None => {}
        }
    }
    Ok(None)
}

fn unreadable_format(format: u64) -> String {
    let made_by = if format < Layout::FORMAT_MIN { "an older" } else { "a newer" };
    format!(
        "was made by {made_by} Forebay, format {format}; this one reads formats {} to {}, so \
         serve it with the version that created it",
        Layout::FORMAT_MIN,
        Layout::FORMAT
    )
}

/// Returns whether a user's path refers to the same file or device as one of these disks, by any
/// name.
pub fn is_among(path: &Path, disks: &[PathBuf]) -> bool {
    let real = |path: &Path| std::fs::canonicalize(file(path)).ok();
    let new = real(path);
    new.is_some() && disks.iter().any(|disk| real(disk) == new)
}

/// A new disk that can replace a lost one: it is large enough and still empty. Dropping it removes
/// a file created for it.
pub struct Spare {
    target: Option<Target>,
    layout: Layout,
}

impl Spare {
    /// Opens a new file, or a block device with `overwrite`, for a disk with this layout.
    ///
    /// # Errors
    /// The file or device cannot be used, contains data, or is too small.
    pub fn find(path: &Path, layout: Layout, overwrite: bool) -> Result<Spare, StoreError> {
        let path = &file(path);
        if path.exists() && !overwrite {
            return Err(StoreError::disk(path, already_there()));
        }
        let need_bytes = layout.capacity_bytes;
        let how = TargetOptions { writes: true, overwrite: true, need_bytes: 0, direct: true };
        let layout = Layout { is_labelled_at_end: true, ..layout };
        let mut spare = Spare { target: Some(Target::open(path, how)?), layout };
        let Some(target) = &mut spare.target else { return Ok(spare) };
        lock(target)?;
        target.reserve(need_bytes)?;
        let got = target.capacity_bytes();
        if got < need_bytes {
            return Err(StoreError::disk(
                path,
                format!("has {got} bytes; the store needs {need_bytes}"),
            ));
        }
        Ok(spare)
    }

    /// Makes the spare a disk of the store.
    ///
    /// # Errors
    /// The spare cannot be written.
    pub fn begin(mut self) -> Result<(), StoreError> {
        match &self.target {
            Some(target) => begin(&self.layout, target)?,
            None => return Ok(()),
        }
        self.target = None;
        Ok(())
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        if let Some(target) = self.target.take() {
            target.discard();
        }
    }
}

/// Opens and locks all disks of a store.
///
/// # Errors
/// Returns a [`StoreError`] that names a disk that is foreign, of another store, too short or a
/// duplicate, or states how many are missing.
pub fn find(paths: &[PathBuf]) -> Result<Disks, StoreError> {
    open_disks(paths, DiskOptions::default())
}

/// Opens and locks the disks of a store.
///
/// # Errors
/// Fails like [`find`], or if more disks are missing than permitted.
pub fn open_disks(paths: &[PathBuf], options: DiskOptions) -> Result<Disks, StoreError> {
    let paths: Vec<PathBuf> = paths.iter().map(|path| file(path)).collect();
    let mut found: Vec<(PathBuf, Layout)> = Vec::new();
    let layouts_found = layouts(&paths)?;
    for (path, layout) in paths.into_iter().zip(layouts_found) {
        if let Some((first, other)) = found.first()
            && !layout.is_like(other)
        {
            let what = format!(
                "is a disk of store {:016x}, but {} is one of store {:016x}; specify the disks of \
                 a single store",
                layout.store,
                first.display(),
                other.store
            );
            return Err(StoreError::disk(&path, what));
        }
        if let Some((other, _)) = found.iter().find(|(_, other)| other.disk == layout.disk) {
            let what = format!(
                "is disk {} of the store, and so is {}: one of them is a copy; specify only one of them",
                layout.disk + 1,
                other.display()
            );
            return Err(StoreError::disk(&path, what));
        }
        found.push((path, layout));
    }
    let Some((_, first)) = found.first() else {
        return Err(StoreError::Store(
            "no disks are specified; expected the disks of a store".into(),
        ));
    };
    let (disks, least) =
        (usize::from(first.disks), usize::from(first.disks) - usize::from(options.may_miss));
    if found.len() < least {
        let what = match options.may_miss {
            true => "and only one may be missing".to_string(),
            false => format!(
                "and it needs all of them; {} reads the rest if one is missing",
                named("without_disk=true")
            ),
        };
        return Err(StoreError::Store(format!(
            "store {:016x}: {} of its {disks} disks {} named, {what}; nothing was written",
            first.store,
            found.len(),
            if found.len() == 1 { "is" } else { "are" },
        )));
    }
    let is_there = |disk: &usize| found.iter().any(|(_, layout)| usize::from(layout.disk) == *disk);
    let missing = (0..disks).find(|disk| !is_there(disk));
    let mut layouts: Vec<Layout> = (0..first.disks).map(|disk| Layout { disk, ..*first }).collect();
    found.sort_by_key(|(_, layout)| layout.disk);
    let writes = !options.read_only;
    let how = TargetOptions { writes, overwrite: true, need_bytes: 0, direct: true };
    let mut targets = Vec::new();
    for (path, layout) in found {
        let target = Target::open(&path, how)?;
        if target.capacity_bytes() < layout.capacity_bytes {
            let what = format!(
                "has {} bytes; the store needs {} of it. Leave it out: {} reads the data on the \
                 others",
                target.capacity_bytes(),
                layout.capacity_bytes,
                named("without_disk=true")
            );
            return Err(StoreError::disk(&path, what));
        }
        lock(&target)?;
        layouts[usize::from(layout.disk)] = layout;
        targets.push(target);
    }
    Ok(Disks { layouts, missing, targets })
}

/// Locks a disk.
fn lock(target: &Target) -> Result<(), StoreError> {
    if target.lock(true)? {
        return Ok(());
    }
    Err(StoreError::disk(target.path(), "is in use by another process; nothing was written"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn made(root: &Path) -> Vec<PathBuf> {
        let paths: Vec<PathBuf> = (0..4).map(|disk| root.join(format!("disk{disk}"))).collect();
        let config = Config { log_bytes: 200_000, tunes: false, ..Config::default() };
        drop(create(&paths, 16 << 20, &config, false).unwrap());
        paths
    }

    fn zero(path: &Path, from: u64, len: usize) {
        let disk = File::options().write(true).open(path).unwrap();
        disk.write_all_at(&vec![0; len], from).unwrap();
    }

    fn told(paths: &[PathBuf]) -> String {
        open_disks(paths, DiskOptions::default())
            .err()
            .map_or_else(String::new, |error| error.to_string())
    }

    #[test]
    fn a_label_is_found_wherever_one_is_left() {
        let root = tempfile::tempdir().unwrap();
        let paths = made(root.path());
        let whole = find(&paths).unwrap().layouts;
        let last = whole[1].last_block_at();
        for (from, len) in [(0, 4096), (4096, 4096), (0, 8192), (last, 4096)] {
            let before = fs::read(&paths[1]).unwrap();
            zero(&paths[1], from, len);
            assert_eq!(find(&paths).unwrap().layouts, whole, "{len} bytes at {from}");
            fs::write(&paths[1], before).unwrap();
        }
        // The device is longer than the store, so the position of the last label is known only from
        // the other disks.
        zero(&paths[1], 0, 8192);
        File::options().write(true).open(&paths[1]).unwrap().set_len(20 << 20).unwrap();
        assert_eq!(find(&paths).unwrap().layouts, whole);
        zero(&paths[1], last, 4096);
        assert!(told(&paths).contains("disk1: has no Forebay label"), "{}", told(&paths));
    }

    #[test]
    fn a_store_of_another_format_is_named_by_it() {
        let root = tempfile::tempdir().unwrap();
        let paths = made(root.path());
        let (layout, whole) = (find(&paths).unwrap().layouts[2], fs::read(&paths[2]).unwrap());
        for (format, who) in [(3, "an older Forebay, format 3"), (6, "a newer Forebay, format 6")] {
            let mut label = layout.label();
            label[48..56].copy_from_slice(&u64::to_le_bytes(format));
            let sum = checksum(&label[8..48 + 48]);
            label[..8].copy_from_slice(&sum.to_le_bytes());
            let disk = File::options().write(true).open(&paths[2]).unwrap();
            disk.write_all_at(&label, 0).unwrap();
            assert!(told(&paths).contains(who), "{}", told(&paths));
            fs::write(&paths[2], &whole).unwrap();
        }
    }

    #[test]
    fn disks_on_one_device_are_reported() {
        let root = tempfile::tempdir().unwrap();
        let disks = find(&made(root.path())).unwrap();
        let notes: Vec<String> = disks.notes().filter(|note| note.contains("one device")).collect();
        assert_eq!((notes.len(), disks.devices()), (1, 1));
        for disk in ["disk0", "disk1", "disk2", "disk3"] {
            assert!(notes[0].contains(disk), "{notes:?}");
        }
    }
}
