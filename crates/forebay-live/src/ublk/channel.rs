//! The file of a device's queue: the list of requests, access to their data, and the commands that
//! fetch and answer them.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::ptr::{self, NonNull};

use forebay_core::{Flags, Op};
use io_uring::opcode;
use io_uring::squeue::Entry;
use io_uring::types::Fd;

use super::read_write_command;

/// The size of `struct ublksrv_io_cmd`.
const COMMAND_BYTES: u32 = 16;
const FETCH: u32 = read_write_command(0x20, COMMAND_BYTES);
const COMMIT_AND_FETCH: u32 = read_write_command(0x21, COMMAND_BYTES);

/// The offset of requests' data in the queue's file, and the position of the tag in an offset.
const DATA_BEGIN: u64 = 0x8000_0000;
const TAG_SHIFT: u32 = 25;

const FLAG_META: u32 = 1 << 11;
const FLAG_FUA: u32 = 1 << 13;
const FLAG_NO_UNMAP: u32 = 1 << 15;

/// The kernel's `struct ublksrv_io_desc`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Descriptor {
    op_and_flags: u32,
    sectors: u32,
    first_sector: u64,
    address: u64,
}

/// A request of a device's client. Its answer contains the request's tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UblkRequest {
    /// The name of the request until it is answered; less than the queue's depth.
    pub tag: u16,
    /// The requested operation.
    pub op: Op,
    /// The offset on the device in bytes.
    pub offset: u64,
    /// The length in bytes; 0 for flushes.
    pub len: u32,
    /// The flags of the request.
    pub flags: Flags,
    /// Whether and how to write zeros; None for a write with data.
    pub zeroes: Option<Zeroes>,
}

/// How zeros may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zeroes {
    /// The space may be deallocated.
    Unmap,
    /// The range must stay allocated.
    Keep,
}

/// The open queue of a device.
///
/// All commands must come from one thread.
pub struct Channel {
    file: File,
    depth: u16,
    descriptors: Mapped,
    /// The number of tags without further requests, because the device was stopped.
    gone: u16,
}

/// The list of requests, which the driver writes and this process reads.
struct Mapped {
    first: NonNull<Descriptor>,
    bytes: usize,
}

// SAFETY: the mapping belongs to the process, and is not bound to a thread.
unsafe impl Send for Mapped {}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: this mapping was returned by `mmap`, and nothing borrows from it.
        unsafe { libc::munmap(self.first.as_ptr().cast(), self.bytes) };
    }
}

