//! How far an answer hangs on what is assumed of a drive's controller: the recommended scheduler and the baseline again,
//! with one part of it at a time halved and doubled.

use serde::Serialize;

use super::judge::TOO_FEW;
use crate::devices::{OpenDevice, Varied};
use crate::error::Error;
use crate::input::Input;
use crate::progress::{Telling, Told};
use crate::quantities::percent;
use crate::simulate::{Bed, RunResult, Setup, run_all};

/// What the recommended scheduler saves on a drive that is not quite as assumed.
#[derive(Clone, Debug, Serialize)]
pub struct Sensitivity {
    /// The part of the controller that differs.
    pub part: String,
    /// So many times as large as assumed.
    pub times: f64,
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

/// `chosen` against `baseline` on every drive that `device` may be, by what is assumed of it; nothing where they are one.
pub(super) fn sensitivity(
    input: &Input,
    device: &OpenDevice,
    [baseline, chosen]: [&RunResult; 2],
    setup: Setup,
    jobs: usize,
    progress: Telling<'_>,
) -> Result<Vec<Sensitivity>, Error> {
    if baseline.policy == chosen.policy || baseline.figures.requests < TOO_FEW {
        return Ok(Vec::new());
    }
    let names = [&baseline.policy[..], &chosen.policy[..]];
    let varied = device.varied();
    let count = varied.len() as f64;
    let on = |(at, Varied { part, times, device }): (usize, Varied)| {
        let runs = run_all(input, Bed::of(&device), &names, setup, jobs, &mut |told: &Told| {
            let done_share = (at as f64 + told.done_share) / count;
            progress(&Told { doing: format!("with {times} times the {part}"), done_share })
        })?;
        let [baseline, chosen] = &runs[..] else { return Err(Error::Unfit(device.name)) };
        Ok(Sensitivity::of(part, times, &baseline.result, &chosen.result))
    };
    varied.into_iter().enumerate().map(on).collect()
}

impl Sensitivity {
    fn of(part: &str, times: f64, baseline: &RunResult, chosen: &RunResult) -> Sensitivity {
        let saved = |is: f64, was: f64| 1.0 - is / was.max(1e-9) + 0.0;
        let tail = |is: Option<f64>, was: Option<f64>, count: u64| {
            is.zip(was).filter(|_| count >= TOO_FEW).map(|(is, was)| saved(is, was))
        };
        let (now, before) = (&chosen.figures, &baseline.figures);
        Sensitivity {
            part: part.to_string(),
            times,
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
    let assumed = Sensitivity::of("", 1.0, baseline, chosen);
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
        let size = if one.times < 1.0 { "half" } else { "twice" };
        format!(
            " With {size} the {} it turns round: measure the drive (docs/measure-a-drive.md) before you rely on it.",
            one.part
        )
    });
    Some(format!(
        "What is assumed of the drive, halved and doubled one by one ({}): {} saves {} against {}.{}",
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
    fn a_gain_that_turns_round_is_told() {
        let advice = sample::advice();
        let (mut baseline, mut chosen) = (advice.runs[0].clone(), advice.runs[0].clone());
        chosen.policy = "clook".to_string();
        (baseline.figures.busy_s, chosen.figures.busy_s) = (100.0, 88.0);
        let runs = [&baseline, &chosen];
        let one = |times: f64, busy_s: f64| {
            let other = RunResult {
                figures: Figures { busy_s, ..chosen.figures.clone() },
                ..chosen.clone()
            };
            Sensitivity::of("memory for reads", times, &baseline, &other)
        };
        let calm = told(&[one(0.5, 92.0), one(2.0, 85.0)], runs, "disk busy time").unwrap();
        assert!(calm.contains("one by one (memory for reads): clook saves 8 % to 15 % of disk busy time (12 % as assumed)"), "{calm}");
        assert!(calm.ends_with(&format!(" against {}.", baseline.policy)), "{calm}");
        let turned = told(&[one(0.5, 92.0), one(2.0, 103.0)], runs, "disk busy time").unwrap();
        assert!(
            turned.contains("-3 % to 8 %")
                && turned.contains("With twice the memory for reads it turns round"),
            "{turned}"
        );
        assert_eq!(told(&[], runs, "total"), None);
    }
}
