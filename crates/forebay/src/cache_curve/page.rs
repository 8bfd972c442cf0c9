//! The report page of `cache`.

use forebay_show::html::paragraphs::page_title;
use forebay_show::{
    Block, Cell, Chart, ChartAxis, ChartScale, Column, Figure, KeyFigure, Page, Place, Row,
    RowMark, Series, Table, Tone, Unit, Verdict,
};

use super::{Curve, CurvePoint};
use crate::quantities::{bytes, counted, percent};

/// The hit ratio below which no cache is worthwhile, if even the largest cache does not reach it.
pub(crate) const FOUND_THAT_MATTERS: f64 = 0.05;

pub(super) fn page(curve: &Curve) -> Page {
    let (tone, verdict) = match curve.recommended {
        Some(_) => (Tone::Good, "How large a cache"),
        None => (Tone::Calm, "No cache helps"),
    };
    let uses = format!(
        "{} of {}{} of {}",
        counted(curve.accesses, "use"),
        about(curve),
        counted(curve.distinct_blocks, "different block"),
        bytes(curve.block_bytes.into())
    );
    let mut page = Page {
        title: page_title("Cache", &[&curve.trace]),
        verdict: Verdict::new(tone, verdict),
        headline: headline(curve),
        about: vec![("Trace".into(), curve.trace.clone()), ("Blocks".into(), uses.clone())],
        key_figures: key_figures(curve),
        ..Page::default()
    };
    let asked = curve.simulated();
    let sizes = if asked.is_empty() { curve.handful() } else { asked };
    let mut first = Vec::new();
    if !sizes.is_empty() {
        first.push(Block::Table(table(curve, &sizes)));
    }
    first.extend(chart(curve).map(Block::Chart));
    first.push(Block::Text(format!("{uses}.")));
    page.add("Sizes", Place::FirstScreen, first);
    page.add_notes("Keep in mind", Place::FirstScreen, notes(curve));
    page.add("How it is counted", Place::Detail, vec![Block::Text(HOW.into())]);
    if !curve.points.is_empty() {
        let all = Block::Table(table(curve, &curve.points));
        page.add("All sizes of the curve", Place::Folded, vec![all]);
    }
    page
}

const HOW: &str = "Every block that a read or a write touches counts as one use, in the order of \
    the trace; arrival times do not matter. A use is a hit if the block was used before and has \
    not been evicted since, so a block's first use is never a hit. LRU evicts the \
    block that was used longest ago, and one pass gives its hit ratio for every size. S3-FIFO is \
    simulated at the requested sizes. The recommended size is the smallest with 80 % of the hits \
    of the largest cache, or a larger one while another 25 % of the size adds 5 % of these hits, or \
    if 64 MiB are enough for 99 % of them.";

fn about(curve: &Curve) -> &'static str {
    if curve.sampled_one_in > 1 { "about " } else { "" }
}

fn headline(curve: &Curve) -> String {
    if !curve.finds_anything() {
        return "No cache helps: no block is used twice, so there is nothing to find.".into();
    }
    let most = format!("{}{}", about(curve), percent(curve.findable()));
    let Some(recommended) = curve.recommended else {
        return format!(
            "No cache is worthwhile: none has a hit ratio above {most} (in blocks of {}).",
            bytes(curve.block_bytes.into())
        );
    };
    let nearly_all = curve.nearly_all();
    let nearly = match nearly_all > recommended.size_blocks {
        true => format!(", nearly reached with {}", curve.size(nearly_all)),
        false => String::new(),
    };
    format!(
        "A cache of {} has a hit ratio of {}; the maximum is {most}{nearly}.",
        curve.size(recommended.size_blocks),
        percent(recommended.lru_hit_ratio)
    )
}

