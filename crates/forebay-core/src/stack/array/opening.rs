//! Opening: reads the table from the records, or creates it.
//!
//! The table is taken from the newest record whose round is complete and from which a chain of
//! checksums extends back over all pages of the table. An incomplete round was never acknowledged
//! and is ignored. If the chain breaks before all pages have been found, more is lost than
//! tolerated, and the volume stays closed; it is never treated as a new one.
//!
//! Rings are large, so records are read twice, and little of them is kept in memory. First, all
//! records are read from every drive, but only their heads are kept ([`heads`]). They determine
//! which chain counts. Then this chain is read from drives that have it, and is applied to the
//! table ([`walk`]).
//!
//! Reading only some of the heads would not be enough: drives that were absent may have received a
//! few records of a newer chain when they returned, far from those of the older chain that they
//! have in full.
//!
//! A record may exist on only one drive. The records of the last round are therefore rewritten,
//! byte for byte in place, on every present drive ([`rewriting`]). A record with a new epoch
//! confirms this before any request is served. It prevails if a drive that was missing has a newer
//! record.
//!
//! If an older record of the chain is on fewer drives than it should be, because a drive is new or
//! was absent, all pages of the table are recorded again while the volume is in use. Until that is
//! done, a drive without the whole chain cannot open the volume: the chain breaks before its last
//! round.

mod heads;
mod rewriting;
mod walk;

use std::collections::{BTreeMap, BTreeSet};

use super::{Array, DriveKind, KIND, OPENING, Phase, Record, Unit, geometry, nobodys};
use crate::contract::{Buf, Bytes, Fault, Lane, Op, Outcome};
use crate::stack::placed::{Plan, Planned};

use heads::Heads;
use walk::Walk;

/// The number of records that are read with one I/O.
const WINDOW: u64 = 128;

/// Maximum number of records in succession that a drive may fail to read. A drive that fails more
/// is failing; the others only have damaged sectors, and may still be needed to open the volume.
const UNREADABLE_MAX: u32 = WINDOW as u32 / 2;

/// The maximum number of failed reads of records that do not count as faults of a drive. Each
/// failed read may take seconds.
const EXCUSED_MAX: u32 = 1024;

/// How often all records are read again because a drive failed after the chain was chosen.
const REREADS_MAX: u32 = 3;

/// The state of an opening.
#[derive(Default)]
pub(super) struct Opening {
    /// The number of outstanding I/Os.
    left: u32,
    step: Step,
    heads: Heads,
    /// The sets of lanes, one bit each, that have records of the chain before its last round.
    spread: BTreeSet<u64>,
    /// How often all records were reread.
    rereads: u32,
    /// By lane: the number of failed reads of single records, consecutive and in total.
    unreadable: BTreeMap<Lane, (u32, u32)>,
    /// Records that are being rewritten: their positions and bytes.
    written: Vec<(u64, Buf)>,
    /// Records for which a drive had no space: the drive's lane and the position.
    refused: Vec<(usize, u64)>,
}

/// The current step.
#[derive(Default)]
enum Step {
    /// Reading the heads of all records.
    #[default]
    Heads,
    /// Reading the table from the chain.
    Walk(Box<Walk>),
    /// Writing the last round again.
    Rewrite,
}

/// The kind of a read, in its token.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// Part of a range of records that is read up to its end.
    Range = 0,
    /// A single record.
    Single = 1,
}

impl Array {
    /// Begins to read the table from records, or to create it.
    pub(super) fn open(&mut self, creates: bool, plan: &mut Plan<'_>) {
        self.phase = Phase::Opening(Box::default());
        if creates {
            (self.log.epoch, self.log.base) = (1, 1);
            return self.begin_round(plan);
        }
        if self.read_heads(plan).is_none() {
            self.give_up(Fault::Gone, plan);
        }
    }

    fn opening(&mut self) -> Option<&mut Opening> {
        match &mut self.phase {
            Phase::Opening(opening) => Some(opening),
            _ => None,
        }
    }

    /// Reads records from a drive, beginning at a position in the ring.
    fn read_ring(&mut self, lane: usize, from: u64, count: u64, of: Reading, plan: &mut Plan<'_>) {
        let record = u64::from(geometry::RECORD);
        let (at, len) = (geometry::ring_at() + from * record, (count * record) as u32);
        let buf = plan.slots.take(len);
        let token = OPENING << KIND | of as u64;
        plan.io(nobodys(lane, Op::Read, at, len, Bytes::of(buf), token));
        plan.slots.free(buf);
        if let Some(opening) = self.opening() {
            opening.left += 1;
        }
    }

