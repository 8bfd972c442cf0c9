//! The report page of `offline`.

use forebay_show::html::paragraphs::page_title;
use forebay_show::{Block, Cell, Column, Page, Place, Row, RowMark, Table, Tone, Unit, Verdict};

use super::{OfflineAnswer, PolicyTotal};
use crate::quantities::{counted, seconds, significant};

pub(super) fn page(answer: &OfflineAnswer) -> Page {
    let windows = format!(
        "{} with {}",
        counted(answer.rows.len() as u64, "window"),
        counted(answer.ios, "I/O")
    );
    let nearest = answer.policies.iter().min_by(|a, b| a.makespan_s.total_cmp(&b.makespan_s));
    let mut page = Page {
        title: page_title("Best order", &[&answer.trace]),
        verdict: Verdict::new(Tone::Calm, "Best order"),
        headline: headline(answer, nearest),
        about: vec![
            ("Trace".into(), answer.trace.clone()),
            ("Device".into(), answer.device.clone()),
            ("Requests".into(), windows),
        ],
        ..Page::default()
    };
    let table = Block::Table(table(answer, nearest));
    page.add("Schedulers", Place::FirstScreen, vec![table]);
    page
}

fn headline(answer: &OfflineAnswer, nearest: Option<&PolicyTotal>) -> String {
    match nearest.filter(|_| !answer.rows.is_empty()) {
        None => "The trace has no requests that move data.".to_string(),
        Some(nearest) => format!(
            "The best order takes {}; {} is closest with {} times that.",
            seconds(answer.best_s),
            nearest.policy,
            significant(nearest.over_best_ratio)
        ),
    }
}

fn table(answer: &OfflineAnswer, nearest: Option<&PolicyTotal>) -> Table {
    let mut table = Table::new([
        Column::words("order"),
        Column::of("time", Unit::Seconds),
        Column::of("over the best", Unit::Number),
    ]);
    let bound = |name: &str, s: f64| Row::new([name.into(), s.into(), Cell::Missing]);
    table.rows.push(bound("transfer alone", answer.transfer_bound_s));
    table.rows.push(bound("best order", answer.best_s));
    for of in &answer.policies {
        let is_nearest = nearest.is_some_and(|nearest| nearest.policy == of.policy);
        let mark = if is_nearest { RowMark::Best("nearest".into()) } else { RowMark::Plain };
        let cells = vec![
            Cell::from(of.policy.as_str()),
            Cell::Value(of.makespan_s),
            Cell::Value(of.over_best_ratio),
        ];
        table.rows.push(Row { mark, cells });
    }
    table
}
