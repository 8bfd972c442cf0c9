//! The tables of remedies, schedulers and redundancy schemes.

use forebay_show::{Block, Cell, Column, RowMark, Table, Unit};

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
    let with = |remedy: &Remedy| match remedy.kind {
        RemedyKind::Scheduling => name(&remedy.policy),
        _ => remedy.needs().unwrap_or_default(),
    };
    let mark = |remedy: &&Remedy| match advice.standing(remedy) {
        RemedyStanding::Recommended => RowMark::Best("recommended".into()),
        RemedyStanding::ForToday => RowMark::Badge("to set today".into()),
        RemedyStanding::PassedOver => RowMark::Plain,
    };
    Table::listing(
        tried.iter().copied(),
        &[
            (Column::words("remedy"), &|it| it.kind.name().into()),
            (Column::words("with"), &|it| with(it).into()),
            (Column::of(format!("{total} before"), Unit::Seconds), &|it| {
                it.before.as_ref().map(|before| before.total_s).into()
            }),
            (Column::of("after", Unit::Seconds).joined(), &|it| it.total_s.into()),
            (Column::of("saved", Unit::Share), &|it| it.gain_share.into()),
            (Column::of("beyond what is free", Unit::Share), &|it| it.gain_over_free_share.into()),
            (Column::of("read p99 before", Unit::Seconds), &|it| {
                Cell::ms(it.before.as_ref().and_then(|before| before.read_p99_ms))
            }),
            (Column::of("after", Unit::Seconds).joined(), &|it| Cell::ms(it.read_p99_ms)),
            (Column::of("write p99 before", Unit::Seconds), &|it| {
                Cell::ms(it.before.as_ref().and_then(|before| before.write_p99_ms))
            }),
            (Column::of("after", Unit::Seconds).joined(), &|it| Cell::ms(it.write_p99_ms)),
        ],
    )
    .marked(tried.iter().map(mark))
}

/// Builds the ranking of schedulers, with 95 % intervals from resampling.
pub(super) fn ranked(advice: &Advice, ranking: &[Ranked], total_is: &str) -> Vec<Block> {
    let interval = |value: Option<f64>, ends: Option<(f64, f64)>| match (value, ends) {
        (Some(value), Some((low, high))) => Cell::Interval { value, low, high },
        (value, _) => Cell::value(value),
    };
    let ms = |value: Option<f64>| value.map(|ms| ms / 1e3);
    let mark = |one: &Ranked| match () {
        () if advice.is_for_today(&one.policy) => RowMark::Badge("to set today".into()),
        () if advice.recommended.as_ref() == Some(&one.policy) => RowMark::Best("best".into()),
        () => RowMark::Plain,
    };
    let table = Table::listing(
        ranking,
        &[
            (Column::words("policy"), &|one| name(&one.policy).into()),
            (Column::words("from"), &|one| one.from.name().into()),
            (Column::of(total_is, Unit::Seconds), &|one| one.total_s.into()),
            (Column::of("saved", Unit::Share), &|one| {
                let ends = one.gain_low_share.zip(one.gain_high_share);
                interval(one.gain_share, ends.filter(|_| one.policy != advice.baseline))
            }),
            (Column::of("read p99", Unit::Seconds), &|one| {
                interval(ms(one.read_p99_ms), ms(one.read_p99_low_ms).zip(ms(one.read_p99_high_ms)))
            }),
            (Column::of("write p99", Unit::Seconds), &|one| {
                interval(
                    ms(one.write_p99_ms),
                    ms(one.write_p99_low_ms).zip(ms(one.write_p99_high_ms)),
                )
            }),
            (Column::of("longest", Unit::Seconds), &|one| Cell::ms(one.longest_ms)),
        ],
    )
    .marked(ranking.iter().map(mark));
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
    let mark = |name: &str| match name == redundancy.recommended {
        true => RowMark::Best("recommended".into()),
        false => RowMark::Plain,
    };
    let marks = redundancy.tried.iter().map(|one| mark(one.name));
    Table::listing(
        &redundancy.tried,
        &[
            (Column::words("redundancy"), &|one| one.name.into()),
            (Column::of("drives that may fail", Unit::Count), &|one| {
                (one.failures_survived as f64).into()
            }),
            (Column::of("holds", Unit::Bytes), &|one| one.usable_bytes.into()),
            (Column::of(total_is, Unit::Seconds), &|one| one.total_s.into()),
            (Column::of("read mean", Unit::Seconds), &|one| Cell::ms(one.read_mean_ms)),
            (Column::of("p99", Unit::Seconds), &|one| Cell::ms(one.read_p99_ms)),
            (Column::of("write mean", Unit::Seconds), &|one| Cell::ms(one.write_mean_ms)),
            (Column::of("p99", Unit::Seconds), &|one| Cell::ms(one.write_p99_ms)),
        ],
    )
    .marked(marks)
}

/// Builds the table of redundancy schemes with a drive missing, and while it is rebuilt.
pub(super) fn failures(redundancy: &Redundancy) -> Vec<Block> {
    let of = |run: &Option<Latencies>, get: fn(&Latencies) -> Option<f64>| {
        Cell::ms(run.as_ref().and_then(get))
    };
    let seconds = |head: &str| Column::of(head, Unit::Seconds);
    let table = Table::listing(
        &redundancy.tried,
        &[
            (Column::words("redundancy"), &|one| one.name.into()),
            (seconds("read p99"), &|one| Cell::ms(one.read_p99_ms)),
            (seconds("degraded").joined(), &|one| of(&one.degraded, |of| of.read_p99_ms)),
            (seconds("rebuilding").joined(), &|one| of(&one.rebuilding, |of| of.read_p99_ms)),
            (seconds("write p99"), &|one| Cell::ms(one.write_p99_ms)),
            (seconds("degraded").joined(), &|one| of(&one.degraded, |of| of.write_p99_ms)),
            (seconds("rebuilding").joined(), &|one| of(&one.rebuilding, |of| of.write_p99_ms)),
            (seconds("rebuilt after"), &|one| one.rebuild_s.into()),
            (Column::of("lost a year", Unit::Bytes), &|one| one.lost_per_year_bytes.into()),
        ],
    );
    let said = "A rebuild restores a full drive while the trace runs. The average yearly loss of a \
        full array is computed from your rates of failures and unreadable sectors (Greenan, Plank \
        and Wylie, 2010: NOMDL).";
    let summary = Block::Text(redundancy.failures.clone());
    vec![summary, Block::Table(table), Block::Text(said.into())]
}
