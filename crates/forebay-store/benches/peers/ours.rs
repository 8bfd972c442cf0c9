//! Runs a job on our store, in a separate process like the other engines.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use forebay_store::{Config, Store, Transformation, create, find};
use serde_json::json;

use crate::job::{Job, Operation, Pool};

/// The counters shared by all threads.
#[derive(Default)]
struct Counted {
    next: AtomicU64,
    bytes: AtomicU64,
    missing: AtomicU64,
}

/// Runs a job on the store in these folders and prints the result.
pub(crate) fn run(name: &str, folders: &str, disk_bytes: u64, job: &Job) {
    let transformation = match name {
        "log" => Transformation::None,
        _ => Transformation::Enhanced,
    };
    let config = Config { transformation, ..Config::default() };
    let folders: Vec<PathBuf> = folders.split(',').map(PathBuf::from).collect();
    let disks = match job.there {
        0 => create(&folders, disk_bytes, &config, false),
        _ => find(&folders),
    };
    let store = Store::open(disks.unwrap(), config).unwrap();
    let pool = Pool::new(if job.operation == Operation::Put { 32 << 20 } else { 2 << 20 });
    let counted = Counted::default();
    let threads = if job.operation == Operation::Scan { 1 } else { job.writers };
    let began = Instant::now();
    let mut took: Vec<Duration> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|_| scope.spawn(|| work(&store, job, &pool, &counted, began)))
            .collect();
        running.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let seconds = began.elapsed().as_secs_f64();
    let (figures, (_, runs)) = {
        let status = store.status();
        (status.figures, status.segment_totals)
    };
    let closing = Instant::now();
    store.close();
    took.sort();
    let at = |share: f64| match took.is_empty() {
        true => 0,
        false => took[(share * (took.len() - 1) as f64) as usize].as_micros() as u64,
    };
    let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
    println!(
        "{}",
        json!({
            "done": took.len(), "bytes": load(&counted.bytes), "missing": load(&counted.missing),
            "seconds": seconds, "close_s": closing.elapsed().as_secs_f64(),
            "p50_us": at(0.5), "p99_us": at(0.99), "p999_us": at(0.999), "max_us": at(1.0),
            "batches": figures.batches, "logs": figures.logs, "transformations": figures.transformations,
            "stalls": figures.stalls, "overlaps": figures.overlaps, "logged_bytes": figures.logged_bytes,
            "transformed_bytes": figures.transformed_bytes, "merged_bytes": figures.merged_bytes,
            "runs": runs,
        })
    );
}

/// Runs one thread's operations until all are done or the time is over; returns the duration of
/// each.
fn work(store: &Store, job: &Job, pool: &Pool, counted: &Counted, began: Instant) -> Vec<Duration> {
    let mut took = Vec::new();
    let seconds = Duration::from_secs(job.seconds);
    loop {
        let at = counted.next.fetch_add(1, Ordering::Relaxed);
        if at >= job.count || began.elapsed() >= seconds {
            return took;
        }
        let due = job.wait(began, at);
        let bytes = match job.operation {
            Operation::Put => {
                store.put(job.key(job.there + at), pool.value(at, job.value_bytes)).unwrap();
                job.value_bytes
            }
            Operation::Get => {
                let value = store.get(job.key(job.drawn(at))).unwrap();
                counted.missing.fetch_add(u64::from(value.is_none()), Ordering::Relaxed);
                value.map_or(0, |value| value.len() as u64)
            }
            Operation::Range => {
                let records = store.scan(job.key(job.drawn(at)), job.range_values() as usize);
                bytes_of(&records.unwrap())
            }
            Operation::Scan => scan(store),
        };
        counted.bytes.fetch_add(bytes, Ordering::Relaxed);
        took.push(due.elapsed());
    }
}

fn bytes_of(records: &[(forebay_store::Key, forebay_store::Value)]) -> u64 {
    records.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum()
}

/// Scans all values in key order; returns their total length in bytes.
fn scan(store: &Store) -> u64 {
    let snapshot = store.snapshot().unwrap();
    snapshot.records(&b""[..]).map(|record| bytes_of(&[record.unwrap()])).sum()
}
