//! Tests the columns that messages suggest. Used unchanged, they either read the text correctly or
//! are rejected. The message lists the columns that they do not use.

use std::fs;

use forebay_ask::{Spelling, spelled};
use forebay_core::Op;
use forebay_trace::Record;
use forebay_trace::open::{COLUMNS, open};
use proptest::prelude::*;

/// A placeholder in a suggestion.
const PLACEHOLDERS: [&str; 5] = ["UNIT", "WORDS", "=OP", "=BYTES", "=TIME"];

/// Reads a text. Returns its requests or the error message.
fn read(text: &str, from: Option<&str>) -> Result<Vec<Record>, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    fs::write(&path, text).unwrap();
    let told = |error: forebay_trace::TraceError| spelled(&error.to_string(), Spelling::Command);
    let mut reader = open(&path, from).map_err(told)?;
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    loop {
        reader.read(&mut batch).map_err(told)?;
        if batch.is_empty() {
            return Ok(all);
        }
        all.extend_from_slice(&batch);
    }
}

/// Returns the columns that a message suggests.
fn suggested(message: &str) -> Option<&str> {
    let columns = message.split("--columns ").nth(1)?;
    columns.split([' ', ';']).next().map(|columns| columns.trim_end_matches(','))
}

/// Returns the compared properties of requests: time from the first one, operation, offset and
/// length.
fn compared(records: &[Record]) -> Vec<(u64, Op, u64, u32)> {
    let first = records.first().map_or(0, |record| record.at.0);
    records.iter().map(|r| (r.at.0 - first, r.op, r.offset, r.len)).collect()
}

/// A column of a generated table: its name and its declaration.
#[derive(Clone, Debug)]
struct Column {
    name: &'static str,
    word: &'static str,
}

/// Generates a column with one of these declarations, either with a known name or with one that
/// says nothing.
fn column(
    known: &'static [(&'static str, &'static str)],
    unknown: &'static str,
) -> impl Strategy<Value = Column> {
    (prop::sample::select(known), any::<bool>()).prop_map(move |((name, word), is_known)| Column {
        name: if is_known { name } else { unknown },
        word,
    })
}

fn columns() -> impl Strategy<Value = Vec<Column>> {
    (
        column(
            &[
                ("time_us", "at:us"),
                ("ts_ms", "at:ms"),
                ("time (s)", "at:s"),
                ("start", "at:date"),
                ("ns", "at:ns"),
            ],
            "aa",
        ),
        column(
            &[
                ("rw", "op"),
                ("is_write", "op:0/1"),
                ("is_read", "op:1/0"),
                ("type", "op"),
                ("is_write", "op:f/t"),
            ],
            "bb",
        ),
        column(&[("offset", "offset"), ("lba", "offset:sectors"), ("block", "offset:pages")], "cc"),
        column(
            &[("bytes", "len"), ("sectors", "len:sectors"), ("count", "len:kib"), ("size", "len")],
            "dd",
        ),
        column(&[("disk", "volume")], "ee"),
        column(&[("pid", "process")], "ff"),
        column(&[("comm", "name"), ("", "name")], "gg"),
    )
        .prop_map(|(a, b, c, d, e, f, g)| vec![a, b, c, d, e, f, g])
}

/// A generated request, in units of 4 KiB and milliseconds.
type Request = (u64, bool, u64, u64, u64);

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let request = (1u64..5_000, any::<bool>(), 0u64..1 << 20, 1u64..16, 0u64..3);
    prop::collection::vec(request, 1..60)
}

/// Formats the value of a request in a column.
fn cell(word: &str, at_ms: u64, (_, writes, place, blocks, who): Request, align: u64) -> String {
    let (offset, len) = (place * align, blocks * align);
    match word {
        "at:ns" => format!("{}", at_ms * 1_000_000),
        "at:us" => format!("{}", at_ms * 1_000),
        "at:ms" => format!("{at_ms}"),
        "at:s" => format!("{}.{:06}", at_ms / 1000, at_ms % 1000 * 1000),
        "at:date" => {
            let s = at_ms / 1000 % 60;
            format!("2026-01-31T12:{:02}:{s:02}.{:03}", at_ms / 60_000 % 60, at_ms % 1000)
        }
        "op" => ["R", "W"][usize::from(writes)].into(),
        "op:0/1" => u64::from(writes).to_string(),
        "op:1/0" => u64::from(!writes).to_string(),
        "op:f/t" => ["f", "t"][usize::from(writes)].into(),
        "offset" => offset.to_string(),
        "offset:sectors" => (offset / 512).to_string(),
        "offset:pages" => (offset / 4096).to_string(),
        "len" => len.to_string(),
        "len:sectors" => (len / 512).to_string(),
        "len:kib" => (len / 1024).to_string(),
        "volume" => format!("sd{who}"),
        "process" => (1000 + who * 37).to_string(),
        _ => format!("app {who}"),
    }
}

