//! The jobs of every engine and their results; ours runs in ours.rs, the others in peers.cc.

pub(crate) use forebay_testing::mixed;
use std::time::{Duration, Instant};

use serde_json::Value as Json;

/// The kind of job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Puts values, each durable before the writer's next.
    Put,
    /// Reads values by randomly drawn existing keys.
    Get,
    /// Reads everything in order.
    Scan,
    /// Reads some values from a drawn key on.
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

/// A load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) operation: Operation,
    pub(crate) value_bytes: u64,
    /// Threads, each with one operation at a time.
    pub(crate) writers: u64,
    /// Operations, unless the time is over before.
    pub(crate) count: u64,
    pub(crate) seconds: u64,
    /// The number of existing values, numbered from 0.
    pub(crate) there: u64,
    /// The rate at which operations start, whether or not earlier ones have completed; 0 to start
    /// one for each completion. Latency counts from when an operation was due.
    pub(crate) rate: u64,
    /// Keys in order, else drawn.
    pub(crate) is_sequential: bool,
}

/// Values of a short scan.
const RANGE_VALUES: u64 = 100;

impl Job {
    /// Returns the settings as arguments of both programs.
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

    /// Returns the key of the value of that number: 16 bytes.
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

    /// Returns the number of the value that the `at`-th read is of.
    pub(crate) fn drawn(&self, at: u64) -> u64 {
        mixed(at ^ 0x5EED) % self.there
    }

    pub(crate) fn range_values(&self) -> u64 {
        RANGE_VALUES
    }

    /// Returns when the `at`-th operation should begin; now, without a rate.
    pub(crate) fn wait(&self, began: Instant, at: u64) -> Instant {
        if self.rate == 0 {
            return Instant::now();
        }
        let due = began + Duration::from_nanos(at * 1_000_000_000 / self.rate);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        due
    }
}

/// Random bytes, from which values are cut: nothing compresses.
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

    /// MB of values a second.
    pub(crate) fn mb_per_s(&self) -> f64 {
        self.number("bytes") / 1e6 / self.number("seconds")
    }
}
