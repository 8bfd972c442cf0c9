//! Tests what concurrent clients of a server see of each other: a transaction (MULTI to EXEC) and
//! every command with several keys are atomic.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use forebay_rig::redis::{Client, command};
use forebay_store::{Limits, VALUE_MAX};

use crate::wall::served::Served;
use crate::wall::value;

/// Sends these commands in order, and compares the replies.
fn talks(client: &mut Client, talk: &[(&str, &str)]) {
    for (line, expected) in talk {
        assert_eq!(client.text(line), *expected, "{line}");
    }
}

#[test]
fn queued_commands_run_at_exec() {
    let served = Served::new(Limits::default());
    let (mut client, mut other) = (served.client(), served.client());
    talks(
        &mut client,
        &[
            ("MSET a 1 b 2", "+OK"),
            ("MULTI", "+OK"),
            ("SET a 5", "+QUEUED"),
            ("GET a", "+QUEUED"),
            ("DEL b none b", "+QUEUED"),
            ("mget a b", "+QUEUED"),
            ("EXISTS a b a", "+QUEUED"),
            ("MSET c 3 b 4", "+QUEUED"),
            ("UNLINK b", "+QUEUED"),
            ("DEL b", "+QUEUED"),
            ("PING", "+QUEUED"),
            ("PING word", "+QUEUED"),
            ("ECHO word", "+QUEUED"),
            ("SELECT 0", "+QUEUED"),
        ],
    );
    assert_eq!(other.text("MGET a b c"), "[1 2 nil]");
    let expected = "[+OK 5 :1 [5 nil] :2 +OK :1 :0 +PONG word word +OK]";
    talks(&mut client, &[("EXEC", expected), ("MGET a b c", "[5 nil 3]")]);
    assert_eq!(other.text("MGET a b c"), "[5 nil 3]");
    // A transaction with reads only; an empty one; and one that reads a key before replacing it.
    talks(
        &mut client,
        &[
            ("MULTI", "+OK"),
            ("GET a", "+QUEUED"),
            ("EXISTS b", "+QUEUED"),
            ("EXEC", "[5 :0]"),
            ("MULTI", "+OK"),
            ("EXEC", "[]"),
            ("MULTI", "+OK"),
            ("GET a", "+QUEUED"),
            ("SET a 6", "+QUEUED"),
            ("EXEC", "[5 +OK]"),
            ("GET a", "6"),
        ],
    );
    served.end();
}

#[test]
fn discarded_or_rejected_transactions_have_no_effect() {
    let served = Served::new(Limits::default());
    let mut client = served.client();
    talks(
        &mut client,
        &[
            ("EXEC", "-ERR EXEC without MULTI"),
            ("DISCARD", "-ERR DISCARD without MULTI"),
            ("MULTI", "+OK"),
            ("SET a 1", "+QUEUED"),
            ("DISCARD", "+OK"),
            ("EXEC", "-ERR EXEC without MULTI"),
            ("GET a", "nil"),
            // Neither of these errors ends the open transaction.
            ("MULTI", "+OK"),
            ("MULTI", "-ERR MULTI calls can not be nested"),
            ("SET a 1", "+QUEUED"),
            ("EXEC", "[+OK]"),
            ("MULTI", "+OK"),
            ("SET b 1", "+QUEUED"),
            ("RESET", "+RESET"),
            ("EXEC", "-ERR EXEC without MULTI"),
            ("GET b", "nil"),
        ],
    );
    let abort = "-EXECABORT Transaction discarded because of previous errors.";
    for (wrong, said) in [
        ("GET", "-ERR wrong number of arguments for 'get' command"),
        ("NOSUCH x", "-ERR unknown command 'NOSUCH'"),
        ("SET b 1 EX 5", "-ERR syntax error: SET takes a key and a value; values do not expire"),
        ("MSET b 1 c", "-ERR wrong number of arguments for 'mset' command"),
        ("SCAN 0", "-ERR SCAN cannot be queued"),
        ("DBSIZE", "-ERR DBSIZE cannot be queued"),
        ("INFO", "-ERR INFO cannot be queued"),
        ("CONFIG GET save", "-ERR CONFIG cannot be queued"),
        ("CLIENT ID", "-ERR CLIENT cannot be queued"),
        ("HELLO 3", "-ERR HELLO cannot be queued"),
        ("AUTH x", "-ERR AUTH cannot be queued"),
        ("SELECT 1", "-ERR DB index is out of range"),
        ("EXEC now", "-ERR wrong number of arguments for 'exec' command"),
        ("WATCH a", "-ERR WATCH is not supported"),
    ] {
        talks(&mut client, &[("MULTI", "+OK"), ("SET b 1", "+QUEUED")]);
        let answer = client.text(wrong);
        assert!(answer.starts_with(said), "{wrong}: {answer}");
        talks(&mut client, &[("SET c 1", "+QUEUED"), ("EXEC", abort), ("MGET b c", "[nil nil]")]);
    }
    for words in ["WATCH a", "UNWATCH"] {
        let answer = client.text(words);
        assert!(answer.starts_with("-ERR") && answer.contains("not supported"), "{answer}");
    }
    // When a connection ends, its queued commands are discarded.
    talks(&mut client, &[("MULTI", "+OK"), ("SET b 1", "+QUEUED")]);
    drop(client);
    assert_eq!(served.client().text("GET b"), "nil");
    served.end();
}

