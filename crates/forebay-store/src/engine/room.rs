//! What is done as disks fill up.
//!
//! A value is taken where its log's segment will find room, with what merges need beside it: without that nothing
//! that was replaced would ever be free again. Where it will not, puts wait for merges that may free some; where
//! there are none, values are refused. Deletions are taken as long as a log finds room at all, and what they free
//! merges give back: so a store that is full can be emptied. Not yet where records are longer than a merge's
//! segments, for such a record needs one free extent of its length.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::config::Transformation;
use crate::frame::BLOCK;
use crate::operation::Trouble;
use crate::segment::len_max;

use super::ingest::{is_deletion, size};
use super::log::Log;
use super::version::{Part, Run};
use super::{Engine, Put, State};

/// What a disk keeps free for merges is so many of their segments.
const MERGE_SEGMENTS: u64 = 8;
/// But no more than this part of it.
const MERGE_SHARE: u64 = 8;

impl Engine {
    /// What a log's segment may need; nothing of a tree that has its place.
    pub(super) fn room(&self, log: &Log) -> u64 {
        match &self.trees {
            None => len_max(log.record_bytes.get(), log.len_records(), log.key_bytes.get()),
            Some(_) => 0,
        }
    }

    /// Whether a disk has room for a segment of a log, and for merges beside it. Where a log found none, what
    /// is in logs comes before half of that.
    pub(super) fn has_room(&self, state: &State, disk: usize, room: u64) -> bool {
        let space = self.disks[disk].space.borrow();
        let merge_room = self.merge_room(disk) / if state.is_full { 2 } else { 1 };
        room == 0 || space.longest() >= room && space.free_bytes() >= room + merge_room
    }

    /// Whether some disk has room for a log's segment, and no older log waits for some.
    pub(super) fn finds_room(&self, log: &Log) -> bool {
        if self.is_behind_a_full(log) {
            return false;
        }
        let (state, room) = (self.state.borrow(), self.room(log));
        let is_basic = self.config.transformation == Transformation::Basic;
        let has_room =
            |disk: usize| !self.is_failed(&state, disk) && self.has_room(&state, disk, room);
        (0..self.disks.len()).any(|disk| (disk == log.disk) == is_basic && has_room(disk))
    }

    /// What a disk keeps free for merges.
    fn merge_room(&self, disk: usize) -> u64 {
        let layout = self.disks[disk].layout;
        let usable = layout.capacity_bytes - layout.segments_at();
        (MERGE_SEGMENTS * self.segment_bytes()).min(usable / MERGE_SHARE)
    }

    fn merge_room_of_all(&self) -> u64 {
        self.present().map(|disk| self.merge_room(disk)).sum()
    }

    /// What nothing but deletions may take.
    fn deletion_room(&self) -> u64 {
        self.config.log_bytes.min(self.merge_room_of_all() / 4)
    }

    /// Bytes of a segment that a merge writes.
    pub(super) fn segment_bytes(&self) -> u64 {
        let each = self.disks.iter().map(|disk| disk.layout.segment_bytes(&self.config));
        each.min().unwrap_or(self.config.segment_bytes)
    }

    /// What is free and will not be taken by logs.
    fn left(&self, state: &State) -> u64 {
        let free: u64 =
            self.present().map(|disk| self.disks[disk].space.borrow().free_bytes()).sum();
        let is_left = |log: &&Rc<Log>| !state.lost_logs.contains(&log.id);
        let logs: u64 = state.logs.iter().filter(is_left).map(|log| self.room(log)).sum();
        free.saturating_sub(logs)
    }

    /// Whether so many bytes of values more will find room, and a batch, deletions and merges beside them.
    pub(super) fn takes_values(&self, state: &State, bytes: u64) -> bool {
        if self.trees.is_some() || self.config.transformation == Transformation::None {
            return true;
        }
        let merge_room = self.merge_room_of_all();
        let wanted = self.config.group_bytes.min(merge_room / 4) + self.deletion_room();
        self.left(state) >= merge_room.max(state.merge_need) + wanted + bytes
    }

