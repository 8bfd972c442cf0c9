//! What was asked lately: ends of recent requests and places used before, as fitting looks them up
//! and generating draws from them. In bounded memory: what is old enough is forgotten.

mod latest;
mod starts;
mod touched;

pub use latest::Latest;
pub use starts::Starts;
pub use touched::Touched;

/// Ends of recent requests of a range, kept to be continued.
pub const HEADS: usize = 32;

/// Recent ends, most recent first.
#[derive(Clone, Debug, Default)]
pub struct Heads {
    len: usize,
    ends: [u64; HEADS],
    /// Who asked, and how much, at each.
    notes: [(u32, u32); HEADS],
    /// Whether to read: a bit for each.
    reads: u32,
}

impl Heads {
    /// How many ends are known.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The rank of the request that ended at `address`.
    #[inline]
    pub fn find(&self, address: u64) -> Option<usize> {
        // All at once is quicker than one after another.
        let found = self
            .ends
            .iter()
            .zip(0..)
            .fold(0u32, |found, (&end, rank)| found | u32::from(end == address) << rank);
        let rank = found.trailing_zeros() as usize;
        (rank < self.len).then_some(rank)
    }

    /// End, stream and length at a rank.
    #[inline]
    pub fn at(&self, rank: usize) -> (u64, u32, u32) {
        (self.ends[rank], self.notes[rank].0, self.notes[rank].1)
    }

    /// Whether a rank was read.
    #[inline]
    pub fn is_read(&self, rank: usize) -> bool {
        self.reads >> rank & 1 == 1
    }

    /// Forgets the end of a rank: what goes on there goes on in another range.
    pub fn remove(&mut self, rank: usize) {
        self.ends.copy_within(rank + 1..self.len, rank);
        self.notes.copy_within(rank + 1..self.len, rank);
        let below = (1 << rank) - 1;
        self.reads = self.reads & below | self.reads >> 1 & !below;
        self.len -= 1;
    }

    /// A request ended at `end`; it continued the one of rank `from`, if any.
    #[inline]
    pub fn push(
        &mut self,
        from: Option<usize>,
        end: u64,
        (stream, len, is_read): (u32, u32, bool),
    ) {
        // What ended there before is continued no more than once.
        let last = from.or_else(|| self.find(end)).unwrap_or_else(|| {
            self.len = (self.len + 1).min(HEADS);
            self.len - 1
        });
        if last > 0 {
            self.ends.copy_within(..last, 1);
            self.notes.copy_within(..last, 1);
        }
        self.ends[0] = end;
        self.notes[0] = (stream, len);
        let above = !(u32::MAX >> (HEADS - 1 - last));
        self.reads = self.reads & above | self.reads << 1 & !above | u32::from(is_read);
    }
}

/// A request of the past: first byte and length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// Its first byte.
    pub address: u64,
    /// Its bytes.
    pub len: u32,
}

/// The requests of a range in order, the oldest forgotten.
#[derive(Clone, Debug, Default)]
pub struct Ring {
    past: Vec<Past>,
    count: u64,
}

impl Ring {
    /// Requests so far.
    #[inline]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Adds one, keeping at most `kept`, a power of two.
    #[inline]
    pub fn push(&mut self, past: Past, kept: usize) {
        if self.past.len() < kept {
            self.past.push(past);
        } else {
            let len = self.past.len() as u64;
            self.past[(self.count & (len - 1)) as usize] = past;
        }
        self.count += 1;
    }

    /// The request of a number, if it is remembered.
    #[inline]
    pub fn get(&self, number: u64) -> Option<Past> {
        let len = self.past.len() as u64;
        if number >= self.count || self.count - number > len {
            return None;
        }
        let at = if self.count == len { number } else { number & (len - 1) };
        Some(self.past[at as usize])
    }
}

/// The past of a range.
#[derive(Clone, Debug, Default)]
pub struct RangePast {
    /// Where its latest requests ended.
    pub heads: Heads,
    /// Its requests.
    pub ring: Ring,
    /// Number of the request that was used again last.
    pub referenced: u64,
}

impl RangePast {
    /// What distances in a range that begins at `first` are measured from: where its last request ended.
    #[inline]
    pub fn reference(&self, first: u64) -> u64 {
        if self.heads.is_empty() { first } else { self.heads.at(0).0 }
    }
}

/// A request that becomes past.
#[derive(Clone, Copy, Debug)]
pub struct Passing {
    /// Its first byte.
    pub address: u64,
    /// Its bytes.
    pub len: u32,
    /// Who asked.
    pub stream: u32,
    /// Whether to read.
    pub is_read: bool,
    /// The rank of the run that it continued.
    pub continued: Option<usize>,
}

impl Passing {
    /// The byte after its last.
    #[inline]
    pub fn end(&self) -> u64 {
        self.address.saturating_add(u64::from(self.len))
    }
}

/// What comes next may go on where a request of range `begins_in` ended, in range `ends_in`, or come back
/// to where it was. Each range keeps its share of [`KEPT`].
pub fn remember(
    ranges: &mut [impl AsMut<RangePast>],
    (begins_in, ends_in): (usize, usize),
    (latest, touched): (&mut Latest, &mut Touched),
    passing: Passing,
) {
    let Passing { address, len, stream, is_read, continued } = passing;
    let kept = kept(ranges.len());
    let past = ranges[begins_in].as_mut();
    latest.note(address, past.ring.count());
    touched.mark(address, len, past.ring.count());
    past.ring.push(Past { address, len }, kept);
    let note = (stream, len, is_read);
    if ends_in == begins_in {
        past.heads.push(continued, passing.end(), note);
        return;
    }
    // The run goes on in the other range.
    if let Some(rank) = continued {
        past.heads.remove(rank);
    }
    ranges[ends_in].as_mut().heads.push(None, passing.end(), note);
}

/// Requests that are remembered of all ranges together.
const KEPT: usize = 8 << 20;

/// Requests that each of so many ranges remembers: a power of two.
pub fn kept(ranges: usize) -> usize {
    (KEPT / ranges.next_power_of_two()).clamp(1 << 14, 1 << 20)
}

impl AsMut<RangePast> for RangePast {
    fn as_mut(&mut self) -> &mut RangePast {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_move_to_the_front() {
        let mut heads = Heads::default();
        (0..40).for_each(|n| heads.push(None, n, (0, 1, true)));
        assert_eq!(
            (heads.len(), heads.find(39), heads.find(8), heads.find(7)),
            (32, Some(0), Some(31), None)
        );
        heads.push(Some(31), 100, (5, 1, true));
        assert_eq!((heads.at(0), heads.find(39), heads.find(8)), ((100, 5, 1), Some(1), None));
    }

    #[test]
    fn a_ring_forgets_the_oldest() {
        let mut ring = Ring::default();
        for n in 0..10u64 {
            ring.push(Past { address: n, len: 0 }, 4);
            assert_eq!(ring.get(n).map(|past| past.address), Some(n));
            assert_eq!(ring.get(n + 1), None);
        }
        assert_eq!((ring.get(5), ring.get(6).map(|past| past.address)), (None, Some(6)));
    }
}
