//! Requests in address order: a sorted vector, which is faster than a tree at the size of a request
//! queue.

/// Ids sorted by offset; ids with the same offset are sorted by id.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sorted {
    entries: Vec<(u64, u32)>,
}

impl Sorted {
    #[inline]
    pub(crate) fn insert(&mut self, offset: u64, id: u32) {
        let at = self.entries.partition_point(|&entry| entry < (offset, id));
        self.entries.insert(at, (offset, id));
    }

    /// Removes an entry, which must exist.
    #[inline]
    pub(crate) fn remove(&mut self, offset: u64, id: u32) {
        let at = self.entries.partition_point(|&entry| entry < (offset, id));
        debug_assert_eq!(
            self.entries.get(at),
            Some(&(offset, id)),
            "the entry to remove does not exist"
        );
        self.entries.remove(at);
    }

    /// Moves `id` from `listed_at`, if it is listed, to `at`, if it should be.
    #[inline]
    pub(crate) fn list(&mut self, id: u32, listed_at: &mut Option<u64>, at: Option<u64>) {
        if *listed_at == at {
            return;
        }
        if let Some(before) = std::mem::replace(listed_at, at) {
            self.remove(before, id);
        }
        if let Some(at) = at {
            self.insert(at, id);
        }
    }

    /// Returns the lowest entry at `offset` or above.
    #[inline]
    pub(crate) fn at_or_above(&self, offset: u64) -> Option<(u64, u32)> {
        self.entries.get(self.entries.partition_point(|entry| entry.0 < offset)).copied()
    }

    /// Returns the entry after an existing one.
    #[inline]
    pub(crate) fn after(&self, offset: u64, id: u32) -> Option<(u64, u32)> {
        self.entries.get(self.entries.partition_point(|&entry| entry <= (offset, id))).copied()
    }

    /// Returns the highest entry below `offset`.
    #[inline]
    pub(crate) fn below(&self, offset: u64) -> Option<(u64, u32)> {
        let at = self.entries.partition_point(|entry| entry.0 < offset);
        at.checked_sub(1).map(|at| self.entries[at])
    }

    #[inline]
    pub(crate) fn first(&self) -> Option<(u64, u32)> {
        self.entries.first().copied()
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the entries in order.
    #[inline]
    pub(crate) fn as_slice(&self) -> &[(u64, u32)] {
        &self.entries
    }

    /// Removes the entries whose id `keep` does not accept.
    pub(crate) fn retain(&mut self, keep: impl Fn(u32) -> bool) {
        self.entries.retain(|&(_, id)| keep(id));
    }

    /// Removes all entries but keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours() {
        let mut sorted = Sorted::default();
        for (offset, id) in [(30, 1), (10, 2), (20, 3), (20, 0)] {
            sorted.insert(offset, id);
        }
        assert_eq!(sorted.first(), Some((10, 2)));
        assert_eq!(sorted.at_or_above(20), Some((20, 0)));
        assert_eq!(sorted.at_or_above(31), None);
        assert_eq!((sorted.below(20), sorted.below(10)), (Some((10, 2)), None));
        sorted.remove(20, 0);
        assert_eq!(sorted.at_or_above(11), Some((20, 3)));
        assert_eq!(sorted.len(), 3);
    }
}
