//! The verb `plan power`: computes the energy that keeping a promise takes if pools of disks can be
//! switched off.
//!
//! Source: the paper's sections 3.2.2 and 4.3. The disks form equal pools, each of which holds all
//! of the data. In every epoch, some of the pools are on. A request goes to the first pool that can
//! answer it in time, so the last pools become idle first. A request that no pool can answer in
//! time is served when a pool would otherwise be idle.
//!
//! Four plans are compared. `all-on`, the paper's baseline, keeps as many pools spinning as the
//! whole trace needs to answer the baseline's share (by default all requests) in time. `static`,
//! the paper's decomposition, keeps as many as the whole trace needs for the promised share.
//! `predicted` runs as many pools in each epoch as past epochs needed, and `oracle` as many as that
//! epoch will need. The number of pools that an epoch needs is computed in one pass by recursive
//! RTT, with one tier per pool.
//!
//! Energy: a disk draws active power while it serves requests, idle power while it spins without
//! serving, standby power while it is off, and a fixed energy for each spin-up. `predicted` decides
//! about an epoch only when the epoch begins, so new pools do not serve during their spin-up;
//! `oracle` has them spinning in time. The disks of a pool work together as one server, so all of
//! them are busy when the pool is.

mod disk;
mod page;
mod pools;
mod run;
mod verb;

pub use disk::Disk;
pub use pools::{EPOCHS_MAX, POOLS_MAX};
pub use verb::PowerAsk;

use forebay_core::Nanos;
use forebay_core::rtt::RATE_MAX_IOPS;
use forebay_words::plural::counted;
use serde::Serialize;

use self::pools::Profile;
use self::run::{Plant, Schedule, Tally, run};
use super::arrival_times::{ArrivalTimes, size_caution};
use crate::Error;
use forebay_ask::Share;

/// The options of `plan power`.
#[derive(Clone, Debug)]
pub struct Question {
    /// The time within which requests are promised an answer.
    pub within: Nanos,
    /// The share of each epoch's requests that is promised an answer in time.
    pub fraction: Share,
    /// The share of requests for which the baseline has enough pools.
    pub baseline: Share,
    /// The time between decisions about which pools are on.
    pub epoch: Nanos,
    /// The number of past epochs that a prediction uses.
    pub history: usize,
    /// The number of disks per pool.
    pub pool_disks: u64,
    /// The rate and the power of each disk.
    pub disk: Disk,
}

/// The share of requests that is answered within a given time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Answered {
    /// The time, in milliseconds from a request's arrival.
    pub within_ms: f64,
    /// The share of all requests that is answered within `within_ms`.
    pub fraction: f64,
}

/// A plan for switching pools, and what it costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PowerRow {
    /// The plan's name: `all-on`, `static`, `predicted` or `oracle`.
    pub plan: &'static str,
    /// The mean number of pools that are switched on.
    pub mean_pools: f64,
    /// The highest number of pools that are switched on at the same time.
    pub max_pools: usize,
    /// The energy that all disks use, in joules.
    pub energy_j: f64,
    /// The mean power of all disks together, in watts.
    pub mean_power_w: f64,
    /// The energy of `all-on` divided by this plan's energy.
    pub saving_ratio: f64,
    /// The share of `all-on`'s energy that this plan saves; negative if it uses more.
    pub saving_share: f64,
    /// The number of times that disks are spun up.
    pub disk_spin_ups: u64,
    /// The number of requests that are not answered in time.
    pub late_requests: u64,
    /// The number of epochs in which the promise is broken.
    pub broken_epochs: u64,
    /// The shares of requests answered within half, three quarters and all of the promised time.
    pub answered: Vec<Answered>,
    /// The mean response time of all requests, including late ones.
    pub mean_ms: f64,
    /// The longest response time of any request.
    pub max_ms: f64,
}

/// The answer of `plan power`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Power {
    /// The name of the disk.
    pub device: String,
    /// How many requests per second one disk serves.
    pub disk_iops: u64,
    /// The number of disks per pool.
    pub pool_disks: u64,
    /// The number of epochs that the trace covers.
    pub epochs: usize,
    /// The number of epochs that contain requests.
    pub epochs_with_requests: usize,
    /// Cautions about these figures, one sentence each.
    pub cautions: Vec<String>,
    /// The name of the recommended plan; `None` if no plan can be recommended.
    pub recommended: Option<&'static str>,
    /// The plans with their figures.
    pub rows: Vec<PowerRow>,
}

/// Computes the energy of each plan for `question` on `arrivals`.
///
/// # Errors
/// Fails if the trace has no duration, if disks draw more power when off than when idle, if epochs
/// are shorter than a spin-up, if pools are too slow for the promised time, or if the number of
/// pools or epochs exceeds its limit.
pub fn power(arrivals: &ArrivalTimes, question: &Question) -> Result<Power, Error> {
    let wrong = |said: String| Error::Unfit(format!("{}: {said}", arrivals.path.display()));
    lasts(arrivals).map_err(wrong)?;
    let plant = Plant::new(question).map_err(wrong)?;
    let profile = Profile::new(&arrivals.whole, &plant, question).map_err(wrong)?;
    let all = profile.needed(question.baseline);
    let fixed = profile.needed(question.fraction);
    let needs = profile.needed_by_epoch(question.fraction);
    let steady = |pools: usize| Schedule { pools: vec![pools; needs.len()], foreseen: true };
    let schedules = [
        ("all-on", steady(all)),
        ("static", steady(fixed)),
        (
            "predicted",
            Schedule { pools: predicted(&needs, question.history, all), foreseen: false },
        ),
        ("oracle", Schedule { pools: needs.clone(), foreseen: true }),
    ];
    let mut rows: Vec<PowerRow> = Vec::new();
    for (plan, schedule) in schedules {
        // Every plan has as many pools installed as the baseline, whether or not it switches them
        // off.
        let tally = run(&arrivals.whole, &plant, &schedule, all.max(fixed), question.fraction);
        let baseline_j = rows.first().map_or(tally.energy_j, |row| row.energy_j);
        rows.push(row(plan, &schedule, &tally, baseline_j, &plant));
    }
    let cautions = arrivals.cautions().into_iter().chain(size_caution([arrivals], &[]));
    let one_epoch = epoch_caution(needs.len());
    let mut power = Power {
        recommended: None,
        cautions: cautions.chain(one_epoch).collect(),
        device: question.disk.name.clone(),
        disk_iops: question.disk.iops,
        pool_disks: question.pool_disks,
        epochs: needs.len(),
        epochs_with_requests: profile.epochs_with_requests(),
        rows,
    };
    power.recommended = power.recommended().map(|row| row.plan);
    Ok(power)
}

