//! The inputs of `plan sla`.

use std::path::{Path, PathBuf};

use forebay_ask::{AskError, Check, Given, Input, Takes, Value, exists};
use forebay_core::rtt::RATE_MAX_IOPS;
use serde::Serialize;

use super::page;
use super::{Price, Sla, price};
use crate::Error;
use crate::plan::arrival_times::{ArrivalTimes, Clock};
use crate::plan::costed::{self, Costs, Load};
use crate::plan::page::mean_iops;
use crate::plan::page::undecided;
use crate::plan::read::read;
use crate::verb::{Answered, Session, SourceAsk, TraceInput, Verb};

forebay_ask::ask! {
    /// Find the smallest capacity that keeps a promise of several tiers, e.g. 90 % within 20 ms and
    /// 99 % within 50 ms
    pub struct SlaAsk("plan sla") {
        /// The promise: a TOML file with [[tier]], fraction = 0.99 and within_ms = 50 for each
        /// tier. In Python also a list of (fraction, milliseconds)
        promise: PromiseInput [.positional()],
        /// The trace; - is standard input
        trace: TraceInput [.positional()],
        /// Also check the promise at this capacity, in requests per second
        capacity: Option<u64> [.word("IOPS").between(1.0, RATE_MAX_IOPS as f64)],
        /// Make the cost of a request depend on its length: microseconds plus microseconds per KiB,
        /// as in 100+0.5/KiB, or a device, whose random reads set the cost. The answer is the
        /// speed, relative to this cost, of a single server that serves requests first come, first
        /// served
        cost_us: Option<String> [.word("COST").excludes(&["capacity"])],
        /// Also write the answer as an HTML report
        report: Option<PathBuf> [.short('o')],
        /// Trust the trace's times even if its clock seems too coarse for the question
        trust_times: bool,
        source: SourceAsk,
    }
}

/// A promise, in either of the forms in which users can give it.
#[derive(Clone, Debug)]
pub enum PromiseInput {
    /// The path of a file that defines the promise.
    File(PathBuf),
    /// The tiers of the promise, as (share, milliseconds).
    Tiers(Vec<(f64, f64)>),
}

impl PromiseInput {
    fn read(&self) -> Result<Sla, Error> {
        match self {
            PromiseInput::File(path) => Sla::open(path),
            PromiseInput::Tiers(tiers) => {
                Sla::new(tiers).map_err(|error| AskError::new("promise", error.to_string()).into())
            }
        }
    }
}

impl Value for PromiseInput {
    const CHECK: Option<Check> = Some(exists);
    const WORD: &'static str = "PROMISE";
    const TAKES: Takes = Takes::PathOrPairs;
    const PYTHON: &'static str =
        "str | PathLike[str] | tuple[float, float] | Sequence[tuple[float, float]]";

    fn parse(text: &str) -> Result<PromiseInput, String> {
        Ok(PromiseInput::File(text.into()))
    }

    fn of_object(input: &Input, given: &Given) -> Option<Vec<PromiseInput>> {
        if let Some(paths) = given.as_object::<Vec<PathBuf>>(input.name) {
            return Some(paths.iter().cloned().map(PromiseInput::File).collect());
        }
        let tiers = given.as_object::<Vec<(f64, f64)>>(input.name)?;
        Some(vec![PromiseInput::Tiers(tiers.clone())])
    }
}

/// The capacity that the promise needs, with figures that describe the trace.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Answer {
    pub(super) trace: String,
    pub(super) requests: u64,
    /// The time from the trace's first request to its last, in seconds.
    pub(super) duration_s: f64,
    /// The same time without gaps, if one or two gaps are nearly all of it.
    #[serde(skip)]
    pub(super) active_s: Option<f64>,
    /// The mean request rate, outside such gaps; `None` if all requests arrive at the same time.
    pub(super) mean_iops: Option<f64>,
    #[serde(flatten)]
    pub(super) price: Price,
}

impl Verb for SlaAsk {
    type Beyond = ();

    fn traces(&self) -> Vec<&TraceInput> {
        vec![&self.trace]
    }

    fn files(&self) -> Vec<&Path> {
        match &self.promise {
            PromiseInput::File(path) => vec![path],
            PromiseInput::Tiers(_) => Vec::new(),
        }
    }

    fn report(&self) -> Option<&Path> {
        self.report.as_deref()
    }

    fn run(self, session: &mut dyn Session) -> Result<Answered, Error> {
        let promise = self.promise.read()?;
        let clock = Clock::of(promise.within(), self.trust_times);
        if let Some(cost) = &self.cost_us {
            let costs = Costs::asked(cost)?;
            let load: Load = read(&self.source, &self.trace, None, clock, session)?;
            session.begin("searching for the smallest speed", None);
            let found = costed::sla::price(&load, costs.cost, &promise)?;
            let page = page::of_cost(&found, &costs);
            return Answered::new(&found, undecided(page, load.data_requests));
        }
        let arrivals: ArrivalTimes = read(&self.source, &self.trace, None, clock, session)?;
        session.begin("searching for the smallest capacity", None);
        let (requests, duration_s) = (arrivals.requests(), arrivals.duration().as_secs_f64());
        let active_s = arrivals.active_s();
        let answer = Answer {
            trace: self.trace.name().display().to_string(),
            requests,
            duration_s,
            active_s,
            mean_iops: mean_iops(requests, active_s.unwrap_or(duration_s)),
            price: price(&arrivals, &promise, self.capacity)?,
        };
        Answered::new(&answer, undecided(page::of_rate(&answer), arrivals.data_requests))
    }
}
