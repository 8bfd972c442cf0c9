//! The engine: operations in, I/Os on the disks' lanes out.
//!
//! Straight-line tasks on the [`Executor`]: one appends what was put to the log of the disk on duty
//! (`ingest`), one a finished log makes it a segment on another disk (`transform`), one joins runs while disks
//! are idle (`merge`), one an operation reads (`read`). No borrow of the state outlives an `await`, and the
//! state says only what durable roots say.

mod ahead;
mod cache;
mod check;
mod disk;
mod duty;
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

use crate::config::Config;
use crate::executor::{Executor, Signal, Work};
use crate::layout::Layout;
use crate::operation::{Answer, Operation, Trouble};
use crate::record::{KEY_MAX, Key, VALUE_MAX, Value};
use crate::root::Root;
use crate::space::Space;
use crate::summary::{BatchSummary, Summaries};

use cache::Nodes;
use inplace::Trees;
use log::{Log, Slots};
pub use notice::DiskHealth;
use notice::Notices;
use read::Picture;
use scan::{PausedScan, Wanted};
use tune::{Gap, LogSize};
use version::Version;

/// The longest put: a key and a value as long as they may be.
const PUT_MAX: usize = 16 + KEY_MAX + VALUE_MAX;

/// What a disk does (the paper's Table I).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// Nothing, or what can be put off: merging.
    #[default]
    Idle,
    /// Takes what is put.
    Log,
    /// A finished log is read from it.
    ReadLog,
    /// A segment is written to it.
    WriteTree,
}

impl Stage {
    /// Its name: `idle`, `log`, `read-log`, `write-tree`.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Idle => "idle",
            Stage::Log => "log",
            Stage::ReadLog => "read-log",
            Stage::WriteTree => "write-tree",
        }
    }
}

/// A disk began a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageChange {
    /// When.
    pub at: Nanos,
    /// Which, from 0.
    pub disk: usize,
    /// What it does from then on.
    pub stage: Stage,
}

/// A disk of the store.
struct Disk {
    layout: Layout,
    /// The last block has the label too.
    is_labelled_at_end: Cell<bool>,
    /// None where it is missing.
    lane: Option<Lane>,
    space: Rc<RefCell<Space>>,
    slots: Slots,
}

/// A write that waits for the log.
struct Put {
    id: RequestId,
    records: Vec<(Key, Option<Value>)>,
    /// The sequence number of its first record, once it is in a batch.
    sequence: u64,
}

/// What the store counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Logs that were finished.
    pub logs: u64,
    /// Bytes that clients put, keys included.
    pub put_bytes: u64,
    /// Bytes of batches.
    pub logged_bytes: u64,
    /// Batches.
    pub batches: u64,
    /// Logs that became segments.
    pub transformations: u64,
    /// Bytes of these segments; of a tree in place all that was written to it.
    pub transformed_bytes: u64,
    /// Leaves of trees in place that were read.
    pub leaves_read: u64,
    /// Pages of trees in place that were written.
    pub pages_written: u64,
    /// From a log's end to its segment's being published, in all.
    pub transforming: Nanos,
    /// How long logs were on duty, in all.
    pub logging: Nanos,
    /// Times that puts waited since no slot was free.
    pub stalls: u64,
    /// Times that duty passed to a disk that was not idle.
    pub overlaps: u64,
    /// How long puts were held back for merges, in all.
    pub held_back: Nanos,
    /// Merges that were finished.
    pub merges: u64,
    /// Bytes that merges wrote.
    pub merged_bytes: u64,
    /// How long logs are now.
    pub log_bytes: u64,
    /// What is left out behind a batch now.
    pub gap_bytes: u64,
    /// Logging periods that the last transformation took.
    pub periods: f64,
    /// These are more than `(disks - 1) / 2`, and logs are as long as they may be.
    pub is_saturated: bool,
    /// Runs that are to be merged, as a share of those that there may be. From half on puts are slowed; at 1 they
    /// wait.
    pub merge_debt: f64,
    /// The most runs that there were.
    pub runs_max: u64,
    /// The most bytes that segments had.
    pub held_bytes_max: u64,
}

