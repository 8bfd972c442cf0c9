use forebay_core::rtt::{Gaps, admitted};
use proptest::prelude::*;

use super::consolidate::consolidate;
use super::cost::PARTS_OF_NS;
use super::in_time::{SPEED_MAX, answered, first_come, scale};
use super::*;
use crate::plan::arrival_times::ArrivalTimes;
use crate::plan::consolidate::{self as plain, Begin};
use crate::plan::sla::{self as plain_sla, Sla};

fn cost(text: &str) -> Cost {
    text.parse().unwrap()
}

/// Finds the highest number of requests in time by serving every subset in order of arrival.
fn brute_force(requests: &[(Nanos, u32)], cost: Cost, within: Nanos, speed: u64) -> u64 {
    let kept = |subset: u32| {
        let mut free = 0u128;
        let chosen = (0..requests.len()).filter(|index| subset >> index & 1 == 1);
        let in_time = chosen.map(|index| requests[index]).all(|(at, len)| {
            let scale = PARTS_OF_NS * u128::from(speed);
            free = free.max(u128::from(at.0) * scale) + cost.parts(len) * 1000;
            free <= u128::from(at.0 + within.0) * scale
        });
        in_time.then_some(u64::from(subset.count_ones()))
    };
    (0..1u32 << requests.len()).filter_map(kept).max().unwrap_or(0)
}

#[test]
fn costs_are_shown_with_four_digits() {
    assert_eq!(cost("12978.497458+9.100943/KiB").shown(), "12978+9.101/KiB");
    assert_eq!(cost("100+0.5/KiB").shown(), "100+0.5/KiB");
    assert_eq!(cost("1000").shown(), "1000");
    assert_eq!(cost("0.000123/KiB").shown(), "0.000123/KiB");
}

#[test]
fn costs_are_read_exactly() {
    assert_eq!(cost("100"), Cost { base_ps: 100_000_000, kib_ps: 0 });
    assert_eq!(cost("100+0.01/KiB"), Cost { base_ps: 100_000_000, kib_ps: 10_000 });
    assert_eq!(cost("0.000001/KiB"), Cost { base_ps: 0, kib_ps: 1 });
    assert_eq!(cost("100+0.5/KiB").us(8192.0), 104.0);
    for wrong in ["", "0", "0+0/KiB", "-1", "1+2", "x", "1/MiB", "0.0000001", "1e3", "+", "1+/KiB"]
    {
        let said = wrong.parse::<Cost>().unwrap_err();
        assert!(said.contains("100+0.5/KiB") && said.contains(wrong), "{wrong}: {said}");
    }
}

proptest! {
    #[test]
    fn no_order_does_more_in_time(
        gaps in prop::collection::vec((0u64..6, 1u32..9), 1..10),
        within in 1u64..14,
        speed in 200u64..3000,
    ) {
        let mut at = 0;
        let requests: Vec<(Nanos, u32)> = gaps.into_iter().map(|(gap, kib)| {
            at += gap * 1000;
            (Nanos(at), kib * 1024)
        }).collect();
        let (cost, within) = (cost("0.3+0.9/KiB"), Nanos(within * 1000));
        let most = brute_force(&requests, cost, within, speed);
        prop_assert_eq!(in_time(&requests, cost, within, speed), most);
    }

    #[test]
    fn equal_costs_come_to_what_rtt_admits(
        gaps in prop::collection::vec(0u64..40_000, 1..300),
        within in 1u64..200_000,
        rate in 1u64..200_000,
    ) {
        let mut at = 0;
        let times: Vec<Nanos> = gaps.into_iter().map(|gap| { at += gap; Nanos(at) }).collect();
        let gaps: Gaps = times.iter().copied().collect();
        let requests: Vec<(Nanos, u32)> = times.iter().map(|at| (*at, 512)).collect();
        // If each request costs 1 ms, the speed in thousandths equals the rate in requests per
        // second.
        let found = in_time(&requests, cost("1000"), Nanos(within), rate);
        prop_assert_eq!(found, admitted(&gaps, Nanos(within), &[rate])[0]);
    }
}

fn shares(texts: &[&str]) -> Vec<Share> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn scattered(n: u64) -> u64 {
    n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40
}

/// Returns `count` requests of 4 to 128 KiB that depend on `seed`.
fn mixed(count: u64, seed: u64) -> Vec<Arrival> {
    let mut at = 0;
    let request = |n: u64| {
        at += scattered(n + seed * 1009) % 2_000_000;
        (Nanos(at), 4096 << (scattered(n + seed + 7) % 6))
    };
    (0..count).map(request).collect()
}

