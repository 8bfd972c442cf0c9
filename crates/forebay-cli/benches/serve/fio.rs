//! Runs fio's nbd engine as a client.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::FILE_BYTES;

pub(crate) fn is_there() -> bool {
    let asked = Command::new("fio").arg("--enghelp").output();
    asked.is_ok_and(|told| String::from_utf8_lossy(&told.stdout).contains("nbd"))
}

/// The kind of requests that a client sends.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) writes: bool,
    pub(crate) kib: u32,
    pub(crate) depth: u32,
}

/// What the client measured.
pub(crate) struct Seen {
    pub(crate) requests: f64,
    pub(crate) iops: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
}

/// Runs the client against the server at `socket` for `seconds`.
pub(crate) fn ask(socket: &Path, shape: Shape, seconds: f64) -> Seen {
    let output = Command::new("fio")
        .args(["--name=client", "--ioengine=nbd", "--time_based", "--output-format=json"])
        .arg(format!("--uri=nbd+unix:///?socket={}", socket.display()))
        .arg(format!("--rw={}", if shape.writes { "randwrite" } else { "randread" }))
        .arg(format!("--bs={}k", shape.kib))
        .arg(format!("--iodepth={}", shape.depth))
        .arg(format!("--size={FILE_BYTES}"))
        .arg(format!("--runtime={}ms", (seconds * 1e3) as u64))
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success(), "fio failed: {}", String::from_utf8_lossy(&output.stdout));
    let text = String::from_utf8_lossy(&output.stdout);
    let json: Value = serde_json::from_str(&text[text.find('{').unwrap()..]).unwrap();
    let way = &json["jobs"][0][if shape.writes { "write" } else { "read" }];
    let number = |value: &Value| value.as_f64().unwrap();
    let waited = &way["clat_ns"]["percentile"];
    Seen {
        requests: number(&way["total_ios"]),
        iops: number(&way["iops"]),
        p50_us: number(&waited["50.000000"]) / 1e3,
        p99_us: number(&waited["99.000000"]) / 1e3,
    }
}
