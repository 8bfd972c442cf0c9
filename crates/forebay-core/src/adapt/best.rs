//! Follows the best of a few simple rules, judged by what each of them would have paid.
//!
//! No simple rule is good everywhere: low thresholds lose to a static array if runs are short, and
//! high ones lose to the optimum if runs are long. So all of the simple rules run in shadow on
//! every unit: each layout permanently, the work function, and the paper's rule with its thresholds
//! unchanged, halved, quartered and doubled (fewer if there are more than two layouts, because the
//! state per unit has a fixed size). The costs that they would have had are summed over *all* units
//! with decay, so that evidence accumulates quickly even though each unit has few writes. After a
//! request, a unit adopts the layout of the rule that it follows.
//!
//! That rule is chosen by Hedge with fixed dice: unit u follows the rule i with the minimum of
//! `paid[i] + scale · dice[u][i]`, where the dice have a Gumbel distribution and are drawn once.
//! The share of units that follow a rule therefore falls by a factor of e for each `scale` that the
//! rule paid more, and a unit changes its rule only when necessary (Blum and Burch, *On-line
//! learning and the metrical task system problem*, COLT 1997; Kalai and Vempala, *Efficient
//! algorithms for online decision problems*, J. Comput. Syst. Sci. 71, 2005).
//!
//! # Maximum loss
//!
//! Let n rules serve N units. Count the costs of a request beyond those of the rule that paid least
//! for it, and let E be the sum of these costs for the rule that is best in the end. Let D be the
//! cost of the most expensive switch plus the largest difference that a layout makes to a request.
//! Let `scale` = N·b, let there be no decay, and let requests not depend on the dice.
//!
//! - If the followed rule pays e more than the minimum, a unit changes its rule with a probability
//!   of at most 1 - exp(-e / N b). So N units make e / b changes, each of which costs at most D:
//!   the switch, and a request served in the wrong layout before it, because a unit switches only
//!   when it is written.
//! - Hedge itself pays at most (1 + D / N b) · (E + N b ln n).
//! - Adopting the first rule's layout costs a unit at most D, once.
//!
//! The sum is (1 + D/b) (1 + D/N b) (E + N b ln n) + N D. With b = D/ε that is (1 + ε)² times the
//! best rule's E and N D (1 + O(ln n / ε)): per unit, the bound of Blum and Burch.
//!
//! Such a b is large: on workloads that are not adversarial it costs more than it saves. So b
//! begins at a small part of D, where units almost follow the leader, and grows with M, the cost of
//! changes of rule so far (without the first adoption), as M / (N ln n): *follow the leader if you
//! can, hedge if you must* (de Rooij, van Erven, Grünwald and Koolen, J. Mach. Learn. Res. 15,
//! 2014). M then grows by e D / b per request, so M² is at most about 2 N D ln n times the sum of
//! all e, and the loss is about E + 2 M, which for *every* ε is at most (1 + ε) E + O(N D ln n /
//! ε). This treats M as equal to its expectation. The bound does not cover decay of the past:
//! `memory` trades it for adaptation to workloads that change.

mod unit;

use super::bonus_malus::{self, Factor};
use super::{Class, Costs, LAYOUTS_MAX, Layout, Rule, work_function};
use crate::random;
pub use unit::BestUnit;
use unit::{COHORTS, ROOM};

/// The maximum number of simple rules.
const RULES_MAX: usize = LAYOUTS_MAX + ROOM;

/// Parameters of [`Best`], which determine how quickly it changes its choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tuning {
    /// The number of writes per unit after which the weight of earlier costs has decreased by a
    /// factor of e; at least 1.
    pub memory: f64,
    /// The base of `scale`, as a share of the most expensive switch there and back. If two rules
    /// differ by this cost per unit, all but a third of the units follow the better one.
    pub spread: f64,
    /// The share of the cost of changes of rule that is added to `scale`.
    pub caution: f64,
    /// The seed of the random numbers.
    pub seed: u64,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning { memory: 64.0, spread: 0.005, caution: 1.0, seed: 1 }
    }
}

/// A rule that runs in shadow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Simple {
    /// The unit stays in this layout permanently.
    Stay(Layout),
    /// See [`super::WorkFunction`].
    WorkFunction,
    /// See [`super::BonusMalus`].
    BonusMalus(Factor),
}

/// The rules with a state per unit, in order of preference if the memory is not enough for all of
/// them.
const KEEPING: [Simple; 5] = [
    Simple::WorkFunction,
    Simple::BonusMalus(Factor { times: 1, over: 2 }),
    Simple::BonusMalus(Factor { times: 1, over: 1 }),
    Simple::BonusMalus(Factor { times: 1, over: 4 }),
    Simple::BonusMalus(Factor { times: 2, over: 1 }),
];

/// A rule that follows the best of a few simple rules.
#[derive(Clone, Debug)]
pub struct Best {
    layouts: usize,
    /// The stateless rules, followed by those with a state per unit.
    rules: Vec<Simple>,
    stays: usize,
    /// The random numbers, by cohort and rule.
    dice: Vec<f64>,
    /// The cost that each rule would have had, with exponential decay.
    paid: [f64; RULES_MAX],
    /// The cost of changes of rule, with the same decay.
    moved: f64,
    units: f64,
    /// The decay factor per request.
    keep: f64,
    memory: f64,
    /// The parts of `scale`: per unit, and per cost of changes of rule.
    base: f64,
    slope: f64,
}

