//! Computes how many bytes are expected to be lost per year, because more drives fail than the
//! layout survives, or because sectors turn out to be unreadable when they are needed.
//!
//! Source: Greenan, Plank and Wylie, *Mean time to meaningless: MTTDL, Markov models, and storage
//! system reliability* (2010), which recommends the expected magnitude of loss over a mean time.
//! Expectations add up, so it suffices to consider one unit of redundancy (the chunks that can
//! restore each other) and to multiply by the amount of data; which units fail together does not
//! matter.
//!
//! A unit is a Markov chain whose state is how many of its drives have failed. Drives fail and are
//! rebuilt independently of each other, at constant rates. Once no redundancy is left, a latent
//! defect in any surviving chunk loses a sector of each missing chunk as well. Defects appear at a
//! constant rate and remain until the next scrub.

use forebay_core::Nanos;

/// How often drives fail and sectors become unreadable, and how fast either is repaired.
#[derive(Clone, Copy, Debug)]
pub struct Reliability {
    /// The expected number of failures per drive and year.
    pub failures_per_year: f64,
    /// The expected number of sectors that become unreadable, per drive and year.
    pub defects_per_year: f64,
    /// The time between two scrubs, which find and repair unreadable sectors.
    pub scrub: Nanos,
    /// The rate at which a failed drive is rebuilt, in bytes per second.
    pub rebuild_bytes_per_s: f64,
}

const YEAR_S: f64 = 365.25 * 86_400.0;
/// The number of bytes that one latent defect makes unreadable.
const SECTOR_BYTES: f64 = 4096.0;

impl Reliability {
    /// Returns how long the rebuild of a drive of this size takes.
    pub fn rebuild_s(&self, capacity_bytes: u64) -> f64 {
        capacity_bytes as f64 / self.rebuild_bytes_per_s.max(1.0)
    }

    /// Returns the expected loss, in bytes per year, of `data_bytes` on drives of `capacity_bytes`.
    /// Units of redundancy have `chunks` data chunks and survive the failure of `survives` drives.
    /// Drives that are lost take with them the share of a unit that they hold.
    pub(crate) fn lost_per_year(
        &self,
        (survives, chunks): (usize, u64),
        capacity_bytes: u64,
        data_bytes: u64,
    ) -> f64 {
        let (by_drives, by_sectors) =
            self.losses_per_year((survives, chunks), capacity_bytes, data_bytes);
        by_drives + by_sectors
    }

    /// Returns the same loss if all data are striped over `drives`, so that a unit that cannot be
    /// restored takes all data with it.
    pub(crate) fn striped_lost_per_year(
        &self,
        (survives, chunks): (usize, u64),
        capacity_bytes: u64,
        data_bytes: u64,
        drives: usize,
    ) -> f64 {
        let (by_drives, by_sectors) =
            self.losses_per_year((survives, chunks), capacity_bytes, data_bytes);
        // All units fail equally often, and each failure loses all data, not only the missing share
        // of one unit.
        let units = drives as f64 / (chunks as f64 + survives as f64);
        let missing = (survives as f64 + 1.0) / (chunks as f64 + survives as f64);
        by_drives / missing * units.max(1.0) + by_sectors
    }

