//! `forebay describe`.

use clap::Args;

use crate::options::{Reading, TracePath};
use crate::output::{self, Format};

/// Characterise a trace: sizes, sequentiality, burstiness, streams, volumes
#[derive(Args)]
pub(crate) struct Describe {
    /// The trace
    trace: TracePath,
    #[command(flatten)]
    reading: Reading,
    /// How to print the description
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

impl Describe {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let description = self.reading.describe(&self.trace)?;
        match self.format {
            Format::Json => output::print_json(&description)?,
            Format::Table => output::print(&description.table())?,
        }
        Ok(())
    }
}
