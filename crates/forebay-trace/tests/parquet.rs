//! Tests Parquet as written by other tools: every codec, and integers that pandas converted to
//! floating point.

#[path = "parquet/cells.rs"]
mod cells;

use std::path::Path;

use forebay_ask::named;
use forebay_core::{Nanos, Op};
use forebay_trace::Record;
use forebay_trace::open::open;
use parquet::basic::{Compression, Encoding, GzipLevel, ZstdLevel};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion};

use self::cells::{
    Cells, doubles, floats, halves, int96, integers, nested, texts, timestamps, truths, unsigned,
    write_as,
};

type Table = Vec<(String, Cells)>;

/// Returns the columns that a table must have, with three requests. `more` replaces columns or adds
/// some.
fn table(more: &[(&str, Cells)]) -> Table {
    let mut columns: Table = vec![
        ("at_ns".into(), integers(&[0, 1_000, 2_000])),
        ("op".into(), texts(&["read", "write", "read"])),
        ("offset".into(), unsigned(&[0, 1 << 40, 8192])),
        ("len".into(), unsigned(&[4096, 512, 65_536])),
    ];
    for (name, column) in more {
        columns.retain(|(known, _)| known != name);
        columns.push((name.to_string(), column.clone()));
    }
    columns
}

fn write(path: &Path, table: &[(String, Cells)], compression: Compression) {
    write_as(path, table, WriterProperties::builder().set_compression(compression), &[]);
}

/// Writes `table` to a file and reads it. Returns its records or the error message.
fn read(table: &[(String, Cells)], compression: Compression) -> Result<Vec<Record>, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    write(&path, table, compression);
    let mut reader = open(&path, None).map_err(|error| error.to_string())?;
    let mut batch = Vec::new();
    reader.read(&mut batch).map_err(|error| error.to_string())?;
    Ok(batch)
}

const PLAIN: Compression = Compression::UNCOMPRESSED;

/// Returns when the trace of a table with this metadata and these times began on its source's
/// clock.
fn began(metadata: &[(&str, &str)], times: &[i64]) -> Result<Option<Nanos>, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let table = table(&[("at_ns", integers(times))]);
    write_as(&path, &table, WriterProperties::builder(), metadata);
    let mut reader = open(&path, None).map_err(|error| error.to_string())?;
    reader.read(&mut Vec::new()).map_err(|error| error.to_string())?;
    Ok(reader.notes().began)
}

#[test]
fn a_table_keeps_its_sources_clock() {
    // Tables of other tools contain the source's own times. Times that we wrote count from the
    // first request.
    assert_eq!(began(&[], &[500, 600, 700]), Ok(Some(Nanos(500))));
    let ours = ("forebay.version", "1");
    assert_eq!(began(&[ours], &[0, 100, 200]), Ok(None));
    assert_eq!(began(&[ours, ("forebay.began_ns", "42")], &[0, 1, 2]), Ok(Some(Nanos(42))));
    // A time in ns since 1601, and values that mean nothing.
    let file_time = ("forebay.began_ns", "12816638529551466300");
    assert_eq!(began(&[ours, file_time], &[0, 1, 2]), Ok(Some(Nanos(12_816_638_529_551_466_300))));
    for wrong in ["", "-1", "1.5", "soon", "18446744073709551616"] {
        assert_eq!(began(&[ours, ("forebay.began_ns", wrong)], &[0, 1, 2]), Ok(None));
    }
}

#[test]
fn every_codec_is_read() {
    let expected = read(&table(&[]), PLAIN).unwrap();
    assert_eq!(expected.iter().map(|r| r.len).collect::<Vec<_>>(), [4096, 512, 65_536]);
    for codec in [
        Compression::SNAPPY,
        Compression::GZIP(GzipLevel::default()),
        Compression::LZ4,
        Compression::LZ4_RAW,
        Compression::ZSTD(ZstdLevel::default()),
    ] {
        assert_eq!(read(&table(&[]), codec), Ok(expected.clone()), "{codec}");
    }
}

