//! The clients that the drives serve: traces, or volumes of traces, aligned on one clock. Each
//! client has its own promise.
//!
//! A request's stream number is its client, as in `forebay serve`. Volumes are numbered across all
//! traces.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use forebay_ask::{AskError, Share, named};
use forebay_core::Nanos;
use forebay_core::rtt::Gaps;
use forebay_trace::Record;
use forebay_trace::gaps::without_gaps_s;
use forebay_trace::touched::Stretch;

use crate::Error;
use crate::clock::Times;
use crate::input::{Failed, Input, Records};
use crate::plan::arrival_times::{Clock, Span, cautions, own_clock, timed, told_apart};
use crate::plan::consolidate::Begin;

/// A promise to a client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Promise {
    /// The time within which requests are promised an answer.
    pub within: Nanos,
    /// The share of requests that are answered within that time.
    pub fraction: Share,
}

/// A client: a trace or a volume, with its promise.
pub(super) struct Client {
    /// The client's name, which is unique among all clients.
    pub(super) name: String,
    /// The promise to the client.
    pub(super) promise: Promise,
    /// The total extent of the client's volumes in bytes.
    pub(super) bytes: u64,
    /// The arrival times of the client's requests.
    pub(super) gaps: Gaps,
}

/// Whether each trace or each volume is a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Each trace is a client.
    Trace,
    /// Each volume of each trace is a client.
    Volume,
}

/// All clients, and the traces that contain their requests.
pub(super) struct Clients<'a> {
    inputs: &'a [Input],
    /// The delay of each trace relative to the first.
    shifts: Vec<Nanos>,
    /// For each trace, the number of its first volume.
    first_volume: Vec<usize>,
    /// For each volume, its client; `None` for unused volumes.
    client_of: Vec<Option<usize>>,
    /// The clients, in the order in which the user gave them.
    pub(super) clients: Vec<Client>,
    /// The factor by which the clients' data is larger or smaller than their extents, because the
    /// user specified the size of the data.
    pub(super) scale: f64,
    /// When the last request of all clients arrives.
    pub(super) lasts: Nanos,
    /// The length of one or two gaps that make up nearly all of that time, for example because a
    /// recording was stopped for hours; else 0.
    pub(super) paused: Nanos,
}

/// How traces become clients.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClientOptions<'a> {
    /// Whether each trace or each volume is a client.
    pub(super) by: By,
    /// How the clients' start times are aligned.
    pub(super) begin: Begin,
    /// The promise to clients that have no promise of their own.
    pub(super) promise: Promise,
    /// Promises to single clients, by client name.
    pub(super) own: &'a [(String, Promise)],
    /// Whether to trust the traces' times even if a clock seems too coarse for the promises.
    pub(super) trust_times: bool,
    /// The size in bytes of the data of all clients before growth; `None` for their extents.
    pub(super) bytes: Option<f64>,
}

