//! Pages: answers for human readers. A page is laid out once, and rendered for the terminal, HTML
//! and Markdown.

use crate::{Figure, Table, Unit};

/// An answer for human readers, laid out as a headline, key figures and sections.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// The title of the browser's window or tab, such as "Capacity: web.csv".
    pub title: String,
    /// The verdict: the kind of answer, in two or three words.
    pub verdict: Verdict,
    /// The answer in one sentence of at most 25 words.
    pub headline: String,
    /// What the answer is about, as (term, text): ("Trace", "web.csv").
    pub about: Vec<(String, String)>,
    /// The most important figures of the answer, at most three.
    pub key_figures: Vec<KeyFigure>,
    /// All other content, in reading order.
    pub sections: Vec<Section>,
}

/// The kind of answer, in words and by its tone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// The tone of the verdict, which determines its color.
    pub tone: Tone,
    /// The words of the verdict, two or three.
    pub words: String,
}

/// Whether an answer is good news.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// The answer is positive: something helps, or a promise is kept.
    Good,
    /// Neither good nor bad news.
    #[default]
    Calm,
    /// Bad news: something is wrong.
    Warning,
}

/// A figure that the page shows in large type.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyFigure {
    /// The name of the figure.
    pub name: String,
    /// The value of the figure before a change, or another value to compare it with.
    pub before: Option<Figure>,
    /// The figure itself.
    pub figure: Figure,
}

/// A section of a page: blocks under a title.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    /// The title of the section. The first screen of a terminal omits it.
    pub title: String,
    /// Where the section is shown.
    pub place: Place,
    /// The blocks of the section, in reading order.
    pub blocks: Vec<Block>,
}

/// Where a section of a page is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On the first screen of a terminal, and on every page.
    FirstScreen,
    /// On pages, and on a terminal only with `--explain`.
    Detail,
    /// Like `Detail`, but collapsed on pages. Unless the reader opens it, it is not printed on
    /// paper.
    Folded,
}

/// A block of content in a section.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// A paragraph. Text between backticks is rendered as code.
    Text(String),
    /// A list with one sentence per item.
    List(Vec<String>),
    /// Short terms, each with its explanation.
    Terms(Vec<(String, String)>),
    /// Caveats, one sentence each.
    Notes(Vec<String>),
    /// Commands to run, which are printed unchanged.
    Commands(Vec<String>),
    /// A table of typed cells.
    Table(Table),
    /// A line chart.
    Chart(Chart),
    /// The meaning of the colors in the pictures that follow, as (class of the style sheet,
    /// meaning). Terminals omit it.
    Legend(Vec<(String, String)>),
    /// Blocks that are placed side by side if the page is wide enough.
    Beside(Vec<Block>),
    /// A ready-made picture. Terminals omit it.
    Picture {
        /// The picture as SVG.
        svg: String,
        /// The caption below the picture, as HTML.
        caption: String,
    },
}

/// A chart with lines over a horizontal axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// An id that is unique on the page and consists of letters, digits and dashes.
    pub id: String,
    /// The title above the chart.
    pub title: String,
    /// A description of the chart for readers who cannot see it.
    pub description: String,
    /// The horizontal axis of the chart.
    pub x: ChartAxis,
    /// The vertical axis of the chart.
    pub y: ChartAxis,
    /// The lines of the chart, which differ in color and dashes.
    pub series: Vec<Series>,
    /// Whether the chart has half the width, so that two of them are placed side by side.
    pub is_half: bool,
}

/// An axis of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct ChartAxis {
    /// The label of the axis with its unit, such as "requests in time, %".
    pub name: String,
    /// The unit of the values on the axis.
    pub unit: Unit,
    /// The factor by which values are multiplied for labels: 100 for shares in percent.
    pub labels_per: f64,
    /// The scale of the axis: where it begins and how its steps grow.
    pub scale: ChartScale,
}

impl ChartAxis {
    /// Creates an axis.
    pub fn new(name: &str, unit: Unit, labels_per: f64, scale: ChartScale) -> ChartAxis {
        ChartAxis { name: name.into(), unit, labels_per, scale }
    }
}