#[test]
fn a_pipeline_is_a_transaction_as_clients_send_it() {
    let served = Served::new(Limits::default());
    let mut client = served.client();
    let all: Vec<_> = (0..300_u32)
        .flat_map(|turn| {
            let text = turn.to_string().into_bytes();
            let mut bytes = command(&[b"MULTI"]);
            bytes.extend(command(&[b"GET", b"k"]));
            bytes.extend(command(&[b"SET", b"k", &text]));
            bytes.extend(command(&[b"DEL", b"gone"]));
            bytes.extend(command(&[b"SET", b"gone", b"1"]));
            bytes.extend(command(&[b"EXEC"]));
            bytes
        })
        .collect();
    client.send(&all);
    for turn in 0..300_u32 {
        assert_eq!(client.reply().unwrap(), b"+OK");
        (0..4).for_each(|_| assert_eq!(client.reply().unwrap(), b"+QUEUED"));
        let expected = match turn {
            0 => "[nil +OK :0 +OK]".to_string(),
            _ => format!("[{} +OK :1 +OK]", turn - 1),
        };
        assert_eq!(String::from_utf8(client.reply().unwrap()).unwrap(), expected);
    }
    // A command that follows EXEC sees its writes.
    client.send(&[command(&[b"MULTI"]), command(&[b"SET", b"k", b"x"])].concat());
    client.send(&[command(&[b"EXEC"]), command(&[b"GET", b"k"])].concat());
    let said: Vec<_> = (0..4).map(|_| client.reply().unwrap()).collect();
    assert_eq!(said, [&b"+OK"[..], b"+QUEUED", b"[+OK]", b"x"]);
    served.end();
}

#[test]
fn the_size_of_a_transaction_is_bounded() {
    let served = Served::new(Limits::default());
    let mut client = served.client();
    let half = value(1, VALUE_MAX / 2 + 40_000);
    // A value may be as long as in a SET, and so may all values of a transaction together.
    assert_eq!(client.text("MULTI"), "+OK");
    assert_eq!(client.ask(&[b"SET", b"k", &value(3, VALUE_MAX)]), b"+QUEUED");
    assert_eq!(client.text("EXEC"), "[+OK]");
    assert_eq!(client.text("MULTI"), "+OK");
    assert_eq!(client.ask(&[b"SET", b"k", &half]), b"+QUEUED");
    let said = String::from_utf8(client.ask(&[b"SET", b"l", &half])).unwrap();
    assert!(said.starts_with("-ERR a transaction has at most"), "{said}");
    assert!(client.text("EXEC").starts_with("-EXECABORT"));
    assert_eq!(client.text("EXISTS l"), ":0");
    // Commands without values count as well.
    assert_eq!(client.text("MULTI"), "+OK");
    let some = command(&[b"PING"]).repeat(10_000);
    let mut refused = 0;
    for _ in 0..120 {
        client.send(&some);
        let said = (0..10_000).map(|_| client.reply().unwrap());
        refused += said.filter(|said| said.starts_with(b"-ERR")).count();
    }
    assert_eq!(refused, 1);
    assert!(client.text("EXEC").starts_with("-EXECABORT"));
    // A key that SET would refuse is refused when it is queued.
    assert_eq!(client.text("MULTI"), "+OK");
    let said = String::from_utf8(client.ask(&[b"SET", &[b'k'; 70_000], b"1"])).unwrap();
    assert!(said.starts_with("-ERR got 70000 bytes"), "{said}");
    assert!(client.text("EXEC").starts_with("-EXECABORT"));
    served.end();
}

