//! A flash cache before a disk: a [`Placement`] of blocks, kept as a replacement policy says.
//!
//! Disks are lanes 0 to n - 1, the flash they share is lane n. Reads of cached blocks go to the flash, others to the disk,
//! whence whole blocks are copied to the flash afterwards. Writes, by [`Writing`]:
//! * *back*: to the flash alone. Such a block is dirty; when it is evicted it is read from the flash
//!   and written to the disk;
//! * *through*: to both; done when both are;
//! * *around*: to the disk; cached copies are forgotten.
//!
//! The flash has some blocks more than the cache holds: a dirty block that is evicted stays where it
//! is until the disk has it, and is taken back if it is written again. When all of those are taken,
//! new blocks go past the cache. A write of part of a block that is not cached goes to the disk. A
//! Flush goes to both devices; a Trim to the disk, cached copies forgotten.
//!
//! Invariants: each flash block belongs to a frame, is leaving, or is free, and is free only when no
//! I/O to it is under way; a block is read where its newest content is, in whatever order devices
//! complete: a place is read once its first write is done, a copy is made only of what nobody wrote
//! since it was read, and one write-back of a block is under way at a time. Writes to a block wait while
//! they could be lost, or done in another order on flash and disk ([`waiting`]).
//!
//! The table is in memory: after a restart nothing on the flash is found again. A cache that writes
//! *back* and has to outlive that keeps a log of what is dirty ([`surviving`], [`Cached::surviving`]).

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
use crate::contract::bytes::Bytes;
use crate::contract::outcome::Outcome;
use crate::contract::policy::{Figure, Gauge};
use crate::contract::request::{BACKGROUND, Flags, Lane, Op, Request};
use crate::index::spread;
use crate::stack::placed::{Owner, Placement, Plan, Planned};
pub use surviving::Bound;
use surviving::Survival;

/// Flash blocks beyond what the cache holds, for dirty blocks on their way to the disk: one in this
/// many, from 16 to 1024.
const SPARE_SHARE: u32 = 64;
const SPARE_MIN: u32 = 16;
const SPARE_MAX: u32 = 1024;

/// The number of counters of writes, which blocks share.
const STAMPS: usize = 1 << 12;

/// Bits of a block's number in a key; offsets beyond 2^48 blocks do not occur on real devices, and
/// would only share keys.
const KEY_BITS: u32 = 48;

/// What happens to writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Writing {
    /// To the flash, to the disk later.
    #[default]
    Back,
    /// To both.
    Through,
    /// To the disk.
    Around,
}

/// How well a cache does, in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheFigures {
    /// Blocks read.
    pub blocks_read: u64,
    /// Of these, from the flash.
    pub blocks_hit: u64,
    /// Blocks copied from the disk to the flash.
    pub blocks_filled: u64,
    /// Dirty blocks written back to the disk.
    pub blocks_destaged: u64,
    /// Blocks that went past the cache because too many were on their way to the disk.
    pub blocks_past: u64,
}

/// The next step after an I/O, by its token; the bits above these are a number.
const STEP_BITS: u32 = 8;
const NOTHING: u64 = 0;
/// After a read from the disk: its whole blocks are copied to the flash, unless written since.
const FILL: u64 = 1;
/// After a write to the flash.
const WRITTEN: u64 = 2;
/// After the read of an evicted block: it is written to the disk.
const DESTAGE: u64 = 3;
/// After that write: its flash block is free.
const DESTAGED: u64 = 4;
/// After a client's read from the flash.
const READ: u64 = 5;
/// After a client's write to the disk.
const ON_DISK: u64 = 6;
/// After a client's write to the disk that the flash failed; above is the flash block.
const MENDED: u64 = 7;
/// Of the log.
const LOG: u64 = 8;

/// A block's place on the flash.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    /// Flash block.
    at: u32,
    dirty: bool,
    /// Its first write is done.
    ready: bool,
    /// That write is a copy from the disk.
    is_copy: bool,
}

/// An evicted block that the disk does not have yet.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    key: u64,
    held: Held,
    /// Distinguishes it from earlier evictions.
    serial: u64,
    begun: bool,
    /// The disk has it too, but the log still names its place.
    copied: bool,
}

/// I/Os to a flash block that are not done.
#[derive(Clone, Copy, Debug, Default)]
struct Pending {
    all: u32,
    writes: u32,
    /// It is free once there are none.
    gone: bool,
    /// It is free once no record names it.
    retired: bool,
    /// No other write may begin: the first is not done, or one that failed is not mended.
    closed: bool,
    /// The block in the frame.
    key: u64,
}

/// When blocks that share a count were written.
#[derive(Clone, Copy, Debug, Default)]
struct Stamp {
    last: u64,
    /// Writes to the disk that are not done.
    pending: u32,
}

/// Returns which count a block has.
fn stamp_of(key: u64) -> usize {
    (spread(key) >> 52) as usize % STAMPS
}

