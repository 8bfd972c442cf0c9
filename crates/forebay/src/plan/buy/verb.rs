//! The inputs of `plan buy`, and writing its configuration.

use std::path::{Path, PathBuf};

use forebay_ask::{AskError, Choice, PartialShare, Share, Takes, Value, one_of, positive_duration};
use forebay_core::Nanos;
use forebay_trace::streams::StreamBy;

use super::{
    Answer, Budget, By, Candidate, Configuration, Layout, Prices, Promise, Question, Reliability,
};
use super::{Sharing, answer, page};
use crate::plan::confidence::Bootstrap;
use crate::plan::consolidate::Begin;
use crate::plan::page::undecided;
use crate::verb::{
    Answered, ByVolume, Session, SourceAsk, TraceInput, Verb, kept, policy_exists, warn_all,
};
use crate::{Error, Input, ProgressReport, devices};

forebay_ask::ask! {
    /// Find which drives to buy, how many and in which layout, to keep promises to clients
    ///
    /// Every number of each drive in each layout is simulated, from the smallest, until one keeps
    /// the promises. For all bundled drives and layouts that takes minutes, so specify the drives
    /// and layouts that you would consider buying.
    pub struct BuyAsk("plan buy") {
        /// The clients' traces
        traces: Vec<TraceInput> [.positional().at_least_one()],
        /// Treat each volume of the traces as a client, which may have its own promise
        by: Option<ByVolume>,
        /// Keep the clock that the traces share, so that each client begins at its recorded time
        keep_times: bool,
        /// The time within which to answer
        within: Nanos = "10ms",
        /// The share of each client's requests to answer in time
        fraction: Share = "0.99",
        /// A client's own promise, as in web=5ms:0.999; may be repeated. In Python also a dict as
        /// {"web": ("5ms", 0.999)}
        promise: Vec<OwnPromise> [.repeated()],
        /// The factor by which data and requests per second will grow
        growth: f64 = "1" [.word("TIMES").between(0.001, 1000.0)],
        /// The size in GiB of the data of all clients together, including growth
        gib: Option<u64> [.word("N").between(1.0, 1e6).otherwise("the highest address of each volume, times the growth")],
        /// The number of spare drives that can replace a failed one
        spare: u16 = "0" [.between(0.0, 1024.0)],
        /// The share of time for which each drive must be idle; for flash, how much faster requests
        /// may arrive: 0.3 means 1/0.7 times as fast
        headroom: Headroom = "0.3",
        /// Consider only layouts that lose no data when this many drives fail, whichever they are
        survives: u16 = "0" [.between(0.0, 2.0)],
        /// Failures per drive and year (default: Backblaze's hard drives, 2024)
        failures_per_year: f64 = "0.0157" [.between(0.000001, 10.0)],
        /// Sectors per drive that become unreadable in a year (default: one in 9,259 hours, Elerath
        /// and Pecht 2007)
        defects_per_year: f64 = "0.95" [.between(0.0, 1e6)],
        /// The time between two scrubs, which find and repair unreadable sectors
        scrub: Nanos = "168h",
        /// The maximum rate in MB/s at which a failed drive is rebuilt
        rebuild_mb_per_s: f64 = "50" [.between(0.1, 1e5)],
        /// Compute a confidence interval of this level for the number of drives, by resampling the
        /// traces
        confidence: Option<PartialShare>,
        /// The seed of the resamples
        seed: u64 = "1" [.requires("confidence")],
        /// Your prices, a TOML file (docs/plan-buy.md)
        prices: Option<PathBuf>,
        /// The maximum cost of the drives, in the currency of the prices, as in 1500 or 1500EUR
        budget: Option<Budget>,
        /// The drives to try: bundled ones or device files
        device: Vec<String> [.word("DEVICE").otherwise("all bundled drives")],
        /// The layouts to try: single, mirror, raid6, flash-cache, volume-mirror, volume-raid6,
        /// adaptive
        layout: Vec<Layout> [.otherwise("all layouts")],
        /// Whether clients share drives
        clients: Shared = "both",
        /// The flash drive that disks share as a cache
        flash: String = "d7-p5520" [.word("DEVICE")],
        /// The scheduler of each disk; flash drives have none
        policy: String = "mq-deadline" [.word("POLICY").checked(policy_exists)],
        /// The maximum number of drives to try
        devices_max: u16 = "64" [.between(1.0, 1024.0)],
        /// Write the configuration into this folder: setup.sh, serve.toml, cgroup.txt, dmclock.txt
        configure: Option<PathBuf> [.word("DIR")],
        /// Also write the answer as an HTML report
        report: Option<PathBuf> [.short('o')],
        /// Trust the traces' times even if their clocks seem too coarse for the promises
        trust_times: bool,
        source: SourceAsk,
    }
}

