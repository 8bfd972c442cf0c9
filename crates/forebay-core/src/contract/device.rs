//! Devices, which serve I/Os and determine how long they take.
//!
//! A device model is a state machine like a policy: it receives the start times of I/Os and returns
//! their completion times. Its time never runs backwards and its energy never decreases.

use super::outcome::Outcome;
use super::request::Request;
use super::time::Nanos;

/// The breakdown of a disk's time for one I/O. All zero on devices without moving parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mechanics {
    /// Cylinder under the heads when the I/O started.
    pub cylinder_from: u32,
    /// Cylinder of its first sector.
    pub cylinder_first: u32,
    /// Cylinder under the heads when it was done.
    pub cylinder_last: u32,
    /// Time moving the arm to the first sector's cylinder, settling included.
    pub seek: Nanos,
    /// Time waiting for the first sector to come round.
    pub rotation: Nanos,
    /// Time moving data, head and cylinder switches on the way included.
    pub transfer: Nanos,
}

/// Work of a disk's arm that no I/O waited for, such as emptying the write cache.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WriteBack {
    /// Time moving the arm, settling included.
    pub seek: Nanos,
    /// Time waiting for sectors to come round.
    pub rotation: Nanos,
    /// Time moving data, switches on the way included.
    pub transfer: Nanos,
    /// Times that the heads changed cylinder.
    pub movements: u64,
    /// Cylinders crossed by all moves.
    pub cylinders: u64,
    /// The sum of the squares of cylinders crossed by each.
    pub cylinders_squared: f64,
}

impl WriteBack {
    /// Returns the arm's time.
    pub fn time(&self) -> Nanos {
        self.seek + self.rotation + self.transfer
    }

    /// Records that the heads crossed `cylinders` `times` times; does nothing for no cylinders.
    pub fn moved(&mut self, cylinders: u32, times: u32) {
        if cylinders > 0 {
            self.movements += u64::from(times);
            self.cylinders += u64::from(cylinders) * u64::from(times);
            self.cylinders_squared += f64::from(cylinders).powi(2) * f64::from(times);
        }
    }
}

/// An I/O that a device finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The I/O as it was started.
    pub io: Request,
    /// When the device started the I/O.
    pub started: Nanos,
    /// When the I/O completed.
    pub at: Nanos,
    /// The breakdown of the time.
    pub mechanics: Mechanics,
    /// The outcome of the I/O.
    pub outcome: Outcome,
}

/// Serves I/Os in virtual time.
pub trait Device {
    /// Returns whether another I/O can be started now.
    fn room(&self) -> bool;

    /// Takes an I/O. Called only while there is room, with times that never decrease.
    fn start(&mut self, now: Nanos, io: Request);

    /// Returns when the next I/O will be done; `None` while idle.
    fn next(&self) -> Option<Nanos>;

    /// Returns the I/O that is done at `now`, which is what [`Device::next`] said.
    fn finish(&mut self, now: Nanos) -> Completion;

    /// Joules used since the start of the run.
    fn joules(&self, now: Nanos) -> f64;

    /// Time the device was at work until `now`: with I/Os outstanding, or emptying its write cache.
    fn busy(&self, now: Nanos) -> Nanos;

    /// Returns the minimum time that moving `io`'s data can take: its bytes at media rate, or its
    /// share of a constant-rate server. The sum over a workload is the floor no schedule can go
    /// below.
    fn floor(&self, io: &Request) -> Nanos;

    /// Returns the data written back so far, which no completion reports; nothing without a write
    /// cache.
    fn write_back(&self) -> WriteBack {
        WriteBack::default()
    }

    /// Cylinders of a disk, for expressing head movement in full sweeps; 0 without moving parts.
    fn cylinders(&self) -> u32 {
        0
    }

    /// Bytes the device holds.
    fn capacity(&self) -> u64;

    /// Returns the longest I/O that the device accepts, in bytes.
    fn len_max(&self) -> u32;
}

/// The positions of arm and platters, which a yardstick may use and no real scheduler can know.
///
/// An implementation is a separate model that its user keeps in step, so that a policy still
/// depends only on its calls.
pub trait Positioning {
    /// Returns the time that `io`, which must transfer data, would take if it started now, without
    /// its transfer time.
    fn positioning(&self, now: Nanos, io: &Request) -> Nanos;

    /// `io`, which moves data, is started now.
    fn moved(&mut self, now: Nanos, io: &Request);
}

impl<D: Device + ?Sized> Device for Box<D> {
    fn room(&self) -> bool {
        (**self).room()
    }
    fn start(&mut self, now: Nanos, io: Request) {
        (**self).start(now, io);
    }
    fn next(&self) -> Option<Nanos> {
        (**self).next()
    }
    fn finish(&mut self, now: Nanos) -> Completion {
        (**self).finish(now)
    }
    fn joules(&self, now: Nanos) -> f64 {
        (**self).joules(now)
    }
    fn busy(&self, now: Nanos) -> Nanos {
        (**self).busy(now)
    }
    fn floor(&self, io: &Request) -> Nanos {
        (**self).floor(io)
    }
    fn write_back(&self) -> WriteBack {
        (**self).write_back()
    }
    fn cylinders(&self) -> u32 {
        (**self).cylinders()
    }
    fn capacity(&self) -> u64 {
        (**self).capacity()
    }
    fn len_max(&self) -> u32 {
        (**self).len_max()
    }
}
