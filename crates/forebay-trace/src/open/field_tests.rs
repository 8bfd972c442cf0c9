//! Tests defective output of tracers and related tools, which must be read as intended or reported.

use std::fs;

use forebay_core::{Nanos, Op};

use super::*;
use crate::{Notes, Record};

const SNOOP: &str = "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n";
/// The setting that every row must be readable.
const STRICT: Option<&str> = Some("bad-rows:0:");
const S: u64 = 1_000_000_000;

/// Returns all requests in a file with this name and content, and the notes. If it cannot be read,
/// returns the error message.
pub(super) fn read_as(
    name: &str,
    text: impl AsRef<[u8]>,
    from: Option<&str>,
) -> Result<(Vec<Record>, Notes), String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, text).unwrap();
    let told = |error: TraceError| error.to_string();
    let mut reader = open(&path, from).map_err(told)?;
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    loop {
        reader.read(&mut batch).map_err(told)?;
        if batch.is_empty() {
            return Ok((all, reader.notes().clone()));
        }
        all.extend_from_slice(&batch);
    }
}

pub(super) fn read(text: impl AsRef<[u8]>) -> (Vec<Record>, Notes) {
    read_as("trace", text, None).unwrap()
}

/// Returns the only note, not counting notes about how a header was interpreted.
pub(super) fn only(notes: &Notes) -> &str {
    let own: Vec<&String> =
        notes.warnings.iter().filter(|told| !told.starts_with("the header names")).collect();
    let [only] = own[..] else { panic!("{own:?}") };
    only
}

fn at(records: &[Record]) -> Vec<u64> {
    records.iter().map(|record| record.at.0).collect()
}

/// Returns rows of CSV with these times in microseconds.
fn rows(times: impl IntoIterator<Item = u64>) -> String {
    let row = |(n, us): (u64, u64)| format!("{us},R,{},4096\n", n * 7919 % 100_000 * 4096);
    let rows: String = (0..).zip(times).map(row).collect();
    format!("time_us,op,offset,len\n{rows}")
}

#[test]
fn numbers_as_pandas_writes_them() {
    let text = "time_s,op,offset,len,latency_s\n0.0,R,0.0,4096.0,0.0001\n1e-05,W,4096.0,4096.0,\n\
                2.5e-05,W,1.6777216e+07,4096,1e-04\n";
    let (records, _) = read(text);
    assert_eq!(at(&records), [0, 10_000, 25_000]);
    let seen: Vec<_> = records.iter().map(|r| (r.offset, r.len, r.latency)).collect();
    let latency = Some(Nanos(100_000));
    assert_eq!(seen, [(0, 4096, latency), (4096, 4096, None), (1 << 24, 4096, latency)]);
    let told = read_as("t", text.replace("1.6777216e+07", "4096.5"), STRICT).unwrap_err();
    assert!(told.contains("line 4: got \"4096.5\" in column offset"), "{told}");
}

#[test]
fn an_empty_flush_points_nowhere() {
    for (offset, len) in [
        ("18446744073709551615", "0"),
        ("9223372036854775808", "0"),
        ("1.8446744073709552e+19", "0.0"),
        ("1.8446744073709552e+19", ""),
        ("-1.0", "0.0"),
        ("-1e0", ""),
        ("NaN", "NaN"),
        ("inf", "0.0"),
        ("", "0.0"),
        ("", ""),
    ] {
        for unit in ["offset", "lba"] {
            let text = format!("time_us,op,{unit},len_bytes\n0,R,8,4096\n9,flush,{offset},{len}\n");
            let (records, notes) = read(&text);
            assert_eq!((records[1].op, records[1].offset, records[1].len), (Op::Flush, 0, 0));
            assert_eq!(notes.rows_skipped, 0);
        }
    }
    let canonical = "at_ns,op,offset,len,stream,volume,latency_ns,flags,thread,process,name\n\
                     0,flush,18446744073709551615,0,0,v,,,,,\n";
    assert_eq!(read(canonical).0[0].offset, 0);
    for bad in [
        "R,18446744073709551615,512",
        "flush,18446744073709551615,512",
        "flush,1.8446744073709552e+19,512.0",
        "R,1.8446744073709552e+19,512",
        "R,-1.0,512",
        "W,,512",
        "R,0,",
    ] {
        let told = read_as("t", format!("time_us,op,offset,len\n0,{bad}\n"), None).unwrap_err();
        assert!(told.contains("line 2"), "{told}");
    }
}

