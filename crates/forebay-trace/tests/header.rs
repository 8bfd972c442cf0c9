//! Tests CSV whose header names the columns. It is either read according to the declaration in its
//! note, or rejected with a suggested declaration.

use std::fs;

use forebay_ask::{Spelling, spelled};
use forebay_core::{Nanos, Op};
use forebay_trace::open::{COLUMNS, open};
use forebay_trace::{Dictionary, Notes, Record};
use proptest::prelude::*;

type Whole = (Vec<Record>, Dictionary, Notes);

/// The setting that every row must be readable.
const STRICT: Option<&str> = Some("bad-rows:0:");

/// Reads a text to its end. Returns its content or the error message.
fn read(text: &[u8], from: Option<&str>) -> Result<Whole, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    fs::write(&path, text).unwrap();
    let told = |error: forebay_trace::TraceError| {
        let text = spelled(&error.to_string(), Spelling::Command);
        text.replace(&format!("{}/", folder.path().display()), "")
    };
    let mut reader = open(&path, from).map_err(told)?;
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    loop {
        reader.read(&mut batch).map_err(told)?;
        if batch.is_empty() {
            let mut notes = reader.notes().clone();
            notes.warnings.iter_mut().for_each(|said| *said = spelled(said, Spelling::Command));
            return Ok((all, reader.dictionary().clone(), notes));
        }
        all.extend_from_slice(&batch);
    }
}

/// Returns the declaration in the notes.
fn told(notes: &Notes) -> &str {
    let told = notes.warnings.iter().find_map(|told| told.split_once("read as --columns "));
    told.unwrap_or_else(|| panic!("{notes:?}")).1.split("; ").next().unwrap()
}

/// Returns the declaration that the header of `text` is interpreted as, after checking that the
/// declaration gives the same requests.
fn declared(text: &str) -> String {
    let (records, dictionary, notes) = read(text.as_bytes(), None).unwrap();
    assert_eq!(notes.format, "csv", "{text}");
    let columns = told(&notes).to_owned();
    let other = read(text.as_bytes(), Some(&format!("{COLUMNS}{columns}"))).unwrap();
    assert_eq!((records, dictionary), (other.0, other.1), "{text}");
    columns
}