/// The layout according to a rule, before and after a request.
type Shadow = (Layout, Layout);

impl Best {
    /// Creates a rule for volumes with the given costs.
    pub fn new(costs: &Costs, tuning: Tuning) -> Best {
        let mut rules: Vec<Simple> = costs.allowed().map(Simple::Stay).collect();
        let stays = rules.len();
        rules.extend(KEEPING.iter().take(ROOM / (costs.layouts() - 1)));
        Best {
            layouts: costs.layouts(),
            stays,
            dice: dice(COHORTS * rules.len(), tuning.seed),
            paid: [0.0; RULES_MAX],
            moved: 0.0,
            units: 0.0,
            keep: 1.0,
            memory: tuning.memory.max(1.0),
            base: tuning.spread.max(0.0) * costs.diameter() as f64,
            slope: tuning.caution.max(0.0) / (rules.len() as f64).ln().max(1.0),
            rules,
        }
    }

    /// Passes a request to rule number `at` and adds its cost.
    #[inline]
    fn shadow(&mut self, costs: &Costs, unit: &mut BestUnit, at: usize, row: &[u64]) -> Shadow {
        let rule = self.rules[at];
        let (before, after) = match rule {
            Simple::Stay(layout) => (layout, None),
            _ => keeping(costs, unit, at - self.stays, rule, row),
        };
        let mut cost = row[usize::from(before)];
        if let Some(after) = after {
            cost = cost.saturating_add(costs.switch(before, after));
        }
        self.paid[at] = self.paid[at] * self.keep + cost as f64;
        (before, after.unwrap_or(before))
    }

    /// Passes a request to all rules. Returns the layouts of the rule that the unit follows.
    #[inline]
    fn follow(&mut self, costs: &Costs, unit: &mut BestUnit, row: &[u64]) -> Shadow {
        let dice = unit.cohort() * self.rules.len();
        let scale = self.units * self.base + self.moved * self.slope;
        let mut followed = (0, 0);
        let mut least = f64::INFINITY;
        for at in 0..self.rules.len() {
            let shadow = self.shadow(costs, unit, at, row);
            let value = self.paid[at] + scale * self.dice[dice + at];
            if value < least {
                (least, followed) = (value, shadow);
            }
        }
        followed
    }
}

impl Rule for Best {
    type Unit = BestUnit;

    fn begin(&mut self, costs: &Costs, first: Layout, class: Class, number: u64) -> BestUnit {
        self.units += 1.0;
        self.keep = 1.0 - 1.0 / (self.memory * self.units);
        let mut unit = BestUnit::new(number, costs.nearest(first));
        // All shadows begin in the layout that serves the first write best, regardless of the
        // unit's first layout. Otherwise rules that switch would carry the cost of a bad start for
        // a long time, unlike rules that stay.
        let start = costs.cheapest(class);
        for (slot, rule) in self.rules[self.stays..].iter().enumerate() {
            unit.set_shadow(slot, start);
            if *rule == Simple::WorkFunction {
                let each = self.layouts - 1;
                work_function::start(costs, &mut unit.values[slot * each..][..each], start);
            }
        }
        unit
    }

    fn seen(&mut self, costs: &Costs, unit: &mut BestUnit, class: Class) -> Option<Layout> {
        if costs.layouts() != self.layouts {
            return None;
        }
        self.moved *= self.keep;
        let (before, to) = self.follow(costs, unit, costs.row(class));
        let here = unit.layout();
        if unit.enter() && before != here {
            self.moved += change(costs, here, before, to, class);
        }
        if to == here {
            return None;
        }
        unit.set_layout(to);
        Some(to)
    }

    fn layout(&self, unit: &BestUnit) -> Layout {
        unit.layout()
    }
}

/// Returns the cost of the change when a unit in layout `here` begins to follow a rule that had
/// layout `before`: the additional cost of the request, and the switch.
fn change(costs: &Costs, here: Layout, before: Layout, to: Layout, class: Class) -> f64 {
    let more = costs.cost(here, class).saturating_sub(costs.cost(before, class));
    let way = if here == to { 0 } else { costs.switch(here, to) };
    more.saturating_add(way) as f64
}

/// Passes a request to a rule with a state per unit. Returns the rule's layout before it, and after
/// it if that changed.
#[inline]
fn keeping(
    costs: &Costs,
    unit: &mut BestUnit,
    slot: usize,
    rule: Simple,
    row: &[u64],
) -> (Layout, Option<Layout>) {
    let each = costs.layouts() - 1;
    let before = unit.shadow(slot);
    let values = &mut unit.values[slot * each..][..each];
    let after = match rule {
        Simple::BonusMalus(factor) => bonus_malus::step(costs, factor, values, before, row),
        _ => work_function::step(costs, values, before, row),
    };
    if let Some(after) = after {
        unit.set_shadow(slot, after);
    }
    (before, after)
}

/// Draws from the negated Gumbel distribution. If such values are added to costs, each cost becomes
/// the minimum with the probability of a softmax.
fn dice(count: usize, seed: u64) -> Vec<f64> {
    let mut state = seed;
    let mut die = || {
        let uniform = ((random::next(&mut state) >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        (-uniform.ln()).ln()
    };
    (0..count).map(|_| die()).collect()
}

#[cfg(test)]
mod tests;
