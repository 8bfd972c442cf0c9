//! An array of drives in which each unit has its own RAID level, and may change it: a [`Placement`]
//! (Jeremic et al., *Towards workload-driven adaptation of data organization*, 2013).
//!
//! Clients see one lane of [`Geometry::capacity_bytes`]. A *unit* has a few data chunks (four of 64
//! KiB in the paper) and a [`Level`], which determines its *roles*: data chunks, copies and
//! parities. A table records which *cell* of which drive holds each role. A *job* serves the
//! requests for a unit: it reads some roles, reconstructs lost ones from the others, and writes
//! some roles.
//!
//! There is no write hole. A role is rewritten in a fresh cell ([`Update::Fresh`]). The unit's new
//! places take effect as soon as a record names them. Records are written after a flush of all
//! drives ([`commit`]), so that after a power cut, the units are in the state of the last record.
//! Each cell ends with a trailer that names its content and contains a checksum of each block; the
//! table holds 24 bits of the trailer's own checksum. So rot and lost writes are detected when a
//! chunk is read, and repaired from redundancy. The paper's array writes in place
//! ([`Update::InPlace`]) and has neither.
//!
//! Invariants:
//! - A cell that a durable or an upcoming state names is not written to. It becomes free when
//!   nothing names it any longer ([`ledger`]).
//! - Data that a drive may have lost is treated as lost ([`suspects`]).
//! - A unit has one change at a time and no concurrent reads, unless writes in place change only
//!   some of its rows ([`locks`]).
//! - An answered write can be read back after any failures that its level tolerates.
//! - A write answered with fewer roles than its level has is completed as soon as there is space.
//!   Until then, no other role goes to the drive that lost a role: its failure would cost the unit
//!   a second role.
//!
//! Deviation from the paper: a level applies to all chunks of a unit, and the two neighboring
//! segments of the paper's mirrored layout are the two halves of a unit. Chunks stay where they are
//! when a level changes.

mod adapting;
mod allot;
#[cfg(test)]
mod bench;
mod caring;
mod census;
mod commit;
mod drives;
mod events;
mod fitting;
mod full;
mod geometry;
mod hints;
mod job;
mod kind;
mod known;
mod ledger;
mod level;
mod limit;
mod locks;
mod losses;
mod lost;
mod making;
mod method;
mod opening;
mod ordered;
mod reading;
mod reclaiming;
mod record;
mod room;
mod salvage;
mod space;
mod suspects;
mod switching;
mod table;
mod unit;
mod working;
mod writing;

use std::collections::{BTreeMap, VecDeque};

use crate::adapt::DriveCosts;
use crate::contract::{
    BACKGROUND, Bytes, Fault, Figure, Flags, Gauge, Nanos, Op, Outcome, Request, VolumeEvent,
    VolumeOrder, VolumeState,
};
use crate::stack::placed::{Owner, Placement, Plan, Planned};

use adapting::Adapting;
use commit::Log;
use drives::Drives;
use hints::Hints;
use job::{Doing, Job, touched, within};
use locks::{Grain, Locks, Part, Task};
use opening::Opening;
use table::{Table, put_words, words};
use unit::{Place, Unit};

use caring::Care;
pub use census::{Census, DriveState, LOST_LISTED, LostRange, LostUnit};
use events::Events;
use fitting::units_on;
use full::{CARE_PAUSE, Full};
use geometry::{BLOCK, LANES_MAX, LANES_OPEN, PAGE, ROUND_MAX, spare_cells};
pub use geometry::{Geometry, Update};
pub use hints::Hint;
pub use kind::{DriveKind, KINDS};
use known::{Known, Sums};
use ledger::Doubted;
pub use level::{LEVELS, Level};
use level::{ROLES_MAX, Roles, all, each};
pub use limit::DriveLimit;
use losses::{Losses, Waiter};
use lost::{Blocks, LOST_SUM, Lost, blocks_of};
use method::{Method, Needs, View};
pub use record::{DriveStage, Label, LabelError};
use record::{Record, sums, trailer, units_a_record};
use room::Room;
use salvage::Salvage;
use space::Space;
use suspects::Unsure;

