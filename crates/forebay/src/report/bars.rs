//! Bars one below another, each of parts that are stacked, and a line that marks a size.

use super::axis::Axis;
use super::plot::{Caption, Picture};
use super::text::escape;

/// A part of a bar.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// Its class in the style sheet.
    pub(super) class: String,
    /// How long it is.
    pub(super) size: f64,
    /// What is said of it to whoever points at it.
    pub(super) told: String,
    /// What stands in it where there is room; empty for nothing.
    pub(super) label: String,
}

/// A bar.
#[derive(Clone, Debug)]
pub(super) struct Bar {
    /// What stands before it.
    pub(super) name: String,
    /// Its parts, from the left.
    pub(super) parts: Vec<Part>,
    /// What stands behind it.
    pub(super) total: String,
}

impl Bar {
    /// One of a single part, which may stand out.
    pub(super) fn single(name: &str, size: f64, total: String, stands_out: bool) -> Bar {
        let class = if stands_out { "chosen" } else { "other" }.to_string();
        let told = format!("{name}: {total}");
        let part = Part { class, size, told, label: String::new() };
        Bar { name: name.to_string(), parts: vec![part], total }
    }

    /// The parts that have a size.
    fn drawn(&self) -> impl Iterator<Item = &Part> {
        self.parts.iter().filter(|part| part.size.is_finite() && part.size > 0.0)
    }

    fn size(&self) -> f64 {
        self.drawn().map(|part| part.size).sum()
    }
}

const WIDTH: f64 = 1140.0;
const STEP: f64 = 40.0;
const HEIGHT: f64 = 26.0;
const TOP: f64 = 26.0;
/// Characters of a name that are shown, and picture units a character takes at most.
const NAME_CHARACTERS_MAX: usize = 36;
const CHARACTER: f64 = 8.2;

/// One bar below another, and a line at a size with what it marks. `None` where no bar has a size.
pub(super) fn picture(
    caption: &Caption<'_>,
    bars: &[Bar],
    mark: Option<&(f64, String)>,
) -> Option<String> {
    let longest = bars.iter().map(Bar::size).fold(0.0, f64::max);
    if longest <= 0.0 {
        return None;
    }
    let most = |of: fn(&Bar) -> &str, least: usize, most: usize| {
        let widths = bars.iter().map(|bar| of(bar).chars().count());
        widths.max().unwrap_or(0).clamp(least, most) as f64 * CHARACTER + 12.0
    };
    let left = most(|bar| &bar.name, 16, NAME_CHARACTERS_MAX);
    let right = WIDTH - most(|bar| &bar.total, 9, 60);
    let axis = Axis::linear(longest, left, right);
    let height = TOP + STEP * bars.len() as f64 + 8.0;
    let mut picture = Picture::new(caption, WIDTH, height);
    for (index, bar) in bars.iter().enumerate() {
        let top = TOP + STEP * index as f64;
        let short: String = bar.name.chars().take(NAME_CHARACTERS_MAX).collect();
        picture.label(left - 10.0, top + 18.0, "bar-name end", &short);
        parts(&mut picture, bar, top, axis);
        picture.label(axis.at(bar.size()) + 8.0, top + 18.0, "bar-total", &bar.total);
    }
    if let Some((size, what)) = mark.filter(|(size, _)| *size > 0.0 && *size <= longest) {
        let at = axis.at(*size);
        picture.add(&format!("<path class=\"floor\" d=\"M{at:.1} {:.1}V{height}\"/>", TOP - 6.0));
        let class = if at < left + 100.0 { "note" } else { "note mid" };
        picture.label(at, TOP - 11.0, class, what);
    }
    Some(picture.finish())
}

fn parts(picture: &mut Picture, bar: &Bar, top: f64, axis: Axis) {
    let mut before = 0.0;
    for part in bar.drawn() {
        let (from, to) = (axis.at(before), axis.at(before + part.size));
        before += part.size;
        if to - from < 0.1 {
            continue;
        }
        picture.add(&format!(
            "<rect class=\"{}\" x=\"{from:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{HEIGHT}\">\
             <title>{}</title></rect>",
            part.class,
            to - from,
            escape(&part.told),
        ));
        if to - from > 64.0 && !part.label.is_empty() {
            let middle = (from + to) / 2.0;
            picture.label(middle, top + 17.5, &format!("in-{} mid", part.class), &part.label);
        }
    }
}

/// What the colour of each class means.
pub(super) fn legend(classes: &[(&str, &str)]) -> String {
    let key = |(class, name): &(&str, &str)| {
        format!(
            "<li><svg viewBox=\"0 0 14 14\" aria-hidden=\"true\"><rect class=\"{class}\" \
             width=\"14\" height=\"14\"/></svg>{}</li>",
            super::text::name(name)
        )
    };
    let keys: String = classes.iter().map(key).collect();
    format!("<ul class=\"legend boxes\">{keys}</ul>")
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPTION: Caption<'_> = Caption { id: "x", title: "a < b", description: "\"d\"" };

    fn bar(sizes: &[f64]) -> Bar {
        let part = |size: &f64| Part {
            class: "seek".into(),
            size: *size,
            told: "<told>".into(),
            label: "<label>".into(),
        };
        Bar { name: "<name>".into(), parts: sizes.iter().map(part).collect(), total: "<t>".into() }
    }

    #[test]
    fn parts_fill_the_bar_in_proportion_whatever_they_are() {
        assert!(picture(&CAPTION, &[], None).is_none());
        assert!(picture(&CAPTION, &[bar(&[0.0, f64::NAN])], None).is_none());
        let bars = [bar(&[4.0, f64::NAN, -1.0, 3.0, 2.0, 1.0]), bar(&[f64::INFINITY, 5.0])];
        let svg = picture(&CAPTION, &bars, Some(&(2.0, "<m>".into()))).unwrap();
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        let document = roxmltree::Document::parse(&svg).unwrap();
        let width = |node: roxmltree::Node<'_, '_>| node.attribute("width")?.parse::<f64>().ok();
        let rects = || document.descendants().filter(|node| node.has_tag_name("rect"));
        let widths: Vec<f64> = rects().filter_map(width).collect();
        // Each begins where the one before it ends.
        let begins = rects().filter_map(|node| node.attribute("x")?.parse::<f64>().ok());
        let begins: Vec<f64> = begins.collect();
        for part in 1..4 {
            let before = begins[part - 1] + widths[part - 1];
            assert!((begins[part] - before).abs() < 0.2, "{begins:?} {widths:?}");
        }
        let of_first = |share: f64| (widths[..4].iter().sum::<f64>() * share * 10.0).round() / 10.0;
        assert_eq!(widths[..4], [0.4, 0.3, 0.2, 0.1].map(of_first));
        assert_eq!(widths[4], of_first(0.5));
        assert!(svg.contains("class=\"floor\""));
        assert!(!picture(&CAPTION, &bars, Some(&(11.0, String::new()))).unwrap().contains("floor"));
    }
}
