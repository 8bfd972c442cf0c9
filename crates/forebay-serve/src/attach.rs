//! Connects an export to the kernel's nbd driver, and reconnects it after the server is restarted.
//!
//! The kernel repeats outstanding requests on the new connection. The driver records which export a
//! device is connected to (its backend); this prevents a device from being connected to another
//! server.

// Allowed because this module starts a thread.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod client;
mod netlink;

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::devices::is_used;
use crate::error::{Error, unfit};
use crate::{Address, kernel_scheduler};
use client::{Connected, Described, connect};
use netlink::{Attributes, Family};

const CONNECT: u8 = 1;
const DISCONNECT: u8 = 2;
const RECONFIGURE: u8 = 3;

mod attribute {
    pub(super) const INDEX: u16 = 1;
    pub(super) const SIZE_BYTES: u16 = 2;
    pub(super) const BLOCK_SIZE_BYTES: u16 = 3;
    pub(super) const TIMEOUT_S: u16 = 4;
    pub(super) const SERVER_FLAGS: u16 = 5;
    pub(super) const SOCKETS: u16 = 7;
    pub(super) const DEAD_CONNECTION_TIMEOUT_S: u16 = 8;
    pub(super) const BACKEND: u16 = 10;
    pub(super) const SOCKET: u16 = 1;
    pub(super) const SOCKET_FD: u16 = 1;
}

/// How long the driver may take to notice that a connection has ended. Until then, it would ignore
/// a new connection.
const NOTICE: Duration = Duration::from_millis(200);

/// How much longer than a request's timeout a device may make no progress.
const STALL: Duration = Duration::from_secs(2);

/// A connection to make between a device and an export.
#[derive(Clone, Debug)]
pub struct Attach {
    /// The address of the server.
    pub server: Address,
    /// The name of the export.
    pub export: String,
    /// The device, such as `/dev/nbd0`.
    pub device: PathBuf,
    /// How long a request may take before it is repeated on a new connection, in seconds.
    pub timeout_s: u64,
    /// How long requests wait for a server that is gone before they fail, in seconds.
    pub wait_s: u64,
}

/// A device that is connected to an export.
pub struct Attached {
    asked: Attach,
    index: u32,
    driver: Family,
    export: Described,
    /// The connection, which is shared with the kernel; None while there is no server.
    socket: Option<OwnedFd>,
    /// When the connection ended.
    lost: Instant,
    /// Whether the user has already been notified that there is no server.
    is_reported: bool,
    progress: Progress,
    /// The thread that sets the scheduler; the kernel makes it wait for outstanding requests.
    scheduling: Option<JoinHandle<io::Result<()>>>,
}

/// When a device last completed a request or had none outstanding.
struct Progress {
    completed: u64,
    at: Instant,
}

impl Progress {
    fn new() -> Progress {
        Progress { completed: 0, at: Instant::now() }
    }

    /// Returns how long a device has completed nothing although requests are outstanding. `stat` is
    /// the content of the device's `stat` file in sysfs.
    fn stalled(&mut self, stat: &str) -> Duration {
        let number = |nth| stat.split_whitespace().nth(nth).and_then(|word| word.parse().ok());
        // The numbers of completed reads, writes, discards and flushes.
        let completed = [0, 4, 11, 15].map(|nth| number(nth).unwrap_or(0)).iter().sum();
        if number(8).unwrap_or(0) == 0 || completed != self.completed {
            *self = Progress { completed, at: Instant::now() };
        }
        self.at.elapsed()
    }
}

/// What happened to a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttachEvent {
    /// No change.
    Nothing,
    /// A message for the user.
    Said(String),
    /// Another process disconnected the device.
    Over,
}

impl Attach {
    /// Connects the device. If an earlier process was killed and left the device connected to this
    /// export, only continues to reconnect it.
    ///
    /// # Errors
    /// Returns one message that says what to do.
    pub fn begin(self) -> Result<Attached, Error> {
        let index = number(&self.device)?;
        let mut driver = open()?;
        let backend = self.backend();
        if is_connected(index) && backend_of(index).as_deref() == Some(&backend) {
            let shown = self.device.display();
            let export = sizes_of(index)
                .ok_or_else(|| unfit(format!("{shown}: its size cannot be read in /sys/block")))?;
            return Ok(Attached::new(self, index, driver, export));
        }
        let Connected { socket, export } =
            connect(&self.server, &self.export).map_err(|error| {
                unfit(format!(
                    "{}: no connection: {error}; expected the address of `forebay serve`",
                    self.server
                ))
            })?;
        let attributes = sockets(Attributes::default(), &socket)
            .with_u32(attribute::INDEX, index)
            .with_u64(attribute::SIZE_BYTES, export.bytes)
            .with_u64(attribute::BLOCK_SIZE_BYTES, u64::from(export.block_bytes))
            .with_u64(attribute::SERVER_FLAGS, u64::from(export.flags))
            .with_u64(attribute::TIMEOUT_S, self.timeout_s)
            .with_u64(attribute::DEAD_CONNECTION_TIMEOUT_S, self.wait_s)
            .with_text(attribute::BACKEND, &backend);
        let shown = self.device.display();
        driver.send(CONNECT, &attributes).map_err(|error| match error.kind() {
            ErrorKind::ResourceBusy => {
                unfit(format!("{shown}: is in use; choose another device, or detach it first"))
            }
            _ => refused(&self.device, &error),
        })?;
        let scheduling = thread::spawn(move || kernel_scheduler::disable(&format!("nbd{index}")));
        let attached = Attached::new(self, index, driver, export);
        Ok(Attached { socket: Some(socket), scheduling: Some(scheduling), ..attached })
    }

