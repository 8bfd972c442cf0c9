//! The control socket. A command is one line of JSON; an answer is one or more lines of JSON.
//!
//! The socket of the server at `PATH` is `PATH.control`, and only the server's user may open it. A
//! command is `{"version": 1, "command": NAME, ...}`. Every answer ends with a line that has `done`
//! (the result) or `error` (a message); lines with `progress` may precede it. A connection may send
//! any number of commands, one after another.

// Allowed because this module works with threads and sockets.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

pub mod client;
mod commands;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use forebay_ask::{Spelling, spelled};
use serde_json::{Value, json};

pub use self::commands::Command;
use crate::address::{Address, Listener, Stopper, Stream};
use crate::error::{Error, system};
use crate::running::Running;

/// The version of the command and answer format.
pub const VERSION: u64 = 1;

/// The maximum length of a command in bytes.
const COMMAND_MAX: u64 = 64 << 10;
/// The maximum number of simultaneous connections.
const CONNECTIONS_MAX: usize = 32;
/// How long a connection may be idle, and how long a client may take to read an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the path of the control socket for the server at `socket`.
pub(crate) fn beside(socket: &Path) -> PathBuf {
    let mut name = socket.as_os_str().to_owned();
    name.push(".control");
    PathBuf::from(name)
}

/// A thread that accepts connections to the control socket.
pub(crate) struct Control {
    over: Arc<AtomicBool>,
    stopper: Stopper,
    thread: JoinHandle<()>,
}

impl Control {
    /// Starts accepting commands next to `socket`, on which this server listens. An existing
    /// control socket is replaced: it is stale, because this server now owns `socket`.
    pub(crate) fn start(socket: &Path, running: &Arc<Running>) -> Result<Control, Error> {
        let path = beside(socket);
        if std::fs::symlink_metadata(&path).is_ok_and(|found| found.file_type().is_socket()) {
            // If the file cannot be removed, listening fails with an error.
            let _ = std::fs::remove_file(&path);
        }
        let (listener, _) = Address::Unix(path.clone()).listen()?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))
            .map_err(system("restricting the control socket"))?;
        let stopper = listener.stopper().map_err(system("taking commands"))?;
        let over = Arc::new(AtomicBool::new(false));
        let (theirs, running) = (Arc::clone(&over), Arc::clone(running));
        let thread = thread::Builder::new().name("control".into());
        let thread = thread.spawn(move || accept(&listener, &theirs, &running));
        let thread = thread.map_err(system("starting a thread"))?;
        Ok(Control { over, stopper, thread })
    }

    /// Stops accepting commands. Commands in progress run to their end.
    pub(crate) fn stop(self) {
        self.over.store(true, Ordering::SeqCst);
        // The thread wakes up even if the socket's file is gone, and then ends.
        self.stopper.stop();
        let _ = self.thread.join();
    }
}

fn accept(listener: &Listener, over: &AtomicBool, running: &Arc<Running>) {
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        let accepted = listener.accept();
        if over.load(Ordering::SeqCst) {
            return;
        }
        let Ok(mut stream) = accepted else {
            // The process may be out of descriptors, for example; wait until others are closed.
            thread::sleep(Duration::from_millis(100));
            continue;
        };
        if stream.set_timeout(PATIENCE).is_err() {
            continue;
        }
        if open.load(Ordering::SeqCst) >= CONNECTIONS_MAX {
            let busy = format!("{CONNECTIONS_MAX} connections are open; close one and try again");
            // If the client has disconnected, it needs no answer.
            let _ = say(&mut stream, "error", &busy.into());
            continue;
        }
        open.fetch_add(1, Ordering::SeqCst);
        let (running, theirs) = (Arc::clone(running), Arc::clone(&open));
        let thread = thread::Builder::new().name("command".into());
        let started = thread.spawn(move || {
            converse(stream, &running);
            theirs.fetch_sub(1, Ordering::SeqCst);
        });
        if started.is_err() {
            open.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Executes the commands of a connection, until the connection ends.
fn converse(stream: Stream, running: &Running) {
    let mut stream = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        let read = stream.by_ref().take(COMMAND_MAX + 1).read_until(b'\n', &mut line);
        if !matches!(read, Ok(1..)) {
            return;
        }
        let is_too_long = line.len() as u64 > COMMAND_MAX;
        let to = stream.get_mut();
        let answered = match is_too_long {
            true => Err(format!("got a line of more than {COMMAND_MAX} bytes, expected a command")),
            false => Command::parse(&line).and_then(|command| {
                let mut progress = |value: Value| say(to, "progress", &value).is_ok();
                command.run(running, &mut progress).map_err(|error| error.to_string())
            }),
        };
        let to = stream.get_mut();
        let said = match answered {
            Ok(done) => say(to, "done", &done),
            Err(error) => say(to, "error", &spelled(&error, Spelling::Command).into()),
        };
        if said.is_err() || is_too_long {
            return;
        }
    }
}

/// Sends a line of an answer.
fn say(to: &mut impl Write, key: &str, value: &Value) -> std::io::Result<()> {
    let mut line = json!({ "version": VERSION, key: value }).to_string();
    line.push('\n');
    to.write_all(line.as_bytes())
}
