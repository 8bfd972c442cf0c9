//! A B+tree in memory: all inner pages, and the most recently used leaves.
//!
//! The tree does no I/O: the caller reads missing leaves and writes dirty pages. Only one task may
//! use it at a time.

use std::collections::BTreeMap;

use crate::Key;

use super::page::{Content, Entry, Extent, Page};

struct Held {
    page: Page,
    is_dirty: bool,
    /// When the page was last used; None for an inner page, which is never evicted.
    used: Option<u64>,
}

/// The result of an eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evicted {
    /// No eviction is necessary.
    Nothing,
    /// A leaf was evicted.
    Gone,
    /// A leaf must be written before it can be evicted.
    Dirty,
}

/// A B+tree.
pub(crate) struct Tree {
    page_bytes: usize,
    leaves_max: usize,
    root: Option<u64>,
    pages: BTreeMap<u64, Held>,
    by_use: BTreeMap<u64, u64>,
    uses: u64,
    height: usize,
}

impl Tree {
    /// Creates an empty tree that caches up to `cache_bytes` of leaves, but at least one leaf.
    pub(crate) fn new(page_bytes: usize, cache_bytes: u64) -> Tree {
        let leaves_max = (cache_bytes / page_bytes as u64).max(1) as usize;
        let (pages, by_use) = (BTreeMap::new(), BTreeMap::new());
        Tree { page_bytes, leaves_max, root: None, pages, by_use, uses: 0, height: 0 }
    }

    /// Returns the maximum number of new pages for a [`put`](Tree::put): one for each split on the
    /// path, and a new root.
    pub(crate) fn places_max(&self) -> usize {
        self.height + 1
    }

    /// Returns the leaf for a key, and the lower bound of the next leaf; None for an empty tree.
    pub(crate) fn leaf(&self, key: &[u8]) -> Option<(u64, Option<Key>)> {
        let (path, bound) = self.path(key)?;
        path.last().map(|leaf| (*leaf, bound))
    }

    /// Returns the positions of the pages from the root to the leaf for a key, and the lower bound
    /// of the next leaf.
    fn path(&self, key: &[u8]) -> Option<(Vec<u64>, Option<Key>)> {
        let (mut path, mut bound) = (vec![self.root?], None);
        while path.len() < self.height {
            let Page::Inner(children) = &self.pages[path.last()?].page else { return None };
            let at = children[1..].partition_point(|(least, _)| **least <= *key);
            // The bound becomes tighter at each level.
            bound = children.get(at + 1).map(|(least, _)| least.clone()).or(bound);
            path.push(children[at].1);
        }
        Some((path, bound))
    }

    /// Returns the entries of a leaf that is in memory.
    pub(crate) fn entries(&mut self, leaf: u64) -> Option<&[Entry]> {
        self.touch(leaf);
        match &self.pages.get(&leaf)?.page {
            Page::Leaf(entries) => Some(entries),
            Page::Inner(_) => None,
        }
    }

    fn touch(&mut self, leaf: u64) {
        self.uses += 1;
        if let Some(Held { used: Some(used), .. }) = self.pages.get_mut(&leaf) {
            self.by_use.remove(used);
            self.by_use.insert(self.uses, leaf);
            *used = self.uses;
        }
    }

    /// Inserts a page that the caller has read.
    pub(crate) fn take(&mut self, place: u64, page: Page) {
        self.hold(place, page, false);
    }

    fn hold(&mut self, place: u64, page: Page, is_dirty: bool) {
        self.uses += 1;
        let used = matches!(page, Page::Leaf(_)).then_some(self.uses);
        if used.is_some() {
            self.by_use.insert(self.uses, place);
        }
        let before = self.pages.insert(place, Held { page, is_dirty, used });
        assert!(before.is_none(), "the page at {place} already exists");
    }

    /// Evicts the least recently used leaf if there are too many.
    pub(crate) fn evict(&mut self) -> Evicted {
        if self.by_use.len() <= self.leaves_max {
            return Evicted::Nothing;
        }
        let Some((&used, &leaf)) = self.by_use.first_key_value() else { return Evicted::Nothing };
        if self.pages[&leaf].is_dirty {
            return Evicted::Dirty;
        }
        self.by_use.remove(&used);
        self.pages.remove(&leaf);
        Evicted::Gone
    }

    /// Returns the positions of all dirty pages in order, and marks these pages as clean.
    pub(crate) fn dirty(&mut self) -> Vec<u64> {
        let dirty = self.pages.iter_mut().filter(|(_, held)| held.is_dirty);
        dirty
            .map(|(place, held)| {
                held.is_dirty = false;
                *place
            })
            .collect()
    }

    /// Encodes a page; returns None if it is not in memory.
    pub(crate) fn bytes(&self, place: u64, store: u64) -> Option<Vec<u8>> {
        self.pages.get(&place).map(|held| held.page.write(store, place, self.page_bytes))
    }

