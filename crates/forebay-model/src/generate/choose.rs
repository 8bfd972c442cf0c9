//! Chooses the class and the range of the next request.
//!
//! All weights are products of a remaining budget and of lifts. The lift of a combination is how
//! much more often than by chance it was observed.

use std::ops::Range;

use super::{Mechanism, Mechanisms};
use crate::Model;
use crate::chain::{Chain, Epoch, GAPS};
use crate::class::Class;
use crate::counts::Counts;
use crate::dice::RandomSource;
use crate::space::Transitions;

/// A constant added to observed and expected counts, so that combinations without observations
/// remain possible.
const SMOOTH: f64 = 0.02;
/// The maximum share of an epoch's budget of each class that is borrowed from the next epoch. Near
/// the end it is lower: the number of epochs left, divided by [`FADING_EPOCHS`].
const SLACK: f32 = 0.5;
const FADING_EPOCHS: f32 = 16.0;

/// Returns how much more often than by chance something was observed.
fn lift(count: f64, expected: f64) -> f32 {
    ((count + SMOOTH) / (expected + SMOOTH)) as f32
}

/// The state of choosing.
pub(super) struct Chooser {
    on: Mechanisms,
    requests: u64,
    classes: Vec<Class>,
    /// The index of the first class of writes.
    writes: usize,
    ranges: usize,
    chain: Chain,
    /// The number of epochs entered, and the first request of the next epoch.
    entered: usize,
    next_epoch: u64,
    /// The remaining budget of each class. That of each range is in `left_ranges`, and its full
    /// budget in `of_range`.
    left: Vec<f32>,
    /// The part of `left` that is borrowed from the next epoch.
    lent: Vec<f32>,
    left_ranges: Vec<f32>,
    of_range: Vec<f32>,
    /// The number of requests of each class that remain in the whole cycle.
    unspent: Vec<f32>,
    /// The lift of each class, for each previous class.
    follows: Vec<f32>,
    /// The lift of each class, for each class of gap (or of pace).
    after: Vec<f32>,
    before: Vec<f32>,
    paces: Vec<f32>,
    /// For each range, the ranges that each transition from it leads to.
    moves_from: Vec<Vec<(Range<usize>, usize)>>,
    transitions: usize,
    /// For each class and transition, the lift of the transition times its lift within the class.
    moves: Vec<f32>,
    /// For each class and range, the number of requests that remain, and the reciprocal of the
    /// lift.
    left_of: Vec<f32>,
    unlikely: Vec<f32>,
    /// For each range, the number of requests of all classes that remain.
    left_in: Vec<f32>,
    weights: Vec<f32>,
    last: Option<(usize, usize)>,
}

/// Transposes rows that are ordered by row and class to be ordered by class and row.
fn turn(rows: &[f32], count: usize, classes: usize) -> Vec<f32> {
    (0..classes).flat_map(|class| (0..count).map(move |row| rows[row * classes + class])).collect()
}

/// Returns the ranges that each transition leads to, from a list of the transition to each range.
fn leads(to: &[u32]) -> Vec<(Range<usize>, usize)> {
    let mut begin = 0;
    let alike = to.chunk_by(|one, other| one == other).map(|alike| {
        let ranges = begin..begin + alike.len();
        begin = ranges.end;
        (ranges, alike[0] as usize)
    });
    alike.collect()
}

/// Adds up the counts of all epochs, each in a list of `length`.
fn total(chain: &Chain, length: usize, of: impl Fn(&Epoch) -> &Counts) -> Vec<f64> {
    let mut sums = vec![0.0; length];
    for &(at, count) in chain.epochs.iter().flat_map(|epoch| &of(epoch).0) {
        sums[at as usize] += f64::from(count);
    }
    sums
}

fn sums(rows: &[Counts]) -> Vec<f64> {
    rows.iter().map(|row| row.sum() as f64).collect()
}

/// How often each class was observed, and the number of requests.
struct Observed {
    counts: Vec<f64>,
    all: f64,
}

impl Observed {
    /// Returns the lifts of the combinations of a row and a class, given the frequency of each row;
    /// 1 for each combination if they are off.
    fn lifts(&self, rows: &[Counts], came: &[f64], is_on: bool) -> Vec<f32> {
        let mut lifts = Vec::new();
        for (row, came) in rows.iter().zip(came) {
            let mut dense = vec![0.0; self.counts.len()];
            row.0.iter().for_each(|&(at, count)| dense[at as usize] = f64::from(count));
            let of = |(count, all): (f64, &f64)| match is_on {
                true => lift(count, came * all / self.all),
                false => 1.0,
            };
            lifts.extend(dense.into_iter().zip(&self.counts).map(of));
        }
        lifts
    }

