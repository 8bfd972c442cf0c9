//! Learns from requests which blocks belong together and should become contiguous by
//! defragmentation.
//!
//! A stream that continues at its last position, or slightly beyond, reads a *run*; any other step
//! is a *jump* from one address to another. A trace does not contain files, but it shows their
//! effects: a repeated jump connects two parts of one file, or of two files that are always read
//! together. A jump that occurs only once is not a pattern and is ignored.
//!
//! The addresses that are read are split into extents at those jumps. Extents are chained like
//! basic blocks in code layout: the most frequent link comes first, whether it is a jump or an
//! existing adjacency, and each extent has at most one link before it and one after it. A chain is
//! moved only if it repays the copying within the duration of the trace. Chains to be moved are
//! placed one after another in the nearest gap that the trace never touches.

use crate::contract::{Op, Request};
use crate::rearrangement::Rearrangement;

/// The unit in bytes to which addresses are rounded: the block size of common file systems.
const GRAIN: u64 = 4096;

/// A stream that skips forward by at most this many bytes is still sequential, because another
/// thread may read the gap.
const SKIP_BYTES: u64 = 1 << 20;

/// How often a jump must occur to be a pattern.
const REPEATS_MIN: u32 = 2;

/// The costs of moving blocks and of jumps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// The time of one jump of the heads, in seconds.
    pub jump_s: f64,
    /// The rate of reading or writing, in bytes per second.
    pub bytes_per_s: f64,
}

/// The result of learning: what to move, and how many jumps that saves.
#[derive(Clone, Debug, Default)]
pub struct Arrangement {
    /// The new locations of blocks; `None` if nothing should be moved.
    pub rearrangement: Option<Rearrangement>,
    /// The number of jumps between the reads of a stream.
    pub jumps: u64,
    /// The number of these jumps that occur more than once.
    pub repeated_jumps: u64,
    /// The number of jumps that the rearrangement turns into sequential reads.
    pub joined_jumps: u64,
    /// The number of chains to be moved.
    pub rows: usize,
    /// Whether moving something would have paid, but no gap was large enough.
    pub lacks_room: bool,
}

/// A range of addresses.
#[derive(Clone, Copy, Debug)]
struct At {
    start: u64,
    end: u64,
}

/// Watches requests and proposes an arrangement.
#[derive(Clone, Debug, Default)]
pub struct Arranger {
    /// The current run of each stream; `writing` has its last write.
    reading: Vec<Option<At>>,
    writing: Vec<Option<At>>,
    runs: Vec<At>,
    written: Vec<At>,
    /// Jumps from the end of a read to the start of the next one.
    jumps: Vec<(u64, u64)>,
}

impl Arranger {
    /// Learns from a request of lane 0. Uses at most 32 bytes of memory per request.
    pub fn see(&mut self, request: &Request) {
        if request.len == 0 || !request.op.moves_data() || request.lane != 0 {
            return;
        }
        let now = At {
            start: request.offset / GRAIN * GRAIN,
            end: request.end().div_ceil(GRAIN).saturating_mul(GRAIN),
        };
        let reads = request.op == Op::Read;
        let (places, past) = if reads {
            (&mut self.reading, &mut self.runs)
        } else {
            (&mut self.writing, &mut self.written)
        };
        let stream = request.stream as usize;
        if stream >= places.len() {
            places.resize(stream + 1, None);
        }
        let reach = if reads { SKIP_BYTES } else { 0 };
        match &mut places[stream] {
            Some(run) if (run.start..=run.end.saturating_add(reach)).contains(&now.start) => {
                run.end = run.end.max(now.end);
            }
            place => {
                if let Some(run) = place.replace(now) {
                    past.push(run);
                    if reads {
                        self.jumps.push((run.end, now.start));
                    }
                }
            }
        }
    }

    /// Marks the first `bytes` bytes as occupied, whether or not the trace uses them.
    pub fn take(&mut self, bytes: u64) {
        self.written.push(At { start: 0, end: bytes.next_multiple_of(GRAIN) });
    }

