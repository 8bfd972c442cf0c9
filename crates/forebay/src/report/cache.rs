//! The report of `cache`: how large a cache should be, what caches of each size miss, and the figures of every size that
//! was looked at.

use crate::cache_curve::{Curve, CurvePoint};
use forebay_show::html::axis::Axis;
use forebay_show::html::charts::{legend, series_class};
use forebay_show::html::document::{document, folded, header, section, tiles};
use forebay_show::html::figure;
use forebay_show::html::paragraphs::{called, paragraphs};
use forebay_show::html::plot::{Caption, Plot, Shape, in_both};
use forebay_show::html::table::{Mark, headings, table};
use forebay_show::html::text::{NONE, bytes, count, percent, ratio};

pub(super) fn page(curve: &Curve) -> String {
    let verdict = match curve.recommended {
        Some(_) => ("good", "How large a cache"),
        None => ("calm", "No cache helps"),
    };
    let about = if curve.sampled_one_in > 1 { "about " } else { "" };
    let of = [
        ("Trace", curve.trace.clone()),
        ("Blocks used", count(curve.accesses)),
        ("Different blocks", format!("{about}{}", count(curve.distinct_blocks))),
        ("A block", bytes(curve.block_bytes.into())),
    ];
    let mut body = header(verdict, &curve.told(), &of);
    body += &recommended(curve);
    body += &missed(curve);
    let shown = curve.handful_and_simulated();
    if !shown.is_empty() {
        body += &section("Sizes", &sizes(curve, &shown));
    }
    body += &paragraphs("Keep in mind", "cautions", &curve.estimated());
    body += &section("How it is counted", HOW);
    body += &folded("All sizes of the curve", &sizes(curve, &curve.points));
    document(&called("Cache", &[&curve.trace]), &body)
}

const HOW: &str = "<p>One pass over the trace answers for every size. Each block that a read or a write touches counts as one use, \
    in the order of the trace; times play no part. LRU evicts the block that was used longest ago, and what it finds \
    is known for all sizes at once. S3-FIFO is simulated, at the sizes that were asked for. The size that is \
    recommended is the smallest that finds four fifths of what the largest cache does.</p>";

fn recommended(curve: &Curve) -> String {
    let Some(size) = curve.recommended else { return String::new() };
    let found = 1.0 - size.lru_miss_ratio;
    let figures = [
        ("cache", curve_size(curve, size.size_blocks)),
        ("of the blocks used are found", percent(found)),
        ("of what any cache could find", percent(ratio(found, curve.findable()))),
        ("of all different blocks fit in", share_of_all(curve, size.size_blocks)),
    ];
    tiles("recommended, with LRU", &figures)
}

fn share_of_all(curve: &Curve, blocks: u64) -> String {
    percent(ratio(blocks as f64, curve.distinct_blocks as f64))
}

fn curve_size(curve: &Curve, blocks: u64) -> String {
    bytes(blocks as f64 * f64::from(curve.block_bytes))
}

/// The first point that is drawn: sizes that find next to nothing are left to the table, unless they were asked for.
fn begins(curve: &Curve) -> usize {
    const NEXT_TO_NOTHING: f64 = 0.005;
    let tells = |point: &CurvePoint| {
        point.lru_hit_ratio() >= NEXT_TO_NOTHING || point.s3fifo_miss_ratio.is_some()
    };
    let last = curve.points.len().saturating_sub(2);
    curve.points.iter().position(tells).map_or(0, |first| first.saturating_sub(1).min(last))
}

/// A line of the picture: (bytes, share of the uses).
type Line = Vec<(f64, f64)>;

/// What caches of each size miss, as a picture. Nothing where no block was used.
fn missed(curve: &Curve) -> String {
    let drawn = &curve.points[begins(curve)..];
    if drawn.is_empty() {
        return String::new();
    }
    let caption = Caption {
        id: "missed",
        title: "Blocks missed by caches of each size",
        description: &format!(
            "The share of the uses of blocks that a cache of each size does not hold, first uses among them. {}",
            curve.told()
        ),
    };
    let lines = lines(curve, drawn);
    let draw = |caption: &Caption<'_>, shape: Shape| falling(curve, drawn, caption, shape.size());
    let names = legend(lines.iter().map(|(name, _)| *name), &[]);
    let said = "<b>Missed</b>: the share of the uses that the cache does not hold; a block’s first use, be it read or written, is \
        always one";
    let picture = in_both(&caption, draw);
    picture
        .map_or(String::new(), |picture| section(caption.title, &(names + &figure(&picture, said))))
}

/// The lines by their names: (bytes, per cent missed); none without points.
fn lines(curve: &Curve, drawn: &[CurvePoint]) -> Vec<(&'static str, Line)> {
    let at = |blocks: u64| blocks as f64 * f64::from(curve.block_bytes);
    let line = |of: fn(&CurvePoint) -> Option<f64>| -> Line {
        let point = |p: &CurvePoint| Some((at(p.size_blocks), of(p)? * 100.0));
        drawn.iter().filter_map(point).collect()
    };
    let lines = [
        ("LRU", line(|point| Some(point.lru_miss_ratio))),
        ("S3-FIFO", line(|point| point.s3fifo_miss_ratio)),
    ];
    lines.into_iter().filter(|(_, points)| !points.is_empty()).collect()
}

