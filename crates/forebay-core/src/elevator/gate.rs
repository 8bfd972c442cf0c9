//! Admission: which submitters wait for a slot in the request queue, and which of them gets the
//! next free slot.
//!
//! Source: Linux 6.12, `block/blk-mq-tag.c` (`blk_mq_get_tag`) and `lib/sbitmap.c`; Linux 4.20,
//! `block/blk-core.c` (`get_request`, `__freed_request`); the **bid** paper's appendix. In Linux, a
//! task that submits a bio sleeps until there is a free slot, so at most one bio per task waits,
//! and the bios that it would submit next do not exist yet. Here these requests are *held*, in the
//! task's order.
//!
//! * [`Waiting::Tags`]: a bio takes one of the shared tags ([`super::tags`]) that its kind may use.
//!   A new arrival takes a free tag even if others are sleeping. After every `wake_batch` completed
//!   requests, the same number of sleepers is woken, from eight lines in turn, and in each line in
//!   the order in which they fell asleep. Woken tasks continue in turns, taking one tag each, until
//!   no tag is left. Then they sleep again at the end of their line.
//! * [`Waiting::Batches`]: two lists of requests, for synchronous requests and for others. The task
//!   that fills a list may exceed its limit by half, for 32 requests or 20 ms. The same applies to
//!   each woken task, one of which is woken for each completed request.
//! * [`Waiting::Line`]: bios of all streams wait in one line, separately for reads and writes.
//!   Under every rule, this also applies to bios whose submitter is unknown, because there is no
//!   task that could sleep.
//!
//! Write-back needs a slot of its own before it needs a tag ([`super::writeback`]).
//!
//! Invariants: a stream with held bios is asleep; a stream is asleep only while a request is
//! between admission and completion, and that request's completion wakes a stream.
//!
//! Departures: a flush takes no tag; a share of the tags that is given as a number is counted
//! separately.

use std::collections::VecDeque;

use super::{Limits, Tags, Waiting, Writeback};
use crate::contract::{BACKGROUND, Bytes, Flags, Nanos, Op, Request};
use crate::slab::Slab;

/// The number of requests that a task of the legacy queue may take beyond the limit
/// (`BLK_BATCH_REQ`).
const BATCH: u32 = 32;
/// The duration of a batch (`BLK_BATCH_TIME`).
const BATCH_TIME: Nanos = Nanos::from_millis(20);
const NIL: u32 = u32::MAX;
/// The number of lines in which sleepers wait for tags (`SBQ_WAIT_QUEUES`).
const WAIT_QUEUES: usize = 8;
/// The maximum number of tags that are represented individually. No device has a larger queue, so
/// the requests of larger ones are only counted.
const TAGS_MAX: u32 = 1 << 16;

/// The kinds of requests that limits distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Read,
    /// A write that somebody waits for.
    SyncWrite,
    AsyncWrite,
}

impl RequestKind {
    #[inline]
    pub(crate) fn of(op: Op, flags: Flags) -> RequestKind {
        match op == Op::Write {
            false => RequestKind::Read,
            true if flags.has(Flags::SYNC) => RequestKind::SyncWrite,
            true => RequestKind::AsyncWrite,
        }
    }
}

/// The slots that a request occupies in the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) kind: RequestKind,
    tag: Option<u32>,
    /// Whether the request also occupies a slot for write-back.
    is_throttled: bool,
}

impl Place {
    /// Returns the place of a request that does not count.
    pub(crate) fn uncounted(kind: RequestKind) -> Place {
        Place { kind, tag: None, is_throttled: false }
    }
}

/// The slots that a bio is waiting for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Lack {
    #[default]
    Tag,
    /// A slot for write-back.
    Throttle,
    /// Only a tag; it already has a slot for write-back.
    TagAlone,
}

/// A request whose bios have not all been queued.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) request: Request,
    pub(crate) bytes: Bytes,
    /// The key of the request in the block layer, once its stream's turn has come.
    pub(crate) client: Option<u32>,
    /// How many of its bytes have been queued.
    pub(crate) entered: u32,
    next: u32,
}

/// A sleeping stream and its held requests.
#[derive(Clone, Copy, Debug)]
struct Task {
    first: u32,
    last: u32,
    /// The number of tags per word that the waiting bio may use, computed once before the stream
    /// sleeps.
    first_tags: u32,
    /// Whether the waiting bio already has a slot for write-back.
    is_throttled: bool,
    /// The line in which it sleeps again after an unsuccessful wakeup.
    line: usize,
}

