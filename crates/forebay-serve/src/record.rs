//! Records clients' requests and disks' I/Os as traces. Each record has a start and a duration; the
//! records are in order of their starts.
//!
//! A separate thread writes the file, so that the driver never waits for it. The file gets its
//! final name when the trace is completed; if nothing is served after all, no file is left.

// Allowed because this module reads the time of day and uses threads.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::collections::{BTreeMap, VecDeque};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::traced::set_aside;
use forebay_core::{Completion, Done, Nanos, Op, Request, RequestId};
use forebay_trace::by_export::SERVER;
use forebay_trace::write::{ProtectedFiles, Writer, create};
use forebay_trace::{Dictionary, Notes, Record, Stream, TraceError};

/// The number of records in a bunch passed to the thread, and the number of bunches that may wait.
const BUNCH: usize = 1024;
const BUNCHES: usize = 256;

/// A trace that is completely written but does not have its final name yet.
type Written = Result<(Box<dyn Writer>, Dictionary, Notes), TraceError>;

/// Records for the writing thread, and the time of day of the very first record.
struct Bunch {
    records: Vec<Record>,
    /// The names of new streams, which follow the known ones.
    streams: Vec<String>,
    began: Option<Nanos>,
}

/// The streams of a trace, numbered in the order of their first records.
#[derive(Default)]
struct StreamNumbers {
    numbers: BTreeMap<Arc<str>, u32>,
    /// The names that have not been passed to the writing thread.
    new: Vec<String>,
}

impl StreamNumbers {
    /// Returns the number of the stream of this name. The server's own requests and I/Os have none.
    fn number(&mut self, name: Option<&Arc<str>>) -> u32 {
        match name {
            Some(name) => self.named(name),
            None => self.named(&Arc::from(SERVER)),
        }
    }

    /// Returns the number of this name, which may be new.
    fn named(&mut self, name: &Arc<str>) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.numbers.len() as u32;
        self.new.push(name.to_string());
        self.numbers.insert(Arc::clone(name), number);
        number
    }
}

/// A trace that is being written.
struct Recording {
    /// The writing thread and the channel to it; None once the trace is complete.
    to: Option<(SyncSender<Bunch>, JoinHandle<Written>)>,
    /// The final name of the file.
    path: PathBuf,
    /// Records in order, beginning with the first that has not ended. Later records wait for it
    /// even if they have ended.
    waiting: VecDeque<(Record, bool)>,
    /// The number of the first waiting record.
    first: u64,
    bunch: Vec<Record>,
    streams: StreamNumbers,
    /// The time of the first record, by the driver's clock and since 1970.
    origin: Option<(Nanos, Nanos)>,
}

/// A file to which to record.
pub(crate) struct Destination<'a> {
    /// The final name of the file.
    pub(crate) path: &'a Path,
    /// The back that is recorded.
    pub(crate) back: &'a str,
    /// The configuration key that names the file.
    pub(crate) key: &'static str,
    /// The disks, which are never overwritten.
    pub(crate) disks: &'a [PathBuf],
    /// The channel for a message in case the file can no longer be written.
    pub(crate) says: Sender<String>,
    /// The list of files that can no longer be written.
    pub(crate) ended: EndedTraces,
}

/// The final names of the traces that can no longer be written; clones share the list.
#[derive(Clone, Debug, Default)]
pub(crate) struct EndedTraces(Arc<Mutex<Vec<PathBuf>>>);

