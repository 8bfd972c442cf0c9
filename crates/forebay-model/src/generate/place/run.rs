//! Places that continue a recent request. The end is chosen that is most similar to the wanted one
//! in rank, age of the blocks ahead, stream, operation, length and range.

use super::{DrawnPlace, Mechanism, Placer};
use crate::bins;
use crate::class::PlaceKind;
use crate::dice::RandomSource;
use crate::ends::{ENDS_MAX, End, MismatchPenalties, WHOLE};
use crate::ground::BLOCK_BYTES;
use crate::places::{Reuse, ReuseStart, Run, age_octave, octave_ages};
use crate::trail::{Trail, ahead};

/// The penalties for ends of another operation, length or range (if the range is chosen), or that
/// differ in whether they are the latest of their stream (if there are several streams).
const UNLIKE: MismatchPenalties =
    MismatchPenalties { op: 2 * WHOLE, octave: WHOLE / 2, range: 4 * WHOLE, own: 2 * WHOLE };
/// The maximum share of used blocks ahead of an end if new ones are wanted.
const WRONG_MAX: f32 = 0.5;
/// The key of a rank that has no end or whose end has already been examined.
const NONE: i16 = i16::MAX;
/// The maximum distance beyond used blocks to search for new ones, and the number of requests of
/// the same length that should fit there.
const BEYOND_BLOCKS: u64 = 16_384;
const ROOM: u64 = 8;

impl Placer {
    /// Returns the place, or None if new blocks are wanted and there are none ahead of any recent
    /// end.
    pub(super) fn run(
        &mut self,
        (class, range): (usize, usize),
        len: u32,
        stream: u16,
        trail: &Trail,
        dice: &mut RandomSource,
    ) -> Option<DrawnPlace> {
        let mut wanted = Run::of(self.keys[class].draw(dice)?);
        if !self.on.has(Mechanism::Ranks) {
            wanted.rank = 0;
        }
        let of = self.classes[class];
        let is_used = matches!(of.kind, PlaceKind::ContinueUsed | PlaceKind::ResumeUsed);
        let area = match of.kind.continues() {
            true => trail.area,
            false => self.space.area_of_range(range),
        };
        let ends = &trail.ends[area];
        let is_chosen = !of.kind.continues();
        let weights = MismatchPenalties {
            range: if is_chosen { UNLIKE.range } else { 0 },
            own: if self.has_streams { UNLIKE.own } else { 0 },
            ..UNLIKE
        };
        let mut keys = self.rank_unlike[wanted.rank];
        ends.unlike((of.op, of.octave, range as u16, wanted.is_own), weights, &mut keys);
        // Examines the most similar ends first, so that the blocks ahead are only looked up for
        // ends that can still be the best.
        for (key, rank) in keys.iter_mut().zip(0..) {
            *key = *key * ENDS_MAX as i16 + rank;
        }
        keys[ends.len()..].fill(NONE);
        let (mut best, mut least, mut best_wrong) = (None, f32::INFINITY, 0.0);
        loop {
            let key = keys.iter().copied().fold(NONE, i16::min);
            if key == NONE {
                break;
            }
            let rank = (key % ENDS_MAX as i16) as usize;
            let mut far = f32::from(key / ENDS_MAX as i16) / f32::from(WHOLE);
            if far >= least {
                break;
            }
            keys[rank] = NONE;
            let Some(end) = ends.get(rank) else { break };
            if end.address >= self.space.end() || self.is_spent(end.address) {
                continue;
            }
            let (first, last) = ahead(end.address, len);
            let new = trail.ground.new_blocks(first, last);
            let wrong = match is_used {
                true if new > 0 => 2.0,
                true => 0.0,
                false => 1.0 - new as f32 / (last - first) as f32,
            };
            far += 4.0 * wrong;
            if far < least {
                far += self.unlike_age(&wanted, &end, trail);
            }
            if far < least {
                (best, least, best_wrong) = (Some(rank), far, wrong);
            }
        }
        let Some(rank) = best.filter(|_| best_wrong <= WRONG_MAX) else {
            let at = (class, range);
            return match is_used {
                true => self.elsewhere(at, wanted, len, stream, trail, dice),
                false => self.beyond(at, ends.get(best?)?, len, trail, dice),
            };
        };
        let end = ends.get(rank)?;
        Some(DrawnPlace {
            address: end.address,
            len,
            from: Some(rank),
            area,
            stream: end.stream,
            stays: wanted.is_own,
        })
    }

    /// Returns a place on blocks last used as long ago as wanted, if no end has used blocks ahead.
    fn elsewhere(
        &mut self,
        at: (usize, usize),
        wanted: Run,
        len: u32,
        stream: u16,
        trail: &Trail,
        dice: &mut RandomSource,
    ) -> Option<DrawnPlace> {
        let (low, high) = octave_ages(wanted.age);
        let age = bins::bin(dice.between(low, high));
        let reuse = Reuse { age, start: ReuseStart::Continuation };
        self.used(at, reuse, len, stream, trail, dice)
    }

    /// Returns a place on the nearest new blocks beyond an end, if no end has new blocks directly
    /// ahead. Prefers one with space to continue.
    fn beyond(
        &mut self,
        (class, _): (usize, usize),
        end: End,
        len: u32,
        trail: &Trail,
        dice: &mut RandomSource,
    ) -> Option<DrawnPlace> {
        let (first, last) = ahead(end.address, len);
        let high = self.end_block().min(first + BEYOND_BLOCKS);
        let room = |count| trail.ground.room(first, count, first, high);
        let free = room((last - first) * ROOM).or_else(|| room(last - first))?;
        let address = free * BLOCK_BYTES + self.past_block(class, len, dice);
        Some(DrawnPlace {
            address,
            len,
            from: None,
            area: trail.area,
            stream: end.stream,
            stays: false,
        })
    }

    /// Returns how much the age of the blocks ahead of an end differs from the wanted age.
    #[inline]
    fn unlike_age(&self, wanted: &Run, end: &End, trail: &Trail) -> f32 {
        if wanted.age == 0 || !self.on.has(Mechanism::Ages) {
            return 0.0;
        }
        match age_octave(trail.age(end.address)) {
            0 => 4.0,
            age => 1.5 * age.abs_diff(wanted.age) as f32,
        }
    }
}
