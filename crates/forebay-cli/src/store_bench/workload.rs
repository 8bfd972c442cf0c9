//! Workloads: YCSB's core workloads (Cooper and others, SoCC 2010), and ingest.
//!
//! Each operation depends only on the seed and on its number, so a run is repeatable regardless of
//! which client performs which operation. Keys are chosen as in YCSB: either scrambled zipfian,
//! which hashes one of 10^10 items to a record, or skewed towards the latest records. YCSB hashes
//! with FNV; this module uses SplitMix64.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use forebay_ask::{Choice, Value};
use forebay_core::random::mix;
use rand_distr::{Distribution, Zipf};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// The skew of all zipfian distributions (YCSB's constant).
const SKEW: f64 = 0.99;
/// The number of items that are hashed to records (YCSB's constant).
const ITEMS: f64 = 1e10;
/// The maximum length of a scan (YCSB's constant). Lengths are uniformly distributed.
const SCAN_MAX: u64 = 100;

/// A workload, selected by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workload {
    A,
    B,
    C,
    D,
    E,
    F,
    Ingest,
}

const WORKLOADS: [Workload; 7] = [
    Workload::A,
    Workload::B,
    Workload::C,
    Workload::D,
    Workload::E,
    Workload::F,
    Workload::Ingest,
];

impl Value for Workload {
    const WORD: &'static str = "WORKLOAD";
    const CHOICES: &'static [Choice] = &[
        Choice { name: "a", about: "half reads, half updates; zipfian" },
        Choice { name: "b", about: "95 % reads, 5 % updates; zipfian" },
        Choice { name: "c", about: "reads; zipfian" },
        Choice { name: "d", about: "95 % reads, mostly of the latest records, 5 % inserts" },
        Choice { name: "e", about: "95 % scans of up to 100 keys, 5 % inserts; zipfian" },
        Choice { name: "f", about: "half reads, half read-modify-writes; zipfian" },
        Choice { name: "ingest", about: "only puts, of new keys in random order" },
    ];

    fn parse(text: &str) -> Result<Workload, String> {
        let found = WORKLOADS.into_iter().find(|workload| workload.name() == text);
        found.ok_or_else(|| format!("got '{text}', expected a, b, c, d, e, f or ingest"))
    }
}

impl Workload {
    /// Returns the name of the workload in options.
    pub(super) fn name(self) -> &'static str {
        Workload::CHOICES[self as usize].name
    }

    /// Returns whether records must be loaded first.
    pub(super) fn is_loaded(self) -> bool {
        self != Workload::Ingest
    }

    /// Returns whether the workload adds keys.
    pub(super) fn inserts(self) -> bool {
        matches!(self, Workload::D | Workload::E | Workload::Ingest)
    }

    /// Returns the most frequent operation, its share, and the other operation.
    fn shares(self) -> (OperationKind, f64, OperationKind) {
        match self {
            Workload::A => (OperationKind::Read, 0.5, OperationKind::Update),
            Workload::B => (OperationKind::Read, 0.95, OperationKind::Update),
            Workload::C => (OperationKind::Read, 1.0, OperationKind::Read),
            Workload::D => (OperationKind::Read, 0.95, OperationKind::Insert),
            Workload::E => (OperationKind::Scan, 0.95, OperationKind::Insert),
            Workload::F => (OperationKind::Read, 0.5, OperationKind::ReadModifyWrite),
            Workload::Ingest => (OperationKind::Insert, 1.0, OperationKind::Insert),
        }
    }
}

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OperationKind {
    Read,
    Update,
    Insert,
    Scan,
    ReadModifyWrite,
}

impl OperationKind {
    pub(super) const ALL: [OperationKind; 5] = [
        OperationKind::Read,
        OperationKind::Update,
        OperationKind::Insert,
        OperationKind::Scan,
        OperationKind::ReadModifyWrite,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            OperationKind::Read => "read",
            OperationKind::Update => "update",
            OperationKind::Insert => "insert",
            OperationKind::Scan => "scan",
            OperationKind::ReadModifyWrite => "read-modify-write",
        }
    }
}

/// An operation, and the record it applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) kind: OperationKind,
    pub(super) record: u64,
    /// The number of keys to scan.
    pub(super) count: usize,
}

/// Generates the operations of a workload by their number.
pub(super) struct Steps {
    workload: Workload,
    seed: u64,
    /// The maximum number of records that exist at the end of the run.
    records_max: u64,
    scrambled: Zipf<f64>,
    inserted: Inserted,
}

impl Steps {
    /// Creates a generator for a store with `records` records and a run of at most `operations`
    /// operations.
    pub(super) fn new(workload: Workload, seed: u64, records: u64, operations: u64) -> Steps {
        let added = if workload.inserts() { operations } else { 0 };
        Steps {
            workload,
            seed,
            records_max: records + added,
            scrambled: zipf(ITEMS),
            inserted: Inserted::after(records),
        }
    }

