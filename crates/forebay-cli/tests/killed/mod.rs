//! Kills a process that writes to a volume (`kill -9`) at arbitrary moments. All acknowledged data
//! must survive, even if any two drives are missing.
//!
//! The writer is a separate process, which runs this test binary. It reports on a pipe each
//! operation that it begins and each acknowledgment. Its messages count even after its death,
//! because the pipe outlives it. A write must survive if it had FUA and was acknowledged, or if it
//! was acknowledged before the start of a flush that was acknowledged too. Every sector identifies
//! the write that it belongs to, so the test detects sectors that are older than an acknowledged
//! write, that belong to a write that never began, or that are mixtures.
//!
//! `make kill-volume ROUNDS=100` runs more rounds, on loop devices if possible.

mod drives;
mod history;
mod reader;
mod steps;
mod writer;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use forebay_rig::wait_until_free;
use serde_json::Value;

use self::drives::Drives;
use self::history::History;
use self::steps::{Dice, ROUND_STEPS};

/// The environment variable that makes this binary a writer, and contains the paths of its drives.
const DRIVES: &str = "FOREBAY_KILLED_DRIVES";
const FIRST: &str = "FOREBAY_KILLED_FIRST";

fn forebay(verb: &str, drives: &[PathBuf], options: &[&str]) -> Value {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("forebay"));
    let command = command.args(["volume", verb]).args(drives).args(options);
    let output = command.args(["--format", "json"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{verb}: {said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Starts a process that writes to the volume on `drives`, from step `first` on.
fn writer(drives: &[PathBuf], first: u64) -> Child {
    let names: Vec<_> = drives.iter().map(|path| path.to_str().unwrap()).collect();
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed::writes_until_it_is_killed", "--ignored", "--nocapture"])
        .env(DRIVES, names.join(","))
        .env(FIRST, first.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The writer that is killed; not a test.
#[test]
#[ignore = "it is the process that other tests kill"]
fn writes_until_it_is_killed() {
    let Ok(names) = std::env::var(DRIVES) else { return };
    let paths: Vec<PathBuf> = names.split(',').map(PathBuf::from).collect();
    writer::write(&paths, std::env::var(FIRST).unwrap().parse().unwrap());
}

/// Lets a writer run for a while, kills it and records its messages. Returns the number of
/// acknowledgments.
fn write_and_kill(drives: &[PathBuf], round: u64, dice: &mut Dice, history: &mut History) -> usize {
    let mut child = writer(drives, round * ROUND_STEPS + 1);
    let mut said = BufReader::new(child.stdout.take().unwrap());
    // One time in eight, kill the writer after some time, possibly while it opens the volume.
    let lines = if dice.below(8) == 0 { 0 } else { dice.below(1500) };
    let mut text = Vec::new();
    while (text.iter().filter(|byte| **byte == b'\n').count() as u64) < lines {
        assert!(said.read_until(b'\n', &mut text).unwrap() > 0, "the writer ended by itself");
    }
    sleep(Duration::from_micros(dice.below(if lines == 0 { 60_000 } else { 2_000 })));
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until_free(drives);
    std::io::Read::read_to_end(&mut said, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    // The last line may be incomplete.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| usize::from(history.note(line))).sum()
}

/// Returns `drives` without `missing` of them, chosen at random.
fn without(drives: &[PathBuf], missing: u64, dice: &mut Dice) -> Vec<PathBuf> {
    let mut left = drives.to_vec();
    (0..missing).for_each(|_| drop(left.remove(dice.below(left.len() as u64) as usize)));
    left
}

/// Restores missing data, then checks that all drives are present and nothing was lost.
fn check(drives: &[PathBuf], round: u64) {
    let checked = forebay("check", drives, &[]);
    let is_whole = checked["lost_units"] == 0 && checked["degraded_units"] == 0;
    assert!(is_whole, "round {round}: {checked}");
}

/// Kills a writer `count` times. Returns the number of acknowledged writes and flushes.
fn rounds(drives: &Drives, level: &str, seed: u64, count: u64) -> usize {
    let mut dice = Dice(seed);
    let mut history = History::default();
    let all = drives.paths();
    forebay("create", all, &["--level", level, "--overwrite"]);
    let mut acknowledged = 0;
    for round in 0..count {
        // Sometimes the writer runs without some drives. The missing drives are restored before
        // other drives are removed.
        let away = [0, 0, 0, 1, 2][dice.below(5) as usize];
        let writing = without(all, away, &mut dice);
        acknowledged += write_and_kill(&writing, round, &mut dice, &mut history);
        if away > 0 || dice.below(2) == 0 {
            check(all, round);
        }
        let left = without(all, 2, &mut dice);
        let found = reader::read(&left);
        history.hold(&found, &format!("{level}, seed {seed}, round {round}, on {left:?}"));
        check(all, round);
    }
    acknowledged
}

#[test]
fn acknowledged_data_survive_kill_9() {
    for (level, seed) in [("raid6", 1), ("raid10x3", 2)] {
        let folder = tempfile::tempdir().unwrap();
        let acknowledged = rounds(&Drives::files(folder.path()), level, seed, 2);
        assert!(acknowledged > 50, "{level}: {acknowledged} acknowledged");
    }
}

#[test]
#[ignore = "long; make kill-volume"]
fn acknowledged_data_survive_kill_9_many_times() {
    let count = std::env::var("FOREBAY_KILLED_ROUNDS").map_or(100, |text| text.parse().unwrap());
    for (level, seed) in [("raid6", 3), ("raid10x3", 4)] {
        let folder = tempfile::tempdir().unwrap();
        let drives = Drives::loops(folder.path());
        let acknowledged = rounds(&drives, level, seed, count / 2);
        println!("{level}: {} rounds on {}: {acknowledged} acknowledged", count / 2, drives.kind());
    }
}
