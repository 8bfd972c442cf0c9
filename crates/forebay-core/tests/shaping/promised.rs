//! Tests of promises by stream.

use forebay_core::catalog::{DeviceSet, build, build_placed};
use forebay_core::contract::policy::AnyPolicy;
use forebay_core::rtt::Rtt;
use forebay_core::stack::rearranged::{Rearrange, Rearranged};
use forebay_core::{Bytes, Completion, Cx, Nanos, Null, Policy, Rearrangement, Request};
use proptest::prelude::*;

use super::harness::{arrivals, read, run};
use super::{flood, served};

/// The promises of streams 0 to 2: 100 IOPS within 10 ms, 200 IOPS within 20 ms, and none.
const SPEC: &str = "promised:cmin=100/200/0:delta-ms=10/20:weight=1/3/2";
const BOUNDS: [u64; 2] = [10_000_000, 20_000_000];

proptest! {
    /// The server's rate is the sum of the promised rates plus one request per shortest bound. Then
    /// every request that its stream's promised rate alone would complete in time is in time,
    /// regardless of the other streams.
    #[test]
    fn each_streams_promise_is_kept_separately_and_in_time(
        first in arrivals(80), second in arrivals(80), greedy in arrivals(200),
        depth in prop::sample::select(vec!["", ":depth=2:over=noop", ":depth=64:over=noop", ":shared=yes:depth=64:over=noop"]),
    ) {
        let streams = [first, second, greedy];
        let all = streams.iter().enumerate();
        let mut requests: Vec<Request> = all
            .flat_map(|(stream, times)| times.iter().map(move |at| read(0, Nanos(*at), stream as u32)))
            .collect();
        requests.sort_by_key(|request| request.at);
        for (id, request) in requests.iter_mut().enumerate() {
            (request.id, request.offset) = (id as u64, (id as u64) << 20);
        }
        let ran = run(&format!("{SPEC}{depth}"), &[400], &requests);
        if depth.is_empty() {
            prop_assert_eq!(ran.idled.len(), 0, "it waits for nothing");
        }
        let mut alone = [Rtt::new(100, Nanos(BOUNDS[0])).unwrap(), Rtt::new(200, Nanos(BOUNDS[1])).unwrap()];
        let mut outcomes = ran.outcomes.clone();
        outcomes.sort_by_key(|outcome| outcome.request.id);
        for outcome in outcomes {
            let stream = outcome.request.stream as usize;
            let kept = alone.get_mut(stream).is_some_and(|rtt| rtt.admit(outcome.request.at));
            prop_assert_eq!(outcome.class, u16::from(!kept), "{:?}", outcome);
            prop_assert_eq!(ran.promised.contains(&outcome.request.id), kept, "the device knows");
            if kept {
                prop_assert!(outcome.took().0 <= BOUNDS[stream], "{outcome:?}");
            }
        }
    }
}

/// Submits six requests, and returns the classes of the unanswered ones and of the answers, by id.
fn classes(policy: &mut AnyPolicy) -> [Vec<(u64, u16)>; 2] {
    let (mut finished, slots) = (Vec::new(), &mut Null);
    for id in 70..76 {
        let cx = &mut Cx { now: Nanos(1), slots: &mut *slots, finished: &mut finished };
        policy.submit(cx, read(id, Nanos(1), 0), Bytes::NONE);
    }
    let mut unanswered = Vec::new();
    policy.unanswered(&mut |id, class, _| unanswered.push((id, class)));
    for ms in 1.. {
        let (now, started) = (Nanos::from_millis(ms), Nanos(1));
        let Some(io) = policy.dispatch(now, 0) else { break };
        let (mechanics, outcome) = (Default::default(), Ok(()));
        let done = Completion { io, started, at: now, mechanics, outcome };
        policy.complete(&mut Cx { now, slots: &mut *slots, finished: &mut finished }, &done);
    }
    policy.unanswered(&mut |id, _, _| panic!("{id} was answered"));
    let mut answers: Vec<_> = finished.iter().map(|one| (one.request.id, one.class)).collect();
    unanswered.sort_unstable();
    answers.sort_unstable();
    [unanswered, answers]
}

