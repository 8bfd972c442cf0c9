//! The distributions of both traces side by side.

use crate::compare::{Card, Dispersion, MissRatio, Quantity};
use forebay_show::html::axis::{Axis, plain};
use forebay_show::html::charts::{STRIPS, legend, quantiles, series_class};
use forebay_show::html::document::section;
use forebay_show::html::figure;
use forebay_show::html::plot::{Caption, Plot};
use forebay_show::html::text::{NONE, escape, millis, percent, significant};

/// Two lines over one axis: (x, y) of each trace.
type Lines<'a> = [&'a [(f64, f64)]; 2];

/// An axis from one value to another, between two places.
type AxisOver = fn(f64, f64, f64, f64) -> Axis;

const SIZE: (f64, f64) = (560.0, 300.0);
/// What they are called.
const TRACES: [&str; 2] = ["A", "B"];
/// Points of a line that say their figures.
const SPOTS_MAX: usize = 24;

pub(super) fn pictures(card: &Card) -> String {
    let [sizes_a, sizes_b] = card.pictures.sizes.clone().map(in_bytes);
    let [gaps_a, gaps_b] = &card.pictures.gaps;
    let sizes = ("sizes", "Sizes of requests");
    let mut all = cumulative(sizes, [&sizes_a, &sizes_b], (Axis::doublings, "size"));
    let gaps = ("gaps", "Times between arrivals");
    all += &cumulative(gaps, [gaps_a, gaps_b], (Axis::decades, "time"));
    all += &miss_ratios(card);
    all += &dispersions(card);
    let heat = format!("<div class=\"wide panorama\">{}</div>", heat(card));
    section("Side by side", &format!("{}<div class=\"pair\">{all}</div>{heat}", both()))
}

/// Which line is whose.
pub(super) fn both() -> String {
    legend(TRACES.into_iter(), &[])
}

fn in_bytes(of_kib: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    of_kib.into_iter().map(|(kib, share)| (kib * 1024.0, share)).collect()
}

fn draw(plot: &mut Plot, lines: Lines<'_>) {
    for (index, points) in lines.iter().enumerate() {
        plot.line(points, &format!("series {}", series_class(index)));
    }
}

