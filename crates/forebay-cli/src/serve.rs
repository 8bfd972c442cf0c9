//! `forebay serve`: serves files, devices and volumes over the network.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use forebay::advise::known_model;
use forebay::devices::{self, OpenDevice};
use forebay::plan::buy::{Layout, guaranteed_iops};
use forebay::verb::{DeviceInput, SecondInterruption, policy_exists};
use forebay_ask::{Spelling, Value, named, spelled};
use forebay_live::Driver;
use forebay_play::served::volume_layout;
use forebay_serve::{Address, Back, Config, Named, On, Server, address, file};

use crate::interrupt;
use crate::notify::{is_journal, notify, severity};
use crate::output::{print, tell, tell_after};
use crate::verb::Run;

forebay_ask::ask! {
    /// Serve files, block devices and volumes over the network (NBD), with a policy in the I/O path
    ///
    /// Clients include nbd-client, QEMU, libnbd and anything else that speaks NBD, and this
    /// machine's kernel (--ublk). The server listens on a Unix socket or a loopback address, never
    /// on other network interfaces. Ctrl-C finishes pending requests, flushes everything to disk,
    /// and ends. SIGHUP rereads the configuration, applies its policies and promises, and rotates
    /// the traces; `forebay control` does each by itself.
    pub(crate) struct ServeAsk("serve") {
        /// The file or block device to serve, a folder with the drives of a volume, or a
        /// configuration (.toml) of several
        what: PathBuf [.positional().word("FILE|DIR|CONFIG.toml")],
        /// The Unix socket to listen on
        socket: Option<PathBuf> [.word("PATH")],
        /// The loopback address to listen on, as in 127.0.0.1:10809
        tcp: Option<Loopback>,
        /// Make the export a block device of this machine, such as /dev/ublkb0 (requires root and
        /// the kernel's ublk_drv)
        ublk: bool,
        /// The name by which clients select the export
        export: Option<String> [.word("NAME").otherwise("the empty name")],
        /// The policy to apply (see `forebay policies`)
        policy: Option<String> [.word("POLICY").checked(policy_exists).otherwise("noop")],
        /// Answer no sooner than this device would (see `forebay devices`)
        emulate: Option<DeviceInput> [.excludes(&["depth", "buffered"])],
        /// Use the page cache
        buffered: bool,
        /// Refuse writes
        read_only: bool,
        /// Check whether a start would succeed, print how much more can be promised, and end;
        /// nothing is changed
        check: bool,
        /// Serve even if the newest data may be on a flash that is missing or has changed
        /// (docs/placement-log.md)
        force: bool,
        /// I/Os to keep in flight on the file
        depth: Option<u32> [.word("COUNT").between(1.0, 4096.0).otherwise("64")],
        /// How to submit I/Os to the file
        driver: Option<Driver> [.otherwise("io_uring if available")],
        /// Write a trace of the clients' requests, complete when the server has ended
        trace: Option<PathBuf>,
        /// Write a trace of the I/Os issued to the file, complete when the server has ended
        trace_issued: Option<PathBuf>,
    }
}

/// A loopback address with a port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loopback(SocketAddr);

impl Value for Loopback {
    const WORD: &'static str = "ADDRESS";

    fn parse(text: &str) -> Result<Loopback, String> {
        address(text).map(Loopback).map_err(|error| error.to_string())
    }
}

/// Prints a message of a running server, with its severity if it goes to the systemd journal.
fn log(line: &str) {
    tell_after(if is_journal() { severity(line) } else { "" }, line);
}

/// Returns a warning for each disk or volume of known drives whose `capacity_iops` is above the
/// rate that it keeps under any workload. More than that breaks promises.
fn overstated(config: &Config) -> Vec<String> {
    let warning = |back: &Back| {
        let capacity_iops = back.capacity_iops?;
        let promises = back.exports.iter().filter_map(|export| export.promise);
        let within = promises.map(|promise| promise.within).min()?;
        let (device, layout) = known_drives(back)?;
        let iops = guaranteed_iops(&device, layout, within).ok()?;
        let of = match layout.1 {
            1 => device.name,
            drives => format!("a volume of {drives} {}", device.name),
        };
        (capacity_iops > iops + iops / 10).then(|| {
            format!(
                "'{}': warning: capacity_iops: got {capacity_iops}, but {of} keeps only {iops} IOPS \
                 under any workload, so promises may break; set capacity_iops = {iops}",
                back.name
            )
        })
    };
    config.backs.iter().filter_map(warning).collect()
}

