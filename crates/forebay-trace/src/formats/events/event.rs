//! Events of the Linux block layer, limited to what a trace of requests needs.
//!
//! blktrace's binary records, blkparse's text output and the text of the kernel's tracepoints are
//! all converted to these events.

use forebay_core::{Flags, Op};

use crate::fields::digits;

/// The maximum plausible length of a request other than a discard, in bytes. Today's kernels queue
/// up to 8 MiB.
const LEN_MAX_BYTES: u32 = 1 << 30;

/// The size of a sector, which is the same for all devices.
pub(crate) const SECTOR_BYTES: u64 = 512;

/// An event of the block layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// The time in nanoseconds on the trace's own clock.
    pub(crate) time_ns: u64,
    /// The number by which events of one CPU with equal times are ordered.
    pub(crate) sequence: u32,
    /// The thread id.
    pub(crate) pid: u32,
    pub(crate) kind: EventKind,
}

impl Event {
    pub(crate) fn key(&self) -> (u64, u32) {
        (self.time_ns, self.sequence)
    }
}

/// What an event reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// A request arrived in the block layer (Q).
    Queue(Span),
    /// A request was passed to the scheduler (I).
    Insert(Span),
    /// A request was issued to the driver (D).
    Issue(Span),
    /// The driver returned a request to the scheduler, which will issue it again (R).
    Requeue(Span),
    /// A part of a request, or one or more requests, completed (C).
    Complete(Span),
    /// A request was passed to another device, or from a partition to its disk (A).
    Remap(Box<Remap>),
    /// The thread has this name from now on.
    Name(Box<str>),
    /// A new recording begins. Outstanding requests of the previous one never complete.
    Run,
}

/// A request that was passed from one layer to the one below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Remap {
    pub(crate) to: u32,
    pub(crate) sector: u64,
    pub(crate) from: u32,
    pub(crate) from_sector: u64,
    pub(crate) bytes: u32,
}

/// The part of a device that an event concerns, and its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) sector: u64,
    pub(crate) bytes: u32,
    /// The device: the major number << 20 | the minor number.
    pub(crate) device: u32,
    pub(crate) category: Category,
}

/// The kernel's categories of an event, from the upper half of its action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Category(pub(crate) u16);

impl Category {
    pub(crate) const READ: Category = Category(1);
    pub(crate) const WRITE: Category = Category(1 << 1);
    /// A flush, or a flush that precedes the data of a write.
    pub(crate) const FLUSH: Category = Category(1 << 2);
    pub(crate) const SYNC: Category = Category(1 << 3);
    /// A command that was passed through to the device. Its sector and size have no meaning.
    pub(crate) const PASSTHROUGH: Category = Category(1 << 9);
    pub(crate) const NOTIFY: Category = Category(1 << 10);
    pub(crate) const AHEAD: Category = Category(1 << 11);
    pub(crate) const META: Category = Category(1 << 12);
    pub(crate) const DISCARD: Category = Category(1 << 13);
    /// The completion reports an error. The kernel uses this bit only for data of drivers, which is
    /// no part of a trace of requests.
    pub(crate) const FAILED: Category = Category(1 << 14);
    pub(crate) const FUA: Category = Category(1 << 15);

    pub(crate) fn has(self, other: Category) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) fn with(self, other: Category) -> Category {
        Category(self.0 | other.0)
    }

    /// Marks a completion whose error is `error`: a number that may have a sign, and is 0 if the
    /// request succeeded.
    pub(crate) fn completed_with(self, error: &[u8]) -> Category {
        let number = error.strip_prefix(b"-").unwrap_or(error);
        match digits(number) {
            Some(1..) => self.with(Category::FAILED),
            _ => self,
        }
    }
}

impl EventKind {
    /// Returns the part of a device that the event concerns, if a request may have that size.
    pub(crate) fn span(&self) -> Option<&Span> {
        match self {
            EventKind::Queue(span)
            | EventKind::Insert(span)
            | EventKind::Issue(span)
            | EventKind::Requeue(span)
            | EventKind::Complete(span) => Some(span),
            EventKind::Remap(_) | EventKind::Name(_) | EventKind::Run => None,
        }
    }
}

impl Span {
    /// Returns the operation, or `None` if the event cannot be represented as a request: a
    /// passed-through command, a request without direction, or a length of zero.
    pub(crate) fn op(&self) -> Option<Op> {
        let category = self.category;
        match () {
            () if category.has(Category::PASSTHROUGH) => None,
            () if self.bytes == 0 => category.has(Category::FLUSH).then_some(Op::Flush),
            () if category.has(Category::DISCARD) => Some(Op::Trim),
            () if category.has(Category::WRITE) => Some(Op::Write),
            () if category.has(Category::READ) => Some(Op::Read),
            () => None,
        }
    }

    pub(crate) fn flags(&self) -> Flags {
        let pairs = [
            (Category::SYNC, Flags::SYNC),
            (Category::FUA, Flags::FUA),
            (Category::META, Flags::META),
            (Category::AHEAD, Flags::READAHEAD),
            (Category::FLUSH, Flags::PREFLUSH),
        ];
        let carried = pairs.iter().filter(|(category, _)| self.category.has(*category));
        carried.fold(Flags::NONE, |flags, &(_, flag)| flags.with(flag))
    }

    /// Returns the first sector after the span. This cannot overflow if [`Span::impossible_value`]
    /// found nothing.
    pub(crate) fn end(&self) -> u64 {
        self.sector.saturating_add(u64::from(self.bytes).div_ceil(SECTOR_BYTES))
    }

    /// Checks for impossible values. Returns the value and what was expected.
    pub(crate) fn impossible_value(&self) -> Option<(String, &'static str)> {
        if self.category.has(Category::PASSTHROUGH) || self.bytes == 0 {
            return None;
        }
        if self.bytes > LEN_MAX_BYTES && !self.category.has(Category::DISCARD) {
            return Some((format!("a request of {} bytes", self.bytes), "at most 1 GiB"));
        }
        let end = self.sector.checked_mul(SECTOR_BYTES);
        if end.and_then(|start| start.checked_add(u64::from(self.bytes))).is_none() {
            return Some((format!("sector {}", self.sector), "an end below 2^64 bytes"));
        }
        None
    }
}

/// A source of events, approximately in order of time.
pub(crate) trait Source {
    fn next(&mut self) -> Result<Option<Event>, crate::TraceError>;
}
