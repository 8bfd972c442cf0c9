//! Decides which puts are still accepted as disks fill up.
//!
//! A value is accepted if the segment of its log will find space in addition to what merges need;
//! without space for merges, replaced data could never be freed. Otherwise, puts wait for merges
//! that may free space; if there are none, values are refused. Deletions are accepted as long as
//! logs find any space, and merges then free what was deleted, so a full store can be emptied. A
//! record needs one free extent of its length; a record that is too long for any slot needs a
//! second one for its log.

use std::collections::VecDeque;
use std::rc::Rc;

use forebay_core::Nanos;

use crate::frame::BLOCK;
use crate::segment::len_max;
use crate::{OperationError, Transformation};

use super::{Engine, Log, Part, Put, Run, State, batch_len, is_deletion, is_outsize, size};

/// The space that each disk keeps free for merges, as a number of segments.
const MERGE_SEGMENTS: u64 = 8;
/// Each disk keeps at most one part in this many free for merges.
const MERGE_SHARE: u64 = 8;

impl Engine {
    /// Returns the space that a log's segment may need; 0 for trees, which have their own space.
    pub(super) fn room(&self, log: &Log) -> u64 {
        match &self.trees {
            None => len_max(
                log.record_bytes.get(),
                log.len_records(),
                log.prefix_bytes.get(),
                log.key_bytes_max.get(),
            ),
            Some(_) => 0,
        }
    }

    /// Returns whether a disk has space for a log's segment and for merges. If there was no space
    /// for a log, logs may use half of the space reserved for merges.
    pub(super) fn has_room(&self, state: &State, disk: usize, room: u64) -> bool {
        let space = self.disks[disk].space.borrow();
        let merge_room = self.merge_room(disk) / if state.is_full { 2 } else { 1 };
        room == 0 || space.longest() >= room && space.free_bytes() >= room + merge_room
    }

    /// Returns whether some disk has space for a log's segment, provided that no older log waits
    /// for space.
    fn finds_room(&self, state: &State, log: &Log) -> bool {
        if self.is_behind_a_full(state, log) {
            return false;
        }
        let room = self.room(log);
        let is_basic = self.config.transformation == Transformation::Basic;
        let has_room =
            |disk: usize| !self.is_failed(state, disk) && self.has_room(state, disk, room);
        (0..self.disks.len()).any(|disk| (disk == log.disk) == is_basic && has_room(disk))
    }

    /// Returns the amount of free space at which a transformation failed, or None if it succeeded.
    /// The log then waits until the free space has changed, apart from occasional retries. The
    /// result is 0 if an older log was waiting or if different limits apply from now on. It is the
    /// maximum if a disk failed, because free space does not help then.
    pub(super) fn free_at_failure(
        &self,
        log: &Log,
        outcome: &Result<(), OperationError>,
    ) -> Option<u64> {
        let state = self.state.borrow();
        match outcome {
            Ok(()) => None,
            Err(OperationError::Full) if !state.is_full || self.is_behind_a_full(&state, log) => {
                Some(0)
            }
            Err(OperationError::Full) => Some(self.free()),
            Err(_) => Some(u64::MAX),
        }
    }

    /// Returns whether there is space for a waiting log's segment, and the free space has changed
    /// since the log's transformation failed.
    pub(super) fn has_new_space(&self, state: &State, log: &Log) -> bool {
        let is_more =
            log.failed_at_free.get().is_some_and(|found| found < u64::MAX && self.free() != found);
        is_more && self.finds_room(state, log)
    }

    /// Returns whether any log is being transformed or will be, so that its slot may become free.
    pub(super) fn may_end(&self, state: &State) -> bool {
        let is_left = |log: &&Rc<Log>| !state.lost_logs.contains(&log.id);
        let may_end =
            |log: &Rc<Log>| log.failed_at_free.get().is_none() || self.has_new_space(state, log);
        state.logs.iter().filter(is_left).any(may_end)
    }

