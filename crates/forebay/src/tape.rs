//! Tapes: every call that a policy got in a run, with its answer, as a file. What a live run did is
//! checked by making the same calls to a fresh policy, in no time at all: it has to answer the same.
//!
//! A tape is text, one call a line, words parted by blanks, times in nanoseconds since the start:
//!
//! ```text
//! forebay tape 2
//! policy SPEC
//! lanes DISKS LEN-MAX [FLASH-LEN-MAX FLASH-BYTES]
//! submit AT REQUEST [ANSWER ...]
//! dispatch AT LANE REQUEST                       or - where there was no I/O for it
//! complete AT LANE ID STARTED OUTCOME [ANSWER ...]
//! wake AT [ANSWER ...]
//! end CALLS
//! ```
//!
//! `REQUEST` is its name, when it arrived (an I/O: was dispatched), what it does, lane, offset,
//! bytes, stream and flags. A completion names the I/O that was dispatched to that lane. `OUTCOME` is ok or
//! a fault. `ANSWER` is a request that the call answered, as ID/WAIT/CLASS, with /FAULT if it failed. A tape may be packed, as traces may.

mod check;
mod lines;
mod record;

pub use check::{Checked, Difference, check, check_content};
pub use record::{Blank, Tape, Taped};

use forebay_core::catalog::DeviceSet;

/// What a tape begins with.
const MAGIC: &str = "forebay tape 2";

/// Streams that a tape may tell apart: policies keep a place for each.
const STREAMS_MAX: u32 = 1 << 20;

/// What a policy is built from.
#[derive(Clone, Debug)]
pub struct Header {
    /// Its spec.
    pub policy: String,
    /// The lanes it was built for.
    pub lanes: DeviceSet,
}
