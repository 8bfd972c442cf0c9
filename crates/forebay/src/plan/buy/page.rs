//! The report page of `plan buy`: what to buy, the results of all combinations, those that cannot
//! keep the promises, and the configuration.

use forebay_ask::named;
use forebay_show::table::{Cell, Column, RowMark, Table};
use forebay_show::{Block, Figure, KeyFigure, Page, Place, Tone, Unit, Verdict};
use forebay_words::plural::counted;
use forebay_words::quantities::NONE;

use super::{Answer, Binds, BuyRow, ClientNeed, ClientShare, Layout, REASONS_FIRST};
use crate::plan::page::key;
use crate::quantities::{bound, bytes, promised, significant};

/// The number of rows shown on the first screen of a terminal.
pub(super) const FIRST_ROWS: usize = 3;
/// The maximum number of notes on the first screen of a terminal.
const FIRST_NOTES: usize = 1;

/// Builds the page of `answer`; `written` is a sentence that names the configuration files written.
pub(super) fn page(answer: &Answer, written: Option<String>) -> Page {
    if answer.rows.is_empty() {
        return Page { title: "What to buy".into(), ..Page::default() };
    }
    let requests: u64 = answer.clients.iter().map(|need| need.requests).sum();
    let reach: f64 = answer.clients.iter().map(|need| need.bytes as f64).sum();
    let mut page = Page {
        title: "What to buy".into(),
        verdict: match best(answer) {
            _ if answer.is_over_budget => Verdict::new(Tone::Warning, "Not within the budget"),
            Some(row) if row.has_headroom => Verdict::new(Tone::Good, "What to buy"),
            Some(_) => Verdict::new(Tone::Warning, "Too little headroom"),
            None => Verdict::new(Tone::Calm, "Nothing keeps the promise"),
        },
        headline: answer.headline.clone(),
        about: vec![
            (
                "Clients".into(),
                format!("{}, {}", answer.clients.len(), counted(requests, "request")),
            ),
            ("Data".into(), bytes(reach)),
            ("Growth".into(), format!("{} times", significant(answer.growth))),
        ],
        key_figures: match best(answer) {
            Some(row) if !answer.is_over_budget => key_figures(answer, row),
            _ => Vec::new(),
        },
        ..Page::default()
    };
    add_rows(&mut page, answer);
    let (why, checked) = answer.reasons.split_at(answer.reasons.len().min(REASONS_FIRST));
    let why = (!why.is_empty()).then(|| Block::Text(why.join(" ")));
    page.add("Why", Place::FirstScreen, why.into_iter().collect());
    page.add("How certain the answer is", Place::Detail, texts(checked));
    let place = if best(answer).is_none() { Place::FirstScreen } else { Place::Detail };
    page.add("What cannot keep the promise", place, texts(&answer.refused));
    page.add("Who is served", Place::Detail, vec![Block::Table(clients(answer))]);
    let is_few = answer.cautions.len() <= FIRST_NOTES;
    let place = if is_few { Place::FirstScreen } else { Place::Detail };
    let of_size = of_size(answer);
    let others = answer.cautions.iter().filter(|said| !of_size.contains(said)).cloned();
    page.add_notes("Keep in mind", place, others.collect());
    page.add_notes("The size of the data", Place::FirstScreen, of_size.to_vec());
    page.add("", Place::FirstScreen, written.into_iter().map(Block::Text).collect());
    if let Some(configuration) = &answer.configuration {
        let texts = [
            ("Files that represent the drives (setup.sh):", &configuration.setup),
            ("forebay serve (serve.toml):", &configuration.serve),
            ("cgroup v2 (cgroup.txt):", &configuration.cgroup),
            ("dmClock (dmclock.txt):", &configuration.dmclock),
        ];
        let blocks = texts.into_iter().flat_map(|(title, text)| {
            let lines = text.trim_end().lines().map(String::from).collect();
            [Block::Text(title.into()), Block::Commands(lines)]
        });
        page.add("As configuration", Place::Detail, blocks.collect());
    }
    page.add("How the answer is found", Place::Detail, vec![Block::Text(HOW.into())]);
    page
}

