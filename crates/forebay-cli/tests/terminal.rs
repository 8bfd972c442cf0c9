//! Tests output to terminals and pipes, and input from pipes.

use std::fs;

use forebay_core::catalog::{Listed, PLACEMENTS, POLICIES};

use crate::command::{Folder, SPC, ends, fails, forebay, json, sample};
use crate::shell;

const BOLD: &str = "\x1b[1m";

/// Returns a folder with a few requests in SPC and Parquet format.
fn folder() -> Folder {
    let folder = Folder::new();
    shell::prepared(folder.root());
    let spc = folder.file("t.spc", SPC.repeat(50));
    ends(forebay(&["convert"]).arg(spc).arg(folder.path("t.parquet")), 0);
    folder
}

/// Traces that are read twice or from their end are first copied if they come from a pipe.
#[test]
fn a_dash_reads_a_pipe_or_a_file() {
    let folder = folder();
    let run = |text: &str| shell::run(folder.root(), text).unwrap();
    let simulated = "--device fixed:500 --policy noop,bfq";
    let of_file =
        run(&format!("forebay simulate t.parquet {simulated} | grep -E 'noop|bfq' | tr -d ' '"));
    for from in ["cat t.parquet |", "<t.parquet", "cat t.parquet | cat - |"] {
        let text =
            format!("{from} forebay simulate - {simulated} | grep -E 'noop|bfq' | tr -d ' '");
        assert_eq!(run(&text), of_file, "{from}");
    }
    assert_eq!(run("gzip < t.spc | forebay describe -"), run("forebay describe t.spc"));
    run("cat t.parquet | forebay convert - again.spc.csv; cat t.parquet | forebay compare - t.spc");
    assert!(fs::read_to_string(folder.path("again.spc.csv")).unwrap().lines().count() == 151);
    let refused = shell::run(folder.root(), "forebay describe - < /dev/null").unwrap_err();
    assert!(refused.contains("/dev/stdin: got an empty file"), "{refused}");
    let mut noise = forebay(&["cache", "-"]);
    fails(noise.write_stdin("no trace at all"), 2, &["/dev/stdin", "no trace at all"]);
}

#[test]
fn csv_and_json_have_the_same_table() {
    let trace = folder();
    let trace = trace.path("t.parquet");
    let words = ["simulate", "--device", "fixed:500", "--policy", "noop,bfq"];
    let (found, _) = json(forebay(&words).arg(&trace));
    let (csv, _) = ends(forebay(&words).arg(&trace).args(["--format", "csv"]), 0);
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 3);
    let column = |name: &str| rows[0].iter().position(|title| *title == name).unwrap();
    for (row, run) in rows[1..].iter().zip(found["runs"].as_array().unwrap()) {
        for name in ["requests", "busy_s", "read_p99_ms"] {
            assert_eq!(row[column(name)], run[name].to_string(), "{name}");
        }
        assert_eq!(row[column("policy")], run["policy"].as_str().unwrap());
    }
    let (csv, _) = ends(&mut forebay(&["policies", "--format", "csv"]), 0);
    assert!(csv.contains("\ncfq,scheduler,") && csv.contains("quantum=8"), "{csv}");
}

#[test]
fn lists_of_devices_and_policies_are_data_too() {
    let (devices, _) = json(&mut forebay(&["devices"]));
    let names: Vec<&str> = devices["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["device"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"sata250") && names.len() >= 15, "{names:?}");
    let (one, _) = json(&mut forebay(&["devices", "d7-p5520"]));
    assert!(one["rows"][0]["assumed"].to_string().contains("page_bytes"), "{one}");
    let (policies, _) = json(&mut forebay(&["policies"]));
    let rows = policies["rows"].as_array().unwrap();
    for (name, kind) in [
        ("noop", "scheduler"),
        ("tier-lba", "placement"),
        ("array", "array"),
        ("sptf", "yardstick"),
        ("miser", "shaper"),
    ] {
        let row = rows.iter().find(|row| row["policy"] == name);
        assert_eq!(row.unwrap_or_else(|| panic!("no {name}"))["kind"], kind);
    }
}

#[test]
fn tables_in_a_pipe_are_plain_and_no_wider_than_a_hundred_columns() {
    let folder = folder();
    let trace = folder.path("t.parquet");
    let names =
        |listed: &[Listed]| listed.iter().map(|listed| listed.name).collect::<Vec<_>>().join(",");
    let (policies, placements) = (names(POLICIES), names(PLACEMENTS));
    for words in [
        &["simulate", "--device", "sata250", "--policy", &policies][..],
        &["simulate", "--device", "sata250", "--flash", "d7-p5520", "--policy", &placements],
        &["cache", "--sizes-mib", "1,1000000"],
        &["describe"],
        &["plan", "capacity", "--trust-times"],
    ] {
        let (out, _) = ends(forebay(words).arg(&trace), 0);
        assert!(!out.contains('\x1b'), "{words:?}");
        let widest = out.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= 100, "{words:?}: {widest}\n{out}");
    }
    for words in [["devices"], ["policies"]] {
        let (out, _) = ends(&mut forebay(&words), 0);
        assert!(out.lines().all(|line| line.chars().count() <= 100), "{out}");
    }
}