/// Formats a table whose rows are in order of time.
fn written(
    columns: &[&Column],
    rows: &[Request],
    epoch_ms: u64,
    align: u64,
    sep: &str,
    titled: bool,
) -> String {
    let mut text = String::new();
    if titled {
        let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
        text = names.join(sep) + "\n";
    }
    let mut at_ms = epoch_ms;
    for row in rows {
        at_ms += row.0 % 1000;
        let cells: Vec<String> = columns.iter().map(|c| cell(c.word, at_ms, *row, align)).collect();
        text += &(cells.join(sep) + "\n");
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(forebay_testing::longer(600) as u32))]

    #[test]
    fn a_suggestion_reads_the_requests_or_is_refused(
        drawn in columns(),
        order in Just((0..7usize).collect::<Vec<_>>()).prop_shuffle(),
        left_out in prop::collection::vec(0..7usize, 0..3),
        rows in requests(),
        epoch_ms in prop::sample::select(&[0u64, 1_767_225_600_000]),
        align in prop::sample::select(&[512u64, 4096, 8192]),
        sep in prop::sample::select(&[",", ";", "\t"]),
        titled in prop::bool::weighted(0.8),
    ) {
        // Times and offsets are never left out.
        let order: Vec<usize> = order.into_iter().filter(|n| *n == 2 || !left_out.contains(n)).collect();
        let columns: Vec<&Column> = order.iter().map(|&n| &drawn[n]).collect();
        // In units of pages or KiB, values must be whole numbers.
        let is_coarse = columns.iter().any(|c| c.word == "offset:pages" || c.word == "len:kib");
        let align = if is_coarse { align.max(4096) } else { align };
        let text = written(&columns, &rows, epoch_ms, align, sep, titled);
        let words: Vec<&str> = columns.iter().map(|column| column.word).collect();
        let has = |role: &str| words.iter().any(|word| word.split(':').next() == Some(role));
        let missing = [("at", "every=1ms"), ("op", "op=read"), ("len", "len=4096")];
        let missing = missing.iter().filter(|(role, _)| !has(role)).map(|(_, constant)| *constant);
        let is_whole = has("at") && has("op") && has("len");
        let declared = words.iter().copied().chain(missing).collect::<Vec<_>>().join(",");
        let sep = match sep { "," => "comma", ";" => "semicolon", _ => "tab" };
        let skip = u8::from(titled);
        let declared = format!("{COLUMNS}{declared},sep={sep},skip={skip},units=sure");
        let expected = compared(&read(&text, Some(&declared)).unwrap());
        let Err(message) = read(&text, None) else { return Ok(()) };
        let Some(columns) = suggested(&message) else { return Ok(()) };
        match read(&text, Some(&format!("{COLUMNS}{columns}"))) {
            Ok(records) => {
                prop_assert!(is_whole, "{columns}\n{message}\n{text}");
                prop_assert_eq!(compared(&records), expected, "{}\n{}\n{}", columns, message, text);
                let used = columns.split(',').filter(|piece| *piece != "_" && !piece.contains('=')).count();
                prop_assert!(used == words.len() || message.contains("not read: "), "{message}\n{text}");
            }
            Err(_) => {
                let is_open = PLACEHOLDERS.iter().any(|placeholder| columns.contains(placeholder));
                prop_assert!(is_open, "{columns}\n{message}\n{text}");
            }
        }
    }
}

#[test]
fn columns_that_a_header_leaves_open_are_declared_by_their_values() {
    for (text, expected) in [
        (
            "TIME(s),COMM,PID,DISK,T,SECTOR,BYTES,LAT(ms)\n0.1,a,1,sda,W,8,4096,0.7\n0.2,a,1,sda,R,16,4096,0.5\n",
            "at:s,name,process,volume,op,offset:sectors,len,latency:ms,skip=1",
        ),
        (
            "start,end,op,offset,size\n2026-01-01 00:00:00.1,2026-01-01 00:00:00.2,R,4096,4096\n",
            "at:date,end:date,op,offset,len,skip=1",
        ),
        (
            ",Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n0,128166372003061629,a,0,Read,0,24576,41286\n",
            "_,at:filetime,volume,volume:number,op:Read/Write,offset,len,latency:ticks,skip=1",
        ),
        (
            "Process,Complete Time (s),IO Time,IO Type,Min Offset,Size (B)\nx,1.5,100,Read,4096,4096\n",
            "name,end:s,latency:UNIT,op,offset,len,skip=1",
        ),
        (
            "time_us,flag,offset,len\n5,0,4096,4096\n9,1,0,4096\n",
            "at:us,op:WORDS,offset,len,skip=1",
        ),
    ] {
        let told = read(text, None).unwrap_err();
        assert_eq!(suggested(&told), Some(expected), "{told}");
    }
    let text = ",Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime,cpu\n\
                0,128166372003061629,a,0,Read,0,24576,41286,3\n";
    let told = read(text, None).unwrap_err();
    assert!(told.contains("; not read: column 1, which has no name, \"cpu\" (to read"), "{told}");
    let text =
        "Complete Time (s),IO Time (us),IO Type,Min Offset,Size (B)\n1.5,100,Read,4096,4096\n";
    let records = read(text, None).unwrap();
    assert_eq!((records[0].at.0, records[0].latency.unwrap().0), (0, 100_000));
}
