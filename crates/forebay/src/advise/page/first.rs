//! The first screen of the report: the present state and the alternatives, what to do, why, and how
//! far to trust the answer.

use forebay_ask::named;
use forebay_show::{Block, Cell, Column, Figure, KeyFigure, Row, RowMark, Table, Unit};
use forebay_trace::describe::printable;

use super::flash_line::flash_line;
use crate::advise::judge::{TOO_FEW, tells_latencies};
use crate::advise::{
    Advice, DependsOn, Disturbance, Provider, Remedy, RemedyKind, Uncertain, Verdict,
};
use crate::quantities::bytes;
use crate::{Replay, RunResult};

/// One alternative: a row in the table on the first screen.
struct Alternative<'a> {
    name: String,
    run: &'a RunResult,
    mark: RowMark,
}

/// Returns the rows of the table: the present state, Linux's best scheduler, the one that may be
/// better, Forebay's best, and flash. Marks the recommendation that costs nothing, or else the
/// recommended use of flash.
fn compared(advice: &Advice) -> Vec<Alternative<'_>> {
    let run = |policy: &str| advice.runs.iter().find(|run| run.policy == policy);
    let plain = |name: String, run| Alternative { name, run, mark: RowMark::Plain };
    let mut all = Vec::new();
    all.extend(run(&advice.baseline).map(|run| plain(format!("now: {}", run.policy), run)));
    let queues =
        advice.remedies.iter().find(|one| one.kind == RemedyKind::QueueSizes && one.recommended);
    let today = advice.today.as_ref();
    let free = match (queues, today) {
        (Some(remedy), _) => remedy.run.as_deref(),
        (None, Some(today)) => run(&today.policy),
        (None, None) => None,
    };
    let uncertain = advice.uncertain.as_ref().filter(|_| advice.enough.is_none());
    let uncertain = uncertain.and_then(|one| run(&one.policy));
    let is_free_best = queues.is_some() || advice.verdict == Verdict::Recommended;
    let mark = |is_best| if is_best { RowMark::Best("best".into()) } else { RowMark::Plain };
    all.extend(free.map(|run| Alternative {
        name: run.policy.clone(),
        run,
        mark: mark(is_free_best),
    }));
    let uncertain = uncertain.filter(|run| free.is_none_or(|free| free.policy != run.policy));
    all.extend(uncertain.map(|run| plain(format!("{} (uncertain)", run.policy), run)));
    let own = own(advice).and_then(run);
    all.extend(own.map(|run| plain(format!("{}, served", run.policy), run)));
    if let Some(remedy) = flash(advice) {
        let is_best = remedy.recommended && !(is_free_best && free.is_some());
        let name = format!("{} flash", bytes(remedy.flash_bytes as f64));
        let run = remedy.run.as_deref();
        all.extend(run.map(|run| Alternative { name, run, mark: mark(is_best) }));
    }
    all
}

fn is_best(one: &Alternative<'_>) -> bool {
    matches!(one.mark, RowMark::Best(_))
}

/// Returns the recommended scheduler, if it is one of Forebay's own.
fn own(advice: &Advice) -> Option<&str> {
    let recommended = advice.recommended.as_deref()?;
    let is_own = Provider::of(recommended) == Provider::Forebay && recommended != advice.baseline;
    is_own.then_some(recommended)
}

/// Returns the recommended use of flash. If none is recommended and the disk is not idle, returns a
/// cache that makes no latency worse. None of these lines is shown for a trace that is too short.
pub(super) fn flash(advice: &Advice) -> Option<&Remedy> {
    let tried =
        || advice.remedies.iter().filter(|one| one.flash_bytes > 0 && one.total_s.is_some());
    let now = advice.runs.iter().find(|run| run.policy == advice.baseline)?;
    let latencies = |run: &RunResult| {
        let of = &run.figures;
        [of.read_p50_ms, of.read_p99_ms, of.write_p50_ms, of.write_p99_ms]
    };
    let is_harmless = |run: &RunResult| {
        let pairs = latencies(run).into_iter().zip(latencies(now));
        pairs.filter_map(|(with, now)| with.zip(now)).all(|(with, now)| with <= now * 1.03)
    };
    let is_cache = |one: &&Remedy| one.kind == RemedyKind::Caching;
    if advice.verdict == Verdict::TooShort {
        return None;
    }
    if advice.is_flash_size_named {
        return advice.remedies.iter().find(is_cache);
    }
    // The headline names the flash that keeps up.
    let keeps_up = advice.enough.and_then(|enough| enough.flash_bytes);
    if let Some(bytes) = keeps_up {
        return advice.remedies.iter().filter(is_cache).find(|one| one.flash_bytes == bytes);
    }
    let is_idle = advice.verdict == Verdict::LoadTooLow;
    let harmless = |one: &&Remedy| !is_idle && one.run.as_deref().is_some_and(is_harmless);
    tried().find(|one| one.recommended).or_else(|| tried().filter(is_cache).find(harmless))
}

