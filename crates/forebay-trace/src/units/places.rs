//! Are places and lengths in the unit they are read in?
//!
//! Drives address whole sectors, so bytes are multiples of 512 and mostly of 4096; sectors are any
//! number. Four mistakes are looked for: places, lengths or both in bytes that are read in sectors, and
//! sectors that are read in bytes. What tells them:
//!
//! - What is read in sectors though it counts bytes is a multiple of 512 sectors. Requests of 256 KiB in
//!   steps of 256 KiB are so too: how many lengths there are, how long requests are, how far places reach and
//!   the time they took decide.
//! - What is read in bytes though it counts sectors is mostly no multiple of 512.
//! - Where one is right and the other is not, a request that goes on where the one before ended does so by a
//!   512th, or 512 times, of the length ([`super::sample::Runs`]).

use super::sample::{Runs, Sample};
use super::{Doubt, EXTENT_MAX, Evidence, Finding, LARGE_BYTES, LEN_MEAN_LEAST, RATE_MAX};
use crate::quantities;

/// Runs that show a unit.
const RUNS_LEAST: u64 = 16;
/// Bytes a volume of one drive may have; beyond, it is one of many.
const DRIVE_BYTES_MAX: u64 = 1 << 46;
/// Mean length beyond what systems ask for at a time.
const HUGE_BYTES: f64 = 8_388_608.0;
/// Lengths that few programs that ask for large steps only use.
const LENS_MANY: usize = 3;

/// Which columns count bytes, or sectors.
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

/// Whether all of these bits are of multiples of 512 units.
fn in_steps(bits: u64, unit: u64) -> bool {
    bits.trailing_zeros() >= unit.trailing_zeros() + 9
}

/// Whether there are many of one kind of run, and few of those as they are read.
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
            // Where the format states them, or the names of columns do.
            None => self.short(doubt).or_else(|| {
                let both = self.is_unlikely().then(|| self.both_in_bytes(doubt, 512, 512));
                both.flatten()
            }),
        };
        found.or_else(|| self.beyond(doubt))
    }

    fn mean(&self) -> String {
        quantities::bytes(self.mean_len())
    }

    /// Volumes larger than any.
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

    /// Lengths below a sector.
    fn short(&self, doubt: &Doubt) -> Option<Finding> {
        (self.mean_len() < LEN_MEAN_LEAST).then(|| {
            let places_too = doubt.lengths().is_some_and(|(offset, _)| offset == 1)
                && self.offsets_odd > 0
                && !shows(self.runs.lens_in_sectors, self.runs);
            let which = if places_too { Which::Both } else { Which::Lens };
            Finding {
                evidence: Evidence::Odd,
                got: format!("requests of {} on average", self.mean()),
                expected: "at least a sector of 512 bytes: lengths are likely in sectors".into(),
                instead: which.instead(doubt, ":sectors"),
            }
        })
    }

    /// Sectors read in bytes, lengths too if they `may_be`.
    fn in_sectors(&self, doubt: &Doubt, may_be: bool) -> Option<Finding> {
        if may_be && let Some(short) = self.short(doubt) {
            return Some(short);
        }
        let whole_lens = in_steps(self.len_bits, 1);
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
                "{} of {} requests at places that are no multiple of 512 bytes, of whole sectors all",
                self.offsets_odd,
                self.requests()
            ),
            expected: "whole sectors: offsets are likely in sectors".into(),
            instead: Which::Places.instead(doubt, ":sectors"),
        })
    }

    /// Lengths in bytes that are read in units of `unit` bytes, beside places in bytes.
    fn lens_in_bytes(&self, doubt: &Doubt, unit: u64) -> Option<Finding> {
        let finer = !in_steps(self.offset_bits, unit) || self.mean_len() > HUGE_BYTES;
        if !in_steps(self.len_bits, unit) || !finer || self.mean_len() < LARGE_BYTES {
            return None;
        }
        let certain = shows(self.runs.places_in_sectors, self.runs)
            || self.lens.len() >= LENS_MANY
            || self.is_unlikely();
        (certain || self.may_be_bytes(unit)).then(|| self.in_bytes(doubt, Which::Lens, certain))
    }

    /// Places in bytes that are read in units of `unit` bytes, beside lengths in bytes.
    fn places_in_bytes(&self, doubt: &Doubt, unit: u64) -> Option<Finding> {
        let step = unit.saturating_mul(512) as f64;
        let shown = shows(self.runs.lens_in_sectors, self.runs);
        if !in_steps(self.offset_bits, unit) || !(shown || self.mean_len() <= step / 2.0) {
            return None;
        }
        Some(self.in_bytes(doubt, Which::Places, true))
    }

    /// Places and lengths in bytes that are read in units of so many bytes.
    fn both_in_bytes(&self, doubt: &Doubt, offset: u64, len: u64) -> Option<Finding> {
        if !in_steps(self.len_bits, len) {
            return self.places_in_bytes(doubt, offset);
        }
        if self.mean_len() < LARGE_BYTES {
            return None;
        }
        let which = if in_steps(self.offset_bits, offset) { Which::Both } else { Which::Lens };
        let certain = self.is_unlikely() || self.lens.len() >= LENS_MANY;
        (certain || self.may_be_bytes(len)).then(|| self.in_bytes(doubt, which, certain))
    }

    /// Whether one or two lengths, if they count bytes, are what systems ask for: sectors, or pages.
    fn may_be_bytes(&self, unit: u64) -> bool {
        let step = 1u64.checked_shl(self.len_bits.trailing_zeros() - unit.trailing_zeros());
        step.is_some_and(|step| step == 512 || step >= 4096)
    }

    /// Whether requests are longer, faster or farther apart than those of nearly all systems.
    fn is_unlikely(&self) -> bool {
        let (rate, _) = self.rates().unwrap_or((0.0, 0.0));
        self.mean_len() > HUGE_BYTES
            || self.end > DRIVE_BYTES_MAX
            || rate > RATE_MAX
            || self.is_faster_than_any()
    }

    fn in_bytes(&self, doubt: &Doubt, which: Which, is_certain: bool) -> Finding {
        let extent = quantities::bytes(self.end as f64);
        let steps = match which {
            Which::Places => "places",
            Which::Lens => "lengths",
            Which::Both => "places and lengths",
        };
        // One or two lengths of whole MiB are what a test of a drive asks for.
        let is_odd = self.len_bits.trailing_zeros() == 18;
        let evidence = match is_certain {
            true => Evidence::Strong,
            false if is_odd => Evidence::Odd,
            false => Evidence::Weak,
        };
        Finding {
            evidence,
            got: format!(
                "requests of {} on average on a volume of at least {extent}, all {steps} in steps of 512 units",
                self.mean()
            ),
            expected: format!("smaller steps: {} likely in bytes", which.names()),
            instead: which.instead(doubt, ""),
        }
    }
}
