//! Common parts of tests of losses.

use std::collections::BTreeSet;

use super::super::Array;
use super::{Bench, Rates};
use crate::contract::{Fault, Flags, Op, Outcome};

impl Bench {
    /// Returns an array whose first unit is written, and flushed if requested.
    pub(in super::super) fn written(array: Array, flushes: bool) -> Bench {
        let mut bench = Bench::new(array, 1, Rates::default());
        bench.write(0, 4);
        if flushes {
            assert_eq!(bench.flush(0), Ok(()));
        }
        bench
    }

    /// Writes blocks and waits for the answer.
    pub(in super::super) fn write(&mut self, first: u64, count: u64) {
        let id = self.ask(Op::Write, Flags::NONE, 0, first, count);
        self.end_all(|_| Ok(()));
        assert_eq!(self.answers[&id], Ok(()));
    }

    pub(in super::super) fn flush(&mut self, stream: u32) -> Outcome {
        let id = self.ask(Op::Flush, Flags::NONE, stream, 0, 0);
        self.end_all(|_| Ok(()));
        self.answers[&id]
    }

    /// Makes drives disappear during a read of the first unit.
    pub(in super::super) fn lose(&mut self, lanes: &[u16]) {
        let left = self.array().drives.present().count() - lanes.len();
        self.ask(Op::Read, Flags::NONE, 0, 0, 4);
        self.end_all(|io| if lanes.contains(&io.lane) { Err(Fault::Gone) } else { Ok(()) });
        assert_eq!(self.array().drives.present().count(), left);
    }

    /// Lets time pass until all changes are durable. The drives in `lanes` fail one flush each, and
    /// those in `unread` fail reads.
    pub(in super::super) fn age(&mut self, lanes: &[u16], unread: &[u16]) {
        let mut failing: BTreeSet<u16> = lanes.iter().copied().collect();
        while !self.array().changed.is_empty() {
            self.wake();
            self.end_all(|io| {
                let fails = match io.op {
                    Op::Flush => failing.remove(&io.lane),
                    Op::Read => unread.contains(&io.lane),
                    _ => false,
                };
                if fails { Err(Fault::Media) } else { Ok(()) }
            });
        }
    }

    /// Returns the lane of a role of the first unit.
    pub(in super::super) fn lane_of(&self, role: usize) -> u16 {
        let place = self.array().unit(0).places[role];
        self.array().drives.lane(place).expect("its drive is there") as u16
    }

    pub(in super::super) fn assert_told_once(&mut self, fault: Fault) {
        for stream in [0, 1] {
            assert_eq!(self.flush(stream), Err(fault), "stream {stream}");
            assert_eq!(self.flush(stream), Ok(()), "stream {stream} knows");
        }
        self.check();
    }
}
