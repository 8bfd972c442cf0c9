//! The operations of a store, and their answers.

use forebay_core::Fault;

use crate::{Key, Value};

/// An operation of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Restores the previous state; must be the first operation.
    Open,
    /// Puts values and deletes keys atomically, in this order.
    Write(Vec<(Key, Option<Value>)>),
    /// Like [`Write`](Operation::Write), but also takes a snapshot of the state just before it. The
    /// snapshot's number is that of the operation; it is valid once the operation has succeeded.
    WriteAndHold(Vec<(Key, Option<Value>)>),
    /// Reads the value of a key.
    Get(Key),
    /// Reads the first keys at or after a key, with their values, in order and as of a single point
    /// in time.
    Scan {
        /// The first key.
        from: Key,
        /// The maximum number of keys.
        count: usize,
        /// The maximum number of bytes of keys and values, unless the first record alone has more.
        bytes: u64,
    },
    /// Takes a snapshot of the current state.
    Snapshot,
    /// Performs a [`Get`](Operation::Get) or a [`Scan`](Operation::Scan) on a snapshot.
    At {
        /// The number of the snapshot.
        snapshot: u64,
        /// The operation.
        read: Box<Operation>,
    },
    /// Releases a snapshot, and the data held only by it.
    Release(u64),
    /// Reads everything and checks its consistency.
    Check,
    /// Replaces lost and damaged data with what can still be read; the rest is discarded.
    Repair,
    /// Closes the store after finishing pending work: the log, its transformation, and due merges.
    Close,
}

/// The answer to an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Success. Written data is durable.
    Done,
    /// The value; None if there is no such key.
    Value(Option<Value>),
    /// Keys and values.
    Page(Page),
    /// The number of a snapshot.
    Snapshot(u64),
    /// The result of a check or a repair.
    Checked(Checked),
}

/// The result of a scan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Keys and their values, in key order.
    pub records: Vec<(Key, Value)>,
    /// The first key of the next page, which may be empty; None at the end. A scan that continues
    /// there is faster than one that begins elsewhere.
    pub next: Option<Key>,
}

/// The result of a check or a repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// The number of segments.
    pub segments: u64,
    /// The bytes of the segments; after a repair, those of the saved records.
    pub bytes: u64,
    /// The number of records.
    pub records: u64,
    /// The key ranges that cannot be read.
    pub losses: Vec<Loss>,
}

/// A range of keys in which some values or deletions cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The inclusive lower bound of the keys.
    pub from: Option<Key>,
    /// The exclusive lower bound of the keys.
    pub after: Option<Key>,
    /// The inclusive upper bound of the keys.
    pub upto: Option<Key>,
    /// The number of lost records; 0 if unknown.
    pub records: u64,
    /// The total bytes of the lost records; 0 if unknown.
    pub bytes: u64,
    /// Whether the number of records is only an upper bound.
    pub is_bound: bool,
    /// When the lost records were put.
    pub put: PutSpan,
    /// Why the records cannot be read.
    pub failure: OperationError,
}

/// The time range in which something was put, in nanoseconds since the Unix epoch, as far as it is
/// known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PutSpan {
    /// The earliest possible time.
    pub from: Option<u64>,
    /// The latest possible time.
    pub upto: Option<u64>,
}

/// Why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OperationError {
    /// A disk failed.
    #[error("disk {} failed: {}", disk + 1, fault.reason())]
    Disk {
        /// The number of the disk, from 0.
        disk: usize,
        /// The fault.
        fault: Fault,
    },
    /// Data on a disk is not what was written.
    #[error("disk {}: the data at byte {offset} is damaged", disk + 1)]
    Damaged {
        /// The number of the disk, from 0.
        disk: usize,
        /// The offset on the disk in bytes.
        offset: u64,
    },
    /// A disk is missing, and its data may affect the result.
    #[error("disk {} is missing, and its data may be needed for this", disk + 1)]
    Missing {
        /// The number of the disk, from 0.
        disk: usize,
    },
    /// A log lacks acknowledged batches, which may affect the result.
    #[error(
        "log {log} lacks {} of {expected} that were acknowledged: the lost data may be needed for \
         this",
        batches(*first, *upto)
    )]
    Lost {
        /// The number of the log.
        log: u64,
        /// The first missing batch, from 0.
        first: u64,
        /// The first batch after the gap that is present.
        upto: u64,
        /// The number of batches that existed.
        expected: u64,
    },
    /// One copy of a disk's label is damaged; others are intact.
    #[error(
        "disk {}: its label at byte {offset} is damaged; other copies are intact, and the label \
         is rewritten when the store is opened next",
        disk + 1
    )]
    Label {
        /// The number of the disk, from 0.
        disk: usize,
        /// The offset of the label in bytes.
        offset: u64,
    },
    /// A disk's root is missing or incomplete, but its content is known from other disks' roots.
    #[error(
        "disk {}: its root is damaged; other disks have the same information, and the root \
         is rewritten when the store is opened next",
        disk + 1
    )]
    Root {
        /// The number of the disk, from 0.
        disk: usize,
    },
    /// So many roots are missing or damaged that the store's content cannot be determined. Puts
    /// fail until a repair gives the missing content up.
    #[error(
        "the roots of {} are missing or damaged, so the contents of the store are unknown: a repair \
         discards the lost part",
        if *disks == 1 { "1 disk".to_string() } else { format!("{disks} disks") }
    )]
    Rootless {
        /// The number of disks whose roots are missing or damaged.
        disks: usize,
    },
    /// There is no such snapshot, or the operation on it is not a read.
    #[error("there is no such snapshot")]
    NoSnapshot,
    /// The store was opened read-only.
    #[error("the store was opened read-only")]
    ReadOnly,
    /// No disk has space or accepts writes.
    #[error("no disk has space, or none of them accepts writes any more")]
    Full,
    /// The file system of a disk's file is full, and no other disk accepts writes.
    #[error(
        "no space left on the file system of disk {}; the store retries until space is available",
        disk + 1
    )]
    NoSpace {
        /// The number of the disk, from 0.
        disk: usize,
    },
    /// The store was closed, or its driver failed.
    #[error("the store is closed")]
    Closed,
    /// A key or value is too long.
    #[error("got {got} bytes, expected at most {most}")]
    Long {
        /// The length of the key or value in bytes.
        got: u64,
        /// The permitted maximum in bytes.
        most: u64,
    },
}

/// Formats a range of batches, counted from 1.
fn batches(first: u64, upto: u64) -> String {
    match upto - first {
        1 => format!("batch {upto}"),
        _ => format!("batches {} to {upto}", first + 1),
    }
}
