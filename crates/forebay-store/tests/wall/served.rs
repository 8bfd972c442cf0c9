//! Tests a server of a store on files: how it answers clients, whatever the order and length of
//! their commands.

use std::net::SocketAddr;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use forebay_rig::redis::{Client, command};
use forebay_rig::{Folder, PATIENCE};
use forebay_store::{Limits, Server, Store, VALUE_MAX, create};

use crate::wall::{MIB, config, folders, value};

/// A server with a store in a separate folder.
pub(crate) struct Served {
    _root: Folder,
    pub(crate) store: Store,
    server: Server,
}

impl Served {
    pub(crate) fn new(limits: Limits) -> Served {
        let root = Folder::new();
        let disks = create(&folders(root.root(), 4), 256 * MIB, &config(), false).unwrap();
        let store = Store::open(disks, config()).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = Server::start(store.clone(), address, limits).unwrap();
        Served { _root: root, store, server }
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.server.address())
    }

    pub(crate) fn end(self) {
        self.server.stop();
        self.store.close();
    }
}

#[test]
fn a_server_ends_though_clients_keep_sending_or_do_not_read() {
    let served = Served::new(Limits::default());
    let mut busy = served.client();
    let (first, answered) = channel();
    let asking = std::thread::spawn(move || {
        for turn in 0.. {
            busy.send(&command(&[b"PING"]));
            match busy.reply() {
                Some(said) => assert_eq!(said, b"+PONG"),
                None => return turn,
            }
            if turn == 0 {
                first.send(()).unwrap();
            }
        }
        unreachable!("it asks until the connection ends")
    });
    let mut deaf = served.client();
    assert_eq!(deaf.ask(&[b"SET", b"k", &value(1, 1_000_000)]), b"+OK");
    deaf.send(&command(&[b"GET", b"k"]).repeat(100));
    answered.recv_timeout(PATIENCE).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let begin = Instant::now();
    served.end();
    assert!(begin.elapsed() < PATIENCE, "{:?}", begin.elapsed());
    // Accepted commands are answered, and then the connection ends.
    assert!(asking.join().unwrap() > 0);
}

#[test]
fn many_large_values_come_in_their_order() {
    let served = Served::new(Limits::default());
    let mut client = served.client();
    let key = |number: u64| format!("k{number}").into_bytes();
    for number in 0..60 {
        let put = client.ask(&[b"SET", &key(number), &value(number + 1, 700_000)]);
        assert_eq!(put, b"+OK");
    }
    let keys: Vec<_> = (0..70).map(key).collect();
    let words = |name: &'static [u8]| {
        let words: Vec<&[u8]> = [name].into_iter().chain(keys.iter().map(Vec::as_slice)).collect();
        command(&words)
    };
    // All reads begin together, and do not see later puts.
    let gets = keys.iter().flat_map(|key| command(&[b"GET", key])).collect::<Vec<_>>();
    let all = [words(b"MGET"), words(b"EXISTS"), gets, words(b"DEL"), words(b"EXISTS")];
    let again = [command(&[b"SET", b"k3", b"new"]), command(&[b"MGET", b"k3", b"k4"])];
    client.send(&[all.concat(), again.concat()].concat());
    let expected = |number| match number {
        0..60 => value(number + 1, 700_000),
        _ => b"nil".to_vec(),
    };
    let each: Vec<_> = (0..70).map(expected).collect();
    assert!(client.reply().unwrap() == [b"[", &each.join(&b' ')[..], b"]"].concat());
    assert_eq!(client.reply().unwrap(), b":60");
    assert!((0..70).all(|number| client.reply().unwrap() == expected(number)));
    let rest: Vec<_> = (0..4).map(|_| client.reply().unwrap()).collect();
    assert_eq!(rest, [&b":60"[..], b":0", b"+OK", b"[new nil]"]);
    served.end();
}

#[test]
fn a_page_in_a_browser_cannot_write() {
    let served = Served::new(Limits::default());
    let write = command(&[b"SET", b"k", b"1"]);
    for head in ["POST / HTTP/1.1\r\n", "PUT / HTTP/1.1\r\nHost: here\r\n", "host: here\r\n"] {
        let mut client = served.client();
        client.send(&[head.as_bytes(), b"\r\n", &write].concat());
        while let Some(said) = client.reply() {
            assert!(said.starts_with(b"-ERR"), "{head:?}");
        }
    }
    assert_eq!(served.client().text("GET k"), "nil");
    served.end();
}

