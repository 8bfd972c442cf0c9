//! Sorts events by time: within a window for each file, whose events are slightly out of order,
//! then by merging the files.
//!
//! Invariant: memory is bounded by twice [`AHEAD`] events per file. Events that are late by more
//! than the window are returned late, and consumers must handle them.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use super::event::{Event, EventKind, Source};
use crate::TraceError;

/// The size of the window: by how many places an event may be out of order within its file.
const AHEAD: usize = 512;

/// A source whose events are sorted within a window.
pub(crate) struct Sorted<S> {
    pub(crate) source: S,
    window: VecDeque<Event>,
    ended: bool,
}

impl<S: Source> Sorted<S> {
    pub(crate) fn new(source: S) -> Sorted<S> {
        Sorted { source, window: VecDeque::new(), ended: false }
    }

    /// Ensures that the next event is at the front of the window.
    fn fill(&mut self) -> Result<(), TraceError> {
        if self.ended || self.window.len() > AHEAD {
            return Ok(());
        }
        let mut newest = self.window.back().map_or((0, 0), Event::key);
        let mut disordered = false;
        while self.window.len() < 2 * AHEAD {
            let Some(event) = self.source.next()? else {
                self.ended = true;
                break;
            };
            disordered |= event.key() < newest;
            newest = event.key();
            self.window.push_back(event);
        }
        if disordered {
            self.window.make_contiguous().sort_by_key(Event::key);
        }
        Ok(())
    }

    pub(crate) fn next(&mut self) -> Result<Option<Event>, TraceError> {
        self.fill()?;
        Ok(self.window.pop_front())
    }

    fn peek_key(&mut self) -> Result<Option<(u64, u32)>, TraceError> {
        self.fill()?;
        Ok(self.window.front().map(Event::key))
    }
}

/// Merges the events of several sources, by time and then by sequence number. If sources contain
/// the same event, because a file was copied, it is returned once.
pub(crate) struct Merge<S> {
    files: Vec<Sorted<S>>,
    /// The key of the next event of each unfinished source, and the index of the source.
    heads: BinaryHeap<Reverse<((u64, u32), usize)>>,
    /// Events with equal keys, which are returned next.
    equal: VecDeque<Event>,
    /// The number of events of a source that are copies of those of an earlier source.
    copies: BTreeMap<[usize; 2], u64>,
}

impl<S: Source> Merge<S> {
    /// Creates the merger and reads the first events of every source.
    pub(crate) fn new(sources: Vec<S>) -> Result<Merge<S>, TraceError> {
        let mut files: Vec<_> = sources.into_iter().map(Sorted::new).collect();
        let mut heads = BinaryHeap::with_capacity(files.len());
        for (i, file) in files.iter_mut().enumerate() {
            if let Some(key) = file.peek_key()? {
                heads.push(Reverse((key, i)));
            }
        }
        Ok(Merge { files, heads, equal: VecDeque::new(), copies: BTreeMap::new() })
    }

    pub(crate) fn next(&mut self) -> Result<Option<Event>, TraceError> {
        if let Some(event) = self.equal.pop_front() {
            return Ok(Some(event));
        }
        let Some((source, event)) = self.pop()? else { return Ok(None) };
        if self.next_key() != Some(event.key()) {
            return Ok(Some(event));
        }
        let key = event.key();
        let mut equal = vec![(source, event)];
        while self.next_key() == Some(key) {
            equal.extend(self.pop()?);
        }
        self.equal = self.without_copies(equal);
        Ok(self.equal.pop_front())
    }

    fn next_key(&self) -> Option<(u64, u32)> {
        self.heads.peek().map(|head| head.0.0)
    }

    /// Removes the next event. Also returns the index of its source.
    fn pop(&mut self) -> Result<Option<(usize, Event)>, TraceError> {
        let Some(mut head) = self.heads.peek_mut() else { return Ok(None) };
        let source = head.0.1;
        let Some(file) = self.files.get_mut(source) else { return Ok(None) };
        let event = file.next()?;
        match file.peek_key()? {
            Some(key) => head.0.0 = key,
            None => drop(PeekMut::pop(head)),
        }
        Ok(event.map(|event| (source, event)))
    }

