//! Tests invalid and damaged traces on the real binary: they are either rejected, or read with a
//! warning that counts the faults.

use serde_json::Value;

use crate::command::{Folder, MSR, SPC, Verbs, described, ends, fails, forebay, json};

const BLKTRACE: &[u8] = include_bytes!("../../../fuzz/seeds/open/blktrace");
const PARQUET: &[u8] = include_bytes!("../../../fuzz/seeds/open/parquet");
const GZIP: &[u8] = include_bytes!("../../../fuzz/seeds/open/spc-gz");
const XZ: &[u8] = include_bytes!("../../../fuzz/seeds/open/spc-xz");
const ZSTD: &[u8] = include_bytes!("../../../fuzz/seeds/open/spc-zst");

#[test]
fn every_verb_rejects_files_that_are_no_traces() {
    let folder = Folder::new();
    for mut verb in folder.verbs(&folder.path("nowhere")) {
        fails(&mut verb, 2, &["nowhere", "No such file"]);
    }
    let noise: Vec<u8> =
        (0..9000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    folder.refused("empty", b"", &["empty file", "expected"]);
    folder.refused("noise", noise, &["got", "expected", "--from"]);
    folder.refused("prose", "Once upon a time\nthere was a disk.\n", &["Once upon", "--from"]);
    folder.refused("blank", "\n\n\n", &["expected"]);
}

#[test]
fn every_verb_rejects_truncated_traces() {
    let folder = Folder::new();
    for (name, whole) in [("gz", GZIP), ("xz", XZ), ("zst", ZSTD), ("parquet", PARQUET)] {
        folder.refused(name, &whole[..whole.len() - 9], &[]);
        folder.refused(name, &whole[..whole.len() / 2], &[]);
    }
    folder.refused("blktrace", &BLKTRACE[..20], &[]);
    folder.refused("damaged", [&BLKTRACE[..208], b"no record"].concat(), &["expected"]);
}

#[test]
fn damage_inside_a_parquet_file_causes_one_message() {
    let folder = Folder::new();
    for at in (4..PARQUET.len()).step_by(29) {
        let mut damaged = PARQUET.to_vec();
        damaged[at] ^= 0xff;
        let trace = folder.file("damaged.parquet", damaged);
        let mut describe = forebay(&["describe"]);
        let output = describe.arg(&trace).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!err.contains("panicked"), "byte {at}: {err}");
        match output.status.code() {
            Some(0) => {}
            Some(2) => fails(&mut describe, 2, &["damaged.parquet"]),
            other => panic!("byte {at}: exit {other:?}: {err}"),
        }
    }
}

#[test]
fn a_blktrace_truncated_in_its_last_record_keeps_the_others_with_a_note() {
    let (whole, err) = described(BLKTRACE);
    assert!(!err.contains("truncated"), "{err}");
    let (cut, err) = described(&BLKTRACE[..BLKTRACE.len() - 3]);
    assert!(err.contains("truncated"), "{err}");
    assert_eq!(cut["reads"], whole["reads"]);
}

#[test]
fn a_wrong_format_name_is_rejected() {
    let folder = Folder::new();
    let trace = folder.file("trace.txt", SPC);
    for (from, part) in
        [("parquet", "Parquet"), ("csv", "at_ns"), ("blkparse", "line 1"), ("pcap", "pcap")]
    {
        for mut verb in folder.verbs(&trace) {
            fails(verb.args(["--from", from]), 2, &[part, "expected"]);
        }
    }
    for mut verb in folder.verbs(&trace) {
        ends(verb.args(["--from", "spc"]), 0);
    }
}

