//! Sockets that wait in a driver's ring: bytes are received into named buffers and sent from them,
//! as with targets.
//!
//! A socket receives one list of pieces at a time and sends one, concurrently. Lists are sent
//! completely; otherwise, an error or a disconnect by the peer is reported. An unplugged socket is
//! shut down at once, and closed when it has no operations in flight.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use forebay_core::{Lane, Piece};
use io_uring::opcode;
use io_uring::squeue::Entry;
use io_uring::types::Fd;

use crate::ublk::{Channel, UblkRequest};
use crate::{Pool, Target};

/// The name of a socket. It may be reused after the socket was unplugged and [`SocketEvent::Gone`]
/// was reported.
pub type Plug = u32;

/// The result of a socket's transfer, or another event of a socket or device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketEvent {
    /// The number of bytes received, which is 0 if no more follow, or the system's error number.
    Received(Plug, Result<u32, i32>),
    /// The number of bytes sent; less than requested only if the peer has disconnected.
    Sent(Plug, Result<u32, i32>),
    /// The socket was unplugged and is closed, or the device was stopped.
    Gone(Plug),
    /// A request of a device, whose answer must contain the request's tag
    /// ([`SocketLanes::answer`]).
    Asked(Plug, UblkRequest),
}

/// Lanes whose driver also waits for sockets.
pub trait SocketLanes: crate::Lanes {
    /// Returns the memory of the buffers that pieces refer to.
    fn pool(&mut self) -> &mut Pool;

    /// Adds a socket.
    ///
    /// # Errors
    /// Returns the socket if the driver already has the maximum number.
    fn plug(&mut self, socket: OwnedFd) -> Result<Plug, OwnedFd>;

    /// Receives into these pieces, which are lent until the result is reported: the available
    /// bytes, or all of them with `whole`. Does nothing if the socket is already receiving or was
    /// unplugged.
    fn receive(&mut self, plug: Plug, into: &[Piece], whole: bool);

    /// Sends these pieces, at most [`PIECES_MAX`], which are lent until the result is reported.
    /// Does nothing if the socket is already sending or was unplugged.
    fn send(&mut self, plug: Plug, from: &[Piece]);

    /// Shuts a socket down and closes it once it has no outstanding transfers.
    fn unplug(&mut self, plug: Plug);

    /// Adds a target, and returns its lane, which comes after all others.
    ///
    /// # Errors
    /// The driver cannot add targets at all, or has reached their maximum number.
    fn add(&mut self, _target: Target) -> io::Result<Lane> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Lets I/Os on a lane reach the first `bytes` bytes of its target, which has grown.
    fn enlarge(&mut self, _lane: Lane, _bytes: u64) {}

    /// Adds a device of this machine, whose requests arrive as [`SocketEvent::Asked`]. Devices and
    /// sockets share one set of names. The device is gone once it has been stopped.
    ///
    /// # Errors
    /// Returns the device if the driver already has the maximum number of sockets, or has no ring.
    fn attach(&mut self, device: Channel) -> Result<Plug, Channel> {
        Err(device)
    }

    /// Copies the data of a device's write to `into`.
    ///
    /// # Errors
    /// The system's error.
    fn load(&mut self, _plug: Plug, _tag: u16, _into: Piece) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Copies the data of a device's read from `from`.
    ///
    /// # Errors
    /// The system's error.
    fn store(&mut self, _plug: Plug, _tag: u16, _from: Piece) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Answers a device's request with the number of bytes transferred, or the negated error number
    /// of the system.
    fn answer(&mut self, _plug: Plug, _tag: u16, _result: i32) {}

    /// Adds the results of transfers, in the order in which they ended.
    ///
    /// # Errors
    /// The ring itself fails.
    fn moved(&mut self, moved: &mut Vec<SocketEvent>) -> io::Result<()>;
}

/// The maximum number of pieces that the kernel sends or receives at a time.
pub const PIECES_MAX: usize = 1024;

