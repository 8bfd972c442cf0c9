//! Tracks which addresses requests touch on each volume, to a MiB and in bounded memory, and
//! divides them into ranges.
//!
//! Equal ranges from 0 to the highest address are useless if a single request is far from all
//! others, because the others then share one range. Therefore, only touched addresses are divided:
//! either long gaps between them are removed ([`Touched::stretches`]), or each range gets an equal
//! share of them ([`Touched::edges`]).

use std::collections::BTreeMap;

use crate::Record;

/// The resolution of touched addresses in bytes.
pub const GRAIN_BYTES: u64 = 1 << 20;

/// The maximum number of separate parts, in addition to one per volume. They take a few MiB of
/// memory.
const PARTS_MAX: usize = 1 << 16;
/// If this many of a volume's longest stretches contain less than half of its touched addresses,
/// the volume is used all over.
const PLACES: usize = 64;
/// A gap is kept if its share of the volume, without longer gaps, is less than one in this number,
/// because it then hardly moves a range.
const GAP_SHARE: u64 = 256;
/// The minimum length of gaps that are removed, in MiB.
const GAP_MIN: u64 = 64;
/// The length in MiB that remains of a removed gap, after the stretch before it, so that the two
/// sides do not become adjacent.
const MARGIN: u64 = 4;

/// A part of a volume, in MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The beginning of the part.
    pub begin_mib: u64,
    /// The end of the part.
    pub end_mib: u64,
}

/// The addresses that requests touch on each volume.
#[derive(Clone, Debug)]
pub struct Touched {
    /// The parts of each volume: the end of each by its beginning, in MiB. Parts never touch each
    /// other.
    volumes: Vec<BTreeMap<u64, u64>>,
    parts: usize,
    parts_max: usize,
    /// Gaps of up to this many MiB are ignored.
    bridged: u64,
    /// The volume and the part that contain the last request.
    last: (u32, u64, u64),
}

impl Default for Touched {
    fn default() -> Touched {
        Touched::of(PARTS_MAX)
    }
}

impl Touched {
    fn of(parts_max: usize) -> Touched {
        let (volumes, last) = (Vec::new(), (0, 0, 0));
        Touched { volumes, parts: 0, parts_max, bridged: 0, last }
    }

    /// Adds a request. Requests without a length touch nothing.
    #[inline]
    pub fn add(&mut self, record: &Record) {
        if record.len == 0 {
            return;
        }
        let last_byte = record.offset.saturating_add(u64::from(record.len) - 1);
        let (first, end) = (record.offset / GRAIN_BYTES, last_byte / GRAIN_BYTES + 1);
        let (volume, from, to) = self.last;
        if volume != record.volume || first < from || end > to {
            self.insert(record.volume, first, end);
        }
    }

    fn insert(&mut self, volume: u32, mut first: u64, mut end: u64) {
        let number = volume as usize;
        if number >= self.volumes.len() {
            self.volumes.resize(number + 1, BTreeMap::new());
        }
        let parts = &mut self.volumes[number];
        while let Some((&from, &to)) = parts.range(..=end + self.bridged).next_back() {
            if to + self.bridged < first {
                break;
            }
            parts.remove(&from);
            self.parts -= 1;
            (first, end) = (first.min(from), end.max(to));
        }
        parts.insert(first, end);
        self.parts += 1;
        self.last = (volume, first, end);
        if self.parts > self.parts_max + self.volumes.len() {
            self.bridge();
        }
    }

    /// Removes the shortest gaps by joining the parts around them, until half as many parts are
    /// left.
    #[cold]
    fn bridge(&mut self) {
        while self.parts > self.parts_max / 2 + self.volumes.len() {
            self.bridged = (self.bridged * 2).max(1);
            self.parts = 0;
            for parts in &mut self.volumes {
                let mut joined: Vec<(u64, u64)> = Vec::new();
                for (&from, &to) in parts.iter() {
                    match joined.last_mut() {
                        Some((_, end)) if from - *end <= self.bridged => *end = to,
                        _ => joined.push((from, to)),
                    }
                }
                self.parts += joined.len();
                *parts = joined.into_iter().collect();
            }
        }
        self.last = (0, 0, 0);
    }

