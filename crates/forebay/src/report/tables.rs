//! The tables of runs: remedies, ranking, pairs of streams, streams, the trace.

use super::load::directions;
use crate::advise::{
    Advice, OtherReplay, Ranked, Redundancy, Redundant, Remedy, RemedyKind, Standing,
};
use crate::simulate::{Replay, RunResult};
use crate::statistics::StreamShare;
use forebay_show::html::paragraphs::said;
use forebay_show::html::table::{Mark, headings, table, with_bar};
use forebay_show::html::text::{
    NONE, bytes, count, escape, millis, millis_or_none, name, percent, percent_or_none, rate,
    ratio, seconds, significant,
};
use forebay_trace::describe::Description;

/// Streams that are listed.
const STREAMS_MAX: usize = 20;

/// Every kind of remedy: what is free, then what costs something. Each is held against the baseline on
/// the requests that its own figures are of.
pub(super) fn remedies(advice: &Advice) -> String {
    let reason = |(kinds, reason): &(String, &str)| {
        format!("<p><b>{}</b>: {}</p>\n", escape(kinds), said(reason))
    };
    let reasons: String = advice.reasons().iter().map(reason).collect();
    let reasons = format!("<div class=\"findings reasons\">{reasons}</div>");
    if advice.remedies.iter().all(|remedy| remedy.total_s.is_none()) {
        return reasons;
    }
    let against = format!("against {}", advice.baseline);
    let heads = headings(&[
        "remedy",
        "needs",
        "requests",
        advice.total_is,
        &against,
        "beyond what is free",
        "read p99",
        "write p99",
    ]);
    let mark = |remedy: &Remedy| match advice.standing(remedy) {
        Standing::Recommended => Mark::Best("recommended".into()),
        Standing::ForToday => Mark::Badge("to set today".into()),
        Standing::PassedOver => Mark::Plain,
    };
    let rows: Vec<_> =
        advice.remedies.iter().map(|remedy| (mark(remedy), remedy_cells(remedy))).collect();
    format!(
        "{}<p class=\"small\">{} → with the remedy, on the same requests: \
         defragmentation on those that it was not learnt from, the others on all. Beyond what is free: \
         against the recommended scheduler. Flash: {}.</p>{reasons}",
        table(&heads, &rows),
        name(&advice.baseline),
        name(&advice.flash_device)
    )
}

fn remedy_cells(remedy: &Remedy) -> Vec<String> {
    let none = || NONE.to_string();
    let before = remedy.before.as_ref();
    let arrow = |was: Option<String>, is: Option<String>| match (was, is) {
        (Some(was), Some(is)) => format!("{was} → {is}"),
        _ => none(),
    };
    let requests = match (remedy.requests, remedy.kind) {
        (0, _) => none(),
        (requests, RemedyKind::Defragmentation) => format!("{} (last)", count(requests)),
        (requests, _) => count(requests),
    };
    vec![
        format!("{}: {}", remedy.kind.name(), name(&remedy.policy)),
        remedy.needs().unwrap_or_else(none),
        requests,
        arrow(before.map(|before| seconds(before.total_s)), remedy.total_s.map(seconds)),
        remedy.gain_share.map_or_else(none, |share| gain(share, false)),
        remedy.gain_over_free_share.map_or_else(none, |share| gain(share, false)),
        arrow(
            before.and_then(|before| before.read_p99_ms).map(millis),
            remedy.read_p99_ms.map(millis),
        ),
        arrow(
            before.and_then(|before| before.write_p99_ms).map(millis),
            remedy.write_p99_ms.map(millis),
        ),
    ]
}

/// Every way to keep data on an array.
pub(super) fn redundancy(redundancy: &Redundancy) -> String {
    let heads = headings(&[
        "redundancy",
        "drives that may fail",
        "holds",
        "total of all drives",
        "read mean",
        "read p99",
        "write mean",
        "write p99",
    ]);
    let mark = |one: &Redundant| Mark::best("recommended", one.name == redundancy.recommended);
    let cells = |one: &Redundant| {
        let time = |ms: Option<f64>| ms.map_or_else(|| NONE.to_string(), millis);
        vec![
            one.name.to_string(),
            one.failures_survived.to_string(),
            bytes(one.usable_bytes as f64),
            seconds(one.total_s),
            time(one.read_mean_ms),
            time(one.read_p99_ms),
            time(one.write_mean_ms),
            time(one.write_p99_ms),
        ]
    };
    let rows: Vec<_> = redundancy.tried.iter().map(|one| (mark(one), cells(one))).collect();
    format!("<p class=\"told\">{}</p>{}", said(&redundancy.said), table(&heads, &rows))
}