/// The placement.
#[derive(Clone, Debug)]
pub struct Cached<C> {
    cache: C,
    block_bytes: u64,
    writing: Writing,
    /// The lane of the flash.
    flash: Lane,
    /// By frame.
    held: Vec<Held>,
    /// By flash block.
    pending: Vec<Pending>,
    /// Flash blocks there are.
    blocks: u32,
    /// Frames that were used and are free again.
    free: Vec<u32>,
    leaving: Vec<Leaving>,
    /// Blocks that are being written back to the disk.
    flying: Vec<u64>,
    /// Parts of writes that wait for their block, in the order they came; by its stamp and key.
    waiting: BTreeMap<(usize, u64), VecDeque<Planned>>,
    stamps: Vec<Stamp>,
    /// Whether the flash has disappeared permanently; everything except the data that was only on
    /// it is on the disk.
    flash_gone: bool,
    /// Counts requests and departures.
    serial: u64,
    figures: CacheFigures,
    /// Where its places begin on the flash.
    places_at: u64,
    /// The state needed to survive a restart.
    survival: Option<Box<Survival>>,
}

/// The part of a request on one block.
#[derive(Clone, Copy)]
struct Part {
    /// Block number; the disk's lane above [`KEY_BITS`].
    key: u64,
    /// First byte on the disk.
    offset: u64,
    len: u32,
}

impl Part {
    /// It alone of an I/O on the disk that it is a part of.
    fn of(self, io: &Planned) -> Planned {
        io.part((self.offset - io.offset) as u32, self.len)
    }
}

impl<C: Cache> Cached<C> {
    /// Caches blocks of `block_bytes`, at least one, of `disks`.
    pub fn new(cache: C, block_bytes: u32, writing: Writing, disks: u16) -> Cached<C> {
        let frames = cache.capacity();
        let blocks = frames.saturating_add((frames / SPARE_SHARE).clamp(SPARE_MIN, SPARE_MAX));
        Cached {
            flash: disks.max(1),
            cache,
            block_bytes: u64::from(block_bytes.max(1)),
            writing,
            // These grow as blocks are used: a flash may be far larger than what a trace touches.
            held: Vec::new(),
            pending: Vec::new(),
            blocks,
            free: Vec::new(),
            leaving: Vec::new(),
            flying: Vec::new(),
            waiting: BTreeMap::new(),
            stamps: vec![Stamp::default(); STAMPS],
            flash_gone: false,
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

    /// How well it did so far.
    pub fn figures(&self) -> CacheFigures {
        self.figures
    }

    /// Bytes of flash it needs.
    pub fn flash_bytes(&self) -> u64 {
        self.places_at + u64::from(self.blocks) * self.block_bytes
    }

    /// The parts of what lies from `offset` to `end` on a disk.
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

    /// Where the part is on the flash, its block being `at`.
    fn on_flash(&self, part: Part, at: u32) -> u64 {
        self.place_at(at) + part.offset % self.block_bytes
    }

    /// Returns the first byte of a flash block.
    fn place_at(&self, at: u32) -> u64 {
        self.places_at + u64::from(at) * self.block_bytes
    }

    /// Where a block's content can be read from the flash, if it can: what is not written there yet is
    /// read from the disk, which has what was there before.
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

    /// Gives a block a frame and a flash block; `None` if no flash block is free.
    fn take_in(&mut self, key: u64, is_copy: bool, plan: &mut Plan<'_>) -> Option<Frame> {
        if self.flash_gone {
            return None;
        }
        // Eviction frees a flash block at once only if it was clean, which is not known before.
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

    /// One that was used before, else the next that never was.
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

    /// Frees a flash block now or when its last I/O is done.
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

    /// Removes a cached block, whatever its state.
    fn forget(&mut self, key: u64) {
        if let Some(frame) = self.cache.remove(key) {
            self.release(self.held[frame as usize].at);
        }
    }

    /// Returns the parts of an I/O on a disk.
    fn parts_of(&self, io: &Planned) -> impl Iterator<Item = Part> + use<C> {
        self.parts(io.lane, io.offset, io.offset.saturating_add(u64::from(io.len)))
    }

    /// Copies the whole blocks that a read from the disk brought, unless they were written since it
    /// was asked for.
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
            // From the buffer that the client read into, although it may have been answered.
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
    }

    fn done(&mut self, io: &Planned, outcome: Outcome, plan: &mut Plan<'_>) -> Outcome {
        if self.survival.is_none() {
            return self.ended(io, outcome, plan);
        }
        if io.token & ((1 << STEP_BITS) - 1) == LOG {
            self.log_done(io, outcome, plan);
            return outcome;
        }
        let disk = self.disk_of(io);
        let outcome = self.ended(io, outcome, plan);
        if outcome.is_ok() && io.op == Op::Write && io.flags.has(Flags::FUA) {
            self.make_durable(io, disk, plan);
        }
        outcome
    }

    fn figures(&self) -> Vec<Figure> {
        let CacheFigures { blocks_read, blocks_hit, blocks_filled, blocks_destaged, blocks_past } =
            self.figures;
        let mut figures = vec![
            ("blocks_read", blocks_read as f64),
            ("blocks_hit", blocks_hit as f64),
            ("hit_share", blocks_hit as f64 / blocks_read.max(1) as f64),
            ("blocks_filled", blocks_filled as f64),
            ("blocks_destaged", blocks_destaged as f64),
            ("blocks_past", blocks_past as f64),
            ("flash_bytes", self.flash_bytes() as f64),
        ];
        figures.extend(self.survival.iter().map(|it| ("log_records", it.log.records() as f64)));
        figures
    }

    fn gauges(&self) -> Vec<Gauge> {
        self.survival.iter().flat_map(|it| it.log.gauges()).collect()
    }
}
