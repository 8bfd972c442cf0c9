//! Opens a trace in any format: finds the file, decompresses it, and detects the format.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::bad_rows::BadRowsMax;
use crate::formats::blktrace::{Blktrace, set};
use crate::formats::presets::open_columns;
use crate::formats::{FORMATS, Format, Input, Layer, csv, fio, snoop};
use crate::lines::BYTE_ORDER_MARK;
use crate::one_volume::OneVolume;
use crate::rows::shorten;
use crate::units::{Checked, Doubt};
use crate::unpack::{Consumed, Unpacked, unpack, unpack_counting};
use crate::{BadColumns, Columns, Place, Reader, TraceError, partition};

/// The maximum number of files in a folder that are examined to find traces.
const LOOKED_AT_MAX: usize = 50;

/// Opens the trace at `path`: a file, which may be compressed; a blktrace set, given by its base
/// name, its folder, a tar of it, or one of its files; or the folder of a finished [`partition`].
///
/// The format is detected from the content, unless `from` names it or declares the columns of a
/// text: [`COLUMNS`] followed by what [`Columns`] parses. [`SPLIT_RUNS`], [`BAD_ROWS`], one of
/// [`LAYERS`] and [`VOLUME`] may precede either, or be used alone. A trace whose units cannot be
/// right is rejected, see [`crate::units`]; if the units were declared, there is only a warning.
pub fn open(path: &Path, from: Option<&str>) -> Result<Box<dyn Reader>, TraceError> {
    open_counting(path, from, Consumed::default())
}

/// Opens a trace like [`open`], and adds the bytes read to `consumed`. Of blktrace sets, only the
/// part read for detection is counted. Parquet is counted by its rows.
pub fn open_counting(
    path: &Path,
    from: Option<&str>,
    consumed: Consumed,
) -> Result<Box<dyn Reader>, TraceError> {
    if from == Some("") {
        // Only settings that precede a format may be used alone.
        FormatChoice::new(path, "")?;
    }
    let (reading, from) = Reading::parse(path, from.unwrap_or_default())?;
    let (reader, doubt) = open_as(path, from, &reading, consumed)?;
    let format = reader.notes().format;
    let reader = match reading.volume {
        Some(volume) => Box::new(OneVolume::new(reader, path, volume)),
        None => reader,
    };
    let mut checked = Checked::new(reader, path, doubt);
    if reading.layer.is_some() && !LAYERED.contains(&format) {
        checked.warn(format!("format {format} does not show layers, so the layer has no effect"));
    }
    Ok(Box::new(checked))
}

/// Opens the trace with all its volumes. `from` is the format, or empty to detect it.
fn open_as(
    path: &Path,
    from: &str,
    reading: &Reading,
    consumed: Consumed,
) -> Result<(Box<dyn Reader>, Doubt), TraceError> {
    let from = Some(from).filter(|from| !from.is_empty());
    let from = from.map(|name| FormatChoice::new(path, name)).transpose()?;
    match fs::metadata(path) {
        Ok(found) if found.is_dir() && partition::is_finished(path) => {
            return Ok((partition::merge::read(path)?, Doubt::of("parquet")));
        }
        Ok(found) if found.is_dir() => return open_set(path, reading),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // The base name of a set is not the name of a file.
            return open_set(path, reading).map_err(|found| match found {
                TraceError::Io { .. } => TraceError::Io { path: path.to_path_buf(), source: error },
                malformed => malformed,
            });
        }
        Err(source) => return Err(TraceError::Io { path: path.to_path_buf(), source }),
        Ok(_) => {}
    }
    let Unpacked { packing, head, content } = unpack_counting(path, Consumed::clone(&consumed))?;
    if head.is_empty() && is_pipe(path) {
        return Err(from_pipe(
            path,
            "an empty or already consumed pipe (a pipe can only be read \
            once)",
            "a trace",
        ));
    }
    if head.is_empty() {
        return Err(malformed(path, "an empty file".into(), "a trace".into()));
    }
    let parameter = match &from {
        Some(FormatChoice::Format(_, parameter)) => parameter.clone(),
        _ => None,
    };
    let input = Input {
        path: path.to_path_buf(),
        packing,
        content,
        consumed,
        split_runs: reading.split_runs,
        bad_rows_max: reading.bad_rows_max,
        layer: reading.layer(),
        parameter,
    };
    Ok(match from {
        Some(FormatChoice::Columns(columns)) => {
            (open_columns(&columns, input)?, Doubt::declared(&columns))
        }
        // If the user specifies Parquet, the units are known, or cannot be stated in another way.
        Some(FormatChoice::Format(format, _)) if format.name == "parquet" => {
            (format.open(input)?, Doubt::of(format.name))
        }
        Some(FormatChoice::Format(format, _)) => (format.open(input)?, doubt(format, &head, path)),
        None => {
            let format = recognise(path, &head)?;
            (format.open(input)?, doubt(format, &head, path))
        }
    })
}

