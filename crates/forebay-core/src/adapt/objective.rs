//! Objectives other than speed, and their priorities (section 3.1).

use super::costs::Costs;

/// Objectives: speed and capacity as weights, reliability as a minimum.
///
/// *Capacity*: every period costs a unit the rent of the space that its layout takes. The user of a
/// rule passes it a [`Costs::tick`] for each unit now and then. A unit that is not written
/// therefore moves to a smaller layout, while one that is written earns the rent with the time it
/// saves, so cold units shrink first. *Reliability* has no weight: rules never switch to a layout
/// that is not allowed, and no unit begins in one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objective {
    /// The weight of the costs of requests.
    pub performance: u32,
    /// The weight of rents.
    pub capacity: u32,
    /// The rent of a unit per period, in nanoseconds, by layout.
    pub rents: Vec<u64>,
    /// A bit set of the layouts that are reliable enough. If the set is empty, all layouts are.
    pub floor: u8,
}

impl Default for Objective {
    /// The objective is speed alone.
    fn default() -> Objective {
        Objective { performance: 1, capacity: 0, rents: Vec::new(), floor: u8::MAX }
    }
}

impl Objective {
    /// Returns the weighted costs, to be passed to rules.
    pub fn weigh(&self, costs: Costs) -> Costs {
        let capacity = u64::from(self.capacity);
        let rents: Vec<u64> = self.rents.iter().map(|rent| rent.saturating_mul(capacity)).collect();
        costs.weighing(u64::from(self.performance), &rents).keeping(self.floor)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BonusMalus, Factor, Objective, RAID6, RAID10, Rule};
    use super::*;

    /// RAID 10 with three copies takes twice the space of RAID 6 on six disks.
    fn roomy() -> Objective {
        Objective { capacity: 1, rents: vec![1_000_000, 2_000_000], ..Objective::default() }
    }

    /// Returns after how many periods a unit in RAID 10 shrinks, with this number of small writes
    /// in each period.
    fn shrinks_after(objective: &Objective, writes: usize) -> Option<usize> {
        let costs = objective.weigh(Costs::paper_hdd());
        let mut rule = BonusMalus::new(Factor::ONE);
        let mut unit = rule.begin(&costs, RAID10, 0, 0);
        (1..=1000).find(|_| {
            (0..writes).for_each(|_| assert_eq!(rule.seen(&costs, &mut unit, 0), None));
            rule.seen(&costs, &mut unit, costs.tick()).is_some()
        })
    }

    #[test]
    fn cold_units_shrink_and_hot_ones_do_not() {
        // The score increases by 10 points per period, up to 66.
        assert_eq!(shrinks_after(&roomy(), 0), Some(7));
        assert_eq!(shrinks_after(&roomy(), 1), None);
        assert_eq!(shrinks_after(&Objective::default(), 0), None);
    }

    #[test]
    fn weights_set_priorities() {
        assert_eq!(shrinks_after(&Objective { capacity: 4, ..roomy() }, 0), Some(2));
        // A rent of 40 points per period exceeds the 27 points that a write saves, unless time
        // counts twice.
        assert_eq!(shrinks_after(&Objective { capacity: 4, ..roomy() }, 1), Some(3));
        assert_eq!(shrinks_after(&Objective { capacity: 4, performance: 2, ..roomy() }, 1), None);
    }

    #[test]
    fn units_begin_at_the_floor_and_never_go_below() {
        let floor = 1u8 << RAID6;
        let costs = Objective { floor, ..Objective::default() }.weigh(Costs::paper_hdd());
        let mut rule = BonusMalus::new(Factor::ONE);
        let mut unit = rule.begin(&costs, RAID10, 0, 0);
        assert_eq!(rule.layout(&unit), RAID6);
        assert!((0..100).all(|_| rule.seen(&costs, &mut unit, 0).is_none()));
        assert_eq!(costs.diameter(), 0);
    }

    #[test]
    fn a_floor_that_leaves_no_layout_is_ignored() {
        let costs = Objective { floor: 0, ..Objective::default() }.weigh(Costs::paper_hdd());
        assert_eq!(costs, Costs::paper_hdd());
    }
}
