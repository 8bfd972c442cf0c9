//! An axis of a chart: maps values to positions in picture units, and chooses labels.

use super::text::{bytes, significant};

/// The scale of an axis.
#[derive(Clone, Copy, Debug)]
enum Scale {
    Linear,
    /// A scale on which equal steps are equal factors. Holds the factor from one label to the next.
    Logarithmic(f64),
}

/// An axis of a chart, which maps values to positions in picture units.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    scale: Scale,
    /// Formats the labels of a logarithmic axis.
    label: fn(f64) -> String,
}

impl Axis {
    /// Creates a linear axis from 0, at position `from`, to `high`, at position `to`.
    pub fn linear(high: f64, from: f64, to: f64) -> Axis {
        let high = if high.is_finite() && high > 0.0 { high } else { 1.0 };
        Axis { low: 0.0, high, from, to, scale: Scale::Linear, label: time }
    }

    /// Creates a linear axis from `low`, at position `from`, to `high`, at position `to`.
    pub fn between(low: f64, high: f64, from: f64, to: f64) -> Axis {
        match low.is_finite() && high.is_finite() && high > low {
            true => Axis { low, high, from, to, scale: Scale::Linear, label: time },
            false => Axis::linear(high, from, to),
        }
    }

    /// Creates a logarithmic axis of milliseconds, in whole decades that include `low` to `high`.
    pub fn decades(low: f64, high: f64, from: f64, to: f64) -> Axis {
        Axis::powers(10.0, (low, high), from, to)
    }

    /// Creates a logarithmic axis of bytes, in whole powers of two that include `low` to `high`.
    pub fn doublings(low: f64, high: f64, from: f64, to: f64) -> Axis {
        Axis::powers(2.0, (low, high), from, to).labelled(size)
    }

    fn powers(base: f64, (low, high): (f64, f64), from: f64, to: f64) -> Axis {
        let power = |value: f64| match value.is_finite() {
            true => logarithm(value.clamp(1e-6, 1e18), base),
            false => 0.0,
        };
        let first = power(low).floor();
        let last = power(high).ceil().max(first + 1.0);
        Axis { low: first, high: last, from, to, scale: Scale::Logarithmic(base), label: time }
    }

    /// Sets how labels are formatted, for an axis of another quantity.
    pub fn labelled(self, label: fn(f64) -> String) -> Axis {
        Axis { label, ..self }
    }

    /// Returns the positions of both ends of the axis in picture units.
    pub fn ends(&self) -> (f64, f64) {
        (self.from, self.to)
    }

    /// Returns the values at both ends of a linear axis.
    pub fn span(&self) -> (f64, f64) {
        (self.low, self.high)
    }

    /// Returns the position of `value` in picture units.
    pub fn at(&self, value: f64) -> f64 {
        let value = match self.scale {
            Scale::Linear => value,
            Scale::Logarithmic(base) => logarithm(value.max(1e-9), base),
        };
        let share = (value - self.low) / (self.high - self.low);
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
        self.from + share * (self.to - self.from)
    }

    /// Returns about `wanted` values at which to draw labels, with the labels.
    pub fn ticks(&self, wanted: f64) -> Vec<(f64, String)> {
        if let Scale::Logarithmic(base) = self.scale {
            let every = ((self.high - self.low) / wanted).ceil().max(1.0) as usize;
            let powers = (self.low as i32..=self.high as i32).step_by(every);
            return powers
                .map(|power| base.powi(power))
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

/// Returns the logarithm of a value, which is exact for powers of ten and of two.
fn logarithm(value: f64, base: f64) -> f64 {
    if base == 2.0 { value.log2() } else { value.log10() }
}

/// Formats a number as briefly as possible.
pub fn plain(value: f64) -> String {
    let shown = significant(value);
    match shown.contains('.') && !shown.contains('e') {
        true => shown.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => shown,
    }
}

/// Formats milliseconds in the unit that gives the shortest text.
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

/// Formats a whole number of bytes in binary units.
fn size(value: f64) -> String {
    let text = bytes(value);
    match text.split_once('\u{a0}') {
        Some((number, unit)) if number.contains('.') => {
            let number = number.trim_end_matches('0').trim_end_matches('.');
            format!("{number}\u{a0}{unit}")
        }
        _ => text,
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
        assert_eq!(
            labels(Axis::doublings(600.0, 4096.0, 0.0, 1.0)),
            ["512\u{a0}B", "1\u{a0}KiB", "2\u{a0}KiB", "4\u{a0}KiB"]
        );
    }

    #[test]
    fn a_decade_is_a_decade_wide() {
        let axis = Axis::decades(0.1, 10.0, 0.0, 100.0);
        assert_eq!([0.1, 1.0, 10.0].map(|value| axis.at(value).round()), [0.0, 50.0, 100.0]);
        assert_eq!(axis.at(0.0), 0.0);
    }
}
