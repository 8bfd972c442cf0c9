//! Builds the HTML document around a page's content: style sheet, scripts, sections, header and
//! tiles.

use super::paragraphs::{inline, keep_units_together};
use super::table;
use super::text::{escape, name};

/// Builds a complete document with the title `title` and the content `body`.
pub fn document(title: &str, body: &str) -> String {
    let script = match body.contains("<figure") {
        true => {
            concat!("<script>\n", include_str!("point.js"), include_str!("zoom.js"), "</script>")
        }
        false => "",
    };
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\
         <meta name=\"color-scheme\" content=\"light dark\"/>\
         <title>{} – Forebay</title>{script}<style>\n{}</style></head>\n<body><main>\n{}</main>\
         <footer>Forebay {}</footer></body></html>\n",
        name(title),
        include_str!("style.css"),
        keep_units_together(body),
        env!("CARGO_PKG_VERSION"),
    )
}

/// Builds a section with a title, and names its tables after the title.
pub fn section(title: &str, content: &str) -> String {
    format!("<section><h2>{title}</h2>{}</section>\n", table::named(title, content))
}

/// Builds a section that is collapsed until the reader opens it.
pub fn folded(title: &str, content: &str) -> String {
    format!("<section class=\"folded\">{}</section>\n", unfolding(title, content))
}

/// Builds a collapsed part within a section.
pub fn unfolding(title: &str, content: &str) -> String {
    let content = table::named(title, content);
    format!("<details><summary>{title}</summary>{content}</details>")
}

/// Builds the top of a page: the verdict, with a class for its color (`good`, `calm`); the answer
/// in a sentence, whose first clause is in large type; and what the page is about, as (term, text).
/// The terms and the verdict must be markup already; the texts are escaped here.
pub fn header((class, verdict): (&str, &str), answer: &str, about: &[(&str, String)]) -> String {
    let about: String = about.iter().map(|(term, text)| item(term, &escape(text))).collect();
    let (first, rest) = large_and_small(answer);
    let rest = match rest {
        "" => String::new(),
        rest => format!(" <span>{}</span>", inline(rest)),
    };
    format!(
        "<header><p class=\"verdict {class}\">{verdict}</p><h1 class=\"sentence\">{}{rest}</h1>{}</header>\n",
        inline(first),
        listed("about", &about)
    )
}

/// The maximum number of words of the answer in large type.
pub const LARGE_WORDS_MAX: usize = 12;

/// Splits a sentence after its first clauses. The first part has at most [`LARGE_WORDS_MAX`] words,
/// provided that a clause ends within them.
pub fn large_and_small(sentence: &str) -> (&str, &str) {
    let is_short = |text: &str| text.split_whitespace().count() <= LARGE_WORDS_MAX;
    if is_short(sentence) {
        return (sentence, "");
    }
    let is_whole = |text: &str| {
        let count = |sign: char| text.matches(sign).count();
        count('`') % 2 == 0 && count('(') == count(')') && text.contains(' ')
    };
    let before = |ends: &[&str]| {
        let clauses = ends.iter().flat_map(|end| sentence.match_indices(end));
        let ends = clauses.map(|(at, end)| at + end.trim_end().len());
        ends.filter(|&at| is_short(&sentence[..at]) && is_whole(&sentence[..at])).max()
    };
    let answered =
        || sentence.find(": ").filter(|at| !sentence[..*at].contains(' ')).map(|at| at + 1);
    let at = before(&[". ", "; ", ": "]).or_else(|| before(&[", "])).or_else(answered);
    at.map_or((sentence, ""), |at| (&sentence[..at], sentence[at..].trim_start()))
}

/// Builds tiles for key figures, given as (name, figure). All arguments must be markup already.
pub fn tiles(of: &str, figures: &[(&str, String)]) -> String {
    let tile = |(name, figure): &(&str, String)| item(name, &format!("<b>{figure}</b>"));
    let all: String = figures.iter().map(tile).collect();
    format!("<section class=\"tiles\"><p class=\"small\">{of}</p><dl>{all}</dl></section>\n")
}

fn item(term: &str, text: &str) -> String {
    format!("<div><dt>{term}</dt><dd>{text}</dd></div>")
}

