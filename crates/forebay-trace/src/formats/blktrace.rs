//! Binary traces of blktrace: one file of records per CPU, merged by time.
//!
//! Units: times are nanoseconds of the traced machine's monotonic clock, sectors are 512 bytes.
//! Epoch: the first request. Supports records of version 7 in either byte order. Sequence gaps and
//! missing CPU files are tolerated, the latter with a warning. Requests are the queue events (Q).
//! Their latency ends when their last sector completes (C), as described in `events::pairing`.

mod record;
pub(crate) mod set;

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::bad_rows::BadRowsMax;
use crate::{Dictionary, Notes, Place, Reader, Record, SourceFacts, TraceError};

use super::{Input, Layer, Merge, Pairing};
use forebay_words::plural::{counted, verb};
pub use record::sniff;

/// A reader of a set of blktrace files.
pub struct Blktrace {
    paths: Vec<PathBuf>,
    events: Merge<record::Cursor>,
    pairing: Pairing,
}

impl Blktrace {
    /// Opens the set named by `path`: its base name (`sdb` for `sdb.blktrace.0` and so on), its
    /// folder, any one of its files, or a tar of them. Files and tar may be compressed.
    ///
    /// Damaged records are an error. [`crate::open::open`] skips a few of them instead.
    pub fn open(path: &Path) -> Result<Blktrace, TraceError> {
        Blktrace::leaving_out(BadRowsMax::NONE, set::find(path)?)
    }

    /// Like [`Blktrace::open`], but accepts a share of damaged records.
    pub(crate) fn open_leaving_out(
        bad_rows_max: BadRowsMax,
        path: &Path,
    ) -> Result<Blktrace, TraceError> {
        Blktrace::leaving_out(bad_rows_max, set::find(path)?)
    }

    /// Sets at which layer requests count if the trace shows them at several.
    pub fn at_layer(mut self, layer: Layer) -> Blktrace {
        self.pairing.choose(layer);
        self
    }

    /// Reads the given files. Their names, which appear in messages, contain the CPU numbers.
    pub fn from_readers(
        files: Vec<(PathBuf, Box<dyn Read + Send>)>,
    ) -> Result<Blktrace, TraceError> {
        Blktrace::leaving_out(BadRowsMax::NONE, files)
    }

    fn leaving_out(bad_rows_max: BadRowsMax, files: set::Files) -> Result<Blktrace, TraceError> {
        let paths: Vec<PathBuf> = files.iter().map(|(path, _)| path.clone()).collect();
        let cursors =
            files.into_iter().map(|(path, input)| record::Cursor::new(path, input, bad_rows_max));
        let mut events = Merge::new(cursors.collect())?;
        let empty: Vec<bool> = events.sources_mut().map(|cursor| cursor.is_empty()).collect();
        if empty.iter().all(|&empty| empty) {
            return Err(TraceError::Malformed {
                path: paths.first().cloned().unwrap_or_default(),
                place: Place::File,
                got: "nothing".to_owned(),
                expected: "blktrace records".to_owned(),
                hint: "all files of the set are empty".to_owned(),
            });
        }
        let missing = missing_cpus(&paths);
        let mut pairing = Pairing::new("blktrace", missing.is_some());
        let hollow = paths.iter().zip(&empty).filter(|&(_, &empty)| empty);
        for (path, _) in hollow {
            pairing.notes.warnings.push(format!("{}: empty", path.display()));
        }
        pairing.notes.warnings.extend(missing);
        Ok(Blktrace { paths, events, pairing })
    }

    /// Returns notes about files that repeat events of another file.
    fn copied(&self) -> Vec<String> {
        let path =
            |source: usize| self.paths.get(source).map_or("".into(), |p| p.display().to_string());
        let sentence = |([copy, of], count): (&[usize; 2], &u64)| {
            format!(
                "{}: {} {} also in {}, as if one file was a copy of the other: each event is used \
                 once",
                path(*copy),
                counted(*count, "event"),
                verb(*count, "is", "are"),
                path(*of)
            )
        };
        self.events.copies().iter().map(sentence).collect()
    }

    /// Adds a sentence to the notes, for callers that know more about how the trace was recorded.
    pub fn warn(&mut self, sentence: String) {
        self.pairing.notes.warnings.push(sentence);
    }
}

/// Opens the set to which a file belongs.
pub(super) fn open(input: Input) -> Result<Box<dyn Reader>, TraceError> {
    let set = Blktrace::open_leaving_out(input.bad_rows_max, &input.path)?;
    Ok(Box::new(set.at_layer(input.layer)))
}

/// Returns a sentence about gaps in the CPU numbers, if there are any.
fn missing_cpus(paths: &[PathBuf]) -> Option<String> {
    let mut cpus: Vec<u32> =
        paths.iter().filter_map(|path| set::split_name(path)).map(|(_, cpu)| cpu).collect();
    cpus.sort_unstable();
    let first = cpus.first().map_or(0..0, |&first| 0..first);
    let gaps = cpus.windows(2).map(|pair| pair[0].saturating_add(1)..pair[1]);
    let gaps: Vec<String> = std::iter::once(first)
        .chain(gaps)
        .filter(|gap| !gap.is_empty())
        .map(|gap| match gap.end - gap.start {
            1 => gap.start.to_string(),
            _ => format!("{}-{}", gap.start, gap.end - 1),
        })
        .collect();
    (!gaps.is_empty()).then(|| {
        format!(
            "the set has no file for CPU {}: requests and completions recorded there are missing",
            gaps.join(", ")
        )
    })
}

impl Reader for Blktrace {
    fn read(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        let ends = self.pairing.fill(batch, || self.events.next())?;
        if ends {
            self.pairing.notes.warnings.extend(self.copied());
            // A single file need not be named, because notes are printed after its name.
            let path = self.paths.first().filter(|_| self.paths.len() == 1);
            let prefix = path.map_or(String::new(), |path| path.display().to_string());
            let unnamed = |note: String| match note.strip_prefix(&prefix) {
                Some(rest) => rest.trim_start_matches([',', ':', ' ']).to_owned(),
                None => note,
            };
            for cursor in self.events.sources_mut() {
                let warnings = std::mem::take(&mut cursor.warnings);
                self.pairing.notes.warnings.extend(warnings.into_iter().map(unnamed));
                self.pairing.notes.rows_bad += cursor.records_bad();
            }
        }
        Ok(())
    }

    fn found(&self) -> (&Dictionary, &Notes) {
        (&self.pairing.dictionary, &self.pairing.notes)
    }

    fn facts(&self) -> SourceFacts {
        self.pairing.facts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_in_cpu_numbers_are_named() {
        let paths = |cpus: &[u32]| -> Vec<PathBuf> {
            cpus.iter().map(|cpu| format!("sdb.blktrace.{cpu}").into()).collect()
        };
        assert_eq!(missing_cpus(&paths(&[2, 0, 1])), None);
        let sentence = missing_cpus(&paths(&[1, 2, 4, 9])).unwrap();
        assert!(sentence.contains("CPU 0, 3, 5-8:"), "{sentence}");
    }
}
