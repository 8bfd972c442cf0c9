//! A store on files, in wall time: what was put is there, after it was closed and opened too; and what is no
//! store is named.

#![allow(clippy::unwrap_used)]
// Files and threads are what it tries.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use forebay_store::{
    Answer, Config, Disks, InPlace, Limits, Operation, Server, Store, StoreError, Transformation,
    Tree, Trouble, VALUE_MAX, create, find,
};

const MIB: u64 = 1 << 20;

fn config() -> Config {
    Config { log_bytes: 200_000, fan_in: 3, segment_bytes: 1 << 20, ..Config::default() }
}

fn folders(root: &Path, count: usize) -> Vec<PathBuf> {
    let folder = |at| {
        let path = root.join(format!("disk{at}"));
        fs::create_dir_all(&path).unwrap();
        path
    };
    (1..=count).map(folder).collect()
}

fn value(number: u64, len: usize) -> Vec<u8> {
    number.to_le_bytes().into_iter().cycle().take(len).collect()
}

/// Puts, replaces, deletes; some by several threads at a time.
fn work(store: &Store, model: &mut BTreeMap<Vec<u8>, Vec<u8>>, seed: u64) {
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let store = store.clone();
            std::thread::spawn(move || {
                let mut done = BTreeMap::new();
                for turn in 0..150_u64 {
                    let number = (turn * 7919 + seed * 31) % 60;
                    let key = format!("{thread}/{number:04}").into_bytes();
                    if turn % 9 == 8 {
                        store.delete(&key[..]).unwrap();
                        done.insert(key, None);
                    } else {
                        let value = value(turn + seed, 100 + (turn as usize * 37) % 9000);
                        store.put(&key[..], &value[..]).unwrap();
                        done.insert(key, Some(value));
                    }
                }
                done
            })
        })
        .collect();
    for (key, value) in threads.into_iter().flat_map(|thread| thread.join().unwrap()) {
        match value {
            Some(value) => model.insert(key, value),
            None => model.remove(&key),
        };
    }
}

fn is_as(store: &Store, model: &BTreeMap<Vec<u8>, Vec<u8>>) {
    for thread in 0..5 {
        for number in 0..61 {
            let key = format!("{thread}/{number:04}").into_bytes();
            let found = store.get(&key[..]).unwrap();
            assert_eq!(found.as_deref(), model.get(&key).map(|value| &value[..]));
        }
    }
    let all = store.scan(&b""[..], usize::MAX).unwrap();
    let all: Vec<_> = all.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
    let expected: Vec<_> = model.clone().into_iter().collect();
    assert!(all == expected, "{} keys, {} expected", all.len(), expected.len());
    let some = store.scan(&b"1/0020"[..], 7).unwrap();
    let from = model.range(b"1/0020".to_vec()..).take(7);
    assert!(some.iter().map(|(key, _)| &key[..]).eq(from.map(|(key, _)| &key[..])));
}

#[test]
fn what_was_put_is_there() {
    let root = tempfile::tempdir().unwrap();
    let folders = folders(root.path(), 4);
    let store =
        Store::open(create(&folders, 64 * MIB, &config(), false).unwrap(), config()).unwrap();
    let mut model = BTreeMap::new();
    for seed in 0..3 {
        work(&store, &mut model, seed);
        is_as(&store, &model);
    }
    let status = store.status();
    assert!(status.figures.transformations > 10 && status.stages.len() == 4, "{status:?}");
    // The same again from what is on the disks; the order of the folders does not matter.
    store.close();
    assert_eq!(store.get(&b"0/0001"[..]), Err(Trouble::Closed));
    let mut turned = folders.clone();
    turned.rotate_left(1);
    for transformation in [Transformation::Enhanced, Transformation::Basic] {
        let config = Config { transformation, read_log: true, ..config() };
        let store = Store::open(find(&turned).unwrap(), config).unwrap();
        is_as(&store, &model);
        work(&store, &mut model, 9);
        is_as(&store, &model);
        store.close();
    }
}

