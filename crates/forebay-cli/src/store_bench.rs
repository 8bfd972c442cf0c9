//! `forebay store bench`: how fast a store, or any Redis server, answers, and how long it takes under a load that
//! does not wait for it.

mod arrivals;
mod client;
mod ledger;
mod phase;
mod tally;
mod target;
mod told;
mod value;
mod workload;

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::bail;
use clap::Args;
use forebay::verb::SecondInterruption;
use forebay_show::plural::{counted, verb};
use forebay_store::{Config, Finding, KEY_MAX, Store, StoreError, VALUE_MAX, look};
use forebay_trace::open;

use crate::interrupt;
use crate::output::{self, Format, say};
use crate::password::password;
use crate::progress::Progress;

use arrivals::{Process, Turns};
use client::Client;
use ledger::Ledger;
use phase::{Bench, Plan};
use target::Target;
use told::Results;
use workload::{Steps, Workload};

/// Put a store, or any Redis server, under load: the core workloads of YCSB, or ingest
///
/// First the records are put, then the workload runs. With --rate operations arrive at times of their own, and
/// latency counts from then, even if the server lets them begin later (an open loop, free of coordinated
/// omission). Without it each client asks again as soon as it was answered (a closed loop). Values identify
/// themselves: one that was never written, or is older than one acknowledged before it was read, is an error. All
/// keys begin with forebay-bench: and stay; other keys are neither replaced nor read. Ctrl-C prints the result so
/// far.
#[derive(Args)]
pub(crate) struct Benching {
    /// The disks of a store that nobody serves, to ask it without a server in between
    #[arg(value_name = "DIR|DEVICE", conflicts_with = "connect")]
    disks: Vec<PathBuf>,
    /// The server: forebay store serve, redis-server or another of its kind
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:6379")]
    connect: String,
    /// What is asked
    #[arg(long, value_enum, default_value = "a")]
    workload: Workload,
    /// Records that are put first
    #[arg(long, value_name = "COUNT", default_value = "100000", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    records: u64,
    /// The records are there already, from a run with the same number and size
    #[arg(long)]
    no_load: bool,
    /// Operations of the workload
    #[arg(long, value_name = "COUNT", default_value = "100000", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    operations: u64,
    /// Bytes of a value
    #[arg(long, value_name = "BYTES", default_value = "1000", value_parser = clap::value_parser!(u32).range(value::VALUE_MIN as i64..=VALUE_MAX as i64))]
    value_bytes: u32,
    /// Bytes of a key
    #[arg(long, value_name = "BYTES", default_value = "30", value_parser = clap::value_parser!(u32).range(value::KEY_MIN as i64..=KEY_MAX as i64))]
    key_bytes: u32,
    /// Connections, each with one operation at a time
    #[arg(long, visible_alias = "writers", value_name = "COUNT", default_value = "16", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    clients: u32,
    /// Operations that arrive a second; without it clients ask as fast as they are answered
    #[arg(long, value_name = "PER_SECOND", value_parser = rate)]
    rate: Option<f64>,
    /// How they arrive: poisson, gamma (see --shape), or as the requests of a block trace did, whose
    /// pace --rate changes [default: poisson]
    #[arg(long, value_name = "poisson|gamma|TRACE")]
    arrivals: Option<String>,
    /// Shape of gamma arrivals: 1 is poisson, less is burstier
    #[arg(long, value_name = "SHAPE", default_value = "0.5", value_parser = shape)]
    shape: f64,
    /// Draws operations and arrivals
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    seed: u64,
    /// A file whose first line is the server's password
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// How to print it
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate: &f64| (1e-3..=1e8).contains(rate));
    rate.ok_or_else(|| format!("got '{text}', expected 0.001 to 100000000 operations a second"))
}

fn shape(text: &str) -> Result<f64, String> {
    let shape = text.parse().ok().filter(|shape: &f64| (0.01..=1000.0).contains(shape));
    shape.ok_or_else(|| format!("got '{text}', expected 0.01 to 1000"))
}

fn usage(what: impl Into<String>) -> anyhow::Error {
    StoreError::Store(what.into()).into()
}

