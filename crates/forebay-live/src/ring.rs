//! The ring in which a driver waits for I/Os on targets, for sockets and for wakers.
//!
//! Invariant: the files, memory and lists that an entry refers to stay alive and in place until the
//! entry has ended.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use forebay_core::{Nanos, Piece};
use io_uring::squeue::Entry;
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode};
use rustix::event::{EventfdFlags, eventfd};

use crate::sockets::{Plug, SocketEvent, Sockets};
use crate::ublk::Channel;
use crate::{Pool, Waker};

/// The name of the entry that waits for the waker.
const WOKEN: u64 = u64::MAX;
/// The bit that marks the name of a socket's entry.
const SOCKET: u64 = 1 << 62;

/// The bit that marks the name of a device's entry. The device's name is in the bits above the tag.
const DEVICE: u64 = 1 << 61;
const TAG_BITS: u32 = 16;
/// `PR_SET_IO_FLUSHER`, which some C libraries do not define.
const SET_IO_FLUSHER: i32 = 57;

/// A ring, the sockets that its owner waits for in addition to I/Os, and a waker.
pub(crate) struct Ring {
    ring: IoUring,
    sockets: Sockets,
    sockets_max: u32,
    /// Devices by name. Devices and sockets share one set of names.
    devices: Vec<Option<Channel>>,
    /// The counter that wakers increment, and whether the ring is watching it.
    counter: Option<Arc<OwnedFd>>,
    watched: bool,
}

/// An entry that ended.
#[derive(Clone, Copy)]
pub(crate) struct CompletedEntry {
    /// The name given to the entry.
    pub(crate) key: u64,
    /// The result from the system.
    pub(crate) result: i32,
}

