//! The request queue: the queued requests, the rules for merging them, and the lists that elevators
//! use.
//!
//! A queued request consists of *parts*, each of which is a bio of one client request; they are
//! adjacent on the device and ordered by address. Dispatched requests stay in the queue until they
//! complete, because they count toward the limits as in Linux, but no longer merge.

use super::gate::{Place, RequestKind};
use crate::contract::{Bytes, Flags, Lane, Nanos, Op, Request};
use crate::index::{Index, spread};
use crate::slab::Slab;

/// Identifies a queued request.
pub type QueuedId = u32;

/// No request.
pub(crate) const NIL: u32 = u32::MAX;

/// A part of a queued request: one bio of a client request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// The key of the client request in the block layer.
    pub(crate) client: u32,
    /// When the bio entered the queue.
    pub(crate) admitted: Nanos,
    /// The location of the bio's bytes.
    pub(crate) bytes: Bytes,
    pub(crate) len: u32,
    next: u32,
}

impl Part {
    #[inline]
    pub(crate) fn new(now: Nanos, bio: &Request, owner: Owner) -> Part {
        let Owner { client, bytes } = owner;
        Part { client, admitted: now, bytes, len: bio.len, next: NIL }
    }
}

/// The owner of a bio.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    /// The key of the client request in the block layer.
    pub(crate) client: u32,
    /// The location of the bio's bytes.
    pub(crate) bytes: Bytes,
}

/// A queued request: a contiguous range with one operation.
#[derive(Clone, Copy, Debug)]
pub struct Queued {
    /// The first byte.
    pub offset: u64,
    /// When the oldest part of the request entered the queue.
    pub added: Nanos,
    /// The length in bytes.
    pub len: u32,
    /// The stream that submitted the first part.
    pub stream: u32,
    /// The merge scope; only requests of one scope merge.
    pub scope: u32,
    /// A value for use by the elevator.
    pub mark: u32,
    /// The operation: read or write.
    pub op: Op,
    /// The flags of all parts.
    pub flags: Flags,
    /// Whether the request bypasses the elevator: a flush, a trim, or a part of a failed request.
    pub(crate) bypasses: bool,
    /// The slots that the request occupies.
    pub(crate) place: Place,
    parts_head: u32,
    parts_tail: u32,
    list_prev: u32,
    list_next: u32,
}

impl Queued {
    /// Returns the offset of the first byte after the request.
    #[inline]
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(u64::from(self.len))
    }

    #[inline]
    fn is_write(&self) -> bool {
        self.op == Op::Write
    }
}

/// A doubly linked list of queued requests. A request is on at most one list.
#[derive(Clone, Copy, Debug)]
pub struct List {
    head: u32,
    tail: u32,
}

impl Default for List {
    fn default() -> Self {
        List { head: NIL, tail: NIL }
    }
}

impl List {
    /// Returns the first entry, which is the oldest.
    #[inline]
    pub fn front(&self) -> Option<QueuedId> {
        (self.head != NIL).then_some(self.head)
    }
}

/// All requests between admission and completion.
#[derive(Clone, Debug)]
pub struct Queue {
    requests: Slab<Queued>,
    parts: Slab<Part>,
    by_start: Index,
    by_end: Index,
    merging: bool,
}

impl std::ops::Index<QueuedId> for Queue {
    type Output = Queued;
    #[inline]
    fn index(&self, id: QueuedId) -> &Queued {
        &self.requests[id]
    }
}

impl std::ops::IndexMut<QueuedId> for Queue {
    #[inline]
    fn index_mut(&mut self, id: QueuedId) -> &mut Queued {
        &mut self.requests[id]
    }
}

impl Queue {
    pub(crate) fn new(merging: bool) -> Self {
        Queue {
            requests: Slab::default(),
            parts: Slab::default(),
            by_start: Index::new(),
            by_end: Index::new(),
            merging,
        }
    }

    /// Adds a request with the single part `bio`.
    #[inline]
    pub(crate) fn insert(
        &mut self,
        now: Nanos,
        bio: &Request,
        owner: Owner,
        scope: u32,
    ) -> QueuedId {
        let id = self.add(bio, Part::new(now, bio, owner), scope, false);
        self.index(id);
        id
    }

    /// Adds a request that bypasses the elevator and does not merge.
    pub(crate) fn insert_bypassing(&mut self, bio: &Request, part: Part) -> QueuedId {
        self.add(bio, Part { next: NIL, ..part }, 0, true)
    }

