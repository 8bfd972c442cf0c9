//! Exports as block devices of this machine (ublk).
//!
//! The ublk driver remembers a device's mark, which is a hash of the device's disk and export. A
//! server that is restarted after being killed therefore finds its device without a record of its
//! own; the kernel holds outstanding requests until then. Only the devices of backs that answer a
//! write once it is on the disk can be taken over. Other backs may lose writes that were not
//! flushed, so their devices fail together with the server, and file systems see the error.

// Allowed because this module uses signals from other threads.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::fs::OpenOptions;
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use forebay_live::ublk::{Channel, Control, DeviceInfo, DeviceLimits, DeviceState};
use forebay_live::{Waker, checksum};
use rustix::fs::OFlags;

use crate::error::{Error, unfit};
use crate::front::{Attachment, Order};
use crate::{Export, attach, kernel_scheduler};

/// The maximum number of outstanding requests of a device.
const DEPTH: u16 = 128;
/// The maximum length of a write of zeros in bytes. It is lower than for trims, because a disk may
/// have to write actual zeros.
const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// The length of the longest discard in bytes.
const DISCARD_BYTES_MAX: u32 = 1 << 30;
/// The length of the longest write of zeros in bytes, which is lower because the zeros may have to
/// be written.
const ZEROES_BYTES_MAX: u32 = 32 << 20;
/// How long a killed server may take to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// An export that is to become a device.
pub(crate) struct Wanted {
    /// The name of the export's back.
    pub(crate) back: String,
    /// The index of the export in its back.
    pub(crate) at: usize,
    pub(crate) export: Export,
    /// The first file of the back.
    pub(crate) file: PathBuf,
    /// Whether another server can take the device over if this one is killed.
    pub(crate) recovers: bool,
}

/// The devices of a server.
pub(crate) struct Devices {
    control: Control,
    started: Vec<Started>,
}

/// A device that is being served.
struct Started {
    id: u32,
    recovers: bool,
    /// Whether the device has been removed, and only its number has yet to be freed.
    removed: bool,
}

/// The channel for orders to a back's driver, and the means to wake the driver.
pub(crate) struct Orders<'a>(pub(crate) &'a Sender<Order>, pub(crate) &'a Waker);

impl Devices {
    /// Checks that this machine supports such devices.
    ///
    /// # Errors
    /// Returns a message that says what to do.
    pub(crate) fn prepare() -> Result<Devices, Error> {
        let control = Control::open().map_err(|error| unfit(refused(&error)))?;
        Ok(Devices { control, started: Vec::new() })
    }

    /// Creates a device for an export, or takes over its device from a server that was killed.
    /// Returns a sentence for the user.
    ///
    /// # Errors
    /// Returns one message. The device then does not exist, or it continues to wait for a server.
    pub(crate) fn start(&mut self, wanted: &Wanted, orders: &Orders<'_>) -> Result<String, Error> {
        let limits = limits(&wanted.export)?;
        let mark = mark(&wanted.file, &wanted.export.name);
        let known = if wanted.recovers { self.find(mark) } else { None };
        let id = match known {
            Some(info) => self.take_over(&info, &limits, wanted, orders)?,
            None => self.add(&limits, mark, wanted, orders)?,
        };
        let name = format!("ublkb{id}");
        let scheduled = kernel_scheduler::disable(&name).map_err(|error| {
            format!(
                "; the kernel's scheduler stays above the policy, because it cannot be set: {error}"
            )
        });
        let how = if known.is_some() { "is again" } else { "is" };
        // The default export has no name.
        let export = Some(&wanted.export.name).filter(|name| !name.is_empty());
        let shown = export.unwrap_or(&wanted.back);
        Ok(format!("'{shown}' {how} /dev/{name}{}", scheduled.err().unwrap_or_default()))
    }

    fn add(
        &mut self,
        limits: &DeviceLimits,
        mark: u64,
        wanted: &Wanted,
        orders: &Orders<'_>,
    ) -> Result<u32, Error> {
        let failed = |error: io::Error| unfit(refused(&error)).of(&wanted.back);
        let id = self.control.add(limits, wanted.recovers.then_some(mark)).map_err(failed)?;
        let begun = self.control.set_limits(id, limits).map_err(failed).and_then(|()| {
            let channel = Channel::open(id, DEPTH).map_err(failed)?;
            hand_over(channel, wanted, orders)?;
            self.control.start(id, std::process::id()).map_err(failed)
        });
        self.started.push(Started { id, recovers: wanted.recovers, removed: false });
        begun.map(|()| id)
    }

