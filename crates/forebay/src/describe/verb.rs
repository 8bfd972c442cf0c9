//! The inputs of `describe`.

use std::path::{Path, PathBuf};

use forebay_core::Nanos;
use forebay_trace::describe::{Options, ThreadOptions};

use super::page;
use crate::verb::{Answered, Session, SourceAsk, StreamsAsk, TraceInput, Verb, warn_notes};
use crate::{Error, input};

forebay_ask::ask! {
    /// Describe a trace: sizes, sequential runs, bursts, streams, volumes
    pub struct DescribeAsk("describe") {
        /// The trace; - is standard input
        trace: TraceInput [.positional()],
        /// Also describe the threads, by type and individually: data or log, fluctuation,
        /// intensity, sizes, gaps, reads and writes, sequential share, quarters of the storage
        threads: bool,
        /// The maximum number of threads with their own row; those with the most requests come
        /// first
        limit: u16 = "20" [.between(0.0, 4096.0).requires("threads")],
        /// The length of the periods for which fluctuation is measured
        period: Option<Nanos> [.requires("threads")
            .otherwise("30min, or less if the trace has fewer than eight such periods")],
        /// Also write the answer as an HTML report
        report: Option<PathBuf> [.short('o')],
        streams: StreamsAsk,
        source: SourceAsk,
    }
}

impl Verb for DescribeAsk {
    type Beyond = ();

    fn traces(&self) -> Vec<&TraceInput> {
        vec![&self.trace]
    }

    fn report(&self) -> Option<&Path> {
        self.report.as_deref()
    }

    fn run(self, session: &mut dyn Session) -> Result<Answered, Error> {
        let name = self.trace.name();
        let threads = self.threads.then(|| ThreadOptions {
            period: self.period,
            rows_max: self.limit.into(),
            ..ThreadOptions::default()
        });
        let options = Options { stream_by: self.streams.by(), threads };
        let consumed = session.begin("reading", Some(name));
        let mut reader = self.source.open(&self.trace, consumed)?;
        let read = &mut |records| session.read(name, records);
        let (found, notes) = input::describe(name, &mut *reader, options, read)?;
        warn_notes(session, name, &notes);
        Answered::new(&found, page::page(name, &found))
    }
}
