use forebay_core::{Done, Flags, Nanos, Observer, Op, Request};

use super::*;
use crate::advise::drives::Drives;
use crate::advise::sensitivity::on_every_drive;
use crate::advise::{Verdict, default_flash, sample};
use crate::progress::unheard;
use crate::retrodict::tests::{input_of, records};
use crate::slices::Slices;
use crate::{Replay, Setup};

/// Returns a run with the given busy time and tail latencies, and its slices. Request `id` is a
/// read if `id` is even, and takes `took(id)` ms.
fn taking(
    policy: &str,
    (busy_s, read_ms, write_ms): (f64, f64, f64),
    took: impl Fn(u64) -> f64,
) -> (RunResult, Slices) {
    let mut result = sample::advice().runs[0].clone();
    // The replay is closed, so that both total time and tails count.
    (result.policy, result.replay) = (policy.to_string(), Replay::Closed);
    let figures = &mut result.figures;
    (figures.busy_s, figures.makespan_s) = (busy_s, busy_s);
    (figures.reads, figures.writes) = (2000, 2000);
    (figures.read_p99_ms, figures.write_p99_ms) = (Some(read_ms), Some(write_ms));
    let mut slices = Slices::default();
    for id in 0..4000 {
        let at = Nanos::from_millis(id);
        let op = if id % 2 == 0 { Op::Read } else { Op::Write };
        let (offset, len, stream, lane) = (0, 4096, 0, 0);
        let request = Request { at, offset, id, len, stream, lane, op, flags: Flags::NONE };
        slices.worked(Nanos::from_secs_f64(busy_s / 4000.0));
        let done = Done::at_once(request, Ok(()));
        slices.finished(at + Nanos::from_secs_f64(took(id) / 1e3), &done);
    }
    (result, slices)
}

/// Returns a run in which all reads take `read_ms` and all writes take `write_ms`.
fn run(policy: &str, busy_s: f64, read_ms: f64, write_ms: f64) -> (RunResult, Slices) {
    let took = |id| if id % 2 == 0 { read_ms } else { write_ms };
    taking(policy, (busy_s, read_ms, write_ms), took)
}

/// Returns whether request `id` belongs to the only burst.
fn is_burst(id: u64) -> bool {
    id / 100 == 7
}

/// Runs of different schedulers on the same trace.
struct Runs {
    results: Vec<RunResult>,
    resampled: Resampled,
}

impl Runs {
    fn of(runs: &[(RunResult, Slices)]) -> Runs {
        let slices: Vec<&Slices> = runs.iter().map(|run| &run.1).collect();
        let results = runs.iter().map(|run| run.0.clone()).collect();
        Runs { results, resampled: Resampled::of(&slices, 1) }
    }

    fn choice(&self, prefer: Prefer) -> Choice<'_> {
        Choice::new(&self.results, "none", &self.resampled, prefer)
    }
}

/// Returns the scheduler chosen from all runs, and the one chosen from those in Linux.
fn chosen(runs: &[(RunResult, Slices)], prefer: Prefer) -> (String, Option<String>) {
    let runs = Runs::of(runs);
    let choice = runs.choice(prefer);
    (choice.best().unwrap().to_string(), choice.today().map(str::to_string))
}

#[test]
fn the_preference_chooses_among_unbeaten_schedulers() {
    let runs = [
        run("none", 400.0, 100.0, 100.0),
        run("mq-deadline", 390.0, 50.0, 200.0),
        run("bfq", 410.0, 80.0, 80.0),
        run("own", 200.0, 90.0, 90.0),
        run("forebay", 300.0, 95.0, 95.0),
    ];
    let of = |prefer| chosen(&runs, prefer);
    assert_eq!(of(Prefer::Total).0, "own");
    assert_eq!(of(Prefer::Reads), ("mq-deadline".into(), Some("mq-deadline".into())));
    assert_eq!(of(Prefer::Writes), ("bfq".into(), Some("bfq".into())));
    assert_eq!(of(Prefer::Balance), ("own".into(), Some("bfq".into())));
}

