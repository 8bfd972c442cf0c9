//! A device that fails: any model with injected faults.
//!
//! A lane whose device is gone answers at once; a media fault is detected after the time of the
//! I/O. Which I/Os fail depends only on their number and position, so a run is repeatable.

use std::collections::VecDeque;

use crate::contract::{
    Completion, Device, Fault, Lane, Mechanics, Nanos, Request, SpecError, WriteBack,
};
use crate::index::spread;

/// The condition under which I/Os fail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum When {
    /// All I/Os from this time on fail, because the lane disappears.
    From(Nanos),
    /// Reads and writes that touch this range fail: its offset and the offset after it.
    Range(u64, u64),
    /// One in this many reads and writes fails, chosen by a hash of its number.
    OneIn(u64),
}

/// A failure to inject.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Failure {
    /// The lane that fails; `None` means all lanes.
    pub lane: Option<Lane>,
    /// The condition under which I/Os fail.
    pub when: When,
}

/// The forms that [`Failure::parse`] accepts, for help and messages.
pub const FAILURES: &str = "[lane=N:]from-s=SECONDS, range=OFFSET+BYTES or one-in=N";

impl Failure {
    /// Parses `[lane=N:]from-s=SECONDS`, `[lane=N:]range=OFFSET+BYTES` or `[lane=N:]one-in=N`.
    ///
    /// # Errors
    /// If `text` has a different form.
    pub fn parse(text: &str) -> Result<Failure, SpecError> {
        let wrong = || SpecError(format!("got '{text}', expected {FAILURES}"));
        let (lane, rest) = match text.strip_prefix("lane=") {
            None => (None, text),
            Some(rest) => {
                let (lane, rest) = rest.split_once(':').ok_or_else(wrong)?;
                (Some(lane.parse().map_err(|_| wrong())?), rest)
            }
        };
        let (key, value) = rest.split_once('=').ok_or_else(wrong)?;
        let when = match key {
            "from-s" => {
                let seconds: f64 = value.parse().map_err(|_| wrong())?;
                let known = (0.0..=1e9).contains(&seconds);
                When::From(known.then(|| Nanos::from_secs_f64(seconds)).ok_or_else(wrong)?)
            }
            "range" => {
                let (first, bytes) = value.split_once('+').ok_or_else(wrong)?;
                let first: u64 = first.parse().map_err(|_| wrong())?;
                let bytes: u64 = bytes.parse().map_err(|_| wrong())?;
                let end = first.checked_add(bytes).filter(|_| bytes > 0);
                When::Range(first, end.ok_or_else(wrong)?)
            }
            "one-in" => {
                When::OneIn(value.parse().ok().filter(|&count| count > 0).ok_or_else(wrong)?)
            }
            _ => return Err(wrong()),
        };
        Ok(Failure { lane, when })
    }

    fn fault(&self, now: Nanos, number: u64, io: &Request) -> Option<Fault> {
        let hit = match self.when {
            When::From(at) => return (now >= at).then_some(Fault::Gone),
            When::Range(first, end) => io.offset < end && first < io.end(),
            When::OneIn(count) => spread(number).is_multiple_of(count),
        };
        (hit && io.op.moves_data()).then_some(Fault::Media)
    }
}

/// A device with injected failures.
#[derive(Clone, Debug)]
pub struct Failing<D> {
    device: D,
    failures: Vec<Failure>,
    /// The number of I/Os started so far. Each lane starts with a different number.
    number: u64,
    /// The I/Os that complete immediately because the lane is gone.
    gone: VecDeque<(Nanos, Request)>,
    /// The ids of outstanding I/Os that will fail, and their faults.
    failing: Vec<(u64, Fault)>,
}

impl<D: Device> Failing<D> {
    /// Wraps the device of `lane` and applies those `failures` that concern this lane.
    pub fn new(device: D, lane: Lane, failures: &[Failure]) -> Failing<D> {
        let here = failures.iter().filter(|failure| failure.lane.is_none_or(|of| of == lane));
        Failing {
            device,
            failures: here.copied().collect(),
            number: u64::from(lane) << 48,
            gone: VecDeque::new(),
            failing: Vec::new(),
        }
    }

    /// Returns the wrapped device.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// Returns the wrapped device without failures.
    pub fn into_device(self) -> D {
        self.device
    }
}

impl<D: Device> Device for Failing<D> {
    fn room(&self) -> bool {
        self.device.room() && self.gone.len() < 64
    }

    fn start(&mut self, now: Nanos, io: Request) {
        self.number += 1;
        let number = self.number;
        let fault = self.failures.iter().filter_map(|one| one.fault(now, number, &io)).max();
        match fault {
            Some(Fault::Gone) => return self.gone.push_back((now, io)),
            Some(fault) => self.failing.push((io.id, fault)),
            None => {}
        }
        self.device.start(now, io);
    }

    fn next(&self) -> Option<Nanos> {
        self.gone.front().map(|(at, _)| *at).into_iter().chain(self.device.next()).min()
    }

    fn finish(&mut self, now: Nanos) -> Completion {
        if let Some((started, io)) = self.gone.pop_front() {
            let (mechanics, outcome) = (Mechanics::default(), Err(Fault::Gone));
            return Completion { io, started, at: now, mechanics, outcome };
        }
        let done = self.device.finish(now);
        match self.failing.iter().position(|(id, _)| *id == done.io.id) {
            Some(at) => Completion { outcome: Err(self.failing.swap_remove(at).1), ..done },
            None => done,
        }
    }

