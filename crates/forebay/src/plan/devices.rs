//! The verb `plan capacity --device`: finds by simulation how many real devices keep a promise.
//!
//! The trace's volumes are laid out one after another and striped over all devices: stripe `s` is
//! on device `s mod n`. On disks, the data are spread over the whole disk ([`super::spread`]). A
//! request goes as a whole to the device that has its first byte. Arrivals are as recorded, each
//! device runs its own instance of the policy, and response times are from arrival to completion.
//!
//! More devices are not always better, because data are placed differently on every number of
//! devices. The result is found by doubling and bisection: it keeps the promise, while one device
//! fewer was simulated and does not.
//!
//! Devices are needed for two reasons. First, the data must fit: the devices must hold the extents
//! of all volumes. Second, the promise must be kept; to find the number for this reason alone, data
//! that do not fit are compressed onto the available devices. The result is at least the larger of
//! the two numbers, and keeps the promise with the data at their real locations.
//!
//! If no number up to the maximum keeps a promise, the requests are simulated once more on the
//! maximum number, so far apart that each finds idle devices. Requests that are too slow even then
//! are too slow on fewer devices as well, and on any number of devices without an arm. With an arm,
//! the time of a request depends on where the data are, so numbers above the maximum are not ruled
//! out.

pub(super) mod striped;
mod told;
mod trial;

use forebay_core::catalog::build;
use forebay_core::rtt::Gaps;
use forebay_core::{Device, Nanos};
use serde::Serialize;

pub(super) use self::told::beside_headline;
use self::trial::{Teller, Trial};
use super::arrival_times::{self, Clock, timed, told_apart};
use super::capacity::Promises;
use super::search::least_capacities;
use crate::clock::Times;
use crate::devices::{self, OpenDevice};
use crate::{Error, Input, Telling};
use forebay_ask::Share;

/// The size of a stripe in bytes.
pub const STRIPE_BYTES: u64 = 1 << 20;

/// The options of `plan capacity --device`.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The scheduler of each device.
    pub policy: &'a str,
    /// The promises to find numbers of devices for.
    pub promises: &'a Promises,
    /// The maximum number of devices to try.
    pub devices_max: usize,
    /// The price of one device, in any currency.
    pub price_each: Option<f64>,
    /// Whether to trust the trace's times even if its clock seems too coarse for the promises.
    pub trust_times: bool,
}

/// The requirement that determines the number of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Binds {
    /// The data needs more devices than the promise does.
    Bytes,
    /// The promise needs more devices than the data does.
    Time,
    /// The data and the promise need the same number of devices.
    Both,
}

/// How many devices a promise needs if their volatile write cache is off.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WithoutCache {
    /// The smallest number of devices; `None` if no number up to the maximum keeps the promise.
    pub devices: Option<usize>,
    /// The share of requests answered in time by that number of devices, or by the maximum number.
    pub achieved_fraction: f64,
}

/// How many devices one promise needs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DevicesRow {
    /// The time within which requests are promised an answer.
    pub within_ms: f64,
    /// The promised share of requests.
    pub fraction: f64,
    /// The constant-rate capacity that keeps the promise if the remaining requests are deferred;
    /// `None` if no supported rate is enough.
    pub capacity_iops: Option<u64>,
    /// The smallest number of devices that holds the data; `None` if the device has no capacity
    /// limit.
    pub devices_for_bytes: Option<u64>,
    /// The smallest number of devices that keeps the promise, whether or not the data fit; `None`
    /// if no number up to the maximum does.
    pub devices_for_time: Option<usize>,
    /// The smallest number of devices that holds the data and keeps the promise; `None` if no
    /// number up to the maximum does.
    pub devices: Option<usize>,
    /// The requirement that determines the number of devices.
    pub binds: Option<Binds>,
    /// The share of requests answered in time by that number of devices, or by the maximum number.
    pub achieved_fraction: f64,
    /// The share of requests answered in time with one device fewer, if the promise determines the
    /// number.
    pub one_less_fraction: Option<f64>,
    /// The share of requests that the maximum number of devices would answer in time if requests
    /// never overlapped. Only reported if no number up to the maximum keeps the promise. If it is
    /// below the promised share, no such number can keep the promise, however few requests overlap.
    pub alone_fraction: Option<f64>,
    /// The share of requests that would be answered in time if each of the busiest stripes had a
    /// device to itself, and all other requests were in time. Only reported if idle devices keep
    /// the promise but no number of devices does. If it is below the promised share, no number of
    /// devices can keep the promise, because a stripe is on one device.
    pub apart_fraction: Option<f64>,
    /// Whether the devices have an arm, so that service times depend on the location of the data,
    /// which changes with the number of devices.
    pub has_arm: bool,
    /// The price of all devices together.
    pub price: Option<f64>,
    /// The number of devices with their write cache off; `None` for devices without a write cache,
    /// or if no number was found.
    pub without_write_cache: Option<WithoutCache>,
    /// The mean power of all devices together, busy or idle, from the first request until both the
    /// trace and the last request have ended; `None` for a device without power figures.
    pub mean_power_w: Option<f64>,
}

