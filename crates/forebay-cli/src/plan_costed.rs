//! `forebay plan` with `--cost-us`: requests cost what their length takes.

use std::path::Path;

use comfy_table::{Cell, CellAlignment};
use forebay::plan::arrival_times::Clock;
use forebay::plan::capacity::Promises;
use forebay::plan::consolidate::Begin;
use forebay::plan::costed::consolidate::{self, Consolidation, Shared};
use forebay::plan::costed::sla::{self, Price};
use forebay::plan::costed::{About, Answer, Cost, Load, Row, answer};
use forebay::plan::sla::Sla;
use forebay_core::Nanos;

use crate::options::{Source, say_notes};
use crate::output::{self, Format, wrapped};
use crate::plan_options::{self, percent};
use crate::progress::Progress;

/// A cost, and how it was asked for.
pub(crate) struct Costs<'a> {
    asked: &'a str,
    cost: Cost,
}

impl<'a> Costs<'a> {
    /// `asked`, a cost or a device.
    pub(crate) fn named(asked: &'a str) -> anyhow::Result<Costs<'a>> {
        let cost = Cost::named(asked).map_err(|wrong| match wrong {
            forebay::Error::Unfit(wrong) => forebay::Error::Unfit(format!("--cost-us: {wrong}")),
            other => other,
        })?;
        Ok(Costs { asked, cost })
    }

    /// What the figures are of.
    fn said(&self, about: &About) -> String {
        wrapped(&format!(
            "{}, {:.0} us for one of the mean length, {:.1} KiB.",
            self.unit(),
            about.mean_cost_us,
            about.mean_length_bytes / 1024.0
        ))
    }

    fn unit(&self) -> String {
        let told = self.cost.shown();
        let is_same = self.asked == told || self.asked == self.cost.to_string();
        let of = if is_same { String::new() } else { format!(" ({})", self.asked) };
        format!("A server of speed 1 takes {told} us for a request{of}")
    }
}

/// Reads the requests of `path`, with progress; what is to be known of them is said on standard error.
pub(crate) fn load(
    source: &Source,
    path: &Path,
    by_volume: bool,
    clock: Clock,
) -> anyhow::Result<Load> {
    let progress = Progress::reading("reading", path);
    let mut reader = source.open(path, progress.consumed())?;
    let load = Load::read(path, &mut *reader, by_volume, clock, |records| {
        progress.say(format!("reading {}: {records} requests", path.display()));
    })?;
    drop(progress);
    say_notes(path, &load.notes);
    plan_options::say(path, &load.cautions());
    Ok(load)
}

/// The prices of `promises`.
pub(crate) fn capacity(
    load: &Load,
    costs: &Costs<'_>,
    promises: &Promises,
    format: Format,
) -> anyhow::Result<()> {
    let progress = Progress::new("searching for speeds");
    let found = answer(load, costs.cost, promises)?;
    drop(progress);
    let said =
        || format!("{}\n\n{}", prices(&found, promises, costs), bounds(&found.rows, promises));
    match format {
        Format::Json | Format::Csv => output::print_data(format, &found)?,
        Format::Table => output::print(&said())?,
    }
    Ok(())
}

/// A sentence for each bound, and what the figures mean.
fn prices(found: &Answer, promises: &Promises, costs: &Costs<'_>) -> String {
    let mut said = vec![costs.said(&found.about)];
    for line in found.rows.chunks(promises.fractions.len()) {
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
fn bounds(rows: &[Row], promises: &Promises) -> String {
    let fractions = promises.fractions.iter().map(|fraction| fraction.to_string());
    let header = std::iter::once("speed within".to_string()).chain(fractions);
    let lines = rows.chunks(promises.fractions.len()).map(|line| {
        let figures = line.iter().map(|row| format!("{:.3}", row.speed));
        std::iter::once(format!("{} ms", line[0].within_ms)).chain(figures).collect()
    });
    table(header.collect(), lines)
}

/// The price of a promise of several tiers.
pub(crate) fn tiers(
    load: &Load,
    costs: &Costs<'_>,
    promise: &Sla,
    format: Format,
) -> anyhow::Result<()> {
    let progress = Progress::new("searching for the least speed");
    let found = sla::price(load, costs.cost, promise)?;
    drop(progress);
    match format {
        Format::Json | Format::Csv => output::print_data(format, &found)?,
        Format::Table => output::print(&priced(&found, costs))?,
    }
    Ok(())
}

fn priced(found: &Price, costs: &Costs<'_>) -> String {
    let said = wrapped(&format!(
        "Speed {} keeps the promise on one server, first come first served; a thousandth less does not. Nothing keeps it \
         below speed {}.",
        found.fcfs_speed, found.floor_speed
    ));
    let header = ["within ms", "promised", "answered", "alone takes speed"];
    let lines = found.tiers.iter().map(|tier| {
        vec![
            tier.within_ms.to_string(),
            tier.fraction.to_string(),
            format!("{:.6}", tier.achieved_fraction),
            format!("{:.3}", tier.alone_speed),
        ]
    });
    let shown = table(header.map(String::from).to_vec(), lines);
    format!("{said}\n{}\n\n{shown}", costs.said(&found.about))
}

/// What `clients` that share a server need.
pub(crate) fn shared(
    clients: &[&Load],
    (begin, shifts): (Begin, &[Nanos]),
    promises: &Promises,
    costs: &Costs<'_>,
    format: Format,
) -> anyhow::Result<()> {
    let progress = Progress::new("searching for speeds");
    let found = consolidate::consolidate(clients, begin, shifts, promises, costs.cost)?;
    drop(progress);
    match format {
        Format::Json | Format::Csv => output::print_data(format, &found)?,
        Format::Table => output::print(&together(&found, costs))?,
    }
    Ok(())
}

/// A sentence for each promise, what each client needs alone, and what they need together.
fn together(found: &Consolidation, costs: &Costs<'_>) -> String {
    let sentence = |row: &Shared| {
        let apart = match row.shift_s {
            0.0 => String::new(),
            shift => format!(", {shift} s apart"),
        };
        wrapped(&format!(
            "Speed {} keeps {} of {} clients together within {} ms{apart}; alone they need {} in all. Speed {} keeps the \
             promise to each.",
            row.merged_speed,
            percent(row.fraction),
            found.clients.len(),
            row.within_ms,
            row.sum_speed,
            row.shaped_speed,
        ))
    };
    let mut said: Vec<String> = found.rows.iter().map(sentence).collect();
    said.push(wrapped(&format!("{}.", costs.unit())));
    let promises = found.clients.iter().take(1).flat_map(|client| &client.rows);
    let heads = promises.map(|row| format!("{} < {} ms", percent(row.fraction), row.within_ms));
    let header = ["client", "trace"].map(String::from).into_iter().chain(heads);
    let clients = found.clients.iter().map(|client| {
        let name = plan_options::name_of(&client.about.trace);
        let needs = client.rows.iter().map(|row| format!("{:.3}", row.speed));
        [client.client.to_string(), name.to_string()].into_iter().chain(needs).collect()
    });
    let alone = table(header.collect(), clients);
    let header = ["ms", "promised", "shift s", "sum", "together", "ratio", "each kept"];
    let rows = found.rows.iter().map(|row| {
        vec![
            row.within_ms.to_string(),
            percent(row.fraction),
            row.shift_s.to_string(),
            format!("{:.3}", row.sum_speed),
            format!("{:.3}", row.merged_speed),
            format!("{:.3}", row.ratio),
            format!("{:.3}", row.shaped_speed),
        ]
    });
    let shared = table(header.map(String::from).to_vec(), rows);
    format!(
        "{}\n\nThe speed that each client needs alone:\n{alone}\n\nThe speeds that they need together:\n{shared}",
        said.join("\n")
    )
}

/// Figures to the right.
fn table(header: Vec<String>, lines: impl Iterator<Item = Vec<String>>) -> String {
    let mut table = output::table();
    table.set_header(header);
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    for line in lines {
        table.add_row(line.into_iter().map(right));
    }
    table.to_string()
}
