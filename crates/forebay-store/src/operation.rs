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
    /// A key's value.
    Get(Key),
    /// The first keys from this one on, with their values, in order.
    Scan {
        /// The least key that counts.
        from: Key,
        /// At most so many.
        count: usize,
    },
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
    Records(Vec<(Key, Value)>),
}

/// Why a store cannot answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// A disk failed.
    #[error("disk {disk} failed: {}", fault.name())]
    Disk {
        /// Its number, from 0.
        disk: usize,
        /// How.
        fault: Fault,
    },
    /// Bytes on a disk are not what was written there.
    #[error("disk {disk}: what is at byte {offset} is damaged")]
    Damaged {
        /// Its number, from 0.
        disk: usize,
        /// Where.
        offset: u64,
    },
    /// A log lacks batches that were acknowledged.
    #[error("log {log} has {got} batches, and the one after it says it had {expected}")]
    Lost {
        /// The log.
        log: u64,
        /// Batches that are there.
        got: u64,
        /// Batches that were.
        expected: u64,
    },
    /// No disk has room, or none takes writes any more.
    #[error("no disk has room, or none takes writes any more")]
    Full,
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
