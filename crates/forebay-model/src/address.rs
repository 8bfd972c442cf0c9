//! A single address space that contains all volumes one after another, without the gaps that no
//! request uses.
//!
//! Within a stretch of a volume, distances are the same as on the volume. A stretch includes the
//! part of the following gap that still counts as near, so that the neighborhood of its last
//! requests is unchanged.

use forebay_trace::touched::{GRAIN_BYTES, Stretch};

use crate::Volumes;

const MIB_BITS: u32 = GRAIN_BYTES.ilog2();

/// The common address space of all volumes, and its division into ranges.
#[derive(Clone, Debug)]
pub(crate) struct Space {
    level: u8,
    /// The stretches of all volumes in order of address.
    pieces: Vec<Piece>,
    /// For each volume, the indices into `pieces` of its first stretch and of the first one after
    /// it.
    pieces_of: Vec<(u32, u32)>,
    /// The end address of each volume.
    ends: Vec<u64>,
    /// The start address, end address and index of each volume, in order of address.
    placed: Vec<(u64, u64, u32)>,
    /// The area of each volume.
    area: Vec<u16>,
    /// The start and end address of each area.
    areas: Vec<(u64, u64)>,
}

/// A stretch of a volume.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// The start of the stretch in the common address space.
    address: u64,
    /// The start of the stretch on its volume.
    offset: u64,
}

impl Space {
    pub(crate) fn new(volumes: &Volumes) -> Space {
        let list = &volumes.volumes;
        let (mut pieces, mut pieces_of) = (Vec::new(), vec![(0, 0); list.len()]);
        let (mut ends, mut area) = (vec![0; list.len()], vec![0; list.len()]);
        let (mut placed, mut areas, mut at) = (Vec::new(), Vec::new(), 0u64);
        let own = (0..list.len()).filter(|&volume| list[volume].is_own);
        let rest = (0..list.len()).filter(|&volume| !list[volume].is_own);
        for volume in own.chain(rest) {
            let first = pieces.len() as u32;
            let whole = [Stretch { begin_mib: 0, end_mib: list[volume].extent_mib }];
            let stretches = match &list[volume].stretches[..] {
                [] => &whole,
                some => some,
            };
            let (begin, mut end) = (at, at);
            for Stretch { begin_mib, end_mib } in stretches {
                pieces.push(Piece { address: end, offset: begin_mib.saturating_mul(GRAIN_BYTES) });
                // An overflow is rejected when the whole model has been read.
                end = end.saturating_add((end_mib - begin_mib).saturating_mul(GRAIN_BYTES));
            }
            pieces_of[volume] = (first, pieces.len() as u32);
            ends[volume] = end;
            placed.push((begin, end, volume as u32));
            let shares = !list[volume].is_own && areas.len() == volumes.areas();
            match areas.last_mut() {
                Some((_, last)) if shares => *last = end,
                _ => areas.push((begin, end)),
            }
            area[volume] = (areas.len() - 1) as u16;
            at = end;
        }
        Space { level: volumes.level, pieces, pieces_of, ends, placed, area, areas }
    }

    #[inline]
    fn pieces(&self, volume: u32) -> &[Piece] {
        let (first, end) = self.pieces_of[volume as usize];
        &self.pieces[first as usize..end as usize]
    }

    /// Returns the address of an offset on a volume. For an offset in a gap, it is the last address
    /// of the stretch before the gap.
    #[inline]
    pub(crate) fn address(&self, volume: u32, offset: u64) -> u64 {
        let pieces = self.pieces(volume);
        let after = match pieces {
            [_] => 1,
            _ => pieces.partition_point(|piece| piece.offset <= offset).max(1),
        };
        let piece = pieces[after - 1];
        let end = pieces.get(after).map_or(self.ends[volume as usize], |next| next.address);
        let address = piece.address.saturating_add(offset.saturating_sub(piece.offset));
        address.min(end.saturating_sub(1))
    }

    /// Returns the offset on `volume` that corresponds to an address.
    #[inline]
    pub(crate) fn offset(&self, volume: u32, address: u64) -> u64 {
        let pieces = self.pieces(volume);
        let after = match pieces {
            [_] => 1,
            _ => pieces.partition_point(|piece| piece.address <= address).max(1),
        };
        let piece = pieces[after - 1];
        piece.offset + (address - piece.address)
    }

    /// Returns the index of the stretch that contains an address.
    #[inline]
    pub(crate) fn piece(&self, address: u64) -> usize {
        self.pieces.partition_point(|piece| piece.address <= address).max(1) - 1
    }

    /// Returns the number of requests on each stretch, or an empty list if no volume has gaps. For
    /// a volume without gaps it is unknown, and given as unlimited.
    pub(crate) fn piece_requests(&self, volumes: &Volumes) -> Vec<u64> {
        if self.pieces.len() == volumes.volumes.len() {
            return Vec::new();
        }
        let mut requests = vec![u64::MAX; self.pieces.len()];
        for (volume, &(first, _)) in volumes.volumes.iter().zip(&self.pieces_of) {
            let known = requests[first as usize..].iter_mut().zip(&volume.stretch_requests);
            known.for_each(|(requests, &known)| *requests = known);
        }
        requests
    }

