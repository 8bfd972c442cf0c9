//! A load that need not remember values: a counter for each key says how often the key was written,
//! and the content after that many writes (a deletion, or certain bytes) follows from the counter.

pub(crate) use forebay_testing::mixed;
use std::collections::{BTreeMap, BTreeSet};

use forebay_core::{Done, Flags, Nanos, Op, Request, RequestId, Slots, Workload};
use forebay_store::{Answer, Desk, Key, Operation, OperationError, Page, Value, View};

/// The parameters of the load.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) keys: u32,
    /// The maximum length of a value in bytes; the minimum is 16.
    pub(crate) value_bytes: u64,
    /// On average, one in this many writes is a deletion; 0 for none.
    pub(crate) deletes_one_in: u64,
    /// The percentage of operations that write.
    pub(crate) writes: u64,
    /// The percentage of writes that go to a twentieth of the keys.
    pub(crate) skew: u64,
    /// Whether operations come in bursts and lulls. Otherwise, they follow each other, `room` at a
    /// time.
    pub(crate) is_bursty: bool,
    pub(crate) room: usize,
    /// The load ends at this time, or after `operations` operations.
    pub(crate) end: Nanos,
    pub(crate) operations: u64,
}

/// The content of each key; the model survives restarts.
pub(crate) struct Model {
    counts: Vec<u32>,
    /// Keys that were being written when the store stopped: they were written as often as their
    /// counter says, or once more.
    unsure: BTreeSet<u32>,
    state: u64,
}

impl Model {
    pub(crate) fn new(load: &Load, seed: u64) -> Model {
        Model { counts: vec![0; load.keys as usize], unsure: BTreeSet::new(), state: seed }
    }

    fn below(&mut self, count: u64) -> u64 {
        self.state = self.state.wrapping_add(1);
        mixed(self.state) % count.max(1)
    }

    /// Returns the number of bytes of live data.
    pub(crate) fn live_bytes(&self, load: &Load) -> u64 {
        let of = |(key, count): (usize, &u32)| value(load, key as u32, *count);
        let values = self.counts.iter().enumerate().filter_map(of);
        values.map(|value| value.len() as u64 + 24).sum()
    }
}

fn key(number: u32) -> Key {
    format!("{number:08}").into_bytes().into()
}

/// Returns the value of a key after this many writes.
fn value(load: &Load, key: u32, count: u32) -> Option<Value> {
    let drawn = mixed(u64::from(key) << 32 | u64::from(count));
    if count == 0 || load.deletes_one_in > 0 && drawn.is_multiple_of(load.deletes_one_in) {
        return None;
    }
    let len = 16 + (drawn >> 20) % load.value_bytes;
    let mut value = vec![drawn as u8; len as usize];
    value[..8].copy_from_slice(&u64::from(key).to_le_bytes());
    value[8..16].copy_from_slice(&u64::from(count).to_le_bytes());
    Some(value.into())
}

enum Asked {
    Open,
    Close,
    Write(u32),
    Get(u32),
    /// A scan, with the keys that were written since it began.
    Scan(u32, usize, BTreeSet<u32>),
}

/// Counts of the operations and their results.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Told {
    pub(crate) writes: u64,
    pub(crate) put_bytes: u64,
    pub(crate) refused: u64,
    pub(crate) read: u64,
    pub(crate) scanned: u64,
}

/// A load on a store, from opening the store until closing it, or until the store is killed in the
/// middle.
pub(crate) struct Work<'a> {
    desk: Desk,
    load: Load,
    model: &'a mut Model,
    now: Nanos,
    due: Nanos,
    next: RequestId,
    asked: BTreeMap<RequestId, Asked>,
    busy: BTreeSet<u32>,
    phase: Phase,
    /// Whether the store is closed at the end rather than killed.
    closes: bool,
    pub(crate) told: Told,
    /// The store, to query its memory use.
    pub(crate) view: View,
    pub(crate) memory_max: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    TargetOptions,
    Working,
    Closing,
    Over,
}

impl<'a> Work<'a> {
    pub(crate) fn new(
        (desk, view): (&Desk, View),
        load: Load,
        model: &'a mut Model,
        closes: bool,
        at: Nanos,
    ) -> Self {
        Work {
            desk: desk.clone(),
            load,
            model,
            now: at,
            due: at,
            next: 0,
            asked: BTreeMap::new(),
            busy: BTreeSet::new(),
            phase: Phase::TargetOptions,
            closes,
            told: Told::default(),
            view,
            memory_max: 0,
        }
    }

    /// Returns when the next operation begins. On average, one minute in five is a burst.
    fn later(&mut self) -> Nanos {
        if !self.load.is_bursty {
            return self.now;
        }
        let minute = self.due.as_secs_f64() as u64 / 60;
        let mean_ms = if mixed(minute).is_multiple_of(5) { 60 } else { 3000 };
        self.due + Nanos::from_millis(1 + self.model.below(2 * mean_ms))
    }

    fn draw(&mut self) -> u32 {
        let keys = u64::from(self.load.keys);
        let among = if self.model.below(100) < self.load.skew { keys / 20 } else { keys };
        self.model.below(among) as u32
    }

