//! The trait of adaptation rules.

use super::costs::{Class, Costs, Layout};

/// Decides the layout of each unit, request by request and without knowledge of the future.
///
/// A rule stores what it has learned from all units, and each unit has its own state, a
/// [`Rule::Unit`], which is small and `Copy`. If a unit begins in an allowed layout
/// ([`Costs::allows`]), the rule never switches it to one that is not allowed.
pub trait Rule {
    /// The state of a unit.
    type Unit: Copy;

    /// Returns the state of a unit with layout `first` before its first write, which has class
    /// `class`. `number` identifies the unit, so that rules can treat units differently but in the
    /// same way in every run.
    fn begin(&mut self, costs: &Costs, first: Layout, class: Class, number: u64) -> Self::Unit;

    /// Handles a request that has been served in the unit's layout. Returns the layout that the
    /// unit switches to, if any.
    fn seen(&mut self, costs: &Costs, unit: &mut Self::Unit, class: Class) -> Option<Layout>;

    /// Returns the layout of a unit.
    fn layout(&self, unit: &Self::Unit) -> Layout;
}
