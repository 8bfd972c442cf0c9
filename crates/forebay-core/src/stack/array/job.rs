//! An operation on a unit: first reads roles, then writes roles.

use super::{DriveKind, Level, Method, Part, ROLES_MAX, Roles, Salvage, Sums, Task, Unit};
use crate::contract::{Buf, Bytes, Flags};

/// The purpose of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    Read,
    Write,
    Trim,
    Switch(Level, DriveKind),
    Repair {
        reads_all: bool,
    },
    /// Moves a role to a drive with more space.
    Move {
        role: usize,
        lane: usize,
    },
}

/// A job.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) doing: Doing,
    pub(super) number: u64,
    pub(super) parts: Vec<Part>,
    /// The unit before the job.
    pub(super) old: Unit,
    /// The unit after the job.
    pub(super) new: Unit,
    /// The level of the unit before the job, or the level for its first write.
    pub(super) level: Level,
    /// The first byte, in each chunk, that the job reads or writes.
    pub(super) lo: u32,
    /// The end of these bytes.
    pub(super) hi: u32,
    /// Data chunks that parts touch.
    pub(super) touched: Roles,
    /// Data chunks that parts fill from `lo` to `hi`.
    pub(super) covered: Roles,
    pub(super) method: Method,
    /// Roles that were read.
    pub(super) read: Roles,
    /// Roles that could not be read.
    pub(super) bad: Roles,
    /// Known checksums of roles to read. Roles with known checksums can be read without their
    /// trailers.
    pub(super) sums: Vec<(usize, Sums)>,
    /// The buffer of each role: for the data read, or to be written.
    pub(super) bufs: [Buf; ROLES_MAX],
    /// Buffers for the parities if they belong to another level than the data read.
    pub(super) parities: [Buf; 2],
    /// The data written to each role.
    pub(super) contents: [Bytes; ROLES_MAX],
    /// Roles to write.
    pub(super) writes: Roles,
    /// Roles whose write failed.
    pub(super) failed: Roles,
    pub(super) tries: u8,
    /// The number of times that the job found no space.
    pub(super) waits: u32,
    /// The number of outstanding I/Os.
    pub(super) left: u32,
    pub(super) writing: bool,
    /// Roles whose writes were issued, in this or an earlier attempt.
    pub(super) given: Roles,
    /// By role: the number of failed flushes when its write was issued.
    pub(super) lapses: [u32; ROLES_MAX],
    /// The content of each block, if complete chunks are not enough.
    pub(super) salvage: Option<Box<Salvage>>,
    /// Whether a write failed because its drive had no space.
    pub(super) lacks_room: bool,
}

impl Job {
    pub(super) fn new(number: u64, old: Unit, level: Level) -> Job {
        Job {
            doing: Doing::Read,
            number,
            parts: Vec::new(),
            old,
            new: old,
            level,
            lo: 0,
            hi: 0,
            touched: 0,
            covered: 0,
            method: Method::Reconstruct,
            read: 0,
            bad: 0,
            sums: Vec::new(),
            bufs: [0; ROLES_MAX],
            parities: [0; 2],
            contents: [Bytes::NONE; ROLES_MAX],
            writes: 0,
            failed: 0,
            tries: 0,
            waits: 0,
            left: 0,
            writing: false,
            given: 0,
            lapses: [0; ROLES_MAX],
            salvage: None,
            lacks_room: false,
        }
    }

    /// Adds tasks to the job.
    pub(super) fn ask(&mut self, tasks: &[Task]) {
        for task in tasks {
            let (doing, part) = match *task {
                Task::Read(part) => (Doing::Read, Some(part)),
                Task::Write(part) => (Doing::Write, Some(part)),
                Task::Trim(part) => (Doing::Trim, Some(part)),
                Task::Switch(level, kind) => (Doing::Switch(level, kind), None),
                Task::Repair { reads_all } => (Doing::Repair { reads_all }, None),
                Task::Move { role, lane } => (Doing::Move { role, lane }, None),
            };
            self.doing = doing;
            self.parts.extend(part);
        }
    }

    pub(super) fn stream(&self) -> u32 {
        self.parts.first().map_or(crate::contract::request::BACKGROUND, |part| part.stream)
    }

    /// Returns the flags of the job's I/Os, apart from durability.
    pub(super) fn flags(&self) -> Flags {
        let is_promised = self.parts.iter().any(|part| part.promised);
        if is_promised { Flags::PROMISED } else { Flags::NONE }
    }

