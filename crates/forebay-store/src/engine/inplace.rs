//! Inserts logs into trees that are updated in place, and reads from these trees.
//!
//! The records of a log are inserted into the tree of its target disk one at a time, in key order:
//! the leaf is read unless it is in memory, the record is inserted, and modified pages are written
//! to their fixed positions at the configured time. Long values are written immediately. Only one
//! task uses a tree at a time, so readers wait until a log has been inserted. Snapshots are not
//! supported: reads see the current content.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use crate::config::{Config, InPlace, Tree as How, TreeSync};
use crate::executor::{Io, Pending};
use crate::frame::{BLOCK, pad};
use crate::inplace::page::{Content, Entry, Extent, Page, fits_in_leaf, key_max};
use crate::inplace::tree::{Evicted, Tree};
use crate::operation::{self, OperationError};
use crate::record::{Key, Record, Value};

use super::{Engine, Log, PageLimits, Picture, after};

/// The tree of a disk.
struct Slot {
    tree: RefCell<Tree>,
    is_used: Cell<bool>,
}

/// The trees that are updated in place, one per disk.
pub(super) struct Trees {
    how: InPlace,
    slots: Vec<Slot>,
}

impl Trees {
    /// Creates one tree per disk, if the configuration asks for trees in place.
    pub(super) fn new(config: &Config, disks: usize) -> Option<Trees> {
        let How::InPlace(how) = config.tree else { return None };
        let slot = |_| {
            let tree = RefCell::new(Tree::new(how.page_bytes, how.cache_bytes / disks as u64));
            Slot { tree, is_used: Cell::new(false) }
        };
        Some(Trees { how, slots: (0..disks).map(slot).collect() })
    }

    /// Returns the maximum length of a key in the trees' pages.
    pub(super) fn key_max(&self) -> usize {
        key_max(self.how.page_bytes)
    }
}

/// Exclusive access to a disk's tree for one task.
struct InUse<'a> {
    engine: &'a Engine,
    how: InPlace,
    slot: &'a Slot,
    disk: usize,
    /// The writes in flight, oldest first.
    under_way: VecDeque<Pending>,
}

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        self.slot.is_used.set(false);
        self.engine.changed.notify();
    }
}

