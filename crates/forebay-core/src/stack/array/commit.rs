//! Rounds, which make changes durable atomically.
//!
//! A round takes the changed units, flushes all drives, and then writes records of these units to
//! three drives with FUA, one after another in the ring. Flushes and FUA writes that arrive
//! meanwhile share the next round. Cells that a unit no longer uses are free when the record is
//! durable.
//!
//! If a flush fails, its drive may have lost everything that it received since the last one
//! ([`super::suspects`]).

use std::collections::BTreeMap;

use super::{
    Array, FLUSH, KIND, LANES_MAX, Losses, Phase, RECORD, Record, Unit, Waiter, geometry, nobodys,
    units_a_record,
};
use crate::contract::{Buf, Bytes, Fault, Flags, Nanos, Op, Outcome, VolumeEvent};
use crate::stack::placed::{Plan, Planned};

/// The minimum number of drives that hold a record; more if the level tolerates more failures.
const COPIES: usize = 3;
/// Maximum number of changed units that are not durable.
const CHANGED_MAX: usize = 8192;
/// The maximum time until a change is recorded if no client requests it.
const AGE_MAX: Nanos = Nanos::from_millis(5000);
/// The number of attempts to write a record to a drive that does not accept it.
const TRIES_MAX: u32 = 3;

/// The recorded state, and the current round.
#[derive(Default)]
pub(super) struct Log {
    pub(super) epoch: u64,
    /// The number of the last durable record.
    pub(super) sequence: u64,
    /// The checksum of the last record.
    pub(super) sum: u64,
    /// The first record of the volume.
    pub(super) base: u64,
    /// The page of the table in the last durable record.
    pub(super) page: u64,
    /// Whether something other than a unit has changed and must be recorded.
    pub(super) owes: bool,
    /// The number of records to write until each page of the table is on the required number of
    /// drives again, after a drive that had some of the pages has disappeared.
    pub(super) renews: u64,
    /// Whether records are on fewer drives than they should be, until `renews` is 0.
    pub(super) lacks: bool,
    /// The members named by the last durable record.
    pub(super) members: [u8; LANES_MAX as usize],
    /// The number of units promised by that record.
    pub(super) units: u64,
    waiters: Vec<Waiter>,
    pub(super) losses: Losses,
    round: Option<Round>,
    /// The time of the oldest change that is in no round.
    since: Option<Nanos>,
}

/// A round in progress.
struct Round {
    /// The number of outstanding flushes or records.
    left: u32,
    waiters: Vec<Waiter>,
    last: u64,
    stretches: Vec<Stretch>,
    sum: u64,
    page: u64,
    members: [u8; LANES_MAX as usize],
    units: u64,
    /// Lanes to which records must still be written, including those where writing failed.
    refused: Vec<usize>,
    /// The lanes in `refused` that had no space.
    full: Vec<usize>,
    tries: u32,
}

/// Consecutive records in the ring, in one buffer, which are written with one I/O.
#[derive(Clone, Copy)]
struct Stretch {
    at: u64,
    len: u32,
    buf: Buf,
}

impl Log {
    /// Adds a waiter for the next round: a flush of a stream, or a FUA write.
    pub(super) fn wait(&mut self, client: u32, stream: Option<u32>) {
        self.waiters.push(self.losses.waiter(client, stream));
    }

    pub(super) fn changed(&mut self, now: Nanos) {
        self.since.get_or_insert(now);
    }

    /// Returns when a round must begin at the latest.
    pub(super) fn due(&self) -> Option<Nanos> {
        self.since.filter(|_| self.round.is_none()).map(|since| since + AGE_MAX)
    }

    /// Returns whether no further unit may change after this many changes.
    pub(super) fn is_full(&self, changed: usize) -> bool {
        changed >= CHANGED_MAX
    }

    pub(super) fn is_idle(&self) -> bool {
        self.round.is_none()
    }
}

impl Array {
    /// Starts a client's flush.
    pub(super) fn flush(&mut self, client: u32, stream: u32, plan: &mut Plan<'_>) {
        plan.hold(client);
        self.log.wait(client, Some(stream));
        self.commit(plan);
    }