    /// Sets the number of requests on each stretch of `volumes` from a list in order of address.
    pub(crate) fn set_piece_requests(&self, volumes: &mut Volumes, requests: &[u64]) {
        for (volume, &(first, _)) in volumes.volumes.iter_mut().zip(&self.pieces_of) {
            let stretches = volume.stretch_requests.iter_mut();
            stretches.zip(&requests[first as usize..]).for_each(|(to, from)| *to = *from);
        }
    }

    /// Returns the start and end of the part of a stretch that lies between two addresses.
    pub(crate) fn piece_within(&self, piece: usize, low: u64, high: u64) -> (u64, u64) {
        let end = self.pieces.get(piece + 1).map_or(self.end(), |next| next.address);
        (self.pieces[piece].address.max(low), end.min(high))
    }

    /// Returns the number of stretches on all volumes.
    pub(crate) fn pieces_len(&self) -> usize {
        self.pieces.len()
    }

    /// Returns the area of a volume.
    #[inline]
    pub(crate) fn area(&self, volume: u32) -> usize {
        self.area[volume as usize].into()
    }

    /// Returns the number of areas.
    pub(crate) fn areas(&self) -> usize {
        self.areas.len()
    }

    /// Returns the end of the address space.
    pub(crate) fn end(&self) -> u64 {
        self.placed.last().map_or(0, |volume| volume.1)
    }

    /// Returns the start address, end address and index of the volume at an address. Addresses past
    /// the end belong to the last volume.
    #[inline]
    pub(crate) fn volume_at(&self, address: u64) -> (u64, u64, u32) {
        if let [only] = self.placed[..] {
            return only;
        }
        let after = self.placed.partition_point(|volume| volume.0 <= address);
        self.placed[after.max(1) - 1]
    }

    /// Returns the first volume of an area.
    pub(crate) fn volume_of_area(&self, area: usize) -> u32 {
        self.areas.get(area).map_or(0, |&(begin, _)| self.volume_at(begin).2)
    }

    /// Returns the area of a range.
    #[inline]
    pub(crate) fn area_of_range(&self, range: usize) -> usize {
        range >> (2 * self.level)
    }

    /// Returns the range of an address.
    #[inline]
    pub(crate) fn range(&self, address: u64) -> usize {
        let area = match self.areas.len() {
            1 => 0,
            _ => self.area(self.volume_at(address).2),
        };
        let (begin, end) = self.areas[area];
        let parts = 1u64 << (2 * self.level);
        // To stay within 64 bits, the address is divided by MiB / parts before it is divided by the
        // area's length in MiB. The remainder does not matter, because areas are whole MiB long.
        let units = address.saturating_sub(begin) >> (MIB_BITS - 2 * u32::from(self.level));
        let part = units / ((end - begin) >> MIB_BITS).max(1);
        (area << (2 * self.level)) + part.min(parts - 1) as usize
    }

    /// Returns the start and end address of a range.
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

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = GRAIN_BYTES;

    fn stretch(begin_mib: u64, end_mib: u64) -> Stretch {
        Stretch { begin_mib, end_mib }
    }

    fn volumes(mib: &[u64], stretches: Vec<Vec<Stretch>>, level: u8) -> Volumes {
        let reached: Vec<u64> = mib.iter().map(|mib| mib * MIB).collect();
        Volumes::new(&reached, stretches, mib, Some(level), false)
    }

    #[test]
    fn every_address_lies_within_its_range() {
        let volumes = volumes(&[7, 100, 3], Vec::new(), 2);
        let space = Space::new(&volumes);
        for address in (0..space.end()).step_by(70_001) {
            let (begin, end) = space.bounds(space.range(address));
            assert!((begin..end).contains(&address), "{address} in {begin} to {end}");
        }
        assert_eq!(space.range(space.address(1, 0)), 16);
        assert_eq!(space.range(space.end() - 1), 47);
    }

    #[test]
    fn gaps_have_no_addresses() {
        let far = 1 << 43;
        let gaps =
            vec![Vec::new(), vec![stretch(100, 110), stretch(200, 230), stretch(far, far + 1)]];
        let space = Space::new(&volumes(&[10, far + 1], gaps, 0));
        assert_eq!(space.end(), (10 + 41) * MIB);
        for (offset, address) in [
            (100 * MIB, 10 * MIB),
            (110 * MIB - 1, 20 * MIB - 1),
            (200 * MIB + 5, 20 * MIB + 5),
            (far * MIB, 50 * MIB),
            ((far + 1) * MIB - 1, 51 * MIB - 1),
        ] {
            assert_eq!(space.address(1, offset), address);
            assert_eq!(space.offset(1, address), offset);
        }
        // Offsets in a gap or beyond the end, which only flushes have.
        let clamped = [0, 150 * MIB, u64::MAX].map(|offset| space.address(1, offset));
        assert_eq!(clamped, [10 * MIB, 20 * MIB - 1, 51 * MIB - 1]);
        assert_eq!((space.address(0, 3 * MIB), space.offset(0, 3 * MIB)), (3 * MIB, 3 * MIB));
    }

    #[test]
    fn volumes_that_share_ranges_are_one_area() {
        let busy: Vec<u64> = (1..=200).collect();
        let all = Volumes::new(&vec![MIB; 200], Vec::new(), &busy, None, false);
        let space = Space::new(&all);
        assert_eq!((space.areas(), space.end()), (64, 200 * MIB));
        let areas = [0, 136, 137, 199].map(|volume| space.area(volume));
        assert_eq!(areas, [63, 63, 0, 62]);
        assert_eq!(space.volume_at(space.address(5, 17)).2, 5);
    }
}
