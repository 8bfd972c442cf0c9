//! Detects promises that were broken for a minute, and the export that most likely caused it.

use forebay_core::Nanos;
use forebay_core::contract::Gauge;
use forebay_words::plural::{counted, verb};

use crate::figures::ExportFigures;

/// How long a promise must be broken to be reported.
const MINUTE: Nanos = Nanos::from_millis(60_000);
/// A promise is broken if more than this share of the requests that it covers is late.
const LATE_SHARE: f64 = 0.01;
/// Up to this many late requests are attributed to chance, however few requests there were.
const CHANCE_MAX: f64 = 8.0;
/// The share of the configured capacity that small requests must reach. A lower rate shows that the
/// configured capacity is too high.
const REACHED_SHARE: f64 = 0.8;

/// The counts of an export's promised requests.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    kept: u64,
    in_time: u64,
    /// Covered requests that failed. Failed requests do not count as in time.
    failed: u64,
    /// Outstanding requests that are already late.
    overdue: u64,
    /// The number of small requests that the promise entitled the export to while its requests
    /// waited, and the number served in that time.
    owed: f64,
    received: f64,
    requests: u64,
    bytes: u64,
    disk_s: f64,
}

/// What broke a promise in the last minute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BrokenPromise {
    /// The index of the export.
    pub(crate) export: usize,
    pub(crate) why: String,
}

