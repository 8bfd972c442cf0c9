//! Which data are hot and which are cold, by how often they were used lately, and their moves.
//!
//! Extents of the disks are counted; every period the counts are halved. Then extents that are hotter
//! than a threshold move to the flash, hottest first, and where room is short the coldest of those on
//! it that are less than half as hot move back. A move reads on one device and writes on the other,
//! and only then changes where the data are; a write of a client in between makes it void.
//!
//! Source: the **bid** paper, section "Multi-tier storage" (access frequency, as ADLAM and HRO have
//! it), and its future work.

use std::cmp::Reverse;

use crate::contract::bytes::Buf;
use crate::contract::request::Lane;
use crate::contract::time::Nanos;
use crate::index::{Index, spread};

/// When and how much to move.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MigrateConfig {
    /// Bytes of an extent; a multiple of the blocks of the location table.
    pub(crate) extent_bytes: u32,
    /// Between two looks at the counts.
    pub(crate) period: Nanos,
    /// Uses in about a period that make an extent hot.
    pub(crate) hot: u32,
    /// Extents moved in a period, each way.
    pub(crate) moves_max: u32,
}

/// The maximum number of concurrent moves.
const AT_A_TIME: usize = 4;
/// Of the flash that is to stay free for new writes: one part in this many.
const SPARE_SHARE: u64 = 20;

/// An extent that is to move, or does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Move {
    pub(super) disk: Lane,
    pub(super) offset: u64,
    pub(super) len: u32,
    /// To the flash, or back.
    pub(super) up: bool,
    /// Its second half, the writing, has begun.
    pub(super) writing: bool,
    /// A client wrote meanwhile.
    pub(super) void: bool,
    /// I/Os that are not done.
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

/// Counts and moves.
#[derive(Clone, Debug)]
pub(super) struct Migration {
    config: MigrateConfig,
    index: Index,
    extents: Vec<Extent>,
    next: Nanos,
    /// Extents to move, the last first.
    plan: Vec<(u32, bool)>,
    /// Candidates for either way, with their heat.
    candidates: [Vec<(u32, u32)>; 2],
    pub(super) moves: Vec<Move>,
    /// Moves done and void, up and down.
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

    /// A client uses a range; a write that is not done with it voids moves.
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

    /// Data of a range were placed on the flash.
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

    /// Looks at the counts if it is time, and answers the next move if there is room for one.
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
        // Which parts are on the flash is determined when the extent moves.
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
        // The last is first: those that make room, then the hottest.
        self.plan.extend(up.iter().rev().map(|&(_, id)| (id, true)));
        self.plan.extend(down.iter().rev().map(|&(_, id)| (id, false)));
        self.extents.iter_mut().for_each(|extent| extent.heat /= 2);
        self.candidates = [up, down];
    }

    /// Returns the move that an I/O on a range belongs to.
    pub(super) fn moving(&mut self, disk: Lane, offset: u64) -> Option<usize> {
        self.moves.iter().position(|other| overlaps(other, disk, offset, 1))
    }

    /// A move has ended.
    pub(super) fn finish(&mut self, at: usize) {
        let ended = self.moves.swap_remove(at);
        if ended.void {
            self.void += 1;
            // Parts of it may still be on the flash.
            self.placed(ended.disk, ended.offset, ended.len);
        } else {
            self.done[usize::from(!ended.up)] += 1;
        }
    }
}

/// Keeps the first `count` by `order`, in order; without sorting the others.
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
    fn hot_extents_go_up_hottest_first() {
        let mut migration = migration();
        for (extent, uses) in [(3, 4), (5, 9), (7, 3), (9, 6)] {
            (0..uses).for_each(|_| migration.note(0, extent * MIB + 5, 512, false));
        }
        assert_eq!(planned(&mut migration, 0, 100 * MIB, 100 * MIB), [], "not yet");
        let first = planned(&mut migration, 1, 100 * MIB, 100 * MIB);
        assert_eq!(first, [(5, true), (9, true), (3, true)]);
        // Halved, 9 has become 4; but it is on the flash now.
        assert_eq!(planned(&mut migration, 2, 100 * MIB, 100 * MIB), []);
    }

    #[test]
    fn the_coldest_make_room() {
        let mut migration = migration();
        for (extent, uses) in [(1, 3), (2, 0), (3, 1)] {
            migration.placed(0, extent * MIB, 512);
            (0..uses).for_each(|_| migration.note(0, extent * MIB, 512, false));
        }
        (0..8).for_each(|_| migration.note(0, 9 * MIB, 512, true));
        // One extent of room is spare; one more is needed.
        assert_eq!(planned(&mut migration, 1, MIB, 20 * MIB), [(2, false), (9, true)]);
        let mut cold = self::migration();
        cold.placed(0, 0, 512);
        assert_eq!(planned(&mut cold, 1, 0, 20 * MIB), [(0, false)], "for new writes");
    }

    #[test]
    fn writes_void_the_moves_they_meet() {
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
