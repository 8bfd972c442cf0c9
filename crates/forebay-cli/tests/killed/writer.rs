//! The process that writes to a volume until it is killed.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use forebay_core::{Buf, Bytes, Done, Flags, Nanos, Op, Request, Slots, Workload};
use forebay_live::{Lanes, Target, Threads, Uring, run};
use forebay_play::OF_DRIVES;
use forebay_volume::{find, over};

use crate::killed::steps::{SECTOR, Step, content};

const DEPTH: usize = 16;
const LANE_DEPTH: u32 = 256;

/// Runs `client` on a volume, as `forebay play --volume` does.
pub(crate) fn on_volume(drives: &[PathBuf], client: &mut dyn Workload) {
    let found = find(drives, true).unwrap();
    let mut policy = over(found.array(), OF_DRIVES).unwrap();
    let targets: Vec<Target> = found.drives.into_iter().map(|(_, target)| target).collect();
    let mut lanes: Box<dyn Lanes> = match Uring::new(targets, LANE_DEPTH) {
        Ok(uring) => Box::new(uring),
        Err((_, targets)) => Box::new(Threads::new(targets, LANE_DEPTH).unwrap()),
    };
    run(&mut policy, &mut *lanes, client, &mut ()).unwrap();
}

/// Writes until this process is killed.
pub(crate) fn write(drives: &[PathBuf], first: u64) {
    let (under_way, now) = (BTreeMap::new(), Nanos::ZERO);
    on_volume(drives, &mut Writer { next: first, under_way, now });
}

/// Executes steps one after another. Never has two writes to the same sector pending, so that it is
/// known which write is newer.
struct Writer {
    next: u64,
    under_way: BTreeMap<u64, Buf>,
    now: Nanos,
}

impl Writer {
    fn may_begin(&self) -> bool {
        let mine = Step::at(self.next).sectors();
        let meets = |number: &u64| {
            let other = Step::at(*number).sectors();
            mine.start < other.end && other.start < mine.end
        };
        self.under_way.len() < DEPTH && !self.under_way.keys().any(meets)
    }
}

/// Writes a line to the pipe with a single system call.
fn say(word: &str, number: u64) {
    let line = format!("{word} {number}\n");
    std::io::stdout().write_all(line.as_bytes()).unwrap();
}

impl Workload for Writer {
    fn peek(&self) -> Option<Nanos> {
        self.may_begin().then_some(self.now)
    }

    fn take(&mut self) -> Request {
        let (id, step) = (self.next, Step::at(self.next));
        self.next += 1;
        say("begins", id);
        let sectors = step.sectors();
        let (op, flags) = match step {
            Step::Write { durable: true, .. } => (Op::Write, Flags::FUA),
            Step::Write { .. } => (Op::Write, Flags::NONE),
            Step::Flush => (Op::Flush, Flags::NONE),
        };
        let (offset, len) = (sectors.start * SECTOR as u64, (sectors.end - sectors.start) as u32);
        let len = len * SECTOR as u32;
        Request { at: self.now, offset, id, len, stream: 0, lane: 0, op, flags }
    }

    fn bytes(&mut self, request: &Request, slots: &mut dyn Slots) -> Bytes {
        let buf = slots.take(request.len.max(1));
        self.under_way.insert(request.id, buf);
        for (at, sector) in Step::at(request.id).sectors().enumerate() {
            let to = Bytes::of(buf).on((at * SECTOR) as u32).len(SECTOR as u32);
            slots.put(to, &content(request.id, sector));
        }
        Bytes::of(buf)
    }

    fn finished(&mut self, now: Nanos, done: &Done, slots: &mut dyn Slots) {
        self.now = now;
        let id = done.request.id;
        slots.free(self.under_way.remove(&id).unwrap());
        say(if done.outcome.is_ok() { "answered" } else { "failed" }, id);
    }

    fn is_over(&self) -> bool {
        false
    }
}
