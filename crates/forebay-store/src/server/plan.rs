//! Plans for commands that execute at one moment. Before the store is called, a plan determines
//! which existing values to read, what to write, and what to reply.
//!
//! A command sees the writes of earlier commands of the plan. For each key, therefore, only the
//! first read may need the store, and only the last write reaches the store.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{KEY_MAX, Key, OperationError, VALUE_MAX, Value};

use super::{Part, Reply, Words, error_reply};

/// The memory overhead of a word.
const WORD_BYTES: usize = 64;
/// The bytes of a record other than its key and value, as the store counts them.
const RECORD_BYTES: usize = 16;
/// The length of the longest put.
const RECORDS_MAX: usize = RECORD_BYTES + KEY_MAX + VALUE_MAX;
/// The size up to which a client can always queue a transaction, however much other clients have
/// queued.
const FREE_BYTES: usize = 64 << 10;

/// The source of a value.
pub(super) enum Source {
    /// The next value that is read from the store.
    Before,
    /// The value after an earlier command of the plan wrote or deleted the key.
    Known(Option<Value>),
}

/// The reply to one command.
pub(super) enum Step {
    Reply(Reply),
    Value(Source),
    Values(Vec<Source>),
    /// The number of these values that exist.
    Count(Vec<Source>),
}

/// Planned commands.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    /// The keys to read from the store, in the order of the steps, and whether their values are
    /// needed.
    pub(super) reads: Vec<(Key, bool)>,
    /// The value of each written key after the plan.
    pub(super) writes: BTreeMap<Key, Option<Value>>,
    /// The bytes of all written records.
    record_bytes: usize,
}

impl Plan {
    /// Adds a command, whose name is in upper case and whose number of arguments has been checked.
    ///
    /// # Errors
    /// Returns the reply to a command that can never be executed. The plan is then unchanged or no
    /// longer usable.
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

    /// Adds deletions, and a count of the keys that existed. A repeated key counts once.
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
            Err(error_reply(&OperationError::Long { got: got as u64, most: most as u64 }))
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

    /// Returns whether the plan reads any key for which `is_written` is true.
    pub(super) fn reads_any(&self, is_written: impl Fn(&Key) -> bool) -> bool {
        self.reads.iter().any(|(key, _)| is_written(key))
    }
}

fn key(name: &[u8]) -> Key {
    Key::from(name)
}

/// Returns the memory that words use.
pub(super) fn bytes_of(words: &[Vec<u8>]) -> usize {
    words.iter().map(|word| WORD_BYTES + word.len()).sum()
}

/// The commands that a client has queued since MULTI.
pub(super) struct Transaction {
    pub(super) plan: Plan,
    /// The memory of the queued commands in bytes.
    pub(super) bytes: usize,
    /// The bytes queued by this client, as part of the total.
    pub(super) part: Part,
    /// Whether a command was refused, so that EXEC executes none.
    pub(super) is_refused: bool,
}

impl Transaction {
    pub(super) fn new(part: Part) -> Transaction {
        Transaction { plan: Plan::default(), bytes: 0, part, is_refused: false }
    }

    /// Queues a command if the total does not exceed `bytes_max`.
    pub(super) fn queue(
        &mut self,
        name: &str,
        words: &Words,
        bytes_max: usize,
    ) -> Result<(), Reply> {
        if self.is_refused {
            // Like Redis, the server validates commands after a refused one but does not queue
            // them.
            return Plan::default().add(name, &words[1..]);
        }
        let bytes = self.bytes + bytes_of(words);
        if bytes > bytes_max {
            let what = format!("ERR a transaction has at most {bytes_max} bytes of commands");
            return Err(Reply::Error(what));
        }
        self.bytes = bytes;
        if !self.part.holds(bytes.saturating_sub(FREE_BYTES)) {
            let what =
                "ERR clients have queued too much data between MULTI and EXEC; try again later";
            return Err(Reply::Error(what.into()));
        }
        self.plan.add(name, &words[1..])
    }

    /// Refuses the transaction and discards its commands.
    pub(super) fn refuse(&mut self) {
        (self.plan, self.bytes, self.is_refused) = (Plan::default(), 0, true);
        self.part.holds(0);
    }
}

/// Returns the reply to EXEC when the store refused the writes.
pub(super) fn not_executed(why: &OperationError) -> Reply {
    match why {
        OperationError::Full
        | OperationError::Long { .. }
        | OperationError::ReadOnly
        | OperationError::Rootless { .. } => {
            let Reply::Error(what) = error_reply(why) else { return error_reply(why) };
            Reply::Error(format!("EXECABORT Transaction discarded because of: {what}"))
        }
        _ => error_reply(why),
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
