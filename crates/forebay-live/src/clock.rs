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

use crate::Waker;

/// How long before a deadline the thread stops sleeping and polls the clock. A longer time hardly
/// helps. If requests are closer together than this, the driver never sleeps; Linux then takes the
/// CPU away for 50 ms of every second, even from a real-time thread, if other threads wait for it
/// (`sched_rt_runtime_us`).
pub(crate) const SPIN: Nanos = Nanos(30_000);

/// A clock that starts with the run and can wait.
pub trait Clock {
    /// Returns the current time, which never decreases.
    fn now(&mut self) -> Nanos;

    /// Waits until shortly before `until`; returns at once if that is near.
    fn wait(&mut self, until: Nanos);

    /// Returns a waker that ends this thread's wait from any other thread.
    ///
    /// # Errors
    /// The system lacks the resources for a waker.
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
    /// Starts the clock at zero.
    pub fn start() -> WallClock {
        WallClock { started: Instant::now() }
    }
}

/// A clock that advances only when something waits, and then to exactly the requested time. With
/// it, emulated lanes are a simulation with content, as fast as the machine permits.
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

/// While this object lives, the kernel wakes the thread from sleep without delay and, if requested,
/// runs it before all ordinary threads. A driver that has to wait for a CPU issues I/Os late.
#[derive(Debug)]
pub struct Punctual {
    slack_ns: Option<NonZeroU64>,
    realtime: bool,
}

impl Punctual {
    /// Makes the calling thread punctual and, with `realtime`, a real-time thread (`SCHED_FIFO`). A
    /// busy real-time thread occupies a CPU alone, so the machine should have others.
    ///
    /// # Errors
    /// The kernel refuses real-time scheduling.
    pub fn thread(realtime: bool) -> io::Result<Punctual> {
        let slack_ns = current_timer_slack().ok().and_then(NonZeroU64::new);
        // If the kernel refuses, the thread wakes a little later and spins less.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        if realtime {
            schedule(libc::SCHED_FIFO, 1)?;
        }
        Ok(Punctual { slack_ns, realtime })
    }
}

/// Changes the scheduling of this thread, but not of the threads that it starts.
#[allow(unsafe_code)]
fn schedule(class: libc::c_int, priority: libc::c_int) -> io::Result<()> {
    let class = class | libc::SCHED_RESET_ON_FORK;
    // Calls the kernel directly, because musl's function refuses: POSIX defines it for processes,
    // but here it is for a thread.
    // SAFETY: 0 is the calling thread, and the pointer is to the kernel's parameter structure,
    // which contains only a priority and which the call only reads.
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
            // A waker can end `park`, but not `sleep`.
            thread::park_timeout(Duration::from_nanos(left.0));
        } else {
            std::hint::spin_loop();
        }
    }
}
