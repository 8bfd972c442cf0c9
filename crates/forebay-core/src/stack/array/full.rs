//! Drives without space: files on a file system that is full, or whose quota is exceeded.
//!
//! This is not a fault of the drive, and ends when space is freed. Until then, writes and records
//! wait and are retried, and reads continue. A client that has waited long enough gets an
//! out-of-space error. If there has been no space for that long, further clients get the error
//! after the first attempt.

use super::{Array, Doing, Part, Task};
use crate::contract::{Fault, Nanos};
use crate::stack::placed::Plan;

/// The delay before a write that found no space is retried: short enough that clients continue
/// soon, long enough that a full volume stays idle.
const PAUSE: Nanos = Nanos::from_millis(250);
/// The maximum time that a client waits for space. Clients of NBD give up after 30 s or more.
const WAIT_MAX: Nanos = Nanos::from_millis(10_000);
/// The time before maintenance that found no space is retried, if a request arrives then.
pub(super) const CARE_PAUSE: Nanos = Nanos::from_millis(30_000);

/// Writes and records that wait for space on drives.
#[derive(Clone, Debug, Default)]
pub(super) struct Full {
    /// When data were first refused, if none were accepted since.
    since: Option<Nanos>,
    /// When records were first refused, if none were accepted since.
    records_since: Option<Nanos>,
    /// When all waiting jobs are retried next.
    due: Option<Nanos>,
    /// Parts of writes that wait, by unit.
    parts: Vec<(u64, Part)>,
    /// Whether the records of the round wait.
    records: bool,
}

impl Full {
    pub(super) fn due(&self) -> Option<Nanos> {
        self.due
    }

    /// Returns whether writes are refused.
    pub(super) fn is_full(&self) -> bool {
        self.since.or(self.records_since).is_some()
    }

    /// Records that a drive accepted data.
    pub(super) fn took_data(&mut self) {
        self.since = None;
    }

    /// Records that a drive accepted records.
    pub(super) fn took_records(&mut self) {
        self.records_since = None;
    }
}

/// Begins to count the time for which writes are refused. Returns whether they have been refused
/// for so long that clients no longer wait.
fn is_waited_out(since: &mut Option<Nanos>, now: Nanos) -> bool {
    now >= *since.get_or_insert(now) + WAIT_MAX
}

impl Array {
    /// Called if a drive had no space for a write of a job: the job's clients wait for space,
    /// unless they have already waited long enough.
    pub(super) fn await_room_for(&mut self, key: u32, plan: &mut Plan<'_>) {
        let waited_out = is_waited_out(&mut self.full.since, plan.now);
        self.full.due.get_or_insert(plan.now + PAUSE);
        let job = &mut self.jobs[key as usize];
        let (number, doing) = (job.number, job.doing);
        let may_wait = |part: &Part| !waited_out && plan.now < part.at + WAIT_MAX;
        let (waiting, told): (Vec<Part>, Vec<Part>) =
            std::mem::take(&mut job.parts).into_iter().partition(may_wait);
        job.parts = told;
        self.full.parts.extend(waiting.into_iter().map(|part| (number, part)));
        self.finish(key, Err(Fault::Full), plan);
        if doing != Doing::Write {
            self.care.postpone(plan.now);
        }
    }

    /// Called if no drive has space for the records of a round. The records are written later, and
    /// clients that have waited long enough get an error.
    pub(super) fn await_room_for_records(&mut self, plan: &mut Plan<'_>) {
        self.full.records = true;
        match is_waited_out(&mut self.full.records_since, plan.now) {
            // The next request for records triggers another attempt, so that a run can end
            // meanwhile.
            true => self.refuse_waiters(plan),
            false => {
                self.full.due.get_or_insert(plan.now + PAUSE);
            }
        }
    }