/// The sleeping streams, by number.
#[derive(Clone, Debug, Default)]
struct Tasks {
    tasks: Slab<Task>,
    /// The task of each stream; [`NIL`] for streams that are awake.
    keys: Vec<u32>,
}

impl Tasks {
    #[inline]
    fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    #[inline]
    fn key(&self, stream: u32) -> Option<u32> {
        self.keys.get(stream as usize).copied().filter(|key| *key != NIL)
    }

    #[inline]
    fn of(&self, stream: u32) -> Option<&Task> {
        self.key(stream).map(|key| &self.tasks[key])
    }

    #[inline]
    fn of_mut(&mut self, stream: u32) -> Option<&mut Task> {
        self.key(stream).map(|key| &mut self.tasks[key])
    }

    fn insert(&mut self, stream: u32, task: Task) {
        let at = stream as usize;
        if at >= self.keys.len() {
            self.keys.resize(at + 1, NIL);
        }
        self.keys[at] = self.tasks.insert(task);
    }

    fn remove(&mut self, stream: u32) {
        if let Some(key) = self.key(stream) {
            self.tasks.remove(key);
            self.keys[stream as usize] = NIL;
        }
    }
}

/// A stream that may exceed the limit of a list of the legacy queue.
#[derive(Clone, Copy, Debug)]
struct Batcher {
    stream: u32,
    left: u32,
    until: Nanos,
}

/// Counts the requests between admission and completion, and holds those without a slot.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    limits: Limits,
    /// The number of requests in the queue, by [`RequestKind`].
    counts: [u32; 3],
    /// The tags, if the queue has any.
    tags: Option<Tags>,
    /// The number of tags per word that each kind may use.
    tags_of: [u32; 3],
    /// The slots for write-back, if it is throttled.
    throttle: Option<Writeback>,
    /// The slots that the last rejected bio lacked.
    lack: Lack,
    held: Slab<Held>,
    tasks: Tasks,
    /// The sleeping streams in the order in which they fell asleep: in [`WAIT_QUEUES`] lines for
    /// tags, or by list for batches.
    sleepers: [VecDeque<u32>; WAIT_QUEUES],
    /// The line in which the next task will sleep, and the line from which the next task will be
    /// woken.
    sleeps_in: usize,
    wakes_from: usize,
    /// The number of sleeping tasks in all lines.
    asleep: usize,
    /// The tasks that were woken and must continue.
    awake: VecDeque<u32>,
    /// The number of requests that completed since sleepers were last woken.
    ended: u32,
    batchers: Vec<Batcher>,
    /// Whether each list has been full since a task was last woken for it.
    full: [bool; 2],
}

impl Gate {
    pub(crate) fn new(limits: Limits) -> Gate {
        let has_tags =
            matches!(limits.waiting, Waiting::Tags { .. }) && limits.requests_max <= TAGS_MAX;
        let tags = has_tags.then(|| Tags::new(limits.requests_max));
        let Limits { reads_max, writes_max, sync_writes_max, .. } = limits;
        let of_kinds = [reads_max, sync_writes_max.unwrap_or(writes_max), writes_max];
        let in_word = |part| tags.as_ref().map_or(0, |tags| tags.in_word(part));
        Gate {
            limits,
            counts: [0; 3],
            tags_of: of_kinds.map(in_word),
            tags,
            throttle: (has_tags && limits.read_target > Nanos::ZERO)
                .then(|| Writeback::new(limits.read_target, limits.requests_max)),
            lack: Lack::default(),
            held: Slab::default(),
            tasks: Tasks::default(),
            sleepers: Default::default(),
            sleeps_in: 0,
            wakes_from: 0,
            asleep: 0,
            awake: VecDeque::new(),
            ended: 0,
            batchers: Vec::new(),
            full: [false; 2],
        }
    }

    /// Returns whether `request` has no task that could sleep for it.
    #[inline]
    pub(crate) fn is_anonymous(&self, request: &Request) -> bool {
        self.limits.waiting == Waiting::Line
            || request.stream == BACKGROUND
            || request.flags.has(Flags::ANONYMOUS)
    }

