//! The report page of `plan volume`: the purchase, the reasons, the uncertainties and the commands.

use forebay_show::html::paragraphs::page_title;
use forebay_show::table::{Cell, Column, Row as TableRow, RowMark, Table};
use forebay_show::{Block, Figure, KeyFigure, Page, Place, Tone, Unit, Verdict};
use forebay_words::quantities::NONE;

use super::{Answer, REPLAYED_ROWS, Setting, VolumeRow, apply, choice, passes, shaped, throughput};
use crate::plan::page::{about_load, key};
use crate::quantities::{bound, percent, promised};

/// The maximum length of a command's line on the first screen of a terminal, in characters.
const COMMAND_COLUMNS: usize = 74;

const HOW: &str = "A volume is a list of token buckets: a request passes when no bucket is \
                   overdrawn and is then charged to all of them, so it may wait for operations \
                   and for bytes. IOPS and throughput are searched together, because the minimum \
                   of each one alone is not enough for both. Every setting, and the settings one \
                   step below it, were replayed on the simulated volume.";

const HOW_COUNTERS: &str = "A volume is a list of token buckets. The requests of an interval that \
    are in time pass each bucket between the beginning of the interval and its end plus the bound \
    of the promise; the requests that a bucket cannot admit by then are late, whatever their \
    arrival times were. The settings are the lowest at which no more requests are late than the promise \
    allows.";

/// Builds the page of `answer`.
pub(super) fn page(answer: &Answer) -> Page {
    let best = answer.best();
    let mut about = about_load(&answer.trace, answer.requests, (answer.duration_s, None));
    about.push(("Promise".into(), promise(answer)));
    about.push(("Size".into(), format!("{} GiB", answer.gib)));
    let mut page = Page {
        title: page_title("Volume", &[&answer.trace]),
        verdict: match best {
            Some(_) if answer.counters.is_some() => Verdict::new(Tone::Warning, "A lower bound"),
            Some(_) if answer.is_sure() => Verdict::new(Tone::Good, "What to buy"),
            Some(_) => Verdict::new(Tone::Warning, "It depends on the depth"),
            None => Verdict::new(Tone::Calm, "Nothing keeps the promise"),
        },
        headline: headline(answer),
        about,
        key_figures: best.map_or(Vec::new(), key_figures),
        ..Page::default()
    };
    add_first(&mut page, answer);
    page.add_notes("Keep in mind", Place::Detail, answer.cautions.clone());
    for depth_ms in &answer.depths_ms {
        let rows: Vec<&VolumeRow> =
            answer.rows.iter().filter(|row| row.depth_ms == *depth_ms).collect();
        let title =
            format!("All types, if bursts of {} beyond the rate pass at once", passes(*depth_ms));
        page.add(&title, Place::Detail, vec![Block::Table(in_detail(&rows, answer.provider))]);
    }
    if let Some(best) = best.filter(|best| !best.cheaper.is_empty()) {
        let table = Block::Table(cheaper(best));
        page.add("What smaller settings would do", Place::Detail, vec![table]);
    }
    if let Some(shaped) = &answer.shaped {
        page.add("With a shaper in front of the volume", Place::Detail, in_front(shaped));
    }
    if let Some(apply) = &answer.apply {
        page.add("How to apply it", Place::Detail, applied(apply));
    }
    let how = if answer.counters.is_some() { HOW_COUNTERS } else { HOW };
    page.add("How the answer is found", Place::Detail, vec![Block::Text(how.into())]);
    page
}

/// Formats the promise, as in `99 % within 10 ms`.
fn promise(answer: &Answer) -> String {
    format!("{} within {}", promised(answer.fraction), bound(answer.within_ms))
}

