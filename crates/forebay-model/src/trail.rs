//! The state on which a request's place may depend: the used blocks, the requests that used them,
//! and the ends of recent requests. Fitting determines the kind of each request's place; generating
//! finds a place of a given kind. Both then add the request here.

use forebay_core::Op;

use crate::address::Space;
use crate::class::{NEAR_BYTES, PlaceKind};
use crate::ends::{End, Ends};
use crate::ground::{BLOCK_BYTES, UsedBlocks, blocks};
use crate::past::{Past, PastRequest};

/// A request in the model's address space.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModelRequest {
    pub(crate) address: u64,
    pub(crate) len: u32,
    pub(crate) op: Op,
    pub(crate) stream: u16,
    pub(crate) area: u16,
}

/// How the place of a request relates to earlier requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Relation {
    pub(crate) kind: PlaceKind,
    /// The rank of the recent end that the request continues or is near; rank 0 is the latest end.
    pub(crate) rank: usize,
    /// The distance from that end in bytes; negative if the request starts before the end.
    pub(crate) ahead: i64,
    /// The number of the request that last used this request's first block.
    pub(crate) was: Option<u32>,
}

/// The history of the requests so far.
pub(crate) struct Trail {
    pub(crate) ground: UsedBlocks,
    pub(crate) past: Past,
    pub(crate) ends: Vec<Ends>,
    /// For each stream, the address and the area where it ended.
    pub(crate) stream_ends: Vec<(u64, u16)>,
    /// The area of the latest request.
    pub(crate) area: usize,
}

impl Trail {
    pub(crate) fn new(areas: usize, ranges: usize, streams: usize) -> Trail {
        Trail {
            ground: UsedBlocks::new(),
            past: Past::new(ranges),
            ends: vec![Ends::new(); areas],
            stream_ends: vec![(u64::MAX, 0); streams],
            area: 0,
        }
    }

    /// Returns how the place of the next request relates to earlier requests.
    #[inline]
    pub(crate) fn see(&self, asked: &ModelRequest) -> Relation {
        let none = Relation { kind: PlaceKind::Nowhere, rank: 0, ahead: 0, was: None };
        if asked.len == 0 {
            return none;
        }
        let (first, end) = blocks(asked.address, asked.len);
        let was = self.ground.last(first);
        let ends = &self.ends[usize::from(asked.area)];
        if let Some(rank) = ends.addresses().iter().position(|&end| end == asked.address) {
            let is_latest = rank == 0 && usize::from(asked.area) == self.area;
            let (first, end) = ahead(asked.address, asked.len);
            let is_used = self.ground.new_blocks(first, end) == 0;
            let kind = match (is_latest, is_used) {
                (true, false) => PlaceKind::ContinueNew,
                (true, true) => PlaceKind::ContinueUsed,
                (false, false) => PlaceKind::ResumeNew,
                (false, true) => PlaceKind::ResumeUsed,
            };
            return Relation { kind, rank, was, ..none };
        }
        let is_used = self.ground.new_blocks(first, end) == 0;
        if was.is_some() {
            return Relation {
                kind: if is_used { PlaceKind::Again } else { PlaceKind::Over },
                was,
                ..none
            };
        }
        let distances = ends.addresses().iter().map(|&end| asked.address.abs_diff(end));
        // Prefers ends that are nearer and those that are more recent.
        let near = (1u64..).zip(distances).min_by_key(|(rank, far)| far.saturating_mul(*rank));
        match near {
            Some((rank, distance)) if distance < NEAR_BYTES => {
                let rank = rank as usize - 1;
                let ahead = asked.address.wrapping_sub(ends.addresses()[rank]) as i64;
                Relation { kind: PlaceKind::Near, rank, ahead, was }
            }
            _ => Relation { kind: PlaceKind::Far, ..none },
        }
    }

