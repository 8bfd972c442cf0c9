//! What to keep in mind when believing an advice.

use super::findings::Case;
use super::judge::REQUESTS_THAT_MATTER;
use super::{Remedy, RemedyKind, Verdict};
use crate::devices;
use crate::quantities::{counted, millis, percent};
use crate::simulate::Replay;

impl Case<'_> {
    pub(super) fn cautions(&self) -> Vec<String> {
        let beside = if self.remedies.iter().any(|remedy| remedy.run.is_some()) {
            format!(", with flash of {}", self.flash.name)
        } else {
            String::new()
        };
        let mut cautions = vec![format!(
            "Simulated on a model of {}, {}{beside}; {}.",
            self.device.name,
            self.device.model.commands(),
            match self.setup.replay {
                Replay::Open => "open replay: arrivals are as recorded however slow the disk is",
                Replay::Closed => "closed replay: think times are as recorded",
                Replay::Dependent => {
                    "dependent replay: arrivals are as recorded, but nothing overtakes what it \
                     depends on"
                }
            }
        )];
        cautions.extend(self.faster_source());
        let (baseline, chosen) = (self.baseline(), self.chosen);
        let worse = |now: Option<f64>, before: Option<f64>| match (now, before) {
            (Some(now), Some(before)) => now > before * 1.1 && now - before > 0.1,
            _ => false,
        };
        let (now, before) = (&chosen.figures, &baseline.figures);
        for (kind, now, before) in [
            ("read", now.read_p99_ms, before.read_p99_ms),
            ("write", now.write_p99_ms, before.write_p99_ms),
            ("longest", Some(now.longest_wait_ms), Some(before.longest_wait_ms)),
        ] {
            if let (true, Some(now), Some(before)) = (worse(now, before), now, before) {
                let what = if kind == "longest" {
                    "the longest wait".to_string()
                } else {
                    format!("the {kind} p99")
                };
                cautions.push(format!(
                    "{} pays for it: {what} rises from {} to {}.",
                    chosen.policy,
                    millis(before),
                    millis(now),
                ));
            }
        }
        let mut used = vec![self.device];
        if self.remedies.iter().any(|remedy| remedy.run.is_some()) {
            used.push(self.flash);
        }
        cautions.extend(devices::cautions(&used));
        if self.utilisation() < 0.5 && self.verdict == Verdict::Recommended {
            cautions.push(format!(
                "The disk is busy only {} of the time: what is saved is work and waiting, the \
                 trace does not end sooner.",
                percent(self.utilisation()),
            ));
        }
        let caches = |remedy: &Remedy| remedy.recommended && remedy.kind == RemedyKind::Caching;
        if self.remedies.iter().any(caches) && before.writes > 0 {
            cautions.push(
                "A write-back cache holds the only copy of what it has not written back yet: its \
                 flash must be as safe as the disk."
                    .to_string(),
            );
        }
        if before.requests < REQUESTS_THAT_MATTER {
            cautions.push(format!(
                "There is only so much to go by: what {} say of tails is not to be relied on.",
                counted(before.requests, "request")
            ));
        }
        let result = &self.results[0];
        if result.imputed_share > 0.0 {
            cautions.push(format!(
                "{} of the requests had no measured latency; it was imputed.",
                percent(result.imputed_share)
            ));
        }
        cautions.extend(result.changed.told());
        cautions.extend(self.input.notes.warnings.iter().cloned());
        cautions
    }

    /// A trace of a device with which the disk has nothing in common, as its latencies show.
    fn faster_source(&self) -> Option<String> {
        let recorded_ms = self.input.description.read_latency.p50_ms?;
        let ms = self.baseline().figures.read_p50_ms?;
        (recorded_ms < FASTER_THAN_DISKS_MS && ms > 10.0 * recorded_ms).then(|| {
            format!(
                "The trace was recorded on something much faster than a disk: half of its reads took \
                 less than {}, here less than {}. This says what {} would make of the load, nothing of \
                 the device it ran on; name that with --device.",
                millis(recorded_ms),
                millis(ms),
                self.device.name
            )
        })
    }
}

/// Half of the reads of no disk take less, unless from its cache.
const FASTER_THAN_DISKS_MS: f64 = 1.0;
