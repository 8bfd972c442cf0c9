//! Writes figures with their units, counts and lists, for sentences, tables and messages alike.
//! This crate depends on nothing.

#![forbid(unsafe_code)]

pub mod plural;
pub mod quantities;
