//! A request as a Python policy sees it.

use forebay_core::{Flags, Nanos, Op};
use pyo3::prelude::*;

use crate::error::Error;
use crate::given::given;

/// The flags and their letters in the `flags` column of a trace.
const LETTERS: [(char, Flags); 5] = [
    ('P', Flags::PREFLUSH),
    ('F', Flags::FUA),
    ('A', Flags::READAHEAD),
    ('S', Flags::SYNC),
    ('M', Flags::META),
];

/// The state of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The policy created the request.
    Own,
    /// The request was submitted under this id, and has not been dispatched yet.
    Queued(u32),
    /// The request was dispatched to the device.
    Running,
    /// The device has completed the request.
    Ended,
    /// The request was merged into another request.
    Merged,
}

/// A request to the disk. Policies receive requests in `submit`; a `bare` policy may also create
/// its own, `Request("write", offset, len)`, and dispatch them.
///
/// Requests compare equal only if they are the same object. In the block layer, `offset` and `len`
/// change when neighbors are merged into a waiting request.
#[pyclass(name = "Request", module = "forebay", weakref)]
pub(crate) struct Request {
    pub(super) id: Option<u64>,
    pub(super) at: Nanos,
    pub(super) offset: u64,
    pub(super) len: u32,
    pub(super) stream: u32,
    pub(super) op: Op,
    pub(super) flags: Flags,
    pub(super) place: Place,
}

impl Request {
    /// Wraps a submitted request.
    pub(super) fn of(request: &forebay_core::Request, id: u64, place: Place) -> Request {
        let &forebay_core::Request { at, offset, len, stream, op, flags, .. } = request;
        Request { id: Some(id), at, offset, len, stream, op, flags, place }
    }

    /// Describes the request in a message.
    pub(super) fn said(&self) -> String {
        let Request { len, offset, stream, .. } = self;
        let what = format!("{} of {len} bytes at {offset}, stream {stream}", self.op.name());
        match self.id {
            Some(id) => format!("request {id} ({what})"),
            None => format!("a new request ({what})"),
        }
    }
}

#[pymethods]
impl Request {
    #[new]
    #[pyo3(signature = (op, offset=0, len=0, *, stream=0, flags=""))]
    fn new(
        #[pyo3(from_py_with = given)] op: &str,
        #[pyo3(from_py_with = given)] offset: u64,
        #[pyo3(from_py_with = given)] len: u32,
        #[pyo3(from_py_with = given)] stream: u32,
        #[pyo3(from_py_with = given)] flags: &str,
    ) -> PyResult<Request> {
        let ops = [Op::Read, Op::Write, Op::Flush, Op::Trim];
        let known = ops.into_iter().find(|known| known.name() == op);
        let Some(op) = known else {
            let expected = "expected \"read\", \"write\", \"flush\" or \"trim\"";
            return Err(Error::new_err(format!("op: got '{op}', {expected}")));
        };
        if (op == Op::Flush) != (len == 0) {
            let expected = if op == Op::Flush { "0, as a flush has no data" } else { "1 or more" };
            return Err(Error::new_err(format!("len: got {len}, expected {expected}")));
        }
        let letter = |letter: char| {
            let known = LETTERS.iter().find(|(known, _)| *known == letter);
            let text =
                || format!("flags: got '{flags}', expected any of the letters P, F, A, S, M");
            known.map(|(_, flag)| *flag).ok_or_else(|| Error::new_err(text()))
        };
        let set = flags
            .chars()
            .try_fold(Flags::NONE, |set, one| Ok::<_, PyErr>(set.with(letter(one)?)))?;
        let (id, at) = (None, Nanos::ZERO);
        Ok(Request { id, at, offset, len, stream, op, flags: set, place: Place::Own })
    }

    /// The request's number among those submitted in this run; None for one that the policy
    /// created.
    #[getter]
    fn id(&self) -> Option<u64> {
        self.id
    }

    /// When the policy received the request, in nanoseconds from the start of the run.
    #[getter]
    fn at_ns(&self) -> u64 {
        self.at.0
    }

    /// The operation: "read" or "write"; for bare policies also "flush" and "trim".
    #[getter]
    fn op(&self) -> &'static str {
        self.op.name()
    }

    /// The first byte of the request.
    #[getter]
    fn offset(&self) -> u64 {
        self.offset
    }

    /// The length in bytes.
    #[getter]
    fn len(&self) -> u32 {
        self.len
    }

    /// The first byte after the request.
    #[getter]
    fn end(&self) -> u64 {
        self.offset.saturating_add(u64::from(self.len))
    }

    /// The stream (thread or process) that submitted the request, as a small number.
    #[getter]
    fn stream(&self) -> u32 {
        self.stream
    }

    /// Whether the submitter waits for the request: true for reads, and for writes marked
    /// synchronous.
    #[getter]
    fn sync(&self) -> bool {
        self.op == Op::Read || self.flags.has(Flags::SYNC)
    }

    /// The flags, as letters of PFASM: preflush, FUA, read-ahead, synchronous, metadata.
    #[getter]
    fn flags(&self) -> String {
        LETTERS.iter().filter(|(_, flag)| self.flags.has(*flag)).map(|(letter, _)| letter).collect()
    }

    fn __repr__(&self) -> String {
        format!("<forebay.Request: {}>", self.said())
    }
}
