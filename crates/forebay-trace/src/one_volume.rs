//! Reads one volume of a trace.

use std::path::{Path, PathBuf};

use forebay_core::Nanos;

use crate::{Dictionary, Notes, Place, Reader, Record, TraceError};
use forebay_words::plural::counted;

/// The maximum number of volume names in a message.
const NAMES_SHOWN: usize = 10;

/// A [`Reader`] that returns only the requests of one volume. Times count from its first request.
pub(crate) struct OneVolume {
    inner: Box<dyn Reader>,
    path: PathBuf,
    name: String,
    /// When the volume's first request arrived, if there was one.
    first: Option<Nanos>,
    others: u64,
    dictionary: Dictionary,
    notes: Notes,
}

impl OneVolume {
    pub(crate) fn new(inner: Box<dyn Reader>, path: &Path, name: String) -> OneVolume {
        let dictionary = Dictionary { volumes: vec![name.clone()], ..Dictionary::default() };
        let notes = Notes { format: inner.notes().format, ..Notes::default() };
        let (path, first, others) = (path.to_owned(), None, 0);
        OneVolume { inner, path, name, first, others, dictionary, notes }
    }

    /// Creates the error that the trace does not contain the volume.
    fn missing(&self) -> TraceError {
        let volumes = &self.inner.dictionary().volumes;
        let shown = volumes.get(..NAMES_SHOWN).unwrap_or(volumes).join(", ");
        let dots = if volumes.len() > NAMES_SHOWN { ", ..." } else { "" };
        let expected = match shown.is_empty() {
            true => "a trace that names its volumes".into(),
            false => format!("one of its volumes: {shown}{dots}"),
        };
        TraceError::Malformed {
            path: self.path.clone(),
            place: Place::File,
            got: format!("no request of volume {:?}", self.name),
            expected,
            hint: String::new(),
        }
    }
}

impl Reader for OneVolume {
    fn read(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        loop {
            self.inner.read(batch)?;
            if batch.is_empty() {
                break;
            }
            let all = batch.len();
            let names = &self.inner.dictionary().volumes;
            let is_wanted = |record: &Record| {
                names.get(record.volume as usize).is_some_and(|name| *name == self.name)
            };
            batch.retain(is_wanted);
            self.others += (all - batch.len()) as u64;
            self.dictionary.streams.clone_from(&self.inner.dictionary().streams);
            if let Some(record) = batch.first() {
                let first = *self.first.get_or_insert(record.at);
                for record in batch.iter_mut() {
                    (record.at, record.volume) = (record.at - first, 0);
                }
                break;
            }
        }
        self.notes = self.inner.notes().clone();
        if let (Some(began), Some(first)) = (self.notes.began, self.first) {
            self.notes.began = Some(began + first);
        }
        if batch.is_empty() && self.first.is_none() && self.others > 0 {
            return Err(self.missing());
        }
        if self.others > 0 {
            let others = counted(self.others, "request");
            self.notes.warnings.push(format!("{others} of other volumes left out"));
        }
        Ok(())
    }

    fn found(&self) -> (&Dictionary, &Notes) {
        (&self.dictionary, &self.notes)
    }
}