fn key_figures(curve: &Curve) -> Vec<KeyFigure> {
    let Some(recommended) = curve.recommended else { return Vec::new() };
    let size = recommended.size_blocks as f64 * f64::from(curve.block_bytes);
    let figure = |name: &str, value: f64, unit: Unit| KeyFigure {
        name: name.into(),
        before: None,
        figure: Figure::new(value, unit),
    };
    vec![
        figure("recommended cache", size, Unit::Bytes),
        figure("hit ratio with LRU", recommended.lru_hit_ratio, Unit::Share),
        figure("share of all blocks that fit", recommended.distinct_blocks_share, Unit::Share),
    ]
}

fn table(curve: &Curve, points: &[CurvePoint]) -> Table {
    let is_simulated = points.iter().any(|point| point.s3fifo_hit_ratio.is_some());
    let mut columns = vec![
        Column::of("cache", Unit::Bytes),
        Column::of("blocks", Unit::Count),
        Column::of("LRU hit ratio", Unit::Share),
        Column::of("of possible hits", Unit::Share),
    ];
    if is_simulated {
        columns.push(Column::of("S3-FIFO hit ratio", Unit::Share));
    }
    let recommended = curve.recommended.map(|size| size.size_blocks);
    let row = |point: &CurvePoint| {
        let cells = [
            Cell::Value(point.size_blocks as f64 * f64::from(curve.block_bytes)),
            Cell::Value(point.size_blocks as f64),
            Cell::Value(point.lru_hit_ratio),
            Cell::Value(point.lru_findable_share),
            Cell::value(point.s3fifo_hit_ratio),
        ];
        let mark = match recommended == Some(point.size_blocks) {
            true => RowMark::Best("recommended".into()),
            false => RowMark::Plain,
        };
        Row { mark, cells: cells.into_iter().take(columns.len()).collect() }
    };
    let rows = points.iter().map(row).collect();
    Table { columns, rows }
}

/// Returns the index of the first point to plot. Smaller sizes have almost no hits and were not
/// requested; they appear only in the table.
fn begins(curve: &Curve) -> usize {
    const NEXT_TO_NOTHING: f64 = 0.005;
    let tells = |point: &CurvePoint| {
        point.lru_hit_ratio >= NEXT_TO_NOTHING || point.s3fifo_hit_ratio.is_some()
    };
    let last = curve.points.len().saturating_sub(2);
    curve.points.iter().position(tells).map_or(0, |first| first.saturating_sub(1).min(last))
}

/// Builds the chart of hit ratio over cache size; `None` if no block is accessed twice.
fn chart(curve: &Curve) -> Option<Chart> {
    if !curve.finds_anything() {
        return None;
    }
    let drawn = &curve.points[begins(curve)..];
    let line = |name: &str, of: fn(&CurvePoint) -> Option<f64>| {
        let at = |point: &CurvePoint| point.size_blocks as f64 * f64::from(curve.block_bytes);
        let points: Vec<(f64, f64)> =
            drawn.iter().filter_map(|point| Some((at(point), of(point)?))).collect();
        (!points.is_empty()).then(|| Series { name: name.into(), points, is_faint: false })
    };
    let lines = [
        line("LRU", |point| Some(point.lru_hit_ratio)),
        line("S3-FIFO", |point| point.s3fifo_hit_ratio),
    ];
    Some(Chart {
        id: "found".into(),
        title: format!("Hit ratio of caches up to {}", curve.size(drawn.last()?.size_blocks)),
        description: "The share of block uses that hit in a cache of each size.".into(),
        x: ChartAxis::new("cache (logarithmic)", Unit::Bytes, 1.0, ChartScale::Doublings),
        y: ChartAxis::new("hit ratio, %", Unit::Share, 100.0, ChartScale::Between(0.0, 1.0)),
        series: lines.into_iter().flatten().collect(),
        is_half: false,
    })
}

