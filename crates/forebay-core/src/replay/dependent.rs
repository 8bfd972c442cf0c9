//! Dependent replay: each request follows the answer that its task may have waited for.
//!
//! A request *follows* the latest answer that preceded it in the recording, among the requests of
//! its own stream. If submitters are unknown ([`Flags::ANONYMOUS`]), it follows the latest answer
//! that came at most 10 ms before it, or the answer to a request that it overlaps, if either
//! changes the data and that request is still unanswered in this run. The request is issued the
//! recorded think time after that answer in this run, which may be earlier than recorded. A request
//! that follows no answer is issued at its recorded time. The same applies to write-back
//! ([`Flags::WRITE_BACK`]), because no task waits for its answers.
//!
//! No request is issued before the previous request of its stream, or before the answer to an
//! earlier request that it overlaps, if either changes the data.
//!
//! If the time of an answer was not recorded, no request follows it. At most [`AHEAD_MAX`] requests
//! are read ahead; a request that is read too late is issued at once and counted
//! ([`Dependent::found_late`]).

mod overlaps;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Intensity, Lag};
use crate::contract::{Done, Flags, Nanos, Request, Slots, Workload};
use crate::slab::Slab;
use overlaps::Overlaps;

/// The maximum number of requests that have been read but not answered, which take some 130 MB.
pub const AHEAD_MAX: usize = 1 << 20;
/// The maximum time by which an answer may precede a request of an unknown task that follows it.
const NEAR: Nanos = Nanos::from_millis(10);
const NONE: u32 = u32::MAX;

/// A request that has been read but not answered.
#[derive(Clone, Copy, Debug)]
struct Active {
    /// The recorded request, with its time divided by the intensity.
    request: Request,
    /// The number of requests read before it.
    number: u64,
    /// The number of events that must happen first.
    blockers: u32,
    /// The earliest time to issue the request.
    not_before: Nanos,
    /// The first [`Edge`] in the list of requests that must not overtake this one.
    overlapped: u32,
    /// The index of the request's [`Answer`]; [`NONE`] if the recording contains no answer.
    answer: u32,
    /// The next request of its stream, if that request waits for this one to be issued.
    follower: u32,
}

/// The completion time of a request, in the recording and in this run.
#[derive(Clone, Copy, Debug)]
struct Answer {
    recorded: Nanos,
    now: Option<Nanos>,
    /// The first [`Edge`] in the list of requests that follow this answer.
    followed: u32,
    /// The number of remaining users: the recording and the run.
    references: u8,
}

/// A request that waits for another's completion, and the delay after it.
#[derive(Clone, Copy, Debug)]
struct Edge {
    waits: u32,
    think: Nanos,
    next: u32,
}

/// The answers of one task in the recording.
#[derive(Clone, Debug, Default)]
struct History {
    /// Upcoming completions: the time, the number of the request, and its key.
    coming: BinaryHeap<Reverse<(Nanos, u64, u32)>>,
    /// The last request that completed.
    last: Option<u32>,
}

impl History {
    /// Removes and returns the next answer that arrived no later than `at`.
    fn come(&mut self, at: Nanos) -> Option<u32> {
        let Reverse((came, _, answer)) = *self.coming.peek()?;
        (came <= at).then(|| {
            self.coming.pop();
            answer
        })
    }
}

/// The state of one task.
#[derive(Clone, Debug, Default)]
struct Stream {
    history: History,
    /// The key and the number of the task's last request.
    last: Option<(u32, u64)>,
    /// The time from which that request may be issued, if known.
    ready_at: Nanos,
    lag: Lag,
}

