//! Statistics about the first records of a trace, from which its units are judged.

use forebay_core::Nanos;

use super::{
    DRIVE_BYTES_MAX, Doubt, Evidence, FEW_LEAST, Finding, PLACES_LEAST, RATE_MAX, SAMPLE,
    SECTOR_BYTES,
};
use crate::Record;

/// The maximum number of distinct offsets that are stored.
const PLACES_MAX: usize = 32;
/// The exponent of the size of a page.
const PAGE_STEP: u32 = 12;
/// The number of sectors in a page of 4 KiB.
const SECTORS_PER_PAGE: usize = 8;
/// The share of requests that must have a step. The others may come from another program.
const IN_STEPS_SHARE: f64 = 0.97;
/// A mean latency above this, in nanoseconds, is impossible, because the device would time out.
const MEAN_LATENCY_NS: f64 = 10e9;
/// The maximum duration of a burst of requests, in nanoseconds.
pub(super) const BURST_NS: u64 = 1_000_000_000;
/// The minimum latency of a request in nanoseconds. Even memory on a bus takes longer.
const LATENCY_NS_LEAST: u64 = 1_000;
/// The maximum length of requests that programs submit, in bytes.
const LEN_MAX: u32 = 1 << 24;

/// Statistics about the first records of a trace.
#[derive(Default)]
pub(super) struct Sample {
    pub(super) records: usize,
    pub(super) last_ns: u64,
    /// When the last of the requests completed.
    pub(super) end_ns: u64,
    /// The gaps between arrivals, without gaps of zero.
    pub(super) gaps_ns: Vec<u64>,
    /// The clock's step, which is the greatest common divisor of all times.
    pub(super) step_ns: u64,
    pub(super) volumes: Vec<Volume>,
    pub(super) bytes: u64,
    /// The ends of all requests. After [`Sample::judge`], the 99th percentile of the ends, because
    /// a few distant requests do not reveal a unit.
    ends: Vec<u64>,
    pub(super) end: u64,
    pub(super) offset_steps: Steps,
    pub(super) len_steps: Steps,
    /// The number of offsets that are not multiples of a sector.
    pub(super) offsets_odd: u64,
    /// The first few distinct offsets.
    distinct: Vec<u64>,
    /// The number of requests longer than [`LEN_MAX`].
    pub(super) too_long: u64,
    pub(super) runs: Runs,
    pub(super) latencies: Latencies,
}

/// The number of values for each power of two that is the largest to divide them, indexed by its
/// exponent.
#[derive(Clone, Copy)]
pub(super) struct Steps([u64; 65]);

impl Default for Steps {
    fn default() -> Steps {
        Steps([0; 65])
    }
}

impl Steps {
    fn add(&mut self, number: u64) {
        self.0[number.trailing_zeros() as usize] += 1;
    }

    /// Returns the share of values that are multiples of this power of two.
    pub(super) fn share(&self, exponent: u32) -> f64 {
        let of_all: u64 = self.0.iter().sum();
        let multiples: u64 = self.0.iter().skip(exponent as usize).sum();
        multiples as f64 / of_all.max(1) as f64
    }

    /// Returns the exponent of the largest power of two that divides nearly all values, if it is at
    /// least 512 units.
    pub(super) fn in_steps(&self, unit: u64) -> Option<u32> {
        let least = unit.trailing_zeros() + 9;
        (least..=64).rev().find(|exponent| self.share(*exponent) >= IN_STEPS_SHARE)
    }
}

/// The bytes, the requests and the last request of a volume.
#[derive(Clone, Copy, Default)]
pub(super) struct Volume {
    pub(super) bytes: u64,
    pub(super) requests: u64,
    last: Option<(u64, u64)>,
    /// The number of requests at each sector of a page.
    in_page: [u64; SECTORS_PER_PAGE],
}

