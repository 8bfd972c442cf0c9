//! Messages to the user while a server runs: failed I/Os, and drives that are lost or back. Each
//! message is one line, in which "error:" or "warning:" follows the name of the back unless the
//! message is only informative. Repeated events are reported once every [`EVERY`], with the number
//! of events omitted.

// Allowed because the journal passes messages to another thread.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod limiter;
mod volume_lines;

use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::thread;

use crate::back::CLIENTS_MAX;
use crate::broken::{BrokenPromise, BrokenPromises};
use crate::figures::{DiskFigures, ExportFigures, SILENT_S};
use forebay_core::contract::{Done, Gauge, GaugeOf, VolumeDrive, VolumeEvent, VolumeState};
use forebay_core::{Fault, Lane, Nanos, Op, Request};
use forebay_live::Failure;
use forebay_words::plural::{counted, verb};
use limiter::Limiter;
use volume_lines::volume_line;

/// The minimum interval between reports of the same kind of event.
const EVERY: Nanos = Nanos::from_millis(10_000);
/// The interval between checks for lost or returned drives.
const LOOKS: Nanos = Nanos::from_millis(1000);
/// The interval between checks for events on a volume.
const LISTENS: Nanos = Nanos::from_millis(100);
/// The maximum number of units whose damage is reported individually within [`EVERY`].
const UNITS_MAX: u64 = 20;

/// A kind of event to report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JournalEvent {
    /// I/Os of this kind failed on a lane, with this error.
    Failed(Lane, Op, Failure),
    /// Clients' requests of this kind failed, with this fault.
    Answered(Op, Fault),
}

/// The messages of one back.
#[derive(Debug)]
pub(crate) struct Journal {
    back: String,
    /// The disks, by lane.
    disks: Vec<PathBuf>,
    /// The channel for messages; None for a silent journal.
    says: Option<Sender<String>>,
    limiter: Limiter<JournalEvent>,
    /// Whether requests can fail although no I/O failed.
    tells_answers: bool,
    drives: Drives,
    looks_at: Nanos,
    listens_at: Nanos,
    units: UnitLimiter,
    promises: BrokenPromises,
    /// The lanes of the disks that do not answer.
    silent: Vec<usize>,
    /// The number of refused clients that were reported, and when more may be.
    refused: (u64, Nanos),
}

impl Journal {
    /// Creates a journal for a back on these disks.
    pub(crate) fn new(back: &str, disks: &[PathBuf], says: Sender<String>) -> Journal {
        Journal { disks: disks.to_vec(), says: Some(says), ..Journal::silent(back) }
    }

    /// Creates a journal that reports nothing.
    pub(crate) fn silent(back: &str) -> Journal {
        Journal {
            back: back.to_string(),
            disks: Vec::new(),
            says: None,
            limiter: Limiter::new(),
            tells_answers: false,
            drives: Drives::default(),
            looks_at: Nanos::ZERO,
            listens_at: Nanos::ZERO,
            units: UnitLimiter::default(),
            promises: BrokenPromises::default(),
            silent: Vec::new(),
            refused: (0, Nanos::ZERO),
        }
    }

    /// Also reports failed requests; for policies that store data in several places and answer
    /// requests themselves.
    pub(crate) fn telling_answers(self, tells_answers: bool) -> Journal {
        Journal { tells_answers, ..self }
    }

    /// Reports a message.
    pub(crate) fn say(&self, what: String) {
        if let Some(says) = &self.says {
            // If the receiver is gone, the server is stopping.
            let _ = says.send(format!("'{}': {what}", self.back));
        }
    }

    /// Rewrites missing and damaged labels of a volume's drives, in another thread.
    pub(crate) fn mend_labels(&self, state: &VolumeState) {
        let Some(says) = self.says.clone() else { return };
        let drive = |drive: &VolumeDrive| {
            let is_used = drive.is_present && drive.is_member;
            let path = self.disks.get(usize::from(drive.lane)).filter(|_| is_used)?;
            Some((drive.number, path.clone()))
        };
        let (drives, back) =
            (state.drives.iter().filter_map(drive).collect::<Vec<_>>(), self.back.clone());
        let mend = move || {
            for note in forebay_volume::mend_labels(&drives) {
                // If the receiver is gone, the server is stopping.
                let _ = says.send(format!("'{back}': warning: {note}"));
            }
        };
        // Without a thread, the labels are mended when the volume is opened again.
        let _ = thread::Builder::new().name("labels".into()).spawn(mend);
    }

