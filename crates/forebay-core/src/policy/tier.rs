//! Data on two tiers: disks and the flash device they share.
//!
//! A request is cut by where its data are (the location table, [`table`]). What is on the flash is
//! read and updated there. The rest goes to its disk's scheduler, unless somebody decides that its
//! writes are for the flash: whoever [`Choose`]s when it arrives, or the disk's elevator later
//! ([`Elevator::divert`]). Disks are lanes 0 to n - 1, the flash is lane n.
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
//! begin and end with a sector.

mod completion;
mod migrate;
mod moves;
mod rolling;
mod slots;
mod table;
#[cfg(test)]
mod tests;

use super::block::{BlockLayer, Elevator};
use super::placements::Scheduler;
use super::{Figure, Finished, Policy};
use crate::device::Completion;
use crate::request::{Lane, Op, Request, RequestId};
use crate::slab::Slab;
use crate::time::Nanos;
use migrate::Migration;
use table::{Piece, SECTOR, Table};

pub(super) use migrate::MigrateConfig;
pub(super) use rolling::Rolling;

/// A disk's scheduler, which may know of requests that are better done elsewhere.
pub(super) trait Diverting: Policy {
    /// The next of these.
    fn divert(&mut self, now: Nanos) -> Option<Request>;
    /// It is done elsewhere.
    fn gone(&mut self, io: &Request);
    /// There is no room elsewhere.
    fn keep(&mut self, io: &Request);
}

impl<E: Elevator> Diverting for BlockLayer<E> {
    #[inline]
    fn divert(&mut self, now: Nanos) -> Option<Request> {
        BlockLayer::divert(self, now)
    }
    fn gone(&mut self, io: &Request) {
        BlockLayer::gone(self, io);
    }
    fn keep(&mut self, io: &Request) {
        BlockLayer::keep(self, io);
    }
}

/// A scheduler from the list diverts nothing.
impl Diverting for Scheduler {
    #[inline]
    fn divert(&mut self, _now: Nanos) -> Option<Request> {
        None
    }
    fn gone(&mut self, _io: &Request) {}
    fn keep(&mut self, _io: &Request) {}
}

/// Decides when a request arrives whether its write is for the flash.
pub(super) trait Choose {
    /// Told of every read and write, in the order they come.
    fn is_for_flash(&mut self, request: &Request) -> bool;
}

/// Nothing is decided when a request arrives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Later;

impl Choose for Later {
    #[inline]
    fn is_for_flash(&mut self, _request: &Request) -> bool {
        false
    }
}

/// The stream of moves; those of clients follow it.
const MOVES: u32 = 0;

/// A client request on its way.
#[derive(Clone, Copy, Debug)]
struct Client {
    request: Request,
    left: u32,
    /// When the first of its pieces was admitted.
    admitted: Nanos,
}

/// For what an I/O is done.
#[derive(Clone, Copy, Debug)]
enum For {
    /// A client request.
    Client(u32),
    /// A request that a disk's scheduler diverted.
    Diverted(u32),
    /// A move.
    Move,
}

/// An I/O given to a lane's scheduler.
#[derive(Clone, Copy, Debug)]
struct Io {
    purpose: For,
    op: Op,
    /// Where the data belong on the disk.
    disk: Lane,
    offset: u64,
    len: u32,
}

/// A diverted request on its way.
#[derive(Clone, Copy, Debug)]
struct Diverted {
    request: Request,
    since: Nanos,
    left: u32,
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
pub(super) struct Tiers<D, C> {
    disks: Vec<D>,
    flash: Scheduler,
    table: Table,
    choose: C,
    clients: Slab<Client>,
    ios: Slab<Io>,
    diverted: Slab<Diverted>,
    migration: Option<Migration>,
    pieces: Vec<Piece>,
    reserved: Vec<Piece>,
    /// Of the disks, and of the flash.
    finished: [Finished; 2],
    counts: Counts,
}

impl<D: Diverting, C: Choose> Tiers<D, C> {
    /// A scheduler for each disk and one for the flash, of which `flash_bytes` may be used.
    pub(super) fn new(disks: Vec<D>, flash: Scheduler, flash_bytes: u64, choose: C) -> Tiers<D, C> {
        Tiers {
            table: Table::new(flash_bytes),
            disks,
            flash,
            choose,
            clients: Slab::default(),
            ios: Slab::default(),
            diverted: Slab::default(),
            migration: None,
            pieces: Vec::new(),
            reserved: Vec::new(),
            finished: Default::default(),
            counts: Counts::default(),
        }
    }

    /// The same, moving what is hot to the flash and what is cold away.
    pub(super) fn migrating(self, config: Option<MigrateConfig>) -> Tiers<D, C> {
        Tiers { migration: config.map(Migration::new), ..self }
    }

    /// Reads and writes: cut by where the data are.
    fn submit_data(&mut self, now: Nanos, client: u32, request: &Request) {
        let lane = request.lane;
        let light = self.choose.is_for_flash(request);
        let mut pieces = std::mem::take(&mut self.pieces);
        self.table.split(lane, request.offset, request.len, &mut pieces);
        self.counts.split_requests += u64::from(pieces.len() > 1);
        self.clients[client].left = pieces.len() as u32;
        let mut reserved = std::mem::take(&mut self.reserved);
        for piece in &pieces {
            if piece.flash.is_some() {
                let count = match request.op {
                    Op::Write => &mut self.counts.flash_updates,
                    _ => &mut self.counts.flash_reads,
                };
                *count += 1;
                self.submit_flash(now, For::Client(client), request, lane, piece);
            } else if light
                && request.op == Op::Write
                && self.reserve(lane, piece.offset, piece.len, &mut reserved)
            {
                self.clients[client].left += reserved.len() as u32 - 1;
                for piece in &reserved {
                    self.submit_flash(now, For::Client(client), request, lane, piece);
                }
            } else {
                self.submit_disk(now, client, request, piece);
            }
        }
        self.reserved = reserved;
        self.pieces = pieces;
    }

