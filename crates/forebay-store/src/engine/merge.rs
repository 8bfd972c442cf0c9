//! Merging: combines neighboring runs while disks are idle.
//!
//! A merge reads its inputs in steps and writes segments of about 32 MiB, each on the idle disk
//! with the most space. Each segment is published separately and takes its keys from the inputs,
//! whose segments are freed as soon as they own no keys. A merge therefore needs little more space
//! than one segment, and continues where it was interrupted. Only runs with neighboring ages are
//! merged, because a run between them in age would otherwise be ordered incorrectly.

use std::rc::Rc;

use crate::OperationError;
use crate::record::{Key, Record};
use crate::segment::{Keys, Origin, len_max};

use super::{Ahead, Engine, Log, Run, State, Writing, after, newest, pass};

/// The share of dead data that justifies merging everything when space is short.
const DEAD_LITTLE: f64 = 0.2;
/// The minimum share of dead data for a merge when there is no space left for values. With less
/// dead data, rewriting the whole store would gain too little.
const DEAD_LEAST: f64 = 0.05;

/// The space reserved for a segment of a merge, relative to its target size.
const ROOM: f64 = 1.25;

/// Returns the keys after `done` up to `upto`, up to which the merge is done then.
fn keys_upto(done: &mut Option<Key>, upto: Option<Key>) -> Keys {
    Keys { after: std::mem::replace(done, upto.clone()), upto }
}

/// Returns the key at which a merge ends, because no input owns any key beyond it.
fn end_of(inputs: &[Rc<Run>]) -> Option<Key> {
    let last = inputs.iter().filter_map(|run| run.parts.last());
    let ends = last.map(|part| part.keys.upto.clone());
    ends.max_by_key(|upto| (upto.is_none(), upto.clone())).flatten()
}

/// The age range of a run: its first and its last log.
type Ages = (u64, u64);

/// A merge to perform.
pub(super) struct Merge {
    /// The origin of the merged run.
    origin: Origin,
    /// The key up to which the merge is done.
    done: Option<Key>,
    inputs: Vec<Rc<Run>>,
}

impl Engine {
    /// Performs all due merges until the store closes.
    pub(super) async fn merge_on(self: Rc<Self>) {
        loop {
            let merge = || {
                let mut state = self.state.borrow_mut();
                if state.is_closing {
                    return Some(None);
                }
                let merge = self.choose(&state)?;
                state.is_merging = true;
                state.merge_need = self.merge_need(&state, &merge.inputs);
                Some(Some(merge))
            };
            let Some(merge) = self.changed.until(merge).await else { return };
            let inputs: Vec<_> = merge.inputs.iter().map(|run| run.ages).collect();
            let outcome = self.merge(merge).await;
            if let Err(failure) = &outcome {
                self.state.borrow().version.damage(failure);
            }
            {
                let mut state = self.state.borrow_mut();
                (state.is_merging, state.merge_need) = (false, 0);
                state.is_merge_stuck = outcome.is_err();
                let left = self.merge_room_bytes(&state);
                state.merge_failed =
                    (outcome == Err(OperationError::Full)).then_some((inputs, left));
                state.is_dead_known |= state.version.runs.len() == 1;
            }
            self.changed.notify();
            if outcome.is_err() {
                self.nap(|| false).await;
            }
        }
    }

    /// Returns the next merge, unless it has already failed with at least as much free space as
    /// now.
    pub(super) fn choose(&self, state: &State) -> Option<Merge> {
        let merge = if state.is_repairing { None } else { self.due(state) };
        merge.filter(|merge| !self.has_failed(state, &merge.inputs))
    }

    fn has_failed(&self, state: &State, inputs: &[Rc<Run>]) -> bool {
        state.merge_failed.as_ref().is_some_and(|(failed, left)| {
            inputs.iter().map(|run| run.ages).eq(failed.iter().copied())
                && self.merge_room_bytes(state) <= *left
        })
    }

    /// Returns the merges that have begun: those that can continue, and the age ranges of those
    /// that cannot because their remaining inputs are unreadable or there is not enough space.
    fn begun_merges(&self, state: &State) -> (Vec<(Ages, Key)>, Vec<Ages>) {
        let (mut begun, mut stuck) = (Vec::new(), Vec::new());
        for (ages, done) in state.version.begun() {
            let inputs = inputs(&state.version.runs, ages);
            match inputs.iter().all(is_sound) && !self.has_failed(state, &inputs) {
                true => begun.push((ages, done)),
                false => stuck.push(ages),
            }
        }
        (begun, stuck)
    }

