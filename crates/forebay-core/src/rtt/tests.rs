//! Compares RTT with the best subset of requests and with an independently computed optimum, and
//! the vectorized implementation with the simple rule.

use proptest::prelude::*;

use super::*;

fn count(times: &[u64], rate: u64, within: u64) -> u64 {
    let mut rtt = Rtt::new(rate, Nanos(within)).unwrap();
    times.iter().map(|at| u64::from(rtt.admit(Nanos(*at)))).sum()
}

fn gaps(times: &[u64]) -> Gaps {
    times.iter().copied().map(Nanos).collect()
}

/// Returns whether a server that receives only these requests, in order of arrival, completes all
/// of them in time. The order of arrival is also the order of deadlines, so no other order is
/// better.
fn all_in_time(times: impl Iterator<Item = u64>, rate: u64, within: u64) -> bool {
    let mut free = 0u128;
    let rate = u128::from(rate);
    times.into_iter().all(|at| {
        let arrival = u128::from(at) * rate;
        free = free.max(arrival) + 1_000_000_000;
        free <= arrival + u128::from(within) * rate
    })
}

/// Returns the maximum number of requests that can be answered in time, by trying all subsets.
fn best_subset(times: &[u64], rate: u64, within: u64) -> u64 {
    let chosen = |set: u32| {
        times.iter().enumerate().filter(move |(i, _)| set >> i & 1 == 1).map(|(_, at)| *at)
    };
    let sets = (0u32..1 << times.len()).filter(|set| all_in_time(chosen(*set), rate, within));
    sets.map(|set| u64::from(set.count_ones())).max().unwrap()
}

/// Returns the maximum number of requests that can be answered in time, by dynamic programming over
/// the whole trace. The state is the earliest completion of any `k` of the requests so far, so
/// unlike RTT it makes no online decisions.
fn offline_optimum(times: &[u64], rate: u64, within: u64) -> u64 {
    let rate = u128::from(rate);
    let mut earliest = vec![0u128];
    for at in times.iter().map(|at| u128::from(*at) * rate) {
        let deadline = at + u128::from(within) * rate;
        earliest.push(u128::MAX);
        for k in (1..earliest.len()).rev() {
            let done = earliest[k - 1].max(at).saturating_add(1_000_000_000);
            if done <= deadline {
                earliest[k] = earliest[k].min(done);
            }
        }
        while earliest.last() == Some(&u128::MAX) {
            earliest.pop();
        }
    }
    earliest.len() as u64 - 1
}

/// Generates arrivals with bursts of all kinds.
fn arrivals(most: usize) -> impl Strategy<Value = Vec<u64>> {
    let gap = prop_oneof![4 => Just(0u64), 4 => 0u64..2_000_000, 2 => 0u64..20_000_000,
        1 => 0u64..10_000_000_000];
    prop::collection::vec(gap, 1..most).prop_map(|gaps| {
        let mut now = 0;
        gaps.into_iter()
            .map(|gap| {
                now += gap;
                now
            })
            .collect()
    })
}