#[test]
fn the_simplest_of_equal_schedulers_is_chosen() {
    let runs = [
        run("none", 400.0, 100.0, 100.0),
        run("mq-deadline", 396.0, 99.0, 99.0),
        run("forebay", 392.0, 98.5, 98.5),
    ];
    assert_eq!(chosen(&runs, Prefer::Balance), ("none".into(), Some("none".into())));
    let runs = [
        run("none", 400.0, 100.0, 100.0),
        run("deadline", 300.0, 51.0, 51.0),
        run("mq-deadline", 301.0, 50.5, 50.5),
        run("forebay", 299.0, 50.0, 50.0),
    ];
    assert_eq!(chosen(&runs, Prefer::Balance), ("mq-deadline".into(), Some("mq-deadline".into())));
}

/// Slow reads in a tenth of the trace are in nearly every resample. A scheduler that is better only
/// there is not recommended.
#[test]
fn a_gain_in_only_one_tenth_of_the_trace_is_not_recommended() {
    let reads = |slow_ms: f64, calm_ms: f64, episodes: u64| {
        move |id: u64| match id {
            id if id % 2 == 1 => 50.0,
            id if id % (4000 / episodes) / 2 >= 240 && id % (4000 / episodes) / 2 < 390 => slow_ms,
            _ => calm_ms,
        }
    };
    let best = |episodes| {
        let runs = [
            taking("none", (400.0, 500.0, 50.0), reads(500.0, 50.0, episodes)),
            taking("mq-deadline", (400.0, 100.0, 50.0), reads(100.0, 50.0, episodes)),
        ];
        chosen(&runs, Prefer::Balance).0
    };
    assert_eq!((best(1), best(2)), ("none".to_string(), "mq-deadline".to_string()));
}

#[test]
fn removed_schedulers_are_shown_but_not_recommended() {
    let runs = [
        run("none", 400.0, 100.0, 100.0),
        run("anticipatory", 200.0, 50.0, 50.0),
        run("mq-deadline", 300.0, 80.0, 80.0),
        run("own", 250.0, 60.0, 60.0),
    ];
    assert_eq!(chosen(&runs, Prefer::Balance), ("own".into(), Some("mq-deadline".into())));
    let runs = Runs::of(&runs);
    let choice = runs.choice(Prefer::Balance);
    let why = |policy| choice.passed_over(policy, "own").unwrap().to_string();
    assert_eq!(why("anticipatory"), "no longer available");
    assert_eq!(why("mq-deadline"), "beaten by own: read p99 80.0 ms against 60.0 ms");
    assert!(choice.extremes("mq-deadline").iter().all(|(_, policy, _)| *policy == "own"));
}

/// Returns a run whose reads are slow only in one burst.
fn bursty(policy: &str, busy_s: f64, read_ms: f64, write_ms: f64) -> (RunResult, Slices) {
    let took = |id| match id % 2 {
        0 if is_burst(id) => read_ms,
        0 => 1.0,
        _ => write_ms,
    };
    taking(policy, (busy_s, read_ms, write_ms), took)
}

/// A single burst determines the tail of reads, so some resamples do not contain it. A scheduler
/// whose tail is three times worse in that burst must neither count as unharmed nor be chosen for
/// being in Linux.
#[test]
fn schedulers_that_may_be_worse_are_not_chosen() {
    let runs = [
        bursty("none", 400.0, 3900.0, 197.0),
        bursty("mq-deadline", 400.0, 11_600.0, 129.0),
        bursty("own", 400.0, 3300.0, 137.0),
    ];
    assert_eq!(chosen(&runs, Prefer::Balance), ("own".into(), Some("none".into())));
    let runs = Runs::of(&runs);
    let choice = runs.choice(Prefer::Balance);
    let why = choice.passed_over("mq-deadline", "own").unwrap().to_string();
    // Both runs take 400 s, so the message omits the total time.
    assert!(why.starts_with("apparently worse than own: read p99"), "{why}");
}

