//! Helps with text in an unknown format: guesses the columns from the first rows, so that the user
//! can correct them.
//!
//! [`Declaration::fill`] derives columns from their values, and leaves the rest open.

use forebay_ask::named;
use forebay_core::Op;

use crate::columns::cursor::{Cursor, Separator};
use crate::columns::date::day_of;
use crate::columns::plan::Plan;
use crate::rows::shorten;
use crate::suggest::{Declaration, ROWS, Table, fields, is_number};
use crate::{Columns, Record};
use forebay_words::quantities;

/// The first bytes of archives and of the files of recorders, a description, and how to convert
/// them to text.
const CONTAINERS: [(&[u8], &str, &str); 7] = [
    (
        b"PK\x03\x04",
        "a zip archive or a spreadsheet",
        "unpack it first (unzip -p FILE > trace.csv), or save the sheet as CSV",
    ),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it first (7z x FILE)"),
    (b"Rar!\x1a\x07", "a rar archive", "unpack it first (unrar x FILE)"),
    (b"\x17\x08\x44tracing", "a recording of trace-cmd", "print it with trace-cmd report"),
    (b"PERFILE2", "a recording of perf", "print it with perf script"),
    (b"PML_", "a recording of Process Monitor", "save it as CSV"),
    (b"\n\r\r\n", "a recording of sysdig", "print it with sysdig -r"),
];

/// The number of rows to show.
const SHOWN: usize = 3;
/// The number of seconds since 1970 (the year 1990) from which a time is shown as a date.
const DATES_FROM_S: f64 = 631_152_000.0;
/// The minimum number of columns in a table.
const COLUMNS_LEAST: usize = 4;
/// The separators to try, and how a declaration specifies them.
const SEPARATORS: [(Separator, &str); 5] = [
    (Separator::Byte(b'\t'), "tab"),
    (Separator::Byte(b';'), "semicolon"),
    (Separator::Byte(b'|'), "bar"),
    (Separator::Byte(b','), "comma"),
    (Separator::Blanks, "blank"),
];
/// The beginnings of other common files that are not traces, and what to do about them.
const OTHERS: [(&str, &str, &str); 5] = [
    (
        "<Results>",
        "the results of diskspd, which contain no requests, only totals",
        "record the requests meanwhile, with Windows Performance Recorder, and export its disk table",
    ),
    (
        "Histogram: ",
        "histograms of vscsiStats -p, which contain no requests",
        "record a command trace with vscsiStats -t",
    ),
    (
        "\"fio version\"",
        "the results of fio, which contain no requests, only totals",
        "record a log with write_iolog, or with write_lat_log and log_offset=1",
    ),
    (
        "block_rq_",
        "tracepoints whose times are not in seconds",
        "record them with trace_clock local or mono and without latency-format, or print them with perf script",
    ),
    (
        "%util",
        "the output of iostat, which contains no requests, only rates",
        "forebay plan volume --from-counters reads counters; record requests with forebay capture or blktrace",
    ),
];

/// If the content is text that must be converted before it can be read, returns what it is and how
/// to do that.
pub(super) fn of_markup(head: &[u8]) -> Option<(&'static str, &'static str)> {
    let begin = head.get(..4096).unwrap_or(head);
    if memchr::memmem::find(begin, b"\x1b[").is_some() {
        return Some((
            "text with terminal colors (escape sequences)",
            "record without colors, or remove them: sed 's/\\x1b\\[[0-9;]*[A-Za-z]//g' FILE",
        ));
    }
    let mut signs = begin.iter().filter(|byte| !byte.is_ascii_whitespace());
    match (signs.next(), signs.next()) {
        (Some(b'{'), Some(b'"')) => Some((
            "JSON",
            "convert it to CSV and add a header, such as time_s,op,offset,len: \
             jq -r '[.time_s, .op, .offset, .len] | @csv' FILE",
        )),
        (Some(b'['), Some(b'{')) => Some((
            "JSON",
            "convert it to CSV and add a header, such as time_s,op,offset,len: \
             jq -r '.[] | [.time_s, .op, .offset, .len] | @csv' FILE",
        )),
        _ => None,
    }
}

/// If the content has no requests, or is a container of them, returns what it is and what to do.
pub(super) fn of_totals(head: &[u8]) -> Option<(&'static str, &'static str)> {
    if let Some((_, what, how)) = CONTAINERS.iter().find(|(sign, ..)| head.starts_with(sign)) {
        return Some((what, how));
    }
    let begin = head.get(..4096).unwrap_or(head);
    if is_wpa_summary(begin) {
        return Some((
            "a summary table of Windows Performance Analyzer, which contains no times of requests, only totals",
            "show the columns Init Time, Complete Time, IO Type, Min Offset and Size of its disk table, remove all \
             columns before the gold bar, and export it again",
        ));
    }
    let has = |word: &str| memchr::memmem::find(begin, word.as_bytes()).is_some();
    OTHERS.into_iter().find(|(word, ..)| has(word)).map(|(_, what, instead)| (what, instead))
}

