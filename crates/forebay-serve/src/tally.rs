//! Counts and latencies of clients' requests and of disks, since the server started.

mod export;

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;

use forebay_core::contract::{Done, Figure, Gauge, GaugeOf, VolumeEvent, VolumeState, VolumeWork};
use forebay_core::{Completion, Fault, Nanos, Observer, Op, Request};
use forebay_live::{Failure, Watch};
use hdrhistogram::Histogram;

use crate::Named;
use crate::broken::BrokenPromise;
use crate::figures::{DiskFigures, ExportFigures};
use crate::front::Front;
use crate::journal::Journal;
use crate::outstanding_ios::OutstandingIos;
use crate::paired::Paired;
use crate::protocol::Header;
use crate::record::time_of_day;
pub(crate) use export::{Answered, Coverage, ExportTally};

/// The maximum recorded latency in microseconds; longer ones are clamped.
const LATENCY_MAX_US: u64 = 3_600_000_000;
/// The counts of a back.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    pub(crate) exports: Vec<ExportTally>,
    pub(crate) lanes: Vec<DiskFigures>,
    /// For each busy lane, the time since which it has been busy.
    busy_since: Vec<Nanos>,
    /// For each lane, its outstanding I/Os.
    outstanding: Vec<OutstandingIos>,
    /// How much later than their model's time emulated I/Os ended, in microseconds; None if nothing
    /// is emulated.
    pub(crate) late_us: Option<Histogram<u64>>,
    pub(crate) policy: String,
    pub(crate) switches: u64,
    pub(crate) last_pause: Nanos,
    pub(crate) counted: Vec<Figure>,
    pub(crate) gauges: Vec<Gauge>,
    pub(crate) volume: Option<VolumeState>,
    /// Why the policy cannot be opened, while the server tries again.
    pub(crate) waits_for: Option<Fault>,
}

/// Creates a histogram of latencies in microseconds.
fn empty() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX_US, 2).expect("bounds that a histogram takes")
}

impl Tally {
    /// Creates counts for these exports on the disks at these paths, by lane.
    pub(crate) fn new(exports: &[Named], policy: &str, disks: &[PathBuf]) -> Tally {
        let lane = |path: &PathBuf| {
            let file = path.display().to_string();
            DiskFigures { file, ..DiskFigures::default() }
        };
        let lanes = disks.iter().map(lane).collect();
        Tally {
            exports: exports.iter().map(ExportTally::new).collect(),
            lanes,
            busy_since: vec![Nanos::ZERO; disks.len()],
            outstanding: vec![OutstandingIos::default(); disks.len()],
            waits_for: None,
            late_us: None,
            policy: policy.to_string(),
            switches: 0,
            last_pause: Nanos::ZERO,
            counted: Vec::new(),
            gauges: Vec::new(),
            volume: None,
        }
    }

    /// Marks the disks as emulated.
    pub(crate) fn emulated(self) -> Tally {
        Tally { late_us: Some(empty()), ..self }
    }

    /// Sets new promises for all exports. New exports are at the end of `exports`.
    pub(crate) fn promise(&mut self, exports: &[Named]) {
        let new = exports.iter().skip(self.exports.len()).map(ExportTally::new);
        self.exports.extend(new.collect::<Vec<_>>());
        for (tally, named) in self.exports.iter_mut().zip(exports) {
            if tally.figures.name != named.name {
                // An export without clients was replaced by another one with its number.
                let ExportFigures { clients, under_way, .. } = tally.figures;
                *tally = ExportTally::new(named);
                (tally.figures.clients, tally.figures.under_way) = (clients, under_way);
            }
            tally.promise(named.promise);
        }
    }

    /// Records how many requests the policy owes the clients with promises, and how many it has
    /// served.
    pub(crate) fn receive(&mut self, gauges: &[Gauge]) {
        for gauge in gauges {
            let GaugeOf::Tenant(tenant) = gauge.of else { continue };
            let Some(export) = self.exports.get_mut(tenant as usize) else { continue };
            match gauge.name {
                "owed_units" => export.figures.owed = gauge.value,
                "received_units" => export.figures.received = gauge.value,
                _ => {}
            }
        }
    }

