//! Tests `forebay store` on the real binary: Redis clients over TCP, including misbehaving ones,
//! and that killing the server loses nothing.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use forebay_rig::Folder;
use forebay_rig::redis::{Client, command};

use crate::store_server::{DISKS, Serving, forebay, made};

fn refused(folder: &Folder, args: &[&str], parts: &[&str]) {
    let output = forebay(folder, args).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    parts.iter().for_each(|part| assert!(said.contains(part), "no {part:?} in: {said}"));
}

#[test]
fn clients_of_redis_are_served() {
    let folder = Folder::new();
    made(&folder);
    let mut serving = Serving::start(&folder);
    let mut client = serving.client();
    for (command, expected) in [
        ("PING", "+PONG"),
        ("SET a 1", "+OK"),
        ("MSET b 2 c 3", "+OK"),
        ("GET b", "2"),
        ("GET z", "nil"),
        ("MGET a z c", "[1 nil 3]"),
        ("EXISTS a b z a", ":3"),
        ("DEL a a z", ":1"),
        ("GET a", "nil"),
        ("DBSIZE", ":2"),
        ("SCAN 0 MATCH [c-d] COUNT 9", "[0 [c]]"),
        ("SCAN 17", "-ERR this scan has expired; start again with cursor 0"),
        (
            "SET a 1 EX 5",
            "-ERR syntax error: SET takes a key and a value; values do not expire here",
        ),
        ("GET", "-ERR wrong number of arguments for 'get' command"),
        ("FLUSHALL", "-ERR unknown command 'FLUSHALL'"),
        ("AUTH x", "-ERR AUTH called without any password configured"),
        ("CONFIG GET appendfsync", "[appendfsync always]"),
    ] {
        assert_eq!(client.text(command), expected, "{command}");
    }
    let page = client.text("SCAN 0 COUNT 1");
    let (cursor, keys) = page[1..].split_once(' ').unwrap();
    assert_eq!(keys, "[b]]");
    assert_eq!(client.text(&format!("SCAN {cursor} COUNT 9")), "[0 [c]]");
    assert!(client.text("INFO").contains("disk1:"));
    // Pipelined commands, and a value that is not text.
    let value = vec![0xFF; 300_000];
    (0..50).for_each(|number: u32| {
        client.say(&[b"SET", &number.to_be_bytes(), &value[..(number * 6000) as usize]]);
    });
    (0..50).for_each(|_| assert_eq!(client.said().as_deref(), Some("+OK")));
    assert_eq!(client.text("DBSIZE"), ":52");
    // When interrupted, the server exits with status 0, and all data is available afterwards.
    assert!(
        Command::new("kill")
            .args(["-INT", &serving.child.id().to_string()])
            .status()
            .unwrap()
            .success()
    );
    assert!(serving.child.wait().unwrap().success());
    let serving = Serving::start(&folder);
    assert_eq!(serving.client().text("MGET b c a"), "[2 3 nil]");
    assert_eq!(serving.client().text("DBSIZE"), ":52");
}

#[test]
fn pipelined_commands_see_earlier_commands() {
    let folder = Folder::new();
    made(&folder);
    let serving = Serving::start(&folder);
    let mut client = serving.client();
    assert_eq!(client.text("SET c 3"), "+OK");
    let pipeline = ["SET b 4", "GET b", "SET b 5", "MGET b c", "DEL n", "SET n 1", "EXISTS n"];
    // RESP2 requests get RESP2 replies.
    let deleted = ["DEL n b", "GET n", "SET b 2", "SCAN 0 MATCH b COUNT 60", "DEL n", "GET n"];
    let commands = [&pipeline[..], &deleted, &["HELLO 3"]].concat();
    for command in &commands {
        client.say(&command.split(' ').map(str::as_bytes).collect::<Vec<_>>());
    }
    let asked = commands.len() - 1;
    let replies: Vec<_> = (0..asked).map(|_| client.said().unwrap()).collect();
    let expected =
        ["+OK", "4", "+OK", "[5 3]", ":0", "+OK", ":1", ":2", "nil", "+OK", "[0 [b]]", ":0", "nil"];
    assert_eq!(replies, expected);
}

