//! The page itself: what stands where.

use super::figures;
use super::load::load;
use super::pictures;
use super::prose::{called, kept_together, paragraphs, said};
use super::table;
use super::tables;
use super::text::{NONE, escape, name, ratio, seconds, significant};
use crate::advise::{Advice, From, Tail, Verdict};
use crate::quantities as said;
use crate::simulate::RunResult;

/// Two runs that are compared throughout: the baseline and the recommended one, or the best other
/// where the baseline is recommended.
struct Pair<'a> {
    baseline: &'a RunResult,
    other: Option<&'a RunResult>,
}

impl<'a> Pair<'a> {
    fn of(advice: &'a Advice) -> Option<Pair<'a>> {
        let named = |policy: &str| advice.runs.iter().find(|run| run.policy == policy);
        let baseline = named(&advice.baseline).or(advice.runs.first())?;
        let best_other = || {
            let others = advice.ranking.iter().filter(|ranked| ranked.policy != baseline.policy);
            others.filter_map(|ranked| named(&ranked.policy)).next()
        };
        let recommended = advice.recommended.as_deref().and_then(named);
        let recommended = recommended.filter(|run| run.policy != baseline.policy);
        Some(Pair { baseline, other: recommended.or_else(best_other) })
    }
}

/// The whole document.
pub(super) fn page(advice: &Advice) -> String {
    let mut body = head(advice);
    let pair = Pair::of(advice);
    if let Some(pair) = &pair {
        body += &four(advice, pair);
    }
    body += &section("Remedies", &tables::remedies(advice));
    let ranking = match advice.verdict {
        Verdict::TooShort => "Schedulers, not ranked: too few requests".to_string(),
        _ => format!("Schedulers, the least {} first", advice.total_is),
    };
    if !advice.ranking.is_empty() {
        body += &section(&ranking, &tables::ranking(advice));
    }
    if let Some(other) = &advice.other_replay {
        let title = format!("The same {}", other.replay.as_told());
        body += &section(&title, &tables::other_ranking(advice, other));
    }
    if let Some(redundancy) = &advice.redundancy {
        let title = format!("Redundancy on {} drives", redundancy.drives);
        body += &section(&title, &tables::redundancy(redundancy));
    }
    let findings = match advice.verdict {
        Verdict::NoTimes => "What order alone tells",
        _ => "What happens",
    };
    body += &paragraphs(findings, "findings", &advice.findings);
    let trust = std::slice::from_ref(&advice.trust.said);
    body += &paragraphs("How far to trust it", "trust", trust);
    body += &paragraphs("Keep in mind", "cautions", &advice.cautions);
    let runs = &advice.pictures.runs;
    if let Some(pair) = &pair {
        let other = pair.other.map(|run| run.policy.as_str());
        let disk = (advice.pictures.cylinders, advice.pictures.streams.as_slice());
        body += &pictures::heads(runs, &pair.baseline.policy, other, disk);
    }
    let told = [Some(advice.baseline.as_str()), advice.recommended.as_deref()];
    body += &pictures::latencies(runs, &told);
    body += &pictures::arrivals(&advice.pictures.arrivals);
    if advice.pictures.cylinders > 0 {
        body += &pictures::time_spent(&advice.runs, advice.replay);
    }
    if let Some(pair) = &pair {
        body += &contenders(pair.baseline, pair.other);
    }
    body += &section("The trace", &tables::trace(&advice.description));
    if !advice.runs.is_empty() {
        let with_flash = advice.remedies.iter().filter_map(|remedy| remedy.run.as_deref());
        let all: Vec<&RunResult> = advice.runs.iter().chain(with_flash).collect();
        body += &folded("All figures of all runs", &figures::figures(&all));
    }
    document(&called("Advice", &[&advice.trace]), &body)
}

/// A page called `title` around its `body`.
pub(super) fn document(title: &str, body: &str) -> String {
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
        kept_together(body),
        env!("CARGO_PKG_VERSION"),
    )
}

/// A section, after which its tables are called.
pub(super) fn section(title: &str, content: &str) -> String {
    format!("<section><h2>{title}</h2>{}</section>\n", table::named(title, content))
}

/// A section that is opened by whoever wants it.
pub(super) fn folded(title: &str, content: &str) -> String {
    format!("<section>{}</section>\n", unfolding(title, content))
}

/// What is opened by whoever wants it, within a section.
pub(super) fn unfolding(title: &str, content: &str) -> String {
    let content = table::named(title, content);
    format!("<details><summary>{title}</summary>{content}</details>")
}

/// The top of a page: a few words in their colour (`good`, `calm`), the answer in sentences, and (term, text) of what the
/// page is about. The terms and the words are markup, what they say is not yet.
pub(super) fn header(
    (class, verdict): (&str, &str),
    answer: &str,
    about: &[(&str, String)],
) -> String {
    let about: String = about.iter().map(|(term, text)| item(term, &escape(text))).collect();
    format!(
        "<header><p class=\"verdict {class}\">{verdict}</p><h1 class=\"sentence\">{}</h1>{}</header>\n",
        said(answer),
        listed("about", &about)
    )
}