    /// Removes and counts events that another source contains, too. Within a source, no event is a
    /// copy.
    fn without_copies(&mut self, equal: Vec<(usize, Event)>) -> VecDeque<Event> {
        let mut unique: Vec<(usize, Event, Vec<usize>)> = Vec::with_capacity(equal.len());
        for (source, event) in equal {
            let original = unique.iter_mut().find(|(of, other, copied)| {
                *of != source && *other == event && !copied.contains(&source)
            });
            let Some((of, _, copied)) = original else {
                unique.push((source, event, Vec::new()));
                continue;
            };
            copied.push(source);
            if !matches!(event.kind, EventKind::Name(_)) {
                *self.copies.entry([source, *of]).or_default() += 1;
            }
        }
        unique.into_iter().map(|(_, event, _)| event).collect()
    }

    /// Returns the pairs of a source and an earlier source of which it contains copies, with their
    /// number.
    pub(crate) fn copies(&self) -> &BTreeMap<[usize; 2], u64> {
        &self.copies
    }

    pub(crate) fn sources_mut(&mut self) -> impl Iterator<Item = &mut S> {
        self.files.iter_mut().map(|file| &mut file.source)
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::EventKind;
    use super::*;

    struct Listed(std::vec::IntoIter<(u64, u32)>);

    impl Source for Listed {
        fn next(&mut self) -> Result<Option<Event>, TraceError> {
            let event =
                |(time_ns, sequence)| Event { time_ns, sequence, pid: 0, kind: EventKind::Run };
            Ok(self.0.next().map(event))
        }
    }

    type Key = (u64, u32);

    fn merged(lists: Vec<Vec<Key>>) -> (Vec<Key>, Vec<([usize; 2], u64)>) {
        let sources = lists.into_iter().map(|list| Listed(list.into_iter())).collect();
        let mut merge = Merge::new(sources).unwrap();
        let keys = std::iter::from_fn(|| merge.next().unwrap()).map(|event| event.key());
        (keys.collect(), merge.copies().iter().map(|(&pair, &count)| (pair, count)).collect())
    }

    fn keys(lists: Vec<Vec<(u64, u32)>>) -> Vec<(u64, u32)> {
        merged(lists).0
    }

    #[test]
    fn events_of_a_copied_file_are_returned_once() {
        // An event that occurs twice in one list is not a copy.
        let list = vec![(1, 1), (2, 2), (2, 2), (9, 3)];
        let other = vec![(1, 0), (3, 3)];
        let all = [(1, 0), (1, 1), (2, 2), (2, 2), (3, 3), (9, 3)];
        let (got, copies) = merged(vec![list.clone(), other.clone(), list.clone()]);
        assert_eq!((got, copies), (all.to_vec(), vec![([2, 0], 4)]));
        let (got, copies) = merged(vec![list[..2].to_vec(), other, list.clone(), list]);
        assert_eq!((got, copies), (all.to_vec(), vec![([2, 0], 2), ([3, 0], 2), ([3, 2], 2)]));
    }

    #[test]
    fn files_are_merged_by_time_then_sequence() {
        let got = keys(vec![vec![(1, 1), (5, 2)], vec![], vec![(1, 0), (2, 1), (9, 2)]]);
        assert_eq!(got, [(1, 0), (1, 1), (2, 1), (5, 2), (9, 2)]);
    }

    #[test]
    fn a_file_is_sorted_across_refills() {
        let mut list: Vec<_> = (0..5000).map(|i| (i, 0)).collect();
        for chunk in list.chunks_mut(AHEAD / 2) {
            chunk.reverse();
        }
        let got = keys(vec![list]);
        assert!(got.is_sorted());
        assert_eq!(got.len(), 5000);
    }
}
