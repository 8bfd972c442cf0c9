//! The cautions about a recommendation: reasons why its results may not hold.

use forebay_words::plural::verb;

use super::{
    Case, REQUESTS_THAT_MATTER, Remedy, RemedyKind, TOO_FEW, Verdict, left_out_caution,
    rough_caution, source, tells_latencies,
};
use crate::quantities::{counted, millis, percent};
use crate::{Replay, devices};

impl Case<'_> {
    pub(super) fn cautions(&self) -> Vec<String> {
        let (description, before) = (&self.input.description, &self.baseline().figures);
        let mut cautions = vec![self.simulated()];
        let replays = [Some(self.setup.replay), self.other.map(|other| other.replay)];
        cautions.extend(rough_caution(self.input, replays));
        cautions.extend(left_out_caution(self.results, description.records));
        let volumes = self.input.extents.len();
        if volumes > 1 {
            cautions.push(format!(
                "The trace has {volumes} volumes, which are laid out one after another on one {}: \
                 if each has its own drive, analyze each one separately (forebay convert \
                 --partition-by volume).",
                self.device.name
            ));
        }
        cautions.extend(source::compared(description, self.baseline(), &self.device.name));
        cautions.extend(self.rises());
        let flash = self.uses_flash().then_some(self.flash);
        let used: Vec<_> = std::iter::once(self.device).chain(flash).collect();
        cautions.extend(devices::cautions(&used));
        if self.share_busy() < 0.5 && self.verdict == Verdict::Recommended {
            cautions.push(format!(
                "The disk is busy only {} of the time, so savings mean less work and waiting, not \
                 an earlier end.",
                percent(self.share_busy()),
            ));
        }
        let caches = |remedy: &Remedy| remedy.recommended && remedy.kind == RemedyKind::Caching;
        if self.remedies.iter().any(caches) && before.writes > 0 {
            cautions.push(
                "A write-back cache holds the only copy of data that it has not written back yet, \
                 so its flash must be as reliable as the disk."
                    .to_string(),
            );
        }
        cautions.extend(self.too_few());
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

    /// Returns whether a remedy with flash was simulated.
    fn uses_flash(&self) -> bool {
        self.remedies.iter().any(|remedy| remedy.flash_bytes > 0 && remedy.run.is_some())
    }

    /// Returns what was simulated, and how requests arrive there.
    fn simulated(&self) -> String {
        let beside = match self.uses_flash() {
            true => format!(", with flash of {}", self.flash.name),
            false => String::new(),
        };
        let faster = match self.setup.intensity.times() {
            1.0 => String::new(),
            times => format!(", {times} times as fast,"),
        };
        let arrivals = match self.setup.replay {
            Replay::Open => {
                format!("open replay: arrivals are as recorded{faster} however slow the device is")
            }
            Replay::Closed => format!("closed replay: think times are as recorded{faster}"),
            Replay::Dependent => format!(
                "dependent replay: each request arrives its recorded think time{faster} after the \
                 completion that it may have waited for"
            ),
        };
        let (device, commands) = (&self.device.name, self.device.model.commands());
        format!("Simulated on a model of {device}, {commands}{beside}; {arrivals}.")
    }

    /// Returns the latencies that the recommended scheduler increases.
    fn rises(&self) -> impl Iterator<Item = String> {
        let worse = |now: f64, before: f64| now > before * 1.1 && now - before > 0.1;
        let (now, before) = (&self.chosen.figures, &self.baseline().figures);
        let counts = |p99_ms: Option<f64>, count: u64| p99_ms.filter(|_| count >= TOO_FEW);
        let figures = [
            ("read latency: p99", counts(now.read_p99_ms, now.reads), before.read_p99_ms),
            ("write latency: p99", counts(now.write_p99_ms, now.writes), before.write_p99_ms),
            ("latency: the longest", now.longest_ms(), before.longest_ms()),
        ];
        let is_told = tells_latencies(self.baseline());
        figures.into_iter().filter(move |_| is_told).filter_map(move |(what, now, before)| {
            let (now, before) = now.zip(before).filter(|(now, before)| worse(*now, *before))?;
            let (before, now) = (millis(before), millis(now));
            Some(format!("This costs {what} rises from {before} to {now}."))
        })
    }

    /// Returns which latencies depend on too few requests.
    fn too_few(&self) -> Vec<String> {
        let mut told = Vec::new();
        let before = &self.baseline().figures;
        if before.requests < REQUESTS_THAT_MATTER {
            told.push(format!(
                "Tail latencies are unreliable: {} {} too few.",
                counted(before.requests, "request"),
                verb(before.requests, "is", "are")
            ));
        }
        for (count, kind) in [(before.reads, "read"), (before.writes, "write")] {
            if (1..TOO_FEW).contains(&count) && before.requests >= TOO_FEW {
                told.push(format!(
                    "There {} only {}, so the p99 of {kind}s depends on a single one of them and \
                     is ignored.",
                    verb(count, "is", "are"),
                    counted(count, kind)
                ));
            }
        }
        told
    }
}