impl EndedTraces {
    fn add(&self, path: PathBuf) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(path);
    }

    /// Empties the list, and returns it.
    pub(crate) fn take(&self) -> Vec<PathBuf> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Recording {
    /// Starts a trace of `volumes`.
    fn begin(to: Destination<'_>, volumes: Vec<String>) -> Result<Recording, TraceError> {
        let kept = ProtectedFiles::default();
        let kept = to.disks.iter().fold(kept, |kept, path| kept.and_file(path));
        let writer = create(to.path, None, &kept)?;
        let path = to.path.to_path_buf();
        let (says, what) = (to.says, format!("'{}': error: {}", to.back, to.key));
        let (ended, named) = (to.ended, path.clone());
        let (to, coming) = sync_channel(BUNCHES);
        let thread = thread::spawn(move || {
            write(writer, volumes, coming).inspect_err(|error| {
                ended.add(named);
                // If nobody receives this error, `finish` reports it.
                let _ = says.send(format!(
                    "{what}: {error}; the server continues without this \
                                           trace; the part that was written is in \
                                           .forebay-*.partial in the same folder"
                ));
            })
        });
        Ok(Recording {
            to: Some((to, thread)),
            path,
            waiting: VecDeque::new(),
            first: 0,
            bunch: Vec::with_capacity(BUNCH),
            streams: StreamNumbers::default(),
            origin: None,
        })
    }

    /// Adds a record, whose stream has this name, and returns its number.
    fn begins(
        &mut self,
        at: Nanos,
        request: &Request,
        volume: u32,
        name: Option<&Arc<str>>,
    ) -> u64 {
        let Request { offset, len, op, flags, .. } = *request;
        let stream = self.streams.number(name);
        let (origin, _) = *self.origin.get_or_insert_with(|| (at, time_of_day()));
        let at = at - origin;
        self.waiting.push_back((
            Record { at, offset, latency: None, len, stream, volume, op, flags },
            false,
        ));
        self.first + self.waiting.len() as u64 - 1
    }

    /// Completes a record, with its `latency` if it succeeded.
    fn ends(&mut self, which: u64, latency: Option<Nanos>) {
        if let Some((record, has_ended)) = self.waiting.get_mut((which - self.first) as usize) {
            (record.latency, *has_ended) = (latency, true);
        }
        while let Some((record, true)) = self.waiting.front() {
            self.bunch.push(*record);
            self.waiting.pop_front();
            self.first += 1;
        }
        if self.bunch.len() >= BUNCH {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        if self.bunch.is_empty() {
            return;
        }
        let records = std::mem::replace(&mut self.bunch, Vec::with_capacity(BUNCH));
        let began = self.origin.map(|(_, began)| began);
        if let Some((to, _)) = &self.to {
            // If writing has failed, nobody receives the records, and `finish` reports the error.
            let streams = std::mem::take(&mut self.streams.new);
            let _ = to.send(Bunch { records, streams, began });
        }
    }

    /// Completes the file.
    fn finish(mut self) -> Result<(), TraceError> {
        self.bunch.extend(self.waiting.drain(..).map(|(record, _)| record));
        self.hand_over();
        match self.end() {
            Some(Ok(written)) => {
                let (writer, dictionary, notes) = written?;
                if self.path.is_file() {
                    // An earlier trace of that name is renamed. If that fails, this trace still
                    // must not be lost.
                    let _ = set_aside(&self.path);
                }
                writer.finish(&dictionary, &notes).map(drop)
            }
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(()),
        }
    }

    /// Waits until everything passed to the thread has been written.
    fn end(&mut self) -> Option<thread::Result<Written>> {
        let (to, thread) = self.to.take()?;
        drop(to);
        Some(thread.join())
    }
}

impl Drop for Recording {
    /// If the trace is incomplete, its file must be removed before the process ends.
    fn drop(&mut self) {
        drop(self.end());
    }
}

/// A trace that can be completed.
pub(crate) trait RecordedTrace {
    /// Passes all complete records to the thread that writes the file.
    fn hand_over(&mut self);

    /// Returns whether everything that was recorded has ended.
    fn is_quiet(&self) -> bool;

    /// Completes the file.
    fn finish(self) -> Result<(), TraceError>;
}

/// The trace of clients' requests.
pub(crate) struct ClientTrace {
    recording: Recording,
    /// Requests in flight, with the numbers of their records. The parts of a request have the same
    /// id but different offsets.
    under_way: BTreeMap<(RequestId, u64), u64>,
}

impl ClientTrace {
    /// Starts the trace of clients' requests.
    pub(crate) fn begin(to: Destination<'_>) -> Result<ClientTrace, TraceError> {
        let volume = to.back.to_string();
        let recording = Recording::begin(to, vec![volume])?;
        Ok(ClientTrace { recording, under_way: BTreeMap::new() })
    }

    /// Registers the arrival of a client's request, whose stream has this name. The server's own
    /// requests have none.
    pub(crate) fn arrived(&mut self, request: &Request, name: Option<&Arc<str>>) {
        if request.op != Op::Open {
            let which = self.recording.begins(request.at, request, 0, name);
            self.under_way.insert((request.id, request.offset), which);
        }
    }

    /// Registers the answer to a request; returns whether its arrival was registered.
    pub(crate) fn finished(&mut self, now: Nanos, done: &Done) -> bool {
        let which = self.under_way.remove(&(done.request.id, done.request.offset));
        if let Some(which) = which {
            self.recording.ends(which, done.outcome.is_ok().then(|| now - done.request.at));
        }
        which.is_some()
    }
}

impl RecordedTrace for ClientTrace {
    fn hand_over(&mut self) {
        self.recording.hand_over();
    }

    fn is_quiet(&self) -> bool {
        self.under_way.is_empty()
    }

    fn finish(self) -> Result<(), TraceError> {
        self.recording.finish()
    }
}

/// The trace of disks' I/Os.
pub(crate) struct Issued {
    recording: Recording,
    /// I/Os in flight, at most a few hundred, with the numbers of their records. The ids of I/Os
    /// need not be unique.
    under_way: Vec<(Request, u64)>,
}

impl Issued {
    /// Starts the trace of the disks.
    pub(crate) fn begin(to: Destination<'_>) -> Result<Issued, TraceError> {
        let names = to.disks.iter().map(|disk| disk.display().to_string()).collect();
        let mut recording = Recording::begin(to, names)?;
        // Stream 0 is for I/Os that no client requested.
        recording.streams.named(&Arc::from(SERVER));
        Ok(Issued { recording, under_way: Vec::new() })
    }

    /// Registers the start of an I/O, whose client or export has this name. I/Os that no client
    /// requested have none.
    pub(crate) fn started(&mut self, now: Nanos, io: &Request, name: Option<&Arc<str>>) {
        // The request that opens a policy transfers no data.
        if io.op != Op::Open {
            let which = self.recording.begins(now, io, u32::from(io.lane), name);
            self.under_way.push((*io, which));
        }
    }

    /// Registers the end of an I/O; returns whether its start was registered.
    pub(crate) fn ended(&mut self, done: &Completion) -> bool {
        let at = self.under_way.iter().position(|(io, _)| *io == done.io);
        if let Some(at) = at {
            let (_, which) = self.under_way.swap_remove(at);
            self.recording.ends(which, done.outcome.is_ok().then(|| done.at - done.started));
        }
        at.is_some()
    }
}

impl RecordedTrace for Issued {
    fn hand_over(&mut self) {
        self.recording.hand_over();
    }

    fn is_quiet(&self) -> bool {
        self.under_way.is_empty()
    }

    fn finish(self) -> Result<(), TraceError> {
        self.recording.finish()
    }
}

/// Returns the time since 1970.
pub(crate) fn time_of_day() -> Nanos {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Nanos(since.as_nanos() as u64)
}

/// The interval after which the records written so far are made readable.
const CHECKPOINTS: Duration = Duration::from_secs(5);

/// The writing thread: writes the records that it receives.
fn write(writer: Box<dyn Writer>, volumes: Vec<String>, coming: Receiver<Bunch>) -> Written {
    // If writing fails, for example because the disk is full, the file with the records so far is
    // kept. Dropping the writer would remove it.
    let mut writer = ManuallyDrop::new(writer);
    let mut dictionary = Dictionary { streams: Vec::new(), volumes };
    let (mut notes, mut due) = (Notes::default(), None);
    loop {
        let until = due.unwrap_or_else(|| Instant::now() + CHECKPOINTS);
        match coming.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Bunch { records, streams: new, began }) => {
                let stream = |name| Stream { thread: None, process: None, name };
                dictionary.streams.extend(new.into_iter().map(stream));
                writer.write(&records, &dictionary)?;
                notes.began = began;
                due = Some(until);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if due.is_some_and(|due| Instant::now() >= due) {
            writer.checkpoint(&dictionary, &notes)?;
            due = None;
        }
    }
    Ok((ManuallyDrop::into_inner(writer), dictionary, notes))
}

#[cfg(test)]
mod tests {
    use forebay_core::{BACKGROUND, Flags};

    use super::*;

    fn to<'a>(path: &'a Path, disks: &'a [PathBuf]) -> Destination<'a> {
        let says = std::sync::mpsc::channel().0;
        let ended = EndedTraces::default();
        Destination { path, back: "disk", key: "trace", disks, says, ended }
    }

    #[test]
    fn parts_of_a_request_are_distinguished() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("came.csv");
        let mut recording = ClientTrace::begin(to(&path, &[])).unwrap();
        let part = |offset| Request {
            at: Nanos::from_millis(1),
            offset,
            id: 7,
            len: 4096,
            stream: 0,
            lane: 0,
            op: Op::Write,
            flags: Flags::NONE,
        };
        [0, 4096, 8192].iter().for_each(|at| recording.arrived(&part(*at), None));
        for at in [4096, 0, 8192] {
            let done = Done::at_once(part(at), Ok(()));
            recording.finished(Nanos::from_millis(3), &done);
        }
        assert!(recording.recording.waiting.is_empty() && recording.under_way.is_empty());
        recording.finish().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.matches("2000000").count(), 3, "each has its latency: {text}");
    }

    #[test]
    fn streams_have_names_whatever_their_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("came.csv");
        let mut recording = ClientTrace::begin(to(&path, &[])).unwrap();
        let [db, batch, again]: [Arc<str>; 3] = ["db#1", "batch#1", "db#1"].map(Arc::from);
        // The number of a client that has left is used again.
        let asked = [
            (1, 1, Some(&db)),
            (2, 0, Some(&batch)),
            (3, 0, Some(&again)),
            (4, 256, None),
            (5, 0, Some(&batch)),
        ];
        for (id, stream, name) in asked {
            let (op, flags, len, at) = (Op::Read, Flags::NONE, 4096, Nanos(id));
            let request = Request { at, offset: 0, id, len, stream, lane: 0, op, flags };
            recording.arrived(&request, name);
        }
        recording.finish().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let names: Vec<&str> = text.lines().filter_map(|row| row.rsplit(',').next()).collect();
        assert_eq!(names[1..], ["db#1", "batch#1", "db#1", "(server)", "batch#1"], "{text}");
    }

    #[test]
    fn an_incomplete_trace_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("came.csv");
        drop(ClientTrace::begin(to(&path, &[])).unwrap());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn issued_ios_have_the_names_of_their_clients_or_exports() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("issued.csv");
        let mut recording = Issued::begin(to(&path, &["disk".into()])).unwrap();
        let [db, batch]: [Arc<str>; 2] = ["db#1", "batch#1"].map(Arc::from);
        // A place is used again by a client of another export.
        let all = [(1, BACKGROUND, None), (2, 0, Some(&db)), (3, 0, Some(&batch)), (4, 256, None)];
        for (id, stream, name) in all {
            let (op, flags, len, at) = (Op::Read, Flags::NONE, 4096, Nanos(id));
            let io = Request { at, offset: id * 4096, id, len, stream, lane: 0, op, flags };
            recording.started(Nanos(id), &io, name);
        }
        recording.finish().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let names: Vec<&str> = text.lines().filter_map(|row| row.rsplit(',').next()).collect();
        assert_eq!(names[1..], ["(server)", "db#1", "batch#1", "(server)"], "{text}");
    }

    #[test]
    fn a_trace_is_in_order_of_arrival_whatever_is_answered_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("came.csv");
        let mut recording = ClientTrace::begin(to(&path, &[])).unwrap();
        let request = |id: u64, op| Request {
            at: Nanos::from_millis(100 + id),
            offset: id * 4096,
            id: id % 3,
            len: if op == Op::Flush { 0 } else { 4096 },
            stream: (id % 2) as u32,
            lane: 0,
            op,
            flags: Flags::NONE,
        };
        let done = |request, outcome| Done::at_once(request, outcome);
        let all = [(1, Op::Write), (2, Op::Read), (3, Op::Flush)].map(|(id, op)| request(id, op));
        recording.arrived(&Request { op: Op::Open, ..all[0] }, None);
        all.iter().for_each(|one| recording.arrived(one, None));
        recording.finished(Nanos::from_millis(110), &done(all[2], Ok(())));
        recording.finished(Nanos::from_millis(111), &done(all[0], Err(forebay_core::Fault::Media)));
        // The second request is never answered.
        recording.finish().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(rows.len(), 4, "{text}");
        assert!(
            rows[1].contains("write") && rows[2].contains("read") && rows[3].contains("flush"),
            "{text}"
        );
    }
}
