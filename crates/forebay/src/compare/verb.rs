//! The inputs of `compare`.

use std::path::{Path, PathBuf};

use super::{Options, compare, page};
use crate::Error;
use crate::verb::{
    Answered, DeviceInput, Session, SourceAsk, StreamsAsk, TraceInput, Verb, warn_named,
};

forebay_ask::ask! {
    /// Report what got slower or faster from one trace to another, and how similar they are
    pub struct CompareAsk("compare") {
        /// The reference trace
        a: TraceInput [.positional()],
        /// The trace to compare with it
        b: TraceInput [.positional()],
        /// The devices on which response times are compared
        device: Vec<DeviceInput> [.otherwise("a disk, a SATA SSD and an NVMe drive")],
        /// The size of a block of the caches in KiB
        block_kib: Option<u32> [.word("KIB").between(1.0, 65_536.0)
            .otherwise("4, or more if a trace touches very many blocks")],
        /// The speed at which requests arrive at the devices, relative to the recording
        intensity: f64 = "1" [.word("TIMES").between(1e-6, 1e12)],
        /// The seed of the resamples behind the intervals
        seed: u64 = "1" [.word("SEED")],
        /// Also write the answer as an HTML report
        report: Option<PathBuf> [.short('o')],
        streams: StreamsAsk,
        source: SourceAsk,
    }
}

impl Verb for CompareAsk {
    type Beyond = ();

    fn traces(&self) -> Vec<&TraceInput> {
        vec![&self.a, &self.b]
    }

    fn files(&self) -> Vec<&Path> {
        self.device.iter().map(|device| crate::devices::file_of(&device.0)).collect()
    }

    fn report(&self) -> Option<&Path> {
        self.report.as_deref()
    }

    fn run(self, session: &mut dyn Session) -> Result<Answered, Error> {
        let devices: Vec<String> = self.device.iter().map(|device| device.0.clone()).collect();
        let options = Options::new(&devices, self.block_kib, self.intensity, self.seed)?;
        let by = self.streams.by();
        let a = self.source.read(&self.a, by, session)?;
        let b = self.source.read(&self.b, by, session)?;
        session.begin("comparing", None);
        let card = compare(&a, &b, &options, &mut |told| session.progress(told))?;
        for caution in card.left_out.iter().chain(&card.cautions) {
            warn_named(session, self.b.name(), caution);
        }
        Answered::new(&card, page::page(&card))
    }
}
