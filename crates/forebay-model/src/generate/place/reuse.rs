//! Places on used blocks: takes the best match among earlier requests of about the wanted age, half
//! of which are in the wanted range.

use super::{DrawnPlace, Mechanism, Placer};
use crate::bins::{self, log2};
use crate::class::{PlaceKind, octave};
use crate::dice::RandomSource;
use crate::ground::BLOCK_BYTES;
use crate::past::PastRequest;
use crate::places::{Reuse, ReuseStart};
use crate::trail::Trail;

/// The number of candidates from the wanted range, and from all ranges.
const LOOKED_AT: usize = 12;
/// The number of places tried within an earlier request.
const TRIES: usize = 8;

/// The properties of the wanted place.
struct Wanted {
    class: usize,
    range: usize,
    start: ReuseStart,
    age: f32,
    /// The offset within a block, if offsets are finer than blocks.
    into: Option<u64>,
    len: u32,
}

impl Placer {
    /// Returns the place, or None if no block was used yet.
    pub(super) fn reuse(
        &mut self,
        class: (usize, usize),
        len: u32,
        stream: u16,
        trail: &Trail,
        dice: &mut RandomSource,
    ) -> Option<DrawnPlace> {
        let wanted = Reuse::of(self.keys[class.0].draw(dice)?);
        self.used(class, wanted, len, stream, trail, dice)
    }

    /// Returns a place that was last used about as long ago as wanted.
    pub(super) fn used(
        &mut self,
        (class, range): (usize, usize),
        Reuse { age, start }: Reuse,
        len: u32,
        stream: u16,
        trail: &Trail,
        dice: &mut RandomSource,
    ) -> Option<DrawnPlace> {
        let latest = u64::from(trail.past.latest());
        // Requests that are no longer remembered count as old as the oldest remembered one.
        let last_age = latest.checked_sub(trail.past.oldest().into())?;
        let age = match self.on.has(Mechanism::Ages) {
            true => bins::draw(age, dice).min(last_age),
            false => dice.below(last_age + 1),
        };
        let into = (self.grain < BLOCK_BYTES).then(|| self.past_block(class, len, dice));
        let wanted = Wanted { class, range, start, age: log2(1 + age), into, len };
        let number = (latest - age) as u32;
        let (mut best, mut least) = (0, f32::INFINITY);
        let mut look = |number: u32, was: &PastRequest| {
            if self.is_spent(was.address) {
                return;
            }
            let far = self.unsuited(&wanted, number, was, trail, least);
            if far < least {
                (best, least) = (number, far);
            }
        };
        if self.on.has(Mechanism::ReuseRange) {
            trail.past.near_in(range, number, LOOKED_AT, &mut look);
        }
        trail.past.near(number, LOOKED_AT, &mut look);
        let was = *trail.past.get(best)?;
        let address = self.within(&wanted, (best, &was), len, trail, dice);
        Some(DrawnPlace { address, len, from: None, area: trail.area, stream, stays: false })
    }

    /// Returns how badly an earlier request matches. Stops as soon as the result cannot be below
    /// `least`.
    #[inline]
    fn unsuited(
        &self,
        wanted: &Wanted,
        number: u32,
        was: &PastRequest,
        trail: &Trail,
        least: f32,
    ) -> f32 {
        let class = self.classes[wanted.class];
        let again = class.kind != PlaceKind::Over;
        let age = u64::from(trail.past.latest() - number);
        let mut far = 8.0 * (log2(1 + age) - wanted.age).abs();
        if usize::from(was.range) != wanted.range && self.on.has(Mechanism::ReuseRange) {
            far += 6.0;
        }
        if far >= least {
            return far;
        }
        let was_octave = octave(was.len);
        match wanted.start {
            ReuseStart::Within if again && was_octave <= class.octave => far += 1.5,
            ReuseStart::Within => (),
            start => {
                if wanted.into.is_some_and(|into| was.address % BLOCK_BYTES != into) {
                    far += 2.0;
                }
                if was.goes_on != (start == ReuseStart::Continuation) {
                    far += 2.0;
                }
                if was_octave != class.octave {
                    far += if again && was_octave < class.octave { 2.5 } else { 1.0 };
                }
            }
        }
        if far >= least {
            return far;
        }
        let len = wanted.len;
        // If the new request is not longer than the earlier one, it fits on its blocks.
        let longer = len > was.len;
        if again && longer && trail.new_blocks(was.address, len) > 0 {
            far += 3.0;
        }
        let end = was.address + u64::from(was.len);
        if !again && wanted.start == ReuseStart::Within && trail.new_blocks(end, len / 2 + 1) == 0 {
            far += 3.0;
        }
        far
    }

    /// Returns the address of the new request within the blocks of an earlier one.
    fn within(
        &self,
        wanted: &Wanted,
        (number, was): (u32, &PastRequest),
        len: u32,
        trail: &Trail,
        dice: &mut RandomSource,
    ) -> u64 {
        let again = self.classes[wanted.class].kind != PlaceKind::Over;
        let (grain, end) = (self.grain, was.address + u64::from(was.len));
        let address = match wanted.start {
            ReuseStart::Within if again => self.held(wanted, (number, was), len, trail, dice),
            ReuseStart::Within => {
                let overlap = dice.below(len.min(was.len).into()) / grain * grain + grain;
                end.saturating_sub(overlap).max(was.address)
            }
            _ => was.address,
        };
        if !again {
            return address;
        }
        // Move back if the request then stays on used blocks.
        let new = trail.new_blocks(address, len);
        let back = address.saturating_sub(new * BLOCK_BYTES);
        if new > 0 && trail.new_blocks(back, len) == 0 { back } else { address }
    }

    /// Returns an address in a block that was last used by the earlier request.
    fn held(
        &self,
        wanted: &Wanted,
        (number, was): (u32, &PastRequest),
        len: u32,
        trail: &Trail,
        dice: &mut RandomSource,
    ) -> u64 {
        let (grain, begin) = (self.grain, was.address / self.grain * self.grain);
        let room = u64::from(was.len.saturating_sub(len)) / grain;
        let steps = if room > 0 { room + 1 } else { (u64::from(was.len) / grain).max(1) };
        let mut places = (0..TRIES).map(|_| {
            let place = begin + dice.below(steps) * grain;
            wanted.into.map_or(place, |into| place / BLOCK_BYTES * BLOCK_BYTES + into)
        });
        let found = places.find(|&place| {
            trail.ground.last(place / BLOCK_BYTES) == Some(number)
                && trail.new_blocks(place, len) == 0
        });
        found.unwrap_or(was.address)
    }
}
