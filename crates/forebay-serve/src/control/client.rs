//! Sends commands to the control socket of a server in another process.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::{Command, beside};
use crate::error::{Error, unfit};
use crate::figures::Figures;

/// How long a server may take for a line of its answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Requests the figures of the server at `socket`.
///
/// # Errors
/// No server answers there.
pub fn figures(socket: &Path) -> Result<Figures, Error> {
    let figures = order(socket, &Command::Figures {}, &mut |_| ())?;
    serde_json::from_value(figures).map_err(|error| unanswered(socket, &error))
}

/// Sends a command to the server at `socket` and returns the result. `progress` receives the
/// server's progress reports.
///
/// # Errors
/// No server answers there, or the server refuses the command.
pub fn order(
    socket: &Path,
    command: &Command,
    progress: &mut dyn FnMut(&Value),
) -> Result<Value, Error> {
    let path = beside(socket);
    let failed = |error: io::Error| silent(socket, &error);
    let mut stream = UnixStream::connect(&path).map_err(failed)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    match stream.write_all(command.line().as_bytes()) {
        // A server with too many connections sends an error and closes the connection before it
        // reads the command.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(failed(error)),
        _ => {}
    }
    for line in BufReader::new(stream).lines() {
        let line = line.map_err(failed)?;
        let mut answer: Value =
            serde_json::from_str(&line).map_err(|error| unanswered(socket, &error))?;
        if let Some(error) = answer["error"].as_str() {
            return Err(unfit(error));
        }
        match answer.get("progress") {
            Some(value) => progress(value),
            None => return Ok(answer["done"].take()),
        }
    }
    Err(unanswered(socket, &"the server ended"))
}

/// Explains why the server did not answer.
fn silent(socket: &Path, error: &io::Error) -> Error {
    let path = beside(socket);
    let path = path.display();
    match error.kind() {
        // Which of the two a timeout is depends on the system.
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => unfit(format!(
            "{path}: the server has not answered for {} s; it may still carry out the command",
            PATIENCE.as_secs()
        )),
        io::ErrorKind::PermissionDenied => unfit(format!(
            "{path}: permission denied; only the user that runs the server may open it"
        )),
        _ => unanswered(socket, error),
    }
}

fn unanswered(socket: &Path, error: &dyn std::fmt::Display) -> Error {
    unfit(format!(
        "{}: no server takes commands at this path: {error}; expected PATH of forebay serve \
         --socket PATH",
        beside(socket).display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_does_not_answer_is_not_absent() {
        let said = |kind: io::ErrorKind| silent(Path::new("s"), &kind.into()).to_string();
        for kind in [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut] {
            assert!(said(kind).contains("has not answered for 60 s; it may still carry out"));
        }
        assert!(
            said(io::ErrorKind::PermissionDenied).contains("only the user that runs the server")
        );
        assert!(said(io::ErrorKind::NotFound).contains("no server takes commands"));
    }
}
