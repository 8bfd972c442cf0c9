//! A store in wall time: a thread that drives the engine, and a handle for everybody else.
//!
//! Operations go to the thread through a queue; what comes of each is handed to who asked, on that thread.

// Threads meet here.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use forebay_core::{Done, Flags, Nanos, Op, Request, RequestId, Slots, Workload};
use forebay_live::{LEN_MAX, Lanes, Target, Threads, Uring, Waker, run};

use crate::config::{Config, Tree};
use crate::disks::{Disks, StoreError};
use crate::engine::{DiskHealth, Figures, Stage};
use crate::operation::{Answer, Checked, Loss, Operation, Trouble};
use crate::policy::{Desk, StorePolicy, View};
use crate::record::{Key, Value};

/// I/Os that a disk is given at a time.
const DEPTH: u32 = 32;
/// Bytes of writes that wait before whoever brings more has to wait too.
const WAITING_BYTES_MAX: usize = 64 << 20;
/// Notices that wait for somebody to take them.
const NOTICES_MAX: usize = 256;

/// What comes of an operation.
pub type Answered = Result<Answer, Trouble>;
/// Is handed what comes of an operation, on the store's thread.
pub type Then = Box<dyn FnOnce(Answered) + Send>;

/// What the store is doing.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// What it counted.
    pub figures: Figures,
    /// Each disk's stage.
    pub stages: Vec<Stage>,
    /// Bytes of segments, and how many runs there are.
    pub held: (u64, usize),
    /// Keys with a value, as logs and segments count them each for itself: a key that was replaced or deleted
    /// counts more than once until they are merged.
    pub records: u64,
    /// What cannot be read, as far as is known.
    pub losses: Vec<Loss>,
    /// What failed on each disk.
    pub health: Vec<DiskHealth>,
}

impl Status {
    /// What each disk is doing, in a word.
    pub fn stage_names(&self) -> impl Iterator<Item = &'static str> {
        self.stages.iter().map(|stage| match stage {
            Stage::Idle => "idle",
            Stage::Log => "log",
            Stage::ReadLog => "read-log",
            Stage::WriteTree => "write-tree",
        })
    }
}

#[derive(Default)]
struct Queue {
    /// The number of the operation that comes next.
    next: RequestId,
    waiting: VecDeque<(RequestId, Operation, Then)>,
    waiting_bytes: usize,
    wants_status: Vec<SyncSender<Status>>,
    /// What the operator is to be told.
    notices: Vec<String>,
    is_closed: bool,
}

impl Queue {
    /// Puts an operation at its end, and answers its number.
    fn push(&mut self, operation: Operation, then: Then) -> RequestId {
        let number = self.next;
        self.next += 1;
        self.waiting.push_back((number, operation, then));
        number
    }
}

/// What the handles and the thread share.
struct Shared {
    queue: Mutex<Queue>,
    /// There is room in the queue again.
    room: Condvar,
    waker: Mutex<Option<Waker>>,
}

/// However the thread ends, nobody waits for it any more: what they wait on is dropped.
struct Ends(Arc<Shared>);

impl Drop for Ends {
    fn drop(&mut self) {
        let mut queue = self.0.queue();
        queue.is_closed = true;
        let left = std::mem::take(&mut queue.waiting);
        queue.wants_status.clear();
        drop(queue);
        left.into_iter().for_each(|(.., then)| then(Err(Trouble::Closed)));
        self.0.room.notify_all();
    }
}

impl Disks {
    fn names(&self) -> Names {
        let paths = self.targets.iter().map(|target| target.path().to_path_buf());
        Names { paths: paths.collect(), missing: self.missing }
    }
}

impl Shared {
    /// A panic elsewhere leaves a queue as it was.
    fn queue(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waker) = &*waker {
            waker.wake();
        }
    }
}

/// A store. Clones are the same store.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
    is_durable: bool,
    devices: usize,
}

