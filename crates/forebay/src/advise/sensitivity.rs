//! How far an answer hangs on what is assumed of a drive's controller: the recommended scheduler and the baseline again,
//! with one part of it at a time at both ends of its range, or halved and doubled. What is not better at both ends of a
//! range is not recommended ([`super::choice::Choice::holds`]).

use forebay_show::plural::listed;
use serde::Serialize;

use super::choice::Choice;
use super::judge::{TOO_FEW, tells_latencies};
use crate::devices::{OpenDevice, Varied};
use crate::error::Error;
use crate::input::Input;
use crate::jobs::{Tell, side_by_side};
use crate::progress::Telling;
use crate::quantities::percent;
use crate::simulate::{Bed, RunResult, Setup, run_on};

/// What the recommended scheduler saves on a drive that is not quite as assumed.
#[derive(Clone, Debug, Serialize)]
pub struct Sensitivity {
    /// The part of the controller that differs.
    pub part: String,
    /// What is put in its place.
    pub with: String,
    /// The baseline's total time there.
    pub baseline_total_s: f64,
    /// The recommended scheduler's.
    pub total_s: f64,
    /// Share of the baseline's total time that it saves.
    pub gain_share: f64,
    /// Likewise of the read latency that 99 % do not exceed; none of too few reads.
    pub read_p99_gain_share: Option<f64>,
    /// Likewise of that of writes.
    pub write_p99_gain_share: Option<f64>,
}

/// A scheduler that is not better than the baseline on every drive that the device may be.
pub(super) struct Unsure {
    pub(super) policy: String,
    /// What it saves on these drives.
    pub(super) drives: Vec<Sensitivity>,
}

/// Schedulers' runs on drives that are not quite as assumed, each of which is done once.
pub(super) struct Reruns<'a> {
    input: &'a Input,
    setup: Setup,
    jobs: usize,
    /// What differs in the drive, and the run.
    done: Vec<(String, RunResult)>,
}

impl<'a> Reruns<'a> {
    /// None so far; `jobs` of them fit memory at a time.
    pub(super) fn new(input: &'a Input, setup: Setup, jobs: usize) -> Reruns<'a> {
        Reruns { input, setup, jobs, done: Vec::new() }
    }

    /// The run of `policy` on the drive that differs by `with`, if there was one.
    pub(super) fn done(&self, with: &str, policy: &str) -> Option<&RunResult> {
        let is = |(differs, run): &&(String, RunResult)| differs == with && run.policy == policy;
        self.done.iter().find(is).map(|(_, run)| run)
    }

    /// `chosen` against `baseline` on each of the drives that are `varied`; nothing where they are one.
    pub(super) fn sensitivity(
        &mut self,
        varied: &[Varied],
        [baseline, chosen]: [&RunResult; 2],
        progress: Telling<'_>,
    ) -> Result<Vec<Sensitivity>, Error> {
        if baseline.policy == chosen.policy || baseline.figures.requests < TOO_FEW {
            return Ok(Vec::new());
        }
        let policies = [&baseline.policy[..], &chosen.policy[..]];
        self.run(varied, policies, progress)?;
        let saved = |Varied { part, with, .. }: &Varied| {
            let [baseline, chosen] = policies.map(|policy| self.done(with, policy));
            Some(Sensitivity::of(part, with.clone(), baseline?, chosen?))
        };
        Ok(varied.iter().filter_map(saved).collect())
    }

    /// Runs each of `policies` on each of the drives that are `varied`, unless that was done.
    fn run(
        &mut self,
        varied: &[Varied],
        policies: [&str; 2],
        progress: Telling<'_>,
    ) -> Result<(), Error> {
        let pairs = varied.iter().flat_map(|one| policies.map(|policy| (one, policy)));
        let is_new = |(one, policy): &(&Varied, &str)| self.done(&one.with, policy).is_none();
        let new: Vec<(&Varied, &str)> = pairs.filter(is_new).collect();
        let names: Vec<String> = new.iter().map(|(one, _)| format!("with {}", one.with)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let jobs = (self.jobs, self.input.description.records.saturating_mul(2));
        let work = |at: usize, tell: Tell<'_>| {
            let (Varied { device, .. }, policy) = new[at];
            Ok(run_on(self.input, Bed::of(device), policy, self.setup, tell)?.result)
        };
        let runs = side_by_side(&names, jobs, 0.0..1.0, work, progress)?;
        self.done.extend(new.iter().map(|(one, _)| one.with.clone()).zip(runs));
        Ok(())
    }
}

/// `choice` without what is not better than the baseline on every drive that `device` may be: what it would use, and
/// what it would have Linux use. And what was passed over for that.
pub(super) fn on_every_drive<'a>(
    device: &OpenDevice,
    mut choice: Choice<'a>,
    reruns: &mut Reruns<'_>,
    progress: Telling<'_>,
) -> Result<(Choice<'a>, Vec<Unsure>), Error> {
    let (mut sure, mut unsure): (Vec<String>, Vec<Unsure>) = (Vec::new(), Vec::new());
    let margins = device.at_margins();
    loop {
        let used = [choice.best(), choice.today()].into_iter().flatten();
        let unknown = |policy: &&str| !sure.iter().any(|known| known == policy);
        let run = used.filter(unknown).find_map(|policy| choice.run(policy));
        let Some(run) = run.filter(|_| !margins.is_empty()) else { return Ok((choice, unsure)) };
        let runs = [choice.baseline(), run];
        let drives = reruns.sensitivity(&margins, runs, progress)?;
        match drives.iter().all(|one| choice.holds(&run.policy, one)) {
            true => sure.push(run.policy.clone()),
            false => {
                choice = choice.without(&run.policy);
                unsure.push(Unsure { policy: run.policy.clone(), drives });
            }
        }
    }
}

