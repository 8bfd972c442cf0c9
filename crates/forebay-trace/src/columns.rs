//! Text of one request a line, its columns and their units declared.
//!
//! [`Columns`] is the declaration, such as `at:us,op,offset:sectors,len:sectors,volume`; every
//! preset in [`crate::formats::presets`] is one too. Rows are read in three ways, of which the first
//! that understands a row reads it, always with the outcome of the last (`proptest` holds each to the
//! next):
//!
//! 1. [`plain`] finds the bounds of all fields at once and reads them in no order.
//! 2. A [`plan`] reads field by field where they stand in the buffer, eight bytes at a time ([`cursor`]);
//!    the way of columns that the first does not know (`end`, `flags`, `op:scsi`, dates) and of new names.
//! 3. `Cursor::field` reads anything: blanks around a number, quotes, twenty digits.
//!
//! Each earns its lines. Median of 15 paired readings of 1.7 million rows (`benches/readers.rs`), how
//! many times as long without it: the first, 1.32 on msr, 1.37 on alibaba, 1.36 on tencent-cbs, 1.25 on
//! mqsim and 1.09 on spc; without the first and the second, 3.2, 3.0, 2.8, 2.7 and 2.9 times what the second
//! takes alone. (Canonical CSV is read by the `csv` crate: its names may be quoted and hold line feeds.)
//!
//! Numbers are exact: nothing goes through floating point. Times are whole nanoseconds; digits
//! beyond them are dropped.

mod beyond;
pub(crate) mod cursor;
mod cut;
pub(crate) mod date;
pub(crate) mod names;
pub(crate) mod op_words;
mod plain;
pub(crate) mod plan;
pub(crate) mod reader;
pub(crate) mod spec;
mod split;
mod swar;
pub(crate) mod unit;
pub(crate) mod values;

pub use spec::{BadColumns, Columns};