impl<'a> Clients<'a> {
    /// Creates the clients of `inputs`.
    ///
    /// # Errors
    /// Fails if a trace has no times or a clock that is too coarse for a promise, or if a promise
    /// names an unknown client.
    pub(super) fn new(inputs: &'a [Input], told: ClientOptions<'_>) -> Result<Clients<'a>, Error> {
        let promises = || told.own.iter().map(|(_, own)| *own).chain([told.promise]);
        let clock = Clock::of(promises().map(|promise| promise.within), told.trust_times);
        for input in inputs {
            timed(&input.path, &input.notes)?;
            told_apart(&input.path, Times::of(input)?, clock)?;
        }
        let mut clients = Clients {
            inputs,
            shifts: shifts(inputs, told.begin)?,
            first_volume: Vec::new(),
            client_of: Vec::new(),
            clients: Vec::new(),
            scale: 1.0,
            lasts: Nanos::ZERO,
            paused: Nanos::ZERO,
        };
        clients.named(told);
        clients.resize(told.bytes);
        clients.count()?;
        clients.promised(told.own)?;
        Ok(clients)
    }

    /// Creates the clients and assigns one to each volume.
    fn named(&mut self, told: ClientOptions<'_>) {
        let one = |name: String, bytes| Client {
            name,
            promise: told.promise,
            bytes,
            gaps: Gaps::default(),
        };
        for input in self.inputs {
            self.first_volume.push(self.client_of.len());
            let path = input.path.display().to_string();
            if told.by == By::Trace {
                let bytes = input.extents.iter().fold(0, |sum: u64, one| sum.saturating_add(*one));
                self.client_of.extend(vec![Some(self.clients.len()); input.extents.len()]);
                self.clients.push(one(short(&path).to_string(), bytes));
                continue;
            }
            for (volume, bytes) in input.extents.iter().enumerate() {
                let used = (*bytes > 0).then_some(self.clients.len());
                self.client_of.push(used);
                if used.is_some() {
                    let name = input.volumes.get(volume).filter(|name| !name.is_empty());
                    let name = name.cloned().unwrap_or_else(|| volume.to_string());
                    let traces = self.inputs.len();
                    let name = if traces > 1 { format!("{}/{name}", short(&path)) } else { name };
                    self.clients.push(one(name, *bytes));
                }
            }
        }
        for at in 0..self.clients.len() {
            let is_taken = |name: &String| self.clients[..at].iter().any(|c| c.name == *name);
            let name = self.clients[at].name.clone();
            let mut free = (1..).map(|n| if n == 1 { name.clone() } else { format!("{name}#{n}") });
            self.clients[at].name = free.find(|name| !is_taken(name)).unwrap_or(name);
        }
    }

    /// Makes the data of all clients together as large as `bytes`, if given.
    fn resize(&mut self, bytes: Option<f64>) {
        let all = self.clients.iter().map(|client| client.bytes as f64).sum::<f64>();
        let Some(bytes) = bytes.filter(|_| all > 0.0) else { return };
        self.scale = bytes / all;
        for client in &mut self.clients {
            client.bytes = (client.bytes as f64 * self.scale).ceil() as u64;
        }
    }

    /// Records the arrival times of each client's requests.
    fn count(&mut self) -> Result<(), Error> {
        let everybody: Vec<usize> = (0..self.clients.len()).collect();
        let mut merged = self.merged(&everybody)?;
        let mut gaps: Vec<Gaps> = everybody.iter().map(|_| Gaps::default()).collect();
        let mut lasts = Nanos::ZERO;
        let active_s = without_gaps_s(
            (&mut merged)
                .inspect(|record| {
                    gaps[record.stream as usize].push(record.at);
                    lasts = record.at;
                })
                .map(|record| record.at),
        );
        merged.ended()?;
        drop(merged);
        let paused = |active_s| lasts - Nanos::from_secs_f64(active_s);
        self.paused = active_s.map_or(Nanos::ZERO, paused);
        self.lasts = lasts;
        self.clients.iter_mut().zip(gaps).for_each(|(client, gaps)| client.gaps = gaps);
        Ok(())
    }

    fn promised(&mut self, own: &[(String, Promise)]) -> Result<(), Error> {
        for (name, promise) in own {
            let Some(client) = self.clients.iter_mut().find(|client| client.name == *name) else {
                let names: Vec<&str> = self.clients.iter().map(|c| c.name.as_str()).collect();
                let shown = names[..names.len().min(20)].join(", ");
                let said = format!("got no client called {name}, expected one of {shown}");
                return Err(AskError::new("promise", said).into());
            };
            client.promise = *promise;
        }
        Ok(())
    }

    /// Returns the extent of each volume in bytes; 0 for volumes of clients outside `group`.
    pub(super) fn extents(&self, group: &[usize]) -> Vec<u64> {
        let all = self.inputs.iter().flat_map(|input| &input.extents);
        let is_of = |client: &Option<usize>| client.is_some_and(|client| group.contains(&client));
        all.zip(&self.client_of).map(|(bytes, of)| if is_of(of) { *bytes } else { 0 }).collect()
    }

    /// Returns the used areas of each volume, in volume order; empty for volumes of clients outside
    /// `group`.
    pub(super) fn stretches(&self, group: &[usize]) -> Vec<Vec<Stretch>> {
        let used = self.inputs.iter().flat_map(|input| {
            let some = input.stretches.iter().cloned();
            some.chain(std::iter::repeat(Vec::new())).take(input.extents.len())
        });
        let is_of = |client: &Option<usize>| client.is_some_and(|client| group.contains(&client));
        used.zip(&self.client_of).map(|(of, c)| if is_of(c) { of } else { Vec::new() }).collect()
    }

    /// Returns the total size in bytes of the areas that the clients in `group` use.
    pub(super) fn touched(&self, group: &[usize]) -> u64 {
        let stretches = self.stretches(group);
        let mib = stretches.iter().flatten().map(|area| area.end_mib - area.begin_mib);
        mib.fold(0, u64::saturating_add).saturating_mul(1 << 20)
    }

    /// Merges the requests of all clients in `group` by time. Call [`Merged::ended`] after the last
    /// request.
    pub(super) fn merged(&self, group: &[usize]) -> Result<Merged<'_>, Error> {
        let mut wanted = vec![false; self.clients.len()];
        group.iter().for_each(|client| wanted[*client] = true);
        let mut merged = Merged {
            clients: self,
            sources: Vec::new(),
            next: BinaryHeap::new(),
            heads: Vec::new(),
            wanted,
        };
        for (at, input) in self.inputs.iter().enumerate() {
            let records = input.records()?;
            merged.sources.push((records.failed(), records));
            merged.heads.push(None);
            merged.advance(at);
        }
        Ok(merged)
    }

    /// Returns a caution for each trace of which more than half is unused, unless the user gave the
    /// size of the data. Data grow by `growth`.
    pub(super) fn told_of_gaps(&self, growth: f64) -> Vec<String> {
        if self.scale != 1.0 {
            return Vec::new();
        }
        let used = self.inputs.iter().map(Input::used_bytes).fold(0, u64::saturating_add);
        let gib = (used as f64 * growth / f64::from(1 << 30)).ceil().max(1.0) as u64;
        let told = |input: &Input| {
            let said = input.told_of_gaps()?;
            let (path, option) = (input.path.display(), named("gib"));
            Some(format!(
                "{path}: {said} If your data needs less space, specify its size ({option} {gib})."
            ))
        };
        self.inputs.iter().filter_map(told).collect()
    }

    /// Returns cautions about the clients, one sentence each.
    ///
    /// # Errors
    /// Fails if a trace cannot be read again.
    pub(super) fn cautions(&self, begin: Begin) -> Result<Vec<String>, Error> {
        let mut told = Vec::new();
        for input in self.inputs {
            let described = &input.description;
            let lasts = Nanos((described.duration_s * 1e9) as u64);
            let said = cautions(described.records, lasts, Times::of(input)?);
            let path = input.path.display();
            told.extend(said.into_iter().map(|said| format!("{path}: {said}")));
        }
        let span = |(input, shift): (&'a Input, &Nanos)| Span {
            path: &input.path,
            first: *shift,
            last: *shift + Nanos((input.description.duration_s * 1e9) as u64),
        };
        let spans: Vec<Span<'_>> = self.inputs.iter().zip(&self.shifts).map(span).collect();
        if spans.len() > 1 {
            told.extend(crate::plan::consolidate::cautions(&spans, begin, &[]));
        }
        told.dedup();
        Ok(told)
    }
}

