//! Decides which data is hot and which is cold by how often it was used recently, and plans moves.
//!
//! The uses of each extent of the disks are counted; every period the counts are halved. Extents
//! that are hotter than a threshold then move to the flash, hottest first. If space is short, the
//! coldest extents on the flash move back, if they are less than half as hot. A move reads from one
//! device and writes to the other, and only then changes the location of the data. If a client
//! writes to the extent meanwhile, the move is void.
//!
//! Source: the **bid** paper, section "Multi-tier storage" (access frequency, as in ADLAM and HRO),
//! and its future work.

use std::cmp::Reverse;

use crate::contract::{Buf, Lane, Nanos};
use crate::index::{Index, spread};

/// When to move data, and how much.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MigrateConfig {
    /// The size of an extent in bytes; a multiple of the block size of the location table.
    pub(crate) extent_bytes: u32,
    /// The time between evaluations of the counts.
    pub(crate) period: Nanos,
    /// The number of uses, in about a period, from which an extent is hot.
    pub(crate) hot: u32,
    /// The maximum number of extents moved in each direction per period.
    pub(crate) moves_max: u32,
}

/// The maximum number of concurrent moves.
const AT_A_TIME: usize = 4;
/// The share of the flash to keep free for new writes: 1 / `SPARE_SHARE`.
const SPARE_SHARE: u64 = 20;

/// A planned or current move of an extent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Move {
    pub(super) disk: Lane,
    pub(super) offset: u64,
    pub(super) len: u32,
    /// Whether the extent moves to the flash; otherwise it moves back.
    pub(super) up: bool,
    /// Whether the second half of the move, the writing, has begun.
    pub(super) writing: bool,
    /// Whether the move is void, because a client wrote to the extent or an I/O failed.
    pub(super) void: bool,
    /// The number of outstanding I/Os of the current half.
    pub(super) left: u32,
    /// The data being moved.
    pub(super) buf: Buf,
}

#[derive(Clone, Copy, Debug)]
struct Extent {
    disk: Lane,
    number: u64,
    heat: u32,
    on_flash: bool,
}

/// The use counts of extents, and the moves.
#[derive(Clone, Debug)]
pub(super) struct Migration {
    config: MigrateConfig,
    index: Index,
    extents: Vec<Extent>,
    next: Nanos,
    /// The extents to move, last first, and whether to move them to the flash.
    plan: Vec<(u32, bool)>,
    /// The candidates for either direction, with their heat.
    candidates: [Vec<(u32, u32)>; 2],
    pub(super) moves: Vec<Move>,
    /// The number of completed moves (to the flash, and back), and the number of void moves.
    pub(super) done: [u64; 2],
    pub(super) void: u64,
    pub(super) moved_bytes: u64,
}

impl Migration {
    pub(super) fn new(config: MigrateConfig) -> Migration {
        Migration {
            config,
            index: Index::new(),
            extents: Vec::new(),
            next: config.period,
            plan: Vec::new(),
            candidates: Default::default(),
            moves: Vec::with_capacity(AT_A_TIME),
            done: [0; 2],
            void: 0,
            moved_bytes: 0,
        }
    }

    fn extent(&mut self, disk: Lane, number: u64) -> u32 {
        let hash = spread(number ^ u64::from(disk) << 48);
        let known = self.index.find(hash, |id| {
            let extent = &self.extents[id as usize];
            extent.disk == disk && extent.number == number
        });
        known.unwrap_or_else(|| {
            let id = self.extents.len() as u32;
            self.extents.push(Extent { disk, number, heat: 0, on_flash: false });
            self.index.insert(hash, id);
            id
        })
    }

    /// Counts a client's use of a range. A change of data cancels moves of the range.
    pub(super) fn note(&mut self, disk: Lane, offset: u64, len: u32, changes: bool) {
        let extent = u64::from(self.config.extent_bytes);
        let end = offset.saturating_add(u64::from(len.max(1)));
        for number in offset / extent..end.div_ceil(extent) {
            let id = self.extent(disk, number);
            let heat = &mut self.extents[id as usize].heat;
            *heat = heat.saturating_add(1);
        }
        if changes {
            for other in self.moves.iter_mut().filter(|it| overlaps(it, disk, offset, len)) {
                other.void = true;
            }
        }
    }

    /// Records that data of a range was placed on the flash.
    pub(super) fn placed(&mut self, disk: Lane, offset: u64, len: u32) {
        let extent = u64::from(self.config.extent_bytes);
        let end = offset.saturating_add(u64::from(len.max(1)));
        for number in offset / extent..end.div_ceil(extent) {
            let id = self.extent(disk, number);
            self.extents[id as usize].on_flash = true;
        }
    }

    /// Returns whether a range is being moved.
    pub(super) fn is_moving(&self, disk: Lane, offset: u64, len: u32) -> bool {
        self.moves.iter().any(|other| overlaps(other, disk, offset, len))
    }

    /// Evaluates the counts if that is due. Returns the next move if there is one and it may begin.
    pub(super) fn next(&mut self, now: Nanos, free_bytes: u64, flash_bytes: u64) -> Option<Move> {
        if now >= self.next {
            self.next = now + self.config.period;
            self.make_plan(free_bytes, flash_bytes);
        }
        if self.moves.len() >= AT_A_TIME {
            return None;
        }
        let (id, up) = self.plan.pop()?;
        let Extent { disk, number, .. } = self.extents[id as usize];
        let len = self.config.extent_bytes;
        let offset = number * u64::from(len);
        let other = Move { disk, offset, len, up, writing: false, void: false, left: 0, buf: 0 };
        // When the extent moves, the location table determines which parts are on the flash.
        self.extents[id as usize].on_flash = up;
        Some(other)
    }

