//! Tests the memory limits in docs/memory.md on the real binary.
//!
//! The operating system denies a command more memory than its limit (`ulimit -d`: heap, stacks and
//! all writable mappings), so a command that needs more fails.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use forebay_core::{Flags, Nanos, Op};
use forebay_trace::{Dictionary, Notes, Record, Stream, write};

use crate::command;
use crate::command::{Folder, HEADER, ends, fails};

/// Returns the command, with its memory limited to `mib` MiB.
fn bounded(mib: u64, arguments: &[&str], paths: &[&Path]) -> Command {
    let mut command = Command::new("sh");
    let run = format!("ulimit -d {} && exec \"$@\"", mib << 10);
    command.args(["-c", &run, "sh"]).arg(assert_cmd::cargo::cargo_bin!("forebay"));
    command.args(arguments).args(paths);
    command
}

/// Creates a trace of 4 KiB requests, three in ten of them writes, at random positions of a 256-TiB
/// volume, so that hardly any block is used twice.
fn scattered(folder: &Folder, requests: u64) -> PathBuf {
    let path = folder.path("scattered.parquet");
    let dictionary = Dictionary { streams: vec![Stream::default()], volumes: vec!["v".into()] };
    let mut writer = write::create(&path, None, &write::ProtectedFiles::default()).unwrap();
    let record = |number: u64| {
        let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31);
        Record {
            at: Nanos(number * 50_000_000),
            offset: (mixed.wrapping_mul(0xC2B2_AE3D_27D4_EB4F) >> 28) * 4096,
            latency: None,
            len: 4096,
            stream: 0,
            volume: 0,
            op: if number % 10 < 3 { Op::Write } else { Op::Read },
            flags: Flags::NONE,
        }
    };
    for first in (0..requests).step_by(8192) {
        let batch: Vec<Record> = (first..requests.min(first + 8192)).map(record).collect();
        writer.write(&batch, &dictionary).unwrap();
    }
    writer.finish(&dictionary, &Notes::default()).unwrap();
    path
}

#[test]
fn a_row_without_end_takes_no_memory() {
    let folder = Folder::new();
    let path = folder.file("endless.csv", format!("{HEADER}5,write,4096,512,9,v,,SM,7,,x\n"));
    // A GiB of zeros in a sparse file, which takes no disk space.
    let file = File::options().write(true).open(&path).unwrap();
    file.set_len(1 << 30).unwrap();
    let parts = ["endless.csv, line 3: got a row of more than 65536 bytes", "at_ns,op,offset"];
    fails(&mut bounded(64, &["describe"], &[&path]), 2, &parts);
    let mut quoted = File::create(&path).unwrap();
    quoted.write_all(format!("{HEADER}5,write,4096,512,9,\"v\n").as_bytes()).unwrap();
    (0..100_000).for_each(|_| quoted.write_all(b"6,read,0,512,9,v,,S,7,,x\n").unwrap());
    fails(&mut bounded(64, &["describe"], &[&path]), 2, &["line 2", "unclosed quote"]);
}

#[test]
fn files_read_whole_have_a_size_limit() {
    let folder = Folder::new();
    let (zero, fifo) = (Path::new("/dev/zero"), folder.path("fifo"));
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let long = folder.file("long.toml", vec![b'#'; (1 << 20) + 1]);
    for (path, got) in [(zero, "a pipe or a device"), (&fifo, "a pipe or a device")] {
        let parts = [path.to_str().unwrap(), got, "expected a device file"];
        fails(&mut bounded(64, &["devices"], &[path]), 2, &parts);
        // `advise` describes the trace first, which takes more memory.
        fails(&mut bounded(400, &["advise", "--device"], &[path]), 2, &parts);
        let parts = [path.to_str().unwrap(), got, "expected a drive file of DiskSim"];
        let output = folder.path("x.toml");
        let mut import = bounded(64, &["device", "import"], &[path]);
        fails(import.arg("-o").arg(output), 2, &parts);
        let mut sla = bounded(64, &["plan", "sla"], &[path, &command::sample()]);
        fails(&mut sla, 2, &[path.to_str().unwrap(), got, "expected a promise"]);
    }
    let parts = ["long.toml: got more than 1024 KiB, expected a device file, which is shorter"];
    fails(&mut bounded(64, &["devices"], &[&long]), 2, &parts);
}

#[test]
#[ignore = "slow: make test-full"]
fn memory_is_bounded_when_no_block_is_reused() {
    let folder = Folder::new();
    let path = scattered(&folder, 3_000_000);
    let model = folder.path("model.json");
    let sizes = ["cache", "--sizes-mib", "4000,100000", "--format", "json"];
    let (curve, _) = ends(&mut bounded(400, &sizes, &[&path]), 0);
    let curve: serde_json::Value = serde_json::from_str(&curve).unwrap();
    assert_eq!(curve["sampled_one_in"], 2);
    let distinct = curve["distinct_blocks"].as_f64().unwrap();
    assert!((distinct / 3e6 - 1.0).abs() < 0.01, "{distinct}");
    let (table, _) = ends(&mut bounded(250, &["cache"], &[&path]), 0);
    assert!(table.contains("Estimated from one block in 2"), "{table}");
    let fit = ["fit", "--level", "2", "-o", model.to_str().unwrap()];
    let alone = [&fit[..], &["--no-verdict"]].concat();
    ends(&mut bounded(256, &alone, &[&path]), 0);
    // Computing the verdict takes three times the memory of `compare`.
    let (said, _) = ends(&mut bounded(512, &fit, &[&path]), 0);
    assert!(said.contains("(judged by its first 100000 requests)"), "{said}");
}

#[test]
fn traces_that_write_everywhere_are_compared() {
    let folder = Folder::new();
    let path = scattered(&folder, 200_000);
    let card = ["compare", "--device", "990-pro", "--format", "json"];
    let (card, _) = ends(&mut bounded(384, &card, &[&path, &path]), 0);
    let card: serde_json::Value = serde_json::from_str(&card).unwrap();
    assert!(
        card["cautions"][0].as_str().unwrap().contains("so 990-pro:capacity-gb=64 is used instead")
    );
    assert_eq!(card["mrc_mean_error"], 0.0);
}