#[test]
fn trims_may_be_longer_than_requests_that_move_data() {
    let text = "time_us,op,offset,len\n0,R,0,4096\n9,discard,4096,2147483648\n10,trim,0,4294967295\n\
                20,D,0,4294967296\n30,W,0,4096\n";
    let (records, notes) = read(text);
    let seen: Vec<_> = records.iter().map(|r| (r.op, r.len)).collect();
    let half = (Op::Trim, 1 << 31);
    assert_eq!(seen, [(Op::Read, 4096), half, (Op::Trim, u32::MAX), half, half, (Op::Write, 4096)]);
    assert!(only(&notes).starts_with("1 trim of 4 GiB or more is split"), "{notes:?}");
    let told = read_as("t", text.replace("discard", "F"), STRICT).unwrap_err();
    assert!(told.contains("at most 4 GiB"), "{told}");
}

#[test]
fn latencies_below_zero_are_unknown_whoever_wrote_them() {
    for (unit, wrapped) in [
        ("ns", ["18446744073709551000", "4294967290", "9223372036854775807"]),
        ("us", ["18446744073709551615", "4294967295", "18446744073709000"]),
        ("ms", ["18446744073709", "4294967295", "86400001"]),
        ("s", ["18446744073.709", "4294967295", "86401"]),
    ] {
        let row = |n: usize| {
            let latency = wrapped.get(n.wrapping_sub(5)).copied().unwrap_or("3");
            format!("{n},R,{},4096,{latency}\n", n * 4096)
        };
        let rows: String = (0..200).map(row).collect();
        let (records, notes) = read(format!("time_ms,op,offset,len,latency_{unit}\n{rows}"));
        let unknown: Vec<usize> = (0..200).filter(|&n| records[n].latency.is_none()).collect();
        assert_eq!(unknown, [5, 6, 7], "{unit}");
        assert!(only(&notes).starts_with("3 latencies are negative"), "{notes:?}");
    }
    let canonical = "at_ns,op,offset,len,stream,volume,latency_ns,flags,thread,process,name\n\
                     0,read,0,512,0,v,18446744073709551000,,,,\n5,read,0,512,0,v,7,,,,\n";
    let (records, notes) = read(canonical);
    assert_eq!((records[0].latency, records[1].latency), (None, Some(Nanos(7))));
    assert!(only(&notes).starts_with("1 latency is negative"), "{notes:?}");
}

