//! The driver in wall time: the simulator's loop, with a clock that cannot be stopped.
//!
//! Each pass processes completions, then arrivals; wakes the policy if that is due; offers every
//! lane that accepts I/Os to the policy until it declines; and submits the resulting I/Os at once.
//! As in virtual time, the policy is called only after an arrival, a completion or a wakeup, so a
//! recorded run replays identically ([`forebay_core::tape`]). Nothing is allocated per request once
//! the loop is warm.

use std::{io, mem};

use forebay_core::{Cx, Finished, Lane, Nanos, Observer, Piece, Policy, Request, Workload};

use crate::{Ended, Failure, Lanes};

/// The longest wait before the observer is asked whether to continue.
const TICK: Nanos = Nanos::from_millis(100);

/// An observer of a live run, with events that simulated runs do not have.
pub trait Watch: Observer {
    /// Called when a request that was due at `wanted` has been passed to the policy. The resulting
    /// I/Os are about to be submitted to the system, at `at`.
    #[inline]
    fn issued(&mut self, _wanted: Nanos, _at: Nanos) {}

    /// Called when an I/O has been passed to its lane.
    #[inline]
    fn started(&mut self, _now: Nanos, _io: &Request) {}

    /// Called when an I/O has failed, with the system's reason. [`Observer::io`] receives the
    /// outcome.
    #[inline]
    fn failed(&mut self, _now: Nanos, _io: &Request, _failure: Failure) {}

    /// Called when the driver was blocked in this period because a target accepted no more I/Os.
    #[inline]
    fn held_up(&mut self, _from: Nanos, _to: Nanos) {}

    /// Called in each pass; returns whether to end the run. If so, nothing more is started, and the
    /// run waits for the I/Os in flight.
    #[inline]
    fn stops(&mut self, _wall: Nanos) -> bool {
        false
    }
}

/// An observer that sees nothing.
impl Watch for () {}

/// Runs `workload` through `policy` on `lanes` until the workload is over and no work is left, or
/// until the workload or the observer stops the run. Returns the time of the last completion or
/// arrival.
///
/// # Errors
/// The driver itself fails. Failed I/Os are reported to the policy and the observer, and the run
/// continues.
///
/// # Panics
/// The policy dispatches to a lane other than the offered one, or refers to bytes that it does not
/// hold. Both are programming errors.
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
    let mut driven = Driven { policy, lanes, workload, observer };
    let mut next = driven.workload.peek();
    loop {
        let now = driven.lanes.reap(next.unwrap_or(Nanos::MAX), &mut pass.ended)?;
        let wall = driven.lanes.wall();
        pass.tell_held_up(&mut driven);
        let mut asks = pass.wakeup.is_some_and(|at| at <= now);
        asks |= pass.complete(now, wall, &mut driven);
        let stopping = driven.workload.is_stopped() || driven.observer.stops(wall);
        if !stopping {
            asks |= pass.arrive(now, wall, &mut driven);
            if asks {
                pass.wake(now, wall, &mut driven);
                pass.offer(now, &mut driven);
                pass.wakeup = driven.policy.wakeup().filter(|&at| at > now);
            }
            pass.issue(&mut driven);
        }
        let coming = driven.workload.peek();
        next = if stopping { None } else { earliest(coming, pass.wakeup) };
        let over = stopping || next.is_none() && driven.workload.is_over();
        if over && driven.lanes.in_flight() == 0 {
            return Ok(pass.last);
        }
        driven.lanes.proceed(next.unwrap_or(Nanos::MAX).min(wall + TICK))?;
    }
}

/// The participants of a run.
struct Driven<'a, P: ?Sized, L: ?Sized, W: ?Sized, O: ?Sized> {
    policy: &'a mut P,
    lanes: &'a mut L,
    workload: &'a mut W,
    observer: &'a mut O,
}

/// The state of the loop between passes.
#[derive(Default)]
struct Pass {
    ended: Vec<Ended>,
    finished: Finished,
    pieces: Vec<Piece>,
    /// The times at which the requests that arrived in this pass were due.
    wanted: Vec<Nanos>,
    wakeup: Option<Nanos>,
    /// The time of the last completion or arrival.
    last: Nanos,
}

