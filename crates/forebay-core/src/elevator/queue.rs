//! The request queue: the queued requests, the rules for merging them, and the lists that elevators
//! use.
//!
//! A queued request consists of *parts*, each a bio of one client request; they are adjacent on the
//! device and ordered by address. Dispatched requests stay here until they complete (they count
//! toward the limits, as in Linux) but no longer merge.

use super::gate::{Place, RequestKind};
use crate::contract::bytes::Bytes;
use crate::contract::request::{Flags, Lane, Op, Request};
use crate::contract::time::Nanos;
use crate::index::{Index, spread};
use crate::slab::Slab;

/// Names a queued request.
pub type QueuedId = u32;

/// No request.
pub(crate) const NIL: u32 = u32::MAX;

/// A piece of one client request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// The client request, as the block layer names it.
    pub(crate) client: u32,
    /// When the bio entered the queue.
    pub(crate) admitted: Nanos,
    /// The location of its bytes.
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
    /// The client request, as the block layer names it.
    pub(crate) client: u32,
    /// The location of the bio's bytes.
    pub(crate) bytes: Bytes,
}

/// A request in the queue, of one operation, contiguous.
#[derive(Clone, Copy, Debug)]
pub struct Queued {
    /// First byte.
    pub offset: u64,
    /// When its oldest part entered the queue.
    pub added: Nanos,
    /// Bytes.
    pub len: u32,
    /// Stream of its first part.
    pub stream: u32,
    /// Only requests of one scope merge.
    pub scope: u32,
    /// Free for the elevator's use.
    pub mark: u32,
    /// Read or write.
    pub op: Op,
    /// Flags of all its parts.
    pub flags: Flags,
    /// The elevator does not know it: a flush, a trim, a part of a request that failed.
    pub(crate) bypasses: bool,
    /// The position in the queue.
    pub(crate) place: Place,
    parts_head: u32,
    parts_tail: u32,
    list_prev: u32,
    list_next: u32,
}

impl Queued {
    /// Returns the first byte after it.
    #[inline]
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(u64::from(self.len))
    }

    #[inline]
    fn is_write(&self) -> bool {
        self.op == Op::Write
    }
}

/// A doubly linked list of queued requests. A request is on one list at most.
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
    /// Returns the oldest entry.
    #[inline]
    pub fn front(&self) -> Option<QueuedId> {
        (self.head != NIL).then_some(self.head)
    }
}

/// Every request between admission and completion.
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

    /// Adds a request made of the single part `bio`.
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

    /// Adds a request that the elevator does not see and nothing merges with.
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

    /// Returns the request that `bio` continues (it ends where `bio` starts).
    #[inline]
    pub(crate) fn before(&self, bio: &Request, scope: u32) -> Option<QueuedId> {
        let write = bio.op == Op::Write;
        self.by_end.find(hash(bio.offset, scope, write), |id| {
            let known = &self.requests[id];
            known.end() == bio.offset && known.scope == scope && known.op == bio.op
        })
    }

    /// Returns the request that continues `bio` (it starts where `bio` ends).
    #[inline]
    pub(crate) fn after(&self, bio: &Request, scope: u32) -> Option<QueuedId> {
        let write = bio.op == Op::Write;
        self.by_start.find(hash(bio.end(), scope, write), |id| {
            let known = &self.requests[id];
            known.offset == bio.end() && known.scope == scope && known.op == bio.op
        })
    }

    /// Returns the request that continues request `id`, if merging both would stay within
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

    /// Returns the request that request `id` continues, if merging both would stay within
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

    /// Extends request `id` by `bio`, which lies just before or just after it.
    #[inline]
    pub(crate) fn extend(&mut self, now: Nanos, id: QueuedId, bio: &Request, owner: Owner) {
        self.unindex(id);
        let request = &mut self.requests[id];
        let is_before = bio.offset < request.offset;
        let next = if is_before { request.parts_head } else { NIL };
        let part = self.parts.insert(Part { next, ..Part::new(now, bio, owner) });
        // Parts are in the order of their bytes.
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

    /// Forgets `id`; answers its place and its first part, for [`Queue::take_part`].
    #[inline]
    pub(crate) fn finish(&mut self, id: QueuedId) -> (Place, u32) {
        let Queued { parts_head, place, .. } = self.requests.remove(id);
        (place, parts_head)
    }

    /// Takes a part of a request that is forgotten, and steps to the next in the order of their bytes.
    #[inline]
    pub(crate) fn take_part(&mut self, next: &mut u32) -> Option<Part> {
        (*next != NIL).then(|| {
            let part = self.parts.remove(*next);
            *next = part.next;
            part
        })
    }

    /// Calls `each` with the parts of `id` in the order of their bytes.
    #[inline]
    pub(crate) fn parts(&self, id: QueuedId, mut each: impl FnMut(&Part)) {
        let mut next = self.requests[id].parts_head;
        while next != NIL {
            let part = &self.parts[next];
            each(part);
            next = part.next;
        }
    }

    /// Returns whether `id` is made of one part alone.
    #[inline]
    pub(crate) fn is_single(&self, id: QueuedId) -> bool {
        self.requests[id].parts_head == self.requests[id].parts_tail
    }

    /// Appends `id`, which is on no list, to `list`.
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

    /// Takes `id`, which is on `list`, off it.
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

    /// Puts `id`, which is on no list, just before `place`, which is on `list`.
    pub fn insert_before(&mut self, list: &mut List, id: QueuedId, place: QueuedId) {
        let prev = std::mem::replace(&mut self.requests[place].list_prev, id);
        self.requests[id].list_prev = prev;
        self.requests[id].list_next = place;
        match prev {
            NIL => list.head = id,
            prev => self.requests[prev].list_next = id,
        }
    }

    /// Makes `gone` a part of `kept`, which takes the older position of the two on the list.
    pub fn join_on(&mut self, list: &mut List, kept: QueuedId, gone: QueuedId) {
        if self[gone].added < self[kept].added {
            self.unlink(list, kept);
            self.insert_before(list, kept, gone);
        }
        self.unlink(list, gone);
    }

    /// Returns a queued request as the device gets it.
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

/// Returns whether both lengths together stay within `len_max`.
#[inline]
pub(crate) fn fits(a: u32, b: u32, len_max: u32) -> bool {
    a.checked_add(b).is_some_and(|len| len <= len_max)
}