/// Returns the information about the units of content that begins with `head`: a header or the
/// column names of a table may declare them.
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

/// Returns the files that [`open`] reads for the trace at `path`. If there are none, returns
/// `path`, so that opening it reports the reason.
pub fn files(path: &Path) -> Vec<PathBuf> {
    let of_one = || match path.is_file() && set::split_name(path).is_none() {
        true => vec![path.to_path_buf()],
        false => set::paths(path).unwrap_or_else(|_| vec![path.to_path_buf()]),
    };
    partition::files(path).unwrap_or_else(of_one)
}

/// Returns whether `path` can be read only once, because it is a pipe or a device.
pub fn is_pipe(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// Creates the error that a file is expected instead of a pipe.
pub(crate) fn from_pipe(path: &Path, got: &str, expected: &str) -> TraceError {
    let (path, place) = (path.to_path_buf(), Place::File);
    let hint = "write it to a file and pass the file".into();
    TraceError::Malformed { path, place, got: got.into(), expected: expected.into(), hint }
}

/// Returns an error if `path` is a pipe, because the trace is read more than once.
///
/// # Errors
/// Fails if `path` is a pipe.
pub fn expect_file(path: &Path) -> Result<(), TraceError> {
    match is_pipe(path) {
        true => Err(from_pipe(path, "a pipe", "a file, because the trace is read twice")),
        false => Ok(()),
    }
}

/// The prefix of a declaration of columns, which replaces the name of a format.
pub const COLUMNS: &str = "columns:";

/// The prefix that makes a step back of the clock begin a new run, which is placed after the
/// previous one. If nothing follows the prefix, the format is detected.
pub const SPLIT_RUNS: &str = "split-runs:";

/// The prefixes that determine at which layer requests count if the trace shows them at several.
pub const LAYERS: [(&str, Layer); 2] =
    [("layer-top:", Layer::Top), ("layer-bottom:", Layer::Bottom)];

/// The formats that show remaps from layer to layer.
const LAYERED: [&str; 3] = ["blktrace", "blkparse", "ftrace"];

/// The prefix that selects the only volume to read. It is followed by the length of the volume's
/// name in bytes, a colon, and the name.
pub const VOLUME: &str = "volume:";

/// The prefix that sets the maximum share of unreadable rows: `bad-rows:0.05:`.
pub const BAD_ROWS: &str = "bad-rows:";

/// How to read a trace, apart from its format.
#[derive(Default)]
struct Reading {
    split_runs: bool,
    bad_rows_max: BadRowsMax,
    layer: Option<Layer>,
    volume: Option<String>,
}

impl Reading {
    /// Parses the prefixes of a format. Also returns the format, which may be empty.
    ///
    /// # Errors
    /// Fails if the share of unreadable rows is invalid.
    fn parse<'a>(path: &Path, from: &'a str) -> Result<(Reading, &'a str), TraceError> {
        let (mut reading, mut rest) = (Reading::default(), from);
        loop {
            if let Some(after) = rest.strip_prefix(BAD_ROWS) {
                let (share, after) = after.split_once(':').unwrap_or((after, ""));
                reading.bad_rows_max = share.parse().map_err(|_| {
                    let got = format!("{BAD_ROWS}{share}");
                    malformed(path, got, "a share of 0 to 1, such as bad-rows:1%:".into())
                })?;
                rest = after;
                continue;
            }
            let layer = LAYERS
                .iter()
                .find_map(|(prefix, layer)| Some((*layer, rest.strip_prefix(prefix)?)));
            rest = match (rest.strip_prefix(SPLIT_RUNS), layer, Self::named_volume(rest)) {
                (Some(after), ..) => {
                    reading.split_runs = true;
                    after
                }
                (_, Some((layer, after)), _) => {
                    reading.layer = Some(layer);
                    after
                }
                (.., Some((volume, after))) => {
                    reading.volume = Some(volume.to_owned());
                    after
                }
                _ => return Ok((reading, rest)),
            };
        }
    }

    fn named_volume(text: &str) -> Option<(&str, &str)> {
        let (length, rest) = text.strip_prefix(VOLUME)?.split_once(':')?;
        rest.split_at_checked(length.parse().ok()?)
    }

    /// Returns the layer at which requests count. Those of a selected volume always count.
    fn layer(&self) -> Layer {
        let default = if self.volume.is_some() { Layer::Every } else { Layer::default() };
        self.layer.unwrap_or(default)
    }
}

