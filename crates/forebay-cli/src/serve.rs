//! `forebay serve`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use clap::Args;
use forebay::devices;
use forebay_serve::{Address, Back, Config, On, Server};

use crate::interrupt::{self, Second};

/// Serve files and block devices over the network (NBD), with a policy in the path
///
/// Clients are nbd-client, QEMU, libnbd and whatever else speaks NBD. It listens at a Unix socket or a loopback
/// address, never beyond this machine. Ctrl-C answers what is under way, makes all durable, and ends.
#[derive(Args)]
pub(crate) struct Serve {
    /// The file or block device to serve
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The socket to listen at
    #[arg(long, value_name = "PATH", required_unless_present = "tcp")]
    socket: Option<PathBuf>,
    /// The loopback address to listen at, as in 127.0.0.1:10809
    #[arg(long, value_name = "ADDRESS")]
    tcp: Option<SocketAddr>,
    /// The name that clients ask for [default: the empty one]
    #[arg(long, value_name = "NAME", default_value = "")]
    export: String,
    /// The policy in between (see `forebay policies`)
    #[arg(long, value_name = "POLICY", default_value = "noop")]
    policy: String,
    /// Answer no sooner than this device would (see `forebay devices`)
    #[arg(long, value_name = "DEVICE")]
    emulate: Option<String>,
    /// Go through the page cache
    #[arg(long)]
    buffered: bool,
    /// Refuse writes
    #[arg(long)]
    read_only: bool,
    /// I/Os that the file is given at a time
    #[arg(long, value_name = "COUNT", default_value = "64", value_parser = clap::value_parser!(u32).range(1..=4096))]
    depth: u32,
}

/// How often it looks whether it is to stop.
const TICK: Duration = Duration::from_millis(50);

impl Serve {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let config = self.config()?;
        let outcome = interrupt::shortens(Second::Ends, |stop| {
            let server = Server::start(&config)?;
            for note in server.notes() {
                eprintln!("forebay: {note}");
            }
            for address in server.addresses() {
                eprintln!("forebay: serving {} at {address}", self.file.display());
            }
            while !stop.load(Ordering::Relaxed) && !server.is_broken() {
                thread::sleep(TICK);
            }
            server.stop()
        });
        Ok(outcome?)
    }

    fn config(&self) -> anyhow::Result<Config> {
        let path = self.file.clone();
        let on = match &self.emulate {
            Some(name) => {
                On::Emulated { path, device: Box::new(devices::open(name)?), flash: None }
            }
            None => On::Target { path, flash: None },
        };
        let unix = self.socket.clone().map(Address::Unix);
        let back = Back {
            policy: self.policy.clone(),
            depth: self.depth,
            page_cache: self.buffered,
            read_only: self.read_only,
            ..Back::of(&self.export, on)
        };
        let listen = unix.into_iter().chain(self.tcp.map(Address::Tcp)).collect();
        Ok(Config { listen, metrics: None, backs: vec![back] })
    }
}
