//! What Forebay does on the running machine, in wall time.
//!
//! It knows nothing of trace formats beyond the records the kernel itself writes; who wants a trace
//! of them hands [`capture`]'s spool to a reader of blktrace.

#![forbid(unsafe_code)]

pub mod capture;
