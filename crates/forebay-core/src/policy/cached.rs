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
//! is until the disk has it. When all of those are taken, new blocks go past the cache. A write of
//! part of a block that is not cached goes to the disk. A Flush goes to both devices; a Trim to the
//! disk, cached copies forgotten.
//!
//! Invariants: each flash block belongs to a frame, is leaving, or is free; a block is read where its
//! newest content is.

use crate::cache::{Cache, Frame};
use crate::over::{Owner, Placement, Planned};
use crate::policy::Figure;
use crate::request::{BACKGROUND, Flags, Lane, Op, Request};

/// Flash blocks beyond what the cache holds, for dirty blocks on their way to the disk: one in this
/// many, 16 at least.
const SPARE_SHARE: u32 = 64;
const SPARE_MIN: u32 = 16;

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

/// What is to be done after an I/O, by its token.
const NOTHING: u64 = 0;
/// After a read from the disk: its whole blocks are copied to the flash.
const FILL: u64 = 1;
/// After a write to the flash: its block can be read.
const WRITTEN: u64 = 2;
/// After the read of an evicted block: it is written to the disk.
const DESTAGE: u64 = 3;
/// After that write: its flash block is free.
const DESTAGED: u64 = 4;

/// A block's place on the flash.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    /// Flash block.
    at: u32,
    dirty: bool,
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
    /// Writes to each flash block that are not done.
    writes: Vec<u32>,
    free: Vec<u32>,
    /// Evicted blocks the disk does not have yet, and where they are.
    leaving: Vec<(u64, u32)>,
    figures: CacheFigures,
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

impl<C: Cache> Cached<C> {
    /// Caches blocks of `block_bytes`, at least one, of `disks`.
    pub fn new(cache: C, block_bytes: u32, writing: Writing, disks: u16) -> Cached<C> {
        let frames = cache.capacity();
        let blocks = frames.saturating_add((frames / SPARE_SHARE).max(SPARE_MIN));
        Cached {
            flash: disks.max(1),
            cache,
            block_bytes: u64::from(block_bytes.max(1)),
            writing,
            held: vec![Held::default(); frames as usize],
            writes: vec![0; blocks as usize],
            free: (0..blocks).rev().collect(),
            leaving: Vec::with_capacity((blocks - frames) as usize),
            figures: CacheFigures::default(),
        }
    }

    /// The most frames for which `size_bytes` of flash suffice.
    pub fn frames(size_bytes: u64, block_bytes: u32) -> u32 {
        let blocks = (size_bytes / u64::from(block_bytes.max(1))).min(1 << 31);
        let spare = (blocks / u64::from(SPARE_SHARE + 1)).max(SPARE_MIN.into());
        blocks.saturating_sub(spare) as u32
    }

    /// How well it did so far.
    pub fn figures(&self) -> CacheFigures {
        self.figures
    }

    /// Bytes of flash it needs.
    pub fn flash_bytes(&self) -> u64 {
        self.writes.len() as u64 * self.block_bytes
    }