#[test]
fn terminal_width_and_colors_are_used_unless_disabled() {
    if shell::run(&std::env::temp_dir(), "command -v script").is_err() {
        eprintln!("!!! there is no script(1): what a terminal gets is SKIPPED");
        return;
    }
    let folder = folder();
    let shown = |before: &str| {
        let text = format!(
            "{before} script -qec 'stty cols 60; forebay cache t.parquet 2>/dev/null' /dev/null"
        );
        shell::run(folder.root(), &text).unwrap()
    };
    let plain = shown("NO_COLOR=1");
    assert!(!plain.contains(BOLD) && plain.contains("A cache of"), "{plain}");
    assert!(plain.lines().all(|line| line.trim_end().chars().count() <= 60), "{plain}");
    // An empty variable counts as unset (no-color.org).
    for before in ["", "NO_COLOR="] {
        assert!(shown(before).contains(&format!("{BOLD}A cache of")), "{before}");
    }
}

/// `top` clears the screen before each update and prints no other terminal controls.
#[test]
fn top_works_without_exports() {
    let folder = folder();
    if shell::run(folder.root(), "command -v script").is_err() {
        eprintln!("!!! there is no script(1): what a terminal gets is SKIPPED");
        return;
    }
    let text =
        "truncate -s 16M disk.img; forebay serve disk.img --socket s --policy none 2>/dev/null &
        until forebay top s --format json >/dev/null 2>&1; do sleep 0.05; done
        NO_COLOR=1 script -qfc 'stty cols 100; forebay top s --interval 50ms' looked >/dev/null 2>&1 </dev/null &
        until [ $(grep -ao 'disk.img is idle' looked 2>/dev/null | wc -l) -gt 3 ]; do sleep 0.05; done
        kill $!";
    shell::run(folder.root(), text).unwrap();
    let looked = fs::read_to_string(folder.path("looked")).unwrap();
    let looks: Vec<&str> = looked.split("\x1b[H\x1b[J").collect();
    assert!(looks.len() > 2, "{looked}");
    for look in &looks[1..] {
        assert!(!look.contains(['\x1b', '\u{fffd}']), "{look}");
    }
    assert!(
        looks[1].starts_with("disk.img is idle; its policy is none.\r\n\r\n export"),
        "{looked}"
    );
}

#[test]
fn a_closed_pipe_is_no_error() {
    for words in [&["devices"][..], &["policies", "--format", "csv"], &["completions", "bash"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin!("forebay"));
        let output = command.args(words).stdout(writer).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{words:?}: {output:?}");
    }
}

