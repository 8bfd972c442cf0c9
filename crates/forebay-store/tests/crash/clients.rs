//! Clients of a store that know which values each key may have.
//!
//! Each client writes keys of its own, one operation after another. For each of its keys, it
//! therefore knows the value that was acknowledged last, and the values that unanswered operations
//! may have written since.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use forebay_core::{Done, Flags, Nanos, Op, Request, RequestId, Slots, Workload};
use forebay_store::{Answer, Desk, Key, Loss, Operation, OperationError, Page, Value};

/// The possible values of a key.
#[derive(Clone, Debug, Default)]
struct Truth {
    sure: Option<Vec<u8>>,
    /// The values that unanswered operations may have written.
    maybe: Vec<Option<Vec<u8>>>,
    /// Whether the key was given up. Until it is written again, it may then have any value that was
    /// ever written.
    is_lost: bool,
}

impl Truth {
    fn allows(&self, value: &Option<Vec<u8>>) -> bool {
        self.is_lost || *value == self.sure || self.maybe.contains(value)
    }
}

/// The possible values of all keys. They survive power cuts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    keys: BTreeMap<Vec<u8>, Truth>,
    writes: u64,
}

pub(crate) struct Clients<'a> {
    desk: Desk,
    known: &'a mut Known,
    state: u64,
    now: Nanos,
    next: RequestId,
    /// The operations before the clients start: opens the store, reads every key, and scans all
    /// keys.
    before: VecDeque<Operation>,
    idle: Vec<u64>,
    left: u64,
    under_way: BTreeMap<RequestId, (Option<u64>, Operation)>,
    seen: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// The pages of the scan so far.
    paged: Vec<(Key, Value)>,
    /// The first error that was found.
    pub(crate) wrong: Option<String>,
    pub(crate) refused: u64,
    pub(crate) checked: u64,
    /// Whether a disk is missing or damaged, so that operations that depend on it fail.
    pub(crate) is_missing: bool,
    /// The number of reads before the clients start that failed because of that.
    pub(crate) missed: u64,
    is_closing: bool,
    /// Whether the run ends once every key has been read.
    pub(crate) only_looks: bool,
    /// From this time on, no operation may fail.
    pub(crate) calm_from: Rc<Cell<Nanos>>,
    most: u64,
}

impl Known {
    /// Records that the keys in this range were given up.
    pub(crate) fn lose(&mut self, loss: &Loss) {
        let is_in = |key: &[u8]| {
            loss.from.as_deref().is_none_or(|from| from <= key)
                && loss.after.as_deref().is_none_or(|after| after < key)
                && loss.upto.as_deref().is_none_or(|upto| key <= upto)
        };
        let lost = self.keys.iter_mut().filter(|(key, _)| is_in(key));
        lost.for_each(|(_, truth)| truth.is_lost = true);
    }
}