    /// Reads all records from every drive.
    fn read_heads(&mut self, plan: &mut Plan<'_>) -> Option<()> {
        let opening = self.opening()?;
        opening.heads.clear();
        opening.step = Step::Heads;
        let ring = self.geometry.ring;
        for lane in self.drives.present().collect::<Vec<_>>() {
            self.read_ring(lane, 0, WINDOW.min(ring), Reading::Range, plan);
        }
        (self.opening()?.left > 0).then_some(())
    }

    /// Handles the end of an I/O of the opening.
    pub(super) fn opened(&mut self, io: &Planned, outcome: Outcome, plan: &mut Plan<'_>) {
        let Some(opening) = self.opening() else { return };
        opening.left -= 1;
        match io.op {
            Op::Read => self.ring_read(io, outcome, plan),
            // A drive that fails the write is no longer used.
            _ => match outcome {
                Err(Fault::Full) => opening.refused.push((io.lane.into(), io.offset)),
                Err(_) => drop(self.lose(io.lane.into())),
                Ok(()) => {}
            },
        }
        self.walk_on(plan);
        let Some(opening) = self.opening().filter(|opening| opening.left == 0) else { return };
        if !opening.refused.is_empty() {
            return self.await_room_to_open(plan);
        }
        if self.next_step(plan).is_none() {
            self.give_up(Fault::Gone, plan);
        }
    }

    /// Begins the next step after all I/Os of a step have ended. Returns `None` if the array cannot
    /// be opened.
    fn next_step(&mut self, plan: &mut Plan<'_>) -> Option<()> {
        let geometry = self.geometry;
        let present = self.drives.present_bits();
        let opening = self.opening()?;
        match std::mem::take(&mut opening.step) {
            Step::Heads => {
                let last = opening.heads.last(&geometry, present)?;
                opening.spread = opening.heads.spread(&last, last.first(&geometry)?);
                self.begin_walk(last, plan)
            }
            Step::Walk(walk) if walk.is_done() => self.settle(*walk, plan),
            // The drive with the only copy of some records has failed. Without these, an earlier
            // record may be the last one.
            Step::Walk(_) => {
                opening.rereads += 1;
                (opening.rereads <= REREADS_MAX).then_some(())?;
                self.read_heads(plan)
            }
            Step::Rewrite => {
                self.free_written_again(plan.slots);
                self.begin_round(plan);
                Some(())
            }
        }
    }

    /// Returns whether a failed read does not count as a fault of its drive, because other records
    /// near it could be read.
    pub(super) fn is_excused(&mut self, io: &Planned) -> bool {
        if io.token >> KIND != OPENING || io.op != Op::Read {
            return false;
        }
        let is_single = io.token & 1 == Reading::Single as u64;
        self.opening().is_some_and(|opening| {
            let (run, all) = opening.unreadable.entry(io.lane).or_default();
            *run += u32::from(is_single);
            *all += u32::from(is_single);
            *run <= UNREADABLE_MAX && *all <= EXCUSED_MAX
        })
    }

    /// Handles the end of a read of records.
    fn ring_read(&mut self, io: &Planned, outcome: Outcome, plan: &mut Plan<'_>) {
        let (record, lane) = (u64::from(geometry::RECORD), usize::from(io.lane));
        let (from, count) =
            ((io.offset - geometry::ring_at()) / record, u64::from(io.len) / record);
        let there = self.drives.present().any(|it| it == lane);
        if outcome.is_ok() {
            if let Some((run, _)) = self.opening().and_then(|it| it.unreadable.get_mut(&io.lane)) {
                *run = 0;
            }
            (0..count)
                .for_each(|at| self.record_read(io.bytes.on((at * record) as u32), lane, plan));
        }
        let splits = outcome.is_err() && count > 1 && there;
        if splits {
            // Read them one by one: an unreadable sector affects only one record.
            for at in from..from + count {
                self.read_ring(lane, at, 1, Reading::Single, plan);
            }
        }
        self.window_read(from, if splits { count as u32 } else { 0 });
        let is_range = io.token & 1 == Reading::Range as u64 && there;
        let ring = self.geometry.ring;
        let Some(opening) = self.opening().filter(|_| is_range) else { return };
        let next = from + count;
        if matches!(opening.step, Step::Heads) && next < ring {
            self.read_ring(lane, next, WINDOW.min(ring - next), Reading::Range, plan);
        }
    }

