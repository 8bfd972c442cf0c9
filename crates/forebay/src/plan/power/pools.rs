//! Finds how many pools each epoch needs, in one pass.
//!
//! A request that the first pool cannot answer in time is offered to the second, and so on, so a
//! pool is never affected by those after it. Therefore a single run with enough pools also gives
//! the number of answered requests for every smaller number of pools.

use std::collections::BTreeMap;

use forebay_core::rtt::{Gaps, Rtt};

use super::Question;
use super::run::Plant;
use forebay_ask::Share;

/// The maximum number of epochs in a trace.
pub const EPOCHS_MAX: u64 = 1_000_000;

/// The maximum number of pools.
pub const POOLS_MAX: usize = 4096;

/// How many requests each pool answers in time, for each epoch.
pub(super) struct Profile {
    /// For each epoch that has requests, their number by the pool that answers them.
    counts: BTreeMap<u64, Vec<u64>>,
    epochs: u64,
}

impl Profile {
    pub(super) fn new(gaps: &Gaps, plant: &Plant, question: &Question) -> Result<Profile, String> {
        let epochs = (gaps.last() - gaps.first()).0 / plant.epoch.0 + 1;
        if epochs > EPOCHS_MAX {
            return Err(format!(
                "got {epochs} epochs of {}, expected at most {EPOCHS_MAX}; make them longer",
                question.epoch
            ));
        }
        let fresh = Rtt::new(plant.rate_iops, plant.within).map_err(|error| error.to_string())?;
        let (mut pools, mut counts) = (Vec::new(), BTreeMap::<u64, Vec<u64>>::new());
        for at in gaps.times() {
            let at = at - gaps.first();
            let pool = pools.iter_mut().position(|pool: &mut Rtt| pool.admit(at));
            let pool = pool.unwrap_or_else(|| {
                let mut next = fresh;
                next.admit(at);
                pools.push(next);
                pools.len() - 1
            });
            if pool >= POOLS_MAX {
                return Err(format!(
                    "a burst takes more than {POOLS_MAX} pools of {} IOPS; use more disks per pool, \
                     or allow more time",
                    plant.rate_iops
                ));
            }
            let epoch = counts.entry(at.0 / plant.epoch.0).or_default();
            if pool >= epoch.len() {
                epoch.resize(pool + 1, 0);
            }
            epoch[pool] += 1;
        }
        Ok(Profile { counts, epochs })
    }

    /// Returns how many pools the whole trace needs to answer a share `fraction` in time.
    pub(super) fn needed(&self, fraction: Share) -> usize {
        let mut all = Vec::new();
        for epoch in self.counts.values() {
            all.resize(all.len().max(epoch.len()), 0);
            all.iter_mut().zip(epoch).for_each(|(sum, count)| *sum += count);
        }
        needed(&all, fraction)
    }

    /// Returns how many pools each epoch needs to answer a share `fraction` in time; at least one.
    pub(super) fn needed_by_epoch(&self, fraction: Share) -> Vec<usize> {
        let of = |epoch| self.counts.get(&epoch).map_or(1, |counts| needed(counts, fraction));
        (0..self.epochs).map(of).collect()
    }

    pub(super) fn epochs_with_requests(&self) -> usize {
        self.counts.len()
    }
}

fn needed(counts: &[u64], fraction: Share) -> usize {
    let need = fraction.of(counts.iter().sum());
    let mut answered = 0;
    let enough = counts.iter().position(|count| {
        answered += count;
        answered >= need
    });
    enough.map_or(1, |pool| pool + 1)
}
