//! Gives the streams of a trace that `forebay serve` recorded the numbers that the server's policy
//! knows.
//!
//! The server names a stream after its export, or after a connection of the export: `db#1`, `db#2`.
//! Because an export may itself be called `db#1`, a stream with the name of an export belongs to
//! that export, and any other `NAME#N` to the export `NAME`. An export without a name has
//! connections `0`, `1` and so on. The server's own requests belong to no export.
//!
//! Requests of other streams are counted and reported. If no request belongs to an export, reading
//! fails.

use std::collections::HashMap;
use std::path::PathBuf;

use forebay_words::plural::{counted, listed, verb};

use crate::by_export::{SERVER, export_of, is_number};
use crate::streams::is_write_back;
use crate::{Dictionary, Notes, Place, Reader, Record, SourceFacts, Stream, TraceError};

/// The name of the streams of requests that belong to no export.
const NONE: &str = "(no export)";
/// The maximum number of connections of an export that are distinguished, as many as a server
/// accepts.
const CONNECTIONS_MAX: u32 = 256;
/// The maximum number of names in a message.
const NAMES_MAX: usize = 3;

/// The streams of a server's policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServedStreams {
    /// Connections, whatever their export: the streams of the trace.
    Connections,
    /// Stream `i` is export `i`. One additional stream has all requests that belong to no export.
    Exports,
    /// Streams that are equal modulo the number of exports plus one are connections of one export.
    /// The last of these numbers is that of requests that belong to no export.
    ConnectionsOfExports,
}

/// A reader whose streams are those of a server's policy.
pub struct Served {
    reader: Box<dyn Reader>,
    path: PathBuf,
    exports: Vec<String>,
    numbers: HashMap<String, usize>,
    streams: ServedStreams,
    dictionary: Dictionary,
    /// The number of connections so far of each export, and of those that belong to none.
    connections: Vec<u32>,
    /// Each stream of the trace so far.
    recorded: Vec<RecordedStream>,
    /// The number of requests without a stream.
    nameless: u64,
    /// The notes of the whole trace; None until its end.
    notes: Option<Notes>,
}

/// A stream of the trace.
struct RecordedStream {
    /// The number of the stream for the policy.
    number: u32,
    owner: Owner,
    requests: u64,
}

/// The submitter of the requests of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// The clients of an export.
    Export,
    /// The server itself.
    Server,
    /// Neither.
    Nobody,
}

impl Served {
    /// Creates a reader of the trace `path`, recorded by a server with these exports.
    pub fn new(
        reader: Box<dyn Reader>,
        path: PathBuf,
        exports: Vec<String>,
        streams: ServedStreams,
    ) -> Served {
        let numbers = exports.iter().cloned().enumerate().map(|(at, name)| (name, at));
        let mut served = Served {
            numbers: numbers.collect(),
            reader,
            path,
            streams,
            dictionary: Dictionary::default(),
            connections: vec![0; exports.len() + 1],
            exports,
            recorded: Vec::new(),
            nameless: 0,
            notes: None,
        };
        // The first stream that belongs to no export has the server's own requests.
        served.connect(served.exports.len());
        served
    }

    /// Returns the export of a stream with this name.
    fn export(&self, name: &str) -> Option<usize> {
        let of_connection = match is_number(name) {
            true => "",
            false => export_of(name),
        };
        self.numbers.get(name).or_else(|| self.numbers.get(of_connection)).copied()
    }

    /// Returns the number of a new stream of an export; if `export` equals the number of exports,
    /// the stream belongs to none.
    fn connect(&mut self, export: usize) -> u32 {
        let number = match self.streams {
            ServedStreams::Connections => return 0,
            ServedStreams::Exports => export,
            ServedStreams::ConnectionsOfExports => {
                let nth = self.connections[export];
                self.connections[export] += 1;
                export + (nth % CONNECTIONS_MAX) as usize * self.connections.len()
            }
        };
        while self.dictionary.streams.len() <= number {
            let label = self.label(self.dictionary.streams.len());
            // Streams with the name of a kernel's worker would be grouped.
            let name = if is_write_back(&label) { format!("'{label}'") } else { label };
            self.dictionary.streams.push(Stream { name, ..Stream::default() });
        }
        number as u32
    }

    /// Returns the name of the stream with this number. No two streams have the same name.
    fn label(&self, number: usize) -> String {
        let count = self.connections.len();
        let export = self.exports.get(number % count);
        match (self.streams, export) {
            (ServedStreams::ConnectionsOfExports, _) => {
                format!("{}#{}", export.map_or(NONE, String::as_str), number / count + 1)
            }
            (_, Some(export)) => export.clone(),
            (_, None) => NONE.to_string(),
        }
    }

