//! The verb `plan volume`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use forebay_ask::{AskError, Choice, Delay, Share, Value};
use forebay_core::Nanos;
use forebay_core::device::throttled::Queues;
use forebay_trace::streams::StreamBy;

use super::find::DEPTH_MAX;
use super::kind::SIZE;
use super::{Credit, Question, answer, apply, page, prices};
use crate::devices::volume::{self, ChosenVolume, VolumeType};
use crate::error::Error;
use crate::input::Input;
use crate::progress::ProgressReport;
use crate::quantities::bound;
use crate::verb::{Answered, Session, SourceAsk, TraceInput, Verb, warn_all};

forebay_ask::ask! {
    /// Find which cloud volume to buy, and with which IOPS and throughput, to keep a promise
    ///
    /// For each type of volume the cheapest setting that answers the promised share of the requests in time. All volumes of
    /// the trace share the one to buy.
    pub struct VolumeAsk("plan volume") {
        /// The trace; - is standard input
        trace: TraceInput [.positional()],
        /// The time within which to answer
        within: Nanos = "10ms",
        /// The share of all requests to answer in time
        fraction: Share = "0.99",
        /// The types to try, as `forebay devices` lists them or without the provider, as in gp3,io2; or your own files
        r#type: Vec<String> [.word("TYPE").otherwise("all bundled types")],
        /// The least size in GiB
        gib: Option<u64> [.word("N").between(1.0, 1e6).otherwise("the highest address of the trace, times the growth")],
        /// How many times as much data and as many requests per second there will be
        growth: f64 = "1" [.word("TIMES").between(0.001, 1000.0)],
        /// How much a volume lets pass at once beyond its rate, as time at that rate. Providers do not say, so the default
        /// is a range
        depth: Vec<Delay> = "0s,100ms",
        /// The credit of volumes that burst, when the trace begins
        credit: Credit = "steady",
        /// The time to serve a request once the volume lets it pass
        base_latency: Option<Delay> [.otherwise("that of each type")],
        /// The volume that you have, as in gp2:gib=500 or gp3:gib=500:iops=6000:mibps=250: what it does is said as well, and its
        /// size is the least size
        current: Option<String> [.word("VOLUME")],
        /// The EBS limits of an EC2 instance, as `aws ec2 describe-instance-types` prints them:
        /// baseline-iops=N:maximum-iops=N:baseline-mbps=N:maximum-mbps=N
        instance: Option<String> [.word("LIMITS")],
        /// Your prices, a TOML file (docs/plan-volume.md)
        prices: Option<PathBuf>,
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
        Choice { name: "steady", about: "what is left if the trace is repeated" },
    ];

    fn parse(text: &str) -> Result<Credit, String> {
        match text {
            "full" => Ok(Credit::Full),
            "empty" => Ok(Credit::Empty),
            "steady" => Ok(Credit::Steady),
            _ => Err(format!("got '{text}', expected full, empty or steady")),
        }
    }
}

impl Verb for VolumeAsk {
    type Beyond = ();

    fn traces(&self) -> Vec<&TraceInput> {
        vec![&self.trace]
    }

    fn files(&self) -> Vec<&Path> {
        let types = self.r#type.iter().map(Path::new);
        types.chain(self.prices.as_deref()).collect()
    }

    fn report(&self) -> Option<&Path> {
        self.report.as_deref()
    }

    fn run(self, session: &mut dyn Session) -> Result<Answered, Error> {
        let kinds = self.kinds()?;
        let instance = self.instance()?;
        let input = self.source.read(&self.trace, StreamBy::default(), session)?;
        let current = self.current()?;
        let of_current = current.as_ref().and_then(|chosen| chosen.knobs.get(SIZE));
        let of_current = of_current.map(|gib| gib as u64);
        let question = Question {
            within: self.within,
            fraction: self.fraction,
            growth: self.growth,
            gib: self.gib.or(of_current).unwrap_or_else(|| least_gib(&input, self.growth)),
            is_size_given: self.gib.or(of_current).is_some(),
            current: current.as_ref(),
            kinds: &kinds,
            credit: self.credit,
            depths_ms: depths_ms(&self.depth)?,
            base_latency: self.base_latency.map(|latency| latency.0),
            instance: instance.as_ref(),
            trust_times: self.trust_times,
        };
        session.begin("searching for settings", None);
        let found = answer(&input, &question, &mut |told: &ProgressReport| session.progress(told))?;
        warn_all(session, self.trace.name(), &found.of_trace);
        Answered::new(&found, page::page(&found))
    }
}

/// Returns each depth once, the smallest first.
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

/// Returns the size that holds the trace's data, in GiB.
fn least_gib(input: &Input, growth: f64) -> u64 {
    let bytes = input.extents.iter().fold(0, |sum: u64, extent| sum.saturating_add(*extent));
    (bytes as f64 * growth / f64::from(1 << 30)).ceil().max(1.0) as u64
}

