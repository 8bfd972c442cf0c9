//! Tests with small traces on devices whose times can be worked out by hand.

use super::trial::binds;
use super::*;
use forebay_core::{Flags, Op};
use forebay_trace::Record;

/// Returns requests that arrive at these milliseconds, at offsets 1 MiB apart.
fn input(at_ms: &[u64]) -> Input {
    let record = |(index, at): (usize, &u64)| Record {
        at: Nanos(at * 1_000_000),
        offset: index as u64 * STRIPE_BYTES,
        latency: None,
        len: 4096,
        stream: 0,
        volume: 0,
        op: Op::Read,
        flags: Flags::NONE,
    };
    Input::from_records(at_ms.iter().enumerate().map(record).collect(), vec!["a".into()])
}

fn devices(at_ms: &[u64], device: &str, within_ms: u64, fraction: &str) -> Option<usize> {
    let device = crate::devices::open(device).unwrap();
    let promises = Promises {
        within: vec![Nanos(within_ms * 1_000_000)],
        fractions: vec![fraction.parse().unwrap()],
    };
    let found =
        table(&input(at_ms), &device, &asked(&promises), &mut crate::progress::unheard).unwrap();
    found[0].devices
}

fn asked(promises: &Promises) -> Question<'_> {
    let policy = "noop:merge=no";
    Question { policy, promises, devices_max: 8, price_each: Some(50.0), trust_times: true }
}

/// Sends requests that arrive at these milliseconds, at offsets `apart` bytes from one another, to
/// drives of 250 GB.
fn on_drives(at_ms: &[u64], apart: u64, within_ms: u64) -> DevicesRow {
    let mut input = input(at_ms);
    input.extents = vec![apart * at_ms.len() as u64];
    let promises = Promises {
        within: vec![Nanos(within_ms * 1_000_000)],
        fractions: vec!["1".parse().unwrap()],
    };
    let device = crate::devices::open("sata250:plain").unwrap();
    table(&input, &device, &asked(&promises), &mut crate::progress::unheard).unwrap().remove(0)
}

#[test]
fn data_take_devices_too() {
    let held = on_drives(&[0, 1000], 500 << 30, 100);
    assert_eq!((held.devices_for_bytes, held.devices_for_time), (Some(5), Some(1)));
    assert_eq!((held.devices, held.binds), (Some(5), Some(Binds::Bytes)));
    assert_eq!((held.price, held.one_less_fraction), (Some(250.0), None));
    // Five drives of several watts each are idle for most of the second.
    assert!(held.mean_power_w.is_some_and(|watts| (10.0..100.0).contains(&watts)), "{held:?}");
    let small = on_drives(&[0, 1000], 1 << 20, 100);
    assert_eq!((small.devices, small.binds), (Some(1), Some(Binds::Both)));
    let busy = on_drives(&[0; 8], 1 << 20, 40);
    assert_eq!((busy.devices_for_bytes, busy.binds), (Some(1), Some(Binds::Time)), "{busy:?}");
    assert!(busy.one_less_fraction.unwrap() < 1.0);
    // The data need more drives than the maximum, so no number is reported.
    let vast = on_drives(&[0, 1000], 2 << 40, 100);
    assert_eq!((vast.devices_for_bytes, vast.devices), (Some(18), None));
}

#[test]
fn a_promise_too_short_for_an_idle_device_needs_more_than_numbers() {
    let slow = |within_us: u64| {
        let promises = Promises {
            within: vec![Nanos(within_us * 1000)],
            fractions: vec!["1".parse().unwrap()],
        };
        let device = crate::devices::open("fixed:100").unwrap();
        table(&input(&[0; 20]), &device, &asked(&promises), &mut crate::progress::unheard)
            .unwrap()
            .remove(0)
    };
    assert_eq!((slow(9_999).devices, slow(9_999).alone_fraction), (None, Some(0.0)));
    assert!(!slow(9_999).has_arm);
    // Twenty requests at once are too many for the maximum of eight devices. A single request is in
    // time, so more devices might be enough.
    assert_eq!((slow(10_000).devices, slow(10_000).alone_fraction), (None, Some(1.0)));
    assert_eq!((slow(30_000).devices_for_bytes, slow(30_000).mean_power_w), (None, None));
    assert_eq!((slow(30_000).capacity_iops, slow(30_000).alone_fraction), (Some(667), None));
}

