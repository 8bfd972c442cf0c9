//! Redundancy over blocks of bytes: vectors over GF(2^8) with the polynomial 0x11d and the
//! generator 2, as in RAID 6 (H. P. Anvin, *The mathematics of RAID-6*).
//!
//! P is the sum of all data blocks, Q the sum of `2^i` times block `i`. Both are computed in one
//! pass that reads every byte once: Q by Horner's scheme from the highest block down, which
//! requires only doublings. Lost blocks are combinations of the same two sums over the remaining
//! ones, so parity and every recovery are one loop with different `Rows`.
//!
//! A `Step` is the number of bytes that fit into registers; its arithmetic is plain bytewise code,
//! simple enough for the compiler to vectorize (words of eight bytes with masks are half as fast).
//! There are no tables, so the time does not depend on data.

/// The maximum number of data blocks for one Q, because the powers of 2 repeat from here.
pub const BLOCKS_MAX: usize = 255;

/// The number of bytes processed at a time.
const STEP: usize = 64;
type Step = [u8; STEP];
const NOTHING: Step = [0; STEP];

/// The remainder of `x^8` modulo the polynomial.
const REST: u8 = 0x1d;

/// How to compute up to two lost blocks from the two sums over the remaining blocks: a lost block
/// is the plain sum times the first factor of its row plus the weighted sum times the second
/// factor.
type Rows = [[u8; 2]; 2];

/// Computes `to += factor * from`.
///
/// # Panics
/// The two differ in length.
pub fn add(to: &mut [u8], from: &[u8], factor: u8) {
    assert_eq!(to.len(), from.len(), "blocks of one length");
    let (to_steps, to_tail) = to.as_chunks_mut::<STEP>();
    let (from_steps, from_tail) = from.as_chunks::<STEP>();
    for (to, from) in to_steps.iter_mut().zip(from_steps) {
        multiply_add(to, *from, factor);
    }
    let mut last = padded(to_tail);
    multiply_add(&mut last, padded(from_tail), factor);
    to_tail.copy_from_slice(&last[..to_tail.len()]);
}

/// Writes the parities of `data`: P, and Q if requested.
///
/// # Panics
/// There are more than [`BLOCKS_MAX`] blocks, or blocks of different lengths.
pub fn parity(data: &[&[u8]], p: &mut [u8], q: Option<&mut [u8]>) {
    const ROWS: Rows = [[1, 0], [0, 1]];
    check(data, &[], p.len(), &[]);
    match q {
        None => combine::<false>(data, [&[]; 2], &ROWS, &mut [p]),
        Some(q) => combine::<true>(data, [&[]; 2], &ROWS, &mut [p, q]),
    }
}

/// Writes the `lost` blocks of a stripe to `rebuilt`, in the same order. Data blocks are given by
/// their number, followed by P and then Q. The lost blocks' entries in `data` and `parities` are
/// ignored and may be empty.
///
/// # Panics
/// More blocks are lost than there are parities, a block is named twice or unknown, or lengths
/// differ.
pub fn recover(data: &[&[u8]], parities: &[&[u8]], lost: &[usize], rebuilt: &mut [&mut [u8]]) {
    assert!(
        (1..=2).contains(&parities.len()),
        "expected one or two parities, got {}",
        parities.len()
    );
    let count = data.len() + parities.len();
    let known = |nth: usize| lost[nth] < count && !lost[..nth].contains(&lost[nth]);
    assert!(
        lost.len() <= parities.len() && (0..lost.len()).all(known),
        "{lost:?} lost of {} blocks with {} parities",
        data.len(),
        parities.len()
    );
    assert_eq!(lost.len(), rebuilt.len(), "a place for each block that is lost");
    let Some(len) = rebuilt.first().map(|block| block.len()) else { return };
    check(data, parities, len, lost);
    let mut left = [[].as_slice(); BLOCKS_MAX];
    left[..data.len()].copy_from_slice(data);
    let mut known = [[].as_slice(); 2];
    known[..parities.len()].copy_from_slice(parities);
    for &block in lost {
        match block.checked_sub(data.len()) {
            None => left[block] = &[],
            Some(parity) => known[parity] = &[],
        }
    }
    let rows = rows(data.len(), lost);
    let plain = lost.iter().zip(&rows).all(|(_, row)| row[1] == 0);
    match plain {
        true => combine::<false>(&left[..data.len()], known, &rows, rebuilt),
        false => combine::<true>(&left[..data.len()], known, &rows, rebuilt),
    }
}

