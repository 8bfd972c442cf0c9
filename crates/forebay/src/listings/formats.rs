//! The verb `formats`, which lists trace formats.

use forebay_ask::{named, suggestion};
use forebay_core::SpecError;
use forebay_show::{Block, Cell, Column, Page, Place, Row, Table, Tone, Verdict};
use forebay_trace::formats::{FORMATS, Format};
use forebay_words::plural::{counted, listed};
use serde::Serialize;

use crate::Error;
use crate::verb::{Answered, Session, Verb};

forebay_ask::ask! {
    /// List the trace formats, or show an example of each format named
    pub struct FormatsAsk("formats") {
        /// The formats to describe; without any, all are listed
        name: Vec<String> [.positional().word("FORMAT")],
    }
}

#[derive(Serialize)]
struct FormatsAnswer {
    rows: Vec<ListedFormat>,
}

/// A trace format, as listed.
#[derive(Serialize)]
struct ListedFormat {
    /// The format's name, as `--from` accepts it.
    name: &'static str,
    /// A description of the format.
    about: &'static str,
    /// The equivalent `--columns` declaration, if the format can be declared that way.
    columns: Option<&'static str>,
    /// The first lines of a trace; or a command that makes one, after `$`.
    example: &'static str,
}

impl ListedFormat {
    fn of(format: &'static Format) -> ListedFormat {
        let columns = format.preset().map(|preset| preset.columns);
        ListedFormat { name: format.name, about: format.about, columns, example: format.example }
    }

    fn example(&self) -> Block {
        Block::Commands(self.example.lines().map(str::to_owned).collect())
    }
}

impl Verb for FormatsAsk {
    type Beyond = ();

    fn run(self, _: &mut dyn Session) -> Result<Answered, Error> {
        let rows = formats_named(&self.name)?;
        let page = match self.name.is_empty() {
            true => all_page(&rows),
            false => named_page(&rows),
        };
        Answered::new(&FormatsAnswer { rows }, page)
    }
}

/// Returns the formats with these names, or all formats if `names` is empty.
fn formats_named(names: &[String]) -> Result<Vec<ListedFormat>, SpecError> {
    if names.is_empty() {
        return Ok(FORMATS.iter().map(ListedFormat::of).collect());
    }
    let format = |name: &String| {
        Format::named(name).map(ListedFormat::of).ok_or_else(|| {
            let known: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
            let near = suggestion(name, &known);
            SpecError(format!("no format '{name}'{near}; `forebay formats` lists all"))
        })
    };
    names.iter().map(format).collect()
}

fn titled(headline: String) -> Page {
    let verdict = Verdict::new(Tone::Calm, "Formats");
    Page { title: "Trace formats".into(), verdict, headline, ..Page::default() }
}

/// Builds the page of all formats: a table, then an example of each.
fn all_page(rows: &[ListedFormat]) -> Page {
    let count = counted(rows.len() as u64, "format");
    let mut page = titled(format!("Forebay reads {count}, and recognizes most by their content."));
    let mut table = Table::new(["format", "what it is"].map(Column::words));
    table.rows = rows.iter().map(|row| Row::new([row.name, row.about].map(Cell::from))).collect();
    let names = |has_columns: bool| {
        let group = rows.iter().filter(|row| row.columns.is_some() == has_columns);
        group.map(|row| row.name).collect::<Vec<_>>().join(", ")
    };
    let groups = vec![
        format!("Tools' own formats: {}", names(false)),
        format!("Text with one request per line: {}", names(true)),
        format!("Any other such text: declare its columns with {}", named("columns")),
    ];
    let more = "`forebay formats NAME` describes a format, with an example; `--explain` describes all \
         formats.";
    page.add("Formats", Place::FirstScreen, vec![Block::List(groups), Block::Text(more.into())]);
    page.add("What they are", Place::Detail, vec![Block::Table(table)]);
    for row in rows {
        page.add(row.name, Place::Detail, vec![row.example()]);
    }
    page
}

/// Builds the page of the formats that the user named, with their examples.
fn named_page(rows: &[ListedFormat]) -> Page {
    let names: Vec<&str> = rows.iter().map(|row| row.name).collect();
    let mut page = titled(format!("{}.", listed(&names)));
    for row in rows {
        let blocks = vec![Block::Text(format!("{}.", row.about)), row.example()];
        page.add(row.name, Place::FirstScreen, blocks);
        if let Some(columns) = row.columns {
            // A declaration of columns has no spaces at which a line could be broken.
            let option = Block::Text(named(&format!("columns={columns}")));
            page.add(&format!("{} is the same as", row.name), Place::Detail, vec![option]);
        }
    }
    page
}
