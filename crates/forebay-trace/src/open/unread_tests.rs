//! Tests content that is not a trace as it is, and values that are missing or impossible.

use forebay_core::{Nanos, Op};

use super::field_tests::{only, read, read_as};
use crate::{RunEvidence, RunStart};
use forebay_ask::{Spelling, spelled};

const S: u64 = 1_000_000_000;

/// Returns the error message.
fn refused(text: impl AsRef<[u8]>) -> String {
    spelled(&read_as("trace", text, None).unwrap_err(), Spelling::Command)
}

/// Returns 300 rows, in which times are written as 0 where `is_zero` says so.
fn with_zeros(unit: &str, is_zero: impl Fn(u64) -> bool) -> String {
    let per_s = match unit {
        "s" => 1,
        "ms" => 1_000,
        "us" => 1_000_000,
        _ => S,
    };
    let time = |n: u64| if is_zero(n) { 0 } else { 1_000_000_000 * per_s + n * per_s };
    let rows: String = (0..300).map(|n| format!("{},R,{},4096\n", time(n), n * 4096)).collect();
    format!("time_{unit},op,offset,len\n{rows}")
}

#[test]
fn missing_times_in_the_first_rows_do_not_make_the_others_wild() {
    for unit in ["s", "ms", "us", "ns"] {
        let cases: [&dyn Fn(u64) -> bool; 8] = [
            &|n| n == 0,
            &|n| n == 1,
            &|n| n == 2,
            &|n| n < 2,
            &|n| n < 7,
            &|n| n == 1 || n == 200,
            &|n| n % 3 == 0,
            &|n| n % 3 == 2,
        ];
        for (case, is_zero) in cases.into_iter().enumerate() {
            let (records, notes) = read(with_zeros(unit, is_zero));
            let told = only(&notes);
            let zeros = (0..300).filter(|n| is_zero(*n)).count();
            let case = format!("{unit}, case {case}: {told}");
            assert!(told.starts_with(&format!("{zeros} request")), "{case}");
            assert!(told.contains("treated as if"), "{case}");
            assert!(records.last().unwrap().at.0 <= 299 * S, "{case}");
        }
    }
    // The recording begins at 0 and then pauses.
    for unit in ["s", "us"] {
        let (records, notes) = read(format!(
            "time_{unit},op,offset,len\n0,R,0,4096\n20000000,R,0,4096\n20000001,R,0,4096\n"
        ));
        assert!(notes.warnings.iter().all(|told| !told.contains("treated as if")), "{notes:?}");
        assert!(records[1].at > Nanos::ZERO);
    }
}

#[test]
fn times_since_1970_are_not_filetimes() {
    for (per_s, unit) in [(1_000_000, "us"), (1_000, "ms"), (1, "s")] {
        for step in [1, per_s / 100 + 1] {
            let row = |n: u64| {
                let time = 1_200_000_000 * per_s + n * step;
                format!("{time},hm,0,Read,{},4096,100\n", n * 40_960)
            };
            let told = refused((0..2000).map(row).collect::<String>());
            assert!(told.contains(&format!("--columns at:{unit},volume,")), "{told}");
        }
    }
    let row = |n: u64| format!("{},hm,0,Read,0,4096,100\n", 128_166_372_003_061_629 + n * 70_000);
    let (_, notes) = read((0..2000).map(row).collect::<String>());
    assert_eq!(notes.warnings, [""; 0]);
}

#[test]
fn a_tracer_whose_latencies_are_negative_is_refused() {
    let header = "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n";
    let row = |n: u64, latency: &str| format!("{n}.5 a 77 sda W {} 4096 {latency}\n", n * 8);
    let rows = |negative: u64| {
        (0..200).map(|n| row(n, if n < negative { "-0.3" } else { "0.4" })).collect::<String>()
    };
    let told = refused(header.to_owned() + &rows(150));
    assert!(told.contains("150 of about 200 requests so far with a latency that is neg"), "{told}");
    let (_, notes) = read(header.to_owned() + &rows(99));
    assert!(only(&notes).starts_with("99 latencies are negative"), "{notes:?}");
}

