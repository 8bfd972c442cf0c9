//! Tests scans page by page against a model: several concurrent scans of the current state and of
//! snapshots, while logs become segments, segments are merged, and keys are replaced and deleted.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use forebay_core::{
    Bytes, Completion, Cx, Done, Flags, Lane, Nanos, Op, Piece, Policy, Request, RequestId, Slots,
    Workload,
};
use forebay_live::run;
use forebay_rig::{Crash, Troubles};
use forebay_store::{
    Answer, Config, Desk, Figures, Key, Layout, Operation, Page, StorePolicy, Value,
};

use crate::crash::{Draw, STUCK, config, layouts, longer, media};

type Model = BTreeMap<Key, Value>;

/// A scan in progress, of the current state or of a snapshot with its model.
struct Scan {
    snapshot: Option<(u64, Model)>,
    from: Key,
}

/// Issues random operations one after another.
struct Pages {
    desk: Desk,
    draw: Draw,
    now: Nanos,
    next: RequestId,
    left: u64,
    model: Model,
    scans: Vec<Scan>,
    /// Operations to issue before random ones.
    before: VecDeque<Operation>,
    under_way: Option<(Operation, usize)>,
    seed: u64,
    /// If set, the only work is one scan, in pages of this many keys.
    only: Option<usize>,
    pages: u64,
    is_closing: bool,
}

fn key(number: u64) -> Key {
    format!("{number:03}").into_bytes().into()
}

impl Pages {
    fn value(&mut self) -> Value {
        let most = [100, 1000, 9000][self.draw.below(3) as usize];
        vec![self.next as u8; self.draw.below(most) as usize].into()
    }

    fn write(&mut self) -> Operation {
        let mut record = || {
            let key = key(self.draw.below(300));
            let value = (self.draw.below(4) > 0).then(|| self.value());
            match &value {
                Some(value) => self.model.insert(key.clone(), value.clone()),
                None => self.model.remove(&key),
            };
            (key, value)
        };
        let records = (0..3).map(|_| record()).collect();
        Operation::Write(records)
    }

    /// Returns the next page of one of the scans.
    fn page(&mut self) -> (Operation, usize) {
        let which = self.draw.below(self.scans.len() as u64) as usize;
        let count = [0, 1, 2, 7, 50, usize::MAX][self.draw.below(6) as usize];
        let bytes = [0, 500, 5000, 50_000, u64::MAX][self.draw.below(5) as usize];
        let (count, bytes) = self.only.map_or((count, bytes), |count| (count, u64::MAX));
        let scan = &self.scans[which];
        let read = Operation::Scan { from: scan.from.clone(), count, bytes };
        let read = match &scan.snapshot {
            Some((snapshot, _)) => Operation::At { snapshot: *snapshot, read: Box::new(read) },
            None => read,
        };
        (read, which)
    }

    fn draw(&mut self) -> (Operation, usize) {
        if let Some(operation) = self.before.pop_front() {
            return (operation, 0);
        }
        match self.draw.below(10) {
            _ if self.only.is_some() => self.page(),
            0..=3 => (self.write(), 0),
            4 if self.scans.len() < 4 => {
                let from = key(self.draw.below(300));
                if self.draw.below(2) == 0 {
                    self.scans.push(Scan { snapshot: None, from });
                    return self.page();
                }
                (Operation::Snapshot, 0)
            }
            _ if self.scans.is_empty() => (self.write(), 0),
            _ => self.page(),
        }
    }

