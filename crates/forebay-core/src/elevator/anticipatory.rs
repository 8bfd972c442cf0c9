//! anticipatory: sweeps in separate batches of reads and writes, and waits after a read for the
//! next read of the same process.
//!
//! Source: Linux 2.6 `as-iosched` as described in its documentation, after Iyer and Druschel,
//! "Anticipatory scheduling" (SOSP 2001). The head sweeps upwards; a backward move of up to 512 MiB
//! is also considered, at twice the cost. If both kinds of requests are waiting, synchronous ones
//! ("reads") and asynchronous ones ("writes") are served in alternating batches of limited time,
//! and all requests of one kind leave the device before a batch of the other begins. A write batch
//! also has a limited number of requests, tuned to match its time. Within a batch, an expired
//! request goes first; expiry is checked once per expiry time.
//!
//! After a read, the disk waits up to `antic_expire` for the next read of the same process. It does
//! not wait if the process has already sent a request or is known to think for longer, or if
//! another read is about as close as the expected one. (The distance that counts as close grows
//! with the time waited and with the process's mean distance.) A process that has read only once is
//! judged by how many processes never sent a second read.
//!
//! Departures: the end of a process is not known, so a process that was waited for in vain after
//! its first read counts as ended; a close request of a cooperating process ends the wait but is
//! not remembered (`exit_no_coop`); a change of batches is reconsidered until the device is empty;
//! time is in nanoseconds, not ticks.

mod process;
#[cfg(test)]
mod tests;

use super::{BackSeek, Elevator, ElevatorVisitor, Limits, Queue, QueuedId, Scheduler, SeekOrder};
use crate::contract::{Given, Listed, Nanos, Origin, Parameter, Request, SpecError};
use process::{Newcomers, Process};

/// The parameters that the scheduler accepts.
const PARAMETERS: &[Parameter] = &[
    Parameter::millis("antic-expire-ms", 6.7)
        .about("how long to wait for a stream's next read or synchronous write; 0: never"),
    Parameter::millis("read-expire-ms", 125.0)
        .about("a read or synchronous write older than this is served first in its batch"),
    Parameter::millis("write-expire-ms", 250.0).about("the corresponding age for other writes"),
    Parameter::millis("read-batch-expire-ms", 500.0)
        .about("how long reads and synchronous writes use the disk while other writes wait"),
    Parameter::millis("write-batch-expire-ms", 125.0)
        .about("how long other writes use the disk while reads or synchronous writes wait"),
];

impl Scheduler for Anticipatory {
    const LISTED: Listed = Listed {
        name: "anticipatory",
        origin: Origin::LinuxBefore2_6_33,
        summary: "sweeps in read and write batches; waits after a read for its process's next",
        parameters: &[PARAMETERS],
    };

    fn visit<V: ElevatorVisitor>(given: &Given<'_>, visitor: V) -> Result<V::Out, SpecError> {
        Ok(visitor.visit(Anticipatory::new(AnticipatoryConfig::given(given)?)))
    }

    fn limits(_given: &Given<'_>, limits: Limits) -> Result<Limits, SpecError> {
        Ok(limits.legacy())
    }
}

/// The kinds of requests, synchronous and asynchronous; each is also a scope for merging.
const READS: usize = 0;
const WRITES: usize = 1;

const BACK: BackSeek = BackSeek { max: 512 << 20, penalty: 2 };

/// A request within this distance (8192 sectors) is as good as the expected one.
const CLOSE_BYTES: u64 = 8192 * 512;

/// The assumed duration of each write in the first batch.
const FIRST_WRITE: Nanos = Nanos::from_millis(10);

/// The scheduler's tunables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnticipatoryConfig {
    /// How long the disk waits for a process's next read; 0 turns waiting off.
    pub antic_expire: Nanos,
    /// The age from which a request goes first in its batch, for synchronous requests and for
    /// others.
    pub expire: [Nanos; 2],
    /// How long a batch continues while requests of the other kind wait, for synchronous requests
    /// and for others.
    pub batch_expire: [Nanos; 2],
}

impl AnticipatoryConfig {
    fn given(given: &Given<'_>) -> Result<AnticipatoryConfig, SpecError> {
        let both = |read, write| Ok([given.millis(read)?, given.millis(write)?]);
        Ok(AnticipatoryConfig {
            antic_expire: given.millis("antic-expire-ms")?,
            expire: both("read-expire-ms", "write-expire-ms")?,
            batch_expire: both("read-batch-expire-ms", "write-batch-expire-ms")?,
        })
    }
}

impl Default for AnticipatoryConfig {
    fn default() -> Self {
        Given::defaults(PARAMETERS, AnticipatoryConfig::given)
    }
}

