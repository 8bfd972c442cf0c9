//! Tests BFQ behind the block layer, in front of a device of constant service time.

use super::*;
use crate::elevator::trial::{LEN, MIB, Run, ms, on, read, write};
use proptest::prelude::*;

/// Disables low latency and estimates, so that only fairness and idling are tested.
const PLAIN: BfqConfig = BfqConfig {
    slice_idle: Nanos::from_millis(8),
    timeout: Nanos::from_millis(125),
    max_budget: 1 << 20,
    fifo_expire_sync: Nanos::from_secs(1000),
    fifo_expire_async: Nanos::from_secs(1000),
    back_seek_max: 16 << 20,
    back_seek_penalty: 2,
    low_latency: false,
    requests_max: 64,
};

fn run(config: BfqConfig) -> Run<Bfq> {
    Run::new(Bfq::new(config), true)
}

fn bytes_of(given: &[Request], stream: u32) -> u64 {
    given.iter().filter(|io| io.stream == stream).map(|io| u64::from(io.len)).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Two streams always have four requests waiting. At any moment, their service differs by at
    /// most two budgets.
    #[test]
    fn two_backlogged_streams_get_their_shares(
        lens in prop::collection::vec(1u32..=64, 8),
        far in any::<bool>(),
    ) {
        let mut run = Run::new(Bfq::new(PLAIN), false);
        run.until = ms(3000.0);
        // The device is so fast that no queue is charged for time.
        run.service = ms(0.5);
        let arrivals = (0..8).map(|i| Request {
            len: lens[i as usize] * 4096,
            ..read(0.0, i % 2, (u64::from(i % 2) << 44) + u64::from(i) * MIB)
        });
        let step = if far { 100 * MIB } else { 4 * MIB };
        run.run(arrivals.collect(), |now, done| on(now, done, 0.0, step));
        let mut served = [0u64; 2];
        for io in &run.given {
            served[io.stream as usize] += u64::from(io.len);
            prop_assert!(served[0].abs_diff(served[1]) <= 2 * PLAIN.max_budget, "{served:?}");
        }
    }
}

#[test]
fn a_sequential_reader_is_waited_for_until_its_budget_is_used() {
    let longest = |slice_idle_ms: f64| {
        let mut run = run(BfqConfig { slice_idle: ms(slice_idle_ms), ..PLAIN });
        run.until = ms(2000.0);
        let far = (1..9).map(|stream| read(0.0, stream, u64::from(stream) * 1000 * MIB));
        run.run(std::iter::once(read(0.0, 0, 0)).chain(far).collect(), |now, done| {
            match done.stream {
                0 => on(now, done, 0.2, LEN.into()),
                _ => on(now, done, 0.0, 300 * MIB),
            }
        });
        let turns = run.given.chunk_by(|a, b| a.stream == b.stream);
        turns.filter(|turn| turn[0].stream == 0).map(<[Request]>::len).max()
    };
    assert_eq!(longest(8.0), Some(16), "it is given its budget of 1 MiB at a stretch");
    assert_eq!(longest(0.0), Some(1), "it loses the disk after each request");
}

#[test]
fn waiting_ends_after_slice_idle() {
    let mut run = run(PLAIN);
    run.run(vec![read(0.0, 0, 0), read(0.5, 1, 5000 * MIB)], |_, _| None);
    let at: Vec<Nanos> = run.given.iter().map(|io| io.at).collect();
    assert_eq!(at, [ms(0.0), ms(1.0 + 8.0)]);
}

#[test]
fn streams_that_think_long_are_not_waited_for() {
    let mut run = run(PLAIN);
    run.until = ms(1000.0);
    let busy = (0..4).map(|i| read(0.0, 1, (5000 + 100 * i) * MIB));
    run.run(busy.chain([read(0.0, 0, 0)]).collect(), |now, done| match done.stream {
        0 => on(now, done, 20.0, LEN.into()),
        _ => on(now, done, 0.0, MIB),
    });
    let idle = |pair: &[Request]| pair[1].at > pair[0].at + ms(1.0);
    let waits = run.given.windows(2).filter(|pair| idle(pair)).count();
    assert!(waits <= 3, "{waits} waits, of which three until its think time is known");
}

#[test]
fn streams_that_read_one_file_by_turns_share_a_queue() {
    // Each stream reads every other 64 KiB. With separate queues, the scheduler would wait for one
    // stream while the other has requests.
    let longest_turn = |apart: u64| {
        let mut run = run(PLAIN);
        run.until = ms(500.0);
        let arrivals = vec![read(0.0, 0, 0), read(0.0, 1, u64::from(LEN) + apart)];
        run.run(arrivals, |now, done| on(now, done, 0.1, 2 * u64::from(LEN)));
        run.turns().into_iter().max()
    };
    assert_eq!(longest_turn(0), Some(2));
    assert_eq!(longest_turn(5000 * MIB), Some(16));
}

#[test]
fn a_seeky_shared_queue_is_split() {
    let mut run = run(PLAIN);
    run.until = ms(4000.0);
    // If the streams had started together, they would stay together.
    let arrivals = vec![read(0.0, 0, 0), read(200.0, 1, LEN.into())];
    let mut count = 0;
    run.run(arrivals, |now, done| {
        count += 1;
        let step =
            if count < 100 { 2 * u64::from(LEN) } else { u64::from(done.stream + 1) * 1000 * MIB };
        on(now, done, 0.5, step)
    });
    let elevator = run.elevator();
    assert_eq!([0, 1].map(|stream: usize| elevator.streams[stream].queue), [Some(1), Some(2)]);
    assert!(elevator.queues.iter().all(|queue| queue.streams <= 1 && !queue.splitting));
}

#[test]
fn a_stream_that_begins_is_raised_over_one_that_has_run_for_long() {
    let share = |low_latency: bool| {
        let mut run = run(BfqConfig { low_latency, ..PLAIN });
        run.until = ms(10_900.0);
        let old = (0..4).map(|i| read(0.0, 0, 100 * i * MIB));
        let new = (0..4).map(|i| read(10_000.0, 1, (5000 + 100 * i) * MIB));
        run.run(old.chain(new).collect(), |now, done| on(now, done, 0.0, LEN.into()));
        let late: Vec<Request> =
            run.given.iter().filter(|io| io.at >= ms(10_000.0)).copied().collect();
        bytes_of(&late, 1) as f64 / late.iter().map(|io| f64::from(io.len)).sum::<f64>()
    };
    assert!((0.45..0.55).contains(&share(false)), "{}", share(false));
    assert!(share(true) > 0.9, "{}", share(true));
}

#[test]
fn asynchronous_bytes_are_charged_three_times() {
    let mut run = run(PLAIN);
    run.until = ms(4000.0);
    let reads = (0..4).map(|i| read(0.0, 0, 100 * i * MIB));
    let writes = (0..4).map(|i| write(0.0, 1, (5000 + 100 * i) * MIB));
    run.run(reads.chain(writes).collect(), |now, done| on(now, done, 0.0, LEN.into()));
    let ratio = bytes_of(&run.given, 0) as f64 / bytes_of(&run.given, 1) as f64;
    assert!((2.8..3.3).contains(&ratio), "{ratio}");
}
