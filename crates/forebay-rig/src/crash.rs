//! Lanes in memory that perform I/Os in any order, fail some of them, and lose power. They are used
//! by the third driver, which tests durability.
//!
//! A device performs some sectors of an I/O when it receives the I/O and the others when the I/O
//! ends, in an order determined by the seed. A policy that relies on an order that is not
//! guaranteed therefore fails. Written and durable bytes are kept apart ([`Medium`]): after a power
//! cut, everything covered by a completed flush or FUA write is present, and of everything else any
//! subset. The same seed gives the same run.

use std::{io, thread};

use forebay_core::{Fault, Flags, Lane, Nanos, Op, Piece, Request, Slots};

use forebay_live::{Ended, Failure, Lanes, Pool, Waker};

use crate::medium::{Medium, SECTOR, Tear};

/// The number of passes without any work, of media or clients, after which a run counts as stuck.
const STUCK: u32 = 10_000;

/// The faults of a run, and their times.
#[derive(Clone, Debug, Default)]
pub struct Troubles {
    /// The only lane on which I/Os fail; None for all lanes.
    pub lane: Option<Lane>,
    /// One in this many flushes fails; 0 for none.
    pub flushes_one_in: u64,
    /// One in this many reads fails; 0 for none.
    pub reads_one_in: u64,
    /// One in this many writes fails after being performed in part; 0 for none.
    pub writes_one_in: u64,
    /// Sectors that cannot be read, by lane and offset.
    pub bad: Vec<(Lane, u64)>,
    /// The range of passes of the driver during which these sectors cannot be read; None if they
    /// never can.
    pub bad_during: Option<(u64, u64)>,
    /// No lane has space for writes during this range of passes of the driver.
    pub full: Option<(u64, u64)>,
    /// Lanes that disappear, each with the pass of the driver at which it does.
    pub gone: Vec<(Lane, u64)>,
    /// The pass after which the power is cut.
    pub cut_after: Option<u64>,
    /// The kind of data that devices falsely report as durable. If a test of a law passes
    /// nevertheless, the test checks nothing.
    pub lies: Option<Lie>,
    /// The only occasion on which devices lie, counting occasions on which lying makes a
    /// difference; None to lie on all occasions.
    pub lies_at: Option<u64>,
}

/// The ways in which a device can lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// Flushes do nothing.
    Flushes,
    /// FUA writes are treated like other writes.
    Durable,
    /// FUA writes are lost completely.
    Lost,
}

/// An I/O in flight.
struct Flying {
    io: Request,
    started: Nanos,
    pieces: Vec<Piece>,
    data: Vec<u8>,
    /// For each sector, whether it was transferred when the device received the I/O.
    early: Vec<bool>,
    /// The position of a flush: it covers the writes before this position.
    mark: u64,
}

/// Media as lanes.
pub struct Crash {
    media: Vec<Medium>,
    block: u32,
    depth: usize,
    troubles: Troubles,
    pool: Pool,
    flying: Vec<Flying>,
    refused: Vec<Ended>,
    state: u64,
    now: Nanos,
    passes: u64,
    /// The number of occasions to lie so far.
    chances: u64,
    idle: u32,
}

impl Crash {
    /// Creates lanes: lane `i` is `media[i]`, with blocks of `block` bytes and up to `depth` I/Os
    /// at a time.
    pub fn new(
        media: Vec<Medium>,
        block: u32,
        depth: usize,
        seed: u64,
        troubles: Troubles,
    ) -> Crash {
        Crash {
            media,
            block,
            depth,
            troubles,
            pool: Pool::new(0),
            flying: Vec::new(),
            refused: Vec::new(),
            state: seed,
            now: Nanos::ZERO,
            passes: 0,
            chances: 0,
            idle: 0,
        }
    }

    /// Ends all faults.
    pub fn soothe(&mut self) {
        self.troubles = Troubles::default();
    }

    /// Replaces the faults, and resets the number of occasions to lie.
    pub fn trouble(&mut self, troubles: Troubles) {
        (self.troubles, self.chances) = (troubles, 0);
    }

    /// Returns the number of occasions to lie since the faults were set.
    pub fn chances(&self) -> u64 {
        self.chances
    }

    /// Returns the memory, to check which buffers are still held.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Returns the memory, for test sockets that write to it.
    pub fn pool_mut(&mut self) -> &mut Pool {
        &mut self.pool
    }

    /// Kills the process: written data can be read, and is as durable as before. In half of the
    /// cases, the writes in flight are performed completely; otherwise, any of their sectors may be
    /// written.
    pub fn kill(mut self) -> Vec<Medium> {
        self.land(true);
        std::mem::take(&mut self.media)
    }

