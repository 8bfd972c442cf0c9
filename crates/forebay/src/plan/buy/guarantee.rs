//! The rate that drives in a layout guarantee for any workload of small requests: random 4 KiB reads
//! or writes over the whole drives, whichever are slower, at the greatest queue depth at which they
//! are still answered within the promised time.
//!
//! The recorded requests may be served faster, because they lie close together or follow one
//! another; a reservation must not count on that. A flash cache does not count either, because
//! random requests miss it. Flash is measured worn in, with a smaller drive of the same kind.

use forebay_core::catalog::build_placed;
use forebay_core::contract::bytes::Slots;
use forebay_core::device::list::DeviceModel;
use forebay_core::{Device, Done, Flags, Nanos, Observer, Op, Request, Workload, simulate};

use super::layout::{DriveLayout, Layout, Set};
use super::spread::Spread;
use crate::devices::{self, OpenDevice};
use crate::error::Error;

const SMALL_BYTES: u32 = 4096;
/// The greatest queue depth of a drive.
const DEPTH_MAX: u32 = 32;
/// The number of requests for each disk: half of them fill its write cache.
const REQUESTS: u64 = 20_000;
/// The same for flash, whose buffer is larger and collects garbage only when it is full.
const REQUESTS_OF_FLASH: u64 = 200_000;
/// The most data of a set that are simulated. They are spread over the whole drives.
const DATA_BYTES_MAX: u64 = 64 << 30;
/// The size of the worn-in flash drive that stands for a larger one.
const WORN: &str = "capacity-gb=16:overwritten-percent=100";

/// The rate that drives guarantee.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Guarantee {
    pub(super) rate_iops: f64,
    /// The number of requests that must be in progress to reach it.
    pub(super) depth: u32,
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
    let set = kind.set(each, bytes, 0)?;
    let mut best = None;
    let depths = (0..).map(|bits| 1u32 << bits);
    for depth in depths.take_while(|depth| *depth <= DEPTH_MAX * each as u32) {
        let (mut rate_iops, mut in_time) = (f64::INFINITY, true);
        for op in [Op::Read, Op::Write] {
            let measured = measure(&kind.drive.model, &set, (op, depth), within)?;
            rate_iops = rate_iops.min(measured.0);
            in_time &= measured.1 >= fraction;
        }
        if best.is_some() && !in_time {
            break;
        }
        if best.is_none_or(|(rate, _)| rate < rate_iops) {
            best = Some((rate_iops, depth));
        }
        if !in_time {
            break;
        }
    }
    let (rate_iops, depth) = best.unwrap_or((0.0, 1));
    Ok(Guarantee { rate_iops: rate_iops * sets as f64, depth: depth * sets as u32 })
}

/// Opens a smaller and worn-in drive of the same kind; none unless it is flash, or if the user says
/// how worn it is.
fn worn_in(kind: &DriveLayout<'_>) -> Option<OpenDevice> {
    kind.drive.model.wear()?;
    devices::open(&format!("{}:{WORN}", kind.asked)).ok()
}

/// Returns the requests per second and the share answered in time, both of the second half.
fn measure(
    model: &DeviceModel,
    set: &Set,
    (op, depth): (Op, u32),
    within: Nanos,
) -> Result<(f64, f64), Error> {
    let lanes: u64 = set.lanes.disks.into();
    let drive = Spread::new(model.clone(), set.drive_bytes);
    let mut drives = vec![drive; set.lanes.disks.into()];
    let each = if model.wear().is_some() { REQUESTS_OF_FLASH } else { REQUESTS };
    let mut workload = AtDepth {
        op,
        len: SMALL_BYTES.min(model.len_max()),
        blocks: (set.usable / u64::from(SMALL_BYTES)).max(1),
        state: 1,
        begun: 0,
        requests: each * lanes,
        due: (0..depth).map(|_| Nanos::ZERO).collect(),
    };
    let half = workload.requests / 2;
    let mut watch = Half { within, half, ended: 0, in_time: 0, halfway: Nanos::ZERO };
    let mut policy = build_placed(&set.spec, &set.lanes)?;
    let end = simulate::run(&mut policy, &mut drives, &mut workload, &mut watch);
    let (seconds, after) = ((end - watch.halfway).as_secs_f64().max(1e-9), watch.ended - half);
    Ok((after as f64 / seconds, watch.in_time as f64 / after.max(1) as f64))
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

/// Counts the second half of the requests.
struct Half {
    within: Nanos,
    half: u64,
    ended: u64,
    in_time: u64,
    halfway: Nanos,
}

impl Observer for Half {
    fn finished(&mut self, now: Nanos, done: &Done) {
        self.ended += 1;
        if self.ended == self.half {
            self.halfway = now;
        } else if self.ended > self.half {
            self.in_time += u64::from(done.latency(now) <= self.within);
        }
    }
}