#[test]
fn brotli_is_read_or_refused_by_its_name() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/others/brotli.parquet");
    let read = open(&path, None).and_then(|mut reader| reader.read(&mut Vec::new()));
    assert_eq!(read.is_ok(), cfg!(feature = "brotli"));
    let told = read.map_or_else(|error| error.to_string(), |()| String::new());
    for part in ["compressed with Brotli", "expected snappy", "--features brotli"] {
        assert!(told.is_empty() || told.contains(part), "{told}");
    }
}

/// Writes `table` with these properties and reads it. Returns its records.
fn read_as(table: &[(String, Cells)], properties: WriterPropertiesBuilder) -> Vec<Record> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    write_as(&path, table, properties, &[]);
    let mut reader = open(&path, None).unwrap();
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    loop {
        reader.read(&mut batch).unwrap();
        if batch.is_empty() {
            return all;
        }
        all.extend_from_slice(&batch);
    }
}

#[test]
fn every_encoding_and_kind_of_page_is_read() {
    const ROWS: i64 = 20_000;
    let rows: Vec<i64> = (0..ROWS).collect();
    let names: Vec<String> = rows.iter().map(|n| format!("worker {}", n * n % 701)).collect();
    let name = |n: &i64| (n % 7 != 0).then(|| names[*n as usize].as_str());
    let latency = |n: &i64| (n % 5 != 0).then_some(n * 1000);
    let op = |n: &i64| if n % 3 == 0 { "write" } else { "read" };
    let table: Table = vec![
        ("at_ns".into(), integers(&rows.iter().map(|n| n * 1_000_000).collect::<Vec<_>>())),
        ("op".into(), texts(&rows.iter().map(op).collect::<Vec<_>>())),
        ("offset".into(), integers(&rows.iter().map(|n| n * 4096).collect::<Vec<_>>())),
        ("len".into(), integers(&rows.iter().map(|n| 512 * (1 + n % 5)).collect::<Vec<_>>())),
        ("latency_ns".into(), Cells::Longs("", rows.iter().map(latency).collect())),
        ("comm".into(), Cells::texts(rows.iter().map(name))),
    ];
    let plain = || WriterProperties::builder().set_dictionary_enabled(false);
    let whole = read_as(&table, WriterProperties::builder());
    assert_eq!(whole.len(), ROWS as usize);
    for (n, found) in rows.iter().zip(&whole) {
        assert_eq!(
            (found.at.0, found.offset, found.latency.map(|l| l.0 as i64)),
            (*n as u64 * 1_000_000, *n as u64 * 4096, latency(n))
        );
    }
    for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
        let small = |p: WriterPropertiesBuilder| {
            let p = p.set_writer_version(version).set_data_page_row_count_limit(300);
            p.set_write_batch_size(100).set_max_row_group_row_count(Some(9_000))
        };
        // With a dictionary that becomes too large and is abandoned, without a dictionary, and with
        // each encoding of strings and integers.
        let given_up = WriterProperties::builder().set_dictionary_page_size_limit(900);
        assert_eq!(read_as(&table, small(given_up)), whole, "{version:?}");
        for encoding in
            [Encoding::PLAIN, Encoding::DELTA_LENGTH_BYTE_ARRAY, Encoding::DELTA_BYTE_ARRAY]
        {
            let as_encoded = ["op", "comm"].into_iter().fold(plain(), |properties, column| {
                properties.set_column_encoding(column.into(), encoding)
            });
            assert_eq!(read_as(&table, small(as_encoded)), whole, "{version:?} {encoding}");
        }
        for encoding in [Encoding::DELTA_BINARY_PACKED, Encoding::BYTE_STREAM_SPLIT] {
            let columns = ["at_ns", "offset", "len", "latency_ns"].into_iter();
            let as_encoded = columns.fold(plain(), |properties, column| {
                properties.set_column_encoding(column.into(), encoding)
            });
            assert_eq!(read_as(&table, small(as_encoded)), whole, "{version:?} {encoding}");
        }
    }
}

