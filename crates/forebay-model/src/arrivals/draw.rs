//! Generates arrivals block by block, dividing each block down to single requests.

use std::collections::BTreeMap;

use super::{
    Arrivals, Before, Block, GAPS_BEFORE, Key, PARTS, coarse_share, fine_share, nearest, possible,
    rate, ratio, scale,
};
use crate::counts::{Bag, Counts};
use crate::dice::RandomSource;

/// A table of bags, looked up by the nearest known key.
struct Nearest {
    bags: Vec<Bag>,
    known: BTreeMap<Key, usize>,
    /// For each key (see [`place`]), the index of its bag, or [`UNKNOWN`] until it is first looked
    /// up.
    found: Vec<u32>,
}

const UNKNOWN: u32 = u32::MAX;

/// Returns the index of a key in `found`, for at most 64 scales and two classes of at most 32
/// values.
#[inline]
fn place(key: Key) -> usize {
    usize::from(key.0) << 10 | usize::from(key.1 & 31) << 5 | usize::from(key.2 & 31)
}

impl Nearest {
    fn new(counts: &BTreeMap<Key, Counts>) -> Nearest {
        Nearest {
            bags: counts.values().map(Bag::new).collect(),
            known: counts.keys().copied().zip(0..).collect(),
            found: Vec::new(),
        }
    }

    #[inline]
    fn draw(&mut self, key: Key, dice: &mut RandomSource) -> Option<u32> {
        let place = place(key);
        let mut at = self.found.get(place).copied().unwrap_or(UNKNOWN);
        if at == UNKNOWN {
            at = *self.known.get(nearest(self.known.keys(), key)?)? as u32;
            if self.found.len() <= place {
                self.found.resize(place + 1, UNKNOWN);
            }
            self.found[place] = at;
        }
        self.bags[at as usize].draw(dice)
    }
}

/// Generates arrivals.
pub(crate) struct Clock {
    arrivals: Arrivals,
    times: Nearest,
    writes: Nearest,
    /// The current block: arrival times in ns from its start, and which requests are writes.
    at: Vec<f64>,
    is_write: Vec<bool>,
    block: usize,
    next: usize,
    begun_ns: u64,
    /// The events just before the current block.
    before: Before,
}

/// An arrival time, and whether the request is a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) at_ns: u64,
    pub(crate) is_write: bool,
}

impl Clock {
    pub(crate) fn new(arrivals: &Arrivals) -> Clock {
        Clock {
            times: Nearest::new(&arrivals.times),
            writes: Nearest::new(&arrivals.writes),
            arrivals: arrivals.clone(),
            at: Vec::new(),
            is_write: Vec::new(),
            block: 0,
            next: 0,
            begun_ns: 0,
            before: Before::default(),
        }
    }

    /// Returns the next arrival, or None after the last.
    #[inline]
    pub(crate) fn next(&mut self, dice: &mut RandomSource) -> Option<Arrival> {
        while self.next == self.is_write.len() {
            if self.block > self.arrivals.blocks.len() {
                return None;
            }
            self.begin_block(dice);
        }
        // A thousandth of a ns is added to undo rounding errors.
        let at_ns = self.begun_ns + (self.at[self.next] + 1e-3) as u64;
        let is_write = self.is_write[self.next];
        self.next += 1;
        let tick_ns = self.arrivals.tick_ns;
        Some(Arrival { at_ns: at_ns / tick_ns * tick_ns, is_write })
    }

    /// Generates the next block. After the last block, this is the single last request.
    fn begin_block(&mut self, dice: &mut RandomSource) {
        let arrivals = &self.arrivals;
        if self.block > 0 {
            self.begun_ns += arrivals.blocks[self.block - 1].duration_ns;
        }
        self.before = self.before(self.is_write.len());
        self.next = 0;
        let Some(&Block { duration_ns, writes }) = arrivals.blocks.get(self.block) else {
            self.block += 1;
            (self.at, self.is_write) = (vec![0.0], vec![arrivals.ends_with_write]);
            return;
        };
        let requests = (arrivals.begin(self.block + 1) - arrivals.begin(self.block)) as usize;
        self.block += 1;
        self.at.clear();
        self.at.resize(requests + 1, 0.0);
        self.at[requests] = duration_ns as f64;
        self.is_write.clear();
        self.is_write.resize(requests, false);
        self.divide(0, requests, writes.min(requests as u64), dice);
    }

    /// Returns the events just before a request of the block.
    #[inline]
    fn before(&self, at: usize) -> Before {
        match at {
            0 => self.before,
            _ => Before {
                gap_ns: (self.at[at] - self.at[at - 1]) as u64,
                is_write: self.is_write[at - 1],
            },
        }
    }

    fn divide(&mut self, begin: usize, end: usize, writes: u64, dice: &mut RandomSource) {
        let requests = (end - begin) as u64;
        if requests <= 1 {
            if requests == 1 {
                self.is_write[begin] = writes > 0;
            }
            return;
        }
        let middle = begin + (end - begin) / 2;
        let (scale, whole) = (scale(requests), self.at[end] - self.at[begin]);
        let before = self.before(begin);
        let halves = ((middle - begin) as u64, (end - middle) as u64);
        let mut share = 0.5;
        if whole > 0.0 {
            let gap = before.gap(scale, whole as u64, requests);
            let writing = coarse_share(writes, requests) * GAPS_BEFORE + gap;
            let key = (scale, rate(whole as u64, requests), writing);
            let drawn = self.times.draw(key, dice);
            share = drawn.map_or(0.5, |number| ratio::draw(number, halves, dice));
        }
        self.at[middle] = self.at[begin] + share * whole;
        let (least, most) = possible(writes, halves.0, halves.1);
        let mut early = least;
        if most > least {
            let key = (
                scale,
                fine_share(writes, requests),
                ratio::class_of(share) * 2 + before.wrote(scale),
            );
            let part = self.writes.draw(key, dice).map_or(PARTS / 2, u64::from);
            early = match part {
                0 => least,
                part if part > PARTS => most,
                part => {
                    let along = (part as f64 - 1.0 + dice.unit()) / PARTS as f64;
                    let drawn = least + (along * (most - least) as f64) as u64;
                    if most - least > 1 { drawn.clamp(least + 1, most - 1) } else { drawn }
                }
            };
        }
        self.divide(begin, middle, early, dice);
        self.divide(middle, end, writes - early, dice);
    }
}
