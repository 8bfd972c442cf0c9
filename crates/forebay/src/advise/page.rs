//! The page of `advise`. The first screen has the answer, what to compare it with, what to do, why, and how far to trust
//! it; everything else is detail.

use forebay_ask::named;
use forebay_show::figure::{Figure, Unit};
use forebay_show::html::paragraphs::called;
use forebay_show::page::{Block, KeyFigure, Page, Place, Tone, Verdict as Words};
use forebay_show::table::{Cell, Column, Row, RowMark, Table};

use super::{Advice, From, Ranked, Redundancy, Remedy, RemedyKind, Standing, Verdict};
use crate::quantities::{bytes, counted, seconds, significant};
use crate::run_page::{RunSections, name};
use crate::simulate::{Replay, RunResult};

/// The page.
pub(super) fn page(advice: &Advice) -> Page {
    let mut page = Page {
        title: called("Advice", &[&advice.trace]),
        verdict: verdict(advice),
        headline: advice.headline.clone(),
        about: about(advice),
        key_figures: key_figures(advice),
        ..Page::default()
    };
    page.add("The answer", Place::FirstScreen, answer(advice));
    if let Some(redundancy) = &advice.redundancy {
        let said = vec![Block::Text(redundancy.said.clone())];
        page.add("Redundancy", Place::FirstScreen, said);
    }
    let findings = advice.findings.iter().flat_map(|finding| paragraph(finding)).collect();
    page.add("Why", Place::Detail, findings);
    page.add("Remedies", Place::Detail, remedies(advice));
    if !advice.ranking.is_empty() {
        let title = match advice.verdict {
            Verdict::TooShort => "Schedulers, not ranked: too few requests".to_string(),
            _ => format!("Schedulers, the least {} first", advice.total_is),
        };
        page.add(&title, Place::Detail, ranked(advice, &advice.ranking, advice.total_is));
    }
    if let Some(other) = &advice.other_replay {
        let title = format!("The same {}", other.replay.as_told());
        page.add(&title, Place::Detail, ranked(advice, &other.ranking, other.total_is));
    }
    if let Some(redundancy) = &advice.redundancy {
        let title = format!("Redundancy on {} drives", redundancy.drives);
        page.add(&title, Place::Detail, vec![Block::Table(arrays(redundancy, advice.total_is))]);
    }
    page.add_notes("Keep in mind", Place::Detail, advice.cautions.clone());
    add_runs(&mut page, advice);
    let described = crate::describe::page::all(&advice.description);
    page.add("The trace", Place::Detail, vec![Block::Table(described)]);
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
        _ if recommends(|one| one.flash_bytes > 0) => helps("Flash helps"),
        _ if recommends(|one| one.kind == RemedyKind::QueueSizes) => helps("Queue sizes help"),
        Verdict::Recommended => helps("A scheduler helps"),
        _ if recommends(|one| one.kind == RemedyKind::Defragmentation) => {
            helps("Defragmentation helps")
        }
        Verdict::Depends => Words::new(Tone::Calm, "It depends"),
        Verdict::DependsOnDrive => Words::new(Tone::Calm, "It depends on the drive"),
        Verdict::LoadTooLow | Verdict::BaselineIsBest | Verdict::NothingToGain => {
            Words::new(Tone::Calm, "Nothing to gain")
        }
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

/// A way to go on, with what it comes to.
struct Alternative<'a> {
    name: String,
    run: &'a RunResult,
    mark: RowMark,
}