/// Where an axis begins, and how its steps grow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ChartScale {
    /// A linear scale from 0.
    Linear,
    /// A linear scale between two values.
    Between(f64, f64),
    /// A logarithmic scale of milliseconds, in decades.
    Decades,
    /// A logarithmic scale of a plain number, in decades.
    PlainDecades,
    /// A logarithmic scale of bytes, in powers of two.
    Doublings,
}

/// A line of a chart, with its name and its points.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The name of the line in the legend.
    pub name: String,
    /// The points of the line as (x, y), from left to right.
    pub points: Vec<(f64, f64)>,
    /// Whether the line is faint, because other lines stand out.
    pub is_faint: bool,
}

impl Page {
    /// Calls `change` with every text of the page, so that it can be changed in place.
    pub fn for_each_text(&mut self, change: &mut dyn FnMut(&mut String)) {
        change(&mut self.headline);
        self.about.iter_mut().for_each(|(_, text)| change(text));
        for section in &mut self.sections {
            change(&mut section.title);
            section.blocks.iter_mut().for_each(|block| block.for_each_text(change));
        }
    }

    /// Returns whether the first screen of a terminal omits any content.
    pub fn has_details(&self) -> bool {
        self.sections.iter().any(|section| section.place != Place::FirstScreen)
    }

    /// Removes those notes that are in `told`, because the reader has already seen them elsewhere.
    pub fn leave_out_notes(&mut self, told: &[String]) {
        for section in &mut self.sections {
            section.blocks.retain_mut(|block| match block {
                Block::Notes(notes) => {
                    notes.retain(|note| !told.contains(note));
                    !notes.is_empty()
                }
                _ => true,
            });
        }
        self.sections.retain(|section| !section.blocks.is_empty());
    }

    /// Adds a section to the page, unless it has no blocks.
    pub fn add(&mut self, title: &str, place: Place, blocks: Vec<Block>) {
        if !blocks.is_empty() {
            self.sections.push(Section { title: title.to_string(), place, blocks });
        }
    }

    /// Adds a section of notes to the page, unless there are none.
    pub fn add_notes(&mut self, title: &str, place: Place, notes: Vec<String>) {
        if !notes.is_empty() {
            self.add(title, place, vec![Block::Notes(notes)]);
        }
    }
}

impl Block {
    fn for_each_text(&mut self, change: &mut dyn FnMut(&mut String)) {
        match self {
            Block::Text(text) => change(text),
            Block::List(texts) | Block::Notes(texts) | Block::Commands(texts) => {
                texts.iter_mut().for_each(change)
            }
            Block::Terms(terms) => terms.iter_mut().for_each(|(_, text)| change(text)),
            Block::Table(table) => {
                let cells = table.rows.iter_mut().flat_map(|row| &mut row.cells);
                for cell in cells {
                    use crate::Cell;
                    if let Cell::Words(words) | Cell::Judged { words, .. } = cell {
                        change(words);
                    }
                }
            }
            Block::Beside(blocks) => blocks.iter_mut().for_each(|one| one.for_each_text(change)),
            Block::Chart(_) | Block::Legend(_) | Block::Picture { .. } => {}
        }
    }
}

impl Verdict {
    /// Creates a verdict with these two or three `words`.
    pub fn new(tone: Tone, words: impl Into<String>) -> Verdict {
        Verdict { tone, words: words.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_already_printed_are_left_out() {
        let mut page = Page::default();
        page.add("Text", Place::FirstScreen, vec![Block::Text("a".into())]);
        page.add_notes("All told", Place::FirstScreen, vec!["a".into()]);
        page.add_notes("Some told", Place::FirstScreen, vec!["b".into(), "a".into()]);
        page.leave_out_notes(&["a".into()]);
        let titles: Vec<&str> =
            page.sections.iter().map(|section| section.title.as_str()).collect();
        assert_eq!(titles, ["Text", "Some told"]);
        assert_eq!(page.sections[1].blocks, [Block::Notes(vec!["b".into()])]);
    }
}
