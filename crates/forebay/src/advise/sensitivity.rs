//! How much an answer depends on assumptions about a drive's controller. The recommended scheduler
//! and the baseline run again with one parameter changed at a time: set to either end of its range,
//! or halved and doubled. A scheduler that is not better at both ends of a range is not recommended
//! ([`super::choice::Choice::holds`]).

use forebay_words::plural::listed;
use serde::Serialize;

use super::{Choice, Drives, SHARE_THAT_MATTERS, TOO_FEW, tells_latencies};
use crate::devices::Varied;
use crate::quantities::percent;
use crate::{Error, ProgressReport, RunResult, Setup, Telling};

/// What the recommended scheduler saves on a drive that differs in one parameter from the assumed
/// one.
#[derive(Clone, Debug, Serialize)]
pub struct Sensitivity {
    /// The part of the controller whose parameter is changed.
    pub part: String,
    /// The value used in place of the assumed one, formatted.
    pub with: String,
    /// The baseline's total time on the drive with the changed parameter, in seconds.
    pub baseline_total_s: f64,
    /// The recommended scheduler's total time on the drive with the changed parameter, in seconds.
    pub total_s: f64,
    /// The share of the baseline's total time that the recommended scheduler saves on that drive.
    pub gain_share: f64,
    /// The share by which the recommended scheduler lowers the 99th percentile of reads; `None` if
    /// there are too few reads.
    pub read_p99_gain_share: Option<f64>,
    /// The share by which the recommended scheduler lowers the 99th percentile of writes; `None` if
    /// there are too few writes.
    pub write_p99_gain_share: Option<f64>,
}

/// A scheduler that is not better than the baseline on every drive that the device may stand for.
pub(super) struct Unsure {
    pub(super) policy: String,
    /// What the scheduler saves on each of these drives.
    pub(super) drives: Vec<Sensitivity>,
    /// The replay in which the savings were measured, unless it is the leading one.
    pub(super) how: Option<&'static str>,
}

/// Compares `chosen` with `baseline` on each of the first `count` of `drives`. Returns an empty
/// list if the two are the same scheduler.
pub(super) fn sensitivity(
    drives: &Drives<'_>,
    count: usize,
    [baseline, chosen]: [&RunResult; 2],
    setup: Setup,
    jobs: usize,
    progress: Telling<'_>,
) -> Result<Vec<Sensitivity>, Error> {
    if baseline.policy == chosen.policy || baseline.figures.requests < TOO_FEW {
        return Ok(Vec::new());
    }
    let names = [&baseline.policy[..], &chosen.policy[..]];
    let on = |(at, varied): (usize, &Varied)| {
        let [was, is] = drives.both(at, names, setup, jobs, &mut |told: &ProgressReport| {
            progress(&drives.told(at, (at as f64 + told.done_share) / count as f64))
        })?;
        Ok(Sensitivity::of(varied.part, varied.with.clone(), &was, &is))
    };
    drives.all()[..count].iter().enumerate().map(on).collect()
}

/// Excludes schedulers that are not better than the baseline in each replay and on every drive that
/// the device may stand for. Checks the best scheduler in `choice` and the best one in Linux. Also
/// returns the schedulers that it excluded. `other` is the choice in the other replay, with that
/// replay's setup.
pub(super) fn on_every_drive<'a>(
    drives: &Drives<'_>,
    mut choice: Choice<'a>,
    setup: Setup,
    other: Option<(&Choice<'_>, Setup)>,
    jobs: usize,
    progress: Telling<'_>,
) -> Result<(Choice<'a>, Vec<Unsure>), Error> {
    let (mut sure, mut unsure): (Vec<String>, Vec<Unsure>) = (Vec::new(), Vec::new());
    let (count, mut done_share) = (drives.at_margins().len(), 0.0);
    loop {
        let used = [choice.best(), choice.today()].into_iter().flatten();
        let unknown = |policy: &&str| !sure.iter().any(|known| known == policy);
        let run = used.filter(unknown).find_map(|policy| choice.run(policy));
        let Some(run) = run.filter(|_| count > 0) else { return Ok((choice, unsure)) };
        let fails = {
            let leading = (&choice, setup, None);
            let other = other.map(|(choice, setup)| (choice, setup, Some(setup.replay.as_told())));
            let mut fails = None;
            for (choice, setup, how) in std::iter::once(leading).chain(other) {
                let runs = [choice.baseline(), run];
                // The number of comparisons is unknown, so each takes half of the remaining bar.
                let (begun, left) = (done_share, (1.0 - done_share) / 2.0);
                done_share += left;
                let mut tell = |told: &ProgressReport| {
                    let done_share = begun + told.done_share * left;
                    progress(&ProgressReport { done_share, ..told.clone() })
                };
                let there = sensitivity(drives, count, runs, setup, jobs, &mut tell)?;
                if !there.iter().all(|one| choice.holds(&run.policy, one)) {
                    fails = Some((there, how));
                    break;
                }
            }
            fails
        };
        match fails {
            None => sure.push(run.policy.clone()),
            Some((drives, how)) => {
                choice = choice.without(&run.policy);
                unsure.push(Unsure { policy: run.policy.clone(), drives, how });
            }
        }
    }
}

