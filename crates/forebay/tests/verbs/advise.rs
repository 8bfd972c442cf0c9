//! `advise`: its result fits on one screen.

use forebay::advise::verb::AdviseAsk;
use forebay_show::page::{Block, Page, Place};

use super::{Traces, answered, first_table};

/// Returns the terms of the first screen.
fn terms(page: &Page) -> Vec<(String, String)> {
    let first = page.sections.iter().filter(|section| section.place == Place::FirstScreen);
    let terms = first.flat_map(|section| &section.blocks).filter_map(|block| match block {
        Block::Terms(terms) => Some(terms.clone()),
        _ => None,
    });
    terms.flatten().collect()
}

fn has_commands(page: &Page) -> bool {
    let first = page.sections.iter().filter(|section| section.place == Place::FirstScreen);
    first.flat_map(|section| &section.blocks).any(|block| matches!(block, Block::Commands(_)))
}

/// Makes bursts of `burst` scattered reads, one burst every `gap_ms`.
fn bursts(traces: &Traces, burst: u64, gap_ms: u64) -> String {
    let mut text = "time_us,op,offset,len\n".to_string();
    for n in 0..20 * burst {
        let offset = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (200 << 30) / 4096 * 4096;
        let at_us = n / burst * gap_ms * 1000 + n % burst * 37;
        text += &format!("{at_us},read,{offset},4096\n");
    }
    traces.file("bursts.csv", &text).display().to_string()
}

#[test]
fn an_overload_is_said_first_with_what_would_keep_up() {
    let traces = Traces::new();
    let trace = bursts(&traces, 300, 1000);
    let given = [("trace", &trace[..]), ("device", "sata250")];
    let page = answered::<AdviseAsk>(&given).page;
    assert!(page.headline.starts_with("This disk cannot keep up: it needs "), "{}", page.headline);
    assert!(page.headline.contains(" of them"), "{}", page.headline);
    assert_eq!(page.verdict.words, "Overloaded");
    // Latencies of a backlog are not shown.
    let heads: Vec<&str> = first_table(&page).columns.iter().map(|one| &one.head[..]).collect();
    assert_eq!(heads, ["", "done after"]);
}

#[test]
fn a_drive_is_chosen_that_keeps_up() {
    let traces = Traces::new();
    let trace = bursts(&traces, 80, 1000);
    let page = answered::<AdviseAsk>(&[("trace", &trace)]).page;
    let device = &page.about.iter().find(|(term, _)| term == "Device").unwrap().1;
    assert!(device.contains("holds the trace"), "{device}");
    assert!(!page.headline.contains("cannot keep up"), "{}", page.headline);
}

#[test]
fn commands_stand_only_where_they_help() {
    let traces = Traces::new();
    let trace = bursts(&traces, 30, 1500);
    for current in ["none", "mq-deadline", "bfq"] {
        let given = [("trace", &trace[..]), ("device", "st1000nm0011"), ("current", current)];
        let answered = answered::<AdviseAsk>(&given);
        let today = answered.data["today"]["policy"].as_str();
        assert_ne!(today, Some(current));
        assert_eq!(has_commands(&answered.page), today.is_some());
        let does_nothing = terms(&answered.page).iter().any(|(term, _)| term == "Do now");
        assert_ne!(does_nothing, today.is_some());
        assert_eq!(answered.data["baseline"], current);
        let row = format!("now: {current}");
        assert_eq!(first_table(&answered.page).rows[0].cells[0], row.as_str().into());
    }
}

#[test]
fn the_bundled_trace_has_an_answer() {
    let answered = answered::<AdviseAsk>(&[]);
    assert!(answered.data["trace"].as_str().unwrap().contains("TeraSort"));
    assert!(terms(&answered.page).iter().any(|(term, _)| term == "Why"));
}