impl<'a> Clients<'a> {
    /// Creates this many clients, which together perform `operations` operations on values of up to
    /// `most` bytes.
    pub(crate) fn new(
        desk: &Desk,
        known: &'a mut Known,
        (seed, clients, operations, most): (u64, u64, u64, u64),
    ) -> Clients<'a> {
        let mut before = VecDeque::from([Operation::Open]);
        before.extend(known.keys.keys().map(|key| Operation::Get(Key::from(&key[..]))));
        // The scan that follows is performed page by page.
        before.push_back(page(Key::from([]), seed));
        Clients {
            desk: desk.clone(),
            known,
            state: seed,
            now: Nanos::ZERO,
            next: 0,
            before,
            idle: (0..clients).collect(),
            left: operations,
            under_way: BTreeMap::new(),
            seen: BTreeMap::new(),
            paged: Vec::new(),
            wrong: None,
            refused: 0,
            checked: 0,
            is_missing: false,
            missed: 0,
            is_closing: false,
            only_looks: false,
            calm_from: Rc::new(Cell::new(Nanos::MAX)),
            most,
        }
    }

    fn below(&mut self, count: u64) -> u64 {
        forebay_testing::below(&mut self.state, count)
    }

    fn key(&mut self, client: u64) -> Key {
        let bytes = format!("{:02}-{client}", self.below(40)).into_bytes();
        bytes.into()
    }

    /// Returns a value that identifies its write.
    fn value(&mut self) -> Value {
        self.known.writes += 1;
        let most = if self.below(8) == 0 { self.most } else { self.most / 10 };
        let mut value = vec![self.known.writes as u8; 8 + self.below(most) as usize];
        value[..8].copy_from_slice(&self.known.writes.to_le_bytes());
        value.into()
    }

    fn draw(&mut self, client: u64) -> Operation {
        match self.below(12) {
            0..=5 => Operation::Write(vec![(self.key(client), Some(self.value()))]),
            6 => Operation::Write(vec![(self.key(client), None)]),
            7 => {
                let count = 1 + self.below(4);
                let mut record = || {
                    let value = (self.below(3) > 0).then(|| self.value());
                    (self.key(client), value)
                };
                Operation::Write((0..count).map(|_| record()).collect())
            }
            8..=10 => Operation::Get(self.key(client)),
            _ => {
                let (count, bytes) = (self.below(20) as usize, self.below(4 * self.most));
                Operation::Scan { from: self.key(client), count, bytes }
            }
        }
    }

    fn may_be(&self, failure: &OperationError) -> bool {
        self.is_missing
            && matches!(failure, OperationError::Missing { .. } | OperationError::Damaged { .. })
    }

    fn complain(&mut self, what: String) {
        self.wrong.get_or_insert(what);
    }

    /// Checks the answer to an operation before the clients start.
    fn found(&mut self, operation: &Operation, answer: Result<Answer, OperationError>) {
        match (operation, answer) {
            (Operation::Open, Ok(Answer::Done)) => {}
            (Operation::Get(key), Ok(Answer::Value(value))) => {
                let value = value.map(|value| value.to_vec());
                let truth = self.known.keys[&**key].clone();
                if !truth.allows(&value) {
                    self.complain(format!(
                        "{}: got {}, expected {} or {} others",
                        show(key),
                        told(&value),
                        told(&truth.sure),
                        truth.maybe.len()
                    ));
                }
                self.checked += 1;
                self.seen.insert(key.to_vec(), value);
            }
            (Operation::Get(_), Err(failure)) if self.may_be(&failure) => self.missed += 1,
            // A scan that passes unreadable keys must fail rather than skip them.
            (Operation::Scan { .. }, Err(failure)) if self.may_be(&failure) => {}
            (Operation::Scan { .. }, Ok(Answer::Page(Page { records, next: Some(next) }))) => {
                self.paged.extend(records);
                self.before.push_front(page(next, self.state));
            }
            (Operation::Scan { .. }, Ok(_)) if self.missed > 0 => {
                self.complain("a scan answers what reads of its keys do not".into());
            }
            (Operation::Scan { .. }, Ok(Answer::Page(Page { records, .. }))) => {
                let paged = std::mem::take(&mut self.paged);
                let all = paged.iter().chain(&records);
                let got: Vec<_> = all.map(|(k, v)| (k.to_vec(), Some(v.to_vec()))).collect();
                let seen = std::mem::take(&mut self.seen);
                let expected: Vec<_> = seen
                    .iter()
                    .filter(|(_, v)| v.is_some())
                    .map(|(k, v)| (k.clone(), v.clone()))
                    .collect();
                if got != expected {
                    self.complain(format!(
                        "a scan returned {} keys, expected {}",
                        got.len(),
                        expected.len()
                    ));
                }
                // While a disk is missing, it may contain writes that were never answered, so
                // nothing is certain.
                for (key, value) in seen.into_iter().filter(|_| !self.is_missing) {
                    self.known.keys.insert(key, Truth { sure: value, ..Truth::default() });
                }
            }
            (operation, answer) => self.complain(format!("{operation:?}: {answer:?}")),
        }
    }

    /// Checks the answer to a client's operation.
    fn done(&mut self, client: u64, operation: &Operation, answer: Result<Answer, OperationError>) {
        match (operation, answer) {
            (Operation::Write(records), Ok(Answer::Done)) => {
                for (key, value) in records {
                    let truth = self.known.keys.entry(key.to_vec()).or_default();
                    truth.sure = value.as_ref().map(|value| value.to_vec());
                    truth.maybe.clear();
                    truth.is_lost = false;
                }
            }
            // A failed write may have taken effect; the possible values include it already.
            (Operation::Write(_), Err(_)) => self.refused += 1,
            (_, Err(OperationError::Disk { .. })) => self.refused += 1,
            (_, Err(failure)) if self.may_be(&failure) => self.refused += 1,
            (Operation::Get(key), Ok(Answer::Value(value))) => {
                let value = value.map(|value| value.to_vec());
                let truth = self.known.keys.get(&**key).cloned().unwrap_or_default();
                if !truth.allows(&value) {
                    let expected = told(&truth.sure);
                    self.complain(format!(
                        "{} during work: got {}, expected {expected}",
                        show(key),
                        told(&value)
                    ));
                }
                self.checked += 1;
            }
            (Operation::Scan { from, count, bytes }, Ok(Answer::Page(Page { records, next }))) => {
                let is_sorted = records.windows(2).all(|pair| pair[0].0 < pair[1].0);
                if !is_sorted || records.len() > *count || records.iter().any(|(key, _)| key < from)
                {
                    self.complain("a scan is not in order, or too long".into());
                }
                let len = records.iter().map(|(key, value)| (key.len() + value.len()) as u64);
                if records.len() > 1 && len.sum::<u64>() > *bytes {
                    self.complain(format!("a page has more than {bytes} bytes"));
                }
                let suffix = format!("-{client}").into_bytes();
                for (key, value) in records.iter().filter(|(key, _)| key.ends_with(&suffix)) {
                    let truth = self.known.keys.get(&**key).cloned().unwrap_or_default();
                    let value = Some(value.to_vec());
                    if !truth.allows(&value) {
                        self.complain(format!("{} in a scan: got {}", show(key), told(&value)));
                    }
                    self.checked += 1;
                }
                // All of the client's own keys before the next page must be in this one.
                let mine: Vec<_> = self
                    .known
                    .keys
                    .iter()
                    .filter(|(key, truth)| {
                        key.ends_with(&suffix)
                            && truth.sure.is_some()
                            && truth.maybe.is_empty()
                            && !truth.is_lost
                            && ***key >= **from
                            && next.as_ref().is_none_or(|next| ***key < **next)
                    })
                    .map(|(key, _)| key.clone())
                    .collect();
                for key in mine {
                    if !records.iter().any(|(found, _)| **found == *key) {
                        self.complain(format!("{} is not in a scan", show(&key)));
                    }
                }
            }
            (operation, answer) => self.complain(format!("{operation:?}: {answer:?}")),
        }
    }
}

