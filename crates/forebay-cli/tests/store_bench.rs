//! Tests `forebay store bench` on the real binary, with servers that answer correctly, wrongly, or
//! not at all, or that disappear.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

use crate::command::Folder;
use crate::store_server::{DISKS, Serving, forebay, made};

fn with_store() -> Folder {
    let folder = Folder::new();
    made(&folder);
    folder
}

fn bench(folder: &Folder, address: SocketAddr, words: &[&str]) -> Output {
    let connect = ["store", "bench", "--connect", &address.to_string()].map(str::to_string);
    let connect: Vec<&str> = connect.iter().map(String::as_str).collect();
    forebay(folder, &[&connect, words].concat()).output().unwrap()
}

fn json(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

/// Returns the number of operations of each kind in a run.
fn counts(results: &Value) -> BTreeMap<String, u64> {
    let rows = results["run"]["operations"].as_array().unwrap();
    let row =
        |row: &Value| (row["operation"].as_str().unwrap().into(), row["count"].as_u64().unwrap());
    rows.iter().map(row).collect()
}

#[test]
fn every_workload_runs_on_our_server_with_correct_answers() {
    let folder = with_store();
    let serving = Serving::start(&folder);
    let small = ["--records", "300", "--operations", "400", "--clients", "4", "--format", "json"];
    for (workload, expected) in [
        ("a", ["read", "update"]),
        ("b", ["read", "update"]),
        ("c", ["read", "read"]),
        ("d", ["insert", "read"]),
        ("f", ["read", "read-modify-write"]),
        ("ingest", ["insert", "insert"]),
    ] {
        let output =
            bench(&folder, serving.address, &[&["--workload", workload], &small[..]].concat());
        assert!(output.status.success(), "{workload}: {}", String::from_utf8_lossy(&output.stderr));
        let results = json(&output);
        let counts = counts(&results);
        assert_eq!(counts.values().sum::<u64>(), 400, "{workload}: {counts:?}");
        assert!(expected.iter().all(|name| counts[*name] > 0), "{workload}: {counts:?}");
        assert_eq!(results["loop"], "closed");
        assert_eq!(results["load"].is_null(), workload == "ingest");
    }
    // A second run finds the values of the first.
    let again = ["--workload", "c", "--no-load"];
    let output = bench(&folder, serving.address, &[&again, &small[..]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn an_open_loop_counts_latency_from_the_intended_start() {
    let folder = with_store();
    let serving = Serving::start(&folder);
    // A single client cannot keep up with this rate. Operations wait for it, and the waiting is
    // counted.
    let words = ["--workload", "ingest", "--operations", "300", "--clients", "1"];
    let fast = ["--rate", "1000000", "--arrivals", "gamma", "--format", "json"];
    let results = json(&bench(&folder, serving.address, &[&words[..], &fast].concat()));
    let insert = &results["run"]["operations"][0];
    let at = |from: &str| insert[from]["p50_ms"].as_f64().unwrap();
    assert!(at("from_intended") > 10.0 * at("from_sent"), "{insert}");
    assert!(results["run"]["waited_for_client_share"].as_f64().unwrap() > 0.9);
    assert_eq!((&results["loop"], &results["arrivals"]), (&"open".into(), &"gamma".into()));
    let output = bench(&folder, serving.address, &[&words[..], &["--rate", "2000"]].concat());
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.starts_with("Workload ingest: ") && said.contains("  intended  "), "{said}");
    assert!(said.lines().all(|line| line.chars().count() <= 100), "{said}");
}

#[test]
fn a_store_can_be_read_and_scanned_without_a_server() {
    let folder = with_store();
    let small = ["--records", "300", "--operations", "200", "--format", "json"];
    let bench = ["store", "bench", "--workload", "e"];
    let output = forebay(&folder, &[&bench, &small[..], &DISKS].concat()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let counts = counts(&json(&output));
    assert!(counts["scan"] > 150 && counts["insert"] > 0, "{counts:?}");
}

/// The benchmark neither replaces nor reads other keys in the store. Earlier runs may have used
/// other lengths.
#[test]
fn a_benchmark_has_keys_of_its_own() {
    let folder = with_store();
    let others = ["frame:1", "0", "ffffffffffffffff", "forebay-bench", "forebay-bench;", "~", "e"];
    let serving = Serving::start(&folder);
    for key in others {
        assert_eq!(serving.client().text(&format!("SET {key} ...")), "+OK");
    }
    let small = ["--records", "100", "--operations", "100", "--format", "json"];
    let words = ["--workload", "ingest", "--value-bytes", "5000", "--key-bytes", "40"];
    let output = bench(&folder, serving.address, &[&words[..], &small].concat());
    let results = json(&output);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(results["keys_left"], 100);
    assert_eq!(serving.client().text("DBSIZE"), ":107");
    drop(serving);
    let asked = |words: &[&str]| {
        let words = [&["store", "bench"], words, &small, &DISKS].concat();
        let output = forebay(&folder, &words).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        json(&output)
    };
    let results = asked(&["--workload", "e", "--key-bytes", "31"]);
    let inserted = counts(&results)["insert"];
    assert_eq!(results["keys_left"], 100 + inserted);
    assert_eq!(asked(&["--workload", "c", "--no-load", "--key-bytes", "31"])["keys_left"], 0);
    let serving = Serving::start(&folder);
    for key in others {
        assert_eq!(serving.client().text(&format!("GET {key}")), "...", "{key}");
    }
    let few = ["--workload", "ingest", "--operations", "7"];
    let said = String::from_utf8(bench(&folder, serving.address, &few).stdout).unwrap();
    let last = said.trim_end().lines().last().unwrap();
    assert_eq!(last, "7 keys are left in the store; all begin with forebay-bench:");
}

/// Starts a server that supports a few commands and applies `spoiled` to the values it returns. If
/// the result is empty, the server returns the version before the last instead.
fn spoiling(spoiled: fn(usize, Vec<u8>) -> Option<Vec<u8>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    type Values = BTreeMap<Vec<u8>, Vec<Vec<u8>>>;
    let values: Arc<Mutex<Values>> = Arc::default();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let values = Arc::clone(&values);
            std::thread::spawn(move || {
                let mut stream = BufReader::new(stream.unwrap());
                while let Some(words) = words(&mut stream) {
                    let mut values = values.lock().unwrap();
                    let reply = match &words[0][..] {
                        b"PING" => b"+PONG\r\n".to_vec(),
                        b"SET" => {
                            values.entry(words[1].clone()).or_default().push(words[2].clone());
                            b"+OK\r\n".to_vec()
                        }
                        _ => {
                            let versions = &values[&words[1]];
                            match spoiled(versions.len(), versions[versions.len() - 1].clone()) {
                                Some(value) if value.is_empty() => {
                                    bulk(&versions[versions.len().saturating_sub(2)])
                                }
                                Some(value) => bulk(&value),
                                None => b"$-1\r\n".to_vec(),
                            }
                        }
                    };
                    stream.get_mut().write_all(&reply).unwrap();
                }
            });
        }
    });
    address
}

fn bulk(value: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat()
}

fn words(stream: &mut BufReader<TcpStream>) -> Option<Vec<Vec<u8>>> {
    let number = |stream: &mut BufReader<TcpStream>| {
        let mut line = String::new();
        stream.read_line(&mut line).ok().filter(|count| *count > 0)?;
        line[1..].trim_end().parse::<usize>().ok()
    };
    let count = number(stream)?;
    (0..count)
        .map(|_| {
            let mut bytes = vec![0; number(stream)? + 2];
            stream.read_exact(&mut bytes).ok()?;
            bytes.truncate(bytes.len() - 2);
            Some(bytes)
        })
        .collect()
}

#[test]
fn wrong_answers_are_found() {
    let folder = Folder::new();
    let words = ["--workload", "a", "--records", "20", "--operations", "300", "--clients", "1"];
    type Spoil = fn(usize, Vec<u8>) -> Option<Vec<u8>>;
    let spoiled: [(Spoil, &str); 3] = [
        // Sometimes return the version before the last.
        (
            |count, value| Some(if count % 5 == 4 { Vec::new() } else { value }),
            "had been acknowledged",
        ),
        (
            |count, mut value| {
                value[500] ^= u8::from(count % 5 == 4);
                Some(value)
            },
            "never written",
        ),
        (|count, value| (count % 5 != 4).then_some(value), "though one was written"),
    ];
    for (spoiled, expected) in spoiled {
        let output = bench(&folder, spoiling(spoiled), &words);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("wrong answer to a read") && said.contains(expected), "{said}");
        assert!(String::from_utf8(output.stdout).unwrap().contains("FAILED"));
    }
    let output = bench(&folder, spoiling(|_, value| Some(value)), &words);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_missing_server_is_reported_once() {
    let folder = with_store();
    let refused = |output: Output, parts: &[&str]| {
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert_eq!((said.lines().count(), output.stdout.len()), (1, 0), "{said}");
        parts.iter().for_each(|part| assert!(said.contains(part), "no {part:?} in: {said}"));
    };
    // No server listens at the port of tcpmux.
    let closed = SocketAddr::from(([127, 0, 0, 1], 1));
    refused(bench(&folder, closed, &[]), &["refused", "forebay store serve"]);
    refused(bench(&folder, closed, &["--workload", "e"]), &["scans", "DIR"]);
    refused(bench(&folder, closed, &["--arrivals", "poisson"]), &["needs --rate"]);
    refused(bench(&folder, closed, &["--arrivals", "none.trace"]), &["none.trace"]);
    let web = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = web.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = web.accept().unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        let _ = stream.read(&mut [0; 100]);
    });
    refused(bench(&folder, address, &[]), &["expected the reply of a Redis server"]);
    fs::write(folder.root().join("secret"), "word\n").unwrap();
    fs::write(folder.root().join("other"), "guess\n").unwrap();
    let serving = Serving::of(&folder, &[&["--password-file", "secret"], &DISKS[..]].concat());
    refused(bench(&folder, serving.address, &[]), &["--password-file"]);
    let other = ["--password-file", "other"];
    refused(bench(&folder, serving.address, &other), &["WRONGPASS"]);
    let right = ["--password-file", "secret", "--workload", "ingest", "--operations", "50"];
    assert!(bench(&folder, serving.address, &right).status.success());
}

