//! The least that anybody could have paid who knew all requests: dynamic programming over layouts.

use super::costs::{Class, Costs, LAYOUTS_MAX, Layout};

/// The optimum of one unit's requests so far, request by request. Takes L² steps a request and keeps L numbers.
#[derive(Clone, Copy, Debug)]
pub struct Optimum {
    /// By layout: the least that the requests so far cost for a unit that now is in it.
    least: [u64; LAYOUTS_MAX],
}

impl Optimum {
    /// A unit that begins in `first`, or in whichever layout is best.
    pub fn new(costs: &Costs, first: Option<Layout>) -> Optimum {
        let mut least = [u64::MAX; LAYOUTS_MAX];
        for layout in costs.allowed() {
            if first.is_none_or(|first| costs.nearest(first) == layout) {
                least[usize::from(layout)] = 0;
            }
        }
        Optimum { least }
    }

    /// A request: served first, then perhaps a switch.
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

    /// What the requests so far cost at least.
    pub fn cost(&self) -> u64 {
        self.least.iter().copied().min().unwrap_or(0)
    }
}

/// What these requests of one unit cost at least, whose first layout is given or free.
pub fn optimum(
    costs: &Costs,
    first: Option<Layout>,
    classes: impl IntoIterator<Item = Class>,
) -> u64 {
    let mut optimum = Optimum::new(costs, first);
    classes.into_iter().for_each(|class| optimum.seen(costs, class));
    optimum.cost()
}

/// By what share of the optimum a rule paid more: 0.05 is 5 % more, 0 where nothing was to be paid.
pub fn regret(paid: u64, optimum: u64) -> f64 {
    if optimum == 0 { 0.0 } else { (paid as f64 - optimum as f64) / optimum as f64 }
}
