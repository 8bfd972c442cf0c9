//! Requests that wait for their completions, and the outstanding requests of each device.

use std::collections::{BTreeMap, HashMap, VecDeque};

use forebay_core::{Nanos, Op};

use super::super::event::{Category, SECTOR_BYTES, Span};
use crate::cover::Outstanding;
use crate::trace::{Dictionary, Record};

pub(super) struct Pending {
    pub(super) record: Record,
    pub(super) sector: u64,
    /// The sectors that have not completed yet.
    pub(super) awaited: u64,
    /// Whether an empty completion must follow.
    pub(super) trailing: bool,
    pub(super) done: bool,
    /// Its sectors that were completed by other requests outstanding at the same time.
    pub(super) covered: u64,
    /// Whether it was issued again and is counted as the later request.
    pub(super) issued_again: bool,
}

/// The operation, first sector and bytes of a request.
pub(super) type Place = (u8, u64, u32);

/// The outstanding requests of one device.
#[derive(Default)]
pub(super) struct Volume {
    pub(super) reads: Outstanding,
    pub(super) writes: Outstanding,
    pub(super) discards: Outstanding,
    /// Empty flushes, oldest first.
    pub(super) flushes: VecDeque<u64>,
    /// Writes that end with an empty completion, by sector, oldest first.
    pub(super) barriers: BTreeMap<u64, VecDeque<u64>>,
    /// Outstanding requests by place, oldest first, if issues are the arrivals.
    pub(super) issued: HashMap<Place, VecDeque<u64>>,
    /// When one of several empty flushes completed, and how long it took.
    pub(super) flushed: Option<(Nanos, Nanos)>,
}

#[derive(Default)]
pub(super) struct Volumes {
    list: Vec<Volume>,
    numbers: HashMap<u32, u32>,
}

impl Volumes {
    pub(super) fn number(&mut self, device: u32, dictionary: &mut Dictionary) -> u32 {
        *self.numbers.entry(device).or_insert_with(|| {
            self.list.push(Volume::default());
            dictionary.volumes.push(format!("{},{}", device >> 20, device & 0xf_ffff));
            (dictionary.volumes.len() - 1) as u32
        })
    }

    pub(super) fn get(&mut self, number: u32) -> Option<&mut Volume> {
        self.list.get_mut(number as usize)
    }

    pub(super) fn find(&mut self, device: u32) -> Option<&mut Volume> {
        let number = *self.numbers.get(&device)?;
        self.get(number)
    }
}

impl Volume {
    pub(super) fn direction(&mut self, op: Op) -> &mut Outstanding {
        match op {
            Op::Write => &mut self.writes,
            Op::Trim => &mut self.discards,
            Op::Read | Op::Flush | Op::Park | Op::Open => &mut self.reads,
        }
    }

    pub(super) fn claims(&self) -> usize {
        self.reads.claims() + self.writes.claims() + self.discards.claims()
    }
}

impl Pending {
    pub(super) fn place(&self) -> Place {
        (self.record.op as u8, self.sector, self.record.len)
    }

    /// Returns whether another request over all of its sectors has completed since it was issued.
    /// If it never gets its own completion, it was the same request.
    pub(super) fn is_doubtful(&self) -> bool {
        self.record.latency.is_none()
            && self.covered > 0
            && self.covered >= self.end() - self.sector
    }

    pub(super) fn end(&self) -> u64 {
        self.sector.saturating_add(u64::from(self.record.len).div_ceil(SECTOR_BYTES))
    }
}

impl Volume {
    /// Returns the request that an empty completion ends.
    pub(super) fn end_of_flush(&mut self, span: &Span, issued: bool) -> Option<u64> {
        let category = span.category;
        if issued {
            return category.has(Category::FLUSH).then(|| self.flushes.pop_front())?;
        }
        if !category.has(Category::WRITE) || category.has(Category::FLUSH) {
            return None;
        }
        match self.barriers.get_mut(&span.sector) {
            Some(ids) => {
                let id = ids.pop_front();
                if ids.is_empty() {
                    self.barriers.remove(&span.sector);
                }
                id
            }
            None => self.flushes.pop_front(),
        }
    }

    /// Stops waiting for the oldest request of all.
    pub(super) fn forget(&mut self, id: u64, pending: &Pending) {
        if pending.awaited > 0 && pending.record.op != Op::Flush {
            self.direction(pending.record.op).forget(id, pending.sector, pending.end());
        }
        if let Some(ids) = self.issued.get_mut(&pending.place()) {
            ids.retain(|&other| other != id);
            if ids.is_empty() {
                self.issued.remove(&pending.place());
            }
        }
        if self.flushes.front() == Some(&id) {
            self.flushes.pop_front();
        }
        if pending.trailing
            && let Some(ids) = self.barriers.get_mut(&pending.sector)
        {
            ids.retain(|&other| other != id);
            if ids.is_empty() {
                self.barriers.remove(&pending.sector);
            }
        }
    }
}