#[test]
fn the_least_speed_keeps_the_promise_and_a_thousandth_less_does_not() {
    let requests = mixed(3000, 0);
    let (cost, within) = (cost("100+5/KiB"), Nanos::from_millis(3));
    let fractions = shares(&["0.5", "0.9", "0.99", "1"]);
    let found = least_speeds(&requests, cost, within, &fractions);
    for (fraction, speed) in fractions.iter().zip(&found) {
        let (speed, need) = (speed.unwrap(), fraction.of(3000));
        assert!(in_time(&requests, cost, within, speed) >= need, "{fraction}");
        assert!(in_time(&requests, cost, within, speed - 1) < need, "{fraction}");
    }
    assert!(found.is_sorted() && found[0] < found[3]);
    // Serving requests that take seconds within a nanosecond would need more than the highest
    // speed.
    let none = least_speeds(&requests, "10000000".parse().unwrap(), Nanos(1), &fractions);
    assert_eq!(none, [None; 4]);
    assert_eq!(least_speed(1, |speed| speed >= SPEED_MAX), Some(SPEED_MAX));
    for (from, least) in [(1, 1), (1, 2), (1, 1000), (7, 7), (7, 8), (7, 1001)] {
        assert_eq!(least_speed(from, |speed| speed >= least), Some(least), "{from}");
    }
}

#[test]
fn as_many_requests_as_possible_are_served_in_time() {
    let (cost, within, requests) = (cost("100+5/KiB"), Nanos::from_millis(3), mixed(3000, 3));
    for speed in [50, 100, 200, 300] {
        let kept: Vec<Arrival> = answered(&requests, cost, within, speed).collect();
        assert_eq!(kept.len() as u64, in_time(&requests, cost, within, speed));
        assert!(kept.len() < requests.len() && kept.is_sorted_by_key(|(at, _)| *at));
        let bound = u128::from(within.0) * scale(speed);
        first_come(&kept, cost, speed, |took| assert!(took <= bound));
    }
}

/// Returns whether `requests` keep both tiers at `speed` if they are served first come, first
/// served. Computes each request in integers.
fn both_kept(requests: &[Arrival], cost: Cost, tiers: &[(u64, u64)], speed: u64) -> bool {
    let (mut free, mut in_time) = (0, vec![0; tiers.len()]);
    for (at, len) in requests {
        let at = u128::from(at.0) * PARTS_OF_NS * u128::from(speed);
        free = if free < at { at } else { free } + cost.parts(*len) * 1000;
        for ((within, _), count) in tiers.iter().zip(&mut in_time) {
            let end = at + u128::from(*within) * PARTS_OF_NS * u128::from(speed);
            *count += u64::from(free <= end);
        }
    }
    tiers.iter().zip(in_time).all(|((_, need), count)| count >= *need)
}

#[test]
fn tiers_have_the_least_speed_that_keeps_all_and_a_floor_that_no_order_passes() {
    let (cost, requests) = (cost("100+5/KiB"), mixed(2000, 5));
    let sla = Sla::new(&[(0.5, 1.0), (0.9, 3.0), (1.0, 40.0)]).unwrap();
    let found = sla::price(&Load::of(requests.clone()), cost, &sla).unwrap();
    let least = (found.fcfs_speed * 1e3).round() as u64;
    let tiers = [(1_000_000, 1000), (3_000_000, 1800), (40_000_000, 2000)];
    assert!(both_kept(&requests, cost, &tiers, least));
    assert!(!both_kept(&requests, cost, &tiers, least - 1));
    let dearest = tiers.iter().map(|(within, need)| {
        let enough = |speed: &u64| in_time(&requests, cost, Nanos(*within), *speed) >= *need;
        (1..).find(enough).unwrap()
    });
    assert_eq!(found.floor_speed, dearest.max().unwrap() as f64 / 1e3);
    assert!(found.floor_speed < found.fcfs_speed, "{found:?}");
    let kept = found.tiers.iter().all(|tier| tier.achieved_fraction >= tier.fraction);
    assert!(kept && found.tiers[2].achieved_fraction == 1.0, "{found:?}");
    let hopeless = Sla::new(&[(1.0, 1e-6)]).unwrap();
    // Requests that take ten seconds must be served within a nanosecond.
    let said = sla::price(&Load::of(requests), "10000000".parse().unwrap(), &hopeless)
        .unwrap_err()
        .to_string();
    assert!(said.contains("no server up to a million times"), "{said}");
}

