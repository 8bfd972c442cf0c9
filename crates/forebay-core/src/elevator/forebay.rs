//! forebay: one long sweep over reads and writes, which are separated only if one kind would starve
//! the other. It waits for streams, found by address, as long as that pays, and bounds every wait.
//!
//! This is our own scheduler, built from the strengths of the others. It sweeps like C-LOOK, waits
//! after a read for the next read of its stream like anticipatory, and serves reads and writes in
//! turns where that is better. It differs from known schedulers as follows:
//!
//! * *Together or separate* ([`sharing`]). Reads and writes along the way are served alike, as long
//!   as the waiting writes would take at most a certain multiple of the time of the reads. If there
//!   are few reads among bulk writes, the reads are served in excursions, after which the sweep
//!   resumes where it was. While any request has waited for four fifths of the bound, each kind has
//!   its own sweep.
//! * *Long turns.* A turn goes upwards from where the last turn of its kind ended. While the other
//!   kind waits, the turn lasts as long as serving all waiting requests of that kind would take
//!   (for a turn of writes: half as long), and at least [`ForebayConfig::turn`]. Few requests
//!   therefore interrupt a sweep soon, and many let it continue. The next turn begins while the
//!   last requests of the previous one are still at the device, so a drive with a command queue is
//!   not drained when the kind changes.
//! * *Kinds are operations*, regardless of whether somebody waits for them. A synchronous write may
//!   be as bulky as any other, and if it counted as a read, it would delay the reads.
//! * *Streams by address* ([`trails`]): if two threads read one half of a file each, they are a
//!   single stream.
//! * *Expected gain* ([`thinking`], [`cost`]). The scheduler waits for a stream until the time at
//!   which the expected saving exceeds the cost by most; if it never does, it does not wait. The
//!   saving is estimated from the stream's think times so far, and from the device's observed times
//!   for moving elsewhere and for continuing after a pause. A device that loses a revolution on
//!   every pause, or that reaches all addresses quickly, is not kept idle. A device with a command
//!   queue is drained only for a stream that is likely to continue for long.
//! * *A bound.* As soon as serving all outstanding requests, a quarter more slowly than at the recent
//!   pace, could make one of them exceed [`ForebayConfig::bound`], all of them are served in one
//!   sweep, and later requests wait while this is so. The bound holds on devices that serve a full
//!   queue within it; [`kept`] records whether it held on this device, and by how much it was missed.
//!   Serving the oldest requests first would keep the bound as well. But with a full queue, a disk
//!   would then need about twice the time per request, so that the next requests would be late, too.
//!
//! Invariants: a request in the queue is in its side's `sorted` and `fifo`; `wait_ends` is set only
//! while requests are held back.

mod cost;
mod kept;
mod sharing;
#[cfg(test)]
mod tests;
mod thinking;
mod trails;

use super::{Elevator, ElevatorVisitor, Limits, List, Queue, QueuedId, SERVED, Scheduler, Sorted};
use crate::contract::{Figure, Given, Listed, Nanos, Op, Origin, Parameter, Request, SpecError};
use cost::{Cost, Step};
use kept::BoundRecord;
use sharing::Sharing;
use trails::{TrailId, Trails};

/// The parameters that the scheduler accepts.
const PARAMETERS: &[Parameter] = &[
    Parameter::millis("wait-ms", 8.0)
        .about("the longest wait for the next request of a stream (found by address); 0: never"),
    Parameter::millis("hold-ms", 200.0)
        .about("how long the scheduler may hold the disk for one stream while others wait"),
    Parameter::millis("read-turn-ms", 300.0).about("the shortest turn of reads while writes wait"),
    Parameter::millis("write-turn-ms", 300.0).about("the shortest turn of writes while reads wait"),
    Parameter::millis("bound-ms", 3000.0)
        .about("no admitted request takes longer than this if the device can keep up"),
    SERVED,
];

impl Scheduler for Forebay {
    const LISTED: Listed = Listed {
        name: "forebay",
        origin: Origin::Forebay,
        summary: "long sweeps; separates reads and writes if one would starve the other; waits for \
                  streams (found by address) while a gain is expected; bounds waits since \
                  admission if the device serves a full queue within the bound (figures: bound_held, \
                  ios_beyond_bound)",
        parameters: &[PARAMETERS],
    };

