//! The ranges of the address space, which are the states of the paper's model. The volumes lie one
//! after another. Each is divided into quarters, which are divided again, for several levels. A
//! transition leads from one range to another with the same parent, at the coarsest level at which
//! the two differ. Between volumes, a transition leads from one whole volume to another.
//!
//! Only the used parts of volumes are divided: long gaps without requests are left out (`address`),
//! so that a distant request does not push all others into one range.
//!
//! The busiest volumes have their own ranges; all others share one set.

use std::collections::BTreeMap;

use forebay_trace::touched::{GRAIN_BYTES, Stretch};

use crate::bytes::{ByteError, Bytes, Writer};

/// The maximum number of volumes with their own ranges.
pub(crate) const OWN_MAX: usize = 63;
/// The maximum number of ranges on all volumes, unless a level is requested.
pub(crate) const RANGES_WANTED: usize = 96;
/// The maximum number of ranges on all volumes.
pub(crate) const RANGES_MAX: usize = 256;
/// The maximum number of ranges if every pair has its own transition.
const FLAT_MAX: usize = 64;
/// The maximum number of levels.
pub const LEVEL_MAX: u8 = 4;
/// The number of levels tried first.
pub(crate) const LEVEL: u8 = 3;
/// The maximum number of MiB in use on all volumes: 1 EiB.
pub const USED_MIB_MAX: u64 = 1 << 40;
/// The maximum extent of a volume in MiB: up to 64-bit byte offsets.
const EXTENT_MIB_MAX: u64 = (1 << 44) - 1;
/// The maximum number of stretches on a volume.
const STRETCHES_MAX: usize = 1 << 12;
const VOLUMES_MAX: usize = 1 << 20;

/// A volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// The extent of the volume in whole MiB, at least one.
    pub extent_mib: u64,
    /// The used stretches of the volume if there are long gaps between them or before the first.
    /// Empty if there are no such gaps.
    pub(crate) stretches: Vec<Stretch>,
    /// The number of requests on each stretch.
    pub(crate) stretch_requests: Vec<u64>,
    /// Whether the volume has its own ranges.
    pub(crate) is_own: bool,
    /// The name, if names were requested.
    pub name: Option<String>,
}

impl Volume {
    /// Returns the number of MiB in use, without gaps.
    pub(crate) fn used_mib(&self) -> u64 {
        match &self.stretches[..] {
            [] => self.extent_mib,
            some => some.iter().map(|stretch| stretch.end_mib - stretch.begin_mib).sum(),
        }
    }

    fn put(&self, writer: &mut Writer) {
        let is_named = u64::from(self.name.is_some());
        let has_gaps = u64::from(!self.stretches.is_empty());
        let flags = has_gaps << 2 | is_named << 1 | u64::from(self.is_own);
        writer.number(self.extent_mib << 3 | flags);
        self.name.iter().for_each(|name| writer.text(name));
        if has_gaps == 0 {
            return;
        }
        writer.number(self.stretches.len() as u64);
        let mut at = 0;
        for (stretch, &requests) in self.stretches.iter().zip(&self.stretch_requests) {
            let (gap, mib) = (stretch.begin_mib - at, stretch.end_mib - stretch.begin_mib);
            writer.numbers([gap, mib, requests]);
            at = stretch.end_mib;
        }
    }

    /// Reads a volume of which at most `left_mib` MiB are in use.
    fn get(bytes: &mut Bytes, form: Form, left_mib: u64) -> Result<Volume, ByteError> {
        let bits = if form == Form::WithoutGaps { 2 } else { 3 };
        let number = bytes.number(EXTENT_MIB_MAX << bits | 7, "extent of a volume")?;
        let (extent_mib, flags) = (number >> bits, number & ((1 << bits) - 1));
        if extent_mib == 0 {
            return bytes.bad("a volume of 0 MiB", "1 at least");
        }
        let name = (flags & 2 != 0).then(|| bytes.text("name of a volume")).transpose()?;
        let (mut stretches, mut stretch_requests) = (Vec::new(), Vec::new());
        if flags & 4 != 0 {
            let length = bytes.length(STRETCHES_MAX, "stretches of a volume")?;
            let mut at = 0;
            for _ in 0..length {
                let begin_mib = at + bytes.number(extent_mib - at, "gap of a volume")?;
                let mib = bytes.number(extent_mib - begin_mib, "stretch of a volume")?;
                if mib == 0 {
                    return bytes.bad("a stretch of 0 MiB", "1 at least");
                }
                at = begin_mib + mib;
                stretches.push(Stretch { begin_mib, end_mib: at });
                stretch_requests.push(bytes.number(u64::MAX, "requests of a stretch")?);
            }
            if stretches.is_empty() {
                return bytes.bad("a volume without a stretch", "1 at least");
            }
        }
        let volume =
            Volume { extent_mib, stretches, stretch_requests, is_own: flags & 1 == 1, name };
        match volume.used_mib() <= left_mib {
            true => Ok(volume),
            false => bytes.bad(
                format!("{} MiB of a volume", volume.used_mib()),
                format!("at most {USED_MIB_MAX} on all volumes together"),
            ),
        }
    }
}

