//! Whether the last line of a file, which has no line end, is cut within its last number.
//!
//! Nothing tells a shorter number from a whole one but the rows before: lengths and places are multiples
//! of a sector in all of them, and times do not go back. A length that is none is taken for cut if one of
//! those before begins with its digits; else it may be new.

use crate::columns::spec::Role;
use crate::trace::Record;

/// Rows that show what all values are multiples of, beyond a sector.
const ROWS_LEAST: usize = 100;
/// Bytes in a sector.
const SECTOR_BYTES: u64 = 512;
/// How far a time may lie before the one above, in nanoseconds.
const BACK_NS_MAX: u64 = 1_000_000_000;

/// Whether the value in the last column fits those of the rows before, in the order of the file.
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

/// Whether a length, in units of so many bytes, is what another one begins with when it is written down.
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
