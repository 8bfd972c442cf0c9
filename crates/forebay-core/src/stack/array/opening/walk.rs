//! Reads the table from a chain of records, from the newest record back to the first one.
//!
//! Only the newest state of each unit counts, so a unit that a newer record has named is skipped.
//! Records are read in windows, a few of them ahead. A window is first read from enough drives that
//! together they should have all records, and from others if some are missing.

use std::collections::{BTreeMap, VecDeque};

use super::super::record::Record;
use super::super::table::Table;
use super::super::{Array, Geometry, Phase, geometry};
use super::heads::Head;
use super::{Reading, Step, WINDOW};
use crate::stack::placed::Plan;

/// Maximum number of reads of windows at a time.
const READS: usize = 16;

/// A record and its bytes.
struct Found {
    record: Record,
    bytes: Vec<u8>,
}

/// Records of the chain that are read together.
struct Window {
    from: u64,
    /// The last record.
    to: u64,
    /// Lanes that the window was not read from, one bit each.
    untried: u64,
    /// The number of outstanding reads.
    left: u32,
    found: BTreeMap<(u64, u64), Found>,
}

/// The state of the walk.
pub(super) struct Walk {
    pub(super) last: Head,
    first: u64,
    /// The number and checksum of the next record to apply.
    need: (u64, u64),
    windows: VecDeque<Window>,
    /// Whether a record is on no drive.
    is_broken: bool,
    pub(super) newest: Option<Record>,
    /// Units whose newest state is known, one bit each.
    known: Vec<u64>,
    /// The number of records that were applied.
    applied: u64,
    /// The bytes of the records of the last round, newest first.
    pub(super) round: Vec<Vec<u8>>,
}

impl Walk {
    /// Creates a walk that begins with the last record of a chain.
    pub(super) fn new(last: Head, geometry: &Geometry) -> Option<Walk> {
        let units = geometry.grown(last.volume_units)?.units;
        Some(Walk {
            last,
            first: last.first(geometry)?,
            need: (last.sequence, last.sum),
            windows: VecDeque::new(),
            is_broken: false,
            newest: None,
            known: vec![0; units.div_ceil(64) as usize],
            applied: 0,
            round: Vec::new(),
        })
    }

    pub(super) fn is_done(&self) -> bool {
        self.applied > self.last.sequence - self.first
    }

    /// Returns the window that contains a position in the ring.
    fn window_at(&mut self, place: u64, ring: u64) -> Option<&mut Window> {
        self.windows.iter_mut().find(|it| (it.from % ring..=it.to % ring).contains(&place))
    }

    /// Keeps a record that was read if it may belong to the chain.
    pub(super) fn add(&mut self, record: Record, sum: u64, bytes: Vec<u8>) {
        let at = record.sequence;
        if let Some(window) = self.windows.iter_mut().find(|it| (it.from..=it.to).contains(&at)) {
            window.found.entry((at, sum)).or_insert(Found { record, bytes });
        }
    }

    /// Returns the first and the last record of the next window.
    fn next_window(&self, ring: u64) -> Option<(u64, u64)> {
        let newer = self.windows.back().map_or(self.need.0 + 1, |window| window.from);
        let to = newer.checked_sub(1).filter(|to| *to >= self.first)?;
        // A window does not extend beyond the beginning of the ring.
        let from = (to + 1).saturating_sub(WINDOW).max(self.first).max(to - to % ring);
        Some((from, to))
    }

    /// Applies the records of the newest window in order, until one is missing. Returns whether all
    /// were applied.
    fn apply(&mut self, table: &mut Table) -> bool {
        let Some(from) = self.windows.front().map(|window| window.from) else { return false };
        while self.need.0 >= from && !self.is_done() {
            let Some(window) = self.windows.front_mut() else { return false };
            let Some(found) = window.found.remove(&self.need) else { return false };
            self.take_over(found, table);
        }
        true
    }