    /// Records which promises were broken in the last minute.
    pub(crate) fn broke(&mut self, broken: Vec<BrokenPromise>) {
        self.exports.iter_mut().for_each(|export| export.figures.broken = None);
        for BrokenPromise { export, why } in broken {
            self.exports[export].figures.broken = Some(why);
        }
    }

    /// Registers that `count` emulated I/Os ended `late` after their model's time.
    pub(crate) fn late(&mut self, count: usize, late: Nanos) {
        if let Some(late_us) = &mut self.late_us {
            late_us.saturating_record_n((late.0 / 1000).clamp(1, LATENCY_MAX_US), count as u64);
        }
    }

    pub(crate) fn came(&mut self, export: usize) {
        self.exports[export].figures.clients += 1;
    }

    pub(crate) fn left(&mut self, export: usize) {
        self.exports[export].figures.clients -= 1;
    }

    pub(crate) fn asked(&mut self, export: usize) {
        self.exports[export].figures.under_way += 1;
    }

    /// Registers that a request was answered at `now`, or that its client has gone.
    pub(crate) fn answered(&mut self, export: usize, now: Nanos, header: &Header, how: Answered) {
        let export = &mut self.exports[export];
        export.figures.under_way -= 1;
        export.answered(now, header, how);
    }

    /// Returns whether an export has a promise.
    pub(crate) fn has_promise(&self, export: usize) -> bool {
        self.exports[export].within.is_some()
    }

    /// Updates the figures of the disks' outstanding I/Os.
    pub(crate) fn look_at_disks(&mut self, now: Nanos) {
        for (lane, ios) in self.lanes.iter_mut().zip(&self.outstanding) {
            let seconds = |since: Nanos| (now - since).0 as f64 / 1e9;
            lane.oldest_io_s = ios.oldest().map_or(0.0, seconds);
            lane.silent_s = ios.silent_since().map_or(0.0, seconds);
        }
    }

    /// Returns a copy of the counts, updated to the time `now`.
    pub(crate) fn at(&mut self, now: Nanos) -> Tally {
        self.exports.iter_mut().for_each(|export| export.turn(now));
        for (lane, since) in self.lanes.iter_mut().zip(&mut self.busy_since) {
            if lane.under_way > 0 {
                lane.busy_s += (now - *since).0 as f64 / 1e9;
                *since = now.max(*since);
            }
        }
        self.clone()
    }

    /// Counts the I/Os of one more disk.
    pub(crate) fn add_lane(&mut self, lane: usize, disk: DiskFigures) {
        self.lanes.resize(self.lanes.len().max(lane + 1), DiskFigures::default());
        self.busy_since.resize(self.lanes.len(), Nanos::ZERO);
        self.outstanding.resize(self.lanes.len(), OutstandingIos::default());
        self.lanes[lane] = disk;
    }

    fn lane(&mut self, io: &Request) -> &mut DiskFigures {
        let at = usize::from(io.lane);
        if at >= self.lanes.len() {
            self.lanes.resize(at + 1, DiskFigures::default());
            self.busy_since.resize(at + 1, Nanos::ZERO);
            self.outstanding.resize(at + 1, OutstandingIos::default());
        }
        &mut self.lanes[at]
    }

    fn started(&mut self, now: Nanos, io: &Request) {
        let lane = self.lane(io);
        lane.under_way += 1;
        if lane.under_way == 1 {
            self.busy_since[usize::from(io.lane)] = now;
        }
        self.outstanding[usize::from(io.lane)].starts(now, io);
    }