/// Returns the last component of a path.
fn short(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns the delay of each trace relative to the first.
fn shifts(inputs: &[Input], begin: Begin) -> Result<Vec<Nanos>, Error> {
    if begin == Begin::Together || inputs.len() < 2 {
        return Ok(vec![Nanos::ZERO; inputs.len()]);
    }
    let began = inputs.iter().map(|input| own_clock(&input.path, &input.notes));
    let began = began.collect::<Result<Vec<Nanos>, Error>>()?;
    let first = began.iter().copied().min().unwrap_or_default();
    Ok(began.into_iter().map(|at| at - first).collect())
}

/// The requests of several traces, merged by time.
pub(super) struct Merged<'a> {
    clients: &'a Clients<'a>,
    sources: Vec<(Failed, Records<'a>)>,
    /// When the next request of each trace arrives, with the earliest on top.
    next: BinaryHeap<Reverse<(Nanos, usize)>>,
    heads: Vec<Option<Record>>,
    wanted: Vec<bool>,
}

impl Merged<'_> {
    fn advance(&mut self, source: usize) {
        let (first, shift) = (self.clients.first_volume[source], self.clients.shifts[source]);
        self.heads[source] = None;
        while let Some(mut record) = self.sources[source].1.next() {
            let volume = first + record.volume as usize;
            let client = self.clients.client_of.get(volume).copied().flatten();
            let Some(client) = client.filter(|client| self.wanted[*client]) else { continue };
            (record.volume, record.stream) = (volume as u32, client as u32);
            record.at += shift;
            self.next.push(Reverse((record.at, source)));
            self.heads[source] = Some(record);
            return;
        }
    }

    /// Returns the error that ended the reading of a trace, if there was one.
    pub(super) fn ended(&self) -> Result<(), Error> {
        match self.sources.iter().find_map(|(failed, _)| failed.take()) {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    /// Returns shared slots, one per trace, that contain the error if reading that trace failed.
    pub(super) fn failed(&self) -> Vec<Failed> {
        self.sources.iter().map(|(failed, _)| Failed::clone(failed)).collect()
    }
}

impl Iterator for Merged<'_> {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        let Reverse((_, source)) = self.next.pop()?;
        let record = self.heads[source].take();
        self.advance(source);
        record
    }
}