impl VolumeAsk {
    /// Returns the types to try, with their prices.
    fn kinds(&self) -> Result<Vec<VolumeType>, Error> {
        let bundled = volume::list()?;
        let known: Vec<String> = bundled.iter().map(|kind| kind.name.clone()).collect();
        let mut kinds = match self.r#type.as_slice() {
            [] => bundled,
            some => some.iter().map(|name| kind(name, &known)).collect::<Result<_, _>>()?,
        };
        let mut names = BTreeSet::new();
        kinds.retain(|kind| names.insert(kind.name.clone()));
        self.priced(kinds, &known)
    }

    /// Replaces the prices of `kinds` by those of the user, if there are any.
    fn priced(&self, kinds: Vec<VolumeType>, known: &[String]) -> Result<Vec<VolumeType>, Error> {
        match &self.prices {
            Some(path) => prices::replaced(path, kinds, known),
            None => Ok(kinds),
        }
    }

    /// Returns the volume that the user has, if it was given.
    fn current(&self) -> Result<Option<ChosenVolume>, Error> {
        let Some(spec) = &self.current else { return Ok(None) };
        let known: Vec<String> = volume::list()?.into_iter().map(|kind| kind.name).collect();
        let mut chosen = chosen(spec, &known)?;
        chosen.volume = self.priced(vec![chosen.volume], &known)?.remove(0);
        Ok(Some(chosen))
    }

    /// Returns the instance with its limits.
    fn instance(&self) -> Result<Option<ChosenVolume>, Error> {
        let Some(limits) = &self.instance else { return Ok(None) };
        let wrong = |error: &dyn std::fmt::Display| {
            let said = format!(
                "got '{limits}': {error}; expected as in baseline-iops=2500:maximum-iops=40000:\
                 baseline-mbps=81:maximum-mbps=1250"
            );
            Error::from(AskError::new("instance", said))
        };
        let spec = format!("ebs-instance:{limits}");
        let chosen = volume::choose(&spec).map_err(|error| wrong(&error))?;
        chosen.volume.at(&chosen.knobs).map_err(|error| wrong(&error.0))?;
        Ok(Some(chosen))
    }
}

/// Returns the name of a type that is written without its provider; unknown names as they are.
fn whole_name(name: &str, known: &[String]) -> String {
    let providers = ["", apply::AWS, apply::AZURE, apply::GOOGLE];
    let whole = providers.map(|provider| format!("{provider}{name}"));
    whole.into_iter().find(|whole| known.contains(whole)).unwrap_or_else(|| name.into())
}

/// Returns the volume of a spec such as `gp3:gib=500`.
fn chosen(spec: &str, known: &[String]) -> Result<ChosenVolume, Error> {
    let (name, choices) = spec.split_once(':').unwrap_or((spec, ""));
    let whole = format!("{}:{choices}", whole_name(name, known));
    let chosen = volume::choose(whole.trim_end_matches(':'));
    let wrong = |what: String| {
        let said = format!("got '{spec}': {what}; expected as in gp3:gib=500:iops=6000:mibps=250");
        Error::from(AskError::new("current", said))
    };
    let chosen = chosen.map_err(|error| wrong(error.to_string()))?;
    let throttle = chosen.volume.at(&chosen.knobs).map_err(|error| wrong(error.0))?;
    match throttle.queues {
        Queues::Shared => Ok(chosen),
        Queues::PerDirection => Err(wrong("its reads and writes wait apart".into())),
    }
}

/// Returns the type called `name`, with or without its provider, or the one in a file.
fn kind(name: &str, known: &[String]) -> Result<VolumeType, Error> {
    let found = &whole_name(name, known);
    if !known.iter().any(|known| known == found) && !Path::new(name).is_file() {
        let names: Vec<&str> = known.iter().map(String::as_str).collect();
        let near = forebay_ask::suggestion(name, &names);
        let said = format!("got '{name}', expected one of {}, or a file{near}", names.join(", "));
        return Err(AskError::new("type", said).into());
    }
    let kind = volume::choose(found)?.volume;
    match super::kind::shape(&kind) {
        Some(_) => Ok(kind),
        None => Err(AskError::new(
            "type",
            format!(
                "got '{name}', which is not sold by its size and rates, expected a type of volume"
            ),
        )
        .into()),
    }
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
        assert!(said.contains("expected one of ebs-gp3, azure-ultra"), "{said}");
        let said = kind("iotune", &known).unwrap_err().to_string();
        assert!(said.contains("not sold by its size"), "{said}");
    }

    #[test]
    fn depths_rise_and_come_once() {
        let given = ["100ms", "0s", "100ms"].map(|text| Delay::parse(text).unwrap());
        assert_eq!(depths_ms(&given).unwrap(), [0.0, 100.0]);
        for wrong in [&[][..], &[Delay(Nanos::from_secs(11))]] {
            let said = depths_ms(wrong).unwrap_err().said;
            assert!(said.ends_with("expected 0 s to 10 s"), "{said}");
        }
    }
}
