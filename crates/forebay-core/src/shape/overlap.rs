//! Finds unfinished requests that touch the same bytes.
//!
//! Addresses are divided into buckets; a bucket lists the requests that touch it in order of
//! arrival. A request longer than [`WIDE_BYTES`] is in no bucket. Instead, all later requests are
//! compared with it, and it is assumed to overlap all earlier ones, which can only delay it.

use crate::contract::{Op, Request};
use crate::index::{Index, spread};
use crate::slab::Slab;

use super::pending::Pending;

const BUCKET_BITS: u32 = 18;
/// Requests of this length or longer are not listed in buckets.
const WIDE_BYTES: u32 = 4 << 20;
const NONE: u32 = u32::MAX;

/// An entry of a bucket's list.
#[derive(Clone, Copy, Debug)]
struct Link {
    key: u32,
    older: u32,
    newer: u32,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    number: u64,
    oldest: u32,
    newest: u32,
    /// The number of requests in the list that change data. If it is 0, reads need not search the
    /// list.
    changes: u32,
}

/// The unfinished requests by address.
#[derive(Clone, Debug)]
pub(super) struct Overlaps {
    index: Index,
    buckets: Slab<Bucket>,
    links: Slab<Link>,
    wide: Vec<u32>,
}

#[inline]
fn changes(request: &Request) -> bool {
    matches!(request.op, Op::Write | Op::Trim)
}

/// Returns whether two requests must keep their order.
#[inline]
fn conflict(a: &Request, b: &Request) -> bool {
    (changes(a) || changes(b)) && a.offset < b.end() && b.offset < a.end()
}

/// Returns the buckets that `request` touches.
#[inline]
fn touched(request: &Request) -> std::ops::Range<u64> {
    if request.len == 0 {
        return 0..0;
    }
    (request.offset >> BUCKET_BITS)..(((request.end() - 1) >> BUCKET_BITS) + 1)
}

impl Overlaps {
    pub(super) fn new() -> Overlaps {
        Overlaps {
            index: Index::new(),
            buckets: Slab::default(),
            links: Slab::default(),
            wide: Vec::new(),
        }
    }

    #[inline]
    pub(super) fn is_wide(request: &Request) -> bool {
        request.len > WIDE_BYTES
    }

    #[inline]
    fn bucket(&self, number: u64) -> Option<u32> {
        self.index.find(spread(number), |id| self.buckets[id].number == number)
    }

    /// Returns the buckets that may contain requests in conflict with `request`.
    #[inline]
    fn shared(&self, request: &Request) -> impl Iterator<Item = &Bucket> {
        let looks = changes(request);
        let buckets = touched(request).filter_map(|number| self.bucket(number));
        buckets.map(|id| &self.buckets[id]).filter(move |bucket| looks || bucket.changes > 0)
    }

    pub(super) fn insert(&mut self, key: u32, request: &Request) {
        if Overlaps::is_wide(request) {
            return self.wide.push(key);
        }
        for number in touched(request) {
            let id = self.bucket(number).unwrap_or_else(|| {
                let id =
                    self.buckets.insert(Bucket { number, oldest: NONE, newest: NONE, changes: 0 });
                self.index.insert(spread(number), id);
                id
            });
            let older = self.buckets[id].newest;
            let link = self.links.insert(Link { key, older, newer: NONE });
            match older {
                NONE => self.buckets[id].oldest = link,
                older => self.links[older].newer = link,
            }
            self.buckets[id].newest = link;
            self.buckets[id].changes += u32::from(changes(request));
        }
    }

    pub(super) fn remove(&mut self, key: u32, request: &Request) {
        if Overlaps::is_wide(request) {
            return self.wide.retain(|other| *other != key);
        }
        for number in touched(request) {
            let Some(id) = self.bucket(number) else { continue };
            self.unlink(id, key);
            self.buckets[id].changes -= u32::from(changes(request));
            if self.buckets[id].oldest == NONE {
                self.index.remove(spread(number), id);
                self.buckets.remove(id);
            }
        }
    }

