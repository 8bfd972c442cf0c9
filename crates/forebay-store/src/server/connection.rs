//! A connection: reads bytes, begins commands in order, and writes replies in the same order.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::command::{self, Words};
use super::{
    Pace, Part, Pending, Reply, Running, Serving, Session, Source, Step, TICK, answered,
    array_head, error_reply, value_or_error,
};
use crate::{Answer, OperationResult};

/// How long a stopping server waits for a client that reads slowly.
const DEAF_AT_THE_END: Duration = Duration::from_secs(5);
/// How long to wait for a client to read the last reply. The client may first finish sending a long
/// command, whose bytes are discarded.
const LINGER: Duration = Duration::from_secs(60);
/// The number of bytes to read at a time.
const CHUNK: usize = 64 << 10;
/// Replies are sent once they amount to this many bytes, or when no command is in flight.
const OUT: usize = 1 << 20;
/// The maximum number of bytes of unanswered plans, unless a single plan is larger.
const PLANNED_MAX: usize = 1 << 20;
/// The maximum number of commands, after the one being answered, whose reads begin as soon as their
/// own writes are done.
const AHEAD: usize = 64;

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
        planned_bytes: 0,
        out: Vec::new(),
        ends: None,
    };
    connection.run()
}

struct Connection {
    stream: TcpStream,
    session: Session,
    serving: Arc<Serving>,
    /// The client's share of the memory for incomplete commands.
    unfinished: Part,
    /// The rate at which the client has sent bytes since the last command was answered.
    pace: Pace,
    chunk: Vec<u8>,
    /// The received bytes; those after `at` have not been parsed.
    bytes: Vec<u8>,
    at: usize,
    /// Whether the remaining bytes contain no complete command.
    is_parsed: bool,
    /// A command that waits for earlier ones.
    held: Option<Words>,
    pending: VecDeque<Pending>,
    /// The bytes of plans among the pending commands.
    planned_bytes: usize,
    out: Vec<u8>,
    /// When the connection noticed that the server is stopping.
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
                self.planned_bytes -= next.planned_bytes();
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

    /// Returns whether no more commands are accepted.
    fn is_over(&mut self) -> bool {
        if self.serving.is_over.load(Ordering::SeqCst) {
            self.ends.get_or_insert_with(Instant::now);
        }
        self.session.is_over || self.ends.is_some()
    }

    /// Begins all complete commands that need not wait for others.
    fn begin_all(&mut self) {
        while self.pending.len() < self.serving.limits.pipeline_max
            && self.planned_bytes < PLANNED_MAX
            && !self.session.is_over
        {
            let Some(words) = self.next() else { return };
            // A client's commands must appear to execute one after another.
            if !self.pending.is_empty() && self.session.waits(&words) {
                self.held = Some(words);
                return;
            }
            let next = self.session.begin(&words);
            self.planned_bytes += next.planned_bytes();
            self.pending.push_back(next);
        }
    }