    #[inline]
    fn add(&mut self, bio: &Request, part: Part, scope: u32, bypasses: bool) -> QueuedId {
        let now = part.admitted;
        let part = self.parts.insert(part);
        self.requests.insert(Queued {
            offset: bio.offset,
            added: now,
            len: bio.len,
            stream: bio.stream,
            scope,
            mark: 0,
            place: Place::uncounted(RequestKind::of(bio.op, bio.flags)),
            op: bio.op,
            flags: bio.flags,
            bypasses,
            parts_head: part,
            parts_tail: part,
            list_prev: NIL,
            list_next: NIL,
        })
    }

    /// Returns the request that ends where `bio` starts.
    #[inline]
    pub(crate) fn before(&self, bio: &Request, scope: u32) -> Option<QueuedId> {
        let write = bio.op == Op::Write;
        self.by_end.find(hash(bio.offset, scope, write), |id| {
            let known = &self.requests[id];
            known.end() == bio.offset && known.scope == scope && known.op == bio.op
        })
    }

    /// Returns the request that starts where `bio` ends.
    #[inline]
    pub(crate) fn after(&self, bio: &Request, scope: u32) -> Option<QueuedId> {
        let write = bio.op == Op::Write;
        self.by_start.find(hash(bio.end(), scope, write), |id| {
            let known = &self.requests[id];
            known.offset == bio.end() && known.scope == scope && known.op == bio.op
        })
    }

    /// Returns the request that starts where request `id` ends, if both together are no longer than
    /// `len_max`.
    pub(crate) fn joinable(&self, id: QueuedId, len_max: u32) -> Option<QueuedId> {
        let known = &self.requests[id];
        let end = known.end();
        let next = self.by_start.find(hash(end, known.scope, known.is_write()), |other| {
            let next = &self.requests[other];
            next.offset == end && next.scope == known.scope && next.op == known.op && other != id
        })?;
        fits(known.len, self.requests[next].len, len_max).then_some(next)
    }

    /// Returns the request that ends where request `id` starts, if both together are no longer than
    /// `len_max`.
    pub(crate) fn joinable_before(&self, id: QueuedId, len_max: u32) -> Option<QueuedId> {
        let known = &self.requests[id];
        let before =
            self.by_end.find(hash(known.offset, known.scope, known.is_write()), |other| {
                let before = &self.requests[other];
                before.end() == known.offset
                    && before.scope == known.scope
                    && before.op == known.op
                    && other != id
            })?;
        fits(known.len, self.requests[before].len, len_max).then_some(before)
    }

    /// Extends request `id` by `bio`, which is directly before or after it.
    #[inline]
    pub(crate) fn extend(&mut self, now: Nanos, id: QueuedId, bio: &Request, owner: Owner) {
        self.unindex(id);
        let request = &mut self.requests[id];
        let is_before = bio.offset < request.offset;
        let next = if is_before { request.parts_head } else { NIL };
        let part = self.parts.insert(Part { next, ..Part::new(now, bio, owner) });
        // Parts are sorted by address.
        if is_before {
            request.offset = bio.offset;
            request.parts_head = part;
        } else {
            let tail = std::mem::replace(&mut request.parts_tail, part);
            self.parts[tail].next = part;
        }
        request.len += bio.len;
        request.flags = request.flags.with(bio.flags);
        self.index(id);
    }

    /// Merges `gone`, which starts where `kept` ends, into `kept` and removes `gone`.
    pub(crate) fn join(&mut self, kept: QueuedId, gone: QueuedId) {
        self.unindex(kept);
        self.unindex(gone);
        let gone = self.requests.remove(gone);
        let request = &mut self.requests[kept];
        request.len += gone.len;
        request.flags = request.flags.with(gone.flags);
        request.added = request.added.min(gone.added);
        let tail = std::mem::replace(&mut request.parts_tail, gone.parts_tail);
        self.parts[tail].next = gone.parts_head;
        self.index(kept);
    }

    /// Marks `id` as dispatched, so that it is no longer merged.
    #[inline]
    pub(crate) fn started(&mut self, id: QueuedId) {
        self.unindex(id);
    }

    /// Removes `id`. Returns its place and its first part, for [`Queue::take_part`].
    #[inline]
    pub(crate) fn finish(&mut self, id: QueuedId) -> (Place, u32) {
        let Queued { parts_head, place, .. } = self.requests.remove(id);
        (place, parts_head)
    }

