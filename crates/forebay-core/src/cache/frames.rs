//! Frames in doubly linked lists, indexed by key.

use super::Frame;
use crate::index::{Index, spread};

/// No frame.
const NIL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: u64,
    prev: u32,
    next: u32,
}

/// Frames by key.
#[derive(Clone, Debug)]
pub(super) struct Frames {
    entries: Vec<Entry>,
    /// Empty frames that were used before.
    free: Vec<u32>,
    index: Index,
    capacity: u32,
}

/// A list of frames in order of insertion or use, newest first.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    newest: u32,
    oldest: u32,
    len: u32,
}

impl Default for List {
    fn default() -> List {
        List { newest: NIL, oldest: NIL, len: 0 }
    }
}

impl List {
    pub(super) fn len(&self) -> u32 {
        self.len
    }
}

impl Frames {
    pub(super) fn new(capacity: u32) -> Frames {
        Frames { entries: Vec::new(), free: Vec::new(), index: Index::new(), capacity }
    }

    pub(super) fn capacity(&self) -> u32 {
        self.capacity
    }

    #[inline]
    pub(super) fn find(&self, key: u64) -> Option<Frame> {
        self.index.find(spread(key), |frame| self.entries[frame as usize].key == key)
    }

    /// Returns whether a new block fits without an eviction.
    #[inline]
    pub(super) fn room(&self) -> bool {
        !self.free.is_empty() || (self.entries.len() as u32) < self.capacity
    }

    /// Assigns a free frame to a key and makes it the newest of a list. There must be a free frame.
    #[inline]
    pub(super) fn add(&mut self, key: u64, list: &mut List) -> Frame {
        let entry = Entry { key, prev: NIL, next: NIL };
        let frame = match self.free.pop() {
            Some(frame) => {
                self.entries[frame as usize] = entry;
                frame
            }
            None => {
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
        };
        self.index.insert(spread(key), frame);
        self.push(frame, list);
        frame
    }

    /// Frees a frame of a list and returns its key.
    #[inline]
    pub(super) fn drop(&mut self, frame: Frame, list: &mut List) -> u64 {
        self.unlink(frame, list);
        let key = self.entries[frame as usize].key;
        self.index.remove(spread(key), frame);
        self.free.push(frame);
        key
    }

    /// Returns the oldest frame of a list.
    #[inline]
    pub(super) fn oldest(&self, list: &List) -> Option<Frame> {
        (list.oldest != NIL).then_some(list.oldest)
    }

    #[inline]
    pub(super) fn push(&mut self, frame: Frame, list: &mut List) {
        let entry = &mut self.entries[frame as usize];
        entry.prev = NIL;
        entry.next = list.newest;
        match list.newest {
            NIL => list.oldest = frame,
            newest => self.entries[newest as usize].prev = frame,
        }
        list.newest = frame;
        list.len += 1;
    }

    #[inline]
    pub(super) fn unlink(&mut self, frame: Frame, list: &mut List) {
        let Entry { prev, next, .. } = self.entries[frame as usize];
        match prev {
            NIL => list.newest = next,
            prev => self.entries[prev as usize].next = next,
        }
        match next {
            NIL => list.oldest = prev,
            next => self.entries[next as usize].prev = prev,
        }
        list.len -= 1;
    }

    /// Makes a frame the newest of its list.
    #[inline]
    pub(super) fn renew(&mut self, frame: Frame, list: &mut List) {
        if list.newest != frame {
            self.unlink(frame, list);
            self.push(frame, list);
        }
    }
}
