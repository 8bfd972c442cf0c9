//! Maps 64-bit numbers to few bins: exact below 8, then four bins per power of two. All arithmetic
//! is on integers, so that results are equal on all machines.

use crate::dice::RandomSource;

/// The largest bin.
pub(crate) const BIN_MAX: u32 = 8 + 4 * 61 - 1;

/// Returns the bin of a number.
#[inline]
pub(crate) fn bin(number: u64) -> u32 {
    if number < 8 {
        return number as u32;
    }
    let power = number.ilog2();
    8 + (power - 3) * 4 + (number >> (power - 2) & 3) as u32
}

/// Returns the smallest and the largest number in a bin.
#[inline]
pub(crate) fn range(bin: u32) -> (u64, u64) {
    if bin < 8 {
        return (bin.into(), bin.into());
    }
    let (power, part) = ((bin - 8) / 4 + 3, u64::from((bin - 8) % 4));
    let unit = 1u64 << (power - 2);
    ((4 + part) * unit, ((4 + part) * unit - 1).saturating_add(unit))
}

/// Draws a number from a bin.
#[inline]
pub(crate) fn draw(bin: u32, dice: &mut RandomSource) -> u64 {
    let (low, high) = range(bin);
    dice.between(low, high)
}

/// Returns the approximate logarithm to base 2 of a positive number, interpolated linearly between
/// powers of two. This is precise enough to compare numbers by their ratio.
#[inline]
pub(crate) fn log2(number: u64) -> f32 {
    let number = number.max(1);
    let power = number.ilog2();
    let above = if power >= 16 { number >> (power - 16) } else { number << (16 - power) };
    power as f32 + (above & 0xffff) as f32 / 65_536.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_number_lies_in_its_bin(power in 0u32..64, low: u64, seed: u64) {
            let number = low >> power;
            let (least, greatest) = range(bin(number));
            prop_assert!((least..=greatest).contains(&number) && bin(number) <= BIN_MAX);
            prop_assert_eq!(bin(draw(bin(number), &mut RandomSource::new(seed))), bin(number));
        }

        #[test]
        fn logarithms_are_near(number in 1u64..) {
            prop_assert!((f64::from(log2(number)) - (number as f64).log2()).abs() < 0.09);
        }
    }
}
