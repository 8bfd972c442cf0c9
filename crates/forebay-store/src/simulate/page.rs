//! Builds the page of `store simulate`.

use forebay::quantities::{percent, seconds, significant};
use forebay_show::table::{Cell, Column, Table};
use forebay_show::{Block, Figure, Page, Place, Tone, Unit, Verdict};
use forebay_words::plural::counted;

use super::{Parking, StoreSimulateAnswer, StoreSimulateAsk};
use crate::Predicted;
use crate::arrangement::{Arrangement, ArrangementRow};

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

/// A column with its cell in the row of an arrangement.
type Listed<'a, 'r> = (Column, &'a dyn Fn(&&'r ArrangementRow) -> Cell);

/// Returns the columns that name a row.
fn named<'r>() -> [Listed<'r, 'r>; 2] {
    [
        (Column::words("disks"), &|row| row.arrangement.into()),
        (Column::words("puts"), &|row| {
            if row.transformation { "and sorted" } else { "logged" }.into()
        }),
    ]
}

/// Builds the table of put speeds.
fn puts(rows: &[ArrangementRow]) -> Table {
    let [disks, puts] = named();
    let columns: [Listed<'_, '_>; 7] = [
        disks,
        puts,
        (Column::of("time", Unit::Seconds), &|row| row.execution_s.into()),
        (Column::of("rate", Unit::ByteRate), &|row| (row.throughput_mb_per_s * 1e6).into()),
        (Column::of("slowed", Unit::Share), &|row| {
            row.slowed_percent.map(|slowed| slowed / 100.0).into()
        }),
        (Column::of("p50", Unit::Seconds), &|row| Cell::ms(row.put_p50_ms)),
        (Column::of("p99", Unit::Seconds), &|row| Cell::ms(row.put_p99_ms)),
    ];
    Table::listing(rows, &columns)
}

/// Builds the table of the disks' activity.
fn disks(rows: &[ArrangementRow]) -> Table {
    let [disks, puts] = named();
    let columns: [Listed<'_, '_>; 5] = [
        disks,
        puts,
        (Column::of("longest put", Unit::Seconds), &|row| Cell::ms(row.put_max_ms)),
        (Column::of("busy time", Unit::Seconds), &|row| row.busy_s.into()),
        (Column::of("energy", Unit::Joules), &|row| row.energy_j.into()),
    ];
    Table::listing(rows, &columns)
}

/// Compares the prediction from the first logs with the result, in one sentence.
fn predicted(predicted: &Predicted, rows: &[ArrangementRow]) -> String {
    let rate = |mb_per_s: f64| Figure::new(mb_per_s * 1e6, Unit::ByteRate).text();
    let enhanced = Arrangement::Enhanced.name();
    let result = rows.iter().find(|row| row.arrangement == enhanced && row.transformation);
    let result = result.map(|row| format!(" (it came to {})", rate(row.throughput_mb_per_s)));
    let advice = match predicted.keeps_up() {
        true => "",
        false => ": saturated; more disks, or fewer or larger puts, would help",
    };
    format!(
        "Predicted from the first logs, one job per disk: {}{}; sorting a log takes {} of {:.0} \
         available logging periods{advice}.",
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
