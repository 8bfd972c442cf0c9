//! Counts and reports disk failures, so that the operator learns of them before clients do.

use forebay_core::{Fault, Nanos};

use crate::OperationError;

use super::Engine;

/// The minimum interval between reports of one disk's failures.
const PAUSE: Nanos = Nanos::from_secs(60);
/// The maximum number of notices that wait to be taken.
const WAITING_MAX: usize = 256;

/// The health of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskHealth {
    /// Failed reads.
    pub read_errors: u64,
    /// Failed writes and flushes.
    pub write_errors: u64,
    /// The number of these errors caused by lack of space on the file system.
    pub no_space_errors: u64,
    /// Why the last write failed, if none has succeeded since.
    pub failing: Option<Fault>,
    /// Whether the disk is missing.
    pub is_missing: bool,
}

impl DiskHealth {
    /// Returns the state in one word: `ok`, `no-space`, `failing`, `missing`.
    pub fn name(&self) -> &'static str {
        match self.failing {
            _ if self.is_missing => "missing",
            None => "ok",
            Some(Fault::Full) => "no-space",
            Some(_) => "failing",
        }
    }
}

/// The pending notices.
pub(super) struct Notices {
    waiting: Vec<(usize, String)>,
    /// The reported failures of each disk.
    failures: Vec<Failures>,
}

/// The reported failures of a disk.
#[derive(Clone, Copy, Default)]
struct Failures {
    /// The time of the last report.
    told: Option<Nanos>,
    /// The number of unreported failures since then.
    untold: u64,
    /// Whether the disk's recovery must still be reported.
    is_open: bool,
}

impl Notices {
    pub(super) fn new(disks: usize) -> Notices {
        Notices { waiting: Vec::new(), failures: vec![Failures::default(); disks] }
    }

    pub(super) fn take(&mut self) -> Vec<(usize, String)> {
        std::mem::take(&mut self.waiting)
    }

    fn push(&mut self, disk: usize, what: String) {
        // The limit is needed because notices may never be taken.
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push((disk, what));
        }
    }

    /// Reports a failure, unless one of that disk was reported recently.
    fn failed(&mut self, disk: usize, now: Nanos, what: String) {
        let failures = &mut self.failures[disk];
        if failures.told.is_some_and(|told| now < told + PAUSE) {
            failures.untold += 1;
            return;
        }
        let others = match failures.untold {
            0 => String::new(),
            more => format!(" (and {more} more since the last of these lines)"),
        };
        *failures = Failures { told: Some(now), untold: 0, is_open: true };
        self.push(disk, what + &others);
    }

    /// Registers that a disk whose failure was reported accepts writes again.
    fn recovered(&mut self, disk: usize) {
        if std::mem::take(&mut self.failures[disk].is_open) {
            self.push(disk, "takes writes again".into());
        }
    }
}

/// Describes a fault in terms familiar to operators.
fn reason(fault: Fault) -> &'static str {
    match fault {
        Fault::Media => "input/output error",
        Fault::Full => "no space left on its file system",
        Fault::Gone => "the device is gone",
        Fault::Refused => "the device refuses it",
    }
}

impl Engine {
    /// Returns the health of each disk.
    pub(crate) fn health(&self) -> Vec<DiskHealth> {
        let state = self.state.borrow();
        let missing = |disk: usize| self.disks[disk].lane.is_none();
        let of = |(disk, health): (usize, &DiskHealth)| DiskHealth {
            is_missing: missing(disk),
            ..*health
        };
        state.health.iter().enumerate().map(of).collect()
    }

    /// Returns the notices since the last call: the disk and a sentence.
    pub(crate) fn notices(&self) -> Vec<(usize, String)> {
        self.state.borrow_mut().notices.take()
    }

    /// Returns the time in nanoseconds since the Unix epoch; 0 if unknown.
    pub(super) fn wall_ns(&self) -> u64 {
        match self.config.epoch_ns {
            0 => 0,
            epoch_ns => epoch_ns.saturating_add(self.executor.now().0),
        }
    }

    /// Adds a notice for the operator.
    pub(super) fn notice(&self, disk: usize, what: String) {
        self.state.borrow_mut().notices.push(disk, what);
    }

    pub(super) fn failed_to_read(&self, disk: usize, fault: Fault) -> OperationError {
        let mut state = self.state.borrow_mut();
        state.health[disk].read_errors += 1;
        let what = format!("a read failed: {}", reason(fault));
        state.notices.failed(disk, self.executor.now(), what);
        OperationError::Disk { disk, fault }
    }

    pub(super) fn failed_to_write(&self, disk: usize, fault: Fault) {
        let mut state = self.state.borrow_mut();
        let health = &mut state.health[disk];
        health.write_errors += 1;
        health.no_space_errors += u64::from(fault == Fault::Full);
        health.failing = Some(fault);
        let retry = self.config.retry.as_secs_f64();
        let what = format!("a write failed: {}; retrying in {retry:.0} s", reason(fault));
        state.notices.failed(disk, self.executor.now(), what);
    }

    /// Registers a successful write. Writes to labels, roots and logs do not prove that there is
    /// free space, because their space is preallocated.
    pub(super) fn wrote(&self, disk: usize, offset: u64) {
        let mut state = self.state.borrow_mut();
        let Some(fault) = state.health[disk].failing else { return };
        if fault != Fault::Full || offset >= self.disks[disk].layout.segments_at() {
            state.health[disk].failing = None;
            state.notices.recovered(disk);
        }
    }

    /// Returns why no disk can take a put: a disk lacks space, a disk fails, or all disks are full.
    pub(super) fn why_full(&self) -> OperationError {
        let state = self.state.borrow();
        let failing = |disk: usize| state.health[disk].failing.map(|fault| (disk, fault));
        let failing: Vec<_> = self.present().filter_map(failing).collect();
        if let Some(&(disk, _)) = failing.iter().find(|(_, fault)| *fault == Fault::Full) {
            return OperationError::NoSpace { disk };
        }
        match failing.first() {
            Some(&(disk, fault)) if failing.len() == self.present().count() => {
                OperationError::Disk { disk, fault }
            }
            _ => OperationError::Full,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_a_disk_are_reported_once_a_minute() {
        let mut notices = Notices::new(2);
        let mut told = |disk, secs: u64| {
            notices.failed(disk, Nanos::from_secs(secs), "it failed".into());
            notices.take().into_iter().map(|(_, what)| what).collect::<String>()
        };
        assert_eq!(told(0, 5), "it failed");
        assert_eq!((told(0, 6), told(0, 64)), (String::new(), String::new()));
        assert_eq!(told(1, 64), "it failed", "of another disk");
        assert_eq!(told(0, 65), "it failed (and 2 more since the last of these lines)");
        assert_eq!(told(0, 200), "it failed");
        notices.recovered(0);
        notices.recovered(0);
        assert_eq!(notices.take().len(), 1);
        (0..1000).for_each(|at| notices.push(0, format!("{at}")));
        assert_eq!(notices.take().len(), WAITING_MAX);
    }
}
