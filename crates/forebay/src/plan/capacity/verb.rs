//! The verb `plan capacity`, in three variants: for a constant-rate server, for a number of
//! devices, and for costs that depend on a request's length.

use std::path::{Path, PathBuf};

use forebay_ask::{PartialShare, Share};
use forebay_core::Nanos;
use forebay_trace::streams::StreamBy;

use super::page;
use super::{Doubt, Promises, answer, curve, missing};
use crate::plan::arrival_times::{ArrivalTimes, Clock};
use crate::plan::confidence::Bootstrap;
use crate::plan::costed::{self, Costs, Load};
use crate::plan::devices::{self as in_devices, Question};
use crate::plan::page::undecided;
use crate::plan::read::read;
use crate::verb::{
    Answered, Session, SourceAsk, TraceInput, TracePart, Verb, policy_exists, warn_all,
};
use crate::{Error, ProgressReport, devices, shingled};

forebay_ask::ask! {
    /// Find the smallest capacity that answers a share of the requests within a time
    ///
    /// The capacity is that of a server of constant rate, which defers requests that it cannot
    /// answer in time. With a device, the answer is how many of them are needed.
    pub struct CapacityAsk("plan capacity") {
        /// The trace; - is standard input
        trace: TraceInput [.positional()],
        /// Times within which to answer
        within: Vec<Nanos> = "5ms,10ms,20ms,50ms",
        /// Shares of all requests that must be answered in time
        fraction: Vec<Share> = "0.9,0.95,0.99,0.995,0.999,1",
        /// Also compute the answer for each volume, for each stream, or for each export of `forebay
        /// serve` with all its connections. Cannot be combined with a device, because all of them
        /// share the devices
        by: Option<TracePart> [.excludes(&["device"])],
        /// Compute a confidence interval of this level for every capacity, by resampling the trace
        confidence: Option<PartialShare> [.excludes(&["device"])],
        /// Check the prediction: compute it without this share of the trace's time at its end, and
        /// compare it with the held-out part
        hold_out: Option<PartialShare> [.excludes(&["device"])],
        /// The seed of the resamples
        seed: u64 = "1" [.requires("confidence")],
        /// Make the cost of a request depend on its length: microseconds plus microseconds per KiB,
        /// as in 100+0.5/KiB, or a device, whose random reads set the cost. The answer is the
        /// speed of a server relative to this cost
        cost_us: Option<String> [.word("COST").excludes(&["device", "by", "confidence", "hold_out"])],
        /// Find how many of these devices are needed: a bundled device, a device file, or
        /// fixed:RATE
        device: Option<String> [.word("DEVICE")],
        /// The scheduler of each device
        policy: String = "mq-deadline" [.word("POLICY").checked(policy_exists).requires("device")],
        /// The maximum number of devices to try
        devices_max: u16 = "64" [.between(1.0, 4096.0).requires("device")],
        /// The price of one device, in any currency
        price: Option<f64> [.word("AMOUNT").between(0.0, 1e12).requires("device")],
        /// Also write the answer as an HTML report
        report: Option<PathBuf> [.short('o')],
        /// Trust the trace's times even if its clock seems too coarse for the question
        trust_times: bool,
        source: SourceAsk,
    }
}

impl Verb for CapacityAsk {
    type Beyond = ();

    fn traces(&self) -> Vec<&TraceInput> {
        vec![&self.trace]
    }

    fn files(&self) -> Vec<&Path> {
        self.device.iter().map(|device| devices::file_of(device)).collect()
    }

    fn report(&self) -> Option<&Path> {
        self.report.as_deref()
    }

    fn run(self, session: &mut dyn Session) -> Result<Answered, Error> {
        let promises = Promises::new(self.within.clone(), self.fraction.clone());
        match (&self.device, &self.cost_us) {
            (Some(device), _) => self.in_devices(device, &promises, session),
            (None, Some(cost)) => self.by_cost(cost, &promises, session),
            (None, None) => self.at_a_rate(&promises, session),
        }
    }
}

impl CapacityAsk {
    fn clock(&self) -> Clock {
        Clock::of(self.within.iter().copied(), self.trust_times)
    }

    /// Answers for a constant-rate server.
    fn at_a_rate(&self, promises: &Promises, session: &mut dyn Session) -> Result<Answered, Error> {
        let bootstrap = self.confidence.map(|level| Bootstrap { level: level.0, seed: self.seed });
        let doubt = Doubt { bootstrap, hold_out: self.hold_out.map(|share| share.0) };
        let arrivals: ArrivalTimes =
            read(&self.source, &self.trace, self.by, self.clock(), session)?;
        session.begin("searching for capacities", None);
        let mut found = answer(&arrivals, promises, doubt, &mut |told: &ProgressReport| {
            session.progress(told)
        })?;
        if self.by.is_some_and(|by| by != TracePart::Volume) {
            found.rows.iter_mut().for_each(|row| row.stream = row.volume.take());
        }
        warn_all(session, self.trace.name(), &missing(&found.rows, doubt));
        let curves = curve(&arrivals, &promises.within)?;
        let page = page::of_rate(&found, promises, &curves);
        Answered::new(&found, undecided(page, arrivals.data_requests))
    }

    /// Answers for a server on which a request's cost depends on its length.
    fn by_cost(
        &self,
        cost: &str,
        promises: &Promises,
        session: &mut dyn Session,
    ) -> Result<Answered, Error> {
        let costs = Costs::asked(cost)?;
        let load: Load = read(&self.source, &self.trace, None, self.clock(), session)?;
        session.begin("searching for speeds", None);
        let found = costed::answer(&load, costs.cost, promises)?;
        Answered::new(&found, undecided(page::of_cost(&found, &costs), load.data_requests))
    }

    /// Answers for a number of devices.
    fn in_devices(
        &self,
        device: &str,
        promises: &Promises,
        session: &mut dyn Session,
    ) -> Result<Answered, Error> {
        let device = devices::open(device)?;
        forebay_core::catalog::build(&self.policy, u32::MAX)?;
        let input = self.source.read(&self.trace, StreamBy::default(), session)?;
        shingled::check(&device, &input)?;
        session.begin(&format!("simulating {} on {}", self.policy, device.name), None);
        let question = Question {
            policy: &self.policy,
            promises,
            devices_max: usize::from(self.devices_max),
            price_each: self.price,
            trust_times: self.trust_times,
        };
        let found =
            in_devices::answer(&input, &device, &question, &mut |told| session.progress(told))?;
        warn_all(session, self.trace.name(), found.of_trace(&device));
        let page = page::of_devices(&found, &found.notes(&device));
        Answered::new(&found, undecided(page, input.description.requests))
    }
}
