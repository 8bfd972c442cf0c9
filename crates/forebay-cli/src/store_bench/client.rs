//! A client of a server that speaks the Redis protocol (RESP2). It sends one command at a time.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use redis_protocol::resp2::decode::decode_range;
use redis_protocol::resp2::types::RangeFrame;

use super::target::Failure;

/// The longest time to wait for bytes before checking whether the run has ended.
const TICK: Duration = Duration::from_millis(100);
/// A server that does not answer within this time is considered dead.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long to wait for a pending answer after the run has ended.
const FAREWELL: Duration = Duration::from_secs(2);
/// The longest accepted first line of a reply.
const LINE_MAX: usize = 64 << 10;

/// A connection to a Redis server.
pub(super) struct Client {
    stream: TcpStream,
    /// The server's name, for error messages.
    name: String,
    out: Vec<u8>,
    bytes: Vec<u8>,
    chunk: Vec<u8>,
    /// The longest accepted value.
    value_max: usize,
    is_over: Arc<AtomicBool>,
}

/// The kinds of replies that the benchmark's commands can return.
#[derive(Debug, PartialEq, Eq)]
enum Reply {
    Word(String),
    Error(String),
    Value(Option<Vec<u8>>),
}

impl Client {
    /// Connects, authenticates, and checks that the server speaks the Redis protocol.
    ///
    /// # Errors
    /// Returns a single message that says what to do.
    pub(super) fn connect(
        name: &str,
        password: Option<&str>,
        value_max: usize,
        is_over: &Arc<AtomicBool>,
    ) -> Result<Client, String> {
        let stream = dial(name).map_err(|what| {
            format!(
                "{name}: {what}; is a server running there? (forebay store serve, redis-server)"
            )
        })?;
        let wrong = |error: std::io::Error| format!("{name}: {error}");
        stream.set_nodelay(true).map_err(wrong)?;
        stream.set_read_timeout(Some(TICK)).map_err(wrong)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(wrong)?;
        let mut client = Client {
            stream,
            name: name.to_string(),
            out: Vec::new(),
            bytes: Vec::new(),
            chunk: vec![0; 64 << 10],
            value_max,
            is_over: Arc::clone(is_over),
        };
        if let Some(password) = password {
            client.greet(&[b"AUTH", password.as_bytes()], "OK")?;
        }
        client.greet(&[b"PING"], "PONG")?;
        Ok(client)
    }

    fn greet(&mut self, words: &[&[u8]], expected: &str) -> Result<(), String> {
        let name = self.name.clone();
        match self.ask(words) {
            Ok(Reply::Word(word)) if word == expected => Ok(()),
            Ok(Reply::Error(what)) if what.starts_with("NOAUTH") => {
                Err(format!("{name} requires a password: pass --password-file FILE"))
            }
            Ok(Reply::Error(what)) => Err(format!("{name}: {what}")),
            Ok(other) => Err(format!("{name}: got {other:?}, expected {expected}")),
            Err(Failure::Refused(what) | Failure::Gone(what)) => Err(what),
            Err(Failure::Over) => Err(format!("{name}: no answer")),
        }
    }

    pub(super) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        match self.ask(&[b"SET", key, value])? {
            Reply::Word(_) => Ok(()),
            other => Err(self.unexpected(other)),
        }
    }

    pub(super) fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        match self.ask(&[b"GET", key])? {
            Reply::Value(value) => Ok(value),
            other => Err(self.unexpected(other)),
        }
    }

    fn unexpected(&self, reply: Reply) -> Failure {
        match reply {
            Reply::Error(what) => Failure::Refused(what),
            other => Failure::Gone(format!("{}: got {other:?} as a reply", self.name)),
        }
    }

    fn ask(&mut self, words: &[&[u8]]) -> Result<Reply, Failure> {
        self.out.clear();
        command(words, &mut self.out);
        if let Err(error) = self.stream.write_all(&self.out) {
            return Err(self.gone(&error.to_string()));
        }
        let sent = Instant::now();
        loop {
            let read = reply(&self.bytes, self.value_max);
            if let Some((reply, used)) = read.map_err(|what| self.gone(&what))? {
                self.bytes.drain(..used);
                return Ok(reply);
            }
            match self.stream.read(&mut self.chunk) {
                Ok(0) => return Err(self.gone("the server ended the connection")),
                Ok(count) => self.bytes.extend_from_slice(&self.chunk[..count]),
                Err(error) if is_tick(error.kind()) => {}
                Err(error) => return Err(self.gone(&error.to_string())),
            }
            // Check the deadline even if bytes arrived, so that a server that sends one byte at a
            // time cannot stall the client forever.
            self.wait_on(sent)?;
        }
    }

    /// Returns an error if the answer took too long or the run has ended.
    fn wait_on(&self, sent: Instant) -> Result<(), Failure> {
        let waited = sent.elapsed();
        if self.is_over.load(Ordering::Relaxed) && waited > FAREWELL {
            return Err(Failure::Over);
        }
        match waited < PATIENCE {
            true => Ok(()),
            false => Err(self.gone("no answer in 60 s")),
        }
    }

    fn gone(&self, what: &str) -> Failure {
        Failure::Gone(format!("{}: {what}", self.name))
    }
}

