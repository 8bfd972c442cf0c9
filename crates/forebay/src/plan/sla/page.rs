//! The report page of `plan sla`.

use forebay_show::html::bars::{self, Bar};
use forebay_show::html::paragraphs::page_title;
use forebay_show::html::plot::Caption;
use forebay_show::{
    Block, Cell, Column, Figure, Page, Place, Row, RowMark, Table, Tone, Unit, Verdict,
};

use super::verb::Answer;
use super::{Division, Price, TierResult, Way};
use crate::plan::costed::Costs;
use crate::plan::costed::sla::Price as SpeedPrice;
use crate::plan::page::{about_load, key, mean_rate};
use crate::quantities::{bound, promised};

/// Builds the page for capacities of a constant-rate server.
pub(super) fn of_rate(answer: &Answer) -> Page {
    let price = &answer.price;
    let verdict = match price.checked.as_ref().map(|checked| checked.kept) {
        None => Verdict::new(Tone::Calm, "What the promise costs"),
        Some(true) => Verdict::new(Tone::Good, "The promise is kept"),
        Some(false) => Verdict::new(Tone::Warning, "The promise is broken"),
    };
    let mut about =
        about_load(&answer.trace, answer.requests, (answer.duration_s, answer.active_s));
    let tiers: Vec<String> = price.least.tiers.iter().map(tier_in_words).collect();
    about.push(("Promise".into(), tiers.join(", ")));
    let mut page = Page {
        title: page_title("Promise", &[&answer.trace]),
        verdict,
        headline: headline(price),
        about,
        ..Page::default()
    };
    page.key_figures = vec![
        mean_rate(answer.mean_iops),
        key("smallest capacity", price.least.capacity_iops as f64, Unit::Iops),
        key("floor for any scheduler", price.floor_iops as f64, Unit::Iops),
    ];
    // If the user gave a capacity, its result comes first.
    let place = if price.checked.is_some() { Place::Detail } else { Place::FirstScreen };
    if let Some(checked) = &price.checked {
        let said = check(checked, price.checked_ways.len());
        let blocks = vec![Block::Text(said), Block::Table(tiers_of(checked))];
        let title = format!("The tiers at the {} IOPS to check", checked.capacity_iops);
        page.add(&title, Place::FirstScreen, blocks);
    }
    let ways = picture(price).into_iter().chain([Block::Table(ways(price))]).collect();
    page.add("Methods of keeping the promise", place, ways);
    let title = format!("The tiers at the smallest capacity, {} IOPS", price.least.capacity_iops);
    page.add(&title, place, vec![Block::Table(tiers_of(&price.least))]);
    add_command(&mut page, price.checked.as_ref().filter(|of| of.kept).unwrap_or(&price.least));
    page.add_notes("Keep in mind", Place::FirstScreen, price.cautions.clone());
    page.add("How the answer is found", Place::Detail, vec![Block::Text(HOW.into())]);
    page
}

const HOW: &str = "Requests that the server of one tier cannot answer in time go to the server of \
                   the next tier. Three methods are compared: separate servers, some of which \
                   tiers may share; one server that serves requests first come, first served; and \
                   one server on which Miser lends the slack of earlier tiers to later ones. \
                   Below the capacity that the most expensive tier needs alone, no scheduler \
                   keeps the promise.";

fn tier_in_words(tier: &TierResult) -> String {
    format!("{} within {}", promised(tier.fraction), bound(tier.within_ms))
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Fcfs => "one server, first come, first served",
            Way::Miser => "one server, urgent requests first",
            Way::SeparateServers => "separate servers",
        }
    }
}

fn headline(price: &Price) -> String {
    let (least, way) = (price.least.capacity_iops, price.least.way.name());
    let floor = price.floor_iops;
    match &price.checked {
        Some(checked) if checked.kept => {
            let (iops, ways) = (checked.capacity_iops, (checked.way, price.least.way));
            let rest = match ways {
                _ if iops == least => "that is the smallest capacity".into(),
                (checked, least_way) if checked == least_way => format!("{least} are enough"),
                _ => format!("{least} are enough on {way}"),
            };
            format!("{iops} IOPS are enough on {}; {rest}.", checked.way.name())
        }
        Some(checked) => {
            format!("{} IOPS are not enough: provide {least} IOPS on {way}.", checked.capacity_iops)
        }
        None if floor < least => format!(
            "Provide {least} IOPS on {way}; below {floor} IOPS no scheduler keeps the promise."
        ),
        None => format!("Provide {least} IOPS on {way}; no scheduler keeps the promise with less."),
    }
}

