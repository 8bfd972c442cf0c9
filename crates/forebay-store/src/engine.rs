//! The engine: accepts operations and issues I/Os on the disks' lanes.
//!
//! It consists of straight-line tasks on the [`Executor`]: one appends puts to the log of the disk
//! on duty (`ingest`); one per finished log converts it to a segment on another disk (`transform`);
//! one merges runs while disks are idle (`merge`); and one per read operation (`read`). No borrow
//! of the state is held across an `await`, and the state reflects only what durable roots contain.

mod ahead;
mod cache;
mod check;
mod disk;
mod duty;
mod figures;
mod hole;
mod ingest;
mod inplace;
mod labels;
mod log;
mod merge;
mod neighbour;
mod notice;
mod open;
mod publish;
mod read;
mod recover;
mod room;
mod scan;
mod stream;
mod transform;
mod tune;
mod unreadable;
mod version;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use forebay_core::{Lane, Nanos, RequestId};

use crate::executor::{Executor, Signal, Work};
use crate::root::Root;
use crate::space::Space;
use crate::summary::{BatchSummary, Summaries};
use crate::{Answer, Config, KEY_MAX, Key, Layout, Operation, OperationError, VALUE_MAX, Value};

use ahead::Ahead;
use cache::Nodes;
use hole::{BatchSummaries, Hole};
use ingest::{batch_len, is_deletion, is_outsize, size};
use inplace::Trees;
use log::{Log, Slots};
pub use notice::DiskHealth;
use notice::Notices;
use publish::Writing;
use read::Picture;
use scan::{PageLimits, PausedScan};
use stream::{Pace, Records, Stream, newest, pass};
use transform::after;
use tune::{Gap, LogSize};
use unreadable::Partial;
use version::{Copy, Part, Run, Segment, Version};

/// The length of the longest put, with a key and a value of maximum length.
const PUT_MAX: usize = 16 + KEY_MAX + VALUE_MAX;

/// The stage of a disk (the paper's Table I).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// Idle, or doing background work such as merging, which can be postponed.
    #[default]
    Idle,
    /// Accepting puts.
    Log,
    /// Reading a finished log.
    ReadLog,
    /// Writing a segment.
    WriteTree,
}

impl Stage {
    /// Returns the name: `idle`, `log`, `read-log`, `write-tree`.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Idle => "idle",
            Stage::Log => "log",
            Stage::ReadLog => "read-log",
            Stage::WriteTree => "write-tree",
        }
    }
}

/// The start of a stage on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageChange {
    /// The time.
    pub at: Nanos,
    /// The disk, from 0.
    pub disk: usize,
    /// The new stage.
    pub stage: Stage,
}

/// A disk of the store.
struct Disk {
    layout: Layout,
    /// Whether the last block also contains the label.
    is_labelled_at_end: Cell<bool>,
    /// The disk's lane; None if the disk is missing.
    lane: Option<Lane>,
    space: Rc<RefCell<Space>>,
    slots: Slots,
}

/// A write that waits for the log.
struct Put {
    id: RequestId,
    records: Vec<(Key, Option<Value>)>,
    /// The sequence number of the put's first record, once the put is in a batch.
    sequence: u64,
}

/// The store's counters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Finished logs.
    pub logs: u64,
    /// Bytes put by clients, including keys.
    pub put_bytes: u64,
    /// Bytes of batches.
    pub logged_bytes: u64,
    /// Number of batches.
    pub batches: u64,
    /// Logs converted to segments.
    pub transformations: u64,
    /// Bytes of these segments; for a tree in place, all bytes written to it.
    pub transformed_bytes: u64,
    /// Leaves read from trees in place.
    pub leaves_read: u64,
    /// Pages written to trees in place.
    pub pages_written: u64,
    /// The total time from the end of a log to the publication of its segment.
    pub transforming: Nanos,
    /// The total time that logs were on duty.
    pub logging: Nanos,
    /// How often puts waited because no slot was free.
    pub stalls: u64,
    /// How often duty passed to a disk that was not idle.
    pub overlaps: u64,
    /// The total time for which puts were delayed for merges.
    pub merge_delay: Nanos,
    /// Completed merges.
    pub merges: u64,
    /// Bytes written by merges.
    pub merged_bytes: u64,
    /// The current length of logs.
    pub log_bytes: u64,
    /// The current gap after a batch.
    pub gap_bytes: u64,
    /// The duration of the last transformation in logging periods.
    pub periods: f64,
    /// Whether transformations take more than `(disks - 1) / 2` logging periods although logs have
    /// their maximum length.
    pub is_saturated: bool,
    /// The number of runs to be merged as a share of the maximum. Above one half, puts are slowed
    /// down; at 1, they wait.
    pub merge_debt: f64,
    /// The maximum number of runs so far.
    pub runs_max: u64,
    /// The maximum number of bytes in segments so far.
    pub segment_bytes_max: u64,
}

