//! A client's session: executes commands in order and returns their replies.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeSet, VecDeque};
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::Instant;

use crate::{
    Answer, AnswerCallback, Key, Loss, Operation, OperationError, OperationResult, Page, Snapshot,
    Store, Value,
};

use super::table;
use super::{
    Identity, Part, Plan, Reads, Reply, Source, Step, Transaction, Words, bytes_of, commands,
    config, info, is_name, matches, not_executed,
};
use super::{Limits, Serving};

/// A reply, or an operation that will produce it.
pub(super) enum Pending {
    Ready(Reply),
    /// A pending operation, and the function that converts its answer to a reply.
    Asked(Receiver<OperationResult>, fn(OperationResult) -> Reply),
    Planned(Box<Running>),
}

impl Pending {
    /// Returns the number of bytes that a plan occupies until it is answered.
    pub(super) fn planned_bytes(&self) -> usize {
        match self {
            Pending::Planned(running) => running.bytes,
            _ => 0,
        }
    }
}

/// A plan, whose commands execute as of a single point in time. Its writes, if any, have been sent
/// to the store; its reads begin when the writes are done.
pub(super) struct Running {
    /// Receives the outcome of the writes.
    written: Option<Receiver<OperationResult>>,
    outcome: OperationResult,
    /// Whether to reply with an array for EXEC rather than with the reply to one command.
    pub(super) is_exec: bool,
    pub(super) steps: std::vec::IntoIter<Step>,
    pub(super) reads: Reading,
    bytes: usize,
    /// The commands' share of the memory for queued transactions.
    _part: Option<Part>,
}

/// The reads of a plan in order, each with a flag that tells whether its value is needed. Some
/// reads may not have begun.
pub(super) struct Reading {
    asked: VecDeque<(Receiver<OperationResult>, bool)>,
    left: std::vec::IntoIter<(Key, bool)>,
    /// The snapshot to read from, held until the last read has begun; None for a single key, which
    /// may be read at any moment.
    moment: Option<Snapshot>,
}

/// Waits for an answer.
pub(super) fn answered(answer: &Receiver<OperationResult>) -> OperationResult {
    answer.recv().unwrap_or(Err(OperationError::Closed))
}

/// The state of a client's session.
pub(super) struct Session {
    serving: Arc<Serving>,
    is_known: bool,
    pub(super) is_resp3: bool,
    pub(super) is_over: bool,
    /// The positions at which scans continue, by cursor.
    cursors: VecDeque<(u64, Key)>,
    next_cursor: u64,
    identity: Identity,
    /// The commands queued since MULTI.
    transaction: Option<Transaction>,
    /// Keys with writes that have begun but are not answered yet.
    written: BTreeSet<Key>,
    reads: Arc<Reads>,
}

/// The maximum number of scans per client; beyond it, the oldest scan is forgotten.
const CURSORS: usize = 256;
/// The maximum length of a command from an unauthenticated client.
const UNKNOWN_BYTES_MAX: usize = 64 << 10;
/// The only user name that AUTH accepts.
const USER: &[u8] = b"default";
/// The default number of keys that SCAN examines.
const SCAN_COUNT: usize = 10;

fn error(what: impl Into<String>) -> Pending {
    Pending::Ready(Reply::Error(what.into()))
}

fn or_error(outcome: Result<Reply, String>) -> Pending {
    Pending::Ready(outcome.unwrap_or_else(Reply::Error))
}

pub(super) fn error_reply(failure: &OperationError) -> Reply {
    match failure {
        OperationError::Full => Reply::Error(format!("OOM {failure}")),
        _ => Reply::Error(format!("ERR {failure}")),
    }
}

