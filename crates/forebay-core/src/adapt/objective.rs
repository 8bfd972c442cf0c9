//! Objectives beside speed, and priorities between them (section 3.1).

use super::costs::{Costs, Layout};

/// What is wanted, as weights, and what must not be left, as a floor.
///
/// *Capacity*: every period costs a unit the rent of the space its layout takes. Whoever runs a rule shows it a
/// [`Costs::tick`] now and then for each unit. So a unit that is not written goes to a layout that takes less,
/// one that is written pays the rent with the time it saves: cold units shrink first. *Reliability* is no weight:
/// layouts that are not allowed are never gone to, and no unit begins in one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objective {
    /// Costs of requests count so many times.
    pub performance: u32,
    /// Rents count so many times.
    pub capacity: u32,
    /// By layout, the rent of a unit for a period, in nanoseconds.
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
    /// A floor of these layouts.
    pub fn floor_of(layouts: &[Layout]) -> u8 {
        layouts.iter().filter(|&&layout| layout < 8).fold(0, |floor, layout| floor | 1 << layout)
    }

    /// The costs that rules are to be given.
    pub fn weigh(&self, costs: Costs) -> Costs {
        let capacity = u64::from(self.capacity);
        let rents: Vec<u64> = self.rents.iter().map(|rent| rent.saturating_mul(capacity)).collect();
        costs.weighing(u64::from(self.performance), &rents).keeping(self.floor)
    }
}