    /// Adds the streams of the trace that are new.
    fn extend(&mut self) {
        let dictionary = self.reader.dictionary();
        self.dictionary.volumes.clone_from(&dictionary.volumes);
        let new = dictionary.streams[self.recorded.len()..].to_vec();
        if self.streams == ServedStreams::Connections {
            self.dictionary.streams.extend(new.iter().cloned());
        }
        for stream in new {
            let export = self.export(&stream.name);
            let owner = match export {
                Some(_) => Owner::Export,
                None if stream.name == SERVER => Owner::Server,
                None => Owner::Nobody,
            };
            let number = match self.streams {
                ServedStreams::Connections => self.recorded.len() as u32,
                _ if owner == Owner::Server => self.exports.len() as u32,
                _ => self.connect(export.unwrap_or(self.exports.len())),
            };
            self.recorded.push(RecordedStream { number, owner, requests: 0 });
        }
    }

    /// Replaces the streams of these records by those of the policy.
    fn translate(&mut self, batch: &mut [Record]) {
        self.extend();
        for record in batch {
            match self.recorded.get_mut(record.stream as usize) {
                Some(stream) => {
                    stream.requests += 1;
                    record.stream = stream.number;
                }
                None => {
                    self.nameless += 1;
                    if self.streams != ServedStreams::Connections {
                        record.stream = self.exports.len() as u32;
                    }
                }
            }
        }
    }

    /// Reports the requests that belong to no export.
    ///
    /// # Errors
    /// No request belongs to an export.
    fn finish(&mut self) -> Result<(), TraceError> {
        let mut notes = self.reader.notes().clone();
        let requests = |owner: Owner| {
            let streams = self.recorded.iter().filter(|stream| stream.owner == owner);
            streams.map(|stream| stream.requests).sum::<u64>()
        };
        let stray = requests(Owner::Nobody) + self.nameless;
        if stray > 0 {
            let streams = self.stray_streams();
            let exports = some_of(self.exports.iter().map(String::as_str));
            if requests(Owner::Export) == 0 {
                return Err(TraceError::Malformed {
                    path: self.path.clone(),
                    place: Place::File,
                    got: format!("no request of an export of the configuration, only {streams}"),
                    expected: format!("streams with the names of its exports: {exports}"),
                    hint: "specify the configuration under which the trace was recorded".into(),
                });
            }
            notes.warnings.push(format!(
                "{} of {} {} to no export of the configuration ({streams}); they have no promise; \
                 its exports: {exports}",
                stray,
                counted(stray + requests(Owner::Export) + requests(Owner::Server), "request"),
                verb(stray, "belongs", "belong"),
            ));
        }
        self.notes = Some(notes);
        Ok(())
    }

    /// Names the streams that belong to no export.
    fn stray_streams(&self) -> String {
        let streams = self.recorded.iter().zip(&self.reader.dictionary().streams);
        let stray =
            streams.filter(|(stream, _)| stream.owner == Owner::Nobody && stream.requests > 0);
        let stray: Vec<&str> = stray.map(|(_, named)| &*named.name).collect();
        match stray.iter().all(|name| name.is_empty()) {
            true => "requests without the name of a stream".into(),
            false => format!(
                "{} {}",
                verb(stray.len() as u64, "stream", "streams"),
                some_of(stray.into_iter())
            ),
        }
    }
}

/// Lists the first names, and states how many more there are.
fn some_of<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let more = names.len().saturating_sub(NAMES_MAX);
    let mut some: Vec<String> = names.take(NAMES_MAX).map(|name| format!("'{name}'")).collect();
    if more > 0 {
        some.push(format!("{more} more"));
    }
    listed(&some)
}

impl Reader for Served {
    fn read(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        self.reader.read(batch)?;
        match batch.is_empty() {
            true => self.finish(),
            false => {
                self.translate(batch);
                Ok(())
            }
        }
    }

    fn found(&self) -> (&Dictionary, &Notes) {
        (&self.dictionary, self.notes.as_ref().unwrap_or_else(|| self.reader.notes()))
    }

    fn facts(&self) -> SourceFacts {
        self.reader.facts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::open;

    /// The numbers of the requests' streams, the names of all streams, and the warnings.
    type Streams = (Vec<u32>, Vec<String>, Vec<String>);

    /// Reads a trace with one request of each stream in `names`.
    fn read(names: &[&str], exports: &[&str], streams: ServedStreams) -> Result<Streams, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("asked.csv");
        let row = |(at, name): (usize, &&str)| format!("{at},R,0,4096,{name}\n");
        let rows: String = names.iter().enumerate().map(row).collect();
        std::fs::write(&path, format!("at_us,op,offset,len,stream\n{rows}")).unwrap();
        let exports = exports.iter().map(|name| name.to_string()).collect();
        let reader = open(&path, None).unwrap();
        let mut reader = Served::new(reader, "asked.csv".into(), exports, streams);
        let (mut batch, mut numbers) = (Vec::new(), Vec::new());
        loop {
            reader.read(&mut batch).map_err(|error| error.to_string())?;
            if batch.is_empty() {
                break;
            }
            numbers.extend(batch.iter().map(|record| record.stream));
        }
        let labels = reader.dictionary().streams.iter().map(|one| one.name.clone()).collect();
        let warnings = reader.notes().warnings.iter();
        let warnings = warnings.filter(|said| said.contains("export")).cloned().collect();
        Ok((numbers, labels, warnings))
    }