/// The current batch.
#[derive(Clone, Copy, Debug)]
struct Batch {
    kind: usize,
    started: Nanos,
    /// When the batch's time is up. The time of a read batch starts at its first completion.
    ends: Option<Nanos>,
    /// Whether nothing from the batch has been dispatched yet.
    is_new: bool,
    /// The number of requests that a write batch may still dispatch.
    writes_left: u32,
    /// Whether the write batch ran out of writes.
    idled: bool,
}

/// Linux's anticipatory elevator.
#[derive(Clone, Debug)]
pub struct Anticipatory {
    config: AnticipatoryConfig,
    /// The queued requests of each kind.
    requests: [SeekOrder; 2],
    /// The end of the last request of each kind.
    heads: [u64; 2],
    in_flight: [u32; 2],
    fifo_checked: [Nanos; 2],
    /// The processes, by stream.
    processes: Vec<Process>,
    newcomers: Newcomers,
    batch: Batch,
    /// The number of writes in the next write batch.
    write_batch: u32,
    /// The process to wait for: the process that sent the last request, if that was a read.
    expected: Option<u32>,
    /// When the current wait ends, if the disk is waiting.
    wait_ends: Option<Nanos>,
}

impl Anticipatory {
    /// Creates an empty elevator.
    pub fn new(config: AnticipatoryConfig) -> Self {
        let write_batch = (config.batch_expire[WRITES].0 / FIRST_WRITE.0).clamp(2, 1000) as u32;
        let (started, ends) = (Nanos::ZERO, None);
        let batch =
            Batch { kind: READS, started, ends, is_new: true, writes_left: 0, idled: false };
        Anticipatory {
            config,
            requests: Default::default(),
            heads: [0; 2],
            in_flight: [0; 2],
            fifo_checked: [Nanos::ZERO; 2],
            processes: Vec::new(),
            newcomers: Newcomers::default(),
            batch,
            write_batch,
            expected: None,
            wait_ends: None,
        }
    }

    /// Continues the batch, starts a new one, or waits.
    fn choose(&mut self, now: Nanos, queue: &Queue) -> Option<QueuedId> {
        let waited = self.wait_ends.take().is_some();
        let kind = self.batch.kind;
        let [here, there] = [kind, 1 - kind].map(|kind| !self.requests[kind].is_empty());
        if !here && !there {
            return None;
        }
        if !(here && there && self.is_batch_over(now)) {
            if kind == READS {
                if let Some(id) = self.expired(now, READS, queue) {
                    return Some(id);
                }
                if self.anticipates(now, waited) {
                    return None;
                }
            }
            if here {
                return self.in_batch(now, queue);
            }
        }
        if self.in_flight[kind] > 0 {
            return None; // wait until the device has completed all requests
        }
        self.begin_batch(now, 1 - kind);
        self.in_batch(now, queue)
    }

    /// Returns the next request of the current batch.
    fn in_batch(&mut self, now: Nanos, queue: &Queue) -> Option<QueuedId> {
        let kind = self.batch.kind;
        let is_new = std::mem::take(&mut self.batch.is_new);
        if is_new && kind == READS {
            self.fifo_checked[READS] = now;
            return self.requests[READS].oldest();
        }
        let expired = self.expired(now, kind, queue);
        expired.or(self.requests[kind].next().map(|(_, id)| id))
    }

    /// Returns the oldest request if it has expired, checking only once per expiry time.
    fn expired(&mut self, now: Nanos, kind: usize, queue: &Queue) -> Option<QueuedId> {
        let expire = self.config.expire[kind];
        if self.fifo_checked[kind] + expire > now {
            return None;
        }
        self.fifo_checked[kind] = now;
        self.requests[kind].expired(now, expire, queue)
    }

    fn is_batch_over(&self, now: Nanos) -> bool {
        let Batch { kind, ends, writes_left, .. } = self.batch;
        ends.is_some_and(|ends| ends <= now) || kind == WRITES && writes_left == 0
    }

    fn begin_batch(&mut self, now: Nanos, kind: usize) {
        if kind == READS {
            self.tune_write_batch(now - self.batch.started);
        }
        let ends = (kind == WRITES).then(|| now + self.config.batch_expire[WRITES]);
        let writes_left = self.write_batch;
        self.batch = Batch { kind, started: now, ends, is_new: true, writes_left, idled: false };
    }

    /// Tunes the size of write batches after a batch that took `took` until the device was empty.
    fn tune_write_batch(&mut self, took: Nanos) {
        let (limit, Batch { writes_left, idled, .. }) =
            (self.config.batch_expire[WRITES], self.batch);
        let count = self.write_batch;
        let tuned = if took > limit && !idled {
            if took.0 / 3 > limit.0 { count / 2 } else { count - 1 }
        } else if took < limit && writes_left == 0 {
            if took.0 < limit.0 / 3 { count.saturating_mul(2) } else { count.saturating_add(1) }
        } else {
            count
        };
        self.write_batch = tuned.max(1);
    }