    /// Returns the number of free bytes on all disks.
    fn free(&self) -> u64 {
        self.present().map(|disk| self.disks[disk].space.borrow().free_bytes()).sum()
    }

    /// Returns the space that a disk keeps free for merges.
    fn merge_room(&self, disk: usize) -> u64 {
        let layout = self.disks[disk].layout;
        let usable = layout.capacity_bytes - layout.segments_at();
        (MERGE_SEGMENTS * self.segment_bytes()).min(usable / MERGE_SHARE)
    }

    fn merge_room_of_all(&self) -> u64 {
        self.present().map(|disk| self.merge_room(disk)).sum()
    }

    /// Returns the space reserved for deletions.
    fn deletion_room(&self) -> u64 {
        self.config.log_bytes.min(self.merge_room_of_all() / 4)
    }

    /// Returns the size of a segment written by a merge.
    pub(super) fn segment_bytes(&self) -> u64 {
        let each = self.disks.iter().map(|disk| disk.layout.segment_bytes(&self.config));
        each.min().unwrap_or(self.config.segment_bytes)
    }

    /// Returns the free space that logs will not need.
    pub(super) fn spare_bytes(&self, state: &State) -> u64 {
        let free = self.free();
        let is_left = |log: &&Rc<Log>| !state.lost_logs.contains(&log.id);
        let logs: u64 = state.logs.iter().filter(is_left).map(|log| self.room(log)).sum();
        free.saturating_sub(logs)
    }

    /// Returns the space that merges may use: the space that logs will not need, but at least half
    /// of the space reserved for merges on each disk. Otherwise, logs that wait for a merge would
    /// prevent it from starting.
    pub(super) fn merge_room_bytes(&self, state: &State) -> u64 {
        let untouched = |disk: usize| {
            self.disks[disk].space.borrow().free_bytes().min(self.merge_room(disk) / 2)
        };
        self.spare_bytes(state).max(self.present().map(untouched).sum())
    }

    /// Returns whether there will be space for `bytes` more bytes of values, in addition to one
    /// batch, the deletions and the merges.
    pub(super) fn takes_values(&self, state: &State, bytes: u64) -> bool {
        if self.trees.is_some() || self.config.transformation == Transformation::None {
            return true;
        }
        let merge_room = self.merge_room_of_all();
        let wanted = self.config.group_bytes.min(merge_room / 4) + self.deletion_room();
        self.spare_bytes(state) >= merge_room.max(state.merge_need) + wanted + bytes
    }

    /// Waits until there is space for the next put; returns false if nothing will free any space.
    pub(super) async fn admit(&self) -> bool {
        let is_settled = || {
            let state = self.state.borrow();
            let is_free = self.takes_next(&state);
            // Deleted data is freed only once the log with the deletion is in a segment.
            let may_free = self.may_free(&state) || state.transforming > 0 && !state.is_full;
            (is_free || !may_free).then_some(is_free)
        };
        let begun = self.executor.now();
        let is_free = self.changed.until(is_settled).await;
        self.state.borrow_mut().figures.merge_delay += self.executor.now() - begun;
        is_free
    }

    /// Returns whether there is space for the next put.
    pub(super) fn takes_next(&self, state: &State) -> bool {
        state.queue.front().is_none_or(|put| self.takes(state, put))
    }

    /// Returns whether there is space for a put. A put that is longer than a batch is stored twice
    /// until its log is released.
    fn takes(&self, state: &State, put: &Put) -> bool {
        let bytes = size(put);
        match () {
            () if is_deletion(put) => true,
            () if !self.leaves_spare(state, bytes) => false,
            () if bytes <= self.config.group_bytes => self.takes_values(state, 0),
            () => self.takes_values(state, 2 * bytes) && self.has_places(state, put),
        }
    }