/// What changes.
struct State {
    /// The next record's.
    sequence: u64,
    /// Reads see what has a lower one: of a batch all or nothing.
    seen_upto: u64,
    next_log: u64,
    next_segment: u64,
    /// The last log, and its batches.
    before: (u64, u64),
    /// What is known of batches that are lost.
    lost_batches: Vec<BatchSummary>,
    /// Of the latest batches, for the next ones to say.
    summaries: Summaries,
    queue: VecDeque<Put>,
    /// How long the last batch took.
    last_batch: Nanos,
    /// How long puts are to be held back.
    owed: Nanos,
    /// And the last transformation.
    last_transforming: Nanos,
    gap: Gap,
    log_size: LogSize,
    /// Logs that are in no segment, the oldest first.
    logs: Vec<Rc<Log>>,
    version: Rc<Version>,
    /// Logs that are lost, or batches of them.
    lost_logs: BTreeSet<u64>,
    /// Logs whose first write failed: if it was done all the same the next opening finds them.
    denied_logs: BTreeSet<u64>,
    /// What each disk does beside its duty.
    stages: Vec<Stage>,
    /// The disk that was given duty last.
    duty: usize,
    /// Whether it still has it.
    is_on_duty: bool,
    /// The log that is next, on a disk that is left alone until then.
    next: Option<Rc<Log>>,
    /// When something was put last.
    last_put: Nanos,
    /// Nothing was put for a while.
    is_quiet: bool,
    /// Somebody looks whether that is so.
    is_watched: bool,
    roots: Vec<Root>,
    is_root_busy: Vec<bool>,
    /// A merge reads from it.
    is_read_idly: Vec<bool>,
    /// Disks whose writes fail, until when they are left alone.
    failed: Vec<Option<Nanos>>,
    /// What failed on each disk.
    health: Vec<DiskHealth>,
    notices: Notices,
    transforming: usize,
    /// A log found no room: until one does, puts that find no slot are refused.
    is_full: bool,
    is_merging: bool,
    /// What the merge that is under way may take beyond what it gives back.
    merge_need: u64,
    /// How much of what there is was replaced: all was merged since the store was opened.
    is_dead_known: bool,
    /// The last merge failed.
    is_merge_stuck: bool,
    /// The inputs of the last merge, where these found no room, and how much room there was.
    merge_failed: Option<(Vec<(u64, u64)>, u64)>,
    /// Bytes of the longest record in segments since the store was opened, about.
    longest_record: u64,
    /// Nothing is merged meanwhile.
    is_repairing: bool,
    changes: Vec<StageChange>,
    is_closing: bool,
    /// Disks whose roots are gone, or lack frames that they had.
    broken_roots: BTreeSet<usize>,
    /// Copies of filters that a disk's root says and whose place is somebody else's, by their segments.
    stale_copies: Vec<(usize, u64)>,
    /// Copies of labels that are damaged: their disks and places.
    damaged_labels: BTreeSet<(usize, u64)>,
    /// Disks whose labels are of an older format.
    old_labels: BTreeSet<usize>,
    /// They are too many to say what there was.
    rootless: Option<Trouble>,
    nodes: Nodes,
    snapshots: BTreeMap<RequestId, Picture>,
    /// Writes under way that hold what there was before them.
    holding: BTreeSet<RequestId>,
    /// Scans between two of their pages, the latest last.
    scans: VecDeque<PausedScan>,
    /// Pages that are being read.
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
    /// Something was put, or the store closes.
    put: Signal,
    /// A stage, a log, a root, a run.
    changed: Signal,
    answers: RefCell<Vec<(RequestId, Result<Answer, Trouble>)>>,
    /// What logs become, where that is updated in place.
    trees: Option<Trees>,
    is_open: Cell<bool>,
    /// Nothing is left to do but to forget.
    is_over: Cell<bool>,
}

/// A gap takes no more than this part of a slot.
const GAPS_SHARE: u64 = 50;

/// How long logs may be: as long as a slot has room for, with what comes at its end.
fn log_size(config: &Config, layout: &Layout) -> LogSize {
    let end = config.group_bytes + config.gap_bytes + 2 * crate::frame::BLOCK as u64;
    let most = if config.tunes { config.log_bytes_max } else { config.log_bytes };
    LogSize::new(config.log_bytes, most.min(layout.slot_bytes.saturating_sub(end)))
}

