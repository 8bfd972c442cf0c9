//! A store in wall time: a thread that drives the engine, and a handle for other threads.
//!
//! Operations are sent to the thread through a queue. Each result is passed to a callback on that
//! thread.

// Allowed because this module synchronizes threads.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use forebay_core::{Done, Flags, Nanos, Op, Request, RequestId, Slots, Workload};
use forebay_live::{LEN_MAX, Lanes, Target, Threads, Uring, Waker, run};

use crate::{
    Answer, Checked, Config, Desk, DiskHealth, Disks, Figures, Key, Loss, Operation,
    OperationError, Stage, StoreError, StorePolicy, Tree, Value, View,
};

mod snapshot;

pub use snapshot::{Records, Snapshot};

/// The maximum number of I/Os in flight on a disk.
const DEPTH: u32 = 32;
/// The maximum number of bytes of waiting writes. Callers block while it is exceeded.
const WAITING_BYTES_MAX: usize = 64 << 20;
/// The maximum number of notices that have not been collected.
const NOTICES_MAX: usize = 256;

/// The result of an operation.
pub type OperationResult = Result<Answer, OperationError>;
/// A callback that receives the result of an operation on the store's thread.
pub type AnswerCallback = Box<dyn FnOnce(OperationResult) + Send>;

/// The current state of a store.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// The store's counters.
    pub figures: Figures,
    /// The stage of each disk.
    pub stages: Vec<Stage>,
    /// The bytes of segments, and the number of runs.
    pub segment_totals: (u64, usize),
    /// The number of keys with a value, counted separately in each log and segment: replaced and
    /// deleted keys are counted several times until they are merged.
    pub records: u64,
    /// The known losses.
    pub losses: Vec<Loss>,
    /// The health of each disk.
    pub health: Vec<DiskHealth>,
}

impl Status {
    /// Returns the name of each disk's stage.
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
    /// The number of the next operation.
    next: RequestId,
    waiting: VecDeque<(RequestId, Operation, AnswerCallback)>,
    waiting_bytes: usize,
    wants_status: Vec<SyncSender<Status>>,
    /// Notices for the operator.
    notices: Vec<String>,
    is_closed: bool,
}

impl Queue {
    /// Appends an operation to the queue and returns its number.
    fn push(&mut self, operation: Operation, then: AnswerCallback) -> RequestId {
        let number = self.next;
        self.next += 1;
        self.waiting.push_back((number, operation, then));
        number
    }
}

/// The state shared by the handles and the thread.
struct Shared {
    queue: Mutex<Queue>,
    /// Signals that there is space in the queue.
    room: Condvar,
    waker: Mutex<Option<Waker>>,
}

/// Drops all pending callbacks when the thread ends for any reason, so that no caller waits
/// forever.
struct Ends(Arc<Shared>);

impl Drop for Ends {
    fn drop(&mut self) {
        let mut queue = self.0.queue();
        queue.is_closed = true;
        let left = std::mem::take(&mut queue.waiting);
        queue.wants_status.clear();
        drop(queue);
        left.into_iter().for_each(|(.., then)| then(Err(OperationError::Closed)));
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
    /// Locks the queue. A panic elsewhere cannot leave it inconsistent.
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

/// A handle to a store. Clones refer to the same store.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
    is_durable: bool,
    devices: usize,
}

impl Store {
    /// Opens the store on these disks. This includes reading the remaining logs.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the disks cannot be read, or if the configuration would write data
    /// that cannot be found again.
    pub fn open(disks: Disks, config: Config) -> Result<Store, StoreError> {
        if config.tree != Tree::Runs {
            let what = "got a tree updated in place, which cannot be opened again; expected runs";
            return Err(StoreError::Store(what.into()));
        }
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            room: Condvar::new(),
            waker: Mutex::default(),
        });
        let (said, opened) = sync_channel(1);
        let then: AnswerCallback = Box::new(move |answer| {
            // The receiver cannot be gone, because the opening thread waits for the answer.
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
            Ok(Err(failure)) => Err(cannot_open(&names, &failure)),
            Err(_) => Err(StoreError::Driver(std::io::Error::other("its thread has ended"))),
        }
    }

