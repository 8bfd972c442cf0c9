use super::*;
use crate::{Dictionary, Notes, Record};
use forebay_ask::{Spelling, spelled};
use std::io::Cursor;

/// Creates an input with the content `text`.
pub(crate) fn input(text: &[u8]) -> Input {
    Input::new("trace".into(), Packing::Plain, Box::new(Cursor::new(text.to_vec())))
}

/// Makes `open` accept inputs in which a few rows are unreadable.
pub(crate) fn leniently<R>(open: impl FnOnce(Input) -> R) -> impl FnOnce(Input) -> R {
    |input| open(Input { bad_rows_max: BadRowsMax::default(), ..input })
}

/// Reads a text to its end.
pub(crate) fn read(
    open: impl FnOnce(Input) -> Result<Box<dyn Reader>, TraceError>,
    text: &[u8],
) -> (Vec<Record>, Dictionary, Notes) {
    drain(open(input(text)).unwrap()).unwrap()
}

/// Returns the error message with which reading a text ends.
pub(crate) fn message(
    open: impl FnOnce(Input) -> Result<Box<dyn Reader>, TraceError>,
    text: &[u8],
) -> String {
    let error = open(input(text)).and_then(drain).unwrap_err();
    spelled(&error.to_string(), Spelling::Command)
}

/// Reads a trace to its end.
pub(crate) fn drain(
    mut reader: Box<dyn Reader>,
) -> Result<(Vec<Record>, Dictionary, Notes), TraceError> {
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    loop {
        reader.read(&mut batch)?;
        if batch.is_empty() {
            return Ok((all, reader.dictionary().clone(), reader.notes().clone()));
        }
        all.extend_from_slice(&batch);
    }
}

/// Opens the example of a format as a file.
fn opened(format: &Format, from: Option<&str>) -> Result<Box<dyn Reader>, TraceError> {
    open_text(format.example, from)
}

fn open_text(text: &str, from: Option<&str>) -> Result<Box<dyn Reader>, TraceError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace_lat.1.log");
    std::fs::write(&path, text).unwrap();
    crate::open::open(&path, from)
}

#[test]
fn examples_are_read_as_their_formats() {
    for format in FORMATS {
        assert!(!format.example.is_empty(), "{}", format.name);
        if !format.is_text() {
            continue;
        }
        let (records, _, notes) = drain(opened(format, Some(format.name)).unwrap()).unwrap();
        assert!(!records.is_empty(), "{}", format.name);
        assert_eq!((notes.rows_bad, notes.rows_skipped), (0, 0), "{}: {notes:?}", format.name);
        let is_explained =
            ["object-csv", "twitter"].contains(&format.name) || !notes.columns.is_empty();
        assert!(is_explained || format.example.starts_with("at_ns"), "{}", format.name);
        // Detect the format from its content, unless only its name distinguishes it.
        let found = FORMATS.iter().find(|one| one.sniff(format.example.as_bytes()));
        match &format.reads {
            Reads::Columns(preset) if preset.recognition == presets::Recognition::Named => {}
            _ => assert_eq!(found.map(|one| one.name), Some(format.name)),
        }
    }
}

#[test]
fn fields_of_every_format_are_explained() {
    for format in FORMATS {
        let is_explained = !format.fields.is_empty() || format.preset().is_some();
        // Twitter's traces are read as object-csv.
        assert!(is_explained || format.name == "twitter", "{}", format.name);
        assert!(format.is_text() || !format.sign.is_empty(), "{}", format.name);
    }
}

#[test]
fn an_odd_line_before_the_first_event_is_accepted() {
    for odd in [
        "[ perf record: Woken up 1 times to write data ]",
        "[block:foo] function bar not defined",
        "nohup: ignoring input",
    ] {
        for format in FORMATS.iter().filter(|format| format.is_text()) {
            let by_name = matches!(&format.reads, Reads::Columns(p) if !p.is_recognized_by_rows());
            if by_name || ["csv", "object-csv"].contains(&format.name) {
                continue;
            }
            let (expected, _, alone) = drain(opened(format, None).unwrap()).unwrap();
            let text = format!("{odd}\n{}", format.example);
            let read = open_text(&text, None).and_then(drain);
            let (records, _, notes) = read.unwrap_or_else(|e| panic!("{}: {e}", format.name));
            assert_eq!((notes.format, records), (alone.format, expected), "{odd}: {notes:?}");
        }
    }
}

/// Changes that editors and file transfers make to text.
#[test]
fn line_ends_marks_and_encodings_change_nothing() {
    for format in FORMATS.iter().filter(|format| format.is_text()) {
        let (expected, dictionary, notes) =
            drain(opened(format, Some(format.name)).unwrap()).unwrap();
        let text = format.example;
        let wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        for (how, bytes) in [
            ("line ends of Windows", text.replace('\n', "\r\n").into_bytes()),
            ("a byte-order mark", format!("\u{feff}{text}").into_bytes()),
            ("UTF-16", [b"\xff\xfe", &wide[..]].concat()),
            ("a blank line at the end", format!("{text}\n").into_bytes()),
            ("no line end", text.trim_end().as_bytes().to_vec()),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("trace_lat.1.log");
            std::fs::write(&path, bytes).unwrap();
            let read = crate::open::open(&path, Some(format.name)).and_then(drain);
            let (records, names, others) =
                read.unwrap_or_else(|e| panic!("{}, {how}: {e}", format.name));
            // The last row may be truncated.
            let least = if how == "no line end" { expected.len() - 1 } else { expected.len() };
            assert_eq!(records[..least], expected[..least], "{}, {how}", format.name);
            assert!(
                how == "no line end" || names == dictionary,
                "{}, {how}: {names:?}",
                format.name
            );
            assert_eq!(
                (others.rows_bad, others.rows_skipped),
                (0, notes.rows_skipped),
                "{}, {how}: {others:?}",
                format.name
            );
        }
    }
}

#[test]
fn names_are_distinct() {
    for (n, format) in FORMATS.iter().enumerate() {
        assert!(FORMATS[..n].iter().all(|f| f.name != format.name), "{}", format.name);
    }
}
