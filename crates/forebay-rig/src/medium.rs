//! The content of an emulated device that can lose power: the data written, and the part of it that
//! survives.
//!
//! A write is *loose* until a flush that began after it has ended, unless the write itself was
//! durable. After a power cut, every grain ([`Tear`]) has its durable content or any later version
//! up to the last, independently of other grains. Writes may therefore be torn, and a later write
//! may survive although an earlier one elsewhere does not. Within a grain, writes keep their order.
//!
//! Versions are of whole sectors; a write to part of a sector creates a version of the whole
//! sector. The memory use is bounded by the data ever written plus all its loose versions. All
//! random choices depend on seeds.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

use forebay_live::{PAGE, Page, Sparse, Store, pages};

/// The number of bytes that a power cut cannot tear.
pub const SECTOR: usize = 512;

/// The size of a grain, within which a power cut does not tear writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tear {
    /// Grains of 512 bytes.
    Sector,
    /// Grains of 4096 bytes, aligned to their size.
    Page,
}

/// The content of a device, written and durable.
#[derive(Clone)]
pub struct Medium {
    written: Sparse,
    /// Pages with loose writes. The content of all other pages is durable.
    loose: BTreeMap<u64, Loose>,
    writes: u64,
    chance: Chance,
}

/// The volatile part of a page.
#[derive(Clone)]
struct Loose {
    durable: Box<Page>,
    /// The loose versions, in the order in which they were written.
    versions: Vec<Version>,
}

/// The content of a sector after write `number`.
#[derive(Clone)]
struct Version {
    number: u64,
    sector: usize,
    content: [u8; SECTOR],
}

impl Medium {
    /// Creates a device that contains zeros. The seed determines the content after trims.
    pub fn new(seed: u64) -> Medium {
        let (written, loose) = (Sparse::new(), BTreeMap::new());
        Medium { written, loose, writes: 0, chance: Chance(seed) }
    }

    /// Reads the last written data, durable or not.
    pub fn read(&self, offset: u64, to: &mut [u8]) {
        self.written.get(offset, to);
    }

    /// Writes data; with `durable`, it survives power cuts.
    pub fn write(&mut self, offset: u64, mut from: &[u8], durable: bool) {
        for (page, range) in pages(offset, from.len() as u64) {
            let (now, later) = from.split_at(range.len());
            self.change(page, range, durable, |bytes| bytes.copy_from_slice(now));
            from = later;
        }
        self.writes += 1;
    }

    /// Leaves zeros or junk in the whole sectors of a range, as a loose write would. Pages that
    /// were never written stay zeros.
    pub fn trim(&mut self, offset: u64, len: u64) {
        let size = SECTOR as u64;
        let end = offset.saturating_add(len) / size * size;
        let begin = offset.div_ceil(size).saturating_mul(size);
        let mut junk = (self.chance.below(2) == 0).then_some(Chance(self.chance.next()));
        for (page, range) in self.written.present(begin, end.saturating_sub(begin)) {
            self.change(page, range, false, |bytes| match &mut junk {
                Some(junk) => bytes.fill_with(|| junk.next() as u8),
                None => bytes.fill(0),
            });
        }
        self.writes += 1;
    }

    /// Returns the number of writes and trims so far, as the position of a flush that starts now.
    pub fn mark(&self) -> u64 {
        self.writes
    }

    /// Returns whether any data is not durable.
    pub fn is_loose(&self) -> bool {
        !self.loose.is_empty()
    }

    /// Registers the end of a flush that began at the mark `upto`: everything written before the
    /// mark is durable.
    pub fn flush(&mut self, upto: u64) {
        self.loose.retain(|_, loose| {
            let count = loose.versions.partition_point(|version| version.number < upto);
            for version in loose.versions.drain(..count) {
                loose.durable[bytes_of(version.sector)].copy_from_slice(&version.content);
            }
            !loose.versions.is_empty()
        });
    }

