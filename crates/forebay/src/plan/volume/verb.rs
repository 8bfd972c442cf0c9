//! The inputs of `plan volume`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use forebay_ask::{AskError, Choice, Delay, PartialShare, Share, Value, named, one_of};
use forebay_core::Nanos;
use forebay_core::device::throttled::Queues;
use forebay_trace::streams::StreamBy;

use super::counters::{self, Counters};
use super::{
    Credit, DEPTH_MAX, Instance, Question, SIZE, answer, answer_of_counters, apply, page, prices,
};
use crate::devices::DevicesError;
use crate::devices::volume::{self, ChosenVolume, VolumeType};
use crate::plan::confidence::Bootstrap;
use crate::plan::page::{too_few, undecided};
use crate::quantities::bound;
use crate::verb::{Answered, Session, SourceAsk, TraceInput, Verb, warn_all};
use crate::{Error, Input, ProgressReport};

forebay_ask::ask! {
    /// Find which cloud volume to buy, and with which IOPS and throughput, to keep a promise
    ///
    /// For each type of volume, finds the cheapest setting that answers the promised share of the
    /// requests in time. The volume to buy holds all volumes of the trace.
    pub struct VolumeAsk("plan volume") {
        /// The trace; - is standard input
        trace: Option<TraceInput> [.positional()],
        /// The time within which requests must be answered
        within: Nanos = "10ms",
        /// The share of all requests that must be answered in time
        fraction: Share = "0.99",
        /// The types to try, as `forebay devices` lists them or without the provider, as in
        /// gp3,io2; or your own files
        r#type: Vec<String> [.word("TYPE").otherwise("all bundled types")],
        /// The minimum size in GiB
        gib: Option<u64> [.word("N").between(1.0, 1e6).otherwise("the highest address of the trace, times the growth")],
        /// The factor by which data and requests per second will grow
        growth: f64 = "1" [.word("TIMES").between(0.001, 1000.0)],
        /// The burst that a volume allows beyond its rate, as a time at that rate. Providers do not
        /// document it, so the default is a range
        depth: Vec<Delay> = "0s,100ms",
        /// The credit of volumes that burst, when the trace begins
        credit: Credit = "steady",
        /// The time to serve a request once the volume lets it pass
        base_latency: Option<Delay> [.otherwise("that of each type")],
        /// The volume that you have, as in gp2:gib=500 or gp3:gib=500:iops=6000:mibps=250: its
        /// results are reported as well, and its size is the minimum size
        current: Option<String> [.word("VOLUME")],
        /// The EC2 instance whose EBS limits also apply, as in m7i.large, or its limits as `aws ec2
        /// describe-instance-types` prints them:
        /// baseline-iops=N:maximum-iops=N:baseline-mbps=N:maximum-mbps=N
        instance: Option<String> [.word("INSTANCE")],
        /// Your prices, a TOML file (docs/plan-volume.md)
        prices: Option<PathBuf>,
        /// A file with counters of operations and bytes per second, used instead of a trace; the
        /// result is then a lower bound. CSV, or the output of iostat -x -t 1, sar -d 1 or
        /// node_exporter (docs/plan-volume.md)
        from_counters: Option<PathBuf> [.excludes(&["trace", "from", "columns", "split_runs", "only_volume", "layer", "bad_rows", "model_seed", "trust_times"])],
        /// Which disk to use, if the file of counters has several
        disk: Option<String> [.word("NAME").requires("from_counters")],
        /// Compute a confidence interval of this level for the best price at each depth, by
        /// resampling the trace
        confidence: Option<PartialShare> [.excludes(&["from_counters"])],
        /// The seed of the resamples
        seed: u64 = "1" [.requires("confidence")],
        /// Also write the answer as an HTML report
        report: Option<PathBuf> [.short('o')],
        /// Trust the trace's times even if its clock seems too coarse for the promise
        trust_times: bool,
        source: SourceAsk,
    }
}

impl Value for Credit {
    const WORD: &'static str = "WHEN";
    const CHOICES: &'static [Choice] = &[
        Choice { name: "full", about: "all of it" },
        Choice { name: "empty", about: "none" },
        Choice { name: "steady", about: "the credit that remains if the trace is repeated" },
    ];

    fn parse(text: &str) -> Result<Credit, String> {
        one_of(text, Self::CHOICES, [Credit::Full, Credit::Empty, Credit::Steady])
    }
}