    /// Inserts a version of a key, whose leaf must be in memory. New pages take their positions
    /// from `fresh`. Returns the location of the replaced value if it was stored separately.
    pub(crate) fn put(&mut self, entry: Entry, fresh: &mut Vec<u64>) -> Option<Extent> {
        let Some((mut path, bound)) = self.path(&entry.key) else {
            let root = fresh.pop().expect("a place for the first leaf");
            self.hold(root, Page::Leaf(vec![entry]), true);
            (self.root, self.height) = (Some(root), 1);
            return None;
        };
        let mut place = path.pop().expect("a path ends in a leaf");
        let held = self.pages.get_mut(&place).expect("the leaf is in memory");
        let Page::Leaf(entries) = &mut held.page else { panic!("an inner page as a leaf") };
        let at = entries.partition_point(|other| other.key < entry.key);
        let is_appended = bound.is_none() && at == entries.len();
        let replaced = match entries.get_mut(at).filter(|other| other.key == entry.key) {
            Some(other) => Some(std::mem::replace(other, entry)),
            None => {
                entries.insert(at, entry);
                None
            }
        };
        held.is_dirty = true;
        while self.pages[&place].page.is_over(self.page_bytes) {
            let right = fresh.pop().expect("a place for each page on the way");
            let held = self.pages.get_mut(&place).expect("it is in memory");
            let (least, upper) = held.page.split(is_appended);
            held.is_dirty = true;
            self.hold(right, upper, true);
            let Some(parent) = path.pop() else {
                let root = fresh.pop().expect("a place for a new root");
                let children = vec![(Key::from([]), place), (least, right)];
                self.hold(root, Page::Inner(children), true);
                (self.root, self.height) = (Some(root), self.height + 1);
                break;
            };
            let held = self.pages.get_mut(&parent).expect("inner pages stay");
            let Page::Inner(children) = &mut held.page else { panic!("a leaf as a parent") };
            let at = 1 + children[1..].partition_point(|(other, _)| *other < least);
            children.insert(at, (least, right));
            held.is_dirty = true;
            place = parent;
        }
        match replaced.map(|entry| entry.content) {
            Some(Content::Apart(extent)) => Some(extent),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// A disk that stores pages, and a tree on it.
    struct Paged {
        tree: Tree,
        disk: BTreeMap<u64, Vec<u8>>,
        next: u64,
        reads: usize,
    }

    const PAGE: usize = 4096;

    impl Paged {
        fn new(leaves: u64) -> Paged {
            let tree = Tree::new(PAGE, leaves * PAGE as u64);
            Paged { tree, disk: BTreeMap::new(), next: 0, reads: 0 }
        }

        fn fetch(&mut self, leaf: u64) {
            if self.tree.entries(leaf).is_none() {
                self.reads += 1;
                self.tree.take(leaf, Page::parse(&self.disk[&leaf], 1, leaf).unwrap());
                self.make_room();
            }
        }

        fn make_room(&mut self) {
            loop {
                match self.tree.evict() {
                    Evicted::Nothing => return,
                    Evicted::Gone => {}
                    Evicted::Dirty => self.write(),
                }
            }
        }

        fn write(&mut self) {
            for place in self.tree.dirty() {
                self.disk.insert(place, self.tree.bytes(place, 1).unwrap());
            }
        }

        fn put(&mut self, key: &Key, sequence: u64, len: usize) {
            if let Some((leaf, _)) = self.tree.leaf(key) {
                self.fetch(leaf);
            }
            let count = self.tree.places_max() as u64;
            let mut fresh: Vec<u64> = (self.next..self.next + count).collect();
            self.next += count;
            let content = Content::Here(Some(vec![1; len].into()));
            self.tree.put(Entry { key: key.clone(), sequence, content }, &mut fresh);
            self.make_room();
        }

        /// Returns all keys in order, leaf by leaf.
        fn all(&mut self) -> Vec<(Key, u64)> {
            let (mut found, mut from) = (Vec::new(), Some(Key::from([])));
            while let Some(key) = from
                && let Some((leaf, bound)) = self.tree.leaf(&key)
            {
                self.fetch(leaf);
                let entries = self.tree.entries(leaf).unwrap();
                found.extend(entries.iter().map(|entry| (entry.key.clone(), entry.sequence)));
                from = bound;
            }
            found
        }
    }

    proptest! {
        #[test]
        fn a_tree_has_what_was_put(
            puts in proptest::collection::vec((0..400_u32, 0..900_usize), 1..300),
            leaves in 1..12_u64,
        ) {
            let (mut paged, mut model) = (Paged::new(leaves), BTreeMap::new());
            for (sequence, (number, len)) in (0..).zip(puts) {
                let key = Key::from(format!("{number:04}").into_bytes());
                paged.put(&key, sequence, len);
                model.insert(key, sequence);
                prop_assert!(paged.tree.by_use.len() <= leaves as usize);
            }
            let expected: Vec<_> = model.into_iter().collect();
            prop_assert_eq!(paged.all(), expected);
        }
    }

    #[test]
    fn keys_in_order_fill_their_pages() {
        let mut paged = Paged::new(2);
        for number in 0..2000_u64 {
            paged.put(&Key::from(number.to_be_bytes()), number, 100);
        }
        assert_eq!(paged.reads, 0, "every key belongs to the last leaf");
        // A page holds 32 entries of 124 bytes. All leaves except two are on the disk.
        let leaves = 2000_usize.div_ceil(32);
        assert_eq!(paged.all().len(), 2000);
        assert_eq!(paged.reads, leaves);
    }
}
