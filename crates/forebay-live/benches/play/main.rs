//! Compares the live driver with fio, in the same run on the same file.
//!
//! 1. Random 4 KiB direct reads, 32 at a time, through io_uring with registered files and buffers:
//!    I/Os per second of CPU time (user and system, as getrusage(2) reports for each program).
//!    Target: at least fio's.
//! 2. A timed replay of 20,000 random 4 KiB reads per second with exponential gaps: how late
//!    requests reach the kernel. Both programs are observed from outside, through the kernel's own
//!    record of each submission (`io_uring_submit_req` in tracefs); the n-th submission is the n-th
//!    request. Times count from the moment at which a program is least late, so that neither is
//!    charged for starting up. Target: the driver's 99th percentile is at most a fifth of that of
//!    fio's `read_iolog`, and there is no drift (the difference between the median lateness of the
//!    last and the first tenth).
//!
//! 3. The same requests, slower, on an emulated device in wall time and in the simulator: how much
//!    the quantiles of the waiting times differ. Target: at most 2 % or 100 us.
//!
//! Run it with `cargo bench -p forebay-live --bench play -- [FOLDER]`; the file is created in
//! FOLDER, by default the folder for temporary files. Rounds of both programs alternate, because
//! the load of the machine varies, and results are medians. On a busy machine, both programs
//! occasionally wait for a CPU for some milliseconds; `chrt -f 1` before the program (which is what
//! `forebay play --realtime` does) shows the results without these waits.

#![allow(clippy::unwrap_used)]

mod fio;
mod load;
mod submissions;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use forebay_core::catalog::{PolicyVisitor, build, with_policy};
use forebay_core::contract::policy::Done;
use forebay_core::device::fixed::Fixed;
use forebay_core::{Nanos, Observer, Policy, Workload, simulate};
use forebay_live::{
    CpuTime, Emulated, LEN_MAX, Patterned, Punctual, Target, TargetOptions, Uring, WallClock,
    Watch, run,
};

use load::{Outstanding, Timed};
use submissions::Submissions;

const FILE_BYTES: u64 = 512 << 20;
const DEPTH: u32 = 32;
const ROUNDS: usize = 5;
const SECONDS: u64 = 4;
const RATE_IOPS: f64 = 20_000.0;
const EMULATED_IOPS: f64 = 500.0;
/// Issues requests in the order in which they arrive.
const POLICY: &str = "noop:merge=no:reads-max=1024:writes-max=1024";

/// The observations during a run.
#[derive(Default)]
struct Watched {
    ios: u64,
    failed: u64,
    lateness: Vec<Nanos>,
    /// The latency of each request in microseconds.
    waited: Vec<f64>,
    length: Option<Nanos>,
}

impl Observer for Watched {
    fn io(&mut self, _completion: &forebay_core::Completion) {
        self.ios += 1;
    }
    fn finished(&mut self, now: Nanos, done: &Done) {
        // The workload is endless, so requests after the end are not counted.
        if self.length.is_none() {
            self.waited.push((now - done.request.at).0 as f64 / 1e3);
        }
    }
}

impl Watch for Watched {
    fn issued(&mut self, wanted: Nanos, at: Nanos) {
        self.lateness.push(at - wanted);
    }
    fn failed(&mut self, _: Nanos, _: &forebay_core::Request, _: forebay_live::Failure) {
        self.failed += 1;
    }
    fn stops(&mut self, wall: Nanos) -> bool {
        self.length.is_some_and(|length| wall >= length)
    }
}

/// Plays a workload on the file.
struct Play<'a, W> {
    file: &'a Path,
    workload: W,
    depth: u32,
    length: Option<Nanos>,
}

impl<W: Workload> PolicyVisitor for Play<'_, W> {
    type Out = (Watched, Nanos, CpuTime);
    fn visit<P: Policy + Send + 'static>(self, mut policy: P) -> Self::Out {
        let how =
            TargetOptions { writes: false, overwrite: false, need_bytes: FILE_BYTES, direct: true };
        let target = Target::open(self.file, how).unwrap();
        let mut lanes = Uring::new(vec![target], self.depth).map_err(|(error, _)| error).unwrap();
        let mut watched = Watched { length: self.length, ..Watched::default() };
        let _punctual = Punctual::thread(false).unwrap();
        let before = CpuTime::used();
        let pattern = lanes.pattern();
        let mut workload = Patterned::new(self.workload, pattern, false);
        let end = run(&mut policy, &mut lanes, &mut workload, &mut watched).unwrap();
        (watched, end, CpuTime::used().since(before))
    }
}

fn play<W: Workload>(play: Play<'_, W>) -> (Watched, Nanos, CpuTime) {
    let played = with_policy(POLICY, LEN_MAX, play).unwrap();
    assert_eq!(played.0.failed, 0, "reads failed");
    played
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * share) as usize]
}

