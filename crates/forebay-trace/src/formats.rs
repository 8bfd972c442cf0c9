//! Trace formats, one file each.

pub mod blkparse;
pub mod blktrace;
