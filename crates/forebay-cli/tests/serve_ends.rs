//! Tests how `forebay serve` ends and which data survives: if it is killed while a client writes,
//! if it is interrupted under load, if the disk is full, and if it cannot even start.
//!
//! Killing the server loses only its own memory, not the page cache. The test therefore detects
//! premature acknowledgments but not missing flushes. `make kill-serve ROUNDS=100` kills it more
//! often.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::process::Command;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::served::{Folder, Serving, does, ran, serve, skipped};
use forebay_rig::PATIENCE;
use forebay_rig::nbd::{Client, FLUSH, FUA, READ, WRITE, WRITE_ZEROES};

const BLOCK: u64 = 4096;
const BLOCKS: u64 = 256;

/// Returns the content of a block, which identifies the write.
fn block(stamp: u64) -> Vec<u8> {
    stamp.to_le_bytes().repeat(BLOCK as usize / 8)
}

/// What the writer knows about a block: the write that must survive, and the later ones that may.
#[derive(Default)]
struct Known {
    promised: u64,
    later: Vec<u64>,
}

impl Known {
    /// Checks that the block found after a kill is the content of one of these writes. From then
    /// on, this write must survive.
    fn settle(&mut self, found: &[u8]) {
        let stamp = u64::from_le_bytes(found[..8].try_into().unwrap());
        assert!(found == block(stamp), "a block is a mixture of writes");
        let is_known = stamp == self.promised || self.later.contains(&stamp);
        assert!(
            is_known,
            "{stamp} is there, {} was promised, then {:?}",
            self.promised, self.later
        );
        *self = Known { promised: stamp, later: Vec::new() };
    }
}

/// Writes until the connection ends, with several writes outstanding, and records which writes must
/// survive; reports each round of writes that was answered.
fn writes(
    mut client: Client,
    stamps: &mut u64,
    known: &mut BTreeMap<u64, Known>,
    answered: &Sender<()>,
) {
    loop {
        let mut sent = Vec::new();
        for nth in 0..8 {
            *stamps += 1;
            let at = (*stamps * 37 + nth * 11) % BLOCKS;
            if sent.iter().any(|(other, _, _)| *other == at) {
                continue;
            }
            let flags = if stamps.is_multiple_of(5) { FUA } else { 0 };
            known.entry(at).or_default().later.push(*stamps);
            sent.push((at, *stamps, flags));
            let place = (at * BLOCK, BLOCK as u32);
            let asked = client.try_request((WRITE, flags), *stamps, place, &block(*stamps));
            if asked.is_err() {
                return;
            }
        }
        for _ in 0..sent.len() {
            let Some((cookie, errno)) = answer(&mut client) else { return };
            assert_eq!(errno, 0);
            let (at, stamp, flags) = sent.iter().find(|one| one.1 == cookie).unwrap();
            if *flags == FUA {
                promise(known.get_mut(at).unwrap(), *stamp);
            }
        }
        // The receiver is gone once it has decided when to kill the server.
        let _ = answered.send(());
        if stamps.is_multiple_of(3) {
            if client.try_request((FLUSH, 0), u64::MAX, (0, 0), &[]).is_err() {
                return;
            }
            let Some((_, errno)) = answer(&mut client) else { return };
            assert_eq!(errno, 0);
            for one in known.values_mut() {
                if let Some(last) = one.later.last().copied() {
                    promise(one, last);
                }
            }
        }
    }
}

/// Records that a write is durable, so that older content must not reappear.
fn promise(known: &mut Known, stamp: u64) {
    known.promised = stamp;
    known.later.retain(|later| *later > stamp);
}

/// Returns the cookie and the error of a simple reply, or `None` if the server is gone.
fn answer(client: &mut Client) -> Option<(u64, u32)> {
    use std::io::Read;
    let mut bytes = [0; 16];
    client.stream.read_exact(&mut bytes).ok()?;
    let errno = u32::from_be_bytes(bytes[4..8].try_into().unwrap());
    Some((u64::from_be_bytes(bytes[8..].try_into().unwrap()), errno))
}

