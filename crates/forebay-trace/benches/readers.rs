//! How fast traces are read and described, and how `describe` compares with Polars on one file.
//!
//! The files are made up in a temporary folder. Polars reads the MSR file into columns in a child
//! process (`benches/polars.py`, which see), in turns with ours: A B A B. Without it that part is
//! left out with a note.

#![allow(clippy::unwrap_used)]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use forebay_trace::ahead::Ahead;
use forebay_trace::describe::{Describer, Options};
use forebay_trace::{Reader, open, write};

const ROWS: u64 = 1_700_000;
const RUNS: usize = 5;
/// `describe` against Polars.
const TARGET: f64 = 2.0;

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed ^ (mixed >> 29)
}

/// Rows of a server of four disks of 100 GB: runs of 16 requests on average, a third of them writes.
fn requests() -> impl Iterator<Item = (u64, u64, bool, u64, u64, u64)> {
    let (mut state, mut at, mut next) = (1, 128_166_372_003_061_629u64, [0u64; 4]);
    (0..ROWS).map(move |_| {
        let dice = random(&mut state);
        at += dice % 40_000;
        let disk = dice >> 20 & 3;
        let len = [4096, 8192, 16_384, 65_536][(dice >> 22 & 3) as usize];
        let place = &mut next[disk as usize];
        if dice >> 24 & 15 == 0 {
            *place = ((dice >> 32) % (100_000_000_000 >> 12)) << 12;
        }
        let offset = *place;
        *place += len;
        (at, disk, dice >> 28 & 15 < 5, offset, len, 500 + (dice >> 40) % 200_000)
    })
}

fn msr(folder: &Path) -> PathBuf {
    let path = folder.join("msr.csv");
    let mut file = BufWriter::new(File::create(&path).unwrap());
    for (at, disk, write, offset, len, took) in requests() {
        let kind = if write { "Write" } else { "Read" };
        writeln!(file, "{at},srv,{disk},{kind},{offset},{len},{took}").unwrap();
    }
    path
}

/// A queue and a completion event of each request, as blktrace writes them on one processor.
fn blktrace(folder: &Path) -> PathBuf {
    let path = folder.join("disk.blktrace.0");
    let mut file = BufWriter::new(File::create(&path).unwrap());
    let mut start = None;
    for (number, (at, disk, write, offset, len, _)) in (1u32..).zip(requests()) {
        let time = (at - *start.get_or_insert(at)) * 100;
        let category: u32 = if write { 2 } else { 1 };
        for (step, action) in [(0, 1u32), (1, 8)] {
            let mut event = Vec::with_capacity(48);
            event.extend(0x6561_7407u32.to_le_bytes());
            event.extend((number * 2 + step).to_le_bytes());
            event.extend((time + u64::from(step)).to_le_bytes());
            event.extend((offset / 512).to_le_bytes());
            event.extend((len as u32).to_le_bytes());
            event.extend((action | category << 16).to_le_bytes());
            event.extend((1000 + disk as u32).to_le_bytes());
            event.extend((8u32 << 20).to_le_bytes());
            event.extend([0; 8]);
            file.write_all(&event).unwrap();
        }
    }
    path
}

fn parquet(folder: &Path, from: &Path) -> PathBuf {
    let path = folder.join("trace.parquet");
    let mut reader = open::open(from, None).unwrap();
    let mut writer = write::create(&path, None, None).unwrap();
    let mut batch = Vec::new();
    loop {
        reader.read(&mut batch).unwrap();
        if batch.is_empty() {
            break;
        }
        writer.write(&batch, reader.dictionary()).unwrap();
    }
    writer.finish(reader.dictionary(), reader.notes()).unwrap();
    path
}

/// Seconds to read a file through, with what was read.
fn read(path: &Path) -> (f64, u64) {
    let begun = Instant::now();
    let mut reader = open::open(path, None).unwrap();
    let (mut batch, mut records) = (Vec::new(), 0);
    loop {
        reader.read(&mut batch).unwrap();
        if batch.is_empty() {
            return (begun.elapsed().as_secs_f64(), records);
        }
        records += batch.len() as u64;
    }
}

/// Seconds to describe a file, read on a thread of its own.
fn describe(path: &Path) -> (f64, u64) {
    let begun = Instant::now();
    let mut reader = Ahead::new(open::open(path, None).unwrap());
    let mut describer = Describer::new(Options::default());
    let mut batch = Vec::new();
    loop {
        reader.read(&mut batch).unwrap();
        if batch.is_empty() {
            let description = describer.finish(reader.dictionary(), reader.notes());
            return (begun.elapsed().as_secs_f64(), description.records);
        }
        describer.add(&batch, reader.dictionary());
    }
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

fn rows(name: &str, path: &Path) {
    let megabytes = fs::metadata(path).unwrap().len() as f64 / 1e6;
    for (what, run) in [("read", read as fn(&Path) -> (f64, u64)), ("read and describe", describe)]
    {
        let (_, records) = run(path);
        let seconds = median((0..RUNS).map(|_| run(path).0).collect());
        println!(
            "{name:<9} {what:<18} {megabytes:>6.0} MB {:>8.0} MB/s {:>8.2} M records/s",
            megabytes / seconds,
            records as f64 / seconds / 1e6
        );
    }
}

/// The Python process that reads the file with Polars, once for every line it is given.
fn polars(path: &Path) -> Option<Child> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = std::env::var_os("FOREBAY_POLARS_PYTHON")
        .map_or_else(|| here.join("../../target/polars/bin/python"), PathBuf::from);
    Command::new(python)
        .arg(here.join("benches/polars.py"))
        .arg(path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()
}

fn against_polars(path: &Path) {
    let Some(mut child) = polars(path) else {
        println!("polars    not installed; see benches/polars.py");
        return;
    };
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut once = || -> Option<f64> {
        writeln!(input, "read").ok()?;
        let mut line = String::new();
        output.read_line(&mut line).ok()?;
        line.trim().parse().ok()
    };
    let Some(_) = once() else {
        println!("polars    did not run; see benches/polars.py");
        return;
    };
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        ours.push(describe(path).0);
        theirs.push(once().unwrap());
    }
    drop(input);
    child.wait().unwrap();
    let (ours, theirs) = (median(ours), median(theirs));
    println!(
        "polars    {theirs:.3} s into columns, describe {ours:.3} s: ratio {:.2}, target {TARGET}",
        theirs / ours
    );
}

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let msr = msr(folder.path());
    rows("msr", &msr);
    against_polars(&msr);
    rows("blktrace", &blktrace(folder.path()));
    rows("parquet", &parquet(folder.path(), &msr));
}
