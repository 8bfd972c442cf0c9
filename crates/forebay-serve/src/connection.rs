//! A client's connection after the handshake: the received bytes and the pending answers.

use std::collections::VecDeque;
use std::sync::Arc;

use forebay_core::{Buf, Nanos, Piece, Slots};
use forebay_live::ublk::UblkRequest;
use forebay_live::{PIECES_MAX, Pool};

use crate::front::header_of;
use crate::handshake::Agreed;
use crate::protocol::{Answer, Errno, Header, REQUEST_BYTES, Status};
use crate::request_memory::RequestMemory;

/// The number of bytes to receive at a time, in addition to the remaining bytes of a long write.
const INBOX_BYTES: u32 = 128 << 10;
/// How many bytes to receive at a time after a write of at least [`LONG_BYTES`].
const INBOX_SHORT_BYTES: u32 = 4 << 10;
const LONG_BYTES: u32 = 64 << 10;
/// The maximum number of a client's requests in flight and unsent answers. At this number, no more
/// input is read from the client.
const REQUESTS_MAX: u32 = 256;
/// The maximum number of bytes in a client's requests and answers, unless a single request is
/// larger.
const HELD_MAX: u64 = 64 << 20;
/// The maximum number of bytes of answers sent at a time.
const SEND_MAX: u64 = 4 << 20;

/// An answer that waits to be sent.
pub(crate) struct Reply {
    pub(crate) cookie: u64,
    pub(crate) told: ReplyContent,
}

/// The content of an answer.
pub(crate) enum ReplyContent {
    Done,
    Failed(Errno),
    /// Bytes that were read. The connection frees their buffer.
    Data {
        offset: u64,
        buf: Buf,
        len: u32,
    },
    Stored(Vec<Status>),
}

/// A write whose data has not arrived completely.
pub(crate) struct Payload {
    pub(crate) asked: u32,
    pub(crate) buf: Buf,
    pub(crate) have: u32,
    pub(crate) len: u32,
}

/// The next item in a connection's input.
pub(crate) enum Next {
    /// A request header; the data follows if it is a write.
    Request(Header),
    /// Bytes that are not a request.
    Foreign,
    /// More input is needed.
    Starved,
}

pub(crate) struct Connection {
    pub(crate) agreed: Agreed,
    pub(crate) stream: u32,
    /// The connection's number among the connections to its export, and its name in traces.
    pub(crate) number: u32,
    pub(crate) name: Arc<str>,
    /// For a device of this machine, the requests that have not been accepted yet; None for a
    /// socket.
    pub(crate) device: Option<VecDeque<UblkRequest>>,
    inbox: Buf,
    /// The range of received but unprocessed bytes in the inbox.
    from: u32,
    to: u32,
    /// The number of remaining bytes of a refused write, which are discarded on arrival.
    pub(crate) skip: u32,
    pub(crate) payload: Option<Payload>,
    /// Whether the last write was long.
    writes_long: bool,
    pub(crate) receiving: bool,
    /// Whether no more input is processed. The client is unplugged once all its requests are
    /// answered.
    pub(crate) leaving: bool,
    /// Whether the client can no longer receive answers.
    pub(crate) deaf: bool,
    /// Whether the client has announced that it will disconnect, so that its earlier requests are
    /// still performed.
    pub(crate) took_leave: bool,
    pub(crate) unplugged: bool,
    pub(crate) under_way: u32,
    /// The request that is waiting for memory.
    pub(crate) starving: Option<Header>,
    /// When that request began to wait.
    starving_since: Nanos,
    /// Whether the client held no memory when its request began to wait.
    is_hungry: bool,
    /// The time since which the client has not continued a transfer that it began.
    pub(crate) stalled: Option<Nanos>,
    /// The memory in use for the client's requests and answers.
    held_bytes: u64,
    /// Whether the client's memory is charged to the reserve for exports with promises.
    is_promised: bool,
    memory: RequestMemory,
    replies: VecDeque<Reply>,
    /// The number of bytes being sent.
    sending: Option<u64>,
    /// The buffers being sent. The length is given for buffers that count toward the client's
    /// memory.
    sent: Vec<(Buf, Option<u32>)>,
    pieces: Vec<Piece>,
    heads: Vec<u8>,
}

impl Connection {
    pub(crate) fn new(
        agreed: Agreed,
        stream: u32,
        memory: RequestMemory,
        pool: &mut Pool,
    ) -> Connection {
        Connection::with(agreed, stream, memory, pool.take(INBOX_BYTES))
    }

    fn with(agreed: Agreed, stream: u32, memory: RequestMemory, inbox: Buf) -> Connection {
        memory.shared_by(true);
        Connection {
            agreed,
            stream,
            number: 0,
            name: Arc::default(),
            device: None,
            inbox,
            from: 0,
            to: 0,
            skip: 0,
            payload: None,
            writes_long: false,
            receiving: false,
            leaving: false,
            deaf: false,
            took_leave: false,
            unplugged: false,
            under_way: 0,
            starving: None,
            starving_since: Nanos::ZERO,
            is_hungry: false,
            stalled: None,
            held_bytes: 0,
            is_promised: false,
            memory,
            replies: VecDeque::new(),
            sending: None,
            sent: Vec::new(),
            pieces: Vec::new(),
            heads: Vec::new(),
        }
    }

