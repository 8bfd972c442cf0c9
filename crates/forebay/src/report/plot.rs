//! The ground a picture is drawn on: axes, grid and labels as SVG.
//!
//! Colours come from the page's style sheet, so that a picture follows the reader's light or dark
//! scheme. No coordinate is ever not a number: values are clamped into the axes.

use std::fmt::Write;

use super::text::{escape, significant};

/// One axis: values onto picture units.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    logarithmic: bool,
    /// How the values of a logarithmic axis are labelled.
    label: fn(f64) -> String,
}

impl Axis {
    /// From 0 to `high`, which lies at `to`.
    pub(super) fn linear(high: f64, from: f64, to: f64) -> Axis {
        let high = if high.is_finite() && high > 0.0 { high } else { 1.0 };
        Axis { low: 0.0, high, from, to, logarithmic: false, label: time }
    }

    /// From `low` to `high` in equal steps.
    pub(super) fn between(low: f64, high: f64, from: f64, to: f64) -> Axis {
        match low.is_finite() && high.is_finite() && high > low {
            true => Axis { low, high, from, to, logarithmic: false, label: time },
            false => Axis::linear(high, from, to),
        }
    }

    /// Whole decades of milliseconds that hold `low` to `high`.
    pub(super) fn decades(low: f64, high: f64, from: f64, to: f64) -> Axis {
        let decade =
            |value: f64| if value.is_finite() { value.clamp(1e-6, 1e12).log10() } else { 0.0 };
        let first = decade(low).floor();
        let last = decade(high).ceil().max(first + 1.0);
        Axis { low: first, high: last, from, to, logarithmic: true, label: time }
    }

    /// The same axis of something else, whose values `label` writes.
    pub(super) fn labelled(self, label: fn(f64) -> String) -> Axis {
        Axis { label, ..self }
    }

    /// Where `value` lies.
    pub(super) fn at(&self, value: f64) -> f64 {
        let value = if self.logarithmic { value.max(1e-9).log10() } else { value };
        let share = (value - self.low) / (self.high - self.low);
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
        self.from + share * (self.to - self.from)
    }

    /// Values to label, about `wanted` of them, with their labels.
    fn ticks(&self, wanted: f64) -> Vec<(f64, String)> {
        if self.logarithmic {
            let every = ((self.high - self.low) / 8.0).ceil().max(1.0) as usize;
            let decades = (self.low as i32..=self.high as i32).step_by(every);
            return decades
                .map(|decade| 10f64.powi(decade))
                .map(|value| (value, (self.label)(value)))
                .collect();
        }
        let rough = (self.high - self.low) / wanted;
        let power = 10f64.powf(rough.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0];
        let step = steps.iter().map(|s| s * power).find(|s| *s >= rough).unwrap_or(rough);
        let digits = (-step.log10().floor()).clamp(0.0, 9.0) as usize;
        let first = (self.low / step - 1e-9).ceil();
        (0..=wanted as usize * 3)
            .map(|index| (first + index as f64) * step)
            .take_while(|value| *value <= self.high * (1.0 + 1e-9))
            .map(|value| (value, fixed(value, digits)))
            .collect()
    }
}

/// A number as short as it can be.
fn plain(value: f64) -> String {
    let shown = significant(value);
    match shown.contains('.') && !shown.contains('e') {
        true => shown.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => shown,
    }
}

/// Milliseconds in the unit that keeps them short.
fn time(ms: f64) -> String {
    match ms {
        ms if ms < 0.99 => format!("{}\u{a0}µs", plain(ms * 1e3)),
        ms if ms < 999.0 => format!("{}\u{a0}ms", plain(ms)),
        ms => format!("{}\u{a0}s", plain(ms / 1e3)),
    }
}

fn fixed(value: f64, digits: usize) -> String {
    if digits == 0 { plain(value.round()) } else { format!("{value:.digits$}") }
}

/// What a picture is about.
pub(super) struct Caption<'a> {
    /// Unique on the page: letters, digits and dashes.
    pub(super) id: &'a str,
    /// What is shown.
    pub(super) title: &'a str,
    /// What is to be seen, for those who cannot see it.
    pub(super) description: &'a str,
}

/// A picture of given size, open for more.
pub(super) struct Picture {
    svg: String,
}

