//! `forebay serve`.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use clap::Args;
use forebay::devices;
use forebay::verb::SecondInterruption;
use forebay_live::Driver;
use forebay_serve::{Address, Back, Config, On, Server, address, file};

use crate::interrupt;

/// Serve files, block devices and volumes over the network (NBD), with a policy in the path
///
/// Clients are nbd-client, QEMU, libnbd and whatever else speaks NBD. It listens at a Unix socket or a loopback
/// address, never beyond this machine. Ctrl-C answers what is under way, makes all durable, and ends. SIGHUP reads
/// the configuration again and takes up its policies and promises.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Serve {
    /// The file or block device to serve, or a configuration (.toml) of several
    #[arg(value_name = "FILE|CONFIG.toml")]
    what: PathBuf,
    /// The socket to listen at
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// The loopback address to listen at, as in 127.0.0.1:10809
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    tcp: Option<SocketAddr>,
    /// The name that clients ask for [default: the empty one]
    #[arg(long, value_name = "NAME")]
    export: Option<String>,
    /// The policy in between (see `forebay policies`) [default: noop]
    #[arg(long, value_name = "POLICY")]
    policy: Option<String>,
    /// Answer no sooner than this device would (see `forebay devices`)
    #[arg(long, value_name = "DEVICE")]
    emulate: Option<String>,
    /// Go through the page cache
    #[arg(long)]
    buffered: bool,
    /// Refuse writes
    #[arg(long)]
    read_only: bool,
    /// Serve it although its newest data may be on a flash that is not there, or not as they were (docs/placement-log.md)
    #[arg(long)]
    force: bool,
    /// I/Os that the file gets at a time [default: 64]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=4096))]
    depth: Option<u32>,
    /// io_uring or threads [default: io_uring where the kernel has it]
    #[arg(long, value_name = "DRIVER")]
    driver: Option<Driver>,
    /// Write a trace of what clients ask, complete when the server has ended
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Write a trace of the I/Os that the file gets, complete when the server has ended
    #[arg(long, value_name = "FILE")]
    trace_issued: Option<PathBuf>,
}

const EXAMPLES: &str = "Examples:
  forebay serve disk.img --socket /run/disk.sock --policy mq-deadline
  nbdinfo 'nbd+unix:///?socket=/run/disk.sock'
  forebay serve disk.img --socket /run/disk.sock --emulate st1000nm0011 --trace asked.parquet
  forebay serve serve.toml                     docs/serve.md shows every key";

/// How often it looks whether it is to stop.
const TICK: Duration = Duration::from_millis(50);

/// Says something, and goes on where nobody is left to listen.
fn tell(what: &str) {
    let _ = writeln!(io::stderr(), "forebay: {what}");
}

impl Serve {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let config = self.config()?;
        // From here on SIGHUP ends nothing.
        interrupt::hung_up();
        let outcome = interrupt::shortens(SecondInterruption::Ends, |stop| {
            let server = Server::start(&config)?;
            for note in server.notes() {
                tell(note);
            }
            for address in server.addresses() {
                tell(&format!("serving {} at {address}", self.what.display()));
            }
            while !stop.load(Ordering::Relaxed) && !server.is_broken() {
                thread::sleep(TICK);
                server.said().iter().for_each(|said| tell(said));
                if interrupt::hung_up() {
                    self.reread(&server);
                }
            }
            let (said, ended) = server.end();
            said.iter().for_each(|said| tell(said));
            ended
        });
        Ok(outcome?)
    }

    /// Reads the policies again. What is wrong leaves all as it is.
    fn reread(&self, server: &Server) {
        if !self.is_config() {
            return tell("SIGHUP: there is no configuration to read again");
        }
        match self.read() {
            Ok(now) => server.reread(&now).iter().for_each(|said| tell(said)),
            Err(error) => tell(&format!("{error}; all stays as it is")),
        }
    }

    /// The configuration in its file, with what is given beside it.
    fn read(&self) -> Result<Config, forebay_serve::Error> {
        let mut config = file::read(&self.what)?;
        config.backs.iter_mut().for_each(|back| back.force |= self.force);
        Ok(config)
    }

    fn is_config(&self) -> bool {
        self.what.extension().is_some_and(|ending| ending == "toml")
    }

    fn config(&self) -> anyhow::Result<Config> {
        let given = [
            ("--socket", self.socket.is_some()),
            ("--tcp", self.tcp.is_some()),
            ("--export", self.export.is_some()),
            ("--policy", self.policy.is_some()),
            ("--emulate", self.emulate.is_some()),
            ("--buffered", self.buffered),
            ("--read-only", self.read_only),
            ("--depth", self.depth.is_some()),
            ("--driver", self.driver.is_some()),
            ("--trace", self.trace.is_some()),
            ("--trace-issued", self.trace_issued.is_some()),
        ];
        if self.is_config() {
            if let Some((option, _)) = given.iter().find(|(_, given)| *given) {
                let what = self.what.display();
                return Err(forebay_serve::Error::Unfit(format!(
                    "{what}: got a configuration and {option}, expected it to be said in the file"
                ))
                .into());
            }
            return Ok(self.read()?);
        }
        if self.emulate.is_some() && (self.depth.is_some() || self.buffered) {
            return Err(forebay_serve::Error::Unfit(
                "--emulate: got --depth or --buffered with it, which do nothing then: the device says how many I/Os it takes, and \
                 bytes go through the page cache"
                    .into(),
            )
            .into());
        }
        let path = self.what.clone();
        let file = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let on = match &self.emulate {
            Some(name) => {
                On::Emulated { path, device: Box::new(devices::open(name)?), flash: None }
            }
            None => On::Target { path, flash: None },
        };
        let unix = self.socket.clone().map(Address::Unix);
        let listen: Vec<Address> = unix.into_iter().chain(self.tcp.map(Address::Tcp)).collect();
        if listen.is_empty() {
            return Err(forebay_serve::Error::Unfit(
                "there is no address to listen on; expected --socket PATH or --tcp 127.0.0.1:10809"
                    .into(),
            )
            .into());
        }
        let base = Back::of(self.export.as_deref().unwrap_or_default(), on);
        let back = Back {
            name: self.export.clone().unwrap_or(file),
            policy: self.policy.clone().unwrap_or(base.policy.clone()),
            depth: self.depth.unwrap_or(base.depth),
            driver: self.driver,
            page_cache: self.buffered,
            read_only: self.read_only,
            force: self.force,
            trace: self.trace.clone(),
            trace_issued: self.trace_issued.clone(),
            ..base
        };
        Ok(Config { file: None, listen, metrics: None, backs: vec![back] })
    }
}
