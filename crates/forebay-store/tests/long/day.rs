//! Tests a day's ingest in virtual time, in bursts and lulls, with reads, deletions, scans and
//! restarts.

use forebay_core::Nanos;
use forebay_store::Config;

use crate::long::Disks;
use crate::long::keys::{Load, Model, Told};

const MIB: u64 = 1 << 20;

/// About a tenth of the default sizes.
fn config() -> Config {
    Config {
        log_bytes: 500_000,
        log_bytes_max: 1_000_000,
        group_bytes: 128 << 10,
        fan_in: 4,
        runs_max: 32,
        segment_bytes: 2 << 20,
        merge_bytes: 4 << 20,
        step_bytes: 256 << 10,
        node_bytes: 256 << 10,
        ..Config::default()
    }
}

fn lives(seconds: u64) {
    let load = Load {
        keys: 10_000,
        value_bytes: 6000,
        deletes_one_in: 9,
        writes: 70,
        skew: 50,
        is_bursty: true,
        room: 16,
        end: Nanos::ZERO,
        operations: u64::MAX,
    };
    let disks = Disks::new(64 * MIB, config());
    let mut model = Model::new(&load, 3);
    let (mut at, mut all, mut memory_max, mut merges, mut held_max) =
        (Nanos::ZERO, Told::default(), 0, 0, 0);
    // In turn, the store is closed, killed, killed and closed.
    for (part, closes) in [true, false, false, true].into_iter().enumerate() {
        let end = Nanos::from_secs(seconds * (part as u64 + 1) / 4);
        let life = disks.live(Load { end, ..load }, &mut model, closes, at);
        at = end;
        all.writes += life.told.writes;
        all.put_bytes += life.told.put_bytes;
        all.read += life.told.read;
        all.scanned += life.told.scanned;
        all.refused += life.told.refused;
        memory_max = memory_max.max(life.memory_max);
        held_max = held_max.max(life.figures.segment_bytes_max);
        merges += life.figures.merges;
    }
    let live = model.live_bytes(&load);
    let written = disks.written() as f64 / all.put_bytes as f64;
    println!(
        "{seconds} s: {all:?}, {merges} merges, {live} live, {held_max} held, {memory_max} in memory, \
         {written:.1} written a byte put"
    );
    assert!(all.writes > seconds * 7 / 10 && all.read > seconds / 4 && merges > 2);
    assert_eq!(all.refused, 0);
    // A few logs, the nodes, and the filter bits and bounds of each key.
    let most = 3 * config().log_bytes_max + config().node_bytes + 64 * u64::from(load.keys);
    assert!(memory_max < most, "{memory_max} bytes in memory, expected {most}");
    assert!(held_max < 3 * live + 32 * config().log_bytes);
    assert!(written < 15.0, "{written} bytes written for one put");
}

#[test]
fn an_hour_of_ingest_is_complete() {
    lives(3600);
}

/// Takes some 40 seconds; run by `make day`.
#[test]
#[ignore = "long; make day"]
fn a_day_of_ingest_is_complete() {
    lives(86_400);
}
