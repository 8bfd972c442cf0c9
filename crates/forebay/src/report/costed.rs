//! The reports of `plan capacity`, `plan sla` and `plan consolidate` where requests cost what their length takes.

use super::plain::{self, PlainCell, PlainPage, PlainTable};
use crate::names;
use crate::plan::amount::percent;
use crate::plan::costed::Costs;
use crate::plan::costed::consolidate::Consolidation;
use crate::plan::costed::sla::Price;
use forebay_show::html::paragraphs::called;
use forebay_show::html::text::bound;

/// The page of a promise of several tiers.
pub(super) fn sla(found: &Price, costs: &Costs) -> String {
    let row = |tier: &crate::plan::costed::sla::Tier| {
        vec![
            PlainCell::Text(bound(tier.within_ms)),
            PlainCell::Text(percent(tier.fraction)),
            PlainCell::Text(percent(tier.achieved_fraction)),
            PlainCell::Figure(tier.alone_speed),
        ]
    };
    let tiers = PlainTable {
        title: "What becomes of each tier at that speed".into(),
        told: "Alone: the speed that this tier takes if there were no other.".into(),
        heads: ["within", "promised", "answered", "alone takes speed"].map(String::from).into(),
        rows: found.tiers.iter().map(row).collect(),
    };
    let page = PlainPage {
        tables: vec![tiers],
        ..page(
            &called("Promise", &[&found.about.trace]),
            "A promise and its price",
            vec![found.told()],
            found.meant(costs),
            &found.cautions,
        )
    };
    plain::page(&page)
}

/// The page of clients that share a server.
pub(super) fn consolidate(found: &Consolidation, costs: &Costs) -> String {
    let promises = found.clients.iter().take(1).flat_map(|client| &client.rows);
    let heads =
        promises.map(|row| format!("{} within {}", percent(row.fraction), bound(row.within_ms)));
    let traces: Vec<&str> = found.clients.iter().map(|of| of.about.trace.as_str()).collect();
    let names = names::clients(&traces);
    let alone = PlainTable {
        title: "The speed that each client needs alone".into(),
        told: String::new(),
        heads: std::iter::once("client".to_string()).chain(heads).collect(),
        rows: found
            .clients
            .iter()
            .zip(names)
            .map(|(client, name)| {
                let needs = client.rows.iter().map(|row| PlainCell::Figure(row.speed));
                std::iter::once(PlainCell::Text(name)).chain(needs).collect()
            })
            .collect(),
    };
    let together = PlainTable {
        title: "The speeds that they need together".into(),
        told: "The ratio is that together over the sum: 1 where sharing saves nothing. For each: the speed \
               that keeps the promise to every client."
            .into(),
        heads: ["promise", "shift", "sum of speeds", "speed together", "ratio", "speed for each"]
            .map(String::from)
            .into(),
        rows: found
            .rows
            .iter()
            .map(|row| {
                let promise = format!("{} within {}", percent(row.fraction), bound(row.within_ms));
                let figures = [row.sum_speed, row.merged_speed, row.ratio, row.shaped_speed];
                [promise, format!("{} s", row.shift_s)]
                    .map(PlainCell::Text)
                    .into_iter()
                    .chain(figures.map(PlainCell::Figure))
                    .collect()
            })
            .collect(),
    };
    let title = called("Consolidation", &[&format!("{} clients", found.clients.len())]);
    let unit = format!("{}.", costs.unit());
    let page = PlainPage {
        tables: vec![together, alone],
        ..page(&title, "Clients together", found.told(), unit, &found.cautions)
    };
    plain::page(&page)
}

/// A page that begins with the first of `said`.
fn page(
    title: &str,
    verdict: &str,
    said: Vec<String>,
    unit: String,
    cautions: &[String],
) -> PlainPage {
    let mut said = said.into_iter();
    PlainPage {
        title: title.into(),
        verdict: verdict.into(),
        headline: said.next().unwrap_or_default(),
        findings: said.chain([unit]).collect(),
        cautions: cautions.to_vec(),
        tables: Vec::new(),
        curve: None,
        bars: None,
        claims: Vec::new(),
    }
}