    /// Returns the next merge: one that has begun, or one of all runs if too much data is dead, or
    /// one of enough neighboring runs to be worthwhile, smallest first.
    fn due(&self, state: &State) -> Option<Merge> {
        let runs = &state.version.runs;
        let whole = |inputs: &[Rc<Run>]| {
            let inputs = self.affordable(state, inputs);
            if inputs.len() < 2 {
                return None;
            }
            let Origin { ages: (first, _), before } = inputs.last()?.origin();
            let origin = Origin { ages: (first, inputs.first()?.ages.1), before };
            Some(Merge { origin, done: None, inputs: inputs.to_vec() })
        };
        let (begun, stuck) = self.begun_merges(state);
        if let Some((ages, done)) = begun.into_iter().next() {
            let smaller = self.smaller(state, ages).and_then(|inputs| whole(&inputs));
            let goes_on = || {
                let origin = runs.iter().find(|run| run.ages == ages)?.origin();
                Some(Merge { origin, done: Some(done), inputs: inputs(runs, ages) })
            };
            return smaller.or_else(goes_on);
        }
        let dead: u64 = state.version.segments().map(|segment| segment.dead.get()).sum();
        let all: u64 = runs.iter().map(|run| run.record_bytes()).sum();
        let stretches = stretches(runs, &state.logs, &stuck);
        // There is no space for values. Merging removes replaced data if there is enough of it, or
        // if its amount is unknown. If there is no space for logs either, deletions would soon be
        // refused.
        let is_enough = dead as f64 > all as f64 * DEAD_LEAST || !state.is_dead_known;
        if (state.is_full || is_enough && (!self.takes_values(state, 0) || !self.takes_next(state)))
            && let Some(longest) = stretches.iter().max_by_key(|stretch| stretch.len())
        {
            return whole(longest);
        }
        let dead_max = if self.is_short_of_room() { DEAD_LITTLE } else { self.config.dead_share };
        if dead as f64 > all as f64 * dead_max
            && let [only] = &stretches[..]
            && only.len() > 1
        {
            return whole(only);
        }
        let level = |run: &Run| {
            let logs = run.record_bytes() / self.config.log_bytes.max(1);
            logs.max(1).ilog(self.config.fan_in as u64)
        };
        let top = runs.iter().map(|run| level(run)).max()?;
        let small = |most: u32| {
            let small =
                stretches.iter().flat_map(move |runs| runs.split(move |run| level(run) > most));
            let small = small.map(without_giants).filter(|runs| runs.len() >= self.config.fan_in);
            small.max_by_key(|runs| runs.len())
        };
        (0..=top).find_map(small).and_then(whole)
    }

    /// Returns newer runs to merge before the merge with this age range continues, if there are
    /// enough small ones to be worthwhile. A large merge takes long, and until it ends, every read
    /// must check each small run.
    fn smaller(&self, state: &State, ages: (u64, u64)) -> Option<Vec<Rc<Run>>> {
        let is_newer = |run: &&Rc<Run>| run.ages.0 > ages.1;
        let newer: Vec<Rc<Run>> = state.version.runs.iter().take_while(is_newer).cloned().collect();
        let is_small = |run: &Rc<Run>| run.record_bytes() < self.level_bytes();
        let stretches = stretches(&newer, &state.logs, &self.begun_merges(state).1);
        let small = stretches.into_iter().flat_map(|runs| runs.split(|run| !is_small(run)));
        let longest = small.max_by_key(|runs| runs.len())?;
        (longest.len() >= 2 * self.config.fan_in).then(|| longest.to_vec())
    }

    /// Returns the exclusive upper limit of the size of a run on the lowest level.
    fn level_bytes(&self) -> u64 {
        self.config.log_bytes.max(1) * self.config.fan_in as u64
    }

    /// Returns whether less than a tenth of the disks is free.
    fn is_short_of_room(&self) -> bool {
        let free: u64 = self.disks.iter().map(|disk| disk.space.borrow().free_bytes()).sum();
        let all: u64 = self.disks.iter().map(|disk| disk.layout.capacity_bytes).sum();
        free < all / 10
    }

    /// Returns whether no data is older than a log, so that its deletions can be dropped.
    pub(super) fn is_oldest(&self, state: &State, log: u64) -> bool {
        !state.version.runs.iter().any(|run| run.ages.1 < log)
            && !state.logs.iter().any(|other| other.id < log)
            && !state.denied_logs.iter().any(|denied| *denied < log)
    }

    /// Returns the maximum size of an output of a merge.
    fn output_room(&self, inputs: &[Rc<Run>]) -> u64 {
        let total = |of: fn(&crate::segment::Shape) -> u64| -> u64 {
            let parts = inputs.iter().flat_map(|run| &run.parts);
            parts.map(|part| of(&part.segment.described.shape)).sum()
        };
        let bytes = total(|shape| shape.record_bytes);
        let share = (self.segment_bytes() as f64 * ROOM / bytes.max(1) as f64).min(1.0);
        let of = |count: u64| (count as f64 * share) as u64 + 1;
        let (records, keys) = (total(|shape| shape.records), total(|shape| shape.key_bytes));
        // If these keys are longer than average, the segment ends a little earlier.
        len_max(of(bytes), of(records), of(keys), keys / records.max(1) + 1)
    }

