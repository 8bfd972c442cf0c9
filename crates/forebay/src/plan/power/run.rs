//! Simulates a trace on pools that are switched on and off by a schedule, for response times and
//! energy.

use std::collections::VecDeque;

use forebay_core::Nanos;
use forebay_core::rtt::Gaps;

use super::Disk;
use forebay_ask::Share;

/// The installed pools.
#[derive(Clone, Debug)]
pub(super) struct Plant {
    /// The rate of one pool in requests per second.
    pub(super) rate_iops: u64,
    pub(super) within: Nanos,
    /// The times within which answered requests are counted, in ascending order; the last is the
    /// promised time.
    pub(super) steps: [Nanos; 3],
    pub(super) epoch: Nanos,
    /// The number of disks per pool.
    pub(super) disks: u64,
    pub(super) disk: Disk,
}

/// A schedule: how many pools are on in each epoch.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    pub(super) pools: Vec<usize>,
    /// Whether the schedule is known early enough to spin up disks before an epoch begins.
    pub(super) foreseen: bool,
}

/// The outcome of a run: counts of requests, and energy.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) requests: u64,
    /// The number of requests answered within each of the plant's times.
    pub(super) within: [u64; 3],
    pub(super) sum_ms: f64,
    pub(super) longest: Nanos,
    pub(super) broken_epochs: u64,
    /// The number of times that a pool was switched on.
    pub(super) spin_ups: u64,
    /// The sum of the times that pools were on, including spin-ups, in seconds.
    pub(super) pool_s: f64,
    pub(super) duration_s: f64,
    pub(super) energy_j: f64,
}

/// A pool of disks, which acts as one server.
#[derive(Clone, Copy, Debug, Default)]
struct Pool {
    /// When the pool will have served its accepted requests, in units of `1 / rate` ns.
    free: u128,
    served: u64,
}

struct Run<'a> {
    plant: &'a Plant,
    pools: Vec<Pool>,
    /// The number of pools that currently serve requests. These are always the first ones.
    on: usize,
    late: VecDeque<Nanos>,
    tally: Tally,
    /// The number of requests in the current epoch, and how many of them were answered in time.
    epoch: (u64, u64),
}

/// Simulates the requests in `gaps` with `installed` pools. A share `fraction` of each epoch's
/// requests is promised an answer in time.
pub(super) fn run(
    gaps: &Gaps,
    plant: &Plant,
    schedule: &Schedule,
    installed: usize,
    fraction: Share,
) -> Tally {
    let installed = installed.max(schedule.pools.iter().max().copied().unwrap_or(0));
    let mut run = Run {
        plant,
        pools: vec![Pool::default(); installed],
        on: schedule.pools[0],
        late: VecDeque::new(),
        tally: Tally::default(),
        epoch: (0, 0),
    };
    let mut switches = Switches::of(schedule, plant).into_iter().peekable();
    let mut ends = 1u64;
    for at in gaps.times() {
        let at = at - gaps.first();
        while ends.saturating_mul(plant.epoch.0) <= at.0 {
            run.end_epoch(fraction);
            ends = at.0 / plant.epoch.0 + 1;
        }
        while let Some((when, on)) = switches.next_if(|(when, _)| *when <= at) {
            run.serve_late(when);
            run.on = on;
        }
        run.serve_late(at);
        run.arrive(at);
    }
    run.end_epoch(fraction);
    run.serve_late(Nanos::MAX);
    run.account(schedule, gaps.last() - gaps.first());
    run.tally
}

/// Computes when the number of serving pools changes.
struct Switches;

impl Switches {
    /// Returns the changes in order of time. Pools are switched off at the start of an epoch. Pools
    /// that are switched on serve once they spin.
    fn of(schedule: &Schedule, plant: &Plant) -> Vec<(Nanos, usize)> {
        let mut all: Vec<(Nanos, usize)> = Vec::new();
        for (epoch, pair) in (1u64..).zip(schedule.pools.windows(2)) {
            let begins = Nanos(plant.epoch.0.saturating_mul(epoch));
            // A pool that is still spinning up when the schedule switches it off again never
            // serves.
            while all.last().is_some_and(|last| last.0 >= begins) {
                all.pop();
            }
            let turning = all.last().map_or(schedule.pools[0], |last| last.1);
            let turns = if schedule.foreseen { begins } else { begins + plant.disk.spin_up };
            if pair[1] < turning {
                all.push((begins, pair[1]));
            } else if pair[1] > turning {
                all.push((turns, pair[1]));
            }
        }
        all
    }
}

