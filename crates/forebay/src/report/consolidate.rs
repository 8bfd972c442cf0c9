//! The report of `plan consolidate`: what clients need together and alone, how their bursts meet, and who gets what.

use forebay_core::Nanos;

use super::tables::within;
use crate::names;
use crate::plan::amount;
use crate::plan::arrival_times::ArrivalTimes;
use crate::plan::consolidate::{Begin, Client, Consolidation, Shared};
use forebay_show::html::bars::{self, Bar, Part};
use forebay_show::html::document::{document, header, section};
use forebay_show::html::figure;
use forebay_show::html::paragraphs::{called, paragraphs};
use forebay_show::html::plot::Caption;
use forebay_show::html::table::{Mark, headings, named, table};
use forebay_show::html::text::{bound, count, name, percent, seconds};

mod bursts;

use bursts::bursts;

/// What the page shows.
pub struct ConsolidatePage<'a> {
    /// When their requests come.
    pub clients: &'a [&'a ArrivalTimes],
    /// When they begin.
    pub begin: Begin,
    /// How much later each begins than the one before it.
    pub shifts: &'a [Nanos],
    /// What was found.
    pub found: &'a Consolidation,
}

/// Colours of clients; those from the last one on share it.
const COLOURS: usize = 9;
/// Clients that are listed, and promises that have pictures.
const CLIENTS_MAX: usize = 200;
/// Clients that have a part of a bar each; the others share one.
const PARTS_MAX: usize = 40;
const PROMISES_MAX: usize = 4;

pub(super) fn page(page: &ConsolidatePage<'_>) -> String {
    let found = page.found;
    let clients = found.clients.len();
    let said: Vec<String> = found.rows.iter().map(|row| row.told(clients)).collect();
    let (first, rest) = said
        .split_first()
        .map_or(("Nothing was asked.", &[][..]), |(first, rest)| (first.as_str(), rest));
    let requests: u64 = found.clients.iter().map(|client| client.requests).sum();
    let about = [
        ("Clients", format!("{} with {} requests", count(clients as u64), count(requests))),
        ("They begin", begin(page)),
    ];
    let saves = found.rows.iter().any(|row| row.every_client_iops < row.sum_iops);
    let verdict = match saves {
        true => ("good", "Sharing saves capacity"),
        false => ("calm", "Sharing saves nothing"),
    };
    let mut body = header(verdict, first, &about);
    body += &needs(found);
    body += &section("What they need together, in IOPS", &together(found));
    body += &paragraphs("The other promises in words", "findings", rest);
    body += &bursts(page);
    body += &section("What each client needs alone, in IOPS", &alone(&found.clients));
    body += &section("What each client gets of its own", &shares(found));
    body += &paragraphs("Keep in mind", "cautions", &found.cautions);
    body += &section("How it is found", HOW);
    document(&called("Consolidation", &[&format!("{clients} clients")]), &body)
}

const HOW: &str = "<p>A server of constant rate takes the same time for every request; what it cannot answer in time it puts aside. \
    Together: the least rate that answers the promised share of all requests, whosever they are; so whoever bursts may get less \
    than its share. Each kept: the rate at which every client gets its own. Q1s: the rate that keeps all that each client’s \
    own shaper lets in.</p>";

fn begin(page: &ConsolidatePage<'_>) -> String {
    let when = match page.begin {
        Begin::Together => "at one time",
        Begin::AsRecorded | Begin::OwnClocks => "when they were recorded",
    };
    let shifts: Vec<String> = page.shifts.iter().map(|shift| apart(shift.as_secs_f64())).collect();
    match page.shifts {
        [Nanos::ZERO] | [] => when.to_string(),
        _ => format!("{when}, {}", shifts.join(", then ")),
    }
}

fn apart(shift_s: f64) -> String {
    if shift_s == 0.0 { "not shifted".to_string() } else { format!("{shift_s} s apart") }
}

/// A promise and its shift, short.
fn promise(row: &Shared) -> String {
    let shift =
        if row.shift_s == 0.0 { String::new() } else { format!(", {}", apart(row.shift_s)) };
    format!("{} within {}{shift}", amount::percent(row.fraction), bound(row.within_ms))
}

/// The class of a client's colour, by its place.
fn colour(client: usize) -> String {
    format!("k{}", client.min(COLOURS - 1))
}

/// What clients are called: their number, and as much of their trace's path as tells it from the others'.
fn client_names(clients: &[Client]) -> Vec<String> {
    let traces: Vec<&str> = clients.iter().map(|client| client.trace.as_str()).collect();
    names::clients(&traces)
}

