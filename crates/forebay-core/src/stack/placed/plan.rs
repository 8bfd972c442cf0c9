//! The I/Os, holds and releases that a placement has planned and [`super::Placed`] has yet to
//! execute.

use std::collections::VecDeque;

use crate::contract::{Bytes, Flags, Lane, Nanos, Op, Outcome, Request, Slots};
use crate::outstanding::Release;

/// The beneficiary of an I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A client request, identified by the number passed to [`super::Placement::place`].
    Client(u32),
    /// No request waits for the I/O.
    Background,
}

/// An I/O planned by a placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// The beneficiary of the I/O.
    pub owner: Owner,
    /// The lane of the I/O.
    pub lane: Lane,
    /// The operation.
    pub op: Op,
    /// The first byte on the lane.
    pub offset: u64,
    /// The length in bytes.
    pub len: u32,
    /// The memory of the data.
    pub bytes: Bytes,
    /// The original submitter.
    pub stream: u32,
    /// The properties of the I/O.
    pub flags: Flags,
    /// A value for the placement's use, returned with the completion.
    pub token: u64,
}

impl Planned {
    /// Returns `request` as a single I/O for its client.
    pub fn whole(client: u32, request: &Request, bytes: Bytes) -> Planned {
        let Request { offset, len, stream, lane, op, flags, .. } = *request;
        let owner = Owner::Client(client);
        Planned { owner, lane, op, offset, len, bytes, stream, flags, token: 0 }
    }

    /// Returns the part of the I/O of `len` bytes starting at byte `skip`.
    pub fn part(&self, skip: u32, len: u32) -> Planned {
        Planned { offset: self.offset + u64::from(skip), len, bytes: self.bytes.on(skip), ..*self }
    }
}

/// Steps to be executed.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    pub(super) ios: VecDeque<Planned>,
    /// The I/Os that bypass the policies below while no client waits.
    pub(super) past: VecDeque<Planned>,
    pub(super) holds: Vec<u32>,
    pub(super) releases: VecDeque<Release>,
    pub(super) diverted: VecDeque<(Request, Outcome)>,
}

impl Wanted {
    pub(super) fn release(&mut self, client: u32, outcome: Outcome, class: u16) {
        self.release_after(Release {
            client,
            wait: Nanos::ZERO,
            held: Nanos::ZERO,
            outcome,
            class,
        });
    }

    pub(super) fn release_after(&mut self, release: Release) {
        self.releases.push_back(release);
    }
}

/// Collects the I/Os, holds and releases that a placement plans during a call.
pub struct Plan<'a> {
    /// The current time.
    pub now: Nanos,
    /// The driver's memory.
    pub slots: &'a mut dyn Slots,
    wanted: &'a mut Wanted,
}

impl<'a> Plan<'a> {
    pub(super) fn new(now: Nanos, slots: &'a mut dyn Slots, wanted: &'a mut Wanted) -> Plan<'a> {
        Plan { now, slots, wanted }
    }

    /// Adds an I/O. Its buffer and its client are held until it has completed, so a placement may
    /// free a buffer as soon as all its I/Os are planned.
    pub fn io(&mut self, io: Planned) {
        self.name(&io);
        self.wanted.ios.push_back(io);
    }

    /// Adds an I/O, or extends the last planned one if it continues that in every respect.
    pub fn extend(&mut self, io: Planned) {
        if let Some(last) = self.wanted.ios.back_mut()
            && let Some(len) = last.len.checked_add(io.len)
            && last.offset + u64::from(last.len) == io.offset
            && last.bytes.on(last.len) == io.bytes
            && *last == (Planned { offset: last.offset, len: last.len, bytes: last.bytes, ..io })
        {
            last.len = len;
        } else {
            self.io(io);
        }
    }

    /// Adds an I/O that bypasses the policy of its lane. It is dispatched when that policy has
    /// nothing to dispatch and no client request is outstanding.
    pub fn when_idle(&mut self, io: Planned) {
        self.name(&io);
        self.wanted.past.push_back(io);
    }

    /// Removes the I/Os of [`Plan::when_idle`] that have not been dispatched. Returns whether there
    /// were any.
    pub fn forget_idle(&mut self) -> bool {
        let forgotten = !self.wanted.past.is_empty();
        for io in self.wanted.past.drain(..) {
            debug_assert_eq!(io.owner, Owner::Background, "a request waits for it");
            if io.op.moves_data() {
                self.slots.free(io.bytes.buf);
            }
        }
        forgotten
    }

    fn name(&mut self, io: &Planned) {
        if io.bytes.buf != 0 && io.op.moves_data() {
            self.slots.keep(io.bytes.buf);
        }
        if let Owner::Client(client) = io.owner {
            self.hold(client);
        }
    }

    /// Holds a client request, which is not answered before one more release.
    pub fn hold(&mut self, client: u32) {
        self.wanted.holds.push(client);
    }

    /// Releases a hold of a client request.
    pub fn release(&mut self, client: u32, outcome: Outcome) {
        self.wanted.release(client, outcome, 0);
    }

    /// Releases one hold of a client request. The part that held the request took `wait` since its
    /// admission.
    pub fn release_after(&mut self, client: u32, wait: Nanos, outcome: Outcome) {
        let held = Nanos::ZERO;
        self.wanted.release_after(Release { client, wait, held, outcome, class: 0 });
    }

    /// Reports the completion of a request that [`super::Placement::divert`] took. If it failed,
    /// the lane serves it.
    pub fn diverted(&mut self, io: Request, outcome: Outcome) {
        self.wanted.diverted.push_back((io, outcome));
    }
}

/// Returns the I/Os that `call` plans, for tests of a placement alone.
#[cfg(test)]
pub(crate) fn planned(call: impl FnOnce(&mut Plan<'_>)) -> Vec<Planned> {
    let mut wanted = Wanted::default();
    call(&mut Plan::new(Nanos::ZERO, &mut crate::contract::bytes::Null, &mut wanted));
    wanted.ios.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Flags;

    #[test]
    fn ios_that_continue_each_other_in_every_respect_are_merged() {
        let of = |buf, at| Bytes { buf, at };
        let first = Planned {
            owner: Owner::Client(3),
            lane: 1,
            op: Op::Read,
            offset: 8192,
            len: 4096,
            bytes: of(7, 512),
            stream: 2,
            flags: Flags::SYNC,
            token: 5,
        };
        let next = Planned { offset: 12_288, bytes: of(7, 4608), len: 512, ..first };
        let count = |next: Planned| {
            let plans = planned(|plan| {
                plan.extend(first);
                plan.extend(next);
            });
            plans.iter().map(|io| io.len).collect::<Vec<_>>()
        };
        assert_eq!(count(next), [4608]);
        let apart = [
            Planned { owner: Owner::Background, ..next },
            Planned { lane: 0, ..next },
            Planned { op: Op::Write, ..next },
            Planned { offset: 12_800, ..next },
            Planned { bytes: of(7, 4096), ..next },
            Planned { bytes: of(8, 4608), ..next },
            Planned { stream: 1, ..next },
            Planned { flags: Flags::NONE, ..next },
            Planned { token: 4, ..next },
        ];
        for next in apart {
            assert_eq!(count(next), [4096, 512], "{next:?}");
        }
        assert_eq!(count(Planned { len: u32::MAX, ..next }), [4096, u32::MAX], "too long for one");
    }
}
