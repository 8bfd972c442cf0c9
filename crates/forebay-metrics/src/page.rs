//! Formats metrics in Prometheus's text format.

use std::fmt::Write;

/// A metric of things that a server has several of, such as its exports.
pub struct Metric<T> {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    of: fn(&T) -> f64,
}

impl<T> Metric<T> {
    /// Creates a metric that may fall, from its name, its description and its value.
    pub const fn gauge(name: &'static str, help: &'static str, of: fn(&T) -> f64) -> Metric<T> {
        Metric { name, kind: "gauge", help, of }
    }

    /// Creates a metric that only grows.
    pub const fn counter(name: &'static str, help: &'static str, of: fn(&T) -> f64) -> Metric<T> {
        Metric { name, kind: "counter", help, of }
    }
}

/// A page of samples. The caller must choose valid names and labels; other text must be passed
/// through [`Page::label`].
#[derive(Default)]
pub struct Page(String);

// Errors are ignored because writing to a string cannot fail.
impl Page {
    /// Begins a metric: its name without `forebay_`, its kind (`counter`, `gauge`, `histogram`),
    /// and its description.
    pub fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP forebay_{name} {help}\n# TYPE forebay_{name} {kind}");
    }

    /// Adds a sample. `labels` is without braces, and may be empty.
    pub fn sample(&mut self, name: &str, labels: &str, value: f64) {
        let _ = match labels {
            "" => writeln!(self.0, "forebay_{name} {value}"),
            _ => writeln!(self.0, "forebay_{name}{{{labels}}} {value}"),
        };
    }

    /// Adds a metric with its samples, each with its labels as in [`Page::sample`].
    pub fn metric(
        &mut self,
        (name, kind, help): (&str, &str, &str),
        samples: impl IntoIterator<Item = (String, f64)>,
    ) {
        self.head(name, kind, help);
        samples.into_iter().for_each(|(labels, value)| self.sample(name, &labels, value));
    }

    /// Adds these metrics of all of `things`, which come with their labels. The metrics' names begin
    /// with `prefix`.
    pub fn metrics<T>(&mut self, prefix: &str, metrics: &[Metric<T>], things: &[(String, &T)]) {
        for Metric { name, kind, help, of } in metrics {
            let samples = things.iter().map(|(labels, thing)| (labels.clone(), of(thing)));
            self.metric((&format!("{prefix}{name}"), kind, help), samples);
        }
    }

    /// Adds a metric like [`Page::metric`], unless it has no samples.
    pub fn metric_if_any(
        &mut self,
        metric: (&str, &str, &str),
        samples: impl IntoIterator<Item = (String, f64)>,
    ) {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_some() {
            self.metric(metric, samples);
        }
    }

    /// Escapes `text` for use between a label's quotes.
    pub fn label(text: &str) -> String {
        text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
    }

    /// Returns the whole page.
    pub fn text(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_a_line_for_each_sample() {
        let mut page = Page::default();
        page.head("reads_total", "counter", "Reads.");
        page.sample("reads_total", &format!("export=\"{}\"", Page::label("a\"b\\c\nd")), 3.0);
        let expected = "# HELP forebay_reads_total Reads.\n# TYPE forebay_reads_total counter\n\
                        forebay_reads_total{export=\"a\\\"b\\\\c\\nd\"} 3\n";
        assert_eq!(page.text(), expected);
    }
}
