//! A flash cache in front of disks: a [`Placement`] of blocks, governed by a replacement policy.
//!
//! Disks are lanes 0 to n - 1; the flash, which they share, is lane n. Reads of cached blocks go to
//! the flash. Other reads go to the disk, and whole blocks are copied to the flash afterwards.
//! Writes depend on [`Writing`]:
//! * *back*: writes go only to the flash. The block is then dirty; when it is evicted, it is read
//!   from the flash and written to the disk.
//! * *through*: writes go to both devices and complete when both have.
//! * *around*: writes go to the disk, and cached copies are removed.
//!
//! The flash has some more blocks than the cache holds, because an evicted dirty block stays in its
//! place until it is on the disk, and is taken back if it is written again. If all of these blocks
//! are in use, new blocks bypass the cache. A write of part of a block that is not cached goes to
//! the disk. A flush goes to both devices. A trim goes to the disk, and cached copies are removed.
//!
//! Invariants: each flash block belongs to a frame, is leaving, or is free, and is free only if no
//! I/O to it is outstanding. A block is read from where its newest content is, regardless of the
//! order in which devices complete. For this purpose, a place is read only after its first write
//! has completed, a block is copied only if it was not written since it was read, and at most one
//! write-back of a block is in progress at a time. Writes to a block wait while they could be lost,
//! or be executed in different orders on flash and disk ([`waiting`]).
//!
//! The table is in memory, so nothing on the flash is found after a restart. To survive restarts, a
//! write-back cache keeps a log of dirty blocks ([`surviving`], [`Cached::surviving`]).

mod draining;
mod ending;
mod failing;
mod leaving;
mod surviving;
#[cfg(test)]
mod tests;
mod waiting;
mod writing;

use std::collections::{BTreeMap, VecDeque};

use crate::cache::{Cache, Frame};
use crate::contract::{
    BACKGROUND, Bytes, Figure, Flags, Gauge, Lane, Nanos, Op, Outcome, Request, VolumeOrder,
};
use crate::index::spread;
use crate::stack::placed::{Owner, Placement, Plan, Planned};
pub use surviving::Bound;
use surviving::Survival;

/// The number of additional flash blocks for evicted dirty blocks: one per this number of frames,
/// from 16 to 1024.
const SPARE_SHARE: u32 = 64;
const SPARE_MIN: u32 = 16;
const SPARE_MAX: u32 = 1024;

/// The number of counters of writes, which blocks share.
const STAMPS: usize = 1 << 12;

/// The number of bits for the block number in a key. Offsets beyond 2^48 blocks do not occur on
/// real devices; they would share keys with other blocks.
const KEY_BITS: u32 = 48;

/// Where writes go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Writing {
    /// To the flash, and later to the disk.
    #[default]
    Back,
    /// To the flash and the disk.
    Through,
    /// To the disk only.
    Around,
}

/// The statistics of a cache, in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheFigures {
    /// The number of blocks read.
    pub blocks_read: u64,
    /// The number of blocks read from the flash.
    pub blocks_hit: u64,
    /// The number of blocks copied from the disk to the flash.
    pub blocks_filled: u64,
    /// The number of dirty blocks written back to the disk.
    pub blocks_destaged: u64,
    /// The number of blocks that bypassed the cache because too many were being written to the
    /// disk.
    pub blocks_past: u64,
    /// The number of blocks written.
    pub blocks_written: u64,
    /// The number of writes to blocks that were not cached and were written only in part, so that
    /// they went to the disk.
    pub blocks_partial: u64,
}

/// The number of bits of a token that identify the next step after the I/O; the other bits are a
/// number.
const STEP_BITS: u32 = 8;
const NOTHING: u64 = 0;
/// Read from the disk. The next step copies its whole blocks to the flash, unless they have been
/// written since.
const FILL: u64 = 1;
/// Write to the flash.
const WRITTEN: u64 = 2;
/// Read of an evicted block; next, it is written to the disk.
const DESTAGE: u64 = 3;
/// Write of an evicted block to the disk; next, its flash block is freed.
const DESTAGED: u64 = 4;
/// Read from the flash for a client.
const READ: u64 = 5;
/// Write to the disk for a client.
const ON_DISK: u64 = 6;
/// Write to the disk because the client's write to the flash failed. The number is that of the
/// flash block.
const MENDED: u64 = 7;
/// I/O of the log.
const LOG: u64 = 8;