    fn visit<V: ElevatorVisitor>(given: &Given<'_>, visitor: V) -> Result<V::Out, SpecError> {
        Ok(visitor.visit(Forebay::new(ForebayConfig::given(given)?)))
    }

    fn limits(_given: &Given<'_>, limits: Limits) -> Result<Limits, SpecError> {
        Ok(limits.shared())
    }
}

/// The kinds of requests, used as indices of arrays and as scopes for merging.
const READS: usize = 0;
const WRITES: usize = 1;

/// A request at most this far ahead of the head counts as contiguous.
const AHEAD_BYTES: u64 = 256 << 10;

/// A request at most this far ahead of the head counts as about as close as the expected one.
const CLOSE_BYTES: u64 = 4 << 20;

/// Draining the device's queue costs one move divided by this number per I/O in the queue.
const DRAINS: u64 = 4;

/// The scheduler's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForebayConfig {
    /// The longest wait for a stream's next request; 0 turns waiting off.
    pub wait: Nanos,
    /// The maximum time for which the scheduler holds the disk for one stream while others wait.
    pub hold: Nanos,
    /// The minimum duration of a turn while the other kind waits: of reads, then of writes.
    pub turn: [Nanos; 2],
    /// The bound on the time from a request's admission to its answer.
    pub bound: Nanos,
}

impl ForebayConfig {
    fn given(given: &Given<'_>) -> Result<ForebayConfig, SpecError> {
        Ok(ForebayConfig {
            wait: given.millis("wait-ms")?,
            hold: given.millis("hold-ms")?,
            turn: [given.millis("read-turn-ms")?, given.millis("write-turn-ms")?],
            bound: given.millis("bound-ms")?,
        })
    }
}

impl Default for ForebayConfig {
    fn default() -> Self {
        Given::defaults(PARAMETERS, ForebayConfig::given)
    }
}

/// The requests of one kind, by age and by address.
#[derive(Clone, Debug, Default)]
struct Side {
    fifo: List,
    sorted: Sorted,
    /// The first byte of the last dispatched request of this kind.
    position: u64,
}

/// The state of a queued request.
#[derive(Clone, Copy, Debug)]
struct Known {
    trail: Option<TrailId>,
    given: Nanos,
    step: Step,
}

/// A stream for which the scheduler holds the disk.
#[derive(Clone, Copy, Debug)]
struct Held {
    trail: TrailId,
    since: Nanos,
}

/// The forebay elevator.
#[derive(Clone, Debug)]
pub struct Forebay {
    config: ForebayConfig,
    sides: [Side; 2],
    /// The number of requests at the device.
    in_flight: u32,
    /// The state of each queued request, by id.
    known: Vec<Known>,
    trails: Trails,
    cost: Cost,
    /// The kind whose turn it is, and since when.
    turn: usize,
    turn_began: Nanos,
    sharing: Sharing,
    /// The position of the common sweep: the first byte of the last request dispatched in it.
    place: u64,
    /// The end of the last dispatched request.
    head: u64,
    idle_since: Nanos,
    /// The trail of the last dispatched request, while the scheduler may wait for it.
    last: Option<TrailId>,
    held: Option<Held>,
    wait_ends: Option<Nanos>,
    /// When the current sweep that keeps the bound began; None if there is none. The sweep serves
    /// the requests added before then.
    bound_sweep: Option<Nanos>,
    kept: BoundRecord,
}

impl Forebay {
    /// Creates an elevator without requests.
    pub fn new(config: ForebayConfig) -> Self {
        Forebay {
            config,
            sides: Default::default(),
            in_flight: 0,
            known: Vec::new(),
            trails: Trails::default(),
            cost: Cost::default(),
            turn: READS,
            turn_began: Nanos::ZERO,
            sharing: Sharing::Together,
            place: 0,
            head: 0,
            idle_since: Nanos::ZERO,
            last: None,
            held: None,
            wait_ends: None,
            bound_sweep: None,
            kept: BoundRecord::default(),
        }
    }

