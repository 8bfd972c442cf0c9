//! Reads a trace from standard input, which is written `-`.
//!
//! A trace may have to be read several times, or from its end. If standard input is a pipe, its
//! data is therefore first copied to an unnamed temporary file (in `TMPDIR`), and the command
//! restarts itself with that file as standard input. A file redirected by the shell is read in
//! place.

use std::env;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context;
use clap::builder::{PathBufValueParser, TypedValueParser};
use forebay_trace::error::Place;
use forebay_trace::{TraceError, open};

use crate::progress::Progress;

/// The name of standard input on the command line.
const DASH: &str = "-";
/// The path of standard input.
const PATH: &str = "/dev/stdin";

/// The number of arguments that refer to standard input.
static ASKED: AtomicUsize = AtomicUsize::new(0);

/// Returns a parser for arguments that name a trace.
pub(crate) fn trace_path() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().map(|path| match path == Path::new(DASH) {
        true => {
            ASKED.fetch_add(1, Ordering::Relaxed);
            PathBuf::from(PATH)
        }
        false => path,
    })
}

/// Ensures that standard input can be read repeatedly if a trace will be read from it. If it is a
/// pipe, this function restarts the command and returns only on error.
pub(crate) fn prepare() -> anyhow::Result<()> {
    let asked = ASKED.load(Ordering::Relaxed);
    if asked > 1 {
        let got = format!("standard input as {asked} traces");
        let hint = "name a file for each of the others";
        return Err(refused(PathBuf::from(DASH), got, "it once", hint).into());
    }
    if asked == 0 || !open::is_pipe(Path::new(PATH)) {
        return Ok(());
    }
    if io::IsTerminal::is_terminal(&io::stdin()) {
        let hint = "pipe one into it, or name a file";
        return Err(refused(PathBuf::from(PATH), "a terminal".into(), "a trace", hint).into());
    }
    let progress = Progress::new("reading standard input");
    let folder = env::temp_dir();
    let mut file = tempfile::tempfile_in(&folder)
        .map_err(|error| TraceError::no_temporary_file(&error, "standard input"))?;
    io::copy(&mut io::stdin().lock(), &mut file).with_context(|| {
        format!("standard input is copied to {} while it is read", folder.display())
    })?;
    drop(progress);
    let mut again = Command::new(env::current_exe().context("forebay cannot find itself")?);
    Err(again.args(env::args_os().skip(1)).stdin(file).exec().into())
}

fn refused(path: PathBuf, got: String, expected: &str, hint: &str) -> TraceError {
    let (place, expected, hint) = (Place::File, expected.into(), hint.into());
    TraceError::Malformed { path, place, got, expected, hint }
}
