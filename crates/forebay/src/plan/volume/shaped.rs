//! Computes the savings of a shaper in front of the volume.
//!
//! A volume serves requests first come, first served, so a burst delays everything behind it. A
//! shaper that defers the requests that it cannot answer in time ([`forebay_core::rtt`]) keeps the
//! promise with fewer operations per second; no scheduler needs less. Both figures count every
//! request as one operation and ignore bytes.

use forebay_core::Nanos;
use forebay_core::device::throttled::{Bucket, Direction, Measure};
use forebay_core::rtt::{Gaps, RATE_MAX_IOPS};
use serde::Serialize;

use super::drain::{self, Costed, Drain, Limits};
use super::{Bound, first};
use crate::plan::search::least_capacities;

/// The rates that the promise needs, with a shaper and without.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shaped {
    /// The time within which the volume must release a request, in milliseconds.
    pub bound_ms: f64,
    /// The operations per second that the promise needs with a shaper.
    pub shaped_iops: u64,
    /// The operations per second that the promise needs if requests are served first come, first
    /// served.
    pub fifo_iops: u64,
    /// The command that serves the volume through a shaper.
    pub serve: String,
}

/// Computes both rates, if requests take `latency` after their release. Returns `None` if that
/// alone is too long, or if no rate is enough.
pub(super) fn shaped(requests: &Costed, bound: Bound, latency: Nanos) -> Option<Shaped> {
    let within = Nanos(bound.within.0.checked_sub(latency.0).filter(|left| *left > 0)?);
    let gaps: Gaps = requests.times().collect();
    let need = gaps.len() as u64 - bound.late_max;
    let shaped_iops = least_capacities(&gaps, within, &[need])[0]?;
    let fifo_iops = fifo_iops(&requests.each_as_one(), within, bound.late_max)?;
    let delta_ms = within.as_millis_f64();
    let serve = format!(
        "forebay serve /dev/DEVICE --socket volume.sock --policy miser:cmin={shaped_iops}:delta-ms={delta_ms}:depth=64"
    );
    Some(Shaped { bound_ms: delta_ms, shaped_iops, fifo_iops, serve })
}

fn fifo_iops(requests: &Costed, within: Nanos, late_max: u64) -> Option<u64> {
    let limits = Limits::new(within, Nanos::ZERO, Nanos::ZERO);
    let keeps = |iops: u64| {
        let drain = Drain::of(&Bucket {
            measure: Measure::Ops,
            direction: Direction::Both,
            rate_per_s: iops as f64,
            depth: 0.0,
            start_share: 1.0,
        });
        drain::late(requests, &[drain], limits, late_max) <= late_max
    };
    keeps(RATE_MAX_IOPS).then(|| first(1, RATE_MAX_IOPS, keeps))
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_core::Op;
    use forebay_core::device::throttled::Cost;

    #[test]
    fn a_shaper_puts_late_requests_aside() {
        // Every second, twenty requests arrive at once, followed by ten that a single queue would
        // delay.
        let mut requests = Costed::default();
        for second in 0..10u64 {
            for nth in 0..30 {
                let at = Nanos::from_millis(second * 1000 + if nth < 20 { 0 } else { 5 });
                requests.push(at, Op::Read, Cost { ops: 1.0, bytes: 4096.0 });
            }
        }
        let bound = Bound { within: Nanos::from_millis(10), late_max: 100 };
        let found = shaped(&requests, bound, Nanos::ZERO).unwrap();
        // Of each thirty requests, twenty must be in time: ten are due after 10 ms, and ten more
        // after 15 ms.
        assert_eq!(found.shaped_iops, 1334);
        assert!(found.fifo_iops > found.shaped_iops, "{found:?}");
        assert!(found.serve.contains("cmin=1334:delta-ms=10:"), "{}", found.serve);
        assert_eq!(shaped(&requests, bound, bound.within), None);
    }
}
