//! Computes the footprint: the number of distinct 512-byte sectors touched, in bounded memory.
//!
//! Each sector has one bit in the bitmap of an aligned region of 256 KiB. A bitmap is one cache
//! line, and exists only if its region was touched. When there are too many regions, half of them,
//! selected by a hash of volume and address, are removed and ignored from then on. The remaining
//! regions are a fair sample, which is counted exactly and from which the total is estimated.
//! Because a million regions remain, the error is smaller than that of a sketch of sectors.
//!
//! Requests that continue the previous one on their volume are marked together when their run ends.

use forebay_core::random;
use rustc_hash::FxHashMap;

use crate::Record;

const SECTOR_BYTES: u64 = 512;
const REGION_SECTORS: u64 = 512;
const WORDS: usize = REGION_SECTORS as usize / 64;

/// The maximum number of regions to store, which are 512 GiB if they are full. Their memory is 168
/// MB, plus up to 105 MB for the hash table and 67 MB for indices.
pub(super) const REGIONS_MAX: usize = 1 << 21;

/// Regions with numbers below this (the first 512 GiB of a volume) are found without hashing.
const NEAR_REGIONS: u64 = 1 << 21;
/// Volumes with numbers below this are found without hashing.
const NEAR_VOLUMES: u32 = 8;

/// The runs on volumes with numbers below this are tracked.
const RUN_VOLUMES: u32 = 1024;
/// The length in sectors at which a run is marked even if it has not ended.
const RUN_SECTORS_MAX: u64 = 64 * REGION_SECTORS;

/// The number of visits that are looked up together.
const VISITS: usize = 1024;
/// The maximum number of visits in the buffer, including those of a 4-GiB request, the longest
/// possible one.
const VISITS_MAX: usize = VISITS + (1 << 14) + 1;

/// Up to this number of regions, memory grows by doubling.
const ROOM_REGIONS: usize = 1 << 12;

/// One bit for each sector of a region, in one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Bitmap([u64; WORDS]);

/// A volume and the number of an aligned region on it.
type Key = (u32, u64);

/// The part of a request in one region: its sectors `from..=to`.
#[derive(Clone, Copy, Debug)]
struct Visit {
    key: Key,
    from: u32,
    to: u32,
    /// The index of the region plus one, or 0 if it is not known yet.
    slot: u32,
}

/// Sectors `from..to` of a volume that were touched but are not marked yet.
#[derive(Clone, Copy, Debug, Default)]
struct Extent {
    from: u64,
    to: u64,
}

impl Extent {
    /// Returns whether a request that starts at `from` extends the run.
    #[inline]
    fn goes_on_at(&self, from: u64) -> bool {
        self.from <= from && from <= self.to && self.to - self.from < RUN_SECTORS_MAX
    }
}

/// The touched sectors of all volumes.
#[derive(Clone, Debug)]
pub(super) struct Footprint {
    /// The current run of each volume.
    runs: Vec<Extent>,
    /// The bitmaps of the regions, stored contiguously for speed.
    bitmaps: Vec<Bitmap>,
    /// The volume and region of each bitmap.
    keys: Vec<Key>,
    /// The index of each region plus one, by volume and region number.
    near: Vec<Vec<u32>>,
    /// The index plus one of regions whose volume or region number is too large for `near`.
    far: FxHashMap<Key, u32>,
    /// A buffer for visits.
    visits: Vec<Visit>,
    regions_max: usize,
    /// One in 2^`halvings` regions is in the sample.
    halvings: u32,
}

/// The number of bytes touched on one volume or on all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Touched {
    pub(super) bytes: u64,
    pub(super) exact: bool,
    pub(super) error_share: f64,
}

impl Footprint {
    /// Creates an empty footprint that stores at most `regions_max` regions.
    pub(super) fn new(regions_max: usize) -> Footprint {
        Footprint {
            runs: Vec::new(),
            bitmaps: Vec::new(),
            keys: Vec::new(),
            near: Vec::new(),
            far: FxHashMap::default(),
            visits: Vec::new(),
            regions_max: regions_max.max(1),
            halvings: 0,
        }
    }

    /// Adds data requests.
    pub(super) fn add(&mut self, data: &[Record]) {
        let mut visits = std::mem::take(&mut self.visits);
        for r in data {
            let from = r.offset / SECTOR_BYTES;
            let end = r.offset.saturating_add(u64::from(r.len).saturating_sub(1));
            let touched = Extent { from, to: end / SECTOR_BYTES + 1 };
            match self.run(r.volume) {
                Some(run) if run.goes_on_at(from) => run.to = run.to.max(touched.to),
                Some(run) => {
                    let ended = std::mem::replace(run, touched);
                    add_visits(r.volume, ended, &mut visits);
                }
                None => add_visits(r.volume, touched, &mut visits),
            }
            if visits.len() >= VISITS {
                self.visit(&mut visits);
            }
        }
        self.visit(&mut visits);
        self.visits = visits;
    }