impl Store {
    /// Opens the store on these disks, which takes as long as reading back the logs that are left.
    ///
    /// # Errors
    /// [`StoreError`] where what is on them cannot be read, or would not be found again.
    pub fn open(disks: Disks, config: Config) -> Result<Store, StoreError> {
        if config.tree != Tree::Runs {
            let what = "got a tree updated in place, which loses what is in it; expected runs";
            return Err(StoreError::Store(what.into()));
        }
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            room: Condvar::new(),
            waker: Mutex::default(),
        });
        let (said, opened) = sync_channel(1);
        let then: Then = Box::new(move |answer| {
            // Whoever opens waits for it.
            let _ = said.send(answer);
        });
        shared.queue().push(Operation::Open, then);
        let theirs = Arc::clone(&shared);
        let (names, is_durable) = (disks.names(), config.durable);
        let devices = disks.devices();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let config = Config { epoch_ns: now.as_nanos() as u64, ..config };
        let thread = std::thread::Builder::new().name("store".into());
        let thread = thread.spawn(move || {
            let ends = Ends(theirs);
            drive(disks, config, &ends.0);
        })?;
        let thread = Arc::new(Mutex::new(Some(thread)));
        let store = Store { shared, thread, is_durable, devices };
        match opened.recv() {
            Ok(Ok(_)) => Ok(store),
            Ok(Err(trouble)) => Err(cannot_open(&names, &trouble)),
            Err(_) => Err(StoreError::Driver(std::io::Error::other("its thread has ended"))),
        }
    }

    /// Begins an operation; waits where very much is waiting already.
    pub fn begin(&self, operation: Operation, then: Then) {
        self.number(operation, then);
    }

    /// Begins an operation, and answers its number. All operations are begun in the order of these.
    fn number(&self, operation: Operation, then: Then) -> RequestId {
        let bytes = bytes_of(&operation);
        let mut queue = self.shared.queue();
        while queue.waiting_bytes > WAITING_BYTES_MAX && !queue.is_closed {
            queue = self.shared.room.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        if queue.is_closed {
            drop(queue);
            then(Err(Trouble::Closed));
            return RequestId::MAX;
        }
        queue.waiting_bytes += bytes;
        let number = queue.push(operation, then);
        drop(queue);
        self.shared.wake();
        number
    }

    /// Does an operation and waits for it.
    ///
    /// # Errors
    /// [`Trouble`] where it could not be done.
    pub fn ask(&self, operation: Operation) -> Answered {
        let (said, answer) = sync_channel(1);
        self.begin(
            operation,
            Box::new(move |answer| {
                // Whoever asked waits for it.
                let _ = said.send(answer);
            }),
        );
        answer.recv().unwrap_or(Err(Trouble::Closed))
    }

    /// Puts a value; it is durable when this returns.
    ///
    /// # Errors
    /// [`Trouble`] where it could not be done.
    pub fn put(&self, key: impl Into<Key>, value: impl Into<Value>) -> Result<(), Trouble> {
        self.ask(Operation::Write(vec![(key.into(), Some(value.into()))])).map(drop)
    }

    /// Deletes a key, which need not be there.
    ///
    /// # Errors
    /// [`Trouble`] where it could not be done.
    pub fn delete(&self, key: impl Into<Key>) -> Result<(), Trouble> {
        self.ask(Operation::Write(vec![(key.into(), None)])).map(drop)
    }

    /// A key's value.
    ///
    /// # Errors
    /// [`Trouble`] where it could not be read.
    pub fn get(&self, key: impl Into<Key>) -> Result<Option<Value>, Trouble> {
        self.value(Operation::Get(key.into()))
    }

    fn value(&self, operation: Operation) -> Result<Option<Value>, Trouble> {
        match self.ask(operation)? {
            Answer::Value(value) => Ok(value),
            _ => Ok(None),
        }
    }

    /// The first keys from `from` on, with their values, all as of one moment. All of them come into memory:
    /// [`Snapshot::records`] is for as many as there are.
    ///
    /// # Errors
    /// [`Trouble`] where they could not be read.
    pub fn scan(&self, from: impl Into<Key>, count: usize) -> Result<Vec<(Key, Value)>, Trouble> {
        self.records(Operation::Scan { from: from.into(), count, bytes: u64::MAX })
    }

    fn records(&self, operation: Operation) -> Result<Vec<(Key, Value)>, Trouble> {
        match self.ask(operation)? {
            Answer::Page(page) => Ok(page.records),
            _ => Ok(Vec::new()),
        }
    }

    /// Holds what there is now, to be read later, until it is dropped. Meanwhile nothing of it is freed on the disks.
    ///
    /// # Errors
    /// [`Trouble::Closed`].
    pub fn snapshot(&self) -> Result<Snapshot, Trouble> {
        match self.ask(Operation::Snapshot)? {
            Answer::Snapshot(id) => Ok(Snapshot { store: self.clone(), id }),
            _ => Err(Trouble::Closed),
        }
    }

    /// [`Store::snapshot`] that waits for nothing: of when the store comes to it, which is before anything that is
    /// begun later.
    pub fn hold(&self) -> Snapshot {
        let id = self.number(Operation::Snapshot, Box::new(|_| ()));
        Snapshot { store: self.clone(), id }
    }

    /// Begins a write, and holds what there was just before it. The snapshot can be read once the write was answered
    /// without an error.
    pub fn write_and_hold(&self, records: Vec<(Key, Option<Value>)>, then: Then) -> Snapshot {
        let id = self.number(Operation::WriteAndHold(records), then);
        Snapshot { store: self.clone(), id }
    }

    /// Reads everything there is.
    ///
    /// # Errors
    /// [`Trouble::Closed`].
    pub fn check(&self) -> Result<Checked, Trouble> {
        self.checked(Operation::Check)
    }

    /// Puts what can be read of all that is lost or damaged in its place; what cannot is given up.
    ///
    /// # Errors
    /// [`Trouble`] where it could not be written.
    pub fn repair(&self) -> Result<Checked, Trouble> {
        self.checked(Operation::Repair)
    }

    fn checked(&self, operation: Operation) -> Result<Checked, Trouble> {
        match self.ask(operation)? {
            Answer::Checked(checked) => Ok(checked),
            _ => Ok(Checked::default()),
        }
    }

    /// What it is doing.
    pub fn status(&self) -> Status {
        let (said, status) = sync_channel(1);
        let mut queue = self.shared.queue();
        if queue.is_closed {
            return Status::default();
        }
        queue.wants_status.push(said);
        drop(queue);
        self.shared.wake();
        status.recv().unwrap_or_default()
    }

    /// Whether a put is durable when it is answered ([`Config::durable`]).
    pub fn is_durable(&self) -> bool {
        self.is_durable
    }

    /// Devices that its disks are on: fewer than disks where some share one.
    pub fn devices(&self) -> usize {
        self.devices
    }

    /// What whoever operates the store has to know since this was asked last, one sentence each: disks that fail, and
    /// work again; labels that were damaged. No more than one failure of each disk a minute.
    pub fn notices(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.queue().notices)
    }

    /// Whether nothing can be asked any more.
    pub fn is_closed(&self) -> bool {
        self.shared.queue().is_closed
    }

    /// Finishes what was begun and ends the thread. What was acknowledged needs none of this.
    pub fn close(&self) {
        let mut queue = self.shared.queue();
        if !queue.is_closed {
            queue.is_closed = true;
            queue.push(Operation::Close, Box::new(|_| ()));
        }
        drop(queue);
        self.shared.wake();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // It has told what was wrong already.
            let _ = thread.join();
        }
    }
}

