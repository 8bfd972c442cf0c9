//! The cost of a request on a server of speed 1: a fixed part plus a part per KiB, computed
//! exactly.

use std::fmt;
use std::str::FromStr;

use forebay_core::{Device, Flags, Nanos, Op};
use forebay_trace::Record;

use crate::devices::{self, OpenDevice};
use crate::simulate::{self, Setup};
use crate::{Error, Input};
use forebay_ask::decimal;

/// The number of units per nanosecond in which costs are whole numbers: picoseconds per nanosecond
/// times bytes per KiB.
pub(super) const PARTS_OF_NS: u128 = 1000 * 1024;

/// The cost of a request on a server of speed 1, as a function of its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// The fixed cost per request in picoseconds.
    pub(super) base_ps: u64,
    /// The cost per KiB in picoseconds.
    pub(super) kib_ps: u64,
}

impl Cost {
    /// Returns the cost of a request of `len` bytes, in units of `1 / PARTS_OF_NS` ns.
    pub(super) fn parts(self, len: u32) -> u128 {
        u128::from(self.base_ps) * 1024 + u128::from(self.kib_ps) * u128::from(len)
    }

    /// Derives the cost from random reads on an otherwise idle `device`, one at a time. Reads of 4
    /// KiB and of 256 KiB (or the longest that the device accepts at once) determine the two parts.
    /// The operating system may split longer requests.
    ///
    /// # Errors
    /// Fails if the device cannot be simulated.
    pub fn of_device(device: &OpenDevice) -> Result<Cost, Error> {
        const SHORT: u32 = 4096;
        let long = device.model.len_max().clamp(2 * SHORT, 256 << 10);
        let (short_ps, long_ps) = (read_ps(device, SHORT, long)?, read_ps(device, long, long)?);
        let kib_ps = (long_ps - short_ps).max(0.0) / f64::from((long - SHORT) / 1024);
        let base_ps = (short_ps - kib_ps * f64::from(SHORT / 1024)).max(0.0);
        Ok(Cost { base_ps: base_ps.round() as u64, kib_ps: kib_ps.round() as u64 })
    }

    /// Parses `text` as a cost, or else as the name of a device from which to derive it.
    ///
    /// # Errors
    /// Fails if `text` is neither.
    pub fn named(text: &str) -> Result<Cost, Error> {
        // Text that begins like a number is meant to be a cost, not the name of a device.
        let begins = |first: char| first.is_ascii_digit() || "+-.".contains(first);
        let is_number = text.starts_with(begins) || text.parse::<f64>().is_ok();
        match text.parse::<Cost>() {
            Ok(cost) => Ok(cost),
            Err(wrong) if text.is_empty() || is_number && devices::open(text).is_err() => {
                Err(Error::Unfit(wrong))
            }
            Err(_) => Cost::of_device(&devices::open(text)?),
        }
    }

    /// Formats the cost with four significant digits per part.
    pub fn shown(self) -> String {
        let us = |ps: u64| {
            let us = ps as f64 / 1e6;
            let whole = us.log10().floor().clamp(-6.0, 12.0) as i32 + 1;
            let places = (4 - whole).clamp(0, 6) as usize;
            let digits = format!("{us:.places$}");
            match digits.contains('.') {
                true => digits.trim_end_matches('0').trim_end_matches('.').to_string(),
                false => digits,
            }
        };
        match (self.base_ps, self.kib_ps) {
            (base, 0) => us(base),
            (0, each) => format!("{}/KiB", us(each)),
            (base, each) => format!("{}+{}/KiB", us(base), us(each)),
        }
    }

    /// Returns the cost of a request of `len` bytes in microseconds.
    pub fn us(self, len: f64) -> f64 {
        (self.base_ps as f64 + self.kib_ps as f64 * len / 1024.0) / 1e6
    }
}

/// Measures the mean time of reads of `len` bytes at offsets that are multiples of `apart`, in
/// picoseconds.
fn read_ps(device: &OpenDevice, len: u32, apart: u32) -> Result<f64, Error> {
    const READS: u64 = 500;
    let places = device.model.capacity() / u64::from(apart);
    let read = |index: u64| Record {
        at: Nanos::from_millis(index * 1000 + index * 7919 % 1000),
        offset: index.wrapping_mul(0x9E37_79B9_7F4A_7C15) % places.max(1) * u64::from(apart),
        latency: None,
        len,
        stream: 0,
        volume: 0,
        op: Op::Read,
        flags: Flags::NONE,
    };
    let input = Input::from_records((0..READS).map(read).collect(), vec![String::new()]);
    let figures = simulate::run(&input, device, "noop", Setup::default())?.result.figures;
    Ok(figures.read_mean_ms.unwrap_or(0.0) * 1e9)
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |ps: u64| {
            let digits = format!("{}.{:06}", ps / 1_000_000, ps % 1_000_000);
            digits.trim_end_matches('0').trim_end_matches('.').to_string()
        };
        write!(f, "{}+{}/KiB", us(self.base_ps), us(self.kib_ps))
    }
}

impl FromStr for Cost {
    type Err = String;

    fn from_str(text: &str) -> Result<Cost, String> {
        let wrong = || {
            format!(
                "got '{text}', expected microseconds per request, per KiB, or both, as in 100, \
                 0.5/KiB or 100+0.5/KiB, with at most six digits after the point"
            )
        };
        let (base, each) = match text.split_once('+') {
            Some((base, each)) => (base, each),
            None if text.ends_with("/KiB") => ("0", text),
            None => (text, "0/KiB"),
        };
        let each = each.strip_suffix("/KiB").ok_or_else(wrong)?;
        let ps = |text: &str| {
            let (digits, places) = decimal(text).filter(|(_, places)| *places <= 6)?;
            digits.checked_mul(10u64.pow(6 - places)).filter(|ps| *ps <= u64::MAX / 4096)
        };
        let cost =
            Cost { base_ps: ps(base).ok_or_else(wrong)?, kib_ps: ps(each).ok_or_else(wrong)? };
        if cost.base_ps == 0 && cost.kib_ps == 0 { Err(wrong()) } else { Ok(cost) }
    }
}
