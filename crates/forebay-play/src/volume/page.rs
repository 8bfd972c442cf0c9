//! Builds the page of all volume verbs.

use forebay_core::stack::array::LOST_LISTED;
use forebay_show::{
    Block, Cell, Column, Figure, KeyFigure, Page, Place, Row, Table, Tone, Unit, Verdict,
};
use forebay_volume::Opened;
use forebay_words::plural::{counted, listed, verb};
use forebay_words::quantities::bytes;

use super::answer::VolumeAnswer;

/// The maximum number of lost ranges that a page lists.
const LISTED: usize = 10;

/// The state of a volume, and how to improve it.
struct State {
    verdict: Verdict,
    sentence: String,
    advice: Vec<Block>,
}

/// Builds the page. `said` is a sentence about what the verb has just done, such as creating the
/// volume; it may be empty.
pub(super) fn page(opened: &Opened, answer: &VolumeAnswer, said: &str) -> Page {
    let State { verdict, sentence, advice } = State::of(opened, answer);
    // If the volume is healthy, the headline says what the verb has just done; otherwise it
    // describes the volume's state.
    let (headline, other) = match verdict.tone == Tone::Good && !said.is_empty() {
        true => (said.to_string(), sentence),
        false => (sentence, said.to_string()),
    };
    let figure = |name: &str, value: u64| KeyFigure {
        name: name.into(),
        before: None,
        figure: Figure::new(value as f64, Unit::Bytes),
    };
    let mut page = Page {
        title: format!("Volume: {}", answer.volume),
        verdict,
        headline,
        key_figures: vec![
            figure("holds", answer.capacity_bytes),
            figure("written", answer.written_bytes),
        ],
        ..Page::default()
    };
    let other = (!other.is_empty()).then_some(Block::Text(other));
    page.add("State", Place::FirstScreen, other.into_iter().chain(advice).collect());
    let place = if answer.lost.is_empty() { Place::FirstScreen } else { Place::Detail };
    page.add("Lost", Place::FirstScreen, lost(answer));
    page.add("Volume", place, vec![Block::Table(figures(answer))]);
    page
}

impl State {
    fn new(tone: Tone, words: &str, sentence: String) -> State {
        State { verdict: Verdict::new(tone, words), sentence, advice: Vec::new() }
    }

    fn advising(self, advice: impl IntoIterator<Item = Block>) -> State {
        State { advice: advice.into_iter().collect(), ..self }
    }

    fn of(opened: &Opened, answer: &VolumeAnswer) -> State {
        match (&answer.drives_missing[..], answer.degraded_units, answer.lost_units) {
            (missing, _, lost) if lost > 0 => State::lost(answer, missing),
            ([], 0, _) => {
                let may_fail = match spare_drives(opened, 0) {
                    0 => "but no drive may fail".to_string(),
                    1 => "and one drive may fail".to_string(),
                    many => format!("and any {many} drives may fail"),
                };
                State::new(Tone::Good, "Whole", format!("The volume is whole, {may_fail}."))
            }
            ([], degraded, _) => {
                let (units, lack) = (counted(degraded, "unit"), verb(degraded, "lacks", "lack"));
                let text = format!("{units} {lack} a drive: run `forebay volume check`.");
                State::new(Tone::Warning, "Degraded", text)
            }
            (missing, ..) => State::missing(opened, answer, missing),
        }
    }

    /// Describes a volume with missing drives that has lost no data.
    fn missing(opened: &Opened, answer: &VolumeAnswer, missing: &[u8]) -> State {
        let may_fail = match spare_drives(opened, missing.len()) {
            0 => "but no other drive may fail".to_string(),
            1 => "and one more drive may fail".to_string(),
            more => format!("and {more} more drives may fail"),
        };
        let text = format!("{} missing. Nothing is lost, {may_fail}.", drives_are(missing));
        let them = if missing.len() == 1 { "it" } else { "them" };
        let command = answer.replace_command.clone();
        let command = command.unwrap_or_else(|| "forebay volume replace".into());
        let commands = command.split(" && ").map(String::from).collect();
        State::new(Tone::Warning, "Degraded", text)
            .advising([Block::Text(format!("Replace {them}:")), Block::Commands(commands)])
    }

    /// Describes a volume that has lost data.
    fn lost(answer: &VolumeAnswer, missing: &[u8]) -> State {
        let lost = bytes(answer.lost_bytes as f64);
        let units = counted(answer.lost_units, "unit");
        let text = format!("Data are lost: {lost} in {units} cannot be read.");
        let again = "A range can be read again once it is overwritten.";
        let advice = match missing {
            [] => again.to_string(),
            _ => format!(
                "{} missing, and may contain some of the data: reconnect {} and run `forebay volume \
                 check`. {again}",
                drives_are(missing),
                if missing.len() == 1 { "it" } else { "them" },
            ),
        };
        State::new(Tone::Warning, "Data lost", text).advising([Block::Text(advice)])
    }
}

