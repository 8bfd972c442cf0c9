//! Output: results on standard output, messages on standard error, and exit statuses for errors.

mod csv;

use std::borrow::Cow;
use std::env;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use clap::ValueEnum;
use console::Term;
use forebay::refusal::with_remedy;
use forebay_ask::{Spelling, spelled};
use forebay_show::grid::Grid;
use forebay_show::prose;
use serde::Serialize;

/// The output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Tables for people.
    #[default]
    Table,
    /// One JSON object with everything (docs/schema.md).
    Json,
    /// The answer's table, one row per line, with the column names that JSON uses.
    Csv,
    /// Everything that the report shows, in Markdown: for a ticket or a wiki.
    Markdown,
}

/// The width in columns to use if output does not go to a terminal.
pub(crate) const COLUMNS: usize = 100;
/// The maximum width of prose in columns, however wide the terminal is.
const PROSE_COLUMNS: usize = 120;

/// Returns the width of standard output in columns. If it is not a terminal, the variable `COLUMNS`
/// may set it.
pub(crate) fn columns() -> usize {
    let variable = || env::var("COLUMNS").ok()?.parse().ok();
    // console returns no width if the height is unknown.
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
    let terminal = size.map(|size| size.ws_col).filter(|columns| *columns > 0);
    terminal.or_else(variable).map_or(COLUMNS, |columns: u16| usize::from(columns).max(40))
}

/// Returns the height of standard output in rows, which is unlimited if it is not a terminal.
pub(crate) fn rows() -> usize {
    Term::stdout().size_checked().map_or(usize::MAX, |(rows, _)| usize::from(rows))
}

/// Creates an empty table that is never wider than the terminal.
pub(crate) fn table(heads: impl IntoIterator<Item = impl Display>) -> Grid {
    Grid::new(columns() as u16, heads)
}

/// Returns `text` in bold if standard output is a terminal and the user has not disabled
/// formatting.
pub(crate) fn emphasised(text: &str) -> String {
    let wants_none = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    match io::stdout().is_terminal() && !wants_none {
        true => format!("{BOLD}{text}{PLAIN}"),
        false => text.to_string(),
    }
}

/// Wraps `text` to the terminal's width, indenting all lines but the first.
pub(crate) fn wrapped(text: &str) -> String {
    prose::wrapped(text, columns().min(PROSE_COLUMNS))
}

/// Prints a message on standard error, wrapped if that is a terminal, and otherwise on one line.
///
/// Names of inputs are written as options. Write errors are ignored because they cannot be reported
/// anywhere.
pub(crate) fn tell(text: &str) {
    tell_after("", text);
}

/// Like [`tell`], with `prefix` at the beginning of the line.
pub(crate) fn tell_after(prefix: &str, text: &str) {
    let line = format!("{prefix}forebay: {}", spelled(text, Spelling::Command));
    let line = harmless(&line);
    let _ = match io::stderr().is_terminal() {
        true => writeln!(io::stderr(), "{}", wrapped(&line)),
        false => writeln!(io::stderr(), "{line}"),
    };
}

/// Formats a message and prints it with [`tell`].
macro_rules! say {
    ($($what:tt)*) => { $crate::output::tell(&format!($($what)*)) };
}
pub(crate) use say;

/// The escape sequences that [`emphasised`] uses.
const BOLD: &str = "\x1b[1m";
const PLAIN: &str = "\x1b[0m";

/// Removes terminal control characters from `text`, which may contain names from untrusted files.
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

/// Prints `text` for a human reader, followed by a newline.
pub(crate) fn print(text: &str) -> io::Result<()> {
    write(&harmless(text))
}

/// Ignores a broken pipe, for verbs whose exit status is needed even if nobody reads their output.
pub(crate) fn though_unread<E: Into<anyhow::Error>>(printed: Result<(), E>) -> anyhow::Result<()> {
    match printed.map_err(Into::into) {
        Err(error) if is_broken_pipe(&error) => Ok(()),
        printed => printed,
    }
}

/// Clears the screen and moves the cursor to the top left.
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

/// Adds the words "standard output" to an error that occurred when writing to it.
pub(crate) fn on_stdout(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("standard output: {error}"))
}

/// The version of the JSON schema. It increases when a key is removed or changes its meaning, but
/// not when a key is added.
const SCHEMA_VERSION: u32 = 4;

/// Prints `answer` as an indented JSON object that begins with `schema_version`, or prints its main
/// table as CSV.
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

/// Formats an error and its causes on one line.
///
/// A cause is omitted if the message already ends with it. If the cause is an operating-system
/// error, a hint about what to do is added.
pub(crate) fn message(error: &anyhow::Error) -> String {
    let said = error.chain().skip(1).fold(error.to_string(), |said, cause| {
        let cause = cause.to_string();
        if said.ends_with(&cause) { said } else { format!("{said}: {cause}") }
    });
    with_remedy(spelled(&said, Spelling::Command))
}

/// Returns whether the error is a broken pipe. This is not a failure: the program that reads our
/// output has exited.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<io::Error>();
    io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// An exit status without a message, because the output already says everything.
#[derive(Debug)]
pub(crate) struct Exit(u8);

impl Exit {
    pub(crate) const FAILURE: Exit = Exit(1);
    /// All data are available, but with less redundancy than they should have.
    pub(crate) const DEGRADED: Exit = Exit(3);
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "exit status {}", self.0)
    }
}

impl std::error::Error for Exit {}

/// Returns 2 for errors that the user can fix (in options or input files), and 1 for all others.
pub(crate) fn exit_status(error: &anyhow::Error) -> u8 {
    if let Some(Exit(status)) = error.downcast_ref() {
        return *status;
    }
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

    /// Returns the Rust files in `folder`, recursively.
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
    fn terminal_control_sequences_are_not_printed() {
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

    /// All JSON must be printed by one function, so that it always contains the schema version.
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
