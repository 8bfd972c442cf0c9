//! Sorts events by time: within a window for each file, whose events are slightly out of order,
//! then by merging the files.
//!
//! Invariant: memory is bounded by twice [`AHEAD`] events per file. Events that are late by more
//! than the window are returned late, and consumers must handle them.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, VecDeque};

use super::event::{Event, Source};
use crate::error::TraceError;

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

/// Merges the events of several sources, by time and then by sequence number.
pub(crate) struct Merge<S> {
    files: Vec<Sorted<S>>,
    /// The key of the next event of each unfinished source, and the index of the source.
    heads: BinaryHeap<Reverse<((u64, u32), usize)>>,
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
        Ok(Merge { files, heads })
    }

    pub(crate) fn next(&mut self) -> Result<Option<Event>, TraceError> {
        let Some(mut head) = self.heads.peek_mut() else { return Ok(None) };
        let Some(file) = self.files.get_mut(head.0.1) else { return Ok(None) };
        let event = file.next()?;
        match file.peek_key()? {
            Some(key) => head.0.0 = key,
            None => drop(PeekMut::pop(head)),
        }
        Ok(event)
    }

    pub(crate) fn sources_mut(&mut self) -> impl Iterator<Item = &mut S> {
        self.files.iter_mut().map(|file| &mut file.source)
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::What;
    use super::*;

    struct Listed(std::vec::IntoIter<(u64, u32)>);

    impl Source for Listed {
        fn next(&mut self) -> Result<Option<Event>, TraceError> {
            let event = |(time_ns, sequence)| Event {
                time_ns,
                sequence,
                pid: 0,
                what: What::Name("x".into()),
            };
            Ok(self.0.next().map(event))
        }
    }

    fn keys(lists: Vec<Vec<(u64, u32)>>) -> Vec<(u64, u32)> {
        let sources = lists.into_iter().map(|list| Listed(list.into_iter())).collect();
        let mut merge = Merge::new(sources).unwrap();
        std::iter::from_fn(|| merge.next().unwrap()).map(|event| event.key()).collect()
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
