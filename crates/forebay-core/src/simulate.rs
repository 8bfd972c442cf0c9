//! The driver in virtual time.
//!
//! At each instant completions come first, then arrivals, then the policy is woken if that is due, then
//! every lane with room is offered to it until it declines. Nothing is allocated per request here.

use crate::bytes::Null;
use crate::device::Device;
use crate::observer::Observer;
use crate::policy::{Cx, Finished, Policy};
use crate::request::Lane;
use crate::time::Nanos;
use crate::workload::Workload;

/// Runs `workload` through `policy` on `devices` (lane `i` is `devices[i]`) until nothing is left
/// to do or the workload stops, and returns the time of the last completion, arrival or answer. Nothing is
/// moved: there is no content.
///
/// # Panics
/// If the policy dispatches to a lane other than the one offered: a programmer's error.
pub fn run<P, D, W, O>(
    policy: &mut P,
    devices: &mut [D],
    workload: &mut W,
    observer: &mut O,
) -> Nanos
where
    P: Policy + ?Sized,
    D: Device,
    W: Workload + ?Sized,
    O: Observer + ?Sized,
{
    let (mut now, mut last) = (Nanos::ZERO, Nanos::ZERO);
    let mut finished = Finished::new();
    while let Some(next) = next_event(now, policy, devices, workload) {
        debug_assert!(next >= now, "time runs backwards: {next} after {now}");
        now = next;
        for device in devices.iter_mut() {
            while device.next() == Some(now) {
                let completion = device.finish(now);
                observer.io(&completion);
                policy.complete(
                    &mut Cx { now, slots: &mut Null, finished: &mut finished },
                    &completion,
                );
                answer(now, &mut finished, workload, observer);
                last = now;
            }
        }
        while workload.peek().is_some_and(|at| at <= now) {
            let request = workload.take();
            let bytes = workload.bytes(&request, &mut Null);
            observer.arrived(&request);
            policy.submit(
                &mut Cx { now, slots: &mut Null, finished: &mut finished },
                request,
                bytes,
            );
            answer(now, &mut finished, workload, observer);
            last = now;
        }
        if policy.wakeup().is_some_and(|at| at <= now) {
            policy.wake(&mut Cx { now, slots: &mut Null, finished: &mut finished });
            last = if finished.is_empty() { last } else { now };
            answer(now, &mut finished, workload, observer);
        }
        offer(now, policy, devices);
        if workload.is_stopped() {
            break;
        }
    }
    last
}

/// Tells what a call answered.
#[inline]
fn answer<W, O>(now: Nanos, finished: &mut Finished, workload: &mut W, observer: &mut O)
where
    W: Workload + ?Sized,
    O: Observer + ?Sized,
{
    if finished.is_empty() {
        return;
    }
    for done in finished.drain(..) {
        observer.finished(now, &done);
        workload.finished(now, &done, &mut Null);
    }
}

/// Offers every lane with room until the policy declines.
#[inline]
fn offer<P: Policy + ?Sized, D: Device>(now: Nanos, policy: &mut P, devices: &mut [D]) {
    for (lane, device) in devices.iter_mut().enumerate() {
        while device.room() {
            let Some(io) = policy.dispatch(now, lane as Lane) else { break };
            assert_eq!(usize::from(io.lane), lane, "policy answered for another lane");
            device.start(now, io);
        }
    }
}

/// The earliest of the next completion, the next arrival and, if it lies ahead, the wakeup: one
/// that has passed while every lane was busy is answered by the offer after the next completion.
#[inline]
fn next_event<P, D, W>(now: Nanos, policy: &P, devices: &[D], workload: &W) -> Option<Nanos>
where
    P: Policy + ?Sized,
    D: Device,
    W: Workload + ?Sized,
{
    let mut next = workload.peek();
    for device in devices {
        next = earliest(next, device.next());
    }
    earliest(next, policy.wakeup().filter(|&at| at > now))
}

#[inline]
fn earliest(a: Option<Nanos>, b: Option<Nanos>) -> Option<Nanos> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
