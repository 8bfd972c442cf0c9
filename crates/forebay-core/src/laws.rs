//! The laws that every policy for one device must obey, as a test suite for any policy: the
//! built-in ones in this crate's tests, and users' own policies elsewhere.
//!
//! A run on a [`Bench`] is observed ([`Watch`], [`WakeupChecked`]) and recorded ([`crate::tape`]);
//! the result is the first broken law. Laws concern only the answers to calls, so checking them
//! requires neither data nor a clock. A finite run cannot prove that no request waits forever.

mod bench;
mod cases;
mod starving;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::contract::{Completion, Done, Lane, Nanos, Observer, Policy, Request};
use crate::tape::{Call, Recorder, replay};
use crate::{forward_policy, simulate};

pub use bench::{Bench, LEAST, LEN_MAX, List};
pub use cases::{PLACES, RequestRow, case, laid};
pub use starving::starves;

/// An obligation of a policy to its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// Each request is answered exactly once; [`Law::text`] states every law precisely.
    Once,
    /// No I/O is longer than the device accepts.
    Length,
    /// I/Os transfer exactly the requested bytes.
    Exactly,
    /// No read or write is answered before an I/O could have served it.
    Waited,
    /// When the policy declines to dispatch, its wakeup is in the future.
    Ahead,
    /// The same calls return the same results.
    Same,
    /// No request starves while others overtake it.
    Starving,
}

impl Law {
    /// All laws.
    pub const ALL: [Law; 7] =
        [Law::Once, Law::Length, Law::Exactly, Law::Waited, Law::Ahead, Law::Same, Law::Starving];

    /// Returns the law as a sentence without the final full stop.
    pub fn text(self) -> &'static str {
        match self {
            Law::Once => "each request is answered exactly once, as it was submitted",
            Law::Length => "no I/O is longer than the device accepts",
            Law::Exactly => "I/Os transfer exactly the requested bytes",
            Law::Waited => "no read or write is answered before an I/O could have served it",
            Law::Ahead => "after a policy declines to dispatch, its wakeup is in the future",
            Law::Same => "the same calls return the same results",
            Law::Starving => "no request starves while others overtake it",
        }
    }
}

/// A violation of a law.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The law that was broken.
    pub law: Law,
    /// A description of the violation.
    pub said: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.law.text(), self.said)
    }
}

fn broken<T>(law: Law, said: String) -> Result<T, Broken> {
    Err(Broken { law, said })
}

/// Runs `requests` on a bench of `depth` I/Os through the policy that `build` returns, then makes
/// the same calls to a second instance. Checks every law except [`Law::Starving`].
///
/// # Errors
/// The first law that was broken.
pub fn check<P: Policy>(
    mut build: impl FnMut() -> P,
    requests: &[Request],
    depth: usize,
) -> Result<(), Broken> {
    let mut policy = WakeupChecked::new(Recorder::new(build()));
    let mut watch = Watch::default();
    let mut devices = Bench::of(&policy, depth);
    simulate::run(&mut policy, &mut devices, &mut List::of(requests), &mut watch);
    policy.broken()?;
    let moved = watch.once(requests)?;
    let asked: u64 = requests.iter().map(|request| u64::from(request.len)).sum();
    if moved != asked {
        let text = format!("{asked} bytes were requested and {moved} transferred");
        return broken(Law::Exactly, text);
    }
    same(&mut build(), &policy.policy.calls)
}

/// Makes the recorded calls to a fresh policy and compares the answers.
///
/// # Errors
/// If an answer differs.
pub fn same<P: Policy>(fresh: &mut P, calls: &[Call]) -> Result<(), Broken> {
    replay(fresh, calls).or_else(|index| {
        let call = &calls[index];
        let (name, number, all) = (call.name(), index + 1, calls.len());
        broken(
            Law::Same,
            format!("{name} at {}, call {number} of {all}, was answered differently", call.now()),
        )
    })
}

