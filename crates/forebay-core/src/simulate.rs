//! The driver in virtual time.
//!
//! At each instant, the driver processes completions first, then arrivals. It then wakes the policy
//! if that is due, and requests I/Os for every lane that accepts one until the policy declines.
//! Nothing is allocated per request.

use crate::contract::{Cx, Device, Finished, Lane, Nanos, Null, Observer, Policy, Workload};

/// Runs `workload` through `policy` on `devices` (lane `i` is `devices[i]`) until all work is done
/// or the workload stops. Returns the time of the last completion, arrival or answer. No data is
/// transferred.
///
/// # Panics
/// If the policy dispatches to a lane other than the requested one, which is a bug in the policy.
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
        let cx = &mut Cx { now, slots: &mut Null, finished: &mut finished };
        for device in devices.iter_mut() {
            while device.next() == Some(now) {
                let completion = device.finish(now);
                observer.io(&completion);
                policy.complete(cx, &completion);
                answer(cx, workload, observer);
                last = now;
            }
        }
        while workload.peek().is_some_and(|at| at <= now) {
            let request = workload.take();
            let bytes = workload.bytes(&request, cx.slots);
            observer.arrived(&request);
            policy.submit(cx, request, bytes);
            answer(cx, workload, observer);
            last = now;
        }
        if policy.wakeup().is_some_and(|at| at <= now) {
            policy.wake(cx);
            last = if cx.finished.is_empty() { last } else { now };
            answer(cx, workload, observer);
        }
        offer(now, policy, devices);
        if workload.is_stopped() {
            break;
        }
    }
    last
}

/// Passes the answers of a call to the workload and the observer.
#[inline]
fn answer<W, O>(cx: &mut Cx<'_>, workload: &mut W, observer: &mut O)
where
    W: Workload + ?Sized,
    O: Observer + ?Sized,
{
    let Cx { now, slots, finished } = cx;
    for done in finished.drain(..) {
        observer.finished(*now, &done);
        workload.finished(*now, &done, *slots);
    }
}

/// Requests I/Os for every lane that accepts one until the policy declines.
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

/// Returns the earliest of the next completion, the next arrival and the wakeup. A wakeup that
/// passed while every lane was busy is ignored, because the policy will be asked after the next
/// completion.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{Bytes, Completion, Done, Flags, Op, Piece, Request};
    use crate::device::fixed::Fixed;

    /// Answers trims immediately, writes when woken 5 ns later, and reads after an I/O. Also
    /// requests a wakeup at 5 s, which does nothing.
    #[derive(Default)]
    struct Late {
        writes: Vec<Request>,
        reads: Vec<Request>,
        begun: Option<Request>,
        at: Option<Nanos>,
    }

    fn tell(cx: &mut Cx<'_>, request: Request) {
        cx.finished.push(Done::at_once(request, Ok(())));
    }

    impl Policy for Late {
        fn submit(&mut self, cx: &mut Cx<'_>, request: Request, _bytes: Bytes) {
            match request.op {
                Op::Read => self.reads.push(request),
                Op::Write => {
                    self.writes.push(request);
                    self.at = Some(cx.now + Nanos(5));
                }
                _ => tell(cx, request),
            }
        }
        fn dispatch(&mut self, _now: Nanos, _lane: Lane) -> Option<Request> {
            self.begun = self.reads.pop();
            self.begun
        }
        fn complete(&mut self, cx: &mut Cx<'_>, done: &Completion) {
            tell(cx, done.io);
        }
        fn wakeup(&self) -> Option<Nanos> {
            self.at
        }
        fn wake(&mut self, cx: &mut Cx<'_>) {
            let end = Nanos::from_secs(5);
            self.at = Some(end).filter(|at| *at > cx.now);
            self.writes.drain(..).for_each(|write| tell(cx, write));
        }
        fn pieces(&self, _io: &Request, _each: &mut dyn FnMut(Piece)) {}
    }

    #[derive(Default)]
    struct Few {
        left: Vec<Request>,
        told: Vec<(u64, Nanos)>,
        stops_after: usize,
    }

    impl Workload for Few {
        fn peek(&self) -> Option<Nanos> {
            self.left.last().map(|request| request.at)
        }
        fn take(&mut self) -> Request {
            self.left.pop().unwrap()
        }
        fn finished(
            &mut self,
            now: Nanos,
            done: &Done,
            _slots: &mut dyn crate::contract::bytes::Slots,
        ) {
            self.told.push((done.request.id, now));
        }
        fn is_stopped(&self) -> bool {
            self.told.len() >= self.stops_after
        }
    }

    /// Runs operations at these times on a device of 1000 IOPS. Returns the reported completions
    /// and the end of the run.
    fn told(ops: &[(u64, Op)], stops_after: usize) -> (Vec<(u64, Nanos)>, Nanos) {
        let request = |(id, &(at, op)): (usize, &(u64, Op))| {
            let (at, id, flags) = (Nanos(at), id as u64, Flags::NONE);
            Request { at, offset: 0, id, len: 512, stream: 0, lane: 0, op, flags }
        };
        let left = ops.iter().enumerate().map(request).rev().collect();
        let mut few = Few { left, stops_after, ..Few::default() };
        let mut devices = [Fixed::new(1000.0).unwrap()];
        let end = run(&mut Late::default(), &mut devices, &mut few, &mut ());
        (few.told, end)
    }

    #[test]
    fn a_run_ends_with_its_last_event_even_if_wake_ups_are_pending() {
        // The wakeup at 15 ns answers the write; the one at 5 s must not extend the run.
        let write = told(&[(10, Op::Write)], 9);
        assert_eq!(write, (vec![(0, Nanos(15))], Nanos(15)));
        let read = told(&[(10, Op::Write), (20, Op::Read)], 9);
        let done = Nanos(1_000_020);
        assert_eq!(read, (vec![(0, Nanos(15)), (1, done)], done));
        let trim = told(&[(10, Op::Read), (2_000_000, Op::Trim)], 9);
        assert_eq!(trim, (vec![(0, Nanos(1_000_010)), (1, Nanos(2_000_000))], Nanos(2_000_000)));
    }

    #[test]
    fn a_workload_may_stop_a_run() {
        let all = [(10, Op::Trim), (20, Op::Trim), (30, Op::Trim)];
        assert_eq!(told(&all, 2), (vec![(0, Nanos(10)), (1, Nanos(20))], Nanos(20)));
    }
}
