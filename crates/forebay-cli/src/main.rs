//! The `forebay` command, a thin layer over the verbs.
//!
//! Results are printed on standard output, messages and progress on standard error. The exit status
//! is 0 for success, 2 for bad usage, bad input or an unwritable report, 3 for a degraded volume,
//! 128 plus the signal number if stopped by a signal, and 1 for any other failure.

#![forbid(unsafe_code)]

mod array;
mod attach;
mod control;
mod device;
mod examples;
mod help;
mod interrupt;
mod notify;
mod output;
mod password;
mod plan;
mod progress;
mod serve;
mod setup;
mod stdin;
mod store;
mod store_bench;
mod store_repair;
mod top;
mod usage;
mod verb;
mod volume;

use std::ffi::OsString;
use std::panic;
use std::process::ExitCode;
use std::sync::Arc;

use clap::error::ErrorKind;
use clap::{Command, CommandFactory, FromArgMatches, Parser};
use forebay::advise::verb::AdviseAsk;
use forebay::convert::verb::ConvertAsk;
use forebay::listings::{DevicesAsk, FormatsAsk, PoliciesAsk};
use forebay::model::fit::verb::FitAsk;
use forebay::model::generate::verb::GenerateAsk;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

/// Shows what your storage workload does to its disks, and what would help.
#[derive(Parser)]
#[command(name = "forebay", version = env!("FOREBAY_VERSION"), arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

verb::verbs! {
    Verb {
        Advise(Box<verb::ParsedVerb<AdviseAsk>>),
        Describe(verb::ParsedVerb<forebay::describe::DescribeAsk>),
        Simulate(Box<verb::ParsedVerb<forebay::simulate::SimulateAsk>>),
        Cache(verb::ParsedVerb<forebay::cache_curve::CacheAsk>),
        Compare(verb::ParsedVerb<forebay::compare::CompareAsk>),
        Retrodict(verb::ParsedVerb<forebay::retrodict::RetrodictAsk>),
        Offline(verb::ParsedVerb<forebay::offline::OfflineAsk>),
        Plan(plan::Plan),
        Convert(verb::ParsedVerb<ConvertAsk>),
        Fit(verb::ParsedVerb<FitAsk>),
        Generate(verb::ParsedVerb<GenerateAsk>),
        Capture(verb::ParsedVerb<forebay_play::capture::CaptureAsk>),
        Play(Box<verb::ParsedVerb<forebay_play::PlayAsk>>),
        Serve(Box<verb::Arguments<serve::ServeAsk>>),
        Attach(verb::Arguments<attach::AttachAsk>),
        Detach(verb::Arguments<attach::DetachAsk>),
        Top(verb::Formatted<top::TopAsk>),
        Control(control::Control),
        Volume(volume::Volume),
        Store(store::Store),
        Array(array::Array),
        Device(device::Device),
        Devices(verb::ParsedVerb<DevicesAsk>),
        Policies(verb::ParsedVerb<PoliciesAsk>),
        Formats(verb::ParsedVerb<FormatsAsk>),
        Completions(setup::Completions),
        Man(setup::Man),
    }
}

/// Installs signal handlers, so that an interrupted command leaves no incomplete files. Exceeding
/// the file size limit becomes a write error instead of killing the process.
fn heed_signals() -> std::io::Result<()> {
    signal_hook::flag::register(SIGXFSZ, Arc::default())?;
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if signal == SIGHUP && interrupt::hang_up() {
                continue;
            }
            if !interrupt::stop_early() {
                forebay_trace::write::stop(|| std::process::exit(128 + signal));
            }
        }
    });
    Ok(())
}

/// Returns the argument parser. Shell completions are generated from it.
fn command() -> Command {
    help::added(verbs())
}

/// Returns the verbs with their examples. Manual pages are generated from them.
fn verbs() -> Command {
    examples::added(Cli::command()).disable_help_subcommand(true)
}

/// Parses the arguments. A request for help is returned as an error, as in clap.
fn parsed(command: &mut Command, arguments: &[OsString]) -> Result<Cli, clap::Error> {
    let matches = command.try_get_matches_from_mut(arguments).map_err(|error| {
        let is_missing = error.kind() == ErrorKind::MissingRequiredArgument;
        is_missing.then(|| wrong_in_part(arguments)).flatten().unwrap_or(error)
    })?;
    match help::asked(command, &matches) {
        Some(help) => Err(help),
        None => Cli::from_arg_matches(&matches),
    }
}

/// Returns the error in those arguments that were given, if others are missing.
fn wrong_in_part(arguments: &[OsString]) -> Option<clap::Error> {
    let matches = command().ignore_errors(true).try_get_matches_from(arguments).ok()?;
    let error = Cli::from_arg_matches(&matches).err()?;
    (error.kind() != ErrorKind::MissingRequiredArgument).then_some(error)
}

/// Prints what parsing returned instead of a verb: help on standard output, and an error as one
/// line on standard error. `forebay` without arguments prints its help, but is an error.
fn told(error: &clap::Error, command: &mut Command, arguments: &[OsString]) -> ExitCode {
    let given = arguments.get(1..).unwrap_or_default();
    let is_bare =
        error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand && given.is_empty();
    if error.use_stderr() && !is_bare {
        output::tell(&usage::message(error, command, given));
        return ExitCode::from(2);
    }
    match error.print() {
        Err(failure) if !error.use_stderr() => {
            let failure = output::on_stdout(failure).into();
            if output::is_broken_pipe(&failure) { ExitCode::SUCCESS } else { failed(&failure) }
        }
        _ => ExitCode::from(error.exit_code() as u8),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let mut command = command().term_width(output::columns().min(output::COLUMNS));
    let verb = match parsed(&mut command, &arguments) {
        Ok(cli) => cli.verb,
        Err(error) => return told(&error, &mut command, &arguments),
    };
    // If installing the handlers fails, the default actions of the signals still end the process.
    let _ = heed_signals();
    if let Err(error) = stdin::prepare() {
        return failed(&error);
    }
    // Panics of libraries on damaged input are caught where they are called and reported as errors.
    // A panic that reaches this point is a bug in Forebay.
    panic::set_hook(Box::new(|_| ()));
    let Ok(outcome) = panic::catch_unwind(move || verb.run()) else {
        output::tell("internal error; please report it together with the command that caused it");
        return ExitCode::FAILURE;
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn failed(error: &anyhow::Error) -> ExitCode {
    if !error.is::<output::Exit>() {
        output::tell(&output::message(error));
    }
    ExitCode::from(output::exit_status(error))
}
