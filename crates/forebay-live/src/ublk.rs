//! Block devices whose requests this process answers, through the kernel's `ublk` driver (Linux 6.5
//! and later).
//!
//! [`Control`] adds, starts, recovers, stops and deletes devices. [`Queue`] receives the requests
//! of one device and answers them in a separate ring; [`crate::SocketLanes::attach`] does so in the
//! ring of a driver. A server adds a device, sets its limits, opens the queue on the thread that
//! will serve it, and starts the device from another thread: starting reads the partition table, so
//! the queue must already be served.
//!
//! ```text
//! control.add ── control.set_limits ── Queue::open ──┬── queue.wait, queue.answer ... until it is stopped
//!                                                    └── control.start (another thread)
//! control.stop ── control.delete
//! ```
//!
//! Data is transferred by `pread` and `pwrite` on the queue's file ([`Channel::read_data`],
//! [`Channel::write_data`]), so a server copies exactly the bytes that it needs, or none if it
//! keeps no data.
//!
//! Source: Linux `include/uapi/linux/ublk_cmd.h` and `Documentation/block/ublk.rst`.

mod channel;
mod control;
mod queue;

pub use channel::{Channel, UblkRequest, Zeroes};
pub use control::{Control, DeviceInfo, DeviceLimits, DeviceState};
pub use queue::Queue;

/// The data of requests is read and written on the queue's file (`UBLK_F_USER_COPY`).
const USER_COPY: u64 = 1 << 7;
/// Commands have the numbers of ioctls (`UBLK_F_CMD_IOCTL_ENCODE`).
const IOCTL_ENCODED: u64 = 1 << 6;
/// If the server dies, the device waits for another server (`UBLK_F_USER_RECOVERY`), which receives
/// the outstanding requests again (`UBLK_F_USER_RECOVERY_REISSUE`).
const RECOVERS: u64 = 1 << 3 | 1 << 4;

/// Returns the number of a command whose argument has `size` bytes, as computed by `_IOWR('u',
/// number, ...)`.
const fn read_write_command(number: u32, size: u32) -> u32 {
    (3 << 30) | (size << 16) | ((b'u' as u32) << 8) | number
}

#[cfg(test)]
mod tests {
    #[test]
    fn commands_are_numbered_as_ioctls() {
        // The expected values were computed by a C compiler from `_IOWR('u', ...)`.
        assert_eq!(super::read_write_command(0x20, 16), 0xc010_7520);
        assert_eq!(super::read_write_command(0x04, 32), 0xc020_7504);
    }
}