#[test]
fn flash_whose_gain_may_be_due_to_chance_is_marked() {
    let runs = [
        bursty("bid-hybrid", 400.0, 2300.0, 100.0),
        bursty("none", 400.0, 39_000.0, 100.0),
        bursty("own", 400.0, 39_000.0, 100.0),
    ];
    let runs = Runs::of(&runs);
    let why = runs.choice(Prefer::Reads).against_flash(2).unwrap().why;
    let said = "Not worth flash: it is not significantly better than none (read p99 2.30 s";
    assert!(why.starts_with(said), "{why}");
}

#[test]
fn tails_of_a_few_requests_decide_nothing_and_total_does_not_where_the_disk_keeps_up() {
    let mut runs = [run("none", 400.0, 100.0, 100.0), run("bfq", 400.0, 10.0, 100.0)];
    assert_eq!(chosen(&runs, Prefer::Balance).0, "bfq");
    runs.iter_mut().for_each(|run| run.0.figures.reads = 42);
    assert_eq!(chosen(&runs, Prefer::Balance).0, "none");
    let mut runs = [run("none", 400.0, 100.0, 100.0), run("bfq", 200.0, 100.0, 100.0)];
    assert_eq!(chosen(&runs, Prefer::Balance).0, "bfq");
    runs.iter_mut().for_each(|run| run.0.replay = Replay::Open);
    assert_eq!(chosen(&runs, Prefer::Balance).0, "none");
    assert_eq!(chosen(&runs, Prefer::Total).0, "bfq");
}

/// In an overloaded open replay, latencies measure the backlog, so tails do not count. In other
/// replays they count unless they are so long that a backlog grows although requests wait.
#[test]
fn tails_of_an_overloaded_disk_count_where_requests_wait_for_answers() {
    let overloaded = |policy, replay, reads_ms| {
        let mut run = run(policy, 400.0, reads_ms, 100.0);
        (run.0.replay, run.0.figures.lagging_share) = (replay, 0.5);
        run
    };
    for (replay, best) in [(Replay::Open, "none"), (Replay::Dependent, "bfq")] {
        let runs = [overloaded("none", replay, 100.0), overloaded("bfq", replay, 10.0)];
        assert_eq!(chosen(&runs, Prefer::Balance).0, best);
        let runs = [overloaded("none", replay, 80e3), overloaded("bfq", replay, 30e3)];
        assert_eq!(chosen(&runs, Prefer::Balance).0, "none");
    }
}

/// A scheduler that is better in only one of the replays is not chosen, and the disagreement is
/// reported.
#[test]
fn both_replays_have_to_agree() {
    let of = |replay, bfq_ms, kyber_ms| {
        let mut runs = [
            run("none", 400.0, 100.0, 100.0),
            run("bfq", 400.0, bfq_ms, 100.0),
            run("kyber", 400.0, kyber_ms, 100.0),
        ];
        runs.iter_mut().for_each(|run| run.0.replay = replay);
        Runs::of(&runs)
    };
    let under = |open: &Runs, dependent: &Runs| {
        let other = dependent.choice(Prefer::Balance);
        let choice = open.choice(Prefer::Balance).agreeing(&other);
        let best = choice.best().unwrap().to_string();
        (best, choice.today().unwrap().to_string(), choice.is_disputed())
    };
    let (open, dependent) = (Replay::Open, Replay::Dependent);
    let told = |best: &str, disputed| (best.to_string(), best.to_string(), disputed);
    // Both replays choose bfq, so there is no dispute.
    assert_eq!(under(&of(open, 10.0, 50.0), &of(dependent, 10.0, 50.0)), told("bfq", false));
    // Each replay by itself chooses a different scheduler, but kyber beats the baseline in both.
    assert_eq!(under(&of(open, 10.0, 50.0), &of(dependent, 120.0, 50.0)), told("kyber", false));
    // A scheduler beats the baseline in only one of the replays.
    assert_eq!(under(&of(open, 10.0, 100.0), &of(dependent, 100.0, 100.0)), told("none", true));
    assert_eq!(under(&of(open, 100.0, 100.0), &of(dependent, 10.0, 100.0)), told("none", true));
    assert_eq!(under(&of(open, 100.0, 100.0), &of(dependent, 100.0, 100.0)), told("none", false));
}