    /// Creates a connection for a device of this machine, which passes whole requests instead of
    /// bytes.
    pub(crate) fn to_device(agreed: Agreed, stream: u32, memory: RequestMemory) -> Connection {
        let inbox = 0;
        let device = Some(VecDeque::new());
        Connection { device, ..Connection::with(agreed, stream, memory, inbox) }
    }

    /// Returns whether the client may have another request in flight.
    pub(crate) fn admits(&self) -> bool {
        self.under_way + (self.replies.len() as u32) < REQUESTS_MAX && self.held_bytes < HELD_MAX
    }

    /// Allocates a buffer of `len` bytes for one of the client's requests, if there is memory.
    pub(crate) fn take(&mut self, len: u32, is_promised: bool, pool: &mut Pool) -> Option<Buf> {
        let bytes = RequestMemory::occupied(len);
        if self.held_bytes == 0 {
            self.is_promised = is_promised;
        }
        if !self.memory.reserve(bytes, self.held_bytes, self.is_promised) {
            return None;
        }
        self.held_bytes += bytes;
        Some(pool.take(len))
    }

    pub(crate) fn free(&mut self, buf: Buf, len: u32, pool: &mut Pool) {
        if buf != 0 {
            self.let_free(len);
            pool.free(buf);
        }
    }

    /// Registers that a buffer of `len` bytes was freed.
    pub(crate) fn let_free(&mut self, len: u32) {
        let bytes = RequestMemory::occupied(len);
        self.held_bytes -= bytes;
        self.memory.release(bytes, self.is_promised);
    }

    /// Returns whether the client holds memory.
    pub(crate) fn holds_memory(&self) -> bool {
        self.held_bytes > 0
    }

    /// Returns since when a request of the client has been waiting for memory.
    pub(crate) fn starving_since(&self) -> Option<Nanos> {
        self.starving.map(|_| self.starving_since)
    }

    /// Postpones a request for which there is not enough memory.
    pub(crate) fn starve(&mut self, header: Header, now: Nanos) {
        self.starving_since = self.starving_since().unwrap_or(now);
        self.stop_starving();
        self.is_hungry = self.held_bytes == 0;
        self.memory.starves(true, self.is_hungry);
        self.starving = Some(header);
    }

    /// Registers that no request of the client waits for memory.
    pub(crate) fn stop_starving(&mut self) {
        if self.starving.take().is_some() {
            self.memory.starves(false, self.is_hungry);
        }
    }

    /// Returns the length of the transfers in progress.
    pub(crate) fn transfer_bytes(&self) -> u64 {
        let payload = self.payload.as_ref().map_or(0, |payload| u64::from(payload.len));
        payload.max(self.sending.unwrap_or(0))
    }

    /// Returns whether a request or an answer has been transferred in part.
    pub(crate) fn is_mid_transfer(&self) -> bool {
        self.payload.is_some() || self.sending.is_some()
    }

    /// Parses the next item of the input.
    pub(crate) fn next(&mut self, pool: &Pool) -> Next {
        if let Some(header) = self.starving {
            return Next::Request(header);
        }
        if let Some(requests) = &mut self.device {
            return requests
                .pop_front()
                .map_or(Next::Starved, |one| Next::Request(header_of(&one)));
        }
        let skipped = self.skip.min(self.to - self.from);
        self.skip -= skipped;
        self.from += skipped;
        if self.skip > 0 || self.to - self.from < REQUEST_BYTES as u32 {
            return Next::Starved;
        }
        let header = Piece { buf: self.inbox, at: self.from, len: REQUEST_BYTES as u32 };
        let bytes = pool.view(header).first_chunk().expect("as long as a header");
        self.from += REQUEST_BYTES as u32;
        Header::parse(bytes).map_or(Next::Foreign, Next::Request)
    }

    /// Moves received bytes of a write to its buffer; returns whether the write is complete.
    pub(crate) fn fill(&mut self, payload: &mut Payload, pool: &mut Pool) -> bool {
        let count = (payload.len - payload.have).min(self.to - self.from);
        self.writes_long = payload.len >= LONG_BYTES;
        if count > 0 {
            let from = Piece { buf: self.inbox, at: self.from, len: count };
            let to = Piece { buf: payload.buf, at: payload.have, len: count };
            pool.copy(from, to.bytes());
            self.from += count;
            payload.have += count;
        }
        payload.have == payload.len
    }

