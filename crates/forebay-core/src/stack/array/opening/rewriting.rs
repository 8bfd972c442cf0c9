//! Writes records again on all drives, before anything is served.

use std::collections::BTreeMap;

use super::super::{Array, KIND, OPENING, geometry, nobodys};
use super::walk::Walk;
use super::{Reading, Step};
use crate::contract::bytes::{Buf, Bytes, Slots};
use crate::contract::outcome::Outcome;
use crate::contract::request::{Flags, Op};
use crate::stack::placed::{Plan, Planned};

/// Records that are copied at a time.
const BATCH: usize = 128;

/// Copies a chain to drives that do not have it.
pub(super) struct Copying {
    /// Sums of records that are left, and lanes that have them, the newest first.
    chain: Vec<(u64, u8)>,
    /// The number of the oldest record that is left.
    next: u64,
    /// By number: the sum of a record that is being read, and the lanes tried, one bit each.
    reading: BTreeMap<u64, (u64, u64)>,
}

impl Array {
    /// Writes the last round of a chain again, or the whole chain if a drive is new: it has none of
    /// the records, so they would be missing if other drives are lost later.
    pub(super) fn rewrite(&mut self, walk: Walk, is_new: bool, plan: &mut Plan<'_>) -> Option<()> {
        if is_new {
            let next = walk.last.sequence + 1 - walk.chain.len() as u64;
            let copying = Copying { chain: walk.chain, next, reading: BTreeMap::new() };
            return self.copy_next(copying, plan);
        }
        self.opening()?.step = Step::Rewrite(None);
        for (sequence, bytes) in (walk.last.round..=walk.last.sequence).rev().zip(&walk.round) {
            let buf = plan.slots.take(geometry::RECORD);
            plan.slots.put(Bytes::of(buf).len(geometry::RECORD), bytes);
            self.write_everywhere(self.geometry.record_at(sequence), buf, plan);
        }
        (self.opening()?.left > 0).then_some(())
    }

    /// Goes on after records were written on all drives.
    pub(super) fn rewrite_on(
        &mut self,
        copying: Option<Copying>,
        plan: &mut Plan<'_>,
    ) -> Option<()> {
        self.free_written_again(plan.slots);
        match copying.filter(|copying| !copying.chain.is_empty()) {
            Some(copying) => return self.copy_next(copying, plan),
            None => self.begin_round(plan),
        }
        Some(())
    }

    /// Reads the next records to copy.
    fn copy_next(&mut self, mut copying: Copying, plan: &mut Plan<'_>) -> Option<()> {
        let left = copying.chain.len();
        let batch = copying.chain.split_off(left.saturating_sub(BATCH));
        let ring = self.geometry.ring.max(1);
        for (sequence, &(sum, lane)) in (copying.next..).zip(batch.iter().rev()) {
            copying.reading.insert(sequence, (sum, 1 << lane));
            self.read_ring(lane.into(), sequence % ring, 1, Reading::Single, plan);
        }
        copying.next += batch.len() as u64;
        let opening = self.opening()?;
        opening.step = Step::Rewrite(Some(copying));
        (opening.left > 0).then_some(())
    }

    /// A record to copy was read, or is read from another drive.
    pub(super) fn copy_read(&mut self, io: &Planned, outcome: Outcome, plan: &mut Plan<'_>) {
        let ring = self.geometry.ring.max(1);
        let place = (io.offset - geometry::ring_at()) / u64::from(geometry::RECORD);
        let lanes: Vec<usize> = self.drives.present().collect();
        let Some(Step::Rewrite(Some(copying))) = self.opening().map(|it| &mut it.step) else {
            return;
        };
        let at = copying.reading.keys().copied().find(|sequence| sequence % ring == place);
        let Some((at, (wanted, tried))) = at.and_then(|at| copying.reading.remove_entry(&at))
        else {
            return;
        };
        let mut own = [0; 8];
        let is_read = outcome.is_ok() && plan.slots.get(io.bytes.len(8), &mut own);
        let sum = plan.slots.checksum(io.bytes.on(8).len(geometry::RECORD - 8));
        if is_read && sum == Some(wanted) && own == wanted.to_le_bytes() {
            plan.slots.keep(io.bytes.buf);
            return self.write_everywhere(io.offset, io.bytes.buf, plan);
        }
        match lanes.iter().find(|lane| tried >> **lane & 1 == 0) {
            Some(lane) => {
                copying.reading.insert(at, (wanted, tried | 1 << lane));
                self.read_ring(*lane, place, 1, Reading::Single, plan);
            }
            // It could be read before, so the table is complete: its pages are recorded again.
            None => self.log.renews = self.geometry.pages(),
        }
    }

    /// Writes a record to all drives.
    fn write_everywhere(&mut self, at: u64, buf: Buf, plan: &mut Plan<'_>) {
        let lanes: Vec<usize> = self.drives.present().collect();
        lanes.into_iter().for_each(|lane| self.write_again(lane, at, buf, plan));
        if let Some(opening) = self.opening() {
            opening.written.push((at, buf));
        }
    }

    /// Writes a record that has to be durable before anything is served.
    fn write_again(&mut self, lane: usize, at: u64, buf: Buf, plan: &mut Plan<'_>) {
        let bytes = Bytes::of(buf);
        let io = nobodys(lane, Op::Write, at, geometry::RECORD, bytes, OPENING << KIND);
        plan.io(Planned { flags: Flags::FUA, ..io });
        if let Some(opening) = self.opening() {
            opening.left += 1;
        }
    }

    /// Rewrites the records for which drives had no space.
    pub(in super::super) fn write_refused(&mut self, plan: &mut Plan<'_>) {
        let Some(opening) = self.opening() else { return };
        let written = opening.written.clone();
        for (lane, at) in std::mem::take(&mut opening.refused) {
            if let Some((_, buf)) = written.iter().find(|(of, _)| *of == at) {
                self.write_again(lane, at, *buf, plan);
            }
        }
    }

    /// Frees the records that have been written again.
    pub(in super::super) fn free_written_again(&mut self, slots: &mut dyn Slots) {
        let Some(opening) = self.opening() else { return };
        opening.written.drain(..).for_each(|(_, buf)| slots.free(buf));
    }
}