    /// Returns the name by which the driver identifies the export.
    fn backend(&self) -> String {
        let server = match &self.server {
            // The socket need not exist while there is no server, so only the path of its folder is
            // resolved.
            Address::Unix(path) => Address::Unix(match (path.parent(), path.file_name()) {
                (Some(folder), Some(name)) => {
                    let folder = if folder == Path::new("") { Path::new(".") } else { folder };
                    folder.canonicalize().map_or_else(|_| path.clone(), |folder| folder.join(name))
                }
                _ => path.clone(),
            }),
            tcp => tcp.clone(),
        };
        format!("forebay {server} {}", self.export)
    }
}

impl Attached {
    /// Creates the description of a device without a connection.
    fn new(asked: Attach, index: u32, driver: Family, export: Described) -> Attached {
        let (lost, progress) = (Instant::now(), Progress::new());
        Attached {
            asked,
            index,
            driver,
            export,
            socket: None,
            lost,
            is_reported: false,
            progress,
            scheduling: None,
        }
    }

    /// Waits for at most `tick`, and reconnects the device if its connection has ended.
    ///
    /// # Errors
    /// The export has changed, or the driver rejected the new connection.
    pub fn turn(&mut self, tick: Duration) -> Result<AttachEvent, Error> {
        if !is_connected(self.index) {
            return Ok(AttachEvent::Over);
        }
        if let Some(error) = self.not_scheduled() {
            return Ok(AttachEvent::Said(format!(
                "{}: the kernel's scheduler stays above the policy, because it cannot be set: {error}",
                self.asked.device.display()
            )));
        }
        let ended = self.socket.as_ref().map(|socket| has_ended(socket, tick));
        if let Some(ended) = ended {
            if !ended && !self.is_stalled() {
                return Ok(AttachEvent::Nothing);
            }
            (self.socket, self.lost, self.is_reported) = (None, Instant::now(), false);
            return Ok(AttachEvent::Nothing);
        }
        thread::sleep(tick);
        match self.lost.elapsed() < NOTICE {
            true => Ok(AttachEvent::Nothing),
            false => self.reconnect(),
        }
    }

    /// Gives the driver a new connection if the server accepts connections again.
    fn reconnect(&mut self) -> Result<AttachEvent, Error> {
        let shown = self.asked.device.display();
        let Ok(Connected { socket, export }) = connect(&self.asked.server, &self.asked.export)
        else {
            let said = format!("{shown}: its server does not answer; requests wait");
            let is_reported = std::mem::replace(&mut self.is_reported, true);
            return Ok(if is_reported { AttachEvent::Nothing } else { AttachEvent::Said(said) });
        };
        if export.bytes != self.export.bytes || export.block_bytes != self.export.block_bytes {
            return Err(unfit(format!(
                "{shown}: its export has {} bytes in blocks of {} now, expected {} in blocks of {}, as before; \
                 restore them or detach the device",
                export.bytes, export.block_bytes, self.export.bytes, self.export.block_bytes
            )));
        }
        let attributes = sockets(Attributes::default(), &socket)
            .with_u32(attribute::INDEX, self.index)
            .with_text(attribute::BACKEND, &self.asked.backend());
        self.driver
            .send(RECONFIGURE, &attributes)
            .map_err(|error| refused(&self.asked.device, &error))?;
        (self.socket, self.progress) = (Some(socket), Progress::new());
        Ok(AttachEvent::Said(format!("{shown}: connected again")))
    }

    /// Returns the reason if the scheduler could not be set.
    fn not_scheduled(&mut self) -> Option<io::Error> {
        self.scheduling.take_if(|thread| thread.is_finished())?.join().ok()?.err()
    }

    /// Returns whether requests have been outstanding for so long that the driver must have given
    /// up its connection. The driver does not report this, and it ignores a new connection while it
    /// has a working one.
    fn is_stalled(&mut self) -> bool {
        let stat = fs::read_to_string(format!("/sys/block/nbd{}/stat", self.index));
        let most = Duration::from_secs(self.asked.timeout_s) + STALL;
        self.progress.stalled(&stat.unwrap_or_default()) > most
    }

    /// Disconnects the device, unless a file system uses it; in that case, returns a sentence for
    /// the user.
    ///
    /// # Errors
    /// The driver refuses.
    pub fn end(mut self) -> Result<Option<String>, Error> {
        let device = &self.asked.device;
        if is_used(device) {
            return Ok(Some(format!(
                "{}: is in use, for example mounted, and stays connected; run the same command \
                 again to have it reconnected when its server restarts",
                device.display()
            )));
        }
        disconnect(&mut self.driver, self.index).map_err(|error| refused(device, &error))?;
        Ok(None)
    }
}