    /// Removes `key`, which must exist, from the list of bucket `id`. The list is searched from
    /// both ends, because `key` is near an end: the first classes have the newest requests, and the
    /// last class is served from the oldest request on.
    fn unlink(&mut self, id: u32, key: u32) {
        let Bucket { oldest, newest, .. } = self.buckets[id];
        let (mut at, mut other) = (oldest, newest);
        while self.links[at].key != key {
            if self.links[other].key == key {
                at = other;
                break;
            }
            (at, other) = (self.links[at].newer, self.links[other].older);
        }
        let Link { older, newer, .. } = self.links.remove(at);
        match older {
            NONE => self.buckets[id].oldest = newer,
            older => self.links[older].newer = newer,
        }
        match newer {
            NONE => self.buckets[id].newest = older,
            newer => self.links[newer].older = older,
        }
    }

    /// Returns the highest class among the requests that the newly arrived `request` must wait for.
    /// No class is above `last`.
    pub(super) fn highest_class(
        &self,
        request: &Request,
        pending: &Slab<Pending>,
        last: usize,
    ) -> Option<usize> {
        let class = |key: &u32| {
            let known = &pending[*key];
            conflict(&known.request, request).then_some(known.class)
        };
        let mut highest = self.wide.iter().filter_map(class).max();
        for bucket in self.shared(request) {
            let mut at = bucket.newest;
            while at != NONE && highest.is_none_or(|highest| highest < last) {
                highest = highest.max(class(&self.links[at].key));
                at = self.links[at].older;
            }
        }
        highest
    }

    /// Returns whether `held` must wait for an earlier request.
    pub(super) fn is_after_any(&self, held: &Pending, pending: &Slab<Pending>) -> bool {
        let before = |key: u32| {
            pending[key].number < held.number && conflict(&pending[key].request, &held.request)
        };
        if self.wide.iter().any(|key| before(*key)) {
            return true;
        }
        self.shared(&held.request).any(|bucket| {
            let mut at = bucket.oldest;
            while at != NONE && pending[self.links[at].key].number < held.number {
                if before(self.links[at].key) {
                    return true;
                }
                at = self.links[at].newer;
            }
            false
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::pace::Moment;
    use super::*;
    use crate::contract::{Bytes, Flags, Nanos};
    use proptest::prelude::*;

    fn pending(number: u64, op: Op, offset: u64, len: u32, class: usize) -> Pending {
        let (at, stream, lane, flags) = (Nanos::ZERO, 0, 0, Flags::NONE);
        let request = Request { at, offset, id: number, len, stream, lane, op, flags };
        Pending::new(Moment::plain(Nanos::ZERO), (request, Bytes::NONE), class, number, false)
    }

    proptest! {
        /// The search must return the same result as examining all unfinished requests.
        #[test]
        fn finds_what_looking_at_all_finds(
            calls in prop::collection::vec(
                (0usize..4, 0u64..30, 1u32..12, 0usize..3, any::<bool>(), 0usize..40), 1..200),
            long in 1u32..5,
        ) {
            let mut overlaps = Overlaps::new();
            let mut known: Slab<Pending> = Slab::default();
            let mut keys: Vec<u32> = Vec::new();
            for (number, (op, place, pages, class, removes, at)) in calls.into_iter().enumerate() {
                let op = [Op::Read, Op::Write, Op::Trim, Op::Read][op];
                let new = pending(number as u64, op, place << 16, pages * long * 100_000, class);
                let old = || keys.iter().map(|key| known[*key]);
                let all = old().filter(|other| conflict(&other.request, &new.request));
                let expected = all.map(|other| other.class).max();
                prop_assert_eq!(overlaps.highest_class(&new.request, &known, 2), expected);
                for held in old() {
                    let before = old().any(|other| {
                        other.number < held.number && conflict(&other.request, &held.request)
                    });
                    prop_assert_eq!(overlaps.is_after_any(&held, &known), before);
                }
                let key = known.insert(new);
                overlaps.insert(key, &new.request);
                keys.push(key);
                if removes {
                    let key = keys.remove(at % keys.len());
                    overlaps.remove(key, &known.remove(key).request);
                }
            }
        }
    }
}
