//! The tables of remedies, schedulers and redundancy schemes.

use forebay_show::figure::Unit;
use forebay_show::page::Block;
use forebay_show::table::{Cell, Column, Row, RowMark, Table};

use crate::advise::{Advice, Latencies, Ranked, Redundancy, Remedy, RemedyKind, RemedyStanding};
use crate::run_page::name;

/// Builds the table of all remedies, those that cost nothing first. Each is compared with the
/// baseline on the same requests.
pub(super) fn remedies(advice: &Advice) -> Vec<Block> {
    let mut blocks = Vec::new();
    let tried = advice.remedies.iter().filter(|remedy| remedy.total_s.is_some());
    let tried: Vec<&Remedy> = tried.collect();
    if !tried.is_empty() {
        blocks.push(Block::Table(remedy_table(advice, &tried)));
        let mut said = format!("Each compared with {} on the same requests", advice.baseline);
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
        Column::of("after", Unit::Seconds).joined(),
        Column::of("saved", Unit::Share),
        Column::of("beyond what is free", Unit::Share),
        Column::of("read p99 before", Unit::Seconds),
        Column::of("after", Unit::Seconds).joined(),
        Column::of("write p99 before", Unit::Seconds),
        Column::of("after", Unit::Seconds).joined(),
    ]);
    for remedy in tried {
        let before = remedy.before.as_ref();
        let with = match remedy.kind {
            RemedyKind::Scheduling => name(&remedy.policy),
            _ => remedy.needs().unwrap_or_default(),
        };
        let ms = |ms: Option<f64>| Cell::value(ms.map(|ms| ms / 1e3));
        let mark = match advice.standing(remedy) {
            RemedyStanding::Recommended => RowMark::Best("recommended".into()),
            RemedyStanding::ForToday => RowMark::Badge("to set today".into()),
            RemedyStanding::PassedOver => RowMark::Plain,
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

/// Builds the ranking of schedulers, with 95 % intervals from resampling.
pub(super) fn ranked(advice: &Advice, ranking: &[Ranked], total_is: &str) -> Vec<Block> {
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
        "Each scheduler compared with {}. Intervals cover 95 % of resamples of the run; those of \
         savings resample both runs together and determine the recommendation.",
        advice.baseline
    );
    let is_compared = ranking.iter().any(|one| one.gain_share.is_some());
    [Block::Table(table)].into_iter().chain(is_compared.then_some(Block::Text(said))).collect()
}

/// Builds the table of redundancy schemes on an array.
pub(super) fn arrays(redundancy: &Redundancy, total_is: &str) -> Table {
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

/// Builds the table of redundancy schemes with a drive missing, and while it is rebuilt.
pub(super) fn failures(redundancy: &Redundancy) -> Vec<Block> {
    let mut table = Table::new([
        Column::words("redundancy"),
        Column::of("read p99", Unit::Seconds),
        Column::of("degraded", Unit::Seconds).joined(),
        Column::of("rebuilding", Unit::Seconds).joined(),
        Column::of("write p99", Unit::Seconds),
        Column::of("degraded", Unit::Seconds).joined(),
        Column::of("rebuilding", Unit::Seconds).joined(),
        Column::of("rebuilt after", Unit::Seconds),
        Column::of("lost a year", Unit::Bytes),
    ]);
    let ms = |ms: Option<f64>| Cell::value(ms.map(|ms| ms / 1e3));
    for one in &redundancy.tried {
        let of = |run: &Option<Latencies>, get: fn(&Latencies) -> Option<f64>| {
            ms(run.as_ref().and_then(get))
        };
        table.rows.push(Row::new([
            one.name.into(),
            ms(one.read_p99_ms),
            of(&one.degraded, |of| of.read_p99_ms),
            of(&one.rebuilding, |of| of.read_p99_ms),
            ms(one.write_p99_ms),
            of(&one.degraded, |of| of.write_p99_ms),
            of(&one.rebuilding, |of| of.write_p99_ms),
            Cell::value(one.rebuild_s),
            one.lost_per_year_bytes.into(),
        ]));
    }
    let said = "A rebuild restores a full drive while the trace runs. The average yearly loss of a \
        full array is computed from your rates of failures and unreadable sectors (Greenan, Plank \
        and Wylie, 2010: NOMDL).";
    let summary = Block::Text(redundancy.failures.clone());
    vec![summary, Block::Table(table), Block::Text(said.into())]
}