#[test]
fn a_vanished_server_and_ctrl_c_end_the_benchmark() {
    let folder = with_store();
    for is_killed in [true, false] {
        let mut serving = Serving::start(&folder);
        let address = serving.address.to_string();
        let words = ["store", "bench", "--workload", "ingest", "--operations", "100000000"];
        let mut run =
            forebay(&folder, &[&words, &["--connect", &address, "--format", "json"][..]].concat());
        let run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Each of the 16 clients puts one record at a time, so a 17th record means that one client
        // has received an answer.
        let records = || serving.client().text("DBSIZE")[1..].parse::<u64>().unwrap();
        while records() <= 16 {}
        if is_killed {
            serving.child.kill().unwrap();
        } else {
            let pid = run.id().to_string();
            assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        }
        let output = run.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(if is_killed { 2 } else { 0 }), "{said}");
        let results = json(&output);
        assert_eq!(results["interrupted"], !is_killed);
        assert!(results["gone"].is_string() == is_killed && is_killed == said.contains(&address));
        assert!(results["run"]["count"].is_u64());
        drop(serving);
        // The second round begins with an empty store.
        let again = ["store", "create", "--overwrite", "--mb", "200"];
        assert!(
            forebay(&folder, &[&again, &DISKS[..]].concat()).output().unwrap().status.success()
        );
    }
}

