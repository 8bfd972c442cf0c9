//! Text with one request per line and declared columns and units.
//!
//! [`Columns`] is the declaration, such as `at:us,op,offset:sectors,len:sectors,volume`; every
//! preset in [`crate::formats::presets`] is one too. Rows are parsed by the first of three parsers
//! that understands them. All have the same results as the last (`proptest` compares each with the
//! next):
//!
//! 1. [`plain`] finds the bounds of all fields at once and parses them in any order.
//! 2. A [`plan`] parses fields in sequence in the buffer, eight bytes at a time ([`cursor`]). It
//!    handles columns that the first parser does not support (`end`, `flags`, `op:scsi`, dates) and
//!    new names.
//! 3. `Cursor::field` parses anything: blanks around a number, quotes, twenty digits.
//!
//! Each parser is worth its code. Medians of 15 paired measurements with 1.7 million rows
//! (`benches/readers.rs`): without the first parser, reading takes 1.32 times as long on msr, 1.37
//! on alibaba, 1.36 on tencent-cbs, 1.25 on mqsim and 1.09 on spc. Without the first and the second
//! it takes 3.2, 3.0, 2.8, 2.7 and 2.9 times as long as with the second alone. (Canonical CSV is
//! parsed by the `csv` crate, because its names may be quoted and contain line feeds.)
//!
//! Numbers are exact: nothing goes through floating point. Times are whole nanoseconds; further
//! digits are dropped.

mod beyond;
pub(crate) mod cursor;
mod cut;
pub(crate) mod date;
pub(crate) mod meaning;
pub(crate) mod names;
pub(crate) mod notation;
pub(crate) mod op_words;
mod plain;
pub(crate) mod plan;
pub(crate) mod reader;
pub(crate) mod spec;
mod split;
mod swar;
pub(crate) mod unit;
pub(crate) mod values;

pub use date::ns as date_ns;
pub use spec::{BadColumns, Columns};
