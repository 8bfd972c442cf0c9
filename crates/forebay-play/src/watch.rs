//! Watches a live run: collects the simulator's statistics, the delays in issuing requests, and
//! failures, and decides whether to continue.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay::statistics::Statistics;
use forebay_core::contract::Class;
use forebay_core::{Completion, Done, Nanos, Observer, Op, Request, Workload};
use forebay_live::{Failure, Watch};

use crate::late::Late;
use crate::on::LaneKnown;

/// The interval between progress reports.
const TELL: Nanos = Nanos::from_millis(500);

/// A progress report.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlayNews {
    /// The elapsed time.
    pub elapsed: Nanos,
    /// The number of issued requests.
    pub issued: u64,
    /// The number of finished requests.
    pub finished: u64,
    /// The number of failed I/Os.
    pub failed: u64,
    /// The delay of the most recently issued request.
    pub late: Nanos,
}

/// When to end the run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits<'a> {
    pub(super) stop: &'a AtomicBool,
    pub(super) length: Option<Nanos>,
}

/// The reason why a run ended before its workload did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Interrupted,
    TimeIsUp,
}

/// The busy time of a lane.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    under_way: u32,
    since: Nanos,
    busy: Nanos,
    failed: u64,
}

impl Work {
    fn ends(&mut self, now: Nanos) {
        self.under_way -= 1;
        if self.under_way == 0 {
            self.busy += now - self.since;
        }
    }
}

/// Observes a live run.
pub(super) struct Watched<'a, F> {
    pub(super) statistics: Statistics<LaneKnown>,
    pub(super) late: Late,
    /// When the first and the last request were due.
    pub(super) wanted: Option<(Nanos, Nanos)>,
    pub(super) failures: BTreeMap<(Failure, Op), u64>,
    pub(super) ending: Option<Ending>,
    /// The time at which the run was stopped early.
    pub(super) ended: Nanos,
    /// The number of requests that were due at that time but had not been issued.
    pub(super) overdue: u64,
    work: Vec<Work>,
    news: PlayNews,
    told: Nanos,
    limits: Limits<'a>,
    tell: F,
}

impl<'a, F: FnMut(&PlayNews)> Watched<'a, F> {
    pub(super) fn new(
        known: Vec<LaneKnown>,
        classes: &[Class],
        limits: Limits<'a>,
        tell: F,
    ) -> Watched<'a, F> {
        Watched {
            work: vec![Work::default(); known.len()],
            statistics: Statistics::new(known, classes),
            late: Late::new(),
            wanted: None,
            failures: BTreeMap::new(),
            ending: None,
            ended: Nanos::ZERO,
            overdue: 0,
            news: PlayNews::default(),
            told: Nanos::ZERO,
            limits,
            tell,
        }
    }

    /// Returns each lane's busy time and its number of failed I/Os.
    pub(super) fn work(&self) -> impl Iterator<Item = (Nanos, u64)> {
        self.work.iter().map(|work| (work.busy, work.failed))
    }

    /// Counts the requests that a late host had not issued when a run ended early. They are not
    /// played.
    pub(super) fn count_overdue(&mut self, workload: &mut impl Workload) {
        while self.ending.is_some() && self.overdue < OVERDUE_MAX {
            let Some(at) = workload.peek().filter(|at| *at <= self.ended) else { break };
            workload.take();
            self.overdue += 1;
            self.wanted = Some((self.wanted.map_or(at, |(first, _)| first), at));
        }
    }
}

/// The maximum number of overdue requests to count, because a workload may be endless.
const OVERDUE_MAX: u64 = 10_000_000;

impl<F: FnMut(&PlayNews)> Observer for Watched<'_, F> {
    #[inline]
    fn arrived(&mut self, request: &Request) {
        self.statistics.arrived(request);
    }

    #[inline]
    fn io(&mut self, completion: &Completion) {
        self.work[usize::from(completion.io.lane)].ends(completion.at);
        self.statistics.io(completion);
    }

    #[inline]
    fn finished(&mut self, now: Nanos, done: &Done) {
        self.news.finished += 1;
        self.statistics.finished(now, done);
    }
}