#[test]
fn every_width_of_integers_is_read() {
    for kind in [
        "INTEGER(8, true)",
        "INTEGER(16, true)",
        "INTEGER(32, true)",
        "INTEGER(8, false)",
        "INTEGER(16, false)",
        "INTEGER(32, false)",
        "INT_8",
        "UINT_16",
        "",
    ] {
        let narrow = Cells::Ints(kind, vec![Some(7), Some(100), Some(120)]);
        let found = read(&table(&[("len", narrow)]), PLAIN).unwrap();
        assert_eq!(found.iter().map(|r| r.len).collect::<Vec<_>>(), [7, 100, 120], "{kind}");
    }
    // Unsigned integers have the same bits as signed ones.
    let wide = Cells::Ints("INTEGER(32, false)", vec![Some(512), Some(-512), Some(1024)]);
    let said = read(&table(&[("len", wide)]), PLAIN).unwrap_err();
    assert!(said.contains("row 2: got \"4294966784\" in column len"), "{said}");
    let signed = Cells::Ints("", vec![Some(512), Some(-512), Some(1024)]);
    let said = read(&table(&[("len", signed)]), PLAIN).unwrap_err();
    assert!(said.contains("row 2: got \"-512\" in column len"), "{said}");
}

#[test]
fn other_types_are_refused_by_their_names() {
    let number = |kind| Cells::Longs(kind, vec![Some(1), Some(2), Some(3)]);
    let word = |kind| Cells::Ints(kind, vec![Some(1), Some(2), Some(3)]);
    for (name, column, kind) in [
        ("len", number("DECIMAL(12, 0)"), "Decimal"),
        ("len", word("DATE"), "Date"),
        ("len", word("TIME(MILLIS, true)"), "Time"),
        ("len", number("TIME(MICROS, true)"), "Time"),
        ("len", word("UNKNOWN"), "Null"),
        ("len", nested("LIST"), "List"),
        ("len", nested("MAP"), "Map"),
        ("len", nested(""), "Struct"),
        ("op", nested(""), "Struct"),
        ("op", Cells::Bytes("", vec![Some(b"read".to_vec()); 3]), "Binary"),
        ("op", Cells::Bytes("ENUM", vec![Some(b"read".to_vec()); 3]), "Binary"),
        ("op", Cells::Fixed("", vec![Some(b"read".to_vec()); 3]), "FixedSizeBinary"),
    ] {
        let said = read(&table(&[(name, column)]), PLAIN).unwrap_err();
        assert!(said.contains(&format!("got type {kind} in column {name}")), "{kind}: {said}");
    }
    // If these columns are not needed, they do not matter.
    let more = [("parts", nested("LIST")), ("cost", number("DECIMAL(12, 0)"))];
    assert_eq!(read(&table(&more), PLAIN), read(&table(&[]), PLAIN));
}

#[test]
fn strings_that_are_no_utf_8_are_refused() {
    let bytes = [Some(b"read".to_vec()), Some(vec![0xFF, 0xFE]), Some(b"read".to_vec())];
    let said = read(&table(&[("op", Cells::Bytes("STRING", bytes.to_vec()))]), PLAIN).unwrap_err();
    assert!(said.contains("UTF-8"), "{said}");
}

#[test]
fn invalid_values_are_rejected_with_their_row() {
    let refused = |name, column: Cells, expected: &str| {
        let said = read(&table(&[(name, column)]), PLAIN).unwrap_err();
        assert!(said.contains(expected), "no {expected:?} in {said}");
    };
    let beyond = unsigned(&[0, 1 << 63, 0]);
    refused("offset", beyond, "row 2: got \"9223372036854775808\" in column offset");
    let ops = texts(&["read", "write", "rite"]);
    refused("op", ops, "row 3: got \"rite\" in column op");
    let none = Cells::texts([Some("read"), None, Some("read")]);
    refused("op", none, "row 2: got null in column op");
    refused("op", integers(&[0, 1, 2]), "type Int64 in column op");
}