    async fn merge(self: &Rc<Self>, merge: Merge) -> Result<(), OperationError> {
        let Merge { origin, mut done, inputs } = merge;
        let ages = origin.ages;
        let is_oldest = self.is_oldest(&self.state.borrow(), ages.0);
        let from = done.as_ref().map_or_else(|| Key::from([]), |done| after(done));
        // Use only half of the memory for reading; the other half holds records that are already
        // buffered.
        let ahead = self.config.merge_bytes / 2 / inputs.len().max(1) as u64;
        let mut streams: Vec<Ahead> =
            inputs.iter().map(|run| Ahead::new(self, run, &from, ahead)).collect();
        let room = self.output_room(&inputs);
        let end = end_of(&inputs);
        // The streams keep the segments that they still have to read.
        drop(inputs);
        let mut writing: Option<Writing> = None;
        let mut last: Option<Key> = None;
        let mut work = self.work();
        loop {
            let next = newest(&mut streams).await?;
            if writing.as_ref().is_some_and(|to| to.len() >= self.segment_bytes())
                && let (Some(last), Some(next)) = (&last, &next)
            {
                let keys = keys_upto(&mut done, Some(between(last, &next.key)));
                self.end_output(writing.take(), origin, keys).await?;
                if self.smaller(&self.state.borrow(), ages).is_some() {
                    // A later merge continues here.
                    return Ok(());
                }
            }
            if self.state.borrow().is_closing || self.state.borrow().is_repairing {
                return Ok(());
            }
            let Some(record) = next else {
                self.end_output(writing.take(), origin, keys_upto(&mut done, end)).await?;
                self.state.borrow_mut().figures.merges += 1;
                return Ok(());
            };
            pass(&mut streams, &record.key);
            work.did(record.size(), 1 + streams.len() / 16).await;
            let is_kept = record.value.is_some() || !is_oldest;
            if is_kept
                && let Some(last) = &last
                && let Some(full) = writing.take_if(|to| !to.has_room(&record))
            {
                let keys = keys_upto(&mut done, Some(between(last, &record.key)));
                self.end_output(Some(full), origin, keys).await?;
            }
            let before = last.replace(record.key.clone()).filter(|key| done.as_ref() < Some(key));
            if !is_kept {
                continue;
            }
            if writing.is_none() {
                let begun = self.begin_with(&record, before.as_ref(), (room, origin), &mut done);
                writing = Some(begun.await?);
            }
            if let Some(to) = &mut writing {
                if to.is_due(&record) {
                    self.idle(to.disk()).await;
                }
                to.push(&record).await?;
            }
        }
    }

    /// Begins a segment whose first record is `record`. If there is no space, the records deleted up
    /// to the key `before` free theirs first.
    async fn begin_with(
        self: &Rc<Self>,
        record: &Record,
        before: Option<&Key>,
        (room, origin): (u64, Origin),
        done: &mut Option<Key>,
    ) -> Result<Writing, OperationError> {
        let least = len_max(record.size() as u64, 1, 1, 1);
        let begun = self.begin_output(room, least).await;
        if begun.as_ref().err() == Some(&OperationError::Full)
            && let Some(before) = before
        {
            let keys = keys_upto(done, Some(between(before, &record.key)));
            self.end_output(None, origin, keys).await?;
            return self.begin_output(room, least).await;
        }
        begun
    }

    /// Begins a segment on an idle disk: of the disks with at least half of the maximum free space,
    /// the one whose turn on duty is furthest away. If free space is fragmented, the segment may be
    /// shorter, but has at least `least` bytes.
    async fn begin_output(
        self: &Rc<Self>,
        room: u64,
        least: u64,
    ) -> Result<Writing, OperationError> {
        let count = self.disks.len();
        let longest = |disk: usize| self.disks[disk].space.borrow().longest().min(room.max(least));
        let free = |disk: usize| self.disks[disk].space.borrow().free_bytes();
        let choose = || {
            let state = self.state.borrow();
            let takes = |disk: &usize| !self.is_failed(&state, *disk) && longest(*disk) >= least;
            let fit: Vec<usize> = (0..count).filter(takes).collect();
            if fit.is_empty() {
                return Some(Err(OperationError::Full));
            }
            // Keep the disks with the longest free extents first, so that at least one disk always
            // remains.
            let half = |fit: Vec<usize>, of: &dyn Fn(usize) -> u64| -> Vec<usize> {
                let most = fit.iter().map(|disk| of(*disk)).max().unwrap_or(0);
                fit.into_iter().filter(|disk| of(*disk) >= most / 2).collect()
            };
            let fit = half(half(fit, &longest), &free);
            let idle = fit.into_iter().filter(|disk| state.is_idle(*disk));
            idle.max_by_key(|disk| (disk + count - state.duty) % count).map(Ok)
        };
        let disk = self.changed.until(choose).await?;
        Writing::begin(self, disk, longest(disk).max(least))
    }