    /// Returns operation number `at`.
    pub(super) fn step(&self, at: u64) -> Step {
        let mut dice = Xoshiro256PlusPlus::seed_from_u64(mix(self.seed ^ mix(at)));
        let (usual, share, other) = self.workload.shares();
        let unit = (dice.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let kind = if unit < share { usual } else { other };
        let record = match kind {
            OperationKind::Insert => self.inserted.take(),
            _ => self.chosen(&mut dice),
        };
        let count = match kind {
            OperationKind::Scan => 1 + dice.next_u64() % SCAN_MAX,
            _ => 1,
        };
        Step { kind, record, count: count as usize }
    }

    /// Records that an insert was acknowledged.
    pub(super) fn inserted(&self, record: u64) {
        self.inserted.done(record);
    }

    /// Chooses one of the existing records.
    fn chosen(&self, dice: &mut Xoshiro256PlusPlus) -> u64 {
        let there = self.inserted.there().max(1);
        if self.workload == Workload::D {
            return there - zipf(there as f64).sample(dice) as u64;
        }
        loop {
            // Draw from all records that may ever exist, so that popular records stay popular as
            // the store grows.
            let record = mix(self.scrambled.sample(dice) as u64) % self.records_max;
            if record < there {
                return record;
            }
        }
    }
}

/// Returns a zipfian distribution over the integers from 1 to `items`.
fn zipf(items: f64) -> Zipf<f64> {
    Zipf::new(items, SKEW).expect("one item or more, and a skew above 0")
}

/// The inserted records. A record counts only after all records before it were inserted.
struct Inserted {
    next: AtomicU64,
    there: AtomicU64,
    early: Mutex<BTreeSet<u64>>,
}

impl Inserted {
    fn after(records: u64) -> Inserted {
        let (next, there) = (AtomicU64::new(records), AtomicU64::new(records));
        Inserted { next, there, early: Mutex::default() }
    }

    fn take(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn there(&self) -> u64 {
        self.there.load(Ordering::Acquire)
    }

    fn done(&self, record: u64) {
        let mut early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        early.insert(record);
        while early.remove(&self.there()) {
            self.there.fetch_add(1, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(workload: Workload, count: u64) -> (Vec<Step>, Vec<f64>) {
        let steps = Steps::new(workload, 7, 1000, count);
        let all: Vec<Step> = (0..count)
            .map(|at| {
                let step = steps.step(at);
                if step.kind == OperationKind::Insert {
                    steps.inserted(step.record);
                }
                step
            })
            .collect();
        let share = |kind: OperationKind| {
            all.iter().filter(|step| step.kind == kind).count() as f64 / count as f64
        };
        let shares = OperationKind::ALL.map(share).to_vec();
        (all, shares)
    }

    #[test]
    fn workloads_have_the_shares_of_ycsb() {
        for (workload, expected) in [
            (Workload::A, [0.5, 0.5, 0.0, 0.0, 0.0]),
            (Workload::B, [0.95, 0.05, 0.0, 0.0, 0.0]),
            (Workload::C, [1.0, 0.0, 0.0, 0.0, 0.0]),
            (Workload::D, [0.95, 0.0, 0.05, 0.0, 0.0]),
            (Workload::E, [0.0, 0.0, 0.05, 0.95, 0.0]),
            (Workload::F, [0.5, 0.0, 0.0, 0.0, 0.5]),
            (Workload::Ingest, [0.0, 0.0, 1.0, 0.0, 0.0]),
        ] {
            let (_, shares) = counted(workload, 20_000);
            for (got, expected) in shares.iter().zip(expected) {
                assert!((got - expected).abs() < 0.015, "{workload:?}: {shares:?}");
            }
        }
    }

    #[test]
    fn popular_records_are_as_popular_as_in_ycsb_and_lie_anywhere() {
        let (steps, _) = counted(Workload::C, 100_000);
        let mut counts = vec![0_u32; 1000];
        steps.iter().for_each(|step| counts[step.record as usize] += 1);
        let most = counts.iter().max().copied().unwrap_or(0);
        // Expected: 1 / zeta(10^10, 0.99) = 1 / 26.469, plus other items that hash to the same
        // record.
        assert!((3_700..4_300).contains(&most), "{most}");
        // Popular records are spread over both halves, and nearly every record is read.
        assert!(counts.iter().filter(|count| **count > 0).count() > 990);
        let mut ranks: Vec<usize> = (0..1000).collect();
        ranks.sort_by_key(|at| std::cmp::Reverse(counts[*at]));
        let low = ranks[..100].iter().filter(|at| **at < 500).count();
        assert!((30..70).contains(&low), "{low}");
    }

    #[test]
    fn the_latest_records_are_read_most_and_only_after_their_insertion() {
        let (steps, _) = counted(Workload::D, 50_000);
        let mut there = 1000;
        let mut behind = Vec::new();
        for step in steps {
            match step.kind {
                OperationKind::Insert => there += 1,
                _ => {
                    assert!(step.record < there, "{} of {there}", step.record);
                    behind.push(there - 1 - step.record);
                }
            }
        }
        let latest = behind.iter().filter(|behind| **behind == 0).count() as f64;
        // Expected: 1 / zeta(n, 0.99), which is 0.13 for n = 1000 and 0.12 for n = 3500.
        assert!((0.10..0.15).contains(&(latest / behind.len() as f64)), "{latest}");
    }

    #[test]
    fn an_insert_counts_once_all_earlier_inserts_are_done() {
        let inserted = Inserted::after(5);
        assert_eq!([inserted.take(), inserted.take(), inserted.take()], [5, 6, 7]);
        inserted.done(7);
        assert_eq!(inserted.there(), 5);
        inserted.done(5);
        assert_eq!(inserted.there(), 6);
        inserted.done(6);
        assert_eq!(inserted.there(), 8);
    }

    #[test]
    fn a_seed_gives_the_same_operations() {
        let steps = |seed| {
            let steps = Steps::new(Workload::A, seed, 1000, 0);
            (0..100).map(|at| steps.step(at)).collect::<Vec<_>>()
        };
        assert_eq!(steps(1), steps(1));
        assert_ne!(steps(1), steps(2));
    }
}
