//! What the store finds out about its disks and its load while it runs: how many bytes to leave out before the next
//! batch, and how long a log is to be.
//!
//! **Gap.** A batch that comes right behind the last one just misses its place: the disk has to turn once more, unless
//! some bytes are left out, as many as pass under the head until it comes. How many nobody says, so they are tried.
//! **Log.** A transformation takes some time however short its log is (a flush, two roots, a copy). So that it ends
//! within the logging periods that it has, `(n - 1) / 2` of them on `n` disks (the paper's acceptable alternation,
//! section III.C), a log is made longer where it does not; and where merges fall behind, as there is less to
//! merge of fewer and longer runs.

use forebay_core::Nanos;

/// Gaps that are tried, in units of 16 KiB.
const GAPS: [u64; 12] = [0, 1, 2, 4, 6, 8, 16, 24, 32, 40, 48, 56];
const GAP_UNIT: u64 = 16 << 10;
/// Batches that a gap is tried for.
const TRIAL: u32 = 32;
/// Batches after which all are tried again.
const TRIALS_EVERY: u32 = 10_000;
/// A gap has to make batches so much faster than none does.
const WORTH: f64 = 0.95;

/// Which gap makes batches fastest.
pub(super) struct Gap {
    gaps: Vec<u64>,
    /// The mean time of a batch behind each.
    means: Vec<f64>,
    /// The one that is tried; none while the best is used.
    trial: Option<usize>,
    sum: Nanos,
    count: u32,
    best: u64,
}

impl Gap {
    /// None longer than so many bytes.
    pub(super) fn new(bytes_max: u64) -> Gap {
        let gaps: Vec<u64> = GAPS.iter().map(|units| units * GAP_UNIT).collect();
        let gaps: Vec<u64> = gaps.into_iter().filter(|gap| *gap <= bytes_max).collect();
        let means = Vec::with_capacity(gaps.len());
        Gap { gaps, means, trial: Some(0), sum: Nanos::ZERO, count: 0, best: 0 }
    }

    /// What to leave out behind the next batch.
    pub(super) fn bytes(&self) -> u64 {
        self.trial.map_or(self.best, |trial| self.gaps[trial])
    }

    /// A batch took so long.
    pub(super) fn took(&mut self, time: Nanos) {
        (self.sum, self.count) = (self.sum + time, self.count + 1);
        let Some(trial) = self.trial else {
            if self.count >= TRIALS_EVERY {
                (self.trial, self.sum, self.count) = (Some(0), Nanos::ZERO, 0);
                self.means.clear();
            }
            return;
        };
        // The first came behind another gap.
        if self.count == 1 {
            self.sum = Nanos::ZERO;
        }
        if self.count <= TRIAL {
            return;
        }
        self.means.push(self.sum.as_secs_f64() / f64::from(TRIAL));
        (self.sum, self.count) = (Nanos::ZERO, 0);
        self.trial = (trial + 1 < self.gaps.len()).then_some(trial + 1);
        if self.trial.is_none() {
            let all = self.means.iter().zip(&self.gaps);
            let best = all.min_by(|a, b| a.0.total_cmp(b.0));
            self.best =
                best.filter(|best| *best.0 < self.means[0] * WORTH).map_or(0, |best| *best.1);
        }
    }
}

/// Logs in a row whose transformations take little before a log is made shorter.
const CALM: u32 = 16;

/// How long a log is to be.
pub(super) struct LogSize {
    bytes: u64,
    bytes_min: u64,
    bytes_max: u64,
    calm: u32,
    /// Logging periods that the last transformation took.
    periods: f64,
}

impl LogSize {
    /// Between these; the same where they are.
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

    /// A log was on duty for so long, and the last transformation took so long; there are `disks`, and this share of
    /// the runs that there may be.
    pub(super) fn finished(
        &mut self,
        logging: Nanos,
        transforming: Nanos,
        disks: usize,
        runs_share: f64,
    ) {
        let periods_max = (disks.saturating_sub(1) / 2).max(1) as f64;
        self.periods = transforming.as_secs_f64() / logging.as_secs_f64().max(1e-9);
        let share = self.periods / periods_max;
        if share > 0.8 || runs_share > 0.25 {
            self.bytes = (self.bytes * 2).min(self.bytes_max);
            self.calm = 0;
        } else if share < 0.2 && runs_share < 0.06 {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk that turns in 8 ms: a batch whose place has just gone by waits for the next time.
    fn time(gap: u64, needed: u64) -> Nanos {
        let late = if gap < needed { 8000 } else { (gap - needed) / 150 };
        Nanos::from_micros(500 + late)
    }

    #[test]
    fn the_gap_is_the_least_that_is_enough() {
        for (needed, expected) in [(1, 16384), (50_000, 65536), (400_000, 524_288), (10_000_000, 0)]
        {
            let mut gap = Gap::new(1 << 20);
            for _ in 0..1000 {
                let before = gap.bytes();
                gap.took(time(before, needed));
            }
            assert_eq!(gap.bytes(), expected, "for {needed}");
            // The disk has changed.
            for _ in 0..TRIALS_EVERY {
                let before = gap.bytes();
                gap.took(time(before, 20_000));
            }
            assert_eq!(gap.bytes(), 32768);
        }
        assert_eq!(Gap::new(20_000).gaps, [0, 16384]);
    }

    #[test]
    fn logs_grow_until_transformations_keep_up() {
        // 100 MB/s come in; a transformation writes 150 MB/s and 60 ms besides.
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
        // One put a second.
        for _ in 0..100 {
            size.finished(Nanos::from_secs(50), Nanos::from_millis(100), 4, 0.0);
        }
        assert_eq!(size.bytes(), 5_000_000);
        size.finished(Nanos::from_secs(50), Nanos::from_millis(100), 4, 0.5);
        assert_eq!(size.bytes(), 10_000_000, "merges fall behind");
    }
}
