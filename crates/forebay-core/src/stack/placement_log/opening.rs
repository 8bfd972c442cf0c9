//! Opening of the log: the label is read, then the numbers of all records, then the records that
//! form the table. A blank flash may be initialized instead. Nothing is written before it is
//! certain that the flash belongs to this log.
//!
//! docs/placement-log.md lists what is refused, and with which fault. A record that cannot be read,
//! or is damaged, is an error if it is one of the last, or in the position of the next one, because
//! it might have been newer.

use super::format::{self, LABELS, Labelled, RECORD, RingContent};
use super::{Event, Name, OPEN, Phase, PlacementLog};
use crate::contract::{Bytes, Fault, Flags, Op, Outcome};
use crate::stack::placed::{Plan, Planned};

/// The number of records that are read at a time.
const READ_RECORDS: u64 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    ReadsLabels,
    Scans,
    Replays,
    Flushes,
    Wipes,
    WritesLabels,
    WritesRecord,
}

/// The progress of opening.
#[derive(Clone, Debug)]
pub(super) struct Opening {
    step: Step,
    /// Whether there is a label, and whether the flash has been used before.
    is_labelled: bool,
    is_begun: bool,
    found: Vec<RingContent>,
    /// Up to this record, records are read one at a time, because one of them cannot be read.
    narrow_until: u64,
    /// The next record to apply, and the newest one.
    next: u64,
    newest: u64,
}

impl PlacementLog {
    /// Starts to read or create the table, unless that has been done or is in progress.
    pub(crate) fn open(&mut self, plan: &mut Plan<'_>) {
        if !matches!(self.phase, Phase::Closed) {
            return;
        }
        self.phase = Phase::Opening(Box::new(Opening {
            step: Step::ReadsLabels,
            is_labelled: false,
            is_begun: false,
            found: Vec::new(),
            narrow_until: 0,
            next: 0,
            newest: 0,
        }));
        self.read(0, LABELS, plan);
    }

    fn opening(&mut self) -> Option<&mut Opening> {
        match &mut self.phase {
            Phase::Opening(opening) => Some(opening),
            _ => None,
        }
    }

    fn read(&mut self, at: u64, len: u32, plan: &mut Plan<'_>) {
        let buf = plan.slots.take(len);
        plan.io(self.io(Op::Read, OPEN, at, len, Bytes::of(buf)));
        plan.slots.free(buf);
    }

    /// Handles the completion of an I/O of the opening.
    pub(super) fn opened(&mut self, io: &Planned, outcome: Outcome, plan: &mut Plan<'_>) -> Event {
        let Some(step) = self.opening().map(|opening| opening.step) else { return Event::None };
        let went = match (step, outcome) {
            (Step::Scans, _) => self.scanned(io, outcome, plan),
            (_, Err(fault)) => Err(fault),
            (Step::ReadsLabels, _) => self.read_labels(io, plan),
            (Step::Replays, _) => self.replayed(io, plan),
            (Step::Wipes, _) => {
                self.wipe(plan);
                Ok(())
            }
            (Step::WritesLabels, _) => {
                self.write_first(plan);
                Ok(())
            }
            (Step::WritesRecord, _) => {
                self.sequence = 1;
                return self.is_there();
            }
            (Step::Flushes, _) => return self.is_there(),
        };
        match went {
            Ok(()) => Event::None,
            Err(fault) => {
                // Another attempt is allowed, because nothing was written, or the initialization
                // was not finished.
                self.phase = Phase::Closed;
                Event::Opened(Err(fault))
            }
        }
    }

    fn is_there(&mut self) -> Event {
        self.phase = Phase::Open;
        self.named = self.table.iter().filter(|name| **name != Name::NONE).count() as u64;
        Event::Opened(Ok(()))
    }

    fn go_to(&mut self, step: Step) {
        if let Some(opening) = self.opening() {
            opening.step = step;
        }
    }

    fn read_labels(&mut self, io: &Planned, plan: &mut Plan<'_>) -> Outcome {
        let (is_labelled, is_begun) = match format::labelled(io.bytes, plan.slots) {
            Labelled::As { binding, is_begun } if self.binding.fits(&binding) => (true, is_begun),
            Labelled::Blank if self.formats => (false, false),
            _ => return Err(Fault::Refused),
        };
        let ring = self.binding.ring();
        if let Some(opening) = self.opening() {
            (opening.is_labelled, opening.is_begun) = (is_labelled, is_begun);
            opening.step = Step::Scans;
            opening.found = Vec::with_capacity(ring as usize);
        }
        self.scan(plan);
        Ok(())
    }

    /// Reads the next records.
    fn scan(&mut self, plan: &mut Plan<'_>) {
        let ring = self.binding.ring();
        let Some(opening) = self.opening() else { return };
        let slot = opening.found.len() as u64;
        let count = if slot < opening.narrow_until { 1 } else { READ_RECORDS.min(ring - slot) };
        let at = self.binding.record_at(slot);
        self.read(at, count as u32 * RECORD, plan);
    }

