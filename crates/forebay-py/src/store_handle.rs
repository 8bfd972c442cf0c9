//! The Python class `Store`: a dict-like key-value store on disks.
//!
//! A thin layer over `forebay_store::Store`. Keys and values are bytes, and a put is durable when
//! the call returns. Iteration reads a snapshot, page by page.

mod asking;
mod reading;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use forebay_store::{
    Answer, Checked, Config, DiskOptions, Key, Loss, Operation, Value, create, open_disks,
};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};

use crate::error::{Error, argument, of_store};
use crate::given::{given, several};
use asking::{Bytes, Opened, apart, asked};
use reading::{Reader, Records, pair};

/// Returns the value of a key. Raises KeyError if the key does not exist.
fn item<'py>(reader: &Reader, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    let py = key.py();
    match reader.value(py, key.extract::<Bytes>()?.0)? {
        Some(value) => Ok(PyBytes::new(py, &value)),
        None => Err(PyKeyError::new_err(key.clone().unbind())),
    }
}

/// Returns the value of a key, or `default` if the key does not exist.
fn or_else<'py>(
    reader: &Reader,
    py: Python<'py>,
    key: Bytes,
    default: Option<Bound<'py, PyAny>>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let value = reader.value(py, key.0)?;
    Ok(value.map(|value| PyBytes::new(py, &value).into_any()).or(default))
}

/// Returns the first keys from a given key on, and their values.
fn scanned<'py>(
    reader: &Reader,
    py: Python<'py>,
    start: Option<Bytes>,
    count: usize,
) -> PyResult<Bound<'py, PyList>> {
    let from = start.map_or_else(|| Key::from([]), |start| start.0);
    let records = reader.page(py, from, count, u64::MAX)?.records;
    let pairs = records.iter().map(|record| pair(py, record));
    PyList::new(py, pairs.collect::<PyResult<Vec<_>>>()?)
}

fn iterated(reader: Reader, start: Option<Bytes>, stop: Option<Bytes>, values: bool) -> Records {
    let from = start.map_or_else(|| Key::from([]), |start| start.0);
    Records::new(reader, from, stop.map(|stop| stop.0), values)
}

/// A key-value store on several plain disks, used like a dict: `store[key] = value` is durable when
/// it returns.
///
/// `Store(paths)` opens the store on these disks (folders, files or devices, in any order) and
/// locks them. With `without_disk`, one disk may be missing: keys that may depend on it raise
/// `OSError`, all others are available. With `read_only`, nothing is written. `Store.create` makes
/// a new store. Close a store after use, or use a `with` statement.
///
/// Keys and values are bytes or objects with the buffer protocol, which are copied; a key may be up
/// to 64 KiB long, a value up to 64 MiB. A store may be shared between threads but not with forked
/// processes. `len` is not supported because counting keys requires reading all of them (`sum(1 for
/// _ in store)`; `status()["records"]` also counts replaced and deleted records until they are
/// merged away).
///
/// Waiting releases the interpreter's lock and can be interrupted with Ctrl-C; an interrupted put
/// may still take effect.
#[pyclass(frozen, mapping, module = "forebay")]
pub(crate) struct Store(Arc<Opened>);

impl Store {
    fn now(&self) -> Reader {
        Reader::Now(Arc::clone(&self.0))
    }

    fn ask(&self, py: Python<'_>, operation: Operation) -> PyResult<Answer> {
        let store = self.0.store()?;
        asked(py, |then| store.begin(operation, then))
    }

    fn checked<'py>(&self, py: Python<'py>, operation: Operation) -> PyResult<Bound<'py, PyDict>> {
        match self.ask(py, operation)? {
            Answer::Checked(checked) => told(py, &checked),
            _ => told(py, &Checked::default()),
        }
    }
}