/// What the first screen compares: the present state, the best that Linux has, the best that Forebay has, and flash.
fn compared(advice: &Advice) -> Vec<Alternative<'_>> {
    let run = |policy: &str| advice.runs.iter().find(|run| run.policy == policy);
    let best = || RowMark::Best("recommended".into());
    let mut all = Vec::new();
    if let Some(now) = run(&advice.baseline) {
        let assumed = if advice.is_baseline_known { "now" } else { "now, assumed" };
        let name = format!("{assumed}: {}", advice.baseline);
        all.push(Alternative { name, run: now, mark: RowMark::Plain });
    }
    let queues =
        advice.remedies.iter().find(|one| one.kind == RemedyKind::QueueSizes && one.recommended);
    let today = advice.today.as_ref();
    match (queues, today) {
        (Some(remedy), _) => all.extend(remedy.run.as_deref().map(|run| Alternative {
            name: run.policy.clone(),
            run,
            mark: best(),
        })),
        (None, Some(today)) => all.extend(run(&today.policy).map(|run| Alternative {
            name: today.policy.clone(),
            run,
            mark: if advice.verdict == Verdict::Recommended { best() } else { RowMark::Plain },
        })),
        (None, None) => {}
    }
    if let Some(own) = advice
        .recommended
        .as_deref()
        .filter(|policy| From::of(policy) == From::Forebay && **policy != *advice.baseline)
    {
        let name = format!("{own}, served by Forebay");
        all.extend(run(own).map(|run| Alternative { name, run, mark: RowMark::Plain }));
    }
    if let Some(remedy) = flash(advice) {
        let how = match remedy.kind {
            RemedyKind::Caching => "write-back cache",
            _ => "offloading",
        };
        let name = format!("{} of flash, {how}", bytes(remedy.flash_bytes as f64));
        let mark = match remedy.recommended {
            true => best(),
            false => RowMark::Badge("not recommended".into()),
        };
        all.extend(remedy.run.as_deref().map(|run| Alternative { name, run, mark }));
    }
    all
}

/// The use of flash that is recommended, or else the one that takes the least time.
fn flash(advice: &Advice) -> Option<&Remedy> {
    let tried =
        || advice.remedies.iter().filter(|one| one.flash_bytes > 0 && one.total_s.is_some());
    let total = |one: &&Remedy| one.total_s.unwrap_or(f64::MAX);
    tried()
        .find(|one| one.recommended)
        .or_else(|| tried().min_by(|a, b| total(a).total_cmp(&total(b))))
}

/// The times of what is compared. Latencies of a backlog are left out.
fn times(advice: &Advice) -> Option<Table> {
    let options = compared(advice);
    let now = options.first()?.run;
    let tells = super::judge::tells_latencies(now);
    let is_behind = advice.enough.is_some() || now.replay != Replay::Open;
    let mut columns = vec![Column::words("")];
    type Time = fn(&RunResult) -> Option<f64>;
    let latencies: [(&str, Time); 4] = [
        ("read p50", |run| run.figures.read_p50_ms),
        ("p99", |run| run.figures.read_p99_ms),
        ("write p50", |run| run.figures.write_p50_ms),
        ("p99", |run| run.figures.write_p99_ms),
    ];
    let has = |of: &Time| tells && options.iter().any(|one| of(one.run).is_some());
    let shown: Vec<(&str, Time)> = latencies.into_iter().filter(|(_, of)| has(of)).collect();
    columns.extend(shown.iter().map(|(head, _)| Column::of(*head, Unit::Seconds)));
    if is_behind {
        columns.push(Column::of("done after", Unit::Seconds));
    } else {
        columns.push(Column::of("busy", Unit::Seconds));
    }
    let mut table = Table::new(columns);
    for one in &options {
        let figures = &one.run.figures;
        let mut cells: Vec<Cell> = vec![one.name.as_str().into()];
        cells.extend(shown.iter().map(|(_, of)| Cell::value(of(one.run).map(|ms| ms / 1e3))));
        cells.push(if is_behind { figures.makespan_s } else { figures.busy_s }.into());
        table.rows.push(Row { mark: one.mark.clone(), cells });
    }
    Some(table)
}

