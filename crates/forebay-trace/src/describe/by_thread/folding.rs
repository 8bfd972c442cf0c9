//! Counts events along a growing line in a limited number of stretches of equal length. When there
//! are too few stretches, neighbors are merged in pairs.

/// The count of each stretch. At level `l`, a stretch is `2^l` times as long as the finest ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Folding<const MOST: usize> {
    counts: Vec<u64>,
    level: u32,
}

impl<const MOST: usize> Folding<MOST> {
    /// Adds one event in the finest stretch `finest`.
    #[inline]
    pub(super) fn add(&mut self, finest: u64) {
        while finest >> self.level >= MOST as u64 {
            self.fold_to(self.level + 1);
        }
        let index = (finest >> self.level) as usize;
        match self.counts.get_mut(index) {
            Some(count) => *count += 1,
            None => self.grow(index),
        }
    }

    #[cold]
    fn grow(&mut self, index: usize) {
        self.counts.resize(index + 1, 0);
        self.counts[index] = 1;
    }

    pub(super) fn level(&self) -> u32 {
        self.level
    }

    /// Merges stretches until their level is at least `level`.
    pub(super) fn fold_to(&mut self, level: u32) {
        while self.level < level {
            let folded = self.counts.chunks(2).map(|pair| pair.iter().sum()).collect();
            self.counts = folded;
            self.level += 1;
        }
    }

    /// Adds the counts of `other`, which must have the same level.
    pub(super) fn merge(&mut self, other: &Folding<MOST>) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        self.level = other.level;
        self.counts.iter_mut().zip(&other.counts).for_each(|(sum, count)| *sum += count);
    }

    /// Returns the counts from the first stretch to the last nonempty one.
    pub(super) fn counts(&self) -> &[u64] {
        &self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_double_until_they_suffice() {
        let mut folding = Folding::<4>::default();
        [0, 1, 3].iter().for_each(|at| folding.add(*at));
        assert_eq!((folding.counts(), folding.level()), (&[1, 1, 0, 1][..], 0));
        folding.add(4);
        assert_eq!((folding.counts(), folding.level()), (&[2, 1, 1][..], 1));
        folding.add(63);
        assert_eq!((folding.counts(), folding.level()), (&[4, 0, 0, 1][..], 4));
        folding.add(u64::MAX);
        assert_eq!((folding.counts(), folding.level()), (&[5, 0, 0, 1][..], 62));
    }

    #[test]
    fn sums_are_as_if_counted_together() {
        let (mut a, mut b, mut both) =
            (Folding::<8>::default(), Folding::<8>::default(), Folding::<8>::default());
        for at in [0, 3, 7] {
            a.add(at);
            both.add(at);
        }
        for at in [5, 40] {
            b.add(at);
            both.add(at);
        }
        a.fold_to(b.level());
        a.merge(&b);
        assert_eq!((a.counts(), a.level()), (both.counts(), both.level()));
        let mut none = Folding::<8>::default();
        none.merge(&both);
        assert_eq!((none.counts(), none.level()), (both.counts(), both.level()));
    }
}
