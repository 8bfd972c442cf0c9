//! The latest request that began at each place.

/// The latest request that began at each place: a table without chains, where a later place may take
/// an earlier one's row. It grows until it has as many rows as it may.
#[derive(Clone, Debug)]
pub struct Latest {
    /// What the row's place in the table does not tell of the scrambled place, above the request's number
    /// plus one; 0 where there is none.
    rows: Vec<u64>,
    /// Rows in use, about.
    used: usize,
    rows_max: usize,
    /// Places are told apart by this power of two of bytes.
    grain_power: u32,
    /// Bits of a scrambled place below the row's number.
    shift: u32,
}

/// Bits of a place.
const PLACE_BITS: u32 = 48;
/// Bits of a request's number; one beyond is not remembered.
const NUMBER_BITS: u32 = 34;
const NUMBER_MASK: u64 = (1 << NUMBER_BITS) - 1;
/// Rows of a new table: a place can be told from its row and the bits above a number.
const ROWS_MIN: usize = 1 << (PLACE_BITS + NUMBER_BITS - 64);
/// Rows of the largest: 16 MiB.
const ROWS_MAX: u64 = 1 << 21;

/// One in so many requests tells how full the table is.
const SAMPLED: u64 = 8;

/// A place with its bits mixed; no two become one.
#[inline]
fn scramble(place: u64) -> u64 {
    place.wrapping_mul(0x9e37_79b9_7f4a_7c15) & ((1 << PLACE_BITS) - 1)
}

impl Latest {
    /// For about so many places of so many bytes, a power of two.
    pub fn new(places: u64, grain_bytes: u32) -> Latest {
        let rows_max = places.saturating_mul(4).clamp(ROWS_MIN as u64, ROWS_MAX);
        Latest::of(ROWS_MIN, rows_max.next_power_of_two() as usize, grain_bytes.ilog2())
    }

    fn of(rows: usize, rows_max: usize, grain_power: u32) -> Latest {
        let shift = PLACE_BITS - rows.ilog2();
        Latest { rows: vec![0; rows], used: 0, rows_max, grain_power, shift }
    }

    /// The row of a place and what is left of it.
    #[inline]
    fn split(&self, scrambled: u64) -> (usize, u64) {
        ((scrambled >> self.shift) as usize, scrambled & ((1 << self.shift) - 1))
    }

    /// The number of the latest request that began in the block of `address`.
    #[inline]
    pub fn find(&self, address: u64) -> Option<u64> {
        let (row, rest) = self.split(scramble(address >> self.grain_power));
        let found = self.rows[row];
        let number = found & NUMBER_MASK;
        (found >> NUMBER_BITS == rest && number != 0).then(|| number - 1)
    }

    /// Request `number` began at `address`.
    #[inline]
    pub fn note(&mut self, address: u64, number: u64) {
        if number >= NUMBER_MASK {
            return;
        }
        let (row, rest) = self.split(scramble(address >> self.grain_power));
        let row = &mut self.rows[row];
        // Looking at a row takes longer than writing it: some stand for all.
        let is_new = number.is_multiple_of(SAMPLED) && *row == 0;
        *row = rest << NUMBER_BITS | (number + 1);
        if is_new {
            self.used += SAMPLED as usize;
            if 4 * self.used > self.rows.len() && self.rows.len() < self.rows_max {
                self.grow();
            }
        }
    }

    #[cold]
    fn grow(&mut self) {
        let mut larger = Latest::of(2 * self.rows.len(), self.rows_max, self.grain_power);
        for (number, &row) in (0u64..).zip(&self.rows).filter(|(_, row)| **row != 0) {
            let (at, rest) = larger.split(number << self.shift | row >> NUMBER_BITS);
            larger.rows[at] = rest << NUMBER_BITS | (row & NUMBER_MASK);
        }
        larger.used = self.used;
        *self = larger;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_use_is_found() {
        let mut latest = Latest::new(10, 4096);
        latest.note(4096, 1);
        latest.note(5000, 2);
        assert_eq!((latest.find(4096), latest.find(8192)), (Some(2), None));
        let mut latest = Latest::new(10, 512);
        latest.note(4096, 1);
        latest.note(4608, 2);
        assert_eq!((latest.find(4096), latest.find(4608)), (Some(1), Some(2)));
    }

    #[test]
    fn a_table_that_grows_keeps_what_it_holds() {
        let place = |n: u64| ((n << 41) | (n * 8192)) & ((1 << 60) - 1);
        let mut latest = Latest::new(1 << 20, 4096);
        let requests = ROWS_MIN as u64 / 2;
        for n in 0..requests {
            latest.note(place(n), n);
            assert_eq!(latest.find(place(n)), Some(n));
        }
        assert!(latest.rows.len() > ROWS_MIN);
        // Some gave way, none is taken for another.
        let found: Vec<u64> = (0..requests).filter_map(|n| latest.find(place(n))).collect();
        assert!(found.len() as u64 > requests * 3 / 4, "{}", found.len());
        assert!((0..requests).all(|n| latest.find(place(n)).is_none_or(|found| found == n)));
    }
}