impl Mapped {
    fn new(file: &File, depth: u16) -> io::Result<Mapped> {
        // SAFETY: the call only returns a number.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
        let bytes = (usize::from(depth) * size_of::<Descriptor>()).next_multiple_of(page);
        let protection = libc::PROT_READ;
        let how = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: a new mapping at an address chosen by the system affects no other memory.
        let at =
            unsafe { libc::mmap(ptr::null_mut(), bytes, protection, how, file.as_raw_fd(), 0) };
        match NonNull::new(at) {
            Some(at) if at.as_ptr() != libc::MAP_FAILED => Ok(Mapped { first: at.cast(), bytes }),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Channel {
    /// Opens the queue of `device`, whose depth is `depth`.
    ///
    /// # Errors
    /// The device does not exist, or is already served.
    pub fn open(device: u32, depth: u16) -> io::Result<Channel> {
        let file = OpenOptions::new().read(true).write(true).open(format!("/dev/ublkc{device}"))?;
        let descriptors = Mapped::new(&file, depth)?;
        Ok(Channel { file, depth, descriptors, gone: 0 })
    }

    /// Returns the maximum number of outstanding requests.
    pub(crate) fn depth(&self) -> u16 {
        self.depth
    }

    /// Returns the entry that waits for a tag's first request.
    pub(crate) fn fetch(&self, tag: u16) -> Entry {
        self.command(FETCH, tag, 0)
    }

    /// Returns the entry that answers a tag's request and waits for the next one.
    pub(crate) fn answer(&self, tag: u16, result: i32) -> Entry {
        self.command(COMMIT_AND_FETCH, tag, result)
    }

    fn command(&self, command: u32, tag: u16, result: i32) -> Entry {
        let mut bytes = [0; 16];
        bytes[2..4].copy_from_slice(&tag.to_ne_bytes());
        bytes[4..8].copy_from_slice(&result.to_ne_bytes());
        opcode::UringCmd16::new(Fd(self.file.as_raw_fd()), command).cmd(bytes).build()
    }

    /// Returns the request that arrived with the result of a tag's entry. A result other than 0
    /// means that the driver sends no more requests for the tag.
    pub(crate) fn ended(&mut self, tag: u16, result: i32) -> Option<UblkRequest> {
        match result {
            0 => Some(self.descriptors.asked(tag)),
            _ => {
                self.gone += 1;
                None
            }
        }
    }

    /// Returns whether the device was stopped and sends no more requests.
    pub fn is_over(&self) -> bool {
        self.gone == self.depth
    }

    /// Copies the data of a write, starting at byte `at`, to `into`.
    ///
    /// # Errors
    /// The bytes are beyond the end of the request.
    pub fn read_data(&self, tag: u16, at: u32, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, data_at(tag, at))
    }

    /// Copies `from` to the data of a read, starting at byte `at`.
    ///
    /// # Errors
    /// The bytes are beyond the end of the request.
    pub fn write_data(&self, tag: u16, at: u32, from: &[u8]) -> io::Result<()> {
        self.file.write_all_at(from, data_at(tag, at))
    }
}

impl Mapped {
    /// Returns the request that the driver handed over with this tag.
    fn asked(&self, tag: u16) -> UblkRequest {
        // SAFETY: the driver's tags are less than the depth, which the mapping can hold; the driver
        // does not write to a descriptor between handing it over and receiving the answer.
        unsafe { self.first.add(usize::from(tag)).read_volatile() }.asked(tag)
    }
}

impl Descriptor {
    fn asked(self, tag: u16) -> UblkRequest {
        let op = match self.op_and_flags & 0xff {
            0 => Op::Read,
            1 => Op::Write,
            2 => Op::Flush,
            3 => Op::Trim,
            5 => Op::Write,
            // The driver sends no other operations, and a flush does no harm.
            _ => Op::Flush,
        };
        let unmaps = self.op_and_flags & FLAG_NO_UNMAP == 0;
        let how = if unmaps { Zeroes::Unmap } else { Zeroes::Keep };
        let zeroes = (self.op_and_flags & 0xff == 5).then_some(how);
        let flag = |bit, flag| if self.op_and_flags & bit != 0 { flag } else { Flags::NONE };
        let has_place = op != Op::Flush;
        UblkRequest {
            tag,
            op,
            offset: if has_place { self.first_sector.saturating_mul(512) } else { 0 },
            len: if has_place { self.sectors.saturating_mul(512) } else { 0 },
            flags: flag(FLAG_FUA, Flags::FUA).with(flag(FLAG_META, Flags::META)),
            zeroes,
        }
    }
}

fn data_at(tag: u16, at: u32) -> u64 {
    DATA_BEGIN + (u64::from(tag) << TAG_SHIFT) + u64::from(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_has_the_kernels_size() {
        assert_eq!(size_of::<Descriptor>(), 24);
    }

    #[test]
    fn a_descriptor_says_what_is_asked() {
        let asked = |op_and_flags| {
            let descriptor = Descriptor { op_and_flags, sectors: 8, first_sector: 3, address: 0 };
            descriptor.asked(5)
        };
        let read = UblkRequest {
            tag: 5,
            op: Op::Read,
            offset: 1536,
            len: 4096,
            flags: Flags::NONE,
            zeroes: None,
        };
        assert_eq!(asked(0), read);
        // These bits are the kernel's UBLK_IO_F_FUA and UBLK_IO_F_META.
        let fua = UblkRequest { op: Op::Write, flags: Flags::FUA, ..read };
        assert_eq!(asked(1 | 0x2000), fua);
        assert_eq!(asked(1 | 0x800), UblkRequest { flags: Flags::META, ..fua });
        assert_eq!(asked(2), UblkRequest { op: Op::Flush, offset: 0, len: 0, ..read });
        assert_eq!(asked(3), UblkRequest { op: Op::Trim, ..read });
        // This is UBLK_IO_OP_WRITE_ZEROES, without and with UBLK_IO_F_NOUNMAP.
        let zeroes = |zeroes| UblkRequest { op: Op::Write, zeroes: Some(zeroes), ..read };
        assert_eq!(asked(5), zeroes(Zeroes::Unmap));
        assert_eq!(asked(5 | 0x8000), zeroes(Zeroes::Keep));
    }

    #[test]
    fn each_tag_has_its_own_data() {
        assert_eq!(data_at(0, 7), 0x8000_0007);
        assert_eq!(data_at(3, 0) - data_at(2, 0), 1 << 25);
    }
}
