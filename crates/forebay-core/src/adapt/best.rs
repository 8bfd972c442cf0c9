//! Follows the best of a few simple rules, by what each would have paid.
//!
//! No simple rule is good everywhere: low thresholds lose to a static array where runs are short, high ones to the
//! optimum where they are long. So all of them run in shadow on every unit: every layout for ever, the work function, the
//! paper's rule with its thresholds as they are, halved, quartered and doubled (fewer where there are more
//! than two layouts, for what is kept of a unit has a fixed size). What they would have paid is added up over *all* units, the
//! past counting less and less, so that evidence comes quickly though each unit sees few writes. After a request a
//! unit goes where the rule is that it follows.
//!
//! Which rule that is, is Hedge with fixed dice: unit u follows the rule i with the least
//! `paid[i] + scale · dice[u][i]`, dice of a Gumbel distribution, drawn once. So the share of units that follow a rule falls by a factor e
//! for each `scale` that it paid more, and a unit changes its rule only when it has to (Blum and Burch, *On-line learning and
//! the metrical task system problem*, COLT 1997; Kalai and Vempala, *Efficient algorithms for online decision
//! problems*, J. Comput. Syst. Sci. 71, 2005).
//!
//! # What it can lose
//!
//! Let n rules serve N units; count costs of a request beyond what the rule that paid least for it paid; let these be
//! E for the best rule in the end. Let D be the dearest switch plus the largest difference that a layout makes to
//! a request, `scale` = N·b, the past count in full, and requests not depend on the dice.
//!
//! - A rule followed that pays e more than the least makes a unit change with a probability of at most
//!   1 - exp(-e / N b), so N units make e / b changes, and each costs at most D: the switch, and a
//!   request served in the wrong layout before it, since a unit switches only when it is written.
//! - Hedge itself pays at most (1 + D / N b) · (E + N b ln n).
//! - Entering the rule's layout costs a unit at most D, once.
//!
//! Together (1 + D/b) (1 + D/N b) (E + N b ln n) + N D. With b = D/ε that is (1 + ε)² times the best rule's E and
//! N D (1 + O(ln n / ε)): per unit, the bound of Blum and Burch.
//!
//! Such a b is large: on workloads that do not fight back it costs more than it saves. So b begins at a small part of D, where
//! units all but follow the leader, and grows with M, what changes of rule have cost so far (entering left
//! out), as M / (N ln n): *follow the leader if you can, hedge if you must* (de Rooij, van Erven, Grünwald and Koolen,
//! J. Mach. Learn. Res. 15, 2014). M then grows by e D / b a request, so that M² is at most about 2 N D ln n times all e, and what is lost
//! about E + 2 M, which for *every* ε is at most (1 + ε) E + O(N D ln n / ε). This takes M for its expectation. What
//! remains unbounded by it is a past that is forgotten: `memory` trades it for workloads that change.

mod unit;

use super::bonus_malus::{self, Factor};
use super::costs::{Class, Costs, LAYOUTS_MAX, Layout};
use super::rule::Rule;
use super::work_function;
use super::workload::roll;
pub use unit::BestUnit;
use unit::{COHORTS, ROOM};

/// Simple rules, at most.
const RULES_MAX: usize = LAYOUTS_MAX + ROOM;

/// How quickly [`Best`] changes its mind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tuning {
    /// After this many writes of each unit, what happened before counts less by a factor e; at
    /// least 1.
    pub memory: f64,
    /// How far apart rules are, per unit, for all but a third of the units to follow the better of two: a share of
    /// the dearest switch there and back.
    pub spread: f64,
    /// How much of what changes of rule cost is added to that.
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
    /// This layout for ever.
    Stay(Layout),
    /// See [`super::WorkFunction`].
    WorkFunction,
    /// See [`super::BonusMalus`].
    BonusMalus(Factor),
}

/// Rules that keep something of a unit, those first that are to stay when there is less room.
const KEEPING: [Simple; 5] = [
    Simple::WorkFunction,
    Simple::BonusMalus(Factor { times: 1, over: 2 }),
    Simple::BonusMalus(Factor { times: 1, over: 1 }),
    Simple::BonusMalus(Factor { times: 1, over: 4 }),
    Simple::BonusMalus(Factor { times: 2, over: 1 }),
];

/// Follows the best of a few simple rules.
#[derive(Clone, Debug)]
pub struct Best {
    layouts: usize,
    /// The stateless rules, followed by those with a state per unit.
    rules: Vec<Simple>,
    stays: usize,
    /// The random numbers, by cohort and rule.
    dice: Vec<f64>,
    /// By rule: the cost that it would have had, with exponential decay.
    paid: [f64; RULES_MAX],
    /// The cost of changes of rule, with the same decay.
    moved: f64,
    units: f64,
    /// The decay factor per request.
    keep: f64,
    memory: f64,
    /// `scale` for a unit, and for what changes of rule cost.
    base: f64,
    slope: f64,
}

/// The layout under a rule: before and after the request.
type Shadow = (Layout, Layout);

impl Best {
    /// Creates a rule for volumes with these costs.
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

    /// Returns each rule's cost over all units in nanoseconds, with decay.
    pub fn shadows(&self) -> impl Iterator<Item = (Simple, f64)> + '_ {
        self.rules.iter().copied().zip(self.paid)
    }

    /// Shows a request to the rule at this place and charges it.
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

    /// Shows a request to all rules; answers where the one is that the unit follows.
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
        // Shadows begin where the first write is served best, whatever the unit's first layout: else rules that switch
        // would long be charged for a start that a rule that stays does not have.
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

/// Returns the cost of changing the rule of a unit that was in `here` while its new rule had it in
/// `before`: the additional cost of the request, and the switch.
fn change(costs: &Costs, here: Layout, before: Layout, to: Layout, class: Class) -> f64 {
    let more = costs.cost(here, class).saturating_sub(costs.cost(before, class));
    let way = if here == to { 0 } else { costs.switch(here, to) };
    more.saturating_add(way) as f64
}

/// Passes a request to a rule with a state per unit, with the unit's old and new layout.
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

/// Dice of a Gumbel distribution, turned round: the least of costs plus these falls on each cost as a softmax does.
fn dice(count: usize, seed: u64) -> Vec<f64> {
    let mut state = seed;
    let mut die = || {
        let uniform = ((roll(&mut state) >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        (-uniform.ln()).ln()
    };
    (0..count).map(|_| die()).collect()
}

#[cfg(test)]
mod tests;