    /// Returns whether any stream is asleep.
    #[inline]
    pub(crate) fn has_sleepers(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// Returns whether woken tasks run only after the next request is dispatched. In Linux, a
    /// completion immediately dispatches the next request.
    #[inline]
    pub(crate) fn wakes_later(&self) -> bool {
        self.has_sleepers() && matches!(self.limits.waiting, Waiting::Tags { .. })
    }

    /// Returns whether `stream` is asleep.
    #[inline]
    pub(crate) fn sleeps(&self, stream: u32) -> bool {
        self.tasks.key(stream).is_some()
    }

    /// Returns whether a bio of this kind, from any submitter, may enter now.
    #[inline]
    pub(crate) fn has_room(&self, kind: RequestKind) -> bool {
        let [reads, sync_writes, async_writes] = self.counts;
        let Limits { reads_max, writes_max, sync_writes_max, requests_max, .. } = self.limits;
        let writes = sync_writes + async_writes;
        let within = match (kind, sync_writes_max) {
            (RequestKind::Read, _) => reads < reads_max,
            (_, None) => writes < writes_max,
            (RequestKind::SyncWrite, Some(sync_writes_max)) => sync_writes < sync_writes_max,
            (RequestKind::AsyncWrite, Some(_)) => async_writes < writes_max,
        };
        within && reads + writes < requests_max
    }

    /// Returns the number of tags in a word, if there are tags.
    #[inline]
    pub(crate) fn word(&self) -> Option<u32> {
        self.tags.as_ref().map(Tags::word)
    }

    /// Returns the slots for write-back, if it is throttled.
    #[inline]
    pub(crate) fn throttle(&mut self) -> Option<&mut Writeback> {
        self.throttle.as_mut()
    }

    /// Admits `bio` and returns its place, or returns `None` if it must wait. It may use the first
    /// `first_tags` tags of each word.
    #[inline]
    pub(crate) fn admit(&mut self, now: Nanos, bio: &Request, first_tags: u32) -> Option<Place> {
        let kind = RequestKind::of(bio.op, bio.flags);
        let mut is_throttled = false;
        if let Some(throttle) = &mut self.throttle {
            if kind == RequestKind::Read {
                throttle.read_comes(now);
            } else if kind == RequestKind::AsyncWrite && bio.flags.has(Flags::WRITE_BACK) {
                is_throttled = self.throttles(now, bio.stream)?;
            }
        }
        let tag = self.tag(now, kind, bio.stream, first_tags);
        let Some(tag) = tag else {
            self.lack = if is_throttled { Lack::TagAlone } else { Lack::Tag };
            return None;
        };
        self.counts[kind as usize] += 1;
        if let Some(task) = self.tasks.of_mut(bio.stream) {
            task.first_tags = 0;
            task.is_throttled &= !is_throttled;
        }
        Some(Place { kind, tag, is_throttled })
    }

    /// Allocates a slot for write-back, unless `stream` already has one for the request that it
    /// sleeps for.
    #[cold]
    fn throttles(&mut self, now: Nanos, stream: u32) -> Option<bool> {
        let has = self.tasks.of(stream).is_some_and(|task| task.is_throttled);
        let took = has || self.throttle.as_mut().is_some_and(|throttle| throttle.take(now));
        self.lack = Lack::Throttle;
        took.then_some(true)
    }

    /// Allocates a tag for a bio of this kind. Returns `None` if its task must sleep, and
    /// `Some(None)` if the queue has no tags.
    #[inline]
    fn tag(
        &mut self,
        now: Nanos,
        kind: RequestKind,
        stream: u32,
        first_tags: u32,
    ) -> Option<Option<u32>> {
        let has_room = match self.limits.waiting {
            Waiting::Batches => self.list_admits(now, list(kind), stream),
            _ => self.has_room(kind),
        };
        if !has_room {
            return None;
        }
        let Some(tags) = &mut self.tags else { return Some(None) };
        tags.take(first_tags.min(self.tags_of[kind as usize])).map(Some)
    }

    /// Admits a bio of a kind with free slots. No task can sleep for it, so it may use any tag.
    #[inline]
    pub(crate) fn admit_anonymous(&mut self, kind: RequestKind) -> Place {
        self.counts[kind as usize] += 1;
        let tag = self.tags.as_mut().and_then(|tags| tags.take(tags.word()));
        Place { kind, tag, is_throttled: false }
    }

    /// Returns how many tags per word may be used by the bio that `stream` sleeps for.
    #[inline]
    pub(crate) fn slept_for(&self, stream: u32) -> Option<u32> {
        self.tags.as_ref()?;
        Some(self.tasks.of(stream)?.first_tags).filter(|&first_tags| first_tags > 0)
    }

    fn list_admits(&mut self, now: Nanos, list: usize, stream: u32) -> bool {
        let (count, limit) = (self.list_count(list), self.list_max(list));
        if count + 1 >= limit {
            if !self.full[list] {
                self.full[list] = true;
                self.begin_batch(now, stream);
            } else if !self.batches(now, stream) {
                return false;
            }
        }
        if count >= limit.saturating_add(limit / 2) {
            return false;
        }
        if let Some(batcher) = self.batchers.iter_mut().find(|one| one.stream == stream) {
            batcher.left = batcher.left.saturating_sub(1);
        }
        true
    }

    /// Returns the number of requests in the queue.
    #[inline]
    pub(crate) fn total(&self) -> u32 {
        self.counts.iter().sum()
    }

    /// Returns the number of requests on the legacy queue's list for this kind.
    pub(crate) fn count(&self, kind: RequestKind) -> u32 {
        self.list_count(list(kind))
    }

    /// Counts one more completed request, because the woken streams took no slot.
    pub(crate) fn pass_on(&mut self) {
        self.ended = self.ended.saturating_add(1);
    }

    fn list_count(&self, list: usize) -> u32 {
        let [reads, sync_writes, async_writes] = self.counts;
        [reads + sync_writes, async_writes][list]
    }

    fn list_max(&self, list: usize) -> u32 {
        [self.limits.reads_max, self.limits.writes_max][list]
    }

    fn begin_batch(&mut self, now: Nanos, stream: u32) {
        self.batchers.retain(|one| one.stream != stream && one.left > 0 && now < one.until);
        self.batchers.push(Batcher { stream, left: BATCH, until: now + BATCH_TIME });
    }

    /// Ends the batch of a stream whose number is assigned to a new submitter.
    pub(crate) fn begin_stream(&mut self, stream: u32) {
        self.batchers.retain(|one| one.stream != stream);
    }

    fn batches(&self, now: Nanos, stream: u32) -> bool {
        let may = |one: &Batcher| one.left == BATCH || one.left > 0 && now < one.until;
        self.batchers.iter().any(|one| one.stream == stream && may(one))
    }

    /// Frees the place of a request that has left the queue or was merged into another one.
    #[inline]
    pub(crate) fn leave(&mut self, place: Place) {
        let Place { kind, tag, is_throttled } = place;
        self.counts[kind as usize] -= 1;
        if let (Some(tags), Some(tag)) = (&mut self.tags, tag) {
            tags.free(tag);
        }
        if is_throttled && let Some(throttle) = &mut self.throttle {
            throttle.leave();
        }
        if self.tasks.is_empty() {
            let list = list(kind);
            self.full[list] &= self.list_count(list) >= self.list_max(list);
            return;
        }
        self.ended = self.ended.saturating_add(1);
    }

    /// Returns how many streams should be woken now.
    #[inline]
    pub(crate) fn due(&mut self) -> usize {
        let Waiting::Tags { wake_batch } = self.limits.waiting else { return 0 };
        if self.ended >= wake_batch {
            self.ended -= wake_batch;
            return self.asleep.min(wake_batch as usize);
        }
        // If the queue holds fewer requests than a batch, nothing else would wake the sleepers.
        usize::from(self.asleep > 0 && self.total() == 0)
    }

    /// Wakes `count` streams, taking the lines in turn.
    #[inline]
    pub(crate) fn wake(&mut self, mut count: usize) {
        for _ in 0..WAIT_QUEUES {
            let line = self.wakes_from;
            self.wakes_from = (line + 1) % WAIT_QUEUES;
            while count > 0
                && let Some(stream) = self.sleepers[line].pop_front()
            {
                let line = self.next_line();
                if let Some(task) = self.tasks.of_mut(stream) {
                    task.line = line;
                }
                self.awake.push_back(stream);
                (self.asleep, count) = (self.asleep - 1, count - 1);
            }
            if count == 0 {
                return;
            }
        }
    }

    fn next_line(&mut self) -> usize {
        let line = self.sleeps_in;
        self.sleeps_in = (line + 1) % WAIT_QUEUES;
        line
    }

    /// Removes and returns the next woken stream.
    #[inline]
    pub(crate) fn next_awake(&mut self) -> Option<u32> {
        self.awake.pop_front()
    }

    /// Makes `stream`, which did not fall asleep, continue after the other woken streams.
    #[inline]
    pub(crate) fn stay_awake(&mut self, stream: u32) {
        self.awake.push_back(stream);
    }

    /// Returns the stream to wake after a request of this kind has left the legacy queue.
    #[inline]
    pub(crate) fn wake_for(&mut self, now: Nanos, kind: RequestKind) -> Option<u32> {
        let list = list(kind);
        if self.limits.waiting != Waiting::Batches || self.list_count(list) >= self.list_max(list) {
            return None;
        }
        self.full[list] = false;
        let stream = self.sleepers[list].pop_front()?;
        self.asleep -= 1;
        self.begin_batch(now, stream);
        Some(stream)
    }

    /// Holds `request` behind the requests that its stream already holds.
    #[inline]
    pub(crate) fn hold(
        &mut self,
        request: Request,
        bytes: Bytes,
        client: Option<u32>,
        entered: u32,
    ) {
        let id = self.held.insert(Held { request, bytes, client, entered, next: NIL });
        match self.tasks.of_mut(request.stream) {
            Some(task) => {
                let last = std::mem::replace(&mut task.last, id);
                self.held[last].next = id;
            }
            None => {
                let task =
                    Task { first: id, last: id, first_tags: 0, is_throttled: false, line: 0 };
                self.tasks.insert(request.stream, task);
            }
        }
    }

    /// Puts `stream`, which holds a request, to sleep because there is no slot for a request of
    /// this kind. The bio may use the first `first_tags` tags of each word.
    #[inline]
    pub(crate) fn sleep(&mut self, stream: u32, kind: RequestKind, first_tags: u32) {
        let lack = std::mem::take(&mut self.lack);
        let mut again = None;
        if let Some(task) = self.tasks.of_mut(stream) {
            again = Some(task.line).filter(|_| task.first_tags > 0);
            task.first_tags = first_tags;
            task.is_throttled |= lack == Lack::TagAlone;
        }
        if lack == Lack::Throttle
            && let Some(throttle) = &mut self.throttle
        {
            return throttle.sleep(stream);
        }
        let line = match self.limits.waiting {
            Waiting::Batches => list(kind),
            _ => again.unwrap_or_else(|| self.next_line()),
        };
        self.sleepers[line].push_back(stream);
        self.asleep += 1;
    }

    /// Returns the first request held by `stream`.
    #[inline]
    pub(crate) fn first(&self, stream: u32) -> Option<&Held> {
        Some(&self.held[self.tasks.of(stream)?.first])
    }

    /// Records the key of the first request held by `stream`, and how many of its bytes have been
    /// queued.
    #[inline]
    pub(crate) fn keep_first(&mut self, stream: u32, client: u32, entered: u32) {
        let Some(task) = self.tasks.of(stream) else { return };
        let first = &mut self.held[task.first];
        (first.client, first.entered) = (Some(client), entered);
    }

    /// Returns the next stream that has received a slot for write-back and is therefore woken.
    #[inline]
    pub(crate) fn wake_throttled(&mut self, now: Nanos) -> Option<u32> {
        let stream = self.throttle.as_mut()?.wake(now)?;
        if let Some(task) = self.tasks.of_mut(stream) {
            task.is_throttled = true;
        }
        Some(stream)
    }

    /// Removes the first request held by `stream`, which has been queued completely.
    #[inline]
    pub(crate) fn release_first(&mut self, stream: u32) {
        let Some(task) = self.tasks.of_mut(stream) else { return };
        // The bio with this slot was merged into another request, so the slot is free.
        if std::mem::take(&mut task.is_throttled)
            && let Some(throttle) = &mut self.throttle
        {
            throttle.leave();
        }
        match self.held.remove(task.first).next {
            NIL => self.tasks.remove(stream),
            next => task.first = next,
        }
    }
}

/// Returns the index of the legacy queue's list for a kind.
fn list(kind: RequestKind) -> usize {
    usize::from(kind == RequestKind::AsyncWrite)
}