/// Disconnects a device of the kernel's nbd driver.
///
/// # Errors
/// The device is in use or not connected, or this machine does not permit disconnecting it.
pub(crate) fn detach(device: &Path) -> Result<(), Error> {
    let (index, shown) = (number(device)?, device.display());
    let mut driver = open()?;
    if !is_connected(index) {
        return Err(unfit(format!("{shown}: is not connected")));
    }
    if is_used(device) {
        return Err(unfit(format!("{shown}: is in use, for example mounted; unmount it first")));
    }
    disconnect(&mut driver, index).map_err(|error| refused(device, &error))
}

fn disconnect(driver: &mut Family, index: u32) -> io::Result<()> {
    driver.send(DISCONNECT, &Attributes::default().with_u32(attribute::INDEX, index)).map(drop)
}

fn sockets(attributes: Attributes, socket: &OwnedFd) -> Attributes {
    let fd = Attributes::default().with_u32(attribute::SOCKET_FD, socket.as_raw_fd() as u32);
    let one = Attributes::default().with_nested(attribute::SOCKET, &fd);
    attributes.with_nested(attribute::SOCKETS, &one)
}

fn open() -> Result<Family, Error> {
    Family::open("nbd").map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            unfit("the kernel's nbd driver is not loaded; load it with `modprobe nbd`")
        }
        _ => unfit(format!("the kernel's nbd driver cannot be reached: {error}")),
    })
}

fn refused(device: &Path, error: &io::Error) -> Error {
    let shown = device.display();
    unfit(match error.kind() {
        ErrorKind::PermissionDenied => {
            format!("{shown}: permission denied; devices need root, so run it with sudo")
        }
        _ => format!("{shown}: the kernel's nbd driver refuses: {error}"),
    })
}

/// Returns the number of a device.
fn number(device: &Path) -> Result<u32, Error> {
    let number = device.to_str().and_then(|name| name.strip_prefix("/dev/nbd")?.parse().ok());
    number.ok_or_else(|| {
        unfit(format!(
            "{}: expected a device of the nbd driver, such as /dev/nbd0",
            device.display()
        ))
    })
}

/// Returns whether a device is connected.
fn is_connected(index: u32) -> bool {
    Path::new(&format!("/sys/block/nbd{index}/pid")).exists()
}

/// Returns the export that a device is connected to.
fn backend_of(index: u32) -> Option<String> {
    let text = fs::read_to_string(format!("/sys/block/nbd{index}/backend")).ok()?;
    Some(text.trim_end_matches('\n').to_string())
}

/// Returns the size and the block size of a device.
fn sizes_of(index: u32) -> Option<Described> {
    let number = |file: &str| {
        let text = fs::read_to_string(format!("/sys/block/nbd{index}/{file}")).ok()?;
        text.trim_end().parse::<u64>().ok()
    };
    let block_bytes = number("queue/logical_block_size")? as u32;
    Some(Described { bytes: number("size")? * 512, flags: 0, block_bytes })
}

/// Waits for at most `tick` until the other side closes a connection.
fn has_ended(socket: &OwnedFd, tick: Duration) -> bool {
    let mut ends = [PollFd::new(socket, PollFlags::RDHUP)];
    let span = Timespec { tv_sec: tick.as_secs() as i64, tv_nsec: i64::from(tick.subsec_nanos()) };
    // A signal ends the wait early, which does not matter.
    poll(&mut ends, Some(&span)).is_ok_and(|count| count > 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_device_is_named_by_its_path() {
        assert_eq!(number(Path::new("/dev/nbd12")).unwrap(), 12);
        for other in ["/dev/sda", "/dev/nbd", "/dev/nbd0p1", "nbd0"] {
            let said = number(Path::new(other)).unwrap_err().to_string();
            assert!(said.contains("such as /dev/nbd0"), "{said}");
        }
    }

    #[test]
    fn a_device_counts_as_stalled_only_with_requests_outstanding() {
        let mut progress = Progress::new();
        let stat = |reads: u64, outstanding| format!("{reads} 0 8 1 2 0 0 0 {outstanding} 0 0\n");
        let earlier = Instant::now() - Duration::from_secs(60);
        for (reads, outstanding, stalls) in
            [(0, 1, false), (0, 1, true), (1, 1, false), (1, 0, false)]
        {
            progress.at = earlier;
            let stalled = progress.stalled(&stat(reads, outstanding));
            assert_eq!(stalled > Duration::from_secs(30), stalls, "{reads} {outstanding}");
        }
    }

    #[test]
    fn the_end_of_a_connection_is_noticed() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let ours = OwnedFd::from(ours);
        assert!(!has_ended(&ours, Duration::from_millis(1)));
        drop(theirs);
        assert!(has_ended(&ours, Duration::from_secs(10)));
    }
}
