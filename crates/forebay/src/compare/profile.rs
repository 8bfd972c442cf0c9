//! Everything that the card asks of one trace, from one pass over it.

use std::collections::{BTreeMap, BTreeSet};

use forebay_core::cache::MissRatioCurve;
use forebay_core::{Nanos, Op};
use forebay_trace::Record;

use super::dispersion::Bins;
use super::layout::Side;
use super::tally::{Clock, Counts, Tally, bucket};
use crate::cache_curve::keys;
use crate::error::Error;
use crate::input::Input;
use crate::layout::VolumeLayout;
use crate::progress::{Meter, Progress};

/// Binary digits of a size's bucket: exact for whole KiB up to 2 MiB.
pub(super) const SIZE_DIGITS: u32 = 10;
/// The same of a time: to 0.4 %.
pub(super) const TIME_DIGITS: u32 = 8;
/// Ranges with equal shares of the ground that either trace uses. (Ranges of equal length from 0 to the highest
/// address say nothing once one request lies far from all others.)
pub(super) const RANGES: usize = 256;
/// Streams told apart; all others are one.
pub(super) const STREAMS_MAX: usize = 4096;

/// A stretch of pages that a solid-state drive's model keeps a map for: 4 MiB.
const STRETCH_BITS: u32 = 22;
/// Stretches written to that are counted: the maps for so many take 256 MiB.
pub(super) const STRETCHES_MAX: usize = 1 << 15;

/// Sums over data requests, each a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sum {
    Requests,
    Bytes,
    Reads,
    ReadBytes,
    /// Requests that start where the one before them on their volume ended.
    Sequential,
    /// The same of their stream, direction and volume.
    SequentialInStream,
    Gaps,
    /// In nanoseconds.
    GapTime,
    /// Blocks of the miss-ratio curve that were used.
    Accesses,
    /// As many as those that were looked at stand for: the same but where blocks are sampled.
    StoodFor,
}

/// Cache sizes at which curves are compared: eight for each doubling, in blocks.
pub(super) fn cache_sizes() -> Vec<u64> {
    let mut sizes: Vec<u64> = (0..=8 * 36).map(|i| 2f64.powf(f64::from(i) / 8.0) as u64).collect();
    sizes.dedup();
    sizes
}

/// What is asked of both traces alike.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    /// Bytes of a block of the cache.
    pub(super) block_bytes: u64,
    /// Where ranges begin, all but the first: volume and byte on it.
    pub(super) edges: &'a [(u32, u64)],
    /// Whether times mean anything.
    pub(super) timed: bool,
}

/// One trace, counted by blocks of time.
#[derive(Debug)]
pub(super) struct Profile {
    sums: Tally,
    sizes: Tally,
    gaps: Tally,
    streams: Tally,
    ranges: Tally,
    bins: Option<Tally>,
    /// Hits by the first cache size that has them.
    hits: Tally,
    /// Distinct blocks of the cache.
    pub(super) footprint_blocks: u64,
    /// One in so many of them was looked at.
    pub(super) sampled_one_in: u64,
    /// Stretches of 4 MiB that were written to, as far as they are counted.
    pub(super) written_stretches: usize,
    pub(super) clock: Clock,
}

/// The same for some weights of the blocks.
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

    /// The miss ratios of caches of these [`cache_sizes`].
    pub(super) fn miss_ratios(&self, sizes: usize) -> Vec<f64> {
        let (mut hits, all) = (0, self.of(Sum::Accesses).max(1) as f64);
        let stood_for = self.of(Sum::StoodFor);
        let ratio = |size| {
            hits += self.hits.of(size);
            (stood_for.saturating_sub(hits) as f64 / all).min(1.0)
        };
        (0..sizes).map(ratio).collect()
    }

    /// Accesses in each of [`RANGES`] ranges.
    pub(super) fn heat(&self) -> Vec<u64> {
        (0..RANGES).map(|range| self.ranges.of(range)).collect()
    }
}

impl Profile {
    /// Of `input`, volumes laid as `side` says.
    pub(super) fn of(
        input: &Input,
        side: &Side,
        asked: Asked<'_>,
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

/// How `input` is cut: by time, unless it has none.
pub(super) fn clock(input: &Input, timed: bool) -> Clock {
    match timed {
        true => Clock::Times(Nanos((input.description.duration_s * 1e9).round() as u64)),
        false => Clock::Records(input.description.records),
    }
}

/// The pass itself.
struct Pass<'a> {
    profile: Profile,
    side: &'a Side,
    asked: Asked<'a>,
    layout: VolumeLayout,
    curve: MissRatioCurve,
    cache_sizes: Vec<u64>,
    written: BTreeSet<u64>,
    bins: Option<Bins>,
    first: Option<Nanos>,
    last: Option<Nanos>,
    /// Where the last request of each volume ended.
    ends: Vec<Option<u64>>,
    /// And of each stream, volume and direction.
    stream_ends: BTreeMap<(u32, u32, Op), u64>,
}

impl<'a> Pass<'a> {
    fn new(input: &Input, side: &'a Side, asked: Asked<'a>) -> Pass<'a> {
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
                // The first cache with more blocks than that.
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
        self.profile
    }
}
