//! What a store is asked, and what it answers.

use forebay_core::Fault;

use crate::record::{Key, Value};

/// What a store is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Gets the state back that was there before; the first operation.
    Open,
    /// Puts values and deletes keys, all or none of them, in this order.
    Write(Vec<(Key, Option<Value>)>),
    /// A [`Write`](Operation::Write) that holds what there was just before it as a snapshot, which the operation's
    /// own number names once it was answered without an error.
    WriteAndHold(Vec<(Key, Option<Value>)>),
    /// A key's value.
    Get(Key),
    /// The first keys from this one on, with their values, in order, all as of one moment.
    Scan {
        /// The least key that counts.
        from: Key,
        /// At most so many.
        count: usize,
        /// At most so many bytes of keys and values, unless the first alone has more.
        bytes: u64,
    },
    /// Holds what there is now, to be read later.
    Snapshot,
    /// A [`Get`](Operation::Get) or a [`Scan`](Operation::Scan) of what there was when a snapshot was taken.
    At {
        /// Which.
        snapshot: u64,
        /// What is read.
        read: Box<Operation>,
    },
    /// Lets a snapshot go, and with it what only that held.
    Release(u64),
    /// Reads everything there is.
    Check,
    /// Puts what can be read of all that is lost or damaged in its place; what cannot is given up.
    Repair,
    /// Finishes what was begun: the log, its transformation, merges that are due.
    Close,
}

/// What a store answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Done. What was written is durable.
    Done,
    /// The value; none where there is no such key.
    Value(Option<Value>),
    /// Keys and values.
    Page(Page),
    /// Names a snapshot.
    Snapshot(u64),
    /// What was read, or repaired.
    Checked(Checked),
}

/// What a scan found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Keys and their values, in order of the keys.
    pub records: Vec<(Key, Value)>,
    /// Where the next page begins, which may turn out empty; none at the end. Who goes on there is answered sooner
    /// than who begins anywhere.
    pub next: Option<Key>,
}

/// What was read, or repaired.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Segments.
    pub segments: u64,
    /// Their bytes; after a repair, of the records that were saved.
    pub bytes: u64,
    /// Their records.
    pub records: u64,
    /// What cannot be read.
    pub losses: Vec<Loss>,
}

/// Keys some of whose values, or deletions, cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// They are not less than this one.
    pub from: Option<Key>,
    /// They are greater than this one.
    pub after: Option<Key>,
    /// And not greater than this one.
    pub upto: Option<Key>,
    /// How many records; 0 where that is not known.
    pub records: u64,
    /// Their bytes; 0 where that is not known.
    pub bytes: u64,
    /// There are no more records than that, and may be fewer.
    pub is_bound: bool,
    /// When they were put.
    pub put: PutSpan,
    /// Why.
    pub trouble: Trouble,
}

/// When something was put, in nanoseconds since the Unix epoch, as far as is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PutSpan {
    /// Not before.
    pub from: Option<u64>,
    /// Not after.
    pub upto: Option<u64>,
}

/// Why a store cannot answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// A disk failed.
    #[error("disk {} failed: {}", disk + 1, fault.reason())]
    Disk {
        /// Its number, from 0.
        disk: usize,
        /// How.
        fault: Fault,
    },
    /// Bytes on a disk are not what was written there.
    #[error("disk {}: what is at byte {offset} is damaged", disk + 1)]
    Damaged {
        /// Its number, from 0.
        disk: usize,
        /// Where.
        offset: u64,
    },
    /// A disk is not there, and what is on it may decide what was asked.
    #[error("disk {} is missing, and what it holds may decide this", disk + 1)]
    Missing {
        /// Its number, from 0.
        disk: usize,
    },
    /// A log lacks batches that were acknowledged, and they may decide what was asked.
    #[error(
        "log {log} lacks {} of {expected} that were acknowledged: what is lost may decide this",
        batches(*first, *upto)
    )]
    Lost {
        /// The log.
        log: u64,
        /// The first batch that is not there, from 0.
        first: u64,
        /// The first behind it that is.
        upto: u64,
        /// Batches that there were.
        expected: u64,
    },
    /// A copy of a disk's label is damaged. Others are right.
    #[error(
        "disk {}: its label at byte {offset} is damaged; there are others, and the next opening writes it anew",
        disk + 1
    )]
    Label {
        /// Its number, from 0.
        disk: usize,
        /// Where.
        offset: u64,
    },
    /// A disk's root is gone, or lacks what it had. Another disk's says the same.
    #[error(
        "disk {}: its root is damaged; other disks say what it had, and the next opening writes it anew",
        disk + 1
    )]
    Root {
        /// Its number, from 0.
        disk: usize,
    },
    /// The roots of too many disks are gone or damaged to say what the store had. Nothing is put until that is
    /// given up.
    #[error(
        "the roots of {} are missing or damaged, so it is unknown what the store held: repair gives that up",
        if *disks == 1 { "1 disk".to_string() } else { format!("{disks} disks") }
    )]
    Rootless {
        /// So many.
        disks: usize,
    },
    /// There is no such snapshot, or what was asked of it is no read.
    #[error("there is no such snapshot")]
    NoSnapshot,
    /// The store was opened to be read.
    #[error("the store was opened to be read only")]
    ReadOnly,
    /// No disk has room, or none takes writes any more.
    #[error("no disk has room, or none takes writes any more")]
    Full,
    /// The file system that a disk's file is on is full, and no other disk takes writes.
    #[error(
        "no space left on the file system of disk {}; the store tries again until there is some",
        disk + 1
    )]
    NoSpace {
        /// Its number, from 0.
        disk: usize,
    },
    /// The store was closed, or what drives it has failed.
    #[error("the store is closed")]
    Closed,
    /// Longer than a store takes.
    #[error("got {got} bytes, expected at most {most}")]
    Long {
        /// Bytes.
        got: u64,
        /// The most that it takes.
        most: u64,
    },
}

/// Batches of a log by their numbers, which count from 1.
fn batches(first: u64, upto: u64) -> String {
    match upto - first {
        1 => format!("batch {upto}"),
        _ => format!("batches {} to {upto}", first + 1),
    }
}