    /// Ends a segment and publishes it. It may be empty if all its keys were deleted.
    async fn end_output(
        self: &Rc<Self>,
        writing: Option<Writing>,
        origin: Origin,
        keys: Keys,
    ) -> Result<(), OperationError> {
        let writing = match writing {
            Some(writing) => writing,
            None => self.begin_output(len_max(0, 0, 0, 0), 0).await?,
        };
        self.idle(writing.disk()).await;
        let segment = writing.finish(origin, keys).await?;
        self.state.borrow_mut().figures.merged_bytes += segment.described.len;
        self.publish(segment).await
    }
}

/// Returns a short key that is at least `last` and less than `next`. It should be short because
/// roots store it.
fn between(last: &Key, next: &Key) -> Key {
    let same = last.iter().zip(next.iter()).take_while(|(a, b)| a == b).count();
    let longer = |len: usize| {
        let (&byte, head) = last.get(..len)?.split_last()?;
        let key: Key = head.iter().copied().chain([byte.checked_add(1)?]).collect();
        (key < *next).then_some(key)
    };
    (same + 1..last.len()).find_map(longer).unwrap_or_else(|| last.clone())
}

/// Removes the oldest runs that are more than twice as large as all newer ones together: rewriting
/// such a run would cost more than it saves.
fn without_giants(mut runs: &[Rc<Run>]) -> &[Rc<Run>] {
    while let [newer @ .., oldest] = runs {
        let bytes: u64 = newer.iter().map(|run| run.record_bytes()).sum();
        if oldest.record_bytes() <= 2 * bytes {
            break;
        }
        runs = newer;
    }
    runs
}

/// Returns whether no part of a run is known to be unreadable. Lost data may become readable again,
/// and its keys stay unknown until then.
fn is_sound(run: &Rc<Run>) -> bool {
    run.parts.iter().all(|part| part.segment.lost.is_none() && part.segment.damaged.get().is_none())
}

/// Returns the remaining inputs of a merge that has begun.
fn inputs(runs: &[Rc<Run>], ages: Ages) -> Vec<Rc<Run>> {
    runs.iter().filter(|run| run.ages != ages && run.is_within(ages)).cloned().collect()
}

/// Returns the sequences of neighboring runs that may be merged: split where a log's age lies
/// between two runs, and without unreadable runs and those of stuck merges.
fn stretches<'a>(runs: &'a [Rc<Run>], logs: &[Rc<Log>], stuck: &[Ages]) -> Vec<&'a [Rc<Run>]> {
    let is_left_alone =
        |run: &Rc<Run>| !is_sound(run) || stuck.iter().any(|ages| run.is_within(*ages));
    let lies_between = |newer: &Run, older: &Run| {
        logs.iter().any(|log| older.ages.1 < log.id && log.id < newer.ages.0)
    };
    let mut stretches = Vec::new();
    let mut rest = runs;
    while !rest.is_empty() {
        let cut = rest.windows(2).position(|pair| lies_between(&pair[0], &pair[1]));
        let (stretch, later) = rest.split_at(cut.map_or(rest.len(), |at| at + 1));
        let sound = stretch.split(is_left_alone).filter(|runs| !runs.is_empty());
        stretches.extend(sound);
        rest = later;
    }
    stretches
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_separator_lies_between_two_keys_and_is_no_longer_than_the_first(
            mut keys in proptest::array::uniform2(proptest::collection::vec(250..=255_u8, 0..9)),
        ) {
            keys.sort();
            let [last, next] = keys.map(Key::from);
            prop_assume!(last < next);
            let found = between(&last, &next);
            prop_assert!(last <= found && found < next && found.len() <= last.len());
        }
    }

    #[test]
    fn a_long_tail_is_left_out() {
        let key = |key: &str| Key::from(key.as_bytes());
        for (last, next, expected) in [
            ("https://a.org/long", "https://a.org/longer", "https://a.org/long"),
            ("https://a.org/long", "https://c.org/", "https://b"),
            ("https://a.org/long", "https://b", "https://a/"),
            ("a", "b", "a"),
            ("", "b", ""),
        ] {
            assert_eq!(between(&key(last), &key(next)), key(expected), "{last} and {next}");
        }
    }
}