#[test]
fn a_burst_takes_as_many_servers_as_finish_it_in_time() {
    // A device serves 100 requests per second, so eight at once take 80 ms on one and 20 ms on
    // four.
    let burst = [0; 8];
    assert_eq!(devices(&burst, "fixed:100", 80, "1"), Some(1));
    assert_eq!(devices(&burst, "fixed:100", 79, "1"), Some(2));
    assert_eq!(devices(&burst, "fixed:100", 20, "1"), Some(4));
    // Three devices get three, three and two of the requests.
    assert_eq!(devices(&burst, "fixed:100", 30, "1"), Some(3));
    assert_eq!(devices(&burst, "fixed:100", 20, "0.75"), Some(3));
    assert_eq!(devices(&burst, "fixed:100", 9, "1"), None);
}

#[test]
fn one_server_keeps_all_in_time_exactly_at_the_capacity_of_rtt() {
    let at_ms = [0, 0, 0, 7, 8, 30, 31, 31, 31, 31, 60];
    let gaps = at_ms.iter().map(|at| Nanos(at * 1_000_000)).collect();
    let least = forebay_core::rtt::least_rate_for_all(&gaps, Nanos(20_000_000)).unwrap();
    assert_eq!(devices(&at_ms, &format!("fixed:{least}"), 20, "1"), Some(1));
    assert_ne!(devices(&at_ms, &format!("fixed:{}", least - 1), 20, "1"), Some(1));
}

#[test]
fn the_constraint_that_needs_this_many_devices_is_named() {
    let expected = [
        ((4, 2, 4), Binds::Bytes),
        ((2, 2, 2), Binds::Both),
        ((1, 3, 3), Binds::Time),
        // With the data at their real locations, more devices are needed than for either
        // requirement alone.
        ((3, 2, 4), Binds::Time),
        ((2, 2, 3), Binds::Time),
    ];
    for ((for_bytes, for_time, devices), decides) in expected {
        assert_eq!(
            binds(for_bytes, for_time, devices),
            decides,
            "{for_bytes} {for_time} {devices}"
        );
    }
}

#[test]
fn alone_means_that_no_request_meets_another() {
    // Each request takes a second, so eight devices answer only eight of twenty within a second.
    // Requests that never overlap are all in time.
    let device = crate::devices::open("fixed:1").unwrap();
    let within = vec![Nanos::from_secs(1)];
    let promises = Promises { within, fractions: vec!["1".parse().unwrap()] };
    let row = table(&input(&[0; 20]), &device, &asked(&promises), &mut crate::progress::unheard)
        .unwrap()
        .remove(0);
    assert_eq!((row.devices, row.alone_fraction), (None, Some(1.0)));
}

/// Like [`input`], but all requests have the operation `op`, and volumes have an extent of `extent`
/// bytes.
fn all_of(op: Op, at_ms: &[u64], extent: u64) -> Input {
    let record = |(index, at): (usize, &u64)| Record {
        at: Nanos::from_millis(*at),
        offset: index as u64 * 7919 % 900 * STRIPE_BYTES,
        latency: None,
        len: 4096,
        stream: 0,
        volume: 0,
        op,
        flags: Flags::NONE,
    };
    let records = at_ms.iter().enumerate().map(record).collect();
    let mut input = Input::from_records(records, vec!["a".into()]);
    input.extents = vec![extent.max(900 * STRIPE_BYTES)];
    input
}

/// Returns the row for all requests within `within_ms`, on drives of 250 GB with their write cache
/// on.
fn with_cache(input: &Input, within_ms: u64) -> DevicesRow {
    let within = vec![Nanos::from_millis(within_ms)];
    let promises = Promises { within, fractions: vec!["1".parse().unwrap()] };
    let device = crate::devices::open("sata250").unwrap();
    table(input, &device, &asked(&promises), &mut crate::progress::unheard).unwrap().remove(0)
}

#[test]
fn without_its_cache_a_drive_is_slow_to_write_and_reads_are_as_they_were() {
    let at_ms: Vec<u64> = (0..40).map(|k| k / 4 * 100).collect();
    let reads = with_cache(&all_of(Op::Read, &at_ms, 0), 200);
    assert!(reads.devices.is_some() && reads.without_write_cache.is_none(), "{reads:?}");
    // Four writes at once take the arm longer than the promised time, but the cache takes no time
    // for them.
    let writes = with_cache(&all_of(Op::Write, &at_ms, 0), 30);
    let without = writes.without_write_cache.as_ref().unwrap();
    assert_eq!(writes.devices, Some(1), "{writes:?}");
    assert!(without.devices.is_none_or(|devices| devices > 1), "{writes:?}");
    assert!(without.devices.is_some() == (without.achieved_fraction == 1.0), "{writes:?}");
}

