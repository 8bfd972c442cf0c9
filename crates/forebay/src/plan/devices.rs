//! `plan capacity --device`: how many real devices keep a promise, by simulation.
//!
//! The trace's volumes are laid out one after another and striped over all devices: stripe `s` is
//! on device `s mod n`. On a disk, they lie all over it ([`super::spread`]). A request goes whole to the device of its first byte. Arrivals are as
//! recorded, each device runs its own instance of the policy, and a response time runs from arrival
//! to completion.
//!
//! More devices are not always better, because every number of devices places the data anew. The
//! result is the least number found by doubling and bisection: it keeps the promise, and one device
//! less was simulated and does not.
//!
//! Two things require devices. The data must fit: enough devices to hold the extents of all
//! volumes. And the promise must be kept: for this number alone, data that do not fit are
//! compressed onto the available devices. The result is at least the larger of the two, and keeps
//! the promise with the data at their real places.
//!
//! If none of the allowed numbers keeps a promise, the requests are simulated once more, far apart,
//! each on an idle device out of the maximum number. Requests that are too slow then are too slow
//! on fewer devices as well, and on any number of devices without an arm. With an arm, the time of a
//! request depends on where other numbers of devices place the data, so numbers above the maximum
//! are not ruled out.

pub(super) mod striped;
mod told;
mod trial;

use forebay_core::catalog::build;
use forebay_core::rtt::Gaps;
use forebay_core::{Device, Nanos};
use serde::Serialize;

use self::trial::{Teller, Trial};
use super::arrival_times::{self, Clock, timed, told_apart};
use super::capacity::Promises;
use super::search::least_capacities;
use crate::clock::Times;
use crate::devices::{self, OpenDevice};
use crate::error::Error;
use crate::input::Input;
use crate::progress::Telling;
use forebay_ask::Share;

/// The size of a stripe.
pub const STRIPE_BYTES: u64 = 1 << 20;

/// The options of `plan capacity --device`.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The scheduler of each device.
    pub policy: &'a str,
    /// The promises.
    pub promises: &'a Promises,
    /// The largest number of devices to try.
    pub devices_max: usize,
    /// The price of one device, in any currency.
    pub price_each: Option<f64>,
    /// Whether to trust the trace's times even if its clock seems too coarse for the promises.
    pub trust_times: bool,
}

/// What determines the number of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Binds {
    /// The data need more devices than the promise.
    Bytes,
    /// The promise needs more devices than the data.
    Time,
    /// Both need the same number of devices.
    Both,
}

/// The price of a promise in devices without a volatile write cache.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WithoutCache {
    /// The least number of devices; none if the maximum allowed does not keep the promise.
    pub devices: Option<usize>,
    /// The share of requests within the bound on that number of devices, or on the maximum allowed.
    pub achieved_fraction: f64,
}

/// The price of a promise in devices.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DevicesRow {
    /// The bound.
    pub within_ms: f64,
    /// The promised share of requests.
    pub fraction: f64,
    /// The constant-rate capacity that keeps the promise with the remaining requests put aside;
    /// none if no supported rate is enough.
    pub capacity_iops: Option<u64>,
    /// The least number of devices that holds the data; none if the device has no size.
    pub devices_for_bytes: Option<u64>,
    /// The least number that keeps the promise regardless of whether the data fit; none if the
    /// maximum allowed does not keep it.
    pub devices_for_time: Option<usize>,
    /// The least number that does both; none if the maximum allowed does not.
    pub devices: Option<usize>,
    /// Which of the two requirements determines the number.
    pub binds: Option<Binds>,
    /// The share of requests within the bound on that number of devices, or on the maximum allowed.
    pub achieved_fraction: f64,
    /// The share that one device less answers in time, if the promise determines the number.
    pub one_less_fraction: Option<f64>,
    /// The share of requests within the bound when each is alone on idle devices, of the maximum
    /// number; only reported if no allowed number keeps the promise. If it is below the fraction,
    /// no allowed number can keep the promise, however few requests overlap.
    pub alone_fraction: Option<f64>,
    /// Whether the service time depends on the location of the data, which the number of devices
    /// changes.
    pub has_arm: bool,
    /// The price of that number of devices.
    pub price: Option<f64>,
    /// The result with the devices' write cache off; none for devices without a write cache, or if
    /// no number was found.
    pub without_write_cache: Option<WithoutCache>,
    /// The mean power that all devices draw together, busy or idle, from the first request until
    /// both the trace and the last request have ended; none for a device without power figures.
    pub mean_power_w: Option<f64>,
}

/// The prices of promises in devices, with the trace that they apply to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The trace.
    pub trace: String,
    /// The number of its requests.
    pub requests: u64,
    /// The device.
    pub device: String,
    /// The scheduler of each device.
    pub policy: String,
    /// The replay mode.
    pub replay: &'static str,
    /// The stripe size.
    pub stripe_bytes: u64,
    /// The largest number of devices allowed.
    pub devices_max: usize,
    /// Cautions about the trace and the device model.
    pub cautions: Vec<String>,
    /// The prices, ordered by bound, then by fraction.
    pub rows: Vec<DevicesRow>,
}

impl Answer {
    /// Describes each row in a sentence.
    pub fn told(&self) -> Vec<String> {
        self.rows.iter().map(|row| row.told(&self.device, self.devices_max)).collect()
    }

    /// Returns the cautions about the trace alone.
    pub fn of_trace(&self, device: &OpenDevice) -> &[String] {
        let of_model = devices::cautions(&[device]).len();
        &self.cautions[..self.cautions.len().saturating_sub(of_model)]
    }

    /// Returns the context of the figures and the cautions about the device model.
    pub fn notes(&self, device: &OpenDevice) -> Vec<String> {
        let model = format!(
            "Simulated on a model of {}, the scheduler {} on each, open replay.",
            self.device, self.policy
        );
        std::iter::once(model).chain(devices::cautions(&[device])).collect()
    }
}

/// Returns the prices of [`table`] with a description of the trace.
///
/// # Errors
/// Same as [`table`].
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

/// Prices `question` for `input` in `device`s; `progress` is called before each run.
///
/// # Errors
/// If the policy is invalid, or the trace has no times, has a clock that is too coarse, or cannot
/// be read again; [`Error::Stopped`] if `progress` requested a stop.
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

/// Returns the constant rates that keep each of `fractions` within `within`.
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

/// Returns cautions if `input` is too short or too coarse to say much; one sentence each.
///
/// # Errors
/// If the trace cannot be read again.
fn cautions(input: &Input) -> Result<Vec<String>, Error> {
    let described = &input.description;
    let duration = Nanos((described.duration_s * 1e9) as u64);
    let mut told = arrival_times::cautions(described.records, duration, Times::of(input)?);
    told.extend(input.told_of_gaps());
    Ok(told)
}

#[cfg(test)]
mod tests;