impl Run<'_> {
    fn units(&self, at: Nanos) -> u128 {
        u128::from(at.0) * u128::from(self.plant.rate_iops)
    }

    /// Gives the request to the first pool that can answer it in time. If none can, the request
    /// waits.
    fn arrive(&mut self, at: Nanos) {
        let (now, bound) = (self.units(at), self.units(self.plant.within));
        self.tally.requests += 1;
        self.epoch.0 += 1;
        let done = |pool: &Pool| pool.free.max(now) + 1_000_000_000;
        let fits = self.pools[..self.on].iter_mut().find(|pool| done(pool) <= now + bound);
        let Some(pool) = fits else { return self.late.push_back(at) };
        pool.free = done(pool);
        pool.served += 1;
        let free = pool.free;
        self.answered(at, free);
        self.epoch.1 += 1;
    }

    /// Lets pools that become idle before `until` serve the waiting requests, one after another.
    fn serve_late(&mut self, until: Nanos) {
        let until = self.units(until);
        while let Some(&at) = self.late.front() {
            let first = self.pools[..self.on].iter().enumerate().min_by_key(|(_, pool)| pool.free);
            let Some((index, pool)) = first else { return };
            let starts = pool.free.max(self.units(at));
            if starts >= until {
                return;
            }
            self.late.pop_front();
            let pool = &mut self.pools[index];
            pool.free = starts + 1_000_000_000;
            pool.served += 1;
            let free = pool.free;
            self.answered(at, free);
        }
    }

    fn answered(&mut self, at: Nanos, free: u128) {
        let ns = free.div_ceil(u128::from(self.plant.rate_iops)).saturating_sub(u128::from(at.0));
        let took = Nanos(u64::try_from(ns).unwrap_or(u64::MAX));
        for (step, count) in self.plant.steps.iter().zip(&mut self.tally.within) {
            *count += u64::from(took <= *step);
        }
        self.tally.sum_ms += took.as_millis_f64();
        self.tally.longest = self.tally.longest.max(took);
    }

    fn end_epoch(&mut self, fraction: Share) {
        let (requests, in_time) = std::mem::take(&mut self.epoch);
        self.tally.broken_epochs += u64::from(in_time < fraction.of(requests));
    }

    /// Adds the energy of all pools until the end of the trace.
    fn account(&mut self, schedule: &Schedule, duration: Nanos) {
        let (plant, disk) = (self.plant, &self.plant.disk);
        let (duration_s, epoch_s) = (duration.as_secs_f64(), plant.epoch.as_secs_f64());
        let (mut on_s, mut spinning_s, mut before) = (0.0, 0.0, schedule.pools[0]);
        for (epoch, pools) in schedule.pools.iter().enumerate() {
            let lasts_s = (duration_s - epoch as f64 * epoch_s).clamp(0.0, epoch_s);
            let new = pools.saturating_sub(before);
            before = *pools;
            self.tally.spin_ups += new as u64;
            on_s += *pools as f64 * lasts_s;
            // A predicted spin-up takes place in the previous epoch; its energy is counted
            // separately.
            let spin_up_s = disk.spin_up.as_secs_f64();
            spinning_s += new as f64 * if schedule.foreseen { 0.0 } else { spin_up_s.min(lasts_s) };
        }
        let served: u64 = self.pools.iter().map(|pool| pool.served).sum();
        let busy_s = served as f64 / plant.rate_iops as f64;
        let off_s = self.pools.len() as f64 * duration_s - on_s;
        let joules = (on_s - spinning_s) * disk.idle_w
            + busy_s * (disk.active_w - disk.idle_w)
            + off_s * disk.standby_w
            + self.tally.spin_ups as f64 * disk.spin_up_j;
        self.tally.energy_j = joules * plant.disks as f64;
        (self.tally.pool_s, self.tally.duration_s) = (on_s, duration_s);
    }
}
