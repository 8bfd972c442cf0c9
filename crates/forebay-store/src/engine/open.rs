//! Opens a store: determines what the disks contain.
//!
//! Everything is flushed before it is read, because after a process was killed, the system may
//! return bytes that are not on the disk yet. Roots list the segments; some segments may be listed
//! in only one of their two roots. The logs that are not in segments are read next.
//!
//! Data that cannot be read because a disk is missing or damaged is part of the state: reads of
//! keys that it may affect fail, and all others succeed. If too many roots are missing to determine
//! the content, all reads fail and nothing is written until a repair gives up the missing content.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::OperationError;
use crate::filter::Filter;
use crate::frame::{BLOCK, Frame, FrameKind};
use crate::root::{Change, Root};
use crate::segment::{self, Described, Node};

use super::{Copy, Engine, Partial, Segment, State, Version};

/// A segment as listed in roots.
struct ListedSegment {
    described: Described,
    disk: usize,
    /// Whether the root on the segment's own disk lists it.
    by_own: bool,
    copy: Option<Copy>,
    /// Other disks whose roots list it: several if the copy was recreated while a disk was missing.
    others: Vec<usize>,
}

impl State {
    /// Ensures that the numbers of a segment that was found are not reused.
    fn has_seen(&mut self, described: &Described) {
        self.next_segment = self.next_segment.max(described.id.saturating_add(1));
        self.next_log = self.next_log.max(described.ages.1.saturating_add(1));
        self.sequence = self.sequence.max(described.shape.sequence_max.saturating_add(1));
    }
}

/// An upper bound on how many numbers a disk may have used for operations that were never
/// acknowledged and that no other disk has recorded.
const UNKNOWN: u64 = 1 << 20;

impl State {
    /// Skips all numbers that a missing disk may have used, because that disk may reappear.
    fn leave_out(&mut self) {
        self.next_log += UNKNOWN;
        self.next_segment += UNKNOWN;
        self.sequence += UNKNOWN << 12;
    }
}

impl Engine {
    /// Restores the state from the disks.
    pub(super) async fn open(self: &Rc<Self>) -> Result<(), OperationError> {
        for disk in self.present() {
            if !self.config.read_only {
                self.flush(disk).await?;
            }
            self.find_labels(disk).await?;
            let (root, is_whole) = self.find_root(disk).await?;
            let mut state = self.state.borrow_mut();
            state.roots[disk] = root;
            if !is_whole {
                state.broken_roots.insert(disk);
            }
        }
        self.lose_roots();
        self.open_segments().await;
        self.lose_logs();
        self.open_logs().await?;
        {
            let mut state = self.state.borrow_mut();
            state.seen_upto = state.sequence;
        }
        if !self.holds_still() {
            self.go_on().await?;
        }
        Ok(())
    }

    /// Begins to accept puts, and starts the background tasks.
    pub(super) async fn go_on(self: &Rc<Self>) -> Result<(), OperationError> {
        self.mend_labels().await?;
        self.keep_lost().await;
        self.copy_all().await;
        // If this fails, the damage is still reported until the next opening.
        let _ = self.mend_roots().await;
        if self.present().count() < self.disks.len() {
            self.state.borrow_mut().leave_out();
        }
        let is_new = self.state.borrow().version.runs.is_empty();
        self.state.borrow_mut().is_dead_known = is_new;
        self.is_open.set(true);
        self.executor.spawn(Rc::clone(self).ingest());
        let logs = self.state.borrow().logs.clone();
        let is_whole = |log: &Rc<super::log::Log>| !self.state.borrow().lost_logs.contains(&log.id);
        logs.into_iter().filter(is_whole).for_each(|log| self.begin_transformation(log));
        if self.config.merges {
            self.executor.spawn(Rc::clone(self).merge_on());
        }
        Ok(())
    }

    /// Returns the disks that are present.
    pub(super) fn present(&self) -> impl Iterator<Item = usize> + use<> {
        let is_there = |(at, disk): (usize, &super::Disk)| disk.lane.map(|_| at);
        let present: Vec<usize> = self.disks.iter().enumerate().filter_map(is_there).collect();
        present.into_iter()
    }

