//! Formats metrics in Prometheus's text format.

use std::fmt::Write;

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

    /// Adds a sample. `labels` includes the braces, or is empty.
    pub fn sample(&mut self, name: &str, labels: &str, value: f64) {
        let _ = writeln!(self.0, "forebay_{name}{labels} {value}");
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
        page.sample("reads_total", &format!("{{export=\"{}\"}}", Page::label("a\"b\\c\nd")), 3.0);
        let expected = "# HELP forebay_reads_total Reads.\n# TYPE forebay_reads_total counter\n\
                        forebay_reads_total{export=\"a\\\"b\\\\c\\nd\"} 3\n";
        assert_eq!(page.text(), expected);
    }
}
