use super::*;
use forebay_words::plural::verb;

const S: u64 = SECOND_NS;
const YEARS_10: u64 = 3652 * 86_400 * S;

fn run(times: impl IntoIterator<Item = u64>) -> (Vec<u64>, Vec<String>) {
    clock(Clock::default(), times.into_iter().map(|at| (at, None)))
}

fn clock(
    mut clock: Clock,
    rows: impl IntoIterator<Item = (u64, Option<u64>)>,
) -> (Vec<u64>, Vec<String>) {
    let (offset, len, stream, volume) = (0, 512, 0, 0);
    let (op, flags) = (forebay_core::Op::Read, forebay_core::Flags::NONE);
    let records = rows.into_iter().map(|(at, latency)| {
        let (at, latency) = (Nanos(at), latency.map(Nanos));
        Record { at, latency, offset, len, stream, volume, op, flags }
    });
    let records: Vec<Record> = records.collect();
    let times = records.iter().enumerate().map(|(row, record)| {
        let ahead = &records[row + 1..];
        clock.time(record, &ahead[..ahead.len().min(LOOK_AHEAD)])
    });
    let times = times.collect();
    (times, clock.sentences(0).collect())
}

#[test]
fn a_clock_that_is_set_back_is_told_with_how_much_was_moved() {
    for (back, told) in [(S + 5_000_001, "1.00 s"), (30 * S, "30.0 s"), (3600 * S, "3600 s")] {
        let step = |n: u64| 5000 * S + n * 5_000_001;
        let times: Vec<u64> =
            (0..1500).map(step).chain((1500..3000).map(|n| step(n) - back)).collect();
        let (read, said) = run(times.clone());
        assert!(read == times, "nothing is changed");
        let [only] = &said[..] else { panic!("{said:?}") };
        let expected = format!("goes back by {told} at request 1501 of the file: ");
        assert!(only.contains(&expected), "{only}");
        assert!(only.contains("by up to ") && only.contains("split_runs"));
    }
    let (_, said) = run((0..10).map(|n| n * S + 1).chain([4 * S + 5, 11 * S]));
    assert!(said.is_empty(), "one row alone: {said:?}");
    let (_, said) = run((0..10).map(|n| n * S + 1).chain((4..7).map(|n| n * S + 5)));
    assert!(said[0].contains("3 requests were sorted"), "{said:?}");
}

#[test]
fn a_second_run_can_be_put_behind_the_first() {
    let times = [5, 5 * S, 0, 1, 2, 6 * S, 3, 4];
    let mut splitting = Clock::default();
    splitting.split();
    let (read, said) = clock(splitting, times.map(|at| (at, None)));
    let again = [6 * S, 6 * S + 1, 6 * S + 2, 12 * S, 13 * S, 13 * S + 1];
    assert_eq!(read, [&[5, 5 * S], &again[..]].concat());
    assert_eq!(said.len(), 1);
    assert!(said[0].contains("holds 3 runs"), "{said:?}");
    let (_, said) = run(times);
    assert!(said[0].contains("goes back 2 times, by up to 6.00 s, at requests 3, 7"), "{said:?}");
}

#[test]
fn a_few_wild_stamps_are_distinguished_from_a_clock_that_was_set() {
    for wild in [YEARS_10 + 7, 0] {
        let base = 2 * YEARS_10;
        let mut times: Vec<u64> = (0..3000).map(|n| base + n * 5_000_001).collect();
        times[1500] = wild;
        times[1501] = wild + 1;
        let (_, said) = run(times);
        let [only] = &said[..] else { panic!("{said:?}") };
        let start = "2 requests have timestamps up to ";
        assert!(only.starts_with(start) && only.contains("request 1501"), "{only}");
    }
    for (ns, told) in [(30 * 60 * S, "1800 s"), (45 * S, "45.0 s"), (11 * S, "11.0 s")] {
        for rows in [1, 3] {
            let is_wild = |n: u64| (1000..1000 + rows).contains(&n);
            let (_, said) = run((0..3000).map(|n| n * 5_000_001 + if is_wild(n) { ns } else { 0 }));
            let [only] = &said[..] else { panic!("{said:?}") };
            assert!(
                only.contains(&format!("up to {told} away")) && only.contains("request 1001"),
                "{only}"
            );
        }
    }
    for rows in [1, 2] {
        let (_, said) = run((0..3000).map(|n| n * 5_000_001 + if n < rows { 1800 * S } else { 0 }));
        let [only] = &said[..] else { panic!("{said:?}") };
        assert!(only.contains("up to 1800 s away") && only.contains("is request 1 of"), "{only}");
    }
    // A request that waited 30 s for a disk to spin up does not end a series of wild rows.
    let woken = (0..10).map(|n| (S + n, Some(1))).chain([
        (31 * S, Some(S)),
        (2 * S, Some(30 * S)),
        (32 * S, Some(1)),
    ]);
    let (_, said) = clock(Clock::default(), woken);
    assert!(said.is_empty(), "{said:?}");
    let ahead = (0..3000).map(|n| n * 5_000_001 + if n == 7 { YEARS_10 } else { 0 });
    let (_, said) = run(ahead);
    assert!(said.len() == 1 && said[0].contains("up to 3652 days away"), "{said:?}");
}

