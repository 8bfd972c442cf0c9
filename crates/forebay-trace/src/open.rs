//! Opens a trace of any format: finds the file, unpacks it, recognises the format.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::columns::{BadColumns, Columns};
use crate::error::{Place, TraceError};
use crate::formats::blktrace::{Blktrace, set};
use crate::formats::presets::open_columns;
use crate::formats::{FORMATS, Format, Input, csv};
use crate::lines::BYTE_ORDER_MARK;
use crate::partition;
use crate::rows::shorten;
use crate::trace::Reader;
use crate::units::{Checked, Doubt};
use crate::unpack::{Consumed, Unpacked, unpack, unpack_counting};

/// Files of a folder that are looked at to find the traces among them.
const LOOKED_AT_MAX: usize = 50;

/// Opens the trace at `path`: a file, packed or not, what names a blktrace set (its base name, its
/// folder, a tar of it, one of its files), or the folder of a finished [`partition`].
///
/// The format is recognised by content; `from` names it instead, or declares the columns of a text:
/// [`COLUMNS`] and what [`Columns`] reads. [`SPLIT_RUNS`] may stand before either, or alone. A trace whose units cannot be right is refused, see
/// [`crate::units`]; where they are declared, it is only warned of.
pub fn open(path: &Path, from: Option<&str>) -> Result<Box<dyn Reader>, TraceError> {
    open_counting(path, from, Consumed::default())
}

/// As [`open`], telling `consumed` of the bytes of the file that are read; of sets only what they are recognised by is
/// counted, and Parquet by its rows.
pub fn open_counting(
    path: &Path,
    from: Option<&str>,
    consumed: Consumed,
) -> Result<Box<dyn Reader>, TraceError> {
    let (split_runs, from) = match from.map(|from| (from, from.strip_prefix(SPLIT_RUNS))) {
        Some((_, Some(rest))) => (true, Some(rest).filter(|rest| !rest.is_empty())),
        _ => (false, from),
    };
    let from = from.map(|name| From::new(path, name)).transpose()?;
    match fs::metadata(path) {
        Ok(found) if found.is_dir() && partition::is_finished(path) => {
            let merged = partition::merge::read(path)?;
            return Ok(Box::new(Checked::new(merged, path, Doubt::of("parquet"))));
        }
        Ok(found) if found.is_dir() => return open_set(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // The base name of a set is no file itself.
            return open_set(path).map_err(|found| match found {
                TraceError::Io { .. } => TraceError::Io { path: path.to_path_buf(), source: error },
                malformed => malformed,
            });
        }
        Err(source) => return Err(TraceError::Io { path: path.to_path_buf(), source }),
        Ok(_) => {}
    }
    let Unpacked { packing, head, content } = unpack_counting(path, Consumed::clone(&consumed))?;
    if head.is_empty() && is_pipe(path) {
        return Err(from_pipe(path, "nothing, or nothing more: a pipe is read once", "a trace"));
    }
    if head.is_empty() {
        return Err(malformed(path, "an empty file".into(), "a trace".into()));
    }
    let input = Input { path: path.to_path_buf(), packing, content, consumed, split_runs };
    let (reader, doubt) = match from {
        Some(From::Columns(columns)) => (open_columns(&columns, input)?, Doubt::declared(&columns)),
        // Who names Parquet knows its units, or could not say so otherwise.
        Some(From::Format(format)) if format.name == "parquet" => {
            (format.open(input)?, Doubt::of(format.name))
        }
        Some(From::Format(format)) => (format.open(input)?, doubt(format, &head, path)),
        None => {
            let format = recognise(path, &head)?;
            (format.open(input)?, doubt(format, &head, path))
        }
    };
    Ok(Box::new(Checked::new(reader, path, doubt)))
}

/// What is known of the units of content that begins so: a header may declare them, or the names of a table's columns.
fn doubt(format: &Format, head: &[u8], path: &Path) -> Doubt {
    if format.name == "parquet"
        && let Some((text, names)) = crate::formats::parquet::declared(path)
        && let Ok(columns) = text.parse::<Columns>()
    {
        return Doubt::of_table(columns, names);
    }
    let declared = (format.name == "csv").then(|| csv::declared(head)).flatten();
    declared.map_or_else(|| Doubt::of(format.name), |columns| Doubt::declared(&columns))
}

/// The files that [`open`] reads for the trace at `path`. Where there is none, `path` alone: opening
/// it tells why.
pub fn files(path: &Path) -> Vec<PathBuf> {
    let of_one = || match path.is_file() && set::split_name(path).is_none() {
        true => vec![path.to_path_buf()],
        false => set::paths(path).unwrap_or_else(|_| vec![path.to_path_buf()]),
    };
    partition::files(path).unwrap_or_else(of_one)
}