/// The encoding of volumes in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Before version 5: only the extent of each volume.
    WithoutGaps,
    /// The extent and the stretches of each volume.
    Current,
}

/// The volumes, and how finely they are divided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volumes {
    /// The number of levels in the hierarchy of ranges.
    pub level: u8,
    /// Whether every pair of ranges has its own transition, not only siblings.
    pub is_flat: bool,
    /// The volumes.
    pub volumes: Vec<Volume>,
}

impl Volumes {
    /// Creates volumes from the extent, the used stretches and the number of requests of each,
    /// divided into at most `level` levels.
    pub(crate) fn new(
        reached: &[u64],
        mut stretches: Vec<Vec<Stretch>>,
        requests: &[u64],
        level: Option<u8>,
        is_flat: bool,
    ) -> Volumes {
        let mut busiest: Vec<usize> = (0..reached.len()).collect();
        busiest.sort_by_key(|&volume| (std::cmp::Reverse(requests[volume]), volume));
        let all = reached.len() <= OWN_MAX + 1;
        stretches.resize(reached.len(), Vec::new());
        let volume = |(bytes, mut stretches): (&u64, Vec<Stretch>)| {
            let extent_mib = bytes.div_ceil(GRAIN_BYTES).max(1);
            if stretches == [Stretch { begin_mib: 0, end_mib: extent_mib }] {
                stretches.clear();
            }
            let stretch_requests = vec![0; stretches.len()];
            Volume { extent_mib, stretches, stretch_requests, is_own: all, name: None }
        };
        let mut volumes: Vec<Volume> = reached.iter().zip(stretches).map(volume).collect();
        busiest.iter().take(OWN_MAX).for_each(|&volume| volumes[volume].is_own = true);
        let mut found = Volumes { level: level.unwrap_or(LEVEL), is_flat, volumes };
        let most = match level {
            _ if is_flat => FLAT_MAX,
            Some(_) => RANGES_MAX,
            None => RANGES_WANTED,
        };
        while found.level > 0 && found.ranges() > most {
            found.level -= 1;
        }
        found
    }

    /// Returns the number of areas: a volume with ranges of its own is an area, and so are all volumes that share ranges together.
    pub(crate) fn areas(&self) -> usize {
        let own = self.volumes.iter().filter(|volume| volume.is_own).count();
        own + usize::from(own < self.volumes.len())
    }

    /// Returns the number of MiB in use on all volumes, without long gaps.
    pub fn used_mib(&self) -> u64 {
        self.volumes.iter().fold(0, |sum, volume| sum.saturating_add(volume.used_mib()))
    }

    /// Returns the number of all ranges.
    pub fn ranges(&self) -> usize {
        self.areas() << (2 * self.level)
    }

    pub(crate) fn put(&self, writer: &mut Writer) {
        writer.number(self.level.into());
        writer.number(self.is_flat.into());
        writer.number(self.volumes.len() as u64);
        self.volumes.iter().for_each(|volume| volume.put(writer));
    }

    pub(crate) fn get(bytes: &mut Bytes, form: Form) -> Result<Volumes, ByteError> {
        let level = bytes.number(LEVEL_MAX.into(), "level")? as u8;
        let is_flat = bytes.number(1, "flat")? == 1;
        let length = bytes.length(VOLUMES_MAX, "volumes")?;
        let mut left_mib = USED_MIB_MAX;
        let volumes = bytes.list(length, |bytes| {
            let volume = Volume::get(bytes, form, left_mib)?;
            left_mib -= volume.used_mib();
            Ok(volume)
        })?;
        let found = Volumes { level, is_flat, volumes };
        let most = if is_flat { FLAT_MAX } else { RANGES_MAX };
        if found.volumes.is_empty() || found.areas() > OWN_MAX + 1 || found.ranges() > most {
            let got = format!("{} ranges on {length} volumes", found.ranges());
            return bytes.bad(got, format!("at most {most}, on at least one volume"));
        }
        Ok(found)
    }
}

/// The transition between each pair of ranges.
#[derive(Clone, Debug)]
pub(crate) struct Transitions {
    ranges: usize,
    of: Vec<u32>,
    count: usize,
}

