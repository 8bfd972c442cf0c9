//! A client's session: commands in, replies out, in their order.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Instant;

use crate::operation::{Answer, Operation, Page, Trouble};
use crate::record::{Key, Value};
use crate::store::{Answered, Store};

use super::command::Words;
use super::glob::matches;
use super::info;
use super::reply::Reply;
use super::{Limits, Serving};

/// A reply, or what it will be made of.
pub(super) enum Pending {
    Ready(Reply),
    /// The answers to several operations, and what is made of them.
    Asked(Vec<Receiver<Answered>>, fn(Vec<Answered>) -> Reply),
}

impl Pending {
    /// Waits for it.
    pub(super) fn reply(self) -> Reply {
        match self {
            Pending::Ready(reply) => reply,
            Pending::Asked(answers, made) => {
                let answers =
                    answers.into_iter().map(|answer| answer.recv().unwrap_or(Err(Trouble::Closed)));
                made(answers.collect())
            }
        }
    }
}

/// What is known of a client.
pub(super) struct Session {
    serving: Arc<Serving>,
    is_known: bool,
    pub(super) is_resp3: bool,
    pub(super) is_over: bool,
    /// Where scans go on, by the numbers that clients are given for them.
    cursors: VecDeque<(u64, Key)>,
    next_cursor: u64,
    /// Keys whose writes were begun and are not answered yet.
    written: BTreeSet<Key>,
}

/// Scans of a client that are under way at a time; the oldest is forgotten.
const CURSORS: usize = 256;
/// Keys that SCAN looks at unless it is told how many.
const SCAN_COUNT: usize = 10;

fn error(what: impl Into<String>) -> Pending {
    Pending::Ready(Reply::Error(what.into()))
}

fn trouble(trouble: &Trouble) -> Reply {
    match trouble {
        Trouble::Full => Reply::Error(format!("OOM {trouble}")),
        _ => Reply::Error(format!("ERR {trouble}")),
    }
}

/// The first trouble in these answers, or what `made` makes of them.
fn or_trouble(answers: &[Answered], made: impl FnOnce() -> Reply) -> Reply {
    answers.iter().find_map(|answer| answer.as_ref().err()).map_or_else(made, trouble)
}

fn value(answer: &Answered) -> Reply {
    match answer {
        Ok(Answer::Value(Some(value))) => Reply::Bulk(value.clone()),
        Ok(_) => Reply::Null,
        Err(wrong) => trouble(wrong),
    }
}

/// How many of these are there.
fn there(answers: Vec<Answered>) -> Reply {
    let is_there = |answer: &&Answered| matches!(answer, Ok(Answer::Value(Some(_))));
    or_trouble(&answers, || Reply::Integer(answers.iter().filter(is_there).count() as i64))
}

impl Session {
    pub(super) fn new(serving: &Arc<Serving>) -> Session {
        Session {
            is_known: serving.limits.password.is_none(),
            serving: Arc::clone(serving),
            is_resp3: false,
            is_over: false,
            cursors: VecDeque::new(),
            next_cursor: 1,
            written: BTreeSet::new(),
        }
    }

    fn store(&self) -> &Store {
        &self.serving.store
    }

    fn ask(&self, operation: Operation) -> Receiver<Answered> {
        let (said, answer) = sync_channel(1);
        let (began, serving) = (Instant::now(), Arc::clone(&self.serving));
        let is_put = matches!(operation, Operation::Write(_));
        let is_get = matches!(operation, Operation::Get(_));
        self.store().begin(
            operation,
            Box::new(move |answered| {
                let counts = &serving.counts;
                match (is_put, is_get) {
                    (true, _) => counts.puts.observe(began.elapsed()),
                    (_, true) => counts.gets.observe(began.elapsed()),
                    _ => (),
                }
                // A client that has gone is not told.
                let _ = said.send(answered);
            }),
        );
        answer
    }

    fn gets(&self, keys: &[Vec<u8>], made: fn(Vec<Answered>) -> Reply) -> Pending {
        let get = |key: &Vec<u8>| self.ask(Operation::Get(Key::from(&key[..])));
        Pending::Asked(keys.iter().map(get).collect(), made)
    }

    fn write(&mut self, records: Vec<(Key, Option<Value>)>) -> Receiver<Answered> {
        self.written.extend(records.iter().map(|(key, _)| Arc::clone(key)));
        self.ask(Operation::Write(records))
    }

