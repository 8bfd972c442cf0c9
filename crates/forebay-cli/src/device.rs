//! `forebay device`: makes device files from measurements or DiskSim files, and checks models
//! against measured times.

use clap::{Args, Subcommand};
use forebay::device::SWEEP_JOB;
use forebay::device::verb::{DeviceFitAsk, DeviceImportAsk, DeviceValidateAsk};
use forebay_play::probe::DeviceProbeAsk;

use crate::output;
use crate::verb::ParsedVerb;

/// Make device files from measurements or from DiskSim drives, and check a model against measured times
#[derive(Args)]
pub(crate) struct Device {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Import(ParsedVerb<DeviceImportAsk>),
    Validate(ParsedVerb<DeviceValidateAsk>),
    Fit(ParsedVerb<DeviceFitAsk>),
    Probe(ParsedVerb<DeviceProbeAsk>),
    /// Print the fio job whose results `device fit` reads
    Job,
}

impl Device {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self.verb {
            Verb::Import(verb) => verb.run(),
            Verb::Validate(verb) => verb.run(),
            Verb::Fit(verb) => verb.run(),
            Verb::Probe(verb) => verb.run(),
            Verb::Job => Ok(output::print(SWEEP_JOB.trim_end())?),
        }
    }
}
