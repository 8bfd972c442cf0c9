//! Data on two tiers: disks and the flash device they share.
//!
//! A request is cut by where its data are (the location table, [`table`]). What is on the flash is
//! read and updated there. The rest goes to its disk's scheduler, unless somebody decides that its
//! writes are for the flash: whoever [`Choose`]s when it arrives, or the disk's elevator later
//! ([`crate::elevator::Elevator::divert`]). Disks are lanes 0 to n - 1, the flash is lane n.
//!
//! Sectors are on the flash from the completion of their write there on; a write that completes on
//! the disk, or a trim, clears what the flash holds of them. Writes that overlap and are under way
//! at the same time may take effect in either order, as on any block device; otherwise a read finds
//! what was written last, in whatever order devices complete.
//!
//! Data may also be moved by how often they are used ([`migrate`]); moves are I/Os like others, of
//! nobody's stream. What is being moved is not placed on the flash otherwise.
//!
//! Without room on the flash a write goes to the disk and is counted. So does one that does not
//! begin and end with a sector, and one that the flash fails; a move that fails comes to nothing. What
//! the flash holds alone and fails to give is lost, and the client is told.
//!
//! The table is in memory: after a restart nothing on the flash is found again, unless there is a log of
//! it ([`surviving`]).

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

use crate::contract::bytes::Bytes;
use crate::contract::device::Completion;
use crate::contract::outcome::Outcome;
use crate::contract::policy::{Figure, Gauge};
use crate::contract::request::{Lane, Op, Request};
use crate::slab::Slab;
use crate::stack::placed::{Diverted, Placement, Plan, Planned};
use migrate::Migration;
use table::{Piece, SECTOR, Table};

pub(crate) use beneath::Tier;
pub(crate) use migrate::MigrateConfig;
pub(crate) use rolling::Rolling;

/// Decides when a request arrives whether its write is for the flash.
pub(crate) trait Choose {
    /// Told of every read and write, in the order they come.
    fn is_for_flash(&mut self, request: &Request) -> bool;
}

/// Nothing is decided when a request arrives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Later;

impl Choose for Later {
    #[inline]
    fn is_for_flash(&mut self, _request: &Request) -> bool {
        false
    }
}

/// For what an I/O is done.
#[derive(Clone, Copy, Debug)]
enum For {
    /// A client request.
    Client,
    /// A request that a disk's scheduler diverted.
    Diverted(u32),
    /// A move.
    Move,
}

/// An I/O that was planned.
#[derive(Clone, Copy, Debug)]
struct Io {
    purpose: For,
    /// Whether it is on the flash.
    on_flash: bool,
    op: Op,
    /// Where the data belong on the disk.
    disk: Lane,
    offset: u64,
    len: u32,
}

/// A diverted request on its way.
#[derive(Clone, Copy, Debug)]
struct Offloaded {
    request: Request,
    left: u32,
    outcome: Outcome,
}

/// What happened, for the results.
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

/// Two tiers.
pub(crate) struct Tiers<C> {
    /// The lane of the flash.
    flash: Lane,
    table: Table,
    choose: C,
    /// By token.
    ios: Slab<Io>,
    offloaded: Slab<Offloaded>,
    migration: Option<Migration>,
    /// Writes that the flash failed and that wait for a move to end: it writes there too.
    stalled: Vec<Planned>,
    pieces: Vec<Piece>,
    reserved: Vec<Piece>,
    counts: Counts,
}

impl<C: Choose> Tiers<C> {
    /// Disks, and a flash after them of which `flash_bytes` may be used.
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

    /// Adds migration of hot extents to the flash and of cold ones back.
    pub(crate) fn migrating(self, config: Option<MigrateConfig>) -> Tiers<C> {
        Tiers { migration: config.map(Migration::new), ..self }
    }

    /// Reads and writes: cut by where the data are. `io` is the whole, on its disk.
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

    /// An I/O on a disk.
    fn on_disk(&mut self, purpose: For, io: &Planned, plan: &mut Plan<'_>) {
        let Planned { lane: disk, op, offset, len, .. } = *io;
        if matches!(op, Op::Write | Op::Trim) && len > 0 {
            self.table.count_write(disk, offset, len, true);
        }
        let token = self.ios.insert(Io { purpose, on_flash: false, op, disk, offset, len });
        plan.io(Planned { token: token.into(), ..*io });
    }

    /// The part of an I/O on a disk that is where `piece` is on the flash.
    fn on_flash(&mut self, purpose: For, io: &Planned, piece: &Piece, plan: &mut Plan<'_>) {
        let Piece { offset, len, flash } = *piece;
        let Some(place) = flash else { return };
        let (disk, op) = (io.lane, io.op);
        self.table.begin(disk, offset, len);
        let token = self.ios.insert(Io { purpose, on_flash: true, op, disk, offset, len }).into();
        let io = cut(io, offset, len);
        plan.io(Planned { lane: self.flash, offset: place, token, ..io });
    }

    /// Room on the flash for a write, unless there is none, which is counted.
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

/// Returns the part of `io` of `len` bytes from `offset`, where both count from its device's first
/// byte.
fn cut(io: &Planned, offset: u64, len: u32) -> Planned {
    io.part((offset - io.offset) as u32, len)
}

impl<C: Choose> Placement for Tiers<C> {
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
