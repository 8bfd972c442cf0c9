//! A server of constant rate: one I/O at a time, each with exactly the same duration.
//!
//! This is the unit-service server of capacity planning, and the device that is cheapest to
//! simulate. The length, position and operation of I/Os make no difference; the server has no
//! moving parts, uses no energy and has unlimited capacity.

use crate::contract::{Completion, Device, Flags, Mechanics, Nanos, Op, Request, SpecError};

const NOTHING: Request = Request {
    at: Nanos::ZERO,
    offset: 0,
    id: 0,
    len: 0,
    stream: 0,
    lane: 0,
    op: Op::Read,
    flags: Flags::NONE,
};

/// Serves every I/O in 1/rate seconds, one after another.
#[derive(Clone, Debug)]
pub struct Fixed {
    service: Nanos,
    io: Request,
    started: Nanos,
    done: Option<Nanos>,
    busy: Nanos,
}

impl Fixed {
    /// Returns a server of `iops` I/Os per second, from 0.001 to 1e9. The service time is rounded
    /// to whole nanoseconds.
    pub fn new(iops: f64) -> Result<Fixed, SpecError> {
        if !(0.001..=1e9).contains(&iops) {
            return Err(SpecError(format!(
                "fixed: got a rate of {iops} I/Os per second, expected 0.001 to 1e9"
            )));
        }
        let service = Nanos::from_secs_f64(1.0 / iops);
        Ok(Fixed { service, io: NOTHING, started: Nanos::ZERO, done: None, busy: Nanos::ZERO })
    }

    /// Returns the time of each I/O.
    pub fn service(&self) -> Nanos {
        self.service
    }
}

impl Device for Fixed {
    #[inline]
    fn room(&self) -> bool {
        self.done.is_none()
    }

    #[inline]
    fn start(&mut self, now: Nanos, io: Request) {
        self.io = io;
        self.started = now;
        self.done = Some(now + self.service);
    }

    #[inline]
    fn next(&self) -> Option<Nanos> {
        self.done
    }

    #[inline]
    fn finish(&mut self, now: Nanos) -> Completion {
        self.done = None;
        self.busy += now - self.started;
        Completion {
            io: self.io,
            started: self.started,
            at: now,
            mechanics: Mechanics::default(),
            outcome: Ok(()),
        }
    }

    fn joules(&self, _now: Nanos) -> f64 {
        0.0
    }

    fn busy(&self, now: Nanos) -> Nanos {
        match self.done {
            Some(done) => self.busy + (now.min(done) - self.started),
            None => self.busy,
        }
    }

    #[inline]
    fn floor(&self, _io: &Request) -> Nanos {
        self.service
    }

    fn capacity(&self) -> u64 {
        u64::MAX
    }

    fn len_max(&self) -> u32 {
        u32::MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_io_takes_one_service_time() {
        let mut server = Fixed::new(300.0).unwrap();
        assert_eq!(server.service(), Nanos(3_333_333));
        server.start(Nanos(10), Request { id: 7, ..NOTHING });
        assert!(!server.room());
        assert_eq!(server.busy(Nanos(15)), Nanos(5));
        let at = server.next().unwrap();
        assert_eq!(at, Nanos(3_333_343));
        let done = server.finish(at);
        assert_eq!((done.io.id, done.started, done.at), (7, Nanos(10), at));
        assert!(server.room());
        assert_eq!(server.next(), None);
        assert_eq!(server.busy(Nanos(9_999_999)), Nanos(3_333_333));
    }

    #[test]
    fn absurd_rates_are_refused() {
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 1.1e9] {
            assert!(Fixed::new(rate).unwrap_err().0.contains("0.001 to 1e9"));
        }
        assert_eq!(Fixed::new(1e9).unwrap().service(), Nanos(1));
        assert_eq!(Fixed::new(0.001).unwrap().service(), Nanos::from_secs(1000));
    }
}
