//! Puts: appends all waiting puts to the log of the disk on duty, and acknowledges them when they
//! are durable.

use std::rc::Rc;

use forebay_core::Nanos;

use crate::Answer;
use crate::batch::{BATCH_HEAD, Batch, STRETCH_HEAD, Stretch};
use crate::frame::BLOCK;
use crate::record::Record;
use crate::summary::BatchSummary;

use super::{Engine, Log, Picture, Put};

/// The shortest delay imposed on puts; shorter ones are accumulated.
const PAUSE: Nanos = Nanos::from_millis(20);

impl Engine {
    /// Appends puts until the store closes.
    pub(super) async fn ingest(self: Rc<Self>) {
        let mut log: Option<Rc<Log>> = None;
        let mut began = self.executor.now();
        let mut ended_early = None;
        loop {
            let is_over = self.put.until(|| self.is_next()).await;
            if is_over || log.as_ref().is_some_and(|log| self.is_full(log)) {
                self.finish(log.take(), began);
            }
            if is_over {
                return;
            }
            while !self.admit().await {
                // The space of deleted data is freed only by a merge.
                match log.take_if(|log| self.is_worth_ending(log, ended_early)) {
                    Some(log) => {
                        ended_early = Some(self.executor.now());
                        self.finish(Some(log), began);
                    }
                    None => self.refuse(|put| !is_deletion(put)),
                }
            }
            if self.state.borrow().queue.is_empty() {
                continue;
            }
            if self.is_behind() {
                // A merge may need the disk on duty, so the log is finished first.
                self.finish(log.take(), began);
                let begun = self.executor.now();
                self.changed.until(|| (!self.is_behind()).then_some(())).await;
                self.state.borrow_mut().figures.merge_delay += self.executor.now() - begun;
            }
            let on_duty = match &log {
                Some(log) => Rc::clone(log),
                None => {
                    began = self.executor.now();
                    let last = self.state.borrow().duty;
                    if !self.config.durable && self.lane(last).is_ok() {
                        // The next log relies on this one being durable; if the flush fails, the
                        // disk has failed.
                        let _ = self.flush(last).await;
                    }
                    let Ok(next) = self.take_duty().await else {
                        self.refuse(|_| true);
                        continue;
                    };
                    Rc::clone(log.insert(next))
                }
            };
            if let Err(puts) = self.append(&on_duty).await {
                // The puts may or may not be durable; writing them again to the next log is
                // harmless.
                puts.into_iter()
                    .rev()
                    .for_each(|put| self.state.borrow_mut().queue.push_front(put));
                self.finish(log.take(), began);
            }
        }
    }

    /// Returns Some(false) if puts are waiting, Some(true) if the store is closing and no further
    /// puts will follow, and None otherwise.
    fn is_next(&self) -> Option<bool> {
        let state = self.state.borrow();
        match state.queue.is_empty() {
            false => Some(false),
            true => state.is_closing.then_some(true),
        }
    }

    /// Returns whether a log has reached its threshold or the next put does not fit into its slot.
    fn is_full(&self, log: &Log) -> bool {
        let state = self.state.borrow();
        let slot = self.disks[log.disk].layout.slot_bytes;
        let next = match state.queue.front() {
            // Only the location of an oversized put is stored in the slot, in one block.
            Some(put) if is_outsize(put, slot) => 1,
            Some(put) => size(put) + BATCH_HEAD as u64,
            None => 0,
        };
        !self.is_place(&state, log.disk)
            || log.batch_bytes.get() >= state.log_size.bytes()
            || log.len.get() + next.next_multiple_of(BLOCK as u64) > slot
    }

    /// Finishes a log and begins its transformation.
    fn finish(self: &Rc<Self>, log: Option<Rc<Log>>, began: Nanos) {
        let Some(log) = log else { return };
        let mut state = self.state.borrow_mut();
        state.figures.logs += 1;
        let logging = self.executor.now() - began;
        state.figures.logging += logging;
        let (debt, disks) = (self.merge_debt(&state), self.disks.len());
        let transforming = state.last_transforming;
        state.log_size.finished(logging, transforming, disks, debt);
        state.is_on_duty = false;
        self.note(&mut state, log.disk);
        if log.batches.get() == 0 {
            // The log's first write failed but may have taken effect. Its number and its extents
            // are therefore not reused until the next opening has examined them.
            log.leave_stretches();
            state.denied_logs.insert(log.id);
            state.release(log.id);
            drop(state);
            return self.changed.notify();
        }
        state.before = (log.id, log.batches.get());
        drop(state);
        self.changed.notify();
        self.begin_transformation(log);
    }

