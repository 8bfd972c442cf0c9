//! Results on standard output, notes on standard error, and what an error means for the exit status.

mod csv;

use std::borrow::Cow;
use std::env;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use clap::ValueEnum;
use forebay::refusal::with_remedy;
use forebay_ask::{Spelling, spelled};
use forebay_show::grid::Grid;
use forebay_show::prose;
use serde::Serialize;

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Tables for people.
    #[default]
    Table,
    /// One JSON object with everything (docs/schema.md).
    Json,
    /// The table, one row a line, columns called as in JSON.
    Csv,
    /// Everything that the report shows, in Markdown: for a ticket or a wiki.
    Markdown,
}

/// Columns of an answer that goes to no terminal.
pub(crate) const COLUMNS: usize = 100;
/// Columns of a line of prose at most, however wide the terminal is.
const PROSE_COLUMNS: usize = 120;

/// Columns of what goes to standard output.
pub(crate) fn columns() -> usize {
    // The width is that of the terminal standard output is, and of none otherwise.
    comfy_table::Table::new().width().map_or(COLUMNS, |columns| usize::from(columns).max(40))
}

/// A table without rows, no wider than the terminal.
pub(crate) fn table(heads: impl IntoIterator<Item = impl Display>) -> Grid {
    Grid::new(columns() as u16, heads)
}

/// `text` as it stands out on a terminal, unless the user wants no colours.
pub(crate) fn emphasised(text: &str) -> String {
    let wants_none = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    match io::stdout().is_terminal() && !wants_none {
        true => format!("{BOLD}{text}{PLAIN}"),
        false => text.to_string(),
    }
}

/// `text` in lines no wider than the terminal, all but the first indented.
pub(crate) fn wrapped(text: &str) -> String {
    prose::wrapped(text, columns().min(PROSE_COLUMNS))
}

/// Says something on standard error: wrapped where somebody reads it, else in one line.
///
/// Names of inputs are written as options. Where the text cannot be written there is nobody to tell.
pub(crate) fn tell(text: &str) {
    let line = format!("forebay: {}", spelled(text, Spelling::Command));
    let line = harmless(&line);
    let _ = match io::stderr().is_terminal() {
        true => writeln!(io::stderr(), "{}", wrapped(&line)),
        false => writeln!(io::stderr(), "{line}"),
    };
}

/// [`tell`] of what is formatted.
macro_rules! say {
    ($($what:tt)*) => { $crate::output::tell(&format!($($what)*)) };
}
pub(crate) use say;

/// The codes of [`emphasised`].
const BOLD: &str = "\x1b[1m";
const PLAIN: &str = "\x1b[0m";

/// `text` without what a terminal would obey: names come from traces and files of others.
fn harmless(text: &str) -> Cow<'_, str> {
    let is_obeyed = |c: char| c.is_control() && c != '\n' && c != '\t';
    if !text.contains(is_obeyed) {
        return text.into();
    }
    let without = |part: &str| part.replace(is_obeyed, "\u{fffd}");
    let parts =
        text.split(BOLD).map(|part| part.split(PLAIN).map(without).collect::<Vec<_>>().join(PLAIN));
    parts.collect::<Vec<_>>().join(BOLD).into()
}

/// Prints `text`, for somebody to read, and a line end.
pub(crate) fn print(text: &str) -> io::Result<()> {
    write(&harmless(text))
}

/// For verbs whose exit status is a verdict: if the reader has closed the pipe, they go on to it.
pub(crate) fn though_unread<E: Into<anyhow::Error>>(printed: Result<(), E>) -> anyhow::Result<()> {
    match printed.map_err(Into::into) {
        Err(error) if is_broken_pipe(&error) => Ok(()),
        printed => printed,
    }
}

/// To the first line of an empty screen.
pub(crate) fn clear() -> io::Result<()> {
    io::stdout().lock().write_all(b"\x1b[H\x1b[J").map_err(on_stdout)
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let mut all = || {
        out.write_all(text.as_bytes())?;
        out.write_all(b"\n")?;
        out.flush()
    };
    all().map_err(on_stdout)
}

/// An error of writing to standard output, which it names.
pub(crate) fn on_stdout(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("standard output: {error}"))
}

