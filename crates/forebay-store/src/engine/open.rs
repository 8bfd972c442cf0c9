//! Opening: what there was before.
//!
//! Everything is flushed before anything is read: after a process was killed bytes may be found that no disk
//! has yet. Roots say which segments there are, those that only one of a segment's two roots says too; then
//! come the logs that no segment has.
//!
//! What cannot be read (a disk is missing, or what is on it is damaged) is a part of the picture all the same: reads of
//! keys that it may decide fail, all others go on. Where too many roots are gone to say what there was, everything does,
//! and nothing is written, until that is given up.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::filter::Filter;
use crate::frame::{BLOCK, Frame, FrameKind};
use crate::operation::Trouble;
use crate::root::{Change, Root};
use crate::segment::{self, Described, Node};

use super::unreadable::Partial;
use super::version::{Copy, Segment, Version};
use super::{Engine, State};

/// A segment as roots say it.
struct Said {
    described: Described,
    disk: usize,
    /// The root of its own disk says so.
    by_own: bool,
    copy: Option<Copy>,
    /// Disks whose roots say so as well: a copy was made anew while they were missing.
    others: Vec<usize>,
}

impl State {
    /// Numbers of a segment that was found are not given again.
    fn has_seen(&mut self, described: &Described) {
        self.next_segment = self.next_segment.max(described.id.saturating_add(1));
        self.next_log = self.next_log.max(described.ages.1.saturating_add(1));
        self.sequence = self.sequence.max(described.shape.sequence_max.saturating_add(1));
    }
}

/// More numbers than a disk may have used that no other disk knows of: of what was never answered.
const UNKNOWN: u64 = 1 << 20;

impl State {
    /// A missing disk may come back: no number is given that it may have used.
    fn leave_out(&mut self) {
        self.next_log += UNKNOWN;
        self.next_segment += UNKNOWN;
        self.sequence += UNKNOWN << 12;
    }
}

