//! Converts events to records: each arrival becomes a record whose latency ends when its last
//! sector completes.
//!
//! Arrivals are queue events. If a trace has no queue events (`blktrace -a issue`), issue events
//! are used instead, with a note; if there are no issue events either, insert events.
//!
//! - A completion is credited to the oldest request that awaits its sectors (see [`crate::cover`]).
//!   If the files of some CPUs are missing, it is credited to the newest instead, because an older
//!   request has most likely lost its completion.
//! - A write with a preflush, or one whose FUA the kernel emulates by a flush, ends with an empty
//!   completion at its sector after the completion of its data. If a device without a cache omits
//!   the empty completion, that of the data counts.
//! - An empty flush ends with an empty completion that has the write bit set. The device's own
//!   flushes have the flush bit but not the write bit, and end no request. A device without issue
//!   events (LVM, md) has no flushes of its own, and completes the flush as it arrived.
//! - If issues are the arrivals, a request that is issued again counts only once ([`reissue`]),
//!   with its latency from the first issue. The same is true for the rest of a request of which a
//!   part has completed.
//! - A request that the trace shows at several layers counts at one of them ([`super::layers`]).
//! - The latency of a request is unknown if any of its parts completed with an error.
//!
//! Records are returned in order of arrival, each as soon as it and all before it have completed. A
//! record is returned without a latency [`AGE_MAX_NS`] after its arrival, or when [`PENDING_MAX`]
//! other records follow it.

mod between_layers;
mod reissue;
mod waiting;

use forebay_words::plural::{counted, verb};
use std::collections::VecDeque;

use forebay_core::{Nanos, Op};
use rustc_hash::FxHashSet;

use super::event::{Category, Event, EventKind, SECTOR_BYTES, Span};
use super::layers::{Arrival, Layer, Layers};
use super::streams::Streams;
use crate::TraceError;
use crate::columns::meaning;
use crate::rows::{LATENCY_NS_MAX, wrapped_sentence};
use crate::trace::{BATCH, Dictionary, Notes, Record, SourceFacts};
pub(crate) use waiting::ONLY_DEVICE;
use waiting::{Exclusion, Pending, Volumes};

/// The maximum number of requests that wait for their completion.
const PENDING_MAX: usize = 262_144;

/// The maximum number of pairs of a segment and a request that awaits it. It bounds memory if many
/// requests overlap.
const CLAIMS_MAX: usize = 1 << 20;

/// How long a request waits for its completion, in nanoseconds of trace time.
const AGE_MAX_NS: u64 = 60_000_000_000;

/// If there is no queue event among this many events, the trace counts as one without queue events.
const PRELUDE_MAX: usize = 65_536;

/// Converts events to records.
pub(crate) struct Pairing {
    pub(crate) dictionary: Dictionary,
    pub(crate) notes: Notes,
    streams: Streams,
    arrivals: Arrivals,
    volumes: Volumes,
    layers: Layers,
    /// The devices that issue requests to a driver, if queue events are the arrivals.
    issuing: FxHashSet<u32>,
    /// Whether a completion may name the disk of a partition.
    disks_complete: bool,
    /// Whether any request was returned to the scheduler.
    has_requeued: bool,
    /// Whether a part of any request completed before the rest.
    has_partly: bool,
    /// Whether insert events are the arrivals, because there are neither queue nor issue events.
    inserted: bool,
    /// Whether completions are known to be missing.
    lossy: bool,
    /// The pending requests in order of arrival. Their ids are consecutive, starting with `first`.
    pending: VecDeque<Pending>,
    first: u64,
    now_ns: u64,
    start_ns: Option<u64>,
    ended: bool,
    tally: Tally,
}

/// Which events are the arrivals of requests.
enum Arrivals {
    /// Unknown, because there was no queue event so far. Contains the other events.
    Unknown(Vec<Event>),
    Queued,
    Issued,
}

