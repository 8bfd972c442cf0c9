//! Tests `forebay serve` with hostile clients that flood it, stall, or connect by the hundreds. It
//! must continue to serve others, and its memory use must be bounded.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::served::{Folder, Serving};
use forebay_rig::nbd::{BLOCK_STATUS, Client, FLUSH, READ, WRITE, encoded};
use forebay_rig::{PATIENCE, one_succeeds, wait_until};

const MIB: u64 = 1 << 20;

fn started(words: &[&str]) -> (Folder, Serving) {
    let folder = Folder::new();
    folder.holes("disk", 8 * MIB);
    let serving = Serving::start(&folder, &[&["disk", "--buffered"], words].concat());
    (folder, serving)
}

/// Checks that a well-behaved client is served as usual.
fn served_well(client: &mut Client, nth: u8) {
    client.write(4096, &[nth; 512]);
    assert_eq!(client.read(4096, 512), [nth; 512]);
}

/// Sends data until the server has accepted nothing for a while. Returns the number of bytes sent.
fn floods(stream: &mut UnixStream, bytes: &[u8], most: usize) -> usize {
    stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut sent = 0;
    while sent < most {
        match stream.write(&bytes[sent % bytes.len()..]) {
            Ok(count) => sent += count,
            Err(_) => break,
        }
    }
    sent
}

#[test]
fn clients_that_flood_without_reading_are_throttled() {
    let (folder, serving) = started(&[]);
    let mut steady = Client::simple(&folder.socket(), "");
    served_well(&mut steady, 1);
    let before = serving.memory_kib("VmRSS:");
    // Requests whose answers are longer than the requests themselves, requests that fail, and
    // requests that cost nothing.
    for (kind, at) in [
        ((BLOCK_STATUS, 0), (0, 8 << 20)),
        ((FLUSH, 0), (1, 1)),
        ((99, 0), (0, 0)),
        ((READ, 0), (0, 512)),
    ] {
        let mut client = Client::structured(&folder.socket(), "");
        let one = encoded(kind, 7, at, &[]);
        let sent = floods(&mut client.stream, &one.repeat(4096), 64 << 20);
        assert!(sent < 4 << 20, "{kind:?}: {sent} bytes were taken of one that does not read");
        served_well(&mut steady, 2);
        // All accepted requests are answered once the client reads.
        for _ in 0..256 {
            client.answer(0);
        }
    }
    let after = serving.memory_kib("VmHWM:");
    assert!(after < before + (64 << 10), "{before} KiB before, {after} at most");
    served_well(&mut steady, 3);
    serving.stop();
}

#[test]
fn memory_is_bounded_by_the_outstanding_requests_of_each_client() {
    let (folder, serving) = started(&[]);
    // Each of eight clients sends 128 reads of 1 MiB. The server accepts 64 MiB from each at a
    // time.
    let count = 8;
    let mut clients: Vec<Client> =
        (0..count).map(|_| Client::simple(&folder.socket(), "")).collect();
    let before = serving.memory_kib("VmRSS:");
    for client in &mut clients {
        let all = encoded((READ, 0), 7, (0, 1 << 20), &[]).repeat(128);
        assert_eq!(floods(&mut client.stream, &all, all.len()), all.len());
    }
    let mut steady = Client::simple(&folder.socket(), "");
    served_well(&mut steady, 1);
    let most = serving.memory_kib("VmHWM:");
    let bound = before + count * (66 << 10);
    assert!(most < bound, "{before} KiB before, {most} at most, {bound} allowed");
    // Clients that begin to read receive their answers.
    for client in &mut clients[..2] {
        for _ in 0..128 {
            assert_eq!(client.answer(1 << 20).errno, 0);
        }
    }
    drop(clients);
    served_well(&mut steady, 2);
    // The server frees the memory of these clients, except for buffers that the next clients will
    // use.
    wait_until("memory is not freed", || serving.memory_kib("VmRSS:") <= before + (300 << 10));
    serving.stop();
}