/// The few figures that tell most: what they are of, and (name, figure) of each, all of it markup.
pub(super) fn tiles(of: &str, figures: &[(&str, String)]) -> String {
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

fn head(advice: &Advice) -> String {
    let (class, verdict) = match advice.verdict {
        Verdict::Recommended => ("good", "A scheduler helps"),
        Verdict::Depends => ("calm", "It depends"),
        Verdict::DependsOnDrive => ("calm", "It depends on the drive"),
        Verdict::BaselineIsBest => ("calm", "The baseline is best"),
        Verdict::LoadTooLow => ("calm", "Nothing to gain: the device is mostly idle"),
        Verdict::NothingToGain => ("calm", "Nothing to gain"),
        Verdict::TooShort => ("calm", "Too short to tell"),
        Verdict::NoTimes => ("calm", "No times, no advice"),
    };
    let helps = |free: bool| {
        advice.remedies.iter().any(|one| one.recommended && (one.flash_bytes == 0) == free)
    };
    let (class, verdict) = match advice.verdict {
        Verdict::Recommended | Verdict::TooShort => (class, verdict),
        _ if helps(true) => ("good", "Defragmentation helps"),
        _ if helps(false) => ("good", "Only flash helps"),
        _ => (class, verdict),
    };
    let faster = match advice.intensity {
        1.0 => String::new(),
        times => format!(", {} times as fast", significant(times)),
    };
    let replay = advice.replay.told();
    // What needs flash stands apart from what is free.
    let parts = advice.headline.split_once(" With ").filter(|_| helps(false));
    let (free, flash) = parts.unwrap_or((&advice.headline, ""));
    let flash = match flash {
        "" => String::new(),
        text => format!("<p class=\"costs\">With {}</p>", said(text)),
    };
    let load = load(&advice.description);
    format!(
        "<header><p class=\"verdict {class}\">{verdict}</p><h1 class=\"sentence\">{}</h1>{flash}\
         <dl class=\"about\"><div><dt>Trace</dt><dd>{}</dd></div>\
         <div><dt>Device</dt><dd>{}, {}</dd></div>\
         <div><dt>Replay</dt><dd>{replay}{faster}</dd></div><div><dt>Load</dt><dd>{load}</dd></div></dl>\
         </header>\n",
        said(free),
        escape(&advice.trace),
        escape(&advice.device),
        escape(&advice.device_reason),
    )
}

/// Four figures that tell most, each from the baseline to the other, rounded as in the sentences.
fn four(advice: &Advice, pair: &Pair<'_>) -> String {
    let is_recommended = |run: &&RunResult| advice.recommended.as_ref() == Some(&run.policy);
    let other = pair.other.filter(is_recommended);
    let tile = |label: &str, shown: &dyn Fn(&RunResult) -> String| {
        let before = shown(pair.baseline);
        let figures = match other {
            Some(run) => format!("<span>{before} →</span> <b>{}</b>", shown(run)),
            None => format!("<b>{before}</b>"),
        };
        format!("<div><dt>{label}</dt><dd>{figures}</dd></div>")
    };
    let told = |value: f64, words: fn(f64) -> String| match value.is_finite() {
        true => words(value),
        false => NONE.to_string(),
    };
    let moving = |run: &RunResult| told(run.figures.moving_share(), said::percent);
    let busy =
        |run: &RunResult| told(ratio(run.figures.busy_s, run.figures.makespan_s), said::percent);
    let kind = Tail::of(pair.baseline);
    let tail = |run: &RunResult| told(kind.ms(run), said::millis);
    let legend = match other {
        Some(run) => format!(
            "The best scheduler: {} → {} ({})",
            name(&pair.baseline.policy),
            name(&run.policy),
            escape(From::of(&run.policy).name())
        ),
        None => format!("under {}", name(&pair.baseline.policy)),
    };
    let heads = match advice.pictures.cylinders {
        0 => String::new(),
        _ => tile("of busy time moving heads", &moving),
    };
    format!(
        "<section class=\"tiles\"><p class=\"small\">{legend}</p><dl>{}{}{heads}{}</dl></section>\n",
        tile(advice.total_is, &|run| told(run.total_s(), said::seconds)),
        tile(&format!("99 % of {} within", kind.name()), &tail),
        tile("of the run busy", &busy),
    )
}

/// Which streams fight under the baseline, and what each gets, beside another.
pub(super) fn contenders(baseline: &RunResult, other: Option<&RunResult>) -> String {
    let mut all = String::new();
    let policy = name(&baseline.policy);
    if let Some(fights) = tables::fights(baseline) {
        let between = |run: &RunResult| seconds(run.contention.between_streams_s);
        let besides = other
            .map_or(String::new(), |run| format!(", {} under {}", between(run), name(&run.policy)));
        let intro = format!(
            "<p class=\"small\">Under {policy}. Seeking and rotational wait when the heads go from \
             one stream to another come to {} in all{besides}.</p>",
            between(baseline)
        );
        all += &section("Streams that fight", &(intro + &fights));
    }
    all += &section("Streams", &tables::streams(baseline, other));
    all
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    /// The colours of a scheme by name: of the light one, or of the dark one.
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

    /// How far two colours are apart in brightness, from 1 to 21, as WCAG 2 counts it.
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
    fn what_is_written_stands_out_from_what_it_is_written_on() {
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
            // Lines and areas are no text: they have to be seen.
            for line in (0..9).map(|index| format!("--c{index}")) {
                let found = contrast(of[line.as_str()], of["--paper"]);
                assert!(found >= 3.0, "{line}, dark: {dark}: {found:.2}");
            }
        }
    }

    /// What is drawn, and words in what is drawn, at any place of the style sheet that names them.
    #[test]
    fn areas_are_seen_and_words_in_them_read() {
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
}
