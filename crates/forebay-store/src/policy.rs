//! The engine as a policy, for any driver of the core's contract.
//!
//! Operations arrive as requests whose content is in a [`Desk`], where a workload stores an
//! operation and collects the answer. The engine's I/Os are split into parts no longer than a lane
//! accepts. The driver keeps the bytes of an I/O from its request until its end.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use forebay_core::{
    BACKGROUND, Bytes, Completion, Cx, Done, Fault, Flags, Lane, Nanos, Op, Outcome, Piece, Policy,
    Request, RequestId,
};

use crate::engine::{DiskHealth, Engine, Figures, Stage, StageChange};
use crate::executor::{Executor, Io, IoId};
use crate::{Answer, Config, Layout, Loss, Operation, OperationError};

/// The operations and answers, by the id of the request that represents them.
#[derive(Clone, Default)]
pub struct Desk {
    operations: Rc<RefCell<BTreeMap<RequestId, Operation>>>,
    answers: Rc<RefCell<BTreeMap<RequestId, Result<Answer, OperationError>>>>,
}

impl Desk {
    /// Stores an operation. The request that represents it must follow.
    pub fn submit(&self, id: RequestId, operation: Operation) {
        self.operations.borrow_mut().insert(id, operation);
    }

    /// Takes the answer to a finished request.
    pub fn take(&self, id: RequestId) -> Option<Result<Answer, OperationError>> {
        self.answers.borrow_mut().remove(&id)
    }
}

/// A read-only view of a store's state.
pub struct View(Rc<Engine>);

impl View {
    /// Returns the counters.
    pub fn figures(&self) -> Figures {
        self.0.figures()
    }

    /// Returns the stage of each disk.
    pub fn stages(&self) -> Vec<Stage> {
        self.0.stages()
    }

    /// Returns the changes of stages, if recorded.
    pub fn stage_changes(&self) -> Vec<StageChange> {
        self.0.stage_changes()
    }

    /// Returns the bytes of segments on all disks and the number of runs.
    pub fn segment_totals(&self) -> (u64, usize) {
        self.0.segment_totals()
    }

    /// Returns the memory that grows with the data: records of logs, filters and nodes of trees.
    pub fn memory_bytes(&self) -> u64 {
        self.0.memory_bytes()
    }

    /// Returns the known losses.
    pub fn losses(&self) -> Vec<Loss> {
        self.0.losses()
    }

    /// Returns the health of each disk.
    pub fn health(&self) -> Vec<DiskHealth> {
        self.0.health()
    }

    /// Returns the notices for the operator since the last call: the disk and a sentence.
    pub fn notices(&self) -> Vec<(usize, String)> {
        self.0.notices()
    }

    /// Returns the number of records other than deletions.
    pub fn records(&self) -> u64 {
        self.0.records()
    }
}

/// An I/O of the engine, with the number of parts that have not ended.
struct EngineRequest {
    parts: usize,
    outcome: Outcome,
    read: Option<Piece>,
    bytes: Bytes,
}

/// A part of an I/O, as issued to a lane.
struct Part {
    io: IoId,
    piece: Piece,
}

/// A store as a policy.
pub struct StorePolicy {
    executor: Rc<Executor>,
    engine: Rc<Engine>,
    desk: Desk,
    /// The maximum length of an I/O.
    len_max: u32,
    to_media: bool,
    waiting: Vec<VecDeque<Request>>,
    parts: BTreeMap<RequestId, Part>,
    next_part: RequestId,
    asked: BTreeMap<IoId, EngineRequest>,
    requests: BTreeMap<RequestId, Request>,
}

impl StorePolicy {
    /// Creates the policy for these disks. Disk `i` is lane `i`, and I/Os have at most `len_max`
    /// bytes. The first request must represent [`Operation::Open`].
    pub fn new(layouts: &[Layout], config: Config, len_max: u32, desk: Desk) -> StorePolicy {
        StorePolicy::with_missing(None, layouts, config, len_max, desk)
    }

    /// Creates the policy with one disk missing. The missing disk has no lane, so later disks have
    /// lower lane numbers.
    pub fn with_missing(
        missing: Option<usize>,
        layouts: &[Layout],
        config: Config,
        len_max: u32,
        desk: Desk,
    ) -> StorePolicy {
        let executor = Rc::new(Executor::default());
        let to_media = config.to_media;
        let engine = Engine::new(&executor, config, layouts, missing);
        StorePolicy {
            executor,
            engine,
            desk,
            len_max: len_max / 4096 * 4096,
            to_media,
            // If a disk is missing, there is one queue more than necessary.
            waiting: layouts.iter().map(|_| VecDeque::new()).collect(),
            parts: BTreeMap::new(),
            next_part: 0,
            asked: BTreeMap::new(),
            requests: BTreeMap::new(),
        }
    }

    /// Returns a view of the state, for use on the same thread.
    pub fn view(&self) -> View {
        View(Rc::clone(&self.engine))
    }