    #[test]
    fn connections_of_an_export_are_equal_modulo_the_number_of_exports_plus_one() {
        let names = ["db#1", "batch#1", "db#2", "db", "(server)", "batch#9"];
        let exports = ["batch", "db"];
        let (numbers, labels, warnings) =
            read(&names, &exports, ServedStreams::ConnectionsOfExports).unwrap();
        assert_eq!(numbers, [1, 0, 4, 7, 2, 3]);
        assert_eq!(labels[..5], ["batch#1", "db#1", "(no export)#1", "batch#2", "db#2"]);
        assert!(warnings.is_empty(), "{warnings:?}");
        let (numbers, labels, _) = read(&names, &exports, ServedStreams::Exports).unwrap();
        assert_eq!(numbers, [1, 0, 1, 1, 2, 0]);
        assert_eq!(labels, ["batch", "db", "(no export)"]);
        let (numbers, ..) = read(&names, &exports, ServedStreams::Connections).unwrap();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn a_stream_with_the_name_of_an_export_belongs_to_it_whatever_the_name() {
        let of = |names: &[&str], exports: &[&str]| {
            let read = read(names, exports, ServedStreams::ConnectionsOfExports);
            read.unwrap().0.iter().map(|number| number % (exports.len() as u32 + 1)).collect()
        };
        let expect = |names: &[&str], exports: &[&str], expected: &[u32]| {
            let found: Vec<u32> = of(names, exports);
            assert_eq!(found, expected, "{names:?} of {exports:?}");
        };
        expect(&["db", "db#1", "db#2"], &["db"], &[0, 0, 0]);
        expect(&["db", "db#1", "db#2", "db#1#1"], &["db", "db#1"], &[0, 1, 0, 1]);
        expect(&["db#1", "db#1#2", "a#b", "a#b#3"], &["db#1", "a#b"], &[0, 0, 1, 1]);
        expect(&["0", "17", "db#1"], &["db", ""], &[1, 1, 0]);
        expect(&["(server)", "(server)#1"], &["(server)"], &[0, 0]);
        expect(&["7"], &["7", ""], &[0]);
    }

    #[test]
    fn requests_of_no_export_are_reported() {
        let names = ["db#1", "x#1", "(server)", "db#x", "y", "z#"];
        for streams in [
            ServedStreams::ConnectionsOfExports,
            ServedStreams::Exports,
            ServedStreams::Connections,
        ] {
            let (numbers, _, warnings) = read(&names, &["db", "batch"], streams).unwrap();
            assert_eq!(
                warnings,
                [
                    "4 of 6 requests belong to no export of the configuration (streams 'x#1', 'db#x', \
                  'y' and 1 more); they have no promise; its exports: 'db' and 'batch'"
                ]
            );
            if streams != ServedStreams::Connections {
                assert!(numbers[1..].iter().all(|number| number % 3 == 2), "{numbers:?}");
            }
        }
    }

    #[test]
    fn a_trace_without_requests_of_an_export_is_refused() {
        let names = ["db#1", "(server)", "db#2"];
        let said = read(&names, &["dbx", "x"], ServedStreams::ConnectionsOfExports).unwrap_err();
        assert_eq!(
            said,
            "asked.csv: got no request of an export of the configuration, only streams 'db#1' and \
             'db#2', expected streams with the names of its exports: 'dbx' and 'x'; specify \
             the configuration under which the trace was recorded"
        );
        let said = read(&[""], &["x"], ServedStreams::Exports).unwrap_err();
        assert!(said.contains("only requests without the name of a stream"), "{said}");
    }

    #[test]
    fn exports_with_the_names_of_kernel_workers_are_streams_of_their_own() {
        use crate::streams::{Grouping, StreamBy};
        let names = ["db#1", "flush-8#1", "kworker#1", "db#2"];
        let exports = ["flush-8", "kworker", "db"];
        for streams in [ServedStreams::ConnectionsOfExports, ServedStreams::Exports] {
            let (numbers, labels, _) = read(&names, &exports, streams).unwrap();
            let stream = |name: &String| Stream { name: name.clone(), ..Stream::default() };
            let streams = labels.iter().map(stream).collect();
            let dictionary = Dictionary { streams, volumes: Vec::new() };
            let mut grouping = Grouping::new(StreamBy::Thread);
            for number in numbers {
                assert_eq!(grouping.group(&dictionary, number), number);
            }
        }
    }

    #[test]
    fn more_connections_than_a_server_accepts_share_numbers() {
        let names: Vec<String> = (1..=300).map(|nth| format!("db#{nth}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (numbers, labels, _) =
            read(&names, &["db"], ServedStreams::ConnectionsOfExports).unwrap();
        assert_eq!((numbers[255], numbers[256], labels.len()), (510, 0, 511));
    }
}