    /// Cuts the power and restores it. Depending on the seed, any loose data may survive; in some
    /// cases all or none of it. The surviving data is durable.
    pub fn cut(&mut self, seed: u64, tear: Tear) {
        let mut chance = Chance(seed);
        let sectors = match tear {
            Tear::Sector => 1,
            Tear::Page => PAGE / SECTOR,
        };
        let mode = chance.below(8);
        for (page, Loose { mut durable, versions }) in std::mem::take(&mut self.loose) {
            for first in (0..PAGE / SECTOR).step_by(sectors) {
                let history = || {
                    let here = first..first + sectors;
                    versions.iter().filter(move |version| here.contains(&version.sector))
                };
                let mut numbers: Vec<u64> = history().map(|version| version.number).collect();
                numbers.dedup();
                let survive = match mode {
                    0 => 0,
                    1 => numbers.len(),
                    _ => chance.below(numbers.len() as u64 + 1) as usize,
                };
                let survives = |version: &&Version| numbers[..survive].contains(&version.number);
                for version in history().filter(survives) {
                    durable[bytes_of(version.sector)].copy_from_slice(&version.content);
                }
            }
            *self.written.page(page) = *durable;
        }
    }

    /// Changes bytes of a page as part of the current write.
    fn change(
        &mut self,
        page: u64,
        range: Range<usize>,
        durable: bool,
        act: impl FnOnce(&mut [u8]),
    ) {
        let number = self.writes;
        let content = self.written.page(page);
        let before = (!durable).then(|| Box::new(*content));
        act(&mut content[range.clone()]);
        let sectors = range.start / SECTOR..range.end.div_ceil(SECTOR);
        if let Some(before) = before {
            let loose = self.loose.entry(page);
            let loose = loose.or_insert_with(|| Loose { durable: before, versions: Vec::new() });
            loose.versions.extend(sectors.map(|sector| {
                let mut version = Version { number, sector, content: [0; SECTOR] };
                version.content.copy_from_slice(&content[bytes_of(sector)]);
                version
            }));
        } else if let Some(loose) = self.loose.get_mut(&page) {
            loose.versions.retain(|version| !sectors.contains(&version.sector));
            let bytes = sectors.start * SECTOR..sectors.end * SECTOR;
            loose.durable[bytes.clone()].copy_from_slice(&content[bytes]);
            if loose.versions.is_empty() {
                self.loose.remove(&page);
            }
        }
    }
}

fn bytes_of(sector: usize) -> Range<usize> {
    sector * SECTOR..(sector + 1) * SECTOR
}

/// A flush covers all earlier writes. This suffices for users that never cut the power during a
/// flush.
impl Store for Medium {
    fn read(&mut self, offset: u64, to: &mut [u8]) -> io::Result<()> {
        Medium::read(self, offset, to);
        Ok(())
    }

    fn write(&mut self, offset: u64, from: &[u8], durable: bool) -> io::Result<()> {
        Medium::write(self, offset, from, durable);
        Ok(())
    }

    fn trim(&mut self, offset: u64, len: u64) -> io::Result<()> {
        Medium::trim(self, offset, len);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Medium::flush(self, self.writes);
        Ok(())
    }
}

