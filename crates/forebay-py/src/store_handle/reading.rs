//! Reads the current content of a store or that of a snapshot: values, scans, and iteration page by
//! page.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::Error;
use forebay_store::{Answer, Key, Operation, Page, Value};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use super::asking::{Opened, asked};
use crate::error::of_trouble;

/// The number of keys in the first page of an iteration, and in the largest.
const PAGE: (usize, usize) = (16, 1024);
/// The maximum size of a page in bytes. A single larger record is a separate page.
const PAGE_BYTES: u64 = 1 << 20;

/// A key and its value.
pub(super) type Pair = (Key, Value);

/// A snapshot of an open store.
pub(super) struct Held {
    snapshot: Option<forebay_store::Snapshot>,
    opened: Arc<Opened>,
}

impl Drop for Held {
    fn drop(&mut self) {
        let snapshot = self.snapshot.take();
        if !self.opened.is_ours() {
            // A forked process cannot release the snapshot, because the thread for that exists
            // only in the parent.
            std::mem::forget(snapshot);
        }
    }
}

/// The content to read: the store's current content, or a snapshot.
#[derive(Clone)]
pub(super) enum Reader {
    Now(Arc<Opened>),
    Then(Arc<Held>),
}

impl Reader {
    /// Takes a snapshot of `opened`.
    pub(super) fn hold(py: Python<'_>, opened: &Arc<Opened>) -> PyResult<Reader> {
        let store = opened.store()?;
        let snapshot = py.detach(|| store.snapshot()).map_err(|failure| of_trouble(&failure))?;
        let held = Held { snapshot: Some(snapshot), opened: Arc::clone(opened) };
        Ok(Reader::Then(Arc::new(held)))
    }

    fn ask(&self, py: Python<'_>, read: Operation) -> PyResult<Answer> {
        match self {
            Reader::Now(opened) => {
                let store = opened.store()?;
                asked(py, |then| store.begin(read, then))
            }
            Reader::Then(held) => {
                held.opened.store()?;
                asked(py, |then| match &held.snapshot {
                    Some(snapshot) => snapshot.begin(read, then),
                    None => drop(then),
                })
            }
        }
    }

    pub(super) fn value(&self, py: Python<'_>, key: Key) -> PyResult<Option<Value>> {
        match self.ask(py, Operation::Get(key))? {
            Answer::Value(value) => Ok(value),
            _ => Ok(None),
        }
    }

    pub(super) fn page(
        &self,
        py: Python<'_>,
        from: Key,
        count: usize,
        bytes: u64,
    ) -> PyResult<Page> {
        match self.ask(py, Operation::Scan { from, count, bytes })? {
            Answer::Page(page) => Ok(page),
            _ => Ok(Page::default()),
        }
    }
}

/// Converts a key and its value to Python objects.
pub(super) fn pair<'py>(py: Python<'py>, (key, value): &Pair) -> PyResult<Bound<'py, PyTuple>> {
    PyTuple::new(py, [PyBytes::new(py, key), PyBytes::new(py, value)])
}

/// An iterator over the keys at one moment, in order, with or without their values.
#[pyclass(frozen, module = "forebay", name = "_Records")]
pub(crate) struct Records {
    /// The position, or None while another thread is reading the next record.
    place: Mutex<Option<Place>>,
    has_values: bool,
}

/// The current position of an iteration.
struct Place {
    /// The source of the records, or None after the end.
    reader: Option<Reader>,
    /// The first key of the next page, or None after the last page.
    from: Option<Key>,
    stop: Option<Key>,
    ready: VecDeque<Pair>,
    count: usize,
}

impl Records {
    pub(super) fn new(reader: Reader, from: Key, stop: Option<Key>, has_values: bool) -> Records {
        let place = Place {
            reader: Some(reader),
            from: Some(from),
            stop,
            ready: VecDeque::new(),
            count: PAGE.0,
        };
        Records { place: Mutex::new(Some(place)), has_values }
    }

    /// Locks the position. The lock is never held while waiting for the store or for Python.
    fn place(&self) -> MutexGuard<'_, Option<Place>> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Records {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let taken = self.place().take();
        let Some(mut place) = taken else {
            return Err(Error::new_err("iterator already executing"));
        };
        let next = place.next(py);
        *self.place() = Some(place);
        let Some(next) = next? else { return Ok(None) };
        match self.has_values {
            true => Ok(Some(pair(py, &next)?.into_any())),
            false => Ok(Some(PyBytes::new(py, &next.0).into_any())),
        }
    }
}

impl Place {
    fn next(&mut self, py: Python<'_>) -> PyResult<Option<Pair>> {
        if self.ready.is_empty() {
            self.read(py)?;
        }
        let is_in = |pair: &Pair| self.stop.as_ref().is_none_or(|stop| pair.0 < *stop);
        let next = self.ready.pop_front().filter(is_in);
        if next.is_none() {
            // Release the snapshot as soon as the iteration ends.
            (self.reader, self.ready) = (None, VecDeque::new());
        }
        Ok(next)
    }

    /// Reads the next nonempty page.
    fn read(&mut self, py: Python<'_>) -> PyResult<()> {
        while self.ready.is_empty()
            && let (Some(reader), Some(from)) = (&self.reader, &self.from)
        {
            let page = reader.page(py, from.clone(), self.count, PAGE_BYTES)?;
            (self.ready, self.from) = (page.records.into(), page.next);
            self.count = (self.count * 2).min(PAGE.1);
        }
        Ok(())
    }
}
