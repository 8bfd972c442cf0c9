//! Tests defragmentation on traces with known results: files in scattered fragments that are read
//! over and over, and reads without any order to learn.

use forebay::defragment::{Defragmentation, study};
use forebay::devices;
use forebay::input::Input;
use forebay::progress::untold;
use forebay::simulate::{Bed, Replay, Setup};
use forebay_core::{Flags, Nanos, Op};
use forebay_trace::Record;

const KIB: u64 = 1024;
const GIB: u64 = 1 << 30;

fn read(at_ms: u64, offset: u64, len: u64) -> Record {
    Record {
        at: Nanos::from_millis(at_ms),
        offset,
        latency: Some(Nanos::from_millis(5)),
        len: len as u32,
        stream: 0,
        volume: 0,
        op: Op::Read,
        flags: Flags::NONE,
    }
}

/// Returns a pseudorandom address that depends only on `index`.
fn scattered(index: u64) -> u64 {
    index.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (100 * GIB) / (64 * KIB) * (64 * KIB)
}

/// Returns reads of a file of 200 scattered fragments, which is read from end to end `times` times,
/// with pauses of 5 s.
fn scans(times: u64) -> Vec<Record> {
    let scan =
        |time: u64| (0..200u64).map(move |n| read(time * 9_000 + n * 20, scattered(n), 64 * KIB));
    (0..times).flat_map(scan).collect()
}

fn studied(records: Vec<Record>, replay: Replay) -> Defragmentation {
    let input = Input::from_records(records, vec!["reader".into()]);
    let device = devices::open("st1000nm0011").unwrap();
    let setup = Setup { replay, ..Setup::default() };
    study(&input, Bed::of(&device), "noop", setup, &mut untold).unwrap()
}

#[test]
fn a_file_in_fragments_read_again_and_again_is_worth_defragmenting() {
    for replay in [Replay::Open, Replay::Closed] {
        let answer = studied(scans(30), replay);
        let held_out = answer.held_out.unwrap();
        assert!(answer.is_worth_while(), "{:?}", answer.told());
        assert_eq!((answer.learnt_requests, held_out.requests), (3000, 3000));
        assert_eq!(answer.moved_bytes, 200 * 64 * KIB);
        // In closed replay the pauses remain, and only the time of the last completion counts.
        let least = if replay == Replay::Open { 0.25 } else { 0.03 };
        assert!(held_out.gain_share > least, "{held_out:?}");
        assert!(held_out.read_p99_after_ms < held_out.read_p99_before_ms);
        // Moving a fragment, which is a read and a write, takes a few milliseconds.
        assert!((1.0..10.0).contains(&answer.cost_s), "{}", answer.cost_s);
        let moment = answer.best_moment.unwrap();
        assert!(moment.holds_all && (3.0..6.0).contains(&moment.at_s), "{moment:?}");
        // Most of the evaluated half comes after the moves.
        let with_moves = answer.with_moves.unwrap();
        assert!(with_moves.gain_share > 0.0 && with_moves.gain_share < held_out.gain_share);
        assert_eq!(answer.displaced_requests, 0);
        let pay_back_s = answer.pay_back_s.unwrap();
        assert!(pay_back_s > 0.0 && pay_back_s < held_out.span_s, "{pay_back_s}");
        let told = answer.told().join(" ");
        for part in ["not learnt from", "In-sample", "paid back after", "best moment"] {
            assert!(told.contains(part), "{part}: {told}");
        }
    }
}

/// The second half reads other files, so the learned arrangement gains nothing there, although it
/// gains a lot in the first half.
#[test]
fn a_gain_only_in_the_training_half_is_not_recommended() {
    let other = |record: Record| Record {
        at: record.at + Nanos::from_secs(270),
        offset: record.offset + 200 * GIB,
        ..record
    };
    let records = scans(30).into_iter().chain(scans(30).into_iter().map(other)).collect();
    let answer = studied(records, Replay::Open);
    assert!(answer.in_sample.unwrap().gain_share > 0.25, "{:?}", answer.told());
    assert!(answer.held_out.unwrap().gain_share.abs() < 0.01 && !answer.is_worth_while());
    assert!(answer.told()[0].contains("gains nothing that counts"), "{:?}", answer.told());
}

#[test]
fn without_an_order_that_comes_again_nothing_is_moved() {
    let random = (0..2000).map(|n| read(n * 20, scattered(n * n), 4 * KIB)).collect();
    let answer = studied(random, Replay::Open);
    assert_eq!((answer.moved_bytes, answer.held_out), (0, None));
    assert!(answer.told()[0].contains("Nothing to move"), "{:?}", answer.told());
    let few = studied(scans(1)[..20].to_vec(), Replay::Open);
    assert_eq!((few.learnt_requests, few.moved_bytes), (0, 0));
}
