//! The report pages of `plan consolidate`: what the clients need alone and together, how their
//! bursts overlap, and each client's share.

use std::cmp::Ordering;

use forebay_core::Nanos;
use forebay_show::html::bars::{self, Bar, Part};
use forebay_show::html::paragraphs::page_title;
use forebay_show::html::plot::Caption;
use forebay_show::html::text::count;
use forebay_show::table::{Cell, Column, Row as TableRow, Table};
use forebay_show::{Block, Figure, Page, Place, Tone, Unit, Verdict};
use forebay_words::plural::counted;

use super::bursts::bursts;
use super::{Begin, Client, Consolidation, Shared};
use crate::names;
use crate::plan::arrival_times::ArrivalTimes;
use crate::plan::capacity::CapacityRow;
use crate::plan::costed::Costs;
use crate::plan::costed::consolidate::Consolidation as SpeedConsolidation;
use crate::quantities::{bound, promised, significant};

/// The data from which the page is built.
pub(super) struct Shown<'a> {
    /// The arrival times of the clients' requests.
    pub(super) clients: &'a [&'a ArrivalTimes],
    pub(super) begin: Begin,
    /// The delays of each client relative to the previous one that were computed.
    pub(super) shifts: &'a [Nanos],
    pub(super) found: &'a Consolidation,
}

/// The number of colors for clients; further clients all have the last color.
pub(super) const COLORS: usize = 9;
/// The maximum number of clients with a segment of their own in a bar; the others share a segment.
const PARTS_MAX: usize = 40;
/// The maximum number of promises for which there are charts.
const PROMISES_MAX: usize = 4;

/// Builds the page for capacities of a constant-rate server.
pub(super) fn of_rate(shown: &Shown<'_>) -> Page {
    let found = shown.found;
    let clients = found.clients.len();
    let requests: u64 = found.clients.iter().map(|client| client.requests).sum();
    let saves = found.rows.iter().any(|row| row.every_client_iops < row.sum_iops);
    let mut page = Page {
        title: page_title("Consolidation", &[&format!("{clients} clients")]),
        verdict: match saves {
            true => Verdict::new(Tone::Good, "Sharing saves capacity"),
            false => Verdict::new(Tone::Calm, "Sharing saves nothing"),
        },
        headline: found.rows.first().map_or(String::new(), |row| headline(clients, row)),
        about: vec![
            ("Clients".into(), format!("{clients} with {}", counted(requests, "request"))),
            ("They begin".into(), begin(shown)),
        ],
        ..Page::default()
    };
    let mut blocks: Vec<Block> =
        found.rows.first().map(|row| Block::Text(why(found, row))).into_iter().collect();
    blocks.extend(needs(found));
    blocks.push(Block::Table(together(found)));
    blocks.push(Block::Text(WORDS.into()));
    page.add("Capacity that keeps every promise, in IOPS", Place::FirstScreen, blocks);
    page.add_notes("Do not let them share", Place::FirstScreen, harm(found));
    page.add_notes("Keep in mind", Place::FirstScreen, found.cautions.clone());
    page.add("How their bursts meet", Place::Detail, bursts(shown));
    let alone = Block::Table(alone(&found.clients));
    page.add("Capacity that each client needs alone, in IOPS", Place::Detail, vec![alone]);
    let title = "Share of each client answered in time at the pooled capacity";
    page.add(title, Place::Detail, vec![Block::Table(shares(found))]);
    let blocks = vec![Block::Text(SHAPED.into()), Block::Table(shaped(found))];
    page.add("Capacity needed if each client is shaped separately, in IOPS", Place::Detail, blocks);
    page.add("How the answer is found", Place::Detail, vec![Block::Text(HOW.into())]);
    page
}

const WORDS: &str = "Separate: a server for each client. Shared: one server that keeps the promise \
    to every client. Pooled: enough for that share of all requests, regardless of the client; \
    the last column is the share that the worst client then gets.";

const SHAPED: &str = "Each client is shaped separately, and all requests that its shaper admits \
                      (Q1) are answered in time.";

const HOW: &str = "Each client alone: the smallest capacity that keeps its promise. A server of \
    constant rate takes the same time for every request, and defers requests that it cannot answer \
    in time. In a pool, most deferred requests belong to clients with bursts, so such a client may \
    get less than its share.";

