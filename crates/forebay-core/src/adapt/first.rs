//! The initial layout of a unit.

use super::costs::{Class, Costs, Layout};

/// How a unit's first layout is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// Always this layout.
    Fixed(Layout),
    /// The layout that serves the first write best; choosing costs nothing, because the unit is
    /// empty.
    ByFirstWrite,
}

impl First {
    /// Returns an allowed layout for a unit whose first write has this class.
    pub fn layout(self, costs: &Costs, class: Class) -> Layout {
        match self {
            First::Fixed(layout) => costs.nearest(layout),
            First::ByFirstWrite => costs.cheapest(class),
        }
    }
}
