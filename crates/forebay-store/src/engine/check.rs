//! Checks every byte of every segment, and repairs the store: the readable part of a lost or
//! damaged segment becomes a new segment, and the lost part no longer affects any read.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::frame::{Frame, FrameKind, HEAD};
use crate::record::{Key, Record};
use crate::root::Change;
use crate::segment::{self, Keys, Node, Origin, Place, len_max};
use crate::{Checked, Loss, OperationError, PutSpan};

use super::{Engine, Hole, Part, Segment, Writing};

impl Engine {
    /// Returns the known losses.
    pub(crate) fn losses(&self) -> Vec<Loss> {
        let version = Rc::clone(&self.state.borrow().version);
        let losses = |part: &Part| {
            let segment = &part.segment;
            let failure = segment.lost.as_ref().or(segment.damaged.get());
            let whole = failure.filter(|_| segment.holes.is_empty());
            let whole = whole.map(|failure| loss(part, part.keys.clone(), failure.clone()));
            segment.holes.iter().map(Hole::loss).chain(whole).collect::<Vec<_>>()
        };
        let parts = version.runs.iter().flat_map(|run| &run.parts);
        self.losses_beside().into_iter().chain(parts.flat_map(losses)).collect()
    }

    /// Checks everything, on all disks in parallel.
    pub(super) async fn check(self: &Rc<Self>) -> Checked {
        let parts = self.parts();
        let checked = Rc::new(RefCell::new(Checked::default()));
        let left = Rc::new(Cell::new(self.disks.len()));
        for disk in 0..self.disks.len() {
            let of_disk: Vec<Part> =
                parts.iter().filter(|part| part.segment.disk == disk).cloned().collect();
            let (engine, checked, left) = (Rc::clone(self), Rc::clone(&checked), Rc::clone(&left));
            self.executor.spawn(async move {
                for part in of_disk {
                    let losses = engine.check_part(&part).await;
                    let checked = &mut checked.borrow_mut();
                    checked.segments += 1;
                    checked.bytes += part.segment.described.len;
                    checked.records += part.segment.described.shape.records;
                    checked.losses.extend(losses);
                }
                left.set(left.get() - 1);
                engine.changed.notify();
            });
        }
        self.changed.until(|| (left.get() == 0).then_some(())).await;
        let mut checked = checked.take();
        checked.losses.extend(self.losses_beside());
        checked
    }

    fn parts(&self) -> Vec<Part> {
        let version = Rc::clone(&self.state.borrow().version);
        version.runs.iter().flat_map(|run| run.parts.clone()).collect()
    }

    /// Checks that a part is intact, including the copy of its filter.
    async fn check_part(&self, part: &Part) -> Vec<Loss> {
        let mut losses: Vec<Loss> = part.segment.holes.iter().map(Hole::loss).collect();
        if !losses.is_empty() {
            return losses;
        }
        if let Err(failure) = self.check_tree(part, &mut losses).await {
            losses.push(loss(part, part.keys.clone(), failure));
        }
        if let Some(copy) = part.segment.copy()
            && part.segment.lost.is_none()
        {
            let bytes = self.read_bytes(copy.disk, copy.offset, copy.len).await;
            let is_same = bytes.ok().and_then(|bytes| {
                let filter = segment::filter(&bytes, self.store, part.segment.described.id)?;
                Some(filter == part.segment.filter)
            });
            if is_same != Some(true) {
                let failure = OperationError::Damaged { disk: copy.disk, offset: copy.offset };
                let none = Keys { after: part.keys.after.clone(), upto: part.keys.after.clone() };
                losses.push(Loss { records: 0, bytes: 0, ..loss(part, none, failure) });
            }
        }
        losses
    }

