//! `forebay store`: a key-value store on several disks, each of which does only one kind of work at
//! a time.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::{Args, Subcommand};
use forebay::verb::SecondInterruption;
use forebay_ask::{Choice, Value, named, one_of};
use forebay_store::{
    Config, DiskOptions, Limits, Server, StoreError, StoreSimulateAsk, create, open_disks,
};
use forebay_words::plural::counted;
use forebay_words::quantities::bytes;

use crate::interrupt;
use crate::output::{self, say};
use crate::password::password;
use crate::progress::Progress;
use crate::store_bench::StoreBenchAsk;
use crate::store_repair::{StoreCheckAsk, StoreRepairAsk};
use crate::verb::{Arguments, Formatted, ParsedVerb};

/// Store keys and values on several plain disks, each of which does one thing at a time
///
/// A put is appended to the log of one disk and is durable before it is acknowledged. Once a log is
/// long enough, it is sorted into a segment on another disk, while a third disk accepts new puts
/// (Workload Shifting, Pan, Yue and Xiong). There is no redundancy: losing a disk loses its data.
/// On solid-state drives, and for transactions, RocksDB is the better choice.
#[derive(Args)]
pub(crate) struct Store {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Create(Arguments<StoreCreateAsk>),
    Serve(Arguments<StoreServeAsk>),
    Check(Arguments<StoreCheckAsk>),
    Repair(Arguments<StoreRepairAsk>),
    Bench(Box<Formatted<StoreBenchAsk>>),
    Simulate(Box<ParsedVerb<StoreSimulateAsk>>),
}

forebay_ask::ask! {
    /// Create a store on at least four disks: one folder on each, or block devices
    pub(crate) struct StoreCreateAsk("store create") {
        /// The disks: folders, in which a file forebay.store is created, paths of new files, or
        /// devices
        disks: Vec<PathBuf> [.positional().word("DIR|DEVICE").at_least_one()],
        /// MB to reserve on each disk; block devices are used completely
        mb: u32 = "10000" [.word("MB").between(100.0, 1e9)],
        /// Destroy the data on the disks
        overwrite: bool,
    }
}

forebay_ask::ask! {
    /// Serve a store to Redis clients: GET SET DEL EXISTS MGET MSET SCAN DBSIZE PING INFO AUTH
    /// HELLO
    ///
    /// A SET is durable when it is answered, except with `durability` none. Values do not expire.
    /// An interrupted server answers pending requests before it ends; a killed server loses nothing
    /// that it acknowledged.
    pub(crate) struct StoreServeAsk("store serve") {
        /// The disks of the store, in any order
        disks: Vec<PathBuf> [.positional().word("DIR|DEVICE").at_least_one()],
        /// One disk is missing: requests that need it fail, all others are served
        without_disk: bool,
        /// Write nothing: puts are refused, and read permission on the disks is enough
        read_only: bool,
        /// The address to listen on; addresses other than loopback require a password
        listen: AddressInput = "127.0.0.1:6379",
        /// A file whose first line is the password that clients must give (AUTH)
        password_file: Option<PathBuf>,
        /// The maximum number of clients
        connections: u32 = "1024" [.word("COUNT").between(1.0, 100_000.0)],
        /// When to acknowledge a put
        durability: Durability = "media",
        /// Serve Prometheus metrics (GET /metrics) at this loopback address
        metrics: Option<AddressInput>,
    }
}

/// An IP address and a port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AddressInput(SocketAddr);

impl Value for AddressInput {
    const WORD: &'static str = "ADDRESS";

    fn parse(text: &str) -> Result<AddressInput, String> {
        let wrong =
            |_| format!("got '{text}', expected an IP address and a port, e.g. 127.0.0.1:6379");
        text.parse().map(AddressInput).map_err(wrong)
    }
}

/// When a put is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    Media,
    None,
}

impl Value for Durability {
    const WORD: &'static str = "WHEN";
    const CHOICES: &'static [Choice] = &[
        Choice { name: "media", about: "once it is on the disk's media" },
        Choice {
            name: "none",
            about: "once the operating system has accepted it: a power cut loses the latest \
                acknowledged puts",
        },
    ];

    fn parse(text: &str) -> Result<Durability, String> {
        one_of(text, Self::CHOICES, [Durability::Media, Durability::None])
    }
}

impl Store {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self.what {
            What::Create(Arguments(ask)) => ask.run(),
            What::Serve(Arguments(ask)) => ask.run(),
            What::Check(Arguments(ask)) => ask.run(),
            What::Repair(Arguments(ask)) => ask.run(),
            What::Bench(bench) => bench.ask.run(bench.format),
            What::Simulate(asked) => asked.run(),
        }
    }
}

impl StoreCreateAsk {
    fn run(self) -> anyhow::Result<()> {
        let _progress = Progress::new("making the store");
        let bytes_each = u64::from(self.mb) * 1_000_000;
        let disks = create(&self.disks, bytes_each, &Config::default(), self.overwrite)?;
        disks.notes().for_each(|note| say!("{note}"));
        let layout = disks.layouts[0];
        let room = (layout.capacity_bytes - layout.segments_at()) * u64::from(layout.disks);
        Ok(output::print(&format!(
            "Store created: {} disks with space for {} in total. Serve it: forebay store serve {}",
            layout.disks,
            bytes(room as f64),
            self.disks.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ")
        ))?)
    }
}

impl StoreServeAsk {
    fn run(self) -> anyhow::Result<()> {
        let password = self.password_file.map(|path| password(&path)).transpose()?;
        let (may_miss, read_only) = (self.without_disk, self.read_only);
        let opened = open_disks(&self.disks, DiskOptions { may_miss, read_only })?;
        let store = {
            let _progress = Progress::new("opening the store");
            let durable = self.durability == Durability::Media;
            forebay_store::Store::open(opened, Config { read_only, durable, ..Config::default() })?
        };
        store.notices().iter().for_each(|notice| say!("{notice}"));
        let losses = store.status().losses.len();
        if losses > 0 {
            say!(
                "part of the store cannot be read ({}: see forebay store check and repair); reads \
                 of lost data fail",
                counted(losses as u64, "loss")
            );
        }
        let connections_max = self.connections as usize;
        let limits = Limits { password, connections_max, ..Limits::default() };
        let AddressInput(listen) = self.listen;
        let started = Server::start(store.clone(), listen, limits);
        let mut server = match started.map_err(|error| refused("listen", listen, &error)) {
            Ok(server) => server,
            Err(error) => {
                store.close();
                return Err(error.into());
            }
        };
        let metrics = self.metrics.map(|AddressInput(address)| {
            let published = server.publish_metrics(address);
            published.map_err(|error| refused("metrics", address, &error))
        });
        let metrics = match metrics.transpose() {
            Ok(metrics) => metrics,
            Err(error) => {
                server.stop();
                store.close();
                return Err(error.into());
            }
        };
        say!("serving the store at {}; Ctrl-C ends it", server.address());
        if let Some(address) = metrics {
            say!("metrics at http://{address}/metrics");
        }
        interrupt::shortens(SecondInterruption::Ends, |stop| {
            while !stop.load(Ordering::Relaxed) && !store.is_closed() {
                store.notices().iter().for_each(|notice| say!("{notice}"));
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let has_failed = store.is_closed();
        server.stop();
        store.close();
        if has_failed {
            anyhow::bail!("the store has stopped: I/O on its disks is not possible");
        }
        Ok(())
    }
}

fn refused(input: &str, address: SocketAddr, error: &std::io::Error) -> StoreError {
    StoreError::Store(format!("{}: {error}", named(&format!("{input}={address}"))))
}
