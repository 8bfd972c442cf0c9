//! Stores requests that wait for their completions, by device.

use std::collections::{BTreeMap, HashMap, VecDeque};

use forebay_core::{Nanos, Op};

use super::super::event::{Category, SECTOR_BYTES, Span};
use super::super::layers::{Layers, name};
use crate::cover::Outstanding;
use crate::{Dictionary, Record};

/// The device of all requests in formats that do not name a device.
pub(crate) const ONLY_DEVICE: u32 = u32::MAX;

pub(super) struct Pending {
    /// The record of the request. Its volume is the position in [`Volumes`] until the record is
    /// returned.
    pub(super) record: Record,
    pub(super) sector: u64,
    /// The number of sectors that have not completed yet.
    pub(super) awaited: u64,
    /// When the last of its parts completed, if others are still awaited.
    pub(super) partly: Option<Nanos>,
    /// Whether any of its parts completed with an error.
    pub(super) failed: bool,
    /// Whether an empty completion must follow.
    pub(super) trailing: bool,
    pub(super) done: bool,
    /// The number of sectors that were also completed by other requests outstanding at the same
    /// time.
    pub(super) covered: u64,
    /// Whether the request was returned to the scheduler and awaits its next issue.
    pub(super) requeued: bool,
    /// How many sectors have completed at lower devices, and when the last of them completed.
    pub(super) below: (u64, Option<Nanos>),
    /// Whether the request was remapped to a lower device, and whether it belongs to a request at a
    /// higher one.
    pub(super) remapped: bool,
    pub(super) continues: bool,
    /// The reason why the request is not counted, or None if it is counted.
    pub(super) excluded: Option<Exclusion>,
}

/// The reason why a request is not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exclusion {
    /// The request was issued again, and only the later issue is counted.
    IssuedAgain,
    /// The request is counted at a lower layer.
    Above,
}

/// The operation, the first sector and the length in bytes of a request.
pub(super) type Place = (u8, u64, u32);

/// The outstanding requests to a device.
#[derive(Default)]
pub(super) struct Volume {
    pub(super) device: u32,
    /// The number of the volume in the dictionary, once one of its requests has been counted.
    number: Option<u32>,
    /// The disk, if this is a partition whose completions name the disk.
    disk: Option<u32>,
    pub(super) reads: Outstanding,
    pub(super) writes: Outstanding,
    pub(super) discards: Outstanding,
    /// Empty flushes, oldest first.
    pub(super) flushes: VecDeque<u64>,
    /// Writes that end with an empty completion, by sector, oldest first.
    pub(super) barriers: BTreeMap<u64, VecDeque<u64>>,
    /// Outstanding requests by place, oldest first, if issues are the arrivals.
    pub(super) issued: HashMap<Place, VecDeque<u64>>,
    /// Whether any request completed at this device itself.
    pub(super) completes: bool,
    /// The number of requests that completed at lower devices.
    pub(super) completed_below: u32,
    /// The number of requests that are counted here, but were neither remapped to a lower device
    /// nor from a higher one.
    pub(super) unremapped: u64,
    pub(super) own: u64,
    /// If one of several empty flushes completed: when, and how long it took.
    pub(super) flushed: Option<(Nanos, Nanos)>,
}

#[derive(Default)]
pub(super) struct Volumes {
    list: Vec<Volume>,
    places: HashMap<u32, u32>,
}

impl Volumes {
    /// Returns the position of the volume for a device, which is added if necessary.
    pub(super) fn place(&mut self, device: u32) -> u32 {
        let next = self.list.len() as u32;
        let place = *self.places.entry(device).or_insert(next);
        if place == next {
            self.list.push(Volume { device, ..Volume::default() });
        }
        place
    }

    /// Returns the number of a volume in the dictionary, to which it is added if necessary.
    pub(super) fn number(&mut self, place: u32, dictionary: &mut Dictionary) -> u32 {
        let Some(volume) = self.list.get_mut(place as usize) else { return 0 };
        if let Some(number) = volume.number {
            return number;
        }
        let name = match volume.disk.unwrap_or(volume.device) {
            ONLY_DEVICE => "disk".to_owned(),
            device => name(device),
        };
        // A disk and its partitions may have the same name.
        let known = dictionary.volumes.iter().position(|known| *known == name);
        let number = known.unwrap_or_else(|| {
            dictionary.volumes.push(name);
            dictionary.volumes.len() - 1
        });
        *volume.number.insert(number as u32)
    }

    pub(super) fn list(&self) -> &[Volume] {
        &self.list
    }

    pub(super) fn get(&mut self, place: u32) -> Option<&mut Volume> {
        self.list.get_mut(place as usize)
    }

    /// Returns the position of the volume for a device, if the device has requests.
    pub(super) fn find_place(&self, device: u32) -> Option<u32> {
        self.places.get(&device).copied()
    }

    pub(super) fn find(&mut self, device: u32) -> Option<&mut Volume> {
        let place = self.find_place(device)?;
        self.get(place)
    }

    /// Returns the positions of volumes that may be partitions of a disk.
    pub(super) fn partitions(&self, disk: u32) -> Vec<u32> {
        let is_part = |volume: &Volume| {
            volume.disk == Some(disk)
                || volume.disk.is_none() && Layers::partition_of(volume.device, disk)
        };
        let parts = self.list.iter().zip(0..).filter(|(volume, _)| is_part(volume));
        parts.map(|(_, place)| place).collect()
    }
}

impl Volume {
    /// Records that completions at `disk` end the requests to this partition.
    pub(super) fn belongs_to(&mut self, disk: u32) {
        self.disk = Some(disk);
    }

    pub(super) fn direction(&mut self, op: Op) -> &mut Outstanding {
        match op {
            Op::Write => &mut self.writes,
            Op::Trim => &mut self.discards,
            Op::Read | Op::Flush | Op::Park | Op::Open => &mut self.reads,
        }
    }

    /// Returns the newest outstanding request for a sector, or the newest flush.
    pub(super) fn newest(&self, sector: u64, is_flush: bool) -> Option<u64> {
        let flush = self.flushes.back().copied().filter(|_| is_flush);
        let all = [&self.reads, &self.writes, &self.discards];
        flush.or_else(|| all.into_iter().filter_map(|one| one.newest(sector)).max())
    }

    pub(super) fn claims(&self) -> usize {
        self.reads.claims() + self.writes.claims() + self.discards.claims()
    }
}

impl Pending {
    pub(super) fn place(&self) -> Place {
        (self.record.op as u8, self.sector, self.record.len)
    }

    /// Returns whether another request for all of its sectors has completed since the request was
    /// issued. If the request never gets its own completion, both were the same request.
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
    ///
    /// `has_own` says whether the device issues requests to a driver, in which case it also has
    /// flushes of its own. Other devices (LVM, md) complete the flush of a request as it arrived.
    pub(super) fn end_of_flush(&mut self, span: &Span, issued: bool, has_own: bool) -> Option<u64> {
        let category = span.category;
        if issued {
            return category.has(Category::FLUSH).then(|| self.flushes.pop_front())?;
        }
        if !category.has(Category::WRITE) || category.has(Category::FLUSH) && has_own {
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

    /// Stops waiting for the oldest of all requests.
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