#[test]
fn without_their_cache_drives_hold_no_more_data() {
    // One device would be fast enough, but only three hold the data.
    let writes = with_cache(&all_of(Op::Write, &[0, 1000], 700_000_000_000), 200);
    assert_eq!((writes.devices, writes.devices_for_time), (Some(3), Some(1)));
    assert_eq!(writes.without_write_cache.unwrap().devices, Some(3));
}

#[test]
fn a_device_draws_power_to_the_end_of_the_trace() {
    // Two devices are needed to hold the data. The second has nothing to do after its first
    // request.
    let mut input = input(&[0, 0, 20_000, 40_000, 60_000]);
    input.extents = vec![400_000_000_000];
    let within = vec![Nanos::from_secs(1)];
    let promises = Promises { within, fractions: vec!["1".parse().unwrap()] };
    let device = crate::devices::open("sata250:plain").unwrap();
    let row =
        table(&input, &device, &asked(&promises), &mut crate::progress::unheard).unwrap().remove(0);
    assert_eq!(row.devices, Some(2));
    // Each drive draws 6.2 W, plus a little for five requests in a minute.
    assert!(row.mean_power_w.is_some_and(|watts| (12.4..12.5).contains(&watts)), "{row:?}");
}

#[test]
fn a_drive_that_is_late_draws_no_more_than_when_busy() {
    // Two hundred requests arrive at once and one 10 ms later, so the trace ends long before the
    // drive has served them.
    let mut at_ms = vec![0; 200];
    at_ms.push(10);
    let mut input = input(&at_ms);
    input.extents = vec![201 * STRIPE_BYTES];
    let within = vec![Nanos::from_secs(60)];
    let promises = Promises { within, fractions: vec!["1".parse().unwrap()] };
    let device = crate::devices::open("sata250:plain").unwrap();
    let row =
        table(&input, &device, &asked(&promises), &mut crate::progress::unheard).unwrap().remove(0);
    assert!(row.mean_power_w.is_some_and(|watts| (6.2..20.0).contains(&watts)), "{row:?}");
}

/// Regression test: more devices were recommended although all requests went to one stripe.
#[test]
fn requests_that_meet_on_one_stripe_are_told_that_more_devices_change_nothing() {
    let at_ms: Vec<u64> = (0..200).map(|n| n * 5).collect();
    let promises =
        Promises { within: vec![Nanos(20_000_000)], fractions: vec!["0.99".parse().unwrap()] };
    let device = crate::devices::open("fixed:100").unwrap();
    let row = |stripe: &dyn Fn(u64) -> u64| {
        let mut records: Vec<Record> = input(&at_ms).records().unwrap().collect();
        (0..).zip(&mut records).for_each(|(n, record)| record.offset = stripe(n) * STRIPE_BYTES);
        let input = Input::from_records(records, vec!["a".into()]);
        table(&input, &device, &asked(&promises), &mut crate::progress::unheard).unwrap().remove(0)
    };
    // A device serves 100 requests per second; 200 per second go to one stripe, and some elsewhere.
    for stripe in [&(|_| 0u64) as &dyn Fn(u64) -> u64, &|n| if n % 10 == 0 { n } else { 0 }] {
        let hot = row(stripe);
        assert!(hot.devices.is_none() && hot.apart_fraction.unwrap() < 0.99, "{hot:?}");
        let said = hot.told("fixed:100", 8);
        assert!(
            said.contains("no number of fixed:100 is enough: too many requests meet"),
            "{said}"
        );
    }
    // On eight stripes more devices would help, but on one device they are not allowed to.
    let spread = row(&|n| n);
    assert_eq!((spread.devices.is_some(), spread.apart_fraction), (true, None));
    let burst = row(&|n| n / 2 * 8 % 1600);
    assert!(burst.devices.is_none() && burst.apart_fraction.unwrap() >= 0.99, "{burst:?}");
    assert!(burst.told("fixed:100", 8).contains("raise"), "{burst:?}");
}