    /// Returns the union of both, in which volumes with the same number are identical.
    pub fn with(mut self, other: &Touched) -> Touched {
        self.bridged = self.bridged.max(other.bridged);
        for (volume, parts) in (0..).zip(&other.volumes) {
            parts.iter().for_each(|(&from, &to)| self.insert(volume, from, to));
        }
        self
    }

    /// Returns the parts in order, each as volume, first byte and end.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (u32, u64, u64)> {
        let volumes = (0..).zip(&self.volumes);
        let bytes = |mib: u64| mib.saturating_mul(GRAIN_BYTES);
        volumes.flat_map(move |(volume, parts)| {
            parts.iter().map(move |(&from, &to)| (volume, bytes(from), bytes(to)))
        })
    }

    /// Returns the total size of the touched addresses in bytes.
    pub fn bytes(&self) -> u64 {
        let parts = self.volumes.iter().flatten().map(|(from, to)| to - from);
        parts.sum::<u64>().saturating_mul(GRAIN_BYTES)
    }

    /// Returns the used stretches of each volume, without its longest gaps: those that are a
    /// noticeable share of what is left of the volume when longer gaps are removed.
    ///
    /// The gaps around many isolated requests are removed too, even if each gap is only a small
    /// share of all of them together. They are kept only if the volume is used sparsely all over,
    /// so that no part contains most of the touched addresses.
    pub fn stretches(&self) -> Vec<Vec<Stretch>> {
        self.volumes.iter().map(of_volume).collect()
    }

    /// Returns at most about `most` stretches, but at least one per volume. If there are more
    /// stretches, the longest ones make up half of the selection; the rest are taken evenly from
    /// all volumes. A request in a stretch that is not selected counts as one at the end of the
    /// selected stretch before it.
    pub fn some_stretches(&self, most: usize) -> Vec<Vec<Stretch>> {
        let mut stretches = self.stretches();
        let mut short: Vec<(usize, usize)> = Vec::new();
        for (volume, of) in stretches.iter().enumerate() {
            short.extend((1..of.len()).map(|number| (volume, number)));
        }
        if short.len() <= most {
            return stretches;
        }
        let length = |&(volume, number): &(usize, usize)| {
            let stretch: Stretch = stretches[volume][number];
            stretch.end_mib - stretch.begin_mib
        };
        // Among stretches of equal length, select some from all parts of the volume.
        short.sort_by_key(|place| (std::cmp::Reverse(length(place)), place.1.reverse_bits()));
        let mut short = short.split_off(most / 2);
        short.sort_unstable();
        let kept_before = |nth: usize| nth * (most - most / 2) / short.len();
        let is_dropped = |nth: usize| kept_before(nth) == kept_before(nth + 1);
        let dropped = short.iter().enumerate().filter(|(nth, _)| is_dropped(*nth));
        for (_, &(volume, number)) in dropped {
            stretches[volume][number].end_mib = 0;
        }
        for of in &mut stretches {
            of.retain(|stretch| stretch.end_mib > 0);
        }
        stretches
    }

    /// Returns where ranges begin that divide the touched addresses into `ranges` equal shares, as
    /// volume and byte, except for the first range. Volumes are in order of their numbers.
    pub fn edges(&self, ranges: usize) -> Vec<(u32, u64)> {
        let total = u128::from(self.bytes());
        let mut edges = Vec::new();
        let mut before = 0u128;
        for (volume, parts) in (0..).zip(&self.volumes) {
            for (&from, &to) in parts {
                let (from, bytes) =
                    (from * GRAIN_BYTES, u128::from(to - from) * u128::from(GRAIN_BYTES));
                while edges.len() + 1 < ranges {
                    let edge = total * (edges.len() as u128 + 1) / ranges as u128;
                    if edge >= before + bytes {
                        break;
                    }
                    edges.push((volume, from + (edge - before) as u64));
                }
                before += bytes;
            }
        }
        edges
    }
}