impl InUse<'_> {
    /// Loads the leaf for a key into memory; returns None for an empty tree.
    async fn leaf(&mut self, key: &[u8]) -> Result<Option<(u64, Option<Key>)>, OperationError> {
        let Some((leaf, bound)) = self.slot.tree.borrow().leaf(key) else { return Ok(None) };
        if self.slot.tree.borrow_mut().entries(leaf).is_some() {
            return Ok(Some((leaf, bound)));
        }
        let bytes = self.engine.read(self.disk, leaf, self.how.page_bytes).await?;
        let page = Page::parse(&bytes, self.engine.store, leaf)
            .ok_or(OperationError::Damaged { disk: self.disk, offset: leaf })?;
        self.engine.state.borrow_mut().figures.leaves_read += 1;
        self.slot.tree.borrow_mut().take(leaf, page);
        self.make_room().await?;
        Ok(Some((leaf, bound)))
    }

    /// Evicts leaves until their number is within the limit.
    async fn make_room(&mut self) -> Result<(), OperationError> {
        loop {
            let evicted = self.slot.tree.borrow_mut().evict();
            match evicted {
                Evicted::Nothing => return Ok(()),
                Evicted::Gone => {}
                Evicted::Dirty => self.write_back().await?,
            }
        }
    }

    /// Begins a write once fewer than the maximum number are in flight.
    async fn write(&mut self, offset: u64, data: Vec<u8>) -> Result<(), OperationError> {
        self.settle(self.how.depth.max(1) - 1).await?;
        let durable = self.how.sync == TreeSync::Record;
        self.engine.state.borrow_mut().figures.transformed_bytes += data.len() as u64;
        let io = Io::Write { offset, data, durable };
        let lane = self.engine.lane(self.disk)?;
        self.under_way.push_back(self.engine.executor.io(lane, io));
        Ok(())
    }

    /// Waits until at most `most` writes are in flight.
    async fn settle(&mut self, most: usize) -> Result<(), OperationError> {
        while self.under_way.len() > most
            && let Some(write) = self.under_way.pop_front()
        {
            write.await.map_err(|fault| self.engine.failed(self.disk, fault))?;
        }
        Ok(())
    }

    /// Writes all modified pages, in the order of their positions.
    async fn write_back(&mut self) -> Result<(), OperationError> {
        let dirty = self.slot.tree.borrow_mut().dirty();
        self.engine.state.borrow_mut().figures.pages_written += dirty.len() as u64;
        for place in dirty {
            let bytes = self.slot.tree.borrow().bytes(place, self.engine.store);
            if let Some(bytes) = bytes {
                self.write(place, bytes).await?;
            }
        }
        self.settle(0).await
    }

    /// Writes a value to its own extent.
    async fn write_apart(&mut self, value: &Value) -> Result<Extent, OperationError> {
        let (mut data, len) = (value.to_vec(), value.len() as u32);
        pad(&mut data);
        let at = self.space(|space| space.take(data.len() as u64)).ok_or(OperationError::Full)?;
        self.write(at, data).await?;
        Ok(Extent { at, len })
    }

    fn space<T>(&self, act: impl FnOnce(&mut crate::space::Space) -> T) -> T {
        act(&mut self.engine.disks[self.disk].space.borrow_mut())
    }

    /// Inserts a record, unless there is a newer version of its key.
    async fn put(&mut self, record: &Record) -> Result<(), OperationError> {
        if let Some((leaf, _)) = self.leaf(&record.key).await? {
            let mut tree = self.slot.tree.borrow_mut();
            let entries = tree.entries(leaf).unwrap_or_default();
            let is_late = |entry: &Entry| entry.sequence >= record.sequence;
            if entries.iter().any(|entry| entry.key == record.key && is_late(entry)) {
                return Ok(());
            }
        }
        let content = match &record.value {
            Some(value) if !fits_in_leaf(record, self.how.page_bytes) => {
                Content::Apart(self.write_apart(value).await?)
            }
            value => Content::Here(value.clone()),
        };
        let count = self.slot.tree.borrow().places_max();
        let page = self.how.page_bytes as u64;
        let mut fresh: Vec<u64> =
            self.space(|space| (0..count).map_while(|_| space.take(page)).collect());
        let is_full = fresh.len() < count;
        fresh.reverse();
        let (key, sequence) = (record.key.clone(), record.sequence);
        let entry = Entry { key, sequence, content };
        let replaced = match is_full {
            true => None,
            false => self.slot.tree.borrow_mut().put(entry, &mut fresh),
        };
        self.space(|space| {
            fresh.into_iter().for_each(|place| space.give(place, page));
            if let Some(Extent { at, len }) = replaced {
                space.give(at, u64::from(len).next_multiple_of(BLOCK as u64));
            }
        });
        if is_full {
            return Err(OperationError::Full);
        }
        if self.how.sync == TreeSync::Record {
            self.write_back().await?;
        }
        self.make_room().await
    }

    /// Returns the first entry at or after `from`. Leaves without such an entry are skipped.
    async fn first(&mut self, from: &Key) -> Result<Option<Entry>, OperationError> {
        let mut next = Some(from.clone());
        while let Some(key) = next
            && let Some((leaf, bound)) = self.leaf(&key).await?
        {
            let mut tree = self.slot.tree.borrow_mut();
            let entries = tree.entries(leaf).unwrap_or_default();
            if let Some(entry) = entries.iter().find(|entry| entry.key >= *from) {
                return Ok(Some(entry.clone()));
            }
            next = bound;
        }
        Ok(None)
    }

    /// Returns the value of an entry.
    async fn value(&self, entry: Entry) -> Result<Option<Value>, OperationError> {
        match entry.content {
            Content::Here(value) => Ok(value),
            Content::Apart(Extent { at, len }) => {
                let whole = (len as usize).next_multiple_of(BLOCK);
                let mut bytes = self.engine.read(self.disk, at, whole).await?;
                bytes.truncate(len as usize);
                Ok(Some(bytes.into()))
            }
        }
    }
}

impl Engine {
    /// Acquires a disk's tree for a task.
    async fn use_tree<'a>(&'a self, trees: &'a Trees, disk: usize) -> InUse<'a> {
        let slot = &trees.slots[disk];
        self.changed.until(|| (!slot.is_used.replace(true)).then_some(())).await;
        InUse { engine: self, how: trees.how, slot, disk, under_way: VecDeque::new() }
    }

