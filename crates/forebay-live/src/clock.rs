//! The wall clock, behind a trait so that tests can move it.
//!
//! A sleeping thread is woken late, by tens of microseconds on an idle machine; so nobody sleeps
//! until the moment itself but until [`SPIN`] before it, and asks again and again from there on.

use std::num::NonZeroU64;
use std::thread;
use std::time::{Duration, Instant};

use forebay_core::Nanos;

/// How long before a moment waiting ends and asking begins.
pub(crate) const SPIN: Nanos = Nanos(50_000);

/// Says what time it is, since the start of the run, and lets time pass.
pub trait Clock {
    /// What time it is; never earlier than before.
    fn now(&mut self) -> Nanos;

    /// Waits until shortly before `until`; not at all where that is near.
    fn wait(&mut self, until: Nanos);
}

/// The machine's monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct WallClock {
    started: Instant,
}

impl WallClock {
    /// A run that starts now. Asks the kernel to wake this thread from sleep without delay.
    pub fn start() -> WallClock {
        // Where it refuses, we wake a little later and spin less.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        WallClock { started: Instant::now() }
    }
}

impl Clock for WallClock {
    #[inline]
    fn now(&mut self) -> Nanos {
        Nanos(self.started.elapsed().as_nanos() as u64)
    }

    fn wait(&mut self, until: Nanos) {
        let left = until - self.now() - SPIN;
        if left > Nanos::ZERO {
            thread::sleep(Duration::from_nanos(left.0));
        } else {
            std::hint::spin_loop();
        }
    }
}