/// The mutable state.
struct State {
    /// The sequence number of the next record.
    sequence: u64,
    /// Reads see only records with sequence numbers lower than this; the limit makes batches
    /// atomic.
    seen_upto: u64,
    next_log: u64,
    next_segment: u64,
    /// The last log and its number of batches.
    before: (u64, u64),
    /// Summaries of lost batches.
    lost_batches: Vec<BatchSummary>,
    /// Summaries of the latest batches, to be included in the next ones.
    summaries: Summaries,
    queue: VecDeque<Put>,
    /// The duration of the last batch.
    last_batch: Nanos,
    /// The accumulated delay that has not been imposed on puts yet.
    owed: Nanos,
    /// The duration of the last transformation.
    last_transforming: Nanos,
    gap: Gap,
    log_size: LogSize,
    /// Logs that are not in segments, oldest first.
    logs: Vec<Rc<Log>>,
    version: Rc<Version>,
    /// Logs that are lost completely or in part.
    lost_logs: BTreeSet<u64>,
    /// Logs whose first write failed. If a write took effect nevertheless, its log is found at the
    /// next opening.
    denied_logs: BTreeSet<u64>,
    /// The stage of each disk, apart from being on duty.
    stages: Vec<Stage>,
    /// The disk that is, or was last, on duty.
    duty: usize,
    /// Whether `duty` is still on duty.
    is_on_duty: bool,
    /// The next log, on a disk that is kept idle until its duty begins.
    next: Option<Rc<Log>>,
    /// The time of the last put.
    last_put: Nanos,
    /// Whether no puts have arrived for a while.
    is_quiet: bool,
    /// Whether a task watches for such a quiet period.
    is_watched: bool,
    roots: Vec<Root>,
    is_root_busy: Vec<bool>,
    /// For each disk, whether a merge is reading from it.
    is_read_idly: Vec<bool>,
    /// For each disk whose writes fail, the time until which it is left alone.
    failed: Vec<Option<Nanos>>,
    /// The health of each disk.
    health: Vec<DiskHealth>,
    notices: Notices,
    transforming: usize,
    /// Whether there was no space for a log's segment. Until space becomes available, puts are
    /// refused if no slot is free.
    is_full: bool,
    is_merging: bool,
    /// The space that the current merge may need in addition to what it frees.
    merge_need: u64,
    /// Whether the amount of replaced data is known. It becomes known once everything has been
    /// merged since the store was opened.
    is_dead_known: bool,
    /// Whether the last merge failed.
    is_merge_stuck: bool,
    /// The inputs of the last merge if there was not enough space for it, and the space that was
    /// available then.
    merge_failed: Option<(Vec<(u64, u64)>, u64)>,
    /// The approximate length of the longest record in segments since the store was opened.
    longest_record: u64,
    /// Whether a repair is in progress, during which nothing is merged.
    is_repairing: bool,
    changes: Vec<StageChange>,
    is_closing: bool,
    /// Disks whose roots are missing or incomplete.
    broken_roots: BTreeSet<usize>,
    /// Copies of filters that a disk's root lists although their space has been reused: the disk
    /// and the segment.
    stale_copies: Vec<(usize, u64)>,
    /// Damaged copies of labels: the disk and the position.
    damaged_labels: BTreeSet<(usize, u64)>,
    /// Disks whose labels have an older format.
    old_labels: BTreeSet<usize>,
    /// Set if too many roots are missing to determine the store's content.
    rootless: Option<OperationError>,
    nodes: Nodes,
    snapshots: BTreeMap<RequestId, Picture>,
    /// Pending writes that hold a snapshot of the state before them.
    holding: BTreeSet<RequestId>,
    /// Scans between two pages, the most recent last.
    scans: VecDeque<PausedScan>,
    /// The number of pages being read.
    scanning: u64,
    figures: Figures,
}

/// The engine.
pub(crate) struct Engine {
    executor: Rc<Executor>,
    config: Config,
    store: u64,
    disks: Vec<Disk>,
    state: RefCell<State>,
    /// Signals that a put arrived or that the store is closing.
    put: Signal,
    /// Signals a change of a stage, log, root or run.
    changed: Signal,
    answers: RefCell<Vec<(RequestId, Result<Answer, OperationError>)>>,
    /// The trees that are updated in place, if logs are inserted into such trees.
    trees: Option<Trees>,
    is_open: Cell<bool>,
    /// Whether all work is done.
    is_over: Cell<bool>,
}

/// Gaps occupy at most 1/`GAPS_SHARE` of a slot.
const GAPS_SHARE: u64 = 50;