    /// Returns whether to wait for the next read of the last process although there are other
    /// requests. `waited` is true if the scheduler has already been waiting for it.
    fn anticipates(&mut self, now: Nanos, waited: bool) -> bool {
        let (Some(stream), span) = (self.expected, self.config.antic_expire) else { return false };
        let process = &self.processes[stream as usize];
        if process.queued > 0 || !process.reads_on_within(span, &self.newcomers) {
            return false;
        }
        if process.in_flight > 0 {
            // Wait for the answer to this request, and then for the next request.
            return span > Nanos::ZERO;
        }
        let ends = process.idle_since() + span;
        if ends <= now {
            if waited && process.is_new() {
                self.newcomers.end();
            }
            self.expected = None;
            return false;
        }
        let elapsed = now - process.idle_since();
        let next = self.requests[READS].next();
        if next.is_some_and(|(offset, _)| self.is_close(offset, elapsed, process.seek_mean())) {
            return false;
        }
        self.wait_ends = Some(ends);
        true
    }

    /// Returns whether a request at `offset` is about as close as the expected one, after a wait of
    /// `elapsed`.
    fn is_close(&self, offset: u64, elapsed: Nanos, seek_mean: u64) -> bool {
        let head = self.heads[READS];
        let elapsed_ms = (elapsed.0 / 1_000_000).min(20);
        let close = if elapsed_ms <= 1 { CLOSE_BYTES } else { CLOSE_BYTES << elapsed_ms };
        match offset.checked_sub(head) {
            Some(forward) => forward <= close.max(seek_mean),
            None => head - offset <= (close / 2).max(seek_mean),
        }
    }

    fn process(&mut self, stream: u32) -> &mut Process {
        let place = stream as usize;
        if place >= self.processes.len() {
            self.processes.resize(place + 1, Process::default());
        }
        &mut self.processes[place]
    }
}

impl Elevator for Anticipatory {
    #[inline]
    fn scope(&self, bio: &Request) -> u32 {
        if bio.is_sync() { READS as u32 } else { WRITES as u32 }
    }

    fn add(&mut self, now: Nanos, id: QueuedId, queue: &mut Queue) {
        let request = queue[id];
        let kind = request.scope as usize;
        if kind == READS {
            let mut newcomers = self.newcomers;
            let process = self.process(request.stream);
            process.arrive(now, request.offset, request.end(), &mut newcomers);
            self.newcomers = newcomers;
        }
        self.requests[kind].add(id, self.heads[kind], BACK, queue);
    }

    fn grown(&mut self, _now: Nanos, id: QueuedId, offset_before: u64, queue: &mut Queue) {
        let kind = queue[id].scope as usize;
        if queue[id].offset != offset_before {
            self.requests[kind].moved(id, offset_before, self.heads[kind], BACK, queue);
        }
    }

    fn join(&mut self, _now: Nanos, kept: QueuedId, gone: QueuedId, queue: &mut Queue) {
        let kind = queue[gone].scope as usize;
        if kind == READS {
            self.processes[queue[gone].stream as usize].queued -= 1;
        }
        self.requests[kind].join(kept, gone, BACK, queue);
    }

    fn take(&mut self, now: Nanos, queue: &mut Queue) -> Option<QueuedId> {
        let id = self.choose(now, queue)?;
        let request = queue[id];
        let kind = request.scope as usize;
        self.requests[kind].take(id, BACK, queue);
        self.heads[kind] = request.end();
        self.in_flight[kind] += 1;
        if kind == READS {
            let process = &mut self.processes[request.stream as usize];
            process.queued -= 1;
            process.in_flight += 1;
            self.expected = Some(request.stream);
        } else {
            self.batch.writes_left = self.batch.writes_left.saturating_sub(1);
            self.expected = None;
        }
        Some(id)
    }

    fn completed(&mut self, now: Nanos, id: QueuedId, queue: &Queue) {
        let request = &queue[id];
        let kind = request.scope as usize;
        self.in_flight[kind] -= 1;
        if kind == READS {
            self.processes[request.stream as usize].completed(now);
            if self.batch.kind == READS && self.batch.ends.is_none() {
                self.batch.ends = Some(now + self.config.batch_expire[READS]);
            }
        } else if self.requests[WRITES].is_empty() {
            self.batch.idled = true;
        }
    }

    /// Stops waiting for the process that used this stream number, because that process has ended.
    fn begin_stream(&mut self, stream: u32, _queue: &Queue) {
        let Some(process) = self.processes.get_mut(stream as usize) else { return };
        process.begin();
        if self.expected == Some(stream) {
            (self.expected, self.wait_ends) = (None, None);
        }
    }

    #[inline]
    fn wakeup(&self) -> Option<Nanos> {
        self.wait_ends
    }
}
