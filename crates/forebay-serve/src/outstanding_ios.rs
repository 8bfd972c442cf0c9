//! The outstanding I/Os of a disk.

use std::collections::VecDeque;

use forebay_core::{Completion, Nanos, Request, RequestId};

/// The outstanding I/Os of a disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct OutstandingIos {
    /// The ids, offsets and start times of I/Os, in the order of their starts.
    started: VecDeque<((RequestId, u64), Nanos)>,
    /// When the last I/O ended.
    ended: Nanos,
}

impl OutstandingIos {
    pub(crate) fn starts(&mut self, now: Nanos, io: &Request) {
        self.started.push_back(((io.id, io.offset), now));
    }

    /// Registers the end of an I/O; returns the disk time that it used: the time since it started
    /// or since the previous I/O ended, whichever is shorter.
    pub(crate) fn ends(&mut self, done: &Completion) -> Nanos {
        let io = (done.io.id, done.io.offset);
        if let Some(at) = self.started.iter().position(|(one, _)| *one == io) {
            self.started.remove(at);
        }
        let begin = done.started.max(self.ended);
        self.ended = self.ended.max(done.at);
        done.at - begin
    }

    /// Returns when the oldest outstanding I/O started.
    pub(crate) fn oldest(&self) -> Option<Nanos> {
        self.started.front().map(|(_, started)| *started)
    }

    /// Returns since when an I/O has been outstanding and none has ended.
    pub(crate) fn silent_since(&self) -> Option<Nanos> {
        self.oldest().map(|oldest| oldest.max(self.ended))
    }
}
