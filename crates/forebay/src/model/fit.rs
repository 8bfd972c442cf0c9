//! The verb `fit`: fits a model to a trace.

pub mod verb;

use std::path::Path;

use forebay_ask::named;
use forebay_model::fit::{Fitter, Survey};
use forebay_model::{BUDGET_BYTES, Model, USED_MIB_MAX};
use forebay_trace::streams::{Grouping, StreamBy};
use forebay_trace::{Dictionary, Notes, Reader, Record, TraceError, open};

use crate::input::{is_named, read_through};
use crate::model::open::expect_trace;
use crate::{Error, Progress};

pub use forebay_model::fit::FitOptions as Detail;

/// The options of `fit`.
#[derive(Clone, Debug, Default)]
pub struct FitOptions {
    /// The level of detail of the model.
    pub detail: Detail,
    /// Whether to keep the names of volumes and streams.
    pub names: bool,
    /// The maximum size of the model's file in bytes. Defaults to 64 KiB, or to less for a short
    /// trace, so that its model takes at most half the space of a Parquet file.
    pub budget_bytes: Option<usize>,
}

/// A model that was fitted to a trace.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The fitted model.
    pub model: Model,
    /// The contents of the model's file.
    pub file: Vec<u8>,
    /// What was skipped, changed or assumed while the trace was read.
    pub notes: Notes,
}

/// The size in bytes that the model of a short trace may have, in addition to 1.25 bytes per
/// request. The sum is about half of what Parquet takes.
const BYTES_MIN: usize = 2 << 10;
/// The maximum number of requests kept for the second pass; a longer trace is read again.
const KEPT_MAX: usize = 1 << 18;

/// Fits a model to the trace that `opening` opens, twice if needed. Error messages call the trace
/// `name`.
///
/// # Errors
/// Fails if the trace cannot be read, is empty or changes between passes, or if the size limit is
/// too small. Returns [`Error::Stopped`] if `progress` requests a stop.
pub fn fit(
    name: &Path,
    opening: impl Fn() -> Result<Box<dyn Reader>, TraceError>,
    options: &FitOptions,
    progress: Progress<'_>,
) -> Result<Fitted, Error> {
    open::expect_file(name)?;
    expect_trace(name)?;
    let mut survey = Survey::default();
    let mut kept: Option<Vec<Record>> = Some(Vec::new());
    let mut grouping = Grouping::new(StreamBy::Thread);
    let mut reader = opening()?;
    read_through(name, &mut *reader, progress, |batch, dictionary| {
        group(batch, &mut grouping, dictionary);
        batch.iter().for_each(|record| survey.add(record));
        match &mut kept {
            Some(records) if records.len() + batch.len() <= KEPT_MAX => {
                records.extend_from_slice(batch);
            }
            _ => kept = None,
        }
    })?;
    let mut fitter = Fitter::new(survey, &options.detail);
    if fitter.used_mib() > USED_MIB_MAX {
        return Err(Error::Unfit(format!(
            "{}: got requests spread over {} MiB, expected at most {USED_MIB_MAX}, the limit of a \
             model",
            name.display(),
            fitter.used_mib()
        )));
    }
    match kept {
        Some(records) => records.iter().for_each(|record| fitter.add(record)),
        None => {
            reader = opening()?;
            grouping = Grouping::new(StreamBy::Thread);
            read_through(name, &mut *reader, progress, |batch, dictionary| {
                group(batch, &mut grouping, dictionary);
                batch.iter().for_each(|record| fitter.add(record));
            })?;
        }
    }
    fitter.agrees().map_err(|(got, expected)| {
        Error::Unfit(format!(
            "{}: got {got} requests when read again, expected {expected}; use a file that does \
             not change",
            name.display()
        ))
    })?;
    let names = options.names.then(|| {
        let streams = (0..grouping.len() as u32).map(|stream| {
            (fitter.stream_of(stream).unwrap_or(0), grouping.label(reader.dictionary(), stream))
        });
        streams.collect::<Vec<_>>()
    });
    let mut model = fitter.finish();
    if let Some(names) = names {
        name_all(&mut model, reader.dictionary(), names);
    }
    if !reader.dictionary().streams.iter().any(is_named) {
        model.streams.iter_mut().for_each(|stream| stream.name = Some(String::new()));
    }
    let short = BYTES_MIN + model.requests as usize * 5 / 4;
    let budget = options.budget_bytes.unwrap_or(BUDGET_BYTES.min(short));
    let (model, file) = model.within(budget);
    // Check here what readers of the model will check, because this message can still name the
    // trace.
    if let Err(error) = Model::from_file(name, &file) {
        return Err(Error::Unfit(format!(
            "{}: got a trace that exceeds the limits of a model: {}; try another size ({})",
            name.display(),
            beyond(&error),
            named("budget_kib")
        )));
    }
    if options.budget_bytes.is_some() && file.len() > budget {
        return Err(Error::Unfit(format!(
            "{}: got a budget of {budget} bytes, expected at least {}, the size of its coarsest \
             model",
            name.display(),
            file.len()
        )));
    }
    Ok(Fitted { model, file, notes: reader.notes().clone() })
}

/// Explains which limit the model exceeds, so that no reader would accept it.
fn beyond(error: &TraceError) -> String {
    match error {
        TraceError::Malformed { got, expected, .. } => {
            let got = got.split(" at byte ").next().unwrap_or_default();
            format!("{got}, {expected}")
        }
        other => other.to_string(),
    }
}

/// Assigns the records' streams: each is a thread, and all of a kernel's write-back workers are one
/// thread, as in `describe`.
fn group(batch: &mut [Record], grouping: &mut Grouping, dictionary: &Dictionary) {
    batch.iter_mut().for_each(|r| r.stream = grouping.group(dictionary, r.stream));
}

fn name_all(model: &mut Model, dictionary: &Dictionary, streams: Vec<(u16, String)>) {
    for (volume, name) in model.volumes.volumes.iter_mut().zip(&dictionary.volumes) {
        volume.name = Some(name.clone());
    }
    let last = model.streams.len().saturating_sub(1);
    let shared = streams.iter().filter(|stream| usize::from(stream.0) == last).count() > 1;
    for (number, name) in streams {
        let number = usize::from(number);
        model.streams[number].name =
            Some(if number == last && shared { "all others".to_string() } else { name });
    }
}
