//! Parses the words that stand for operations.

use forebay_core::Op;

use crate::columns::cursor::short_key;

/// How a column encodes operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OpCode {
    /// Words for operations, in upper or lower case.
    Words(OpWords),
    /// SCSI operation codes in hexadecimal. Commands that transfer no data are skipped.
    Scsi,
    /// DiskSim's flags: a number whose bit 0 is set for reads.
    Disksim,
}

/// The words for operations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OpWords {
    known: Vec<(String, Op)>,
    /// The short words in their usual spellings, as converted by [`short_key`], each in its slot.
    keys: Vec<(u64, Op)>,
    /// The multiplier that determines the slot of a word.
    factor: u64,
    /// Whether the kernel's RWBS letters and the names of SCSI commands are accepted too.
    is_usual: bool,
    /// A description of the words for messages.
    pub(crate) expected: String,
}

/// The number of slots for short words, a power of two.
const SLOTS: usize = 256;
/// An odd number without a pattern (2^64 divided by the golden ratio), from which the search for a
/// multiplier starts.
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
/// The number of multipliers to try.
const TRIES: u64 = 1 << 12;
/// A key that differs from those of all words, because its length would be 255.
const NO_KEY: u64 = u64::MAX;

#[inline]
fn slot(key: u64, factor: u64) -> usize {
    (key.wrapping_mul(factor) >> 56) as usize
}

/// Places the words in slots if `factor` gives each word its own slot. A lookup must not need a
/// second attempt, because the sequence of words is hard to predict.
fn apart(keys: &[(u64, Op)], factor: u64) -> Option<(u64, Vec<(u64, Op)>)> {
    let mut slots = vec![(NO_KEY, Op::Read); SLOTS];
    for &(key, op) in keys {
        let slot = slots.get_mut(slot(key, factor)).filter(|slot| slot.0 == NO_KEY)?;
        *slot = (key, op);
    }
    Some((factor, slots))
}

/// Words that are accepted without a declaration.
const USUAL: &[(&str, Op)] = &[
    ("R", Op::Read),
    ("W", Op::Write),
    ("Read", Op::Read),
    ("Write", Op::Write),
    ("Rd", Op::Read),
    ("Wr", Op::Write),
    ("RS", Op::Read),
    ("WS", Op::Write),
    ("D", Op::Trim),
    ("Trim", Op::Trim),
    ("Discard", Op::Trim),
    ("Unmap", Op::Trim),
    ("Write_zeroes", Op::Write),
    ("Write-zeroes", Op::Write),
    ("Write zeroes", Op::Write),
    ("WriteZeroes", Op::Write),
    ("Write_zeros", Op::Write),
    ("Secure_erase", Op::Trim),
    ("Zone_append", Op::Write),
    ("F", Op::Flush),
    ("Flush", Op::Flush),
];

/// Returns whether a word for a write says that it writes zeroes, so that no data are transferred.
pub(crate) fn is_write_zeroes(word: &[u8]) -> bool {
    let word = word.to_ascii_lowercase();
    word.starts_with(b"wz") || memchr::memmem::find(&word, b"zero").is_some()
}

/// The operations of the words in a declaration, in order.
const DECLARED: [Op; 4] = [Op::Read, Op::Write, Op::Trim, Op::Flush];

impl OpWords {
    pub(crate) fn usual() -> OpWords {
        let known = USUAL.iter().map(|(word, op)| (word.to_string(), *op)).collect();
        let words = OpWords::new(
            known,
            "R or W, read or write, trim, flush (other words need op:READ/WRITE, such as op:0/1 or op:false/true)".into(),
        );
        OpWords { is_usual: true, ..words }
    }

    /// Parses a declaration such as `R/W`: words for read, write, trim and flush. Several words for
    /// the same operation are joined by `+`.
    pub(crate) fn declared(text: &str) -> Option<OpWords> {
        let mut known: Vec<(String, Op)> = Vec::new();
        let meanings: Vec<&str> = text.split('/').collect();
        if !(2..=DECLARED.len()).contains(&meanings.len()) {
            return None;
        }
        for (words, op) in meanings.iter().zip(DECLARED) {
            for word in words.split('+') {
                let twice = known.iter().any(|(other, _)| other.eq_ignore_ascii_case(word));
                if word.is_empty() || twice {
                    return None;
                }
                known.push((word.to_string(), op));
            }
        }
        let (last, first) = known.split_last()?;
        let first: Vec<&str> = first.iter().map(|(word, _)| word.as_str()).collect();
        let expected = format!("{} or {}", first.join(", "), last.0);
        Some(OpWords::new(known, expected))
    }

