//! The report of `simulate`: what each policy comes to, which one does best, and why.
//!
//! Invariant: every run that was made is in it, and the one that is marked is the one that the headline names.

use super::figures;
use super::load::load;
use super::page::contenders;
use super::pictures;
use super::tables::{self, gain};
use forebay_show::html::document::{document, folded, header, section};
use forebay_show::html::paragraphs::{called, paragraphs};
use forebay_show::html::table::{Mark, headings, table, with_bar};
use forebay_show::html::text::{millis_or_none, name, ratio, seconds, significant};
use forebay_trace::describe::Description;

use crate::simulate::{LeastTime, Replay, Run, RunResult};

/// What the page shows.
pub struct RunsPage<'a> {
    /// The trace.
    pub trace: &'a str,
    /// What it is like.
    pub description: &'a Description,
    /// The device.
    pub device: &'a str,
    /// Cylinders of the disk; 0 for a device without heads.
    pub cylinders: u32,
    /// What the streams are called.
    pub streams: &'a [String],
    /// How many times as fast as recorded.
    pub intensity: f64,
    /// (seconds, requests per second) of the arrivals.
    pub arrivals: Vec<(f64, f64)>,
    /// Each run by its policy, as they were asked for, one at least.
    pub runs: &'a [(String, Run)],
    /// What no order can beat.
    pub least_time: Option<&'a LeastTime>,
    /// What else was found.
    pub findings: &'a [String],
    /// What to keep in mind.
    pub cautions: &'a [String],
}

impl RunsPage<'_> {
    fn results(&self) -> Vec<RunResult> {
        self.runs.iter().map(|(_, run)| run.result.clone()).collect()
    }

    fn replay(&self) -> Replay {
        self.runs.first().map_or(Replay::Open, |(_, run)| run.result.replay)
    }

    fn total_is(&self) -> &'static str {
        self.replay().total_name()
    }
}

/// What runs of policies side by side come to, in a sentence with plain spaces.
pub fn runs_headline(results: &[RunResult]) -> String {
    let replay = results.first().map_or(Replay::Open, |run| run.replay);
    headline(results, replay.total_name()).replace('\u{a0}', " ")
}

/// Less than this share less of the total time is none that anybody sees.
const LESS_LEAST: f64 = 5e-4;

/// The run with the least total time; the first of all where that takes no less that can be seen.
fn best(results: &[RunResult]) -> Option<&RunResult> {
    let whole = results.iter().filter(|run| run.figures.unfinished == 0);
    let least = whole.min_by(|a, b| a.total_s().total_cmp(&b.total_s()))?;
    let first = results.first()?;
    let less = 1.0 - ratio(least.total_s(), first.total_s());
    Some(if less < LESS_LEAST { first } else { least })
}

/// The answer in a sentence.
fn headline(results: &[RunResult], total_is: &str) -> String {
    let Some((first, best)) = results.first().zip(best(results)) else {
        return "Nothing was run".to_string();
    };
    let tail = |run: &RunResult| {
        if run.figures.is_overloaded() {
            return late(run);
        }
        let reads = run.figures.read_p99_ms.map(|ms| ("reads", ms));
        let p99 = reads.or(run.figures.write_p99_ms.map(|ms| ("writes", ms)));
        p99.map_or(String::new(), |(kind, ms)| {
            format!("; 99 % of {kind} within {}", millis_or_none(Some(ms)))
        })
    };
    let total = |run: &RunResult| seconds(run.total_s());
    if results.len() == 1 {
        return format!("Under {} the {total_is} is {}{}", first.policy, total(first), tail(first));
    }
    let less = 1.0 - ratio(best.total_s(), first.total_s());
    match std::ptr::eq(best, first) {
        true => format!(
            "No policy has less {total_is} than {}: {}{}",
            first.policy,
            total(first),
            tail(first)
        ),
        false => format!(
            "{} has the least {total_is}: {}, {} less than {}{}",
            best.policy,
            total(best),
            forebay_show::html::text::percent(less),
            first.policy,
            tails(best, first)
        ),
    }
}

/// How many requests of an overloaded disk come late: its tails say how few may wait, not how soon they are answered.
fn late(run: &RunResult) -> String {
    let share = forebay_show::html::text::percent(run.figures.lagging_share);
    format!("; the disk cannot keep up: {share} of the requests are more than 1 s late")
}

