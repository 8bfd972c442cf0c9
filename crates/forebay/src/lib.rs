//! Forebay's verbs as a library: describe, simulate, advise, report.

#![forbid(unsafe_code)]

pub mod devices;