impl Engine {
    /// Of these disks, in their order, one of which may be missing; the others are lanes from 0. The first
    /// operation opens it.
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
                self.scan_of(id, Wanted { from, count, bytes }, self.picture());
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
                        self.scan_of(id, Wanted { from, count, bytes }, picture);
                    }
                    _ => self.answer(id, Err(Trouble::NoSnapshot)),
                }
            }
            Operation::Release(snapshot) => {
                let mut state = self.state.borrow_mut();
                // A write that is let go before it is answered holds nothing then.
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

    fn scan_of(self: &Rc<Self>, id: RequestId, wanted: Wanted, picture: Picture) {
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
            return self.answer(id, Err(Trouble::Long { got, most }));
        }
        if self.config.read_only {
            return self.answer(id, Err(Trouble::ReadOnly));
        }
        if let Err(trouble) = self.know() {
            return self.answer(id, Err(trouble));
        }
        if bytes > PUT_MAX {
            let (got, most) = (bytes as u64, PUT_MAX as u64);
            return self.answer(id, Err(Trouble::Long { got, most }));
        }
        let mut state = self.state.borrow_mut();
        if state.is_closing {
            return self.answer(id, Err(Trouble::Closed));
        }
        state.holding.extend(holds.then_some(id));
        state.queue.push_back(Put { id, records, sequence: 0 });
        drop(state);
        self.put.notify();
    }

    fn answer(&self, id: RequestId, outcome: Result<Answer, Trouble>) {
        self.answers.borrow_mut().push((id, outcome));
    }

    /// What was answered since it was asked last.
    pub(crate) fn answers(&self) -> Vec<(RequestId, Result<Answer, Trouble>)> {
        std::mem::take(&mut self.answers.borrow_mut())
    }

    /// What it counted.
    pub(crate) fn figures(&self) -> Figures {
        let state = self.state.borrow();
        Figures {
            log_bytes: state.log_size.bytes(),
            gap_bytes: self.gap_bytes(),
            periods: state.log_size.periods(),
            is_saturated: state.log_size.is_saturated(self.disks.len()),
            merge_debt: self.merge_debt(&state),
            ..state.figures
        }
    }

    /// Each disk's stage.
    pub(crate) fn stages(&self) -> Vec<Stage> {
        let state = self.state.borrow();
        (0..self.disks.len()).map(|disk| state.stage(disk)).collect()
    }

    /// How many runs there are of those that there may be.
    fn merge_debt(&self, state: &State) -> f64 {
        state.version.runs.len() as f64 / self.config.runs_max.max(1) as f64
    }

    /// Whether it is known what there is.
    fn know(&self) -> Result<(), Trouble> {
        self.state.borrow().rootless.clone().map_or(Ok(()), Err)
    }

    /// Whether nothing is written but what repairs.
    fn holds_still(&self) -> bool {
        self.config.read_only || self.state.borrow().rootless.is_some()
    }

    /// When which disk began which stage.
    pub(crate) fn stage_changes(&self) -> Vec<StageChange> {
        self.state.borrow().changes.clone()
    }

    /// Notes what a disk does from now on.
    fn note(&self, state: &mut State, disk: usize) {
        if self.config.notes_stages {
            let (at, stage) = (self.executor.now(), state.stage(disk));
            state.changes.push(StageChange { at, disk, stage });
        }
    }

    /// Bytes of segments on all disks, and how many runs there are.
    pub(crate) fn held(&self) -> (u64, usize) {
        let version = Rc::clone(&self.state.borrow().version);
        (version.segments().map(|segment| segment.described.len).sum(), version.runs.len())
    }

    /// Bytes of memory that grow with what is put: records of logs, filters, top nodes and other nodes. What is on
    /// its way to or from disks is not among them.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let state = self.state.borrow();
        let logs: u64 = state.logs.iter().map(|log| log.record_bytes.get()).sum();
        let of = |segment: &Rc<version::Segment>| {
            segment.filter.bytes() + segment.top.as_ref().map_or(0, |top| top.bytes())
        };
        logs + state.version.segments().map(of).sum::<u64>() + state.nodes.bytes()
    }

    /// Records that are not deletions, in segments and in logs.
    pub(crate) fn records(&self) -> u64 {
        let state = self.state.borrow();
        let in_segments = state.version.segments().map(|segment| {
            let shape = segment.described.shape;
            shape.records - shape.tombstones.min(shape.records)
        });
        let in_logs = state.logs.iter().map(|log| log.len_values());
        in_segments.sum::<u64>() + in_logs.sum::<u64>()
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

    /// None yet.
    fn work(&self) -> Work {
        Work::new(&self.executor, self.config.work_bytes)
    }

    /// Whether it was closed, and all that had to be done then is.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.get()
    }
}
