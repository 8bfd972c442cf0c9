//! The arrival times of a trace, for all requests and by volume.

use std::path::{Path, PathBuf};

use forebay_ask::named;
use forebay_core::Nanos;
use forebay_core::rtt::Gaps;
use forebay_trace::gaps::without_gaps_s;
use forebay_trace::{Notes, Reader};

use crate::clock::Times;
use crate::input::read_through;
use crate::quantities::bytes;
use crate::{Error, Progress};

/// The requests of a trace, with what `A` keeps of each.
pub struct Requests<A> {
    /// The file or stream from which the trace was read.
    pub path: PathBuf,
    /// All requests.
    pub whole: A,
    /// The requests of each volume, by volume name, for volumes that have any; empty unless
    /// requested.
    pub volumes: Vec<(String, A)>,
    /// The lengths of the shortest and of the longest request, in bytes.
    pub lengths: (u32, u32),
    /// The number of reads and writes in the trace; an upper bound for a part of a trace.
    pub data_requests: u64,
    /// What was skipped, changed or assumed while the trace was read.
    pub notes: Notes,
}

/// The arrival times of a trace.
pub type ArrivalTimes = Requests<Gaps>;

/// A list of requests in order of time.
pub trait Arrivals: Default {
    /// Adds a request that arrives at `at` and is `len` bytes long.
    fn add(&mut self, at: Nanos, len: u32);
    /// Returns the number of requests.
    fn count(&self) -> u64;
    /// Returns the arrival times.
    fn times(&self) -> impl Iterator<Item = Nanos>;
    /// Returns when the first and the last request arrive; 0 if there are none.
    fn ends(&self) -> (Nanos, Nanos);
    /// Delays every request by the time `by`.
    fn later(self, by: Nanos) -> Self;
}

impl Arrivals for Gaps {
    fn add(&mut self, at: Nanos, _len: u32) {
        self.push(at);
    }

    fn count(&self) -> u64 {
        self.len() as u64
    }

    fn times(&self) -> impl Iterator<Item = Nanos> {
        self.times()
    }

    fn ends(&self) -> (Nanos, Nanos) {
        (self.first(), self.last())
    }

    fn later(self, by: Nanos) -> Gaps {
        self.times().map(|at| at + by).collect()
    }
}

/// How fine a trace's clock must be.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// The shortest time that any promise allows for an answer.
    pub within: Nanos,
    /// Whether to trust the trace's times even if its clock seems too coarse for the promises.
    pub is_trusted: bool,
}

impl Clock {
    /// Returns the clock resolution that promises with these times require of a trace.
    pub fn of(within: impl IntoIterator<Item = Nanos>, is_trusted: bool) -> Clock {
        Clock { within: within.into_iter().min().unwrap_or(Nanos::MAX), is_trusted }
    }
}

/// When a trace begins and ends.
#[derive(Clone, Copy, Debug)]
pub struct Span<'a> {
    /// The file or stream from which the trace was read.
    pub path: &'a Path,
    /// When the first request arrives.
    pub first: Nanos,
    /// When the last request arrives.
    pub last: Nanos,
}

impl Span<'_> {
    /// Returns the time from the first arrival to the last.
    pub fn duration(&self) -> Nanos {
        self.last - self.first
    }
}

impl<A: Arrivals> Requests<A> {
    /// Reads all requests from `reader`. Error messages call the trace `name`. With `by_volume`,
    /// the requests of each volume are also recorded separately.
    ///
    /// # Errors
    /// Fails if the trace cannot be read, has no requests or no times, or has a clock too coarse
    /// for the promises.
    pub fn read(
        name: &Path,
        reader: &mut dyn Reader,
        by_volume: bool,
        clock: Clock,
        progress: Progress<'_>,
    ) -> Result<Requests<A>, Error> {
        let (mut whole, mut volumes) = (A::default(), Vec::<A>::new());
        let (mut lengths, mut data_requests) = ((u32::MAX, 0), 0);
        read_through(name, reader, progress, |batch, _| {
            for record in batch {
                whole.add(record.at, record.len);
                data_requests += u64::from(record.op.moves_data());
                lengths = (lengths.0.min(record.len), lengths.1.max(record.len));
                if by_volume {
                    let volume = record.volume as usize;
                    if volume >= volumes.len() {
                        volumes.resize_with(volume + 1, A::default);
                    }
                    volumes[volume].add(record.at, record.len);
                }
            }
        })?;
        timed(name, reader.notes())?;
        told_apart(name, Times::among(whole.times()), clock)?;
        let names = &reader.dictionary().volumes;
        let named = |(index, of)| (names.get(index).cloned().unwrap_or_default(), of);
        let volumes = volumes.into_iter().enumerate().filter(|(_, of)| of.count() > 0);
        Ok(Requests {
            path: name.to_path_buf(),
            whole,
            volumes: volumes.map(named).collect(),
            lengths,
            data_requests,
            notes: reader.notes().clone(),
        })
    }