#[pymethods]
impl Store {
    #[new]
    #[pyo3(signature = (paths, without_disk=false, read_only=false))]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = several)] paths: Vec<PathBuf>,
        #[pyo3(from_py_with = given)] without_disk: bool,
        #[pyo3(from_py_with = given)] read_only: bool,
    ) -> PyResult<Store> {
        let finding = DiskOptions { may_miss: without_disk, read_only };
        let config = Config { read_only, ..Config::default() };
        let opened = apart(py, move || Opened::new(open_disks(&paths, finding)?, config))?;
        Ok(Store(Arc::new(opened.map_err(of_store)?)))
    }

    /// Creates a store with `mb` MB on each of at least four disks, and opens it. `overwrite`
    /// destroys existing data.
    #[staticmethod]
    #[pyo3(signature = (paths, mb=10_000, overwrite=false))]
    fn create(
        py: Python<'_>,
        #[pyo3(from_py_with = several)] paths: Vec<PathBuf>,
        #[pyo3(from_py_with = given)] mb: u32,
        #[pyo3(from_py_with = given)] overwrite: bool,
    ) -> PyResult<Store> {
        within("mb", mb, 100, 1_000_000_000)?;
        let bytes = u64::from(mb) * 1_000_000;
        let opened = apart(py, move || {
            let config = Config::default();
            Opened::new(create(&paths, bytes, &config, overwrite)?, config)
        })?;
        Ok(Store(Arc::new(opened.map_err(of_store)?)))
    }

    /// Returns the value of a key; raises `KeyError` if the key does not exist.
    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        item(&self.now(), key)
    }

    /// Puts a value.
    fn __setitem__(&self, py: Python<'_>, key: Bytes, value: Bytes) -> PyResult<()> {
        self.ask(py, Operation::Write(vec![(key.0, Some(value.0))])).map(drop)
    }

    /// Deletes a key after reading it; raises `KeyError` if the key does not exist.
    fn __delitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        item(&self.now(), key)?;
        self.discard(key.py(), key.extract()?)
    }

    /// Returns whether a key exists; reads its value.
    fn __contains__(&self, py: Python<'_>, key: Bytes) -> PyResult<bool> {
        Ok(self.now().value(py, key.0)?.is_some())
    }

    /// Iterates over the keys in order, as of now.
    fn __iter__(&self, py: Python<'_>) -> PyResult<Records> {
        self.keys(py, None, None)
    }

    /// Returns the value of a key, or `default`.
    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: Bytes,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        or_else(&self.now(), py, key, default)
    }

    /// Deletes a key if it exists, without reading it.
    fn discard(&self, py: Python<'_>, key: Bytes) -> PyResult<()> {
        self.ask(py, Operation::Write(vec![(key.0, None)])).map(drop)
    }

    /// Puts all values of a mapping or of pairs and deletes the keys in `delete`, as one atomic
    /// batch. A batch may be up to 64 MiB long.
    #[pyo3(signature = (mapping, delete=None))]
    fn update(
        &self,
        mapping: &Bound<'_, PyAny>,
        delete: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let py = mapping.py();
        let mut batch: BTreeMap<Key, Option<Value>> = BTreeMap::new();
        for key in delete.into_iter().map(|keys| keys.try_iter()).collect::<PyResult<Vec<_>>>()? {
            for key in key {
                batch.insert(key?.extract::<Bytes>()?.0, None);
            }
        }
        let dict = PyDict::new(py);
        // As in dict.update, an object with a `keys` method is a mapping; anything else must be an
        // iterable of pairs.
        dict.call_method1("update", (mapping,)).map_err(|error| {
            let text = format!("mapping: {}", error.value(py));
            if error.get_type(py).is(py.get_type::<PyValueError>()) {
                Error::new_err(text)
            } else {
                error
            }
        })?;
        for (key, value) in &dict {
            batch.insert(key.extract::<Bytes>()?.0, Some(value.extract::<Bytes>()?.0));
        }
        if batch.is_empty() {
            return self.0.store().map(drop);
        }
        self.ask(py, Operation::Write(batch.into_iter().collect())).map(drop)
    }

    /// Iterates over the keys from `start` up to but not including `stop`, in order, as of now.
    #[pyo3(signature = (start=None, stop=None))]
    fn keys(&self, py: Python<'_>, start: Option<Bytes>, stop: Option<Bytes>) -> PyResult<Records> {
        Ok(iterated(Reader::hold(py, &self.0)?, start, stop, false))
    }

    /// Iterates over keys and values from `start` up to but not including `stop`, in order. Later
    /// puts are not seen. Reads pages of about 1 MiB.
    #[pyo3(signature = (start=None, stop=None))]
    fn items(
        &self,
        py: Python<'_>,
        start: Option<Bytes>,
        stop: Option<Bytes>,
    ) -> PyResult<Records> {
        Ok(iterated(Reader::hold(py, &self.0)?, start, stop, true))
    }

    /// Returns the first `count` keys at or after `start`, with their values, as one list.
    #[pyo3(signature = (start=None, count=100))]
    fn scan<'py>(
        &self,
        py: Python<'py>,
        start: Option<Bytes>,
        #[pyo3(from_py_with = given)] count: usize,
    ) -> PyResult<Bound<'py, PyList>> {
        scanned(&self.now(), py, start, count)
    }

    /// Takes a snapshot of the current content. The disks' space for it is not freed until the
    /// snapshot is closed.
    fn snapshot(&self, py: Python<'_>) -> PyResult<Snapshot> {
        Ok(Snapshot(Mutex::new(Some(Reader::hold(py, &self.0)?))))
    }

    /// Returns the state of the store: a dict of counters, the disks' `stages`, and `losses`, the
    /// key ranges that cannot be read.
    fn status<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let store = self.0.store()?;
        let status = py.detach(|| store.status());
        let (figures, dict) = (status.figures, PyDict::new(py));
        dict.set_item("stages", status.stage_names().collect::<Vec<_>>())?;
        dict.set_item("runs", status.segment_totals.1)?;
        dict.set_item("held_back_s", figures.merge_delay.as_secs_f64())?;
        dict.set_item("losses", losses(py, &status.losses)?)?;
        for (name, count) in [
            ("records", status.records),
            ("segment_bytes", status.segment_totals.0),
            ("put_bytes", figures.put_bytes),
            ("logged_bytes", figures.logged_bytes),
            ("batches", figures.batches),
            ("logs", figures.logs),
            ("transformations", figures.transformations),
            ("transformed_bytes", figures.transformed_bytes),
            ("merges", figures.merges),
            ("merged_bytes", figures.merged_bytes),
            ("stalls", figures.stalls),
            ("overlaps", figures.overlaps),
        ] {
            dict.set_item(name, count)?;
        }
        Ok(dict)
    }

    /// Reads and checks every segment; returns a dict of `segments`, `bytes`, `records` and
    /// `losses`.
    fn check<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.checked(py, Operation::Check)
    }

    /// Saves what can still be read of damaged or missing data and discards the rest; the affected
    /// keys then have their older values, or none. Without `give_up`, nothing is written and the
    /// result is that of `check`.
    #[pyo3(signature = (*, give_up=false))]
    fn repair<'py>(&self, py: Python<'py>, give_up: bool) -> PyResult<Bound<'py, PyDict>> {
        self.checked(py, if give_up { Operation::Repair } else { Operation::Check })
    }

    /// Finishes pending operations and releases the disks. Data is already durable without calling
    /// this.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        match self.0.store() {
            Ok(store) => {
                let store = store.clone();
                apart(py, move || store.close())
            }
            Err(_) => Ok(()),
        }
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().0.store()?;
        Ok(slf)
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }
}

