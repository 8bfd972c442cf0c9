//! The bundled trace: a Hadoop TeraSort recorded by us (traces/README.md).

use std::io::Write;
use std::path::PathBuf;

use forebay_trace::TraceError;
use forebay_trace::streams::StreamBy;

use crate::error::Error;
use crate::input::Input;
use crate::progress::Progress;

const BUNDLED: &[u8] = include_bytes!("../traces/terasort.parquet");

/// The name of the trace in reports.
const NAME: &str = "the bundled TeraSort trace";

/// Reads the bundled trace as [`Input::read`] reads a file. It is short enough to be kept in
/// memory.
///
/// # Errors
/// [`Error::Output`] if there is no space for a temporary file.
pub fn read(stream_by: StreamBy, progress: Progress<'_>) -> Result<Input, Error> {
    let fail = |source| Error::Output(TraceError::Io { path: PathBuf::from(NAME), source });
    let mut file = tempfile::Builder::new().suffix(".parquet").tempfile().map_err(fail)?;
    file.write_all(BUNDLED).map_err(fail)?;
    let mut input = Input::read(file.path(), Some("parquet"), stream_by, progress)?;
    input.path = PathBuf::from(NAME);
    Ok(input)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_is_read_under_its_name() {
        let input = read(StreamBy::Thread, &mut crate::progress::untold).unwrap();
        assert_eq!(input.path, PathBuf::from(NAME));
        assert!(input.description.requests > 1000 && input.records().unwrap().next().is_some());
    }
}