/// States whether the clients should share a server, and which capacity keeps the promise to each
/// of them.
fn headline(clients: usize, row: &Shared) -> String {
    let promise = promise(row.fraction, row.within_ms, row.shift_s);
    let (each, sum) = (row.every_client_iops, row.sum_iops);
    match each.cmp(&sum) {
        Ordering::Less => format!(
            "Share one server of {each} IOPS: each of {clients} clients gets {promise}; separate servers need {sum}."
        ),
        Ordering::Equal => format!(
            "Sharing saves nothing: {clients} clients need {each} IOPS together or apart, for {promise}."
        ),
        Ordering::Greater => format!(
            "Do not share: {promise} for each of {clients} clients requires {each} IOPS together, {sum} apart."
        ),
    }
}

/// States which client determines the capacity, and which clients get less than promised if the
/// server is only sized for all requests together.
fn why(found: &Consolidation, row: &Shared) -> String {
    let names = client_names(&found.clients);
    let (each, pooled) = (row.every_client_iops, row.merged_iops);
    let binds = format!(
        "Client {} determines the capacity: with one IOPS less, its promise is broken.",
        names[row.binding_client - 1]
    );
    if row.worst_fraction() >= row.fraction {
        return binds;
    }
    let gets = Figure::new(row.worst_fraction(), Unit::Achieved).text();
    format!(
        "{binds} {pooled} IOPS are enough for {} of all requests, but client {} then gets only {gets}: buy {each}.",
        promised(row.fraction),
        names[row.worst_client - 1],
    )
}

fn promise(fraction: f64, within_ms: f64, shift_s: f64) -> String {
    let shift = if shift_s == 0.0 { String::new() } else { format!(", {}", apart(shift_s)) };
    format!("{} within {}{shift}", promised(fraction), bound(within_ms))
}

pub(super) fn apart(shift_s: f64) -> String {
    if shift_s == 0.0 { "not shifted".into() } else { format!("{} apart", bound(shift_s * 1e3)) }
}

fn begin(shown: &Shown<'_>) -> String {
    let when = match shown.begin {
        Begin::Together => "at the same time",
        Begin::AsRecorded | Begin::OwnClocks => "when they were recorded",
    };
    let shifts: Vec<String> = shown.shifts.iter().map(|shift| apart(shift.as_secs_f64())).collect();
    match shown.shifts {
        [Nanos::ZERO] | [] => when.to_string(),
        _ => format!("{when}, {}", shifts.join(", then ")),
    }
}

/// Lists the promises for which sharing needs more capacity than separate servers.
fn harm(found: &Consolidation) -> Vec<String> {
    let rows = found.rows.iter().filter(|row| row.every_client_iops > row.sum_iops);
    let harmed: Vec<String> =
        rows.map(|row| promise(row.fraction, row.within_ms, row.shift_s)).collect();
    let text = format!(
        "Keeping the promise to each client takes more than all need alone ({}): do not let them share, or shape \
         each separately.",
        harmed.join("; ")
    );
    if harmed.is_empty() { Vec::new() } else { vec![text] }
}

/// Returns the CSS class of a client's color, by its index.
pub(super) fn color(client: usize) -> String {
    format!("k{}", client.min(COLORS - 1))
}

/// Returns a name for each client: its number, and as much of its trace's path as distinguishes it
/// from others.
pub(super) fn client_names(clients: &[Client]) -> Vec<String> {
    let traces: Vec<&str> = clients.iter().map(|client| client.trace.as_str()).collect();
    names::clients(&traces)
}

/// Builds the legend of the clients' colors.
pub(super) fn legend(clients: &[Client]) -> Block {
    let last = COLORS - 1;
    let names = client_names(clients).into_iter().enumerate().take(COLORS);
    let names = names.map(|(at, name)| match at == last && clients.len() > COLORS {
        true => (color(at), "all others".to_string()),
        false => (color(at), format!("client {name}")),
    });
    Block::Legend(names.collect())
}

