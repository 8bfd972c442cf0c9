//! The page itself: what stands where.

use super::charts::{self, TimeSpent};
use super::heads::Ground;
use super::plot::Caption;
use super::tables;
use super::text::{NONE, escape, name, ratio, seconds, significant};
use crate::advise::{Advice, From, Tail, Verdict};
use crate::quantities as said;
use crate::simulate::{Replay, Run, RunResult};

/// Paragraphs of one kind that are shown.
const PARAGRAPHS_MAX: usize = 40;

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
        body += &tiles(advice, pair);
    }
    body += &section("Remedies", &tables::remedies(advice));
    let ranking = match advice.verdict {
        Verdict::TooShort => "Schedulers, not ranked: too few requests".to_string(),
        _ => format!("Schedulers, the least {} first", advice.total_is),
    };
    if !advice.ranking.is_empty() {
        body += &section(&ranking, &tables::ranking(advice));
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
    body += &paragraphs("Keep in mind", "cautions", &advice.cautions);
    if let Some(pair) = &pair {
        body += &heads(advice, pair);
    }
    body += &latencies(advice);
    body += &arrivals(advice);
    body += &time_spent(advice);
    if let Some(pair) = &pair {
        body += &contenders(pair);
    }
    body += &section("The trace", &tables::trace(&advice.description));
    if !advice.runs.is_empty() {
        body += &format!(
            "<section><details><summary>All figures of all runs</summary>{}</details></section>\n",
            tables::figures(advice)
        );
    }
    document(&advice.trace, &body)
}

/// A page about `trace` around its `body`.
pub(super) fn document(trace: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\
         <meta name=\"color-scheme\" content=\"light dark\"/>\
         <title>Forebay: {}</title><style>\n{}</style></head>\n<body><main>\n{body}</main>\
         <footer>Forebay {}</footer></body></html>\n",
        name(trace),
        include_str!("style.css"),
        env!("CARGO_PKG_VERSION"),
    )
}

pub(super) fn section(title: &str, content: &str) -> String {
    format!("<section><h2>{title}</h2>{content}</section>\n")
}

/// A paragraph; in it, lines that can be copied, which are indented, stand apart.
fn prose(text: &str) -> String {
    let line = |line: &str| match line.strip_prefix("    ") {
        Some(command) => format!("<pre><code>{}</code></pre>\n", escape(command)),
        None => format!("<p>{}</p>\n", escape(line)),
    };
    text.lines().map(line).collect()
}