/// Returns the stretches of a volume that consists of these parts.
fn of_volume(parts: &BTreeMap<u64, u64>) -> Vec<Stretch> {
    let (mut gaps, mut ground, mut end) = (Vec::new(), 0, 0);
    for (&from, &to) in parts {
        gaps.push((from - end, from));
        ground += to - from;
        end = to;
    }
    gaps.retain(|gap| gap.0 >= GAP_MIN);
    gaps.sort_unstable();
    // Keep the shortest gaps as long as they are not a noticeable share of the touched addresses
    // and the gaps already kept.
    let short: u64 = end - ground - gaps.iter().map(|gap| gap.0).sum::<u64>();
    let mut left = ground + short;
    let kept = gaps.iter().take_while(|gap| {
        let is_kept = gap.0 < left / GAP_SHARE;
        left += if is_kept { gap.0 } else { 0 };
        is_kept
    });
    let kept = kept.count();
    let apart = without(parts, gaps.get(kept..).unwrap_or_default());
    let mut lengths: Vec<u64> = apart.iter().map(|one| one.end_mib - one.begin_mib).collect();
    lengths.sort_unstable_by_key(|&length| std::cmp::Reverse(length));
    if lengths.iter().take(PLACES).sum::<u64>() >= left / 2 {
        return apart;
    }
    // Remove the longest gaps as long as they are a noticeable share of the remaining addresses.
    let mut left = end;
    let cut = gaps.iter().rev().take_while(|gap| {
        let is_cut = gap.0 >= left / GAP_SHARE;
        left -= if is_cut { gap.0 - MARGIN } else { 0 };
        is_cut
    });
    let kept = gaps.len() - cut.count();
    without(parts, gaps.get(kept..).unwrap_or_default())
}

/// Returns the stretches of `parts` without the given gaps. Each gap is a length and the beginning
/// of the part that follows.
fn without(parts: &BTreeMap<u64, u64>, gaps: &[(u64, u64)]) -> Vec<Stretch> {
    let mut behind: Vec<u64> = gaps.iter().map(|gap| gap.1).collect();
    behind.sort_unstable();
    let mut stretches: Vec<Stretch> = Vec::new();
    for (&from, &to) in parts {
        let is_cut = behind.binary_search(&from).is_ok();
        match stretches.last_mut() {
            Some(last) if !is_cut => last.end_mib = to,
            last => {
                last.into_iter().for_each(|last| last.end_mib += MARGIN);
                let begin_mib = if is_cut { from } else { 0 };
                stretches.push(Stretch { begin_mib, end_mib: to });
            }
        }
    }
    stretches
}

/// Places the stretches of a volume one after another, with the gaps between them removed or
/// shortened.
#[derive(Clone, Debug, Default)]
pub struct Folded {
    /// For each stretch, its start on the volume, and its start and end after folding.
    begins: Vec<(u64, u64, u64)>,
    bytes: u64,
}

impl Folded {
    /// Folds these stretches, which are in order, without gaps.
    pub fn new(stretches: &[Stretch]) -> Folded {
        Folded::with_gaps(stretches, |_| 0)
    }

    /// Folds these stretches with the gaps between them and before the first one. `shortened`
    /// returns the new length of a gap, both in MiB.
    pub fn with_gaps(stretches: &[Stretch], shortened: impl Fn(u64) -> u64) -> Folded {
        let (mut bytes, mut end_mib) = (0u64, 0);
        let begins = stretches.iter().map(|stretch| {
            let gap = shortened(stretch.begin_mib - end_mib).saturating_mul(GRAIN_BYTES);
            let mib = stretch.end_mib - stretch.begin_mib;
            let begin = bytes.saturating_add(gap);
            bytes = begin.saturating_add(mib.saturating_mul(GRAIN_BYTES));
            end_mib = stretch.end_mib;
            (stretch.begin_mib.saturating_mul(GRAIN_BYTES), begin, bytes)
        });
        let begins = begins.collect();
        Folded { begins, bytes }
    }