/// What each line says to whoever points at it, after whose it is.
fn told(plot: &mut Plot, lines: Lines<'_>, said: impl Fn((f64, f64)) -> String) {
    for (whose, points) in TRACES.into_iter().zip(lines) {
        plot.spots(points, SPOTS_MAX, |point| format!("{whose}, {}", said(point)));
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
    (id, title): (&str, &str),
    lines: Lines<'_>,
    (axis, unit): (AxisOver, &str),
) -> String {
    if lines.iter().all(|points| points.is_empty()) {
        return String::new();
    }
    let (low, high) = span(lines.iter().flat_map(|points| points.iter().map(|point| point.0)));
    let (left, right) = Plot::across(SIZE.0);
    let (bottom, top) = Plot::upwards(SIZE.1);
    let x = axis(low, high, left, right);
    let y = Axis::linear(100.0, bottom, top);
    let half = |points: &[(f64, f64)]| {
        let middle = points.iter().find(|point| point.1 >= 0.5);
        middle.map_or(NONE.to_string(), |point| x.said(point.0))
    };
    let description = format!(
        "The share of the requests that do not exceed a value, of both traces. Half are at most {} in A, {} in B.",
        half(lines[0]),
        half(lines[1])
    );
    let caption = Caption { id, title, description: &description };
    let mut plot =
        Plot::new(&caption, SIZE, (x, &format!("{unit} (logarithmic)")), (y, "requests, %"));
    let in_percent = |points: &[(f64, f64)]| -> Vec<(f64, f64)> {
        points.iter().map(|&(value, share)| (value, share * 100.0)).collect()
    };
    let lines = lines.map(in_percent);
    draw(&mut plot, [&lines[0], &lines[1]]);
    for (whose, points) in TRACES.into_iter().zip(&lines) {
        quantiles(&mut plot, points, |share, value| {
            format!("{whose}: {share} % up to {}", x.said(value))
        });
    }
    figure(&plot.finish(), &format!("<b>{}</b>, share of the requests up to it", escape(title)))
}

fn miss_ratios(card: &Card) -> String {
    let caption = Caption {
        id: "mrc",
        title: "Miss ratio of LRU caches",
        description: &format!(
            "The share of the blocks that caches of each size do not hold, of both traces; mean difference {}.",
            significant(card.mrc_mean_error)
        ),
    };
    let bytes = |point: &MissRatio| point.size_mib * f64::from(1 << 20);
    let (low, high) = span(card.mrc.iter().map(bytes));
    let (left, right) = Plot::across(SIZE.0);
    let (bottom, top) = Plot::upwards(SIZE.1);
    let x = Axis::doublings(low, high, left, right);
    let y = Axis::linear(100.0, bottom, top);
    let mut plot = Plot::new(&caption, SIZE, (x, "cache (logarithmic)"), (y, "missed, %"));
    let line = |of: fn(&MissRatio) -> f64| -> Vec<(f64, f64)> {
        card.mrc.iter().map(|point| (bytes(point), of(point) * 100.0)).collect()
    };
    let lines = [line(|point| point.a), line(|point| point.b)];
    draw(&mut plot, [&lines[0], &lines[1]]);
    told(&mut plot, [&lines[0], &lines[1]], |(bytes, missed)| {
        format!("{}: {} % missed", x.said(bytes), significant(missed))
    });
    let error = significant(card.mrc_mean_error);
    figure(&plot.finish(), &format!("<b>{}</b>, mean error {error}", caption.title))
}

/// A length of bins in words.
fn dispersed(scale: &Dispersion) -> String {
    let Quantity { a, b, .. } = &scale.quantity;
    format!(
        " In {}: {} in A, {} in B.",
        millis(scale.bin_ms as f64),
        significant(*a),
        significant(*b)
    )
}

fn dispersions(card: &Card) -> String {
    if card.dispersion.is_empty() {
        return String::new();
    }
    let caption = Caption {
        id: "dispersion",
        title: "Burstiness by time scale",
        description: &format!(
            "Index of dispersion for counts at each length of bins, of both traces.{}",
            card.dispersion.iter().map(dispersed).collect::<String>()
        ),
    };
    let all = card.dispersion.iter().flat_map(|scale| [scale.quantity.a, scale.quantity.b]);
    let (low, high) = span(all);
    let (first, last) = span(card.dispersion.iter().map(|scale| scale.bin_ms as f64));
    let (left, right) = Plot::across(SIZE.0);
    let (bottom, top) = Plot::upwards(SIZE.1);
    let x = Axis::decades(first, last, left, right);
    let y = Axis::decades(low, high, bottom, top).labelled(plain);
    let mut plot = Plot::new(&caption, SIZE, (x, "bin (logarithmic)"), (y, "variance / mean"));
    let line = |of: fn(&Quantity) -> f64| -> Vec<(f64, f64)> {
        card.dispersion.iter().map(|scale| (scale.bin_ms as f64, of(&scale.quantity))).collect()
    };
    let lines = [line(|quantity| quantity.a), line(|quantity| quantity.b)];
    draw(&mut plot, [&lines[0], &lines[1]]);
    told(&mut plot, [&lines[0], &lines[1]], |(ms, found)| {
        format!("{}: {}", millis(ms), significant(found))
    });
    figure(&plot.finish(), &format!("<b>{}</b>, 1 for a Poisson process", caption.title))
}

/// Shares by range of the disk, in steps.
fn heat(card: &Card) -> String {
    const WIDE: (f64, f64) = (1140.0, 230.0);
    let caption = Caption {
        id: "heat",
        title: "Where requests fall on the disk",
        description: &format!(
            "The share of the requests in each of ranges with equal shares of the ground that either trace uses, of both traces; \
             their total variation is {}.",
            significant(card.heat.total_variation)
        ),
    };
    let heat = &card.heat;
    let highest = heat.a.iter().chain(&heat.b).copied().fold(0.0, f64::max) * 100.0;
    let gib = heat.range_bytes as f64 / f64::from(1 << 30);
    let (left, right) = Plot::across(WIDE.0);
    let (bottom, top) = Plot::upwards(WIDE.1);
    let x = Axis::linear(gib * heat.a.len() as f64, left, right);
    let y = Axis::linear(highest * 1.05, bottom, top);
    let mut plot = Plot::new(
        &caption,
        WIDE,
        (x, "place, GiB of the ground that either trace uses"),
        (y, "requests, %"),
    );
    let line = |shares: &[f64]| -> Vec<(f64, f64)> {
        let step = |(range, share): (usize, &f64)| {
            [(range as f64 * gib, share * 100.0), ((range + 1) as f64 * gib, share * 100.0)]
        };
        shares.iter().enumerate().flat_map(step).collect()
    };
    draw(&mut plot, [&line(&heat.a), &line(&heat.b)]);
    let part = heat.a.len().div_ceil(STRIPS).max(1);
    for (nth, (a, b)) in heat.a.chunks(part).zip(heat.b.chunks(part)).enumerate() {
        let (from, to) = ((nth * part) as f64 * gib, (nth * part + a.len()) as f64 * gib);
        let [a, b] = [a, b].map(|shares| percent(shares.iter().sum()));
        let told = format!("{} to {}\u{a0}GiB: A {a}, B {b}", significant(from), significant(to));
        plot.strip((from, to), &told);
    }
    let elsewhere = significant(heat.total_variation * 100.0);
    figure(&plot.finish(), &format!("<b>{}</b>, {elsewhere}\u{a0}% elsewhere", caption.title))
}