    /// Computes which chunks the parts touch, and which bytes of these chunks, in multiples of
    /// `grain`, or complete chunks if `whole`.
    pub(super) fn span(&mut self, chunk: u32, grain: u32, whole: bool) {
        let (mut lo, mut hi) = (chunk, 0);
        self.touched = 0;
        for part in &self.parts {
            for number in part.from / chunk..part.end().div_ceil(chunk) {
                self.touched |= 1 << number;
                let (from, to) = within(part, number, chunk);
                (lo, hi) = (lo.min(from / grain * grain), hi.max(to.next_multiple_of(grain)));
            }
        }
        (self.lo, self.hi) = if whole { (0, chunk) } else { (lo, hi.min(chunk)) };
        self.covered = 0;
        for number in 0..ROLES_MAX as u32 {
            if self.touched >> number & 1 == 1 && self.covers(number, chunk) {
                self.covered |= 1 << number;
            }
        }
    }

    /// Returns whether the parts together fill a chunk from `lo` to `hi`.
    fn covers(&self, number: u32, chunk: u32) -> bool {
        self.fills(number, chunk, self.lo, self.hi)
    }

    /// Returns whether the parts together fill a chunk from byte `from` to byte `to`.
    pub(super) fn fills(&self, number: u32, chunk: u32, from: u32, to: u32) -> bool {
        let mut end = from;
        // There are few parts, so a repeated search for the one that extends furthest is fast
        // enough.
        loop {
            let touching = self.parts.iter().filter_map(|part| touched(part, number, chunk));
            let next = touching.filter(|(from, _)| *from <= end).map(|(_, to)| to).max();
            match next {
                _ if end >= to => return true,
                Some(further) if further > end => end = further,
                _ => return false,
            }
        }
    }

    /// Returns the bytes of the part that fills a chunk from `lo` to `hi` by itself, if no later
    /// part touches the chunk.
    pub(super) fn sole(&self, number: u32, chunk: u32) -> Option<Bytes> {
        let mut touching = self.parts.iter().rev();
        let last = touching.find(|part| touched(part, number, chunk).is_some())?;
        let (from, to) = within(last, number, chunk);
        let skipped = (number * chunk + self.lo).checked_sub(last.from)?;
        (from <= self.lo && to >= self.hi).then(|| last.bytes.on(skipped))
    }
}

/// Returns the range of a chunk that a part touches, counted from the chunk's first byte.
pub(super) fn within(part: &Part, number: u32, chunk: u32) -> (u32, u32) {
    let first = number * chunk;
    (part.from.max(first) - first, part.end().min(first + chunk).max(first) - first)
}

/// Returns the range of a chunk that a part touches, or `None` if there is none.
pub(super) fn touched(part: &Part, number: u32, chunk: u32) -> Option<(u32, u32)> {
    let touches = part.from < (number + 1) * chunk && part.end() > number * chunk;
    touches.then(|| within(part, number, chunk))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(parts: &[(u32, u32)]) -> Job {
        let mut job = Job::new(0, Unit::EMPTY, Level::RAID6);
        job.parts = parts
            .iter()
            .zip(1..)
            .map(|(&(from, len), client)| Part {
                client,
                from,
                len,
                bytes: Bytes { buf: client, at: 1000 },
                stream: 0,
                at: crate::contract::time::Nanos::ZERO,
                durable: false,
                promised: false,
            })
            .collect();
        job
    }

    #[test]
    fn parts_touch_and_cover_chunks() {
        let mut one = job(&[(10, 20)]);
        one.span(64, 1, false);
        assert_eq!((one.lo, one.hi, one.touched, one.covered), (10, 30, 1, 1));
        one.span(64, 8, false);
        assert_eq!((one.lo, one.hi, one.covered), (8, 32, 0), "not the whole grains");
        one.span(64, 1, true);
        assert_eq!((one.lo, one.hi, one.covered), (0, 64, 0));
        let mut across = job(&[(60, 70)]);
        across.span(64, 1, false);
        assert_eq!((across.lo, across.hi, across.touched), (0, 64, 0b111));
        assert_eq!(across.covered, 0b010);
        let mut together = job(&[(40, 24), (0, 30), (20, 30)]);
        together.span(64, 1, true);
        assert_eq!(together.covered, 1);
        assert_eq!(together.sole(0, 64), None);
    }

    #[test]
    fn the_last_part_alone_may_fill_a_chunk() {
        let mut job = job(&[(0, 10), (32, 192)]);
        job.span(64, 1, true);
        assert_eq!(job.sole(0, 64), None);
        assert_eq!(job.sole(1, 64), Some(Bytes { buf: 2, at: 1032 }));
        assert_eq!(job.sole(2, 64), Some(Bytes { buf: 2, at: 1096 }));
        assert_eq!(job.sole(3, 64), None);
        job.parts.push(Part { from: 70, len: 1, client: 9, ..job.parts[0] });
        assert_eq!(job.sole(1, 64), None, "a later one touches it");
    }
}