/// A transfer of a list of pieces. Its lists are reused.
struct Transfer {
    busy: bool,
    pieces: Vec<Piece>,
    vectors: Vec<libc::iovec>,
    /// Boxed to keep its address stable.
    message: Box<libc::msghdr>,
}

// SAFETY: only the kernel uses the pointers in the lists. They point to memory of the pool, which
// is not bound to a thread.
unsafe impl Send for Transfer {}

impl Transfer {
    fn new() -> Transfer {
        // SAFETY: all zeros is an empty message.
        let message = Box::new(unsafe { std::mem::zeroed() });
        Transfer { busy: false, pieces: Vec::new(), vectors: Vec::new(), message }
    }

    /// Lends the pieces to the kernel and returns their address: a single piece, or a list in
    /// `message`.
    fn lend(&mut self, pieces: &[Piece], writes: bool, pool: &mut Pool) -> Option<(*mut u8, u32)> {
        self.busy = true;
        self.pieces.clear();
        self.pieces.extend_from_slice(pieces);
        for piece in pieces {
            pool.lend(*piece, writes);
        }
        if let [piece] = pieces {
            return Some((pool.address(*piece).0, piece.len));
        }
        self.vectors.clear();
        self.vectors.extend(pieces.iter().map(|piece| libc::iovec {
            iov_base: pool.address(*piece).0.cast(),
            iov_len: piece.len as usize,
        }));
        self.message.msg_iov = self.vectors.as_mut_ptr();
        // The type of this field depends on the C library.
        self.message.msg_iovlen = self.vectors.len() as _;
        None
    }

    fn give_back(&mut self, writes: bool, pool: &mut Pool) {
        for piece in self.pieces.drain(..) {
            pool.give_back(piece, writes);
        }
        self.busy = false;
    }
}

struct Socket {
    /// The socket; None once it is closed.
    file: Option<OwnedFd>,
    unplugged: bool,
    incoming: Transfer,
    outgoing: Transfer,
}

/// Sockets by name.
#[derive(Default)]
pub(crate) struct Sockets {
    sockets: Vec<Socket>,
    free: Vec<Plug>,
    moved: Vec<SocketEvent>,
    busy: usize,
}

/// The low bit of an entry's name, which is set for sending.
const OUT: u64 = 1;

impl Sockets {
    /// Returns the number of sockets.
    pub(crate) fn count(&self) -> u32 {
        (self.sockets.len() - self.free.len()) as u32
    }

    /// Returns the number of outstanding transfers.
    pub(crate) fn busy(&self) -> usize {
        self.busy
    }

    pub(crate) fn plug(&mut self, file: OwnedFd) -> Plug {
        let plug = self.reserve();
        let socket = &mut self.sockets[plug as usize];
        (socket.file, socket.unplugged) = (Some(file), false);
        plug
    }

    /// Returns an unused name, for a device. [`Sockets::let_go`] frees it.
    pub(crate) fn reserve(&mut self) -> Plug {
        if let Some(plug) = self.free.pop() {
            return plug;
        }
        let (incoming, outgoing) = (Transfer::new(), Transfer::new());
        self.sockets.push(Socket { file: None, unplugged: true, incoming, outgoing });
        (self.sockets.len() - 1) as Plug
    }

    /// Reports that a device is gone.
    pub(crate) fn let_go(&mut self, plug: Plug) {
        self.moved.push(SocketEvent::Gone(plug));
    }

    /// Reports a request of a device.
    pub(crate) fn asked(&mut self, plug: Plug, request: UblkRequest) {
        self.moved.push(SocketEvent::Asked(plug, request));
    }

    /// Returns the entry that receives, and its name.
    pub(crate) fn receive(
        &mut self,
        plug: Plug,
        into: &[Piece],
        whole: bool,
        pool: &mut Pool,
    ) -> Option<(Entry, u64)> {
        let socket = self.sockets.get_mut(plug as usize)?;
        let file = socket.file.as_ref().filter(|_| !socket.unplugged && !socket.incoming.busy)?;
        let (file, flags) = (Fd(file.as_raw_fd()), if whole { libc::MSG_WAITALL } else { 0 });
        let entry = match socket.incoming.lend(into, true, pool) {
            Some((start, len)) => opcode::Recv::new(file, start, len).flags(flags).build(),
            None => opcode::RecvMsg::new(file, &raw mut *socket.incoming.message)
                .flags(flags as u32)
                .build(),
        };
        self.busy += 1;
        Some((entry, u64::from(plug) << 1))
    }

