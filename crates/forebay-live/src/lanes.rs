//! Lanes, which serve a policy's I/Os in wall time.
//!
//! Invariants: the times returned by [`Lanes::reap`] never decrease; every started I/O ends exactly
//! once, with or without a failure.

use std::{fmt, io};

use forebay_core::{Completion, Fault, Lane, Mechanics, Nanos, Piece, Request, Slots};

use crate::Waker;

/// Why an I/O failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Failure {
    /// The system's error number.
    Os(i32),
    /// Fewer bytes were transferred than requested.
    Short,
    /// The range is beyond the end of the target, or longer than the driver accepts. The I/O was
    /// not attempted.
    Beyond,
    /// The range begins or ends within a block of the target. The I/O was not attempted.
    Partial,
    /// The I/O is a write, but its request carries no data. The I/O was not attempted.
    Empty,
    /// The device is emulated, and the fault was simulated.
    Emulated(Fault),
}

impl Failure {
    /// Converts an error of the system.
    pub(crate) fn of(error: &io::Error) -> Failure {
        Failure::Os(error.raw_os_error().unwrap_or(libc::EIO))
    }

    /// Returns the corresponding fault for policies.
    pub fn fault(self) -> Fault {
        match self {
            Failure::Os(libc::ENOSPC | libc::EDQUOT | libc::EFBIG) => Fault::Full,
            Failure::Os(libc::ENODEV | libc::ENXIO | libc::EBADF | libc::ESTALE) => Fault::Gone,
            Failure::Os(libc::EINVAL | libc::EOPNOTSUPP | libc::EROFS | libc::EPERM) => {
                Fault::Refused
            }
            Failure::Os(_) | Failure::Short => Fault::Media,
            Failure::Beyond | Failure::Partial | Failure::Empty => Fault::Refused,
            Failure::Emulated(fault) => fault,
        }
    }

    /// Returns the name of the failure in results: the system's own name (such as `ENOSPC`) if it
    /// has one.
    pub fn name(self) -> String {
        let known = [
            (libc::EIO, "EIO"),
            (libc::ENOSPC, "ENOSPC"),
            (libc::EFBIG, "EFBIG"),
            (libc::EINVAL, "EINVAL"),
            (libc::ENODEV, "ENODEV"),
            (libc::ENXIO, "ENXIO"),
            (libc::EROFS, "EROFS"),
            (libc::EPERM, "EPERM"),
            (libc::EBADF, "EBADF"),
            (libc::EDQUOT, "EDQUOT"),
            (libc::EOPNOTSUPP, "EOPNOTSUPP"),
            (libc::EREMOTEIO, "EREMOTEIO"),
            (libc::ETIMEDOUT, "ETIMEDOUT"),
            (libc::ESTALE, "ESTALE"),
            (libc::EAGAIN, "EAGAIN"),
            (libc::ENOMEM, "ENOMEM"),
            (libc::EBADMSG, "EBADMSG"),
            (libc::ENOLINK, "ENOLINK"),
            (libc::ECANCELED, "ECANCELED"),
        ];
        match self {
            Failure::Short => "short".into(),
            Failure::Beyond => "beyond".into(),
            Failure::Partial => "partial".into(),
            Failure::Empty => "empty".into(),
            Failure::Emulated(fault) => fault.name().into(),
            Failure::Os(number) => {
                let name = known.iter().find(|(known, _)| *known == number);
                name.map_or_else(|| format!("errno-{number}"), |(_, name)| (*name).into())
            }
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Os(number) => io::Error::from_raw_os_error(*number).fmt(f),
            Failure::Short => f.write_str("fewer bytes transferred than requested"),
            Failure::Beyond => f.write_str("beyond the target; not tried"),
            Failure::Partial => f.write_str("in the middle of a block; not attempted"),
            Failure::Empty => f.write_str("no bytes to write; not attempted"),
            Failure::Emulated(fault) => write!(f, "an emulated fault: {}", fault.name()),
        }
    }
}

/// An I/O that ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// The I/O, its times and its outcome.
    pub completion: Completion,
    /// Why it failed, if it did.
    pub failure: Option<Failure>,
}

impl Ended {
    /// Describes an I/O that lasted from `started` to `at`, and its failure, if any.
    pub fn new(io: Request, started: Nanos, at: Nanos, failure: Option<Failure>) -> Ended {
        let outcome = failure.map_or(Ok(()), |failure| Err(failure.fault()));
        let mechanics = Mechanics::default();
        Ended { completion: Completion { io, started, at, mechanics, outcome }, failure }
    }
}

/// Executes I/Os in wall time. Lane `i` is the `i`-th device.
pub trait Lanes {
    /// Returns the number of lanes.
    fn count(&self) -> usize;

    /// Adds completed I/Os to `ended` and returns the current time, which is the time of all of
    /// these completions. Does not wait. `next` is the time of the driver's own next event:
    /// emulated lanes do not advance their clock beyond it.
    ///
    /// # Errors
    /// The driver itself fails; a failed I/O is not such an error.
    fn reap(&mut self, next: Nanos, ended: &mut Vec<Ended>) -> io::Result<Nanos>;

    /// Returns the time of the wall clock since the start of the run. On real lanes, this is the
    /// time that [`Lanes::reap`] returns; on emulated lanes, it may be later.
    fn wall(&mut self) -> Nanos;

    /// Returns whether `lane` accepts another I/O.
    fn room(&self, lane: Lane) -> bool;

    /// Returns the memory of the buffers that policies refer to.
    fn slots(&mut self) -> &mut dyn Slots;

    /// Accepts an I/O of whole blocks, whose bytes are `pieces`, in order of address. The next
    /// [`Lanes::proceed`] submits it. The caller must have checked that the lane accepts another
    /// I/O; `now` is the time of the last [`Lanes::reap`].
    fn start(&mut self, now: Nanos, io: Request, pieces: &[Piece]);

    /// Returns a waker that wakes [`Lanes::proceed`] from any thread. This must be called on the
    /// thread that drives the lanes.
    ///
    /// # Errors
    /// The system lacks the resources for a waker.
    fn waker(&mut self) -> io::Result<Waker>;

    /// Returns the number of I/Os that were started and have not ended.
    fn in_flight(&self) -> usize;

    /// Submits the started I/Os, then waits until an I/O may have ended, or until shortly before
    /// `until`. From then on it does not wait, so that a caller that calls it repeatedly is on
    /// time.
    ///
    /// # Errors
    /// The driver itself fails.
    fn proceed(&mut self, until: Nanos) -> io::Result<()>;

    /// Returns the start and end of the delay since the last call during which submitting I/Os
    /// blocked the driver because a target could not accept them.
    fn held_up(&mut self) -> Option<(Nanos, Nanos)>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_have_the_systems_names() {
        assert_eq!(Failure::Os(libc::ENOSPC).name(), "ENOSPC");
        assert_eq!(Failure::Os(99_999).name(), "errno-99999");
        assert!(Failure::Os(libc::ENOSPC).to_string().contains("No space left"));
        assert_eq!(Failure::of(&io::Error::other("?")), Failure::Os(libc::EIO));
    }
}