#[test]
fn a_clock_that_is_set_is_reported() {
    let slewed = rows((0..3000).map(|n| 900_000_000 + n * 5_003 - n / 1500 * 400_000));
    let expected = "the clock goes back by 395 ms at request 1501 of the file: ";
    assert!(only(&read(slewed).1).starts_with(expected));
    let us = |n: u64| 1_000_000_365 + n * 5_003;
    let back = (0..3000).map(|n| if n < 1500 { us(n) } else { us(n) - 30_000_000 });
    let (records, notes) = read(rows(back.clone()));
    assert!(records.is_sorted_by_key(|record| record.at));
    let expected =
        "the clock goes back by 30.0 s at request 1501 of the file: 1500 requests were sorted";
    assert!(only(&notes).starts_with(expected), "{notes:?}");
    let (records, notes) = read_as("t", rows(back), Some(SPLIT_RUNS)).unwrap();
    let (first, last) = (records[1499], records[1500]);
    assert_eq!((first.at.0, last.at.0), (1499 * 5_003_000, 1499 * 5_003_000 + S));
    assert!(only(&notes).starts_with("the file holds 2 runs"), "{notes:?}");

    const YEARS_US: u64 = 3652 * 86_400 * 1_000_000;
    let ahead = |from: u64, to: u64| {
        rows((0..3000).map(move |n| us(n) + if (from..to).contains(&n) { YEARS_US } else { 0 }))
    };
    let (_, notes) = read(ahead(1500, 1501));
    assert!(only(&notes).starts_with("1 request has a timestamp up to 3652 days"), "{notes:?}");
    let (_, notes) = read(ahead(1500, 3000));
    assert!(
        only(&notes).contains("1 gap; it lasts 3652 days and ends at request 1501"),
        "{notes:?}"
    );
    let zero = rows((0..3000).map(|n| if n == 7 { 0 } else { 20 * YEARS_US + us(n) }));
    let (_, notes) = read(zero);
    assert!(notes.warnings.iter().any(|told| told.starts_with("1 request has a timestamp up to")));
}

#[test]
fn more_rows_than_are_sorted_are_refused_with_what_the_clock_did() {
    let times = (0..80_000).map(|n| n * 1_000).chain((0..80_000).map(|n| n * 1_000));
    let told = read_as("t", rows(times.clone()), None).unwrap_err();
    assert!(told.contains("the clock goes back by 80.0 s at request 80001"), "{told}");
    assert!(told.contains("split_runs"), "{told}");
    assert_eq!(read_as("t", rows(times), Some("split-runs:csv")).unwrap().0.len(), 160_000);
}

#[test]
fn runs_of_blktrace_in_one_file_are_told_without_a_sort() {
    let us = |n: u64| n % 2000 * 1_000;
    let text: String = (0..4000)
        .map(|n| {
            format!(
                "8,16 0 {n} {}.{:06} 5 Q R {} + 8 [a]\n",
                us(n) / 1_000_000,
                us(n) % 1_000_000,
                n * 8
            )
        })
        .collect();
    let told = read_as("t", &text, None).unwrap_err();
    assert!(told.contains("goes back, by 2.00 s at line 2001"), "{told}");
    for from in [SPLIT_RUNS, "split-runs:blkparse"] {
        let (records, notes) = read_as("t", &text, Some(from)).unwrap();
        let expected = |n: u64| us(n) * 1_000 + n / 2000 * 2_999_000_000;
        assert_eq!(at(&records), (0..4000).map(expected).collect::<Vec<_>>());
        assert!(notes.warnings.iter().any(|told| told.contains("holds 2 runs")), "{notes:?}");
    }
    assert!(told.contains("split_runs") && !told.contains("sort"), "{told}");
    let record = |n: u64| {
        let mut bytes = Vec::new();
        bytes.extend(0x6561_7407_u32.to_le_bytes());
        bytes.extend((n as u32).to_le_bytes());
        [us(n) * 1_000, n * 8].iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        [4096, 1 << 16 | 1, 5, 8 << 20, 0u32].iter().for_each(|n| bytes.extend(n.to_le_bytes()));
        bytes.extend([0; 4]);
        bytes
    };
    let binary: Vec<u8> = (0..4000).flat_map(record).collect();
    let told = read_as("t.blktrace.0", binary, None).unwrap_err();
    assert!(told.contains("goes back, by 2.00 s at event 2001"), "{told}");
    let (late, rest) = told.split_once(" of 4000 requests after their time").expect(&told);
    let late: u64 = late.rsplit(' ').next().unwrap().parse().unwrap();
    assert!((1000..=2000).contains(&late), "{told}");
    assert!(rest.contains("another recording") && !told.contains("sort"), "{told}");
}

