//! Runs a load on a Linux kernel and on Forebay's simulator with the same model of a disk, so that
//! only the block layer and its scheduler differ. `make guest` does so in a virtual machine; see
//! docs/internals/kernel.md.
//!
//! ```text
//! forebay-guest draw LOAD SEED DEVICE                      prints a script
//! forebay-guest flushed SCRIPT OUTCOME                     prints it with the flusher's writes
//! forebay-guest simulate SCRIPT DEVICE SCHEDULER PHASE_US  prints the simulated outcome
//! forebay-guest perform SCRIPT DEVICE PHASE_US KEY=VALUE...
//!                         prints the outcome on this kernel; needs root and ublk_drv
//! ```
//!
//! `KEY=VALUE` are settings in `/sys/block/DEVICE/queue`, such as `scheduler=bfq`. With
//! `hold=FILE`, the script begins when the file exists, and the device is removed when the file is
//! removed.

#![forbid(unsafe_code)]

mod disk;
mod flushed;
mod kernel;
mod loads;
mod outcome;
mod pacing;
mod script;
mod simulated;

use std::path::Path;
use std::process::ExitCode;

use forebay_core::Nanos;
use script::Script;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match command(&words) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(what) => {
            eprintln!("forebay-guest: {what}");
            ExitCode::from(2)
        }
    }
}

fn command(words: &[&str]) -> Result<String, String> {
    match *words {
        ["draw", load, seed, device] => Ok(loads::draw(load, number(seed)?, device)?.text()),
        ["simulate", path, device, scheduler, phase_us] => {
            let (script, phase) = (read(path)?, Nanos::from_micros(number(phase_us)?));
            Ok(simulated::simulated(&script, device, scheduler, phase)?.text(&script))
        }
        ["flushed", path, outcome] => {
            let outcome =
                std::fs::read_to_string(outcome).map_err(|error| format!("{outcome}: {error}"))?;
            Ok(flushed::replaced(read(path)?, &outcome).text())
        }
        ["perform", path, device, phase_us, ref settings @ ..] => {
            let (script, phase) = (read(path)?, Nanos::from_micros(number(phase_us)?));
            let settings: Vec<(String, String)> = settings
                .iter()
                .map(|word| word.split_once('=').map(|(key, value)| (key.into(), value.into())))
                .collect::<Option<_>>()
                .ok_or("expected KEY=VALUE")?;
            let (hold, settings): (Vec<_>, Vec<_>) =
                settings.into_iter().partition(|(key, _)| key == "hold");
            let hold = hold.first().map(|(_, file)| Path::new(file));
            let (script, outcome) = kernel::performed(&script, device, &settings, phase, hold)?;
            Ok(outcome.text(&script))
        }
        _ => Err("expected draw, simulate or perform; see the head of main.rs".into()),
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("got '{text}', expected a whole number"))
}

fn read(path: &str) -> Result<Script, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    Script::parse(&text).map_err(|what| format!("{path}, {what}"))
}
