//! `forebay store bench`: measures throughput and latency of a store or any Redis server, with
//! open-loop or closed-loop load.

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
use forebay::verb::SecondInterruption;
use forebay_ask::{Size, named};
use forebay_store::{Config, DiskOptions, KEY_MAX, Store, StoreError, VALUE_MAX, open_disks};
use forebay_trace::open;
use forebay_words::plural::{counted, verb};

use crate::interrupt;
use crate::output::{self, Format, say};
use crate::password::password;
use crate::progress::Progress;

use arrivals::{Process, Turns};
use client::Client;
use ledger::Ledger;
use phase::{Bench, Plan};
use tally::{Figures, Latency, OperationRow, Tally, Times};
use target::{Failure, Target};
use told::Results;
use value::{SPACE, Stamp, key};
use workload::{OperationKind, Step, Steps, Workload};

forebay_ask::ask! {
    /// Benchmark a store, or any Redis server, with the YCSB core workloads or ingest
    ///
    /// The benchmark first loads the records, then runs the workload. With --rate, operations
    /// arrive on their own schedule and latency is measured from the scheduled arrival, even if the
    /// server delays them (an open loop, free of coordinated omission). Without --rate, each client
    /// sends its next operation as soon as the last one was answered (a closed loop). Values
    /// identify themselves: reading a value that was never written, or one older than an
    /// acknowledged write, is an error. All keys begin with forebay-bench: and are left in the
    /// store; other keys are neither changed nor read. Ctrl-C prints the results so far.
    pub(crate) struct StoreBenchAsk("store bench") {
        /// Disks of a store that is not being served, to benchmark it without a server
        disks: Vec<PathBuf> [.positional().word("DIR|DEVICE").excludes(&["connect"])],
        /// The server: forebay store serve, redis-server or a compatible one
        connect: String = "127.0.0.1:6379" [.word("HOST:PORT")],
        /// The mix of operations
        workload: Workload = "a",
        /// Records to load first
        records: u64 = "100000" [.word("COUNT").between(1.0, 1e8)],
        /// Skip loading: a previous run with the same number and size already wrote the records
        no_load: bool,
        /// Operations in the workload
        operations: u64 = "100000" [.word("COUNT").between(1.0, 1e9)],
        /// The size of a value
        value_bytes: Size = "1000" [.between(value::VALUE_MIN as f64, VALUE_MAX as f64)],
        /// The size of a key
        key_bytes: Size = "30" [.between(value::KEY_MIN as f64, KEY_MAX as f64)],
        /// Connections, each with one operation at a time
        clients: u32 = "16" [.word("COUNT").between(1.0, 10_000.0)],
        /// Operations per second; if omitted, each client sends the next one when the last was
        /// answered
        rate: Option<f64> [.word("PER_SECOND").between(1e-3, 1e8)],
        /// Arrival process: poisson, gamma (see --shape), or the arrival times in a block trace,
        /// rescaled to --rate if given
        arrivals: Option<String> [.word("poisson|gamma|TRACE").otherwise("poisson")],
        /// Shape of gamma arrivals: 1 is Poisson, smaller values are burstier
        shape: f64 = "0.5" [.between(0.01, 1000.0)],
        /// The seed for operations and arrivals
        seed: u64 = "1",
        /// A file whose first line is the server's password
        password_file: Option<PathBuf>,
    }
}

fn usage(what: impl Into<String>) -> anyhow::Error {
    StoreError::Store(what.into()).into()
}

impl StoreBenchAsk {
    pub(crate) fn run(self, format: Format) -> anyhow::Result<()> {
        if self.workload == Workload::E && self.disks.is_empty() {
            return Err(usage(
                "workload e scans from a given key, which Redis does not support: specify the disks \
                 of a store that is not being served: forebay store bench --workload e DIR DIR \
                 DIR DIR",
            ));
        }
        let turns = self.turns()?;
        let store = self.opened()?;
        let is_over = Arc::new(AtomicBool::new(false));
        let outcome = self.targets(store.as_ref(), &is_over).and_then(|mut targets| {
            let results = self.bench(&mut targets, &turns, is_over);
            show(&results, format)
        });
        if let Some(store) = store {
            store.close();
        }
        outcome
    }

    /// Returns the schedule: when each operation of the workload begins.
    fn turns(&self) -> anyhow::Result<Turns> {
        let process = match (self.arrivals.as_deref(), self.rate) {
            (None, None) => return Ok(Turns::closed(self.operations)),
            (None | Some("poisson"), Some(rate)) => Process::gamma(1.0, rate, self.seed),
            (Some("gamma"), Some(rate)) => Process::gamma(self.shape, rate, self.seed),
            (Some(name), rate) => {
                let Some(path) = arrivals::trace(name) else {
                    let said =
                        format!("{} needs {}", named(&format!("arrivals={name}")), named("rate"));
                    return Err(usage(said));
                };
                let _progress = Progress::reading("reading", path);
                let reader = open::open(path, None)?;
                let process = Process::recorded(reader, self.operations, rate)?;
                Some(process.ok_or_else(|| {
                    usage(format!("{name}: its requests have no times, expected arrival times"))
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
        let disks = open_disks(&self.disks, DiskOptions::default())?;
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
                let value_max = self.value_bytes.bytes as usize;
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
            // Use the time instead of the seed, so that values of different runs are
            // distinguishable.
            run: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_nanos() as u64),
            key_bytes: self.key_bytes.bytes as usize,
            value_bytes: self.value_bytes.bytes as usize,
            // Records that are never read need no ledger.
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
}

/// Prints the results. Fails if any operation failed.
fn show(results: &Results, format: Format) -> anyhow::Result<()> {
    let phases = || results.load.iter().chain(&results.run);
    let messages: Vec<&String> = phases().flat_map(|phase| &phase.messages).collect();
    if phases().any(|phase| phase.figures.count > 0) {
        match format {
            Format::Json | Format::Csv => output::print_data(format, results)?,
            Format::Table | Format::Markdown => output::print(&told::told(results))?,
        }
    }
    if let Some(gone) = results.gone.clone() {
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
