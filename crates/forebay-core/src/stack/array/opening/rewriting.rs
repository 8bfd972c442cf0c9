//! Writes records again on all drives before any request is served.

use super::super::{Array, KIND, OPENING, geometry, nobodys};
use super::Step;
use super::walk::Walk;
use crate::contract::{Buf, Bytes, Flags, Op, Slots};
use crate::stack::placed::{Plan, Planned};

impl Array {
    /// Rewrites the last round of a chain.
    pub(super) fn rewrite(&mut self, walk: Walk, plan: &mut Plan<'_>) -> Option<()> {
        self.opening()?.step = Step::Rewrite;
        for (sequence, bytes) in (walk.last.round..=walk.last.sequence).rev().zip(&walk.round) {
            let buf = plan.slots.take(geometry::RECORD);
            plan.slots.put(Bytes::of(buf).len(geometry::RECORD), bytes);
            self.write_everywhere(self.geometry.record_at(sequence), buf, plan);
        }
        (self.opening()?.left > 0).then_some(())
    }

    /// Writes a record to all drives.
    fn write_everywhere(&mut self, at: u64, buf: Buf, plan: &mut Plan<'_>) {
        let lanes: Vec<usize> = self.drives.present().collect();
        lanes.into_iter().for_each(|lane| self.write_again(lane, at, buf, plan));
        if let Some(opening) = self.opening() {
            opening.written.push((at, buf));
        }
    }

    /// Writes a record that must be durable before any request is served.
    fn write_again(&mut self, lane: usize, at: u64, buf: Buf, plan: &mut Plan<'_>) {
        let bytes = Bytes::of(buf);
        let io = nobodys(lane, Op::Write, at, geometry::RECORD, bytes, OPENING << KIND);
        plan.io(Planned { flags: Flags::FUA, ..io });
        if let Some(opening) = self.opening() {
            opening.left += 1;
        }
    }

    /// Rewrites the records for which drives had no space.
    pub(in super::super) fn write_refused(&mut self, plan: &mut Plan<'_>) {
        let Some(opening) = self.opening() else { return };
        let written = opening.written.clone();
        for (lane, at) in std::mem::take(&mut opening.refused) {
            if let Some((_, buf)) = written.iter().find(|(of, _)| *of == at) {
                self.write_again(lane, at, *buf, plan);
            }
        }
    }

    /// Frees the buffers of the records that have been written again.
    pub(in super::super) fn free_written_again(&mut self, slots: &mut dyn Slots) {
        let Some(opening) = self.opening() else { return };
        opening.written.drain(..).for_each(|(_, buf)| slots.free(buf));
    }
}
