//! The verb `compare`: a card that shows how similar two traces are.
//!
//! Accepts the inputs that `simulate` accepts. The features are those of the paper (**model**,
//! section V.C: sizes, reads, sequential share, inter-arrival time, thread weights, states). In
//! addition, the card compares whole distributions, the index of dispersion, miss-ratio curves, the
//! locations of requests on the disk, and response times on device models in open replay, including
//! tails. Each figure of the first trace has a *sampling interval*, from a bootstrap over blocks of
//! its time. It shows whether the second trace differs from the first by more than the first varies
//! in itself. Response times are resampled from one run of the whole trace; resamples are not
//! simulated.

mod assemble;
mod bounds;
mod card;
mod dispersion;
mod distance;
mod latency;
mod layout;
mod measure;
mod page;
mod profile;
mod resamples;
mod response;
mod tally;
mod verb;
mod verdict;

use forebay_ask::AskError;
use forebay_core::replay::Intensity;
use forebay_core::{Device, DeviceModel};

pub use bounds::BoundCheck;
pub use card::{
    Card, CardTrace, Dispersion, Distance, Feature, Heat, MissRatio, Quantity, Response,
};
pub use latency::{GroupKind, LatencyAnswer, LatencyChange, LatencyFigure, LatencyGroup};
pub use measure::DeviationKind;
pub use verb::CompareAsk;
pub use verdict::{Aspect, Verdict};

use crate::devices::{self, OpenDevice};
use crate::{Error, Input, ProgressReport, Telling};
use card::Pictures;
use dispersion::{BINS_LEAST, BINS_MS, Bins, bin_count};
use distance::{Apart, apart, total_variation, total_variation_by_counting};
use latency::{Latencies, latency_answer, sentence};
use layout::{Layout, Side};
use measure::{Measure, measures, relative};
use profile::{
    Profile, ProfileOptions, RANGES, SIZE_DIGITS, STREAMS_MAX, STRETCHES_MAX, Sample, Sum,
    TIME_DIGITS, cache_sizes,
};
use resamples::{Against, Apartness, Resamples, two_samples};
use response::{Responses, compared, responses};
use tally::{Clock, Counts, Tally, bucket, interval, spread, whole};

/// The default devices: a disk, a SATA solid-state drive and an NVMe drive.
pub const DEVICES: [&str; 3] = ["st1000nm0011:plain", "samsung-830", "990-pro"];

/// The size, in GB, of a stand-in for a solid-state drive whose map would need too much memory. The
/// complete map of a drive of this size takes 125 MiB.
const STAND_IN_GB: u64 = 64;

/// The maximum number of blocks in a simulated cache, unless the user gave the block size.
const CACHE_BLOCKS_MAX: u64 = 1 << 22;

/// The options of `compare`.
#[derive(Clone, Debug)]
pub struct Options {
    /// The devices on which response times are compared.
    pub devices: Vec<OpenDevice>,
    /// The block size of the miss-ratio curves in bytes; `None` means 4 KiB, or more if the traces
    /// touch very many blocks.
    pub block_bytes: Option<u32>,
    /// The speed at which requests arrive at the devices, relative to the recording.
    pub intensity: f64,
    /// The share of resamples that an interval covers, such as 0.95.
    pub level: f64,
    /// The seed for drawing resamples.
    pub seed: u64,
    /// The devices' names as the user wrote them.
    names: Vec<String>,
}

impl Options {
    /// Creates options for `devices`, or for [`DEVICES`] if that is empty.
    ///
    /// # Errors
    /// Fails if a device does not exist, or if [`Intensity::new`] rejects the intensity.
    pub fn new(
        devices: &[String],
        block_kib: Option<u32>,
        intensity: f64,
        seed: u64,
    ) -> Result<Options, Error> {
        if Intensity::new(intensity).is_none() {
            let text = format!("got {intensity}, expected 1e-6 to 1e12");
            return Err(AskError::new("intensity", text).into());
        }
        let named = |name: &String| devices::open(name);
        let names = match devices {
            [] => DEVICES.map(str::to_string).to_vec(),
            names => names.to_vec(),
        };
        let devices = names.iter().map(named).collect::<Result<_, _>>()?;
        let block_bytes = block_kib.map(|kib| kib * 1024);
        Ok(Options { devices, block_bytes, intensity, level: 0.95, seed, names })
    }

