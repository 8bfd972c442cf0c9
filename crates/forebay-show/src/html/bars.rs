//! Draws stacked horizontal bars, one below another, with an optional line that marks a size.

use super::axis::Axis;
use super::plot::{Caption, Picture, Shape, in_both};
use super::text::escape;

/// A segment of a bar.
#[derive(Clone, Debug)]
pub struct Part {
    /// The class of the segment in the style sheet.
    pub class: String,
    /// The size of the segment, to which its length is proportional.
    pub size: f64,
    /// The tooltip of the segment.
    pub tooltip: String,
    /// The text inside the segment, shown if it fits; may be empty.
    pub label: String,
}

/// A bar, which consists of segments.
#[derive(Clone, Debug)]
pub struct Bar {
    /// The text before the bar.
    pub name: String,
    /// The segments of the bar, from the left.
    pub parts: Vec<Part>,
    /// The text after the bar.
    pub total: String,
}

impl Bar {
    /// Creates a bar with one segment, highlighted if `stands_out` is set.
    pub fn single(name: &str, size: f64, total: String, stands_out: bool) -> Bar {
        let class = if stands_out { "chosen" } else { "other" }.to_string();
        let tooltip = format!("{name}: {total}");
        let part = Part { class, size, tooltip, label: String::new() };
        Bar { name: name.to_string(), parts: vec![part], total }
    }

    /// Yields the segments whose size is not zero.
    fn drawn(&self) -> impl Iterator<Item = &Part> {
        self.parts.iter().filter(|part| part.size.is_finite() && part.size > 0.0)
    }

    fn size(&self) -> f64 {
        self.drawn().map(|part| part.size).sum()
    }
}

const HEIGHT: f64 = 26.0;
const TOP: f64 = 26.0;
/// The maximum number of characters shown of a bar's name.
const NAME_CHARACTERS_MAX: usize = 30;
/// The maximum width of a character in picture units.
const CHARACTER: f64 = 8.8;
/// The maximum number of bars listed in the description for screen readers.
const READ_MAX: usize = 40;

/// Where bars and their labels are placed in the picture.
struct Layout {
    axis: Axis,
    width: f64,
    /// The distance between the tops of neighboring bars, in picture units.
    step: f64,
    /// The height of the labels above each bar, in picture units.
    above: f64,
}

impl Layout {
    fn of(shape: Shape, bars: &[Bar], longest: f64) -> Layout {
        let most = |of: fn(&Bar) -> &str, least: usize, most: usize| {
            let widths = bars.iter().map(|bar| of(bar).chars().count());
            widths.max().unwrap_or(0).clamp(least, most) as f64 * CHARACTER + 12.0
        };
        let width = shape.size().0;
        let (left, right, above) = match shape {
            Shape::Broad => (
                most(|bar| &bar.name, 16, NAME_CHARACTERS_MAX),
                width - most(|bar| &bar.total, 9, 60),
                0.0,
            ),
            Shape::Slim => (0.0, width, 20.0),
        };
        let axis = Axis::linear(longest, left, right);
        Layout { axis, width, step: 14.0 + HEIGHT + above, above }
    }

    /// Adds the name and the total of a bar at `top`: either before and after the bar, or both
    /// above it.
    fn label(&self, picture: &mut Picture, bar: &Bar, top: f64) {
        let start = |most: usize| -> String {
            match bar.name.chars().count() > most {
                true => bar.name.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
                false => bar.name.clone(),
            }
        };
        if self.above > 0.0 {
            let room = (self.width / CHARACTER) as usize - 1;
            let room = room.saturating_sub(bar.total.chars().count());
            picture.label(0.0, top + 14.0, "bar-name", &start(room.min(NAME_CHARACTERS_MAX)));
            picture.label(self.width, top + 14.0, "bar-total end", &bar.total);
            return;
        }
        let left = self.axis.ends().0;
        picture.label(left - 10.0, top + 18.0, "bar-name end", &start(NAME_CHARACTERS_MAX));
        picture.label(self.axis.at(bar.size()) + 8.0, top + 18.0, "bar-total", &bar.total);
    }

    /// Adds the line that marks `size`, down to `bottom`, and its label.
    fn mark(&self, picture: &mut Picture, (size, what): &(f64, String), bottom: f64) {
        let (at, half) = (self.axis.at(*size), 100.0);
        picture.add(&format!("<path class=\"floor\" d=\"M{at:.1} {:.1}V{bottom}\"/>", TOP - 6.0));
        let class = match at {
            at if at < self.axis.ends().0 + half => "note",
            at if at > self.width - half => "note end",
            _ => "note mid",
        };
        picture.label(at, TOP - 11.0, class, what);
    }
}

/// Draws bars, and optionally a line that marks a size, with its meaning. The picture suits pages
/// of any width. The description for screen readers lists the bars. Returns `None` if all sizes are
/// zero.
pub fn picture(
    caption: &Caption<'_>,
    bars: &[Bar],
    mark: Option<&(f64, String)>,
) -> Option<String> {
    let marked = mark.map_or(String::new(), |(_, what)| format!(" The line: {what}."));
    let description = format!("{}{marked} {}.", caption.description, read(bars));
    let caption = Caption { description: &description, ..*caption };
    in_both(&caption, |caption, shape| drawn(caption, bars, mark, shape))
}