/// The maximum length of a command's line on the first screen of a terminal, in characters.
const COMMAND_COLUMNS: usize = 76;

/// Adds the command that serves a device with the method of `division`, if that needs a policy.
fn add_command(page: &mut Page, division: &Division) {
    let Some(policy) = &division.policy else { return };
    let lines = vec![
        "forebay serve /dev/DEVICE --socket volume.sock \\".to_string(),
        format!("    --policy {policy}:depth=64"),
    ];
    let fits = lines.iter().all(|line| line.chars().count() <= COMMAND_COLUMNS);
    let place = if fits { Place::FirstScreen } else { Place::Detail };
    page.add("To serve urgent requests first", place, vec![Block::Commands(lines)]);
}

/// Returns the caption of the table of tiers at the capacity that the user gave, after `ways` ways
/// were checked.
fn check(checked: &Division, ways: usize) -> String {
    match checked.kept {
        true => format!("On {}:", checked.way.name()),
        false => {
            let (iops, way) = (checked.capacity_iops, checked.way.name());
            let ways = match ways {
                2 => "neither of the two methods",
                _ => "none of the three methods",
            };
            format!("At {iops} IOPS, {ways} keeps the promise. The best of them, {way}:")
        }
    }
}

/// Returns the ways that were tried with the capacity that each needs, the least first; that is
/// `None` if no supported capacity is enough.
fn tried(price: &Price) -> Vec<(Way, Option<u64>)> {
    let mut tried =
        vec![(Way::Fcfs, price.fcfs_iops), (Way::SeparateServers, Some(price.separate_iops))];
    tried.extend(price.miser_iops.map(|iops| (Way::Miser, Some(iops))));
    tried.sort_by_key(|(way, iops)| (iops.unwrap_or(u64::MAX), *way != price.least.way));
    tried
}

fn picture(price: &Price) -> Option<Block> {
    let bar = |(way, iops): (Way, Option<u64>)| {
        let size = iops? as f64;
        let total = Figure::new(size, Unit::Iops).text();
        Some(Bar::single(way.name(), size, total, way == price.least.way))
    };
    let bars: Vec<Bar> = tried(price).into_iter().filter_map(bar).collect();
    let caption = Caption {
        id: "ways",
        title: "The capacity that each method needs",
        description: "One bar for each method: the capacity that it needs. The table below has \
            the figures.",
    };
    let floor = (price.floor_iops as f64, format!("no scheduler below {}", price.floor_iops));
    let svg = bars::picture(&caption, &bars, Some(&floor))?;
    let caption = "<b>Capacity</b>; below the line no scheduler keeps the promise".into();
    Some(Block::Picture { svg, caption })
}

fn ways(price: &Price) -> Table {
    let mut table = Table::new([
        Column::words("method of keeping the promise"),
        Column::of("smallest capacity", Unit::Iops),
    ]);
    table.rows.extend(tried(price).into_iter().map(|(way, iops)| {
        let is_least = way == price.least.way;
        let mark = if is_least { RowMark::Best("least".into()) } else { RowMark::Plain };
        let iops = iops.map_or("more than any".into(), |iops| Cell::Value(iops as f64));
        Row { mark, cells: vec![way.name().into(), iops] }
    }));
    table
}

fn tiers_of(division: &Division) -> Table {
    let head = format!("at {} IOPS", division.capacity_iops);
    Table::listing(
        &division.tiers,
        &[
            (Column::words(head), &|tier| format!("within {}", bound(tier.within_ms)).into()),
            (Column::of("promised", Unit::Promise), &|tier| tier.fraction.into()),
            (Column::of("answered", Unit::Achieved), &|tier| tier.achieved_fraction.into()),
            (Column::words("kept"), &|tier| if tier.kept { "yes" } else { "no" }.into()),
            (Column::of("server", Unit::Iops), &|tier| server(tier, division.way)),
        ],
    )
}

