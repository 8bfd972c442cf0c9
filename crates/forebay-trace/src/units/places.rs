//! Checks whether offsets and lengths are in the units in which they are read.
//!
//! Drives address whole sectors, so values in bytes are multiples of 512, and mostly of 4096, while
//! values in sectors are arbitrary. Four mistakes are detected: offsets, lengths or both are in
//! bytes but read in sectors, or they are in sectors but read in bytes. They are recognized as
//! follows:
//!
//! - Values in bytes that are read in sectors are mostly multiples of 512 sectors. The same is true
//!   for requests of 1 MiB in steps of 1 MiB, and for programs that read the beginning of each MiB
//!   or only a few places. Therefore, the length of the requests, the extent of the offsets and the
//!   latencies decide.
//! - Values in sectors that are read in bytes are mostly not multiples of 512.
//! - If one of them is right and the other is not, a request that continues the previous one begins
//!   after 1/512, or 512 times, its length ([`super::sample::Runs`]).
//!
//! Drives with sectors of 4 KiB cause a fifth mistake: offsets in these sectors that are read in
//! sectors of 512 bytes. All lengths are then whole pages, but offsets are not.

use super::sample::{Runs, Sample, Steps};
use super::{
    DRIVE_BYTES_MAX, Doubt, EXTENT_MAX, Evidence, Finding, LARGE_BYTES, LEN_MEAN_LEAST, RATE_MAX,
    Rejection,
};
use forebay_words::quantities;

/// The minimum number of requests, and of distinct offsets, for a verdict if all of them agree.
const FEW_PLACES_LEAST: u64 = 4;
/// The minimum number of distinct offsets if only these are in steps.
const STEPPED_PLACES_LEAST: usize = 8;
/// The minimum number of requests for a judgment of places within pages.
const PAGED_LEAST: u64 = 16;
/// The smallest number of runs from which a unit is recognized.
const RUNS_LEAST: u64 = 16;
/// The size of a large drive in bytes.
const LARGE_DRIVE_BYTES: u64 = 1 << 44;
/// Extents below this, in bytes, are too small to reveal a step.
const SMALL_EXTENT_BYTES: u64 = 1 << 23;
/// If lengths are in bytes and this share of offsets is in steps of 512 units, offsets are in bytes
/// too.
const PLACES_TOO: f64 = 0.5;

/// Which columns are in bytes or in sectors.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    Places,
    Lens,
    Both,
}

impl Which {
    fn names(self) -> &'static str {
        match self {
            Which::Places => "offsets are",
            Which::Lens => "lengths are",
            Which::Both => "offsets and lengths are",
        }
    }

    fn instead(self, doubt: &Doubt, unit: &str) -> Vec<(String, String)> {
        let columns: &[&str] = match self {
            Which::Places => &["offset"],
            Which::Lens => &["len"],
            Which::Both => &["offset", "len"],
        };
        columns.iter().filter_map(|column| doubt.instead(column, unit)).collect()
    }
}

/// Returns whether lengths that are multiples of 2^`step` units would be typical if units are
/// bytes, because they are whole sectors or pages.
fn may_be_bytes(step: u32, unit: u64) -> bool {
    let step = step - unit.trailing_zeros();
    step == 9 || step >= 12
}

/// Returns whether there are many runs of this kind, but only few with the units as they are read.
fn shows(runs: u64, Runs { as_read, .. }: Runs) -> bool {
    runs >= RUNS_LEAST && runs > 4 * as_read
}

impl Sample {
    pub(super) fn places(&self, doubt: &Doubt) -> Option<Finding> {
        let units = doubt.lengths();
        let found = match units {
            Some((1, 1)) => self.in_sectors(doubt, true),
            Some((1, len)) => {
                self.in_sectors(doubt, false).or_else(|| self.lens_in_bytes(doubt, len))
            }
            Some((offset, 1)) => self.short(doubt).or_else(|| self.places_in_bytes(doubt, offset)),
            Some((offset, len)) => self.both_in_bytes(doubt, offset, len),
            // The format or the names of columns define the units.
            None => self.short(doubt).or_else(|| {
                let both = self.is_absurd().then(|| self.both_in_bytes(doubt, 512, 512));
                both.flatten()
            }),
        };
        found.or_else(|| self.beyond(doubt)).or_else(|| self.places_in_pages(doubt))
    }

