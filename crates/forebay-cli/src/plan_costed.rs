//! `forebay plan` with `--cost-us`: requests cost what their length takes.

use std::path::Path;

use forebay::names;
use forebay::plan::arrival_times::Clock;
use forebay::plan::capacity::Promises;
use forebay::plan::consolidate::Begin;
use forebay::plan::costed::consolidate::{self, Consolidation};
use forebay::plan::costed::sla::{self, Price};
use forebay::plan::costed::{Costs, Load};
use forebay::plan::sla::Sla;
use forebay::report;
use forebay_core::Nanos;
use forebay_show::grid::right;
use forebay_show::quantities::{bound, significant};
use serde::Serialize;

use crate::options::{Source, say_notes, say_once};
use crate::output::{self, Format, wrapped};
use crate::plan_options::{percent, share_found};
use crate::progress::Progress;
use crate::report_file::ReportFile;

/// What `asked` says, a cost or a device.
pub(crate) fn costs(asked: &str) -> anyhow::Result<Costs> {
    let costs = Costs::named(asked).map_err(|wrong| match wrong {
        forebay::Error::Unfit(wrong) => forebay::Error::Unfit(format!("--cost-us: {wrong}")),
        other => forebay::Error::Unfit(format!(
            "--cost-us: got '{asked}', expected microseconds, as 100 or 100+0.5/KiB, or a device: {other}"
        )),
    })?;
    Ok(costs)
}

/// Where an answer goes.
pub(crate) struct Answered<'a> {
    pub(crate) costs: &'a Costs,
    pub(crate) report: Option<ReportFile>,
    pub(crate) format: Format,
}

impl Answered<'_> {
    /// Writes the report, then prints.
    fn give<T: Serialize>(
        self,
        found: &T,
        html: fn(&T, &Costs) -> String,
        told: fn(&T, &Costs) -> String,
    ) -> anyhow::Result<()> {
        if let Some(report) = self.report {
            report.write(&html(found, self.costs))?;
        }
        match self.format {
            Format::Json | Format::Csv => output::print_data(self.format, found)?,
            Format::Table => output::print(&told(found, self.costs))?,
        }
        Ok(())
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
    let load = Load::read(path, &mut *reader, by_volume, clock, &mut |records| {
        progress.say(format!("reading {}: {records} requests", path.display()))
    })?;
    drop(progress);
    say_notes(path, &load.notes);
    say_once(path, &load.cautions());
    Ok(load)
}

/// The price of a promise of several tiers.
pub(crate) fn tiers(load: &Load, promise: &Sla, answered: Answered<'_>) -> anyhow::Result<()> {
    let progress = Progress::new("searching for the least speed");
    let found = sla::price(load, answered.costs.cost, promise)?;
    drop(progress);
    answered.give(&found, report::costed_sla_html, priced)
}

fn priced(found: &Price, costs: &Costs) -> String {
    let header = ["within", "promised", "answered", "alone takes speed"];
    let lines = found.tiers.iter().map(|tier| {
        vec![
            bound(tier.within_ms),
            percent(tier.fraction),
            share_found(tier.achieved_fraction),
            significant(tier.alone_speed),
        ]
    });
    let shown = table(header.map(String::from).to_vec(), lines);
    format!("{}\n{}\n\n{shown}", wrapped(&found.told()), wrapped(&found.meant(costs)))
}

/// What `clients` that share a server need.
pub(crate) fn shared(
    clients: &[&Load],
    (begin, shifts): (Begin, &[Nanos]),
    promises: &Promises,
    answered: Answered<'_>,
) -> anyhow::Result<()> {
    let progress = Progress::new("searching for speeds");
    let found = consolidate::consolidate(clients, begin, shifts, promises, answered.costs.cost)?;
    drop(progress);
    answered.give(&found, report::costed_consolidate_html, together)
}

/// A sentence for each promise, what each client needs alone, and what they need together.
fn together(found: &Consolidation, costs: &Costs) -> String {
    let said = found.told().into_iter().chain([format!("{}.", costs.unit())]);
    let said: Vec<String> = said.map(|text| wrapped(&text)).collect();
    let promises = found.clients.iter().take(1).flat_map(|client| &client.rows);
    let heads = promises.map(|row| format!("{} < {}", percent(row.fraction), bound(row.within_ms)));
    let header = ["client", "trace"].map(String::from).into_iter().chain(heads);
    let traces: Vec<&str> =
        found.clients.iter().map(|client| client.about.trace.as_str()).collect();
    let clients = found.clients.iter().zip(names::numbered(&traces)).map(|(client, name)| {
        let needs = client.rows.iter().map(|row| significant(row.speed));
        [client.client.to_string(), name].into_iter().chain(needs).collect()
    });
    let alone = table(header.collect(), clients);
    let header = ["within", "promised", "shift", "sum", "together", "ratio", "each kept"];
    let rows = found.rows.iter().map(|row| {
        vec![
            bound(row.within_ms),
            percent(row.fraction),
            bound(row.shift_s * 1e3),
            significant(row.sum_speed),
            significant(row.merged_speed),
            significant(row.ratio),
            significant(row.shaped_speed),
        ]
    });
    let shared = table(header.map(String::from).to_vec(), rows);
    format!(
        "{}\n\nThe speed that each client needs alone:\n\n{alone}\n\nThe speeds that they need together:\n\n{shared}",
        said.join("\n")
    )
}

/// Figures to the right.
fn table(header: Vec<String>, lines: impl Iterator<Item = Vec<String>>) -> String {
    let mut table = output::table(header);
    for line in lines {
        table.add_row(line.into_iter().map(right));
    }
    table.to_string()
}
