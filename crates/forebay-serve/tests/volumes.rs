//! Tests the server's guarantees on volumes: across policy switches, with promises, and on emulated
//! drives.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_core::Nanos;
use forebay_core::stack::array::Level;
use forebay_live::Driver;
use forebay_serve::control::{Command, client};
use forebay_serve::{Address, Back, Config, On, Promise, Server};
use forebay_volume::Create;

use forebay_rig::nbd::{Client, FLUSH, WRITE_ZEROES, pattern};
use forebay_rig::{PATIENCE, holes, is_of_a_busy_machine};

/// Creates a new volume; returns its drives.
fn volume(folder: &Path) -> Vec<PathBuf> {
    volume_of(folder, Level::RAID6, 32)
}

/// Creates a new volume of a given level, with drives of `mib` MiB each; returns the drives.
fn volume_of(folder: &Path, level: Level, mib: u64) -> Vec<PathBuf> {
    let drives: Vec<PathBuf> = (0..6).map(|nth| folder.join(format!("{nth}"))).collect();
    drives.iter().for_each(|path| holes(path, mib << 20));
    forebay_volume::create(&drives, Create::new(level)).unwrap();
    drives
}

/// Serves the volume on these drives; returns the server and its socket.
fn served(folder: &Path, drives: &[PathBuf]) -> (Server, PathBuf) {
    let socket = folder.join("socket");
    let back = Back::of("safe", On::Volume(drives.to_vec()));
    let config = Config::of(vec![Address::Unix(socket.clone())], vec![back]);
    (Server::start(&config).unwrap(), socket)
}

#[test]
fn a_volume_keeps_acknowledged_writes_across_a_policy_switch() {
    let folder = tempfile::tempdir().unwrap();
    let drives = volume(folder.path());
    let (back, socket) = (Back::of("", On::Volume(drives)), folder.path().join("socket"));
    let listen = vec![Address::Unix(socket.clone())];
    let server = Server::start(&Config::of(listen, vec![back])).unwrap();
    let mut client = Client::simple(&socket, "");
    for (nth, policy) in ["mq-deadline", "array:adapt=bonus-malus", "noop"].iter().enumerate() {
        // Without a flush, no record contains the location of the data.
        client.write(nth as u64 * 65_536, &pattern(nth as u8, 65_536));
        server.switch("", policy).unwrap();
        for before in 0..=nth {
            let read = client.read(before as u64 * 65_536, 65_536);
            assert!(read == pattern(before as u8, 65_536), "{before} after {policy}");
        }
    }
    let figures = server.figures();
    let volume = figures.backs[0].volume.clone().unwrap();
    assert_eq!((volume.drives, volume.drives_present), (6, 6));
    assert_eq!(volume.units.iter().map(|(_, units)| units).sum::<u64>(), 1);
    let page = figures.page();
    let level = &volume.units[0].0;
    let third = folder.path().join("2").display().to_string();
    for line in [
        format!("forebay_serve_volume_units{{back=\"\",level=\"{level}\"}} 1"),
        format!("forebay_serve_drive_present{{back=\"\",disk=\"{third}\"}} 1"),
        "forebay_serve_volume_drives_present{back=\"\"} 6".into(),
    ] {
        assert!(page.lines().any(|other| other == line), "no {line} in: {page}");
    }
    server.stop().unwrap();
}

/// Tests that direct I/O carries what clients write and read at odd offsets, on every driver.
#[test]
fn a_volume_takes_writes_of_any_offset_and_length() {
    for threads in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let drives = volume(folder.path());
        let socket = folder.path().join("socket");
        let mut back = Back::of("safe", On::Volume(drives.clone()));
        back.driver = threads.then_some(Driver::Threads);
        let config = Config::of(vec![Address::Unix(socket.clone())], vec![back]);
        let server = Server::start(&config).unwrap();
        let mut client = Client::simple(&socket, "safe");
        for (nth, (at, len)) in
            [(1, 1 << 20), (7, 2 << 20), (100, 300_000), (513, 500_001), (3, 8 << 20)]
                .into_iter()
                .enumerate()
        {
            let data = pattern(nth as u8, len);
            client.write(at, &data);
            assert!(client.read(at, len as u32) == data, "{at} {len}");
            assert!(client.read(at + 1, len as u32 - 2) == data[1..len - 1], "{at} {len}");
            assert_eq!(client.does((WRITE_ZEROES, 0), (at + 9, len as u32 - 20), &[]), 0);
            assert!(client.read(at + 9, len as u32 - 20).iter().all(|byte| *byte == 0));
            assert_eq!(client.read(at, 9), data[..9]);
        }
        let figures = server.figures();
        let volume = figures.backs[0].volume.as_ref().unwrap();
        assert_eq!((volume.drives_present, volume.drives_failed), (6, 0), "threads: {threads}");
        assert!(figures.backs[0].disks.iter().all(|disk| disk.failed == 0));
        server.stop().unwrap();
    }
}

