//! The report page of `advise`. The first screen shows the answer, the alternative it is compared
//! with, what to do, why, and how far to trust it. All other sections are details.

mod first;
mod flash_line;
mod tables;

use forebay_show::html::paragraphs::page_title;
use forebay_show::page::{Block, Page, Place, Tone, Verdict as Words};

use super::{Advice, DependsOn, Remedy, RemedyKind, Verdict};
use crate::RunResult;
use crate::quantities::{counted, seconds, significant};
use crate::run_page::RunSections;
use first::{answer, flash, key_figures};
use tables::{arrays, failures, ranked, remedies};

/// Builds the report page of `advise`.
pub(super) fn page(advice: &Advice) -> Page {
    let mut page = Page {
        title: page_title("Advice", &[&advice.trace]),
        verdict: verdict(advice),
        headline: match &advice.redundancy {
            Some(redundancy) => redundancy.in_short(),
            None => advice.headline.clone(),
        },
        about: about(advice),
        key_figures: key_figures(advice),
        ..Page::default()
    };
    // The user asked about an array, so its section comes first. The headline is the beginning of
    // its sentence.
    if let Some(redundancy) = &advice.redundancy {
        let said = Block::Text(redundancy.reason());
        let commands = Block::Commands(redundancy.commands.clone());
        page.add("Redundancy", Place::FirstScreen, vec![said, commands]);
    }
    // If nothing needs to change, the answer says so and the headline is omitted.
    let has_news = advice.today.is_some() || advice.enough.is_some();
    let is_told = advice.redundancy.is_some() && has_news;
    let headline = is_told.then(|| Block::Text(advice.headline.clone()));
    let blocks = headline.into_iter().chain(answer(advice)).collect();
    page.add("The answer", Place::FirstScreen, blocks);
    let findings = advice.findings.iter().flat_map(|finding| paragraph(finding)).collect();
    page.add("Why", Place::Detail, findings);
    // The first screen already shows the first sentence.
    if advice.trust.said.contains(". ") {
        let trust = vec![Block::Text(advice.trust.said.clone())];
        page.add("How far to trust it", Place::Detail, trust);
    }
    page.add("Remedies", Place::Detail, remedies(advice));
    if !advice.ranking.is_empty() {
        let title = match advice.verdict {
            Verdict::TooShort => "Schedulers, not ranked: too few requests".to_string(),
            _ => format!("Schedulers, the least {} first", advice.total_is),
        };
        page.add(&title, Place::Detail, ranked(advice, &advice.ranking, advice.total_is));
    }
    if let Some(redundancy) = &advice.redundancy {
        let title = format!("Redundancy on {} drives", redundancy.drives);
        page.add(&title, Place::Detail, vec![Block::Table(arrays(redundancy, advice.total_is))]);
        page.add("When a drive of the array fails", Place::Detail, failures(redundancy));
    }
    page.add_notes("Keep in mind", Place::Detail, advice.cautions.clone());
    add_runs(&mut page, advice);
    if let Some(other) = &advice.other_replay {
        let title = format!("The same {}", other.replay.as_told());
        page.add(&title, Place::Folded, ranked(advice, &other.ranking, other.total_is));
    }
    let described = crate::describe::page::all(&advice.description);
    page.add("The trace", Place::Folded, vec![Block::Table(described)]);
    page
}

fn verdict(advice: &Advice) -> Words {
    let recommends =
        |kind: fn(&Remedy) -> bool| advice.remedies.iter().any(|one| one.recommended && kind(one));
    let helps = |words: &str| Words::new(Tone::Good, words);
    match advice.verdict {
        _ if advice.enough.is_some() => Words::new(Tone::Warning, "Overloaded"),
        Verdict::NoTimes => Words::new(Tone::Calm, "No times, no advice"),
        Verdict::TooShort => Words::new(Tone::Calm, "Too short to tell"),
        _ if advice.is_flash_size_named => flash_named(advice),
        _ if recommends(|one| one.kind == RemedyKind::QueueSizes) => helps("Queue sizes help"),
        Verdict::Recommended => helps("A scheduler helps"),
        _ if recommends(|one| one.kind == RemedyKind::Defragmentation) => {
            helps("Defragmentation helps")
        }
        _ if recommends(|one| one.flash_bytes > 0) => helps("Flash helps"),
        Verdict::BaselineIsBest | Verdict::NothingToGain if advice.is_saturated => {
            Words::new(Tone::Warning, "Nearly saturated")
        }
        _ if advice.leading_disturbance().is_some() => {
            Words::new(Tone::Warning, "Streams disturb each other")
        }
        Verdict::Depends | Verdict::DependsOnDrive => {
            match advice.uncertain.as_ref().and_then(|one| one.depends_on) {
                Some(DependsOn::Replay) => Words::new(Tone::Calm, "It depends"),
                Some(DependsOn::Drive) => Words::new(Tone::Calm, "It depends on the drive"),
                None => Words::new(Tone::Calm, "No gain is certain"),
            }
        }
        Verdict::LoadTooLow | Verdict::BaselineIsBest | Verdict::NothingToGain => {
            Words::new(Tone::Calm, "Nothing to gain")
        }
    }
}

