//! The others: LevelDB and RocksDB by peers.cc, and fio's durable writes.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value as Json, json};

use crate::job::{Job, Outcome};
use crate::place::Cell;

/// Returns the program made of peers.cc, or why there is none.
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

/// Runs a program in a cell; answers the JSON that it prints.
pub(crate) fn run(cell: &Cell, program: &Path, words: &[String]) -> Outcome {
    let output = cell.command(program).args(words).stderr(Stdio::inherit()).output().unwrap();
    let said = text(&output.stdout);
    let Output { status, .. } = output;
    assert!(status.success(), "{} {words:?}: {status} {said}", program.display());
    let from = said.find('{').unwrap_or_else(|| panic!("got {said}, expected JSON"));
    Outcome(serde_json::from_str(&said[from..]).unwrap())
}

/// fio writes as many pieces as the job has puts, each of a value's length in whole sectors, past the page cache
/// and durable before its next, into a file that was written before.
pub(crate) fn fio(folder: &Path, job: &Job) -> Outcome {
    let sector = 512;
    let piece = job.value_bytes.next_multiple_of(sector);
    let per_writer = (job.count / job.writers).max(1);
    // Each has its own part of the file, and begins anew at its end.
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
    // As MB/s of values: what fills up a sector is nobody's.
    Outcome(json!({
        "done": ios, "bytes": ios * job.value_bytes,
        "seconds": write["runtime"].as_f64().unwrap() / 1e3,
        "p50_us": us("50.000000"), "p99_us": us("99.000000"), "p999_us": us("99.900000"),
        "max_us": write["clat_ns"]["max"].as_f64().unwrap_or(0.0) / 1e3,
    }))
}

/// Writes a file, so that its places are found and nothing but data is left to write.
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
