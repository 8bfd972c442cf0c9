//! Tests of defragmentation on other drives and in other replay modes.

use forebay_core::{Flags, Nanos, Op};
use forebay_trace::Record;

use super::*;
use crate::Replay;
use crate::devices::open;
use crate::progress::untold;

/// Returns 200 scattered fragments, which are read from end to end thirty times.
fn scans() -> Input {
    let read = |time: u64, n: u64| Record {
        at: Nanos::from_millis(time * 9_000 + n * 20),
        offset: ((n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (100 << 30)) >> 16) << 16,
        latency: Some(Nanos::from_millis(5)),
        len: 64 << 10,
        stream: 0,
        volume: 0,
        op: Op::Read,
        flags: Flags::NONE,
    };
    let all = (0..30).flat_map(|time| (0..200).map(move |n| read(time, n))).collect();
    Input::from_records(all, vec!["reader".into()])
}

#[test]
fn a_gain_is_told_of_each_drive_and_replay_until_one_gains_nothing() {
    let (input, open_replay) = (scans(), Setup::default());
    let waiting = Setup { replay: Replay::Dependent, ..open_replay };
    let (disk, flash) = (open("sata250").unwrap(), open("d7-p5520").unwrap());
    let margins = disk.at_margins();
    let beds: Vec<(Bed<'_>, Setup)> = margins
        .iter()
        .flat_map(|varied| [open_replay, waiting].map(|setup| (Bed::of(&varied.device), setup)))
        .collect();
    let effects = elsewhere(&input, "noop", &beds, &mut untold).unwrap();
    assert_eq!(effects.len(), 4);
    assert!(effects.iter().all(Effect::is_gain), "{effects:?}");
    // The result on another drive equals that of a study on that drive.
    let studied = study(&input, beds[2].0, "noop", beds[2].1, &mut untold).unwrap();
    assert_eq!(studied.held_out.unwrap().total_after_s, effects[2].total_after_s);
    // On flash nothing moves, so nothing is gained, and the test beds after flash are not
    // evaluated.
    let beds = [beds[0], (Bed::of(&flash), open_replay), beds[1]];
    let effects = elsewhere(&input, "noop", &beds, &mut untold).unwrap();
    assert_eq!(effects.iter().map(Effect::is_gain).collect::<Vec<_>>(), [true, false]);
    let slower = Effect { read_p99_after_ms: Some(99.0), ..effects[0] };
    assert!(!slower.is_gain() && slower.gain_share > 0.0);
}
