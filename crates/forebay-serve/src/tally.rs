//! What clients got and what disks did: counts and latencies since the start.

use std::cell::RefCell;
use std::rc::Rc;

use forebay_core::contract::policy::Done;
use forebay_core::{Completion, Nanos, Observer, Op, Request};
use forebay_live::Watch;
use hdrhistogram::Histogram;

use crate::export::Export;
use crate::front::Front;
use crate::protocol::{Command, Header};
use crate::record::Recording;

/// Latencies beyond this are counted as this long.
const LATENCY_MAX_US: u64 = 3_600_000_000;

/// What is counted of one export.
#[derive(Clone, Debug)]
pub struct ExportTally {
    /// Its name.
    pub name: String,
    /// Clients that are connected.
    pub clients: u32,
    /// Reads that went well.
    pub reads: u64,
    /// Writes that went well.
    pub writes: u64,
    /// Flushes, trims and whatever else went well.
    pub others: u64,
    /// Bytes of those reads.
    pub read_bytes: u64,
    /// Bytes of those writes.
    pub written_bytes: u64,
    /// Requests that failed.
    pub failed: u64,
    /// From a request's being there whole to its answer, of reads and writes that went well, in microseconds.
    pub latency_us: Histogram<u64>,
}

/// What is counted of one disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct LaneTally {
    /// Reads that it did.
    pub reads: u64,
    /// Writes that it did.
    pub writes: u64,
    /// Flushes and trims that it did.
    pub others: u64,
    /// Bytes that it moved.
    pub bytes: u64,
    /// I/Os that failed.
    pub failed: u64,
    /// I/Os under way.
    pub under_way: u64,
}

/// Counts of a back.
#[derive(Clone, Debug)]
pub struct Tally {
    /// By export.
    pub exports: Vec<ExportTally>,
    /// By disk; a placement's flash is the last.
    pub lanes: Vec<LaneTally>,
}

impl Tally {
    pub(crate) fn new(exports: &[Export]) -> Tally {
        let of = |export: &Export| ExportTally {
            name: export.name.clone(),
            clients: 0,
            reads: 0,
            writes: 0,
            others: 0,
            read_bytes: 0,
            written_bytes: 0,
            failed: 0,
            latency_us: Histogram::new_with_bounds(1, LATENCY_MAX_US, 2)
                .expect("bounds that a histogram takes"),
        };
        Tally { exports: exports.iter().map(of).collect(), lanes: Vec::new() }
    }

    pub(crate) fn came(&mut self, export: usize) {
        self.exports[export].clients += 1;
    }

    pub(crate) fn left(&mut self, export: usize) {
        self.exports[export].clients -= 1;
    }

    pub(crate) fn answered(&mut self, export: usize, header: &Header, took: Nanos, failed: bool) {
        let counted = &mut self.exports[export];
        if failed {
            counted.failed += 1;
            return;
        }
        match header.command {
            Command::Read => {
                counted.reads += 1;
                counted.read_bytes += u64::from(header.len);
            }
            Command::Write => {
                counted.writes += 1;
                counted.written_bytes += u64::from(header.len);
            }
            _ => {
                counted.others += 1;
                return;
            }
        }
        counted.latency_us.saturating_record((took.0 / 1000).clamp(1, LATENCY_MAX_US));
    }

    fn lane(&mut self, io: &Request) -> &mut LaneTally {
        let at = usize::from(io.lane);
        if at >= self.lanes.len() {
            self.lanes.resize(at + 1, LaneTally::default());
        }
        &mut self.lanes[at]
    }

    fn started(&mut self, io: &Request) {
        self.lane(io).under_way += 1;
    }

    fn ended(&mut self, done: &Completion) {
        let lane = self.lane(&done.io);
        lane.under_way -= 1;
        match (done.outcome, done.io.op) {
            (Err(_), _) => lane.failed += 1,
            (Ok(()), Op::Read) => lane.reads += 1,
            (Ok(()), Op::Write) => lane.writes += 1,
            (Ok(()), _) => lane.others += 1,
        }
        if done.outcome.is_ok() && done.io.op.moves_data() {
            lane.bytes += u64::from(done.io.len);
        }
    }
}

/// Counts what disks do, and records what clients ask where that is wanted.
pub(crate) struct Counting {
    pub(crate) front: Rc<RefCell<Front>>,
    pub(crate) recording: Option<Recording>,
}

impl Observer for Counting {
    #[inline]
    fn arrived(&mut self, request: &Request) {
        if let Some(recording) = &mut self.recording {
            recording.arrived(request);
        }
    }

    #[inline]
    fn io(&mut self, completion: &Completion) {
        self.front.borrow_mut().tally.ended(completion);
    }

    #[inline]
    fn finished(&mut self, now: Nanos, done: &Done) {
        if let Some(recording) = &mut self.recording {
            recording.finished(now, done);
        }
    }
}

impl Watch for Counting {
    #[inline]
    fn started(&mut self, _now: Nanos, io: &Request) {
        self.front.borrow_mut().tally.started(io);
    }
}
