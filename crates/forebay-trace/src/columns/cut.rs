//! Decides whether the last line of a file, if it lacks a line end, was truncated within its last
//! number.
//!
//! A truncated number can only be recognized by comparison with the previous rows. If all their
//! lengths and offsets are multiples of a sector, the last value should be one too, and times
//! should not go back. A length that is not a multiple counts as truncated only if a previous
//! length begins with the same digits; otherwise, it may be a new length.

use crate::Record;
use crate::columns::spec::Role;

/// The minimum number of previous rows from which a common factor beyond a sector is derived.
const ROWS_LEAST: usize = 100;
/// The size of a sector.
const SECTOR_BYTES: u64 = 512;
/// How much earlier a time may be than that of the previous row, in nanoseconds.
const BACK_NS_MAX: u64 = 1_000_000_000;

/// Returns whether the value in the last column is consistent with the previous rows, which are in
/// the order of the file.
pub(super) fn fits(role: &Role, last: &Record, before: &[Record]) -> bool {
    match role {
        Role::Len(unit) => {
            is_aligned(last, before, |record| u64::from(record.len))
                || !begins_one(last.len, before, (*unit).max(1))
        }
        Role::Offset(_) => is_aligned(last, before, |record| record.offset),
        Role::At(_) | Role::End(_) => {
            let end = |record: &Record| record.at.0 + record.latency.map_or(0, |l| l.0);
            before.last().is_none_or(|before| end(last) + BACK_NS_MAX >= end(before))
        }
        _ => true,
    }
}

/// Returns whether the digits of a length, in units of `unit` bytes, are the beginning of another
/// length.
fn begins_one(len: u32, before: &[Record], unit: u64) -> bool {
    let len = u64::from(len) / unit;
    before.iter().any(|record| {
        let mut longer = u64::from(record.len) / unit;
        while longer > len {
            longer /= 10;
            if longer == len {
                return true;
            }
        }
        false
    })
}

fn is_aligned(last: &Record, before: &[Record], of: impl Fn(&Record) -> u64) -> bool {
    let bits = before.iter().fold(0, |bits, record| bits | of(record));
    let step = 1 << bits.trailing_zeros().min(63);
    let step = if before.len() < ROWS_LEAST { SECTOR_BYTES.min(step) } else { step };
    before.len() < 2 || of(last).is_multiple_of(step)
}
