//! Compares our store with fio, LevelDB and RocksDB on one disk.
//!
//! All engines put the same values under the same random 16-byte keys, and each put is durable
//! before its writer's next. fio shows what the disk can do: it writes as many blocks of a value's
//! length with O_DSYNC into a preallocated file. `log` is our store when it only logs; `shift` also
//! transforms and merges, on four files of one disk. The other engines (peers.cc) use their
//! defaults, without compression. Engines take turns in each round, and results are medians of the
//! rounds' figures and of their ratios. Everything runs twice: on the disk as it is (`bare`), and
//! on a separate file system whose rate blkio limits to that of one disk, for repeatable results
//! (`held`, which needs root and cgroup v1).
//!
//! The read benchmarks then read what each engine has put, with little memory (including page
//! cache): values by key, everything in order, and scans of 100 values.
//!
//! Run it with `cargo bench -p forebay-store --bench peers -- --folder=FOLDER`; options.rs lists
//! the other options.

#![allow(clippy::unwrap_used, clippy::disallowed_types, clippy::disallowed_methods)]

mod job;
mod options;
mod others;
mod ours;
mod place;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use job::{Job, Operation, Outcome};
use options::Options;
use place::{Cell, Held};

/// The first argument with which this program is started to run our store.
const OURS: &str = "ours";

/// Runs the jobs and prints the tables.
struct Bench {
    options: Options,
    peers: Option<PathBuf>,
}

/// The results of each engine in each round.
type Rounds = BTreeMap<String, Vec<Outcome>>;

impl Bench {
    /// Returns the engine's folders in `folder`: four if the engine supports several disks, else
    /// one.
    fn folders(engine: &str, folder: &Path) -> String {
        let count = if ["log", "shift", "rocksdb-paths"].contains(&engine) { 4 } else { 1 };
        let name = |at: usize| folder.join(format!("disk{at}"));
        for at in 0..count {
            fs::create_dir_all(name(at)).unwrap();
        }
        (0..count).map(|at| name(at).display().to_string()).collect::<Vec<_>>().join(",")
    }

    /// Runs a job with an engine in a folder; returns `None` if the engine is not available.
    fn run(&self, engine: &str, folder: &Path, cell: &Cell, job: &Job) -> Option<Outcome> {
        if engine == "fio" {
            return Some(others::fio(folder, job));
        }
        let folders = Bench::folders(engine, folder);
        let mut words = vec![engine.to_string(), job.operation.name().to_string(), folders];
        words.extend(job.words());
        if ["log", "shift"].contains(&engine) {
            let values = job.count.max(job.there) * job.value_bytes;
            words.insert(0, format!("{}", values * 4 / 10 / 4096 * 4096 + (200 << 20)));
            words.insert(0, OURS.to_string());
            return Some(others::run(cell, &std::env::current_exe().unwrap(), &words));
        }
        self.peers.as_ref().map(|program| others::run(cell, program, &words))
    }

    /// Runs the puts of all engines in turn, each in a new folder.
    fn puts(&self, folder: &Path, value_bytes: u64, writers: u64) -> Rounds {
        let Options { mb, seconds, puts_per_s, .. } = self.options;
        let count = (mb * 1_000_000 / value_bytes).max(1);
        let job = Job {
            operation: Operation::Put,
            value_bytes,
            writers,
            count,
            seconds,
            there: 0,
            rate: puts_per_s,
            is_sequential: false,
        };
        let mut rounds = Rounds::new();
        for round in 0..self.options.rounds {
            for engine in &self.options.engines {
                let place = folder.join(format!("run-{round}-{engine}"));
                fs::create_dir(&place).unwrap();
                let outcome = self.run(engine, &place, &Cell::OPEN, &job);
                fs::remove_dir_all(&place).unwrap();
                let Some(outcome) = outcome else { continue };
                eprintln!("  {value_bytes} B, {writers} writers, {engine}: {}", outcome.0);
                rounds.entry(engine.clone()).or_default().push(outcome);
            }
        }
        rounds
    }