#[derive(Default)]
struct Tally {
    requests: u64,
    has_completions: bool,
    without_latency: u64,
    /// The number of completions that were late.
    completed_late: u64,
    /// The number of implausible latencies.
    too_long: u64,
    queued_in_issue_only: u64,
    /// Whether there were completions but no arrivals.
    only_completes: bool,
    issued_again: u64,
    /// The number of requests that completed with an error.
    failed: u64,
}

impl Pairing {
    pub(crate) fn new(format: &'static str, lossy: bool) -> Pairing {
        Pairing {
            dictionary: Dictionary::default(),
            notes: Notes { format, columns: meaning::of_format(format), ..Notes::default() },
            streams: Streams::default(),
            arrivals: Arrivals::Unknown(Vec::new()),
            volumes: Volumes::default(),
            layers: Layers::default(),
            issuing: FxHashSet::default(),
            disks_complete: false,
            has_requeued: false,
            has_partly: false,
            inserted: false,
            lossy,
            pending: VecDeque::new(),
            first: 0,
            now_ns: 0,
            start_ns: None,
            ended: false,
            tally: Tally::default(),
        }
    }

    /// Sets at which layer requests count if the trace shows them at several.
    pub(crate) fn choose(&mut self, layer: Layer) {
        self.layers.layer = layer;
    }

    /// Permits completions at a disk to end requests to its partitions.
    pub(crate) fn let_disks_complete(&mut self) {
        self.disks_complete = true;
    }

