//! What commands come to when they are done at one moment, worked out before the store is asked: what is read of
//! what was there just before, what is written, and what is answered.
//!
//! A command sees what those before it have written. So of a key only the first read may need the store, and of
//! its writes only the last counts.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::operation::Trouble;
use crate::record::{KEY_MAX, Key, VALUE_MAX, Value};

use super::command::Words;
use super::reply::Reply;
use super::session::trouble;
use super::unfinished::Part;

/// What a word takes in memory beside its bytes.
const WORD_BYTES: usize = 64;
/// Bytes of a record beside its key and its value, as the store counts them.
const RECORD_BYTES: usize = 16;
/// As long as the longest put.
const RECORDS_MAX: usize = RECORD_BYTES + KEY_MAX + VALUE_MAX;
/// A transaction of so many bytes may always be queued, whatever others have queued.
const FREE_BYTES: usize = 64 << 10;

/// Where a value comes from.
pub(super) enum Source {
    /// It is the next that is read of what was there before.
    Before,
    /// A command before this one has written it, or deleted it.
    Known(Option<Value>),
}

/// What is answered to one command.
pub(super) enum Step {
    Reply(Reply),
    Value(Source),
    Values(Vec<Source>),
    /// How many of them are there.
    Count(Vec<Source>),
}

/// Commands, worked out.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    /// What is read of what was there before, in the order of the steps, and whether its value is wanted.
    pub(super) reads: Vec<(Key, bool)>,
    /// What is there afterwards.
    pub(super) writes: BTreeMap<Key, Option<Value>>,
    /// Bytes of all records that were written.
    record_bytes: usize,
}

impl Plan {
    /// Adds a command, whose name is in upper case and whose arguments are as many as it has.
    ///
    /// # Errors
    /// The reply to one that can never be done. The plan is as it was, or of no use any more.
    pub(super) fn add(&mut self, name: &str, arguments: &[Vec<u8>]) -> Result<(), Reply> {
        let error = |what: &str| Err(Reply::Error(what.into()));
        let step = match name {
            "GET" => Step::Value(self.source(key(&arguments[0]), true)),
            "MGET" => Step::Values(self.sources(arguments, true)),
            "EXISTS" => Step::Count(self.sources(arguments, false)),
            "SET" if arguments.len() > 2 => {
                return error(
                    "ERR syntax error: SET takes a key and a value; values do not expire here",
                );
            }
            "SET" | "MSET" => {
                for pair in arguments.chunks_exact(2) {
                    self.write(key(&pair[0]), Some(Value::from(&pair[1][..])))?;
                }
                Step::Reply(Reply::Simple("OK"))
            }
            "DEL" | "UNLINK" => self.delete(arguments)?,
            "PING" => Step::Reply(arguments.first().map_or(Reply::Simple("PONG"), Reply::text)),
            "ECHO" => Step::Reply(Reply::text(&arguments[0])),
            "SELECT" if arguments[0] == b"0" => Step::Reply(Reply::Simple("OK")),
            "SELECT" => return error("ERR DB index is out of range"),
            _ => {
                return Err(Reply::Error(format!(
                    "ERR {name} cannot be queued between MULTI and EXEC"
                )));
            }
        };
        self.steps.push(step);
        Ok(())
    }

    fn source(&mut self, key: Key, is_wanted: bool) -> Source {
        match self.writes.get(&key) {
            Some(value) => Source::Known(value.clone()),
            None => {
                self.reads.push((key, is_wanted));
                Source::Before
            }
        }
    }

    fn sources(&mut self, keys: &[Vec<u8>], is_wanted: bool) -> Vec<Source> {
        keys.iter().map(|name| self.source(key(name), is_wanted)).collect()
    }

    /// Counts those that were there. A key that is named twice counts once.
    fn delete(&mut self, keys: &[Vec<u8>]) -> Result<Step, Reply> {
        let mut keys: Vec<Key> = keys.iter().map(|name| key(name)).collect();
        keys.sort();
        keys.dedup();
        let sources = keys.iter().map(|key| self.source(Arc::clone(key), false)).collect();
        keys.into_iter().try_for_each(|key| self.write(key, None))?;
        Ok(Step::Count(sources))
    }

    fn write(&mut self, key: Key, value: Option<Value>) -> Result<(), Reply> {
        let long = |got: usize, most: usize| {
            Err(trouble(&Trouble::Long { got: got as u64, most: most as u64 }))
        };
        if key.len() > KEY_MAX {
            return long(key.len(), KEY_MAX);
        }
        let len = value.as_ref().map_or(0, |value| value.len());
        self.record_bytes += RECORD_BYTES + key.len() + len;
        if self.record_bytes > RECORDS_MAX {
            return long(self.record_bytes, RECORDS_MAX);
        }
        self.writes.insert(key, value);
        Ok(())
    }