    /// Begins a round, unless a round is in progress or there is nothing to record.
    pub(super) fn commit(&mut self, plan: &mut Plan<'_>) {
        self.ask_for_records(plan.now);
        if !self.log.is_idle() || !self.is_fresh() {
            return;
        }
        if let Phase::Failed(fault) = self.phase {
            return self.give_up(fault, plan);
        }
        if !self.changed.is_empty() || self.log.owes {
            return self.begin_round(plan);
        }
        let waiters = std::mem::take(&mut self.log.waiters);
        self.answer(waiters, plan);
    }

    /// Answers the waiters: all of their writes are durable, or lost.
    fn answer(&mut self, waiters: Vec<Waiter>, plan: &mut Plan<'_>) {
        for waiter in waiters {
            plan.release(waiter.client, self.log.losses.tell(waiter));
        }
    }

    /// Begins a round with all changes, or as many as fit.
    pub(super) fn begin_round(&mut self, plan: &mut Plan<'_>) {
        self.counts.commits += 1;
        self.log.owes = false;
        self.round = std::mem::take(&mut self.changed);
        // At most as many units as the ring can hold in addition to the last pages; waiters wait
        // for all of them.
        let most = units_a_record(&self.geometry) * geometry::ROUND_MAX as usize;
        if let Some(at) = self.round.keys().nth(most).copied() {
            self.changed = self.round.split_off(&at);
        }
        let is_all = self.changed.is_empty();
        self.log.since = self.log.since.filter(|_| !is_all);
        let lanes: Vec<usize> = self.drives.present().collect();
        self.log.round = Some(Round {
            left: lanes.len() as u32,
            waiters: if is_all { std::mem::take(&mut self.log.waiters) } else { Vec::new() },
            last: self.log.sequence,
            stretches: Vec::new(),
            sum: 0,
            page: 0,
            members: [0; LANES_MAX as usize],
            units: 0,
            refused: Vec::new(),
            full: Vec::new(),
            tries: 0,
        });
        if lanes.is_empty() {
            return self.give_up(Fault::Gone, plan);
        }
        for lane in lanes {
            plan.io(nobodys(lane, Op::Flush, 0, 0, Bytes::NONE, FLUSH << KIND));
        }
    }

    pub(super) fn flushed(&mut self, lane: usize, outcome: Outcome, plan: &mut Plan<'_>) {
        // If the drive disappeared, everything on it has been marked as suspect already.
        if let Err(fault) = outcome
            && self.drives.present().any(|it| it == lane)
        {
            self.drives.lapse(lane);
            self.suspect(lane, fault);
        }
        let Some(round) = &mut self.log.round else { return };
        round.left -= 1;
        if round.left == 0 {
            self.write_records(plan);
        }
    }

    /// Writes the round's records.
    fn write_records(&mut self, plan: &mut Plan<'_>) {
        if self.drives.present().next().is_none() {
            return self.give_up(Fault::Gone, plan);
        }
        let changed: Vec<(u64, Unit)> = self.round.iter().map(|(at, unit)| (*at, *unit)).collect();
        let each = units_a_record(&self.geometry);
        let renewed = self.log.renews.min(geometry::ROUND_MAX);
        let count = (changed.len().div_ceil(each) as u64).max(renewed).max(1);
        let (first, mut before, mut page) = (self.log.sequence + 1, self.log.sum, self.log.page);
        let mut stretches: Vec<Stretch> = Vec::new();
        for sequence in first..first + count {
            let at = self.geometry.record_at(sequence);
            if stretches.last().is_none_or(|last| last.at + u64::from(last.len) != at) {
                let whole = self.geometry.records_from(sequence).min(first + count - sequence);
                let buf = plan.slots.take(whole as u32 * geometry::RECORD);
                stretches.push(Stretch { at, len: 0, buf });
            }
            let from = ((sequence - first) as usize * each).min(changed.len());
            page = (page + 1) % self.geometry.pages();
            let record = Record {
                epoch: self.log.epoch,
                sequence,
                base: self.log.base,
                round: first,
                before,
                count,
                volume_units: self.geometry.units,
                page,
                drives: self.drives.members(),
                ssds: self.drives.ssds(),
                units: changed[from..changed.len().min(from + each)].to_vec(),
            };
            let mut bytes = record.encode(&self.geometry);
            let later = |at: u64| self.round.get(&at).copied();
            let half = (geometry::RECORD - geometry::PAGE) as usize;
            self.table.write_page(page, later, &mut bytes[half..]);
            if let Some(stretch) = stretches.last_mut() {
                before = seal(&bytes, Bytes::of(stretch.buf).on(stretch.len), plan);
                stretch.len += geometry::RECORD;
            }
        }
        let copies = self.copies();
        if let Some(round) = &mut self.log.round {
            (round.last, round.stretches) = (first + count - 1, stretches);
            (round.sum, round.page) = (before, page);
            (round.members, round.units) = (self.drives.members(), self.geometry.units);
            round.refused = self.drives.recording(first, copies);
        }
        self.send_records(plan);
    }

