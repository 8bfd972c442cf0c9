//! Checksums of recently read or written cells. With them, part of a chunk can be verified without
//! reading its trailer.

use std::sync::Arc;

use super::unit::Place;

/// The maximum number of cells with cached checksums: about 10 MB, for 4 GiB of chunks of 64 KiB.
const CELLS: usize = 1 << 16;

/// The checksum of each block of a cell; empty if the cell has no content.
pub(super) type Sums = Arc<[u64]>;

/// Checksums by cell. A newer entry replaces an older one with the same hash.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    cells: Vec<Option<(Place, Sums)>>,
}

impl Known {
    fn at(place: Place) -> usize {
        (crate::index::spread(place.0 >> 24) >> 48) as usize % CELLS
    }

    pub(super) fn put(&mut self, place: Place, sums: Sums) {
        if self.cells.is_empty() {
            self.cells = vec![None; CELLS];
        }
        self.cells[Known::at(place)] = Some((place, sums));
    }

    /// Returns the checksums of a cell, provided that they belong to the content identified by the
    /// place's check.
    pub(super) fn get(&self, place: Place) -> Option<Sums> {
        let (known, sums) = self.cells.get(Known::at(place))?.as_ref()?;
        (*known == place).then(|| Arc::clone(sums))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_belong_to_one_content_of_a_cell() {
        let mut known = Known::default();
        let place = Place::at(3, 77).checked(5);
        assert!(known.get(place).is_none());
        known.put(place, vec![1, 2].into());
        assert_eq!(known.get(place).as_deref(), Some(&[1, 2][..]));
        assert!(known.get(place.checked(6)).is_none() && known.get(Place::at(3, 78)).is_none());
        known.put(place.checked(6), vec![3].into());
        assert!(known.get(place).is_none(), "it was written anew");
    }
}
