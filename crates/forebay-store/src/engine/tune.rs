//! Self-tuning: measures the disks and the load while the store runs, and chooses the gap before
//! the next batch and the length of logs.
//!
//! **Gap.** A batch written directly after the previous one just misses its position, and must wait
//! for the disk's next rotation. A gap of as many bytes as pass under the head in the meantime
//! avoids this. Its best length is unknown, so different gaps are tried.
//!
//! **Log length.** A transformation has fixed costs however short its log is (a flush, two roots, a
//! copy). It must end within `(n - 1) / 2` logging periods on `n` disks (the paper's acceptable
//! alternation, section III.C). Logs are made longer if it does not, and also if merges fall
//! behind, because fewer and longer runs need less merging.

use forebay_core::Nanos;

/// The gaps that are tried, in units of 16 KiB.
const GAPS: [u64; 12] = [0, 1, 2, 4, 6, 8, 16, 24, 32, 40, 48, 56];
const GAP_UNIT: u64 = 16 << 10;
/// The number of batches in the first trial of each gap.
const TRIAL: u32 = 32;
/// The number of batches after which all gaps are tried again.
const TRIALS_EVERY: u32 = 10_000;
/// A gap is used only if it reduces the time of a batch to at most this share of the time without a
/// gap.
const WORTH: f64 = 0.95;

/// Finds the gap with the fastest batches.
pub(super) struct Gap {
    gaps: Vec<u64>,
    /// The gaps that may be the best.
    contenders: Vec<u64>,
    /// The mean time of a batch after each gap tried so far.
    means: Vec<f64>,
    /// The number of batches in each trial; None while the best gap is in use.
    trial: Option<u32>,
    sum: Nanos,
    count: u32,
    /// The mean time of a batch without a gap.
    without: f64,
    best: u64,
}

impl Gap {
    /// Creates a search for gaps of at most `bytes_max` bytes.
    pub(super) fn new(bytes_max: u64) -> Gap {
        let gaps = GAPS.iter().map(|units| units * GAP_UNIT).filter(|gap| *gap <= bytes_max);
        let gaps: Vec<u64> = gaps.collect();
        let (contenders, means) = (gaps.clone(), Vec::with_capacity(gaps.len()));
        let (sum, trial) = (Nanos::ZERO, Some(TRIAL));
        Gap { gaps, contenders, means, trial, sum, count: 0, without: 0.0, best: 0 }
    }

    /// Returns the gap after the next batch.
    pub(super) fn bytes(&self) -> u64 {
        self.trial.map_or(self.best, |_| self.contenders[self.means.len()])
    }

    /// Registers the duration of a batch.
    pub(super) fn took(&mut self, time: Nanos) {
        (self.sum, self.count) = (self.sum + time, self.count + 1);
        let Some(batches) = self.trial else {
            if self.count >= TRIALS_EVERY {
                self.contenders.clone_from(&self.gaps);
                self.try_for(TRIAL);
            }
            return;
        };
        // Ignore the first batch of a trial, because it followed a different gap.
        if self.count == 1 {
            self.sum = Nanos::ZERO;
        }
        if self.count <= batches {
            return;
        }
        self.means.push(self.sum.as_secs_f64() / f64::from(batches));
        (self.sum, self.count) = (Nanos::ZERO, 0);
        if self.means.len() == self.contenders.len() {
            self.judge(batches);
        }
    }

    fn try_for(&mut self, batches: u32) {
        self.means.clear();
        (self.trial, self.sum, self.count) = (Some(batches), Nanos::ZERO, 0);
    }

    /// Ends a round of trials. The better half of the gaps is tried again for longer until two
    /// remain, because batches occasionally miss a rotation for other reasons, which distorts short
    /// trials.
    fn judge(&mut self, batches: u32) {
        let mut order: Vec<(f64, u64)> =
            self.means.iter().copied().zip(self.contenders.iter().copied()).collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0));
        if batches == TRIAL {
            self.without = self.means[0];
        }
        if order.len() > 2 {
            order.truncate((order.len() / 3).max(2));
            self.contenders = order.iter().map(|of| of.1).collect();
            return self.try_for(batches * 4);
        }
        self.trial = None;
        let (mean, gap) = order[0];
        self.best = if mean < self.without * WORTH { gap } else { 0 };
    }
}

/// The number of consecutive logs with short transformations before logs are made shorter.
const CALM: u32 = 16;