#[test]
fn columns_can_be_declared() {
    let folder = Folder::new();
    let rows = "1000;write;8;16;usr\n3000;R;0;8;src\n";
    let trace = folder.file("trace.txt", rows);
    let spec = "at:us,op,offset:sectors,len:sectors,volume";
    for mut verb in folder.verbs(&trace) {
        ends(verb.args(["--columns", spec]), 0);
        fails(verb.args(["--from", "spc"]), 2, &["--columns", "--from"]);
    }
    let described = |spec: &str| {
        let mut describe = forebay(&["describe", "--columns", spec]);
        describe.arg(&trace);
        describe
    };
    let (table, _) = ends(described(spec).arg("--explain"), 0);
    assert!(table.contains("columns"), "{table}");
    fails(&mut described("at:hours,op,offset,len"), 2, &["\"hours\"", "at:us"]);
    fails(&mut described("at:us,op,offset,size"), 2, &["\"size\"", "latency"]);
    fails(&mut described("at:us,op:0/1,offset,len"), 2, &["line 1", "write", "0 or 1"]);
}

#[test]
fn implausible_units_are_rejected_unless_declared_sure() {
    let folder = Folder::new();
    // Two thousand requests within 2 s. In milliseconds, this would be 23 days without a burst,
    // which is implausible.
    let mut state = 1u64;
    let rows: String = (0..2000u64)
        .map(|n| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            format!("{} 0 {} 8 1\n", n * 1_000_000 + (state >> 33) % 900_000, state >> 40)
        })
        .collect();
    let trace = folder.file("trace.txt", &rows);
    ends(forebay(&["describe"]).arg(&trace), 0);
    let parts = ["19 of 20 gaps", "times in ms", "likely in ns", "--columns at:ns,"];
    for mut verb in folder.verbs(&trace) {
        fails(verb.args(["--from", "disksim-ascii"]), 2, &parts);
    }
    let spec = "at:ms,volume,offset:sectors,len:sectors,op:disksim";
    let (told, err) = ends(forebay(&["describe", "--columns", spec]).arg(&trace), 0);
    assert!(!told.contains("likely in ns") && err.contains("likely in ns"), "{told}{err}");
    let json = ["describe", "--format", "json", "--columns", spec];
    let (_, err) = ends(forebay(&json).arg(&trace), 0);
    assert!(err.contains("likely in ns"), "{err}");
}

#[test]
fn mixed_line_ends_and_blank_lines_are_read() {
    for text in [SPC, MSR] {
        let mixed = format!("\r\n{}\n\n{}", text.replace('\n', "\r\n"), text.trim_end());
        let (plain, _) = described(text);
        let (found, err) = described(mixed);
        let requests = |value: &Value| value["requests"].as_u64().unwrap();
        assert_eq!(requests(&found), 2 * requests(&plain));
        assert_eq!(found["rows_skipped"].as_u64(), Some(0));
        assert!(err.lines().count() == 1 && err.contains("has no newline"), "{err}");
    }
}

#[test]
fn times_running_backwards_are_sorted_or_counted() {
    let (sorted, err) = described("0,8,512,R,2.0\n0,16,512,R,1.0\n0,24,512,R,3.5\n");
    assert_eq!((sorted["duration_s"].as_f64(), err.as_str()), (Some(2.5), ""));
    let rows = |n: u64| format!("0,{},512,R,{}.0\n", n * 8, n);
    let late: String = (10..75_010).map(rows).chain([rows(3), rows(4)]).collect();
    let (found, err) = described(late);
    assert_eq!(found["requests"], 75_002);
    assert!(err.contains("2 rows come more than 65536 rows too late to be sorted"), "{err}");
    assert!(err.contains("the clock goes back by") && err.lines().count() == 2, "{err}");
}

