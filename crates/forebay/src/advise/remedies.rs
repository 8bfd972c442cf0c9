//! What may be done beside choosing a scheduler: data on flash, by offloading or caching, and
//! defragmentation. Each with figures on the same requests before and after, or the reason why it was
//! not tried.

use serde::Serialize;

use super::judge::{SHARE_THAT_MATTERS, tail_ms};
use crate::quantities::bytes;
use crate::simulate::RunResult;

/// What a remedy works with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RemedyKind {
    /// Another order of requests.
    Scheduling,
    /// Blocks laid in the order they are read.
    Defragmentation,
    /// Writes of those who write little at a time on flash.
    Offloading,
    /// Blocks used again on flash.
    Caching,
}

impl RemedyKind {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            RemedyKind::Scheduling => "scheduling",
            RemedyKind::Defragmentation => "defragmentation",
            RemedyKind::Offloading => "offloading",
            RemedyKind::Caching => "caching",
        }
    }
}

/// The baseline on the requests that a remedy's figures are of.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Before {
    /// Total time.
    pub total_s: f64,
    /// Read latency that 99 % do not exceed.
    pub read_p99_ms: Option<f64>,
    /// Write latency that 99 % do not exceed.
    pub write_p99_ms: Option<f64>,
}

impl Before {
    pub(super) fn of(run: &RunResult) -> Before {
        Before {
            total_s: run.total_s(),
            read_p99_ms: run.figures.read_p99_ms,
            write_p99_ms: run.figures.write_p99_ms,
        }
    }
}

/// A remedy, tried or not.
#[derive(Clone, Debug, Serialize)]
pub struct Remedy {
    /// What it works with.
    pub kind: RemedyKind,
    /// The policy, as `simulate --policy` takes it; of defragmentation, the scheduler above it.
    pub policy: String,
    /// Flash it needs.
    pub flash_bytes: u64,
    /// Data it moves on the disk: each byte is read once and written once.
    pub moved_bytes: u64,
    /// Requests that the figures are of, the last of the trace: of defragmentation those that it was
    /// not learnt from, else all.
    pub requests: u64,
    /// The baseline on the same requests; none if it was not tried.
    pub before: Option<Before>,
    /// Total time; none if it was not tried.
    pub total_s: Option<f64>,
    /// Share saved of the baseline's total time on the same requests.
    pub gain_share: Option<f64>,
    /// Of what is not free: share saved of the recommended scheduler's total time on the same requests.
    pub gain_over_free_share: Option<f64>,
    /// Read latency that 99 % do not exceed.
    pub read_p99_ms: Option<f64>,
    /// Write latency that 99 % do not exceed.
    pub write_p99_ms: Option<f64>,
    /// Whether it is recommended.
    pub recommended: bool,
    /// The evidence, or why it was not tried.
    pub reason: String,
    /// Of what needs flash: the run in full.
    pub run: Option<Box<RunResult>>,
}

impl Remedy {
    /// What it needs, in words; none where that is not known.
    pub fn needs(&self) -> Option<String> {
        self.total_s?;
        Some(match (self.flash_bytes, self.moved_bytes) {
            (0, 0) => "nothing".to_string(),
            (0, moved) => format!("{} moved", bytes(moved as f64)),
            (needed, _) => format!("{} of flash", bytes(needed as f64)),
        })
    }

    pub(super) fn untried(kind: RemedyKind, policy: &str, reason: String) -> Remedy {
        Remedy {
            kind,
            policy: policy.to_string(),
            flash_bytes: 0,
            moved_bytes: 0,
            requests: 0,
            before: None,
            total_s: None,
            gain_share: None,
            gain_over_free_share: None,
            read_p99_ms: None,
            write_p99_ms: None,
            recommended: false,
            reason,
            run: None,
        }
    }

