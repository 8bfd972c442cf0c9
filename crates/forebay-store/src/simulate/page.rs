//! Builds the page of `store simulate`.

use forebay::quantities::{percent, seconds, significant};
use forebay_show::figure::{Figure, Unit};
use forebay_show::page::{Block, Page, Place, Tone, Verdict};
use forebay_show::table::{Cell, Column, Row as TableRow, Table};
use forebay_words::plural::counted;

use super::{Parking, StoreSimulateAnswer, StoreSimulateAsk};
use crate::arrangement::{Arrangement, ArrangementRow};
use crate::prediction::Predicted;

pub(super) fn page(
    ask: &StoreSimulateAsk,
    device: &str,
    answer: &StoreSimulateAnswer,
    cautions: Vec<String>,
) -> Page {
    let rows = &answer.rows;
    let mut page = Page {
        title: format!("Store: {} of {device}", ask.disks),
        verdict: Verdict::new(Tone::Calm, "The cost of sorting"),
        headline: headline(rows),
        about: about(ask, device),
        ..Page::default()
    };
    page.add("Puts", Place::FirstScreen, vec![Block::Table(puts(rows))]);
    let parking = answer.parking.as_ref().map(parking);
    let said = [Some(predicted(&answer.predicted, rows)), parking];
    let said = said.into_iter().flatten().map(Block::Text).collect();
    page.add("Prediction", Place::FirstScreen, said);
    page.add("Disks", Place::Detail, vec![Block::Table(disks(rows))]);
    page.add_notes("About the models", Place::Detail, cautions);
    page
}

/// Summarizes how much longer puts take in each arrangement.
fn headline(rows: &[ArrangementRow]) -> String {
    let slowed = |row: &ArrangementRow| {
        let slowed = percent(row.slowed_percent? / 100.0);
        Some(format!("{slowed} ({})", row.arrangement))
    };
    let slowed: Vec<String> = rows.iter().filter_map(slowed).collect();
    format!("Sorting slows puts down by {}.", slowed.join(", "))
}

fn about(ask: &StoreSimulateAsk, device: &str) -> Vec<(String, String)> {
    let load = ask.load();
    let how = if ask.wall { "emulated in real time" } else { "simulated" };
    let done = if ask.to_cache { "in a disk's cache" } else { "durable" };
    let value = Figure::new(load.value_bytes.into(), Unit::Bytes).text();
    let puts = format!(
        "{} of {value} by {}, each {done} before it is acknowledged; {} from an acknowledgment to \
         the next put",
        counted(load.puts(), "put"),
        counted(load.writers.into(), "writer"),
        load.host
    );
    vec![("Disks".into(), format!("{} of {device}, {how}", ask.disks)), ("Load".into(), puts)]
}

/// Returns the cells that name a row.
fn named(row: &ArrangementRow) -> [Cell; 2] {
    let puts = if row.transformation { "and sorted" } else { "logged" };
    [Cell::from(row.arrangement), Cell::from(puts)]
}

/// Builds the table of put speeds.
fn puts(rows: &[ArrangementRow]) -> Table {
    let mut table = Table::new([
        Column::words("disks"),
        Column::words("puts"),
        Column::of("time", Unit::Seconds),
        Column::of("rate", Unit::ByteRate),
        Column::of("slowed", Unit::Share),
        Column::of("p50", Unit::Seconds),
        Column::of("p99", Unit::Seconds),
    ]);
    let cells = |row: &ArrangementRow| {
        [
            Cell::Value(row.execution_s),
            Cell::Value(row.throughput_mb_per_s * 1e6),
            Cell::value(row.slowed_percent.map(|slowed| slowed / 100.0)),
            Cell::Value(row.put_p50_ms / 1e3),
            Cell::Value(row.put_p99_ms / 1e3),
        ]
    };
    table.rows =
        rows.iter().map(|row| TableRow::new(named(row).into_iter().chain(cells(row)))).collect();
    table
}

/// Builds the table of the disks' activity.
fn disks(rows: &[ArrangementRow]) -> Table {
    let mut table = Table::new([
        Column::words("disks"),
        Column::words("puts"),
        Column::of("longest put", Unit::Seconds),
        Column::of("busy time", Unit::Seconds),
        Column::of("energy", Unit::Joules),
    ]);
    let cells = |row: &ArrangementRow| {
        [Cell::Value(row.put_max_ms / 1e3), Cell::Value(row.busy_s), Cell::Value(row.energy_j)]
    };
    table.rows =
        rows.iter().map(|row| TableRow::new(named(row).into_iter().chain(cells(row)))).collect();
    table
}

/// Compares the prediction from the first logs with the result, in one sentence.
fn predicted(predicted: &Predicted, rows: &[ArrangementRow]) -> String {
    let rate = |mb_per_s: f64| Figure::new(mb_per_s * 1e6, Unit::ByteRate).text();
    let enhanced = Arrangement::Enhanced.name();
    let result = rows.iter().find(|row| row.arrangement == enhanced && row.transformation);
    let result = result.map(|row| format!(" (it came to {})", rate(row.throughput_mb_per_s)));
    let advice = match predicted.keeps_up() {
        true => "",
        false => ": saturated, more disks help, and fewer or larger puts",
    };
    format!(
        "Predicted from the first logs, one job per disk: {}{}; sorting a log takes {} logging \
         periods of {:.0} available{advice}.",
        rate(predicted.throughput_mb_per_s),
        result.unwrap_or_default(),
        significant(predicted.periods),
        predicted.periods_max
    )
}

/// Describes whether a disk should be spun down while it waits for its turn.
fn parking(parking: &Parking) -> String {
    let Parking { rest_s, break_even_s } = *parking;
    let pays = if rest_s > break_even_s { "pays" } else { "costs more than it saves" };
    format!(
        "A disk is idle for {} between its turns, and must be idle for more than {} to save the \
         energy of a spin-up: parking {pays}.",
        seconds(rest_s),
        seconds(break_even_s)
    )
}
