//! For each law, a policy that breaks it, and a test that the law detects this.

use std::collections::VecDeque;

use super::*;
use crate::contract::RequestId;
use crate::{Bytes, Cx, Piece};

/// A FIFO scheduler that does not split or merge requests and breaks at most one law.
#[derive(Clone)]
struct FaultyFifo {
    law: Option<Law>,
    queue: VecDeque<Request>,
    head: u64,
    calls: u64,
    now: Nanos,
}

fn wrong(law: Option<Law>) -> impl FnMut() -> FaultyFifo {
    let mut built = 0;
    move || {
        built += 1;
        FaultyFifo { law, queue: VecDeque::new(), head: 0, calls: built, now: Nanos::ZERO }
    }
}

impl FaultyFifo {
    fn nearest(&self) -> Option<usize> {
        (0..self.queue.len()).min_by_key(|&at| self.queue[at].offset.abs_diff(self.head))
    }

    fn answer(&self, cx: &mut Cx<'_>, request: Request, wait: Nanos) {
        cx.finished.push(Done { request, wait, held: Nanos::ZERO, outcome: Ok(()), class: 0 });
    }
}

/// The id of a second I/O for the same request.
const TWICE: RequestId = 3;

impl Policy for FaultyFifo {
    fn submit(&mut self, cx: &mut Cx<'_>, request: Request, _bytes: Bytes) {
        self.queue.push_back(request);
        if self.law == Some(Law::Waited) {
            self.answer(cx, request, Nanos::ZERO);
        }
    }

    fn dispatch(&mut self, now: Nanos, lane: Lane) -> Option<Request> {
        self.now = now;
        self.calls += 1;
        if lane > 0 || (self.law == Some(Law::Ahead) && self.calls == 2) {
            return None;
        }
        let at = match self.law {
            Some(Law::Starving) => self.nearest()?,
            Some(Law::Same) if self.calls.is_multiple_of(3) => self.queue.len().checked_sub(1)?,
            _ => 0,
        };
        let mut io = self.queue.remove(at)?;
        self.head = io.end();
        match self.law {
            Some(Law::Length) => io.len += LEN_MAX,
            Some(Law::Exactly) => io.len = io.len.saturating_sub(512),
            _ => (),
        }
        Some(io)
    }

    fn complete(&mut self, cx: &mut Cx<'_>, done: &Completion) {
        let mut request = done.io;
        match self.law {
            Some(Law::Waited) => return,
            Some(Law::Length) => request.len -= LEN_MAX,
            Some(Law::Exactly) if request.len > 0 || request.op.moves_data() => request.len += 512,
            _ => (),
        }
        self.answer(cx, request, cx.now - request.at);
        if self.law == Some(Law::Once) && request.id == TWICE {
            self.answer(cx, request, cx.now - request.at);
        }
    }

    fn wakeup(&self) -> Option<Nanos> {
        (self.law == Some(Law::Ahead)).then_some(self.now)
    }

    fn pieces(&self, _io: &Request, _each: &mut dyn FnMut(Piece)) {}
}

/// Returns requests that fit into one I/O, so that policies need not split them.
fn short() -> Vec<Request> {
    let mut requests = case(1, 60);
    requests.iter_mut().filter(|it| it.op.moves_data()).for_each(|it| it.len = it.len.min(LEN_MAX));
    requests
}

#[test]
fn each_law_catches_a_violation() {
    assert_eq!(check(wrong(None), &short(), 2), Ok(()));
    for law in Law::ALL {
        let caught = match law {
            Law::Starving => starves(wrong(Some(law))),
            _ => check(wrong(Some(law)), &short(), 2),
        };
        assert_eq!(caught.map_err(|broken| broken.law), Err(law));
    }
    assert_eq!(starves(wrong(None)), Ok(()));
}

#[test]
fn cases_are_deterministic() {
    assert_eq!(case(7, 50), case(7, 50));
    assert_ne!(case(7, 50), case(8, 50));
    let many = case(1, 2000);
    assert!(many.iter().all(|it| it.op != crate::Op::Trim || it.len <= LEN_MAX));
    assert!(many.iter().any(|it| it.op == crate::Op::Flush && it.len == 0));
    assert!(many.windows(2).any(|pair| pair[0].at == pair[1].at));
}
