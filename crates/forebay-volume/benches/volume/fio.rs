//! Sends the same I/Os with fio.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use forebay_core::{Op, Request};
use serde_json::Value;

use crate::sent::{Sent, is_durable};

/// Sends all I/Os as fast as possible. Returns the elapsed time and the processor time in seconds.
pub(crate) fn send(drives: &[PathBuf], sent: &Sent) -> (f64, f64) {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("iolog");
    write_log(&log, drives, &sent.ios).unwrap();
    let arguments = ["--name=same", "--output-format=json", "--direct=1", "--ioengine=io_uring"];
    // fio's fastest settings: no new contents for each write, and several I/Os per call.
    let best = ["--fixedbufs=1", "--scramble_buffers=0", "--fallocate=none", "--iodepth_batch=4"];
    let output = Command::new("fio")
        .args(arguments)
        .args(best)
        .arg(format!("--iodepth={}", sent.depth()))
        .arg(format!("--read_iolog={}", log.display()))
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "fio failed: {text}");
    let json: Value = serde_json::from_str(&text[text.find('{').unwrap()..]).unwrap();
    let job = &json["jobs"][0];
    // fio does not count the bytes of I/Os that are outstanding when its log ends.
    let count = |op: &str| job[op]["total_ios"].as_u64().unwrap();
    let wanted = sent.ios.iter().filter(|io| io.op.moves_data()).count() as u64;
    assert_eq!(count("read") + count("write"), wanted, "fio sent the same I/Os");
    let number = |name: &str| job[name].as_f64().unwrap();
    let took_s = number("job_runtime") / 1e3;
    (took_s, (number("usr_cpu") + number("sys_cpu")) / 100.0 * took_s)
}

/// Writes an I/O log of version 2, without times.
fn write_log(log: &Path, drives: &[PathBuf], ios: &[Request]) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(log)?);
    writeln!(out, "fio version 2 iolog")?;
    for drive in drives {
        writeln!(out, "{0} add\n{0} open", drive.display())?;
    }
    for io in ios {
        let drive = drives[usize::from(io.lane)].display();
        match io.op {
            Op::Read | Op::Write => {
                writeln!(out, "{drive} {} {} {}", io.op.name(), io.offset, io.len)?
            }
            _ => writeln!(out, "{drive} datasync 0 0")?,
        }
        if is_durable(io) {
            writeln!(out, "{drive} datasync 0 0")?;
        }
    }
    out.flush()
}
