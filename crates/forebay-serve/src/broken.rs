//! Detects promises that were broken for a minute, and the export that most likely caused it.

use forebay_core::Nanos;
use forebay_core::contract::policy::Gauge;
use forebay_words::plural::{counted, verb};

use crate::figures::ExportFigures;

/// How long a promise must be broken to be reported.
const MINUTE: Nanos = Nanos::from_millis(60_000);
/// A promise is broken if more than this share of the requests that it covers is late.
const LATE_SHARE: f64 = 0.01;
/// The maximum number of late requests that counts as chance, however few requests there were.
const CHANCE_MAX: f64 = 8.0;
/// The share of the capacity that small requests must reach. Less shows that it is too high.
const REACHED_SHARE: f64 = 0.8;

/// The counts of an export's promised requests.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    kept: u64,
    in_time: u64,
    /// Covered requests that failed. They are not in time.
    failed: u64,
    /// Outstanding requests that are late already.
    overdue: u64,
    requests: u64,
    bytes: u64,
    disk_s: f64,
}

impl Counts {
    fn of(export: &ExportFigures) -> Counts {
        Counts {
            kept: export.kept,
            in_time: export.kept_in_time,
            failed: export.kept_failed,
            overdue: export.overdue,
            requests: export.reads + export.writes + export.others + export.failed,
            bytes: export.read_bytes + export.written_bytes,
            disk_s: export.disk_s,
        }
    }

    /// Returns the increase since `before`. The counts of a new promise, and all counts of a new
    /// export, begin again at 0.
    fn since(self, before: Counts) -> Counts {
        if self.requests < before.requests {
            return self;
        }
        let late = |counts: Counts| counts.kept - counts.in_time;
        let is_new =
            self.kept < before.kept || self.in_time < before.in_time || late(self) < late(before);
        let promised = if is_new { Counts::default() } else { before };
        Counts {
            kept: self.kept - promised.kept,
            in_time: self.in_time - promised.in_time,
            failed: self.failed.saturating_sub(promised.failed),
            requests: self.requests - before.requests,
            bytes: self.bytes.saturating_sub(before.bytes),
            disk_s: self.disk_s - before.disk_s,
            overdue: self.overdue,
        }
    }

    /// Returns the number of covered requests that failed, were late, or already are late.
    fn missed(self) -> u64 {
        self.kept - self.in_time + self.overdue
    }

    /// Returns the number of missed requests that did not fail.
    fn late(self) -> u64 {
        self.missed().saturating_sub(self.failed)
    }

    /// Returns whether more requests were missed than the promise allows. If there were few requests,
    /// chance may exceed the allowed share, so more are allowed: three standard deviations.
    fn is_broken(self) -> bool {
        let share = LATE_SHARE * (self.kept + self.overdue) as f64;
        let chance = (share + 3.0 * share.sqrt()).clamp(1.0, CHANCE_MAX);
        let is_stuck = self.kept == 0 && self.overdue > 0;
        is_stuck || self.missed() as f64 > share.max(chance)
    }

    /// Returns whether the promise covered all requests.
    fn is_within_promise(self) -> bool {
        self.kept > 0 && self.kept >= self.requests
    }
}

/// Compares the counts of all exports once a minute.
#[derive(Clone, Debug, Default)]
pub(crate) struct BrokenPromises {
    since: Nanos,
    before: Vec<Counts>,
}

impl BrokenPromises {
    /// Returns a line for each promise that was broken in the last minute. `gauges` are those of the
    /// policy.
    pub(crate) fn look<'a>(
        &mut self,
        now: Nanos,
        exports: impl Iterator<Item = &'a ExportFigures>,
        gauges: &[Gauge],
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
        let slow = too_slow(gauges);
        broken.map(|at| line(&exports, &minute, at, &slow)).collect()
    }
}

/// Says that the disk does less than `capacity_iops`, if small requests show it.
fn too_slow(gauges: &[Gauge]) -> String {
    let of = |name| gauges.iter().find(|gauge| gauge.name == name).map(|gauge| gauge.value);
    match (of("capacity_iops"), of("small_iops")) {
        (Some(capacity), Some(measured)) if measured < capacity * REACHED_SHARE => format!(
            "; the disk does {measured:.0} small requests per second, but capacity_iops is \
             {capacity:.0}; set it to what the disk does with any workload (`forebay plan buy \
             --configure`), or set capacity = \"measured\""
        ),
        _ => String::new(),
    }
}

