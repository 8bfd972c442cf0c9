//! The write cache: runs of sectors that are acknowledged but not yet on the media.
//!
//! The cache is volatile and written back. A run that continues another one joins it if there is
//! space, and a run inside another is absorbed. Otherwise, a run takes one of a few places, and
//! memory for its sectors. Once most places or most of the memory are in use, the cache is drained:
//! its runs compete for the arm like commands until half is free. If runs were written one at a
//! time, only when a place is needed, each run would cost a seek there and back.

use std::collections::VecDeque;

use super::{Mechanism, Spot, Spots, WriteCacheSpec};

/// A run of sectors to write.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Dirty {
    pub(super) first: u64,
    /// The position of the first sector. The arm does not start for it before all data has been
    /// transferred over the bus.
    pub(super) spot: Spot,
    pub(super) count: u64,
    /// The earliest time at which the arm may move to the run.
    pub(super) ready: u64,
    /// When the data began to arrive over the bus, and its time per sector in ns.
    pub(super) data: (u64, f64),
}

#[derive(Clone, Debug)]
pub(super) struct WriteCache {
    spec: WriteCacheSpec,
    runs: Vec<Dirty>,
    /// The first sector of each of `runs` and the sector after its last one. They are stored
    /// separately, because they are searched most often.
    extents: Vec<(u64, u64)>,
    /// The positions of `runs`.
    spots: Spots,
    /// The number of runs so far.
    count: u64,
    /// For each run that is being written, in order, when it will be on the media, and its number
    /// of sectors. It keeps its place until then.
    writing: VecDeque<(u64, u64)>,
    /// The total number of sectors in `runs`.
    sectors: u64,
    drains: bool,
}

impl WriteCache {
    pub(super) fn new(spec: WriteCacheSpec) -> WriteCache {
        let places = spec.extents as usize;
        let (runs, writing) = (Vec::with_capacity(places), VecDeque::with_capacity(places));
        let spots = Spots::default();
        let extents = Vec::with_capacity(places);
        WriteCache { spec, runs, extents, spots, count: 0, writing, sectors: 0, drains: false }
    }

    /// Returns whether the cache could ever accept a write of this length.
    pub(super) fn fits(&self, count: u64) -> bool {
        count <= self.spec.extent_sectors.min(self.spec.sectors)
    }

    /// Returns when, at `now` or later, there is space for a write that fits: immediately, or when
    /// enough of the runs being written are on the media. `None` if the other runs take too much
    /// space.
    pub(super) fn room_at(&self, now: u64, first: u64, count: u64) -> Option<u64> {
        let place = usize::from(self.joined(first, count).is_none());
        let left = (self.spec.extents as usize).checked_sub(self.runs.len() + place)?;
        let sectors_left = self.spec.sectors.checked_sub(self.sectors + count)?;
        // Starts with the newest runs, which are written last: as many as fit may still be in
        // progress.
        let (mut places, mut sectors) = (0, 0);
        for (until, taken) in self.writing.iter().rev().take_while(|(until, _)| now < *until) {
            (places, sectors) = (places + 1, sectors + taken);
            if places > left || sectors > sectors_left {
                return Some(*until);
            }
        }
        Some(now)
    }

    /// Returns whether a run contains all of `count` sectors starting at `first`.
    pub(super) fn holds(&self, first: u64, count: u64) -> bool {
        self.any(|from, to| (from <= first) & (first + count <= to))
    }

    /// Returns whether `sector` is in a run that the arm has not begun to write.
    pub(super) fn reaches(&self, sector: u64) -> bool {
        self.any(|from, to| (from <= sector) & (sector < to))
    }

    /// Returns whether `is` holds for any run. Branch-free, because branches would be
    /// unpredictable.
    fn any(&self, is: impl Fn(u64, u64) -> bool) -> bool {
        self.extents.iter().fold(false, |any, (from, to)| any | is(*from, *to))
    }

    /// Returns the run that a write would join.
    fn joined(&self, first: u64, count: u64) -> Option<usize> {
        let (limit, end) = (self.spec.extent_sectors, first + count);
        let goes_on = |from: u64, to: u64| first == to && end - from <= limit;
        let joins = |from: u64, to: u64| (from <= first && end <= to) || goes_on(from, to);
        self.extents.iter().position(|&(from, to)| joins(from, to))
    }

    /// Adds a write, for which there must be space.
    pub(super) fn put(&mut self, write: Dirty) {
        let end = write.first + write.count;
        match self.joined(write.first, write.count) {
            Some(index) => {
                let run = &mut self.runs[index];
                let count = run.count.max(end - run.first);
                self.sectors += count - run.count;
                run.count = count;
                self.extents[index].1 = run.first + count;
                self.spots.delay(&run.spot, run.from());
            }
            None => {
                self.sectors += write.count;
                self.count += 1;
                let spot = Spot { from: write.from(), key: self.count, ..write.spot };
                self.spots.insert(spot);
                self.runs.push(Dirty { spot, ..write });
                self.extents.push((write.first, end));
            }
        }
        let places = self.spec.extents as usize;
        self.drains |= self.runs.len() >= (places * 3).div_ceil(4);
        self.drains |= self.sectors >= (self.spec.sectors * 3).div_ceil(4);
    }

    pub(super) fn runs(&self) -> &[Dirty] {
        &self.runs
    }

    /// Returns the run that the head reaches first, and when it does, according to
    /// [`Spots::nearest`].
    pub(super) fn nearest(
        &self,
        mechanism: &Mechanism,
        start_and_margin: (u64, u64),
    ) -> Option<(u64, usize)> {
        let named = |key: u64| self.runs.iter().position(|run| run.spot.key == key);
        let is_before = |a: u64, b: u64| named(a) < named(b);
        let (at, key) = self.spots.nearest(mechanism, start_and_margin, is_before)?;
        Some((at, named(key)?))
    }