/// Kills a server `rounds` times while a client writes. Returns the number of writes.
fn killed(rounds: u64, words: &[&str]) -> u64 {
    let folder = Folder::new();
    folder.holes("disk", BLOCK * BLOCKS);
    let words = [&["disk"], words].concat();
    let (mut stamps, mut known) = (0, BTreeMap::<u64, Known>::new());
    for round in 0..rounds {
        // The killed server left its socket behind.
        assert_eq!(folder.socket().exists(), round > 0);
        let mut serving = Serving::start(&folder, &words);
        let mut client = Client::simple(&folder.socket(), "");
        for (at, known) in &mut known {
            known.settle(&client.read(at * BLOCK, BLOCK as u32));
        }
        let pid = serving.child.id().to_string();
        let (answered, rounds_answered) = channel();
        let killer = thread::spawn(move || {
            // The first server is killed only after it has promised something.
            if round == 0 {
                let _ = rounds_answered.recv_timeout(PATIENCE);
            }
            thread::sleep(Duration::from_millis(20 + round * 37 % 180));
            Command::new("kill").args(["-KILL", &pid]).status().unwrap()
        });
        writes(client, &mut stamps, &mut known, &answered);
        assert!(killer.join().unwrap().success());
        serving.child.wait().unwrap();
    }
    let disk = folder.read("disk");
    for (at, known) in &mut known {
        let at = (at * BLOCK) as usize;
        known.settle(&disk[at..at + BLOCK as usize]);
    }
    assert!(known.values().any(|known| known.promised > 0), "nothing was ever promised");
    stamps
}

#[test]
fn flushed_data_survive_kill_9() {
    for words in [&[][..], &["--buffered", "--policy", "forebay"], &["--emulate", "fixed:20000"]] {
        killed(4, words);
    }
}

#[test]
#[ignore = "long; make kill-serve"]
fn flushed_data_survive_kill_9_many_times() {
    let rounds = std::env::var("FOREBAY_KILLED_ROUNDS").map_or(100, |text| text.parse().unwrap());
    for words in [&[][..], &["--buffered", "--policy", "mq-deadline"], &["--policy", "forebay"]] {
        let writes = killed(rounds, words);
        println!("{words:?}: {rounds} rounds, {writes} writes: all that was promised was there");
    }
}

#[test]
fn an_interruption_under_load_finishes_pending_requests() {
    let folder = Folder::new();
    folder.holes("disk", 8 << 20);
    let serving =
        Serving::start(&folder, &["disk", "--emulate", "fixed:500", "--policy", "forebay"]);
    let mut client = Client::simple(&folder.socket(), "");
    let count = 100;
    for nth in 0..count {
        client.request((WRITE, 0), nth, (nth * BLOCK, BLOCK as u32), &block(nth + 1));
    }
    // After the first answer, all other requests are still outstanding or on their way.
    let first = client.answer(0);
    serving.signal("-INT");
    let mut answered = vec![first.cookie];
    while let Some((cookie, errno)) = answer(&mut client) {
        assert_eq!(errno, 0);
        answered.push(cookie);
    }
    assert_eq!(serving.ends(), (Some(0), String::new()));
    assert!(!folder.socket().exists());
    let disk = folder.read("disk");
    for cookie in &answered {
        let at = (cookie * BLOCK) as usize;
        assert!(
            disk[at..at + BLOCK as usize] == block(cookie + 1),
            "{cookie} was answered and is not there"
        );
    }
    // Several of the accepted requests were answered.
    answered.sort_unstable();
    answered.dedup();
    assert!(answered.len() > 1, "{answered:?}");
}

/// At most ten of the eleven writes find a token in the bucket; the others must wait for new
/// tokens, of which there are 100 per second.
#[test]
fn an_emulated_volume_answers_no_faster_than_its_limit() {
    let folder = Folder::new();
    folder.holes("disk", 8 << 20);
    let begun = std::time::Instant::now();
    let _serving = Serving::start(&folder, &["disk", "--emulate", "iotune:write-iops-sec=100"]);
    let mut client = Client::simple(&folder.socket(), "");
    for nth in 0..41 {
        // The writes are not adjacent, so that they are not merged.
        client.request((WRITE, 0), nth, (2 * nth * BLOCK, BLOCK as u32), &block(nth + 1));
    }
    let mut answers: Vec<u64> = (0..41).map(|_| client.answer(0).cookie).collect();
    answers.sort_unstable();
    assert_eq!(answers, (0..41).collect::<Vec<u64>>());
    assert!(begun.elapsed().as_millis() >= 300, "{:?}", begun.elapsed());
}

