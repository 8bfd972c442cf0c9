//! Opens what a verb is given: a trace, a model in its place, or a model alone; who takes one for the
//! other is told which verb makes it.

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

/// Whether a file looks like a model, of this Forebay or an earlier one.
pub fn is_model(path: &Path) -> bool {
    file::looks(&head(path)) != Looks::Other
}

/// How a file begins; nothing of what is no file, since what a pipe gives is gone.
fn head(path: &Path) -> Vec<u8> {
    let mut head = Vec::new();
    if path.is_file() {
        // Who reads on is told of what fails.
        let _ = File::open(path).and_then(|file| file.take(256).read_to_end(&mut head));
    }
    head
}

/// Reads a model.
fn read(path: &Path) -> Result<Model, TraceError> {
    let mut bytes = Vec::new();
    // What is no file may have no end.
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
/// A file that cannot be read, was damaged or is no model; of a trace, which verb makes a model of it.
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

/// Refuses a model where only a trace will do.
///
/// # Errors
/// A model, with the verb that draws a trace from it.
pub fn expect_trace(path: &Path) -> Result<(), TraceError> {
    match is_model(path) {
        true => Err(mistaken(path, "a model", "a trace", make("generate", path, "trace.parquet"))),
        false => Ok(()),
    }
}

/// The command that makes what was expected of `path`.
fn make(verb: &str, path: &Path, output: &str) -> String {
    format!("make one of it: forebay {verb} {} -o {output}", path.display())
}

fn mistaken(path: &Path, got: &str, expected: &str, hint: String) -> TraceError {
    let (path, place) = (path.to_path_buf(), Place::File);
    TraceError::Malformed { path, place, got: got.into(), expected: expected.into(), hint }
}

/// Refuses a length of time of a model that has none, called `name`: there is no end to it.
///
/// # Errors
/// A model whose requests all come at once.
pub fn expect_end(name: &Path, model: &Model, options: &GenerateOptions) -> Result<(), Error> {
    match options.has_end(model) {
        true => Ok(()),
        false => Err(Error::Unfit(format!(
            "{}: got a length of time for a model whose requests all come at once, expected a number \
             of requests",
            name.display()
        ))),
    }
}

/// Opens the trace at `path` as [`open::open_counting`] does, or draws one from the model there, with
/// seed `seed`, as long as the trace that it was fitted on.
///
/// # Errors
/// As [`open::open`] and [`open_model`].
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