#[test]
fn a_snapshot_is_as_it_was_whatever_comes_later() {
    let root = tempfile::tempdir().unwrap();
    let disks = create(&folders(root.path(), 4), 64 * MIB, &config(), false).unwrap();
    let store = Store::open(disks, config()).unwrap();
    let mut model = BTreeMap::new();
    work(&store, &mut model, 0);
    let (snapshot, then) = (store.snapshot().unwrap(), model.clone());
    // Logs and segments that it was of are replaced many times.
    for seed in 1..6 {
        work(&store, &mut model, seed);
    }
    assert!(then != model);
    let found = snapshot.scan(&b""[..], usize::MAX).unwrap();
    assert!(found.iter().map(|(key, _)| &key[..]).eq(then.keys().map(|key| &key[..])));
    assert!(found.iter().map(|(_, value)| &value[..]).eq(then.values().map(|value| &value[..])));
    let paged: Vec<_> = snapshot.records(&b"1/0020"[..]).map(Result::unwrap).collect();
    assert!(found.iter().filter(|(key, _)| key[..] >= b"1/0020"[..]).eq(&paged));
    for (key, value) in &then {
        assert_eq!(snapshot.get(&key[..]).unwrap().as_deref(), Some(&value[..]));
    }
    drop(snapshot);
    is_as(&store, &model);
    let read = Box::new(Operation::Get(b"1".as_slice().into()));
    assert_eq!(store.ask(Operation::At { snapshot: 9999, read }), Err(Trouble::NoSnapshot));
    store.close();
}

#[test]
fn what_would_not_be_found_again_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let disks = create(&folders(root.path(), 4), 64 * MIB, &config(), false).unwrap();
    let config = Config { tree: Tree::InPlace(InPlace::default()), ..config() };
    let refused = Store::open(disks, config).err().unwrap();
    assert!(refused.is_input() && refused.to_string().contains("in place"), "{refused}");
}

#[test]
fn a_batch_is_written_in_its_order_and_what_is_too_long_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let disks = create(&folders(root.path(), 4), 64 * MIB, &config(), false).unwrap();
    let store = Store::open(disks, config()).unwrap();
    let key = |key: &str| key.as_bytes().into();
    let put = |value: &str| Some(value.as_bytes().into());
    let batch =
        vec![(key("a"), put("1")), (key("b"), put("2")), (key("a"), None), (key("b"), put("3"))];
    assert_eq!(store.ask(Operation::Write(batch)), Ok(Answer::Done));
    assert_eq!(store.get(&b"a"[..]), Ok(None));
    assert_eq!(store.get(&b"b"[..]).unwrap().as_deref(), Some(&b"3"[..]));
    assert!(matches!(store.put(vec![0; 70_000], &b""[..]), Err(Trouble::Long { got: 70_000, .. })));
    assert!(matches!(
        store.put(&b"c"[..], vec![0; (64 << 20) + (65 << 10)]),
        Err(Trouble::Long { .. })
    ));
    // Longer than a log.
    let long = value(7, 5_000_000);
    store.put(&b"c"[..], &long[..]).unwrap();
    assert_eq!(store.get(&b"c"[..]).unwrap().as_deref(), Some(&long[..]));
    store.put(&b""[..], &b""[..]).unwrap();
    assert_eq!(store.scan(&b""[..], 1).unwrap()[0].0.len(), 0);
    store.close();
}

#[test]
fn a_page_has_as_many_bytes_as_were_asked_for_whatever_values_have() {
    let root = tempfile::tempdir().unwrap();
    let disks = create(&folders(root.path(), 4), 128 * MIB, &config(), false).unwrap();
    let store = Store::open(disks, config()).unwrap();
    // Pages of one value, of some, and of none that is whole.
    let lens = [5_000_000, 0, 900_000, 900_000, 4_500_000, 10, 6_000_000];
    for (number, len) in (0..).zip(lens) {
        store.put([number], value(number.into(), len)).unwrap();
    }
    let (mut from, mut pages) = (Some(forebay_store::Key::from([])), Vec::new());
    while let Some(begin) = from {
        let scan = Operation::Scan { from: begin, count: 100, bytes: 2_000_000 };
        let Ok(Answer::Page(page)) = store.ask(scan) else { panic!("no page") };
        pages.push(page.records.iter().map(|(_, value)| value.len()).collect::<Vec<_>>());
        from = page.next;
    }
    let expected: [&[usize]; 5] =
        [&[5_000_000], &[0, 900_000, 900_000], &[4_500_000], &[10], &[6_000_000]];
    assert_eq!(pages, expected);
    let snapshot = store.snapshot().unwrap();
    // Nothing that was put since is in it, and nobody need come to its end.
    store.put([9], vec![1; 10]).unwrap();
    let all = snapshot.records(&b""[..]).map(|record| record.unwrap().1.len());
    assert!(all.eq(lens));
    assert_eq!(snapshot.records([4]).next().unwrap().unwrap().1.len(), 4_500_000);
    store.close();
    assert_eq!(snapshot.records([4]).next(), Some(Err(Trouble::Closed)));
}

