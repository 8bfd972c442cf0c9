//! Charts of arrivals, and the styles of series.
//!
//! Takes plain data and returns SVG. A series has the same color and dashes in every chart. Both
//! come from the classes `s0` to `s11` of the style sheet.

use std::fmt::Write;

use super::axis::Axis;
use super::plot::{Caption, Plot};
use super::text::{seconds, significant};

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

/// The number of vertical strips with tooltips in a chart over time.
pub const STRIPS: usize = 60;

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
        assert!(arrivals(&CAPTION, &[]).is_none());
    }

    #[test]
    fn odd_points_draw_well_formed_pictures() {
        let points = [(0.0, 0.0), (f64::NAN, 0.5), (f64::INFINITY, 0.9), (3.0, 1.0)];
        parsed(&arrivals(&CAPTION, &points).unwrap());
        parsed(&arrivals(&CAPTION, &[(0.0, 0.0)]).unwrap());
    }

    #[test]
    fn pictures_have_a_description_for_screen_readers() {
        let svg = arrivals(&CAPTION, &[(0.0, 1.0), (1.0, 3.0)]).unwrap();
        assert!(svg.contains("2.00 a second on average, 3.00 at most.</desc>"), "{svg}");
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