/// Both tails of a run beside those of the first: what is gained in one may be paid in the other.
fn tails(run: &RunResult, first: &RunResult) -> String {
    if run.figures.is_overloaded() {
        return late(run);
    }
    let kinds = [
        ("reads", run.figures.read_p99_ms, first.figures.read_p99_ms),
        ("writes", run.figures.write_p99_ms, first.figures.write_p99_ms),
    ];
    let told: Vec<String> = kinds
        .iter()
        .filter_map(|(kind, ms, of_first)| {
            let (ms, of_first) = (millis_or_none(Some((*ms)?)), millis_or_none(Some((*of_first)?)));
            Some(format!("of {kind} within {ms} ({}: {of_first})", first.policy))
        })
        .collect();
    match told.is_empty() {
        true => String::new(),
        false => format!("; 99 % {}", told.join(", ")),
    }
}

pub(super) fn page(page: &RunsPage<'_>) -> String {
    let results = page.results();
    let mut body = head(page, &results);
    body += &section(&format!("Policies, by {}", page.total_is()), &ranking(page, &results));
    body += &paragraphs("What is found", "findings", page.findings);
    body += &paragraphs("Keep in mind", "cautions", page.cautions);
    if let Some((first, best)) = results.first().zip(best(&results)) {
        let other = Some(best).filter(|best| best.policy != first.policy).or(results.get(1));
        let shown = other.map(|run| run.policy.as_str());
        body += &pictures::heads(page.runs, &first.policy, shown, (page.cylinders, page.streams));
        body += &pictures::latencies(page.runs, &[Some(&first.policy), shown]);
        body += &pictures::arrivals(&page.arrivals);
        if page.cylinders > 0 {
            body += &pictures::time_spent(&results, page.replay());
        }
        body += &contenders(first, other);
    }
    body += &section("The trace", &tables::trace(page.description));
    let all: Vec<&RunResult> = results.iter().collect();
    body += &folded("All figures of all runs", &figures::figures(&all));
    document(&called("Simulation", &[page.trace]), &body)
}

fn head(page: &RunsPage<'_>, results: &[RunResult]) -> String {
    let replay = page.replay().told();
    let faster = match page.intensity {
        1.0 => String::new(),
        times => format!(", {} times as fast", significant(times)),
    };
    let d = page.description;
    header(
        ("calm", "Simulated"),
        &format!("{}.", headline(results, page.total_is())),
        &[
            ("Trace", page.trace.to_string()),
            ("Device", page.device.to_string()),
            ("Replay", format!("{replay}{faster}")),
            ("Load", load(d)),
        ],
    )
}

/// The runs, that with the least total time first.
fn ranking(page: &RunsPage<'_>, results: &[RunResult]) -> String {
    let Some((first, best)) = results.first().zip(best(results)) else { return String::new() };
    let mut heads = headings(&[
        "policy",
        page.total_is(),
        "",
        "read mean",
        "read p99",
        "write mean",
        "write p99",
        "longest",
    ]);
    heads[2] = format!("against {}", name(&first.policy));
    let longest = results.iter().map(RunResult::total_s).fold(0.0, f64::max);
    let mut ranked: Vec<&RunResult> = results.iter().collect();
    ranked.sort_by(|a, b| a.total_s().total_cmp(&b.total_s()));
    // The sort is stable: what takes no less that can be seen stands below.
    ranked.sort_by_key(|run| !std::ptr::eq(*run, best));
    let cells = |run: &&RunResult| {
        let is_best = results.len() > 1 && std::ptr::eq(*run, best);
        let f = &run.figures;
        let most = [f.read_max_ms, f.write_max_ms].into_iter().flatten().reduce(f64::max);
        let cells = vec![
            name(&run.policy),
            with_bar(&seconds(run.total_s()), ratio(run.total_s(), longest)),
            gain(1.0 - ratio(run.total_s(), first.total_s()), std::ptr::eq(*run, first)),
            millis_or_none(f.read_mean_ms),
            millis_or_none(f.read_p99_ms),
            millis_or_none(f.write_mean_ms),
            millis_or_none(f.write_p99_ms),
            millis_or_none(most),
        ];
        (Mark::best("least", is_best), cells)
    };
    let rows: Vec<_> = ranked.iter().map(cells).collect();
    table(&heads, &rows) + &least(page, results)
}