    fn table_of_puts(&self, folder: &Path) {
        println!(
            "{:>8} {:>7} | {:>6} {:>6} {:>8} | {:>6} {:>7} {:>7} {:>9} {:>9} | p99 ms: shift, LevelDB, RocksDB",
            "B",
            "writers",
            "fio",
            "log",
            "log/fio",
            "shift",
            "LevelDB",
            "RocksDB",
            "shift/Lev",
            "shift/Roc"
        );
        for &value_bytes in &self.options.values {
            for &writers in &self.options.writers {
                let rounds = self.puts(folder, value_bytes, writers);
                let mb = |engine: &str| figure(&rounds, engine, |outcome| outcome.mb_per_s());
                let share = |one: &str, other: &str| ratio(&rounds, one, other);
                let p99 = |engine: &str| {
                    figure(&rounds, engine, |outcome| outcome.number("p99_us") / 1e3)
                };
                println!(
                    "{value_bytes:>8} {writers:>7} | {:>6} {:>6} {:>8} | {:>6} {:>7} {:>7} {:>9} {:>9} | {} {} {}",
                    mb("fio"),
                    mb("log"),
                    share("log", "fio"),
                    mb("shift"),
                    mb("leveldb"),
                    mb("rocksdb"),
                    share("shift", "leveldb"),
                    share("shift", "rocksdb"),
                    p99("shift"),
                    p99("leveldb"),
                    p99("rocksdb"),
                );
            }
        }
    }

    /// Prints the latencies of puts at a fixed rate, whether or not earlier ones had completed.
    fn table_of_tails(&self, folder: &Path) {
        let Options { values, writers, puts_per_s, .. } = &self.options;
        println!("puts at {puts_per_s} a second, how long each took from when it was due, in ms:");
        println!(
            "{:>8} {:>7} {:>14} | {:>7} {:>7} {:>7} {:>7} | {:>6}",
            "B", "writers", "engine", "p50", "p99", "p99.9", "most", "MB/s"
        );
        for (&value_bytes, &writers) in
            values.iter().flat_map(|value| writers.iter().map(move |writers| (value, writers)))
        {
            let rounds = self.puts(folder, value_bytes, writers);
            for engine in self.options.engines.iter().filter(|engine| rounds.contains_key(*engine))
            {
                let ms = |name: &str| figure(&rounds, engine, |outcome| outcome.number(name) / 1e3);
                let mb = figure(&rounds, engine, Outcome::mb_per_s);
                println!(
                    "{value_bytes:>8} {writers:>7} {engine:>14} | {:>7} {:>7} {:>7} {:>7} | {mb:>6}",
                    ms("p50_us"),
                    ms("p99_us"),
                    ms("p999_us"),
                    ms("max_us"),
                );
            }
        }
    }

    /// Prints the results of reads with little memory: each engine puts its values once, then all
    /// engines read in turn. `hold` turns the disk's rate limit on or off; it is off during the
    /// puts.
    fn table_of_reads(&self, folder: &Path, hold: &dyn Fn(bool)) {
        let Options { reads_mb, reads_value, memory_mb, seconds, .. } = self.options;
        let count = reads_mb * 1_000_000 / reads_value;
        let put = Job {
            operation: Operation::Put,
            value_bytes: reads_value,
            writers: 16,
            count,
            seconds: 100_000,
            there: 0,
            rate: 0,
            is_sequential: false,
        };
        let cell = match Cell::of_memory(memory_mb << 20) {
            Ok(cell) => cell,
            Err(what) => {
                return println!("!!! reads are SKIPPED, for memory cannot be held: {what}");
            }
        };
        let engines =
            self.options.engines.iter().filter(|name| !["fio", "log"].contains(&&name[..]));
        let engines: Vec<&String> = engines.collect();
        let place = |engine: &str| folder.join(format!("read-{engine}"));
        hold(false);
        for engine in &engines {
            fs::create_dir(place(engine)).unwrap();
            self.run(engine, &place(engine), &cell, &put);
        }
        hold(true);
        println!(
            "{:>14} | {:>8} {:>8} {:>8} {:>9} {:>9}",
            "reads", "shift", "LevelDB", "RocksDB", "shift/Lev", "shift/Roc"
        );
        let cases = [
            ("by key, 1", Operation::Get, 1, count),
            ("by key, 16", Operation::Get, 16, count),
            ("everything", Operation::Scan, 1, 1),
            ("100 values", Operation::Range, 1, count / 100),
        ];
        for (name, operation, writers, most) in cases {
            let job = Job { operation, writers, count: most, seconds, there: count, ..put };
            let mut rounds = Rounds::new();
            for _ in 0..self.options.rounds {
                for engine in &engines {
                    let Some(outcome) = self.run(engine, &place(engine), &cell, &job) else {
                        continue;
                    };
                    eprintln!("  {name}, {engine}: {}", outcome.0);
                    assert!(operation != Operation::Get || outcome.number("missing") == 0.0);
                    rounds.entry((*engine).clone()).or_default().push(outcome);
                }
            }
            let mb = |engine: &str| figure(&rounds, engine, |outcome| outcome.mb_per_s());
            println!(
                "{name:>14} | {:>8} {:>8} {:>8} {:>9} {:>9}",
                mb("shift"),
                mb("leveldb"),
                mb("rocksdb"),
                ratio(&rounds, "shift", "leveldb"),
                ratio(&rounds, "shift", "rocksdb"),
            );
        }
        engines.iter().for_each(|engine| fs::remove_dir_all(place(engine)).unwrap());
    }

