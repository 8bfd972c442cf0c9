//! Tests a volume that `forebay serve` serves: a drive fails and its data is rebuilt on the others,
//! drives are replaced, and everything is checked, while a client reads and writes.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use forebay_rig::nbd::Client;
use forebay_rig::{one_succeeds, wait_until};
use serde_json::Value;

use crate::served::{Folder, Serving, does, ran, skipped};

/// The size of the client's writes in bytes.
const BLOCK: u64 = 32 << 10;
/// The number of blocks that the client uses.
const BLOCKS: u64 = 800;

/// Returns the content of a block in the given `version`. Before the first version, it is zeros.
fn content(block: u64, version: u64) -> Vec<u8> {
    let word = if version == 0 { 0 } else { block << 32 | version };
    (0..BLOCK / 8).flat_map(|at| (word * (at + 1)).to_le_bytes()).collect()
}

/// Writes and reads at random until `over` is set. Returns the final version of each block.
fn work(socket: &Path, over: &AtomicBool, done: &AtomicU64) -> Vec<u64> {
    let mut client = Client::simple(socket, "safe");
    let (mut versions, mut state) = (vec![0; BLOCKS as usize], 7);
    while !over.load(Ordering::SeqCst) {
        let block = forebay_testing::below(&mut state, BLOCKS);
        let version = &mut versions[block as usize];
        let at = block * BLOCK;
        match forebay_testing::below(&mut state, 3) {
            0 => {
                *version += 1;
                client.write(at, &content(block, *version));
            }
            1 if block.is_multiple_of(8) => {
                assert_eq!(client.does((forebay_rig::nbd::FLUSH, 0), (0, 0), b""), 0);
            }
            _ => assert!(client.read(at, BLOCK as u32) == content(block, *version), "{block}"),
        }
        done.fetch_add(1, Ordering::SeqCst);
    }
    for (block, version) in (0..).zip(&versions) {
        assert!(client.read(block * BLOCK, BLOCK as u32) == content(block, *version), "{block}");
    }
    assert_eq!(client.does((forebay_rig::nbd::FLUSH, 0), (0, 0), b""), 0);
    versions
}

struct Served {
    folder: Folder,
    serving: Option<Serving>,
}

impl Served {
    /// Serves a volume of eight drives, created with these options.
    fn start(options: &[&str]) -> Served {
        let folder = Folder::new();
        fs::create_dir(folder.path("v")).unwrap();
        Served::over(folder, options)
    }

    /// Serves a volume of eight drives in the folder `v`, which exists.
    fn over(folder: Folder, options: &[&str]) -> Served {
        (1..=8).for_each(|drive| drop(folder.holes(&format!("v/{drive}"), 48 << 20)));
        let served = Served { folder, serving: None };
        served.does(&[&["volume", "create", "v"], options].concat());
        let config = "socket = \"socket\"\n[[volume]]\nname = \"safe\"\ndrives = [\"v\"]\n\
                      scrub = \"30d\"\nscrub_rate = \"100MB\"\n";
        fs::write(served.folder.path("serve.toml"), config).unwrap();
        let serving = Serving::start(&served.folder, &["serve.toml"]);
        Served { serving: Some(serving), ..served }
    }

    fn binary() -> String {
        assert_cmd::cargo::cargo_bin!("forebay").display().to_string()
    }

    fn does(&self, words: &[&str]) -> String {
        does(&self.folder, &Served::binary(), words)
    }

    fn ran(&self, words: &[&str]) -> Output {
        ran(&self.folder, &Served::binary(), words)
    }

    /// Starts a command, and returns a thread that waits for its end.
    fn begins(&self, words: &[&str]) -> JoinHandle<Output> {
        let mut command = Command::new(Served::binary());
        command.args(words).current_dir(self.folder.root());
        thread::spawn(move || command.output().unwrap())
    }

