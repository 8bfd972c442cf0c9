//! Reads a target in phases, and records when each read is answered.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_core::{Flags, Nanos, Op, Piece, Request, random};
use forebay_live::Lanes;

/// One phase of a probe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Phase {
    /// What the phase measures, for progress reports.
    pub(super) name: &'static str,
    /// The idle time before the phase, during which buckets fill up.
    pub(super) quiet: Nanos,
    /// The length of each read in bytes.
    pub(super) len: u32,
    /// Whether each read continues the one before.
    pub(super) is_sequential: bool,
    /// The maximum number of reads in flight.
    pub(super) depth: usize,
    /// The idle time after each answer; only with a depth of 1.
    pub(super) pause: Nanos,
    /// The maximum duration of the phase.
    pub(super) length: Nanos,
    /// The maximum number of reads.
    pub(super) reads_max: u64,
}

const fn phase(name: &'static str, len: u32, depth: usize) -> Phase {
    Phase {
        name,
        quiet: Nanos::from_secs(4),
        len,
        is_sequential: false,
        depth,
        pause: Nanos::ZERO,
        length: Nanos::from_secs(6),
        reads_max: 60_000,
    }
}

/// The phases: single reads, small reads, large reads, sequential reads, and reads larger than any
/// known counting unit. In total, they take at most 43 s and read at most 9.6 GB.
pub(super) const PHASES: [Phase; 5] = [
    Phase {
        quiet: Nanos::ZERO,
        pause: Nanos::from_millis(20),
        length: Nanos::from_secs(3),
        reads_max: 100,
        ..phase("single reads", 4096, 1)
    },
    phase("random reads of 4 KiB", 4096, 256),
    Phase { reads_max: 12_000, ..phase("random reads of 256 KiB", 1 << 18, 128) },
    Phase { is_sequential: true, ..phase("sequential reads of 32 KiB", 1 << 15, 128) },
    Phase { reads_max: 4_000, ..phase("random reads of 1 MiB", 1 << 20, 64) },
];

/// When the reads of a phase were answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PhaseTimes {
    /// The times of the answers, in seconds since the first read, in order.
    pub(super) done_s: Vec<f64>,
    /// The duration of each read in seconds, in the order of the answers.
    pub(super) took_s: Vec<f64>,
}

/// Why a probe ended early.
#[derive(Debug)]
pub(super) enum ProbeError {
    /// The driver failed.
    Driver(io::Error),
    /// A read failed, as the message describes.
    Read(String),
    /// The user interrupted the probe.
    Stopped,
}

impl From<io::Error> for ProbeError {
    fn from(error: io::Error) -> ProbeError {
        ProbeError::Driver(error)
    }
}

/// Generates the offsets of reads.
struct Offsets {
    blocks: u64,
    len: u64,
    is_sequential: bool,
    state: u64,
}

impl Offsets {
    fn next(&mut self) -> u64 {
        if self.is_sequential {
            self.state += 1;
            return self.state % self.blocks * self.len;
        }
        // A probe uses the same pseudorandom offsets every time.
        random::next(&mut self.state) % self.blocks * self.len
    }
}

/// Runs one phase on lane 0 of `lanes`, whose target has `capacity_bytes`. `id` is the id of the
/// next read.
pub(super) fn run(
    lanes: &mut dyn Lanes,
    capacity_bytes: u64,
    phase: &Phase,
    id: &mut u64,
    stop: &AtomicBool,
) -> Result<PhaseTimes, ProbeError> {
    let len = u64::from(phase.len);
    let blocks = (capacity_bytes / len).max(1);
    // Phases begin at different places, so that no phase reads what the previous one left in a
    // cache.
    let state = if phase.is_sequential { blocks / 3 } else { *id };
    let mut offsets = Offsets { blocks, len, is_sequential: phase.is_sequential, state };
    let (mut ended, mut times, mut started) = (Vec::new(), PhaseTimes::default(), 0);
    let begin = lanes.reap(Nanos::MAX, &mut ended)? + phase.quiet;
    let end = begin + phase.length;
    let (mut next_start, mut until) = (begin, begin);
    loop {
        let now = lanes.reap(until, &mut ended)?;
        for done in ended.drain(..) {
            if let Some(failure) = done.failure {
                let io = done.completion.io;
                return Err(ProbeError::Read(format!("a read at {} failed: {failure}", io.offset)));
            }
            times.done_s.push((done.completion.at - begin).as_secs_f64());
            times.took_s.push((done.completion.at - done.completion.started).as_secs_f64());
            next_start = next_start.max(now + phase.pause);
        }
        if stop.load(Ordering::Relaxed) {
            return Err(ProbeError::Stopped);
        }
        let is_over = now >= end || started >= phase.reads_max;
        if is_over && lanes.in_flight() == 0 {
            return Ok(times);
        }
        while !is_over
            && started < phase.reads_max
            && now >= next_start
            && lanes.in_flight() < phase.depth
            && lanes.room(0)
        {
            let io = Request {
                at: now,
                offset: offsets.next(),
                id: *id,
                len: phase.len,
                stream: 0,
                lane: 0,
                op: Op::Read,
                flags: Flags::NONE,
            };
            *id += 1;
            started += 1;
            lanes.start(now, io, &[Piece { buf: 0, at: 0, len: phase.len }]);
        }
        until = if next_start > now { next_start } else { Nanos::MAX };
        lanes.proceed(until.min(now + PATIENCE))?;
    }
}

/// How long a probe waits for an answer before it checks for interruption.
const PATIENCE: Nanos = Nanos::from_millis(100);