proptest! {
    #[test]
    fn admits_as_many_as_the_best_subset(
        times in arrivals(11), rate in 1u64..3000, within in 1u64..20_000_000,
    ) {
        prop_assert_eq!(count(&times, rate, within), best_subset(&times, rate, within));
    }

    #[test]
    fn admits_as_many_as_an_offline_optimum(
        times in arrivals(600), rate in 1u64..5000, within in 1u64..20_000_000,
    ) {
        prop_assert_eq!(count(&times, rate, within), offline_optimum(&times, rate, within));
    }

    #[test]
    fn lanes_count_as_the_single_rule(
        times in arrivals(300),
        rates in prop::collection::vec(prop_oneof![0u64..5000, 0u64..2_000_000_000], 1..40),
        within in prop_oneof![1u64..20_000_000, 1u64..20_000_000_000, 1u64..u64::MAX],
    ) {
        let expected: Vec<u64> = rates
            .iter()
            .map(|rate| if *rate == 0 { 0 } else { count(&times, (*rate).min(RATE_MAX_IOPS), within) })
            .collect();
        prop_assert_eq!(admitted(&gaps(&times), Nanos(within), &rates), expected);
    }

    /// Tests backlogs just below and just above the largest that lanes count exactly.
    #[test]
    fn lanes_are_exact_to_the_last_unit(
        gaps_ns in prop::collection::vec(0u64..4, 1..400),
        rates in prop::collection::vec(900_000_000u64..=RATE_MAX_IOPS, 16),
        within in prop_oneof![1u64..40, 4_503_590u64..4_503_610],
        burst in 0usize..5,
    ) {
        let mut now = 0;
        let times: Vec<u64> = gaps_ns
            .iter()
            .flat_map(|gap| { now += gap; std::iter::repeat_n(now, 1 + burst) })
            .collect();
        let expected: Vec<u64> = rates.iter().map(|rate| count(&times, *rate, within)).collect();
        prop_assert_eq!(admitted(&gaps(&times), Nanos(within), &rates), expected);
    }

    #[test]
    fn parts_add_up_as_the_single_rule(
        times in arrivals(200),
        mut ends in prop::collection::vec(0usize..250, 0..12),
        rates in prop::collection::vec(1u64..5000, 1..20),
        within in prop_oneof![1u64..20_000_000, 1u64..u64::MAX],
    ) {
        ends.sort_unstable();
        let by_part = admitted_by_part(&gaps(&times), Nanos(within), &rates, &ends);
        for (rate, parts) in rates.iter().zip(by_part) {
            let mut sums = parts.iter().scan(0, |sum, part| { *sum += part; Some(*sum) });
            let mut rtt = Rtt::new(*rate, Nanos(within)).unwrap();
            let admits: Vec<u64> = times.iter().map(|at| u64::from(rtt.admit(Nanos(*at)))).collect();
            for end in &ends {
                let expected: u64 = admits[..(*end).min(times.len())].iter().sum();
                prop_assert_eq!(sums.next(), Some(expected));
            }
        }
    }

    #[test]
    fn more_rate_or_time_never_admits_fewer(
        times in arrivals(300), rate in 1u64..5000, within in 1u64..20_000_000, more in 0u64..3000,
    ) {
        let admitted = count(&times, rate, within);
        prop_assert!(count(&times, rate + more, within) >= admitted);
        prop_assert!(count(&times, rate, within + more) >= admitted);
    }

    #[test]
    fn the_least_rate_for_all_is_least(times in arrivals(300), within in 1_000u64..20_000_000) {
        match least_rate_for_all(&gaps(&times), Nanos(within)) {
            None => prop_assert!(count(&times, RATE_MAX_IOPS, within) < times.len() as u64),
            Some(rate) => {
                prop_assert_eq!(count(&times, rate, within), times.len() as u64);
                if rate > 1 {
                    prop_assert!(count(&times, rate - 1, within) < times.len() as u64);
                }
            }
        }
    }

    #[test]
    fn gaps_give_back_the_times(times in arrivals(100), first in 0u64..u64::MAX / 4) {
        let shifted: Vec<Nanos> = times.iter().map(|at| Nanos(at + first)).collect();
        let gaps: Gaps = shifted.iter().copied().collect();
        prop_assert_eq!(gaps.times().collect::<Vec<_>>(), shifted);
        prop_assert_eq!(gaps.len(), times.len());
    }

    /// Each tier receives exactly the requests that earlier tiers refused.
    #[test]
    fn tiers_are_rtt_on_what_is_left(times in arrivals(300), rate in 1u64..2000) {
        let tier = |within| Rtt::new(rate, Nanos(within)).unwrap();
        let mut tiers = Classes::new(vec![tier(3_000_000), tier(50_000_000)]);
        let placed: Vec<_> = times.iter().map(|at| tiers.admit(Nanos(*at))).collect();
        let left: Vec<u64> =
            times.iter().zip(&placed).filter(|(_, p)| **p != Some(0)).map(|(at, _)| *at).collect();
        let of = |tier| placed.iter().filter(|p| **p == Some(tier)).count() as u64;
        prop_assert_eq!(of(0), count(&times, rate, 3_000_000));
        prop_assert_eq!(of(1), count(&left, rate, 50_000_000));
    }
}

#[test]
fn a_service_that_just_fits_is_admitted() {
    // At three requests per second, the third request of a burst ends exactly at the bound of one
    // second.
    assert_eq!(count(&[0, 0, 0, 0], 3, 1_000_000_000), 3);
    assert_eq!(count(&[0, 0, 0, 0], 3, 999_999_999), 2);
    // The coarser rule of the paper would always admit only one of the two requests.
    assert_eq!(count(&[0, 900_000_000], 1, 1_100_000_000), 2);
}

#[test]
fn lanes_admit_what_just_fits() {
    for (rate, within, fits) in
        [(10, 1_000_000_000, 10), (1000, 5_000_000, 5), (3, 1_000_000_000, 3)]
    {
        let burst = gaps(&[0; 20]);
        let admits = |within| admitted(&burst, Nanos(within), &[rate]);
        assert_eq!((admits(within), admits(within - 1)), (vec![fits], vec![fits - 1]));
        assert_eq!(admitted_by_part(&burst, Nanos(within), &[rate], &[20]), [[fits]]);
    }
}

