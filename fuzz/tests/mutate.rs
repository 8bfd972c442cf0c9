//! Generates mutations of seeds. They are the same in every run.

use forebay_testing::below;

/// The maximum length of a mutation in bytes.
const BYTES_MAX: usize = 1 << 14;
/// Numbers and words that parsers often handle wrongly.
const NASTY: &[&[u8]] = &[
    b"0",
    b"-1",
    b"18446744073709551615",
    b"18446744073709551616",
    b"9223372036854775808",
    b"1e308",
    b"nan",
    b"\0\0\0\0",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\0\0\0\0\0\0\0\x80",
    b"\xef\xbb\xbf",
    b"\xc3\x28",
    b"\r\n",
    b"\n",
    b",",
    b"\"",
];

/// An endless sequence of mutations.
pub(crate) struct Mutations<'a> {
    seeds: &'a [Vec<u8>],
    state: u64,
}

impl<'a> Mutations<'a> {
    /// Creates the mutations of `seeds`. Each name gives a different sequence.
    pub(crate) fn of(seeds: &'a [Vec<u8>], name: &str) -> Mutations<'a> {
        let state = name.bytes().fold(1, |state: u64, byte| state.rotate_left(8) ^ u64::from(byte));
        Mutations { seeds, state }
    }

    /// Returns a number below `end`, or zero if `end` is zero.
    fn below(&mut self, end: usize) -> usize {
        below(&mut self.state, end as u64) as usize
    }

    /// Returns a seed with one to four changes.
    pub(crate) fn next(&mut self) -> Vec<u8> {
        let mut bytes = self.seeds[self.below(self.seeds.len())].clone();
        for _ in 0..=self.below(4) {
            self.change(&mut bytes);
        }
        bytes.truncate(BYTES_MAX);
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len());
        let end = (at + 1 + self.below(16)).min(bytes.len());
        match self.below(7) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
            1 if !bytes.is_empty() => bytes[at] = self.below(256) as u8,
            2 => drop(bytes.drain(at..end)),
            3 => bytes.extend_from_within(at..end),
            4 => bytes.truncate(at),
            5 => {
                // Insert a piece of another seed.
                let other = &self.seeds[self.below(self.seeds.len())];
                let from = self.below(other.len());
                let piece = other[from..(from + 64).min(other.len())].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => {
                let nasty = NASTY[self.below(NASTY.len())];
                let end = (at + nasty.len()).min(bytes.len());
                bytes.splice(at..end, nasty.iter().copied());
            }
        }
    }
}
