//! Devices of this machine (ublk) as clients. The kernel's requests are handled like those of an
//! NBD client, except that they arrive complete and are answered individually.
//!
//! Invariant: each request that the kernel handed over is answered once, or stays unanswered when
//! the server ends; the kernel then hands it to the next server.

// Allowed because this module receives signals from other threads.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::sync::mpsc::Sender;

use forebay_core::{Flags, Op, Piece};
use forebay_live::ublk::{Channel, UblkRequest, Zeroes};
use forebay_live::{Plug, SocketLanes};

use super::Front;
use crate::connection::{Connection, Reply, ReplyContent};
use crate::handshake::Agreed;
use crate::protocol::{Command, CommandFlags, Errno, Header};

/// A device that becomes a client of an export.
pub(crate) struct Attachment {
    pub(crate) channel: Channel,
    /// The index of the export.
    pub(crate) export: usize,
    /// Receives whether the device is served.
    pub(crate) done: Sender<bool>,
}

impl Front {
    pub(super) fn attach<L: SocketLanes + ?Sized>(
        &mut self,
        attachment: Attachment,
        lanes: &mut L,
    ) {
        let Attachment { channel, export, done } = attachment;
        let plug = lanes.attach(channel).ok();
        if let Some(plug) = plug {
            let agreed = Agreed { export, structured: false, allocation: false };
            let stream = self.streams.of(plug, agreed.export);
            let connection = Connection::to_device(agreed, stream, self.memory.shared());
            self.seat(plug, connection);
        }
        // The requesting thread may no longer be waiting.
        let _ = done.send(plug.is_some());
    }

    /// Registers a request of a device.
    pub(super) fn asked_by_device<L: SocketLanes + ?Sized>(
        &mut self,
        plug: Plug,
        request: UblkRequest,
        lanes: &mut L,
    ) {
        let connection = self.connections[plug as usize].as_mut();
        if let Some(requests) = connection.and_then(|one| one.device.as_mut()) {
            requests.push_back(request);
            self.read_on(plug, lanes);
        }
    }
}

/// Sends a device's pending answers.
pub(super) fn answer<L: SocketLanes + ?Sized>(
    plug: Plug,
    connection: &mut Connection,
    lanes: &mut L,
) {
    while let Some(Reply { cookie, told }) = connection.next_reply() {
        let (tag, len) = parts(cookie);
        let result = match told {
            ReplyContent::Data { buf, .. } => {
                let stored = lanes.store(plug, tag, Piece { buf, at: 0, len });
                connection.free(buf, len, lanes.pool());
                stored.map(|()| len as i32).unwrap_or(-(Errno::Io as i32))
            }
            ReplyContent::Done | ReplyContent::Stored(_) => len as i32,
            // NBD's error numbers are those of Linux.
            ReplyContent::Failed(errno) => -(errno as i32),
        };
        lanes.answer(plug, tag, result);
    }
}

/// The number of bits of the tag in a cookie. The bits above are the length.
const TAG_BITS: u32 = 16;

fn parts(cookie: u64) -> (u16, u32) {
    (cookie as u16, (cookie >> TAG_BITS) as u32)
}

/// Returns the tag in the cookie of a device's request.
pub(super) fn tag_of(header: &Header) -> u16 {
    parts(header.cookie).0
}

/// Converts a device's request to an NBD request.
pub(crate) fn header_of(request: &UblkRequest) -> Header {
    let UblkRequest { tag, op, offset, len, flags, zeroes } = *request;
    let command = match (op, zeroes) {
        (_, Some(_)) => Command::WriteZeroes,
        (Op::Read, None) => Command::Read,
        (Op::Write, None) => Command::Write,
        (Op::Trim, None) => Command::Trim,
        _ => Command::Flush,
    };
    let flag = |set: bool, flag| if set { flag } else { CommandFlags::NONE };
    let flags = flag(flags.has(Flags::FUA), CommandFlags::FUA)
        .with(flag(zeroes == Some(Zeroes::Keep), CommandFlags::NO_HOLE));
    let cookie = u64::from(tag) | u64::from(len) << TAG_BITS;
    Header { command, flags, cookie, offset, len }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_requests_are_those_of_nbd() {
        let write = UblkRequest {
            tag: 7,
            op: Op::Write,
            offset: 4096,
            len: 1 << 20,
            flags: Flags::FUA,
            zeroes: None,
        };
        let header = header_of(&write);
        assert_eq!((header.command, header.flags), (Command::Write, CommandFlags::FUA));
        assert_eq!((header.offset, header.len), (4096, 1 << 20));
        assert_eq!(parts(header.cookie), (7, 1 << 20));
        let command = |op, zeroes, flags| {
            let header = header_of(&UblkRequest { op, zeroes, flags, ..write });
            (header.command, header.flags)
        };
        let none = (Flags::NONE, CommandFlags::NONE);
        assert_eq!(command(Op::Read, None, none.0), (Command::Read, none.1));
        assert_eq!(command(Op::Flush, None, none.0), (Command::Flush, none.1));
        assert_eq!(command(Op::Trim, None, none.0), (Command::Trim, none.1));
        let zeroes = |how| command(Op::Write, Some(how), none.0);
        assert_eq!(zeroes(Zeroes::Unmap), (Command::WriteZeroes, none.1));
        assert_eq!(zeroes(Zeroes::Keep), (Command::WriteZeroes, CommandFlags::NO_HOLE));
    }
}
