//! Data on two tiers: disks, and a flash device that they share.
//!
//! A request is split according to where its data is stored (the location table, [`table`]). Data
//! on the flash is read and updated there. The rest goes to the scheduler of its disk, unless its
//! writes are directed to the flash, either by [`Choose`] when the request arrives, or by the
//! disk's elevator later ([`crate::elevator::Elevator::divert`]). Disks are lanes 0 to n - 1; the
//! flash is lane n.
//!
//! A sector is on the flash from the completion of its write there. A write that completes on the
//! disk, or a trim, removes its sectors from the flash. Overlapping writes that are outstanding at
//! the same time may take effect in either order, as on any block device. Otherwise a read returns
//! the data written last, regardless of the order in which devices complete.
//!
//! Data may also be moved according to how often it is used ([`migrate`]). Moves are I/Os like
//! others, in the background stream. Data that is being moved is not placed on the flash in any
//! other way.
//!
//! If there is no space on the flash, a write goes to the disk and is counted. The same applies to
//! a write that is not aligned to sectors or fails on the flash; a move that fails is cancelled.
//! Data that is only on the flash and cannot be read is lost, which is reported to the client.
//!
//! The table is in memory, so nothing on the flash is found after a restart, unless there is a log
//! ([`surviving`]).

mod beneath;
mod completion;
mod migrate;
mod moves;
mod rolling;
mod slots;
mod surviving;
mod table;
#[cfg(test)]
mod tests;

use crate::contract::{Bytes, Completion, Figure, Gauge, Lane, Op, Outcome, Request};
use crate::slab::Slab;
use crate::stack::placed::{Diverted, Placement, Plan, Planned};
use migrate::Migration;
use table::{Piece, SECTOR, Table};

pub(crate) use beneath::Tier;
pub(crate) use migrate::MigrateConfig;
pub(crate) use rolling::Rolling;

/// Decides whether the write of an arriving request is sent to the flash.
pub(crate) trait Choose {
    /// Returns whether a write goes to the flash. Called for every read and write, in order of
    /// arrival.
    fn is_for_flash(&mut self, request: &Request) -> bool;

    /// Called when a stream number is assigned to a new submitter.
    fn begin_stream(&mut self, _stream: u32) {}
}

/// Leaves all decisions to the disks' elevators.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Later;

impl Choose for Later {
    #[inline]
    fn is_for_flash(&mut self, _request: &Request) -> bool {
        false
    }
}

/// The purpose of an I/O.
#[derive(Clone, Copy, Debug)]
enum For {
    /// Serve a client request.
    Client,
    /// Serve a request that a disk's scheduler diverted.
    Diverted(u32),
    /// Move data between the tiers.
    Move,
}

/// A planned I/O.
#[derive(Clone, Copy, Debug)]
struct Io {
    purpose: For,
    /// Whether the I/O is on the flash.
    on_flash: bool,
    op: Op,
    /// The location of the data on the disk, even if the I/O is on the flash.
    disk: Lane,
    offset: u64,
    len: u32,
}

/// A diverted request that is being served by the flash.
#[derive(Clone, Copy, Debug)]
struct Offloaded {
    request: Request,
    left: u32,
    outcome: Outcome,
}

/// Counts for the results.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    offloaded_requests: u64,
    offloaded_bytes: u64,
    exhausted_requests: u64,
    exhausted_bytes: u64,
    flash_reads: u64,
    flash_updates: u64,
    split_requests: u64,
    used_bytes_max: u64,
}

/// A placement of data on two tiers.
pub(crate) struct Tiers<C> {
    /// The lane of the flash.
    flash: Lane,
    table: Table,
    choose: C,
    /// The planned I/Os, by token.
    ios: Slab<Io>,
    offloaded: Slab<Offloaded>,
    migration: Option<Migration>,
    /// Writes that failed on the flash and wait for the end of a move, which writes to the same
    /// location on the disk.
    stalled: Vec<Planned>,
    pieces: Vec<Piece>,
    reserved: Vec<Piece>,
    counts: Counts,
}

