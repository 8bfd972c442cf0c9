//! The choice between the two drivers for real targets.

use std::str::FromStr;

use forebay_ask::{Choice, Value};
use forebay_core::contract::suggestion;

/// How I/Os are passed to real targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// io_uring ([`crate::Uring`]).
    Uring,
    /// Blocking reads and writes on threads ([`crate::Threads`]).
    Threads,
}

impl FromStr for Driver {
    type Err = String;
    fn from_str(text: &str) -> Result<Driver, String> {
        match text {
            "io_uring" => Ok(Driver::Uring),
            "threads" => Ok(Driver::Threads),
            other => {
                let near = suggestion(other, &["io_uring", "threads"]);
                Err(format!("got '{other}'{near}, expected io_uring or threads"))
            }
        }
    }
}

impl Value for Driver {
    const WORD: &'static str = "DRIVER";
    const CHOICES: &'static [Choice] = &[
        Choice { name: "io_uring", about: "Linux's asynchronous interface" },
        Choice { name: "threads", about: "plain reads and writes on threads, less precise" },
    ];

    fn parse(text: &str) -> Result<Driver, String> {
        text.parse()
    }
}
