//! Fuzz targets for trace readers: no row may be lost or invented.

use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};

use forebay_trace::formats::blktrace::Blktrace;
use forebay_trace::formats::disksim_valid::Rows;
use forebay_trace::formats::{FORMATS, Format};
use forebay_trace::open::{COLUMNS, open};
use forebay_trace::{Columns, Reader};

use crate::drain::{INPUT_BYTES_MAX, comments, drain, in_file, lines, read_at, reader};

/// Returns the number of rows that were read or counted as skipped, or None after an error.
fn kept(format: &str, data: &[u8]) -> Option<u64> {
    drain(reader(format, data))
        .map(|whole| whole.records + whole.notes.rows_skipped - whole.notes.rows_added)
}

/// In a text, only some of the lines are requests.
pub(crate) fn text(format: &str, data: &[u8]) {
    if let Some(kept) = kept(format, data) {
        assert!(kept <= lines(data), "{kept} requests of {} lines", lines(data));
    }
}

/// In this text, each line except a header must be a request or be counted. A truncated last line
/// may be left out with a note.
pub(crate) fn every_row(format: &str, data: &[u8]) {
    let header = u64::from(format != "fio-latency");
    let truncated = u64::from(!data.ends_with(b"\n"));
    if let Some(kept) = kept(format, data) {
        let (lines, others) = (lines(data), header + truncated + comments(data) + joined(data));
        assert!(kept <= lines && lines <= kept + others, "{kept} of {lines} lines");
    }
}

/// Returns the number of lines that may continue a row, because a quoted field may contain line
/// breaks.
fn joined(data: &[u8]) -> u64 {
    if data.contains(&b'"') { lines(data) } else { 0 }
}

/// Covers every text format that is a declaration of columns. The first line names the format; if
/// there is no such format, the length of that line selects one.
pub(crate) fn presets(data: &[u8]) {
    let Some(end) = data.iter().position(|&byte| byte == b'\n') else { return };
    let (line, text) = (&data[..end], &data[end + 1..]);
    let declared: Vec<&Format> =
        FORMATS.iter().filter(|format| format.preset().is_some()).collect();
    let name = selected(&declared, line).name;
    if let Some(kept) = kept(name, text) {
        let (lines, others) = (lines(text), 1 + comments(text) + joined(text));
        assert!(kept <= lines && lines <= kept + others, "{name}: {kept} of {lines} lines");
    }
}

/// Covers every text format with its own reader. The first line selects the format as in
/// [`presets`]. Only objects of a cache may become several requests each.
pub(crate) fn texts(data: &[u8]) {
    let Some(end) = data.iter().position(|&byte| byte == b'\n') else { return };
    let (line, content) = (&data[..end], &data[end + 1..]);
    let own = |format: &&Format| format.is_text() && format.preset().is_none();
    let name = selected(&FORMATS.iter().filter(own).collect::<Vec<_>>(), line).name;
    let ends = content.iter().filter(|&&byte| byte == b'\n' || byte == b'\r').count() as u64;
    let most = if ["object-csv", "twitter"].contains(&name) { 4 } else { 1 };
    if let Some(kept) = kept(name, content) {
        assert!(kept <= most * (ends + 1), "{name}: {kept} requests of {ends} line ends");
    }
}

/// Returns the format with the name `line`; if there is none, the length of the line selects one.
fn selected<'a>(formats: &[&'a Format], line: &[u8]) -> &'a Format {
    let named = formats.iter().find(|format| format.name.as_bytes() == line);
    named.unwrap_or(&formats[line.len() % formats.len()])
}

/// CSV with a header, which is one row. Lines may end with a line feed or a carriage return.
pub(crate) fn csv(data: &[u8]) {
    if let Some(kept) = kept("csv", data) {
        let ends = data.iter().filter(|&&byte| byte == b'\n' || byte == b'\r').count() as u64;
        assert!(kept <= ends, "{kept} requests of {ends} line ends");
    }
}

