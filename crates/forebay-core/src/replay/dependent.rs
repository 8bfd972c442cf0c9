//! Dependent replay: recorded arrivals, but nothing overtakes what it depends on.
//!
//! A request is issued at its recorded time, or when the last of these has happened, whichever is
//! later: the completion, in this run, of every earlier request that overlaps it where either changes
//! the data; the completion of every earlier request of its stream that had completed before it in
//! the recording (where latencies are known); the issue of its stream's request before it.
//!
//! Reads at most [`AHEAD_MAX`] requests ahead of those that may be issued.

mod overlaps;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Intensity;
use crate::contract::bytes::Slots;
use crate::contract::policy::Done;
use crate::contract::request::Request;
use crate::contract::time::Nanos;
use crate::contract::workload::Workload;
use crate::slab::Slab;
use overlaps::Overlaps;

/// Requests that are held at most because they depend on others.
pub const AHEAD_MAX: usize = 1 << 16;
const NONE: u32 = u32::MAX;

/// A request that was read and is not complete.
#[derive(Clone, Copy, Debug)]
struct Active {
    request: Request,
    /// How many were read before it.
    number: u64,
    /// What has to happen first.
    blockers: u32,
    /// No earlier than this.
    not_before: Nanos,
    /// The first of the [`Edge`]s to those that wait for its completion.
    waiting: u32,
    /// The next request of its stream, if that waits for its issue.
    follower: u32,
}

/// One that waits for another's completion.
#[derive(Clone, Copy, Debug)]
struct Edge {
    waits: u32,
    next: u32,
}

/// One stream of the recording.
#[derive(Clone, Debug, Default)]
struct Stream {
    /// Its last request: key and number.
    last: Option<(u32, u64)>,
    /// When that may be issued, once that is known.
    ready_at: Nanos,
    /// Those that had not completed yet in the recording: when they did, number, key.
    running: BinaryHeap<Reverse<(Nanos, u64, u32)>>,
}

/// Dependent replay of requests in time order, each with the latency it had if that is known.
#[derive(Clone, Debug)]
pub struct Dependent<I> {
    requests: I,
    next: Option<(Request, Option<Nanos>)>,
    intensity: Intensity,
    active: Slab<Active>,
    edges: Slab<Edge>,
    ready: BinaryHeap<Reverse<(Nanos, u64, u32)>>,
    /// Requests that wait for others.
    held: usize,
    read: u64,
    streams: Vec<Stream>,
    overlaps: Overlaps,
}

impl<I: Iterator<Item = (Request, Option<Nanos>)>> Dependent<I> {
    /// Replays `requests`, whose times must not decrease.
    pub fn new(requests: impl IntoIterator<IntoIter = I>, intensity: Intensity) -> Self {
        let mut requests = requests.into_iter();
        let next = requests.next();
        let mut dependent = Dependent {
            requests,
            next,
            intensity,
            active: Slab::default(),
            edges: Slab::default(),
            ready: BinaryHeap::new(),
            held: 0,
            read: 0,
            streams: Vec::new(),
            overlaps: Overlaps::default(),
        };
        dependent.read_ahead();
        dependent
    }

    /// Where the requests come from.
    pub fn source(&self) -> &I {
        &self.requests
    }

    /// Reads until the next one comes no earlier than what may be issued first.
    fn read_ahead(&mut self) {
        while self.held < AHEAD_MAX
            && let Some((recorded, latency)) = self.next
        {
            let at = self.intensity.scale(recorded.at);
            if self.ready.peek().is_some_and(|Reverse((first, _, _))| *first <= at) {
                return;
            }
            self.next = self.requests.next();
            self.load(Request { at, ..recorded }, recorded.at, latency);
        }
    }

    fn load(&mut self, request: Request, recorded_at: Nanos, latency: Option<Nanos>) {
        let number = self.read;
        self.read += 1;
        let (not_before, blockers) = (request.at, 0);
        let new = Active { request, number, blockers, not_before, waiting: NONE, follower: NONE };
        let key = self.active.insert(new);
        let mut follows = std::mem::take(&mut self.overlaps.found);
        self.overlaps.find(&request, &self.active, &mut follows);
        follows.drain(..).for_each(|earlier| self.wait_for(key, earlier));
        self.overlaps.found = follows;
        self.overlaps.insert(key, &request);
        self.follow_stream(key, recorded_at, latency);
        match self.active[key].blockers {
            0 => self.issue_at(key),
            _ => self.held += 1,
        }
    }