/// The answer's figures, what to do, why, and how far to trust it.
fn answer(advice: &Advice) -> Vec<Block> {
    let mut blocks: Vec<Block> = times(advice).map(Block::Table).into_iter().collect();
    let mut terms = Vec::new();
    let is_told = !matches!(advice.verdict, Verdict::NoTimes | Verdict::TooShort);
    match &advice.today {
        Some(today) => {
            let set = format!("Do now (for good: {} shows the udev rule)", named("explain"));
            blocks.push(Block::Text(format!("{set}:")));
            blocks.push(Block::Commands(today.now.split("; ").map(str::to_string).collect()));
        }
        None if is_told => terms.push((
            "Do now",
            format!("nothing: no setting of Linux is sure to be better than {}", advice.baseline),
        )),
        None => {}
    }
    if let Some(own) = advice
        .recommended
        .as_deref()
        .filter(|own| From::of(own) == From::Forebay && **own != *advice.baseline)
    {
        terms.push(("Or serve", format!("{own} needs Forebay in the data path: docs/serve.md")));
    }
    terms.extend(advice.why.clone().map(|why| ("Why", why)));
    terms.push(("Model", format!("{} ({})", advice.device, advice.device_reason)));
    terms.push(("Trust", advice.trust.said.clone()));
    let terms = terms.into_iter().map(|(term, text)| (term.to_string(), text)).collect();
    blocks.push(Block::Terms(terms));
    blocks
}

/// How the recommendation changes what people wait for, and how long the device works.
fn key_figures(advice: &Advice) -> Vec<KeyFigure> {
    let options = compared(advice);
    let (Some(now), Some(best)) = (
        options.first().map(|one| one.run),
        options.iter().find(|one| matches!(one.mark, RowMark::Best(_))).map(|one| one.run),
    ) else {
        return Vec::new();
    };
    let figure = |name: &str, of: fn(&RunResult) -> Option<f64>| {
        Some(KeyFigure {
            name: name.to_string(),
            before: Some(Figure::new(of(now)?, Unit::Seconds)),
            figure: Figure::new(of(best)?, Unit::Seconds),
        })
    };
    let tells = super::judge::tells_latencies(now);
    let reads = figure("read p99", |run| run.figures.read_p99_ms.map(|ms| ms / 1e3));
    let writes = figure("write p99", |run| run.figures.write_p99_ms.map(|ms| ms / 1e3));
    let tails = reads.into_iter().chain(writes).filter(|_| tells);
    tails.chain(figure(advice.total_is, |run| Some(run.total_s()))).collect()
}

/// A finding; its lines that can be copied are commands.
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

/// Every kind of remedy, free ones first, each against the present state on the requests that its own figures are of.
fn remedies(advice: &Advice) -> Vec<Block> {
    let mut blocks = Vec::new();
    let tried = advice.remedies.iter().filter(|remedy| remedy.total_s.is_some());
    let tried: Vec<&Remedy> = tried.collect();
    if !tried.is_empty() {
        blocks.push(Block::Table(remedy_table(advice, &tried)));
        let mut said = format!("Each against {} on the same requests", advice.baseline);
        let is_part = |remedy: &&&Remedy| remedy.kind == RemedyKind::Defragmentation;
        if let Some(remedy) = tried.iter().find(is_part) {
            let requests = remedy.requests;
            said +=
                &format!(", defragmentation on the last {requests}, which it did not learn from");
        }
        blocks.push(Block::Text(format!("{said}. Flash: {}.", advice.flash_device)));
    }
    let reason = |(kinds, reason): (String, &str)| (kinds, reason.to_string());
    blocks.push(Block::Terms(advice.reasons().into_iter().map(reason).collect()));
    blocks
}

fn remedy_table(advice: &Advice, tried: &[&Remedy]) -> Table {
    let total = advice.total_is;
    let mut table = Table::new([
        Column::words("remedy"),
        Column::words("with"),
        Column::of(format!("{total} before"), Unit::Seconds),
        Column::of("after", Unit::Seconds),
        Column::of("saved", Unit::Share),
        Column::of("beyond what is free", Unit::Share),
        Column::of("read p99 before", Unit::Seconds),
        Column::of("after", Unit::Seconds),
        Column::of("write p99 before", Unit::Seconds),
        Column::of("after", Unit::Seconds),
    ]);
    for remedy in tried {
        let before = remedy.before.as_ref();
        let with = match remedy.kind {
            RemedyKind::Scheduling => name(&remedy.policy),
            _ => remedy.needs().unwrap_or_default(),
        };
        let ms = |ms: Option<f64>| Cell::value(ms.map(|ms| ms / 1e3));
        let mark = match advice.standing(remedy) {
            Standing::Recommended => RowMark::Best("recommended".into()),
            Standing::ForToday => RowMark::Badge("to set today".into()),
            Standing::PassedOver => RowMark::Plain,
        };
        let cells = vec![
            remedy.kind.name().into(),
            with.into(),
            Cell::value(before.map(|before| before.total_s)),
            Cell::value(remedy.total_s),
            Cell::value(remedy.gain_share),
            Cell::value(remedy.gain_over_free_share),
            ms(before.and_then(|before| before.read_p99_ms)),
            ms(remedy.read_p99_ms),
            ms(before.and_then(|before| before.write_p99_ms)),
            ms(remedy.write_p99_ms),
        ];
        table.rows.push(Row { mark, cells });
    }
    table
}