/// How the user specified the format.
enum FormatChoice {
    /// By its name, possibly with a parameter.
    Format(&'static Format, Option<String>),
    Columns(Columns),
}

impl FormatChoice {
    fn new(path: &Path, word: &str) -> Result<FormatChoice, TraceError> {
        let Some(text) = word.strip_prefix(COLUMNS) else {
            let (name, parameter) = match word.split_once(':') {
                Some((name, text)) if name == WITH_PARAMETER => (name, Some(text.to_owned())),
                _ => (word, None),
            };
            return named(path, name).map(|format| FormatChoice::Format(format, parameter));
        };
        text.parse().map(FormatChoice::Columns).map_err(|bad: BadColumns| {
            malformed(path, format!("{} in the columns {text:?}", bad.got), bad.expected)
        })
    }
}

/// The format whose name may be followed by a colon and a parameter, which is the format string.
const WITH_PARAMETER: &str = "blkparse";

/// Creates the error that there is no format with this name.
pub(crate) fn unknown_format(path: &Path, name: &str) -> TraceError {
    let got = format!("the format name {}", shorten(name.as_bytes()));
    malformed(path, got, expected(&nearest::by_name(name)))
}

/// Returns the format called `name`.
fn named(path: &Path, name: &str) -> Result<&'static Format, TraceError> {
    Format::named(name).ok_or_else(|| unknown_format(path, name))
}

fn recognise(path: &Path, head: &[u8]) -> Result<&'static Format, TraceError> {
    let head = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head);
    let unknown = || unrecognized(path, head);
    let found = FORMATS.iter().find(|format| format.sniff(head));
    let what = guess::of_totals(head).or_else(|| guess::of_markup(head));
    if let (None, Some((what, instead))) = (found, what) {
        let (path, place) = (path.to_path_buf(), Place::File);
        let (expected, hint) = ("a trace".into(), instead.into());
        return Err(TraceError::Malformed { path, place, got: what.into(), expected, hint });
    }
    if let (None, Some(header)) = (found, snoop::placeless_header(head)) {
        return Err(TraceError::Malformed {
            path: path.to_path_buf(),
            place: Place::File,
            got: format!("the header {}, which has no sectors", shorten(header)),
            expected: "SECTOR and BYTES, as bcc's biosnoop prints them".into(),
            hint:
                "bpftrace's biosnoop.bt does not record the offsets of requests: use biosnoop of bcc or \
                   libbpf-tools, perf or blktrace"
                    .into(),
        });
    }
    match (csv::header::of(head), found) {
        (Some(Err(unsure)), None) => Err(unsure.at(path)),
        // The rows look like those of a preset, but the header is different, so the preset's units
        // may be wrong.
        (Some(Err(unsure)), Some(format))
            if format.preset().is_some_and(|preset| !preset.is_titled(first_line(head))) =>
        {
            Err(unsure.or_preset(format.name).at(path))
        }
        (_, found) => found.ok_or_else(unknown),
    }
}

/// Creates the error about content in an unknown format. If it is a table, suggests its columns.
fn unrecognized(path: &Path, head: &[u8]) -> TraceError {
    let (path, place) = (path.to_path_buf(), Place::File);
    if head.contains(&0) {
        return binary(path, head);
    }
    let hint = if head.contains(&b'\r') && !head.contains(&b'\n') {
        "its lines seem to end with carriage returns only: convert them with tr '\\r' '\\n'".into()
    } else if let Some(first_line) = fio::missing_first_line(head) {
        format!("it looks like a log of fio without its first line: add \"{first_line}\"")
    } else if let Some((format, column)) = surplus(head) {
        let from = forebay_ask::named(&format!("from={format}"));
        format!("{from} reads these rows and ignores the columns from column {column} on")
    } else if let Some(guessed) = guess::hint(head) {
        format!("if the format is known, specify it with {}; {guessed}", forebay_ask::named("from"))
    } else {
        format!(
            "if the format is known, specify it with {}; for any other text with one request per \
             line, use {}, with ns, us, ms or s for the first UNIT and bytes, sectors or kib for \
             the others",
            forebay_ask::named("from"),
            forebay_ask::named("columns=at:UNIT,op,offset:UNIT,len:UNIT,skip=1")
        )
    };
    let got = format!("content that begins {}", beginning(head));
    let expected = expected(&nearest::by_shape(head));
    TraceError::Malformed { path, place, got, expected, hint }
}