#[test]
fn names_and_units_are_a_declaration() {
    for (text, expected) in [
        ("time_us,op,offset,size\n5,R,0,512\n", "at:us,op,offset,len,skip=1"),
        (
            "timestamp_ms,lba,len_bytes,rw,stream\n5,8,512,w,x\n",
            "at:ms,offset:sectors,len,op,stream,skip=1",
        ),
        (
            "Time (s);OP;LBN;Sectors\n5.5;read;8;1\n",
            "at:s,op,offset:sectors,len:sectors,sep=semicolon,skip=1",
        ),
        (
            "ts_ns\ttype\toffset_kib\tsize_kib\n5\tR\t4\t4\n",
            "at:ns,op,offset:kib,len:kib,sep=tab,skip=1",
        ),
        ("at_ns op  offset len\n5 R  4 4\n", "at:ns,op,offset,len,sep=blank,skip=1"),
        ("\u{feff}\n \nat_ns, \"op\", offset , len\n5, R, 4 , 4\n", "at:ns,op,offset,len,skip=3"),
        (
            "\u{feff}at_ns,is_write,offset,len,host\r\n5,True,4,4,a\r\n6,0,4,4,a",
            "at:ns,op:0+false+f+no+n/1+true+t+yes+y,offset,len,skip=1",
        ),
        (
            "host,at_ns,is_read,offset,len\na,5,1,4,4\na,6,false,4,4\n",
            "_,at:ns,op:1+true+t+yes+y/0+false+f+no+n,offset,len,skip=1",
        ),
        (
            "at_ms,latency_us,op,offset,len,disk,tid,pid,comm,flags\n5,,R,4,4,a,1,2,x y,S\n6,7,R,4,4,b,1,2,x y,\n",
            "at:ms,latency:us,op,offset,len,volume,thread,process,name,flags,skip=1",
        ),
        // The column name does not say whether a process is an id or a name; the values decide.
        ("at_ms,op,offset,len,process\n5,R,4,4,java\n", "at:ms,op,offset,len,name,skip=1"),
        (
            "at_ms,op,offset,len,process,name\n5,R,4,4,7,java\n",
            "at:ms,op,offset,len,process,name,skip=1",
        ),
        ("at_ms,op,offset,len,stream,pid\n5,R,4,4,7,8\n", "at:ms,op,offset,len,stream,skip=1"),
        (
            "at_ms,op,offset,len,process,pid\n5,R,4,4,java,7\n",
            "at:ms,op,offset,len,name,process,skip=1",
        ),
        ("time_usec,op,offset,len\n5,R,4,4\n", "at:us,op,offset,len,skip=1"),
        (
            "elapsed_ms,op,start_lba,SectorCount\n5,R,4,4\n",
            "at:ms,op,offset:sectors,len:sectors,skip=1",
        ),
        ("time_us,op,Offset(B),Size(B)\n5,R,4,4\n", "at:us,op,offset,len,skip=1"),
        ("time [ms],op,offset,len\n5,R,4,4\n", "at:ms,op,offset,len,skip=1"),
        // A column with a unit, and one with the canonical name, take precedence at any position.
        ("at,time_ms,op,offset,len\nx,5,R,4,4\n", "_,at:ms,op,offset,len,skip=1"),
        (
            "time,at_ms,lba,op,offset,size,len,response_time\nx,5,9,R,4,8,4,x\n",
            "_,at:ms,_,op,offset,_,len,skip=1",
        ),
    ] {
        assert_eq!(declared(text), expected, "{text}");
    }
}

#[test]
fn rows_match_their_column_names() {
    let text = "\u{feff}timestamp_ms;LBA;nbytes;is_write;disk;latency_us\r\n1000;8;512;0;\"sd;a\";7\r\n1001,5;8;4096;1;sdb;\r\n";
    let (with_comma, _, notes) = read(text.as_bytes(), None).unwrap();
    assert!(notes.warnings.iter().any(|told| told.contains("decimal=comma")), "{notes:?}");
    let told = read(text.replace("1001,5", "x").as_bytes(), STRICT).unwrap_err();
    assert!(told.contains("line 3: got \"x\" in column timestamp_ms"), "{told}");
    assert!(told.contains("read as --columns at:ms,offset:sectors,len,op:0+false+f+no+n/1+true+t+yes+y,volume,latency:us,sep=semicolon"), "{told}");
    let (records, dictionary, notes) =
        read(text.replace("1001,5", "1001.5").as_bytes(), None).unwrap();
    let seen: Vec<_> = records.iter().map(|r| (r.at.0, r.op, r.offset, r.len, r.latency)).collect();
    let expected =
        [(0, Op::Read, 4096, 512, Some(Nanos(7_000))), (1_500_000, Op::Write, 4096, 4096, None)];
    assert_eq!(seen, expected);
    assert_eq!(records, with_comma);
    assert_eq!(dictionary.volumes, ["sd;a", "sdb"]);
    assert!(!notes.is_timeless && notes.began == Some(Nanos(1_000_000_000)));
}