/// Builds the table of alternatives, unless the trace is too short to compare them. Omits latencies
/// that only measure the length of a backlog.
fn times(advice: &Advice) -> Option<Table> {
    if advice.verdict == Verdict::TooShort {
        return None;
    }
    let options = compared(advice);
    let now = options.first()?.run;
    let tells = tells_latencies(now);
    let falls_behind = advice.enough.is_some();
    let in_bursts = falls_in_bursts(advice, now);
    let mut columns = vec![Column::words("")];
    type Time = fn(&RunResult) -> Option<f64>;
    let latencies: [(&str, Time); 4] = [
        ("read p50", |run| run.figures.read_p50_ms),
        ("p99", |run| run.figures.read_p99_ms),
        ("write p50", |run| run.figures.write_p50_ms),
        ("p99", |run| run.figures.write_p99_ms),
    ];
    let has = |of: &Time| tells && options.iter().any(|one| of(one.run).is_some());
    let counts = [now.figures.reads, now.figures.reads, now.figures.writes, now.figures.writes];
    let shown = latencies.into_iter().zip(counts);
    let shown = shown.filter(|((_, of), count)| has(of) && is_sure(now, *count));
    let shown: Vec<(&str, Time)> = shown.map(|(one, _)| one).collect();
    columns.extend(shown.iter().map(|(head, _)| Column::of(*head, Unit::Seconds)));
    let (head, last): (&str, fn(&RunResult) -> f64) = match now.replay {
        _ if in_bursts => ("maximum lag", |run| run.figures.longest_lag_ms / 1e3),
        Replay::Open if !falls_behind => ("busy", |run| run.figures.busy_s),
        _ => ("done after", |run| run.figures.makespan_s),
    };
    columns.push(Column::of(head, Unit::Seconds));
    let mut table = Table::new(columns);
    for one in &options {
        let mut cells: Vec<Cell> = vec![one.name.as_str().into()];
        cells.extend(shown.iter().map(|(_, of)| Cell::value(of(one.run).map(|ms| ms / 1e3))));
        cells.push(last(one.run).into());
        table.rows.push(Row { mark: one.mark.clone(), cells });
    }
    Some(table)
}

/// Returns whether the device falls behind, but only in bursts, so that the lag counts rather than
/// the total time.
fn falls_in_bursts(advice: &Advice, now: &RunResult) -> bool {
    advice.enough.is_some() && now.replay == Replay::Open && advice.is_behind_in_bursts(now)
}

/// Returns whether percentiles of `count` requests of one kind are meaningful; with fewer requests,
/// a percentile is just one of the latencies.
fn is_sure(now: &RunResult, count: u64) -> bool {
    count >= TOO_FEW || now.figures.requests < TOO_FEW
}

/// Builds the first screen: the table, the commands, the reason, and how far to trust the answer.
pub(super) fn answer(advice: &Advice) -> Vec<Block> {
    let mut blocks: Vec<Block> = times(advice).map(Block::Table).into_iter().collect();
    let mut terms = Vec::new();
    let is_told = !matches!(advice.verdict, Verdict::NoTimes | Verdict::TooShort);
    match &advice.today {
        Some(_) if advice.is_other_device => {
            let device = &advice.device;
            let what = match advice.trust.is_checked {
                true => format!("nothing: the recorded device does not resemble {device}"),
                false => {
                    format!(
                        "specify your disk with {}: this answer is for {device}",
                        named("device")
                    )
                }
            };
            terms.push(("Do now", what));
        }
        Some(today) => {
            let commands = today.now.split("; ").map(str::to_string).collect();
            blocks.push(Block::Text("Do now:".to_string()));
            blocks.push(Block::Commands(commands));
        }
        None if is_told => {
            let what = match advice.leading_disturbance() {
                None => "nothing",
                Some(pair) if pair.are_volumes => "put them on separate disks",
                Some(pair) if pair.is_write_back() => {
                    "write to another disk, or less at once (vm.dirty_bytes)"
                }
                Some(_) => "run one of the two at another time, or on another disk",
            };
            terms.push(("Do now", format!("{what}: {}", why_nothing(advice))));
        }
        None => {}
    }
    if let Some(own) = own(advice) {
        terms.push(("Serve", format!("{own} needs Forebay in the data path (docs/serve.md)")));
    }
    terms.extend(flash_line(advice).map(|said| ("Flash", said)));
    let tells = advice.verdict != Verdict::TooShort;
    terms.extend(advice.why.clone().filter(|_| tells).map(|why| ("Why", why)));
    if advice.verdict == Verdict::NoTimes {
        let cache = advice.cache_sizing.as_ref().filter(|sizing| sizing.hit_share > 0.0);
        terms.extend(cache.map(|sizing| ("Cache", sizing.in_short())));
        terms.push(("Next", "record arrival times with `forebay capture` or blktrace".to_string()));
    }
    if is_told {
        let assumed = match advice.is_baseline_known {
            true => String::new(),
            false => {
                let (baseline, current) = (&advice.baseline, named("current"));
                format!("; current scheduler assumed: {baseline} (specify another with {current})")
            }
        };
        let stands_in = match advice.stands_in {
            true => format!(
                ", {} (docs/measure-a-drive.md shows how to measure it)",
                advice.device_reason
            ),
            false => String::new(),
        };
        let by_default = match advice.is_device_default {
            true => format!(", {}", shortened(&advice.device_reason)),
            false => String::new(),
        };
        let model = format!("{}{by_default}{stands_in}{assumed}", advice.device);
        terms.push(("Model", model));
    }
    // Only the first sentence is shown here; the details are in a later section.
    let trust =
        advice.trust.said.split_once(". ").map_or(&advice.trust.said[..], |(first, _)| first);
    // If nothing was simulated, there is no model to trust.
    if advice.verdict != Verdict::NoTimes {
        terms.push(("Trust", trust.trim_end_matches('.').to_string()));
    }
    let terms = terms.into_iter().map(|(term, text)| (term.to_string(), text)).collect();
    blocks.push(Block::Terms(terms));
    blocks
}

