//! Checks a tape: makes its calls to a fresh policy and holds the answers against those on it.
//!
//! Only what the policy was asked is taken from the tape. Its answers are written down anew and
//! compared with the tape's lines, so any answer that differs is found, and told as it stands.

use std::collections::BTreeMap;
use std::io::{BufRead, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use forebay_core::catalog::build_placed;
use forebay_core::contract::device::{Completion, Mechanics};
use forebay_core::contract::policy::Finished;
use forebay_core::tape::Call;
use forebay_core::{Bytes, Cx, Lane, Nanos, Null, Policy, Request};
use forebay_trace::TraceError;
use forebay_trace::error::Place;
use forebay_trace::unpack::unpack;
use serde::Serialize;

use super::lines::{Asked, Line, Wrong, lanes, parse, shorten, write_call};
use super::{Header, MAGIC};
use crate::error::Error;

/// Longest line taken for one.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// What a check came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Checked {
    /// The policy with its parameters.
    pub policy: String,
    /// Whether every answer was the same.
    pub identical: bool,
    /// Calls that were made.
    pub calls: u64,
    /// Requests among them.
    pub requests: u64,
    /// I/Os that were dispatched.
    pub ios: u64,
    /// Requests that were told to be finished.
    pub finished: u64,
    /// The first answer that was not the same.
    pub difference: Option<Difference>,
}

/// An answer that is not the same.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The tape's line, from 1.
    pub line: u64,
    /// What stands there.
    pub tape: String,
    /// What the policy answers.
    pub policy: String,
}

/// Makes the calls on the tape `path` to a fresh policy, up to the first answer that differs.
/// `go_on` is asked now and then, with the calls so far.
///
/// # Errors
/// A file that is no whole tape, or asks what no driver would ask.
pub fn check(path: &Path, go_on: impl FnMut(u64) -> ControlFlow<()>) -> Result<Checked, Error> {
    let unpacked = unpack(path)?;
    check_content(path, unpacked.content, go_on)
}

/// The same for an unpacked tape; `path` is its name in messages.
pub fn check_content(
    path: &Path,
    content: impl BufRead,
    mut go_on: impl FnMut(u64) -> ControlFlow<()>,
) -> Result<Checked, Error> {
    let mut text = Text { path: path.to_path_buf(), content, line: String::new(), number: 0 };
    let header = text.header()?;
    let mut policy = build_placed(&header.policy, &header.lanes).map_err(|error| {
        let expected = format!("a policy that can be built for its lanes ({error})");
        text.malformed(2, shorten(&header.policy), expected)
    })?;
    let lanes = match policy.servers() {
        [] => header.lanes.disks + Lane::from(header.lanes.flash.is_some()),
        servers => servers.len() as Lane,
    };
    let mut again = Again { lanes, disks: header.lanes.disks, ..Again::default() };
    let mut checked = Checked {
        policy: header.policy,
        identical: true,
        calls: 0,
        requests: 0,
        ios: 0,
        finished: 0,
        difference: None,
    };
    let mut said = String::new();
    loop {
        let asked = match text.next_call(checked.calls)? {
            Some(asked) => asked,
            None => return Ok(checked),
        };
        let call = again.ask(&mut *policy, asked).map_err(|wrong| text.wrong(wrong))?;
        said.clear();
        write_call(&mut said, &call);
        let said = said.trim_end();
        if text.line != said {
            let (line, tape) = (text.number, text.line.clone());
            let policy = said.to_string();
            checked.difference = Some(Difference { line, tape, policy });
            checked.identical = false;
            return Ok(checked);
        }
        checked.calls += 1;
        match &call {
            Call::Submit(_, _, finished) => {
                checked.requests += 1;
                checked.finished += finished.len() as u64;
            }
            Call::Dispatch(_, _, io) => checked.ios += u64::from(io.is_some()),
            Call::Complete(_, _, finished) | Call::Wake(_, finished) => {
                checked.finished += finished.len() as u64;
            }
        }
        if checked.calls.is_multiple_of(1 << 16) && go_on(checked.calls).is_break() {
            return Err(Error::Stopped);
        }
    }
}

/// The policy's driver, which does as the tape says.
#[derive(Default)]
struct Again {
    lanes: Lane,
    disks: Lane,
    now: Nanos,
    /// I/Os that were dispatched and are not complete.
    under_way: BTreeMap<(Lane, u64), Request>,
    finished: Finished,
}

