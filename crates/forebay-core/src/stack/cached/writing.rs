//! Writes to the flash, the disk or both, according to [`Writing`].

use super::{Cached, ON_DISK, Part, Stamp, WRITTEN, Writing, stamp_of};
use crate::cache::Cache;
use crate::contract::Request;
use crate::stack::placed::{Plan, Planned};

impl<C: Cache> Cached<C> {
    pub(super) fn write(&mut self, io: Planned, request: &Request, plan: &mut Plan<'_>) {
        for part in self.parts(request.lane, request.offset, request.end()) {
            self.stamp(part.key).last = self.serial;
            self.figures.blocks_written += 1;
            self.write_part(part.of(&io), part, plan);
        }
    }

    /// Writes a part of a request to the device that stores its block, or makes it wait.
    pub(super) fn write_part(&mut self, io: Planned, part: Part, plan: &mut Plan<'_>) {
        if self.must_wait(part.key) {
            return self.wait(part.key, io, plan);
        }
        let overlaps = self.stamp(part.key).pending > 0;
        let cached = match self.writing {
            Writing::Around => {
                self.forget(part.key);
                false
            }
            // The block is not cached; otherwise the write would have waited.
            Writing::Through if overlaps => false,
            Writing::Through | Writing::Back => self.write_cached(io, part, plan),
        };
        if self.writing != Writing::Back || !cached {
            self.stamp(part.key).pending += 1;
            plan.extend(Planned { token: ON_DISK, ..io });
        }
    }

    pub(super) fn stamp(&mut self, key: u64) -> &mut Stamp {
        &mut self.stamps[stamp_of(key)]
    }

    /// Writes a part to the flash if its block is cached or can be cached. Returns whether it was
    /// written there.
    pub(super) fn write_cached(&mut self, io: Planned, part: Part, plan: &mut Plan<'_>) -> bool {
        if self.flash_gone {
            self.forget_clean(part.key);
        }
        let mut found = self.cache.get(part.key);
        if let Some(frame) = found
            && self.held[frame as usize].is_copy
            && !self.held[frame as usize].ready
        {
            // The copy and this write could complete in either order.
            self.forget(part.key);
            found = None;
        }
        let frame = match found {
            None if self.leaving.iter().any(|leaving| leaving.key == part.key) => {
                self.take_back(part.key, plan)
            }
            None if self.is_whole(part) => self.take_in(part.key, false, plan),
            None => {
                self.figures.blocks_partial += 1;
                None
            }
            found => found,
        };
        let Some(frame) = frame else { return false };
        let held = &mut self.held[frame as usize];
        held.dirty |= self.writing == Writing::Back;
        let at = held.at;
        self.note_dirty(part.key, at);
        self.write_flash(io, part, at, plan);
        if self.draining.is_some() {
            self.evict(frame, plan);
        }
        true
    }

    pub(super) fn write_flash(&mut self, io: Planned, part: Part, at: u32, plan: &mut Plan<'_>) {
        let pending = &mut self.pending[at as usize];
        pending.all += 1;
        pending.writes += 1;
        let offset = self.on_flash(part, at);
        plan.io(Planned { lane: self.flash, offset, token: WRITTEN, ..io });
    }
}
