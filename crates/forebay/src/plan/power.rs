//! `plan power`: what a promise costs in energy when pools of disks can be switched off.
//!
//! Source: the paper's sections 3.2.2 and 4.3. Disks form equal pools, each of which holds all the
//! data. For every epoch some pools are on. A request goes to the first of them that answers it in
//! time, so the last ones idle first; one that none can answer in time is served when a pool has
//! nothing else to do.
//!
//! Four plans stand side by side. `all-on` keeps as many pools turning as the whole trace needs for
//! the baseline's fraction (all requests): the paper's baseline. `static` keeps as many as the
//! whole trace needs for the promised fraction: the paper's decomposition. `predicted` has in each
//! epoch as many as the past ones needed, `oracle` as many as that epoch will need. How many an
//! epoch needs comes from RTT by recursion, a tier a pool, in one pass.
//!
//! Energy: a disk draws its active power while it serves, idle power while it turns, standby power
//! while it is off, and the energy of a spin-up each time. `predicted` learns its next epoch only
//! as that begins, so its new pools miss the spin-up time of it; `oracle` has them turning in time.
//! A pool whose disks all work together counts as one server, busy in all its disks.

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
use forebay_show::plural::counted;
use serde::Serialize;

use self::pools::Profile;
use self::run::{Plant, Schedule, Tally, run};
use super::arrival_times::{ArrivalTimes, size_caution};
use crate::error::Error;
use forebay_ask::Share;

/// What is asked.
#[derive(Clone, Debug)]
pub struct Question {
    /// The bound.
    pub within: Nanos,
    /// The share of each epoch's requests that is promised within it.
    pub fraction: Share,
    /// The share the baseline has pools for.
    pub baseline: Share,
    /// How long pools stay as they are.
    pub epoch: Nanos,
    /// Past epochs a prediction looks at.
    pub history: usize,
    /// Disks a pool.
    pub pool_disks: u64,
    /// The disks.
    pub disk: Disk,
}

/// A share of requests and the time they were answered within.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Answered {
    /// The time.
    pub within_ms: f64,
    /// The share of all requests.
    pub fraction: f64,
}

/// One way to switch pools, and what it costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// `all-on`, `static`, `predicted` or `oracle`.
    pub plan: &'static str,
    /// Pools that are on, on average and at most.
    pub mean_pools: f64,
    /// The most at a time.
    pub max_pools: usize,
    /// Energy of all disks.
    pub energy_j: f64,
    /// The same as a power.
    pub mean_power_w: f64,
    /// `all-on`'s energy over this one.
    pub saving_ratio: f64,
    /// What it takes less than `all-on`, as a share; negative if it takes more.
    pub saving_share: f64,
    /// Disks that were spun up.
    pub disk_spin_ups: u64,
    /// Requests that were not answered within the bound.
    pub late_requests: u64,
    /// Epochs in which fewer than the promised fraction were.
    pub broken_epochs: u64,
    /// Response times: within half, three quarters and all of the bound.
    pub answered: Vec<Answered>,
    /// Mean response time, late ones included.
    pub mean_ms: f64,
    /// The longest.
    pub max_ms: f64,
}

/// What switching saves.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Power {
    /// The disk.
    pub device: String,
    /// Requests a second of one disk.
    pub disk_iops: u64,
    /// Disks a pool.
    pub pool_disks: u64,
    /// Epochs the trace covers.
    pub epochs: usize,
    /// Epochs with requests.
    pub epochs_with_requests: usize,
    /// What to keep in mind of these figures; one sentence each.
    pub cautions: Vec<String>,
    /// The plan to take, if one keeps the promise.
    pub recommended: Option<&'static str>,
    /// The plans.
    pub rows: Vec<Row>,
}

/// Prices `question` on `arrivals`.
///
/// # Errors
/// A trace of no duration; disks that draw more off than idle; epochs shorter than a spin-up; pools
/// too slow for the bound, or more of them or of epochs than can be dealt with.
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
    let mut rows: Vec<Row> = Vec::new();
    for (plan, schedule) in schedules {
        // Whatever a plan switches off, the baseline's pools are there.
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

/// A power is energy over time, which all at one instant do not have.
fn lasts(arrivals: &ArrivalTimes) -> Result<(), String> {
    match (arrivals.duration(), arrivals.requests()) {
        (Nanos::ZERO, requests) => Err(format!(
            "got {} at one instant, expected a trace that lasts: watts are energy \
             over time; take a longer one",
            counted(requests, "request")
        )),
        _ => Ok(()),
    }
}

impl Power {
    /// The plan that draws least of those that keep the promise in every epoch and need not know the future; the first
    /// of several. None if no plan keeps it.
    pub fn recommended(&self) -> Option<&Row> {
        let keeps = self.rows.iter().filter(|row| row.broken_epochs == 0 && row.plan != FORESEES);
        keeps.min_by(|a, b| a.energy_j.total_cmp(&b.energy_j))
    }

    /// That its epochs are too few.
    pub fn epoch_caution(&self) -> Option<String> {
        epoch_caution(self.epochs)
    }
}

fn epoch_caution(epochs: usize) -> Option<String> {
    let said = "one epoch only, so there is nothing to predict from; make them shorter";
    (epochs == 1).then(|| said.to_string())
}

/// The plan that would have to know the future.
const FORESEES: &str = "oracle";

/// For each epoch the most that the `history` epochs before it needed; `all` for the first.
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
) -> Row {
    let share = |count: u64| count as f64 / tally.requests.max(1) as f64;
    let within = plant.steps.iter().zip(tally.within);
    let answered = within
        .map(|(step, count)| Answered { within_ms: step.as_millis_f64(), fraction: share(count) });
    Row {
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
                "got pools of {rate} IOPS for a bound of {within}, expected a pool that answers one \
                 request in time; give it more disks, or allow more time"
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