impl<F: FnMut(&PlayNews)> Watch for Watched<'_, F> {
    #[inline]
    fn issued(&mut self, wanted: Nanos, at: Nanos) {
        self.news.issued += 1;
        self.news.late = at - wanted;
        self.late.issued(wanted, at);
        let first = self.wanted.map_or(wanted, |(first, _)| first);
        self.wanted = Some((first, wanted));
    }

    #[cold]
    fn held_up(&mut self, from: Nanos, to: Nanos) {
        self.late.held_up(from, to);
    }

    #[inline]
    fn started(&mut self, now: Nanos, io: &Request) {
        let work = &mut self.work[usize::from(io.lane)];
        if work.under_way == 0 {
            work.since = now;
        }
        work.under_way += 1;
    }

    #[cold]
    fn failed(&mut self, _now: Nanos, io: &Request, failure: Failure) {
        self.work[usize::from(io.lane)].failed += 1;
        self.news.failed += 1;
        *self.failures.entry((failure, io.op)).or_default() += 1;
    }

    #[inline]
    fn stops(&mut self, wall: Nanos) -> bool {
        if wall - self.told >= TELL {
            self.told = wall;
            self.news.elapsed = wall;
            (self.tell)(&self.news);
        }
        if self.ending.is_none() {
            if self.limits.stop.load(Ordering::Relaxed) {
                self.ending = Some(Ending::Interrupted);
            } else if self.limits.length.is_some_and(|length| wall >= length) {
                self.ending = Some(Ending::TimeIsUp);
            }
            self.ended = wall;
        }
        self.ending.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_core::replay::{Intensity, Open};
    use forebay_core::{Flags, Mechanics};

    fn io(offset: u64) -> Request {
        Request {
            at: Nanos::ZERO,
            offset,
            id: 0,
            len: 512,
            stream: 0,
            lane: 0,
            op: Op::Write,
            flags: Flags::NONE,
        }
    }

    fn completion(io: Request, at: Nanos) -> Completion {
        let (started, mechanics, outcome) = (Nanos::ZERO, Mechanics::default(), Ok(()));
        Completion { io, started, at, mechanics, outcome }
    }

    #[test]
    fn requests_not_issued_in_time_by_a_late_host_count_as_wanted() {
        let stop = AtomicBool::new(false);
        let limits = Limits { stop: &stop, length: Some(Nanos::from_secs(2)) };
        let mut watch = Watched::new(vec![LaneKnown::Real], &[], limits, |_: &PlayNews| {});
        let ms = Nanos::from_millis;
        let each = (0..50).map(|n| Request { at: ms(100 * n), ..io(512 * n) });
        let mut workload = Open::new(each, Intensity::RECORDED);
        for _ in 0..5 {
            let request = workload.take();
            watch.issued(request.at, request.at + ms(700));
        }
        assert!(!watch.stops(ms(1999)));
        watch.count_overdue(&mut workload);
        assert_eq!(watch.overdue, 0, "it goes on");
        assert!(watch.stops(ms(2000)));
        watch.count_overdue(&mut workload);
        assert_eq!((watch.overdue, watch.wanted), (16, Some((ms(0), ms(2000)))));
        assert_eq!(workload.peek(), Some(ms(2100)));
    }

    #[test]
    fn observed_requests_are_counted() {
        let stop = AtomicBool::new(false);
        let length = Some(Nanos::from_secs(2));
        let mut told = Vec::new();
        let known = vec![LaneKnown::Real];
        let tell = |news: &PlayNews| told.push(*news);
        let limits = Limits { stop: &stop, length };
        let mut watch = Watched::new(known, &[], limits, tell);
        let ms = Nanos::from_millis;
        for (wanted, at) in [(5, 5), (10, 12), (25, 26)] {
            if at == 12 {
                watch.held_up(ms(10), ms(12));
            }
            watch.issued(ms(wanted), ms(at));
        }
        assert_eq!((watch.late.all.count(), watch.late.all.max()), (3, ms(2)));
        assert_eq!((watch.late.host.max(), watch.late.held_up), (ms(1), ms(2)));
        assert_eq!(watch.wanted, Some((ms(5), ms(25))));
        // Two I/Os overlap, one of which fails; a later one runs alone.
        watch.started(ms(10), &io(512));
        watch.started(ms(20), &io(1024));
        watch.failed(ms(30), &io(1024), Failure::Short);
        watch.io(&completion(io(1024), ms(30)));
        watch.io(&completion(io(512), ms(40)));
        watch.started(ms(100), &Request { len: 1024, ..io(1024) });
        watch.failed(ms(105), &io(1024), Failure::Beyond);
        watch.io(&completion(io(1024), ms(105)));
        assert_eq!(watch.work().collect::<Vec<_>>(), [(ms(35), 2)]);
        let failures: Vec<_> = watch.failures.iter().collect();
        let write = Op::Write;
        assert_eq!(failures, [(&(Failure::Short, write), &1), (&(Failure::Beyond, write), &1)]);
        assert!(!watch.stops(ms(400)) && !watch.stops(ms(500)) && !watch.stops(ms(999)));
        assert!(watch.stops(ms(2000)));
        assert_eq!(watch.ending, Some(Ending::TimeIsUp));
        drop(watch);
        let [first, second] = &told[..] else { panic!("{told:?}") };
        assert_eq!((first.elapsed, second.elapsed), (ms(500), ms(2000)));
        assert_eq!((first.issued, first.failed, first.late), (3, 2, ms(1)));
    }

    #[test]
    fn an_interruption_is_not_a_timeout() {
        let stop = AtomicBool::new(true);
        let limits = Limits { stop: &stop, length: Some(Nanos(1)) };
        let mut watch = Watched::new(Vec::new(), &[], limits, |_: &PlayNews| ());
        assert!(watch.stops(Nanos::from_secs(1)));
        assert_eq!(watch.ending, Some(Ending::Interrupted));
        // The first reason is preserved.
        stop.store(false, Ordering::Relaxed);
        assert!(watch.stops(Nanos::from_secs(2)) && watch.ending == Some(Ending::Interrupted));
    }
}
