//! Tests with few pools, whose energy can be worked out by hand.

use super::*;

const SECOND: u64 = 1_000_000_000;

fn arrivals(times: Vec<u64>) -> ArrivalTimes {
    ArrivalTimes::of(times.into_iter().map(Nanos).collect())
}

/// Returns options for pools of one disk with 10 requests per second, a promised time of one
/// second, and epochs of 100 s.
fn question(fraction: &str) -> Question {
    let disk = Disk {
        name: "d".into(),
        iops: 10,
        idle_w: 10.0,
        active_w: 13.0,
        standby_w: 1.0,
        spin_up_j: 150.0,
        spin_up: Nanos(10 * SECOND),
    };
    Question {
        within: Nanos(SECOND),
        fraction: fraction.parse().unwrap(),
        baseline: Share::ALL,
        epoch: Nanos(100 * SECOND),
        history: 1,
        pool_disks: 1,
        disk,
    }
}

/// Returns a burst of the given number of requests in the middle of each epoch, and one request at
/// the very end.
fn bursts(bursts: &[u64]) -> ArrivalTimes {
    let middle = |epoch: usize| (epoch as u64 * 100 + 50) * SECOND;
    let mut times = vec![0];
    for (epoch, count) in bursts.iter().enumerate() {
        times.extend((0..*count).map(|_| middle(epoch)));
    }
    times.push(bursts.len() as u64 * 100 * SECOND - 1);
    arrivals(times)
}

fn rows(arrivals: &ArrivalTimes, question: &Question) -> Vec<PowerRow> {
    power(arrivals, question).unwrap().rows
}

#[test]
fn energy_adds_up() {
    // Twenty requests at once need two pools; the bursts of later epochs need one.
    let found = rows(&bursts(&[20, 5, 5]), &question("1"));
    let (served_s, all_s) = (32.0 / 10.0, 300.0);
    let joules = |on_pool_s: f64, spin_ups: f64| {
        on_pool_s * 10.0 + served_s * 3.0 + (2.0 * all_s - on_pool_s) + spin_ups * 150.0
    };
    let expected = [joules(600.0, 0.0), joules(600.0, 0.0), joules(500.0, 0.0), joules(400.0, 0.0)];
    for (row, expected) in found.iter().zip(expected) {
        assert!((row.energy_j - expected).abs() < 1e-3, "{}: {row:?}, {expected}", row.plan);
        assert_eq!((row.late_requests, row.broken_epochs), (0, 0));
    }
    assert!((found[3].saving_ratio - expected[0] / expected[3]).abs() < 1e-9);
}

#[test]
fn a_prediction_that_is_too_low_breaks_its_epoch_and_spins_up_late() {
    let found = rows(&bursts(&[5, 20, 20, 5]), &question("1"));
    let (predicted, oracle) = (&found[2], &found[3]);
    assert_eq!((predicted.broken_epochs, predicted.late_requests), (1, 10));
    assert_eq!((oracle.broken_epochs, oracle.late_requests), (0, 0));
    assert_eq!((predicted.disk_spin_ups, oracle.disk_spin_ups), (1, 1));
    // The ten late requests wait for the first ten, and then for each other.
    assert_eq!(predicted.max_ms, 2000.0);
    assert_eq!(predicted.answered[2].within_ms, 1000.0);
    assert!((predicted.answered[2].fraction - 42.0 / 52.0).abs() < 1e-12);
}

#[test]
fn a_spin_up_costs_its_energy_and_draws_nothing_else_meanwhile() {
    let found = rows(&bursts(&[5, 20, 20, 5]), &question("1"));
    let joules = |on_pool_s: f64, spinning_s: f64| {
        (on_pool_s - spinning_s) * 10.0 + 5.2 * 3.0 + (800.0 - on_pool_s) + 150.0
    };
    assert!((found[2].energy_j - joules(700.0, 10.0)).abs() < 1e-3, "{:?}", found[2]);
    assert!((found[3].energy_j - joules(600.0, 0.0)).abs() < 1e-3, "{:?}", found[3]);
    // The trace ends 4 s into the epoch for which a second pool is switched on.
    let mut times: Vec<u64> = vec![0];
    for (at, count) in [(50, 20), (150, 5), (250, 20), (304, 1)] {
        times.extend(std::iter::repeat_n(at * SECOND, count));
    }
    let cut = &rows(&arrivals(times), &question("1"))[2];
    let expected = (508.0 - 4.0) * 10.0 + 4.7 * 3.0 + (608.0 - 508.0) + 150.0;
    assert!((cut.energy_j - expected).abs() < 1e-3, "{cut:?} {expected}");
    assert_eq!(cut.disk_spin_ups, 1);
}

#[test]
fn a_request_at_an_epochs_start_is_of_that_epoch() {
    // The pool is busy until 200.95 s, so the request at 200 s is late. It is the only one in its
    // epoch.
    let mut times: Vec<u64> = (0..100).map(|second| second * SECOND).collect();
    times.extend([199_950_000_000; 10]);
    times.push(200 * SECOND);
    let fixed = &rows(&arrivals(times), &question("0.9"))[1];
    assert_eq!((fixed.max_pools, fixed.late_requests, fixed.broken_epochs), (1, 1, 1));
}