    /// Returns for each class and transition the lift of the transition times its lift within the
    /// class. `in_range` has the number of requests in each range.
    fn moves(
        &self,
        chain: &Chain,
        transitions: &Transitions,
        in_range: &[f64],
        is_on: bool,
    ) -> Vec<f32> {
        let mut expected = vec![0.0; transitions.count()];
        for (from, count) in in_range.iter().enumerate() {
            for (to, &transition) in transitions.from(from).iter().enumerate() {
                expected[transition as usize] += count * in_range[to] / self.all;
            }
        }
        let moved = sums(&chain.moves);
        let by_row = self.lifts(&chain.moves, &moved, is_on);
        let mut moves = turn(&by_row, transitions.count(), self.counts.len());
        if is_on {
            for row in moves.chunks_mut(moved.len().max(1)) {
                for ((by_class, made), by_chance) in row.iter_mut().zip(&moved).zip(&expected) {
                    *by_class *= lift(*made, *by_chance);
                }
            }
        }
        moves
    }
}

impl Chooser {
    pub(super) fn new(model: &Model, on: Mechanisms) -> Chooser {
        let (chain, classes) = (&model.chain, model.classes.len());
        let ranges = model.volumes.ranges();
        let transitions = Transitions::new(&model.volumes);
        let counts = total(chain, classes, |epoch| &epoch.classes);
        let in_range = total(chain, ranges, |epoch| &epoch.ranges);
        let unspent = counts.iter().map(|&count| count as f32).collect();
        let observed = Observed { counts, all: model.requests as f64 };
        let (has_moves, has_gaps) = (on.has(Mechanism::Transitions), on.has(Mechanism::Gaps));
        let has_classes = has_moves && on.has(Mechanism::RangeClasses);
        let lifts = |rows: &[Counts], is_on| observed.lifts(rows, &sums(rows), is_on);
        let by_range = turn(&lifts(&chain.ranges, has_classes), ranges, classes);
        let mut left_of = vec![0.0; classes * ranges];
        for (range, row) in chain.ranges.iter().enumerate() {
            for &(class, count) in &row.0 {
                left_of[class as usize * ranges + range] = count as f32;
            }
        }
        Chooser {
            on,
            requests: model.requests,
            writes: model.classes.partition_point(|class| !class.is_write()),
            classes: model.classes.clone(),
            ranges,
            entered: 0,
            next_epoch: 0,
            left: vec![0.0; classes],
            lent: vec![0.0; classes],
            left_ranges: vec![0.0; ranges],
            of_range: vec![0.0; ranges],
            unspent,
            follows: observed.lifts(&chain.follows, &observed.counts, on.has(Mechanism::Follows)),
            after: lifts(&chain.after, has_gaps),
            before: lifts(&chain.before, has_gaps),
            paces: lifts(&chain.paces, has_gaps),
            moves: observed.moves(chain, &transitions, &in_range, has_moves),
            unlikely: by_range.iter().map(|lift| 1.0 / lift.max(0.02)).collect(),
            left_of,
            left_in: in_range.iter().map(|&count| count as f32).collect(),
            weights: vec![0.0; classes.max(ranges)],
            last: None,
            moves_from: (0..ranges).map(|from| leads(transitions.from(from))).collect(),
            transitions: transitions.count(),
            chain: chain.clone(),
        }
    }

    /// Returns the range of the latest request.
    pub(super) fn last_range(&self) -> usize {
        self.last.map_or(0, |last| last.1)
    }

    /// Adds the budgets of all epochs up to the epoch of request `number`, each once.
    #[inline]
    fn enter(&mut self, number: u64) {
        while number >= self.next_epoch {
            self.enter_next();
        }
    }

    fn enter_next(&mut self) {
        let Some(epoch) = self.chain.epochs.get(self.entered) else {
            self.next_epoch = u64::MAX;
            return;
        };
        self.entered += 1;
        let epochs = self.chain.epochs.len() as u64;
        self.next_epoch = self.chain.parts.begin(self.entered, self.requests);
        // The rest of the budget moves to the next epoch, less what was borrowed. Without
        // borrowing, the next epoch would lack what a burst has used up, and unused budget would be
        // spent at unsuitable times.
        let slack = ((epochs - self.entered as u64) as f32 / FADING_EPOCHS).min(SLACK);
        for (left, lent) in self.left.iter_mut().zip(&mut self.lent) {
            *left -= std::mem::take(lent);
        }
        self.of_range.fill(0.0);
        for &(class, count) in &epoch.classes.0 {
            self.lent[class as usize] = slack * count as f32;
            self.left[class as usize] += (1.0 + slack) * count as f32;
        }
        for &(range, count) in &epoch.ranges.0 {
            self.left_ranges[range as usize] += count as f32;
            self.of_range[range as usize] = count as f32;
        }
    }

