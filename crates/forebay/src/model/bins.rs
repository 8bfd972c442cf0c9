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

/// Bins of reaches.
pub const REACH_BINS: usize = 2 * REACH_HALF + 1;
const REACH_HALF: usize = 44;

/// The bin of how far `to` is from `from`: its power of two in sectors, backward ones below the middle.
#[inline]
pub fn reach_bin(from: u64, to: u64) -> usize {
    let power = (64 - (from.abs_diff(to) / 512).leading_zeros() as usize).min(REACH_HALF);
    if to < from { REACH_HALF - power } else { REACH_HALF + power }
}

/// Where a bin leads from an address, if `share` of the bin is gone (on a logarithmic scale).
#[inline]
pub fn reach(from: u64, bin: usize, share: f64) -> u64 {
    let power = bin.abs_diff(REACH_HALF) as f64;
    if power == 0.0 {
        return from;
    }
    let distance = ((power - 1.0 + share).exp2() as u64).saturating_mul(512);
    if bin < REACH_HALF { from.saturating_sub(distance) } else { from.saturating_add(distance) }
}

/// Bins of ages.
pub const AGE_BINS: usize = 128;

/// The bin of how many requests ago, from 1 on: two to an octave.
#[inline]
pub fn age_bin(ago: u64) -> usize {
    let power = ago.max(1).ilog2();
    2 * power as usize + if power == 0 { 0 } else { (ago >> (power - 1)) as usize & 1 }
}

/// The least age of a bin and how many it holds.
#[inline]
pub fn age_bounds(bin: usize) -> (u64, u64) {
    let power = (bin / 2).min(63);
    if power == 0 {
        return (1, 1);
    }
    let half = 1u64 << (power - 1);
    (2 * half + (bin as u64 % 2) * half, half)
}

/// Bins of alignments.
pub const ALIGN_BINS: usize = 20;
/// Sectors of a page, as flash and file systems have it.
const PAGE_SECTORS: u64 = 8;

/// The bin of how an address is aligned: its place in a page of 4 KiB or, at a page's beginning, the power
/// of two that divides it.
#[inline]
pub fn align_bin(address: u64) -> usize {
    match (address / 512) % PAGE_SECTORS {
        0 => 7 + ((address / 4096).trailing_zeros() as usize).min(ALIGN_BINS - 8),
        phase => phase as usize - 1,
    }
}

/// The last address up to `address` that is aligned like that.
#[inline]
pub fn align(address: u64, bin: usize) -> u64 {
    match bin {
        0..7 => {
            let phase = (bin as u64 + 1) * 512;
            (address.saturating_sub(phase) / 4096 * 4096).saturating_add(phase)
        }
        _ => {
            let grain = 4096u64 << (bin - 7).min(ALIGN_BINS - 8);
            address / grain * grain
        }
    }
}

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

    #[test]
    fn alignments_come_back() {
        for address in (0..64).map(|n| n * 512).chain([1 << 20, 3 << 30, 1 << 50]) {
            let bin = align_bin(address);
            assert!(bin < ALIGN_BINS);
            assert_eq!(align(address, bin), address);
            assert!(align(address + 511, bin) == address);
        }
    }

    #[test]
    fn ages_and_reaches_lie_in_their_bins() {
        for ago in (1..3000).chain([1 << 40, u64::MAX]) {
            let (low, count) = age_bounds(age_bin(ago));
            assert!(age_bin(ago) < AGE_BINS && low <= ago && ago - low < count, "{ago}");
        }
        let from = 1u64 << 50;
        for to in [from, from + 511, from + 512, from - 512, from + 5000, from - (1 << 40), 0] {
            let bin = reach_bin(from, to);
            assert!(bin < REACH_BINS);
            for share in [0.0, 0.5, 0.999] {
                assert_eq!(reach_bin(from, reach(from, bin, share)), bin, "{to}");
            }
        }
    }
}
