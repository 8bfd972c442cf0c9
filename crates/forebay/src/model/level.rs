//! How many levels a model has: the most of those tried with which the closed-loop throughput of a disk comes
//! within [`CLOSE`] of the trace's. Open-loop throughput only echoes the arrivals. (The paper goes on
//! until throughput changes by less than 2 %; the trace is at hand, so that it can be the measure, and
//! finer states tell more of where requests fall.)

use forebay_core::{Device, Nanos, Request};
use forebay_trace::Record;

use crate::devices;
use crate::error::Error;
use crate::layout::{Map, VolumeLayout};

/// Levels that are tried.
pub const TRIED_MAX: u8 = 4;
/// A throughput that differs by no more is the same.
pub const CLOSE: f64 = 0.03;
/// Requests that are issued to tell.
pub const REQUESTS: usize = 100_000;
/// The disk they are issued to.
const DISK: &str = "st1000nm0011:plain";

/// I/Os a second of a disk that gets the next of `requests` as soon as it is done with the last.
///
/// # Errors
/// None that a bundled disk gives reason for.
pub fn closed_loop_iops(
    extents: &[u64],
    requests: impl Iterator<Item = Record>,
) -> Result<f64, Error> {
    let mut device = devices::open(DISK)?.model;
    let mut layout = VolumeLayout::new(extents, device.capacity(), Map::Scale);
    let (mut now, mut done) = (Nanos::ZERO, 0u64);
    for record in requests.take(REQUESTS).filter(|record| record.op.moves_data() && record.len > 0)
    {
        let Some(request) = layout.place(&record, done) else { continue };
        done += 1;
        let mut offset = request.offset;
        while offset < request.end() {
            let len = (request.end() - offset).min(u64::from(device.len_max())) as u32;
            device.start(now, Request { at: now, offset, len, ..request });
            while let Some(at) = device.next() {
                now = at;
                device.finish(now);
            }
            offset += u64::from(len);
        }
    }
    Ok(done as f64 / (now.0 as f64 / 1e9).max(1e-9))
}
