//! Where requests go: volumes one after another, each cut in quarters, and these again, for some levels: the
//! paper's states. Transitions lead from range to range within the same parent, at the coarsest level at
//! which the two differ; from volume to volume they are of whole volumes.
//!
//! The busiest volumes have ranges of their own, all others share one set.

use std::collections::BTreeMap;

use crate::bytes::{Bad, Bytes, Writer};

/// Volumes with ranges of their own.
pub(crate) const OWN_MAX: usize = 63;
/// Ranges of all volumes together, at most, unless a level is asked for.
pub(crate) const RANGES_WANTED: usize = 96;
/// Ranges at most.
pub(crate) const RANGES_MAX: usize = 256;
/// Ranges of which any may lead to any, at most.
const FLAT_MAX: usize = 64;
/// Levels at most.
pub const LEVEL_MAX: u8 = 4;
/// Levels that are tried first.
pub(crate) const LEVEL: u8 = 3;
const MIB_BITS: u32 = 20;
const MIB: u64 = 1 << MIB_BITS;
/// MiB of all volumes together: 1 EiB.
const EXTENT_MIB_MAX: u64 = 1 << 40;
const VOLUMES_MAX: usize = 1 << 20;

/// A volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// How far it was used, in whole MiB, at least one.
    pub extent_mib: u64,
    /// Whether its ranges are its own.
    pub(crate) is_own: bool,
    /// Its name, where names were asked for.
    pub name: Option<String>,
}

/// The volumes and how finely they are cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volumes {
    /// Levels of the hierarchy.
    pub level: u8,
    /// Whether any range leads to any other, not only to siblings.
    pub is_flat: bool,
    /// The volumes.
    pub volumes: Vec<Volume>,
}

impl Volumes {
    /// Of volumes reached so far (in bytes) and so busy, to about `level`.
    pub(crate) fn new(
        reached: &[u64],
        requests: &[u64],
        level: Option<u8>,
        is_flat: bool,
    ) -> Volumes {
        let mut busiest: Vec<usize> = (0..reached.len()).collect();
        busiest.sort_by_key(|&volume| (std::cmp::Reverse(requests[volume]), volume));
        let all = reached.len() <= OWN_MAX + 1;
        let mut volumes: Vec<Volume> = reached
            .iter()
            .map(|bytes| Volume { extent_mib: bytes.div_ceil(MIB).max(1), is_own: all, name: None })
            .collect();
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

    /// Volumes, but those that share ranges count once.
    pub(crate) fn areas(&self) -> usize {
        let own = self.volumes.iter().filter(|volume| volume.is_own).count();
        own + usize::from(own < self.volumes.len())
    }

    /// All ranges.
    pub fn ranges(&self) -> usize {
        self.areas() << (2 * self.level)
    }

    pub(crate) fn put(&self, writer: &mut Writer) {
        writer.number(self.level.into());
        writer.number(self.is_flat.into());
        writer.number(self.volumes.len() as u64);
        for volume in &self.volumes {
            let is_named = u64::from(volume.name.is_some());
            writer.number(volume.extent_mib << 2 | is_named << 1 | u64::from(volume.is_own));
            volume.name.iter().for_each(|name| writer.text(name));
        }
    }

    pub(crate) fn get(bytes: &mut Bytes) -> Result<Volumes, Bad> {
        let level = bytes.number(LEVEL_MAX.into(), "level")? as u8;
        let is_flat = bytes.number(1, "flat")? == 1;
        let length = bytes.length(VOLUMES_MAX, "volumes")?;
        let mut left_mib = EXTENT_MIB_MAX;
        let volumes = bytes.list(length, |bytes| {
            let number = bytes.number(left_mib << 2 | 3, "extent of a volume")?;
            let extent_mib = number >> 2;
            if extent_mib == 0 {
                return bytes.bad("a volume of 0 MiB", "1 at least");
            }
            left_mib -= extent_mib;
            let name = (number & 2 != 0).then(|| bytes.text("name of a volume")).transpose()?;
            Ok(Volume { extent_mib, is_own: number & 1 == 1, name })
        })?;
        let found = Volumes { level, is_flat, volumes };
        let most = if is_flat { FLAT_MAX } else { RANGES_MAX };
        if found.volumes.is_empty() || found.areas() > OWN_MAX + 1 || found.ranges() > most {
            let got = format!("{} ranges on {length} volumes", found.ranges());
            return bytes.bad(got, format!("{most} at most on one volume at least"));
        }
        Ok(found)
    }
}

/// Addresses of one space in which all volumes lie, and their ranges.
#[derive(Clone, Debug)]
pub(crate) struct Space {
    level: u8,
    /// Where each volume begins.
    base: Vec<u64>,
    /// Begin, end and number of each volume, in order of place.
    placed: Vec<(u64, u64, u32)>,
    /// The area of each volume.
    area: Vec<u16>,
    /// Begin and end of each area.
    areas: Vec<(u64, u64)>,
}

impl Space {
    pub(crate) fn new(volumes: &Volumes) -> Space {
        let list = &volumes.volumes;
        let (mut base, mut area) = (vec![0; list.len()], vec![0; list.len()]);
        let (mut placed, mut areas, mut at) = (Vec::new(), Vec::new(), 0u64);
        let own = (0..list.len()).filter(|&volume| list[volume].is_own);
        let rest = (0..list.len()).filter(|&volume| !list[volume].is_own);
        for volume in own.chain(rest) {
            let (begin, end) = (at, at + list[volume].extent_mib * MIB);
            base[volume] = begin;
            placed.push((begin, end, volume as u32));
            let shares = !list[volume].is_own && areas.len() == volumes.areas();
            match areas.last_mut() {
                Some((_, last)) if shares => *last = end,
                _ => areas.push((begin, end)),
            }
            area[volume] = (areas.len() - 1) as u16;
            at = end;
        }
        Space { level: volumes.level, base, placed, area, areas }
    }

