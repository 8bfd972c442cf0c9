//! Measures the rate that drives in a layout guarantee for any workload of small requests: that of
//! random 4 KiB reads or writes over the whole drives, whichever are slower. Flash is measured at
//! the highest queue depth at which requests are still answered within the promised time. A disk is
//! measured at depth one: while promises are due, the server sends few requests to a disk, so a
//! rate that needs a long queue cannot be promised.
//!
//! The recorded requests may be served faster, because they are close together or sequential, but a
//! reservation must not count on that. A flash cache does not count either, because random requests
//! miss it. Flash is measured in a worn-in state, on a smaller drive of the same kind.

use std::cell::Cell;

use forebay_core::catalog::build_placed;
use forebay_core::{
    Completion, Device, Done, Flags, Nanos, Observer, Op, Request, Slots, Workload, simulate,
};

use super::layout::{Data, DriveLayout, Layout, Set};
use crate::Error;
use crate::devices::{self, OpenDevice};
use crate::plan::spread::Spread;

const SMALL_BYTES: u32 = 4096;
/// The maximum queue depth per flash drive.
const FLASH_DEPTH_MAX: u32 = 32;
/// The number of warm-up reads per drive, which are not counted.
const READS_BEFORE: u64 = 1_000;
/// The number of warm-up writes per disk, which fill its write cache and are not counted.
const WRITES_BEFORE: u64 = 10_000;
/// The number of random writes that a flash drive takes before it becomes part of a layout. It is
/// higher than for disks because flash has a larger buffer and collects garbage only when it is
/// full.
const WRITES_OF_FLASH: u64 = 200_000;
/// The number of warm-up writes per flash drive within a layout.
const WRITES_IN_LAYOUT: u64 = 10_000;
/// The number of requests that are counted, except for writes to flash.
const COUNTED: u64 = 40_000;
/// The number of writes to flash drives that are counted: so many that each drive collects garbage
/// many times.
const WRITES_COUNTED: u64 = 100_000;
/// The maximum amount of simulated data per set, in bytes. The data are spread over the whole
/// drives.
const DATA_BYTES_MAX: u64 = 64 << 30;
/// The capacities in GB of the worn-in flash drive that is simulated in place of a larger one. The
/// first that the drive's number of dies permits is used.
const WORN_GB: [u32; 5] = [16, 32, 64, 128, 256];

/// The rate, in requests per second, that drives guarantee for any workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Guarantee {
    pub(super) rate_iops: f64,
}

impl Guarantee {
    /// Returns the rate in whole requests per second. A small addend prevents rounding down from
    /// costing a constant-rate server one request per second.
    pub(super) fn iops(self) -> u64 {
        (self.rate_iops + 1e-6).floor().max(1.0) as u64
    }
}

/// Measures the rate that `drives` in the layout `kind` guarantee, if a share `fraction` of
/// requests is promised an answer within `within`.
///
/// # Errors
/// Fails if the drives cannot form the layout.
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
    // Worn-in flash takes memory, so the smallest possible set is simulated to represent all
    // drives.
    let sets = match worn {
        Some(_) => drives / layout.width(),
        None => layout.sets(drives).unwrap_or(1),
    };
    let each = if worn.is_some() { layout.width() } else { drives / sets };
    let held = kind.holds(each)?.unwrap_or(0);
    let bytes = if layout.is_array() { held.min(DATA_BYTES_MAX) } else { held };
    let set = kind.set(each, Data { bytes, used: 0, touched: bytes })?;
    let drive = prepared(&kind, set.drive_bytes)?;
    let each = each as u32;
    let at = |depth: u32| -> Result<(f64, bool), Error> {
        let (mut rate_iops, mut in_time) = (f64::INFINITY, true);
        for op in [Op::Write, Op::Read] {
            if in_time || depth == 1 {
                let late_share_max = if depth == 1 { 1.0 } else { 1.0 - fraction };
                let load = Load { op, depth, within, late_share_max };
                let measured = measure(&drive, &set, load)?;
                rate_iops = rate_iops.min(measured.0);
                in_time &= measured.1 >= fraction;
            }
        }
        Ok((rate_iops, in_time))
    };
    let depth_max = if kind.drive.model.wear().is_some() { FLASH_DEPTH_MAX * each } else { each };
    let rate_iops = fastest_in_time(each, depth_max, at)?.0;
    Ok(Guarantee { rate_iops: rate_iops * sets as f64 })
}

/// Measures the rate of small requests, per second, that `drives` like `drive` in a layout keep
/// under any workload, if 99 % of requests are promised an answer within `within`. This is the
/// `capacity_iops` of `forebay serve`.
///
/// # Errors
/// Fails if the drives cannot form the layout.
pub fn guaranteed_iops(
    drive: &OpenDevice,
    (layout, drives): (Layout, usize),
    within: Nanos,
) -> Result<u64, Error> {
    let kind = DriveLayout {
        drive,
        asked: &drive.name,
        layout,
        flash: None,
        flash_asked: "",
        scheduler: "noop",
        costs: layout.costs(drive),
    };
    Ok(guarantee(&kind, drives, within, 0.99)?.iops())
}

