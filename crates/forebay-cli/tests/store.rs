//! `forebay store`, on the real binary: clients of Redis over TCP, whatever they send, and that nothing is lost
//! when it is killed.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod command;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use command::Folder;

fn forebay(folder: &Folder, args: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("forebay"));
    command.args(args).current_dir(folder.root());
    command
}

fn refused(folder: &Folder, args: &[&str], parts: &[&str]) {
    let output = forebay(folder, args).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    parts.iter().for_each(|part| assert!(said.contains(part), "no {part:?} in: {said}"));
}

const DISKS: [&str; 4] = ["a", "b", "c", "d"];

fn made(folder: &Folder) {
    DISKS.iter().for_each(|disk| fs::create_dir(folder.root().join(disk)).unwrap());
    let create = [&["store", "create", "--mb", "200"], &DISKS[..]].concat();
    assert!(forebay(folder, &create).output().unwrap().status.success());
}

/// A server of the store in a folder, killed when it is let go.
struct Serving {
    child: Child,
    address: SocketAddr,
}

impl Serving {
    fn start(folder: &Folder) -> Serving {
        Serving::of(folder, &DISKS)
    }

    /// Of these disks, or with these options.
    fn of(folder: &Folder, words: &[&str]) -> Serving {
        let serve = [&["store", "serve", "--listen", "127.0.0.1:0"], words].concat();
        let mut child = forebay(folder, &serve).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.as_mut().unwrap()).lines().map(Result::unwrap);
        // What is lost is said before.
        let line = lines.find(|line| line.contains(" at ")).unwrap();
        let address = line.split(" at ").nth(1).and_then(|rest| rest.split(';').next());
        let address = address.unwrap_or_else(|| panic!("no address in: {line}")).parse().unwrap();
        Serving { child, address }
    }

    fn client(&self) -> Client {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Client(BufReader::new(stream))
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Client(BufReader<TcpStream>);

impl Client {
    fn send(&mut self, words: &[&[u8]]) -> bool {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend(format!("${}\r\n", word.len()).into_bytes());
            bytes.extend_from_slice(word);
            bytes.extend(b"\r\n");
        }
        self.0.get_mut().write_all(&bytes).is_ok()
    }

    /// A reply as text: what it says, items in brackets; none where the connection ended.
    fn reply(&mut self) -> Option<String> {
        let mut line = String::new();
        self.0.read_line(&mut line).ok().filter(|count| *count > 0)?;
        let line = line.trim_end();
        let number = || line[1..].parse::<i64>().unwrap();
        Some(match line.as_bytes()[0] {
            b'$' if number() < 0 => "nil".into(),
            b'$' => {
                let mut bytes = vec![0; number() as usize + 2];
                self.0.read_exact(&mut bytes).ok()?;
                String::from_utf8_lossy(&bytes[..bytes.len() - 2]).into_owned()
            }
            b'*' => {
                let items = (0..number()).map(|_| self.reply()).collect::<Option<Vec<_>>>()?;
                format!("[{}]", items.join(" "))
            }
            _ => line.to_string(),
        })
    }

    fn ask(&mut self, command: &str) -> String {
        let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        assert!(self.send(&words));
        self.reply().unwrap()
    }
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
        ("SCAN 0 COUNT 1", "[1 [b]]"),
        ("SCAN 1 COUNT 9", "[0 [c]]"),
        ("SCAN 0 MATCH [c-d] COUNT 9", "[0 [c]]"),
        ("SCAN 17", "-ERR this scan was forgotten; begin anew with cursor 0"),
        (
            "SET a 1 EX 5",
            "-ERR syntax error: SET takes a key and a value; values do not expire here",
        ),
        ("GET", "-ERR wrong number of arguments for 'get' command"),
        ("FLUSHALL", "-ERR unknown command 'FLUSHALL'"),
        ("AUTH x", "-ERR AUTH called without any password configured"),
        ("CONFIG GET appendfsync", "[appendfsync always]"),
    ] {
        assert_eq!(client.ask(command), expected, "{command}");
    }
    assert!(client.ask("INFO").contains("disk1:"));
    // Without waiting, and a value that is not text.
    let value = vec![0xFF; 300_000];
    (0..50).for_each(|number: u32| {
        client.send(&[b"SET", &number.to_be_bytes(), &value[..(number * 6000) as usize]]);
    });
    (0..50).for_each(|_| assert_eq!(client.reply().as_deref(), Some("+OK")));
    assert_eq!(client.ask("DBSIZE"), ":52");
    // Interrupted, it ends well; and all is there afterwards.
    assert!(
        Command::new("kill")
            .args(["-INT", &serving.child.id().to_string()])
            .status()
            .unwrap()
            .success()
    );
    assert!(serving.child.wait().unwrap().success());
    let serving = Serving::start(&folder);
    assert_eq!(serving.client().ask("MGET b c a"), "[2 3 nil]");
    assert_eq!(serving.client().ask("DBSIZE"), ":52");
}

