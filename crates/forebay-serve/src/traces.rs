//! The traces being written, and their exchange while the server runs.
//!
//! Invariant: a request is recorded in the trace that was being written when the request arrived,
//! so that its latency is not lost in an exchange: the old trace is released when everything
//! recorded in it has ended.

// Allowed because traces are passed to other threads.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::sync::Arc;
use std::sync::mpsc::Sender;

use forebay_core::{Completion, Done, Nanos, Request};

use crate::record::{ClientTrace, Issued, RecordedTrace};

/// The traces of a back.
#[derive(Default)]
pub(crate) struct Traces {
    pub(crate) client: TraceSlot<ClientTrace>,
    pub(crate) issued: TraceSlot<Issued>,
}

/// An order to write a different trace, or none.
pub(crate) struct TraceExchange<T> {
    pub(crate) new: Option<T>,
    /// Receives the previous trace, if any, which the receiver must complete.
    pub(crate) old: Sender<Option<T>>,
}

/// The trace being written, and previous ones that are not complete yet.
pub(crate) struct TraceSlot<T> {
    current: Option<T>,
    closing: Vec<(T, Sender<Option<T>>)>,
}

impl<T> Default for TraceSlot<T> {
    fn default() -> TraceSlot<T> {
        TraceSlot { current: None, closing: Vec::new() }
    }
}

impl<T: RecordedTrace> TraceSlot<T> {
    /// Switches to another trace, and releases the current one when everything recorded in it has
    /// ended.
    pub(crate) fn exchange(&mut self, exchange: TraceExchange<T>) {
        match std::mem::replace(&mut self.current, exchange.new) {
            Some(trace) => self.closing.push((trace, exchange.old)),
            // The requesting thread may no longer be waiting.
            None => drop(exchange.old.send(None)),
        }
        self.release(T::is_quiet);
    }

    /// Passes the end of a request or I/O to the trace that recorded its beginning.
    #[inline]
    fn ended(&mut self, mut end: impl FnMut(&mut T) -> bool) {
        let is_known = self.current.as_mut().is_some_and(&mut end);
        if !is_known && !self.closing.is_empty() {
            let _ = self.closing.iter_mut().any(|(trace, _)| end(trace));
            self.release(T::is_quiet);
        }
    }

    /// Releases the old traces that are `ready`.
    fn release(&mut self, ready: impl Fn(&T) -> bool) {
        for (trace, old) in self.closing.extract_if(.., |(trace, _)| ready(trace)) {
            // The requesting thread waits for the trace, unless the process is ending.
            drop(old.send(Some(trace)));
        }
    }

    fn take(&mut self) -> Option<T> {
        self.release(|_| true);
        self.current.take()
    }
}

impl Traces {
    pub(crate) fn new(client: Option<ClientTrace>, issued: Option<Issued>) -> Traces {
        let mut traces = Traces::default();
        (traces.client.current, traces.issued.current) = (client, issued);
        traces
    }

    /// Returns whether clients' requests are being recorded.
    #[inline]
    pub(crate) fn records_clients(&self) -> bool {
        self.client.current.is_some()
    }

    /// Returns whether the disks' I/Os are being recorded.
    #[inline]
    pub(crate) fn records_issued(&self) -> bool {
        self.issued.current.is_some()
    }

    #[inline]
    pub(crate) fn arrived(&mut self, request: &Request, name: Option<&Arc<str>>) {
        if let Some(trace) = &mut self.client.current {
            trace.arrived(request, name);
        }
    }

    #[inline]
    pub(crate) fn finished(&mut self, now: Nanos, done: &Done) {
        self.client.ended(|trace| trace.finished(now, done));
    }

    #[inline]
    pub(crate) fn started(&mut self, now: Nanos, io: &Request, name: Option<&Arc<str>>) {
        if let Some(trace) = &mut self.issued.current {
            trace.started(now, io, name);
        }
    }

    #[inline]
    pub(crate) fn ended(&mut self, done: &Completion) {
        self.issued.ended(|trace| trace.ended(done));
    }

    /// Passes all complete records to the threads that write the files, so that little is lost if
    /// the server is killed.
    pub(crate) fn hand_over(&mut self) {
        self.client.current.iter_mut().for_each(RecordedTrace::hand_over);
        self.issued.current.iter_mut().for_each(RecordedTrace::hand_over);
    }

    /// Releases all traces, and returns those being written.
    pub(crate) fn take(&mut self) -> (Option<ClientTrace>, Option<Issued>) {
        (self.client.take(), self.issued.take())
    }
}
