//! Measures how fast traces are read and described, and compares `describe` with Polars on the same
//! file.
//!
//! The traces are generated in a temporary folder. Polars runs in a child process
//! (`benches/polars.py`), where it reads the text files into columns and computes the figures that
//! it supports. It takes turns with our code: A B A B. If Polars is not installed, a note says so,
//! and only our code is measured.

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
/// The target: how many times as fast `describe` must be as Polars, which computes comparable
/// figures.
const TARGET: f64 = 2.0;

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed ^ (mixed >> 29)
}

/// Returns the requests of a server with four disks of 100 GB: runs of 16 requests on average, one
/// third of which are writes.
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

/// A text format: its name, its columns, their types in Polars, and its separator.
struct Text {
    name: &'static str,
    columns: &'static str,
    separator: char,
}

const TEXTS: [Text; 5] = [
    Text {
        name: "msr",
        columns: "at:u64,volume:str,disk:u32,op:str,offset:u64,len:u32,latency:u64",
        separator: ',',
    },
    Text {
        name: "alibaba",
        columns: "volume:u32,op:str,offset:u64,len:u32,at:u64",
        separator: ',',
    },
    Text {
        name: "tencent-cbs",
        columns: "at:u64,offset:u64,len:u32,op:u8,volume:u32",
        separator: ',',
    },
    Text { name: "spc", columns: "volume:u32,offset:u64,len:u32,op:str,at:f64", separator: ',' },
    Text { name: "mqsim", columns: "at:u64,volume:u32,offset:u64,len:u32,op:u32", separator: ' ' },
];

/// Writes the requests in a text format.
fn text(folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(name);
    let mut file = BufWriter::new(File::create(&path).unwrap());
    let mut start = None;
    for (at, disk, write, offset, len, _) in requests() {
        let us = (at - *start.get_or_insert(at)) / 10;
        let (letter, number) = if write { ('W', 1) } else { ('R', 0) };
        let (lba, sectors) = (offset / 512, len / 512);
        let disk = disk * 111;
        match name {
            "alibaba" => {
                writeln!(file, "{disk},{letter},{offset},{len},{}", 1_577_808_000_000_000 + us)
            }
            "tencent-cbs" => {
                let s = 1_538_323_200 + us / 1_000_000;
                writeln!(file, "{s},{lba},{sectors},{number},{disk}")
            }
            "spc" => {
                let (s, us) = (us / 1_000_000, us % 1_000_000);
                writeln!(file, "{disk},{lba},{len},{letter},{s}.{us:06}")
            }
            _ => writeln!(file, "{} {disk} {lba} {sectors} {}", us * 1000, 1 - number),
        }
        .unwrap();
    }
    path
}

/// Writes a queue and a completion event for each request, as blktrace does on a single CPU.
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
    let mut writer = write::create(&path, None, &write::ProtectedFiles::default()).unwrap();
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

/// Reads a file to its end. Returns the time in seconds, and what was read.
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

/// Describes a file, which is read in another thread. Returns the time in seconds, and what was
/// read.
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
            "{name:<11} {what:<18} {megabytes:>6.0} MB {:>8.0} MB/s {:>8.2} M records/s",
            megabytes / seconds,
            records as f64 / seconds / 1e6
        );
    }
}

/// Starts a Python process that reads or describes the file with Polars once for every line that it
/// receives.
fn polars(path: &Path, text: &Text) -> Option<Child> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = std::env::var_os("FOREBAY_POLARS_PYTHON")
        .map_or_else(|| here.join("../../target/polars/bin/python"), PathBuf::from);
    Command::new(python)
        .arg(here.join("benches/polars.py"))
        .arg(path)
        .arg(text.columns)
        .arg(text.separator.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()
}

/// Reads and describes a file, taking turns with Polars.
fn against_polars(path: &Path, text: &Text) {
    let Some(mut child) = polars(path, text) else {
        println!("polars    not installed; see benches/polars.py");
        return;
    };
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut theirs = |what: &str| -> Option<f64> {
        writeln!(input, "{what}").ok()?;
        let mut line = String::new();
        output.read_line(&mut line).ok()?;
        line.trim().parse().ok()
    };
    if theirs("read").and_then(|_| theirs("describe")).is_none() {
        println!("polars    did not run; see benches/polars.py");
        return;
    }
    let (mut our_reads, mut our_describes) = (Vec::new(), Vec::new());
    let (mut their_reads, mut their_describes) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        our_reads.push(read(path).0);
        their_reads.push(theirs("read").unwrap());
        our_describes.push(describe(path).0);
        their_describes.push(theirs("describe").unwrap());
    }
    drop(input);
    child.wait().unwrap();
    let (read, describe) = (median(our_reads), median(our_describes));
    let (their_read, their_describe) = (median(their_reads), median(their_describes));
    println!(
        "{:<11} against Polars reading ({their_read:.3} s): read {read:.3} s, ratio {:.2}; describe \
         {describe:.3} s, ratio {:.2}",
        text.name,
        their_read / read,
        their_read / describe
    );
    println!(
        "{:<11} against Polars describing ({their_describe:.3} s): describe {describe:.3} s, ratio \
         {:.2}; target {TARGET}",
        text.name,
        their_describe / describe
    );
}

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let msr = msr(folder.path());
    for preset in &TEXTS {
        let path = match preset.name {
            "msr" => msr.clone(),
            name => text(folder.path(), name),
        };
        rows(preset.name, &path);
        against_polars(&path, preset);
    }
    rows("blktrace", &blktrace(folder.path()));
    rows("parquet", &parquet(folder.path(), &msr));
}