impl<C: Choose> Tiers<C> {
    /// Creates tiers of disks, and of a flash of which `flash_bytes` may be used.
    pub(crate) fn new(disks: u16, flash_bytes: u64, choose: C) -> Tiers<C> {
        Tiers {
            flash: disks.max(1),
            table: Table::new(flash_bytes),
            choose,
            ios: Slab::default(),
            offloaded: Slab::default(),
            migration: None,
            stalled: Vec::new(),
            pieces: Vec::new(),
            reserved: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Adds migration of hot extents to the flash and of cold extents back.
    pub(crate) fn migrating(self, config: Option<MigrateConfig>) -> Tiers<C> {
        Tiers { migration: config.map(Migration::new), ..self }
    }

    /// Splits a read or write according to where its data is stored. `io` is the whole request, on
    /// its disk.
    fn data(&mut self, io: &Planned, request: &Request, plan: &mut Plan<'_>) {
        let (lane, is_write) = (io.lane, io.op == Op::Write);
        let light = self.choose.is_for_flash(request);
        let mut pieces = std::mem::take(&mut self.pieces);
        let mut reserved = std::mem::take(&mut self.reserved);
        self.table.split(lane, io.offset, io.len, &mut pieces);
        self.counts.split_requests += u64::from(pieces.len() > 1);
        for piece in &pieces {
            let wanted = light && is_write;
            if piece.flash.is_some() {
                let counts = &mut self.counts;
                *if is_write { &mut counts.flash_updates } else { &mut counts.flash_reads } += 1;
                self.on_flash(For::Client, io, piece, plan);
            } else if wanted && self.reserve(lane, piece.offset, piece.len, &mut reserved, plan) {
                for piece in &reserved {
                    self.on_flash(For::Client, io, piece, plan);
                }
            } else {
                self.on_disk(For::Client, &cut(io, piece.offset, piece.len), plan);
            }
        }
        self.reserved = reserved;
        self.pieces = pieces;
    }

    /// Plans an I/O on a disk.
    fn on_disk(&mut self, purpose: For, io: &Planned, plan: &mut Plan<'_>) {
        let Planned { lane: disk, op, offset, len, .. } = *io;
        if matches!(op, Op::Write | Op::Trim) && len > 0 {
            self.table.count_write(disk, offset, len, true);
        }
        let token = self.ios.insert(Io { purpose, on_flash: false, op, disk, offset, len });
        plan.io(Planned { token: token.into(), ..*io });
    }

    /// Plans the part `piece` of the disk I/O `io` on the flash.
    fn on_flash(&mut self, purpose: For, io: &Planned, piece: &Piece, plan: &mut Plan<'_>) {
        let Piece { offset, len, flash } = *piece;
        let Some(place) = flash else { return };
        let (disk, op) = (io.lane, io.op);
        self.table.begin(disk, offset, len);
        let token = self.ios.insert(Io { purpose, on_flash: true, op, disk, offset, len }).into();
        let io = cut(io, offset, len);
        plan.io(Planned { lane: self.flash, offset: place, token, ..io });
    }

    /// Reserves space on the flash for a write. Returns false, and counts the write, if there is
    /// none.
    fn reserve(
        &mut self,
        disk: Lane,
        offset: u64,
        len: u32,
        pieces: &mut Vec<Piece>,
        plan: &mut Plan<'_>,
    ) -> bool {
        if self.is_moving(disk, offset, len) {
            return false;
        }
        let aligned = (offset | u64::from(len)).is_multiple_of(SECTOR);
        if !aligned || !self.table.reserve(disk, offset, len, pieces) {
            self.counts.exhausted_requests += 1;
            self.counts.exhausted_bytes += u64::from(len);
            self.free_retired(plan);
            return false;
        }
        self.counts.offloaded_requests += 1;
        self.counts.offloaded_bytes += u64::from(len);
        self.counts.used_bytes_max = self.counts.used_bytes_max.max(self.table.used_bytes());
        if let Some(migration) = &mut self.migration {
            migration.placed(disk, offset, len);
        }
        true
    }
}

/// Returns the part of `io` of `len` bytes starting at `offset`, which is an offset on the device
/// like that of `io`.
fn cut(io: &Planned, offset: u64, len: u32) -> Planned {
    io.part((offset - io.offset) as u32, len)
}

impl<C: Choose> Placement for Tiers<C> {
    fn begin_stream(&mut self, stream: u32) {
        self.choose.begin_stream(stream);
    }

    fn place(&mut self, client: u32, request: &Request, bytes: Bytes, plan: &mut Plan<'_>) {
        let placed = Request { lane: request.lane.min(self.flash - 1), ..*request };
        if self.waits_for_log(client, request, bytes, plan) {
            return;
        }
        self.migrate(plan, Some(&placed));
        let io = Planned::whole(client, &placed, bytes);
        if request.op.moves_data() && request.len > 0 {
            return self.data(&io, &placed, plan);
        }
        if request.op == Op::Open {
            return (0..=self.flash).for_each(|lane| {
                self.on_disk(For::Client, &Planned { lane, ..io }, plan);
            });
        }
        if request.op == Op::Flush && self.table.kept.is_some() {
            return self.flush(client, placed.lane, plan);
        }
        if request.op == Op::Flush {
            let everything = Piece { offset: io.offset, len: 0, flash: Some(0) };
            self.on_flash(For::Client, &io, &everything, plan);
        }
        self.on_disk(For::Client, &io, plan);
    }

    fn done(&mut self, planned: &Planned, outcome: Outcome, plan: &mut Plan<'_>) -> Outcome {
        self.ended_io(planned, outcome, plan)
    }

    fn ended(&mut self, done: &Completion) {
        let Completion { io, outcome, .. } = done;
        if io.lane != self.flash && outcome.is_ok() && self.clears(io) {
            self.table.clear(io.lane, io.offset, io.len);
        }
    }

    fn divert(&mut self, io: &Request, parts: &[Diverted], plan: &mut Plan<'_>) -> bool {
        self.offload(io, parts, plan)
    }

    fn figures(&self) -> Vec<Figure> {
        let counts = &self.counts;
        let mut figures = vec![
            ("offloaded_requests", counts.offloaded_requests as f64),
            ("offloaded_bytes", counts.offloaded_bytes as f64),
            ("exhausted_requests", counts.exhausted_requests as f64),
            ("exhausted_bytes", counts.exhausted_bytes as f64),
            ("flash_reads", counts.flash_reads as f64),
            ("flash_updates", counts.flash_updates as f64),
            ("split_requests", counts.split_requests as f64),
            ("flash_used_bytes", self.table.used_bytes() as f64),
            ("flash_used_bytes_max", counts.used_bytes_max as f64),
        ];
        if let Some(Migration { done, void, moved_bytes, .. }) = &self.migration {
            figures.push(("extents_to_flash", done[0] as f64));
            figures.push(("extents_to_disk", done[1] as f64));
            figures.push(("moves_void", *void as f64));
            figures.push(("moved_bytes", *moved_bytes as f64));
        }
        figures
    }

    fn gauges(&self) -> Vec<Gauge> {
        self.table.kept.iter().flat_map(|kept| kept.log.gauges()).collect()
    }
}
