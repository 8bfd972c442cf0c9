//! The trait of adaptation rules.

use super::costs::{Class, Costs, Layout};

/// Decides, request by request and without knowing what comes, which layout a unit has.
///
/// What a rule learns from all units is in itself; what it keeps of one is a [`Rule::Unit`], tiny and plain.
/// Rules never ask for a layout that is not allowed ([`Costs::allows`]), once a unit has begun in one that is.
pub trait Rule {
    /// The state of a unit.
    type Unit: Copy;

    /// A unit that is written for the first time: it has layout `first`, and `class` is what is about to be written.
    /// `number` tells units apart, so that rules can treat them differently and yet alike in every run.
    fn begin(&mut self, costs: &Costs, first: Layout, class: Class, number: u64) -> Self::Unit;

    /// A request has been served in the unit's layout. Answers the layout to switch to, which the unit then has.
    fn seen(&mut self, costs: &Costs, unit: &mut Self::Unit, class: Class) -> Option<Layout>;

    /// Returns the unit's layout.
    fn layout(&self, unit: &Self::Unit) -> Layout;
}
