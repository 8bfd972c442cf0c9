//! The wall clock, behind a trait so that tests can control it.
//!
//! A sleeping thread is woken late, by tens of microseconds on an idle machine. Sleeps therefore
//! end [`SPIN`] before the deadline, and the rest is spent polling the clock.

use std::io;
use std::num::NonZeroU64;
use std::thread;
use std::time::{Duration, Instant};

use forebay_core::Nanos;
use rustix::thread::{current_timer_slack, set_current_timer_slack};

use crate::waker::Waker;

/// How long before a moment waiting ends and asking begins. Longer hardly helps, and where requests
/// come closer than this the driver never sleeps: then Linux takes it 50 ms of every second even in
/// real time, for others that wait for its processor (or `sched_rt_runtime_us`).
pub(crate) const SPIN: Nanos = Nanos(30_000);

/// Says what time it is, since the start of the run, and lets time pass.
pub trait Clock {
    /// What time it is; never earlier than before.
    fn now(&mut self) -> Nanos;

    /// Waits until shortly before `until`; not at all where that is near.
    fn wait(&mut self, until: Nanos);

    /// Returns a waker that ends this thread's wait from any other thread.
    ///
    /// # Errors
    /// The system is out of the resources for a waker.
    fn waker(&mut self) -> io::Result<Waker> {
        Ok(Waker::thread(thread::current()))
    }
}

/// The machine's monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct WallClock {
    started: Instant,
}

impl WallClock {
    /// Returns a run that starts now.
    pub fn start() -> WallClock {
        WallClock { started: Instant::now() }
    }
}

/// A clock that stands still unless somebody waits, and then is exactly on time: emulated lanes under it are a
/// simulation with content, as fast as the machine goes.
#[derive(Clone, Copy, Debug, Default)]
pub struct VirtualClock(Nanos);

impl Clock for VirtualClock {
    fn now(&mut self) -> Nanos {
        self.0
    }
    fn wait(&mut self, until: Nanos) {
        self.0 = self.0.max(until);
    }
}

/// While it lives, the kernel wakes this thread from sleep without delay and, where that is asked for,
/// runs it before all ordinary ones: a driver that has to wait for a processor issues late.
#[derive(Debug)]
pub struct Punctual {
    slack_ns: Option<NonZeroU64>,
    realtime: bool,
}

impl Punctual {
    /// From now on, in real time too (`SCHED_FIFO`) if `realtime`. One busy thread of that kind keeps
    /// a processor to itself, so there should be others.
    ///
    /// # Errors
    /// Where the kernel refuses real time.
    pub fn thread(realtime: bool) -> io::Result<Punctual> {
        let slack_ns = current_timer_slack().ok().and_then(NonZeroU64::new);
        // Where it refuses, we wake a little later and spin less.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        if realtime {
            schedule(libc::SCHED_FIFO, 1)?;
        }
        Ok(Punctual { slack_ns, realtime })
    }
}

/// Changes how this thread is scheduled, and not those it starts.
#[allow(unsafe_code)]
fn schedule(class: libc::c_int, priority: libc::c_int) -> io::Result<()> {
    let class = class | libc::SCHED_RESET_ON_FORK;
    // The kernel's own call: musl's function refuses, as it means threads where POSIX means processes.
    // SAFETY: 0 is this thread, and the pointer is to what the kernel's parameters are, a priority, which the call only reads.
    match unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, class, &raw const priority) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Drop for Punctual {
    fn drop(&mut self) {
        let _ = set_current_timer_slack(self.slack_ns);
        if self.realtime {
            let _ = schedule(libc::SCHED_OTHER, 0);
        }
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
            // Not `sleep`, so that a waker can end it.
            thread::park_timeout(Duration::from_nanos(left.0));
        } else {
            std::hint::spin_loop();
        }
    }
}
