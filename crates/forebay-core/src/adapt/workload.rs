//! The paper's workloads A, B1, B2, C1 and C2 (section 4.2), generated from a seed.
//!
//! Each write goes to a random unit. The writes of one unit come in *runs*: "a particular file
//! segment receives a number of recurring writes that last for a certain period". The paper does
//! not specify whether a run repeats one size or only has a bias, how long it lasts, or what
//! follows it, so these are parameters. Our interpretation is that a run repeats one size, 8 times
//! in B1 and C1 and 32 times in B2 and C2. The next run draws a new size, with a probability of 90
//! % from the larger half in B and from the smaller half in C.

use super::costs::Class;
use crate::random::{below, next};

/// How the sizes within a run are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Within {
    /// One random size is repeated throughout the run.
    Repeats,
    /// A size is drawn for each write, with the bias of the run.
    Draws,
}

/// The bias of the run that follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// The next run draws its size with the same bias.
    SameBias,
    /// The opposite bias.
    OppositeBias,
}

/// A workload of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// The number of units that are written; at least 1.
    pub units: u32,
    /// The mean number of writes per unit.
    pub writes_per_unit: u32,
    /// The number of chunks of the largest write, from 2 to 64. Sizes above half of it are large.
    pub width: u8,
    /// The percentage of large writes.
    pub large_percent: u8,
    /// The number of writes in a run; at least 1.
    pub run: u32,
    /// How the sizes within a run are chosen.
    pub within: Within,
    /// The bias of the run that follows.
    pub after: After,
    /// The seed of the random numbers.
    pub seed: u64,
}

impl Mix {
    /// Returns workload A: all sizes are equally likely at any time.
    pub fn a(units: u32, writes_per_unit: u32, seed: u64) -> Mix {
        let (within, after) = (Within::Repeats, After::SameBias);
        Mix { units, writes_per_unit, width: 4, large_percent: 50, run: 1, within, after, seed }
    }

    /// Returns workload B, with a bias to large writes; `run` is 8 in B1 and 32 in B2.
    pub fn b(units: u32, writes_per_unit: u32, run: u32, seed: u64) -> Mix {
        Mix { large_percent: 90, run, ..Mix::a(units, writes_per_unit, seed) }
    }

    /// Returns workload C, with a bias to small writes; `run` is 8 in C1 and 32 in C2.
    pub fn c(units: u32, writes_per_unit: u32, run: u32, seed: u64) -> Mix {
        Mix { large_percent: 10, run, ..Mix::a(units, writes_per_unit, seed) }
    }

    /// Returns the writes, each with the number of its unit and its class.
    pub fn draws(&self) -> Draws {
        let mut dice = self.seed;
        let units = self.units.max(1);
        let runs =
            (0..units).map(|_| Run { dice: next(&mut dice), left: 0, flipped: false, class: 0 });
        let runs = runs.collect();
        Draws { mix: *self, dice, runs, left: u64::from(units) * u64::from(self.writes_per_unit) }
    }
}

/// The state of a unit's current run. Each unit has its own random numbers, so its sizes do not
/// depend on the order of units.
#[derive(Clone, Copy, Debug)]
struct Run {
    dice: u64,
    left: u32,
    flipped: bool,
    class: Class,
}

/// The writes of a [`Mix`].
#[derive(Clone, Debug)]
pub struct Draws {
    mix: Mix,
    dice: u64,
    runs: Vec<Run>,
    left: u64,
}

impl Iterator for Draws {
    type Item = (u32, Class);

    fn next(&mut self) -> Option<(u32, Class)> {
        self.left = self.left.checked_sub(1)?;
        let unit = below(&mut self.dice, self.runs.len() as u64);
        let class = self.runs[unit as usize].next(&self.mix);
        Some((unit as u32, class))
    }
}

impl Run {
    fn next(&mut self, mix: &Mix) -> Class {
        let begins = self.left == 0;
        if begins {
            self.left = mix.run.max(1);
        }
        if begins || mix.within == Within::Draws {
            self.class = self.draw(mix);
        }
        self.left -= 1;
        if self.left == 0 && mix.after == After::OppositeBias {
            self.flipped = !self.flipped;
        }
        self.class
    }

    fn draw(&mut self, mix: &Mix) -> Class {
        let width = u64::from(mix.width.clamp(2, 64));
        let small = width / 2;
        let large = below(&mut self.dice, 100) < u64::from(mix.large_percent.min(100));
        let (from, sizes) = if large != self.flipped { (small, width - small) } else { (0, small) };
        (from + below(&mut self.dice, sizes)) as Class
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the requests that one unit receives.
    fn received(mix: &Mix, unit: u32) -> Vec<Class> {
        mix.draws().filter(|&(at, _)| at == unit).map(|(_, class)| class).collect()
    }

    #[test]
    fn the_same_seed_gives_the_same_writes_and_as_many_as_asked_for() {
        let mix = Mix::b(50, 20, 8, 1);
        assert!(mix.draws().eq(mix.draws()));
        assert!(!mix.draws().eq(Mix { seed: 2, ..mix }.draws()));
        assert_eq!(mix.draws().count(), 1000);
    }

    #[test]
    fn sizes_are_biased_nine_to_one() {
        let large =
            |mix: Mix| mix.draws().filter(|&(_, class)| class >= 2).count() as f64 / 100_000.0;
        let near = |share: f64, of: f64| assert!((share - of).abs() < 0.01, "{share} for {of}");
        near(large(Mix::a(1000, 100, 3)), 0.5);
        near(large(Mix::b(1000, 100, 1, 3)), 0.9);
        near(large(Mix::c(1000, 100, 2, 3)), 0.1);
    }

    #[test]
    fn a_run_repeats_one_size() {
        let writes = received(&Mix::b(3, 400, 8, 4), 1);
        assert!(writes.chunks(8).all(|run| run.iter().all(|class| *class == run[0])));
        assert!(writes.chunks(8).any(|run| run[0] != writes[0]));
    }

    #[test]
    fn the_bias_reverses_after_each_run() {
        let mix = Mix {
            large_percent: 100,
            within: Within::Draws,
            after: After::OppositeBias,
            ..Mix::b(3, 400, 8, 4)
        };
        let writes = received(&mix, 0);
        let is_large = |run: &[Class]| run.iter().all(|&class| class >= 2);
        let is_small = |run: &[Class]| run.iter().all(|&class| class < 2);
        for (number, run) in writes.chunks(8).enumerate() {
            assert!(if number % 2 == 0 { is_large(run) } else { is_small(run) });
        }
    }

    #[test]
    fn bad_values_are_clamped() {
        let mix = Mix { units: 0, width: 0, large_percent: 255, run: 0, ..Mix::a(1, 10, 1) };
        assert!(
            mix.draws().eq((0..0).map(|_| (0, 0)))
                || mix.draws().all(|(unit, class)| unit == 0 && class < 2)
        );
    }
}
