//! The table of units: the durable level and places of each.

use super::{Geometry, PAGE, Unit};

/// The words of all units, in pages. Pages that were never written take no memory. In other pages,
/// each unit takes as many words as the largest of them needs.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pages: Vec<Option<Box<[u64]>>>,
    units: u64,
    /// The number of words of a unit on drives.
    stride: usize,
    /// The number of units of a page.
    a_page: usize,
}

impl Table {
    pub(super) fn new(geometry: &Geometry) -> Table {
        let (stride, a_page) = (geometry.stride(), geometry.units_a_page() as usize);
        let pages = vec![None; geometry.pages() as usize];
        Table { pages, units: geometry.units, stride, a_page }
    }

    /// Increases the number of units.
    pub(super) fn grow(&mut self, units: u64) {
        self.units = units;
        self.pages.resize(units.div_ceil(self.a_page as u64).max(1) as usize, None);
    }

    pub(super) fn units(&self) -> u64 {
        self.units
    }

    /// Returns the page of a unit, and the unit's index in the page.
    fn at(&self, unit: u64) -> (usize, usize) {
        (unit as usize / self.a_page, unit as usize % self.a_page)
    }

    pub(super) fn get(&self, unit: u64) -> Unit {
        let (page, within) = self.at(unit);
        let Some(Some(words)) = self.pages.get(page) else { return Unit::EMPTY };
        let stride = words.len() / self.a_page;
        Unit::get(&words[within * stride..][..stride])
    }

    pub(super) fn set(&mut self, unit: u64, to: &Unit) {
        let ((page, within), a_page) = (self.at(unit), self.a_page);
        let Some(page) = self.pages.get_mut(page).filter(|_| unit < self.units) else { return };
        if page.is_none() && *to == Unit::EMPTY {
            return;
        }
        let words = page.get_or_insert_default();
        let (stride, needed) = (words.len() / a_page, to.words());
        if needed > stride {
            let mut wider = vec![0; a_page * needed];
            for (unit, old) in words.chunks_exact(stride.max(1)).enumerate() {
                wider[unit * needed..][..stride].copy_from_slice(old);
            }
            *words = wider.into();
        }
        let stride = stride.max(needed);
        to.put(&mut words[within * stride..][..stride]);
    }

    /// Returns the size of the table in memory, in bytes.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        let words: usize = self.pages.iter().flatten().map(|words| words.len()).sum();
        8 * words + self.pages.len() * size_of::<Option<Box<[u64]>>>()
    }

    /// Returns the units of a page.
    pub(super) fn page(&self, page: u64) -> std::ops::Range<u64> {
        let first = (page * self.a_page as u64).min(self.units());
        first..(first + self.a_page as u64).min(self.units())
    }

    /// Writes a page as bytes, using the later states of some units.
    pub(super) fn write_page(&self, page: u64, later: impl Fn(u64) -> Option<Unit>, to: &mut [u8]) {
        let mut words = vec![0; self.stride];
        let bytes = 8 * self.stride;
        for (unit, to) in self.page(page).zip(to[..PAGE as usize].chunks_exact_mut(bytes)) {
            later(unit).unwrap_or_else(|| self.get(unit)).put(&mut words);
            put_words(&words, to);
        }
    }

    /// Sets the wanted units of a page from bytes.
    pub(super) fn read_page(
        &mut self,
        page: u64,
        from: &[u8],
        mut is_wanted: impl FnMut(u64) -> bool,
    ) {
        let bytes = 8 * self.stride;
        for (unit, from) in self.page(page).zip(from.chunks_exact(bytes)) {
            if is_wanted(unit) {
                self.set(unit, &Unit::get(&words(from)));
            }
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

    fn unit(level: Level, number: u64) -> Unit {
        let mut unit = Unit { level: Some(level), ..Unit::EMPTY };
        let role = level.roles(4) - 1;
        unit.places[role] = Place::at(3, number as u32);
        unit
    }

    #[test]
    fn pages_contain_the_whole_table() {
        let geometry = Geometry::sample(6);
        let (mut from, mut to) = (Table::new(&geometry), Table::new(&geometry));
        let levels = [Level::RAID6, Level::TRIPLE];
        let of = |number: u64| unit(levels[number as usize / 50], number);
        (0..100).filter(|number| number % 3 > 0).for_each(|number| from.set(number, &of(number)));
        let later = |number: u64| (number == 42).then(|| unit(Level::TRIPLE, 4242));
        let mut bytes = [0; PAGE as usize];
        for page in 0..geometry.pages() {
            // Unit 42 has a newer state than the table.
            from.write_page(page, later, &mut bytes);
            to.read_page(page, &bytes, |number| number != 44);
        }
        let expected = |number| match number {
            44 => Unit::EMPTY,
            _ => later(number).unwrap_or_else(|| from.get(number)),
        };
        assert!((0..100).all(|number| to.get(number) == expected(number)));
        assert_eq!(geometry.pages(), 3);
    }

    #[test]
    fn units_take_as_many_words_as_their_page_needs() {
        let geometry = Geometry::sample(6);
        let mut table = Table::new(&geometry);
        let pages = table.bytes();
        (0..78).for_each(|number| table.set(number, &unit(Level::RAID6, number)));
        assert_eq!(table.bytes() - pages, 2 * 39 * 7 * 8);
        table.set(40, &unit(Level::TRIPLE, 40));
        table.set(41, &Unit::EMPTY);
        assert_eq!(table.bytes() - pages, 39 * (7 + 13) * 8);
        let expected = |number| match number {
            40 => unit(Level::TRIPLE, 40),
            41 => Unit::EMPTY,
            _ => unit(Level::RAID6, number),
        };
        assert!((0..78).all(|number| table.get(number) == expected(number)));
    }
}
