//! Linux's older asynchronous I/O (`io_submit`), which databases and fio's `libaio` use.
//!
//! Unlike io_uring, it never passes an I/O to another thread: if the block layer has no free
//! request, the submitting thread sleeps. Measurements of how threads wait for requests depend on
//! this. Only reads and writes of files opened with `O_DIRECT` are asynchronous.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;

use forebay_core::{Nanos, Op};

/// The alignment of memory, which is the largest that `O_DIRECT` requires.
const ALIGNMENT: usize = 4096;
const READ: u16 = 0;
const WRITE: u16 = 1;

/// The kernel's `struct iocb`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Command {
    data: u64,
    key: u32,
    rw_flags: i32,
    opcode: u16,
    priority: i16,
    fd: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_fd: u32,
}

/// The kernel's `struct io_event`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Event {
    data: u64,
    command: u64,
    result: i64,
    result2: i64,
}

/// An I/O that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AioEnded {
    /// The name that the caller gave the I/O.
    pub name: u64,
    /// The number of bytes transferred, or the negated error number of the system.
    pub result: i64,
}

/// I/Os on one file that all share one buffer, for users that do not need the data.
pub struct Aio {
    file: File,
    context: u64,
    buffer: Vec<u8>,
    aligned: usize,
    events: Vec<Event>,
    under_way: usize,
}

impl Aio {
    /// Creates a queue for at most `depth` I/Os at a time, each of at most `len_max` bytes.
    ///
    /// # Errors
    /// The system cannot provide for that many I/Os.
    pub fn new(file: File, depth: u32, len_max: u32) -> io::Result<Aio> {
        let mut context = 0u64;
        // SAFETY: the pointer is to a context that is zero, as the call requires, and that lives
        // until the call returns.
        let set_up = unsafe { libc::syscall(libc::SYS_io_setup, depth, &raw mut context) };
        if set_up != 0 {
            return Err(io::Error::last_os_error());
        }
        let buffer = vec![0; len_max as usize + ALIGNMENT];
        let aligned = buffer.as_ptr().align_offset(ALIGNMENT);
        let events = vec![Event::default(); depth as usize];
        Ok(Aio { file, context, buffer, aligned, events, under_way: 0 })
    }

    /// Returns the number of I/Os that were submitted and have not been reaped.
    pub fn in_flight(&self) -> usize {
        self.under_way
    }

    /// Submits I/Os in one call, each with its name, offset and length. The thread sleeps if the
    /// block layer makes it wait.
    ///
    /// # Errors
    /// The system refuses an I/O; only those before it, if any, are outstanding then.
    ///
    /// # Panics
    /// An I/O is longer than announced, or transfers no data.
    pub fn submit(&mut self, ios: &[(u64, Op, u64, u32)]) -> io::Result<()> {
        let mut commands: Vec<Command> = ios.iter().map(|io| self.command(*io)).collect();
        let mut pointers: Vec<*mut Command> =
            commands.iter_mut().map(|command| &raw mut *command).collect();
        let mut sent = 0;
        while sent < pointers.len() {
            let (count, first) = (pointers.len() - sent, pointers[sent..].as_mut_ptr());
            // SAFETY: the pointers are to commands that live until the call has returned; the call
            // copies them. The buffer and the file that they refer to live until the context is
            // destroyed.
            let took = unsafe { libc::syscall(libc::SYS_io_submit, self.context, count, first) };
            if took <= 0 {
                return Err(io::Error::last_os_error());
            }
            sent += took as usize;
            self.under_way += took as usize;
        }
        Ok(())
    }

    fn command(&self, (name, op, offset, len): (u64, Op, u64, u32)) -> Command {
        assert!(op.moves_data() && len as usize + ALIGNMENT <= self.buffer.len(), "{op:?} {len}");
        Command {
            data: name,
            opcode: if op == Op::Read { READ } else { WRITE },
            fd: self.file.as_raw_fd() as u32,
            buffer: self.buffer[self.aligned..].as_ptr() as u64,
            bytes: len.into(),
            offset: offset as i64,
            ..Command::default()
        }
    }

    /// Waits until an I/O has ended, or for at most `wait` if that is given, and passes the I/Os
    /// that have ended to `each`.
    ///
    /// # Errors
    /// The system call fails.
    pub fn reap(&mut self, wait: Option<Nanos>, mut each: impl FnMut(AioEnded)) -> io::Result<()> {
        let timeout = wait.map(|span| libc::timespec {
            tv_sec: (span.0 / 1_000_000_000) as _,
            tv_nsec: (span.0 % 1_000_000_000) as _,
        });
        let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
        let events = self.events.as_mut_ptr();
        // SAFETY: there is space for the requested number of events, and the timeout lives until
        // the call returns.
        let got = unsafe {
            let most = self.events.len();
            libc::syscall(libc::SYS_io_getevents, self.context, 1usize, most, events, timeout)
        };
        if got < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) };
        }
        self.under_way -= got as usize;
        for event in &self.events[..got as usize] {
            each(AioEnded { name: event.data, result: event.result });
        }
        Ok(())
    }
}

impl Drop for Aio {
    fn drop(&mut self) {
        // SAFETY: this object owns the context; the call waits for outstanding I/Os, so the buffer
        // is no longer in use afterwards.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn structures_have_the_kernels_sizes() {
        assert_eq!(size_of::<Command>(), 64);
        assert_eq!(size_of::<Event>(), 32);
    }

    #[test]
    fn completions_are_matched_by_id() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 8192]).unwrap();
        let mut aio = Aio::new(file, 4, 4096).unwrap();
        aio.submit(&[(5, Op::Read, 4096, 4096), (6, Op::Write, 8192, 512)]).unwrap();
        let mut ended = Vec::new();
        while aio.in_flight() > 0 {
            aio.reap(None, |io| ended.push((io.name, io.result))).unwrap();
        }
        ended.sort_unstable();
        assert_eq!(ended, [(5, 4096), (6, 512)]);
        aio.reap(Some(Nanos(1)), |_| panic!("nothing is under way")).unwrap();
    }
}