    /// Returns the number of drives that get each record.
    pub(super) fn copies(&self) -> usize {
        COPIES.max(self.first.tolerates() + 1)
    }

    /// Writes the round's records to the drives that do not have them.
    pub(super) fn send_records(&mut self, plan: &mut Plan<'_>) {
        let Some(round) = &mut self.log.round else { return };
        round.full.clear();
        for lane in std::mem::take(&mut round.refused) {
            for &Stretch { at, len, buf } in &round.stretches {
                let io = nobodys(lane, Op::Write, at, len, Bytes::of(buf), RECORD << KIND);
                plan.io(Planned { flags: Flags::FUA, ..io });
                round.left += 1;
            }
        }
    }

    pub(super) fn recorded(&mut self, io: &Planned, outcome: Outcome, plan: &mut Plan<'_>) {
        let Some(round) = &mut self.log.round else { return };
        round.left -= 1;
        let lane = usize::from(io.lane);
        if outcome.is_err() && !round.refused.contains(&lane) {
            round.refused.push(lane);
        }
        if outcome == Err(Fault::Full) {
            round.full.push(lane);
        }
        if round.left > 0 {
            return;
        }
        if round.refused.is_empty() {
            return self.end_round(plan);
        }
        round.tries += 1;
        let (tries, last) = (round.tries, round.last);
        let (refused, full) = (round.refused.clone(), round.full.clone());
        for lane in refused.into_iter().filter(|lane| tries > TRIES_MAX && !full.contains(lane)) {
            if self.lose(lane) && matches!(self.phase, Phase::Ready) {
                self.care.rebuild(plan.now);
            }
        }
        let lanes = self.drives.recording(last + u64::from(tries), self.copies());
        if lanes.is_empty() {
            return self.give_up(Fault::Gone, plan);
        }
        if let Some(round) = &mut self.log.round {
            // Write the records to all lanes again; lanes that already have them receive identical
            // bytes.
            round.refused = lanes;
        }
        // All other drives have been tried, too, and some refuse the records for lack of space.
        if tries > TRIES_MAX && !full.is_empty() {
            return self.await_room_for_records(plan);
        }
        self.send_records(plan);
    }

    /// Reports to those who wait for a round that there is no space for its records, which are
    /// written later.
    pub(super) fn refuse_waiters(&mut self, plan: &mut Plan<'_>) {
        if matches!(self.phase, Phase::Opening(_)) {
            return self.give_up(Fault::Full, plan);
        }
        let of_round = self.log.round.iter_mut().flat_map(|round| round.waiters.drain(..));
        let waiters: Vec<Waiter> = of_round.collect();
        for waiter in waiters.into_iter().chain(std::mem::take(&mut self.log.waiters)) {
            plan.release(waiter.client, Err(Fault::Full));
        }
        for client in self.care.refused() {
            plan.release(client, Err(Fault::Full));
        }
        for key in std::mem::take(&mut self.stalled) {
            self.finish(key, Err(Fault::Full), plan);
        }
    }