    /// Inserts a log's records into a disk's tree.
    pub(super) async fn insert_log(
        &self,
        trees: &Trees,
        log: &Log,
        to: usize,
    ) -> Result<(), OperationError> {
        let mut tree = self.use_tree(trees, to).await;
        let mut next = Key::from([]);
        while let Some(record) = log.first(&next, u64::MAX) {
            tree.put(&record).await?;
            next = after(&record.key);
        }
        if trees.how.sync == TreeSync::Log {
            tree.write_back().await?;
            self.flush(to).await?;
        }
        tree.settle(0).await
    }

    /// Writes the modified pages of all trees.
    pub(super) async fn close_trees(&self) {
        let Some(trees) = &self.trees else { return };
        for disk in 0..trees.slots.len() {
            let mut tree = self.use_tree(trees, disk).await;
            // If a disk fails now, nothing is lost that a later opening would need.
            let _ = tree.write_back().await;
        }
    }

    /// Returns the value of a key.
    pub(super) async fn get_in_place(
        &self,
        trees: &Trees,
        key: &Key,
    ) -> Result<Option<Value>, OperationError> {
        let mut all = self.use_all(trees).await;
        let Picture { logs, upto, .. } = self.picture();
        let found = newest(&mut all, &logs, upto, key).await?;
        Ok(found.filter(|(found, _)| found == key).and_then(|(_, value)| value))
    }

    /// Returns the first `count` keys at or after `from`, with their values.
    pub(super) async fn scan_in_place(
        &self,
        trees: &Trees,
        wanted: PageLimits,
    ) -> Result<operation::Page, OperationError> {
        let PageLimits { mut from, count, bytes: bytes_max } = wanted;
        let mut all = self.use_all(trees).await;
        let Picture { logs, upto, .. } = self.picture();
        let (mut page, mut bytes) = (operation::Page::default(), 0);
        while page.records.len() < count {
            let Some((key, value)) = newest(&mut all, &logs, upto, &from).await? else {
                return Ok(page);
            };
            if let Some(value) = value {
                bytes += (key.len() + value.len()) as u64;
                if bytes > bytes_max && !page.records.is_empty() {
                    page.next = Some(key);
                    return Ok(page);
                }
                page.records.push((key.clone(), value));
            }
            from = after(&key);
        }
        page.next = Some(from);
        Ok(page)
    }

    /// Acquires the trees of all disks, so that nothing is inserted in the meantime.
    async fn use_all<'a>(&'a self, trees: &'a Trees) -> Vec<InUse<'a>> {
        let mut all = Vec::with_capacity(trees.slots.len());
        for disk in 0..trees.slots.len() {
            all.push(self.use_tree(trees, disk).await);
        }
        all
    }
}

/// Returns the smallest key at or after `from` in any log or tree, with its newest value. The
/// sequence numbers are compared because a log that is transformed late may be older than the
/// content of a tree.
async fn newest(
    trees: &mut [InUse<'_>],
    logs: &[Rc<Log>],
    upto: u64,
    from: &Key,
) -> Result<Option<(Key, Option<Value>)>, OperationError> {
    let in_logs = logs.iter().filter_map(|log| log.first(from, upto));
    let logged = in_logs.min_by(|a, b| a.key.cmp(&b.key).then(b.sequence.cmp(&a.sequence)));
    let mut best: Option<(usize, Entry)> = None;
    for (disk, tree) in trees.iter_mut().enumerate() {
        let Some(entry) = tree.first(from).await? else { continue };
        let is_better = |key: &Key, sequence| {
            entry.key.cmp(key).then(u64::cmp(&sequence, &entry.sequence)).is_lt()
        };
        if best.as_ref().is_none_or(|(_, best)| is_better(&best.key, best.sequence))
            && logged.as_ref().is_none_or(|logged| is_better(&logged.key, logged.sequence))
        {
            best = Some((disk, entry));
        }
    }
    match best {
        Some((disk, entry)) => {
            let key = entry.key.clone();
            Ok(Some((key, trees[disk].value(entry).await?)))
        }
        None => Ok(logged.map(|record| (record.key, record.value))),
    }
}