    fn parts(&self, request: &Request) -> impl Iterator<Item = Part> + use<C> {
        let (block, end) = (self.block_bytes, request.end());
        let lane = u64::from(request.lane) << KEY_BITS;
        let mut offset = request.offset;
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

    /// The part on the flash, its block being `at`.
    fn on_flash(&self, part: Part, at: u32) -> (u64, u32) {
        (u64::from(at) * self.block_bytes + part.offset % self.block_bytes, part.len)
    }

    /// Where a block's content can be read from the flash, if it can.
    fn readable(&mut self, key: u64) -> Option<u32> {
        if let Some(frame) = self.cache.get(key) {
            let Held { at, dirty } = self.held[frame as usize];
            // A copy on its way is read from the disk, which has the same.
            return (dirty || self.writes[at as usize] == 0).then_some(at);
        }
        self.leaving.iter().find(|&&(gone, _)| gone == key).map(|&(_, at)| at)
    }

    fn read(&mut self, io: Planned, request: &Request, plan: &mut Vec<Planned>) {
        for part in self.parts(request) {
            self.figures.blocks_read += 1;
            let next = match self.readable(part.key) {
                Some(at) => {
                    self.figures.blocks_hit += 1;
                    let (offset, len) = self.on_flash(part, at);
                    Planned { lane: self.flash, offset, len, ..io }
                }
                None => Planned { offset: part.offset, len: part.len, token: FILL, ..io },
            };
            join(plan, next);
        }
    }

    fn write(&mut self, io: Planned, request: &Request, plan: &mut Vec<Planned>) {
        for part in self.parts(request) {
            let cached = match self.writing {
                Writing::Around => self.forget(part.key),
                Writing::Through | Writing::Back => self.write_cached(io, part, plan),
            };
            if self.writing != Writing::Back || !cached {
                join(plan, Planned { offset: part.offset, len: part.len, ..io });
            }
        }
    }

    /// Writes a part to the flash if its block is cached or can be; answers whether it was written.
    fn write_cached(&mut self, io: Planned, part: Part, plan: &mut Vec<Planned>) -> bool {
        let frame = match self.cache.get(part.key) {
            None if self.is_whole(part) => self.take_in(part.key, plan),
            found => found,
        };
        let Some(frame) = frame else { return false };
        let held = &mut self.held[frame as usize];
        held.dirty |= self.writing == Writing::Back;
        let at = held.at;
        self.write_flash(io, part, at, plan);
        true
    }

    fn write_flash(&mut self, io: Planned, part: Part, at: u32, plan: &mut Vec<Planned>) {
        self.writes[at as usize] += 1;
        let (offset, len) = self.on_flash(part, at);
        plan.push(Planned { lane: self.flash, offset, len, token: WRITTEN, ..io });
    }

    /// Gives a block a frame and a flash block; none if no flash block is free.
    fn take_in(&mut self, key: u64, plan: &mut Vec<Planned>) -> Option<Frame> {
        // Eviction frees a flash block at once only if it was clean, which is not known before.
        let Some(spare) = self.free.pop() else {
            self.figures.blocks_past += 1;
            return None;
        };
        let inserted = self.cache.insert(key);
        let before = std::mem::replace(
            &mut self.held[inserted.frame as usize],
            Held { at: spare, dirty: false },
        );
        if let Some(evicted) = inserted.evicted {
            self.let_go(evicted, before, plan);
        }
        Some(inserted.frame)
    }

    /// Frees an evicted block's place, or sends its content to the disk first.
    fn let_go(&mut self, key: u64, held: Held, plan: &mut Vec<Planned>) {
        if !held.dirty {
            self.free.push(held.at);
            return;
        }
        self.leaving.push((key, held.at));
        plan.push(Planned {
            owner: Owner::Background,
            lane: self.flash,
            op: Op::Read,
            offset: u64::from(held.at) * self.block_bytes,
            len: self.block_bytes as u32,
            stream: BACKGROUND,
            flags: Flags::NONE,
            token: DESTAGE,
        });
    }

    /// Forgets a cached block, whatever it held; answers false: it is not cached any more.
    fn forget(&mut self, key: u64) -> bool {
        if let Some(frame) = self.cache.remove(key) {
            self.free.push(self.held[frame as usize].at);
        }
        false
    }

    /// Copies the whole blocks that a read from the disk brought.
    fn fill(&mut self, io: &Planned, plan: &mut Vec<Planned>) {
        let request = Request {
            at: crate::time::Nanos::ZERO,
            offset: io.offset,
            id: 0,
            len: io.len,
            stream: io.stream,
            lane: io.lane,
            op: Op::Read,
            flags: Flags::NONE,
        };
        let (owner, op, flags) = (Owner::Background, Op::Write, Flags::NONE);
        for part in self.parts(&request) {
            if !self.is_whole(part) || self.cache.peek(part.key).is_some() {
                continue;
            }
            let Some(frame) = self.take_in(part.key, plan) else { continue };
            self.figures.blocks_filled += 1;
            let at = self.held[frame as usize].at;
            self.write_flash(
                Planned { owner, op, flags, stream: BACKGROUND, ..*io },
                part,
                at,
                plan,
            );
        }
    }
}

/// Adds an I/O, as part of the last one where it goes on.
fn join(plan: &mut Vec<Planned>, next: Planned) {
    if let Some(last) = plan.last_mut() {
        let end = last.offset + u64::from(last.len);
        let len = last.len.checked_add(next.len);
        if let Some(len) = len
            && *last == (Planned { offset: last.offset, len: last.len, ..next })
            && end == next.offset
        {
            last.len = len;
            return;
        }
    }
    plan.push(next);
}

impl<C: Cache> Placement for Cached<C> {
    fn place(&mut self, client: u32, request: &Request, plan: &mut Vec<Planned>) {
        let io = Planned {
            owner: Owner::Client(client),
            lane: request.lane,
            op: request.op,
            offset: request.offset,
            len: request.len,
            stream: request.stream,
            flags: request.flags,
            token: NOTHING,
        };
        match request.op {
            Op::Read if request.len > 0 => self.read(io, request, plan),
            Op::Write if request.len > 0 => self.write(io, request, plan),
            Op::Flush => plan.extend([io, Planned { lane: self.flash, ..io }]),
            Op::Trim => {
                for part in self.parts(request) {
                    if self.is_whole(part) {
                        self.forget(part.key);
                    }
                }
                plan.push(io);
            }
            Op::Read | Op::Write | Op::Park => plan.push(io),
        }
    }

    fn done(&mut self, io: &Planned, plan: &mut Vec<Planned>) {
        let at = (io.offset / self.block_bytes) as u32;
        match io.token {
            FILL => self.fill(io, plan),
            WRITTEN => self.writes[at as usize] -= 1,
            DESTAGE => {
                let Some(&(key, _)) = self.leaving.iter().find(|&&(_, place)| place == at) else {
                    return;
                };
                self.figures.blocks_destaged += 1;
                let lane = (key >> KEY_BITS) as Lane;
                let offset = (key & ((1 << KEY_BITS) - 1)) * self.block_bytes;
                // Remembers where it came from, above what tells the step.
                let token = DESTAGED | u64::from(at) << 8;
                plan.push(Planned { lane, op: Op::Write, offset, token, ..*io });
            }
            token if token & 0xff == DESTAGED => {
                let at = (token >> 8) as u32;
                self.leaving.retain(|&(_, place)| place != at);
                self.free.push(at);
            }
            _ => {}
        }
    }

    fn figures(&self) -> Vec<Figure> {
        let CacheFigures { blocks_read, blocks_hit, blocks_filled, blocks_destaged, blocks_past } =
            self.figures;
        vec![
            ("blocks_read", blocks_read as f64),
            ("blocks_hit", blocks_hit as f64),
            ("hit_share", blocks_hit as f64 / blocks_read.max(1) as f64),
            ("blocks_filled", blocks_filled as f64),
            ("blocks_destaged", blocks_destaged as f64),
            ("blocks_past", blocks_past as f64),
            ("flash_bytes", self.flash_bytes() as f64),
        ]
    }
}

#[cfg(test)]
mod tests;
