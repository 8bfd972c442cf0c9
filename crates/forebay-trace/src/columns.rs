//! Text of one request a line, its columns and their units declared.
//!
//! [`Columns`] is the declaration, such as `at:us,op,offset:sectors,len:sectors,volume`; every
//! preset in [`crate::formats::presets`] is one too. A [`plan`] of it reads rows where they stand in
//! the buffer, eight bytes at a time ([`cursor`]); what that cannot read (blanks around a number,
//! quotes, twenty digits) is read field by field, with the same outcome. [`plain`] is a short cut for
//! rows without any of that, with the same outcome again.
//!
//! Numbers are exact: nothing goes through floating point. Times are whole nanoseconds; digits
//! beyond them are dropped.

pub(crate) mod cursor;
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
