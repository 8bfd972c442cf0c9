//! Levels that follow the workload: a rule sees the requests for each unit and chooses its level.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{Array, Doing, DriveKind, KINDS, Level, Part, Task};
use crate::adapt::{Class, Costs, First, Layout, Optimum, Rule, regret};
use crate::contract::{Nanos, Op};

/// The number of bytes moved by clients after which the unused budget of switches stops growing.
const BURST_BYTES: u64 = 1 << 30;
/// The maximum number of units that are charged for their space with each request.
const PAYING: u64 = 256;

/// Chooses the levels of units. The layouts in `costs` are indexes into `levels`.
pub(super) struct Adapting {
    levels: Vec<Level>,
    /// The costs on each kind of drive.
    costs: [Costs; KINDS.len()],
    first: First,
    /// The percentage of the clients' data that switches may move; 0 means no limit.
    percent: u64,
    /// The bytes that switches may still move, times 100.
    budget: u64,
    ticks: Option<Ticks>,
    units: Box<dyn Units + Send>,
}

/// The periods; in each of them, all units are charged for the space that they occupy.
struct Ticks {
    period: Nanos,
    /// When the next pass over all units begins.
    due: Nanos,
    /// The unit at which the current pass continues.
    next: Option<u64>,
}

/// A rule with its state for each unit.
trait Units {
    /// Records a request to a unit of this layout, and returns the unit's new layout.
    fn seen(&mut self, costs: &Costs, number: u64, layout: Layout, class: Class) -> Option<Layout>;
    /// Returns whether the rule has a state for the unit.
    fn knows(&self, number: u64) -> bool;
    fn account(&self) -> Account;
}

/// The cost of all units in the cost model, and the minimum cost for a rule that knows all requests
/// and chooses the first layouts too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) paid: u64,
    pub(super) optimum: u64,
}

/// The state of a unit.
struct UnitEntry<U> {
    unit: U,
    layout: Layout,
    optimum: Optimum,
}

struct Ruled<R: Rule> {
    rule: R,
    units: BTreeMap<u64, UnitEntry<R::Unit>>,
    account: Account,
}

impl<R: Rule> Units for Ruled<R> {
    fn seen(&mut self, costs: &Costs, number: u64, layout: Layout, class: Class) -> Option<Layout> {
        let Ruled { rule, units, account } = self;
        let kept = units.entry(number).or_insert_with(|| UnitEntry {
            unit: rule.begin(costs, layout, class, number),
            layout,
            optimum: Optimum::new(costs, None),
        });
        if rule.layout(&kept.unit) != layout {
            // The unit did not switch, for example because there was no space.
            kept.unit = rule.begin(costs, layout, class, number);
        }
        if kept.layout != layout {
            account.paid = account.paid.saturating_add(costs.switch(kept.layout, layout));
        }
        kept.layout = layout;
        account.paid = account.paid.saturating_add(costs.cost(layout, class));
        let before = kept.optimum.cost();
        kept.optimum.seen(costs, class);
        let more = kept.optimum.cost().saturating_sub(before);
        account.optimum = account.optimum.saturating_add(more);
        rule.seen(costs, &mut kept.unit, class)
    }

    fn knows(&self, number: u64) -> bool {
        self.units.contains_key(&number)
    }

    fn account(&self) -> Account {
        self.account
    }
}

impl Adapting {
    /// Creates the state of `rule`, which chooses among `levels`. Their indexes are the layouts of
    /// `costs`.
    pub(super) fn new<R>(
        rule: R,
        costs: [Costs; KINDS.len()],
        first: First,
        levels: Vec<Level>,
    ) -> Adapting
    where
        R: Rule + Send + 'static,
        R::Unit: Send,
    {
        let account = Account::default();
        let units = Box::new(Ruled { rule, units: BTreeMap::new(), account });
        Adapting { levels, costs, first, percent: 0, budget: 0, ticks: None, units }
    }

