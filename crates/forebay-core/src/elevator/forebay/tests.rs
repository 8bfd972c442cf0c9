//! Tests the forebay scheduler behind the block layer, in front of a device of constant service
//! time.

use super::*;
use crate::contract::{Flags, Op};
use crate::elevator::trial::{LEN, MIB, Run, ms, on, read, write};

fn run(config: ForebayConfig) -> Run<Forebay> {
    Run::new(Forebay::new(config), false)
}

/// Runs two threads that alternate in reading a file, each request `think_ms` after the previous
/// answer, against distant reads of a third thread that all arrive at 10 ms.
fn file_against_far_reads(config: ForebayConfig, think_ms: f64) -> Run<Forebay> {
    let mut run = run(config);
    run.until = ms(300.0);
    let far = (0..400).map(|i| read(10.0, 2, (50_000 + 300 * i) * MIB));
    let arrivals = std::iter::once(read(0.0, 0, 0)).chain(far).collect();
    run.run(arrivals, |now, done| {
        let next = on(now, done, think_ms, u64::from(done.len)).filter(|_| done.stream < 2)?;
        Some(Request { stream: 1 - done.stream, ..next })
    });
    run
}

/// Returns the number of reads of the file that were dispatched after the distant reads had
/// arrived.
fn of_the_file(run: &Run<Forebay>) -> usize {
    run.given.iter().filter(|io| io.offset < 50_000 * MIB && io.at > ms(10.0)).count()
}

#[test]
fn a_file_that_two_threads_read_by_turns_is_one_stream() {
    let waiting = of_the_file(&file_against_far_reads(ForebayConfig::default(), 0.5));
    assert!(waiting > 30, "{waiting} in 50 ms");
    let config = ForebayConfig { wait: Nanos::ZERO, ..ForebayConfig::default() };
    let without = of_the_file(&file_against_far_reads(config, 0.5));
    assert!(without < 3, "{without} without waiting");
}

#[test]
fn without_waiting_no_request_is_delayed_for_an_answer() {
    let second = |wait| {
        let mut run = run(ForebayConfig { wait, ..ForebayConfig::default() });
        run.depth = 2;
        run.run(vec![read(0.0, 0, 0), read(0.2, 1, 50_000 * MIB)], |_, _| None);
        run.given[1].at
    };
    assert_eq!(second(Nanos::ZERO), ms(0.2));
    assert!(second(ms(8.0)) >= ms(1.0), "the first is answered after a millisecond");
}

#[test]
fn waiting_ends_where_a_move_costs_less() {
    // All requests take 1 ms regardless of their address. The scheduler quickly learns that moves
    // cost nothing.
    let mut run = run(ForebayConfig::default());
    run.until = ms(20_000.0);
    let arrivals = vec![read(0.0, 0, 0), read(0.0, 1, 5000 * MIB)];
    run.run(arrivals, |now, done| on(now, done, 0.5, u64::from(done.len)));
    let late = run.given.iter().filter(|io| io.at > ms(19_500.0)).count();
    assert!(late >= 498, "{late} in 500 ms: each thinks while the other is served");
    let first = run.given.iter().take(30).filter(|io| io.stream == 0).count();
    assert!(first >= 20, "{first} of 30: at first a move is taken to cost 8 ms");
}

#[test]
fn no_stream_holds_the_disk_forever() {
    let run = file_against_far_reads(ForebayConfig::default(), 0.5);
    let first_far = run.given.iter().find(|io| io.stream == 2).map(|io| io.at);
    assert!(first_far.is_some_and(|at| at <= ms(220.0)), "{first_far:?}");
}

#[test]
fn a_sweep_goes_up_and_begins_again_below() {
    let mut run = run(ForebayConfig::default());
    let places = [(0.0, 500), (0.0, 100), (0.0, 900), (0.0, 300), (2.5, 50), (2.5, 600)];
    run.run(places.map(|(at, place)| write(at, 0, place * MIB)).to_vec(), |_, _| None);
    let order: Vec<u64> = run.given.iter().map(|io| io.offset / MIB).collect();
    assert_eq!(order, [100, 300, 500, 600, 900, 50]);
}

/// Runs streams of reads and writes that always issue requests ahead of the head, and a single
/// write far behind it.
fn busy_streams(config: ForebayConfig, until_ms: f64) -> Run<Forebay> {
    let mut run = run(config);
    (run.depth, run.until) = (8, ms(until_ms));
    let at = |stream: u32| (1000 + u64::from(stream)) * MIB;
    let reads = (1..21).map(|stream| read(0.0, stream, at(stream)));
    let writes = (21..61).map(|stream| write(0.0, stream, at(stream)));
    let arrivals = reads.chain(writes).chain([write(5.0, 0, 0)]).collect();
    run.run(arrivals, |now, done| on(now, done, 0.0, 100 * MIB).filter(|_| done.stream != 0));
    run
}

#[test]
fn requests_along_the_sweep_are_served() {
    let mut run = run(ForebayConfig::default());
    let at = |place: u64| {
        if place.is_multiple_of(200) {
            write(0.0, 0, place * MIB)
        } else {
            read(0.0, 1, place * MIB)
        }
    };
    run.run([500, 200, 300, 400, 100].map(at).to_vec(), |_, _| None);
    let order: Vec<u64> = run.given.iter().map(|io| io.offset / MIB).collect();
    assert_eq!(order, [100, 200, 300, 400, 500]);
}