/// Builds, for each promise, bars that compare the stacked needs of the clients alone with their
/// need together.
fn needs(found: &Consolidation) -> Vec<Block> {
    let mut shown = Vec::new();
    let called = client_names(&found.clients);
    let promises = found.clients.first().map_or(0, |client| client.rows.len()).max(1);
    for (at, row) in found.rows.iter().enumerate().take(PROMISES_MAX) {
        let part = |(place, client): (usize, &Client)| {
            let need = client.rows.get(at % promises)?.capacity_iops;
            let told = format!("client {} alone: {} IOPS", called[place], count(need));
            Some(Part { class: color(place), size: need as f64, tooltip: told, label: count(need) })
        };
        let mut alone: Vec<Part> =
            found.clients.iter().enumerate().take(PARTS_MAX).filter_map(part).collect();
        let rest = found.clients.get(PARTS_MAX..).unwrap_or(&[]);
        let rest_iops: u64 = rest
            .iter()
            .filter_map(|client| Some(client.rows.get(at % promises)?.capacity_iops))
            .sum();
        if !rest.is_empty() {
            let (clients, label) = (count(rest.len() as u64), count(rest_iops));
            let told = format!("{clients} more clients, each alone: {label} IOPS in all");
            alone.push(Part {
                class: color(PARTS_MAX),
                size: rest_iops as f64,
                tooltip: told,
                label,
            });
        }
        let sum = format!("{} in all", count(row.sum_iops));
        shown.push(Bar {
            name: promise(row.fraction, row.within_ms, row.shift_s),
            parts: alone,
            total: sum,
        });
        let together = format!("{} pooled", count(row.merged_iops));
        shown.push(Bar::single("", row.merged_iops as f64, together, false));
        let each = format!("{} kept to each", count(row.every_client_iops));
        shown.push(Bar::single("", row.every_client_iops as f64, each, true));
    }
    let caption = Caption {
        id: "needs",
        title: "Capacity that clients need alone and together",
        description: "Three bars for each promise: the capacity that each client needs alone, \
                      stacked; the capacity that all their requests need when pooled; and the \
                      capacity that keeps the promise to each client. The tables below have the \
                      figures.",
    };
    let first = match found.rows.len() {
        all if all > PROMISES_MAX => format!("; the first {PROMISES_MAX} of {all} promises"),
        _ => String::new(),
    };
    let text = format!(
        "<b>IOPS</b>: each client alone, stacked; all pooled; and with the promise to each client \
         kept{first}"
    );
    let picture = |svg| vec![legend(&found.clients), Block::Picture { svg, caption: text }];
    bars::picture(&caption, &shown, None).map_or(Vec::new(), picture)
}

/// Returns columns with each row's promise and, if clients are shifted, its shift.
fn promises<'a>(
    rows: impl Iterator<Item = &'a Shared> + Clone,
) -> (Vec<Column>, impl Fn(&Shared) -> Vec<Cell>) {
    let is_shifted = rows.clone().any(|row| row.shift_s != 0.0);
    let shift = is_shifted.then(|| Column::words("apart"));
    let columns = [Column::words("IOPS for")].into_iter().chain(shift).collect();
    let cells = move |row: &Shared| {
        let shift = is_shifted.then(|| bound(row.shift_s * 1e3).into());
        let promise = promise(row.fraction, row.within_ms, 0.0).into();
        [promise].into_iter().chain(shift).collect()
    };
    (columns, cells)
}

fn together(found: &Consolidation) -> Table {
    let iops = |head: &str| Column::of(head, Unit::Count);
    let (columns, promise) = promises(found.rows.iter());
    let mut table = Table::new(columns.into_iter().chain([
        iops("separate"),
        iops("shared"),
        Column::words("decided by"),
        iops("pooled"),
        Column::of("worst gets", Unit::Achieved),
    ]));
    let is_one_trace = found.clients.windows(2).all(|two| two[0].trace == two[1].trace);
    let names = match is_one_trace {
        true => (1..=found.clients.len()).map(|client| client.to_string()).collect(),
        false => client_names(&found.clients),
    };
    table.rows.extend(found.rows.iter().map(|row| {
        TableRow::new(promise(row).into_iter().chain([
            Cell::Value(row.sum_iops as f64),
            Cell::Value(row.every_client_iops as f64),
            names[row.binding_client - 1].clone().into(),
            capacity(row.merged_iops, row.merged_low_iops.zip(row.merged_high_iops)),
            row.worst_fraction().into(),
        ]))
    }));
    table
}

/// Builds the table of capacities that serve all requests admitted by the clients' own shapers.
fn shaped(found: &Consolidation) -> Table {
    let (columns, promise) = promises(found.rows.iter());
    let more = [Column::of("Q1s", Unit::Count), Column::of("ratio", Unit::Number)];
    let mut table = Table::new(columns.into_iter().chain(more));
    table.rows.extend(found.rows.iter().map(|row| {
        let figures = [row.shaped_iops as f64, row.shaped_ratio].map(Cell::Value);
        TableRow::new(promise(row).into_iter().chain(figures))
    }));
    table
}

