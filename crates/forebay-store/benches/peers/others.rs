//! The other engines: LevelDB and RocksDB through peers.cc, and durable writes by fio.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value as Json, json};

use crate::job::{Job, Outcome};
use crate::place::Cell;

/// Compiles peers.cc and returns the program's path, or the reason why this failed.
pub(crate) fn compile() -> Result<PathBuf, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers/peers.cc");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("store-peers");
    let compiled = Command::new("g++")
        .args(["-O2", "-std=c++17", "-Wall", "-Wextra", "-o"])
        .args([&program, &source])
        .args(["-lleveldb", "-lrocksdb", "-lpthread"])
        .status();
    match compiled {
        Ok(status) if status.success() => Ok(program),
        Ok(_) => {
            Err("peers.cc does not compile; it needs libleveldb-dev and librocksdb-dev".into())
        }
        Err(error) => Err(format!("no g++ to compile peers.cc with: {error}")),
    }
}

/// Returns the version that a program prints.
pub(crate) fn version(program: &Path) -> String {
    let said = Command::new(program).arg("--version").output();
    said.map_or_else(|error| error.to_string(), |said| text(&said.stdout).trim().to_string())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a program in a cell; returns the JSON that it prints.
pub(crate) fn run(cell: &Cell, program: &Path, words: &[String]) -> Outcome {
    let output = cell.command(program).args(words).stderr(Stdio::inherit()).output().unwrap();
    let said = text(&output.stdout);
    let Output { status, .. } = output;
    assert!(status.success(), "{} {words:?}: {status} {said}", program.display());
    let from = said.find('{').unwrap_or_else(|| panic!("got {said}, expected JSON"));
    Outcome(serde_json::from_str(&said[from..]).unwrap())
}

/// Runs fio: writes as many blocks as the job has puts, each as long as a value rounded up to whole
/// sectors. fio bypasses the page cache, makes each block durable before the next, and writes into
/// a preallocated file.
pub(crate) fn fio(folder: &Path, job: &Job) -> Outcome {
    let sector = 512;
    let piece = job.value_bytes.next_multiple_of(sector);
    let per_writer = (job.count / job.writers).max(1);
    // Each writer has its own part of the file, and starts over at its end.
    let part = (per_writer * piece).min((256 << 20) / job.writers) / piece * piece;
    let part = part.max(piece);
    let file = folder.join("fio");
    write_all(&file, part * job.writers);
    let arguments = [
        format!("--filename={}", file.display()),
        format!("--bs={piece}"),
        format!("--numjobs={}", job.writers),
        format!("--size={part}"),
        format!("--offset_increment={part}"),
        format!("--io_size={}", per_writer * piece),
        format!("--runtime={}", job.seconds),
    ];
    let output = Command::new("fio")
        .args(["--name=log", "--rw=write", "--direct=1", "--sync=dsync", "--ioengine=psync"])
        .args(["--group_reporting", "--output-format=json", "--scramble_buffers=0"])
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let said = text(&output.stdout);
    assert!(output.status.success(), "fio failed: {said}");
    let json: Json = serde_json::from_str(&said[said.find('{').unwrap()..]).unwrap();
    let write = &json["jobs"][0]["write"];
    let ios = write["total_ios"].as_u64().unwrap();
    let us = |share: &str| write["clat_ns"]["percentile"][share].as_f64().unwrap_or(0.0) / 1e3;
    // The throughput counts values only, not the padding to whole sectors.
    Outcome(json!({
        "done": ios, "bytes": ios * job.value_bytes,
        "seconds": write["runtime"].as_f64().unwrap() / 1e3,
        "p50_us": us("50.000000"), "p99_us": us("99.000000"), "p999_us": us("99.900000"),
        "max_us": write["clat_ns"]["max"].as_f64().unwrap_or(0.0) / 1e3,
    }))
}

/// Writes the whole file in advance, so that the benchmark writes data only and allocates nothing.
fn write_all(path: &Path, bytes: u64) {
    use std::io::Write;
    let mut file = std::fs::File::create(path).unwrap();
    let some = vec![1; 1 << 20];
    let mut left = bytes;
    while left > 0 {
        let len = left.min(some.len() as u64);
        file.write_all(&some[..len as usize]).unwrap();
        left -= len;
    }
    file.sync_all().unwrap();
}
