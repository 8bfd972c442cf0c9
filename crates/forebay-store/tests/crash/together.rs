//! Tests operations that are atomic with each other: writes with a snapshot of the state just
//! before them, and reads that begin together.
//!
//! Each write replaces all keys. The state just before a write was therefore written by exactly one
//! other write, is the same in all keys, and precedes no other write. The writes thus form a chain,
//! whatever the order in which they begin and whatever disks do.

use std::collections::{BTreeMap, BTreeSet};

use forebay_core::{Done, Flags, Nanos, Op, Request, RequestId, Slots, Workload};
use forebay_live::run;
use forebay_rig::{Crash, Troubles};
use forebay_store::{Answer, Desk, Key, Operation, OperationError, StorePolicy, Value};

use crate::crash::{Draw, STUCK, config, layouts, longer, media};

const KEYS: u8 = 5;
const WRITES: u64 = 120;
const HOLDS: u64 = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ask {
    Open,
    Close,
    Write,
    /// A write whose snapshot is released before the write is answered.
    Careless,
    Hold,
    /// Reads a key from a snapshot.
    Read(u64, u8),
    /// Reads a key from the released snapshot of a careless write, which must fail.
    Lost(u64),
    Release(u64),
}

struct Together {
    desk: Desk,
    next: RequestId,
    writes: u64,
    holds: u64,
    /// The next operations, and their times.
    due: Vec<(Nanos, Ask)>,
    under_way: BTreeMap<RequestId, Ask>,
    /// The values found so far in each snapshot.
    found: BTreeMap<u64, Vec<Option<Value>>>,
    /// The writes that have been answered.
    written: BTreeSet<u64>,
    /// For each value, the write that directly followed it.
    chain: BTreeMap<Option<Value>, u64>,
    checked: u64,
    seed: u64,
}

fn value(id: u64) -> Value {
    Value::from([&id.to_be_bytes()[..], &[0; 900]].concat())
}

impl Together {
    fn operation(&self, ask: Ask, id: RequestId) -> Operation {
        // Rotates the keys, because the keys of a batch need not be in order.
        let key = |at| Key::from([(at + (id % u64::from(KEYS)) as u8) % KEYS]);
        let all = || (0..KEYS).map(|at| (key(at), Some(value(id)))).collect();
        let read = |key| Box::new(Operation::Get(Key::from([key])));
        match ask {
            Ask::Open => Operation::Open,
            Ask::Close => Operation::Close,
            Ask::Write | Ask::Careless => Operation::WriteAndHold(all()),
            Ask::Hold => Operation::Snapshot,
            Ask::Read(snapshot, key) => Operation::At { snapshot, read: read(key) },
            Ask::Lost(snapshot) => Operation::At { snapshot, read: read(0) },
            Ask::Release(snapshot) => Operation::Release(snapshot),
        }
    }

    /// Reads all keys of a snapshot and releases it, without waiting for any answer.
    fn look(&mut self, now: Nanos, snapshot: u64) {
        self.found.insert(snapshot, Vec::new());
        self.due.extend((0..KEYS).map(|key| (now, Ask::Read(snapshot, key))));
        self.due.push((now, Ask::Release(snapshot)));
    }

    fn check(&mut self, snapshot: u64) {
        let Some(found) =
            self.found.get(&snapshot).filter(|found| found.len() == usize::from(KEYS))
        else {
            return;
        };
        let (seed, first) = (self.seed, found[0].clone());
        assert!(found.iter().all(|value| *value == first), "seed {seed}: half of a write");
        self.found.remove(&snapshot);
        self.checked += 1;
        if self.written.contains(&snapshot) {
            let other = self.chain.insert(first, snapshot);
            assert_eq!(other, None, "seed {seed}: {snapshot} came behind the same");
        }
    }

    /// Schedules the next operation of this kind, or the closing of the store.
    fn go_on(&mut self, now: Nanos, ask: Ask) {
        match ask {
            Ask::Write | Ask::Careless if self.writes > 0 => {
                self.writes -= 1;
                let next = if self.writes.is_multiple_of(5) { Ask::Careless } else { Ask::Write };
                self.due.push((now, next));
            }
            Ask::Hold if self.writes > 0 && self.holds < HOLDS => {
                self.holds += 1;
                self.due.push((now + Nanos(4000 * (1 + self.holds % 7)), Ask::Hold));
            }
            _ if self.under_way.is_empty() && self.due.is_empty() && ask != Ask::Close => {
                self.due.push((now, Ask::Close));
            }
            _ => {}
        }
    }
}