/// The place of a cached block on the flash.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    /// The flash block.
    at: u32,
    dirty: bool,
    /// Whether the first write to the place has completed.
    ready: bool,
    /// Whether the first write is a copy from the disk.
    is_copy: bool,
}

/// An evicted block that is not on the disk yet.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    key: u64,
    held: Held,
    /// A number that distinguishes this eviction from earlier evictions of the same block.
    serial: u64,
    begun: bool,
    /// Whether the block is also on the disk, but keeps its place because the log still names that
    /// place.
    copied: bool,
}

/// The outstanding I/Os to a flash block.
#[derive(Clone, Copy, Debug, Default)]
struct Pending {
    all: u32,
    writes: u32,
    /// Whether the flash block becomes free when no I/Os are outstanding.
    gone: bool,
    /// Whether the flash block becomes free when no record names it.
    retired: bool,
    /// Whether other writes must wait, because the first write has not completed, or a failed one
    /// has not been redirected to the disk.
    closed: bool,
    /// The cached block that is stored in the flash block.
    key: u64,
}

/// When the blocks that share a counter were last written.
#[derive(Clone, Copy, Debug, Default)]
struct Stamp {
    last: u64,
    /// The number of outstanding writes to the disk.
    pending: u32,
}

/// Returns the index of a block's counter.
fn stamp_of(key: u64) -> usize {
    (spread(key) >> 52) as usize % STAMPS
}

/// A placement that caches blocks of disks on a flash.
#[derive(Clone, Debug)]
pub struct Cached<C> {
    cache: C,
    block_bytes: u64,
    writing: Writing,
    /// The lane of the flash.
    flash: Lane,
    /// The place of the block in each frame.
    held: Vec<Held>,
    /// The outstanding I/Os of each flash block.
    pending: Vec<Pending>,
    /// The number of flash blocks.
    blocks: u32,
    /// Flash blocks that were used before and are free.
    free: Vec<u32>,
    leaving: Vec<Leaving>,
    /// The blocks that are being written back to the disk.
    flying: Vec<u64>,
    /// The parts of writes that wait for their block, in order of arrival; by stamp and key of the
    /// block.
    waiting: BTreeMap<(usize, u64), VecDeque<Planned>>,
    stamps: Vec<Stamp>,
    /// Whether the flash has disappeared permanently. Everything is then read from the disk, except
    /// data that was only on the flash.
    flash_gone: bool,
    /// While the cache is drained, the next frame to evict.
    draining: Option<Frame>,
    /// A counter of requests and of departures of blocks.
    serial: u64,
    figures: CacheFigures,
    /// The offset of the first flash block on the flash.
    places_at: u64,
    /// The state needed to survive a restart.
    survival: Option<Box<Survival>>,
}

/// The part of a request that touches one block.
#[derive(Clone, Copy)]
struct Part {
    /// The block number, and the disk's lane in the bits above it, starting at bit [`KEY_BITS`].
    key: u64,
    /// The first byte on the disk.
    offset: u64,
    len: u32,
}

impl Part {
    /// Returns the I/O of this part alone; `io` is the whole I/O on the disk.
    fn of(self, io: &Planned) -> Planned {
        io.part((self.offset - io.offset) as u32, self.len)
    }
}

impl<C: Cache> Cached<C> {
    /// Creates a cache for `disks` with blocks of `block_bytes`, at least 1.
    pub fn new(cache: C, block_bytes: u32, writing: Writing, disks: u16) -> Cached<C> {
        let frames = cache.capacity();
        let blocks = frames.saturating_add((frames / SPARE_SHARE).clamp(SPARE_MIN, SPARE_MAX));
        Cached {
            flash: disks.max(1),
            cache,
            block_bytes: u64::from(block_bytes.max(1)),
            writing,
            // These vectors grow as blocks are used, because a flash may be far larger than what a
            // trace touches.
            held: Vec::new(),
            pending: Vec::new(),
            blocks,
            free: Vec::new(),
            leaving: Vec::new(),
            flying: Vec::new(),
            waiting: BTreeMap::new(),
            stamps: vec![Stamp::default(); STAMPS],
            flash_gone: false,
            draining: None,
            serial: 0,
            figures: CacheFigures::default(),
            places_at: 0,
            survival: None,
        }
    }

    /// Returns the maximum number of frames for which `size_bytes` of flash suffice.
    pub fn frames(size_bytes: u64, block_bytes: u32) -> u32 {
        let blocks = (size_bytes / u64::from(block_bytes.max(1))).min(1 << 31);
        let spare = (blocks / u64::from(SPARE_SHARE + 1)).clamp(SPARE_MIN.into(), SPARE_MAX.into());
        blocks.saturating_sub(spare) as u32
    }