#[test]
fn whole_floats_are_integers_and_nan_is_null() {
    let latency = Cells::Doubles(vec![Some(1e6), None, Some(f64::NAN)]);
    let lens = floats(&[4096.0, 512.0, 16_777_216.0]);
    let table = table(&[("latency_ns", latency), ("len", lens)]);
    let records = read(&table, PLAIN).unwrap();
    let found: Vec<_> = records.iter().map(|r| (r.latency, r.len)).collect();
    assert_eq!(found, [(Some(Nanos(1_000_000)), 4096), (None, 512), (None, 16_777_216)]);
}

#[test]
fn floats_that_are_no_integers_are_refused_with_their_row() {
    let refused = |name: &str, column: Cells, parts: &[&str]| {
        let said = read(&table(&[(name, column)]), PLAIN).unwrap_err();
        for part in parts.iter().chain(&["t.parquet, row ", name]) {
            assert!(said.contains(part), "no {part:?} in {said}");
        }
    };
    let half = "got \"0.5\" in column latency_ns, expected a whole number";
    refused("latency_ns", doubles(&[1.0, f64::NAN, 0.5]), &["row 3", half]);
    refused("latency_ns", doubles(&[1.0, f64::INFINITY, 2.0]), &["row 2", "inf"]);
    let rounded = 2f64.powi(53) + 2.0;
    refused("offset", doubles(&[0.0, rounded, 0.0]), &["row 2", "9007199254740994", "2^53"]);
    refused("len", doubles(&[512.0, f64::NAN, 512.0]), &["row 2", "got null", "a value"]);
    let singles = floats(&[0.0, 33_554_432.0, 0.0]);
    refused("offset", singles, &["row 2", "33554432", "2^24"]);
}

#[test]
fn half_floats_are_whole_within_what_they_tell_apart() {
    // 512, 2048 and 1024 as 16-bit floating-point numbers.
    let records = read(&table(&[("len", halves(&[0x6000, 0x6800, 0x6400]))]), PLAIN).unwrap();
    assert_eq!(records.iter().map(|r| r.len).collect::<Vec<_>>(), [512, 2048, 1024]);
    let said = read(&table(&[("len", halves(&[0x6000, 0x6C00, 0x6400]))]), PLAIN).unwrap_err();
    assert!(said.contains("row 2: got \"4096\"") && said.contains("2^11"), "{said}");
}

/// Returns the requests of a table in which `column`, called `name`, replaces the column
/// `replaced`.
fn renamed(replaced: &str, name: &str, column: Cells) -> Result<Vec<Record>, String> {
    let mut all = table(&[]);
    all.retain(|(kept, _)| kept != replaced);
    all.push((name.to_string(), column));
    read(&all, PLAIN)
}

#[test]
fn times_are_in_the_unit_of_their_type_or_name() {
    let whole = [7, 8, 10];
    let old = |kind| Cells::Longs(kind, whole.map(Some).to_vec());
    let columns: [(&str, Cells, u64); 11] = [
        ("timestamp", timestamps("MILLIS", &whole), 1_000_000),
        ("timestamp", timestamps("MICROS", &whole), 1_000),
        ("timestamp", timestamps("NANOS", &whole), 1),
        ("timestamp", old("TIMESTAMP_MILLIS"), 1_000_000),
        ("timestamp", old("TIMESTAMP_MICROS"), 1_000),
        ("timestamp", int96(&whole), 1),
        // The type takes precedence over the name.
        ("time_us", timestamps("NANOS", &whole), 1),
        ("ts_s", integers(&whole), 1_000_000_000),
        ("Issue Time ms", integers(&whole), 1_000_000),
        ("arrival_us", integers(&whole), 1_000),
        ("datetime-ns", integers(&whole), 1),
    ];
    for (name, column, unit) in columns {
        let kind = format!("{column:?}");
        let records = renamed("at_ns", name, column).unwrap();
        let found: Vec<u64> = records.iter().map(|record| record.at.0).collect();
        assert_eq!(found, [0, unit, 3 * unit], "{name}, {kind}");
    }
    // Times are rounded to the nearest nanosecond. As floating-point numbers, 1.005 and 8.2 times
    // 10^9 are slightly too small.
    let parts = doubles(&[0.0, 1.005, 8.2]);
    let found = renamed("at_ns", "time_s", parts).unwrap();
    assert_eq!((found[1].at.0, found[2].at.0), (1_005_000_000, 8_200_000_000));
    let unknown = integers(&[1, 2, 3]);
    // Latencies are optional, so a column of latencies without a unit is ignored.
    let found = read(&table(&[("response_time", unknown.clone())]), PLAIN).unwrap();
    assert!(found.iter().all(|record| record.latency.is_none()) && found.len() == 3);
    let said = renamed("at_ns", "time", unknown).unwrap_err();
    assert!(said.contains("column time") && said.contains("NAME_ns"), "{said}");
}

