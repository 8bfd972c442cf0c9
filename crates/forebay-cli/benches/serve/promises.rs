//! Compares how well a promise holds in wall time with the simulator's prediction for the same
//! requests, with some of the neighbors of the law (`forebay-serve/src/laws/promises.rs`).
//!
//! Each row is a pair: a server of an emulated disk records its clients, and `forebay simulate
//! --serve` replays the recording under the same configuration. The target is that both shares of
//! promised requests in time differ by at most 5 %.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::servers::Server;
use crate::{Made, Options};

/// The rate of the steady client, in requests per second, and how long each client runs at least.
const STEADY_IOPS: u32 = 20;
const SECONDS_LEAST: f64 = 20.0;
/// The size of each export, at the beginning and in the middle of the disk.
const EXPORT: &str = "1GiB";

/// The neighbors: fio's pattern, request size and depth.
const NEIGHBOURS: [(&str, &str, u32); 4] =
    [("randread", "4k", 64), ("randrw", "64k", 32), ("read", "256k", 16), ("randread", "4m", 4)];

const CONFIG: &str = "socket = 'FOLDER/socket'
[[disk]]
name = 'data'
file = 'FOLDER/disk'
emulate = 'st1000nm0011'
capacity_iops = 78
trace = 'FOLDER/asked.parquet'
[[export]]
name = 'steady'
on = 'data'
size = 'SIZE'
keep_iops = 38
within = '100ms'
[[export]]
name = 'neighbour'
on = 'data'
offset = '400GiB'
size = 'SIZE'
";

pub(crate) fn compare(options: &Options) {
    let made = Made::new(&options.memory);
    let folder = made.socket("");
    File::create(folder.join("disk")).unwrap().set_len(900 << 30).unwrap();
    let text = CONFIG.replace("FOLDER", folder.to_str().unwrap()).replace("SIZE", EXPORT);
    let config = folder.join("serve.toml");
    fs::write(&config, text).unwrap();
    println!("\nPromised requests in time, of 38 of 78 IOPS within 100 ms: measured and simulated");
    for (pattern, size, depth) in NEIGHBOURS {
        let seconds = options.seconds.max(SECONDS_LEAST);
        let measured = measured(&config, &made.socket("socket"), (pattern, size, depth), seconds);
        let simulated = simulated(&config, &folder.join("asked.parquet"));
        let apart = (measured / simulated - 1.0) * 100.0;
        println!(
            "beside {pattern} of {size} at depth {depth}: {:.2} % and {:.2} %, {apart:+.1} % apart{}",
            100.0 * measured,
            100.0 * simulated,
            if apart.abs() <= 5.0 { "" } else { "  !!! more than 5 %" }
        );
    }
}

/// Serves both clients; returns the share of promised requests in time.
fn measured(
    config: &Path,
    socket: &Path,
    (pattern, size, depth): (&str, &str, u32),
    seconds: f64,
) -> f64 {
    let server = Server::configured(config, socket.to_path_buf());
    let mut neighbour = Command::new("fio")
        .args(["--name=neighbour", "--ioengine=nbd", "--time_based", "--output=/dev/null"])
        .arg(format!("--uri=nbd+unix:///neighbour?socket={}", socket.display()))
        .arg(format!("--rw={pattern}"))
        .args([format!("--bs={size}"), format!("--iodepth={depth}"), "--size=1g".into()])
        .arg(format!("--runtime={seconds}"))
        .spawn()
        .unwrap();
    let steady = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/serve/steady.py");
    let steady = Command::new("python3")
        .arg(steady)
        .arg(socket)
        .args(["steady", &STEADY_IOPS.to_string(), &seconds.to_string()])
        .status();
    assert!(steady.unwrap().success());
    let figures = asked(&["top", socket.to_str().unwrap(), "--format", "json"]);
    assert!(neighbour.wait().unwrap().success());
    server.interrupt();
    let export = &figures["backs"][0]["exports"][0];
    let number = |name: &str| export[name].as_f64().unwrap();
    number("kept_in_time") / number("kept").max(1.0)
}

/// Replays the recording; returns the share of promised requests in time.
fn simulated(config: &Path, trace: &Path) -> f64 {
    let (config, trace) = (config.to_str().unwrap(), trace.to_str().unwrap());
    let answer = asked(&["simulate", trace, "--serve", config, "--format", "json"]);
    fs::remove_file(trace).unwrap();
    answer["runs"][0]["classes"][1]["within_bound_share"].as_f64().unwrap()
}

fn asked(words: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    let output = command.args(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}
