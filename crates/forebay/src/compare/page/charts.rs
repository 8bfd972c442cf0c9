//! Builds charts of both traces' distributions.

use forebay_show::{Block, Chart, ChartAxis, ChartScale, Series, Unit};

use crate::compare::Card;
use crate::quantities::significant;

/// The points of a line, as (x, y).
type Points = Vec<(f64, f64)>;

const MIB: f64 = 1_048_576.0;
const GIB: f64 = 1_073_741_824.0;

pub(super) fn side_by_side(card: &Card) -> Vec<Block> {
    let bytes = |lines: &[Points; 2]| lines.clone().map(|line| scaled(&line, 1024.0));
    let sizes = bytes(&card.pictures.sizes);
    let sizes = is_drawn(&sizes).then(|| Chart {
        x: ChartAxis::new("size (logarithmic)", Unit::Bytes, 1.0, ChartScale::Doublings),
        ..chart("sizes", "Sizes of requests", SHARES, shares(), sizes)
    });
    let gaps = cumulative("gaps", "Times between arrivals", &card.pictures.gaps);
    let all = [sizes, gaps, Some(miss_ratios(card)), dispersion(card), Some(heat(card))];
    all.into_iter().flatten().map(Block::Chart).collect()
}

const SHARES: &str = "The share of the requests that do not exceed a value, of both traces.";

/// Builds a chart of the cumulative distributions of times in milliseconds; `None` if neither trace
/// has times.
pub(super) fn cumulative(id: &str, title: &str, lines: &[Points; 2]) -> Option<Chart> {
    is_drawn(lines).then(|| Chart {
        x: ChartAxis::new("time (logarithmic)", Unit::Seconds, 1e3, ChartScale::Decades),
        ..chart(id, title, SHARES, shares(), lines.clone().map(|line| scaled(&line, 1e-3)))
    })
}

fn is_drawn(lines: &[Points; 2]) -> bool {
    lines.iter().any(|points| !points.is_empty())
}

fn scaled(points: &Points, by: f64) -> Points {
    points.iter().map(|(along, up)| (along * by, *up)).collect()
}

/// Builds a y axis for shares of the requests.
fn shares() -> ChartAxis {
    ChartAxis::new("requests, %", Unit::Share, 100.0, ChartScale::Between(0.0, 1.0))
}

/// Builds a half-width chart with cache sizes on the x axis.
fn chart(id: &str, title: &str, description: &str, y: ChartAxis, lines: [Points; 2]) -> Chart {
    let names = ["A", "B"].into_iter().zip(lines);
    let series = names.map(|(name, points)| Series { name: name.into(), points, is_faint: false });
    Chart {
        id: id.into(),
        title: title.into(),
        description: description.into(),
        x: ChartAxis::new("cache (logarithmic)", Unit::Bytes, 1.0, ChartScale::Doublings),
        y,
        series: series.collect(),
        is_half: true,
    }
}

fn miss_ratios(card: &Card) -> Chart {
    let line = |of: fn(&crate::compare::MissRatio) -> f64| -> Points {
        card.mrc.iter().map(|point| (point.size_mib * MIB, of(point))).collect()
    };
    let error = significant(card.mrc_mean_error);
    let title = format!("Miss ratio of LRU caches, mean error {error}");
    let description = "The share of block uses that miss in a cache of each size.";
    let y = ChartAxis::new("missed, %", Unit::Share, 100.0, ChartScale::Between(0.0, 1.0));
    chart("mrc", &title, description, y, [line(|point| point.a), line(|point| point.b)])
}

fn dispersion(card: &Card) -> Option<Chart> {
    let line = |of: fn(&crate::compare::Quantity) -> f64| -> Points {
        let point =
            |scale: &crate::compare::Dispersion| (scale.bin_ms as f64 / 1e3, of(&scale.quantity));
        card.dispersion.iter().map(point).collect()
    };
    let y = ChartAxis::new("variance / mean", Unit::Number, 1.0, ChartScale::PlainDecades);
    let lines = [line(|quantity| quantity.a), line(|quantity| quantity.b)];
    let title = "Burstiness by time scale, 1 for a Poisson process";
    let description = "The index of dispersion of counts in bins of each length.";
    (!card.dispersion.is_empty()).then(|| Chart {
        x: ChartAxis::new("bin (logarithmic)", Unit::Seconds, 1e3, ChartScale::Decades),
        ..chart("dispersion", title, description, y, lines)
    })
}

/// Builds a step chart of the share of requests in each range of the disk.
fn heat(card: &Card) -> Chart {
    let heat = &card.heat;
    let range = heat.range_bytes as f64;
    let line = |shares: &[f64]| -> Points {
        let step = |(nth, share): (usize, &f64)| {
            [(nth as f64 * range, *share), ((nth + 1) as f64 * range, *share)]
        };
        shares.iter().enumerate().flat_map(step).collect()
    };
    let elsewhere = significant(heat.total_variation * 100.0);
    let title = format!("Where requests fall on the disk, {elsewhere} % elsewhere");
    let description =
        "The share of the requests in ranges with equal parts of the space that either trace uses.";
    let y = ChartAxis::new("requests, %", Unit::Share, 100.0, ChartScale::Linear);
    let place = "place, GiB of the space that either trace uses";
    Chart {
        x: ChartAxis::new(place, Unit::Bytes, 1.0 / GIB, ChartScale::Linear),
        is_half: false,
        ..chart("heat", &title, description, y, [line(&heat.a), line(&heat.b)])
    }
}
