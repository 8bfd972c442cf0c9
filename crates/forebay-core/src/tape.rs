//! Record and replay: the purity test of policies.
//!
//! A [`Recorder`] writes down every call to a policy with its answer; [`replay`] makes the same
//! calls to a fresh one and fails at the first different answer.

use crate::device::Completion;
use crate::policy::{Class, Done, Figure, Finished, Policy};
use crate::request::{Lane, Request};
use crate::time::Nanos;

/// One call to a policy, with its answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// [`Policy::submit`].
    Submit(Nanos, Request),
    /// [`Policy::dispatch`] and the I/O it gave.
    Dispatch(Nanos, Lane, Option<Request>),
    /// [`Policy::complete`] and the requests it finished.
    Complete(Nanos, Completion, Vec<Done>),
}

/// A policy that is written down while it works.
pub struct Recorder<P> {
    policy: P,
    /// The calls so far.
    pub calls: Vec<Call>,
}

impl<P: Policy> Recorder<P> {
    /// Writes down what `policy` is asked and answers.
    pub fn new(policy: P) -> Self {
        Recorder { policy, calls: Vec::new() }
    }
}

impl<P: Policy> Policy for Recorder<P> {
    fn submit(&mut self, now: Nanos, request: Request) {
        self.policy.submit(now, request);
        self.calls.push(Call::Submit(now, request));
    }

    fn dispatch(&mut self, now: Nanos, lane: Lane) -> Option<Request> {
        let io = self.policy.dispatch(now, lane);
        self.calls.push(Call::Dispatch(now, lane, io));
        io
    }

    fn complete(&mut self, now: Nanos, done: &Completion, finished: &mut Finished) {
        let before = finished.len();
        self.policy.complete(now, done, finished);
        self.calls.push(Call::Complete(now, *done, finished[before..].to_vec()));
    }

    fn wakeup(&self) -> Option<Nanos> {
        self.policy.wakeup()
    }

    fn figures(&self) -> Vec<Figure> {
        self.policy.figures()
    }

    fn classes(&self) -> &[Class] {
        self.policy.classes()
    }

    fn servers(&self) -> &[u64] {
        self.policy.servers()
    }
}

/// Makes the recorded calls to `policy`; gives the index of the first call answered differently.
pub fn replay<P: Policy>(policy: &mut P, calls: &[Call]) -> Result<(), usize> {
    let mut finished = Finished::new();
    for (index, call) in calls.iter().enumerate() {
        let same = match call {
            Call::Submit(now, request) => {
                policy.submit(*now, *request);
                true
            }
            Call::Dispatch(now, lane, io) => policy.dispatch(*now, *lane) == *io,
            Call::Complete(now, done, expected) => {
                finished.clear();
                policy.complete(*now, done, &mut finished);
                finished == *expected
            }
        };
        if !same {
            return Err(index);
        }
    }
    Ok(())
}