    async fn check_tree(&self, part: &Part, losses: &mut Vec<Loss>) -> Result<(), OperationError> {
        let segment = &part.segment;
        if let Some(failure) = &segment.lost {
            return Err(failure.clone());
        }
        let shape = segment.described.shape;
        let leaves = self.leaves(segment).await?;
        let damaged = |at| Err(self.damaged(segment, at));
        let (mut end, mut records, mut last, mut is_damaged) = (0, 0, None::<Key>, false);
        for (at, (first, place)) in leaves.iter().enumerate() {
            if place.at != end {
                return damaged(end);
            }
            end += u64::from(place.len);
            let found = self.leaf(segment, *place).await;
            let fits = |leaf: &Vec<Record>| {
                let keys = leaf.iter().map(|record| &record.key);
                let next = leaves.get(at + 1).map(|(next, _)| next);
                leaf.first().is_some_and(|record| *first <= record.key)
                    && leaf.last().is_some_and(|record| next.is_none_or(|next| record.key < *next))
                    && last.iter().chain(keys.clone()).is_sorted_by(|a, b| a < b)
                    && leaf.iter().all(|record| record.sequence <= shape.sequence_max)
                    && keys.into_iter().all(|key| segment.filter.may_hold(crate::filter::hash(key)))
            };
            match found.ok().filter(fits) {
                Some(leaf) => {
                    records += leaf.len() as u64;
                    last = leaf.last().map(|record| record.key.clone());
                }
                None => {
                    is_damaged = true;
                    let after = last.clone().max(part.keys.after.clone());
                    let upto = leaves.get(at + 1).map(|(first, _)| first.clone());
                    let failure = self.damaged(segment, place.at);
                    let keys = Keys { after, upto: upto.or(part.keys.upto.clone()) };
                    let bytes = place.len.into();
                    losses.push(Loss { records: 0, bytes, ..loss(part, keys, failure) });
                    last = Some(first.clone());
                }
            }
        }
        if end != shape.leaves_len || records != shape.records && !is_damaged {
            return damaged(end);
        }
        Ok(())
    }

    /// Reads the records of a leaf.
    async fn leaf(&self, segment: &Segment, place: Place) -> Result<Vec<Record>, OperationError> {
        let bytes = self.read_part(segment, place.at, place.len.into()).await?;
        let leaf = segment::leaf(&bytes, self.store, segment.described.id);
        leaf.map(|(records, _)| records).ok_or_else(|| self.damaged(segment, place.at))
    }

    /// Returns the lower bound and location of every leaf, by traversing the tree.
    async fn leaves(&self, segment: &Segment) -> Result<Vec<(Key, Place)>, OperationError> {
        let Some(top) = &segment.top else { return Ok(Vec::new()) };
        let mut nodes = vec![Rc::clone(top)];
        loop {
            let children: Vec<_> = nodes.iter().flat_map(|node| node.children()).collect();
            let level = nodes.first().map_or(1, |node| node.level);
            if level == 1 {
                return Ok(children);
            }
            let mut lower = Vec::with_capacity(children.len());
            for (_, place) in children {
                let bytes = self.read_part(segment, place.at, place.len.into()).await?;
                let node = Node::parse(&bytes, self.store, segment.described.id)
                    .filter(|node| node.level == level - 1);
                lower.push(Rc::new(node.ok_or_else(|| self.damaged(segment, place.at))?));
            }
            nodes = lower;
        }
    }

    /// Replaces every lost or damaged part with what can still be read of it. Returns the losses.
    pub(super) async fn repair(self: &Rc<Self>) -> Result<Checked, OperationError> {
        // A merge would change the data being repaired.
        self.state.borrow_mut().is_repairing = true;
        self.changed.until(|| (!self.state.borrow().is_merging).then_some(())).await;
        let mut repaired = Checked::default();
        let mut outcome = Ok(());
        for part in self.parts() {
            outcome = self.repair_part(&part, &mut repaired).await;
            if outcome.is_err() {
                break;
            }
        }
        if outcome.is_ok() {
            outcome = self.give_roots_up(&mut repaired).await;
        }
        self.state.borrow_mut().is_repairing = false;
        self.changed.notify();
        outcome.map(|()| repaired)
    }

