//! Measures `forebay serve` from a client's viewpoint, with fio's nbd engine.
//!
//! 1. Compares `forebay serve` without a policy to `nbdkit file` and `qemu-nbd`: random reads and
//!    writes of 4 and 256 KiB at depths 1 and 32, on a file in memory and on a file on a disk, with
//!    and without the page cache. Reports requests per second, and requests per second of the
//!    server's CPU time. (MB/s have the same ratios.) The target is to be at least as good in every
//!    row.
//! 2. Measures what each policy adds to the latency of a request and to the server's CPU time.
//!
//! 3. Compares the share of promised requests in time with the simulator's for the same requests, as
//!    pairs (`promises.rs`).
//!
//! `cargo bench -p forebay-cli --bench serve -- [--short] [--rounds=N] [--seconds=S]
//! [--memory=FOLDER] [--disk=FOLDER] [beside] [policies] [promises]`. All servers of a row run at the same
//! time and are measured in turns, in a different order each round. Every ratio is the median over
//! the rounds.

#![allow(clippy::unwrap_used)]

mod beside;
mod fio;
mod policies;
mod promises;
mod servers;

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The command-line options of the benchmark.
pub(crate) struct Options {
    pub(crate) rounds: usize,
    pub(crate) seconds: f64,
    pub(crate) memory: PathBuf,
    pub(crate) disk: PathBuf,
    parts: Vec<String>,
}

/// The size of each file in bytes.
const FILE_BYTES: u64 = 512 << 20;

impl Options {
    fn read() -> Options {
        let mut options = Options {
            rounds: 5,
            seconds: 2.0,
            memory: "/dev/shm".into(),
            disk: std::env::temp_dir(),
            parts: Vec::new(),
        };
        for word in std::env::args().skip(1).filter(|word| word != "--bench") {
            match word.split_once('=') {
                Some(("--rounds", count)) => options.rounds = count.parse().unwrap(),
                Some(("--seconds", seconds)) => options.seconds = seconds.parse().unwrap(),
                Some(("--memory", folder)) => options.memory = folder.into(),
                Some(("--disk", folder)) => options.disk = folder.into(),
                None if word == "--short" => (options.rounds, options.seconds) = (3, 0.5),
                None if ["beside", "policies", "promises"].contains(&&*word) => {
                    options.parts.push(word)
                }
                _ => panic!(
                    "got {word}, expected --short, --rounds=, --seconds=, --memory=, --disk=, beside, policies, promises"
                ),
            }
        }
        options
    }

    fn wants(&self, part: &str) -> bool {
        self.parts.is_empty() || self.parts.iter().any(|wanted| wanted == part)
    }
}

/// A folder that is deleted with its files when dropped.
pub(crate) struct Made(PathBuf);

impl Made {
    /// Creates a file filled with data, so that reads do not hit holes.
    pub(crate) fn new(within: &Path) -> Made {
        // qemu-nbd requires an absolute path for its socket.
        let within = within.canonicalize().unwrap();
        let made = Made(within.join(format!("forebay-bench-serve-{}", std::process::id())));
        fs::create_dir(&made.0).unwrap();
        let mut out = File::create(made.file()).unwrap();
        let mut word = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..FILE_BYTES >> 20 {
            let mut piece = Vec::with_capacity(1 << 20);
            while piece.len() < 1 << 20 {
                word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                piece.extend(word.to_le_bytes());
            }
            out.write_all(&piece).unwrap();
        }
        out.sync_all().unwrap();
        made
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.0.join("file")
    }

    pub(crate) fn socket(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let options = Options::read();
    if !fio::is_there() {
        println!("!!! there is no fio with an nbd engine: nothing can be asked, SKIPPED");
        return;
    }
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!(
        "{} rounds of {} s; load before it (1, 5, 15 min) {}",
        options.rounds,
        options.seconds,
        load.split(' ').take(3).collect::<Vec<_>>().join(" ")
    );
    if options.wants("beside") {
        beside::compare(&options);
    }
    if options.wants("policies") {
        policies::compare(&options);
    }
    if options.wants("promises") {
        promises::compare(&options);
    }
}