/// Dependent replay of requests in time order, each with its recorded latency if known.
#[derive(Clone, Debug)]
pub struct Dependent<I> {
    requests: I,
    next: Option<(Request, Option<Nanos>)>,
    intensity: Intensity,
    active: Slab<Active>,
    answers: Slab<Answer>,
    edges: Slab<Edge>,
    ready: BinaryHeap<Reverse<(Nanos, u64, u32)>>,
    read: u64,
    streams: Vec<Stream>,
    /// The answers to requests of all unknown tasks.
    anonymous: History,
    overlaps: Overlaps,
    /// The current time.
    now: Nanos,
    /// The maximum time by which an answer has arrived earlier than in the recording.
    ahead: Nanos,
    found_late: u64,
    lag: Lag,
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
            answers: Slab::default(),
            edges: Slab::default(),
            ready: BinaryHeap::new(),
            read: 0,
            streams: Vec::new(),
            anonymous: History::default(),
            overlaps: Overlaps::default(),
            now: Nanos::ZERO,
            ahead: Nanos::ZERO,
            found_late: 0,
            lag: Lag::default(),
        };
        dependent.read_ahead();
        dependent
    }

    /// Returns the source of the requests.
    pub fn source(&self) -> &I {
        &self.requests
    }

    /// Returns how far the run is behind the recording.
    pub fn lag(&self) -> Lag {
        self.lag
    }

    /// Returns how far a stream is behind the recording; empty for streams of unknown tasks.
    pub fn lag_of(&self, stream: u32) -> Lag {
        self.streams.get(stream as usize).map_or(Lag::default(), |stream| stream.lag)
    }

    /// Returns how many requests were issued too late because too many other requests had to be
    /// read before them.
    pub fn found_late(&self) -> u64 {
        self.found_late
    }

    /// Reads requests until none of the unread ones can be issued before the first ready one.
    fn read_ahead(&mut self) {
        while self.active.len() < AHEAD_MAX
            && let Some((recorded, latency)) = self.next
        {
            let at = self.intensity.scale(recorded.at);
            // A request is at most as far ahead of its recorded time as the answer that it follows,
            // apart from rounding when times are scaled.
            let earliest = at - self.ahead - Nanos(1);
            if self.ready.peek().is_some_and(|Reverse((first, _, _))| *first < earliest) {
                return;
            }
            self.next = self.requests.next();
            self.load(Request { at, ..recorded }, recorded.at, latency);
        }
    }

    fn load(&mut self, request: Request, recorded_at: Nanos, latency: Option<Nanos>) {
        let number = self.read;
        self.read += 1;
        let key = self.active.insert(Active {
            request,
            number,
            blockers: 0,
            not_before: Nanos::ZERO,
            overlapped: NONE,
            answer: NONE,
            follower: NONE,
        });
        let mut earlier = std::mem::take(&mut self.overlaps.found);
        self.overlaps.find(&request, &self.active, &mut earlier);
        self.overlaps.insert(key, &request);
        let followed = match request.flags.has(Flags::WRITE_BACK) {
            true => None,
            false => self.last_answer(&request, recorded_at, &earlier),
        };
        match followed {
            Some(answer) => self.follow(key, answer, recorded_at),
            None => self.active[key].not_before = request.at,
        }
        for overlapped in earlier.drain(..) {
            let next = self.active[overlapped].overlapped;
            self.active[overlapped].overlapped = self.wait(key, Nanos::ZERO, next);
        }
        self.overlaps.found = earlier;
        if !request.flags.has(Flags::WRITE_BACK) {
            self.remember(key, recorded_at, latency);
        }
        if keeps_order(&request) {
            self.keep_order(key);
        }
        let active = &mut self.active[key];
        if active.blockers == 0 {
            self.found_late += u64::from(active.not_before < self.now);
            active.not_before = active.not_before.max(self.now);
            self.issue(key);
        }
    }

    /// Returns the stream that issued a request; `None` if it is unknown.
    fn stream(&mut self, request: &Request) -> Option<&mut Stream> {
        if request.flags.has(Flags::ANONYMOUS) {
            return None;
        }
        let stream = request.stream as usize;
        if stream >= self.streams.len() {
            self.streams.resize_with(stream + 1, Stream::default);
        }
        Some(&mut self.streams[stream])
    }

    fn history(&mut self, request: &Request) -> &mut History {
        match request.flags.has(Flags::ANONYMOUS) {
            true => &mut self.anonymous,
            false => &mut self.stream(request).expect("it has a stream").history,
        }
    }

    /// Returns the latest answer that the submitter of `request` may have waited for. `request`
    /// overlaps the requests `earlier`, which are still unanswered in this run.
    fn last_answer(
        &mut self,
        request: &Request,
        recorded_at: Nanos,
        earlier: &[u32],
    ) -> Option<u32> {
        while let Some(answer) = self.history(request).come(recorded_at) {
            if let Some(before) = self.history(request).last.replace(answer) {
                self.release(before);
            }
        }
        let last = self.history(request).last;
        if !request.flags.has(Flags::ANONYMOUS) {
            return last;
        }
        let is_near = |answer: &u32| self.answers[*answer].recorded + NEAR >= recorded_at;
        last.filter(is_near).or_else(|| {
            let known = earlier.iter().map(|key| self.active[*key].answer);
            let came =
                |answer: &u32| *answer != NONE && self.answers[*answer].recorded <= recorded_at;
            known.filter(came).max_by_key(|answer| self.answers[*answer].recorded)
        })
    }

    /// Makes the request `key` follow `answer`.
    fn follow(&mut self, key: u32, answer: u32, recorded_at: Nanos) {
        let Answer { recorded, now, followed, .. } = self.answers[answer];
        let think = self.intensity.scale(recorded_at - recorded);
        match now {
            Some(now) => self.active[key].not_before = now + think,
            None => self.answers[answer].followed = self.wait(key, think, followed),
        }
    }

    /// Adds a blocker to the request `key`. Returns a new edge, at the front of the list `next`.
    fn wait(&mut self, key: u32, think: Nanos, next: u32) -> u32 {
        self.active[key].blockers += 1;
        self.edges.insert(Edge { waits: key, think, next })
    }

    /// Keeps the answer to `key` for the requests that follow it.
    fn remember(&mut self, key: u32, recorded_at: Nanos, latency: Option<Nanos>) {
        let Some(latency) = latency else { return };
        let recorded = recorded_at + latency;
        let new = Answer { recorded, now: None, followed: NONE, references: 2 };
        let answer = self.answers.insert(new);
        self.active[key].answer = answer;
        let Active { request, number, .. } = self.active[key];
        self.history(&request).coming.push(Reverse((recorded, number, answer)));
    }

    fn release(&mut self, answer: u32) {
        let kept = &mut self.answers[answer];
        kept.references -= 1;
        if kept.references == 0 {
            self.answers.remove(answer);
        }
    }

    /// Makes the request `key` wait until the previous request of its stream is issued.
    fn keep_order(&mut self, key: u32) {
        let Active { request, number, .. } = self.active[key];
        let stream = &mut self.streams[request.stream as usize];
        let ready_at = stream.ready_at;
        match stream.last.replace((key, number)) {
            // The key of the previous request may have been reused, so compare its number.
            Some((last, number))
                if self.active[last].number == number && self.active[last].blockers > 0 =>
            {
                self.active[last].follower = key;
                self.active[key].blockers += 1;
            }
            _ => {
                let active = &mut self.active[key];
                active.not_before = active.not_before.max(ready_at);
            }
        }
    }

    /// Issues `key`, which nothing blocks any longer, and then each follower that becomes
    /// unblocked.
    fn issue(&mut self, mut key: u32) {
        loop {
            let Active { request, number, not_before, follower, .. } = self.active[key];
            self.ready.push(Reverse((not_before, number, key)));
            if keeps_order(&request) {
                let stream = &mut self.streams[request.stream as usize];
                stream.ready_at = stream.ready_at.max(not_before);
            }
            if follower == NONE || !self.unblock(follower, not_before) {
                return;
            }
            key = follower;
        }
    }

    /// Removes one blocker of `key`, which must not be issued before `at`. Returns whether it was
    /// the last blocker.
    fn unblock(&mut self, key: u32, at: Nanos) -> bool {
        let active = &mut self.active[key];
        active.not_before = active.not_before.max(at);
        active.blockers -= 1;
        active.blockers == 0
    }

    /// Unblocks the requests in the list starting at `edge`, because the event that they wait for
    /// happened at `now`.
    fn let_go(&mut self, mut edge: u32, now: Nanos) {
        while edge != NONE {
            let Edge { waits, think, next } = self.edges.remove(edge);
            if self.unblock(waits, now + think) {
                self.issue(waits);
            }
            edge = next;
        }
    }
}