    /// Runs the tasks, then issues their I/Os and returns their answers.
    fn turn(&mut self, cx: &mut Cx<'_>) {
        self.executor.run(cx.now);
        while let Some((id, lane, io)) = self.executor.next_io() {
            if matches!(io, Io::Flush) && !self.to_media {
                self.executor.complete(id, Ok(Vec::new()));
                self.executor.run(cx.now);
            } else {
                self.ask(cx, id, lane, io);
            }
        }
        for (id, answer) in self.engine.answers() {
            let Some(request) = self.requests.remove(&id) else { continue };
            let outcome = match &answer {
                Ok(_) => Ok(()),
                Err(OperationError::Disk { fault, .. }) => Err(*fault),
                Err(OperationError::Full | OperationError::NoSpace { .. }) => Err(Fault::Full),
                Err(OperationError::Long { .. }) => Err(Fault::Refused),
                Err(
                    OperationError::Damaged { .. }
                    | OperationError::Lost { .. }
                    | OperationError::Root { .. }
                    | OperationError::Label { .. }
                    | OperationError::Rootless { .. },
                ) => Err(Fault::Media),
                Err(OperationError::ReadOnly | OperationError::NoSnapshot) => Err(Fault::Refused),
                Err(OperationError::Closed | OperationError::Missing { .. }) => Err(Fault::Gone),
            };
            self.desk.answers.borrow_mut().insert(id, answer);
            cx.finished.push(Done::at_once(request, outcome));
        }
    }

    /// Queues an I/O for its lane, in parts that the lane accepts.
    fn ask(&mut self, cx: &mut Cx<'_>, io: IoId, lane: Lane, asked: Io) {
        let (op, offset, len, flags, data) = match asked {
            Io::Read { offset, len } => (Op::Read, offset, len as u64, Flags::NONE, None),
            Io::Write { offset, data, durable } => {
                let durable = durable && self.to_media;
                let flags = if durable { Flags::FUA.with(Flags::SYNC) } else { Flags::NONE };
                (Op::Write, offset, data.len() as u64, flags, Some(data))
            }
            Io::Flush => (Op::Flush, 0, 0, Flags::NONE, None),
        };
        let bytes =
            if op.moves_data() { Bytes::of(cx.slots.take(len as u32)) } else { Bytes::NONE };
        let whole = bytes.len(if op.moves_data() { len as u32 } else { 0 });
        if let Some(data) = data {
            cx.slots.put(whole, &data);
        }
        let read = (op == Op::Read).then_some(whole);
        let step = if op == Op::Flush { 1 } else { self.len_max };
        let mut parts = 0;
        for at in (0..len.max(1)).step_by(step as usize) {
            let part_len = (len - at.min(len)).min(step.into()) as u32;
            let id = self.next_part;
            self.next_part += 1;
            let piece =
                if op.moves_data() { bytes.on(at as u32).len(part_len) } else { Piece::default() };
            self.parts.insert(id, Part { io, piece });
            let (stream, len, at, offset) = (BACKGROUND, part_len, cx.now, offset + at);
            let request = Request { at, offset, id, len, stream, lane, op, flags };
            self.waiting[usize::from(lane)].push_back(request);
            parts += 1;
        }
        self.asked.insert(io, EngineRequest { parts, outcome: Ok(()), read, bytes });
    }
}

impl Policy for StorePolicy {
    fn submit(&mut self, cx: &mut Cx<'_>, request: Request, _bytes: Bytes) {
        let operation = self.desk.operations.borrow_mut().remove(&request.id);
        self.requests.insert(request.id, request);
        // A flush by the driver itself has nothing to do, because everything acknowledged is
        // durable.
        if let Some(operation) = operation {
            self.engine.begin(request.id, operation);
        } else {
            self.requests.remove(&request.id);
            cx.finished.push(Done::at_once(request, Ok(())));
        }
        self.turn(cx);
    }

    fn dispatch(&mut self, now: Nanos, lane: Lane) -> Option<Request> {
        let io = self.waiting[usize::from(lane)].pop_front()?;
        Some(Request { at: now, ..io })
    }

    fn complete(&mut self, cx: &mut Cx<'_>, done: &Completion) {
        let Some(part) = self.parts.remove(&done.io.id) else { return };
        let Some(asked) = self.asked.get_mut(&part.io) else { return };
        asked.outcome = forebay_core::worst(asked.outcome, done.outcome);
        asked.parts -= 1;
        if asked.parts > 0 {
            return;
        }
        let Some(asked) = self.asked.remove(&part.io) else { return };
        let mut content = Vec::new();
        if let Some(piece) = asked.read
            && asked.outcome.is_ok()
        {
            content.resize(piece.len as usize, 0);
            cx.slots.get(piece, &mut content);
        }
        cx.slots.free(asked.bytes.buf);
        self.executor.complete(part.io, asked.outcome.map(|()| content));
        self.turn(cx);
    }

    fn wakeup(&self) -> Option<Nanos> {
        // After the store is closed, a task that only watches for a period without puts need not
        // wake up.
        self.executor.wakeup().filter(|_| !self.engine.is_over())
    }

    fn wake(&mut self, cx: &mut Cx<'_>) {
        self.turn(cx);
    }

    fn pieces(&self, io: &Request, each: &mut dyn FnMut(Piece)) {
        if let Some(part) = self.parts.get(&io.id)
            && io.op.moves_data()
        {
            each(part.piece);
        }
    }
}