    /// Removes a part of a removed request and advances `next` to the following part.
    #[inline]
    pub(crate) fn take_part(&mut self, next: &mut u32) -> Option<Part> {
        (*next != NIL).then(|| {
            let part = self.parts.remove(*next);
            *next = part.next;
            part
        })
    }

    /// Calls `each` with the parts of `id`, sorted by address.
    #[inline]
    pub(crate) fn parts(&self, id: QueuedId, mut each: impl FnMut(&Part)) {
        let mut next = self.requests[id].parts_head;
        while next != NIL {
            let part = &self.parts[next];
            each(part);
            next = part.next;
        }
    }

    /// Returns whether `id` has only one part.
    #[inline]
    pub(crate) fn is_single(&self, id: QueuedId) -> bool {
        self.requests[id].parts_head == self.requests[id].parts_tail
    }

    /// Appends `id`, which must not be on a list, to `list`.
    #[inline]
    pub fn push(&mut self, list: &mut List, id: QueuedId) {
        let tail = std::mem::replace(&mut list.tail, id);
        self.requests[id].list_prev = tail;
        self.requests[id].list_next = NIL;
        match tail {
            NIL => list.head = id,
            tail => self.requests[tail].list_next = id,
        }
    }

    /// Removes `id` from `list`, which must contain it.
    #[inline]
    pub fn unlink(&mut self, list: &mut List, id: QueuedId) {
        let Queued { list_prev, list_next, .. } = self.requests[id];
        match list_prev {
            NIL => list.head = list_next,
            prev => self.requests[prev].list_next = list_next,
        }
        match list_next {
            NIL => list.tail = list_prev,
            next => self.requests[next].list_prev = list_prev,
        }
    }

    /// Inserts `id`, which must not be on a list, before `place` in `list`.
    pub fn insert_before(&mut self, list: &mut List, id: QueuedId, place: QueuedId) {
        let prev = std::mem::replace(&mut self.requests[place].list_prev, id);
        self.requests[id].list_prev = prev;
        self.requests[id].list_next = place;
        match prev {
            NIL => list.head = id,
            prev => self.requests[prev].list_next = id,
        }
    }

    /// Removes `gone` from `list`. `kept` takes the earlier of the two positions.
    pub fn join_on(&mut self, list: &mut List, kept: QueuedId, gone: QueuedId) {
        if self[gone].added < self[kept].added {
            self.unlink(list, kept);
            self.insert_before(list, kept, gone);
        }
        self.unlink(list, gone);
    }

    /// Returns a queued request as the I/O for the device.
    #[inline]
    pub fn io(&self, now: Nanos, id: QueuedId, lane: Lane) -> Request {
        let queued = &self[id];
        Request {
            at: now,
            offset: queued.offset,
            id: u64::from(id),
            len: queued.len,
            stream: queued.stream,
            lane,
            op: queued.op,
            flags: queued.flags,
        }
    }

    /// Returns the entry after `id` on its list.
    #[inline]
    pub fn following(&self, id: QueuedId) -> Option<QueuedId> {
        Some(self.requests[id].list_next).filter(|&next| next != NIL)
    }

    #[inline]
    fn index(&mut self, id: QueuedId) {
        if self.merging {
            let request = &self.requests[id];
            let (scope, write) = (request.scope, request.is_write());
            self.by_start.insert(hash(request.offset, scope, write), id);
            self.by_end.insert(hash(request.end(), scope, write), id);
        }
    }

    #[inline]
    fn unindex(&mut self, id: QueuedId) {
        if self.merging {
            let request = &self.requests[id];
            let (scope, write) = (request.scope, request.is_write());
            self.by_start.remove(hash(request.offset, scope, write), id);
            self.by_end.remove(hash(request.end(), scope, write), id);
        }
    }
}

/// Returns the hash of a byte position within a merge scope.
#[inline]
fn hash(position: u64, scope: u32, write: bool) -> u64 {
    let side = (u64::from(scope) << 1 | u64::from(write)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    spread(position ^ side)
}

/// Returns whether the sum of both lengths is at most `len_max`.
#[inline]
pub(crate) fn fits(a: u32, b: u32, len_max: u32) -> bool {
    a.checked_add(b).is_some_and(|len| len <= len_max)
}