    /// Returns the statistics so far.
    pub fn figures(&self) -> CacheFigures {
        self.figures
    }

    /// Returns how many bytes of flash the cache needs.
    pub fn flash_bytes(&self) -> u64 {
        self.places_at + u64::from(self.blocks) * self.block_bytes
    }

    /// Returns the parts of the range from `offset` to `end` on a disk.
    fn parts(&self, disk: Lane, mut offset: u64, end: u64) -> impl Iterator<Item = Part> + use<C> {
        let block = self.block_bytes;
        let lane = u64::from(disk) << KEY_BITS;
        std::iter::from_fn(move || {
            let number = offset / block;
            let len = end.min((number + 1).saturating_mul(block)).saturating_sub(offset);
            let part = Part { key: lane ^ number, offset, len: len as u32 };
            offset += len;
            (len > 0).then_some(part)
        })
    }

    fn is_whole(&self, part: Part) -> bool {
        u64::from(part.len) == self.block_bytes
    }

    /// Returns the offset on the flash of a part of the block in flash block `at`.
    fn on_flash(&self, part: Part, at: u32) -> u64 {
        self.place_at(at) + part.offset % self.block_bytes
    }

    /// Returns the first byte of a flash block.
    fn place_at(&self, at: u32) -> u64 {
        self.places_at + u64::from(at) * self.block_bytes
    }

    /// Returns the flash block from which a block can be read; `None` if it must be read from the
    /// disk. While the first write to the place is incomplete, the disk has the previous content.
    fn readable(&mut self, key: u64) -> Option<u32> {
        if self.flash_gone {
            self.forget_clean(key);
        }
        if let Some(frame) = self.cache.get(key) {
            let held = self.held[frame as usize];
            return held.ready.then_some(held.at);
        }
        let leaving = self.leaving.iter().find(|leaving| leaving.key == key)?;
        leaving.held.ready.then_some(leaving.held.at)
    }

    fn read(&mut self, io: Planned, request: &Request, plan: &mut Plan<'_>) {
        for part in self.parts(request.lane, request.offset, request.end()) {
            self.figures.blocks_read += 1;
            let io = part.of(&io);
            let next = match self.readable(part.key) {
                Some(at) => {
                    self.figures.blocks_hit += 1;
                    self.pending[at as usize].all += 1;
                    let offset = self.on_flash(part, at);
                    Planned { lane: self.flash, offset, token: READ, ..io }
                }
                None => Planned { token: FILL | self.serial << STEP_BITS, ..io },
            };
            plan.extend(next);
        }
    }

    /// Allocates a frame and a flash block for a block; `None` if no flash block is free.
    fn take_in(&mut self, key: u64, is_copy: bool, plan: &mut Plan<'_>) -> Option<Frame> {
        if self.flash_gone || self.draining.is_some() {
            return None;
        }
        // Allocate the flash block first: the eviction frees one immediately only if the evicted
        // block is clean, which is not known in advance.
        let Some(at) = self.free_block() else {
            self.figures.blocks_past += 1;
            self.destage_again(plan);
            self.free_retired(plan);
            return None;
        };
        let closed = !is_copy && self.writing == Writing::Back;
        self.pending[at as usize] = Pending { key, closed, ..Pending::default() };
        Some(self.hold(key, Held { at, dirty: false, ready: false, is_copy }, plan))
    }

    /// Returns a free flash block: one that was used before, or else the next unused one.
    fn free_block(&mut self) -> Option<u32> {
        self.free.pop().or_else(|| {
            let next = self.pending.len() as u32;
            (next < self.blocks).then(|| {
                self.pending.push(Pending::default());
                next
            })
        })
    }

    fn hold(&mut self, key: u64, held: Held, plan: &mut Plan<'_>) -> Frame {
        let inserted = self.cache.insert(key);
        let frame = inserted.frame as usize;
        if frame >= self.held.len() {
            self.held.resize(frame + 1, Held::default());
        }
        let before = std::mem::replace(&mut self.held[frame], held);
        if let Some(evicted) = inserted.evicted {
            self.let_go(evicted, before, plan);
        }
        inserted.frame
    }

    /// Frees a flash block now, or when its last I/O has completed.
    fn release(&mut self, at: u32) {
        if self.is_retired(at) {
            return;
        }
        let pending = &mut self.pending[at as usize];
        if pending.all == 0 {
            self.free.push(at);
        } else {
            pending.gone = true;
        }
    }

