//! The positions of commands that wait for the arm, sorted by cylinder, and the search for the
//! command that the head reaches first.
//!
//! The search begins at the arm's cylinder and proceeds outward on both sides. It ends when the
//! seek alone takes as long as the best access found. It therefore examines only a few commands,
//! with the same result as examining all.

use super::mechanism::Mechanism;

/// The position of a command or a run that waits for the arm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) cylinder: u32,
    pub(super) head: u32,
    pub(super) first: u64,
    /// The angle of the platters at which the first sector begins, in ns.
    pub(super) angle: u64,
    /// The earliest time at which the arm can start to move to the position.
    pub(super) from: u64,
    pub(super) write: bool,
    /// The key, which is unique among these positions.
    pub(super) key: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Spots(Vec<Spot>);

impl Spots {
    pub(super) fn insert(&mut self, spot: Spot) {
        let at = self.0.partition_point(|other| other.cylinder < spot.cylinder);
        self.0.insert(at, spot);
    }

    pub(super) fn remove(&mut self, spot: &Spot) {
        if let Some(at) = self.find(spot) {
            self.0.remove(at);
        }
    }

    /// Changes the earliest time at which the arm can start for `spot`.
    pub(super) fn delay(&mut self, spot: &Spot, from: u64) {
        if let Some(at) = self.find(spot) {
            self.0[at].from = from;
        }
    }

    fn find(&self, spot: &Spot) -> Option<usize> {
        let from = self.0.partition_point(|other| other.cylinder < spot.cylinder);
        let found = self.0[from..].iter().position(|other| other.key == spot.key);
        found.map(|at| from + at)
    }

    /// Returns when the head first reaches one of the positions, and the key of that position. The
    /// arm starts at `start` or later. It must arrive at least `margin` earlier, unless it stays on
    /// its cylinder or continues with the next sector. In case of a tie, `is_before` decides.
    pub(super) fn nearest(
        &self,
        mechanism: &Mechanism,
        (start, margin): (u64, u64),
        is_before: impl Fn(u64, u64) -> bool,
    ) -> Option<(u64, u64)> {
        let (here, next) = (mechanism.motion.cylinder, mechanism.motion.next);
        let mut best: Option<(u64, u64)> = None;
        let mut look_at = |spot: &Spot, seek: u64, margin: u64| {
            let from = start.max(spot.from).saturating_add(margin);
            let reached = mechanism.reach(spot, from, seek);
            let is_better = |(other, key): (u64, u64)| {
                reached < other || reached == other && is_before(spot.key, key)
            };
            if best.is_none_or(is_better) {
                best = Some((reached, spot.key));
            }
            best
        };
        let mut found = None;
        for spot in self.0.iter().filter(|spot| spot.first == next) {
            let seek = mechanism.seek_time(spot.cylinder.abs_diff(here));
            found = look_at(spot, seek, 0);
        }
        for (distance, spot) in self.outward(here) {
            let (seek, margin) = (mechanism.seek_time(distance), margin * u64::from(distance > 0));
            let least = start.saturating_add(margin + seek).saturating_sub(mechanism.write_less);
            if found.is_some_and(|(reached, _)| reached < least) {
                break;
            }
            if spot.first != next {
                found = look_at(spot, seek, margin);
            }
        }
        found
    }

    /// Returns all positions with their distances, the nearest to cylinder `here` first.
    fn outward(&self, here: u32) -> impl Iterator<Item = (u32, &Spot)> {
        let (below, above) = self.0.split_at(self.0.partition_point(|spot| spot.cylinder < here));
        let (mut below, mut above) = (below.iter().rev(), above.iter());
        let (mut down, mut up) = (below.next(), above.next());
        std::iter::from_fn(move || {
            let below_by = down.map_or(u32::MAX, |spot| here - spot.cylinder);
            let above_by = up.map_or(u32::MAX, |spot| spot.cylinder - here);
            if below_by < above_by {
                return Some((below_by, std::mem::replace(&mut down, below.next())?));
            }
            Some((above_by, std::mem::replace(&mut up, above.next())?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::spec;
    use super::*;
    use crate::contract::Nanos;
    use crate::device::hdd::{HddSpec, SeekSpec};

    /// The search must return the same result as examining all positions, wherever the arm is, with
    /// and without a margin.
    #[test]
    fn the_nearest_of_few_is_the_nearest_of_all() {
        let curve = [(1, 1), (20, 4), (99, 20)].map(|(by, ms)| (by, Nanos::from_millis(ms)));
        let disk = HddSpec {
            seek: SeekSpec::Table(curve.to_vec()),
            write_settle: Nanos::from_millis(1),
            ..spec().disk
        };
        let mut mechanism = Mechanism::new(&disk, None).unwrap();
        let (sectors, mut state) = (mechanism.surface.sectors, 1_u64);
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        let (mut spots, mut all) = (Spots::default(), Vec::new());
        for key in 0..4000 {
            let (first, from) = (random(sectors), random(2) * random(30_000_000));
            let spot = Spot { key, ..mechanism.spot(first, from, random(2) == 0) };
            spots.insert(spot);
            all.push(spot);
            if all.len() > 40 {
                let gone = all.swap_remove(random(40) as usize);
                spots.remove(&gone);
                let late = &mut all[random(40) as usize];
                late.from += 1_000_000;
                spots.delay(late, late.from);
            }
            let start = random(20_000_000);
            let margin = random(2) * 3_000_000;
            mechanism.motion.next = random(sectors);
            mechanism.motion.cylinder = mechanism.surface.place(mechanism.motion.next).cylinder;
            if random(2) == 0 {
                mechanism.motion.next = all[random(all.len() as u64) as usize].first;
            }
            mechanism.write_less = random(2) * 2_000_000;
            let of_all = all.iter().map(|spot| {
                let seek = mechanism.seek_time(spot.cylinder.abs_diff(mechanism.motion.cylinder));
                let margin = match spot.cylinder == mechanism.motion.cylinder {
                    true => 0,
                    false if spot.first == mechanism.motion.next => 0,
                    false => margin,
                };
                (mechanism.reach(spot, start.max(spot.from) + margin, seek), spot.key)
            });
            let found = spots.nearest(&mechanism, (start, margin), |a, b| a < b);
            assert_eq!(found, of_all.min());
        }
    }
}
