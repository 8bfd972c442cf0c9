//! Tests `forebay volume` on the real binary: what it writes to files, what it rejects, and that
//! killing it loses nothing.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use forebay_rig::{holes, one_succeeds, wait_until_free};
use serde_json::Value;

use crate::command::{Folder, HEADER};

mod advice;
mod growing;

const MIB: u64 = 1 << 20;

fn forebay(folder: &Folder, args: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("forebay"));
    command.args(args).current_dir(folder.root());
    command
}

/// Asserts exit status 2, one message that contains all `parts`, and nothing on standard output.
fn refused(command: &mut Command, parts: &[&str]) {
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(output.stdout.is_empty(), "{said}");
    parts.iter().for_each(|part| assert!(said.contains(part), "no {part:?} in: {said}"));
}

fn json(command: &mut Command) -> Value {
    answer(command, 0)
}

/// Returns the state that a command prints for a degraded volume.
fn degraded(command: &mut Command) -> Value {
    answer(command, 3)
}

fn answer(command: &mut Command, status: i32) -> Value {
    let output = command.args(["--format", "json"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Creates a folder `v` with `count` empty drives.
fn drives(folder: &Folder, count: usize) -> Vec<PathBuf> {
    fs::create_dir(folder.root().join("v")).unwrap();
    folder.drives("v/drive", count, 32 * MIB)
}

/// Creates a trace of writes of 4 to 256 KiB over 40 MiB, with occasional flushes.
fn writes(folder: &Folder, count: u64) -> PathBuf {
    let row = |n: u64| {
        let (op, offset, len) = match n % 16 {
            15 => ("flush", 0, 0),
            _ => ("write", n * 7919 % 9000 * 4096, 4096 << (n % 7)),
        };
        format!("{},{op},{offset},{len},0,0,1000000,,,,\n", n * 20_000)
    };
    folder.file("writes.csv", HEADER.to_string() + &(0..count).map(row).collect::<String>())
}

fn contents(paths: &[PathBuf]) -> Vec<Vec<u8>> {
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

#[test]
fn status_of_an_empty_volume_says_how_many_drives_may_fail() {
    let folder = Folder::new();
    let paths = drives(&folder, 6);
    json(&mut forebay(&folder, &["volume", "create", "v"]));
    let said = || {
        let output = forebay(&folder, &["volume", "status", "v"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    for (away, expected) in [
        (0, "The volume is whole, and any 2 drives may fail."),
        (1, "and one more drive may fail"),
        (2, "but no other drive may fail"),
    ] {
        paths[..away].iter().for_each(|path| drop(fs::remove_file(path)));
        assert!(said().contains(expected), "{away}: {}", said());
    }
}

#[test]
fn a_volume_is_created_written_checked_and_survives_two_drives() {
    let folder = Folder::new();
    let paths = drives(&folder, 6);
    let made = json(&mut forebay(&folder, &["volume", "create", "v"]));
    assert_eq!((&made["drives"], &made["degraded_units"]), (&6.into(), &0.into()));
    let trace = writes(&folder, 400);
    let trace = trace.to_str().unwrap();
    let played = json(&mut forebay(&folder, &["play", trace, "--volume", "v", "--map", "wrap"]));
    assert_eq!((&played["failed"], &played["ios_failed"]), (&0.into(), &0.into()));
    let before = contents(&paths);
    let status = json(&mut forebay(&folder, &["volume", "status", "v"]));
    assert!(status["written_bytes"].as_u64().unwrap() > 10 * MIB, "{status}");
    assert!(contents(&paths) == before, "status writes nothing");
    // Remove two drives, and replace and rebuild one of them. Then two other drives may fail.
    fs::rename(&paths[1], folder.root().join("old1")).unwrap();
    fs::rename(&paths[4], folder.root().join("old4")).unwrap();
    let status = degraded(&mut forebay(&folder, &["volume", "status", "v"]));
    assert_eq!(status["drives_missing"], serde_json::json!([2, 5]));
    for (name, missing) in [("new1", 1), ("new4", 0)] {
        let new = folder.root().join(name);
        holes(&new, 32 * MIB);
        let replaced = json(&mut forebay(&folder, &["volume", "replace", "v", "--with", name]));
        assert_eq!(replaced["drives_missing"].as_array().unwrap().len(), missing);
        fs::rename(new, folder.root().join("v").join(name)).unwrap();
    }
    let status = json(&mut forebay(&folder, &["volume", "status", "v"]));
    assert_eq!(status["degraded_units"], 0, "{status}");
    fs::rename(&paths[0], folder.root().join("old0")).unwrap();
    fs::rename(&paths[2], folder.root().join("old2")).unwrap();
    let checked = json(&mut forebay(&folder, &["volume", "check", "v"]));
    assert_eq!(checked["lost_units"], 0, "{checked}");
    // A drive that was replaced has reappeared. The message names it.
    fs::rename(folder.root().join("old1"), &paths[1]).unwrap();
    let status = degraded(&mut forebay(&folder, &["volume", "status", "v"]));
    assert_eq!(status["drives_replaced"], serde_json::json!([2]));
}

/// Runs a command on a volume that lost data. It must exit with status 1; returns its answer.
fn lossy(folder: &Folder, args: &[&str]) -> Value {
    let output = forebay(folder, args).args(["--format", "json"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot be read any more"), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Overwrites the cells of a drive with zeros, but not its labels and records.
fn wipe_cells(path: &Path, status: &Value) {
    let records = status["records_per_drive_bytes"].as_u64().unwrap();
    let cells = (8192 + records).next_multiple_of(MIB);
    let file = File::options().write(true).open(path).unwrap();
    file.write_all_at(&vec![0; (32 * MIB - cells) as usize], cells).unwrap();
}

#[test]
fn unrecoverable_data_are_named_by_every_command() {
    let folder = Folder::new();
    let paths = drives(&folder, 6);
    json(&mut forebay(&folder, &["volume", "create", "v"]));
    let row = |n: u64| format!("{},write,{},262144,0,0,1000000,,,,\n", n * 1_000_000, n * 262_144);
    let all = HEADER.to_string() + &(0..20).map(row).collect::<String>();
    let trace = folder.file("whole.csv", all);
    let play = ["play", trace.to_str().unwrap(), "--volume", "v"];
    json(&mut forebay(&folder, &play));
    let status = json(&mut forebay(&folder, &["volume", "status", "v"]));
    assert_eq!((&status["lost_bytes"], &status["lost"]), (&0.into(), &serde_json::json!([])));
    // Damage on two drives can be repaired, but not on three.
    paths[..2].iter().for_each(|path| wipe_cells(path, &status));
    let checked = json(&mut forebay(&folder, &["volume", "check", "v"]));
    assert_eq!(checked["lost_units"], 0);
    paths[..3].iter().for_each(|path| wipe_cells(path, &status));
    let checked = lossy(&folder, &["volume", "check", "v"]);
    assert_eq!(checked["lost_units"], 20, "{checked}");
    let lost = checked["lost"].as_array().unwrap();
    let bytes: u64 = lost.iter().map(|range| range["bytes"].as_u64().unwrap()).sum();
    // Each unit has one to three data chunks on these drives.
    assert!((20 * 65_536..=60 * 65_536).contains(&bytes), "{checked}");
    assert_eq!(checked["lost_bytes"], bytes);
    for range in lost {
        assert_eq!(range["drives"], serde_json::json!([1, 2, 3]));
        assert_eq!(range["offset"].as_u64().unwrap() / 262_144, range["unit"]);
    }
    // A second check finds and writes nothing new, and all verbs report the loss.
    let before = contents(&paths);
    assert_eq!(lossy(&folder, &["volume", "status", "v"])["lost"], checked["lost"]);
    assert!(contents(&paths) == before, "status writes nothing");
    assert_eq!(lossy(&folder, &["volume", "check", "v"])["lost"], checked["lost"]);
    let output = forebay(&folder, &["volume", "check", "v"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.starts_with("Data are lost: "), "{text}");
    assert!(said.contains("0 chunks were rewritten."), "{text}");
    assert!(said.contains("lost from byte") && said.contains("1, 2, 3"), "{text}");
    assert!(said.contains("more ranges; JSON has all") && !said.contains("whole"), "{text}");
    // Data loss determines the exit status even if nobody reads the output.
    let mut unread = forebay(&folder, &["volume", "check", "v"]);
    let mut unread = unread.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    drop(unread.stdout.take());
    assert_eq!(unread.wait().unwrap().code(), Some(1));
    fs::rename(&paths[5], folder.root().join("old")).unwrap();
    holes(folder.root().join("new"), 32 * MIB);
    let replaced = lossy(&folder, &["volume", "replace", "v", "--with", "new"]);
    assert_eq!(replaced["lost_units"], 20, "{replaced}");
    // Data that was overwritten is intact again.
    fs::rename(folder.root().join("new"), folder.root().join("v/new")).unwrap();
    let played = json(&mut forebay(&folder, &play));
    assert_eq!((&played["failed"], &played["ios_failed"]), (&0.into(), &0.into()));
    let checked = json(&mut forebay(&folder, &["volume", "check", "v"]));
    assert_eq!(checked["lost_units"], 0, "{checked}");
}

/// A run that ends early leaves the volume no time to flush by itself.
#[test]
fn an_interrupted_replay_keeps_its_writes() {
    let folder = Folder::new();
    drives(&folder, 6);
    json(&mut forebay(&folder, &["volume", "create", "v"]));
    let row =
        |n: u64| format!("{},write,{},65536,0,0,1000000,,,,\n", n * 1_000_000_000_000, n * 65_536);
    let trace = folder.file("slow.csv", HEADER.to_string() + &(0..2).map(row).collect::<String>());
    let short = ["play", trace.to_str().unwrap(), "--volume", "v", "--for", "2s"];
    let mut played = Value::Null;
    // If a thread has to wait for a processor, the time may be up before the first request.
    let is_interrupted = one_succeeds(|| {
        played = json(&mut forebay(&folder, &short));
        played["requests"] == 1 && played["ended_early"] == "time is up"
    });
    assert!(is_interrupted, "{played}");
    assert!(played["notes"].to_string().contains("all writes are durable"), "{played}");
    let status = json(&mut forebay(&folder, &["volume", "status", "v"]));
    assert!(status["written_bytes"].as_u64().unwrap() > 0, "{status}");
}

#[test]
fn a_failed_final_flush_is_reported_and_fails() {
    let folder = Folder::new();
    drives(&folder, 6);
    json(&mut forebay(&folder, &["volume", "create", "v"]));
    let trace = writes(&folder, 3);
    // There is only enough space for the labels of the drives.
    let limited = "ulimit -f 16 && exec \"$0\" play \"$1\" --volume v --map wrap --format json";
    let binary = assert_cmd::cargo::cargo_bin!("forebay");
    let mut command = std::process::Command::new("sh");
    command.args(["-c", limited]).arg(binary).arg(trace).current_dir(folder.root());
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let lost = "some writes may be lost: the volume could not be flushed: the file system below its \
                drives is full (ENOSPC)";
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("forebay: {lost}")), "{said}");
    let played: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(played["flush_error"].as_str().unwrap().starts_with(lost), "{played}");
}

#[test]
fn a_check_without_spare_space_reads_everything_with_a_note() {
    let folder = Folder::new();
    let paths = drives(&folder, 6);
    json(&mut forebay(&folder, &["volume", "create", "v"]));
    let trace = writes(&folder, 100);
    json(&mut forebay(
        &folder,
        &["play", trace.to_str().unwrap(), "--volume", "v", "--map", "wrap"],
    ));
    let status = json(&mut forebay(&folder, &["volume", "status", "v"]));
    let before = contents(&paths);
    // There is only enough space for the labels of the drives.
    let check = || {
        let limited = "ulimit -f 16 && exec \"$0\" volume check v --format json";
        let mut command = Command::new("sh");
        command.args(["-c", limited]).arg(assert_cmd::cargo::cargo_bin!("forebay"));
        let output = command.current_dir(folder.root()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        (serde_json::from_slice::<Value>(&output.stdout).unwrap(), said)
    };
    let (checked, said) = check();
    let full = "nothing could be repaired: the file system below its drives is full (ENOSPC)";
    assert!(said.contains(full), "{said}");
    assert_eq!((&checked["lost_units"], &checked["units"]), (&0.into(), &status["units"]));
    assert!(contents(&paths) == before, "nothing is written");
    // Lost data is found nevertheless.
    paths[..3].iter().for_each(|path| wipe_cells(path, &status));
    let (checked, said) = check();
    assert!(checked["lost_units"].as_u64().unwrap() > 0, "{checked}");
    assert!(said.contains("cannot be read any more"), "{said}");
}

#[test]
fn a_volume_with_two_sets_adapts_to_workload_and_hints() {
    let folder = Folder::new();
    drives(&folder, 12);
    let solid = folder.root().join("s");
    fs::create_dir(&solid).unwrap();
    for drive in ["drive10", "drive11", "drive12", "drive7", "drive8", "drive9"] {
        fs::rename(folder.root().join("v").join(drive), solid.join(drive)).unwrap();
    }
    let made = json(&mut forebay(&folder, &["volume", "create", "v", "--ssd", "s"]));
    assert_eq!((&made["drives"], &made["ssds"]), (&12.into(), &6.into()));
    let trace = writes(&folder, 200);
    // Repeated writes to eight units, one at a time, so that they are not combined on a busy machine.
    let row = |n: u64| format!("{},write,{},4096,0,0,1000000,,,,\n", n * 3_000_000, n % 8 * MIB);
    let small = (0..100).map(row).collect::<String>();
    let small = folder.file("small.csv", HEADER.to_string() + &small);
    let play = |policy: &str, trace: &Path| {
        let trace = trace.to_str().unwrap();
        let volume = ["--volume", "v,s", "--map", "wrap", "--policy", policy, "--replay", "closed"];
        let played = json(forebay(&folder, &["play", trace]).args(volume));
        assert_eq!(played["failed"], 0);
        let status = json(&mut forebay(&folder, &["volume", "status", "v", "s"]));
        let count = |level: &str| {
            let units = status["units"].as_array().unwrap();
            units.iter().find(|it| it[0] == level).map_or(0, |it| it[1].as_u64().unwrap())
        };
        (count("raid6"), count("raid10x3"), status["ssd_units"].as_u64().unwrap())
    };
    let (striped, mirrored, solid) = play("deadline", &trace);
    assert!(striped > 50 && (mirrored, solid) == (0, 0), "{striped} {mirrored} {solid}");
    // The hints place a quarter of the data on solid-state drives.
    let (_, mirrored, solid) = play("array:hints=0-10@ssd", &trace);
    assert!(mirrored == 0 && (10..=40).contains(&solid), "{mirrored} {solid}");
    // Units with many small writes switch to three copies, except for those with hints.
    let (_, mirrored, still) = play("array:adapt=half-thresholds:hints=0-2@raid6", &small);
    assert_eq!((mirrored, still), (6, solid));
    let (_, mirrored, solid) = play("array:hints=0-4000@hdd@raid6", &trace);
    assert_eq!((mirrored, solid), (0, 0));
    let checked = json(&mut forebay(&folder, &["volume", "check", "v", "s"]));
    assert_eq!((&checked["degraded_units"], &checked["lost_units"]), (&0.into(), &0.into()));
    let on_both = |policy: &str| {
        let mut play = forebay(&folder, &["play", trace.to_str().unwrap(), "--volume", "v,s"]);
        play.args(["--policy", policy]);
        play
    };
    refused(&mut on_both("array:level=raid5"), &["no parameter 'level'", "hints"]);
    refused(&mut on_both("array:hints=0-9@raid10x4"), &["0-9@raid10x4", "that the array supports"]);
    refused(&mut on_both("array:hints=9-0@ssd"), &["9-0@ssd", "FROM-TO"]);
    let few = ["volume", "create", "v", "--ssd", "s/drive7", "--overwrite"];
    refused(&mut forebay(&folder, &few), &["6 hard disks and 1 solid-state drive, "]);
}

/// Writes of three chunks cost less in three copies than in RAID 6 on these drives, but more in the
/// paper's table.
#[test]
fn the_rule_uses_the_costs_of_the_drives_with_which_the_volume_was_created() {
    let folder = Folder::new();
    drives(&folder, 6);
    let row = |n: u64| format!("{},write,{},196608,0,0,1000000,,,,\n", n * 3_000_000, n % 4 * MIB);
    let large = (0..64).map(row).collect::<String>();
    let large = folder.file("large.csv", HEADER.to_string() + &large);
    let create = |more: &[&str]| {
        let args = [&["volume", "create", "v", "--overwrite"], more].concat();
        json(&mut forebay(&folder, &args))
    };
    let mirrored = |policy: &str| {
        // One at a time, so that writes are not combined on a busy machine.
        let large = large.to_str().unwrap();
        let play = ["play", large, "--volume", "v", "--policy", policy, "--replay", "closed"];
        json(&mut forebay(&folder, &play));
        let status = json(&mut forebay(&folder, &["volume", "status", "v"]));
        let units = status["units"].as_array().unwrap().clone();
        units.iter().find(|it| it[0] == "raid10x3").map_or(0, |it| it[1].as_u64().unwrap())
    };
    assert_eq!(create(&[])["costs"], Value::Array(Vec::new()));
    assert_eq!(mirrored("array:adapt=bonus-malus"), 0);
    let costs = create(&["--device", "st1000nm0011"])["costs"][0].clone();
    let write_ms = |level: usize| costs["write_ms"][level][2].as_f64().unwrap();
    assert!(write_ms(0) > 3.0 && write_ms(1) < 1.0, "{costs}");
    assert_eq!(mirrored("array:adapt=bonus-malus:costs=hdd"), 0);
    assert_eq!(mirrored("array:adapt=bonus-malus"), 4);
    // A drive that replaces another one has the costs too.
    fs::remove_file(folder.root().join("v/drive3")).unwrap();
    folder.drives("new", 1, 32 * MIB);
    let replace = ["volume", "replace", "v", "--with", "new1"];
    assert_eq!(json(&mut forebay(&folder, &replace))["costs"][0], costs);
    let each = ["--device", "st1000nm0011,hc550"];
    let args = [&["volume", "create", "v", "--overwrite"], &each[..]].concat();
    refused(&mut forebay(&folder, &args), &["--device: got 2 devices for 5 drives"]);
    let args = ["volume", "create", "v", "--overwrite", "--level", "raid5", "--device", "hc550"];
    refused(&mut forebay(&folder, &args), &["--device: got raid5 of 5 drives", "leave it out"]);
}

#[test]
fn files_that_are_no_volume_are_named_and_not_written() {
    let folder = Folder::new();
    let paths = drives(&folder, 6);
    let status = |args: &[&str]| forebay(&folder, &[&["volume", "status"], args].concat());
    refused(&mut status(&["v"]), &["v/drive1", "has no Forebay label"]);
    refused(&mut status(&["nothing"]), &["nothing"]);
    refused(&mut forebay(&folder, &["volume", "create", "v/drive1"]), &["got 1 drive, "]);
    refused(&mut forebay(&folder, &["volume", "create", "v", "v/drive3"]), &["v/drive3", "twice"]);
    json(&mut forebay(&folder, &["volume", "create", "v"]));
    // Creating the same volume again changes nothing while it is empty. Another kind of volume is
    // rejected.
    let again = json(&mut forebay(&folder, &["volume", "create", "v"]));
    let shown = json(&mut forebay(&folder, &["volume", "status", "v"]));
    assert_eq!(again["volume"], shown["volume"]);
    let other = ["volume", "create", "v", "--level", "raid10x3"];
    refused(&mut forebay(&folder, &other), &["drive 1", "--overwrite"]);
    let before = contents(&paths);
    // Too few drives, then a copy of a drive.
    refused(
        &mut status(&["v/drive1", "v/drive2", "v/drive3"]),
        &["3 of the 6 drives that it was created with can be used"],
    );
    fs::copy(&paths[0], folder.root().join("copy")).unwrap();
    refused(&mut status(&["v", "copy"]), &["copy", "drive 1", "drive1"]);
    // A truncated drive, a drive of another volume, and a file that is not a drive are reported and
    // count as missing.
    fs::copy(&paths[5], folder.root().join("short")).unwrap();
    fs::remove_file(&paths[5]).unwrap();
    File::options().write(true).open(folder.root().join("short")).unwrap().set_len(MIB).unwrap();
    let told = |path: &str, why: &str| {
        let status = degraded(&mut status(&["v", path]));
        let other = &status["not_members"][0];
        assert_eq!((&other["path"], &status["drives_missing"][0]), (&path.into(), &6.into()));
        assert!(other["why"].as_str().unwrap().contains(why), "{status}");
        let command = format!("forebay volume replace v {path} --with NEW");
        assert_eq!(status["replace_command"], command);
    };
    told("short", "has only 1048576 bytes");
    fs::create_dir(folder.root().join("w")).unwrap();
    for at in 1..=6 {
        let path = folder.root().join(format!("w/drive{at}"));
        holes(path, 32 * MIB);
    }
    json(&mut forebay(&folder, &["volume", "create", "w"]));
    told("w/drive6", "is a drive of volume");
    folder.file("text", "not a drive");
    told("text", "has no Forebay label");
    told("nothing", "cannot be opened");
    refused(
        &mut forebay(&folder, &["volume", "replace", "v", "--with", "w/drive1"]),
        &["w/drive1", "--overwrite"],
    );
    assert!(contents(&paths[..5]) == before[..5], "nothing was written");
    // Even without any records, the drives are not mistaken for a new volume.
    for path in &paths[..5] {
        let file = File::options().write(true).open(path).unwrap();
        file.write_all_at(&vec![0; 8 * MIB as usize], 8192).unwrap();
    }
    let before = contents(&paths[..5]);
    refused(&mut status(&["v"]), &["its records cannot be read from enough of its drives"]);
    let check = ["volume", "check", "v"];
    refused(&mut forebay(&folder, &check), &["its records cannot be read from enough"]);
    assert!(contents(&paths[..5]) == before, "nothing was written");
}

/// The command that the message suggests repairs the volume, and does nothing if it is run again.
#[test]
fn a_drive_without_a_label_is_reported_and_replaced_by_the_printed_command() {
    let folder = Folder::new();
    let paths = drives(&folder, 6);
    json(&mut forebay(&folder, &["volume", "create", "v"]));
    let trace = writes(&folder, 100);
    let play = ["play", trace.to_str().unwrap(), "--volume", "v", "--map", "wrap"];
    json(&mut forebay(&folder, &play));
    fs::remove_file(&paths[2]).unwrap();
    holes(&paths[2], 32 * MIB);
    let output = forebay(&folder, &["volume", "status", "v"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let command = "forebay volume replace v --with v/drive3";
    assert!(said.contains("v/drive3 is not used as a drive of volume"), "{said}");
    assert!(said.contains("it has no Forebay label") && said.contains(command), "{said}");
    let played = json(&mut forebay(&folder, &play));
    assert!(played["notes"].to_string().contains(command), "{played}");
    let args: Vec<&str> = command.split(' ').skip(1).collect();
    let replaced = json(&mut forebay(&folder, &args));
    assert_eq!(replaced["drives_missing"], serde_json::json!([]), "{replaced}");
    let again = forebay(&folder, &args).output().unwrap();
    let said = String::from_utf8(again.stdout).unwrap();
    assert!(again.status.success() && said.contains("is already a drive of the volume"), "{said}");
    let checked = json(&mut forebay(&folder, &["volume", "check", "v"]));
    assert_eq!(
        (&checked["degraded_units"], &checked["not_members"]),
        (&0.into(), &serde_json::json!([]))
    );
}

#[test]
fn commands_to_replace_every_missing_drive_are_printed() {
    let folder = Folder::new();
    let paths = drives(&folder, 6);
    json(&mut forebay(&folder, &["volume", "create", "v"]));
    let trace = writes(&folder, 100);
    let play = ["play", trace.to_str().unwrap(), "--volume", "v", "--map", "wrap"];
    json(&mut forebay(&folder, &play));
    // First, one drive is blank and one is missing; then two are missing.
    holes(&paths[1], 32 * MIB);
    fs::remove_file(&paths[4]).unwrap();
    let told = || {
        let status = degraded(&mut forebay(&folder, &["volume", "status", "v"]));
        status["replace_command"].as_str().unwrap().to_string()
    };
    let replace = "forebay volume replace v --with";
    assert_eq!(told(), format!("{replace} v/drive2 && {replace} NEW"));
    fs::remove_file(&paths[1]).unwrap();
    let second = "forebay volume replace v NEW1 --with NEW2";
    assert_eq!(told(), format!("{replace} NEW1 && {second}"));
    // The commands that are printed make the volume complete.
    for name in ["NEW1", "NEW2"] {
        holes(folder.root().join(name), 32 * MIB);
    }
    let commands = told().replace("forebay volume", "\"$0\" volume");
    let mut shell = Command::new("sh");
    shell.args(["-c", &commands]).arg(assert_cmd::cargo::cargo_bin!("forebay"));
    let output = shell.current_dir(folder.root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let all = ["volume", "status", "v", "NEW1", "NEW2"];
    let status = json(&mut forebay(&folder, &all));
    assert_eq!(
        (&status["drives_missing"], &status["degraded_units"]),
        (&serde_json::json!([]), &0.into())
    );
}

#[test]
fn a_drive_that_holds_data_is_not_added_to_a_volume() {
    let folder = Folder::new();
    let paths = drives(&folder, 6);
    let put = |bytes: &[u8], at: u64| {
        File::options().write(true).open(&paths[3]).unwrap().write_all_at(bytes, at).unwrap();
    };
    for (bytes, at, what) in [
        (&b"x"[..], 20_000_001, "holds data (at byte 20000001)"),
        (b"EFI PART", 32 * MIB - 512, "holds a GPT partition table (at byte 33553920)"),
        (b"\x53\xEF", 1080, "holds an ext2, ext3 or ext4 file system (at byte 1080)"),
        (&[255; 4096], 8 * MIB, "holds data (at byte 8388608)"),
    ] {
        put(bytes, at);
        refused(
            &mut forebay(&folder, &["volume", "create", "v"]),
            &["drive4", what, "--overwrite"],
        );
        put(&vec![0; bytes.len()], at);
    }
    json(&mut forebay(&folder, &["volume", "create", "v"]));
    let new = folder.root().join("new");
    holes(&new, 32 * MIB);
    File::options().write(true).open(&new).unwrap().write_all_at(b"x", 30 * MIB).unwrap();
    let grow = ["volume", "grow", "v", "--with", "new"];
    refused(&mut forebay(&folder, &grow), &["new: holds data (at byte 31457280)", "--overwrite"]);
    fs::remove_file(&paths[0]).unwrap();
    let replace = ["volume", "replace", "v", "--with", "new"];
    refused(&mut forebay(&folder, &replace), &["new: holds data", "--overwrite"]);
}

#[test]
fn a_volume_survives_a_kill_at_any_time() {
    let folder = Folder::new();
    let paths = drives(&folder, 6);
    json(&mut forebay(&folder, &["volume", "create", "v"]));
    let trace = writes(&folder, 3000);
    let trace = trace.to_str().unwrap();
    for round in 0..6_u64 {
        let args = ["play", trace, "--volume", "v", "--map", "wrap"];
        let mut player = forebay(&folder, &args);
        let mut player = player.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // Kill the player somewhere in the middle of its work.
        std::thread::sleep(std::time::Duration::from_millis(60 + 90 * round));
        let _ = player.kill();
        player.wait().unwrap();
        wait_until_free(&paths);
        let checked = json(&mut forebay(&folder, &["volume", "check", "v"]));
        let is_whole = checked["lost_units"] == 0 && checked["degraded_units"] == 0;
        assert!(is_whole, "round {round}: {checked}");
    }
}

#[test]
fn a_volume_is_used_by_one_at_a_time() {
    let folder = Folder::new();
    let paths = drives(&folder, 6);
    json(&mut forebay(&folder, &["volume", "create", "v"]));
    let file = File::open(&paths[3]).unwrap();
    file.lock().unwrap();
    refused(&mut forebay(&folder, &["volume", "check", "v"]), &["v/drive4", "in use"]);
}

#[test]
fn help_says_what_a_volume_is() {
    let folder = Folder::new();
    let _: &Path = folder.root();
    let output = forebay(&folder, &["volume", "--help"]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    for word in ["create", "status", "check", "replace"] {
        assert!(said.contains(word), "{said}");
    }
}