/// The Arrow schemas of pyarrow for `timestamp` in seconds, `op`, `offset`, `len`, and
/// `response_time` in seconds or microseconds. Parquet itself stores durations as integers, and
/// some writers do so for timestamps too.
const SECONDS: &str = concat!(
    "/////0gBAAAQAAAAAAAKAAwABgAFAAgACgAAAAABBAAMAAAACAAIAAAABAAIAAAABAAAAAUAAADkAAAArAAAAHAA",
    "AABAAAAABAAAAED///8AAAESEAAAACQAAAAEAAAAAAAAAA0AAAByZXNwb25zZV90aW1lAAYACAAGAAYAAAAAAAAA",
    "eP///wAAAQIQAAAAFAAAAAQAAAAAAAAAAwAAAGxlbgDQ////AAAAAUAAAACk////AAABAhAAAAAgAAAABAAAAAAA",
    "AAAGAAAAb2Zmc2V0AAAIAAwACAAHAAgAAAAAAAABQAAAANz///8AAAEFEAAAABQAAAAEAAAAAAAAAAIAAABvcAAA",
    "xP///xAAFAAIAAYABwAMAAAAEAAQAAAAAAABChAAAAAgAAAABAAAAAAAAAAJAAAAdGltZXN0YW1wAAAABAAEAAQA",
    "AAAAAAAA",
);
const MICROS: &str = concat!(
    "/////0gBAAAQAAAAAAAKAAwABgAFAAgACgAAAAABBAAMAAAACAAIAAAABAAIAAAABAAAAAUAAADkAAAArAAAAHAA",
    "AABAAAAABAAAAED///8AAAESEAAAACQAAAAEAAAAAAAAAA0AAAByZXNwb25zZV90aW1lAAYACAAGAAYAAAAAAAIA",
    "eP///wAAAQIQAAAAFAAAAAQAAAAAAAAAAwAAAGxlbgDQ////AAAAAUAAAACk////AAABAhAAAAAgAAAABAAAAAAA",
    "AAAGAAAAb2Zmc2V0AAAIAAwACAAHAAgAAAAAAAABQAAAANz///8AAAEFEAAAABQAAAAEAAAAAAAAAAIAAABvcAAA",
    "xP///xAAFAAIAAYABwAMAAAAEAAQAAAAAAABChAAAAAgAAAABAAAAAAAAAAJAAAAdGltZXN0YW1wAAAABAAEAAQA",
    "AAAAAAAA",
);