/// A store as it was at one moment.
pub struct Snapshot {
    store: Store,
    id: u64,
}

impl Snapshot {
    fn at(&self, read: Operation) -> Operation {
        Operation::At { snapshot: self.id, read: Box::new(read) }
    }

    /// Begins a [`Get`](Operation::Get) or a [`Scan`](Operation::Scan) of what there was then.
    pub fn begin(&self, read: Operation, then: Then) {
        self.store.begin(self.at(read), then);
    }

    /// A key's value then.
    ///
    /// # Errors
    /// [`Trouble`] where it could not be read.
    pub fn get(&self, key: impl Into<Key>) -> Result<Option<Value>, Trouble> {
        self.store.value(self.at(Operation::Get(key.into())))
    }

    /// The first keys from `from` on, with their values, then.
    ///
    /// # Errors
    /// [`Trouble`] where they could not be read.
    pub fn scan(&self, from: impl Into<Key>, count: usize) -> Result<Vec<(Key, Value)>, Trouble> {
        let scan = Operation::Scan { from: from.into(), count, bytes: u64::MAX };
        self.store.records(self.at(scan))
    }

    /// All keys from `from` on, with their values, then: page by page, the next of which is read while one is
    /// consumed.
    pub fn records(&self, from: impl Into<Key>) -> Records<'_> {
        let mut records = Records { snapshot: self, asked: None, ready: Vec::new().into_iter() };
        records.ask(from.into());
        records
    }
}

