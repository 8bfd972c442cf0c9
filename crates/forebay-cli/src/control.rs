//! `forebay control`: sends commands to a running server.

mod volume;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use forebay_serve::control::{Command, client};
use forebay_words::quantities;
use serde_json::Value;

use crate::output::tell;
use crate::verb::{Arguments, Formatted};

/// Change a running server: its policies, its configuration, its traces, its volumes
///
/// SOCKET is that of `forebay serve --socket`. The server takes commands at SOCKET.control, which
/// only its user may open (docs/serve.md shows the format).
#[derive(Args)]
pub(crate) struct Control {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Reload(Arguments<ReloadAsk>),
    Policy(Arguments<PolicyAsk>),
    Drain(Arguments<DrainAsk>),
    StartTrace(Arguments<StartTraceAsk>),
    StopTrace(Arguments<StopTraceAsk>),
    RotateTrace(Arguments<RotateTraceAsk>),
    Volume(Formatted<volume::StateAsk>),
    Check(Formatted<volume::CheckAsk>),
    CancelCheck(Arguments<volume::CancelCheckAsk>),
    Replace(Formatted<volume::ReplaceAsk>),
    Grow(Formatted<volume::GrowAsk>),
    Remove(Formatted<volume::RemoveAsk>),
    Limit(Arguments<volume::LimitAsk>),
}

forebay_ask::ask! {
    /// Reread the configuration file and apply what can be changed without a restart
    pub(crate) struct ReloadAsk("control reload") {
        /// The socket that the server listens on
        socket: PathBuf [.positional().word("SOCKET")],
    }
}

forebay_ask::ask! {
    /// Switch the policy; requests in flight are answered first
    pub(crate) struct PolicyAsk("control policy") {
        /// The socket that the server listens on
        socket: PathBuf [.positional().word("SOCKET")],
        /// The policy to apply (see `forebay policies`)
        policy: String [.positional().word("POLICY")],
        /// The disk or volume
        disk: Option<String> [.word("NAME").otherwise("the only one")],
    }
}

forebay_ask::ask! {
    /// Write all data that exists only on the flash of a cache to the disk, so that the flash can
    /// be removed
    ///
    /// From then on nothing is cached. Shows progress until the disk has all data. If this command
    /// is interrupted, draining continues.
    pub(crate) struct DrainAsk("control drain") {
        /// The socket that the server listens on
        socket: PathBuf [.positional().word("SOCKET")],
        /// The disk
        disk: Option<String> [.word("NAME").otherwise("the only one")],
    }
}

forebay_ask::ask! {
    /// Start a trace of the clients' requests
    pub(crate) struct StartTraceAsk("control start-trace") {
        /// The socket that the server listens on
        socket: PathBuf [.positional().word("SOCKET")],
        /// The file to write, .parquet or .csv
        file: PathBuf [.positional().word("FILE")],
        /// The disk or volume
        disk: Option<String> [.word("NAME").otherwise("the only one")],
        /// Record the I/Os issued to the disks instead
        issued: bool,
    }
}

forebay_ask::ask! {
    /// Complete the traces that are being written
    pub(crate) struct StopTraceAsk("control stop-trace") {
        /// The socket that the server listens on
        socket: PathBuf [.positional().word("SOCKET")],
        /// The disk or volume
        disk: Option<String> [.word("NAME").otherwise("the only one")],
    }
}

forebay_ask::ask! {
    /// Complete the traces, add a number to their names, and begin new ones
    pub(crate) struct RotateTraceAsk("control rotate-trace") {
        /// The socket that the server listens on
        socket: PathBuf [.positional().word("SOCKET")],
        /// The disk or volume
        disk: Option<String> [.word("NAME").otherwise("the only one")],
    }
}

impl Control {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self.what {
            What::Volume(verb) => volume::state(verb)?,
            What::Check(verb) => volume::check(verb)?,
            What::CancelCheck(verb) => volume::cancel_check(verb)?,
            What::Replace(verb) => volume::replace(verb)?,
            What::Grow(verb) => volume::grow(verb)?,
            What::Remove(verb) => volume::remove(verb)?,
            What::Limit(verb) => volume::limit(verb)?,
            What::Reload(Arguments(ReloadAsk { socket })) => {
                let done = order(&socket, &Command::Reload {})?;
                texts(&done["changes"]).for_each(tell);
                let failures: Vec<&str> = texts(&done["failures"]).collect();
                if !failures.is_empty() {
                    anyhow::bail!(failures.join("\nforebay: "));
                }
            }
            What::Policy(Arguments(PolicyAsk { socket, policy, disk })) => {
                let done = order(&socket, &Command::Policy { disk, policy: policy.clone() })?;
                let pause = quantities::millis(done["pause_ms"].as_f64().unwrap_or_default());
                tell(&format!("the policy is now {policy}; requests were paused for {pause}"));
            }
            What::Drain(Arguments(DrainAsk { socket, disk })) => {
                volume::ordered::<Value>(&socket, &Command::DrainFlash { disk }, "draining")?;
                tell(
                    "the disk has all data; stop the server, remove the flash and its cache from the \
                     configuration, and start the server again",
                );
            }
            What::StartTrace(Arguments(StartTraceAsk { socket, file, disk, issued })) => {
                let path = std::path::absolute(file)?;
                order(&socket, &Command::StartTrace { disk, path, issued })?;
            }
            What::StopTrace(Arguments(StopTraceAsk { socket, disk })) => {
                completed(&order(&socket, &Command::StopTrace { disk })?);
            }
            What::RotateTrace(Arguments(RotateTraceAsk { socket, disk })) => {
                completed(&order(&socket, &Command::RotateTrace { disk })?);
            }
        }
        Ok(())
    }
}

fn order(socket: &Path, command: &Command) -> anyhow::Result<Value> {
    Ok(client::order(socket, command, &mut |_| ())?)
}

fn completed(done: &Value) {
    texts(&done["paths"]).for_each(|path| tell(&format!("{path} is complete")));
}

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}
