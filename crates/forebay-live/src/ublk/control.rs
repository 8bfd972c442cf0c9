//! Adds, starts, stops and deletes devices.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;

use io_uring::squeue::Entry128;
use io_uring::types::Fd;
use io_uring::{IoUring, cqueue, opcode};

use super::{IOCTL_ENCODED, RECOVERS, USER_COPY, read_write_command};

/// The size of `struct ublksrv_ctrl_cmd`.
const COMMAND_BYTES: u32 = 32;
const GET_INFO: u32 = read_write_command(0x02, COMMAND_BYTES);
const ADD: u32 = read_write_command(0x04, COMMAND_BYTES);
const DELETE: u32 = read_write_command(0x05, COMMAND_BYTES);
const START: u32 = read_write_command(0x06, COMMAND_BYTES);
const STOP: u32 = read_write_command(0x07, COMMAND_BYTES);
const SET_PARAMS: u32 = read_write_command(0x08, COMMAND_BYTES);
const GET_PARAMS: u32 = read_write_command(0x09, COMMAND_BYTES);
const BEGIN_RECOVERY: u32 = read_write_command(0x10, COMMAND_BYTES);
const END_RECOVERY: u32 = read_write_command(0x11, COMMAND_BYTES);

/// The file to which commands are sent.
const CONTROL: &str = "/dev/ublk-control";
/// The queue number in a command for a whole device.
const NO_QUEUE: u16 = u16::MAX;
/// The parameters include `struct ublk_param_basic`.
const BASIC: u32 = 1;
/// The parameters include `struct ublk_param_discard`.
const DISCARD: u32 = 1 << 1;
const ATTRIBUTE_READ_ONLY: u32 = 1;
const ATTRIBUTE_ROTATIONAL: u32 = 1 << 1;
const ATTRIBUTE_VOLATILE_CACHE: u32 = 1 << 2;
const ATTRIBUTE_FUA: u32 = 1 << 3;

/// The parameters of a device for the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceLimits {
    /// The size of the device in sectors of 512 bytes.
    pub sectors: u64,
    /// The block size that clients see: a power of two from 512 to 4096.
    pub block_bytes: u32,
    /// The maximum length of a request in bytes.
    pub request_bytes_max: u32,
    /// The maximum number of outstanding requests, 1 to 4096.
    pub queue_depth: u16,
    /// Whether the device counts as rotational (`queue/rotational`).
    pub rotational: bool,
    /// Whether writes are durable only after a flush.
    pub volatile_cache: bool,
    /// Whether the device supports writes that are durable when answered (FUA).
    pub fua: bool,
    /// Whether the kernel refuses writes.
    pub read_only: bool,
    /// The maximum length of a discard in bytes; 0 if discards are not supported.
    pub discard_bytes_max: u32,
    /// The maximum length of a write of zeros in bytes; 0 makes the kernel send them as ordinary
    /// writes.
    pub zeroes_bytes_max: u32,
}

/// The driver's information about a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// The number of the device, as in `/dev/ublkb0`.
    pub id: u32,
    /// Whether the device has a server.
    pub state: DeviceState,
    /// The process that serves the device, or served it last.
    pub server_pid: u32,
    /// The maximum number of outstanding requests.
    pub queue_depth: u16,
    /// The maximum length of a request in bytes.
    pub request_bytes_max: u32,
    /// The mark that the device's first server set.
    pub mark: u64,
    /// Whether another server can take the device over.
    pub recovers: bool,
}

/// The state of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceState {
    /// The device was not started, or was stopped.
    Dead,
    /// A server answers the device's requests.
    Live,
    /// The device waits for a server, because its last server has ended.
    Waiting,
}

/// The kernel's `struct ublksrv_ctrl_dev_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct RawInfo {
    hw_queues: u16,
    queue_depth: u16,
    state: u16,
    pad0: u16,
    io_buf_bytes_max: u32,
    id: u32,
    server_pid: i32,
    pad1: u32,
    flags: u64,
    server_flags: u64,
    owner_uid: u32,
    owner_gid: u32,
    reserved: [u64; 2],
}

/// The kernel's `struct ublk_params`, up to the parameters of discards.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Params {
    len: u32,
    types: u32,
    attributes: u32,
    logical_block_shift: u8,
    physical_block_shift: u8,
    io_opt_shift: u8,
    io_min_shift: u8,
    sectors_max: u32,
    chunk_sectors: u32,
    sectors: u64,
    virt_boundary_mask: u64,
    discard_alignment: u32,
    discard_granularity: u32,
    discard_sectors_max: u32,
    zeroes_sectors_max: u32,
    discard_segments_max: u16,
    reserved: u16,
    /// Reserved for the device numbers, which the driver sets.
    numbers: u32,
}

