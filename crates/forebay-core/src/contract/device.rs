//! Devices, which serve I/Os and determine how long they take.
//!
//! A device model is a state machine like a policy: it receives I/Os with their start times and
//! returns their completion times. Its time never runs backwards and its energy never decreases.

use super::outcome::Outcome;
use super::request::Request;
use super::time::Nanos;

/// The breakdown of a disk's time for one I/O. All zero on devices without moving parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mechanics {
    /// The cylinder under the heads when the I/O started.
    pub cylinder_from: u32,
    /// The cylinder of the first sector of the I/O.
    pub cylinder_first: u32,
    /// The cylinder under the heads when the I/O completed.
    pub cylinder_last: u32,
    /// The time moving the arm to the first sector's cylinder, including settling.
    pub seek: Nanos,
    /// The time waiting for the first sector to arrive under the head.
    pub rotation: Nanos,
    /// The time transferring data, including head and cylinder switches on the way.
    pub transfer: Nanos,
}

/// Work of a disk's arm that no I/O waited for, such as writing back the write cache.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WriteBack {
    /// The time moving the arm, including settling.
    pub seek: Nanos,
    /// The time waiting for sectors to arrive under the head.
    pub rotation: Nanos,
    /// The time transferring data, including head and cylinder switches on the way.
    pub transfer: Nanos,
    /// How often the heads moved to another cylinder.
    pub movements: u64,
    /// The total number of cylinders crossed.
    pub cylinders: u64,
    /// The sum of the squared lengths of all movements, in cylinders.
    pub cylinders_squared: f64,
}

impl WriteBack {
    /// Returns the total time of the arm.
    pub fn time(&self) -> Nanos {
        self.seek + self.rotation + self.transfer
    }

    /// Records `times` movements across `cylinders` cylinders each; does nothing if `cylinders` is
    /// 0.
    pub fn moved(&mut self, cylinders: u32, times: u32) {
        if cylinders > 0 {
            self.movements += u64::from(times);
            self.cylinders += u64::from(cylinders) * u64::from(times);
            self.cylinders_squared += f64::from(cylinders).powi(2) * f64::from(times);
        }
    }
}

/// The completion of an I/O by a device.
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

    /// Starts an I/O. Called only while the device accepts another I/O, with times that never
    /// decrease.
    fn start(&mut self, now: Nanos, io: Request);

    /// Returns when the next I/O will complete; `None` while the device is idle.
    fn next(&self) -> Option<Nanos>;

    /// Returns the I/O that completes at `now`, which must be the time that [`Device::next`]
    /// returned.
    fn finish(&mut self, now: Nanos) -> Completion;

    /// Returns the energy used since the start of the run, in joules.
    fn joules(&self, now: Nanos) -> f64;

    /// Returns how long the device was busy until `now`, either with I/Os or with emptying its
    /// write cache.
    fn busy(&self, now: Nanos) -> Nanos;

    /// Returns the minimum time that transferring the data of `io` can take: at the media rate, or
    /// as a share of a constant-rate server. No schedule can serve a workload in less than the sum
    /// of these times.
    fn floor(&self, io: &Request) -> Nanos;

    /// Returns the write-back work so far, which no completion reports; empty without a write
    /// cache.
    fn write_back(&self) -> WriteBack {
        WriteBack::default()
    }

    /// Returns the number of cylinders of a disk, for expressing head movement in full sweeps; 0
    /// without moving parts.
    fn cylinders(&self) -> u32 {
        0
    }

    /// Returns the capacity in bytes.
    fn capacity(&self) -> u64;

    /// Returns the longest I/O that the device accepts, in bytes.
    fn len_max(&self) -> u32;
}

/// The positions of arm and platters, which only a yardstick may use because no real scheduler can
/// know them.
///
/// An implementation is a separate model that its user keeps synchronized with the device, so that
/// a policy still depends only on its calls.
pub trait Positioning {
    /// Returns the time that `io` would take if it started now, without its transfer time. `io`
    /// must transfer data.
    fn positioning(&self, now: Nanos, io: &Request) -> Nanos;

    /// Records that `io`, which transfers data, starts now.
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