/// Returns the permitted lengths of logs. The maximum is what fits into a slot together with the
/// data at its end.
fn log_size(config: &Config, layout: &Layout) -> LogSize {
    let end = config.group_bytes + config.gap_bytes + 2 * crate::frame::BLOCK as u64;
    let most = if config.tunes { config.log_bytes_max } else { config.log_bytes };
    LogSize::new(config.log_bytes, most.min(layout.slot_bytes.saturating_sub(end)))
}

impl Engine {
    /// Creates the engine for these disks, in order. One may be missing; the others are lanes 0,
    /// 1, and so on. The first operation opens the store.
    pub(crate) fn new(
        executor: &Rc<Executor>,
        config: Config,
        layouts: &[Layout],
        missing: Option<usize>,
    ) -> Rc<Engine> {
        let disk = |(at, layout): (usize, &Layout)| {
            let from = layout.segments_at();
            let before = missing.is_some_and(|missing| missing < at);
            Disk {
                layout: *layout,
                is_labelled_at_end: Cell::new(layout.is_labelled_at_end),
                lane: (missing != Some(at)).then_some(at as Lane - Lane::from(before)),
                space: Rc::new(RefCell::new(Space::new(from, layout.segments_end() - from))),
                slots: Rc::new(RefCell::new(vec![false; layout.log_slots as usize])),
            }
        };
        let count = layouts.len();
        let state = State {
            sequence: 1,
            seen_upto: 1,
            next_log: 1,
            next_segment: 1,
            before: (0, 0),
            lost_batches: Vec::new(),
            summaries: Summaries::default(),
            queue: VecDeque::new(),
            last_batch: Nanos::ZERO,
            owed: Nanos::ZERO,
            last_transforming: Nanos::ZERO,
            gap: Gap::new(layouts[0].slot_bytes / GAPS_SHARE),
            log_size: log_size(&config, &layouts[0]),
            logs: Vec::new(),
            version: Rc::default(),
            lost_logs: BTreeSet::new(),
            denied_logs: BTreeSet::new(),
            stages: vec![Stage::Idle; count],
            duty: count - 1,
            is_on_duty: false,
            next: None,
            last_put: Nanos::ZERO,
            is_quiet: false,
            is_watched: false,
            roots: vec![Root::default(); count],
            is_root_busy: vec![false; count],
            is_read_idly: vec![false; count],
            failed: (0..count).map(|at| (missing == Some(at)).then_some(Nanos(u64::MAX))).collect(),
            health: vec![DiskHealth::default(); count],
            notices: Notices::new(count),
            transforming: 0,
            is_full: false,
            is_merging: false,
            merge_need: 0,
            is_dead_known: false,
            is_merge_stuck: false,
            merge_failed: None,
            longest_record: 0,
            is_repairing: false,
            changes: Vec::new(),
            is_closing: false,
            broken_roots: BTreeSet::new(),
            stale_copies: Vec::new(),
            damaged_labels: BTreeSet::new(),
            old_labels: BTreeSet::new(),
            rootless: None,
            nodes: Nodes::new(config.node_bytes),
            snapshots: BTreeMap::new(),
            holding: BTreeSet::new(),
            scans: VecDeque::new(),
            scanning: 0,
            figures: Figures::default(),
        };
        Rc::new(Engine {
            executor: Rc::clone(executor),
            store: layouts[0].store,
            trees: Trees::new(&config, count),
            config,
            disks: layouts.iter().enumerate().map(disk).collect(),
            state: RefCell::new(state),
            put: Signal::new(executor),
            changed: Signal::new(executor),
            answers: RefCell::default(),
            is_open: Cell::new(false),
            is_over: Cell::new(false),
        })
    }

    /// Begins an operation.
    pub(crate) fn begin(self: &Rc<Self>, id: RequestId, operation: Operation) {
        let engine = Rc::clone(self);
        match operation {
            Operation::Open => self.executor.spawn(async move {
                let outcome = engine.open().await;
                engine.answer(id, outcome.map(|()| Answer::Done));
            }),
            Operation::Write(records) => self.enqueue(id, records, false),
            Operation::WriteAndHold(records) => self.enqueue(id, records, true),
            Operation::Get(key) => self.get_of(id, key, self.picture()),
            Operation::Scan { from, count, bytes } => {
                self.scan_of(id, PageLimits { from, count, bytes }, self.picture());
            }
            Operation::Snapshot => {
                let picture = self.picture();
                self.state.borrow_mut().snapshots.insert(id, picture);
                self.answer(id, Ok(Answer::Snapshot(id)));
            }
            Operation::At { snapshot, read } => {
                let picture = self.state.borrow().snapshots.get(&snapshot).cloned();
                match (picture, *read) {
                    (Some(picture), Operation::Get(key)) => self.get_of(id, key, picture),
                    (Some(picture), Operation::Scan { from, count, bytes }) => {
                        self.scan_of(id, PageLimits { from, count, bytes }, picture);
                    }
                    _ => self.answer(id, Err(OperationError::NoSnapshot)),
                }
            }
            Operation::Release(snapshot) => {
                let mut state = self.state.borrow_mut();
                // A write whose snapshot is released before the write is answered no longer holds a
                // snapshot.
                state.holding.remove(&snapshot);
                state.snapshots.remove(&snapshot);
                state.drop_stale_scans();
                drop(state);
                self.answer(id, Ok(Answer::Done));
            }
            Operation::Check => self.executor.spawn(async move {
                let checked = engine.check().await;
                engine.answer(id, Ok(Answer::Checked(checked)));
            }),
            Operation::Repair => self.executor.spawn(async move {
                let outcome = engine.repair().await;
                engine.answer(id, outcome.map(Answer::Checked));
            }),
            Operation::Close => self.executor.spawn(async move {
                engine.close().await;
                engine.answer(id, Ok(Answer::Done));
            }),
        }
    }

