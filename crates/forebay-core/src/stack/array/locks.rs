//! Locks on units: reads run concurrently; changes run alone, in the order of their arrival.
//!
//! In an array that writes in place, clients' reads and writes lock only the rows of a unit that
//! they touch ([`Grain`]), as in Linux md. So small writes to different rows run concurrently.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use super::{BLOCK, DriveKind, Level};
use crate::contract::{Bytes, Nanos};

/// The part of a client's request that lies in one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) client: u32,
    /// The first byte within the unit.
    pub(super) from: u32,
    pub(super) len: u32,
    pub(super) bytes: Bytes,
    pub(super) stream: u32,
    /// When the request arrived.
    pub(super) at: Nanos,
    /// Whether the write must be durable before it is answered.
    pub(super) durable: bool,
    /// Whether a promise depends on the request.
    pub(super) promised: bool,
}

impl Part {
    pub(super) fn end(&self) -> u32 {
        self.from + self.len
    }
}

/// A task for a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    Read(Part),
    Write(Part),
    /// The complete unit is no longer needed.
    Trim(Part),
    /// Switches to another level, or to another kind of drives.
    Switch(Level, DriveKind),
    /// Restores lost data. With `reads_all`, reads everything.
    Repair {
        reads_all: bool,
    },
    /// Moves a role to a drive with more space.
    Move {
        role: usize,
        lane: usize,
    },
}

/// The granularity of locks for clients' tasks. All other tasks lock the entire unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grain {
    /// The entire unit, because its table entry may change.
    Unit,
    /// Rows: the same bytes of all chunks, which share their parities.
    Rows { chunk_bytes: u32 },
    /// The touched bytes, because no chunk depends on another.
    Bytes { chunk_bytes: u32 },
}

/// The range of rows or bytes that a task locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Claim {
    from: u32,
    to: u32,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Runs concurrently with other reads.
    Read,
    /// May run together with other writes, as one job.
    Write,
    Other,
}

impl Claim {
    fn of(task: &Task, grain: Grain) -> Claim {
        let (part, kind) = match task {
            Task::Read(part) => (Some(part), Kind::Read),
            Task::Write(part) => (Some(part), Kind::Write),
            _ => (None, Kind::Other),
        };
        let range = part.and_then(|part| grain.range(part)).unwrap_or(0..u32::MAX);
        Claim { from: range.start, to: range.end, kind }
    }

    fn conflicts(&self, other: &Claim) -> bool {
        let overlaps = self.from < other.to && other.from < self.to;
        overlaps && (self.kind, other.kind) != (Kind::Read, Kind::Read)
    }

    /// Returns whether no other task can run concurrently.
    fn excludes_all(&self) -> bool {
        self.to == u32::MAX && self.kind != Kind::Read
    }

    /// Returns whether the task can join a job: both are writes without a gap between them.
    fn joins(&self, job: &Claim) -> bool {
        let adjoins = self.from <= job.to && job.from <= self.to;
        adjoins && (self.kind, job.kind) == (Kind::Write, Kind::Write)
    }
}

impl Grain {
    /// Returns what a part locks, in whole blocks, or `None` for the entire unit. A job reads and
    /// writes the same bytes of all chunks that it touches.
    fn range(self, part: &Part) -> Option<Range<u32>> {
        let (Grain::Rows { chunk_bytes } | Grain::Bytes { chunk_bytes }) = self else {
            return None;
        };
        let chunk = part.from / chunk_bytes;
        let first = chunk * chunk_bytes;
        if part.end() > first + chunk_bytes {
            return None;
        }
        let base = match self {
            // Leave a block out between chunks, so that no job combines parts of two chunks.
            Grain::Bytes { .. } => chunk * (chunk_bytes / BLOCK + 1),
            _ => 0,
        };
        let (from, to) = ((part.from - first) / BLOCK, (part.end() - first).div_ceil(BLOCK));
        Some(base + from..base + to)
    }
}

#[derive(Clone, Debug, Default)]
struct Lock {
    readers: u32,
    changes: u32,
    /// The running jobs, and possibly jobs that have ended since the last task began.
    jobs: Vec<(u32, Claim)>,
    /// The lock of the job that begins.
    beginning: Option<Claim>,
    queue: VecDeque<Task>,
}