/// Compares the I/Os per second, and per second of CPU time.
fn throughput(file: &Path) {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    println!("random 4 KiB direct reads, {DEPTH} at a time, {SECONDS} s a round");
    println!("{:>8} {:>12} {:>16}", "", "IOPS", "IOPS per CPU s");
    for _ in 0..ROUNDS {
        let workload = Outstanding::new(DEPTH, FILE_BYTES);
        let length = Some(Nanos::from_secs(SECONDS));
        let (watched, end, cpu) = play(Play { file, workload, depth: DEPTH, length });
        let per_cpu_s = watched.ios as f64 / (cpu.user + cpu.system).as_secs_f64();
        println!(
            "{:>8} {:12.0} {per_cpu_s:16.0}",
            "forebay",
            watched.ios as f64 / end.as_secs_f64()
        );
        ours.push(per_cpu_s);
        let (iops, per_cpu_s) = fio::random_reads(file, DEPTH, SECONDS);
        println!("{:>8} {iops:12.0} {per_cpu_s:16.0}", "fio");
        theirs.push(per_cpu_s);
    }
    let (ours, theirs) = (median(&mut ours), median(&mut theirs));
    println!(
        "forebay {ours:.0}, fio {theirs:.0} IOPS per CPU s: {:.2} times (target 1.00)\n",
        ours / theirs
    );
}

/// Returns the 99th percentile and the drift of the delays from `wanted` to `submitted`, in
/// microseconds.
fn lateness(submitted: &[f64], wanted: &[Nanos]) -> (f64, f64) {
    assert_eq!(submitted.len(), wanted.len(), "a submission each request");
    let pairs = submitted.iter().zip(wanted);
    let mut late: Vec<f64> = pairs.map(|(at_us, wanted)| at_us - wanted.0 as f64 / 1e3).collect();
    let least = late.iter().copied().fold(f64::MAX, f64::min);
    late.iter_mut().for_each(|late| *late -= least);
    let tenth = late.len() / 10;
    let first = median(&mut late[..tenth].to_vec());
    let last = median(&mut late[late.len() - tenth..].to_vec());
    (quantile(&mut late, 0.99), last - first)
}

/// Compares how late requests reach the kernel.
fn timed(file: &Path) {
    let Some(submissions) = Submissions::new() else {
        println!("!!! lateness beside fio is SKIPPED: it needs root and a tracefs");
        return;
    };
    let load = Timed::new(RATE_IOPS, SECONDS, FILE_BYTES);
    let log = file.with_extension("iolog");
    fio::write_log(&log, file, &load.requests);
    let (mut ours, mut theirs, mut own) = (Vec::new(), Vec::new(), Vec::new());
    println!("{RATE_IOPS} random 4 KiB direct reads a second for {SECONDS} s: lateness in us");
    println!("{:>8} {:>12} {:>12} {:>16}", "", "p99", "drift", "p99, own figure");
    for _ in 0..ROUNDS {
        let mut told = Vec::new();
        let submitted = submissions.of("play", || {
            let (watched, ..) =
                play(Play { file, workload: load.workload(), depth: 256, length: None });
            told = watched.lateness.iter().map(|late| late.0 as f64 / 1e3).collect();
        });
        let (p99, drift) = lateness(&submitted, &load.wanted);
        let own_p99 = quantile(&mut told, 0.99);
        println!("{:>8} {p99:12.1} {drift:12.1} {own_p99:16.1}", "forebay");
        ours.push(p99);
        own.push(own_p99);
        let submitted = submissions.of("fio", || fio::replay(&log));
        let (p99, drift) = lateness(&submitted, &load.wanted);
        println!("{:>8} {p99:12.1} {drift:12.1}", "fio");
        theirs.push(p99);
    }
    let (ours, theirs) = (median(&mut ours), median(&mut theirs));
    println!("forebay {ours:.1} us, fio {theirs:.1} us: {:.3} of it (target 0.2)", ours / theirs);
}

/// A folder that is removed with its files on drop.
struct Made(PathBuf);

impl Made {
    /// Creates the folder with a file that was completely written, so that reads do not read holes.
    fn new(folder: PathBuf) -> Made {
        fs::create_dir(&folder).unwrap();
        let made = Made(folder);
        let mut out = fs::File::create(made.file()).unwrap();
        for piece in 0..FILE_BYTES >> 20 {
            out.write_all(&load::noise(piece)).unwrap();
        }
        out.sync_all().unwrap();
        made
    }

    fn file(&self) -> PathBuf {
        self.0.join("file")
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Compares the waiting times on an emulated device with those in the simulator.
fn emulated() {
    let load = Timed::new(EMULATED_IOPS, SECONDS, FILE_BYTES);
    let model = || Fixed::new(EMULATED_IOPS / 0.8).unwrap();
    let policy = || build(POLICY, LEN_MAX).unwrap();
    let mut said = Watched::default();
    simulate::run(&mut policy(), &mut [model()], &mut load.workload(), &mut said);
    let mut seen = Watched::default();
    let punctual = Punctual::thread(false).unwrap();
    let mut lanes = Emulated::new(vec![model()], WallClock::start());
    run(&mut policy(), &mut lanes, &mut load.workload(), &mut seen).unwrap();
    drop(punctual);
    println!(
        "\n{EMULATED_IOPS} requests a second on an emulated server, four fifths busy: response in us"
    );
    println!("{:>8} {:>12} {:>12} {:>12}", "", "simulated", "live", "apart");
    for share in [0.1, 0.5, 0.9, 0.99, 0.999] {
        let (said, seen) = (quantile(&mut said.waited, share), quantile(&mut seen.waited, share));
        println!("{share:8} {said:12.1} {seen:12.1} {:12.1}", seen - said);
    }
}

fn main() {
    emulated();
    if !fio::is_there() {
        println!("!!! there is no fio to compare with: SKIPPED");
        return;
    }
    let folder = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    let folder = folder.map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = folder.join(format!("forebay-bench-play-{}", std::process::id()));
    let made = Made::new(folder);
    throughput(&made.file());
    timed(&made.file());
}
