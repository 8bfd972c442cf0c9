//! The report of `plan sla`: what a promise of several tiers costs, in which ways it can be kept, and what becomes of
//! each tier.

use super::tables::gain;
use crate::plan::amount;
use crate::plan::arrival_times::ArrivalTimes;
use crate::plan::sla::{Division, Kept, Price, Way};
use forebay_show::html::bars::{self, Bar};
use forebay_show::html::document::{document, header, section};
use forebay_show::html::figure;
use forebay_show::html::paragraphs::{called, paragraphs, said};
use forebay_show::html::plot::Caption;
use forebay_show::html::table::{Mark, headings, table};
use forebay_show::html::text::{NONE, bound, count, ratio, seconds};

/// What the page shows.
pub struct SlaPage<'a> {
    /// The trace.
    pub arrivals: &'a ArrivalTimes,
    /// What was found.
    pub price: &'a Price,
}

pub(super) fn page(page: &SlaPage<'_>) -> String {
    let (arrivals, price) = (page.arrivals, page.price);
    let trace = arrivals.path.display().to_string();
    let (requests, duration) = (arrivals.requests(), arrivals.duration().as_secs_f64());
    let tier = |tier: &Kept| {
        format!("{} within {}", amount::percent(tier.fraction), bound(tier.within_ms))
    };
    let promise: Vec<String> = price.least.tiers.iter().map(tier).collect();
    let about = [
        ("Trace", trace.clone()),
        ("Load", format!("{} requests in {}", count(requests), seconds(duration))),
        ("Promise", promise.join(", ")),
    ];
    let verdict = match price.checked.as_ref().map(|checked| checked.kept) {
        None => ("good", "What the promise costs"),
        Some(true) => ("good", "It keeps the promise"),
        Some(false) => ("bad", "It does not keep the promise"),
    };
    let mut body = header(verdict, &price.answer(), &about);
    body += &section("Ways to keep it", &(picture(price) + &ways(price)));
    let title = format!("The tiers at {} IOPS", count(price.least.capacity_iops));
    body += &section(&title, &tiers(&price.least));
    if let Some((checked, told)) = price.checked.as_ref().zip(price.checked_told()) {
        let title = format!("The tiers at the {} IOPS asked for", count(checked.capacity_iops));
        body += &section(&title, &format!("<p>{}</p>{}", said(&told), tiers(checked)));
    }
    body += &paragraphs("Keep in mind", "cautions", &price.cautions);
    body += &section("How it is found", HOW);
    document(&called("Promise", &[&trace]), &body)
}

const HOW: &str = "<p>The load is split recursively: what the server of one tier cannot answer in time goes to the next tier’s. Separate \
    servers, of which some tiers may share one; one server that takes requests as they come; and one server on which \
    Miser gives the slack of the first tiers to the later ones: the cheapest is taken. Below the floor, which the dearest tier \
    alone needs, no scheduler keeps the promise.</p>";

/// Each way that was tried, and what it takes; none where no capacity is enough.
fn tried(price: &Price) -> Vec<(Way, &'static str, Option<u64>)> {
    let mut tried = vec![
        (Way::Fcfs, "one server, first come first served", price.fcfs_iops),
        (Way::SeparateServers, "separate servers", Some(price.separate_iops)),
    ];
    let miser = price.miser_iops.map(|iops| (Way::Miser, "one server with Miser", Some(iops)));
    tried.extend(miser);
    tried.sort_by_key(|(way, _, iops)| (iops.unwrap_or(u64::MAX), *way != price.least.way));
    tried
}

fn picture(price: &Price) -> String {
    let bar = |(way, name, iops): (Way, &str, Option<u64>)| {
        let total = format!("{}\u{a0}IOPS", count(iops?));
        Some(Bar::single(name, iops? as f64, total, way == price.least.way))
    };
    let bars: Vec<Bar> = tried(price).into_iter().filter_map(bar).collect();
    let caption = Caption {
        id: "ways",
        title: "What each way to keep the promise takes",
        description: "A bar for each way, as long as the capacity it takes; the table below has the figures.",
    };
    let floor = (price.floor_iops as f64, format!("nothing below {}", count(price.floor_iops)));
    let said = "<b>Capacity</b>; below the line no scheduler keeps the promise";
    bars::picture(&caption, &bars, Some(&floor))
        .map_or(String::new(), |picture| figure(&picture, said))
}

fn ways(price: &Price) -> String {
    let heads = headings(&["way", "IOPS", "against first come first served"]);
    let row = |(way, name, iops): (Way, &'static str, Option<u64>)| {
        let is_best = way == price.least.way;
        let against = iops.zip(price.fcfs_iops);
        let against = against.map(|(iops, fcfs)| 1.0 - ratio(iops as f64, fcfs as f64));
        let cells = vec![
            name.to_string(),
            iops.map_or("more than any".to_string(), count),
            against.map_or(NONE.to_string(), |less| gain(less, way == Way::Fcfs)),
        ];
        (Mark::best("least", is_best), cells)
    };
    table(&heads, &tried(price).into_iter().map(row).collect::<Vec<_>>())
}

fn tiers(division: &Division) -> String {
    let heads = headings(&["tier", "promised", "answered", "kept", "its share, IOPS"]);
    let row = |tier: &Kept| {
        let (class, kept) = if tier.kept { ("gain", "yes") } else { ("loss", "no") };
        let cells = vec![
            format!("within {}", bound(tier.within_ms)),
            amount::percent(tier.fraction),
            amount::share_found(tier.achieved_fraction),
            format!("<span class=\"{class}\">{kept}</span>"),
            tier.share(division.way).map_or_else(String::from, count),
        ];
        (Mark::Plain, cells)
    };
    table(&heads, &division.tiers.iter().map(row).collect::<Vec<_>>())
}