    fn take_over(
        &mut self,
        info: &DeviceInfo,
        limits: &DeviceLimits,
        wanted: &Wanted,
        orders: &Orders<'_>,
    ) -> Result<u32, Error> {
        let (id, name) = (info.id, format!("/dev/ublkb{}", info.id));
        let failed = |error: io::Error| {
            unfit(format!("{name}: it cannot be taken over from its last server: {error}"))
                .of(&wanted.back)
        };
        if !self.control.has_limits(id, limits).map_err(failed)? {
            return Err(unfit(format!(
                "{name}: waits for export '{}' with its previous size and block size; restore \
                 them, or remove the device with `forebay detach {name}`",
                wanted.export.name
            ))
            .of(&wanted.back));
        }
        let until = Instant::now() + PATIENCE;
        loop {
            match self.control.begin_recovery(id) {
                Ok(()) => break,
                // An earlier server had begun to take the device over when it was killed.
                Err(error) if error.kind() == ErrorKind::InvalidInput => break,
                Err(error) if error.kind() == ErrorKind::ResourceBusy && Instant::now() < until => {
                    thread::sleep(Duration::from_millis(20));
                }
                Err(error) if error.kind() == ErrorKind::ResourceBusy => {
                    return Err(unfit(format!(
                        "{name}: process {} serves it; stop that process first",
                        info.server_pid
                    ))
                    .of(&wanted.back));
                }
                Err(error) => return Err(failed(error)),
            }
        }
        let channel = Channel::open(id, info.queue_depth).map_err(failed)?;
        hand_over(channel, wanted, orders)?;
        self.control.end_recovery(id, std::process::id()).map_err(failed)?;
        self.started.push(Started { id, recovers: true, removed: false });
        Ok(id)
    }

    /// Returns the device with this mark. Deletes devices whose server was killed before the device
    /// was started.
    fn find(&mut self, mark: u64) -> Option<DeviceInfo> {
        // A device may disappear between the two calls.
        let infos = numbers().into_iter().filter_map(|id| self.control.info(id).ok());
        let ours: Vec<DeviceInfo> =
            infos.filter(|info| info.recovers && info.mark == mark).collect();
        let (dead, others): (Vec<_>, Vec<_>) =
            ours.into_iter().partition(|info| info.state == DeviceState::Dead);
        for one in dead {
            // If this fails, the device's number stays in use, which does no harm.
            let _ = self.control.delete(one.id);
        }
        others.into_iter().next()
    }

    /// Removes the devices that are not in use; their requests are served until then. Devices in
    /// use wait for the next server; returns a sentence about each.
    pub(crate) fn stop(&mut self) -> Vec<String> {
        let mut said = Vec::new();
        for one in &mut self.started {
            let path = PathBuf::from(format!("/dev/ublkb{}", one.id));
            if one.recovers && is_used(&path) {
                said.push(format!(
                    "{} is in use, for example mounted: its I/O waits until the server is started \
                     again",
                    path.display()
                ));
                continue;
            }
            one.removed = true;
            if let Err(error) = self.control.stop(one.id) {
                said.push(format!("{}: it cannot be removed: {error}", path.display()));
            }
        }
        said
    }

    /// Deletes the removed devices once their drivers have ended.
    pub(crate) fn forget(&mut self) {
        for one in self.started.drain(..).filter(|one| one.removed) {
            // Whether or not its number can be freed, a removed device is no longer in use.
            let _ = self.control.delete(one.id);
        }
    }
}

/// Removes a ublk device that waits for a server, or disconnects a device of the kernel's nbd
/// driver.
///
/// # Errors
/// There is no such device, it is in use, or this machine does not permit it.
pub fn detach(device: &Path) -> Result<(), Error> {
    let shown = device.display();
    if device.to_str().is_some_and(|name| name.starts_with("/dev/nbd")) {
        return attach::detach(device);
    }
    let id = device.to_str().and_then(|name| name.strip_prefix("/dev/ublkb")?.parse().ok());
    let Some(id) = id else {
        return Err(unfit(format!("{shown}: expected a device such as /dev/ublkb0 or /dev/nbd0")));
    };
    let mut control = Control::open().map_err(|error| unfit(refused(&error)))?;
    let info = control.info(id).map_err(|_| unfit(format!("{shown}: there is no such device")))?;
    if info.state == DeviceState::Live {
        return Err(unfit(format!(
            "{shown}: process {} serves it; stop that process, which removes the device",
            info.server_pid
        )));
    }
    if is_used(device) {
        return Err(unfit(format!(
            "{shown}: is in use, for example mounted; unmount it first, which may require its server \
             to run"
        )));
    }
    let failed = |error| unfit(format!("{shown}: it cannot be removed: {error}"));
    control.stop(id).map_err(failed)?;
    control.delete(id).map_err(failed)
}

/// Passes the queue of a device to the driver of its back.
fn hand_over(channel: Channel, wanted: &Wanted, orders: &Orders<'_>) -> Result<(), Error> {
    let (done, served) = self::channel();
    let Orders(sender, waker) = orders;
    let order = Order::Attach(Attachment { channel, export: wanted.at, done });
    let is_served = sender.send(order).is_ok() && {
        waker.wake();
        served.recv() == Ok(true)
    };
    match is_served {
        true => Ok(()),
        false => Err(unfit(
            "ublk: needs io_uring as the driver, and fewer clients than the server can have; \
             leave out the driver, and allow io_uring_setup",
        )
        .of(&wanted.back)),
    }
}

