//! A report page of sentences, tables and charts, for results that the caller has assembled.

use crate::quantities::promised;
use serde::Deserialize;

use super::claims::{self, ClaimGroup};
use forebay_show::html::axis::Axis;
use forebay_show::html::bars::{self, Bar};
use forebay_show::html::charts::{legend, series_class};
use forebay_show::html::document::{document, header, section};
use forebay_show::html::figure;
use forebay_show::html::paragraphs::{inline, paragraphs};
use forebay_show::html::plot::{Caption, Plot, in_both};
use forebay_show::html::table::{Mark, table};
use forebay_show::html::text::{NONE, bytes, count, escape, name, significant};

/// The contents of a report page.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlainPage {
    /// The title of the page.
    pub title: String,
    /// The verdict of the page, in two or three words.
    pub verdict: String,
    /// The result in one sentence.
    pub headline: String,
    /// Further findings, one paragraph each.
    pub findings: Vec<String>,
    /// Cautions, one sentence each.
    pub cautions: Vec<String>,
    /// The tables of the page.
    pub tables: Vec<PlainTable>,
    /// The line chart of the page, if it has one.
    pub curve: Option<PlainCurve>,
    /// The bar chart of the page, if it has one.
    #[serde(default)]
    pub bars: Option<PlainBars>,
    /// Claims from the literature with their verdicts.
    #[serde(default)]
    pub claims: Vec<ClaimGroup>,
}

/// A table of the page.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlainTable {
    /// The title of the table.
    pub title: String,
    /// The text shown above the table.
    #[serde(default)]
    pub told: String,
    /// The headings of the columns.
    pub heads: Vec<String>,
    /// The rows of the table; the first cell is the name of the row.
    pub rows: Vec<Vec<PlainCell>>,
}

/// A cell of a table.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum PlainCell {
    /// A count, shown with all digits.
    Count(i64),
    /// A figure, shown with three digits.
    Figure(f64),
    /// A name, truncated if it is too long for a table.
    Text(String),
    /// A sentence, which is never truncated.
    Said {
        /// The text of the sentence.
        said: String,
    },
    /// An empty cell.
    None,
}

/// A line chart of the page.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlainCurve {
    /// The title of the chart.
    pub title: String,
    /// The label of the x axis.
    pub along: String,
    /// The scale of the x axis.
    #[serde(default)]
    pub along_unit: AlongUnit,
    /// The label of the y axis.
    pub up: String,
    /// The points of the line, as (x, y), if there is only one line.
    pub points: Vec<(f64, f64)>,
    /// The lines of the chart, if there are several.
    #[serde(default)]
    pub lines: Vec<PlainLine>,
}

/// One of the lines of a line chart.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlainLine {
    /// The name of the line; may be empty if it is the only one.
    pub name: String,
    /// The points of the line, as (x, y).
    pub points: Vec<(f64, f64)>,
}

/// A bar chart of the page.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlainBars {
    /// The title of the chart.
    pub title: String,
    /// What the length of a bar means.
    pub told: String,
    /// The bars, in the order in which they are drawn.
    pub bars: Vec<PlainBar>,
}

/// A bar of a bar chart.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlainBar {
    /// The name of the bar.
    pub name: String,
    /// The length of the bar.
    pub size: f64,
}

/// The scale and the unit of an x axis.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum AlongUnit {
    /// A linear scale without a unit.
    #[default]
    Plain,
    /// A logarithmic scale in GiB.
    Gib,
    /// A linear scale in percent, from the least of the points to 100 %.
    Percent,
}

/// The maximum number of rows of a table that are shown.
const ROWS_MAX: usize = 200;
/// The maximum number of points that are drawn with markers and tooltips.
const SPOTS_MAX: usize = 300;

pub(super) fn page(page: &PlainPage) -> String {
    let mut body = header(("calm", &escape(&page.verdict)), &page.headline, &[]);
    body += &paragraphs("What is found", "findings", &page.findings);
    body += &page.curve.as_ref().map_or(String::new(), curve);
    body += &page.bars.as_ref().map_or(String::new(), barred);
    body += &page.tables.iter().map(tabled).collect::<String>();
    body += &page.claims.iter().map(claims::group).collect::<String>();
    body += &paragraphs("Keep in mind", "cautions", &page.cautions);
    document(&page.title, &body)
}

fn cell(cell: &PlainCell) -> String {
    match cell {
        PlainCell::Count(number) => {
            let sign = if *number < 0 { "−" } else { "" };
            format!("{sign}{}", count(number.unsigned_abs()))
        }
        PlainCell::Figure(figure) => significant(*figure),
        PlainCell::Text(text) => name(text),
        PlainCell::Said { said: text } => format!("<span class=\"said\">{}</span>", inline(text)),
        PlainCell::None => NONE.to_string(),
    }
}