/// A promise to a single client, as `CLIENT=TIME:SHARE`.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnPromise {
    client: String,
    promise: Promise,
}

impl Value for OwnPromise {
    const WORD: &'static str = "CLIENT=TIME:SHARE";
    const TAKES: Takes = Takes::TextOrDict;
    const PYTHON: &'static str = "str | Mapping[str, tuple[str, str | float]]";

    fn parse(text: &str) -> Result<OwnPromise, String> {
        let wrong = || format!("got '{text}', expected CLIENT=TIME:SHARE, as in web=5ms:0.999");
        // The client's name may contain '=', but the promise cannot, so the last '=' separates
        // them.
        let (client, promised) = text.rsplit_once('=').ok_or_else(wrong)?;
        let (within, fraction) = promised.split_once(':').ok_or_else(wrong)?;
        let promise = Promise { within: positive_duration(within)?, fraction: fraction.parse()? };
        Ok(OwnPromise { client: client.to_string(), promise })
    }
}

/// The share of the time that drives must be idle, from 0 to 0.9.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Headroom(f64);

impl Value for Headroom {
    const WORD: &'static str = "SHARE";
    const TAKES: Takes = Takes::Number;
    const PYTHON: &'static str = "str | float";

    fn parse(text: &str) -> Result<Headroom, String> {
        let share = match text.trim().trim_end_matches('%').trim().parse::<f64>() {
            Ok(0.0) => Some(0.0),
            _ => text.parse::<Share>().ok().map(Share::as_f64),
        };
        share
            .filter(|share| *share <= 0.9)
            .map(Headroom)
            .ok_or_else(|| format!("got '{text}', expected a share of 0 to 0.9, e.g. 0.3 or 30%"))
    }

    fn number(&self) -> Option<f64> {
        Some(self.0)
    }
}

impl Value for Layout {
    const WORD: &'static str = "LAYOUT";
    const CHOICES: &'static [Choice] = &[
        Choice { name: "single", about: "stripes over all drives, each byte once" },
        Choice { name: "mirror", about: "two copies, written in place" },
        Choice { name: "raid6", about: "four chunks and two parities, written in place" },
        Choice { name: "flash-cache", about: "stripes over disks that share flash as a cache" },
        Choice { name: "volume-mirror", about: "a volume with two copies" },
        Choice { name: "volume-raid6", about: "a volume of four chunks and two parities" },
        Choice {
            name: "adaptive",
            about: "a volume whose units switch between RAID 6 and three copies according to \
                    their writes",
        },
    ];

    fn parse(text: &str) -> Result<Layout, String> {
        Layout::named(text).ok_or_else(|| {
            let names = Layout::ALL.map(Layout::name).join(", ");
            format!("got '{text}', expected one of {names}")
        })
    }
}

/// Whether to try sharing drives among clients, separate drives for each client, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shared(&'static [Sharing]);

impl Value for Shared {
    const WORD: &'static str = "SHARING";
    const CHOICES: &'static [Choice] = &[
        Choice { name: "shared", about: "all clients share all drives" },
        Choice { name: "apart", about: "each client has separate drives" },
        Choice { name: "both", about: "try both" },
    ];

    fn parse(text: &str) -> Result<Shared, String> {
        one_of(
            text,
            Self::CHOICES,
            [
                Shared(&[Sharing::Shared]),
                Shared(&[Sharing::Apart]),
                Shared(&[Sharing::Shared, Sharing::Apart]),
            ],
        )
    }
}

impl Verb for BuyAsk {
    type Beyond = ();

    fn traces(&self) -> Vec<&TraceInput> {
        self.traces.iter().collect()
    }

    fn files(&self) -> Vec<&Path> {
        let devices = self.device.iter().chain([&self.flash]);
        let devices = devices.map(|device| devices::file_of(device));
        devices.chain(self.prices.as_deref()).collect()
    }

    fn report(&self) -> Option<&Path> {
        self.report.as_deref()
    }