impl Sensitivity {
    /// What is saved: "3 % of disk busy time and 12 % of read p99".
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

/// In words, of runs as assumed and otherwise; `total` is what a total time is called.
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
    let loses = |one: &&Sensitivity| (one.gain_share < 0.0) != (assumed.gain_share < 0.0);
    let turns = all.iter().find(loses).map(|one| {
        format!(
            " With {} it turns round: measure the drive (docs/measure-a-drive.md) before you rely on it.",
            one.with
        )
    });
    Some(format!(
        "What is assumed of the drive, at both ends of its range or halved and doubled, one by one ({}): {} saves {} \
         against {}.{}",
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
    use crate::devices::open;
    use crate::retrodict::tests::{input_of, records};
    use crate::statistics::Figures;
    use std::ops::ControlFlow;

    /// Each policy runs once on each drive, and what is told is what running both again would tell.
    #[test]
    fn what_was_run_is_not_run_again() {
        let (input, device) = (input_of(records(300, 9_000)), open("st1000nm0011").unwrap());
        let (setup, margins) = (Setup::default(), device.at_margins());
        let run = |policy, on: &OpenDevice| {
            run_on(&input, Bed::of(on), policy, setup, &mut crate::progress::untold).unwrap().result
        };
        let [baseline, one, other] = ["noop", "clook", "deadline"].map(|name| run(name, &device));
        let mut reruns = Reruns::new(&input, setup, 2);
        let mut saved = |varied: &[Varied], chosen| {
            let mut told = 0;
            let mut tell = |_: &crate::progress::Told| {
                told += 1;
                ControlFlow::Continue(())
            };
            let saved = reruns.sensitivity(varied, [&baseline, chosen], &mut tell).unwrap();
            let runs = reruns.done.len();
            (saved, runs, told > 0)
        };
        let (first, runs, is_told) = saved(&margins[..1], &one);
        assert_eq!((first.len(), runs, is_told), (1, 2, true));
        assert_eq!(saved(&margins, &one).1, 4);
        let (again, runs, is_told) = saved(&margins, &one);
        assert_eq!((again.len(), runs, is_told), (2, 4, false));
        let (third, runs, _) = saved(&margins, &other);
        assert_eq!((third.len(), runs), (2, 6));
        for (found, chosen) in [(&again, "clook"), (&third, "deadline")] {
            for (found, Varied { part, with, device }) in found.iter().zip(&margins) {
                let alone = [run("noop", device), run(chosen, device)];
                let alone = Sensitivity::of(part, with.clone(), &alone[0], &alone[1]);
                assert_eq!(format!("{found:?}"), format!("{alone:?}"));
            }
        }
    }

    #[test]
    fn a_gain_that_turns_round_is_told() {
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
        assert!(calm.contains("one by one (memory for reads): clook saves 8 % to 15 % of disk busy time (12 % as assumed)"), "{calm}");
        assert!(calm.ends_with(&format!(" against {}.", baseline.policy)), "{calm}");
        let turned = told(
            &[one("half the memory for reads", 92.0), one("twice the memory for reads", 103.0)],
            runs,
            "disk busy time",
        )
        .unwrap();
        assert!(
            turned.contains("-3 % to 8 %")
                && turned.contains("With twice the memory for reads it turns round"),
            "{turned}"
        );
        assert_eq!(told(&[], runs, "total"), None);
    }
}