/// Returns the format that reads the rows of a text except for columns at their end, and the number
/// of the first of these columns.
fn surplus(head: &[u8]) -> Option<(&'static str, usize)> {
    let known = |format: &Format| Some((format.name, format.preset()?.columns_read(head)? + 1));
    FORMATS.iter().find_map(known)
}

/// Creates the error about a file that is neither text nor in any of the binary formats.
fn binary(path: PathBuf, head: &[u8]) -> TraceError {
    const SHOWN: usize = 4;
    let bytes: Vec<String> = head.iter().take(SHOWN).map(|byte| format!("{byte:02x}")).collect();
    let got = format!("a binary file of no known format (begins {})", bytes.join(" "));
    let hint = format!("if the format is known, specify it with {}", forebay_ask::named("from"));
    TraceError::Malformed { path, place: Place::File, got, expected: expected(&[]), hint }
}

/// Quotes the beginning of a text's first line.
fn beginning(head: &[u8]) -> String {
    const SHOWN: usize = 40;
    let line = shorten(first_line(head));
    // The quotes are two characters.
    match line.chars().count() > SHOWN + 2 {
        true => line.chars().take(SHOWN + 1).chain("…\"".chars()).collect(),
        false => line,
    }
}

fn first_line(head: &[u8]) -> &[u8] {
    head.split(|&b| b == b'\n').map(<[u8]>::trim_ascii).find(|l| !l.is_empty()).unwrap_or(head)
}

/// Lists the formats for a message, and names the most similar ones.
fn expected(nearest: &[&str]) -> String {
    let nearest = match nearest {
        [others @ .., last] => format!(" (the most similar are {} and {last})", others.join(", ")),
        [] => String::new(),
    };
    format!("one of the formats that `forebay formats` lists{nearest}")
}

/// Returns the files in a folder that look like traces, sorted by name.
pub(crate) fn traces_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|e| e.path()).filter(|path| path.is_file()).collect();
    files.sort();
    files.truncate(LOOKED_AT_MAX);
    let sniffs = |head: &[u8]| FORMATS.iter().any(|format| format.sniff(head));
    files.retain(|path| unpack(path).is_ok_and(|unpacked| sniffs(&unpacked.head)));
    files
}

/// Opens a blktrace set given by its folder or base name.
fn open_set(path: &Path, reading: &Reading) -> Result<(Box<dyn Reader>, Doubt), TraceError> {
    let set = Blktrace::open_leaving_out(reading.bad_rows_max, path)?;
    Ok((Box::new(set.at_layer(reading.layer())), Doubt::of("blktrace")))
}

fn malformed(path: &Path, got: String, expected: String) -> TraceError {
    let hint = String::new();
    TraceError::Malformed { path: path.to_path_buf(), place: Place::File, got, expected, hint }
}

mod guess;
mod nearest;

#[cfg(test)]
mod field_tests;
#[cfg(test)]
mod layer_tests;
#[cfg(test)]
mod odd_tests;
#[cfg(test)]
mod rest_tests;
#[cfg(test)]
mod unread_tests;
#[cfg(test)]
mod value_tests;

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
        assert!(text.contains("a binary file of no known format (begins "), "{text}");
        assert!(text.contains("--from") && !text.contains("--columns"), "{text}");
        assert!(text.contains("formats that `forebay formats` lists"), "{text}");
        let text = message(b"\x7fELF\x02\x01\x01\0", None);
        assert!(text.contains("(begins 7f 45 4c 46), expected one of"), "{text}");
        let text = message("lorem ipsum ".repeat(20).as_bytes(), None);
        assert!(text.contains("begins \"lorem ipsum lorem ipsum lorem ipsum lore…\","), "{text}");
        let text = message(b"TIME(ms)     DISK    COMM             PID    LAT(ms)\n", None);
        assert!(text.contains("has no sectors") && text.contains("biosnoop.bt"), "{text}");
        let text = message(b"x", Some("blk-parse"));
        assert!(
            text.contains("\"blk-parse\"") && text.contains("similar are blkparse, "),
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
