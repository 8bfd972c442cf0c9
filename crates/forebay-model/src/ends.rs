//! Where recent requests of an area ended, the latest first: a list for each thing known of an end, since all
//! ends are asked for the same at once.

use forebay_core::Op;

use crate::class::octave;

/// Ends that are kept of each area.
pub(crate) const ENDS_MAX: usize = 32;

/// Where a request ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) address: u64,
    pub(crate) len: u32,
    pub(crate) stream: u16,
    pub(crate) op: Op,
    /// The range it lies in.
    pub(crate) range: u16,
}

/// The ends of an area, by rank: 0 is the latest.
#[derive(Clone, Debug)]
pub(crate) struct Ends {
    count: usize,
    addresses: [u64; ENDS_MAX],
    lens: [u32; ENDS_MAX],
    streams: [u16; ENDS_MAX],
    ranges: [u16; ENDS_MAX],
    ops: [Op; ENDS_MAX],
    octaves: [u8; ENDS_MAX],
}

/// How much it counts that an end is unlike what is wanted, in parts of 2^16.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unlike {
    pub(crate) op: u32,
    pub(crate) octave: u32,
    pub(crate) range: u32,
}

/// One, in the same parts.
pub(crate) const WHOLE: u32 = 1 << 16;

impl Ends {
    pub(crate) fn new() -> Ends {
        Ends {
            count: 0,
            addresses: [u64::MAX; ENDS_MAX],
            lens: [0; ENDS_MAX],
            streams: [0; ENDS_MAX],
            ranges: [0; ENDS_MAX],
            ops: [Op::Read; ENDS_MAX],
            octaves: [0; ENDS_MAX],
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The end of a rank, if there are so many.
    #[inline]
    pub(crate) fn get(&self, rank: usize) -> Option<End> {
        (rank < self.count).then(|| End {
            address: self.addresses[rank],
            len: self.lens[rank],
            stream: self.streams[rank],
            op: self.ops[rank],
            range: self.ranges[rank],
        })
    }

    /// Where they are.
    #[inline]
    pub(crate) fn addresses(&self) -> &[u64] {
        &self.addresses[..self.count]
    }

    /// Whose they are.
    #[inline]
    pub(crate) fn streams(&self) -> &[u16] {
        &self.streams[..self.count]
    }

    /// How unlike each is to one of this operation, length and range, added to `far`.
    #[inline]
    pub(crate) fn unlike(
        &self,
        (op, octave, range): (Op, u8, u16),
        weights: Unlike,
        far: &mut [u32; ENDS_MAX],
    ) {
        for (far, ranges) in far.iter_mut().zip(&self.ranges) {
            *far += u32::from(*ranges != range) * weights.range;
        }
        for (far, (ops, octaves)) in far.iter_mut().zip(self.ops.iter().zip(&self.octaves)) {
            *far += u32::from(*ops as u8 != op as u8) * weights.op;
            *far += u32::from(*octaves != octave) * weights.octave;
        }
    }

    /// Puts an end first, in place of the one of rank `from` or, where there are `most`, of the last.
    #[inline]
    pub(crate) fn push(&mut self, end: End, from: Option<usize>, most: usize) {
        let gone = match from {
            Some(rank) => rank,
            None if self.count >= most => self.count - 1,
            None => {
                self.count += 1;
                self.count - 1
            }
        };
        if gone > 0 {
            self.addresses.copy_within(..gone, 1);
            self.lens.copy_within(..gone, 1);
            self.streams.copy_within(..gone, 1);
            self.ranges.copy_within(..gone, 1);
            self.ops.copy_within(..gone, 1);
            self.octaves.copy_within(..gone, 1);
        }
        self.addresses[0] = end.address;
        self.lens[0] = end.len;
        self.streams[0] = end.stream;
        self.ranges[0] = end.range;
        self.ops[0] = end.op;
        self.octaves[0] = octave(end.len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a plain list of ends.
        #[test]
        fn ends_are_kept_by_rank(
            pushed in proptest::collection::vec((0u64..1000, 1u32..100_000, 0u16..4, 0usize..99), 1..90),
            most in 1usize..=ENDS_MAX,
        ) {
            let (mut ends, mut plain) = (Ends::new(), Vec::new());
            for (address, len, range, from) in pushed {
                let op = if len % 2 == 0 { Op::Read } else { Op::Write };
                let end = End { address, len, stream: range, op, range };
                let from = Some(from).filter(|&from| from < plain.len());
                ends.push(end, from, most);
                match from {
                    Some(rank) => drop(plain.remove(rank)),
                    None if plain.len() == most => drop(plain.pop()),
                    None => (),
                }
                plain.insert(0, end);
            }
            prop_assert_eq!(ends.len(), plain.len());
            prop_assert!(ends.get(plain.len()).is_none());
            let (wanted, weights) = ((Op::Read, 5, 1), Unlike { op: 7, octave: 20, range: 300 });
            let mut far = [1; ENDS_MAX];
            ends.unlike(wanted, weights, &mut far);
            for (rank, end) in plain.iter().enumerate() {
                let found = ends.get(rank).map(|end| (end.address, end.len, end.stream, end.op, end.range));
                prop_assert_eq!(found, Some((end.address, end.len, end.stream, end.op, end.range)));
                prop_assert_eq!((ends.addresses()[rank], ends.streams()[rank]), (end.address, end.stream));
                let unlike = 1
                    + if end.op == Op::Read { 0 } else { 7 }
                    + if octave(end.len) == 5 { 0 } else { 20 }
                    + if end.range == 1 { 0 } else { 300 };
                prop_assert_eq!(far[rank], unlike);
            }
        }
    }
}