    /// Returns the percentage by which the costs paid exceed the optimum.
    pub(super) fn regret_percent(&self) -> f64 {
        let Account { paid, optimum } = self.units.account();
        100.0 * regret(paid, optimum)
    }

    /// Limits the bytes that switches move to this percentage of the clients' bytes.
    pub(super) fn bounded(self, percent: u64) -> Adapting {
        Adapting { percent, ..self }
    }

    /// Charges units for their space once per period.
    pub(super) fn charging(self, period: Nanos) -> Adapting {
        let period = period.max(Nanos(1));
        Adapting { ticks: Some(Ticks { period, due: period, next: None }), ..self }
    }

    /// Returns which of `units` units are charged now: a few with each request, until all have been
    /// charged.
    pub(super) fn paying(&mut self, now: Nanos, units: u64) -> Range<u64> {
        let Some(ticks) = &mut self.ticks else { return 0..0 };
        if ticks.next.is_none() && now >= ticks.due {
            (ticks.due, ticks.next) = (now + ticks.period, Some(0));
        }
        let Some(from) = ticks.next else { return 0..0 };
        let to = (from + PAYING).min(units);
        ticks.next = (to < units).then_some(to);
        from..to
    }

    /// Makes a unit pay for its space, and returns the level that it should switch to. The rule
    /// starts no state for a unit that already has the layout with the lowest rent.
    pub(super) fn pay(&mut self, number: u64, level: Level, kind: DriveKind) -> Option<Level> {
        let costs = &self.costs[kind as usize];
        let (layout, tick) = (self.layout(level)?, costs.tick());
        let is_lean = layout == costs.cheapest(tick);
        if is_lean && !self.units.knows(number) {
            return None;
        }
        let to = self.units.seen(costs, number, layout, tick)?;
        self.levels.get(usize::from(to)).copied()
    }

    /// Records that clients have moved this many bytes.
    pub(super) fn moved(&mut self, bytes: u64) {
        // Limit how much accumulates, so that it cannot be spent all at once.
        self.budget =
            (self.budget + self.percent.saturating_mul(bytes)).min(self.percent * BURST_BYTES);
    }

    /// Returns whether a switch may move this many bytes. If so, deducts them from the budget.
    pub(super) fn may_move(&mut self, bytes: u64) -> bool {
        if self.percent == 0 {
            return true;
        }
        let left = self.budget.checked_sub(bytes.saturating_mul(100));
        self.budget = left.unwrap_or(self.budget);
        left.is_some()
    }

    fn layout(&self, level: Level) -> Option<Layout> {
        self.levels.iter().position(|known| *known == level).map(|layout| layout as Layout)
    }

    /// Returns the level of a unit whose first write has this many chunks.
    pub(super) fn first(&self, chunks: usize, kind: DriveKind) -> Option<Level> {
        let costs = &self.costs[kind as usize];
        let layout = self.first.layout(costs, costs.class(Op::Write, chunks));
        self.levels.get(usize::from(layout)).copied()
    }

    /// Reports a request for this many chunks to a unit of this level and kind; returns the level
    /// to switch to.
    pub(super) fn seen(
        &mut self,
        number: u64,
        (level, kind): (Level, DriveKind),
        op: Op,
        chunks: usize,
    ) -> Option<Level> {
        let layout = self.layout(level)?;
        let costs = &self.costs[kind as usize];
        let class = costs.class(op, chunks);
        // Requests with the same cost everywhere, such as reads, are no reason to switch.
        if costs.row(class).windows(2).all(|pair| pair[0] == pair[1]) {
            return None;
        }
        let to = self.units.seen(costs, number, layout, class)?;
        self.levels.get(usize::from(to)).copied()
    }
}

