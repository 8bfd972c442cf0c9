//! Runs the same loads with fio.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use forebay_core::Request;
use serde_json::Value;

pub(crate) fn is_there() -> bool {
    let asked = Command::new("fio").arg("--version").stdout(Stdio::null()).status();
    asked.is_ok_and(|status| status.success())
}

/// Runs fio with the fastest settings of io_uring and these arguments; returns the result of its
/// first job.
fn run(arguments: &[String]) -> Value {
    let fixed = ["--direct=1", "--ioengine=io_uring", "--fixedbufs=1"];
    let output = Command::new("fio")
        .args(["--name=play", "--output-format=json"])
        .args(fixed)
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success(), "fio failed");
    let text = String::from_utf8_lossy(&output.stdout);
    let json: Value = serde_json::from_str(&text[text.find('{').unwrap()..]).unwrap();
    json["jobs"][0].clone()
}

/// Returns I/Os per second, and I/Os per second of CPU time.
pub(crate) fn random_reads(file: &Path, depth: u32, seconds: u64) -> (f64, f64) {
    let job = run(&[
        format!("--filename={}", file.display()),
        "--rw=randread".into(),
        "--bs=4k".into(),
        format!("--iodepth={depth}"),
        "--registerfiles=1".into(),
        "--time_based".into(),
        format!("--runtime={seconds}"),
    ]);
    let number = |value: &Value| value.as_f64().unwrap();
    let ios = number(&job["read"]["total_ios"]);
    let run_s = number(&job["job_runtime"]) / 1e3;
    let cpu_s = (number(&job["usr_cpu"]) + number(&job["sys_cpu"])) / 100.0 * run_s;
    (ios / run_s, ios / cpu_s)
}

/// Writes an I/O log of version 3, with times in microseconds as fio 3.33 expects them.
pub(crate) fn write_log(log: &Path, file: &Path, requests: &[Request]) {
    let mut out = BufWriter::new(File::create(log).unwrap());
    let name = file.display();
    write!(out, "fio version 3 iolog\n0 {name} add\n0 {name} open\n").unwrap();
    for request in requests {
        let at_us = request.at.0 / 1000;
        writeln!(out, "{at_us} {name} read {} {}", request.offset, request.len).unwrap();
    }
    out.flush().unwrap();
}

/// Replays a log. (fio refuses to register files in this mode.)
pub(crate) fn replay(log: &Path) {
    let log = format!("--read_iolog={}", log.display());
    run(&[log, "--iodepth=256".into()]);
}
