//! An unfinished request in a shaper.

use super::pace::Moment;
use crate::contract::{Bytes, Flags, Nanos, Op, Outcome, Request};

/// An unfinished request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub(super) request: Request,
    pub(super) class: usize,
    pub(super) admitted: Nanos,
    /// The time of admission on the clock with which rates are counted.
    pub(super) paced: Nanos,
    /// The number of earlier requests.
    pub(super) number: u64,
    /// Whether the request conflicted with an unfinished one when it arrived.
    pub(super) follows: bool,
    pub(super) bytes: Bytes,
    pub(super) sent_bytes: u32,
    pub(super) is_sent: bool,
    /// The number of outstanding parts, and the number of parts sent so far.
    pub(super) parts: u32,
    pub(super) parts_sent: u32,
    pub(super) outcome: Outcome,
    pub(super) preflush: Preflush,
}

/// The preflush of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Preflush {
    /// The write has no preflush, or its preflush is complete.
    None,
    Due,
    UnderWay,
}

impl Pending {
    /// Creates a request of which nothing has been sent yet.
    pub(super) fn new(
        at: Moment,
        (request, bytes): (Request, Bytes),
        class: usize,
        number: u64,
        follows: bool,
    ) -> Pending {
        let parted = request.op == Op::Write && request.flags.has(Flags::PREFLUSH);
        Pending {
            request,
            class,
            admitted: at.now,
            paced: at.paced,
            number,
            follows,
            bytes,
            sent_bytes: 0,
            is_sent: false,
            parts: 0,
            parts_sent: 0,
            outcome: Ok(()),
            preflush: if parted { Preflush::Due } else { Preflush::None },
        }
    }
}