impl Array {
    /// Reports a request to a unit of this level to the rule. If the rule requests a switch and the
    /// limit permits it, schedules the switch. Returns whether it does.
    pub(super) fn adapt(
        &mut self,
        key: u32,
        parts: &[Part],
        level: Level,
        kind: DriveKind,
    ) -> bool {
        let Some(adapting) = &mut self.adapting else { return false };
        adapting.moved(parts.iter().map(|part| u64::from(part.len)).sum());
        let job = &self.jobs[key as usize];
        if self.hints.of(job.number).level.is_some() {
            return false;
        }
        let op = if job.doing == Doing::Write { Op::Write } else { Op::Read };
        let to = adapting.seen(job.number, (level, kind), op, job.touched.count_ones() as usize);
        to.is_some_and(|to| self.follow(self.jobs[key as usize].number, to, kind))
    }

    /// Charges the next units for their space, if that is configured. Units whose charges are too
    /// high shrink.
    pub(super) fn charge(&mut self, now: Nanos) {
        let units = self.table.units();
        let paying = self.adapting.as_mut().map_or(0..0, |adapting| adapting.paying(now, units));
        for number in paying {
            let unit = self.unit(number);
            let Some(level) = unit.level else { continue };
            if self.hints.of(number).level.is_none()
                && let Some(adapting) = &mut self.adapting
                && let Some(to) = adapting.pay(number, level, unit.kind)
            {
                self.follow(number, to, unit.kind);
            }
        }
    }

