//! `plan capacity --device`: how many real devices keep a promise, by simulation.
//!
//! The trace's volumes are laid one after another over all devices, in stripes: stripe `s` lies on
//! device `s mod n`. A request goes whole to the device of its first byte. Arrivals are as recorded,
//! each device has the policy to itself, and a response time runs from arrival to completion.
//!
//! More devices need not always be better: every number of them places the data anew. The answer is
//! the least found by doubling and halving; it keeps the promise, and one device less was simulated
//! and does not.
//!
//! Two things take devices. The data have to lie somewhere: as many as hold what the volumes reach. And
//! the promise has to be kept: for that alone, data that do not fit are pressed onto the devices there
//! are. The answer is at least the larger, and keeps the promise with the data as they are.
//!
//! Where none of the allowed numbers keeps a promise, requests are simulated once more, far apart, each
//! on an idle device of as many as are allowed. What is too slow then is so on fewer too, and on any number
//! of devices without an arm. With an arm, more devices hold less each and seek less far: no number above
//! those allowed is ruled out.

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

/// Bytes of a stripe.
pub const STRIPE_BYTES: u64 = 1 << 20;

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The scheduler of each device.
    pub policy: &'a str,
    /// The promises.
    pub promises: &'a Promises,
    /// The most devices that are tried.
    pub devices_max: usize,
    /// What one costs, in whatever money.
    pub price_each: Option<f64>,
    /// The trace's times are taken as they are, though its clock seems too coarse for the promises.
    pub trust_times: bool,
}

/// What decides how many devices it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Binds {
    /// The data need more devices than the promise.
    Bytes,
    /// The promise needs more devices than the data.
    Time,
    /// Both need as many.
    Both,
}

/// The price of a promise in devices that keep no write where a power cut loses it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WithoutCache {
    /// The least number; none if as many as were allowed do not keep the promise.
    pub devices: Option<usize>,
    /// The share that so many, or as many as were allowed, answer within the bound.
    pub achieved_fraction: f64,
}

/// The price of a promise in devices.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The bound.
    pub within_ms: f64,
    /// The promised share of requests.
    pub fraction: f64,
    /// What a server of constant rate needs that puts aside the rest; none above all rates.
    pub capacity_iops: Option<u64>,
    /// The least number that holds the data; none where the device has no size.
    pub devices_for_bytes: Option<u64>,
    /// The least number that keeps the promise, wherever the data lie; none if as many as were allowed
    /// do not keep it.
    pub devices_for_time: Option<usize>,
    /// The least number that does both; none if as many as were allowed do not.
    pub devices: Option<usize>,
    /// Which of the two decides.
    pub binds: Option<Binds>,
    /// The share that so many, or as many as were allowed, answer within the bound.
    pub achieved_fraction: f64,
    /// The share that one device less answers, where the promise decides.
    pub one_less_fraction: Option<f64>,
    /// The share that is answered within the bound by as many idle devices as were allowed, a request at a
    /// time; told where no allowed number keeps the promise. Below the fraction, no such number does, however
    /// few requests meet.
    pub alone_fraction: Option<f64>,
    /// Whether the time of a request hangs on where it lies, so that more devices seek less far.
    pub has_arm: bool,
    /// The price of so many.
    pub price: Option<f64>,
    /// What it takes with the devices' write cache off; none of devices without one, and where no number is given.
    pub without_write_cache: Option<WithoutCache>,
    /// What they draw together, busy or idle, each on average from the first request until the trace has ended and
    /// it is done; none for a device without figures of power.
    pub mean_power_w: Option<f64>,
}

/// The price of promises in devices, and of what.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The trace.
    pub trace: String,
    /// Its requests.
    pub requests: u64,
    /// The device.
    pub device: String,
    /// The scheduler of each.
    pub policy: String,
    /// How requests come.
    pub replay: &'static str,
    /// Bytes that lie on one device before the next has its turn.
    pub stripe_bytes: u64,
    /// The most devices that were allowed.
    pub devices_max: usize,
    /// What to keep in mind of the trace and of the device's model.
    pub cautions: Vec<String>,
    /// The prices, bounds one after another, fractions within them.
    pub rows: Vec<Row>,
}

impl Answer {
    /// A sentence for each row.
    pub fn told(&self) -> Vec<String> {
        self.rows.iter().map(|row| row.told(&self.device, self.devices_max)).collect()
    }

    /// What to keep in mind of the trace alone.
    pub fn of_trace(&self, device: &OpenDevice) -> &[String] {
        let of_model = devices::cautions(&[device]).len();
        &self.cautions[..self.cautions.len().saturating_sub(of_model)]
    }

    /// What the figures are of, and what to keep in mind of the model.
    pub fn notes(&self, device: &OpenDevice) -> Vec<String> {
        let model = format!(
            "Simulated on a model of {}, the scheduler {} on each, open replay.",
            self.device, self.policy
        );
        std::iter::once(model).chain(devices::cautions(&[device])).collect()
    }
}

/// The answer of [`table`] with what it is about.
///
/// # Errors
/// As [`table`].
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

/// What `question` costs in `device`s that serve `input`; `progress` is told before each run.
///
/// # Errors
/// A wrong policy, or a trace that has no times, whose clock is too coarse or that cannot be read again;
/// [`Error::Stopped`] where `progress` asked for that.
pub fn table(
    input: &Input,
    device: &OpenDevice,
    question: &Question<'_>,
    progress: Telling<'_>,
) -> Result<Vec<Row>, Error> {
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
            rows.push(Row { capacity_iops: capacity, without_write_cache, ..row });
        }
    }
    Ok(rows)
}

/// The rates that keep each of `fractions` within `within`.
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

/// What to keep in mind of `input` where it has little to tell; one sentence each.
///
/// # Errors
/// A trace that cannot be read again.
fn cautions(input: &Input) -> Result<Vec<String>, Error> {
    let described = &input.description;
    let duration = Nanos((described.duration_s * 1e9) as u64);
    let mut told = arrival_times::cautions(described.records, duration, Times::of(input)?);
    told.extend(input.told_of_gaps());
    Ok(told)
}

#[cfg(test)]
mod tests;
