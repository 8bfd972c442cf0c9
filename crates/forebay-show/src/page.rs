//! Pages: answers for human readers, laid out once for the terminal, HTML and Markdown.

use crate::figure::{Figure, Unit};
use crate::table::Table;

/// An answer for human readers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// The title of the window or tab: "Capacity: web.csv".
    pub title: String,
    /// The kind of answer, in two or three words.
    pub verdict: Verdict,
    /// The answer in a sentence of at most 25 words.
    pub headline: String,
    /// The subject, as (term, text): ("Trace", "web.csv").
    pub about: Vec<(String, String)>,
    /// The most important figures, at most three.
    pub key_figures: Vec<KeyFigure>,
    /// Everything else, in reading order.
    pub sections: Vec<Section>,
}

/// The kind of answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// The tone, which determines the color.
    pub tone: Tone,
    /// The verdict in two or three words.
    pub words: String,
}

/// Whether an answer is good news.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Something helps, or a promise holds.
    Good,
    /// Neither good nor bad.
    #[default]
    Calm,
    /// Something is wrong.
    Warning,
}

/// A figure that is shown in large type.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyFigure {
    /// The name of the figure.
    pub name: String,
    /// The previous value, or another value to compare with.
    pub before: Option<Figure>,
    /// The figure.
    pub figure: Figure,
}

/// Blocks under a title.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    /// The title; the first screen of a terminal omits it.
    pub title: String,
    /// Where it is shown.
    pub place: Place,
    /// The content, in reading order.
    pub blocks: Vec<Block>,
}

/// Where a section is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On a terminal's first screen, and on every page.
    FirstScreen,
    /// On pages, and on a terminal with `--explain`.
    Detail,
    /// Like `Detail`, but collapsed on pages, and left out on paper, unless the reader opens it.
    Folded,
}

/// A part of a section.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// A paragraph. Text between backticks is code.
    Text(String),
    /// A list with one sentence per item.
    List(Vec<String>),
    /// Short terms, each with its text.
    Terms(Vec<(String, String)>),
    /// Caveats, one sentence each.
    Notes(Vec<String>),
    /// Commands to run, printed unchanged.
    Commands(Vec<String>),
    /// A table.
    Table(Table),
    /// A chart.
    Chart(Chart),
    /// The meaning of the colors in the pictures that follow: classes of the style sheet with their names. Terminals
    /// omit it.
    Legend(Vec<(String, String)>),
    /// Blocks placed side by side if the page is wide enough.
    Beside(Vec<Block>),
    /// A ready-made picture as SVG, and its caption as HTML. Terminals omit it.
    Picture {
        /// The picture.
        svg: String,
        /// The caption below the picture.
        caption: String,
    },
}

/// Lines over a horizontal axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// An id that is unique on the page, made of letters, digits and dashes.
    pub id: String,
    /// The title above the chart.
    pub title: String,
    /// A description for readers who cannot see the chart.
    pub description: String,
    /// The horizontal axis.
    pub x: ChartAxis,
    /// The vertical axis.
    pub y: ChartAxis,
    /// The lines, distinguished by color and dashes.
    pub series: Vec<Series>,
    /// Whether two such charts are placed side by side.
    pub is_half: bool,
}

/// An axis of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct ChartAxis {
    /// The label of the axis, with its unit: "requests in time, %".
    pub name: String,
    /// The unit of its values.
    pub unit: Unit,
    /// The factor between values and labels: 100 for shares in percent.
    pub labels_per: f64,
    /// The scale: where the axis begins and how its steps grow.
    pub scale: ChartScale,
}

/// How the steps of an axis grow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ChartScale {
    /// Equal steps from 0.
    Linear,
    /// Equal steps between two values.
    Between(f64, f64),
    /// In decades of milliseconds.
    Decades,
    /// In decades of a plain number.
    PlainDecades,
    /// In powers of two.
    Doublings,
}

/// A line of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// Points as (x, y), from left to right.
    pub points: Vec<(f64, f64)>,
    /// Whether the line is faint because others stand out.
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

    /// Returns whether the first screen of a terminal omits anything.
    pub fn has_details(&self) -> bool {
        self.sections.iter().any(|section| section.place != Place::FirstScreen)
    }

    /// Removes the notes in `told`, which the reader has already seen elsewhere.
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

    /// Adds a section, unless it has no blocks.
    pub fn add(&mut self, title: &str, place: Place, blocks: Vec<Block>) {
        if !blocks.is_empty() {
            self.sections.push(Section { title: title.to_string(), place, blocks });
        }
    }

    /// Adds a section of notes, unless there are none.
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
                    use crate::table::Cell;
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
    /// Creates a verdict; `words` are two or three words.
    pub fn new(tone: Tone, words: impl Into<String>) -> Verdict {
        Verdict { tone, words: words.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_that_were_told_are_left_out() {
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
