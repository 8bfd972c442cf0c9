//! Opens what a verb is given: a trace, or a model in its place.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use forebay_trace::unpack::Consumed;
use forebay_trace::{Reader, TraceError, open};

use super::check;
use super::generate::{GenerateOptions, Generator};

/// What a model begins with.
const KEY: &[u8] = b"\"forebay_model\"";

/// Whether a file looks like a model.
pub fn is_model(path: &Path) -> bool {
    let mut head = [0; 256];
    let read = File::open(path).and_then(|mut file| file.read(&mut head));
    let head = &head[..read.unwrap_or(0)];
    head.trim_ascii_start().starts_with(b"{") && head.windows(KEY.len()).any(|part| part == KEY)
}

/// Opens the trace at `path` as [`open::open_counting`] does, or draws one from the model there, with
/// seed `seed`, as long as the trace that it was fitted on.
///
/// # Errors
/// As [`open::open`] and [`check::read`].
pub fn open_any(
    path: &Path,
    from: Option<&str>,
    seed: u64,
    consumed: Consumed,
) -> Result<Box<dyn Reader>, TraceError> {
    if from.is_none() && is_model(path) {
        let options = GenerateOptions { seed, ..GenerateOptions::default() };
        return Ok(Box::new(Generator::new(&check::read(path)?, options)));
    }
    open::open_counting(path, from, consumed)
}