/// A missing time is often written as 0.
#[test]
fn a_missing_time_begins_no_run() {
    for start in [1, 1_700_000_000 * S] {
        for zeros in [vec![4], vec![500], vec![999], vec![500, 600], vec![500, 501, 502]] {
            let is_far = start > 1;
            if !is_far && (zeros[0] == 999 || zeros.contains(&501)) {
                continue;
            }
            let at = |n: u64| if zeros.contains(&n) { 0 } else { start + n * S / 2 };
            for splits in [false, true] {
                let one = Clock { splits, ..Clock::default() };
                let (read, said) = clock(one, (0..1000).map(|n| (at(n), None)));
                let case = format!("{start}, {zeros:?}, {splits}: {said:?}");
                assert_eq!(read[998], start + 998 * S / 2, "{case}");
                if start == 1 && zeros == [4] {
                    assert!(said.is_empty(), "{case}");
                    continue;
                }
                let [only] = &said[..] else { panic!("{case}") };
                let times = verb(zeros.len() as u64, "has a timestamp", "have timestamps");
                assert!(only.starts_with(&format!("{} request", zeros.len())), "{case}");
                assert!(
                    only.contains(times) && only.contains(&format!("request {} of", zeros[0] + 1))
                );
                let before = zeros.iter().map(|&n| start + n * S / 2);
                for (zero, at_ns) in zeros.iter().zip(before) {
                    let placed = read[*zero as usize];
                    assert!(placed < at_ns && at_ns - placed <= 3 * S / 2, "{case}");
                }
            }
        }
    }
}

#[test]
fn late_rows_at_the_end_are_not_wild() {
    let (read, said) = run((10..75_010).chain([3, 4]).map(|n| n * S));
    assert_eq!(read[75_000..], [3 * S, 4 * S]);
    assert!(said.len() == 1 && said[0].starts_with("the clock goes back by 20.8 h"), "{said:?}");
}

#[test]
fn rows_that_changed_places_a_little_are_no_steps() {
    let quiet: [&[(u64, Option<u64>)]; 4] = [
        // The rows are in the order of completions.
        &[(9 * S, Some(S)), (2 * S, Some(8 * S)), (9 * S + 1, Some(S))],
        // The clock counts whole seconds.
        &[(9 * S, None), (7 * S, None), (8 * S, None)],
        &[(9 * S + 5, None), (9 * S - 600_000_000, None), (9 * S, None)],
        &[(0, None), (400 * 3600 * S, None), (800 * 3600 * S, None)],
    ];
    for rows in quiet {
        let (_, said) = clock(Clock::default(), rows.iter().copied());
        assert!(said.is_empty(), "{said:?}");
    }
    // The clock steps many times, with some time in between.
    let (_, said) = run((0..100_000).map(|n| n / 500 * 3 * S + n % 500 * S / 50 + 3));
    assert!(said[0].contains("goes back 199 times") && !said[0].contains("split_runs"), "{said:?}");
}

/// Returns the arrival times of a trace without latencies that is in the order of completions. Most
/// requests take 1 ms; a few take much longer.
fn by_completion(rate: u64, count: u64, slow: u64, slow_ns: u64, burst: u64) -> Vec<u64> {
    let mut rows: Vec<(u64, u64)> = (0..count)
        .map(|n| {
            let at = 3 * S + n * S / rate + n * 7919 % 1000;
            let is_slow = n % slow >= slow - burst;
            let took = if is_slow { slow_ns + n * 104_729 % (slow_ns / 3) } else { S / 1000 };
            (at + took, at)
        })
        .collect();
    rows.sort_unstable();
    // Slow requests that are still outstanding at the end would come last and look like another
    // run, so remove them.
    let is_fast = |&(end, at): &(u64, u64)| end == at + S / 1000;
    rows.truncate(rows.iter().rposition(is_fast).unwrap_or(0) + 1);
    rows.into_iter().map(|row| row.1).collect()
}

#[test]
fn rows_in_the_order_of_completions_are_no_steps_without_latencies_either() {
    for rate in [50, 500, 5_000] {
        for slow_ns in [S, 3 * S, 25 * S, 600 * S] {
            for (slow, burst) in [(97, 1), (211, 2), (500, 1), (900, 3)] {
                let (_, said) = run(by_completion(rate, 20_000, slow, slow_ns, burst));
                let case = format!("{rate}/s, {burst} of {slow} take {slow_ns} ns");
                assert!(said.is_empty(), "{case}: {said:?}");
            }
        }
    }
}

