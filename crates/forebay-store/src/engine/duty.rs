//! Determines which disk accepts puts, that is, which disk is *on duty*.
//!
//! Duty passes to the next idle disk. Before the log on duty is full, the next disk is chosen and
//! its log is announced to another disk, so that the first put of the next log waits neither for
//! the announcement nor for the disk's previous work. A disk on duty that receives no puts counts
//! as idle.

use std::rc::Rc;

use forebay_core::Nanos;

use crate::OperationError;
use crate::root::Change;

use super::{Disk, Engine, Log, Stage, State};

/// The next log is prepared when the log on duty is filled to this share.
const LOOKS_AHEAD: f64 = 0.75;
/// The next log is prepared only if there are at least this many disks. With fewer, this would take
/// a disk away from transformation.
const LOOKS_AHEAD_DISKS: usize = 3;
/// A disk on duty counts as idle after this time without puts.
const QUIET: Nanos = Nanos::from_secs(1);

impl Engine {
    /// Passes duty to the next idle disk or, if none is idle, to the next one with a free slot.
    pub(super) async fn take_duty(self: &Rc<Self>) -> Result<Rc<Log>, OperationError> {
        let is_elsewhere = {
            let state = self.state.borrow();
            state.next.as_ref().is_some_and(|log| !self.is_place(&state, log.disk))
        };
        if is_elsewhere {
            self.forgo_next().await;
        }
        if let Some(log) = self.take_next() {
            return Ok(log);
        }
        let mut waited = false;
        let log = self
            .changed
            .until(|| {
                let mut state = self.state.borrow_mut();
                let mut fit = self.in_turn(&state);
                fit.retain(|disk| self.is_place(&state, *disk));
                if fit.is_empty() {
                    return Some(Err(OperationError::Full));
                }
                let has_slot = |disk: &&usize| self.slot(**disk).is_some();
                let is_idle = |disk: &&usize| state.is_idle(**disk);
                let idle = fit.iter().filter(has_slot).find(is_idle).copied();
                // Puts have priority: if no disk is idle, one disk must do two things at a time.
                let Some(disk) = idle.or_else(|| fit.iter().find(has_slot).copied()) else {
                    waited = true;
                    let is_full = state.is_full && !self.may_free(&state) && !self.may_end(&state);
                    return is_full.then_some(Err(OperationError::Full));
                };
                state.figures.overlaps += u64::from(idle.is_none());
                let log = self.begin_log(&mut state, disk)?;
                self.give_duty(&mut state, &log);
                Some(Ok(log))
            })
            .await;
        self.state.borrow_mut().figures.stalls += u64::from(waited);
        self.changed.notify();
        if let Ok(log) = &log {
            self.announce(log);
        }
        log
    }

    /// Returns the disks that accept writes, in the order of their next duty.
    fn in_turn(&self, state: &State) -> Vec<usize> {
        let count = self.disks.len();
        let order = (1..=count).map(|step| (state.duty + step) % count);
        order.filter(|disk| !self.is_failed(state, *disk)).collect()
    }

    /// Finds a free slot of a disk.
    fn slot(&self, disk: usize) -> Option<usize> {
        self.disks[disk].slots.borrow().iter().position(|used| !used)
    }

    fn begin_log(&self, state: &mut State, disk: usize) -> Option<Rc<Log>> {
        let slot = self.slot(disk)?;
        let id = state.next_log;
        state.next_log += 1;
        let Disk { slots, space, .. } = &self.disks[disk];
        Some(Rc::new(Log::new(id, disk, slot, slots, space)))
    }

    fn give_duty(&self, state: &mut State, log: &Rc<Log>) {
        (state.duty, state.is_on_duty) = (log.disk, true);
        state.logs.push(Rc::clone(log));
        self.note(state, log.disk);
    }

    /// Gives duty to the disk chosen in advance, unless that disk has failed since.
    fn take_next(&self) -> Option<Rc<Log>> {
        let mut state = self.state.borrow_mut();
        let log = state.next.take()?;
        if self.is_failed(&state, log.disk) {
            log.release();
            return None;
        }
        self.give_duty(&mut state, &log);
        drop(state);
        self.changed.notify();
        Some(log)
    }

    /// Prepares the next log once the one on duty is nearly full.
    pub(super) fn look_ahead(self: &Rc<Self>, on_duty: &Log) {
        let mut state = self.state.borrow_mut();
        let nearly = state.log_size.bytes() as f64 * LOOKS_AHEAD;
        let is_early = (on_duty.batch_bytes.get() as f64) < nearly;
        if is_early || state.next.is_some() || self.disks.len() < LOOKS_AHEAD_DISKS {
            return;
        }
        let idle = |disk: &usize| state.is_idle(*disk) && self.slot(*disk).is_some();
        let Some(disk) = self.in_turn(&state).into_iter().find(idle) else { return };
        let Some(log) = self.begin_log(&mut state, disk) else { return };
        state.next = Some(Rc::clone(&log));
        drop(state);
        self.announce(&log);
    }

    /// Discards the prepared log, and removes its announcement from the other disk.
    pub(super) async fn forgo_next(&self) {
        let Some(log) = self.state.borrow_mut().next.take() else { return };
        self.changed.until(|| log.is_announced.get().then_some(())).await;
        log.release();
        let knows = |disk: &usize| {
            self.state.borrow().roots[*disk].logs.iter().any(|begun| begun.log == log.id)
        };
        for disk in (0..self.disks.len()).filter(knows) {
            // If this fails, the next opening finds an empty log.
            let _ = self.change_root(disk, Change::default()).await;
        }
    }

    /// Watches for a period without puts, and registers it.
    pub(super) fn watch(self: &Rc<Self>) {
        let mut state = self.state.borrow_mut();
        state.last_put = self.executor.now();
        if std::mem::replace(&mut state.is_watched, true) {
            return;
        }
        let engine = Rc::clone(self);
        self.executor.spawn(async move {
            loop {
                let (until, now) = (engine.state.borrow().last_put + QUIET, engine.executor.now());
                if until <= now {
                    break;
                }
                engine.executor.sleep(until - now).await;
            }
            let mut state = engine.state.borrow_mut();
            (state.is_watched, state.is_quiet) = (false, true);
            drop(state);
            engine.changed.notify();
        });
    }
}

impl State {
    /// Returns whether a disk has only work that can be postponed. A single disk always counts as
    /// idle.
    pub(super) fn is_idle(&self, disk: usize) -> bool {
        let has_duty = self.duty == disk && self.stages.len() > 1;
        let is_next = self.next.as_ref().is_some_and(|next| next.disk == disk);
        let takes_puts = self.is_on_duty && !self.is_quiet && (has_duty || is_next);
        self.stages[disk] == Stage::Idle && !takes_puts
    }

    /// Releases a log that is in a segment or was never written.
    pub(super) fn release(&mut self, id: u64) {
        self.logs.iter().filter(|log| log.id == id).for_each(|log| log.release());
        self.logs.retain(|log| log.id != id);
    }

    pub(super) fn stage(&self, disk: usize) -> Stage {
        let is_on_duty = self.is_on_duty && self.duty == disk;
        if is_on_duty { Stage::Log } else { self.stages[disk] }
    }
}