#[test]
fn a_second_interruption_ends_the_server_at_once() {
    let folder = Folder::new();
    folder.holes("disk", 8 << 20);
    // One I/O per second, with 200 outstanding.
    let mut serving = Serving::start(&folder, &["disk", "--emulate", "fixed:1"]);
    let mut client = Client::simple(&folder.socket(), "");
    for nth in 0..200 {
        client.request((WRITE, 0), nth, (nth * BLOCK, BLOCK as u32), &block(1));
    }
    client.answer(0);
    let begun = Instant::now();
    // The server may take two interruptions for one if it has not noticed the first one yet.
    while serving.child.try_wait().unwrap().is_none() {
        serving.signal("-INT");
        thread::sleep(Duration::from_millis(300));
    }
    assert_eq!(serving.ends().0, Some(130));
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    // Files that were left behind do not prevent the next start.
    Serving::start(&folder, &["disk"]).stop();
}

#[test]
fn a_client_that_does_not_read_delays_the_end_by_a_few_seconds_only() {
    let folder = Folder::new();
    folder.holes("disk", 8 << 20);
    let serving = Serving::start(&folder, &["disk", "--buffered"]);
    let mut deaf = Client::simple(&folder.socket(), "");
    for nth in 0..16 {
        deaf.request((READ, 0), nth, (0, 1 << 20), &[]);
    }
    let mut client = Client::simple(&folder.socket(), "");
    client.write(0, &block(1));
    let begun = Instant::now();
    serving.stop();
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
}

#[test]
fn the_server_ends_although_its_socket_was_removed_or_replaced() {
    let folder = Folder::new();
    folder.holes("disk", 1 << 20);
    folder.holes("other", 1 << 20);
    let first = Serving::start(&folder, &["disk"]);
    fs::remove_file(folder.socket()).unwrap();
    let second = Serving::start(&folder, &["other"]);
    first.stop();
    // The second server must not remove the socket of the first.
    let mut client = Client::simple(&folder.socket(), "");
    client.write(0, &block(1));
    second.stop();
    assert!(!folder.socket().exists());
    let third = Serving::start(&folder, &["disk"]);
    fs::remove_file(folder.socket()).unwrap();
    third.stop();
}

#[test]
fn two_servers_do_not_share_a_file() {
    let folder = Folder::new();
    folder.holes("disk", 1 << 20);
    let serving = Serving::start(&folder, &["disk"]);
    refused(&folder, &["disk", "--socket", "second"], &["disk", "another process", "fuser -v "]);
    refused(&folder, &["disk", "--read-only", "--socket", "second"], &["another process"]);
    refused(&folder, &["disk", "--socket", "socket"], &["socket", "another server listens there"]);
    serving.stop();
    // Read-only servers can share a file.
    let first = Serving::start(&folder, &["disk", "--read-only"]);
    let mut second = Serving::start(&folder, &["disk", "--read-only", "--tcp", "127.0.0.1:0"]);
    second.says("no Unix socket");
    first.stop();
    second.stop();
}

#[test]
fn a_full_disk_is_reported_and_the_server_continues() {
    let folder = Folder::new();
    fs::create_dir(folder.path("small")).unwrap();
    let mount = ["-t", "tmpfs", "-o", "size=2m", "none", "small"];
    if !ran(&folder, "mount", &mount).status.success() {
        return skipped("a tmpfs cannot be mounted here");
    }
    let unmounted = Unmounted(&folder);
    for (policy, options) in
        [("noop", &["--buffered"][..]), ("forebay", &["--emulate", "fixed:20000"])]
    {
        let disk = folder.holes("small/disk", 8 << 20);
        let words = [&["small/disk", "--policy", policy], options].concat();
        let serving = Serving::start(&folder, &words);
        let mut client = Client::simple(&folder.socket(), "");
        let outcomes: Vec<u32> = (0..8)
            .map(|nth| client.does((WRITE, 0), (nth << 20, 1 << 20), &vec![5; 1 << 20]))
            .collect();
        assert_eq!(outcomes[0], 0, "{policy}");
        assert!(outcomes.contains(&28), "{policy}: {outcomes:?}");
        assert!(outcomes.iter().all(|errno| [0, 28].contains(errno)), "{policy}: {outcomes:?}");
        // The volume stays readable, and space that is freed can be used again.
        assert_eq!(client.read(0, 512), [5; 512]);
        assert_eq!(client.does((FLUSH, 0), (0, 0), &[]), 0);
        assert_eq!(client.does((WRITE_ZEROES, 0), (0, 1 << 20), &[]), 0);
        assert_eq!(client.does((WRITE, 0), (7 << 20, 65_536), &[6; 65_536]), 0);
        assert_eq!(client.read(7 << 20, 512), [6; 512]);
        serving.signal("-INT");
        let (code, said) = serving.ends();
        assert_eq!(code, Some(0), "{said}");
        let is_one = |line: &str| line.contains("small/disk: ") && line.contains("No space left");
        // At least six writes fail. Repeated failures are reported every 10 s.
        assert!(said.lines().all(is_one) && (1..=5).contains(&said.lines().count()), "{said}");
        fs::remove_file(disk).unwrap();
    }
    drop(unmounted);
}

