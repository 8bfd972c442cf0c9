//! Tests `forebay serve` on the real binary with common clients: libnbd and its tools, QEMU's
//! tools, and fio. If a tool is missing, its test prints a message and is skipped.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::served::{Folder, Serving, does, have, mixed, ran, serve, skipped, sparse};

const MIB: usize = 1 << 20;

/// The server options for every way to transfer data.
const WAYS: [&[&str]; 8] = [
    &[],
    &["--buffered"],
    &["--emulate", "fixed:20000"],
    &["--buffered", "--policy", "forebay"],
    &["--policy", "mq-deadline"],
    &["--buffered", "--policy", "noop", "--depth", "1"],
    &["--driver", "threads"],
    &["--emulate", "fixed:20000", "--driver", "threads"],
];

fn with<'a>(first: &'a str, words: &[&'a str]) -> Vec<&'a str> {
    [&[first], words].concat()
}

/// Returns what nbdinfo prints about the only export.
fn info(folder: &Folder, serving: &Serving) -> Value {
    let told = does(folder, "nbdinfo", &["--json", &serving.uri]);
    serde_json::from_str::<Value>(&told).unwrap()["exports"][0].clone()
}

#[test]
fn libnbd_sees_the_capabilities_of_an_export() {
    if !have(&["nbdinfo"]) {
        return;
    }
    for words in WAYS {
        let folder = Folder::new();
        folder.holes("disk", 8 << 20);
        let serving = Serving::start(&folder, &with("disk", words));
        let told = info(&folder, &serving);
        for can in ["flush", "fua", "multi_conn", "cache", "trim", "zero", "fast_zero", "df"] {
            assert_eq!(told[format!("can_{can}")], true, "{words:?}: {can}: {told}");
        }
        assert_eq!(told["is_read_only"], false);
        assert_eq!(told["export-size"], 8 << 20);
        let least = told["block_size_minimum"].as_u64().unwrap();
        let buffered = words.contains(&"--buffered") || words.contains(&"--emulate");
        assert!(if buffered { least == 1 } else { (1..=4096).contains(&least) }, "{least}");
        assert_eq!(told["block_size_maximum"], 32 << 20);
        assert_eq!(told["contexts"][0], "base:allocation");
        serving.stop();
        assert!(!folder.socket().exists());
    }
    let folder = Folder::new();
    folder.holes("disk", 8 << 20);
    let serving = Serving::start(&folder, &["disk", "--read-only", "--export", "other"]);
    let uri = serving.uri.replace("///?", "///other?");
    let told = does(&folder, "nbdinfo", &["--json", &uri]);
    let told = &serde_json::from_str::<Value>(&told).unwrap()["exports"][0];
    for can in ["trim", "zero", "fast_zero"] {
        assert_eq!(told[format!("can_{can}")], false, "{can}");
    }
    assert_eq!((&told["is_read_only"], &told["export-name"]), (&true.into(), &"other".into()));
    let none = ran(&folder, "nbdinfo", &[&serving.uri.replace("///?", "///none?")]);
    assert!(!none.status.success());
    assert!(does(&folder, "nbdinfo", &["--list", &serving.uri]).contains("export=\"other\""));
    serving.stop();
    // The printed URI must work for clients, even if the name of the socket contains special
    // characters.
    let serving = Serving::start(&folder, &["disk", "--socket", "a socket&more%20#1"]);
    assert_eq!(does(&folder, "nbdinfo", &["--size", &serving.uri]).trim(), "8388608");
}

#[test]
fn nbdcopy_takes_bytes_in_and_out_and_keeps_holes() {
    if !have(&["nbdcopy", "nbdinfo"]) {
        return;
    }
    for (seed, words) in WAYS.into_iter().enumerate() {
        let folder = Folder::new();
        // With --buffered, blocks may be single bytes, so the file need not end at a page boundary.
        let odd = words.contains(&"--buffered");
        let bytes = 12 * MIB + if odd { 1234 } else { 0 };
        let data = mixed(bytes, seed as u64 + 1);
        sparse(&folder.path("source"), &data);
        folder.holes("disk", bytes as u64);
        let serving = Serving::start(&folder, &with("disk", words));
        let uri = serving.uri.clone();
        does(&folder, "nbdcopy", &["--flush", "source", &uri]);
        does(&folder, "nbdcopy", &[&uri, "sink"]);
        assert!(folder.read("sink") == data, "{words:?}: other bytes came out than went in");
        let map = does(&folder, "nbdinfo", &["--map", "--json", &uri]);
        let extents: Vec<Value> = serde_json::from_str(&map).unwrap();
        let holes = extents.iter().filter(|one| one["type"] == 3);
        let holes_bytes: u64 = holes.map(|one| one["length"].as_u64().unwrap()).sum();
        assert!(holes_bytes >= 4 << 20, "{words:?}: {map}");
        serving.stop();
        assert!(folder.read("disk") == data, "{words:?}: other bytes are in the file");
    }
    // A read-only export serves reads and refuses writes.
    let folder = Folder::new();
    let data = mixed(3 * MIB, 99);
    sparse(&folder.path("disk"), &data);
    folder.holes("source", 3 << 20);
    let serving = Serving::start(&folder, &["disk", "--read-only"]);
    does(&folder, "nbdcopy", &[&serving.uri, "sink"]);
    assert!(folder.read("sink") == data);
    assert!(!ran(&folder, "nbdcopy", &["source", &serving.uri]).status.success());
    serving.stop();
    assert!(folder.read("disk") == data);
}

#[test]
fn qemus_tools_convert_compare_and_map() {
    if !have(&["qemu-img"]) {
        return;
    }
    for (seed, words) in WAYS.into_iter().enumerate() {
        let folder = Folder::new();
        let data = mixed(9 * MIB, 50 + seed as u64);
        sparse(&folder.path("source"), &data);
        folder.holes("disk", 9 << 20);
        let serving = Serving::start(&folder, &with("disk", words));
        let uri = serving.uri.as_str();
        let raw = ["-f", "raw", "-O", "raw"];
        does(
            &folder,
            "qemu-img",
            &[&["convert", "-n", "-W", "-m", "16"], &raw[..], &["source", uri]].concat(),
        );
        does(&folder, "qemu-img", &["compare", "-f", "raw", "-F", "raw", "source", uri]);
        does(&folder, "qemu-img", &[&["convert"], &raw[..], &[uri, "sink"]].concat());
        assert!(folder.read("sink") == data, "{words:?}");
        let map = does(&folder, "qemu-img", &["map", "-f", "raw", "--output=json", uri]);
        let extents: Vec<Value> = serde_json::from_str(&map).unwrap();
        let total: u64 = extents.iter().map(|one| one["length"].as_u64().unwrap()).sum();
        assert_eq!(total, 9 << 20, "{map}");
        assert!(extents.iter().any(|one| one["data"] == false), "{words:?}: {map}");
        serving.stop();
    }
}

#[test]
fn qemu_can_write_write_zeros_and_discard() {
    if !have(&["qemu-io"]) {
        return;
    }
    for words in WAYS {
        let folder = Folder::new();
        folder.holes("disk", 8 << 20);
        let serving = Serving::start(&folder, &with("disk", words));
        let commands = [
            "write -P 17 0 1M",
            "write -z 64k 64k",
            "write -z -u 192k 64k",
            "discard 320k 64k",
            "write -f -P 34 448k 64k",
            "flush",
            "aio_write -P 51 2M 1M",
            "aio_write -P 68 4M 3M",
            "aio_flush",
            "read -P 17 0 64k",
            "read -P 0 64k 64k",
            "read -P 17 128k 64k",
            "read -P 0 192k 64k",
            "read -P 17 256k 64k",
            "read -P 0 320k 64k",
            "read -P 17 384k 64k",
            "read -P 34 448k 64k",
            "read -P 17 512k 512k",
            "read -P 51 2M 1M",
            "read -P 68 4M 3M",
            "read -P 0 7M 1M",
        ];
        let mut asked = vec!["-f", "raw", "-t", "none", serving.uri.as_str()];
        commands.iter().for_each(|command| asked.extend(["-c", command]));
        let told = does(&folder, "qemu-io", &asked);
        assert!(!told.contains("failed"), "{words:?}: {told}");
        assert_eq!(told.matches("read ").count(), 12, "{told}");
        // A request beyond the end is an error.
        let beyond = ran(&folder, "qemu-io", &["-f", "raw", &serving.uri, "-c", "write 8M 4k"]);
        assert!(!beyond.status.success());
        serving.stop();
        let disk = folder.read("disk");
        assert!(disk[..64 << 10].iter().all(|byte| *byte == 17));
        assert!(disk[320 << 10..384 << 10].iter().all(|byte| *byte == 0));
        assert!(disk[4 << 20..7 << 20].iter().all(|byte| *byte == 68));
    }
}

#[test]
fn fio_verifies_its_data() {
    if !have(&["fio"]) {
        return;
    }
    let engine = Command::new("fio").arg("--enghelp").output().unwrap();
    if !String::from_utf8_lossy(&engine.stdout).split_whitespace().any(|name| name == "nbd") {
        return skipped("fio has no nbd engine");
    }
    for words in WAYS {
        let folder = Folder::new();
        folder.holes("disk", 16 << 20);
        let serving = Serving::start(&folder, &with("disk", words));
        let uri = format!("--uri={}", serving.uri);
        let asked = [
            "--name=verified",
            "--ioengine=nbd",
            &uri,
            "--rw=randrw",
            "--bs=4k",
            "--size=16m",
            "--io_size=24m",
            "--iodepth=32",
            "--randseed=7",
            "--verify=crc32c",
            "--verify_fatal=1",
            "--verify_backlog=64",
            "--output-format=json",
        ];
        let told = does(&folder, "fio", &asked);
        let told: Value = serde_json::from_str(&told[told.find('{').unwrap()..]).unwrap();
        let job = &told["jobs"][0];
        assert_eq!(job["error"], 0, "{words:?}");
        for way in ["read", "write"] {
            assert!(job[way]["total_ios"].as_u64().unwrap() > 1000, "{words:?}: {way}");
        }
        serving.stop();
    }
}

/// A libnbd client in Python with many outstanding requests.
const MANY: &str = include_str!("served/many.py");

#[test]
fn libnbd_keeps_many_requests_in_flight() {
    // Debian's libnbd module is only available to Debian's own Python.
    let python = "/usr/bin/python3";
    let has_module = Command::new(python).args(["-c", "import nbd"]).output();
    if !has_module.is_ok_and(|output| output.status.success()) {
        return skipped("there is no nbd module for Python");
    }
    for words in WAYS {
        let folder = Folder::new();
        folder.holes("disk", 8 << 20);
        let serving = Serving::start(&folder, &with("disk", words));
        let trims = if words.contains(&"--policy") { "" } else { "trims" };
        does(&folder, python, &["-c", MANY, &serving.uri, trims]);
        serving.stop();
    }
    let folder = Folder::new();
    folder.holes("disk", 8 << 20);
    let mut serving = Serving::start(&folder, &["disk", "--tcp", "127.0.0.1:0", "--buffered"]);
    serving.says("no Unix socket: `forebay top`");
    does(&folder, python, &["-c", MANY, &serving.uri, "trims"]);
    serving.stop();
}

#[test]
fn nbdkit_works_as_a_proxy_and_nbd_client_lists_exports() {
    let folder = Folder::new();
    let data = mixed(5 * MIB, 77);
    folder.holes("disk", 5 << 20);
    fs::write(folder.path("source"), &data).unwrap();
    let serving = Serving::start(&folder, &["disk", "--export", "first", "--policy", "bid"]);
    if have(&["nbdkit", "nbdcopy"]) {
        // Tools that add passwords, TLS and other addresses.
        let copies = "nbdcopy source \"$uri\" && nbdcopy \"$uri\" sink && nbdinfo \"$uri\"";
        let socket = format!("socket={}", folder.socket().display());
        let words = ["-U", "-", "nbd", &socket, "export=first", "--run", copies];
        let told = does(&folder, "nbdkit", &words);
        assert!(told.contains("can_flush: true") && told.contains("can_zero: true"), "{told}");
        assert!(folder.read("sink") == data);
    }
    if have(&["nbd-client"]) {
        let socket = folder.socket();
        let listed = does(&folder, "nbd-client", &["-l", "-unix", socket.to_str().unwrap()]);
        assert!(listed.lines().any(|line| line.trim() == "first"), "{listed}");
    }
    serving.stop();
}

#[test]
fn a_capacity_that_the_drives_cannot_sustain_has_a_warning() {
    let folder = Folder::new();
    folder.holes("disk", 8 << 20);
    fs::create_dir(folder.path("v")).unwrap();
    (0..6).for_each(|nth| drop(folder.holes(&format!("v/{nth}"), 32 << 20)));
    does(
        &folder,
        assert_cmd::cargo::cargo_bin!("forebay").to_str().unwrap(),
        &["volume", "create", "v"],
    );
    let said = |on: &str, capacity_iops: u32| {
        let text = format!(
            "socket = \"socket\"\n{on}\nname = \"data\"\nemulate = \"st1000nm0011\"\n\
             capacity_iops = {capacity_iops}\n[[export]]\nname = \"db\"\non = \"data\"\n\
             keep_iops = 20\nwithin = \"100ms\"\n"
        );
        fs::write(folder.path("serve.toml"), text).unwrap();
        let out = serve(&folder, &["--check", "serve.toml"]).output().unwrap();
        assert_eq!(out.status.code(), Some(0));
        String::from_utf8(out.stderr).unwrap()
    };
    let (disk, volume) = ("[[disk]]\nfile = \"disk\"", "[[volume]]\ndrives = [\"v\"]");
    let kept = said(disk, 78);
    assert!(!kept.contains("warning"), "{kept}");
    for (on, of) in [(volume, "a volume of 6 st1000nm0011"), (disk, "st1000nm0011")] {
        let warned = said(on, 1000);
        let expected = format!("'data': warning: capacity_iops: got 1000, but {of} keeps only ");
        assert!(warned.contains(&expected), "{warned}");
    }
    let mut serving = Serving::start(&folder, &["serve.toml"]);
    serving.says("capacity_iops: got 1000");
    serving.stop();
}