/// All values of an MGET are from one moment, even though most of them are read only once the
/// client accepts the first, and all keys were replaced together in between.
#[test]
fn a_long_mget_is_a_consistent_snapshot() {
    let served = Served::new(Limits::default());
    let (mut reader, mut writer) = (served.client(), served.client());
    let keys: Vec<_> = (0..60_u8).map(|number| vec![b'k', number]).collect();
    let put = |writer: &mut Client, seed: u64| {
        let value = value(seed, 700_000);
        let pairs = keys.iter().flat_map(|key| [&key[..], &value]);
        let words: Vec<&[u8]> = [&b"MSET"[..]].into_iter().chain(pairs).collect();
        assert_eq!(writer.ask(&words), b"+OK");
    };
    put(&mut writer, 1);
    let get = |name: &'static [u8]| {
        command(&[name].into_iter().chain(keys.iter().map(Vec::as_slice)).collect::<Vec<_>>())
    };
    let exec = [command(&[b"MULTI"]), get(b"MGET"), get(b"MGET"), command(&[b"EXEC"])].concat();
    for (seed, asked) in (1..).zip([get(b"MGET"), exec]) {
        reader.send(&asked);
        if asked.starts_with(b"*1") {
            assert_eq!(reader.reply().unwrap(), b"+OK");
            (0..2).for_each(|_| assert_eq!(reader.reply().unwrap(), b"+QUEUED"));
        }
        while !reader.is_told() {
            std::thread::sleep(Duration::from_millis(1));
        }
        put(&mut writer, seed + 1);
        let values = keys.iter().map(|_| value(seed, 700_000)).collect::<Vec<_>>().join(&b' ');
        let whole = [b"[", &values[..], b"]"].concat();
        let expected = match asked.starts_with(b"*1") {
            true => [b"[", &whole[..], b" ", &whole, b"]"].concat(),
            false => whole,
        };
        assert!(reader.reply().unwrap() == expected, "values of two moments");
    }
    served.end();
}