#[test]
fn a_volume_without_space_for_records_is_refused_with_the_reason() {
    let folder = Folder::new();
    fs::create_dir(folder.path("v")).unwrap();
    (1..=6).for_each(|nth| drop(folder.holes(&format!("v/{nth}"), 32 << 20)));
    let mut create = Command::new(assert_cmd::cargo::cargo_bin!("forebay"));
    let create = create.args(["volume", "create", "v"]).current_dir(folder.path(""));
    assert!(create.output().unwrap().status.success());
    let config = "socket = \"socket\"\n[[volume]]\nname = \"safe\"\ndrives = [\"v\"]\n";
    fs::write(folder.path("serve.toml"), config).unwrap();
    // There is only enough space for the labels of the drives.
    let limited = "ulimit -f 16 && exec \"$0\" serve serve.toml";
    let mut command = Command::new("sh");
    command.args(["-c", limited]).arg(assert_cmd::cargo::cargo_bin!("forebay"));
    let output = command.current_dir(folder.path("")).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    let full = "it could not be opened: the file system below its disks is full (ENOSPC)";
    assert!(said.contains("'safe': ") && said.contains(full), "{said}");
}

struct Unmounted<'a>(&'a Folder);

impl Drop for Unmounted<'_> {
    fn drop(&mut self) {
        ran(self.0, "umount", &["-l", "small"]);
    }
}

/// Asserts that the server does not start, exits with status 2 and one message that contains all
/// `parts`, and leaves no socket.
fn refused(folder: &Folder, words: &[&str], parts: &[&str]) {
    let output = serve(folder, words).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
    assert!(output.stdout.is_empty());
    let is_one = said.lines().count() == 1 && said.starts_with("forebay: ");
    assert!(is_one, "{words:?}: {said}");
    parts.iter().for_each(|part| assert!(said.contains(part), "{words:?}: no {part:?} in: {said}"));
    if let [.., "--socket", path] = words
        && *path != "socket"
    {
        assert!(!folder.path(path).exists(), "{words:?}: a socket is left");
    }
}

