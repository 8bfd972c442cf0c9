//! A scheduler that one replay or one drive alone would recommend, and its gains in each replay and
//! on each drive that the device may stand for.

use serde::Serialize;

use super::{
    Choice, OtherReplay, Prefer, Ranked, SHARE_THAT_MATTERS, Sensitivity, Unsure, Verdict,
};

/// A scheduler that may be better than the baseline, but not surely.
#[derive(Clone, Debug, Serialize)]
pub struct Uncertain {
    /// The scheduler.
    pub policy: String,
    /// The factor that determines whether a figure improves or worsens; `None` if no figure
    /// improves in one case and worsens in another, but the gain may be due to chance.
    pub depends_on: Option<DependsOn>,
    /// For each figure that counts, the range of the gains.
    pub gains: Vec<GainRange>,
}

/// What decides whether a scheduler makes a figure better or worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DependsOn {
    /// The replay mode: open and dependent replay give different results.
    Replay,
    /// Parameters of the drive that are not published.
    Drive,
}

/// The smallest and the largest share by which a scheduler lowers a figure of the baseline. A
/// negative share is a rise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GainRange {
    /// The figure: "read p99", "write p99" or "total time".
    pub figure: &'static str,
    /// The smallest gain in any replay and on any drive.
    pub least_share: f64,
    /// The largest gain.
    pub most_share: f64,
}

/// The gains in the total time and in the 99th percentiles of reads and of writes.
type Gains = [Option<f64>; 3];

/// The figures of [`Gains`].
const FIGURES: [(&str, Prefer); 3] =
    [("total time", Prefer::Total), ("read p99", Prefer::Reads), ("write p99", Prefer::Writes)];

impl Uncertain {
    /// Returns the scheduler that `verdict` is uncertain about, if it is.
    pub(super) fn of(
        verdict: Verdict,
        choice: &Choice<'_>,
        other: Option<&OtherReplay>,
        unsure: &[Unsure],
    ) -> Option<Uncertain> {
        let policy = match verdict {
            Verdict::Depends => other?.disputed.clone()?,
            Verdict::DependsOnDrive => unsure.first()?.policy.clone(),
            _ => return None,
        };
        let baseline = choice.baseline();
        let here = Sensitivity::of("", String::new(), baseline, choice.run(&policy)?);
        let there = other.and_then(|other| {
            Some(in_ranking(other.ranked(&policy)?, other.ranked(&baseline.policy)?))
        });
        let replays: Vec<Gains> = [of_drive(&here)].into_iter().chain(there).collect();
        let drives = unsure.iter().filter(|one| one.policy == policy).flat_map(|one| &one.drives);
        let drives: Vec<Gains> = drives.map(of_drive).collect();
        Uncertain::with(policy, &replays, &drives, |prefer| choice.counts(prefer))
    }

    fn with(
        policy: String,
        replays: &[Gains],
        drives: &[Gains],
        counts: impl Fn(Prefer) -> bool,
    ) -> Option<Uncertain> {
        let ranges = |cases: &[Gains]| -> Vec<GainRange> {
            let counted =
                FIGURES.into_iter().enumerate().filter(|(_, (_, prefer))| counts(*prefer));
            counted.filter_map(|(at, (name, _))| GainRange::of(name, at, cases)).collect()
        };
        let gains = ranges(&[replays, drives].concat());
        let turns = |gains: &[GainRange]| gains.iter().any(GainRange::turns);
        let depends_on = match (turns(&ranges(replays)), turns(&gains)) {
            (true, _) => Some(DependsOn::Replay),
            (false, true) => Some(DependsOn::Drive),
            (false, false) => None,
        };
        (!gains.is_empty()).then_some(Uncertain { policy, depends_on, gains })
    }

    /// Formats what is certain and what is not, as in "write p99 falls 38 to 43 %, but read p99 may
    /// fall 19 % or rise 20 %". Returns `None` if no figure changes by enough to matter.
    pub(super) fn said(&self) -> Option<String> {
        let of = |keep: fn(&&GainRange) -> bool| -> Vec<String> {
            self.gains.iter().filter(keep).filter_map(GainRange::said).collect()
        };
        let (good, bad) = (of(|gain| !gain.harms()), of(|gain| gain.harms()));
        match (good.is_empty(), bad.is_empty()) {
            (true, true) => None,
            (false, true) => Some(format!("{}, perhaps by chance", good.join(", "))),
            (true, false) => Some(bad.join(", ")),
            (false, false) => Some(format!("{}, but {}", good.join(", "), bad.join(", "))),
        }
    }
}