    /// Returns where to receive the next bytes, and whether that space must be filled completely.
    pub(crate) fn room(&mut self, pool: &mut Pool) -> (Piece, bool) {
        if let Some(payload) = &self.payload {
            let len = payload.len - payload.have;
            return (Piece { buf: payload.buf, at: payload.have, len }, true);
        }
        let left = self.to - self.from;
        if self.from > 0 {
            let all = Piece { buf: self.inbox, at: 0, len: self.to };
            pool.view_mut(all).copy_within(self.from as usize.., 0);
            (self.from, self.to) = (0, left);
        }
        // After a long write, another long write is likely. Receive only a little, because any data
        // that follows the next header in the inbox would have to be copied.
        let most = if self.writes_long { INBOX_SHORT_BYTES } else { INBOX_BYTES };
        (Piece { buf: self.inbox, at: left, len: most.max(left + 1) - left }, false)
    }

    /// Registers received bytes. If they belong to a payload, returns whether it is complete.
    pub(crate) fn received(&mut self, count: u32) -> bool {
        self.stalled = None;
        match &mut self.payload {
            Some(payload) => {
                payload.have += count;
                payload.have == payload.len
            }
            None => {
                self.to += count;
                false
            }
        }
    }

    pub(crate) fn owe(&mut self, reply: Reply) {
        self.replies.push_back(reply);
    }

    /// Returns whether there is something to send and nothing is being sent.
    pub(crate) fn has_to_send(&self) -> bool {
        self.sending.is_none() && !self.replies.is_empty()
    }

    /// Returns whether all answers have been sent.
    pub(crate) fn is_quiet(&self) -> bool {
        self.sending.is_none() && self.replies.is_empty() && self.under_way == 0
    }

    /// Returns whether the client can be unplugged. A client that can no longer receive answers may
    /// never read what is being sent, nor send the rest of a write.
    pub(crate) fn is_done(&self) -> bool {
        self.is_quiet() || self.deaf && self.under_way == u32::from(self.payload.is_some())
    }

    /// Assembles the next answers to send: all headers are in one buffer, and data is sent from the
    /// buffers that contain it.
    pub(crate) fn compose(&mut self, pool: &mut Pool) -> &[Piece] {
        self.heads.clear();
        self.pieces.clear();
        let mut bytes = 0;
        // The buffer of the headers is allocated once its length is known; until then, its number
        // in the pieces is 0.
        while self.pieces.len() + 2 <= PIECES_MAX && bytes < SEND_MAX {
            let Some(Reply { cookie, told }) = self.replies.pop_front() else { break };
            let answer = Answer { structured: self.agreed.structured, cookie };
            let begin = self.heads.len();
            let mut data = None;
            match told {
                ReplyContent::Done => answer.done(&mut self.heads),
                ReplyContent::Failed(errno) => answer.failed(errno, &mut self.heads),
                ReplyContent::Stored(extents) => answer.block_status(&extents, &mut self.heads),
                ReplyContent::Data { offset, buf, len } => {
                    answer.data(offset, len, &mut self.heads);
                    data = Some(Piece { buf, at: 0, len });
                }
            }
            let len = (self.heads.len() - begin) as u32;
            match self.pieces.last_mut().filter(|last| last.buf == 0) {
                Some(last) => last.len += len,
                None => self.pieces.push(Piece { buf: 0, at: begin as u32, len }),
            }
            bytes += u64::from(len);
            if let Some(piece) = data {
                self.pieces.push(piece);
                self.sent.push((piece.buf, Some(piece.len)));
                bytes += u64::from(piece.len);
            }
        }
        let heads = pool.take(self.heads.len() as u32);
        pool.put(Piece { buf: heads, at: 0, len: self.heads.len() as u32 }, &self.heads);
        for piece in self.pieces.iter_mut().filter(|piece| piece.buf == 0) {
            piece.buf = heads;
        }
        // The header buffer does not count toward the client's limit.
        self.sent.push((heads, None));
        self.sending = Some(bytes);
        &self.pieces
    }

    /// Registers that the composed answers were sent, or that the client has gone. Returns whether
    /// everything was sent.
    pub(crate) fn was_sent(&mut self, count: Option<u32>, pool: &mut Pool) -> bool {
        let bytes = self.sending.take();
        self.stalled = None;
        let mut sent = std::mem::take(&mut self.sent);
        for (buf, len) in sent.drain(..) {
            match len {
                Some(len) => self.free(buf, len, pool),
                None => pool.free(buf),
            }
        }
        self.sent = sent;
        bytes == count.map(u64::from)
    }

    /// Returns the next answer to a device's request.
    pub(crate) fn next_reply(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }

    /// Discards all pending answers.
    pub(crate) fn forget(&mut self, pool: &mut Pool) {
        while let Some(reply) = self.replies.pop_front() {
            if let ReplyContent::Data { buf, len, .. } = reply.told {
                self.free(buf, len, pool);
            }
        }
    }

    /// Frees all buffers. No request of the client may be in flight.
    pub(crate) fn close(mut self, pool: &mut Pool) {
        debug_assert_eq!(self.under_way, 0, "its name may be another's now");
        self.forget(pool);
        self.stop_starving();
        self.memory.shared_by(false);
        pool.free(self.inbox);
    }
}
