//! A client's session: commands in, replies out, in their order.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeSet, VecDeque};
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Instant;

use crate::operation::{Answer, Loss, Operation, Page, Trouble};
use crate::record::{Key, Value};
use crate::store::{Answered, Store};

use super::command::Words;
use super::glob::matches;
use super::info;
use super::metrics;
use super::reads::Reads;
use super::reply::Reply;
use super::{Limits, Serving};

/// A reply, or what it will be made of.
pub(super) enum Pending {
    Ready(Reply),
    /// The answers to several operations, and what is made of them.
    Asked(Vec<Receiver<Answered>>, fn(Vec<Answered>) -> Reply),
    /// Values, in the order of their keys.
    Values(Values),
}

impl Pending {
    /// Whether some of it has to begin yet, which goes before all later commands.
    pub(super) fn is_partly_begun(&self) -> bool {
        matches!(self, Pending::Values(values) if values.left.len() > 0)
    }
}

/// Values that were asked for, some of which have to be begun yet.
pub(super) struct Values {
    asked: VecDeque<Receiver<Answered>>,
    left: std::vec::IntoIter<Key>,
}

impl Values {
    /// How many there are to come.
    pub(super) fn count(&self) -> usize {
        self.asked.len() + self.left.len()
    }
}

/// Waits for an answer.
pub(super) fn answered(answer: &Receiver<Answered>) -> Answered {
    answer.recv().unwrap_or(Err(Trouble::Closed))
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
    reads: Arc<Reads>,
}

/// Scans of a client that are under way at a time; the oldest is forgotten.
const CURSORS: usize = 256;
/// Bytes of a command of a client that has to say the password yet.
const UNKNOWN_BYTES_MAX: usize = 64 << 10;
/// The only one that there is.
const USER: &[u8] = b"default";
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

/// A value, or why it is not there.
pub(super) fn value_or_trouble(answer: &Answered) -> Reply {
    match answer {
        Ok(Answer::Value(Some(value))) => Reply::Bulk(value.clone()),
        Ok(_) => Reply::Null,
        Err(wrong) => trouble(wrong),
    }
}