#[test]
fn a_second_run_in_a_file_is_reported_and_can_be_appended() {
    let row = |at: f64| format!("{at},R,{},4096\n", (at * 1000.0).round() as u64 * 4096);
    let run: String = (0..50).map(|n| row(f64::from(n) * 0.2 + 0.01)).collect();
    let text = format!("time_s,op,offset,len\n{run}{run}");
    let folder = Folder::new();
    let trace = folder.file("two.csv", &text);
    let told = |options: &[&str]| {
        let (found, err) = json(forebay(&["describe"]).args(options).arg(&trace));
        let warnings = found["warnings"].as_array().unwrap().clone();
        // Each note must appear both in JSON and on the terminal.
        assert!(warnings.iter().all(|told| err.contains(told.as_str().unwrap())), "{err}");
        (found["duration_s"].as_f64().unwrap(), err)
    };
    let (duration_s, err) = told(&[]);
    assert!((duration_s - 9.8).abs() < 1e-6, "{duration_s}");
    assert!(
        err.contains("goes back by 9.80 s at request 51") && err.contains("--split-runs"),
        "{err}"
    );
    for options in [&["--split-runs"][..], &["--split-runs", "--from", "csv"]] {
        let (duration_s, err) = told(options);
        assert!((duration_s - 20.6).abs() < 1e-6, "{duration_s}");
        assert!(err.contains("the file holds 2 runs"), "{err}");
    }
    let columns = ["--split-runs", "--columns", "at:s,op,offset,len,skip=1"];
    assert!((told(&columns).0 - 20.6).abs() < 1e-6);
}

#[test]
fn impossible_units_are_rejected_with_the_declaration_to_type() {
    let folder = Folder::new();
    let rows: String = (0..2000u64)
        .map(|n| {
            format!(
                "{}.{:03}7,R,{},{}\n",
                1_716_900_000 + n / 200,
                n % 200 * 5,
                n * 8192,
                4096 << (n % 3)
            )
        })
        .collect();
    let columns = "--columns at:s,op,offset,len,skip=1";
    let typed = columns.split_once(' ').unwrap().1;
    let trace = folder.file("trace.csv", format!("time_ms,op,offset,len\n{rows}"));
    for mut verb in folder.verbs(&trace) {
        fails(&mut verb, 2, &["trace.csv", columns, "units=sure"]);
    }
    ends(forebay(&["describe", "--columns", typed]).arg(&trace), 0);
    // The numbers are possible sector counts, but are more likely bytes.
    let trace = folder.file("trace.csv", format!("time_s,op,lba,sectors\n{rows}"));
    let (_, said) = ends(forebay(&["describe"]).arg(&trace), 0);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("the units may be wrong") && said.contains(columns), "{said}");
    ends(forebay(&["describe", "--columns", typed]).arg(&trace), 0);
    let log = folder.file("job_bw.1.log", "0, 4096, 1, 4096, 0, 0\n1, 8192, 0, 4096, 8192, 0\n");
    let columns = "at:ms,_,op:0/1/2,len,offset,sep=comma";
    fails(forebay(&["describe"]).arg(&log), 2, &["bandwidths in KiB/s", columns]);
    ends(forebay(&["describe", "--columns", columns]).arg(&log), 0);
}

#[test]
fn lengths_of_zero_are_counted_and_absurd_ones_refused() {
    let (found, err) = described(format!("{SPC}0,5,0,R,0.003\n0,6,0,W,0.004\n"));
    assert_eq!((&found["requests"], &found["rows_skipped"]), (&3.into(), &2.into()));
    assert!(err.contains("2 rows without data were skipped"), "{err}");
    let folder = Folder::new();
    folder.refused(
        "long",
        format!("{SPC}0,5,9999999999,R,0.1\n0,5,9999999999,R,0.1\n"),
        &["line 4", "4 GiB"],
    );
    folder.refused(
        "far",
        format!("{SPC}0,18446744073709551615,512,R,1\n0,18446744073709551615,512,R,1\n"),
        &["line 4", "2^63"],
    );
    folder.refused(
        "huge",
        format!("{SPC}0,99999999999999999999999,512,R,1\n0,99999999999999999999999,512,R,1\n"),
        &["line 4"],
    );
    folder.refused("minus", format!("{SPC}0,5,512,R,-0.1\n0,5,512,R,-0.1\n"), &["line 4", "-0.1"]);
}

#[test]
fn every_verb_rejects_a_trace_whose_rows_are_all_skipped() {
    let folder = Folder::new();
    let trace = folder.file("trace.spc", "0,5,0,R,0.0\n");
    for mut verb in folder.verbs(&trace) {
        fails(&mut verb, 2, &["trace.spc", "no requests in 1 row without data"]);
    }
}