    /// Schedules a switch of a unit to another level if the limit permits the switch. Returns
    /// whether it was scheduled.
    fn follow(&mut self, number: u64, to: Level, kind: DriveKind) -> bool {
        let bytes = to.roles(self.chunks()) as u64 * u64::from(self.geometry.chunk_bytes);
        let may = self.adapting.as_mut().is_some_and(|adapting| adapting.may_move(bytes));
        if may {
            self.locks.ask_first(number, Task::Switch(to, kind));
            self.ready.push(number);
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::DriveKind::{Hdd, Ssd};
    use super::*;
    use crate::adapt::{Best, BonusMalus, Factor, Objective, Tuning};

    fn adapting() -> Adapting {
        let levels = vec![Level::RAID6, Level::TRIPLE];
        let costs = [Costs::paper_hdd(), Costs::paper_ssd()];
        Adapting::new(BonusMalus::new(Factor::ONE), costs, First::ByFirstWrite, levels)
    }

    #[test]
    fn the_first_write_chooses_the_first_level_and_the_rule_switches() {
        let mut rule = adapting();
        assert_eq!(
            (rule.first(1, Hdd), rule.first(4, Hdd)),
            (Some(Level::TRIPLE), Some(Level::RAID6))
        );
        let mut seen = |level, chunks| rule.seen(7, (level, Hdd), Op::Write, chunks);
        // Each write adds 27 points, and the rule switches at about 100.
        assert!((0..3).all(|_| seen(Level::RAID6, 1).is_none()));
        assert_eq!(seen(Level::RAID6, 1), Some(Level::TRIPLE));
        // Because the switch did not happen, the rule counts from the beginning again.
        assert!((0..3).all(|_| seen(Level::RAID6, 1).is_none()));
        assert_eq!(seen(Level::RAID6, 1), Some(Level::TRIPLE));
        assert_eq!(seen(Level::TRIPLE, 4), None);
        // A level that the rule does not manage is kept.
        assert_eq!(seen(Level::Striped { parities: 1 }, 1), None);
    }

    #[test]
    fn units_are_judged_by_the_costs_of_their_own_drives() {
        let mut rule = adapting();
        // On flash, RAID 6 is faster for three chunks and more. For one chunk, each write adds 20
        // points, and the rule switches at about 55.
        assert_eq!(rule.first(3, Ssd), Some(Level::RAID6));
        let mut seen = |number, kind| rule.seen(number, (Level::RAID6, kind), Op::Write, 1);
        assert!((0..2).all(|_| seen(1, Ssd).is_none()) && (0..3).all(|_| seen(2, Hdd).is_none()));
        assert_eq!((seen(1, Ssd), seen(2, Hdd)), (Some(Level::TRIPLE), Some(Level::TRIPLE)));
    }

    #[test]
    fn paid_costs_are_compared_with_the_optimum() {
        let mut rule = adapting();
        let mut seen = |number, level| rule.seen(number, (level, Hdd), Op::Write, 1);
        // Four small writes in RAID 6, a switch, and two writes in three copies. Then two writes to
        // a unit that began with three copies.
        let _: Vec<_> = (0..4).map(|_| seen(7, Level::RAID6)).collect();
        let _: Vec<_> = (0..2).map(|_| seen(7, Level::TRIPLE)).collect();
        let _: Vec<_> = (0..2).map(|_| seen(8, Level::TRIPLE)).collect();
        let points = |points: u64| points * 100_000;
        let account = rule.units.account();
        assert_eq!(account.paid, points(4 * 56 + 99 + 2 * 29 + 2 * 29));
        assert_eq!(account.optimum, points(6 * 29 + 2 * 29));
    }

    #[test]
    fn units_that_are_only_read_keep_their_level() {
        let costs = Costs::paper_hdd();
        let levels = vec![Level::RAID6, Level::TRIPLE];
        let best = Best::new(&costs, Tuning::default());
        let mut rule = Adapting::new(best, [costs.clone(), costs], First::Fixed(0), levels);
        let stays =
            (0..1000).all(|unit| rule.seen(unit, (Level::RAID6, Hdd), Op::Read, 1).is_none());
        assert!(stays && !rule.units.knows(7));
    }

    #[test]
    fn every_unit_pays_once_a_period() {
        let mut free = adapting();
        assert_eq!(free.paying(Nanos(1 << 50), 1000), 0..0);
        let mut charged = adapting().charging(Nanos(100));
        assert_eq!(charged.paying(Nanos(99), 300), 0..0);
        let paid: Vec<_> = [100, 101, 150, 199].map(|now| charged.paying(Nanos(now), 300)).into();
        assert_eq!(paid, [0..256, 256..300, 0..0, 0..0]);
        assert_eq!(charged.paying(Nanos(200), 300), 0..256);
        assert!(charged.paying(Nanos(900), 200).is_empty(), "there are fewer meanwhile");
    }

    #[test]
    fn units_that_nobody_writes_shrink_and_lean_units_have_no_state() {
        let objective =
            Objective { capacity: 1, rents: vec![1_000_000, 2_000_000], ..Objective::default() };
        let levels = vec![Level::RAID6, Level::TRIPLE];
        let costs = [Costs::paper_hdd(), Costs::paper_ssd()].map(|costs| objective.weigh(costs));
        let first = First::ByFirstWrite;
        let mut rule = Adapting::new(BonusMalus::new(Factor::ONE), costs, first, levels);
        // Each period adds 10 points, and the rule switches at about 66.
        assert!((0..6).all(|_| rule.pay(3, Level::TRIPLE, Hdd).is_none()));
        assert_eq!(rule.pay(3, Level::TRIPLE, Hdd), Some(Level::RAID6));
        assert_eq!(rule.pay(4, Level::RAID6, Hdd), None);
        assert!(rule.units.knows(3) && !rule.units.knows(4));
    }

    #[test]
    fn switches_stay_within_their_share_of_the_bytes() {
        let mut free = adapting();
        assert!(free.may_move(u64::MAX));
        let mut bounded = adapting().bounded(5);
        assert!(!bounded.may_move(1));
        bounded.moved(1000);
        assert!(!bounded.may_move(51) && bounded.may_move(50) && !bounded.may_move(1));
        bounded.moved(1 << 40);
        assert!(bounded.may_move(BURST_BYTES / 20) && !bounded.may_move(1), "it does not pile up");
    }
}