    /// Returns the entry that sends, and its name.
    pub(crate) fn send(
        &mut self,
        plug: Plug,
        from: &[Piece],
        pool: &mut Pool,
    ) -> Option<(Entry, u64)> {
        assert!(from.len() <= PIECES_MAX, "{} pieces are sent at once", from.len());
        let socket = self.sockets.get_mut(plug as usize)?;
        let file = socket.file.as_ref().filter(|_| !socket.unplugged && !socket.outgoing.busy)?;
        // If only a part can be sent, the kernel continues by itself.
        let (file, flags) = (Fd(file.as_raw_fd()), libc::MSG_NOSIGNAL | libc::MSG_WAITALL);
        let entry = match socket.outgoing.lend(from, false, pool) {
            Some((start, len)) => opcode::Send::new(file, start, len).flags(flags).build(),
            None => opcode::SendMsg::new(file, &raw const *socket.outgoing.message)
                .flags(flags as u32)
                .build(),
        };
        self.busy += 1;
        Some((entry, u64::from(plug) << 1 | OUT))
    }

    /// Registers that the entry with this name has ended.
    pub(crate) fn ended(&mut self, key: u64, result: i32, pool: &mut Pool) {
        let (plug, out) = ((key >> 1) as Plug, key & OUT != 0);
        let socket = &mut self.sockets[plug as usize];
        let result = if result < 0 { Err(-result) } else { Ok(result as u32) };
        self.busy -= 1;
        match out {
            true => {
                socket.outgoing.give_back(false, pool);
                self.moved.push(SocketEvent::Sent(plug, result));
            }
            false => {
                socket.incoming.give_back(true, pool);
                self.moved.push(SocketEvent::Received(plug, result));
            }
        }
        self.close(plug);
    }

    pub(crate) fn unplug(&mut self, plug: Plug) {
        let Some(socket) = self.sockets.get_mut(plug as usize) else { return };
        let Some(file) = socket.file.as_ref().filter(|_| !socket.unplugged) else { return };
        socket.unplugged = true;
        // The socket may be disconnected already.
        let _ = rustix::net::shutdown(file, rustix::net::Shutdown::Both);
        self.close(plug);
    }

    pub(crate) fn unplug_all(&mut self) {
        for plug in 0..self.sockets.len() as Plug {
            self.unplug(plug);
        }
    }

    /// Closes an unplugged socket once it has no outstanding transfers.
    fn close(&mut self, plug: Plug) {
        let socket = &mut self.sockets[plug as usize];
        if socket.unplugged && !socket.incoming.busy && !socket.outgoing.busy {
            socket.file = None;
            self.moved.push(SocketEvent::Gone(plug));
        }
    }

    pub(crate) fn moved(&mut self, moved: &mut Vec<SocketEvent>) {
        let gone = self.moved.iter().filter_map(|one| match one {
            SocketEvent::Gone(plug) => Some(*plug),
            _ => None,
        });
        // A name is reused only after this call has reported its socket as gone, so that the caller
        // never confuses two sockets.
        self.free.extend(gone);
        moved.append(&mut self.moved);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_name_is_reused_only_after_its_removal_was_reported() {
        let mut sockets = Sockets::default();
        let socket = || OwnedFd::from(UnixStream::pair().expect("a pair of sockets").0);
        let first = sockets.plug(socket());
        sockets.unplug(first);
        let second = sockets.plug(socket());
        assert_ne!(first, second, "nobody was told yet");
        let mut moved = Vec::new();
        sockets.moved(&mut moved);
        assert_eq!((moved, sockets.count()), (vec![SocketEvent::Gone(first)], 1));
        assert_eq!(sockets.plug(socket()), first);
    }
}
