//! The table of units: the durable level and places of each.

use super::geometry::{Geometry, PAGE};
use super::unit::Unit;

/// Words of units, one after another, in pages; those that were never written take no memory.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pages: Vec<Option<Box<[u64]>>>,
    units: u64,
    stride: usize,
    a_page: usize,
}

impl Table {
    pub(super) fn new(geometry: &Geometry) -> Table {
        let (stride, a_page) = (geometry.stride(), geometry.units_a_page() as usize);
        let pages = vec![None; geometry.pages() as usize];
        Table { pages, units: geometry.units, stride, a_page }
    }

    /// Has as many units from now on; more than before.
    pub(super) fn grow(&mut self, units: u64) {
        self.units = units;
        self.pages.resize(units.div_ceil(self.a_page as u64).max(1) as usize, None);
    }

    pub(super) fn units(&self) -> u64 {
        self.units
    }

    /// Returns the page of a unit, and its words there.
    fn at(&self, unit: u64) -> (usize, std::ops::Range<usize>) {
        let (page, within) = (unit as usize / self.a_page, unit as usize % self.a_page);
        (page, within * self.stride..(within + 1) * self.stride)
    }

    pub(super) fn get(&self, unit: u64) -> Unit {
        let (page, range) = self.at(unit);
        let words = self.pages.get(page).and_then(Option::as_ref);
        words.map_or(Unit::EMPTY, |words| Unit::get(&words[range]))
    }

    pub(super) fn set(&mut self, unit: u64, to: &Unit) {
        let ((page, range), len) = (self.at(unit), self.a_page * self.stride);
        let Some(words) = self.pages.get_mut(page).filter(|_| unit < self.units) else { return };
        if words.is_some() || *to != Unit::EMPTY {
            to.put(&mut words.get_or_insert_with(|| vec![0; len].into())[range]);
        }
    }

    /// Returns the units of a page.
    pub(super) fn page(&self, page: u64) -> std::ops::Range<u64> {
        let first = (page * self.a_page as u64).min(self.units());
        first..(first + self.a_page as u64).min(self.units())
    }

    /// Returns a page as bytes, with later states of some units.
    pub(super) fn write_page(&self, page: u64, later: impl Fn(u64) -> Option<Unit>, to: &mut [u8]) {
        let mut words = vec![0; self.stride];
        let bytes = 8 * self.stride;
        for (unit, to) in self.page(page).zip(to[..PAGE as usize].chunks_exact_mut(bytes)) {
            later(unit).unwrap_or_else(|| self.get(unit)).put(&mut words);
            put_words(&words, to);
        }
    }

    /// Takes over a page.
    pub(super) fn read_page(&mut self, page: u64, from: &[u8]) {
        let bytes = 8 * self.stride;
        for (unit, from) in self.page(page).zip(from.chunks_exact(bytes)) {
            self.set(unit, &Unit::get(&words(from)));
        }
    }
}

pub(super) fn put_words(words: &[u64], to: &mut [u8]) {
    for (word, to) in words.iter().zip(to.chunks_exact_mut(8)) {
        to.copy_from_slice(&word.to_le_bytes());
    }
}

pub(super) fn words(from: &[u8]) -> Vec<u64> {
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    from.chunks_exact(8).map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::super::level::Level;
    use super::super::unit::Place;
    use super::*;

    #[test]
    fn pages_carry_the_whole_table() {
        let geometry = Geometry::sample(6);
        let (mut from, mut to) = (Table::new(&geometry), Table::new(&geometry));
        let unit = |number: u64| {
            let mut unit = Unit { level: Some(Level::TRIPLE), ..Unit::EMPTY };
            unit.places[11] = Place::at(3, number as u32);
            unit
        };
        (0..100).filter(|number| number % 3 > 0).for_each(|number| from.set(number, &unit(number)));
        let mut bytes = [0; PAGE as usize];
        for page in 0..geometry.pages() {
            // One of them is newer than the table.
            from.write_page(page, |number| (number == 42).then(|| unit(4242)), &mut bytes);
            to.read_page(page, &bytes);
        }
        assert_eq!(to.get(42), unit(4242));
        to.set(42, &Unit::EMPTY);
        assert_eq!((geometry.pages(), to.pages == from.pages), (3, true));
    }
}