    /// Returns the current run on a volume, if its runs are tracked.
    #[inline]
    fn run(&mut self, volume: u32) -> Option<&mut Extent> {
        if volume >= RUN_VOLUMES {
            return None;
        }
        let volume = volume as usize;
        if volume >= self.runs.len() {
            self.runs.resize(volume + 1, Extent::default());
        }
        self.runs.get_mut(volume)
    }

    /// Marks all runs that have not ended.
    fn settle(&mut self) {
        for volume in 0..self.runs.len() {
            let run = std::mem::take(&mut self.runs[volume]);
            let mut visits = Vec::new();
            add_visits(volume as u32, run, &mut visits);
            self.visit(&mut visits);
        }
    }

    /// Processes visits. All regions are looked up before the first is touched, so that the memory
    /// accesses overlap.
    fn visit(&mut self, visits: &mut Vec<Visit>) {
        if self.halvings > 0 {
            visits.retain(|visit| kept(visit.key, self.halvings));
        }
        for visit in visits.iter_mut() {
            visit.slot = self.look_up(visit.key);
        }
        for visit in visits.drain(..) {
            self.touch(&visit);
        }
        if self.keys.len() > self.regions_max {
            self.halve();
        }
    }

    /// Marks the sectors of a visit.
    #[inline]
    fn touch(&mut self, visit: &Visit) {
        let (from, to) = (visit.from as usize, visit.to as usize);
        let words = self.bitmap(visit);
        let (first, last) = (from / 64, to / 64);
        let head = u64::MAX << (from % 64);
        let tail = u64::MAX >> (63 - to % 64);
        if first == last {
            words[first] |= head & tail;
        } else {
            words[first] |= head;
            words[first + 1..last].iter_mut().for_each(|word| *word = u64::MAX);
            words[last] |= tail;
        }
    }

    /// Returns the bitmap of a visit's region, which is created if necessary.
    #[inline]
    fn bitmap(&mut self, visit: &Visit) -> &mut [u64; WORDS] {
        let index = if visit.slot > 0 { visit.slot as usize - 1 } else { self.insert(visit.key) };
        &mut self.bitmaps[index].0
    }

    /// Returns the index of a region plus one, or 0 if it does not exist.
    #[inline]
    fn look_up(&self, key: Key) -> u32 {
        let (volume, region) = key;
        if volume >= NEAR_VOLUMES || region >= NEAR_REGIONS {
            return self.far.get(&key).copied().unwrap_or(0);
        }
        let slots = self.near.get(volume as usize).map_or(&[][..], Vec::as_slice);
        slots.get(region as usize).copied().unwrap_or(0)
    }

    /// Returns the index of a region that did not exist when it was looked up. Creates the region
    /// unless that was done since.
    fn insert(&mut self, key: Key) -> usize {
        let slot = *self.slot(key);
        if slot > 0 {
            return slot as usize - 1;
        }
        self.make_room();
        self.bitmaps.push(Bitmap([0; WORDS]));
        self.keys.push(key);
        *self.slot(key) = self.keys.len() as u32;
        self.keys.len() - 1
    }

    /// Beyond [`ROOM_REGIONS`], reserves memory for all regions at once. Memory costs nothing until
    /// it is used, while doubling would temporarily need both the old and the new memory.
    #[inline]
    fn make_room(&mut self) {
        let length = self.keys.len();
        if length == self.bitmaps.capacity() && (ROOM_REGIONS..self.regions_max).contains(&length) {
            let room = self.regions_max + VISITS_MAX - length;
            self.bitmaps.reserve_exact(room);
            self.keys.reserve_exact(room);
        }
    }

    #[inline]
    fn slot(&mut self, key: Key) -> &mut u32 {
        let (volume, region) = key;
        if volume >= NEAR_VOLUMES || region >= NEAR_REGIONS {
            return self.far.entry(key).or_default();
        }
        let (volume, region) = (volume as usize, region as usize);
        if self.near.len() <= volume {
            self.near.resize_with(volume + 1, Vec::new);
        }
        let slots = &mut self.near[volume];
        if slots.len() <= region {
            slots.resize(region + 1, 0);
        }
        &mut slots[region]
    }

    #[cold]
    fn halve(&mut self) {
        while self.keys.len() > self.regions_max && self.halvings < 63 {
            self.halvings += 1;
            let mut index = 0;
            while index < self.keys.len() {
                if kept(self.keys[index], self.halvings) {
                    index += 1;
                } else {
                    self.forget(index);
                }
            }
        }
    }

    /// Removes a region. The last region takes its place.
    fn forget(&mut self, index: usize) {
        let key = self.keys.swap_remove(index);
        self.bitmaps.swap_remove(index);
        *self.slot(key) = 0;
        if self.far.get(&key) == Some(&0) {
            self.far.remove(&key);
        }
        if let Some(&moved) = self.keys.get(index) {
            *self.slot(moved) = index as u32 + 1;
        }
    }

