//! The verb `convert`.

use std::path::{Path, PathBuf};

use forebay::Error;
use forebay::convert::{Converted, extents, read_key};
use forebay::partition::part;
use forebay_trace::anonymize::{Anonymized, Key};
use forebay_trace::write;
use pyo3::prelude::*;

use crate::error::{argument, warn};
use crate::given::given;
use crate::options::warn_notes;
use crate::signals::detached;
use crate::source::Source;
use crate::trace::Trace;

/// Writes a trace (a path, a `Trace` or a table) to the file `output`, as Parquet, CSV or a fio
/// iolog: what the ending of its name says, or `to`.
///
/// `from_` names the format of a file that is not recognised; `names` lends its streams and volumes
/// to a table that has lost them. The file appears when it is whole. Returns the requests written.
/// With `partition_by="volume"`, `output` is a folder of Parquet files, one a volume; the same call again goes on where it was
/// interrupted. With `anonymize`, names and dates are dropped, thread ids become others and the cells of each volume
/// (of `cell_mib` MiB) change places, under the secret in the file `key`, else under one that is
/// forgotten.
///
/// What was skipped or could not be kept is told as `TraceWarning`.
#[pyfunction]
#[pyo3(signature = (
    trace, output, *, to=None, partition_by=None, anonymize=false, key=None, cell_mib=64, from_=None, names=None,
))]
#[allow(clippy::too_many_arguments)] // They are keywords.
pub(crate) fn convert(
    py: Python<'_>,
    trace: &Bound<'_, PyAny>,
    #[pyo3(from_py_with = given)] output: PathBuf,
    #[pyo3(from_py_with = given)] to: Option<String>,
    #[pyo3(from_py_with = given)] partition_by: Option<String>,
    #[pyo3(from_py_with = given)] anonymize: bool,
    #[pyo3(from_py_with = given)] key: Option<PathBuf>,
    #[pyo3(from_py_with = given)] cell_mib: u64,
    #[pyo3(from_py_with = given)] from_: Option<String>,
    names: Option<&Bound<'_, Trace>>,
) -> PyResult<u64> {
    let source = Source::new(trace, from_, names)?;
    if key.is_some() && !anonymize {
        return Err(argument("key", "a key is for anonymize=True".into()));
    }
    if !(1..=1 << 20).contains(&cell_mib) {
        let got = format!("got {cell_mib}, expected 1 to 1048576 MiB");
        return Err(argument("cell_mib", got));
    }
    if let Some(what) = partition_by {
        if what != "volume" {
            return Err(argument("partition_by", format!("got {what:?}, expected \"volume\"")));
        }
        if to.is_some() || anonymize {
            let why = "volumes are written as Parquet and as they are, without to= and anonymize=";
            return Err(argument("partition_by", why.into()));
        }
        return parted(py, &source, &output);
    }
    let name = source.name().to_path_buf();
    let (Converted { records, lost }, notes) = detached(py, |signals| {
        let mut go_on = |_: u64| signals.go_on();
        let hidden = match anonymize {
            true => {
                let key = match &key {
                    Some(file) => read_key(file)?,
                    None => Key::random().map_err(|error| Error::Unfit(error.to_string()))?,
                };
                Some((key, extents(&mut *source.open()?, cell_mib << 20, &mut go_on)?))
            }
            false => None,
        };
        let mut kept = source.kept();
        if let Some(key) = &key {
            kept = kept.and_file(key);
        }
        let mut reader = source.open()?;
        let writer = write::create(&output, to.as_deref(), &kept).map_err(Error::output)?;
        let converted = match hidden {
            None => forebay::convert::convert(&name, &mut *reader, writer, &mut go_on)?,
            Some((key, extents)) => {
                let mut hidden = Anonymized::new(&mut *reader, &name, key, extents);
                forebay::convert::convert(&name, &mut hidden, writer, &mut go_on)?
            }
        };
        Ok((converted, reader.notes().clone()))
    })?;
    warn_notes(py, &name, &notes)?;
    for what in lost {
        warn(py, format!("{}: {what}", output.display()))?;
    }
    Ok(records)
}

/// Parts a file by volume into the folder `output`.
fn parted(py: Python<'_>, source: &Source, output: &Path) -> PyResult<u64> {
    let Source::File(path, from) = source else {
        let why = "got a table, expected a file, by which it is known again when it goes on; convert it to one first";
        return Err(argument("partition_by", why.into()));
    };
    let parted = detached(py, |signals| {
        part(path, from.as_deref(), output, || source.open(), &mut |_, _| signals.go_on())
    })?;
    if let Some(notes) = &parted.notes {
        warn_notes(py, path, notes)?;
    }
    Ok(parted.requests())
}
