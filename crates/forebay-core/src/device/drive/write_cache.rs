//! The write cache: runs of sectors that are acknowledged and not yet on the media.
//!
//! Volatile and written back. A run that goes on where another ends joins it if there is room, one
//! inside another is absorbed; else it takes a place of its own, of which there are few.

use super::controller::WriteCacheSpec;

/// A run of sectors to write.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Dirty {
    pub(super) first: u64,
    pub(super) count: u64,
    /// When the arm may go there.
    pub(super) ready: u64,
    /// When its data began to come over the bus, and ns a sector.
    pub(super) data: (u64, f64),
}

#[derive(Clone, Debug)]
pub(super) struct WriteCache {
    spec: WriteCacheSpec,
    runs: Vec<Dirty>,
    /// When the last run that was taken is on the media; until then it has its place.
    pub(super) writing_until: u64,
}

impl WriteCache {
    pub(super) fn new(spec: WriteCacheSpec) -> WriteCache {
        WriteCache { spec, runs: Vec::with_capacity(spec.extents as usize), writing_until: 0 }
    }

    /// Whether a write could ever be taken.
    pub(super) fn fits(&self, count: u64) -> bool {
        count <= self.spec.extent_sectors
    }

    /// Whether it could be at `now`.
    pub(super) fn has_room(&self, now: u64, first: u64, count: u64) -> bool {
        let taken = self.runs.len() + usize::from(now < self.writing_until);
        self.fits(count)
            && (taken < self.spec.extents as usize
                || self.runs.iter().any(|run| run.joined(first, count, self.spec.extent_sectors)))
    }

    /// Takes a write for which there is room.
    pub(super) fn put(&mut self, write: Dirty) {
        let limit = self.spec.extent_sectors;
        let end = write.first + write.count;
        match self.runs.iter_mut().find(|run| run.joined(write.first, write.count, limit)) {
            Some(run) => run.count = run.count.max(end - run.first),
            None => self.runs.push(write),
        }
    }

    pub(super) fn runs(&self) -> &[Dirty] {
        &self.runs
    }

    pub(super) fn take(&mut self, index: usize) -> Dirty {
        self.runs.swap_remove(index)
    }
}

impl Dirty {
    fn joined(&self, first: u64, count: u64, limit: u64) -> bool {
        let end = first + count;
        let inside = first >= self.first && end <= self.first + self.count;
        inside || (first == self.first + self.count && end - self.first <= limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(first: u64, count: u64) -> Dirty {
        Dirty { first, count, ready: 0, data: (0, 0.0) }
    }

    #[test]
    fn runs_join_are_absorbed_or_take_a_place() {
        let mut cache = WriteCache::new(WriteCacheSpec { extents: 2, extent_sectors: 16 });
        for write in [run(100, 8), run(108, 4), run(102, 3), run(50, 8)] {
            assert!(cache.has_room(0, write.first, write.count));
            cache.put(write);
        }
        assert_eq!(cache.runs(), [run(100, 12), run(50, 8)]);
        assert!(
            cache.has_room(0, 112, 4) && !cache.has_room(0, 112, 5) && !cache.has_room(0, 30, 1)
        );
        assert!(!cache.fits(17));
        cache.take(0);
        cache.writing_until = 7;
        assert!(cache.has_room(7, 30, 1) && !cache.has_room(6, 30, 1));
    }
}