    fn submit_disk(&mut self, now: Nanos, client: u32, request: &Request, piece: &Piece) {
        let (disk, op) = (request.lane, request.op);
        let Piece { offset, len, .. } = *piece;
        if matches!(op, Op::Write | Op::Trim) && len > 0 {
            self.table.count_write(disk, offset, len, true);
        }
        let purpose = For::Client(client);
        let id = RequestId::from(self.ios.insert(Io { purpose, op, disk, offset, len }));
        let io = Request { at: now, offset, id, len, lane: 0, ..*request };
        self.disks[usize::from(disk)].submit(now, io);
    }

    /// An I/O to where a piece is on the flash.
    fn submit_flash(&mut self, now: Nanos, purpose: For, of: &Request, disk: Lane, piece: &Piece) {
        let Piece { offset, len, flash } = *piece;
        let Some(place) = flash else { return };
        self.table.begin(disk, offset, len);
        let id = RequestId::from(self.ios.insert(Io { purpose, op: of.op, disk, offset, len }));
        self.flash.submit(now, Request { at: now, offset: place, id, len, lane: 0, ..*of });
    }

    /// Room on the flash for a write, unless there is none, which is counted.
    fn reserve(&mut self, disk: Lane, offset: u64, len: u32, pieces: &mut Vec<Piece>) -> bool {
        if self.migration.as_ref().is_some_and(|moves| moves.is_moving(disk, offset, len)) {
            return false;
        }
        let aligned = offset.is_multiple_of(SECTOR) && u64::from(len).is_multiple_of(SECTOR);
        if !aligned || !self.table.reserve(disk, offset, len, pieces) {
            self.counts.exhausted_requests += 1;
            self.counts.exhausted_bytes += u64::from(len);
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

    /// Sends what the disks' schedulers do not want to the flash.
    fn divert(&mut self, now: Nanos) {
        for lane in 0..self.disks.len() {
            while let Some(request) = self.disks[lane].divert(now) {
                self.offload(now, lane as Lane, &request);
            }
        }
    }

    fn offload(&mut self, now: Nanos, lane: Lane, request: &Request) {
        let mut pieces = std::mem::take(&mut self.pieces);
        let is_move = request.stream == MOVES;
        if !is_move && self.reserve(lane, request.offset, request.len, &mut pieces) {
            self.disks[usize::from(lane)].gone(request);
            let left = pieces.len() as u32;
            let key = self.diverted.insert(Diverted { request: *request, since: now, left });
            for piece in &pieces {
                self.submit_flash(now, For::Diverted(key), request, lane, piece);
            }
        } else {
            self.disks[usize::from(lane)].keep(request);
        }
        self.pieces = pieces;
    }
}

impl<D: Diverting, C: Choose> Policy for Tiers<D, C> {
    fn submit(&mut self, now: Nanos, request: Request) {
        let last = self.disks.len() as Lane - 1;
        // Background work has a stream of its own, next to the others.
        let stream = request.stream.wrapping_add(1);
        let placed = Request { lane: request.lane.min(last), stream, ..request };
        let client = self.clients.insert(Client { request, left: 0, admitted: Nanos::MAX });
        self.migrate(now, Some(&placed));
        if request.op.moves_data() && request.len > 0 {
            self.submit_data(now, client, &placed);
            return;
        }
        let piece = Piece { offset: request.offset, len: request.len, flash: None };
        self.clients[client].left = 1 + u32::from(request.op == Op::Flush);
        if request.op == Op::Flush {
            let everything = Piece { offset: 0, len: 0, flash: Some(0) };
            self.submit_flash(now, For::Client(client), &placed, placed.lane, &everything);
        }
        self.submit_disk(now, client, &placed, &piece);
    }

    fn dispatch(&mut self, now: Nanos, lane: Lane) -> Option<Request> {
        self.divert(now);
        let flash = self.disks.len();
        let io = match usize::from(lane) {
            disk if disk < flash => self.disks[disk].dispatch(now, 0),
            _ => self.flash.dispatch(now, 0),
        }?;
        Some(Request { lane, stream: io.stream.wrapping_sub(1), ..io })
    }

    fn complete(&mut self, now: Nanos, done: &Completion, finished: &mut Finished) {
        let lane = done.io.lane;
        let beneath = Completion { io: Request { lane: 0, ..done.io }, ..*done };
        if usize::from(lane) == self.disks.len() {
            self.flash_done(now, &beneath, finished);
            return;
        }
        if self.clears(lane, &done.io) {
            self.table.clear(lane, done.io.offset, done.io.len);
        }
        self.disk_done(now, lane, &beneath, finished);
    }

    fn wakeup(&self) -> Option<Nanos> {
        self.disks.iter().filter_map(Policy::wakeup).chain(self.flash.wakeup()).min()
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
}
