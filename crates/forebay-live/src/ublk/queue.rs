//! Receives the requests of one device and answers them.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::ptr::{self, NonNull};

use forebay_core::{Flags, Nanos, Op};
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode};

use super::read_write_command;

/// `struct ublksrv_io_cmd`.
const COMMAND_BYTES: u32 = 16;
const FETCH: u32 = read_write_command(0x20, COMMAND_BYTES);
const COMMIT_AND_FETCH: u32 = read_write_command(0x21, COMMAND_BYTES);

/// Where the data of requests begin in the queue's file, and the bits that say of which tag.
const DATA_BEGIN: u64 = 0x8000_0000;
const TAG_SHIFT: u32 = 25;

const FLAG_META: u32 = 1 << 11;
const FLAG_FUA: u32 = 1 << 13;

/// `struct ublksrv_io_desc`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Descriptor {
    op_and_flags: u32,
    sectors: u32,
    first_sector: u64,
    address: u64,
}

/// A request of a client, to be answered by its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UblkRequest {
    /// Its name until it is answered; less than the queue's depth.
    pub tag: u16,
    /// The operation.
    pub op: Op,
    /// First byte.
    pub offset: u64,
    /// Bytes; 0 for flushes.
    pub len: u32,
    /// Its properties.
    pub flags: Flags,
}

/// The queue of a device, served by the thread that opened it and no other.
pub struct Queue {
    ring: IoUring,
    file: File,
    depth: u16,
    descriptors: Mapped,
    /// Tags that the driver took back: the device is stopped.
    gone: u16,
}

/// The list of requests that the driver writes and we read.
struct Mapped {
    first: NonNull<Descriptor>,
    bytes: usize,
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: it is what `mmap` answered, and nothing borrows from it.
        unsafe { libc::munmap(self.first.as_ptr().cast(), self.bytes) };
    }
}

