//! The card: every figure of both traces, the first one's with its sampling interval.

use serde::Serialize;

use super::arrivals::{BINS_MS, dispersion};
use super::distance::{Apart, apart, total_variation};
use super::measure::{DeviationKind, Measure, measures, relative};
use super::profile::{RANGES, SIZE_DIGITS, Sample, Sum, TIME_DIGITS, cache_sizes};
use super::response::{Responses, scheduler};
use super::tally::{Counts, RESAMPLES, interval, resamples, whole};
use super::verdict::{Verdict, verdict};
use super::{Measured, Options};
use crate::input::Input;

/// How alike two traces are.
#[derive(Clone, Debug, Serialize)]
pub struct Card {
    /// The first trace, which is the measure.
    pub a: CardTrace,
    /// The second, which is held against it.
    pub b: CardTrace,
    /// The answer in a sentence, and each aspect of it.
    pub verdict: Verdict,
    /// The paper's features.
    pub features: Vec<Feature>,
    /// Of whole distributions.
    pub distances: Vec<Distance>,
    /// Burstiness by time scale; empty without times.
    pub dispersion: Vec<Dispersion>,
    /// Bytes of a block of the miss-ratio curves.
    pub mrc_block_bytes: u64,
    /// Mean absolute difference of the miss ratios of LRU caches, over the sizes of [`Card::mrc`].
    pub mrc_mean_error: f64,
    /// The same of the first trace and its resamples: `level` of them stay below.
    pub mrc_mean_error_itself: f64,
    /// The curves, at sizes that grow by an eighth of a doubling up to the larger footprint.
    pub mrc: Vec<MissRatio>,
    /// Where on the disk requests begin.
    pub heat: Heat,
    /// On each device; empty without times.
    pub responses: Vec<Response>,
    /// What could not be compared, and why.
    pub left_out: Vec<String>,
    /// What else is to be kept in mind.
    pub cautions: Vec<String>,
    /// Share of the resamples that an interval holds.
    pub level: f64,
    /// Resamples drawn of blocks of the first trace's time.
    pub resamples: usize,
    /// What made them.
    pub seed: u64,
    /// Distributions for the report.
    #[serde(skip)]
    pub pictures: Pictures,
}

/// One of both traces.
#[derive(Clone, Debug, Serialize)]
pub struct CardTrace {
    /// Its path.
    pub trace: String,
    /// Reads and writes.
    pub requests: u64,
    /// From its first record to its last.
    pub duration_s: f64,
    /// Distinct blocks of the miss-ratio curve.
    pub footprint_blocks: u64,
}

/// A figure of both traces.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quantity {
    /// Of the first.
    pub a: f64,
    /// Of the second.
    pub b: f64,
    /// How far the second is from the first; none where it has no measure.
    pub deviation: Option<f64>,
    /// Lower end of the first one's sampling interval.
    pub a_low: f64,
    /// Upper end.
    pub a_high: f64,
}

impl Quantity {
    /// Whether the second figure is one that the first trace itself might have had.
    pub fn is_within_interval(&self) -> bool {
        self.a_low <= self.b && self.b <= self.a_high
    }
}

/// A feature.
#[derive(Clone, Debug, Serialize)]
pub struct Feature {
    /// What: the unit is its last word, before a colon where one of several is named.
    pub name: String,
    /// How its deviation is counted.
    pub deviation_kind: DeviationKind,
    /// Its figures.
    #[serde(flatten)]
    pub quantity: Quantity,
}

/// How far apart two distributions are; `_itself` is what `level` of the resamples of the first
/// trace stay below.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Distance {
    /// Of what, its unit last.
    pub of: &'static str,
    /// Kolmogorov-Smirnov: greatest difference of the shares up to a value.
    pub ks: f64,
    /// The same of the first trace and itself.
    pub ks_itself: f64,
    /// Wasserstein-1, in the unit.
    pub wasserstein: f64,
    /// The same over the first trace's mean; none where that is 0.
    pub wasserstein_over_mean: Option<f64>,
    /// The same of the first trace and itself.
    pub wasserstein_over_mean_itself: Option<f64>,
}

