//! Transformation: converts a finished log to a segment (the paper's section III).
//!
//! In the enhanced model, the log's disk is read in one stage and another disk is written in the
//! next; if the log is taken from memory, there is nothing to read. In the basic model, both happen
//! on the log's own disk. A log's records stay in memory until a root lists the segment.

use std::rc::Rc;

use forebay_core::{Fault, Nanos};

use crate::executor::Io;
use crate::record::{Key, bound};
use crate::segment::{Keys, Origin};
use crate::{OperationError, Transformation};

use super::{Engine, Log, Stage, State, Writing};

impl Engine {
    /// Begins to transform a log.
    pub(super) fn begin_transformation(self: &Rc<Self>, log: Rc<Log>) {
        if self.config.transformation == Transformation::None {
            self.state.borrow_mut().release(log.id);
            return self.changed.notify();
        }
        log.measure_prefixes();
        self.state.borrow_mut().transforming += 1;
        let engine = Rc::clone(self);
        self.executor.spawn(async move {
            let began = engine.executor.now();
            // If the transformation fails, the log and its slot remain.
            let mut is_done = false;
            while !is_done {
                let outcome = engine.transform(&log).await;
                is_done = outcome.is_ok();
                let found = engine.free_at_failure(&log, &outcome);
                engine.state.borrow_mut().is_full = outcome.as_ref().is_err_and(is_full);
                if !is_done {
                    log.failed_at_free.set(found);
                    engine.changed.notify();
                    if engine.state.borrow().is_closing {
                        break;
                    }
                    engine.nap(|| engine.has_new_space(&engine.state.borrow(), &log)).await;
                    log.failed_at_free.set(None);
                }
            }
            engine.end_transformation(&log, is_done.then(|| engine.executor.now() - began));
            engine.let_go(log).await;
        });
    }

    /// Registers the end of a transformation and its duration; None if the transformation was
    /// abandoned.
    fn end_transformation(&self, log: &Log, took: Option<Nanos>) {
        let mut state = self.state.borrow_mut();
        if let Some(took) = took {
            state.release(log.id);
            state.figures.transformations += 1;
            state.last_transforming = took;
            state.figures.transforming += took;
        }
        state.transforming -= 1;
        drop(state);
        self.changed.notify();
    }

    /// Frees the memory of a log in small steps, unless something else still holds the log.
    async fn let_go(&self, log: Rc<Log>) {
        let Ok(log) = Rc::try_unwrap(log) else { return };
        let mut work = self.work();
        while log.forget_first() {
            work.did(0, 1).await;
        }
    }

    async fn transform(self: &Rc<Self>, log: &Log) -> Result<(), OperationError> {
        let is_basic = self.config.transformation == Transformation::Basic;
        if self.config.read_log {
            self.claim(log.disk, Stage::ReadLog).await;
            let read = self.read_log(log).await;
            self.release(log.disk);
            read?;
        }
        let to = if is_basic {
            self.claim(log.disk, Stage::WriteTree).await;
            log.disk
        } else {
            self.claim_target(log).await?
        };
        let written = match &self.trees {
            None => self.write_tree(log, to).await,
            Some(trees) => self.insert_log(trees, log, to).await,
        };
        self.release(to);
        written
    }

    /// Claims an idle disk with enough space: the one whose turn on duty is furthest away.
    async fn claim_target(&self, log: &Log) -> Result<usize, OperationError> {
        let room = self.room(log);
        let claim = || {
            let mut state = self.state.borrow_mut();
            let count = self.disks.len();
            let takes =
                |disk: usize| !self.is_failed(&state, disk) && self.has_room(&state, disk, room);
            let fit = |disk: &usize| *disk != log.disk && takes(*disk);
            if !(0..count).any(|disk| fit(&disk)) {
                return Some(Err(OperationError::Full));
            }
            let idle = (0..count).filter(fit).filter(|disk| state.is_idle(*disk));
            let to = idle.max_by_key(|disk| (disk + count - state.duty) % count)?;
            self.enter(&mut state, to, Stage::WriteTree);
            Some(Ok(to))
        };
        self.changed.until(claim).await
    }

    /// Reads a log from start to end, with the next read in flight while a step is processed.
    async fn read_log(&self, log: &Log) -> Result<(), OperationError> {
        let begin = self.disks[log.disk].layout.slot_at(log.slot());
        let lane = self.lane(log.disk)?;
        let (len, step) = (log.len.get().next_multiple_of(4096), self.config.step_bytes as u64);
        let read = |at: u64| {
            let len = (len - at).min(step) as usize;
            self.executor.io(lane, Io::Read { offset: begin + at, len })
        };
        let mut steps = (0..len).step_by(step as usize).map(read);
        let mut ahead = steps.next();
        while let Some(read) = ahead {
            ahead = steps.next();
            read.await.map_err(|fault| OperationError::Disk { disk: log.disk, fault })?;
        }
        Ok(())
    }

    async fn write_tree(self: &Rc<Self>, log: &Log, to: usize) -> Result<(), OperationError> {
        let room = self.room(log);
        let has_room = self.has_room(&self.state.borrow(), to, room);
        if !has_room || self.is_behind_a_full(&self.state.borrow(), log) {
            return Err(OperationError::Full);
        }
        let mut writing = Writing::begin(self, to, room)?;
        let (mut next, mut last) = (Key::from([]), None);
        let mut work = self.work();
        while let Some(record) = log.first(&next, u64::MAX) {
            writing.push(&record).await?;
            let asked = self.overtake(&record.key);
            work.did(record.size(), 1 + asked / 16).await;
            next = after(&record.key);
            last = Some(record.key);
        }
        let origin = Origin { ages: (log.id, log.id), before: log.before.get() };
        // The segment owns no keys beyond its last one, so a merge that reaches this key can free
        // it.
        let keys = Keys { after: None, upto: last.as_deref().and_then(bound) };
        let segment = writing.finish(origin, keys).await?;
        self.state.borrow_mut().figures.transformed_bytes += segment.described.len;
        self.publish(segment).await
    }

    /// Returns whether an older log waits for space. The older log must be transformed first,
    /// because runs with a log between them in age cannot be merged.
    pub(super) fn is_behind_a_full(&self, state: &State, log: &Log) -> bool {
        let is_left = |other: &&Rc<Log>| !state.lost_logs.contains(&other.id);
        state.is_full && state.logs.iter().find(is_left).is_some_and(|oldest| oldest.id < log.id)
    }

    /// Counts the older version of a key as dead, in the newest segment whose filter contains the
    /// key. Returns how many runs were checked.
    fn overtake(&self, key: &[u8]) -> usize {
        let hash = crate::filter::hash(key);
        let version = Rc::clone(&self.state.borrow().version);
        for (asked, run) in version.runs.iter().enumerate() {
            let Some(part) = run.part(key) else { continue };
            let (segment, shape) = (&part.segment, &part.segment.described.shape);
            if segment.filter.may_hold(hash) {
                let mean = shape.record_bytes / shape.records.max(1);
                segment.dead.set((segment.dead.get() + mean).min(shape.record_bytes));
                // Versions older than this one were counted when this one was written.
                return asked;
            }
        }
        version.runs.len()
    }
}

/// Returns whether a transformation failed for lack of space, on a disk or on the file system of a
/// disk's file.
fn is_full(failure: &OperationError) -> bool {
    matches!(failure, OperationError::Full | OperationError::Disk { fault: Fault::Full, .. })
}

/// Returns the smallest key that is greater than this one.
pub(super) fn after(key: &[u8]) -> Key {
    let mut next = key.to_vec();
    next.push(0);
    next.into()
}
