//! The results for the same disk without its controller, which serves one command at a time and
//! consists only of the arm and the platters. The papers' figures describe such disks. On a real
//! drive, its own queue and cache already achieve most of the savings that the papers report.

use serde::Serialize;

use crate::quantities::{percent, seconds};
use crate::simulate::{Bed, RunResult, Setup, run_all};
use crate::{Error, Input, OpenDevice, Telling};

/// The schedulers' results on a disk without its own queue and cache.
#[derive(Clone, Debug, Serialize)]
pub struct Plain {
    /// The name of the plain disk.
    pub device: String,
    /// The schedulers' results, the baseline's first.
    pub schedulers: Vec<OnBoth>,
}

/// The total time of a scheduler on the plain disk and on the real drive.
#[derive(Clone, Debug, Serialize)]
pub struct OnBoth {
    /// The scheduler's name.
    pub policy: String,
    /// The scheduler's total time on the plain disk, in seconds.
    pub plain_total_s: f64,
    /// The scheduler's total time on the drive with its controller, in seconds.
    pub total_s: f64,
}

impl Plain {
    /// Repeats `runs` on the plain form of `device`, the baseline's first. Returns `None` if the
    /// device has no plain form.
    pub(super) fn of(
        input: &Input,
        device: &OpenDevice,
        runs: &[&RunResult],
        setup: Setup,
        jobs: usize,
        progress: Telling<'_>,
    ) -> Result<Option<Plain>, Error> {
        let Some(plain) = device.plain() else { return Ok(None) };
        let names: Vec<&str> = runs.iter().map(|run| run.policy.as_str()).collect();
        let again = run_all(input, Bed::of(&plain), &names, setup, jobs, progress)?;
        let on_both = |(run, again): (&&RunResult, crate::simulate::Run)| OnBoth {
            policy: run.policy.clone(),
            plain_total_s: again.result.total_s(),
            total_s: run.total_s(),
        };
        let schedulers = runs.iter().zip(again).map(on_both).collect();
        Ok(Some(Plain { device: plain.name, schedulers }))
    }

    /// Formats the comparison; `total` is the name for the total time.
    pub(super) fn told(&self, total: &str) -> Option<String> {
        let [baseline, others @ ..] = &self.schedulers[..] else { return None };
        let times = |time: fn(&OnBoth) -> f64| {
            let from = time(baseline);
            let other = |on: &OnBoth| {
                let share = time(on) / from.max(1e-9) - 1.0;
                let word = if share > 0.0 { "more" } else { "less" };
                format!("{} {} ({} {word})", on.policy, seconds(time(on)), percent(share.abs()))
            };
            let others: Vec<String> = others.iter().map(other).collect();
            format!("{} {}, {}", baseline.policy, seconds(from), others.join(", "))
        };
        (!others.is_empty()).then(|| {
            format!(
                "The drive's own queue and cache already do part of a scheduler's work. {} with \
                 them: {}. On arm and platters alone, one command at a time, as papers model a \
                 disk ({}): {}.",
                capital(total),
                times(|on| on.total_s),
                self.device,
                times(|on| on.plain_total_s),
            )
        })
    }
}

fn capital(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map(char::to_uppercase).into_iter().flatten().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_disks_stand_beside_one_another() {
        let on = |policy: &str, plain_total_s, total_s| OnBoth {
            policy: policy.to_string(),
            plain_total_s,
            total_s,
        };
        let mut plain = Plain {
            device: "d:plain".to_string(),
            schedulers: vec![on("noop", 800.0, 400.0), on("bid", 400.0, 440.0)],
        };
        assert_eq!(
            plain.told("disk busy time").unwrap(),
            "The drive's own queue and cache already do part of a scheduler's work. Disk busy time with \
             them: noop 400 s, bid 440 s (10.0 % more). On arm and platters alone, one command at a \
             time, as papers model a disk (d:plain): noop 800 s, bid 400 s (50.0 % less)."
        );
        plain.schedulers.truncate(1);
        assert_eq!(plain.told("disk busy time"), None);
    }
}