    /// Checks that a page has the first keys of the model, as many as were requested and fit, and
    /// that the position of the next page is correct.
    fn check(&mut self, (from, count, bytes): (&Key, usize, u64), which: usize, page: Page) {
        self.pages += 1;
        let seed = self.seed;
        let scan = &mut self.scans[which];
        let model = scan.snapshot.as_ref().map_or(&self.model, |(_, model)| model);
        let mut left = model.range::<[u8], _>((Bound::Included(&**from), Bound::Unbounded));
        let mut len = 0;
        for (at, record) in page.records.iter().enumerate() {
            assert_eq!(left.next(), Some((&record.0, &record.1)), "seed {seed}");
            len += (record.0.len() + record.1.len()) as u64;
            assert!(at < count && (len <= bytes || at == 0), "seed {seed}: {at}, {len} bytes");
        }
        match (left.next(), page.next) {
            (Some((key, value)), Some(next)) => {
                let is_full = page.records.len() == count
                    || !page.records.is_empty() && len + (key.len() + value.len()) as u64 > bytes;
                assert!(is_full, "seed {seed}: a short page");
                assert!(next <= *key && next >= *from, "seed {seed}: where the next begins");
                assert!(page.records.last().is_none_or(|last| last.0 < next), "seed {seed}");
                scan.from = next;
            }
            (None, Some(next)) if page.records.len() == count => scan.from = next,
            (left, None) => {
                assert_eq!(left, None, "seed {seed}: it is not the end");
                let done = self.scans.swap_remove(which);
                self.before.extend(done.snapshot.map(|(id, _)| Operation::Release(id)));
            }
            (None, next) => panic!("seed {seed}: {next:?} behind the last"),
        }
    }
}

impl Workload for Pages {
    fn peek(&self) -> Option<Nanos> {
        (self.under_way.is_none() && !self.is_closing).then_some(self.now)
    }

    fn take(&mut self) -> Request {
        let id = self.next;
        self.next += 1;
        let (operation, which) = match (id, self.left) {
            (0, _) => (Operation::Open, 0),
            (_, 0) => (Operation::Close, 0),
            // Only one scan is in progress, and it is complete.
            _ if self.only.is_some() && self.scans.is_empty() => (Operation::Close, 0),
            _ => self.draw(),
        };
        self.is_closing = operation == Operation::Close;
        self.left = self.left.saturating_sub(1);
        let op = match &operation {
            Operation::Open => Op::Open,
            Operation::Write(_) => Op::Write,
            _ => Op::Read,
        };
        self.desk.submit(id, operation.clone());
        self.under_way = Some((operation, which));
        let (at, flags) = (self.now, Flags::NONE);
        Request { at, offset: 0, id, len: 0, stream: 0, lane: 0, op, flags }
    }

    fn finished(&mut self, now: Nanos, done: &Done, _slots: &mut dyn Slots) {
        self.now = now;
        let (operation, which) = self.under_way.take().unwrap();
        let answer = self.desk.take(done.request.id).unwrap();
        let scan = match &operation {
            Operation::At { read, .. } => read,
            other => other,
        };
        match (scan, answer) {
            (Operation::Scan { from, count, bytes }, Ok(Answer::Page(page))) => {
                self.check((from, *count, *bytes), which, page);
            }
            (_, Ok(Answer::Snapshot(id))) => {
                let from = key(self.draw.below(300));
                self.scans.push(Scan { snapshot: Some((id, self.model.clone())), from });
            }
            (_, Ok(Answer::Done)) => {}
            (operation, answer) => panic!("seed {}: {operation:?}: {answer:?}", self.seed),
        }
    }

    fn is_over(&self) -> bool {
        self.is_closing && self.under_way.is_none()
    }
}

/// A store that counts the bytes that it reads.
struct Counted {
    policy: StorePolicy,
    read_bytes: u64,
}

impl Policy for Counted {
    fn submit(&mut self, cx: &mut Cx<'_>, request: Request, bytes: Bytes) {
        self.policy.submit(cx, request, bytes);
    }
    fn dispatch(&mut self, now: Nanos, lane: Lane) -> Option<Request> {
        let io = self.policy.dispatch(now, lane)?;
        self.read_bytes += if io.op == Op::Read { u64::from(io.len) } else { 0 };
        Some(io)
    }
    fn complete(&mut self, cx: &mut Cx<'_>, done: &Completion) {
        self.policy.complete(cx, done);
    }
    fn wakeup(&self) -> Option<Nanos> {
        self.policy.wakeup()
    }
    fn wake(&mut self, cx: &mut Cx<'_>) {
        self.policy.wake(cx);
    }
    fn pieces(&self, io: &Request, each: &mut dyn FnMut(Piece)) {
        self.policy.pieces(io, each);
    }
}

