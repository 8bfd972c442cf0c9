//! Compares rules with the optimum.

use super::{Class, Costs, First, LAYOUTS_MAX, Optimum, Rule};

/// The cost of a rule, and of alternatives, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trial {
    /// The number of requests.
    pub requests: u64,
    /// The cost of requests and switches under the rule.
    pub paid: u64,
    /// The number of switches under the rule.
    pub switches: u64,
    /// The optimum if each unit begins in the same layout as under the rule.
    pub optimum: u64,
    /// The optimum if each unit may begin in any layout.
    pub free_optimum: u64,
    /// The cost if all units always have this layout, by layout; the maximum value if the layout is
    /// not allowed.
    pub fixed: [u64; LAYOUTS_MAX],
}

impl Trial {
    /// Returns the cost of the best static array.
    pub fn better_static(&self) -> u64 {
        self.fixed.iter().copied().min().unwrap_or(0)
    }
}

/// Passes requests to a rule. Each request has the number of its unit (from 0, without large gaps)
/// and its class.
pub fn trial<R: Rule>(
    rule: &mut R,
    costs: &Costs,
    first: First,
    requests: impl IntoIterator<Item = (u32, Class)>,
) -> Trial {
    let mut trial = Trial { fixed: [u64::MAX; LAYOUTS_MAX], ..Trial::default() };
    costs.allowed().for_each(|layout| trial.fixed[usize::from(layout)] = 0);
    let mut units: Vec<Option<(R::Unit, Optimum, Optimum)>> = Vec::new();
    for (number, class) in requests {
        let at = number as usize;
        if units.len() <= at {
            units.resize(at + 1, None);
        }
        let (unit, optimum, free) = units[at].get_or_insert_with(|| {
            let layout = first.layout(costs, class);
            let unit = rule.begin(costs, layout, class, u64::from(number));
            (unit, Optimum::new(costs, Some(layout)), Optimum::new(costs, None))
        });
        let layout = rule.layout(unit);
        trial.requests += 1;
        trial.paid += costs.cost(layout, class);
        if let Some(to) = rule.seen(costs, unit, class) {
            trial.paid += costs.switch(layout, to);
            trial.switches += 1;
        }
        optimum.seen(costs, class);
        free.seen(costs, class);
        for layout in costs.allowed() {
            trial.fixed[usize::from(layout)] += costs.cost(layout, class);
        }
    }
    for (_, optimum, free) in units.iter().flatten() {
        trial.optimum += optimum.cost();
        trial.free_optimum += free.cost();
    }
    trial
}

#[cfg(test)]
mod tests {
    use super::super::{Mix, Never, RAID6, RAID10};
    use super::*;

    #[test]
    fn without_switches_costs_equal_a_static_array_and_exceed_the_optimum() {
        let costs = Costs::paper_hdd();
        for layout in [RAID6, RAID10] {
            let trial =
                trial(&mut Never, &costs, First::Fixed(layout), Mix::c(40, 60, 8, 1).draws());
            assert_eq!((trial.requests, trial.switches), (2400, 0));
            assert_eq!(trial.paid, trial.fixed[usize::from(layout)]);
            assert!(trial.free_optimum <= trial.optimum && trial.optimum <= trial.paid);
            assert_eq!(trial.better_static(), trial.fixed[usize::from(RAID10)]);
        }
    }

    #[test]
    fn a_first_layout_by_the_first_write_suits_it() {
        let costs = Costs::paper_hdd();
        let trial = trial(&mut Never, &costs, First::ByFirstWrite, [(0, 0), (5, 3)]);
        assert_eq!(trial.paid, 2_900_000 + 5_400_000);
        assert_eq!(trial.paid, trial.free_optimum);
    }
}
