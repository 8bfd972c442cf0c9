//! `forebay plan capacity --cost-us`: requests cost what their length takes.

use std::path::Path;

use comfy_table::{Cell, CellAlignment, Table, presets};
use forebay::devices;
use forebay::plan::capacity::Promises;
use forebay::plan::costed::{Cost, Lengths, Row, table};
use serde::Serialize;

use crate::options::{Source, say_notes};
use crate::output::{self, Format, wrapped};
use crate::plan_options::percent;
use crate::progress::Progress;

#[derive(Serialize)]
struct Results {
    trace: String,
    requests: u64,
    /// What a request costs in microseconds, and for each KiB.
    cost_us: String,
    mean_length_bytes: f64,
    mean_cost_us: f64,
    rows: Vec<Row>,
}

/// `cost`, a cost or a device.
fn cost_of(cost: &str) -> anyhow::Result<Cost> {
    // What begins as a number is meant to be one.
    let is_number = cost.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first));
    let begins = is_number && devices::open(cost).is_err();
    match cost.parse::<Cost>() {
        Ok(cost) => Ok(cost),
        Err(wrong) if begins || cost.is_empty() => {
            Err(forebay::Error::Unfit(format!("--cost-us: {wrong}")).into())
        }
        Err(_) => Ok(Cost::of_device(&devices::open(cost)?)?),
    }
}

pub(crate) fn run(
    trace: &Path,
    source: &Source,
    cost: &str,
    promises: &Promises,
    format: Format,
) -> anyhow::Result<()> {
    let asked = cost;
    let cost = cost_of(asked)?;
    let progress = Progress::reading("reading", trace);
    let mut reader = source.open(trace, progress.consumed())?;
    let lengths = Lengths::read(trace, &mut *reader, |records| {
        progress.say(format!("reading {}: {records} requests", trace.display()));
    })?;
    say_notes(trace, reader.notes());
    progress.say("searching for speeds".to_string());
    let rows = table(&lengths, cost, promises)?;
    drop(progress);
    let mean_bytes = lengths.mean_bytes();
    let results = Results {
        trace: trace.display().to_string(),
        requests: lengths.count(),
        cost_us: cost.to_string(),
        mean_length_bytes: mean_bytes,
        mean_cost_us: cost.us(mean_bytes),
        rows,
    };
    match format {
        Format::Json => output::print_json(&results)?,
        Format::Table => {
            let said = said(&results, promises, asked);
            output::print(&format!("{said}\n\n{}", shown(&results.rows, promises)))?;
        }
    }
    Ok(())
}

/// A sentence for each bound, and what the figures mean.
fn said(results: &Results, promises: &Promises, asked: &str) -> String {
    let of = match asked == results.cost_us {
        true => String::new(),
        false => format!(" ({asked})"),
    };
    let mut said = vec![wrapped(&format!(
        "A server of speed 1 takes {} us for a request{of}, {:.0} us for one of the mean length, {:.1} KiB.",
        results.cost_us,
        results.mean_cost_us,
        results.mean_length_bytes / 1024.0
    ))];
    for line in results.rows.chunks(promises.fractions.len()) {
        let each: Vec<String> = line
            .iter()
            .map(|row| format!("{} keeps {}", row.speed, percent(row.fraction)))
            .collect();
        said.push(wrapped(&format!("Within {} ms: speed {}.", line[0].within_ms, each.join(", "))));
    }
    said.push(wrapped(
        "A thousandth less does not. Whatever is not answered in time is put aside, and no scheduler answers more.",
    ));
    said.join("\n")
}

/// Bounds down, fractions across.
fn shown(rows: &[Row], promises: &Promises) -> String {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    let fractions = promises.fractions.iter().map(|fraction| fraction.to_string());
    table.set_header(std::iter::once("speed within".to_string()).chain(fractions));
    for line in rows.chunks(promises.fractions.len()) {
        let within = Cell::new(format!("{} ms", line[0].within_ms));
        let figure = |row: &Row| Cell::new(format!("{:.3}", row.speed));
        let figures = line.iter().map(figure);
        table.add_row(
            std::iter::once(within)
                .chain(figures.map(|cell| cell.set_alignment(CellAlignment::Right))),
        );
    }
    table.to_string()
}