/// Checks that every block that is not lost has `len` bytes.
fn check(data: &[&[u8]], parities: &[&[u8]], len: usize, lost: &[usize]) {
    assert!(data.len() <= BLOCKS_MAX, "{} data blocks, at most {BLOCKS_MAX}", data.len());
    for (index, block) in data.iter().chain(parities).enumerate() {
        let fits = block.len() == len || lost.contains(&index);
        assert!(fits, "block {index} has {} bytes, others {len}", block.len());
    }
}

/// Returns the factors that recover the lost blocks. Without block x, the plain sum lacks `d_x`,
/// and the weighted sum lacks `2^x d_x`; this gives two equations for the lost blocks.
fn rows(blocks: usize, lost: &[usize]) -> Rows {
    let (p, q) = (blocks, blocks + 1);
    let weight = |block| power(block as u8);
    let (first, second) = match *lost {
        [one] if one == q => return [[0, 1], [0, 0]],
        [_] => return [[1, 0], [0, 0]],
        [one, other] => (one.min(other), one.max(other)),
        _ => unreachable!("one or two"),
    };
    let mut rows = if second < p {
        let both = inverse(weight(first) ^ weight(second));
        [[multiply(weight(second), both), both], [multiply(weight(first), both), both]]
    } else if first == p {
        [[1, 0], [0, 1]]
    } else if second == p {
        // The data block follows from the weighted sum, and P from the plain sum and the data
        // block.
        let factor = inverse(weight(first));
        [[0, factor], [1, factor]]
    } else {
        [[1, 0], [weight(first), 1]]
    };
    if lost[0] != first {
        rows.swap(0, 1);
    }
    rows
}

/// Combines the sums over `data` and the parities `known` according to `rows`; an empty block
/// counts as zeros. Without `WEIGHTED`, only the plain sum is computed.
fn combine<const WEIGHTED: bool>(
    data: &[&[u8]],
    known: [&[u8]; 2],
    rows: &Rows,
    rebuilt: &mut [&mut [u8]],
) {
    let len = rebuilt[0].len();
    assert!(rebuilt.iter().all(|block| block.len() == len), "blocks of one length");
    let tail = len - len % STEP;
    for at in (0..tail).step_by(STEP) {
        let sums = sums::<WEIGHTED>(data, known, |block| block.get(at..)?.first_chunk().copied());
        for (row, block) in rows.iter().zip(rebuilt.iter_mut()) {
            block[at..at + STEP].copy_from_slice(&combination(sums, row));
        }
    }
    if tail < len {
        let sums = sums::<WEIGHTED>(data, known, |block| block.get(tail..).map(padded));
        for (row, block) in rows.iter().zip(rebuilt.iter_mut()) {
            block[tail..].copy_from_slice(&combination(sums, row)[..len - tail]);
        }
    }
}

/// Returns the plain and the weighted sum of one step of each block.
#[inline(always)]
fn sums<const WEIGHTED: bool>(
    data: &[&[u8]],
    known: [&[u8]; 2],
    step: impl Fn(&[u8]) -> Option<Step>,
) -> [Step; 2] {
    let mut plain = step(known[0]).unwrap_or(NOTHING);
    let mut weighted = NOTHING;
    for block in data.iter().rev() {
        if WEIGHTED {
            double(&mut weighted);
        }
        if let Some(bytes) = step(block) {
            sum(&mut plain, &bytes);
            if WEIGHTED {
                sum(&mut weighted, &bytes);
            }
        }
    }
    if let (true, Some(bytes)) = (WEIGHTED, step(known[1])) {
        sum(&mut weighted, &bytes);
    }
    [plain, weighted]
}