#[test]
fn a_second_run_is_told_and_can_be_put_behind_the_first() {
    let row = |s: &str, sector: u64| format!("{s} a 7 sda W {sector} 4096 0.40\n");
    let run = format!("{}{}", row("0.000000", 1000), row("5.000000", 2000));
    let text = format!("{SNOOP}{run}{SNOOP}{run}");
    let has = |notes: &Notes, part| notes.warnings.iter().any(|told| told.contains(part));
    for from in [None, Some(SPLIT_RUNS), Some("split-runs:snoop")] {
        let (records, notes) = read_as("t", &text, from).unwrap();
        assert_eq!(at(&records), [0, 5 * S, 6 * S, 11 * S]);
        assert!(has(&notes, "1 header line is in the middle"), "{notes:?}");
        assert!(has(&notes, "the file holds 2 runs: each starts 1.00 s after"), "{notes:?}");
        assert!(!has(&notes, "goes back"), "{notes:?}");
    }
    let (records, notes) = read(format!("{text}{SNOOP}{run}"));
    assert_eq!(at(&records)[4..], [12 * S, 17 * S]);
    assert!(has(&notes, "the file holds 3 runs"), "{notes:?}");
    // Without the second header, the clock may have been set, and another disk, or a clock that
    // shows the date, may have been recorded at the same time.
    let overlaid = [
        text.replacen(SNOOP, "", 2).replacen("", SNOOP, 1),
        text.replacen("sda", "sdb", 2),
        rows((0..20).map(|n| 1_700_000_000_000_000 + n * 100_001)).repeat(2),
    ];
    for text in overlaid {
        let (records, notes) = read(&text);
        assert_eq!((records[0].at.0, records[1].at.0), (0, 0), "{text}");
        assert!(has(&notes, "the clock goes back by ") && has(&notes, "split_runs"), "{notes:?}");
    }
    let canonical = "at_ns,op,offset,len,stream,volume,latency_ns,flags,thread,process,name\n\
                     0,read,0,512,0,v,,,,,\n2000000007,read,0,512,0,v,,,,,\n";
    for csv in [&*rows((0..20).map(|n| n * 100_001)), canonical] {
        let (_, notes) = read(format!("{csv}{csv}"));
        assert!(has(&notes, "1 header line is in the middle"), "{notes:?}");
        assert!(has(&notes, "the file holds 2 runs"), "{notes:?}");
        let (_, notes) = read(format!("\u{feff}{csv}\u{feff}{csv}"));
        assert!(has(&notes, "1 header line is in the middle"), "{notes:?}");
        let (_, notes) = read_as("t", format!("{csv}{csv}"), Some(SPLIT_RUNS)).unwrap();
        assert!(has(&notes, "the file holds 2 runs"), "{notes:?}");
        // A file with other columns is a different table.
        let other = csv.replacen("offset,len", "len,offset", 1);
        assert!(read_as("t", format!("{csv}{other}"), None).is_err());
    }
    let csv = rows((0..20).map(|n| n * 1_000));
    let other = csv.replacen("op,", "OP,", 1);
    let told = read_as("t", format!("{csv}{other}"), None).unwrap_err();
    assert!(told.contains("line 22") && told.contains("head -n 21 and tail -n +22"), "{told}");
}