/// Formats the capacity of a tier's server, or states which other server keeps the tier.
fn server(tier: &TierResult, way: Way) -> Cell {
    match (tier.share_iops, way) {
        // The servers of earlier tiers, or the whole capacity, are used up before this tier.
        (Some(0), _) if tier.kept => "not needed".into(),
        (Some(0), _) => "none is left".into(),
        (Some(share), _) => Figure::new(share as f64, Unit::Iops).into(),
        (None, Way::SeparateServers) => "with the tier before".into(),
        (None, Way::Fcfs | Way::Miser) => "one for all".into(),
    }
}

/// Builds the page for speeds, if the cost of a request depends on its length.
pub(super) fn of_cost(price: &SpeedPrice, costs: &Costs) -> Page {
    let mut page = Page {
        title: page_title("Promise", &[&price.about.trace]),
        verdict: Verdict::new(Tone::Calm, "What the promise costs"),
        headline: format!(
            "Provide speed {} on one server, first come, first served; below speed {} no scheduler keeps the promise.",
            price.fcfs_speed, price.floor_speed
        ),
        about: vec![("Trace".into(), price.about.trace.clone()), ("Cost".into(), costs.unit())],
        ..Page::default()
    };
    let table = Table::listing(
        &price.tiers,
        &[
            (Column::words("tier"), &|tier| format!("within {}", bound(tier.within_ms)).into()),
            (Column::of("promised", Unit::Promise), &|tier| tier.fraction.into()),
            (Column::of("answered at that speed", Unit::Achieved), &|tier| {
                tier.achieved_fraction.into()
            }),
            (Column::of("speed for this tier alone", Unit::Number), &|tier| {
                tier.alone_speed.into()
            }),
        ],
    );
    let blocks = vec![Block::Table(table), Block::Text(costs.of(&price.about))];
    page.add("The tiers at that speed", Place::FirstScreen, blocks);
    page.add_notes("Keep in mind", Place::FirstScreen, price.cautions.clone());
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_method_is_named_once() {
        let division = |way, capacity_iops| Division {
            way,
            capacity_iops,
            kept: true,
            policy: None,
            tiers: Vec::new(),
        };
        let said = |checked, least| {
            headline(&Price {
                cautions: Vec::new(),
                floor_iops: 9,
                separate_iops: 900,
                fcfs_iops: None,
                miser_iops: None,
                least,
                checked: Some(checked),
                checked_ways: Vec::new(),
            })
        };
        let miser = |iops| division(Way::Miser, iops);
        let urgent = "600 IOPS are enough on one server, urgent requests first;";
        assert_eq!(said(miser(600), miser(590)), format!("{urgent} 590 are enough."));
        assert_eq!(
            said(miser(600), miser(600)),
            format!("{urgent} that is the smallest capacity.")
        );
        let fcfs = division(Way::Fcfs, 700);
        assert_eq!(
            said(fcfs, miser(590)),
            "700 IOPS are enough on one server, first come, first served; 590 are enough on one \
             server, urgent requests first."
        );
    }

    #[test]
    fn a_policy_that_is_needed_comes_with_its_command() {
        let mut page = Page::default();
        let policy = Some("miser:cmin=200/90:delta-ms=10/50".to_string());
        let division =
            Division { way: Way::Miser, capacity_iops: 250, kept: true, policy, tiers: Vec::new() };
        add_command(&mut page, &division);
        let Block::Commands(lines) = &page.sections[0].blocks[0] else { panic!("{page:?}") };
        assert_eq!(lines[1], "    --policy miser:cmin=200/90:delta-ms=10/50:depth=64");
        add_command(&mut page, &Division { policy: None, ..division });
        assert_eq!(page.sections.len(), 1);
    }

    #[test]
    fn a_tier_without_a_server_of_its_own_says_which_it_shares() {
        let of = |share_iops, way| {
            let (within_ms, fraction, achieved_fraction) = (1.0, 1.0, 1.0);
            server(
                &TierResult { within_ms, fraction, share_iops, achieved_fraction, kept: true },
                way,
            )
        };
        assert_eq!(of(Some(5), Way::SeparateServers), Figure::new(5.0, Unit::Iops).into());
        assert_eq!(of(None, Way::SeparateServers), "with the tier before".into());
        assert_eq!(of(None, Way::Fcfs), "one for all".into());
        assert_eq!(of(None, Way::Miser), "one for all".into());
    }
}