#[test]
fn arbitrary_commands_of_a_client_do_not_affect_others() {
    let folder = Folder::new();
    made(&folder);
    let serving = Serving::start(&folder);
    let mut idle = serving.client();
    for (bytes, expected) in [
        (&b"*1000000000\r\n"[..], "at most"),
        (b"*2\r\n$3\r\nGET\r\n$999999999999\r\n", "longer than"),
        (b"*1\r\n*1\r\n*1\r\n", "expected '$'"),
        (b"*1\r\n$3\r\nabcdef\r\n", "does not end"),
    ] {
        let mut client = serving.client();
        client.send(bytes);
        let said = client.said().unwrap();
        assert!(said.starts_with("-ERR") && said.contains(expected), "{said}");
        assert_eq!(client.said(), None, "the connection ends");
    }
    // One client disconnects in the middle of a command, and another sends commands but never
    // reads.
    serving.client().send(b"*2\r\n$3\r\nGET\r\n$10\r\nab");
    let mut deaf = serving.client();
    deaf.say(&[b"SET", b"k", &vec![b'x'; 1 << 20]]);
    (0..200).for_each(|_| deaf.say(&[b"GET", b"k"]));
    assert_eq!(idle.text("PING"), "+PONG");
    while idle.text("EXISTS k") != ":1" {
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn clients_that_request_much_and_read_nothing_use_little_memory() {
    let folder = Folder::new();
    made(&folder);
    let serving = Serving::start(&folder);
    let mut client = serving.client();
    let keys: Vec<_> = (0..20).map(|number| format!("k{number}").into_bytes()).collect();
    for key in &keys {
        assert_eq!(client.ask(&[b"SET", key, &vec![b'x'; 1_000_000]]), b"+OK");
    }
    let most = || {
        let said = fs::read_to_string(format!("/proc/{}/status", serving.child.id())).unwrap();
        let line = said.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1000
    };
    let before = most();
    let many: Vec<&[u8]> = keys.iter().map(Vec::as_slice).cycle().take(3000).collect();
    let (mut gets, mut mget) = (serving.client(), serving.client());
    many.iter().for_each(|key| gets.say(&[b"GET", key]));
    mget.say(&[&[&b"MGET"[..]], &many[..]].concat());
    assert_eq!(client.ask(&[&[&b"EXISTS"[..]], &many[..]].concat()), b":3000");
    assert_eq!(client.ask(&[&[&b"DEL"[..]], &many[..]].concat()), b":20");
    std::thread::sleep(Duration::from_secs(1));
    assert!(most() < before + 250, "{before} MB before, {} MB at most", most());
}

/// Puts keys of its own until the connection ends, and reports when the first put was acknowledged.
/// Returns the last acknowledged value of each key, and the pending put.
fn puts(
    mut client: Client,
    thread: u64,
    round: u64,
    first: &Sender<()>,
) -> (BTreeMap<String, u64>, (String, u64)) {
    let mut sure = BTreeMap::new();
    for turn in 0.. {
        let number = round * 1_000_000 + turn;
        let key = format!("{thread}/{}", turn * 7 % 50);
        let value = format!("{number:020}").repeat(1 + (turn as usize * 131) % 900);
        let set = command(&[b"SET", key.as_bytes(), value.as_bytes()]);
        if client.try_send(&set).is_err() || client.said().as_deref() != Some("+OK") {
            return (sure, (key, number));
        }
        if sure.is_empty() {
            first.send(()).unwrap();
        }
        sure.insert(key, number);
    }
    unreachable!("it puts until the server is killed")
}

/// Kills the server `rounds` times while clients put keys, and checks after each restart that
/// acknowledged puts survived. Returns the number of keys.
fn killed(rounds: u64, words: &[&str], beside: impl Fn(SocketAddr) -> Option<Child>) -> usize {
    let folder = Folder::new();
    made(&folder);
    let mut sure: BTreeMap<String, u64> = BTreeMap::new();
    for round in 0..rounds {
        let mut serving = Serving::of(&folder, words);
        let load = beside(serving.address);
        let (first, firsts) = channel();
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let (client, first) = (serving.client(), first.clone());
                std::thread::spawn(move || puts(client, thread, round + 1, &first))
            })
            .collect();
        (0..4).for_each(|_| firsts.recv_timeout(Duration::from_secs(120)).unwrap());
        std::thread::sleep(Duration::from_millis(100 + round % 6 * 70));
        serving.child.kill().unwrap();
        let outcomes: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        drop(serving);
        if let Some(mut load) = load {
            // The load generator may have ended already because its server is gone.
            let _ = load.kill();
            load.wait().unwrap();
        }
        let serving = Serving::of(&folder, words);
        let mut client = serving.client();
        for (acknowledged, (key, number)) in outcomes {
            assert!(!acknowledged.is_empty(), "nothing was put");
            sure.extend(acknowledged);
            let found = client.text(&format!("GET {key}"));
            let found = found.get(..20).and_then(|number| number.parse::<u64>().ok());
            // The pending put may or may not have taken effect.
            assert!(found == sure.get(&key).copied() || found == Some(number), "{key}: {found:?}");
            sure.extend(found.map(|found| (key, found)));
        }
        for (key, number) in &sure {
            let found = client.text(&format!("GET {key}"));
            assert_eq!(found.get(..20), Some(&*format!("{number:020}")), "{key} in round {round}");
        }
    }
    sure.len()
}