impl Lock {
    /// Removes from the queue the first task that conflicts with no running job and no task before
    /// it, and the writes that can join it.
    fn take(&mut self, grain: Grain, tasks: &mut Vec<Task>) {
        let mut before: Vec<Claim> = self.jobs.iter().map(|(_, claim)| *claim).collect();
        let mut at = 0;
        while let Some(task) = self.queue.get(at).copied()
            && at < PASSED_MAX
            && tasks.len() < TOGETHER_MAX
            && !before.iter().any(Claim::excludes_all)
        {
            let claim = Claim::of(&task, grain);
            let joins = self.beginning.is_none_or(|first| claim.joins(&first));
            if !joins || before.iter().any(|other| claim.conflicts(other)) {
                before.push(claim);
                at += 1;
                continue;
            }
            tasks.extend(self.queue.remove(at));
            let begun = self.beginning.get_or_insert(claim);
            (begun.from, begun.to) = (begun.from.min(claim.from), begun.to.max(claim.to));
            if begun.kind != Kind::Write {
                return;
            }
        }
    }
}

/// The units with tasks.
#[derive(Clone, Debug, Default)]
pub(super) struct Locks {
    units: BTreeMap<u64, Lock>,
}

impl Locks {
    pub(super) fn ask(&mut self, unit: u64, task: Task) {
        self.units.entry(unit).or_default().queue.push_back(task);
    }

    /// Adds a task at the head of the queue.
    pub(super) fn ask_first(&mut self, unit: u64, task: Task) {
        self.units.entry(unit).or_default().queue.push_front(task);
    }

    /// Returns whether a unit has neither running nor waiting tasks.
    pub(super) fn is_quiet(&self, unit: u64) -> bool {
        !self.units.contains_key(&unit)
    }

    /// Returns whether a read or a change of a unit is running.
    pub(super) fn is_under_way(&self, unit: u64) -> bool {
        self.units.get(&unit).is_some_and(|lock| lock.readers > 0 || lock.changes > 0)
    }

    /// Returns the tasks that may begin now, as one job: a read, a change, or several writes.
    /// `runs` tells whether a job of the unit is still running.
    pub(super) fn next(
        &mut self,
        unit: u64,
        grain: Grain,
        runs: impl Fn(u32) -> bool,
        tasks: &mut Vec<Task>,
    ) {
        tasks.clear();
        let Some(lock) = self.units.get_mut(&unit) else { return };
        lock.jobs.retain(|(key, _)| runs(*key));
        lock.take(grain, tasks);
        match tasks.first() {
            Some(Task::Read(_)) => lock.readers += 1,
            Some(_) => lock.changes += 1,
            None if lock.readers + lock.changes == 0 => {
                self.units.remove(&unit);
            }
            None => {}
        }
    }

    /// Assigns the tasks returned by [`Locks::next`] to a job.
    pub(super) fn begin(&mut self, unit: u64, key: u32) {
        if let Some(lock) = self.units.get_mut(&unit)
            && let Some(claim) = lock.beginning.take()
        {
            lock.jobs.push((key, claim));
        }
    }

    /// Records that a read or a change has ended.
    pub(super) fn end(&mut self, unit: u64, read: bool) {
        if let Some(lock) = self.units.get_mut(&unit) {
            *if read { &mut lock.readers } else { &mut lock.changes } -= 1;
        }
    }
}

