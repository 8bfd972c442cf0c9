//! Turns the streams of a trace that `forebay serve` recorded into its exports.
//!
//! Unless the server's streams are exports, the streams of such a trace are connections, whose names
//! are those of their exports with a number: `db#1`, `db#2`. The server's own requests belong to no
//! export; unless exports are given, they are left out.

use crate::error::TraceError;
use crate::trace::{Dictionary, Notes, Reader, Record, SourceFacts, Stream};

/// The name of the stream of all requests that belong to no known export.
const NONE: &str = "(no export)";
/// The name of the stream of the server's own requests.
pub const SERVER: &str = "(server)";

/// A reader whose streams are exports.
pub struct ByExport {
    reader: Box<dyn Reader>,
    dictionary: Dictionary,
    /// Whether the exports are known; streams of others are then the last stream.
    are_given: bool,
    /// The export of each stream so far; None for requests that are left out.
    export_of: Vec<Option<u32>>,
}

/// Returns the export of a stream with this name.
fn export_of(name: &str) -> &str {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    match name.rsplit_once('#') {
        Some((export, number)) if is_number(number) => export,
        _ => name,
    }
}

fn named(name: &str) -> Stream {
    Stream { name: name.to_string(), ..Stream::default() }
}

impl ByExport {
    /// Creates a reader that finds the exports in the names of streams.
    pub fn new(reader: Box<dyn Reader>) -> ByExport {
        let dictionary = Dictionary::default();
        ByExport { reader, dictionary, are_given: false, export_of: Vec::new() }
    }

    /// Creates a reader in which stream `i` is the export `exports[i]`. Requests of all other streams
    /// belong to one more stream, the last.
    pub fn with_exports(reader: Box<dyn Reader>, exports: &[String]) -> ByExport {
        let names = exports.iter().map(String::as_str).chain([NONE]);
        let dictionary = Dictionary { streams: names.map(named).collect(), volumes: Vec::new() };
        ByExport { are_given: true, dictionary, ..ByExport::new(reader) }
    }

    /// Returns the number of the export of a stream with this name.
    fn number(&mut self, name: &str) -> u32 {
        let streams = &mut self.dictionary.streams;
        let known = |name: &str| streams.iter().position(|one| one.name == name);
        let at = match known(name).filter(|_| self.are_given).or_else(|| known(export_of(name))) {
            Some(at) => at,
            None if self.are_given => streams.len() - 1,
            None => {
                streams.push(named(export_of(name)));
                streams.len() - 1
            }
        };
        at as u32
    }

    /// Replaces the streams of these records by their exports.
    fn translate(&mut self, batch: &mut Vec<Record>) {
        let dictionary = self.reader.dictionary();
        self.dictionary.volumes.clone_from(&dictionary.volumes);
        let new = dictionary.streams[self.export_of.len()..].iter();
        let new: Vec<String> = new.map(|stream| stream.name.clone()).collect();
        for name in new {
            let is_left_out = !self.are_given && name == SERVER;
            let number = (!is_left_out).then(|| self.number(&name));
            self.export_of.push(number);
        }
        batch.retain_mut(|record| {
            let export = self.export_of.get(record.stream as usize).copied().unwrap_or(Some(0));
            record.stream = export.unwrap_or_default();
            export.is_some()
        });
    }
}

impl Reader for ByExport {
    fn read(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        loop {
            self.reader.read(batch)?;
            let is_end = batch.is_empty();
            self.translate(batch);
            // An empty batch would be the end.
            if is_end || !batch.is_empty() {
                return Ok(());
            }
        }
    }

    fn dictionary(&self) -> &Dictionary {
        &self.dictionary
    }

    fn notes(&self) -> &Notes {
        self.reader.notes()
    }

    fn facts(&self) -> SourceFacts {
        self.reader.facts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::open;

    fn read(exports: Option<&[&str]>) -> (Vec<u32>, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("asked.csv");
        let names = ["db#1", "batch#1", "db#2", "db", "a#b", "other"];
        let rows: String =
            names.iter().enumerate().map(|(at, name)| format!("{at},R,0,4096,{name}\n")).collect();
        std::fs::write(&path, format!("at_us,op,offset,len,stream\n{rows}")).unwrap();
        let reader = open(&path, None).unwrap();
        let mut reader = match exports {
            None => ByExport::new(reader),
            Some(exports) => {
                let exports: Vec<String> = exports.iter().map(|name| name.to_string()).collect();
                ByExport::with_exports(reader, &exports)
            }
        };
        let (mut batch, mut streams) = (Vec::new(), Vec::new());
        loop {
            reader.read(&mut batch).unwrap();
            if batch.is_empty() {
                break;
            }
            streams.extend(batch.iter().map(|record| record.stream));
        }
        let names = reader.dictionary().streams.iter().map(|one| one.name.clone()).collect();
        (streams, names)
    }

    #[test]
    fn connections_of_an_export_are_one_stream() {
        let (streams, names) = read(None);
        assert_eq!(names, ["db", "batch", "a#b", "other"]);
        assert_eq!(streams, [0, 1, 0, 0, 2, 3]);
    }

    #[test]
    fn requests_of_the_server_itself_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("asked.csv");
        // More than one batch has only requests of the server.
        let own: String = (0..20_000).map(|at| format!("{at},F,0,0,(server)\n")).collect();
        let text = format!("at_us,op,offset,len,stream\n{own}30000,R,0,4096,db#1\n");
        std::fs::write(&path, text).unwrap();
        let mut reader = ByExport::new(open(&path, None).unwrap());
        let mut batch = Vec::new();
        reader.read(&mut batch).unwrap();
        let streams: Vec<u32> = batch.iter().map(|record| record.stream).collect();
        assert_eq!((streams, reader.dictionary().streams.len()), (vec![0], 1));
    }

    #[test]
    fn exports_that_are_given_have_their_numbers_and_others_are_the_last() {
        let (streams, names) = read(Some(&["batch", "db#2", "db"]));
        assert_eq!(names, ["batch", "db#2", "db", "(no export)"]);
        assert_eq!(streams, [2, 0, 1, 2, 3, 3]);
    }
}