impl Pass {
    /// Reports completed I/Os to all participants; returns whether there were any.
    #[inline]
    fn complete<P, L, W, O>(
        &mut self,
        now: Nanos,
        wall: Nanos,
        driven: &mut Driven<'_, P, L, W, O>,
    ) -> bool
    where
        P: Policy + ?Sized,
        L: Lanes + ?Sized,
        W: Workload + ?Sized,
        O: Watch + ?Sized,
    {
        let ended = mem::take(&mut self.ended);
        for Ended { completion, failure } in &ended {
            if let Some(failure) = failure {
                driven.observer.failed(now, &completion.io, *failure);
            }
            driven.observer.io(completion);
            let (slots, finished) = (driven.lanes.slots(), &mut self.finished);
            driven.policy.complete(&mut Cx { now, slots, finished }, completion);
            self.answer(now, wall, driven);
            self.last = now;
        }
        let any = !ended.is_empty();
        self.ended = ended;
        self.ended.clear();
        any
    }

    /// Passes arrived requests to the policy; returns whether there were any.
    #[inline]
    fn arrive<P, L, W, O>(
        &mut self,
        now: Nanos,
        wall: Nanos,
        driven: &mut Driven<'_, P, L, W, O>,
    ) -> bool
    where
        P: Policy + ?Sized,
        L: Lanes + ?Sized,
        W: Workload + ?Sized,
        O: Watch + ?Sized,
    {
        while driven.workload.peek().is_some_and(|at| at <= now) {
            let request = driven.workload.take();
            let bytes = driven.workload.bytes(&request, driven.lanes.slots());
            self.wanted.push(request.at);
            self.last = now;
            driven.observer.arrived(&request);
            let (slots, finished) = (driven.lanes.slots(), &mut self.finished);
            driven.policy.submit(&mut Cx { now, slots, finished }, request, bytes);
            self.answer(now, wall, driven);
        }
        !self.wanted.is_empty()
    }

    /// Wakes the policy if that is due.
    #[inline]
    fn wake<P, L, W, O>(&mut self, now: Nanos, wall: Nanos, driven: &mut Driven<'_, P, L, W, O>)
    where
        P: Policy + ?Sized,
        L: Lanes + ?Sized,
        W: Workload + ?Sized,
        O: Watch + ?Sized,
    {
        if driven.policy.wakeup().is_some_and(|at| at <= now) {
            let (slots, finished) = (driven.lanes.slots(), &mut self.finished);
            driven.policy.wake(&mut Cx { now, slots, finished });
            self.last = if self.finished.is_empty() { self.last } else { now };
            self.answer(now, wall, driven);
        }
    }

    /// Reports the answers that the policy gave when it was called.
    #[inline]
    fn answer<P, L, W, O>(&mut self, now: Nanos, wall: Nanos, driven: &mut Driven<'_, P, L, W, O>)
    where
        P: ?Sized,
        L: Lanes + ?Sized,
        W: Workload + ?Sized,
        O: Watch + ?Sized,
    {
        for done in self.finished.drain(..) {
            driven.observer.finished(wall, &done);
            driven.workload.finished(now, &done, driven.lanes.slots());
        }
    }

    /// Offers every lane that accepts I/Os to the policy until it declines.
    #[inline]
    fn offer<P, L, W, O>(&mut self, now: Nanos, driven: &mut Driven<'_, P, L, W, O>)
    where
        P: Policy + ?Sized,
        L: Lanes + ?Sized,
        W: ?Sized,
        O: Watch + ?Sized,
    {
        for lane in 0..driven.lanes.count() as Lane {
            while driven.lanes.room(lane) {
                let Some(io) = driven.policy.dispatch(now, lane) else { break };
                assert_eq!(io.lane, lane, "policy answered for another lane");
                self.pieces.clear();
                driven.policy.pieces(&io, &mut |piece| self.pieces.push(piece));
                driven.lanes.start(now, io, &self.pieces);
                driven.observer.started(now, &io);
            }
        }
    }

    /// Reports what delayed the driver. This precedes the report of late I/Os.
    #[inline]
    fn tell_held_up<P, L, W, O>(&self, driven: &mut Driven<'_, P, L, W, O>)
    where
        P: ?Sized,
        L: Lanes + ?Sized,
        W: ?Sized,
        O: Watch + ?Sized,
    {
        if let Some((from, to)) = driven.lanes.held_up() {
            driven.observer.held_up(from, to);
        }
    }

    /// Reports how late this pass's arrivals are.
    #[inline]
    fn issue<P, L, W, O>(&mut self, driven: &mut Driven<'_, P, L, W, O>)
    where
        P: ?Sized,
        L: Lanes + ?Sized,
        W: ?Sized,
        O: Watch + ?Sized,
    {
        if self.wanted.is_empty() {
            return;
        }
        let at = driven.lanes.wall();
        self.tell_held_up(driven);
        self.wanted.drain(..).for_each(|wanted| driven.observer.issued(wanted, at));
    }
}

#[inline]
fn earliest(a: Option<Nanos>, b: Option<Nanos>) -> Option<Nanos> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