#[test]
fn units_that_only_the_arrow_schema_tells_are_those_of_the_columns() {
    let read = |arrow: &str, timestamp: Cells, latency: &'static str| {
        let mut table = table(&[(latency, integers(&[2, 3, 4]))]);
        table[0] = ("timestamp".into(), timestamp);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        write_as(&path, &table, WriterProperties::builder(), &[("ARROW:schema", arrow)]);
        let mut reader = open(&path, None).map_err(|error| error.to_string())?;
        let mut batch = Vec::new();
        reader.read(&mut batch).map_err(|error| error.to_string())?;
        let second = &batch[1];
        Ok::<_, String>((second.at.0, second.latency.unwrap().0))
    };
    const S: u64 = 1_000_000_000;
    assert_eq!(read(SECONDS, integers(&[7, 9, 10]), "response_time"), Ok((2 * S, 3 * S)));
    assert_eq!(read(MICROS, integers(&[7, 9, 10]), "response_time"), Ok((2 * S, 3_000)));
    // If Parquet itself states a unit, that counts, except for its oldest type of timestamps.
    let ms = timestamps("MILLIS", &[7, 9, 10]);
    assert_eq!(read(MICROS, ms, "response_time"), Ok((2_000_000, 3_000)));
    let old = int96(&[7_000_000_000, 9_000_000_000, 10_000_000_000]);
    assert_eq!(read(MICROS, old, "response_time"), Ok((2 * S, 3_000)));
    // A schema that is damaged, or that belongs to another table, might have stated a unit.
    for arrow in [&SECONDS[..40], "no schema", "", &SECONDS.replacen('A', "/", 60)] {
        let said = read(arrow, integers(&[7, 9, 10]), "response_time").unwrap_err();
        assert!(said.contains("ARROW:schema") && said.contains("damaged"), "{said}");
    }
    let said = read(SECONDS, integers(&[7, 9, 10]), "latency_us").unwrap_err();
    assert!(said.contains("names other columns"), "{said}");
}

#[test]
fn places_and_lengths_are_in_the_unit_of_their_name() {
    let numbers = || unsigned(&[8, 16, 4]);
    let names = [
        ("offset", "offset_bytes", 1),
        ("offset", "byte_offset", 1),
        ("offset", "LBA", 512),
        ("offset", "sector", 512),
        ("offset", "lbn", 512),
        ("offset", "offset-sectors", 512),
        ("offset", "offset_kib", 1024),
        ("len", "length", 1),
        ("len", "size", 1),
        ("len", "bytes", 1),
        ("len", "Length Bytes", 1),
        ("len", "io_size", 1),
        ("len", "nbytes", 1),
        ("len", "sectors", 512),
        ("len", "len_sectors", 512),
        ("len", "nr_sectors", 512),
        ("len", "size_kib", 1024),
    ];
    for (replaced, name, unit) in names {
        let records = renamed(replaced, name, numbers()).unwrap();
        let of = |record: &Record| match replaced {
            "offset" => record.offset,
            _ => u64::from(record.len),
        };
        let found: Vec<u64> = records.iter().map(of).collect();
        assert_eq!(found, [8 * unit, 16 * unit, 4 * unit], "{name}");
    }
    let beyond = unsigned(&[8, 1 << 60, 4]);
    let said = renamed("offset", "lba", beyond).unwrap_err();
    assert!(said.contains("row 2") && said.contains("multiplied by 512"), "{said}");
}

#[test]
fn truth_values_say_what_their_name_asks() {
    for (name, ops) in [
        ("is_write", [Op::Write, Op::Read, Op::Write]),
        ("Write", [Op::Write, Op::Read, Op::Write]),
        ("Is Read", [Op::Read, Op::Write, Op::Read]),
    ] {
        let found: Vec<Op> = renamed("op", name, truths(&[true, false, true]))
            .unwrap()
            .iter()
            .map(|r| r.op)
            .collect();
        assert_eq!(found, ops, "{name}");
    }
    let unsure = Cells::Truths(vec![Some(true), None, Some(false)]);
    let said = renamed("op", "is_read", unsure).unwrap_err();
    assert!(said.contains("row 2: got null in column is_read"), "{said}");
}