pub(super) fn paragraphs(title: &str, class: &str, texts: &[String]) -> String {
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

fn head(advice: &Advice) -> String {
    let (class, verdict) = match advice.verdict {
        Verdict::Recommended => ("good", "A scheduler helps"),
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
    let replay = match advice.replay {
        Replay::Open => "open: recorded arrival times",
        Replay::Closed => "closed: recorded think times after each completion",
        Replay::Dependent => "dependent: recorded arrival times, after what a request depends on",
    };
    // What needs flash stands apart from what is free.
    let parts = advice.headline.split_once(" With ").filter(|_| helps(false));
    let (free, flash) = parts.unwrap_or((&advice.headline, ""));
    let flash = match flash {
        "" => String::new(),
        text => format!("<p class=\"costs\">With {}</p>", escape(text)),
    };
    let d = &advice.description;
    let rate = d.mean_iops.map_or(NONE.to_string(), significant);
    let load = format!(
        "{} {} in {} ({rate} requests/s)",
        super::text::count(d.requests),
        if d.requests == 1 { "request" } else { "requests" },
        seconds(d.duration_s)
    );
    format!(
        "<header><p class=\"verdict {class}\">{verdict}</p><h1>{}</h1>{flash}\
         <dl class=\"about\"><div><dt>Trace</dt><dd>{}</dd></div>\
         <div><dt>Device</dt><dd>{}, {}</dd></div>\
         <div><dt>Replay</dt><dd>{replay}{faster}</dd></div><div><dt>Load</dt><dd>{load}</dd></div></dl>\
         </header>\n",
        escape(free),
        escape(&advice.trace),
        escape(&advice.device),
        escape(&advice.device_reason),
    )
}

/// Four figures that tell most, each from the baseline to the other, rounded as in the sentences.
fn tiles(advice: &Advice, pair: &Pair<'_>) -> String {
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
    let moving = |run: &RunResult| {
        let moving_s = run.figures.seek_s + run.figures.rotation_s;
        told(ratio(moving_s, run.figures.busy_s), said::percent)
    };
    let busy = |run: &RunResult| told(advice.share_busy(run), said::percent);
    let kind = Tail::of(pair.baseline);
    let tail = |run: &RunResult| told(kind.ms(run), said::millis);
    let legend = match other {
        Some(run) => format!(
            "{} → {} ({})",
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
        tile("of the time busy", &busy),
    )
}

pub(super) fn figure(picture: &str, caption: &str) -> String {
    format!("<figure>{picture}<figcaption>{caption}</figcaption></figure>")
}

fn heads(advice: &Advice, pair: &Pair<'_>) -> String {
    let cylinders = advice.pictures.cylinders;
    let named = |policy: &str| -> Option<&Run> {
        advice.pictures.runs.iter().find(|(name, _)| name == policy).map(|(_, run)| run)
    };
    let Some(baseline) = named(&pair.baseline.policy).filter(|_| cylinders > 0) else {
        return String::new();
    };
    let other = pair.other.and_then(|run| Some((run.policy.as_str(), named(&run.policy)?)));
    let a = baseline.head.points.as_slice();
    let b = other.map_or(a, |(_, run)| run.head.points.as_slice());
    if a.is_empty() && b.is_empty() {
        return String::new();
    }
    let shown: Vec<_> = std::iter::once((pair.baseline.policy.as_str(), a))
        .chain(other.map(|(policy, _)| (policy, b)))
        .collect();
    let row = |ground: &Ground, id: &str, sparse: bool, what: &str| -> String {
        let draw = |(index, (policy, points)): (usize, &(&str, super::heads::Points<'_>))| {
            let caption = Caption {
                id: &format!("{id}-{index}"),
                title: &format!("Head position under {policy}"),
                description: &format!("Cylinder of each I/O over time under {policy}, {what}."),
            };
            let picture = if sparse {
                ground.path(&caption, points)
            } else {
                ground.density(&caption, points)
            };
            figure(&picture, &format!("<b>{}</b>, {what}", name(policy)))
        };
        let pictures: String = shown.iter().enumerate().map(draw).collect();
        format!("<div class=\"pair\">{pictures}</div>")
    };
    let sparse = Ground::is_sparse(a, b);
    let mut rows = row(&Ground::whole(a, b), "heads", sparse, "the whole run");
    if let Some(ground) = Ground::closer(a, b) {
        rows += &row(&ground, "closer", true, "a closer look, the path from I/O to I/O");
    }
    let about = format!(
        "<p class=\"note\">The drive has {cylinders} cylinders; the pictures show those in use.</p>"
    );
    section("Where the heads are", &(about + &rows))
}

fn latencies(advice: &Advice) -> String {
    let runs = &advice.pictures.runs;
    let reads: Vec<_> = runs.iter().map(|(_, run)| run.read_distribution.as_slice()).collect();
    let writes: Vec<_> = runs.iter().map(|(_, run)| run.write_distribution.as_slice()).collect();
    let span = charts::latency_span(reads.iter().chain(&writes).copied());
    let told = [Some(&advice.baseline), advice.recommended.as_ref()];
    let stands_out: Vec<bool> =
        runs.iter().map(|(policy, _)| told.contains(&Some(policy))).collect();
    let draw = |id: &str, kind: &str, series: &[&[(f64, f64)]]| {
        let caption = Caption {
            id,
            title: &format!("{kind} latency by scheduler"),
            description: "Share of requests answered within a latency; further left is faster.",
        };
        charts::distributions(&caption, series, &stands_out, span).map(|picture| {
            figure(&picture, &format!("<b>{kind}</b>: share answered within a latency"))
        })
    };
    let pictures: String = draw("reads", "Reads", &reads)
        .into_iter()
        .chain(draw("writes", "Writes", &writes))
        .collect();
    if pictures.is_empty() {
        return String::new();
    }
    let names = runs.iter().map(|(policy, _)| policy.as_str());
    let legend = charts::legend(names, &stands_out);
    section("Latency", &format!("{legend}<div class=\"pair\">{pictures}</div>"))
}

fn arrivals(advice: &Advice) -> String {
    let caption = Caption {
        id: "arrivals",
        title: "Arrival rate",
        description: "Requests per second over the time of the trace, with the mean.",
    };
    let picture = charts::arrivals(&caption, &advice.pictures.arrivals);
    let whole = |picture: String| {
        figure(&picture, "As replayed, before any scheduling; the dashed line is the mean")
    };
    picture.map_or(String::new(), |picture| section("Arrivals", &whole(picture)))
}

fn spent_in(run: &RunResult) -> TimeSpent<'_> {
    TimeSpent {
        policy: &run.policy,
        seek_s: run.figures.seek_s,
        rotation_s: run.figures.rotation_s,
        transfer_s: run.figures.transfer_s,
        busy_s: run.figures.busy_s,
        floor_s: run.figures.transfer_bound_s,
    }
}

/// Of a disk; what else has no heads spends its time on nothing that could be told apart.
fn time_spent(advice: &Advice) -> String {
    if advice.pictures.cylinders == 0 {
        return String::new();
    }
    let total = match advice.replay {
        Replay::Closed => "Busy time; the total above runs until all is done",
        Replay::Open | Replay::Dependent => "Busy time, which is the total above",
    };
    let spent: Vec<TimeSpent<'_>> = advice.runs.iter().map(spent_in).collect();
    let caption = Caption {
        id: "spent",
        title: "Where the disk's time went",
        description: "For each scheduler, seconds spent seeking, rotating, transferring and on \
                      overhead, against the least time that moving the bytes takes.",
    };
    let Some(picture) = charts::time_spent(&caption, &spent) else {
        return String::new();
    };
    let key = |(class, name): (&str, &str)| {
        format!(
            "<li><svg viewBox=\"0 0 14 14\" aria-hidden=\"true\"><rect class=\"{class}\" \
             width=\"14\" height=\"14\"/></svg>{name}</li>"
        )
    };
    let keys: String = [
        ("seek", "seeking"),
        ("rotation", "rotational wait"),
        ("transfer", "transfer"),
        ("other", "overhead and other"),
    ]
    .into_iter()
    .map(key)
    .collect();
    let content = format!(
        "<ul class=\"legend boxes\">{keys}</ul>{}",
        figure(&picture, &format!("{total}; the line marks what moving the bytes alone takes"))
    );
    section("Where the disk's time went", &content)
}

fn contenders(pair: &Pair<'_>) -> String {
    let mut all = String::new();
    let (baseline, policy) = (pair.baseline, name(&pair.baseline.policy));
    if let Some(fights) = tables::fights(baseline) {
        let between = |run: &RunResult| seconds(run.contention.between_streams_s);
        let other = pair
            .other
            .map_or(String::new(), |run| format!(", {} under {}", between(run), name(&run.policy)));
        let intro = format!(
            "<p class=\"small\">Under {policy}. Seeking and rotational wait when the heads go from \
             one stream to another come to {} in all{other}.</p>",
            between(baseline)
        );
        all += &section("Streams that fight", &(intro + &fights));
    }
    all += &section("Streams", &tables::streams(baseline, pair.other));
    all
}