/// Tests that a volume accepts as much data as it promises although three copies of everything
/// would not fit: units change to levels with less overhead as the volume fills.
#[test]
fn a_volume_can_be_filled_and_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let drives = volume_of(folder.path(), Level::TRIPLE, 64);
    let bytes = forebay_volume::status(&drives).unwrap().geometry.capacity_bytes();
    assert_eq!(bytes >> 20, 206);
    let socket = folder.path().join("socket");
    let serve = || {
        let back = Back::of("", On::Volume(drives.clone()));
        let listen = vec![Address::Unix(socket.clone())];
        Server::start(&Config::of(listen, vec![back])).unwrap()
    };
    let data = |at: u64, nth: u8| pattern((at >> 18) as u8 ^ nth, 256 << 10);
    let write = |client: &mut Client, every: usize, nth: u8| {
        let units = (0..bytes).step_by(256 << 10).step_by(every);
        units.for_each(|at| client.write(at, &data(at, nth)));
    };
    let server = serve();
    write(&mut Client::simple(&socket, ""), 1, 0);
    server.stop().unwrap();
    // The volume is the same after a restart.
    let server = serve();
    let mut client = Client::simple(&socket, "");
    client.write(0, &data(0, 1)[..4096]);
    write(&mut client, 4, 1);
    for (at, nth) in [(0, 1), (256 << 10, 0), (4 << 18, 1), (bytes - (256 << 10), 0)] {
        let nth = if (at >> 18) % 4 == 0 { 1 } else { nth };
        assert!(client.read(at, 256 << 10) == data(at, nth), "byte {at}");
    }
    server.stop().unwrap();
}

#[test]
fn writes_completed_during_a_switch_go_to_the_next_policy() {
    let folder = tempfile::tempdir().unwrap();
    let drives = volume(folder.path());
    // The disk is so slow that the flush before a switch takes time.
    let device = Box::new(forebay_devices::open("fixed:200").unwrap());
    let back = Back::of("", On::EmulatedVolume { drives, device });
    let socket = folder.path().join("socket");
    let listen = vec![Address::Unix(socket.clone())];
    let server = Server::start(&Config::of(listen, vec![back]));
    let server = server.unwrap();
    let mut clients: Vec<Client> = (0..8).map(|_| Client::simple(&socket, "")).collect();
    let data = |round: u64, nth: usize| pattern(1 + (round * 8) as u8 + nth as u8, 65_536);
    let place = |round: u64, nth: usize| (round * 8 + nth as u64) * 65_536;
    for (round, policy) in [(0, "mq-deadline"), (1, "noop"), (2, "deadline")] {
        for (nth, client) in clients.iter_mut().enumerate() {
            client.send(&[0x25, 0x60, 0x95, 0x13, 0, 0, 0, 1]);
            client.send(&(nth as u64).to_be_bytes());
            client.send(&place(round, nth).to_be_bytes());
            client.send(&65_536_u32.to_be_bytes());
            client.send(&data(round, nth)[..30_000]);
        }
        // By then the data has been sent, and the switch is most likely in progress.
        std::thread::sleep(Duration::from_millis(50));
        std::thread::scope(|scope| {
            scope.spawn(|| server.switch("", policy).unwrap());
            std::thread::sleep(Duration::from_millis(10));
            for (nth, client) in clients.iter_mut().enumerate() {
                client.send(&data(round, nth)[30_000..]);
            }
        });
        clients.iter_mut().for_each(|client| assert_eq!(client.answer(0).errno, 0));
    }
    for (round, nth) in (0..3).flat_map(|round| (0..8).map(move |nth| (round, nth))) {
        let read = clients[0].read(place(round, nth), 65_536);
        assert!(read == data(round, nth), "round {round}, client {nth}");
    }
    server.stop().unwrap();
}

