//! Where a request is, relative to those before it in its range: two small numbers.
//!
//! Runs that are read or written backward, and requests that trade places with their neighbours, touch each
//! other exactly and are merged; so near distances are kept to an eighth of an octave and as multiples
//! of a request's length, where they are.

use super::bins::{age_bin, log_bin, log_bounds, reach, reach_bin};
use super::space::SECTOR;
use super::state::Kind;

/// Ages that are told apart, in [`age_bin`]s.
const AGES: usize = 44;
/// Recent ends from which new ground may be near.
pub const NEAR_RANKS: usize = 4;
/// Ages of fewer requests than 4 are kept exactly.
const SOON: usize = 4;

/// The two numbers.
pub type RelativePlace = (usize, usize);

/// The spot of a request of `len` bytes that begins where one of `ago` requests ago did: its age, and how
/// far it is from `reference`. Near ones have [`AGES`] added to the age where the distance is a multiple
/// of the length.
pub fn again(kind: Kind, ago: u64, reference: u64, (address, len): (u64, u32)) -> RelativePlace {
    let age = age_bin(ago).min(AGES - 1);
    if !kind.is_near() {
        return (age, reach_bin(reference, address));
    }
    let distance = address.abs_diff(reference);
    (age + AGES * usize::from(is_multiple(distance, len)), log_bin(distance / SECTOR))
}

/// The same of one that begins within another's place. Of a near one the distance tells enough.
pub fn inside(kind: Kind, ago: u64, reference: u64, (address, len): (u64, u32)) -> RelativePlace {
    let (age, distance) = again(kind, ago, reference, (address, len));
    match kind.is_near() {
        true => (2 * AGES + usize::from(age >= AGES), distance),
        false => (age + AGES, distance),
    }
}

/// Whether a request is to begin within another's place.
pub fn is_inside(kind: Kind, wanted: RelativePlace) -> bool {
    wanted.0 >= if kind.is_near() { 2 * AGES } else { AGES }
}

/// How ill what was found suits what is wanted of a place used again.
pub fn off(kind: Kind, found: RelativePlace, wanted: RelativePlace) -> usize {
    let ages = [found.0 % AGES, wanted.0 % AGES];
    let is_soon = ages[0] != ages[1] && ages[0] < SOON;
    let by_age = 3 * ages[0].abs_diff(ages[1]) + 60 * usize::from(is_soon);
    let distance = found.1.abs_diff(wanted.1);
    match kind.is_near() {
        false => by_age + 4 * distance,
        true => by_age + distance.div_ceil(2) + 3 * usize::from(found.0 / AGES != wanted.0 / AGES),
    }
}

/// The age that is wanted.
pub fn age(wanted: RelativePlace) -> usize {
    wanted.0 % AGES
}

/// How far a request of `len` bytes that begins within another's place is from the last end, if that is
/// near, and whether it is exact.
pub fn within(wanted: RelativePlace, len: u32, uniform: f64) -> (u64, bool) {
    distance(wanted.1, wanted.0 > 2 * AGES, len, uniform)
}

/// An address about as far from `reference` as wanted of a place used again; `uniform` is in `0..1`.
pub fn aim(kind: Kind, reference: u64, wanted: RelativePlace, uniform: f64) -> u64 {
    if !kind.is_near() {
        return reach(reference, wanted.1, uniform);
    }
    let (low, count) = log_bounds(wanted.1);
    let distance = (low + (uniform * count as f64) as u64).saturating_mul(SECTOR);
    match kind {
        Kind::AgainBehind => reference.saturating_sub(distance),
        _ => reference.saturating_add(distance),
    }
}

fn is_multiple(distance: u64, len: u32) -> bool {
    distance > 0 && distance.is_multiple_of(u64::from(len.max(1)))
}

/// The spot of a request of `len` bytes on new ground, `distance` from the recent end of a rank.
pub fn near(rank: usize, distance: i64, len: u32) -> RelativePlace {
    let multiple = is_multiple(distance.unsigned_abs(), len);
    let side = usize::from(distance < 0) + 2 * usize::from(multiple);
    (4 * rank.min(NEAR_RANKS - 1) + side, log_bin(distance.unsigned_abs() / SECTOR))
}

/// Rank and distance of a request of `len` bytes on new ground, and whether the distance is exact;
/// `uniform` is in `0..1`.
pub fn beside((first, bin): RelativePlace, len: u32, uniform: f64) -> (usize, i64, bool) {
    let (distance, is_exact) = distance(bin, first & 2 > 0, len, uniform);
    let distance = distance.min(i64::MAX as u64) as i64;
    (first / 4, if first & 1 > 0 { -distance } else { distance }, is_exact)
}

/// A distance of a bin, and whether it is exact.
fn distance(bin: usize, is_multiple: bool, len: u32, uniform: f64) -> (u64, bool) {
    let (low, count) = log_bounds(bin);
    let (low, bytes) = (low.max(1).saturating_mul(SECTOR), count.saturating_mul(SECTOR));
    let len = u64::from(len.max(1));
    let least = low.div_ceil(len);
    let most = ((low + (bytes - 1)) / len).max(least);
    // Many multiples tell no more than the bin.
    match is_multiple && most == least {
        true => (least.saturating_mul(len), true),
        false => (low + (uniform * count as f64) as u64 * SECTOR, count == 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_distances_come_back() {
        for (rank, distance, len) in
            [(0, 4096, 4096), (3, -131_072, 65_536), (1, 512, 8192), (2, -(3 << 19), 1 << 18)]
        {
            let spot = near(rank, distance, len);
            for uniform in [0.0, 0.5, 0.999] {
                assert_eq!(beside(spot, len, uniform), (rank, distance, true), "{spot:?}");
            }
        }
        // No multiple: within an eighth.
        let (rank, distance, is_exact) = beside(near(0, 100_352, 4096), 4096, 0.9);
        assert!(rank == 0 && !is_exact && (98_304..106_496).contains(&distance), "{distance}");
    }

    #[test]
    fn what_is_wanted_suits_best() {
        let wanted = again(Kind::AgainBehind, 100, 1 << 20, ((1 << 20) - 8192, 4096));
        let off = |ago, address, len| {
            off(Kind::AgainBehind, again(Kind::AgainBehind, ago, 1 << 20, (address, len)), wanted)
        };
        assert_eq!(off(100, (1 << 20) - 8192, 4096), 0);
        assert!(off(100, (1 << 20) - 8192, 3072) > 0);
        assert!(off(100, (1 << 20) - 12_288, 4096) > 0);
        assert!(off(1, (1 << 20) - 8192, 4096) > 60);
        let aimed = aim(Kind::AgainBehind, 1 << 20, wanted, 0.0);
        assert_eq!(aimed, (1 << 20) - 8192);
        let beyond = inside(Kind::AgainAhead, 3, 1 << 20, ((1 << 20) + 61_440, 30_720));
        assert!(is_inside(Kind::AgainAhead, beyond) && !is_inside(Kind::AgainBehind, wanted));
        assert_eq!(within(beyond, 30_720, 0.7), (61_440, true));
        let far = again(Kind::Again, 7, 1 << 30, (1 << 20, 4096));
        let aimed = aim(Kind::Again, 1 << 30, far, 0.3);
        assert_eq!(again(Kind::Again, 7, 1 << 30, (aimed, 512)), far);
    }
}
