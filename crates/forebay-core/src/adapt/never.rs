//! A rule that never switches: a static array.

use super::{Class, Costs, Layout, Rule};

/// A rule that never switches.
#[derive(Clone, Copy, Debug, Default)]
pub struct Never;

impl Rule for Never {
    type Unit = Layout;

    fn begin(&mut self, costs: &Costs, first: Layout, _: Class, _: u64) -> Layout {
        costs.nearest(first)
    }

    fn seen(&mut self, _: &Costs, _: &mut Layout, _: Class) -> Option<Layout> {
        None
    }

    fn layout(&self, unit: &Layout) -> Layout {
        *unit
    }
}
