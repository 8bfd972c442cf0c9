//! Tests the anticipatory scheduler behind the block layer, in front of a device of constant
//! service time.

use super::*;
use crate::elevator::trial::{MIB, Run, ms, on, read, write};

fn run(config: AnticipatoryConfig) -> Run<Anticipatory> {
    Run::new(Anticipatory::new(config), true)
}

/// Returns a run with a sequential reader in stream 0 and, from the start, far reads of stream 1.
fn reader_against_far_reads(config: AnticipatoryConfig, think_ms: f64) -> Run<Anticipatory> {
    let mut run = run(config);
    run.until = ms(100.0);
    let far = (0..400).map(|i| read(0.5, 1, (5000 + 300 * i) * MIB));
    let arrivals = std::iter::once(read(0.0, 0, 0)).chain(far).collect();
    run.run(arrivals, |now, done| {
        (done.stream == 0).then(|| on(now, done, think_ms, u64::from(done.len))).flatten()
    });
    run
}

#[test]
fn the_scheduler_waits_for_a_nearby_next_read() {
    let run = reader_against_far_reads(AnticipatoryConfig::default(), 2.0);
    let own = run.given.iter().take(20).filter(|io| io.stream == 0).count();
    assert_eq!(own, 20, "{:?}", run.turns());
}

#[test]
fn without_waiting_the_reader_loses_its_turn() {
    let config = AnticipatoryConfig { antic_expire: Nanos::ZERO, ..Default::default() };
    let run = reader_against_far_reads(config, 2.0);
    let own = run.given.iter().take(20).filter(|io| io.stream == 0).count();
    assert!(own < 10, "{:?}", run.turns());
}

#[test]
fn waiting_ends_after_its_maximum() {
    let mut run = run(AnticipatoryConfig::default());
    run.run(vec![read(0.0, 0, 0), read(0.5, 1, 5000 * MIB)], |_, _| None);
    let at: Vec<Nanos> = run.given.iter().map(|io| io.at).collect();
    assert_eq!(at, [ms(0.0), ms(1.0 + 6.7)], "it completes at 1 ms and is waited for 6.7 ms");
}

#[test]
fn processes_that_think_longer_are_not_waited_for() {
    let run = reader_against_far_reads(AnticipatoryConfig::default(), 10.0);
    let waits = |pair: &[Request]| pair[1].at > pair[0].at + ms(1.0);
    let waited = run.given.windows(2).filter(|pair| waits(pair)).count();
    assert!(waited <= 2, "{waited} waits before its think time is known");
}

#[test]
fn a_close_read_of_another_process_ends_the_wait() {
    let mut run = run(AnticipatoryConfig::default());
    let arrivals = vec![read(0.0, 0, 0), read(0.5, 1, 5000 * MIB), read(3.0, 2, MIB)];
    run.run(arrivals, |_, _| None);
    let order: Vec<(u32, Nanos)> = run.given.iter().map(|io| (io.stream, io.at)).collect();
    // The scheduler then waits for stream 2 from the completion of its read on.
    assert_eq!(order, [(0, ms(0.0)), (2, ms(3.0)), (1, ms(4.0 + 6.7))]);
}

#[test]
fn reads_and_writes_take_turns_by_their_batches_time() {
    let mut run = run(AnticipatoryConfig::default());
    run.until = ms(3000.0);
    let reads = (0..4).map(|stream| read(0.0, stream, u64::from(stream) * 100 * MIB));
    let writes = (4..8).map(|stream| write(0.0, stream, u64::from(stream) * 1000 * MIB));
    run.run(reads.chain(writes).collect(), |now, done| on(now, done, 0.0, MIB));
    let batches: Vec<usize> =
        run.given.chunk_by(|a, b| a.op == b.op).map(<[Request]>::len).collect();
    // Read batches last 500 ms from their first completion; write batches grow to their 125 ms.
    assert_eq!(batches[..6], [501, 12, 501, 24, 501, 48], "{batches:?}");
}

#[test]
fn a_write_batch_learns_how_many_writes_take_its_time() {
    let mut anticipatory = Anticipatory::new(AnticipatoryConfig::default());
    assert_eq!(anticipatory.write_batch, 12);
    anticipatory.tune_write_batch(ms(30.0));
    assert_eq!(anticipatory.write_batch, 24, "far too short");
    anticipatory.tune_write_batch(ms(100.0));
    assert_eq!(anticipatory.write_batch, 25, "a little too short");
    anticipatory.tune_write_batch(ms(200.0));
    assert_eq!(anticipatory.write_batch, 24, "a little too long");
    anticipatory.tune_write_batch(ms(500.0));
    assert_eq!(anticipatory.write_batch, 12, "far too long");
    anticipatory.batch.writes_left = 1;
    anticipatory.tune_write_batch(ms(1.0));
    assert_eq!(anticipatory.write_batch, 12, "time was not up, nor the writes");
}
