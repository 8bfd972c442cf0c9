//! Reads a finished folder as a single trace: its files are merged by time.
//!
//! Volumes are numbered by their position in the manifest; equal streams are combined. Requests at
//! the same time are in the order of their volumes, which may differ from that in the original
//! trace. All files are open at the same time, each with a batch of records and a page of each
//! column in memory.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::path::{Path, PathBuf};

use forebay_core::Nanos;

use super::{MANIFEST, Manifest, Part, load, refused};
use crate::TraceError;
use crate::formats::Input;
use crate::formats::parquet::open_rows;
use crate::order::Ordered;
use crate::trace::{BATCH, Dictionary, Notes, Reader, Record, Stream};
use crate::unpack::{Unpacked, unpack};

/// Opens a finished folder as a single trace.
pub(crate) fn read(folder: &Path) -> Result<Box<dyn Reader>, TraceError> {
    let path = folder.join(MANIFEST);
    let manifest = load::<Manifest>(&path)?.ok_or_else(|| {
        refused(&path, "no such file".into(), "a finished folder", "convert the trace again")
    })?;
    let began = manifest.began_ns.map(Nanos);
    let sources = manifest.parts.into_iter().map(|part| Source::open(folder, part));
    let sources: Vec<Source> = sources.collect::<Result<_, _>>()?;
    let volumes = sources.iter().map(|source| source.part.volume.clone()).collect();
    let merged = Merged {
        next: Vec::new().into(),
        begun: false,
        streams: HashMap::new(),
        dictionary: Dictionary { streams: Vec::new(), volumes },
        notes: Notes { format: "parquet", ..Notes::default() },
        sources,
    };
    Ok(Box::new(Ordered::by_clock(merged, began)))
}

/// The file of a volume.
struct Source {
    path: PathBuf,
    part: Part,
    reader: Box<dyn Reader>,
    batch: Vec<Record>,
    /// The index of the next record in the batch.
    place: usize,
    requests: u64,
    /// The number in the whole trace of each of the file's streams.
    streams: Vec<u32>,
}

impl Source {
    fn open(folder: &Path, part: Part) -> Result<Source, TraceError> {
        let path = folder.join(&part.file);
        let Unpacked { packing, content, .. } = unpack(&path)?;
        let reader = open_rows(Input::new(path.clone(), packing, content))?;
        let (batch, streams) = (Vec::new(), Vec::new());
        Ok(Source { path, part, reader, batch, place: 0, requests: 0, streams })
    }

    /// Returns when the next record arrives, or None after the last.
    fn next_at(&mut self) -> Result<Option<Nanos>, TraceError> {
        if self.place == self.batch.len() {
            self.reader.read(&mut self.batch)?;
            self.place = 0;
            self.requests += self.batch.len() as u64;
            if self.batch.is_empty() && self.requests != self.part.requests {
                let got = format!("{} requests", self.requests);
                let expected = format!("{}, as {MANIFEST} says", self.part.requests);
                return Err(refused(&self.path, got, &expected, "convert the trace again"));
            }
        }
        let first = Nanos(self.part.first_ns);
        Ok(self.batch.get(self.place).map(|record| record.at + first))
    }
}

/// Merges the files of a folder in order of time. Each file must be in order.
struct Merged {
    sources: Vec<Source>,
    /// The sources that have another record, by the arrival of that record.
    next: BinaryHeap<Reverse<(Nanos, usize)>>,
    begun: bool,
    streams: HashMap<Stream, u32>,
    dictionary: Dictionary,
    notes: Notes,
}

impl Merged {
    /// Returns the number that a stream of a source has in the whole trace.
    fn stream(&mut self, source: usize, stream: u32) -> u32 {
        let Source { streams, reader, .. } = &mut self.sources[source];
        for known in reader.dictionary().streams.iter().skip(streams.len()) {
            let number = *self.streams.entry(known.clone()).or_insert_with(|| {
                self.dictionary.streams.push(known.clone());
                (self.dictionary.streams.len() - 1) as u32
            });
            streams.push(number);
        }
        streams.get(stream as usize).copied().unwrap_or(stream)
    }

    fn begin(&mut self) -> Result<(), TraceError> {
        self.begun = true;
        for number in 0..self.sources.len() {
            let at = self.sources[number].next_at()?;
            self.next.extend(at.map(|at| Reverse((at, number))));
        }
        Ok(())
    }
}

impl Reader for Merged {
    fn read(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        batch.clear();
        if !self.begun {
            self.begin()?;
        }
        while batch.len() < BATCH {
            let Some(Reverse((at, number))) = self.next.pop() else { break };
            let source = &mut self.sources[number];
            let record = source.batch[source.place];
            source.place += 1;
            let next_at = source.next_at()?;
            self.next.extend(next_at.map(|at| Reverse((at, number))));
            let stream = self.stream(number, record.stream);
            batch.push(Record { at, volume: number as u32, stream, ..record });
        }
        if batch.is_empty() {
            for source in &self.sources {
                self.notes.rows_skipped += source.reader.notes().rows_skipped;
                self.notes.warnings.extend_from_slice(&source.reader.notes().warnings);
            }
            self.sources.clear();
        }
        Ok(())
    }

    fn found(&self) -> (&Dictionary, &Notes) {
        (&self.dictionary, &self.notes)
    }
}
