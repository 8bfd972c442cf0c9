//! The inputs of `retrodict`.

use std::path::Path;

use super::{page, retrodict};
use crate::layout::Map;
use crate::replayed::Replay;
use crate::verb::{
    Answered, DeviceInput, ReplayAsk, Session, SourceAsk, StreamsAsk, TraceInput, Verb,
    policy_exists, warn_missed,
};
use crate::{Bed, Error, devices};

forebay_ask::ask! {
    /// Compare a model with a recording: simulate the system that recorded a trace, and compare
    /// latencies
    ///
    /// Specify the device and the scheduler with which the trace was recorded. Reads and writes
    /// with a recorded latency are compared; a trace without any is refused.
    pub struct RetrodictAsk("retrodict") {
        /// The trace; - is standard input
        trace: TraceInput [.positional()],
        /// The device that the trace was recorded on: a bundled one (see `forebay devices`) or a
        /// device file
        device: DeviceInput,
        /// The scheduler that the trace was recorded under (see `forebay policies`)
        policy: String = "mq-deadline" [.word("POLICY").checked(policy_exists)],
        /// The number of copies of the device; volumes are assigned to them in turn
        disks: u16 = "1" [.word("COUNT").between(1.0, 256.0)],
        /// When requests arrive
        replay: Replay = "open",
        /// How to treat addresses beyond the device
        map: Map = "scale",
        streams: StreamsAsk,
        source: SourceAsk,
    }
}

impl Verb for RetrodictAsk {
    type Beyond = ();

    fn traces(&self) -> Vec<&TraceInput> {
        vec![&self.trace]
    }

    fn files(&self) -> Vec<&Path> {
        vec![devices::file_of(&self.device.0)]
    }

    fn run(self, session: &mut dyn Session) -> Result<Answered, Error> {
        let device = devices::open(&self.device.0)?;
        warn_missed(session, &device);
        let bed = Bed { disks: self.disks, ..Bed::of(&device) };
        bed.check(&self.policy)?;
        let input = self.source.read(&self.trace, self.streams.by(), session)?;
        let replaying = ReplayAsk { replay: self.replay, intensity: 1.0, map: self.map };
        let setup = replaying.setup(&input, session)?;
        session.begin("simulating", None);
        let name = self.trace.name();
        let progress = &mut |requests| session.read(name, requests);
        let found = retrodict(&input, bed, &self.policy, setup, progress)?;
        Answered::new(&found, page::page(name, &found))
    }
}