/// Returns the model of the drives of a back, with their layout and number; `None` if the drives
/// are not known, or if `plan buy` has no such layout.
fn known_drives(back: &Back) -> Option<(OpenDevice, (Layout, usize))> {
    let known = |path: &Path| devices::open(&known_model(path)?).ok();
    let single = (Layout::Single, 1);
    match &back.on {
        On::Emulated { device, .. } => Some(((**device).clone(), single)),
        On::Target { path, .. } => Some((known(path)?, single)),
        On::EmulatedVolume { drives, device } => {
            let (layout, count, _) = volume_layout(drives, &back.policy)?;
            Some(((**device).clone(), (layout, count)))
        }
        On::Volume(drives) => {
            let (layout, count, first) = volume_layout(drives, &back.policy)?;
            Some((known(&first)?, (layout, count)))
        }
    }
}

/// How often to check whether the user wants to stop.
const TICK: Duration = Duration::from_millis(50);

impl Run for ServeAsk {
    fn run(self) -> anyhow::Result<()> {
        let config = self.config()?;
        if self.check {
            let lines = config.check()?;
            overstated(&config).iter().for_each(|line| tell(line));
            return Ok(print(&spelled(&lines.join("\n"), Spelling::Command))?);
        }
        // This first call makes sure that SIGHUP no longer ends the process.
        interrupt::hung_up();
        let outcome = interrupt::shortens(SecondInterruption::Ends, |stop| {
            let server = Server::start(&config)?;
            for note in server.notes() {
                tell(note);
            }
            for address in server.addresses() {
                tell(&format!("serving {} at {address}", self.what.display()));
            }
            if !config.listen.iter().any(|address| matches!(address, Address::Unix(_))) {
                tell(
                    "no Unix socket: `forebay top` and `forebay control` cannot reach this server",
                );
            }
            notify("READY=1");
            // Simulating a drive takes seconds, so do not make clients wait for it.
            let checked = config.clone();
            thread::spawn(move || overstated(&checked).iter().for_each(|line| log(line)));
            while !stop.load(Ordering::Relaxed) && !server.is_broken() {
                thread::sleep(TICK);
                server.said().iter().for_each(|said| log(said));
                if interrupt::hung_up() {
                    server.reload_later();
                }
            }
            notify("STOPPING=1");
            let (said, ended) = server.end();
            said.iter().for_each(|said| log(said));
            ended
        });
        Ok(outcome?)
    }
}

impl ServeAsk {
    /// Reads the configuration file and combines it with the command-line options.
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
            ("socket", self.socket.is_some()),
            ("tcp", self.tcp.is_some()),
            ("ublk", self.ublk),
            ("export", self.export.is_some()),
            ("policy", self.policy.is_some()),
            ("emulate", self.emulate.is_some()),
            ("buffered", self.buffered),
            ("read_only", self.read_only),
            ("depth", self.depth.is_some()),
            ("driver", self.driver.is_some()),
            ("trace", self.trace.is_some()),
            ("trace_issued", self.trace_issued.is_some()),
        ];
        if self.is_config() {
            if let Some((option, _)) = given.iter().find(|(_, given)| *given) {
                let (what, option) = (self.what.display(), named(option));
                return Err(forebay_serve::Error::Unfit(format!(
                    "{what}: got both a configuration file and {option}; specify the setting in \
                     the file"
                ))
                .into());
            }
            return Ok(self.read()?);
        }
        let path = self.what.clone();
        let file = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let emulated = self.emulate.as_ref().map(|name| devices::open(&name.0)).transpose()?;
        let on = match (path.is_dir(), emulated.map(Box::new)) {
            (false, None) => On::Target { path, flash: None },
            (false, Some(device)) => On::Emulated { path, device, flash: None },
            (true, None) => On::Volume(vec![path]),
            (true, Some(device)) => On::EmulatedVolume { drives: vec![path], device },
        };
        let unix = self.socket.clone().map(Address::Unix);
        let listen: Vec<Address> =
            unix.into_iter().chain(self.tcp.map(|Loopback(tcp)| Address::Tcp(tcp))).collect();
        // Without the file, starting the server reports that it does not exist.
        if listen.is_empty() && !self.ublk && !self.check && self.what.exists() {
            return Err(forebay_serve::Error::Unfit(format!(
                "no address to listen on; expected {}, {} or {}",
                named("socket=PATH"),
                named("tcp=127.0.0.1:10809"),
                named("ublk")
            ))
            .into());
        }
        let base = Back::of(self.export.as_deref().unwrap_or_default(), on);
        let exports =
            base.exports.iter().map(|one| Named { ublk: self.ublk, ..one.clone() }).collect();
        let back = Back {
            exports,
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
        Ok(Config::of(listen, vec![back]))
    }
}
