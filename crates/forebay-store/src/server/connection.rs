//! A connection: bytes in, commands begun in their order, replies out in the same.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::command::{self, Words};
use super::reply::{Reply, array_head};
use super::session::{Pending, Session, Values, answered, value_or_trouble, values};
use super::unfinished::{Pace, Part};
use super::{Serving, TICK};

/// A client that takes nothing for so long is let go.
const DEAF: Duration = Duration::from_secs(60);
/// And so long after the server is over.
const DEAF_AT_THE_END: Duration = Duration::from_secs(5);
/// How long it is waited for a client to read what was said last.
const LINGER: Duration = Duration::from_secs(5);
/// Bytes that are read at a time.
const CHUNK: usize = 64 << 10;
/// Replies are sent once they have so many bytes, or nothing is under way.
const OUT: usize = 1 << 20;

/// Serves a connection until it ends.
pub(super) fn serve(stream: TcpStream, serving: &Arc<Serving>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TICK))?;
    stream.set_write_timeout(Some(TICK))?;
    let connection = Connection {
        stream,
        session: Session::new(serving),
        serving: Arc::clone(serving),
        unfinished: Part::new(&serving.unfinished, serving.limits.unfinished_bytes_max),
        pace: Pace::new(Instant::now()),
        chunk: vec![0; CHUNK],
        bytes: Vec::new(),
        at: 0,
        is_parsed: true,
        held: None,
        pending: VecDeque::new(),
        out: Vec::new(),
        ends: None,
    };
    connection.run()
}

struct Connection {
    stream: TcpStream,
    session: Session,
    serving: Arc<Serving>,
    /// What of a command has come.
    unfinished: Part,
    /// How fast, since the last one was answered.
    pace: Pace,
    chunk: Vec<u8>,
    /// What has come, of which what is behind `at` is in no command yet.
    bytes: Vec<u8>,
    at: usize,
    /// Whether there is no whole command behind it.
    is_parsed: bool,
    /// A command that waits for those before it.
    held: Option<Words>,
    pending: VecDeque<Pending>,
    out: Vec<u8>,
    /// When it was seen that the server is over.
    ends: Option<Instant>,
}

impl Connection {
    fn run(mut self) -> io::Result<()> {
        loop {
            let is_over = self.is_over();
            if !is_over {
                self.begin_all();
            }
            if let Some(next) = self.pending.pop_front() {
                self.answer(next)?;
                self.pace = Pace::new(Instant::now());
                continue;
            }
            self.session.caught_up();
            self.send()?;
            if is_over || self.is_over() {
                return self.linger();
            }
            if self.held.is_none() && !self.read()? {
                return Ok(());
            }
        }
    }

    /// Whether no more commands are taken.
    fn is_over(&mut self) -> bool {
        if self.serving.is_over.load(Ordering::SeqCst) {
            self.ends.get_or_insert_with(Instant::now);
        }
        self.session.is_over || self.ends.is_some()
    }

    /// Begins every whole command that may begin.
    fn begin_all(&mut self) {
        while self.pending.len() < self.serving.limits.pipeline_max
            && !self.session.is_over
            && !self.pending.back().is_some_and(Pending::is_partly_begun)
        {
            let Some(words) = self.next() else { return };
            // A client's commands are as if one came after the other.
            if !self.pending.is_empty() && self.session.waits(&words) {
                self.held = Some(words);
                return;
            }
            let next = self.session.begin(&words);
            self.pending.push_back(next);
        }
    }

    /// The next command.
    fn next(&mut self) -> Option<Words> {
        if self.held.is_some() {
            return self.held.take();
        }
        while !self.is_parsed {
            match command::next(&self.bytes[self.at..], self.session.command_bytes_max()) {
                Ok(Some((words, len))) => {
                    self.at += len;
                    if !words.is_empty() {
                        return Some(words);
                    }
                }
                Ok(None) => {
                    self.is_parsed = true;
                    if !self.unfinished.holds(self.bytes.len() - self.at) {
                        self.give_up("clients have sent too much of commands that have no end yet");
                    }
                }
                Err(what) => self.give_up(&what),
            }
        }
        None
    }