/// Every scheduler, that with the least total time first; as they are listed where they cannot be compared.
pub(super) fn ranking(advice: &Advice) -> String {
    let about = match is_compared(&advice.ranking) {
        true => {
            "<p class=\"small\">Below each figure: the range of 95 % of resamples of the run (a block bootstrap over \
             time). A gain is resampled together with the baseline, and that range decides. From: who offers the \
             scheduler today.</p>"
        }
        false => "",
    };
    ranked(advice, advice.replay, &advice.ranking) + about
}

/// The same under the replay that the answer is not told by.
pub(super) fn other_ranking(advice: &Advice, other: &OtherReplay) -> String {
    ranked(advice, other.replay, &other.ranking)
}

fn is_compared(ranking: &[Ranked]) -> bool {
    ranking.iter().any(|ranked| ranked.gain_share.is_some())
}

fn ranked(advice: &Advice, replay: Replay, ranking: &[Ranked]) -> String {
    let baseline = advice.baseline.as_str();
    let total = match replay {
        Replay::Open => replay.total_name(),
        Replay::Closed | Replay::Dependent => "total time, until all is done",
    };
    let against = format!("against {}", name(baseline));
    let mut heads = headings(&["scheduler", "from", total, "", "read p99", "write p99", "longest"]);
    heads[3] = against;
    let longest = ranking.iter().map(|ranked| ranked.total_s).fold(0.0, f64::max);
    let compared = is_compared(ranking);
    if !compared {
        heads.remove(3);
    }
    let rows: Vec<_> = ranking
        .iter()
        .map(|ranked| {
            let best = advice.recommended.as_ref() == Some(&ranked.policy);
            let mark = match (best, advice.is_for_today(&ranked.policy)) {
                (true, true) => Mark::Best("to set today".into()),
                (true, false) => Mark::Best("recommended".into()),
                (false, true) => Mark::Badge("to set today".into()),
                (false, false) => Mark::Plain,
            };
            let total = match compared {
                true => with_bar(&seconds(ranked.total_s), ratio(ranked.total_s, longest)),
                false => seconds(ranked.total_s),
            };
            let total_s = ranked.total_low_s.zip(ranked.total_high_s);
            let total = total + &within(total_s.map(|(low, high)| (seconds(low), seconds(high))));
            let from = ranked.from.name().replace('<', "&lt;");
            let mut cells = vec![name(&ranked.policy), from, total];
            if compared {
                let is_baseline = ranked.policy == baseline;
                let none = || NONE.to_string();
                let saved = ranked.gain_share.map_or_else(none, |share| gain(share, is_baseline));
                let paired = ranked.gain_low_share.zip(ranked.gain_high_share);
                let paired = paired.filter(|_| !is_baseline);
                let least = |(low, high)| (percent(low), format!("{} less", percent(high)));
                cells.push(saved + &within(paired.map(least)));
            }
            let with_interval = |ms: Option<f64>, low: Option<f64>, high: Option<f64>| {
                let interval = low.zip(high).map(|(low, high)| (millis(low), millis(high)));
                millis_or_none(ms) + &within(interval)
            };
            let one = ranked;
            cells.push(with_interval(one.read_p99_ms, one.read_p99_low_ms, one.read_p99_high_ms));
            cells.push(with_interval(
                one.write_p99_ms,
                one.write_p99_low_ms,
                one.write_p99_high_ms,
            ));
            cells.push(millis_or_none(ranked.longest_ms));
            (mark, cells)
        })
        .collect();
    table(&heads, &rows)
}

/// An interval below its figure.
pub(super) fn within(interval: Option<(String, String)>) -> String {
    interval.map_or(String::new(), |(low, high)| {
        format!("<br/><span class=\"small\">{low} to {high}</span>")
    })
}

pub(super) fn gain(share: f64, is_baseline: bool) -> String {
    match share {
        _ if is_baseline => "baseline".to_string(),
        s if !s.is_finite() => NONE.to_string(),
        s if s >= 5e-5 => format!("<span class=\"gain\">{} less</span>", percent(s)),
        s if s <= -5e-5 => format!("<span class=\"loss\">{} more</span>", percent(-s)),
        _ => "same".to_string(),
    }
}

/// The streams that cost each other most, `None` when there are none.
pub(super) fn fights(baseline: &RunResult) -> Option<String> {
    let contention = &baseline.contention;
    let lost_s = contention.between_streams_s + contention.within_streams_s;
    let rows: Vec<_> = contention
        .fights
        .iter()
        .map(|fight| {
            let share = ratio(fight.cost_s, lost_s);
            let cells = vec![
                format!("{} ↔ {}", name(&fight.stream_a), name(&fight.stream_b)),
                count(fight.switches),
                seconds(fight.cost_s),
                millis(ratio(fight.cost_s, fight.switches as f64) * 1e3),
                with_bar(&percent(share), share),
            ];
            (Mark::Plain, cells)
        })
        .collect();
    let heads = ["streams", "switches", "time lost", "per switch", "of all head movement"];
    (!rows.is_empty()).then(|| table(&headings(&heads), &rows))
}