impl Verb for VolumeAsk {
    type Beyond = ();

    fn traces(&self) -> Vec<&TraceInput> {
        self.trace.iter().collect()
    }

    fn files(&self) -> Vec<&Path> {
        let types = self.r#type.iter().chain(&self.current).map(Path::new);
        let files = self.prices.iter().chain(&self.from_counters);
        types.chain(files.map(PathBuf::as_path)).collect()
    }

    fn report(&self) -> Option<&Path> {
        self.report.as_deref()
    }

    fn run(self, session: &mut dyn Session) -> Result<Answered, Error> {
        let mut kinds = self.kinds()?;
        let mut current = self.current()?;
        self.price(&mut kinds, current.as_mut())?;
        let instance = self.instance()?;
        let source = self.load(session)?;
        let of_current = current.as_ref().and_then(|chosen| chosen.knobs.get(SIZE));
        let of_current = of_current.map(|gib| gib as u64);
        let question = Question {
            within: self.within,
            fraction: self.fraction,
            growth: self.growth,
            gib: self.gib.or(of_current).unwrap_or_else(|| source.least_gib(self.growth)),
            is_size_given: self.gib.or(of_current).is_some(),
            current: current.as_ref(),
            kinds: &kinds,
            credit: self.credit,
            depths_ms: depths_ms(&self.depth)?,
            base_latency: self.base_latency.map(|latency| latency.0),
            instance: instance.as_ref(),
            bootstrap: self.confidence.map(|level| Bootstrap { level: level.0, seed: self.seed }),
            trust_times: self.trust_times,
        };
        session.begin("searching for settings", None);
        let progress = &mut |told: &ProgressReport| session.progress(told);
        let (mut found, name) = match &source {
            Source::Trace(input) => (answer(input, &question, progress)?, &input.path),
            Source::Counters(path, counters) => {
                (answer_of_counters(path, counters, &question, progress)?, path)
            }
        };
        warn_all(session, name, &found.of_trace);
        let data_requests = match &source {
            Source::Trace(input) => input.description.requests,
            Source::Counters(..) => u64::MAX,
        };
        if too_few(data_requests).is_some() {
            (found.apply, found.said) = (None, Vec::new());
        }
        Answered::new(&found, undecided(page::page(&found), data_requests))
    }
}

/// The load, given as a trace or as counters.
enum Source {
    Trace(Box<Input>),
    Counters(PathBuf, Counters),
}

impl Source {
    /// Returns the minimum size in GiB; counters do not record one.
    fn least_gib(&self, growth: f64) -> u64 {
        match self {
            Source::Trace(input) => least_gib(input, growth),
            Source::Counters(..) => 1,
        }
    }
}

/// Returns the bucket depths in milliseconds, in ascending order and without duplicates.
fn depths_ms(given: &[Delay]) -> Result<Vec<f64>, AskError> {
    let mut all: Vec<Nanos> = given.iter().map(|depth| depth.0).collect();
    all.sort_unstable();
    all.dedup();
    match all.last() {
        Some(most) if *most <= DEPTH_MAX => Ok(all.into_iter().map(Nanos::as_millis_f64).collect()),
        most => {
            let got = most.map_or("nothing".into(), |most| bound(most.as_millis_f64()));
            let most = bound(DEPTH_MAX.as_millis_f64());
            Err(AskError::new("depth", format!("got {got}, expected 0 s to {most}")))
        }
    }
}

/// Returns the size in GiB that holds the trace's data.
fn least_gib(input: &Input, growth: f64) -> u64 {
    let bytes = input.extents.iter().fold(0, |sum: u64, extent| sum.saturating_add(*extent));
    (bytes as f64 * growth / f64::from(1 << 30)).ceil().max(1.0) as u64
}

