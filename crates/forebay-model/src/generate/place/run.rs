//! Going on where a recent request ended: the end that is most like the wanted one, by rank, the age of the ground
//! ahead, stream, operation, length and range.

use super::{Found, Length, Mechanism, Placer};
use crate::class::Kind;
use crate::dice::Dice;
use crate::ground::blocks;
use crate::places::{Run, age_octave};
use crate::trail::{ENDS_MAX, End, Trail};

/// Beyond this share of wrong ground no end will do for a run on new ground.
const WRONG_MAX: f32 = 0.5;

impl Placer {
    /// The place; none where no recent end has new ground ahead and that is wanted.
    pub(super) fn run(
        &mut self,
        (class, range): (usize, usize),
        length: Length,
        trail: &Trail,
        dice: &mut Dice,
    ) -> Option<Found> {
        let mut wanted = Run::of(self.keys[class].draw(dice)?);
        if !self.on.has(Mechanism::Ranks) {
            wanted.rank = 0;
        }
        let kind = self.classes[class].kind;
        let is_used = matches!(kind, Kind::ContinueUsed | Kind::ResumeUsed);
        let area = self.space.area_of_range(range);
        let ends = &trail.ends[area];
        // The likest first: the ground ahead is looked up for those only that may still be the best. What is not
        // negative is in the order of its bits.
        let mut keys = [u64::MAX; ENDS_MAX];
        for (key, ranked) in keys.iter_mut().zip(ends.iter().enumerate()) {
            if ranked.1.address < self.space.end() {
                let far = self.unlike(class, range, &wanted, ranked, trail);
                *key = u64::from(far.to_bits()) << 32 | ranked.0 as u64;
            }
        }
        let (mut best, mut least, mut best_wrong) = (None, f32::INFINITY, 0.0);
        loop {
            let key = keys.iter().fold(u64::MAX, |least, &key| least.min(key));
            let (rank, mut far) = (key as u32 as usize, f32::from_bits((key >> 32) as u32));
            if key == u64::MAX || far >= least {
                break;
            }
            keys[rank] = u64::MAX;
            let end = &ends[rank];
            let (first, last) = blocks(end.address, length.drawn.unwrap_or(end.len));
            let new = trail.ground.new_blocks(first, last);
            let wrong = match is_used {
                true if new > 0 => 2.0,
                true => 0.0,
                false => 1.0 - new as f32 / (last - first) as f32,
            };
            far += 4.0 * wrong;
            if far < least {
                far += self.unlike_age(&wanted, end, trail);
            }
            if far < least {
                (best, least, best_wrong) = (Some(rank), far, wrong);
            }
        }
        let rank = best.filter(|_| is_used || best_wrong <= WRONG_MAX)?;
        let end = ends[rank];
        let len = self.length(class, length, end.len, dice);
        Some(Found {
            address: end.address,
            len,
            from: Some(rank),
            area,
            stream: end.stream,
            stays: wanted.is_own,
        })
    }

    /// By how many powers of two ranks differ, twice.
    #[inline]
    pub(super) fn unlike_rank(&self, one: usize, other: usize) -> f32 {
        2.0 * (self.rank_powers[one] - self.rank_powers[other]).abs()
    }

    /// How unlike an end is to the wanted one, but for the ground ahead.
    #[inline]
    fn unlike(
        &self,
        class: usize,
        range: usize,
        wanted: &Run,
        (rank, end): (usize, &End),
        trail: &Trail,
    ) -> f32 {
        let of = self.classes[class];
        let mut far = self.unlike_rank(rank, wanted.rank);
        if self.has_streams && trail.is_stream_s(end, end.stream) != wanted.is_own {
            far += 2.0;
        }
        if end.op != of.op {
            far += 2.0;
        }
        if crate::class::octave(end.len) != of.octave {
            far += 0.5;
        }
        let chosen = !of.kind.continues() || trail.ends.len() > 1;
        if chosen && usize::from(end.range) != range {
            far += 4.0;
        }
        far
    }

    /// The same by how long ago the ground ahead was used.
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