impl Params {
    fn of(limits: &DeviceLimits) -> Params {
        let flag = |set: bool, bit: u32| if set { bit } else { 0 };
        let trims = limits.discard_bytes_max > 0 || limits.zeroes_bytes_max > 0;
        let block_shift = limits.block_bytes.trailing_zeros() as u8;
        Params {
            len: size_of::<Params>() as u32,
            types: BASIC | flag(trims, DISCARD),
            attributes: flag(limits.rotational, ATTRIBUTE_ROTATIONAL)
                | flag(limits.volatile_cache, ATTRIBUTE_VOLATILE_CACHE)
                | flag(limits.fua, ATTRIBUTE_FUA)
                | flag(limits.read_only, ATTRIBUTE_READ_ONLY),
            logical_block_shift: block_shift,
            physical_block_shift: block_shift,
            io_min_shift: block_shift,
            sectors_max: limits.request_bytes_max / 512,
            sectors: limits.sectors,
            discard_granularity: if trims { limits.block_bytes } else { 0 },
            discard_sectors_max: limits.discard_bytes_max / 512,
            zeroes_sectors_max: limits.zeroes_bytes_max / 512,
            discard_segments_max: u16::from(limits.discard_bytes_max > 0),
            ..Params::default()
        }
    }
}

/// The driver's control file.
pub struct Control {
    file: File,
    ring: IoUring<Entry128, cqueue::Entry>,
}

impl Control {
    /// # Errors
    /// The kernel has no ublk (`modprobe ublk_drv`), or access to it or to io_uring is refused.
    pub fn open() -> io::Result<Control> {
        let file = OpenOptions::new().read(true).write(true).open(CONTROL)?;
        let ring = IoUring::builder().build(4);
        let ring = ring.map_err(|error| io::Error::other(format!("io_uring: {error}")))?;
        Ok(Control { file, ring })
    }

