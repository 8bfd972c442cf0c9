//! Reads text with one request per line, given a declaration of its columns and their units.
//!
//! [`Columns`] is such a declaration, for example `at:us,op,offset:sectors,len:sectors,volume`.
//! Every preset in [`crate::formats::presets`] is one, too. There are three parsers; each row is
//! parsed by the first of them that supports it. All give the same results as the last one
//! (`proptest` compares each with the next):
//!
//! 1. [`plain`] finds the bounds of all fields at once and parses the fields in any order.
//! 2. A [`plan`] parses the fields in sequence in the buffer, eight bytes at a time ([`cursor`]).
//!    It supports columns that the first parser does not support (`end`, `flags`, `op:scsi`, dates),
//!    and names that are new.
//! 3. `Cursor::field` parses everything else: blanks around numbers, quotes, twenty digits.
//!
//! Each parser is worth its code. Medians of 15 paired measurements with 1.7 million rows
//! (`benches/readers.rs`): without the first parser, reading takes 1.32 times as long for msr, 1.37
//! for alibaba, 1.36 for tencent-cbs, 1.25 for mqsim and 1.09 for spc. Without the first and the
//! second parser, it takes 3.2, 3.0, 2.8, 2.7 and 2.9 times as long as with the second alone.
//! (Canonical CSV is parsed by the `csv` crate, because its names may be quoted and contain line
//! feeds.)
//!
//! Numbers are exact, because floating point is never used. Times are whole nanoseconds; further
//! digits are dropped.

mod beyond;
pub(crate) mod cursor;
mod cut;
pub(crate) mod date;
pub(crate) mod meaning;
pub(crate) mod name_words;
pub(crate) mod names;
pub(crate) mod notation;
pub(crate) mod op_words;
mod plain;
pub(crate) mod plan;
pub(crate) mod reader;
pub(crate) mod span;
pub(crate) mod spec;
mod split;
mod swar;
pub(crate) mod unit;
pub(crate) mod values;

pub use date::ns as date_ns;
pub use spec::{BadColumns, Columns};