/// The busiest streams under the baseline, and how they fare under the other.
pub(super) fn streams(baseline: &RunResult, other: Option<&RunResult>) -> String {
    let mut heads = headings(&["stream", "I/Os under way", "requests"]);
    let runs: Vec<&RunResult> = std::iter::once(baseline).chain(other).collect();
    for quantile in ["p50", "p99"] {
        heads.extend(runs.iter().map(|run| format!("{quantile}, {}", name(&run.policy))));
    }
    let streams = &baseline.figures.streams;
    let most = streams.iter().map(|stream| stream.busy_share).fold(0.0, f64::max);
    let mut rows: Vec<_> = streams
        .iter()
        .take(STREAMS_MAX)
        .map(|stream| {
            let same = |run: &&RunResult| of_name(run, &stream.stream).cloned();
            let found: Vec<Option<StreamShare>> = runs.iter().map(same).collect();
            let mut cells = vec![
                name(&stream.stream),
                with_bar(&significant(stream.busy_share), ratio(stream.busy_share, most)),
                count(stream.requests),
            ];
            let p50 = |s: &Option<StreamShare>| millis_or_none(s.as_ref().and_then(|s| s.p50_ms));
            let p99 = |s: &Option<StreamShare>| millis_or_none(s.as_ref().and_then(|s| s.p99_ms));
            cells.extend(found.iter().map(p50));
            cells.extend(found.iter().map(p99));
            (Mark::Plain, cells)
        })
        .collect();
    if let Some(rest) = streams.get(STREAMS_MAX..).filter(|rest| !rest.is_empty()) {
        let share: f64 = rest.iter().map(|stream| stream.busy_share).sum();
        let requests = rest.iter().map(|stream| stream.requests).sum();
        let label = format!("{} more", count(rest.len() as u64));
        let mut cells =
            vec![label, with_bar(&significant(share), ratio(share, most)), count(requests)];
        cells.resize(heads.len(), NONE.to_string());
        rows.push((Mark::Plain, cells));
    }
    table(&heads, &rows)
}

fn of_name<'a>(run: &'a RunResult, stream: &str) -> Option<&'a StreamShare> {
    run.figures.streams.iter().find(|share| share.stream == stream)
}

/// What the trace is like, as pairs of term and figure.
pub(super) fn trace(d: &Description) -> String {
    let number = |value: Option<f64>| value.map_or(NONE.to_string(), significant);
    let kib = |kib: Option<f64>| kib.map_or(NONE.to_string(), |kib| bytes(kib * 1024.0));
    let moved =
        format!("{} read, {} written", bytes(d.read_bytes as f64), bytes(d.write_bytes as f64));
    let size = |sizes: &forebay_trace::describe::description::Sizes| {
        format!("{} median, {} p99", kib(sizes.p50_kib), kib(sizes.p99_kib))
    };
    let gaps = &d.inter_arrival;
    let mut terms = vec![
        ("Format", escape(&d.format)),
        ("Requests", directions(d)),
        ("Bytes", moved),
        ("Duration", seconds(d.duration_s)),
        ("Mean rate", format!("{} reads and writes/s", number(d.mean_iops))),
        ("Mean throughput", d.mean_bytes_per_s.map_or(NONE.to_string(), rate)),
        ("Footprint", bytes(d.footprint_bytes as f64)),
        ("Streams", format!("{} by {}", count(d.streams), d.stream_by)),
        ("Volumes", count(d.volumes)),
        ("Read size", size(&d.read_size)),
        ("Write size", size(&d.write_size)),
        ("Sequential, whole trace", percent_or_none(d.sequential_share)),
        ("Sequential, within streams", percent_or_none(d.sequential_share_by_stream)),
        ("Written by write-back", percent_or_none(d.write_back_share)),
        (
            "Between arrivals",
            format!("{} mean, {} p99", millis_or_none(gaps.mean_ms), millis_or_none(gaps.p99_ms)),
        ),
        ("Its variation (Poisson: 1)", number(gaps.variation)),
        ("Most at a time, as recorded", d.concurrency.max_outstanding.map_or(NONE.into(), count)),
        ("Rows skipped", count(d.rows_skipped)),
    ];
    if let Some(burst) = d.arrivals.iter().rev().find(|scale| scale.dispersion.is_some()) {
        let scale = millis(burst.bin_ms as f64);
        terms.push(("Burstiness", format!("dispersion {} over {scale}", number(burst.dispersion))));
    }
    let pair =
        |(term, figure): (&str, String)| format!("<div><dt>{term}</dt><dd>{figure}</dd></div>");
    format!("<dl class=\"facts\">{}</dl>", terms.into_iter().map(pair).collect::<String>())
}
