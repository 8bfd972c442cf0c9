//! Tests the paper's claims about shaping on the beginning of its own trace, and the results of
//! `simulate` for classes and servers. Skipped if the trace is not available.

use forebay::devices;
use forebay::input::Input;
use forebay::plan::capacity::Promises;
use forebay::plan::devices::{Question, table};
use forebay::progress::{unheard, untold};
use forebay::simulate::{RunResult, Setup, run};
use forebay_core::{Flags, Nanos, Op};
use forebay_testing::recorded;
use forebay_trace::Record;
use forebay_trace::streams::StreamBy;

const WEBSEARCH: &str = "spc/WebSearch1.prefix.rewritten.spc.zst";

fn websearch() -> Option<Input> {
    let path = recorded(WEBSEARCH)?;
    Some(Input::read(&path, None, StreamBy::Thread, &mut untold).unwrap())
}

fn simulated(input: &Input, device: &str, policy: &str) -> RunResult {
    run(input, &devices::open(device).unwrap(), policy, Setup::default()).unwrap().result
}

/// Returns for a class the number of requests answered within its bound, the number of all its
/// requests, and its mean response time in ms.
fn class(run: &RunResult, name: &str) -> (u64, u64, f64) {
    let class = run.figures.classes.iter().find(|class| class.class == name).unwrap();
    (class.within_bound, class.requests, class.mean_ms.unwrap())
}

/// `cmin` is the answer of `plan capacity` for 90 % and 95 % within 50 ms; delta-C is 1/50 ms.
#[test]
fn the_papers_claims_hold_on_the_start_of_websearch1() {
    let Some(input) = websearch() else { return };
    for (cmin, share) in [(395u64, 0.90), (429, 0.95)] {
        let server = format!("fixed:{}", cmin + 20);
        let ran = |policy: &str| simulated(&input, &server, policy);
        let parameters = format!("cmin={cmin}:delta-ms=50:dependencies=no");
        let split = ran(&format!("split:{parameters}"));
        let (within, promised, _) = class(&split, "q1");
        assert_eq!(within, promised, "what RTT promises is kept by a server of its own");
        assert!(promised as f64 >= share * split.figures.requests as f64);

        let (within, all, _) = class(&ran("fcfs:delta-ms=50"), "all");
        assert!((within as f64) < 0.5 * share * all as f64, "FCFS meets {within} of {all}");

        let miser = ran(&format!("miser:{parameters}"));
        let (within, all, _) = class(&miser, "all");
        assert!(within as f64 > (share - 0.02) * all as f64, "Miser meets {within} of {all}");
        let (within, promised, _) = class(&miser, "q1");
        assert_eq!(within, promised, "what Miser admits by length is never late");
        let mean = class(&miser, "q2").2;
        for fair in ["wf2q", "sfq"] {
            let fair = ran(&format!("{fair}:{parameters}"));
            let (of_fair, of_split) = (class(&fair, "q2").2, class(&split, "q2").2);
            assert!(mean < of_fair && 2.0 * of_fair < of_split, "{mean} {of_fair} {of_split}");
        }
    }
}

/// Returns `count` requests that arrive at once, at offsets 1 MiB apart.
fn burst(count: u64) -> Input {
    let record = |at: u64| Record {
        at: Nanos::ZERO,
        offset: at << 20,
        latency: None,
        len: 4096,
        stream: 0,
        volume: 0,
        op: Op::Read,
        flags: Flags::NONE,
    };
    Input::from_records((0..count).map(record).collect(), vec!["a".into()])
}

#[test]
fn split_divides_a_server_and_doubles_a_disk() {
    // The first part serves 100 requests per second, so three of ten are answered within 30 ms. The
    // others take seven service times at 50 per second.
    let run = simulated(&burst(10), "fixed:150", "split:cmin=100:delta-ms=30:delta-c=50");
    assert_eq!((run.devices.len(), class(&run, "q1").0, class(&run, "q2").1), (2, 3, 7));
    assert_eq!(run.figures.makespan_s, 0.14);
    assert!((run.figures.busy_s - 0.17).abs() < 1e-9);
    // On a server twice as fast, both parts have twice the rate.
    let run = simulated(&burst(10), "fixed:300", "split:cmin=100:delta-ms=30:delta-c=50");
    // Service times are rounded to whole nanoseconds, so allow a small difference.
    assert!((run.figures.makespan_s - 0.07).abs() < 1e-7);
    let run = simulated(&burst(10), "sata250", "split:cmin=100:delta-ms=30:delta-c=50");
    assert_eq!((run.devices.len(), run.figures.unfinished), (2, 0));
}

#[test]
fn schedulers_have_no_classes_and_one_device() {
    let run = simulated(&burst(2), "sata250", "noop");
    assert!(run.figures.classes.is_empty() && run.devices.len() == 1);
}

#[test]
fn counting_devices_refuses_a_policy_that_needs_two() {
    let promises = Promises { within: vec![Nanos(1)], fractions: vec!["1".parse().unwrap()] };
    let device = devices::open("fixed:100").unwrap();
    let question = Question {
        policy: "split:cmin=100",
        promises: &promises,
        devices_max: 2,
        price_each: None,
        trust_times: false,
    };
    let refused = table(&burst(1), &device, &question, &mut unheard).unwrap_err();
    assert!(refused.to_string().contains("several servers"), "{refused}");
}
