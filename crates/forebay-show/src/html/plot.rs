//! The basis of all charts: pictures with axes, grid and labels, as SVG.
//!
//! Colors come from the page's style sheet, so that a picture follows the reader's light or dark
//! scheme. Coordinates are never NaN, because values are clamped to the axes.

use std::fmt::Write;

use super::axis::Axis;
use super::text::escape;

/// The title and the description of a picture.
pub struct Caption<'a> {
    /// An id that is unique on the page and consists of letters, digits and dashes.
    pub id: &'a str,
    /// The title of the picture.
    pub title: &'a str,
    /// The description of the picture for screen readers.
    pub description: &'a str,
}

/// The shape of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A picture as wide as a page on a large screen.
    Broad,
    /// A picture as wide as a phone's screen, so that it needs no scrolling.
    Slim,
}

impl Shape {
    /// Returns the width and the height of a plot in picture units.
    pub fn size(self) -> (f64, f64) {
        match self {
            Shape::Broad => (1140.0, 350.0),
            Shape::Slim => (400.0, 320.0),
        }
    }
}

/// Draws a picture in both shapes, of which the style sheet shows one. Returns `None` if there is
/// nothing to draw.
pub fn in_both(
    caption: &Caption<'_>,
    draw: impl Fn(&Caption<'_>, Shape) -> Option<String>,
) -> Option<String> {
    let broad = draw(caption, Shape::Broad)?;
    let slim = draw(&Caption { id: &format!("{}-slim", caption.id), ..*caption }, Shape::Slim)?;
    Some(format!("<div class=\"broad\">{broad}</div><div class=\"slim\">{slim}</div>"))
}

/// An SVG picture under construction.
pub struct Picture {
    svg: String,
}

impl Picture {
    /// Creates an empty picture.
    pub fn new(caption: &Caption<'_>, width: f64, height: f64) -> Picture {
        let Caption { id, title, description } = caption;
        Picture {
            svg: format!(
                "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" \
                 aria-labelledby=\"{id}-t {id}-d\">\
                 <title id=\"{id}-t\">{}</title><desc id=\"{id}-d\">{}</desc>\n",
                escape(title),
                escape(description)
            ),
        }
    }

    /// Adds markup to the picture.
    pub fn add(&mut self, markup: &str) {
        self.svg.push_str(markup);
        self.svg.push('\n');
    }

    /// Adds text at a position, with a class of the style sheet. The text is escaped here.
    pub fn label(&mut self, x: f64, y: f64, class: &str, text: &str) {
        let text = escape(text);
        self.add(&format!("<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\">{text}</text>"));
    }

    /// Completes the picture, and returns it as SVG.
    pub fn finish(mut self) -> String {
        self.svg.push_str("</svg>");
        self.svg
    }
}

/// A picture with a horizontal and a vertical axis, in which values can be plotted.
pub struct Plot {
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    picture: Picture,
    is_zoomable: bool,
}

/// The width reserved for a label of the horizontal axis, in picture units.
const LABEL: f64 = 66.0;
/// The margin to the left of the plotted area, in picture units.
pub const LEFT: f64 = 66.0;
/// The margin to the right of the plotted area, in picture units.
pub const RIGHT: f64 = 26.0;
/// The margin above the plotted area, in picture units.
pub const TOP: f64 = 10.0;
/// The margin below the plotted area, in picture units.
pub const BOTTOM: f64 = 42.0;

impl Plot {
    /// Creates a plot and draws the grid and the labels for the axes `x` and `y`, which span the
    /// plotted area.
    pub fn new(
        caption: &Caption<'_>,
        (width, height): (f64, f64),
        (x, x_name): (Axis, &str),
        (y, y_name): (Axis, &str),
    ) -> Plot {
        let mut picture = Picture::new(caption, width, height);
        let (bottom, right) = (height - BOTTOM, width - RIGHT);
        let mut grid = String::new();
        for (value, label) in y.ticks(5.0) {
            let at = y.at(value);
            let _ = write!(grid, "M{LEFT} {at:.1}H{right}");
            picture.label(LEFT - 8.0, at + 4.0, "tick end", &label);
        }
        for (value, label) in x.ticks(((right - LEFT) / LABEL).min(8.0)) {
            let at = x.at(value);
            let _ = write!(grid, "M{at:.1} {TOP}V{bottom}");
            picture.label(at, bottom + 17.0, "tick mid", &label);
        }
        picture.add(&format!("<path class=\"grid\" d=\"{grid}\"/>"));
        picture.add(&format!("<path class=\"axis\" d=\"M{LEFT} {TOP}V{bottom}H{right}\"/>"));
        picture.label((LEFT + right) / 2.0, height - 6.0, "name mid", x_name);
        let (middle, name) = ((TOP + bottom) / 2.0, escape(y_name));
        picture.add(&format!(
            "<text class=\"name mid up\" transform=\"translate(13 {middle:.1}) rotate(-90)\">{name}\
             </text>"
        ));
        Plot { x, y, picture, is_zoomable: false }
    }

    /// Returns the positions of the ends of a horizontal axis, in a picture of this width.
    pub fn across(width: f64) -> (f64, f64) {
        (LEFT, width - RIGHT)
    }

    /// Returns the positions of the ends of a vertical axis, in a picture of this height.
    pub fn upwards(height: f64) -> (f64, f64) {
        (height - BOTTOM, TOP)
    }

    /// Draws a line through points, with a class of the style sheet.
    pub fn line(&mut self, points: &[(f64, f64)], class: &str) {
        let mut path = String::new();
        let mut last = (f64::NAN, f64::NAN);
        for &(x, y) in points {
            let at = (self.x.at(x), self.y.at(y));
            if (at.0 - last.0).abs() < 0.05 && (at.1 - last.1).abs() < 0.05 {
                continue;
            }
            let command = if path.is_empty() { 'M' } else { 'L' };
            let _ = write!(path, "{command}{:.1} {:.1}", at.0, at.1);
            last = at;
        }
        if !path.is_empty() {
            self.picture.add(&format!("<path class=\"{class}\" d=\"{path}\"/>"));
        }
    }

    /// Adds a tooltip around a point, without drawing anything.
    pub fn spot(&mut self, (x, y): (f64, f64), told: &str) {
        let (x, y) = (self.x.at(x), self.y.at(y));
        let told = escape(told);
        self.add(&format!(
            "<path class=\"spot\" d=\"M{x:.1} {y:.1}h.01\"><title>{told}</title></path>"
        ));
    }

    /// Adds tooltips to some of the points of a line, including both ends.
    pub fn spots(
        &mut self,
        points: &[(f64, f64)],
        most: usize,
        told: impl Fn((f64, f64)) -> String,
    ) {
        let Some(last) = points.len().checked_sub(1) else { return };
        let shown = points.len().min(most.max(2));
        for nth in 0..shown {
            let point = points[nth * last / (shown - 1).max(1)];
            self.spot(point, &told(point));
        }
    }

    /// Adds a tooltip to the strip between two values of the horizontal axis.
    pub fn strip(&mut self, (from, to): (f64, f64), told: &str) {
        let (from, to) = (self.x.at(from), self.x.at(to));
        let ((bottom, top), told) = (self.y.ends(), escape(told));
        let (width, height) = (to - from, bottom - top);
        self.add(&format!(
            "<rect class=\"strip\" x=\"{from:.1}\" y=\"{top}\" width=\"{width:.1}\" height=\"{height}\">\
             <title>{told}</title></rect>"
        ));
    }

    /// Makes the horizontal axis, which must be linear, zoomable. Everything drawn after this call
    /// is stretched. Without scripts, the picture cannot be zoomed.
    pub fn zoomable(&mut self) {
        let ((left, right), (bottom, top)) = (self.x.ends(), self.y.ends());
        let (width, height) = (right - left, bottom - top);
        self.add(&format!(
            "<svg class=\"zoom\" data-from=\"{}\" data-to=\"{}\" x=\"{left}\" y=\"{top}\" width=\"{width}\" \
             height=\"{height}\" viewBox=\"{left} {top} {width} {height}\" preserveAspectRatio=\"none\">",
            self.x.span().0,
            self.x.span().1,
        ));
        self.is_zoomable = true;
    }

    /// Draws a dot at each point.
    pub fn dots(&mut self, points: &[(f64, f64)], class: &str) {
        let mut path = String::new();
        for &(x, y) in points {
            let _ = write!(path, "M{:.1} {:.1}h0", self.x.at(x), self.y.at(y));
        }
        if !path.is_empty() {
            self.picture.add(&format!("<path class=\"{class}\" d=\"{path}\"/>"));
        }
    }

    /// Adds markup to the picture.
    pub fn add(&mut self, markup: &str) {
        self.picture.add(markup);
    }

    /// Completes the picture, and returns it as SVG.
    pub fn finish(mut self) -> String {
        if self.is_zoomable {
            self.add("</svg>");
        }
        self.picture.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPTION: Caption<'_> = Caption { id: "x", title: "t", description: "d" };

    #[test]
    fn labels_below_a_picture_lie_within_it_and_apart() {
        let sizes = [Shape::Broad, Shape::Slim].map(Shape::size);
        for size in sizes.into_iter().chain([(560.0, 300.0)]) {
            let (left, right) = Plot::across(size.0);
            let (bottom, top) = Plot::upwards(size.1);
            let y = Axis::linear(1.0, bottom, top);
            for power in 1..61 {
                let axes = [
                    Axis::doublings(1.0, 2f64.powi(power), left, right),
                    Axis::decades(0.1, 10f64.powi(power / 10), left, right),
                    Axis::linear(f64::from(power) * 16.6, left, right),
                    Axis::between(99.0, 100.0, left, right),
                ];
                for x in axes {
                    let svg = Plot::new(&CAPTION, size, (x, "x"), (y, "y")).finish();
                    let document = roxmltree::Document::parse(&svg).unwrap();
                    let labels = document
                        .descendants()
                        .filter(|node| node.attribute("class") == Some("tick mid"));
                    // A digit is at most 7 units wide at font size 12.
                    let ends = labels.map(|label| {
                        let half = label.text().unwrap().chars().count() as f64 * 3.5;
                        let at: f64 = label.attribute("x").unwrap().parse().unwrap();
                        (at - half, at + half)
                    });
                    let ends: Vec<(f64, f64)> = ends.collect();
                    // No trace exceeds 16 TiB, and up to that size no label is longer than 7
                    // characters.
                    let is_within = power > 44 || ends.iter().all(|end| end.1 <= size.0);
                    assert!(ends.len() > 1 && is_within, "{ends:?}");
                    assert!(ends.windows(2).all(|two| two[0].1 <= two[1].0), "{x:?}: {ends:?}");
                }
            }
        }
    }

    #[test]
    fn a_picture_in_both_shapes_has_names_of_its_own() {
        let draw = |caption: &Caption<'_>, shape: Shape| {
            let (width, height) = shape.size();
            Some(Picture::new(caption, width, height).finish())
        };
        let both = in_both(&CAPTION, draw).unwrap();
        assert_eq!(both.matches("id=\"x-t\"").count(), 1);
        assert_eq!(both.matches("id=\"x-slim-t\"").count(), 1);
        assert!(both.contains("<div class=\"slim\"><svg viewBox=\"0 0 400 "), "{both}");
        assert!(in_both(&CAPTION, |_, shape| (shape == Shape::Broad).then(String::new)).is_none());
    }
}