    /// What `key`, just read, waits for in its own stream.
    fn follow_stream(&mut self, key: u32, recorded_at: Nanos, latency: Option<Nanos>) {
        let Active { request, number, .. } = self.active[key];
        let stream = request.stream as usize;
        if stream >= self.streams.len() {
            self.streams.resize_with(stream + 1, Stream::default);
        }
        while let Some(&Reverse((ended, number, earlier))) = self.streams[stream].running.peek()
            && ended <= recorded_at
        {
            self.streams[stream].running.pop();
            if self.is_active(earlier, number) {
                self.wait_for(key, earlier);
            }
        }
        let stream = &mut self.streams[stream];
        if let Some(latency) = latency {
            stream.running.push(Reverse((recorded_at + latency, number, key)));
        }
        let last = stream.last.replace((key, number));
        let ready_at = stream.ready_at;
        match last {
            Some((last, number)) if self.is_active(last, number) && self.is_held(last) => {
                self.active[last].follower = key;
                self.active[key].blockers += 1;
            }
            _ => {
                let active = &mut self.active[key];
                active.not_before = active.not_before.max(ready_at);
            }
        }
    }

    /// Whether `key` still stands for the request that was read as `number`.
    fn is_active(&self, key: u32, number: u64) -> bool {
        self.active[key].number == number
    }

    fn is_held(&self, key: u32) -> bool {
        self.active[key].blockers > 0
    }

    fn wait_for(&mut self, key: u32, earlier: u32) {
        let next = self.active[earlier].waiting;
        self.active[earlier].waiting = self.edges.insert(Edge { waits: key, next });
        self.active[key].blockers += 1;
    }

    /// Nothing keeps `key` any more, and so perhaps its followers.
    fn issue_at(&mut self, mut key: u32) {
        loop {
            let Active { request, number, not_before, follower, .. } = self.active[key];
            self.ready.push(Reverse((not_before, number, key)));
            let stream = &mut self.streams[request.stream as usize];
            stream.ready_at = stream.ready_at.max(not_before);
            if follower == NONE || !self.unblock(follower, not_before) {
                return;
            }
            key = follower;
        }
    }

    /// One of the things that `key` waits for happened at `now`; answers whether it was the last.
    fn unblock(&mut self, key: u32, now: Nanos) -> bool {
        let active = &mut self.active[key];
        active.not_before = active.not_before.max(now);
        active.blockers -= 1;
        let free = active.blockers == 0;
        self.held -= usize::from(free);
        free
    }
}

impl<I: Iterator<Item = (Request, Option<Nanos>)>> Workload for Dependent<I> {
    #[inline]
    fn peek(&self) -> Option<Nanos> {
        self.ready.peek().map(|Reverse((at, _, _))| *at)
    }

    fn take(&mut self) -> Request {
        let Reverse((at, _, key)) =
            self.ready.pop().expect("take() is called only after peek() gave a time");
        self.read_ahead();
        Request { at, id: u64::from(key), ..self.active[key].request }
    }

    fn finished(&mut self, now: Nanos, done: &Done, _slots: &mut dyn Slots) {
        let key = done.request.id as u32;
        let Active { request, waiting, .. } = self.active[key];
        self.overlaps.remove(key, &request);
        // Nobody who remembers its number shall take the place's next request for it.
        self.active[key].number = u64::MAX;
        self.active.remove(key);
        let mut edge = waiting;
        while edge != NONE {
            let Edge { waits, next } = self.edges.remove(edge);
            if self.unblock(waits, now) {
                self.issue_at(waits);
            }
            edge = next;
        }
        self.read_ahead();
    }
}

#[cfg(test)]
mod tests {
    use super::overlaps::conflict;
    use super::*;
    use crate::contract::bytes::Null;
    use crate::contract::request::{Flags, Op};
    use proptest::prelude::*;

