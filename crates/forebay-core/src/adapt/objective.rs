//! Objectives other than speed, and their priorities (section 3.1).

use super::costs::{Costs, Layout};

/// What is wanted, as weights, and what must not be left, as a floor.
///
/// *Capacity*: every period costs a unit the rent of the space its layout takes. Whoever runs a rule shows it a
/// [`Costs::tick`] now and then for each unit. So a unit that is not written goes to a layout that takes less,
/// one that is written pays the rent with the time it saves: cold units shrink first. *Reliability* is no weight:
/// layouts that are not allowed are never gone to, and no unit begins in one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objective {
    /// The weight of the costs of requests.
    pub performance: u32,
    /// The weight of rents.
    pub capacity: u32,
    /// The rent of a unit per period in nanoseconds, by layout.
    pub rents: Vec<u64>,
    /// A bit for each layout that is reliable enough; none counts as all.
    pub floor: u8,
}

impl Default for Objective {
    /// Speed alone.
    fn default() -> Objective {
        Objective { performance: 1, capacity: 0, rents: Vec::new(), floor: u8::MAX }
    }
}

impl Objective {
    /// Returns a floor of these layouts.
    pub fn floor_of(layouts: &[Layout]) -> u8 {
        layouts.iter().filter(|&&layout| layout < 8).fold(0, |floor, layout| floor | 1 << layout)
    }

    /// Returns the costs that rules are to be given.
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

    /// RAID 10 with three copies takes twice the space of RAID 6 of six disks.
    fn roomy() -> Objective {
        Objective { capacity: 1, rents: vec![1_000_000, 2_000_000], ..Objective::default() }
    }

    /// Returns the periods after which a unit in RAID 10 shrinks that gets this many small writes
    /// in each.
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
        // 10 points a period to 66.
        assert_eq!(shrinks_after(&roomy(), 0), Some(7));
        assert_eq!(shrinks_after(&roomy(), 1), None);
        assert_eq!(shrinks_after(&Objective::default(), 0), None);
    }

    #[test]
    fn weights_set_priorities() {
        assert_eq!(shrinks_after(&Objective { capacity: 4, ..roomy() }, 0), Some(2));
        // Rent of 40 points a period is more than the 27 that a write saves, unless time counts twice.
        assert_eq!(shrinks_after(&Objective { capacity: 4, ..roomy() }, 1), Some(3));
        assert_eq!(shrinks_after(&Objective { capacity: 4, performance: 2, ..roomy() }, 1), None);
    }

    #[test]
    fn a_floor_is_not_left_and_is_where_units_begin() {
        let floor = Objective::floor_of(&[RAID6]);
        let costs = Objective { floor, ..Objective::default() }.weigh(Costs::paper_hdd());
        let mut rule = BonusMalus::new(Factor::ONE);
        let mut unit = rule.begin(&costs, RAID10, 0, 0);
        assert_eq!(rule.layout(&unit), RAID6);
        assert!((0..100).all(|_| rule.seen(&costs, &mut unit, 0).is_none()));
        assert_eq!(costs.diameter(), 0);
    }

    #[test]
    fn a_floor_that_leaves_nothing_is_none() {
        let costs = Objective { floor: 0, ..Objective::default() }.weigh(Costs::paper_hdd());
        assert_eq!(costs, Costs::paper_hdd());
        assert_eq!(Objective::floor_of(&[1, 200]), 0b10);
    }
}