impl Mapped {
    fn new(file: &File, depth: u16) -> io::Result<Mapped> {
        // SAFETY: it reads a number.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
        let bytes = (usize::from(depth) * size_of::<Descriptor>()).next_multiple_of(page);
        let protection = libc::PROT_READ;
        let how = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: a new mapping at a place of the system's choice disturbs no other memory.
        let at =
            unsafe { libc::mmap(ptr::null_mut(), bytes, protection, how, file.as_raw_fd(), 0) };
        match NonNull::new(at) {
            Some(at) if at.as_ptr() != libc::MAP_FAILED => Ok(Mapped { first: at.cast(), bytes }),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Queue {
    /// Opens the queue of `device`, whose depth is `depth`, and fetches its requests.
    ///
    /// # Errors
    /// The device does not exist, or is already served.
    pub fn open(device: u32, depth: u16) -> io::Result<Queue> {
        let file = OpenOptions::new().read(true).write(true).open(format!("/dev/ublkc{device}"))?;
        let descriptors = Mapped::new(&file, depth)?;
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_coop_taskrun()
            .build(u32::from(depth).next_power_of_two())?;
        let mut queue = Queue { ring, file, depth, descriptors, gone: 0 };
        for tag in 0..depth {
            queue.push(FETCH, tag, 0)?;
        }
        queue.ring.submit()?;
        Ok(queue)
    }

    /// Sends answers off, waits until a request arrives or `wait` is over, and adds what has arrived to `asked`. Without
    /// `wait` it waits for a request.
    ///
    /// # Errors
    /// Where io_uring itself fails.
    pub fn wait(&mut self, wait: Option<Nanos>, asked: &mut Vec<UblkRequest>) -> io::Result<()> {
        let is_empty = self.ring.completion().is_empty();
        let want = usize::from(is_empty && wait != Some(Nanos::ZERO));
        let entered = match wait.filter(|_| want > 0) {
            None => self.ring.submitter().submit_and_wait(want),
            Some(span) => {
                let (s, ns) = (span.0 / 1_000_000_000, (span.0 % 1_000_000_000) as u32);
                let time = Timespec::new().sec(s).nsec(ns);
                self.ring.submitter().submit_with_args(want, &SubmitArgs::new().timespec(&time))
            }
        };
        match entered.map_err(|error| (error.raw_os_error(), error)) {
            Ok(_) | Err((Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY), _)) => {}
            Err((_, error)) => return Err(error),
        }
        for entry in self.ring.completion() {
            match entry.result() {
                0 => asked.push(self.descriptors.asked(entry.user_data() as u16)),
                // Aborted: the driver expects no more answers for this tag.
                _ => self.gone += 1,
            }
        }
        Ok(())
    }

    /// Returns whether the device was stopped and nothing will be asked any more.
    pub fn is_over(&self) -> bool {
        self.gone == self.depth
    }

    /// Answers a request: the bytes moved, or the system's error number, negated. Goes off with the next [`Queue::wait`].
    ///
    /// # Errors
    /// Where a tag is answered twice.
    pub fn answer(&mut self, tag: u16, result: i32) -> io::Result<()> {
        self.push(COMMIT_AND_FETCH, tag, result)
    }

    /// Copies what a write of `tag` carries, from its byte `at` on, into `into`.
    ///
    /// # Errors
    /// Where that is beyond the request.
    pub fn read_data(&self, tag: u16, at: u32, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, data_at(tag, at))
    }

    /// Copies `from` to what a read of `tag` wants, from its byte `at` on.
    ///
    /// # Errors
    /// Where that is beyond the request.
    pub fn write_data(&self, tag: u16, at: u32, from: &[u8]) -> io::Result<()> {
        self.file.write_all_at(from, data_at(tag, at))
    }

    fn push(&mut self, command: u32, tag: u16, result: i32) -> io::Result<()> {
        let mut bytes = [0; 16];
        bytes[2..4].copy_from_slice(&tag.to_ne_bytes());
        bytes[4..8].copy_from_slice(&result.to_ne_bytes());
        let fd = Fd(self.file.as_raw_fd());
        let entry = opcode::UringCmd16::new(fd, command).cmd(bytes).build();
        // SAFETY: the command carries its data itself and names no memory.
        let pushed = unsafe { self.ring.submission().push(&entry.user_data(tag.into())) };
        pushed.map_err(|_| io::Error::other(format!("ublk: tag {tag} is answered twice")))
    }
}

impl Mapped {
    /// Returns the request that the driver has handed over as `tag`.
    fn asked(&self, tag: u16) -> UblkRequest {
        // SAFETY: tags that the driver answers are less than the depth, for which there is room; it does not write to
        // a descriptor between handing it over and our answer.
        unsafe { self.first.add(usize::from(tag)).read_volatile() }.asked(tag)
    }
}

impl Descriptor {
    fn asked(self, tag: u16) -> UblkRequest {
        let op = match self.op_and_flags & 0xff {
            0 => Op::Read,
            1 => Op::Write,
            2 => Op::Flush,
            // The driver is told of no limits for the others, so it sends none.
            _ => Op::Trim,
        };
        let flag = |bit, flag| if self.op_and_flags & bit != 0 { flag } else { Flags::NONE };
        let has_place = op != Op::Flush;
        UblkRequest {
            tag,
            op,
            offset: if has_place { self.first_sector.saturating_mul(512) } else { 0 },
            len: if has_place { self.sectors.saturating_mul(512) } else { 0 },
            flags: flag(FLAG_FUA, Flags::FUA).with(flag(FLAG_META, Flags::META)),
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
        let read =
            UblkRequest { tag: 5, op: Op::Read, offset: 1536, len: 4096, flags: Flags::NONE };
        assert_eq!(asked(0), read);
        // The kernel's UBLK_IO_F_FUA and UBLK_IO_F_META.
        let fua = UblkRequest { op: Op::Write, flags: Flags::FUA, ..read };
        assert_eq!(asked(1 | 0x2000), fua);
        assert_eq!(asked(1 | 0x800), UblkRequest { flags: Flags::META, ..fua });
        assert_eq!(asked(2), UblkRequest { op: Op::Flush, offset: 0, len: 0, ..read });
    }

    #[test]
    fn each_tag_has_its_own_data() {
        assert_eq!(data_at(0, 7), 0x8000_0007);
        assert_eq!(data_at(3, 0) - data_at(2, 0), 1 << 25);
    }
}