#[test]
fn a_last_number_that_is_cut_is_left_out_or_reported() {
    let named = |columns: &str, rows: &str| read(format!("{columns}\n{rows}"));
    for (columns, rows, left) in [
        ("time_s,op,offset,len", "0.1,R,0,4096\n0.2,W,4096,4096\n0.3,R,8192,40", 2),
        ("time_s,op,len,offset", "0.1,R,4096,0\n0.2,W,4096,4096\n0.3,R,4096,819", 2),
        ("op,offset,len,time_s", "R,0,4096,17.1\nW,4096,4096,17.2\nR,8192,4096,1", 2),
        ("time_s,op,offset,len", "0.1,R,0,4096\n0.2,W,4096,4096\n0.3,R,8192,4096", 3),
        ("time_s,op,offset,len", "0.1,R,0,4096\n0.2,W,4096,4096\n0.3,R,8192,409", 2),
        ("time_s,op,offset,len", "0.1,R,0,4096\n0.2,W,4096,512", 2),
        // A length that is not a multiple of a sector may be a new length.
        ("time_s,op,offset,len", "0.1,R,0,4096\n0.2,W,4096,4096\n0.3,R,8192,1234", 3),
        ("time_s,op,offset,len,disk", "0.1,R,0,4096,sda\n0.2,W,4096,4096,sd", 2),
        ("time_s,op,offset,len,latency_us", "0.1,R,0,4096,55\n0.2,W,4096,4096,5", 2),
    ] {
        let (records, notes) = named(columns, rows);
        assert_eq!(records.len(), left, "{columns}\n{rows}");
        let said = only(&notes);
        let lines = 1 + rows.lines().count();
        assert!(said.starts_with(&format!("the last line, {lines}, has no newline")), "{said}");
        assert_eq!(said.contains("left out"), left < lines - 1, "{said}");
        let (_, notes) = named(columns, &format!("{}\n", rows.rsplit_once('\n').unwrap().0));
        assert!(notes.warnings.iter().all(|told| told.starts_with("the header")), "{notes:?}");
    }
    let (_, notes) = read(format!("{SNOOP}1.0 a 7 sda W 8 4096 0.40\n2.0 a 7 sda W 8 4096 0.4"));
    assert!(only(&notes).starts_with("the last line, 3, has no newline"));
    let cut = format!("{SNOOP}1.0 a 7 sda W 8 4096 0.40\n2.0 a 7 sda W 8 40");
    assert!(only(&read(&cut).1).contains("the file is truncated"));
    assert!(read_as("t", cut, STRICT).unwrap_err().contains("the file may be truncated"));
    let header = "at_ns,op,offset,len,stream,volume,latency_ns,flags,thread,process,name\n";
    let (_, notes) = read(format!("{header}0,read,0,512,0,v,,,,,ab"));
    assert!(only(&notes).starts_with("the last line, 2, has no newline"), "{notes:?}");
    let cut = format!("{header}0,read,0,512,0,v,,,,,ab\n0,read,0,51");
    assert!(only(&read(&cut).1).contains("the file is truncated"));
    let told = read_as("t", cut, STRICT).unwrap_err();
    assert!(told.contains("the file may be truncated"), "{told}");
}

#[test]
fn columns_that_are_not_read_are_reported() {
    let msr = "128166385295514663,hm,0,Write,9056014336,2048,2833,9,x\n";
    let (_, notes) = read(msr.repeat(3));
    assert_eq!(
        only(&notes),
        "the rows have 2 columns after those of format msr, which are ignored"
    );
    let (_, notes) = read("time,obj_id,obj_size,next_use\n5,7,100,1\n");
    assert!(notes.warnings.iter().any(|told| told == "ignored columns: \"next_use\""));
    let (_, notes) = read("time_us,op,offset,len,await\n5,R,0,512,9\n");
    assert!(notes.warnings[0].ends_with("; not read: \"await\""), "{notes:?}");
}

#[test]
fn a_header_that_contradicts_the_rows_is_refused() {
    let row = |n: u64| {
        let us = n * 5_000 + n * 7919 % 4_000;
        format!("{}.{:06},R,{},4096\n", 1_716_900_000 + us / 1_000_000, us % 1_000_000, n * 4096)
    };
    let text: String = (0..2000).map(row).collect();
    let told = read_as("t", format!("time_ms,op,offset,len\n{text}"), None).unwrap_err();
    let columns = forebay_ask::named("columns=at:s,op,offset,len,skip=1");
    assert!(told.contains(&format!("if so, {columns};")), "{told}");
    assert!(read_as("t", format!("time_s,op,offset,len\n{text}"), None).is_ok());
    let told = read_as("t", format!("time_ms,op,lba,sectors\n{text}"), None).unwrap_err();
    assert!(told.contains("skip=1"), "{told}");
    let told = read_as("t", "time_s,op,offset,len\n1716900000123,R,0,512\n", None).unwrap_err();
    assert!(told.contains("in ms it is a date of this century"), "{told}");
}

