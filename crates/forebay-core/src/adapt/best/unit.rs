//! The state that [`super::Best`] keeps per unit: 32 bytes.

use super::super::costs::{LAYOUTS_MAX, Layout};
use crate::random;

/// The number of values stored per unit.
pub(super) const ROOM: usize = LAYOUTS_MAX - 1;

/// The number of cohorts; all units of a cohort share their random numbers.
pub(super) const COHORTS: usize = 128;

const COHORT_SHIFT: u32 = 25;
const ENTERED: u32 = 1 << 24;

/// The state of a unit.
#[derive(Clone, Copy, Debug)]
pub struct BestUnit {
    /// The scores and work functions of the rules in shadow.
    pub(super) values: [u32; ROOM],
    /// Three bits for the unit's layout, three for each shadow's layout, one for whether the unit
    /// follows a rule yet, and its cohort.
    packed: u32,
}

impl BestUnit {
    pub(super) fn new(number: u64, layout: Layout) -> BestUnit {
        let mut hash = number;
        let cohort = (random::next(&mut hash) % COHORTS as u64) as u32;
        let mut unit = BestUnit { values: [0; ROOM], packed: cohort << COHORT_SHIFT };
        unit.set_layout(layout);
        unit
    }

    #[inline]
    pub(super) fn cohort(&self) -> usize {
        (self.packed >> COHORT_SHIFT) as usize
    }

    /// Makes the unit follow a rule from now on. Returns whether the unit already followed one.
    #[inline]
    pub(super) fn enter(&mut self) -> bool {
        let entered = self.packed & ENTERED != 0;
        self.packed |= ENTERED;
        entered
    }

    #[inline]
    pub(super) fn layout(&self) -> Layout {
        self.get(0)
    }

    #[inline]
    pub(super) fn set_layout(&mut self, layout: Layout) {
        self.set(0, layout);
    }

    #[inline]
    pub(super) fn shadow(&self, slot: usize) -> Layout {
        self.get(slot + 1)
    }

    #[inline]
    pub(super) fn set_shadow(&mut self, slot: usize, layout: Layout) {
        self.set(slot + 1, layout);
    }

    #[inline]
    fn get(&self, place: usize) -> Layout {
        (self.packed >> (3 * place) & 7) as Layout
    }

    #[inline]
    fn set(&mut self, place: usize, layout: Layout) {
        let shift = 3 * place;
        self.packed = self.packed & !(7 << shift) | u32::from(layout & 7) << shift;
    }
}
