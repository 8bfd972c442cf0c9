//! Tests `play`. No test depends on the speed of the machine.

use std::fs;

use forebay::verb::answer;
use forebay_ask::Spelling;
use forebay_play::PlayAsk;

use super::{Quiet, answered, asked};

/// Creates a trace of forty requests of 4 KiB, one per millisecond, every third of which is a
/// write.
fn trace(folder: &tempfile::TempDir) -> String {
    let mut text = "time_ms,op,offset,len\n".to_string();
    for n in 0..40 {
        let op = if n % 3 == 0 { "write" } else { "read" };
        text += &format!("{n},{op},{},4096\n", n * 7919 % 512 * 4096);
    }
    let path = folder.path().join("trace.csv");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_string()
}

#[test]
fn a_run_says_how_fast_its_target_was() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, disk) = (trace(&folder), folder.path().join("disk"));
    let found = answered::<PlayAsk>(&[("trace", &*trace), ("target", disk.to_str().unwrap())]);
    assert_eq!((&found.data["requests"], &found.data["ios_failed"]), (&40.into(), &0.into()));
    assert_eq!(found.data["trace"], *trace);
    assert_eq!(found.failure, None);
    let latencies = &found.page.sections[0];
    assert_eq!(latencies.title, "Latency and lateness");
}

#[test]
fn failed_ios_are_the_headline_and_fail_the_verb_unless_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(&folder);
    let given =
        [("trace", &*trace), ("emulate", "fixed:20000"), ("fail", "from-s=0"), ("policy", "noop")];
    let found = answered::<PlayAsk>(&given);
    assert_eq!((&found.data["failed"], found.failure), (&40.into(), None));
    assert!(found.page.headline.contains("failed on fixed:20000"), "{}", found.page.headline);
}

#[test]
fn nothing_to_play_on_is_refused_with_the_inputs_that_name_something() {
    let folder = tempfile::tempdir().unwrap();
    let ask = asked::<PlayAsk>(&[("trace", &trace(&folder))]);
    let error = answer(ask, &mut Quiet::default(), Spelling::Python).unwrap_err();
    let said = forebay_ask::spelled(&error.to_string(), Spelling::Python);
    assert_eq!(said, "got nothing to play on, expected target, map_volume, volume or emulate");
    assert!(error.is_input());
}
