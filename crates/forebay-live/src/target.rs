//! Targets: the files and block devices on which I/O is performed.
//!
//! Existing data is overwritten only if the user permits it, nothing is written if the workload
//! only reads, and nothing is ever written to a block device in use or to a file used by a loop
//! device or as swap. Missing files are created with the necessary length, but not among devices,
//! where a misspelled name would become a file in memory.
//!
//! Drivers derive the bounds of their buffers from the block size and the capacity, so these cannot
//! be changed from outside.

mod device;
mod in_use;
mod place;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use forebay_ask::named;
use rustix::fs::{
    FallocateFlags, FlockOperation, OFlags, fallocate, fstatvfs, ioctl_blksszget, major, minor,
};
use rustix::io::Errno;

use crate::Store;
use crate::memory::{ALIGN, Memory};
use crate::wire::Shape;

pub use device::DeviceNumber;

/// The minimum length of a target in bytes; a shorter one is assumed to be a mistake.
const CAPACITY_MIN: u64 = 4096;
/// The lengths of created files are multiples of this.
const GRAIN: u64 = 1 << 20;
/// How long to wait for a lock, and the interval between attempts. The kernel takes tens of
/// milliseconds to release the ring of a killed process, and longer on a busy machine.
const LOCK_WAIT: Duration = Duration::from_secs(2);
const LOCK_PAUSE: Duration = Duration::from_millis(10);
/// The beginning of the note for a file whose space could not be reserved.
const SPARSE: &str = "created as a sparse file";
/// The block sizes that direct I/O may require.
const BLOCKS: [u32; 2] = [512, 4096];

/// The kind of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// A file that existed before.
    File,
    /// A file that was created for this run.
    Created,
    /// A block device.
    BlockDevice,
}

/// How to open a target.
#[derive(Clone, Copy, Debug)]
pub struct TargetOptions {
    /// Whether the target will be written to.
    pub writes: bool,
    /// Whether existing data may be overwritten.
    pub overwrite: bool,
    /// The length in bytes that a created file must have at least.
    pub need_bytes: u64,
    /// Whether to bypass the page cache if possible.
    pub direct: bool,
}

/// Why a target cannot be used, as a single message for the user.
#[derive(Debug, thiserror::Error)]
#[error("{}: {what}", path.display())]
pub struct TargetError {
    /// The path of the target.
    pub path: PathBuf,
    /// The problem and what to do about it.
    pub what: String,
    /// Whether something else uses the target, so that it must not be written to.
    pub is_in_use: bool,
}

/// An open target.
#[derive(Debug)]
pub struct Target {
    file: File,
    path: PathBuf,
    kind: TargetKind,
    capacity_bytes: u64,
    block_bytes: Option<u32>,
    notes: Vec<String>,
}

impl Target {
    /// Opens the target at `path`, or creates it.
    ///
    /// # Errors
    /// [`TargetError`] if the target is unsuitable, must not be overwritten, or is refused by the
    /// system.
    pub fn open(path: &Path, how: TargetOptions) -> Result<Target, TargetError> {
        let wrong = |what: String| TargetError { path: path.to_path_buf(), what, is_in_use: false };
        let in_use = |what: String| TargetError { is_in_use: true, ..wrong(what) };
        let kind = Target::inspect(path, how)?;
        let mut notes = Vec::new();
        if kind == TargetKind::Created {
            place::refuse_devices(path).map_err(wrong)?;
            create(path, how.need_bytes, &mut notes).map_err(wrong)?;
        }
        let (file, block_bytes) =
            open(path, kind, how, &mut notes).map_err(|refused| match refused {
                Refusal::InUse(what) => in_use(what),
                Refusal::Other(what) => wrong(what),
            })?;
        let end = (&file).seek(SeekFrom::End(0)).map_err(|error| wrong(error.to_string()))?;
        let block = u64::from(block_bytes.unwrap_or(1));
        let capacity_bytes = end / block * block;
        if capacity_bytes < CAPACITY_MIN {
            let what = format!("got {end} bytes, expected at least {CAPACITY_MIN}");
            return Err(wrong(format!("{what}; make it longer, or specify a different target")));
        }
        let path = path.to_path_buf();
        Ok(Target { file, path, kind, capacity_bytes, block_bytes, notes })
    }