/// Noise in the write tail does not hide an improvement in total time and reads.
#[test]
fn a_noisy_tail_hides_no_gain() {
    let noisy = |policy, busy_s, read_ms, write_ms| {
        let took = |id| match id % 2 {
            0 => read_ms,
            _ if is_burst(id) => write_ms,
            _ => 1.0,
        };
        taking(policy, (busy_s, read_ms, write_ms), took)
    };
    let runs = [noisy("none", 359.0, 221.0, 100.0), noisy("clook", 320.0, 183.0, 128.0)];
    assert_eq!(chosen(&runs, Prefer::Balance).0, "clook");
    // Each scheduler is better in one figure, so the baseline stays.
    let runs = [run("none", 359.0, 221.0, 100.0), run("clook", 320.0, 183.0, 128.0)];
    assert_eq!(chosen(&runs, Prefer::Balance).0, "none");
}

/// A gain in one figure does not pay for a loss of a third in another, unless the user prefers it.
#[test]
fn a_scheduler_that_harms_a_figure_is_chosen_only_by_preference() {
    let with = |reads_ms, replay| {
        let runs = [run("none", 75.0, 177.0, 105.0), run("mq-deadline", 75.0, reads_ms, 60.0)];
        runs.map(|(result, slices)| (RunResult { replay, ..result }, slices))
    };
    let harmful = with(252.0, Replay::Open);
    assert_eq!(chosen(&harmful, Prefer::Balance).0, "none");
    assert_eq!(chosen(&harmful, Prefer::Writes).0, "mq-deadline");
    assert_eq!(chosen(&with(182.0, Replay::Open), Prefer::Balance).0, "mq-deadline");
    // If requests wait for one another, the whole time counts.
    assert_eq!(chosen(&with(252.0, Replay::Closed), Prefer::Balance).0, "mq-deadline");
}

/// A clock that steps by 6.55 ms does not show a difference of 1.5 ms.
#[test]
fn gains_below_the_step_of_the_clock_do_not_count() {
    let runs = [run("none", 80.0, 16.2, 9.72), run("mq-deadline", 80.0, 16.0, 8.25)];
    let runs = Runs::of(&runs);
    let best = |step_ms| runs.choice(Prefer::Balance).with_clock_step(step_ms).best();
    assert_eq!([0.0, 1.0, 6.55].map(best), ["mq-deadline", "mq-deadline", "none"].map(Some));
}

/// Among equally good schedulers, one that beats the baseline is chosen over a simpler one.
#[test]
fn a_scheduler_better_in_all_figures_beats_a_simpler_one() {
    let runs = [
        run("none", 395.0, 96.0, 114.0),
        run("clook", 374.0, 107.0, 59.6),
        run("forebay", 377.0, 57.9, 105.0),
    ];
    assert_eq!(chosen(&runs, Prefer::Balance), ("forebay".into(), Some("none".into())));
    assert_eq!(chosen(&runs, Prefer::Writes).0, "clook");
}

#[test]
fn each_scheduler_passed_over_has_a_reason() {
    let runs = [
        run("none", 400.0, 100.0, 100.0),
        run("mq-deadline", 390.0, 50.0, 200.0),
        run("own", 200.0, 90.0, 90.0),
        run("forebay", 201.0, 90.5, 90.5),
    ];
    let runs = Runs::of(&runs);
    let choice = runs.choice(Prefer::Balance);
    let why = |policy| choice.passed_over(policy, "own").unwrap().to_string();
    assert_eq!(why("none"), "beaten by own: total time 400 s against 200 s");
    assert_eq!(
        why("mq-deadline"),
        "better than own in one figure, worse in another: total time 390 s against 200 s"
    );
    assert_eq!(why("forebay"), "is not significantly different from own");
    assert_eq!(choice.passed_over("own", "own"), None);
    let best: Vec<_> =
        choice.extremes("own").into_iter().map(|(prefer, policy, _)| (prefer, policy)).collect();
    let (total, reads) = ((Prefer::Total, "own"), (Prefer::Reads, "mq-deadline"));
    assert_eq!(best, [total, reads, (Prefer::Writes, "own"), (Prefer::Balance, "own")]);
}