/// Formats the beginning of a sentence: "Drive 3 is", "Drives 3 and 5 are".
fn drives_are(numbers: &[u8]) -> String {
    let texts: Vec<String> = numbers.iter().map(u8::to_string).collect();
    let drives = if numbers.len() == 1 { "Drive" } else { "Drives" };
    format!("{drives} {} {}", listed(&texts), verb(numbers.len() as u64, "is", "are"))
}

/// Returns how many more drives may fail, in addition to the missing ones, before the unit with the
/// least redundancy loses data. For an empty volume, assumes the initial level.
fn spare_drives(opened: &Opened, missing: usize) -> usize {
    let used = opened.census.units.iter().map(|(level, _)| level.tolerates());
    used.min().unwrap_or(opened.census.first_level.tolerates()).saturating_sub(missing)
}

/// Lists the first ranges that cannot be read.
fn lost(answer: &VolumeAnswer) -> Vec<Block> {
    if answer.lost.is_empty() {
        return Vec::new();
    }
    let table = Table::listing(
        answer.lost.iter().take(LISTED),
        &[
            (Column::of("unit", Unit::Count), &|loss| loss.unit.into()),
            (Column::of("lost from byte", Unit::Count), &|loss| loss.offset.into()),
            (Column::of("bytes", Unit::Count), &|loss| loss.bytes.into()),
            (Column::words("drives"), &|loss| numbers_or_none(&loss.drives).into()),
        ],
    );
    let more = answer.lost.len().saturating_sub(LISTED);
    let others = match (more, answer.lost_units > LOST_LISTED as u64) {
        (0, _) => None,
        (more, false) => {
            Some(format!("and {}; JSON has all of them.", counted(more as u64, "more range")))
        }
        (_, true) => Some(format!("and more; JSON has those of the first {LOST_LISTED} units.")),
    };
    [Block::Table(table)].into_iter().chain(others.map(Block::Text)).collect()
}

fn numbers_or_none(numbers: &[u8]) -> String {
    match numbers {
        [] => "none".into(),
        numbers => numbers.iter().map(u8::to_string).collect::<Vec<_>>().join(", "),
    }
}

fn figures(answer: &VolumeAnswer) -> Table {
    let size = |value: u64| Cell::from(Figure::new(value as f64, Unit::Bytes));
    let units: Vec<String> =
        answer.units.iter().map(|(level, count)| format!("{count} {level}")).collect();
    let drives = match (answer.ssds, answer.spare_drives) {
        (0, 0) => answer.drives.to_string(),
        (0, spares) => {
            format!("{}, {spares} of which can be restored on the others", answer.drives)
        }
        (ssds, _) => format!("{}, {ssds} of them solid-state drives", answer.drives),
    };
    let units = match answer.ssd_units {
        0 => units.join(", "),
        ssd => format!("{}; {ssd} of them on solid-state drives", units.join(", ")),
    };
    let chunk = bytes(answer.chunk_bytes.into());
    let (has_units, has_costs) = (!answer.units.is_empty(), !answer.costs.is_empty());
    let numbers = |numbers: &[u8]| Some(Cell::from(numbers_or_none(numbers)));
    let some_numbers = |some: &[u8]| numbers(some).filter(|_| !some.is_empty());
    // A row without content is left out, except that of the missing drives.
    let rows: [(_, Option<Cell>); 13] = [
        ("holds", Some(size(answer.capacity_bytes))),
        ("written", Some(size(answer.written_bytes))),
        ("drives", Some(drives.into())),
        ("missing", numbers(&answer.drives_missing)),
        ("replaced", some_numbers(&answer.drives_replaced)),
        ("joining", some_numbers(&answer.drives_joining)),
        ("without a label at the end", some_numbers(&answer.drives_without_end_label)),
        ("unit", Some(format!("{} chunks of {chunk}", answer.chunks).into())),
        ("units", has_units.then(|| units.into())),
        ("opened", Some(counted(answer.openings, "time").into())),
        ("costs of writes", has_costs.then(|| costs(answer).into())),
        ("table in memory, at most", Some(size(answer.table_bytes))),
        ("records on each drive", Some(size(answer.records_per_drive_bytes))),
    ];
    let mut table = Table::new([Column::words("volume"), Column::words(&*answer.volume)]);
    let rows = rows.into_iter().filter_map(|(name, cell)| Some(Row::new([name.into(), cell?])));
    table.rows.extend(rows);
    table
}

/// Says for which writes three copies are faster than RAID 6, by kind of drive.
fn costs(answer: &VolumeAnswer) -> String {
    let said = answer.costs.iter().map(|known| {
        let [raid6, copies] = &known.write_ms;
        let sizes = (1u64..).zip(raid6.iter().zip(copies));
        let faster = sizes.filter(|(_, (raid6, copies))| copies < raid6);
        let faster: Vec<String> = faster.map(|(size, _)| size.to_string()).collect();
        let faster = if faster.is_empty() { "none".into() } else { listed(&faster) };
        format!("{}: three copies are faster for {faster} chunks", known.kind)
    });
    said.collect::<Vec<_>>().join("; ")
}
