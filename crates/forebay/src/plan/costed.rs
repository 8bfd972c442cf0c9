//! `plan capacity --cost-us`: how fast a server has to be where a request's cost depends on its length.
//!
//! A server of speed 1 takes `base + per KiB` for a request; one of speed 2 half of that. The price of a promise is the
//! least speed, in whole thousandths, at which some order answers that share of the requests in time. The rest is put
//! aside, as in [`super::capacity`]; with a cost that does not depend on the length both say the same.
//!
//! **Most in time.** With unequal costs admitting whatever still fits, as RTT does, is no longer best: a long request
//! may keep out several short ones. Deadlines are in the order of arrivals here, and for that case there is an exact
//! rule (H. Kise, T. Ibaraki, H. Mine, *A solvable case of the one-machine scheduling problem with ready and due
//! times*, Operations Research 26(1), 1978): take requests as they come; when one would be late, put aside the one
//! whose absence lets the last one end soonest, be it an earlier one. It knows what comes when it puts aside, so it is a
//! bound for every scheduler on line. Where this departs from the source: only the running busy period is kept, since
//! nothing before it can end sooner.
//!
//! **Monotone.** What some order does in time a faster server does too, so the most never falls with the speed.
//!
//! Invariant: exact, in whole numbers. Memory: 16 bytes a request.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use forebay_core::{Device, Flags, Nanos, Op};
use forebay_trace::{Reader, Record};
use serde::Serialize;

use super::amount::{Fraction, decimal};
use super::arrival_times::{timed, told_apart};
use super::capacity::{Promises, on_all_cores};
use crate::clock::Times;
use crate::devices::OpenDevice;
use crate::error::Error;
use crate::input::{Input, read_through};
use crate::progress::GoOn;
use crate::simulate::{self, Setup};

/// The highest speed that is tried, in thousandths.
const SPEED_MAX: u64 = 1_000_000_000;

/// What is divided to make whole numbers of it: picoseconds, and bytes of a KiB.
const PARTS_OF_NS: u128 = 1000 * 1024;

/// What a request costs a server of speed 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Whatever its length, in ps.
    base_ps: u64,
    /// For each KiB, in ps.
    kib_ps: u64,
}

impl Cost {
    /// The same in parts of a nanosecond.
    fn parts(self, len: u32) -> u128 {
        u128::from(self.base_ps) * 1024 + u128::from(self.kib_ps) * u128::from(len)
    }

    /// What reads scattered over an idle `device` take, one at a time: those of 4 and of 256 KiB, or the longest it
    /// takes at once, tell what each KiB adds. Longer ones may be divided on their way.
    ///
    /// # Errors
    /// A device that cannot be simulated.
    pub fn of_device(device: &OpenDevice) -> Result<Cost, Error> {
        const SHORT: u32 = 4096;
        let long = device.model.len_max().clamp(2 * SHORT, 256 << 10);
        let (short_ps, long_ps) = (read_ps(device, SHORT, long)?, read_ps(device, long, long)?);
        let kib_ps = (long_ps - short_ps).max(0.0) / f64::from((long - SHORT) / 1024);
        let base_ps = (short_ps - kib_ps * f64::from(SHORT / 1024)).max(0.0);
        Ok(Cost { base_ps: base_ps.round() as u64, kib_ps: kib_ps.round() as u64 })
    }

    /// In microseconds.
    pub fn us(self, len: f64) -> f64 {
        (self.base_ps as f64 + self.kib_ps as f64 * len / 1024.0) / 1e6
    }
}

/// What a read of `len` bytes takes in the mean, at places that are multiples of `apart`.
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
                "got '{text}', expected microseconds a request, for each KiB, or both, as in 100, 0.5/KiB or \
                 100+0.5/KiB, with at most six digits behind the point"
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

/// When requests arrive, and how long they are.
pub struct Lengths {
    requests: Vec<(Nanos, u32)>,
}

impl Lengths {
    /// Reads all that `reader` gives; messages call it `name`.
    ///
    /// # Errors
    /// A trace that cannot be read, or that has no request or no times, or whose clock is too coarse.
    pub fn read<P: GoOn>(
        name: &Path,
        reader: &mut dyn Reader,
        progress: impl FnMut(u64) -> P,
    ) -> Result<Lengths, Error> {
        let mut requests = Vec::new();
        read_through(name, reader, progress, |batch, _| {
            requests.extend(batch.iter().map(|record| (record.at, record.len)));
        })?;
        timed(name, reader.notes())?;
        told_apart(name, Times::among(requests.iter().map(|(at, _)| *at)))?;
        Ok(Lengths { requests })
    }

    /// The mean length in bytes.
    pub fn mean_bytes(&self) -> f64 {
        let sum: u128 = self.requests.iter().map(|(_, len)| u128::from(*len)).sum();
        sum as f64 / self.requests.len().max(1) as f64
    }

    /// Requests.
    pub fn count(&self) -> u64 {
        self.requests.len() as u64
    }
}

