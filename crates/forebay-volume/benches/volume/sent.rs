//! Records the I/Os that a volume sends to its drives.

use forebay_core::{Completion, Flags, Nanos, Observer, Op, Request};
use forebay_live::{Failure, Watch};

/// I/Os in the order in which they began.
#[derive(Default)]
pub(crate) struct Sent {
    pub(crate) ios: Vec<Request>,
    /// When each I/O began and ended, in the order in which they ended.
    spans: Vec<(Nanos, Nanos)>,
    pub(crate) failed: u64,
    took: Nanos,
}

impl Sent {
    /// Discards I/Os that began before or after a period.
    pub(crate) fn keep(&mut self, began: Nanos, ended: Nanos) {
        let is_within = |at: Nanos| began <= at && at < ended;
        self.ios.retain(|io| is_within(io.at));
        self.spans.retain(|(at, _)| is_within(*at));
        self.took = ended - began;
    }

    /// Returns the average number of outstanding I/Os, rounded up.
    pub(crate) fn depth(&self) -> u32 {
        let spans = self.spans.iter().map(|(began, ended)| (*ended - *began).as_secs_f64());
        (spans.sum::<f64>() / self.took.as_secs_f64()).ceil() as u32
    }

    fn bytes(&self, op: Op) -> u64 {
        self.ios.iter().filter(|io| io.op == op).map(|io| u64::from(io.len)).sum()
    }

    /// Describes the I/Os, for this many bytes written by a client.
    pub(crate) fn said(&self, client_bytes: u64) -> String {
        let count = |op| self.ios.iter().filter(|io| io.op == op).count();
        let per = |op| self.bytes(op) as f64 / client_bytes as f64;
        let mean_kib = self.bytes(Op::Write) / count(Op::Write).max(1) as u64 / 1024;
        format!(
            "{} writes of {mean_kib} KiB ({:.2} B a byte), {} reads ({:.2}), {} flushes, {} at a time",
            count(Op::Write),
            per(Op::Write),
            count(Op::Read),
            per(Op::Read),
            count(Op::Flush),
            self.depth(),
        )
    }
}

impl Observer for Sent {
    fn io(&mut self, completion: &Completion) {
        self.spans.push((completion.io.at, completion.at));
    }
}

impl Watch for Sent {
    fn started(&mut self, now: Nanos, io: &Request) {
        self.ios.push(Request { at: now, ..*io });
    }
    fn failed(&mut self, _: Nanos, _: &Request, _: Failure) {
        self.failed += 1;
    }
}

/// Returns whether an I/O is durable when it ends.
pub(crate) fn is_durable(io: &Request) -> bool {
    io.flags.has(Flags::FUA)
}