impl Workload for Together {
    fn peek(&self) -> Option<Nanos> {
        self.due.iter().map(|(at, _)| *at).min()
    }

    fn take(&mut self) -> Request {
        let first = (0..self.due.len()).min_by_key(|at| self.due[*at].0).unwrap();
        let (id, (at, ask)) = (self.next, self.due.remove(first));
        self.next += 1;
        self.desk.submit(id, self.operation(ask, id));
        self.under_way.insert(id, ask);
        match ask {
            Ask::Hold => self.look(at, id),
            Ask::Careless => self.due.push((at, Ask::Release(id))),
            _ => {}
        }
        let op = match ask {
            Ask::Open => Op::Open,
            Ask::Write | Ask::Careless => Op::Write,
            _ => Op::Read,
        };
        Request { at, offset: 0, id, len: 0, stream: 0, lane: 0, op, flags: Flags::NONE }
    }

    fn finished(&mut self, now: Nanos, done: &Done, _slots: &mut dyn Slots) {
        let id = done.request.id;
        let ask = self.under_way.remove(&id).unwrap();
        match (ask, self.desk.take(id).unwrap()) {
            (Ask::Open, Ok(_)) => {
                self.due = [Ask::Write; 4]
                    .into_iter()
                    .chain([Ask::Hold; 2])
                    .map(|ask| (now, ask))
                    .collect();
            }
            (Ask::Read(snapshot, _), Ok(Answer::Value(value))) => {
                self.found.get_mut(&snapshot).unwrap().push(value);
                self.check(snapshot);
            }
            (Ask::Write, Ok(Answer::Done)) => {
                self.written.insert(id);
                // Reads after other writes, which the snapshot must not contain.
                self.look(now + Nanos(id % 3 * 5000), id);
            }
            (Ask::Careless, Ok(Answer::Done)) => self.due.push((now, Ask::Lost(id))),
            (Ask::Lost(_), Err(OperationError::NoSnapshot))
            | (Ask::Close | Ask::Release(_), Ok(_)) => {}
            (Ask::Hold, Ok(Answer::Snapshot(snapshot))) => assert_eq!(snapshot, id),
            answer => panic!("seed {}: {answer:?}", self.seed),
        }
        self.go_on(now, ask);
    }

    fn is_over(&self) -> bool {
        self.under_way.is_empty() && self.due.is_empty()
    }
}

#[test]
fn batches_are_atomic() {
    let (mut checked, mut chained) = (0, 0);
    for seed in 0..longer(20) {
        let mut draw = Draw(seed ^ 0x70_6E);
        let (layouts, config) = (layouts(&mut draw), config(&mut draw));
        let troubles = Troubles { cut_after: Some(STUCK), ..Troubles::default() };
        let mut lanes = Crash::new(media(seed, &layouts), 4096, 4, draw.below(u64::MAX), troubles);
        let desk = Desk::default();
        let mut policy = StorePolicy::new(&layouts, config, 65536, desk.clone());
        let mut work = Together {
            desk,
            next: 0,
            writes: WRITES,
            holds: 0,
            due: vec![(Nanos::ZERO, Ask::Open)],
            under_way: BTreeMap::new(),
            found: BTreeMap::new(),
            written: BTreeSet::new(),
            chain: BTreeMap::new(),
            checked: 0,
            seed,
        };
        let outcome = run(&mut policy, &mut lanes, &mut work, &mut ());
        let left = (work.writes, work.holds, &work.due, &work.under_way);
        assert!(outcome.is_ok(), "seed {seed}: {outcome:?}, left: {left:?}");
        assert!(work.found.is_empty(), "seed {seed}: some were not answered");
        (checked, chained) = (checked + work.checked, chained + work.chain.len());
    }
    println!("{checked} moments, {chained} of them before a write");
    assert!(chained > 1500 && checked > chained as u64 + 300, "{checked} moments, {chained}");
}