/// The price of one promise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The bound.
    pub within_ms: f64,
    /// The share of requests.
    pub fraction: f64,
    /// How many times as fast as the cost says the server has to be.
    pub speed: f64,
    /// Requests of the mean length that it does in a second.
    pub mean_length_iops: f64,
}

/// The price of `promises` of `lengths` at `cost`, bounds one after another, fractions within them.
///
/// # Errors
/// A promise that no speed up to a million keeps.
pub fn table(lengths: &Lengths, cost: Cost, promises: &Promises) -> Result<Vec<Row>, Error> {
    let mean_us = cost.us(lengths.mean_bytes());
    let of = |within: &Nanos| least_speeds(lengths, cost, *within, &promises.fractions);
    let found = on_all_cores(&promises.within, of);
    let each = promises.within.iter().zip(found).flat_map(|(within, speeds)| {
        let each = promises.fractions.iter().zip(speeds);
        each.map(|(fraction, speed)| (*within, *fraction, speed)).collect::<Vec<_>>()
    });
    each.map(|(within, fraction, speed)| match speed {
        Some(speed) => Ok(Row {
            within_ms: within.as_millis_f64(),
            fraction: fraction.as_f64(),
            speed: speed as f64 / 1e3,
            mean_length_iops: speed as f64 * 1e3 / mean_us.max(1e-9),
        }),
        None => Err(Error::Unfit(format!(
            "no server up to a million times as fast as the cost answers {fraction} of the requests within {} ms",
            within.as_millis_f64()
        ))),
    })
    .collect()
}

/// For each fraction the least speed, in thousandths; none above [`SPEED_MAX`].
fn least_speeds(
    lengths: &Lengths,
    cost: Cost,
    within: Nanos,
    fractions: &[Fraction],
) -> Vec<Option<u64>> {
    let mut known = BTreeMap::new();
    let mut count = |speed: u64| {
        *known.entry(speed).or_insert_with(|| in_time(&lengths.requests, cost, within, speed))
    };
    let mut least = |fraction: &Fraction| {
        let need = fraction.of(lengths.count());
        // Doubled first: passes at low speeds, where much is put aside, cost most.
        let mut enough = 1;
        while count(enough) < need {
            if enough == SPEED_MAX {
                return None;
            }
            enough = (enough * 2).min(SPEED_MAX);
        }
        let mut low = enough / 2;
        while low + 1 < enough {
            let middle = low + (enough - low) / 2;
            if count(middle) >= need { enough = middle } else { low = middle }
        }
        Some(enough)
    };
    fractions.iter().map(&mut least).collect()
}

/// A request that is to be answered in time.
#[derive(Clone, Copy, Debug)]
struct Taken {
    at: u128,
    service: u128,
    begins: u128,
}

impl Taken {
    fn waits(&self) -> u128 {
        self.begins - self.at
    }
}

/// The most of `requests` that a server of so many thousandths of speed answers within the bound.
fn in_time(requests: &[(Nanos, u32)], cost: Cost, within: Nanos, speed: u64) -> u64 {
    let scale = PARTS_OF_NS * u128::from(speed);
    let within = u128::from(within.0) * scale;
    // Of the running busy period, in the order in which they are served.
    let mut taken: Vec<Taken> = Vec::new();
    let (mut free, mut count) = (0, 0);
    for (at, len) in requests {
        let (at, service) = (u128::from(at.0) * scale, cost.parts(*len) * 1000);
        if at >= free {
            taken.clear();
            free = at;
        }
        let new = Taken { at, service, begins: free };
        let ends = free + service;
        if ends <= at + within {
            taken.push(new);
            (free, count) = (ends, count + 1);
        } else if let Some(aside) = worth_more_aside(&taken, new) {
            taken.push(new);
            free = put_aside(&mut taken, aside);
        }
    }
    count
}

/// Which of `taken` to put aside for `new` to end sooner than all do without `new`; none if it is `new` itself.
fn worth_more_aside(taken: &[Taken], new: Taken) -> Option<usize> {
    let (mut most, mut best) = (new.service, None);
    // No later one may begin before it arrives.
    let mut limit = new.waits();
    for (index, one) in taken.iter().enumerate().rev() {
        if limit <= most {
            break;
        }
        let sooner = one.service.min(limit);
        if sooner > most {
            (most, best) = (sooner, Some(index));
        }
        limit = limit.min(one.waits());
    }
    best
}

/// Takes one out and lets those after it begin sooner; when all are done.
fn put_aside(taken: &mut Vec<Taken>, aside: usize) -> u128 {
    let mut sooner = taken[aside].service;
    let mut begins = 0;
    for (index, one) in taken.iter_mut().enumerate().skip(aside + 1) {
        sooner = sooner.min(one.waits());
        one.begins -= sooner;
        if one.waits() == 0 {
            begins = index;
        }
    }
    let free = taken.last().map_or(0, |last| last.begins + last.service);
    // What comes before one that does not wait can no longer let anything end sooner.
    if begins > aside {
        taken.drain(..begins);
    } else {
        taken.remove(aside);
    }
    free
}

#[cfg(test)]
mod tests;