/// Converts an answer to a reply: the value or an error.
pub(super) fn value_or_error(answer: &OperationResult) -> Reply {
    match answer {
        Ok(Answer::Value(Some(value))) => Reply::Bulk(value.clone()),
        Ok(_) => Reply::Null,
        Err(wrong) => error_reply(wrong),
    }
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
            identity: Identity::new(serving.clients.fetch_add(1, Ordering::Relaxed) + 1),
            transaction: None,
            written: BTreeSet::new(),
            reads: Reads::new(),
        }
    }

    fn store(&self) -> &Store {
        &self.serving.store
    }

    /// Returns the maximum length of the next command.
    pub(super) fn command_bytes_max(&self) -> usize {
        let most = self.serving.limits.command_bytes_max;
        if self.is_known { most } else { most.min(UNKNOWN_BYTES_MAX) }
    }

    /// Creates a channel for the answer to an operation, and the callback that sends it.
    fn brought(&self, is_put: bool) -> (Receiver<OperationResult>, AnswerCallback) {
        let (said, answer) = sync_channel(1);
        let (began, serving) = (Instant::now(), Arc::clone(&self.serving));
        let then = Box::new(move |answered| {
            if is_put {
                serving.counts.puts.observe(began.elapsed());
            }
            // If the client has disconnected, nothing receives the answer.
            let _ = said.send(answered);
        });
        (answer, then)
    }

    /// Reads a value once there is space for it. If `is_kept` is false, the read only checks
    /// whether the key exists.
    fn get(&self, key: Key, is_kept: bool, moment: Option<&Snapshot>) -> Receiver<OperationResult> {
        let (said, answer) = sync_channel(1);
        let reading = self.reads.begin();
        let (began, serving) = (Instant::now(), Arc::clone(&self.serving));
        let then = Box::new(move |answered| {
            serving.counts.gets.observe(began.elapsed());
            let bytes = value_or_error(&answered).bytes();
            reading.returned(bytes, if is_kept { bytes } else { 0 });
            // If the client has disconnected, nothing receives the answer.
            let _ = said.send(if is_kept { answered } else { answered.map(without_value) });
        });
        match moment {
            Some(snapshot) => snapshot.begin(Operation::Get(key), then),
            None => self.store().begin(Operation::Get(key), then),
        }
        answer
    }

    /// Starts a plan whose commands occupy `bytes` bytes.
    fn run(&mut self, plan: Plan, is_exec: bool, (bytes, part): (usize, Option<Part>)) -> Pending {
        let Plan { steps, reads, writes, .. } = plan;
        self.written.extend(writes.keys().map(Arc::clone));
        let (answer, then) = self.brought(!writes.is_empty());
        let writes: Vec<_> = writes.into_iter().collect();
        let (written, moment) = match (writes.is_empty(), reads.len()) {
            (true, 0 | 1) => (None, None),
            (true, _) => (None, Some(self.store().hold())),
            (false, 0) => {
                self.store().begin(Operation::Write(writes), then);
                (Some(answer), None)
            }
            // The write and the snapshot must be atomic. Otherwise, a write of another client in
            // between could be missing from both, or be in both.
            (false, _) => (Some(answer), Some(self.store().write_and_hold(writes, then))),
        };
        let reads = Reading { asked: VecDeque::new(), left: reads.into_iter(), moment };
        let (outcome, steps) = (Ok(Answer::Done), steps.into_iter());
        let running = Running { written, outcome, is_exec, steps, reads, bytes, _part: part };
        let mut running = Box::new(running);
        self.look(&mut running);
        Pending::Planned(running)
    }

    /// Begins the reads of a plan if its writes are done.
    pub(super) fn look(&self, running: &mut Running) {
        match running.written.as_ref().map(Receiver::try_recv) {
            Some(Err(TryRecvError::Empty)) => {}
            Some(Ok(outcome)) => self.is_written(running, outcome),
            Some(Err(TryRecvError::Disconnected)) => {
                self.is_written(running, Err(OperationError::Closed))
            }
            None => self.go_on(&mut running.reads),
        }
    }

    /// Waits for the writes of a plan; returns the error reply if they failed.
    pub(super) fn settle(&self, running: &mut Running) -> Option<Reply> {
        if let Some(answer) = &running.written {
            let outcome = answered(answer);
            self.is_written(running, outcome);
        }
        let why = running.outcome.as_ref().err()?;
        Some(if running.is_exec { not_executed(why) } else { error_reply(why) })
    }

    fn is_written(&self, running: &mut Running, outcome: OperationResult) {
        (running.written, running.outcome) = (None, outcome);
        if running.outcome.is_ok() {
            self.go_on(&mut running.reads);
        }
    }

    /// Begins as many reads as the limits permit; the rest begin when replies have been sent.
    fn go_on(&self, reads: &mut Reading) {
        while (reads.asked.is_empty() || !self.reads.is_full())
            && let Some((key, is_kept)) = reads.left.next()
        {
            let answer = self.get(key, is_kept, reads.moment.as_ref());
            reads.asked.push_back((answer, is_kept));
        }
        if reads.left.len() == 0 {
            reads.moment = None;
        }
    }

    /// Waits for the value of a source. Its bytes count as held until they are sent.
    pub(super) fn value(&self, reads: &mut Reading, source: Source) -> OperationResult {
        match source {
            Source::Before => {
                self.go_on(reads);
                let next = reads.asked.pop_front();
                next.map_or(Err(OperationError::Closed), |(answer, _)| answered(&answer))
            }
            Source::Known(value) => {
                self.holds(value.as_ref().map_or(0, |value| value.len()));
                Ok(Answer::Value(value))
            }
        }
    }

    /// Skips a source whose value is not sent.
    pub(super) fn skip(&self, reads: &mut Reading, source: Source) {
        if let Source::Before = source
            && let Some((answer, is_kept)) =
                reads.asked.pop_front().or_else(|| reads.left.next().and(None))
            && is_kept
        {
            self.sent(value_or_error(&answered(&answer)).bytes());
        }
    }

    /// Returns whether replies must be sent before any more values are read.
    pub(super) fn is_full(&self) -> bool {
        self.reads.is_full()
    }

    /// Registers bytes that wait to be sent.
    pub(super) fn holds(&self, bytes: usize) {
        if bytes > 0 {
            self.reads.holds(bytes);
        }
    }

    /// Registers that held bytes were sent.
    pub(super) fn sent(&self, bytes: usize) {
        if bytes > 0 {
            self.reads.sent(bytes);
        }
    }

    /// Returns whether a command must wait for earlier ones: because it reads a key with a pending
    /// write, which becomes visible only when the write is answered; because it changes the
    /// encoding of replies; or because too many replies are pending.
    pub(super) fn waits(&self, words: &Words) -> bool {
        let Some((name, arguments)) = words.split_first() else { return false };
        let is_written = |key: &Vec<u8>| self.written.contains(&key[..]);
        match (&*name.to_ascii_uppercase(), &self.transaction) {
            (b"HELLO" | b"RESET", _) => true,
            // If the plan also writes, the store orders its reads after its writes.
            (b"EXEC", Some(queued)) if queued.plan.writes.is_empty() => {
                queued.plan.reads_any(|key| self.written.contains(key)) || self.reads.is_full()
            }
            (_, Some(_)) => self.reads.is_full(),
            (b"SET" | b"MSET" | b"DEL" | b"UNLINK", None) => false,
            (b"EXISTS", None) => arguments.iter().any(is_written),
            (b"GET" | b"MGET", None) => arguments.iter().any(is_written) || self.reads.is_full(),
            (b"SCAN" | b"DBSIZE" | b"INFO", None) => {
                !self.written.is_empty() || self.reads.is_full()
            }
            (_, None) => self.reads.is_full(),
        }
    }

    /// Registers that all commands have been answered.
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
            // A web page could make a browser send commands after an HTTP header, so HTTP ends the
            // connection.
            self.is_over = true;
            return error("ERR this is not an HTTP server");
        }
        if !self.is_known && !["AUTH", "HELLO", "QUIT", "RESET"].contains(&&*name) {
            return error("NOAUTH Authentication required.");
        }
        if let Err(what) = table::fits(&name, arguments.len()) {
            self.transaction.iter_mut().for_each(Transaction::refuse);
            return error(what);
        }
        if self.transaction.is_some()
            && !["MULTI", "EXEC", "DISCARD", "RESET", "QUIT"].contains(&&*name)
        {
            return self.queue(&name, words);
        }
        match &*name {
            "GET" => {
                let answer = self.get(Key::from(&arguments[0][..]), true, None);
                Pending::Asked(answer, |answer| value_or_error(&answer))
            }
            "SET" if arguments.len() == 2 => self.puts(arguments),
            "MSET" => self.puts(arguments),
            "SCAN" => self.scan(arguments),
            "DBSIZE" => Pending::Ready(self.size()),
            "INFO" => Pending::Ready(Reply::text(info::info(&self.serving))),
            "AUTH" => self.auth(arguments),
            "HELLO" => self.hello(arguments),
            "COMMAND" => or_error(commands(arguments)),
            "CLIENT" => or_error(self.identity.ask(arguments)),
            "CONFIG" => or_error(config(arguments, self.store().is_durable())),
            "QUIT" => {
                self.is_over = true;
                Pending::Ready(Reply::Simple("OK"))
            }
            "RESET" => self.reset(),
            "MULTI" => self.multi(),
            "EXEC" => self.exec(),
            "DISCARD" => match self.transaction.take() {
                Some(_) => Pending::Ready(Reply::Simple("OK")),
                None => error("ERR DISCARD without MULTI"),
            },
            _ => self.alone(&name, words),
        }
    }

    fn puts(&mut self, arguments: &[Vec<u8>]) -> Pending {
        let record = |pair: &[Vec<u8>]| (Key::from(&pair[0][..]), Some(Value::from(&pair[1][..])));
        let records: Vec<_> = arguments.chunks_exact(2).map(record).collect();
        self.written.extend(records.iter().map(|(key, _)| Arc::clone(key)));
        let (answer, then) = self.brought(true);
        self.store().begin(Operation::Write(records), then);
        Pending::Asked(answer, |answer| match answer {
            Ok(_) => Reply::Simple("OK"),
            Err(wrong) => error_reply(&wrong),
        })
    }

    /// Executes a command that is not part of a transaction.
    fn alone(&mut self, name: &str, words: &Words) -> Pending {
        let mut plan = Plan::default();
        if let Err(reply) = plan.add(name, &words[1..]) {
            return Pending::Ready(reply);
        }
        // A reply that does not depend on the store is returned at once.
        match plan.steps.pop() {
            Some(Step::Reply(reply)) => Pending::Ready(reply),
            step => {
                plan.steps.extend(step);
                self.run(plan, false, (bytes_of(words), None))
            }
        }
    }

    fn multi(&mut self) -> Pending {
        if self.transaction.is_some() {
            return error("ERR MULTI calls can not be nested");
        }
        let Serving { queued, limits, .. } = &*self.serving;
        let part = Part::new(queued, limits.all_transactions_bytes_max);
        self.transaction = Some(Transaction::new(part));
        Pending::Ready(Reply::Simple("OK"))
    }

    fn queue(&mut self, name: &str, words: &Words) -> Pending {
        let Some(transaction) = &mut self.transaction else { return error("ERR no MULTI") };
        let most = self.serving.limits.transaction_bytes_max;
        match transaction.queue(name, words, most) {
            Ok(()) => Pending::Ready(Reply::Simple("QUEUED")),
            Err(reply) => {
                transaction.refuse();
                Pending::Ready(reply)
            }
        }
    }

    fn exec(&mut self) -> Pending {
        match self.transaction.take() {
            None => error("ERR EXEC without MULTI"),
            Some(Transaction { is_refused: true, .. }) => {
                error("EXECABORT Transaction discarded because of previous errors.")
            }
            Some(Transaction { plan, bytes, part, .. }) => {
                self.run(plan, true, (bytes, Some(part)))
            }
        }
    }

    /// Resets the connection to its initial state, except for its id.
    fn reset(&mut self) -> Pending {
        self.transaction = None;
        self.is_resp3 = false;
        self.is_known = self.serving.limits.password.is_none();
        self.identity.forget_name();
        Pending::Ready(Reply::Simple("RESET"))
    }

    fn size(&self) -> Reply {
        let status = self.store().status();
        let rootless = |loss: &Loss| matches!(loss.failure, OperationError::Rootless { .. });
        match status.losses.iter().find(|loss| rootless(loss)) {
            Some(loss) => error_reply(&loss.failure),
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
        let (version, mut rest) = match arguments.split_first() {
            None => (None, arguments),
            Some((version, rest)) if version == b"2" || version == b"3" => (Some(version), rest),
            _ => return error("NOPROTO unsupported protocol version"),
        };
        let (mut account, mut name) = (None, None);
        while let Some((option, values)) = rest.split_first() {
            rest = match (&*option.to_ascii_uppercase(), values) {
                (b"AUTH", [_, _, rest @ ..]) => {
                    account = Some(&values[..2]);
                    rest
                }
                (b"SETNAME", [called, rest @ ..]) => {
                    name = Some(called);
                    rest
                }
                _ => {
                    let option = table::repeated(option);
                    return error(format!("ERR syntax error in HELLO option '{option}'"));
                }
            };
        }
        if let Some(Err(what)) = name.map(|name| is_name("Client names", name)) {
            return error(what);
        }
        if let Some(account) = account
            && let Pending::Ready(Reply::Error(what)) = self.auth(account)
        {
            return error(what);
        }
        if !self.is_known {
            return error("NOAUTH HELLO must be called with the client already authenticated");
        }
        if let Some(Err(what)) = name.map(|name| self.identity.call(name)) {
            return error(what);
        }
        // The encoding changes only now, so that a refused command has no effect.
        self.is_resp3 = version.map_or(self.is_resp3, |version| version == b"3");
        let text = |name: &str, value: &str| (Reply::text(name), Reply::text(value));
        let proto = Reply::Integer(if self.is_resp3 { 3 } else { 2 });
        Pending::Ready(Reply::Map(vec![
            text("server", "forebay"),
            text("version", env!("CARGO_PKG_VERSION")),
            (Reply::text("proto"), proto),
            (Reply::text("id"), Reply::Integer(self.identity.id)),
            text("mode", "standalone"),
            text("role", "master"),
        ]))
    }

    fn scan(&mut self, arguments: &[Vec<u8>]) -> Pending {
        let number =
            |text: &[u8]| std::str::from_utf8(text).ok().and_then(|text| text.parse::<u64>().ok());
        let Some(cursor) = number(&arguments[0]) else { return error("ERR invalid cursor") };
        // SCAN's TYPE option matches only strings, because all values are strings.
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
                None => return error("ERR this scan has expired; start again with cursor 0"),
            },
        };
        // The reply contains the cursor, so the scan must finish first.
        let bytes = self.serving.limits.scan_bytes_max;
        let Page { records, next } = match self.store().ask(Operation::Scan { from, count, bytes })
        {
            Ok(Answer::Page(page)) => page,
            Ok(_) => Page::default(),
            Err(wrong) => return Pending::Ready(error_reply(&wrong)),
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

/// Returns the first cursor of a client's scans. Clients have disjoint ranges, below 2^53 because
/// some clients represent numbers as doubles.
fn first_cursor() -> u64 {
    (RandomState::new().build_hasher().finish() >> 12) + 1
}

fn without_value(answer: Answer) -> Answer {
    match answer {
        Answer::Value(value) => Answer::Value(value.map(|_| Value::default())),
        other => other,
    }
}

/// Compares two byte strings in constant time.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    let differs = a.iter().zip(b).fold(a.len() ^ b.len(), |sum, (a, b)| sum | usize::from(a ^ b));
    differs == 0
}