/// The version of what JSON answers look like. It rises when a key goes, or comes to mean something else; new keys do
/// not raise it.
const SCHEMA_VERSION: u32 = 4;

/// Prints `answer`, a structure: as one indented JSON object that begins with `schema_version`, or its table as CSV.
pub(crate) fn print_data(format: Format, answer: &impl Serialize) -> anyhow::Result<()> {
    let mut versioned = serde_json::Map::new();
    versioned.insert("schema_version".into(), SCHEMA_VERSION.into());
    if let serde_json::Value::Object(fields) = serde_json::to_value(answer)? {
        versioned.extend(fields);
    }
    let versioned = serde_json::Value::Object(versioned);
    write(&match format {
        Format::Csv => csv::of(&versioned),
        Format::Json | Format::Table | Format::Markdown => format!("{versioned:#}"),
    })?;
    Ok(())
}

/// The error in one line. Causes are added only where the message does not end with them already, and what to do where the
/// system alone has spoken.
pub(crate) fn message(error: &anyhow::Error) -> String {
    let said = error.chain().skip(1).fold(error.to_string(), |said, cause| {
        let cause = cause.to_string();
        if said.ends_with(&cause) { said } else { format!("{said}: {cause}") }
    });
    with_remedy(spelled(&said, Spelling::Command))
}

/// Whether whoever reads our output has gone, which is no fault.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<io::Error>();
    io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// 2 for what the user can mend (options, files that are read), 1 for anything else.
pub(crate) fn exit_status(error: &anyhow::Error) -> u8 {
    let of_verb = error.downcast_ref::<forebay::Error>();
    let of_store = error.downcast_ref::<forebay_store::StoreError>();
    let of_serve = error.downcast_ref::<forebay_serve::Error>();
    let input = of_serve.is_some_and(forebay_serve::Error::is_users)
        || of_store.is_some_and(forebay_store::StoreError::is_input)
        || of_verb.is_some_and(forebay::Error::is_input)
        || error.downcast_ref::<forebay_trace::TraceError>().is_some()
        || error.downcast_ref::<forebay::devices::DevicesError>().is_some();
    if input { 2 } else { 1 }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    /// The Rust files under `folder`.
    fn sources(folder: &Path) -> Vec<std::path::PathBuf> {
        let entries = fs::read_dir(folder).expect("sources are there");
        let paths = entries.map(|entry| entry.expect("it can be read").path());
        let each = paths.flat_map(|path| match path.is_dir() {
            true => sources(&path),
            false => vec![path],
        });
        each.collect()
    }

    #[test]
    fn what_a_terminal_would_obey_is_not_printed() {
        let name = "v\u{1b}[31m\u{9b}2J\u{7}\r";
        assert_eq!(super::harmless(name), "v\u{fffd}[31m\u{fffd}2J\u{fffd}\u{fffd}");
        let bold = "\u{1b}[1ma \u{1b}]0;b\u{7}\u{1b}[0m\n\tc";
        assert_eq!(super::harmless(bold), "\u{1b}[1ma \u{fffd}]0;b\u{fffd}\u{1b}[0m\n\tc");
        assert!(matches!(super::harmless("plain"), std::borrow::Cow::Borrowed(_)));
    }

    #[test]
    fn an_error_says_each_cause_once() {
        let source = std::io::Error::other("no room");
        let told = forebay_trace::TraceError::Io { path: "t.csv".into(), source };
        let error = anyhow::Error::from(told);
        assert_eq!(super::message(&error), "t.csv: no room");
        assert_eq!(super::message(&error.context("converting")), "converting: t.csv: no room");
        let apart =
            anyhow::Error::new(std::io::Error::other("why")).context("what").context("when");
        assert_eq!(super::message(&apart), "when: what: why");
    }

    /// So that no verb's JSON lacks its version.
    #[test]
    fn json_is_printed_in_one_place() {
        let writes = |path: &std::path::PathBuf| {
            fs::read_to_string(path).is_ok_and(|text| text.contains("serde_json::to_"))
        };
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let writers: Vec<_> = sources(&folder).into_iter().filter(writes).collect();
        assert_eq!(writers, [folder.join("output.rs")]);
    }
}