#[test]
fn a_date_in_the_first_row_needs_no_unit() {
    for (text, columns) in [
        (
            "timestamp,op,offset,len\n2026-01-31 12:00:00,R,0,512\n2026-01-31 12:00:01.5,W,4,4\n",
            "at:date,op,offset,len,skip=1",
        ),
        (
            "# made\n\ndatetime;op;offset;len\n\n\"2026-01-31T12:00:00.000Z\";R;0;512\n2026-01-31T13:00:01.500+01:00;W;4;4\n",
            "at:date,op,offset,len,sep=semicolon,skip=3",
        ),
        (
            "time op offset len\n2026-01-31T12:00:00 R 0 512\n2026-01-31T12:00:01.5 W 4 4\n",
            "at:date,op,offset,len,sep=blank,skip=1",
        ),
    ] {
        assert_eq!(declared(text), columns, "{text}");
        let (records, _, notes) = read(text.as_bytes(), None).unwrap();
        assert_eq!(
            records.iter().map(|r| r.at.0).collect::<Vec<_>>(),
            [0, 1_500_000_000],
            "{text}"
        );
        assert_eq!(notes.began, Some(Nanos(1_769_860_800_000_000_000)));
    }
    let text = b"time,op,offset,len\n2026-01-31 12:00:00,R,0,4\n2026-02-31 12:00:00,R,0,4\n";
    let told = read(text, STRICT).unwrap_err();
    assert!(
        told.contains(
            "line 3: got \"2026-02-31 12:00:00\" in column time, expected a date such as"
        ),
        "{told}"
    );
    // A column whose name contains a unit must contain numbers.
    let told = read(b"time_us,op,offset,len\n2026-01-31 12:00:00,R,0,4\n", None).unwrap_err();
    assert!(told.contains("expected us such as 12.345"), "{told}");
}

#[test]
fn a_completion_makes_a_latency() {
    for (text, columns) in [
        (
            "start_time_us,end_time_us,op,offset,len\n5,12,R,0,512\n",
            "at:us,end:us,op,offset,len,skip=1",
        ),
        (
            "time,completion,op,offset,len\n2026-01-31 12:00:00,2026-01-31 12:00:00.000007,R,0,512\n",
            "at:date,end:date,op,offset,len,skip=1",
        ),
        // The latency makes the completion redundant, and a time without a unit says nothing.
        (
            "time_us,end_time_us,latency_us,op,offset,len\n5,9,7,R,0,512\n",
            "at:us,_,latency:us,op,offset,len,skip=1",
        ),
    ] {
        assert_eq!(declared(text), columns, "{text}");
        assert_eq!(read(text.as_bytes(), None).unwrap().0[0].latency, Some(Nanos(7_000)), "{text}");
    }
    assert_eq!(
        declared("time_us,end_time,op,offset,len\n5,9,R,0,512\n"),
        "at:us,_,op,offset,len,skip=1"
    );
}

#[test]
fn columns_that_are_not_read_are_reported() {
    let text = b"at_ns,op,offset,len,host,latency,a,b,c,d\n5,R,4,4,1,2,3,4,5,6\n";
    let notes = read(text, None).unwrap().2;
    let told = notes.sentences().join("\n");
    let expected = "; not read: \"host\", \"latency\", \"a\", \"b\", \"c\" and 1 more";
    assert!(told.ends_with(expected), "{told}");
    assert!(!declared("at_ns,op,offset,len\n5,R,4,4\n").contains("not read"));
    // This is how pandas writes its index.
    let notes = read(b",at_ns,op,offset,len\n0,5,R,4,4\n", None).unwrap().2;
    let told = notes.sentences().join("\n");
    assert!(told.ends_with("; not read: column 1, which has no name"), "{told}");
}

#[test]
fn a_word_of_the_header_names_the_column_of_a_bad_row() {
    for (row, expected) in [
        ("5,R,4,x", "line 2: got \"x\" in column Size, expected a whole number"),
        ("5,R,x,1", "in column Start Byte Offset"),
        ("5,R,4", "in column Size, expected one more field"),
        ("5,9,4,4", "got \"9\" in column rw, expected R or W"),
    ] {
        let text = format!("time_us,rw,byte_offset,Size\n{row}\n");
        let told = read(text.as_bytes(), None).unwrap_err();
        assert!(told.contains(&expected.replace("Start Byte Offset", "byte_offset")), "{told}");
    }
}

