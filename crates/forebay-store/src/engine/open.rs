//! Opening: what there was before.
//!
//! Everything is flushed before anything is read: after a process was killed bytes may be found that no disk
//! has yet. Roots say which segments there are; logs that no segment has are read back from their slots in
//! order, up to what was not whole, and transformed.

use std::rc::Rc;

use crate::batch::{Batch, Found, FoundLog, Stretch};
use crate::frame::{BLOCK, Fields, Frame, Kind};
use crate::operation::Trouble;
use crate::record::Record;
use crate::root::Root;
use crate::segment::{self, Described, Node};

use super::log::Log;
use super::version::{Segment, Version};
use super::{Disk, Engine, PUT_MAX, State};

impl State {
    /// Numbers of a segment that was found are not given again.
    fn has_seen(&mut self, described: &Described) {
        self.next_segment = self.next_segment.max(described.id.saturating_add(1));
        self.next_log = self.next_log.max(described.ages.1.saturating_add(1));
        self.sequence = self.sequence.max(described.shape.sequence_max.saturating_add(1));
    }
}

impl Engine {
    /// Gets the state back.
    pub(super) async fn open(self: &Rc<Self>) -> Result<(), Trouble> {
        for disk in 0..self.disks.len() {
            self.flush(disk).await?;
            let root = self.find_root(disk).await?;
            self.state.borrow_mut().roots[disk] = root;
        }
        self.open_segments().await?;
        self.open_logs().await?;
        self.executor.spawn(Rc::clone(self).ingest());
        let logs = self.state.borrow().logs.clone();
        logs.into_iter().for_each(|log| self.begin_transformation(log));
        if self.config.merges {
            self.executor.spawn(Rc::clone(self).merge_on());
        }
        Ok(())
    }

    /// The newer of a disk's two roots; none where it has none yet.
    async fn find_root(&self, disk: usize) -> Result<Root, Trouble> {
        let mut found = Root::default();
        for area in 0..2 {
            let at = self.disks[disk].layout.root_at(area);
            let bytes = self.read_all(disk, at, self.disks[disk].layout.root_bytes).await?;
            if let Some(root) = Root::parse(&bytes, self.store)
                && root.chain > found.chain
            {
                found = root;
            }
        }
        Ok(found)
    }

    /// Reads much, a step at a time.
    async fn read_all(&self, disk: usize, at: u64, len: u64) -> Result<Vec<u8>, Trouble> {
        let mut bytes = Vec::with_capacity(len as usize);
        while (bytes.len() as u64) < len {
            let done = bytes.len() as u64;
            let step = (len - done).min(self.config.step_bytes as u64) as usize;
            bytes.extend(self.read(disk, at + done, step).await?);
        }
        Ok(bytes)
    }

    /// Segments in the order they were published: each takes its keys from those before it.
    async fn open_segments(&self) -> Result<(), Trouble> {
        let roots = self.state.borrow().roots.clone();
        let all = (0..).zip(roots).flat_map(|(disk, root)| {
            root.segments.into_iter().map(move |described| (disk, described))
        });
        let mut all: Vec<(usize, Described)> = all.collect();
        all.sort_by_key(|(_, described)| described.id);
        let (mut version, mut gone) = (Version::default(), Vec::new());
        for (disk, described) in all {
            let damaged = Trouble::Damaged { disk, offset: described.offset };
            if !self.disks[disk].space.borrow_mut().claim(described.offset, described.len) {
                return Err(damaged);
            }
            self.state.borrow_mut().has_seen(&described);
            let segment = Rc::new(self.open_segment(disk, described).await?);
            let (next, without) = version.with(segment);
            version = next;
            gone.extend(without);
        }
        self.state.borrow_mut().version = Rc::new(version);
        self.forget(gone).await;
        Ok(())
    }