    /// Returns the arrangement of a disk of `capacity` bytes.
    pub fn finish(mut self, capacity: u64, prices: Prices) -> Arrangement {
        self.runs.extend(self.reading.drain(..).flatten());
        self.written.extend(self.writing.drain(..).flatten());
        self.jumps.sort_unstable();
        let mut learnt = Arrangement { jumps: self.jumps.len() as u64, ..Arrangement::default() };
        let mut joins = Vec::new();
        for same in self.jumps.chunk_by(|a, b| a == b) {
            if same.len() as u32 >= REPEATS_MIN {
                learnt.repeated_jumps += same.len() as u64;
                joins.push((same[0], same.len() as u64));
            }
        }
        let extents = Extents::cut(&self.runs, &joins);
        let rows = extents.rows(&joins, prices);
        let moved: Vec<(u64, u64)> = rows.iter().flat_map(|row| row.places.clone()).collect();
        let total: u64 = moved.iter().map(|place| place.1).sum();
        if total == 0 {
            return learnt;
        }
        let touched = union(self.runs.iter().chain(&self.written).copied().collect());
        let middle = moved.iter().map(|&(at, len)| at as f64 * len as f64).sum::<f64>();
        let middle = (middle / total as f64) as u64;
        match gap(&touched, capacity / GRAIN * GRAIN, total, middle) {
            Some(to) => {
                learnt.rearrangement = Rearrangement::laid(&moved, to);
                learnt.rows = rows.len();
                learnt.joined_jumps = rows.iter().map(|row| row.joined).sum();
            }
            None => learnt.lacks_room = true,
        }
        learnt
    }
}

/// Merges ranges that overlap or touch, and sorts them.
fn union(mut ranges: Vec<At>) -> Vec<At> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut union: Vec<At> = Vec::new();
    for range in ranges {
        match union.last_mut() {
            Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
            _ => union.push(range),
        }
    }
    union
}

/// Returns a position for `len` bytes in the gaps between the `touched` ranges, as close as
/// possible to `middle`.
fn gap(touched: &[At], capacity: u64, len: u64, middle: u64) -> Option<u64> {
    let starts = std::iter::once(0).chain(touched.iter().map(|range| range.end));
    let ends = touched.iter().map(|range| range.start).chain([capacity]);
    let fits = starts.zip(ends.map(|end| end.min(capacity)));
    let place = |(start, end): (u64, u64)| {
        let last = end.checked_sub(len).filter(|&last| last >= start)?;
        Some((middle / GRAIN * GRAIN).clamp(start, last))
    };
    fits.filter_map(place).min_by_key(|place| place.abs_diff(middle))
}

/// A chain of extents to be moved.
struct ChainRow {
    places: Vec<(u64, u64)>,
    joined: u64,
}

/// The ranges that were read, cut into pieces that are moved as a whole, sorted by address.
struct Extents {
    places: Vec<At>,
    /// The number of runs that continue from each extent into the next.
    crossed: Vec<u64>,
}

/// A link between two extents and how often it is used.
#[derive(Clone, Copy)]
struct Link {
    used: u64,
    is_jump: bool,
    from: usize,
    to: usize,
}

const NONE: usize = usize::MAX;

impl Extents {
    /// Cuts the ranges covered by `runs` at the ends of `joins`.
    fn cut(runs: &[At], joins: &[((u64, u64), u64)]) -> Extents {
        let mut cuts: Vec<u64> = joins.iter().flat_map(|&((from, to), _)| [from, to]).collect();
        cuts.sort_unstable();
        cuts.dedup();
        let mut places = Vec::new();
        for mut range in union(runs.to_vec()) {
            let first = cuts.partition_point(|&cut| cut <= range.start);
            for &cut in cuts[first..].iter().take_while(|&&cut| cut < range.end) {
                places.push(At { start: range.start, end: cut });
                range.start = cut;
            }
            places.push(range);
        }
        let sorted = |key: fn(&At) -> u64| {
            let mut keys: Vec<u64> = runs.iter().map(key).collect();
            keys.sort_unstable();
            keys
        };
        let (starts, ends) = (sorted(|run| run.start), sorted(|run| run.end));
        let crossed = places.iter().map(|place| {
            let begun = starts.partition_point(|&start| start < place.end);
            let over = ends.partition_point(|&end| end <= place.end);
            (begun - over) as u64
        });
        Extents { crossed: crossed.collect(), places }
    }

    fn len(&self, extent: usize) -> u64 {
        self.places[extent].end - self.places[extent].start
    }

