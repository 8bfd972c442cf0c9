//! What clients asked, as a trace: each request with its arrival and how long it took, in order of arrival.
//!
//! A thread writes the file, so that the driver does not wait for it. It gets its name when the server has ended.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use forebay_core::contract::policy::Done;
use forebay_core::{Nanos, Op, Request, RequestId};
use forebay_trace::write::{Kept, Writer, create};
use forebay_trace::{Dictionary, Notes, Record, Stream, TraceError};

/// Records that are handed over at a time, and how many bunches may wait.
const BUNCH: usize = 1024;
const BUNCHES: usize = 256;

/// A trace that is being written.
pub(crate) struct Recording {
    to: SyncSender<Vec<Record>>,
    thread: JoinHandle<Result<(), TraceError>>,
    /// Requests in order of arrival, from the first that is not answered; what was answered waits for those before.
    waiting: VecDeque<(Record, bool)>,
    /// Which of all requests is the first of them.
    first: u64,
    /// Requests under way: which of all they are.
    under_way: BTreeMap<RequestId, u64>,
    bunch: Vec<Record>,
    origin: Option<Nanos>,
}

impl Recording {
    /// Begins a trace that will be called `path`, of what clients ask of `name`; `like` beside it is never written over.
    pub(crate) fn begin(path: &Path, name: &str, like: &[&Path]) -> Result<Recording, TraceError> {
        let kept = like.iter().fold(Kept::default(), |kept, path| kept.and_file(path));
        let writer = create(path, None, &kept)?;
        let (to, coming) = sync_channel(BUNCHES);
        let name = name.to_string();
        let thread = thread::spawn(move || write(writer, &name, coming));
        Ok(Recording {
            to,
            thread,
            waiting: VecDeque::new(),
            first: 0,
            under_way: BTreeMap::new(),
            bunch: Vec::with_capacity(BUNCH),
            origin: None,
        })
    }

    /// A client's request arrived.
    pub(crate) fn arrived(&mut self, request: &Request) {
        if request.op == Op::Open {
            return;
        }
        let Request { at, offset, len, stream, op, flags, .. } = *request;
        let origin = *self.origin.get_or_insert(at);
        self.under_way.insert(request.id, self.first + self.waiting.len() as u64);
        let record =
            Record { at: at - origin, offset, latency: None, len, stream, volume: 0, op, flags };
        self.waiting.push_back((record, false));
    }

    /// It is answered.
    pub(crate) fn finished(&mut self, now: Nanos, done: &Done) {
        let Some(which) = self.under_way.remove(&done.request.id) else { return };
        if let Some((record, is_done)) = self.waiting.get_mut((which - self.first) as usize) {
            record.latency = done.outcome.is_ok().then(|| now - done.request.at);
            *is_done = true;
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
        let bunch = std::mem::replace(&mut self.bunch, Vec::with_capacity(BUNCH));
        // Where writing failed nobody takes it; `finish` tells.
        let _ = self.to.send(bunch);
    }

    /// Completes the file.
    pub(crate) fn finish(mut self) -> Result<(), TraceError> {
        self.bunch.extend(self.waiting.drain(..).map(|(record, _)| record));
        self.hand_over();
        drop(self.to);
        match self.thread.join() {
            Ok(written) => written,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// Writes what comes.
fn write(
    mut writer: Box<dyn Writer>,
    name: &str,
    coming: Receiver<Vec<Record>>,
) -> Result<(), TraceError> {
    let mut dictionary = Dictionary { streams: Vec::new(), volumes: vec![name.to_string()] };
    for bunch in coming {
        let streams = bunch.iter().map(|record| record.stream + 1).max().unwrap_or(0);
        while dictionary.streams.len() < streams as usize {
            let name = format!("{}", dictionary.streams.len());
            dictionary.streams.push(Stream { thread: None, process: None, name });
        }
        writer.write(&bunch, &dictionary)?;
    }
    writer.finish(&dictionary, &Notes::default()).map(drop)
}

#[cfg(test)]
mod tests {
    use forebay_core::Flags;

    use super::*;

    #[test]
    fn a_trace_is_in_order_of_arrival_whatever_is_answered_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("came.csv");
        let mut recording = Recording::begin(&path, "disk", &[]).unwrap();
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
        let done = |request, outcome| Done { request, wait: Nanos::ZERO, outcome, class: 0 };
        let all = [(1, Op::Write), (2, Op::Read), (3, Op::Flush)].map(|(id, op)| request(id, op));
        recording.arrived(&Request { op: Op::Open, ..all[0] });
        all.iter().for_each(|one| recording.arrived(one));
        recording.finished(Nanos::from_millis(110), &done(all[2], Ok(())));
        recording.finished(Nanos::from_millis(111), &done(all[0], Err(forebay_core::Fault::Media)));
        // The second is never answered.
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
