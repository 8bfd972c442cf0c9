//! Charts of latency distributions and of arrivals.
//!
//! Takes plain data and returns SVG. A series has the same color and dashes in every chart. Both
//! come from the classes `s0` to `s11` of the style sheet.

use std::fmt::Write;

use super::axis::Axis;
use super::plot::{Caption, Plot};
use super::text::{millis, seconds, significant};

/// The number of combinations of color and dashes in the style sheet.
const SERIES_STYLES: usize = 12;

/// Returns the class in the style sheet for the series at `index`.
pub fn series_class(index: usize) -> String {
    format!("s{}", index % SERIES_STYLES)
}

/// Returns the classes in the style sheet for the series at `index`. If some series are to stand
/// out, all others are faint.
fn series_classes(index: usize, stands_out: &[bool]) -> String {
    let faint = match stands_out.get(index) {
        Some(false) => " faint",
        Some(true) | None => "",
    };
    format!("series {}{faint}", series_class(index))
}

/// Builds the legend for series with these names; those marked in `stands_out` are emphasized.
pub fn legend<'a>(names: impl Iterator<Item = &'a str>, stands_out: &[bool]) -> String {
    let entry = |(index, name): (usize, &str)| {
        format!(
            "<li><svg viewBox=\"0 0 58 10\" aria-hidden=\"true\"><path class=\"{}\" \
             d=\"M1 5H57\"/></svg>{}</li>",
            series_classes(index, stands_out),
            super::text::name(name)
        )
    };
    format!("<ul class=\"legend\">{}</ul>", names.enumerate().map(entry).collect::<String>())
}

/// The points of a line as (milliseconds, share), from left to right.
type Points<'a> = &'a [(f64, f64)];

/// The number of vertical strips with tooltips in a chart over time.
pub const STRIPS: usize = 60;

/// The percentages at which a line has tooltips.
const TOLD_PERCENT: [f64; 4] = [50.0, 90.0, 99.0, 100.0];

