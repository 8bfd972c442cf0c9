//! Detects whether the last line of a file, which has no line end, is truncated within its last
//! number.
//!
//! A truncated number can only be recognized by comparison with the previous rows: if their lengths
//! and offsets are all multiples of a sector, so should be the last, and times should not go back.
//! A length that is not a multiple counts as truncated if one of the previous lengths begins with
//! its digits; otherwise it may be a new length.

use crate::columns::spec::Role;
use crate::trace::Record;

/// The least number of rows that show the common factor of all values, beyond a sector.
const ROWS_LEAST: usize = 100;
/// The size of a sector.
const SECTOR_BYTES: u64 = 512;
/// How far a time may precede that of the previous row, in nanoseconds.
const BACK_NS_MAX: u64 = 1_000_000_000;

/// Returns whether the value in the last column is consistent with those of the previous rows, in
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

/// Returns whether a length, in units of `unit` bytes, begins another length when written in
/// decimal.
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