fn tabled(of: &PlainTable) -> String {
    let heads: Vec<String> = of.heads.iter().map(|head| escape(head)).collect();
    let shown = of.rows.iter().take(ROWS_MAX);
    let rows: Vec<_> = shown.map(|row| (Mark::Plain, row.iter().map(cell).collect())).collect();
    let paragraph = |text: &str| match text {
        "" => String::new(),
        text => format!("<p class=\"small\">{}</p>", inline(text)),
    };
    let more = match of.rows.len().saturating_sub(ROWS_MAX) {
        0 => String::new(),
        more => paragraph(&format!("And {more} more.")),
    };
    section(&escape(&of.title), &(paragraph(&of.told) + &table(&heads, &rows) + &more))
}

fn curve(of: &PlainCurve) -> String {
    let worth = match of.along_unit {
        AlongUnit::Plain | AlongUnit::Percent => 1.0,
        AlongUnit::Gib => (1u64 << 30) as f64,
    };
    let finite = |points: &[(f64, f64)]| -> Vec<(f64, f64)> {
        let finite = points.iter().filter(|(x, y)| x.is_finite() && y.is_finite());
        finite.map(|(x, y)| (x * worth, *y)).collect()
    };
    let one = (!of.points.is_empty()).then(|| ("", finite(&of.points)));
    let several = of.lines.iter().map(|line| (line.name.as_str(), finite(&line.points)));
    let lines: Vec<(&str, Vec<(f64, f64)>)> = one.into_iter().chain(several).collect();
    let all = || lines.iter().flat_map(|line| &line.1);
    let most = |axis: fn(&(f64, f64)) -> f64| all().map(axis).fold(0.0, f64::max);
    let (along, up) = (most(|point| point.0), most(|point| point.1));
    if lines.iter().all(|line| line.1.len() < 2) || along <= 0.0 || up <= 0.0 {
        return String::new();
    }
    let shown = Lines { of, lines: &lines, along, up };
    let description = format!("{}. {}", of.up, shown.read());
    let caption = Caption { id: "curve", title: &of.title, description: &description };
    let picture = in_both(&caption, |caption, shape| Some(shown.draw(caption, shape.size())));
    let names = match lines.as_slice() {
        [("", _)] => String::new(),
        several => legend(several.iter().map(|line| line.0), &[]),
    };
    let draw = |picture: String| {
        section(&escape(&of.title), &(names + &figure(&picture, &escape(&of.up))))
    };
    picture.map_or(String::new(), draw)
}

/// The lines of a chart with their names, and the axes' ranges.
struct Lines<'a> {
    of: &'a PlainCurve,
    lines: &'a [(&'a str, Vec<(f64, f64)>)],
    along: f64,
    up: f64,
}

impl Lines<'_> {
    /// Formats an x value with the unit of the axis.
    fn at(&self, x: f64) -> String {
        match self.of.along_unit {
            AlongUnit::Plain => significant(x),
            AlongUnit::Percent => promised(x / 100.0),
            AlongUnit::Gib => bytes(x),
        }
    }

    /// Describes where each line begins and ends, for readers who cannot see the chart.
    fn read(&self) -> String {
        let ends = |(whose, points): &(&str, Vec<(f64, f64)>)| {
            let (first, last) = points.first().zip(points.last())?;
            let whose = if whose.is_empty() { self.of.up.as_str() } else { whose };
            let ends = [first, last]
                .map(|point| format!("{} at {}", significant(point.1), self.at(point.0)));
            Some(format!("{whose}: {}", ends.join(", ")))
        };
        let each: Vec<String> = self.lines.iter().filter_map(ends).collect();
        format!("Over {}: {}.", self.of.along, each.join("; "))
    }

    fn draw(&self, caption: &Caption<'_>, size: (f64, f64)) -> String {
        let Lines { of, lines, along, up } = *self;
        let all = || lines.iter().flat_map(|line| &line.1);
        let ((left, right), (bottom, top)) = (Plot::across(size.0), Plot::upwards(size.1));
        let least = all().map(|point| point.0).filter(|x| *x > 0.0).fold(along, f64::min);
        let x = match of.along_unit {
            AlongUnit::Percent if least < 100.0 => Axis::between(least, 100.0, left, right),
            AlongUnit::Plain | AlongUnit::Percent => Axis::linear(along, left, right),
            AlongUnit::Gib => Axis::doublings(least, along, left, right),
        };
        let y = Axis::linear(up * 1.05, bottom, top);
        let mut plot = Plot::new(caption, size, (x, &of.along), (y, &of.up));
        // Few points are drawn as markers, many points as a line.
        let are_few = all().count() <= SPOTS_MAX;
        for (index, (whose, points)) in lines.iter().enumerate() {
            let class = format!("series {}", series_class(index));
            plot.line(points, &class);
            if are_few && !of.lines.is_empty() {
                plot.dots(points, &format!("{class} spots"));
            }
            let whose = if whose.is_empty() { String::new() } else { format!("{whose}, ") };
            plot.spots(points, SPOTS_MAX / lines.len(), |(x, y)| {
                format!("{whose}{} {}: {}", of.along, self.at(x), significant(y))
            });
        }
        plot.finish()
    }
}

