//! Levels that follow the workload: a rule is shown what each unit is asked for, and says where it
//! goes.

use std::collections::BTreeMap;

use super::level::Level;
use crate::adapt::{Class, Costs, First, Layout, Rule};
use crate::contract::request::Op;

/// How much clients move without a switch before what switches may move grows no further.
const BURST_BYTES: u64 = 1 << 30;

/// Says which level a unit has; layouts of its costs are numbers of these levels.
pub(super) struct Adapting {
    levels: Vec<Level>,
    costs: Costs,
    first: First,
    /// Of what clients move, so many percent may go into switches; 0 is no bound.
    percent: u64,
    /// Bytes that may, a hundred times over.
    budget: u64,
    units: Box<dyn Units + Send>,
}

/// A rule with what it keeps of each unit.
trait Units {
    /// A unit of this layout was asked for something; where it goes.
    fn seen(&mut self, costs: &Costs, number: u64, layout: Layout, class: Class) -> Option<Layout>;
}

struct Ruled<R: Rule> {
    rule: R,
    units: BTreeMap<u64, R::Unit>,
}

impl<R: Rule> Units for Ruled<R> {
    fn seen(&mut self, costs: &Costs, number: u64, layout: Layout, class: Class) -> Option<Layout> {
        let Ruled { rule, units } = self;
        let unit = units.entry(number).or_insert_with(|| rule.begin(costs, layout, class, number));
        if rule.layout(unit) != layout {
            // A switch came to nothing, as where there was no room.
            *unit = rule.begin(costs, layout, class, number);
        }
        rule.seen(costs, unit, class)
    }
}

impl Adapting {
    /// By `rule`, between `levels`, whose numbers are the layouts of `costs`.
    pub(super) fn new<R>(rule: R, costs: Costs, first: First, levels: Vec<Level>) -> Adapting
    where
        R: Rule + Send + 'static,
        R::Unit: Send,
    {
        let units = Box::new(Ruled { rule, units: BTreeMap::new() });
        Adapting { levels, costs, first, percent: 0, budget: 0, units }
    }

    /// With a bound on what switches move: so many percent of what clients do.
    pub(super) fn bounded(self, percent: u64) -> Adapting {
        Adapting { percent, ..self }
    }

    /// Clients have moved so many bytes.
    pub(super) fn moved(&mut self, bytes: u64) {
        // What was not used for long does not come all at once.
        self.budget =
            (self.budget + self.percent.saturating_mul(bytes)).min(self.percent * BURST_BYTES);
    }

    /// Whether a switch that moves so many bytes is within the bound.
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

    /// The level of a unit that is first asked to write so many chunks.
    pub(super) fn first(&self, chunks: usize) -> Option<Level> {
        let layout = self.first.layout(&self.costs, self.costs.class(Op::Write, chunks));
        self.levels.get(usize::from(layout)).copied()
    }

    /// A unit of this level was asked for so many chunks; the level it is to go to.
    pub(super) fn seen(
        &mut self,
        number: u64,
        level: Level,
        op: Op,
        chunks: usize,
    ) -> Option<Level> {
        let layout = self.layout(level)?;
        let to = self.units.seen(&self.costs, number, layout, self.costs.class(op, chunks))?;
        self.levels.get(usize::from(to)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapt::{BonusMalus, Factor};

    fn adapting() -> Adapting {
        let levels = vec![Level::RAID6, Level::TRIPLE];
        Adapting::new(BonusMalus::new(Factor::ONE), Costs::paper_hdd(), First::ByFirstWrite, levels)
    }

    #[test]
    fn a_unit_goes_where_the_rule_says_and_begins_by_its_first_write() {
        let mut rule = adapting();
        assert_eq!((rule.first(1), rule.first(4)), (Some(Level::TRIPLE), Some(Level::RAID6)));
        let mut seen = |level, chunks| rule.seen(7, level, Op::Write, chunks);
        // 27 points a write to 100.
        assert!((0..3).all(|_| seen(Level::RAID6, 1).is_none()));
        assert_eq!(seen(Level::RAID6, 1), Some(Level::TRIPLE));
        // It did not get there: it begins anew.
        assert!((0..3).all(|_| seen(Level::RAID6, 1).is_none()));
        assert_eq!(seen(Level::RAID6, 1), Some(Level::TRIPLE));
        assert_eq!(seen(Level::TRIPLE, 4), None);
        // A level that is none of its own stays.
        assert_eq!(seen(Level::Striped { parities: 1 }, 1), None);
    }

    #[test]
    fn switches_move_no_more_than_their_share() {
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
