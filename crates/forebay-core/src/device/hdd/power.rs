//! Energy: the power of each activity, and the standby state entered by [`Op::Park`].
//!
//! A parked disk is stopped and uses standby power. The next I/O of any other kind first spins it
//! up, which always takes the same time and energy, spread evenly over that time. Parking takes no
//! time; the time and energy of spinning down should be included in the parameters of the spin-up.
//! A disk without [`Standby`] parameters cannot stop; parking it has no effect.
//!
//! Invariant: energy never decreases.
//!
//! [`Op::Park`]: crate::contract::request::Op::Park

use crate::contract::{Nanos, SpecError};

/// The power of a disk in watts while its platters rotate, and its standby parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Power {
    /// The power while the heads are idle or waiting.
    pub idle_w: f64,
    /// The power while the arm moves.
    pub seek_w: f64,
    /// The power while data is transferred.
    pub transfer_w: f64,
    /// The parameters of standby; `None` if the disk never stops.
    pub standby: Option<Standby>,
}

/// The standby power of a disk, and the cost of spinning up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Standby {
    /// The power in watts while the platters are at rest.
    pub standby_w: f64,
    /// The energy of a spin-up in joules.
    pub spin_up_j: f64,
    /// The time from the first I/O after a rest until the disk is ready for it.
    pub spin_up: Nanos,
}

/// The maximum time of a spin-up: ten minutes.
const SPIN_UP_LONGEST: u64 = 600_000_000_000;

impl Power {
    pub(super) fn check(&self) -> Result<(), SpecError> {
        let Power { idle_w, seek_w, transfer_w, standby } = *self;
        let Standby { standby_w, spin_up_j, spin_up } = standby.unwrap_or_default();
        let states =
            [("idle", idle_w), ("seek", seek_w), ("transfer", transfer_w), ("standby", standby_w)];
        for (name, watts) in states {
            if !(0.0..=1e6).contains(&watts) {
                return Err(SpecError(format!(
                    "{name} power: got {watts} W, expected 0 to 1000000 W"
                )));
            }
        }
        if !(0.0..=1e6).contains(&spin_up_j) {
            return Err(SpecError(format!(
                "power of spin-up: got {spin_up_j} J, expected 0 to 1000000 J"
            )));
        }
        if spin_up.0 > SPIN_UP_LONGEST {
            return Err(SpecError(format!(
                "power: got a spin-up of {spin_up}, expected 0 to 600 s"
            )));
        }
        Ok(())
    }
}

/// Measures energy: whether the platters rotate, how long they were at rest, and the energy used.
#[derive(Clone, Debug)]
pub(in crate::device) struct Meter {
    power: Power,
    /// When the current rest began.
    parked_at: Option<u64>,
    /// The total duration of earlier rests, in ns.
    parked_ns: u64,
    spin_ups: u64,
    /// When the last spin-up began.
    spun_at: u64,
}

impl Meter {
    pub(in crate::device) fn new(power: Power) -> Meter {
        Meter { power, parked_at: None, parked_ns: 0, spin_ups: 0, spun_at: 0 }
    }

    /// Stops the platters, unless they cannot stop or are already at rest.
    pub(in crate::device) fn park(&mut self, now: u64) {
        if self.power.standby.is_some() && self.parked_at.is_none() {
            self.parked_at = Some(now);
        }
    }

    /// Returns when a command that arrives at `now` can begin: immediately, or after the spin-up
    /// that it causes.
    #[inline]
    pub(in crate::device) fn wake(&mut self, now: u64) -> u64 {
        match self.parked_at.take() {
            None => now,
            Some(since) => self.spin_up(since, now),
        }
    }

    #[cold]
    fn spin_up(&mut self, since: u64, now: u64) -> u64 {
        self.parked_ns += now.saturating_sub(since);
        self.spin_ups += 1;
        self.spun_at = now;
        now.saturating_add(self.power.standby.map_or(0, |standby| standby.spin_up.0))
    }