const HOW: &str = "Every drive is simulated in every layout, from the smallest number on, until \
                   the promise to each client is kept and the drives have the headroom, so no \
                   smaller number is enough. Data is striped over all sets of drives in stripes of \
                   1 MiB, and spread over the whole of each drive. Requests arrive as recorded, \
                   but faster by the growth. IOPS alone: the rate of a server of constant rate \
                   that keeps the promise and defers the other requests. Lost a year: drives fail, \
                   sectors become unreadable, and both are repaired, at the given rates and \
                   independently of each other (NOMDL, Greenan, Plank and Wylie 2010).";

fn texts(all: &[String]) -> Vec<Block> {
    all.iter().cloned().map(Block::Text).collect()
}

fn best(answer: &Answer) -> Option<&BuyRow> {
    answer.rows.first().filter(|row| row.drives.is_some())
}

/// Returns the cautions about the size of the data, if that decides the number of drives.
pub(super) fn of_size(answer: &Answer) -> &[String] {
    let is_by_size = |row: &BuyRow| matches!(row.binds, Some(Binds::Bytes | Binds::Redundancy));
    if best(answer).is_some_and(is_by_size) { &answer.of_size } else { &[] }
}

/// Returns the price of a row's drives, rounded to the cent.
pub(super) fn price(row: &BuyRow) -> Option<Figure> {
    let currency = row.currency.as_ref()?.as_bytes().try_into().ok()?;
    Some(Figure::new(row.price?, Unit::Money(currency)))
}

fn key_figures(answer: &Answer, best: &BuyRow) -> Vec<KeyFigure> {
    let price = price(best).map(|figure| key("price", figure.value, figure.unit));
    let watts = best.mean_power_w.map(|watts| key("mean power", watts, Unit::Watts));
    let several = answer.clients.len() > 1;
    let name = if several { "in time, for the client that gets least" } else { "in time" };
    let worst = best.worst().map(|worst| key(name, worst.in_time_fraction, Unit::Achieved));
    price.into_iter().chain(watts).chain(worst).collect()
}

/// Adds the rows that keep the promises: first the best rows with few columns, then all rows.
fn add_rows(page: &mut Page, answer: &Answer) {
    let rows: Vec<&BuyRow> = answer.rows.iter().filter(|row| row.drives.is_some()).collect();
    if rows.is_empty() {
        return;
    }
    let is_priced = rows.iter().any(|row| row.price.is_some());
    let order = match is_priced {
        true => "Sorted by price".to_string(),
        false => format!("Sorted by power (by price with {})", named("prices")),
    };
    let more = match rows.len().saturating_sub(FIRST_ROWS) {
        0 => String::new(),
        more => format!("; {more} more in the details"),
    };
    let several = answer.clients.len() > 1;
    let first = &rows[..rows.len().min(FIRST_ROWS)];
    let said = match (rows.len(), dates(first)) {
        (1, None) => None,
        (1, Some(dates)) => Some(format!("{}:", dates.replacen('p', "P", 1))),
        (_, None) => Some(format!("{order}{more}:")),
        (_, Some(dates)) => Some(format!("{order}, {dates}{more}:")),
    };
    let said = said.map(Block::Text);
    let table = Block::Table(in_brief(first, several, is_priced));
    page.add(
        "What keeps the promise",
        Place::FirstScreen,
        said.into_iter().chain([table]).collect(),
    );
    let others = &rows[first.len()..];
    if !others.is_empty() {
        let table = Block::Table(in_brief(others, several, is_priced));
        page.add("What else keeps the promise", Place::Detail, vec![table]);
    }
    let said = Block::Text(
        "The number of drives required for the data, for the data with redundancy, and for the \
         response times alone; and the average utilization of the drives, whereas *busy* above is \
         that of the busiest drive."
            .into(),
    );
    let table = Block::Table(in_detail(&rows, several, is_priced));
    page.add("What decides the number", Place::Detail, vec![said, table]);
    let said = Block::Text(
        "The share of requests in time with all drives, with one drive missing, and while that \
         drive is rebuilt; the expected loss of data per year; and the amount written to each \
         flash drive per year, with its lifetime."
            .into(),
    );
    let table = Block::Table(in_failure(&rows, several, is_priced));
    page.add("What happens when drives fail or wear out", Place::Detail, vec![said, table]);
}

