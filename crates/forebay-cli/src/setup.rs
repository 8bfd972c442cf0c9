//! `forebay completions` and `forebay man`: what an installation puts beside the command, from the parser of its arguments.

use std::fs;
use std::io;
use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;
use forebay_trace::TraceError;

use crate::{command, output, verbs};

/// Print the completions of a shell, to be installed beside the command
///
/// Then the shell completes verbs and options of forebay when you press Tab.
#[derive(Args)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command(), "forebay", &mut script);
        Ok(output::print(String::from_utf8(script)?.trim_end())?)
    }
}

/// Write the manual pages, one for each verb, into a folder
#[derive(Args)]
pub(crate) struct Man {
    /// The folder; it is made if it is not there
    folder: PathBuf,
}

impl Man {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let told = |source: io::Error| {
            forebay::Error::output(TraceError::Io { path: self.folder.clone(), source })
        };
        fs::create_dir_all(&self.folder).map_err(told)?;
        clap_mangen::generate_to(verbs(), &self.folder).map_err(told)?;
        Ok(())
    }
}