#[test]
fn reads_and_writes_alternate_if_late_and_keep_the_device_busy() {
    // Four fifths of the bound are 8 s; the starved write must be served at about 9.9 s.
    let run =
        busy_streams(ForebayConfig { bound: ms(10_000.0), ..ForebayConfig::default() }, 9800.0);
    let turns = |from: f64, to: f64| -> Vec<usize> {
        let given: Vec<_> =
            run.given.iter().filter(|io| io.at > ms(from) && io.at < ms(to)).collect();
        let whole = given.chunk_by(|a, b| a.op == b.op).map(<[_]>::len).collect::<Vec<_>>();
        whole[1..whole.len() - 1].to_vec()
    };
    assert!(turns(0.0, 8000.0).iter().all(|&len| len < 60), "one sweep over both");
    let late = turns(8050.0, 9800.0);
    assert!(late.len() >= 2 && late.iter().all(|len| (299..=301).contains(len)), "{late:?}");
    let late = run.given.windows(2).filter(|pair| pair[0].at > ms(8050.0));
    for pair in late.filter(|pair| pair[0].op != pair[1].op) {
        assert!(pair[1].at <= pair[0].at + ms(1.0), "the device was left to run dry");
    }
}

#[test]
fn a_single_read_leaves_a_long_sweep_of_writes_where_it_is() {
    let mut run = run(ForebayConfig::default());
    let writes = (0..500).map(|i| write(0.0, 0, i * 10 * MIB));
    run.run(writes.chain([read(350.0, 1, 7 * MIB)]).collect(), |_, _| None);
    let read = run.given.iter().position(|io| io.op == Op::Read).unwrap();
    assert!(run.given[read].at <= ms(352.0), "{:?}", run.given[read].at);
    assert_eq!(run.given[read + 1].offset, run.given[read - 1].offset + 10 * MIB);
}

#[test]
fn a_synchronous_write_is_a_write() {
    let mut run = Run::new(Forebay::new(ForebayConfig::default()), true);
    let sync = Request { flags: Flags::SYNC, ..write(0.2, 1, u64::from(LEN)) };
    run.run(vec![read(0.0, 9, 900 * MIB), write(0.1, 0, 0), sync], |_, _| None);
    let lens: Vec<u32> = run.given.iter().map(|io| io.len).collect();
    assert_eq!(lens, [LEN, 2 * LEN], "it goes with the one before it");
}

#[test]
fn no_request_waits_beyond_the_bound() {
    for kind in [read, write] {
        let config = ForebayConfig { bound: ms(300.0), ..ForebayConfig::default() };
        let mut run = run(config);
        run.until = ms(3000.0);
        // One request far behind the head, and 60 streams that always issue requests ahead of it.
        let busy = (1..61).map(|stream| kind(0.0, stream, (1000 + u64::from(stream)) * MIB));
        let arrivals: Vec<Request> = busy.chain([kind(5.0, 0, 0)]).collect();
        run.run(arrivals, |now, done| on(now, done, 0.0, 100 * MIB).filter(|_| done.stream != 0));
        let lone = run.given.iter().find(|io| io.offset == 0).map(|io| io.at);
        assert!(lone.is_some_and(|at| at + ms(1.0) <= ms(305.0)), "{lone:?}");
        assert!(lone.is_some_and(|at| at > ms(200.0)), "not before it must: {lone:?}");
    }
}

#[test]
fn requests_that_keep_the_bound_are_served_in_one_sweep() {
    let mut run = run(ForebayConfig { bound: ms(20.0), ..ForebayConfig::default() });
    let early = (0..50).map(|i| write(0.0, 0, i * 7919 % 50 * 10 * MIB));
    // These arrive during the sweep, and could all be served on the way.
    let late = (0..50).map(|i| write(10.0, 0, (i * 10 + 5) * MIB));
    run.run(early.chain(late).collect(), |_, _| None);
    let offsets: Vec<u64> = run.given.iter().map(|io| io.offset).collect();
    assert!(offsets[..50].is_sorted() && offsets[..50].iter().all(|it| it % (10 * MIB) == 0));
    assert!(offsets[50..].windows(2).filter(|pair| pair[0] > pair[1]).count() <= 1, "{offsets:?}");
}

#[test]
fn a_bound_too_short_to_keep_is_reported() {
    let counted = |bound_ms| {
        let mut run = run(ForebayConfig { bound: ms(bound_ms), ..ForebayConfig::default() });
        run.run((0..50).map(|i| write(0.0, 0, i * 10 * MIB)).collect(), |_, _| None);
        run.elevator().figures().into_iter().map(|(_, value)| value).collect::<Vec<_>>()
    };
    assert_eq!(counted(20.0), [20.0, 0.0, 50.0, 30.0]);
    assert_eq!(counted(50.0), [50.0, 1.0, 50.0, 0.0]);
}

#[test]
fn joined_requests_keep_the_older_ones_age_and_their_trails() {
    let mut run = Run::new(Forebay::new(ForebayConfig::default()), true);
    let len = u64::from(LEN);
    let arrivals =
        vec![write(0.0, 9, 900 * MIB), read(0.1, 0, 2 * len), read(0.2, 0, 0), read(0.3, 1, len)];
    run.run(arrivals, |_, _| None);
    let lens: Vec<u32> = run.given.iter().map(|io| io.len).collect();
    assert_eq!(lens, [LEN, 3 * LEN]);
    assert_eq!(run.finished.len(), 4);
}