impl Ring {
    /// Creates a ring for up to `entries` entries of the owner and `sockets_max` sockets at a time.
    ///
    /// # Errors
    /// The kernel has no io_uring, does not permit its use, or is too old (before 5.11).
    pub(crate) fn new(entries: u32, sockets_max: u32) -> io::Result<Ring> {
        let mut deferred = IoUring::builder();
        deferred.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
        let mut cooperative = IoUring::builder();
        cooperative.setup_coop_taskrun().setup_taskrun_flag();
        // A socket needs two entries, because it sends and receives concurrently; the waker needs
        // one.
        let entries = (entries + 2 * sockets_max + 1).next_power_of_two();
        // Tries the settings for the newest kernels first: deferred work needs 6.1, cooperative
        // work 5.19.
        let ring = deferred
            .build(entries)
            .or_else(|_| cooperative.build(entries))
            .or_else(|_| IoUring::new(entries))?;
        if !ring.params().is_feature_ext_arg() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "needs Linux 5.11 or later"));
        }
        let sockets = Sockets::default();
        let devices = Vec::new();
        Ok(Ring { ring, sockets, sockets_max, devices, counter: None, watched: false })
    }

    /// Returns access to the ring for registering files and memory.
    pub(crate) fn submitter(&self) -> io_uring::Submitter<'_> {
        self.ring.submitter()
    }

    /// Adds an entry of the owner; the next [`Ring::enter`] submits it to the kernel.
    ///
    /// # Safety
    /// Everything that the entry refers to must stay alive and in place until the entry has ended.
    ///
    /// # Panics
    /// There are more entries than the ring was created for.
    pub(crate) unsafe fn push(&mut self, entry: Entry, key: u64) {
        let entry = entry.user_data(key);
        // SAFETY: the caller guarantees this.
        if unsafe { self.ring.submission().push(&entry) }.is_err() {
            // Answers of devices occupy the space; the kernel consumes them at once.
            let _ = self.enter(None);
            // SAFETY: the caller guarantees this, as above.
            let pushed = unsafe { self.ring.submission().push(&entry) };
            pushed.expect("no more entries than the ring was made for");
        }
    }

    /// Returns the number of entries that have not been submitted to the kernel.
    pub(crate) fn waiting(&mut self) -> usize {
        self.ring.submission().len()
    }

    /// Makes the ring watch the waker's counter, if there is a waker.
    pub(crate) fn watch(&mut self) {
        let Some(counter) = self.counter.as_ref().filter(|_| !self.watched) else { return };
        let poll = opcode::PollAdd::new(Fd(counter.as_raw_fd()), libc::POLLIN as u32).build();
        // SAFETY: the counter is open as long as the ring may use it, because fields are dropped in
        // order.
        self.watched = unsafe { self.ring.submission().push(&poll.user_data(WOKEN)) }.is_ok();
    }

    /// Enters the kernel. A timeout, or that no work is available yet, is not an error.
    pub(crate) fn enter(&mut self, wait: Option<Nanos>) -> io::Result<()> {
        let entered = match wait {
            None => self.ring.submitter().submit(),
            Some(span) => {
                let time = Timespec::new()
                    .sec(span.0 / 1_000_000_000)
                    .nsec((span.0 % 1_000_000_000) as u32);
                let args = SubmitArgs::new().timespec(&time);
                self.ring.submitter().submit_with_args(1, &args)
            }
        };
        match entered.map_err(|error| (error.raw_os_error(), error)) {
            Ok(_) => Ok(()),
            Err((Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY), _)) => Ok(()),
            Err((_, error)) => Err(error),
        }
    }

    /// Passes the owner's completed entries to `each`, and keeps socket transfers for
    /// [`Ring::moved`]. Enters the kernel only if the kernel reports that it has work to do.
    pub(crate) fn reap(
        &mut self,
        pool: &mut Pool,
        mut each: impl FnMut(&mut Pool, CompletedEntry),
    ) -> io::Result<()> {
        if self.ring.completion().is_empty() && self.ring.submission().taskrun() {
            self.enter(None)?;
        }
        for entry in self.ring.completion() {
            let key = entry.user_data();
            match key {
                WOKEN => {
                    self.watched = false;
                    if let Some(counter) = &self.counter {
                        // This does not block, and the value of the counter does not matter.
                        let _ = rustix::io::read(counter, &mut [0; 8]);
                    }
                }
                _ if key & SOCKET != 0 => self.sockets.ended(key & !SOCKET, entry.result(), pool),
                _ if key & DEVICE != 0 => {
                    let (plug, tag) = (((key & !DEVICE) >> TAG_BITS) as usize, key as u16);
                    let Some(device) = &mut self.devices[plug] else { continue };
                    match device.ended(tag, entry.result()) {
                        Some(request) => self.sockets.asked(plug as Plug, request),
                        None if device.is_over() => {
                            self.devices[plug] = None;
                            self.sockets.let_go(plug as Plug);
                        }
                        None => {}
                    }
                }
                _ => each(pool, CompletedEntry { key, result: entry.result() }),
            }
        }
        Ok(())
    }

    /// Returns whether any entries of sockets are in flight.
    pub(crate) fn sockets_busy(&self) -> bool {
        self.sockets.busy() > 0
    }

    /// See [`crate::SocketLanes::plug`].
    pub(crate) fn plug(&mut self, socket: OwnedFd) -> Result<Plug, OwnedFd> {
        match self.sockets.count() < self.sockets_max {
            true => Ok(self.sockets.plug(socket)),
            false => Err(socket),
        }
    }

    /// See [`crate::SocketLanes::receive`].
    pub(crate) fn receive(&mut self, plug: Plug, into: &[Piece], whole: bool, pool: &mut Pool) {
        if let Some((entry, key)) = self.sockets.receive(plug, into, whole, pool) {
            // SAFETY: the bytes are lent and the socket is open until the entry has ended.
            unsafe { self.push(entry, key | SOCKET) };
        }
    }

    /// See [`crate::SocketLanes::send`].
    pub(crate) fn send(&mut self, plug: Plug, from: &[Piece], pool: &mut Pool) {
        if let Some((entry, key)) = self.sockets.send(plug, from, pool) {
            // SAFETY: as in `receive`, the bytes are lent and the socket is open.
            unsafe { self.push(entry, key | SOCKET) };
        }
    }

    /// See [`crate::SocketLanes::unplug`].
    pub(crate) fn unplug(&mut self, plug: Plug) {
        self.sockets.unplug(plug);
    }

    /// See [`crate::SocketLanes::moved`].
    pub(crate) fn moved(&mut self, moved: &mut Vec<SocketEvent>) {
        self.sockets.moved(moved);
    }

    /// See [`crate::SocketLanes::attach`].
    pub(crate) fn attach(&mut self, device: Channel) -> Result<Plug, Channel> {
        if self.sockets.count() >= self.sockets_max {
            return Err(device);
        }
        // When this thread needs memory, it must not wait for the device to write pages. If the
        // kernel refuses, nothing else changes.
        // SAFETY: the call sets a property of the calling thread.
        let _ = unsafe { libc::prctl(SET_IO_FLUSHER, 1, 0, 0, 0) };
        let plug = self.sockets.reserve();
        for tag in 0..device.depth() {
            self.push_command(plug, tag, device.fetch(tag));
        }
        let at = plug as usize;
        self.devices.resize_with(self.devices.len().max(at + 1), || None);
        self.devices[at] = Some(device);
        Ok(plug)
    }

    /// See [`crate::SocketLanes::answer`].
    pub(crate) fn answer(&mut self, plug: Plug, tag: u16, result: i32) {
        if let Some(entry) = self.device(plug).map(|device| device.answer(tag, result)) {
            self.push_command(plug, tag, entry);
        }
    }

    fn push_command(&mut self, plug: Plug, tag: u16, entry: Entry) {
        let key = DEVICE | u64::from(plug) << TAG_BITS | u64::from(tag);
        // SAFETY: the command contains its data, and the file is open until all of the device's
        // entries have ended or the ring is closed, because fields are dropped in order.
        unsafe { self.push(entry, key) };
    }

    fn device(&self, plug: Plug) -> Option<&Channel> {
        self.devices.get(plug as usize)?.as_ref()
    }

    /// See [`crate::SocketLanes::load`].
    pub(crate) fn load(
        &self,
        plug: Plug,
        tag: u16,
        into: Piece,
        pool: &mut Pool,
    ) -> io::Result<()> {
        let device = self.device(plug).ok_or(io::ErrorKind::NotFound)?;
        device.read_data(tag, 0, pool.view_mut(into))
    }

    /// See [`crate::SocketLanes::store`].
    pub(crate) fn store(&self, plug: Plug, tag: u16, from: Piece, pool: &Pool) -> io::Result<()> {
        let device = self.device(plug).ok_or(io::ErrorKind::NotFound)?;
        device.write_data(tag, 0, pool.view(from))
    }

    /// Submits the answers of devices and closes all sockets, whose transfers end soon.
    pub(crate) fn unplug_all(&mut self) {
        // The kernel repeats requests whose answers do not reach it to the next server.
        let _ = self.enter(None);
        self.sockets.unplug_all();
    }

    /// Returns a waker that ends the wait from another thread.
    pub(crate) fn waker(&mut self) -> io::Result<Waker> {
        let counter = match &self.counter {
            Some(counter) => Arc::clone(counter),
            None => Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?),
        };
        self.counter = Some(Arc::clone(&counter));
        Ok(Waker::counter(counter))
    }
}
