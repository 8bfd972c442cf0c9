//! The rate that drives in a layout guarantee for any workload of small requests: random 4 KiB reads
//! or writes over the whole drives, whichever are slower. Flash gets as many at a time as are still
//! answered within the promised time. A disk gets one: the server lets few into a disk while promises
//! are due, so a rate that needs a long queue cannot be promised.
//!
//! The recorded requests may be served faster, because they lie close together or follow one
//! another; a reservation must not count on that. A flash cache does not count either, because
//! random requests miss it. Flash is measured worn in, with a smaller drive of the same kind.

use forebay_core::catalog::build_placed;
use forebay_core::contract::bytes::Slots;
use forebay_core::device::list::DeviceModel;
use forebay_core::{Device, Done, Flags, Nanos, Observer, Op, Request, Workload, simulate};

use super::layout::{Data, DriveLayout, Layout, Set};
use crate::devices::{self, OpenDevice};
use crate::error::Error;
use crate::plan::spread::Spread;

const SMALL_BYTES: u32 = 4096;
/// The greatest queue depth of a flash drive.
const FLASH_DEPTH_MAX: u32 = 32;
/// The number of reads of each drive before those that count.
const READS_BEFORE: u64 = 1_000;
/// The number of writes of each disk before those that count: they fill its write cache.
const WRITES_BEFORE: u64 = 10_000;
/// The same for flash, whose buffer is larger and collects garbage only when it is full. As many
/// requests count then, so that they see garbage collected many times.
const OF_FLASH: u64 = 100_000;
/// The number of requests that count on disks.
const COUNTED: u64 = 40_000;
/// The most data of a set that are simulated. They are spread over the whole drives.
const DATA_BYTES_MAX: u64 = 64 << 30;
/// The size of the worn-in flash drive that stands for a larger one.
const WORN: &str = "capacity-gb=16:overwritten-percent=100";

/// The rate that drives guarantee.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Guarantee {
    pub(super) rate_iops: f64,
}

/// Measures `drives` in the layout `kind`. A share of `fraction` is to be answered within `within`.
///
/// # Errors
/// If the drives cannot form the layout.
pub(super) fn guarantee(
    kind: &DriveLayout<'_>,
    drives: usize,
    within: Nanos,
    fraction: f64,
) -> Result<Guarantee, Error> {
    let layout = if kind.layout == Layout::FlashCache { Layout::Single } else { kind.layout };
    let worn = worn_in(kind);
    let kind =
        DriveLayout { layout, flash: None, drive: worn.as_ref().unwrap_or(kind.drive), ..*kind };
    // Worn-in flash takes memory, so as few drives as possible stand for all.
    let sets = match worn {
        Some(_) => drives / layout.width(),
        None => layout.sets(drives).unwrap_or(1),
    };
    let each = if worn.is_some() { layout.width() } else { drives / sets };
    let held = kind.holds(each)?.unwrap_or(0);
    let bytes = if layout.is_array() { held.min(DATA_BYTES_MAX) } else { held };
    let set = kind.set(each, Data { bytes, used: 0, touched: bytes })?;
    let at = |depth: u32| -> Result<(f64, bool), Error> {
        let (mut rate_iops, mut in_time) = (f64::INFINITY, true);
        for op in [Op::Read, Op::Write] {
            let measured = measure(&kind.drive.model, &set, (op, depth), within)?;
            rate_iops = rate_iops.min(measured.0);
            in_time &= measured.1 >= fraction;
        }
        Ok((rate_iops, in_time))
    };
    let each = each as u32;
    let depth_max = if kind.drive.model.wear().is_some() { FLASH_DEPTH_MAX * each } else { each };
    let rate_iops = fastest_in_time(each, depth_max, at)?.0;
    Ok(Guarantee { rate_iops: rate_iops * sets as f64 })
}

/// Returns the highest rate and its depth of those at which `at` is in time, out of the powers of
/// two up to `depth_max`; the rate at depth 1 if none is. The search starts with about one request for each of
/// `drives`.
fn fastest_in_time(
    drives: u32,
    depth_max: u32,
    mut at: impl FnMut(u32) -> Result<(f64, bool), Error>,
) -> Result<(f64, u32), Error> {
    let mut depth = 1 << drives.ilog2();
    let (mut rate, mut in_time) = at(depth)?;
    while !in_time && depth > 1 {
        depth /= 2;
        (rate, in_time) = at(depth)?;
        if in_time {
            return Ok((rate, depth));
        }
    }
    let mut best = (rate, depth);
    while in_time && 2 * depth <= depth_max {
        depth *= 2;
        (rate, in_time) = at(depth)?;
        if in_time && rate > best.0 {
            best = (rate, depth);
        }
    }
    Ok(best)
}

