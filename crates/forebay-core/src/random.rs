//! Pseudo-random numbers, which are the same in every run: SplitMix64 (Steele, Lea and Flood,
//! 2014).

/// Returns the generator's next number and advances its `state`, which initially is the seed.
#[inline]
pub fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mix(*state)
}

/// Returns the next number below `end`, or 0 if `end` is 0.
#[inline]
pub fn below(state: &mut u64, end: u64) -> u64 {
    ((u128::from(next(state)) * u128::from(end)) >> 64) as u64
}

/// Returns a number that looks random, and is different for every `number`.
#[inline]
pub fn mix(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