#[test]
fn the_largest_numbers_do_not_overflow() {
    let late = u64::MAX - 5;
    assert_eq!(count(&[0, late, late], RATE_MAX_IOPS, u64::MAX), 3);
    assert_eq!(admitted(&gaps(&[0, late, late]), Nanos::MAX, &[1, RATE_MAX_IOPS]), [3, 3]);
    assert_eq!(least_rate_for_all(&gaps(&[0; 1000]), Nanos(999)), None);
    assert_eq!(least_rate_for_all(&gaps(&[0; 1000]), Nanos(1000)), Some(RATE_MAX_IOPS));
    assert_eq!(least_rate_for_all(&gaps(&[7]), Nanos::MAX), Some(1));
    let mut rtt = Rtt::new(3, Nanos::MAX).unwrap();
    assert!(rtt.admit(Nanos(1)));
    assert_eq!(rtt.free_at(), Nanos(333_333_335));
}

#[test]
fn impossible_servers_are_refused() {
    let said = |rate, within| Rtt::new(rate, within).unwrap_err().0;
    assert!(said(0, Nanos(1)).contains("got 0 IOPS"));
    assert!(said(RATE_MAX_IOPS + 1, Nanos(1)).contains("expected 1 to 1000000000"));
    assert!(said(1, Nanos::ZERO).contains("more than 0 ms"));
}

#[test]
fn thinned_arrivals_are_every_so_many_stretches_a_day_apart() {
    let mut gaps = Gaps::default();
    (0..6 * 512 + 7).for_each(|nth| gaps.push(Nanos(nth * 10)));
    let thin: Vec<u64> = gaps.thinned(3).times().map(|at| at.0).collect();
    // The first, the fourth and the seventh of seven stretches are kept. The seventh is short.
    let day = 86_400_000_000_000;
    let stretch = |from: u64, count: u64| (0..count).map(move |nth| from + nth * 10);
    let second = 2 * day + 511 * 10;
    let third = second + 511 * 10 + day;
    let expected = stretch(day, 512).chain(stretch(second, 512)).chain(stretch(third, 7));
    assert_eq!(thin, expected.collect::<Vec<_>>());
    assert_eq!(gaps.thinned(1).len(), gaps.len());
}

/// Generalizes [`offline_optimum`] to requests of unequal length, in units: considers requests in
/// order of deadline, with the earliest completion of any `k` of them as the state.
fn offline_optimum_of_units(requests: &[(u64, u64)], rate: u64, within: u64) -> u64 {
    let rate = u128::from(rate);
    let mut earliest = vec![0u128];
    for (at, units) in requests.iter().map(|(at, units)| (u128::from(*at) * rate, *units)) {
        let deadline = at + u128::from(within) * rate;
        earliest.push(u128::MAX);
        for k in (1..earliest.len()).rev() {
            let done = earliest[k - 1].max(at).saturating_add(1_000_000_000 * u128::from(units));
            if done <= deadline {
                earliest[k] = earliest[k].min(done);
            }
        }
    }
    earliest.iter().rposition(|end| *end < u128::MAX).unwrap() as u64
}

fn count_units(requests: &[(u64, u64)], rate: u64, within: u64) -> u64 {
    let mut rtt = Rtt::new(rate, Nanos(within)).unwrap();
    let mut admits = |(at, units): &(u64, u64)| rtt.admit_within(Nanos(*at), Nanos(within), *units);
    requests.iter().filter(|request| admits(request)).count() as u64
}

proptest! {
    #[test]
    fn with_unequal_requests_no_more_than_the_offline_optimum_is_admitted(
        times in arrivals(60), units in prop::collection::vec(1u64..5, 60), rate in 50u64..2000,
    ) {
        let within = 10_000_000;
        let requests: Vec<_> = times.iter().copied().zip(units).collect();
        let optimum = offline_optimum_of_units(&requests, rate, within);
        prop_assert!(count_units(&requests, rate, within) <= optimum);
        let equal: Vec<_> = times.iter().map(|at| (*at, 1)).collect();
        prop_assert_eq!(count_units(&equal, rate, within), offline_optimum_of_units(&equal, rate, within));
    }
}

#[test]
fn with_unequal_requests_rtt_is_not_optimal() {
    // A long request that arrives first displaces three short ones.
    let requests = [(0, 4), (0, 1), (0, 1), (0, 1)];
    assert_eq!(count_units(&requests, 400, 10_000_000), 1);
    assert_eq!(offline_optimum_of_units(&requests, 400, 10_000_000), 3);
    // Bursts of ten requests every 20 ms, in which every fourth request takes four units.
    let bursts: Vec<(u64, u64)> = (0..1000)
        .map(|nth| (nth / 10 * 20_000_000, if nth * 7 % 4 == 0 { 4 } else { 1 }))
        .collect();
    let (ours, optimum) =
        (count_units(&bursts, 800, 10_000_000), offline_optimum_of_units(&bursts, 800, 10_000_000));
    println!("RTT keeps {ours} of 1000, the offline optimum {optimum}");
    assert_eq!((ours, optimum), (500, 750));
}