    /// Rewrites missing or damaged roots. Segments that only these roots listed no longer affect
    /// any read.
    async fn give_roots_up(self: &Rc<Self>, repaired: &mut Checked) -> Result<(), OperationError> {
        let lost = self.losses_of_roots();
        self.mend_roots().await?;
        repaired.losses.extend(lost);
        let was_rootless = self.state.borrow_mut().rootless.take().is_some();
        if was_rootless {
            self.go_on().await?;
        }
        Ok(())
    }

    /// Rewrites missing or incomplete roots.
    pub(super) async fn mend_roots(&self) -> Result<(), OperationError> {
        while let Some(disk) = self.first_broken_root() {
            self.change_root(disk, Change::default()).await?;
            self.state.borrow_mut().broken_roots.remove(&disk);
        }
        Ok(())
    }

    fn first_broken_root(&self) -> Option<usize> {
        self.state.borrow().broken_roots.first().copied()
    }

    /// Returns the losses other than those of segments and logs.
    fn losses_beside(&self) -> Vec<Loss> {
        let damaged = self.state.borrow().damaged_labels.clone();
        let labels = damaged.into_iter().map(|(disk, offset)| Loss {
            from: None,
            after: None,
            upto: Some(Key::from([])),
            records: 0,
            bytes: 0,
            is_bound: false,
            put: PutSpan::default(),
            failure: OperationError::Label { disk, offset },
        });
        self.losses_of_roots().into_iter().chain(labels).collect()
    }

    /// Returns the losses of roots. The loss of a root whose content is known from other roots
    /// contains no keys.
    fn losses_of_roots(&self) -> Vec<Loss> {
        let state = self.state.borrow();
        let nothing = |upto: Option<Key>, failure| Loss {
            from: None,
            after: None,
            upto,
            records: 0,
            bytes: 0,
            is_bound: false,
            put: PutSpan::default(),
            failure,
        };
        if let Some(failure) = &state.rootless {
            return vec![nothing(None, failure.clone())];
        }
        let broken = state.broken_roots.iter();
        broken
            .map(|disk| nothing(Some(Key::from([])), OperationError::Root { disk: *disk }))
            .collect()
    }

    async fn repair_part(
        self: &Rc<Self>,
        part: &Part,
        repaired: &mut Checked,
    ) -> Result<(), OperationError> {
        let mut losses = self.check_part(part).await;
        let Some(ages) = self.ages(part).filter(|_| !losses.is_empty()) else { return Ok(()) };
        let (records, lost) = match self.log_in_place(part, ages) {
            Some(records) => (records, 0),
            None => {
                let (records, read) = self.salvage(part).await;
                let lost = part.segment.described.shape.records.saturating_sub(read);
                if lost == 0 && part.segment.described.len > 0 {
                    losses.clear();
                }
                (records, lost)
            }
        };
        if part.segment.holes.is_empty() {
            losses.iter_mut().for_each(|loss| loss.records = 0);
            losses.first_mut().into_iter().for_each(|first| first.records = lost);
        }
        repaired.segments += 1;
        repaired.records += records.len() as u64;
        repaired.bytes += records.iter().map(|record| record.size() as u64).sum::<u64>();
        repaired.losses.extend(losses);
        self.replace(part, ages, records).await
    }

    /// Returns the age range of the run that contains the part.
    fn ages(&self, part: &Part) -> Option<(u64, u64)> {
        let version = Rc::clone(&self.state.borrow().version);
        let id = part.segment.described.id;
        let is_of = |run: &&Rc<super::version::Run>| {
            run.parts.iter().any(|part| part.segment.described.id == id)
        };
        version.runs.iter().find(is_of).map(|run| run.ages)
    }