    /// When each request was issued, and when it ended, on a device that takes `took` for each.
    fn run(recorded: &[(Request, Option<Nanos>)], took: &[u64], times: f64) -> Vec<(u64, u64)> {
        let intensity = Intensity::new(times).unwrap();
        let mut workload = Dependent::new(recorded.iter().copied(), intensity);
        let mut running: Vec<(Nanos, Request)> = Vec::new();
        let mut ran = vec![(u64::MAX, u64::MAX); took.len()];
        loop {
            running.sort_by_key(|&(at, request)| Reverse((at, request.id)));
            match (running.last().map(|&(at, _)| at), workload.peek()) {
                (None, None) => {
                    assert!(workload.active.is_empty() && workload.edges.is_empty());
                    assert!(workload.overlaps.is_empty() && workload.held == 0);
                    return ran;
                }
                (Some(done), arrival) if arrival.is_none_or(|arrival| done <= arrival) => {
                    let (_, request) = running.pop().unwrap();
                    let told = Done::at_once(request, Ok(()));
                    workload.finished(done, &told, &mut Null);
                }
                _ => {
                    let request = workload.take();
                    // Its place in the recording is in its flags, which nobody looks at.
                    let index = request.flags.0 as usize;
                    let end = request.at + Nanos(took[index]);
                    ran[index] = (request.at.0, end.0);
                    running.push((end, request));
                }
            }
        }
    }

    fn request(index: usize, at: u64, place: u64, len: u32, op: Op, stream: u32) -> Request {
        Request {
            at: Nanos(at),
            offset: place * 4096,
            id: index as u64,
            len,
            stream,
            lane: 0,
            op,
            flags: Flags(index as u8),
        }
    }

    proptest! {
        /// The module's definition, word by word, of every pair of requests.
        #[test]
        fn nothing_overtakes_what_it_depends_on_and_nothing_waits_for_less(
            rows in prop::collection::vec(
                (0u64..60, 0u64..12, 0usize..5, 0usize..4, 0u32..3,
                 prop::option::of(0u64..150), 1u64..200), 1..100),
        ) {
            let mut at = 0;
            let (mut recorded, mut took) = (Vec::new(), Vec::new());
            for (index, (gap, place, len, op, stream, latency, takes)) in rows.into_iter().enumerate() {
                at += gap;
                let len = [0, 4096, 8192, 512, 5 << 20][len];
                let op = [Op::Read, Op::Read, Op::Write, Op::Trim][op];
                let request = request(index, at, place, len, op, stream);
                recorded.push((request, latency.map(Nanos)));
                took.push(takes);
            }
            let ran = run(&recorded, &took, 1.0);
            let mut expected: Vec<(u64, u64)> = Vec::new();
            for (index, (request, _)) in recorded.iter().enumerate() {
                let mut issue = request.at.0;
                for (earlier, (before, latency)) in recorded[..index].iter().enumerate() {
                    let ours = before.stream == request.stream;
                    let ended = latency.is_some_and(|latency| before.at + latency <= request.at);
                    if conflict(before, request) && before.len > 0 && request.len > 0
                        || ours && ended
                    {
                        issue = issue.max(expected[earlier].1);
                    }
                    if ours {
                        issue = issue.max(expected[earlier].0);
                    }
                }
                expected.push((issue, issue + took[index]));
            }
            prop_assert_eq!(ran, expected);
        }
    }

    #[test]
    fn a_write_waits_for_the_read_before_it_and_the_rest_goes_on() {
        let recorded = [
            request(0, 0, 0, 4096, Op::Read, 0),
            request(1, 10, 0, 4096, Op::Write, 1),
            request(2, 20, 5, 4096, Op::Read, 2),
            request(3, 30, 6, 4096, Op::Read, 1),
        ];
        let recorded = recorded.map(|request| (request, None));
        let issued =
            |times| run(&recorded, &[100, 1, 1, 1], times).iter().map(|ran| ran.0).collect();
        let (as_recorded, faster): (Vec<u64>, Vec<u64>) = (issued(1.0), issued(2.0));
        assert_eq!(as_recorded, [0, 100, 20, 100]);
        assert_eq!(faster, [0, 100, 10, 100]);
    }
}