    /// Called if a drive has no space for records that are rewritten on opening. The records are
    /// written to it later, unless clients have waited long enough.
    pub(super) fn await_room_to_open(&mut self, plan: &mut Plan<'_>) {
        match is_waited_out(&mut self.full.records_since, plan.now) {
            true => self.give_up(Fault::Full, plan),
            false => {
                self.full.due.get_or_insert(plan.now + PAUSE);
            }
        }
    }

    /// Schedules another attempt to write records that wait for space, because a client needs them.
    pub(super) fn ask_for_records(&mut self, now: Nanos) {
        if self.full.records {
            self.full.due.get_or_insert(now + PAUSE);
        }
    }

    /// Fails the writes that wait for space, because nothing can be written from now on.
    pub(super) fn refuse_parts(&mut self, fault: Fault, plan: &mut Plan<'_>) {
        for (_, part) in std::mem::take(&mut self.full.parts) {
            plan.release(part.client, Err(fault));
        }
    }

    /// Retries the writes and records that wait for space.
    pub(super) fn retry_full(&mut self, plan: &mut Plan<'_>) {
        self.full.due = None;
        for (number, part) in std::mem::take(&mut self.full.parts) {
            self.locks.ask(number, Task::Write(part));
            self.ready.push(number);
        }
        self.write_refused(plan);
        if std::mem::take(&mut self.full.records) {
            self.send_records(plan);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::super::bench::{Bench, created};
    use super::*;
    use crate::contract::{Flags, Op, Outcome, Request};

    const RECORDS: u64 = 1 << 20;

    fn written() -> Bench {
        Bench::written(created(Level::RAID6, 60, false), true)
    }

    fn full(io: &Request) -> Outcome {
        if io.op == Op::Write { Err(Fault::Full) } else { Ok(()) }
    }

    /// Fails writes of records for lack of space, but no writes of data.
    fn full_of_records(io: &Request) -> Outcome {
        if io.offset < RECORDS { full(io) } else { Ok(()) }
    }

    /// Lets time pass while I/Os end with these outcomes.
    fn pass(bench: &mut Bench, time: Nanos, outcome: fn(&Request) -> Outcome) {
        let until = bench.now() + time;
        bench.end_all(outcome);
        while bench.now() < until && bench.has_due() {
            bench.wake();
            bench.end_all(outcome);
        }
    }

    fn assert_all_used(bench: &Bench) {
        let drives = bench.array().census().drives;
        assert!(drives.iter().all(|drive| drive.is_present && drive.faults == 0), "{drives:?}");
        bench.check();
    }

    #[test]
    fn a_write_waits_for_room_while_its_unit_is_read() {
        let mut bench = written();
        let write = bench.ask(Op::Write, Flags::NONE, 0, 0, 4);
        pass(&mut bench, WAIT_MAX - Nanos::from_millis(1000), full);
        let read = bench.ask(Op::Read, Flags::NONE, 0, 0, 4);
        bench.end_all(full);
        assert_eq!((bench.answers.get(&write), bench.answers[&read]), (None, Ok(())));
        assert!(bench.array().gauged().iter().any(|it| (it.name, it.value) == ("lacks_room", 1.0)));
        assert!(bench.array().state().lacks_room);
        pass(&mut bench, PAUSE, |_| Ok(()));
        assert_eq!((bench.answers[&write], bench.flush(0)), (Ok(()), Ok(())));
        assert!(!bench.array().state().lacks_room);
        assert_all_used(&bench);
    }

    #[test]
    fn after_the_longest_wait_writes_fail_and_later_ones_fail_at_once() {
        let mut bench = written();
        let ask = |bench: &mut Bench, unit: u64| {
            let flags = if unit == 1 { Flags::FUA } else { Flags::NONE };
            bench.ask(Op::Write, flags, 0, 4 * unit, 4)
        };
        let writes = [0, 1, 2].map(|unit| ask(&mut bench, unit));
        pass(&mut bench, WAIT_MAX + PAUSE, full);
        let no_room = Err(Fault::Full);
        assert_eq!(writes.map(|write| bench.answers[&write]), [no_room; 3]);
        let late = ask(&mut bench, 3);
        bench.end_all(full);
        assert_eq!(bench.answers[&late], no_room);
        assert_all_used(&bench);
        let write = ask(&mut bench, 1);
        bench.end_all(|_| Ok(()));
        assert_eq!((bench.answers[&write], bench.flush(0)), (Ok(()), Ok(())));
        assert_all_used(&bench);
    }

    #[test]
    fn records_wait_for_space_and_nothing_is_lost() {
        let mut bench = written();
        bench.write(0, 4);
        let flush = bench.ask(Op::Flush, Flags::NONE, 0, 0, 0);
        pass(&mut bench, WAIT_MAX - Nanos::from_millis(1000), full_of_records);
        assert_eq!(bench.answers.get(&flush), None);
        pass(&mut bench, Nanos::from_millis(1000) + PAUSE, full_of_records);
        assert_eq!(bench.answers[&flush], Err(Fault::Full));
        // Drives still accept writes, so new writes are answered.
        let id = bench.ask(Op::Write, Flags::NONE, 0, 4, 4);
        bench.end_all(full_of_records);
        assert_eq!(bench.answers[&id], Ok(()));
        let flush = bench.ask(Op::Flush, Flags::NONE, 1, 0, 0);
        pass(&mut bench, PAUSE, full_of_records);
        assert_eq!(bench.answers[&flush], Err(Fault::Full));
        assert_all_used(&bench);
        // No client waits, so nothing is retried until the next request.
        assert_eq!(bench.array().full.due(), None);
        let flushes = [0, 1].map(|stream| bench.ask(Op::Flush, Flags::NONE, stream, 0, 0));
        pass(&mut bench, PAUSE, |_| Ok(()));
        assert_eq!(flushes.map(|flush| bench.answers[&flush]), [Ok(()), Ok(())]);
        assert!(bench.array().changed.is_empty() && !bench.array().full.is_full());
        assert_all_used(&bench);
    }

    #[test]
    fn records_go_to_other_drives_if_a_drive_has_no_space() {
        let mut bench = written();
        bench.write(0, 4);
        let flush = bench.ask(Op::Flush, Flags::NONE, 0, 0, 0);
        bench.end_all(|io| if io.lane < 2 { full_of_records(io) } else { Ok(()) });
        assert_eq!(bench.answers[&flush], Ok(()));
        assert_all_used(&bench);
    }

    #[test]
    fn a_new_array_without_space_is_not_opened() {
        let mut bench = Bench::new(created(Level::RAID6, 60, false), 1, Default::default());
        let write = bench.ask(Op::Write, Flags::NONE, 0, 0, 4);
        bench.end_all(full);
        while !bench.answers.contains_key(&write) {
            bench.wake();
            bench.end_all(full);
        }
        assert_eq!(bench.answers[&write], Err(Fault::Full));
        assert!(bench.now() >= WAIT_MAX, "{}", bench.now().0);
    }

    #[test]
    fn a_repair_without_space_is_tried_again_later() {
        let mut bench = Bench::written(created(Level::TRIPLE, 60, false), true);
        let lane = bench.lane_of(0);
        bench.ask(Op::Read, Flags::NONE, 0, 0, 4);
        bench.end_all(|io| if io.lane == lane { Err(Fault::Gone) } else { full(io) });
        pass(&mut bench, Nanos::from_millis(1000), full);
        let degraded = |bench: &Bench| bench.array().census().degraded_units;
        assert_eq!(degraded(&bench), 1);
        assert!(!bench.has_due(), "a run can end while there is no room");
        let read = |bench: &mut Bench| {
            bench.ask(Op::Read, Flags::NONE, 0, 4, 4);
            pass(bench, Nanos::from_millis(1000), |_| Ok(()));
            degraded(bench)
        };
        assert_eq!(read(&mut bench), 1, "it is not tried again at once");
        bench.idle(CARE_PAUSE);
        assert_eq!(read(&mut bench), 0);
        bench.check();
    }
}
