//! Measures one trace in a single pass and collects everything that the card needs.

use std::collections::{BTreeMap, BTreeSet};

use forebay_core::cache::MissRatioCurve;
use forebay_core::{Nanos, Op};
use forebay_trace::Record;

use super::{Bins, Clock, Counts, Latencies, Side, Tally, bucket};
use crate::cache_curve::keys;
use crate::layout::VolumeLayout;
use crate::progress::{Meter, Progress};
use crate::{Error, Input};

/// The binary digits of a size in its bucket; sizes in whole KiB are exact up to 2 MiB.
pub(super) const SIZE_DIGITS: u32 = 10;
/// The binary digits of a time in its bucket, which make it exact to 0.4 %.
pub(super) const TIME_DIGITS: u32 = 8;
/// The number of ranges into which the used addresses are divided. (Ranges of equal length from 0
/// to the highest address would be useless if a single request were far from all others.)
pub(super) const RANGES: usize = 256;
/// The maximum number of streams that are counted separately; the rest are counted together.
pub(super) const STREAMS_MAX: usize = 4096;

/// The binary logarithm of 4 MiB, the size of an area for which a solid-state drive's model
/// allocates a map.
const STRETCH_BITS: u32 = 22;
/// The maximum number of written areas that are counted. The maps of this many areas take 256 MiB.
pub(super) const STRETCHES_MAX: usize = 1 << 15;

/// The sums over reads and writes that are counted, one per column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sum {
    Requests,
    Bytes,
    Reads,
    ReadBytes,
    /// The number of requests that start where the previous request on their volume ended.
    Sequential,
    /// The number of requests that start where the previous request of the same stream, operation
    /// and volume ended.
    SequentialInStream,
    Gaps,
    /// The sum of inter-arrival times in nanoseconds.
    GapTime,
    /// The number of block accesses, for the miss-ratio curve.
    Accesses,
    /// The number of block accesses that the sampled ones represent; equals `Accesses` if all
    /// blocks are tracked.
    StoodFor,
}

/// Returns the cache sizes, in blocks, at which miss ratios are compared: eight per doubling.
pub(super) fn cache_sizes() -> Vec<u64> {
    let mut sizes: Vec<u64> = (0..=8 * 36).map(|i| 2f64.powf(f64::from(i) / 8.0) as u64).collect();
    sizes.dedup();
    sizes
}

/// Parameters that are the same for both traces.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProfileOptions<'a> {
    /// The block size of the miss-ratio curve in bytes.
    pub(super) block_bytes: u64,
    /// Where the ranges of addresses start, except the first: volume and byte offset.
    pub(super) edges: &'a [(u32, u64)],
    /// Whether the traces have usable arrival times.
    pub(super) timed: bool,
}

/// The counts of one trace, separately for each block of time.
#[derive(Debug)]
pub(super) struct Profile {
    sums: Tally,
    sizes: Tally,
    gaps: Tally,
    streams: Tally,
    ranges: Tally,
    bins: Option<Tally>,
    /// Cache hits, by the smallest cache size in which the access hits.
    hits: Tally,
    /// The number of distinct blocks that the trace accesses.
    pub(super) footprint_blocks: u64,
    /// The cache simulation tracks one in this many blocks.
    pub(super) sampled_one_in: u64,
    /// The number of 4 MiB areas that were written to, counted up to [`STRETCHES_MAX`].
    pub(super) written_stretches: usize,
    /// The recorded latencies of the trace.
    pub(super) latencies: Latencies,
    pub(super) clock: Clock,
}

/// The counts of one trace, summed over the blocks of time with given weights.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    sums: Counts,
    pub(super) sizes: Counts,
    pub(super) gaps: Counts,
    pub(super) streams: Counts,
    pub(super) ranges: Counts,
    pub(super) bins: Option<Counts>,
    hits: Counts,
}

impl Sample {
    pub(super) fn of(&self, sum: Sum) -> u64 {
        self.sums.of(sum as usize)
    }

    /// Returns the miss ratios at the first `sizes` sizes of [`cache_sizes`].
    pub(super) fn miss_ratios(&self, sizes: usize) -> Vec<f64> {
        let (mut hits, all) = (0, self.of(Sum::Accesses).max(1) as f64);
        let stood_for = self.of(Sum::StoodFor);
        let ratio = |size| {
            hits += self.hits.of(size);
            (stood_for.saturating_sub(hits) as f64 / all).min(1.0)
        };
        (0..sizes).map(ratio).collect()
    }

    /// Returns the number of requests in each of the [`RANGES`] ranges.
    pub(super) fn heat(&self) -> Vec<u64> {
        (0..RANGES).map(|range| self.ranges.of(range)).collect()
    }
}

impl Profile {
    /// Measures `input`, with its volumes laid out as in `side`.
    pub(super) fn of(
        input: &Input,
        side: &Side,
        asked: ProfileOptions<'_>,
        progress: Progress<'_>,
    ) -> Result<Profile, Error> {
        let mut pass = Pass::new(input, side, asked);
        let records = input.records()?;
        let (failed, mut meter) = (records.failed(), Meter::new(progress));
        for (number, record) in (0..).zip(records) {
            if meter.stops_after(1) {
                return Err(Error::Stopped);
            }
            pass.add(&side.renamed(record), number);
        }
        match failed.take() {
            Some(error) => Err(error.into()),
            None => Ok(pass.finish()),
        }
    }

    pub(super) fn weigh(&self, weights: &[u64]) -> Sample {
        Sample {
            sums: self.sums.weigh(weights),
            sizes: self.sizes.weigh(weights),
            gaps: self.gaps.weigh(weights),
            streams: self.streams.weigh(weights),
            ranges: self.ranges.weigh(weights),
            bins: self.bins.as_ref().map(|bins| bins.weigh(weights)),
            hits: self.hits.weigh(weights),
        }
    }
}

