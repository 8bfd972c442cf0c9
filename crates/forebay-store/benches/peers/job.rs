//! The jobs that every engine runs, and their results. Our store runs in ours.rs, the other engines
//! in peers.cc.

pub(crate) use forebay_testing::mixed;
use std::time::{Duration, Instant};

use serde_json::Value as Json;

/// The kind of job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Puts values; each writer waits until a value is durable before it puts the next.
    Put,
    /// Reads the values of randomly chosen existing keys.
    Get,
    /// Scans all values in key order.
    Scan,
    /// Scans [`RANGE_VALUES`] values from a random key.
    Range,
}

impl Operation {
    const ALL: [Operation; 4] = [Operation::Put, Operation::Get, Operation::Scan, Operation::Range];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Operation::Put => "put",
            Operation::Get => "get",
            Operation::Scan => "scan",
            Operation::Range => "range",
        }
    }

    pub(crate) fn of(name: &str) -> Operation {
        let found = Operation::ALL.into_iter().find(|operation| operation.name() == name);
        found.unwrap_or_else(|| panic!("got {name}, expected put, get, scan or range"))
    }
}

/// A job: an operation and its load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) operation: Operation,
    pub(crate) value_bytes: u64,
    /// The number of threads, each with one operation at a time.
    pub(crate) writers: u64,
    /// The maximum number of operations; the job also ends after `seconds`.
    pub(crate) count: u64,
    pub(crate) seconds: u64,
    /// The number of existing values.
    pub(crate) there: u64,
    /// The number of operations started per second, whether or not earlier ones have completed; 0
    /// starts each when the previous one completes. Latency counts from the time at which an
    /// operation was due.
    pub(crate) rate: u64,
    /// Whether keys are used in order rather than at random.
    pub(crate) is_sequential: bool,
}

/// The number of values in a short scan.
const RANGE_VALUES: u64 = 100;

impl Job {
    /// Returns the settings as command-line arguments for our program and peers.cc.
    pub(crate) fn words(&self) -> Vec<String> {
        let number = |name: &str, number: u64| format!("{name}={number}");
        vec![
            number("value-bytes", self.value_bytes),
            number("writers", self.writers),
            number("count", self.count),
            number("seconds", self.seconds),
            number("there", self.there),
            number("rate", self.rate),
            number("sequential", self.is_sequential.into()),
            number("scan", RANGE_VALUES),
        ]
    }

    pub(crate) fn parse(operation: &str, words: &[String]) -> Job {
        let number = |name: &str| -> u64 {
            let found = words.iter().find_map(|word| word.strip_prefix(&format!("{name}=")));
            found.unwrap_or_else(|| panic!("no {name}")).parse().unwrap()
        };
        Job {
            operation: Operation::of(operation),
            value_bytes: number("value-bytes"),
            writers: number("writers"),
            count: number("count"),
            seconds: number("seconds"),
            there: number("there"),
            rate: number("rate"),
            is_sequential: number("sequential") == 1,
        }
    }

    /// Returns the 16-byte key of value number `at`.
    pub(crate) fn key(&self, at: u64) -> [u8; 16] {
        let mut key = [0; 16];
        match self.is_sequential {
            true => key.copy_from_slice(format!("{at:016}").as_bytes()),
            false => {
                key[..8].copy_from_slice(&mixed(2 * at).to_le_bytes());
                key[8..].copy_from_slice(&mixed(2 * at + 1).to_le_bytes());
            }
        }
        key
    }

    /// Returns the number of the value that read number `at` reads.
    pub(crate) fn drawn(&self, at: u64) -> u64 {
        mixed(at ^ 0x5EED) % self.there
    }

    pub(crate) fn range_values(&self) -> u64 {
        RANGE_VALUES
    }

    /// Returns when operation number `at` is due: now, if no rate is set.
    pub(crate) fn wait(&self, began: Instant, at: u64) -> Instant {
        if self.rate == 0 {
            return Instant::now();
        }
        let due = began + Duration::from_nanos(at * 1_000_000_000 / self.rate);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        due
    }
}

/// Incompressible random bytes from which values are cut.
pub(crate) struct Pool(Vec<u8>);

impl Pool {
    pub(crate) fn new(bytes: u64) -> Pool {
        Pool((0..bytes / 8).flat_map(|at| mixed(!at).to_le_bytes()).collect())
    }

    pub(crate) fn value(&self, at: u64, len: u64) -> &[u8] {
        let from = (mixed(at) % (self.0.len() as u64 - len)) as usize;
        &self.0[from..from + len as usize]
    }
}

/// The result of a job.
#[derive(Clone, Debug)]
pub(crate) struct Outcome(pub(crate) Json);

impl Outcome {
    pub(crate) fn number(&self, name: &str) -> f64 {
        self.0[name].as_f64().unwrap_or_else(|| panic!("no {name} in {}", self.0))
    }

    /// Returns the throughput of values in MB/s.
    pub(crate) fn mb_per_s(&self) -> f64 {
        self.number("bytes") / 1e6 / self.number("seconds")
    }
}
