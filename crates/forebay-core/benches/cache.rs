//! The accesses per second of the caches and of the miss-ratio curve, compared to libCacheSim's C
//! implementations of LRU and S3-FIFO on the same trace.
//!
//! Run `cargo bench --bench cache -- PYTHON`, with a Python that has the package libcachesim.
//! Without it, only our own results are printed.

// A benchmark reads the clock and files; the library it measures does not.
#![allow(clippy::disallowed_types)]
#![allow(clippy::unwrap_used)]

#[path = "load/mod.rs"]
mod load;

use std::hint::black_box;
use std::io::Write;
use std::process::Command;
use std::time::Instant;

use forebay_core::cache::{Cache, Lru, MissRatioCurve, S3Fifo};

const ACCESSES: usize = 10_000_000;
/// The size of the cache in frames: at most a tenth of the distinct blocks.
const FRAMES: u32 = 100_000;
const RUNS: usize = 3;
/// The bytes per record of the trace: time, object, size, next access.
const RECORD: usize = 24;

/// Returns a trace in which some blocks are much hotter than others, in libCacheSim's oracleGeneral
/// format.
fn records() -> Vec<u8> {
    let mut state = 3;
    let mut bytes = Vec::with_capacity(ACCESSES * RECORD);
    for _ in 0..ACCESSES {
        let uniform = (load::random(&mut state) >> 11) as f64 / (1u64 << 53) as f64;
        let key = (uniform.powi(4) * 10.0 * f64::from(FRAMES)) as u64 + 1;
        bytes.extend_from_slice(&0u32.to_le_bytes());
        bytes.extend_from_slice(&key.to_le_bytes());
        bytes.extend_from_slice(&1u32.to_le_bytes());
        bytes.extend_from_slice(&0u64.to_le_bytes());
    }
    bytes
}

/// Decodes the records lazily, so that decoding is part of the measured time, as in libCacheSim.
fn keys(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks_exact(RECORD).map(|record| u64::from_le_bytes(record[4..12].try_into().unwrap()))
}

/// Returns the best throughput of several runs in accesses per second, and the result of the run.
fn best<T>(mut run: impl FnMut() -> T) -> (f64, T) {
    let mut timed = || {
        let begun = Instant::now();
        let answer = black_box(run());
        (ACCESSES as f64 / begun.elapsed().as_secs_f64(), answer)
    };
    let first = timed();
    (1..RUNS).fold(first, |best, _| {
        let next = timed();
        if next.0 > best.0 { next } else { best }
    })
}

fn misses(mut cache: impl Cache, bytes: &[u8]) -> f64 {
    keys(bytes).filter(|&key| !cache.access(key)).count() as f64 / ACCESSES as f64
}

/// Returns libCacheSim's accesses per second and miss ratio for each policy.
fn theirs(python: &str, path: &std::path::Path) -> Option<Vec<(f64, f64)>> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/beside.py");
    let arguments = [FRAMES.to_string(), RUNS.to_string()];
    let output = Command::new(python).arg(script).arg(path).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let row = |line: &str| {
        let (rate, ratio) = line.split_once(' ')?;
        Some((rate.parse().ok()?, ratio.trim().parse().ok()?))
    };
    let rows: Option<Vec<(f64, f64)>> = text.lines().map(row).collect();
    rows.filter(|rows| rows.len() == 2)
}

fn main() {
    let bytes = records();
    let python = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let path = std::env::temp_dir().join(format!("forebay-bench-{}.bin", std::process::id()));
    let theirs = python.and_then(|python| {
        std::fs::File::create(&path).unwrap().write_all(&bytes).unwrap();
        let rows = theirs(&python, &path);
        std::fs::remove_file(&path).unwrap();
        rows
    });
    println!("{ACCESSES} accesses, {FRAMES} frames, best of {RUNS} runs, millions a second");
    println!("cache        ours  libCacheSim  ratio (target)  misses %  libCacheSim's %");
    let ours = [
        ("LRU", best(|| misses(Lru::new(FRAMES), &bytes))),
        ("S3-FIFO", best(|| misses(S3Fifo::new(FRAMES), &bytes))),
    ];
    for (index, (name, (rate, ratio))) in ours.into_iter().enumerate() {
        match theirs.as_ref().map(|rows| rows[index]) {
            Some((their_rate, their_ratio)) => println!(
                "{name:<9} {:>7.2}  {:>11.2}  {:>5.2} (2.00)    {:>8.3}  {:>15.3}",
                rate / 1e6,
                their_rate / 1e6,
                rate / their_rate,
                ratio * 100.0,
                their_ratio * 100.0
            ),
            None => println!("{name:<9} {:>7.2}  (not at hand)", rate / 1e6),
        }
    }
    let (rate, blocks) = best(|| {
        let mut curve = MissRatioCurve::default();
        keys(&bytes).for_each(|key| _ = curve.access(key));
        curve.blocks()
    });
    println!(
        "miss-ratio curve, all sizes to {blocks} blocks: {:.2} M/s, target 2.00, ratio {:.2}",
        rate / 1e6,
        rate / 2e6
    );
}