fn listed(class: &str, items: &str) -> String {
    if items.is_empty() { String::new() } else { format!("<dl class=\"{class}\">{items}</dl>") }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    /// Returns the colors of the light or the dark scheme by name.
    fn colours(dark: bool) -> HashMap<&'static str, [f64; 3]> {
        let sheet = include_str!("style.css");
        let root = sheet.split(":root {").nth(1 + usize::from(dark)).unwrap();
        let declared = root.split('}').next().unwrap().split(';');
        let colour = |declared: &'static str| {
            let (name, value) = declared.trim().split_once(": #")?;
            let channel =
                |at: usize| f64::from(u8::from_str_radix(&value[at..at + 2], 16).unwrap());
            Some((name, [0, 2, 4].map(|at| channel(at) / 255.0)))
        };
        declared.filter_map(colour).collect()
    }

    /// Returns the contrast ratio of two colors, from 1 to 21, as WCAG 2 defines it.
    fn contrast(a: [f64; 3], b: [f64; 3]) -> f64 {
        let linear = |value: f64| match value {
            value if value <= 0.04045 => value / 12.92,
            value => ((value + 0.055) / 1.055).powf(2.4),
        };
        let bright = |[r, g, b]: [f64; 3]| {
            0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b) + 0.05
        };
        let (a, b) = (bright(a), bright(b));
        if a > b { a / b } else { b / a }
    }

    #[test]
    fn text_contrasts_with_its_background() {
        assert!((contrast([0.0; 3], [1.0; 3]) - 21.0).abs() < 1e-9);
        let written = [
            ("--ink", "--paper"),
            ("--ink", "--ground"),
            ("--ink", "--bar"),
            ("--ink", "--warn-ground"),
            ("--ink", "--good-ground"),
            ("--quiet", "--paper"),
            ("--quiet", "--ground"),
            ("--good", "--good-ground"),
            ("--good", "--paper"),
            ("--calm", "--calm-ground"),
            ("--calm", "--paper"),
            ("--warn", "--warn-ground"),
            ("--loss", "--paper"),
            ("--loss", "--good-ground"),
        ];
        for dark in [false, true] {
            let of = colours(dark);
            for (text, ground) in written {
                let found = contrast(of[text], of[ground]);
                assert!(found >= 4.5, "{text} on {ground}, dark: {dark}: {found:.2}");
            }
            // Lines and areas do not have to be readable like text, but they must be visible.
            for line in (0..9).map(|index| format!("--c{index}")) {
                let found = contrast(of[line.as_str()], of["--paper"]);
                assert!(found >= 3.0, "{line}, dark: {dark}: {found:.2}");
            }
        }
    }

    /// Checks the contrast of shapes, and of text on shapes, wherever the style sheet names them.
    #[test]
    fn areas_are_visible_and_their_labels_readable() {
        let sheet = include_str!("style.css");
        assert!(
            sheet.contains(".series.faint { stroke-width: 1.2; }"),
            "faint lines are thin, no paler"
        );
        let light = colours(false);
        for dark in [false, true] {
            let of = colours(dark);
            let any = |name: &str| of.get(name).or(light.get(name)).copied().unwrap();
            for area in ["--seek", "--rotation", "--transfer", "--other", "--good", "--head"] {
                let found = contrast(any(area), any("--paper"));
                assert!(found >= 3.0, "{area}, dark: {dark}: {found:.2}");
            }
            let mut written: Vec<(String, [f64; 3], [f64; 3])> = vec![
                ("in-transfer".into(), any("--on-dark"), any("--transfer")),
                ("in-seek".into(), any("--on-light"), any("--seek")),
                ("in-rotation".into(), any("--on-light"), any("--rotation")),
                ("in-other".into(), any("--on-light"), any("--other")),
            ];
            for index in 0..9 {
                let is_light = sheet.contains(&format!("svg .in-k{index}, "))
                    || sheet.contains(&format!("svg .in-k{index} "));
                let ink = if is_light { any("--on-light") } else { any("--paper") };
                written.push((format!("in-k{index}"), ink, any(&format!("--c{index}"))));
            }
            for (text, ink, ground) in written {
                let found = contrast(ink, ground);
                assert!(found >= 4.5, "{text}, dark: {dark}: {found:.2}");
            }
        }
    }

    #[test]
    fn the_first_clauses_are_large() {
        let all = "This disk cannot keep up: it needs 445 s for requests that arrive in 393 s; 2 \
                   disks would suffice.";
        let (large, small) = super::large_and_small(all);
        assert_eq!(large, "This disk cannot keep up:");
        assert_eq!(format!("{large} {small}"), all);
        let short = "Nothing helps: keep what you have.";
        assert_eq!(super::large_and_small(short), (short, ""));
        let comma =
            "With mq-deadline, 6 (of 7, in fact) of the requests on this disk are late today.";
        assert_eq!(super::large_and_small(comma).0, "With mq-deadline,");
        let word = "Perhaps: with 10 GiB of flash write p99 falls from 302 ms to 8.4 ms but reads may be slower.";
        assert_eq!(super::large_and_small(word).0, "Perhaps:");
        let none = "one two three four five six seven eight nine ten eleven twelve thirteen";
        assert_eq!(super::large_and_small(none), (none, ""));
    }

    /// When printed, a heading or note stays on the same page as its content.
    #[test]
    fn headings_and_notes_stay_with_their_content_in_print() {
        let sheet = include_str!("style.css");
        let print = sheet.split("@media print").nth(1).unwrap();
        let rule = |ends: &str| print.lines().find(|line| line.trim_end().ends_with(ends)).unwrap();
        let after = rule("{ break-after: avoid; }");
        for named in ["h2", "summary", "thead", ".legend", ".told", ".small:has(+ :not(p))"] {
            assert!(after.contains(named), "{named}");
        }
        assert!(rule("{ break-before: avoid; }").contains(".wide + .small"));
        assert!(rule("{ break-inside: avoid; }").contains("figure"));
        assert!(
            print.contains(".broad { display: block; }")
                && print.contains(".slim { display: none; }")
        );
    }
}