/// Two runs of blkparse use the same sectors. Completions stay in their run, even if it is short.
#[test]
fn runs_of_blkparse_are_parted_with_their_completions() {
    for (gap_us, cpus) in [(100, 1), (700, 4), (20_000, 3)] {
        let run = |issues: bool| -> String {
            let mut events: Vec<(u64, String)> = (0..200u64)
                .flat_map(|n| {
                    let (cpu, number, sector) = (n % cpus, n / cpus * 2 + 1, n * 64);
                    let event = |us: u64, number: u64, action: &str| {
                        let (s, us_left) = (us / 1_000_000, us % 1_000_000);
                        let line = format!(
                            "8,16 {cpu} {number} {s}.{us_left:06}000 5 {action} R {sector} + 8 [a]\n"
                        );
                        (us, line)
                    };
                    let begin = n * gap_us + 1;
                    let action = if issues { "D" } else { "Q" };
                    [event(begin, number, action), event(begin + 3 * gap_us, number + 1, "C")]
                })
                .collect();
            events.sort();
            // The last completions of the first run are missing.
            events.truncate(397);
            events.into_iter().map(|event| event.1).collect()
        };
        for issues in [false, true] {
            let text = run(issues).repeat(2);
            let case = format!("{gap_us} us, {cpus} CPUs, {issues}");
            let (records, notes) = read_as("t", &text, Some(SPLIT_RUNS)).expect(&case);
            assert!(
                notes.warnings.iter().any(|told| told.contains("holds 2 runs")),
                "{case}: {notes:?}"
            );
            let known = records.iter().filter_map(|record| record.latency);
            assert_eq!((records.len(), known.clone().count()), (400, 394), "{case}");
            assert!(known.into_iter().all(|latency| latency.0 == 3 * gap_us * 1_000), "{case}");
            let told = match read_as("t", &text, None) {
                Ok((_, notes)) => notes.warnings.join("\n"),
                Err(told) => told,
            };
            assert!(
                told.contains("the clock goes back") && told.contains("split_runs"),
                "{case}: {told}"
            );
            let (_, notes) = read(run(issues));
            assert!(
                !notes.warnings.iter().any(|told| told.contains("goes back")),
                "{case}: {notes:?}"
            );
        }
    }
}

/// The same sectors are written repeatedly, and some completions are lost. Each write remains a
/// separate request.
#[test]
fn genuine_rewrites_are_not_taken_for_reissued_requests() {
    for apart_ms in [1_100u64, 5_000, 30_000] {
        for lost in [2u64, 5, 40] {
            let text: String = (0..40u64)
                .flat_map(|n| {
                    let ms = n * apart_ms;
                    let event = |ms: u64, action: &str| {
                        format!(
                            "8,16 0 {n} {}.{:03}000000 5 {action} W 800 + 8 [a]\n",
                            ms / 1000,
                            ms % 1000
                        )
                    };
                    let done = (n % lost != 1).then(|| event(ms + 2, "C"));
                    [Some(event(ms, "D")), done].into_iter().flatten()
                })
                .collect();
            let (records, notes) = read(&text);
            let case = format!("{apart_ms} ms, {lost}: {notes:?}");
            assert_eq!(records.len(), 40, "{case}");
            let known: Vec<u64> = records.iter().filter_map(|r| r.latency.map(|l| l.0)).collect();
            let expected = (0..40).filter(|n| n % lost != 1).count();
            assert_eq!(known, vec![2_000_000; expected], "{case}");
        }
    }
    // If the driver is busy, the request is issued again at once.
    for apart_ms in [1, 30, 900] {
        let text = format!(
            "8,16 0 1 0.000000000 5 D W 800 + 8 [a]\n8,16 0 2 0.{apart_ms:03}000000 5 D W 800 + 8 [a]\n\
             8,16 0 3 0.{:03}000000 5 C W 800 + 8 [a]\n",
            apart_ms + 5
        );
        assert_eq!(read(&text).0.len(), 1, "{apart_ms}");
    }
}