    /// Registers the end of an I/O; returns the disk time that it used.
    fn ended(&mut self, done: &Completion) -> Nanos {
        let lane = self.lane(&done.io);
        lane.under_way -= 1;
        let is_idle = lane.under_way == 0;
        // Failed trims do not count, because a disk that does not support trims may work well
        // otherwise.
        let in_a_row = match done.io.op {
            Op::Read => Some(&mut lane.reads_failed_in_a_row),
            Op::Flush => Some(&mut lane.flushes_failed_in_a_row),
            Op::Trim => None,
            _ => Some(&mut lane.writes_failed_in_a_row),
        };
        if let Some(failed) = in_a_row {
            *failed = if done.outcome.is_ok() { 0 } else { *failed + 1 };
        }
        match (done.outcome, done.io.op) {
            (Err(_), _) => lane.failed += 1,
            (Ok(()), Op::Read) => lane.reads += 1,
            (Ok(()), Op::Write) => lane.writes += 1,
            (Ok(()), _) => lane.others += 1,
        }
        if done.outcome.is_ok() && done.io.op.moves_data() {
            lane.moved_bytes += u64::from(done.io.len);
        }
        if is_idle {
            let busy = done.at - self.busy_since[usize::from(done.io.lane)];
            self.lane(&done.io).busy_s += busy.0 as f64 / 1e9;
        }
        self.outstanding[usize::from(done.io.lane)].ends(done)
    }
}

/// Counts the I/Os of disks; also writes traces of them and of clients' requests if requested.
pub(crate) struct Counting {
    pub(crate) front: Rc<RefCell<Front>>,
    pub(crate) journal: Journal,
    /// The disk and its flash, if they have marks to keep up to date.
    pub(crate) pair: Option<Rc<RefCell<Paired>>>,
}

impl Counting {
    /// Reports the events on a volume.
    pub(crate) fn tell_events(&mut self) {
        let mut front = self.front.borrow_mut();
        let events = front.take_events();
        self.journal.name_disks(front.tally.lanes.iter().map(|disk| &*disk.file));
        let Some(state) = front.volume_state(!events.is_empty()) else { return };
        // Losing a drive causes further events; report the loss before them.
        if let Some(gauges) = front.open_gauges() {
            self.journal.look_at_drives(&gauges);
        }
        self.journal.tell_events(&events, &state);
        let is_checked = |event: &VolumeEvent| {
            matches!(event, VolumeEvent::Ended { work: VolumeWork::Check, .. })
        };
        if events.iter().any(is_checked) {
            self.journal.mend_labels(&state);
        }
    }
}

impl Observer for Counting {
    #[inline]
    fn arrived(&mut self, request: &Request) {
        self.front.borrow_mut().record_arrival(request);
    }

    #[inline]
    fn io(&mut self, completion: &Completion) {
        let mut front = self.front.borrow_mut();
        if front.was_dropped(&completion.io) {
            return;
        }
        let took = front.tally.ended(completion);
        front.charge(&completion.io, took);
        front.record_end(completion);
    }

    #[inline]
    fn finished(&mut self, now: Nanos, done: &Done) {
        if done.outcome.is_err() {
            self.journal.answered(now, done);
        }
        // Establish which drives are missing at the start, so that drives lost later are reported
        // as lost.
        if done.request.op == Op::Open {
            self.journal.look_soon();
        }
        self.front.borrow_mut().traces.finished(now, done);
    }
}

impl Counting {
    /// Reports the notes that the front has collected.
    pub(crate) fn tell_notes(&self) {
        let notes = std::mem::take(&mut self.front.borrow_mut().notes);
        notes.into_iter().for_each(|note| self.journal.say(note));
    }

    /// Reports changes since the last call. While the policy is being opened or switched, its
    /// gauges are not known, but disks and clients still are.
    fn look(&mut self, wall: Nanos) {
        self.tell_notes();
        let mut front = self.front.borrow_mut();
        let gauges = front.open_gauges();
        self.journal.look(wall, gauges.as_deref());
        front.traces.hand_over();
        front.look_at_outstanding(wall);
        self.journal.look_at_disks(&front.tally.lanes);
        let refused = front.tally.exports.iter().map(|export| export.figures.refused).sum();
        self.journal.look_at_refused(wall, refused);
        let known = gauges.as_deref().unwrap_or_default();
        front.tally.receive(known);
        let exports = front.tally.exports.iter().map(|export| &export.figures);
        if let Some(broken) = self.journal.look_at(wall, exports, known) {
            front.tally.broke(broken);
        }
        if let (Some(pair), Some(gauges)) = (&self.pair, &gauges) {
            pair.borrow_mut().look(wall, gauges);
        }
    }
}