    /// Returns the remaining records of a log with missing batches.
    fn log_in_place(&self, part: &Part, ages: (u64, u64)) -> Option<Vec<Record>> {
        let is_log = part.segment.described.len == 0 && ages.0 == ages.1;
        let state = self.state.borrow();
        let log = state.logs.iter().find(|log| is_log && log.id == ages.0)?;
        let mut records = Vec::new();
        let mut from = Key::from([]);
        while let Some(record) = log.first(&from, u64::MAX) {
            from = super::transform::after(&record.key);
            records.push(record);
        }
        Some(records)
    }

    /// Reads all readable records of a part; also returns the number of readable records in its
    /// segment.
    async fn salvage(&self, part: &Part) -> (Vec<Record>, u64) {
        let (mut salvaged, mut read) = (Vec::new(), 0);
        let segment = &part.segment;
        if matches!(
            segment.lost,
            Some(OperationError::Missing { .. } | OperationError::Lost { .. })
        ) {
            return (salvaged, read);
        }
        let leaves_len = segment.described.shape.leaves_len;
        let mut at = 0;
        while at < leaves_len {
            match self.leaf_at(segment, at, leaves_len).await {
                Ok((records, len)) => {
                    read += records.len() as u64;
                    salvaged
                        .extend(records.into_iter().filter(|record| part.keys.hold(&record.key)));
                    at += len;
                }
                // Only the tree contains the position of the next leaf.
                Err(_) => at = self.leaf_behind(segment, at).await.unwrap_or(leaves_len),
            }
        }
        (salvaged, read)
    }

    /// Reads the leaf at a position; the leaf itself contains its length.
    async fn leaf_at(
        &self,
        segment: &Segment,
        at: u64,
        leaves_len: u64,
    ) -> Result<(Vec<Record>, u64), OperationError> {
        let damaged = || self.damaged(segment, at);
        let head = self.read_part(segment, at, (leaves_len - at).min(HEAD as u64)).await?;
        let len =
            Frame::len(&head, FrameKind::Leaf, self.store).filter(|len| at + len <= leaves_len);
        let place =
            Place { at, len: u32::try_from(len.ok_or_else(damaged)?).map_err(|_| damaged())? };
        Ok((self.leaf(segment, place).await?, place.len.into()))
    }

    /// Returns the position of the leaf after this one, if the tree is readable.
    async fn leaf_behind(&self, segment: &Segment, at: u64) -> Option<u64> {
        let leaves = self.leaves(segment).await.ok()?;
        leaves.iter().map(|(_, place)| place.at).find(|next| *next > at)
    }

    /// Publishes records in place of a part.
    async fn replace(
        self: &Rc<Self>,
        part: &Part,
        ages: (u64, u64),
        records: Vec<Record>,
    ) -> Result<(), OperationError> {
        let total = |of: fn(&Record) -> u64| records.iter().map(of).sum::<u64>();
        let (bytes, keys) =
            (total(|record| record.size() as u64), total(|record| record.key.len() as u64));
        let longest = records.iter().map(|record| record.key.len() as u64).max().unwrap_or(0);
        let room = len_max(bytes, records.len() as u64, keys, longest);
        let disk = self.neighbour(self.disks.len()).ok_or(OperationError::Full)?;
        let mut writing = Writing::begin(self, disk, room)?;
        for record in &records {
            writing.push(record).await?;
        }
        let origin = Origin { ages, before: part.segment.described.before };
        let segment = writing.finish(origin, part.keys.clone()).await?;
        self.publish(segment).await?;
        self.find_log_again(ages);
        Ok(())
    }

    /// Removes a lost log, so that it no longer affects any read.
    fn find_log_again(&self, ages: (u64, u64)) {
        let mut state = self.state.borrow_mut();
        if ages.0 == ages.1 && state.lost_logs.remove(&ages.0) {
            state.release(ages.0);
        }
    }
}

fn loss(part: &Part, keys: Keys, failure: OperationError) -> Loss {
    let shape = part.segment.described.shape;
    let Keys { after, upto } = keys;
    let (records, bytes, put) = (shape.records, shape.record_bytes, PutSpan::default());
    Loss { from: None, after, upto, records, bytes, is_bound: false, put, failure }
}