    fn disk(&self, lane: Lane) -> String {
        let disk = self.disks.get(usize::from(lane));
        disk.map_or_else(|| format!("disk {lane}"), |path| path.display().to_string())
    }

    /// Registers a failed I/O.
    pub(crate) fn failed(&mut self, now: Nanos, io: &Request, failure: Failure) {
        // File systems that cannot punch holes refuse trims, and zeros are written instead.
        if io.op == Op::Trim && failure.fault() == Fault::Refused {
            return;
        }
        if let Some(left_out) =
            self.limiter.event(&JournalEvent::Failed(io.lane, io.op, failure), now)
        {
            let disk = self.disk(io.lane);
            self.say(format!(
                "error: {disk}: {} failed: {failure}{}",
                extent(io),
                and_more(left_out)
            ));
        }
    }

    /// Registers the answer to a client's request.
    pub(crate) fn answered(&mut self, now: Nanos, done: &Done) {
        let Err(fault) = done.outcome else { return };
        let op = done.request.op;
        if !self.tells_answers || op == Op::Trim && fault == Fault::Refused {
            return;
        }
        if let Some(left_out) = self.limiter.event(&JournalEvent::Answered(op, fault), now) {
            let what = extent(&done.request);
            let more = and_more(left_out);
            self.say(format!("error: {what} failed: {}{more}", fault.reason()));
        }
    }

    /// Returns whether it is time to check drives.
    #[inline]
    pub(crate) fn is_due(&self, wall: Nanos) -> bool {
        wall >= self.looks_at && self.says.is_some()
    }

    /// Makes the next check of the drives due.
    pub(crate) fn look_soon(&mut self) {
        self.looks_at = Nanos::ZERO;
    }

    /// Returns whether it is time to check for events on a volume.
    #[inline]
    pub(crate) fn listens(&mut self, wall: Nanos) -> bool {
        let listens = wall >= self.listens_at && self.says.is_some();
        if listens {
            self.listens_at = wall + LISTENS;
        }
        listens
    }

