//! Emulated devices: models of the core whose I/Os end in wall time, with or without data.
//!
//! The run has its own clock, which advances from event to event, that is, from one arrival or
//! completion to the next. An event is processed, with its exact time, once the wall clock has
//! reached that time. Policy and model therefore behave exactly as in the simulator, however late
//! the host is. (Otherwise, a disk that learns a few microseconds late that its next command is
//! sequential would lose a revolution.) The host's delays are visible only to clients and
//! observers, which use the wall clock.
//!
//! Bytes are transferred to and from a [`Store`] when an I/O ends; without a store there is no
//! content.

use std::collections::BTreeMap;
use std::io;

use forebay_core::{Buf, Device, Flags, Lane, Nanos, Null, Op, Piece, Request, RequestId, Slots};

use crate::wire::source;
use crate::{Clock, Ended, Failure, Lanes, Pool, Store, Waker};

/// Device models as lanes that are driven by a clock.
pub struct Emulated<D, C> {
    devices: Vec<D>,
    content: Option<Content>,
    null: Null,
    clock: C,
    now: Nanos,
    under_way: usize,
}

/// The contents of the modeled devices.
struct Content {
    stores: Vec<Box<dyn Store>>,
    pool: Pool,
    pattern: Buf,
    /// The memory of the I/Os in flight.
    pieces: BTreeMap<(Lane, RequestId), Vec<Piece>>,
}

impl Content {
    /// Transfers the bytes of an I/O that the model has completed.
    fn serve(&mut self, io: &Request, pieces: &[Piece]) -> io::Result<()> {
        let Content { stores, pool, .. } = self;
        let store = &mut stores[usize::from(io.lane)];
        let mut offset = io.offset;
        for &piece in pieces {
            match io.op {
                // The bytes of this read are not needed.
                Op::Read if piece.buf == 0 => {}
                _ if piece.buf == 0 => return Err(io::Error::from_raw_os_error(libc::EINVAL)),
                Op::Read => store.read(offset, pool.view_mut(piece))?,
                _ => store.write(offset, pool.view(piece), io.flags.has(Flags::FUA))?,
            }
            offset += u64::from(piece.len);
        }
        match io.op {
            Op::Flush => store.flush(),
            Op::Trim => store.trim(io.offset, io.len.into()),
            _ => Ok(()),
        }
    }
}

impl<D: Device, C: Clock> Emulated<D, C> {
    /// Creates lanes where lane `i` is `devices[i]`, without contents.
    pub fn new(devices: Vec<D>, clock: C) -> Emulated<D, C> {
        Emulated { devices, content: None, null: Null, clock, now: Nanos::ZERO, under_way: 0 }
    }

    /// Adds contents: the bytes of lane `i` are in `stores[i]`.
    pub fn storing(self, stores: Vec<Box<dyn Store>>) -> Emulated<D, C> {
        assert_eq!(stores.len(), self.devices.len(), "a store for each device");
        let mut pool = Pool::new(0);
        let pattern = pool.constant(source());
        let content = Some(Content { stores, pool, pattern, pieces: BTreeMap::new() });
        Emulated { content, ..self }
    }

    /// Returns the models.
    pub fn devices(&self) -> &[D] {
        &self.devices
    }

    /// Returns the buffer for [`crate::Patterned`]; 0 without content.
    pub fn pattern(&self) -> Buf {
        self.content.as_ref().map_or(0, |content| content.pattern)
    }

    /// Returns the clock and the memory.
    ///
    /// # Panics
    /// Panics if the devices have no content.
    pub(crate) fn with_content(&mut self) -> (&mut C, &mut Pool) {
        let content = self.content.as_mut().expect("devices with bytes behind them");
        (&mut self.clock, &mut content.pool)
    }

    fn next(&self) -> Option<Nanos> {
        self.devices.iter().filter_map(Device::next).min()
    }
}

impl<D: Device, C: Clock> Lanes for Emulated<D, C> {
    fn count(&self) -> usize {
        self.devices.len()
    }

    fn reap(&mut self, next: Nanos, ended: &mut Vec<Ended>) -> io::Result<Nanos> {
        let wall = self.clock.now();
        self.now = self.next().unwrap_or(Nanos::MAX).min(next).min(wall).max(self.now);
        for device in &mut self.devices {
            while device.next() == Some(self.now) {
                let mut completion = device.finish(self.now);
                let mut failure = completion.outcome.err().map(Failure::Emulated);
                if let Some(content) = &mut self.content {
                    let io = &completion.io;
                    let pieces = content.pieces.remove(&(io.lane, io.id)).unwrap_or_default();
                    if failure.is_none()
                        && let Err(error) = content.serve(io, &pieces)
                    {
                        failure = Some(Failure::of(&error));
                    }
                }
                completion.outcome = failure.map_or(Ok(()), |failure| Err(failure.fault()));
                ended.push(Ended { completion, failure });
                self.under_way -= 1;
            }
        }
        Ok(self.now)
    }

    fn wall(&mut self) -> Nanos {
        self.clock.now()
    }

    fn room(&self, lane: Lane) -> bool {
        self.devices[usize::from(lane)].room()
    }

    fn slots(&mut self) -> &mut dyn Slots {
        match &mut self.content {
            Some(content) => &mut content.pool,
            None => &mut self.null,
        }
    }

    fn start(&mut self, now: Nanos, io: Request, pieces: &[Piece]) {
        if let Some(content) = &mut self.content {
            let named: u64 = pieces.iter().map(|piece| u64::from(piece.len)).sum();
            assert!(
                !io.op.moves_data() || named == u64::from(io.len),
                "{io:?} names {named} bytes"
            );
            let other = content.pieces.insert((io.lane, io.id), pieces.to_vec());
            assert!(other.is_none(), "{io:?} has the id of another outstanding I/O");
        }
        self.devices[usize::from(io.lane)].start(now, io);
        self.under_way += 1;
    }

    fn held_up(&mut self) -> Option<(Nanos, Nanos)> {
        None
    }

    fn in_flight(&self) -> usize {
        self.under_way
    }

    fn proceed(&mut self, until: Nanos) -> io::Result<()> {
        self.clock.wait(self.next().unwrap_or(Nanos::MAX).min(until));
        Ok(())
    }

    fn waker(&mut self) -> io::Result<Waker> {
        self.clock.waker()
    }
}
