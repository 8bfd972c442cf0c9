//! Which of the two drivers of real targets is wanted.

use std::str::FromStr;

/// How I/Os get to real targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// io_uring ([`crate::Uring`]).
    Uring,
    /// Plain reads and writes on threads ([`crate::Threads`]).
    Threads,
}

impl FromStr for Driver {
    type Err = String;
    fn from_str(text: &str) -> Result<Driver, String> {
        match text {
            "io_uring" => Ok(Driver::Uring),
            "threads" => Ok(Driver::Threads),
            other => Err(format!("got '{other}', expected io_uring or threads")),
        }
    }
}
