//! Assembles the card of `compare` from the measurements.

use super::tally::{Clock, Counts, RESAMPLES, resamples, whole};
use super::verdict::{Verdict, verdict};
use super::{
    Against, Apart, Apartness, BINS_LEAST, BINS_MS, Card, CardTrace, Dispersion, Distance, Feature,
    Heat, LatencyAnswer, Layout, Measure, Measured, MissRatio, Options, Pictures, Profile,
    Quantity, Resamples, Responses, SIZE_DIGITS, Sample, Sum, TIME_DIGITS, bin_count, cache_sizes,
    compared, latency_answer, measures, relative, sentence, total_variation_by_counting,
    two_samples,
};
use crate::quantities::percent;
use crate::{Input, names};
use forebay_ask::named;
use forebay_words::plural::counted;

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
    let requests = inputs.map(|input| input.description.requests);
    let two_samples = two_samples(requests);
    let mut drawn = Resamples { level: options.level, two_samples, ..Resamples::default() };
    for weights in &weights {
        let sample = a.weigh(weights);
        drawn.figures.push(against.figures(&sample, 0));
        drawn.apart.push(against.apart(&sample));
    }
    let quantities = quantities(&against, &whole_b, &drawn);
    let (features, dispersions) = quantities.split_at(against.measures.len());
    let found = against.apart(&whole_b);
    let mut card = Card {
        a: trace(inputs[0], a),
        b: trace(inputs[1], b),
        verdict: Verdict::default(),
        features: against.measures.iter().zip(features).filter_map(feature).collect(),
        distances: distances(&against.whole, &found, &drawn),
        dispersion: scales([&against.whole, &whole_b], dispersions),
        mrc_block_bytes: measured.block_bytes,
        mrc_mean_error: found.mrc,
        mrc_mean_error_itself: drawn.itself(|apart| Some(apart.mrc)).unwrap_or(0.0),
        mrc: curves(&against, &whole_b, measured.block_bytes),
        heat: heat([&against.whole, &whole_b], found.heat, &drawn, &measured.layout),
        responses: measured
            .responses
            .iter()
            .zip(&measured.devices)
            .map(|(both, device)| compared(device, both, &weights, (options.level, two_samples)))
            .collect(),
        latencies: latencies(inputs, [a, b], &weights, options.level),
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

fn trace(input: &Input, profile: &Profile) -> CardTrace {
    CardTrace {
        trace: input.path.display().to_string(),
        requests: input.description.requests,
        duration_s: input.description.duration_s,
        has_latencies: profile.latencies.is_known(),
        footprint_blocks: profile.footprint_blocks,
        sampled_one_in: profile.sampled_one_in,
    }
}

/// Compares the recorded latencies; `None` if either trace has none.
fn latencies(
    inputs: [&Input; 2],
    profiles: [&Profile; 2],
    weights: &[Vec<u64>],
    level: f64,
) -> Option<LatencyAnswer> {
    let duration_s = match profiles[1].clock {
        Clock::Times(_) => Some(inputs[1].description.duration_s),
        Clock::Records(_) => None,
    };
    let both = profiles.map(|profile| &profile.latencies);
    let mut answer = latency_answer(both, duration_s, weights, level)?;
    let paths = inputs.map(|input| input.path.display().to_string());
    let names = names::numbered(&[&paths[0], &paths[1]]);
    answer.text = sentence(&answer, &names[0], &names[1]);
    Some(answer)
}

/// Returns every figure of both traces with its interval; `None` if either trace lacks the figure.
fn quantities(against: &Against, b: &Sample, drawn: &Resamples) -> Vec<Option<Quantity>> {
    let both = against.figures(&against.whole, 0).into_iter().zip(against.figures(b, 1));
    let quantity = |(index, (a, b)): (usize, (Option<f64>, Option<f64>))| {
        let (a, b) = (a?, b?);
        let (a_low, a_high) = drawn.interval(index, a).unwrap_or((a, a));
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

/// Returns the indices of dispersion at each scale at which both traces have enough bins.
fn scales(samples: [&Sample; 2], dispersions: &[Option<Quantity>]) -> Vec<Dispersion> {
    let bins = |scale: usize| {
        let [a, b] = samples.map(|of| of.bins.as_ref().map_or(0, |bins| bin_count(bins, scale)));
        a.min(b)
    };
    let one = |(scale, quantity): (usize, &Option<Quantity>)| {
        let (bins, quantity) = (bins(scale), (*quantity)?);
        (bins >= BINS_LEAST).then_some(Dispersion { bin_ms: BINS_MS[scale], bins, quantity })
    };
    dispersions.iter().enumerate().filter_map(one).collect()
}

fn distances(a: &Sample, found: &Apartness, drawn: &Resamples) -> Vec<Distance> {
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

fn heat(samples: [&Sample; 2], total_variation: f64, drawn: &Resamples, layout: &Layout) -> Heat {
    let [a, b] = samples.map(|sample| {
        let requests = sample.of(Sum::Requests).max(1) as f64;
        sample.heat().into_iter().map(|count| count as f64 / requests).collect()
    });
    let total_variation_itself = drawn.itself(|apart| Some(apart.heat)).unwrap_or(0.0);
    let by_counting = total_variation_by_counting(&samples[0].heat(), &samples[1].heat());
    let (range_bytes, comparable) = (layout.range_bytes, layout.shared);
    Heat { range_bytes, total_variation, total_variation_itself, by_counting, comparable, a, b }
}

/// Returns two lists: comparisons that were left out, and cautions.
fn told(inputs: [&Input; 2], measured: &Measured, card: &Card) -> (Vec<String>, Vec<String>) {
    let mut left_out = Vec::new();
    for input in inputs.iter().filter(|input| !super::is_timed(input)) {
        left_out.push(format!(
            "{} has no arrival times: inter-arrival times, burstiness and responses are left out, \
             and it is cut into blocks with equal numbers of requests",
            input.path.display()
        ));
    }
    let (has, lacks): (Vec<_>, Vec<_>) =
        [&card.a, &card.b].into_iter().partition(|of| of.has_latencies);
    if let ([_], [lacking]) = (&has[..], &lacks[..]) {
        left_out
            .push(format!("{} has no recorded latencies, so they are not compared", lacking.trace));
    }
    let mut cautions = measured.stand_ins.clone();
    let shares = card.latencies.as_ref().map(|of| [of.a_known_share, of.b_known_share]);
    for (of, share) in [&card.a, &card.b].into_iter().zip(shares.unwrap_or([1.0; 2])) {
        if share < 1.0 {
            cautions.push(format!(
                "{}: {} of its reads and writes have a recorded latency; only those are compared",
                of.trace,
                percent(share)
            ));
        }
    }
    let volumes = inputs.map(|input| input.extents.len());
    if !measured.layout.shared {
        cautions.push(format!(
            "the first trace has {} and the second {}: they are laid end to end, so positions on the \
             disk are not comparable",
            counted(volumes[0] as u64, "volume"),
            volumes[1]
        ));
    }
    for (profile, input) in measured.profiles.iter().zip(inputs) {
        if profile.sampled_one_in > 1 {
            cautions.push(format!(
                "{}: its miss ratios and its footprint are estimated from one in {} of its blocks",
                input.path.display(),
                profile.sampled_one_in
            ));
        }
    }
    for (response, both) in card.responses.iter().zip(&measured.responses) {
        let which = match (response.a_overloaded, response.b_overloaded) {
            (true, true) => "both traces leave",
            (true, false) => "the first trace leaves",
            (false, true) => "the second trace leaves",
            (false, false) => "",
        };
        if !which.is_empty() {
            cautions.push(format!(
                "{}: {which} it with a backlog at the end, or without any pause, so \
                 responses measure the backlog; use a lower {} or a faster {}",
                response.device,
                named("intensity"),
                named("device")
            ));
        }
        if both.iter().any(|run| run.moved) {
            cautions.push(format!(
                "{}: the traces extend beyond this device: long unused gaps are left out, and if \
                 the traces still do not fit, they are scaled",
                response.device
            ));
        }
    }
    // Comparing a trace with itself would repeat each sentence.
    left_out.dedup();
    cautions.dedup();
    (left_out, cautions)
}

/// The number of steps to which a line of a chart is thinned.
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

/// Returns the cumulative distribution of `counts` for a step chart, as (value, share of counts up
/// to that value), thinned to [`POINTS`].
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