fn headline(answer: &Answer) -> String {
    let promise = promise(answer);
    match answer.best() {
        Some(best) => {
            // State a condition if the promise is kept only at a bucket depth above the smallest
            // assumed one.
            let condition = match answer.is_sure() {
                true => String::new(),
                false => format!(", if {} pass at once", passes(best.depth_ms)),
            };
            let choice = choice(&best.setting);
            let kind = &best.kind;
            let has = answer.current.iter().any(|current| apply::is_same(current, best));
            let verb = if has || best.setting.is_fixed { "Keep" } else { "Buy" };
            if answer.counters.is_some() {
                return format!(
                    "At least {kind}, {choice}: less cannot answer {promise}{condition}."
                );
            }
            match (best.setting.price_month, answer.kept().count()) {
                (None, 2..) => {
                    format!("{kind}, {choice}, answers {promise}{condition}; no price is known.")
                }
                _ if !has && answer.current.iter().any(|current| current.kind == *kind) => {
                    format!("Change your {kind} to {choice}: it answers {promise}{condition}.")
                }
                _ => format!("{verb} {kind}, {choice}: it answers {promise}{condition}."),
            }
        }
        None if answer.counters.is_some() => {
            format!("No volume that was tried can answer {promise}.")
        }
        None => format!("No volume that was tried answers {promise}."),
    }
}

/// Returns the monthly price.
fn price(setting: &Setting) -> Option<Figure> {
    let currency = setting.currency.as_ref()?.as_bytes().try_into().ok()?;
    Some(Figure::new(setting.price_month?, Unit::Money(currency)))
}

fn price_cell(setting: Option<&Setting>) -> Cell {
    setting.and_then(price).map_or(Cell::Missing, Cell::Figure)
}

fn key_figures(best: &VolumeRow) -> Vec<KeyFigure> {
    let price = price(&best.setting).map(|figure| key("a month", figure.value, figure.unit));
    let in_time = key("in time", best.in_time_fraction, Unit::Achieved);
    let p999 = best.p999_ms.map(|ms| key("99.9 % within", ms / 1e3, Unit::Seconds));
    price.into_iter().chain([in_time]).chain(p999).collect()
}

/// Returns the rows that keep the promise at the bucket depth of the best row: only those of the
/// user's provider if the best row is one of these, or else all.
fn shown(answer: &Answer) -> Vec<&VolumeRow> {
    let elsewhere = |row: &VolumeRow| apply::is_elsewhere(&row.kind, answer.provider);
    let is_best_elsewhere = answer.best().is_some_and(elsewhere);
    answer.kept().filter(|row| is_best_elsewhere || !elsewhere(row)).collect()
}

/// Adds the sections of the first screen.
fn add_first(page: &mut Page, answer: &Answer) {
    let kept = shown(answer);
    let mut shown = answer.said.len();
    if !kept.is_empty() {
        let first = &kept[..kept.len().min(REPLAYED_ROWS)];
        page.add(
            match answer.counters {
                Some(_) => "The lowest settings that can keep the promise",
                None => "What keeps the promise",
            },
            Place::FirstScreen,
            vec![Block::Table(in_brief(first, answer))],
        );
        let command = command(answer).map(|(title, command)| (title, wrapped(command)));
        let lines = command.as_ref().map_or(0, |(_, lines)| lines.len() + 1);
        let taken = lines_of(&page.headline) + first.len() + lines + OTHER_LINES;
        shown = fitting(&answer.said, SCREEN_LINES.saturating_sub(taken));
        let said = answer.said.iter().take(shown).cloned().map(Block::Text);
        page.add("Why, and what is uncertain", Place::FirstScreen, said.collect());
        if let Some((title, lines)) = command {
            page.add(title, Place::FirstScreen, vec![Block::Commands(lines)]);
        }
    } else {
        let said = answer.said.iter().cloned().map(Block::Text);
        page.add("Why", Place::FirstScreen, said.collect());
    }
    let more = answer.said.iter().skip(shown).cloned().map(Block::Text);
    page.add("What else is assumed", Place::Detail, more.collect());
}

/// Returns the command that creates or changes to the best volume, with its title; `None` if the
/// user already has that volume.
fn command(answer: &Answer) -> Option<(&'static str, &String)> {
    let (best, apply) = (answer.best()?, answer.apply.as_ref()?);
    if answer.counters.is_some() {
        return None;
    }
    match answer.current.first() {
        Some(current) if apply::is_same(current, best) => None,
        Some(current) if apply::is_modifiable(current, best) => {
            Some(("To change your volume", apply.modify.as_ref()?))
        }
        _ => Some(("To create it", apply.create.as_ref()?)),
    }
}