    /// Cuts the power and returns the media afterwards. Any sectors of the writes in flight may be
    /// written.
    pub fn cut(mut self, tear: Tear) -> Vec<Medium> {
        self.land(false);
        let seed = self.draw();
        for (lane, medium) in self.media.iter_mut().enumerate() {
            medium.cut(seed ^ lane as u64, tear);
        }
        std::mem::take(&mut self.media)
    }

    /// Completes the I/Os in flight in part or, if `may_be_whole`, completely in half of the cases.
    fn land(&mut self, may_be_whole: bool) {
        for flying in std::mem::take(&mut self.flying) {
            if flying.io.op == Op::Write && !self.is_gone(flying.io.lane) {
                let is_whole = may_be_whole && self.below(2) == 0;
                let early = flying.early.iter();
                let some: Vec<bool> = early.map(|_| is_whole || self.below(2) == 0).collect();
                self.write(&flying, |sector| some[sector], false);
            }
            self.give_back(&flying);
        }
    }

    /// Records that a client has sent or received bytes. A run whose clients make progress is not
    /// stuck, even if the media have nothing to do.
    pub fn client_proceeds(&mut self) {
        self.idle = 0;
    }

    fn draw(&mut self) -> u64 {
        forebay_testing::random(&mut self.state)
    }

    fn below(&mut self, count: u64) -> u64 {
        forebay_testing::below(&mut self.state, count)
    }

    fn is_gone(&self, lane: Lane) -> bool {
        let passes = self.passes;
        self.troubles.gone.iter().any(|&(gone, from)| gone == lane && passes >= from)
    }

    fn give_back(&mut self, flying: &Flying) {
        for piece in flying.pieces.iter().filter(|piece| piece.buf != 0) {
            self.pool.give_back(*piece, flying.io.op == Op::Read);
        }
    }

    /// Writes the sectors of an I/O for which `wanted` is true.
    fn write(&mut self, flying: &Flying, wanted: impl Fn(usize) -> bool, durable: bool) {
        let medium = &mut self.media[usize::from(flying.io.lane)];
        for (sector, bytes) in flying.data.chunks(SECTOR).enumerate() {
            if wanted(sector) {
                let offset = flying.io.offset + (sector * SECTOR) as u64;
                medium.write(offset, bytes, durable);
            }
        }
    }

    fn read(&self, flying: &mut Flying, early: bool) {
        let medium = &self.media[usize::from(flying.io.lane)];
        for (sector, bytes) in flying.data.chunks_mut(SECTOR).enumerate() {
            if flying.early[sector] == early {
                medium.read(flying.io.offset + (sector * SECTOR) as u64, bytes);
            }
        }
    }

    /// Starts an I/O on the device, and performs a part of it at once.
    fn begin(&mut self, mut flying: Flying) {
        if !self.is_gone(flying.io.lane) {
            let sectors = flying.data.len() / SECTOR;
            flying.early = (0..sectors).map(|_| self.below(2) == 0).collect();
            match flying.io.op {
                Op::Write => self.write(&flying, |sector| flying.early[sector], false),
                Op::Read => self.read(&mut flying, true),
                _ => {}
            }
        }
        self.flying.push(flying);
    }

    /// Returns the fault with which an I/O ends, if any.
    fn fault(&mut self, io: &Request) -> Option<Fault> {
        if self.is_gone(io.lane) {
            return Some(Fault::Gone);
        }
        let is_bad =
            |&(lane, at): &(Lane, u64)| lane == io.lane && io.offset <= at && at < io.end();
        let is_during = |(from, until)| (from..until).contains(&self.passes);
        let may_be_bad = io.op == Op::Read && self.troubles.bad_during.is_none_or(is_during);
        if may_be_bad && self.troubles.bad.iter().any(is_bad) {
            return Some(Fault::Media);
        }
        let is_full = |(from, until)| (from..until).contains(&self.passes);
        if io.op == Op::Write && self.troubles.full.is_some_and(is_full) {
            return Some(Fault::Full);
        }
        let one_in = match io.op {
            Op::Read => self.troubles.reads_one_in,
            Op::Write => self.troubles.writes_one_in,
            Op::Flush => self.troubles.flushes_one_in,
            _ => 0,
        };
        let one_in = if self.troubles.lane.is_none_or(|lane| lane == io.lane) { one_in } else { 0 };
        (one_in > 0 && self.below(one_in) == 0).then_some(Fault::Media)
    }

    /// Returns whether a lane lies now; called only when lying makes a difference.
    fn lies(&mut self, lie: Lie) -> bool {
        let chance = self.chances;
        let is_asked = self.troubles.lies == Some(lie);
        self.chances += u64::from(is_asked);
        is_asked && self.troubles.lies_at.is_none_or(|at| at == chance)
    }