    /// Handles records that were read during the scan.
    fn scanned(&mut self, io: &Planned, outcome: Outcome, plan: &mut Plan<'_>) -> Outcome {
        let (binding, ring) = (self.binding, self.binding.ring());
        let Some(opening) = self.opening() else { return Ok(()) };
        let first = opening.found.len() as u64;
        match outcome {
            Err(Fault::Media) if io.len > RECORD => {
                opening.narrow_until = first + u64::from(io.len / RECORD);
            }
            Err(Fault::Media) => opening.found.push(RingContent::Unreadable),
            Err(fault) => return Err(fault),
            Ok(()) => {
                for step in 0..io.len / RECORD {
                    let (slot, from) = (first + u64::from(step), io.bytes.on(step * RECORD));
                    opening.found.push(format::found(&binding, slot, from, plan.slots));
                }
            }
        }
        if (opening.found.len() as u64) < ring {
            self.scan(plan);
            return Ok(());
        }
        self.settle(plan)
    }

    /// Evaluates the scan: finds the newest record and checks that no other is missing.
    fn settle(&mut self, plan: &mut Plan<'_>) -> Outcome {
        let (binding, ring) = (self.binding, self.binding.ring());
        let (least, is_forced) = (self.least, self.is_forced);
        let Some(opening) = self.opening() else { return Ok(()) };
        let found = &opening.found;
        let numbers = found.iter().filter_map(|found| match found {
            RingContent::Record(number) => Some(*number),
            _ => None,
        });
        let Some(newest) = numbers.max() else { return self.begin_log(plan) };
        if !opening.is_labelled {
            return Err(Fault::Refused);
        }
        let at = |number: u64| found[(number % ring) as usize];
        let first = (newest + 1).saturating_sub(binding.pages()).max(1);
        let is_whole = (first..=newest).all(|number| at(number) == RingContent::Record(number));
        let is_newest = is_unfinished(at(newest + 1), newest + 1, ring)
            && !found.iter().any(|found| is_beyond(*found, newest + 1));
        if !is_whole || !is_newest && !is_forced || newest < least {
            return Err(Fault::Media);
        }
        (opening.step, opening.next, opening.newest) = (Step::Replays, first, newest);
        self.table.fill(Name::NONE);
        self.replay(plan);
        Ok(())
    }

    /// Handles a ring without an intact record: initializes the log if that is requested and
    /// nothing can be lost.
    fn begin_log(&mut self, plan: &mut Plan<'_>) -> Outcome {
        let formats = self.formats;
        let Some(opening) = self.opening() else { return Ok(()) };
        let (is_labelled, is_begun) = (opening.is_labelled, opening.is_begun);
        let may_be_begun = |found: &RingContent| match found {
            RingContent::Blank => true,
            // Without a label, unrecognized contents are not a damaged record.
            RingContent::Damaged => !is_labelled,
            // The first record of an interrupted initialization, which was preceded by the label.
            RingContent::Torn { newest, .. } => is_labelled && *newest <= 1,
            RingContent::Unreadable | RingContent::Foreign | RingContent::Record(_) => false,
        };
        // A label without records is an unfinished initialization. If the flash was used before, or
        // must not be initialized, it is damage. After a kill, that label need not be durable.
        if formats && !is_begun && opening.found.iter().all(may_be_begun) {
            opening.step = Step::Wipes;
            self.wipe(plan);
            return Ok(());
        }
        match is_labelled {
            false => Err(Fault::Refused),
            true => Err(Fault::Media),
        }
    }

    /// Writes zeros to the ring, so that a damaged record can be recognized later; then writes the
    /// labels.
    fn wipe(&mut self, plan: &mut Plan<'_>) {
        let binding = self.binding;
        let Some(opening) = self.opening() else { return };
        let is_used = |found: &RingContent| *found != RingContent::Blank;
        let Some(from) = opening.found.iter().position(is_used) else {
            return self.write_labels(plan);
        };
        let used = opening.found[from..].iter().take(READ_RECORDS as usize);
        let count = used.take_while(|found| is_used(found)).count();
        opening.found[from..from + count].fill(RingContent::Blank);
        let len = count as u32 * RECORD;
        let buf = plan.slots.take(len);
        plan.slots.zero(Bytes::of(buf).len(len));
        let io = self.io(Op::Write, OPEN, binding.record_at(from as u64), len, Bytes::of(buf));
        plan.io(Planned { flags: Flags::FUA, ..io });
        plan.slots.free(buf);
    }

    /// Reads the next records of the table.
    fn replay(&mut self, plan: &mut Plan<'_>) {
        let (binding, ring) = (self.binding, self.binding.ring());
        let Some(&mut Opening { next, newest, .. }) = self.opening() else { return };
        let count = READ_RECORDS.min(newest + 1 - next).min(ring - next % ring);
        self.read(binding.record_at(next), count as u32 * RECORD, plan);
    }

