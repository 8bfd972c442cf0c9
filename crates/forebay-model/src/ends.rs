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