    /// Returns whether, after `bytes` more bytes of values, an extent remains that is long enough
    /// for the longest record. With such an extent, a merge can move all records one at a time.
    fn leaves_spare(&self, state: &State, bytes: u64) -> bool {
        let longest = state.longest_record.max(bytes);
        if self.trees.is_some() || 2 * longest < self.segment_bytes() {
            return true;
        }
        let record = longest + 2 * BLOCK as u64;
        let pieces = |disk: usize| self.disks[disk].space.borrow().whole(record) / record;
        let pieces: u64 = self.present().map(pieces).sum();
        let is_left = |log: &&Rc<Log>| !state.lost_logs.contains(&log.id);
        let logs = state.logs.iter().filter(is_left).map(|log| self.room(log).div_ceil(record));
        pieces > logs.sum::<u64>() + bytes.div_ceil(record)
    }

    /// Returns whether there is an extent for the segment of a put that is longer than a batch and,
    /// if needed, another one for its log.
    fn has_places(&self, state: &State, put: &Put) -> bool {
        if self.trees.is_some() || self.config.transformation == Transformation::None {
            return true;
        }
        let keys = || put.records.iter().map(|(key, _)| key.len() as u64);
        let records = put.records.len() as u64;
        let len = len_max(size(put), records, keys().sum(), keys().max().unwrap_or(0));
        let is_outsize = |disk: usize| is_outsize(put, self.disks[disk].layout.slot_bytes);
        let is_there = |disk: &usize| !self.is_failed(state, *disk);
        let extents = |disk: usize| self.disks[disk].space.borrow().whole(len) / len;
        let present: Vec<usize> = (0..self.disks.len()).filter(is_there).collect();
        let wanted = 1 + u64::from(present.iter().any(|disk| is_outsize(*disk)));
        match self.config.transformation == Transformation::Basic || present.len() < 2 {
            true => present.iter().any(|disk| extents(*disk) >= wanted),
            false => present.iter().map(|disk| extents(*disk).min(1)).sum::<u64>() >= wanted,
        }
    }

    /// Returns whether a disk is suitable for the next put: it has an extent, or the put needs
    /// none, or no disk has one.
    pub(super) fn is_place(&self, state: &State, disk: usize) -> bool {
        let Some(put) = state.queue.front() else { return true };
        let len = batch_len(put);
        let is_place = |disk: usize| {
            !is_outsize(put, self.disks[disk].layout.slot_bytes)
                || self.disks[disk].space.borrow().longest() >= len
        };
        is_place(disk)
            || !(0..self.disks.len()).any(|other| !self.is_failed(state, other) && is_place(other))
    }

    /// Returns whether a log has enough replaced and deleted data to justify ending it early while
    /// there is no space for values, or whether the last log that ended early was long ago.
    pub(super) fn is_worth_ending(&self, log: &Log, last: Option<Nanos>) -> bool {
        let replaced = log.len_records() - log.len_values();
        let state = self.state.borrow();
        let (bytes, records) =
            state.version.segments().fold((0, 1), |(bytes, records), segment| {
                let shape = segment.described.shape;
                (bytes + shape.record_bytes, records + shape.records)
            });
        let is_much = replaced.saturating_mul(bytes / records) >= self.deletion_room();
        let is_due = last.is_none_or(|last| self.executor.now() - last >= self.config.retry);
        replaced > 0 && (is_much || is_due)
    }

    /// Returns whether a merge may free space.
    pub(super) fn may_free(&self, state: &State) -> bool {
        !state.is_closing
            && !state.is_merge_stuck
            && (state.is_merging || self.config.merges && self.choose(state).is_some())
    }

    /// Refuses the waiting puts for which `is_refused` is true.
    pub(super) fn refuse(&self, is_refused: impl Fn(&Put) -> bool) {
        let queue = std::mem::take(&mut self.state.borrow_mut().queue);
        let (refused, left): (VecDeque<Put>, _) = queue.into_iter().partition(is_refused);
        self.state.borrow_mut().queue = left;
        refused.iter().for_each(|put| self.deny(put));
    }

