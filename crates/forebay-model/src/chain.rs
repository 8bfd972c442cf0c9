//! The sequence of states: a Markov chain over classes and ranges.
//!
//! The next class is drawn from the remaining budget of the epoch. The weights are the lifts (how
//! much more often than by chance) with which a class follows the last class, comes after the
//! preceding gap and before the following one. Then its range is drawn from the remaining budget of
//! ranges. These weights are the lifts of the transition, and of the transition among those of the
//! class (the paper's features of transitions), and what remains of the class in each range.

use std::collections::VecDeque;

use crate::bytes::{ByteError, Bytes, Writer};
use crate::counts::Counts;
use crate::parts::Parts;

/// The number of epochs: parts of the trace with separate budgets.
pub(crate) const EPOCHS: u64 = 32;
/// The minimum number of requests in an epoch.
const EPOCH_MIN: u64 = 200;
const EPOCHS_READ_MAX: usize = 4096;
/// The number of classes of gaps.
pub(crate) const GAPS: usize = 16;

/// Returns the class of a gap: 0 below 1 us, then one class per power of four.
#[inline]
pub(crate) fn gap_class(gap_ns: u64) -> usize {
    match gap_ns / 1000 {
        0 => 0,
        us => (1 + us.ilog2() as usize / 2).min(GAPS - 1),
    }
}

/// The number of requests before a request, and after it, whose gaps determine its pace.
pub(crate) const AROUND: usize = 4;
/// The number of classes of pace.
pub(crate) const PACES: usize = 32;

/// Returns the class of the mean gap, given the number of gaps and their sum: 0 below 1/8 us, then
/// one class per power of two.
#[inline]
pub(crate) fn pace_class(took_ns: u64, gaps: usize) -> usize {
    match took_ns / 125 / (gaps.max(1) as u64) {
        0 => 0,
        eighths => (1 + eighths.ilog2() as usize).min(PACES - 1),
    }
}

/// The budgets of an epoch: how often each class and each range occurs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Epoch {
    pub(crate) classes: Counts,
    pub(crate) ranges: Counts,
}

/// The model of the sequence of states.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chain {
    /// How the requests are divided into epochs.
    pub(crate) parts: Parts,
    pub(crate) epochs: Vec<Epoch>,
    /// For each class, the classes that follow it.
    pub(crate) follows: Vec<Counts>,
    /// For each class of gap, the classes of requests after it, and the classes of requests before
    /// it.
    pub(crate) after: Vec<Counts>,
    pub(crate) before: Vec<Counts>,
    /// For each class of pace, the classes that occur at that pace.
    pub(crate) paces: Vec<Counts>,
    /// For each transition, the classes of requests that make it.
    pub(crate) moves: Vec<Counts>,
    /// For each range, the classes in it.
    pub(crate) ranges: Vec<Counts>,
}

/// Returns the number of epochs for a number of requests.
pub(crate) fn epochs(requests: u64, wanted: u64) -> u64 {
    wanted.min(requests / EPOCH_MIN).clamp(1, EPOCHS_READ_MAX as u64)
}

/// Counts by row and column.
struct Grid {
    columns: usize,
    counts: Vec<u32>,
}

impl Grid {
    fn new(rows: usize, columns: usize) -> Grid {
        Grid { columns, counts: vec![0; rows * columns] }
    }

    #[inline]
    fn add(&mut self, row: usize, column: usize) {
        self.counts[row * self.columns + column] += 1;
    }

    /// Returns the counts of the given columns in a row.
    fn row(&self, row: usize, columns: &[usize]) -> Counts {
        let row = &self.counts[row * self.columns..][..self.columns];
        Counts::of(&columns.iter().map(|&column| row[column]).collect::<Vec<u32>>())
    }
}

/// A request in the form that the chain uses.
#[derive(Clone, Copy)]
pub(crate) struct State {
    pub(crate) code: usize,
    pub(crate) range: usize,
    pub(crate) at_ns: u64,
}

/// Collects the counts of a chain.
pub(crate) struct ChainFit {
    classes: Grid,
    epoch_ranges: Grid,
    follows: Grid,
    after: Grid,
    before: Grid,
    paces: Grid,
    /// The latest requests, from which the pace is determined.
    recent: VecDeque<(usize, u64)>,
    moves: Grid,
    ranges: Grid,
    last: Option<State>,
}

impl ChainFit {
    pub(crate) fn new(codes: usize, epochs: usize, ranges: usize, transitions: usize) -> ChainFit {
        ChainFit {
            classes: Grid::new(epochs, codes),
            epoch_ranges: Grid::new(epochs, ranges),
            follows: Grid::new(codes, codes),
            after: Grid::new(GAPS, codes),
            before: Grid::new(GAPS, codes),
            paces: Grid::new(PACES, codes),
            recent: VecDeque::new(),
            moves: Grid::new(transitions, codes),
            ranges: Grid::new(ranges, codes),
            last: None,
        }
    }

    /// Adds the next request. `transition` returns the transition from one range to another.
    #[inline]
    pub(crate) fn add(
        &mut self,
        state: State,
        epoch: usize,
        transition: impl Fn(usize, usize) -> usize,
    ) {
        self.classes.add(epoch, state.code);
        self.epoch_ranges.add(epoch, state.range);
        self.ranges.add(state.range, state.code);
        if let Some(last) = self.last {
            self.follows.add(last.code, state.code);
            self.moves.add(transition(last.range, state.range), state.code);
            let gap = gap_class(state.at_ns - last.at_ns);
            self.after.add(gap, state.code);
            self.before.add(gap, last.code);
        }
        self.last = Some(state);
        self.recent.push_back((state.code, state.at_ns));
        if self.recent.len() > 2 * AROUND {
            let (first, amid) = (self.recent[0], self.recent[AROUND]);
            self.paces.add(pace_class(state.at_ns - first.1, 2 * AROUND), amid.0);
            self.recent.pop_front();
        }
    }