/// A deterministic random generator.
#[derive(Clone)]
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        forebay_testing::random(&mut self.0)
    }

    /// Returns a random number less than `bound`.
    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const PAGES: usize = 3;
    const CAPACITY: usize = PAGES * PAGE;

    #[derive(Clone, Debug)]
    enum Act {
        Write(usize, usize, u8, bool),
        Trim(usize, usize),
        Begin,
        End,
        Cut(u64, Tear),
    }

    fn act() -> impl Strategy<Value = Act> {
        let at =
            prop_oneof![0..CAPACITY, (0..CAPACITY / SECTOR).prop_map(|sector| sector * SECTOR)];
        let len = prop_oneof![0..CAPACITY, Just(SECTOR), Just(PAGE), 0..2 * SECTOR];
        let tear = prop_oneof![Just(Tear::Sector), Just(Tear::Page)];
        prop_oneof![
            6 => (at.clone(), len.clone(), any::<u8>(), proptest::bool::weighted(0.2))
                .prop_map(|(at, len, byte, durable)| Act::Write(at, len, byte, durable)),
            1 => (at, len).prop_map(|(at, len)| Act::Trim(at, len)),
            1 => Just(Act::Begin),
            1 => Just(Act::End),
            1 => (any::<u64>(), tear).prop_map(|(seed, tear)| Act::Cut(seed, tear)),
        ]
    }

    /// The contents of a sector after each write.
    type Versions = Vec<(u64, Vec<u8>)>;

    /// All versions of all sectors, and for each sector the first version that may be found.
    struct Model {
        sectors: Vec<(usize, Versions)>,
        writes: u64,
    }

    impl Model {
        fn new() -> Model {
            let sector = (0, vec![(0, vec![0; SECTOR])]);
            Model { sectors: vec![sector; CAPACITY / SECTOR], writes: 0 }
        }

        fn content(&self) -> Vec<u8> {
            self.sectors
                .iter()
                .flat_map(|(_, versions)| versions.last().unwrap().1.clone())
                .collect()
        }

        /// Writes the sectors in `range`, with the bytes of `content` at their positions.
        fn write(&mut self, range: Range<usize>, content: &[u8], durable: bool) {
            self.writes += 1;
            if range.is_empty() {
                return;
            }
            for sector in range.start / SECTOR..=(range.end - 1) / SECTOR {
                let (first, versions) = &mut self.sectors[sector];
                versions.push((self.writes, content[bytes_of(sector)].to_vec()));
                if durable {
                    *first = versions.len() - 1;
                }
            }
        }

        fn flush(&mut self, upto: u64) {
            for (first, versions) in &mut self.sectors {
                let last = versions.iter().rposition(|(number, _)| *number <= upto).unwrap();
                *first = last.max(*first);
            }
        }

        /// Returns whether these sectors may have this content, all at the same moment.
        fn may_be(&self, sectors: Range<usize>, found: &[u8]) -> bool {
            (0..=self.writes).any(|moment| {
                sectors.clone().all(|sector| {
                    let (first, versions) = &self.sectors[sector];
                    let last = versions.iter().rposition(|(number, _)| *number <= moment).unwrap();
                    versions[last.max(*first)].1 == found[bytes_of(sector)]
                })
            })
        }

        /// Registers the content found after the power is back.
        fn restart(&mut self, found: &[u8]) {
            for (sector, (first, versions)) in self.sectors.iter_mut().enumerate() {
                *first = 0;
                *versions = vec![(0, found[bytes_of(sector)].to_vec())];
            }
        }
    }

    fn content(medium: &Medium) -> Vec<u8> {
        let mut content = vec![0xAA; CAPACITY];
        medium.read(0, &mut content);
        content
    }

    fn step(medium: &mut Medium, model: &mut Model, begun: &mut Option<(u64, u64)>, act: Act) {
        match act {
            Act::Write(at, len, byte, durable) => {
                let range = at..(at + len).min(CAPACITY);
                medium.write(at as u64, &vec![byte; range.len()], durable);
                let mut after = model.content();
                after[range.clone()].fill(byte);
                model.write(range, &after, durable);
            }
            Act::Trim(at, len) => {
                let end = (at + len).min(CAPACITY);
                let range = at.div_ceil(SECTOR) * SECTOR..end / SECTOR * SECTOR;
                medium.trim(at as u64, (end - at) as u64);
                let mut after = model.content();
                if range.start < range.end {
                    after[range.clone()].copy_from_slice(&content(medium)[range.clone()]);
                }
                model.write(range, &after, false);
            }
            Act::Begin => *begun = Some((medium.mark(), model.writes)),
            Act::End => {
                let (mark, writes) = begun.take().unwrap_or((medium.mark(), model.writes));
                medium.flush(mark);
                model.flush(writes);
            }
            Act::Cut(seed, tear) => {
                medium.cut(seed, tear);
                let found = content(medium);
                let sectors = if tear == Tear::Sector { 1 } else { PAGE / SECTOR };
                for first in (0..CAPACITY / SECTOR).step_by(sectors) {
                    assert!(model.may_be(first..first + sectors, &found), "sector {first}");
                }
                model.restart(&found);
                *begun = None;
            }
        }
        assert!(content(medium) == model.content());
        let kept = medium.loose.values().all(|loose| !loose.versions.is_empty());
        assert!(kept, "only what is loose is kept twice");
    }

    proptest! {
        #[test]
        fn a_power_cut_leaves_a_permitted_state(acts in proptest::collection::vec(act(), 1..60), seed: u64) {
            let (mut medium, mut model, mut begun) = (Medium::new(seed), Model::new(), None);
            for act in acts {
                step(&mut medium, &mut model, &mut begun, act);
            }
            medium.flush(medium.mark());
            prop_assert!(medium.loose.is_empty());
        }
    }

    /// Returns what cuts with many seeds leave in the first bytes of sectors 0 and 1.
    fn outcomes(tear: Tear, prepare: impl Fn(&mut Medium)) -> BTreeSet<(u8, u8)> {
        let cut = |seed| {
            let mut medium = Medium::new(0);
            prepare(&mut medium);
            medium.cut(seed, tear);
            let found = content(&medium);
            assert!(medium.loose.is_empty());
            (found[0], found[SECTOR])
        };
        (0..400).map(cut).collect()
    }

    #[test]
    fn every_permitted_outcome_occurs_and_no_other() {
        let twice = |medium: &mut Medium| {
            medium.write(0, &[1; 2 * SECTOR], false);
            medium.write(0, &[2; 2 * SECTOR], false);
        };
        let any = (0..3).flat_map(|first| (0..3).map(move |second| (first, second)));
        assert_eq!(outcomes(Tear::Sector, twice), any.collect());
        assert_eq!(outcomes(Tear::Page, twice), BTreeSet::from([(0, 0), (1, 1), (2, 2)]));
        let durable = |medium: &mut Medium| {
            twice(medium);
            medium.write(0, &[3; SECTOR], true);
        };
        let second = BTreeSet::from([(3, 0), (3, 1), (3, 2)]);
        assert_eq!(outcomes(Tear::Sector, durable), second);
        assert_eq!(outcomes(Tear::Page, durable), second);
    }

    #[test]
    fn a_flush_covers_what_was_written_before_it_began() {
        let flushed = |medium: &mut Medium| {
            medium.write(0, &[1; SECTOR], false);
            let mark = medium.mark();
            medium.write(0, &[2; 2 * SECTOR], false);
            medium.flush(mark);
        };
        let found = outcomes(Tear::Sector, flushed);
        assert_eq!(found, BTreeSet::from([(1, 0), (1, 2), (2, 0), (2, 2)]));
    }

    #[test]
    fn all_and_nothing_survive_at_times() {
        let many = |medium: &mut Medium| medium.write(0, &[1; CAPACITY], false);
        let cut = |seed| {
            let mut medium = Medium::new(0);
            many(&mut medium);
            medium.cut(seed, Tear::Sector);
            content(&medium).chunks(SECTOR).filter(|sector| sector[0] == 1).count()
        };
        let survived: BTreeSet<usize> = (0..100).map(cut).collect();
        let sectors = CAPACITY / SECTOR;
        assert!(survived.contains(&0) && survived.contains(&sectors) && survived.len() > 5);
    }

    #[test]
    fn a_write_of_a_whole_page_survives_as_often_as_not() {
        let survives = |seed: &u64| {
            let mut medium = Medium::new(0);
            medium.write(0, &[1; PAGE], false);
            medium.cut(*seed, Tear::Page);
            content(&medium)[0] == 1
        };
        let survived = (0..400).filter(survives).count();
        assert!((150..250).contains(&survived), "{survived} of 400");
    }

    #[test]
    fn the_same_seeds_give_the_same_bytes() {
        let run = |seed| {
            let mut medium = Medium::new(seed);
            medium.write(0, &[7; CAPACITY], true);
            for at in 0..10 {
                medium.trim(at * 700, 2000);
                medium.write(at * 900, &[at as u8; 700], false);
            }
            medium.cut(seed, Tear::Sector);
            content(&medium)
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }

    #[test]
    fn trims_leave_zeros_or_junk_and_take_no_memory() {
        let trimmed: BTreeSet<Vec<u8>> = (0..20)
            .map(|seed| {
                let mut medium = Medium::new(seed);
                medium.write(0, &[7; SECTOR], false);
                medium.trim(0, u64::MAX);
                assert_eq!(medium.written.present(0, u64::MAX).len(), 1);
                let found = content(&medium);
                assert!(found[PAGE..].iter().all(|byte| *byte == 0), "never written");
                found
            })
            .collect();
        assert!(trimmed.len() > 5 && trimmed.contains(&vec![0; CAPACITY]));
        assert!(!trimmed.iter().any(|found| found[..SECTOR] == [7; SECTOR]));
    }
}
