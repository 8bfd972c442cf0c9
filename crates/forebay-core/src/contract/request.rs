//! Requests from workloads to policies, and from policies to devices.

use crate::contract::Nanos;

/// The number of a device queue, such as that of a disk or a flash device; counts from 0.
pub type Lane = u16;

/// Identifies a request. The workload assigns the ids of client requests, the policy those of I/Os.
pub type RequestId = u64;

/// The stream number of work that no client requested.
pub const BACKGROUND: u32 = u32::MAX;

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Op {
    /// Transfers data from the device.
    Read,
    /// Transfers data to the device.
    Write,
    /// Makes all acknowledged writes durable; carries no data.
    Flush,
    /// Declares that the contents of the range are no longer needed.
    Trim,
    /// Puts the device to sleep until the next I/O.
    Park,
    /// Recovers the state from before the run. Only the first request can be of this kind. A policy
    /// that keeps no state on the devices below answers it at once.
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
    /// Somebody waits for the request (Linux `REQ_SYNC`). Reads are synchronous even without this
    /// flag.
    pub const SYNC: Flags = Flags(1);
    /// The data must be durable before the request completes (Linux `REQ_FUA`).
    pub const FUA: Flags = Flags(2);
    /// File-system metadata (Linux `REQ_META`).
    pub const META: Flags = Flags(4);
    /// Read-ahead (Linux `REQ_RAHEAD`).
    pub const READAHEAD: Flags = Flags(8);
    /// Earlier writes become durable before this one starts (Linux `REQ_PREFLUSH`). Policies split
    /// such a write into a flush and the write.
    pub const PREFLUSH: Flags = Flags(16);
    /// The submitter is unknown, so no task can be made to wait for the request. Never in traces.
    pub const ANONYMOUS: Flags = Flags(32);
    /// A write from the page cache, which nobody waits for. Never in traces.
    pub const WRITE_BACK: Flags = Flags(64);
    /// The recording contains the request's latency, so a run can be compared with it. Policies
    /// ignore this flag. Never in traces.
    pub const MEASURED: Flags = Flags(128);
    /// The request's latency is subject to a promise, so the device should serve it before others
    /// (Linux `IOPRIO_CLASS_RT`). Never in traces.
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

/// A request without its data: a plain value of 40 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The time of arrival (client requests) or dispatch (I/Os), since the start of the run.
    pub at: Nanos,
    /// The first byte.
    pub offset: u64,
    /// The id of the request.
    pub id: RequestId,
    /// The length in bytes; 0 for flushes.
    pub len: u32,
    /// The submitter (a thread, a process or a tenant) as a small integer, numbered without gaps.
    pub stream: u32,
    /// The device queue.
    pub lane: Lane,
    /// The operation.
    pub op: Op,
    /// The properties of the request.
    pub flags: Flags,
}

impl Request {
    /// Returns the offset of the first byte after the request.
    #[inline]
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(u64::from(self.len))
    }

    /// Returns whether somebody waits for the request: a read, or a request marked [`Flags::SYNC`].
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