    pub(super) fn take(&mut self, index: usize) -> Dirty {
        let run = self.runs.swap_remove(index);
        self.extents.swap_remove(index);
        self.spots.remove(&run.spot);
        self.sectors -= run.count;
        let half = |whole: u64| whole / 2;
        let places_taken = self.runs.len() as u64 > half(self.spec.extents.into());
        self.drains &= places_taken || self.sectors > half(self.spec.sectors);
        run
    }

    /// Records that a run of `count` sectors will be on the media at `until`. Removes the runs that
    /// are on the media at `now`.
    pub(super) fn writes(&mut self, now: u64, count: u64, until: u64) {
        while self.writing.front().is_some_and(|(until, _)| *until <= now) {
            self.writing.pop_front();
        }
        self.writing.push_back((until, count));
    }

    /// Returns when the last run that is being written will be on the media.
    pub(super) fn written_at(&self) -> u64 {
        self.writing.back().map_or(0, |(until, _)| *until)
    }

    /// Returns whether the runs compete for the arm: from when three quarters of the places or the
    /// memory are in use, until half of both are free. The shares are assumptions, because data
    /// sheets do not specify them.
    pub(super) fn drains(&self) -> bool {
        self.drains
    }
}

impl Dirty {
    /// Returns when the arm may start for the run: when all its data has been transferred over the
    /// bus.
    fn from(&self) -> u64 {
        let (begins, ns) = self.data;
        self.ready.max(begins + (ns * self.count as f64) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::super::controller::Admits;
    use super::*;

    fn run(first: u64, count: u64) -> Dirty {
        Dirty { first, spot: Spot::default(), count, ready: 0, data: (0, 0.0) }
    }

    /// Returns a cache with places for `extents` runs of 16 sectors, and memory for all of them.
    fn cache(extents: u32) -> WriteCache {
        let sectors = u64::from(extents) * 16;
        WriteCache::new(WriteCacheSpec {
            extents,
            extent_sectors: 16,
            sectors,
            admits: Admits::Oldest,
        })
    }

    #[test]
    fn runs_join_are_absorbed_or_take_a_place() {
        let mut cache = self::cache(2);
        for write in [run(100, 8), run(108, 4), run(102, 3), run(50, 8)] {
            assert_eq!(cache.room_at(5, write.first, write.count), Some(5));
            cache.put(write);
        }
        let runs: Vec<_> = cache.runs().iter().map(|run| (run.first, run.count)).collect();
        assert_eq!(runs, [(100, 12), (50, 8)]);
        let room = |cache: &WriteCache, now, first, count| cache.room_at(now, first, count);
        assert_eq!(room(&cache, 0, 112, 4), Some(0));
        assert_eq!([room(&cache, 0, 112, 5), room(&cache, 0, 30, 1)], [None, None]);
        assert!(cache.fits(16) && !cache.fits(17));
        let held = [(100, 12), (103, 2), (99, 2), (111, 2), (57, 1), (58, 1)];
        let held = held.map(|(first, count)| cache.holds(first, count));
        assert_eq!(held, [true, true, false, false, true, false]);
        cache.take(0);
        cache.writes(0, 8, 7);
        assert_eq!([6, 7].map(|now| room(&cache, now, 30, 1)), [Some(7), Some(7)]);
        assert_eq!((room(&cache, 8, 30, 1), cache.written_at()), (Some(8), 7));
    }

    #[test]
    fn entries_being_written_are_freed_one_by_one() {
        let mut cache = self::cache(4);
        for at in 0..4 {
            cache.put(run(at * 100, 8));
        }
        for until in [10, 20, 30] {
            cache.take(0);
            cache.writes(0, 8, until);
        }
        // One run is waiting and three are being written, which free their places one after
        // another.
        for (first, at) in [(5000, 10), (6000, 20), (7000, 30)] {
            assert_eq!(cache.room_at(0, first, 1), Some(at));
            assert_eq!(cache.room_at(at, first, 1), Some(at));
            cache.put(run(first, 1));
        }
        assert_eq!(cache.room_at(40, 8000, 1), None);
    }

    #[test]
    fn memory_may_run_out_before_entries_do() {
        let spec =
            WriteCacheSpec { extents: 8, extent_sectors: 16, sectors: 40, admits: Admits::Oldest };
        let mut cache = WriteCache::new(spec);
        for first in [0, 100] {
            cache.put(run(first, 14));
            assert!(!cache.drains());
        }
        // There is space for 12 sectors, also in a run that joins another.
        let room = |cache: &WriteCache, first, count| cache.room_at(0, first, count);
        assert_eq!([room(&cache, 200, 12), room(&cache, 200, 13)], [Some(0), None]);
        assert_eq!(room(&cache, 114, 2), Some(0));
        cache.put(run(114, 2));
        assert!(cache.drains(), "30 of 40 sectors");
        // The first run is being written until 9.
        cache.take(0);
        cache.writes(0, 14, 9);
        assert!(!cache.drains(), "16 sectors are left");
        assert_eq!([10, 11].map(|count| room(&cache, 300, count)), [Some(0), Some(9)]);
        assert!(cache.fits(16) && !cache.fits(17));
    }

    #[test]
    fn the_write_cache_drains_from_three_quarters_to_half() {
        let mut cache = self::cache(8);
        for at in 0..8 {
            assert_eq!(cache.drains(), at >= 6, "{at}");
            cache.put(run(at * 100, 8));
        }
        for left in (0..8).rev() {
            cache.take(0);
            assert_eq!(cache.drains(), left > 4, "{left}");
        }
        let mut single = self::cache(1);
        single.put(run(0, 1));
        assert!(single.drains());
    }
}