#[test]
fn the_class_of_a_request_is_known_before_it_is_answered() {
    let spec = "promised:cmin=100:delta-ms=20";
    let set = DeviceSet { disks: 1, disk_len_max: u32::MAX, ..DeviceSet::default() };
    let map = Rearrangement::laid(&[(72 << 20, 4096)], 1 << 40).unwrap();
    let shaper = build(spec, u32::MAX).unwrap();
    let rearranged = Rearranged::before(Rearrange::new(map), shaper, 1);
    let policies: [AnyPolicy; 3] = [
        build(spec, u32::MAX).unwrap(),
        build_placed(&format!("{spec}:over=noop"), &set).unwrap(),
        Box::new(rearranged),
    ];
    for mut policy in policies {
        let [unanswered, answers] = classes(&mut policy);
        assert_eq!(unanswered, [(70, 0), (71, 0), (72, 1), (73, 1), (74, 1), (75, 1)]);
        assert_eq!(answers, unanswered);
    }
}

proptest! {
    /// However a tenant's requests are distributed among its clients, no fewer are kept than if one
    /// client had sent them all.
    #[test]
    fn clients_of_a_tenant_lose_nothing(
        times in arrivals(80), clients in prop::collection::vec(0..5_u32, 80), greedy in arrivals(200),
        depth in prop::sample::select(vec!["", ":depth=1:over=noop", ":depth=64:over=noop"]),
    ) {
        let of_tenant = times.iter().zip(&clients).map(|(at, client)| read(0, Nanos(*at), 3 * client));
        let others = greedy.iter().map(|at| read(0, Nanos(*at), 2));
        let mut requests: Vec<Request> = of_tenant.chain(others).collect();
        requests.sort_by_key(|request| request.at);
        for (id, request) in requests.iter_mut().enumerate() {
            (request.id, request.offset) = (id as u64, (id as u64) << 20);
        }
        let ran = run(&format!("{SPEC}:shared=yes{depth}"), &[400], &requests);
        let kept = ran.outcomes.iter().filter(|outcome| outcome.class == 0).count();
        let mut alone = Rtt::new(100, Nanos(BOUNDS[0])).unwrap();
        let expected = times.iter().filter(|at| alone.admit(Nanos(**at))).count();
        prop_assert!(kept >= expected, "{kept} of {expected} kept");
    }
}

#[test]
fn the_rest_is_shared_by_weight() {
    let second = Nanos::from_secs(1);
    let counts = served(&run(SPEC, &[500], &flood(3, 1000)), 3, second);
    // One request of the first stream and four of the second are promised. The remaining 495 are
    // shared in the ratio 1 : 3 : 2.
    assert_eq!(counts.iter().sum::<usize>(), 500);
    for (count, expected) in counts.iter().zip([83, 251, 165]) {
        assert!(count.abs_diff(expected) <= 2, "{counts:?}");
    }
    // Streams beyond the end of the list each get the last promise for themselves.
    let ran = run("promised:cmin=100", &[1000], &flood(3, 5));
    let kept = ran.class(0);
    assert_eq!(kept.iter().map(|one| one.request.stream).collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn invalid_promises_are_reported() {
    let said = |spec: &str| forebay_core::catalog::build(spec, 4096).map(|_| ()).unwrap_err().0;
    assert!(said("promised").contains("cmin: not given"));
    assert!(said("promised:cmin=0/50").contains("completes one request within 10 ms"));
    assert!(said("promised:cmin=200:delta-ms=10/0").contains("milliseconds above 0"));
    assert!(said("promised:cmin=200:weight=0").contains("from 1 to"));
    assert!(said("promised:cmin=x").contains("got 'x'"));
}
