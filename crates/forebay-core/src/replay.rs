//! Replay: recorded requests as workloads, open, closed and dependent ([`Dependent`]).
//!
//! *Open*: every request arrives at its recorded time. *Closed*: each request is issued a think
//! time after an earlier request of its stream completes in this run. The earlier request is the
//! last one of the stream that had completed in the recording before this request was issued, and
//! the recording also determines the think time. A stream keeps its order and has at most as many
//! outstanding requests as in the recording. On a device with the recorded latencies, closed replay
//! reproduces the recorded arrivals.

mod dependent;
mod lag;

pub use dependent::{AHEAD_MAX, Dependent};
pub use lag::Lag;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::contract::{Done, Nanos, Request, Slots, Workload};
use crate::slab::Slab;

/// Scales recorded time: arrivals and think times are divided by the intensity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Intensity(f64);

impl Intensity {
    /// The recorded speed.
    pub const RECORDED: Intensity = Intensity(1.0);

    /// Returns an intensity of `times` the recorded speed; `None` unless `times` is from 1e-6 to
    /// 1e12.
    pub fn new(times: f64) -> Option<Intensity> {
        (1e-6..=1e12).contains(&times).then_some(Intensity(times))
    }

    /// Returns the factor relative to the recorded speed.
    pub fn times(self) -> f64 {
        self.0
    }

    #[inline]
    fn scale(self, span: Nanos) -> Nanos {
        if self.0 == 1.0 { span } else { Nanos((span.0 as f64 / self.0).round() as u64) }
    }
}

/// Open replay of requests in time order.
#[derive(Clone, Debug)]
pub struct Open<I> {
    requests: I,
    next: Option<Request>,
    intensity: Intensity,
}

impl<I: Iterator<Item = Request>> Open<I> {
    /// Replays `requests`, whose times must not decrease.
    pub fn new(requests: impl IntoIterator<IntoIter = I>, intensity: Intensity) -> Self {
        let mut open = Open { requests: requests.into_iter(), next: None, intensity };
        open.advance();
        open
    }

    /// Returns the source of the requests.
    pub fn source(&self) -> &I {
        &self.requests
    }

    #[inline]
    fn advance(&mut self) {
        self.next = self.requests.next().map(|mut request| {
            request.at = self.intensity.scale(request.at);
            request
        });
    }
}

impl<I: Iterator<Item = Request>> Workload for Open<I> {
    #[inline]
    fn peek(&self) -> Option<Nanos> {
        self.next.as_ref().map(|request| request.at)
    }

    #[inline]
    fn take(&mut self) -> Request {
        let request = self.next.expect("take() is called only after peek() gave a time");
        self.advance();
        request
    }
}

/// The properties of a recorded request that later requests depend on.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// When the request finished in this run.
    finished: Option<Nanos>,
    /// The number of remaining users: the recording, the run, and each request that waits for this
    /// one.
    references: u32,
}

/// A request that has been read but not issued.
#[derive(Clone, Copy, Debug)]
struct Pending {
    request: Request,
    key: u32,
    predecessor: Option<u32>,
    think: Nanos,
    /// The number of the stream's requests that were outstanding when this one was recorded.
    outstanding: u32,
}

/// The state of one stream in the run.
#[derive(Clone, Debug, Default)]
struct Lineup {
    pending: VecDeque<Pending>,
    outstanding: u32,
    /// The earliest time to issue the next request: when the previous one was issued, or the latest
    /// completion.
    not_before: Nanos,
    /// Whether its first pending request is in the heap of ready requests.
    ready: bool,
}

/// Closed replay. Holds the whole trace in memory (about 80 bytes per request).
#[derive(Clone, Debug)]
pub struct Closed {
    streams: Vec<Lineup>,
    known: Slab<Known>,
    ready: BinaryHeap<Reverse<(Nanos, u64, u32)>>,
    /// The key of each issued request, indexed by the id with which it was issued.
    issued: Slab<u32>,
}

