//! Tests the control socket: the commands that it refuses, and traces that are started, rotated and
//! stopped while clients are served.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_rig::holes;
use forebay_rig::nbd::{Client, pattern};
use forebay_serve::control::{Command, client};
use forebay_serve::{Address, Back, Config, On, Server};
use serde_json::Value;

const BYTES: u64 = 1 << 20;

struct Controlled {
    server: Server,
    folder: tempfile::TempDir,
}

impl Controlled {
    /// Starts a server with one disk for each name.
    fn new(names: &[&str]) -> Controlled {
        let folder = tempfile::tempdir().unwrap();
        let back = |name: &&str| {
            let path = folder.path().join(name);
            holes(&path, BYTES);
            let mut back = Back::of(name, On::Target { path, flash: None });
            back.page_cache = true;
            back
        };
        let backs = names.iter().map(back).collect();
        let listen = vec![Address::Unix(folder.path().join("socket"))];
        let server = Server::start(&Config::of(listen, backs)).unwrap();
        Controlled { server, folder }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn order(&self, command: &Command) -> Result<Value, String> {
        client::order(&self.at("socket"), command, &mut |_| ()).map_err(|error| error.to_string())
    }

    fn start_trace(&self, disk: Option<&str>, name: &str, issued: bool) -> Result<Value, String> {
        let (disk, path) = (disk.map(String::from), self.at(name));
        self.order(&Command::StartTrace { disk, path, issued })
    }

    /// Returns the rows of a trace.
    fn rows(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.at(name)).unwrap();
        text.lines().skip(1).map(String::from).collect()
    }
}

#[test]
fn only_its_user_may_open_the_socket() {
    let served = Controlled::new(&["disk"]);
    let found = std::fs::metadata(served.at("socket.control")).unwrap();
    assert_eq!(found.permissions().mode() & 0o777, 0o600);
    let socket = served.at("socket.control");
    served.server.stop().unwrap();
    assert!(!socket.exists(), "it ends with the server");
}

#[test]
fn a_connection_takes_command_after_command_and_survives_wrong_ones() {
    let served = Controlled::new(&["disk"]);
    let mut stream = UnixStream::connect(served.at("socket.control")).unwrap();
    let mut answers = BufReader::new(stream.try_clone().unwrap());
    let mut ask = |line: &str| {
        stream.write_all(line.as_bytes()).unwrap();
        let mut answer = String::new();
        answers.read_line(&mut answer).unwrap();
        serde_json::from_str::<Value>(&answer).unwrap()
    };
    assert!(ask("\n")["error"].as_str().unwrap().contains("got an invalid command"));
    assert!(ask("\u{0}\u{1}{}\n")["error"].is_string());
    let figures = ask("{\"version\": 1, \"command\": \"figures\"}\n");
    assert_eq!(figures["version"], 1);
    assert_eq!(figures["done"]["backs"][0]["name"], "disk");
    let wrong = ask("{\"version\": 1, \"command\": \"policy\", \"policy\": \"fly\"}\n");
    assert!(wrong["error"].as_str().unwrap().contains("fly"), "{wrong}");
    let refused = ask("{\"version\": 1, \"command\": \"reload\"}\n");
    assert!(refused["error"].as_str().unwrap().contains("no configuration file"), "{refused}");
    // A line that is too long ends the connection, because the rest of it is not a command.
    let long = ask(&("x".repeat(70_000) + "\n"));
    assert!(long["error"].as_str().unwrap().contains("more than 65536 bytes"), "{long}");
    let mut rest = String::new();
    let _ = answers.read_to_string(&mut rest);
    assert_eq!(rest, "");
    served.server.stop().unwrap();
}

#[test]
fn many_connections_that_say_nothing_do_not_stop_the_server_nor_each_other() {
    let served = Controlled::new(&["disk"]);
    let connect = || UnixStream::connect(served.at("socket.control")).unwrap();
    let idle: Vec<UnixStream> = (0..40).map(|_| connect()).collect();
    let refused = served.order(&Command::Figures {});
    assert!(refused.unwrap_err().contains("32 connections are open"));
    drop(idle);
    while served.order(&Command::Figures {}).is_err() {
        std::thread::yield_now();
    }
    served.server.stop().unwrap();
}

#[test]
fn a_policy_is_switched_by_command() {
    let served = Controlled::new(&["one", "other"]);
    let switch = |disk: Option<&str>| {
        let disk = disk.map(String::from);
        served.order(&Command::Policy { disk, policy: "mq-deadline".into() })
    };
    assert!(switch(None).unwrap_err().contains("one of: one, other"));
    assert!(switch(Some("third")).unwrap_err().contains("no disk or volume is named 'third'"));
    assert!(switch(Some("other")).unwrap()["pause_ms"].is_number());
    let figures = client::figures(&served.at("socket")).unwrap();
    let policies: Vec<&str> = figures.backs.iter().map(|back| &*back.policy).collect();
    assert_eq!(policies, ["noop", "mq-deadline"]);
    served.server.stop().unwrap();
}