    fn new(known: Vec<(String, Op)>, expected: String) -> OpWords {
        let mut keys = Vec::new();
        for (word, op) in &known {
            for spelt in [word.clone(), word.to_lowercase(), word.to_uppercase()] {
                let Some(key) = short_key(spelt.as_bytes()) else { continue };
                if keys.iter().all(|(other, _)| *other != key) {
                    keys.push((key, *op));
                }
            }
        }
        let (factor, keys) =
            (0..TRIES).find_map(|n| apart(&keys, FACTOR + 2 * n)).unwrap_or_default();
        OpWords { known, keys, factor, is_usual: false, expected }
    }

    /// Returns the operation of a short word. If this is `None`, call [`OpWords::word`].
    #[inline]
    pub(crate) fn short(&self, key: u64) -> Option<Op> {
        let (known, op) = self.keys.get(slot(key, self.factor))?;
        (*known == key).then_some(*op)
    }

    pub(crate) fn word(&self, word: &[u8]) -> Option<Op> {
        // pandas converts a column of numbers to floating point if some values are missing.
        let word = word.strip_suffix(b".0").unwrap_or(word);
        let same = |(known, _): &&(String, Op)| known.as_bytes().eq_ignore_ascii_case(word);
        let known = self.known.iter().find(same).map(|(_, op)| *op);
        let named = || rwbs(word).or_else(|| scsi_name(word)).or_else(|| constant(word));
        known.or_else(|| self.is_usual.then(named).flatten())
    }
}

/// Returns the operation of RWBS letters of the kernel: `F` for a preflush, the operation, and
/// `FASMU` for its flags, in this order. `WZ` writes zeros.
fn rwbs(word: &[u8]) -> Option<Op> {
    let of = |word: &[u8]| {
        let (op, mut rest) = match word {
            [b'R', rest @ ..] => (Op::Read, rest),
            [b'W', b'Z', rest @ ..] => (Op::Write, rest),
            [b'W', rest @ ..] => (Op::Write, rest),
            [b'D', b'E', rest @ ..] | [b'D', rest @ ..] => (Op::Trim, rest),
            [b'F', rest @ ..] => (Op::Flush, rest),
            _ => return None,
        };
        for flag in b"FASMU" {
            rest = rest.strip_prefix(&[*flag]).unwrap_or(rest);
        }
        rest.is_empty().then_some(op)
    };
    of(word).or_else(|| of(word.strip_prefix(b"F")?))
}

/// The prefixes of constants for operations in Linux, fio, SPDK and Windows, and their names.
const PREFIXES: [&[u8]; 5] =
    [b"REQ_OP_", b"NVME_CMD_", b"DDIR_", b"SPDK_BDEV_IO_TYPE_", b"IRP_MJ_"];
const CONSTANTS: [(&[u8], Op); 12] = [
    (b"READ", Op::Read),
    (b"WRITE", Op::Write),
    (b"WRITE_ZEROES", Op::Write),
    (b"ZONE_APPEND", Op::Write),
    (b"DISCARD", Op::Trim),
    (b"SECURE_ERASE", Op::Trim),
    (b"TRIM", Op::Trim),
    (b"UNMAP", Op::Trim),
    (b"DSM", Op::Trim),
    (b"FLUSH", Op::Flush),
    (b"SYNC", Op::Flush),
    (b"FLUSH_BUFFERS", Op::Flush),
];

/// Returns the operation of a constant such as `REQ_OP_READ` or `nvme_cmd_write`.
fn constant(word: &[u8]) -> Option<Op> {
    let word = word.to_ascii_uppercase();
    let name = PREFIXES.iter().find_map(|prefix| word.strip_prefix(*prefix))?;
    CONSTANTS.iter().find(|(known, _)| *known == name).map(|(_, op)| *op)
}