/// Returns the rate and the queue depth at the highest depth that is in time, or at depth 1 if none
/// is. `at` measures the rate at a depth and whether requests are in time. Only powers of two up to
/// `depth_max` are tried, in a binary search, because requests are never answered sooner at a
/// greater depth. The search starts with about one request per drive.
fn fastest_in_time(
    drives: u32,
    depth_max: u32,
    mut at: impl FnMut(u32) -> Result<(f64, bool), Error>,
) -> Result<(f64, u32), Error> {
    let mut best = (0.0, 1);
    let (mut tried, mut below, mut above) = (drives.ilog2(), 0, depth_max.ilog2() + 1);
    while below < above {
        let (rate, in_time) = at(1 << tried)?;
        if in_time || tried == 0 {
            best = (rate, 1 << tried);
        }
        if in_time {
            below = tried + 1;
        } else {
            above = tried;
        }
        tried = below.midpoint(above);
    }
    Ok(best)
}

/// Opens a smaller, worn-in drive of the same kind; `None` if the drive is not flash, or if the
/// user specified how worn it is.
fn worn_in(kind: &DriveLayout<'_>) -> Option<OpenDevice> {
    kind.drive.model.wear()?;
    WORN_GB.into_iter().find_map(|gb| devices::open(&worn(kind.asked, gb)).ok())
}

/// Returns the name of the drive `asked`, worn in and with another capacity. Its other parameters
/// stay as they are.
fn worn(asked: &str, gb: u32) -> String {
    let kept = asked.split(':').filter(|part| !part.starts_with("capacity-gb="));
    let kept = kept.collect::<Vec<_>>().join(":");
    format!("{kept}:capacity-gb={gb}:overwritten-percent=100")
}

/// A drive as it is before a measurement.
struct Prepared {
    drive: Spread,
    is_flash: bool,
    /// The end of the preparation.
    at: Nanos,
}

/// Prepares a drive on which data extend to `drive_bytes`. Flash takes random writes, once for all
/// drives of a layout and all queue depths, because this is most of the work.
fn prepared(kind: &DriveLayout<'_>, drive_bytes: u64) -> Result<Prepared, Error> {
    let drive = Spread::new(kind.drive.model.clone(), drive_bytes);
    if kind.drive.model.wear().is_none() {
        return Ok(Prepared { drive, is_flash: false, at: Nanos::ZERO });
    }
    let alone = DriveLayout { layout: Layout::Single, ..*kind };
    let set = alone.set(1, Data { bytes: drive_bytes, used: 0, touched: drive_bytes })?;
    let mut drives = [drive];
    let is_over = Cell::new(false);
    let mut workload = AtDepth {
        count: WRITES_OF_FLASH,
        ..AtDepth::new(&kind.drive.model, drive_bytes, (Op::Write, FLASH_DEPTH_MAX), &is_over)
    };
    let mut policy = build_placed(&set.spec, &set.lanes)?;
    let at = simulate::run(&mut policy, &mut drives, &mut workload, &mut ());
    let [drive] = drives;
    Ok(Prepared { drive, is_flash: true, at })
}

/// The requests to send in a measurement.
#[derive(Clone, Copy)]
struct Load {
    op: Op,
    depth: u32,
    within: Nanos,
    /// The share of late requests above which the measurement may end early.
    late_share_max: f64,
}

/// Returns the rate in requests per second and the share of requests answered in time, without
/// those of the warm-up.
fn measure(prepared: &Prepared, set: &Set, load: Load) -> Result<(f64, f64), Error> {
    let lanes: u64 = set.lanes.disks.into();
    let mut drives = vec![prepared.drive.clone(); set.lanes.disks.into()];
    let (unit, before, counted) = match (load.op, prepared.is_flash) {
        (Op::Read, _) => (Unit::Requests, READS_BEFORE * lanes, COUNTED),
        (_, false) => (Unit::Requests, WRITES_BEFORE * lanes, COUNTED),
        (_, true) => (Unit::DriveWrites, WRITES_IN_LAYOUT * lanes, WRITES_COUNTED),
    };
    let is_over = Cell::new(false);
    let mut workload = AtDepth {
        due: vec![prepared.at; load.depth as usize],
        ..AtDepth::new(&prepared.drive, set.usable, (load.op, load.depth), &is_over)
    };
    let mut watch = Counter {
        within: load.within,
        late_share_max: load.late_share_max,
        unit,
        before,
        counted,
        done: 0,
        since: None,
        until: Nanos::ZERO,
        requests: 0,
        late: 0,
        is_over: &is_over,
    };
    let mut policy = build_placed(&set.spec, &set.lanes)?;
    simulate::run(&mut policy, &mut drives, &mut workload, &mut watch);
    let seconds = (watch.until - watch.since.unwrap_or_default()).as_secs_f64().max(1e-9);
    let requests = watch.requests.max(1) as f64;
    Ok((watch.requests as f64 / seconds, 1.0 - watch.late as f64 / requests))
}

