//! Workloads for the laws, with few distinct positions and times, so that merging, overlap and ties
//! occur.

use crate::contract::{Flags, Nanos, Op, Request};
use crate::random;

use super::bench::LEN_MAX;

/// The number of distinct offsets of requests, 8 KiB apart.
pub const PLACES: u64 = 60;

/// A randomly drawn request: its operation, offset index, length in pages of 4 KiB, stream, flags,
/// and the microseconds since the previous request.
pub type RequestRow = (Op, u64, u32, u32, u8, u64);

/// Returns the requests of `rows`. Trims are never longer than the longest I/O, because policies do
/// not split them.
pub fn laid(rows: impl IntoIterator<Item = RequestRow>) -> Vec<Request> {
    let mut at = Nanos::ZERO;
    let lay = |(id, (op, place, pages, stream, flags, gap_us)): (usize, RequestRow)| {
        at += Nanos::from_micros(gap_us);
        let len = match op {
            Op::Flush => 0,
            Op::Trim => (pages * 4096).min(LEN_MAX),
            _ => pages * 4096,
        };
        let (offset, flags) = (place * 8192, Flags(u16::from(flags)));
        Request { at, offset, id: id as u64, len, stream, lane: 0, op, flags }
    };
    rows.into_iter().enumerate().map(lay).collect()
}

/// Returns `count` pseudo-random requests, which depend only on `seed`.
pub fn case(seed: u64, count: usize) -> Vec<Request> {
    let mut state = seed;
    let mut below = |most: u64| random::next(&mut state) % most;
    laid((0..count).map(|_| {
        let op = match below(14) {
            0..6 => Op::Read,
            6..12 => Op::Write,
            12 => Op::Flush,
            _ => Op::Trim,
        };
        let (place, pages, stream) = (below(PLACES), 1 + below(69) as u32, below(5) as u32);
        let flags = below(32) as u8;
        let gap_us = match below(7) {
            0..3 => 0,
            3..6 => below(300),
            _ => below(40_000),
        };
        (op, place, pages, stream, flags, gap_us)
    }))
}
