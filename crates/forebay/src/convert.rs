//! The verb `convert`: copies records from any trace reader to any trace writer.

pub mod verb;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use forebay_trace::anonymize::{Extents, Key, SECRET_BYTES_MIN};
use forebay_trace::error::Place;
use forebay_trace::write::Writer;
use forebay_trace::{Reader, TraceError};
use forebay_words::plural::counted;

use crate::Error;
use crate::input::refuse_empty;
use crate::progress::{Meter, Progress};

/// The maximum size of a file with a secret. A larger file was probably named by mistake.
const SECRET_BYTES_MAX: u64 = 4096;

/// The result of a conversion.
pub struct Converted {
    /// The number of records written.
    pub records: u64,
    /// The information that the written format could not represent, one sentence each.
    pub lost: Vec<String>,
}

/// Returns the extent of each volume of the trace in `reader`, in cells of `cell_bytes`.
///
/// # Errors
/// Fails like [`Reader::read`], or with [`Error::Stopped`] if `progress` requests a stop.
pub fn extents(
    reader: &mut dyn Reader,
    cell_bytes: u64,
    progress: Progress<'_>,
) -> Result<Extents, Error> {
    let mut extents = Extents::new(cell_bytes);
    let (mut batch, mut meter) = (Vec::new(), Meter::new(progress));
    loop {
        reader.read(&mut batch)?;
        if batch.is_empty() {
            return Ok(extents);
        }
        extents.add(&batch);
        if meter.stops_after(batch.len()) {
            return Err(Error::Stopped);
        }
    }
}

/// Reads the file at `path`, which contains the secret, and returns the key made from it.
///
/// # Errors
/// Fails if the file cannot be read or is too short.
pub fn read_key(path: &Path) -> Result<Key, Error> {
    let refused = |got: String| {
        let hint = "create one with: head -c 32 /dev/urandom > KEY";
        let expected = format!("{SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} unguessable bytes");
        let path = path.to_path_buf();
        TraceError::Malformed { path, place: Place::File, got, expected, hint: hint.into() }
    };
    let mut secret = Vec::new();
    let read =
        File::open(path).and_then(|file| file.take(SECRET_BYTES_MAX + 1).read_to_end(&mut secret));
    read.map_err(|source| TraceError::Io { path: path.to_path_buf(), source })?;
    if secret.len() as u64 > SECRET_BYTES_MAX {
        return Err(refused("a larger file".into()).into());
    }
    Ok(Key::new(&secret).ok_or_else(|| refused(counted(secret.len() as u64, "byte")))?)
}

/// Writes all records from `reader` to `writer`. Error messages call the trace `name`. On any
/// failure, the unfinished output is removed.
///
/// # Errors
/// [`Error::Output`] if the operating system refuses to write.
pub fn convert(
    name: &Path,
    reader: &mut dyn Reader,
    mut writer: Box<dyn Writer>,
    progress: Progress<'_>,
) -> Result<Converted, Error> {
    let (mut batch, mut meter) = (Vec::new(), Meter::new(progress));
    loop {
        reader.read(&mut batch)?;
        if batch.is_empty() {
            break;
        }
        writer.write(&batch, reader.dictionary()).map_err(Error::output)?;
        if meter.stops_after(batch.len()) {
            return Err(Error::Stopped);
        }
    }
    refuse_empty(name, meter.count(), reader.notes())?;
    let lost = writer.finish(reader.dictionary(), reader.notes()).map_err(Error::output)?;
    Ok(Converted { records: meter.count(), lost })
}