/// Whose colour is whose.
fn legend(clients: &[Client]) -> String {
    let called = client_names(clients);
    let last = COLOURS - 1;
    let names: Vec<(String, String)> = clients
        .iter()
        .enumerate()
        .take(COLOURS)
        .map(|(at, _)| match at == last && clients.len() > COLOURS {
            true => (colour(at), "all others".to_string()),
            false => (colour(at), format!("client {}", called[at])),
        })
        .collect();
    let names: Vec<(&str, &str)> =
        names.iter().map(|(class, name)| (class.as_str(), name.as_str())).collect();
    bars::legend(&names)
}

/// What each promise takes of clients alone, stacked, beside what it takes together.
fn needs(found: &Consolidation) -> String {
    let mut shown = Vec::new();
    let called = client_names(&found.clients);
    let promises = found.clients.first().map_or(0, |client| client.rows.len()).max(1);
    for (at, row) in found.rows.iter().enumerate().take(PROMISES_MAX) {
        let part = |(place, client): (usize, &Client)| {
            let need = client.rows.get(at % promises)?.capacity_iops;
            let told = format!("client {} alone: {} IOPS", called[place], count(need));
            Some(Part { class: colour(place), size: need as f64, told, label: count(need) })
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
            alone.push(Part { class: colour(PARTS_MAX), size: rest_iops as f64, told, label });
        }
        let sum = format!("{} in all", count(row.sum_iops));
        shown.push(Bar { name: promise(row), parts: alone, total: sum });
        let together = format!("{} together", count(row.merged_iops));
        shown.push(Bar::single("", row.merged_iops as f64, together, false));
        let each = format!("{} kept to each", count(row.every_client_iops));
        shown.push(Bar::single("", row.every_client_iops as f64, each, true));
    }
    let caption = Caption {
        id: "needs",
        title: "What clients need alone and together",
        description: "For each promise three bars: what each client needs alone, stacked; what they need together; \
                      and what keeps the promise to each of them. The tables below have the figures.",
    };
    let first = match found.rows.len() {
        all if all > PROMISES_MAX => format!("; the first {PROMISES_MAX} of {all} promises"),
        _ => String::new(),
    };
    let said = format!(
        "<b>IOPS</b>: alone and stacked; together; and so that each client has its promise{first}"
    );
    let draw = |picture: String| {
        section(caption.title, &(legend(&found.clients) + &figure(&picture, &said)))
    };
    bars::picture(&caption, &shown, None).map_or(String::new(), draw)
}

fn alone(clients: &[Client]) -> String {
    let rows = clients.first().map_or(&[][..], |client| client.rows.as_slice());
    let promises = rows
        .iter()
        .map(|row| format!("{} within {}", amount::percent(row.fraction), bound(row.within_ms)));
    let heads = ["client".to_string(), "requests".into(), "lasts".into()];
    let heads: Vec<String> = heads.into_iter().chain(promises).collect();
    let called = client_names(clients);
    let row = |(at, client): (usize, &Client)| {
        let needs = client.rows.iter().map(price);
        let first = [name(&called[at]), count(client.requests), seconds(client.duration_s)];
        (Mark::Plain, first.into_iter().chain(needs).collect())
    };
    let rows: Vec<_> = clients.iter().enumerate().take(CLIENTS_MAX).map(row).collect();
    table(&heads, &rows) + &more(clients.len(), CLIENTS_MAX)
}

fn more(all: usize, shown: usize) -> String {
    match all.saturating_sub(shown) {
        0 => String::new(),
        more => format!("<p class=\"small\">{more} more in JSON.</p>"),
    }
}

fn together(found: &Consolidation) -> String {
    let heads = headings(&[
        "promise",
        "sum of each alone",
        "together",
        "of the sum",
        "all that their shapers let in (Q1s)",
        "each kept",
    ]);
    let row = |row: &Shared| {
        let cells = vec![
            promise(row),
            count(row.sum_iops),
            capacity(row.merged_iops, row.merged_low_iops.zip(row.merged_high_iops)),
            percent(row.ratio),
            count(row.shaped_iops),
            count(row.every_client_iops),
        ];
        (Mark::Plain, cells)
    };
    table(&heads, &found.rows.iter().map(row).collect::<Vec<_>>())
}

