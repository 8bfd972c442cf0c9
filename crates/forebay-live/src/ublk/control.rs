//! Adds, starts, stops and deletes devices.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;

use io_uring::squeue::Entry128;
use io_uring::types::Fd;
use io_uring::{IoUring, cqueue, opcode};

use super::{IOCTL_ENCODED, USER_COPY, read_write_command};

/// `struct ublksrv_ctrl_cmd`.
const COMMAND_BYTES: u32 = 32;
const ADD: u32 = read_write_command(0x04, COMMAND_BYTES);
const DELETE: u32 = read_write_command(0x05, COMMAND_BYTES);
const START: u32 = read_write_command(0x06, COMMAND_BYTES);
const STOP: u32 = read_write_command(0x07, COMMAND_BYTES);
const SET_PARAMS: u32 = read_write_command(0x08, COMMAND_BYTES);

/// Where commands go.
const CONTROL: &str = "/dev/ublk-control";
/// The queue of a command that is for the whole device.
const NO_QUEUE: u16 = u16::MAX;
/// Parameters of the type `struct ublk_param_basic`.
const BASIC: u32 = 1;
const ATTRIBUTE_ROTATIONAL: u32 = 1 << 1;
const ATTRIBUTE_VOLATILE_CACHE: u32 = 1 << 2;
const ATTRIBUTE_FUA: u32 = 1 << 3;

/// The parameters of a device for the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceLimits {
    /// Its size in sectors of 512 bytes.
    pub sectors: u64,
    /// The block size that clients see: a power of two from 512 to 4096.
    pub block_bytes: u32,
    /// The longest request.
    pub request_bytes_max: u32,
    /// The maximum number of outstanding requests, 1 to 4096.
    pub queue_depth: u16,
    /// Whether it has an arm to move (`queue/rotational`).
    pub rotational: bool,
    /// Whether writes are durable only after a flush.
    pub volatile_cache: bool,
    /// Whether it accepts writes that are durable when answered (FUA).
    pub fua: bool,
}

/// `struct ublksrv_ctrl_dev_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct DeviceInfo {
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

/// `struct ublk_params` as far as the basic ones.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
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
}

/// The driver's control file.
pub struct Control {
    file: File,
    ring: IoUring<Entry128, cqueue::Entry>,
}

impl Control {
    /// # Errors
    /// Where the kernel has no ublk (`modprobe ublk_drv`), or access to it or to io_uring is refused.
    pub fn open() -> io::Result<Control> {
        let file = OpenOptions::new().read(true).write(true).open(CONTROL)?;
        let ring = IoUring::builder().build(4)?;
        Ok(Control { file, ring })
    }

    /// Adds a device with one queue; its number, as in `/dev/ublkb0`.
    ///
    /// # Errors
    /// What the driver refuses.
    pub fn add(&mut self, limits: &DeviceLimits) -> io::Result<u32> {
        let mut info = DeviceInfo {
            hw_queues: 1,
            queue_depth: limits.queue_depth,
            io_buf_bytes_max: limits.request_bytes_max,
            // The driver chooses a number.
            id: u32::MAX,
            flags: IOCTL_ENCODED | USER_COPY,
            ..DeviceInfo::default()
        };
        let buffer = &raw mut info;
        self.send(ADD, u32::MAX, buffer as u64, size_of::<DeviceInfo>() as u16, 0)?;
        // SAFETY: the driver has answered, so nobody but us writes to it; any bytes are a valid value.
        Ok(unsafe { buffer.read_volatile() }.id)
    }

    /// # Errors
    /// The driver refuses.
    pub fn set_limits(&mut self, device: u32, limits: &DeviceLimits) -> io::Result<()> {
        let flag = |set: bool, bit: u32| if set { bit } else { 0 };
        let params = Params {
            len: size_of::<Params>() as u32,
            types: BASIC,
            attributes: flag(limits.rotational, ATTRIBUTE_ROTATIONAL)
                | flag(limits.volatile_cache, ATTRIBUTE_VOLATILE_CACHE)
                | flag(limits.fua, ATTRIBUTE_FUA),
            logical_block_shift: limits.block_bytes.trailing_zeros() as u8,
            physical_block_shift: limits.block_bytes.trailing_zeros() as u8,
            io_opt_shift: 0,
            io_min_shift: limits.block_bytes.trailing_zeros() as u8,
            sectors_max: limits.request_bytes_max / 512,
            chunk_sectors: 0,
            sectors: limits.sectors,
            virt_boundary_mask: 0,
        };
        let buffer = &raw const params;
        self.send(SET_PARAMS, device, buffer as u64, size_of::<Params>() as u16, 0)
    }

    /// Makes the device appear. Returns once its partition table has been read, so its queue has to be served
    /// meanwhile, by the process `server_pid`.
    ///
    /// # Errors
    /// What the driver refuses.
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

    /// Forgets the device. Returns once nobody has its queue open.
    ///
    /// # Errors
    /// What the driver refuses.
    pub fn delete(&mut self, device: u32) -> io::Result<()> {
        self.send(DELETE, device, 0, 0, 0)
    }

    /// Sends a command and waits for its answer. `address` is that of `len` bytes that live until then.
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
        assert_eq!(size_of::<DeviceInfo>(), 64);
        assert_eq!(size_of::<Params>(), 40);
    }
}