#[test]
fn acknowledged_data_survive_kill_9() {
    assert!(killed(6, &DISKS, |_| None) >= 4);
}

#[test]
#[ignore = "long; make kill-store"]
fn acknowledged_data_survive_kill_9_many_times() {
    let rounds = std::env::var("FOREBAY_KILLED_ROUNDS").map_or(100, |text| text.parse().unwrap());
    let benchmark = |address: SocketAddr| {
        let port = address.port().to_string();
        let words = ["-p", &port, "-t", "set", "-n", "1000000", "-r", "2000", "-d", "3000", "-q"];
        let mut command = Command::new("redis-benchmark");
        command.args(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()
    };
    let is_loaded = Command::new("redis-benchmark").arg("--version").output().is_ok();
    let keys = killed(rounds, &DISKS, benchmark);
    let beside = if is_loaded { "redis-benchmark" } else { "nothing: there is no redis-benchmark" };
    println!("{rounds} rounds, {keys} keys, beside {beside}: all that was acknowledged was there");
}

#[test]
fn a_lost_disk_loses_only_its_own_data() {
    let folder = Folder::new();
    made(&folder);
    let value = |number: usize| format!("{number:020}").repeat(5000);
    {
        let mut serving = Serving::start(&folder);
        let mut client = serving.client();
        for number in 0..300 {
            let words =
                [&b"SET"[..], &format!("k{number}").into_bytes(), &value(number).into_bytes()];
            assert_eq!(client.ask(&words), b"+OK");
        }
        // When interrupted, the server turns its logs into segments. The keys in a log on the lost
        // disk would otherwise be unknown.
        let pid = serving.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        serving.child.wait().unwrap();
    }
    let run = |words: &[&str]| {
        let output = forebay(&folder, &[&["store"], words].concat()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, said) = run(&["check", "a", "b", "c", "d"]);
    assert!(code == Some(0) && said.contains("Everything is intact"), "{said}");
    // The other roots contain the same information. The next time the store is opened for writing,
    // the damaged root is rewritten.
    let disk = fs::File::options().write(true).open(folder.root().join("b/forebay.store")).unwrap();
    let zeros = vec![0; disk.metadata().unwrap().len() as usize / 32];
    disk.write_all_at(&zeros, 8192).unwrap();
    drop(disk);
    let (code, said) = run(&["check", "a", "b", "c", "d"]);
    assert!(code == Some(1) && said.contains("Nothing is lost"), "{said}");
    drop(Serving::of(&folder, &DISKS));
    let (code, said) = run(&["check", "a", "b", "c", "d"]);
    assert!(code == Some(0) && said.contains("Everything is intact"), "{said}");
    fs::rename(folder.root().join("b"), folder.root().join("away")).unwrap();
    refused(&folder, &["store", "check", "a", "c", "d"], &["3 of its 4 disks are named"]);
    let (code, said) = run(&["check", "--without-disk", "a", "c", "d"]);
    assert!(code == Some(1) && said.contains("disk 2 is missing"), "{said}");
    let mut lost = 0;
    {
        let serving = Serving::of(&folder, &["--without-disk", "a", "c", "d"]);
        let mut client = serving.client();
        for number in 0..300 {
            let found = client.text(&format!("GET k{number}"));
            let is_lost = found.starts_with("-ERR disk 2 is missing");
            assert!(is_lost || found == value(number), "k{number}: {:.60}", found);
            lost += u32::from(is_lost);
        }
        assert!((1..300).contains(&lost), "{lost} lost");
        assert_eq!(client.text("SET new one"), "+OK");
    }
    let (code, said) = run(&["repair", "a", "c", "d"]);
    assert!(code == Some(1) && said.contains("Nothing was written"), "{said}");
    // If the new disk cannot be used, no data is discarded.
    fs::write(folder.root().join("full"), "somebody's").unwrap();
    for (new, why) in [("c", "a disk of the store"), ("full", "exists already")] {
        let words = ["store", "repair", "--give-up", "--new", new, "a", "c", "d"];
        refused(&folder, &words, &[why]);
    }
    let (code, said) = run(&["check", "--without-disk", "a", "c", "d"]);
    assert!(code == Some(1) && said.contains("disk 2 is missing"), "{said}");
    let (code, said) = run(&["repair", "--give-up", "--new", "e", "a", "c", "d"]);
    assert!(code == Some(0) && said.contains("e takes the place"), "{said}");
    let serving = Serving::of(&folder, &["e", "a", "c", "d"]);
    let mut client = serving.client();
    assert_eq!(client.text("GET new"), "one");
    let nil = (0..300).filter(|number| match client.text(&format!("GET k{number}")) {
        found if found == "nil" => true,
        found => {
            assert_eq!(found, value(*number));
            false
        }
    });
    // Filters have some false positives.
    let nil = nil.count() as u32;
    assert!(lost / 2 < nil && nil <= lost, "{nil} are gone, {lost} could not be decided");
    drop(serving);
    let (code, said) = run(&["check", "a", "c", "d", "e"]);
    assert!(code == Some(0) && said.contains("Everything is intact"), "{said}");
}

#[test]
fn disks_that_are_no_store_are_named() {
    let folder = Folder::new();
    refused(&folder, &["store", "create", "a", "b", "c"], &["got 3 disks"]);
    refused(&folder, &["store", "serve", "a", "b", "c", "d"], &["a", "No such file"]);
    made(&folder);
    let vast = ["store", "create", "--overwrite", "--mb", "999999999"];
    let output = forebay(&folder, &[&vast[..], &["e", "f", "g", "h"]].concat()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && said.contains("there is no space for"), "{said}");
    assert!(!said.contains("trace") && !said.contains("--map"), "{said}");
    assert!(["e", "f", "g", "h"].iter().all(|file| !folder.root().join(file).exists()));
    let again = [&["store", "create"], &DISKS[..]].concat();
    refused(&folder, &again, &["--overwrite"]);
    refused(
        &folder,
        &["store", "serve", "a", "b", "c"],
        &["3 of its 4 disks are named", "--without-disk"],
    );
    let three = ["store", "repair", "--new", "e"];
    refused(&folder, &[&three, &DISKS[..]].concat(), &["--new", "got a complete store"]);
    refused(
        &folder,
        &["store", "serve", "a", "b", "c", "c"],
        &["is disk 3", "specify only one of them"],
    );
    let open = [&["store", "serve", "--listen", "0.0.0.0:0"], &DISKS[..]].concat();
    refused(&folder, &open, &["not loopback", "password"]);
    let seen = ["store", "serve", "--listen", "127.0.0.1:0", "--metrics", "0.0.0.0:0"];
    refused(&folder, &[&seen, &DISKS[..]].concat(), &["--metrics 0.0.0.0:0", "not loopback"]);
    let odd = [&["store", "serve", "--durability", "some"], &DISKS[..]].concat();
    refused(&folder, &odd, &["media", "none"]);
    let no_file = [&["store", "serve", "--password-file", "none"], &DISKS[..]].concat();
    refused(&folder, &no_file, &["none", "No such file"]);
    let serving = Serving::start(&folder);
    refused(
        &folder,
        &[&["store", "serve", "--listen", "127.0.0.1:0"], &DISKS[..]].concat(),
        &["in use"],
    );
    drop(serving);
}

/// Sends `bytes` and returns the HTTP response, as much as was received before the connection was
/// closed.
fn http(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    // The server may respond and close the connection before it has received everything.
    let _ = stream.write_all(bytes);
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said);
    String::from_utf8(said).unwrap()
}

#[test]
fn prometheus_can_read_the_metrics() {
    let folder = Folder::new();
    made(&folder);
    let serving = Serving::of(&folder, &[&["--metrics", "127.0.0.1:0"], &DISKS[..]].concat());
    let metrics = serving.metrics.unwrap();
    let mut client = serving.client();
    for command in ["SET a 12345", "MSET b 1 c 2", "GET a", "GET z", "get a", "NONSENSE x"] {
        client.text(command);
    }
    let said = http(metrics, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let (head, page) = said.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("version=0.0.4"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}\r\n", page.len())), "{head}");
    for line in [
        "# TYPE forebay_commands_total counter",
        "forebay_commands_total{command=\"get\"} 3",
        "forebay_commands_total{command=\"set\"} 1",
        "forebay_commands_total{command=\"mset\"} 1",
        "forebay_commands_total{command=\"other\"} 1",
        "forebay_connections 1",
        "forebay_put_bytes_total 10",
        "forebay_batches_total 2",
        "forebay_put_seconds_bucket{le=\"+Inf\"} 2",
        "forebay_put_seconds_count 2",
        "forebay_get_seconds_count 3",
        "forebay_records 3",
        "forebay_losses 0",
    ] {
        assert!(page.lines().any(|other| other == line), "no {line:?} in:\n{page}");
    }
    let logging = (1..5).filter(|disk| {
        page.contains(&format!("forebay_disk_stage{{disk=\"{disk}\",stage=\"log\"}} 1\n"))
    });
    assert_eq!(logging.count(), 1, "{page}");
    // Every sample follows its type, and no name is used twice.
    let named: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    let names: std::collections::BTreeSet<_> =
        named.iter().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(names.len(), named.len());
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        let of_histogram = ["_bucket", "_sum", "_count"];
        let base = of_histogram.iter().find_map(|end| name.strip_suffix(end));
        assert!(names.contains(name) || base.is_some_and(|base| names.contains(base)), "{line}");
        assert!(line.rsplit(' ').next().unwrap().parse::<f64>().is_ok(), "{line}");
    }
}

#[test]
fn full_disks_are_shown_in_info_and_metrics() {
    let folder = Folder::new();
    made(&folder);
    // There is only enough space for the labels of the disks.
    let words = [&["--metrics", "127.0.0.1:0"], &DISKS[..]].concat();
    let limited = "ulimit -f 16 && exec \"$0\" store serve --listen 127.0.0.1:0 \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", limited]).arg(assert_cmd::cargo::cargo_bin!("forebay")).args(&words);
    command.current_dir(folder.root());
    let serving = Serving::by(command, &words);
    let mut client = serving.client();
    let said = client.text("SET a 1");
    assert!(said.starts_with("-ERR no space left"), "{said}");
    let info = client.text("INFO");
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    let disk = (1..=4).find(|disk| field(&format!("disk{disk}_health:")) == "no-space").unwrap();
    assert_eq!(field("healthy:"), "0");
    let errors: u64 = field(&format!("disk{disk}_no_space_errors:")).parse().unwrap();
    assert!(errors > 0, "{info}");
    assert_eq!(field(&format!("disk{disk}_read_errors:")), "0");
    let page = http(serving.metrics.unwrap(), b"GET /metrics HTTP/1.1\r\n\r\n");
    assert!(page.contains(&format!("forebay_disk_ok{{disk=\"{disk}\"}} 0\n")), "{page}");
    let counted = format!("forebay_disk_errors_total{{disk=\"{disk}\",error=\"no-space\"}} ");
    let counted = page.lines().find_map(|line| line.strip_prefix(&counted)).unwrap();
    assert!(counted.parse::<f64>().unwrap() >= errors as f64, "{page}");
}