/// Describes a request in a sentence.
fn told(request: &Request) -> String {
    let Request { id, len, offset, stream, at, .. } = request;
    let op = request.op.name();
    format!("request {id} ({op} of {len} bytes at {offset}, stream {stream}, submitted at {at})")
}

/// Observes a run and checks its I/Os and answers.
#[derive(Default)]
pub struct Watch {
    answers_zeros: bool,
    io_bytes: u64,
    last: Nanos,
    done: Vec<Request>,
    broken: Option<Broken>,
}

impl Watch {
    /// Creates a watch for a policy that answers reads of never-written data without an I/O.
    pub fn of_zeros() -> Watch {
        Watch { answers_zeros: true, ..Watch::default() }
    }

    /// Returns how many bytes the I/Os transferred, if exactly `requests` were answered, each once,
    /// and no law was broken.
    ///
    /// # Errors
    /// The first law that was broken.
    pub fn once(mut self, requests: &[Request]) -> Result<u64, Broken> {
        if let Some(broken) = self.broken {
            return Err(broken);
        }
        self.done.sort_by_key(|request| request.id);
        match self.done.iter().zip(requests).find(|(done, asked)| done != asked) {
            Some((done, asked)) => broken(
                Law::Once,
                format!("expected an answer to {}, got one to {}", told(asked), told(done)),
            ),
            None if self.done.len() == requests.len() => Ok(self.io_bytes),
            None => {
                let (got, expected) = (self.done.len(), requests.len());
                broken(Law::Once, format!("{got} answers to {expected} requests"))
            }
        }
    }

    fn note(&mut self, law: Law, said: impl FnOnce() -> String) {
        if self.broken.is_none() {
            self.broken = Some(Broken { law, said: said() });
        }
    }
}

impl Observer for Watch {
    fn io(&mut self, completion: &Completion) {
        assert!(completion.at >= completion.started && completion.at >= self.last, "time ran back");
        self.last = completion.at;
        let io = completion.io;
        if io.len > LEN_MAX {
            self.note(Law::Length, || {
                format!("it accepts {LEN_MAX} bytes and received {}", told(&io))
            });
        }
        self.io_bytes += u64::from(io.len);
    }

    fn finished(&mut self, now: Nanos, done: &Done) {
        let waits = done.request.op.moves_data() && !self.answers_zeros;
        if done.wait > now - done.request.at || (waits && done.wait < LEAST) {
            self.note(Law::Waited, || {
                let wait = done.wait;
                format!(
                    "{} was answered at {now} and is said to have waited {wait}",
                    told(&done.request)
                )
            });
        }
        self.done.push(done.request);
    }
}

/// Wraps a policy and checks its wakeup each time that it declines to dispatch.
pub struct WakeupChecked<P> {
    policy: P,
    broken: Option<Broken>,
}

impl<P: Policy> WakeupChecked<P> {
    /// Wraps `policy`.
    pub fn new(policy: P) -> Self {
        WakeupChecked { policy, broken: None }
    }

    /// Returns the violation if a wakeup was not in the future.
    ///
    /// # Errors
    /// The first such violation.
    pub fn broken(&self) -> Result<(), Broken> {
        self.broken.clone().map_or(Ok(()), Err)
    }
}

impl<P> std::ops::Deref for WakeupChecked<P> {
    type Target = P;
    fn deref(&self) -> &P {
        &self.policy
    }
}

impl<P: Policy> Policy for WakeupChecked<P> {
    forward_policy!(self => self.policy; submit complete wakeup wake pieces begin_stream servers);

    fn dispatch(&mut self, now: Nanos, lane: Lane) -> Option<Request> {
        let io = self.policy.dispatch(now, lane);
        let past = self.policy.wakeup().filter(|&at| io.is_none() && at <= now);
        if let (Some(at), None) = (past, &self.broken) {
            let said = format!("at {now} nothing was dispatched and the wakeup was {at}");
            self.broken = Some(Broken { law: Law::Ahead, said });
        }
        io
    }
}
