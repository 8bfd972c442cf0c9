//! What may be done beside choosing a scheduler: data on flash, by offloading or caching, and
//! defragmentation. Each with figures on the same requests before and after, or the reason why it was
//! not tried.

use serde::Serialize;

use super::judge::tells_latencies;
use super::queues::QueueSizes;
use crate::quantities::bytes;
use crate::simulate::RunResult;

/// What a remedy works with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RemedyKind {
    /// Another order of requests.
    Scheduling,
    /// Fewer commands in the drive at a time, or more requests to choose from above it.
    QueueSizes,
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
            RemedyKind::QueueSizes => "queue sizes",
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
        let tails = tells_latencies(run);
        Before {
            total_s: run.total_s(),
            read_p99_ms: run.figures.read_p99_ms.filter(|_| tails),
            write_p99_ms: run.figures.write_p99_ms.filter(|_| tails),
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
    /// The queues' sizes, where they change.
    #[serde(flatten)]
    pub queues: QueueSizes,
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
    /// Of queue sizes and of what needs flash: the run in full.
    pub run: Option<Box<RunResult>>,
}

impl Remedy {
    /// What it needs, in words; none where that is not known.
    pub fn needs(&self) -> Option<String> {
        self.total_s?;
        if self.queues != QueueSizes::default() {
            return Some(self.queues.to_string());
        }
        Some(match (self.flash_bytes, self.moved_bytes) {
            (0, 0) => "nothing".to_string(),
            (0, moved) => format!("{} moved", bytes(moved as f64)),
            (needed, _) => format!("{} of flash", bytes(needed as f64)),
        })
    }

    /// The scheduler, without parameters.
    pub(super) fn scheduler(&self) -> &str {
        self.policy.split(':').next().unwrap_or(&self.policy)
    }

    pub(super) fn untried(kind: RemedyKind, policy: &str, reason: String) -> Remedy {
        Remedy {
            kind,
            policy: policy.to_string(),
            flash_bytes: 0,
            queues: QueueSizes::default(),
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
        let tails = tells_latencies(baseline);
        Remedy {
            requests: run.figures.requests,
            before: Some(before),
            total_s: Some(run.total_s()),
            // Adding zero turns -0.0 into 0.0.
            gain_share: Some(1.0 - run.total_s() / before.total_s.max(1e-9) + 0.0),
            read_p99_ms: run.figures.read_p99_ms.filter(|_| tails),
            write_p99_ms: run.figures.write_p99_ms.filter(|_| tails),
            ..Remedy::untried(kind, &run.policy, String::new())
        }
    }
}

/// One use of flash is enough: the one that needs less, unless `is_worth` says of another that it is worth needing
/// more than that one.
pub(super) fn choose_flash(remedies: &mut [Remedy], is_worth: impl Fn(&Remedy, &Remedy) -> bool) {
    let is_worthy = |remedy: &Remedy| remedy.recommended && remedy.flash_bytes > 0;
    let mut worthy: Vec<usize> =
        (0..remedies.len()).filter(|index| is_worthy(&remedies[*index])).collect();
    worthy.sort_by_key(|index| remedies[*index].flash_bytes);
    let Some(mut chosen) = worthy.first().copied() else { return };
    for index in &worthy[1..] {
        if is_worth(&remedies[*index], &remedies[chosen]) {
            chosen = *index;
        }
    }
    let (better, needed) = (remedies[chosen].kind.name(), remedies[chosen].flash_bytes);
    for index in worthy.into_iter().filter(|index| *index != chosen) {
        let remedy = &mut remedies[index];
        remedy.recommended = false;
        let flash = bytes(needed as f64);
        remedy.reason += &match remedy.flash_bytes < needed {
            true => {
                format!(" It would help too; {better} is better by a tenth or more, with {flash}.")
            }
            false => {
                format!(
                    " It would help too, but is not better than {better} with {flash} by a tenth that chance may not \
                     be all of."
                )
            }
        };
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
    fn more_flash_has_to_be_worth_it() {
        let chosen = |offloading: (f64, u64), caching: (f64, u64)| {
            let mut remedies = [
                remedy(RemedyKind::Scheduling, 1.0, 0),
                remedy(RemedyKind::Offloading, offloading.0, offloading.1),
                remedy(RemedyKind::Caching, caching.0, caching.1),
            ];
            let total = |remedy: &Remedy| remedy.total_s.unwrap_or(f64::MAX);
            choose_flash(&mut remedies, |more, less| total(more) < 0.9 * total(less));
            let reasons = remedies.each_ref().map(|remedy| remedy.reason.clone());
            (remedies.map(|remedy| remedy.recommended), reasons)
        };
        assert_eq!(chosen((50.0, 10), (40.0, 90)).0, [true, false, true]);
        assert_eq!(chosen((40.0, 90), (50.0, 10)).0, [true, true, false]);
        assert_eq!(chosen((42.0, 10), (40.0, 90)).0, [true, true, false]);
        assert_eq!(chosen((40.0, 90), (42.0, 10)).0, [true, false, true]);
        let (_, reasons) = chosen((50.0, 10), (40.0, 90));
        assert!(reasons[1].contains("caching is better by a tenth"), "{}", reasons[1]);
        // 4.6 GiB of cache never again stand above less flash that does more.
        let (recommended, reasons) = chosen((407.0, 435 << 20), (629.0, 4710 << 20));
        assert_eq!(recommended, [true, true, false]);
        let why = " It would help too, but is not better than offloading with 435 MiB by a tenth that chance may not be all of.";
        assert_eq!(reasons[2], why);
    }

    #[test]
    fn what_a_remedy_needs() {
        let needs = |flash_bytes, moved_bytes, total_s| {
            Remedy { moved_bytes, total_s, ..remedy(RemedyKind::Caching, 1.0, flash_bytes) }.needs()
        };
        assert_eq!(needs(0, 0, Some(1.0)).as_deref(), Some("nothing"));
        assert_eq!(needs(0, 45 << 20, Some(1.0)).as_deref(), Some("45 MiB moved"));
        assert_eq!(needs(2 << 30, 0, Some(1.0)).as_deref(), Some("2 GiB of flash"));
        assert_eq!(needs(0, 45 << 20, None), None);
        let queues = QueueSizes { queue_depth: Some(4), nr_requests: None };
        let shallow = Remedy { queues, ..remedy(RemedyKind::QueueSizes, 1.0, 0) };
        assert_eq!(shallow.needs().as_deref(), Some("queue_depth 4"));
    }
}
