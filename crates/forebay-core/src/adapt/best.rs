//! Follows the best of a few simple rules.
use super::bonus_malus::{self, Factor};
use super::costs::{Class, Costs, LAYOUTS_MAX, Layout};
use super::rule::Rule;
use super::work_function;
use super::workload::roll;

/// Numbers kept of a unit.
const ROOM: usize = 7;
/// Cohorts of units, which have the same dice: a byte of what is kept of a unit.
const COHORTS: usize = 128;
/// Simple rules, at most: every layout for ever, and those that keep something of a unit.
const RULES_MAX: usize = LAYOUTS_MAX + ROOM;

/// How quickly [`Best`] changes its mind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tuning {
    /// Writes of a unit after which what happened counts less by a factor e.
    pub memory: f64,
    /// How far units differ.
    pub spread: f64,
    /// k
    pub kappa: f64,
    /// Where the dice begin.
    pub seed: u64,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning { memory: 64.0, spread: 0.01, kappa: 1.0, seed: 1 }
    }
}

/// A simple rule that runs in shadow.
#[derive(Clone, Copy, Debug)]
enum Simple {
    Stay(Layout),
    BonusMalus(Factor),
    WorkFunction,
}

/// Follows the best.
#[derive(Clone, Debug)]
pub struct Best {
    rules: Vec<Simple>,
    stays: usize,
    /// By rule: what it would have paid, the past less and less.
    paid: [f64; RULES_MAX],
    /// By cohort, then rule.
    dice: Vec<f64>,
    units: f64,
    keep: f64,
    memory: f64,
    base: f64,
    slope: f64,
    moved: f64,
}

/// What is kept of a unit.
#[derive(Clone, Copy, Debug)]
pub struct BestUnit {
    values: [u32; ROOM],
    packed: u32,
}

impl BestUnit {
    #[inline]
    fn layout(&self, slot: usize) -> Layout {
        (self.packed >> (3 * slot) & 7) as Layout
    }
    #[inline]
    fn set(&mut self, slot: usize, layout: Layout) {
        let shift = 3 * slot;
        self.packed = self.packed & !(7 << shift) | u32::from(layout) << shift;
    }
    fn cohort(&self) -> usize {
        (self.packed >> 25) as usize
    }
}

impl Best {
    /// new
    pub fn new(costs: &Costs, tuning: Tuning) -> Best {
        let mut rules: Vec<Simple> = costs.allowed().map(Simple::Stay).collect();
        let stays = rules.len();
        let f = |times, over| Simple::BonusMalus(Factor { times, over });
        let all = [Simple::WorkFunction, f(1, 1), f(1, 2), f(1, 4), f(2, 1)];
        rules.extend(all.iter().take(ROOM / (costs.layouts() - 1)));
        let slope = tuning.kappa / (rules.len() as f64).ln();
        let mut state = tuning.seed;
        let dice = (0..COHORTS * rules.len()).map(|_| {
            let u = ((roll(&mut state) >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
            (-u.ln()).ln()
        });
        let dice = dice.collect();
        Best { rules, stays, paid: [0.0; RULES_MAX], dice, units: 0.0, keep: 1.0, memory: tuning.memory, base: tuning.spread * costs.diameter() as f64, slope, moved: 0.0 }
    }
    /// which rules, and how much they paid
    pub fn state(&self) -> Vec<f64> {
        self.paid[..self.rules.len()].iter().chain([&self.moved]).map(|p| p / self.units).collect()
    }
}

impl Rule for Best {
    type Unit = BestUnit;

    fn begin(&mut self, costs: &Costs, first: Layout, class: Class, number: u64) -> BestUnit {
        self.units += 1.0;
        self.keep = 1.0 - 1.0 / (self.memory * self.units);
        let mut hash = number;
        let mut unit = BestUnit { values: [0; ROOM], packed: (roll(&mut hash) >> 57 << 25) as u32 };
        unit.set(0, costs.nearest(first));
        let each = costs.layouts() - 1;
        let shadow = costs.cheapest(class);
        for (k, rule) in self.rules[self.stays..].iter().enumerate() {
            unit.set(k + 1, shadow);
            if let Simple::WorkFunction = rule {
                work_function::start(costs, &mut unit.values[k * each..][..each], shadow);
            }
        }
        unit
    }

    fn seen(&mut self, costs: &Costs, unit: &mut BestUnit, class: Class) -> Option<Layout> {
        let row = costs.row(class);
        let each = costs.layouts() - 1;
        let mut layouts = [0; RULES_MAX];
        let mut befores = [0; RULES_MAX];
        self.moved *= self.keep;
        let scale = self.units * self.base + self.moved * self.slope;
        let dice = &self.dice[unit.cohort() * self.rules.len()..];
        let mut best = (f64::INFINITY, 0);
        for (i, rule) in self.rules.iter().enumerate() {
            let (before, after) = match *rule {
                Simple::Stay(l) => (l, None),
                _ => {
                    let k = i - self.stays;
                    let before = unit.layout(k + 1);
                    let values = &mut unit.values[k * each..][..each];
                    let after = match *rule {
                        Simple::BonusMalus(f) => bonus_malus::step(costs, f, values, before, class),
                        _ => work_function::step(costs, values, before, class),
                    };
                    if let Some(after) = after {
                        unit.set(k + 1, after);
                    }
                    (before, after)
                }
            };
            let mut cost = row[usize::from(before)];
            if let Some(after) = after {
                cost += costs.switch(before, after);
            }
            befores[i] = before;
            layouts[i] = after.unwrap_or(before);
            self.paid[i] = self.paid[i] * self.keep + cost as f64;
            let value = self.paid[i] + scale * dice[i];
            if value < best.0 {
                best = (value, i);
            }
        }
        let to = layouts[best.1];
        if to == unit.layout(0) {
            return None;
        }
        if unit.packed >> 24 & 1 == 1 && befores[best.1] != unit.layout(0) {
            self.moved += costs.switch(unit.layout(0), to) as f64;
        }
        unit.packed |= 1 << 24;
        unit.set(0, to);
        Some(to)
    }

    fn layout(&self, unit: &BestUnit) -> Layout {
        unit.layout(0)
    }
}