    /// Decodes the record at a position of a buffer, if there is one, and keeps the record or its
    /// head.
    fn record_read(&mut self, at: Bytes, lane: usize, plan: &mut Plan<'_>) {
        let mut bytes = vec![0; geometry::RECORD as usize];
        if !plan.slots.get(at.len(geometry::RECORD), &mut bytes) {
            return;
        }
        let Some(sum) = plan.slots.checksum(at.on(8).len(geometry::RECORD - 8)) else { return };
        let Some(record) = Record::decode(&bytes, sum, &self.geometry) else { return };
        match self.opening() {
            Some(Opening { step: Step::Walk(walk), .. }) => walk.add(record, sum, bytes),
            Some(opening) => opening.heads.add(&record, sum, lane),
            None => {}
        }
    }

    /// Adopts the state of a chain, whose units are in the table, and writes its last round again.
    fn settle(&mut self, walk: Walk, plan: &mut Plan<'_>) -> Option<()> {
        let newest = walk.newest.as_ref()?;
        self.adopt(newest);
        // Too few of the current members may remain if other drives have been replaced.
        let members = newest.drives.iter().filter(|number| **number > 0).count();
        self.has_enough(members).then_some(())?;
        self.geometry = self.geometry.grown(newest.volume_units)?;
        self.log.units = self.geometry.units;
        (self.log.sequence, self.log.sum, self.log.page) =
            (newest.sequence, walk.last.sum, newest.page);
        (self.log.epoch, self.log.base) = (newest.epoch + 1, newest.base);
        self.lose_short();
        self.has_enough(members).then_some(())?;
        for at in 0..self.table.units() {
            let unit = self.table.get(at);
            let Unit { level, places, .. } = unit;
            let roles = level.map_or(0, |level| level.roles(self.chunks()));
            (roles <= self.geometry.roles_max()).then_some(())?;
            self.hold(at, &Unit::EMPTY, &unit);
            // If two roles share a cell, the table is not valid.
            places.iter().all(|place| self.drives.mark(*place)).then_some(())?;
        }
        if self.reads_only {
            self.ready_now(plan);
            return Some(());
        }
        match self.lacks_records() {
            true => self.restore_records(),
            false => self.prepare_growth(),
        }
        self.rewrite(walk, plan)
    }

    /// Returns whether a record of the chain is on fewer of the present drives than it should be.
    fn lacks_records(&mut self) -> bool {
        let present = self.drives.present_bits();
        let wanted = (self.copies() as u32).min(present.count_ones());
        let lacks = |lanes: &u64| (lanes & present).count_ones() < wanted;
        self.opening().is_some_and(|opening| opening.spread.iter().any(lacks))
    }

    /// Returns whether enough of `members` drives are present, given how many may be missing.
    fn has_enough(&self, members: usize) -> bool {
        self.drives.present().count() + self.first.tolerates() >= members
    }

    /// Stops using drives that end before a cell named by the table, as if they were missing: they
    /// were truncated.
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

    /// Sets the members. The drives named by the newest record belong to the volume. A drive that
    /// the record does not name replaces a missing drive, or joins a growing array, if its number
    /// is higher than those of all drives in the record. If its number is lower, it has been
    /// replaced.
    fn adopt(&mut self, newest: &Record) {
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
            let may_join = self.joining.as_ref().is_none_or(|it| it.get(lane) == Some(&true));
            let Some(place) = place.filter(|_| *number > newer && may_join) else {
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
    }

    /// Ends the opening and serves the requests that have arrived.
    pub(super) fn ready_now(&mut self, plan: &mut Plan<'_>) {
        // A drive may have failed since its records were read.
        if !self.reads_only && !self.log.lacks && self.lacks_records() {
            self.restore_records();
        }
        self.phase = Phase::Ready;
        if !self.reads_only || self.care.scrubs {
            self.care.begin(plan.now);
        }
        self.retire_asked(plan.now);
        for (client, request, bytes) in std::mem::take(&mut self.early) {
            self.serve(client, &request, bytes, plan);
            plan.release(client, Ok(()));
        }
    }
}