#[test]
fn unservable_files_are_reported_in_one_message() {
    let folder = Folder::new();
    folder.holes("disk", 1 << 20);
    folder.holes("empty", 0);
    fs::create_dir(folder.path("folder")).unwrap();
    does(&folder, "mkfifo", &["fifo"]);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let long = format!("{}/socket", "x".repeat(120));
    let at = ["--socket", "a"];
    for (words, parts) in [
        (&["none"][..], &["none", "no such file", "truncate"][..]),
        (&["folder"], &["folder", "is empty", "the drives of a volume"]),
        (&["fifo"], &["fifo"]),
        (&["empty"], &["empty"]),
        (&["disk", "--policy", "nonsense"], &["nonsense"]),
        (&["disk", "--policy", "cache:size-mib=1"], &["cache"]),
        (&["disk", "--emulate", "nonsense"], &["nonsense"]),
        (&["disk", "--depth", "0"], &["depth"]),
    ] {
        refused(&folder, &[words, &at].concat(), parts);
    }
    refused(&folder, &["disk"], &["--socket"]);
    refused(&folder, &["disk", "--tcp", &taken], &[&taken, "in use"]);
    refused(&folder, &["disk", "--tcp", "0.0.0.0:0"], &["0.0.0.0:0", "loopback", "nbdkit"]);
    refused(&folder, &["disk", "--tcp", "[::]:0"], &["[::]:0", "loopback"]);
    refused(&folder, &["disk", "--tcp", "localhost"], &["localhost"]);
    refused(&folder, &["disk", "--socket", &long], &[&long]);
    refused(&folder, &["disk", "--socket", "missing/socket"], &["missing/socket", "No such file"]);
    // The server must not replace a file that is not a socket.
    fs::write(folder.path("kept"), "words").unwrap();
    let output = serve(&folder, &["disk", "--socket", "kept"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(fs::read(folder.path("kept")).unwrap(), b"words");
    // Nothing was written to the disk.
    assert!(folder.read("disk").iter().all(|byte| *byte == 0));
}

#[test]
fn missing_file_permission_is_reported() {
    let folder = Folder::new();
    folder.holes("disk", 1 << 20);
    // Root is permitted everything, so run as another user.
    let binary = assert_cmd::cargo::cargo_bin!("forebay");
    does(&folder, "chmod", &["755", "."]);
    does(&folder, "chmod", &["600", "disk"]);
    let words = ["--reuid=65534", "--clear-groups", "--regid=65534", binary.to_str().unwrap()];
    let probe = ran(&folder, "setpriv", &[&words[..], &["--version"]].concat());
    if !probe.status.success() {
        return skipped("nobody else can run the command here");
    }
    let output =
        ran(&folder, "setpriv", &[&words[..], &["serve", "disk", "--socket", "a"]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.lines().count() == 1 && said.to_lowercase().contains("permission denied"),
        "{said}"
    );
}

#[test]
fn a_check_finds_folders_in_which_the_server_may_not_create_files() {
    let folder = Folder::new();
    folder.holes("disk", 1 << 20);
    // Root is permitted everything, so run as another user, who owns the folder `mine`.
    let binary = assert_cmd::cargo::cargo_bin!("forebay");
    does(&folder, "chmod", &["755", "."]);
    does(&folder, "chmod", &["666", "disk"]);
    fs::create_dir(folder.path("mine")).unwrap();
    fs::create_dir(folder.path("theirs")).unwrap();
    does(&folder, "chmod", &["777", "mine"]);
    let words = ["--reuid=65534", "--clear-groups", "--regid=65534", binary.to_str().unwrap()];
    if !ran(&folder, "setpriv", &[&words[..], &["--version"]].concat()).status.success() {
        return skipped("nobody else can run the command here");
    }
    let run = |more: &[&str]| {
        let output = ran(&folder, "setpriv", &[&words[..], &["serve", "c.toml"], more].concat());
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let disk = "[[disk]]\nname = 'data'\nfile = 'disk'\npage_cache = true\n";
    let mine = format!("socket = 'mine/s'\n{disk}");
    for (text, what) in [
        (mine.replace("mine/s", "theirs/s"), "theirs/s: cannot listen there: Permission denied"),
        (
            format!("{mine}trace = 'theirs/t.csv'\n"),
            "'data': trace: theirs/t.csv: Permission denied",
        ),
        (
            format!("{mine}trace = 'mine/t.csv'\ntrace_issued = 'theirs/i.parquet'\n"),
            "'data': trace_issued: theirs/i.parquet: Permission denied",
        ),
        // A folder that may not even be entered.
        (mine.replace("mine/s", "closed/s"), "closed/s: cannot listen there: Permission denied"),
    ] {
        fs::create_dir_all(folder.path("closed")).unwrap();
        does(&folder, "chmod", &["700", "closed"]);
        folder.file("c.toml", &text);
        let (code, checked) = run(&["--check"]);
        assert_eq!((code, checked.lines().count()), (Some(2), 1), "{checked}");
        assert!(checked.contains(what) && checked.contains("change the permissions"), "{checked}");
        assert_eq!(run(&[]), (Some(2), checked), "a start says the same");
        for name in ["mine", "theirs", "closed"] {
            assert_eq!(fs::read_dir(folder.path(name)).unwrap().count(), 0, "{name}");
        }
    }
    folder.file("c.toml", format!("{mine}trace = 'mine/t.csv'\ntrace_issued = 'mine/i.csv'\n"));
    let (code, said) = run(&["--check"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(fs::read_dir(folder.path("mine")).unwrap().count(), 0);
}