impl Benching {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        if self.workload == Workload::E && self.disks.is_empty() {
            return Err(usage(
                "workload e scans from a key on, for which Redis has no command: name the disks of a store \
                 that nobody serves, forebay store bench --workload e DIR DIR DIR DIR",
            ));
        }
        let turns = self.turns()?;
        let store = self.opened()?;
        let is_over = Arc::new(AtomicBool::new(false));
        let outcome = self.targets(store.as_ref(), &is_over).and_then(|mut targets| {
            let results = self.bench(&mut targets, &turns, is_over);
            self.say(results)
        });
        if let Some(store) = store {
            store.close();
        }
        outcome
    }

    /// When operations of the workload begin.
    fn turns(&self) -> anyhow::Result<Turns> {
        let process = match (self.arrivals.as_deref(), self.rate) {
            (None, None) => return Ok(Turns::closed(self.operations)),
            (None | Some("poisson"), Some(rate)) => Process::gamma(1.0, rate, self.seed),
            (Some("gamma"), Some(rate)) => Process::gamma(self.shape, rate, self.seed),
            (Some(name), rate) => {
                let Some(path) = arrivals::trace(name) else {
                    return Err(usage(format!("--arrivals {name} needs --rate")));
                };
                let _progress = Progress::reading("reading", path);
                let reader = open::open(path, None)?;
                let process = Process::recorded(reader, self.operations, rate)?;
                Some(process.ok_or_else(|| {
                    usage(format!("{name}: its requests tell no times, expected arrivals"))
                })?)
            }
        };
        let process = process.ok_or_else(|| usage("no such arrivals"))?;
        Ok(Turns::open(self.operations, process))
    }

    fn opened(&self) -> anyhow::Result<Option<Store>> {
        if self.disks.is_empty() {
            return Ok(None);
        }
        let _progress = Progress::new("opening the store");
        let disks = look(&self.disks, Finding::default())?;
        Ok(Some(Store::open(disks, Config::default())?))
    }

    fn targets(
        &self,
        store: Option<&Store>,
        is_over: &Arc<AtomicBool>,
    ) -> anyhow::Result<Vec<Target>> {
        let password = self.password_file.as_ref().map(password).transpose()?;
        let target = |_| match store {
            Some(store) => Ok(Target::Disks(store.clone())),
            None => {
                let value_max = self.value_bytes as usize;
                let client =
                    Client::connect(&self.connect, password.as_deref(), value_max, is_over);
                Ok(Target::Server(Box::new(client.map_err(usage)?)))
            }
        };
        (0..self.clients).map(target).collect()
    }

    fn bench(&self, targets: &mut [Target], turns: &Turns, is_over: Arc<AtomicBool>) -> Results {
        let is_loaded = self.workload.is_loaded();
        let records = if is_loaded { self.records } else { 0 };
        let added = if self.workload.inserts() { self.operations } else { 0 };
        let bench = Bench {
            // Not in the seed: values of one run are told from those of another.
            run: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_nanos() as u64),
            key_bytes: self.key_bytes as usize,
            value_bytes: self.value_bytes as usize,
            // What is only put and never read needs none.
            ledger: Ledger::of(if is_loaded { records + added } else { 0 }),
            is_found: self.no_load,
            is_over,
            gone: Mutex::default(),
        };
        let steps = Steps::new(self.workload, self.seed, records, self.operations);
        let (mut load, mut run) = (None, None);
        let interrupted = interrupt::shortens(SecondInterruption::Ends, |stop| {
            let is_done = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !is_done.load(Ordering::Relaxed) {
                        if stop.load(Ordering::Relaxed) {
                            bench.is_over.store(true, Ordering::Relaxed);
                        }
                        std::thread::sleep(Duration::from_millis(20));
                    }
                });
                if is_loaded && !self.no_load {
                    let _progress = Progress::new("putting the records");
                    load = Some(bench.phase(targets, &Turns::closed(records), &Plan::Load));
                }
                if !bench.is_over.load(Ordering::Relaxed) {
                    let _progress = Progress::new("running the workload");
                    run = Some(bench.phase(targets, turns, &Plan::Steps(&steps)));
                }
                is_done.store(true, Ordering::Relaxed);
            });
            stop.load(Ordering::Relaxed)
        });
        let gone = bench.gone.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.results(turns, load, run, interrupted, gone)
    }

    fn say(&self, results: Results) -> anyhow::Result<()> {
        let phases = || results.load.iter().chain(&results.run);
        let messages: Vec<&String> = phases().flat_map(|phase| &phase.messages).collect();
        if phases().any(|phase| phase.figures.count > 0) {
            match self.format {
                Format::Json | Format::Csv => output::print_data(self.format, &results)?,
                Format::Table => output::print(&told::told(&results))?,
            }
        }
        if let Some(gone) = results.gone {
            return Err(usage(gone));
        }
        messages.iter().for_each(|what| say!("{what}"));
        let (failed, wrong) = phases().fold((0, 0), |(failed, wrong), phase| {
            (failed + phase.figures.failed, wrong + phase.figures.wrong)
        });
        if failed + wrong > 0 {
            bail!(
                "{} failed, {} {} answered wrongly",
                counted(failed, "operation"),
                wrong,
                verb(wrong, "was", "were")
            );
        }
        Ok(())
    }
}
