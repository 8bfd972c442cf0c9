//! The minimum possible cost with knowledge of all requests, by dynamic programming over layouts.

use super::costs::{Class, Costs, LAYOUTS_MAX, Layout};

/// The optimum for one unit, updated request by request. For L layouts, each request takes L²
/// steps, and the state has L numbers.
#[derive(Clone, Copy, Debug)]
pub struct Optimum {
    /// The minimum cost of the requests so far, for a unit that is now in each layout.
    least: [u64; LAYOUTS_MAX],
}

impl Optimum {
    /// Creates the optimum of a unit that begins in `first`, or in the best layout if that is
    /// `None`.
    pub fn new(costs: &Costs, first: Option<Layout>) -> Optimum {
        let mut least = [u64::MAX; LAYOUTS_MAX];
        for layout in costs.allowed() {
            if first.is_none_or(|first| costs.nearest(first) == layout) {
                least[usize::from(layout)] = 0;
            }
        }
        Optimum { least }
    }

    /// Adds a request, which is served first and may be followed by a switch.
    #[inline]
    pub fn seen(&mut self, costs: &Costs, class: Class) {
        let row = costs.row(class);
        let served: [u64; LAYOUTS_MAX] = std::array::from_fn(|at| {
            self.least[at].saturating_add(row.get(at).map_or(0, |&cost| cost))
        });
        for to in costs.allowed() {
            let ways = costs.allowed().map(|from| {
                let way = if from == to { 0 } else { costs.switch(from, to) };
                served[usize::from(from)].saturating_add(way)
            });
            self.least[usize::from(to)] = ways.min().unwrap_or(u64::MAX);
        }
    }

    /// Returns the minimum cost of the requests so far.
    pub fn cost(&self) -> u64 {
        self.least.iter().copied().min().unwrap_or(0)
    }
}

/// Returns the minimum cost of these requests for one unit, whose first layout may be given.
pub fn optimum(
    costs: &Costs,
    first: Option<Layout>,
    classes: impl IntoIterator<Item = Class>,
) -> u64 {
    let mut optimum = Optimum::new(costs, first);
    classes.into_iter().for_each(|class| optimum.seen(costs, class));
    optimum.cost()
}

/// Returns by what share a rule paid more than the optimum: 0.05 means 5 % more. 0 if there were no
/// costs.
pub fn regret(paid: u64, optimum: u64) -> f64 {
    if optimum == 0 { 0.0 } else { (paid as f64 - optimum as f64) / optimum as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::next;

    fn three_layouts() -> Costs {
        let writes = [vec![9, 2, 5], vec![1, 8, 5], vec![4, 6, 0]];
        let switch = [vec![0, 7, 3], vec![5, 0, 20], vec![9, 2, 0]];
        Costs::new(&writes, &[], &switch, &switch).unwrap()
    }

    /// Returns the minimum cost over all sequences of layouts, one layout per request.
    fn by_trying_all(costs: &Costs, first: Option<Layout>, classes: &[Class]) -> u64 {
        let layouts = costs.layouts() as u64;
        let sequences = 0..layouts.pow(classes.len() as u32);
        let paid = |mut sequence: u64| {
            let mut at = None;
            let mut paid = 0;
            for &class in classes {
                let to = (sequence % layouts) as Layout;
                sequence /= layouts;
                paid += at.filter(|&at| at != to).map_or(0, |at| costs.switch(at, to));
                paid += costs.cost(to, class);
                at = Some(to);
            }
            paid
        };
        let begins =
            |&sequence: &u64| first.is_none_or(|first| sequence % layouts == u64::from(first));
        sequences.filter(begins).map(paid).min().unwrap()
    }

    #[test]
    fn no_schedule_is_cheaper_than_the_optimum_and_one_reaches_it() {
        let mut dice = 11;
        for (costs, most) in
            [(Costs::paper_hdd(), 10), (Costs::paper_ssd(), 10), (three_layouts(), 6)]
        {
            for length in 1..=most {
                for first in [None, Some(0), Some(1)] {
                    let classes: Vec<Class> =
                        (0..length).map(|_| (next(&mut dice) % 4) as Class).collect();
                    assert_eq!(
                        optimum(&costs, first, classes.iter().copied()),
                        by_trying_all(&costs, first, &classes)
                    );
                }
            }
        }
    }

    #[test]
    fn no_requests_cost_nothing_and_regret_is_a_share() {
        assert_eq!(optimum(&Costs::paper_hdd(), None, []), 0);
        assert_eq!(regret(105, 100), 0.05);
        assert_eq!(regret(5, 0), 0.0);
    }
}
