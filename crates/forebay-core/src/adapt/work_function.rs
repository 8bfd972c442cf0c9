//! The work function rule of metrical task systems.
//!
//! A unit is a task system: layouts are its states, switches its distances, and requests its tasks.
//! The work function gives the minimum cost of serving all requests so far and ending in a layout.
//! The rule switches to the layout with the minimum of work function plus switch. It costs at most
//! 2L - 1 times the optimum plus a constant, which is the best guarantee of any deterministic rule
//! (Borodin, Linial and Saks, *An optimal on-line algorithm for metrical task systems*, J. ACM 39,
//! 1992). The guarantee requires symmetric distances, so half of the way there and back is used for
//! either direction ([`Costs::half_ways`]). In their model, a switch may precede the task; here a
//! request is served before the switch, which adds the cost of the requests that cause switches.

use super::{Class, Costs, LAYOUTS_MAX, Layout, Rule};

/// A rule that switches to the layout with the minimum of optimal cost so far plus switch.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorkFunction;

/// The layout of a unit and its work function: for each layout but the last, the difference from
/// the last, offset so that it is not negative.
#[derive(Clone, Copy, Debug)]
pub struct Worked {
    work: [u32; LAYOUTS_MAX - 1],
    layout: Layout,
}

impl Rule for WorkFunction {
    type Unit = Worked;

    fn begin(&mut self, costs: &Costs, first: Layout, _: Class, _: u64) -> Worked {
        let layout = costs.nearest(first);
        let mut work = [0; LAYOUTS_MAX - 1];
        start(costs, &mut work[..costs.layouts() - 1], layout);
        Worked { work, layout }
    }

    fn seen(&mut self, costs: &Costs, unit: &mut Worked, class: Class) -> Option<Layout> {
        let layout = costs.nearest(unit.layout);
        let to = step(costs, &mut unit.work[..costs.layouts() - 1], layout, costs.row(class))?;
        unit.layout = to;
        Some(to)
    }

    fn layout(&self, unit: &Worked) -> Layout {
        unit.layout
    }
}

/// The middle of the stored range, which represents a difference of 0.
const ZERO: u64 = 1 << 31;

/// Initializes the work function of a unit in `layout`.
pub(super) fn start(costs: &Costs, work: &mut [u32], layout: Layout) {
    let layouts = costs.layouts();
    let mut full = [0; LAYOUTS_MAX];
    for (to, work) in full.iter_mut().enumerate().take(layouts) {
        *work = costs.half_ways(layout)[to];
    }
    pack(&full[..layouts], work);
}

/// Adds a request that costs `row` by layout. Returns the layout to switch to, if any.
#[inline]
pub(super) fn step(costs: &Costs, work: &mut [u32], layout: Layout, row: &[u64]) -> Option<Layout> {
    let layouts = costs.layouts();
    // The costs of being in each layout after the request and before any switch.
    let mut served = [0; LAYOUTS_MAX];
    for (at, served) in served.iter_mut().enumerate().take(layouts) {
        let before = work.get(at).map_or(ZERO, |&work| u64::from(work));
        let allowed = costs.allows(at as Layout);
        *served = if allowed { before.saturating_add(row[at]) } else { u64::MAX };
    }
    let mut full = [0; LAYOUTS_MAX];
    for (to, work) in full.iter_mut().enumerate().take(layouts) {
        *work = reach(costs, &served[..layouts], to as Layout);
    }
    pack(&full[..layouts], work);
    let there = choose(costs, &served[..layouts], &full[..layouts], layout);
    (there != layout).then_some(there)
}

/// Returns the layout with the minimum of work function plus switch. In case of a tie, a layout is
/// preferred whose work function includes no switch after the request. This is the algorithm's
/// second condition, without which it would never switch.
#[inline]
fn choose(costs: &Costs, served: &[u64], full: &[u64], layout: Layout) -> Layout {
    let ways = costs.half_ways(layout);
    let value = |at: usize| (full[at].saturating_add(ways[at]), full[at] != served[at]);
    let mut best = usize::from(layout);
    for to in 0..full.len() {
        if value(to) < value(best) && costs.allows(to as Layout) {
            best = to;
        }
    }
    best as Layout
}

/// Returns the minimum cost of ending in `to`.
#[inline]
fn reach(costs: &Costs, served: &[u64], to: Layout) -> u64 {
    let ways = served.iter().zip(costs.half_ways(to));
    ways.map(|(served, way)| served.saturating_add(*way)).min().unwrap_or(0)
}

/// Stores the differences from the last layout, clamped to the range of `u32`.
#[inline]
fn pack(full: &[u64], work: &mut [u32]) {
    let last = full[full.len() - 1];
    for (work, &value) in work.iter_mut().zip(full) {
        let above = ZERO.saturating_add(value).saturating_sub(last);
        *work = u32::try_from(above).unwrap_or(u32::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::next;

    fn three_layouts() -> Costs {
        let writes = [vec![9, 2, 5, 0], vec![1, 8, 5, 3], vec![4, 6, 0, 3]];
        let switch = [vec![0, 8, 12], vec![6, 0, 20], vec![10, 4, 0]];
        Costs::new(&writes, &[], &switch, &switch).unwrap()
    }

    fn way(costs: &Costs, from: Layout, to: Layout) -> u64 {
        costs.half_ways(from)[usize::from(to)]
    }

    /// Returns the minimum cost over all sequences of layouts that begin in `first` and end in
    /// `last`, with a possible switch after each request.
    fn work(costs: &Costs, first: Layout, last: Layout, classes: &[Class]) -> u64 {
        let Some((&class, before)) = classes.split_last() else { return way(costs, first, last) };
        let through = costs.allowed();
        let ways = through.map(|at| {
            work(costs, first, at, before) + costs.cost(at, class) + way(costs, at, last)
        });
        ways.min().unwrap()
    }

    #[test]
    fn work_functions_choose_as_defined() {
        let mut dice = 5;
        for (costs, most) in
            [(Costs::paper_hdd(), 9), (Costs::paper_ssd(), 9), (three_layouts(), 6)]
        {
            for _ in 0..20 {
                let classes: Vec<Class> =
                    (0..most).map(|_| (next(&mut dice) % 4) as Class).collect();
                let mut unit = WorkFunction.begin(&costs, 0, 0, 0);
                for seen in 1..=classes.len() {
                    let here = unit.layout;
                    WorkFunction.seen(&costs, &mut unit, classes[seen - 1]);
                    let value = |to| work(&costs, 0, to, &classes[..seen]) + way(&costs, here, to);
                    let least = costs.allowed().map(value).min().unwrap();
                    assert_eq!(value(unit.layout), least, "{classes:?} after {seen}");
                }
            }
        }
    }

    #[test]
    fn a_unit_moves_once_staying_has_cost_a_round_trip() {
        // A switch there and back costs 164 points, so the first layout begins 82 points ahead.
        // Each write costs it 27 points. The rule switches as soon as it is more than 82 points
        // behind, at the seventh write (27 · 7 = 189 > 164).
        let costs = Costs::paper_hdd();
        let mut unit = WorkFunction.begin(&costs, 0, 0, 0);
        let switch = (1..99).find(|_| WorkFunction.seen(&costs, &mut unit, 0).is_some());
        assert_eq!(switch, Some(7));
        assert!(size_of::<Worked>() <= 32);
    }
}
