//! Streams identified by address: a read that continues where another read ended belongs to the
//! same stream, regardless of process. Such a stream is called a *trail* here.
//!
//! A request that continues no trail belongs to the trail that its process used last. A process
//! with scattered reads therefore has a single trail, which the scheduler does not wait for long
//! (`near`).
//!
//! A trail's think time is the time from an answer to its next request, if that request had not
//! arrived before the answer; overlapping requests provide no think times. A new trail is assumed
//! to behave like the average of all, including those that were waited for in vain.
//!
//! Invariants: `queued` and `in_flight` count requests under the trail that [`Trails::arrive`]
//! returned; a trail with outstanding requests is never reused.

use super::thinking::{ALL, Pause, Thinking};
use crate::contract::Nanos;

/// A trail remembers about its last 2^`OF_ONE` think times. The average of all trails covers the
/// last 2^`OF_ALL`.
const OF_ONE: u32 = 3;
const OF_ALL: u32 = 8;

/// The maximum number of trails, unless more have outstanding requests.
const TRAILS_MAX: usize = 128;

/// A request continues a trail if it begins at most this many bytes after the trail's end.
const GAP_BYTES: u64 = 256 << 10;

/// A request at most this far from the end of its trail needs no significant seek.
const NEAR_BYTES: u64 = 2 << 20;

/// The index of a trail.
pub(super) type TrailId = u32;

/// A stream that is identified by address.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trail {
    /// The end of the last request, where the next one is expected to start.
    end: u64,
    /// The process that issued the last request.
    process: Option<u32>,
    /// The number of the trail's requests in the queue.
    pub(super) queued: u32,
    /// The number of the trail's requests at the device.
    pub(super) in_flight: u32,
    /// When the trail's last request completed.
    pub(super) answered: Nanos,
    thinking: Thinking,
    /// The share of requests after an answer that arrived near the end of the previous request, in
    /// units of 1 / [`ALL`].
    near: u64,
    /// When the trail was last used, as a count of uses.
    used: u64,
}

/// All remembered trails.
#[derive(Clone, Debug, Default)]
pub(super) struct Trails {
    trails: Vec<Trail>,
    /// The trail that each process used last.
    by_process: Vec<Option<TrailId>>,
    uses: u64,
    thinking: Thinking,
}

impl std::ops::Index<TrailId> for Trails {
    type Output = Trail;
    #[inline]
    fn index(&self, id: TrailId) -> &Trail {
        &self.trails[id as usize]
    }
}

impl std::ops::IndexMut<TrailId> for Trails {
    #[inline]
    fn index_mut(&mut self, id: TrailId) -> &mut Trail {
        &mut self.trails[id as usize]
    }
}

impl Trail {
    /// Returns how long to wait for the stream's next request. If the heads need not return for
    /// that request later, this saves `saving`.
    pub(super) fn pause(&self, saving: Nanos) -> Pause {
        self.thinking.pause(saving, self.near)
    }

    /// Returns the think time until `now`; `None` if the trail has outstanding requests or was
    /// never used.
    fn think(&self, now: Nanos) -> Option<Nanos> {
        let thinks = self.used > 0 && self.queued + self.in_flight == 0;
        thinks.then(|| now - self.answered)
    }

    /// Extends the trail to `end`.
    pub(super) fn reach(&mut self, end: u64) {
        self.end = self.end.max(end);
    }
}

impl Trails {
    /// Records that a request of `process` from `offset` to `end` enters the queue. Returns its
    /// trail.
    pub(super) fn arrive(&mut self, now: Nanos, process: u32, offset: u64, end: u64) -> TrailId {
        self.uses += 1;
        let by = process as usize;
        if by >= self.by_process.len() {
            self.by_process.resize(by + 1, None);
        }
        let continued = self.ending_at(offset);
        let own = self.by_process[by].filter(|&id| self[id].process == Some(process));
        let id = continued.or(own).unwrap_or_else(|| self.give());
        let used = self.uses;
        let trail = &mut self[id];
        let think = trail.think(now);
        if let Some(think) = think {
            let near = continued.is_some() || trail.end.abs_diff(offset) <= NEAR_BYTES;
            trail.thinking.add(think, OF_ONE);
            trail.near = share(trail.near, near);
        }
        (trail.end, trail.process, trail.used) = (end, Some(process), used);
        trail.queued += 1;
        if let Some(think) = think {
            self.thinking.add(think, OF_ALL);
        }
        self.by_process[by] = Some(id);
        id
    }

    /// Forgets which trail `process` used: its number is assigned to another process.
    pub(super) fn begin_process(&mut self, process: u32) {
        if let Some(trail) = self.by_process.get_mut(process as usize) {
            *trail = None;
        }
    }

    /// Records that a trail was waited for in vain. This also lowers the expectations of new
    /// trails.
    pub(super) fn missed(&mut self, id: TrailId) {
        self[id].thinking.add(Nanos(u64::MAX), OF_ONE);
        self.thinking.add(Nanos(u64::MAX), OF_ALL);
    }

