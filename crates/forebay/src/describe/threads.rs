//! The threads on the page of `describe`: a summary of all threads, one by type, then each thread.

use forebay_show::{Block, Cell, Column, Page, Place, Table, Unit};
use forebay_trace::describe::by_thread::rows::{ByThread, Figures};
use forebay_trace::describe::printable;
use forebay_words::plural::counted;

use crate::quantities::{percent, seconds, significant};

/// Up to this many threads, the first screen shows each of them rather than their types.
const FEW_THREADS: u64 = 8;
/// Up to this many rows of types leave space for the names of the busiest threads on a screen.
const TYPES_SHOWN: usize = 6;
/// The number of threads that are named below their types.
const BUSIEST_SHOWN: usize = 3;
/// The width of the activity column, in characters.
const WIDTH: usize = 16;
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A row of the tables: the name of the thread or group, its type, and its figures.
type Line<'a> = (String, String, &'a Figures);

/// Adds the tables to the page: the types on the first screen, each thread with its activity below.
pub(super) fn add(page: &mut Page, of: &ByThread) {
    let mut types: Vec<Line<'_>> = vec![(format!("all {}", of.threads), String::new(), &of.all)];
    types.extend(of.types.iter().map(|row| {
        let label = format!("{}: {}", row.label, counted(row.threads, "thread"));
        (label, row.kind.words(), &row.figures)
    }));
    let mut threads: Vec<Line<'_>> = of
        .rows
        .iter()
        .map(|row| (printable(&row.label), row.of_type.clone(), &row.figures))
        .collect();
    if let Some(beyond) = &of.beyond {
        threads.push((format!("{} not followed", of.threads_beyond), String::new(), beyond));
    }
    // A few threads need no summary.
    let is_few = of.threads <= FEW_THREADS && of.rows.len() as u64 == of.threads;
    let (of_types, of_threads) = match is_few {
        true => (Place::Detail, Place::FirstScreen),
        false => (Place::FirstScreen, Place::Detail),
    };
    let busiest = of.rows.iter().take(BUSIEST_SHOWN).map(|row| {
        let share = row
            .figures
            .weight_share
            .map_or(String::new(), |share| format!(" ({})", percent(share)));
        format!("{}{share}", printable(&row.label))
    });
    let busiest = format!("Busiest: {}.", busiest.collect::<Vec<_>>().join(", "));
    let mut summary = vec![Block::Table(asked(&types))];
    let mut one_by_one = vec![Block::Table(asked(&threads))];
    // With more rows, the table fills the screen.
    let named = if types.len() <= TYPES_SHOWN { &mut summary } else { &mut one_by_one };
    named.push(Block::Text(busiest));
    page.add("Types of threads", of_types, summary);
    if of.threads_hidden > 0 {
        let hidden = counted(of.threads_hidden, "thread");
        one_by_one.push(Block::Text(format!("Without a row of their own: {hidden}.")));
    }
    page.add("Threads one by one", of_threads, one_by_one);
    let when = format!(
        "Quarters divide the space in use, with volumes one after another. Fluctuation and \
         activity are measured in {} periods of {}.",
        of.periods,
        seconds(of.period_s)
    );
    types.append(&mut threads);
    let timed = Block::Table(timed(&types, of.all.activity_requests.len()));
    page.add("When and where", Place::Detail, vec![timed, Block::Text(when)]);
}

fn asked(lines: &[Line<'_>]) -> Table {
    Table::listing(
        lines,
        &[
            (Column::words("threads"), &|(label, ..)| label.clone().into()),
            (Column::words("type"), &|(_, of_type, _)| of_type.clone().into()),
            (Column::of("share", Unit::Share), &|(.., of)| of.weight_share.into()),
            (Column::of("requests/s", Unit::Number), &|(.., of)| of.mean_iops.into()),
            (Column::of("rate", Unit::ByteRate), &|(.., of)| of.mean_bytes_per_s.into()),
            (Column::of("size", Unit::Bytes), &|(.., of)| {
                of.mean_kib.map(|kib| kib * 1024.0).into()
            }),
            (Column::words("read:write"), &|(.., of)| ratio(of).into()),
        ],
    )
}

fn timed(lines: &[Line<'_>], periods: usize) -> Table {
    Table::listing(
        lines,
        &[
            (Column::words("threads"), &|(label, ..)| label.clone().into()),
            (Column::of("sequential", Unit::Share), &|(.., of)| of.sequential_share.into()),
            (Column::of("mean gap", Unit::Seconds), &|(.., of)| Cell::ms(of.inter_arrival_mean_ms)),
            (Column::words("by quarter, %"), &|(.., of)| {
                of.quarter_shares.map_or(Cell::Missing, |shares| quarters(shares).into())
            }),
            (Column::of("mean latency", Unit::Seconds), &|(.., of)| Cell::ms(of.latency_mean_ms)),
            (Column::of("fluctuation", Unit::Number), &|(.., of)| of.fluctuation.into()),
            (Column::words("activity"), &|(.., of)| {
                activity(&of.activity_requests, periods).into()
            }),
        ],
    )
}

fn ratio(of: &Figures) -> String {
    match (of.reads, of.writes) {
        (0, _) => "0:1".to_owned(),
        (_, 0) => "1:0".to_owned(),
        (reads, writes) if reads < writes => {
            format!("1:{}", significant(writes as f64 / reads as f64))
        }
        (reads, writes) => format!("{}:1", significant(reads as f64 / writes as f64)),
    }
}

fn quarters(shares: [f64; 4]) -> String {
    shares.map(|share| format!("{:.0}", 100.0 * share)).join("/")
}

/// Draws the number of requests per period as bars, scaled to the highest; empty if there are no
/// requests.
fn activity(counts: &[u64], periods: usize) -> String {
    let width = periods.min(WIDTH);
    let mut bars = vec![0u64; width];
    for (period, count) in counts.iter().enumerate() {
        bars[period * width / periods] += count;
    }
    let most = bars.iter().max().copied().unwrap_or(0).max(1);
    let height = |bar: u64| (u128::from(bar) * 8).div_ceil(u128::from(most)) as usize;
    bars.iter().map(|bar| height(*bar).checked_sub(1).map_or(' ', |at| HEIGHTS[at])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activity_is_drawn_to_its_own_height() {
        assert_eq!(activity(&[0, 1, 4, 8], 5), " ▁▄█ ");
        let even = activity(&[3; 512], 512);
        assert_eq!(even, "█".repeat(16));
        assert_eq!((activity(&[], 0), activity(&[], 3)), (String::new(), "   ".to_owned()));
    }

    #[test]
    fn ratios_have_a_one() {
        let of = |reads: u64, writes: u64| ratio(&Figures { reads, writes, ..Figures::default() });
        assert_eq!([of(3, 1), of(1, 3), of(0, 5), of(5, 0)], ["3:1", "1:3", "0:1", "1:0"]);
    }
}