/// Returns how `input` is divided into blocks: by time, or by records if it has no times.
pub(super) fn clock(input: &Input, timed: bool) -> Clock {
    match timed {
        true => Clock::Times(Nanos((input.description.duration_s * 1e9).round() as u64)),
        false => Clock::Records(input.description.records),
    }
}

/// The state of the pass over the trace: the counts, and what is needed to continue counting.
struct Pass<'a> {
    profile: Profile,
    side: &'a Side,
    asked: ProfileOptions<'a>,
    layout: VolumeLayout,
    curve: MissRatioCurve,
    cache_sizes: Vec<u64>,
    written: BTreeSet<u64>,
    bins: Option<Bins>,
    first: Option<Nanos>,
    last: Option<Nanos>,
    /// For each volume, where its last request ended.
    ends: Vec<Option<u64>>,
    /// For each stream, volume and operation, where the last request ended.
    stream_ends: BTreeMap<(u32, u32, Op), u64>,
}

impl<'a> Pass<'a> {
    fn new(input: &Input, side: &'a Side, asked: ProfileOptions<'a>) -> Pass<'a> {
        let clock = clock(input, asked.timed);
        let bins = match clock {
            Clock::Times(duration) => Some(Bins::new(duration)),
            Clock::Records(_) => None,
        };
        let empty = Tally::default;
        let profile = Profile {
            sums: empty(),
            sizes: empty(),
            gaps: empty(),
            streams: empty(),
            ranges: empty(),
            bins: None,
            hits: empty(),
            footprint_blocks: 0,
            sampled_one_in: 1,
            written_stretches: 0,
            latencies: Latencies::new(&input.labels),
            clock,
        };
        Pass {
            profile,
            side,
            asked,
            layout: side.on(u64::MAX),
            curve: MissRatioCurve::default(),
            cache_sizes: cache_sizes(),
            written: BTreeSet::new(),
            bins,
            first: None,
            last: None,
            ends: vec![None; side.extents.len()],
            stream_ends: BTreeMap::new(),
        }
    }

    #[inline]
    fn add(&mut self, record: &Record, number: u64) {
        let at = record.at - *self.first.get_or_insert(record.at);
        if !record.op.moves_data() || record.len == 0 {
            return;
        }
        let block = self.profile.clock.block(at, number);
        self.count(record, block);
        self.profile.latencies.add(record, block);
        self.arrive(at, block);
        self.place(record, number, block);
    }

    fn count(&mut self, record: &Record, block: usize) {
        let (len, is_read) = (u64::from(record.len), record.op == Op::Read);
        let end = record.offset.saturating_add(len);
        let before = self.ends.get_mut(record.volume as usize).and_then(|last| last.replace(end));
        let stream = (record.stream, record.volume, record.op);
        let before_in_stream = self.stream_ends.insert(stream, end);
        let sequential = u64::from(before == Some(record.offset));
        let in_stream = u64::from(before_in_stream == Some(record.offset));
        for (sum, amount) in [
            (Sum::Requests, 1),
            (Sum::Bytes, len),
            (Sum::Reads, u64::from(is_read)),
            (Sum::ReadBytes, if is_read { len } else { 0 }),
            (Sum::Sequential, sequential),
            (Sum::SequentialInStream, in_stream),
        ] {
            self.profile.sums.add(block, sum as usize, amount);
        }
        self.profile.sizes.add(block, bucket(len, SIZE_DIGITS), 1);
        self.profile.streams.add(block, (record.stream as usize).min(STREAMS_MAX), 1);
    }

    fn arrive(&mut self, at: Nanos, block: usize) {
        let Some(bins) = &mut self.bins else { return };
        bins.add(at);
        let Some(last) = self.last.replace(at) else { return };
        let gap = (at - last).0;
        self.profile.sums.add(block, Sum::Gaps as usize, 1);
        self.profile.sums.add(block, Sum::GapTime as usize, gap);
        self.profile.gaps.add(block, bucket(gap, TIME_DIGITS), 1);
    }

    fn place(&mut self, record: &Record, number: u64, block: usize) {
        let place = (record.volume, record.offset);
        let range = self.asked.edges.partition_point(|edge| *edge <= place);
        self.profile.ranges.add(block, range, 1);
        if let Some(request) = self.layout.place(record, number) {
            self.write(record.op, request.offset, request.end());
        }
        for key in keys(record, self.asked.block_bytes) {
            self.profile.sums.add(block, Sum::Accesses as usize, 1);
            let Some(told) = self.curve.access(key) else { continue };
            self.profile.sums.add(block, Sum::StoodFor as usize, told.stands_for);
            if let Some(distance) = told.distance {
                // Find the smallest cache that holds more blocks than the reuse distance.
                let size = self.cache_sizes.partition_point(|&size| size <= distance);
                self.profile.hits.add(block, size, told.stands_for);
            }
        }
    }

    fn write(&mut self, op: Op, offset: u64, end: u64) {
        if op == Op::Write && self.written.len() <= STRETCHES_MAX {
            let last = end.saturating_sub(1) >> STRETCH_BITS;
            self.written.extend(offset >> STRETCH_BITS..=last);
        }
    }

    fn finish(mut self) -> Profile {
        debug_assert_eq!(self.ends.len(), self.side.extents.len());
        self.profile.bins = self.bins.map(Bins::finish);
        self.profile.footprint_blocks = self.curve.blocks();
        self.profile.sampled_one_in = self.curve.sample().one_in();
        self.profile.written_stretches = self.written.len();
        self.profile.sizes.compact();
        self.profile.gaps.compact();
        self.profile.latencies.finish();
        self.profile
    }
}