#[test]
fn fields_beyond_the_header_are_reported() {
    let row =
        |n: u64, name: &str| format!("{},R,{},4096,{name}\n", n * 1_000, n * 7919 % 1000 * 4096);
    for separator in [",", ";", "\t"] {
        for every in [1u64, 7, 900] {
            let text: String = (0..2_000)
                .map(|n| row(n, if n % every == every - 1 { "kworker/0,flush" } else { "fio" }))
                .collect();
            let text = format!("time_us,op,offset,len,comm\n{text}").replace(',', separator);
            let (records, notes) = read(&text);
            assert_eq!(records.len(), 2_000);
            let told = only(&notes);
            let count = 2_000 / every;
            assert!(
                told.starts_with(&format!("{count} rows have more fields than the 5")),
                "{told}"
            );
            assert!(told.contains(&format!("first such line is {}", every + 1)), "{told}");
        }
    }
    // Names in quotes, separators at the end of lines, columns without a name, blank lines, and
    // rows with fewer fields.
    for (header, end) in [
        ("time_us,op,offset,len,comm", ""),
        ("time_us,op,offset,len,comm,", ","),
        ("time_us,op,offset,len,comm", ","),
        ("time_us,op,offset,len,comm,await,queue", ",5,7"),
        ("time_us,op,offset,len,comm,await,queue", ",5"),
    ] {
        let rows = (0..2_000).map(|n| {
            let name = if n % 3 == 0 { "\"kworker,flush\"" } else { "fio" };
            format!("{}{end}\n{}", row(n, name).trim_end(), if n % 50 == 0 { "\n" } else { "" })
        });
        let (records, notes) = read(format!("{header}\n{}", rows.collect::<String>()));
        assert_eq!(records.len(), 2_000);
        assert!(!notes.warnings.iter().any(|told| told.contains("more fields")), "{notes:?}");
    }
}

#[test]
fn a_fio_log_may_be_cut_anywhere() {
    for lens in
        [[4096, 4096, 4096], [512, 65_536, 131_072], [1_048_576, 8_192, 16_384], [5120, 512, 1024]]
    {
        for version in [2, 3] {
            let row = |n: u64, len: u64| match version {
                3 => format!("{} /dev/sda write {} {len}\n", n * 1000, n * 1_048_576),
                _ => format!("/dev/sda wait 1000 0\n/dev/sda write {} {len}\n", n * 1_048_576),
            };
            let rows: String = (0..30u64).map(|n| row(n, lens[n as usize % 3])).collect();
            let at = if version == 3 { "0 " } else { "" };
            let opened = format!("{at}/dev/sda add\n{at}/dev/sda open\n");
            let whole = format!("fio version {version} iolog\n{opened}{rows}");
            let last = whole.trim_end().rfind('\n').unwrap() + 1;
            for end in last..whole.len() {
                let said = match read_as("t", &whole[..end], None) {
                    Err(told) => told,
                    Ok((records, notes)) => {
                        assert!((29..=30).contains(&records.len()));
                        let is_known = |r: &Record| lens.contains(&u64::from(r.len));
                        assert!(records.iter().all(is_known), "{:?}", &whole[last..end]);
                        if end == last { "no newline".into() } else { notes.warnings.join("\n") }
                    }
                };
                let is_told =
                    said.contains("no newline") || said.contains("the last line has no newline");
                assert!(is_told, "{:?}: {said}", &whole[last..end]);
            }
        }
    }
}