    /// Returns the expected losses by failures of drives and by unreadable sectors.
    fn losses_per_year(
        &self,
        (survives, chunks): (usize, u64),
        capacity_bytes: u64,
        data_bytes: u64,
    ) -> (f64, f64) {
        let chunks = chunks as f64;
        let drives = chunks + survives as f64;
        let rebuild_years = self.rebuild_s(capacity_bytes) / YEAR_S;
        // For each number of failed drives, from zero on: the mean time in years, including
        // rebuilds, until one more drive has failed.
        let mut each = Vec::new();
        for failed in 0..=survives {
            let rate = (drives - failed as f64) * self.failures_per_year;
            let before = each.last().copied().unwrap_or(0.0);
            each.push((1.0 + failed as f64 / rebuild_years * before) / rate);
        }
        // The share of a unit's data that is on the missing drives when data are lost.
        let missing = (survives as f64 + 1.0) / drives;
        let by_drives = missing * data_bytes as f64 / each.iter().sum::<f64>();
        let defects_per_byte_year = self.defects_per_year / capacity_bytes as f64;
        let by_sectors = match survives {
            0 => defects_per_byte_year * data_bytes as f64,
            _ => {
                let critical_per_year = 1.0 / each[..survives].iter().sum::<f64>();
                let age_years = self.scrub.as_secs_f64() / 2.0 / YEAR_S + rebuild_years;
                let left_bytes = (drives - survives as f64) / chunks * data_bytes as f64;
                let lost = missing * chunks;
                critical_per_year * defects_per_byte_year * age_years * left_bytes * lost
            }
        };
        (by_drives, by_sectors * SECTOR_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::buy::Layout;

    const TB: u64 = 1_000_000_000_000;

    fn reliability(failures_per_year: f64, rebuild_years: f64) -> Reliability {
        Reliability {
            failures_per_year,
            defects_per_year: 0.0,
            scrub: Nanos::from_secs(7 * 86_400),
            rebuild_bytes_per_s: TB as f64 / (rebuild_years * YEAR_S),
        }
    }

    #[test]
    fn rare_failures_agree_with_a_calculation_by_hand() {
        let rates = reliability(0.01, 0.001);
        let lost = |layout: Layout| rates.lost_per_year(layout.redundancy(), TB, TB) / TB as f64;
        for (layout, expected) in [
            (Layout::Single, 0.01),
            // Either drive fails, then the other one during the rebuild.
            (Layout::Mirror, 2.0 * 0.01 * 0.01 * 0.001),
            // Half of a unit is lost if three of six drives fail; with two failed, two rebuilds run
            // at the same time.
            (Layout::Raid6, 0.5 * 6.0 * 5.0 * 4.0 * 0.01f64.powi(3) * 0.001 * 0.0005),
        ] {
            let share = lost(layout) / expected;
            assert!((0.99..1.01).contains(&share), "{layout:?}: {share}");
        }
    }

    /// Regression test: six striped drives were said to lose a sixth of the data with each of them,
    /// as if each file were on one drive.
    #[test]
    fn one_drive_of_a_stripe_takes_all_data_with_it() {
        let rates = reliability(0.01, 0.001);
        let lost = |layout: Layout, drives| {
            rates.striped_lost_per_year(layout.redundancy(), TB, TB, drives) / TB as f64
        };
        for (layout, drives, expected) in [
            (Layout::Single, 1, 0.01),
            (Layout::Single, 6, 0.06),
            // Three pairs, each of which takes everything.
            (Layout::Mirror, 6, 3.0 * 2.0 * 0.01 * 0.01 * 0.001),
            (Layout::Raid6, 12, 2.0 * 6.0 * 5.0 * 4.0 * 0.01f64.powi(3) * 0.001 * 0.0005),
        ] {
            let share = lost(layout, drives) / expected;
            assert!((0.98..1.02).contains(&share), "{layout:?}, {drives}: {share}");
        }
    }

    #[test]
    fn defects_are_lost_where_no_redundancy_is_left() {
        let rates = Reliability { defects_per_year: 2.0, ..reliability(1e-12, 1e-9) };
        let full = rates.lost_per_year(Layout::Single.redundancy(), TB, TB / 2);
        assert!((full - SECTOR_BYTES).abs() < SECTOR_BYTES / 100.0, "{full}");
        let rates = Reliability { failures_per_year: 0.01, ..rates };
        let mirrored = rates.lost_per_year(Layout::Mirror.redundancy(), TB, TB);
        let age_years = 3.5 / 365.25;
        let expected = 2.0 * 0.01 * 2.0 * age_years * SECTOR_BYTES;
        let by_drives = 2.0 * 0.01 * 0.01 * 1e-9 * TB as f64;
        let share = mirrored / (expected + by_drives);
        assert!((0.99..1.01).contains(&share), "{mirrored}");
        let rarely = Reliability { scrub: Nanos::from_secs(70 * 86_400), ..rates };
        assert!(rarely.lost_per_year(Layout::Mirror.redundancy(), TB, TB) > 5.0 * mirrored);
    }

    /// Compares the result with a simulation of drives that fail and are rebuilt at random.
    #[test]
    fn frequent_failures_agree_with_a_simulation() {
        let rates = reliability(1.0, 0.2);
        let (years, mut at, mut failed, mut lost, mut state) = (40_000.0, 0.0, 0.0, 0.0, 1u64);
        let mut draw = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        while at < years {
            let (fails, mends) = (6.0 - failed, failed / 0.2);
            at -= (1.0 - draw()).ln() / (fails + mends);
            failed += if draw() * (fails + mends) < fails { 1.0 } else { -1.0 };
            if failed == 3.0 {
                (failed, lost) = (0.0, lost + 0.5);
            }
        }
        let share =
            rates.lost_per_year(Layout::Raid6.redundancy(), TB, TB) / TB as f64 / (lost / years);
        assert!((0.97..1.03).contains(&share), "{share}");
    }
}