    /// Appends a batch of waiting puts and acknowledges them. Returns the puts if that fails.
    async fn append(self: &Rc<Self>, log: &Log) -> Result<(), Vec<Put>> {
        self.slow_down().await;
        self.state.borrow_mut().is_quiet = false;
        let begun = self.executor.now();
        let layout = self.disks[log.disk].layout;
        let (puts, records) = self.gather(layout.slot_bytes, layout.slot_bytes - log.len.get());
        let before = self.state.borrow().before;
        log.before.set(before);
        let is_synced = self.config.durable && self.config.to_media;
        let (at, gap, index) = (log.len.get(), self.gap_bytes(), log.batches.get());
        let put_at = self.wall_ns();
        let head = Batch { log: log.id, index, next: at, before, is_synced, put_at };
        let summary = BatchSummary::of((log.id, index), put_at, &records);
        let is_alone = puts.first().is_some_and(|put| is_outsize(put, layout.slot_bytes));
        let summaries = match is_alone {
            false => self.summaries(&records, layout.slot_bytes - at),
            true => Vec::new(),
        };
        let (bytes, mut batch) = head.bytes(gap, &summaries, &records, self.store);
        let (offset, len) = (layout.slot_at(log.slot()) + at, bytes.len() as u64);
        let flushes = self.config.durable && self.config.flushes_puts;
        let durable = self.config.durable && !flushes;
        let written = match is_alone {
            false => self.write(log.disk, offset, bytes, durable).await,
            true => {
                let Some(place) = self.disks[log.disk].space.borrow_mut().take(len) else {
                    puts.iter().for_each(|put| self.deny(put));
                    return Ok(());
                };
                log.stretch(place, len);
                batch.next = at + BLOCK as u64 + gap;
                let summaries = self.summaries_with(summary.as_ref());
                let stretch = Stretch { batch, offset: place, len }.bytes(&summaries, self.store);
                // The batch must be durable before the slot refers to it.
                match self.write(log.disk, place, bytes, true).await {
                    Ok(()) => self.write(log.disk, offset, stretch, durable).await,
                    failed => failed,
                }
            }
        };
        let flushed = if flushes { self.flush(log.disk).await } else { Ok(()) };
        if written.is_err() || flushed.is_err() {
            return Err(puts);
        }
        self.took(log, begun);
        log.batch_bytes.set(log.batch_bytes.get() + len);
        self.changed.until(|| log.is_announced.get().then_some(())).await;
        log.len.set(batch.next);
        log.batches.set(log.batches.get() + 1);
        {
            let figures = &mut self.state.borrow_mut().figures;
            figures.batches += 1;
            figures.logged_bytes += len;
            let put = |record: &Record| record.size() as u64 - 16;
            figures.put_bytes += records.iter().map(put).sum::<u64>();
        }
        summary.into_iter().for_each(|of| self.state.borrow_mut().summaries.push(&of));
        let upto = self.state.borrow().sequence;
        let mut work = self.work();
        for record in records {
            log.insert(record);
            work.did(0, 1).await;
        }
        // A batch becomes visible as a whole.
        self.state.borrow_mut().seen_upto = upto;
        puts.iter().for_each(|put| self.done(put));
        self.look_ahead(log);
        self.watch();
        Ok(())
    }

    /// Acknowledges a put that is durable and visible. If the put holds a snapshot, the snapshot is
    /// the current state limited to sequence numbers below the put's first; all later ones are in
    /// the log on duty.
    fn done(&self, put: &Put) {
        if self.state.borrow_mut().holding.remove(&put.id) {
            let before = Picture { upto: put.sequence, ..self.picture() };
            self.state.borrow_mut().snapshots.insert(put.id, before);
        }
        self.answer(put.id, Ok(Answer::Done));
    }

    /// Refuses a put because there is no space.
    pub(super) fn deny(&self, put: &Put) {
        self.state.borrow_mut().holding.remove(&put.id);
        self.answer(put.id, Err(self.why_full()));
    }

    /// Returns the summaries of earlier batches to include in a batch of these records, given
    /// `room` bytes in its slot.
    fn summaries(&self, records: &[Record], room: u64) -> Vec<u8> {
        let used = BATCH_HEAD + records.iter().map(Record::size).sum::<usize>();
        self.state.borrow().summaries.within(used, room as usize)
    }

