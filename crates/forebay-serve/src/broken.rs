//! Detects promises that were broken for a minute, and the export that most likely caused it.

use forebay_core::Nanos;

use crate::figures::ExportFigures;

/// How long a promise must be broken to be reported.
const MINUTE: Nanos = Nanos::from_millis(60_000);
/// A promise is broken if more than one in this many of the requests that it covers is late.
const LATE_ONE_IN: u64 = 100;
/// The minimum number of covered requests in a minute for a meaningful result.
const KEPT_LEAST: u64 = 20;

/// The counts of an export's promised requests.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    kept: u64,
    in_time: u64,
    requests: u64,
    bytes: u64,
}

impl Counts {
    fn of(export: &ExportFigures) -> Counts {
        Counts {
            kept: export.kept,
            in_time: export.kept_in_time,
            requests: export.reads + export.writes + export.others,
            bytes: export.read_bytes + export.written_bytes,
        }
    }

    /// Returns the increase since `before`. The counts of a new promise begin again at 0.
    fn since(self, before: Counts) -> Counts {
        let late = |counts: Counts| counts.kept - counts.in_time;
        let is_new =
            self.kept < before.kept || self.in_time < before.in_time || late(self) < late(before);
        let (kept, in_time) = if is_new { (0, 0) } else { (before.kept, before.in_time) };
        Counts {
            kept: self.kept - kept,
            in_time: self.in_time - in_time,
            requests: self.requests - before.requests,
            bytes: self.bytes - before.bytes,
        }
    }

    fn is_broken(self) -> bool {
        self.kept >= KEPT_LEAST && (self.kept - self.in_time) * LATE_ONE_IN > self.kept
    }
}

/// Compares the counts of all exports once a minute.
#[derive(Clone, Debug, Default)]
pub(crate) struct BrokenPromises {
    since: Nanos,
    before: Vec<Counts>,
}

impl BrokenPromises {
    /// Returns a line for each promise that was broken in the last minute.
    pub(crate) fn look<'a>(
        &mut self,
        now: Nanos,
        exports: impl Iterator<Item = &'a ExportFigures>,
    ) -> Vec<String> {
        if !self.before.is_empty() && now - self.since < MINUTE {
            return Vec::new();
        }
        let exports: Vec<&ExportFigures> = exports.collect();
        let counts: Vec<Counts> = exports.iter().map(|export| Counts::of(export)).collect();
        self.before.resize(counts.len(), Counts::default());
        let minute: Vec<Counts> =
            counts.iter().zip(&self.before).map(|(now, before)| now.since(*before)).collect();
        let is_first = self.since == Nanos::ZERO;
        (self.since, self.before) = (now, counts);
        let broken = (0..exports.len()).filter(|at| !is_first && minute[*at].is_broken());
        broken.map(|at| line(&exports, &minute, at)).collect()
    }
}

/// Describes the broken promise of export `at`.
fn line(exports: &[&ExportFigures], minute: &[Counts], at: usize) -> String {
    let Counts { kept, in_time, .. } = minute[at];
    let others = (0..exports.len()).filter(|other| *other != at && minute[*other].requests > 0);
    let neighbour = match others.max_by_key(|other| minute[*other].bytes) {
        Some(other) => format!(
            "'{}' transferred most in that minute: {:.1} MB in {} requests",
            exports[other].name,
            minute[other].bytes as f64 / 1e6,
            minute[other].requests
        ),
        None => "no other export was busy, so capacity_iops may be too high".to_string(),
    };
    format!(
        "warning: the promise to '{}' was broken for a minute: {} of {kept} kept requests took \
         longer than {} ms; {neighbour}",
        exports[at].name,
        kept - in_time,
        exports[at].within_ms.unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn export(name: &str, kept: u64, in_time: u64, bytes: u64) -> ExportFigures {
        ExportFigures {
            name: name.into(),
            kept,
            kept_in_time: in_time,
            reads: 10_000 + bytes / 4096,
            read_bytes: bytes,
            within_ms: Some(10.0),
            ..ExportFigures::default()
        }
    }

    #[test]
    fn a_promise_that_is_broken_for_a_minute_is_reported_once_with_its_neighbour() {
        let mut broken = BrokenPromises::default();
        let at = |s: u64| Nanos::from_millis(1000 * s);
        let mut look = |s, exports: &[ExportFigures]| broken.look(at(s), exports.iter());
        let begin = [export("db", 0, 0, 0), export("idle", 0, 0, 0), export("batch", 0, 0, 4096)];
        assert!(look(1, &begin).is_empty());
        let later = [
            export("db", 1000, 980, 4096),
            export("idle", 0, 0, 0),
            export("batch", 0, 0, 12_004_096),
        ];
        assert!(look(30, &later).is_empty(), "not yet");
        assert_eq!(
            look(61, &later),
            [
                "warning: the promise to 'db' was broken for a minute: 20 of 1000 kept requests took \
              longer than 10 ms; 'batch' transferred most in that minute: 12.0 MB in 2929 requests"
            ]
        );
        assert!(look(121, &later).is_empty(), "nothing happened since");
        let kept = [export("db", 2000, 1970, 4096), later[1].clone(), later[2].clone()];
        assert!(look(181, &kept).is_empty(), "one in a hundred may be late");
        let alone = [export("db", 2100, 2060, 4096), later[1].clone(), later[2].clone()];
        assert!(look(241, &alone)[0].ends_with("capacity_iops may be too high"));
        // The counts of a new promise begin at 0, whatever the export has done before.
        let ahead = [export("db", 2150, 2150, 4096), later[1].clone(), later[2].clone()];
        assert!(look(301, &ahead).is_empty());
        let new = [export("db", 100, 10, 4096), later[1].clone(), later[2].clone()];
        assert!(look(361, &new)[0].contains("90 of 100 kept requests"));
    }
}