/// Starts a server that answers PING and SET. Its answer to SET number `at` is delayed by `stall`.
fn stalling(at: usize, stall: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut stream = BufReader::new(listener.accept().unwrap().0);
        let mut puts = 0;
        while let Some(words) = words(&mut stream) {
            let is_put = words[0] == b"SET";
            puts += usize::from(is_put);
            if is_put && puts == at {
                std::thread::sleep(stall);
            }
            let reply: &[u8] = if is_put { b"+OK\r\n" } else { b"+PONG\r\n" };
            stream.get_mut().write_all(reply).unwrap();
        }
    });
    address
}

#[test]
fn a_stall_delays_all_operations_that_were_due_during_it() {
    let folder = Folder::new();
    // The first put stalls for 2 s, while the other 100 are scheduled within about the first 0.2 s.
    let address = stalling(1, Duration::from_secs(2));
    let words = ["--workload", "ingest", "--operations", "101", "--clients", "1"];
    let open = ["--rate", "500", "--format", "json"];
    let results = json(&bench(&folder, address, &[&words[..], &open].concat()));
    let insert = &results["run"]["operations"][0];
    let ms = |from: &str, what: &str| insert[from][what].as_f64().unwrap();
    assert_eq!(insert["count"], 101);
    // A slow machine only makes these longer. The stall appears in one of the latencies measured
    // from sending.
    assert!(ms("from_intended", "p50_ms") > 1500.0, "{insert}");
    assert!(ms("from_sent", "max_ms") > 1990.0, "{insert}");
    assert!(ms("from_sent", "p50_ms") < ms("from_intended", "p50_ms"), "{insert}");
}

#[test]
fn ctrl_c_ends_the_benchmark_even_if_answers_arrive_byte_by_byte() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (said, dripping) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut stream = BufReader::new(listener.accept().unwrap().0);
        while let Some(words) = words(&mut stream) {
            if words[0] == b"PING" {
                stream.get_mut().write_all(b"+PONG\r\n").unwrap();
                continue;
            }
            // Send a line that never ends, in pieces that come before the client's read times out.
            while stream.get_mut().write_all(b"+").is_ok() {
                let _ = said.send(());
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    });
    let folder = Folder::new();
    let words = ["store", "bench", "--workload", "ingest", "--clients", "1", "--connect", &address];
    let mut run = forebay(&folder, &words).stdout(Stdio::piped()).spawn().unwrap();
    dripping.recv().unwrap();
    let pid = run.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    // Without a limit on its patience, the client would wait until the line is 64 KiB long, which
    // takes 11 minutes.
    for _ in 0..1200 {
        if let Some(status) = run.try_wait().unwrap() {
            assert_eq!(status.code(), Some(0));
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    run.kill().unwrap();
    panic!("it waits on");
}

#[test]
fn a_seed_repeats_its_operations() {
    let folder = Folder::new();
    let address = spoiling(|_, value| Some(value));
    let counted = |seed: &str| {
        let words = ["--records", "50", "--operations", "500", "--seed", seed, "--format", "json"];
        counts(&json(&bench(&folder, address, &words)))
    };
    assert_eq!(counted("1"), counted("1"));
    assert_ne!(counted("1"), counted("2"));
}
