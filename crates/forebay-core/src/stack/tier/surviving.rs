//! Tiers that survive restarts: a log on the flash records which sectors are there
//! (`stack/placement_log`).
//!
//! A place is a block of the table. Its name consists of the disk block and one bit for each of its
//! sectors that is on the flash. Every change of sectors is reported to the log. A freed place that
//! a record still names is *retired* until no record does. A flush, or a write with FUA, is
//! answered when all completed writes and their names are durable. Moves write with FUA, so the
//! disk has the data that they remove from the flash.

use std::collections::BTreeMap;

use super::table::{BLOCK, Table};
use super::{Choose, Io, Tiers};
use crate::contract::{Bytes, Flags, Lane, Op, Outcome, Request};
use crate::stack::cached::Bound;
use crate::stack::placed::{Owner, Placement, Plan, Planned};
use crate::stack::placement_log::{Binding, Ended, Event, Name, PlacementLog, Wish};

/// The purpose of the places, as stored in the label of the log.
const PURPOSE: u64 = u64::from_le_bytes(*b"tier\0\0\0\0");
/// Marks the tokens of the log's I/Os.
pub(super) const LOG: u64 = 1 << 63;
/// The number of sectors in a block. Each has one bit in a name, below the block number.
const PART_BITS: u32 = 8;
/// The number of bits of a block number in the table, or of a block number and its sectors in a
/// name. The disk is above them.
const KEY_BITS: u32 = 48;

/// The log of the location table.
#[derive(Clone, Debug)]
pub(super) struct TableLog {
    pub(super) log: PlacementLog,
    /// The number of slots that become free when no record names them.
    pub(super) retired: u32,
}

/// Returns the name of a block with these sectors on the flash.
fn name(key: u64, sectors: u8) -> Name {
    match sectors {
        0 => Name::NONE,
        _ => {
            let (disk, block) = (key >> KEY_BITS, key & ((1 << KEY_BITS) - 1));
            Name::of(disk << KEY_BITS | block << PART_BITS | u64::from(sectors))
        }
    }
}

fn wish(table: &Table, slot: u32) -> Wish {
    Wish::Name(table.at_slot(slot).map_or(Name::NONE, |(key, sectors)| name(key, sectors)))
}

impl<C: Choose> Tiers<C> {
    /// Returns how many bytes of a flash are left for data if it also has a log.
    pub(crate) fn bytes_beside_log(flash_bytes: u64) -> u64 {
        let places = (flash_bytes / BLOCK).min(u32::MAX.into()) as u32;
        flash_bytes.saturating_sub(Binding::log_bytes_of(places))
    }

    /// Adds a log on the flash if `bound` is given.
    pub(crate) fn surviving(mut self, bound: Option<Bound>) -> Tiers<C> {
        let Some(bound) = bound else { return self };
        let places = self.table.places();
        let binding = Binding {
            purpose: PURPOSE,
            id: bound.id,
            pair: bound.pairing.pair,
            disks: self.flash,
            disk_bytes: bound.disk_bytes,
            place_bytes: BLOCK,
            places,
            part_bits: PART_BITS,
        };
        let log = PlacementLog::new(binding, bound, self.flash, LOG);
        self.table.keep(TableLog { log, retired: 0 });
        self
    }

    /// Makes a request wait if the table has not been read yet. Returns whether it must wait.
    pub(super) fn waits_for_log(
        &mut self,
        client: u32,
        request: &Request,
        bytes: Bytes,
        plan: &mut Plan<'_>,
    ) -> bool {
        let kept = self.table.kept.as_mut();
        kept.is_some_and(|it| it.log.defers(client, request, bytes, plan))
    }

    /// Flushes a disk, the flash, and the log for a client.
    pub(super) fn flush(&mut self, client: u32, disk: Lane, plan: &mut Plan<'_>) {
        if let Some(kept) = &mut self.table.kept {
            kept.log.wait(client, disk, plan);
        }
        self.commit(plan);
    }

    /// Handles the completion of a client's write. A write with FUA waits for a record in the log,
    /// unless it is already recorded.
    pub(super) fn make_durable(&mut self, planned: &Planned, io: &Io, plan: &mut Plan<'_>) {
        let (Owner::Client(client), Some(kept)) = (planned.owner, &self.table.kept) else { return };
        if io.op != Op::Write || !planned.flags.has(Flags::FUA) {
            return;
        }
        let is_settled = |block: u64| {
            let found = self.table.slot_of(io.disk, block);
            found.is_some_and(|(slot, key, sectors)| kept.log.is_settled(slot, name(key, sectors)))
        };
        let end = (io.offset + u64::from(io.len)).div_ceil(BLOCK);
        let is_durable = match io.on_flash {
            true => (io.offset / BLOCK..end).all(is_settled),
            false => kept.log.is_quiet(),
        };
        if !is_durable {
            self.flush(client, io.disk, plan);
        }
    }

    /// Frees places that are only named in the log.
    pub(super) fn free_retired(&mut self, plan: &mut Plan<'_>) {
        if self.table.kept.as_ref().is_some_and(|kept| kept.retired > 0) {
            self.commit(plan);
        }
    }

    /// Begins a round of the log, unless a round is in progress or there is nothing to record.
    fn commit(&mut self, plan: &mut Plan<'_>) {
        if let Some(mut kept) = self.table.kept.take() {
            kept.log.begin(plan, |slot| wish(&self.table, slot));
            self.table.kept = Some(kept);
        }
    }

    /// Handles the completion of an I/O of the log.
    pub(super) fn log_done(&mut self, io: &Planned, outcome: Outcome, plan: &mut Plan<'_>) {
        let Some(kept) = &mut self.table.kept else { return };
        match kept.log.done(io, outcome, plan) {
            Event::None => {}
            Event::Opened(outcome) => self.log_opened(outcome, plan),
            Event::Ended(ended) => self.round_ended(ended, plan),
        }
    }

    /// Executes the requests that waited for the table, or refuses them if it cannot be read.
    fn log_opened(&mut self, outcome: Outcome, plan: &mut Plan<'_>) {
        let Some(kept) = &mut self.table.kept else { return };
        let early = kept.log.deferred();
        let named = kept.log.table().filter_map(|(slot, name)| Some((slot, name.key()?)));
        let named: BTreeMap<u32, u64> = named.collect();
        for (slot, key) in named.into_iter().filter(|_| outcome.is_ok()) {
            let (disk, rest) = ((key >> KEY_BITS) as Lane, key & ((1 << KEY_BITS) - 1));
            let (block, sectors) = (rest >> PART_BITS, rest as u8);
            self.table.found(slot, disk, block, sectors);
            if let Some(migration) = &mut self.migration {
                migration.placed(disk, block * BLOCK, BLOCK as u32);
            }
        }
        for (client, request, bytes) in early {
            if outcome.is_ok() {
                self.place(client, &request, bytes, plan);
            }
            plan.release(client, outcome);
        }
    }

    /// Handles the end of a round of the log.
    fn round_ended(&mut self, ended: Ended, plan: &mut Plan<'_>) {
        for change in &ended.recorded {
            if change.name == Name::NONE {
                self.table.unnamed(change.place);
            }
            // The entry may have changed again during the round.
            let is_wanted = wish(&self.table, change.place) == Wish::Name(change.name);
            if let Some(kept) = self.table.kept.as_mut().filter(|_| !is_wanted) {
                kept.log.note(change.place);
            }
        }
        for client in ended.waiters {
            plan.release(client, ended.outcome);
        }
        if self.table.kept.as_ref().is_some_and(|kept| kept.log.is_awaited()) {
            self.commit(plan);
        }
    }
}
