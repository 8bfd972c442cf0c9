//! `forebay store`: keys and values on several disks, each of which does one thing at a time.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use forebay_show::plural::counted;
use forebay_show::quantities::bytes;
use forebay_store::{Config, Finding, Limits, Server, StoreError, StoreSimulateAsk, create, look};

use crate::interrupt::{self, Second};
use crate::output::{self, say};
use crate::password::password;
use crate::progress::Progress;
use crate::store_bench::Benching;
use crate::store_repair::{Checking, Repairing};
use crate::verb::Asked;

/// Keep keys and values on several plain disks, each of which does one thing at a time
///
/// A put goes to the log of one disk and is durable before it is answered. A log that is long enough becomes a
/// sorted segment on another disk, while a third disk takes new puts (Workload Shifting, Pan, Yue and Xiong).
/// There is no redundancy: a lost disk takes its data along. On solid-state drives, and for transactions, RocksDB
/// is the better choice.
#[derive(Args)]
pub(crate) struct Store {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Create(Making),
    Serve(Serving),
    Check(Checking),
    Repair(Repairing),
    Bench(Benching),
    Simulate(Box<Asked<StoreSimulateAsk>>),
}

/// Make a store on four disks or more: a folder of each, or block devices
#[derive(Args)]
struct Making {
    /// The disks: folders, in which a file forebay.store is made, files that are not there yet, or devices
    #[arg(value_name = "DIR|DEVICE", required = true)]
    disks: Vec<PathBuf>,
    /// MB to set aside on each disk; of a block device all there is
    #[arg(long, value_name = "MB", default_value = "10000", value_parser = clap::value_parser!(u32).range(100..=1_000_000_000))]
    mb: u32,
    /// Destroy what is there
    #[arg(long)]
    overwrite: bool,
}

/// Serve a store to clients of Redis: GET SET DEL EXISTS MGET MSET SCAN DBSIZE PING INFO AUTH HELLO
///
/// A SET is durable when it is answered, but for --durability none. Values do not expire. Interrupted, it
/// answers what was asked and ends; killed, it loses nothing that it acknowledged.
#[derive(Args)]
struct Serving {
    /// The disks of the store, in any order
    #[arg(value_name = "DIR|DEVICE", required = true)]
    disks: Vec<PathBuf>,
    /// One of the disks is missing: requests that need it fail, all others are served
    #[arg(long)]
    without_disk: bool,
    /// Nothing is written: puts are refused, and disks need only be readable
    #[arg(long)]
    read_only: bool,
    /// Where to listen; beyond loopback only with a password
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6379")]
    listen: SocketAddr,
    /// A file whose first line is the password that clients must give (AUTH)
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Clients at a time
    #[arg(long, value_name = "COUNT", default_value = "1024", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    connections: u32,
    /// When a put is answered
    #[arg(long, value_name = "WHEN", default_value = "media")]
    durability: Durability,
    /// Answer GET /metrics for Prometheus at this loopback address
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Durability {
    /// Once it is on the disk's media
    Media,
    /// Once the system has taken it: a power cut loses what was answered last
    None,
}

impl Store {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self.what {
            What::Create(making) => making.run(),
            What::Serve(serving) => serving.run(),
            What::Check(asked) => asked.run(),
            What::Repair(asked) => asked.run(),
            What::Bench(asked) => asked.run(),
            What::Simulate(asked) => asked.run(),
        }
    }
}

impl Making {
    fn run(self) -> anyhow::Result<()> {
        let _progress = Progress::new("making the store");
        let bytes_each = u64::from(self.mb) * 1_000_000;
        let disks = create(&self.disks, bytes_each, &Config::default(), self.overwrite)?;
        disks.notes().for_each(|note| say!("{note}"));
        let layout = disks.layouts[0];
        let room = (layout.capacity_bytes - layout.segments_at()) * u64::from(layout.disks);
        Ok(output::print(&format!(
            "The store is made: {} disks with room for {} in all. Serve it: forebay store serve {}",
            layout.disks,
            bytes(room as f64),
            self.disks.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ")
        ))?)
    }
}

impl Serving {
    fn run(self) -> anyhow::Result<()> {
        let password = self.password_file.map(|path| password(&path)).transpose()?;
        let (may_miss, read_only) = (self.without_disk, self.read_only);
        let opened = look(&self.disks, Finding { may_miss, read_only })?;
        let store = {
            let _progress = Progress::new("opening the store");
            let durable = self.durability == Durability::Media;
            forebay_store::Store::open(opened, Config { read_only, durable, ..Config::default() })?
        };
        store.notices().iter().for_each(|notice| say!("{notice}"));
        let losses = store.status().losses.len();
        if losses > 0 {
            say!(
                "not all of the store can be read ({}: see forebay store check and repair); reads that need \
                 what is lost fail",
                counted(losses as u64, "loss")
            );
        }
        let connections_max = self.connections as usize;
        let limits = Limits { password, connections_max, ..Limits::default() };
        let started = Server::start(store.clone(), self.listen, limits);
        let mut server = match started.map_err(|error| refused("--listen", self.listen, &error)) {
            Ok(server) => server,
            Err(error) => {
                store.close();
                return Err(error.into());
            }
        };
        let metrics = self.metrics.map(|address| {
            let published = server.publish_metrics(address);
            published.map_err(|error| refused("--metrics", address, &error))
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
        interrupt::shortens(Second::Ends, |stop| {
            while !stop.load(Ordering::Relaxed) && !store.is_closed() {
                store.notices().iter().for_each(|notice| say!("{notice}"));
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let has_failed = store.is_closed();
        server.stop();
        store.close();
        if has_failed {
            anyhow::bail!("the store has ended: its disks cannot be driven");
        }
        Ok(())
    }
}

fn refused(option: &str, address: SocketAddr, error: &std::io::Error) -> StoreError {
    StoreError::Store(format!("{option} {address}: {error}"))
}