    /// Adds the names of disks that were added.
    pub(crate) fn name_disks<'a>(&mut self, files: impl ExactSizeIterator<Item = &'a str>) {
        if files.len() > self.disks.len() {
            self.disks = files.map(PathBuf::from).collect();
        }
    }

    /// Reports events on a volume; `state` is its current state.
    pub(crate) fn tell_events(&mut self, events: &[VolumeEvent], state: &VolumeState) {
        let name = |number: u8| {
            let lane = state.drives.iter().find(|drive| drive.number == number)?.lane;
            Some(format!("drive {number} ({})", self.disk(lane)))
        };
        let name = |number: u8| name(number).unwrap_or_else(|| format!("drive {number}"));
        let mut units = self.units;
        let mut lines = Vec::new();
        for event in events {
            if units.reports(event, self.listens_at) {
                lines.extend(volume_line(event, state, &name));
            }
        }
        self.units = units;
        lines.into_iter().for_each(|line| self.say(line));
    }

    /// Reports drives that were lost or have returned, according to the policy's gauges if they are
    /// known.
    pub(crate) fn look(&mut self, wall: Nanos, gauges: Option<&[Gauge]>) {
        self.looks_at = wall + LOOKS;
        gauges.into_iter().for_each(|gauges| self.look_at_drives(gauges));
        self.tell_due(wall, false);
    }

    /// Reports drives of a volume that were lost or are back.
    pub(crate) fn look_at_drives(&mut self, gauges: &[Gauge]) {
        let names: Vec<String> =
            (0..self.disks.len() as Lane).map(|lane| self.disk(lane)).collect();
        self.drives.changed(gauges, &names).into_iter().for_each(|line| self.say(line));
    }

    /// Reports disks that have not answered for a long time, and those that answer again.
    pub(crate) fn look_at_disks(&mut self, disks: &[DiskFigures]) {
        for (lane, DiskFigures { file, silent_s, .. }) in disks.iter().enumerate() {
            let known = self.silent.iter().position(|one| *one == lane);
            match (known, *silent_s >= SILENT_S) {
                (None, true) => {
                    self.silent.push(lane);
                    self.say(format!(
                        "warning: {file} has not answered for {} s; its requests wait",
                        silent_s.floor()
                    ));
                }
                (Some(at), false) => {
                    self.silent.remove(at);
                    self.say(format!("{file} answers again"));
                }
                _ => {}
            }
        }
    }

    /// Reports clients that were refused since the last report.
    pub(crate) fn look_at_refused(&mut self, wall: Nanos, refused: u64) {
        let (before, due) = self.refused;
        if refused > before && wall >= due {
            self.refused = (refused, wall + EVERY);
            let clients = counted(refused - before, "client");
            self.say(format!(
                "warning: {clients} {} refused, because {CLIENTS_MAX} are connected",
                verb(refused - before, "was", "were")
            ));
        }
    }

    /// Reports promises that were broken for a minute; returns them when a minute has ended.
    pub(crate) fn look_at<'a>(
        &mut self,
        wall: Nanos,
        exports: impl Iterator<Item = &'a ExportFigures>,
        gauges: &[Gauge],
    ) -> Option<Vec<BrokenPromise>> {
        let exports: Vec<&ExportFigures> = exports.collect();
        let broken = self.promises.look(wall, exports.iter().copied(), gauges)?;
        for BrokenPromise { export, why } in &broken {
            let name = &exports[*export].name;
            self.say(format!("warning: the promise to '{name}' was broken for a minute: {why}"));
        }
        Some(broken)
    }

    /// Reports everything omitted so far, at the end.
    pub(crate) fn end(&mut self, now: Nanos) {
        self.tell_due(now, true);
    }

    fn tell_due(&mut self, now: Nanos, is_end: bool) {
        let omitted = self.units.due(now, is_end);
        if omitted > 0 {
            let units = counted(omitted, "more unit");
            self.say(format!("warning: {units} {} restored or lost", verb(omitted, "was", "were")));
        }
        for (kind, left_out) in self.limiter.due(now, is_end) {
            self.say(match kind {
                JournalEvent::Failed(lane, op, failure) => {
                    format!("error: {}: {} failed: {failure}", self.disk(lane), more(left_out, op))
                }
                JournalEvent::Answered(op, fault) => {
                    format!("error: {} failed: {}", more(left_out, op), fault.reason())
                }
            });
        }
    }
}

/// Describes the operation and range of a request or an I/O.
fn extent(io: &Request) -> String {
    let Request { op, offset, len, .. } = *io;
    match op {
        Op::Open => "opening the policy".into(),
        Op::Flush => "a flush".into(),
        _ => format!("a {} of {len} bytes at {offset}", op.name()),
    }
}

/// Formats a count: "1 more write", "5 more flushes".
fn more(count: u64, op: Op) -> String {
    counted(count, &format!("more {}", op.name()))
}

fn and_more(left_out: u64) -> String {
    match left_out {
        0 => String::new(),
        count => format!(" ({count} more since the last message)"),
    }
}

/// Limits reports about single units.
#[derive(Clone, Copy, Debug, Default)]
struct UnitLimiter {
    since: Nanos,
    told: u64,
    omitted: u64,
}

impl UnitLimiter {
    /// Returns whether an event should be reported individually.
    fn reports(&mut self, event: &VolumeEvent, now: Nanos) -> bool {
        match event {
            VolumeEvent::Omitted { count } => {
                self.omitted += count;
                return false;
            }
            VolumeEvent::Mended { .. }
            | VolumeEvent::Lost { .. }
            | VolumeEvent::Recovered { .. } => {}
            _ => return true,
        }
        if self.told == 0 {
            self.since = now;
        }
        let reports = self.told < UNITS_MAX;
        *if reports { &mut self.told } else { &mut self.omitted } += 1;
        reports
    }

