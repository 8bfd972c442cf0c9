//! Tests the server's guarantees to its clients.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use forebay_core::catalog::build;
use forebay_core::replay::{Intensity, Open};
use forebay_core::{Completion, Device, Nanos, Observer, Op, Request, simulate};
use forebay_serve::control::{Command, client};
use forebay_serve::{Address, Back, Config, Named, On, Promise, Server};
use forebay_trace::Record;

use forebay_rig::nbd::{
    BLOCK_STATUS, Client, DISCONNECT, FAST_ZERO, FLUSH, FUA, NO_HOLE, READ, REQUEST_ONE, TRIM,
    WRITE, WRITE_ZEROES, encoded, pattern,
};
use forebay_rig::{holes, is_of_a_busy_machine, one_succeeds, wait_until};

const BYTES: u64 = 8 << 20;

struct Served {
    server: Server,
    folder: tempfile::TempDir,
}

impl Served {
    /// Creates a server for a sparse file; `change` changes the configuration of its back.
    fn new(change: impl FnOnce(&mut Back)) -> Served {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        holes(&path, BYTES);
        let mut back = Back::of("disk", On::Target { path, flash: None });
        back.page_cache = true;
        change(&mut back);
        let listen = vec![Address::Unix(folder.path().join("socket"))];
        let server = Server::start(&Config::of(listen, vec![back])).unwrap();
        Served { server, folder }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    fn stop(self) -> Vec<u8> {
        self.server.stop().unwrap();
        std::fs::read(self.folder.path().join("disk")).unwrap()
    }
}

#[test]
fn writes_are_read_back_and_are_in_the_file() {
    let served = Served::new(|_| {});
    let data = pattern(1, 300_001);
    let mut writer = Client::simple(&served.socket(), "disk");
    writer.write(4097, &data);
    let mut reader = Client::structured(&served.socket(), "disk");
    assert!(reader.read(4097, data.len() as u32) == data);
    assert_eq!(reader.does((FLUSH, 0), (0, 0), &[]), 0);
    writer.request((DISCONNECT, 0), 0, (0, 0), &[]);
    assert!(writer.is_over());
    drop(reader);
    let file = served.stop();
    assert!(file[4097..4097 + data.len()] == data);
    assert!(file[..4097].iter().all(|byte| *byte == 0));
}

#[test]
fn many_requests_at_once_are_all_answered() {
    let served = Served::new(|back| back.policy = "mq-deadline".into());
    let client = Client::simple(&served.socket(), "disk");
    // There are more requests than a client may have outstanding, and some are long.
    let lens = |nth: u64| if nth.is_multiple_of(50) { 200_000 } else { 512 };
    let sender = client.stream.try_clone().unwrap();
    let thread = std::thread::spawn(move || {
        let mut client = client;
        let mut seen = vec![false; 600];
        for _ in 0..600 {
            let answer = client.answer(0);
            assert_eq!(answer.errno, 0);
            assert!(!std::mem::replace(&mut seen[answer.cookie as usize], true));
        }
        client
    });
    let mut sending = Client::over(sender);
    for nth in 0..600_u64 {
        let data = pattern(nth as u8, lens(nth));
        sending.request((WRITE, 0), nth, (nth * 8192, data.len() as u32), &data);
    }
    let mut client = thread.join().unwrap();
    for nth in (0..600).filter(|nth| !u64::is_multiple_of(*nth, 50)) {
        // Places that a long write may have overwritten are not compared.
        if nth % 50 > 24 {
            assert!(client.read(nth * 8192, 512) == pattern(nth as u8, 512), "{nth}");
        }
    }
}

#[test]
fn zeros_and_trims_leave_zeros_and_holes_are_reported() {
    for policy in ["noop", "promised:cmin=100/0"] {
        let served = Served::new(|back| back.policy = policy.into());
        let mut client = Client::structured(&served.socket(), "disk");
        client.write(0, &pattern(3, 4 << 20));
        assert_eq!(client.does((TRIM, 0), (0, 65_536), &[]), 0);
        assert_eq!(client.does((WRITE_ZEROES, FUA | FAST_ZERO), (1 << 20, 1 << 20), &[]), 0);
        assert_eq!(client.does((WRITE_ZEROES, NO_HOLE), (2 << 20, (1 << 20) + 4097), &[]), 0);
        let slow = client.does((WRITE_ZEROES, NO_HOLE | FAST_ZERO), (0, 1 << 20), &[]);
        assert_eq!(slow, 95, "ENOTSUP: no faster than to write them");
        let told = client.read(0, 4 << 20);
        let expected = |at: usize| match at {
            at if at < 65_536 => 0,
            at if (1 << 20..(3 << 20) + 4097).contains(&at) => 0,
            at => pattern(3, 4 << 20)[at],
        };
        for at in [0, 65_535, 65_536, (1 << 20) - 1, 1 << 20, (3 << 20) + 4096, (3 << 20) + 4097] {
            assert_eq!(told[at], expected(at), "{policy}: {at}");
        }
        // The page that was zeroed without a hole is stored, and the other page is not.
        client.request((BLOCK_STATUS, 0), 5, (0, BYTES as u32), &[]);
        let all = client.answer(0).data;
        let extents: Vec<(u32, u32)> = all
            .chunks(8)
            .map(|one| {
                [&one[..4], &one[4..]].map(|half| u32::from_be_bytes(half.try_into().unwrap()))
            })
            .map(|[len, flags]| (len, flags))
            .collect();
        assert_eq!(extents.iter().map(|(len, _)| u64::from(*len)).sum::<u64>(), BYTES);
        let mut at = 0;
        for (len, flags) in &extents {
            let stored = (2 << 20..(3 << 20) + 4097).contains(&at);
            assert!(!stored || *flags == 0, "{policy}: {extents:?}");
            at += u64::from(*len);
        }
        assert_eq!(
            extents.last().unwrap().1,
            3,
            "{policy}: the end was never written: {extents:?}"
        );
        client.request((BLOCK_STATUS, REQUEST_ONE), 6, (0, BYTES as u32), &[]);
        assert_eq!(client.answer(0).data.len(), 8);
    }
}

#[test]
fn invalid_requests_are_refused_and_harm_no_other_client() {
    let served = Served::new(|back| {
        let half = |name: &str, offset| Named {
            name: name.into(),
            offset,
            bytes: Some(BYTES / 2),
            ..Named::all(name)
        };
        back.exports = vec![half("low", 0), half("high", BYTES / 2)];
        back.exports[1].read_only = true;
    });
    let mut low = Client::simple(&served.socket(), "low");
    let data = pattern(9, 1024);
    assert_eq!(low.does((WRITE, 0), (BYTES / 2 - 512, 1024), &data), 28, "ENOSPC beyond its end");
    assert_eq!(low.does((READ, 0), (BYTES / 2 - 512, 1024), &[]), 22);
    assert_eq!(low.does((READ, 0), (u64::MAX - 3, 8), &[]), 22);
    assert_eq!(low.does((READ, 0), (0, 0), &[]), 22);
    assert_eq!(low.does((READ, 0), (0, (32 << 20) + 1), &[]), 22);
    assert_eq!(low.does((99, 0), (0, 1), &[]), 22);
    assert_eq!(low.does((WRITE, FAST_ZERO), (0, 1024), &data), 22, "a flag that is not a write's");
    assert_eq!(low.does((FLUSH, 0), (5, 0), &[]), 22);
    assert_eq!(low.does((BLOCK_STATUS, 0), (0, 512), &[]), 22, "not negotiated");
    let mut high = Client::simple(&served.socket(), "high");
    for kind in [WRITE_ZEROES, TRIM] {
        assert_eq!(high.does((kind, 0), (0, 1024), &[]), 1, "EPERM");
    }
    assert_eq!(high.does((WRITE, 0), (0, 1024), &data), 1);
    // After all these errors, both connections continue to work.
    low.write(0, &data);
    assert_eq!(low.read(0, 1024), data);
    assert_eq!(high.read(0, 1024), [0; 1024]);
    // Invalid bytes end only this connection.
    high.send(&[7; 28]);
    assert!(high.is_over());
    let mut long = Client::simple(&served.socket(), "low");
    long.request((WRITE, 0), 1, (0, u32::MAX), &[]);
    assert!(long.is_over());
    assert_eq!(low.read(0, 1024), data);
    assert!(served.stop()[..1024] == data);
}

#[test]
fn a_client_that_leaves_in_the_middle_or_does_not_read_harms_nobody() {
    let served = Served::new(|_| {});
    let mut steady = Client::simple(&served.socket(), "disk");
    steady.write(0, &pattern(4, 4096));
    let mut deaf = Client::simple(&served.socket(), "disk");
    for nth in 0..64 {
        // This client requests 64 MiB that it never reads.
        deaf.request((READ, 0), nth, (0, 1 << 20), &[]);
    }
    for _ in 0..20 {
        let mut leaving = Client::simple(&served.socket(), "disk");
        leaving.request((READ, 0), 1, (0, 4 << 20), &[]);
        leaving.request((WRITE, 0), 1, (65_536, 1 << 20), &[5; 1000]);
        drop(leaving);
        assert_eq!(steady.read(0, 4096), pattern(4, 4096));
    }
    // The incomplete request was not executed.
    assert_eq!(steady.read(65_536, 4096), [0; 4096]);
    let clients = || served.server.figures().backs[0].exports[0].clients;
    wait_until("clients that have left are counted", || clients() == 2);
    drop(deaf);
    served.stop();
}

#[test]
fn a_client_that_sends_garbage_is_disconnected_even_if_it_does_not_read() {
    let served = Served::new(|_| {});
    let mut steady = Client::simple(&served.socket(), "disk");
    let mut deaf = Client::simple(&served.socket(), "disk");
    for nth in 0..8 {
        deaf.request((READ, 0), nth, (0, 1 << 20), &[]);
    }
    deaf.send(&[7; 28]);
    // Only the client that is to be let go reads.
    let is_gone = || {
        let export = &served.server.figures().backs[0].exports[0];
        export.reads > 0 && export.clients == 1
    };
    wait_until("the client is still connected", is_gone);
    steady.write(0, &[1; 512]);
    drop(deaf);
    served.stop();
}

#[test]
fn a_policy_is_switched_under_load_and_nothing_is_lost() {
    let served = Served::new(|_| {});
    let socket = served.socket();
    let (over, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let (ends, counts) = (Arc::clone(&over), Arc::clone(&count));
    let thread = std::thread::spawn(move || {
        let mut client = Client::simple(&socket, "disk");
        while !ends.load(Ordering::Relaxed) {
            let nth = counts.fetch_add(1, Ordering::Relaxed);
            let (offset, data) = (u64::from(nth % 500) * 8192, pattern(nth as u8, 4096));
            client.write(offset, &data);
            assert!(client.read(offset, 4096) == data);
        }
    });
    for policy in ["mq-deadline", "bid", "promised:cmin=500", "forebay", "kyber", "noop"].repeat(3)
    {
        served.server.switch("disk", policy).unwrap();
        let before = count.load(Ordering::Relaxed);
        while count.load(Ordering::Relaxed) < before + 4 && !thread.is_finished() {
            std::thread::yield_now();
        }
    }
    let said = served.server.switch("disk", "nonsense").unwrap_err().to_string();
    assert!(said.contains("nonsense"), "{said}");
    assert!(
        served.server.switch("other", "noop").unwrap_err().to_string().contains("one of: disk")
    );
    over.store(true, Ordering::Relaxed);
    thread.join().unwrap();
    let figures = served.server.figures();
    assert_eq!((figures.backs[0].switches, &*figures.backs[0].policy), (18, "noop"));
    let [export] = &figures.backs[0].exports[..] else { panic!("one export") };
    assert_eq!((export.reads, export.failed), (export.writes, 0));
    served.stop();
}

#[test]
fn the_stream_setting_changes_for_connected_clients() {
    let folder = tempfile::tempdir().unwrap();
    holes(folder.path().join("disk"), BYTES);
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (file, socket) = (folder.path().join("c.toml"), folder.path().join("socket"));
    let configure = |streams: &str| {
        let text = format!(
            "socket = '{}'\n[[disk]]\nname = 'disk'\nfile = '{}'\npage_cache = true\n{streams}\n\
             trace = '{}'\n[[export]]\nname = 'disk'\non = 'disk'\n",
            at("socket"),
            at("disk"),
            at("asked.csv")
        );
        std::fs::write(&file, text).unwrap();
    };
    configure("");
    let server = Server::start(&forebay_serve::file::read(&file).unwrap()).unwrap();
    let mut clients = [0, 1].map(|_| Client::simple(&socket, "disk"));
    clients.iter_mut().for_each(|client| client.write(0, &pattern(1, 4096)));
    configure("streams = 'exports'");
    let reload = || client::order(&socket, &Command::Reload {}, &mut |_| ()).unwrap().to_string();
    assert!(reload().contains("'disk' has new promises, weights or streams now"));
    assert!(reload().contains("keeps its policy"), "it has it already");
    clients.iter_mut().for_each(|client| client.write(0, &pattern(1, 4096)));
    server.stop().unwrap();
    let text = std::fs::read_to_string(folder.path().join("asked.csv")).unwrap();
    let rows = text.lines().skip(1).map(|row| row.split(',').collect::<Vec<_>>());
    let mut streams: Vec<&str> =
        rows.filter(|row| row[1] == "write").map(|row| row[row.len() - 1]).collect();
    // The operating system decides which of the two connections is accepted first.
    streams[..2].sort_unstable();
    assert_eq!(streams, ["disk#1", "disk#2", "disk", "disk"]);
}

/// Returns the records of a trace.
fn records(path: &Path) -> Vec<Record> {
    let (mut reader, mut all) = (forebay_trace::open::open(path, None).unwrap(), Vec::new());
    let mut batch = Vec::new();
    loop {
        reader.read(&mut batch).unwrap();
        if batch.is_empty() {
            return all;
        }
        all.append(&mut batch);
    }
}

/// A model that records I/Os in the order in which it receives them.
#[derive(Default)]
struct Order(Vec<(Op, u64, u32)>);

impl Observer for Order {
    fn io(&mut self, done: &Completion) {
        self.0.push((done.io.op, done.io.offset, done.io.len));
    }
}

#[test]
fn a_simulation_of_the_recorded_requests_reproduces_the_disk_ios() {
    for policy in ["noop:merge=no", "mq-deadline", "clook"] {
        let folder = tempfile::tempdir().unwrap();
        let [came, issued] =
            ["came.parquet", "issued.parquet"].map(|name| folder.path().join(name));
        let path = folder.path().join("disk");
        holes(&path, BYTES);
        // Each request takes 20 ms, so all others arrive before the first one completes.
        let device = Box::new(forebay_devices::open("fixed:50").unwrap());
        let mut back = Back::of("", On::Emulated { path, device: device.clone(), flash: None });
        (back.policy, back.trace) = (policy.into(), Some(came.clone()));
        back.trace_issued = Some(issued.clone());
        let listen = vec![Address::Unix(folder.path().join("socket"))];
        let server = Server::start(&Config::of(listen, vec![back])).unwrap();
        let mut client = Client::structured(&folder.path().join("socket"), "");
        let request = |nth: u64| {
            // Some requests are adjacent, and some are writes.
            let (at, command) = (nth * 11 % 40 / 3 * 4096, if nth % 5 == 4 { WRITE } else { READ });
            let data = if command == WRITE { &[7; 4096][..] } else { &[] };
            encoded((command, 0), nth, (at, 4096), data)
        };
        // The server receives all of them together.
        client.send(&(0..24).flat_map(request).collect::<Vec<u8>>());
        (0..24).for_each(|_| assert_eq!(client.answer(0).errno, 0));
        server.stop().unwrap();
        let request = |(id, record): (usize, &Record)| {
            let Record { at, offset, len, stream, op, flags, .. } = *record;
            Request { at, offset, id: id as u64, len, stream, lane: 0, op, flags }
        };
        let requests: Vec<Request> = records(&came).iter().enumerate().map(request).collect();
        assert_eq!(requests.len(), 25, "the flush at the end too");
        let mut order = Order::default();
        let mut simulated = build(policy, Device::len_max(&device.model)).unwrap();
        let mut workload = Open::new(requests, Intensity::RECORDED);
        simulate::run(&mut *simulated, &mut [device.model], &mut workload, &mut order);
        let given: Vec<_> = records(&issued).iter().map(|io| (io.op, io.offset, io.len)).collect();
        assert_eq!(given, order.0, "{policy}");
        // Each I/O takes the time of the model.
        let moved = records(&issued).into_iter().filter(|io| io.op.moves_data());
        assert!(moved.map(|io| io.latency.unwrap()).all(|took| took >= Nanos::from_millis(20)));
    }
}

#[test]
fn a_socket_left_behind_is_replaced_and_a_live_one_is_not() {
    let served = Served::new(|_| {});
    let start = |path: &Path| {
        let disk = served.folder.path().join("other");
        holes(&disk, BYTES);
        let back = Back::of("", On::Target { path: disk, flash: None });
        Server::start(&Config::of(vec![Address::Unix(path.into())], vec![back]))
    };
    let said = start(&served.socket()).err().unwrap().to_string();
    assert!(said.contains("another server listens there"), "{said}");
    let left = served.folder.path().join("left");
    drop(std::os::unix::net::UnixListener::bind(&left).unwrap());
    let server = start(&left).unwrap();
    Client::simple(&left, "").write(0, &[1; 4096]);
    server.stop().unwrap();
    assert!(!left.exists());
    let said = start(&served.folder.path().join("other")).err().unwrap().to_string();
    assert!(said.contains("expected a path for a socket"), "{said}");
}

#[test]
fn hundreds_that_leave_in_the_middle_of_a_write_leave_nothing_behind() {
    let served = Served::new(|_| {});
    let mut steady = Client::simple(&served.socket(), "disk");
    // A client arrives while another disconnects, and the two are not confused.
    for nth in 0..800_usize {
        let mut leaving = Client::simple(&served.socket(), "disk");
        leaving.request((WRITE, 0), 1, (65_536, 1 << 20), &vec![5; 3000 * (nth % 2)]);
        if nth.is_multiple_of(100) {
            steady.write(0, &[nth as u8; 512]);
        }
    }
    assert_eq!(steady.read(65_536, 4096), [0; 4096]);
    served.stop();
}

/// Creates a server for an emulated disk.
fn emulated(device: &str, change: impl FnOnce(&mut Back)) -> Served {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    holes(&path, BYTES);
    let device = Box::new(forebay_devices::open(device).unwrap());
    let mut back = Back::of("disk", On::Emulated { path, device, flash: None });
    change(&mut back);
    let listen = vec![Address::Unix(folder.path().join("socket"))];
    let server = Server::start(&Config::of(listen, vec![back])).unwrap();
    Served { server, folder }
}

#[test]
fn promises_shrink_to_what_the_disk_is_measured_to_do() {
    // The disk can serve only half of the configured rate.
    let served = emulated("fixed:200", |back| {
        let promise = Some(Promise { iops: 300, within: Nanos::from_millis(50) });
        back.exports = vec![Named { promise, ..Named::all("disk") }];
        (back.capacity_iops, back.measures_capacity) = (Some(400), true);
    });
    let mut client = Client::simple(&served.socket(), "disk");
    let ask = |client: &mut Client, nth: u64| {
        client.request((READ, 0), nth, (nth * 37 % 2000 * 4096, 512), &[]);
    };
    (0..64).for_each(|nth| ask(&mut client, nth));
    // While a thread has to wait for a processor, less is measured.
    let is_measured = one_succeeds(|| {
        for nth in 64..400 {
            assert_eq!(client.answer(512).errno, 0);
            ask(&mut client, nth);
        }
        let pace = served.server.figures().backs[0].pace.unwrap();
        // The disk serves 200 requests per second, of which 20 are needed in addition, so 180 of
        // the promised 300 remain.
        (50.0..61.0).contains(&pace.percent)
            && pace.measured_iops.is_some_and(|iops| (195.0..201.0).contains(&iops))
    });
    let figures = served.server.figures();
    assert!(is_measured, "{:?}", figures.backs[0].pace);
    assert!(figures.page().contains("forebay_serve_measured_iops{back=\"disk\"}"));
    (0..64).for_each(|_| assert_eq!(client.answer(512).errno, 0));
    served.stop();
}

/// Returns how many requests of a promise of 40 IOPS within 500 ms are overdue on this disk, 2 s after
/// a client sent 200 reads, and how many were answered late. Returns `None` if all were answered.
fn overdue_on(device: &str) -> Option<(u64, u64)> {
    let served = emulated(device, |back| {
        let promise = Some(Promise { iops: 40, within: Nanos::from_millis(500) });
        back.exports = vec![Named { promise, ..Named::all("disk") }];
        back.capacity_iops = Some(100);
    });
    let mut client = Client::simple(&served.socket(), "disk");
    (0..200).for_each(|nth| client.request((READ, 0), nth, (nth * 4096, 512), &[]));
    std::thread::sleep(std::time::Duration::from_secs(2));
    let export = served.server.figures().backs.remove(0).exports.remove(0);
    drop(client);
    served.stop();
    let waits = export.under_way > 0 && export.oldest_request_s > 1.5;
    waits.then(|| (export.overdue, export.kept - export.kept_in_time))
}

#[test]
fn requests_beyond_a_promise_may_wait_and_those_within_it_are_overdue() {
    assert!(one_succeeds(|| overdue_on("fixed:80") == Some((0, 0))));
    // The promise covers 20 requests within 500 ms, and the disk has served some of them.
    let is_expected = |(overdue, late): (u64, u64)| (12..=24).contains(&overdue) && late <= 8;
    assert!(one_succeeds(|| overdue_on("fixed:2").is_some_and(is_expected)));
}

#[test]
fn requests_before_a_disconnect_command_are_completed() {
    let served = emulated("fixed:200", |_| {});
    let mut leaving = Client::simple(&served.socket(), "disk");
    for nth in 0..60 {
        leaving.request((WRITE, 0), nth, (nth * 65_536, 4096), &pattern(nth as u8, 4096));
    }
    leaving.request((DISCONNECT, 0), 0, (0, 0), &[]);
    drop(leaving);
    let mut other = Client::simple(&served.socket(), "disk");
    // The next request is handled after all earlier ones.
    for _ in 0..2 {
        other.does((FLUSH, 0), (0, 0), &[]);
    }
    drop(other);
    let writes = || served.server.figures().backs[0].disks[0].writes;
    wait_until("requests before a disconnect are lost", || writes() >= 60);
    let file = served.stop();
    for nth in 0..60 {
        assert!(file[nth * 65_536..][..4096] == pattern(nth as u8, 4096), "write {nth}");
    }
}

/// Returns how many of `count` reads the disk serves if their client vanishes. Each takes 50 ms.
fn read_for_nobody(count: u64, policy: &str) -> u64 {
    let served = emulated("fixed:20", |back| back.policy = policy.into());
    let mut steady = Client::simple(&served.socket(), "disk");
    let mut flooding = Client::simple(&served.socket(), "disk");
    flooding.write(0, &pattern(5, 4096));
    for nth in 0..count {
        flooding.request((READ, 0), nth, (65_536 + nth * 8192, 4096), &[]);
    }
    for nth in 0..8 {
        let at = 4 << 20 | nth << 13;
        flooding.request((WRITE, 0), nth, (at, 4096), &pattern(6, 4096));
    }
    drop(flooding);
    // The acknowledged data can be read.
    assert!(steady.read(0, 4096) == pattern(5, 4096));
    let figures = served.server.figures();
    assert_eq!(figures.backs[0].exports[0].failed, 0);
    served.stop();
    figures.backs[0].disks[0].reads
}

#[test]
fn unstarted_requests_of_vanished_clients_are_dropped() {
    // Sends more, and fewer, requests than may be outstanding.
    for (count, policy) in
        [(400, "noop"), (200, "mq-deadline"), (200, "promised:cmin=100:over=noop")]
    {
        assert!(one_succeeds(|| read_for_nobody(count, policy) < 60), "{policy}");
    }
}

#[test]
fn ios_that_fail_are_told_once_and_counted() {
    let served = Served::new(|_| {});
    let mut client = Client::simple(&served.socket(), "disk");
    let path = served.folder.path().join("disk");
    File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
    for nth in 0..30 {
        assert_eq!(client.does((READ, 0), (nth * 4096, 4096), &[]), 5, "EIO");
    }
    drop(client);
    let (mut said, rest) = (served.server.said(), served.server.end());
    rest.1.unwrap();
    said.extend(rest.0);
    said.retain(|line| !is_of_a_busy_machine(line));
    let disk = path.display();
    let first = format!(
        "'disk': error: {disk}: a read of 4096 bytes at 0 failed: fewer bytes transferred than requested"
    );
    assert_eq!(said.first(), Some(&first));
    assert!(said.len() < 30, "{said:?}");
    assert!(said.iter().skip(1).any(|line| line.contains(" more ")), "{said:?}");
}
