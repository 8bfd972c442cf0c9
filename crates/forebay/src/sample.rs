//! The bundled trace: a Hadoop TeraSort recorded by us (traces/README.md).

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use forebay_trace::TraceError;
use forebay_trace::streams::StreamBy;
use rustix::fs::{MemfdFlags, memfd_create};

use crate::{Error, Input, Progress};

const BUNDLED: &[u8] = include_bytes!("../traces/terasort.parquet");

/// The name of the trace in reports.
const NAME: &str = "the bundled TeraSort trace";

/// Reads the bundled trace as [`Input::read`] reads a file. It is short enough to be kept in
/// memory.
///
/// # Errors
/// [`Error::Output`] if there is no memory for the file.
pub fn read(stream_by: StreamBy, progress: Progress<'_>) -> Result<Input, Error> {
    let fail = |source| Error::Output(TraceError::Io { path: PathBuf::from(NAME), source });
    // Containers may have no folder for temporary files.
    let file = memfd_create("terasort", MemfdFlags::CLOEXEC).map_err(|e| fail(e.into()))?;
    let mut file = File::from(file);
    file.write_all(BUNDLED).map_err(fail)?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let mut input = Input::read(&path, Some("parquet"), stream_by, progress)?;
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
