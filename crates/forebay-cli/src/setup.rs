//! `forebay completions` and `forebay man`: generate files to install with the command from its
//! argument parser.

use std::fs;
use std::io;
use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::roff::{Roff, roman};
use forebay_trace::TraceError;
use forebay_trace::write::{Draft, ProtectedFiles};

use crate::{command, output, verbs};

/// Print the completion script for a shell
///
/// With the script installed, the shell completes forebay's verbs and options when you press Tab.
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
    /// The folder; it is created if it does not exist
    folder: PathBuf,
}

impl Man {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let told = |source: io::Error| {
            forebay::Error::output(TraceError::Io { path: self.folder.clone(), source })
        };
        fs::create_dir_all(&self.folder).map_err(told)?;
        let mut pages = Vec::new();
        let mut verbs = verbs();
        verbs.build();
        pages_of(&verbs, &mut pages)?;
        for (name, page) in pages {
            let draft = Draft::new(&self.folder.join(name), &ProtectedFiles::default());
            draft.and_then(|draft| draft.fill(&page)).map_err(forebay::Error::output)?;
        }
        Ok(())
    }
}

/// Generates the manual pages of a verb and its subcommands. Appends them and their file names to
/// `pages`.
fn pages_of(verb: &Command, pages: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    for inner in verb.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        pages_of(inner, pages)?;
    }
    let (man, mut page) = (clap_mangen::Man::new(verb.clone()), Vec::new());
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    // clap_mangen omits the values of options, but the usage line contains them.
    let usage = verb.clone().render_usage().to_string();
    section("SYNOPSIS", usage.trim_start_matches("Usage:").trim(), &mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if verb.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some(examples) = verb.get_after_long_help().or(verb.get_after_help()) {
        let examples = examples.to_string();
        section(
            "EXAMPLES",
            examples.trim_start_matches("Examples:").trim_matches('\n'),
            &mut page,
        )?;
    }
    if verb.get_version().or(verb.get_long_version()).is_some() {
        man.render_version_section(&mut page)?;
    }
    pages.push((man.get_filename(), page));
    Ok(())
}

/// Adds a section whose lines keep their breaks.
fn section(name: &str, text: &str, page: &mut Vec<u8>) -> io::Result<()> {
    let mut roff = Roff::new();
    roff.control("SH", [name]).control("nf", []);
    for line in text.lines() {
        roff.text([roman(line.trim_start())]);
    }
    roff.control("fi", []).to_writer(page)
}
