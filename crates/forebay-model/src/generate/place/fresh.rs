//! Places on new blocks: near a recent end, or anywhere in the wanted range, in one of the cells
//! where the trace used new blocks at about the same time.

use super::{DrawnPlace, Placer};
use crate::bins;
use crate::dice::RandomSource;
use crate::ends::{MismatchPenalties, WHOLE};
use crate::ground::{BLOCK_BYTES, blocks};
use crate::places::Nearby;
use crate::trail::Trail;

/// The penalties for ends that belong to another operation or range.
const UNLIKE: MismatchPenalties =
    MismatchPenalties { op: WHOLE, octave: 0, range: WHOLE / 2 * 3, own: 0 };
/// The maximum distance to search backwards for new blocks if the place is in use.
const BACK_BLOCKS: u64 = 1024;

impl Placer {
    /// Returns a place near a recent end, or None if there is no end yet.
    pub(super) fn near(
        &mut self,
        (class, range): (usize, usize),
        len: u32,
        trail: &Trail,
        dice: &mut RandomSource,
    ) -> Option<DrawnPlace> {
        let wanted = Nearby::of(self.keys[class].draw(dice)?);
        let (of, area) = (self.classes[class], self.space.area_of_range(range));
        let ends = &trail.ends[area];
        let mut far = self.rank_unlike[wanted.rank];
        ends.unlike((of.op, of.octave, range as u16, false), UNLIKE, &mut far);
        let is_open = |rank: &usize| ends.get(*rank).is_some_and(|end| !self.is_spent(end.address));
        let likest = (0..ends.len()).filter(is_open).min_by_key(|&rank| far[rank])?;
        let end = ends.get(likest)?;
        let mut distance = bins::draw(wanted.distance, dice) * 512;
        if wanted.is_multiple {
            let times = (distance + u64::from(len) / 2) / u64::from(len);
            distance = times.max(u64::from(distance > 0)) * u64::from(len);
        }
        let mut address = match wanted.is_behind {
            true => end.address.saturating_sub(distance),
            false => end.address + distance,
        };
        address = match self.grain < BLOCK_BYTES {
            true if distance >= BLOCK_BYTES => {
                address / BLOCK_BYTES * BLOCK_BYTES + self.past_block(class, len, dice)
            }
            true => address / 512 * 512,
            false if wanted.is_multiple => address,
            false => address / self.grain * self.grain,
        };
        let address = address.min(self.space.end().saturating_sub(len.into()));
        let (first, last) = blocks(address, len);
        let mut found = address;
        if trail.ground.new_blocks(first, last) < last - first {
            let low = first.saturating_sub(BACK_BLOCKS);
            if let Some(free) = trail.ground.room(first, last - first, low, self.end_block()) {
                found = free * BLOCK_BYTES + address % BLOCK_BYTES;
            }
        }
        Some(DrawnPlace { address: found, len, from: None, area, stream: end.stream, stays: false })
    }

    pub(super) fn end_block(&self) -> u64 {
        self.space.end() / BLOCK_BYTES
    }

    /// Returns a place anywhere in the range.
    pub(super) fn far(
        &mut self,
        (class, range): (usize, usize),
        len: u32,
        number: u64,
        stream: u16,
        trail: &Trail,
        dice: &mut RandomSource,
    ) -> DrawnPlace {
        let cell = self.cell(range, number, dice);
        let into = self.past_block(class, len, dice);
        let step = self.grain.max(BLOCK_BYTES);
        let (begin, end) = (cell * self.cell_bytes, (cell + 1) * self.cell_bytes);
        let (begin, end) = self.open(begin, end, dice);
        let mut address = begin + dice.below(((end - begin) / step).max(1)) * step + into;
        let (first, last) = blocks(address, len);
        if trail.ground.new_blocks(first, last) < last - first {
            // Prefer new blocks in the same cell, and otherwise use new blocks anywhere.
            let (low, high) = (begin / BLOCK_BYTES, end / BLOCK_BYTES + (last - first));
            let free = trail.ground.room(first, last - first, low, high);
            let free = free.or_else(|| trail.ground.room(low, last - first, 0, self.end_block()));
            address = free.map_or(begin, |block| block * BLOCK_BYTES) + into;
        }
        let address = address.min(self.space.end().saturating_sub(len.into()));
        DrawnPlace { address, len, from: None, area: trail.area, stream, stays: false }
    }

    /// Draws a stretch that may still get requests: within the two addresses if possible, and
    /// elsewhere otherwise. If no volume has gaps, returns the addresses unchanged.
    fn open(&self, begin: u64, end: u64, dice: &mut RandomSource) -> (u64, u64) {
        if self.left_of_piece.is_empty() {
            return (begin, end);
        }
        let mut weighted = |first: usize, last: usize, low: u64, high: u64| {
            let weight = |piece: usize| {
                let (from, to) = self.space.piece_within(piece, low, high);
                let (all_from, all_to) = self.space.piece_within(piece, 0, u64::MAX);
                let share = to.saturating_sub(from) as f64 / (all_to - all_from).max(1) as f64;
                self.left_of_piece[piece] as f64 * share
            };
            let sum: f64 = (first..=last).map(weight).sum();
            let mut drawn = dice.unit() * sum;
            let piece = (first..=last).find(|&piece| {
                drawn -= weight(piece);
                weight(piece) > 0.0 && drawn <= 0.0
            })?;
            Some(self.space.piece_within(piece, low, high))
        };
        let last = self.left_of_piece.len() - 1;
        weighted(self.space.piece(begin), self.space.piece(end - 1), begin, end)
            .or_else(|| weighted(0, last, 0, u64::MAX))
            .unwrap_or((begin, end))
    }

    /// Draws a cell of the range from those left for this part of the trace, or any cell if none of
    /// the range is left.
    fn cell(&mut self, range: usize, number: u64, dice: &mut RandomSource) -> u64 {
        let parts = self.far.len();
        let part = (number * parts as u64 / self.requests) as usize;
        let (begin, end) = self.space.bounds(range);
        let (low, high) = (begin / self.cell_bytes, (end - 1).max(begin) / self.cell_bytes);
        let bag = &mut self.far[part.min(parts - 1)];
        let found = bag.draw_between(low as u32, high as u32, dice).or_else(|| bag.draw(dice));
        found.map_or(low, u64::from)
    }
}