/// Writers replace all keys together while others read several of them in every possible way.
#[test]
fn partial_writes_are_never_visible() {
    let served = Served::new(Limits::default());
    served.store.put(&b"a"[..], &b"0"[..]).unwrap();
    served.store.put(&b"b"[..], &b"0"[..]).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..2_u32 {
            let (mut client, is_over) = (served.client(), &is_over);
            scope.spawn(move || {
                for turn in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    let value = format!("{writer}-{turn}");
                    match turn % 3 {
                        0 => assert_eq!(client.text(&format!("MSET a {value} b {value}")), "+OK"),
                        1 => assert!(client.text("DEL a b").starts_with(':')),
                        _ => {
                            for line in
                                ["MULTI", &format!("SET b {value}"), &format!("SET a {value}")]
                            {
                                client.text(line);
                            }
                            assert_eq!(client.text("EXEC"), "[+OK +OK]");
                        }
                    }
                }
            });
        }
        let mut client = served.client();
        for _ in 0..1500 {
            let both = client.text("MGET a b");
            let (a, b) = both[1..both.len() - 1].split_once(' ').unwrap();
            assert_eq!(a, b, "MGET");
            assert!([":0", ":2"].contains(&&*client.text("EXISTS a b")), "EXISTS");
            for line in ["MULTI", "GET a", "GET b", "EXISTS b a", "EXEC"] {
                let said = client.text(line);
                if line == "EXEC" {
                    let parts: Vec<_> = said[1..said.len() - 1].split(' ').collect();
                    let count = if parts[0] == "nil" { ":0" } else { ":2" };
                    assert_eq!((parts[0], parts[2]), (parts[1], count), "EXEC");
                }
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    served.end();
}

/// DEL counts the keys that it removes: if several clients delete the same key, only one of them
/// gets 1.
#[test]
fn deletions_are_counted_once() {
    let served = Served::new(Limits::default());
    let mut client = served.client();
    let keys: Vec<String> = (0..200).map(|number| format!("k{number}")).collect();
    for round in 0..3 {
        let all: Vec<u8> =
            keys.iter().flat_map(|key| command(&[b"SET", key.as_bytes(), b"1"])).collect();
        client.send(&all);
        keys.iter().for_each(|_| assert_eq!(client.reply().unwrap(), b"+OK"));
        let counted = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    let (mut client, keys) = (served.client(), &keys);
                    scope.spawn(move || {
                        // The commands are sent one at a time, or all in a transaction.
                        let each: Vec<u8> = keys
                            .iter()
                            .flat_map(|key| command(&[b"DEL", key.as_bytes()]))
                            .collect();
                        if round == 0 {
                            client
                                .send(&[command(&[b"MULTI"]), each, command(&[b"EXEC"])].concat());
                            (0..=keys.len()).for_each(|_| drop(client.reply()));
                            let said = String::from_utf8(client.reply().unwrap()).unwrap();
                            return said.matches(":1").count();
                        }
                        client.send(&each);
                        keys.iter().filter(|_| client.reply().unwrap() == b":1").count()
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
        });
        assert_eq!(counted, keys.len(), "round {round}");
    }
    served.end();
}

#[test]
fn only_completed_writes_are_acknowledged() {
    let served = Served::new(Limits::default());
    let (mut client, mut other) = (served.client(), served.client());
    talks(
        &mut client,
        &[
            ("CLIENT GETNAME", "nil"),
            ("CLIENT SETNAME worker-7", "+OK"),
            ("CLIENT GETNAME", "worker-7"),
            ("client setinfo LIB-NAME test(1)", "+OK"),
            ("CLIENT SETINFO lib-ver 1.2", "+OK"),
        ],
    );
    assert_eq!(other.text("CLIENT GETNAME"), "nil");
    let id = client.text("CLIENT ID");
    assert!(id.starts_with(':') && id != other.text("CLIENT ID") && id == client.text("CLIENT ID"));
    for name in [&b"two words"[..], b"line\nfeed", b"\x00", b"\xff\xfe"] {
        let said = String::from_utf8(client.ask(&[b"CLIENT", b"SETNAME", name])).unwrap();
        assert!(said.starts_with("-ERR Client names cannot contain spaces"), "{said}");
    }
    let said = String::from_utf8(client.ask(&[b"CLIENT", b"SETNAME", &[b'n'; 5000]])).unwrap();
    assert!(said.starts_with("-ERR") && said.contains("at most"), "{said}");
    assert_eq!(client.text("CLIENT GETNAME"), "worker-7");
    assert_eq!(client.ask(&[b"CLIENT", b"SETNAME", b""]), b"+OK");
    assert_eq!(client.text("CLIENT GETNAME"), "nil");
    for (line, part) in [
        ("CLIENT LIST", "'LIST'"),
        ("CLIENT KILL ID 1", "'KILL'"),
        ("CLIENT NO-EVICT on", "'NO-EVICT'"),
        ("CLIENT REPLY OFF", "'REPLY'"),
        ("CLIENT PAUSE 100", "'PAUSE'"),
        ("CLIENT TRACKING on", "'TRACKING'"),
        ("CLIENT maint_notifications on", "'maint_notifications'"),
        ("CLIENT SETNAME", "client|setname"),
        ("CLIENT GETNAME x", "client|getname"),
        ("CLIENT ID x", "client|id"),
        ("CLIENT SETINFO lib-name", "client|setinfo"),
        ("CLIENT SETINFO color red", "'color'"),
        ("CONFIG SET appendonly no", "'SET'"),
        ("CONFIG RESETSTAT", "'RESETSTAT'"),
        ("CONFIG GET", "config|get"),
        ("COMMAND GETKEYS GET a", "'GETKEYS'"),
        ("COMMAND INFO get", "'INFO'"),
        ("HELLO 3 SETNAME", "syntax error"),
        ("HELLO 2 PLEASE", "syntax error"),
        ("HELLO 2 AUTH default", "syntax error"),
        ("DBSIZE x", "wrong number"),
        ("PING a b", "wrong number"),
        ("DEBUG SLEEP 0", "'DEBUG'"),
        ("SCAN 0 TYPE", "syntax error"),
    ] {
        let said = client.text(line);
        assert!(said.starts_with("-ERR") && said.contains(part), "{line}: {said}");
    }
    let mut hello = served.client();
    assert!(hello.text("HELLO 2 SETNAME early").contains("forebay"));
    assert_eq!(hello.text("CLIENT GETNAME"), "early");
    assert_eq!(hello.text("RESET"), "+RESET");
    assert_eq!(hello.text("CLIENT GETNAME"), "nil");
    // The error quotes only the beginning of an unknown command.
    let said = client.ask(&[&vec![b'x'; 1 << 20]]);
    assert!(said.starts_with(b"-ERR unknown command") && said.len() < 300, "{}", said.len());
    served.end();
}