/// Says of when the prices of `rows` are; `None` if none is known.
fn dates(rows: &[&BuyRow]) -> Option<String> {
    let mut all: Vec<(&str, &str)> = Vec::new();
    for row in rows {
        let dated = row.priced_on.as_deref().map(|on| (&*row.drive, on));
        all.extend(dated.filter(|dated| !all.contains(dated)));
    }
    let (_, first) = *all.first()?;
    if all.iter().all(|(_, on)| *on == first) {
        return Some(format!("prices as of {first}"));
    }
    let each: Vec<String> = all.iter().map(|(drive, on)| format!("{drive} {on}")).collect();
    Some(format!("prices as of {}", each.join(", ")))
}

/// Formats the drives to buy, as in "2 hc550 (mirror)".
pub(super) fn what(row: &BuyRow) -> String {
    format!("{} {} ({})", bought(row), row.drive, layout(row, "striped"))
}

/// Returns the name of a row: its drive, its layout and, if there are several clients, whether they
/// share drives.
fn name(row: &BuyRow, several: bool) -> String {
    let sharing = if several { format!(", {}", row.sharing.name()) } else { String::new() };
    format!("{}, {}{sharing}", row.drive, layout(row, "striped"))
}

/// Returns the name of a row's layout. Several drives of one setup without redundancy are
/// `striped`.
fn layout(row: &BuyRow, striped: &'static str) -> &'static str {
    match row.layout {
        Layout::Single if row.drives_each.iter().any(|drives| *drives > 1) => striped,
        layout => layout.name(),
    }
}

/// Formats the drives to buy, including flash and spares.
fn bought(row: &BuyRow) -> String {
    let plus = |extra: usize, what: &str| match extra {
        0 => String::new(),
        extra => format!(" + {extra} {what}"),
    };
    let (flash, spare) = (plus(row.cache_drives, "flash"), plus(row.spare_drives, "spare"));
    let range = match (row.drives_low, row.drives_high) {
        (None, _) => String::new(),
        (Some(low), Some(high)) => format!(" ({low} to {high})"),
        (Some(low), None) => format!(" ({low} or more)"),
    };
    format!("{}{range}{flash}{spare}", row.drives.unwrap_or(0))
}

fn decides(row: &BuyRow) -> Cell {
    row.binds.map_or(NONE, |binds| binds.name()).into()
}

fn best_mark(nth: usize, is_priced: bool) -> RowMark {
    match (nth, is_priced) {
        (0, true) => RowMark::Best("cheapest".into()),
        (0, false) => RowMark::Best("best".into()),
        _ => RowMark::Plain,
    }
}

fn in_brief(rows: &[&BuyRow], several: bool, is_priced: bool) -> Table {
    Table::listing(
        rows,
        &[
            (Column::words("drive, layout"), &|row| name(row, several).into()),
            (Column::words("buy"), &|row| bought(row).into()),
            (Column::words("decides"), &|row| decides(row)),
            (Column::of("busy", Unit::Share), &|row| row.utilisation_max.into()),
            (Column::of("mean power", Unit::Watts), &|row| row.mean_power_w.into()),
            (Column::of("price", Unit::Number), &|row| {
                price(row).map_or(Cell::Missing, Cell::Figure)
            }),
        ],
    )
    .marked((0..).map(|nth| best_mark(nth, is_priced)))
}

fn in_detail(rows: &[&BuyRow], several: bool, is_priced: bool) -> Table {
    let count = |head: &str| Column::of(head, Unit::Count);
    let number = |number: Option<usize>| Cell::value(number.map(|number| number as f64));
    Table::listing(
        rows,
        &[
            (Column::words("drive, layout"), &|row| name(row, several).into()),
            (count("may fail"), &|row| (row.survives as f64).into()),
            (count("for bytes"), &|row| row.drives_for_bytes.map(|drives| drives as f64).into()),
            (count("redundant"), &|row| number(row.drives_for_redundancy)),
            (count("for time"), &|row| number(row.drives_for_time)),
            (Column::of("mean busy", Unit::Share), &|row| row.utilisation.into()),
        ],
    )
    .marked((0..).map(|nth| best_mark(nth, is_priced)))
}

fn in_failure(rows: &[&BuyRow], several: bool, is_priced: bool) -> Table {
    let share = |of: Option<&ClientShare>| Cell::value(of.map(|of| of.in_time_fraction));
    Table::listing(
        rows,
        &[
            (Column::words("drive, layout"), &|row| name(row, several).into()),
            (Column::of("in time", Unit::Achieved), &|row| share(row.worst())),
            (Column::of("one missing", Unit::Achieved), &|row| share(row.degraded.as_ref())),
            (Column::of("rebuilding", Unit::Achieved), &|row| share(row.rebuilding.as_ref())),
            (Column::of("hours", Unit::Number), &|row| {
                row.rebuild_hours.filter(|_| row.degraded.is_some()).into()
            }),
            (Column::of("lost a year", Unit::Bytes), &|row| row.lost_per_year_bytes.into()),
            (Column::of("TB written a year", Unit::Number), &|row| row.written_per_year_tb.into()),
            (Column::of("years", Unit::Number), &|row| row.endurance_years.into()),
        ],
    )
    .marked((0..).map(|nth| best_mark(nth, is_priced)))
}

/// Builds the table of clients: the constant-rate capacity that each needs, and the share answered
/// in time in the best row.
fn clients(answer: &Answer) -> Table {
    let gets = |need: &ClientNeed| {
        let of = best(answer)?.clients.iter().find(|of| of.client == need.client)?;
        Some(of.in_time_fraction)
    };
    Table::listing(
        &answer.clients,
        &[
            (Column::words("client"), &|need| need.client.clone().into()),
            (Column::of("requests", Unit::Count), &|need| need.requests.into()),
            (Column::of("data", Unit::Bytes), &|need| need.bytes.into()),
            (Column::words("promise"), &|need| {
                format!("{} within {}", promised(need.fraction), bound(need.within_ms)).into()
            }),
            (Column::of("IOPS alone", Unit::Count), &|need| {
                need.capacity_iops.map(|iops| iops as f64).into()
            }),
            (Column::of("gets", Unit::Achieved), &|need| gets(need).into()),
        ],
    )
}

/// Formats the promise, as in `99 % within 10 ms`, or states that each client has its own.
pub(super) fn promise(needs: &[ClientNeed]) -> String {
    let of = |need: &ClientNeed| (need.fraction, need.within_ms);
    let Some(first) = needs.first() else { return "nothing".into() };
    let same = needs.iter().all(|need| of(need) == of(first));
    let one = format!("{} within {}", promised(first.fraction), bound(first.within_ms));
    match (needs.len(), same) {
        (1, _) => one,
        (clients, true) => format!("{one} for each of {clients} clients"),
        (clients, false) => format!("the promise to each of {clients} clients"),
    }
}

/// States what to buy, in one sentence.
pub(super) fn headline(rows: &[BuyRow], needs: &[ClientNeed], drives_max: usize) -> String {
    let promise = promise(needs);
    let Some(best) = rows.first().filter(|row| row.drives.is_some()) else {
        return format!(
            "Nothing that was tried keeps {promise}, with up to {}.",
            counted(drives_max as u64, "drive")
        );
    };
    let with = match (best.cache_drives, &best.cache_drive) {
        (0, _) | (_, None) => String::new(),
        (caches, Some(name)) => format!(" with {caches} {name}"),
    };
    let spare = match best.spare_drives {
        0 => String::new(),
        spare => format!(", {spare} spare"),
    };
    let price = price(best).map_or(String::new(), |price| format!(", for {}", price.text()));
    format!(
        "Buy {} {}{with} ({}){spare}{price}, to keep {promise}.",
        best.drives.unwrap_or(0),
        best.drive,
        layout(best, "striped, no redundancy"),
    )
}