/// Returns whether text is a summary table of Windows Performance Analyzer, which contains sizes
/// and durations of requests, but not their times.
fn is_wpa_summary(begin: &[u8]) -> bool {
    let header =
        String::from_utf8_lossy(begin.split(|&byte| byte == b'\n').next().unwrap_or(begin))
            .to_lowercase();
    let has = |name: &str| header.contains(name);
    let took = ["disk service time", "io time", "time in service"].into_iter().any(has);
    took && has("size")
        && header.contains(['(', ',', ';', '\t'])
        && !has("init time")
        && !has("complete time")
}

/// Returns a hint with the guessed columns of a text, and what its first rows mean with them.
pub(super) fn hint(head: &[u8]) -> Option<String> {
    let Guess { declaration, rows, skip, separator } = Guess::of(head)?;
    let text = declaration.text(skip, Some(&format!("sep={separator}")));
    let columns = named(&format!("columns={text}"));
    let advice = declaration.advice();
    if let Some(rows) = text.parse().ok().and_then(|columns| understood(head, &columns)) {
        return Some(format!(
            "if {rows}, use {columns}{advice}; otherwise correct the columns (_ skips one)"
        ));
    }
    let rows = rows
        .iter()
        .take(SHOWN)
        .map(|(number, row)| format!("line {number} has {}", declaration.shown(row)));
    let rows = rows.collect::<Vec<_>>().join("; ");
    Some(format!("if {rows}: use {columns}{advice}; otherwise correct the columns (_ skips one)"))
}

/// The beginnings of lines that bpftrace prints before those of a script.
const NOTES: [&[u8]; 3] = [b"Attaching ", b"Attached ", b"Tracing "];

/// Returns the lines that may be rows, with their numbers.
fn lines(head: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let whole = memchr::memrchr(b'\n', head).map_or(head, |end| &head[..end]);
    let lines = (1..).zip(whole.split(|&byte| byte == b'\n'));
    let says = |line: &[u8]| {
        let is_note = line.starts_with(b"#") || NOTES.iter().any(|note| line.starts_with(note));
        !line.trim_ascii().is_empty() && !is_note
    };
    lines.filter(move |(_, line)| says(line)).take(ROWS)
}

/// A row with the number of its line.
type NumberedRow = (u64, Vec<String>);

/// The guessed columns of a text.
struct Guess {
    declaration: Declaration,
    rows: Vec<NumberedRow>,
    /// The number of lines before the first row.
    skip: u64,
    /// The separator, as a declaration specifies it.
    separator: &'static str,
}

impl Guess {
    /// Guesses the columns of a text. Returns `None` if no column can contain offsets.
    fn of(head: &[u8]) -> Option<Guess> {
        let (separator, mut rows) = table(head)?;
        let count = rows.last()?.1.len();
        let has_number = |(_, row): &NumberedRow| row.iter().any(|field| is_number(field));
        let titles = rows.iter().take_while(|row| !has_number(row)).count();
        let titles: Vec<NumberedRow> = rows.drain(..titles).collect();
        let skip = titles.last().map_or(0, |(number, _)| *number);
        rows.retain(|(_, row)| row.len() == count);
        let names = titles.last().map(|(_, row)| row).filter(|names| names.len() == count);
        let name = |column: usize| match names.and_then(|names| names.get(column)) {
            Some(name) => shorten(name.as_bytes()),
            None => format!("column {}", column + 1),
        };
        let mut declaration = Declaration::new((0..count).map(name).collect());
        let values = rows.iter().map(|(_, row)| row.clone());
        declaration.fill(&Table::new(values.collect()));
        declaration.has("offset").then_some(Guess { declaration, rows, skip, separator })
    }
}

/// Splits the first lines by the separator that divides all of them into the same number of fields.
fn table(head: &[u8]) -> Option<(&'static str, Vec<NumberedRow>)> {
    SEPARATORS.into_iter().find_map(|(separator, word)| {
        // Skips lines that a line break within quotes makes incomplete.
        let rows =
            lines(head).filter_map(|(number, line)| Some((number, fields(line, separator)?)));
        let rows: Vec<NumberedRow> = rows.collect();
        let columns = rows.last()?.1.len();
        let even = rows.iter().filter(|(_, row)| row.len() == columns).count();
        (columns >= COLUMNS_LEAST && even * 10 >= rows.len() * 9).then_some((word, rows))
    })
}