#[test]
fn flash_has_to_be_a_tenth_better_than_the_baseline_and_free_remedies() {
    let said = |flash: (f64, f64, f64), free: (f64, f64, f64)| {
        let of = |name, (busy_s, read_ms, write_ms)| run(name, busy_s, read_ms, write_ms);
        let runs = [of("cache", flash), of("none", (900.0, 100.0, 100.0)), of("own", free)];
        let runs = Runs::of(&runs);
        let why = runs.choice(Prefer::Balance).against_flash(2);
        why.map_or("worth it".to_string(), |one| one.why)
    };
    assert_eq!(said((500.0, 90.0, 90.0), (800.0, 90.0, 90.0)), "worth it");
    let why = said((500.0, 400.0, 90.0), (800.0, 90.0, 90.0));
    assert!(
        why.contains("read p99 rises compared with none (read p99 400 ms against 100 ms)"),
        "{why}"
    );
    assert!(said((780.0, 85.0, 85.0), (800.0, 90.0, 90.0)).contains("better than own"));
    // Halving the total time and the write tail does not make up for slower reads.
    let why = said((400.0, 95.0, 45.0), (800.0, 90.0, 90.0));
    assert_eq!(
        why,
        "Not worth flash: read p99 rises compared with own (read p99 95.0 ms against 90.0 ms)"
    );
}

/// Flash is compared with a scheduler that no other beats, even if a different one is chosen.
#[test]
fn flash_is_compared_with_all_unbeaten_schedulers() {
    let said = |rival: (f64, f64, f64)| {
        let of = |name, (busy_s, read_ms, write_ms)| run(name, busy_s, read_ms, write_ms);
        let flat = (400.0, 100.0, 100.0);
        let runs = [
            of("cache", (330.0, 90.0, 90.0)),
            of("none", flat),
            of("none", flat),
            of("clook", rival),
        ];
        let runs = Runs::of(&runs);
        runs.choice(Prefer::Balance).against_flash(2).map(|one| one.why)
    };
    assert_eq!(said((400.0, 110.0, 110.0)), None);
    let why = said((330.0, 85.0, 100.0)).unwrap();
    let expected =
        "Not worth flash: it is less than 10 % better than clook, all figures together (total time";
    assert!(why.starts_with(expected), "{why}");
}

/// Preferences such as Prefer::Reads accept losses in other figures; Prefer::Balance does not.
#[test]
fn the_replacement_of_the_baseline_is_chosen_by_the_preference() {
    let runs = Runs::of(&[
        run("none", 400.0, 100.0, 100.0),
        run("shallow", 404.0, 50.0, 99.0),
        run("shallower", 399.0, 70.0, 99.0),
        run("worse", 300.0, 100.0, 140.0),
    ]);
    let best = |prefer| runs.choice(prefer).best_over_baseline().map(|it| &*it.policy);
    assert_eq!(best(Prefer::Balance), Some("shallow"));
    assert_eq!(best(Prefer::Reads), Some("shallow"));
    assert_eq!(best(Prefer::Total), Some("worse"));
    assert_eq!(best(Prefer::Writes), Some("shallow"));
    let two = Runs::of(&[run("none", 400.0, 100.0, 100.0), run("worse", 300.0, 100.0, 140.0)]);
    assert!(two.choice(Prefer::Balance).best_over_baseline().is_none());
    assert!(two.choice(Prefer::Total).best_over_baseline().is_some());
}

