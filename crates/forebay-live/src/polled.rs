//! Sockets without io_uring: `poll` reports which sockets are ready, and each pass transfers their
//! data.
//!
//! The guarantees are those of sockets in a ring ([`crate::SocketLanes`]). Each pass costs one
//! system call, plus one for each ready socket, while a ring needs none.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use forebay_core::{Nanos, Piece};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};

use crate::{PIECES_MAX, Plug, Pool, SocketEvent, Waker};

/// A transfer of a list of pieces in progress.
#[derive(Default)]
struct Transfer {
    pieces: Vec<Piece>,
    is_busy: bool,
    /// Whether the transfer ends only with its last byte.
    is_whole: bool,
    done_bytes: u32,
}

impl Transfer {
    fn begin(&mut self, pieces: &[Piece], is_whole: bool) {
        self.pieces.clear();
        self.pieces.extend_from_slice(pieces);
        (self.is_busy, self.is_whole, self.done_bytes) = (true, is_whole, 0);
    }

    /// Returns the rest of the piece that contains the next byte.
    fn rest(&self) -> Option<Piece> {
        let mut before = 0;
        for piece in &self.pieces {
            if self.done_bytes < before + piece.len {
                let done = self.done_bytes - before;
                return Some(piece.bytes().on(done).len(piece.len - done));
            }
            before += piece.len;
        }
        None
    }

    /// Continues as far as possible without waiting; returns the result once it has completed.
    /// `part` transfers one piece.
    fn go_on(
        &mut self,
        mut part: impl FnMut(Piece) -> Result<usize, Errno>,
    ) -> Option<Result<u32, i32>> {
        while let Some(piece) = self.rest() {
            match part(piece) {
                Ok(0) => return Some(Ok(self.done_bytes)),
                Ok(moved) => self.done_bytes += moved as u32,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if self.done_bytes > 0 && !self.is_whole => break,
                Err(Errno::AGAIN) => return None,
                // The next transfer reports the error, because some bytes have already been
                // transferred.
                Err(_) if self.done_bytes > 0 => break,
                Err(error) => return Some(Err(error.raw_os_error())),
            }
        }
        Some(Ok(self.done_bytes))
    }
}

struct Socket {
    /// The socket; None once it is closed.
    file: Option<OwnedFd>,
    is_unplugged: bool,
    incoming: Transfer,
    outgoing: Transfer,
}

/// The sockets by name, and the waker of the waiting thread.
pub(crate) struct Polled {
    sockets: Vec<Socket>,
    sockets_max: u32,
    free: Vec<Plug>,
    moved: Vec<SocketEvent>,
    counter: Arc<OwnedFd>,
}

