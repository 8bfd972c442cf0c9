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
    let mut run = Run { policy, lanes, workload, observer, pass: Pass::default() };
    let mut next = run.workload.peek();
    loop {
        let now = run.lanes.reap(next.unwrap_or(Nanos::MAX), &mut run.pass.ended)?;
        let wall = run.lanes.wall();
        run.tell_held_up();
        let mut asks = run.pass.wakeup.is_some_and(|at| at <= now);
        asks |= run.complete(now, wall);
        let stopping = run.workload.is_stopped() || run.observer.stops(wall);
        if !stopping {
            asks |= run.arrive(now, wall);
            if asks {
                run.wake(now, wall);
                run.offer(now);
                run.pass.wakeup = run.policy.wakeup().filter(|&at| at > now);
            }
            run.issue();
        }
        let coming = run.workload.peek();
        next = if stopping { None } else { earliest(coming, run.pass.wakeup) };
        let over = stopping || next.is_none() && run.workload.is_over();
        if over && run.lanes.in_flight() == 0 {
            return Ok(run.pass.last);
        }
        run.lanes.proceed(next.unwrap_or(Nanos::MAX).min(wall + TICK))?;
    }
}

/// The participants of a run, and the state of its loop.
struct Run<'a, P: ?Sized, L: ?Sized, W: ?Sized, O: ?Sized> {
    policy: &'a mut P,
    lanes: &'a mut L,
    workload: &'a mut W,
    observer: &'a mut O,
    pass: Pass,
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

impl<P, L, W, O> Run<'_, P, L, W, O>
where
    P: Policy + ?Sized,
    L: Lanes + ?Sized,
    W: Workload + ?Sized,
    O: Watch + ?Sized,
{
    /// Reports completed I/Os to all participants; returns whether there were any.
    #[inline]
    fn complete(&mut self, now: Nanos, wall: Nanos) -> bool {
        let ended = mem::take(&mut self.pass.ended);
        for Ended { completion, failure } in &ended {
            if let Some(failure) = failure {
                self.observer.failed(now, &completion.io, *failure);
            }
            self.observer.io(completion);
            let (slots, finished) = (self.lanes.slots(), &mut self.pass.finished);
            self.policy.complete(&mut Cx { now, slots, finished }, completion);
            self.answer(now, wall);
            self.pass.last = now;
        }
        let any = !ended.is_empty();
        self.pass.ended = ended;
        self.pass.ended.clear();
        any
    }

    /// Passes arrived requests to the policy; returns whether there were any.
    #[inline]
    fn arrive(&mut self, now: Nanos, wall: Nanos) -> bool {
        while self.workload.peek().is_some_and(|at| at <= now) {
            let request = self.workload.take();
            let bytes = self.workload.bytes(&request, self.lanes.slots());
            self.pass.wanted.push(request.at);
            self.pass.last = now;
            self.observer.arrived(&request);
            let (slots, finished) = (self.lanes.slots(), &mut self.pass.finished);
            self.policy.submit(&mut Cx { now, slots, finished }, request, bytes);
            self.answer(now, wall);
        }
        !self.pass.wanted.is_empty()
    }

    /// Wakes the policy if that is due.
    #[inline]
    fn wake(&mut self, now: Nanos, wall: Nanos) {
        if self.policy.wakeup().is_some_and(|at| at <= now) {
            let (slots, finished) = (self.lanes.slots(), &mut self.pass.finished);
            self.policy.wake(&mut Cx { now, slots, finished });
            self.pass.last = if self.pass.finished.is_empty() { self.pass.last } else { now };
            self.answer(now, wall);
        }
    }

    /// Reports the answers that the policy gave when it was called.
    #[inline]
    fn answer(&mut self, now: Nanos, wall: Nanos) {
        for done in self.pass.finished.drain(..) {
            self.observer.finished(wall, &done);
            self.workload.finished(now, &done, self.lanes.slots());
        }
    }

    /// Offers every lane that accepts I/Os to the policy until it declines.
    #[inline]
    fn offer(&mut self, now: Nanos) {
        let pieces = &mut self.pass.pieces;
        for lane in 0..self.lanes.count() as Lane {
            while self.lanes.room(lane) {
                let Some(io) = self.policy.dispatch(now, lane) else { break };
                assert_eq!(io.lane, lane, "policy answered for another lane");
                pieces.clear();
                self.policy.pieces(&io, &mut |piece| pieces.push(piece));
                self.lanes.start(now, io, pieces);
                self.observer.started(now, &io);
            }
        }
    }

    /// Reports what delayed the driver. This precedes the report of late I/Os.
    #[inline]
    fn tell_held_up(&mut self) {
        if let Some((from, to)) = self.lanes.held_up() {
            self.observer.held_up(from, to);
        }
    }

    /// Reports how late this pass's arrivals are.
    #[inline]
    fn issue(&mut self) {
        if self.pass.wanted.is_empty() {
            return;
        }
        let at = self.lanes.wall();
        self.tell_held_up();
        self.pass.wanted.drain(..).for_each(|wanted| self.observer.issued(wanted, at));
    }
}

#[inline]
fn earliest(a: Option<Nanos>, b: Option<Nanos>) -> Option<Nanos> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
