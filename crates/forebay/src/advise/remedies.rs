//! Remedies: measures such as another scheduler, flash (for offloading or caching) and
//! defragmentation. Each remedy has figures before and after on the same requests, or the reason
//! why it was not tried.

use serde::Serialize;

use super::{QueueSizes, tells_latencies};
use crate::RunResult;
use crate::quantities::bytes;

/// The kind of a remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RemedyKind {
    /// A scheduler that serves requests in another order.
    Scheduling,
    /// Other queue sizes: fewer commands in the drive, or more requests for the scheduler to choose
    /// from.
    QueueSizes,
    /// Defragmentation, which places blocks in the order in which they are read.
    Defragmentation,
    /// Flash that takes the writes of processes that write little at a time.
    Offloading,
    /// Flash that caches blocks that are used repeatedly.
    Caching,
}

impl RemedyKind {
    /// Returns the remedy's short name.
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

/// The baseline's figures for the requests that a remedy's figures cover.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Before {
    /// The baseline's total time for these requests, in seconds.
    pub total_s: f64,
    /// The 99th percentile of these requests' read latencies under the baseline.
    pub read_p99_ms: Option<f64>,
    /// The 99th percentile of these requests' write latencies under the baseline.
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

/// Why flash is not worth its price.
#[derive(Clone, Debug, PartialEq)]
pub struct Objection {
    /// The reason with its figures, without a full stop.
    pub why: String,
    /// The reason in a few words, which can follow "but".
    pub in_short: String,
    /// Whether flash would help but nothing waits long without it.
    pub is_needless: bool,
}

impl Objection {
    pub(super) fn new(why: impl Into<String>, in_short: impl Into<String>) -> Objection {
        Objection { why: why.into(), in_short: in_short.into(), is_needless: false }
    }

    /// Builds the reason why flash would help, but is not needed.
    pub(super) fn needless(why: impl Into<String>, in_short: impl Into<String>) -> Objection {
        Objection { is_needless: true, ..Objection::new(why, in_short) }
    }
}

/// A remedy and its results, or the reason why it was not tried.
#[derive(Clone, Debug, Serialize)]
pub struct Remedy {
    /// The kind of remedy.
    pub kind: RemedyKind,
    /// The policy spec of the remedy, as accepted by `simulate --policy`. For defragmentation, the
    /// scheduler on the reorganized disk.
    pub policy: String,
    /// The size of the flash that the remedy needs, in bytes.
    pub flash_bytes: u64,
    /// The queue sizes to set, if the remedy changes them.
    #[serde(flatten)]
    pub queues: QueueSizes,
    /// How many bytes the remedy moves on the disk; each byte is read once and written once.
    pub moved_bytes: u64,
    /// The number of requests that the figures cover, counted from the end of the trace. These are
    /// all requests, except that defragmentation is evaluated only on requests that its layout was
    /// not derived from.
    pub requests: u64,
    /// The baseline's figures for the same requests; `None` if the remedy was not tried.
    pub before: Option<Before>,
    /// The total time with the remedy, in seconds; `None` if it was not tried.
    pub total_s: Option<f64>,
    /// The share of the baseline's total time that the remedy saves.
    pub gain_share: Option<f64>,
    /// The share of the recommended scheduler's total time that the remedy saves; only for remedies
    /// that are not free.
    pub gain_over_free_share: Option<f64>,
    /// The 99th percentile of read latencies with the remedy.
    pub read_p99_ms: Option<f64>,
    /// The 99th percentile of write latencies with the remedy.
    pub write_p99_ms: Option<f64>,
    /// Whether the remedy is recommended.
    pub recommended: bool,
    /// The evidence for the verdict on this remedy, or why the remedy was not tried.
    pub reason: String,
    /// Why flash is not worth its price, if it was tried and is not.
    #[serde(skip)]
    pub against: Option<Objection>,
    /// The remedy's complete run, if it changes queue sizes or needs flash.
    pub run: Option<Box<RunResult>>,
}

impl Remedy {
    /// Formats what the remedy needs, such as an amount of flash; `None` if that is unknown.
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

    /// Returns the name of the remedy's scheduler, without parameters.
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
            against: None,
            run: None,
        }
    }

    /// Builds a remedy from `run`, compared with `baseline` on the same requests.
    pub(super) fn outcome(kind: RemedyKind, run: &RunResult, baseline: &RunResult) -> Remedy {
        let before = Before::of(baseline);
        let tails = tells_latencies(baseline);
        Remedy {
            requests: run.figures.requests,
            before: Some(before),
            total_s: Some(run.total_s()),
            // Adding 0.0 turns -0.0 into 0.0, which is printed without a sign.
            gain_share: Some(1.0 - run.total_s() / before.total_s.max(1e-9) + 0.0),
            read_p99_ms: run.figures.read_p99_ms.filter(|_| tails),
            write_p99_ms: run.figures.write_p99_ms.filter(|_| tails),
            ..Remedy::untried(kind, &run.policy, String::new())
        }
    }
}

/// Keeps at most one use of flash recommended: the one that needs the least flash, unless
/// `is_worth` decides that another one justifies more flash.
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
                    " It would help too, but is not significantly better than {better} with \
                     {flash} by a tenth."
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
        // Regression test: 4.6 GiB of cache must not be recommended over less flash that saves
        // more.
        let (recommended, reasons) = chosen((407.0, 435 << 20), (629.0, 4710 << 20));
        assert_eq!(recommended, [true, true, false]);
        let why = " It would help too, but is not significantly better than offloading with 435 \
            MiB by a tenth.";
        assert_eq!(reasons[2], why);
    }

    #[test]
    fn requirements_of_remedies() {
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