    fn take_over(&mut self, found: Found, table: &mut Table) {
        let Found { record, bytes } = found;
        let mut is_new = |unit: u64| {
            let Some(word) = self.known.get_mut((unit / 64) as usize) else { return false };
            let was_known = *word >> (unit % 64) & 1 == 1;
            *word |= 1 << (unit % 64);
            !was_known
        };
        // A page contains the state after the round of its record.
        let page = &bytes[(geometry::RECORD - geometry::PAGE) as usize..];
        table.read_page(record.page, page, &mut is_new);
        for (at, unit) in record.units.iter().rev().filter(|(at, _)| is_new(*at)) {
            table.set(*at, unit);
        }
        self.applied += 1;
        self.need = (record.sequence.saturating_sub(1), record.before);
        if record.sequence >= self.last.round {
            self.round.push(bytes);
        }
        self.newest.get_or_insert(record);
    }
}

impl Array {
    /// Begins to read the table from a chain.
    pub(super) fn begin_walk(&mut self, last: Head, plan: &mut Plan<'_>) -> Option<()> {
        let walk = Walk::new(last, &self.geometry)?;
        self.table = Table::new(&self.geometry);
        self.table.grow(self.geometry.grown(last.volume_units)?.units);
        let opening = self.opening()?;
        opening.heads.clear();
        opening.step = Step::Walk(Box::new(walk));
        self.walk_on(plan);
        (self.opening()?.left > 0).then_some(())
    }

    fn walk(&mut self) -> Option<&mut Walk> {
        match &mut self.opening()?.step {
            Step::Walk(walk) => Some(walk),
            _ => None,
        }
    }

    /// Records that a read of a window has ended and `more` reads have begun instead.
    pub(super) fn window_read(&mut self, place: u64, more: u32) {
        let ring = self.geometry.ring.max(1);
        if let Some(window) = self.walk().and_then(|walk| walk.window_at(place, ring)) {
            window.left = window.left + more - 1;
        }
    }

    /// Applies the records that were read, and reads more.
    pub(super) fn walk_on(&mut self, plan: &mut Plan<'_>) {
        loop {
            let Phase::Opening(opening) = &mut self.phase else { return };
            let Step::Walk(walk) = &mut opening.step else { return };
            if walk.is_broken || walk.is_done() {
                return;
            }
            if walk.apply(&mut self.table) {
                walk.windows.pop_front();
                continue;
            }
            if walk.windows.front().is_some_and(|window| window.left == 0) {
                self.read_elsewhere(plan);
            } else if !self.read_next_window(plan) {
                return;
            }
        }
    }

    /// Reads the next window, unless enough reads are outstanding. Returns whether it reads.
    fn read_next_window(&mut self, plan: &mut Plan<'_>) -> bool {
        let (ring, copies) = (self.geometry.ring.max(1), self.copies());
        let lanes: Vec<usize> = self.drives.present().collect();
        let (reads, present) = (lanes.len().div_ceil(copies), self.drives.present_bits());
        let Some(walk) = self.walk() else { return false };
        let is_busy = walk.windows.len() >= (READS / reads.max(1)).max(2);
        let Some((from, to)) = walk.next_window(ring).filter(|_| !is_busy && reads > 0) else {
            return false;
        };
        let turn = (to / WINDOW) as usize;
        let of: Vec<usize> =
            (0..reads).map(|nth| lanes[(turn + nth * copies) % lanes.len()]).collect();
        let tried = of.iter().fold(0_u64, |tried, lane| tried | 1 << lane);
        let untried = present & !tried;
        let left = of.len() as u32;
        walk.windows.push_back(Window { from, to, untried, left, found: BTreeMap::new() });
        let count = to + 1 - from;
        of.iter().for_each(|lane| self.read_ring(*lane, from % ring, count, Reading::Range, plan));
        true
    }

    /// Reads the newest window from another drive, because a record was missing.
    fn read_elsewhere(&mut self, plan: &mut Plan<'_>) {
        let ring = self.geometry.ring.max(1);
        let Some(walk) = self.walk() else { return };
        let Some(window) = walk.windows.front_mut().filter(|window| window.untried != 0) else {
            walk.is_broken = true;
            return;
        };
        let lane = window.untried.trailing_zeros() as usize;
        window.untried &= !(1 << lane);
        window.left += 1;
        let (from, count) = (window.from % ring, window.to + 1 - window.from);
        self.read_ring(lane, from, count, Reading::Range, plan);
    }
}