/// Returns the verdict on flash of the size that the user named.
fn flash_named(advice: &Advice) -> Words {
    let cache = advice.remedies.iter().find(|one| one.kind == RemedyKind::Caching);
    match cache.and_then(|one| one.against.as_ref()) {
        _ if cache.is_some_and(|one| one.recommended) => Words::new(Tone::Good, "Flash helps"),
        // The badge must agree with the headline.
        _ if advice.headline.starts_with("No: ") => Words::new(Tone::Calm, "Flash does not help"),
        _ if advice.headline.starts_with("Not in this ") => {
            Words::new(Tone::Calm, "Too short to tell")
        }
        Some(against) if against.is_needless => Words::new(Tone::Calm, "Flash is not needed"),
        Some(_) => Words::new(Tone::Calm, "Flash: no clear gain"),
        None => Words::new(Tone::Calm, "Flash does not help"),
    }
}

fn about(advice: &Advice) -> Vec<(String, String)> {
    let faster = match advice.intensity {
        1.0 => String::new(),
        times => format!(", {} times as fast", significant(times)),
    };
    let of = &advice.description;
    vec![
        ("Trace".into(), advice.trace.clone()),
        ("Device".into(), format!("{} ({})", advice.device, advice.device_reason)),
        ("Replay".into(), format!("{}{faster}", advice.replay.told())),
        (
            "Load".into(),
            format!("{} in {}", counted(of.records, "request"), seconds(of.duration_s)),
        ),
    ]
}

/// Converts a finding to blocks: text, and a command block for the lines meant for copying.
fn paragraph(finding: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for line in finding.lines() {
        match (line.strip_prefix("    "), blocks.last_mut()) {
            (Some(command), Some(Block::Commands(commands))) => commands.push(command.to_string()),
            (Some(command), _) => blocks.push(Block::Commands(vec![command.to_string()])),
            (None, _) => blocks.push(Block::Text(line.to_string())),
        }
    }
    blocks
}

/// Adds the sections about runs, which compare the present scheduler with the recommended one, or
/// with the best other one.
fn add_runs(page: &mut Page, advice: &Advice) {
    let run = |policy: &str| advice.runs.iter().find(|run| run.policy == policy);
    let Some(now) = run(&advice.baseline) else { return };
    let is_other = |policy: &&str| **policy != *now.policy;
    let recommended = advice.recommended.as_deref().filter(is_other);
    let mut others = advice.ranking.iter().map(|one| one.policy.as_str()).filter(is_other);
    let other = recommended.or_else(|| others.next()).and_then(run);
    let with_flash = flash(advice).and_then(|remedy| remedy.run.as_deref());
    let today = advice.today.as_ref().map(|today| today.policy.as_str());
    let names = [Some(&*now.policy), today, other.map(|run| &*run.policy)];
    let names = names.into_iter().chain([with_flash.map(|run| &*run.policy)]);
    let tried = advice.remedies.iter().filter_map(|remedy| remedy.run.as_deref());
    let results: Vec<RunResult> = advice.runs.iter().chain(tried).cloned().collect();
    RunSections {
        runs: &advice.pictures.runs,
        results: &results,
        compared: std::iter::once(now).chain(other).collect(),
        drawn: names.flatten().collect(),
        cylinders: advice.pictures.cylinders,
        streams: &advice.pictures.streams,
        arrivals: &advice.pictures.arrivals,
    }
    .add_to(page);
}

#[cfg(test)]
mod tests {
    use forebay_show::html::document;
    use forebay_show::terminal::{self, Extent};
    use forebay_show::{Cell, Row, RowMark};

    use super::*;
    use crate::advise::Uncertain;
    use crate::advise::sample::advice;