fn alone(clients: &[Client]) -> Table {
    let rows = clients.first().map_or(&[][..], |client| client.rows.as_slice());
    let heads = rows.iter().map(|row| promise(row.fraction, row.within_ms, 0.0));
    let heads = heads.map(|head| Column::of(head, Unit::Count));
    let first = [
        Column::words("client"),
        Column::of("requests", Unit::Count),
        Column::of("lasts", Unit::Seconds),
    ];
    let mut table = Table::new(first.into_iter().chain(heads));
    let interval =
        |row: &CapacityRow| row.interval.map(|of| (of.capacity_low_iops, of.capacity_high_iops));
    table.rows.extend(clients.iter().zip(client_names(clients)).map(|(client, name)| {
        let first = [name.into(), Cell::Value(client.requests as f64), client.duration_s.into()];
        let needs = client.rows.iter().map(|row| capacity(row.capacity_iops, interval(row)));
        TableRow::new(first.into_iter().chain(needs))
    }));
    table
}

/// Builds the table of each client's share in time at the capacity that all clients need together.
fn shares(found: &Consolidation) -> Table {
    let heads = found.rows.iter().map(|row| promise(row.fraction, row.within_ms, row.shift_s));
    let heads = heads.map(|head| Column::of(head, Unit::Achieved));
    let mut table = Table::new([Column::words("client")].into_iter().chain(heads));
    table.rows.extend(client_names(&found.clients).into_iter().enumerate().map(|(at, name)| {
        let share = |row: &Shared| Cell::value(row.client_fractions.get(at).copied());
        TableRow::new([name.into()].into_iter().chain(found.rows.iter().map(share)))
    }));
    table
}

/// Formats a capacity with its interval, if it has one.
fn capacity(iops: u64, interval: Option<(u64, u64)>) -> Cell {
    let value = iops as f64;
    interval.map_or(Cell::Value(value), |(low, high)| Cell::Interval {
        value,
        low: low as f64,
        high: high as f64,
    })
}

/// Builds the page for speeds, if the cost of a request depends on its length.
pub(super) fn of_cost(found: &SpeedConsolidation, costs: &Costs) -> Page {
    let clients = found.clients.len();
    let mut page = Page {
        title: page_title("Consolidation", &[&format!("{clients} clients")]),
        verdict: Verdict::new(Tone::Calm, "Clients together"),
        headline: found.rows.first().map_or(String::new(), |row| {
            let [each, alone] = [row.shaped_speed, row.sum_speed].map(significant);
            let promise = promise(row.fraction, row.within_ms, row.shift_s);
            format!(
                "Share one server of speed {each}: each of {clients} clients gets {promise}; separate servers need {alone}."
            )
        }),
        about: vec![("Clients".into(), clients.to_string()), ("Cost".into(), costs.unit())],
        ..Page::default()
    };
    let heads = ["alone", "each kept", "pooled", "ratio"];
    let heads = heads.map(|head| Column::of(head, Unit::Number));
    let mut together = Table::new([Column::words("speed for")].into_iter().chain(heads));
    together.rows.extend(found.rows.iter().map(|row| {
        let figures = [row.sum_speed, row.shaped_speed, row.merged_speed, row.ratio];
        let promise = promise(row.fraction, row.within_ms, row.shift_s);
        TableRow::new([promise.into()].into_iter().chain(figures.map(Cell::Value)))
    }));
    let blocks = vec![Block::Table(together), Block::Text(format!("{}.", costs.unit()))];
    page.add("The speeds that they need together", Place::FirstScreen, blocks);
    let rows = found.clients.first().map_or(&[][..], |client| client.rows.as_slice());
    let heads = rows.iter().map(|row| promise(row.fraction, row.within_ms, 0.0));
    let heads = heads.map(|head| Column::of(head, Unit::Number));
    let mut alone = Table::new([Column::words("client")].into_iter().chain(heads));
    let traces: Vec<&str> = found.clients.iter().map(|of| of.about.trace.as_str()).collect();
    alone.rows.extend(found.clients.iter().zip(names::clients(&traces)).map(|(client, name)| {
        let speeds = client.rows.iter().map(|row| Cell::Value(row.speed));
        TableRow::new([name.into()].into_iter().chain(speeds))
    }));
    page.add("The speed that each needs alone", Place::Detail, vec![Block::Table(alone)]);
    page.add_notes("Keep in mind", Place::FirstScreen, found.cautions.clone());
    page
}