    /// The address of a place on a volume.
    #[inline]
    pub(crate) fn address(&self, volume: u32, offset: u64) -> u64 {
        self.base[volume as usize] + offset
    }

    /// The area of a volume.
    #[inline]
    pub(crate) fn area(&self, volume: u32) -> usize {
        self.area[volume as usize].into()
    }

    /// Areas.
    pub(crate) fn areas(&self) -> usize {
        self.areas.len()
    }

    /// The end of all.
    pub(crate) fn end(&self) -> u64 {
        self.placed.last().map_or(0, |volume| volume.1)
    }

    /// Begin, end and number of the volume at an address, or the last.
    #[inline]
    pub(crate) fn volume_at(&self, address: u64) -> (u64, u64, u32) {
        if let [only] = self.placed[..] {
            return only;
        }
        let after = self.placed.partition_point(|volume| volume.0 <= address);
        self.placed[after.max(1) - 1]
    }

    /// The first volume of an area.
    pub(crate) fn volume_of_area(&self, area: usize) -> u32 {
        self.areas.get(area).map_or(0, |&(begin, _)| self.volume_at(begin).2)
    }

    /// The area of a range.
    #[inline]
    pub(crate) fn area_of_range(&self, range: usize) -> usize {
        range >> (2 * self.level)
    }

    /// The range of an address.
    #[inline]
    pub(crate) fn range(&self, address: u64) -> usize {
        let area = match self.areas.len() {
            1 => 0,
            _ => self.area(self.volume_at(address).2),
        };
        let (begin, end) = self.areas[area];
        let parts = 1u64 << (2 * self.level);
        // Areas are whole MiB, so what the parts do not divide of one is cut off first: no more than 64 bits.
        let units = address.saturating_sub(begin) >> (MIB_BITS - 2 * u32::from(self.level));
        let part = units / ((end - begin) >> MIB_BITS);
        (area << (2 * self.level)) + part.min(parts - 1) as usize
    }

    /// Where a range begins and ends.
    #[inline]
    pub(crate) fn bounds(&self, range: usize) -> (u64, u64) {
        let (begin, end) = self.areas[self.area_of_range(range)];
        let (parts, part) =
            (1u64 << (2 * self.level), range as u64 & ((1 << (2 * self.level)) - 1));
        let edge = |part: u64| {
            let share = u128::from(end - begin) * u128::from(part);
            begin + share.div_ceil(u128::from(parts)) as u64
        };
        (edge(part), edge(part + 1))
    }
}

/// Which transition leads from each range to each.
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

    /// Those that lead from a range to each.
    #[inline]
    pub(crate) fn from(&self, range: usize) -> &[u32] {
        &self.of[range * self.ranges..][..self.ranges]
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }
}

/// What tells transitions apart: the two ancestors that are siblings, and where there are none the volumes.
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
        let reached: Vec<u64> = extents.iter().map(|mib| mib * MIB).collect();
        Volumes::new(&reached, extents, Some(level), is_flat)
    }

    #[test]
    fn transitions_are_as_many_as_the_paper_counts() {
        for (level, hierarchical, flat) in [(1, 16, 16), (2, 76, 256), (3, 316, 4096)] {
            let count = |is_flat| Transitions::new(&volumes(&[100], level, is_flat)).count();
            assert_eq!((count(false), count(true)), (hierarchical, flat), "level {level}");
        }
        // Two volumes of 16 each, and two between them.
        assert_eq!(Transitions::new(&volumes(&[9, 9], 1, false)).count(), 34);
    }

    #[test]
    fn every_address_lies_within_its_range() {
        let volumes = volumes(&[7, 100, 3], 2, false);
        let space = Space::new(&volumes);
        for address in (0..space.end()).step_by(70_001) {
            let (begin, end) = space.bounds(space.range(address));
            assert!((begin..end).contains(&address), "{address} in {begin} to {end}");
        }
        assert_eq!(space.range(space.address(1, 0)), 16);
        assert_eq!(space.range(space.end() - 1), 47);
    }

    #[test]
    fn the_least_busy_of_many_volumes_share_ranges() {
        let busy: Vec<u64> = (1..=200).collect();
        let all = Volumes::new(&vec![MIB; 200], &busy, None, false);
        assert_eq!((all.areas(), all.level), (64, 0));
        let space = Space::new(&all);
        assert_eq!((space.areas(), space.end()), (64, 200 * MIB));
        assert_eq!(
            (space.area(0), space.area(136), space.area(137), space.area(199)),
            (63, 63, 0, 62)
        );
        assert_eq!(space.volume_at(space.address(5, 17)).2, 5);
        let mut writer = Writer::default();
        all.put(&mut writer);
        assert_eq!(Volumes::get(&mut Bytes::new(&writer.0)).unwrap(), all);
    }
}