    /// Removes a block from the cache, regardless of its state.
    fn forget(&mut self, key: u64) {
        if let Some(frame) = self.cache.remove(key) {
            self.release(self.held[frame as usize].at);
        }
    }

    /// Returns the parts of an I/O on a disk.
    fn parts_of(&self, io: &Planned) -> impl Iterator<Item = Part> + use<C> {
        self.parts(io.lane, io.offset, io.offset.saturating_add(u64::from(io.len)))
    }

    /// Copies the whole blocks that were read from the disk to the flash, unless they were written
    /// since the read was issued.
    fn fill(&mut self, io: &Planned, plan: &mut Plan<'_>) {
        let asked = io.token >> STEP_BITS;
        let (owner, op, flags) = (Owner::Background, Op::Write, Flags::NONE);
        for part in self.parts_of(io) {
            let stamp = *self.stamp(part.key);
            let is_old = stamp.pending > 0 || stamp.last > asked;
            let is_leaving = || self.leaving.iter().any(|leaving| leaving.key == part.key);
            if !self.is_whole(part) || is_old || self.cache.peek(part.key).is_some() || is_leaving()
            {
                continue;
            }
            let Some(frame) = self.take_in(part.key, true, plan) else { continue };
            self.figures.blocks_filled += 1;
            let at = self.held[frame as usize].at;
            // The copy uses the buffer that the client read into, even if the client has been
            // answered.
            let copy = Planned { owner, op, flags, stream: BACKGROUND, ..part.of(io) };
            self.write_flash(copy, part, at, plan);
        }
    }
}

impl<C: Cache> Placement for Cached<C> {
    fn place(&mut self, client: u32, request: &Request, bytes: Bytes, plan: &mut Plan<'_>) {
        if self.waits_for_log(client, request, bytes, plan) {
            return;
        }
        self.serial += 1;
        let io = Planned { token: NOTHING, ..Planned::whole(client, request, bytes) };
        match request.op {
            Op::Read if request.len > 0 => self.read(io, request, plan),
            Op::Write if request.len > 0 => self.write(io, request, plan),
            Op::Flush if self.survival.is_some() => self.flush(client, request.lane, plan),
            Op::Flush => {
                plan.io(io);
                plan.io(Planned { lane: self.flash, ..io });
            }
            Op::Open => (0..=self.flash).for_each(|lane| plan.io(Planned { lane, ..io })),
            Op::Trim => {
                for part in self.parts(request.lane, request.offset, request.end()) {
                    self.stamp(part.key).last = self.serial;
                    if self.is_whole(part) {
                        self.forget(part.key);
                    }
                }
                plan.io(io);
            }
            Op::Read | Op::Write | Op::Park => plan.io(io),
        }
        if self.draining.is_some() {
            self.destage_again(plan);
            self.drain_on(plan);
        }
    }

    fn done(&mut self, io: &Planned, outcome: Outcome, plan: &mut Plan<'_>) -> Outcome {
        let outcome = self.completed(io, outcome, plan);
        self.drain_on(plan);
        outcome
    }

    fn order(&mut self, _now: Nanos, order: &VolumeOrder) -> Result<(), String> {
        match order {
            VolumeOrder::Drain if self.writing == Writing::Back => {
                self.draining.get_or_insert(0);
                Ok(())
            }
            VolumeOrder::Drain => Err("all data is already on its disk".into()),
            _ => Err("it is a cache, expected a volume".into()),
        }
    }

    fn figures(&self) -> Vec<Figure> {
        let of = self.figures;
        let mut figures = vec![
            ("blocks_read", of.blocks_read as f64),
            ("blocks_hit", of.blocks_hit as f64),
            ("hit_share", of.blocks_hit as f64 / of.blocks_read.max(1) as f64),
            ("blocks_filled", of.blocks_filled as f64),
            ("blocks_destaged", of.blocks_destaged as f64),
            ("blocks_past", of.blocks_past as f64),
            ("blocks_written", of.blocks_written as f64),
            ("blocks_partial", of.blocks_partial as f64),
            ("flash_bytes", self.flash_bytes() as f64),
        ];
        figures.extend(self.survival.iter().map(|it| ("log_records", it.log.records() as f64)));
        figures
    }

    fn gauges(&self) -> Vec<Gauge> {
        self.survival.iter().flat_map(|it| it.log.gauges()).collect()
    }
}
