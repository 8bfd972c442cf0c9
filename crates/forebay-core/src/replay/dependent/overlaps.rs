//! Which requests that are not complete touch the same bytes.

use std::collections::BTreeSet;

use super::Active;
use crate::contract::request::{Op, Request};
use crate::slab::Slab;

/// Longer requests are looked at one by one.
const WIDE_BYTES: u32 = 4 << 20;

/// Active requests by address.
#[derive(Clone, Debug, Default)]
pub(super) struct Overlaps {
    /// Offset and key of those that are not wide.
    narrow: BTreeSet<(u64, u32)>,
    wide: Vec<u32>,
    /// Kept for its room.
    pub(super) found: Vec<u32>,
}

impl Overlaps {
    pub(super) fn insert(&mut self, key: u32, request: &Request) {
        match request.len {
            0 => {}
            len if len > WIDE_BYTES => self.wide.push(key),
            _ => drop(self.narrow.insert((request.offset, key))),
        }
    }

    pub(super) fn remove(&mut self, key: u32, request: &Request) {
        match request.len {
            0 => {}
            len if len > WIDE_BYTES => self.wide.retain(|other| *other != key),
            _ => drop(self.narrow.remove(&(request.offset, key))),
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.narrow.is_empty() && self.wide.is_empty()
    }

    /// Adds those that `request` overlaps, where either changes the data, to `found`.
    pub(super) fn find(&self, request: &Request, active: &Slab<Active>, found: &mut Vec<u32>) {
        if request.len == 0 {
            return;
        }
        let from = request.offset.saturating_sub(u64::from(WIDE_BYTES));
        let near = self.narrow.range((from, 0)..(request.end(), 0)).map(|&(_, key)| key);
        let conflicting = |key: &u32| conflict(&active[*key].request, request);
        found.extend(near.chain(self.wide.iter().copied()).filter(conflicting));
    }
}

/// Whether two requests must keep their order.
pub(super) fn conflict(a: &Request, b: &Request) -> bool {
    let changes = |request: &Request| matches!(request.op, Op::Write | Op::Trim);
    (changes(a) || changes(b)) && a.offset < b.end() && b.offset < a.end()
}
