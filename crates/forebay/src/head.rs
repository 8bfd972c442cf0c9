//! Records the positions of the heads over time and the I/Os served, thinned out so that a run of
//! any length fits into a chart.

use forebay_core::{Completion, Nanos, Observer, Op};

/// The maximum number of points stored, of 32 bytes each.
const POINTS_MAX: usize = 200_000;

/// An I/O at a head position: a point of the chart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeadPoint {
    /// When the disk started the I/O.
    pub started: Nanos,
    /// When the disk completed the I/O.
    pub done: Nanos,
    /// The cylinder of the I/O's first sector.
    pub cylinder: u32,
    /// The I/O's length in bytes.
    pub len: u32,
    /// The stream that the I/O belongs to.
    pub stream: u32,
    /// The I/O's operation.
    pub op: Op,
}

impl HeadPoint {
    /// Returns when the disk completed the I/O, in seconds.
    pub fn done_s(&self) -> f64 {
        self.done.as_secs_f64()
    }

    /// Returns how long the disk took for the I/O.
    pub fn took(&self) -> Nanos {
        Nanos(self.done.0.saturating_sub(self.started.0))
    }
}

/// An observer that stores every n-th I/O. n doubles whenever there are too many points.
#[derive(Clone, Debug, Default)]
pub struct HeadTrace {
    /// The stored I/Os, in order of completion.
    pub points: Vec<HeadPoint>,
    every: u64,
    /// The number of I/Os to skip until the next one is stored.
    left: u64,
}

impl HeadTrace {
    /// Returns n, if every n-th I/O is stored.
    pub fn every(&self) -> u64 {
        self.every.max(1)
    }
}

impl Observer for HeadTrace {
    fn io(&mut self, completion: &Completion) {
        if !completion.io.op.moves_data() {
            return;
        }
        if self.left == 0 {
            if self.points.len() == POINTS_MAX {
                let mut index = 0;
                self.points.retain(|_| {
                    index += 1;
                    index % 2 == 1
                });
                self.every = self.every() * 2;
            }
            self.left = self.every();
            self.points.push(HeadPoint {
                started: completion.started,
                done: completion.at,
                cylinder: completion.mechanics.cylinder_first,
                len: completion.io.len,
                stream: completion.io.stream,
                op: completion.io.op,
            });
        }
        self.left -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_core::{Flags, Mechanics, Request};

    fn completion(number: u64, op: Op) -> Completion {
        let io = Request {
            at: Nanos(number),
            offset: 0,
            id: number,
            len: 4096 * (number as u32 + 1),
            stream: number as u32 % 7,
            lane: 0,
            op,
            flags: Flags::NONE,
        };
        let mechanics = Mechanics { cylinder_first: number as u32, ..Mechanics::default() };
        let (started, at) = (Nanos(10 * number), Nanos(10 * number + 7));
        Completion { io, started, at, mechanics, outcome: Ok(()) }
    }

    #[test]
    fn a_point_is_the_io_it_was() {
        assert_eq!(std::mem::size_of::<HeadPoint>(), 32);
        let mut head = HeadTrace::default();
        head.io(&completion(3, Op::Write));
        head.io(&completion(4, Op::Flush));
        head.io(&completion(5, Op::Read));
        assert_eq!(head.points.len(), 2);
        let point = HeadPoint {
            started: Nanos(30),
            done: Nanos(37),
            cylinder: 3,
            len: 16384,
            stream: 3,
            op: Op::Write,
        };
        assert_eq!(head.points[0], point);
        assert_eq!((point.took(), head.every()), (Nanos(7), 1));
    }

    #[test]
    fn a_long_run_keeps_every_nth_and_says_so() {
        let mut head = HeadTrace::default();
        for number in 0..(2 * POINTS_MAX as u64 + 10) {
            head.io(&completion(number, Op::Read));
        }
        assert_eq!(head.every(), 4);
        assert!(head.points.len() <= POINTS_MAX);
        let apart = head.points.windows(2).map(|two| two[1].cylinder - two[0].cylinder);
        assert!(apart.into_iter().all(|apart| apart == 4));
    }
}