    fn make_plan(&mut self, free_bytes: u64, flash_bytes: u64) {
        self.plan.clear();
        let hot = self.config.hot;
        let most = self.config.moves_max as usize;
        let [mut up, mut down] = std::mem::take(&mut self.candidates);
        up.clear();
        down.clear();
        for (id, extent) in self.extents.iter_mut().enumerate() {
            match extent.on_flash {
                false if extent.heat >= hot => up.push((extent.heat, id as u32)),
                true => down.push((extent.heat, id as u32)),
                false => {}
            }
        }
        keep_first(&mut up, most, |&(heat, id)| (Reverse(heat), id));
        let spare = flash_bytes / SPARE_SHARE;
        let extent = u64::from(self.config.extent_bytes);
        let room = free_bytes.saturating_sub(spare) / extent;
        let wanted = (up.len() as u64).saturating_sub(room)
            + spare.saturating_sub(free_bytes).div_ceil(extent);
        let coldest_up = up.last().map_or(hot, |&(heat, _)| heat);
        down.retain(|&(heat, _)| heat < coldest_up.div_ceil(2).max(1));
        keep_first(&mut down, (wanted as usize).min(most), |&candidate| candidate);
        let gained = room + down.len() as u64;
        up.truncate(gained.min(most as u64) as usize);
        // The plan is used from its end: first the extents whose move frees space, then the hottest
        // extents.
        self.plan.extend(up.iter().rev().map(|&(_, id)| (id, true)));
        self.plan.extend(down.iter().rev().map(|&(_, id)| (id, false)));
        self.extents.iter_mut().for_each(|extent| extent.heat /= 2);
        self.candidates = [up, down];
    }

    /// Returns the index of the move that an I/O on this location belongs to.
    pub(super) fn moving(&mut self, disk: Lane, offset: u64) -> Option<usize> {
        self.moves.iter().position(|other| overlaps(other, disk, offset, 1))
    }

    /// Ends a move.
    pub(super) fn finish(&mut self, at: usize) {
        let ended = self.moves.swap_remove(at);
        if ended.void {
            self.void += 1;
            // Parts of the extent may still be on the flash.
            self.placed(ended.disk, ended.offset, ended.len);
        } else {
            self.done[usize::from(!ended.up)] += 1;
        }
    }
}

/// Keeps only the first `count` elements in the given order, and sorts them.
fn keep_first<T, K: Ord>(all: &mut Vec<T>, count: usize, order: impl Fn(&T) -> K + Copy) {
    if count < all.len() {
        all.select_nth_unstable_by_key(count, order);
        all.truncate(count);
    }
    all.sort_unstable_by_key(order);
}

fn overlaps(other: &Move, disk: Lane, offset: u64, len: u32) -> bool {
    other.disk == disk
        && offset < other.offset + u64::from(other.len)
        && other.offset < offset.saturating_add(u64::from(len))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn migration() -> Migration {
        let period = Nanos::from_secs(1);
        Migration::new(MigrateConfig { extent_bytes: MIB as u32, period, hot: 4, moves_max: 8 })
    }

    fn planned(migration: &mut Migration, at_s: u64, free: u64, flash: u64) -> Vec<(u64, bool)> {
        let next = |_| migration.next(Nanos::from_secs(at_s), free, flash);
        (0..100).map_while(next).map(|it| (it.offset / MIB, it.up)).collect()
    }

    #[test]
    fn hot_extents_move_to_the_flash_hottest_first() {
        let mut migration = migration();
        for (extent, uses) in [(3, 4), (5, 9), (7, 3), (9, 6)] {
            (0..uses).for_each(|_| migration.note(0, extent * MIB + 5, 512, false));
        }
        assert_eq!(planned(&mut migration, 0, 100 * MIB, 100 * MIB), [], "not yet");
        let first = planned(&mut migration, 1, 100 * MIB, 100 * MIB);
        assert_eq!(first, [(5, true), (9, true), (3, true)]);
        // The heat of extent 9 was halved to 4, which is still hot, but the extent is already on
        // the flash.
        assert_eq!(planned(&mut migration, 2, 100 * MIB, 100 * MIB), []);
    }

    #[test]
    fn the_coldest_extents_make_room() {
        let mut migration = migration();
        for (extent, uses) in [(1, 3), (2, 0), (3, 1)] {
            migration.placed(0, extent * MIB, 512);
            (0..uses).for_each(|_| migration.note(0, extent * MIB, 512, false));
        }
        (0..8).for_each(|_| migration.note(0, 9 * MIB, 512, true));
        // There is space for one extent, which must be kept free, so another extent must be moved
        // back.
        assert_eq!(planned(&mut migration, 1, MIB, 20 * MIB), [(2, false), (9, true)]);
        let mut cold = self::migration();
        cold.placed(0, 0, 512);
        assert_eq!(planned(&mut cold, 1, 0, 20 * MIB), [(0, false)], "for new writes");
    }

    #[test]
    fn writes_void_overlapping_moves() {
        let mut migration = migration();
        (0..4).for_each(|_| migration.note(0, 0, 512, false));
        let other = migration.next(Nanos::from_secs(1), 9 * MIB, 9 * MIB).unwrap();
        migration.moves.push(other);
        migration.note(0, MIB, 512, true);
        migration.note(1, 0, 512, true);
        migration.note(0, 0, 512, false);
        assert!(!migration.moves[0].void && migration.is_moving(0, MIB - 1, 1));
        migration.note(0, MIB - 512, 512, true);
        assert!(migration.moves[0].void);
        migration.finish(0);
        assert_eq!((migration.void, migration.done), (1, [0, 0]));
    }
}