    /// Puts that may be appended now: all, or deletions where values find no room and no merge will give them any.
    /// Waits until there are some, or until nothing is put any more.
    pub(super) async fn admit(&self) {
        let is_settled = || {
            let state = self.state.borrow();
            // One that is longer than a batch is written twice until its log is let go.
            let twice = |put: &Put| match size(put) {
                bytes if bytes > self.config.group_bytes => 2 * bytes,
                _ => 0,
            };
            let is_free = state
                .queue
                .front()
                .is_none_or(|put| is_deletion(put) || self.takes_values(&state, twice(put)));
            (is_free || !self.may_free(&state)).then_some(is_free)
        };
        let begun = self.executor.now();
        let is_free = self.changed.until(is_settled).await;
        self.state.borrow_mut().figures.held_back += self.executor.now() - begun;
        if !is_free {
            self.refuse(|put| !is_deletion(put));
        }
    }

    /// Whether a merge may give room back.
    pub(super) fn may_free(&self, state: &State) -> bool {
        !state.is_closing
            && !state.is_merge_stuck
            && (state.is_merging || self.config.merges && self.choose(state).is_some())
    }

    /// Answers those that wait and are not taken.
    pub(super) fn refuse(&self, is_refused: impl Fn(&Put) -> bool) {
        let queue = std::mem::take(&mut self.state.borrow_mut().queue);
        let (refused, left): (VecDeque<Put>, _) = queue.into_iter().partition(is_refused);
        self.state.borrow_mut().queue = left;
        refused.into_iter().for_each(|put| self.answer(put.id, Err(Trouble::Full)));
    }

    /// Waits a while, or until then, or until the store closes.
    pub(super) async fn nap(self: &Rc<Self>, is_over: impl Fn() -> bool) {
        let (engine, until) = (Rc::clone(self), self.executor.now() + self.config.retry);
        self.executor.spawn(async move {
            engine.executor.sleep(engine.config.retry).await;
            engine.changed.notify();
        });
        let is_due = || self.executor.now() >= until || self.state.borrow().is_closing || is_over();
        self.changed.until(|| is_due().then_some(())).await;
    }

    /// What a merge takes beyond what it gives back, at most: of each run as much as its longest segment has, for
    /// that is free only once all of it is merged, and what it writes.
    pub(super) fn merge_need(&self, inputs: &[Rc<Run>]) -> u64 {
        inputs.iter().map(run_need).sum::<u64>() + 2 * self.segment_bytes()
    }

    /// As many neighbours of these as a merge has room for, the newest where there are several. What deletions may
    /// take is left to them.
    pub(super) fn affordable<'a>(&self, state: &State, runs: &'a [Rc<Run>]) -> &'a [Rc<Run>] {
        let record = runs.iter().flat_map(|run| &run.parts).map(mean_record).max().unwrap_or(0);
        let whole = |disk: usize| self.disks[disk].space.borrow().whole(record + BLOCK as u64);
        let whole: u64 = self.present().map(whole).sum();
        let taken = self.left(state).min(whole).saturating_sub(self.deletion_room());
        let left = taken.saturating_sub(2 * self.segment_bytes().max(record));
        let (mut from, mut need, mut best) = (0, 0, 0..0);
        for (at, run) in runs.iter().enumerate() {
            need += run_need(run);
            while need > left {
                need -= run_need(&runs[from]);
                from += 1;
            }
            if at + 1 - from > best.len() {
                best = from..at + 1;
            }
        }
        &runs[best]
    }
}

fn run_need(run: &Rc<Run>) -> u64 {
    let lens = run.parts.iter().map(|part| part.segment.described.len);
    lens.max().unwrap_or(0).min(run.record_bytes())
}

/// Bytes of a record of a part, in the mean.
fn mean_record(part: &Part) -> u64 {
    let shape = part.segment.described.shape;
    shape.record_bytes / shape.records.max(1)
}