/// Describes the first rows as read with these columns. Returns `None` if a row cannot be read.
fn understood(head: &[u8], columns: &Columns) -> Option<String> {
    let separator = columns.separator?;
    let mut plan = Plan::new(columns);
    let mut dictionary = plan.dictionary();
    let rows = lines(head).filter(|(number, _)| *number > columns.skip_lines).take(SHOWN);
    let told = rows.map(|(number, line)| {
        let text = [line, b"\n"].concat();
        let row = plan.row(&mut Cursor::new(&text, separator), &mut dictionary);
        Some(format!("line {number} is {}", described(&row.ok()??)))
    });
    let told: Vec<String> = told.collect::<Option<_>>()?;
    (!told.is_empty()).then(|| told.join(", "))
}

fn described(record: &Record) -> String {
    let what = match record.op {
        Op::Read => "a read",
        Op::Write => "a write",
        Op::Trim => "a trim",
        _ => "a flush",
    };
    let len = quantities::bytes(f64::from(record.len));
    let at_s = record.at.0 as f64 / 1e9;
    let at = match at_s < DATES_FROM_S {
        true => format!("at {}", quantities::seconds(at_s)),
        false => format!("on {}", day_of(at_s)),
    };
    format!("{what} of {len} at byte {} {at}", record.offset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_ask::{Spelling, spelled};

    fn told(text: &str) -> String {
        hint(text.as_bytes()).map_or(String::new(), |hint| spelled(&hint, Spelling::Command))
    }

    #[test]
    fn the_first_rows_are_shown_as_they_would_be_read() {
        let text = "host a b c d\nx1 1716900000.5 R 8192 4096\nx1 1716900000.75 W 65536 512\nx2 1716900001.5 R 0 8192\n";
        assert_eq!(
            told(text),
            "if line 2 is a read of 4 KiB at byte 8192 on May 28, 2024, line 3 is a write of 512 B at byte 65536 on \
             May 28, 2024, line 4 is a read of 8 KiB at byte 0 on May 28, 2024, use --columns \
             _,at:s,op,offset,len,sep=blank,skip=1; not read: \"host\" (to read a column, write volume, \
             thread, process, name, flags, latency:UNIT or end:UNIT in its place); otherwise correct the columns (_ skips one)"
        );
    }

    #[test]
    fn units_that_values_do_not_reveal_stay_open() {
        for (text, columns) in [
            (
                "1716900000000;7;128;1\n1716900000005;900;8;0\n",
                "at:ms,offset:UNIT,len:UNIT,op:WORDS,sep=semicolon, with the words of column 4",
            ),
            (
                "4096|0|read|1716900000.25\n8192|16384|write|1716900001\n",
                "len,offset,op,at:s,sep=bar;",
            ),
            (
                "4096|8192|read|1716900000.25\n65536|4096|write|1716900001\n",
                "offset:UNIT,len:UNIT,op,at:s,sep=bar, with",
            ),
            (
                "1716900000,f,0,4096\n1716900001,f,8192,8192\n",
                "at:s,op:WORDS,offset,len,sep=comma, with",
            ),
            (
                "a,7,8,x\nb,99,16,x\n",
                "_,offset:UNIT,len:UNIT,op=OP,every=TIME,sep=comma, with read or write for OP",
            ),
            (
                "a;1,125;R;8192,000;4096,000\nb;2,250;R;4096,000;512,000\n",
                "_,at:UNIT,op,offset:UNIT,len:UNIT,decimal=comma,sep=semicolon, with",
            ),
            (
                "0,5;R;0;4096\n1,25;W;0;4096\n",
                "at:UNIT,op,offset:UNIT,len,decimal=comma,sep=semicolon, with",
            ),
            (
                "5 R 0x2000000 0x1000\n9 W 0x4000000 0x2000\n",
                "at:UNIT,op,offset,len,sep=blank, with",
            ),
        ] {
            assert!(told(text).contains(&format!("--columns {columns}")), "{text}: {}", told(text));
        }
        for nothing in ["", "one line\n", "a b c d\ne f g h\n", "1,2\n3,4\n"] {
            assert_eq!(told(nothing), "", "{nothing}");
        }
    }

    #[test]
    fn totals_are_no_traces() {
        assert!(
            of_totals(b"<Results>\n<System>").is_some_and(|(what, _)| what.contains("diskspd"))
        );
        assert_eq!(of_totals(b"1,2,3"), None);
    }
}