impl Closed {
    /// Replays `recorded` requests in time order, each with its recorded latency.
    pub fn new(
        recorded: impl IntoIterator<Item = (Request, Nanos)>,
        intensity: Intensity,
    ) -> Closed {
        let mut closed = Closed {
            streams: Vec::new(),
            known: Slab::default(),
            ready: BinaryHeap::new(),
            issued: Slab::default(),
        };
        let mut recording = Vec::new();
        for (request, latency) in recorded {
            closed.load(&mut recording, request, latency, intensity);
        }
        for stream in recording {
            let left = stream.running.iter().map(|Reverse((_, key))| *key);
            for key in left.chain(stream.last) {
                closed.release(key);
            }
        }
        for stream in 0..closed.streams.len() {
            closed.consider(stream);
        }
        closed
    }

    fn load(
        &mut self,
        recording: &mut Vec<Recording>,
        request: Request,
        latency: Nanos,
        intensity: Intensity,
    ) {
        let stream = request.stream as usize;
        if stream >= self.streams.len() {
            self.streams.resize_with(stream + 1, Lineup::default);
            recording.resize_with(stream + 1, Recording::default);
        }
        let past = &mut recording[stream];
        while let Some(&Reverse((at, key))) = past.running.peek()
            && at <= request.at
        {
            past.running.pop();
            past.last_at = at;
            if let Some(superseded) = past.last.replace(key) {
                self.release(superseded);
            }
        }
        let past = &mut recording[stream];
        if let Some(key) = past.last {
            self.known[key].references += 1;
        }
        // The recording and the run each hold one reference.
        let key = self.known.insert(Known { finished: None, references: 2 });
        let since = if past.last.is_some() { past.last_at } else { Nanos::ZERO };
        self.streams[stream].pending.push_back(Pending {
            request,
            key,
            predecessor: past.last,
            think: intensity.scale(request.at - since),
            outstanding: past.running.len() as u32,
        });
        past.running.push(Reverse((request.at + latency, key)));
    }

    fn release(&mut self, key: u32) {
        let known = &mut self.known[key];
        known.references -= 1;
        if known.references == 0 {
            self.known.remove(key);
        }
    }

    /// Adds the first pending request of `stream` to the heap if nothing prevents it from being
    /// issued.
    fn consider(&mut self, stream: usize) {
        let lineup = &mut self.streams[stream];
        let Some(head) = lineup.pending.front() else { return };
        if lineup.ready || lineup.outstanding > head.outstanding {
            return;
        }
        let since = match head.predecessor {
            None => Nanos::ZERO,
            Some(key) => match self.known[key].finished {
                None => return,
                Some(at) => at,
            },
        };
        lineup.ready = true;
        let at = (since + head.think).max(lineup.not_before);
        // Simultaneous requests are issued in the recorded order.
        self.ready.push(Reverse((at, head.request.id, stream as u32)));
    }
}

/// The state of one stream while the recording is loaded.
#[derive(Default)]
struct Recording {
    /// The completion times of outstanding requests.
    running: BinaryHeap<Reverse<(Nanos, u32)>>,
    /// The request that completed last, and the time of its completion.
    last: Option<u32>,
    last_at: Nanos,
}

impl Workload for Closed {
    fn peek(&self) -> Option<Nanos> {
        self.ready.peek().map(|Reverse((at, _, _))| *at)
    }

    fn take(&mut self) -> Request {
        let Reverse((at, _, stream)) =
            self.ready.pop().expect("take() is called only after peek() gave a time");
        let lineup = &mut self.streams[stream as usize];
        let head = lineup.pending.pop_front().expect("a ready stream has a head");
        lineup.ready = false;
        lineup.outstanding += 1;
        lineup.not_before = at;
        if let Some(key) = head.predecessor {
            self.release(key);
        }
        let id = self.issued.insert(head.key);
        self.consider(stream as usize);
        Request { at, id: u64::from(id), ..head.request }
    }