#[test]
fn arbitrary_http_requests_do_not_affect_metrics_or_clients() {
    let folder = Folder::new();
    made(&folder);
    let serving = Serving::of(&folder, &[&["--metrics", "127.0.0.1:0"], &DISKS[..]].concat());
    let metrics = serving.metrics.unwrap();
    for (bytes, expected) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "HTTP/1.1 404 "),
        (b"POST /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 405 "),
        (b"\xff\xfe\r\n\r\n", "HTTP/1.1 400 "),
        (b"\r\n\r\n", "HTTP/1.1 400 "),
        (b"*1\r\n$4\r\nPING\r\n\r\n", "HTTP/1.1 400 "),
    ] {
        let said = http(metrics, bytes);
        assert!(said.starts_with(expected), "{said}");
    }
    // A request header that never ends.
    let said = http(metrics, &vec![b'x'; 1 << 20]);
    assert!(said.is_empty() || said.starts_with("HTTP/1.1 431 "), "{said}");
    // Clients that send nothing are disconnected when others come.
    let page = || http(metrics, b"GET /metrics HTTP/1.0\r\n\r\n");
    let mut silent: Vec<_> = (0..160).map(|_| TcpStream::connect(metrics).unwrap()).collect();
    // The threads of disconnected clients may take a moment to end. Others end after a minute.
    let is_answered = (0..100).any(|_| {
        let is_answered = page().starts_with("HTTP/1.1 200 ");
        if !is_answered {
            std::thread::sleep(Duration::from_millis(50));
        }
        is_answered
    });
    assert!(is_answered);
    assert_eq!(serving.client().text("PING"), "+PONG");
    // The newest clients may stay for a while.
    silent.truncate(150);
    for mut stream in silent {
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        assert!(said.is_empty(), "{said:?}");
    }
}