    fn run(self, session: &mut dyn Session) -> Result<Answered, Error> {
        if let Some(folder) = &self.configure {
            Configuration::check(folder)?;
        }
        let own = self.own_promises()?;
        let drives = self.drives()?;
        let flash = Candidate::open(&self.flash)?;
        let names = drives.iter().chain([&flash]).map(|one| one.device.name.clone());
        let names: Vec<String> = names.collect();
        let prices = self.prices.as_ref().map(|path| Prices::read(path, &names)).transpose()?;
        let mut inputs: Vec<Input> = Vec::new();
        for trace in &self.traces {
            inputs.push(self.source.read(trace, StreamBy::default(), session)?);
        }
        let layouts = match self.layout.as_slice() {
            [] => &Layout::ALL[..],
            some => some,
        };
        let question = Question {
            promise: Promise { within: self.within, fraction: self.fraction },
            own: &own,
            by: self.by.map_or(By::Trace, |_| By::Volume),
            begin: if self.keep_times { Begin::OwnClocks } else { Begin::Together },
            trust_times: self.trust_times,
            growth: self.growth,
            gib: self.gib,
            spare: self.spare.into(),
            survives: self.survives.into(),
            drives: &drives,
            layouts,
            flash: &flash,
            scheduler: &self.policy,
            drives_max: self.devices_max.into(),
            sharings: self.clients.0,
            prices: &prices.unwrap_or_default(),
            budget: self.budget.as_ref(),
            refuses_few: true,
            headroom: self.headroom.0,
            reliability: Reliability {
                failures_per_year: self.failures_per_year,
                defects_per_year: self.defects_per_year,
                scrub: self.scrub,
                rebuild_bytes_per_s: self.rebuild_mb_per_s * 1e6,
            },
            bootstrap: self.confidence.map(|level| Bootstrap { level: level.0, seed: self.seed }),
        };
        let data_requests = inputs.iter().map(|input| input.description.requests).sum();
        session.begin("simulating", None);
        let answer =
            answer(&inputs, &question, &mut |told: &ProgressReport| session.progress(told))?;
        // Do not repeat cautions that the page shows first as warnings.
        let first = page::of_size(&answer);
        let others = answer.cautions.iter().filter(|said| !first.contains(said)).cloned();
        warn_all(session, Path::new(""), &others.collect::<Vec<_>>());
        let written = self.configured(&answer, session)?;
        Answered::new(&answer, undecided(page::page(&answer, written), data_requests))
    }
}

impl BuyAsk {
    /// Returns the promises to single clients; fails if a client has several.
    fn own_promises(&self) -> Result<Vec<(String, Promise)>, Error> {
        let own = || self.promise.iter();
        for OwnPromise { client, .. } in own() {
            let times = own().filter(|other| other.client == *client).count();
            if times > 1 {
                let said = format!("got {client} {times} times, expected each client once");
                return Err(AskError::new("promise", said).into());
            }
        }
        Ok(own().map(|own| (own.client.clone(), own.promise)).collect())
    }

    fn drives(&self) -> Result<Vec<Candidate>, Error> {
        let bundled = || devices::list().map(|all| all.into_iter().map(|one| one.name).collect());
        let names: Vec<String> = match self.device.as_slice() {
            [] => bundled()?,
            some => some.to_vec(),
        };
        names.iter().map(|name| Candidate::open(name)).collect()
    }

    /// Writes the configuration if requested and available. Returns a note that names the files
    /// written.
    fn configured(
        &self,
        answer: &Answer,
        session: &mut dyn Session,
    ) -> Result<Option<String>, Error> {
        let Some(folder) = &self.configure else { return Ok(None) };
        let Some(configuration) = &answer.configuration else {
            let why = match () {
                () if answer.rows.is_empty() => "there are too few requests",
                () if answer.is_over_budget => "no configuration is known to fit the budget",
                () => "nothing keeps the promise",
            };
            session.warn(folder, &format!("the configuration is not written, since {why}"));
            return Ok(None);
        };
        let replaces =
            if folder.join("setup.sh").is_file() { ", replacing older files" } else { "" };
        configuration.write(folder, &kept(self))?;
        Ok(Some(format!("The configuration was written to {}{replaces}.", folder.display())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layout_is_a_choice() {
        let names: Vec<&str> = Layout::CHOICES.iter().map(|choice| choice.name).collect();
        assert_eq!(names, Layout::ALL.map(Layout::name));
        assert!(names.iter().all(|name| Layout::parse(name).is_ok()));
    }

    #[test]
    fn headroom_is_a_share_or_none() {
        let shares = ["0", "0 %", "30%", "0.9"].map(|text| Headroom::parse(text).unwrap().0);
        assert_eq!(shares, [0.0, 0.0, 0.3, 0.9]);
        assert!(["30", "1", "-0.1", "x", "nan"].iter().all(|text| Headroom::parse(text).is_err()));
    }

    #[test]
    fn a_clients_promise_is_read_from_behind_its_name() {
        let own = OwnPromise::parse("a=b=5ms:99.9%").unwrap();
        assert_eq!((own.client.as_str(), own.promise.within), ("a=b", Nanos::from_millis(5)));
        for wrong in ["t.spc", "t.spc=5ms", "=5:0.9", "t=5ms:2"] {
            assert!(OwnPromise::parse(wrong).is_err(), "{wrong}");
        }
    }
}
