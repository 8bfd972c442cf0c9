//! Where recent requests of an area ended, the latest first. Each property is in a separate array,
//! because lookups compare all ends at once.

use forebay_core::Op;

use crate::class::octave;

/// The number of ends tracked per area.
pub(crate) const ENDS_MAX: usize = 32;

/// Where a request ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) address: u64,
    pub(crate) len: u32,
    pub(crate) stream: u16,
    pub(crate) op: Op,
    /// The range that contains the address.
    pub(crate) range: u16,
}

/// The ends of an area by rank; rank 0 is the latest.
#[derive(Clone, Debug)]
pub(crate) struct Ends {
    count: usize,
    addresses: [u64; ENDS_MAX],
    lens: [u32; ENDS_MAX],
    streams: [u16; ENDS_MAX],
    ranges: [u16; ENDS_MAX],
    ops: [Op; ENDS_MAX],
    octaves: [u8; ENDS_MAX],
    /// Whether the end is the latest end of its stream.
    is_own: [bool; ENDS_MAX],
}

/// The penalties for differences between an end and the wanted end, in units of 1 / [`WHOLE`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct MismatchPenalties {
    pub(crate) op: i16,
    pub(crate) octave: i16,
    pub(crate) range: i16,
    /// The penalty if one is the latest end of its stream and the other is not.
    pub(crate) own: i16,
}

/// The fixed-point value of 1. It is small, so that a sum of penalties times [`ENDS_MAX`] fits into
/// 16 bits, of which a processor compares eight at once.
pub(crate) const WHOLE: i16 = 32;

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
            is_own: [false; ENDS_MAX],
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Returns the end with a rank, if there is one.
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

    /// Returns the addresses of the ends.
    #[inline]
    pub(crate) fn addresses(&self) -> &[u64] {
        &self.addresses[..self.count]
    }

    /// Adds to `far` how much each end differs from one with this operation, length and range that
    /// is (or is not) the latest of its stream.
    #[inline]
    pub(crate) fn unlike(
        &self,
        (op, octave, range, is_own): (Op, u8, u16, bool),
        weights: MismatchPenalties,
        far: &mut [i16; ENDS_MAX],
    ) {
        for (far, (ranges, own)) in far.iter_mut().zip(self.ranges.iter().zip(&self.is_own)) {
            *far += i16::from(*ranges != range) * weights.range;
            *far += i16::from(*own != is_own) * weights.own;
        }
        for (far, (ops, octaves)) in far.iter_mut().zip(self.ops.iter().zip(&self.octaves)) {
            *far += i16::from(*ops as u8 != op as u8) * weights.op;
            *far += i16::from(*octaves != octave) * weights.octave;
        }
    }

    /// Records that a stream continues elsewhere.
    #[inline]
    pub(crate) fn leave(&mut self, stream: u16) {
        for (own, streams) in self.is_own.iter_mut().zip(&self.streams) {
            *own &= *streams != stream;
        }
    }

    /// Puts an end at the front. It replaces the end with rank `from`, or the last one if `from` is
    /// None and there are [`ENDS_MAX`].
    #[inline]
    pub(crate) fn push(&mut self, end: End, from: Option<usize>) {
        let gone = match from {
            Some(rank) => rank,
            None if self.count >= ENDS_MAX => self.count - 1,
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
            self.is_own.copy_within(..gone, 1);
        }
        self.addresses[0] = end.address;
        self.lens[0] = end.len;
        self.streams[0] = end.stream;
        self.ranges[0] = end.range;
        self.ops[0] = end.op;
        self.octaves[0] = octave(end.len);
        self.is_own[0] = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compared with a plain list of ends.
        #[test]
        fn ends_are_kept_by_rank(
            pushed in proptest::collection::vec((0u64..1000, 1u32..100_000, 0u16..4, 0usize..99), 1..90),
        ) {
            let (mut ends, mut plain) = (Ends::new(), Vec::<(End, bool)>::new());
            for (address, len, range, from) in pushed {
                let op = if len % 2 == 0 { Op::Read } else { Op::Write };
                let end = End { address, len, stream: range, op, range };
                let from = Some(from).filter(|&from| from < plain.len());
                ends.leave(end.stream);
                ends.push(end, from);
                plain.iter_mut().for_each(|(other, own)| *own &= other.stream != end.stream);
                match from {
                    Some(rank) => drop(plain.remove(rank)),
                    None if plain.len() == ENDS_MAX => drop(plain.pop()),
                    None => (),
                }
                plain.insert(0, (end, true));
            }
            prop_assert_eq!(ends.len(), plain.len());
            prop_assert!(ends.get(plain.len()).is_none());
            let (wanted, mut far) = ((Op::Read, 5, 1, true), [1; ENDS_MAX]);
            ends.unlike(wanted, MismatchPenalties { op: 7, octave: 20, range: 300, own: 1000 }, &mut far);
            for (rank, (end, own)) in plain.iter().enumerate() {
                let found = ends.get(rank).map(|end| (end.address, end.len, end.stream, end.op, end.range));
                prop_assert_eq!(found, Some((end.address, end.len, end.stream, end.op, end.range)));
                prop_assert_eq!(ends.addresses()[rank], end.address);
                let unlike = 1
                    + if end.op == Op::Read { 0 } else { 7 }
                    + if octave(end.len) == 5 { 0 } else { 20 }
                    + if end.range == 1 { 0 } else { 300 }
                    + if *own { 0 } else { 1000 };
                prop_assert_eq!(far[rank], unlike);
            }
        }
    }
}