#[test]
fn a_store_that_is_full_says_so_and_keeps_what_it_has() {
    let root = tempfile::tempdir().unwrap();
    let disks = create(&folders(root.path(), 4), 12 * MIB, &config(), false).unwrap();
    let store = Store::open(disks, config()).unwrap();
    let mut kept = 0;
    let outcome = (0..4000_u64).try_for_each(|number| {
        let put = store.put(&number.to_be_bytes()[..], value(number, 50_000));
        kept += u64::from(put.is_ok());
        put
    });
    assert_eq!(outcome, Err(Trouble::Full));
    assert!(kept > 300, "{kept} puts of 50 kB in some 30 MiB");
    let all = store.scan(&b""[..], usize::MAX).unwrap();
    assert_eq!(all.len() as u64, kept);
    assert!((0..kept).zip(&all).all(|(number, (_, found))| **found == *value(number, 50_000)));
    store.close();
}

fn said(outcome: Result<Disks, StoreError>) -> String {
    match outcome {
        Ok(_) => panic!("it was taken"),
        Err(error) => {
            assert!(error.is_input());
            error.to_string()
        }
    }
}

#[test]
fn what_is_no_store_is_named_and_nothing_is_written() {
    let root = tempfile::tempdir().unwrap();
    let folders = folders(root.path(), 5);
    let make = |paths: &[PathBuf], bytes| create(paths, bytes, &config(), false);
    assert!(said(make(&folders[..3], 64 * MIB)).contains("got 3 disks"));
    let twice = [&folders[..3], &folders[..1]].concat();
    assert!(said(make(&twice, 64 * MIB)).contains("named twice"));
    assert!(said(make(&folders[..4], MIB)).contains("expected"));
    assert!(said(find(&folders[..4])).contains("No such file"), "nothing half made is left");
    drop(make(&folders[..4], 64 * MIB).unwrap());
    assert!(said(make(&folders[..4], 64 * MIB)).contains("--overwrite"));
    assert!(said(find(&folders[..3])).contains("got 3 of its 4 disks"));
    assert!(said(find(&[])).contains("got no disks"));
    let copy = folders[4].join("forebay.store");
    fs::copy(folders[0].join("forebay.store"), &copy).unwrap();
    assert!(said(find(&folders)).contains("is disk 1 of the store, and so is"));
    fs::write(&copy, "no label").unwrap();
    assert!(said(find(&folders)).contains("no label"));
    fs::File::create(&copy).unwrap().set_len(64 * MIB).unwrap();
    assert!(said(find(&folders)).contains("no label"));
    let open = find(&folders[..4]).unwrap();
    assert!(said(find(&folders[..4])).contains("in use"));
    drop(open);
    let file = fs::File::options().write(true).open(folders[2].join("forebay.store")).unwrap();
    file.set_len(63 * MIB).unwrap();
    assert!(said(find(&folders[..4])).contains("expected"));
}

/// A store that is served, in a folder of its own.
struct Served {
    _root: tempfile::TempDir,
    store: Store,
    server: Server,
}

impl Served {
    fn new(limits: Limits) -> Served {
        let root = tempfile::tempdir().unwrap();
        let disks = create(&folders(root.path(), 4), 256 * MIB, &config(), false).unwrap();
        let store = Store::open(disks, config()).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = Server::start(store.clone(), address, limits).unwrap();
        Served { _root: root, store, server }
    }

    fn client(&self) -> Client {
        let stream = TcpStream::connect(self.server.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Client(BufReader::new(stream))
    }

    fn end(self) {
        self.server.stop();
        self.store.close();
    }
}

struct Client(BufReader<TcpStream>);

impl Client {
    fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).unwrap();
    }

    /// A reply, items in brackets; none where the connection ended as it should, and not by a reset.
    fn reply(&mut self) -> Option<Vec<u8>> {
        let mut line = Vec::new();
        self.0.read_until(b'\n', &mut line).unwrap();
        let line = line.strip_suffix(b"\r\n")?.to_vec();
        let number = || str::from_utf8(&line[1..]).unwrap().parse::<i64>().unwrap();
        Some(match line[0] {
            b'$' if number() < 0 => b"nil".to_vec(),
            b'$' => {
                let mut bytes = vec![0; number() as usize + 2];
                self.0.read_exact(&mut bytes).unwrap();
                bytes[..bytes.len() - 2].to_vec()
            }
            b'*' => {
                let items: Vec<_> = (0..number()).map(|_| self.reply().unwrap()).collect();
                [b"[", &items.join(&b' ')[..], b"]"].concat()
            }
            _ => line,
        })
    }

    /// Whether there is something to read, without waiting for it.
    fn is_told(&self) -> bool {
        let stream = self.0.get_ref();
        stream.set_nonblocking(true).unwrap();
        let told = stream.peek(&mut [0]).is_ok_and(|bytes| bytes > 0);
        stream.set_nonblocking(false).unwrap();
        told
    }

    fn ask(&mut self, words: &[&[u8]]) -> Vec<u8> {
        self.send(&command(words));
        self.reply().unwrap()
    }

    fn text(&mut self, line: &str) -> String {
        let words: Vec<_> = line.split(' ').map(str::as_bytes).collect();
        String::from_utf8(self.ask(&words)).unwrap()
    }
}

fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n", word.len()).into_bytes());
        bytes.extend_from_slice(word);
        bytes.extend(b"\r\n");
    }
    bytes
}

#[test]
fn a_server_ends_though_clients_keep_sending_or_do_not_read() {
    let served = Served::new(Limits::default());
    let mut busy = served.client();
    let asking = std::thread::spawn(move || {
        for turn in 0.. {
            busy.send(&command(&[b"PING"]));
            match busy.reply() {
                Some(said) => assert_eq!(said, b"+PONG"),
                None => return turn,
            }
        }
        unreachable!("it asks until the connection ends")
    });
    let mut deaf = served.client();
    assert_eq!(deaf.ask(&[b"SET", b"k", &value(1, 1_000_000)]), b"+OK");
    deaf.send(&command(&[b"GET", b"k"]).repeat(100));
    std::thread::sleep(Duration::from_millis(300));
    let begin = Instant::now();
    served.end();
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    // What was taken is answered, and then the connection ends.
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
    // All at once, and what is put behind them is not seen before.
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
    assert!(other.text(&format!("SCAN {mine}")).starts_with("-ERR this scan was forgotten"));
    assert!(one.text(&format!("SCAN {theirs}")).starts_with("-ERR this scan was forgotten"));
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
    // It is told though it goes on sending.
    client.send(&command(&[b"SET", b"k", &vec![1; VALUE_MAX + (1 << 20)]]));
    let said = String::from_utf8(client.reply().unwrap()).unwrap();
    assert!(said.starts_with("-ERR") && said.contains("longer than"), "{said}");
    assert_eq!(client.reply(), None);
    served.end();
}

#[test]
fn whoever_has_not_said_the_password_gets_nothing() {
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
fn what_clients_begin_to_send_is_bounded_in_all() {
    let served = Served::new(Limits { unfinished_bytes_max: 3 << 20, ..Limits::default() });
    let begun = command(&[b"SET", b"k", &vec![1; 2 << 20]]);
    let mut first = served.client();
    first.send(&begun[..begun.len() - 10]);
    let mut second = served.client();
    assert_eq!(second.ask(&[b"SET", b"a", &[1; 1000]]), b"+OK");
    second.send(&begun[..begun.len() - 10]);
    // That which is read last makes it too much, and is told; the other goes on.
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
    // Who is through takes up nothing.
    for number in 0..5_u8 {
        assert_eq!(served.client().ask(&[b"SET", &[number], &vec![1; 2 << 20]]), b"+OK");
    }
    served.end();
}

#[test]
fn what_clients_ask_when_they_begin_is_answered() {
    let served = Served::new(Limits::default());
    let mut client = served.client();
    assert_eq!(client.text("COMMAND COUNT"), ":19");
    assert_eq!(client.text("COMMAND DOCS"), "[]");
    assert_eq!(client.text("CONFIG GET maxmemory"), "[]");
    assert_eq!(client.text("CONFIG GET append* maxmemory"), "[appendonly yes appendfsync always]");
    served.end();
}

#[test]
fn a_store_made_over_another_has_the_size_that_was_asked_for() {
    let root = tempfile::tempdir().unwrap();
    let folders = folders(root.path(), 4);
    let file = folders[2].join("forebay.store");
    for (bytes, overwrite) in [(64 * MIB, false), (96 * MIB, true), (32 * MIB, true)] {
        let disks = create(&folders, bytes, &config(), overwrite).unwrap();
        assert!(disks.layouts.iter().all(|layout| layout.capacity_bytes == bytes));
        let found = fs::metadata(&file).unwrap();
        assert_eq!(found.len(), bytes);
        // All of it is set aside, or it is said.
        assert!(found.blocks() * 512 >= bytes || disks.notes().any(|note| note.contains("aside")));
        let store = Store::open(disks, config()).unwrap();
        store.put(&b"k"[..], &b"1"[..]).unwrap();
        store.close();
    }
    // There is no room: those that were there are as they were, those that were not are not.
    fs::remove_file(&file).unwrap();
    assert!(said(create(&folders, u64::MAX / 8, &config(), true)).contains("no room"));
    assert!(!file.exists());
    assert_eq!(fs::metadata(folders[1].join("forebay.store")).unwrap().len(), 32 * MIB);
}