    /// Waits for the retry interval, until `is_over` is true, or until the store closes.
    pub(super) async fn nap(self: &Rc<Self>, is_over: impl Fn() -> bool) {
        let (engine, until) = (Rc::clone(self), self.executor.now() + self.config.retry);
        self.executor.spawn(async move {
            engine.executor.sleep(engine.config.retry).await;
            engine.changed.notify();
        });
        let is_due = || self.executor.now() >= until || self.state.borrow().is_closing || is_over();
        self.changed.until(|| is_due().then_some(())).await;
    }

    /// Returns an upper bound on the space that a merge needs beyond what it frees: its output,
    /// plus, for each run, its longest segment without the last record, because that segment is
    /// freed only when it has been merged completely.
    pub(super) fn merge_need(&self, state: &State, inputs: &[Rc<Run>]) -> u64 {
        let drops = inputs.last().is_some_and(|oldest| self.is_oldest(state, oldest.ages.0));
        let needs = inputs.iter().map(|run| run_need(run, drops));
        needs.sum::<u64>() + 2 * self.segment_bytes()
    }

    /// Returns the longest sequence of these neighbors that a merge has space for, preferring the
    /// newest. The space for deletions is not used.
    pub(super) fn affordable<'a>(&self, state: &State, runs: &'a [Rc<Run>]) -> &'a [Rc<Run>] {
        let record = runs.iter().map(|run| longest_record(run)).max().unwrap_or(0);
        let whole = |disk: usize| self.disks[disk].space.borrow().whole(record + BLOCK as u64);
        let whole: u64 = self.present().map(whole).sum();
        let left = self.merge_room_bytes(state).saturating_sub(self.deletion_room());
        let drops = runs.last().is_some_and(|oldest| self.is_oldest(state, oldest.ages.0));
        // If there is not enough contiguous space, the output may be in pieces as short as one
        // record. If there is not even that much, the merge can still succeed if its first records
        // were deleted.
        let written = [2 * self.segment_bytes().max(record), record + BLOCK as u64, 0];
        let mut found = written.into_iter().filter_map(|written| {
            let (left, whole) = (left.checked_sub(written)?, whole.checked_sub(written)?);
            let whole = whole.min(left);
            let within = most_within(left, whole, record, runs);
            let last = if drops { last_within(left, whole, record, runs) } else { &[] };
            Some(if last.len() < within.len() { within } else { last })
        });
        found.find(|found| found.len() > 1).unwrap_or_default()
    }
}

/// Returns the longest sequence of neighbors that need at most `left` bytes together; those with
/// records nearly as long as `record` may need at most `whole` bytes of this. Of several such
/// sequences, returns the newest.
fn most_within(left: u64, whole: u64, record: u64, runs: &[Rc<Run>]) -> &[Rc<Run>] {
    let needs = |run: &Rc<Run>| needs(run, record, false);
    let (mut from, mut need, mut long, mut best) = (0, 0, 0, 0..0);
    for (at, run) in runs.iter().enumerate() {
        let more = needs(run);
        (need, long) = (need + more.0, long + more.1);
        while need > left || long > whole {
            let less = needs(&runs[from]);
            (need, long) = (need - less.0, long - less.1);
            from += 1;
        }
        if at + 1 - from > best.len() {
            best = from..at + 1;
        }
    }
    &runs[best]
}

/// Like [`most_within`], but returns the oldest runs, whose deletions are dropped.
fn last_within(left: u64, whole: u64, record: u64, runs: &[Rc<Run>]) -> &[Rc<Run>] {
    let (mut need, mut long) = (0, 0);
    let fits = |run: &&Rc<Run>| {
        let more = needs(run, record, true);
        (need, long) = (need + more.0, long + more.1);
        need <= left && long <= whole
    };
    let count = runs.iter().rev().take_while(fits).count();
    &runs[runs.len() - count..]
}

/// Returns the space that a run needs. The second number is the same if the run has records nearly
/// as long as `record`, and otherwise 0.
fn needs(run: &Run, record: u64, drops: bool) -> (u64, u64) {
    let need = run_need(run, drops);
    (need, if 2 * longest_record(run) > record { need } else { 0 })
}