    /// Returns the number of touched bytes in total, and on each of the first `volumes` volumes.
    pub(super) fn touched(&mut self, volumes: usize) -> (Touched, Vec<u64>) {
        self.settle();
        let mut by_volume = vec![0u64; volumes];
        let (mut sectors, mut squares) = (0u64, 0f64);
        for (&(volume, _), bitmap) in self.keys.iter().zip(&self.bitmaps) {
            let count: u64 = bitmap.0.iter().map(|word| u64::from(word.count_ones())).sum();
            sectors += count;
            squares += (count * count) as f64;
            if let Some(of_volume) = by_volume.get_mut(volume as usize) {
                *of_volume += count;
            }
        }
        let factor = SECTOR_BYTES.saturating_mul(1 << self.halvings);
        for of_volume in &mut by_volume {
            *of_volume = of_volume.saturating_mul(factor);
        }
        // Horvitz-Thompson estimator: each region is in the sample independently with probability
        // p, so the variance of the sum divided by p is (1-p)/p^2 times the sum of squares.
        let p = 0.5f64.powi(self.halvings as i32);
        let error = if sectors == 0 { 0.0 } else { ((1.0 - p) * squares).sqrt() / sectors as f64 };
        let bytes = sectors.saturating_mul(factor);
        (Touched { bytes, exact: self.halvings == 0, error_share: error }, by_volume)
    }
}

/// Adds a visit for every region that an extent overlaps.
#[inline]
fn add_visits(volume: u32, Extent { from, to }: Extent, visits: &mut Vec<Visit>) {
    if from == to {
        return;
    }
    let last = to - 1;
    for region in from / REGION_SECTORS..=last / REGION_SECTORS {
        let start = region * REGION_SECTORS;
        let from = from.saturating_sub(start) as u32;
        let to = (last - start).min(REGION_SECTORS - 1) as u32;
        visits.push(Visit { key: (volume, region), from, to, slot: 0 });
    }
}

/// Returns whether a region is in the sample, which is the case if the low bits of its hash are
/// zero.
#[inline]
fn kept(key: Key, halvings: u32) -> bool {
    halvings == 0 || hash(key).trailing_zeros() >= halvings
}

/// Hashes both parts of the key evenly. This hash is independent of the hash table's own, so that
/// the sample does not cluster in the table.
fn hash((volume, region): Key) -> u64 {
    random::mix(region ^ u64::from(volume).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{read, write};
    use super::*;

    fn touched(batch: &[Record]) -> Touched {
        let mut footprint = Footprint::new(REGIONS_MAX);
        footprint.add(batch);
        footprint.touched(1).0
    }

    #[test]
    fn overlaps_count_once_and_part_of_a_sector_is_a_sector() {
        let batch = [read(0, 0, 4096), write(0, 2048, 4096), read(0, 10_000, 1)];
        assert_eq!(touched(&batch), Touched { bytes: 6656, exact: true, error_share: 0.0 });
    }

    #[test]
    fn requests_across_regions_and_words() {
        assert_eq!(touched(&[read(0, (256 << 10) - 512, 1024)]).bytes, 1024);
        assert_eq!(touched(&[read(0, 31 * 512, 8 << 20)]).bytes, 8 << 20);
        assert_eq!(touched(&[read(0, 0, 64 * 512), read(0, 64 * 512, 512)]).bytes, 65 * 512);
    }

    #[test]
    fn the_far_end_of_the_address_space() {
        assert_eq!(touched(&[read(0, u64::MAX - 100, 4096)]).bytes, 512);
        assert_eq!(touched(&[read(0, 1 << 63, u32::MAX)]).bytes, 1 << 32);
    }

    #[test]
    fn volumes_are_apart() {
        let mut footprint = Footprint::new(REGIONS_MAX);
        footprint.add(&[read(0, 0, 512), Record { volume: 1, ..read(0, 0, 1024) }]);
        assert_eq!(footprint.touched(2), (touched(&[read(0, 0, 1536)]), vec![512, 1024]));
    }

    #[test]
    fn beyond_the_limit_a_sample_stands_for_the_whole() {
        let mut footprint = Footprint::new(5000);
        for k in 0..40_000u64 {
            // Half of the requests are in regions that require hashing.
            let offset = (k << 18) + (k % 2) * (1 << 50);
            footprint.add(&[write(0, offset, 4096 * (1 + (k % 7) as u32))]);
        }
        for (slot, &key) in (1u32..).zip(&footprint.keys.clone()) {
            assert_eq!(*footprint.slot(key), slot);
        }
        let (all, by_volume) = footprint.touched(1);
        assert!(footprint.keys.len() <= 5000 && !all.exact);
        assert_eq!(by_volume, [all.bytes]);
        let truth: u64 = (0..40_000u64).map(|k| 4096 * (1 + k % 7)).sum();
        let error = all.bytes as f64 / truth as f64 - 1.0;
        assert!(all.error_share > 0.005 && all.error_share < 0.03, "{}", all.error_share);
        assert!(error.abs() < 4.0 * all.error_share, "{error}");
    }
}
