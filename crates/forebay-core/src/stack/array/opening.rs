//! Opening: reads the table from the records, or creates it.
//!
//! The newest record counts whose round is complete and from which a chain of checksums extends
//! back over all pages of the table. An incomplete round was never acknowledged and is ignored. If
//! the chain breaks before all pages have been found, more is lost than tolerated, and the volume
//! stays closed; it is never treated as a new one.
//!
//! The records may exist on only one drive. They are therefore rewritten, byte for byte in place,
//! on every present drive, and a record of a new epoch confirms this before anything is served. If
//! a drive that was missing has a newer record, the epoch overrules it.

use std::collections::BTreeMap;

use super::kind::DriveKind;
use super::record::Record;
use super::unit::Unit;
use super::{Array, Geometry, KIND, OPENING, Phase, geometry, nobodys};
use crate::contract::bytes::{Buf, Bytes, Slots};
use crate::contract::outcome::{Fault, Outcome};
use crate::contract::request::{Flags, Op};
use crate::stack::placed::{Plan, Planned};

/// Bytes that are read at a time.
const STEP: u64 = 1 << 20;

/// The state found so far.
#[derive(Default)]
pub(super) struct Opening {
    /// The number of outstanding I/Os.
    left: u32,
    /// By sequence number and sum: the record and its bytes.
    records: BTreeMap<(u64, u64), (Record, Vec<u8>)>,
    /// Records that are written again: where, and their bytes.
    written: Vec<(u64, Buf)>,
    /// Records for which a drive had no space: its lane, and the position.
    refused: Vec<(usize, u64)>,
}

impl Array {
    /// Begins to find or make the table.
    pub(super) fn open(&mut self, creates: bool, plan: &mut Plan<'_>) {
        self.phase = Phase::Opening(Box::default());
        if creates {
            (self.log.epoch, self.log.base) = (1, 1);
            return self.begin_round(plan);
        }
        let ring = self.geometry.ring * u64::from(geometry::RECORD);
        for lane in self.drives.present().collect::<Vec<_>>() {
            self.read_ring(lane, 0, ring.min(STEP), plan);
        }
        if self.opening().is_none_or(|opening| opening.left == 0) {
            self.give_up(Fault::Gone, plan);
        }
    }