#[test]
fn a_few_latencies_below_zero_are_unknown_and_many_are_refused() {
    for (unit, below, above) in
        [("us", "-3", "250"), ("s", "-0.000012", "0.00025"), ("ms", "-1e-3", "0.25")]
    {
        for every in [7u64, 100, 2_000] {
            let rows: String = (0..4_000)
                .map(|n| {
                    let latency = if n % every == every - 1 { below } else { above };
                    format!("{},W,{},4096,{latency}\n", n * 1_000, n * 4096)
                })
                .collect();
            let (records, notes) = read(format!("time_us,op,offset,len,latency_{unit}\n{rows}"));
            let unknown = records.iter().filter(|record| record.latency.is_none()).count() as u64;
            assert_eq!((records.len(), unknown), (4_000, 4_000 / every));
            let told = only(&notes);
            assert!(told.contains(" negative or ") && told.contains("unknown"), "{told}");
        }
        let rows: String =
            (0..4_000).map(|n| format!("{},W,{},4096,{below}\n", n * 1_000, n * 4096)).collect();
        let told = read_as("t", format!("time_us,op,offset,len,latency_{unit}\n{rows}"), None);
        assert!(
            told.as_ref().is_err_and(
                |told| told.contains("with a latency that is negative or exceeds a day")
            ),
            "{told:?}"
        );
    }
    // A completion before its arrival is also a negative latency, and our own format may contain
    // one too.
    let rows: String = (0..100)
        .map(|n| {
            format!("{},{},W,{},4096\n", n * 1_000, n * 1_000 + 99 - n % 50 / 49 * 150, n * 4096)
        })
        .collect();
    let (records, notes) = read(format!("start_us,end_us,op,offset,len\n{rows}"));
    assert_eq!((records.len(), records.iter().filter(|r| r.latency.is_none()).count()), (100, 2));
    assert!(only(&notes).starts_with("2 latencies are negative"), "{notes:?}");
    let header = "at_ns,op,offset,len,stream,volume,latency_ns,flags,thread,process,name\n";
    let (records, notes) =
        read(format!("{header}0,read,0,512,0,v,-5,,,,\n9,read,0,512,0,v,5,,,,\n"));
    assert_eq!((records[0].latency, records[1].latency), (None, Some(Nanos(5))));
    assert!(only(&notes).starts_with("1 latency is negative"), "{notes:?}");
}

/// Returns a trace of two volumes, one of which is above the other.
fn in_step() -> String {
    let pair = |n: u64| {
        let (us, offset) = (n * 1000, n * 7919 % 1000 * 4096);
        format!("{us},W,{offset},4096,dm-0\n{},W,{},4096,sda\n", us + 7, offset + (1 << 20))
    };
    let rows: String = (0..100).map(pair).collect();
    format!("time_us,op,offset,len,volume\n{rows}")
}

#[test]
fn volumes_in_step_are_reported_unless_one_is_chosen() {
    let (records, notes) = read(in_step());
    assert_eq!(records.len(), 200);
    assert!(only(&notes).starts_with("volumes dm-0 and sda move in step"), "{notes:?}");
    for from in ["volume:3:sda", "split-runs:volume:3:sda"] {
        let (records, notes) = read_as("trace", in_step(), Some(from)).unwrap();
        assert_eq!((records.len(), records[0].at.0, records[0].offset), (100, 0, 1 << 20));
        assert_eq!(only(&notes), "100 requests of other volumes left out");
    }
    let told = read_as("trace", in_step(), Some("volume:3:sdb")).unwrap_err();
    assert!(told.contains("expected one of its volumes: dm-0, sda"), "{told}");
    let nameless = "at_us,op,offset,len\n0,R,0,4096\n10,W,4096,4096\n";
    let told = read_as("trace", nameless, Some("volume:1:x")).unwrap_err();
    assert!(told.contains("expected a trace that names its volumes"), "{told}");
}
