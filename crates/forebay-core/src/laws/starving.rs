//! The law on starvation: one stream keeps 32 sequential requests outstanding all the time, and
//! another sends a single request far away. The policy must serve the single request while the
//! stream continues.

use std::collections::VecDeque;

use super::{Bench, Broken, Law, broken};
use crate::contract::{Done, Flags, Nanos, Observer, Op, Policy, Request, Slots, Workload};
use crate::simulate;

/// The number of requests that the greedy stream sends.
const GREEDY: u64 = 60_000;
/// The maximum number of greedy requests served before the victim. A write may wait for its
/// deadline of 5 s; the device serves a thousand I/Os in 0.6 s.
const PASSED_MAX: u64 = GREEDY / 2;

/// Checks that the policy that `build` returns serves a request far from all others. The policy
/// should not merge requests.
///
/// # Errors
/// If the request starves.
pub fn starves<P: Policy>(mut build: impl FnMut() -> P) -> Result<(), Broken> {
    for (op, victim) in [(Op::Read, Op::Write), (Op::Write, Op::Read), (Op::Read, Op::Read)] {
        let mut policy = build();
        let mut passed = Passed::default();
        let mut devices = match policy.servers().len() {
            0 => vec![Bench::new(1), Bench::new(4)],
            _ => Bench::of(&policy, 1),
        };
        simulate::run(&mut policy, &mut devices, &mut Greedy::beside(op, victim), &mut passed);
        let (op, victim) = (op.name(), victim.name());
        match passed.before {
            None => return broken(Law::Starving, format!("a {victim} was never answered")),
            Some(before) if before >= PASSED_MAX => {
                return broken(Law::Starving, format!("{before} {op}s passed a waiting {victim}"));
            }
            Some(_) => (),
        }
    }
    Ok(())
}

struct Greedy {
    ready: VecDeque<Request>,
    issued: u64,
    op: Op,
}

impl Greedy {
    fn beside(op: Op, victim: Op) -> Greedy {
        let mut greedy = Greedy { ready: VecDeque::new(), issued: 0, op };
        (0..32).for_each(|_| greedy.push(Nanos::ZERO));
        greedy.ready.push_back(Request {
            at: Nanos::from_millis(1),
            offset: 1 << 40,
            id: u64::MAX,
            len: 4096,
            stream: 1,
            lane: 0,
            op: victim,
            flags: Flags::NONE,
        });
        greedy
    }

    fn push(&mut self, at: Nanos) {
        if self.issued < GREEDY {
            self.ready.push_back(Request {
                at,
                offset: self.issued * 4096,
                id: self.issued,
                len: 4096,
                stream: 0,
                lane: 0,
                op: self.op,
                flags: Flags::NONE,
            });
            self.issued += 1;
        }
    }
}

impl Workload for Greedy {
    fn peek(&self) -> Option<Nanos> {
        self.ready.front().map(|request| request.at)
    }
    fn take(&mut self) -> Request {
        self.ready.pop_front().expect("peeked")
    }
    fn finished(&mut self, now: Nanos, done: &Done, _slots: &mut dyn Slots) {
        if done.request.stream == 0 {
            self.push(now);
        }
    }
}

/// Counts the greedy requests served before the victim.
#[derive(Default)]
struct Passed {
    greedy: u64,
    before: Option<u64>,
}

impl Observer for Passed {
    fn finished(&mut self, _now: Nanos, done: &Done) {
        match done.request.stream {
            0 => self.greedy += 1,
            _ => self.before = Some(self.greedy),
        }
    }
}
