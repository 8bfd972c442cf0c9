//! Finds incomplete requests that touch the same bytes.

use std::collections::BTreeSet;

use super::Active;
use crate::contract::{Op, Request};
use crate::slab::Slab;

/// The longest request of the first class, in bytes. Each class has a limit four times that of the
/// previous one.
const SHORTEST_CLASS_BYTES: u32 = 4 << 10;
const CLASSES: usize = 6;

/// Longer requests are examined individually.
const WIDE_BYTES: u32 = class_bytes(CLASSES - 1);

/// The offsets and keys of active requests, by length class. A request that overlaps another begins
/// at most the longest length of its class before the other.
type ByAddress = [BTreeSet<(u64, u32)>; CLASSES];

/// Active requests by address.
#[derive(Clone, Debug, Default)]
pub(super) struct Overlaps {
    /// Requests that change data, except wide ones. Every request is compared with these.
    changing: ByAddress,
    /// Requests that do not change data, except wide ones.
    reading: ByAddress,
    wide: Vec<u32>,
    /// A result buffer that is kept to reuse its memory.
    pub(super) found: Vec<u32>,
}

impl Overlaps {
    pub(super) fn insert(&mut self, key: u32, request: &Request) {
        match request.len {
            0 => {}
            len if len > WIDE_BYTES => self.wide.push(key),
            _ => drop(self.class(request).insert((request.offset, key))),
        }
    }

    pub(super) fn remove(&mut self, key: u32, request: &Request) {
        match request.len {
            0 => {}
            len if len > WIDE_BYTES => self.wide.retain(|other| *other != key),
            _ => drop(self.class(request).remove(&(request.offset, key))),
        }
    }

    fn class(&mut self, request: &Request) -> &mut BTreeSet<(u64, u32)> {
        let class = (0..CLASSES - 1).find(|class| request.len <= class_bytes(*class));
        let kind = if changes(request) { &mut self.changing } else { &mut self.reading };
        &mut kind[class.unwrap_or(CLASSES - 1)]
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let mut narrow = self.changing.iter().chain(&self.reading);
        narrow.all(BTreeSet::is_empty) && self.wide.is_empty()
    }

    /// Adds to `found` the requests that overlap `request`, if either changes the data. Sorted by
    /// address, with wide requests last.
    pub(super) fn find(&self, request: &Request, active: &Slab<Active>, found: &mut Vec<u32>) {
        if request.len == 0 {
            return;
        }
        let begun = found.len();
        let conflicting = |key: &u32| conflict(&active[*key].request, request);
        let reading = self.reading.iter().enumerate().filter(|_| changes(request));
        for (class, narrow) in self.changing.iter().enumerate().chain(reading) {
            let from = request.offset.saturating_sub(u64::from(class_bytes(class)));
            let near = narrow.range((from, 0)..(request.end(), 0)).map(|&(_, key)| key);
            found.extend(near.filter(conflicting));
        }
        found[begun..].sort_unstable_by_key(|key| (active[*key].request.offset, *key));
        found.extend(self.wide.iter().copied().filter(conflicting));
    }
}

/// Returns the maximum length of requests of a class, in bytes.
const fn class_bytes(class: usize) -> u32 {
    SHORTEST_CLASS_BYTES << (2 * class)
}

fn changes(request: &Request) -> bool {
    matches!(request.op, Op::Write | Op::Trim)
}

/// Returns whether two requests must keep their order.
pub(super) fn conflict(a: &Request, b: &Request) -> bool {
    (changes(a) || changes(b)) && a.offset < b.end() && b.offset < a.end()
}

#[cfg(test)]
mod tests {
    use super::super::NONE;
    use super::*;
    use crate::contract::{Flags, Nanos};

    /// The search must return the same result as examining all requests: sorted by address, with
    /// wide ones last.
    #[test]
    fn overlapping_requests_are_found_in_order() {
        let mut state = 1_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        let mut overlaps = Overlaps::default();
        let (mut active, mut keys) = (Slab::default(), Vec::new());
        for id in 0..3_000 {
            let len = [0, 1, 4_096, 4_097, 70_000, 1 << 20, WIDE_BYTES, WIDE_BYTES + 1];
            let op = [Op::Read, Op::Read, Op::Write, Op::Trim, Op::Flush][random(5) as usize];
            let (len, offset) = (len[random(8) as usize], random(3_000) * 4_096);
            let (at, stream, lane, flags) = (Nanos(0), 0, 0, Flags::NONE);
            let request = Request { at, offset, id, len, stream, lane, op, flags };
            let mut found = vec![7];
            overlaps.find(&request, &active, &mut found);
            let of = |key: &u32| -> &Request { &active[*key].request };
            let is_found = |key: &&u32| len > 0 && of(key).len > 0 && conflict(of(key), &request);
            let sought = keys.iter().filter(is_found).copied();
            let (mut sought, wide): (Vec<u32>, Vec<u32>) =
                sought.partition(|key| of(key).len <= WIDE_BYTES);
            sought.sort_by_key(|key| (of(key).offset, *key));
            assert_eq!(found[1..], [sought, wide].concat());
            let key = active.insert(Active {
                request,
                number: id,
                blockers: 0,
                not_before: Nanos::ZERO,
                overlapped: NONE,
                answer: NONE,
                follower: NONE,
            });
            overlaps.insert(key, &request);
            keys.push(key);
            if keys.len() > 60 {
                let gone = keys.remove(random(60) as usize);
                let request = active.remove(gone).request;
                overlaps.remove(gone, &request);
            }
        }
    }
}
