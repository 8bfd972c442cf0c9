//! Tests puts that are answered before they are durable: a power cut loses only the latest puts, at
//! most one log of them, and the rest is the state as of a single point in time.

use forebay_core::{Done, Flags, Nanos, Op, Request, RequestId, Slots, Workload};
use forebay_live::run;
use forebay_rig::{Crash, Medium, Tear, Troubles};
use forebay_store::{Answer, Config, Desk, Key, Layout, Operation, Page, StorePolicy, Value};

use crate::crash::lying::{Lie, Lying};
use crate::crash::{Draw, STUCK, config, layouts, media};

/// Puts numbers in order, several at a time, each under its own key; or, with `reads`, reads all of
/// them.
struct Counting {
    desk: Desk,
    now: Nanos,
    next: RequestId,
    upto: u64,
    under_way: u64,
    acknowledged: u64,
    found: Vec<u64>,
    reads: bool,
}

fn key(number: u64) -> Key {
    Key::from(&number.to_be_bytes()[..])
}

fn value(number: u64) -> Value {
    number.to_le_bytes().repeat(1 + (number as usize * 37) % 300).into()
}

impl Workload for Counting {
    fn peek(&self) -> Option<Nanos> {
        let room = if self.next <= 1 { 1 } else { 4 };
        (self.next <= self.upto && self.under_way < room).then_some(self.now)
    }

    fn take(&mut self) -> Request {
        let id = self.next;
        let (operation, op) = match id {
            0 => (Operation::Open, Op::Open),
            _ if self.reads => {
                (Operation::Scan { from: key(0), count: usize::MAX, bytes: u64::MAX }, Op::Read)
            }
            _ => (Operation::Write(vec![(key(id), Some(value(id)))]), Op::Write),
        };
        self.desk.submit(id, operation);
        (self.next, self.under_way) = (id + 1, self.under_way + 1);
        let (at, flags) = (self.now, Flags::NONE);
        Request { at, offset: 0, id, len: 0, stream: 0, lane: 0, op, flags }
    }

    fn finished(&mut self, now: Nanos, done: &Done, _slots: &mut dyn Slots) {
        (self.now, self.under_way) = (now, self.under_way - 1);
        match self.desk.take(done.request.id).unwrap() {
            Ok(Answer::Page(Page { records, .. })) => {
                self.found = (1..).take(records.len()).collect();
                for (number, (found, content)) in (1..).zip(records) {
                    assert_eq!((found, content), (key(number), value(number)), "a gap");
                }
            }
            Ok(_) => self.acknowledged = done.request.id,
            Err(trouble) => panic!("operation {}: {trouble}", done.request.id),
        }
    }

    fn is_over(&self) -> bool {
        self.next > self.upto && self.under_way == 0
    }
}

/// Disks with enough space in their roots for all merges; a merge without space would be retried
/// forever.
fn roomy() -> Vec<Layout> {
    let roomy = |layout| Layout { root_bytes: 1 << 18, ..layout };
    layouts(&mut Draw(9)).into_iter().map(roomy).collect()
}

/// Runs a life that puts or reads numbers; returns the contents of the disks, the workload, and
/// whether the run ended without a power cut.
fn live(
    media: Vec<Medium>,
    (config, lie): (&Config, Option<Lie>),
    (upto, reads): (u64, bool),
    (draw, cut_after): (&mut Draw, u64),
) -> (Vec<Medium>, Counting, bool) {
    let layouts = roomy();
    let troubles = Troubles { cut_after: Some(cut_after), ..Troubles::default() };
    let lanes = Crash::new(media, 4096, 1 + draw.below(6) as usize, draw.below(u64::MAX), troubles);
    let mut lanes = Lying::over(lanes, lie, layouts[0]);
    let desk = Desk::default();
    let mut policy = StorePolicy::new(&layouts, config.clone(), 65536, desk.clone());
    let mut work = Counting {
        desk,
        now: Nanos::ZERO,
        next: 0,
        upto,
        under_way: 0,
        acknowledged: 0,
        found: Vec::new(),
        reads,
    };
    let is_over = run(&mut policy, &mut lanes, &mut work, &mut ()).is_ok();
    drop(policy);
    (lanes.lanes.cut(Tear::Sector), work, is_over)
}

/// Puts numbers, cuts the power, and checks what is left; returns whether the power was cut, and
/// whether anything was lost.
pub(crate) fn loses_no_more_than_a_log(seed: u64, lie: Option<Lie>) -> (bool, bool) {
    let mut draw = Draw(seed);
    let config = Config { durable: false, runs_max: 256, ..config(&mut draw) };
    let cut_after = 30 + draw.below(3000);
    let begun = media(seed, &roomy());
    let (left, put, is_over) = live(begun, (&config, lie), (1500, false), (&mut draw, cut_after));
    let (_, read, is_read) = live(left, (&config, lie), (1, true), (&mut draw, STUCK));
    assert!(is_read, "seed {seed}");
    let found = read.found.len() as u64;
    let missing = put.acknowledged.saturating_sub(found);
    let bytes: usize = (found + 1..=put.acknowledged).map(|number| value(number).len()).sum();
    // A log ends with the batch that reaches the log's threshold.
    assert!(bytes as u64 <= config.log_bytes + config.group_bytes, "seed {seed}: {bytes} lost");
    (!is_over, missing > 0)
}

#[test]
fn a_power_cut_loses_at_most_the_latest_log_and_leaves_no_gap() {
    let came: Vec<_> = (0..150).map(|seed| loses_no_more_than_a_log(seed, None)).collect();
    let cuts = came.iter().filter(|(is_cut, _)| *is_cut).count();
    let lost = came.iter().filter(|(_, is_lost)| *is_lost).count();
    println!("{cuts} cuts, {lost} of which cost something");
    assert!(cuts > 100 && lost > 20, "{cuts} cuts, {lost} cost something");
}