/// How often a request begins where the previous one on its volume ended, under different
/// assumptions about units.
#[derive(Clone, Copy, Default)]
pub(super) struct Runs {
    /// The count if offsets and lengths are in the units in which they are read.
    pub(super) as_read: u64,
    /// The count if offsets are in sectors and lengths in bytes.
    pub(super) places_in_sectors: u64,
    /// The count if lengths are in sectors and offsets in bytes.
    pub(super) lens_in_sectors: u64,
    /// The count if offsets are in pages but were read as sectors.
    pub(super) places_in_pages: u64,
}

/// The latencies of requests, without latencies of zero.
#[derive(Clone, Copy, Default)]
pub(super) struct Latencies {
    pub(super) count: u64,
    pub(super) sum_ns: u64,
    /// The number of latencies in which no drive could transfer that many bytes.
    pub(super) too_fast: u64,
}

fn greatest_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl Sample {
    pub(super) fn add(&mut self, batch: &[Record]) {
        for record in batch.iter().take(SAMPLE - self.records.min(SAMPLE)) {
            self.add_time(record);
            if record.op.moves_data() {
                self.add_place(record);
            }
        }
    }

    fn add_time(&mut self, record: &Record) {
        let at = record.at.0;
        if self.records > 0 && at > self.last_ns {
            self.gaps_ns.push(at - self.last_ns);
            if self.step_ns != 1 {
                self.step_ns = greatest_divisor(at, self.step_ns);
            }
        }
        self.records += 1;
        self.last_ns = at;
        let Some(latency) = record.latency.filter(|latency| latency.0 > 0) else { return };
        self.end_ns = self.end_ns.max(at.saturating_add(latency.0));
        let latencies = &mut self.latencies;
        latencies.count += 1;
        latencies.sum_ns = latencies.sum_ns.saturating_add(latency.0);
        let is_fast = latency.0 < LATENCY_NS_LEAST
            || f64::from(record.len) > latency.0 as f64 * RATE_MAX / 1e9;
        latencies.too_fast += u64::from(is_fast && record.op.moves_data());
    }

    fn add_place(&mut self, record: &Record) {
        let (offset, len) = (record.offset, u64::from(record.len));
        let volume = record.volume as usize;
        if volume >= self.volumes.len() {
            self.volumes.resize(volume + 1, Volume::default());
        }
        let volume = &mut self.volumes[volume];
        volume.bytes += len;
        volume.requests += 1;
        if let Some((before, before_len)) = volume.last.replace((offset, len)) {
            let way = offset.saturating_sub(before);
            self.runs.as_read += u64::from(way == before_len);
            let counts_more =
                |one: u64, other: u64| one > 0 && one.checked_mul(SECTOR_BYTES) == Some(other);
            self.runs.places_in_sectors += u64::from(counts_more(way, before_len));
            self.runs.lens_in_sectors += u64::from(counts_more(before_len, way));
            let pages = way.checked_mul(SECTORS_PER_PAGE as u64);
            self.runs.places_in_pages += u64::from(way > 0 && pages == Some(before_len));
        }
        volume.in_page[(offset / SECTOR_BYTES) as usize % SECTORS_PER_PAGE] += 1;
        self.bytes += len;
        self.ends.push(offset.saturating_add(len));
        self.offset_steps.add(offset);
        self.len_steps.add(len);
        self.offsets_odd += u64::from(!offset.is_multiple_of(SECTOR_BYTES));
        self.too_long += u64::from(record.len > LEN_MAX);
        if self.distinct.len() < PLACES_MAX && !self.distinct.contains(&offset) {
            self.distinct.push(offset);
        }
    }

    /// Returns the strongest finding. `began` is when the first request arrived on the source's
    /// clock.
    pub(super) fn judge(&mut self, doubt: &Doubt, began: Option<Nanos>) -> Option<Finding> {
        self.gaps_ns.sort_unstable();
        self.ends.sort_unstable_by_key(|&end| std::cmp::Reverse(end));
        self.end = self.ends.get(self.ends.len() / 100).copied().unwrap_or(0);
        let median_end = self.ends.get(self.ends.len() / 2).copied().unwrap_or(0);
        let is_far = self.records >= FEW_LEAST && median_end > DRIVE_BYTES_MAX;
        let is_enough = self.requests() >= PLACES_LEAST || is_far;
        let places = if is_enough { self.places(doubt) } else { self.few_places(doubt) };
        let date = began.and_then(|began| self.date(doubt, began));
        let certain = |finding: &Option<Finding>| {
            finding.as_ref().is_some_and(|finding| finding.evidence == Evidence::Strong)
        };
        // Lengths that are 512 times too large also make the rate too high, so findings about
        // offsets and lengths take precedence, except over one about the date.
        if !certain(&date) && certain(&places) {
            return places;
        }
        let times = self.times(doubt);
        let strongest = [date, times, places]
            .into_iter()
            .flatten()
            .reduce(|first, next| if next.evidence > first.evidence { next } else { first });
        strongest.or_else(|| self.busy(doubt)).or_else(|| self.latencies(doubt))
    }

    /// Returns whether requests go to so few places that their offsets reveal no step.
    pub(super) fn is_at_few_places(&self) -> bool {
        self.distinct.len() < PLACES_MAX
    }

    /// Returns whether there are at least this many distinct offsets.
    pub(super) fn has_distinct(&self, least: usize) -> bool {
        self.distinct.len() >= least
    }

    /// Returns whether more than a few requests are longer than those that programs submit.
    pub(super) fn is_too_long(&self) -> bool {
        self.too_long as f64 > self.requests() as f64 * (1.0 - IN_STEPS_SHARE)
    }

    /// Returns whether nearly all lengths are whole pages, but less than half of the requests to
    /// each volume begin at the same sector of a page.
    pub(super) fn is_between_pages(&self) -> bool {
        let most = |volume: &Volume| volume.in_page.iter().copied().max().unwrap_or(0);
        let aligned: u64 = self.volumes.iter().map(most).sum();
        self.len_steps.share(PAGE_STEP) >= IN_STEPS_SHARE && aligned * 2 < self.requests()
    }

    pub(super) fn requests(&self) -> u64 {
        self.volumes.iter().map(|volume| volume.requests).sum()
    }

    pub(super) fn mean_len(&self) -> f64 {
        self.bytes as f64 / self.requests().max(1) as f64
    }

    /// Returns the bytes and the requests per second on the busiest volume, or `None` if all
    /// requests arrive at once.
    pub(super) fn rates(&self) -> Option<(f64, f64)> {
        let seconds = self.last_ns as f64 / 1e9;
        let busiest = |of: fn(&Volume) -> u64| {
            self.volumes.iter().map(of).max().unwrap_or(0) as f64 / seconds
        };
        (seconds > 0.0).then(|| (busiest(|v| v.bytes), busiest(|v| v.requests)))
    }

    /// Returns the mean number of outstanding requests, which follows from latencies and arrivals,
    /// or `None` without latencies.
    pub(super) fn outstanding(&self) -> Option<f64> {
        let of_all = self.latencies.count * 2 > self.records as u64;
        (of_all && self.end_ns > 0).then(|| self.latencies.sum_ns as f64 / self.end_ns as f64)
    }

    /// Returns the mean number of outstanding requests by Little's law, as if the trace continued
    /// as it began. Returns `None` for a single burst, and unless the mean latency is longer than
    /// that of any device.
    pub(super) fn outstanding_at_length(&self) -> Option<f64> {
        let mean_ns = self.latencies.sum_ns as f64 / self.latencies.count.max(1) as f64;
        let is_long = mean_ns > MEAN_LATENCY_NS && self.last_ns >= BURST_NS;
        let gaps = self.records.saturating_sub(1) as f64;
        is_long.then(|| gaps * mean_ns / self.last_ns as f64)
    }

    /// Returns whether most latencies are too short for any drive to transfer the bytes.
    pub(super) fn is_faster_than_any(&self) -> bool {
        let Latencies { count, too_fast, .. } = self.latencies;
        count >= PLACES_LEAST && too_fast * 2 > count
    }
}
