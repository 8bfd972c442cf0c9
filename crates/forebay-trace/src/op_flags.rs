//! The spelling of operations and flags in our own formats.
//!
//! Operations are written as their names. Flags are letters in the order `PFASM`: preflush, FUA,
//! read-ahead, synchronous, metadata. No flags are an empty string.

use forebay_core::{Flags, Op};

const LETTERS: [(u8, Flags); 5] = [
    (b'P', Flags::PREFLUSH),
    (b'F', Flags::FUA),
    (b'A', Flags::READAHEAD),
    (b'S', Flags::SYNC),
    (b'M', Flags::META),
];

/// What a field of flags may contain, for messages.
pub(crate) const FLAGS_EXPECTED: &str = "any of the letters P, F, A, S, M";

/// What a field of operations may contain, for messages.
pub(crate) const OP_EXPECTED: &str = "read, write, flush or trim";

/// Returns the letters for a set of flags.
pub fn flag_letters(flags: Flags) -> String {
    LETTERS.iter().filter(|(_, f)| flags.has(*f)).map(|(letter, _)| char::from(*letter)).collect()
}

/// Parses flag letters, in any order.
pub(crate) fn flags_of(text: &[u8]) -> Option<Flags> {
    text.iter().try_fold(Flags::NONE, |flags, byte| {
        let (_, flag) = LETTERS.iter().find(|(letter, _)| letter == byte)?;
        Some(flags.with(*flag))
    })
}

/// Parses the name of an operation.
pub(crate) fn op_of(text: &[u8]) -> Option<Op> {
    [Op::Read, Op::Write, Op::Flush, Op::Trim].into_iter().find(|op| op.name().as_bytes() == text)
}

/// What a field of operations may contain in other formats, for messages.
pub(crate) const OPS_EXPECTED: &str = "read, write, flush or trim, or R, W, F, D";

/// Parses an operation as spelled in other formats.
pub(crate) fn op_word(text: &str) -> Option<Op> {
    match text.trim().to_ascii_lowercase().as_str() {
        "read" | "r" | "rd" => Some(Op::Read),
        "write" | "w" | "wr" => Some(Op::Write),
        "flush" | "f" => Some(Op::Flush),
        "trim" | "discard" | "unmap" | "d" | "t" => Some(Op::Trim),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_of_flags_comes_back() {
        for bits in 0..32 {
            let letters = flag_letters(Flags(bits));
            assert_eq!(letters.len(), bits.count_ones() as usize);
            assert_eq!(flags_of(letters.as_bytes()), Some(Flags(bits)));
        }
        assert_eq!(flag_letters(Flags(31)), "PFASM");
        assert_eq!(flags_of(b"Sx"), None);
    }
}