    /// Returns the newer of a disk's two roots, and whether it is complete. It is incomplete if
    /// another frame follows the damaged one, and may be incomplete if a block is unreadable.
    async fn find_root(&self, disk: usize) -> Result<(Root, bool), OperationError> {
        let layout = self.disks[disk].layout;
        let mut areas = [self.read_chain(disk, 0).await?, self.read_chain(disk, 1).await?];
        for (area, bytes) in (0..).zip(&mut areas) {
            // The end of a damaged first frame is unknown, and it may be long.
            if Root::parse(&bytes.bytes, self.store).is_none() {
                self.read_on_around(bytes, disk, layout.root_at(area), layout.root_bytes).await?;
            }
        }
        let roots = areas.iter().filter_map(|area| Root::parse(&area.bytes, self.store));
        let mut found = roots.max_by_key(|root| root.chain).unwrap_or_default();
        let last = |areas: &[Partial; 2]| {
            areas.iter().filter_map(|area| Root::last(&area.bytes, self.store)).max()
        };
        let next = |area: u64| if area == found.area() { found.len } else { 0 };
        let is_readable = (0..)
            .zip(&areas)
            .all(|(area, bytes)| !bytes.lacks(&(next(area)..next(area) + BLOCK as u64)));
        let is_last = found.chain > 0 && last(&areas) == Some((found.chain, found.frames - 1));
        let is_whole = is_last && is_readable;
        // A damaged chain may have a greater number than the valid one.
        let chain = last(&areas).map_or(found.chain, |(chain, _)| chain);
        found.end_behind(chain, layout.root_bytes);
        Ok((found, is_whole))
    }

    /// Reads the frames at the start of an area, and up to a step beyond them.
    async fn read_chain(&self, disk: usize, area: u64) -> Result<Partial, OperationError> {
        let (layout, block) = (self.disks[disk].layout, BLOCK as u64);
        let (begin, mut found, mut end) = (layout.root_at(area), Partial::default(), block);
        loop {
            let done = found.bytes.len() as u64;
            if end > done {
                // Read ahead, because more will be needed.
                let upto = end.max(done + self.config.step_bytes as u64).min(layout.root_bytes);
                self.read_on_around(&mut found, disk, begin, upto).await?;
            }
            let from = (end - block) as usize;
            let len = Frame::len(&found.bytes[from..], FrameKind::Root, self.store);
            let Some(len) = len.filter(|len| *len <= layout.root_bytes - from as u64) else {
                // Newer frames may follow damaged ones.
                let upto = found.bytes.len() as u64 + self.config.step_bytes as u64;
                let upto = upto.min(layout.root_bytes);
                self.read_on_around(&mut found, disk, begin, upto).await?;
                return Ok(found);
            };
            // The next read extends to the header of the next frame.
            end = from as u64 + len.next_multiple_of(block) + block;
            if end > layout.root_bytes {
                self.read_on_around(&mut found, disk, begin, layout.root_bytes).await?;
                return Ok(found);
            }
        }
    }

    /// Opens segments in the order of publication; each one takes its keys from earlier ones.
    async fn open_segments(&self) {
        let mut said = self.said();
        self.claim_all(&mut said);
        let (mut version, mut gone) = (Version::default(), Vec::new());
        let mut half = BTreeSet::new();
        self.forget_others(&said).await;
        for said in said.into_values() {
            self.state.borrow_mut().has_seen(&said.described);
            if !said.by_own {
                half.insert(said.described.id);
            }
            let segment = self.open_segment(said).await;
            let (next, without) = version.with(Rc::new(segment));
            version = next;
            gone.extend(without);
        }
        self.state.borrow_mut().version = Rc::new(version);
        if self.holds_still() {
            return gone.iter().for_each(|segment: &Rc<Segment>| segment.keep());
        }
        self.forget(gone).await;
        self.say_again(&half).await;
    }

    /// Creates missing copies of filters again. All occupied space must be known by now.
    async fn copy_all(&self) {
        let version = Rc::clone(&self.state.borrow().version);
        let is_bare = |segment: &&Rc<Segment>| segment.copy().is_none() && segment.lost.is_none();
        for segment in version.segments().filter(is_bare) {
            // A segment that appears as two parts may already have a copy. If creating the copy
            // fails, the segment has none until the next opening.
            if segment.copy().is_none() {
                let _ = self.copy(segment).await;
            }
        }
        self.forget_stale(&version).await;
    }

    /// Removes the entries of copies whose space has been reused from the roots, once new copies
    /// exist.
    async fn forget_stale(&self, version: &Version) {
        let stale = std::mem::take(&mut self.state.borrow_mut().stale_copies);
        for (disk, id) in stale {
            let is_it = |segment: &&Rc<Segment>| segment.described.id == id;
            let copy = version.segments().find(is_it).and_then(|segment| segment.copy());
            if copy.is_some_and(|copy| copy.disk != disk) {
                // If this fails, the entry is found again at the next opening.
                let change = Change { removed: vec![id], ..Change::default() };
                let _ = self.change_root(disk, change).await;
            }
        }
    }

    /// Adds segments that only another disk's root lists to the root of their own disk.
    async fn say_again(&self, half: &BTreeSet<u64>) {
        let version = Rc::clone(&self.state.borrow().version);
        for segment in version.segments().filter(|segment| half.contains(&segment.described.id)) {
            let change = Change { added: vec![segment.entry()], ..Change::default() };
            // If this fails, the other root still lists the segments.
            let _ = self.change_root(segment.disk, change).await;
        }
    }