/// Derives the limits of a device from its export.
fn limits(export: &Export) -> Result<DeviceLimits, Error> {
    let block_bytes = export.block_bytes.max(512);
    if !block_bytes.is_power_of_two() || block_bytes > 4096 {
        return Err(unfit(format!(
            "export '{}': its disk has blocks of {block_bytes} bytes, expected at most 4096 for a device; \
             set page_cache = true",
            export.name
        )));
    }
    let blocks = export.bytes / u64::from(block_bytes);
    if blocks * u64::from(block_bytes) != export.bytes {
        return Err(unfit(format!(
            "export '{}': got {} bytes, expected a multiple of {block_bytes} for a device",
            export.name, export.bytes
        )));
    }
    let writing = |bytes: u32| if export.read_only { 0 } else { bytes };
    Ok(DeviceLimits {
        sectors: export.bytes / 512,
        block_bytes,
        request_bytes_max: REQUEST_BYTES_MAX,
        queue_depth: DEPTH,
        rotational: export.rotational,
        volatile_cache: true,
        fua: true,
        read_only: export.read_only,
        discard_bytes_max: writing(DISCARD_BYTES_MAX),
        zeroes_bytes_max: writing(ZEROES_BYTES_MAX),
    })
}

/// Returns the mark of an export of a file.
fn mark(file: &Path, export: &str) -> u64 {
    let file = file.canonicalize().unwrap_or_else(|_| file.to_path_buf());
    let mut text = b"forebay\0".to_vec();
    text.extend(file.as_os_str().as_encoded_bytes());
    text.push(0);
    text.extend(export.as_bytes());
    checksum(&text)
}

/// Returns the numbers of all ublk devices.
fn numbers() -> Vec<u32> {
    let names = std::fs::read_dir("/dev").into_iter().flatten().flatten();
    let number = |name: &str| name.strip_prefix("ublkc")?.parse().ok();
    let mut numbers: Vec<u32> =
        names.filter_map(|entry| number(entry.file_name().to_str()?)).collect();
    numbers.sort_unstable();
    numbers
}

/// Returns whether a file system or another layer of the kernel uses a device.
pub(crate) fn is_used(device: &Path) -> bool {
    let opened =
        OpenOptions::new().read(true).custom_flags(OFlags::EXCL.bits() as i32).open(device);
    opened.is_err_and(|error| error.kind() == ErrorKind::ResourceBusy)
}

/// Formats the error if the driver refuses, with what to do.
fn refused(error: &io::Error) -> String {
    let why = match error.kind() {
        ErrorKind::NotFound => {
            "/dev/ublk-control does not exist; load the kernel's driver with `modprobe ublk_drv` \
             (Linux 6.5 or later)"
        }
        ErrorKind::PermissionDenied => "permission denied; devices need root, so run it with sudo",
        ErrorKind::Unsupported => "the kernel is too old, expected Linux 6.5 or later",
        _ => return format!("ublk: {error}"),
    };
    format!("ublk: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn export(bytes: u64, block_bytes: u32) -> Export {
        Export {
            name: "db".into(),
            description: String::new(),
            offset: 0,
            bytes,
            read_only: false,
            block_bytes,
            rotational: false,
            trims_to_zero: true,
        }
    }

    #[test]
    fn limits_are_those_of_the_disk() {
        let limits = |bytes, block| super::limits(&export(bytes, block));
        let buffered = limits(1 << 20, 1).unwrap();
        assert_eq!((buffered.block_bytes, buffered.sectors), (512, 2048));
        assert_eq!(limits(1 << 20, 4096).unwrap().block_bytes, 4096);
        let odd = limits(1000, 1).unwrap_err();
        assert!(odd.to_string().contains("got 1000 bytes, expected a multiple of 512"), "{odd}");
        let long = limits(1 << 20, 8192).unwrap_err();
        assert!(long.to_string().contains("blocks of 8192 bytes"), "{long}");
        let read_only = Export { read_only: true, ..export(1 << 20, 512) };
        let read_only = super::limits(&read_only).unwrap();
        assert_eq!((read_only.read_only, read_only.discard_bytes_max), (true, 0));
    }

    #[test]
    fn a_mark_names_a_file_and_an_export() {
        let here = mark(Path::new("."), "db");
        assert_eq!(here, mark(&std::env::current_dir().unwrap(), "db"));
        assert_ne!(here, mark(Path::new("."), "batch"));
        assert_ne!(here, mark(Path::new(".."), "db"));
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let said = |errno| refused(&io::Error::from_raw_os_error(errno));
        assert!(said(2).contains("modprobe ublk_drv"));
        assert!(said(13).contains("sudo"));
        assert!(said(95).contains("Linux 6.5"));
        assert!(said(12).starts_with("ublk: "));
    }
}