    /// The figures of `run`, held against `baseline` on the same requests.
    pub(super) fn outcome(kind: RemedyKind, run: &RunResult, baseline: &RunResult) -> Remedy {
        let before = Before::of(baseline);
        Remedy {
            requests: run.figures.requests,
            before: Some(before),
            total_s: Some(run.total_s()),
            // Adding zero turns -0.0 into 0.0.
            gain_share: Some(1.0 - run.total_s() / before.total_s.max(1e-9) + 0.0),
            read_p99_ms: run.figures.read_p99_ms,
            write_p99_ms: run.figures.write_p99_ms,
            ..Remedy::untried(kind, &run.policy, String::new())
        }
    }

    /// Total time and tail together: less is better.
    fn weight(&self) -> f64 {
        let tail = tail_ms(self.read_p99_ms, self.write_p99_ms);
        self.total_s.unwrap_or(f64::MAX) * tail.max(1e-3)
    }
}

/// One use of flash is enough: the one with less total time and tail together, or of equal ones the
/// one that needs less.
pub(super) fn choose_flash(remedies: &mut [Remedy]) {
    let mut worthy: Vec<usize> = (0..remedies.len())
        .filter(|&index| remedies[index].recommended && remedies[index].flash_bytes > 0)
        .collect();
    let weight = |index: usize| remedies[index].weight();
    let Some(&best) = worthy.iter().min_by(|&&a, &&b| weight(a).total_cmp(&weight(b))) else {
        return;
    };
    let close = |index: &usize| weight(*index) <= weight(best) * (1.0 + SHARE_THAT_MATTERS);
    let chosen = worthy.iter().copied().filter(close);
    let chosen = chosen.min_by_key(|&index| remedies[index].flash_bytes).unwrap_or(best);
    worthy.retain(|&index| index != chosen);
    let better = remedies[chosen].kind.name();
    for index in worthy {
        remedies[index].recommended = false;
        let flash = bytes(remedies[chosen].flash_bytes as f64);
        remedies[index].reason += &format!(" It would help too; {better} does more with {flash}.");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remedy(kind: RemedyKind, total_s: f64, flash_bytes: u64) -> Remedy {
        Remedy {
            total_s: Some(total_s),
            read_p99_ms: Some(10.0),
            flash_bytes,
            recommended: true,
            ..Remedy::untried(kind, "", String::new())
        }
    }

    #[test]
    fn of_two_uses_of_flash_the_faster_or_the_cheaper_is_recommended() {
        let chosen = |offloading: (f64, u64), caching: (f64, u64)| {
            let mut remedies = [
                remedy(RemedyKind::Scheduling, 1.0, 0),
                remedy(RemedyKind::Offloading, offloading.0, offloading.1),
                remedy(RemedyKind::Caching, caching.0, caching.1),
            ];
            choose_flash(&mut remedies);
            remedies.map(|remedy| remedy.recommended)
        };
        assert_eq!(chosen((50.0, 10), (40.0, 90)), [true, false, true]);
        assert_eq!(chosen((40.5, 10), (40.0, 90)), [true, true, false]);
        assert_eq!(chosen((40.0, 90), (40.5, 10)), [true, false, true]);
        let mut remedies =
            [remedy(RemedyKind::Offloading, 40.0, 10), remedy(RemedyKind::Caching, 44.0, 10)];
        remedies[1].read_p99_ms = Some(5.0);
        choose_flash(&mut remedies);
        assert!(remedies[1].recommended, "half the tail is worth a tenth of the time");
    }

    #[test]
    fn what_a_remedy_needs() {
        let needs = |flash_bytes, moved_bytes, total_s| {
            Remedy { moved_bytes, total_s, ..remedy(RemedyKind::Caching, 1.0, flash_bytes) }.needs()
        };
        assert_eq!(needs(0, 0, Some(1.0)).as_deref(), Some("nothing"));
        assert_eq!(needs(0, 45 << 20, Some(1.0)).as_deref(), Some("45 MiB moved"));
        assert_eq!(needs(2 << 30, 0, Some(1.0)).as_deref(), Some("2.00 GiB of flash"));
        assert_eq!(needs(0, 45 << 20, None), None);
    }
}