/// Bytes of a page of [`Records`].
const PAGE_BYTES: u64 = 4 << 20;

/// Keys and values of a snapshot, in order. The first that cannot be read ends them.
pub struct Records<'a> {
    snapshot: &'a Snapshot,
    /// The next page; none behind the last.
    asked: Option<Receiver<Answered>>,
    ready: std::vec::IntoIter<(Key, Value)>,
}

impl Records<'_> {
    fn ask(&mut self, from: Key) {
        let (said, answer) = sync_channel(1);
        let scan = Operation::Scan { from, count: usize::MAX, bytes: PAGE_BYTES };
        self.snapshot.begin(
            scan,
            Box::new(move |answer| {
                // Whoever asked may have gone.
                let _ = said.send(answer);
            }),
        );
        self.asked = Some(answer);
    }
}

impl Iterator for Records<'_> {
    type Item = Result<(Key, Value), Trouble>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.ready.as_slice().is_empty() {
            let asked = self.asked.take()?;
            match asked.recv().unwrap_or(Err(Trouble::Closed)) {
                Ok(Answer::Page(page)) => {
                    if let Some(next) = page.next {
                        self.ask(next);
                    }
                    self.ready = page.records.into_iter();
                }
                Ok(_) => {}
                Err(trouble) => return Some(Err(trouble)),
            }
        }
        self.ready.next().map(Ok)
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.store.begin(Operation::Release(self.id), Box::new(|_| ()));
    }
}

fn cannot_open(names: &Names, trouble: &Trouble) -> StoreError {
    let path = match trouble {
        Trouble::Disk { disk, .. } | Trouble::Damaged { disk, .. } => names.path(*disk),
        _ => None,
    };
    match path {
        Some(path) => StoreError::Disk { path: path.clone(), what: trouble.to_string() },
        None => StoreError::Store(trouble.to_string()),
    }
}

fn bytes_of(operation: &Operation) -> usize {
    match operation {
        Operation::Write(records) | Operation::WriteAndHold(records) => {
            let len = |value: &Option<Value>| value.as_ref().map_or(0, |value| value.len());
            records.iter().map(|(key, value)| 64 + key.len() + len(value)).sum()
        }
        _ => 64,
    }
}

/// The best driver there is.
fn lanes(targets: Vec<Target>) -> std::io::Result<Box<dyn Lanes>> {
    match Uring::new(targets, DEPTH) {
        Ok(uring) => Ok(Box::new(uring)),
        Err((_, targets)) => Ok(Box::new(Threads::new(targets, DEPTH)?)),
    }
}