/// Returns the operation of a SCSI command's name, such as `READ_10` or `WRITE(16)`.
fn scsi_name(word: &[u8]) -> Option<Op> {
    let word = word.to_ascii_uppercase();
    let length = word.iter().take_while(|byte| byte.is_ascii_uppercase()).count();
    let (name, size) = word.split_at_checked(length)?;
    let is_size = matches!(size, b"_6" | b"_10" | b"_12" | b"_16" | b"_32")
        || matches!(size, b"(6)" | b"(10)" | b"(12)" | b"(16)" | b"(32)");
    match name {
        b"READ" if is_size => Some(Op::Read),
        b"WRITE" if is_size => Some(Op::Write),
        _ => None,
    }
}

/// Returns the operation of a SCSI operation code (SBC-4), or `Some(None)` if the command transfers
/// no data.
pub(crate) fn scsi(field: &[u8]) -> Option<Option<Op>> {
    let digits = field.strip_prefix(b"0x").unwrap_or(field);
    if !(1..=2).contains(&digits.len()) {
        return None;
    }
    let code = digits
        .iter()
        .try_fold(0u32, |code, &digit| Some(code << 4 | char::from(digit).to_digit(16)?))?;
    Some(match code {
        // READ (6), (10), (12), (16).
        0x08 | 0x28 | 0xa8 | 0x88 => Some(Op::Read),
        // WRITE (6), (10), (12), (16); WRITE AND VERIFY (10), (12), (16); WRITE SAME (10), (16).
        0x0a | 0x2a | 0xaa | 0x8a | 0x2e | 0xae | 0x8e | 0x41 | 0x93 => Some(Op::Write),
        // UNMAP.
        0x42 => Some(Op::Trim),
        // SYNCHRONIZE CACHE (10), (16).
        0x35 | 0x91 => Some(Op::Flush),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_known_in_any_case() {
        let words = OpWords::declared("Read+RS/Write").unwrap();
        assert_eq!(words.expected, "Read, RS or Write");
        for (word, op) in [("read", Op::Read), ("READ", Op::Read), ("rs", Op::Read)] {
            assert_eq!(words.short(short_key(word.as_bytes()).unwrap()), Some(op));
            assert_eq!(words.word(word.as_bytes()), Some(op));
        }
        assert_eq!(words.word(b"wRiTe"), Some(Op::Write));
        assert_eq!((words.word(b"W"), words.short(short_key(b"W").unwrap())), (None, None));
        for bad in ["R", "R/", "R/r", "R+/W", "a/b/c/d/e", ""] {
            assert_eq!(OpWords::declared(bad), None, "{bad}");
        }
        assert_eq!(OpWords::declared("0/1/2/3").unwrap().word(b"3"), Some(Op::Flush));
    }

    #[test]
    fn constants_and_letters_are_known() {
        let words = OpWords::usual();
        for (word, op) in [
            ("REQ_OP_READ", Some(Op::Read)),
            ("req_op_discard", Some(Op::Trim)),
            ("nvme_cmd_write", Some(Op::Write)),
            ("nvme_cmd_write_zeroes", Some(Op::Write)),
            ("DDIR_SYNC", Some(Op::Flush)),
            ("IRP_MJ_FLUSH_BUFFERS", Some(Op::Flush)),
            ("WZ", Some(Op::Write)),
            ("write_zeroes", Some(Op::Write)),
            ("WRITE_ZEROES", Some(Op::Write)),
            ("zone_append", Some(Op::Write)),
            ("secure_erase", Some(Op::Trim)),
            ("WSMU", Some(Op::Write)),
            ("REQ_OP_", None),
            ("READ_ZEROES", None),
            ("SYNC", None),
        ] {
            assert_eq!(words.word(word.as_bytes()), op, "{word}");
        }
    }

    #[test]
    fn scsi_codes() {
        assert_eq!(scsi(b"2a"), Some(Some(Op::Write)));
        assert_eq!(scsi(b"0x28"), Some(Some(Op::Read)));
        assert_eq!((scsi(b"0"), scsi(b"12")), (Some(None), Some(None)));
        assert_eq!((scsi(b"2g"), scsi(b""), scsi(b"128")), (None, None, None));
    }
}