impl VolumeAsk {
    /// Reads the trace, or the counters.
    fn load(&self, session: &mut dyn Session) -> Result<Source, Error> {
        match (&self.trace, &self.from_counters) {
            (_, Some(path)) => {
                session.begin("reading", Some(path));
                let counters = counters::read(path, self.disk.as_deref())?;
                Ok(Source::Counters(path.clone(), counters.growing(self.growth)))
            }
            (Some(trace), None) => {
                let input = self.source.read(trace, StreamBy::default(), session)?;
                Ok(Source::Trace(Box::new(input)))
            }
            (None, None) => {
                let text = format!("missing; expected a trace, or {}", named("from_counters"));
                Err(AskError::new("trace", text).into())
            }
        }
    }

    /// Returns the volume types to try.
    fn kinds(&self) -> Result<Vec<VolumeType>, Error> {
        let bundled = offered()?;
        let known = names(&bundled);
        let mut kinds = match self.r#type.as_slice() {
            [] => bundled,
            some => some.iter().map(|name| kind(name, &known)).collect::<Result<_, _>>()?,
        };
        let mut names = BTreeSet::new();
        kinds.retain(|kind| names.insert(kind.name.clone()));
        Ok(kinds)
    }

    /// Returns the volume that the user has now, if given.
    fn current(&self) -> Result<Option<ChosenVolume>, Error> {
        let Some(spec) = &self.current else { return Ok(None) };
        Ok(Some(chosen(spec, &names(&offered()?))?))
    }

    /// Replaces the prices of all types by those in the user's file, if given.
    fn price(
        &self,
        kinds: &mut Vec<VolumeType>,
        current: Option<&mut ChosenVolume>,
    ) -> Result<(), Error> {
        let Some(path) = &self.prices else { return Ok(()) };
        let mut known = names(&offered()?);
        known.extend(names(kinds));
        known.extend(current.iter().map(|chosen| chosen.volume.name.clone()));
        *kinds = prices::replaced(path, std::mem::take(kinds), &known)?;
        if let Some(chosen) = current {
            let volume = prices::replaced(path, vec![chosen.volume.clone()], &known)?.pop();
            chosen.volume = volume.unwrap_or_else(|| chosen.volume.clone());
        }
        Ok(())
    }

    /// Returns the EC2 instance with its limits, if given.
    fn instance(&self) -> Result<Option<Instance>, Error> {
        let Some(limits) = &self.instance else { return Ok(None) };
        let wrong = |error: &dyn std::fmt::Display| {
            let text = format!(
                "got '{limits}': {error}; expected an instance such as m7i.large, or limits such \
                 as baseline-iops=3600:maximum-iops=40000:baseline-mbps=81:maximum-mbps=1250"
            );
            Error::from(AskError::new("instance", text))
        };
        if let Some((chosen, source)) = volume::instance(limits)? {
            let note = format!("The limits of {limits} are those of: {source}.");
            return Ok(Some(Instance { chosen, note: Some(note) }));
        }
        if !limits.contains('=') {
            let names = volume::instance_names();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let near = forebay_ask::suggestion(limits, &names);
            return Err(wrong(&format!("no known EC2 instance{near}")));
        }
        let spec = format!("{}:{limits}", volume::INSTANCE_LIMITS);
        let chosen = volume::choose(&spec).map_err(|error| wrong(&error))?;
        chosen.volume.at(&chosen.knobs).map_err(|error| wrong(&error.0))?;
        Ok(Some(Instance { chosen, note: None }))
    }
}

/// Returns the bundled types that providers sell.
fn offered() -> Result<Vec<VolumeType>, Error> {
    let all = volume::list()?.into_iter();
    Ok(all.filter(|kind| super::Offered::new(kind).is_some()).collect())
}

fn names(kinds: &[VolumeType]) -> Vec<String> {
    kinds.iter().map(|kind| kind.name.clone()).collect()
}

/// Adds the provider to the name of a type if it is missing. Unknown names are returned unchanged.
pub(super) fn whole_name(name: &str, known: &[String]) -> String {
    let providers = ["", apply::AWS, apply::AZURE, apply::GOOGLE];
    let whole = providers.map(|provider| format!("{provider}{name}"));
    whole.into_iter().find(|whole| known.contains(whole)).unwrap_or_else(|| name.into())
}