/// The answer of `plan capacity --device`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The name of the trace.
    pub trace: String,
    /// The number of requests in the trace.
    pub requests: u64,
    /// The name of the device.
    pub device: String,
    /// The scheduler of each device.
    pub policy: String,
    /// The replay mode that was simulated.
    pub replay: &'static str,
    /// The size of a stripe in bytes.
    pub stripe_bytes: u64,
    /// The maximum number of devices that was tried.
    pub devices_max: usize,
    /// Cautions about the trace and the device model.
    pub cautions: Vec<String>,
    /// The number of devices for each promise, ordered by time bound, then by share.
    pub rows: Vec<DevicesRow>,
}

impl Answer {
    /// Returns the cautions about the trace, without those about the device model.
    pub fn of_trace(&self, device: &OpenDevice) -> &[String] {
        let of_model = devices::cautions(&[device]).len();
        &self.cautions[..self.cautions.len().saturating_sub(of_model)]
    }

    /// Returns notes on what the figures are based on, and the cautions about the device model.
    pub fn notes(&self, device: &OpenDevice) -> Vec<String> {
        let model = format!(
            "Simulated on a model of {}, the scheduler {} on each, open replay.",
            self.device, self.policy
        );
        std::iter::once(model).chain(devices::cautions(&[device])).collect()
    }
}

/// Returns the rows of [`table`], with figures that describe the trace.
///
/// # Errors
/// Fails like [`table`].
pub fn answer(
    input: &Input,
    device: &OpenDevice,
    question: &Question<'_>,
    progress: Telling<'_>,
) -> Result<Answer, Error> {
    let of_trace = cautions(input)?;
    let rows = table(input, device, question, progress)?;
    Ok(Answer {
        trace: input.path.display().to_string(),
        requests: input.description.records,
        device: device.name.clone(),
        policy: question.policy.into(),
        replay: "open",
        stripe_bytes: STRIPE_BYTES,
        devices_max: question.devices_max,
        cautions: of_trace.into_iter().chain(devices::cautions(&[device])).collect(),
        rows,
    })
}

/// Finds how many `device`s each promise in `question` needs for `input`. Calls `progress` before
/// each run.
///
/// # Errors
/// Fails if the policy is invalid, or if the trace has no times, has a clock that is too coarse, or
/// cannot be read again. Returns [`Error::Stopped`] if `progress` requests a stop.
pub fn table(
    input: &Input,
    device: &OpenDevice,
    question: &Question<'_>,
    progress: Telling<'_>,
) -> Result<Vec<DevicesRow>, Error> {
    timed(&input.path, &input.notes)?;
    let clock = Clock::of(question.promises.within.iter().copied(), question.trust_times);
    told_apart(&input.path, Times::of(input)?, clock)?;
    let len_max = device.model.len_max();
    if !build(question.policy, len_max)?.servers().is_empty() {
        return Err(Error::Unfit(format!(
            "'{}': got a policy with several servers of its own, expected one for each device; use \
             sfq, wf2q or miser",
            question.policy
        )));
    }
    let within = &question.promises.within;
    let teller = Teller::new(progress);
    let tell = |doing| teller.before(doing);
    let of = |device| Trial::new(input, device, (question.policy, within), &tell);
    let mut trial = of(device);
    let write_through = device.without_write_cache().filter(|_| input.description.writes > 0);
    let mut without = write_through.as_ref().map(of);
    let (mut rows, all) = (Vec::new(), within.len() * question.promises.fractions.len());
    for (index, bound) in within.iter().enumerate() {
        let capacities = capacities(input, *bound, &question.promises.fractions)?;
        for (fraction, capacity) in question.promises.fractions.iter().zip(capacities) {
            teller.at(rows.len() as f64 / all as f64);
            let row = trial.row(index, *fraction, question)?;
            let uncached = without.as_mut().filter(|_| row.devices.is_some());
            let uncached = uncached.map(|it| it.without_cache(index, *fraction, question));
            let without_write_cache = uncached.transpose()?;
            rows.push(DevicesRow { capacity_iops: capacity, without_write_cache, ..row });
        }
    }
    Ok(rows)
}

/// Returns the constant rates at which each of `fractions` is answered within `within`.
fn capacities(
    input: &Input,
    within: Nanos,
    fractions: &[Share],
) -> Result<Vec<Option<u64>>, Error> {
    let records = input.records()?;
    let failed = records.failed();
    let gaps: Gaps = records.map(|record| record.at).collect();
    if let Some(error) = failed.take() {
        return Err(error.into());
    }
    let needs: Vec<u64> = fractions.iter().map(|f| f.of(gaps.len() as u64)).collect();
    Ok(least_capacities(&gaps, within, &needs))
}

/// Returns cautions if the trace is too short, or its clock too coarse, to say much about the load;
/// one sentence each.
///
/// # Errors
/// Fails if the trace cannot be read again.
fn cautions(input: &Input) -> Result<Vec<String>, Error> {
    let described = &input.description;
    let duration = Nanos((described.duration_s * 1e9) as u64);
    let mut told = arrival_times::cautions(described.records, duration, Times::of(input)?);
    told.extend(input.told_of_gaps());
    Ok(told)
}

#[cfg(test)]
mod tests;