/// Flash may worsen a figure in which some scheduler is best, if that scheduler is neither the
/// chosen one nor the baseline.
#[test]
fn flash_is_spared_the_best_figure_of_every_rival() {
    let of = |name, (busy_s, read_ms, write_ms)| run(name, busy_s, read_ms, write_ms);
    let flat = (400.0, 100.0, 100.0);
    let runs = [
        of("cache", (330.0, 90.0, 90.0)),
        of("none", flat),
        of("none", flat),
        of("own", (500.0, 80.0, 110.0)),
    ];
    let runs = Runs::of(&runs);
    let choice = runs.choice(Prefer::Balance);
    assert_eq!(choice.against_flash(2), None);
    let why = choice.against_flash(3).unwrap().why;
    assert!(why.starts_with("Not worth flash: read p99 rises compared with own"), "{why}");
}

/// A simple scheduler is not chosen if it is more than a tenth worse than the best, even if the
/// difference may be chance.
#[test]
fn a_simple_scheduler_has_to_be_within_a_tenth() {
    let chosen_at = |read_ms| {
        let runs = [
            bursty("none", 400.0, 10_000.0, 200.0),
            bursty("mq-deadline", 400.0, read_ms, 100.0),
            bursty("own", 400.0, 3300.0, 100.0),
        ];
        chosen(&runs, Prefer::Reads).0
    };
    assert_eq!(chosen_at(3500.0), "mq-deadline");
    assert_eq!(chosen_at(3900.0), "own");
}

/// If the drive is uncertain, another scheduler or none is chosen, and the reason is reported.
#[test]
fn schedulers_not_better_on_every_drive_are_not_chosen() {
    let runs = Runs::of(&[
        run("none", 100.0, 100.0, 100.0),
        run("mq-deadline", 100.0, 50.0, 100.0),
        run("kyber", 100.0, 70.0, 100.0),
    ]);
    let there = |total: f64, reads: f64, writes: f64| Sensitivity {
        part: String::new(),
        with: "a catch margin of 0 ms".to_string(),
        baseline_total_s: 1.0,
        total_s: 1.0,
        gain_share: total,
        read_p99_gain_share: Some(reads),
        write_p99_gain_share: Some(writes),
    };
    let choice = runs.choice(Prefer::Balance);
    assert_eq!(choice.best(), Some("mq-deadline"));
    assert!(choice.holds("mq-deadline", &there(0.0, 0.01, -0.02)));
    // On the other drive, the gain turns into a loss, or another figure gets worse.
    assert!(!choice.holds("mq-deadline", &there(0.0, -0.01, 0.0)));
    assert!(!choice.holds("mq-deadline", &there(0.0, 0.4, -0.04)));
    assert!(choice.holds("none", &there(0.0, 0.0, 0.0)));
    let choice = choice.without("mq-deadline");
    assert_eq!((choice.best(), choice.is_unsure()), (Some("kyber"), true));
    let why = |choice: &Choice<'_>, policy| choice.passed_over(policy, "kyber").unwrap();
    assert_eq!(why(&choice, "mq-deadline"), PassedOver::Unsure);
    let choice = choice.without("kyber");
    assert_eq!((choice.best(), choice.today()), (Some("none"), Some("none")));
    let need = crate::advise::need::Need::of(choice.baseline(), 100.0, None, false);
    let (verdict, recommended) = crate::advise::judge::scheduler(&choice, 100.0, &need);
    assert_eq!((verdict, recommended.as_deref()), (Verdict::DependsOnDrive, Some("none")));
}

/// Returns the scheduler chosen, given the runs on the assumed drive and those on the drives at
/// both ends of the uncertain range.
fn chosen_on_every_drive(
    leading: &[(RunResult, Slices)],
    other: &[(RunResult, Slices)],
    elsewhere: &[[(RunResult, Slices); 2]],
) -> (String, Vec<(String, bool)>) {
    let (device, flash) = (crate::devices::open("sata250").unwrap(), default_flash().unwrap());
    let input = input_of(records(300, 9_000));
    let drives = Drives::of(&input, &device, &flash);
    for of_both in elsewhere {
        of_both.iter().enumerate().for_each(|(at, (run, _))| drives.keep(at, run));
    }
    let (leading, other) = (Runs::of(leading), Runs::of(other));
    let of_other = other.choice(Prefer::Balance);
    let choice = leading.choice(Prefer::Balance).agreeing(&of_other);
    let closed = Setup { replay: Replay::Closed, ..Setup::default() };
    let dependent = Setup { replay: Replay::Dependent, ..closed };
    let other = Some((&of_other, dependent));
    let (choice, unsure) = on_every_drive(&drives, choice, closed, other, 2, &mut unheard).unwrap();
    let unsure = unsure.into_iter().map(|one| (one.policy, one.how.is_some())).collect();
    (choice.best().unwrap().to_string(), unsure)
}

