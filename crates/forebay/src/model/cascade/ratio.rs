//! Ratios of two durations, in bins; drawn from with exact arithmetic, so that the same seed draws the same
//! on every machine.

/// Bins of a ratio: an eighth of an octave near one, several octaves far from it.
pub const BINS: usize = 2 * HALF + 1;
const HALF: usize = 44;

/// Bins of each octave of ratios, as powers of two: most where halves are about alike, since the time of
/// a whole that is divided wrongly there moves most requests.
const STEPS: [u32; 16] = [3, 3, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0];
/// Octaves to a bin beyond.
const WIDE: usize = 5;
/// The first bin of each octave, and of those beyond.
const BEGINS: [usize; STEPS.len() + 1] = {
    let mut begins = [0; STEPS.len() + 1];
    let mut power = 0;
    while power < STEPS.len() {
        begins[power + 1] = begins[power] + (1 << STEPS[power]);
        power += 1;
    }
    begins
};

/// The bin of the ratio `(first + 1) / (second + 1)`.
#[inline]
pub(super) fn bin(first: u64, second: u64) -> usize {
    let (first, second) = (first as f64 + 1.0, second as f64 + 1.0);
    let ratio = if first < second { second / first } else { first / second };
    // From its exponent and mantissa: a logarithm would take longer than all the rest.
    let power = (ratio.to_bits() >> 52) as usize - 1023;
    let step = match STEPS.get(power) {
        Some(&steps) => {
            let mantissa = ratio.to_bits() & (u64::MAX >> 12);
            BEGINS[power] + (mantissa >> (52 - steps)) as usize
        }
        None => BEGINS[STEPS.len()] + (power - STEPS.len()) / WIDE,
    };
    let step = step.min(HALF);
    if first < second { HALF - step } else { HALF + step }
}

/// The ratio `share` of the way through a bin.
#[inline]
fn ratio(bin: usize, share: f64) -> f64 {
    let (is_less, step) = (bin < HALF, bin.abs_diff(HALF));
    let share = if is_less { 1.0 - share } else { share };
    let power = BEGINS.partition_point(|&begin| begin <= step) - 1;
    let ratio = match STEPS.get(power) {
        // Alike, either way.
        _ if step == 0 => return between(8.0 / 9.0, 9.0 / 8.0, share),
        Some(&steps) => {
            let edge = |at: usize| {
                let within = (step - BEGINS[power] + at) as f64 / f64::from(1u32 << steps);
                (1.0 + within) * (1u64 << power) as f64
            };
            between(edge(0), edge(1), share)
        }
        None => {
            let octaves = ((step - BEGINS[power]) as f64 + share) * WIDE as f64;
            power_of_two(STEPS.len() as f64 + octaves)
        }
    };
    if is_less { 1.0 / ratio } else { ratio }
}

/// `share` of the way from one ratio to another; the middle is that of logarithms, since a root is the same
/// on every machine.
#[inline]
fn between(low: f64, high: f64, share: f64) -> f64 {
    let middle = (low * high).sqrt();
    match share < 0.5 {
        true => low + (middle - low) * 2.0 * share,
        false => middle + (high - middle) * (2.0 * share - 1.0),
    }
}

/// The first half of a block that lasts `ns`, `share` of the way through a bin of ratios.
#[inline]
pub(super) fn part(ns: u64, bin: usize, share: f64) -> u64 {
    let ratio = ratio(bin.min(BINS - 1), share);
    let whole = ns as f64 + 2.0;
    let first = whole * ratio / (1.0 + ratio) - 1.0;
    ((first.max(0.0) + 0.5) as u64).min(ns)
}

/// Two to a power of up to some hundreds, within a ten-millionth: quicker than the library's, and the same
/// on every machine.
#[inline]
fn power_of_two(power: f64) -> f64 {
    // Of the series of `exp(power * ln 2)`.
    const TERMS: [f64; 6] = [
        1.540_353_039e-4,
        1.333_355_814_6e-3,
        9.618_129_107_6e-3,
        5.550_410_866_48e-2,
        0.240_226_506_959,
        std::f64::consts::LN_2,
    ];
    let whole = (power + 1024.5) as u64;
    let rest = power - (whole as f64 - 1024.0);
    let sum = TERMS.iter().fold(0.0, |sum, term| (sum + term) * rest);
    (1.0 + sum) * f64::from_bits((whole - 1) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_hold_their_ratios() {
        let some = [0, 1, 7, 8, 9, 300, 70_000, 1 << 30, 1 << 50, u64::MAX >> 1];
        for first in some {
            for second in some {
                let bin = bin(first, second);
                let (low, high) = (ratio(bin, 0.0), ratio(bin, 1.0));
                let given = (first as f64 + 1.0) / (second as f64 + 1.0);
                let given = given.clamp(2f64.powi(-36), 2f64.powi(36));
                let slack = 1e-6;
                assert!(low <= given * (1.0 + slack) && given <= high * (1.0 + slack), "{bin}");
            }
        }
    }

    #[test]
    fn bins_lie_side_by_side() {
        assert_eq!(ratio(HALF, 0.5), 1.0);
        assert_eq!(part(1_000_002, HALF, 0.5), 500_001);
        for bin in 1..BINS {
            let (before, after) = (ratio(bin - 1, 1.0), ratio(bin, 0.0));
            assert!((before / after - 1.0).abs() < 1e-6, "{bin}: {before} {after}");
        }
    }

    #[test]
    fn powers_are_those_of_the_library() {
        for n in -4000..4000 {
            let power = f64::from(n) / 100.0;
            assert!((power_of_two(power) / power.exp2() - 1.0).abs() < 2e-7, "{power}");
        }
    }
}
