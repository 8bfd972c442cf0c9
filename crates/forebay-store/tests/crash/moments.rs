//! Tests reads while batches are being written: a read sees all of a batch or nothing, and a
//! snapshot does not change.

use std::collections::BTreeMap;

use forebay_core::{Done, Flags, Nanos, Op, Request, RequestId, Slots, Workload};
use forebay_live::run;
use forebay_rig::{Crash, Troubles};
use forebay_store::{Answer, Desk, Key, Operation, StorePolicy, Value};

use crate::crash::{Draw, STUCK, config, layouts, longer, media};

const KEYS: u8 = 6;

/// The client that waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Opener,
    Writer,
    Reader,
    Closer,
}

/// Writers that put the same value into all keys at once, and a reader that reads repeatedly.
struct Moments {
    desk: Desk,
    now: Nanos,
    next: RequestId,
    left: u64,
    /// The clients that issue the next operations, and when.
    idle: Vec<(Nanos, Who)>,
    under_way: BTreeMap<RequestId, Who>,
    /// The reader's snapshot, the value first read from it, and the number of reads left.
    snapshot: Option<(u64, Option<Value>, u64)>,
    /// The number of snapshots during which something was written before their last read.
    outlived: u64,
    acknowledged: u64,
    latest: Option<Value>,
    seed: u64,
}

impl Moments {
    fn operation(&mut self, who: Who, id: RequestId) -> Operation {
        let all = Operation::Scan { from: Key::from([]), count: usize::MAX, bytes: u64::MAX };
        match who {
            Who::Opener => Operation::Open,
            Who::Closer => Operation::Close,
            Who::Writer => {
                // Rotates the keys, because the keys of a batch need not be in order.
                let value = Value::from([&id.to_be_bytes()[..], &[0; 700]].concat());
                let key = |at| Key::from([(at + (id % u64::from(KEYS)) as u8) % KEYS]);
                Operation::Write((0..KEYS).map(|at| (key(at), Some(value.clone()))).collect())
            }
            Who::Reader => match &mut self.snapshot {
                None if id.is_multiple_of(3) => all,
                None => Operation::Snapshot,
                Some((snapshot, _, 0)) => Operation::Release(*snapshot),
                Some((snapshot, _, left)) => {
                    *left -= 1;
                    let key = Key::from([(id % u64::from(KEYS)) as u8]);
                    let read = Box::new(if *left % 2 == 0 { all } else { Operation::Get(key) });
                    Operation::At { snapshot: *snapshot, read }
                }
            },
        }
    }

    /// Checks that all keys have the same value; in a snapshot, the value read first.
    fn check(&mut self, found: &[Option<Value>]) {
        let (seed, first) = (self.seed, found[0].clone());
        assert!(found.iter().all(|value| *value == first), "seed {seed}: half of a batch");
        let Some((_, had, left)) = &mut self.snapshot else { return };
        let had = had.get_or_insert_with(|| first.clone().unwrap_or_else(|| Value::from([])));
        let first = first.unwrap_or_else(|| Value::from([]));
        assert!(*had == first, "seed {seed}: the snapshot is another now");
        self.outlived += u64::from(*left == 0 && self.latest.as_ref() != Some(&first));
    }
}

impl Workload for Moments {
    fn peek(&self) -> Option<Nanos> {
        self.idle.iter().map(|(at, _)| *at).min()
    }

    fn take(&mut self) -> Request {
        let first = (0..self.idle.len()).min_by_key(|at| self.idle[*at].0).unwrap();
        let (id, (at, who)) = (self.next, self.idle.remove(first));
        self.next += 1;
        let operation = self.operation(who, id);
        self.desk.submit(id, operation);
        self.under_way.insert(id, who);
        let op = match who {
            Who::Opener => Op::Open,
            Who::Writer => Op::Write,
            Who::Reader | Who::Closer => Op::Read,
        };
        let flags = Flags::NONE;
        Request { at, offset: 0, id, len: 0, stream: 0, lane: 0, op, flags }
    }

    fn finished(&mut self, now: Nanos, done: &Done, _slots: &mut dyn Slots) {
        self.now = now;
        let id = done.request.id;
        let who = self.under_way.remove(&id).unwrap();
        match self.desk.take(id).unwrap() {
            Ok(Answer::Value(value)) => self.check(&[value]),
            Ok(Answer::Page(page)) => {
                let mut values: Vec<_> =
                    page.records.into_iter().map(|(_, value)| Some(value)).collect();
                let is_whole = values.is_empty() || values.len() == usize::from(KEYS);
                assert!(is_whole, "seed {}: {} keys", self.seed, values.len());
                values.resize(KEYS.into(), None);
                self.check(&values);
            }
            Ok(Answer::Snapshot(snapshot)) => self.snapshot = Some((snapshot, None, 6)),
            Ok(Answer::Done) if who == Who::Reader => self.snapshot = None,
            Ok(Answer::Done) if who == Who::Writer => {
                self.acknowledged += 1;
                self.latest = Some(Value::from([&id.to_be_bytes()[..], &[0; 700]].concat()));
            }
            Ok(Answer::Done) => {}
            answer => panic!("seed {}: {answer:?}", self.seed),
        }
        // Data in memory is read in no time, so the reader must pause.
        let soon = now + Nanos(if who == Who::Reader { 400 } else { 0 });
        self.left -= u64::from(who == Who::Writer && self.left > 0);
        match who {
            Who::Closer => {}
            Who::Opener => {
                self.idle = [Who::Writer, Who::Writer, Who::Writer, Who::Reader]
                    .map(|who| (now, who))
                    .into();
            }
            _ if self.left > 0 => self.idle.push((soon, who)),
            _ if self.under_way.is_empty() && self.idle.is_empty() => {
                self.idle.push((now, Who::Closer))
            }
            _ => {}
        }
    }

    fn is_over(&self) -> bool {
        self.under_way.is_empty() && self.idle.is_empty()
    }
}

#[test]
fn a_batch_is_seen_as_a_whole_and_a_snapshot_stays() {
    let (mut outlived, mut acknowledged) = (0, 0);
    for seed in 0..longer(40) {
        let mut draw = Draw(seed ^ 0x0A70);
        let (layouts, config) = (layouts(&mut draw), config(&mut draw));
        let troubles = Troubles { cut_after: Some(STUCK), ..Troubles::default() };
        let mut lanes = Crash::new(media(seed, &layouts), 4096, 4, draw.below(u64::MAX), troubles);
        let desk = Desk::default();
        let mut policy = StorePolicy::new(&layouts, config, 65536, desk.clone());
        let mut work = Moments {
            desk,
            now: Nanos::ZERO,
            next: 0,
            left: 300,
            idle: vec![(Nanos::ZERO, Who::Opener)],
            under_way: BTreeMap::new(),
            snapshot: None,
            outlived: 0,
            acknowledged: 0,
            latest: None,
            seed,
        };
        run(&mut policy, &mut lanes, &mut work, &mut ()).unwrap();
        (outlived, acknowledged) = (outlived + work.outlived, acknowledged + work.acknowledged);
    }
    println!("{acknowledged} batches, {outlived} snapshots outlived");
    assert!(acknowledged > 10_000 && outlived > 500, "{acknowledged} batches, {outlived} outlived");
}
