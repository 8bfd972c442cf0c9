//! Tests `forebay volume` on the real binary: what it writes to files, what it rejects, and that
//! killing it loses nothing.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use forebay_rig::holes;
use serde_json::Value;

use crate::command::{Folder, HEADER};

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
fn status_says_how_many_drives_may_fail_though_nothing_is_written() {
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
fn a_volume_is_made_written_checked_and_outlives_two_drives() {
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
fn data_that_rot_beyond_redundancy_are_named_at_every_look() {
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
fn what_was_played_is_kept_though_it_ends_early() {
    let folder = Folder::new();
    drives(&folder, 6);
    json(&mut forebay(&folder, &["volume", "create", "v"]));
    let row =
        |n: u64| format!("{},write,{},65536,0,0,1000000,,,,\n", n * 10_000_000_000, n * 65_536);
    let trace = folder.file("slow.csv", HEADER.to_string() + &(0..2).map(row).collect::<String>());
    let short = ["play", trace.to_str().unwrap(), "--volume", "v", "--for", "2s"];
    let played = json(&mut forebay(&folder, &short));
    assert_eq!((&played["requests"], &played["ended_early"]), (&1.into(), &"time is up".into()));
    assert!(played["notes"].to_string().contains("all writes are durable"), "{played}");
    let status = json(&mut forebay(&folder, &["volume", "status", "v"]));
    assert!(status["written_bytes"].as_u64().unwrap() > 0, "{status}");
}

#[test]
fn what_cannot_be_made_durable_at_the_end_is_told_and_fails() {
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
fn a_check_without_room_reads_what_there_is_and_says_so() {
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
fn a_volume_of_two_sets_follows_its_workload_and_hints() {
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
    // Repeated writes to eight units, so far apart in time that none waits for another.
    let row = |n: u64| format!("{},write,{},4096,0,0,1000000,,,,\n", n * 3_000_000, n % 8 * MIB);
    let small = (0..100).map(row).collect::<String>();
    let small = folder.file("small.csv", HEADER.to_string() + &small);
    let play = |policy: &str, trace: &Path| {
        let trace = trace.to_str().unwrap();
        let volume = ["--volume", "v,s", "--map", "wrap", "--policy", policy];
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
        let play = ["play", large.to_str().unwrap(), "--volume", "v", "--policy", policy];
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
fn a_volume_grows_by_drives_and_with_its_drives() {
    let folder = Folder::new();
    let paths = drives(&folder, 6);
    let size = |path: &Path, mib: u64| {
        File::options().create(true).append(true).open(path).unwrap().set_len(mib * MIB).unwrap();
    };
    let grow = |more: &[&str]| {
        let args = ["volume", "grow", "v"];
        forebay(&folder, &[&args[..], more].concat())
    };
    let made = json(&mut forebay(&folder, &["volume", "create", "v"]));
    let trace = writes(&folder, 400);
    let play = ["play", trace.to_str().unwrap(), "--volume", "v", "--map", "wrap"];
    json(&mut forebay(&folder, &play));
    // The drives grow, all but one of them to four times their size.
    paths[1..].iter().for_each(|path| size(path, 128));
    let capacity = |of: &Value| of["capacity_bytes"].as_u64().unwrap();
    let grown = json(&mut grow(&[]));
    assert!(
        capacity(&grown) < capacity(&made) * 11 / 10,
        "six drives, one of them as small as ever"
    );
    for name in ["a", "b"] {
        size(&folder.root().join(name), 128);
    }
    let grown = json(&mut grow(&["--with", "a", "b"]));
    assert!(capacity(&grown) >= 2 * capacity(&made), "{grown}");
    assert_eq!((&grown["drives"], &grown["degraded_units"]), (&8.into(), &0.into()));
    for name in ["a", "b"] {
        fs::rename(folder.root().join(name), folder.root().join("v").join(name)).unwrap();
    }
    // Data is spread over all drives, including the new ones.
    let holds = |path: &Path| fs::read(path).unwrap().iter().filter(|byte| **byte != 0).count();
    assert!(holds(&folder.root().join("v/a")) > MIB as usize);
    // Growing again adds nothing, because there is no more space for records. Any two drives may
    // fail, including original ones.
    assert_eq!(capacity(&json(&mut grow(&[]))), capacity(&grown));
    fs::remove_file(&paths[0]).unwrap();
    fs::remove_file(&paths[3]).unwrap();
    let checked = json(&mut forebay(&folder, &["volume", "check", "v"]));
    assert_eq!(
        (&checked["lost_units"], &checked["capacity_bytes"]),
        (&0.into(), &grown["capacity_bytes"])
    );
    json(&mut forebay(&folder, &play));
    // Growing is rejected while drives are missing, and with a drive that is already used, named
    // twice, part of a volume, or too small.
    refused(&mut grow(&[]), &["drive 1 is missing", "replace"]);
    for name in ["c", "d"] {
        size(&folder.root().join(name), 128);
        let replace = ["volume", "replace", "v", "--with", name];
        json(&mut forebay(&folder, &replace));
        fs::rename(folder.root().join(name), folder.root().join("v").join(name)).unwrap();
    }
    size(&folder.root().join("e"), 128);
    size(&folder.root().join("short"), 1);
    refused(&mut grow(&["--with", "v/a"]), &["v/a", "twice"]);
    refused(&mut grow(&["--with", "e", "e"]), &["e: is named twice"]);
    refused(&mut grow(&["--with", "short"]), &["short: has only 1048576 bytes"]);
    fs::copy(folder.root().join("v/b"), folder.root().join("copy")).unwrap();
    refused(&mut grow(&["--with", "copy"]), &["copy", "is drive 8", "--overwrite"]);
}

#[test]
fn a_drive_is_removed_if_the_others_have_room() {
    let folder = Folder::new();
    let paths = drives(&folder, 8);
    let create = ["volume", "create", "v", "--spares", "1"];
    let made = json(&mut forebay(&folder, &create));
    let trace = writes(&folder, 400);
    let play = ["play", trace.to_str().unwrap(), "--volume", "v", "--map", "wrap"];
    json(&mut forebay(&folder, &play));
    let remove = |which: &str| forebay(&folder, &["volume", "remove", "v", "--drive", which]);
    refused(&mut remove("v/none"), &["got 'v/none'", "1, 2, 3, 4, 5, 6, 7, 8"]);
    let removed = json(&mut remove("v/drive2"));
    assert_eq!((&removed["drives"], &removed["spare_drives"]), (&7.into(), &0.into()), "{removed}");
    assert_eq!(removed["capacity_bytes"], made["capacity_bytes"]);
    assert_eq!(removed["drives_missing"], serde_json::json!([]));
    refused(&mut remove("4"), &["drive 4 cannot be removed: its drives hold", "have room for"]);
    let numbers = removed["drives_replaced"].as_array().unwrap();
    let [number] = &numbers[..] else { panic!("{removed}") };
    for path in [&paths[number.as_u64().unwrap() as usize - 1], &paths[3], &paths[5]] {
        fs::remove_file(path).unwrap();
    }
    let checked = json(&mut forebay(&folder, &["volume", "check", "v"]));
    assert_eq!((&checked["lost_units"], &checked["drives"]), (&0.into(), &7.into()), "{checked}");
}

#[test]
fn a_volume_is_whole_though_growing_is_killed() {
    let folder = Folder::new();
    drives(&folder, 6);
    let made = json(&mut forebay(&folder, &["volume", "create", "v"]));
    let trace = writes(&folder, 400);
    let play = ["play", trace.to_str().unwrap(), "--volume", "v", "--map", "wrap"];
    json(&mut forebay(&folder, &play));
    for wait_ms in [0, 3, 10, 30, 100] {
        let name = format!("v/new{wait_ms}");
        let file = File::create(folder.root().join("new")).unwrap();
        file.set_len(32 * MIB).unwrap();
        let mut growing = forebay(&folder, &["volume", "grow", "v", "--with", "new"]);
        let mut growing = growing.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(wait_ms));
        growing.kill().unwrap();
        growing.wait().unwrap();
        // The volume is complete with and without the new drive. If the new drive is present,
        // growing continues. A drive that is being added never counts as one in use.
        let whole = json(&mut forebay(&folder, &["volume", "check", "v"]));
        assert_eq!((&whole["lost_units"], &whole["degraded_units"]), (&0.into(), &0.into()));
        let labelled = holds_label(&folder.root().join("new"));
        if labelled {
            fs::rename(folder.root().join("new"), folder.root().join(name)).unwrap();
            let whole = json(&mut forebay(&folder, &["volume", "check", "v"]));
            assert_eq!((&whole["lost_units"], &whole["degraded_units"]), (&0.into(), &0.into()));
        }
    }
    let grown = json(&mut forebay(&folder, &["volume", "grow", "v"]));
    let more = grown["capacity_bytes"].as_u64() > made["capacity_bytes"].as_u64();
    assert!(more || grown["drives"] == 6, "{grown}");
}

/// Returns whether a file begins with the label of a drive.
fn holds_label(path: &Path) -> bool {
    let mut bytes = [0; 16];
    File::open(path).unwrap().read_exact_at(&mut bytes, 0).unwrap();
    &bytes[8..] == b"forebayL"
}

#[test]
fn what_is_no_volume_is_named_and_nothing_is_written() {
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
fn a_drive_that_lost_its_label_is_told_and_replaced_as_told() {
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
fn commands_are_told_that_replace_every_drive_that_is_missing() {
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
fn a_volume_that_does_not_grow_says_which_drives_are_too_small() {
    let folder = Folder::new();
    let paths = drives(&folder, 6);
    json(&mut forebay(&folder, &["volume", "create", "v"]));
    let grown = || {
        let output = forebay(&folder, &["volume", "grow", "v"]).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0), "{said}");
        said.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let said = grown();
    assert!(said.contains("Drives 1, 2, 3, 4, 5 and 6 are too small by "), "{said}");
    let larger = |path: &Path, bytes: u64| {
        File::options().append(true).open(path).unwrap().set_len(bytes).unwrap();
    };
    paths[1..].iter().for_each(|path| larger(path, 40 * MIB));
    let said = grown();
    assert!(said.contains("The volume holds as much as before. Drive 1 is too small by"), "{said}");
    // If the drive grows by this number of bytes, the volume can grow; with one sector less, it
    // cannot.
    let lacks = said.split_once("too small by ").unwrap().1.split_once(" byte").unwrap().0;
    let lacks: u64 = lacks.parse().unwrap();
    larger(&paths[0], 32 * MIB + lacks - 512);
    let said = grown();
    assert!(said.contains("Drive 1 is too small by 512 bytes."), "{said}");
    larger(&paths[0], 32 * MIB + lacks);
    let said = grown();
    assert!(said.contains("now, up from"), "{said}");
}

#[test]
fn a_drive_that_holds_anything_is_made_no_drive_of_a_volume() {
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
fn a_volume_is_whole_whenever_its_user_is_killed() {
    let folder = Folder::new();
    drives(&folder, 6);
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

#[test]
fn advice_says_which_redundancy_pays_on_an_array() {
    let folder = Folder::new();
    // Slow enough that a drive is rebuilt in the meantime.
    let row = |n: u64| {
        let (at_ms, offset, len) = (n * 40, n * 7919 % 9000 * 4096, 4096 << (n % 7));
        format!("{},write,{offset},{len},0,0,1000000,,,,\n", at_ms * 1_000_000)
    };
    let trace = HEADER.to_string() + &(0..1000).map(row).collect::<String>();
    let trace = folder.file("slow.csv", trace);
    let trace = trace.to_str().unwrap();
    let advise = |drives: &str| {
        let args = ["advise", trace, "--array", drives, "-o", "page.html", "--device", "sata250"];
        forebay(&folder, &args)
    };
    let advice = json(&mut advise("7"));
    let redundancy = &advice["redundancy"];
    let tried = redundancy["tried"].as_array().unwrap();
    let of = |name: &str| tried.iter().find(|one| one["name"] == name).unwrap();
    let holds = |name: &str| of(name)["usable_bytes"].as_f64().unwrap();
    // With RAID 6, four of every six chunks hold data, and with three copies, one of every three.
    assert!((holds("RAID 6") / holds("three copies") - 2.0).abs() < 0.05, "{redundancy}");
    assert!((holds("striping") / holds("RAID 6") - 1.5).abs() < 0.05, "{redundancy}");
    assert_eq!((&redundancy["drives"], &of("RAID 5")["failures_survived"]), (&7.into(), &1.into()));
    // The less redundancy, the fewer chunks are written.
    let total = |name: &str| of(name)["total_s"].as_f64().unwrap();
    assert!(total("striping") < total("RAID 5") && total("RAID 5") < total("RAID 6"));
    let said = redundancy["said"].as_str().unwrap();
    assert!(said.contains("7 drives like sata250"), "{said}");
    let page = fs::read_to_string(folder.path("page.html")).unwrap();
    assert!(page.contains("Redundancy on 7 drives") && page.contains(">three copies<"));
    assert_eq!(redundancy["rule"], "work-function");
    assert!(said.contains("work-function"), "{said}");
    let failing = |name: &str| (&of(name)["degraded"], &of(name)["rebuilding"], of(name));
    for name in ["RAID 6", "adaptive", "three copies", "RAID 5", "two copies"] {
        let (degraded, rebuilding, of) = failing(name);
        let mean = |of: &Value| of["write_mean_ms"].as_f64().unwrap();
        assert!(mean(degraded) > 0.0 && mean(rebuilding) > mean(degraded), "{of}");
        // A drive of 250 GB at 50 MB/s at most.
        assert!(of["rebuild_s"].as_f64().unwrap() > 250e9 / 51e6, "{of}");
    }
    assert!(failing("striping").0.is_null() && of("striping")["rebuild_s"].is_null());
    let lost = |name: &str| of(name)["lost_per_year_bytes"].as_f64().unwrap();
    assert!(lost("RAID 6") < lost("RAID 5") && lost("RAID 5") < lost("striping"), "{redundancy}");
    let often = json(advise("7").args(["--failures-per-year", "0.5", "--rebuild-mb-per-s", "1"]));
    let often = often["redundancy"]["tried"][0].clone();
    assert!(often["lost_per_year_bytes"].as_f64().unwrap() > 100.0 * lost("RAID 6"), "{often}");
    assert!(often["rebuild_s"].as_f64().unwrap() > 249e9 / 1e6, "{often}");
    refused(&mut advise("5"), &["--array: got '5', expected a number from 6 to 32"]);
}

#[test]
fn commands_that_advice_on_an_array_prints_can_be_run() {
    let folder = Folder::new();
    crate::shell::prepared(folder.root());
    let trace = writes(&folder, 300);
    fs::create_dir(folder.root().join("DRIVES")).unwrap();
    folder.drives("DRIVES/drive", 6, 32 * MIB);
    let asked = ["advise", trace.to_str().unwrap(), "--array", "6", "--device", "sata250"];
    let advise = || {
        let mut command = forebay(&folder, &asked);
        command.args(["-o", "page.html"]);
        command
    };
    let commands = json(&mut advise())["redundancy"]["commands"].clone();
    let commands: Vec<&str> =
        commands.as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
    let [create, serve] = commands[..] else { panic!("{commands:?}") };
    let printed = String::from_utf8(advise().output().unwrap().stdout).unwrap();
    for command in [create, serve] {
        assert!(printed.lines().any(|line| line.trim() == command), "{printed}");
    }
    assert!(printed.lines().count() <= 24, "{printed}");
    let until = "until [ -S volume.sock ]; do sleep 0.05; done; kill $!; wait $!";
    crate::shell::run(folder.root(), &format!("{create} && {{ {serve} & {until}; }}")).unwrap();
}

#[test]
fn levels_are_scored_on_a_device() {
    let folder = Folder::new();
    let args = ["array", "score", "st1000nm0011", "--writes", "100", "--filled-mib", "1024"];
    let scores = json(forebay(&folder, &args).args(["--outstanding", "1,8"]));
    let write_ms = |score: usize, level: usize, chunks: usize| {
        scores["rows"][score]["write_ms"][level][chunks - 1].as_f64().unwrap()
    };
    for score in 0..2 {
        assert!(write_ms(score, 1, 1) < write_ms(score, 0, 1), "{scores}");
    }
    refused(&mut forebay(&folder, &["array", "score", "nothing"]), &["nothing"]);
}