/// The first bit of an I/O's kind in its token: the kind is the highest byte. The kinds follow.
const KIND: u32 = 56;
const JOB: u64 = 0;
const FLUSH: u64 = 1;
const RECORD: u64 = 2;
const OPENING: u64 = 3;
const PASSES: u64 = 4;

/// The statistics of an array.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    full_writes: u64,
    reconstruct_writes: u64,
    modify_writes: u64,
    degraded: u64,
    commits: u64,
    stalls: u64,
    switches: u64,
    repaired_roles: u64,
    moved_roles: u64,
    rotten_blocks: u64,
    mirrors_refused: u64,
    drives_failed: u64,
}

/// Whether requests are served.
enum Phase {
    /// Before the first request, which causes the table to be read or created.
    Closed {
        creates: bool,
    },
    Opening(Box<Opening>),
    Ready,
    /// Nothing valid was found, no drive accepts records any longer, or no drive had space for the
    /// records of the opening.
    Failed(Fault),
}

/// An array of drives.
pub struct Array {
    geometry: Geometry,
    /// The level of units that are written for the first time.
    first: Level,
    /// The level with the fewest roles that tolerates as many failures as `first`.
    leanest: Level,
    phase: Phase,
    /// Requests that arrived before the array was open.
    early: Vec<(u32, Request, Bytes)>,
    drives: Drives,
    /// The durable state of the units, or their current state if the array writes in place.
    table: Table,
    /// Changed units that do not belong to a round yet.
    changed: BTreeMap<u64, Unit>,
    /// Units that the current round makes durable.
    round: BTreeMap<u64, Unit>,
    log: Log,
    locks: Locks,
    jobs: Vec<Job>,
    vacant: Vec<u32>,
    /// Units on which a task may start.
    ready: Vec<u64>,
    /// A buffer for the tasks that start next.
    tasks: Vec<Task>,
    /// Jobs that wait for free cells.
    stalled: VecDeque<u32>,
    known: known::Known,
    care: caring::Care,
    room: room::Room,
    adapting: Option<Adapting>,
    /// The costs of writes on the drives of each kind, as far as they are known.
    costs: [Option<DriveCosts>; KINDS.len()],
    hints: Hints,
    /// By unit: data for the next switch of its level.
    carried: BTreeMap<u64, switching::Carried>,
    /// The number of units on drives of each kind.
    held: [u64; KINDS.len()],
    /// Cells of units that a failed flush may have lost.
    doubted: ledger::Doubted,
    /// Cells that units name although a drive may have lost their data.
    unsure: suspects::Unsure,
    /// The number of units of each level.
    levels: [u64; LEVELS.len()],
    /// The number of units that have lost bytes.
    lost_units: u64,
    /// The jobs that wait until drives have space.
    full: full::Full,
    reads_only: bool,
    /// By lane: whether the lane's drive may join although no record names the drive. If `None`,
    /// any new drive may join.
    joining: Option<Vec<bool>>,
    counts: Counts,
    events: events::Events,
}

impl Array {
    /// Returns the number of lanes, with or without a drive.
    pub fn lanes(&self) -> usize {
        self.drives.lanes()
    }

    /// Returns the level of units that are written for the first time, unless a rule or a hint says
    /// otherwise.
    pub fn first_level(&self) -> Level {
        self.first
    }