/// Index of dispersion for counts: variance over mean of the requests in bins of a length.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Dispersion {
    /// The bins' length.
    pub bin_ms: u64,
    /// The figures; relative deviation.
    #[serde(flatten)]
    pub quantity: Quantity,
}

/// A cache of one size.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct MissRatio {
    /// Its size.
    pub size_mib: f64,
    /// Miss ratio on the first trace.
    pub a: f64,
    /// And on the second.
    pub b: f64,
}

/// Shares of the requests in equal ranges of the longer trace's span.
#[derive(Clone, Debug, Serialize)]
pub struct Heat {
    /// Bytes of a range.
    pub range_bytes: u64,
    /// Share of the requests that fall elsewhere.
    pub total_variation: f64,
    /// The same of the first trace and itself.
    pub total_variation_itself: f64,
    /// Of the first trace.
    pub a: Vec<f64>,
    /// Of the second.
    pub b: Vec<f64>,
}

/// Times from arrival to completion on a device, in open replay.
#[derive(Clone, Debug, Serialize)]
pub struct Response {
    /// The device.
    pub device: String,
    /// Under which scheduler.
    pub policy: &'static str,
    /// Share of the run in which the device was at work.
    pub a_busy_share: f64,
    /// The same of the second trace.
    pub b_busy_share: f64,
    /// Whether requests come faster than they can be served: responses then measure the load alone.
    pub a_overloaded: bool,
    /// The same of the second trace.
    pub b_overloaded: bool,
    /// Mean.
    pub mean_ms: Quantity,
    /// What half of the requests do not exceed.
    pub p50_ms: Quantity,
    /// 90 %.
    pub p90_ms: Quantity,
    /// 99 %.
    pub p99_ms: Quantity,
    /// 99.9 %.
    pub p999_ms: Quantity,
}

impl Response {
    /// Each figure with its name.
    pub fn quantities(&self) -> [(&'static str, &Quantity); 5] {
        [
            ("mean_ms", &self.mean_ms),
            ("p50_ms", &self.p50_ms),
            ("p90_ms", &self.p90_ms),
            ("p99_ms", &self.p99_ms),
            ("p999_ms", &self.p999_ms),
        ]
    }
}

/// Cumulative distributions of both traces: (value, share).
#[derive(Clone, Debug, Default)]
pub struct Pictures {
    /// Sizes in KiB.
    pub sizes: [Vec<(f64, f64)>; 2],
    /// Inter-arrival times in milliseconds.
    pub gaps: [Vec<(f64, f64)>; 2],
    /// Responses in milliseconds, for each device.
    pub responses: Vec<[Vec<(f64, f64)>; 2]>,
}

/// Distances of a sample from the first trace as a whole.
#[derive(Clone, Copy, Debug, Default)]
struct Apartness {
    sizes: Apart,
    gaps: Option<Apart>,
    mrc: f64,
    heat: f64,
}

/// The first trace, and what others are held against.
struct Against {
    measures: Vec<Measure>,
    whole: Sample,
    cache_sizes: usize,
    miss_ratios: Vec<f64>,
}

impl Against {
    fn apart(&self, other: &Sample) -> Apartness {
        let values = |counts: &Counts, digits| counts.values(digits);
        let gaps = |sample: &Sample| values(&sample.gaps, TIME_DIGITS);
        let sizes = |sample: &Sample| values(&sample.sizes, SIZE_DIGITS);
        let ratios = other.miss_ratios(self.cache_sizes);
        let errors = self.miss_ratios.iter().zip(&ratios).map(|(a, b)| (a - b).abs());
        Apartness {
            sizes: apart(&sizes(&self.whole), &sizes(other)).unwrap_or_default(),
            gaps: apart(&gaps(&self.whole), &gaps(other)),
            mrc: errors.sum::<f64>() / self.cache_sizes.max(1) as f64,
            heat: total_variation(&self.whole.heat(), &other.heat()),
        }
    }