/// What every client gets at what they need together.
fn shares(found: &Consolidation) -> String {
    let heads = std::iter::once("client".to_string()).chain(found.rows.iter().map(promise));
    let called = client_names(&found.clients);
    let row = |at: usize| {
        let share = |row: &Shared| {
            let share = row.client_fractions.get(at).copied().unwrap_or(f64::NAN);
            let worst = row.worst_client == at + 1 && share < row.fraction;
            match (worst, percent(share)) {
                (true, text) => format!("<span class=\"loss\">{text}</span>"),
                (false, text) => text,
            }
        };
        let first = name(&called[at]);
        (Mark::Plain, std::iter::once(first).chain(found.rows.iter().map(share)).collect())
    };
    let rows: Vec<_> = (0..found.clients.len().min(CLIENTS_MAX)).map(row).collect();
    let shown = table(&heads.collect::<Vec<_>>(), &rows);
    let said = "<p class=\"small\">At the capacity that keeps the promise to all requests together, whosever they are.</p>";
    named("What each client gets of its own at what they need together", &(shown + said))
        + &more(found.clients.len(), CLIENTS_MAX)
}

/// A capacity, with its interval where there is one.
fn price(row: &crate::plan::capacity::Row) -> String {
    let interval = row.interval;
    capacity(row.capacity_iops, interval.map(|of| (of.capacity_low_iops, of.capacity_high_iops)))
}

fn capacity(iops: u64, interval: Option<(u64, u64)>) -> String {
    count(iops) + &within(interval.map(|(low, high)| (count(low), count(high))))
}

#[cfg(test)]
mod tests {
    use super::bursts::{STEPS, layers};
    use super::*;
    use crate::plan::capacity::Promises;
    use crate::plan::consolidate::consolidate;
    use std::path::PathBuf;

    fn client(times: &[u64]) -> ArrivalTimes {
        ArrivalTimes {
            lengths: (512, 512),
            path: PathBuf::from("t"),
            whole: times.iter().copied().map(Nanos::from_secs).collect(),
            volumes: Vec::new(),
            notes: forebay_trace::Notes::default(),
        }
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
        let page = ConsolidatePage { clients: &clients, begin, shifts: &shifts, found: &found };
        let at = |layer: &[u64; STEPS]| -> Vec<(usize, u64)> {
            layer.iter().copied().enumerate().filter(|step| step.1 > 0).collect()
        };
        // From the first of each: 0, 0 and 8 s, and 0 and 4 s; the last is in the last step.
        let (end, found) = layers(&page, Nanos::ZERO).unwrap();
        assert_eq!((end, found.len()), (8.0, 2));
        assert_eq!(at(&found[0]), [(0, 2), (399, 1)]);
        assert_eq!(at(&found[1]), [(0, 3), (200, 1), (399, 1)]);
        let (end, later) = layers(&page, Nanos::from_secs(6)).unwrap();
        assert_eq!((end, at(&later[1])), (10.0, vec![(0, 2), (240, 1), (320, 1), (399, 1)]));
        assert!(layers(&ConsolidatePage { clients: &clients[..0], ..page }, Nanos::ZERO).is_none());
    }

    #[test]
    fn clients_beyond_the_colours_share_the_last_one() {
        let all: Vec<ArrivalTimes> = (0..12).map(|k| client(&[0, k + 1])).collect();
        let clients: Vec<&ArrivalTimes> = all.iter().collect();
        let shifts = [Nanos::ZERO];
        let found = found(&clients, &shifts);
        let begin = Begin::Together;
        let page = ConsolidatePage { clients: &clients, begin, shifts: &shifts, found: &found };
        let (_, layers) = layers(&page, Nanos::ZERO).unwrap();
        let sums: Vec<u64> = layers.iter().map(|layer| layer.iter().sum()).collect();
        assert_eq!(sums, [2, 4, 6, 8, 10, 12, 14, 16, 24]);
        let page = super::page(&page);
        assert!(page.contains("all others") && !page.contains("</svg>client 9 "), "{page}");
    }

    #[test]
    fn each_bar_is_of_its_own_promise() {
        let (a, b) = (client(&[0; 10]), client(&[0; 4]));
        let (clients, shifts) = ([&a, &b], [Nanos::ZERO, Nanos::from_secs(5)]);
        let needs = needs(&found(&clients, &shifts));
        let told: Vec<&str> =
            needs.split("alone: ").skip(1).map(|rest| rest.split('<').next().unwrap()).collect();
        // Half of ten and of four, then all of them, at either shift.
        assert!(needs.contains("client 2 (t) alone: 4 IOPS"), "{needs}");
        let (broad, slim) = told.split_at(8);
        assert_eq!(broad, slim);
        assert_eq!(
            broad,
            ["5 IOPS", "2 IOPS", "10 IOPS", "4 IOPS", "5 IOPS", "2 IOPS", "10 IOPS", "4 IOPS"]
        );
    }
}
