//! The inputs and outputs of the verb `cache`.

use std::path::{Path, PathBuf};

use super::{CurveOptions, curve, page};
use crate::Error;
use crate::verb::{Answered, Session, SourceAsk, TraceInput, Verb, warn_notes};

forebay_ask::ask! {
    /// Find how large a cache should be, and the hit ratio of caches of every size
    ///
    /// One pass over the trace gives the hit ratio of every size for a cache that evicts the least
    /// recently used block (LRU), and the hit ratio of S3-FIFO for the sizes that you specify.
    /// Arrival times have no effect.
    pub struct CacheAsk("cache") {
        /// The trace; - is standard input
        trace: TraceInput [.positional()],
        /// The size of a block in KiB
        block_kib: Option<u32> [.word("KIB").between(1.0, 65_536.0)
            .otherwise("4, or the trace's block size if the trace counts in blocks")],
        /// Show caches of these sizes, in MiB, and simulate S3-FIFO at them
        sizes_mib: Vec<f64> [.word("MIB")],
        /// Show caches of these sizes, in blocks, and simulate S3-FIFO at them
        sizes_blocks: Vec<u32> [.word("BLOCKS").between(1.0, 4_294_967_295.0)],
        /// Also write the answer as an HTML report
        report: Option<PathBuf> [.short('o')],
        source: SourceAsk,
    }
}

impl Verb for CacheAsk {
    type Beyond = ();

    fn traces(&self) -> Vec<&TraceInput> {
        vec![&self.trace]
    }

    fn report(&self) -> Option<&Path> {
        self.report.as_deref()
    }

    fn run(self, session: &mut dyn Session) -> Result<Answered, Error> {
        let name = self.trace.name();
        let options = CurveOptions {
            block_bytes: self.block_kib.map(|kib| kib * 1024),
            sizes_mib: self.sizes_mib,
            sizes_blocks: self.sizes_blocks,
        };
        let consumed = session.begin("reading", Some(name));
        let mut reader = self.source.open(&self.trace, consumed)?;
        let found = curve(name, &mut *reader, &options, &mut |read| session.read(name, read))?;
        warn_notes(session, name, reader.notes());
        Answered::new(&found, page::page(&found))
    }
}