/// Computes one lost block from both sums.
#[inline(always)]
fn combination(sums: [Step; 2], row: &[u8; 2]) -> Step {
    let mut block = NOTHING;
    multiply_add(&mut block, sums[0], row[0]);
    multiply_add(&mut block, sums[1], row[1]);
    block
}

#[inline(always)]
fn sum(to: &mut Step, from: &Step) {
    for (to, from) in to.iter_mut().zip(from) {
        *to ^= from;
    }
}

#[inline(always)]
fn double(step: &mut Step) {
    for byte in step {
        *byte = twice(*byte);
    }
}

#[inline(always)]
fn twice(byte: u8) -> u8 {
    // The sign bit is the coefficient of `x^7`, which becomes `x^8`.
    (byte << 1) ^ if byte.cast_signed() < 0 { REST } else { 0 }
}

/// Adds `factor * from`, one bit of the factor at a time, lowest first.
#[inline(always)]
fn multiply_add(to: &mut Step, mut from: Step, mut factor: u8) {
    while factor != 0 {
        if factor & 1 != 0 {
            sum(to, &from);
        }
        factor >>= 1;
        if factor != 0 {
            double(&mut from);
        }
    }
}

/// Returns the last bytes of a block, less than a step, padded with zeros.
fn padded(bytes: &[u8]) -> Step {
    let mut step = NOTHING;
    step[..bytes.len()].copy_from_slice(bytes);
    step
}

fn multiply(a: u8, b: u8) -> u8 {
    (0..8).rev().fold(0, |sum, bit| twice(sum) ^ if b >> bit & 1 == 1 { a } else { 0 })
}

/// Returns `2^exponent`.
fn power(exponent: u8) -> u8 {
    (0..exponent).fold(1, |power, _| twice(power))
}