#[test]
fn a_run_is_told_however_short_it_is() {
    for length_ns in [S / 50, S / 10, S / 2, 89 * S / 100, 5 * S] {
        for rows in [20u64, 100, 5_000] {
            for start in [0, 1_700_000_000 * S] {
                let one = |n: u64| start + n * length_ns / rows + n * 7919 % (length_ns / rows / 2);
                // Rows are almost in order, or out of order because of several CPUs.
                for shaken in [false, true] {
                    let mut first: Vec<u64> = (0..rows).map(one).collect();
                    if shaken && rows > 20 {
                        first.chunks_mut(7).for_each(|chunk| chunk.swap(1, 0));
                    } else if shaken {
                        continue;
                    }
                    let both = [first.clone(), first.iter().map(|at| at + 17).collect()].concat();
                    let (_, said) = run(both.clone());
                    let case = format!("{length_ns} ns, {rows} rows, {shaken}");
                    let told = format!("at request {} of the file", rows + 1);
                    assert!(said.len() == 1 && said[0].contains(&told), "{case}: {said:?}");
                    let mut splitting = Clock::default();
                    splitting.split();
                    let (read, said) = clock(splitting, both.into_iter().map(|at| (at, None)));
                    assert!(said[0].contains("holds 2 runs"), "{case}: {said:?}");
                    let newest = *first.iter().max().unwrap();
                    assert!(read[rows as usize..].iter().all(|&at| at > newest), "{case}");
                }
            }
        }
    }
}

/// At the beginning of a trace, too, queues, elevators and CPUs change the order of rows.
#[test]
fn requests_that_overtake_each_other_begin_no_run() {
    for seed in 0..60u64 {
        for depth in [2u64, 8, 32, 128, 512] {
            let mut state = seed * 7919 + depth;
            let mut chance = move |below: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) % below
            };
            let gap_ns = 1 + chance(2_000_000);
            let mut queue: Vec<u64> = Vec::new();
            let (mut rows, mut at) = (Vec::new(), 5 * S);
            while rows.len() < 3000 {
                while (queue.len() as u64) < depth {
                    at += chance(2 * gap_ns);
                    queue.push(at);
                }
                rows.push(queue.swap_remove(chance(depth) as usize));
            }
            let (_, said) = run(rows);
            assert!(
                said.iter().all(|said| !said.contains("goes back")),
                "{seed}, {depth}: {said:?}"
            );
        }
    }
}

#[test]
fn no_time_is_too_large() {
    let (read, _) = run([u64::MAX, 1, u64::MAX, 5]);
    assert_eq!(read, [u64::MAX, 1, u64::MAX, 5]);
    let mut splitting = Clock::default();
    splitting.split();
    let times = [u64::MAX - 9 * S, 5 * 3600 * S, u64::MAX, 5 * 3600 * S];
    let (read, _) = clock(splitting, times.map(|at| (at, Some(at))));
    assert!(read.iter().all(|&at| at >= u64::MAX - 9 * S), "{read:?}");
}

#[test]
fn a_clock_that_is_set_back_a_little_is_told_if_rows_are_in_order() {
    for (back_ms, told) in [(50, "49.0 ms"), (400, "395 ms"), (800, "795 ms")] {
        for latency in [None, Some(100_000)] {
            let row = |n: u64| {
                let back = if n < 1500 { 0 } else { back_ms * 1_000_000 };
                // Some rows are swapped with the next one.
                let n = if n % 10 / 2 == 2 { n ^ 1 } else { n };
                (5000 * S + n * 5_000_001 / if back_ms == 50 { 5 } else { 1 } - back, latency)
            };
            let (_, said) = clock(Clock::default(), (0..3000).map(row));
            let [only] = &said[..] else { panic!("{back_ms}: {said:?}") };
            let expected = format!("goes back by {told} at request 1501 of the file");
            assert!(only.contains(&expected) && only.contains("split_runs"), "{only}");
        }
    }
}

#[test]
fn small_disorder_is_no_step() {
    for rate in [50, 500, 5_000] {
        for slow_ms in [20, 60, 100, 400, 700] {
            for (slow, burst) in [(97, 1), (500, 1), (900, 3), (5_000, 8)] {
                let rows = by_completion(rate, 20_000, slow, slow_ms * 1_000_000, burst);
                let (_, said) = run(rows);
                let case = format!("{rate}/s, {burst} of {slow} take {slow_ms} ms");
                assert!(said.is_empty(), "{case}: {said:?}");
            }
        }
    }
    // The buffers of two CPUs are written in turn.
    let chunk = |chunk: u64| (0..100).map(move |n| chunk / 2 * S / 10 + n * S / 1000 + chunk % 2);
    let (_, said) = run((0..200).flat_map(chunk));
    assert!(said.is_empty(), "{said:?}");
    // A few requests waited at the same time.
    let waited = (0..1000).chain(1006..1106).chain(1000..1006).chain(1106..3000);
    let (_, said) = run(waited.map(|n| S + n * S / 1000));
    assert!(said.is_empty(), "{said:?}");
    // A coarse clock.
    let (_, said) = run((0..1000).map(|n| if n == 500 { 51 } else { n / 10 + 5 } * S / 100));
    assert!(said.is_empty(), "{said:?}");
}
