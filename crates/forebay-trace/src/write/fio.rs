//! Writes fio's I/O log, version 3, for `fio --read_iolog`.
//!
//! Units: bytes, and microseconds from the first request, as in logs written by fio (its
//! documentation states no unit). fio waits for the gap since the previous line, counted from when
//! it issued that line, so a slow disk delays everything that follows. It does not wait while the
//! time of the previous line is 0. Each volume is a file, which is opened at its first request and
//! closed at the end. A flush is a `sync`. This format cannot represent streams, latencies, flags
//! and nanoseconds.

use forebay_words::plural::{counted, verb};
use std::io::Write;

use forebay_core::{Nanos, Op};

use super::{Draft, LossCounts, Writer, entry};
use crate::{Dictionary, Notes, Record, TraceError};

/// The maximum length of a file name that fio can read.
const NAME_BYTES_MAX: usize = 255;

pub(super) fn create(draft: Draft) -> Result<Box<dyn Writer>, TraceError> {
    let mut writer =
        Fio { draft, names: Vec::new(), end: Nanos::ZERO, renamed: 0, lost: LossCounts::default() };
    writer.put("fio version 3 iolog\n")?;
    Ok(Box::new(writer))
}

struct Fio {
    draft: Draft,
    /// The file name of each volume that is open.
    names: Vec<Option<String>>,
    end: Nanos,
    renamed: u64,
    lost: LossCounts,
}

impl Fio {
    fn put(&mut self, text: &str) -> Result<(), TraceError> {
        self.draft.write_all(text.as_bytes()).map_err(|error| self.draft.failed(error))
    }

    /// Opens the file of a volume unless it is open. Returns its name.
    fn opened(&mut self, r: &Record, dictionary: &Dictionary) -> Result<String, TraceError> {
        let volume = r.volume as usize;
        if let Some(Some(name)) = self.names.get(volume) {
            return Ok(name.clone());
        }
        let given = entry(&dictionary.volumes, r.volume).map_or("", String::as_str);
        let mut name = file_name(given, r.volume);
        if self.names.iter().flatten().any(|other| *other == name) {
            name = format!("volume{volume}");
        }
        self.renamed += u64::from(name != given);
        let at_us = r.at.0 / 1000;
        self.put(&format!("{at_us} {name} add\n{at_us} {name} open\n"))?;
        if self.names.len() <= volume {
            self.names.resize(volume + 1, None);
        }
        if let Some(slot) = self.names.get_mut(volume) {
            *slot = Some(name.clone());
        }
        Ok(name)
    }
}

/// Converts the name of a volume to a file name that fio can read. fio separates fields by spaces.
fn file_name(volume: &str, number: u32) -> String {
    if volume.is_empty() || volume.len() > NAME_BYTES_MAX {
        return format!("volume{number}");
    }
    volume.chars().map(|c| if c.is_whitespace() || c.is_control() { '_' } else { c }).collect()
}

impl Writer for Fio {
    fn write(&mut self, batch: &[Record], dictionary: &Dictionary) -> Result<(), TraceError> {
        for r in batch {
            let name = self.opened(r, dictionary)?;
            let action = match r.op {
                Op::Read => "read",
                Op::Write => "write",
                Op::Trim => "trim",
                Op::Flush | Op::Park | Op::Open => "sync",
            };
            let at_us = r.at.0 / 1000;
            self.put(&format!("{at_us} {name} {action} {} {}\n", r.offset, r.len))?;
            self.end = r.at;
            self.lost.count(r);
        }
        Ok(())
    }

    fn finish(
        mut self: Box<Self>,
        dictionary: &Dictionary,
        _: &Notes,
    ) -> Result<Vec<String>, TraceError> {
        let end_us = self.end.0 / 1000;
        for name in std::mem::take(&mut self.names).into_iter().flatten() {
            self.put(&format!("{end_us} {name} close\n"))?;
        }
        let mut lost = vec!["times are truncated to microseconds".to_string()];
        lost.extend(self.lost.sentences(dictionary));
        if self.renamed > 0 {
            let volumes = counted(self.renamed, "volume");
            let have = verb(
                self.renamed,
                "has a different name as a file",
                "have different names as \
                    files",
            );
            lost.push(format!("{volumes} {have}"));
        }
        self.draft.publish()?;
        Ok(lost)
    }
}