/// Explains why there is nothing to set.
fn why_nothing(advice: &Advice) -> String {
    let on_what = |one: &Uncertain| match one.depends_on? {
        DependsOn::Replay => Some(format!(
            "whether the scheduler {} helps depends on whether requests wait for one another",
            one.policy
        )),
        DependsOn::Drive => Some(format!(
            "whether the scheduler {} helps depends on the drive; docs/measure-a-drive.md shows how to measure it",
            one.policy
        )),
    };
    advice
        .uncertain
        .as_ref()
        .and_then(on_what)
        .unwrap_or_else(|| "no other Linux scheduler is certain to be better".to_string())
}

/// Returns the first clause of a reason, without details in parentheses.
fn shortened(reason: &str) -> &str {
    let ends = [reason.find(" ("), reason.find("; ")];
    ends.into_iter().flatten().min().map_or(reason, |end| &reason[..end])
}

/// Returns the key figure for a stream without the one that disturbs it.
fn tail_without(of: &Disturbance) -> Option<KeyFigure> {
    Some(KeyFigure {
        name: format!("p99 of {} without {}", printable(&of.stream), printable(&of.beside)),
        before: Some(Figure::new(of.p99_ms? / 1e3, Unit::Seconds)),
        figure: Figure::new(of.p99_without_ms / 1e3, Unit::Seconds),
    })
}

/// Returns the key figures, gains first: how the recommendation changes the tail latencies and the
/// total time.
pub(super) fn key_figures(advice: &Advice) -> Vec<KeyFigure> {
    let options = compared(advice);
    let flash = flash(advice).filter(|one| one.recommended).and_then(|one| one.run.as_deref());
    let best = match advice.is_flash_size_named {
        // The answer is about the flash.
        true => flash,
        false => options.iter().find(|one| is_best(one)).map(|one| one.run),
    };
    let (Some(now), Some(best)) = (options.first().map(|one| one.run), best) else {
        return advice.leading_disturbance().and_then(tail_without).into_iter().collect();
    };
    let lag_s = |run: &RunResult| Some(run.figures.longest_lag_ms / 1e3);
    let counts = |count: u64| tells_latencies(now) && is_sure(now, count);
    let in_s = |ms: Option<f64>, count: u64| ms.filter(|_| counts(count)).map(|ms| ms / 1e3);
    let reads = |run: &RunResult| in_s(run.figures.read_p99_ms, now.figures.reads);
    let writes = |run: &RunResult| in_s(run.figures.write_p99_ms, now.figures.writes);
    let all = [
        ("read p99", reads(now), reads(best)),
        ("write p99", writes(now), writes(best)),
        match falls_in_bursts(advice, now) {
            true => ("maximum lag", lag_s(now), lag_s(best)),
            false => (advice.total_is, Some(now.total_s()), Some(best.total_s())),
        },
    ];
    let figure = |(name, was, is): (&str, Option<f64>, Option<f64>)| {
        Some(KeyFigure {
            name: name.to_string(),
            before: Some(Figure::new(was?, Unit::Seconds)),
            figure: Figure::new(is?, Unit::Seconds),
        })
    };
    let (gains, losses): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, was, is)| is <= was);
    let all = gains.into_iter().chain(losses).filter_map(figure);
    let is_changed = |key: &KeyFigure| key.before.is_some_and(|b| b.text() != key.figure.text());
    all.filter(is_changed).collect()
}