#[test]
fn equal_costs_have_the_prices_in_requests() {
    let times: Vec<Nanos> = mixed(2000, 9).into_iter().map(|(at, _)| at).collect();
    let arrivals = ArrivalTimes::of(times.iter().copied().collect());
    let (load, cost) = (Load::of(times.into_iter().map(|at| (at, 512)).collect()), cost("1000"));
    let sla = Sla::new(&[(0.9, 3.0), (1.0, 50.0)]).unwrap();
    let (ours, plain) =
        (sla::price(&load, cost, &sla).unwrap(), plain_sla::price(&arrivals, &sla, None).unwrap());
    let iops = |speed: f64| (speed * 1e3).round() as u64;
    assert_eq!(
        (iops(ours.floor_speed), Some(iops(ours.fcfs_speed))),
        (plain.floor_iops, plain.fcfs_iops)
    );
    let (fractions, within) = (shares(&["0.9", "1"]), vec![Nanos::from_millis(3)]);
    let promises = Promises { within, fractions };
    let shifts = [Nanos::ZERO, Nanos::from_millis(100)];
    let begin = Begin::Together;
    let ours = consolidate(&[&load, &load], begin, &shifts, &promises, cost).unwrap();
    let plain = plain::consolidate(
        &[&arrivals, &arrivals],
        begin,
        &shifts,
        &promises,
        None,
        &mut crate::progress::unheard,
    )
    .unwrap();
    assert_eq!(ours.rows.len(), 4);
    for (ours, plain) in ours.rows.iter().zip(&plain.rows) {
        let found = (iops(ours.sum_speed), iops(ours.merged_speed), iops(ours.shaped_speed));
        assert_eq!(found, (plain.sum_iops, plain.merged_iops, plain.shaped_iops));
        assert_eq!((ours.shift_s, ours.ratio), (plain.shift_s, plain.ratio));
    }
}

proptest! {
    #[test]
    fn together_clients_need_what_no_order_does_with_less(
        gaps in prop::collection::vec((0u64..6, 1u32..9, 0usize..2), 2..10),
        within in 2u64..14,
    ) {
        let mut at = 0;
        let all: Vec<(Arrival, usize)> = gaps.into_iter().map(|(gap, kib, client)| {
            at += gap * 1000;
            ((Nanos(at), kib * 1024), client)
        }).collect();
        let of = |wanted| {
            all.iter().filter(move |(_, client)| *client == wanted).map(|(one, _)| *one).collect()
        };
        let clients: [Vec<Arrival>; 2] = [of(0), of(1)];
        prop_assume!(clients.iter().all(|client| !client.is_empty()));
        let merged: Vec<Arrival> = all.iter().map(|(one, _)| *one).collect();
        let loads = clients.map(|all| Load::of(all));
        let within = Nanos(within * 1000);
        let promises = Promises { within: vec![within], fractions: shares(&["0.5", "0.8"]) };
        let (cost, begin) = (cost("0.3+0.9/KiB"), Begin::AsRecorded);
        let clients: Vec<&Load> = loads.iter().collect();
        let found = consolidate(&clients, begin, &[Nanos::ZERO], &promises, cost).unwrap();
        for (row, fraction) in found.rows.iter().zip(&promises.fractions) {
            let speed = (row.merged_speed * 1e3).round() as u64;
            let need = fraction.of(merged.len() as u64);
            prop_assert!(brute_force(&merged, cost, within, speed) >= need);
            prop_assert!(brute_force(&merged, cost, within, speed - 1) < need);
            prop_assert!(row.merged_speed <= row.shaped_speed, "{:?}", row);
            prop_assert!(row.shaped_speed <= row.sum_speed, "{:?}", row);
        }
    }
}

#[test]
fn a_long_request_is_put_aside_for_several_short_ones() {
    let requests = [8, 1, 1, 1].map(|kib| (Nanos::ZERO, kib * 1024));
    // At 1 µs per KiB, the first request alone takes all of the 8 µs.
    assert_eq!(in_time(&requests, cost("1/KiB"), Nanos::from_micros(8), 1000), 3);
    assert_eq!(in_time(&requests, cost("1/KiB"), Nanos::from_micros(8), 1374), 3);
    assert_eq!(in_time(&requests, cost("1/KiB"), Nanos::from_micros(8), 1375), 4);
}

#[test]
fn a_device_costs_what_scattered_reads_take_on_it() {
    let disk = Cost::of_device(&crate::devices::open("st1000nm0011").unwrap()).unwrap();
    // The expected fixed cost is half a rotation at 7200 rpm and a seek; the rate is about 100
    // MB/s.
    assert!((8_000.0..16_000.0).contains(&disk.us(0.0)), "{disk:?}");
    let kib_us = disk.us(1024.0) - disk.us(0.0);
    assert!((5.0..20.0).contains(&kib_us), "{disk:?}");
    let server = Cost::of_device(&crate::devices::open("fixed:500").unwrap()).unwrap();
    assert_eq!((server.us(0.0), server.us(1e6)), (2000.0, 2000.0));
    let told = server.to_string();
    assert_eq!(told.parse::<Cost>(), Ok(server), "{told}");
}