#[test]
fn the_cache_answer_is_one_size_and_a_handful_of_rows() {
    let (out, _) = ends(forebay(&["cache"]).arg(sample()), 0);
    assert!(out.starts_with("A cache of "), "{out}");
    let table = out.split("───\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let rows = table.lines().count();
    assert!((3..=8).contains(&rows) && table.matches("(recommended)").count() == 1, "{out}");
    let (found, _) = json(forebay(&["cache"]).arg(sample()));
    let size = &found["recommended"]["size_blocks"];
    assert!(out.contains(&format!(" {size} ")), "{out}");
    let folder = Folder::new();
    let once = folder.file("once.spc", "0,0,4096,R,0.1\n0,100,4096,R,0.2\n");
    assert!(ends(forebay(&["cache"]).arg(once), 0).0.starts_with("No cache helps"), "{out}");
}

#[test]
fn names_from_traces_cannot_control_the_terminal() {
    let folder = Folder::new();
    let rows: String = (0..200)
        .map(|n| {
            format!("{},read,{},4096,0,v\x1b[31m\x07,,,,,n\x1b]0;x\x07\n", n * 5_000_000, n * 4096)
        })
        .collect();
    let header = "at_ns,op,offset,len,stream,volume,latency_ns,flags,thread,process,name\n";
    let trace = folder.file("evil.csv", format!("{header}{rows}"));
    for words in [
        &["describe", "--threads"][..],
        &["simulate", "--device", "fixed:500", "--policy", "noop"],
        &["plan", "capacity", "--by", "volume", "--within", "50ms", "--fraction", "0.9"],
        &[
            "plan", "buy", "--by", "volume", "--within", "50ms", "--device", "hc550", "--layout",
            "single",
        ],
    ] {
        let (out, err) = ends(forebay(words).arg(&trace), 0);
        let obeyed = |c: char| c.is_control() && c != '\n';
        assert!(!out.contains(obeyed) && !err.contains(obeyed), "{words:?}: {out:?} {err:?}");
        let (data, _) = json(forebay(words).arg(&trace));
        assert!(data.is_object(), "{words:?}");
    }
    let odd = folder.file("odd\x1b[31m.spc", "no trace");
    let (_, err) = ends(forebay(&["describe"]).arg(&odd), 2);
    assert!(err.contains("odd\u{fffd}[31m.spc"), "{err:?}");
}

#[test]
fn an_error_that_cannot_be_printed_still_sets_the_exit_status() {
    let folder = folder();
    let statuses = [
        ("forebay describe nofile 2>/dev/full", 2),
        ("forebay describe t.spc >/dev/null 2>/dev/full", 0),
        ("forebay convert t.spc t.csv >/dev/null 2>/dev/full", 0),
        ("forebay cache t.spc -o page.html >/dev/null 2>&-", 0),
    ];
    for (line, expected) in statuses {
        let said =
            shell::run(folder.root(), &format!("status=0; {line} || status=$?; echo =$status"));
        assert_eq!(said.unwrap().trim(), format!("={expected}"), "{line}");
    }
}

/// The screen of a terminal with 24 lines of 80 columns has the whole answer, and nothing of the
/// progress that was shown before.
#[test]
fn an_answer_fits_on_a_screen_and_progress_leaves_nothing() {
    let folder = folder();
    if shell::run(folder.root(), "command -v script").is_err() {
        eprintln!("!!! there is no script(1): what a terminal gets is SKIPPED");
        return;
    }
    fs::copy(sample(), folder.path("sample")).unwrap();
    // Rows that are skipped and latencies that are unknown cause warnings.
    let odd = format!("{}x,y\n", fs::read_to_string(folder.path("t.spc")).unwrap());
    folder.file("odd.spc", odd);
    for verb in [
        "advise t.spc",
        "describe sample",
        "plan consolidate sample t.parquet",
        "plan volume sample",
    ] {
        let text = format!("script -qec 'stty cols 80 rows 24; forebay {verb}' /dev/null");
        let shown = shell::run(folder.root(), &text).unwrap();
        let screen = screen(&shown);
        assert!(screen.len() <= 23, "{verb}: {}\n{}", screen.len(), screen.join("\n"));
        assert!(!screen[0].contains("[0s]") && !screen[0].is_empty(), "{verb}: {}", screen[0]);
        assert!(screen.iter().all(|line| line.chars().count() <= 80), "{}", screen.join("\n"));
    }
}

/// Returns the lines that are left on a terminal of 80 columns.
fn screen(shown: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for part in
        shown.replace(BOLD, "").replace("\x1b[0m", "").replace("\r\n", "\n").split_inclusive('\n')
    {
        let mut rest = part;
        while let Some(at) = rest.find("\r\x1b[2K") {
            put(&mut lines, &rest[..at]);
            lines.last_mut().unwrap().clear();
            rest = &rest[at + 5..];
        }
        put(&mut lines, rest);
    }
    while lines.last().is_some_and(|line| line.trim().is_empty()) {
        lines.pop();
    }
    lines
}

/// Writes text, which continues on the next line after 80 columns.
fn put(lines: &mut Vec<String>, text: &str) {
    for c in text.chars() {
        match c {
            '\n' => lines.push(String::new()),
            c => {
                if lines.last().unwrap().chars().count() == 80 {
                    lines.push(String::new());
                }
                lines.last_mut().unwrap().push(c);
            }
        }
    }
}