/// Returns the inverse of `a`, which is not 0: its 254th power, computed by squaring.
fn inverse(a: u8) -> u8 {
    let (mut square, mut inverse) = (a, 1);
    for _ in 0..7 {
        square = multiply(square, square);
        inverse = multiply(inverse, square);
    }
    inverse
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Multiplies by definition: the product of polynomials, then the remainder of a long division.
    fn product(a: u8, b: u8) -> u8 {
        let long =
            (0..8).filter(|bit| b >> bit & 1 == 1).fold(0, |sum, bit| sum ^ (u16::from(a) << bit));
        let rest = (8..15).rev().fold(long, |rest, bit| match rest >> bit & 1 {
            1 => rest ^ (0x11d << (bit - 8)),
            _ => rest,
        });
        rest as u8
    }

    /// Returns bytes without a pattern, different for each seed.
    fn block(len: usize, seed: usize) -> Vec<u8> {
        let mut state = seed as u64 + 1;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        (0..len).map(|_| next()).collect()
    }

    /// Returns data blocks, followed by P and Q computed byte by byte.
    fn stripe(blocks: usize, len: usize) -> Vec<Vec<u8>> {
        let mut stripe: Vec<Vec<u8>> = (0..blocks).map(|index| block(len, index)).collect();
        let mut weights = vec![1_u8];
        for _ in 1..blocks {
            weights.extend(weights.last().map(|last| product(*last, 2)));
        }
        let weighted = |at| stripe.iter().zip(&weights).fold(0, |q, (d, w)| q ^ product(d[at], *w));
        let q = (0..len).map(weighted).collect();
        let p = (0..len).map(|at| stripe.iter().fold(0, |p, d| p ^ d[at])).collect();
        stripe.extend([p, q]);
        stripe
    }

    /// Lengths around multiples of a step, and 0.
    const LENS: [usize; 6] = [0, 1, STEP - 1, STEP, STEP + 1, 3 * STEP + 40];

    #[test]
    fn powers_of_two_are_those_of_rfc_6330() {
        // The table OCT_EXP of RFC 6330 (section 5.7.3) begins and ends with these numbers; it is
        // for the same field.
        let begin = [1, 2, 4, 8, 16, 32, 64, 128, 29, 58, 116, 232, 205, 135, 19, 38, 76, 152, 45];
        let end = [216, 173, 71, 142];
        assert_eq!((0..19).map(power).collect::<Vec<_>>(), begin);
        assert_eq!((251..=254).map(power).collect::<Vec<_>>(), end);
        assert_eq!(multiply(power(254), 2), 1, "and begins again");
    }

    #[test]
    fn products_are_those_of_the_definition() {
        let all: Vec<u8> = (0..=255).collect();
        for factor in 0..=255 {
            let mut products = vec![0x5a; 256];
            add(&mut products, &all, factor);
            let expected: Vec<u8> = all.iter().map(|a| 0x5a ^ product(*a, factor)).collect();
            assert_eq!(products, expected, "times {factor}");
            assert!(factor == 0 || product(factor, inverse(factor)) == 1, "{factor}");
        }
    }

    #[test]
    fn tails_are_added_too() {
        for len in LENS {
            let (from, before) = (block(len, 1), block(len, 2));
            let mut to = before.clone();
            add(&mut to, &from, 0x8e);
            let expected = from.iter().zip(&before).map(|(from, to)| to ^ product(*from, 0x8e));
            assert!(to.iter().copied().eq(expected), "{len} bytes");
        }
    }

    #[test]
    fn parities_are_those_of_the_definition() {
        for blocks in [1, 2, 3, 8, 17, BLOCKS_MAX] {
            for len in LENS {
                let stripe = stripe(blocks, len);
                let data: Vec<&[u8]> = stripe[..blocks].iter().map(Vec::as_slice).collect();
                let (mut p, mut q) = (vec![0xff; len], vec![0xff; len]);
                parity(&data, &mut p, Some(&mut q));
                assert!(p == stripe[blocks] && q == stripe[blocks + 1], "{blocks} of {len} bytes");
                p.fill(0xff);
                parity(&data, &mut p, None);
                assert_eq!(p, stripe[blocks], "{blocks} of {len} bytes");
            }
        }
    }

    /// Fills the lost blocks with garbage, and checks that they are recovered.
    fn comes_back(stripe: &[Vec<u8>], parities: usize, lost: &[usize]) {
        let (blocks, len) = (stripe.len() - 2, stripe[0].len());
        let junk = block(len, 999);
        let left: Vec<&[u8]> = (0..blocks + parities)
            .map(|index| if lost.contains(&index) { &junk } else { &stripe[index] })
            .map(Vec::as_slice)
            .collect();
        let mut rebuilt = vec![vec![0xff; len]; lost.len()];
        let mut places: Vec<&mut [u8]> = rebuilt.iter_mut().map(Vec::as_mut_slice).collect();
        recover(&left[..blocks], &left[blocks..], lost, &mut places);
        for (index, rebuilt) in lost.iter().zip(&rebuilt) {
            assert!(*rebuilt == stripe[*index], "{index} of {lost:?} of {blocks} + {parities}");
        }
    }

    #[test]
    fn any_one_of_p_and_any_two_of_p_and_q_come_back() {
        for blocks in [1, 2, 3, 5, 16, BLOCKS_MAX] {
            let stripe = stripe(blocks, if blocks == BLOCKS_MAX { 9 } else { STEP + 9 });
            comes_back(&stripe, 2, &[]);
            for one in 0..blocks + 2 {
                comes_back(&stripe, 2, &[one]);
                if one <= blocks {
                    comes_back(&stripe, 1, &[one]);
                }
                for other in one + 1..blocks + 2 {
                    comes_back(&stripe, 2, &[one, other]);
                    if blocks < BLOCKS_MAX {
                        comes_back(&stripe, 2, &[other, one]);
                    }
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "[1, 1] lost of 2 blocks with 2 parities")]
    fn a_block_is_lost_once() {
        comes_back(&stripe(2, 8), 2, &[1, 1]);
    }

    #[test]
    #[should_panic(expected = "block 2 has 7 bytes, others 8")]
    fn blocks_and_parities_have_one_length() {
        recover(&[&[1; 8], &[]], &[&[2; 7]], &[1], &mut [&mut [0; 8]]);
    }

    #[test]
    #[should_panic(expected = "256 data blocks, at most 255")]
    fn more_blocks_than_powers_are_refused() {
        parity(&[&[][..]; 256], &mut [], None);
    }
}