    /// Returns the trail that a request at `offset` continues: the trail with the nearest end at or
    /// before it.
    fn ending_at(&self, offset: u64) -> Option<TrailId> {
        let gap = |trail: &Trail| offset.checked_sub(trail.end).filter(|&gap| gap <= GAP_BYTES);
        let gaps = self.trails.iter().enumerate().filter_map(|(id, t)| Some((gap(t)?, id)));
        gaps.min().map(|(_, id)| id as TrailId)
    }

    /// Creates a trail. If there are enough trails, it replaces the least recently used one without
    /// requests.
    fn give(&mut self) -> TrailId {
        let fresh = Trail { thinking: self.thinking, near: ALL, ..Trail::default() };
        if self.trails.len() >= TRAILS_MAX {
            let idle = self.trails.iter_mut().enumerate();
            let idle = idle.filter(|(_, trail)| trail.queued + trail.in_flight == 0);
            if let Some((id, trail)) = idle.min_by_key(|(_, trail)| trail.used) {
                *trail = fresh;
                return id as TrailId;
            }
        }
        self.trails.push(fresh);
        self.trails.len() as TrailId - 1
    }
}

fn share(share: u64, hit: bool) -> u64 {
    (7 * share + if hit { ALL } else { 0 }) / 8
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn read(trails: &mut Trails, at_ms: u64, process: u32, offset: u64) -> TrailId {
        let id = trails.arrive(Nanos::from_millis(at_ms), process, offset, offset + MIB);
        trails[id].queued -= 1;
        trails[id].answered = Nanos::from_millis(at_ms);
        id
    }

    #[test]
    fn two_processes_that_read_one_file_by_turns_are_one_trail() {
        let mut trails = Trails::default();
        let ids: Vec<_> = (0..6).map(|i| read(&mut trails, i, (i % 2) as u32, i * MIB)).collect();
        assert_eq!(ids, [0; 6]);
        assert_eq!(read(&mut trails, 7, 2, 6 * MIB + GAP_BYTES), 0, "over a gap");
        assert_ne!(read(&mut trails, 8, 3, 9 * MIB), 0, "over more than that");
    }

    #[test]
    fn waits_for_a_trail_follow_its_think_times() {
        let mut trails = Trails::default();
        let id = read(&mut trails, 0, 0, 0);
        let saving = Nanos::from_millis(8);
        assert_eq!(trails[id].pause(saving).until, Nanos::from_millis(1), "as all are taken to");
        for i in 1..30 {
            read(&mut trails, 3 * i, 0, i * MIB);
        }
        assert_eq!(trails[id].pause(saving).until, Nanos::from_millis(4));
        assert_eq!(trails[id].pause(Nanos::from_millis(2)).until, Nanos::ZERO);
        (0..9).for_each(|_| trails.missed(id));
        assert_eq!(trails[id].pause(saving).until, Nanos::ZERO);
        // A new trail is assumed to think like the average of all trails.
        let other = read(&mut trails, 100, 7, 5000 * MIB);
        assert_eq!(
            trails[other].pause(saving).until,
            Nanos::from_millis(1),
            "few have thought yet"
        );
        for i in 30..1000 {
            read(&mut trails, 3 * i, 0, i * MIB);
        }
        let other = read(&mut trails, 4000, 8, 9000 * MIB);
        assert_eq!(trails[other].pause(saving).until, Nanos::from_millis(4));
    }

    #[test]
    fn failed_waits_are_a_warning_to_new_trails() {
        let mut trails = Trails::default();
        let id = read(&mut trails, 0, 0, 0);
        let saving = Nanos::from_millis(8);
        assert!(trails[id].pause(saving).until > Nanos::ZERO);
        (0..1000).for_each(|_| trails.missed(id));
        let other = read(&mut trails, 1, 7, 5000 * MIB);
        assert_eq!(trails[other].pause(saving).until, Nanos::ZERO);
    }

    #[test]
    fn requests_before_the_answer_are_no_think_times() {
        let mut trails = Trails::default();
        let id = trails.arrive(Nanos::ZERO, 0, 0, MIB);
        let before = trails[id].pause(Nanos::from_millis(8));
        for i in 1..50 {
            assert_eq!(trails.arrive(Nanos::from_millis(i), 0, i * MIB, (i + 1) * MIB), id);
        }
        assert_eq!(trails[id].pause(Nanos::from_millis(8)), before);
    }

    #[test]
    fn a_process_that_reads_everywhere_is_not_waited_for() {
        let mut trails = Trails::default();
        let mut id = 0;
        for i in 0..20 {
            id = read(&mut trails, i, 0, i * 1000 * MIB);
        }
        assert_eq!(id, 0);
        assert_eq!(trails[id].pause(Nanos::from_millis(5)).until, Nanos::ZERO);
    }

    #[test]
    fn the_trail_unused_longest_is_given_away_but_none_with_requests() {
        let mut trails = Trails::default();
        for i in 0..TRAILS_MAX as u64 {
            read(&mut trails, i, i as u32, i * 1000 * MIB);
        }
        trails[0].in_flight = 1;
        assert_eq!(read(&mut trails, 500, 900, 1 << 50), 1);
        assert_eq!(read(&mut trails, 501, 1, 1 << 51), 2, "process 1 has lost its trail");
        trails.trails.iter_mut().for_each(|trail| trail.in_flight = 1);
        assert_eq!(read(&mut trails, 502, 901, 1 << 52), TRAILS_MAX as u32);
    }
}
