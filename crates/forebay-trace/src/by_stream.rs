//! Turns the streams of a trace into volumes, so that each stream can be treated separately.

use crate::streams::{Grouping, StreamBy};
use crate::{Dictionary, Notes, Reader, Record, TraceError};

/// A reader that returns one volume per stream. A stream is a thread or, if threads are unknown,
/// all submitters with the same name. The names of volumes are complete only at the end of the
/// trace.
pub struct ByStream {
    reader: Box<dyn Reader>,
    streams: Grouping,
    dictionary: Dictionary,
}

impl ByStream {
    /// Creates the reader.
    pub fn new(reader: Box<dyn Reader>) -> ByStream {
        let streams = Grouping::new(StreamBy::Thread);
        ByStream { reader, streams, dictionary: Dictionary::default() }
    }
}

impl Reader for ByStream {
    fn read(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        self.reader.read(batch)?;
        let dictionary = self.reader.dictionary();
        for record in batch.iter_mut() {
            record.volume = self.streams.group(dictionary, record.stream);
        }
        // Names of threads may change until the end of the trace.
        let known = if batch.is_empty() { 0 } else { self.dictionary.volumes.len() };
        self.dictionary.volumes.truncate(known);
        let new = known as u32..self.streams.len() as u32;
        self.dictionary.volumes.extend(new.map(|group| self.streams.label(dictionary, group)));
        Ok(())
    }

    fn found(&self) -> (&Dictionary, &Notes) {
        (&self.dictionary, self.reader.notes())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::open::open;

    #[test]
    fn threads_of_one_name_are_distinguished_and_names_alone_are_enough() {
        let threads = "at_us,op,offset,len,tid,comm\n0,R,0,4096,7,java\n9,W,0,4096,8,java\n10,R,0,4096,7,java\n";
        let names = "at_us,op,offset,len,name\n0,R,0,4096,db\n9,W,0,4096,batch\n10,R,0,4096,db\n";
        for (text, expected) in [(threads, ["java/7", "java/8"]), (names, ["db", "batch"])] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("t.csv");
            std::fs::write(&path, text).unwrap();
            let mut reader = ByStream::new(open(Path::new(&path), None).unwrap());
            let (mut batch, mut volumes) = (Vec::new(), Vec::new());
            loop {
                reader.read(&mut batch).unwrap();
                if batch.is_empty() {
                    break;
                }
                volumes.extend(batch.iter().map(|record| record.volume));
            }
            assert_eq!(volumes, [0, 1, 0]);
            assert_eq!(reader.dictionary().volumes, expected);
        }
    }
}
