//! Levels that follow the workload: a rule is shown what each unit is asked for, and says where it
//! goes.

use std::collections::BTreeMap;

use super::level::Level;
use crate::adapt::{Class, Costs, First, Layout, Rule};
use crate::contract::request::Op;

/// Says which level a unit has; layouts of its costs are numbers of these levels.
pub(super) struct Adapting {
    levels: Vec<Level>,
    costs: Costs,
    first: First,
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
        Adapting { levels, costs, first, units }
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