fn is_tick(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

fn dial(name: &str) -> Result<TcpStream, String> {
    let addresses = name
        .to_socket_addrs()
        .map_err(|error| format!("{error}, expected HOST:PORT, e.g. 127.0.0.1:6379"))?;
    let mut wrong = "no such host".to_string();
    for address in addresses {
        match TcpStream::connect_timeout(&address, Duration::from_secs(5)) {
            Ok(stream) => return Ok(stream),
            Err(error) => wrong = error.to_string(),
        }
    }
    Err(wrong)
}

/// Appends a command to `out` as an array of bulk strings.
fn command(words: &[&[u8]], out: &mut Vec<u8>) {
    out.extend(format!("*{}\r\n", words.len()).into_bytes());
    for word in words {
        out.extend(format!("${}\r\n", word.len()).into_bytes());
        out.extend_from_slice(word);
        out.extend(b"\r\n");
    }
}

/// Parses the reply at the start of `bytes`. Returns the reply and its length, or None if the reply
/// is incomplete.
///
/// The first line is validated before it is parsed, so that a server cannot make the parser
/// allocate arbitrary amounts of memory.
fn reply(bytes: &[u8], value_max: usize) -> Result<Option<(Reply, usize)>, String> {
    let Some(first) = bytes.first() else { return Ok(None) };
    if !b"+-$".contains(first) {
        let begin = String::from_utf8_lossy(&bytes[..bytes.len().min(20)]).into_owned();
        return Err(format!("got {begin:?}, expected the reply of a Redis server"));
    }
    let Some(end) = bytes.iter().take(LINE_MAX).position(|byte| *byte == b'\n') else {
        return match bytes.len() < LINE_MAX {
            true => Ok(None),
            false => Err("a line of a reply is too long".into()),
        };
    };
    if *first == b'$' {
        let text = String::from_utf8_lossy(&bytes[1..end]);
        let len: i64 = text.trim_end().parse().map_err(|_| format!("got a length of {text:?}"))?;
        if len > value_max as i64 {
            return Err(format!("got a value of {len} bytes, expected at most {value_max}"));
        }
    }
    let text =
        |(from, upto): (usize, usize)| String::from_utf8_lossy(&bytes[from..upto]).into_owned();
    match decode_range(bytes).map_err(|error| error.to_string())? {
        None => Ok(None),
        Some((frame, used)) => {
            let reply = match frame {
                RangeFrame::SimpleString(range) => Reply::Word(text(range)),
                RangeFrame::Error(range) => Reply::Error(text(range)),
                RangeFrame::BulkString((from, upto)) => {
                    Reply::Value(Some(bytes[from..upto].to_vec()))
                }
                RangeFrame::Null => Reply::Value(None),
                _ => return Err("got a reply without a request".into()),
            };
            Ok(Some((reply, used)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_once_they_are_whole() {
        for (bytes, expected) in [
            (&b"+OK\r\n"[..], Reply::Word("OK".into())),
            (b"-ERR no\r\n", Reply::Error("ERR no".into())),
            (b"$-1\r\n", Reply::Value(None)),
            (b"$0\r\n\r\n", Reply::Value(Some(vec![]))),
            (b"$4\r\na\r\nb\r\n", Reply::Value(Some(b"a\r\nb".to_vec()))),
        ] {
            for len in 0..bytes.len() {
                assert_eq!(reply(&bytes[..len], 100), Ok(None), "{len} of {bytes:?}");
            }
            let more = [bytes, b"+more"].concat();
            assert_eq!(reply(&more, 100), Ok(Some((expected, bytes.len()))));
        }
    }

    #[test]
    fn invalid_replies_are_reported() {
        let said = |bytes: &[u8]| reply(bytes, 100).unwrap_err();
        assert!(said(b"HTTP/1.1 400 Bad Request\r\n").contains("expected the reply of a Redis"));
        assert!(said(b"$101\r\n").contains("at most 100"));
        assert!(said(b"$x\r\n").contains("length"));
        assert!(said(b"*2\r\n").contains("expected the reply"));
        assert!(said(&[b'+'; LINE_MAX]).contains("is too long"));
    }
}
