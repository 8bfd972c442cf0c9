use forebay_core::rtt::{Gaps, admitted};
use proptest::prelude::*;

use super::*;

fn cost(text: &str) -> Cost {
    text.parse().unwrap()
}

/// The most of them in time by trying every subset, in order of arrival.
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
        // A cost of 1 ms at so many thousandths of speed is so many requests a second.
        let found = in_time(&requests, cost("1000"), Nanos(within), rate);
        prop_assert_eq!(found, admitted(&gaps, Nanos(within), &[rate])[0]);
    }
}

#[test]
fn the_least_speed_keeps_the_promise_and_a_thousandth_less_does_not() {
    let scattered = |n: u64| n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    let mut at = 0;
    let request = |n: u64| {
        at += scattered(n) % 2_000_000;
        (Nanos(at), 4096 << (scattered(n + 7) % 6))
    };
    let lengths = Lengths { requests: (0..3000).map(request).collect() };
    let (cost, within) = (cost("100+5/KiB"), Nanos::from_millis(3));
    let fractions: Vec<Fraction> =
        ["0.5", "0.9", "0.99", "1"].iter().map(|text| text.parse().unwrap()).collect();
    let found = least_speeds(&lengths, cost, within, &fractions);
    for (fraction, speed) in fractions.iter().zip(&found) {
        let (speed, need) = (speed.unwrap(), fraction.of(3000));
        assert!(in_time(&lengths.requests, cost, within, speed) >= need, "{fraction}");
        assert!(in_time(&lengths.requests, cost, within, speed - 1) < need, "{fraction}");
    }
    assert!(found.is_sorted() && found[0] < found[3]);
    // A second of service within a nanosecond is beyond all speeds.
    let none = least_speeds(&lengths, "10000000".parse().unwrap(), Nanos(1), &fractions);
    assert_eq!(none, [None; 4]);
}

#[test]
fn a_long_request_is_put_aside_for_several_short_ones() {
    let requests = [8, 1, 1, 1].map(|kib| (Nanos::ZERO, kib * 1024));
    // 1 us a KiB: the first alone takes all of the 8 us.
    assert_eq!(in_time(&requests, cost("1/KiB"), Nanos::from_micros(8), 1000), 3);
    assert_eq!(in_time(&requests, cost("1/KiB"), Nanos::from_micros(8), 1374), 3);
    assert_eq!(in_time(&requests, cost("1/KiB"), Nanos::from_micros(8), 1375), 4);
}

#[test]
fn a_device_costs_what_scattered_reads_take_on_it() {
    let disk = Cost::of_device(&crate::devices::open("st1000nm0011").unwrap()).unwrap();
    // Half a turn at 7200 rpm and a seek; some 100 MB/s.
    assert!((8_000.0..16_000.0).contains(&disk.us(0.0)), "{disk:?}");
    let kib_us = disk.us(1024.0) - disk.us(0.0);
    assert!((5.0..20.0).contains(&kib_us), "{disk:?}");
    let server = Cost::of_device(&crate::devices::open("fixed:500").unwrap()).unwrap();
    assert_eq!((server.us(0.0), server.us(1e6)), (2000.0, 2000.0));
    let told = server.to_string();
    assert_eq!(told.parse::<Cost>(), Ok(server), "{told}");
}
