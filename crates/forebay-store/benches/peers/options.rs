//! The command-line options of the benchmark.

use std::path::PathBuf;

use crate::place::Rate;

pub(crate) struct Options {
    /// The folder for the files, on the disk to be measured.
    pub(crate) folder: PathBuf,
    /// The number of rounds; every engine runs once in each.
    pub(crate) rounds: usize,
    /// A run of puts ends after this many MB of values or this many seconds.
    pub(crate) mb: u64,
    pub(crate) seconds: u64,
    /// The lengths of values in bytes.
    pub(crate) values: Vec<u64>,
    pub(crate) writers: Vec<u64>,
    /// The modes to run: `bare`, `held` or both.
    pub(crate) modes: Vec<String>,
    /// The parts to run: `puts`, `reads` or both.
    pub(crate) parts: Vec<String>,
    pub(crate) rate: Rate,
    /// The number of puts started per second, whether or not earlier ones have completed; 0 starts
    /// each when the previous one completes.
    pub(crate) puts_per_s: u64,
    /// The reads' total size of values in MB, the length of a value in bytes, and the available
    /// memory in MB.
    pub(crate) reads_mb: u64,
    pub(crate) reads_value: u64,
    pub(crate) memory_mb: u64,
    /// The engines to run.
    pub(crate) engines: Vec<String>,
}

impl Options {
    /// Parses arguments such as `--mb=100`.
    pub(crate) fn parse(words: &[String]) -> Options {
        let text = |name: &str, default: &str| -> String {
            let prefix = format!("--{name}=");
            let found = words.iter().find_map(|word| word.strip_prefix(&prefix));
            found.unwrap_or(default).to_string()
        };
        let number = |name: &str, default: &str| -> u64 {
            let got = text(name, default);
            got.parse().unwrap_or_else(|_| panic!("--{name}: got {got}, expected a number"))
        };
        let list = |name: &str, default: &str| -> Vec<String> {
            text(name, default).split(',').map(String::from).collect()
        };
        let numbers = |name: &str, default: &str| -> Vec<u64> {
            list(name, default).iter().map(|word| word.parse().unwrap()).collect()
        };
        Options {
            folder: text("folder", ".").into(),
            rounds: number("rounds", "3") as usize,
            mb: number("mb", "500"),
            seconds: number("seconds", "5"),
            values: numbers("values", "1000,10000,100000,1000000"),
            writers: numbers("writers", "1,16"),
            modes: list("modes", "bare,held"),
            parts: list("parts", "puts,reads"),
            rate: Rate {
                mb_per_s: number("mb-per-s", "150"),
                writes_per_s: number("writes-per-s", "240"),
            },
            puts_per_s: number("puts-per-s", "0"),
            reads_mb: number("reads-mb", "1000"),
            reads_value: number("reads-value", "10000"),
            memory_mb: number("memory-mb", "512"),
            engines: list("engines", "fio,log,shift,leveldb,rocksdb"),
        }
    }

    /// Returns the number of bytes that the largest run needs on the disk.
    pub(crate) fn room_bytes(&self) -> u64 {
        let of =
            |part: &str, mb: u64| if self.parts.iter().any(|name| name == part) { mb } else { 0 };
        // In the part `reads`, the data of all engines is on the disk at the same time.
        let reads = of("reads", self.reads_mb) * self.engines.len() as u64;
        of("puts", self.mb).max(reads) * 1_700_000 + (1 << 30)
    }
}