    /// Ends a round whose records are durable.
    fn end_round(&mut self, plan: &mut Plan<'_>) {
        let Some(round) = self.log.round.take() else { return };
        self.full.took_records();
        self.log.renews = self.log.renews.saturating_sub(round.last - self.log.sequence);
        self.log.lacks &= self.log.renews > 0;
        self.recorded_members(round.members);
        if (1..round.units).contains(&self.log.units) {
            let bytes = round.units * self.geometry.unit_bytes();
            self.events.push(VolumeEvent::Grown { bytes });
        }
        self.log.units = round.units;
        (self.log.sequence, self.log.sum, self.log.page) = (round.last, round.sum, round.page);
        round.stretches.iter().for_each(|it| plan.slots.free(it.buf));
        for (at, unit) in std::mem::take(&mut self.round) {
            let before = self.table.get(at);
            self.table.set(at, &unit);
            self.release(at, &before);
        }
        self.freed();
        self.resume_care(plan.now);
        self.answer(round.waiters, plan);
        if matches!(self.phase, Phase::Opening(_)) {
            return self.ready_now(plan);
        }
        self.retry_stalled(plan);
        if !self.log.waiters.is_empty() || !self.stalled.is_empty() || self.log.owes {
            self.commit(plan);
        }
    }

    /// Stops the array because it cannot write records. From then on, nothing can become durable.
    pub(super) fn give_up(&mut self, fault: Fault, plan: &mut Plan<'_>) {
        self.free_written_again(plan.slots);
        self.phase = Phase::Failed(fault);
        let round = self.log.round.take();
        if let Some(round) = &round {
            round.stretches.iter().for_each(|it| plan.slots.free(it.buf));
        }
        let waiters = round.map_or_else(Vec::new, |round| round.waiters);
        for waiter in waiters.into_iter().chain(std::mem::take(&mut self.log.waiters)) {
            plan.release(waiter.client, Err(fault));
        }
        for (client, ..) in std::mem::take(&mut self.early) {
            plan.release(client, Err(fault));
        }
        self.refuse_parts(fault, plan);
        for client in self.care.refused() {
            plan.release(client, Err(fault));
        }
        for key in std::mem::take(&mut self.stalled) {
            self.finish(key, Err(fault), plan);
        }
        self.round = BTreeMap::new();
    }

    /// Stops using a drive. Returns whether it was in use until now.
    pub(super) fn lose(&mut self, lane: usize) -> bool {
        let was_used = self.drives.fail(lane);
        if was_used {
            self.counts.drives_failed += 1;
            self.room.lacking += u64::from(self.named(lane));
            if matches!(self.phase, Phase::Ready) && self.is_fresh() && !self.reads_only {
                self.restore_records();
            }
            self.suspect(lane, Fault::Gone);
        }
        was_used
    }
}

/// Writes a record with its checksum into a buffer. Returns the checksum.
fn seal(bytes: &[u8], to: Bytes, plan: &mut Plan<'_>) -> u64 {
    let len = bytes.len() as u32;
    plan.slots.put(to.len(len), bytes);
    let sum = plan.slots.checksum(to.on(8).len(len - 8)).unwrap_or(0);
    plan.slots.put(to.len(8), &sum.to_le_bytes());
    sum
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::super::bench::{Bench, created};
    use super::*;

    /// Writes more than fits, waits for it in every possible way, and lets all drives fail after
    /// this many I/Os. Returns whether writes were waiting for space then.
    fn fail_after(ios: u64, spare: u32) -> bool {
        let mut bench =
            Bench::new(created(Level::TRIPLE, spare, false).mending(), ios, Default::default());
        for unit in 0..12 {
            let flags = if unit % 3 == 0 { Flags::FUA } else { Flags::NONE };
            bench.ask(Op::Write, flags, 0, 4 * unit, 4);
            // Two writes with a read between them are not combined.
            bench.ask(Op::Read, Flags::NONE, 1, 4 * unit, 4);
            bench.ask(Op::Write, Flags::NONE, 1, 4 * unit, 4);
            bench.ask([Op::Flush, Op::Open][unit as usize % 2], Flags::NONE, 2, 0, 0);
        }
        let (mut ended, mut stalls) = (0, false);
        loop {
            bench.end_all(|_| {
                ended += 1;
                if ended > ios { Err(Fault::Gone) } else { Ok(()) }
            });
            stalls |= bench.array().counts.stalls > 0;
            match bench.waiting {
                0 => return stalls,
                _ => bench.wake(),
            }
        }
    }

    #[test]
    fn all_waiters_are_answered_when_the_last_drive_fails() {
        let stalls = |spare| (0..400).map(|ios| fail_after(ios, spare)).filter(|it| *it).count();
        assert!(stalls(0) > 100, "{} stalled", stalls(0));
        assert_eq!(stalls(60), 0);
    }
}
