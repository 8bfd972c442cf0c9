//! Requests from workloads to policies, and from policies to devices.

use crate::contract::time::Nanos;

/// A device queue, such as a disk or a flash device. Small integers from 0.
pub type Lane = u16;

/// Names a request. Client requests are named by the workload, I/Os by the policy.
pub type RequestId = u64;

/// The stream of work that no client asked for.
pub const BACKGROUND: u32 = u32::MAX;

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Op {
    /// Data from the device.
    Read,
    /// Data to the device.
    Write,
    /// Make everything acknowledged durable; carries no data.
    Flush,
    /// The contents of the range are no longer needed.
    Trim,
    /// Sleep until the next I/O.
    Park,
    /// Get the state back that was there before the run; the first request, if any. Whoever keeps
    /// none beneath itself answers it at once.
    Open,
}

impl Op {
    /// Returns whether the request moves data ([`Op::Read`] and [`Op::Write`]).
    #[inline]
    pub fn moves_data(self) -> bool {
        matches!(self, Op::Read | Op::Write)
    }

    /// Returns the name used in files and tables: `read`, `write`, `flush`, `trim`, `park`, `open`.
    pub fn name(self) -> &'static str {
        match self {
            Op::Read => "read",
            Op::Write => "write",
            Op::Flush => "flush",
            Op::Trim => "trim",
            Op::Park => "park",
            Op::Open => "open",
        }
    }
}

/// Properties of a request beyond its operation, as a set of bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flags(pub u16);

impl Flags {
    /// No flag.
    pub const NONE: Flags = Flags(0);
    /// Somebody waits for the request (Linux `REQ_SYNC`). Reads are synchronous without it.
    pub const SYNC: Flags = Flags(1);
    /// Durable before it completes (Linux `REQ_FUA`).
    pub const FUA: Flags = Flags(2);
    /// File-system metadata (Linux `REQ_META`).
    pub const META: Flags = Flags(4);
    /// Read ahead of need (Linux `REQ_RAHEAD`).
    pub const READAHEAD: Flags = Flags(8);
    /// Earlier writes become durable before this one starts (Linux `REQ_PREFLUSH`). Policies split
    /// such a write into a flush and the write.
    pub const PREFLUSH: Flags = Flags(16);
    /// The submitter is unknown, so no task can sleep for the request. Not in traces.
    pub const ANONYMOUS: Flags = Flags(32);
    /// A write of the page cache, for whose answer nobody waits. Not in traces.
    pub const WRITE_BACK: Flags = Flags(64);
    /// How long it took was recorded, so that a run can be held against the recording. Policies ignore it. Not in traces.
    pub const MEASURED: Flags = Flags(128);
    /// A promise depends on its latency, so that the device should perform it before others (Linux
    /// `IOPRIO_CLASS_RT`). Not in traces.
    pub const PROMISED: Flags = Flags(256);

    /// Returns whether every flag of `other` is in this set.
    #[inline]
    pub fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the union of both sets.
    #[inline]
    pub fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// A request, without its data. 40 bytes, plain values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// When the request arrived (client requests) or was dispatched (I/Os), since the start of the
    /// run.
    pub at: Nanos,
    /// First byte.
    pub offset: u64,
    /// Its name.
    pub id: RequestId,
    /// Bytes; 0 for flushes.
    pub len: u32,
    /// The submitter: a thread, a process or a tenant, as a dense small integer.
    pub stream: u32,
    /// The device queue.
    pub lane: Lane,
    /// The operation.
    pub op: Op,
    /// Its properties.
    pub flags: Flags,
}

impl Request {
    /// Returns the first byte after it.
    #[inline]
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(u64::from(self.len))
    }

    /// Returns whether somebody waits for it: reads, and writes marked [`Flags::SYNC`].
    #[inline]
    pub fn is_sync(&self) -> bool {
        self.op == Op::Read || self.flags.has(Flags::SYNC)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_forty_bytes() {
        assert_eq!(std::mem::size_of::<Request>(), 40);
    }

    #[test]
    fn reads_are_waited_for() {
        let request = |op, flags| Request {
            at: Nanos::ZERO,
            offset: 0,
            id: 0,
            len: 1,
            stream: 0,
            lane: 0,
            op,
            flags,
        };
        assert!(request(Op::Read, Flags::NONE).is_sync());
        assert!(!request(Op::Write, Flags::META).is_sync());
        assert!(request(Op::Write, Flags::SYNC.with(Flags::META)).is_sync());
    }
}