    fn joules(&self, now: Nanos) -> f64 {
        self.device.joules(now)
    }
    fn busy(&self, now: Nanos) -> Nanos {
        self.device.busy(now)
    }
    fn floor(&self, io: &Request) -> Nanos {
        self.device.floor(io)
    }
    fn write_back(&self) -> WriteBack {
        self.device.write_back()
    }
    fn cylinders(&self) -> u32 {
        self.device.cylinders()
    }
    fn capacity(&self) -> u64 {
        self.device.capacity()
    }
    fn len_max(&self) -> u32 {
        self.device.len_max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{Flags, Op, Outcome};
    use crate::device::fixed::Fixed;

    fn io(op: Op, offset: u64) -> Request {
        let (at, len, stream, lane, flags) = (Nanos::ZERO, 4096, 0, 0, Flags::NONE);
        Request { at, offset, id: offset, len, stream, lane, op, flags }
    }

    /// Runs I/Os one after another from a time on. Returns their outcomes, and when the last one
    /// ended.
    fn outcomes(failures: &[&str], from: Nanos, ios: &[Request]) -> (Vec<Outcome>, Nanos) {
        let failures: Vec<_> = failures.iter().map(|text| Failure::parse(text).unwrap()).collect();
        let mut device = Failing::new(Fixed::new(1000.0).unwrap(), 3, &failures);
        let (mut now, mut told) = (from, Vec::new());
        for io in ios {
            device.start(now, *io);
            now = device.next().unwrap();
            told.push(device.finish(now).outcome);
        }
        (told, now)
    }

    #[test]
    fn a_lost_lane_answers_at_once() {
        let ios = [io(Op::Read, 0), io(Op::Flush, 8), io(Op::Open, 16)];
        let gone = Err(Fault::Gone);
        let failing = ["lane=3:from-s=2", "lane=1:one-in=1"];
        let (told, at) = outcomes(&failing, Nanos::from_secs(2), &ios);
        assert_eq!((told, at), (vec![gone; 3], Nanos::from_secs(2)));
        let (told, at) = outcomes(&failing, Nanos::from_secs(1), &ios);
        assert_eq!((told, at), (vec![Ok(()); 3], Nanos::from_millis(1003)));
    }

    #[test]
    fn ranges_fail_for_every_request_and_one_in_n_fails_at_that_rate() {
        let media = Err(Fault::Media);
        let ios = [io(Op::Read, 0), io(Op::Write, 4096), io(Op::Read, 8192), io(Op::Trim, 4096)];
        let (told, _) = outcomes(&["range=8191+2"], Nanos::ZERO, &ios);
        assert_eq!(told, [Ok(()), media, media, Ok(())]);
        let many: Vec<Request> = (0..5000).map(|at| io(Op::Read, at * 4096)).collect();
        let (told, _) = outcomes(&["one-in=10"], Nanos::ZERO, &many);
        let failed = told.iter().filter(|outcome| outcome.is_err()).count();
        assert!((400..600).contains(&failed), "{failed}");
    }

    #[test]
    fn edges() {
        let media = Err(Fault::Media);
        let ios = [io(Op::Read, 0), io(Op::Read, 4096), io(Op::Read, 8192), io(Op::Flush, 4096)];
        let (told, _) = outcomes(&["range=4096+4096"], Nanos::ZERO, &ios);
        assert_eq!(told, [Ok(()), media, Ok(()), Ok(())]);
        // If several failures apply, the worst counts. An id may be used again.
        let all = ["lane=3:from-s=0", "range=0+4096"];
        assert_eq!(outcomes(&all, Nanos::ZERO, &ios[..1]).0, [Err(Fault::Gone)]);
        let (told, _) =
            outcomes(&["range=0+1"], Nanos::ZERO, &[ios[0], Request { offset: 9, ..ios[0] }]);
        assert_eq!(told, [media, Ok(())]);
        let which = |lane| {
            let failure = Failure::parse("one-in=5").unwrap();
            let mut device = Failing::new(Fixed::new(1000.0).unwrap(), lane, &[failure]);
            let mut one = |at: u64| {
                device.start(Nanos::ZERO, io(Op::Read, at * 4096));
                device.finish(device.next().unwrap()).outcome.is_err()
            };
            (0..50).map(&mut one).collect::<Vec<bool>>()
        };
        assert_ne!(which(0), which(1), "lanes fail apart");
    }

    #[test]
    fn a_device_can_be_lost_with_ios_outstanding_after_a_number_of_ios() {
        let failure = Failure::parse("from-s=1").unwrap();
        let mut device = Failing::new(Fixed::new(0.5).unwrap(), 0, &[failure]);
        let now = Nanos::from_secs(1);
        for at in 0..64 {
            assert!(device.room());
            device.start(now, io(Op::Read, at));
        }
        assert!(!device.room());
        assert_eq!(device.finish(now).started, now);
        assert!(device.room());
        let mut device = Failing::new(Fixed::new(0.5).unwrap(), 0, &[failure]);
        device.start(Nanos::ZERO, io(Op::Read, 0));
        device.start(now, io(Op::Read, 1));
        assert_eq!(device.next(), Some(now));
        assert_eq!(device.finish(now).outcome, Err(Fault::Gone));
        let two = Nanos::from_secs(2);
        assert_eq!((device.next(), device.finish(two).outcome), (Some(two), Ok(())));
    }

    #[test]
    fn invalid_failures_are_reported() {
        for text in
            ["", "from-s=x", "lane=1", "lane=x:one-in=3", "one-in=0", "range=5", "range=5+0"]
        {
            assert!(Failure::parse(text).unwrap_err().0.contains("expected [lane=N:]"), "{text}");
        }
        assert!(Failure::parse("range=18446744073709551615+1").is_err());
    }
}