#[test]
fn rotated_traces_have_each_request_once_with_its_latency() {
    let served = Controlled::new(&["disk"]);
    let rotate = || served.order(&Command::RotateTrace { disk: None });
    assert!(rotate().unwrap_err().contains("no trace is being written"));
    served.start_trace(None, "asked.csv", false).unwrap();
    let again = served.start_trace(None, "more.csv", false).unwrap_err();
    assert!(again.contains("asked.csv is being written"), "{again}");
    served.start_trace(None, "issued.csv", true).unwrap();
    let over = AtomicBool::new(false);
    let asked = std::thread::scope(|scope| {
        let asks = scope.spawn(|| {
            let mut client = Client::simple(&served.at("socket"), "disk");
            let mut asked = 0;
            while !over.load(Ordering::Relaxed) {
                client.write(asked % 200 * 4096, &pattern(1, 4096));
                asked += 1;
            }
            asked
        });
        for number in 1..=5 {
            let done = rotate().unwrap();
            let paths = done["paths"].as_array().unwrap();
            let ends =
                |ending: String| paths.iter().any(|path| path.as_str().unwrap().ends_with(&ending));
            assert!(ends(format!("asked.{number}.csv")), "{done}");
            assert!(ends(format!("issued.{number}.csv")), "{done}");
        }
        over.store(true, Ordering::Relaxed);
        asks.join().unwrap()
    });
    let done = served.order(&Command::StopTrace { disk: None }).unwrap();
    assert_eq!(done["paths"].as_array().unwrap().len(), 2);
    assert!(served.order(&Command::StopTrace { disk: None }).is_err());
    let names = ["asked", "asked.1", "asked.2", "asked.3", "asked.4", "asked.5"];
    let rows = names.iter().flat_map(|name| served.rows(&format!("{name}.csv")));
    let rows: Vec<String> = rows.collect();
    let mut writes = rows.iter().filter(|row| row.contains(",write,"));
    assert_eq!(writes.clone().count() as u64, asked);
    let unknown = writes.find(|row| row.split(',').nth(6) == Some(""));
    assert_eq!(unknown, None, "each has a latency");
    // A server without a trace writes none when it stops.
    served.server.stop().unwrap();
}

#[test]
fn a_trace_replaces_no_disk_and_no_socket() {
    let served = Controlled::new(&["one", "other"]);
    for (name, why) in [
        ("other", "exists"),
        ("socket.control", "exists"),
        ("absent/t.csv", "No such file"),
        ("t.txt", "ending"),
    ] {
        let said = served.start_trace(Some("one"), name, false).unwrap_err();
        assert!(said.contains(why) || said.contains("expected a file of its own"), "{said}");
    }
    served.start_trace(Some("one"), "t.csv", false).unwrap();
    let said = served.start_trace(Some("other"), "t.csv", false).unwrap_err();
    assert!(said.contains("the trace of 'one'"), "{said}");
    served.server.stop().unwrap();
    assert!(served.folder.path().join("t.csv").exists());
}

#[test]
fn traces_are_never_replaced_whoever_rotates_them() {
    let served = Controlled::new(&["disk"]);
    std::fs::write(served.at("mine.csv"), "mine").unwrap();
    let said = served.start_trace(None, "mine.csv", false).unwrap_err();
    assert!(said.contains("got a file that exists"), "{said}");
    served.start_trace(None, "t.csv", false).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..5 {
                    served.order(&Command::RotateTrace { disk: None }).unwrap();
                }
            });
        }
        let mut client = Client::simple(&served.at("socket"), "disk");
        (0..200).for_each(|nth| client.write(nth * 4096, &pattern(1, 4096)));
    });
    // If another file with the trace's name appears in the meantime, it is kept too.
    std::fs::write(served.at("t.csv"), "theirs").unwrap();
    served.order(&Command::StopTrace { disk: None }).unwrap();
    let numbered = |number: usize| served.rows(&format!("t.{number}.csv"));
    let rows = (1..=20).flat_map(numbered).chain(served.rows("t.csv"));
    assert_eq!(rows.filter(|row| row.contains(",write,")).count(), 200);
    assert_eq!(std::fs::read_to_string(served.at("t.21.csv")).unwrap(), "theirs");
    served.server.stop().unwrap();
}