impl Watch for Counting {
    fn failed(&mut self, now: Nanos, io: &Request, failure: Failure) {
        self.journal.failed(now, io, failure);
    }

    #[inline]
    fn stops(&mut self, wall: Nanos) -> bool {
        if self.journal.listens(wall) {
            self.tell_events();
            self.front.borrow_mut().scrub_if_due(wall, time_of_day());
        }
        if self.journal.is_due(wall) {
            self.look(wall);
        }
        false
    }

    #[inline]
    fn started(&mut self, now: Nanos, io: &Request) {
        let mut front = self.front.borrow_mut();
        if front.is_dropping(io) {
            return;
        }
        front.tally.started(now, io);
        front.record_start(now, io);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Promise;
    use crate::protocol::Command;

    fn answer(tally: &mut Tally, at_s: u64, took_ms: u64, kept: bool) {
        let header = Header { command: Command::Read, len: 4096, ..Header::FLUSH };
        let how = Answered {
            took: Nanos::from_millis(took_ms),
            failed: false,
            kept_after: kept.then_some(Nanos::ZERO),
        };
        tally.asked(0);
        tally.answered(0, Nanos::from_millis(at_s * 1000), &header, how);
    }

    #[test]
    fn latencies_are_recent_for_five_to_ten_seconds() {
        let named = Named::all("a");
        let mut tally = Tally::new(&[named], "noop", &[]);
        let longest = |tally: &mut Tally, at_s: u64| {
            let recent = tally.at(Nanos::from_millis(at_s * 1000)).exports[0].recent();
            recent.longest_ms().unwrap_or(0.0) as u64
        };
        answer(&mut tally, 1, 500, false);
        answer(&mut tally, 6, 20, false);
        assert!((480..=520).contains(&longest(&mut tally, 7)));
        assert!((19..=21).contains(&longest(&mut tally, 11)));
        assert_eq!(longest(&mut tally, 40), 0);
        assert_eq!(tally.exports[0].figures.reads, 2);
        assert_eq!(tally.exports[0].figures.under_way, 0);
    }

    #[test]
    fn a_disk_is_busy_while_an_io_is_under_way() {
        let mut tally = Tally::new(&[Named::all("a")], "noop", &[PathBuf::from("disk")]);
        let io = |id| Request {
            at: Nanos::ZERO,
            offset: 0,
            id,
            len: 4096,
            stream: 0,
            lane: 0,
            op: Op::Read,
            flags: forebay_core::Flags::NONE,
        };
        let ms = Nanos::from_millis;
        let done =
            |id, from, to| forebay_live::Ended::new(io(id), ms(from), ms(to), None).completion;
        tally.started(ms(100), &io(1));
        tally.started(ms(150), &io(2));
        tally.ended(&done(1, 100, 200));
        let busy_ms = |tally: &Tally| (tally.lanes[0].busy_s * 1e3).round();
        // The time of overlapping I/Os counts once, and that of an I/O in flight counts until now.
        assert_eq!(busy_ms(&tally.at(ms(210))), 110.0);
        tally.ended(&done(2, 150, 300));
        tally.started(ms(500), &io(3));
        tally.ended(&done(3, 500, 501));
        assert_eq!(busy_ms(&tally.at(ms(900))), 201.0);
    }

    #[test]
    fn failures_in_a_row_end_with_a_success_and_trims_are_not_among_them() {
        let mut tally = Tally::new(&[Named::all("a")], "noop", &[PathBuf::from("disk")]);
        let ends = |tally: &mut Tally, op, outcome| {
            let flags = forebay_core::Flags::NONE;
            let at = Nanos::ZERO;
            let io = Request { at, offset: 0, id: 1, len: 4096, stream: 0, lane: 0, op, flags };
            tally.started(at, &io);
            let done = forebay_live::Ended::new(io, at, at, None).completion;
            tally.ended(&Completion { outcome, ..done });
            (tally.lanes[0].reads_failed_in_a_row, tally.lanes[0].writes_failed_in_a_row)
        };
        let fails = Err(forebay_core::Fault::Media);
        assert_eq!(ends(&mut tally, Op::Trim, fails), (0, 0));
        assert_eq!(ends(&mut tally, Op::Read, fails), (1, 0));
        assert_eq!(ends(&mut tally, Op::Write, fails), (1, 1));
        assert_eq!(ends(&mut tally, Op::Flush, fails), (1, 1));
        assert_eq!(tally.lanes[0].flushes_failed_in_a_row, 1);
        assert_eq!(ends(&mut tally, Op::Read, Ok(())), (0, 1));
        assert_eq!(ends(&mut tally, Op::Trim, Ok(())), (0, 1));
        // File systems flush even if nothing can be written, so only a successful write resets the
        // count.
        assert_eq!(ends(&mut tally, Op::Flush, Ok(())), (0, 1));
        assert_eq!(tally.lanes[0].flushes_failed_in_a_row, 0);
        assert_eq!(ends(&mut tally, Op::Write, Ok(())), (0, 0));
    }

    #[test]
    fn a_disk_that_hangs_is_known_by_its_outstanding_ios() {
        let mut tally = Tally::new(&[Named::all("a")], "noop", &[PathBuf::from("disk")]);
        let s = |s: u64| Nanos::from_millis(1000 * s);
        let io = |id: u64| Request {
            at: Nanos::ZERO,
            offset: 4096 * id,
            id,
            len: 4096,
            stream: 0,
            lane: 0,
            op: Op::Read,
            flags: forebay_core::Flags::NONE,
        };
        let done = |id, from, to| forebay_live::Ended::new(io(id), s(from), s(to), None).completion;
        let looked = |tally: &mut Tally, at| {
            tally.look_at_disks(s(at));
            (tally.lanes[0].oldest_io_s, tally.lanes[0].silent_s)
        };
        assert_eq!(looked(&mut tally, 9), (0.0, 0.0));
        [1, 2, 3].into_iter().for_each(|id| tally.started(s(10 * id), &io(id)));
        assert_eq!(looked(&mut tally, 40), (30.0, 30.0));
        // As long as other I/Os are answered, only this I/O hangs.
        assert_eq!(tally.ended(&done(2, 20, 45)), s(25));
        assert_eq!(tally.ended(&done(3, 30, 50)), s(5), "only since the previous one ended");
        assert_eq!(looked(&mut tally, 60), (50.0, 10.0));
        tally.ended(&done(1, 10, 61));
        assert_eq!(looked(&mut tally, 99), (0.0, 0.0));
    }

    #[test]
    fn only_emulated_devices_can_be_late() {
        let mut tally = Tally::new(&[], "noop", &[]);
        tally.late(1, Nanos::from_millis(3));
        assert!(tally.late_us.is_none());
        let mut tally = tally.emulated();
        tally.late(99, Nanos::from_millis(1));
        tally.late(1, Nanos::from_millis(50));
        let late_us = tally.late_us.unwrap();
        assert!((990..1010).contains(&late_us.value_at_quantile(0.99)), "{late_us:?}");
        assert!((49_000..51_000).contains(&late_us.max()), "{late_us:?}");
    }

    #[test]
    fn a_promise_counts_what_it_covers() {
        let promise = Promise { iops: 10, within: Nanos::from_millis(30) };
        let mut tally =
            Tally::new(&[Named { promise: Some(promise), ..Named::all("a") }], "noop", &[]);
        for (took_ms, kept) in [(30, true), (31, true), (500, false)] {
            answer(&mut tally, 1, took_ms, kept);
        }
        // A request that fails was not answered in time, however fast.
        let header = Header { command: Command::Write, len: 4096, ..Header::FLUSH };
        let how = Answered { took: Nanos(1), failed: true, kept_after: Some(Nanos::ZERO) };
        tally.asked(0);
        tally.answered(0, Nanos::from_millis(1000), &header, how);
        let figures = &tally.exports[0].figures;
        assert_eq!((figures.kept, figures.kept_in_time, figures.reads), (3, 1, 3));
        assert_eq!(figures.kept_failed, 1);
    }
}