    fn tables(&self, folder: &Path, hold: &dyn Fn(bool)) {
        let is_wanted = |name: &str| self.options.parts.iter().any(|part| part == name);
        if is_wanted("puts") && self.options.puts_per_s > 0 {
            self.table_of_tails(folder);
        } else if is_wanted("puts") {
            self.table_of_puts(folder);
        }
        if is_wanted("reads") {
            let Options { reads_mb, reads_value, memory_mb, .. } = self.options;
            println!(
                "\n{reads_mb} MB in values of {reads_value} B, in {memory_mb} MiB of memory; MB/s:"
            );
            self.table_of_reads(folder, hold);
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Formats the median of a figure; `-` for an engine that was not run.
fn figure(rounds: &Rounds, engine: &str, of: impl Fn(&Outcome) -> f64) -> String {
    let Some(outcomes) = rounds.get(engine) else { return "-".into() };
    let value = median(outcomes.iter().map(of).collect());
    if value < 10.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}

/// Returns the median of the ratios of two engines' rates, round by round.
fn ratio(rounds: &Rounds, one: &str, other: &str) -> String {
    let (Some(ones), Some(others)) = (rounds.get(one), rounds.get(other)) else {
        return "-".into();
    };
    let pairs = ones.iter().zip(others);
    format!("{:.2}", median(pairs.map(|(one, other)| one.mb_per_s() / other.mb_per_s()).collect()))
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    if words.first().is_some_and(|word| word == OURS) {
        let job = Job::parse(&words[3], &words[5..]);
        return ours::run(&words[2], &words[4], words[1].parse().unwrap(), &job);
    }
    let options = Options::parse(&words);
    let peers = others::compile();
    match &peers {
        Ok(program) => println!("{}; {} rounds", others::version(program), options.rounds),
        Err(what) => println!("!!! LevelDB and RocksDB are SKIPPED: {what}"),
    }
    let bench = Bench { options, peers: peers.ok() };
    let folder = tempfile::tempdir_in(&bench.options.folder).unwrap();
    let Options { mb, seconds, rate, modes, .. } = &bench.options;
    println!("puts end after {mb} MB or {seconds} s; MB/s of values\n");
    for mode in modes {
        match &mode[..] {
            "bare" => {
                println!("The disk as it is:");
                bench.tables(folder.path(), &|_| ());
            }
            "held" => match Held::new(folder.path(), bench.options.room_bytes(), *rate) {
                Ok(held) => {
                    let place::Rate { mb_per_s, writes_per_s } = rate;
                    println!(
                        "\nHeld to {mb_per_s} MB/s and {writes_per_s} writes or flushes a second:"
                    );
                    held.hold(true);
                    bench.tables(&held.folder, &|is_held| held.hold(is_held));
                }
                Err(what) => println!("!!! the held disk is SKIPPED: {what}"),
            },
            got => panic!("got {got}, expected bare or held"),
        }
    }
}