    /// Removes redundant copies of filters.
    async fn forget_others(&self, said: &BTreeMap<u64, ListedSegment>) {
        let mut removed: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        for (id, said) in said.iter().filter(|_| !self.holds_still()) {
            said.others.iter().for_each(|disk| removed.entry(*disk).or_default().push(*id));
        }
        for (disk, removed) in removed {
            // If this fails, the copy remains listed.
            let _ = self.change_root(disk, Change { removed, ..Change::default() }).await;
        }
    }

    /// Returns all segments listed in roots, by number.
    fn said(&self) -> BTreeMap<u64, ListedSegment> {
        let roots = self.state.borrow().roots.clone();
        let mut all: BTreeMap<u64, ListedSegment> = BTreeMap::new();
        for (at, root) in roots.into_iter().enumerate() {
            for entry in root.segments {
                let (disk, (offset, len)) = (usize::from(entry.disk), entry.copy);
                if disk >= self.disks.len() {
                    continue;
                }
                let described = entry.described;
                let new = ListedSegment {
                    described,
                    disk,
                    by_own: false,
                    copy: None,
                    others: Vec::new(),
                };
                let said = all.entry(new.described.id).or_insert(new);
                if disk == at {
                    said.by_own = true;
                } else if let Some(other) = said.copy.replace(Copy { disk: at, offset, len }) {
                    said.others.push(other.disk);
                }
            }
        }
        all
    }

    /// Reserves the space of all segments and copies. If two segments overlap, the later one owns
    /// the space: the earlier one was removed before its space was reused, but its removal is
    /// missing from the roots because a root is damaged or its disk was missing.
    fn claim_all(&self, said: &mut BTreeMap<u64, ListedSegment>) {
        let claim =
            |disk: usize, offset, len| self.disks[disk].space.borrow_mut().claim(offset, len);
        let mut replaced = Vec::new();
        for (id, ListedSegment { described, disk, .. }) in said.iter().rev() {
            if !claim(*disk, described.offset, described.len) && self.lane(*disk).is_ok() {
                replaced.push(*id);
            }
        }
        replaced.iter().for_each(|id| drop(said.remove(id)));
        // If a root lacks its last changes, the space of a copy may have been reused. The later of
        // two overlapping copies owns it.
        let stale = &mut self.state.borrow_mut().stale_copies;
        for (id, said) in said.iter_mut().rev() {
            let copy = said.copy;
            said.copy = copy.filter(|copy| claim(copy.disk, copy.offset, copy.len));
            let lost = copy.filter(|_| said.copy.is_none());
            stale.extend(lost.map(|copy| (copy.disk, *id)));
        }
    }

    /// Opens a segment, or records what is known about an unreadable one.
    async fn open_segment(&self, said: ListedSegment) -> Segment {
        let ListedSegment { described, disk, copy, .. } = said;
        let found = self.read_segment(&described, disk).await;
        let space = &self.disks[disk].space;
        let segment = match found {
            Ok(found) => Segment::new(described, disk, found, space),
            Err(failure) => {
                let filter = match copy {
                    Some(copy) => self.read_copy(described.id, copy).await,
                    None => Filter::all(),
                };
                Segment::new(described, disk, (filter, None), space).lost(failure)
            }
        };
        if let Some(copy) = copy {
            segment.has_copy(copy, &self.disks[copy.disk].space);
        }
        segment
    }

    /// Reads the filter and the top node of a segment.
    async fn read_segment(
        &self,
        described: &Described,
        disk: usize,
    ) -> Result<(Filter, Option<Node>), OperationError> {
        let (shape, id) = (described.shape, described.id);
        let damaged = |at: u64| OperationError::Damaged { disk, offset: described.offset + at };
        let read = |at: u64, len: u32| self.read_bytes(disk, described.offset + at, len.into());
        let bytes = read(shape.filter.at, shape.filter.len).await?;
        let filter = segment::filter(&bytes, self.store, id).ok_or(damaged(shape.filter.at))?;
        if shape.top.len == 0 {
            return Ok((filter, None));
        }
        let bytes = read(shape.top.at, shape.top.len).await?;
        let top = Node::parse(&bytes, self.store, id).ok_or(damaged(shape.top.at))?;
        Ok((filter, Some(top)))
    }

    /// Reads the copy of a filter. If that fails too, returns a filter that contains every key.
    async fn read_copy(&self, id: u64, copy: Copy) -> Filter {
        let bytes = self.read_bytes(copy.disk, copy.offset, copy.len).await;
        let filter = bytes.ok().and_then(|bytes| segment::filter(&bytes, self.store, id));
        filter.unwrap_or_else(Filter::all)
    }
}