    async fn open_segment(&self, disk: usize, described: Described) -> Result<Segment, Trouble> {
        let space = &self.disks[disk].space;
        let (shape, id) = (described.shape, described.id);
        let bare = Segment::new(described, disk, (crate::filter::Filter::default(), None), space);
        // Until it is known whole nothing of it is given back.
        bare.keep();
        let place = shape.filter;
        let bytes = self.read_part(&bare, place.at, place.len.into()).await?;
        let filter =
            segment::filter(&bytes, self.store, id).ok_or(self.damaged(&bare, place.at))?;
        let top = match shape.top.len {
            0 => None,
            len => {
                let bytes = self.read_part(&bare, shape.top.at, len.into()).await?;
                let top = Node::parse(&bytes, self.store, id);
                Some(top.ok_or(self.damaged(&bare, shape.top.at))?)
            }
        };
        Ok(Segment::new(bare.described.clone(), disk, (filter, top), space))
    }

    /// Logs that no segment has, in order.
    async fn open_logs(&self) -> Result<(), Trouble> {
        let mut found = Vec::new();
        for disk in 0..self.disks.len() {
            for slot in 0..self.disks[disk].layout.log_slots {
                if let Some(log) = self.find_log(disk, slot).await? {
                    found.push((disk, slot, log));
                }
            }
        }
        found.sort_by_key(|(_, _, log)| log.id);
        for pair in found.windows(2) {
            let (log, (before, expected)) = (&pair[0].2, pair[1].2.before);
            if log.id == before && log.batches < expected {
                return Err(Trouble::Lost { log: log.id, got: log.batches, expected });
            }
        }
        let mut state = self.state.borrow_mut();
        for (disk, slot, found) in found {
            let Disk { slots, space, .. } = &self.disks[disk];
            let log = Log::new(found.id, disk, slot as usize, slots, space);
            found.stretches.iter().for_each(|stretch| log.stretch(stretch.offset, stretch.len));
            log.len.set(found.len);
            log.batches.set(found.batches);
            state.before = (found.id, found.batches);
            for record in found.records {
                state.sequence = state.sequence.max(record.sequence.saturating_add(1));
                log.insert(record);
            }
            state.logs.push(Rc::new(log));
        }
        Ok(())
    }

    /// The log in a slot, unless it is in a segment.
    async fn find_log(&self, disk: usize, slot: u64) -> Result<Option<FoundLog>, Trouble> {
        let layout = self.disks[disk].layout;
        let head = self.read(disk, layout.slot_at(slot), BLOCK).await?;
        let is_head = |kind| Frame::len(&head, kind, self.store).is_some();
        if !is_head(Kind::Batch) && !is_head(Kind::Stretch) {
            return Ok(None);
        }
        // Whole or not, its number is not used again.
        let id = Fields(&head[24..]).u64().unwrap_or_default();
        let is_covered = {
            let mut state = self.state.borrow_mut();
            state.next_log = state.next_log.max(id.saturating_add(1));
            state.version.covers(id)
        };
        if is_covered {
            return Ok(None);
        }
        let bytes = self.read_all(disk, layout.slot_at(slot), layout.slot_bytes).await?;
        let mut log = FoundLog::default();
        while let Some(found) = log.next(&bytes, self.store) {
            match found {
                Found::Batch(batch, records) => log.take(batch, records),
                Found::Stretch(stretch) => {
                    let Some(records) = self.find_stretch(disk, &stretch).await? else { break };
                    log.take(stretch.batch, records);
                    log.stretches.push(stretch);
                }
            }
        }
        Ok((log.batches > 0).then_some(log))
    }

    /// The records of a batch beyond its slot, whose extent is taken; none where it is not whole.
    async fn find_stretch(
        &self,
        disk: usize,
        stretch: &Stretch,
    ) -> Result<Option<Vec<Record>>, Trouble> {
        let &Stretch { batch, offset, len } = stretch;
        let is_free = len <= (PUT_MAX + 2 * BLOCK) as u64
            && self.disks[disk].space.borrow_mut().claim(offset, len);
        if !is_free {
            return Ok(None);
        }
        let bytes = self.read_all(disk, offset, len).await?;
        let found = Batch::parse(&bytes, self.store)
            .filter(|(found, _)| (found.log, found.index) == (batch.log, batch.index));
        if found.is_none() {
            self.disks[disk].space.borrow_mut().give(offset, len);
        }
        Ok(found.map(|(_, records)| records))
    }
}