impl Counts {
    fn of(export: &ExportFigures) -> Counts {
        Counts {
            kept: export.kept,
            in_time: export.kept_in_time,
            failed: export.kept_failed,
            overdue: export.overdue,
            owed: export.owed,
            received: export.received,
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
        // After a policy change, the count of owed requests restarts from 0.
        let is_new = self.owed < before.owed || self.received < before.received;
        let owing = if is_new { Counts::default() } else { before };
        Counts {
            owed: self.owed - owing.owed,
            received: self.received - owing.received,
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

    /// Returns whether more requests were missed than the promise allows.
    fn is_late(self) -> bool {
        let is_stuck = self.kept == 0 && self.overdue > 0;
        is_stuck || self.missed() as f64 > allowed((self.kept + self.overdue) as f64)
    }

    /// Returns whether the promise covered all requests.
    fn is_within_promise(self) -> bool {
        self.kept > 0 && self.kept >= self.requests
    }
}

/// Returns whether an export received less than its promise owed while its requests waited. The
/// last `covered` requests may have only just begun to wait.
pub(crate) fn is_short(owed: f64, received: f64, covered: f64) -> bool {
    owed - received > allowed(owed) + covered
}

/// Returns how many of `requests` may be late before the promise counts as broken: the allowed
/// share plus three standard deviations, so that chance alone breaks no promise when there are few
/// requests.
fn allowed(requests: f64) -> f64 {
    let share = LATE_SHARE * requests;
    share.max((share + 3.0 * share.sqrt()).clamp(1.0, CHANCE_MAX))
}

/// Returns the number of requests that a promise covers within its bound.
fn covered(export: &ExportFigures) -> f64 {
    export.keep_iops as f64 * export.within_ms.unwrap_or_default() / 1e3 + 1.0
}

/// Compares the counts of all exports once a minute.
#[derive(Clone, Debug, Default)]
pub(crate) struct BrokenPromises {
    since: Nanos,
    before: Vec<Counts>,
}

impl BrokenPromises {
    /// Returns the promises that were broken in the last minute, or None if it has not ended.
    /// `gauges` are those of the policy.
    pub(crate) fn look<'a>(
        &mut self,
        now: Nanos,
        exports: impl Iterator<Item = &'a ExportFigures>,
        gauges: &[Gauge],
    ) -> Option<Vec<BrokenPromise>> {
        if !self.before.is_empty() && now - self.since < MINUTE {
            return None;
        }
        let exports: Vec<&ExportFigures> = exports.collect();
        let counts: Vec<Counts> = exports.iter().map(|export| Counts::of(export)).collect();
        self.before.resize(counts.len(), Counts::default());
        let minute: Vec<Counts> =
            counts.iter().zip(&self.before).map(|(now, before)| now.since(*before)).collect();
        let is_first = self.since == Nanos::ZERO;
        (self.since, self.before) = (now, counts);
        let broken = (0..exports.len()).filter(|_| !is_first);
        let broken = broken.filter_map(|export| {
            let why = why(&exports, &minute, export, gauges)?;
            Some(BrokenPromise { export, why })
        });
        Some(broken.collect())
    }
}

/// Describes why the promise of export `at` was broken, if it was broken.
fn why(
    exports: &[&ExportFigures],
    minute: &[Counts],
    at: usize,
    gauges: &[Gauge],
) -> Option<String> {
    let counts = minute[at];
    let is_short = is_short(counts.owed, counts.received, covered(exports[at]));
    let slow = too_slow(gauges);
    let rate = format!(
        "while requests waited, the equivalent of {:.0} small requests was served, but {:.0} were \
         promised{}",
        counts.received,
        counts.owed,
        reduced(gauges)
    );
    match (counts.is_late(), is_short) {
        (false, false) => None,
        (false, true) => Some(format!("{rate}; {}{slow}", neighbor(exports, minute, at))),
        (true, false) => Some(late(exports, minute, at, &slow)),
        (true, true) => Some(format!("{rate}; {}", late(exports, minute, at, &slow))),
    }
}

/// Describes how far the policy has reduced the promises, if it has.
fn reduced(gauges: &[Gauge]) -> String {
    let pace = gauges.iter().find(|gauge| gauge.name == "pace_percent");
    match pace.map(|pace| pace.value).filter(|percent| *percent < 100.0) {
        Some(percent) => {
            format!(
                " (promises are reduced to {percent:.0} %, because the disk is slower than capacity_iops)"
            )
        }
        None => String::new(),
    }
}

/// States that the disk is slower than `capacity_iops`, if the rate of small requests shows that.
fn too_slow(gauges: &[Gauge]) -> String {
    let of = |name| gauges.iter().find(|gauge| gauge.name == name).map(|gauge| gauge.value);
    match (of("capacity_iops"), of("small_iops")) {
        (Some(capacity), Some(measured)) if measured < capacity * REACHED_SHARE => format!(
            "; the disk serves {measured:.0} small requests per second, but capacity_iops is \
             {capacity:.0}; set it to the rate that the disk reaches with any workload (`forebay \
             plan buy --configure`), or set capacity = \"measured\""
        ),
        _ => String::new(),
    }
}

/// Describes the late requests of export `at`. `slow` is what is known about the disk's speed.
fn late(exports: &[&ExportFigures], minute: &[Counts], at: usize, slow: &str) -> String {
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
        // Failed requests show nothing about the disk's speed or about other exports.
        _ if failed >= late => {
            let others = if late > 0 { format!(", and {late} {was_late}") } else { String::new() };
            (format!("{failed} of {of} failed{others}"), "see the errors of its disk".into())
        }
        _ => {
            let what = format!("{late} of {of} {was_late}, and {failed} failed");
            (what, neighbor(exports, minute, at) + slow)
        }
    };
    format!("{what}; {why}")
}

/// Names the export that took most of the disk's time beyond its promise, other than export `at`.
fn neighbor(exports: &[&ExportFigures], minute: &[Counts], at: usize) -> String {
    let others = (0..exports.len()).filter(|other| *other != at);
    let all_s: f64 = minute.iter().map(|counts| counts.disk_s).sum();
    let busy = others.filter(|other| minute[*other].disk_s > 0.01 * all_s);
    let busy = busy.filter(|other| !minute[*other].is_within_promise());
    let busiest = busy.max_by(|one, other| minute[*one].disk_s.total_cmp(&minute[*other].disk_s));
    let Some(other) = busiest else {
        return "no other export exceeded its promise, so the disk does not respond, or \
                capacity_iops is too high"
            .into();
    };
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
    use forebay_core::contract::GaugeOf;

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

    /// The reasons of promises that were broken in the last minute; none before its end.
    fn whys(broken: Option<Vec<BrokenPromise>>) -> Vec<String> {
        broken.unwrap_or_default().into_iter().map(|broken| broken.why).collect()
    }

    #[test]
    fn a_promise_that_is_broken_for_a_minute_is_reported_once_with_its_neighbor() {
        let mut broken = BrokenPromises::default();
        let at = |s: u64| Nanos::from_millis(1000 * s);
        let mut look =
            |s: u64, exports: &[ExportFigures]| whys(broken.look(at(s), exports.iter(), &[]));
        let begin =
            [export("db", 0, 0, 0.0), export("idle", 0, 0, 0.0), export("batch", 0, 0, 0.0)];
        assert!(look(1, &begin).is_empty());
        let later =
            [export("db", 1000, 980, 4.0), export("idle", 0, 0, 0.0), export("batch", 0, 0, 12.0)];
        assert!(look(30, &later).is_empty(), "not yet");
        assert_eq!(
            look(61, &later),
            ["20 of 1000 kept requests took longer than 10 ms; 'batch' took 75 % of the disk's \
                 time in that minute, for 12.0 MB in 1200 requests"]
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
            whys(broken.look(Nanos::from_millis(1000 * s), [&db].into_iter(), &[]))
        };
        assert!(look(1, 0).is_empty() && look(61, 0).is_empty());
        assert_eq!(
            look(121, 1),
            ["1 of 1 kept request took longer than 10 ms (1 is still outstanding); no other \
                 export exceeded its promise, so the disk does not respond, or capacity_iops is \
                 too high"]
        );
        assert_eq!(look(181, 1).len(), 1, "and for another minute");
        assert!(look(241, 0).is_empty());
    }

    #[test]
    fn chance_breaks_no_promise() {
        let is_broken = |kept: u64, late: u64| {
            Counts { kept, in_time: kept - late, ..Counts::default() }.is_late()
        };
        for (kept, allowed) in [(1, 1), (23, 1), (32, 2), (100, 4), (300, 8), (800, 8), (5000, 50)]
        {
            assert!(!is_broken(kept, allowed), "{allowed} of {kept}");
            assert!(kept == allowed || is_broken(kept, allowed + 1), "{allowed} + 1 of {kept}");
        }
    }

    #[test]
    fn a_rate_below_the_promise_while_requests_wait_breaks_it() {
        let gauge = |name, value| Gauge { name, of: GaugeOf::All, value };
        let paced = [gauge("pace_percent", 62.5)];
        let said = |owed: f64, received: f64, gauges: &[Gauge]| {
            let mut broken = BrokenPromises::default();
            let db = |owed, received| ExportFigures {
                keep_iops: 100,
                owed,
                received,
                ..export("db", 2000, 2000, 1.0)
            };
            let mut look = |s: u64, db: ExportFigures| {
                let batch = export("batch", 0, 0, s as f64);
                let exports = [db, batch];
                whys(broken.look(Nanos::from_millis(1000 * s), exports.iter(), gauges))
            };
            assert!(look(1, db(500.0, 100.0)).is_empty());
            let said = look(61, db(500.0 + owed, 100.0 + received));
            // The counts of a new policy start at 0.
            assert_eq!(look(121, db(owed, received)), said);
            said
        };
        assert_eq!(
            said(6000.0, 5900.0, &[]),
            ["while requests waited, the equivalent of 5900 small requests was served, but 6000 \
                 were promised; 'batch' took 100 % of the disk's time in that minute, for 60.0 MB in \
                 6000 requests"]
        );
        let reduced = said(6000.0, 100.0, &paced).remove(0);
        assert!(reduced.contains("promised (promises are reduced to 62 %, because"), "{reduced}");
        // No promise counts as broken if one request in a hundred is missing, if chance explains
        // the difference, or if requests have just begun to wait.
        for (owed, received) in [(6000.0, 5939.0), (100.0, 95.0), (3.0, 1.0), (6000.0, 9000.0)] {
            assert!(said(owed, received, &[]).is_empty(), "{received} of {owed}");
        }
    }

    #[test]
    fn a_promise_may_be_late_and_short() {
        let mut broken = BrokenPromises::default();
        let db = |kept: u64, owed: f64| ExportFigures { owed, ..export("db", kept, 0, 0.0) };
        let mut look = |s: u64, db: ExportFigures| {
            whys(broken.look(Nanos::from_millis(1000 * s), [&db].into_iter(), &[]))
        };
        assert!(look(1, db(0, 0.0)).is_empty());
        let said = look(61, db(100, 900.0)).remove(0);
        assert!(
            said.starts_with(
                "while requests waited, the equivalent of 0 small requests was served"
            ),
            "{said}"
        );
        assert!(said.contains("promised; 100 of 100 kept requests took longer"), "{said}");
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
            whys(broken.look(Nanos::from_millis(61_000), [&db].into_iter(), &gauges)).remove(0)
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
            ) && mixed.contains("the disk serves 400 small"),
            "{mixed}"
        );
    }

    #[test]
    fn the_neighbor_is_the_one_that_took_the_disks_time_beyond_its_promise() {
        let mut broken = BrokenPromises::default();
        let mut look = |s: u64, exports: [ExportFigures; 4]| {
            whys(broken.look(Nanos::from_millis(1000 * s), exports.iter(), &[]))
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
        // All requests of 'log' are within its own promise, so it is not to blame.
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
            whys(broken.look(Nanos::from_millis(61_000), [&db(100)].into_iter(), &gauges)).remove(0)
        };
        assert!(
            said(77.6).contains(
                "; the disk serves 78 small requests per second, but capacity_iops is 1000"
            )
        );
        assert!(said(950.0).ends_with("capacity_iops is too high"), "{}", said(950.0));
    }
}