    /// Whether a command waits for those under way before it: it reads what one writes, which is seen once that is
    /// answered, or it changes how replies are written.
    pub(super) fn waits(&self, words: &Words) -> bool {
        let Some((name, arguments)) = words.split_first() else { return false };
        match &*name.to_ascii_uppercase() {
            b"GET" | b"MGET" | b"EXISTS" | b"DEL" | b"UNLINK" => {
                arguments.iter().any(|key| self.written.contains(&key[..]))
            }
            b"SCAN" | b"DBSIZE" | b"INFO" => !self.written.is_empty(),
            b"HELLO" => true,
            _ => false,
        }
    }

    /// All that was begun is answered.
    pub(super) fn caught_up(&mut self) {
        self.written.clear();
    }

    /// Begins a command.
    pub(super) fn begin(&mut self, words: &Words) -> Pending {
        let Some((name, arguments)) = words.split_first() else {
            return error("ERR empty command");
        };
        let name = String::from_utf8_lossy(name).to_uppercase();
        self.serving.counts.command(&name);
        if !self.is_known && !["AUTH", "HELLO", "QUIT"].contains(&&*name) {
            return error("NOAUTH Authentication required.");
        }
        let count = arguments.len();
        let fits = match &*name {
            "GET" | "ECHO" | "SELECT" => count == 1,
            "SET" => count >= 2,
            "MSET" => count >= 2 && count.is_multiple_of(2),
            "DEL" | "UNLINK" | "EXISTS" | "MGET" | "SCAN" | "AUTH" | "CONFIG" | "CLIENT" => {
                count >= 1
            }
            _ => true,
        };
        if !fits {
            return error(format!(
                "ERR wrong number of arguments for '{}' command",
                name.to_lowercase()
            ));
        }
        match &*name {
            "GET" => self.gets(arguments, |answers| value(&answers[0])),
            "MGET" => self.gets(arguments, |answers| {
                or_trouble(&answers, || Reply::Array(answers.iter().map(value).collect()))
            }),
            "EXISTS" => self.gets(arguments, there),
            "SET" if count == 2 => self.puts(arguments),
            "SET" => {
                error("ERR syntax error: SET takes a key and a value; values do not expire here")
            }
            "MSET" => self.puts(arguments),
            "DEL" | "UNLINK" => self.delete(arguments),
            "SCAN" => self.scan(arguments),
            "DBSIZE" => Pending::Ready(Reply::Integer(self.store().status().records as i64)),
            "INFO" => Pending::Ready(Reply::text(info::info(&self.serving))),
            "PING" => Pending::Ready(arguments.first().map_or(Reply::Simple("PONG"), Reply::text)),
            "ECHO" => Pending::Ready(Reply::text(&arguments[0])),
            "SELECT" if arguments[0] == b"0" => Pending::Ready(Reply::Simple("OK")),
            "SELECT" => error("ERR DB index is out of range"),
            "AUTH" => self.auth(arguments),
            "HELLO" => self.hello(arguments),
            "COMMAND" => Pending::Ready(Reply::Array(Vec::new())),
            // What clients ask when they begin, and what benchmarks do.
            "CLIENT" => Pending::Ready(Reply::Simple("OK")),
            "CONFIG" => config(arguments, self.store().is_durable()),
            "QUIT" => {
                self.is_over = true;
                Pending::Ready(Reply::Simple("OK"))
            }
            _ => error(format!("ERR unknown command '{}'", name.escape_debug())),
        }
    }

    fn puts(&mut self, arguments: &[Vec<u8>]) -> Pending {
        let record = |pair: &[Vec<u8>]| (Key::from(&pair[0][..]), Some(Value::from(&pair[1][..])));
        let answer = self.write(arguments.chunks_exact(2).map(record).collect());
        Pending::Asked(vec![answer], |answers| or_trouble(&answers, || Reply::Simple("OK")))
    }

    /// Says how many of them were there, and is done when all are gone for good.
    fn delete(&mut self, keys: &[Vec<u8>]) -> Pending {
        let mut keys: Vec<Key> = keys.iter().map(|key| Key::from(&key[..])).collect();
        keys.sort();
        keys.dedup();
        let gets = keys.iter().map(|key| self.ask(Operation::Get(key.clone())));
        let mut answers: Vec<_> = gets.collect();
        answers.push(self.write(keys.into_iter().map(|key| (key, None)).collect()));
        Pending::Asked(answers, there)
    }

    fn auth(&mut self, arguments: &[Vec<u8>]) -> Pending {
        let Limits { password, .. } = &self.serving.limits;
        let (Some(expected), Some(got)) = (password, arguments.last()) else {
            return error("ERR AUTH called without any password configured");
        };
        self.is_known = is_same(expected.as_bytes(), got);
        match self.is_known {
            true => Pending::Ready(Reply::Simple("OK")),
            false => error("WRONGPASS invalid username-password pair"),
        }
    }

