//! The reads of a rebuild beside the requests of a trace.
//!
//! An array without a spare drive cannot rebuild itself in a simulation, so the reads are sent to
//! it from outside, one unit at a time as the array would do: the next one when the last one is
//! answered, but no sooner than the rate allows. Writes to the new drive are left out, because this
//! drive has nothing else to do.
//!
//! The run ends with the last answer to a request of the trace, because an array with a missing
//! drive may go on looking for space for its data forever.

use std::sync::atomic::{AtomicU64, Ordering};

use forebay_core::{BACKGROUND, Bytes, Done, Flags, Nanos, Op, Request, Slots, Workload};

/// The reads of a rebuild. A run reports to it from one thread; it is atomic only because a test
/// bed is shared between threads.
#[derive(Debug)]
pub struct Rebuild {
    /// The number of bytes to read in order to rebuild a chunk.
    len: u32,
    /// The shortest time between the beginnings of two reads.
    every: Nanos,
    /// The number of units with data.
    units: u64,
    done: AtomicU64,
}

impl Rebuild {
    /// Creates the reads that rebuild chunks of `chunk_bytes` at `bytes_per_s` at most, for each of
    /// which `chunks` must be read, if `data_bytes` of the array hold data. A rate of 0 means that
    /// the missing drive is not rebuilt.
    pub fn new(chunk_bytes: u32, chunks: u32, bytes_per_s: f64, data_bytes: u64) -> Rebuild {
        let len = chunk_bytes * chunks;
        let every = match bytes_per_s > 0.0 {
            true => Nanos::from_secs_f64(f64::from(chunk_bytes) / bytes_per_s),
            false => Nanos::MAX,
        };
        let units = (data_bytes / u64::from(len.max(1))).max(1);
        Rebuild { len, every, units, done: AtomicU64::new(0) }
    }

    /// Returns the number of chunks that have been rebuilt.
    pub fn chunks(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }
}

/// A workload, and the reads of a rebuild until it ends.
pub(super) struct Beside<'a, W> {
    pub(super) workload: W,
    rebuild: Option<&'a Rebuild>,
    now: Nanos,
    /// When the next read of the rebuild is due; `None` while one is outstanding.
    due: Option<Nanos>,
    begun: u64,
    /// The number of unanswered requests of the trace.
    waiting: u64,
}

impl<'a, W: Workload> Beside<'a, W> {
    pub(super) fn new(workload: W, rebuild: Option<&'a Rebuild>) -> Beside<'a, W> {
        let due = rebuild.filter(|rebuild| rebuild.every < Nanos::MAX).map(|_| Nanos::ZERO);
        Beside { workload, rebuild, now: Nanos::ZERO, due, begun: 0, waiting: 0 }
    }

    /// Returns when the next read of the rebuild arrives.
    #[inline]
    fn next_read(&self) -> Option<Nanos> {
        Some(self.due?.max(self.now))
    }
}

impl<W: Workload> Workload for Beside<'_, W> {
    #[inline]
    fn peek(&self) -> Option<Nanos> {
        let next = self.workload.peek()?;
        Some(self.next_read().map_or(next, |read| read.min(next)))
    }

    #[inline]
    fn take(&mut self) -> Request {
        let next = self.workload.peek();
        let read = self.next_read().filter(|read| next.is_some_and(|next| *read < next));
        let (Some(at), Some(rebuild)) = (read, self.rebuild) else {
            let request = self.workload.take();
            self.now = self.now.max(request.at);
            self.waiting += 1;
            return request;
        };
        (self.now, self.due, self.begun) = (at, None, self.begun + 1);
        let offset = self.begun % rebuild.units * u64::from(rebuild.len);
        let (id, len, stream) = (u64::MAX - self.begun, rebuild.len, BACKGROUND);
        Request { at, offset, id, len, stream, lane: 0, op: Op::Read, flags: Flags::NONE }
    }

    #[inline]
    fn bytes(&mut self, request: &Request, slots: &mut dyn Slots) -> Bytes {
        match request.stream {
            BACKGROUND => Bytes::NONE,
            _ => self.workload.bytes(request, slots),
        }
    }

    #[inline]
    fn finished(&mut self, now: Nanos, done: &Done, slots: &mut dyn Slots) {
        self.now = self.now.max(now);
        match self.rebuild {
            Some(rebuild) if done.request.stream == BACKGROUND => {
                rebuild.done.fetch_add(1, Ordering::Relaxed);
                self.due = Some(done.request.at + rebuild.every);
            }
            _ => {
                self.waiting = self.waiting.saturating_sub(1);
                self.workload.finished(now, done, slots);
            }
        }
    }

    #[inline]
    fn is_over(&self) -> bool {
        self.workload.is_over()
    }

    #[inline]
    fn is_stopped(&self) -> bool {
        let has_ended = || self.waiting == 0 && self.workload.peek().is_none();
        self.workload.is_stopped() || self.rebuild.is_some() && has_ended()
    }
}

#[cfg(test)]
mod tests {
    use forebay_core::Null;
    use forebay_core::replay::{Intensity, Open};

    use super::*;

    #[test]
    fn one_read_at_a_time_no_sooner_than_the_rate_allows_until_the_trace_ends() {
        let of_trace = |at_ms: u64| {
            let (at, op, flags) = (Nanos::from_millis(at_ms), Op::Write, Flags::NONE);
            Request { at, offset: 0, id: at_ms, len: 4096, stream: 0, lane: 0, op, flags }
        };
        // A chunk of 1000 bytes each 10 ms; two of four units hold data.
        let rebuild = Rebuild::new(1000, 4, 100_000.0, 8000);
        let trace = [0, 15, 30, 100].map(of_trace).into_iter();
        let mut both = Beside::new(Open::new(trace, Intensity::RECORDED), Some(&rebuild));
        let mut seen = Vec::new();
        // Each read takes 12 ms, but the third one 1 ms.
        while both.peek().is_some() {
            let request = both.take();
            let (is_read, ms) = (request.op == Op::Read, request.at.0 / 1_000_000);
            seen.push((ms, is_read.then_some(request.offset)));
            if is_read {
                let took = Nanos::from_millis(if rebuild.chunks() == 2 { 1 } else { 12 });
                let done = Done::at_once(request, Ok(()));
                both.finished(request.at + took, &done, &mut Null);
            }
        }
        let reads: Vec<_> =
            seen.iter().filter_map(|(at, offset)| Some((*at, (*offset)?))).collect();
        assert_eq!(reads[..4], [(0, 4000), (12, 0), (24, 4000), (34, 0)], "{seen:?}");
        assert!(seen.is_sorted_by_key(|(at, _)| *at), "{seen:?}");
        assert_eq!(seen.last(), Some(&(100, None)));
        assert_eq!(rebuild.chunks() as usize, reads.len());
    }
}