#[test]
fn whatever_a_client_sends_others_are_served() {
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
        client.0.get_mut().write_all(bytes).unwrap();
        let said = client.reply().unwrap();
        assert!(said.starts_with("-ERR") && said.contains(expected), "{said}");
        assert_eq!(client.reply(), None, "the connection ends");
    }
    // One that goes away in the middle, and one that sends and never reads.
    serving.client().0.get_mut().write_all(b"*2\r\n$3\r\nGET\r\n$10\r\nab").unwrap();
    let mut deaf = serving.client();
    assert!(deaf.send(&[b"SET", b"k", &vec![b'x'; 1 << 20]]));
    (0..200).for_each(|_| assert!(deaf.send(&[b"GET", b"k"])));
    assert_eq!(idle.ask("PING"), "+PONG");
    while idle.ask("EXISTS k") != ":1" {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Puts to keys of its own until the connection ends; answers what was acknowledged last of each, and the
/// put that was under way.
fn puts(mut client: Client, thread: u64, round: u64) -> (BTreeMap<String, u64>, (String, u64)) {
    let mut sure = BTreeMap::new();
    for turn in 0.. {
        let number = round * 1_000_000 + turn;
        let key = format!("{thread}/{}", turn * 7 % 50);
        let value = format!("{number:020}").repeat(1 + (turn as usize * 131) % 900);
        let is_sent = client.send(&[b"SET", key.as_bytes(), value.as_bytes()]);
        if !is_sent || client.reply().as_deref() != Some("+OK") {
            return (sure, (key, number));
        }
        sure.insert(key, number);
    }
    unreachable!("it puts until the server is killed")
}

#[test]
fn what_was_acknowledged_outlives_kill_9() {
    let folder = Folder::new();
    made(&folder);
    let mut sure: BTreeMap<String, u64> = BTreeMap::new();
    for round in 0..6 {
        let mut serving = Serving::start(&folder);
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let client = serving.client();
                std::thread::spawn(move || puts(client, thread, round + 1))
            })
            .collect();
        std::thread::sleep(Duration::from_millis(150 + round * 70));
        serving.child.kill().unwrap();
        let outcomes: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        drop(serving);
        let serving = Serving::start(&folder);
        let mut client = serving.client();
        for (acknowledged, (key, number)) in outcomes {
            assert!(!acknowledged.is_empty(), "nothing was put");
            sure.extend(acknowledged);
            let found = client.ask(&format!("GET {key}"));
            let found = found.get(..20).and_then(|number| number.parse::<u64>().ok());
            // The one under way was written or not.
            assert!(found == sure.get(&key).copied() || found == Some(number), "{key}: {found:?}");
            sure.extend(found.map(|found| (key, found)));
        }
        for (key, number) in &sure {
            let found = client.ask(&format!("GET {key}"));
            assert_eq!(found.get(..20), Some(&*format!("{number:020}")), "{key} in round {round}");
        }
    }
}

