//! Measures whether a tenant receives its promised rate while its requests wait.
//!
//! While a request waits beyond the promise, the tenant must be served at least at the promised
//! rate, by kept requests or others. Otherwise its promise is broken, even if all kept requests are
//! in time.
//!
//! A request that is too long for the bound can never be kept. While such a request waits, the
//! tenant's rate is not judged.

use crate::contract::{Gauge, GaugeOf, Nanos};
use crate::rtt::{Rtt, SERVICE};

/// The service that a tenant received while requests waited.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Received {
    /// Since when requests have been waiting, if the tenant's rate is judged.
    since: Option<Nanos>,
    /// Whether requests wait and one of them is too long for the promise to cover it.
    has_long: bool,
    /// How long requests have waited in total, excluding the time since `since`.
    waited: Nanos,
    /// The units of the I/Os that were sent meanwhile, in thousandths.
    sent_milli: u64,
}

impl Received {
    /// Records that a request of `units` waits beyond the promise. Returns whether the tenant's
    /// requests have begun to wait.
    pub(super) fn waits(&mut self, now: Nanos, rtt: &Rtt, units: u64) -> bool {
        let may_be_kept = u128::from(units) * u128::from(SERVICE)
            <= u128::from(rtt.within().0) * u128::from(rtt.rate_iops());
        let was_idle = self.since.is_none() && !self.has_long;
        if !may_be_kept {
            self.ends(now);
            self.has_long = true;
        } else if was_idle {
            self.since = Some(now);
        }
        was_idle
    }

    /// Records that no more requests wait.
    pub(super) fn ends(&mut self, now: Nanos) {
        self.waited = self.waited(now);
        (self.since, self.has_long) = (None, false);
    }

    /// Records that an I/O of `units_milli` thousandths of a unit is sent.
    #[inline]
    pub(super) fn sent(&mut self, units_milli: u64) {
        if self.since.is_some() {
            self.sent_milli = self.sent_milli.saturating_add(units_milli);
        }
    }

    fn waited(&self, now: Nanos) -> Nanos {
        self.since.map_or(self.waited, |since| self.waited + (now - since))
    }

    /// Returns the number of units that the promise owed the tenant until `now`, and the number
    /// that the tenant received.
    pub(super) fn gauges(&self, now: Nanos, tenant: usize, rtt: &Rtt) -> [Gauge; 2] {
        let owed = self.waited(now).as_secs_f64() * rtt.rate_iops() as f64;
        let of = GaugeOf::Tenant(tenant as u32);
        [("owed_units", owed), ("received_units", self.sent_milli as f64 / 1e3)]
            .map(|(name, value)| Gauge { name, of, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_is_owed_its_rate_while_requests_wait() {
        let ms = Nanos::from_millis;
        // Five requests at this rate fit into the latency bound.
        let rtt = Rtt::new(100, ms(50)).unwrap();
        let mut received = Received::default();
        let values = |received: &Received, now| {
            received.gauges(now, 3, &rtt).map(|gauge| (gauge.value * 1e3).round() as u64)
        };
        received.sent(1000);
        assert_eq!(values(&received, ms(1000)), [0, 0]);
        assert!(received.waits(ms(1000), &rtt, 1) && !received.waits(ms(1100), &rtt, 5));
        received.sent(1500);
        assert_eq!(values(&received, ms(1500)), [50_000, 1500]);
        received.ends(ms(2000));
        received.sent(1000);
        assert_eq!(values(&received, ms(9000)), [100_000, 1500]);
        // While a request waits that can never be kept, the rate is not judged.
        assert!(received.waits(ms(9000), &rtt, 1) && !received.waits(ms(9100), &rtt, 6));
        assert!(!received.waits(ms(9200), &rtt, 1));
        received.sent(1000);
        assert_eq!(values(&received, ms(9900)), [110_000, 1500]);
        received.ends(ms(9900));
        assert!(received.waits(ms(9900), &rtt, 1));
    }
}