    /// Checks whether offsets are in pages of 4 KiB but read in sectors, while lengths are read in
    /// bytes. Presets state that their unit is a sector.
    fn places_in_pages(&self, doubt: &Doubt) -> Option<Finding> {
        let is_open = doubt.lengths() == Some((512, 1)) && doubt.refused != Rejection::Doubtful;
        if !is_open || self.requests() < PAGED_LEAST {
            return None;
        }
        let continues = shows(self.runs.places_in_pages, self.runs);
        let is_spread = self.is_between_pages() && self.has_distinct(STEPPED_PLACES_LEAST);
        let evidence = if continues { Evidence::Strong } else { Evidence::Weak };
        (continues || is_spread).then(|| Finding {
            evidence,
            got: format!(
                "requests of {} on average that begin at any sector, although nearly all lengths are \
                 multiples of 4 KiB",
                self.mean()
            ),
            expected: "offsets that are also multiples of 4 KiB: the column may count blocks of 4 \
                KiB".into(),
            instead: Which::Places.instead(doubt, ":pages"),
        })
    }

    /// Checks whether a few requests are in bytes although they are read in sectors: every length,
    /// or every offset, is a multiple of 512 units. Programs that transfer large blocks also make
    /// such requests, so the evidence is weak unless the volume would be too large for a drive, or
    /// the requests would be too long.
    pub(super) fn few_places(&self, doubt: &Doubt) -> Option<Finding> {
        let (offset, len) = doubt.lengths().filter(|_| self.requests() >= FEW_PLACES_LEAST)?;
        let in_steps =
            |steps: &Steps, unit: u64| unit > 1 && steps.share(unit.trailing_zeros() + 9) == 1.0;
        let places =
            in_steps(&self.offset_steps, offset) && self.has_distinct(FEW_PLACES_LEAST as usize);
        let lens = in_steps(&self.len_steps, len) && self.mean_len() >= LARGE_BYTES;
        let which = match (places, lens) {
            (true, true) => Which::Both,
            (false, true) if offset == 1 => Which::Lens,
            // Programs that read the beginning of each block rarely use steps of 4096 units.
            (true, false)
                if len == 1 && self.offset_steps.share(offset.trailing_zeros() + 12) == 1.0 =>
            {
                Which::Places
            }
            // Such programs rarely transfer less than half of each block.
            (true, false)
                if self.has_distinct(STEPPED_PLACES_LEAST)
                    && self.mean_len() <= (offset << 9) as f64 / 2.0 =>
            {
                Which::Places
            }
            _ => return self.places_in_pages(doubt),
        };
        let is_absurd = self.end > DRIVE_BYTES_MAX || self.is_too_long();
        let evidence = if is_absurd { Evidence::PartialRows } else { Evidence::Weak };
        Some(self.in_bytes(doubt, which, evidence))
    }

    fn mean(&self) -> String {
        quantities::bytes(self.mean_len())
    }

    /// Checks whether a volume is impossibly large.
    fn beyond(&self, doubt: &Doubt) -> Option<Finding> {
        (self.end > EXTENT_MAX).then(|| Finding {
            evidence: Evidence::Strong,
            got: format!("a volume of at least {}", quantities::bytes(self.end as f64)),
            expected: "volumes below 1 PiB: offsets are likely in smaller units".into(),
            instead: match doubt.lengths() {
                Some((offset, len)) if offset > 1 && len > 1 => Which::Both.instead(doubt, ""),
                Some((offset, _)) if offset > 1 => Which::Places.instead(doubt, ""),
                _ => Vec::new(),
            },
        })
    }

    /// Checks whether lengths are below a sector.
    fn short(&self, doubt: &Doubt) -> Option<Finding> {
        (self.mean_len() < LEN_MEAN_LEAST).then(|| {
            let places_too = doubt.lengths().is_some_and(|(offset, _)| offset == 1)
                && self.offsets_odd > 0
                && !shows(self.runs.lens_in_sectors, self.runs);
            let which = if places_too { Which::Both } else { Which::Lens };
            Finding {
                evidence: Evidence::PartialRows,
                got: format!("requests of {} on average", self.mean()),
                expected: "at least a sector of 512 bytes: lengths are likely in sectors".into(),
                instead: which.instead(doubt, ":sectors"),
            }
        })
    }

    /// Checks whether offsets are in sectors but read in bytes, and also lengths if `may_be` is
    /// true.
    fn in_sectors(&self, doubt: &Doubt, may_be: bool) -> Option<Finding> {
        if may_be && let Some(short) = self.short(doubt) {
            return Some(short);
        }
        let whole_lens = self.len_steps.in_steps(1).is_some();
        if !whole_lens || self.offsets_odd * 2 < self.requests() {
            return None;
        }
        let evidence = match shows(self.runs.places_in_sectors, self.runs) {
            true => Evidence::Strong,
            false => Evidence::Weak,
        };
        Some(Finding {
            evidence,
            got: format!(
                "{} of {} requests with offsets that are not multiples of 512 bytes, although lengths are",
                self.offsets_odd,
                self.requests()
            ),
            expected: "whole sectors: offsets are likely in sectors".into(),
            instead: Which::Places.instead(doubt, ":sectors"),
        })
    }

