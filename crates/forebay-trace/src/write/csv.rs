//! Writes [canonical CSV](crate::formats::csv), which preserves every field of a request.

use std::io::Write;

use super::{Draft, Writer, entry};
use crate::formats::csv::HEADER;
use crate::op_flags::flag_letters;
use crate::{Dictionary, Notes, Record, Stream, TraceError};

pub(super) fn create(draft: Draft) -> Result<Box<dyn Writer>, TraceError> {
    let mut writer = Csv { draft };
    writer.put(format!("{}\n", HEADER.join(",")).as_bytes())?;
    Ok(Box::new(writer))
}

struct Csv {
    draft: Draft,
}

impl Csv {
    fn put(&mut self, bytes: &[u8]) -> Result<(), TraceError> {
        self.draft.write_all(bytes).map_err(|error| self.draft.failed(error))
    }
}

/// Quotes a field if necessary.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.into()
    }
}

fn or_empty<T: ToString>(value: Option<T>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

impl Writer for Csv {
    fn write(&mut self, batch: &[Record], dictionary: &Dictionary) -> Result<(), TraceError> {
        let nobody = Stream::default();
        for r in batch {
            let stream = entry(&dictionary.streams, r.stream).unwrap_or(&nobody);
            let volume = entry(&dictionary.volumes, r.volume).map_or("", String::as_str);
            let line = format!(
                "{},{},{},{},{},{},{},{},{},{},{}\n",
                r.at.0,
                r.op.name(),
                r.offset,
                r.len,
                r.stream,
                quoted(volume),
                or_empty(r.latency.map(|l| l.0)),
                flag_letters(r.flags),
                or_empty(stream.thread),
                or_empty(stream.process),
                quoted(&stream.name),
            );
            self.put(line.as_bytes())?;
        }
        Ok(())
    }

    fn checkpoint(&mut self, _: &Dictionary, _: &Notes) -> Result<(), TraceError> {
        self.draft.flush().map_err(|error| self.draft.failed(error))
    }

    fn finish(self: Box<Self>, _: &Dictionary, _: &Notes) -> Result<Vec<String>, TraceError> {
        self.draft.publish()?;
        Ok(Vec::new())
    }
}
