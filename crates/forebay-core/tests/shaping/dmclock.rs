//! Tests how dmClock accounts for earlier service and for unused shares.

use forebay_core::{Nanos, Request};

use crate::shaping::harness::{Ran, read, run};

/// Creates requests from bursts (time in ms, stream, number of requests).
fn requests(bursts: &[(u64, u32, usize)]) -> Vec<Request> {
    let each = bursts.iter().flat_map(|&(at_ms, stream, count)| {
        std::iter::repeat_n((Nanos::from_millis(at_ms), stream), count)
    });
    each.enumerate().map(|(id, (at, stream))| read(id as u64, at, stream)).collect()
}

/// Returns the number of requests of `stream` completed between two times in ms.
fn finished(ran: &Ran, stream: u32, from_ms: u64, to_ms: u64) -> usize {
    let (from, to) = (Nanos::from_millis(from_ms), Nanos::from_millis(to_ms));
    let within = ran.outcomes.iter().filter(|one| one.finished > from && one.finished <= to);
    within.filter(|one| one.request.stream == stream).count()
}

#[test]
fn an_idle_stream_gets_its_weight_but_no_credit() {
    let ran = run("dmclock:weight=1/1", &[1000], &requests(&[(0, 0, 600), (300, 1, 300)]));
    let shares = [0, 1].map(|stream| finished(&ran, stream, 300, 500));
    assert!(shares.iter().all(|share| (99..=101).contains(share)), "{shares:?}");
    // The reverse: a stream that had the server to itself is not penalized for it.
    let ran = run("dmclock:weight=1/3", &[1000], &requests(&[(0, 1, 900), (300, 0, 300)]));
    let shares = [0, 1].map(|stream| finished(&ran, stream, 300, 700));
    assert!((99..=101).contains(&shares[0]) && (299..=301).contains(&shares[1]), "{shares:?}");
}

#[test]
fn requests_served_by_weight_do_not_use_the_reservation() {
    let load = requests(&[(0, 0, 2000), (1000, 1, 2000)]);
    let ran = run("dmclock:reservation=100/0:weight=1/1000", &[1000], &load);
    assert_eq!(finished(&ran, 0, 0, 1000), 1000);
    let reserved = finished(&ran, 0, 1000, 2000);
    assert!((99..=102).contains(&reserved), "{reserved}");
}

#[test]
fn a_limit_is_not_saved_up() {
    let ran = run("dmclock:limit=50", &[1000], &requests(&[(0, 0, 1), (1000, 0, 20)]));
    let starts: Vec<u64> = ran.starts().iter().map(|at| at.0 / 1_000_000).collect();
    let expected: Vec<u64> = std::iter::once(0).chain((0..20).map(|k| 1000 + 20 * k)).collect();
    assert_eq!(starts, expected);
}

#[test]
fn a_reservation_as_high_as_the_limit_is_kept_at_its_very_moment() {
    let ran = run("dmclock:reservation=100:limit=100", &[1000], &requests(&[(0, 0, 101)]));
    let starts: Vec<u64> = ran.starts().iter().map(|at| at.0 / 1_000_000).collect();
    assert_eq!(starts.last(), Some(&1000), "{starts:?}");
    assert!(starts.windows(2).all(|pair| pair[1] - pair[0] == 10), "{starts:?}");
}
