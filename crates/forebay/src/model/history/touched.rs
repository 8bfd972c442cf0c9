//! Ground that was used, and by which request last.

/// 64 blocks of a grain. None of them used: the row is free.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    bits: u64,
    /// Its number, as far as 32 bits go: ground 128 TiB apart is not told apart.
    key: u32,
    /// The last request, as far as 32 bits go.
    number: u32,
}

/// Neighbouring rows: a cache line.
const LANES: usize = 4;

#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Line([Row; LANES]);

/// Ground that was used, and by which request last: a bit for each grain, rows of 64, in bounded
/// memory. Where the table is full, old rows give way to new ones.
#[derive(Clone, Debug)]
pub struct Touched {
    lines: Vec<Line>,
    used: usize,
    lines_max: usize,
    /// A block has this power of two of bytes.
    grain_power: u32,
    shift: u32,
}

/// Lines looked at for a row.
const PROBES: usize = 8;
/// Lines of a new table.
const LINES_MIN: usize = 1 << 8;
/// Lines of the largest: 32 MiB.
const LINES_MAX: u64 = 1 << 19;

impl Touched {
    /// For about so many requests, and blocks of so many bytes, a power of two.
    pub fn new(requests: u64, grain_bytes: u32) -> Touched {
        let lines_max = requests.next_power_of_two().clamp(LINES_MIN as u64, LINES_MAX) as usize;
        Touched::of(LINES_MIN, lines_max, grain_bytes.ilog2())
    }

    fn of(lines: usize, lines_max: usize, grain_power: u32) -> Touched {
        let shift = 64 - lines.ilog2();
        Touched { lines: vec![Line::default(); lines], used: 0, lines_max, grain_power, shift }
    }

    #[inline]
    fn first(&self, key: u32) -> usize {
        (u64::from(key / LANES as u32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    /// Bits and number of a row.
    #[inline]
    fn find(&self, key: u32) -> Option<&Row> {
        let (first, lane) = (self.first(key), key as usize % LANES);
        for probe in 0..PROBES {
            let row = &self.lines[(first + probe) & (self.lines.len() - 1)].0[lane];
            if row.key == key || row.bits == 0 {
                return Some(row);
            }
        }
        None
    }

    /// The number of the last request near `address`, if that place was used; as far as 32 bits go.
    #[inline]
    pub fn last(&self, address: u64) -> Option<u32> {
        let block = address >> self.grain_power;
        let row = self.find((block / 64) as u32)?;
        (row.bits >> (block % 64) & 1 == 1).then_some(row.number)
    }

    /// Request `number` used this.
    #[inline]
    pub fn mark(&mut self, address: u64, len: u32, number: u64) {
        let mut block = address >> self.grain_power;
        let end = address.saturating_add(u64::from(len)).div_ceil(1 << self.grain_power);
        while block < end {
            let row = block / 64;
            let next = end.min((row + 1) * 64);
            let count = next - block;
            let bits = (u64::MAX >> (64 - count)) << (block % 64);
            self.set(Row { bits, key: row as u32, number: number as u32 });
            block = next;
        }
    }

    #[inline]
    fn set(&mut self, row: Row) {
        let (first, lane) = (self.first(row.key), row.key as usize % LANES);
        let mask = self.lines.len() - 1;
        for probe in 0..PROBES {
            let slot = &mut self.lines[(first + probe) & mask].0[lane];
            if slot.bits == 0 {
                *slot = row;
                self.used += 1;
                if self.used > self.lines.len() && self.lines.len() < self.lines_max {
                    self.grow();
                }
                return;
            }
            if slot.key == row.key {
                *slot = Row { bits: slot.bits | row.bits, ..row };
                return;
            }
        }
        if self.lines.len() < self.lines_max {
            self.grow();
            return self.set(row);
        }
        self.lines[first].0[lane] = row;
    }

    #[cold]
    fn grow(&mut self) {
        let mut larger = Touched::of(2 * self.lines.len(), self.lines_max, self.grain_power);
        let rows = self.lines.iter().flat_map(|line| line.0);
        rows.filter(|row| row.bits != 0).for_each(|row| larger.set(row));
        *self = larger;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn ground_is_remembered_to_the_block() {
        let mut touched = Touched::new(10, 4096);
        touched.mark(60 * 4096, 10 * 4096, 5);
        let used: Vec<u64> = (0..200).filter(|n| touched.last(n * 4096).is_some()).collect();
        assert_eq!(used, (60..70).collect::<Vec<_>>());
        assert_eq!(touched.last(69 * 4096 + 4095), Some(5));
        // More than there is room for.
        touched.mark(0, u32::MAX, 6);
    }

    #[test]
    fn a_table_that_grows_forgets_nothing() {
        let mut touched = Touched::new(1 << 16, 4096);
        let mut expected = HashMap::new();
        let mut state = 1u64;
        for number in 0..20_000u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let block = state >> 30;
            touched.mark(block * 4096 + 1, 2 * 4096, number);
            (block..block + 3).for_each(|block| {
                expected.insert(block, number);
            });
        }
        let last = |block: u64| touched.last(block * 4096).map(u64::from);
        // The number is the row's: a neighbour may have been used later.
        assert!(expected.iter().all(|(&block, &number)| last(block) >= Some(number)));
        assert!(
            expected
                .keys()
                .filter(|&&block| !expected.contains_key(&(block + 3)))
                .all(|&block| { expected.contains_key(&(block + 1)) || last(block + 1).is_none() })
        );
        assert_eq!(touched.last(1 << 59), None);
    }
}