    fn hello(&mut self, arguments: &[Vec<u8>]) -> Pending {
        let mut rest = arguments;
        if let Some((version, options)) = arguments.split_first() {
            match &version[..] {
                b"2" => self.is_resp3 = false,
                b"3" => self.is_resp3 = true,
                _ => return error("NOPROTO unsupported protocol version"),
            }
            rest = options;
        }
        if let [auth, _user, password, ..] = rest
            && auth.eq_ignore_ascii_case(b"AUTH")
            && let Pending::Ready(Reply::Error(what)) = self.auth(std::slice::from_ref(password))
        {
            return error(what);
        }
        if !self.is_known {
            return error("NOAUTH HELLO must be called with the client already authenticated");
        }
        let text = |name: &str, value: &str| (Reply::text(name), Reply::text(value));
        let proto = Reply::Integer(if self.is_resp3 { 3 } else { 2 });
        Pending::Ready(Reply::Map(vec![
            text("server", "forebay"),
            text("version", env!("CARGO_PKG_VERSION")),
            (Reply::text("proto"), proto),
            text("mode", "standalone"),
            text("role", "master"),
        ]))
    }

    fn scan(&mut self, arguments: &[Vec<u8>]) -> Pending {
        let number =
            |text: &[u8]| std::str::from_utf8(text).ok().and_then(|text| text.parse::<u64>().ok());
        let Some(cursor) = number(&arguments[0]) else { return error("ERR invalid cursor") };
        let (mut pattern, mut count) = (None, SCAN_COUNT);
        let mut options = arguments[1..].chunks_exact(2);
        for option in &mut options {
            match (&*option[0].to_ascii_uppercase(), number(&option[1])) {
                (b"MATCH", _) => pattern = Some(option[1].clone()),
                (b"COUNT", Some(asked @ 1..)) => {
                    count = (asked as usize).min(self.serving.limits.scan_count_max);
                }
                _ => return error("ERR syntax error"),
            }
        }
        if !options.remainder().is_empty() {
            return error("ERR syntax error");
        }
        let from = match cursor {
            0 => Key::from([]),
            _ => match self.cursors.iter().find(|(number, _)| *number == cursor) {
                Some((_, key)) => key.clone(),
                None => return error("ERR this scan was forgotten; begin anew with cursor 0"),
            },
        };
        // Its cursor has to be told with it, so it is waited for here.
        let bytes = self.serving.limits.scan_bytes_max;
        let answer = self.ask(Operation::Scan { from, count, bytes }).recv();
        let Page { records, next } = match answer.unwrap_or(Err(Trouble::Closed)) {
            Ok(Answer::Page(page)) => page,
            Ok(_) => Page::default(),
            Err(wrong) => return Pending::Ready(trouble(&wrong)),
        };
        let next = next.map_or(0, |key| self.remember(key));
        let fits = |key: &Key| pattern.as_deref().is_none_or(|pattern| matches(pattern, key));
        let keys =
            records.iter().filter(|(key, _)| fits(key)).map(|(key, _)| Reply::Bulk(key.clone()));
        let keys = Reply::Array(keys.collect());
        Pending::Ready(Reply::Array(vec![Reply::text(next.to_string()), keys]))
    }

    fn remember(&mut self, key: Key) -> u64 {
        if self.cursors.len() == CURSORS {
            self.cursors.pop_front();
        }
        let cursor = self.next_cursor;
        self.next_cursor += 1;
        self.cursors.push_back((cursor, key));
        cursor
    }
}

/// CONFIG GET, of which benchmarks want to know how durable writes are.
fn config(arguments: &[Vec<u8>], is_durable: bool) -> Pending {
    if !arguments[0].eq_ignore_ascii_case(b"GET") {
        return error("ERR CONFIG knows GET only");
    }
    let value = |name: &Vec<u8>| match &name[..] {
        b"appendonly" => "yes",
        b"appendfsync" if is_durable => "always",
        b"appendfsync" => "no",
        _ => "",
    };
    let pair = |name: &Vec<u8>| (Reply::text(name), Reply::text(value(name)));
    Pending::Ready(Reply::Map(arguments[1..].iter().map(pair).collect()))
}

/// Takes as long wherever they differ.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    let differs = a.iter().zip(b).fold(a.len() ^ b.len(), |sum, (a, b)| sum | usize::from(a ^ b));
    differs == 0
}