#[test]
fn dates_that_are_not_read_are_told_how_to_be_written() {
    for (text, got) in [
        ("date,time,op,offset,size\n2024-01-31,12:00:00.5,R,0,8\n", "12:00:00.5"),
        ("time,op,offset,size\n01/02/2024 10:00:00,R,0,8\n", "01/02/2024 10:00:00"),
        ("time,op,offset,size\n2024-02-30 10:00:00,R,0,8\n", "2024-02-30 10:00:00"),
        ("time,op,offset,size\nJan 31 2026 12:00:00,R,0,8\n", "Jan 31 2026 12:00:00"),
        ("time,op,offset,size\n20260131T120000,R,0,8\n", "20260131T120000"),
    ] {
        let told = read(text.as_bytes(), None).unwrap_err();
        let expected = format!(
            "expected dates in \"time\" as 2026-01-31 12:00:00.000345 (an existing day, year \
             first; day and time in one column), not as \"{got}\""
        );
        assert!(told.contains(&expected), "{told}");
    }
    // For a number, even if it is negative or has an exponent, only the unit is missing.
    for number in ["5", "-5", "1e-3", "x", "0x12345", "17000000000"] {
        let told = read(format!("time,op,offset,size\n{number},R,0,8\n").as_bytes(), None);
        let told = told.unwrap_err();
        assert!(told.contains("expected the unit of \"time\""), "{told}");
    }
}

#[test]
fn ambiguous_names_are_rejected_with_the_declaration_to_write() {
    for (text, written) in [
        ("time_us,op,lba,size\n5,R,8,8\n", "--columns at:us,op,offset:sectors,len:UNIT,skip=1"),
        ("# made\ntime_us,op,lba,io_size\n", "at:us,op,offset:sectors,len:UNIT,skip=2"),
        ("time_us,op,offset,nsectors\n5,R,8,8\n", "at:us,op,offset:UNIT,len:sectors,skip=1"),
        ("time_us,op,offset,size_kb\n5,R,8,8\n", "at:us,op,offset,len:UNIT,skip=1"),
    ] {
        let told = read(text.as_bytes(), None).unwrap_err();
        assert!(told.contains(written) && told.contains("contains the unit of"), "{told}");
    }
    for (header, expected) in [
        (
            "timestamp,op,offset,size",
            "t.csv, line 1: got a header of \"timestamp,op,offset,size\", expected the unit of \"timestamp\" at its end: \
             _ns, _us, _ms or _s; or write --columns at:UNIT,op,offset,len,skip=1, with ns, us, ms, s or date for the UNIT of at",
        ),
        (
            "time_us;rw;block;blocks",
            "expected a name that contains the unit of \"block\", and a name that contains the unit of \
             \"blocks\"; or write --columns at:us,op,offset:UNIT,len:UNIT,sep=semicolon,skip=1, \
             with bytes, sectors (512 bytes), pages (4096) or blocks:BYTES for the UNIT of offsets \
             and lengths",
        ),
        (
            "time_us,offset,size",
            "expected a name for the operation (op, rw, is_write, ...); or write --columns \
             at:us,offset,len,op=OP,skip=1, with read or write for OP if all requests have the \
             same operation",
        ),
        (
            "lba,op,sectors",
            "a name for the time (time_us, timestamp_ms, ...); or write --columns offset:sectors,op,len:sectors,every=TIME,skip=1",
        ),
        (
            "time_us,offset,op",
            "a name for the length (len, size, sectors, ...); or write --columns at:us,offset,op,len=BYTES,skip=1",
        ),
        (
            "time_us,op,offset,len,len",
            "expected one column called \"len\"; or write --columns at:us,op,offset,len,len,skip=1, with _ for",
        ),
    ] {
        let text = format!("{header}\n5,R,8,8,8\n");
        for from in [None, Some("csv")] {
            let told = read(text.as_bytes(), from).unwrap_err();
            assert!(told.contains(expected), "{told}");
        }
    }
}

