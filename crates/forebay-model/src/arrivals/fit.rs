//! Fits arrivals block by block, dividing each block down to single requests.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::{Arrivals, BLOCK_MAX, BLOCK_MIN, Before, Block, Division, Key, PARTS, ratio};
use crate::counts::Counts;
use crate::parts::Parts;

/// Collects arrivals.
pub(crate) struct ArrivalsFit {
    arrivals: Arrivals,
    /// For each request of the current block, its arrival time in ns and the number of writes
    /// before it.
    times: Vec<u64>,
    writes: Vec<u32>,
    /// Whether the latest request is a write.
    writes_last: bool,
    divisions: Tables,
    /// The events just before the current block.
    before: Before,
    seen: u64,
    end: u64,
}

impl ArrivalsFit {
    /// Creates a fitter for `requests` requests.
    pub(crate) fn new(requests: u64, tick_ns: u64, blocks_wanted: u64) -> ArrivalsFit {
        let blocks = blocks_wanted.min(requests / BLOCK_MIN).max(requests / BLOCK_MAX).max(1);
        let arrivals = Arrivals {
            requests,
            tick_ns: tick_ns.max(1),
            parts: Parts::new(blocks),
            blocks: Vec::new(),
            ends_with_write: false,
            times: BTreeMap::new(),
            writes: BTreeMap::new(),
        };
        ArrivalsFit {
            end: arrivals.begin(1),
            arrivals,
            times: Vec::new(),
            writes: Vec::new(),
            writes_last: false,
            divisions: Tables::default(),
            before: Before::default(),
            seen: 0,
        }
    }

    /// Adds the next request.
    #[inline]
    pub(crate) fn add(&mut self, at_ns: u64, is_write: bool) {
        let before = self.writes.last().map_or(0, |writes| writes + u32::from(self.writes_last));
        self.times.push(at_ns);
        self.writes.push(before);
        self.writes_last = is_write;
        if self.seen == self.end && self.times.len() > 1 {
            self.end_block();
        }
        self.seen += 1;
    }

    /// Ends the block at the arrival of the latest request, which is the first of the next block.
    fn end_block(&mut self) {
        let requests = self.times.len() - 1;
        let duration_ns = self.times[requests] - self.times[0];
        let writes = self.writes[requests].into();
        self.arrivals.blocks.push(Block { duration_ns, writes });
        self.divide(0, requests);
        self.before = self.before(requests);
        self.times = vec![self.times[requests]];
        self.writes = vec![0];
        self.end = self.arrivals.begin(self.arrivals.blocks.len() + 1);
    }

    /// Returns the events just before a request of the block.
    fn before(&self, at: usize) -> Before {
        match at {
            0 => self.before,
            _ => Before {
                gap_ns: self.times[at] - self.times[at - 1],
                is_write: self.writes[at] > self.writes[at - 1],
            },
        }
    }

    fn divide(&mut self, begin: usize, end: usize) {
        if end - begin <= 1 {
            return;
        }
        let middle = begin + (end - begin) / 2;
        let (times, writes) = (&self.times, &self.writes);
        self.divisions.add(Division {
            times: (times[middle] - times[begin], times[end] - times[middle]),
            writes: ((writes[middle] - writes[begin]).into(), (writes[end] - writes[begin]).into()),
            halves: ((middle - begin) as u64, (end - middle) as u64),
            before: self.before(begin),
        });
        self.divide(begin, middle);
        self.divide(middle, end);
    }

    pub(crate) fn finish(mut self) -> Arrivals {
        self.arrivals.ends_with_write = self.writes_last;
        if self.arrivals.blocks.is_empty() {
            self.arrivals.blocks.push(Block { duration_ns: 0, writes: 0 });
        }
        let kept = |table: FxHashMap<Key, Vec<u32>>| {
            table.into_iter().map(|(key, counts)| (key, Counts::of(&counts))).collect()
        };
        self.arrivals.times = kept(self.divisions.times);
        self.arrivals.writes = kept(self.divisions.writes);
        self.arrivals.shared()
    }
}

/// The counts of divisions. Each request causes up to two divisions, so adding one must be no more
/// than a lookup.
#[derive(Default)]
struct Tables {
    times: FxHashMap<Key, Vec<u32>>,
    writes: FxHashMap<Key, Vec<u32>>,
}

impl Tables {
    #[inline]
    fn add(&mut self, division: Division) {
        let count = |table: &mut FxHashMap<Key, Vec<u32>>, key: Key, number: u32, numbers: u32| {
            table.entry(key).or_insert_with(|| vec![0; numbers as usize])[number as usize] += 1;
        };
        if let Some((key, ratio)) = division.of_time() {
            count(&mut self.times, key, ratio, ratio::MAX + 1);
        }
        if let Some((key, part)) = division.of_writes() {
            count(&mut self.writes, key, part, PARTS as u32 + 2);
        }
    }
}