#[test]
fn latencies_that_are_all_zero_are_unknown() {
    let rows = |count: u64, latency: &dyn Fn(u64) -> u64| {
        let row = |n: u64| format!("{n},R,{},4096,{}\n", n * 4096, latency(n));
        let rows: String = (0..count).map(row).collect();
        format!("time_s,op,offset,len,latency_ms\n{rows}")
    };
    for count in [10, 500] {
        let (records, notes) = read(rows(count, &|_| 0));
        assert!(records.iter().all(|record| record.latency.is_none()));
        let told = format!("the first {count} latencies are all 0: latencies of 0 are treated");
        assert!(only(&notes).starts_with(&told), "{notes:?}");
    }
    let (records, notes) = read(rows(500, &|n| n / 499));
    assert_eq!(records[0].latency, Some(Nanos::ZERO), "{notes:?}");
    let (records, _) = read(rows(100_000, &|n| n / 90_000));
    assert_eq!(records[89_999].latency, None);
    assert_eq!(records[90_000].latency, Some(Nanos(1_000_000)));
}

#[test]
fn containers_say_how_to_unpack_them() {
    let zip = b"PK\x03\x04\x14\0\0\0\0\0\x82}a.csvtime_s,op,offset,len\n0.5,R,0,4096\n";
    for (content, what) in [
        (&zip[..], "a zip archive or a spreadsheet, expected a trace; unpack it first (unzip -p"),
        (b"7z\xbc\xaf\x27\x1c\0\x04", "a 7z archive"),
        (b"{\"time_s\":0.0,\"op\":\"R\",\"offset\":0}\n", "got JSON, expected a trace; convert it"),
        (b"[\n  {\"time_s\": 0.0}\n]", "jq -r '.[] | ["),
        (
            b"\x1b[1mTIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\x1b[0m\n0.5 a 1 s R 0 512 1\n",
            "text with terminal colors",
        ),
    ] {
        let told = refused(content);
        assert!(told.contains(what), "{told}");
    }
}

#[test]
fn a_log_of_fio_without_its_first_line_is_recognized() {
    for (text, version) in [
        ("0 /dev/sda add\n0 /dev/sda open\n5 /dev/sda read 0 4096\n", 3),
        ("5 /dev/sda write 0 4096\n9 /dev/sda read 0 4096\n", 3),
        ("/dev/sda add\n/dev/sda open\n/dev/sda read 0 4096\n", 2),
    ] {
        let told = refused(text);
        assert!(told.contains(&format!("add \"fio version {version} iolog\"")), "{told}");
    }
}

#[test]
fn rows_with_additional_columns_name_the_format() {
    for (first, format) in [("0.5", "disksim-ascii"), ("5", "mqsim")] {
        let rows: String = (0..9).map(|n| format!("{first} 0 {} 8 1 x y\n", n * 8)).collect();
        let told = refused(&rows);
        let expected = format!("--from {format} reads these rows and ignores the columns from");
        assert!(told.contains(&expected), "{told}");
        assert_eq!(read_as("trace", &rows, Some(format)).unwrap().0.len(), 9);
    }
}

#[test]
fn a_repeated_name_does_not_suggest_another_format() {
    let told = refused("time_s,op,offset,len,len\n0.1,R,0,4096,4096\n0.2,R,0,4096,4096\n");
    assert!(told.contains("one column called \"len\"") && !told.contains("alibaba"), "{told}");
}

#[test]
fn negative_times_say_what_to_do() {
    let told = refused("time_s,op,offset,len\n-5,R,0,4096\n-4.5,R,0,4096\n");
    assert!(told.contains("times must not be negative: add a constant to all"), "{told}");
    assert!(
        told.contains("; none of the first 2 rows can be read") && !told.contains("--bad-rows"),
        "{told}"
    );
}