/// The maximum number of sentences on the first screen of a terminal.
const FIRST_SENTENCES: usize = 4;
/// The number of lines on the first screen of a terminal.
const SCREEN_LINES: usize = 24;
/// The number of lines taken by blank lines, key figures and the head of the table.
const OTHER_LINES: usize = 8;

/// Returns the number of lines that `text` takes on a terminal.
fn lines_of(text: &str) -> usize {
    // Lines are broken between words, so assume that they are a little shorter than the width of
    // the screen.
    text.chars().count().div_ceil(COMMAND_COLUMNS)
}

/// Returns how many sentences fit into `lines`, with a blank line after each.
fn fitting(said: &[String], lines: usize) -> usize {
    let mut left = lines;
    let fits = |sentence: &&String| {
        let rest = left.checked_sub(lines_of(sentence) + 1);
        left = rest.unwrap_or(left);
        rest.is_some()
    };
    said.iter().take(FIRST_SENTENCES).take_while(fits).count()
}

fn mark(nth: usize, row: &VolumeRow, here: Option<&str>) -> RowMark {
    if nth > 0 || row.setting.price_month.is_none() {
        return RowMark::Plain;
    }
    let here = here.filter(|_| !apply::is_elsewhere(&row.kind, here));
    let among = here.map_or(String::new(), |here| format!(" {here}*"));
    RowMark::Best(format!("cheapest{among}"))
}

fn count(value: Option<u64>) -> Cell {
    Cell::value(value.map(|value| value as f64))
}

fn words(words: Option<String>) -> Cell {
    words.unwrap_or_else(|| NONE.into()).into()
}

/// Returns the name of the row's volume type, with its tier.
fn name(row: &VolumeRow) -> String {
    match &row.setting.tier {
        Some(tier) => format!("{} {tier}", row.kind),
        None => row.kind.clone(),
    }
}

fn in_brief(rows: &[&VolumeRow], answer: &Answer) -> Table {
    let deeper = |ms: &f64| rows.first().is_some_and(|row| *ms > row.depth_ms);
    let other_ms = answer.depths_ms.iter().copied().filter(deeper).reduce(f64::max);
    let mut heads = vec![
        Column::words("type"),
        Column::of("GiB", Unit::Count),
        Column::of("IOPS", Unit::Count),
        Column::words("throughput"),
        Column::of("a month", Unit::Number),
    ];
    heads
        .extend(other_ms.map(|ms| Column::of(format!("if {} may burst", bound(ms)), Unit::Number)));
    let mut table = Table::new(heads);
    table.rows.extend(rows.iter().enumerate().map(|(nth, row)| {
        let mut cells = vec![
            name(row).into(),
            Cell::Value(row.setting.gib as f64),
            count(row.setting.iops),
            words(throughput(&row.setting)),
            price_cell(Some(&row.setting)),
        ];
        cells.extend(other_ms.map(|ms| {
            let other =
                answer.rows.iter().find(|other| other.kind == row.kind && other.depth_ms == ms);
            price_cell(other.filter(|other| other.keeps).map(|other| &other.setting))
        }));
        TableRow { mark: mark(nth, row, answer.provider), cells }
    }));
    table
}