    /// Whether it reads what is written.
    pub(super) fn reads_any(&self, is_written: impl Fn(&Key) -> bool) -> bool {
        self.reads.iter().any(|(key, _)| is_written(key))
    }
}

fn key(name: &[u8]) -> Key {
    Key::from(name)
}

/// Bytes that words take in memory.
pub(super) fn bytes_of(words: &[Vec<u8>]) -> usize {
    words.iter().map(|word| WORD_BYTES + word.len()).sum()
}

/// What a client has queued since MULTI.
pub(super) struct Transaction {
    pub(super) plan: Plan,
    /// Bytes of its commands.
    pub(super) bytes: usize,
    /// Of all that clients have queued, its part.
    pub(super) part: Part,
    /// A command of it was refused, so that none is done.
    pub(super) is_refused: bool,
}

impl Transaction {
    pub(super) fn new(part: Part) -> Transaction {
        Transaction { plan: Plan::default(), bytes: 0, part, is_refused: false }
    }

    /// Queues a command, of at most `bytes_max` bytes in all.
    pub(super) fn queue(
        &mut self,
        name: &str,
        words: &Words,
        bytes_max: usize,
    ) -> Result<(), Reply> {
        if self.is_refused {
            // As Redis does: what comes behind a refused command is looked at, and kept no more.
            return Plan::default().add(name, &words[1..]);
        }
        let bytes = self.bytes + bytes_of(words);
        if bytes > bytes_max {
            let what = format!("ERR a transaction has at most {bytes_max} bytes of commands");
            return Err(Reply::Error(what));
        }
        self.bytes = bytes;
        if !self.part.holds(bytes.saturating_sub(FREE_BYTES)) {
            let what = "ERR clients have queued too much between MULTI and EXEC; try again later";
            return Err(Reply::Error(what.into()));
        }
        self.plan.add(name, &words[1..])
    }

    /// None of it is done, and nothing of it kept.
    pub(super) fn refuse(&mut self) {
        (self.plan, self.bytes, self.is_refused) = (Plan::default(), 0, true);
        self.part.holds(0);
    }
}

/// The reply to EXEC where the store did not take its writes.
pub(super) fn not_executed(why: &Trouble) -> Reply {
    match why {
        Trouble::Full | Trouble::Long { .. } | Trouble::ReadOnly | Trouble::Rootless { .. } => {
            let Reply::Error(what) = trouble(why) else { return trouble(why) };
            Reply::Error(format!("EXECABORT Transaction discarded because of: {what}"))
        }
        _ => trouble(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Words {
        line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
    }

    fn planned(lines: &[&str]) -> Plan {
        let mut plan = Plan::default();
        for line in lines {
            let words = words(line);
            let name = String::from_utf8(words[0].clone()).unwrap();
            assert!(plan.add(&name, &words[1..]).is_ok(), "{line}");
        }
        plan
    }

    #[test]
    fn the_store_is_asked_for_what_no_command_before_has_written() {
        let plan = planned(&["SET a 1", "GET a", "MGET b a", "DEL c a c", "EXISTS c b", "SET c 2"]);
        let reads: Vec<_> = plan.reads.iter().map(|(key, wanted)| (&key[..], *wanted)).collect();
        assert_eq!(reads, [(&b"b"[..], true), (b"c", false), (b"b", false)]);
        let left: Vec<_> =
            plan.writes.iter().map(|(key, value)| (&key[..], value.as_deref())).collect();
        assert_eq!(left, [(&b"a"[..], None), (b"c", Some(&b"2"[..]))]);
        assert_eq!(plan.steps.len(), 6);
    }

    #[test]
    fn a_refused_transaction_keeps_nothing() {
        let all = Arc::default();
        let mut one = Transaction::new(Part::new(&all, 100_000));
        let long = vec![b"ECHO".to_vec(), vec![1; 120_000]];
        assert!(one.queue("ECHO", &long, 1 << 20).is_ok(), "much of it is free");
        let mut other = Transaction::new(Part::new(&all, 100_000));
        assert!(other.queue("ECHO", &long, 1 << 20).is_err());
        other.refuse();
        assert!(other.queue("ECHO", &long, 1 << 20).is_ok() && other.plan.steps.is_empty());
        drop(one);
        let mut third = Transaction::new(Part::new(&all, 100_000));
        assert!(third.queue("ECHO", &long, 1 << 20).is_ok());
        assert!(third.queue("ECHO", &long, 200_000).is_err(), "too long by itself");
    }
}
