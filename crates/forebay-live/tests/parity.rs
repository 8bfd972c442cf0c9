//! Compares P and Q with field arithmetic by definition, and recovered data with the original,
//! whichever two blocks of a stripe are lost.

use forebay_live::galois;
use proptest::prelude::*;

/// Adds two elements of the field GF(2^8).
fn add(a: u8, b: u8) -> u8 {
    a ^ b
}

/// Multiplies two elements of the field, whose polynomial is x^8 + x^4 + x^3 + x^2 + 1: adds `a`,
/// multiplied by x as often as needed, for each bit of `b`.
fn mul(a: u8, b: u8) -> u8 {
    let powers = std::iter::successors(Some(a), |a| Some((a << 1) ^ ((a >> 7) * 0x1D)));
    powers
        .zip(0..8)
        .filter(|(_, bit)| (b >> bit) & 1 == 1)
        .fold(0, |sum, (power, _)| add(sum, power))
}

/// Raises an element of the field to a power.
fn exp(base: u8, power: usize) -> u8 {
    (0..power).fold(1, |product, _| mul(product, base))
}

/// Computes Q by definition: the sum of all `g^i D_i`, with g = 2.
fn q(data: &[Vec<u8>]) -> Vec<u8> {
    let at = |byte: usize| {
        let terms = data.iter().enumerate().map(|(index, block)| mul(exp(2, index), block[byte]));
        terms.fold(0, add)
    };
    (0..data[0].len()).map(at).collect()
}

/// Generates stripes of two to fourteen data blocks, with up to some hundred bytes in each; lengths
/// may be odd.
fn stripes() -> impl Strategy<Value = Vec<Vec<u8>>> {
    (2usize..15, 1usize..300).prop_flat_map(|(width, len)| {
        let block = proptest::collection::vec(any::<u8>(), len);
        proptest::collection::vec(block, width)
    })
}

proptest! {
    #[test]
    fn parities_are_those_of_the_field(data in stripes()) {
        let blocks: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
        let (mut p, mut ours) = (vec![7; data[0].len()], vec![7; data[0].len()]);
        galois::parity(&blocks, &mut p, Some(&mut ours));
        let sum = |byte: usize| data.iter().map(|block| block[byte]).fold(0, add);
        prop_assert_eq!(&p, &(0..p.len()).map(sum).collect::<Vec<u8>>());
        prop_assert_eq!(ours, q(&data));
    }

    #[test]
    fn a_changed_block_changes_q_as_the_field_says(data in stripes(), factor in any::<u8>()) {
        let (mut to, from) = (data[0].clone(), &data[1]);
        galois::add(&mut to, from, factor);
        let expected = data[0].iter().zip(from).map(|(to, from)| add(*to, mul(factor, *from)));
        prop_assert_eq!(to, expected.collect::<Vec<u8>>());
    }

    #[test]
    fn any_two_blocks_come_back(data in stripes()) {
        let blocks: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
        let (width, len) = (data.len(), data[0].len());
        let mut p = vec![0; len];
        galois::parity(&blocks, &mut p, None);
        let all: Vec<Vec<u8>> = data.iter().cloned().chain([p, q(&data)]).collect();
        for one in 0..width + 2 {
            for other in one + 1..width + 2 {
                // The lost blocks contain junk.
                let junk = vec![0xA5; len];
                let there = |index: usize| if index == one || index == other { &junk } else { &all[index] };
                let found: Vec<&[u8]> = (0..width + 2).map(|index| &there(index)[..]).collect();
                let (mut first, mut second) = (vec![0; len], vec![0; len]);
                let rebuilt = &mut [&mut first[..], &mut second[..]];
                galois::recover(&found[..width], &found[width..], &[one, other], rebuilt);
                prop_assert_eq!((&first, &second), (&all[one], &all[other]), "{} and {}", one, other);
            }
        }
    }
}