/// A read-only view of a store as of a single point in time. Close it after use, or use a `with`
/// statement.
#[pyclass(frozen, mapping, module = "forebay")]
pub(crate) struct Snapshot(Mutex<Option<Reader>>);

impl Snapshot {
    fn reader(&self) -> PyResult<Reader> {
        let reader = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reader.clone().ok_or_else(|| Error::new_err("the snapshot is closed"))
    }
}

#[pymethods]
impl Snapshot {
    /// Returns the value of a key; raises `KeyError` if the key did not exist.
    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        item(&self.reader()?, key)
    }

    /// Returns whether a key existed.
    fn __contains__(&self, py: Python<'_>, key: Bytes) -> PyResult<bool> {
        Ok(self.reader()?.value(py, key.0)?.is_some())
    }

    /// Iterates over the keys in order.
    fn __iter__(&self) -> PyResult<Records> {
        self.keys(None, None)
    }

    /// Returns the value of a key, or `default`.
    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: Bytes,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        or_else(&self.reader()?, py, key, default)
    }

    /// Iterates over the keys from `start` up to but not including `stop`, in order.
    #[pyo3(signature = (start=None, stop=None))]
    fn keys(&self, start: Option<Bytes>, stop: Option<Bytes>) -> PyResult<Records> {
        Ok(iterated(self.reader()?, start, stop, false))
    }

    /// Iterates over keys and values from `start` up to but not including `stop`, in order.
    #[pyo3(signature = (start=None, stop=None))]
    fn items(&self, start: Option<Bytes>, stop: Option<Bytes>) -> PyResult<Records> {
        Ok(iterated(self.reader()?, start, stop, true))
    }

    /// Returns the first `count` keys at or after `start`, with their values, as one list.
    #[pyo3(signature = (start=None, count=100))]
    fn scan<'py>(
        &self,
        py: Python<'py>,
        start: Option<Bytes>,
        #[pyo3(from_py_with = given)] count: usize,
    ) -> PyResult<Bound<'py, PyList>> {
        scanned(&self.reader()?, py, start, count)
    }

    /// Releases data held only by this snapshot. Iterations in progress continue.
    fn close(&self) {
        let reader = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(reader);
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().reader()?;
        Ok(slf)
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) {
        self.close();
    }
}

/// Converts the result of a check or a repair to a dict.
fn told<'py>(py: Python<'py>, checked: &Checked) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("segments", checked.segments)?;
    dict.set_item("bytes", checked.bytes)?;
    dict.set_item("records", checked.records)?;
    dict.set_item("losses", losses(py, &checked.losses)?)?;
    Ok(dict)
}

/// Converts losses to a list of key ranges that cannot be read. A range excludes its first key and
/// includes its last.
fn losses<'py>(py: Python<'py>, losses: &[Loss]) -> PyResult<Bound<'py, PyList>> {
    let dicts = losses.iter().map(|loss| {
        let dict = PyDict::new(py);
        let key = |key: &Option<Key>| key.as_ref().map(|key| PyBytes::new(py, key));
        dict.set_item("from", key(&loss.from))?;
        dict.set_item("after", key(&loss.after))?;
        dict.set_item("upto", key(&loss.upto))?;
        dict.set_item("records", loss.records)?;
        dict.set_item("is_bound", loss.is_bound)?;
        dict.set_item("bytes", loss.bytes)?;
        dict.set_item("put_from_ns", loss.put.from)?;
        dict.set_item("put_upto_ns", loss.put.upto)?;
        dict.set_item("why", loss.failure.to_string())?;
        Ok(dict)
    });
    PyList::new(py, dicts.collect::<PyResult<Vec<_>>>()?)
}

fn within(name: &str, got: u32, least: u32, most: u32) -> PyResult<()> {
    match (least..=most).contains(&got) {
        true => Ok(()),
        false => Err(argument(name, format!("got {got}, expected {least} to {most}"))),
    }
}