    /// Ends an I/O.
    fn end(&mut self, mut flying: Flying) -> Ended {
        self.give_back(&flying);
        let io = flying.io;
        let fault = self.fault(&io);
        if fault.is_none() {
            match io.op {
                Op::Write if io.flags.has(Flags::FUA) => {
                    if !self.lies(Lie::Lost) {
                        let durable = !self.lies(Lie::Durable);
                        self.write(&flying, |_| true, durable);
                    }
                }
                Op::Write => self.write(&flying, |_| true, false),
                Op::Read => {
                    self.read(&mut flying, false);
                    let mut at = 0;
                    for piece in &flying.pieces {
                        let end = at + piece.len as usize;
                        // The data of a read without a buffer is discarded.
                        if piece.buf != 0 {
                            self.pool.view_mut(*piece).copy_from_slice(&flying.data[at..end]);
                        }
                        at = end;
                    }
                }
                Op::Flush => {
                    let lane = usize::from(io.lane);
                    if !(self.media[lane].is_loose() && self.lies(Lie::Flushes)) {
                        self.media[lane].flush(flying.mark);
                    }
                }
                Op::Trim => self.media[usize::from(io.lane)].trim(io.offset, io.len.into()),
                Op::Park | Op::Open => {}
            }
        }
        Ended::new(io, flying.started, self.now, fault.map(Failure::Emulated))
    }
}

impl Lanes for Crash {
    fn count(&self) -> usize {
        self.media.len()
    }

    fn reap(&mut self, next: Nanos, ended: &mut Vec<Ended>) -> io::Result<Nanos> {
        self.passes += 1;
        if self.troubles.cut_after.is_some_and(|passes| self.passes > passes) {
            return Err(io::Error::other("the power is gone"));
        }
        ended.append(&mut self.refused);
        let waits = next > self.now;
        if !self.flying.is_empty() && (next == Nanos::MAX || self.below(3) > 0) {
            self.now += if waits { Nanos(1000).min(next - self.now) } else { Nanos::ZERO };
            let which = self.below(self.flying.len() as u64) as usize;
            let flying = self.flying.swap_remove(which);
            let done = self.end(flying);
            ended.push(done);
            self.idle = 0;
        } else if next < Nanos::MAX {
            self.now = self.now.max(next);
            self.idle = 0;
        } else {
            self.idle += 1;
        }
        match self.idle < STUCK {
            true => Ok(self.now),
            false => Err(io::Error::other("stuck: nothing is outstanding and nothing will arrive")),
        }
    }

    fn wall(&mut self) -> Nanos {
        self.now
    }

    fn room(&self, lane: Lane) -> bool {
        self.flying.iter().filter(|flying| flying.io.lane == lane).count() < self.depth
    }

    fn slots(&mut self) -> &mut dyn Slots {
        &mut self.pool
    }

    fn start(&mut self, now: Nanos, io: Request, pieces: &[Piece]) {
        let (block, moves) = (u64::from(self.block), io.op.moves_data());
        let whole = io.offset.is_multiple_of(block) && u64::from(io.len).is_multiple_of(block);
        if moves && !whole {
            return self.refused.push(Ended::new(io, now, now, Some(Failure::Partial)));
        }
        let named: u64 = pieces.iter().map(|piece| u64::from(piece.len)).sum();
        assert!(!moves || named == u64::from(io.len), "{io:?} names {named} bytes");
        if io.op == Op::Write && pieces.iter().any(|piece| piece.buf == 0) {
            return self.refused.push(Ended::new(io, now, now, Some(Failure::Empty)));
        }
        let mut data = Vec::new();
        for piece in pieces {
            if piece.buf != 0 {
                self.pool.lend(*piece, io.op == Op::Read);
            }
            match io.op {
                Op::Write => data.extend_from_slice(self.pool.view(*piece)),
                _ => data.resize(data.len() + piece.len as usize, 0),
            }
        }
        let (pieces, early) = (pieces.to_vec(), vec![false; data.len() / SECTOR]);
        let mark = self.media[usize::from(io.lane)].mark();
        self.begin(Flying { io, started: now, pieces, data, early, mark });
    }

    fn held_up(&mut self) -> Option<(Nanos, Nanos)> {
        None
    }

    fn in_flight(&self) -> usize {
        self.flying.len() + self.refused.len()
    }

    fn proceed(&mut self, _until: Nanos) -> io::Result<()> {
        Ok(())
    }

    fn waker(&mut self) -> io::Result<Waker> {
        Ok(Waker::thread(thread::current()))
    }
}