#[test]
fn a_volume_keeps_promises_once_for_all_its_drives() {
    let folder = tempfile::tempdir().unwrap();
    let mut back = Back::of("", On::Volume(volume(folder.path())));
    let promise = Some(Promise { iops: 100, within: Nanos::from_millis(100) });
    back.exports[0].promise = promise;
    back.capacity_iops = Some(1000);
    let socket = folder.path().join("socket");
    let listen = vec![Address::Unix(socket.clone())];
    let server = Server::start(&Config::of(listen, vec![back])).unwrap();
    let mut client = Client::simple(&socket, "");
    client.write(0, &pattern(1, 65_536));
    server.switch("", "array:adapt=bonus-malus").unwrap();
    assert!(client.read(0, 65_536) == pattern(1, 65_536));
    let back = server.figures().backs[0].clone();
    assert_eq!(back.policy, "array:adapt=bonus-malus");
    assert_eq!(back.volume.unwrap().drives_present, 6);
    // The promise covers the client's two requests, however many I/Os they cause on the six drives.
    assert_eq!(back.exports[0].kept, 2);
    let said = server.switch("", "sfq").unwrap_err().to_string();
    assert!(said.contains("a shaper above a shaper"), "{said}");
    server.stop().unwrap();
}

/// Tests that the I/Os of the volume itself belong to a single stream, however many streams there are.
#[test]
fn the_issued_trace_of_a_volume_with_promises_has_a_stream_for_each_export_and_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let mut back = Back::of("data", On::Volume(volume(folder.path())));
    back.exports[0].promise = Some(Promise { iops: 100, within: Nanos::from_millis(100) });
    back.capacity_iops = Some(1000);
    let issued = folder.path().join("issued.csv");
    back.trace_issued = Some(issued.clone());
    let socket = folder.path().join("socket");
    let listen = vec![Address::Unix(socket.clone())];
    let server = Server::start(&Config::of(listen, vec![back])).unwrap();
    let mut client = Client::simple(&socket, "data");
    client.write(0, &pattern(1, 65_536));
    assert_eq!(client.does((FLUSH, 0), (0, 0), &[]), 0);
    server.stop().unwrap();
    let text = std::fs::read_to_string(&issued).unwrap();
    let mut names: Vec<&str> =
        text.lines().skip(1).filter_map(|row| row.rsplit(',').next()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names, ["(server)", "data"], "{text}");
}

#[test]
fn an_emulated_volume_has_the_speed_of_its_drives_and_is_a_normal_volume_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    let drives = volume(folder.path());
    let socket = folder.path().join("socket");
    let start = |on: On| {
        let listen = vec![Address::Unix(socket.clone())];
        Server::start(&Config::of(listen, vec![Back::of("", on)]))
    };
    // Each I/O takes 20 ms, and only one is served at a time.
    let device = |name: &str| Box::new(forebay_devices::open(name).unwrap());
    let on = On::EmulatedVolume { drives: drives.clone(), device: device("fixed:50") };
    let server = start(on).unwrap();
    Client::simple(&socket, "").write(65_536, &pattern(3, 65_536));
    let figures = server.figures();
    let back = &figures.backs[0];
    let written = back.disks.iter().filter(|disk| disk.writes > 0).count();
    assert!(written >= 3, "a chunk and two parities: {:?}", back.disks);
    for disk in &back.disks {
        let least_s = 0.02 * (disk.reads + disk.writes) as f64 - 1e-6;
        assert!((least_s..figures.uptime_s).contains(&disk.busy_s), "{disk:?}");
    }
    assert!(back.late.is_some_and(|late| late.p50_ms <= late.p99_ms));
    server.stop().unwrap();
    let server = start(On::Volume(drives.clone())).unwrap();
    assert!(Client::simple(&socket, "").read(65_536, 65_536) == pattern(3, 65_536));
    assert!(server.figures().backs[0].late.is_none());
    server.stop().unwrap();
    // The files extend beyond the capacity of the emulated drives.
    File::options().write(true).open(&drives[5]).unwrap().set_len(2 << 40).unwrap();
    let said = start(On::EmulatedVolume { drives, device: device("st1000nm0011") });
    let said = said.err().unwrap().to_string();
    assert!(said.contains("/5: got a drive of 2199023255552 bytes, expected at most"), "{said}");
}

/// Returns the server's messages since the last call, except those due to a busy machine.
fn said(server: &Server) -> Vec<String> {
    server.said().into_iter().filter(|line| !is_of_a_busy_machine(line)).collect()
}

/// Collects the server's messages until a line contains `part`; calls `does` repeatedly.
fn said_until(server: &Server, part: &str, mut does: impl FnMut()) -> Vec<String> {
    let begun = std::time::Instant::now();
    let mut all = Vec::new();
    while !all.iter().any(|line: &String| line.contains(part)) {
        assert!(begun.elapsed() < PATIENCE, "no {part:?} in {all:?}");
        does();
        all.extend(said(server));
    }
    all
}