/// All values, or the first trouble.
pub(super) fn values(answers: &[Answered]) -> Reply {
    or_trouble(answers, || Reply::Array(answers.iter().map(value_or_trouble).collect()))
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
            next_cursor: first_cursor(),
            written: BTreeSet::new(),
            reads: Reads::new(),
        }
    }

    fn store(&self) -> &Store {
        &self.serving.store
    }

    /// Bytes that its next command may have.
    pub(super) fn command_bytes_max(&self) -> usize {
        let most = self.serving.limits.command_bytes_max;
        if self.is_known { most } else { most.min(UNKNOWN_BYTES_MAX) }
    }

    fn ask(&self, operation: Operation) -> Receiver<Answered> {
        let (said, answer) = sync_channel(1);
        let (began, serving) = (Instant::now(), Arc::clone(&self.serving));
        let is_put = matches!(operation, Operation::Write(_));
        self.store().begin(
            operation,
            Box::new(move |answered| {
                if is_put {
                    serving.counts.puts.observe(began.elapsed());
                }
                // A client that has gone is not told.
                let _ = said.send(answered);
            }),
        );
        answer
    }

    /// Asks for a value, once there is room for it; or only whether there is one, of which nothing is kept.
    fn get(&self, key: Key, is_kept: bool) -> Receiver<Answered> {
        let (said, answer) = sync_channel(1);
        let reading = self.reads.begin();
        let (began, serving) = (Instant::now(), Arc::clone(&self.serving));
        self.store().begin(
            Operation::Get(key),
            Box::new(move |answered| {
                serving.counts.gets.observe(began.elapsed());
                let bytes = value_or_trouble(&answered).bytes();
                reading.found(bytes, if is_kept { bytes } else { 0 });
                // A client that has gone is not told.
                let _ = said.send(if is_kept { answered } else { answered.map(without_value) });
            }),
        );
        answer
    }

    /// Asks for values, as many as may be held; the others are asked for when these are sent.
    fn values(&self, keys: &[Vec<u8>]) -> Pending {
        let keys: Vec<Key> = keys.iter().map(|key| Key::from(&key[..])).collect();
        let mut values = Values { asked: VecDeque::new(), left: keys.into_iter() };
        self.go_on(&mut values);
        Pending::Values(values)
    }

    fn go_on(&self, values: &mut Values) {
        while (values.asked.is_empty() || !self.reads.is_full())
            && let Some(key) = values.left.next()
        {
            values.asked.push_back(self.get(key, true));
        }
    }

    /// Waits for the next of them; none behind the last.
    pub(super) fn next_value(&self, values: &mut Values) -> Option<Answered> {
        self.go_on(values);
        self.next_of_begun(values)
    }

    /// Waits for the next of those that were begun.
    pub(super) fn next_of_begun(&self, values: &mut Values) -> Option<Answered> {
        values.asked.pop_front().map(|answer| answered(&answer))
    }

    /// So many bytes that were held are sent.
    pub(super) fn sent(&self, bytes: usize) {
        if bytes > 0 {
            self.reads.sent(bytes);
        }
    }

    fn write(&mut self, records: Vec<(Key, Option<Value>)>) -> Receiver<Answered> {
        self.written.extend(records.iter().map(|(key, _)| Arc::clone(key)));
        self.ask(Operation::Write(records))
    }

    /// Whether a command waits for those under way before it: it reads what one writes, which is seen once that is
    /// answered, or it changes how replies are written, or its reply would be one too many to hold.
    pub(super) fn waits(&self, words: &Words) -> bool {
        let Some((name, arguments)) = words.split_first() else { return false };
        match &*name.to_ascii_uppercase() {
            b"SET" | b"MSET" => false,
            b"EXISTS" | b"DEL" | b"UNLINK" => self.is_written(arguments),
            b"GET" | b"MGET" => self.is_written(arguments) || self.reads.is_full(),
            b"SCAN" | b"DBSIZE" | b"INFO" => !self.written.is_empty() || self.reads.is_full(),
            b"HELLO" => true,
            _ => self.reads.is_full(),
        }
    }

    fn is_written(&self, keys: &[Vec<u8>]) -> bool {
        keys.iter().any(|key| self.written.contains(&key[..]))
    }

    /// All that was begun is answered.
    pub(super) fn caught_up(&mut self) {
        self.written.clear();
    }

    /// Begins a command.
    pub(super) fn begin(&mut self, words: &Words) -> Pending {
        let pending = self.begun(words);
        if let Pending::Ready(reply) = &pending {
            self.reads.holds(reply.bytes());
        }
        pending
    }

    fn begun(&mut self, words: &Words) -> Pending {
        let Some((name, arguments)) = words.split_first() else {
            return error("ERR empty command");
        };
        let name = String::from_utf8_lossy(name).to_uppercase();
        self.serving.counts.command(&name);
        if ["POST", "HOST:"].contains(&&*name) {
            // A page in a browser may make it send what it likes, with a head of HTTP before it.
            self.is_over = true;
            return error("ERR this is no server of HTTP");
        }
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
            "GET" => {
                let answer = self.get(Key::from(&arguments[0][..]), true);
                Pending::Asked(vec![answer], |answers| value_or_trouble(&answers[0]))
            }
            "MGET" => self.values(arguments),
            "EXISTS" => {
                let get = |key: &Vec<u8>| self.get(Key::from(&key[..]), false);
                Pending::Asked(arguments.iter().map(get).collect(), there)
            }
            "SET" if count == 2 => self.puts(arguments),
            "SET" => {
                error("ERR syntax error: SET takes a key and a value; values do not expire here")
            }
            "MSET" => self.puts(arguments),
            "DEL" | "UNLINK" => self.delete(arguments),
            "SCAN" => self.scan(arguments),
            "DBSIZE" => Pending::Ready(self.size()),
            "INFO" => Pending::Ready(Reply::text(info::info(&self.serving))),
            "PING" => Pending::Ready(arguments.first().map_or(Reply::Simple("PONG"), Reply::text)),
            "ECHO" => Pending::Ready(Reply::text(&arguments[0])),
            "SELECT" if arguments[0] == b"0" => Pending::Ready(Reply::Simple("OK")),
            "SELECT" => error("ERR DB index is out of range"),
            "AUTH" => self.auth(arguments),
            "HELLO" => self.hello(arguments),
            "COMMAND"
                if arguments.first().is_some_and(|what| what.eq_ignore_ascii_case(b"COUNT")) =>
            {
                Pending::Ready(Reply::Integer(metrics::commands() as i64))
            }
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
        let gets = keys.iter().map(|key| self.get(key.clone(), false));
        let mut answers: Vec<_> = gets.collect();
        answers.push(self.write(keys.into_iter().map(|key| (key, None)).collect()));
        Pending::Asked(answers, there)
    }

    fn size(&self) -> Reply {
        let status = self.store().status();
        let rootless = |loss: &Loss| matches!(loss.trouble, Trouble::Rootless { .. });
        match status.losses.iter().find(|loss| rootless(loss)) {
            Some(loss) => trouble(&loss.trouble),
            None => Reply::Integer(status.records as i64),
        }
    }

    fn auth(&mut self, arguments: &[Vec<u8>]) -> Pending {
        let Limits { password, .. } = &self.serving.limits;
        let (Some(expected), Some(got)) = (password, arguments.last()) else {
            return error("ERR AUTH called without any password configured");
        };
        let is_user = arguments.len() == 1 || arguments.len() == 2 && arguments[0] == USER;
        if !is_same(expected.as_bytes(), got) || !is_user {
            return error("WRONGPASS invalid username-password pair");
        }
        self.is_known = true;
        Pending::Ready(Reply::Simple("OK"))
    }

    fn hello(&mut self, arguments: &[Vec<u8>]) -> Pending {
        let (version, rest) = match arguments.split_first() {
            None => (None, arguments),
            Some((version, rest)) if version == b"2" || version == b"3" => (Some(version), rest),
            _ => return error("NOPROTO unsupported protocol version"),
        };
        if let [auth, account @ ..] = rest
            && account.len() >= 2
            && auth.eq_ignore_ascii_case(b"AUTH")
            && let Pending::Ready(Reply::Error(what)) = self.auth(&account[..2])
        {
            return error(what);
        }
        if !self.is_known {
            return error("NOAUTH HELLO must be called with the client already authenticated");
        }
        // Only now: what is refused changes nothing.
        self.is_resp3 = version.map_or(self.is_resp3, |version| version == b"3");
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
        // All there is are strings.
        let (mut pattern, mut count, mut is_wanted) = (None, SCAN_COUNT, true);
        let mut options = arguments[1..].chunks_exact(2);
        for option in &mut options {
            match (&*option[0].to_ascii_uppercase(), number(&option[1])) {
                (b"MATCH", _) => pattern = Some(option[1].clone()),
                (b"TYPE", _) => is_wanted = option[1].eq_ignore_ascii_case(b"string"),
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
        let fits =
            |key: &Key| is_wanted && pattern.as_deref().is_none_or(|pattern| matches(pattern, key));
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
    let known = [
        // What Redis says where it keeps no snapshots of its own accord; benchmarks ask for it.
        ("save", ""),
        ("appendonly", "yes"),
        ("appendfsync", if is_durable { "always" } else { "no" }),
    ];
    let is_asked = |name: &str| {
        arguments[1..].iter().any(|pattern| matches(&pattern.to_ascii_lowercase(), name.as_bytes()))
    };
    let asked = known.iter().filter(|(name, _)| is_asked(name));
    Pending::Ready(Reply::Map(
        asked.map(|(name, value)| (Reply::text(name), Reply::text(value))).collect(),
    ))
}

/// Where the numbers of a client's scans begin: such that it has none of another's, and below 2^53, beyond which
/// some clients' numbers are not whole.
fn first_cursor() -> u64 {
    (RandomState::new().build_hasher().finish() >> 12) + 1
}

fn without_value(answer: Answer) -> Answer {
    match answer {
        Answer::Value(value) => Answer::Value(value.map(|_| Value::default())),
        other => other,
    }
}

/// Takes as long wherever they differ.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    let differs = a.iter().zip(b).fold(a.len() ^ b.len(), |sum, (a, b)| sum | usize::from(a ^ b));
    differs == 0
}