    /// Adds a device with one queue; returns its number, as in `/dev/ublkb0`. With a mark, which
    /// [`Control::info`] returns, the device waits for another server if its server dies.
    ///
    /// # Errors
    /// The driver refuses. The error is `Unsupported` if the driver is too old (before Linux 6.5).
    pub fn add(&mut self, limits: &DeviceLimits, mark: Option<u64>) -> io::Result<u32> {
        let wanted = IOCTL_ENCODED | USER_COPY | if mark.is_some() { RECOVERS } else { 0 };
        let mut info = RawInfo {
            hw_queues: 1,
            queue_depth: limits.queue_depth,
            io_buf_bytes_max: limits.request_bytes_max,
            // This value makes the driver choose a number.
            id: u32::MAX,
            flags: wanted,
            server_flags: mark.unwrap_or_default(),
            ..RawInfo::default()
        };
        self.ask(ADD, u32::MAX, &mut info)?;
        if info.flags & wanted != wanted {
            // An old driver ignores flags that it does not support. Report that the driver is too
            // old, and ignore a failed deletion.
            let _ = self.delete(info.id);
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(info.id)
    }

    /// Returns the driver's information about a device.
    ///
    /// # Errors
    /// The device does not exist.
    pub fn info(&mut self, device: u32) -> io::Result<DeviceInfo> {
        let mut info = RawInfo::default();
        self.ask(GET_INFO, device, &mut info)?;
        Ok(DeviceInfo {
            id: device,
            state: match info.state {
                0 => DeviceState::Dead,
                2 => DeviceState::Waiting,
                _ => DeviceState::Live,
            },
            server_pid: info.server_pid.unsigned_abs(),
            queue_depth: info.queue_depth,
            request_bytes_max: info.io_buf_bytes_max,
            mark: info.server_flags,
            recovers: info.flags & RECOVERS == RECOVERS && info.flags & USER_COPY != 0,
        })
    }

    /// # Errors
    /// The driver refuses.
    pub fn set_limits(&mut self, device: u32, limits: &DeviceLimits) -> io::Result<()> {
        self.ask(SET_PARAMS, device, &mut Params::of(limits))
    }

    /// Returns whether a device has these limits.
    ///
    /// # Errors
    /// The driver refuses.
    pub fn has_limits(&mut self, device: u32, limits: &DeviceLimits) -> io::Result<bool> {
        let wanted = Params::of(limits);
        let mut params = Params { len: wanted.len, ..Params::default() };
        self.ask(GET_PARAMS, device, &mut params)?;
        // The driver adds parameter types and the device's numbers.
        let types = params.types & (BASIC | DISCARD);
        Ok(Params { types, numbers: 0, len: wanted.len, ..params } == wanted)
    }

    /// Begins to take over a device that waits for a server. The device's queue can be opened
    /// afterwards.
    ///
    /// # Errors
    /// `ResourceBusy` if the last server has not ended yet.
    pub fn begin_recovery(&mut self, device: u32) -> io::Result<()> {
        self.send(BEGIN_RECOVERY, device, 0, 0, 0)
    }

    /// Makes a device that was taken over send its requests again, including the outstanding ones.
    /// Returns once the process `server_pid` serves the device's queue.
    ///
    /// # Errors
    /// The driver refuses.
    pub fn end_recovery(&mut self, device: u32, server_pid: u32) -> io::Result<()> {
        self.send(END_RECOVERY, device, 0, 0, u64::from(server_pid))
    }

    /// Makes the device appear. Returns once the device's partition table has been read, so the
    /// process `server_pid` must serve the queue in the meantime.
    ///
    /// # Errors
    /// The driver refuses.
    pub fn start(&mut self, device: u32, server_pid: u32) -> io::Result<()> {
        self.send(START, device, 0, 0, u64::from(server_pid))
    }

    /// Removes the device; outstanding requests fail, and its queue ends.
    ///
    /// # Errors
    /// The driver refuses.
    pub fn stop(&mut self, device: u32) -> io::Result<()> {
        self.send(STOP, device, 0, 0, 0)
    }

    /// Deletes the device. Returns once nothing has its queue open.
    ///
    /// # Errors
    /// The driver refuses.
    pub fn delete(&mut self, device: u32) -> io::Result<()> {
        self.send(DELETE, device, 0, 0, 0)
    }

    /// Sends a command that reads or writes one of the driver's structures.
    fn ask<T: Copy>(&mut self, command: u32, device: u32, about: &mut T) -> io::Result<()> {
        let mut buffer = Box::new(*about);
        let address = &raw mut *buffer;
        self.send(command, device, address as u64, size_of::<T>() as u16, 0)?;
        // SAFETY: the driver has answered, so nothing else writes to the structure; the structures
        // of this module are integers, for which all bytes are valid values.
        *about = unsafe { address.read_volatile() };
        Ok(())
    }

    /// Sends a command and waits for its answer. `address` is the address of `len` bytes that live
    /// until then.
    fn send(
        &mut self,
        command: u32,
        device: u32,
        address: u64,
        len: u16,
        data: u64,
    ) -> io::Result<()> {
        let mut bytes = [0; 80];
        bytes[0..4].copy_from_slice(&device.to_ne_bytes());
        bytes[4..6].copy_from_slice(&NO_QUEUE.to_ne_bytes());
        bytes[6..8].copy_from_slice(&len.to_ne_bytes());
        bytes[8..16].copy_from_slice(&address.to_ne_bytes());
        bytes[16..24].copy_from_slice(&data.to_ne_bytes());
        let fd = Fd(self.file.as_raw_fd());
        let entry = opcode::UringCmd80::new(fd, command).cmd(bytes).build();
        // SAFETY: the callers' buffers outlive this call, which returns only once the command has ended.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.map_err(|_| io::Error::other("ublk: the control ring is full"))?;
        loop {
            match self.ring.submit_and_wait(1) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(_) => {}
            }
            if let Some(answer) = self.ring.completion().next() {
                let result = answer.result();
                return match result < 0 {
                    true => Err(io::Error::from_raw_os_error(-result)),
                    false => Ok(()),
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_kernels_sizes() {
        assert_eq!(size_of::<RawInfo>(), 64);
        // The kernel's structure has no padding before `struct ublk_param_devt`, and neither does
        // this one.
        assert_eq!(std::mem::offset_of!(Params, discard_alignment), 40);
        assert_eq!(std::mem::offset_of!(Params, numbers), 60);
    }

    #[test]
    fn discards_are_announced_only_where_there_are_some() {
        let plain = DeviceLimits {
            sectors: 2048,
            block_bytes: 512,
            request_bytes_max: 1 << 20,
            queue_depth: 64,
            rotational: false,
            volatile_cache: true,
            fua: true,
            read_only: true,
            discard_bytes_max: 0,
            zeroes_bytes_max: 0,
        };
        let params = Params::of(&plain);
        assert_eq!((params.types, params.discard_granularity), (BASIC, 0));
        assert_eq!(params.attributes, 1 | 1 << 2 | 1 << 3);
        let trims = DeviceLimits { discard_bytes_max: 1 << 30, block_bytes: 4096, ..plain };
        let params = Params::of(&trims);
        assert_eq!((params.types, params.discard_granularity), (BASIC | DISCARD, 4096));
        assert_eq!((params.discard_sectors_max, params.discard_segments_max), (1 << 21, 1));
    }
}