/// The declaration suggested by a rejection is valid once its placeholders are replaced.
#[test]
fn the_suggested_declaration_can_be_read() {
    for header in
        ["timestamp,op,block,size", "timestamp,op,offset", "offset,size", "ts;offset;op;len"]
    {
        let separator = if header.contains(';') { ";" } else { "," };
        let cell = |name| if name == "op" { "R" } else { "8" };
        let cells: Vec<&str> = header.split(separator).map(cell).collect();
        let text = format!("{header}\n{}\n", cells.join(separator));
        let told = read(text.as_bytes(), None).unwrap_err();
        let columns = told.split("--columns ").nth(1).unwrap().split(", with").next().unwrap();
        let columns = columns.replace("at:UNIT", "at:us").replace(":UNIT", ":pages");
        let columns =
            columns.replace("=OP", "=read").replace("=BYTES", "=512").replace("=TIME", "=1ms");
        let whole = read(text.as_bytes(), Some(&format!("{COLUMNS}{columns}"))).unwrap();
        assert_eq!(whole.0.len(), 1, "{columns}");
    }
}

#[test]
fn other_texts_stay_what_they_are() {
    for (text, format) in [
        (
            "at_ns,op,offset,len,stream,volume,latency_ns,flags,thread,process,name\n5,read,0,1,0,,,,,,\n",
            "csv",
        ),
        (
            "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n128166372003061629,a,0,Read,0,512,1\n",
            "msr",
        ),
        ("device_id,opcode,offset,length,timestamp\n1,R,0,512,1\n", "alibaba"),
        ("Timestamp,Response,IOType,LUN,Offset,Size\n1.5,0.1,R,0,0,512\n", "systor17"),
        ("Timestamp,Offset,Size,IOType,VolumeID\n1,0,8,0,1\n", "tencent-cbs"),
        ("version,time,op,size,lbn\n1,5,2a,512,8\n", "cloudphysics"),
        ("time,obj_id,obj_size\n5,7,100\n", "object-csv"),
        ("TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n0.5 a 1 sda R 8 512 0.1\n", "snoop"),
    ] {
        let notes = read(text.as_bytes(), None).unwrap().2;
        assert_eq!(notes.format, format, "{text}");
        assert!(!notes.warnings.iter().any(|told| told.contains("--columns at")), "{notes:?}");
    }
    // A header with units takes precedence, even if a preset could read its rows with other units.
    let (records, _, notes) =
        read(b"disk,op,offset,size,time_ms\n1,R,0,512,1\n1,R,0,512,2\n", None).unwrap();
    assert_eq!((notes.format, records[1].at), ("csv", Nanos(1_000_000)));
    for other in ["a,b,c\n1,2,3\n", "offset,price\n1,2\n", "name,size\nx,1\n"] {
        assert!(
            read(other.as_bytes(), None).unwrap_err().contains("one of the formats"),
            "{other}"
        );
    }
}

#[test]
fn units_that_cannot_be_right_have_a_warning_with_the_declaration() {
    let row = |n: u64| format!("{},R,{},8\n", n * 1000, n * 8);
    let rows: String = (0..2000).map(row).collect();
    let notes = read(format!("time_us,op,lba,len_bytes\n{rows}").as_bytes(), None).unwrap().2;
    let expected = "--columns at:us,op,offset:sectors,len:sectors,skip=1";
    assert!(notes.warnings.iter().any(|told| told.contains(expected)), "{notes:?}");
    let fast: String = (0..2000).map(|n| format!("{n},R,{},1048576\n", n << 20)).collect();
    let told = read(format!("time_ns,op,offset,len\n{fast}").as_bytes(), None).unwrap_err();
    assert!(told.contains("--columns at:ms,op,offset,len,skip=1"), "{told}");
}