#[test]
fn a_volume_says_that_it_starts_degraded_and_that_a_drive_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let drives = volume(folder.path());
    let socket = folder.path().join("socket");
    let start = |drives: &[PathBuf]| {
        let listen = vec![Address::Unix(socket.clone())];
        let back = Back::of("safe", On::Volume(drives.to_vec()));
        Server::start(&Config::of(listen, vec![back])).unwrap()
    };
    let server = start(&drives);
    let mut client = Client::simple(&socket, "safe");
    (0..64).for_each(|nth| client.write(nth * 65_536, &pattern(nth as u8, 65_536)));
    assert_eq!(said(&server), Vec::<String>::new(), "all is well");
    let begun = std::time::Instant::now();
    // One drive loses all its data, and again after parts have been restored, until the volume
    // gives it up.
    let loses = || File::options().write(true).open(&drives[2]).unwrap().set_len(0).unwrap();
    let told = said_until(&server, "is lost: 5 of its 6 drives are left", || {
        for nth in 0..64 {
            loses();
            assert!(client.read(nth * 65_536, 65_536) == pattern(nth as u8, 65_536));
        }
    });
    let third = drives[2].display().to_string();
    assert!(told.iter().all(|line| line.contains(&third)), "{told:?}");
    // Repeated failures are reported every 10 s.
    let most = 20 + begun.elapsed().as_secs();
    assert!((told.len() as u64) < most, "{told:?}");
    drop(client);
    server.stop().unwrap();
    std::fs::remove_file(&drives[2]).unwrap();
    let left: Vec<PathBuf> = drives.iter().filter(|drive| drive.exists()).cloned().collect();
    let server = start(&left);
    let told = said_until(&server, "starts degraded", std::thread::yield_now);
    assert!(
        told[0].starts_with("'safe': warning: starts degraded: 5 of its 6 drives are present"),
        "{told:?}"
    );
    server.stop().unwrap();
}

/// Tests that the first state of the drives is the one at the start, not at the first periodic look.
#[test]
fn a_drive_lost_just_after_the_start_is_reported_as_lost() {
    for _ in 0..5 {
        let folder = tempfile::tempdir().unwrap();
        let drives = volume(folder.path());
        let (server, socket) = served(folder.path(), &drives);
        let mut client = Client::simple(&socket, "");
        (0..64).for_each(|nth| client.write(nth * 65_536, &pattern(1, 65_536)));
        let said = said_until(&server, "5 of its 6 drives", || {
            for nth in 0..64 {
                File::options().write(true).open(&drives[2]).unwrap().set_len(0).unwrap();
                client.read(nth * 65_536, 65_536);
            }
        });
        assert!(said.iter().all(|line| !line.contains("starts degraded")), "{said:?}");
        drop(client);
        server.stop().unwrap();
    }
}

#[test]
fn a_drive_whose_joining_was_interrupted_joins_when_the_command_is_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let mut drives = volume(folder.path());
    let [new, spare] = ["new", "spare"].map(|name| folder.path().join(name));
    holes(&new, 32 << 20);
    holes(&spare, 32 << 20);
    // The drive has been labeled, but no record names it.
    let labeled = forebay_volume::prepare(&drives, &[1, 2, 3, 4, 5, 6], &new, false).unwrap();
    assert_eq!(labeled.number, 7);
    drop(labeled);
    drives.push(new.clone());
    let (server, socket) = served(folder.path(), &drives);
    let grow = |with: &[&PathBuf]| {
        let with = with.iter().map(|path| path.to_path_buf()).collect();
        let command = Command::GrowVolume { disk: None, with, ssd: false, overwrite: false };
        let done = client::order(&socket, &command, &mut |_| ()).unwrap();
        let bytes = done["volume"]["capacity_bytes"].as_u64().unwrap();
        (done["new"].clone(), done["bytes_before"].as_u64().unwrap(), bytes)
    };
    let (numbers, before, seven) = grow(&[&new]);
    assert_eq!(numbers, serde_json::json!([7]));
    assert!(seven > before, "{seven}");
    assert_eq!(grow(&[&new]), (serde_json::json!([7]), seven, seven), "it has joined already");
    let (numbers, before, eight) = grow(&[&new, &spare]);
    assert_eq!((numbers, before), (serde_json::json!([7, 8]), seven));
    assert!(eight > seven, "{eight}");
    assert_eq!(grow(&[]).2, eight);
    let remove = Command::RemoveDrive { disk: None, drive: "7".into() };
    let refused = client::order(&socket, &remove, &mut |_| ()).unwrap_err().to_string();
    assert!(refused.contains("drive 7 cannot be removed: its drives hold"), "{refused}");
    let mut client = Client::simple(&socket, "safe");
    client.write(eight - 65_536, &pattern(5, 65_536));
    server.switch("safe", "mq-deadline").unwrap();
    assert!(client.read(eight - 65_536, 65_536) == pattern(5, 65_536));
    server.stop().unwrap();
}