    /// Features, then dispersions.
    fn figures(&self, sample: &Sample, side: usize) -> Vec<Option<f64>> {
        let features = self.measures.iter().map(|measure| measure.of(sample, side));
        let scale = |scale| sample.bins.as_ref().and_then(|bins| dispersion(bins, scale));
        features.chain((0..BINS_MS.len()).map(scale)).collect()
    }
}

/// What resampling the first trace gave.
#[derive(Default)]
struct Drawn {
    figures: Vec<Vec<Option<f64>>>,
    apart: Vec<Apartness>,
    level: f64,
}

impl Drawn {
    fn interval(&self, figure: usize) -> Option<(f64, f64)> {
        interval(self.figures.iter().filter_map(|drawn| drawn[figure]).collect(), self.level)
    }

    /// What the share `level` stays below.
    fn itself(&self, of: impl Fn(&Apartness) -> Option<f64>) -> Option<f64> {
        let drawn = self.apart.iter().filter_map(of).collect();
        // The upper end of the interval that leaves out as much on both sides.
        interval(drawn, 2.0 * self.level - 1.0).map(|(_, high)| high)
    }
}

pub(super) fn card(inputs: [&Input; 2], measured: &Measured, options: &Options) -> Card {
    let weights = resamples(options.seed);
    let [a, b] = [&measured.profiles[0], &measured.profiles[1]];
    let [whole_a, whole_b] = [a.weigh(&whole()), b.weigh(&whole())];
    let largest = a.footprint_blocks.max(b.footprint_blocks);
    let sizes = cache_sizes().partition_point(|&size| size < largest) + 1;
    let against = Against {
        measures: measures(inputs, [&whole_a, &whole_b], a.clock),
        miss_ratios: whole_a.miss_ratios(sizes),
        whole: whole_a,
        cache_sizes: sizes,
    };
    let mut drawn = Drawn { level: options.level, ..Drawn::default() };
    for weights in &weights {
        let sample = a.weigh(weights);
        drawn.figures.push(against.figures(&sample, 0));
        drawn.apart.push(against.apart(&sample));
    }
    let quantities = quantities(&against, &whole_b, &drawn);
    let (features, dispersions) = quantities.split_at(against.measures.len());
    let found = against.apart(&whole_b);
    let mut card = Card {
        a: trace(inputs[0], a.footprint_blocks),
        b: trace(inputs[1], b.footprint_blocks),
        verdict: Verdict::default(),
        features: against.measures.iter().zip(features).filter_map(feature).collect(),
        distances: distances(&against.whole, &found, &drawn),
        dispersion: BINS_MS.iter().zip(dispersions).filter_map(scale).collect(),
        mrc_block_bytes: measured.block_bytes,
        mrc_mean_error: found.mrc,
        mrc_mean_error_itself: drawn.itself(|apart| Some(apart.mrc)).unwrap_or(0.0),
        mrc: curves(&against, &whole_b, measured.block_bytes),
        heat: heat([&against.whole, &whole_b], found.heat, &drawn, measured.layout.span),
        responses: measured
            .responses
            .iter()
            .zip(&options.devices)
            .map(|(both, device)| {
                let name = (device.name.clone(), scheduler(device));
                response(name, both, &weights, options.level)
            })
            .collect(),
        left_out: Vec::new(),
        cautions: Vec::new(),
        level: options.level,
        resamples: RESAMPLES,
        seed: options.seed,
        pictures: pictures([&against.whole, &whole_b], measured),
    };
    (card.left_out, card.cautions) = told(inputs, measured, &card);
    card.verdict = verdict(&card);
    card
}

fn trace(input: &Input, footprint_blocks: u64) -> CardTrace {
    CardTrace {
        trace: input.path.display().to_string(),
        requests: input.description.requests,
        duration_s: input.description.duration_s,
        footprint_blocks,
    }
}

/// Every figure with its interval; none where either trace has none.
fn quantities(against: &Against, b: &Sample, drawn: &Drawn) -> Vec<Option<Quantity>> {
    let both = against.figures(&against.whole, 0).into_iter().zip(against.figures(b, 1));
    let quantity = |(index, (a, b)): (usize, (Option<f64>, Option<f64>))| {
        let (a, b) = (a?, b?);
        let (a_low, a_high) = drawn.interval(index).unwrap_or((a, a));
        let deviation = match against.measures.get(index) {
            Some(measure) => measure.deviation(a, b),
            None => relative(a, b),
        };
        Some(Quantity { a, b, deviation, a_low, a_high })
    };
    both.enumerate().map(quantity).collect()
}

fn feature((measure, quantity): (&Measure, &Option<Quantity>)) -> Option<Feature> {
    let (name, deviation_kind) = (measure.name.clone(), measure.kind);
    quantity.map(|quantity| Feature { name, deviation_kind, quantity })
}

fn scale((bin_ms, quantity): (&u64, &Option<Quantity>)) -> Option<Dispersion> {
    quantity.map(|quantity| Dispersion { bin_ms: *bin_ms, quantity })
}

fn distances(a: &Sample, found: &Apartness, drawn: &Drawn) -> Vec<Distance> {
    let over = |value: f64, mean: f64| (mean > 0.0).then(|| value / mean);
    let mean = |part, whole| a.of(part) as f64 / a.of(whole).max(1) as f64;
    let distance =
        |of, apart: Apart, unit: f64, mean: f64, itself: &dyn Fn(&Apartness) -> Option<Apart>| {
            Distance {
                of,
                ks: apart.ks,
                ks_itself: drawn.itself(|drawn| Some(itself(drawn)?.ks)).unwrap_or(0.0),
                wasserstein: apart.wasserstein * unit,
                wasserstein_over_mean: over(apart.wasserstein, mean),
                wasserstein_over_mean_itself: drawn
                    .itself(|drawn| over(itself(drawn)?.wasserstein, mean)),
            }
        };
    let size = mean(Sum::Bytes, Sum::Requests);
    let gap = mean(Sum::GapTime, Sum::Gaps);
    let sizes = distance("size_bytes", found.sizes, 1.0, size, &|apart| Some(apart.sizes));
    let gaps =
        found.gaps.map(|gaps| distance("inter_arrival_ms", gaps, 1e-6, gap, &|apart| apart.gaps));
    std::iter::once(sizes).chain(gaps).collect()
}

fn curves(against: &Against, b: &Sample, block_bytes: u64) -> Vec<MissRatio> {
    let ratios = against.miss_ratios.iter().zip(b.miss_ratios(against.cache_sizes));
    let mib = |blocks: u64| blocks as f64 * block_bytes as f64 / f64::from(1 << 20);
    let point = |(size, (&a, b))| MissRatio { size_mib: mib(size), a, b };
    cache_sizes().into_iter().zip(ratios).map(point).collect()
}

fn heat(samples: [&Sample; 2], total_variation: f64, drawn: &Drawn, span: u64) -> Heat {
    let [a, b] = samples.map(|sample| {
        let requests = sample.of(Sum::Requests).max(1) as f64;
        sample.heat().into_iter().map(|count| count as f64 / requests).collect()
    });
    let total_variation_itself = drawn.itself(|apart| Some(apart.heat)).unwrap_or(0.0);
    Heat {
        range_bytes: span.div_ceil(RANGES as u64),
        total_variation,
        total_variation_itself,
        a,
        b,
    }
}

const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

/// Mean and quantiles in milliseconds.
fn response_figures(of: &Responses, weights: &[u64]) -> [Option<f64>; 5] {
    let (sums, times) = (of.sums.weigh(weights), of.times.weigh(weights));
    let mean = (sums.of(0) > 0).then(|| sums.of(1) as f64 / sums.of(0) as f64 / 1e6);
    let [p50, p90, p99, p999] =
        QUANTILES.map(|q| times.quantile(q, TIME_DIGITS).map(|ns| ns / 1e6));
    [mean, p50, p90, p99, p999]
}

fn response(
    (device, policy): (String, &'static str),
    [a, b]: &[Responses; 2],
    weights: &[Vec<u64>],
    level: f64,
) -> Response {
    let drawn: Vec<_> = weights.iter().map(|weights| response_figures(a, weights)).collect();
    let (found_a, found_b) = (response_figures(a, &whole()), response_figures(b, &whole()));
    let quantity = |index: usize| {
        let (a, b) = (found_a[index].unwrap_or(0.0), found_b[index].unwrap_or(0.0));
        let (a_low, a_high) =
            interval(drawn.iter().filter_map(|drawn| drawn[index]).collect(), level)
                .unwrap_or((a, a));
        Quantity { a, b, deviation: relative(a, b), a_low, a_high }
    };
    Response {
        device,
        policy,
        a_busy_share: a.busy_share,
        b_busy_share: b.busy_share,
        a_overloaded: a.overloaded,
        b_overloaded: b.overloaded,
        mean_ms: quantity(0),
        p50_ms: quantity(1),
        p90_ms: quantity(2),
        p99_ms: quantity(3),
        p999_ms: quantity(4),
    }
}

/// What was left out, and what else is to be known.
fn told(inputs: [&Input; 2], measured: &Measured, card: &Card) -> (Vec<String>, Vec<String>) {
    let mut left_out = Vec::new();
    for input in inputs.iter().filter(|input| !super::is_timed(input)) {
        left_out.push(format!(
            "{} has no arrival times: inter-arrival times, burstiness and responses are left out, \
             and it is cut into blocks of equally many requests",
            input.path.display()
        ));
    }
    let mut cautions = Vec::new();
    let volumes = inputs.map(|input| input.extents.len());
    if !measured.layout.shared {
        cautions.push(format!(
            "the first trace has {} volumes and the second {}: they are laid end to end, and places \
             on the disk mean little",
            volumes[0], volumes[1]
        ));
    }
    for (response, both) in card.responses.iter().zip(&measured.responses) {
        let which = match (response.a_overloaded, response.b_overloaded) {
            (true, true) => "both traces ask",
            (true, false) => "the first trace asks",
            (false, true) => "the second trace asks",
            (false, false) => "",
        };
        if !which.is_empty() {
            cautions.push(format!(
                "{}: {which} for more than it can serve, so responses measure the backlog; a \
                 lower --intensity or a faster --device says more",
                response.device
            ));
        }
        if both.iter().any(|run| run.moved > 0) {
            cautions.push(format!(
                "{}: the traces reach beyond it and are scaled to fit",
                response.device
            ));
        }
    }
    (left_out, cautions)
}

/// Points of a picture's line.
const POINTS: usize = 300;

fn pictures(samples: [&Sample; 2], measured: &Measured) -> Pictures {
    let responses = |[a, b]: &[Responses; 2]| {
        [a, b].map(|of| cumulative(&of.times.weigh(&whole()), TIME_DIGITS, 1e-6))
    };
    Pictures {
        sizes: samples.map(|sample| cumulative(&sample.sizes, SIZE_DIGITS, 1.0 / 1024.0)),
        gaps: samples.map(|sample| cumulative(&sample.gaps, TIME_DIGITS, 1e-6)),
        responses: measured.responses.iter().map(responses).collect(),
    }
}

/// (value, share of what is not above it), in steps, thinned to [`POINTS`].
fn cumulative(counts: &Counts, digits: u32, unit: f64) -> Vec<(f64, f64)> {
    let (values, total) = (counts.values(digits), counts.total().max(1) as f64);
    let mut points = Vec::new();
    let (mut below, mut told) = (0u64, 0u64);
    for (index, &(value, count)) in values.iter().enumerate() {
        let before = below;
        below += count;
        let is_last = index + 1 == values.len();
        if is_last || index == 0 || (below - told) as f64 >= total / POINTS as f64 {
            points.push((value * unit, before as f64 / total));
            points.push((value * unit, below as f64 / total));
            told = below;
        }
    }
    points
}
