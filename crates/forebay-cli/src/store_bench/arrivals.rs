//! Schedules when operations begin.
//!
//! In a closed loop, an operation begins when a client becomes free. In an open loop, the schedule
//! is fixed in advance, so a slow server cannot delay it.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use forebay_trace::{Reader, TraceError};
use rand_distr::{Distribution, Gamma};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use forebay_core::random::mix;

/// An arrival process, which determines the times between operations.
pub(super) enum Process {
    /// Gamma-distributed gaps. With shape 1, this is a Poisson process.
    Gamma(Gamma<f64>, Box<Xoshiro256PlusPlus>),
    /// The gaps between the requests of a trace, repeated as often as necessary.
    Recorded { gaps_s: Vec<f64>, at: usize },
}

impl Process {
    /// Creates a gamma process with `rate_per_s` arrivals per second on average.
    pub(super) fn gamma(shape: f64, rate_per_s: f64, seed: u64) -> Option<Process> {
        let gamma = Gamma::new(shape, 1.0 / (rate_per_s * shape)).ok()?;
        let dice = Xoshiro256PlusPlus::seed_from_u64(mix(seed ^ 0xA441_7A15));
        Some(Process::Gamma(gamma, Box::new(dice)))
    }

    /// Creates a process from the first `count` requests of a trace, rescaled to `rate_per_s` if
    /// given. Returns None if the trace has no arrival times.
    pub(super) fn recorded(
        mut reader: Box<dyn Reader>,
        count: u64,
        rate_per_s: Option<f64>,
    ) -> Result<Option<Process>, TraceError> {
        let (mut times, mut batch) = (Vec::new(), Vec::new());
        while (times.len() as u64) < count {
            reader.read(&mut batch)?;
            if batch.is_empty() {
                break;
            }
            times.extend(batch.iter().map(|record| record.at.as_secs_f64()));
        }
        times.truncate(count as usize);
        let span = times.last().unwrap_or(&0.0) - times.first().unwrap_or(&0.0);
        let steps = times.len().saturating_sub(1) as f64;
        if span <= 0.0 {
            return Ok(None);
        }
        let scale = rate_per_s.map_or(1.0, |rate| steps / rate / span);
        let gaps_s = times.windows(2).map(|pair| (pair[1] - pair[0]).max(0.0) * scale).collect();
        Ok(Some(Process::Recorded { gaps_s, at: 0 }))
    }

    fn gap_s(&mut self) -> f64 {
        match self {
            Process::Gamma(gamma, dice) => gamma.sample(dice),
            Process::Recorded { gaps_s, at } => {
                let gap = gaps_s[*at % gaps_s.len()];
                *at += 1;
                gap
            }
        }
    }
}

/// Assigns numbers and scheduled start times to operations.
pub(super) enum Turns {
    Closed { next: AtomicU64, count: u64 },
    Open { state: Mutex<(u64, f64, Process)>, count: u64 },
}

impl Turns {
    pub(super) fn closed(count: u64) -> Turns {
        Turns::Closed { next: AtomicU64::new(0), count }
    }

    pub(super) fn open(count: u64, process: Process) -> Turns {
        Turns::Open { state: Mutex::new((0, 0.0, process)), count }
    }

    /// Returns the number of the next operation and, in an open loop, its scheduled start relative
    /// to the start of the phase.
    pub(super) fn next(&self) -> Option<(u64, Option<Duration>)> {
        match self {
            Turns::Closed { next, count } => {
                let at = next.fetch_add(1, Ordering::Relaxed);
                (at < *count).then_some((at, None))
            }
            Turns::Open { state, count } => {
                let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                let (at, time_s, process) = &mut *state;
                if *at == *count {
                    return None;
                }
                let turn = (*at, Some(Duration::from_secs_f64(*time_s)));
                *at += 1;
                *time_s += process.gap_s();
                Some(turn)
            }
        }
    }
}

/// Returns the path of a trace, or None if `name` is the name of a process.
pub(super) fn trace(name: &str) -> Option<&Path> {
    (!["poisson", "gamma"].contains(&name)).then(|| Path::new(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(turns: &Turns) -> Vec<f64> {
        std::iter::from_fn(|| turns.next()).map(|(_, at)| at.unwrap().as_secs_f64()).collect()
    }

    #[test]
    fn arrivals_have_their_rate_and_their_burstiness() {
        // The squared coefficient of variation of a gamma distribution is 1 / shape.
        for (shape, expected) in [(1.0, 1.0), (0.25, 4.0), (4.0, 0.25)] {
            let turns = Turns::open(100_000, Process::gamma(shape, 500.0, 3).unwrap());
            let times = times(&turns);
            let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let spread = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>();
            let variation = spread / gaps.len() as f64 / mean.powi(2);
            assert!((mean * 500.0 - 1.0).abs() < 0.02, "{mean} at shape {shape}");
            assert!((variation / expected - 1.0).abs() < 0.1, "{variation} at shape {shape}");
        }
    }

    #[test]
    fn a_recording_restarts_at_its_beginning() {
        let gaps_s = vec![1.0, 2.0];
        let turns = Turns::open(6, Process::Recorded { gaps_s, at: 0 });
        assert_eq!(times(&turns), [0.0, 1.0, 3.0, 4.0, 6.0, 7.0]);
    }

    #[test]
    fn a_closed_loop_hands_out_each_operation_once() {
        let turns = Turns::closed(3);
        let all: Vec<_> = std::iter::from_fn(|| turns.next()).collect();
        assert_eq!(all, [(0, None), (1, None), (2, None)]);
    }
}