    fn finished(&mut self, now: Nanos, done: &Done, _slots: &mut dyn Slots) {
        let key = self.issued.remove(done.request.id as u32);
        self.known[key].finished = Some(now);
        self.release(key);
        let stream = done.request.stream as usize;
        let lineup = &mut self.streams[stream];
        lineup.outstanding -= 1;
        lineup.not_before = lineup.not_before.max(now);
        self.consider(stream);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{Flags, Null, Op};
    use proptest::prelude::*;

    fn request(id: u64, at: u64, stream: u32) -> Request {
        Request {
            at: Nanos(at),
            offset: id * 4096,
            id,
            len: 4096,
            stream,
            lane: 0,
            op: Op::Read,
            flags: Flags::NONE,
        }
    }

    /// Runs a workload on a device with the given `latency` for each request, indexed by the
    /// request's offset. Returns the arrival times in recorded order.
    fn arrivals(workload: &mut impl Workload, latency: &[u64]) -> Vec<u64> {
        let mut arrived = vec![u64::MAX; latency.len()];
        let mut running: Vec<(Nanos, Request)> = Vec::new();
        loop {
            running.sort_by_key(|&(at, request)| Reverse((at, request.offset)));
            let next_done = running.last().map(|&(at, _)| at);
            match (next_done, workload.peek()) {
                (None, None) => return arrived,
                (Some(done), arrival) if arrival.is_none_or(|arrival| done <= arrival) => {
                    let (_, request) = running.pop().unwrap();
                    let told = Done::at_once(request, Ok(()));
                    workload.finished(done, &told, &mut Null);
                }
                _ => {
                    let request = workload.take();
                    let index = (request.offset / 4096) as usize;
                    arrived[index] = request.at.0;
                    running.push((request.at + Nanos(latency[index]), request));
                }
            }
        }
    }

    proptest! {
        /// On a device with the recorded latencies, closed replay must reproduce the recorded
        /// arrivals.
        #[test]
        fn recorded_latencies_reproduce_recorded_arrivals(
            rows in prop::collection::vec((0u64..50, 0u32..4, 0u64..200), 1..120),
        ) {
            let mut at = 0;
            let recorded: Vec<(Request, Nanos)> = rows
                .iter()
                .enumerate()
                .map(|(id, &(gap, stream, latency))| {
                    at += gap;
                    (request(id as u64, at, stream), Nanos(latency))
                })
                .collect();
            let latency: Vec<u64> = recorded.iter().map(|(_, latency)| latency.0).collect();
            let mut closed = Closed::new(recorded.iter().copied(), Intensity::RECORDED);
            let expected: Vec<u64> = recorded.iter().map(|(request, _)| request.at.0).collect();
            prop_assert_eq!(arrivals(&mut closed, &latency), expected);
            prop_assert!(closed.known.is_empty() && closed.issued.is_empty());
        }
    }

    #[test]
    fn think_time_follows_the_completion_in_this_run() {
        // In the recording, request 0 takes 10 ns and request 1 arrives 5 ns later; in the run,
        // request 0 takes 100 ns.
        let recorded = [(request(0, 0, 0), Nanos(10)), (request(1, 15, 0), Nanos(10))];
        let mut closed = Closed::new(recorded, Intensity::RECORDED);
        assert_eq!(arrivals(&mut closed, &[100, 10]), vec![0, 105]);
        let mut closed = Closed::new(recorded, Intensity::new(5.0).unwrap());
        assert_eq!(arrivals(&mut closed, &[100, 10]), vec![0, 101]);
    }

    #[test]
    fn no_more_requests_are_outstanding_than_recorded() {
        // Request 2 was recorded with one request outstanding. Here 0 and 1 take longer, so 2 waits
        // for one of them.
        let recorded = [
            (request(0, 0, 0), Nanos(5)),
            (request(1, 1, 0), Nanos(20)),
            (request(2, 7, 0), Nanos(5)),
        ];
        let mut closed = Closed::new(recorded, Intensity::RECORDED);
        // Request 0 ends at 50, so 2 may arrive at 52, when only 1 is outstanding.
        assert_eq!(arrivals(&mut closed, &[50, 90, 5]), vec![0, 1, 52]);
    }

    #[test]
    fn open_scales_arrivals() {
        let mut open =
            Open::new([request(0, 0, 0), request(1, 10, 0)], Intensity::new(2.0).unwrap());
        assert_eq!(arrivals(&mut open, &[100, 100]), vec![0, 5]);
        assert_eq!(Intensity::new(0.0), None);
        assert_eq!(Intensity::new(f64::NAN), None);
    }
}
