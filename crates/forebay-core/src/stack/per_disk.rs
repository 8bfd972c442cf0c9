//! A separate policy for each of several disks.

use crate::contract::{Bytes, Completion, Cx, Finished, Lane, Nanos, Piece, Policy, Request};

/// A separate policy for each lane, which handles the requests of that lane.
#[derive(Clone, Debug)]
pub(crate) struct PerDisk<P> {
    lanes: Vec<P>,
    finished: Finished,
}

impl<P: Policy> PerDisk<P> {
    /// Creates a policy for several disks. Each of `lanes` handles one disk and sees it as lane 0.
    pub(crate) fn new(lanes: Vec<P>) -> PerDisk<P> {
        PerDisk { lanes, finished: Finished::new() }
    }

    /// Passes on the answers of the policy of `lane`.
    fn answer(&mut self, lane: Lane, cx: &mut Cx<'_>) {
        for mut done in self.finished.drain(..) {
            done.request.lane = lane;
            cx.finished.push(done);
        }
    }
}

impl<P: Policy> Policy for PerDisk<P> {
    fn submit(&mut self, cx: &mut Cx<'_>, request: Request, bytes: Bytes) {
        let lane = usize::from(request.lane).min(self.lanes.len() - 1);
        let beneath = &mut cx.beneath(&mut self.finished);
        self.lanes[lane].submit(beneath, Request { lane: 0, ..request }, bytes);
        self.answer(lane as Lane, cx);
    }

    fn dispatch(&mut self, now: Nanos, lane: Lane) -> Option<Request> {
        let io = self.lanes.get_mut(usize::from(lane))?.dispatch(now, 0)?;
        Some(Request { lane, ..io })
    }

    fn complete(&mut self, cx: &mut Cx<'_>, done: &Completion) {
        let lane = done.io.lane;
        let done = Completion { io: Request { lane: 0, ..done.io }, ..*done };
        self.lanes[usize::from(lane)].complete(&mut cx.beneath(&mut self.finished), &done);
        self.answer(lane, cx);
    }

    fn wakeup(&self) -> Option<Nanos> {
        self.lanes.iter().filter_map(Policy::wakeup).min()
    }

    fn wake(&mut self, cx: &mut Cx<'_>) {
        for lane in 0..self.lanes.len() {
            if self.lanes[lane].wakeup().is_some_and(|at| at <= cx.now) {
                self.lanes[lane].wake(&mut cx.beneath(&mut self.finished));
                self.answer(lane as Lane, cx);
            }
        }
    }

    fn pieces(&self, io: &Request, each: &mut dyn FnMut(Piece)) {
        self.lanes[usize::from(io.lane)].pieces(&Request { lane: 0, ..*io }, each);
    }

    fn begin_stream(&mut self, stream: u32) {
        self.lanes.iter_mut().for_each(|policy| policy.begin_stream(stream));
    }
}

#[cfg(test)]
mod tests {
    use super::super::link::Link;
    use super::*;
    use crate::contract::{Flags, Nanos, Null, Op};
    use crate::elevator::{BlockLayer, Limits, Noop};

    #[test]
    fn every_lane_is_woken_and_answers_its_own_requests() {
        let layer = || BlockLayer::new(Noop::default(), Limits::default());
        let mut each =
            PerDisk::new(vec![Link::new(layer(), Nanos(9)), Link::new(layer(), Nanos(4))]);
        let (at, offset, stream) = (Nanos::ZERO, 0, 0);
        let read = |lane| {
            let (id, op, flags) = (u64::from(lane), Op::Read, Flags::NONE);
            Request { at, offset, id, len: 512, stream, lane, op, flags }
        };
        let mut finished = Finished::new();
        let mut cx = Cx { now: at, slots: &mut Null, finished: &mut finished };
        for lane in [0, 1] {
            each.submit(&mut cx, read(lane), Bytes::NONE);
        }
        for (lane, due) in [(1, 4), (0, 9)] {
            assert_eq!(each.wakeup(), Some(Nanos(due)));
            cx.now = Nanos(due);
            each.wake(&mut cx);
            let io = each.dispatch(cx.now, lane).unwrap();
            let (started, at, mechanics) = (cx.now, cx.now, Default::default());
            each.complete(&mut cx, &Completion { io, started, at, mechanics, outcome: Ok(()) });
        }
        let asked: Vec<Request> = finished.iter().map(|done| done.request).collect();
        assert_eq!(asked, [read(1), read(0)]);
    }
}