#[test]
fn recommendations_gain_on_every_drive_in_both_replays() {
    let dependent = |(run, slices): (RunResult, Slices)| {
        (RunResult { replay: Replay::Dependent, ..run }, slices)
    };
    let both = |policy: &str, s: f64| [0, 1].map(|_| run(policy, s, s / 4.0, s / 4.0));
    let other = |policy: &str, s: f64| both(policy, s).map(dependent);
    let leading = [run("none", 400.0, 100.0, 100.0), run("clook", 300.0, 75.0, 75.0)];
    let elsewhere = |clook_s: [f64; 2], waiting_s: [f64; 2]| {
        let run = |policy: &str, s: f64| run(policy, s, s / 4.0, s / 4.0);
        let waits = |policy: &str, s: f64| {
            let (result, slices) = run(policy, s);
            (RunResult { replay: Replay::Dependent, ..result }, slices)
        };
        let known = [
            both("none", 400.0),
            clook_s.map(|s| run("clook", s)),
            other("none", 400.0),
            waiting_s.map(|s| waits("clook", s)),
        ];
        let there = leading.clone().map(dependent);
        chosen_on_every_drive(&leading, &there, &known)
    };
    assert_eq!(elsewhere([380.0, 250.0], [390.0, 300.0]), ("clook".to_string(), vec![]));
    let unsure = |how| vec![("clook".to_string(), how)];
    assert_eq!(elsewhere([380.0, 410.0], [390.0, 300.0]), ("none".to_string(), unsure(false)));
    // The gain holds in the leading replay, but not in the one where requests wait for responses.
    assert_eq!(elsewhere([380.0, 250.0], [420.0, 300.0]), ("none".to_string(), unsure(true)));
}

#[test]
fn flash_gains_on_every_drive_too() {
    let against = |cache: (f64, f64, f64), free: (f64, f64, f64)| {
        let of = |policy: &str, (s, read_ms, write_ms)| run(policy, s, read_ms, write_ms).0;
        let results = [of("cache", cache), run("none", 400.0, 100.0, 100.0).0, of("clook", free)];
        let resampled = Resampled::of(&[], 1);
        Choice::new(&results, "none", &resampled, Prefer::Balance).against_first()
    };
    let free = (390.0, 95.0, 95.0);
    assert_eq!(against((300.0, 90.0, 90.0), free), None);
    // Flash is rejected if it is no better than the free alternative, or better but with a worse
    // tail.
    let Objection { why, in_short, .. } = against((395.0, 96.0, 96.0), free).unwrap();
    assert_eq!(in_short, "the gain depends on the drive");
    assert!(why.contains("395 s against 390 s") && why.ends_with("under clook"), "{why}");
    let Objection { why, in_short, .. } = against((200.0, 110.0, 50.0), free).unwrap();
    assert_eq!(in_short, "read p99 may rise, depending on the drive");
    assert!(why.contains("read p99 110 ms against 100 ms") && why.ends_with("under none"), "{why}");
}

#[test]
fn the_runner_up_follows_the_preference() {
    let runs = Runs::of(&[
        run("none", 100.0, 10.0, 10.0),
        run("bfq", 400.0, 100.0, 90.0),
        run("kyber", 390.0, 110.0, 100.0),
    ]);
    let nearest = |prefer| runs.choice(prefer).nearest_other().unwrap().policy.as_str();
    assert_eq!(nearest(Prefer::Balance), "bfq");
    assert_eq!(nearest(Prefer::Total), "kyber");
}