/// Drives the store until it is closed.
fn drive(disks: Disks, config: Config, shared: &Arc<Shared>) {
    let names = disks.names();
    let Disks { layouts, missing, targets, .. } = disks;
    let Ok(mut lanes) = lanes(targets) else { return };
    let Ok(waker) = lanes.waker() else { return };
    *shared.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker);
    let desk = Desk::default();
    let mut policy = StorePolicy::without(missing, &layouts, config, LEN_MAX, desk.clone());
    let mut outside = Outside {
        shared: Arc::clone(shared),
        desk,
        view: policy.view(),
        thens: BTreeMap::new(),
        now: Nanos::ZERO,
        is_closing: false,
        names,
    };
    // An error of the driver's ends the store; whoever waits is told.
    let _ = run(&mut policy, &mut *lanes, &mut outside, &mut ());
}

/// Operations as they come from other threads.
struct Outside {
    shared: Arc<Shared>,
    desk: Desk,
    view: View,
    thens: BTreeMap<RequestId, Then>,
    now: Nanos,
    is_closing: bool,
    names: Names,
}

/// What the user calls the disks.
struct Names {
    paths: Vec<PathBuf>,
    missing: Option<usize>,
}

impl Names {
    fn path(&self, disk: usize) -> Option<&PathBuf> {
        let is_behind = self.missing.is_some_and(|missing| missing < disk);
        self.paths.get(disk - usize::from(is_behind))
    }

    fn say(&self, disk: usize, what: &str) -> String {
        match self.path(disk) {
            Some(path) => format!("disk {} ({}): {what}", disk + 1, path.display()),
            None => format!("disk {}: {what}", disk + 1),
        }
    }
}

impl Workload for Outside {
    fn peek(&self) -> Option<Nanos> {
        let mut queue = self.shared.queue();
        for asked in queue.wants_status.drain(..) {
            let (figures, stages, held) =
                (self.view.figures(), self.view.stages(), self.view.held());
            let (records, losses) = (self.view.records(), self.view.losses());
            let health = self.view.health();
            // Whoever asked may have gone.
            let _ = asked.send(Status { figures, stages, held, records, losses, health });
        }
        if queue.notices.len() < NOTICES_MAX {
            let notices = self.view.notices().into_iter();
            queue.notices.extend(notices.map(|(disk, what)| self.names.say(disk, &what)));
        }
        (!queue.waiting.is_empty()).then_some(self.now)
    }

    fn take(&mut self) -> Request {
        let (id, operation, then) = {
            let mut queue = self.shared.queue();
            let taken = queue.waiting.pop_front().expect("something waits");
            queue.waiting_bytes = queue.waiting_bytes.saturating_sub(bytes_of(&taken.1));
            taken
        };
        self.shared.room.notify_all();
        let op = match &operation {
            Operation::Open => Op::Open,
            Operation::Write(_) | Operation::WriteAndHold(_) => Op::Write,
            Operation::Close => Op::Flush,
            _ => Op::Read,
        };
        self.is_closing |= operation == Operation::Close;
        self.thens.insert(id, then);
        self.desk.lay(id, operation);
        let at = self.now;
        Request { at, offset: 0, id, len: 0, stream: 0, lane: 0, op, flags: Flags::SYNC }
    }

    fn finished(&mut self, now: Nanos, done: &Done, _slots: &mut dyn Slots) {
        self.now = now;
        let (then, answer) = (self.thens.remove(&done.request.id), self.desk.take(done.request.id));
        if let (Some(then), Some(answer)) = (then, answer) {
            // A store that did not open serves nobody.
            self.is_closing |= done.request.op == Op::Open && answer.is_err();
            then(answer);
        }
    }

    fn is_over(&self) -> bool {
        self.is_closing && self.thens.is_empty() && self.shared.queue().waiting.is_empty()
    }
}