    /// Returns the extent whose `key` (its start or end) is `address`.
    fn at(&self, address: u64, key: fn(&At) -> u64) -> Option<usize> {
        self.places.binary_search_by_key(&address, key).ok()
    }

    /// Returns all links, the most used first; adjacencies come before equally used jumps.
    fn links(&self, joins: &[((u64, u64), u64)], prices: Prices) -> Vec<Link> {
        let worth = |link: &Link| {
            let bytes = self.len(link.from) + self.len(link.to);
            link.used as f64 * prices.jump_s >= bytes as f64 / prices.bytes_per_s
        };
        let jump = |&((from, to), used): &((u64, u64), u64)| {
            let (from, to) = (self.at(from, |at| at.end)?, self.at(to, |at| at.start)?);
            Some(Link { used, is_jump: true, from, to })
        };
        let neighbours = self.crossed.iter().enumerate().filter(|(_, used)| **used > 0);
        let there =
            neighbours.map(|(from, &used)| Link { used, is_jump: false, from, to: from + 1 });
        let jumps = joins.iter().filter_map(jump).filter(worth);
        let mut links: Vec<Link> = there.chain(jumps).collect();
        links.sort_by_key(|link| (std::cmp::Reverse(link.used), link.is_jump, link.from, link.to));
        links
    }

    /// Returns the chains that are worth moving, by address.
    fn rows(&self, joins: &[((u64, u64), u64)], prices: Prices) -> Vec<ChainRow> {
        let mut chains = Chains::new(self.places.len());
        for link in self.links(joins, prices) {
            chains.join(link);
        }
        let heads = (0..self.places.len()).filter(|&extent| chains.before[extent] == NONE);
        heads.filter_map(|head| self.row(&chains, head, prices)).collect()
    }

    /// Returns the chain that starts with `head` if moving it gains more than it costs.
    fn row(&self, chains: &Chains, head: usize, prices: Prices) -> Option<ChainRow> {
        let extents = || {
            std::iter::successors(Some(head), |&e| Some(chains.behind[e]).filter(|&e| e != NONE))
        };
        let joined: u64 = extents().map(|extent| chains.jumps[extent]).sum();
        // Runs across an edge that the chain separates become jumps.
        let parted = |extent: usize| {
            let behind = if chains.behind[extent] == extent + 1 { 0 } else { self.crossed[extent] };
            let before = match extent.checked_sub(1) {
                Some(other) if chains.behind[other] != extent => self.crossed[other],
                _ => 0,
            };
            before + behind
        };
        let lost: u64 = extents().map(parted).sum();
        let bytes: u64 = extents().map(|extent| self.len(extent)).sum();
        let pieces = extents().filter(|&extent| chains.behind[extent] != extent + 1).count();
        let gained_s = (joined as f64 - lost as f64) * prices.jump_s;
        let cost_s = 2.0 * (bytes as f64 / prices.bytes_per_s + pieces as f64 * prices.jump_s);
        let places = || extents().map(|extent| (self.places[extent].start, self.len(extent)));
        (joined > 0 && gained_s > cost_s).then(|| ChainRow { places: places().collect(), joined })
    }
}

/// Extents linked into chains.
struct Chains {
    before: Vec<usize>,
    behind: Vec<usize>,
    /// The number of jumps that the link behind each extent saves.
    jumps: Vec<u64>,
    /// The chain of each extent, as a union-find forest.
    of: Vec<usize>,
}

impl Chains {
    fn new(extents: usize) -> Chains {
        Chains {
            before: vec![NONE; extents],
            behind: vec![NONE; extents],
            jumps: vec![0; extents],
            of: (0..extents).collect(),
        }
    }

    fn chain(&mut self, mut extent: usize) -> usize {
        while self.of[extent] != extent {
            self.of[extent] = self.of[self.of[extent]];
            extent = self.of[extent];
        }
        extent
    }

    /// Links two chains, if one ends at the start of the link and the other begins at its end.
    fn join(&mut self, link: Link) {
        let free = self.behind[link.from] == NONE && self.before[link.to] == NONE;
        let (a, b) = (self.chain(link.from), self.chain(link.to));
        if !free || a == b {
            return;
        }
        self.of[a] = b;
        self.behind[link.from] = link.to;
        self.before[link.to] = link.from;
        if link.is_jump {
            self.jumps[link.from] = link.used;
        }
    }
}

#[cfg(test)]
mod tests;