    /// Returns each volume as a separate trace, on the same clock; empty unless volumes were
    /// recorded separately.
    pub fn split(self) -> Vec<Requests<A>> {
        let Requests { path, volumes, lengths, data_requests, notes, .. } = self;
        let of = |(volume, whole): (String, A)| Requests {
            path: PathBuf::from(format!("{} volume {volume}", path.display())),
            data_requests: data_requests.min(whole.count()),
            whole,
            volumes: Vec::new(),
            lengths,
            notes: notes.clone(),
        };
        volumes.into_iter().map(of).collect()
    }

    /// Converts arrival times to the clock of the trace's source, which other traces may share.
    ///
    /// # Errors
    /// Fails if the trace does not record its source's clock.
    pub fn by_own_clock(self) -> Result<Requests<A>, Error> {
        let began = own_clock(&self.path, &self.notes)?;
        Ok(self.later(began))
    }

    /// Delays every request by the time `by`.
    pub fn later(self, by: Nanos) -> Requests<A> {
        Requests { whole: self.whole.later(by), ..self }
    }

    /// Returns when the trace begins and ends.
    pub fn span(&self) -> Span<'_> {
        let (first, last) = self.whole.ends();
        Span { path: &self.path, first, last }
    }

    /// Returns the number of requests in the trace.
    pub fn requests(&self) -> u64 {
        self.whole.count()
    }

    /// Returns the time from the first arrival to the last.
    pub fn duration(&self) -> Nanos {
        self.span().duration()
    }

    /// Returns the duration in seconds without gaps, if one or two gaps make up nearly all of the
    /// trace.
    pub fn active_s(&self) -> Option<f64> {
        without_gaps_s(self.whole.times())
    }

    /// Returns cautions if the trace is too short, or its clock too coarse, for reliable statements
    /// about the load; one sentence each.
    pub fn cautions(&self) -> Vec<String> {
        cautions(self.requests(), self.duration(), Times::among(self.whole.times()))
    }

    /// Creates a trace of these requests, of 512 bytes each.
    #[cfg(test)]
    pub(crate) fn of(whole: A) -> Requests<A> {
        Requests {
            path: PathBuf::from("t"),
            whole,
            volumes: Vec::new(),
            lengths: (512, 512),
            data_requests: 1000,
            notes: Notes::default(),
        }
    }
}

/// Returns when the trace called `name` began, on the clock of its source.
pub(super) fn own_clock(name: &Path, notes: &Notes) -> Result<Nanos, Error> {
    notes.began.ok_or_else(|| {
        Error::Unfit(format!(
            "{}: got a trace without an absolute start time, expected a trace with its own clock, \
             such as a log, or Parquet written by forebay convert; convert it again into a new \
             folder or file, leave {} out, or keep the volumes in one trace ({})",
            name.display(),
            named("keep_times=true"),
            named("by=volume")
        ))
    })
}

/// Fails if the trace called `name` has no times.
pub(super) fn timed(name: &Path, notes: &Notes) -> Result<(), Error> {
    if !notes.is_timeless {
        return Ok(());
    }
    Err(Error::Unfit(format!(
        "{}: got a trace without times, expected a trace with arrival times, because promises about \
         response times require them",
        name.display()
    )))
}

