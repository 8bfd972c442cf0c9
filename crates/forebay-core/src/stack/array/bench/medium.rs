//! The content of drives that lose everything that they may lose: blocks whose write failed and, if
//! a flush fails, everything written to that drive that no round has flushed yet. (A real drive
//! would keep what was written before an earlier flush, even for a change that was not complete
//! then. An array need not know that.)

use std::collections::BTreeSet;

use super::super::unit::Place;
use super::super::{Array, Phase};
use crate::contract::{Flags, Lane, Op, Outcome, Request};

const BLOCK: usize = 4096;

/// Sets of blocks, by lane and first byte.
#[derive(Default)]
pub(super) struct Medium {
    /// Blocks written and not flushed since.
    open: BTreeSet<(Lane, u64)>,
    /// Blocks that do not hold the data written to them.
    lost: BTreeSet<(Lane, u64)>,
    /// The number of times that `lost` changed.
    pub(super) version: u64,
}

impl Medium {
    /// Ends an I/O before the array learns of it.
    pub(super) fn end(&mut self, array: &Array, io: &Request, outcome: Outcome) {
        // The I/O may consist of merged neighbors.
        let blocks = (io.offset..io.end()).step_by(BLOCK).map(|at| (io.lane, at));
        let (is_fua, before) = (io.flags.has(Flags::FUA), self.lost.len());
        match (io.op, outcome) {
            (Op::Write, Ok(())) => blocks.for_each(|block| {
                self.version += u64::from(self.lost.remove(&block));
                self.open.remove(&block);
                self.open.extend((!is_fua).then_some(block));
            }),
            (Op::Write, Err(_)) => self.lost.extend(blocks),
            (Op::Flush, Ok(())) => {
                let places = array.round.values().flat_map(|unit| unit.places);
                let blocks = places.filter_map(|place| Medium::blocks(array, place)).flatten();
                for block in blocks.filter(|(lane, _)| *lane == io.lane) {
                    self.open.remove(&block);
                }
            }
            (Op::Flush, Err(_)) => {
                let drive = (io.lane, 0)..=(io.lane, u64::MAX);
                let lost: Vec<_> = self.open.range(drive).copied().collect();
                for block in &lost {
                    self.open.remove(block);
                }
                self.lost.extend(lost);
            }
            _ => {}
        }
        self.version += u64::from(self.lost.len() > before);
    }

    /// Returns the blocks of a cell and its trailer, if the cell's drive is present.
    fn blocks(array: &Array, place: Place) -> Option<[(Lane, u64); 2]> {
        let (lane, (_, cell)) = (array.drives.lane(place)? as Lane, place.cell()?);
        let at = array.geometry.cell_at(cell);
        Some([(lane, at), (lane, at + u64::from(array.geometry.chunk_bytes))])
    }

    /// Returns whether a cell holds the data written to it.
    pub(super) fn holds(&self, array: &Array, place: Place) -> bool {
        let blocks = Medium::blocks(array, place);
        blocks.is_some_and(|blocks| blocks.iter().all(|block| !self.lost.contains(block)))
    }

    /// Returns whether a cell also holds its data after a power cut.
    pub(super) fn keeps(&self, array: &Array, place: Place) -> bool {
        let is_open = |block| self.open.contains(&block);
        let is_kept = |blocks: [_; 2]| !blocks.into_iter().any(is_open);
        self.holds(array, place) && Medium::blocks(array, place).is_some_and(is_kept)
    }
}

/// Checks the cells that the array depends on: cells named by its newest states hold the written
/// data, and those named by durable states survive a power cut, unless the array knows that they
/// may not.
pub(super) fn check(array: &Array, medium: &Medium) {
    if matches!(array.phase, Phase::Failed(_)) {
        return;
    }
    let is_there = |place: &Place| array.drives.lane(*place).is_some();
    for number in 0..array.table.units() {
        for place in array.unit(number).places.into_iter().filter(is_there) {
            let counts = medium.holds(array, place) || !array.is_sure(place);
            assert!(counts, "unit {number} counts on {place:?}, which is lost");
        }
        for place in array.table.get(number).places.into_iter().filter(is_there) {
            let counts = medium.keeps(array, place) || !array.is_sure(place);
            assert!(counts, "durable unit {number} counts on {place:?}, which was not flushed");
        }
    }
}