#[test]
fn more_flash_has_to_be_better_by_a_tenth_again() {
    let is_worth = |more: (f64, f64, f64)| {
        let less = run("bid-hybrid", 400.0, 100.0, 100.0);
        let (busy_s, read_ms, write_ms) = more;
        let none = run("none", 500.0, 150.0, 150.0);
        let runs = Runs::of(&[run("cache", busy_s, read_ms, write_ms), less, none]);
        runs.choice(Prefer::Balance).is_worth_more_flash()
    };
    assert!(is_worth((350.0, 89.0, 89.0)));
    assert!(!is_worth((380.0, 95.0, 95.0)));
    assert!(!is_worth((450.0, 110.0, 110.0)));
}

#[test]
fn any_difference_is_distinguished_from_a_difference_among_linux_schedulers() {
    let differs = |others: &[(RunResult, Slices)]| {
        let all: Vec<_> =
            [run("none", 400.0, 100.0, 100.0)].iter().chain(others).cloned().collect();
        let runs = Runs::of(&all);
        let choice = runs.choice(Prefer::Balance);
        (choice.differs(), choice.differs_today())
    };
    let same = run("mq-deadline", 399.0, 99.0, 101.0);
    assert_eq!(differs(std::slice::from_ref(&same)), (false, false));
    assert_eq!(differs(&[same.clone(), run("own", 400.0, 80.0, 100.0)]), (true, false));
    assert_eq!(differs(&[same.clone(), run("kyber", 400.0, 130.0, 100.0)]), (true, true));
    assert_eq!(differs(&[same, run("anticipatory", 300.0, 80.0, 80.0)]), (false, false));
}

#[test]
fn totals_are_taken_to_be_as_much_longer_as_the_devices_work() {
    let run = |replay, busy_s, makespan_s| {
        let mut run = sample::advice().runs[0].clone();
        run.replay = replay;
        (run.figures.busy_s, run.figures.makespan_s) = (busy_s, makespan_s);
        run
    };
    let scale = |replay| total_scale(&run(replay, 50.0, 90.0), &run(replay, 100.0, 100.0));
    // Here half the busy time means a tenth less total time. Extrapolated, 0.4 to 0.6 of the busy
    // time means 0.72 to 1.08 of the total time.
    assert!((scale(Replay::Closed) - 1.8).abs() < 1e-9);
    assert!((scale(Replay::Open) - 1.0).abs() < 1e-9);
}

/// Regression test: `simulate` saw no difference in a mean read latency twice as high.
#[test]
fn means_and_medians_count_in_a_standing() {
    let with = |policy: &str, read_ms: f64| {
        let took = |id| if id % 2 == 0 { read_ms } else { 100.0 };
        let (mut result, slices) = taking(policy, (10.0, 100.0, 100.0), took);
        (result.figures.read_mean_ms, result.figures.read_p50_ms) = (Some(read_ms), Some(read_ms));
        (result, slices)
    };
    // Its writes are 4 % slower, which may be chance.
    let mut traded = with("traded", 24.0);
    traded.0.figures.write_mean_ms = traded.0.figures.write_mean_ms.map(|ms| ms * 1.04);
    assert!(traded.0.figures.write_mean_ms.is_some());
    let all =
        [with("noop", 50.0), with("half", 25.0), with("twice", 99.0), with("near", 48.0), traded];
    let runs = Runs::of(&all);
    let choice = Choice::new(&runs.results, "noop", &runs.resampled, Prefer::Balance);
    use RunStanding::{Alike, Baseline, Better, Mixed, Worse};
    let standings = [0, 1, 2, 3, 4].map(|run| choice.standing(run));
    assert_eq!(standings, [Baseline, Better, Worse, Alike, Mixed]);
    let best = choice.best_in_standing().unwrap();
    assert_eq!(best.policy, "half");
    let gains = choice.gains(best);
    assert_eq!(gains, "read mean 25.0 ms against 50.0 ms, read median 25.0 ms against 50.0 ms");
}