    /// Returns the energy used until `now`, in joules. In this time the arm moved for `seek_ns` and
    /// data was transferred for `transfer_ns`.
    pub(in crate::device) fn joules(&self, now: u64, seek_ns: u64, transfer_ns: u64) -> f64 {
        let Power { idle_w, seek_w, transfer_w, standby } = self.power;
        let Standby { standby_w, spin_up_j, spin_up } = standby.unwrap_or_default();
        let parked = self.parked_ns + self.parked_at.map_or(0, |since| now.saturating_sub(since));
        // All spin-ups except the last are complete.
        let last = now.saturating_sub(self.spun_at).min(spin_up.0);
        let (spinning, spun) = match self.spin_ups {
            0 => (0, 0.0),
            count => {
                let share = if spin_up.0 == 0 { 1.0 } else { last as f64 / spin_up.0 as f64 };
                (
                    (count - 1).saturating_mul(spin_up.0).saturating_add(last),
                    (count - 1) as f64 + share,
                )
            }
        };
        let elsewhere =
            seek_ns.saturating_add(transfer_ns).saturating_add(parked).saturating_add(spinning);
        let idle = now.saturating_sub(elsewhere);
        let joules = |ns: u64, watts: f64| ns as f64 * watts / 1e9;
        joules(idle, idle_w)
            + joules(seek_ns, seek_w)
            + joules(transfer_ns, transfer_w)
            + joules(parked, standby_w)
            + spun * spin_up_j
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POWER: Power = Power {
        idle_w: 10.0,
        seek_w: 13.0,
        transfer_w: 12.0,
        standby: Some(Standby { standby_w: 2.0, spin_up_j: 100.0, spin_up: Nanos(5_000_000_000) }),
    };
    const SECOND: u64 = 1_000_000_000;

    fn joules(meter: &Meter, s: u64) -> f64 {
        meter.joules(s * SECOND, 0, 0)
    }

    #[test]
    fn a_rest_by_hand() {
        let mut meter = Meter::new(POWER);
        meter.park(3 * SECOND);
        meter.park(4 * SECOND); // already at rest
        assert_eq!(joules(&meter, 13), 30.0 + 20.0);
        assert_eq!(meter.wake(13 * SECOND), 18 * SECOND);
        assert_eq!(joules(&meter, 14), 50.0 + 20.0);
        assert_eq!(joules(&meter, 18), 50.0 + 100.0);
        assert_eq!(joules(&meter, 20), 150.0 + 20.0);
        assert_eq!(meter.wake(20 * SECOND), 20 * SECOND, "awake already");
        meter.park(20 * SECOND);
        assert_eq!(meter.wake(30 * SECOND), 35 * SECOND);
        assert_eq!(joules(&meter, 35), 170.0 + 20.0 + 100.0);
        // One second of seeking and one of transferring instead of idling.
        assert_eq!(meter.joules(40 * SECOND, SECOND, SECOND), 290.0 + 30.0 + 13.0 + 12.0);
    }

    #[test]
    fn without_figures_nothing_rests() {
        let mut meter = Meter::new(Power { standby: None, ..POWER });
        meter.park(SECOND);
        assert_eq!(joules(&meter, 10), 100.0);
        assert_eq!(meter.wake(10 * SECOND), 10 * SECOND);
    }

    #[test]
    fn faulty_figures_are_named() {
        let said = |standby| Power { standby: Some(standby), ..POWER }.check().unwrap_err().0;
        let good = Standby::default();
        assert!(said(Standby { standby_w: -1.0, ..good }).contains("standby power: got -1 W"));
        assert!(said(Standby { spin_up_j: f64::NAN, ..good }).contains("spin-up: got NaN J"));
        let long = Nanos(SPIN_UP_LONGEST + 1);
        assert!(said(Standby { spin_up: long, ..good }).contains("expected 0 to 600 s"));
    }
}