fn in_detail(rows: &[&VolumeRow], here: Option<&str>) -> Table {
    let mark = |(nth, row): (usize, &&VolumeRow)| match row.keeps {
        true => mark(nth, row, here),
        false => RowMark::Plain,
    };
    Table::listing(
        rows,
        &[
            (Column::words("type"), &|row| name(row).into()),
            (Column::of("GiB", Unit::Count), &|row| (row.setting.gib as f64).into()),
            (Column::of("IOPS", Unit::Count), &|row| count(row.setting.iops)),
            (Column::words("throughput"), &|row| words(throughput(&row.setting))),
            (Column::of("a month", Unit::Number), &|row| price_cell(Some(&row.setting))),
            (Column::words("keeps"), &|row| if row.keeps { "yes" } else { "no" }.into()),
            (Column::of("in time", Unit::Achieved), &|row| row.in_time_fraction.into()),
            (Column::of("if they wait", Unit::Achieved), &|row| {
                row.dependent_in_time_fraction.into()
            }),
            (Column::of("99.9 %", Unit::Seconds), &|row| Cell::ms(row.p999_ms)),
            (Column::of("longest", Unit::Seconds), &|row| Cell::ms(row.longest_ms)),
            (Column::words("waits for"), &|row| {
                words(row.decides.map(|decides| decides.name().into()))
            }),
            (Column::of("burst", Unit::Seconds), &|row| row.burst_s.into()),
            (Column::of("credit left", Unit::Share), &|row| row.credit_least_share.into()),
        ],
    )
    .marked(rows.iter().enumerate().map(mark))
}

/// Builds the table of settings below that of `best`.
fn cheaper(best: &VolumeRow) -> Table {
    Table::listing(
        best.cheaper.iter().chain(&best.smallest),
        &[
            (Column::of("GiB", Unit::Count), &|of| (of.setting.gib as f64).into()),
            (Column::of("IOPS", Unit::Count), &|of| count(of.setting.iops)),
            (Column::words("throughput"), &|of| words(throughput(&of.setting))),
            (Column::of("a month", Unit::Number), &|of| price_cell(Some(&of.setting))),
            (Column::of("in time", Unit::Achieved), &|of| of.in_time_fraction.into()),
        ],
    )
}

fn in_front(shaped: &shaped::Shaped) -> Vec<Block> {
    let saved = 1.0 - shaped.shaped_iops as f64 / shaped.fifo_iops.max(1) as f64;
    let text = format!(
        "A volume serves requests first come, first served, which requires {} IOPS for this \
         promise if each request counts as one. A shaper that defers the requests that it cannot \
         answer in time requires {}, {} less; the deferred requests wait longer.",
        shaped.fifo_iops,
        shaped.shaped_iops,
        percent(saved)
    );
    vec![Block::Text(text), Block::Commands(vec![shaped.serve.clone()])]
}

fn applied(apply: &apply::Apply) -> Vec<Block> {
    let command = |title: &str, command: &Option<String>| {
        let lines = command.as_ref().map(|command| vec![command.clone()]);
        lines.map(|lines| [Block::Text(title.into()), Block::Commands(lines)])
    };
    let both =
        [command("A new volume:", &apply.create), command("An existing volume:", &apply.modify)];
    let lines = |text: &str| text.lines().map(String::from).collect();
    let mut all: Vec<Block> = both.into_iter().flatten().flatten().collect();
    all.extend([
        Block::Text(
            "The same limits on a virtual disk (libvirt; the lowest of the volume's rates):".into(),
        ),
        Block::Commands(lines(&apply.libvirt)),
        Block::Text("In io.max of cgroup v2, which limits reads and writes separately:".into()),
        Block::Commands(lines(&apply.cgroup)),
    ]);
    all
}

/// Breaks a command into several lines, each starting with an option.
fn wrapped(command: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut parts = command.split(" --");
    lines.extend(parts.next().map(String::from));
    for part in parts {
        match lines.last_mut() {
            Some(line) if line.len() + 3 + part.len() <= COMMAND_COLUMNS => {
                line.push_str(" --");
                line.push_str(part);
            }
            _ => {
                if let Some(line) = lines.last_mut() {
                    line.push_str(" \\");
                }
                lines.push(format!("    --{part}"));
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_commands_are_continued() {
        let short = "aws ec2 create-volume --size 500";
        assert_eq!(wrapped(short), [short]);
        let long =
            format!("az disk create --name {} --sku PremiumV2_LRS --size-gb 500", "n".repeat(40));
        let lines = wrapped(&long);
        assert!(lines.len() == 2 && lines[0].ends_with(" \\"), "{lines:?}");
        assert!(lines.iter().all(|line| line.len() <= 80), "{lines:?}");
        assert_eq!(lines.join("").replace(" \\    --", " --"), long);
    }
}