impl Transitions {
    pub(crate) fn new(volumes: &Volumes) -> Transitions {
        let (ranges, level) = (volumes.ranges(), u32::from(volumes.level));
        let mut known = BTreeMap::new();
        let mut of = Vec::with_capacity(ranges * ranges);
        for from in 0..ranges {
            for to in 0..ranges {
                let next = known.len() as u32;
                of.push(*known.entry(key(from, to, level, volumes.is_flat)).or_insert(next));
            }
        }
        Transitions { ranges, of, count: known.len() }
    }

    #[inline]
    pub(crate) fn of(&self, from: usize, to: usize) -> usize {
        self.of[from * self.ranges + to] as usize
    }

    /// Returns the transitions from a range to all ranges.
    #[inline]
    pub(crate) fn from(&self, range: usize) -> &[u32] {
        &self.of[range * self.ranges..][..self.ranges]
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }
}

/// Returns the identity of the transition between two ranges: their ancestors that are siblings or,
/// if there are none, their volumes.
fn key(from: usize, to: usize, level: u32, is_flat: bool) -> (u32, usize, usize) {
    if is_flat {
        return (0, from, to);
    }
    if from >> (2 * level) != to >> (2 * level) {
        return (u32::MAX, from >> (2 * level), to >> (2 * level));
    }
    let parted = (0..level).rev().find(|&below| from >> (2 * below) != to >> (2 * below));
    let below = parted.unwrap_or(0);
    (below, from >> (2 * below), to >> (2 * below))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn volumes(extents: &[u64], level: u8, is_flat: bool) -> Volumes {
        let reached: Vec<u64> = extents.iter().map(|mib| mib * GRAIN_BYTES).collect();
        Volumes::new(&reached, Vec::new(), extents, Some(level), is_flat)
    }

    #[test]
    fn transitions_are_as_many_as_the_paper_counts() {
        for (level, hierarchical, flat) in [(1, 16, 16), (2, 76, 256), (3, 316, 4096)] {
            let count = |is_flat| Transitions::new(&volumes(&[100], level, is_flat)).count();
            assert_eq!((count(false), count(true)), (hierarchical, flat), "level {level}");
        }
        // 16 transitions within each of the two volumes, and two between them.
        assert_eq!(Transitions::new(&volumes(&[9, 9], 1, false)).count(), 34);
    }

    #[test]
    fn the_least_busy_of_many_volumes_share_ranges() {
        let busy: Vec<u64> = (1..=200).collect();
        let all = Volumes::new(&vec![GRAIN_BYTES; 200], Vec::new(), &busy, None, false);
        assert_eq!((all.areas(), all.level), (64, 0));
        let mut writer = Writer::default();
        all.put(&mut writer);
        assert_eq!(Volumes::get(&mut Bytes::new(&writer.0), Form::Current).unwrap(), all);
    }
    #[test]
    fn stretches_are_kept_and_checked() {
        let stretch = |begin_mib, end_mib| Stretch { begin_mib, end_mib };
        let reached = [(1 << 63) + 1, 5 << 20];
        let gaps = vec![vec![stretch(7, 90), stretch(1 << 43, (1 << 43) + 1)], vec![stretch(0, 5)]];
        let volumes = Volumes::new(&reached, gaps, &[1, 2], Some(2), false);
        assert_eq!([volumes.volumes[0].used_mib(), volumes.volumes[1].used_mib()], [84, 5]);
        assert!(volumes.volumes[1].stretches.is_empty(), "one without gaps");
        let mut writer = Writer::default();
        volumes.put(&mut writer);
        assert_eq!(Volumes::get(&mut Bytes::new(&writer.0), Form::Current).unwrap(), volumes);
        let refused = |numbers: &[u64]| {
            let mut writer = Writer::default();
            writer.numbers([1, 0, 1].into_iter().chain(numbers.iter().copied()));
            Volumes::get(&mut Bytes::new(&writer.0), Form::Current).unwrap_err().got
        };
        let extent = |mib: u64| mib << 3 | 5;
        assert_eq!(refused(&[extent(9), 0]), "a volume without a stretch");
        assert_eq!(refused(&[extent(9), 1, 3, 0]), "a stretch of 0 MiB");
        assert_eq!(refused(&[extent(9), 1, 3, 7]), "stretch of a volume 7");
        assert_eq!(refused(&[extent(9), 2, 3, 4, 1, 3, 0]), "gap of a volume 3");
        assert!(refused(&[extent(1 << 42), 1, 0, 1 << 41, 1]).contains("MiB of a volume"));
        assert!(refused(&[extent(1 << 44), 1, 0, 1]).contains("extent of a volume"));
    }
}