#[test]
fn holes_are_described_by_their_length() {
    let rows = |n: u64| format!("{n},R,{},4096\n", n * 4096);
    let hole = |bytes: usize, end: &str| {
        let begin = "time_s,op,offset,len\n".to_owned() + &(0..200).map(rows).collect::<String>();
        begin + &"\0".repeat(bytes) + end + &(200..400).map(rows).collect::<String>()
    };
    for bytes in [8, 4096, 100_000] {
        let (records, notes) = read(hole(bytes, "\n"));
        let told = only(&notes);
        assert!(told.contains(&format!("a hole of {bytes} NUL bytes in column")), "{told}");
        assert_eq!(records.len(), 400);
    }
    let (_, notes) = read(hole(64, "7,R,0,4096\n"));
    assert!(only(&notes).contains("a hole of 64 NUL bytes before \"7\" in column"), "{notes:?}");
}

#[test]
fn decimal_commas_of_a_tracer_are_noted() {
    let header = "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n";
    let (_, notes) =
        read(header.to_owned() + "0,5 a 77 sda W 8 4096 0,4\n1,5 a 7 sda R 8 512 0,4\n");
    assert_eq!(only(&notes), "numbers are read with decimal commas");
}

#[test]
fn calls_without_an_end_or_a_beginning_are_counted() {
    let text = "7 10.0 <... read resumed>\"\", 512) = 512 <0.1>\n\
        7 10.1 pread64(5</db>, \"\"..., 512, 1024) = 512 <0.1>\n\
        8 10.2 pread64(5</db>,  <unfinished ...>\n\
        9 10.3 futex(0x7f, FUTEX_WAIT, 2, NULL <unfinished ...>\n\
        8 10.4 pwrite64(5</db>, \"\"..., 512, 0 <unfinished ...>\n\
        7 10.5 pread64(5</db>, \"\"..., 512, 512) = 512 <0.1>\n";
    let (records, notes) = read(text);
    assert_eq!((records.len(), records[0].op), (2, Op::Read));
    let expected = [
        "2 calls have no end in the trace and are left out",
        "1 call has no beginning in the trace and is left out",
    ];
    assert_eq!(notes.warnings, expected);
}

#[test]
fn a_step_back_after_a_comment_is_reported() {
    let text = "# run 1\ntime_s,op,offset,len\n0.5,R,0,4096\n1.0,R,4096,4096\n# run 2 begins\n\
        0.2,W,0,4096\n0.9,W,4096,4096\n# the end\n1.5,R,0,4096\n";
    let (_, notes) = read(text);
    let told = "the clock goes back by 800 ms at request 3 of the file, after a comment: ";
    assert!(only(&notes).starts_with(told), "{notes:?}");
    let start = RunStart {
        request: 3,
        back_ns: 800_000_000,
        evidence: RunEvidence::Comment,
        is_appended: false,
    };
    assert_eq!(notes.run_starts, [start]);
    assert!(only(&notes).contains("split_runs"), "{notes:?}");
    let (_, notes) = read("time_s,op,offset,len\n0.5,R,0,4096\n# a\n1.0,R,4096,4096\n");
    assert!(notes.warnings.len() == 1, "{notes:?}");
}

#[test]
fn many_runs_over_the_same_time_are_reported() {
    for (runs, rows) in [(5, 100), (30, 100), (200, 70)] {
        let row = |n: u64| format!("{},R,{},4096\n", n % rows * 5_000 + n / rows, n * 4096);
        let rows: String = (0..runs * rows).map(row).collect();
        let (_, notes) = read(format!("time_us,op,offset,len\n{rows}"));
        let told = only(&notes);
        assert!(told.starts_with(&format!("the clock goes back {} times", runs - 1)), "{told}");
        assert!(told.contains("split_runs"), "{told}");
    }
}