/// Fails if all requests of the trace arrive at the same time, because mean power is energy divided
/// by time.
fn lasts(arrivals: &ArrivalTimes) -> Result<(), String> {
    match (arrivals.duration(), arrivals.requests()) {
        (Nanos::ZERO, requests) => Err(format!(
            "got {} at a single time, expected a trace with a duration: power is \
             energy divided by time; use a longer trace",
            counted(requests, "request")
        )),
        _ => Ok(()),
    }
}

impl Power {
    /// Returns the plan to recommend: of those that keep the promise in every epoch without knowing
    /// the future, the one with the least energy, or the first of several. `None` if there is no
    /// such plan.
    pub fn recommended(&self) -> Option<&PowerRow> {
        let keeps = self.rows.iter().filter(|row| row.broken_epochs == 0 && row.plan != FORESEES);
        keeps.min_by(|a, b| a.energy_j.total_cmp(&b.energy_j))
    }

    /// Returns a caution if the trace has too few epochs.
    pub fn epoch_caution(&self) -> Option<String> {
        epoch_caution(self.epochs)
    }
}

fn epoch_caution(epochs: usize) -> Option<String> {
    let text =
        "there is only one epoch, so there is no history for predictions; use shorter epochs";
    (epochs == 1).then(|| text.to_string())
}

/// The name of the plan that requires knowledge of the future.
const FORESEES: &str = "oracle";

/// For each epoch, returns the highest number of pools that any of the `history` epochs before it
/// needed; `all` for the first epoch.
fn predicted(needs: &[usize], history: usize, all: usize) -> Vec<usize> {
    let past = |epoch: usize| needs[epoch.saturating_sub(history)..epoch].iter().max().copied();
    (0..needs.len()).map(|epoch| past(epoch).unwrap_or(all)).collect()
}

fn row(
    plan: &'static str,
    schedule: &Schedule,
    tally: &Tally,
    baseline_j: f64,
    plant: &Plant,
) -> PowerRow {
    let share = |count: u64| count as f64 / tally.requests.max(1) as f64;
    let within = plant.steps.iter().zip(tally.within);
    let answered = within
        .map(|(step, count)| Answered { within_ms: step.as_millis_f64(), fraction: share(count) });
    PowerRow {
        plan,
        mean_pools: tally.pool_s / tally.duration_s.max(1e-9),
        max_pools: schedule.pools.iter().max().copied().unwrap_or(0),
        energy_j: tally.energy_j,
        mean_power_w: tally.energy_j / tally.duration_s.max(1e-9),
        saving_ratio: baseline_j / tally.energy_j.max(1e-9),
        saving_share: 1.0 - tally.energy_j / baseline_j.max(1e-9),
        disk_spin_ups: tally.spin_ups * plant.disks,
        late_requests: tally.requests - tally.within[2],
        broken_epochs: tally.broken_epochs,
        answered: answered.collect(),
        mean_ms: tally.sum_ms / tally.requests.max(1) as f64,
        max_ms: tally.longest.as_millis_f64(),
    }
}

impl Plant {
    fn new(question: &Question) -> Result<Plant, String> {
        let rate = question.pool_disks.saturating_mul(question.disk.iops);
        if rate == 0 || rate > RATE_MAX_IOPS {
            return Err(format!("a pool: got {rate} IOPS, expected 1 to {RATE_MAX_IOPS} IOPS"));
        }
        let (within, disk) = (question.within, &question.disk);
        if disk.standby_w > disk.idle_w {
            return Err(format!(
                "{}: got {} W when off, expected at most the {} W it draws idle; else there is \
                 nothing to save",
                disk.name, disk.standby_w, disk.idle_w
            ));
        }
        if question.epoch < disk.spin_up {
            return Err(format!(
                "got epochs of {} s, expected at least the {} s in which {} spins up; make them \
                 longer",
                question.epoch.as_secs_f64(),
                disk.spin_up.as_secs_f64(),
                disk.name
            ));
        }
        if u128::from(within.0) * u128::from(rate) < 1_000_000_000 {
            return Err(format!(
                "got pools of {rate} IOPS for a bound of {within}, expected a pool that answers a \
                 single request in time; use more disks per pool, or allow more time"
            ));
        }
        Ok(Plant {
            rate_iops: rate,
            within,
            steps: [Nanos(within.0 / 2), Nanos(within.0 / 4 * 3), within],
            epoch: question.epoch,
            disks: question.pool_disks,
            disk: question.disk.clone(),
        })
    }
}

#[cfg(test)]
mod tests;