    fn get_of(self: &Rc<Self>, id: RequestId, key: Key, picture: Picture) {
        let engine = Rc::clone(self);
        self.executor.spawn(async move {
            let outcome = engine.get(&key, picture).await;
            engine.answer(id, outcome.map(Answer::Value));
        });
    }

    fn scan_of(self: &Rc<Self>, id: RequestId, wanted: PageLimits, picture: Picture) {
        let engine = Rc::clone(self);
        self.executor.spawn(async move {
            let outcome = engine.scan(wanted, picture).await;
            engine.answer(id, outcome.map(Answer::Page));
        });
    }

    fn enqueue(&self, id: RequestId, records: Vec<(Key, Option<Value>)>, holds: bool) {
        let size = |(key, value): &(Key, Option<Value>)| {
            16 + key.len() + value.as_ref().map_or(0, |value| value.len())
        };
        let bytes: usize = records.iter().map(size).sum();
        let key_max = self.trees.as_ref().map_or(KEY_MAX, Trees::key_max);
        let long = records.iter().map(|(key, _)| key.len()).find(|len| *len > key_max);
        if let Some(got) = long {
            let (got, most) = (got as u64, key_max as u64);
            return self.answer(id, Err(OperationError::Long { got, most }));
        }
        if self.config.read_only {
            return self.answer(id, Err(OperationError::ReadOnly));
        }
        if let Err(failure) = self.know() {
            return self.answer(id, Err(failure));
        }
        if bytes > PUT_MAX {
            let (got, most) = (bytes as u64, PUT_MAX as u64);
            return self.answer(id, Err(OperationError::Long { got, most }));
        }
        let mut state = self.state.borrow_mut();
        if state.is_closing {
            return self.answer(id, Err(OperationError::Closed));
        }
        state.holding.extend(holds.then_some(id));
        state.queue.push_back(Put { id, records, sequence: 0 });
        drop(state);
        self.put.notify();
    }

    fn answer(&self, id: RequestId, outcome: Result<Answer, OperationError>) {
        self.answers.borrow_mut().push((id, outcome));
    }

    /// Returns the answers since the last call.
    pub(crate) fn answers(&self) -> Vec<(RequestId, Result<Answer, OperationError>)> {
        std::mem::take(&mut self.answers.borrow_mut())
    }

    /// Fails if the store's content is unknown.
    fn know(&self) -> Result<(), OperationError> {
        self.state.borrow().rootless.clone().map_or(Ok(()), Err)
    }

    /// Returns whether nothing except repairs may write.
    fn holds_still(&self) -> bool {
        self.config.read_only || self.state.borrow().rootless.is_some()
    }

    /// Returns the recorded changes of stages.
    pub(crate) fn stage_changes(&self) -> Vec<StageChange> {
        self.state.borrow().changes.clone()
    }

    /// Records the new stage of a disk.
    fn note(&self, state: &mut State, disk: usize) {
        if self.config.notes_stages {
            let (at, stage) = (self.executor.now(), state.stage(disk));
            state.changes.push(StageChange { at, disk, stage });
        }
    }

    async fn close(&self) {
        {
            let mut state = self.state.borrow_mut();
            state.is_closing = true;
            state.drop_stale_scans();
        }
        self.put.notify();
        self.changed.notify();
        self.changed
            .until(|| {
                let state = self.state.borrow();
                let is_done = state.queue.is_empty()
                    && state.transforming == 0
                    && !state.is_merging
                    && !state.is_on_duty;
                is_done.then_some(())
            })
            .await;
        self.forgo_next().await;
        self.close_trees().await;
        self.is_over.set(true);
    }

    /// Creates an empty work counter.
    fn work(&self) -> Work {
        Work::new(&self.executor, self.config.work_bytes)
    }

    /// Returns whether the store has been closed and all final work is done.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.get()
    }
}
