//! Tests how a volume grows and loses drives on purpose.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Stdio;

use forebay_rig::wait_until_free;
use serde_json::Value;

use super::{MIB, drives, forebay, json, refused, writes};
use crate::command::Folder;

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
    refused(&mut remove("4"), &["drive 4 cannot be removed: its drives hold", "have space for"]);
    let numbers = removed["drives_replaced"].as_array().unwrap();
    let [number] = &numbers[..] else { panic!("{removed}") };
    for path in [&paths[number.as_u64().unwrap() as usize - 1], &paths[3], &paths[5]] {
        fs::remove_file(path).unwrap();
    }
    let checked = json(&mut forebay(&folder, &["volume", "check", "v"]));
    assert_eq!((&checked["lost_units"], &checked["drives"]), (&0.into(), &7.into()), "{checked}");
}

#[test]
fn a_volume_survives_a_kill_while_growing() {
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
        let inside = fs::read_dir(folder.root().join("v")).unwrap();
        let inside = inside.map(|drive| drive.unwrap().path());
        wait_until_free(&inside.chain([folder.root().join("new")]).collect::<Vec<_>>());
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
