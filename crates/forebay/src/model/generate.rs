//! The verb `generate`: requests drawn from a model, one after another, as a trace is read.
//!
//! Each transition is a thread in the paper's sense, with a budget of requests for each period; the
//! next one is drawn among those that can follow, by how likely they are after such a gap and by how
//! much of their budget is left. So budgets are met exactly at the end of each period, and the
//! weights of a whole cycle are the model's. A run that is longer begins again, all parts together: one
//! that is done before the others waits for the cycle's end.

mod categories;
mod choose;
mod clock;
mod draw;
mod part;
mod periods;
mod ranges;
mod source;
mod states;

use std::path::Path;

use forebay_core::Nanos;
use forebay_trace::{Dictionary, Notes, Reader, Record, Stream, TraceError, trace};

use super::file::{Model, Part};
use crate::error::Error;
use source::Source;

/// What is drawn.
#[derive(Clone, Copy, Debug)]
pub struct GenerateOptions {
    /// The same seed gives the same requests.
    pub seed: u64,
    /// How many, if not as many as the model was fitted on.
    pub requests: Option<u64>,
    /// Until when, if not as long as the model's trace.
    pub until: Option<Nanos>,
    /// How much faster.
    pub intensity: f64,
}

impl Default for GenerateOptions {
    fn default() -> GenerateOptions {
        GenerateOptions { seed: 0, requests: None, until: None, intensity: 1.0 }
    }
}

impl GenerateOptions {
    /// Refuses a length of time of a model that has none, called `name`: there is no end to it.
    ///
    /// # Errors
    /// A model whose requests all come at once.
    pub fn expect_end(&self, name: &Path, model: &Model) -> Result<(), Error> {
        let begin_ns = model.parts.iter().map(Part::begin_ns).min().unwrap_or(0);
        if self.requests.is_some() || self.until.is_none() || cycle_ns(model) > begin_ns {
            return Ok(());
        }
        Err(Error::Unfit(format!(
            "{}: got a length of time for a model whose requests all come at once, expected a number \
             of requests",
            name.display()
        )))
    }
}

/// When the last request of all parts comes.
fn cycle_ns(model: &Model) -> u64 {
    model.parts.iter().map(Part::end_ns).max().unwrap_or(0)
}

/// Draws requests from a model.
pub struct Generator {
    parts: Vec<Source>,
    left: u64,
    until: Nanos,
    intensity: f64,
    dictionary: Dictionary,
    notes: Notes,
}

impl Generator {
    /// From a model that was checked.
    pub fn new(model: &Model, options: GenerateOptions) -> Generator {
        let goes_on = options.requests.is_some() || options.until.is_some();
        let cycle_ns = (model.parts.len() > 1).then(|| cycle_ns(model));
        let parts = (0..model.parts.len())
            .map(|index| Source::new(model, index, options.seed, (goes_on, cycle_ns)))
            .collect();
        let left = match (options.requests, options.until) {
            (Some(requests), _) => requests,
            (None, Some(_)) => u64::MAX,
            (None, None) => model.parts.iter().map(|part| part.requests).sum(),
        };
        let streams = model.streams.iter().zip(0u32..).map(|(stream, number)| Stream {
            thread: Some(number),
            process: None,
            name: stream.name.clone().unwrap_or_default(),
        });
        let volumes = model.volumes.iter().zip(0u32..);
        Generator {
            parts,
            left,
            until: options.until.unwrap_or(Nanos::MAX),
            intensity: options.intensity,
            dictionary: Dictionary {
                streams: streams.collect(),
                volumes: volumes
                    .map(|(volume, number)| volume.name.clone().unwrap_or(number.to_string()))
                    .collect(),
            },
            notes: Notes { format: "model", ..Notes::default() },
        }
    }
}

impl Iterator for Generator {
    type Item = Record;

    #[inline]
    fn next(&mut self) -> Option<Record> {
        if self.left == 0 {
            return None;
        }
        let source = match &mut self.parts[..] {
            [source] => source,
            several => several.iter_mut().min_by_key(|source| source.at())?,
        };
        let mut record = source.take()?;
        if self.intensity != 1.0 {
            record.at = Nanos((record.at.0 as f64 / self.intensity).round() as u64);
        }
        if record.at > self.until {
            self.left = 0;
            return None;
        }
        self.left -= 1;
        Some(record)
    }
}

impl Reader for Generator {
    fn read(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        batch.clear();
        while batch.len() < trace::BATCH {
            let Some(record) = self.next() else { break };
            batch.push(record);
        }
        Ok(())
    }

    fn dictionary(&self) -> &Dictionary {
        &self.dictionary
    }

    fn notes(&self) -> &Notes {
        &self.notes
    }
}