#[test]
fn names_may_be_missing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    write(&path, &table(&[("comm", Cells::texts([Some("b"), None, Some("a")]))]), PLAIN);
    let mut reader = open(&path, None).unwrap();
    let mut batch = Vec::new();
    reader.read(&mut batch).unwrap();
    let streams = &reader.dictionary().streams;
    let found: Vec<&str> = batch.iter().map(|r| streams[r.stream as usize].name.as_str()).collect();
    assert_eq!(found, ["b", "", "a"]);
    let disks = texts(&["b", "a", "b"]);
    let found = read(&table(&[("lun", disks)]), PLAIN).unwrap();
    assert_eq!(found.iter().map(|r| r.volume).collect::<Vec<_>>(), [0, 1, 0]);
}

/// The file has more rows than are read at a time.
#[test]
fn rows_are_counted_over_all_of_the_file() {
    const ROWS: usize = 150_000;
    let long = |bad: i64| {
        let mut lens = vec![512; ROWS];
        (lens[7], lens[ROWS - 10]) = (0, bad);
        let columns: Table = vec![
            ("at_ns".into(), integers(&(0..ROWS as i64).map(|n| n * 1000).collect::<Vec<_>>())),
            ("op".into(), texts(&vec!["read"; ROWS])),
            ("offset".into(), integers(&vec![0; ROWS])),
            ("len".into(), integers(&lens)),
        ];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        write(&path, &columns, PLAIN);
        let mut reader = open(&path, None).unwrap();
        let (mut batch, mut read) = (Vec::new(), 0);
        loop {
            if let Err(error) = reader.read(&mut batch) {
                return Err(error.to_string());
            }
            if batch.is_empty() {
                return Ok((read, reader.notes().rows_skipped));
            }
            read += batch.len();
        }
    };
    assert_eq!(long(0), Ok((ROWS - 2, 2)));
    let said = long(-1).unwrap_err();
    assert!(said.contains(&format!("row {}: got \"-1\"", ROWS - 9)), "{said}");
}

#[test]
fn how_much_was_read_is_told_by_rows() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/terasort.parquet");
    let bytes = std::fs::metadata(&path).unwrap().len();
    let consumed = forebay_trace::unpack::Consumed::default();
    let mut reader = forebay_trace::open::open_counting(&path, None, consumed.clone()).unwrap();
    let (mut batch, mut told) = (Vec::new(), Vec::new());
    loop {
        reader.read(&mut batch).unwrap();
        if batch.is_empty() {
            break;
        }
        told.push(consumed.load(std::sync::atomic::Ordering::Relaxed));
    }
    // Rows are read ahead in order to sort them by time.
    assert!(told.is_sorted() && (1..bytes).contains(&told[0]), "{told:?}");
    assert!(told.last().is_some_and(|last| last.abs_diff(bytes) <= 1), "{told:?} of {bytes}");
}

/// Returns whether a table with these column names is rejected, and all its messages.
fn judged(names: [&str; 3], rows: &[(u64, u64, u64)], from: Option<&str>) -> (bool, String) {
    let column =
        |of: fn(&(u64, u64, u64)) -> u64| unsigned(&rows.iter().map(of).collect::<Vec<u64>>());
    let ops = texts(&vec!["read"; rows.len()]);
    let [at, offset, len] = names.map(String::from);
    let columns: Table = vec![
        (at, column(|r| r.0)),
        ("op".into(), ops),
        (offset, column(|r| r.1)),
        (len, column(|r| r.2)),
    ];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    write(&path, &columns, PLAIN);
    let mut reader = open(&path, from).unwrap();
    let mut batch = Vec::new();
    loop {
        if let Err(error) = reader.read(&mut batch) {
            return (true, error.to_string());
        }
        if batch.is_empty() {
            return (false, reader.notes().warnings.join("\n"));
        }
    }
}

/// A request: its arrival in us, and its offset and length in bytes.
type Row = (u64, u64, u64);

