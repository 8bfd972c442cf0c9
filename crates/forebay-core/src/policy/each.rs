//! A policy of its own for each of several disks.

use super::{Done, Finished, Policy};
use crate::device::Completion;
use crate::request::{Lane, Request};
use crate::time::Nanos;

/// Policies side by side: a request goes to the one of its lane.
#[derive(Clone, Debug)]
pub(super) struct Each<P> {
    lanes: Vec<P>,
    finished: Finished,
}

impl<P: Policy> Each<P> {
    /// One of `lanes` for each disk; each knows its own as lane 0.
    pub(super) fn new(lanes: Vec<P>) -> Each<P> {
        Each { lanes, finished: Finished::new() }
    }
}

impl<P: Policy> Policy for Each<P> {
    fn submit(&mut self, now: Nanos, request: Request) {
        let lane = usize::from(request.lane).min(self.lanes.len() - 1);
        self.lanes[lane].submit(now, Request { lane: 0, ..request });
    }

    fn dispatch(&mut self, now: Nanos, lane: Lane) -> Option<Request> {
        let io = self.lanes.get_mut(usize::from(lane))?.dispatch(now, 0)?;
        Some(Request { lane, ..io })
    }

    fn complete(&mut self, now: Nanos, done: &Completion, finished: &mut Finished) {
        let lane = done.io.lane;
        let beneath = Completion { io: Request { lane: 0, ..done.io }, ..*done };
        self.lanes[usize::from(lane)].complete(now, &beneath, &mut self.finished);
        let whole = |done: Done| Done { request: Request { lane, ..done.request }, ..done };
        finished.extend(self.finished.drain(..).map(whole));
    }

    fn wakeup(&self) -> Option<Nanos> {
        self.lanes.iter().filter_map(Policy::wakeup).min()
    }
}
