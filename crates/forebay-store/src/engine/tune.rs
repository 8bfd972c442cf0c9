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
/// Batches that each gap is tried for at first.
const TRIAL: u32 = 32;
/// Batches after which all are tried again.
const TRIALS_EVERY: u32 = 10_000;
/// A gap has to make batches so much faster than none does.
const WORTH: f64 = 0.95;

/// Which gap makes batches fastest.
pub(super) struct Gap {
    gaps: Vec<u64>,
    /// Those that may be the best.
    contenders: Vec<u64>,
    /// The mean time of a batch behind each, as far as they were tried.
    means: Vec<f64>,
    /// How many batches each is tried for; nothing is tried while the best is used.
    trial: Option<u32>,
    sum: Nanos,
    count: u32,
    /// The mean time of a batch without a gap.
    without: f64,
    best: u64,
}

impl Gap {
    /// None longer than so many bytes.
    pub(super) fn new(bytes_max: u64) -> Gap {
        let gaps = GAPS.iter().map(|units| units * GAP_UNIT).filter(|gap| *gap <= bytes_max);
        let gaps: Vec<u64> = gaps.collect();
        let (contenders, means) = (gaps.clone(), Vec::with_capacity(gaps.len()));
        let (sum, trial) = (Nanos::ZERO, Some(TRIAL));
        Gap { gaps, contenders, means, trial, sum, count: 0, without: 0.0, best: 0 }
    }

    /// What to leave out behind the next batch.
    pub(super) fn bytes(&self) -> u64 {
        self.trial.map_or(self.best, |_| self.contenders[self.means.len()])
    }

    /// A batch took so long.
    pub(super) fn took(&mut self, time: Nanos) {
        (self.sum, self.count) = (self.sum + time, self.count + 1);
        let Some(batches) = self.trial else {
            if self.count >= TRIALS_EVERY {
                self.contenders.clone_from(&self.gaps);
                self.try_for(TRIAL);
            }
            return;
        };
        // The first came behind another gap.
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

    /// The better ones are tried for longer, until there are two: now and then a batch takes a turn more for other
    /// reasons, and a short trial may be unlucky.
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

    /// Whether transformations take longer than they may although logs are as long as they may be.
    pub(super) fn is_saturated(&self, disks: usize) -> bool {
        self.bytes == self.bytes_max && self.periods > periods_max(disks)
    }

    /// A log was on duty for so long, and the last transformation took so long; there are `disks`, and this share of
    /// the runs that there may be.
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

/// Logging periods that a transformation may take.
fn periods_max(disks: usize) -> f64 {
    (disks.saturating_sub(1) / 2).max(1) as f64
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
            for _ in 0..2000 {
                let before = gap.bytes();
                gap.took(time(before, needed));
            }
            assert_eq!(gap.bytes(), expected, "for {needed}");
            // The disk has changed.
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
        assert!(!size.is_saturated(4));
        size.finished(Nanos::from_millis(500), Nanos::from_millis(600), 4, 0.0);
        assert!(size.is_saturated(4) && !size.is_saturated(5));
        // One put a second.
        for _ in 0..100 {
            size.finished(Nanos::from_secs(50), Nanos::from_millis(100), 4, 0.0);
        }
        assert_eq!(size.bytes(), 5_000_000);
        size.finished(Nanos::from_secs(50), Nanos::from_millis(100), 4, 0.5);
        assert_eq!(size.bytes(), 10_000_000, "merges fall behind");
    }
}