#[test]
fn a_drive_that_was_replaced_is_forgotten_and_returns_only_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let drives = volume(folder.path());
    let old = drives[0].clone();
    let new = folder.path().join("new");
    holes(&new, 32 << 20);
    let (server, socket) = served(folder.path(), &drives);
    let order = |command: &Command| client::order(&socket, command, &mut |_| ());
    let replace =
        Command::ReplaceDrive { disk: None, drive: Some("1".into()), with: new, overwrite: false };
    assert_eq!(order(&replace).unwrap()["new"], 7);
    server.switch("safe", "mq-deadline").unwrap();
    let state = order(&Command::VolumeStatus { disk: None }).unwrap();
    let numbers: Vec<u64> = state["drives"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["number"].as_u64().unwrap())
        .collect();
    assert_eq!((numbers, state["health"].as_str()), (vec![2, 3, 4, 5, 6, 7], Some("healthy")));
    assert_eq!(server.figures().backs[0].volume.as_ref().unwrap().drives_failed, 0);
    let grow =
        Command::GrowVolume { disk: None, with: vec![old.clone()], ssd: false, overwrite: true };
    let refused = order(&grow).unwrap_err().to_string();
    assert!(refused.contains("restart the server to add it again"), "{refused}");
    // Another drive in its place is welcome.
    std::fs::remove_file(&old).unwrap();
    holes(&old, 32 << 20);
    assert_eq!(order(&grow).unwrap()["new"], serde_json::json!([8]));
    server.stop().unwrap();
}

#[test]
fn a_check_restores_labels_and_records_that_a_drive_has_lost() {
    let folder = tempfile::tempdir().unwrap();
    let drives = volume(folder.path());
    let (server, socket) = served(folder.path(), &drives);
    let mut client = Client::simple(&socket, "safe");
    (0..64).for_each(|nth| client.write(nth * 65_536, &pattern(nth as u8, 65_536)));
    let file = File::options().write(true).open(&drives[3]).unwrap();
    file.write_all_at(&vec![0; 5 << 20], 0).unwrap();
    let check = Command::VolumeCheck { disk: None, rate: None };
    client::order(&socket, &check, &mut |_| ()).unwrap();
    let order = |command: &Command| client::order(&socket, command, &mut |_| ()).unwrap();
    while order(&Command::VolumeStatus { disk: None })["records_left"] != 0 {
        std::thread::yield_now();
    }
    let labels = "its labels were missing or damaged and have been rewritten";
    said_until(&server, labels, std::thread::yield_now);
    server.stop().unwrap();
    for first in 0..6 {
        for second in 0..first {
            let left = drives.iter().enumerate().filter(|(at, _)| *at != first && *at != second);
            let left: Vec<PathBuf> = left.map(|(_, path)| path.clone()).collect();
            let opened = forebay_volume::status(&left).unwrap();
            assert_eq!((opened.missing().len(), opened.census.lost_units), (2, 0), "{left:?}");
        }
    }
}

#[test]
fn a_member_replaces_no_other_member() {
    let folder = tempfile::tempdir().unwrap();
    let drives = volume(folder.path());
    let (server, socket) = served(folder.path(), &drives);
    let (drive, with) = (Some("1".into()), drives[1].clone());
    let replace = Command::ReplaceDrive { disk: None, drive, with, overwrite: true };
    let refused = client::order(&socket, &replace, &mut |_| ()).unwrap_err().to_string();
    assert!(refused.contains("is drive 2 of the volume already"), "{refused}");
    assert!(refused.contains("forebay control remove --drive 1"), "{refused}");
    // Clients of the socket read the same words as users of the command.
    let with = folder.path().join("full");
    std::fs::write(&with, vec![1; 32 << 20]).unwrap();
    let replace =
        Command::ReplaceDrive { disk: None, drive: Some("1".into()), with, overwrite: false };
    let refused = client::order(&socket, &replace, &mut |_| ()).unwrap_err().to_string();
    assert!(refused.contains("--overwrite") && !refused.contains('\u{1}'), "{refused}");
    server.stop().unwrap();
}