/// Draws cumulative latency distributions. Each series has a name and points (milliseconds, share);
/// those that are to stand out are emphasized. Returns `None` if no series has points.
pub fn distributions(
    caption: &Caption<'_>,
    (names, series): (&[&str], &[Points<'_>]),
    stands_out: &[bool],
    (low_ms, high_ms): (f64, f64),
) -> Option<String> {
    if series.iter().all(|points| points.is_empty()) {
        return None;
    }
    const SIZE: (f64, f64) = (560.0, 340.0);
    let whose = |index: usize| names.get(index).copied().unwrap_or_default();
    let told = series.iter().enumerate().filter_map(|(index, points)| {
        let point = points.iter().find(|point| point.0.is_finite() && point.1 >= 0.99 - 1e-9)?;
        Some(format!("{} {}", whose(index), millis(point.0)))
    });
    let told: Vec<String> = told.collect();
    let description = format!("{} 99 % within: {}.", caption.description, told.join(", "));
    let caption = &Caption { description: &description, ..*caption };
    let (left, right) = Plot::across(SIZE.0);
    let (bottom, top) = Plot::upwards(SIZE.1);
    let x = Axis::decades(low_ms, high_ms, left, right);
    let y = Axis::linear(100.0, bottom, top);
    let mut plot = Plot::new(caption, SIZE, (x, "latency (logarithmic)"), (y, "requests, %"));
    let at = plot.y.at(99.0);
    plot.add(&format!("<path class=\"mark\" d=\"M{left} {at:.1}H{right}\"/>"));
    plot.label((0.0, 99.0), (6.0, 13.0), "note", "99 %");
    for (index, points) in series.iter().enumerate() {
        let finite = points.iter().filter(|point| point.0.is_finite() && point.1.is_finite());
        let points: Vec<(f64, f64)> = finite.map(|&(ms, share)| (ms, share * 100.0)).collect();
        plot.line(&points, &series_classes(index, stands_out));
        let whose = whose(index);
        quantiles(&mut plot, &points, |share, ms| {
            format!("{whose}: {share} % within {}", millis(ms))
        });
    }
    Some(plot.finish())
}

/// Adds tooltips to a line of points (value, percentage of all) at the percentages in
/// [`TOLD_PERCENT`].
pub fn quantiles(plot: &mut Plot, points: Points<'_>, told: impl Fn(f64, f64) -> String) {
    for share in TOLD_PERCENT {
        if let Some(point) = points.iter().find(|point| point.1 >= share - 1e-9) {
            plot.spot(*point, &told(share, point.0));
        }
    }
}

/// Draws arrivals, given as (seconds, requests per second) in steps of equal length. Returns `None`
/// if there are none.
pub fn arrivals(caption: &Caption<'_>, steps: &[(f64, f64)]) -> Option<String> {
    const SIZE: (f64, f64) = (1140.0, 250.0);
    let steps: Vec<_> = steps.iter().filter(|s| s.0.is_finite() && s.1.is_finite()).collect();
    let (first, last) = (steps.first()?, steps.last()?);
    let step_s = (last.0 - first.0) / (steps.len() as f64 - 1.0).max(1.0);
    let highest = steps.iter().map(|step| step.1).fold(0.0, f64::max);
    let mean = steps.iter().map(|step| step.1).sum::<f64>() / steps.len() as f64;
    let (left, right) = Plot::across(SIZE.0);
    let (bottom, top) = Plot::upwards(SIZE.1);
    let x = Axis::linear(last.0 + step_s, left, right);
    let y = Axis::linear(highest * 1.05, bottom, top);
    let description = format!(
        "{} {} a second on average, {} at most.",
        caption.description,
        significant(mean),
        significant(highest)
    );
    let caption = &Caption { description: &description, ..*caption };
    let mut plot = Plot::new(caption, SIZE, (x, "time, s"), (y, "requests per second"));
    plot.zoomable();
    let mut path = format!("M{left:.1} {bottom:.1}");
    for step in &steps {
        let (from, height) = (plot.x.at(step.0), plot.y.at(step.1));
        let to = plot.x.at(step.0 + step_s);
        let _ = write!(path, "L{from:.1} {height:.1}H{to:.1}");
    }
    let _ = write!(path, "V{bottom:.1}Z");
    plot.add(&format!("<path class=\"area\" d=\"{path}\"/>"));
    let at = plot.y.at(mean);
    plot.add(&format!("<path class=\"mark\" d=\"M{left} {at:.1}H{right}\"/>"));
    for part in steps.chunks(steps.len().div_ceil(STRIPS)) {
        let mean = part.iter().map(|step| step.1).sum::<f64>() / part.len() as f64;
        let most = part.iter().map(|step| step.1).fold(0.0, f64::max);
        let (from, to) = (part[0].0, part[part.len() - 1].0 + step_s);
        let (mean, most) = (significant(mean), significant(most));
        let told =
            format!("{} to {}: {mean} requests/s, at most {most}", seconds(from), seconds(to));
        plot.strip((from, to), &told);
    }
    Some(plot.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPTION: Caption<'_> = Caption { id: "x", title: "a < b", description: "\"d\"" };

    fn parsed(svg: &str) -> roxmltree::Document<'_> {
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        roxmltree::Document::parse(svg).unwrap()
    }

    #[test]
    fn nothing_to_draw_draws_nothing() {
        assert!(distributions(&CAPTION, (&[], &[&[], &[]]), &[], (1.0, 2.0)).is_none());
        assert!(arrivals(&CAPTION, &[]).is_none());
    }

    #[test]
    fn odd_points_draw_well_formed_pictures() {
        let points = [(0.0, 0.0), (f64::NAN, 0.5), (f64::INFINITY, 0.9), (3.0, 1.0)];
        parsed(&distributions(&CAPTION, (&["<a>"], &[&points, &[]]), &[], (3.0, 3.0)).unwrap());
        parsed(&arrivals(&CAPTION, &points).unwrap());
        parsed(&arrivals(&CAPTION, &[(0.0, 0.0)]).unwrap());
    }

    #[test]
    fn pictures_have_a_description_for_screen_readers() {
        let points = [(1.0, 0.5), (10.0, 0.95), (20.0, 1.0)];
        let svg = distributions(&CAPTION, (&["a", "b"], &[&points, &[]]), &[], (1.0, 20.0));
        assert!(svg.unwrap().contains("&quot;d&quot; 99 % within: a 20.0\u{a0}ms.</desc>"));
        let svg = arrivals(&CAPTION, &[(0.0, 1.0), (1.0, 3.0)]).unwrap();
        assert!(svg.contains("2.00 a second on average, 3.00 at most.</desc>"), "{svg}");
    }

    #[test]
    fn each_series_has_a_line_of_its_own_style() {
        let points = [(1.0, 0.0), (10.0, 1.0)];
        let svg =
            distributions(&CAPTION, (&["a"], &[&points, &points]), &[false, true], (1.0, 10.0))
                .unwrap();
        assert!(svg.contains("<title>a: 100 % within 10.0\u{a0}ms</title>"), "{svg}");
        let document = parsed(&svg);
        let lines = document.descendants().filter_map(|node| node.attribute("class"));
        let lines: Vec<_> = lines.filter(|class| class.starts_with("series")).collect();
        assert_eq!(lines, ["series s0 faint", "series s1"]);
    }

    /// Each style needs its own dashes, because colors repeat and color-blind readers cannot rely
    /// on them.
    #[test]
    fn each_style_has_dashes_of_its_own() {
        let sheet = include_str!("style.css");
        let dashes = |index: usize| {
            let rule = sheet.split(&format!(".{} {{", series_class(index))).nth(1).unwrap();
            let rule = rule.split('}').next().unwrap();
            rule.split("stroke-dasharray:").nth(1).unwrap_or_default().to_string()
        };
        let all: std::collections::HashSet<String> = (0..SERIES_STYLES).map(dashes).collect();
        assert_eq!(all.len(), SERIES_STYLES);
    }

    #[test]
    fn each_scheduler_has_a_style_of_its_own() {
        let sheet = include_str!("style.css");
        for index in 0..SERIES_STYLES {
            assert!(sheet.contains(&format!(".{} {{", series_class(index))), "{index}");
        }
        assert!(!sheet.contains(&format!(".s{SERIES_STYLES} {{")));
    }
}