impl Polled {
    /// Creates a set for at most this many sockets.
    ///
    /// # Errors
    /// The system lacks the resources for a waker.
    pub(crate) fn new(sockets_max: u32) -> io::Result<Polled> {
        let counter = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        let (sockets, free, moved) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Polled { sockets, sockets_max, free, moved, counter })
    }

    /// See [`crate::SocketLanes::plug`].
    pub(crate) fn plug(&mut self, file: OwnedFd) -> Result<Plug, OwnedFd> {
        if let Some(plug) = self.free.pop() {
            let socket = &mut self.sockets[plug as usize];
            (socket.file, socket.is_unplugged) = (Some(file), false);
            return Ok(plug);
        }
        if self.sockets.len() >= self.sockets_max as usize {
            return Err(file);
        }
        let (incoming, outgoing) = (Transfer::default(), Transfer::default());
        self.sockets.push(Socket { file: Some(file), is_unplugged: false, incoming, outgoing });
        Ok((self.sockets.len() - 1) as Plug)
    }

    /// See [`crate::SocketLanes::receive`].
    pub(crate) fn receive(&mut self, plug: Plug, into: &[Piece], whole: bool) {
        let socket = &mut self.sockets[plug as usize];
        if socket.file.is_some() && !socket.is_unplugged && !socket.incoming.is_busy {
            socket.incoming.begin(into, whole);
        }
    }

    /// See [`crate::SocketLanes::send`].
    pub(crate) fn send(&mut self, plug: Plug, from: &[Piece]) {
        assert!(from.len() <= PIECES_MAX, "{} pieces are sent at once", from.len());
        let socket = &mut self.sockets[plug as usize];
        if socket.file.is_some() && !socket.is_unplugged && !socket.outgoing.is_busy {
            socket.outgoing.begin(from, true);
        }
    }

    /// See [`crate::SocketLanes::unplug`]. Transfers in progress end in the next pass, because the
    /// socket is shut down.
    pub(crate) fn unplug(&mut self, plug: Plug) {
        let Some(socket) = self.sockets.get_mut(plug as usize) else { return };
        let Some(file) = socket.file.as_ref().filter(|_| !socket.is_unplugged) else { return };
        socket.is_unplugged = true;
        // The socket may be disconnected already.
        let _ = shutdown(file, Shutdown::Both);
        self.close(plug);
    }

    /// Closes an unplugged socket once it has no outstanding transfers.
    fn close(&mut self, plug: Plug) {
        let socket = &mut self.sockets[plug as usize];
        let is_busy = socket.incoming.is_busy || socket.outgoing.is_busy;
        if socket.is_unplugged && !is_busy && socket.file.take().is_some() {
            self.moved.push(SocketEvent::Gone(plug));
        }
    }

    /// Waits until a socket is ready, the waker is used or time is up; returns which sockets are
    /// ready to receive and to send. A call that does not wait leaves the waker's signal for one
    /// that does.
    fn poll(&self, wait: Option<Nanos>) -> io::Result<Vec<(Plug, bool, bool)>> {
        let woken = if wait.is_some() { PollFlags::IN } else { PollFlags::empty() };
        let mut files = vec![PollFd::new(&*self.counter, woken)];
        let mut plugs = Vec::new();
        for (plug, socket) in (0..).zip(&self.sockets) {
            let Some(file) = &socket.file else { continue };
            let mut wanted = PollFlags::empty();
            wanted.set(PollFlags::IN, socket.incoming.is_busy);
            wanted.set(PollFlags::OUT, socket.outgoing.is_busy);
            if !wanted.is_empty() {
                plugs.push(plug);
                files.push(PollFd::new(file, wanted));
            }
        }
        let (wait, second) = (wait.map_or(0, |wait| wait.0), 1_000_000_000);
        let wait = Timespec { tv_sec: (wait / second) as i64, tv_nsec: (wait % second) as i64 };
        match poll(&mut files, Some(&wait)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if files[0].revents().contains(PollFlags::IN) {
            // The counter's value, which is how often the waker was used, does not matter.
            let _ = rustix::io::read(&*self.counter, &mut [0; 8]);
        }
        let ended = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
        let ready = files[1..].iter().zip(plugs).map(|(file, plug)| {
            let told = file.revents();
            (plug, told.intersects(ended | PollFlags::IN), told.intersects(ended | PollFlags::OUT))
        });
        Ok(ready.filter(|(_, receives, sends)| *receives || *sends).collect())
    }

    /// Waits for at most `wait`, until a socket is ready or the waker is used.
    ///
    /// # Errors
    /// The system call fails.
    pub(crate) fn wait(&mut self, wait: Nanos) -> io::Result<()> {
        self.poll(Some(wait)).map(drop)
    }

    /// See [`crate::SocketLanes::moved`].
    pub(crate) fn moved(
        &mut self,
        moved: &mut Vec<SocketEvent>,
        pool: &mut Pool,
    ) -> io::Result<()> {
        for (plug, receives, sends) in self.poll(None)? {
            self.go_on(plug, receives, sends, pool);
            self.close(plug);
        }
        let gone = self.moved.iter().filter_map(|one| match one {
            SocketEvent::Gone(plug) => Some(*plug),
            _ => None,
        });
        // A name is reused only after this call has reported its socket as gone, so that the caller
        // never confuses two sockets.
        self.free.extend(gone);
        moved.append(&mut self.moved);
        Ok(())
    }

    fn go_on(&mut self, plug: Plug, receives: bool, sends: bool, pool: &mut Pool) {
        let Socket { file: Some(file), incoming, outgoing, .. } = &mut self.sockets[plug as usize]
        else {
            return;
        };
        if receives && incoming.is_busy {
            let part = |piece| {
                recv(&*file, pool.view_mut(piece), RecvFlags::DONTWAIT).map(|(moved, _)| moved)
            };
            if let Some(came) = incoming.go_on(part) {
                incoming.is_busy = false;
                self.moved.push(SocketEvent::Received(plug, came));
            }
        }
        if sends && outgoing.is_busy {
            let how = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            if let Some(went) = outgoing.go_on(|piece| send(&*file, pool.view(piece), how)) {
                outgoing.is_busy = false;
                self.moved.push(SocketEvent::Sent(plug, went));
            }
        }
    }

    /// Returns a waker that ends the wait from another thread.
    pub(crate) fn waker(&self) -> Waker {
        Waker::counter(Arc::clone(&self.counter))
    }
}
