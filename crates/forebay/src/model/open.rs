//! Opens the input of a verb: a trace, a model in place of a trace, or a model. If a verb gets a
//! trace instead of a model, or vice versa, the error names the verb that converts it.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use forebay_trace::error::Place;
use forebay_trace::unpack::Consumed;
use forebay_trace::{Reader, TraceError, open};

use crate::Error;

use forebay_model::Model;
use forebay_model::file::{self, ModelFileKind};
use forebay_model::generate::{GenerateOptions, Generator};

/// Returns whether a file looks like a model, written by this or an earlier version of Forebay.
pub fn is_model(path: &Path) -> bool {
    file::file_kind(&head(path)) != ModelFileKind::Other
}

/// Returns the first bytes of a file; empty if the file is not a regular one, because reading from
/// a pipe would consume its data.
fn head(path: &Path) -> Vec<u8> {
    let mut head = Vec::new();
    if path.is_file() {
        // Errors are ignored here: reading the file afterwards will report them.
        let _ = File::open(path).and_then(|file| file.take(256).read_to_end(&mut head));
    }
    head
}

/// Reads the model at `path`.
fn read(path: &Path) -> Result<Model, TraceError> {
    let mut bytes = Vec::new();
    // The amount read is limited, because a special file may never end.
    let read = File::open(path)
        .and_then(|opened| opened.take(file::FILE_BYTES_MAX + 1).read_to_end(&mut bytes));
    read.map_err(|source| TraceError::Io { path: path.to_path_buf(), source })?;
    if bytes.len() as u64 > file::FILE_BYTES_MAX {
        let got = format!("more than {} MiB", file::FILE_BYTES_MAX >> 20);
        return Err(mistaken(path, &got, "a model, which has about 10 to 40 KiB", String::new()));
    }
    Model::from_file(path, &bytes)
}

/// Opens the model at `path`.
///
/// # Errors
/// Fails if the file cannot be read, is damaged, or is not a model. If it is a trace, the error
/// names the verb that makes a model from it.
pub fn open_model(path: &Path) -> Result<Model, TraceError> {
    if !path.is_file() || is_model(path) || File::open(path).is_err() {
        return read(path);
    }
    let is_empty = std::fs::metadata(path).is_ok_and(|found| found.len() == 0);
    let (got, hint) = match is_empty {
        true => ("an empty file", String::new()),
        false if open::open(path, None).is_ok() => ("a trace", make("fit", path, "trace.model")),
        false => ("neither a model nor a trace of a known format", String::new()),
    };
    let expected = "a model, as forebay fit TRACE -o MODEL writes it";
    Err(mistaken(path, got, expected, hint))
}

/// Fails if `path` is a model, for verbs that accept only traces.
///
/// # Errors
/// If `path` is a model; the error names the verb that generates a trace from it.
pub fn expect_trace(path: &Path) -> Result<(), TraceError> {
    match is_model(path) {
        true => Err(mistaken(path, "a model", "a trace", make("generate", path, "trace.parquet"))),
        false => Ok(()),
    }
}

/// Formats the command that converts `path` to the expected kind of file.
fn make(verb: &str, path: &Path, output: &str) -> String {
    format!("create one from it: forebay {verb} {} -o {output}", path.display())
}

fn mistaken(path: &Path, got: &str, expected: &str, hint: String) -> TraceError {
    let (path, place) = (path.to_path_buf(), Place::File);
    TraceError::Malformed { path, place, got: got.into(), expected: expected.into(), hint }
}

/// Fails if a duration is requested from the model called `name` and the model has no duration,
/// because generation would never end.
///
/// # Errors
/// If the model's requests all arrive at the same time.
pub fn expect_end(name: &Path, model: &Model, options: &GenerateOptions) -> Result<(), Error> {
    match options.has_end(model) {
        true => Ok(()),
        false => Err(Error::Unfit(format!(
            "{}: got a duration for a model whose requests all arrive at the same time, expected \
             a number of requests",
            name.display()
        ))),
    }
}

/// Opens the trace at `path` as [`open::open_counting`] does. If `path` is a model, generates a
/// trace from it with seed `seed`, as long as the trace that the model was fitted to.
///
/// # Errors
/// Fails like [`open::open`] and [`open_model`].
pub fn open_any(
    path: &Path,
    from: Option<&str>,
    seed: u64,
    consumed: Consumed,
) -> Result<Box<dyn Reader>, TraceError> {
    if from.is_none() && is_model(path) {
        let options = GenerateOptions { seed, ..GenerateOptions::default() };
        return Ok(Box::new(Generator::new(&read(path)?, options)));
    }
    open::open_counting(path, from, consumed)
}
