//! The class of a request in the model: its operation, its length as a power of two of sectors, and
//! the kind of its place.

use forebay_core::Op;

/// How the place of a request relates to earlier requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum PlaceKind {
    /// Begins where the previous request ended, and at least part of its blocks are new.
    ContinueNew,
    /// Begins where the previous request ended, and all of its blocks were used before.
    ContinueUsed,
    /// Begins where another recent request ended, and at least part of its blocks are new.
    ResumeNew,
    /// Begins where another recent request ended, and all of its blocks were used before.
    ResumeUsed,
    /// Begins elsewhere on a used block, and all of its blocks were used before.
    Again,
    /// Begins elsewhere on a used block, and continues on new blocks.
    Over,
    /// Begins on a new block within [`NEAR_BYTES`] of where a recent request ended.
    Near,
    /// Begins on a new block anywhere else.
    Far,
    /// Has no place, because the request is a flush.
    Nowhere,
}

/// The maximum distance of [`PlaceKind::Near`] in bytes.
pub(crate) const NEAR_BYTES: u64 = 2 << 20;

const KINDS: [PlaceKind; 9] = [
    PlaceKind::ContinueNew,
    PlaceKind::ContinueUsed,
    PlaceKind::ResumeNew,
    PlaceKind::ResumeUsed,
    PlaceKind::Again,
    PlaceKind::Over,
    PlaceKind::Near,
    PlaceKind::Far,
    PlaceKind::Nowhere,
];
const OPS: [Op; 6] = [Op::Read, Op::Write, Op::Flush, Op::Trim, Op::Park, Op::Open];
const OCTAVES: usize = 16;
/// The number of possible classes.
pub(crate) const CODES: usize = KINDS.len() * OPS.len() * OCTAVES;

impl PlaceKind {
    /// Returns whether the request continues where a recent request ended.
    #[inline]
    pub(crate) fn goes_on(self) -> bool {
        (self as u8) < 4
    }

    /// Returns whether the request continues where the previous one ended.
    #[inline]
    pub(crate) fn continues(self) -> bool {
        (self as u8) < 2
    }
}

/// A class of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Class {
    pub(crate) kind: PlaceKind,
    pub(crate) op: Op,
    pub(crate) octave: u8,
}

/// Returns the exponent of the smallest power of two of sectors that holds `len` bytes.
#[inline]
pub(crate) fn octave(len: u32) -> u8 {
    let sectors = len.div_ceil(512).max(1);
    sectors.next_power_of_two().ilog2().min(OCTAVES as u32 - 1) as u8
}

impl Class {
    /// Returns the code of the class. Writes come after all others, so that writes are a contiguous
    /// range, and so are all others.
    #[inline]
    pub(crate) fn code(self) -> usize {
        let op = OPS.iter().position(|&op| op == self.op).unwrap_or(0);
        let op = if op == 1 { OPS.len() - 1 } else { op - usize::from(op > 1) };
        (op * KINDS.len() + self.kind as usize) * OCTAVES + usize::from(self.octave)
    }

    /// Returns the class with a code below [`CODES`].
    pub(crate) fn of(code: usize) -> Class {
        let op = code / OCTAVES / KINDS.len();
        let op = if op == OPS.len() - 1 { 1 } else { op + usize::from(op >= 1) };
        let kind = KINDS[code / OCTAVES % KINDS.len()];
        Class { kind, op: OPS[op], octave: (code % OCTAVES) as u8 }
    }

    #[inline]
    pub(crate) fn is_write(self) -> bool {
        self.op == Op::Write
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_come_back_from_their_numbers_and_writes_are_last() {
        let classes: Vec<Class> = (0..CODES).map(Class::of).collect();
        assert!((0..CODES).all(|code| classes[code].code() == code));
        assert!(classes.is_sorted_by_key(|class| class.is_write()));
        assert_eq!(classes.iter().filter(|class| class.is_write()).count(), CODES / OPS.len());
    }

    #[test]
    fn an_octave_holds_up_to_its_power_of_two() {
        assert_eq!([0, 1, 512, 513, 1024, 4096, 4097].map(octave), [0, 0, 0, 1, 1, 3, 4]);
        assert_eq!(octave(u32::MAX), 15);
    }
}
