//! Records and replays calls to policies, to test that policies are pure.
//!
//! A [`Recorder`] records every call to a policy with its answer; [`replay`] makes the same calls
//! to a new instance and fails at the first different answer.

use crate::contract::{Bytes, Completion, Cx, Done, Finished, Lane, Nanos, Null, Policy, Request};
use crate::forward_policy;

/// One call to a policy, with its answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// A call of [`Policy::submit`], and the requests that it answered.
    Submit(Nanos, Request, Vec<Done>),
    /// A call of [`Policy::dispatch`], and the I/O that it returned.
    Dispatch(Nanos, Lane, Option<Request>),
    /// A call of [`Policy::complete`], and the requests that it answered.
    Complete(Nanos, Completion, Vec<Done>),
    /// A call of [`Policy::wake`], and the requests that it answered.
    Wake(Nanos, Vec<Done>),
}

impl Call {
    /// Returns the name of the method.
    pub fn name(&self) -> &'static str {
        match self {
            Call::Submit(..) => "submit",
            Call::Dispatch(..) => "dispatch",
            Call::Complete(..) => "complete",
            Call::Wake(..) => "wake",
        }
    }

    /// Returns the time of the call.
    pub fn now(&self) -> Nanos {
        match *self {
            Call::Submit(now, ..)
            | Call::Dispatch(now, ..)
            | Call::Complete(now, ..)
            | Call::Wake(now, _) => now,
        }
    }
}

/// Wraps a policy and records all calls to it.
pub struct Recorder<P> {
    policy: P,
    /// The calls so far.
    pub calls: Vec<Call>,
}

impl<P: Policy> Recorder<P> {
    /// Records the calls to `policy` and its answers.
    pub fn new(policy: P) -> Self {
        Recorder { policy, calls: Vec::new() }
    }
}

impl<P: Policy> Policy for Recorder<P> {
    forward_policy!(self => self.policy; pieces wakeup begin_stream figures gauges classes servers);

    fn submit(&mut self, cx: &mut Cx<'_>, request: Request, bytes: Bytes) {
        let before = cx.finished.len();
        self.policy.submit(cx, request, bytes);
        self.calls.push(Call::Submit(cx.now, request, cx.finished[before..].to_vec()));
    }

    fn dispatch(&mut self, now: Nanos, lane: Lane) -> Option<Request> {
        let io = self.policy.dispatch(now, lane);
        self.calls.push(Call::Dispatch(now, lane, io));
        io
    }

    fn complete(&mut self, cx: &mut Cx<'_>, done: &Completion) {
        let before = cx.finished.len();
        self.policy.complete(cx, done);
        self.calls.push(Call::Complete(cx.now, *done, cx.finished[before..].to_vec()));
    }

    fn wake(&mut self, cx: &mut Cx<'_>) {
        let before = cx.finished.len();
        self.policy.wake(cx);
        self.calls.push(Call::Wake(cx.now, cx.finished[before..].to_vec()));
    }
}

/// Makes the recorded calls to `policy`, without data.
///
/// # Errors
/// Returns the index of the first call with a different answer.
pub fn replay<P: Policy>(policy: &mut P, calls: &[Call]) -> Result<(), usize> {
    let mut finished = Finished::new();
    for (index, call) in calls.iter().enumerate() {
        finished.clear();
        let now = call.now();
        let cx = &mut Cx { now, slots: &mut Null, finished: &mut finished };
        let same = match call {
            Call::Submit(_, request, expected) => {
                policy.submit(cx, *request, Bytes::NONE);
                finished == *expected
            }
            Call::Dispatch(_, lane, io) => policy.dispatch(now, *lane) == *io,
            Call::Complete(_, done, expected) => {
                policy.complete(cx, done);
                finished == *expected
            }
            Call::Wake(_, expected) => {
                policy.wake(cx);
                finished == *expected
            }
        };
        if !same {
            return Err(index);
        }
    }
    Ok(())
}
