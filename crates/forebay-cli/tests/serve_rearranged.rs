//! Tests serving a disk whose blocks are rearranged meanwhile: learning from its own trace, copying
//! blocks, and reopening the disk.

use std::fs;

use crate::served::{Folder, Serving, mixed, serve, top};
use forebay_rig::nbd::{Client, FLUSH};
use forebay_rig::wait_until;

const KIB: u64 = 1 << 10;
/// The size of the export in bytes. Moved blocks use the rest of the disk.
const EXPORTED: usize = 4 << 20;

fn config(keys: &str) -> String {
    format!(
        "socket = \"socket\"\n[[disk]]\nname = \"disk\"\nfile = \"disk\"\npage_cache = true\n{keys}\n\
         [[export]]\nname = \"data\"\non = \"disk\"\nsize = \"4MiB\"\n"
    )
}

fn start(folder: &Folder, keys: &str) -> Serving {
    fs::write(folder.path("serve.toml"), config(keys)).unwrap();
    Serving::start(folder, &["serve.toml"])
}

/// Returns the message of a server that does not start.
fn refused(folder: &Folder, keys: &str) -> String {
    fs::write(folder.path("serve.toml"), config(keys)).unwrap();
    let output = serve(folder, &["serve.toml"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{keys}");
    String::from_utf8(output.stderr).unwrap()
}

fn client(folder: &Folder) -> Client {
    Client::simple(&folder.socket(), "data")
}

/// Returns whether blocks are at their new locations, according to `top`.
fn is_rearranged(folder: &Folder) -> Option<bool> {
    top(folder)["backs"][0]["rearranged"].as_bool()
}

fn all(folder: &Folder) -> Vec<u8> {
    let mut client = client(folder);
    (0..EXPORTED as u64 / (256 * KIB))
        .flat_map(|nth| client.read(nth * 256 * KIB, 256 << 10))
        .collect()
}

#[test]
fn a_disk_rearranged_by_its_own_trace_survives_kills_and_restarts() {
    let folder = Folder::new();
    let mut data = mixed(EXPORTED, 7);
    let mut file = data.clone();
    file.resize(8 << 20, 0);
    fs::write(folder.path("disk"), &file).unwrap();
    // Five blocks, always read in the same order.
    let serving = start(&folder, "trace = \"asked.parquet\"");
    let mut reader = client(&folder);
    for _ in 0..6 {
        for place in [3 << 20, 512 * KIB, 2 << 20, 64 * KIB, 1 << 20] {
            reader.read(place, 64 << 10);
        }
    }
    drop(reader);
    serving.stop();
    assert!(fs::read(folder.path("disk")).unwrap() == file, "nothing has moved");

    let learns = "rearrange = \"asked.parquet\"";
    let serving = start(&folder, learns);
    wait_until("it is not rearranged", || is_rearranged(&folder) == Some(true));
    assert!(all(&folder) == data);
    let mut writer = client(&folder);
    for (nth, place) in [3 << 20, 64 * KIB, 1536 * KIB, 2 << 20].into_iter().enumerate() {
        let bytes = vec![nth as u8 + 1; 8192];
        writer.write(place, &bytes);
        data[place as usize..][..8192].copy_from_slice(&bytes);
    }
    assert_eq!(writer.does((FLUSH, 0), (0, 0), &[]), 0);
    serving.signal("-KILL");
    serving.ends();
    let found = fs::read(folder.path("disk")).unwrap();
    assert!(found[3 << 20..][..8192] == file[3 << 20..][..8192], "it is written where it lies now");
    assert!(found[1536 << 10..][..8192] == [3; 8192], "what did not move is in place");

    // Without this setting, clients would see outdated data.
    assert!(refused(&folder, "").contains("set rearranged = true"));
    let policy = |name| format!("rearranged = true\npolicy = \"{name}\"");
    let policies = ["mq-deadline", "forebay", "bfq", "cfq", "none", "kyber", "bid"].map(policy);
    let mut ways = vec!["rearranged = true", learns];
    ways.extend(policies.iter().map(String::as_str));
    for keys in ways {
        let serving = start(&folder, keys);
        assert_eq!(is_rearranged(&folder), Some(true), "{keys}");
        assert!(all(&folder) == data, "{keys}");
        serving.stop();
    }
    // A longer disk is accepted, and a disk that is too short is reported.
    let whole = fs::read(folder.path("disk")).unwrap();
    let mut longer = whole.clone();
    longer.resize(9 << 20, 0);
    fs::write(folder.path("disk"), longer).unwrap();
    assert!(refused(&folder, "").contains("set rearranged = true"));
    for keys in ["rearranged = true", learns] {
        let serving = start(&folder, keys);
        assert!(all(&folder) == data, "{keys}");
        serving.stop();
    }
    fs::write(folder.path("disk"), &whole[..7 << 20]).unwrap();
    assert!(refused(&folder, "rearranged = true").contains("it was longer"));
    fs::write(folder.path("disk"), &whole).unwrap();
    for at in [(7 << 20) + 8, 7 << 20] {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        fs::write(folder.path("disk"), damaged).unwrap();
        assert!(refused(&folder, "rearranged = true").contains("damaged"));
    }
    fs::write(folder.path("disk"), &whole).unwrap();
    // Damage a byte in the record of the blocks' locations.
    let mut damaged = fs::read(folder.path("disk")).unwrap();
    damaged[(7 << 20) + 4100] ^= 1;
    fs::write(folder.path("disk"), damaged).unwrap();
    assert!(refused(&folder, "rearranged = true").contains("is damaged"));
}

#[test]
fn disks_that_cannot_be_rearranged_are_refused_unwritten() {
    let folder = Folder::new();
    folder.holes("disk", 8 << 20);
    folder.holes("disk2", 8 << 20);
    fs::write(folder.path("asked.csv"), "0,0,4096,r\n").unwrap();
    let learns = "rearrange = \"asked.csv\"";
    let before = fs::read(folder.path("disk")).unwrap();
    let cases = [
        ("rearranged = true", "has no record of rearranged blocks"),
        (
            "rearranged = true\nrearrange = \"asked.csv\"",
            "line 2: rearranged: cannot be combined with",
        ),
        ("rearrange = \"nothing\"", "nothing"),
        ("rearranged = true\nflash = \"disk2\"", "flash"),
    ];
    for (keys, why) in cases {
        let said = refused(&folder, keys);
        assert!(said.contains(why) && said.trim_end().lines().count() == 1, "{keys}: {said}");
    }
    let mut used = before.clone();
    used[7 << 20] = 1;
    fs::write(folder.path("disk"), &used).unwrap();
    assert!(refused(&folder, learns).contains("holds data"));
    assert!(fs::read(folder.path("disk")).unwrap() == used);
    folder.holes("disk", 1 << 20);
    assert!(refused(&folder, learns).contains("too short"));
    let unsized_export = config(learns).replace("size = \"4MiB\"\n", "");
    folder.holes("disk", 8 << 20);
    fs::write(folder.path("serve.toml"), unsized_export).unwrap();
    let output = serve(&folder, &["serve.toml"]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("'data' has no size"));
    assert!(fs::read(folder.path("disk")).unwrap() == before);
}