/// Reads the answers to `count` reads of 1 MiB; returns false if the server disconnects the client.
fn is_answered(client: &mut Client, count: u64) -> bool {
    let mut answer = vec![0; 16 + (1 << 20)];
    (0..count).all(|_| match client.stream.read_exact(&mut answer) {
        Ok(()) => {
            assert_eq!(answer[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0]);
            true
        }
        Err(error) => {
            assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "no answer");
            false
        }
    })
}

/// Returns how many clients the server disconnected, according to its messages, of which there must be
/// no others.
fn disconnected(said: &str) -> u64 {
    let clients = |line: &str| {
        assert!(line.contains("disconnected, after not reading answers"), "{said}");
        let count = line.split(" client").next().unwrap().rsplit(' ').next().unwrap();
        count.parse::<u64>().unwrap()
    };
    said.lines().map(clients).sum()
}

#[test]
fn many_clients_that_do_not_read_share_the_memory_of_a_few() {
    let (folder, serving) = started(&[]);
    let mut clients: Vec<Client> = (0..40).map(|_| Client::simple(&folder.socket(), "")).collect();
    let before = serving.memory_kib("VmRSS:");
    for client in &mut clients {
        let all = encoded((READ, 0), 7, (0, 1 << 20), &[]).repeat(64);
        assert_eq!(floods(&mut client.stream, &all, all.len()), all.len());
    }
    let mut steady = Client::simple(&folder.socket(), "");
    served_well(&mut steady, 1);
    // One GiB plus one request per client, rather than 40 times 64 MiB.
    let most = serving.memory_kib("VmHWM:");
    assert!(most < before + (1100 << 10), "{before} KiB before, {most} at most");
    // All clients receive their answers once they read, even if their requests were not accepted at
    // first. On a slow machine, clients may have been disconnected because others waited for memory.
    let last = clients.iter_mut().rev().take(4);
    let gone = last.map(|client| u64::from(!is_answered(client, 64))).sum::<u64>();
    served_well(&mut steady, 2);
    serving.signal("-INT");
    let (status, said) = serving.ends();
    assert_eq!(status, Some(0), "{said}");
    assert!(gone <= disconnected(&said), "{gone} clients were disconnected: {said}");
}

/// Returns the longest time for which a client is served while many others stall and hold memory.
fn beside_stalled_clients() -> Duration {
    let folder = Folder::new();
    folder.holes("disk", 8 * MIB);
    let text = "socket = \"socket\"\nmemory = \"64MiB\"\n[[disk]]\nname = \"data\"\n\
                file = \"disk\"\npage_cache = true\n";
    folder.file("serve.toml", text);
    let serving = Serving::start(&folder, &["serve.toml"]);
    let connect = || Client::simple(&folder.socket(), "data");
    let mut steady = connect();
    served_well(&mut steady, 1);
    let before = serving.memory_kib("VmRSS:");
    let mut clients: Vec<Client> = (0..214).map(|_| connect()).collect();
    for (nth, client) in clients.iter_mut().enumerate() {
        client.stream.set_write_timeout(Some(Duration::from_millis(20))).unwrap();
        let all = match nth < 64 {
            // Half of a write of 4 MiB.
            true => encoded((WRITE, 0), 7, (0, 4 << 20), &vec![0; 2 << 20]),
            false => encoded((READ, 0), 7, (0, 1 << 20), &[]).repeat(64),
        };
        // The server does not take all of it.
        let _ = client.stream.write_all(&all);
    }
    let took = |nth| {
        let begun = Instant::now();
        served_well(&mut steady, nth);
        begun.elapsed()
    };
    let longest = (0..20).map(took).max().unwrap();
    let most = serving.memory_kib("VmHWM:");
    assert!(most < before + (96 << 10), "{before} KiB before, {most} at most");
    drop(clients);
    wait_until("memory is not freed", || serving.memory_kib("VmRSS:") <= before + (16 << 10));
    served_well(&mut steady, 3);
    serving.signal("-INT");
    assert_eq!(serving.ends().0, Some(0));
    longest
}

#[test]
fn memory_held_by_stalled_and_slow_clients_is_limited_and_released() {
    // After 10 s, the clients that stall are disconnected, so others no longer wait for them.
    assert!(one_succeeds(|| beside_stalled_clients() < Duration::from_secs(5)));
}