    /// Returns the total length of the stretches and of the gaps that are left, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the position of a byte of the volume after folding. A byte in a gap counts as the
    /// end of the stretch before it.
    #[inline]
    pub fn at(&self, offset: u64) -> u64 {
        let after = self.begins.partition_point(|begin| begin.0 <= offset);
        match after.checked_sub(1).and_then(|number| self.begins.get(number)) {
            Some((from, begin, end)) => begin.saturating_add(offset - from).min(*end),
            None => self.begins.first().map_or(0, |first| first.1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_core::{Flags, Nanos, Op};
    use proptest::prelude::*;

    fn at(volume: u32, offset: u64, len: u32) -> Record {
        let (at, latency, stream) = (Nanos::ZERO, None, 0);
        Record { at, offset, latency, len, stream, volume, op: Op::Read, flags: Flags::NONE }
    }

    fn touched(records: &[Record]) -> Touched {
        let mut touched = Touched::default();
        records.iter().for_each(|record| touched.add(record));
        touched
    }

    /// Returns contiguous requests of 64 KiB from `from` to `to`, in GiB.
    fn dense(from: u64, to: u64) -> Vec<Record> {
        (from << 14..to << 14).map(|n| at(0, n << 16, 1 << 16)).collect()
    }

    fn in_gib(stretches: &[Stretch]) -> Vec<(u64, u64)> {
        stretches.iter().map(|stretch| (stretch.begin_mib >> 10, stretch.end_mib >> 10)).collect()
    }

    #[test]
    fn a_distant_request_is_a_stretch_of_its_own() {
        let alone = touched(&dense(0, 10));
        assert_eq!(in_gib(&alone.stretches()[0]), [(0, 10)]);
        for far in [1u64 << 40, 1 << 50, 1 << 63, u64::MAX - 4095] {
            let with = touched(&[dense(0, 10), vec![at(0, far, 4096)]].concat());
            let far_gib = far >> 30;
            assert_eq!(in_gib(&with.stretches()[0])[0], (0, 10), "{far}");
            assert_eq!(in_gib(&with.stretches()[0])[1].0, far_gib, "{far}");
            let stretches = &with.stretches()[0];
            let bytes: u64 = stretches.iter().map(|s| s.end_mib - s.begin_mib).sum();
            assert_eq!(bytes, 10 * 1024 + 1 + MARGIN, "{far}");
            // The distant request moves ranges of equal shares by no more than its own share.
            let moved =
                with.edges(64).into_iter().zip(alone.edges(64)).map(|(a, b)| a.1.abs_diff(b.1));
            assert!(moved.max().unwrap() <= GRAIN_BYTES, "{far}");
        }
    }

    #[test]
    fn only_gaps_that_take_a_noticeable_share_are_left_out() {
        // Within 10 GiB, a gap of 64 MiB is noticeable but one of 32 MiB is not.
        let mut records = dense(0, 4);
        records.extend(dense(4, 10).iter().map(|r| at(0, r.offset + (32 << 20), r.len)));
        assert_eq!(touched(&records).stretches()[0].len(), 1);
        records.iter_mut().skip(1000).for_each(|r| r.offset += 1 << 30);
        assert_eq!(touched(&records).stretches()[0].len(), 2);
        // Only the end of this volume is used.
        let end = touched(&dense(900, 910));
        assert_eq!(in_gib(&end.stretches()[0]), [(900, 910)]);
        // Many requests are scattered evenly over the volume.
        let scattered: Vec<Record> = (1..200).map(|n| at(0, n << 40, 4096)).collect();
        let found = touched(&[dense(0, 10), scattered].concat()).stretches();
        let used: u64 = found[0].iter().map(|stretch| stretch.end_mib - stretch.begin_mib).sum();
        assert_eq!((found[0].len(), used), (200, (10 << 10) + 199 * (MARGIN + 1)));
    }

    /// Distant requests are left out, regardless of their number.
    #[test]
    fn thousands_of_distant_requests_are_left_out() {
        for (count, apart) in [(257u64, 1u64 << 42), (1_000, 1 << 40), (5_000, 1 << 36)] {
            let far = (1..=count).map(|n| at(0, n * apart + n * 37 % 101 * 4096, 4096));
            let with = touched(&dense(0, 10).into_iter().chain(far).collect::<Vec<_>>());
            let used = |of: &[Vec<Stretch>]| Folded::new(&of[0]).bytes() >> 20;
            let (all, some) = (with.stretches(), with.some_stretches(256));
            assert!(used(&all) <= (10 << 10) + count * 2 * (MARGIN + 1), "{}", used(&all));
            assert!(used(&some) <= (10 << 10) + 300 * (MARGIN + 1), "{}", used(&some));
            assert!((200..=257).contains(&some[0].len()), "{count}: {}", some[0].len());
            assert_eq!(in_gib(&some[0][..1]), [(0, 10)]);
            // Some of all stretches are selected, not only the nearest or the most distant ones.
            let middle = some[0].partition_point(|one| one.begin_mib < (count / 2 * apart) >> 20);
            assert!(middle.abs_diff(some[0].len() / 2) < some[0].len() / 5, "{count}: {middle}");
        }
    }

    #[test]
    fn edges_are_quantiles_of_the_ground_that_is_used() {
        let mut records = dense(0, 1);
        records.extend(dense(1, 3).iter().map(|r| at(2, r.offset + (1 << 50), r.len)));
        let gib = 1u64 << 30;
        let expected =
            [(0, gib * 3 / 4), (2, (1 << 50) + gib + gib / 2), (2, (1 << 50) + gib + gib * 5 / 4)];
        assert_eq!(touched(&records).edges(4), expected);
        assert_eq!(touched(&[]).edges(4), []);
        // All touched addresses are within one MiB.
        assert_eq!(touched(&[at(0, 5 << 20, 512)]).edges(2), [(0, (5 << 20) + (1 << 19))]);
    }

    #[test]
    fn long_gaps_are_told_however_many_short_ones_there_are() {
        let mut few = Touched::of(100);
        for n in 0..5000 {
            few.add(&at(0, (n * 7) << 20, 4096));
        }
        few.add(&at(0, 1 << 60, 4096));
        assert!(few.parts <= 101, "{}", few.parts);
        let stretches = few.stretches();
        assert_eq!(stretches[0].len(), 2);
        assert_eq!(stretches[0][0].end_mib, 4999 * 7 + 1 + MARGIN);
        assert_eq!(stretches[0][1], Stretch { begin_mib: 1 << 40, end_mib: (1 << 40) + 1 });
        // If there are as many volumes as parts, each volume still keeps one part.
        let mut volumes = Touched::of(4);
        (0..50).for_each(|volume| volumes.add(&at(volume, u64::from(volume) << 30, 512)));
        assert_eq!((volumes.parts, volumes.volumes.len()), (50, 50));
    }

    proptest! {
        #[test]
        fn every_request_lies_in_a_part_and_folds_in_order(
            requests in proptest::collection::vec((0u32..2, any::<u64>(), 0u32..60, 1u32..9_000_000), 1..80),
            parts_max in 1usize..60,
        ) {
            let mut all = Touched::of(parts_max);
            let requests: Vec<Record> = requests
                .iter()
                .map(|&(volume, place, shift, len)| at(volume, place >> shift, len))
                .collect();
            requests.iter().for_each(|record| all.add(record));
            for parts in &all.volumes {
                let list: Vec<(u64, u64)> = parts.iter().map(|(&from, &to)| (from, to)).collect();
                prop_assert!(list.windows(2).all(|two| two[0].1 < two[1].0), "{:?}", list);
            }
            prop_assert_eq!(all.parts, all.volumes.iter().map(BTreeMap::len).sum::<usize>());
            let stretches = all.stretches();
            for record in &requests {
                let (first, end) = (record.offset >> 20, record.offset.saturating_add(u64::from(record.len) - 1) >> 20);
                let of = &stretches[record.volume as usize];
                prop_assert!(of.iter().any(|s| s.begin_mib <= first && end < s.end_mib));
                prop_assert!(of.windows(2).all(|two| two[0].end_mib < two[1].begin_mib));
            }
            let mut sorted: Vec<&Record> = requests.iter().filter(|record| record.volume == 0).collect();
            sorted.sort_by_key(|record| record.offset);
            let folded = Folded::new(stretches.first().map_or(&[], |all| all));
            for two in sorted.windows(2) {
                let [a, b] = [two[0], two[1]].map(|record| folded.at(record.offset));
                prop_assert!(a <= b && b - a <= two[1].offset - two[0].offset);
            }
        }
    }
}