/// Returns notes on the assumptions, the estimates and their error.
fn notes(curve: &Curve) -> Vec<String> {
    let mut notes = Vec::new();
    if curve.is_own_block {
        notes.push(format!("A block of the trace is assumed to have {} bytes.", curve.block_bytes));
    }
    if curve.sampled_one_in > 1 {
        notes.push(format!(
            "Estimated from a sample of one block in {} ({}; error {}).",
            curve.sampled_one_in,
            counted(curve.sampled_blocks, "block"),
            percent(curve.sample_error_share)
        ));
    }
    let others = curve.points.iter().filter_map(|point| point.s3fifo_sampled_one_in);
    if let Some(most) = others.max().filter(|&one_in| one_in > 1) {
        notes.push(format!(
            "The largest S3-FIFO caches are estimated from smaller ones and up to one block in {most}."
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache_curve::Recommended;

    /// Builds a curve from cache sizes with the misses of LRU and, at some sizes, of S3-FIFO.
    fn curve(points: &[(u64, f64, Option<f64>)], recommended: Option<u64>) -> Curve {
        let mib = |blocks: u64| blocks as f64 / 256.0;
        let of = |size: u64| points.iter().find(|point| point.0 == size).unwrap().1;
        let most = points.last().map_or(0.0, |point| 1.0 - point.1);
        Curve {
            trace: "<t>".into(),
            block_bytes: 4096,
            is_own_block: false,
            accesses: 2000,
            distinct_blocks: 1000,
            sampled_one_in: 1,
            sampled_blocks: 1000,
            sample_error_share: 0.0,
            recommended: recommended.map(|size_blocks| Recommended {
                size_blocks,
                size_mib: mib(size_blocks),
                lru_miss_ratio: of(size_blocks),
                lru_hit_ratio: 1.0 - of(size_blocks),
                distinct_blocks_share: size_blocks as f64 / 1000.0,
            }),
            points: points
                .iter()
                .map(|&(size_blocks, missed, s3fifo)| {
                    CurvePoint::new(size_blocks, 4096, (missed, most), s3fifo.map(|of| (of, 1)))
                })
                .collect(),
        }
    }

    #[test]
    fn almost_useless_sizes_are_not_drawn_unless_requested() {
        let curve_of = |asked: Option<u32>| {
            let point = |n: u32| {
                (1 << n, if n < 8 { 1.0 } else { 0.5 }, asked.filter(|at| *at == n).map(|_| 0.9))
            };
            curve(&(0..10).map(point).collect::<Vec<_>>(), Some(256))
        };
        assert_eq!((begins(&curve_of(None)), begins(&curve_of(Some(3)))), (7, 2));
        assert_eq!(begins(&curve(&[(1, 1.0, None), (2, 1.0, None)], None)), 0);
        assert_eq!(begins(&curve(&[], None)), 0);
    }

    #[test]
    fn a_cache_that_finds_nothing_is_not_recommended() {
        for points in [&[][..], &[(1, 1.0, None)], &[(1, f64::NAN, Some(f64::INFINITY))]] {
            let page = page(&curve(points, None));
            assert!(page.headline.contains("No cache helps") && page.key_figures.is_empty());
            let html = forebay_show::html::document(&page);
            let figures = html.split("</style>").nth(1).unwrap();
            assert!(!figures.contains("NaN") && !figures.contains("inf"), "{figures}");
        }
        let little = page(&curve(&[(1, 1.0, None), (9, 0.96, None)], None));
        assert!(
            little.headline.contains("hit ratio above 4.00 % (in blocks"),
            "{}",
            little.headline
        );
        assert!(little.key_figures.is_empty());
    }

    #[test]
    fn a_larger_cache_is_mentioned_only_if_it_is_larger() {
        let points = [(10, 0.5, None), (20, 0.203, None), (30, 0.2, None)];
        let text = |recommended: u64| page(&curve(&points, Some(recommended))).headline;
        let begins = "A cache of 40 KiB has a hit ratio of 50.0 %; the maximum is 80.0 %, nearly";
        assert!(text(10).starts_with(begins), "{}", text(10));
        for size in [20, 30] {
            assert!(text(size).ends_with("the maximum is 80.0 %."), "{}", text(size));
        }
    }
}