/// Maximum number of writes that run as one job.
const TOGETHER_MAX: usize = 64;
/// Maximum number of waiting tasks that a later task may pass.
const PASSED_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    fn part(client: u32) -> Part {
        Part {
            client,
            from: 0,
            len: 1,
            bytes: Bytes::NONE,
            stream: 0,
            at: Nanos::ZERO,
            durable: false,
            promised: false,
        }
    }

    #[test]
    fn reads_run_together_changes_alone_and_writes_as_one_job() {
        let (mut locks, mut next) = (Locks::default(), Vec::new());
        let tasks = [
            Task::Read(part(0)),
            Task::Read(part(1)),
            Task::Write(part(2)),
            Task::Write(part(3)),
            Task::Repair { reads_all: false },
            Task::Write(part(4)),
            Task::Read(part(5)),
        ];
        tasks.into_iter().for_each(|task| locks.ask(7, task));
        let mut expect = |locks: &mut Locks, count: Range<usize>| {
            let is_running = locks.is_under_way(7);
            locks.next(7, Grain::Unit, |_| is_running, &mut next);
            locks.begin(7, 0);
            assert_eq!(next, &tasks[count]);
        };
        expect(&mut locks, 0..1);
        expect(&mut locks, 1..2);
        expect(&mut locks, 0..0);
        locks.end(7, true);
        expect(&mut locks, 0..0);
        locks.end(7, true);
        expect(&mut locks, 2..4);
        expect(&mut locks, 0..0);
        for range in [4..5, 5..6, 6..7] {
            locks.end(7, false);
            expect(&mut locks, range);
        }
        assert!(!locks.is_quiet(7));
        locks.end(7, true);
        expect(&mut locks, 0..0);
        assert!(locks.is_quiet(7));
    }

    /// Locks of one unit, with the tasks of the running jobs by key.
    #[derive(Default)]
    struct Scene {
        locks: Locks,
        running: BTreeMap<u32, Vec<Task>>,
        begun: u32,
    }

    const CHUNK: u32 = 8 * BLOCK;
    const ROWS: Grain = Grain::Rows { chunk_bytes: CHUNK };

    impl Scene {
        fn ask(&mut self, task: fn(Part) -> Task, from: u32, blocks: u32) {
            let (from, len) = (from * BLOCK, blocks * BLOCK);
            self.locks.ask(7, task(Part { from, len, ..part(0) }));
        }

        /// Begins all jobs that can begin. Returns the first block of each part, by job.
        fn begin(&mut self, grain: Grain) -> Vec<Vec<u32>> {
            let mut begun = Vec::new();
            loop {
                let mut tasks = Vec::new();
                self.locks.next(7, grain, |key| self.running.contains_key(&key), &mut tasks);
                if tasks.is_empty() {
                    return begun;
                }
                self.locks.begin(7, self.begun);
                let first = |task: &Task| match task {
                    Task::Read(part) | Task::Write(part) => part.from / BLOCK,
                    _ => u32::MAX,
                };
                begun.push(tasks.iter().map(first).collect());
                self.running.insert(self.begun, tasks);
                self.begun += 1;
            }
        }

        fn end(&mut self, key: u32) {
            let tasks = self.running.remove(&key).expect("a job that runs");
            self.locks.end(7, matches!(tasks[0], Task::Read(_)));
        }
    }

    #[test]
    fn writes_to_different_rows_run_concurrently() {
        let mut scene = Scene::default();
        for (from, blocks) in [(0, 1), (9, 2), (13, 1), (21, 1)] {
            scene.ask(Task::Write, from, blocks);
        }
        // Blocks 13 and 21 are the same row of two chunks, and rows 0 and 1 adjoin: one job each.
        assert_eq!(scene.begin(ROWS), [vec![0, 9], vec![13, 21]]);
        scene.ask(Task::Read, 3, 1);
        scene.ask(Task::Read, 10, 1);
        scene.ask(Task::Write, 5, 1);
        assert_eq!(scene.begin(ROWS), [[3]], "rows 2 and 5 are being written");
        scene.end(0);
        assert_eq!(scene.begin(ROWS), [[10]]);
        scene.end(1);
        assert_eq!(scene.begin(ROWS), [[5]]);
    }

    #[test]
    fn chunks_without_parities_are_locked_separately() {
        let mut scene = Scene::default();
        for from in [0, 8, 0, 7] {
            scene.ask(Task::Write, from, 1);
        }
        let bytes = Grain::Bytes { chunk_bytes: CHUNK };
        // Blocks 7 and 8 adjoin, but are in two chunks.
        assert_eq!(scene.begin(bytes), [vec![0, 0], vec![8], vec![7]]);
    }

    #[test]
    fn a_change_of_the_unit_waits_for_all_and_nothing_passes_it() {
        let mut scene = Scene::default();
        scene.ask(Task::Write, 0, 1);
        scene.ask(Task::Write, 3, 1);
        scene.locks.ask(7, Task::Repair { reads_all: true });
        scene.ask(Task::Write, 5, 1);
        assert_eq!(scene.begin(ROWS), [[0], [3]]);
        scene.end(1);
        assert!(scene.begin(ROWS).is_empty());
        scene.end(0);
        assert_eq!(scene.begin(ROWS), [[u32::MAX]]);
        scene.end(2);
        assert_eq!(scene.begin(ROWS), [[5]]);
        // A part that spans two chunks locks all rows.
        scene.ask(Task::Write, 7, 2);
        assert!(scene.begin(ROWS).is_empty());
        // Meanwhile, a role may need a new place, so the whole unit is locked.
        scene.end(3);
        scene.ask(Task::Write, 1, 1);
        assert_eq!(scene.begin(Grain::Unit), [[7, 1]]);
    }

    #[test]
    fn a_waiting_task_is_not_passed_by_a_conflicting_one() {
        let mut scene = Scene::default();
        scene.ask(Task::Read, 0, 2);
        assert_eq!(scene.begin(ROWS), [[0]]);
        scene.ask(Task::Write, 1, 2);
        scene.ask(Task::Read, 2, 1);
        scene.ask(Task::Read, 4, 1);
        assert_eq!(scene.begin(ROWS), [[4]]);
        scene.end(0);
        assert_eq!(scene.begin(ROWS), [[1]]);
    }
}