    /// Takes no more of it, and says why.
    fn give_up(&mut self, what: &str) {
        (self.is_parsed, self.session.is_over) = (true, true);
        (self.bytes, self.at) = (Vec::new(), 0);
        self.unfinished.holds(0);
        self.pending.push_back(Pending::Ready(Reply::Error(format!("ERR {what}"))));
    }

    /// Reads what is there; answers whether more may come.
    fn read(&mut self) -> io::Result<bool> {
        self.bytes.drain(..self.at);
        self.at = 0;
        if self.bytes.is_empty() {
            // A large command leaves no memory behind.
            self.bytes.shrink_to(CHUNK);
        }
        match self.stream.read(&mut self.chunk) {
            Ok(0) => return Ok(false),
            Ok(count) => {
                self.bytes.extend_from_slice(&self.chunk[..count]);
                self.is_parsed = false;
            }
            Err(error) if is_tick(&error) => {
                if self.serving.store.is_closed() {
                    return Ok(false);
                }
            }
            Err(error) => return Err(error),
        }
        Ok(self.pace.keeps_up(Instant::now(), self.bytes.len()))
    }

    fn answer(&mut self, next: Pending) -> io::Result<()> {
        match next {
            Pending::Ready(reply) => self.put(&reply),
            Pending::Asked(answers, made) => {
                self.put(&made(answers.iter().map(answered).collect()))
            }
            Pending::Values(values) => self.values(values),
        }
    }

    fn put(&mut self, reply: &Reply) -> io::Result<()> {
        reply.put(&mut self.out, self.session.is_resp3);
        self.session.sent(reply.bytes());
        if self.out.len() > OUT { self.send() } else { Ok(()) }
    }

    /// Writes many values: as one reply, or an error, where they are small; else each as it comes, and errors in
    /// their places.
    fn values(&mut self, mut asked: Values) -> io::Result<()> {
        let (count, mut first, mut bytes) = (asked.count(), Vec::new(), 0);
        while bytes < OUT
            && let Some(answer) = self.session.next_value(&mut asked)
        {
            bytes += value_or_trouble(&answer).bytes();
            first.push(answer);
        }
        if first.len() == count || first.iter().any(Result::is_err) {
            let reply = values(&first);
            // Where it is an error, what the others found is not sent, but done with.
            self.session.sent(bytes - reply.bytes());
            self.put(&reply)?;
            while let Some(answer) = self.session.next_of_begun(&mut asked) {
                self.session.sent(value_or_trouble(&answer).bytes());
            }
            return Ok(());
        }
        array_head(&mut self.out, count);
        first.iter().try_for_each(|answer| self.put(&value_or_trouble(answer)))?;
        drop(first);
        while let Some(answer) = self.session.next_value(&mut asked) {
            self.put(&value_or_trouble(&answer))?;
        }
        Ok(())
    }

    /// Sends the replies there are.
    fn send(&mut self) -> io::Result<()> {
        let (mut sent, mut last) = (0, Instant::now());
        while sent < self.out.len() {
            match self.stream.write(&self.out[sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => (sent, last) = (sent + count, Instant::now()),
                Err(error) if is_tick(&error) => {}
                Err(error) => return Err(error),
            }
            if sent < self.out.len() && self.is_deaf(last) {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        self.out.clear();
        self.out.shrink_to(2 * OUT);
        Ok(())
    }

    /// Whether a client, which last took something then, is waited for no longer.
    fn is_deaf(&mut self, last: Instant) -> bool {
        self.is_over();
        last.elapsed() > DEAF || self.ends.is_some_and(|ends| ends.elapsed() > DEAF_AT_THE_END)
    }

    /// Ends the connection such that the client gets what it was told last, though it may still be sending: closed
    /// with bytes that nobody has read, it would be reset.
    fn linger(mut self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Write)?;
        let begin = Instant::now();
        loop {
            let is_over = self.serving.is_over.load(Ordering::SeqCst);
            if begin.elapsed() > if is_over { TICK } else { LINGER } {
                return Ok(());
            }
            match self.stream.read(&mut self.chunk) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if is_tick(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn is_tick(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}
