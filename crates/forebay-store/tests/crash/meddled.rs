//! Lanes whose I/Os a test can observe and change.

use std::io;

use forebay_core::{Lane, Nanos, Piece, Request, Slots};
use forebay_live::{Ended, Lanes, Waker};
use forebay_rig::Crash;

/// Observes and changes the I/Os of lanes.
pub(crate) trait Meddle {
    /// Called at each pass of the driver.
    fn pass(&mut self, _lanes: &mut Crash) {}
    /// Called before an I/O begins.
    fn start(&mut self, _lanes: &Crash, _io: &mut Request, _pieces: &[Piece]) {}
    /// Called when an I/O has ended.
    fn end(&mut self, _ended: &mut Ended) {}
}

pub(crate) struct Meddled<M> {
    pub(crate) lanes: Crash,
    pub(crate) by: M,
}

impl<M: Meddle> Lanes for Meddled<M> {
    fn start(&mut self, now: Nanos, mut io: Request, pieces: &[Piece]) {
        self.by.start(&self.lanes, &mut io, pieces);
        self.lanes.start(now, io, pieces);
    }
    fn reap(&mut self, next: Nanos, ended: &mut Vec<Ended>) -> io::Result<Nanos> {
        self.by.pass(&mut self.lanes);
        let before = ended.len();
        let now = self.lanes.reap(next, ended)?;
        ended[before..].iter_mut().for_each(|ended| self.by.end(ended));
        Ok(now)
    }
    fn count(&self) -> usize {
        self.lanes.count()
    }
    fn wall(&mut self) -> Nanos {
        self.lanes.wall()
    }
    fn room(&self, lane: Lane) -> bool {
        self.lanes.room(lane)
    }
    fn slots(&mut self) -> &mut dyn Slots {
        self.lanes.slots()
    }
    fn held_up(&mut self) -> Option<(Nanos, Nanos)> {
        self.lanes.held_up()
    }
    fn in_flight(&self) -> usize {
        self.lanes.in_flight()
    }
    fn proceed(&mut self, until: Nanos) -> io::Result<()> {
        self.lanes.proceed(until)
    }
    fn waker(&mut self) -> io::Result<Waker> {
        self.lanes.waker()
    }
}