    /// Begins an operation; blocks if too many writes are waiting.
    pub fn begin(&self, operation: Operation, then: AnswerCallback) {
        self.number(operation, then);
    }

    /// Begins an operation and returns its number. Operations begin in the order of their numbers.
    fn number(&self, operation: Operation, then: AnswerCallback) -> RequestId {
        let bytes = bytes_of(&operation);
        let mut queue = self.shared.queue();
        while queue.waiting_bytes > WAITING_BYTES_MAX && !queue.is_closed {
            queue = self.shared.room.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        if queue.is_closed {
            drop(queue);
            then(Err(OperationError::Closed));
            return RequestId::MAX;
        }
        queue.waiting_bytes += bytes;
        let number = queue.push(operation, then);
        drop(queue);
        self.shared.wake();
        number
    }

    /// Performs an operation and waits for its result.
    ///
    /// # Errors
    /// Returns [`OperationError`] if the operation failed.
    pub fn ask(&self, operation: Operation) -> OperationResult {
        let (said, answer) = sync_channel(1);
        self.begin(
            operation,
            Box::new(move |answer| {
                // The receiver cannot be gone, because the calling thread waits for the answer.
                let _ = said.send(answer);
            }),
        );
        answer.recv().unwrap_or(Err(OperationError::Closed))
    }

    /// Puts a value, which is durable when this returns.
    ///
    /// # Errors
    /// Returns [`OperationError`] if the operation failed.
    pub fn put(&self, key: impl Into<Key>, value: impl Into<Value>) -> Result<(), OperationError> {
        self.ask(Operation::Write(vec![(key.into(), Some(value.into()))])).map(drop)
    }

    /// Deletes a key, which need not exist.
    ///
    /// # Errors
    /// Returns [`OperationError`] if the operation failed.
    pub fn delete(&self, key: impl Into<Key>) -> Result<(), OperationError> {
        self.ask(Operation::Write(vec![(key.into(), None)])).map(drop)
    }

    /// Returns the value of a key.
    ///
    /// # Errors
    /// Returns [`OperationError`] if the operation failed.
    pub fn get(&self, key: impl Into<Key>) -> Result<Option<Value>, OperationError> {
        self.value(Operation::Get(key.into()))
    }

    fn value(&self, operation: Operation) -> Result<Option<Value>, OperationError> {
        match self.ask(operation)? {
            Answer::Value(value) => Ok(value),
            _ => Ok(None),
        }
    }

    /// Returns the first keys at or after `from`, with their values, as of a single point in time.
    /// All of them are held in memory; use [`Snapshot::records`] for unlimited numbers.
    ///
    /// # Errors
    /// Returns [`OperationError`] if the operation failed.
    pub fn scan(
        &self,
        from: impl Into<Key>,
        count: usize,
    ) -> Result<Vec<(Key, Value)>, OperationError> {
        self.records(Operation::Scan { from: from.into(), count, bytes: u64::MAX })
    }

    fn records(&self, operation: Operation) -> Result<Vec<(Key, Value)>, OperationError> {
        match self.ask(operation)? {
            Answer::Page(page) => Ok(page.records),
            _ => Ok(Vec::new()),
        }
    }

    /// Takes a snapshot of the current state. Until the snapshot is dropped, none of its data is
    /// freed on the disks.
    ///
    /// # Errors
    /// Returns [`OperationError::Closed`].
    pub fn snapshot(&self) -> Result<Snapshot, OperationError> {
        match self.ask(Operation::Snapshot)? {
            Answer::Snapshot(id) => Ok(Snapshot { store: self.clone(), id }),
            _ => Err(OperationError::Closed),
        }
    }

    /// Takes a snapshot like [`Store::snapshot`], but without waiting. It reflects the state when
    /// the store processes the request, which is before any operation that begins later.
    pub fn hold(&self) -> Snapshot {
        let id = self.number(Operation::Snapshot, Box::new(|_| ()));
        Snapshot { store: self.clone(), id }
    }

    /// Begins a write and takes a snapshot of the state just before it. The snapshot can be read
    /// once the write has succeeded.
    pub fn write_and_hold(
        &self,
        records: Vec<(Key, Option<Value>)>,
        then: AnswerCallback,
    ) -> Snapshot {
        let id = self.number(Operation::WriteAndHold(records), then);
        Snapshot { store: self.clone(), id }
    }

    /// Reads everything and checks its consistency.
    ///
    /// # Errors
    /// Returns [`OperationError::Closed`].
    pub fn check(&self) -> Result<Checked, OperationError> {
        self.checked(Operation::Check)
    }

    /// Replaces lost and damaged data with what can still be read; the rest is discarded.
    ///
    /// # Errors
    /// Returns [`OperationError`] if the data could not be written.
    pub fn repair(&self) -> Result<Checked, OperationError> {
        self.checked(Operation::Repair)
    }

    fn checked(&self, operation: Operation) -> Result<Checked, OperationError> {
        match self.ask(operation)? {
            Answer::Checked(checked) => Ok(checked),
            _ => Ok(Checked::default()),
        }
    }

    /// Returns the current state.
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

    /// Returns whether a put is durable when it is acknowledged ([`Config::durable`]).
    pub fn is_durable(&self) -> bool {
        self.is_durable
    }

    /// Returns the number of distinct devices that contain the disks; it is lower than the number
    /// of disks if some share a device.
    pub fn devices(&self) -> usize {
        self.devices
    }

    /// Returns messages for the operator since the last call, one sentence each: failing and
    /// recovered disks, and damaged labels. At most one failure per disk and minute is included.
    pub fn notices(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.queue().notices)
    }