/// Describes the bars in words, for screen readers.
fn read(bars: &[Bar]) -> String {
    let one = |bar: &Bar| match bar.name.as_str() {
        "" => bar.total.clone(),
        name => format!("{name}: {}", bar.total),
    };
    let shown: Vec<String> = bars.iter().take(READ_MAX).map(one).collect();
    shown.join("; ")
}

fn drawn(
    caption: &Caption<'_>,
    bars: &[Bar],
    mark: Option<&(f64, String)>,
    shape: Shape,
) -> Option<String> {
    let longest = bars.iter().map(Bar::size).fold(0.0, f64::max);
    if longest <= 0.0 {
        return None;
    }
    let layout = Layout::of(shape, bars, longest);
    let height = TOP + layout.step * bars.len() as f64 + 8.0;
    let mut picture = Picture::new(caption, layout.width, height);
    for (index, bar) in bars.iter().enumerate() {
        let top = TOP + layout.step * index as f64;
        layout.label(&mut picture, bar, top);
        parts(&mut picture, bar, top + layout.above, layout.axis);
    }
    if let Some(mark) = mark.filter(|(size, _)| *size > 0.0 && *size <= longest) {
        layout.mark(&mut picture, mark, height);
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
            escape(&part.tooltip),
        ));
        if to - from > 64.0 && !part.label.is_empty() {
            let middle = (from + to) / 2.0;
            picture.label(middle, top + 17.5, &format!("in-{} mid", part.class), &part.label);
        }
    }
}

/// Builds a legend of the colors, given as (class of the style sheet, meaning).
pub fn legend(classes: &[(&str, &str)]) -> String {
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
            tooltip: "<told>".into(),
            label: "<label>".into(),
        };
        Bar { name: "<name>".into(), parts: sizes.iter().map(part).collect(), total: "<t>".into() }
    }

    #[test]
    fn parts_fill_the_bar_in_proportion_whatever_they_are() {
        assert!(picture(&CAPTION, &[], None).is_none());
        assert!(picture(&CAPTION, &[bar(&[0.0, f64::NAN])], None).is_none());
        for shape in [Shape::Broad, Shape::Slim] {
            fill_in_proportion(shape);
        }
    }

    fn fill_in_proportion(shape: Shape) {
        let bars = [bar(&[4.0, f64::NAN, -1.0, 3.0, 2.0, 1.0]), bar(&[f64::INFINITY, 5.0])];
        let svg = drawn(&CAPTION, &bars, Some(&(2.0, "<m>".into())), shape).unwrap();
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        let document = roxmltree::Document::parse(&svg).unwrap();
        let width = |node: roxmltree::Node<'_, '_>| node.attribute("width")?.parse::<f64>().ok();
        let rects = || document.descendants().filter(|node| node.has_tag_name("rect"));
        let widths: Vec<f64> = rects().filter_map(width).collect();
        // Each segment starts where the previous one ends.
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
        let beyond = Some(&(11.0, String::new()));
        assert!(!drawn(&CAPTION, &bars, beyond, shape).unwrap().contains("floor"));
    }

    #[test]
    fn nothing_of_a_slim_picture_lies_beside_it_or_upon_another() {
        let long = "a name that is longer than a telephone is wide";
        let total = "493\u{a0}W, broken in 2 of 7";
        let bars = [1.0, 400.0].map(|size| Bar::single(long, size, total.into(), false));
        let mark = (399.0, "nothing below 399".to_string());
        let svg = drawn(&CAPTION, &bars, Some(&mark), Shape::Slim).unwrap();
        let document = roxmltree::Document::parse(&svg).unwrap();
        let of = |class: &str| -> Vec<(f64, usize)> {
            let texts =
                document.descendants().filter(|node| node.attribute("class") == Some(class));
            let place = |node: roxmltree::Node<'_, '_>| {
                (
                    node.attribute("x").unwrap().parse().unwrap(),
                    node.text().unwrap().chars().count(),
                )
            };
            texts.map(place).collect()
        };
        let (names, totals) = (of("bar-name"), of("bar-total end"));
        assert_eq!((names.len(), totals.len(), of("note end").len()), (2, 2, 1), "{svg}");
        for ((left, name), (right, total)) in names.into_iter().zip(totals) {
            let between = right - total as f64 * CHARACTER - (left + name as f64 * CHARACTER);
            assert!(left == 0.0 && right == 400.0 && between > 0.0, "{name} {total}: {between}");
        }
    }

    #[test]
    fn bars_have_a_description_for_screen_readers() {
        let bars = [("a", 1.0), ("", 2.0)]
            .map(|(name, size)| Bar::single(name, size, format!("{size} W"), false));
        let svg = picture(&CAPTION, &bars, Some(&(1.0, "the least".into()))).unwrap();
        let tooltip = "&quot;d&quot; The line: the least. a: 1 W; 2 W.</desc>";
        assert_eq!(svg.matches(tooltip).count(), 2, "{svg}");
    }
}