/// The lines in a picture of one size, the recommended size marked.
fn falling(
    curve: &Curve,
    drawn: &[CurvePoint],
    caption: &Caption<'_>,
    size: (f64, f64),
) -> Option<String> {
    let at = |blocks: u64| blocks as f64 * f64::from(curve.block_bytes);
    let (first, last) = drawn.first().zip(drawn.last())?;
    let (left, right) = Plot::across(size.0);
    let (bottom, top) = Plot::upwards(size.1);
    let x = Axis::doublings(at(first.size_blocks), at(last.size_blocks), left, right);
    let y = Axis::linear(100.0, bottom, top);
    let mut plot = Plot::new(caption, size, (x, "cache (logarithmic)"), (y, "missed, %"));
    if let Some(size) = curve.recommended {
        let x = plot.x.at(at(size.size_blocks));
        plot.add(&format!("<path class=\"mark\" d=\"M{x:.1} {top}V{bottom}\"/>"));
        // Curves fall: there is room below them on the left, above them on the right.
        let (class, missed, moved) = match x > (left + right) / 2.0 {
            true => ("note end", 0.0, (-8.0, -8.0)),
            false => ("note", 100.0, (8.0, 13.0)),
        };
        let said = format!("recommended: {}", curve_size(curve, size.size_blocks));
        plot.label((at(size.size_blocks), missed), moved, class, &said);
    }
    for (index, (name, points)) in lines(curve, drawn).iter().enumerate() {
        let class = format!("series {}", series_class(index));
        plot.line(points, &class);
        for point in points {
            let missed = percent(point.1 / 100.0);
            let told = format!("{name}, {}: {missed} missed", bytes(point.0));
            plot.spot(*point, &told);
        }
        if index > 0 {
            plot.dots(points, &format!("{class} spots"));
        }
    }
    Some(plot.finish())
}

fn sizes(curve: &Curve, points: &[CurvePoint]) -> String {
    let mut heads =
        headings(&["cache", "blocks", "found", "of what can be found", "S3-FIFO found"]);
    let simulated = points.iter().any(|point| point.s3fifo_miss_ratio.is_some());
    heads.truncate(if simulated { 5 } else { 4 });
    let row = |point: &CurvePoint| {
        let is_best = curve.recommended.is_some_and(|size| size.size_blocks == point.size_blocks);
        let mut cells = vec![
            curve_size(curve, point.size_blocks),
            count(point.size_blocks),
            percent(point.lru_hit_ratio()),
            percent(ratio(point.lru_hit_ratio(), curve.findable())),
            point.s3fifo_miss_ratio.map_or(NONE.to_string(), |missed| percent(1.0 - missed)),
        ];
        cells.truncate(heads.len());
        (Mark::best("recommended", is_best), cells)
    };
    table(&heads, &points.iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache_curve::Recommended;

    /// Of the sizes and what LRU and, at some, S3-FIFO miss.
    fn curve(points: &[(u64, f64, Option<f64>)], recommended: Option<u64>) -> Curve {
        let mib = |blocks: u64| blocks as f64 / 256.0;
        let of = |size: u64| points.iter().find(|point| point.0 == size).unwrap().1;
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
            }),
            points: points
                .iter()
                .map(|&(size_blocks, lru_miss_ratio, s3fifo_miss_ratio)| CurvePoint {
                    size_blocks,
                    size_mib: mib(size_blocks),
                    lru_miss_ratio,
                    s3fifo_miss_ratio,
                    s3fifo_sampled_one_in: s3fifo_miss_ratio.map(|_| 1),
                })
                .collect(),
        }
    }

    fn parse(page: &str) -> roxmltree::Document<'_> {
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
        roxmltree::Document::parse_with_options(page, options).unwrap()
    }

    #[test]
    fn the_recommended_size_is_said_marked_and_highlighted() {
        let points = [(1, 1.0, None), (64, 0.7, Some(0.65)), (256, 0.6, None), (1000, 0.5, None)];
        let page = page(&curve(&points, Some(256)));
        let document = parse(&page);
        assert!(
            page.contains("Take a cache of 1\u{a0}MiB") && page.contains("recommended: 1\u{a0}MiB")
        );
        // Among the handful and among all.
        let best = document.descendants().filter(|node| node.attribute("class") == Some("best"));
        let named: Vec<_> = best.map(|row| row.first_element_child().unwrap().text()).collect();
        assert_eq!(named, [Some("1\u{a0}MiB "); 2]);
        // Every size that was simulated stands in the first table, with both policies.
        let first = page.split("</table>").next().unwrap();
        assert!(
            first.contains("256\u{a0}KiB") && first.contains("<td>35.0\u{a0}%</td>"),
            "{first}"
        );
        let lines = document.descendants().filter_map(|node| node.attribute("class"));
        let lines: Vec<_> = lines.filter(|class| class.starts_with("series s")).collect();
        assert_eq!(
            lines,
            [
                // The legend, and a picture in either shape.
                &["series s0", "series s1"][..],
                &["series s0", "series s1", "series s1 spots"],
                &["series s0", "series s1", "series s1 spots"],
            ]
            .concat()
        );
    }

    #[test]
    fn sizes_that_find_next_to_nothing_are_not_drawn_unless_they_were_asked_for() {
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
    fn what_finds_nothing_has_a_page_too() {
        for points in [&[][..], &[(1, 1.0, None)], &[(1, f64::NAN, Some(f64::INFINITY))]] {
            let page = page(&curve(points, None));
            parse(&page);
            let figures = page.split("</style>").nth(1).unwrap();
            assert!(page.contains("No cache helps") && !figures.contains("class=\"best\""));
            assert!(!figures.contains("NaN") && !figures.contains("inf"), "{figures}");
        }
    }
}