    /// Returns the summaries for the block of a stretch: its own and as many earlier ones as fit.
    fn summaries_with(&self, own: Option<&BatchSummary>) -> Vec<u8> {
        let mut said = Vec::new();
        own.into_iter().for_each(|own| own.put(&mut said));
        if STRETCH_HEAD + said.len() > BLOCK {
            said.clear();
        }
        said.extend(self.state.borrow().summaries.within(STRETCH_HEAD + said.len(), BLOCK));
        said
    }

    /// Returns whether there are so many runs that merges take priority over puts.
    fn is_behind(&self) -> bool {
        let state = self.state.borrow();
        let is_due = state.is_merging && !state.is_closing;
        is_due && state.version.runs.len() >= self.config.runs_max
    }

    /// Delays puts if merges fall behind. The delay grows with the number of runs above half the
    /// maximum, up to doubling the puts' time. Delays are grouped rather than spread over batches,
    /// because after any delay the disk head misses the position of the next batch.
    async fn slow_down(&self) {
        let most = self.config.runs_max;
        let owed = {
            let mut state = self.state.borrow_mut();
            let runs = if state.is_merging { state.version.runs.len() } else { 0 };
            let excess = runs.saturating_sub(most / 2);
            let share = (excess as f64 / (most - most / 2) as f64).min(1.0);
            let last = state.last_batch.as_secs_f64();
            state.owed += Nanos::from_secs_f64(last * share);
            if state.owed < PAUSE { Nanos::ZERO } else { std::mem::take(&mut state.owed) }
        };
        if owed > Nanos::ZERO {
            self.executor.sleep(owed).await;
            self.state.borrow_mut().figures.merge_delay += owed;
        }
    }

    /// Returns the gap after the next batch.
    pub(super) fn gap_bytes(&self) -> u64 {
        match self.config.tunes {
            true => self.state.borrow().gap.bytes(),
            false => self.config.gap_bytes,
        }
    }

    /// Registers the time that a batch took. The first batch of a log is not used to measure gaps,
    /// because no gap precedes it.
    fn took(&self, log: &Log, begun: Nanos) {
        let mut state = self.state.borrow_mut();
        state.last_batch = self.executor.now() - begun;
        if log.batches.get() > 0 {
            let took = state.last_batch;
            state.gap.took(took);
        }
    }

    /// Collects at least one waiting put, up to the group size and at most `room` bytes. A put that
    /// is too long for any slot is returned alone.
    fn gather(&self, slot_bytes: u64, room: u64) -> (Vec<Put>, Vec<Record>) {
        let mut state = self.state.borrow_mut();
        let most = self.config.group_bytes.min(room.saturating_sub(BATCH_HEAD as u64));
        let (mut puts, mut records, mut bytes) = (Vec::new(), Vec::new(), 0);
        // A put with values that follows a deletion is accepted only if it would be accepted by
        // itself.
        let takes_values = self.takes_values(&state, 0);
        let fits = |put: &Put| takes_values || is_deletion(put);
        while let Some(put) = state.queue.front()
            && (puts.is_empty()
                || bytes + size(put) <= most && !is_outsize(put, slot_bytes) && fits(put))
            && let Some(mut put) = state.queue.pop_front()
        {
            bytes += size(&put);
            put.sequence = state.sequence;
            for (key, value) in &put.records {
                let (key, value, sequence) = (key.clone(), value.clone(), state.sequence);
                records.push(Record { key, sequence, value });
                state.sequence += 1;
            }
            let is_alone = is_outsize(&put, slot_bytes);
            puts.push(put);
            if is_alone {
                break;
            }
        }
        (puts, records)
    }
}

/// Returns the length of a batch with a single put.
pub(super) fn batch_len(put: &Put) -> u64 {
    (size(put) + BATCH_HEAD as u64).next_multiple_of(BLOCK as u64)
}

/// Returns whether a put is too long for any slot.
pub(super) fn is_outsize(put: &Put, slot_bytes: u64) -> bool {
    size(put) + (BATCH_HEAD + BLOCK) as u64 > slot_bytes
}

/// Returns whether a put contains no values.
pub(super) fn is_deletion(put: &Put) -> bool {
    put.records.iter().all(|(_, value)| value.is_none())
}

/// Returns the length of a put's records.
pub(super) fn size(put: &Put) -> u64 {
    let size = |value: &Option<crate::record::Value>| value.as_ref().map_or(0, |value| value.len());
    put.records.iter().map(|(key, value)| 16 + (key.len() + size(value)) as u64).sum()
}
