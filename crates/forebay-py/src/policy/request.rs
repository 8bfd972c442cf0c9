//! A request, as a policy in Python sees it.

use forebay_core::{Flags, Nanos, Op};
use pyo3::prelude::*;

use crate::error::Error;
use crate::given::given;

/// Flags by their letters, as in a trace's column.
const LETTERS: [(char, Flags); 5] = [
    ('P', Flags::PREFLUSH),
    ('F', Flags::FUA),
    ('A', Flags::READAHEAD),
    ('S', Flags::SYNC),
    ('M', Flags::META),
];

/// Where a request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Made by the policy itself.
    Own,
    /// Submitted, under this name of the run's, and to be dispatched.
    Queued(u32),
    /// Given to the device.
    Running,
    /// The device has done it.
    Ended,
    /// Joined to another.
    Merged,
}

/// A request: what is asked of the disk. Policies get them in `submit`; one that is `bare` may also make
/// some of its own, `Request("write", offset, len)`, and dispatch these.
///
/// Two are equal if they are the same one. In the block layer `offset` and `len` grow while neighbours
/// are merged into a request that waits.
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
    /// What was submitted.
    pub(super) fn of(request: &forebay_core::Request, id: u64, place: Place) -> Request {
        let &forebay_core::Request { at, offset, len, stream, op, flags, .. } = request;
        Request { id: Some(id), at, offset, len, stream, op, flags, place }
    }

    /// What it is, for messages.
    pub(super) fn said(&self) -> String {
        let Request { len, offset, stream, .. } = self;
        let what = format!("{} of {len} bytes at {offset}, stream {stream}", self.op.name());
        match self.id {
            Some(id) => format!("request {id} ({what})"),
            None => format!("a request of its own ({what})"),
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

    /// Its number among those submitted in this run; None for one of the policy's own.
    #[getter]
    fn id(&self) -> Option<u64> {
        self.id
    }

    /// When it came to the policy, in nanoseconds from the start of the run.
    #[getter]
    fn at_ns(&self) -> u64 {
        self.at.0
    }

    /// What it does: "read" or "write"; to a policy that is bare also "flush" and "trim".
    #[getter]
    fn op(&self) -> &'static str {
        self.op.name()
    }

    /// Its first byte.
    #[getter]
    fn offset(&self) -> u64 {
        self.offset
    }

    /// Its bytes.
    #[getter]
    fn len(&self) -> u32 {
        self.len
    }

    /// The first byte after it.
    #[getter]
    fn end(&self) -> u64 {
        self.offset.saturating_add(u64::from(self.len))
    }

    /// Who asks: a thread, a process; a small number.
    #[getter]
    fn stream(&self) -> u32 {
        self.stream
    }

    /// Whether somebody waits for it: reads, and writes that are marked so.
    #[getter]
    fn sync(&self) -> bool {
        self.op == Op::Read || self.flags.has(Flags::SYNC)
    }

    /// Its flags, letters of PFASM: preflush, FUA, read-ahead, synchronous, metadata.
    #[getter]
    fn flags(&self) -> String {
        LETTERS.iter().filter(|(_, flag)| self.flags.has(*flag)).map(|(letter, _)| letter).collect()
    }

    fn __repr__(&self) -> String {
        format!("<forebay.Request: {}>", self.said())
    }
}