/// Fails if the clock of the trace called `name` is too coarse to separate requests as finely as
/// the promises require.
pub(super) fn told_apart(name: &Path, times: Times, clock: Clock) -> Result<(), Error> {
    let why = times.why_no_promise(clock.within).filter(|_| !clock.is_trusted);
    let Some(why) = why else { return Ok(()) };
    let expected = match times {
        Times::Same => "expected requests that arrive one after another".to_string(),
        _ => format!("expected a clock that steps by less than the {} promised", clock.within),
    };
    Err(Error::Unfit(format!(
        "{}: {why}, so this cannot be computed; {expected}; allow more time, record with a finer \
         clock, or pass {} if the requests really arrived at these times",
        name.display(),
        named("trust_times=true")
    )))
}

/// Returns cautions about a trace with a single request, without duration or with a coarse clock;
/// one sentence each.
pub(super) fn cautions(requests: u64, duration: Nanos, clock: Times) -> Vec<String> {
    match (requests, duration) {
        (1, _) => vec!["it has only one request, which does not describe a load".into()],
        (requests, Nanos::ZERO) => vec![format!("all {requests} requests arrive at the same time")],
        _ => clock.caution_though().into_iter().collect(),
    }
}

/// Returns a caution if the clients' requests differ in length, because each counts as one request.
/// It suggests `inputs`, options that take the length into account.
pub fn size_caution<'a>(
    clients: impl IntoIterator<Item = &'a ArrivalTimes>,
    inputs: &[&str],
) -> Option<String> {
    let each = clients.into_iter().map(|client| client.lengths);
    let (shortest, longest) = each.reduce(|all, of| (all.0.min(of.0), all.1.max(of.1)))?;
    let inputs: Vec<String> = inputs.iter().map(|input| named(input)).collect();
    let remedy = match inputs.as_slice() {
        [] => String::new(),
        [one] => format!("; {one} counts bytes too"),
        several => format!("; {} count bytes too", several.join(" and ")),
    };
    (shortest < longest).then(|| {
        format!(
            "Requests are {} to {} long, but each counts as one{remedy}.",
            bytes(shortest.into()),
            bytes(longest.into())
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_of_its_own_is_kept_or_missed() {
        let trace = |began| ArrivalTimes {
            notes: Notes { began, ..Notes::default() },
            ..Requests::of([Nanos(0), Nanos(7)].into_iter().collect())
        };
        let kept = trace(Some(Nanos(90))).by_own_clock().ok().unwrap();
        assert_eq!(kept.whole.times().collect::<Vec<_>>(), [Nanos(90), Nanos(97)]);
        let said = trace(None).by_own_clock().err().unwrap().to_string();
        assert!(said.contains("without an absolute start time"), "{said}");
    }

    fn clock(step_ms: u64) -> Times {
        // Thirty requests, three in each clock step.
        Times::among((0..30).map(|index| Nanos::from_millis(index / 3 * step_ms)))
    }

    fn within(ms: u64) -> Clock {
        Clock::of([Nanos::from_millis(ms), Nanos::from_secs(9)], false)
    }

    #[test]
    fn a_clock_as_coarse_as_the_promise_is_refused_and_a_finer_one_reported() {
        let trace = Path::new("t");
        let said = told_apart(trace, clock(99), within(10)).unwrap_err().to_string();
        assert!(said.contains("t: the trace's clock steps by 99 ms"), "{said}");
        assert!(said.contains("less than the 10 ms promised"), "{said}");
        assert!(said.contains("trust_times"), "{said}");
        assert!(told_apart(trace, clock(99), within(99)).is_err());
        assert!(told_apart(trace, clock(99), within(100)).is_ok());
        assert!(told_apart(trace, clock(99), Clock { is_trusted: true, ..within(10) }).is_ok());
        for step_ms in [99, 1000] {
            let said = cautions(30, Nanos::from_secs(1), clock(step_ms));
            assert!(said.len() == 1 && said[0].contains("steps by "), "{said:?}");
        }
        assert!(cautions(30, Nanos::from_secs(1), clock(1)).is_empty());
        let said = told_apart(trace, Times::Same, within(10)).unwrap_err().to_string();
        assert!(said.contains("all requests have the same time"), "{said}");
    }
}