/// Returns whether later requests of the stream must not be issued before this one.
fn keeps_order(request: &Request) -> bool {
    !request.flags.has(Flags::WRITE_BACK) && !request.flags.has(Flags::ANONYMOUS)
}

impl<I: Iterator<Item = (Request, Option<Nanos>)>> Workload for Dependent<I> {
    #[inline]
    fn peek(&self) -> Option<Nanos> {
        self.ready.peek().map(|Reverse((at, _, _))| *at)
    }

    fn take(&mut self) -> Request {
        let Reverse((at, _, key)) =
            self.ready.pop().expect("take() is called only after peek() gave a time");
        self.now = at;
        self.read_ahead();
        Request { at, id: u64::from(key), ..self.active[key].request }
    }

    fn finished(&mut self, now: Nanos, done: &Done, _slots: &mut dyn Slots) {
        self.now = now;
        let key = done.request.id as u32;
        let Active { request, overlapped, answer, .. } = self.active[key];
        if done.outcome.is_ok() {
            let lag = now - request.at - done.wait;
            self.lag.record(lag);
            if let Some(stream) = self.stream(&request) {
                stream.lag.record(lag);
            }
        }
        self.overlaps.remove(key, &request);
        // A stream may still store this key, which a new request may reuse. The number
        // distinguishes the two.
        self.active[key].number = u64::MAX;
        self.active.remove(key);
        self.let_go(overlapped, now);
        if answer != NONE {
            let known = &mut self.answers[answer];
            known.now = Some(now);
            let (recorded, followed) = (known.recorded, known.followed);
            let recorded = self.intensity.scale(recorded);
            self.ahead = self.ahead.max(recorded - now);
            self.let_go(followed, now);
            self.release(answer);
        }
        self.read_ahead();
    }
}