    /// Checks whether lengths are in bytes but read in units of `unit` bytes, while offsets are
    /// read in bytes.
    fn lens_in_bytes(&self, doubt: &Doubt, unit: u64) -> Option<Finding> {
        let step = self.len_steps.in_steps(unit)?;
        let finer = self.offset_steps.in_steps(unit).is_none() || self.is_too_long();
        if !finer || self.mean_len() < LARGE_BYTES {
            return None;
        }
        let certain = shows(self.runs.places_in_sectors, self.runs) || self.is_absurd();
        let evidence = if certain { Evidence::Strong } else { Evidence::Weak };
        let may_be = certain || may_be_bytes(step, unit);
        may_be.then(|| self.in_bytes(doubt, Which::Lens, evidence))
    }

    /// Checks whether offsets are in bytes but read in units of `unit` bytes, while lengths are
    /// read in bytes.
    fn places_in_bytes(&self, doubt: &Doubt, unit: u64) -> Option<Finding> {
        let step = self.offset_steps.in_steps(unit)?;
        if shows(self.runs.lens_in_sectors, self.runs) {
            return Some(self.in_bytes(doubt, Which::Places, Evidence::Strong));
        }
        // Programs that read the beginning of each block cause the same pattern.
        if self.is_at_few_places() || self.end < SMALL_EXTENT_BYTES {
            return None;
        }
        let pages = step >= unit.trailing_zeros() + 12;
        let evidence = match pages && self.end > DRIVE_BYTES_MAX {
            true => Evidence::PartialRows,
            false => Evidence::Weak,
        };
        let is_short = self.mean_len() <= (1u64 << step.min(63)) as f64 / 2.0;
        is_short.then(|| self.in_bytes(doubt, Which::Places, evidence))
    }

    /// Checks whether offsets and lengths are in bytes but read in units of `offset` and `len`
    /// bytes.
    fn both_in_bytes(&self, doubt: &Doubt, offset: u64, len: u64) -> Option<Finding> {
        let Some(step) = self.len_steps.in_steps(len) else {
            return self.places_in_bytes(doubt, offset);
        };
        // Hardly any program transfers only whole multiples of 256 KiB.
        let is_stepped = self.offset_steps.in_steps(offset).is_some() && !self.is_at_few_places();
        if self.mean_len() < LARGE_BYTES {
            let finding = || self.in_bytes(doubt, Which::Both, Evidence::Weak);
            return is_stepped.then(finding);
        }
        // A volume of this size needs several drives.
        let is_far = is_stepped && self.end > LARGE_DRIVE_BYTES;
        let places_too = self.offset_steps.share(offset.trailing_zeros() + 9) >= PLACES_TOO;
        let which = if places_too { Which::Both } else { Which::Lens };
        if self.is_absurd() {
            return Some(self.in_bytes(doubt, which, Evidence::Strong));
        }
        let may_be = is_far || !self.is_at_few_places() && may_be_bytes(step, len);
        // If a few requests among many are longer than programs submit, the values are rarely
        // sectors.
        let evidence = if self.too_long > 0 { Evidence::PartialRows } else { Evidence::Weak };
        may_be.then(|| self.in_bytes(doubt, which, evidence))
    }

    /// Returns whether requests are longer, faster or farther apart than any that are known.
    fn is_absurd(&self) -> bool {
        let (rate, _) = self.rates().unwrap_or((0.0, 0.0));
        self.is_too_long() || self.end > EXTENT_MAX || rate > RATE_MAX || self.is_faster_than_any()
    }

    fn in_bytes(&self, doubt: &Doubt, which: Which, evidence: Evidence) -> Finding {
        let extent = quantities::bytes(self.end as f64);
        let steps = match which {
            Which::Places => "places",
            Which::Lens => "lengths",
            Which::Both => "places and lengths",
        };
        Finding {
            evidence,
            got: format!(
                "requests of {} on average on a volume of at least {extent}, nearly all {steps} in steps of 512 units",
                self.mean()
            ),
            expected: format!("smaller steps: {} likely in bytes", which.names()),
            instead: which.instead(doubt, ""),
        }
    }
}
