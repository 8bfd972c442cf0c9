//! The inputs of `plan consolidate`.

use std::path::{Path, PathBuf};

use forebay_ask::{AskError, Delay, PartialShare, Share};
use forebay_core::Nanos;

use super::clients::clients;
use super::page::{self, Shown};
use super::{Begin, cautions, consolidate, own_cautions};
use crate::plan::arrival_times::{Arrivals, Clock, Requests, Span};
use crate::plan::capacity::{Promises, once};
use crate::plan::confidence::Bootstrap;
use crate::plan::costed::{self, Costs};
use crate::plan::page::undecided;
use crate::plan::read::read_uncautioned;
use crate::verb::{Answered, ByVolume, Session, SourceAsk, TraceInput, TracePart, Verb, warn_all};
use crate::{Error, ProgressReport};

forebay_ask::ask! {
    /// Find what clients that share a server need together, and what each of them needs alone
    pub struct ConsolidateAsk("plan consolidate") {
        /// The clients' traces; a single trace is combined with copies of itself
        traces: Vec<TraceInput> [.positional().at_least_one()],
        /// The delay between the starts of consecutive clients; each given time has its own result
        shift: Vec<Delay> [.otherwise("1s,100s for one trace, 0s for several")],
        /// The number of clients that a single trace represents
        clients: Option<u16> [.between(2.0, 1000.0).otherwise("2").excludes(&["by"])],
        /// Keep the clock that the traces share, so that each client begins at its recorded time
        keep_times: bool,
        /// Make each volume of a trace a client. Volumes keep the trace's clock
        by: Option<ByVolume>,
        /// Times within which to answer
        within: Vec<Nanos> = "10ms",
        /// Shares of all requests that must be answered in time
        fraction: Vec<Share> = "1,0.9,0.95",
        /// Make the cost of a request depend on its length: microseconds plus microseconds per KiB,
        /// as in 100+0.5/KiB, or a device, whose random reads set the cost. The answer is the
        /// speed of a server relative to this cost
        cost_us: Option<String> [.word("COST").excludes(&["confidence"])],
        /// Compute a confidence interval of this level for every capacity, by resampling the traces
        confidence: Option<PartialShare>,
        /// The seed of the resamples
        seed: u64 = "1" [.requires("confidence")],
        /// Also write the answer as an HTML report
        report: Option<PathBuf> [.short('o')],
        /// Trust the traces' times even if their clocks seem too coarse for the question
        trust_times: bool,
        source: SourceAsk,
    }
}

/// The clients, and how their start times are aligned.
struct Clients<A> {
    each: Vec<Requests<A>>,
    /// The number of clients that each trace represents.
    copies: usize,
    begin: Begin,
    shifts: Vec<Nanos>,
}

impl<A> Clients<A> {
    fn all(&self) -> Vec<&Requests<A>> {
        self.each.iter().flat_map(|client| std::iter::repeat_n(client, self.copies)).collect()
    }
}

impl Verb for ConsolidateAsk {
    type Beyond = ();

    fn traces(&self) -> Vec<&TraceInput> {
        self.traces.iter().collect()
    }

    fn report(&self) -> Option<&Path> {
        self.report.as_deref()
    }

    fn run(self, session: &mut dyn Session) -> Result<Answered, Error> {
        if let (Some(clients), several @ 2..) = (self.clients, self.traces.len()) {
            let text = format!(
                "got {clients} with {several} traces, expected one trace that stands for {clients}; leave it out, or \
                 give one trace"
            );
            return Err(AskError::new("clients", text).into());
        }
        let promises = Promises::new(self.within.clone(), self.fraction.clone());
        if let Some(cost) = &self.cost_us {
            let costs = Costs::asked(cost)?;
            let clients = self.read(session)?;
            session.begin("searching for speeds", None);
            let Clients { begin, shifts, .. } = &clients;
            let (all, cost) = (clients.all(), costs.cost);
            let found = costed::consolidate::consolidate(&all, *begin, shifts, &promises, cost)?;
            let data_requests = all.iter().map(|load| load.data_requests).sum();
            return Answered::new(&found, undecided(page::of_cost(&found, &costs), data_requests));
        }
        let bootstrap = self.confidence.map(|level| Bootstrap { level: level.0, seed: self.seed });
        let clients = self.read(session)?;
        session.begin("searching for capacities", None);
        let Clients { begin, shifts, .. } = &clients;
        let (all, told) = (clients.all(), &mut |told: &ProgressReport| session.progress(told));
        let found = consolidate(&all, *begin, shifts, &promises, bootstrap, told)?;
        let shown = Shown { clients: &all, begin: *begin, shifts, found: &found };
        let data_requests = all.iter().map(|client| client.data_requests).sum();
        Answered::new(&found, undecided(page::of_rate(&shown), data_requests))
    }
}

impl ConsolidateAsk {
    fn read<A: Arrivals>(&self, session: &mut dyn Session) -> Result<Clients<A>, Error> {
        let (by_volume, by) = (self.by.is_some(), self.by.map(|_| TracePart::Volume));
        let clock = Clock::of(self.within.iter().copied(), self.trust_times);
        let traces = self.traces.iter();
        let traces =
            traces.map(|trace| read_uncautioned::<A>(&self.source, trace, by, clock, session));
        let (each, begin) = clients(traces.collect::<Result<_, _>>()?, by_volume, self.keep_times)?;
        let copies = match (each.len(), by_volume) {
            (1, false) => usize::from(self.clients.unwrap_or(2)),
            _ => 1,
        };
        let shifts = match (self.shift.is_empty(), copies) {
            (false, _) => once(self.shift.iter().map(|shift| shift.0).collect()),
            (true, 1) => vec![Nanos::ZERO],
            (true, _) => vec![Nanos::from_secs(1), Nanos::from_secs(100)],
        };
        let clients = Clients { each, copies, begin, shifts };
        let spans: Vec<Span<'_>> = clients.all().iter().map(|client| client.span()).collect();
        warn_all(session, Path::new(""), &own_cautions(&clients.all()));
        warn_all(session, Path::new(""), &cautions(&spans, begin, &clients.shifts));
        Ok(clients)
    }
}