    /// Parses the next command.
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
                        self.give_up("clients have sent too much data in incomplete commands");
                    }
                }
                Err(what) => self.give_up(&what),
            }
        }
        None
    }

    /// Stops reading commands, and reports the reason to the client.
    fn give_up(&mut self, what: &str) {
        (self.is_parsed, self.session.is_over) = (true, true);
        (self.bytes, self.at) = (Vec::new(), 0);
        self.unfinished.holds(0);
        self.pending.push_back(Pending::Ready(Reply::Error(format!("ERR {what}"))));
    }

    /// Reads the available bytes; returns whether more may follow.
    fn read(&mut self) -> io::Result<bool> {
        self.bytes.drain(..self.at);
        self.at = 0;
        if self.bytes.is_empty() {
            // Free the memory of a large command.
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
            Pending::Asked(answer, made) => self.put(&made(answered(&answer))),
            Pending::Planned(running) => self.planned(*running),
        }
    }

    fn put(&mut self, reply: &Reply) -> io::Result<()> {
        reply.put(&mut self.out, self.session.is_resp3);
        self.session.sent(reply.bytes());
        if self.out.len() > OUT { self.send() } else { Ok(()) }
    }

    /// Writes a reply, after counting its bytes as held.
    fn put_new(&mut self, reply: &Reply) -> io::Result<()> {
        self.session.holds(reply.bytes());
        self.put(reply)
    }

    /// Writes the replies of a plan.
    fn planned(&mut self, mut running: Running) -> io::Result<()> {
        if let Some(refused) = self.session.settle(&mut running) {
            return self.put_new(&refused);
        }
        // Meanwhile, the reads of the following commands continue.
        for next in self.pending.iter_mut().take(AHEAD) {
            if let Pending::Planned(next) = next
                && !self.session.is_full()
            {
                self.session.look(next);
            }
        }
        if running.is_exec {
            array_head(&mut self.out, running.steps.len());
        }
        while let Some(step) = running.steps.next() {
            match step {
                Step::Reply(reply) => self.put_new(&reply)?,
                Step::Value(source) => {
                    let answer = self.session.value(&mut running.reads, source);
                    self.put(&value_or_error(&answer))?;
                }
                Step::Values(sources) => self.values(&mut running, sources)?,
                Step::Count(sources) => {
                    let found = sources.into_iter();
                    let found = found.map(|of| self.session.value(&mut running.reads, of));
                    let reply = counted(&found.collect::<Vec<_>>());
                    self.put(&reply)?;
                }
            }
        }
        Ok(())
    }

    /// Writes several values: if they are small, as one reply or one error; otherwise each as it
    /// arrives, with errors in place.
    fn values(&mut self, running: &mut Running, sources: Vec<Source>) -> io::Result<()> {
        let (count, mut first, mut bytes) = (sources.len(), Vec::new(), 0);
        let mut sources = sources.into_iter();
        while bytes < OUT
            && let Some(source) = sources.next()
        {
            let answer = self.session.value(&mut running.reads, source);
            bytes += value_or_error(&answer).bytes();
            first.push(answer);
        }
        if let Some(wrong) = first.iter().find_map(|answer| answer.as_ref().err()) {
            // The remaining values are discarded.
            self.session.sent(bytes);
            sources.for_each(|source| self.session.skip(&mut running.reads, source));
            return self.put(&error_reply(wrong));
        }
        array_head(&mut self.out, count);
        first.iter().try_for_each(|answer| self.put(&value_or_error(answer)))?;
        drop(first);
        for source in sources {
            let answer = self.session.value(&mut running.reads, source);
            self.put(&value_or_error(&answer))?;
        }
        Ok(())
    }

    /// Sends the pending replies.
    fn send(&mut self) -> io::Result<()> {
        let (mut sent, mut pace) = (0, Pace::new(Instant::now()));
        while sent < self.out.len() {
            match self.stream.write(&self.out[sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => sent += count,
                Err(error) if is_tick(&error) => {}
                Err(error) => return Err(error),
            }
            // Add a byte so that the minimum pace also applies to a client that has not read
            // anything yet, because even such a client prevents data on the disks from being freed.
            if sent < self.out.len() && self.is_deaf(&mut pace, sent + 1) {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        self.out.clear();
        self.out.shrink_to(2 * OUT);
        Ok(())
    }

    /// Returns whether to give up on a client that reads too slowly; it has read `taken` bytes so
    /// far.
    fn is_deaf(&mut self, pace: &mut Pace, taken: usize) -> bool {
        self.is_over();
        let is_late = !pace.keeps_up(Instant::now(), taken);
        is_late || self.ends.is_some_and(|ends| ends.elapsed() > DEAF_AT_THE_END)
    }

    /// Ends the connection in such a way that the client receives the last reply even if it is
    /// still sending. Closing a socket with unread input would reset the connection.
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

/// Returns the number of answers that contain a value, as a reply.
fn counted(answers: &[OperationResult]) -> Reply {
    let is_there = |answer: &&OperationResult| matches!(answer, Ok(Answer::Value(Some(_))));
    match answers.iter().find_map(|answer| answer.as_ref().err()) {
        Some(wrong) => error_reply(wrong),
        None => Reply::Integer(answers.iter().filter(is_there).count() as i64),
    }
}

fn is_tick(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}