impl Sensitivity {
    /// Returns whether a figure improves here and worsens under `assumed`, or vice versa, by enough
    /// to matter in both cases.
    fn turns(&self, assumed: &Sensitivity) -> bool {
        let figures = [
            (Some(self.gain_share), Some(assumed.gain_share)),
            (self.read_p99_gain_share, assumed.read_p99_gain_share),
            (self.write_p99_gain_share, assumed.write_p99_gain_share),
        ];
        let turns = |(here, there): (Option<f64>, Option<f64>)| {
            let (here, there) = (here.unwrap_or(0.0), there.unwrap_or(0.0));
            here.min(there) <= -SHARE_THAT_MATTERS && here.max(there) >= SHARE_THAT_MATTERS
        };
        figures.into_iter().any(turns)
    }

    /// Formats the savings, as in "3 % of disk busy time and 12 % of read p99".
    pub(super) fn saved(&self, total: &str) -> String {
        let shares = [
            (Some(self.gain_share), total),
            (self.read_p99_gain_share, "read p99"),
            (self.write_p99_gain_share, "write p99"),
        ];
        let told = |(share, of): (Option<f64>, &str)| Some(format!("{} of {of}", percent(share?)));
        listed(&shares.into_iter().filter_map(told).collect::<Vec<_>>())
    }

    pub(super) fn of(
        part: &str,
        with: String,
        baseline: &RunResult,
        chosen: &RunResult,
    ) -> Sensitivity {
        let saved = |is: f64, was: f64| 1.0 - is / was.max(1e-9) + 0.0;
        let tail = |is: Option<f64>, was: Option<f64>, count: u64| {
            is.zip(was)
                .filter(|_| count >= TOO_FEW && tells_latencies(baseline))
                .map(|(is, was)| saved(is, was))
        };
        let (now, before) = (&chosen.figures, &baseline.figures);
        Sensitivity {
            part: part.to_string(),
            with,
            baseline_total_s: baseline.total_s(),
            total_s: chosen.total_s(),
            gain_share: saved(chosen.total_s(), baseline.total_s()),
            read_p99_gain_share: tail(now.read_p99_ms, before.read_p99_ms, now.reads),
            write_p99_gain_share: tail(now.write_p99_ms, before.write_p99_ms, now.writes),
        }
    }
}

/// Formats the savings on the assumed drive and on other drives; `total` is the name for the total
/// time.
pub(super) fn told(
    all: &[Sensitivity],
    [baseline, chosen]: [&RunResult; 2],
    total: &str,
) -> Option<String> {
    let first = all.first()?;
    let assumed = Sensitivity::of("", String::new(), baseline, chosen);
    let range = |of: fn(&Sensitivity) -> Option<f64>| {
        let least = all.iter().filter_map(of).fold(f64::MAX, f64::min);
        let most = all.iter().filter_map(of).fold(f64::MIN, f64::max);
        Some((of(&assumed)?, least, most)).filter(|_| of(first).is_some())
    };
    let figures = [
        (total, range(|one| Some(one.gain_share))),
        ("read p99", range(|one| one.read_p99_gain_share)),
        ("write p99", range(|one| one.write_p99_gain_share)),
    ];
    let one = |(name, range): (&str, Option<(f64, f64, f64)>)| {
        let (is, least, most) = range?;
        let [least, most, is] = [least, most, is].map(percent);
        Some(format!("{least} to {most} of {name} ({is} as assumed)"))
    };
    let figures: Vec<String> = figures.into_iter().filter_map(one).collect();
    let mut parts: Vec<&str> = all.iter().map(|one| &one.part[..]).collect();
    parts.dedup();
    let turns = all.iter().find(|one| one.turns(&assumed)).map(|one| {
        format!(
            " With {} the gain becomes a loss: measure the drive (docs/measure-a-drive.md) before \
             you rely on this answer.",
            one.with
        )
    });
    Some(format!(
        "With each assumed figure of the drive at both ends of its range, or halved and doubled, \
         one at a time ({}): {} saves {} compared with {}.{}",
        parts.join(", "),
        chosen.policy,
        figures.join(", "),
        baseline.policy,
        turns.unwrap_or_default()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::sample;
    use crate::statistics::Figures;

    #[test]
    fn a_gain_that_becomes_a_loss_is_reported() {
        let advice = sample::advice();
        let (mut baseline, mut chosen) = (advice.runs[0].clone(), advice.runs[0].clone());
        chosen.policy = "clook".to_string();
        (baseline.figures.busy_s, chosen.figures.busy_s) = (100.0, 88.0);
        let runs = [&baseline, &chosen];
        let one = |with: &str, busy_s: f64| {
            let other = RunResult {
                figures: Figures { busy_s, ..chosen.figures.clone() },
                ..chosen.clone()
            };
            Sensitivity::of("memory for reads", with.to_string(), &baseline, &other)
        };
        let calm = told(
            &[one("half the memory for reads", 92.0), one("twice the memory for reads", 85.0)],
            runs,
            "disk busy time",
        )
        .unwrap();
        assert!(
            calm.contains(
                "one at a time (memory for reads): clook saves 8.00 % to 15.0 % of disk \
            busy time (12.0 % as assumed)"
            ),
            "{calm}"
        );
        assert!(calm.ends_with(&format!(" compared with {}.", baseline.policy)), "{calm}");
        // A change of sign within 3 % is not significant.
        let slight = told(&[one("twice the memory for reads", 101.0)], runs, "disk busy time");
        assert!(!slight.unwrap().contains("the gain becomes a loss"));
        let turned = told(
            &[one("half the memory for reads", 92.0), one("twice the memory for reads", 103.0)],
            runs,
            "disk busy time",
        )
        .unwrap();
        assert!(
            turned.contains("-3.00 % to 8.00 %")
                && turned.contains("With twice the memory for reads the gain becomes a loss"),
            "{turned}"
        );
        assert_eq!(told(&[], runs, "total"), None);
    }
}