#[cfg(test)]
mod tests {
    use super::super::bursts::{STEPS, layers};
    use super::*;
    use crate::plan::capacity::Promises;
    use crate::plan::consolidate::consolidate;

    fn client(times: &[u64]) -> ArrivalTimes {
        ArrivalTimes::of(times.iter().copied().map(Nanos::from_secs).collect())
    }

    fn found(clients: &[&ArrivalTimes], shifts: &[Nanos]) -> Consolidation {
        let fractions = vec!["0.5".parse().unwrap(), "1".parse().unwrap()];
        let promises = Promises { within: vec![Nanos::from_secs(1)], fractions };
        consolidate(
            clients,
            Begin::Together,
            shifts,
            &promises,
            None,
            &mut crate::progress::unheard,
        )
        .unwrap()
    }

    #[test]
    fn each_layer_holds_the_requests_of_the_clients_before_it_too() {
        let (a, b) = (client(&[10, 10, 18]), client(&[3, 7]));
        let (clients, shifts) = ([&a, &b], [Nanos::ZERO, Nanos::from_secs(4)]);
        let found = found(&clients, &shifts);
        let begin = Begin::Together;
        let page = Shown { clients: &clients, begin, shifts: &shifts, found: &found };
        let at = |layer: &[u64; STEPS]| -> Vec<(usize, u64)> {
            layer.iter().copied().enumerate().filter(|step| step.1 > 0).collect()
        };
        // Relative to each client's first request, the arrivals are at 0, 0 and 8 s, and at 0 and 4
        // s. The last one is in the last time step.
        let (end, found) = layers(&page, Nanos::ZERO).unwrap();
        assert_eq!((end, found.len()), (8.0, 2));
        assert_eq!(at(&found[0]), [(0, 2), (399, 1)]);
        assert_eq!(at(&found[1]), [(0, 3), (200, 1), (399, 1)]);
        let (end, later) = layers(&page, Nanos::from_secs(6)).unwrap();
        assert_eq!((end, at(&later[1])), (10.0, vec![(0, 2), (240, 1), (320, 1), (399, 1)]));
        assert!(layers(&Shown { clients: &clients[..0], ..page }, Nanos::ZERO).is_none());
    }

    #[test]
    fn clients_beyond_the_colors_share_the_last_one() {
        let all: Vec<ArrivalTimes> = (0..12).map(|k| client(&[0, k + 1])).collect();
        let clients: Vec<&ArrivalTimes> = all.iter().collect();
        let shifts = [Nanos::ZERO];
        let found = found(&clients, &shifts);
        let begin = Begin::Together;
        let page = Shown { clients: &clients, begin, shifts: &shifts, found: &found };
        let (_, layers) = layers(&page, Nanos::ZERO).unwrap();
        let sums: Vec<u64> = layers.iter().map(|layer| layer.iter().sum()).collect();
        assert_eq!(sums, [2, 4, 6, 8, 10, 12, 14, 16, 24]);
        let page = forebay_show::html::document(&of_rate(&page));
        assert!(page.contains("all others") && !page.contains("</svg>client 9 "), "{page}");
    }

    #[test]
    fn each_bar_is_of_its_own_promise() {
        let (a, b) = (client(&[0; 10]), client(&[0; 4]));
        let (clients, shifts) = ([&a, &b], [Nanos::ZERO, Nanos::from_secs(5)]);
        let blocks = needs(&found(&clients, &shifts));
        let Some(Block::Picture { svg: needs, .. }) = blocks.last() else { panic!("{blocks:?}") };
        let told: Vec<&str> =
            needs.split("alone: ").skip(1).map(|rest| rest.split('<').next().unwrap()).collect();
        // The clients need 5 and 2 IOPS for half of their requests, then 10 and 4 for all of them,
        // at either shift.
        assert!(needs.contains("client 2 (t) alone: 4 IOPS"), "{needs}");
        let (broad, slim) = told.split_at(8);
        assert_eq!(broad, slim);
        assert_eq!(
            broad,
            ["5 IOPS", "2 IOPS", "10 IOPS", "4 IOPS", "5 IOPS", "2 IOPS", "10 IOPS", "4 IOPS"]
        );
    }
}