#[test]
fn a_scan_goes_on_where_it_began_only() {
    let served = Served::new(Limits::default());
    let (mut one, mut other) = (served.client(), served.client());
    assert_eq!(one.text("MSET a 1 b 2 c 3"), "+OK");
    let cursor = |said: String| said[1..].split(' ').next().unwrap().to_string();
    let (mine, theirs) = (cursor(one.text("SCAN 0 COUNT 1")), cursor(other.text("SCAN 0 COUNT 2")));
    assert!(other.text(&format!("SCAN {mine}")).starts_with("-ERR this scan has expired"));
    assert!(one.text(&format!("SCAN {theirs}")).starts_with("-ERR this scan has expired"));
    assert_eq!(one.text(&format!("SCAN {mine} COUNT 9")), "[0 [b c]]");
    assert_eq!(other.text(&format!("SCAN {theirs} COUNT 9")), "[0 [c]]");
    assert_eq!(one.text("SCAN 0 TYPE string COUNT 9"), "[0 [a b c]]");
    assert_eq!(one.text("SCAN 0 TYPE hash COUNT 9"), "[0 []]");
    served.end();
}

#[test]
fn the_longest_value_is_taken_and_a_longer_one_is_refused() {
    let served = Served::new(Limits::default());
    let mut client = served.client();
    let longest = value(3, VALUE_MAX);
    assert_eq!(client.ask(&[b"SET", b"k", &longest]), b"+OK");
    assert!(client.ask(&[b"GET", b"k"]) == longest);
    // The error arrives although the client keeps sending.
    client.send(&command(&[b"SET", b"k", &vec![1; VALUE_MAX + (1 << 20)]]));
    let said = String::from_utf8(client.reply().unwrap()).unwrap();
    assert!(said.starts_with("-ERR") && said.contains("longer than"), "{said}");
    assert_eq!(client.reply(), None);
    served.end();
}

#[test]
fn commands_without_the_password_are_rejected() {
    let served = Served::new(Limits { password: Some("secret".into()), ..Limits::default() });
    let mut client = served.client();
    assert!(client.text("HELLO 3 AUTH default wrong").starts_with("-WRONGPASS"));
    assert!(client.text("HELLO 3").starts_with("-NOAUTH"));
    assert!(client.text("AUTH somebody secret").starts_with("-WRONGPASS"), "no such user");
    assert_eq!(client.text("AUTH default secret"), "+OK");
    assert!(client.text("AUTH wrong").starts_with("-WRONGPASS"));
    assert_eq!(client.text("GET none"), "nil", "known still, in RESP2 still");
    assert_eq!(client.ask(&[b"SET", b"k", &[1; 100_000]]), b"+OK");
    let mut unknown = served.client();
    unknown.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$70000\r\n");
    assert!(String::from_utf8(unknown.reply().unwrap()).unwrap().contains("longer than 65536"));
    assert_eq!(unknown.reply(), None);
    served.end();
}

#[test]
fn incomplete_commands_of_all_clients_are_bounded() {
    let served = Served::new(Limits { unfinished_bytes_max: 3 << 20, ..Limits::default() });
    let begun = command(&[b"SET", b"k", &vec![1; 2 << 20]]);
    let mut first = served.client();
    first.send(&begun[..begun.len() - 10]);
    let mut second = served.client();
    assert_eq!(second.ask(&[b"SET", b"a", &[1; 1000]]), b"+OK");
    second.send(&begun[..begun.len() - 10]);
    // The client that exceeds the limit gets an error, and the other client continues.
    let mut clients = [first, second];
    let refused = loop {
        match clients.iter().position(Client::is_told) {
            Some(refused) => break refused,
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    let said = String::from_utf8(clients[refused].reply().unwrap()).unwrap();
    assert!(said.contains("sent too much"), "{said}");
    clients[1 - refused].send(&begun[begun.len() - 10..]);
    assert_eq!(clients[1 - refused].reply().unwrap(), b"+OK");
    // Clients that have finished use no memory.
    for number in 0..5_u8 {
        assert_eq!(served.client().ask(&[b"SET", &[number], &vec![1; 2 << 20]]), b"+OK");
    }
    served.end();
}

#[test]
fn commands_sent_by_client_libraries_at_connection_are_answered() {
    let served = Served::new(Limits::default());
    let mut client = served.client();
    assert_eq!(client.text("COMMAND COUNT"), ":23");
    assert_eq!(client.text("COMMAND DOCS"), "[]");
    assert_eq!(client.text("CONFIG GET maxmemory"), "[]");
    assert_eq!(client.text("CONFIG GET append* maxmemory"), "[appendonly yes appendfsync always]");
    served.end();
}
