//! Reports acknowledged writes that were lost before they were durable.
//!
//! A loss is detected when a drive disappears or fails a flush, whether or not a client is waiting
//! for a round. It is reported to every stream: the next flush of each stream fails, once. A flush
//! that was requested before the loss fails too, and so does the one after it, because writes may
//! have been acknowledged between the two.

use std::collections::BTreeMap;

use crate::contract::{Fault, Outcome};

/// A client that waits until acknowledged data are durable.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter {
    pub(super) client: u32,
    /// The stream of a flush; `None` for a FUA write, which reports only its own loss.
    stream: Option<u32>,
    /// The number of losses until the waiter arrived.
    since: u64,
}

/// The losses so far, and which of them were reported.
#[derive(Clone, Debug, Default)]
pub(super) struct Losses {
    count: u64,
    /// The cause of the last loss.
    fault: Option<Fault>,
    /// By stream: the number of losses that the stream has been informed about.
    told: BTreeMap<u32, u64>,
}

impl Losses {
    pub(super) fn add(&mut self, fault: Fault) {
        (self.count, self.fault) = (self.count + 1, Some(fault));
    }

    /// Returns a loss from before this array was opened, which must be reported to all streams
    /// except `knows`, which has been informed already.
    pub(super) fn owing(fault: Fault, knows: u32) -> Losses {
        Losses { count: 1, fault: Some(fault), told: BTreeMap::from([(knows, 1)]) }
    }

    /// Returns the number of losses so far.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Records that a stream has a new owner, who is assumed not to have been informed of any loss.
    pub(super) fn forget(&mut self, stream: u32) {
        self.told.remove(&stream);
    }

    /// Creates a waiter for a flush of a stream, or for a FUA write.
    pub(super) fn waiter(&self, client: u32, stream: Option<u32>) -> Waiter {
        Waiter { client, stream, since: self.count }
    }