#[test]
fn arrivals_at_a_free_pool_precede_late_requests() {
    let times = [[0; 11].as_slice(), &[SECOND; 10]].concat();
    let fixed = &rows(&arrivals(times), &question("0.9"))[1];
    assert_eq!((fixed.max_pools, fixed.late_requests, fixed.max_ms), (1, 1, 2100.0));
    let within: Vec<f64> = fixed.answered.iter().map(|answered| answered.within_ms).collect();
    assert_eq!(within, [500.0, 750.0, 1000.0]);
    let shares: Vec<f64> = fixed.answered.iter().map(|answered| answered.fraction).collect();
    assert_eq!(shares, [10.0 / 21.0, 14.0 / 21.0, 20.0 / 21.0]);
}

#[test]
fn spinning_up_takes_a_part_of_the_epoch() {
    // The second burst arrives 5 s into the third epoch, when the second pool is still spinning up.
    let mut times = vec![0, 150 * SECOND];
    times.extend([150 * SECOND; 20]);
    times.extend([205 * SECOND; 20]);
    times.push(250 * SECOND);
    let mut question = question("1");
    assert_eq!(rows(&arrivals(times.clone()), &question)[2].broken_epochs, 2);
    question.disk.spin_up = Nanos(4 * SECOND);
    assert_eq!(rows(&arrivals(times), &question)[2].broken_epochs, 1);
}

#[test]
fn a_fraction_saves_pools() {
    let found = rows(&bursts(&[30, 10, 10, 10]), &question("0.6"));
    assert_eq!(found.iter().map(|row| row.max_pools).collect::<Vec<_>>(), [3, 1, 3, 2]);
    assert!(found[1].energy_j < found[0].energy_j / 2.0);
}

#[test]
fn history_remembers_the_largest() {
    assert_eq!(predicted(&[3, 1, 2, 1], 1, 9), [9, 3, 1, 2]);
    assert_eq!(predicted(&[3, 1, 2, 1], 2, 9), [9, 3, 3, 2]);
}

#[test]
fn impossible_values_are_rejected() {
    let said = |question: &Question| power(&bursts(&[5]), question).unwrap_err().to_string();
    let mut slow = question("1");
    slow.within = Nanos(SECOND / 20);
    assert!(said(&slow).contains("more disks"), "{}", said(&slow));
    let mut short = question("1");
    (short.epoch, short.disk.spin_up) = (Nanos(1000), Nanos::ZERO);
    assert!(said(&short).contains("got 100000000 epochs"), "{}", said(&short));
    let mut none = question("1");
    none.pool_disks = 0;
    assert!(said(&none).contains("got 0 IOPS"));
}

#[test]
fn inputs_with_meaningless_results_are_rejected() {
    for times in [vec![7], vec![7; 8]] {
        let said = power(&arrivals(times), &question("1")).unwrap_err().to_string();
        assert!(said.starts_with("t: got") && said.contains("at a single time"), "{said}");
    }
    let said = |question: &Question| power(&bursts(&[5, 5]), question).unwrap_err().to_string();
    let mut hot = question("1");
    hot.disk.standby_w = 10.1;
    assert!(said(&hot).contains("got 10.1 W when off"), "{}", said(&hot));
    hot.disk.standby_w = 10.0;
    assert!(power(&bursts(&[5, 5]), &hot).is_ok());
    let mut short = question("1");
    short.epoch = Nanos(10 * SECOND - 1);
    assert!(said(&short).contains("the 10 s in which d spins up"), "{}", said(&short));
    short.epoch = Nanos(10 * SECOND);
    assert!(power(&bursts(&[5, 5]), &short).is_ok());
}

#[test]
fn one_epoch_is_reported() {
    let one = power(&arrivals(vec![0, SECOND]), &question("1")).unwrap();
    assert!(one.epoch_caution().is_some_and(|said| one.cautions.contains(&said)));
    let two = power(&arrivals(vec![0, 100 * SECOND]), &question("1")).unwrap();
    assert_eq!(two.epoch_caution(), None);
}

#[test]
fn the_plan_that_is_recommended_keeps_the_promise_and_needs_no_foresight() {
    let asked = question("1");
    let found = power(&bursts(&[20, 5, 5]), &asked).unwrap();
    let best = found.recommended().unwrap();
    let others = found.rows.iter().filter(|row| row.plan != "oracle" && row.broken_epochs == 0);
    assert!(best.plan != "oracle" && best.broken_epochs == 0);
    assert!(others.into_iter().all(|row| row.energy_j >= best.energy_j), "{found:?}");
    assert!(page::headline(&found, &asked).starts_with(match best.plan {
        "all-on" => "Leave all 2 pools on",
        _ => "Switch pools by past needs (predicted): ",
    }));
    assert_eq!(found.recommended, Some(best.plan));
    // If an epoch needs more pools than the previous one, the prediction breaks the promise.
    let surprised = power(&bursts(&[5, 5, 20, 5]), &asked).unwrap();
    let predicted = surprised.rows.iter().find(|row| row.plan == "predicted").unwrap();
    assert!(predicted.broken_epochs > 0 && predicted.energy_j < surprised.rows[0].energy_j);
    assert_eq!(surprised.recommended().unwrap().plan, "all-on");
    assert!(page::headline(&surprised, &asked).starts_with("Leave all 2 pools on"));
    let mut none = surprised;
    none.rows.iter_mut().for_each(|row| row.broken_epochs = 1);
    assert!(
        none.recommended().is_none()
            && page::headline(&none, &asked)
                .starts_with("Allow more time or promise less: no plan keeps 100 %")
    );
}
