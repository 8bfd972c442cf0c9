//! What follows when an I/O is done: where the data are, and who is told.

use super::{Choose, Client, Diverted, Diverting, For, MOVES, Tiers};
use crate::device::Completion;
use crate::policy::{Done, Finished, Policy};
use crate::request::{Lane, Op, Request};
use crate::time::Nanos;

impl<D: Diverting, C: Choose> Tiers<D, C> {
    /// A piece of a client request is done, `wait` after it was admitted.
    fn settle(&mut self, now: Nanos, key: u32, wait: Nanos, finished: &mut Finished) {
        let client = &mut self.clients[key];
        client.left -= 1;
        client.admitted = client.admitted.min(now - wait);
        if client.left == 0 {
            let Client { request, admitted, .. } = self.clients.remove(key);
            finished.push(Done { request, wait: now - admitted, class: 0 });
        }
    }

    /// Whether what the flash holds of a range is void once a disk has done this.
    pub(super) fn clears(&self, lane: Lane, io: &Request) -> bool {
        let moving = |io: &Request| {
            self.migration.as_ref().is_some_and(|moves| moves.is_moving(lane, io.offset, io.len))
        };
        match io.op {
            _ if io.len == 0 => false,
            // Moves clear what they have moved themselves.
            Op::Write => io.stream.wrapping_add(1) != MOVES,
            // While a move writes to the disk, nothing else may; and a trim need not take effect.
            Op::Trim => !moving(io),
            _ => false,
        }
    }

    /// A disk has done an I/O, or the flash has done one for it.
    pub(super) fn disk_done(
        &mut self,
        now: Nanos,
        lane: Lane,
        done: &Completion,
        finished: &mut Finished,
    ) {
        let mut parts = std::mem::take(&mut self.finished[0]);
        self.disks[usize::from(lane)].complete(now, done, &mut parts);
        for Done { request, wait, .. } in parts.drain(..) {
            let io = self.ios.remove(request.id as u32);
            if matches!(io.op, Op::Write | Op::Trim) && io.len > 0 {
                self.table.count_write(io.disk, io.offset, io.len, false);
            }
            match io.purpose {
                For::Client(key) => self.settle(now, key, wait, finished),
                For::Move => self.step_done(now, &io),
                For::Diverted(_) => {}
            }
        }
        self.finished[0] = parts;
    }

    pub(super) fn flash_done(&mut self, now: Nanos, done: &Completion, finished: &mut Finished) {
        let mut parts = std::mem::take(&mut self.finished[1]);
        self.flash.complete(now, done, &mut parts);
        for Done { request, wait, .. } in parts.drain(..) {
            let io = self.ios.remove(request.id as u32);
            if io.len > 0 {
                let written = io.op == Op::Write && !self.is_void(&io);
                self.table.end(io.disk, io.offset, io.len, written);
            }
            match io.purpose {
                For::Client(key) => self.settle(now, key, wait, finished),
                For::Move => self.step_done(now, &io),
                For::Diverted(key) => {
                    self.diverted[key].left -= 1;
                    if self.diverted[key].left == 0 {
                        let Diverted { request, since, .. } = self.diverted.remove(key);
                        let whole = Completion { io: request, started: since, at: now, ..*done };
                        self.disk_done(now, io.disk, &whole, finished);
                    }
                }
            }
        }
        self.finished[1] = parts;
    }
}
