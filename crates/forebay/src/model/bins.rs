//! Logarithmic bins of whole numbers: exact below 16, then eight to an octave.

/// Bins of any number.
pub const LOG_BINS: usize = 8 + 8 * 61;

/// The bin of a number.
#[inline]
pub fn log_bin(value: u64) -> usize {
    if value < 16 {
        return value as usize;
    }
    let power = value.ilog2();
    8 * (power as usize - 2) + (value >> (power - 3)) as usize - 8
}

/// The least number of a bin and how many it holds.
#[inline]
pub fn log_bounds(bin: usize) -> (u64, u64) {
    if bin < 16 {
        return (bin as u64, 1);
    }
    let power = (bin / 8 + 2).min(63) as u32;
    let step = 1u64 << (power - 3);
    ((8 + (bin % 8) as u64) * step, step)
}

/// Bins of jumps.
pub const JUMP_BINS: usize = 64;

/// The bin of the distance between two addresses: its power of two in sectors.
#[inline]
pub fn jump_bin(from: u64, to: u64) -> usize {
    (64 - (from.abs_diff(to) / 512).leading_zeros() as usize).min(JUMP_BINS - 1)
}

/// The bin of a signed distance in sectors: backward ones below [`NEAR_BINS`].
#[inline]
pub fn signed_bin(distance: i64) -> usize {
    let bin = log_bin(distance.unsigned_abs() / 512).min(NEAR_BINS - 1);
    if distance < 0 { bin } else { NEAR_BINS + bin }
}

/// Bins of near distances of one sign.
pub const NEAR_BINS: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_adjacent() {
        let mut last = 0;
        for value in (0..5000).chain([1 << 40, (1 << 40) + 1, u64::MAX]) {
            let bin = log_bin(value);
            let (low, count) = log_bounds(bin);
            assert!(bin < LOG_BINS && low <= value && value - low < count, "{value}");
            assert!(bin >= last && (value >= 5000 || bin <= last + 1));
            last = bin;
        }
    }
}
