//! Reads part of a trace, selected by time.

use forebay_core::Nanos;

use crate::{Dictionary, Notes, Reader, Record, TraceError};

/// Reads the requests that arrive within an interval. The start of the interval becomes the start
/// of the trace.
pub struct Between {
    reader: Box<dyn Reader>,
    from: Nanos,
    to: Nanos,
    notes: Notes,
    is_over: bool,
}

impl Between {
    /// Creates a reader of the requests that arrive at or after `from` and before `to`, both
    /// counted from the start of the trace.
    pub fn new(reader: Box<dyn Reader>, from: Nanos, to: Nanos) -> Between {
        Between { reader, from, to, notes: Notes::default(), is_over: false }
    }
}

impl Reader for Between {
    fn read(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        batch.clear();
        while batch.is_empty() && !self.is_over {
            self.reader.read(batch)?;
            // Records are ordered by time, so nothing after the interval needs to be read.
            self.is_over = batch.last().is_none_or(|last| last.at >= self.to);
            batch.retain(|record| (self.from..self.to).contains(&record.at));
            batch.iter_mut().for_each(|record| record.at = record.at - self.from);
        }
        self.notes.clone_from(self.reader.notes());
        self.notes.began = self.notes.began.map(|began| began + self.from);
        Ok(())
    }

    fn found(&self) -> (&Dictionary, &Notes) {
        (self.reader.dictionary(), &self.notes)
    }
}

#[cfg(test)]
mod tests {
    use forebay_core::{Flags, Op};

    use super::*;

    /// A trace that returns two records at a time.
    struct Pairs {
        times: Vec<u64>,
        read: usize,
        dictionary: Dictionary,
        notes: Notes,
    }

    impl Reader for Pairs {
        fn read(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
            let record = |at: &u64| Record {
                at: Nanos(*at),
                offset: 0,
                latency: None,
                len: 512,
                stream: 0,
                volume: 0,
                op: Op::Read,
                flags: Flags::NONE,
            };
            let end = (self.read + 2).min(self.times.len());
            batch.clear();
            batch.extend(self.times[self.read..end].iter().map(record));
            self.read = end;
            Ok(())
        }
        fn found(&self) -> (&Dictionary, &Notes) {
            (&self.dictionary, &self.notes)
        }
    }

    #[test]
    fn a_span_begins_anew_and_ends_early() {
        let times = vec![0, 1, 2, 10, 11, 12, 19, 20, 21, 30];
        for (from, to, expected) in [
            (10, 20, &[0, 1, 2, 9][..]),
            (0, 1, &[0]),
            (21, 1_000, &[0, 9]),
            (22, 30, &[]),
            (40, 50, &[]),
        ] {
            let notes = Notes { began: Some(Nanos(1000)), ..Notes::default() };
            let dictionary = Dictionary::default();
            let pairs = Pairs { times: times.clone(), read: 0, dictionary, notes };
            let mut between = Between::new(Box::new(pairs), Nanos(from), Nanos(to));
            let (mut got, mut batch) = (Vec::new(), Vec::new());
            loop {
                between.read(&mut batch).unwrap();
                if batch.is_empty() {
                    break;
                }
                got.extend(batch.iter().map(|record| record.at.0));
            }
            assert_eq!(got, expected, "{from} to {to}");
            assert_eq!(between.notes().began, Some(Nanos(1000 + from)));
        }
    }
}