/// Whether what is at `path` gives its content but once: a pipe, the standard input of one, a device.
pub fn is_pipe(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// What came from a pipe has to be a file.
pub(crate) fn from_pipe(path: &Path, got: &str, expected: &str) -> TraceError {
    let (path, place) = (path.to_path_buf(), Place::File);
    let hint = "write it to a file and give that".into();
    TraceError::Malformed { path, place, got: got.into(), expected: expected.into(), hint }
}

/// Refuses a pipe as a trace that is read more than once.
///
/// # Errors
/// A pipe.
pub fn expect_file(path: &Path) -> Result<(), TraceError> {
    match is_pipe(path) {
        true => Err(from_pipe(path, "a pipe", "a file: the trace is read twice")),
        false => Ok(()),
    }
}

/// What begins the word that declares columns in place of a format's name.
pub const COLUMNS: &str = "columns:";

/// What a word that says how to read a trace begins with, if a step back of the clock begins another run, to be put behind the
/// one before; alone, the format is recognised.
pub const SPLIT_RUNS: &str = "split-runs:";

/// How a user says what a trace is.
enum From {
    Format(&'static Format),
    Columns(Columns),
}

impl From {
    fn new(path: &Path, word: &str) -> Result<From, TraceError> {
        let Some(text) = word.strip_prefix(COLUMNS) else {
            return named(path, word).map(From::Format);
        };
        text.parse().map(From::Columns).map_err(|bad: BadColumns| {
            malformed(path, format!("{} in the columns {text:?}", bad.got), bad.expected)
        })
    }
}

/// No format has this name.
pub(crate) fn unknown(path: &Path, name: &str) -> TraceError {
    malformed(path, format!("the format name {}", shorten(name.as_bytes())), names())
}

/// The format called `name`.
fn named(path: &Path, name: &str) -> Result<&'static Format, TraceError> {
    Format::named(name).ok_or_else(|| unknown(path, name))
}

fn recognise(path: &Path, head: &[u8]) -> Result<&'static Format, TraceError> {
    let head = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head);
    let returns_only = || head.contains(&b'\r') && !head.contains(&b'\n');
    let unknown = || TraceError::Malformed {
        path: path.to_path_buf(),
        place: Place::File,
        got: format!("content that begins {}", shorten(first_line(head))),
        expected: names(),
        hint: if returns_only() {
            "its lines seem to end with carriage returns alone: tr '\\r' '\\n' mends that".into()
        } else {
            format!(
                "if it is one of these, name it with {}; any other text of one request a line is read with {}, with ns, \
                 us, ms or s for the first UNIT and bytes, sectors or kib for the others",
                forebay_ask::named("from"),
                forebay_ask::named("columns=at:UNIT,op,offset:UNIT,len:UNIT,skip=1")
            )
        },
    };
    let found = FORMATS.iter().find(|format| format.sniff(head));
    match (csv::header::of(head), found) {
        (Some(Err(unsure)), None) => Err(unsure.at(path)),
        // Whose rows look like those of a preset, under another header: its units are not known to be the preset's.
        (Some(Err(unsure)), Some(format))
            if format.preset().is_some_and(|preset| !preset.is_titled(first_line(head))) =>
        {
            Err(unsure.or_preset(format.name).at(path))
        }
        (_, found) => found.ok_or_else(unknown),
    }
}

fn first_line(head: &[u8]) -> &[u8] {
    head.split(|&b| b == b'\n').map(<[u8]>::trim_ascii).find(|l| !l.is_empty()).unwrap_or(head)
}

/// The formats, for messages.
fn names() -> String {
    let names: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
    format!("one of the formats {}", names.join(", "))
}

/// The files of a folder that are traces by their looks, in order of their names.
pub(crate) fn traces_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|e| e.path()).filter(|path| path.is_file()).collect();
    files.sort();
    files.truncate(LOOKED_AT_MAX);
    let sniffs = |head: &[u8]| FORMATS.iter().any(|format| format.sniff(head));
    files.retain(|path| unpack(path).is_ok_and(|unpacked| sniffs(&unpacked.head)));
    files
}

/// A blktrace set named by its folder or its base name.
fn open_set(path: &Path) -> Result<Box<dyn Reader>, TraceError> {
    let set = Box::new(Blktrace::open(path)?);
    Ok(Box::new(Checked::new(set, path, Doubt::of("blktrace"))))
}

fn malformed(path: &Path, got: String, expected: String) -> TraceError {
    let hint = String::new();
    TraceError::Malformed { path: path.to_path_buf(), place: Place::File, got, expected, hint }
}

#[cfg(test)]
mod field_tests;

#[cfg(test)]
mod tests {
    use forebay_ask::{Spelling, spelled};

    use super::*;

    fn message(content: &[u8], from: Option<&str>) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        fs::write(&path, content).unwrap();
        let Err(error) = open(&path, from) else { panic!("opened") };
        spelled(&error.to_string(), Spelling::Command)
    }

    #[test]
    fn each_kind_of_nonsense_has_its_message() {
        assert!(message(b"", None).contains("got an empty file"));
        let noise: Vec<u8> =
            (0..5000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let text = message(&noise, None);
        assert!(text.contains("begins \"") && text.contains("msr") && text.contains("--from"));
        let text = message(b"x", Some("foo"));
        assert!(
            text.contains("\"foo\"") && text.contains("parquet, hadoop-parquet, blktrace"),
            "{text}"
        );
        let Err(error) = open(Path::new("/nonexistent/x"), None) else { panic!("opened") };
        assert!(error.to_string().contains("/nonexistent/x: "), "{error}");
        let folder = tempfile::tempdir().unwrap();
        let Err(error) = open(folder.path(), None) else { panic!("opened") };
        assert!(error.to_string().contains("got a folder without files NAME"), "{error}");
        fs::write(folder.path().join("a.csv"), "0,1,512,R,0.1\n").unwrap();
        fs::write(folder.path().join("notes"), "nothing of the kind").unwrap();
        let Err(error) = open(folder.path(), None) else { panic!("opened") };
        let text = error.to_string();
        assert!(text.contains("traces in it: ") && text.ends_with("a.csv"), "{text}");
    }

    #[test]
    fn from_overrides_the_content() {
        let text = message(b"0,1,512,R,0.1\n", Some("csv"));
        assert!(text.contains("at_ns"), "{text}");
    }
}