    /// Returns whether the store no longer accepts operations.
    pub fn is_closed(&self) -> bool {
        self.shared.queue().is_closed
    }

    /// Finishes pending work and ends the thread. Acknowledged data is safe without this.
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
            // The thread has already reported any error.
            let _ = thread.join();
        }
    }
}

fn cannot_open(names: &Names, failure: &OperationError) -> StoreError {
    let path = match failure {
        OperationError::Disk { disk, .. } | OperationError::Damaged { disk, .. } => {
            names.path(*disk)
        }
        _ => None,
    };
    match path {
        Some(path) => StoreError::Disk { path: path.clone(), what: failure.to_string() },
        None => StoreError::Store(failure.to_string()),
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

/// Creates lanes with the best available driver.
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
    let mut policy = StorePolicy::with_missing(missing, &layouts, config, LEN_MAX, desk.clone());
    let mut outside = Outside {
        shared: Arc::clone(shared),
        desk,
        view: policy.view(),
        thens: BTreeMap::new(),
        now: Nanos::ZERO,
        is_closing: false,
        names,
    };
    // A driver error ends the store, and waiting callers get an error.
    let _ = run(&mut policy, &mut *lanes, &mut outside, &mut ());
}

/// Passes operations from other threads to the engine.
struct Outside {
    shared: Arc<Shared>,
    desk: Desk,
    view: View,
    thens: BTreeMap<RequestId, AnswerCallback>,
    now: Nanos,
    is_closing: bool,
    names: Names,
}

/// The names by which the user knows the disks.
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
            let (figures, stages, segment_totals) =
                (self.view.figures(), self.view.stages(), self.view.segment_totals());
            let (records, losses) = (self.view.records(), self.view.losses());
            let health = self.view.health();
            // The requesting thread may be gone.
            let _ = asked.send(Status { figures, stages, segment_totals, records, losses, health });
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
        self.desk.submit(id, operation);
        let at = self.now;
        Request { at, offset: 0, id, len: 0, stream: 0, lane: 0, op, flags: Flags::SYNC }
    }

    fn finished(&mut self, now: Nanos, done: &Done, _slots: &mut dyn Slots) {
        self.now = now;
        let (then, answer) = (self.thens.remove(&done.request.id), self.desk.take(done.request.id));
        if let (Some(then), Some(answer)) = (then, answer) {
            // A store that failed to open accepts no operations.
            self.is_closing |= done.request.op == Op::Open && answer.is_err();
            then(answer);
        }
    }

    fn is_over(&self) -> bool {
        self.is_closing && self.thens.is_empty() && self.shared.queue().waiting.is_empty()
    }
}