impl Again {
    /// Makes a call, if a driver might make it; answers it with the policy's answer.
    fn ask(&mut self, policy: &mut dyn Policy, asked: Asked) -> Result<Call, Wrong> {
        let (Asked::Submit(now, _)
        | Asked::Dispatch(now, _)
        | Asked::Complete(now, ..)
        | Asked::Wake(now)) = asked;
        if now < self.now {
            return Err((format!("a call at {} ns", now.0), "none earlier than the one before"));
        }
        self.now = now;
        self.finished.clear();
        let cx = &mut Cx { now, slots: &mut Null, finished: &mut self.finished };
        match asked {
            Asked::Submit(now, request) => {
                if request.lane >= self.disks {
                    return Err((format!("a request to lane {}", request.lane), "a disk's lane"));
                }
                if request.at > now {
                    return Err((
                        format!("a request of {} ns", request.at.0),
                        "one that has arrived",
                    ));
                }
                policy.submit(cx, request, Bytes::NONE);
                Ok(Call::Submit(now, request, self.finished.clone()))
            }
            Asked::Dispatch(now, lane) => {
                if lane >= self.lanes {
                    return Err((format!("lane {lane}"), "one that there is"));
                }
                let io = policy.dispatch(now, lane);
                if let Some(io) = io {
                    self.under_way.insert((lane, io.id), io);
                }
                Ok(Call::Dispatch(now, lane, io))
            }
            Asked::Wake(now) => {
                policy.wake(cx);
                Ok(Call::Wake(now, self.finished.clone()))
            }
            Asked::Complete(now, lane, id, started, outcome) => {
                let Some(io) = self.under_way.remove(&(lane, id)) else {
                    let got = format!("the completion of I/O {id} on lane {lane}");
                    return Err((got, "one that is under way there"));
                };
                let mechanics = Mechanics::default();
                let done = Completion { io, started, at: now, mechanics, outcome };
                policy.complete(cx, &done);
                Ok(Call::Complete(now, done, self.finished.clone()))
            }
        }
    }
}

/// A tape's lines.
struct Text<R> {
    path: PathBuf,
    content: R,
    line: String,
    number: u64,
}

impl<R: BufRead> Text<R> {
    /// The error that the present line is.
    fn wrong(&self, (got, expected): Wrong) -> Error {
        self.malformed(self.number.max(1), got, expected.to_string())
    }

    fn malformed(&self, line: u64, got: String, expected: String) -> Error {
        let (path, place, hint) = (self.path.clone(), Place::Line(line), String::new());
        TraceError::Malformed { path, place, got, expected, hint }.into()
    }

    /// Goes to the next line; answers whether there is a whole one.
    fn advance(&mut self) -> Result<bool, Error> {
        let mut bytes = std::mem::take(&mut self.line).into_bytes();
        bytes.clear();
        let mut limited = self.content.by_ref().take(LINE_BYTES_MAX);
        let read = limited.read_until(b'\n', &mut bytes);
        read.map_err(|source| TraceError::Io { path: self.path.clone(), source })?;
        if bytes.is_empty() {
            return Ok(false);
        }
        self.number += 1;
        if bytes.pop_if(|byte| *byte == b'\n').is_none() {
            let got = format!("a line without an end after {} bytes", bytes.len());
            return Err(self.wrong((got, "a whole tape")));
        }
        match String::from_utf8(bytes) {
            Ok(line) => self.line = line,
            Err(_) => return Err(self.wrong(("bytes that are no text".into(), "a tape"))),
        }
        Ok(true)
    }

    fn header(&mut self) -> Result<Header, Error> {
        let none = "a tape, which begins with 'forebay tape 2'; forebay play --tape writes one";
        if !self.advance()? {
            return Err(self.wrong(("an empty file".into(), none)));
        }
        if self.line != MAGIC {
            return Err(self.wrong((shorten(&self.line), none)));
        }
        let whole = self.advance()?;
        let policy = self.line.strip_prefix("policy ").filter(|_| whole).map(str::to_string);
        let Some(policy) = policy else {
            return Err(self.wrong((shorten(&self.line), "policy SPEC")));
        };
        if !self.advance()? {
            self.line.clear();
        }
        let lanes = lanes(&self.line).map_err(|wrong| self.wrong(wrong))?;
        Ok(Header { policy, lanes })
    }

    /// The next call; none at the end, after `calls` of them.
    fn next_call(&mut self, calls: u64) -> Result<Option<Asked>, Error> {
        if !self.advance()? {
            let got = format!("no more after {calls} calls");
            return Err(self.wrong((got, "the tape's last line, end CALLS; it was cut")));
        }
        match parse(&self.line).map_err(|wrong| self.wrong(wrong))? {
            Line::Call(asked) => Ok(Some(asked)),
            Line::End(told) if told != calls => {
                let got = format!("{calls} calls");
                Err(self.wrong((got, "as many as the last line says")))
            }
            Line::End(_) if self.advance()? => {
                Err(self.wrong((shorten(&self.line), "nothing after the tape's end")))
            }
            Line::End(_) => Ok(None),
        }
    }
}