    fn opening(&mut self) -> Option<&mut Opening> {
        match &mut self.phase {
            Phase::Opening(opening) => Some(opening),
            _ => None,
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
    pub(super) fn write_refused(&mut self, plan: &mut Plan<'_>) {
        let Some(opening) = self.opening() else { return };
        let written = opening.written.clone();
        for (lane, at) in std::mem::take(&mut opening.refused) {
            if let Some((_, buf)) = written.iter().find(|(of, _)| *of == at) {
                self.write_again(lane, at, *buf, plan);
            }
        }
    }

    /// Frees the records that have been written again.
    pub(super) fn free_written_again(&mut self, slots: &mut dyn Slots) {
        let Some(opening) = self.opening() else { return };
        opening.written.drain(..).for_each(|(_, buf)| slots.free(buf));
    }

    fn read_ring(&mut self, lane: usize, from: u64, len: u64, plan: &mut Plan<'_>) {
        let (at, len) = (geometry::ring_at() + from, len as u32);
        let buf = plan.slots.take(len);
        plan.io(nobodys(lane, Op::Read, at, len, Bytes::of(buf), OPENING << KIND));
        plan.slots.free(buf);
        if let Some(opening) = self.opening() {
            opening.left += 1;
        }
    }

    /// An I/O of the opening has ended.
    pub(super) fn opened(&mut self, io: &Planned, outcome: Outcome, plan: &mut Plan<'_>) {
        let Some(opening) = self.opening() else { return };
        opening.left -= 1;
        match io.op {
            Op::Read => self.found_part(io, outcome, plan),
            // A drive that fails the write is no longer used.
            _ => match outcome {
                Err(Fault::Full) => opening.refused.push((io.lane.into(), io.offset)),
                Err(_) => drop(self.lose(io.lane.into())),
                Ok(()) => {}
            },
        }
        let Some(opening) = self.opening().filter(|opening| opening.left == 0) else { return };
        if !opening.refused.is_empty() {
            return self.await_room_to_open(plan);
        }
        if !opening.written.is_empty() {
            self.free_written_again(plan.slots);
            return self.begin_round(plan);
        }
        if self.settle(plan).is_none() {
            self.give_up(Fault::Gone, plan);
        }
    }

    /// A part of a drive's ring was read.
    fn found_part(&mut self, io: &Planned, outcome: Outcome, plan: &mut Plan<'_>) {
        let (from, len) = (io.offset - geometry::ring_at(), u64::from(io.len));
        let (record, lane) = (u64::from(geometry::RECORD), usize::from(io.lane));
        let there = self.drives.present().any(|it| it == lane);
        if outcome.is_err() && len > record && there {
            // One by one: a sector that cannot be read is one record's.
            (0..len / record).for_each(|at| self.read_ring(lane, from + at * record, record, plan));
        }
        let next = from + len;
        let ring = self.geometry.ring * record;
        let is_step = from.is_multiple_of(STEP) && (len == STEP || next == ring);
        if is_step && next < ring && there {
            self.read_ring(lane, next, STEP.min(ring - next), plan);
        }
        if outcome.is_ok() {
            (0..len / record)
                .for_each(|at| self.found_record(io.bytes.on((at * record) as u32), plan));
        }
    }

    fn found_record(&mut self, at: Bytes, plan: &mut Plan<'_>) {
        let mut bytes = vec![0; geometry::RECORD as usize];
        if !plan.slots.get(at.len(geometry::RECORD), &mut bytes) {
            return;
        }
        let Some(sum) = plan.slots.checksum(at.on(8).len(geometry::RECORD - 8)) else { return };
        if let Some(record) = Record::decode(&bytes, sum, &self.geometry)
            && let Some(opening) = self.opening()
        {
            opening.records.insert((record.sequence, sum), (record, bytes));
        }
    }

    /// Takes over the newest state there is, and writes its last round again.
    fn settle(&mut self, plan: &mut Plan<'_>) -> Option<()> {
        let records = std::mem::take(&mut self.opening()?.records);
        let chain = chain(&records, &self.geometry)?;
        let (sequence, sum) = *chain.last()?;
        let newest = &records.get(&(sequence, sum))?.0;
        let (round, count) = (newest.round, newest.count);
        let is_new = self.adopt(newest);
        // Other drives have been replaced, so too few may be left.
        let members = newest.drives.iter().filter(|number| **number > 0).count();
        self.has_enough(members).then_some(())?;
        self.geometry = self.geometry.grown(newest.volume_units)?;
        self.table.grow(self.geometry.units);
        (self.log.sequence, self.log.sum, self.log.page) = (sequence, sum, newest.page);
        (self.log.epoch, self.log.base) = (newest.epoch + 1, newest.base);
        for key in &chain {
            let (record, bytes) = records.get(key)?;
            record.units.iter().for_each(|(at, unit)| self.table.set(*at, unit));
            let page = &bytes[(geometry::RECORD - geometry::PAGE) as usize..];
            self.table.read_page(record.page, page);
        }
        self.lose_short();
        self.has_enough(members).then_some(())?;
        for at in 0..self.table.units() {
            let unit = self.table.get(at);
            let Unit { level, places, .. } = unit;
            let roles = level.map_or(0, |level| level.roles(self.chunks()));
            (roles <= self.geometry.roles_max()).then_some(())?;
            self.hold(at, &Unit::EMPTY, &unit);
            // Two that share a cell: this is no table of ours.
            places.iter().all(|place| self.drives.mark(*place)).then_some(())?;
        }
        if self.reads_only {
            self.ready_now(plan);
            return Some(());
        }
        let lanes: Vec<usize> = self.drives.present().collect();
        // A new drive has none of them, so they would be missing if other drives are lost later.
        let written = chain.iter().filter(|key| is_new || (round..round + count).contains(&key.0));
        for key in written {
            let bytes = &records.get(key)?.1;
            let buf = plan.slots.take(geometry::RECORD);
            plan.slots.put(Bytes::of(buf).len(geometry::RECORD), bytes);
            let at = self.geometry.record_at(key.0);
            lanes.iter().for_each(|lane| self.write_again(*lane, at, buf, plan));
            if let Some(opening) = self.opening() {
                opening.written.push((at, buf));
            }
        }
        (!lanes.is_empty()).then_some(())
    }

    /// Returns whether `members` drives are enough, considering how many may be missing.
    fn has_enough(&self, members: usize) -> bool {
        self.drives.present().count() + self.first.tolerates() >= members
    }

    /// A drive that ends before a cell that the table names was cut: it counts as missing.
    fn lose_short(&mut self) {
        let mut is_short = vec![false; self.drives.lanes()];
        for at in 0..self.table.units() {
            for place in self.table.get(at).places {
                if let (Some(lane), Some((_, cell))) = (self.drives.lane(place), place.cell()) {
                    is_short[lane] |= cell >= self.drives.cells(lane);
                }
            }
        }
        for lane in (0..is_short.len()).filter(|lane| is_short[*lane]) {
            self.lose(lane);
        }
    }

    /// The drives named by the newest record belong to the volume. A drive that it does not name
    /// replaces a missing one, or joins a growing array, if its number is higher than all of these;
    /// if its number is lower, it has been replaced. Returns whether there is such a new drive.
    fn adopt(&mut self, newest: &Record) -> bool {
        let (mut members, mut ssds) = (newest.drives, newest.ssds);
        let newer = members.iter().copied().max().unwrap_or(0);
        let present: Vec<usize> = self.drives.present().collect();
        let numbers: Vec<u8> = present.iter().map(|lane| self.drives.number(*lane)).collect();
        for (lane, number) in present.into_iter().zip(&numbers) {
            if newest.drives.contains(number) {
                continue;
            }
            let is_missing = |member: &&u8| **member > 0 && !numbers.contains(*member);
            let missing = members.iter().position(|member| is_missing(&member));
            let vacant = || members.iter().position(|member| *member == 0);
            let grows = self.care.grows;
            let place = missing.or_else(|| grows.and_then(|_| vacant()));
            let Some(place) = place.filter(|_| *number > newer) else {
                self.lose(lane);
                continue;
            };
            members[place] = *number;
            // A replacement drive is of the same kind.
            if let Some(DriveKind::Ssd) = grows.filter(|_| missing.is_none()) {
                ssds |= 1 << place;
            }
        }
        self.drives.have(members, ssds);
        members != newest.drives
    }

    /// What came before is served.
    pub(super) fn ready_now(&mut self, plan: &mut Plan<'_>) {
        self.phase = Phase::Ready;
        if !self.reads_only || self.care.scrubs {
            self.care.begin(plan.now);
        }
        for (client, request, bytes) in std::mem::take(&mut self.early) {
            self.serve(client, &request, bytes, plan);
            plan.release(client, Ok(()));
        }
    }
}

/// Returns the newest chain of records: its complete last round, and as many records as there are
/// pages.
fn chain(
    records: &BTreeMap<(u64, u64), (Record, Vec<u8>)>,
    geometry: &Geometry,
) -> Option<Vec<(u64, u64)>> {
    let mut newest: Vec<(u64, u64, u64)> = records
        .iter()
        .filter(|(_, (record, _))| record.sequence + 1 == record.round + record.count)
        .map(|(&(sequence, sum), (record, _))| (record.epoch, sequence, sum))
        .collect();
    newest.sort_unstable();
    for (_, sequence, sum) in newest.into_iter().rev() {
        let (last, _) = records.get(&(sequence, sum))?;
        let pages = geometry.grown(last.volume_units)?.pages();
        let first = (sequence + 1).saturating_sub(pages).min(last.round).max(last.base);
        let mut chain = vec![(sequence, sum)];
        let mut record = last;
        while record.sequence > first {
            let before = (record.sequence - 1, record.before);
            match records.get(&before) {
                Some((next, _)) => record = next,
                None => break,
            }
            chain.push(before);
        }
        if record.sequence == first {
            chain.reverse();
            return Some(chain);
        }
        if record.sequence <= last.round {
            return None;
        }
    }
    None
}