/// CSV of an object cache. An object of up to 4 GiB becomes up to four requests.
pub(crate) fn object_csv(data: &[u8]) {
    if let Some(kept) = kept("object-csv", data) {
        let most = 4 * lines(data);
        assert!(kept <= most, "{kept} requests of {most} at most");
    }
}

/// libCacheSim's records of 24 bytes. Objects become requests as in `object_csv`.
pub(crate) fn oracle_general(data: &[u8]) {
    if let Some(kept) = kept("oracle-general", data) {
        let rows = data.len() as u64 / 24;
        assert!((rows..=4 * rows).contains(&kept), "{kept} of {rows} records");
    }
}

/// HP SRT, whose records have at least 56 bytes.
pub(crate) fn hp_srt(data: &[u8]) {
    if let Some(kept) = kept("hp-srt", data) {
        assert!(kept <= data.len() as u64 / 56, "{kept} requests from nowhere");
    }
}

/// VMware's binary format, in both versions.
pub(crate) fn vscsi(data: &[u8]) {
    if let Some(kept) = kept("vscsi", data) {
        let lengths = [32, 40].map(|bytes| data.len() as u64 / bytes);
        assert!(lengths.contains(&kept), "{kept} of {lengths:?} records");
    }
}

/// DiskSim's validation format. Reading it as a trace and as measurements must give the same rows.
pub(crate) fn disksim_valid(data: &[u8]) {
    let whole = drain(reader("disksim-valid", data));
    let rows = Rows::new(Path::new("input"), Box::new(Cursor::new(data.to_vec())));
    let rows = rows.collect::<Result<Vec<_>, _>>();
    assert_eq!(whole.is_some(), rows.is_ok());
    if let (Some(whole), Ok(rows)) = (whole, rows) {
        assert_eq!((whole.records, rows.len() as u64), (lines(data), lines(data)));
    }
}

/// One or two files of a blktrace set. The first byte states how many 256ths of the rest belong to
/// CPU 0; zero means that there is no second file.
pub(crate) fn blktrace(data: &[u8]) {
    /// The length of a record without its payload, in bytes.
    const RECORD_BYTES: u64 = 48;
    let Some((&share, rest)) = data.split_first() else { return };
    let parts = match usize::from(share) {
        0 => vec![rest],
        share => {
            let (first, second) = rest.split_at(rest.len() * share / 256);
            vec![first, second]
        }
    };
    let files = parts.into_iter().enumerate().map(|(cpu, bytes)| {
        let input: Box<dyn Read + Send> = Box::new(Cursor::new(bytes.to_vec()));
        (PathBuf::from(format!("sdb.blktrace.{cpu}")), input)
    });
    let opened = Blktrace::from_readers(files.collect());
    if let Some(whole) = drain(opened.map(|reader| Box::new(reader) as Box<dyn Reader>)) {
        let kept = whole.records + whole.notes.rows_skipped;
        assert!(kept <= rest.len() as u64 / RECORD_BYTES, "{kept} requests from nowhere");
    }
}

/// A declaration of columns, a line feed, and a text with these columns.
pub(crate) fn columns(data: &[u8]) {
    let Some(end) = data.iter().position(|&byte| byte == b'\n') else { return };
    let Ok(spec) = std::str::from_utf8(&data[..end]) else { return };
    if data.len() > INPUT_BYTES_MAX {
        return;
    }
    match spec.parse::<Columns>() {
        Ok(columns) => {
            assert_eq!(columns.to_string(), spec);
            in_file(&data[end + 1..], |path| {
                drain(open(path, Some(&format!("{COLUMNS}{spec}"))));
            });
        }
        Err(bad) => assert!(!bad.to_string().trim().is_empty()),
    }
}

/// Parquet, in the canonical form and in the form of captures.
pub(crate) fn parquet(data: &[u8]) {
    in_file(data, |path| {
        drain(read_at("parquet", path.to_path_buf(), data));
        drain(read_at("hadoop-parquet", path.to_path_buf(), data));
    });
}

/// Any file, which is unpacked, recognized and read.
pub(crate) fn open_any(data: &[u8]) {
    if data.len() <= INPUT_BYTES_MAX {
        in_file(data, |path| {
            drain(open(path, None));
        });
    }
}
