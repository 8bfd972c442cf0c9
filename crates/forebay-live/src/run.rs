//! The driver in wall time: the simulator's loop with a clock that nobody can stop.
//!
//! Each pass takes what has ended, then what has arrived, then offers every lane with room to the
//! policy until it declines, and sends what came of it off at once. As in virtual time the policy is
//! asked only when something arrived, ended or was to be woken: a recorded run replays identically
//! ([`forebay_core::tape`]). Nothing is allocated per request once the loop is warm.

use std::io;

use forebay_core::{Finished, Lane, Nanos, Observer, Policy, Request, Workload};

use crate::lanes::{Ended, Failure, Lanes};

/// The longest wait without asking the observer whether to go on.
const TICK: Nanos = Nanos::from_millis(100);

/// An observer of a live run: what there is to see beyond a simulated one.
pub trait Watch: Observer {
    /// A request that was wanted at `wanted` was handed to the policy, and what it answered is about
    /// to go to the system, at `at`.
    #[inline]
    fn issued(&mut self, _wanted: Nanos, _at: Nanos) {}

    /// An I/O was given to its lane.
    #[inline]
    fn started(&mut self, _now: Nanos, _io: &Request) {}

    /// An I/O failed; [`Observer::io`] is not told of it.
    #[inline]
    fn failed(&mut self, _now: Nanos, _io: &Request, _failure: Failure) {}

    /// Asked on every pass: whether to end the run. Then nothing more is started, and what is under
    /// way is waited for.
    #[inline]
    fn stops(&mut self, _wall: Nanos) -> bool {
        false
    }
}

/// An observer that sees nothing.
impl Watch for () {}

/// Runs `workload` through `policy` on `lanes` until nothing is left to do, or until the workload or
/// the observer stops it; answers the time of the last completion or arrival.
///
/// # Errors
/// Where the driver itself fails. I/Os that fail are told to the observer, and the run goes on.
///
/// # Panics
/// If the policy dispatches to a lane other than the one offered: a programmer's error.
pub fn run<P, L, W, O>(
    policy: &mut P,
    lanes: &mut L,
    workload: &mut W,
    observer: &mut O,
) -> io::Result<Nanos>
where
    P: Policy + ?Sized,
    L: Lanes + ?Sized,
    W: Workload + ?Sized,
    O: Watch + ?Sized,
{
    let mut pass = Pass::default();
    let mut next = workload.peek();
    loop {
        let now = lanes.reap(next.unwrap_or(Nanos::MAX), &mut pass.ended)?;
        let wall = lanes.wall();
        let mut asks = pass.wakeup.is_some_and(|at| at <= now);
        asks |= pass.complete(now, wall, policy, workload, observer);
        let stopping = workload.is_stopped() || observer.stops(wall);
        if !stopping {
            asks |= pass.arrive(now, policy, workload, observer);
            if asks {
                offer(now, policy, lanes, observer);
                pass.wakeup = policy.wakeup().filter(|&at| at > now);
            }
            pass.issue(lanes, observer);
        }
        next = if stopping { None } else { earliest(workload.peek(), pass.wakeup) };
        if next.is_none() && lanes.under_way() == 0 {
            return Ok(pass.last);
        }
        lanes.proceed(next.unwrap_or(Nanos::MAX).min(wall + TICK))?;
    }
}

/// What the loop keeps from pass to pass.
#[derive(Default)]
struct Pass {
    ended: Vec<Ended>,
    finished: Finished,
    /// When those that arrived in this pass were wanted.
    wanted: Vec<Nanos>,
    wakeup: Option<Nanos>,
    /// The last completion or arrival.
    last: Nanos,
}

impl Pass {
    /// Tells everybody what has ended; answers whether anything has.
    #[inline]
    fn complete<P, W, O>(
        &mut self,
        now: Nanos,
        wall: Nanos,
        policy: &mut P,
        workload: &mut W,
        observer: &mut O,
    ) -> bool
    where
        P: Policy + ?Sized,
        W: Workload + ?Sized,
        O: Watch + ?Sized,
    {
        let any = !self.ended.is_empty();
        for Ended { completion, failure } in self.ended.drain(..) {
            match failure {
                None => observer.io(&completion),
                Some(failure) => observer.failed(now, &completion.io, failure),
            }
            policy.complete(now, &completion, &mut self.finished);
            for done in self.finished.drain(..) {
                observer.finished(wall, &done);
                workload.finished(now, &done);
            }
            self.last = now;
        }
        any
    }

    /// Hands what has arrived to the policy; answers whether anything has.
    #[inline]
    fn arrive<P, W, O>(
        &mut self,
        now: Nanos,
        policy: &mut P,
        workload: &mut W,
        observer: &mut O,
    ) -> bool
    where
        P: Policy + ?Sized,
        W: Workload + ?Sized,
        O: Watch + ?Sized,
    {
        while workload.peek().is_some_and(|at| at <= now) {
            let request = workload.take();
            self.wanted.push(request.at);
            self.last = now;
            observer.arrived(&request);
            policy.submit(now, request);
        }
        !self.wanted.is_empty()
    }

    /// Tells how late this pass's arrivals are.
    #[inline]
    fn issue<L: Lanes + ?Sized, O: Watch + ?Sized>(&mut self, lanes: &mut L, observer: &mut O) {
        if self.wanted.is_empty() {
            return;
        }
        let at = lanes.wall();
        self.wanted.drain(..).for_each(|wanted| observer.issued(wanted, at));
    }
}

/// Offers every lane with room until the policy declines.
#[inline]
fn offer<P, L, O>(now: Nanos, policy: &mut P, lanes: &mut L, observer: &mut O)
where
    P: Policy + ?Sized,
    L: Lanes + ?Sized,
    O: Watch + ?Sized,
{
    for lane in 0..lanes.count() as Lane {
        while lanes.room(lane) {
            let Some(io) = policy.dispatch(now, lane) else { break };
            assert_eq!(io.lane, lane, "policy answered for another lane");
            observer.started(now, &io);
            lanes.start(now, io);
        }
    }
}

#[inline]
fn earliest(a: Option<Nanos>, b: Option<Nanos>) -> Option<Nanos> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
