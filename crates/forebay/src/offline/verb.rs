//! The inputs of `offline`.

use std::path::Path;

use super::{OfflineAnswer, check, page, windows};
use crate::verb::{
    Answered, DeviceInput, Session, SourceAsk, StreamsAsk, TraceInput, Verb, policy_exists,
};
use crate::{Bed, Error, devices};

forebay_ask::ask! {
    /// Compare schedulers with the best order of requests, found by search on small parts of a
    /// trace
    ///
    /// The parts (windows) are spread evenly over the trace. All requests of a window are queued
    /// from its start, so this shows how much a better order alone could gain; it ignores arrivals,
    /// fairness and deadlines.
    pub struct OfflineAsk("offline") {
        /// The trace; - is standard input
        trace: TraceInput [.positional()],
        /// A disk with arm and platters (NAME:plain, see `forebay devices`), or fixed:RATE for a
        /// server of RATE I/Os per second
        device: DeviceInput,
        /// The schedulers (see `forebay policies`), each NAME[:KEY=VALUE]...
        policy: Vec<String> [.word("POLICY").checked(policy_exists).at_least_one()],
        /// How many windows
        windows: usize = "50" [.between(1.0, 1e6)],
        /// The number of I/Os in a window, after adjacent requests are joined. Each additional I/O
        /// doubles the time of the search
        ios: usize = "8" [.between(1.0, 12.0)],
        streams: StreamsAsk,
        source: SourceAsk,
    }
}

impl Verb for OfflineAsk {
    type Beyond = ();

    fn traces(&self) -> Vec<&TraceInput> {
        vec![&self.trace]
    }

    fn files(&self) -> Vec<&Path> {
        vec![devices::file_of(&self.device.0)]
    }

    fn run(self, session: &mut dyn Session) -> Result<Answered, Error> {
        let device = devices::open(&self.device.0)?;
        check(&device)?;
        self.policy.iter().try_for_each(|policy| Bed::of(&device).check(policy))?;
        let input = self.source.read(&self.trace, self.streams.by(), session)?;
        session.begin("searching", None);
        let sizes = (self.windows, self.ios);
        let tell = &mut |told: &_| session.progress(told);
        let rows = windows(&input, &device, &self.policy, sizes, tell)?;
        let trace = self.trace.name().display().to_string();
        let answer = OfflineAnswer::of(trace, device.name.clone(), &self.policy, rows);
        Answered::new(&answer, page::page(&answer))
    }
}