impl Picture {
    /// An empty picture.
    pub(super) fn new(caption: &Caption<'_>, width: f64, height: f64) -> Picture {
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

    /// Adds markup.
    pub(super) fn add(&mut self, markup: &str) {
        self.svg.push_str(markup);
        self.svg.push('\n');
    }

    /// Adds text, escaped, at a place, in a class of the style sheet.
    pub(super) fn label(&mut self, x: f64, y: f64, class: &str, text: &str) {
        let text = escape(text);
        self.add(&format!("<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\">{text}</text>"));
    }

    /// Ends the picture.
    pub(super) fn finish(mut self) -> String {
        self.svg.push_str("</svg>");
        self.svg
    }
}

/// A picture with a horizontal and a vertical axis.
pub(super) struct Plot {
    /// Horizontal.
    pub(super) x: Axis,
    /// Vertical.
    pub(super) y: Axis,
    picture: Picture,
}

/// Room around the plotted area.
pub(super) const LEFT: f64 = 66.0;
/// Room around the plotted area.
pub(super) const RIGHT: f64 = 14.0;
/// Room around the plotted area.
pub(super) const TOP: f64 = 10.0;
/// Room around the plotted area.
pub(super) const BOTTOM: f64 = 42.0;

impl Plot {
    /// Grid and labels for `x` and `y`, which reach to the rooms above.
    pub(super) fn new(
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
        for (value, label) in x.ticks(8.0) {
            let at = x.at(value);
            let _ = write!(grid, "M{at:.1} {TOP}V{bottom}");
            picture.label(at, bottom + 17.0, "tick mid", &label);
        }
        picture.add(&format!("<path class=\"grid\" d=\"{grid}\"/>"));
        picture.add(&format!("<path class=\"axis\" d=\"M{LEFT} {TOP}V{bottom}H{right}\"/>"));
        picture.label((LEFT + right) / 2.0, height - 6.0, "name mid", x_name);
        let (middle, name) = ((TOP + bottom) / 2.0, escape(y_name));
        picture.add(&format!(
            "<text class=\"name mid\" transform=\"translate(13 {middle:.1}) rotate(-90)\">{name}\
             </text>"
        ));
        Plot { x, y, picture }
    }

    /// A horizontal axis for a picture of `width`.
    pub(super) fn across(width: f64) -> (f64, f64) {
        (LEFT, width - RIGHT)
    }

    /// A vertical axis for a picture of `height`.
    pub(super) fn upwards(height: f64) -> (f64, f64) {
        (height - BOTTOM, TOP)
    }

    /// A line through points, in a class of the style sheet.
    pub(super) fn line(&mut self, points: &[(f64, f64)], class: &str) {
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

    /// A dot at each point.
    pub(super) fn dots(&mut self, points: &[(f64, f64)], class: &str) {
        let mut path = String::new();
        for &(x, y) in points {
            let _ = write!(path, "M{:.1} {:.1}h0", self.x.at(x), self.y.at(y));
        }
        if !path.is_empty() {
            self.picture.add(&format!("<path class=\"{class}\" d=\"{path}\"/>"));
        }
    }

    /// Adds markup.
    pub(super) fn add(&mut self, markup: &str) {
        self.picture.add(markup);
    }

    /// Adds text at values of the axes, moved by picture units.
    pub(super) fn label(&mut self, (x, y): (f64, f64), moved: (f64, f64), class: &str, text: &str) {
        let (x, y) = (self.x.at(x) + moved.0, self.y.at(y) + moved.1);
        self.picture.label(x, y, class, text);
    }

    /// Ends the picture.
    pub(super) fn finish(self) -> String {
        self.picture.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_clamped_into_the_axis() {
        let axis = Axis::linear(10.0, 100.0, 0.0);
        let places = [0.0, 5.0, 10.0, 20.0, -1.0, f64::NAN].map(|value| axis.at(value));
        assert_eq!(places, [100.0, 50.0, 0.0, 0.0, 100.0, 100.0]);
        for high in [f64::NAN, 0.0, f64::INFINITY, -3.0] {
            assert!(Axis::linear(high, 0.0, 9.0).at(0.5).is_finite());
        }
    }

    #[test]
    fn ticks_are_round_and_within() {
        let labels = |axis: Axis| axis.ticks(5.0).into_iter().map(|t| t.1).collect::<Vec<_>>();
        assert_eq!(labels(Axis::linear(1.0, 0.0, 1.0)), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(Axis::linear(733.0, 0.0, 1.0)), ["0", "200", "400", "600"]);
        assert_eq!(labels(Axis::between(71.0, 78.0, 0.0, 1.0)), ["72", "74", "76", "78"]);
        assert_eq!(
            labels(Axis::decades(0.2, 30.0, 0.0, 1.0)),
            ["100\u{a0}µs", "1\u{a0}ms", "10\u{a0}ms", "100\u{a0}ms"]
        );
    }

    #[test]
    fn a_decade_is_a_decade_wide() {
        let axis = Axis::decades(0.1, 10.0, 0.0, 100.0);
        assert_eq!([0.1, 1.0, 10.0].map(|value| axis.at(value).round()), [0.0, 50.0, 100.0]);
        assert_eq!(axis.at(0.0), 0.0);
    }
}