/// What no order can beat.
fn least(page: &RunsPage<'_>, results: &[RunResult]) -> String {
    let Some(least) = page.least_time.map(|least| least.total_s(page.replay())) else {
        return String::new();
    };
    let bounded = results.iter().filter(|run| LeastTime::holds_for(&run.policy));
    let each: Vec<String> = bounded
        .map(|run| {
            format!(
                "{} {} beyond it",
                name(&run.policy),
                forebay_show::html::text::percent(run.total_s() / least - 1.0)
            )
        })
        .collect();
    match least > 0.0 && !each.is_empty() {
        true => format!(
            "<p class=\"small\">No order of these requests has a {} below {}: {}.</p>",
            page.total_is(),
            seconds(least),
            each.join(", ")
        ),
        false => String::new(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::advise::Advice;
    use crate::advise::sample::advice;

    fn told<'a>(advice: &'a Advice, runs: &'a [(String, Run)]) -> RunsPage<'a> {
        RunsPage {
            trace: &advice.trace,
            description: &advice.description,
            device: &advice.device,
            cylinders: advice.pictures.cylinders,
            streams: &advice.pictures.streams,
            intensity: 1.0,
            arrivals: advice.pictures.arrivals.clone(),
            runs,
            least_time: None,
            findings: &[],
            cautions: &[],
        }
    }

    fn parse(page: &str) -> roxmltree::Document<'_> {
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
        roxmltree::Document::parse_with_options(page, options).unwrap()
    }

    #[test]
    fn the_policy_that_is_marked_is_the_one_that_the_headline_names() {
        let advice = advice();
        let runs = &advice.pictures.runs;
        let page = page(&told(&advice, runs));
        parse(&page);
        let least =
            runs.iter().min_by(|a, b| a.1.result.total_s().total_cmp(&b.1.result.total_s()));
        let named = &least.unwrap().1.result.policy;
        assert!(
            page.contains(&format!("<h1 class=\"sentence\">{named} has the least busy time")),
            "{page}"
        );
        let marked =
            page.split("<tr class=\"best\"><th scope=\"row\" class=\"words\">").nth(1).unwrap();
        assert!(marked.starts_with(named.as_str()));
        assert_eq!(page.matches("class=\"best\"").count(), 1);
        for (policy, _) in runs {
            assert!(page.matches(policy.as_str()).count() > 2, "{policy}");
        }
    }

    /// The headline's policy is marked and stands first, also where another takes less than anybody sees.
    #[test]
    fn what_is_marked_is_what_the_headline_names_where_two_are_as_good() {
        let mut advice = advice();
        let mut runs = std::mem::take(&mut advice.pictures.runs);
        let second = runs[1].1.result.policy.clone();
        let first = runs[0].1.result.policy.clone();
        runs.truncate(2);
        for (busy_s, best, gains) in
            [(99.97, &first, "0.03\u{a0}% less"), (90.0, &second, "10.0\u{a0}% less")]
        {
            runs[0].1.result.figures.busy_s = 100.0;
            runs[1].1.result.figures.busy_s = busy_s;
            let page = page(&told(&advice, &runs));
            let document = parse(&page);
            let h1 = document.descendants().find(|node| node.has_tag_name("h1")).unwrap();
            let said = h1.text().unwrap();
            let named = format!("No policy has less busy time than {best}:");
            let other = format!("{best} has the least busy time:");
            assert!(said.starts_with(&named) || said.starts_with(&other), "{said}");
            let rows = page.split("<tbody>").nth(1).unwrap();
            assert!(
                rows.trim_start().starts_with(&format!(
                    "<tr class=\"best\"><th scope=\"row\" class=\"words\">{best} "
                )),
                "{rows}"
            );
            assert!(page.contains(&format!("<span class=\"gain\">{gains}</span>")), "{gains}");
        }
    }

    #[test]
    fn one_run_is_told_alone_and_hostile_names_stay_names() {
        let mut advice = advice();
        let hostile = "<script>\"&'".to_string();
        (advice.trace, advice.device) = (hostile.clone(), hostile.clone());
        let mut runs = std::mem::take(&mut advice.pictures.runs);
        runs.truncate(1);
        runs[0].1.result.policy = hostile.clone();
        runs[0].0 = hostile.clone();
        runs[0].1.result.figures.busy_s = f64::NAN;
        let said = [hostile];
        let page = page(&RunsPage { findings: &said, cautions: &said, ..told(&advice, &runs) });
        parse(&page);
        let body = page.split("</style>").nth(1).unwrap();
        assert!(!body.contains("<script") && !body.contains("NaN"));
    }

    #[test]
    fn the_headline_names_the_baseline_where_nothing_is_better() {
        let advice = advice();
        let mut results: Vec<RunResult> =
            advice.pictures.runs.iter().map(|(_, run)| run.result.clone()).collect();
        results.sort_by(|a, b| a.total_s().total_cmp(&b.total_s()));
        let text = headline(&results, "busy time");
        assert!(
            text.starts_with(&format!("No policy has less busy time than {}", results[0].policy)),
            "{text}"
        );
        results[0].figures.lagging_share = 0.25;
        let text = headline(&results, "busy time");
        assert!(
            text.contains("; the disk cannot keep up: 25") && !text.contains("within"),
            "{text}"
        );
        results.truncate(1);
        assert!(
            headline(&results, "busy time").starts_with(&format!("Under {}", results[0].policy))
        );
        assert_eq!(headline(&[], "busy time"), "Nothing was run");
    }
}