/// Describes the broken promise of export `at`. `slow` is what is known about the disk's speed.
fn line(exports: &[&ExportFigures], minute: &[Counts], at: usize, slow: &str) -> String {
    let Counts { kept, overdue, failed, .. } = minute[at];
    let late = minute[at].late();
    let outstanding = match overdue {
        0 => String::new(),
        _ => format!(" ({overdue} {} still outstanding)", verb(overdue, "is", "are")),
    };
    let bound_ms = exports[at].within_ms.unwrap_or_default();
    let was_late = format!("took longer than {bound_ms} ms{outstanding}");
    let of = counted(kept + overdue, "kept request");
    let (what, why) = match failed {
        0 => (format!("{late} of {of} {was_late}"), neighbor(exports, minute, at) + slow),
        // What failed says nothing about the disk's speed or about other exports.
        _ if failed >= late => {
            let others = if late > 0 { format!(", and {late} {was_late}") } else { String::new() };
            (format!("{failed} of {of} failed{others}"), "see the errors of its disk".into())
        }
        _ => {
            let what = format!("{late} of {of} {was_late}, and {failed} failed");
            (what, neighbor(exports, minute, at) + slow)
        }
    };
    format!("warning: the promise to '{}' was broken for a minute: {what}; {why}", exports[at].name)
}

/// Names the export that took most of the disk's time beyond its promise, other than export `at`.
fn neighbor(exports: &[&ExportFigures], minute: &[Counts], at: usize) -> String {
    let others = (0..exports.len()).filter(|other| *other != at);
    let busy = others.filter(|other| minute[*other].disk_s > 0.0);
    let busy = busy.filter(|other| !minute[*other].is_within_promise());
    let busiest = busy.max_by(|one, other| minute[*one].disk_s.total_cmp(&minute[*other].disk_s));
    let Some(other) = busiest else {
        return "no other export was busy beyond its promise, so the disk does not answer, or \
                capacity_iops is too high"
            .into();
    };
    let all_s: f64 = minute.iter().map(|counts| counts.disk_s).sum();
    format!(
        "'{}' took {:.0} % of the disk's time in that minute, for {:.1} MB in {}",
        exports[other].name,
        100.0 * minute[other].disk_s / all_s,
        minute[other].bytes as f64 / 1e6,
        counted(minute[other].requests, "request")
    )
}

#[cfg(test)]
mod tests {
    use forebay_core::contract::policy::GaugeOf;

    use super::*;

    fn export(name: &str, kept: u64, in_time: u64, disk_s: f64) -> ExportFigures {
        ExportFigures {
            name: name.into(),
            kept,
            kept_in_time: in_time,
            reads: 10_000 + kept + (disk_s * 100.0) as u64,
            read_bytes: (disk_s * 1e6) as u64,
            disk_s,
            within_ms: Some(10.0),
            ..ExportFigures::default()
        }
    }

    #[test]
    fn a_promise_that_is_broken_for_a_minute_is_reported_once_with_its_neighbor() {
        let mut broken = BrokenPromises::default();
        let at = |s: u64| Nanos::from_millis(1000 * s);
        let mut look = |s: u64, exports: &[ExportFigures]| broken.look(at(s), exports.iter(), &[]);
        let begin =
            [export("db", 0, 0, 0.0), export("idle", 0, 0, 0.0), export("batch", 0, 0, 0.0)];
        assert!(look(1, &begin).is_empty());
        let later =
            [export("db", 1000, 980, 4.0), export("idle", 0, 0, 0.0), export("batch", 0, 0, 12.0)];
        assert!(look(30, &later).is_empty(), "not yet");
        assert_eq!(
            look(61, &later),
            [
                "warning: the promise to 'db' was broken for a minute: 20 of 1000 kept requests took \
              longer than 10 ms; 'batch' took 75 % of the disk's time in that minute, for 12.0 \
              MB in 1200 requests"
            ]
        );
        assert!(look(121, &later).is_empty(), "nothing happened since");
        let kept = [export("db", 2000, 1970, 5.0), later[1].clone(), later[2].clone()];
        assert!(look(181, &kept).is_empty(), "one in a hundred may be late");
        let alone = [export("db", 2100, 2060, 6.0), later[1].clone(), later[2].clone()];
        assert!(look(241, &alone)[0].ends_with("capacity_iops is too high"));
        // The counts of a new promise begin at 0, whatever the export has done before.
        let ahead = [export("db", 2150, 2150, 7.0), later[1].clone(), later[2].clone()];
        assert!(look(301, &ahead).is_empty());
        let mut new = export("db", 100, 10, 8.0);
        new.reads = ahead[0].reads + 100;
        let new = [new, later[1].clone(), later[2].clone()];
        assert!(look(361, &new)[0].contains("90 of 100 kept requests"));
    }