    #[test]
    fn names_from_outside_stay_names() {
        let mut advice = advice();
        let hostile = "<script>alert('\"&')</script>\0]]>".to_string();
        (advice.trace, advice.headline) = (hostile.clone(), hostile.clone());
        advice.findings.push(hostile.clone());
        advice.remedies[1].reason = hostile.clone();
        advice.flash_device = hostile.clone();
        for run in &mut advice.runs {
            run.figures.streams[0].stream = hostile.clone();
            run.contention.fights[0].stream_a = hostile.clone();
        }
        let html = document(&page(&advice));
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
        let parsed = roxmltree::Document::parse_with_options(&html, options).unwrap();
        let texts = parsed.descendants().filter_map(|node| node.text()).collect::<Vec<_>>();
        assert!(!html.contains("<script>alert"));
        assert!(texts.join("").matches("<script>alert('\"&')</script>\u{fffd}").count() >= 5);
    }

    #[test]
    fn invalid_numbers_are_not_printed() {
        for wrong in [f64::NAN, f64::INFINITY] {
            let mut advice = advice();
            advice.ranking[0].total_s = wrong;
            advice.ranking[1].gain_share = Some(wrong);
            advice.runs[0].figures.busy_s = wrong;
            advice.runs[1].figures.read_p99_ms = Some(wrong);
            advice.pictures.arrivals[3].1 = wrong;
            let page = page(&advice);
            let html = document(&page);
            let text = terminal::text(&page, 80, Extent::Everything);
            for shown in [html.split("</style>").nth(1).unwrap(), &text] {
                assert!(!shown.contains("NaN") && !shown.contains("inf"), "{shown}");
            }
        }
    }

    #[test]
    fn the_badge_the_key_figures_and_the_marked_row_agree() {
        let mut advice = advice();
        advice.today = Some(crate::advise::Today::of("deadline", true));
        let page = page(&advice);
        assert_eq!(page.verdict.words, "A scheduler helps");
        let Block::Table(table) = &page.sections[0].blocks[0] else { panic!("no table") };
        let best: Vec<&Row> =
            table.rows.iter().filter(|row| matches!(row.mark, RowMark::Best(_))).collect();
        assert_eq!(best.len(), 1);
        assert_eq!(best[0].cells[0], "deadline".into());
        let shown: Vec<f64> = page.key_figures.iter().map(|key| key.figure.value).collect();
        assert_eq!(best[0].cells[2], Cell::Value(shown[0]));
        assert_eq!(best[0].cells.last(), Some(&Cell::Value(*shown.last().unwrap())));
    }

    #[test]
    fn a_scheduler_that_may_help_has_a_row_and_says_what_decides() {
        let mut advice = advice();
        (advice.verdict, advice.recommended) = (Verdict::Depends, Some("noop".to_string()));
        advice.remedies.clear();
        let mut said = |depends_on| {
            let policy = "deadline".to_string();
            advice.uncertain = Some(Uncertain { policy, depends_on, gains: Vec::new() });
            let page = page(&advice);
            let Block::Table(table) = &page.sections[0].blocks[0] else { panic!("no table") };
            let rows = ["now: noop", "deadline (uncertain)"].map(Cell::from);
            assert_eq!(table.rows.iter().map(|row| row.cells[0].clone()).collect::<Vec<_>>(), rows);
            let screen = terminal::text(&page, 200, Extent::FirstScreen);
            let done = screen.lines().find(|line| line.contains("Do now")).unwrap().to_string();
            (page.verdict.words, done.trim_start().split_once("nothing: ").unwrap().1.to_string())
        };
        let (badge, done) = said(Some(DependsOn::Replay));
        let expected =
            "whether the scheduler deadline helps depends on whether requests wait for one another";
        assert_eq!((&badge[..], &done[..]), ("It depends", expected));
        let (badge, done) = said(Some(DependsOn::Drive));
        assert!(
            badge == "It depends on the drive" && done.contains("depends on the drive;"),
            "{done}"
        );
        let (badge, done) = said(None);
        assert_eq!(badge, "No gain is certain");
        assert_eq!(done, "no other Linux scheduler is certain to be better");
    }

    #[test]
    fn lines_to_be_copied_are_commands() {
        let blocks = paragraph("Set it:\n    echo a\n    echo b\nFor good:\n    rule");
        let commands =
            |lines: &[&str]| Block::Commands(lines.iter().map(|l| l.to_string()).collect());
        assert_eq!(blocks[1], commands(&["echo a", "echo b"]));
        assert_eq!(
            (&blocks[2], &blocks[3]),
            (&Block::Text("For good:".into()), &commands(&["rule"]))
        );
    }
}
