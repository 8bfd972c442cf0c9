//! What was asked lately: ends of recent requests and places used before, as fitting looks them up
//! and generating draws from them. In bounded memory: what is old enough is forgotten.

/// Ends of recent requests of a range, kept to be continued.
pub const HEADS: usize = 32;

/// Recent ends, most recent first.
#[derive(Clone, Debug)]
pub struct Heads {
    ends: Vec<u64>,
    /// Who asked, how much, and whether to read, at each.
    notes: Vec<(u32, u32, bool)>,
}

impl Default for Heads {
    fn default() -> Heads {
        Heads { ends: Vec::with_capacity(HEADS), notes: Vec::with_capacity(HEADS) }
    }
}

impl Heads {
    /// How many ends are known.
    #[inline]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The rank of the request that ended at `address`.
    #[inline]
    pub fn find(&self, address: u64) -> Option<usize> {
        self.ends.iter().position(|&end| end == address)
    }

    /// End, stream and length at a rank.
    #[inline]
    pub fn at(&self, rank: usize) -> (u64, u32, u32) {
        (self.ends[rank], self.notes[rank].0, self.notes[rank].1)
    }

    /// Whether a rank was read.
    #[inline]
    pub fn is_read(&self, rank: usize) -> bool {
        self.notes[rank].2
    }

    /// Forgets the end of a rank: what goes on there goes on in another range.
    pub fn remove(&mut self, rank: usize) {
        self.ends.remove(rank);
        self.notes.remove(rank);
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
        let last = match from.or_else(|| self.find(end)) {
            Some(rank) => rank,
            None if self.ends.len() < HEADS => {
                self.ends.push(0);
                self.notes.push((0, 0, false));
                self.ends.len() - 1
            }
            None => HEADS - 1,
        };
        self.ends.copy_within(..last, 1);
        self.notes.copy_within(..last, 1);
        self.ends[0] = end;
        self.notes[0] = (stream, len, is_read);
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

/// The latest request that began at each place: a table without chains, where a later place may take
/// an earlier one's row.
#[derive(Clone, Debug)]
pub struct Latest {
    rows: Vec<(u64, u64)>,
    shift: u32,
}

/// Places are told apart by this.
const PLACE_BYTES: u64 = 4096;
/// No place has this number.
const NOWHERE: u64 = u64::MAX;

impl Latest {
    /// For about so many places.
    pub fn new(places: u64) -> Latest {
        let rows = (4 * places).next_power_of_two().clamp(1 << 10, 1 << 21) as usize;
        Latest { rows: vec![(NOWHERE, 0); rows], shift: 64 - rows.ilog2() }
    }

    #[inline]
    fn row(&self, place: u64) -> usize {
        (place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    /// The number of the latest request that began in the block of `address`.
    #[inline]
    pub fn find(&self, address: u64) -> Option<u64> {
        let place = address / PLACE_BYTES;
        let (found, number) = self.rows[self.row(place)];
        (found == place).then_some(number)
    }

    /// Request `number` began at `address`.
    #[inline]
    pub fn note(&mut self, address: u64, number: u64) {
        let place = address / PLACE_BYTES;
        let row = self.row(place);
        self.rows[row] = (place, number);
    }
}

/// Ground that was used, and by which request last: a bit for each 4 KiB, rows of 64, in bounded
/// memory. Where the table is full, old rows give way to new ones.
#[derive(Clone, Debug)]
pub struct Touched {
    /// Row, bits, number of the request that used it last.
    rows: Vec<(u64, u64, u64)>,
    shift: u32,
}

/// Rows looked at for one.
const ROW_PROBES: usize = 8;

impl Touched {
    /// For about so many requests.
    pub fn new(requests: u64) -> Touched {
        let rows = (4 * requests).next_power_of_two().clamp(1 << 10, 1 << 21) as usize;
        Touched { rows: vec![(NOWHERE, 0, 0); rows], shift: 64 - rows.ilog2() }
    }

    #[inline]
    fn find(&self, row: u64) -> Option<usize> {
        let first = (row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize;
        let at = |probe: usize| (first + probe) & (self.rows.len() - 1);
        (0..ROW_PROBES)
            .map(at)
            .take_while(|&at| self.rows[at].0 != NOWHERE)
            .find(|&at| self.rows[at].0 == row)
    }

    /// The number of the last request near `address`, if that place was used.
    #[inline]
    pub fn last(&self, address: u64) -> Option<u64> {
        let block = address / PLACE_BYTES;
        let (_, bits, number) = self.rows[self.find(block / 64)?];
        (bits >> (block % 64) & 1 == 1).then_some(number)
    }

    /// Request `number` used this.
    #[inline]
    pub fn mark(&mut self, address: u64, len: u32, number: u64) {
        let mut block = address / PLACE_BYTES;
        let end = address.saturating_add(u64::from(len)).div_ceil(PLACE_BYTES);
        while block < end {
            let row = block / 64;
            let next = end.min((row + 1) * 64);
            let count = next - block;
            let bits = (u64::MAX >> (64 - count)) << (block % 64);
            let slot = self.find(row).unwrap_or_else(|| self.free(row));
            let (key, old, _) = self.rows[slot];
            let kept = if key == row { old } else { 0 };
            self.rows[slot] = (row, kept | bits, number);
            block = next;
        }
    }

    fn free(&self, row: u64) -> usize {
        let first = (row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize;
        let at = |probe: usize| (first + probe) & (self.rows.len() - 1);
        (0..ROW_PROBES).map(at).find(|&at| self.rows[at].0 == NOWHERE).unwrap_or(first)
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

    #[test]
    fn ground_is_remembered_to_the_block() {
        let mut touched = Touched::new(10);
        touched.mark(60 * 4096, 10 * 4096, 5);
        let used: Vec<u64> = (0..200).filter(|n| touched.last(n * 4096).is_some()).collect();
        assert_eq!(used, (60..70).collect::<Vec<_>>());
        assert_eq!(touched.last(69 * 4096 + 4095), Some(5));
        // More than there is room for.
        touched.mark(0, u32::MAX, 6);
    }

    #[test]
    fn the_latest_use_is_found() {
        let mut latest = Latest::new(10);
        latest.note(4096, 1);
        latest.note(5000, 2);
        assert_eq!((latest.find(4096), latest.find(8192)), (Some(2), None));
    }
}