    /// Returns the latest request.
    pub(crate) fn last(&self) -> Option<State> {
        self.last
    }

    /// Returns the codes of the classes that occurred.
    pub(crate) fn codes(&self) -> Vec<usize> {
        let rows = self.classes.counts.chunks(self.classes.columns);
        let mut sums = vec![0u64; self.classes.columns];
        for row in rows {
            sums.iter_mut().zip(row).for_each(|(sum, &count)| *sum += u64::from(count));
        }
        (0..sums.len()).filter(|&code| sums[code] > 0).collect()
    }

    pub(crate) fn finish(self, codes: &[usize]) -> Chain {
        let all = |grid: &Grid| -> Vec<Counts> {
            (0..grid.counts.len() / grid.columns).map(|row| grid.row(row, codes)).collect()
        };
        let ranges = self.epoch_ranges.counts.chunks(self.epoch_ranges.columns).map(Counts::of);
        let epochs = all(&self.classes).into_iter().zip(ranges);
        Chain {
            parts: Parts::new(epochs.len() as u64),
            epochs: epochs.map(|(classes, ranges)| Epoch { classes, ranges }).collect(),
            follows: codes.iter().map(|&code| self.follows.row(code, codes)).collect(),
            after: all(&self.after),
            before: all(&self.before),
            paces: all(&self.paces),
            moves: all(&self.moves),
            ranges: all(&self.ranges),
        }
    }
}

impl Chain {
    /// Returns the chain with its epochs merged in pairs.
    pub(crate) fn coarser(&self) -> Chain {
        let join = |two: &[Epoch]| {
            two.iter().fold(Epoch::default(), |sum, epoch| Epoch {
                classes: sum.classes.with(&epoch.classes),
                ranges: sum.ranges.with(&epoch.ranges),
            })
        };
        let epochs = self.epochs.chunks(2).map(join).collect();
        Chain { parts: self.parts.joined(), epochs, ..self.clone() }
    }

    /// Returns the chain without entries that occurred at most `least` times.
    pub(crate) fn rounder(&self, least: u32) -> Chain {
        let common = |lists: &[Counts]| -> Vec<Counts> {
            let keep = |counts: &Counts| {
                Counts(counts.0.iter().copied().filter(|entry| entry.1 > least).collect())
            };
            lists.iter().map(keep).collect()
        };
        let (follows, moves) = (common(&self.follows), common(&self.moves));
        let (after, before) = (common(&self.after), common(&self.before));
        Chain { follows, moves, after, before, paces: common(&self.paces), ..self.clone() }
    }

    pub(crate) fn put(&self, writer: &mut Writer) {
        self.parts.put(writer);
        for epoch in &self.epochs {
            epoch.classes.put(writer);
            epoch.ranges.put(writer);
        }
        let lists =
            [&self.follows, &self.after, &self.before, &self.paces, &self.moves, &self.ranges];
        lists.into_iter().flatten().for_each(|counts| counts.put(writer));
    }

    /// Reads a chain with these numbers of classes, ranges and transitions.
    pub(crate) fn get(
        bytes: &mut Bytes,
        classes: usize,
        ranges: usize,
        transitions: usize,
    ) -> Result<Chain, ByteError> {
        let (last_class, last_range) = (classes as u32 - 1, ranges as u32 - 1);
        let parts = Parts::get(bytes, EPOCHS_READ_MAX, "epochs")?;
        let epochs = bytes.list(parts.count() as usize, |bytes| {
            let classes = Counts::get(bytes, last_class, "class")?;
            Ok(Epoch { classes, ranges: Counts::get(bytes, last_range, "range")? })
        })?;
        let mut lists =
            |length: usize| bytes.list(length, |bytes| Counts::get(bytes, last_class, "class"));
        Ok(Chain {
            parts,
            epochs,
            follows: lists(classes)?,
            after: lists(GAPS)?,
            before: lists(GAPS)?,
            paces: lists(PACES)?,
            moves: lists(transitions)?,
            ranges: lists(ranges)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_have_classes() {
        assert_eq!(
            [0, 999, 1000, 3999, 4000, 16_000, u64::MAX].map(gap_class),
            [0, 0, 1, 1, 2, 3, 15]
        );
    }

    #[test]
    fn joined_epochs_have_the_sum_of_both() {
        let counts = |numbers: &[(u32, u32)]| Counts(numbers.to_vec());
        let epoch =
            |n: u32| Epoch { classes: counts(&[(n, 3)]), ranges: counts(&[(0, 1), (n + 1, 2)]) };
        let chain = Chain {
            parts: Parts::new(3),
            epochs: vec![epoch(0), epoch(1), epoch(2)],
            ..Chain::default()
        };
        let coarser = chain.coarser();
        let both =
            Epoch { classes: counts(&[(0, 3), (1, 3)]), ranges: counts(&[(0, 2), (1, 2), (2, 2)]) };
        assert_eq!(coarser.epochs, [both, epoch(2)]);
        assert_eq!([0, 1, 2].map(|epoch| coarser.parts.begin(epoch, 300)), [0, 200, 300]);
    }
}