    #[test]
    fn a_promise_is_broken_by_a_disk_that_does_not_answer() {
        let mut broken = BrokenPromises::default();
        let mut look = |s: u64, overdue: u64| {
            let db = ExportFigures { overdue, ..export("db", 5, 5, 0.0) };
            broken.look(Nanos::from_millis(1000 * s), [&db].into_iter(), &[])
        };
        assert!(look(1, 0).is_empty() && look(61, 0).is_empty());
        assert_eq!(
            look(121, 1),
            [
                "warning: the promise to 'db' was broken for a minute: 1 of 1 kept request took longer \
                than 10 ms (1 is still outstanding); no other export was busy beyond its promise, \
                so the disk does not answer, or capacity_iops is too high"
            ]
        );
        assert_eq!(look(181, 1).len(), 1, "and for another minute");
        assert!(look(241, 0).is_empty());
    }

    #[test]
    fn chance_breaks_no_promise() {
        let is_broken = |kept: u64, late: u64| {
            Counts { kept, in_time: kept - late, ..Counts::default() }.is_broken()
        };
        for (kept, allowed) in [(1, 1), (23, 1), (32, 2), (100, 4), (300, 8), (800, 8), (5000, 50)]
        {
            assert!(!is_broken(kept, allowed), "{allowed} of {kept}");
            assert!(kept == allowed || is_broken(kept, allowed + 1), "{allowed} + 1 of {kept}");
        }
    }

    #[test]
    fn failed_requests_are_named_apart_from_late_ones() {
        let said = |late: u64, failed: u64| {
            let mut broken = BrokenPromises::default();
            let db = ExportFigures {
                kept_failed: failed,
                ..export("db", 2000, 2000 - late - failed, 9.0)
            };
            let gauge = |name, value| Gauge { name, of: GaugeOf::All, value };
            let gauges = [gauge("capacity_iops", 1000.0), gauge("small_iops", 400.0)];
            let begin = export("db", 0, 0, 0.0);
            broken.look(Nanos::from_millis(1000), [&begin].into_iter(), &gauges);
            let said =
                broken.look(Nanos::from_millis(61_000), [&db].into_iter(), &gauges).remove(0);
            said.split_once("minute: ").unwrap().1.to_string()
        };
        assert_eq!(said(0, 821), "821 of 2000 kept requests failed; see the errors of its disk");
        assert_eq!(
            said(3, 30),
            "30 of 2000 kept requests failed, and 3 took longer than 10 ms; see the errors of its disk"
        );
        let mixed = said(500, 3);
        assert!(
            mixed.starts_with(
                "500 of 2000 kept requests took longer than 10 ms, and 3 failed; no other"
            ) && mixed.contains("the disk does 400 small"),
            "{mixed}"
        );
    }

    #[test]
    fn the_neighbor_is_the_one_that_took_the_disks_time_beyond_its_promise() {
        let mut broken = BrokenPromises::default();
        let mut look = |s: u64, exports: [ExportFigures; 4]| {
            broken.look(Nanos::from_millis(1000 * s), exports.iter(), &[])
        };
        let with = |name: &str, disk_s: f64, bytes: u64, kept: u64| ExportFigures {
            disk_s,
            read_bytes: bytes,
            reads: kept.max(u64::from(disk_s > 0.0)),
            kept,
            kept_in_time: kept,
            ..export(name, 0, 0, 0.0)
        };
        let names = ["db", "scan", "copy", "log"];
        look(1, names.map(|name| with(name, 0.0, 0, 0)));
        let late = ExportFigures { kept_in_time: 0, ..with("db", 5.0, 4096, 10) };
        let scan = with("scan", 15.0, 300_000, 0);
        let copy = with("copy", 1.0, 60_000_000, 0);
        // All requests of this one are within its own promise.
        let log = with("log", 29.0, 1_000_000, 500);
        let said = look(61, [late, scan, copy, log]);
        assert!(said[0].contains("'scan' took 30 % of the disk's time"), "{said:?}");
    }

    #[test]
    fn a_disk_that_does_less_than_its_capacity_is_named() {
        let said = |measured: f64| {
            let gauge = |name, value| Gauge { name, of: GaugeOf::All, value };
            let gauges = [gauge("capacity_iops", 1000.0), gauge("small_iops", measured)];
            let mut broken = BrokenPromises::default();
            let db = |kept| export("db", kept, 0, 0.0);
            broken.look(Nanos::from_millis(1000), [&db(0)].into_iter(), &gauges);
            broken.look(Nanos::from_millis(61_000), [&db(100)].into_iter(), &gauges).remove(0)
        };
        assert!(
            said(77.6).contains(
                "; the disk does 78 small requests per second, but capacity_iops is 1000"
            )
        );
        assert!(said(950.0).ends_with("capacity_iops is too high"), "{}", said(950.0));
    }
}