    /// Returns the array's geometry.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn chunks(&self) -> usize {
        self.geometry.chunks.into()
    }

    fn is_fresh(&self) -> bool {
        self.geometry.update == Update::Fresh
    }

    /// Returns the unit in the state that a new request sees.
    fn unit(&self, number: u64) -> Unit {
        let newer = self.changed.get(&number).or_else(|| self.round.get(&number));
        newer.copied().unwrap_or_else(|| self.table.get(number))
    }

    /// Starts a client's request.
    fn serve(&mut self, client: u32, request: &Request, bytes: Bytes, plan: &mut Plan<'_>) {
        let beyond = request.end() > self.geometry.capacity_bytes();
        self.care.retry(plan.now);
        match request.op {
            Op::Read | Op::Write | Op::Trim if beyond => {
                plan.hold(client);
                plan.release(client, Err(Fault::Refused));
            }
            Op::Write | Op::Trim if self.reads_only => {
                plan.hold(client);
                plan.release(client, Err(Fault::Refused));
            }
            Op::Read | Op::Write | Op::Trim => self.cut(client, request, bytes, plan),
            Op::Flush if self.is_fresh() => self.flush(client, request.stream, plan),
            Op::Flush | Op::Park => self.pass(client, request, plan),
            Op::Open if self.care.waits && self.care.due().is_some() => {
                plan.hold(client);
                self.care.waiters.push((client, request.stream));
            }
            Op::Open => {}
        }
    }

    /// Passes a request on to all drives unchanged.
    fn pass(&mut self, client: u32, request: &Request, plan: &mut Plan<'_>) {
        let whole = Planned::whole(client, request, Bytes::NONE);
        for lane in self.drives.present() {
            plan.io(Planned { lane: lane as u16, token: PASSES << KIND, ..whole });
        }
    }

    /// Returns where a piece of a request that begins at `offset` ends: with its unit. In an array
    /// that writes in place, a short piece also ends with its chunk, because a job reads and writes
    /// the same bytes of all its chunks. Rules count the chunks of a request, so the pieces of
    /// arrays that adapt are not cut.
    fn piece_end(&self, offset: u64, request: &Request) -> u64 {
        let next = |bytes: u64| request.end().min((offset / bytes + 1) * bytes);
        let chunk = u64::from(self.geometry.chunk_bytes);
        let is_short = request.end() - offset < chunk;
        match is_short && !self.is_fresh() && self.adapting.is_none() {
            true => next(chunk),
            false => next(self.geometry.unit_bytes()),
        }
    }

    /// Splits a request into one task per unit.
    fn cut(&mut self, client: u32, request: &Request, bytes: Bytes, plan: &mut Plan<'_>) {
        let unit_bytes = self.geometry.unit_bytes();
        let mut offset = request.offset;
        while offset < request.end() {
            let number = offset / unit_bytes;
            let end = self.piece_end(offset, request);
            let part = Part {
                client,
                from: (offset % unit_bytes) as u32,
                len: (end - offset) as u32,
                bytes: bytes.on((offset - request.offset) as u32),
                stream: request.stream,
                at: plan.now,
                durable: request.flags.has(Flags::FUA),
                promised: request.flags.has(Flags::PROMISED),
            };
            offset = end;
            let task = match request.op {
                Op::Read => Task::Read(part),
                Op::Write => Task::Write(part),
                // Units that are only partly trimmed keep their data.
                _ if u64::from(part.len) < unit_bytes => continue,
                _ => Task::Trim(part),
            };
            plan.hold(client);
            self.locks.ask(number, task);
            self.ready.push(number);
        }
    }

    /// Starts all tasks that may start.
    fn proceed(&mut self, plan: &mut Plan<'_>) {
        loop {
            let Some(number) = self.ready.pop() else {
                self.make_room(plan);
                match self.ready.is_empty() {
                    true => return,
                    false => continue,
                }
            };
            let mut tasks = std::mem::take(&mut self.tasks);
            let grain = self.grain(number);
            let (jobs, vacant) = (&self.jobs, &self.vacant);
            let runs = |key: u32| jobs[key as usize].number == number && !vacant.contains(&key);
            self.locks.next(number, grain, runs, &mut tasks);
            if !tasks.is_empty() {
                self.ready.push(number);
                let key = self.open_job(number, &tasks);
                self.locks.begin(number, key);
                self.begin(key, plan);
            }
            self.tasks = tasks;
        }
    }

    /// Returns the range of a unit that reads and writes lock: only the part that they touch,
    /// unless they may change the unit's places.
    fn grain(&self, number: u64) -> Grain {
        let unit = self.unit(number);
        let Some(level) = unit.level.filter(|_| !self.is_fresh()) else { return Grain::Unit };
        let is_settled = |role: usize| {
            let place = unit.places[role];
            // The next write notes the loss of a role whose drive is gone; concurrent writes note
            // the same.
            let stays_lost = || place != Place::ZERO && self.forgoes(&unit, level, role);
            self.drives.lane(place).is_some() || stays_lost()
        };
        let chunk_bytes = self.geometry.chunk_bytes;
        match level.parities() {
            _ if !(0..level.roles(self.chunks())).all(is_settled) => Grain::Unit,
            0 => Grain::Bytes { chunk_bytes },
            _ => Grain::Rows { chunk_bytes },
        }
    }
}