/// Chooses the length of logs.
pub(super) struct LogSize {
    bytes: u64,
    bytes_min: u64,
    bytes_max: u64,
    calm: u32,
    /// The duration of the last transformation in logging periods.
    periods: f64,
}

impl LogSize {
    /// Creates a choice of lengths in this range; if both are equal, the length is fixed.
    pub(super) fn new(bytes_min: u64, bytes_max: u64) -> LogSize {
        let bytes_max = bytes_max.max(bytes_min);
        LogSize { bytes: bytes_min, bytes_min, bytes_max, calm: 0, periods: 0.0 }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn periods(&self) -> f64 {
        self.periods
    }

    /// Returns whether transformations take too long although logs have their maximum length.
    pub(super) fn is_saturated(&self, disks: usize) -> bool {
        self.bytes == self.bytes_max && self.periods > periods_max(disks)
    }

    /// Registers how long a log was on duty, how long the last transformation took, the number of
    /// disks, and the number of runs as a share of the maximum.
    pub(super) fn finished(
        &mut self,
        logging: Nanos,
        transforming: Nanos,
        disks: usize,
        merge_debt: f64,
    ) {
        self.periods = transforming.as_secs_f64() / logging.as_secs_f64().max(1e-9);
        let share = self.periods / periods_max(disks);
        if share > 0.8 || merge_debt > 0.25 {
            self.bytes = (self.bytes * 2).min(self.bytes_max);
            self.calm = 0;
        } else if share < 0.2 && merge_debt < 0.06 {
            self.calm += 1;
            if self.calm == CALM {
                self.bytes = (self.bytes / 2).max(self.bytes_min);
                self.calm = 0;
            }
        } else {
            self.calm = 0;
        }
    }
}

/// Returns the maximum duration of a transformation in logging periods.
fn periods_max(disks: usize) -> f64 {
    (disks.saturating_sub(1) / 2).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Models a disk with a rotation time of 8 ms: a batch that has just missed its position waits
    /// for the next rotation.
    fn time(gap: u64, needed: u64) -> Nanos {
        let late = if gap < needed { 8000 } else { (gap - needed) / 150 };
        Nanos::from_micros(500 + late)
    }

    #[test]
    fn the_gap_is_the_least_that_is_enough() {
        for (needed, expected) in [(1, 16384), (50_000, 65536), (400_000, 524_288), (10_000_000, 0)]
        {
            let mut gap = Gap::new(1 << 20);
            for _ in 0..2000 {
                let before = gap.bytes();
                gap.took(time(before, needed));
            }
            assert_eq!(gap.bytes(), expected, "for {needed}");
            // From here on, the disk needs a different gap.
            for _ in 0..TRIALS_EVERY + 1000 {
                let before = gap.bytes();
                gap.took(time(before, 20_000));
            }
            assert_eq!(gap.bytes(), 32768);
        }
        assert_eq!(Gap::new(20_000).gaps, [0, 16384]);
    }

    #[test]
    fn logs_grow_until_transformations_keep_up() {
        // Puts arrive at 100 MB/s; a transformation writes 150 MB/s and has fixed costs of 60 ms.
        let times = |bytes: u64| {
            (Nanos::from_micros(bytes / 100), Nanos::from_micros(60_000 + bytes / 150))
        };
        let mut size = LogSize::new(5_000_000, 50_000_000);
        let mut sizes = Vec::new();
        for _ in 0..10 {
            let (logging, transforming) = times(size.bytes());
            size.finished(logging, transforming, 4, 0.0);
            sizes.push(size.bytes() / 1_000_000);
        }
        assert_eq!(sizes, [10, 20, 40, 50, 50, 50, 50, 50, 50, 50]);
        assert!(size.periods() > 0.7 && size.periods() < 0.9, "{}", size.periods());
        assert!(!size.is_saturated(4));
        size.finished(Nanos::from_millis(500), Nanos::from_millis(600), 4, 0.0);
        assert!(size.is_saturated(4) && !size.is_saturated(5));
        // The load drops to one put per second.
        for _ in 0..100 {
            size.finished(Nanos::from_secs(50), Nanos::from_millis(100), 4, 0.0);
        }
        assert_eq!(size.bytes(), 5_000_000);
        size.finished(Nanos::from_secs(50), Nanos::from_millis(100), 4, 0.5);
        assert_eq!(size.bytes(), 10_000_000, "merges fall behind");
    }
}
