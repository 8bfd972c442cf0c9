//! Tracks the current position of each stream's reads and writes on each volume; these are separate
//! sequences.

use rustc_hash::FxHashMap;

use super::direction;
use super::sequential::Run;
use crate::Record;

/// Volumes with numbers below this are found without hashing.
const NEAR_VOLUMES: u32 = 64;

/// The current run of each stream, volume and direction.
#[derive(Clone, Debug, Default)]
pub(super) struct Sequences {
    /// The runs of reads and of writes.
    runs: Vec<[Run; 2]>,
    /// The index into `runs` plus one, by group and volume.
    near: Vec<Vec<u32>>,
    /// The index into `runs` plus one, for volumes with larger numbers.
    far: FxHashMap<(u32, u32), u32>,
}

impl Sequences {
    /// Returns the current run of a group, in the direction and on the volume of `r`.
    #[inline]
    pub(super) fn run(&mut self, group: u32, r: &Record) -> &mut Run {
        let slot = if r.volume < NEAR_VOLUMES {
            at(at(&mut self.near, group), r.volume)
        } else {
            self.far.entry((group, r.volume)).or_default()
        };
        if *slot == 0 {
            self.runs.push([Run::default(); 2]);
            *slot = self.runs.len() as u32;
        }
        &mut self.runs[*slot as usize - 1][direction(r)]
    }

    /// Returns all runs.
    pub(super) fn runs(&self) -> impl Iterator<Item = &Run> + Clone {
        self.runs.iter().flatten()
    }
}

/// Returns the element at `index`, extending the vector if necessary. Indices must be dense.
#[inline]
pub(super) fn at<T: Default + Clone>(vector: &mut Vec<T>, index: u32) -> &mut T {
    let index = index as usize;
    if vector.len() <= index {
        vector.resize(index + 1, T::default());
    }
    &mut vector[index]
}