/// Returns the largest mean record length among the run's segments.
fn longest_record(run: &Run) -> u64 {
    run.parts.iter().map(|part| part.segment.described.shape.mean_record()).max().unwrap_or(0)
}

/// Returns the length of the run's longest segment without its last record. A segment is freed at
/// its last record, unless it owns all later keys. Deletions that a merge drops need no space;
/// their keys are assumed to have average length.
fn run_need(run: &Run, drops: bool) -> u64 {
    let need = |part: &Part| {
        let described = &part.segment.described;
        let shape = &described.shape;
        let last = part.keys.upto.as_ref().map_or(0, |_| described.len / shape.records.max(1));
        let dropped = if drops { shape.tombstones } else { 0 };
        let key_bytes = 16 + shape.key_bytes / shape.records.max(1);
        match dropped == shape.records {
            true => 0,
            false => (described.len - last).saturating_sub(dropped * key_bytes),
        }
    };
    run.parts.iter().map(need).max().unwrap_or(0).min(run.record_bytes())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use proptest::prelude::*;

    use super::*;
    use crate::engine::version::Segment;
    use crate::filter::Filter;
    use crate::segment::{Described, Keys, Shape};
    use crate::space::Space;

    /// Creates a run of segments, each given as its number of records and its bytes.
    fn run(age: u64, segments: &[(u64, u64)]) -> Rc<Run> {
        let space = Rc::new(RefCell::new(Space::new(0, 0)));
        let part = |&(records, bytes): &(u64, u64)| {
            let shape = Shape { records, record_bytes: records * bytes, ..Shape::default() };
            let keys = Keys { after: None, upto: Some([1].into()) };
            let (ages, len) = ((age, age), shape.record_bytes);
            let described = Described {
                id: age,
                ages,
                before: (0, 0),
                keys: keys.clone(),
                offset: 0,
                len,
                shape,
            };
            let segment = Segment::new(described, 0, (Filter::all(), None), &space);
            segment.keep();
            Part { segment: Rc::new(segment), keys }
        };
        Rc::new(Run { ages: (age, age), parts: segments.iter().map(part).collect() })
    }

    #[test]
    fn a_run_needs_what_is_not_free_before_its_longest_segment_ends() {
        assert_eq!(run_need(&run(1, &[(1, 1000)]), false), 0);
        assert_eq!(run_need(&run(1, &[(1, 1000), (10, 50), (3, 200)]), false), 450);
        let mut endless = Rc::unwrap_or_clone(run(1, &[(1, 1000)]));
        endless.parts[0].keys.upto = None;
        assert_eq!(run_need(&endless, false), 1000);
    }

    proptest! {
        #[test]
        fn the_most_neighbors_that_fit_are_found(
            all in proptest::collection::vec(
                proptest::collection::vec((1..5_u64, 1..40_u64), 1..3), 1..9),
            left in 0..200_u64,
            whole in 0..200_u64,
        ) {
            let runs: Vec<_> = all.iter().zip(0..).map(|(run_of, age)| run(100 - age, run_of)).collect();
            let record = runs.iter().map(|run| longest_record(run)).max().unwrap_or(0);
            let fits = |runs: &[Rc<Run>]| {
                let need: u64 = runs.iter().map(|run| run_need(run, false)).sum();
                let long = runs.iter().filter(|run| 2 * longest_record(run) > record);
                need <= left && long.map(|run| run_need(run, false)).sum::<u64>() <= whole
            };
            let mut expected = 0..0;
            for (from, upto) in (0..runs.len()).flat_map(|from| (from + 1..=runs.len()).map(move |upto| (from, upto))) {
                if fits(&runs[from..upto]) && upto - from > expected.len() {
                    expected = from..upto;
                }
            }
            let ages = |runs: &[Rc<Run>]| runs.iter().map(|run| run.ages).collect::<Vec<_>>();
            let found = most_within(left, whole, record, &runs);
            prop_assert_eq!(ages(found), ages(&runs[expected]));
        }
    }
}