    /// Fills a batch from a source of events: appends the records that are ready. Returns whether
    /// the source has ended.
    pub(crate) fn fill(
        &mut self,
        batch: &mut Vec<Record>,
        mut next: impl FnMut() -> Result<Option<Event>, TraceError>,
    ) -> Result<bool, TraceError> {
        batch.clear();
        while !self.ended && batch.len() < BATCH {
            match next()? {
                Some(event) => self.feed(event, batch),
                None => {
                    self.ended = true;
                    self.finish(batch);
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    pub(crate) fn feed(&mut self, event: Event, ready: &mut Vec<Record>) {
        self.tally.has_completions |= matches!(event.kind, EventKind::Complete(_));
        match &event.kind {
            EventKind::Name(name) => self.streams.name(event.pid, name, &mut self.dictionary),
            EventKind::Run => {
                self.take_as_issued(ready);
                while !self.pending.is_empty() {
                    self.release(ready);
                }
            }
            what => match &mut self.arrivals {
                Arrivals::Queued | Arrivals::Issued => self.take(&event, ready),
                Arrivals::Unknown(_) if matches!(what, EventKind::Queue(_)) => {
                    self.arrivals = Arrivals::Queued;
                    self.take(&event, ready);
                }
                Arrivals::Unknown(prelude) => {
                    prelude.push(event);
                    if prelude.len() >= PRELUDE_MAX {
                        self.take_as_issued(ready);
                    }
                }
            },
        }
    }

    /// Ends the trace: appends all remaining records and adds the notes.
    pub(crate) fn finish(&mut self, ready: &mut Vec<Record>) {
        self.take_as_issued(ready);
        while !self.pending.is_empty() {
            self.release(ready);
        }
        self.notes.warnings.extend(self.tally.sentences());
        self.notes.warnings.extend(self.layers.sentences());
        self.notes.warnings.extend(self.unremapped_sentences());
        self.notes.warnings.extend(self.streams.sentence());
    }

    /// Returns facts about the layers of the source.
    pub(crate) fn facts(&self) -> SourceFacts {
        SourceFacts { legs: self.layers.legs(), ..SourceFacts::default() }
    }

    /// If there were no queue events, uses the issue events so far as the arrivals or, failing
    /// these, the insert events.
    fn take_as_issued(&mut self, ready: &mut Vec<Record>) {
        let Arrivals::Unknown(prelude) = &mut self.arrivals else { return };
        let prelude = std::mem::take(prelude);
        let has = |is: fn(&EventKind) -> bool| prelude.iter().any(|event| is(&event.kind));
        self.inserted = !has(|what| matches!(what, EventKind::Issue(_)));
        if self.inserted && !has(|what| matches!(what, EventKind::Insert(_))) {
            self.tally.only_completes |= has(|what| matches!(what, EventKind::Complete(_)));
            return;
        }
        self.arrivals = Arrivals::Issued;
        self.notes.warnings.push(if self.inserted {
            "the trace has neither queue nor issue events: insert events (I) are used as arrivals, so \
             requests appear as the scheduler got them, without those that bypass it"
                .to_owned()
        } else {
            "the trace has no queue events: issue events (D) are used as arrivals, so requests \
             appear merged and reordered by the scheduler, and latency runs from issue"
                .to_owned()
        });
        for event in &prelude {
            self.take(event, ready);
        }
    }

    fn take(&mut self, event: &Event, ready: &mut Vec<Record>) {
        let issued = matches!(self.arrivals, Arrivals::Issued);
        match &event.kind {
            EventKind::Queue(_) if issued => self.tally.queued_in_issue_only += 1,
            EventKind::Insert(_) if !(issued && self.inserted) => return,
            EventKind::Issue(_) if issued && self.inserted => return,
            EventKind::Issue(span) if !issued => {
                self.issuing.insert(span.device);
                return;
            }
            EventKind::Queue(span) | EventKind::Issue(span) | EventKind::Insert(span) => {
                let is_late = self.advance(event);
                self.notes.rows_late += u64::from(is_late && span.op().is_some());
                self.arrive(event.pid, span, ready);
            }
            EventKind::Requeue(span) if issued && !self.lossy => self.requeue(span),
            EventKind::Complete(span) => {
                self.tally.completed_late += u64::from(self.advance(event));
                self.complete(span);
            }
            EventKind::Remap(remap) => return self.remap(remap),
            EventKind::Requeue(_) | EventKind::Name(_) | EventKind::Run => return,
        }
        while self.pending.front().is_some_and(|front| front.done || self.too_old(front)) {
            self.release(ready);
        }
    }

    /// Advances the current time to that of the event. If the event is late, its time is raised to
    /// the current time instead.
    fn advance(&mut self, event: &Event) -> bool {
        let is_late = event.time_ns < self.now_ns;
        self.now_ns = self.now_ns.max(event.time_ns);
        is_late
    }

    fn too_old(&self, front: &Pending) -> bool {
        self.at().0 - front.record.at.0 > AGE_MAX_NS
    }

    /// Returns the current time, relative to the first request.
    fn at(&self) -> Nanos {
        Nanos(self.now_ns) - Nanos(self.start_ns.unwrap_or(self.now_ns))
    }

    fn arrive(&mut self, pid: u32, span: &Span, ready: &mut Vec<Record>) {
        let Some(op) = span.op() else {
            self.notes.rows_skipped += 1;
            return;
        };
        if self.is_issued_again(span) {
            return;
        }
        let continues = match self.layers.arrive(span) {
            Arrival::IsExcluded => return,
            Arrival::CountsFor(above) => {
                self.leave_out_above(above, span.device);
                true
            }
            Arrival::Counts => false,
        };
        let volume = self.volumes.place(span.device);
        self.start_ns.get_or_insert(self.now_ns);
        // The offset of an empty flush has no meaning, and the text format does not contain it.
        let sector = if op == Op::Flush { 0 } else { span.sector };
        let record = Record {
            at: self.at(),
            offset: sector * SECTOR_BYTES,
            latency: None,
            len: span.bytes,
            stream: self.streams.number(pid, &mut self.dictionary),
            volume,
            op,
            flags: span.flags(),
        };
        let issued = matches!(self.arrivals, Arrivals::Issued);
        let barrier = Category::FLUSH.with(Category::FUA);
        let trailing = op == Op::Write && span.category.has(barrier) && !issued;
        self.tally.requests += 1;
        let pending = Pending {
            record,
            sector,
            awaited: 0,
            partly: None,
            failed: false,
            trailing,
            done: false,
            covered: 0,
            requeued: false,
            below: (0, None),
            remapped: false,
            continues,
            excluded: None,
        };
        self.wait(pending, ready);
    }

    fn wait(&mut self, mut pending: Pending, ready: &mut Vec<Record>) {
        let id = self.first + self.pending.len() as u64;
        let (sector, end) = (pending.sector, pending.end());
        pending.awaited = end - sector;
        if matches!(self.arrivals, Arrivals::Issued) && !self.lossy {
            self.issue(id, &pending);
        }
        let Some(volume) = self.volumes.get(pending.record.volume) else { return };
        if pending.record.op == Op::Flush {
            volume.flushes.push_back(id);
        } else if self.lossy {
            volume.direction(pending.record.op).supersede(id, sector, end);
        } else {
            volume.direction(pending.record.op).add(id, sector, end);
        }
        if pending.trailing {
            volume.barriers.entry(sector).or_default().push_back(id);
        }
        let crowded = volume.claims() > CLAIMS_MAX;
        self.pending.push_back(pending);
        if self.pending.len() > PENDING_MAX {
            self.release(ready);
        }
        if crowded {
            for _ in 0..self.pending.len().div_ceil(2) {
                self.release(ready);
            }
        }
    }

    fn complete(&mut self, span: &Span) {
        if span.category.has(Category::PASSTHROUGH) {
            return;
        }
        let at = self.at();
        let own = self.volumes.find_place(span.device);
        if span.bytes == 0 {
            let mut places: Vec<u32> = own.into_iter().collect();
            if self.disks_complete {
                places.extend(self.volumes.partitions(span.device));
            }
            if !places.into_iter().any(|place| self.complete_flush(place, span, at)) {
                self.complete_below(span, at);
            }
            return;
        }
        let issued = matches!(self.arrivals, Arrivals::Issued);
        let Some(op) = span.op() else { return };
        if issued && !self.lossy && self.complete_exact(span, op, at) {
            return;
        }
        if own.is_some_and(|place| self.credit(place, span, op, at)) {
            return;
        }
        let partitions =
            if self.disks_complete { self.volumes.partitions(span.device) } else { Vec::new() };
        for place in partitions {
            if self.credit(place, span, op, at) {
                if let Some(volume) = self.volumes.get(place) {
                    volume.belongs_to(span.device);
                }
                return;
            }
        }
        self.complete_below(span, at);
    }

    /// Processes an empty completion at a volume. Returns whether it ended a request.
    fn complete_flush(&mut self, place: u32, span: &Span, at: Nanos) -> bool {
        let issued = matches!(self.arrivals, Arrivals::Issued);
        let has_own = self.issuing.contains(&span.device);
        let Some(volume) = self.volumes.get(place) else { return false };
        while let Some(id) = volume.end_of_flush(span, issued, has_own) {
            let index = id.checked_sub(self.first).map(|index| index as usize);
            let pending = index.and_then(|index| self.pending.get_mut(index));
            if let Some(pending) = pending.filter(|pending| !pending.done) {
                let took = at - pending.record.at;
                pending.record.latency = Some(took);
                pending.failed |= span.category.has(Category::FAILED);
                pending.done = true;
                if issued && !self.lossy {
                    self.doubt_flushes(span, at, took);
                }
                return true;
            }
        }
        false
    }

    /// Credits the sectors of a completion to the requests of a volume. Returns whether any request
    /// awaited them.
    fn credit(&mut self, place: u32, span: &Span, op: Op, at: Nanos) -> bool {
        let Some(volume) = self.volumes.get(place) else { return false };
        let (first, pending) = (self.first, &mut self.pending);
        let (mut is_awaited, mut is_partly) = (false, false);
        volume.direction(op).complete(span.sector, span.end(), |id, sectors| {
            let index = id.checked_sub(first).map(|index| index as usize);
            let Some(pending) = index.and_then(|index| pending.get_mut(index)) else { return };
            is_awaited = true;
            pending.failed |= span.category.has(Category::FAILED);
            pending.awaited = pending.awaited.saturating_sub(sectors);
            pending.partly = (pending.awaited > 0).then_some(at);
            is_partly |= pending.awaited > 0;
            if pending.awaited == 0 {
                pending.record.latency = Some(at - pending.record.at);
                // A drive that supports FUA completes the FUA write together with the data, and no
                // flush follows.
                let native = span.category.has(Category::FUA)
                    && !pending.record.flags.has(forebay_core::Flags::PREFLUSH);
                pending.done = !pending.trailing || native;
            }
        });
        volume.completes |= is_awaited;
        self.has_partly |= is_partly;
        is_awaited
    }

    /// Returns the oldest request as a record, whether it has completed or not.
    fn release(&mut self, ready: &mut Vec<Record>) {
        let Some(mut pending) = self.pending.pop_front() else { return };
        let id = self.first;
        self.first += 1;
        if let Some(volume) = self.volumes.get(pending.record.volume) {
            volume.forget(id, &pending);
        }
        pending.complete_below();
        if matches!(self.arrivals, Arrivals::Issued) && !self.lossy && pending.is_doubtful() {
            pending.excluded.get_or_insert(Exclusion::IssuedAgain);
        }
        if let Some(reason) = pending.excluded {
            self.tally.issued_again += u64::from(reason == Exclusion::IssuedAgain);
            self.tally.requests -= 1;
            return;
        }
        if let Some(volume) = self.volumes.get(pending.record.volume) {
            volume.unremapped += u64::from(!pending.remapped);
            volume.own += u64::from(!pending.continues);
        }
        pending.record.volume = self.volumes.number(pending.record.volume, &mut self.dictionary);
        if pending.failed {
            pending.record.latency = None;
            self.tally.failed += 1;
        } else {
            self.tally.without_latency += u64::from(pending.record.latency.is_none());
        }
        if pending.record.latency.is_some_and(|latency| latency.0 > LATENCY_NS_MAX) {
            pending.record.latency = None;
            self.tally.too_long += 1;
        }
        ready.push(pending.record);
    }
}

impl Tally {
    fn sentences(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        if self.requests == 0 {
            sentences.push(if self.only_completes {
                "the trace holds no requests, only completions: record block_rq_issue (D), too"
                    .to_owned()
            } else {
                "the trace holds no requests".to_owned()
            });
        }
        if self.without_latency > 0 && !self.has_completions {
            sentences.push("the trace has no completions, so latencies are unknown".to_owned());
        } else if self.without_latency > 0 {
            let share = 100.0 * self.without_latency as f64 / self.requests.max(1) as f64;
            sentences.push(format!(
                "{} of {} ({share:.1} %) {} no completion in the trace: the latency is unknown",
                self.without_latency,
                counted(self.requests, "request"),
                verb(self.without_latency, "has", "have")
            ));
        }
        if self.failed > 0 {
            sentences.push(format!(
                "{} failed, so {} treated as unknown",
                counted(self.failed, "request"),
                verb(self.failed, "its latency is", "their latencies are")
            ));
        }
        sentences.extend(wrapped_sentence(self.too_long));
        if self.completed_late > 0 {
            sentences.push(format!(
                "{} {} after later events and {} moved to their time: latencies may be too long",
                counted(self.completed_late, "completion"),
                verb(self.completed_late, "stands", "stand"),
                verb(self.completed_late, "is", "are")
            ));
        }
        if self.issued_again > 0 {
            sentences.push(format!(
                "{} {} issued again before {} completed, as when a driver is busy: each request \
                 counts once",
                counted(self.issued_again, "request"),
                verb(self.issued_again, "was", "were"),
                verb(self.issued_again, "it", "they")
            ));
        }
        if self.queued_in_issue_only > 0 {
            sentences.push(format!(
                "{} {} after {PRELUDE_MAX} events without any: left out",
                counted(self.queued_in_issue_only, "queue event"),
                verb(self.queued_in_issue_only, "comes", "come")
            ));
        }
        sentences
    }
}

#[cfg(test)]
mod tests;