/// Schedulers in their places, with the ranges of 95 % of resamples.
fn ranked(advice: &Advice, ranking: &[Ranked], total_is: &str) -> Vec<Block> {
    let mut table = Table::new([
        Column::words("policy"),
        Column::words("from"),
        Column::of(total_is, Unit::Seconds),
        Column::of("saved", Unit::Share),
        Column::of("read p99", Unit::Seconds),
        Column::of("write p99", Unit::Seconds),
        Column::of("longest", Unit::Seconds),
    ]);
    let interval = |value: Option<f64>, ends: Option<(f64, f64)>| match (value, ends) {
        (Some(value), Some((low, high))) => Cell::Interval { value, low, high },
        (value, _) => Cell::value(value),
    };
    let ms = |value: Option<f64>| value.map(|ms| ms / 1e3);
    for one in ranking {
        let mark = match () {
            () if advice.is_for_today(&one.policy) => RowMark::Badge("to set today".into()),
            () if advice.recommended.as_ref() == Some(&one.policy) => RowMark::Best("best".into()),
            () => RowMark::Plain,
        };
        let saved = one.gain_low_share.zip(one.gain_high_share);
        let cells = vec![
            name(&one.policy).into(),
            one.from.name().into(),
            one.total_s.into(),
            interval(one.gain_share, saved.filter(|_| one.policy != advice.baseline)),
            interval(ms(one.read_p99_ms), ms(one.read_p99_low_ms).zip(ms(one.read_p99_high_ms))),
            interval(ms(one.write_p99_ms), ms(one.write_p99_low_ms).zip(ms(one.write_p99_high_ms))),
            Cell::value(ms(one.longest_ms)),
        ];
        table.rows.push(Row { mark, cells });
    }
    let said = format!(
        "Each scheduler against {}. Intervals hold 95 % of resamples of the run; for what is saved, of both runs together, \
         which decides.",
        advice.baseline
    );
    let is_compared = ranking.iter().any(|one| one.gain_share.is_some());
    [Block::Table(table)].into_iter().chain(is_compared.then_some(Block::Text(said))).collect()
}

/// Every way to keep data on an array.
fn arrays(redundancy: &Redundancy, total_is: &str) -> Table {
    let mut table = Table::new([
        Column::words("redundancy"),
        Column::of("drives that may fail", Unit::Count),
        Column::of("holds", Unit::Bytes),
        Column::of(total_is, Unit::Seconds),
        Column::of("read mean", Unit::Seconds),
        Column::of("p99", Unit::Seconds),
        Column::of("write mean", Unit::Seconds),
        Column::of("p99", Unit::Seconds),
    ]);
    let ms = |ms: Option<f64>| Cell::value(ms.map(|ms| ms / 1e3));
    for one in &redundancy.tried {
        let mut row = Row::new([
            one.name.into(),
            (one.failures_survived as f64).into(),
            (one.usable_bytes as f64).into(),
            one.total_s.into(),
            ms(one.read_mean_ms),
            ms(one.read_p99_ms),
            ms(one.write_mean_ms),
            ms(one.write_p99_ms),
        ]);
        if one.name == redundancy.recommended {
            row.mark = RowMark::Best("recommended".into());
        }
        table.rows.push(row);
    }
    table
}

/// What the runs did: the present state beside what is recommended, or the best other scheduler.
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
        latencies_of: names.flatten().collect(),
        cylinders: advice.pictures.cylinders,
        streams: &advice.pictures.streams,
        arrivals: &advice.pictures.arrivals,
    }
    .add_to(page);
}