    /// Returns the outcome for a waiter after a round that contains all of its data.
    pub(super) fn tell(&mut self, waiter: Waiter) -> Outcome {
        let Waiter { stream, since, .. } = waiter;
        let known = match stream {
            Some(stream) => self.told.get(&stream).copied().unwrap_or(0),
            None => since,
        };
        let Some(fault) = self.fault.filter(|_| self.count > known) else { return Ok(()) };
        if let Some(stream) = stream {
            self.told.insert(stream, since.max(known));
        }
        Err(fault)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::super::bench::{Bench, created};
    use super::*;
    use crate::contract::{Flags, Op, Policy};

    #[test]
    fn each_stream_is_told_once_and_again_if_its_flush_came_before_the_loss() {
        let mut losses = Losses::default();
        let (early, fua) = (losses.waiter(1, Some(7)), losses.waiter(2, None));
        assert_eq!((losses.tell(early), losses.tell(fua)), (Ok(()), Ok(())));
        losses.add(Fault::Media);
        let lost = Err(Fault::Media);
        assert_eq!((losses.tell(early), losses.tell(fua)), (lost, lost));
        for (stream, outcomes) in [(7, [lost, Ok(())]), (8, [lost, Ok(())])] {
            for outcome in outcomes {
                let waiter = losses.waiter(3, Some(stream));
                assert_eq!(losses.tell(waiter), outcome, "stream {stream}");
            }
        }
        // Another client takes over the number of a stream that was informed.
        losses.forget(7);
        for outcome in [lost, Ok(())] {
            let waiter = losses.waiter(6, Some(7));
            assert_eq!(losses.tell(waiter), outcome);
        }
        let after = losses.waiter(4, None);
        assert_eq!(losses.tell(after), Ok(()));
        losses.add(Fault::Gone);
        let again = losses.waiter(5, Some(8));
        assert_eq!((losses.tell(again), losses.tell(after)), (Err(Fault::Gone), Err(Fault::Gone)));
    }

    #[test]
    fn earlier_losses_are_reported_to_all_streams_but_one() {
        let mut losses = Losses::owing(Fault::Media, 9);
        let tell = |losses: &mut Losses, stream| {
            let waiter = losses.waiter(1, Some(stream));
            losses.tell(waiter)
        };
        assert_eq!(
            [3, 9, 3].map(|stream| tell(&mut losses, stream)),
            [Err(Fault::Media), Ok(()), Ok(())]
        );
        losses.add(Fault::Gone);
        assert_eq!(
            [3, 9].map(|stream| tell(&mut losses, stream)),
            [Err(Fault::Gone), Err(Fault::Gone)]
        );
    }

    fn written(flushes: bool) -> Bench {
        Bench::written(created(Level::RAID6, 60, false), flushes)
    }

    #[test]
    fn a_flush_reports_writes_lost_with_drives() {
        for ages in [false, true] {
            let mut bench = written(false);
            bench.lose(&[0, 2, 5]);
            if ages {
                bench.age(&[], &[]);
            }
            bench.assert_told_once(Fault::Gone);
        }
        let mut bench = written(false);
        bench.lose(&[0, 2]);
        assert_eq!(bench.flush(0), Ok(()), "two of six may go");
    }

    #[test]
    fn a_new_owner_of_an_informed_stream_is_informed() {
        let mut bench = written(false);
        bench.lose(&[0, 2, 5]);
        assert_eq!([bench.flush(0), bench.flush(0)], [Err(Fault::Gone), Ok(())]);
        let told = |bench: &Bench| {
            let mut losses = bench.array().log.losses.clone();
            let waiter = losses.waiter(1, Some(0));
            losses.tell(waiter)
        };
        assert_eq!(told(&bench), Ok(()));
        bench.policy.begin_stream(0);
        assert_eq!(told(&bench), Err(Fault::Gone));
    }

    #[test]
    fn a_flush_reports_new_chunks_that_need_chunks_of_a_missing_drive() {
        let mut bench = written(true);
        bench.write(0, 1);
        // The new chunk and the new P are lost, then an old chunk.
        let lanes = [0, 4, 1].map(|role| bench.lane_of(role));
        bench.lose(&lanes);
        bench.assert_told_once(Fault::Gone);
    }

    #[test]
    fn a_flush_reports_a_round_that_failed_while_nobody_waited() {
        let mut bench = written(false);
        bench.age(&[0, 1, 2], &[]);
        bench.assert_told_once(Fault::Media);
        let mut bench = written(false);
        bench.age(&[0, 1], &[]);
        assert_eq!(bench.flush(0), Ok(()), "what two lose is made anew");
    }

    #[test]
    fn durable_writes_and_flushes_report_the_loss_of_a_durable_write() {
        for (lanes, outcome) in [(2, Ok(())), (3, Err(Fault::Media))] {
            let mut bench = written(true);
            let id = bench.ask(Op::Write, Flags::FUA, 0, 0, 4);
            bench.end_all(|io| match io.op {
                Op::Flush if io.lane < lanes => Err(Fault::Media),
                _ => Ok(()),
            });
            assert_eq!(bench.answers[&id], outcome);
            match outcome {
                Ok(()) => assert_eq!(bench.flush(0), Ok(())),
                Err(fault) => bench.assert_told_once(fault),
            }
        }
    }

    #[test]
    fn a_durable_write_reports_its_loss_in_the_round_before_its_own() {
        let mut bench = written(false);
        let flush = bench.ask(Op::Flush, Flags::NONE, 0, 0, 0);
        let write = bench.ask(Op::Write, Flags::FUA, 1, 4, 4);
        while bench.array().changed.is_empty() {
            bench.end_one(|io| io.op == Op::Write, Ok(()));
        }
        // The outstanding flushes began before that write was done.
        for lane in 0..6 {
            let outcome = if lane < 3 { Err(Fault::Media) } else { Ok(()) };
            bench.end_one(|io| io.op == Op::Flush && io.lane == lane, outcome);
        }
        bench.end_all(|_| Ok(()));
        let lost = Err(Fault::Media);
        assert_eq!((bench.answers[&flush], bench.answers[&write]), (lost, lost));
        assert_eq!([bench.flush(0), bench.flush(0)], [lost, Ok(())], "it asked before the loss");
        assert_eq!([bench.flush(1), bench.flush(1)], [lost, Ok(())]);
    }
}