    /// Returns the exit status of `control volume` and the state that it prints.
    fn state(&self) -> (i32, Value) {
        let output = self.ran(&["control", "volume", "socket", "--format", "json"]);
        (output.status.code().unwrap(), serde_json::from_slice(&output.stdout).unwrap())
    }

    /// Waits until the state of the volume satisfies `holds`.
    fn wait(&self, what: &str, holds: impl Fn(&Value) -> bool) -> (i32, Value) {
        let mut last = (0, Value::Null);
        wait_until(what, || {
            thread::sleep(Duration::from_millis(50));
            last = self.state();
            holds(&last.1)
        });
        last
    }
}

fn drive(state: &Value, number: u64) -> &Value {
    let drives = state["drives"].as_array().unwrap();
    drives.iter().find(|drive| drive["number"] == number).unwrap()
}

#[test]
fn a_full_volume_is_reported_until_it_has_space() {
    let folder = Folder::new();
    fs::create_dir(folder.path("v")).unwrap();
    let mount = ["-t", "tmpfs", "-o", "size=64m", "none", "v"];
    if !ran(&folder, "mount", &mount).status.success() {
        return skipped("a tmpfs cannot be mounted here");
    }
    let mut served = Served::over(folder, &[]);
    let filler = served.folder.path("v/filler");
    does(&served.folder, "sh", &["-c", "cat /dev/zero >v/filler || true"]);
    let socket = served.folder.path("socket");
    let client = thread::spawn(move || {
        let mut client = Client::simple(&socket, "safe");
        (0..64).for_each(|block| client.write(block * BLOCK, &content(block, 1)));
    });
    let (status, state) = served.wait("no room", |state| state["lacks_room"] == true);
    assert_eq!((status, &state["health"]), (3, &"degraded".into()), "{state:#}");
    let said = String::from_utf8(served.ran(&["control", "volume", "socket"]).stdout).unwrap();
    assert!(said.contains("it has no space for new data") && said.contains("free some"), "{said}");
    fs::remove_file(filler).unwrap();
    // The writes waited, and nothing failed.
    client.join().unwrap();
    let (status, state) = served.wait("healthy", |state| state["health"] == "healthy");
    assert_eq!((status, &state["lacks_room"]), (0, &false.into()), "{state:#}");
    let serving = served.serving.take().unwrap();
    serving.signal("-INT");
    assert_eq!(serving.ends().0, Some(0));
    ran(&served.folder, "umount", &["-l", "v"]);
}

