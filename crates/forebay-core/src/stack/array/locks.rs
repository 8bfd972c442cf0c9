//! Locks on units: reads run concurrently, changes run alone and in order.

use std::collections::{BTreeMap, VecDeque};

use super::kind::DriveKind;
use super::level::Level;
use crate::contract::bytes::Bytes;
use crate::contract::time::Nanos;

/// A client's bytes of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) client: u32,
    /// First byte within the unit.
    pub(super) from: u32,
    pub(super) len: u32,
    pub(super) bytes: Bytes,
    pub(super) stream: u32,
    /// When it came.
    pub(super) at: Nanos,
    /// Durable before it is answered.
    pub(super) durable: bool,
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
    /// The complete part is no longer needed.
    Trim(Part),
    /// To another level, or another kind of drives.
    Switch(Level, DriveKind),
    /// Restores lost data; reads everything if requested.
    Repair {
        reads_all: bool,
    },
    /// A role to a drive with more room.
    Move {
        role: usize,
        lane: usize,
    },
}

#[derive(Clone, Debug, Default)]
struct Lock {
    readers: u32,
    changing: bool,
    queue: VecDeque<Task>,
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

    /// Before whatever waits.
    pub(super) fn ask_first(&mut self, unit: u64, task: Task) {
        self.units.entry(unit).or_default().queue.push_front(task);
    }

    /// Returns whether the unit has neither current nor waiting tasks.
    pub(super) fn is_quiet(&self, unit: u64) -> bool {
        !self.units.contains_key(&unit)
    }

    /// Returns whether a read or a change of it has begun and not ended.
    pub(super) fn is_under_way(&self, unit: u64) -> bool {
        self.units.get(&unit).is_some_and(|lock| lock.readers > 0 || lock.changing)
    }

    /// What may begin now: a read, or changes, writes that follow each other together.
    pub(super) fn next(&mut self, unit: u64, tasks: &mut Vec<Task>) {
        tasks.clear();
        let Some(lock) = self.units.get_mut(&unit) else { return };
        let first = match lock.queue.front() {
            None if lock.readers == 0 && !lock.changing => {
                self.units.remove(&unit);
                return;
            }
            None => return,
            Some(_) if lock.changing => return,
            Some(first) => *first,
        };
        match first {
            Task::Read(_) => lock.readers += 1,
            _ if lock.readers > 0 => return,
            _ => lock.changing = true,
        }
        while let Some(task) = lock.queue.front() {
            let more = tasks.is_empty()
                || matches!((&first, task), (Task::Write(_), Task::Write(_)))
                    && tasks.len() < TOGETHER_MAX;
            if !more {
                return;
            }
            tasks.extend(lock.queue.pop_front());
        }
    }

    /// A read, or a change, has ended.
    pub(super) fn end(&mut self, unit: u64, read: bool) {
        if let Some(lock) = self.units.get_mut(&unit) {
            match read {
                true => lock.readers -= 1,
                false => lock.changing = false,
            }
        }
    }
}

/// The most writes that are done as one.
const TOGETHER_MAX: usize = 64;

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
        }
    }

    #[test]
    fn reads_go_together_changes_alone_and_writes_as_one() {
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
        let mut expect = |locks: &mut Locks, count: std::ops::Range<usize>| {
            locks.next(7, &mut next);
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
}