    /// Returns when the oldest request was added.
    fn oldest(&self, queue: &Queue) -> Option<Nanos> {
        self.sides.iter().filter_map(|side| Some(queue[side.fifo.front()?].added)).min()
    }

    /// Returns whether all requests must be served now because otherwise the oldest one might
    /// exceed the bound.
    fn is_bound_at_risk(&self, now: Nanos, queue: &Queue) -> bool {
        let waiting: usize = self.sides.iter().map(|side| side.sorted.len()).sum();
        let ahead = waiting as u64 + u64::from(self.in_flight);
        let needed = Nanos(self.cost.service().0.saturating_mul(ahead * 5) / 4);
        self.oldest(queue).is_some_and(|added| added + self.config.bound <= now + needed)
    }

    /// Returns the next request of the sweep that keeps the bound, if one is necessary.
    fn of_bound_sweep(&mut self, now: Nanos, queue: &Queue) -> Option<QueuedId> {
        let is_over = |began: Nanos| self.oldest(queue).is_none_or(|added| added > began);
        if !self.is_bound_at_risk(now, queue) {
            self.bound_sweep = None;
        } else if self.bound_sweep.is_none_or(is_over) {
            self.bound_sweep = Some(now);
        }
        let began = self.bound_sweep?;
        let entries = self.sides.iter().flat_map(|side| side.sorted.as_slice());
        let entries = entries.filter(|(_, id)| queue[*id].added <= began);
        // Sweep upwards from the head, then continue at the lowest offset.
        entries.min_by_key(|(offset, id)| (offset.wrapping_sub(self.head), *id)).map(|(_, id)| *id)
    }

    /// Returns whether to hold back other requests and wait for the trail that was read last.
    fn waits(&mut self, now: Nanos) -> bool {
        let waited = self.wait_ends.take().is_some();
        let Some(last) = self.last else { return false };
        let trail = &self.trails[last];
        if self.turn != READS || trail.queued > 0 {
            return false;
        }
        let saving = self.cost.saving();
        let pause = trail.pause(saving);
        let others = u64::from(self.in_flight - trail.in_flight);
        if !pause.is_worth(Nanos(saving.0.saturating_mul(others) / DRAINS)) {
            return false;
        }
        let held = self.held.filter(|held| held.trail == last);
        let held = *self.held.insert(held.unwrap_or(Held { trail: last, since: now }));
        if now - held.since >= self.config.hold {
            return false;
        }
        if trail.in_flight > 0 {
            // Wait for the answer to this request, and then for the next request.
            return self.config.wait > Nanos::ZERO;
        }
        let ends = trail.answered + pause.until.min(self.config.wait);
        if ends <= now {
            self.last = None;
            if waited {
                self.trails.missed(last);
            }
            return false;
        }
        let next = self.sides[READS].sorted.at_or_above(self.head);
        if next.is_some_and(|(offset, _)| offset - self.head <= CLOSE_BYTES) {
            return false;
        }
        self.wait_ends = Some(ends);
        true
    }

    /// Returns whether the turn passes to the other kind of request.
    fn turn_is_over(&self, now: Nanos) -> bool {
        let [here, there] = [self.turn, 1 - self.turn].map(|kind| self.sides[kind].sorted.len());
        if here == 0 || there == 0 {
            return here == 0;
        }
        let work = Nanos(self.cost.service().0.saturating_mul(there as u64));
        let share = if self.turn == READS { work } else { Nanos(work.0 / 2) };
        now - self.turn_began >= share.max(self.config.turn[self.turn])
    }

    fn choose(&mut self, now: Nanos, queue: &Queue) -> Option<QueuedId> {
        if self.sides.iter().all(|side| side.sorted.is_empty()) {
            return None;
        }
        if let Some(id) = self.of_bound_sweep(now, queue) {
            self.wait_ends = None;
            return Some(id);
        }
        if self.waits(now) {
            return None;
        }
        self.sharing = self.shared(now, queue);
        if matches!(self.sharing, Sharing::Together | Sharing::TogetherLate) {
            if self.turn != READS {
                (self.turn, self.turn_began) = (READS, now);
            }
            return self.on_the_way();
        }
        if self.turn_is_over(now) {
            (self.turn, self.turn_began) = (1 - self.turn, now);
        }
        if self.sharing == Sharing::Excursions && self.turn == WRITES {
            return self.on_the_way();
        }
        let side = &self.sides[self.turn];
        side.next_from(side.position).map(|(_, id)| id)
    }

