//! Replaces the streams of a trace that `forebay serve` recorded by the server's exports.
//!
//! Unless the server's streams are exports, the streams of such a trace are connections, whose
//! names are those of their exports with a number: `db#1`, `db#2`. The server's own requests belong
//! to no export, and are left out. [`crate::served`] does this for a server whose exports are
//! known.

use crate::{Dictionary, Notes, Reader, Record, SourceFacts, Stream, TraceError};

/// The name of the stream of the server's own requests.
pub const SERVER: &str = "(server)";

/// A reader whose streams are exports.
pub struct ByExport {
    reader: Box<dyn Reader>,
    dictionary: Dictionary,
    /// The export of each stream so far; None for requests that are left out.
    export_of: Vec<Option<u32>>,
}

pub(crate) fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit())
}

/// Returns the export of a stream with this name.
pub(crate) fn export_of(name: &str) -> &str {
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
        ByExport { reader, dictionary: Dictionary::default(), export_of: Vec::new() }
    }

    /// Returns the number of the export of a stream with this name.
    fn number(&mut self, name: &str) -> u32 {
        let streams = &mut self.dictionary.streams;
        let at = streams.iter().position(|one| one.name == export_of(name));
        let at = at.unwrap_or_else(|| {
            streams.push(named(export_of(name)));
            streams.len() - 1
        });
        at as u32
    }

    /// Replaces the streams of these records by their exports.
    fn translate(&mut self, batch: &mut Vec<Record>) {
        let dictionary = self.reader.dictionary();
        self.dictionary.volumes.clone_from(&dictionary.volumes);
        let new = dictionary.streams[self.export_of.len()..].iter();
        let new: Vec<String> = new.map(|stream| stream.name.clone()).collect();
        for name in new {
            let number = (name != SERVER).then(|| self.number(&name));
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
            // If all records were left out, read on: an empty batch would mean the end of the
            // trace.
            if is_end || !batch.is_empty() {
                return Ok(());
            }
        }
    }

    fn found(&self) -> (&Dictionary, &Notes) {
        (&self.dictionary, self.reader.notes())
    }

    fn facts(&self) -> SourceFacts {
        self.reader.facts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::open;

    fn read() -> (Vec<u32>, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("asked.csv");
        let names = ["db#1", "batch#1", "db#2", "db", "a#b", "other"];
        let rows: String =
            names.iter().enumerate().map(|(at, name)| format!("{at},R,0,4096,{name}\n")).collect();
        std::fs::write(&path, format!("at_us,op,offset,len,stream\n{rows}")).unwrap();
        let mut reader = ByExport::new(open(&path, None).unwrap());
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
        let (streams, names) = read();
        assert_eq!(names, ["db", "batch", "a#b", "other"]);
        assert_eq!(streams, [0, 1, 0, 0, 2, 3]);
    }

    #[test]
    fn requests_of_the_server_itself_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("asked.csv");
        // The file begins with so many requests of the server itself that they fill more than one
        // batch.
        let own: String = (0..20_000).map(|at| format!("{at},F,0,0,(server)\n")).collect();
        let text = format!("at_us,op,offset,len,stream\n{own}30000,R,0,4096,db#1\n");
        std::fs::write(&path, text).unwrap();
        let mut reader = ByExport::new(open(&path, None).unwrap());
        let mut batch = Vec::new();
        reader.read(&mut batch).unwrap();
        let streams: Vec<u32> = batch.iter().map(|record| record.stream).collect();
        assert_eq!((streams, reader.dictionary().streams.len()), (vec![0], 1));
    }
}