impl Placement for Array {
    fn place(&mut self, client: u32, request: &Request, bytes: Bytes, plan: &mut Plan<'_>) {
        match self.phase {
            Phase::Ready => self.serve(client, request, bytes, plan),
            Phase::Failed(fault) => {
                plan.hold(client);
                plan.release(client, Err(fault));
            }
            Phase::Closed { .. } | Phase::Opening(_) => {
                plan.hold(client);
                self.early.push((client, *request, bytes));
                if let Phase::Closed { creates } = self.phase {
                    self.open(creates, plan);
                }
            }
        }
        self.proceed(plan);
    }

    fn done(&mut self, io: &Planned, outcome: Outcome, plan: &mut Plan<'_>) -> Outcome {
        if let Err(fault) = outcome {
            self.fault(io, fault, plan.now);
        }
        match io.token >> KIND {
            JOB => self.job_done(io, outcome, plan),
            FLUSH => self.flushed(io.lane.into(), outcome, plan),
            RECORD => self.recorded(io, outcome, plan),
            OPENING => self.opened(io, outcome, plan),
            // The array continues without a drive that has disappeared.
            _ if outcome == Err(Fault::Gone) => return Ok(()),
            _ => return outcome,
        }
        self.proceed(plan);
        Ok(())
    }

    fn wakeup(&self) -> Option<Nanos> {
        let full = self.full.due().filter(|_| !matches!(self.phase, Phase::Failed(_)));
        if !matches!(self.phase, Phase::Ready) {
            return full;
        }
        let log = self.log.due().filter(|_| self.is_fresh() && !self.reads_only);
        [log, self.care.due(), full].into_iter().flatten().min()
    }

    fn wake(&mut self, plan: &mut Plan<'_>) {
        if self.log.due().is_some_and(|due| due <= plan.now) {
            self.commit(plan);
        }
        if self.care.due().is_some_and(|due| due <= plan.now) {
            self.take_care(plan);
        }
        if self.full.due().is_some_and(|due| due <= plan.now) {
            self.retry_full(plan);
        }
        self.proceed(plan);
    }

    fn begin_stream(&mut self, stream: u32) {
        self.log.losses.forget(stream);
    }

    fn figures(&self) -> Vec<Figure> {
        let counts = &self.counts;
        // The regret is the excess of the rule's cost over the cost of an optimal rule that knows
        // all requests in advance.
        let regret = self.adapting.as_ref().map(Adapting::regret_percent);
        let mut figures = vec![
            ("full_writes", counts.full_writes as f64),
            ("reconstruct_writes", counts.reconstruct_writes as f64),
            ("modify_writes", counts.modify_writes as f64),
            ("degraded", counts.degraded as f64),
            ("commits", counts.commits as f64),
            ("stalls", counts.stalls as f64),
            ("switches", counts.switches as f64),
            ("repaired_roles", counts.repaired_roles as f64),
            ("moved_roles", counts.moved_roles as f64),
            ("rotten_blocks", counts.rotten_blocks as f64),
            ("mirrors_refused", counts.mirrors_refused as f64),
            ("drives_failed", counts.drives_failed as f64),
        ];
        figures.extend(regret.map(|percent| ("regret_percent", percent)));
        figures
    }

    fn gauges(&self) -> Vec<Gauge> {
        self.gauged()
    }

    fn volume(&self) -> Option<VolumeState> {
        Some(self.state())
    }

    fn order(&mut self, now: Nanos, order: &VolumeOrder) -> Result<(), String> {
        self.ordered(now, order)
    }

    fn take_events(&mut self) -> Vec<VolumeEvent> {
        self.events.take()
    }
}

/// Returns an I/O that does not belong to a client's request.
fn nobodys(lane: usize, op: Op, offset: u64, len: u32, bytes: Bytes, token: u64) -> Planned {
    let (owner, stream, flags) = (Owner::Background, BACKGROUND, Flags::NONE);
    Planned { owner, lane: lane as u16, op, offset, len, bytes, stream, flags, token }
}