    fn know(&mut self, id: QueuedId, known: Known) {
        let place = id as usize;
        if place >= self.known.len() {
            self.known.resize(place + 1, known);
        }
        self.known[place] = known;
    }
}

impl Elevator for Forebay {
    #[inline]
    fn scope(&self, bio: &Request) -> u32 {
        if bio.op == Op::Read { READS as u32 } else { WRITES as u32 }
    }

    fn add(&mut self, now: Nanos, id: QueuedId, queue: &mut Queue) {
        let request = queue[id];
        let kind = request.scope as usize;
        let trail = (kind == READS)
            .then(|| self.trails.arrive(now, request.stream, request.offset, request.end()));
        self.know(id, Known { trail, given: now, step: Step::On });
        let side = &mut self.sides[kind];
        side.sorted.insert(request.offset, id);
        queue.push(&mut side.fifo, id);
    }

    fn grown(&mut self, _now: Nanos, id: QueuedId, offset_before: u64, queue: &mut Queue) {
        let request = &queue[id];
        if let Some(trail) = self.known[id as usize].trail {
            self.trails[trail].reach(request.end());
        }
        if request.offset != offset_before {
            let sorted = &mut self.sides[request.scope as usize].sorted;
            sorted.remove(offset_before, id);
            sorted.insert(request.offset, id);
        }
    }

    /// The merged request takes the earlier of the two positions in the FIFO.
    fn join(&mut self, _now: Nanos, kept: QueuedId, gone: QueuedId, queue: &mut Queue) {
        if let Some(trail) = self.known[gone as usize].trail {
            self.trails[trail].queued -= 1;
        }
        let Side { fifo, sorted, .. } = &mut self.sides[queue[gone].scope as usize];
        sorted.remove(queue[gone].offset, gone);
        queue.join_on(fifo, kept, gone);
    }

    /// Trails remain, because another process may continue to read where one has ended.
    fn begin_stream(&mut self, stream: u32, _queue: &Queue) {
        self.trails.begin_process(stream);
    }

    fn take(&mut self, now: Nanos, queue: &mut Queue) -> Option<QueuedId> {
        let id = self.choose(now, queue)?;
        let request = queue[id];
        let ahead = request.offset.checked_sub(self.head).is_some_and(|gap| gap <= AHEAD_BYTES);
        let paused = self.in_flight == 0 && now > self.idle_since;
        let step = match (ahead, paused) {
            (false, _) => Step::Away,
            (true, true) => Step::OnAfterPause,
            (true, false) => Step::On,
        };
        let side = &mut self.sides[request.scope as usize];
        queue.unlink(&mut side.fifo, id);
        side.sorted.remove(request.offset, id);
        side.position = request.offset;
        self.in_flight += 1;
        self.head = request.end();
        if !self.is_excursion() {
            self.place = request.offset;
        }
        let known = &mut self.known[id as usize];
        (known.given, known.step) = (now, step);
        self.last = known.trail;
        if let Some(trail) = self.last {
            self.trails[trail].queued -= 1;
            self.trails[trail].in_flight += 1;
        }
        self.held = self.held.filter(|held| Some(held.trail) == self.last);
        Some(id)
    }

    fn completed(&mut self, now: Nanos, id: QueuedId, queue: &Queue) {
        let Known { trail, given, step } = self.known[id as usize];
        self.in_flight -= 1;
        self.idle_since = now;
        self.cost.learn(now, given, queue[id].scope as usize, queue[id].len, step);
        self.kept.answered(now - queue[id].added, self.config.bound);
        if let Some(trail) = trail {
            self.trails[trail].in_flight -= 1;
            self.trails[trail].answered = now;
        }
    }

    #[inline]
    fn wakeup(&self) -> Option<Nanos> {
        self.wait_ends
    }

    fn figures(&self) -> Vec<Figure> {
        self.kept.figures(self.config.bound)
    }
}