/// A workload of random requests with a constant number in progress, until the measurement is over.
struct AtDepth<'o> {
    op: Op,
    len: u32,
    blocks: u64,
    state: u64,
    begun: u64,
    /// The number of requests to send.
    count: u64,
    due: Vec<Nanos>,
    is_over: &'o Cell<bool>,
}

impl<'o> AtDepth<'o> {
    /// Requests of 4 KiB within `bytes`, for devices like `device`.
    fn new(
        device: &impl Device,
        bytes: u64,
        (op, depth): (Op, u32),
        is_over: &'o Cell<bool>,
    ) -> Self {
        AtDepth {
            op,
            len: SMALL_BYTES.min(device.len_max()),
            blocks: (bytes / u64::from(SMALL_BYTES)).max(1),
            state: 1,
            begun: 0,
            count: u64::MAX,
            due: vec![Nanos::ZERO; depth as usize],
            is_over,
        }
    }
}

impl Workload for AtDepth<'_> {
    fn peek(&self) -> Option<Nanos> {
        self.due.last().copied().filter(|_| self.begun < self.count)
    }

    fn take(&mut self) -> Request {
        // Marsaglia's xorshift64, so that every run issues the same requests.
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

    fn is_stopped(&self) -> bool {
        self.is_over.get()
    }
}

/// What determines how long a measurement lasts: the number of requests, or of writes to the
/// drives.
#[derive(Clone, Copy, PartialEq)]
enum Unit {
    Requests,
    /// Writes to the drives. A layout may turn one request into several writes.
    DriveWrites,
}

/// An observer that counts requests, after a warm-up of `before` units, for the next `counted`
/// units.
struct Counter<'o> {
    within: Nanos,
    late_share_max: f64,
    unit: Unit,
    before: u64,
    counted: u64,
    /// The number of units so far.
    done: u64,
    /// When counting began, and when the last request was counted.
    since: Option<Nanos>,
    until: Nanos,
    requests: u64,
    late: u64,
    is_over: &'o Cell<bool>,
}

impl Observer for Counter<'_> {
    fn io(&mut self, completion: &Completion) {
        self.done += u64::from(self.unit == Unit::DriveWrites && completion.io.op == Op::Write);
    }

    fn finished(&mut self, now: Nanos, done: &Done) {
        self.done += u64::from(self.unit == Unit::Requests);
        if self.since.is_some() {
            self.requests += 1;
            self.late += u64::from(done.latency(now) > self.within);
            self.until = now;
        } else if self.done >= self.before {
            self.since = Some(now);
        }
        let late_max = self.late_share_max * self.counted as f64;
        let is_late = self.late as f64 > late_max;
        self.is_over.set(is_late || self.done >= self.before + self.counted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flash_of_many_dies_is_measured_on_a_smaller_worn_in_drive_too() {
        let all = devices::list().unwrap();
        let flash: Vec<_> = all.iter().filter(|drive| drive.model.wear().is_some()).collect();
        assert!(flash.len() >= 5, "{}", flash.len());
        for drive in flash {
            let kind = DriveLayout {
                drive,
                asked: &drive.name,
                layout: Layout::Single,
                flash: None,
                flash_asked: "",
                scheduler: "noop",
                costs: None,
            };
            let worn = worn_in(&kind).unwrap();
            assert!(worn.model.capacity() <= 32_000_000_000, "{}", drive.name);
        }
    }

    #[test]
    fn flash_of_another_capacity_guarantees_no_more() {
        let guaranteed = |name: &str| {
            let drive = devices::open(name).unwrap();
            guaranteed_iops(&drive, (Layout::Single, 1), Nanos::from_millis(20)).unwrap()
        };
        assert_eq!(guaranteed("samsung-830:capacity-gb=64"), guaranteed("samsung-830"));
    }

    #[test]
    fn a_single_disk_guarantees_its_rate_at_depth_one() {
        let disk = devices::open("st1000nm0011").unwrap();
        let iops = guaranteed_iops(&disk, (Layout::Single, 1), Nanos::from_millis(20)).unwrap();
        assert!((70..=85).contains(&iops), "{iops}");
    }

    #[test]
    fn the_fastest_depth_in_time_is_found_from_either_side() {
        for drives in [1, 6, 32] {
            for limit in [0, 1, 3, 8, 40, 700, 5000] {
                let most = FLASH_DEPTH_MAX * drives;
                let at = |depth: u32| Ok((f64::from(depth.min(100)), depth <= limit));
                let found = fastest_in_time(drives, most, at).unwrap();
                let depths = (0..).map(|bits| 1u32 << bits);
                let in_time = depths.take_while(|it| *it <= limit && *it <= most);
                let depth = in_time.last().unwrap_or(1);
                assert_eq!(found.1, depth, "{drives} drives, in time up to {limit}");
            }
        }
    }
}