/// Runs the life of a new store; returns the workload, the store's counters, and the number of
/// bytes read.
fn live(
    (seed, config, mut draw): (u64, Config, Draw),
    layouts: &[Layout],
    set: impl FnOnce(&mut Pages),
) -> (Pages, Figures, u64) {
    let troubles = Troubles { cut_after: Some(STUCK), ..Troubles::default() };
    let mut lanes = Crash::new(media(seed, layouts), 4096, 4, draw.below(u64::MAX), troubles);
    let desk = Desk::default();
    let policy = StorePolicy::new(layouts, config, 65536, desk.clone());
    let mut policy = Counted { policy, read_bytes: 0 };
    let mut work = Pages {
        desk,
        draw,
        now: Nanos::ZERO,
        next: 0,
        left: 1200,
        model: Model::new(),
        scans: Vec::new(),
        before: VecDeque::new(),
        under_way: None,
        seed,
        only: None,
        pages: 0,
        is_closing: false,
    };
    set(&mut work);
    run(&mut policy, &mut lanes, &mut work, &mut ()).unwrap();
    let (figures, read_bytes) = (policy.policy.view().figures(), policy.read_bytes);
    drop(policy);
    assert_eq!(lanes.pool().live(), 0, "seed {seed}: buffers are left over");
    (work, figures, read_bytes)
}

#[test]
fn pages_are_as_the_model_says() {
    let (mut pages, mut merges) = (0, 0);
    for seed in 0..longer(24) {
        let mut draw = Draw(seed ^ 0x5CA9);
        let (layouts, config) = (layouts(&mut draw), config(&mut draw));
        let (work, figures, _) = live((seed, config, draw), &layouts, |_| ());
        (pages, merges) = (pages + work.pages, merges + figures.merges);
    }
    println!("{pages} pages, {merges} merges");
    assert!(pages > 8000 && merges > 200, "{pages} pages, {merges} merges");
}

/// Returns the number of bytes read by one scan of about 900 KB in about twenty runs, in pages of
/// `count` keys, and the number of pages.
fn read_by_pages(count: usize, scan_bytes: u64) -> (u64, u64) {
    let mut draw = Draw(7);
    let (layouts, config) = (layouts(&mut draw), config(&mut draw));
    let config = Config {
        log_bytes: 40_000,
        tunes: false,
        merges: false,
        read_log: false,
        runs_max: 256,
        scan_bytes,
        step_bytes: 65536,
        ..config
    };
    let (work, figures, read_bytes) = live((7, config, draw), &layouts, |work| {
        let value = |number: u64| Value::from(vec![number as u8; 3000]);
        work.model = (0..300).map(|number| (key(number), value(number))).collect();
        // Puts the keys in an order in which every run covers the whole range of keys.
        let put = |at: u64| Operation::Write(vec![(key(at * 7 % 300), Some(value(at * 7 % 300)))]);
        work.before = (0..300).map(put).collect();
        work.scans = vec![Scan { snapshot: None, from: key(0) }];
        work.only = Some(count);
    });
    assert!(figures.transformations > 15, "{figures:?}");
    (read_bytes, work.pages)
}

#[test]
fn the_next_page_repeats_nothing() {
    let (whole, _) = read_by_pages(usize::MAX, 1 << 20);
    let (paged, pages) = read_by_pages(5, 1 << 20);
    let (forgotten, _) = read_by_pages(5, 0);
    println!("{whole} bytes; in {pages} pages {paged}; each begun anew {forgotten}");
    assert!(pages >= 60);
    // The publication of a segment may have discarded the data that was read ahead.
    assert!(paged < whole * 2, "{paged} bytes in {pages} pages, {whole} in one");
    assert!(forgotten > paged * 10, "{forgotten} bytes where nothing is kept, else {paged}");
}
