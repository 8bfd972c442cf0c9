//! The report page of `array score`.

use forebay_show::html::paragraphs::page_title;
use forebay_show::{Block, Cell, Column, Page, Place, Row, Table, Tone, Unit, Verdict};

use super::{CHUNKS, LEVELS, Score};
use crate::quantities::counted;

const HOW: &str = "The time of a write is the time of all writes of that size, divided by their number. The time of a switch \
    is how much longer writes take if each is followed by a switch of its unit to the other level.";

pub(super) fn page(device: &str, drives: u16, scores: &[Score], cautions: Vec<String>) -> Page {
    let mut page = Page {
        title: page_title("RAID levels", &[device]),
        verdict: Verdict::new(Tone::Calm, "RAID 6 or copies"),
        headline: headline(scores),
        about: vec![("Array".into(), format!("{drives} of {device}, simulated"))],
        ..Page::default()
    };
    page.add("Time of a write", Place::FirstScreen, vec![Block::Table(writes(scores))]);
    page.add("Time of a switch", Place::Detail, vec![Block::Table(switches(scores))]);
    page.add("How it is counted", Place::Detail, vec![Block::Text(HOW.into())]);
    page.add_notes("About the models", Place::Detail, cautions);
    page
}

/// States up to which write size three copies are faster than RAID 6.
fn headline(scores: &[Score]) -> String {
    let sizes = || scores.iter().map(Score::copies_up_to);
    let least = sizes().min().unwrap_or_default();
    let most = sizes().max().unwrap_or_default();
    match (least, most) {
        (_, 0) => "RAID 6 is at least as fast as three copies for writes of any size.".to_string(),
        (least, most) if least == most => {
            let size = counted(most as u64, "chunk");
            format!("Three copies beat RAID 6 for writes of up to {size}.")
        }
        (least, most) => format!(
            "Three copies beat RAID 6: for writes of at most {least} to {most} chunks, depending on how many \
             writes are outstanding."
        ),
    }
}

/// Builds the table of write times by write size.
fn writes(scores: &[Score]) -> Table {
    let sizes = (1..=CHUNKS).map(|count| counted(count.into(), "chunk")).collect();
    table(sizes, scores, |score, level| score.write_ms[level].clone())
}

/// Builds the table of the times that a switch from each level takes.
fn switches(scores: &[Score]) -> Table {
    table(vec!["switch away".into()], scores, |score, level| vec![score.switch_ms[level]])
}

/// Builds a table with a row for each level and number of outstanding writes; `of` returns the
/// row's times in milliseconds.
fn table(heads: Vec<String>, scores: &[Score], of: fn(&Score, usize) -> Vec<f64>) -> Table {
    let first = [Column::words("level"), Column::of("at a time", Unit::Count)];
    let times = heads.into_iter().map(|head| Column::of(head, Unit::Seconds));
    let mut table = Table::new(first.into_iter().chain(times));
    for score in scores {
        for (index, level) in LEVELS.iter().enumerate() {
            let first = [Cell::from(level.name()), Cell::Value(score.outstanding.into())];
            let times = of(score, index).into_iter().map(|ms| Cell::Value(ms / 1e3));
            table.rows.push(Row::new(first.into_iter().chain(times)));
        }
    }
    table
}