    /// Returns the class of request `number`.
    #[inline]
    pub(super) fn class(
        &mut self,
        number: u64,
        is_write: bool,
        (after, before, pace): (usize, usize, usize),
        dice: &mut RandomSource,
    ) -> usize {
        self.enter(number);
        let (first, end) =
            if is_write { (self.writes, self.classes.len()) } else { (0, self.writes) };
        if first == end {
            // The model has no class for this operation. This never happens with fitted models.
            return self.likely(0..self.classes.len(), dice);
        }
        let (after, before) = (after.min(GAPS - 1), before.min(GAPS - 1));
        let classes = self.classes.len();
        let after = &self.after[after * classes..][first..end];
        let before = &self.before[before * classes..][first..end];
        let paces = &self.paces[pace * classes..][first..end];
        let left = &self.left[first..end];
        let weights = &mut self.weights[first..end];
        if let Some((last, _)) = self.last {
            let follows = &self.follows[last * classes..][first..end];
            let lifts = follows.iter().zip(after).zip(before.iter().zip(paces));
            for ((weight, left), ((follows, after), (before, pace))) in
                weights.iter_mut().zip(left).zip(lifts)
            {
                *weight = left.max(0.0) * (follows * after) * (before * pace);
            }
        } else {
            weights.copy_from_slice(left);
        }
        match dice.weighted(&self.weights[first..end]) {
            Some(found) => first + found,
            None => self.likely(first..end, dice),
        }
    }

    /// Draws a class according to the requests that remain in the whole cycle, if no budget is
    /// left.
    fn likely(&self, classes: Range<usize>, dice: &mut RandomSource) -> usize {
        classes.start + dice.weighted(&self.unspent[classes.clone()]).unwrap_or(0)
    }

    /// Returns the range of a request of class `class`.
    #[inline]
    pub(super) fn range(&mut self, class: usize, dice: &mut RandomSource) -> usize {
        if self.classes[class].kind.continues()
            && let Some((_, range)) = self.last
        {
            return range;
        }
        let ranges = self.ranges;
        let left_of = &self.left_of[class * ranges..][..ranges];
        let unlikely = &self.unlikely[class * ranges..][..ranges];
        let weights = &mut self.weights[..ranges];
        let budgets = weights.iter_mut().zip(&self.left_ranges[..ranges]).zip(unlikely);
        budgets.for_each(|((weight, left), unlikely)| *weight = left.max(0.0) * unlikely);
        if self.on.has(Mechanism::RangeClasses) {
            let tiny = 1e-4 / self.requests as f32;
            for (weight, (left_of, left_in)) in
                weights.iter_mut().zip(left_of.iter().zip(&self.left_in))
            {
                let share = if *left_of > 0.0 { left_of / left_in } else { tiny };
                *weight *= if *left_in > 0.0 { share } else { 0.0 };
            }
        }
        if let Some((_, last)) = self.last {
            let moves = &self.moves[class * self.transitions..][..self.transitions];
            for (ranges, transition) in &self.moves_from[last] {
                let lift = moves[*transition];
                weights[ranges.clone()].iter_mut().for_each(|weight| *weight *= lift);
            }
        }
        dice.weighted(&self.weights[..ranges])
            .or_else(|| dice.weighted(&self.left_of[class * ranges..][..ranges]))
            .or_else(|| dice.weighted(&self.of_range))
            .unwrap_or(0)
    }

    /// Records that a request of class `class` was placed in range `range`.
    #[inline]
    pub(super) fn done(&mut self, class: usize, range: usize) {
        self.left[class] -= 1.0;
        self.unspent[class] -= 1.0;
        if self.unspent[class] <= 0.0 {
            (self.unspent[class], self.left[class]) = (0.0, f32::NEG_INFINITY);
        }
        self.left_ranges[range] -= 1.0;
        let left_of = &mut self.left_of[class * self.ranges + range];
        *left_of = (*left_of - 1.0).max(0.0);
        self.left_in[range] -= 1.0;
        self.last = Some((class, range));
    }
}