#[test]
fn a_volume_under_load_survives_failure_rebuild_replacement_and_check() {
    let mut served = Served::start(&[]);
    let (over, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let client = {
        let (socket, over, done) =
            (served.folder.path("socket"), Arc::clone(&over), Arc::clone(&done));
        thread::spawn(move || work(&socket, &over, &done))
    };
    let goes_on = |count: u64| {
        let until = done.load(Ordering::SeqCst) + count;
        wait_until("the client does not go on", || done.load(Ordering::SeqCst) >= until);
    };
    goes_on(1000);
    assert_eq!(served.state().0, 0);
    // A drive repeatedly loses all its data, until the volume gives it up.
    let lost = File::options().write(true).open(served.folder.path("v/3")).unwrap();
    let (status, state) = served.wait("drive 3 fails and is rebuilt", |state| {
        lost.set_len(0).unwrap();
        drive(state, 3)["state"] == "missing" && state["lacking_chunks"] == 0
    });
    assert_eq!((status, &state["health"]), (3, &"degraded".into()), "{state:#}");
    goes_on(300);
    // By default, the missing drive is replaced; the new one is where the old one was.
    drop(lost);
    fs::remove_file(served.folder.path("v/3")).unwrap();
    served.folder.holes("v/3", 48 << 20);
    let json = ["--format", "json"];
    let told =
        served.ran(&[&["control", "replace", "socket", "--with", "v/3"], &json[..]].concat());
    let answer: Value = serde_json::from_slice(&told.stdout).unwrap();
    assert_eq!((&answer["replaced"], &answer["new"]), (&3.into(), &9.into()), "{answer:#}");
    let said = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(told.status.success() && said.contains("is drive 9 of the volume now"), "{said}");
    let (status, state) = served.state();
    assert_eq!((status, &state["health"]), (0, &"healthy".into()), "{state:#}");
    assert_eq!(drive(&state, 3)["state"], "left");
    goes_on(300);
    // A working drive can be replaced, too.
    served.folder.holes("v/newer", 48 << 20);
    let refused = served.ran(&["control", "replace", "socket", "--with", "v/newer"]);
    assert_eq!(refused.status.code(), Some(2), "no drive is missing");
    let refused = served.ran(&["control", "replace", "socket", "--with", "v/5", "--drive", "2"]);
    assert_eq!(refused.status.code(), Some(2), "it is a drive of the volume");
    served.does(&["control", "replace", "socket", "--with", "v/newer", "--drive", "v/2"]);
    let (status, state) = served.state();
    assert_eq!((status, &drive(&state, 2)["state"]), (0, &"left".into()), "{state:#}");
    assert_eq!((status, &drive(&state, 10)["state"]), (0, &"present".into()), "{state:#}");
    goes_on(300);
    served.does(&["control", "limit", "socket", "--rate", "500"]);
    let told = served.ran(&["control", "check", "socket"]);
    let said = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(told.status.success() && said.contains("all data was read"), "{said}");
    // Cancel a check that is slow: it takes half a minute.
    let mut policies = ["mq-deadline", "noop", "deadline", "bfq", "kyber"].into_iter();
    let is_cancelled = one_succeeds(|| {
        let checking = served.begins(&["control", "check", "socket", "--rate", "1"]);
        served.wait("the check begins", |state| {
            state["is_checking"] == true || checking.is_finished()
        });
        // A switch of policies neither ends the check nor forgets the limit.
        served.does(&["control", "policy", "socket", policies.next().unwrap()]);
        let (_, state) = served.state();
        assert_eq!(state["limit_bytes_per_s"], 500_000_000, "{state:#}");
        served.ran(&["control", "cancel-check", "socket"]);
        let output = checking.join().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        state["is_checking"] == true
            && output.status.code() == Some(1)
            && said.contains("the check was cancelled")
    });
    assert!(is_cancelled);
    goes_on(300);
    over.store(true, Ordering::SeqCst);
    let versions = client.join().unwrap();
    let serving = served.serving.take().unwrap();
    serving.signal("-INT");
    let (status, said) = serving.ends();
    assert_eq!(status, Some(0), "{said}");
    for line in [
        "is lost: 7 of its 8 drives are left",
        "the rebuild begins",
        "and all data have full redundancy again",
        "v/3) has joined the volume",
        "v/2) is no longer part of the volume and can be removed",
        "the check begins",
        "the check was cancelled",
    ] {
        assert!(said.contains(line), "'{line}' is missing: {said}");
    }
    assert!(!said.contains("DATA ARE LOST"), "{said}");
    // Remove the replaced drives and any two others: all data is still available.
    for name in ["v/2", "v/5", "v/newer"] {
        fs::remove_file(served.folder.path(name)).unwrap();
    }
    let status = served.ran(&["volume", "status", "v", "--format", "json"]);
    assert_eq!(status.status.code(), Some(3), "{status:?}");
    let serving = Serving::start(&served.folder, &["serve.toml"]);
    let mut client = Client::simple(&served.folder.path("socket"), "safe");
    for (block, version) in (0..).zip(&versions) {
        assert!(client.read(block * BLOCK, BLOCK as u32) == content(block, *version), "{block}");
    }
    drop(client);
    drop(serving);
}

#[test]
fn a_volume_under_load_grows_and_a_drive_is_removed() {
    let mut served = Served::start(&["--spares", "1"]);
    let (over, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let client = {
        let (socket, over, done) =
            (served.folder.path("socket"), Arc::clone(&over), Arc::clone(&done));
        thread::spawn(move || work(&socket, &over, &done))
    };
    wait_until("the client does not go on", || done.load(Ordering::SeqCst) >= 2000);
    let capacity = |state: &Value| state["capacity_bytes"].as_u64().unwrap();
    let before = capacity(&served.state().1);
    let refused = |words: &[&str], part: &str| {
        let output = served.ran(&[&["control"], words].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(part), "{said}");
    };
    refused(&["grow", "socket", "--with", "absent"], "absent");
    refused(
        &["remove", "socket", "--drive", "9"],
        "expected the number or path of one of its drives",
    );
    // Growth is slow at first, and continues after a switch of policies.
    let mut names = ["new", "new2", "new3", "new4", "new5"].into_iter();
    let mut policies = ["mq-deadline", "noop", "deadline", "bfq", "kyber"].into_iter();
    let goes_on = one_succeeds(|| {
        let (name, before) = (names.next().unwrap(), capacity(&served.state().1));
        served.folder.holes(name, 48 << 20);
        served.does(&["control", "limit", "socket", "--rate", "1"]);
        let growing = served.begins(&["control", "grow", "socket", "--with", name]);
        let grows = |state: &Value| state["is_growing"] == true || growing.is_finished();
        served.wait("it grows", grows);
        served.does(&["control", "policy", "socket", policies.next().unwrap()]);
        let (_, state) = served.wait("it goes on", grows);
        served.does(&["control", "limit", "socket"]);
        let output = growing.join().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && said.contains("up from"), "{said}");
        // The volume provides no more before the data are on all drives.
        state["is_growing"] == true && capacity(&state) == before
    });
    assert!(goes_on);
    let (status, state) = served.state();
    assert!(status == 0 && capacity(&state) > before * 11 / 10, "{state:#}");
    // New clients can use the new space.
    let mut other = Client::simple(&served.folder.path("socket"), "safe");
    other.write(capacity(&state) - BLOCK, &content(1, 1));
    assert!(other.read(capacity(&state) - BLOCK, BLOCK as u32) == content(1, 1));
    // The spare space is enough for the data of one drive, but not of two.
    served.does(&["control", "remove", "socket", "--drive", "v/2"]);
    let (status, state) = served.state();
    assert_eq!((status, &drive(&state, 2)["state"]), (0, &"left".into()), "{state:#}");
    let why = "drive 3 cannot be removed: its drives hold";
    let output = served.ran(&["control", "remove", "socket", "--drive", "3"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && said.contains(why), "{said}");
    over.store(true, Ordering::SeqCst);
    let versions = client.join().unwrap();
    drop(other);
    let serving = served.serving.take().unwrap();
    serving.signal("-INT");
    let (status, said) = serving.ends();
    assert_eq!(status, Some(0), "{said}");
    for line in
        ["new) has joined the volume", "the volume holds", "v/2) is no longer part of the volume"]
    {
        assert!(said.contains(line), "'{line}' is missing: {said}");
    }
    // Without the removed drive and any two others, all data is available.
    for name in ["v/2", "v/4", "v/8"] {
        fs::remove_file(served.folder.path(name)).unwrap();
    }
    for name in ["new", "new2", "new3", "new4", "new5"] {
        // More than one was needed only if this machine was busy.
        let _ = fs::rename(served.folder.path(name), served.folder.path(&format!("v/{name}")));
    }
    let serving = Serving::start(&served.folder, &["serve.toml"]);
    let mut client = Client::simple(&served.folder.path("socket"), "safe");
    for (block, version) in (0..).zip(&versions) {
        assert!(client.read(block * BLOCK, BLOCK as u32) == content(block, *version), "{block}");
    }
    assert!(client.read(capacity(&state) - BLOCK, BLOCK as u32) == content(1, 1));
    drop(client);
    drop(serving);
}