/// Suggests the type that the user probably meant, with or without its provider. Of two types that
/// are equally similar, it suggests the later one: `gp3` rather than `gp2`.
fn suggestion(name: &str, known: &[String]) -> String {
    let short = known.iter().rev().filter_map(|whole| whole.split_once('-')).map(|(_, name)| name);
    let names: Vec<&str> = short.chain(known.iter().map(String::as_str)).collect();
    forebay_ask::suggestion(name, &names)
}

/// Parses the spec of a volume, such as `gp3:gib=500`.
fn chosen(spec: &str, known: &[String]) -> Result<ChosenVolume, Error> {
    let (name, choices) = spec.split_once(':').unwrap_or((spec, ""));
    let whole = format!("{}:{choices}", whole_name(name, known));
    let chosen = volume::choose(whole.trim_end_matches(':'));
    let wrong = |what: String| {
        let text = format!(
            "got '{spec}': {what}; expected a volume such as gp3:gib=500:iops=6000:mibps=250"
        );
        Error::from(AskError::new("current", text))
    };
    let chosen = chosen.map_err(|error| match error {
        DevicesError::Unknown { .. } => {
            let near = suggestion(name, known);
            wrong(format!("no volume type '{name}'{near}; `forebay devices` lists all"))
        }
        other => wrong(other.to_string()),
    })?;
    if chosen.volume.name == volume::INSTANCE_LIMITS {
        let what =
            format!("these are the limits of an instance; give them as {}", named("instance"));
        return Err(wrong(what));
    }
    let throttle = chosen.volume.at(&chosen.knobs).map_err(|error| wrong(error.0))?;
    match throttle.queues {
        Queues::Shared => Ok(chosen),
        Queues::PerDirection => Err(wrong("its reads and writes wait in separate queues".into())),
    }
}

/// Returns the type called `name`, with or without its provider, or the type described by the file
/// of that name.
fn kind(name: &str, known: &[String]) -> Result<VolumeType, Error> {
    let found = &whole_name(name, known);
    let is_file = Path::new(name).is_file();
    if !known.iter().any(|known| known == found) && !is_file && !is_bundled(name)? {
        let near = suggestion(name, known);
        let text = match near.is_empty() {
            true => {
                format!("got '{name}', expected a type that `forebay devices` lists, or a file")
            }
            false => format!("got '{name}'{near}; `forebay devices` lists all"),
        };
        return Err(AskError::new("type", text).into());
    }
    let kind = volume::choose(found)?.volume;
    if super::Offered::new(&kind).is_some() {
        return Ok(kind);
    }
    let text = format!(
        "got '{name}', which is not sold by its size and rates, expected another type that \
         `forebay devices` lists, or the file of a volume with one queue and no choices other than \
         its size and two rates"
    );
    Err(AskError::new("type", text).into())
}

/// Returns whether a bundled type has this name, even if providers do not sell it.
fn is_bundled(name: &str) -> Result<bool, Error> {
    Ok(volume::list()?.iter().any(|kind| kind.name == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_found_with_and_without_their_provider() {
        let known = ["ebs-gp3", "azure-ultra", "iotune"].map(String::from);
        for name in ["gp3", "ebs-gp3", "ultra"] {
            assert!(kind(name, &known).unwrap().name.ends_with(name), "{name}");
        }
        let said = kind("gp4", &known).unwrap_err().to_string();
        assert!(said.ends_with("(did you mean gp3?); `forebay devices` lists all"), "{said}");
        let said = kind("tape", &known).unwrap_err().to_string();
        assert!(said.contains("a type that `forebay devices` lists, or a file"), "{said}");
        let said = kind("iotune", &known).unwrap_err().to_string();
        assert!(said.contains("not sold by its size"), "{said}");
    }

    #[test]
    fn depths_rise_and_come_once() {
        let given = ["100ms", "0s", "100ms"].map(|text| Delay::parse(text).unwrap());
        assert_eq!(depths_ms(&given).unwrap(), [0.0, 100.0]);
        for wrong in [&[][..], &[Delay(Nanos::from_secs(11))]] {
            let said = depths_ms(wrong).unwrap_err().message;
            assert!(said.ends_with("expected 0 s to 10 s"), "{said}");
        }
    }
}