    /// Returns what the target at `path` is, if it may be used; opens nothing.
    ///
    /// # Errors
    /// [`Target::open`] would refuse the target.
    pub fn inspect(path: &Path, how: TargetOptions) -> Result<TargetKind, TargetError> {
        let wrong = |what: String| TargetError { path: path.to_path_buf(), what, is_in_use: false };
        let found = match fs::metadata(path) {
            Ok(found) => found,
            Err(_) if path.is_symlink() => {
                return Err(wrong("is a dangling symbolic link; specify the file itself".into()));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(TargetKind::Created);
            }
            Err(error) => return Err(wrong(error.to_string())),
        };
        let kind = kind_of(&found, how).map_err(wrong)?;
        if how.writes {
            let refused = match kind {
                TargetKind::BlockDevice => in_use::refuse_device(&found),
                _ => in_use::refuse(&found),
            };
            refused.map_err(|what| TargetError { is_in_use: true, ..wrong(what) })?;
        }
        Ok(kind)
    }

    /// Returns the path that the user gave.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the kind of the target.
    pub fn kind(&self) -> TargetKind {
        self.kind
    }

    /// Returns the capacity in bytes, a multiple of the block size.
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// Returns the block size for direct I/O, or `None` if I/O goes through the page cache.
    pub fn block_bytes(&self) -> Option<u32> {
        self.block_bytes
    }

    /// Returns whether a file occupies less than half of its length on disk, so that most reads
    /// would come from holes; false for a device.
    pub fn is_sparse(&self) -> bool {
        self.kind != TargetKind::BlockDevice
            && self.file.metadata().is_ok_and(|found| found.blocks() * 1024 < found.len())
    }

