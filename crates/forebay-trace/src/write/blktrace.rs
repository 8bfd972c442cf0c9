//! Writes blktrace's binary format, version 7, as a single file for blkparse, btt and `fio
//! --read_iolog`.
//!
//! Units: nanoseconds from one second before the first request, sectors of 512 bytes. A request
//! becomes the events that blktrace(8) records for it: queued (Q), request allocated (G), inserted
//! (I) and issued (D), all at its arrival because nothing else is known, and completed (C) if its
//! latency is known. As in the kernel, a write with a preflush ends with a second, empty
//! completion. Sequence numbers increase by one. A record with a thread's name precedes its first
//! event under that name.
//!
//! blkparse finds a file by its base name, so the file should be called `NAME.blktrace.0`.
//!
//! If requests overlap, a completion does not identify the request that it ends. Readers choose the
//! oldest.

mod names;
mod record;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Write;

use forebay_core::{Flags, Nanos, Op};

use self::names::{Devices, Threads};
use self::record::{COMPLETE, Event, GET_REQUEST, INSERT, ISSUE, QUEUE, categories};
use super::{Draft, Writer};
use crate::formats::events::SECTOR_BYTES;
use crate::{Dictionary, Notes, Record, TraceError};

/// The maximum number of completions that wait for their time. If there are more, the earliest are
/// dropped.
const AWAITED_MAX: usize = 1 << 18;

/// The time of the first request. It is not zero, because blkparse takes zero for a clock that was
/// never set.
const EPOCH: Nanos = Nanos(1_000_000_000);

pub(super) fn create(draft: Draft) -> Result<Box<dyn Writer>, TraceError> {
    Ok(Box::new(Blktrace {
        draft,
        threads: Threads::default(),
        devices: Devices::default(),
        awaited: BinaryHeap::new(),
        sequence: 0,
        requests: 0,
        without_latency: 0,
        given_up: 0,
        shifted: 0,
        marked: 0,
    }))
}

struct Blktrace {
    draft: Draft,
    threads: Threads,
    devices: Devices,
    /// Pending completions, by time and then by order of arrival.
    awaited: BinaryHeap<Reverse<(Nanos, u64, Completion)>>,
    sequence: u32,
    requests: u64,
    without_latency: u64,
    /// The number of latencies that were dropped.
    given_up: u64,
    /// The number of requests that do not begin at a sector boundary.
    shifted: u64,
    /// The number of flushes that got the flag that all flushes have in this format.
    marked: u64,
}

/// The fields that the completion of a request must contain.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Completion {
    sector: u64,
    bytes: u32,
    device: u32,
    categories: u16,
    /// Whether an empty completion follows that of the data.
    trailing: bool,
}

impl Blktrace {
    fn put(&mut self, event: Event) -> Result<(), TraceError> {
        self.sequence = self.sequence.wrapping_add(1);
        let bytes = event.bytes(self.sequence);
        self.draft.write_all(&bytes).map_err(|error| self.draft.failed(error))
    }

    /// Writes the completions that are due by `now`.
    fn complete(&mut self, now: Nanos) -> Result<(), TraceError> {
        while let Some(Reverse((at, ..))) = self.awaited.peek()
            && *at <= now
            && let Some(Reverse((at, _, done))) = self.awaited.pop()
        {
            let event = |bytes, categories| Event {
                at,
                sector: done.sector,
                bytes,
                action: COMPLETE,
                categories,
                pid: 0,
                device: done.device,
            };
            self.put(event(done.bytes, done.categories))?;
            if done.trailing {
                self.put(event(0, categories(Op::Write, Flags::NONE)))?;
            }
        }
        Ok(())
    }

    fn request(&mut self, r: &Record, dictionary: &Dictionary) -> Result<(), TraceError> {
        let at = EPOCH + r.at;
        let (device, sector) = (self.devices.number(r.volume, dictionary), r.offset / SECTOR_BYTES);
        let (pid, name) = self.threads.of(r.stream, dictionary);
        if let Some(name) = name {
            let bytes = Event::name(at, pid, device, &name);
            self.draft.write_all(&bytes).map_err(|error| self.draft.failed(error))?;
        }
        let categories = categories(r.op, r.flags);
        for action in [QUEUE, GET_REQUEST, INSERT, ISSUE] {
            self.put(Event { at, sector, bytes: r.len, action, categories, pid, device })?;
        }
        self.requests += 1;
        self.shifted += u64::from(!r.offset.is_multiple_of(SECTOR_BYTES));
        self.marked += u64::from(r.op == Op::Flush && !r.flags.has(Flags::PREFLUSH));
        self.expect(r, Completion { sector, bytes: r.len, device, categories, trailing: false });
        Ok(())
    }

    /// Schedules the completion of a request.
    fn expect(&mut self, r: &Record, mut done: Completion) {
        let Some(latency) = r.latency else {
            self.without_latency += 1;
            return;
        };
        if self.awaited.len() == AWAITED_MAX {
            self.awaited.pop();
            self.given_up += 1;
        }
        match r.op {
            // The kernel completes the flush as the write that caused it; only the device's own
            // flush has the flag.
            Op::Flush | Op::Park | Op::Open => {
                done.categories = record::categories(Op::Write, Flags::NONE)
            }
            Op::Write => done.trailing = r.flags.has(Flags::PREFLUSH),
            Op::Read | Op::Trim => {}
        }
        self.awaited.push(Reverse((EPOCH + r.at + latency, self.requests, done)));
    }
}

impl Writer for Blktrace {
    fn write(&mut self, batch: &[Record], dictionary: &Dictionary) -> Result<(), TraceError> {
        for r in batch {
            self.complete(EPOCH + r.at)?;
            self.request(r, dictionary)?;
        }
        Ok(())
    }

    fn finish(
        mut self: Box<Self>,
        dictionary: &Dictionary,
        _: &Notes,
    ) -> Result<Vec<String>, TraceError> {
        self.complete(Nanos::MAX)?;
        let mut lost = self.threads.sentences(dictionary);
        lost.extend(self.devices.sentence());
        if self.requests > self.without_latency {
            lost.push(
                "issue events (D) are written at the arrival, because the time of issue is \
                not known"
                    .into(),
            );
        }
        let counts = [
            (self.given_up, "latencies are lost: too many requests were outstanding"),
            (self.shifted, "offsets were rounded down to whole sectors"),
            (self.marked, "flushes have the preflush flag, like every flush in this format"),
        ];
        let counts = counts.iter().filter(|(count, _)| *count > 0);
        lost.extend(counts.map(|(count, what)| format!("{count} {what}")));
        self.draft.publish()?;
        Ok(lost)
    }
}
