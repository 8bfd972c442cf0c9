//! Computes a lower bound on the time that a disk takes for a trace, whatever the order of
//! requests.

use forebay_core::catalog::{is_array, is_placement};
use forebay_core::device::hdd::{OrderBound, Pieces};
use forebay_core::elevator::{Limits, bios};
use forebay_core::{Device, DeviceModel, Spec};
use serde::Serialize;

use super::{Bed, Replay, Setup, requests};
use crate::{Error, Input};

/// The maximum number of requests for which the bound is computed; each takes about 32 bytes of
/// memory.
const REQUESTS_MAX: u64 = 16 << 20;

/// The least time that a disk takes for a trace, whatever the order of requests
/// ([`forebay_core::device::hdd`]).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LeastTime {
    /// The least time from the first arrival to the last completion, in seconds.
    pub makespan_s: f64,
    /// The least time for which the disk is busy, in seconds.
    pub busy_s: f64,
}

impl LeastTime {
    /// Computes the bound for `input` on the only disk of `bed`. Returns `None` for other devices,
    /// for several disks, and for traces of more than 16 Mi requests.
    ///
    /// # Errors
    /// Fails if the trace cannot be read again.
    pub fn of(input: &Input, bed: Bed<'_>, setup: Setup) -> Result<Option<LeastTime>, Error> {
        let DeviceModel::Hdd(disk) = &bed.disk.model else { return Ok(None) };
        if bed.disks > 1 || input.description.records > REQUESTS_MAX {
            return Ok(None);
        }
        let plain = Limits::default();
        let request_len_max = plain.request_len_max.min(disk.len_max());
        let limits = Limits { request_len_max, ..plain };
        let mut pieces = Pieces::new(disk);
        let (requests, failed) = requests(input, bed, setup)?;
        for request in requests.filter(|request| request.op.moves_data()) {
            bios(&request, &limits).for_each(|bio| pieces.add(&bio));
        }
        if let Some(error) = failed.take() {
            return Err(error.into());
        }
        let least = |bound: OrderBound| LeastTime {
            makespan_s: bound.makespan.as_secs_f64(),
            busy_s: bound.busy.as_secs_f64(),
        };
        Ok(pieces.bound().map(least))
    }

    /// Returns the lower bound of a run's total time, which depends on the replay mode.
    pub fn total_s(&self, replay: Replay) -> f64 {
        match replay {
            Replay::Open => self.busy_s,
            Replay::Closed | Replay::Dependent => self.makespan_s,
        }
    }

    /// Returns whether the bound holds for `policy`. It does not for policies that move data or
    /// split requests differently, because these issue other I/Os.
    pub fn holds_for(policy: &str) -> bool {
        let divides = |spec: &Spec| spec.text().contains("-max-kib");
        !is_placement(policy)
            && !is_array(policy)
            && Spec::parse(policy).is_ok_and(|spec| !divides(&spec))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{devices, sample, simulate};
    use forebay_core::catalog::{POLICIES, YARDSTICKS};
    use forebay_core::replay::Intensity;
    use forebay_trace::streams::StreamBy;

    #[test]
    fn no_scheduler_is_below_the_bound() {
        let input = sample::read(StreamBy::Thread, &mut crate::progress::untold).unwrap();
        for device in
            ["sata250:plain", "st1000nm0011:plain"].map(|name| devices::open(name).unwrap())
        {
            let bed = Bed::of(&device);
            let fast = Intensity::new(10.0).unwrap();
            for replay in [Replay::Open, Replay::Closed] {
                let setup = Setup { replay, intensity: fast, ..Setup::default() };
                let least = LeastTime::of(&input, bed, setup).unwrap().unwrap();
                for listed in POLICIES.iter().chain(YARDSTICKS) {
                    let run = simulate::run(&input, &device, listed.name, setup).unwrap().result;
                    let figures = &run.figures;
                    assert!(least.busy_s >= figures.transfer_bound_s * 0.99);
                    assert!(least.busy_s <= figures.busy_s, "{}", listed.name);
                    assert!(least.makespan_s <= figures.makespan_s, "{}", listed.name);
                }
            }
        }
    }

    #[test]
    fn the_bound_applies_to_one_disk_and_unsplit_requests() {
        let input = sample::read(StreamBy::Thread, &mut crate::progress::untold).unwrap();
        let of = |name: &str, disks| {
            let device = devices::open(name).unwrap();
            let bed = Bed { disks, ..Bed::of(&device) };
            LeastTime::of(&input, bed, Setup::default()).unwrap()
        };
        assert!(of("sata250:plain", 1).is_some());
        let others = [("sata250:plain", 2), ("sata250", 1), ("fixed:500", 1)];
        assert_eq!(others.map(|(name, disks)| of(name, disks)), [None; 3]);
        assert!(LeastTime::holds_for("cfq:quantum=2") && LeastTime::holds_for("sptf"));
        for policy in ["cache", "array", "noop:bio-max-kib=4", "noop:request-max-kib=64"] {
            assert!(!LeastTime::holds_for(policy), "{policy}");
        }
    }
}