#[test]
fn a_header_without_end_is_none() {
    for text in
        [format!("time_us,op,offset,len{}\n5,R,0,1\n", ",x".repeat(200)), ",".repeat(70_000)]
    {
        assert!(read(text.as_bytes(), None).unwrap_err().len() < 2000);
        assert!(read(text.as_bytes(), Some("csv")).unwrap_err().len() < 2000);
    }
    // The maximum number of columns that are examined, after blank lines.
    let text = format!(
        "{}time_us,op,offset,len{}\n5,R,0,1{}\n",
        "\n".repeat(300),
        ",x".repeat(124),
        ",".repeat(124)
    );
    assert_eq!(declared(&text), "at:us,op,offset,len,skip=301");
}

/// Generates the name of a column and the expected declaration for it.
fn column(role: usize) -> impl Strategy<Value = (&'static str, &'static str)> {
    const NAMES: [&[(&str, &str)]; 8] = [
        &[
            ("time_us", "at:us"),
            ("Timestamp (ms)", "at:ms"),
            ("at-ns", "at:ns"),
            ("ts_sec", "at:s"),
        ],
        &[("op", "op"), ("RW", "op"), ("Type", "op"), ("io type", "op")],
        &[("offset_bytes", "offset"), ("LBA", "offset:sectors"), ("offset_kib", "offset:kib")],
        &[
            ("len_bytes", "len"),
            ("Size (B)", "len"),
            ("sectors", "len:sectors"),
            ("size_kib", "len:kib"),
        ],
        &[("disk", "volume"), ("LUN", "volume")],
        &[("pid", "process"), ("tgid", "process")],
        &[("comm", "name"), ("stream", "stream"), ("application", "name")],
        &[("host", "_"), ("latency", "_"), ("", "_")],
    ];
    prop::sample::select(NAMES[role])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    /// A header with columns in any order, with any of their names and with any separator is read
    /// like the corresponding declaration.
    #[test]
    fn a_header_reads_as_its_declaration(
        chosen in (column(0), column(1), column(2), column(3), column(4), column(5), column(6), column(7)),
        order in Just((0..8usize).collect::<Vec<_>>()).prop_shuffle(),
        left_out in 4..9usize,
        rows in prop::collection::vec((0..1000u64, any::<bool>(), 0..1000u64, 1..100u64, 0..3u64), 1..20),
        separator in prop::sample::select(&[(",", ""), ("\t", ",sep=tab"), (";", ",sep=semicolon")]),
        (end, quoted, mark) in (prop::sample::select(&["\n", "\r\n"]), any::<bool>(), any::<bool>()),
    ) {
        let (a, b, c, d, e, f, g, h) = chosen;
        let all = [a, b, c, d, e, f, g, h];
        let order: Vec<usize> = order.into_iter().filter(|&n| n != left_out).collect();
        // Only a column for the stream identifies the submitter.
        let alone = order.contains(&6) && g.1 == "stream";
        let word = |n: usize| if alone && n == 5 { "_" } else { all[n].1 };
        let declared: Vec<&str> = order.iter().map(|&n| word(n)).collect();
        let name = |n: usize| if quoted { format!("\"{}\"", all[n].0) } else { all[n].0.to_owned() };
        let names: Vec<String> = order.iter().map(|&n| name(n)).collect();
        let mut text = String::from(if mark { "\u{feff}" } else { "" });
        text += &(names.join(separator.0) + end);
        for (at, writes, offset, len, who) in rows {
            let cell = |&n: &usize| match n {
                0 => at.to_string(),
                1 => String::from(if writes { "W" } else { "read" }),
                2 => offset.to_string(),
                3 => len.to_string(),
                _ => who.to_string(),
            };
            let cells: Vec<String> = order.iter().map(cell).collect();
            text += &(cells.join(separator.0) + end);
        }
        let by_header = read(text.as_bytes(), None).unwrap();
        prop_assert_eq!(by_header.2.format, "csv");
        let columns = format!("{COLUMNS}{},skip=1{}", declared.join(","), separator.1);
        let by_columns = read(text.as_bytes(), Some(&columns)).unwrap();
        prop_assert_eq!((by_header.0, by_header.1), (by_columns.0, by_columns.1));
    }
}