#[test]
fn stalled_handshakes_do_not_block_other_clients() {
    let (folder, serving) = started(&[]);
    // There are more clients than may be in a handshake at the same time. Each sends another byte
    // in every round.
    let mut stalled: Vec<UnixStream> =
        (0..100).map(|_| UnixStream::connect(folder.socket()).unwrap()).collect();
    for round in 0..4_u8 {
        for stream in &mut stalled {
            // Writing fails for clients that were disconnected to make room for others.
            let _ = stream.write(&[0, 0, 0, 3][usize::from(round)..=usize::from(round)]);
        }
        let begun = Instant::now();
        let mut client = Client::simple(&folder.socket(), "");
        served_well(&mut client, round);
        // A stalled handshake ends after a minute.
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(50), "{took:?} to get in");
    }
    // Some of the first clients were disconnected, while the last ones are still in the middle of
    // their handshakes.
    let goes_on = |stream: &mut UnixStream| {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // If a client is disconnected while it has unread data, its connection is reset.
        let greeted = stream.read_exact(&mut [0; 18]).is_ok();
        stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let next = stream.read(&mut [0]).map_err(|error| error.kind());
        greeted && next == Err(std::io::ErrorKind::WouldBlock)
    };
    assert!(!goes_on(&mut stalled[0]));
    assert!(goes_on(&mut stalled[99]));
    serving.stop();
}

#[test]
fn clients_beyond_the_limit_are_disconnected_and_others_unaffected() {
    let (folder, serving) = started(&[]);
    let mut clients: Vec<Client> = (0..256).map(|_| Client::simple(&folder.socket(), "")).collect();
    for (nth, client) in clients.iter_mut().enumerate() {
        client.write(nth as u64 * 512, &[nth as u8; 512]);
    }
    for _ in 0..44 {
        let mut refused = Client::simple(&folder.socket(), "");
        assert!(refused.is_over());
    }
    for (nth, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.read(nth as u64 * 512, 512), [nth as u8; 512]);
    }
    // For each client that leaves, another can connect.
    clients.truncate(200);
    wait_until("nobody gets in any more", || {
        let mut client = Client::simple(&folder.socket(), "");
        // The server may have closed the connection before anything is sent.
        let is_sent = client.try_request((READ, 0), 1, (0, 512), &[]).is_ok();
        is_sent && !client.is_over()
    });
    serving.signal("-INT");
    let (status, said) = serving.ends();
    assert!(status == Some(0) && said.lines().all(is_refusal), "{said}");
}

/// Returns whether a message says that more clients came than a disk serves.
fn is_refusal(line: &str) -> bool {
    line.contains("refused, because 256 are connected")
}

#[test]
fn clients_that_disconnect_or_send_garbage_leave_no_resources() {
    let (folder, serving) = started(&["--policy", "forebay"]);
    let mut steady = Client::simple(&folder.socket(), "");
    served_well(&mut steady, 1);
    let descriptors =
        || std::fs::read_dir(format!("/proc/{}/fd", serving.child.id())).unwrap().count();
    let before = descriptors();
    for nth in 0..300_u32 {
        let mut client = Client::simple(&folder.socket(), "");
        let bytes = match nth % 6 {
            0 => vec![nth as u8; 27],
            1 => vec![nth as u8; 5000],
            2 => encoded((WRITE, 0), 1, (4096, 1 << 20), &[9; 3000]),
            3 => encoded((READ, 0), 1, (0, 1 << 20), &[]).repeat(99),
            4 => {
                let _ = client.stream.shutdown(std::net::Shutdown::Write);
                continue;
            }
            _ => encoded((WRITE, 0), 1, (0, u32::MAX), &[]),
        };
        // The server may close the connection before everything was sent.
        let _ = client.stream.write_all(&bytes);
    }
    served_well(&mut steady, 2);
    wait_until("descriptors are left open", || descriptors() <= before);
    served_well(&mut steady, 3);
    serving.signal("-INT");
    let (status, said) = serving.ends();
    assert!(status == Some(0) && said.lines().all(is_refusal), "{said}");
}
