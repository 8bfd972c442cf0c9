//! Renders sentences in HTML. Lines never break between a figure and its unit, and text between
//! backticks becomes code.

use std::path::Path;

use super::document::section;
use super::text::escape;
use crate::prose::joined;

/// The maximum number of paragraphs shown in one section.
const PARAGRAPHS_MAX: usize = 40;

/// Escapes untrusted `text`, and turns text between backticks into code.
pub fn inline(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return escape(text);
    }
    let one = |(nth, part): (usize, &&str)| match nth % 2 {
        0 => escape(part),
        _ => format!("<code>{}</code>", escape(part)),
    };
    parts.iter().enumerate().map(one).collect()
}

/// Prevents line breaks between figures and their units in `markup`. Code is left unchanged,
/// because readers copy it.
pub fn keep_units_together(markup: &str) -> String {
    let mut kept = String::with_capacity(markup.len());
    let mut is_code = false;
    for piece in markup.split_inclusive('>') {
        let (text, tag) = piece.split_at(piece.find('<').unwrap_or(piece.len()));
        match is_code {
            true => kept.push_str(text),
            false => kept.push_str(&joined(text)),
        }
        kept.push_str(tag);
        is_code = if tag.starts_with("</") {
            is_code && tag != "</code>"
        } else {
            is_code || tag == "<code>"
        };
    }
    kept
}

/// Builds the title of a page from `what` it shows and the file names of the traces that it is
/// about.
pub fn page_title(what: &str, of: &[&str]) -> String {
    let last =
        |path: &&str| Path::new(path).file_name().map(|last| last.to_string_lossy().into_owned());
    let of: Vec<String> = of.iter().map(|path| last(path).unwrap_or(path.to_string())).collect();
    format!("{what}: {}", of.join(" and "))
}

/// How lines meant for copying start.
const INDENT: &str = "    ";

/// Renders a paragraph. Consecutive lines meant for copying become a block of their own.
fn prose(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let is_copied = |line: &str| line.starts_with(INDENT);
    let part = |part: &[&str]| -> String {
        let copied: Option<Vec<String>> =
            part.iter().map(|line| line.strip_prefix(INDENT).map(escape)).collect();
        match copied {
            Some(lines) => format!("<pre><code>{}</code></pre>\n", lines.join("\n")),
            None => part.iter().map(|line| format!("<p>{}</p>\n", inline(line))).collect(),
        }
    };
    lines.chunk_by(|a, b| is_copied(a) == is_copied(b)).map(part).collect()
}

/// Renders paragraphs as a section with a class of the style sheet; empty if there are none.
pub fn paragraphs(title: &str, class: &str, texts: &[String]) -> String {
    if texts.is_empty() {
        return String::new();
    }
    let shown = texts.iter().take(PARAGRAPHS_MAX);
    let mut all: String = shown.map(|text| prose(text)).collect();
    if texts.len() > PARAGRAPHS_MAX {
        all += &format!("<p>And {} more.</p>", texts.len() - PARAGRAPHS_MAX);
    }
    section(title, &format!("<div class=\"{class}\">{all}</div>"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_their_units_and_code_its_blanks() {
        assert_eq!(
            keep_units_together("<p class=\"2 s\">in 3 s, <code>sleep 3 s</code> or 4 ms</p>5 %"),
            "<p class=\"2 s\">in 3\u{a0}s, <code>sleep 3 s</code> or 4\u{a0}ms</p>5\u{a0}%"
        );
        assert_eq!(keep_units_together(""), "");
    }

    #[test]
    fn lines_in_a_row_are_copied_together() {
        let text = "Do:\n    a 1 %\n      b\nor\n    c";
        let shown = "<p>Do:</p>\n<pre><code>a 1 %\n  b</code></pre>\n<p>or</p>\n<pre><code>c</code></pre>\n";
        assert_eq!(prose(text), shown);
        assert_eq!(prose(""), "");
    }

    #[test]
    fn backticks_in_pairs_are_code() {
        assert_eq!(
            inline("see `a <b>` & `c`"),
            "see <code>a &lt;b&gt;</code> &amp; <code>c</code>"
        );
        assert_eq!(inline("one ` alone"), "one ` alone");
    }

    #[test]
    fn a_page_is_titled_by_its_answer_and_file_names() {
        assert_eq!(page_title("Advice", &["/long/way/to/t.parquet"]), "Advice: t.parquet");
        assert_eq!(page_title("Comparison", &["a/b", "c"]), "Comparison: b and c");
        assert_eq!(page_title("Advice", &[""]), "Advice: ");
    }
}