    /// Returns the number of omitted units if it should be reported now, else 0.
    fn due(&mut self, now: Nanos, is_end: bool) -> u64 {
        if !is_end && now - self.since < EVERY {
            return 0;
        }
        std::mem::take(self).omitted
    }
}

/// The last known state of a volume's drives.
#[derive(Clone, Debug, Default)]
struct Drives {
    /// For each lane, whether its drive is present and in use; None before the volume is open.
    present: Option<Vec<bool>>,
}

impl Drives {
    /// Describes changes since the last call, one line each. The first call describes missing
    /// drives.
    fn changed(&mut self, gauges: &[Gauge], names: &[String]) -> Vec<String> {
        let of = |name, of| {
            let gauge = gauges.iter().find(|gauge| gauge.name == name && gauge.of == of);
            gauge.map(|gauge| gauge.value as u64)
        };
        let all = (of("drives_present", GaugeOf::All), of("drives_members", GaugeOf::All));
        let (Some(present), Some(members)) = all else { return Vec::new() };
        if members == 0 {
            return Vec::new();
        }
        let lane = |lane| of("present", GaugeOf::Lane(lane)) == Some(1);
        let now: Vec<bool> = (0..names.len() as Lane).map(lane).collect();
        let has_left = |lane: usize| of("member", GaugeOf::Lane(lane as Lane)) == Some(0);
        let Some(before) = self.present.replace(now.clone()) else {
            if present >= members {
                return Vec::new();
            }
            let unused = names.iter().zip(&now).filter(|(_, present)| !**present);
            let unused: Vec<&str> = unused.map(|(name, _)| name.as_str()).collect();
            let unused = match unused.is_empty() {
                true => String::new(),
                false => format!("; not used: {}", unused.join(", ")),
            };
            return vec![format!(
                "warning: starts degraded: {present} of its {members} drives {} present{unused}; replace missing drives with \
                 `forebay volume replace`",
                verb(present, "is", "are")
            )];
        };
        let lanes = names.iter().zip(before.into_iter().zip(now)).enumerate();
        let lanes = lanes.filter(|(lane, _)| !has_left(*lane)).map(|(_, drive)| drive);
        let are = verb(present, "is", "are");
        let line = |(name, (before, now)): (&String, (bool, bool))| match (before, now) {
            (true, false) => Some(format!(
                "warning: drive {name} is lost: {present} of its {members} drives {are} left"
            )),
            (false, true) => Some(format!(
                "drive {name} is back: {present} of its {members} drives {are} present"
            )),
            _ => None,
        };
        lanes.filter_map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use forebay_core::Flags;

    use super::*;

    fn seconds(count: u64) -> Nanos {
        Nanos::from_millis(count * 1000)
    }

    fn io(op: Op) -> Request {
        Request {
            at: Nanos::ZERO,
            offset: 8192,
            id: 1,
            len: 4096,
            stream: 0,
            lane: 1,
            op,
            flags: Flags::NONE,
        }
    }

    #[test]
    fn ios_that_fail_are_told_with_disk_place_and_reason() {
        let (says, said) = channel();
        let mut journal = Journal::new("data", &["disk".into(), "flash".into()], says);
        let full = Failure::Os(28);
        journal.failed(seconds(1), &io(Op::Write), full);
        (0..5).for_each(|_| journal.failed(seconds(2), &io(Op::Write), full));
        (0..2).for_each(|_| journal.failed(seconds(2), &io(Op::Read), full));
        journal.failed(seconds(2), &io(Op::Trim), Failure::Emulated(Fault::Refused));
        journal.failed(seconds(2), &io(Op::Flush), Failure::Short);
        journal.failed(seconds(2), &io(Op::Open), Failure::Short);
        journal.end(seconds(3));
        let lines: Vec<String> = said.try_iter().collect();
        assert_eq!(
            lines,
            [
                "'data': error: flash: a write of 4096 bytes at 8192 failed: No space left on device (os error 28)",
                "'data': error: flash: a read of 4096 bytes at 8192 failed: No space left on device (os error 28)",
                "'data': error: flash: a flush failed: fewer bytes transferred than requested",
                "'data': error: flash: opening the policy failed: fewer bytes transferred than requested",
                "'data': error: flash: 5 more writes failed: No space left on device (os error 28)",
                "'data': error: flash: 1 more read failed: No space left on device (os error 28)",
            ]
        );
    }

    #[test]
    fn a_disk_that_hangs_is_reported_once_and_again_when_it_answers() {
        let (says, said) = channel();
        let mut journal = Journal::new("data", &[], says);
        for silent_s in [0.0, 29.9, 30.5, 66.0, 0.0, 3.0] {
            let file = "m/d.img".to_string();
            journal.look_at_disks(&[DiskFigures { file, silent_s, ..DiskFigures::default() }]);
        }
        assert_eq!(
            said.try_iter().collect::<Vec<_>>(),
            [
                "'data': warning: m/d.img has not answered for 30 s; its requests wait",
                "'data': m/d.img answers again",
            ]
        );
    }

    #[test]
    fn refused_clients_are_told_every_ten_seconds() {
        let (says, said) = channel();
        let mut journal = Journal::new("data", &[], says);
        for (at_s, refused) in [(1, 0), (2, 1), (3, 2), (9, 5), (12, 5), (60, 5)] {
            journal.look_at_refused(seconds(at_s), refused);
        }
        assert_eq!(
            said.try_iter().collect::<Vec<_>>(),
            [
                "'data': warning: 1 client was refused, because 256 are connected",
                "'data': warning: 4 clients were refused, because 256 are connected",
            ]
        );
    }

    #[test]
    fn failed_requests_are_reported_if_no_failed_io_was() {
        for tells in [false, true] {
            let (says, said) = channel();
            let mut journal = Journal::new("safe", &[], says).telling_answers(tells);
            for outcome in [Ok(()), Err(Fault::Full), Err(Fault::Full)] {
                let done = Done::at_once(io(Op::Write), outcome);
                journal.answered(seconds(1), &done);
            }
            let lines: Vec<String> = said.try_iter().collect();
            let line =
                "'safe': error: a write of 4096 bytes at 8192 failed: no space left (ENOSPC)";
            assert_eq!(lines, if tells { vec![line] } else { Vec::new() });
        }
    }

    #[test]
    fn drives_are_told_when_they_are_lost_and_when_they_are_back() {
        let gauges = |present: &[bool]| {
            let gauge = |name, of, value: usize| Gauge { name, of, value: value as f64 };
            let there = present.iter().filter(|there| **there).count();
            let lane = |(lane, there): (usize, &bool)| {
                gauge("present", GaugeOf::Lane(lane as Lane), usize::from(*there))
            };
            let all = [
                gauge("drives_present", GaugeOf::All, there),
                gauge("drives_members", GaugeOf::All, 3),
            ];
            all.into_iter().chain(present.iter().enumerate().map(lane)).collect::<Vec<_>>()
        };
        let names = ["a", "b", "c"].map(String::from);
        let mut drives = Drives::default();
        assert!(drives.changed(&[], &names).is_empty(), "no volume");
        assert!(drives.changed(&gauges(&[true; 3]), &names).is_empty());
        let told = drives.changed(&gauges(&[true, false, true]), &names);
        assert_eq!(told, ["warning: drive b is lost: 2 of its 3 drives are left"]);
        assert!(drives.changed(&gauges(&[true, false, true]), &names).is_empty());
        let told = drives.changed(&gauges(&[true; 3]), &names);
        assert_eq!(told, ["drive b is back: 3 of its 3 drives are present"]);
        let told = Drives::default().changed(&gauges(&[true, false, true]), &names);
        assert_eq!(
            told,
            [
                "warning: starts degraded: 2 of its 3 drives are present; not used: b; replace missing drives with \
                 `forebay volume replace`"
            ]
        );
    }
}
