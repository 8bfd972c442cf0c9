//! A trace whose streams are its volumes, to treat each stream separately.

use crate::error::TraceError;
use crate::trace::{Dictionary, Notes, Reader, Record};

/// Reads a trace with a volume for each stream, which has the stream's name.
pub struct ByStream {
    reader: Box<dyn Reader>,
    dictionary: Dictionary,
}

impl ByStream {
    /// Creates the reader.
    pub fn new(reader: Box<dyn Reader>) -> ByStream {
        ByStream { reader, dictionary: Dictionary::default() }
    }
}

impl Reader for ByStream {
    fn read(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        self.reader.read(batch)?;
        batch.iter_mut().for_each(|record| record.volume = record.stream);
        let streams = &self.reader.dictionary().streams;
        let known = self.dictionary.volumes.len();
        for (nth, stream) in streams.iter().enumerate().skip(known) {
            let name = match stream.name.is_empty() {
                true => nth.to_string(),
                false => stream.name.clone(),
            };
            self.dictionary.volumes.push(name);
        }
        Ok(())
    }

    fn dictionary(&self) -> &Dictionary {
        &self.dictionary
    }

    fn notes(&self) -> &Notes {
        self.reader.notes()
    }
}
