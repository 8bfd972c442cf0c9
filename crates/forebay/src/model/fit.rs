//! The verb `fit`: a model from a trace, in two passes and bounded memory.

mod lists;
mod order;
mod origin;
mod part;
mod periods;
mod states;
mod survey;
mod traits;

use std::path::Path;

use forebay_core::Nanos;
use forebay_trace::streams::{Grouping, StreamBy};
use forebay_trace::{Dictionary, Notes, Reader, Record, TraceError, open};

use crate::error::Error;
use crate::input::read_through;
use crate::progress::GoOn;

use super::file::{Model, Part, Submitter, VERSION, Volume};
use super::generate::{GenerateOptions, Generator};
use super::leaf_ranges::{LEAVES_MAX, leaves};
use super::space::{GRAIN, Space};
use super::{check, level};
use lists::digits;
use part::PartFitter;
pub use periods::PERIODS_MAX;
pub use survey::Survey;

/// How to fit.
#[derive(Clone, Debug)]
pub struct FitOptions {
    /// Levels of the hierarchy; none to find out how many are needed.
    pub level: Option<u8>,
    /// A model for each of the busiest streams and one for the rest, not one of all.
    pub by_stream: bool,
    /// Any range to any other.
    pub flat: bool,
    /// Keep names of volumes and streams.
    pub names: bool,
    /// Sizes that are told apart as classes of their own, at most.
    pub common_sizes: usize,
    /// Intensity by periods of wall time this long, not by division of time; as often doubled as their
    /// number needs.
    pub period: Option<Nanos>,
}

impl Default for FitOptions {
    fn default() -> FitOptions {
        FitOptions {
            level: None,
            by_stream: false,
            flat: false,
            names: false,
            common_sizes: COMMON_SIZES,
            period: None,
        }
    }
}

/// Sizes that are classes of their own unless asked otherwise.
pub const COMMON_SIZES: usize = 3;

/// Parts of a model: those of single streams and one of the rest.
pub(super) const PARTS_MAX: usize = 8;

/// A model and how it came about.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The model.
    pub model: Model,
    /// How reading went.
    pub notes: Notes,
    /// How its level was chosen.
    pub tried: Tried,
}

/// Closed-loop throughput of a disk under the trace's beginning, and under its twins.
#[derive(Clone, Debug, Default)]
pub struct Tried {
    /// I/Os a second of the trace.
    pub trace_iops: f64,
    /// And at each level that was tried.
    pub levels: Vec<(u8, f64)>,
}

/// Fits the trace that `opening` opens, as often as it is asked to; messages call it `name`.
///
/// # Errors
/// A trace that cannot be read, holds nothing or changes; [`Error::Stopped`].
pub fn fit<P: GoOn>(
    name: &Path,
    opening: impl Fn() -> Result<Box<dyn Reader>, TraceError>,
    options: &FitOptions,
    mut progress: impl FnMut(u64) -> P,
) -> Result<Fitted, Error> {
    open::expect_file(name)?;
    let mut survey = Survey::default();
    let mut sample: Vec<Record> = Vec::new();
    let mut grouping = Grouping::new(StreamBy::Thread);
    read_through(name, &mut *opening()?, &mut progress, |batch, dictionary| {
        group(batch, &mut grouping, dictionary);
        batch.iter().for_each(|record| survey.add(record));
        let room = level::REQUESTS.saturating_sub(sample.len());
        sample.extend_from_slice(&batch[..room.min(batch.len())]);
    })?;
    let (level, tried) = match options.level {
        Some(level) => (level, Tried::default()),
        None => choose_level(&survey, &sample, options)?,
    };
    let at_level = FitOptions { level: Some(level), ..options.clone() };
    let mut fitter = Fitter::new(survey, at_level);
    let mut reader = opening()?;
    let mut grouping = Grouping::new(StreamBy::Thread);
    read_through(name, &mut *reader, &mut progress, |batch, dictionary| {
        group(batch, &mut grouping, dictionary);
        batch.iter().for_each(|record| fitter.add(record));
    })?;
    fitter.agrees(name)?;
    let mut model = fitter.finish();
    if options.names {
        name_all(&mut model, reader.dictionary(), &grouping);
    }
    check::expect_readable(name, &model)?;
    Ok(Fitted { model, notes: reader.notes().clone(), tried })
}

/// The finest level whose twin of the trace's beginning keeps a disk as busy as that does, or the one
/// that comes nearest.
fn choose_level(
    survey: &Survey,
    sample: &[Record],
    options: &FitOptions,
) -> Result<(u8, Tried), Error> {
    let trace_iops = level::closed_loop_iops(&survey.extents, sample.iter().copied())?;
    let mut tried = Tried { trace_iops, levels: Vec::new() };
    let off = |iops: f64| (iops / trace_iops.max(1e-9) - 1.0).abs();
    for level in 1..=level::TRIED_MAX {
        let at_level = FitOptions { level: Some(level), ..options.clone() };
        let mut fitter = Fitter::new(survey.clone(), at_level);
        sample.iter().for_each(|record| fitter.add(record));
        let model = fitter.finish();
        let drawn = Generator::new(&model, GenerateOptions::default());
        let iops = level::closed_loop_iops(&survey.extents, drawn)?;
        tried.levels.push((level, iops));
    }
    let close = tried.levels.iter().rev().find(|level| off(level.1) <= level::CLOSE);
    let nearest = tried.levels.iter().min_by(|a, b| off(a.1).total_cmp(&off(b.1)));
    Ok((close.or(nearest).map_or(1, |level| level.0), tried))
}

