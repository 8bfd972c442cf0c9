//! Opens the input of a verb: a trace, a model in place of a trace, or a model. If a trace is given
//! instead of a model or vice versa, the error names the verb that converts it.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use forebay_trace::error::Place;
use forebay_trace::unpack::Consumed;
use forebay_trace::{Reader, TraceError, open};

use crate::error::Error;

use forebay_model::Model;
use forebay_model::file::{self, Looks};
use forebay_model::generate::{GenerateOptions, Generator};

/// Returns whether a file looks like a model, of this or an earlier version of Forebay.
pub fn is_model(path: &Path) -> bool {
    file::looks(&head(path)) != Looks::Other
}

/// Returns the beginning of a file; nothing if it is not a regular file, because reading from a
/// pipe would consume the data.
fn head(path: &Path) -> Vec<u8> {
    let mut head = Vec::new();
    if path.is_file() {
        // Errors are reported by whoever reads the file afterwards.
        let _ = File::open(path).and_then(|file| file.take(256).read_to_end(&mut head));
    }
    head
}

/// Reads a model.
fn read(path: &Path) -> Result<Model, TraceError> {
    let mut bytes = Vec::new();
    // Limited because a special file may never end.
    let read = File::open(path)
        .and_then(|opened| opened.take(file::FILE_BYTES_MAX + 1).read_to_end(&mut bytes));
    read.map_err(|source| TraceError::Io { path: path.to_path_buf(), source })?;
    if bytes.len() as u64 > file::FILE_BYTES_MAX {
        let got = format!("more than {} MiB", file::FILE_BYTES_MAX >> 20);
        return Err(mistaken(path, &got, "a model, which has some 10 to 40 KiB", String::new()));
    }
    Model::from_file(path, &bytes)
}

/// Opens the model at `path`.
///
/// # Errors
/// If the file cannot be read, is damaged, or is not a model; if it is a trace, the error names the
/// verb that makes a model from it.
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

/// Rejects a model where only a trace is accepted.
///
/// # Errors
/// If `path` is a model; the error names the verb that generates a trace from it.
pub fn expect_trace(path: &Path) -> Result<(), TraceError> {
    match is_model(path) {
        true => Err(mistaken(path, "a model", "a trace", make("generate", path, "trace.parquet"))),
        false => Ok(()),
    }
}

/// Returns the command that converts `path` to the expected kind of file.
fn make(verb: &str, path: &Path, output: &str) -> String {
    format!("create one from it: forebay {verb} {} -o {output}", path.display())
}

fn mistaken(path: &Path, got: &str, expected: &str, hint: String) -> TraceError {
    let (path, place) = (path.to_path_buf(), Place::File);
    TraceError::Malformed { path, place, got: got.into(), expected: expected.into(), hint }
}

/// Rejects a requested duration for the model called `name` if the model has no duration, because
/// generation would never end.
///
/// # Errors
/// If the model's requests all arrive at once.
pub fn expect_end(name: &Path, model: &Model, options: &GenerateOptions) -> Result<(), Error> {
    match options.has_end(model) {
        true => Ok(()),
        false => Err(Error::Unfit(format!(
            "{}: got a duration for a model whose requests all arrive at once, expected a number \
             of requests",
            name.display()
        ))),
    }
}

/// Opens the trace at `path` as [`open::open_counting`] does. If `path` is a model, generates a
/// trace from it with seed `seed`, as long as the trace that it was fitted to.
///
/// # Errors
/// Same as [`open::open`] and [`open_model`].
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
