//! `forebay device`: makes device files from measurements or DiskSim files, and checks models
//! against measured times.

use clap::Args;
use forebay::device::SWEEP_JOB;
use forebay::device::verb::{DeviceFitAsk, DeviceImportAsk, DeviceValidateAsk};
use forebay_play::probe::DeviceProbeAsk;

use crate::output;
use crate::verb::{ParsedVerb, verbs};

/// Make device files from measurements or from DiskSim drives, and check a model against measured
/// times
#[derive(Args)]
pub(crate) struct Device {
    #[command(subcommand)]
    verb: Verb,
}

verbs! {
    Verb {
        Import(ParsedVerb<DeviceImportAsk>),
        Validate(ParsedVerb<DeviceValidateAsk>),
        Fit(ParsedVerb<DeviceFitAsk>),
        Probe(ParsedVerb<DeviceProbeAsk>),
        Job(Job),
    }
}

impl Device {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        self.verb.run()
    }
}

/// Print the fio job whose results `device fit` reads
#[derive(Args)]
struct Job;

impl Job {
    fn run(self) -> anyhow::Result<()> {
        Ok(output::print(SWEEP_JOB.trim_end())?)
    }
}