    /// Adds a request, which continues the end with rank `from` if it is given.
    #[inline]
    pub(crate) fn push(&mut self, asked: &ModelRequest, space: &Space, from: Option<usize>) {
        let area = usize::from(asked.area);
        let end = asked.address + u64::from(asked.len);
        let range = space.range(asked.address);
        let at = blocks(asked.address, asked.len);
        let number = self.past.latest() + 1;
        let past = &mut self.past;
        self.ground.touch(at, number, |owner, blocks| past.lose(owner, blocks));
        self.past.push(PastRequest {
            address: asked.address,
            len: asked.len,
            blocks: (at.1 - at.0) as u32,
            range: range as u16,
            goes_on: from.is_some(),
        });
        let (len, stream, op) = (asked.len, asked.stream, asked.op);
        let range = space.range(end) as u16;
        let here = End { address: end, len, stream, op, range };
        let ended = &mut self.stream_ends[usize::from(stream)];
        self.ends[usize::from(ended.1)].leave(stream);
        *ended = (end, asked.area);
        self.ends[area].push(here, from);
        self.area = area;
    }

    /// Returns how many requests ago the block ahead of an end was last used.
    #[inline]
    pub(crate) fn age(&self, end: u64) -> Option<u64> {
        let last = self.ground.last(ahead(end, 1).0)?;
        Some(u64::from(self.past.latest() - last))
    }

    /// Returns whether an address is the latest end of a stream.
    #[inline]
    pub(crate) fn is_stream_s(&self, address: u64, stream: u16) -> bool {
        self.stream_ends[usize::from(stream)].0 == address
    }

    /// Returns how many blocks of a request at this address would be new.
    #[inline]
    pub(crate) fn new_blocks(&self, address: u64, len: u32) -> u64 {
        let (first, end) = blocks(address, len);
        self.ground.new_blocks(first, end)
    }
}

/// Returns the first block and the end of the blocks ahead of an end, for a request of `len` bytes
/// that continues there. This is at least one block. The block that contains the end does not
/// count, because the earlier request has used it.
#[inline]
pub(crate) fn ahead(end: u64, len: u32) -> (u64, u64) {
    let first = end.div_ceil(BLOCK_BYTES);
    (first, blocks(end, len).1.max(first + 1))
}

/// Returns the address and the range of a record's place.
#[inline]
pub(crate) fn placed(space: &Space, volume: u32, offset: u64) -> (u64, usize) {
    let address = space.address(volume, offset);
    (address, space.range(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_that_an_end_lies_in_is_not_ahead() {
        assert_eq!((ahead(4096, 512), ahead(4608, 512)), ((1, 2), (2, 3)));
        assert_eq!((ahead(4608, 4096), ahead(4608, 8192)), ((2, 3), (2, 4)));
        assert_eq!(ahead(0, 8192), (0, 2));
    }

    /// A stream may also continue on another volume.
    #[test]
    fn an_end_is_its_stream_s_until_that_continues() {
        use crate::ends::{ENDS_MAX, MismatchPenalties};
        use crate::{Volume, Volumes};
        let volume = Volume {
            extent_mib: 1,
            stretches: Vec::new(),
            stretch_requests: Vec::new(),
            is_own: true,
            name: None,
        };
        let volumes = Volumes { level: 0, is_flat: false, volumes: vec![volume.clone(), volume] };
        let space = Space::new(&volumes);
        let mut trail = Trail::new(2, volumes.ranges(), 2);
        let is_own = |trail: &Trail| {
            let (mut far, only) =
                ([0; ENDS_MAX], MismatchPenalties { op: 0, octave: 0, range: 0, own: 1 });
            trail.ends[0].unlike((Op::Read, 0, 0, false), only, &mut far);
            far[0] == 1
        };
        for (area, stream, own) in [(0, 0, true), (1, 1, true), (1, 0, false)] {
            let address = u64::from(area) << 20;
            trail.push(
                &ModelRequest { address, len: 4096, op: Op::Read, stream, area },
                &space,
                None,
            );
            assert_eq!(is_own(&trail), own, "{area} {stream}");
        }
    }
}