    fn replayed(&mut self, io: &Planned, plan: &mut Plan<'_>) -> Outcome {
        let binding = self.binding;
        let Some(&mut Opening { mut next, newest, .. }) = self.opening() else { return Ok(()) };
        for step in 0..io.len / RECORD {
            let from = io.bytes.on(step * RECORD);
            let found = format::found(&binding, next % binding.ring(), from, plan.slots);
            if found != RingContent::Record(next) {
                return Err(Fault::Media);
            }
            format::take_record(&binding, next, from, &mut self.table, plan.slots)
                .ok_or(Fault::Media)?;
            next += 1;
        }
        if let Some(opening) = self.opening() {
            opening.next = next;
        }
        if next <= newest {
            self.replay(plan);
            return Ok(());
        }
        if !self.is_sane() {
            return Err(Fault::Media);
        }
        self.sequence = newest;
        // After a kill, the records that were read may not be durable yet.
        self.go_to(Step::Flushes);
        plan.io(self.io(Op::Flush, OPEN, 0, 0, Bytes::NONE));
        Ok(())
    }

    /// Returns whether all blocks in the table exist and none occurs twice.
    fn is_sane(&self) -> bool {
        let format::Binding { disks, disk_bytes, place_bytes, part_bits, .. } = self.binding;
        let is_there = |name: &Name| {
            let end = (name.block(part_bits) + 1).checked_mul(place_bytes);
            let fits = end.is_some_and(|end| disk_bytes == 0 || end <= disk_bytes);
            fits && name.disk() < disks
        };
        let named = self.table.iter().copied().filter(|name| *name != Name::NONE);
        let mut names: Vec<Name> = named.collect();
        names.sort_unstable();
        let block = |name: Name| (name.disk(), name.block(part_bits));
        names.iter().all(is_there) && names.windows(2).all(|two| block(two[0]) != block(two[1]))
    }

    fn write_labels(&mut self, plan: &mut Plan<'_>) {
        self.go_to(Step::WritesLabels);
        let buf = plan.slots.take(LABELS);
        format::put_labels(&self.binding, Bytes::of(buf), plan.slots);
        let io = self.io(Op::Write, OPEN, 0, LABELS, Bytes::of(buf));
        plan.io(Planned { flags: Flags::FUA, ..io });
        plan.slots.free(buf);
    }

    /// Writes the first record, with an empty table.
    fn write_first(&mut self, plan: &mut Plan<'_>) {
        self.go_to(Step::WritesRecord);
        self.table.fill(Name::NONE);
        let buf = plan.slots.take(RECORD);
        format::put_record(&self.binding, 1, &[], &self.table, Bytes::of(buf), plan.slots);
        let io = self.io(Op::Write, OPEN, self.binding.record_at(1), RECORD, Bytes::of(buf));
        plan.io(Planned { flags: Flags::FUA, ..io });
        plan.slots.free(buf);
    }
}

/// Returns whether the contents in the position of the record `next` may have been left by a power
/// cut while that record was being written. In this case no client was told that the record is
/// durable.
fn is_unfinished(found: RingContent, next: u64, ring: u64) -> bool {
    let before = next.checked_sub(ring).filter(|number| *number > 0);
    match found {
        RingContent::Blank => before.is_none(),
        RingContent::Record(number) => Some(number) == before,
        RingContent::Torn { oldest, newest, has_blank } => {
            let is_old = Some(oldest) == before && !has_blank;
            let is_new = oldest == next && (before.is_none() || !has_blank);
            newest == next && (is_old || is_new)
        }
        RingContent::Unreadable | RingContent::Damaged | RingContent::Foreign => false,
    }
}

/// Returns whether part of a record after `next` was found, which means that `next` was once
/// durable.
fn is_beyond(found: RingContent, next: u64) -> bool {
    matches!(found, RingContent::Torn { newest, .. } if newest > next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_contents_left_by_a_power_cut_are_an_unfinished_record() {
        const RING: u64 = 18;
        let torn = |oldest, newest, has_blank| RingContent::Torn { oldest, newest, has_blank };
        let first = |found| is_unfinished(found, 5, RING);
        assert!([RingContent::Blank, torn(5, 5, true), torn(5, 5, false)].into_iter().all(first));
        let later = |found| is_unfinished(found, 5 + RING, RING);
        let next = 5 + RING;
        let left = [RingContent::Record(5), torn(5, next, false), torn(next, next, false)];
        assert!(left.into_iter().all(later));
        let lost = [
            RingContent::Damaged,
            RingContent::Unreadable,
            RingContent::Foreign,
            torn(5, 6, false),
        ];
        assert!(!lost.into_iter().any(|found| first(found) || later(found)));
        // In the place of a record are zeros, or a record that a later one had replaced.
        let lost = [RingContent::Blank, torn(5, next, true), torn(5, 5, false), torn(5, 5, true)];
        assert!(!lost.into_iter().any(later));
        assert!(!is_unfinished(RingContent::Record(5), 5 + 2 * RING, RING));
        assert!(is_beyond(torn(1, 7, true), 6) && !is_beyond(torn(1, 6, true), 6));
    }
}