#[test]
fn without_durability_kill_9_loses_nothing_either() {
    let words = [&["--durability", "none"], &DISKS[..]].concat();
    assert!(killed(3, &words, |_| None) >= 4);
    let folder = Folder::new();
    made(&folder);
    let serving = Serving::of(&folder, &words);
    assert_eq!(serving.client().text("CONFIG GET appendfsync"), "[appendfsync no]");
}

/// Returns the rows of an answer in JSON.
fn rows_of(out: &[u8]) -> Vec<serde_json::Value> {
    let told: serde_json::Value = serde_json::from_slice(out).unwrap();
    assert_eq!(told["schema_version"], 4);
    told["rows"].as_array().unwrap().clone()
}

#[test]
fn in_real_time_a_put_takes_as_long_as_its_disk() {
    let folder = Folder::new();
    let asked = ["store", "simulate", "--wall", "--total-mb", "2", "--format", "json"];
    let asked = [&asked[..], &["--arrangement", "enhanced"]].concat();
    let begun = std::time::Instant::now();
    let output = forebay(&folder, &asked).output().unwrap();
    assert!(output.status.success());
    let rows = rows_of(&output.stdout);
    let told: f64 = rows.iter().map(|row| row["execution_s"].as_f64().unwrap()).sum();
    // Two runs of twenty revolutions each.
    assert!(told > 0.3 && begun.elapsed().as_secs_f64() >= told, "{told} s");
}

#[test]
fn parking_saves_energy_on_idle_disks() {
    let folder = Folder::new();
    for (host, told) in [("0.5ms", "parking costs more than it saves"), ("10s", "parking pays")] {
        let asked = ["store", "simulate", "--total-mb", "20", "--value-bytes", "1000000"];
        let asked = [&asked[..], &["--arrangement", "enhanced", "--host", host]].concat();
        let output = forebay(&folder, &asked).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.contains("more than 47.3 s") && said.contains(told), "{host}: {said}");
    }
}
