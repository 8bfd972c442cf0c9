//! Cases for CFQ, with expectations computed by hand from Linux's rules.

use forebay_core::catalog::build;
use forebay_core::contract::Bare;
use forebay_core::contract::policy::Policy;
use forebay_core::{Completion, Finished, Flags, Mechanics, Nanos, Op, Request};

const MIB: u64 = 1 << 20;

fn at_ms(at_ms: u64, op: Op, stream: u32, offset: u64) -> Request {
    let (at, len, flags) = (Nanos::from_millis(at_ms), 4096, Flags::NONE);
    Request { at, offset, id: 0, len, stream, lane: 0, op, flags }
}

/// Returns the dispatched requests with their times in ms, on a device with queue depth `depth`
/// that takes `service_ms` per request.
fn given(
    spec: &str,
    mut arrivals: Vec<Request>,
    depth: usize,
    service_ms: u64,
) -> Vec<(u64, Request)> {
    let spec = format!("{spec}:merge=no:reads-max=100000:writes-max=100000");
    let mut policy = build(&spec, u32::MAX).unwrap();
    let (mut running, mut given): (Vec<(Nanos, Request)>, _) = (Vec::new(), Vec::new());
    arrivals.sort_by_key(|request| request.at);
    arrivals.reverse();
    let mut now = Nanos::ZERO;
    loop {
        while running.first().is_some_and(|&(end, _)| end == now) {
            let (at, io) = running.remove(0);
            let (started, mechanics) = (io.at, Mechanics::default());
            let done = Completion { io, started, at, mechanics, outcome: Ok(()) };
            policy.complete_bare(now, &done, &mut Finished::new());
        }
        while arrivals.last().is_some_and(|request| request.at == now) {
            policy.submit_bare(now, arrivals.pop().unwrap());
        }
        while running.len() < depth
            && let Some(io) = policy.dispatch(now, 0)
        {
            running.push((now + Nanos::from_millis(service_ms), io));
            given.push((now.0 / 1_000_000, io));
        }
        let wakeup = policy.wakeup().filter(|&at| at > now);
        let end = running.first().map(|&(end, _)| end);
        let arrival = arrivals.last().map(|request| request.at);
        match [wakeup, end, arrival].into_iter().flatten().min() {
            Some(next) => now = next,
            None => return given,
        }
    }
}

/// Returns the number of dispatches at each instant.
fn counts(given: &[(u64, Request)]) -> Vec<(u64, usize)> {
    given.chunk_by(|a, b| a.0 == b.0).map(|chunk| (chunk[0].0, chunk.len())).collect()
}

/// Returns the lengths of runs of consecutive dispatches from the same stream.
fn turns(given: &[(u64, Request)]) -> Vec<usize> {
    given.chunk_by(|a, b| a.1.stream == b.1.stream).map(<[_]>::len).collect()
}

/// Returns `count` reads or writes of a stream that arrive together, not adjacent to any other.
fn many(op: Op, stream: u32, count: u64) -> impl Iterator<Item = Request> {
    (0..count)
        .map(move |nth| at_ms(0, op, stream, u64::from(stream) * 5_000 * MIB + nth * 64 * 1024))
}

/// Tests `cfq_may_dispatch`: after a late synchronous request, one asynchronous request may be at
/// the device, plus one for each sync slice (100 ms) that has passed since.
#[test]
fn asynchronous_depth_grows_by_one_a_slice_since_a_waited_for_request_was_late() {
    let late = "cfq:fifo-expire-sync-ms=10";
    let arrivals = || {
        let writes = (0..60).map(|nth| at_ms(1, Op::Write, 1, (9_000 + nth) * MIB));
        writes.chain([at_ms(0, Op::Read, 0, 0)]).collect::<Vec<_>>()
    };
    // The read completes at 20 ms, which is late. CFQ then idles until 28 ms.
    let mut expected = vec![(0, 1)];
    let mut at = 28;
    while at < 500 {
        expected.push((at, usize::max(1, ((at - 20) / 100) as usize)));
        at += 20;
    }
    assert_eq!(counts(&given(late, arrivals(), 32, 20))[..expected.len()], expected);
    // A request that takes exactly as long as the expiry time is late. Without a late request, the
    // depth grows as if one had been late 1 s before the start, so it is 10.
    for (expire_ms, first) in [(20, 1), (21, 10)] {
        let spec = format!("cfq:fifo-expire-sync-ms={expire_ms}");
        assert_eq!(counts(&given(&spec, arrivals(), 32, 20))[1], (28, first), "{spec}");
    }
    let careless = given("cfq:fifo-expire-sync-ms=10:low-latency=no", arrivals(), 32, 20);
    assert_eq!(counts(&careless)[1], (28, 32));
}

/// Tests `cfq_scaled_cfqq_slice`: slices of 100 ms are shortened so that all queues get theirs
/// within 300 ms, but to no less than 16 ms (two idle times). A slice lasts from its first
/// completion to the completion that finds it expired, so 16.7 ms are enough for 17 more requests.
#[test]
fn slices_share_the_target_latency_down_to_two_idle_times() {
    let slices = [(2, 100), (3, 100), (4, 75), (5, 60), (10, 30), (18, 17), (30, 16)];
    for (streams, slice_ms) in slices {
        let arrivals = (0..streams).flat_map(|stream| many(Op::Read, stream, 600)).collect();
        let turns = turns(&given("cfq", arrivals, 1, 1));
        // After two rounds the mean number of queues is settled, and all queues still have
        // requests.
        let settled = &turns[2 * streams as usize..4 * streams as usize - 1];
        assert!(settled.iter().all(|&it| it == slice_ms + 1), "{streams}: {turns:?}");
    }
}