    /// Chooses the next operation, and marks its key as busy.
    fn ask(&mut self) -> (Asked, Operation) {
        if let Some(unsure) = self.model.unsure.pop_first() {
            self.busy.insert(unsure);
            return (Asked::Get(unsure), Operation::Get(key(unsure)));
        }
        let number = loop {
            let number = self.draw();
            if !self.busy.contains(&number) {
                break number;
            }
        };
        let kind = self.model.below(100);
        if kind >= self.load.writes && kind.is_multiple_of(8) {
            let count = 1 + self.model.below(50) as usize;
            let operation = Operation::Scan { from: key(number), count, bytes: u64::MAX };
            return (Asked::Scan(number, count, self.busy.clone()), operation);
        }
        self.busy.insert(number);
        if kind >= self.load.writes {
            return (Asked::Get(number), Operation::Get(key(number)));
        }
        for asked in self.asked.values_mut() {
            if let Asked::Scan(_, _, written) = asked {
                written.insert(number);
            }
        }
        let count = self.model.counts[number as usize] + 1;
        let value = value(&self.load, number, count);
        (Asked::Write(number), Operation::Write(vec![(key(number), value)]))
    }

    fn got(&mut self, number: u32, found: Option<&Value>, may_be_later: bool) {
        let count = &mut self.model.counts[number as usize];
        if found == value(&self.load, number, *count).as_ref() {
            return;
        }
        let is_later = may_be_later && found == value(&self.load, number, *count + 1).as_ref();
        assert!(is_later, "key {number}, written {count} times: another value, {found:?}");
        *count += 1;
    }

    fn scanned(&mut self, from: u32, most: usize, written: &BTreeSet<u32>, found: &[(Key, Value)]) {
        let mut found = found.iter().peekable();
        let (mut number, mut left) = (from, most);
        while number < self.load.keys && left > 0 {
            let here = found.next_if(|(at, _)| *at == key(number));
            left -= usize::from(here.is_some());
            if !written.contains(&number) {
                self.got(number, here.map(|(_, value)| value), false);
            }
            number += 1;
        }
        assert!(found.next().is_none(), "a scan finds what nobody wrote, or its order is wrong");
    }
}

impl Workload for Work<'_> {
    fn peek(&self) -> Option<Nanos> {
        let is_first = self.phase == Phase::TargetOptions && self.next == 0;
        let has_room = self.phase == Phase::Working && self.asked.len() < self.load.room;
        let closes = self.phase == Phase::Closing && self.asked.is_empty();
        (is_first || has_room || closes).then_some(self.due.max(self.now))
    }

    fn take(&mut self) -> Request {
        let (asked, operation) = match self.phase {
            Phase::TargetOptions => (Asked::Open, Operation::Open),
            Phase::Working => self.ask(),
            Phase::Closing | Phase::Over => {
                self.phase = Phase::Over;
                (Asked::Close, Operation::Close)
            }
        };
        let (id, at) = (self.next, self.due.max(self.now));
        self.next += 1;
        self.due = self.later();
        if self.phase == Phase::Working && (at >= self.load.end || id >= self.load.operations) {
            self.phase = if self.closes { Phase::Closing } else { Phase::Over };
        }
        let op = match asked {
            Asked::Open => Op::Open,
            Asked::Close => Op::Flush,
            Asked::Write(_) => Op::Write,
            _ => Op::Read,
        };
        self.desk.submit(id, operation);
        self.asked.insert(id, asked);
        Request { at, offset: 0, id, len: 0, stream: 0, lane: 0, op, flags: Flags::NONE }
    }

    fn finished(&mut self, now: Nanos, done: &Done, _slots: &mut dyn Slots) {
        self.now = now;
        if done.request.id.is_multiple_of(16) {
            self.memory_max = self.memory_max.max(self.view.memory_bytes());
        }
        let asked = self.asked.remove(&done.request.id).expect("it was asked");
        let answer = self.desk.take(done.request.id).expect("an answer");
        match (asked, answer) {
            (Asked::Open, Ok(Answer::Done)) => self.phase = Phase::Working,
            (Asked::Close, Ok(Answer::Done)) => {}
            (Asked::Write(number), answer) => {
                self.busy.remove(&number);
                match answer {
                    Ok(Answer::Done) => {
                        let count = &mut self.model.counts[number as usize];
                        *count += 1;
                        let value = value(&self.load, number, *count);
                        self.told.put_bytes += 8 + value.map_or(0, |value| value.len() as u64);
                        self.told.writes += 1;
                    }
                    // The write was never tried, so it is worth trying another one a second later.
                    Err(OperationError::Full) => {
                        self.told.refused += 1;
                        self.due = self.due.max(now + Nanos::from_secs(1));
                    }
                    other => panic!("key {number}: {other:?}"),
                }
            }
            (Asked::Get(number), Ok(Answer::Value(found))) => {
                self.busy.remove(&number);
                self.got(number, found.as_ref(), true);
                self.told.read += 1;
            }
            (Asked::Scan(from, most, written), Ok(Answer::Page(Page { records: found, .. }))) => {
                self.scanned(from, most, &written, &found);
                self.told.scanned += found.len() as u64;
            }
            (_, answer) => panic!("{answer:?}"),
        }
    }

    fn is_over(&self) -> bool {
        self.phase == Phase::Over && self.asked.is_empty()
    }

    fn is_stopped(&self) -> bool {
        self.phase == Phase::Over && !self.closes
    }
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        for asked in self.asked.values() {
            if let Asked::Write(number) = asked {
                self.model.unsure.insert(*number);
            }
        }
    }
}