    /// Returns notes for the user, one sentence each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Locks the target against other processes until it is dropped: writers exclude everyone,
    /// readers exclude writers. Returns whether this succeeded. Retries for a short time, because
    /// the files of a killed process stay locked until the kernel has released its ring.
    ///
    /// # Errors
    /// The system does not support locks on the target.
    pub fn lock(&self, writes: bool) -> io::Result<bool> {
        let how = match writes {
            true => FlockOperation::NonBlockingLockExclusive,
            false => FlockOperation::NonBlockingLockShared,
        };
        let until = Instant::now() + LOCK_WAIT;
        loop {
            match rustix::fs::flock(&self.file, how) {
                Ok(()) => return Ok(true),
                Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < until => {
                    thread::sleep(LOCK_PAUSE);
                }
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Adds a note for the user.
    pub fn note(&mut self, sentence: String) {
        self.notes.push(sentence);
    }

    /// Duplicates the open file, so that its allocation can be queried while a driver uses the
    /// target.
    ///
    /// # Errors
    /// The system is out of file descriptors.
    pub fn duplicate(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Returns whether the data is only in memory, so that copying it never blocks. (Such file
    /// systems do not support nonblocking I/O, and the kernel would perform each I/O on a thread.)
    pub(crate) fn is_in_memory(&self) -> bool {
        const MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];
        let found = rustix::fs::fstatfs(&self.file);
        self.kind != TargetKind::BlockDevice
            && found.is_ok_and(|found| MEMORY.contains(&found.f_type))
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    pub(crate) fn shape(&self) -> Shape {
        Shape { capacity: self.capacity_bytes, block: self.block_bytes.unwrap_or(1) }
    }

    /// Removes the file if it was created for this run.
    pub fn discard(self) {
        if self.kind == TargetKind::Created {
            // If removing fails, an unused file is left behind, which is harmless.
            let _ = fs::remove_file(&self.path);
        }
    }

    /// Makes a file, existing or new, this long and reserves its space; a block device keeps its
    /// size. Adds a note if the file system cannot reserve space.
    ///
    /// # Errors
    /// [`TargetError`] if there is no space; the file then has its previous length.
    pub fn reserve(&mut self, need_bytes: u64) -> Result<(), TargetError> {
        if self.kind == TargetKind::BlockDevice {
            return Ok(());
        }
        let len = need_bytes.max(CAPACITY_MIN).div_ceil(GRAIN).saturating_mul(GRAIN);
        let wrong = |what: String| TargetError { path: self.path.clone(), what, is_in_use: false };
        let is_set = set_aside(&self.file, len).map_err(wrong)?;
        self.notes.retain(|note| !note.starts_with(SPARSE));
        if !is_set {
            self.notes.push(format!(
                "the file system cannot reserve {len} bytes: writes fail when it is full"
            ));
        }
        // A grain is a multiple of every block size.
        self.capacity_bytes = len;
        Ok(())
    }

    /// Returns whether the target's path still refers to it. The file may have been moved or
    /// removed.
    pub fn is_in_place(&self) -> bool {
        self.is_same(&self.path)
    }

    /// Returns whether `path` refers to the same file or device, by any name.
    pub fn is_same(&self, path: &Path) -> bool {
        let (Ok(mine), Ok(other)) = (self.file.metadata(), fs::metadata(path)) else {
            return false;
        };
        match self.kind {
            TargetKind::BlockDevice => {
                other.file_type().is_block_device() && mine.rdev() == other.rdev()
            }
            _ => (mine.dev(), mine.ino()) == (other.dev(), other.ino()),
        }
    }
}

/// An emulated device can keep its data in a target, either through the page cache or, in whole
/// blocks, bypassing it.
impl Store for Target {
    fn read(&mut self, offset: u64, to: &mut [u8]) -> io::Result<()> {
        Store::read(&mut self.file, offset, to)
    }
    fn write(&mut self, offset: u64, from: &[u8], durable: bool) -> io::Result<()> {
        Store::write(&mut self.file, offset, from, durable)
    }
    fn trim(&mut self, offset: u64, len: u64) -> io::Result<()> {
        Store::trim(&mut self.file, offset, len)
    }
    fn flush(&mut self) -> io::Result<()> {
        Store::flush(&mut self.file)
    }
}

/// Returns the kind of an existing target if it may be used.
fn kind_of(found: &fs::Metadata, how: TargetOptions) -> Result<TargetKind, String> {
    let kind = found.file_type();
    let kind = match () {
        () if kind.is_dir() => {
            return Err("is a folder; name a file in it, or a block device".into());
        }
        () if kind.is_file() => TargetKind::File,
        () if kind.is_block_device() => TargetKind::BlockDevice,
        () => return Err("is neither a file nor a block device; specify one of these".into()),
    };
    if how.writes && kind == TargetKind::BlockDevice && is_read_only(found.rdev()) {
        // Without this check, opening would succeed and every write would fail.
        return Err("is read-only and the trace has writes".into());
    }
    if how.writes && !how.overwrite {
        let what = match kind {
            TargetKind::BlockDevice => "is a block device and the trace has writes",
            _ => "exists already and the trace has writes",
        };
        return Err(format!(
            "{what}, which destroy its contents; specify a new file, or pass {} to allow this",
            named("overwrite=true")
        ));
    }
    Ok(kind)
}

/// Returns whether the block device with this number is read-only.
fn is_read_only(device: u64) -> bool {
    let path = format!("/sys/dev/block/{}:{}/ro", major(device), minor(device));
    fs::read_to_string(path).is_ok_and(|text| text.trim() == "1")
}

/// Creates a file of `need` bytes. Its space is reserved if that leaves at least a tenth of the
/// file system's free space; otherwise, the file is sparse.
fn create(path: &Path, need: u64, notes: &mut Vec<String>) -> Result<(), String> {
    let len = need.max(CAPACITY_MIN).div_ceil(GRAIN).saturating_mul(GRAIN);
    let refused = |error: io::Error| {
        // The file has just been created and is empty, so it can be removed.
        let _ = fs::remove_file(path);
        format!(
            "cannot make it {len} bytes long, the extent of the trace: {error}; create a file \
             yourself and use {}",
            named("map=scale")
        )
    };
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    let file = file.map_err(|error| format!("cannot create it: {error}"))?;
    let room = fstatvfs(&file).map_or(0, |space| space.f_bavail.saturating_mul(space.f_frsize));
    let set_aside =
        room / 10 * 9 >= len && fallocate(&file, FallocateFlags::empty(), 0, len).is_ok();
    if !set_aside {
        file.set_len(len).map_err(refused)?;
        notes.push(format!("{SPARSE} of {len} bytes: writes may run out of space later"));
    }
    Ok(())
}

/// Sets the length of a file; returns whether the space for all of it was reserved. If there is not
/// enough space, the file does not change.
fn set_aside(file: &File, len: u64) -> Result<bool, String> {
    let cannot = |error: io::Error| format!("cannot make it {len} bytes long: {error}");
    let found = file.metadata().map_err(cannot)?;
    let room = fstatvfs(file).map(|space| space.f_bavail.saturating_mul(space.f_frsize));
    let room = room.map_err(|error| cannot(error.into()))?;
    let no_room = || format!("there is no space for {len} bytes: only {room} are free");
    // Checks this in advance, because an attempt could fill up the file system for a while.
    if len.saturating_sub(found.blocks().saturating_mul(512)) > room {
        return Err(no_room());
    }
    let is_set = match fallocate(file, FallocateFlags::empty(), 0, len) {
        Ok(()) => true,
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => false,
        Err(error) => {
            // Releases the reserved space; if this fails, the file is longer than before, which is
            // harmless.
            let _ = file.set_len(found.len());
            return Err(match error {
                Errno::NOSPC => no_room(),
                error => cannot(error.into()),
            });
        }
    };
    file.set_len(len).map_err(cannot)?;
    Ok(is_set)
}

/// The reason why a target is not opened.
enum Refusal {
    InUse(String),
    Other(String),
}

/// Opens a target, bypassing the page cache if requested and possible; returns the block size for
/// direct I/O.
fn open(
    path: &Path,
    kind: TargetKind,
    how: TargetOptions,
    notes: &mut Vec<String>,
) -> Result<(File, Option<u32>), Refusal> {
    // A block device that is mounted or part of another device is busy. This matters only to
    // writers.
    let exclusive = how.writes && kind == TargetKind::BlockDevice;
    let flags = if exclusive { OFlags::EXCL } else { OFlags::empty() };
    // The device of a killed process is busy until the kernel has released its ring.
    let until = Instant::now() + LOCK_WAIT;
    let open = |flags: OFlags| {
        let mut options = OpenOptions::new();
        options.read(true).write(how.writes).custom_flags(flags.bits() as i32);
        loop {
            match options.open(path) {
                Err(error)
                    if error.kind() == io::ErrorKind::ResourceBusy && Instant::now() < until =>
                {
                    thread::sleep(LOCK_PAUSE);
                }
                opened => return opened,
            }
        }
    };
    let said = |error: io::Error| match error.kind() {
        io::ErrorKind::ResourceBusy => Refusal::InUse(
            "is in use (mounted, or part of another device), so nothing is written to it".into(),
        ),
        _ if how.writes => Refusal::Other(format!("cannot be opened for writing: {error}")),
        _ => Refusal::Other(format!("cannot be opened: {error}")),
    };
    if how.direct {
        match open(flags | OFlags::DIRECT) {
            Ok(file) => {
                if let Some(block) = block_of(&file, kind) {
                    return Ok((file, Some(aligned(block).map_err(Refusal::Other)?)));
                }
            }
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            Err(error) => return Err(said(error)),
        }
        notes
            .push("the file system does not support direct I/O, so I/Os use the page cache".into());
    }
    Ok((open(flags).map_err(said)?, None))
}

/// Rejects a block size that exceeds the alignment of memory, because buffers are large enough for
/// I/Os widened to blocks only up to [`ALIGN`].
fn aligned(block: u32) -> Result<u32, String> {
    if block.is_power_of_two() && block as usize <= ALIGN {
        return Ok(block);
    }
    Err(format!(
        "has logical blocks of {block} bytes, expected a power of two up to {ALIGN}; go through the \
         page cache ({})",
        named("buffered=true")
    ))
}

/// Returns the block size for direct I/O on `file`: from the device, or the smallest that the file
/// supports.
fn block_of(file: &File, kind: TargetKind) -> Option<u32> {
    if kind == TargetKind::BlockDevice {
        return ioctl_blksszget(file).ok();
    }
    let mut memory = Memory::zeroed(BLOCKS[1] as usize);
    BLOCKS.into_iter().find(|&block| {
        // Reads from the second block, to test the alignment of the offset as well. Beyond the end
        // of the file, nothing is read.
        let read = file.read_at(&mut memory.bytes_mut()[..block as usize], u64::from(block));
        // Other errors do not matter here: a failing disk is reported later, when an I/O fails.
        !read.is_err_and(|error| error.raw_os_error() == Some(libc::EINVAL))
    })
}

#[cfg(test)]
mod tests {
    use forebay_core::{Flags, Nanos, Op, Request};

    use super::*;
    use crate::{Failure, Lanes, Threads, Uring};

    /// Returns a target that accepts writes but cannot make them durable: the system refuses to
    /// flush `/dev/null`.
    fn never_durable() -> Target {
        let file = File::options().read(true).write(true).open("/dev/null").unwrap();
        let (path, kind, block_bytes) = (PathBuf::from("/dev/null"), TargetKind::File, None);
        Target { file, path, kind, capacity_bytes: 1 << 20, block_bytes, notes: Vec::new() }
    }

    /// Performs an I/O of 0 bytes; returns why it failed, if it did.
    fn failure(lanes: &mut dyn Lanes, op: Op, flags: Flags) -> Option<Failure> {
        let (at, offset, len, lane) = (Nanos(0), 0, 0, 0);
        lanes.start(at, Request { at, offset, id: 1, len, stream: 0, lane, op, flags }, &[]);
        let mut ended = Vec::new();
        while ended.is_empty() {
            lanes.proceed(Nanos::MAX).unwrap();
            lanes.reap(Nanos::MAX, &mut ended).unwrap();
        }
        ended[0].failure
    }

    #[test]
    fn a_flush_that_fails_is_reported() {
        let refused = Some(Failure::Os(libc::EINVAL));
        let mut threads = Threads::new(vec![never_durable()], 2).unwrap();
        assert_eq!(failure(&mut threads, Op::Flush, Flags::NONE), refused);
        assert_eq!(failure(&mut threads, Op::Write, Flags::FUA), refused, "durable when answered");
        assert_eq!(failure(&mut threads, Op::Write, Flags::NONE), None);
        // If io_uring is not permitted, only threads are tested.
        if let Ok(mut uring) = Uring::new(vec![never_durable()], 2) {
            assert_eq!(failure(&mut uring, Op::Flush, Flags::NONE), refused);
        }
    }

    #[test]
    fn blocks_beyond_the_alignment_of_memory_are_refused() {
        assert_eq!([512, 4096].map(aligned), [Ok(512), Ok(4096)]);
        for block in [0, 1536, 8192, 65_536] {
            let said = aligned(block).unwrap_err();
            assert!(
                said.contains(&format!("{block} bytes")) && said.contains("buffered"),
                "{said}"
            );
        }
    }
}