/// Returns a scan of one page, limited to a random number of keys and bytes or unlimited.
fn page(from: Key, draw: u64) -> Operation {
    let count = [1, 3, 20, usize::MAX][(draw >> 20) as usize % 4];
    let bytes = [1, 3000, 40_000, u64::MAX][(draw >> 30) as usize % 4];
    Operation::Scan { from, count, bytes }
}

fn show(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}

fn told(value: &Option<Vec<u8>>) -> String {
    let number = |value: &Vec<u8>| u64::from_le_bytes(value[..8].try_into().unwrap());
    value.as_ref().map_or_else(|| "nothing".into(), |value| format!("write {}", number(value)))
}

impl Workload for Clients<'_> {
    fn peek(&self) -> Option<Nanos> {
        let waits = !self.under_way.is_empty();
        let is_before = !self.before.is_empty();
        let has_next = match (is_before, self.left > 0) {
            (true, _) => !waits,
            (false, true) => {
                !self.idle.is_empty()
                    && (!waits || self.under_way.values().all(|(client, _)| client.is_some()))
            }
            (false, false) => !waits && !self.is_closing,
        };
        (has_next && self.wrong.is_none()).then_some(self.now)
    }

    fn take(&mut self) -> Request {
        let (client, operation) = match self.before.pop_front() {
            Some(operation) => (None, operation),
            None if self.left == 0 => {
                self.is_closing = true;
                (None, Operation::Close)
            }
            None => {
                self.left -= 1;
                let which = self.below(self.idle.len() as u64) as usize;
                let client = self.idle.swap_remove(which);
                (Some(client), self.draw(client))
            }
        };
        if let Operation::Write(records) = &operation {
            // If a batch contains a key twice, the later record counts.
            let last: BTreeMap<&Key, &Option<Value>> =
                records.iter().map(|(key, value)| (key, value)).collect();
            for (key, value) in last {
                let truth = self.known.keys.entry(key.to_vec()).or_default();
                truth.maybe.push(value.as_ref().map(|value| value.to_vec()));
            }
        }
        let op = match &operation {
            Operation::Open => Op::Open,
            Operation::Write(_) => Op::Write,
            _ => Op::Read,
        };
        let id = self.next;
        self.next += 1;
        self.desk.submit(id, operation.clone());
        self.under_way.insert(id, (client, operation));
        let (at, stream) = (self.now, client.unwrap_or_default() as u32);
        Request { at, offset: 0, id, len: 0, stream, lane: 0, op, flags: Flags::NONE }
    }

    fn finished(&mut self, now: Nanos, done: &Done, _slots: &mut dyn Slots) {
        self.now = now;
        let (client, operation) = self.under_way.remove(&done.request.id).expect("it was asked");
        let answer = self.desk.take(done.request.id).expect("an answer");
        if let Err(failure) = &answer
            && done.request.at >= self.calm_from.get()
        {
            self.complain(format!("all disks work, and {operation:?} fails: {failure}"));
        }
        match client {
            Some(client) => {
                self.done(client, &operation, answer);
                self.idle.push(client);
            }
            None if operation == Operation::Close => {}
            None => self.found(&operation, answer),
        }
    }

    fn is_over(&self) -> bool {
        self.is_stopped() || self.is_closing && self.under_way.is_empty()
    }

    fn is_stopped(&self) -> bool {
        let has_looked = self.only_looks && self.before.is_empty() && self.under_way.is_empty();
        self.wrong.is_some() || has_looked
    }
}