/// Returns several kinds of workloads with 2000 requests each.
fn kinds() -> Vec<(&'static str, Vec<Row>)> {
    let rows = |of: fn(u64) -> (u64, u64, u64)| (0..2_000).map(of).collect::<Vec<_>>();
    let mixed = |n: u64| n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
    let mut kinds = vec![
        ("scattered", rows(|n| (n * 731 + n % 7, n * 7919 % 100_003 * 4096, 4096))),
        ("a stream", rows(|n| (n * 950 + n % 11, n * 65_536, 65_536))),
        ("a backup", rows(|n| (n * 5_003 + n % 13, n << 20, 1 << 20))),
    ];
    let odd = (0..2_000).map(|n| (n * 611, mixed(n) % 50_000_000 * 512, (1 + mixed(n) % 64) * 512));
    kinds.push(("odd sectors", odd.collect()));
    kinds
}

#[test]
fn units_of_tables_are_judged_as_those_of_headers_are() {
    const EPOCH_US: u64 = 1_716_900_000_000_000;
    for (kind, rows) in kinds() {
        let with = |at: &dyn Fn(u64) -> u64, place: u64, len: u64| -> Vec<(u64, u64, u64)> {
            rows.iter().map(|&(us, offset, bytes)| (at(us), offset / place, bytes / len)).collect()
        };
        let us = |us: u64| us;
        // Tables whose names state the right units.
        for (names, rows) in [
            (["time_us", "offset", "len"], with(&us, 1, 1)),
            (["time_us", "lba", "sectors"], with(&us, 512, 512)),
            (["time_us", "lba", "bytes"], with(&us, 512, 1)),
            (["time_us", "offset_bytes", "sectors"], with(&us, 1, 512)),
            (["ts_us", "offset", "length"], with(&|us| us + EPOCH_US, 1, 1)),
            (["time_ns", "offset", "len"], with(&|us| (us + EPOCH_US) * 1000, 1, 1)),
            (["at_ns", "offset", "len"], with(&|us| us * 1000, 1, 1)),
        ] {
            let (refused, said) = judged(names, &rows, None);
            assert!(!refused && !said.contains("units may be wrong"), "{kind} {names:?}: {said}");
        }
        // Tables whose names state wrong units. Each is reported, most are rejected, and --from
        // reads all of them.
        for (names, rows, expected) in [
            (["time_us", "offset", "len"], with(&us, 512, 512), "\"len_sectors\""),
            (["time_us", "lba", "sectors"], with(&us, 1, 1), "\"len_bytes\""),
            (["time_us", "lba", "len_bytes"], with(&us, 1, 1), "\"offset_bytes\""),
            (["time_us", "offset", "sectors"], with(&us, 512, 512), "sectors"),
            (["time_ns", "offset", "len"], with(&|us| us + EPOCH_US, 1, 1), "\"time_us\""),
            (["time_us", "offset", "len"], with(&|us| (us + EPOCH_US) / 1000, 1, 1), "\"time_ms\""),
        ] {
            // Sectors in steps of a MiB may also be bytes in steps of 2 KiB.
            if kind == "a backup" && expected == "\"len_sectors\"" {
                continue;
            }
            let (refused, said) = judged(names, &rows, None);
            assert!(said.contains(expected), "{kind} {names:?}: {refused} {said}");
            let (refused, told) = judged(names, &rows, Some("parquet"));
            assert!(!refused, "{kind} {names:?}: {told}");
            if said.contains(&named("from=parquet")) {
                assert!(!said.contains("columns="), "{said}");
            }
        }
    }
}

#[test]
fn a_latency_below_zero_is_unknown_and_reported() {
    let latencies = integers(&[5, -3, 7]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    write(&path, &table(&[("latency_ns", latencies)]), PLAIN);
    let mut reader = open(&path, None).unwrap();
    let (mut batch, mut all) = (Vec::new(), Vec::new());
    loop {
        reader.read(&mut batch).unwrap();
        if batch.is_empty() {
            break;
        }
        all.extend(batch.iter().map(|record| record.latency.map(|latency| latency.0)));
    }
    assert_eq!(all, [Some(5), None, Some(7)]);
    let told = &reader.notes().warnings;
    assert!(told.iter().any(|told| told.starts_with("1 latency is negative")), "{told:?}");
}