fn barred(of: &PlainBars) -> String {
    let bar = |bar: &PlainBar| Bar::single(&bar.name, bar.size, significant(bar.size), false);
    let bars: Vec<Bar> = of.bars.iter().map(bar).collect();
    let caption = Caption { id: "bars", title: &of.title, description: &of.told };
    let draw = |picture: String| section(&escape(&of.title), &figure(&picture, &escape(&of.told)));
    bars::picture(&caption, &bars, None).map_or(String::new(), draw)
}

#[cfg(test)]
mod tests {
    use super::super::claims::{ClaimCard, ClaimVerdict};
    use super::*;

    #[test]
    fn any_input_gives_a_complete_page() {
        let hostile = "<script>\"&'".to_string();
        let told = PlainPage {
            title: hostile.clone(),
            verdict: hostile.clone(),
            headline: hostile.clone(),
            findings: vec![hostile.clone()],
            cautions: vec![hostile.clone()],
            tables: vec![PlainTable {
                title: hostile.clone(),
                told: hostile.clone(),
                heads: vec![hostile.clone()],
                rows: vec![vec![
                    PlainCell::Text(hostile.clone()),
                    PlainCell::Figure(f64::NAN),
                    PlainCell::Count(1),
                    PlainCell::Said { said: hostile.clone() },
                    PlainCell::None,
                ]],
            }],
            curve: Some(PlainCurve {
                title: hostile.clone(),
                along: hostile.clone(),
                along_unit: AlongUnit::Gib,
                up: hostile.clone(),
                points: vec![(0.0, 1.0), (f64::NAN, 2.0), (3.0, 4.0)],
                lines: vec![PlainLine {
                    name: hostile.clone(),
                    points: vec![(1.0, f64::INFINITY), (1.0, 1.0)],
                }],
            }),
            bars: Some(PlainBars {
                title: hostile.clone(),
                told: hostile.clone(),
                bars: [1.0, f64::NAN, f64::INFINITY]
                    .map(|size| PlainBar { name: hostile.clone(), size })
                    .to_vec(),
            }),
            claims: vec![ClaimGroup {
                title: hostile.clone(),
                told: hostile.clone(),
                claims: vec![ClaimCard {
                    verdict: ClaimVerdict::InPart,
                    says: hostile.clone(),
                    source: hostile.clone(),
                    claimed: hostile.clone(),
                    found: hostile.clone(),
                    reason: hostile.clone(),
                    figures: vec![[(); 3].map(|()| hostile.clone()); 2],
                }],
            }],
        };
        let page = page(&told);
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
        roxmltree::Document::parse_with_options(&page, options).unwrap();
        let body = page.split("</style>").nth(1).unwrap();
        assert!(!body.contains("<script") && !body.contains("NaN") && body.contains("<svg"));
        assert!(body.contains("id=\"curve-t\"") && body.contains("id=\"bars-t\""));
    }

    #[test]
    fn curves_have_a_description_of_their_ends_for_screen_readers() {
        let of: PlainCurve = serde_json::from_value(serde_json::json!({
            "title": "t", "along": "flash", "along_unit": "gib", "up": "found", "points": [],
            "lines": [{ "name": "one", "points": [[1, 5], [2, 7], [4, 9]] }],
        }))
        .unwrap();
        let told = "found. Over flash: one: 5.00 at 1\u{a0}GiB, 9.00 at 4\u{a0}GiB.</desc>";
        assert_eq!(curve(&of).matches(told).count(), 2, "{}", curve(&of));
    }

    #[test]
    fn whole_numbers_are_counts_and_sentences_are_not_cut() {
        let long = "a message ".repeat(20);
        let cells: Vec<PlainCell> =
            serde_json::from_value(serde_json::json!([12, 12.0, -3, "x", { "said": long }, null]))
                .unwrap();
        let shown: Vec<String> = cells.iter().map(cell).collect();
        assert_eq!(shown[..4], ["12", "12.0", "−3", "x"]);
        assert!(shown[4].contains(&long) && shown[5] == NONE);
    }
}