impl Engine {
    /// Gets the state back.
    pub(super) async fn open(self: &Rc<Self>) -> Result<(), Trouble> {
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

    /// From here on puts are taken, and there is work in the background.
    pub(super) async fn go_on(self: &Rc<Self>) -> Result<(), Trouble> {
        self.mend_labels().await?;
        self.keep_lost().await;
        self.copy_all().await;
        // Where that fails it is said so until the next opening.
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

    /// Disks that are there.
    pub(super) fn present(&self) -> impl Iterator<Item = usize> + use<> {
        let is_there = |(at, disk): (usize, &super::Disk)| disk.lane.map(|_| at);
        let present: Vec<usize> = self.disks.iter().enumerate().filter_map(is_there).collect();
        present.into_iter()
    }

    /// The newer of a disk's two roots, and whether that is all that it had: a frame that was written after what
    /// is whole says that it is not, and so may a block that cannot be read.
    async fn find_root(&self, disk: usize) -> Result<(Root, bool), Trouble> {
        let layout = self.disks[disk].layout;
        let mut areas = [self.read_chain(disk, 0).await?, self.read_chain(disk, 1).await?];
        for (area, bytes) in (0..).zip(&mut areas) {
            // Where its first frame ends nobody can say, and that may be long.
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
        // What is there may have a greater number than what counts.
        let chain = last(&areas).map_or(found.chain, |(chain, _)| chain);
        found.end_behind(chain, layout.root_bytes);
        Ok((found, is_whole))
    }

    /// The frames that an area begins with, and up to a step behind them.
    async fn read_chain(&self, disk: usize, area: u64) -> Result<Partial, Trouble> {
        let (layout, block) = (self.disks[disk].layout, BLOCK as u64);
        let (begin, mut found, mut end) = (layout.root_at(area), Partial::default(), block);
        loop {
            let done = found.bytes.len() as u64;
            if end > done {
                // More than is asked for, as more will be.
                let upto = end.max(done + self.config.step_bytes as u64).min(layout.root_bytes);
                self.read_on_around(&mut found, disk, begin, upto).await?;
            }
            let from = (end - block) as usize;
            let len = Frame::len(&found.bytes[from..], FrameKind::Root, self.store);
            let Some(len) = len.filter(|len| *len <= layout.root_bytes - from as u64) else {
                // What was written later may be behind what is damaged.
                let upto = found.bytes.len() as u64 + self.config.step_bytes as u64;
                let upto = upto.min(layout.root_bytes);
                self.read_on_around(&mut found, disk, begin, upto).await?;
                return Ok(found);
            };
            // Up to the head of the next one.
            end = from as u64 + len.next_multiple_of(block) + block;
            if end > layout.root_bytes {
                self.read_on_around(&mut found, disk, begin, layout.root_bytes).await?;
                return Ok(found);
            }
        }
    }

    /// Segments in the order they were published: each takes its keys from those before it.
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

    /// Copies of filters that are not there: another disk knew too late, or is missing. All that is taken has to be
    /// known by now.
    async fn copy_all(&self) {
        let version = Rc::clone(&self.state.borrow().version);
        let is_bare = |segment: &&Rc<Segment>| segment.copy().is_none() && segment.lost.is_none();
        for segment in version.segments().filter(is_bare) {
            // One that is in two parts has it by now; where it fails it goes without until the next opening.
            if segment.copy().is_none() {
                let _ = self.copy(segment).await;
            }
        }
        self.forget_stale(&version).await;
    }

    /// Roots forget copies whose place was somebody else's, once there are others.
    async fn forget_stale(&self, version: &Version) {
        let stale = std::mem::take(&mut self.state.borrow_mut().stale_copies);
        for (disk, id) in stale {
            let is_it = |segment: &&Rc<Segment>| segment.described.id == id;
            let copy = version.segments().find(is_it).and_then(|segment| segment.copy());
            if copy.is_some_and(|copy| copy.disk != disk) {
                // Where that fails it is found once more.
                let change = Change { removed: vec![id], ..Change::default() };
                let _ = self.change_root(disk, change).await;
            }
        }
    }

    /// What only another disk's root says, its own says again.
    async fn say_again(&self, half: &BTreeSet<u64>) {
        let version = Rc::clone(&self.state.borrow().version);
        for segment in version.segments().filter(|segment| half.contains(&segment.described.id)) {
            let change = Change { added: vec![segment.entry()], ..Change::default() };
            // Where that fails the other root goes on saying it.
            let _ = self.change_root(segment.disk, change).await;
        }
    }

    /// One copy of a filter is enough.
    async fn forget_others(&self, said: &BTreeMap<u64, Said>) {
        let mut removed: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        for (id, said) in said.iter().filter(|_| !self.holds_still()) {
            said.others.iter().for_each(|disk| removed.entry(*disk).or_default().push(*id));
        }
        for (disk, removed) in removed {
            // Where that fails it is said once more.
            let _ = self.change_root(disk, Change { removed, ..Change::default() }).await;
        }
    }

    /// Every segment that a root says there is, by its number.
    fn said(&self) -> BTreeMap<u64, Said> {
        let roots = self.state.borrow().roots.clone();
        let mut all: BTreeMap<u64, Said> = BTreeMap::new();
        for (at, root) in roots.into_iter().enumerate() {
            for entry in root.segments {
                let (disk, (offset, len)) = (usize::from(entry.disk), entry.copy);
                if disk >= self.disks.len() {
                    continue;
                }
                let described = entry.described;
                let new = Said { described, disk, by_own: false, copy: None, others: Vec::new() };
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

    /// Takes the room of every segment and copy. Of two segments in one place the later has it: the other was
    /// forgotten before its bytes were used again, by a root that is older than that now, or not by one that
    /// was missing.
    fn claim_all(&self, said: &mut BTreeMap<u64, Said>) {
        let claim =
            |disk: usize, offset, len| self.disks[disk].space.borrow_mut().claim(offset, len);
        let mut replaced = Vec::new();
        for (id, Said { described, disk, .. }) in said.iter().rev() {
            if !claim(*disk, described.offset, described.len) && self.lane(*disk).is_ok() {
                replaced.push(*id);
            }
        }
        replaced.iter().for_each(|id| drop(said.remove(id)));
        // A root that lacks its last changes may have a place be somebody else's: the later of two copies has it.
        let stale = &mut self.state.borrow_mut().stale_copies;
        for (id, said) in said.iter_mut().rev() {
            let copy = said.copy;
            said.copy = copy.filter(|copy| claim(copy.disk, copy.offset, copy.len));
            let lost = copy.filter(|_| said.copy.is_none());
            stale.extend(lost.map(|copy| (copy.disk, *id)));
        }
    }

    /// A segment, or what is known of one that cannot be read.
    async fn open_segment(&self, said: Said) -> Segment {
        let Said { described, disk, copy, .. } = said;
        let found = self.read_segment(&described, disk).await;
        let space = &self.disks[disk].space;
        let segment = match found {
            Ok(found) => Segment::new(described, disk, found, space),
            Err(trouble) => {
                let filter = match copy {
                    Some(copy) => self.read_copy(described.id, copy).await,
                    None => Filter::all(),
                };
                Segment::new(described, disk, (filter, None), space).lost(trouble)
            }
        };
        if let Some(copy) = copy {
            segment.has_copy(copy, &self.disks[copy.disk].space);
        }
        segment
    }

    /// The filter and the top node of a segment.
    async fn read_segment(
        &self,
        described: &Described,
        disk: usize,
    ) -> Result<(Filter, Option<Node>), Trouble> {
        let (shape, id) = (described.shape, described.id);
        let damaged = |at: u64| Trouble::Damaged { disk, offset: described.offset + at };
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

    /// A filter from its copy; where that cannot be read either, one that says yes to everything.
    async fn read_copy(&self, id: u64, copy: Copy) -> Filter {
        let bytes = self.read_bytes(copy.disk, copy.offset, copy.len).await;
        let filter = bytes.ok().and_then(|bytes| segment::filter(&bytes, self.store, id));
        filter.unwrap_or_else(Filter::all)
    }
}