/// Opens a smaller and worn-in drive of the same kind; none unless it is flash, or if the user says
/// how worn it is.
fn worn_in(kind: &DriveLayout<'_>) -> Option<OpenDevice> {
    kind.drive.model.wear()?;
    devices::open(&format!("{}:{WORN}", kind.asked)).ok()
}

/// Returns the requests per second and the share answered in time, both of the requests that count.
fn measure(
    model: &DeviceModel,
    set: &Set,
    (op, depth): (Op, u32),
    within: Nanos,
) -> Result<(f64, f64), Error> {
    let lanes: u64 = set.lanes.disks.into();
    let drive = Spread::new(model.clone(), set.drive_bytes);
    let mut drives = vec![drive; set.lanes.disks.into()];
    let (before, counted) = match (op, model.wear()) {
        (_, Some(_)) => (OF_FLASH * lanes, OF_FLASH * lanes),
        (Op::Read, None) => (READS_BEFORE * lanes, COUNTED),
        (_, None) => (WRITES_BEFORE * lanes, COUNTED),
    };
    let mut workload = AtDepth {
        op,
        len: SMALL_BYTES.min(model.len_max()),
        blocks: (set.usable / u64::from(SMALL_BYTES)).max(1),
        state: 1,
        begun: 0,
        requests: before + counted,
        due: (0..depth).map(|_| Nanos::ZERO).collect(),
    };
    let mut watch = Counter { within, before, ended: 0, in_time: 0, since: Nanos::ZERO };
    let mut policy = build_placed(&set.spec, &set.lanes)?;
    let end = simulate::run(&mut policy, &mut drives, &mut workload, &mut watch);
    let seconds = (end - watch.since).as_secs_f64().max(1e-9);
    Ok((counted as f64 / seconds, watch.in_time as f64 / counted as f64))
}

/// Random requests, of which a constant number is in progress.
struct AtDepth {
    op: Op,
    len: u32,
    blocks: u64,
    state: u64,
    begun: u64,
    requests: u64,
    due: Vec<Nanos>,
}

impl Workload for AtDepth {
    fn peek(&self) -> Option<Nanos> {
        self.due.last().copied().filter(|_| self.begun < self.requests)
    }

    fn take(&mut self) -> Request {
        // Marsaglia's xorshift64, for reproducible requests.
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.begun += 1;
        Request {
            at: self.due.pop().unwrap_or_default(),
            offset: self.state % self.blocks * u64::from(SMALL_BYTES),
            id: self.begun,
            len: self.len,
            stream: 0,
            lane: 0,
            op: self.op,
            flags: Flags::NONE,
        }
    }

    fn finished(&mut self, now: Nanos, _done: &Done, _slots: &mut dyn Slots) {
        self.due.push(now);
    }
}

/// Counts the requests after the first `before`.
struct Counter {
    within: Nanos,
    before: u64,
    ended: u64,
    in_time: u64,
    since: Nanos,
}

impl Observer for Counter {
    fn finished(&mut self, now: Nanos, done: &Done) {
        self.ended += 1;
        if self.ended == self.before {
            self.since = now;
        } else if self.ended > self.before {
            self.in_time += u64::from(done.latency(now) <= self.within);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_depth_in_time_is_found_from_either_side() {
        for drives in [1, 6, 32] {
            for limit in [0, 1, 3, 8, 40, 700, 5000] {
                let most = FLASH_DEPTH_MAX * drives;
                let at = |depth: u32| Ok((f64::from(depth.min(100)), depth <= limit));
                let found = fastest_in_time(drives, most, at).unwrap();
                let depths = (0..).map(|bits| 1u32 << bits);
                let in_time = depths.take_while(|it| *it <= limit && *it <= most);
                let depth = in_time
                    .map(|it| (it.min(100), it))
                    .fold((0, 1), |best, it| if it.0 > best.0 { it } else { best });
                assert_eq!(found.1, depth.1, "{drives} drives, in time up to {limit}");
            }
        }
    }
}