#[test]
fn a_disk_that_is_lost_takes_along_what_was_on_it_and_no_more() {
    let folder = Folder::new();
    made(&folder);
    let value = |number: usize| format!("{number:020}").repeat(5000);
    {
        let mut serving = Serving::start(&folder);
        let mut client = serving.client();
        for number in 0..300 {
            assert!(client.send(&[
                b"SET",
                format!("k{number}").as_bytes(),
                value(number).as_bytes()
            ]));
            assert_eq!(client.reply().as_deref(), Some("+OK"));
        }
        // Interrupted, it makes segments of its logs: of those on the lost disk nobody could say what they decide.
        let pid = serving.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        serving.child.wait().unwrap();
    }
    let run = |words: &[&str]| {
        let output = forebay(&folder, &[&["store"], words].concat()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, said) = run(&["check", "a", "b", "c", "d"]);
    assert!(code == Some(0) && said.contains("All is as it was written"), "{said}");
    fs::rename(folder.root().join("b"), folder.root().join("away")).unwrap();
    refused(&folder, &["store", "check", "a", "c", "d"], &["got 3 of its 4 disks"]);
    let (code, said) = run(&["check", "--without-disk", "a", "c", "d"]);
    assert!(code == Some(1) && said.contains("disk 2 is missing"), "{said}");
    let mut lost = 0;
    {
        let serving = Serving::of(&folder, &["--without-disk", "a", "c", "d"]);
        let mut client = serving.client();
        for number in 0..300 {
            let found = client.ask(&format!("GET k{number}"));
            let is_lost = found.starts_with("-ERR disk 2 is missing");
            assert!(is_lost || found == value(number), "k{number}: {:.60}", found);
            lost += u32::from(is_lost);
        }
        assert!((1..300).contains(&lost), "{lost} lost");
        assert_eq!(client.ask("SET new one"), "+OK");
    }
    let (code, said) = run(&["repair", "a", "c", "d"]);
    assert!(code == Some(1) && said.contains("Nothing was written"), "{said}");
    let (code, said) = run(&["repair", "--give-up", "--new", "e", "a", "c", "d"]);
    assert!(code == Some(0) && said.contains("e takes the place"), "{said}");
    let serving = Serving::of(&folder, &["e", "a", "c", "d"]);
    let mut client = serving.client();
    assert_eq!(client.ask("GET new"), "one");
    let nil = (0..300).filter(|number| match client.ask(&format!("GET k{number}")) {
        found if found == "nil" => true,
        found => {
            assert_eq!(found, value(*number));
            false
        }
    });
    // A filter says yes to some that are not there.
    let nil = nil.count() as u32;
    assert!(lost / 2 < nil && nil <= lost, "{nil} are gone, {lost} could not be decided");
    drop(serving);
    let (code, said) = run(&["check", "a", "c", "d", "e"]);
    assert!(code == Some(0) && said.contains("All is as it was written"), "{said}");
}

#[test]
fn what_is_no_store_is_named() {
    let folder = Folder::new();
    refused(&folder, &["store", "create", "a", "b", "c"], &["got 3 disks"]);
    refused(&folder, &["store", "serve", "a", "b", "c", "d"], &["a", "No such file"]);
    made(&folder);
    let again = [&["store", "create"], &DISKS[..]].concat();
    refused(&folder, &again, &["--overwrite"]);
    refused(
        &folder,
        &["store", "serve", "a", "b", "c"],
        &["got 3 of its 4 disks", "--without-disk"],
    );
    let three = ["store", "repair", "--new", "e"];
    refused(&folder, &[&three, &DISKS[..]].concat(), &["--new", "has all its disks"]);
    refused(&folder, &["store", "serve", "a", "b", "c", "c"], &["is disk 3", "once"]);
    let open = [&["store", "serve", "--listen", "0.0.0.0:0"], &DISKS[..]].concat();
    refused(&folder, &open, &["not loopback", "password"]);
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

#[test]
fn sorting_what_is_put_costs_nothing_but_on_raid0() {
    let folder = Folder::new();
    let asked = ["store", "simulate", "--total-mb", "60", "--format", "json"];
    let output = forebay(&folder, &asked).output().unwrap();
    assert!(output.status.success());
    let rows: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
    let slowed = |at: usize| rows[at]["slowed_percent"].as_f64().unwrap();
    let names: Vec<_> = rows.iter().map(|row| row["arrangement"].as_str().unwrap()).collect();
    assert_eq!(names, ["enhanced", "enhanced", "basic", "basic", "raid0", "raid0"]);
    assert!(slowed(1).abs() < 2.7 && slowed(5) > 5.0, "{} and {}", slowed(1), slowed(5));
}