    /// Returns the devices to simulate. Solid-state drives whose maps would need too much memory
    /// are replaced by smaller drives, each with a sentence that says so. A map grows with the
    /// addresses written, up to the size of the drive.
    fn affordable(&self, profiles: &[Profile; 2]) -> Result<(Vec<OpenDevice>, Vec<String>), Error> {
        let is_scattered = profiles.iter().any(|of| of.written_stretches > STRETCHES_MAX);
        let (mut devices, mut told) = (self.devices.clone(), Vec::new());
        for (device, name) in devices.iter_mut().zip(&self.names).filter(|_| is_scattered) {
            let is_large = device.model.capacity() > STAND_IN_GB * 1_000_000_000;
            let is_asked = name.contains("capacity-gb");
            if !matches!(device.model, DeviceModel::Ssd(_)) || !is_large || is_asked {
                continue;
            }
            let stand_in = format!("{name}:capacity-gb={STAND_IN_GB}");
            told.push(format!(
                "{}: the traces write to so much of this drive that its model would require \
                 gigabytes of memory, so {stand_in} is used instead",
                device.name
            ));
            *device = devices::open(&stand_in)?;
        }
        Ok((devices, told))
    }
}

/// The measurements of both traces and of the resamples.
struct Measured {
    profiles: [Profile; 2],
    devices: Vec<OpenDevice>,
    /// Sentences about drives that were replaced by smaller ones.
    stand_ins: Vec<String>,
    /// The response times of both traces on each device; empty if a trace has no times.
    responses: Vec<[Responses; 2]>,
    layout: Layout,
    block_bytes: u64,
}

/// The share of the total work that measuring the traces takes, for the progress bar.
const MEASURING_SHARE: f64 = 0.6;

/// Compares `b` with `a`, and reports to `progress` from time to time.
///
/// # Errors
/// Fails if a trace has no reads or writes, or cannot be read again.
pub fn compare(
    a: &Input,
    b: &Input,
    options: &Options,
    progress: Telling<'_>,
) -> Result<Card, Error> {
    let inputs = [a, b];
    for input in inputs {
        if input.description.requests == 0 {
            let path = input.path.display();
            let text = format!("{path}: got no reads and writes, expected at least one to compare");
            return Err(Error::Unfit(text));
        }
    }
    let looking =
        ProgressReport { doing: "counting where requests fall".to_string(), done_share: 0.0 };
    let layout = Layout::of(a, b, RANGES, &mut || progress(&looking))?;
    let block_bytes = block_bytes(inputs, options.block_bytes);
    let timed = inputs.into_iter().all(is_timed);
    let asked = ProfileOptions { block_bytes, edges: &layout.edges, timed };
    let of = |side: usize, done: u64| {
        (done as f64 / inputs[side].description.records.max(1) as f64).min(1.0)
    };
    let mut profile = |side: usize| {
        let doing = format!("measuring {}", inputs[side].path.display());
        let mut told = |done| {
            let done_share = MEASURING_SHARE * (side as f64 + of(side, done)) / 2.0;
            progress(&ProgressReport { doing: doing.clone(), done_share })
        };
        Profile::of(inputs[side], &layout.sides[side], asked, &mut told)
    };
    let profiles = [profile(0)?, profile(1)?];
    let mut simulated = Vec::new();
    let (devices, stand_ins) = options.affordable(&profiles)?;
    for (nth, device) in devices.iter().enumerate().filter(|_| asked.timed) {
        let mut on = |side: usize| {
            let doing = format!("simulating {} on {}", inputs[side].path.display(), device.name);
            let clock = profiles[side].clock;
            let run = (inputs[side], &layout.sides[side], clock);
            let mut told = |done| {
                // A run counts each request twice: on arrival and on completion.
                let done = (2 * nth + side) as f64 + of(side, done / 2);
                let simulated = done / (2 * devices.len()) as f64;
                let done_share = MEASURING_SHARE + (1.0 - MEASURING_SHARE) * simulated;
                progress(&ProgressReport { doing: doing.clone(), done_share })
            };
            responses(run, device, options.intensity, &mut told)
        };
        simulated.push([on(0)?, on(1)?]);
    }
    let measured =
        Measured { profiles, devices, stand_ins, responses: simulated, layout, block_bytes };
    Ok(assemble::card(inputs, &measured, options))
}

/// Returns whether the trace has usable arrival times.
fn is_timed(input: &Input) -> bool {
    !input.notes.is_timeless && input.description.duration_s > 0.0 && input.description.requests > 1
}

/// Returns the block size of the miss-ratio curves in bytes.
fn block_bytes(inputs: [&Input; 2], asked: Option<u32>) -> u64 {
    let largest = inputs.iter().map(|input| input.description.footprint_bytes).max().unwrap_or(0);
    let enough = |bytes: &u64| largest / bytes <= CACHE_BLOCKS_MAX;
    let found = || (12..26).map(|bits| 1u64 << bits).find(enough).unwrap_or(1 << 26);
    asked.map_or_else(found, u64::from)
}

/// Converts the clock of the first trace's recording to that of a run at another speed.
fn run_clock(clock: Clock, intensity: f64) -> Clock {
    match clock {
        Clock::Times(duration) => {
            Clock::Times(forebay_core::Nanos((duration.0 as f64 / intensity) as u64))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests;
