//! The page itself: what stands where.

use super::figures;
use super::load::load;
use super::pictures;
use super::tables;
use crate::advise::{Advice, From, Tail, Verdict};
use crate::quantities as said;
use crate::simulate::RunResult;
use forebay_show::html::document::{document, folded, section};
use forebay_show::html::paragraphs::{called, paragraphs, said};
use forebay_show::html::text::{NONE, escape, name, ratio, seconds, significant};

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