fn of_drive(one: &Sensitivity) -> Gains {
    [Some(one.gain_share), one.read_p99_gain_share, one.write_p99_gain_share]
}

fn in_ranking(one: &Ranked, baseline: &Ranked) -> Gains {
    let gain = |is: Option<f64>, was: Option<f64>| Some(1.0 - is? / was?.max(1e-9));
    [
        gain(Some(one.total_s), Some(baseline.total_s)),
        gain(one.read_p99_ms, baseline.read_p99_ms),
        gain(one.write_p99_ms, baseline.write_p99_ms),
    ]
}

impl GainRange {
    fn of(figure: &'static str, at: usize, cases: &[Gains]) -> Option<GainRange> {
        let shares = || cases.iter().filter_map(|gains| gains[at]);
        let least_share = shares().reduce(f64::min)?;
        Some(GainRange { figure, least_share, most_share: shares().reduce(f64::max)? })
    }

    /// Returns whether the figure gets worse in some case, by enough to matter.
    fn harms(&self) -> bool {
        self.least_share <= -SHARE_THAT_MATTERS
    }

    /// Returns whether the figure improves in at least one case.
    fn gains(&self) -> bool {
        self.most_share >= SHARE_THAT_MATTERS
    }

    /// Returns whether the figure improves in one case and worsens in another.
    fn turns(&self) -> bool {
        self.harms() && self.gains()
    }

    fn said(&self) -> Option<String> {
        let GainRange { figure, least_share, most_share } = *self;
        let whole = |share: f64| format!("{:.0}", share.abs() * 100.0);
        let [least, most] = [least_share, most_share].map(whole);
        let range = |a: String, b: String| if a == b { a } else { format!("{a} to {b}") };
        let [is_sure, is_sure_loss] =
            [least_share >= SHARE_THAT_MATTERS, most_share <= -SHARE_THAT_MATTERS];
        match (self.gains(), self.harms()) {
            (true, true) => Some(format!("{figure} may fall {most} % or rise {least} %")),
            (true, false) if is_sure => Some(format!("{figure} falls {} %", range(least, most))),
            (true, false) => Some(format!("{figure} may fall up to {most} %")),
            (false, true) if is_sure_loss => {
                Some(format!("{figure} rises {} %", range(most, least)))
            }
            (false, true) => Some(format!("{figure} may rise up to {least} %")),
            (false, false) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uncertain(replays: &[Gains], drives: &[Gains]) -> Uncertain {
        let tails = |prefer| prefer != Prefer::Total;
        Uncertain::with("none".into(), replays, drives, tails).unwrap()
    }

    #[test]
    fn certain_and_uncertain_figures_are_stated_together() {
        let one = uncertain(
            &[[Some(0.1), Some(0.05), Some(0.40)]],
            &[[Some(0.1), Some(0.197), Some(0.43)], [Some(0.1), Some(-0.195), Some(0.38)]],
        );
        assert_eq!(one.depends_on, Some(DependsOn::Drive));
        let expected = "write p99 falls 38 to 43 %, but read p99 may fall 20 % or rise 20 %";
        assert_eq!(one.said().unwrap(), expected);
    }

    /// Regression test: a scheduler that is nowhere worse does not depend on anything.
    #[test]
    fn assumptions_that_change_no_sign_are_not_mentioned() {
        let one =
            uncertain(&[[None, Some(0.0), Some(0.095)], [None, Some(0.043), Some(0.184)]], &[]);
        assert_eq!(one.depends_on, None);
        let expected = "read p99 may fall up to 4 %, write p99 falls 10 to 18 %, perhaps by chance";
        assert_eq!(one.said().unwrap(), expected);
        let turned = uncertain(&[[None, Some(0.1), None], [None, Some(-0.1), None]], &[]);
        assert_eq!(turned.depends_on, Some(DependsOn::Replay));
        assert_eq!(turned.said().unwrap(), "read p99 may fall 10 % or rise 10 %");
    }

    #[test]
    fn losses_are_stated_too() {
        let said = |least, most| {
            uncertain(&[[None, Some(least), None], [None, Some(most), None]], &[]).said()
        };
        assert_eq!(said(-0.2, -0.1).unwrap(), "read p99 rises 10 to 20 %");
        assert_eq!(said(-0.2, 0.01).unwrap(), "read p99 may rise up to 20 %");
        assert_eq!(said(-0.02, 0.02), None);
    }
}
