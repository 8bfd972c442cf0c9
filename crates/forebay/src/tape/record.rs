//! Writes a tape while a policy works.
//!
//! Calls are handed over in bunches to a thread that makes text of them: whoever drives the policy
//! does not wait for the file, unless it falls far behind.

use std::io::Write;
use std::mem;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

use forebay_core::contract::device::Completion;
use forebay_core::contract::policy::{Class, Figure, Gauge};
use forebay_core::tape::{Call, Recorder};
use forebay_core::{Bytes, Cx, Lane, Nanos, Piece, Policy, Request};
use forebay_trace::TraceError;
use forebay_trace::write::{Draft, Kept};

use super::Header;
use super::lines::{write_call, write_end, write_header};
use crate::error::Error;

/// Calls that are handed over at a time, and how many bunches may wait: some 10 MB.
const BUNCH: usize = 512;
const BUNCHES: usize = 256;

/// A tape that nothing is on yet.
pub struct Blank(Draft);

impl Blank {
    /// A tape that will be called `path`.
    ///
    /// # Errors
    /// A file that cannot be made, or is one of the trace `input`.
    pub fn new(path: &Path, input: &Path) -> Result<Blank, Error> {
        Draft::new(path, &Kept::trace(input)).map(Blank).map_err(Error::output)
    }

    /// Begins the tape of a policy.
    pub fn begin(self, header: &Header) -> Tape {
        let mut text = String::new();
        write_header(&mut text, header);
        let (calls, coming) = sync_channel(BUNCHES);
        let (failed, fails) = channel();
        let writer = thread::spawn(move || {
            // Where nobody listens, `Tape::finish` tells.
            write(self.0, text, coming).inspect_err(|error| drop(failed.send(error.to_string())))
        });
        Tape { calls, writer, fails: Some(fails) }
    }
}

/// A tape that is being written; it gets its name when it is whole.
pub struct Tape {
    calls: SyncSender<Vec<Call>>,
    writer: JoinHandle<Result<u64, TraceError>>,
    fails: Option<Receiver<String>>,
}

impl Tape {
    /// Puts what `policy` is asked and answers on the tape, until it is dropped.
    pub fn record<P: Policy>(&self, policy: P) -> Taped<P> {
        Taped { recorder: Recorder::new(policy), to: self.calls.clone() }
    }

    /// Where it comes why the tape can no longer be written, while a policy works; to be asked for once.
    pub fn fails(&mut self) -> Option<Receiver<String>> {
        self.fails.take()
    }

    /// Completes the tape; answers how many calls are on it. Only once what [`Tape::record`] gave is
    /// dropped.
    ///
    /// # Errors
    /// Where the file cannot be written; then there is none.
    pub fn finish(self) -> Result<u64, Error> {
        drop(self.calls);
        match self.writer.join() {
            Ok(written) => written.map_err(Error::output),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// Writes what comes; answers how many calls.
fn write(
    mut draft: Draft,
    mut text: String,
    coming: Receiver<Vec<Call>>,
) -> Result<u64, TraceError> {
    let mut calls = 0;
    for bunch in coming {
        bunch.iter().for_each(|call| write_call(&mut text, call));
        calls += bunch.len() as u64;
        put(&mut draft, &text)?;
        text.clear();
    }
    write_end(&mut text, calls);
    put(&mut draft, &text)?;
    draft.publish()?;
    Ok(calls)
}

fn put(draft: &mut Draft, text: &str) -> Result<(), TraceError> {
    draft.write_all(text.as_bytes()).map_err(|error| draft.failed(error))
}

/// A policy on tape.
pub struct Taped<P: Policy> {
    recorder: Recorder<P>,
    to: SyncSender<Vec<Call>>,
}

impl<P: Policy> Taped<P> {
    #[inline]
    fn hand_over(&mut self, at_least: usize) {
        if self.recorder.calls.len() >= at_least {
            let bunch = mem::replace(&mut self.recorder.calls, Vec::with_capacity(BUNCH));
            // Where writing failed nobody takes it; `Tape::finish` tells.
            let _ = self.to.send(bunch);
        }
    }
}

impl<P: Policy> Drop for Taped<P> {
    fn drop(&mut self) {
        self.hand_over(1);
    }
}

impl<P: Policy> Policy for Taped<P> {
    fn submit(&mut self, cx: &mut Cx<'_>, request: Request, bytes: Bytes) {
        self.recorder.submit(cx, request, bytes);
        self.hand_over(BUNCH);
    }

    fn dispatch(&mut self, now: Nanos, lane: Lane) -> Option<Request> {
        let io = self.recorder.dispatch(now, lane);
        self.hand_over(BUNCH);
        io
    }

    fn complete(&mut self, cx: &mut Cx<'_>, done: &Completion) {
        self.recorder.complete(cx, done);
        self.hand_over(BUNCH);
    }

    fn wake(&mut self, cx: &mut Cx<'_>) {
        self.recorder.wake(cx);
        self.hand_over(BUNCH);
    }

    fn pieces(&self, io: &Request, each: &mut dyn FnMut(Piece)) {
        self.recorder.pieces(io, each);
    }

    fn wakeup(&self) -> Option<Nanos> {
        self.recorder.wakeup()
    }

    fn figures(&self) -> Vec<Figure> {
        self.recorder.figures()
    }

    fn gauges(&self) -> Vec<Gauge> {
        self.recorder.gauges()
    }

    fn classes(&self) -> &[Class] {
        self.recorder.classes()
    }

    fn servers(&self) -> &[u64] {
        self.recorder.servers()
    }
}