/// Streams are threads, and all write-back workers of a kernel one, as the description has them.
fn group(batch: &mut [Record], grouping: &mut Grouping, dictionary: &Dictionary) {
    batch.iter_mut().for_each(|r| r.stream = grouping.group(dictionary, r.stream));
}

fn name_all(model: &mut Model, dictionary: &Dictionary, grouping: &Grouping) {
    for (volume, name) in model.volumes.iter_mut().zip(&dictionary.volumes) {
        volume.name = Some(name.clone());
    }
    for (stream, number) in model.streams.iter_mut().zip(0..) {
        stream.name = Some(grouping.label(dictionary, number));
    }
}

/// Fits a model on what a first pass has surveyed.
pub struct Fitter {
    options: FitOptions,
    survey: Survey,
    parts: Vec<PartFitter>,
    /// The part of each stream.
    part_of: Vec<usize>,
    /// The stream of each part, if it has but one.
    owners: Vec<Option<u32>>,
}

impl Fitter {
    /// Begins.
    pub fn new(survey: Survey, options: FitOptions) -> Fitter {
        let mut busiest: Vec<(u32, u64)> = (0..).zip(survey.streams.iter().copied()).collect();
        busiest.sort_unstable_by_key(|&(stream, requests)| (std::cmp::Reverse(requests), stream));
        let own = if options.by_stream { PARTS_MAX - 1 } else { 0 };
        let (own, rest) = busiest.split_at(own.min(busiest.len()));
        let rest: u64 = rest.iter().map(|stream| stream.1).sum();
        let mut owners: Vec<Option<u32>> =
            own.iter().filter(|stream| stream.1 > 0).map(|stream| Some(stream.0)).collect();
        let mut requests: Vec<u64> = own.iter().map(|stream| stream.1).filter(|&n| n > 0).collect();
        if rest > 0 {
            owners.push(None);
            requests.push(rest);
        }
        let mut part_of = vec![owners.len() - 1; survey.streams.len()];
        for (part, owner) in owners.iter().enumerate() {
            if let Some(stream) = owner {
                part_of[*stream as usize] = part;
            }
        }
        let cells = survey.places.cells(&Space::new(&survey.extents));
        let leaves = leaves(&cells, options.level.unwrap_or(1), LEAVES_MAX);
        let parts = requests
            .iter()
            .map(|&requests| PartFitter::new(&survey, &leaves, &options, requests, owners.len()))
            .collect();
        Fitter { options, survey, parts, part_of, owners }
    }

    /// Takes the next record of the second pass.
    #[inline]
    pub fn add(&mut self, record: &Record) {
        // A stream that was not there before is told of by `agrees`.
        let part = self.part_of.get(record.stream as usize).copied().unwrap_or(0);
        self.parts[part].add(record);
    }

    /// Whether the second pass saw what the first did.
    fn agrees(&self, name: &Path) -> Result<(), Error> {
        let requests: u64 = self.parts.iter().map(|part| part.requests).sum();
        if requests == self.survey.requests {
            return Ok(());
        }
        Err(Error::Unfit(format!(
            "{}: got {requests} requests when read again, expected {}; give a file that stays as it is",
            name.display(),
            self.survey.requests
        )))
    }

    /// The model.
    pub fn finish(self) -> Model {
        let Fitter { options, survey, parts, owners, .. } = self;
        let size_bounds_bytes = parts[0].classes.0.clone();
        let parts: Vec<Part> = parts
            .into_iter()
            .zip(owners)
            .map(|(part, owner)| part.finish(owner, survey.tick_ns))
            .collect();
        // Levels that nothing needed are none.
        let levels = parts.iter().flat_map(|part| &part.states).map(|state| state.0.len() as u8);
        let volume =
            |extent: &u64| Volume { extent_mib: extent.div_ceil(GRAIN).max(1), name: None };
        Model {
            forebay_model: VERSION,
            requests: parts.iter().map(|part| part.requests).sum(),
            duration_s: digits(survey.last.0 as f64 / 1e9, 9),
            level: levels.max().unwrap_or(1),
            flat: options.flat,
            grain_bytes: survey.grain_bytes(),
            size_bounds_bytes,
            volumes: survey.extents.iter().map(volume).collect(),
            streams: survey
                .streams
                .iter()
                .map(|&requests| Submitter { requests, name: None })
                .collect(),
            parts,
        }
    }
}
