//! The distributions of both traces side by side.

use super::super::charts::{legend, series_class};
use super::super::page::{figure, section};
use super::super::plot::{Axis, Caption, Plot};
use super::super::text::{escape, significant};
use crate::model::compare::{Card, Quantity};

/// Two lines over one axis: (x, y) of each trace.
type Lines<'a> = [&'a [(f64, f64)]; 2];

pub(super) fn pictures(card: &Card) -> String {
    let both = |pair: &[Vec<(f64, f64)>; 2]| pair.clone();
    let [sizes_a, sizes_b] = both(&card.pictures.sizes);
    let [gaps_a, gaps_b] = both(&card.pictures.gaps);
    let label = Some(kib as fn(f64) -> String);
    let mut all = cumulative("sizes", "Sizes of requests", [&sizes_a, &sizes_b], "size", label);
    all += &cumulative("gaps", "Times between arrivals", [&gaps_a, &gaps_b], "time", None);
    all += &miss_ratios(card);
    all += &dispersions(card);
    let legend = legend(["A", "B"].into_iter());
    section("Side by side", &format!("{legend}<div class=\"pair\">{all}</div>{}", heat(card)))
}

const SIZE: (f64, f64) = (560.0, 300.0);

/// A size in KiB.
fn kib(kib: f64) -> String {
    format!("{}\u{a0}KiB", kib as f32)
}

/// A size in MiB.
fn mib(mib: f64) -> String {
    format!("{}\u{a0}MiB", mib as f32)
}

fn draw(plot: &mut Plot, lines: Lines<'_>) {
    for (index, points) in lines.iter().enumerate() {
        plot.line(points, &format!("series {}", series_class(index)));
    }
}

/// The span of the values above zero.
fn span(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let positive = values.filter(|value| value.is_finite() && *value > 0.0);
    let found = positive.fold((f64::MAX, 0.0f64), |(low, high), v| (low.min(v), high.max(v)));
    if found.1 > 0.0 { found } else { (0.1, 10.0) }
}

/// Cumulative distributions of both traces; empty where neither has a point.
pub(super) fn cumulative(
    id: &str,
    title: &str,
    lines: Lines<'_>,
    unit: &str,
    label: Option<fn(f64) -> String>,
) -> String {
    if lines.iter().all(|points| points.is_empty()) {
        return String::new();
    }
    let description = "The share of the requests that do not exceed a value, of both traces.";
    let (low, high) = span(lines.iter().flat_map(|points| points.iter().map(|point| point.0)));
    let (left, right) = Plot::across(SIZE.0);
    let (bottom, top) = Plot::upwards(SIZE.1);
    let mut x = Axis::decades(low, high, left, right);
    if let Some(label) = label {
        x = x.labelled(label);
    }
    let y = Axis::linear(100.0, bottom, top);
    let caption = Caption { id, title, description };
    let mut plot =
        Plot::new(&caption, SIZE, (x, &format!("{unit} (logarithmic)")), (y, "requests, %"));
    let percent = |points: &[(f64, f64)]| -> Vec<(f64, f64)> {
        points.iter().map(|&(value, share)| (value, share * 100.0)).collect()
    };
    draw(&mut plot, [&percent(lines[0]), &percent(lines[1])]);
    figure(&plot.finish(), &format!("<b>{}</b>", escape(title)))
}

fn miss_ratios(card: &Card) -> String {
    let caption = Caption {
        id: "mrc",
        title: "Miss ratio of LRU caches",
        description: "The share of the blocks that caches of each size do not hold, of both traces.",
    };
    let (low, high) = span(card.mrc.iter().map(|point| point.size_mib));
    let (left, right) = Plot::across(SIZE.0);
    let (bottom, top) = Plot::upwards(SIZE.1);
    let x = Axis::decades(low, high, left, right).labelled(mib);
    let y = Axis::linear(100.0, bottom, top);
    let mut plot = Plot::new(&caption, SIZE, (x, "cache (logarithmic)"), (y, "missed, %"));
    let line = |of: fn(&crate::model::compare::MissRatio) -> f64| -> Vec<(f64, f64)> {
        card.mrc.iter().map(|point| (point.size_mib, of(point) * 100.0)).collect()
    };
    draw(&mut plot, [&line(|point| point.a), &line(|point| point.b)]);
    let error = significant(card.mrc_mean_error);
    figure(&plot.finish(), &format!("<b>{}</b>, mean error {error}", caption.title))
}

fn dispersions(card: &Card) -> String {
    if card.dispersion.is_empty() {
        return String::new();
    }
    let caption = Caption {
        id: "dispersion",
        title: "Burstiness by time scale",
        description: "Index of dispersion for counts at each length of bins, of both traces.",
    };
    let all = card.dispersion.iter().flat_map(|scale| [scale.quantity.a, scale.quantity.b]);
    let (low, high) = span(all);
    let (first, last) = span(card.dispersion.iter().map(|scale| scale.bin_ms as f64));
    let (left, right) = Plot::across(SIZE.0);
    let (bottom, top) = Plot::upwards(SIZE.1);
    let x = Axis::decades(first, last, left, right);
    let y = Axis::decades(low, high, bottom, top).labelled(significant);
    let mut plot = Plot::new(&caption, SIZE, (x, "bin (logarithmic)"), (y, "variance / mean"));
    let line = |of: fn(&Quantity) -> f64| -> Vec<(f64, f64)> {
        card.dispersion.iter().map(|scale| (scale.bin_ms as f64, of(&scale.quantity))).collect()
    };
    draw(&mut plot, [&line(|quantity| quantity.a), &line(|quantity| quantity.b)]);
    figure(&plot.finish(), &format!("<b>{}</b>, 1 for a Poisson process", caption.title))
}

/// Shares by range of the disk, in steps.
fn heat(card: &Card) -> String {
    const WIDE: (f64, f64) = (1140.0, 230.0);
    let caption = Caption {
        id: "heat",
        title: "Where requests fall on the disk",
        description: "The share of the requests in each of equal ranges, of both traces.",
    };
    let heat = &card.heat;
    let highest = heat.a.iter().chain(&heat.b).copied().fold(0.0, f64::max) * 100.0;
    let gib = heat.range_bytes as f64 / f64::from(1 << 30);
    let (left, right) = Plot::across(WIDE.0);
    let (bottom, top) = Plot::upwards(WIDE.1);
    let x = Axis::linear(gib * heat.a.len() as f64, left, right);
    let y = Axis::linear(highest * 1.05, bottom, top);
    let mut plot = Plot::new(&caption, WIDE, (x, "place, GiB"), (y, "requests, %"));
    let line = |shares: &[f64]| -> Vec<(f64, f64)> {
        let step = |(range, share): (usize, &f64)| {
            [(range as f64 * gib, share * 100.0), ((range + 1) as f64 * gib, share * 100.0)]
        };
        shares.iter().enumerate().flat_map(step).collect()
    };
    draw(&mut plot, [&line(&heat.a), &line(&heat.b)]);
    let elsewhere = significant(heat.total_variation * 100.0);
    figure(&plot.finish(), &format!("<b>{}</b>, {elsewhere}\u{a0}% elsewhere", caption.title))
}
