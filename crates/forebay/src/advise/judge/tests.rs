use super::*;
use crate::advise::sample;

/// A run that works `busy_s` of 1000 s, with these tails.
fn run(busy_s: f64, read_p99_ms: f64, write_p99_ms: f64) -> RunResult {
    let mut run = sample::advice().runs[0].clone();
    let figures = &mut run.figures;
    (figures.busy_s, figures.makespan_s, figures.requests) = (busy_s, 1000.0, 5000);
    (figures.read_p99_ms, figures.write_p99_ms) = (Some(read_p99_ms), Some(write_p99_ms));
    figures.longest_wait_ms = 2.0 * read_p99_ms;
    run
}

fn said(flash: &RunResult, free: &RunResult, baseline: &RunResult) -> &'static str {
    against_flash(flash, free, baseline).unwrap_or("worth it")
}

#[test]
fn flash_has_to_beat_the_baseline_and_what_is_free() {
    let (noop, free) = (run(900.0, 100.0, 100.0), run(700.0, 400.0, 100.0));
    assert_eq!(said(&run(500.0, 90.0, 90.0), &free, &noop), "worth it");
    // Better than the scheduler in both, but its tail is worse than the baseline's.
    assert!(said(&run(500.0, 300.0, 90.0), &free, &noop).contains("slowest 1 % become slower"));
    // Better than the baseline in both, but no better than the scheduler in total.
    let calm = run(700.0, 95.0, 100.0);
    assert!(said(&run(690.0, 90.0, 90.0), &calm, &noop).contains("too little"));
    assert!(said(&run(500.0, 90.0, 130.0), &calm, &noop).contains("of writes become slower"));
    assert!(said(&run(800.0, 20.0, 90.0), &calm, &noop).contains("in total it takes longer"));
    assert_eq!(said(&run(700.0, 20.0, 90.0), &calm, &noop), "worth it");
}

#[test]
fn flash_is_not_for_idle_disks() {
    let noop = run(200.0, 30.0, 30.0);
    assert!(is_at_ease(&noop));
    let why = said(&run(10.0, 0.1, 0.1), &noop, &noop);
    assert!(why.contains("Nothing to gain") && why.contains("mostly idle"), "{why}");
    // Idle, but in bursts that make people wait.
    let bursts = run(200.0, 3000.0, 30.0);
    assert!(!is_at_ease(&bursts));
    assert_eq!(said(&run(10.0, 100.0, 30.0), &bursts, &bursts), "worth it");
    assert!(said(&run(10.0, 2900.0, 30.0), &bursts, &bursts).contains("little to do"));
    assert!(!is_at_ease(&run(600.0, 30.0, 30.0)));
}

#[test]
fn tails_of_a_few_requests_decide_nothing() {
    let (mut noop, flash) = (run(900.0, 100.0, 100.0), run(890.0, 10.0, 10.0));
    assert_eq!(said(&flash, &noop, &noop), "worth it");
    noop.figures.requests = REQUESTS_THAT_MATTER - 1;
    assert!(said(&flash, &noop, &noop).contains("too little"));
}
