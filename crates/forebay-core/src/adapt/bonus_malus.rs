//! The paper's rule (sections 3.1 and 4.1): a score that increases when another layout would have
//! been better.

use super::{Class, Costs, LAYOUTS_MAX, Layout, Rule};

/// A factor for thresholds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Factor {
    /// The numerator.
    pub times: u32,
    /// The denominator; 0 counts as 1.
    pub over: u32,
}

impl Factor {
    /// Leaves thresholds unchanged.
    pub const ONE: Factor = Factor { times: 1, over: 1 };

    /// Returns by how much a score exceeds its threshold, multiplied by the factor's denominator so
    /// that nothing is rounded. `None` if the score is below the threshold.
    #[inline]
    fn beyond(self, score: u32, threshold: u64) -> Option<u64> {
        let threshold = threshold.saturating_mul(u64::from(self.times));
        (u64::from(score) * u64::from(self.over.max(1))).checked_sub(threshold)
    }
}

/// If a request would have cost less in another layout, that layout's score increases by the
/// difference (malus); if it would have cost more, the score decreases (bonus), but not below 0.
/// When a score reaches the threshold of the switch, the unit switches after the request and all
/// scores restart.
///
/// With more than two layouts, each other layout has its own score. If several reach their
/// thresholds, the one that exceeds its threshold by most wins; the first one in case of a tie.
#[derive(Clone, Copy, Debug)]
pub struct BonusMalus {
    factor: Factor,
}

impl BonusMalus {
    /// Creates a rule whose thresholds are multiplied by `factor`.
    pub fn new(factor: Factor) -> BonusMalus {
        BonusMalus { factor }
    }
}

/// The layout of a unit and the scores of the other layouts.
#[derive(Clone, Copy, Debug)]
pub struct Scored {
    scores: [u32; LAYOUTS_MAX - 1],
    layout: Layout,
}

impl Rule for BonusMalus {
    type Unit = Scored;

    fn begin(&mut self, costs: &Costs, first: Layout, _: Class, _: u64) -> Scored {
        Scored { scores: [0; LAYOUTS_MAX - 1], layout: costs.nearest(first) }
    }

    fn seen(&mut self, costs: &Costs, unit: &mut Scored, class: Class) -> Option<Layout> {
        let layout = costs.nearest(unit.layout);
        let to = step(
            costs,
            self.factor,
            &mut unit.scores[..costs.layouts() - 1],
            layout,
            costs.row(class),
        )?;
        unit.layout = to;
        Some(to)
    }

    fn layout(&self, unit: &Scored) -> Layout {
        unit.layout
    }
}

/// Updates the scores of all layouts except `layout`, in order, for a request that costs `row` by
/// layout. Returns the layout to switch to, if any.
#[inline]
pub(super) fn step(
    costs: &Costs,
    factor: Factor,
    scores: &mut [u32],
    layout: Layout,
    row: &[u64],
) -> Option<Layout> {
    let here = row[usize::from(layout)];
    let mut winner: Option<(u64, Layout)> = None;
    for (slot, score) in scores.iter_mut().enumerate() {
        let other = (slot + usize::from(slot >= usize::from(layout))) as Layout;
        let there = row[usize::from(other)];
        // Costs are at most 2^60, so nothing overflows.
        let changed = i64::from(*score) + here as i64 - there as i64;
        *score = changed.clamp(0, i64::from(u32::MAX)) as u32;
        // A score of 0 never causes a switch, regardless of the threshold.
        if *score == 0 || !costs.allows(other) {
            continue;
        }
        let beyond = factor.beyond(*score, costs.threshold(layout, other));
        if let Some(beyond) = beyond
            && winner.is_none_or(|(most, _)| beyond > most)
        {
            winner = Some((beyond, other));
        }
    }
    let (_, to) = winner?;
    scores.fill(0);
    Some(to)
}

#[cfg(test)]
mod tests {
    use super::super::costs::{RAID6, RAID10};
    use super::*;

    /// Returns at which write a unit switches that is written repeatedly with these numbers of
    /// chunks; `None` if it does not within 99 writes.
    fn switches(costs: &Costs, first: Layout, factor: Factor, chunks: &[u8]) -> Option<usize> {
        let mut rule = BonusMalus::new(factor);
        let mut unit = rule.begin(costs, first, 0, 0);
        let mut writes = chunks.iter().cycle().map(|&chunks| chunks - 1).take(99);
        writes.position(|class| rule.seen(costs, &mut unit, class).is_some()).map(|at| at + 1)
    }

    #[test]
    fn table_1_by_hand() {
        let hdd = Costs::paper_hdd();
        let half = Factor { times: 1, over: 2 };
        let twice = Factor { times: 2, over: 1 };
        // The scores are 27, 54, 81 and 108.
        assert_eq!(switches(&hdd, RAID6, Factor::ONE, &[1]), Some(4));
        // 54 reaches the halved threshold of 50.
        assert_eq!(switches(&hdd, RAID6, half, &[1]), Some(2));
        assert_eq!(switches(&hdd, RAID6, twice, &[1]), Some(8));
        // Each write adds 2 to the score; the 50th reaches exactly 100.
        assert_eq!(switches(&hdd, RAID6, Factor::ONE, &[2]), Some(50));
        // Each write adds 16, up to 66; then each adds 40, up to 80.
        assert_eq!(switches(&hdd, RAID10, Factor::ONE, &[3]), Some(5));
        assert_eq!(switches(&hdd, RAID10, Factor::ONE, &[4]), Some(2));
        // The score rises by 27 and falls by 16 in turn, so each pair of writes adds 11. The 15th
        // write makes 27 + 7 · 11 = 104.
        assert_eq!(switches(&hdd, RAID6, Factor::ONE, &[1, 3]), Some(15));
        // The score rises by 27 and falls by 40 in turn, so it never exceeds 27.
        assert_eq!(switches(&hdd, RAID6, Factor::ONE, &[1, 4]), None);
        let ssd = Costs::paper_ssd();
        assert_eq!(switches(&ssd, RAID6, Factor::ONE, &[1]), Some(3));
        assert_eq!(switches(&ssd, RAID10, Factor::ONE, &[4]), Some(2));
        // Half of 55 is 27.5 points, not 27. Each write adds 8, so the fourth reaches it.
        assert_eq!(switches(&ssd, RAID6, half, &[2]), Some(4));
    }

    #[test]
    fn of_three_layouts_the_furthest_beyond_its_threshold_wins() {
        let flat = |by: u64| vec![vec![by; 3]; 3];
        let costs = Costs::new(&[vec![9], vec![5], vec![4]], &[], &flat(10), &flat(10)).unwrap();
        let mut rule = BonusMalus::new(Factor::ONE);
        let mut unit = rule.begin(&costs, 0, 0, 0);
        assert_eq!(rule.seen(&costs, &mut unit, 0), None);
        assert_eq!(unit.scores[..2], [4, 5]);
        assert_eq!(rule.seen(&costs, &mut unit, 0), Some(2));
        assert_eq!((unit.scores[..2].to_vec(), rule.layout(&unit)), (vec![0, 0], 2));
    }

    #[test]
    fn the_state_of_a_unit_is_small() {
        assert!(size_of::<Scored>() <= 32);
    }
}
