//! A page of sentences, tables and one curve, for answers that are put together elsewhere.

use serde::Deserialize;

use super::axis::Axis;
use super::claims::{self, ClaimGroup};
use super::page::{document, paragraphs, section};
use super::pictures::figure;
use super::plot::{Caption, Plot};
use super::tables::table;
use super::text::{NONE, escape, name, significant};

/// What the page shows.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlainPage {
    /// What it is about.
    pub title: String,
    /// Two or three words.
    pub verdict: String,
    /// The answer in a sentence.
    pub headline: String,
    /// What else there is to say.
    pub findings: Vec<String>,
    /// What to keep in mind.
    pub cautions: Vec<String>,
    /// Tables, each under its title.
    pub tables: Vec<PlainTable>,
    /// A picture.
    pub curve: Option<PlainCurve>,
    /// Claims of others.
    #[serde(default)]
    pub claims: Vec<ClaimGroup>,
}

/// A table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlainTable {
    /// Its title.
    pub title: String,
    /// Its headings.
    pub heads: Vec<String>,
    /// Its rows; the first cell of each is its name.
    pub rows: Vec<Vec<PlainCell>>,
}

/// A cell.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum PlainCell {
    /// A figure, shown with three digits.
    Figure(f64),
    /// A text.
    Text(String),
    /// Nothing.
    None,
}

/// A curve, from left to right.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlainCurve {
    /// What is shown.
    pub title: String,
    /// What lies along.
    pub along: String,
    /// What it is counted in.
    #[serde(default)]
    pub along_unit: AlongUnit,
    /// What lies up.
    pub up: String,
    /// Its points.
    pub points: Vec<(f64, f64)>,
}

/// Which steps along a curve are equal.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum AlongUnit {
    /// Those of one length.
    #[default]
    Plain,
    /// Doublings of GiB.
    Gib,
}

/// Rows of a table that are shown.
const ROWS_MAX: usize = 200;

pub(super) fn page(page: &PlainPage) -> String {
    let mut body = format!(
        "<header><p class=\"verdict calm\">{}</p><h1 class=\"sentence\">{}</h1></header>\n",
        escape(&page.verdict),
        escape(&page.headline)
    );
    body += &paragraphs("What is found", "findings", &page.findings);
    body += &page.curve.as_ref().map_or(String::new(), curve);
    body += &page.tables.iter().map(tabled).collect::<String>();
    body += &page.claims.iter().map(claims::group).collect::<String>();
    body += &paragraphs("Keep in mind", "cautions", &page.cautions);
    document(&page.title, &body)
}

fn cell(cell: &PlainCell) -> String {
    match cell {
        PlainCell::Figure(figure) => significant(*figure),
        PlainCell::Text(text) => name(text),
        PlainCell::None => NONE.to_string(),
    }
}

fn tabled(of: &PlainTable) -> String {
    let heads: Vec<String> = of.heads.iter().map(|head| escape(head)).collect();
    let shown = of.rows.iter().take(ROWS_MAX);
    let rows: Vec<_> = shown.map(|row| (false, row.iter().map(cell).collect())).collect();
    section(&escape(&of.title), &table(&heads, &rows))
}

fn curve(of: &PlainCurve) -> String {
    const SIZE: (f64, f64) = (1100.0, 340.0);
    const GIB: f64 = (1u64 << 30) as f64;
    let mut points: Vec<(f64, f64)> =
        of.points.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
    let most = |axis: fn(&(f64, f64)) -> f64| points.iter().map(axis).fold(0.0, f64::max);
    let (along, up) = (most(|point| point.0), most(|point| point.1));
    if points.len() < 2 || along <= 0.0 || up <= 0.0 {
        return String::new();
    }
    let ((left, right), (bottom, top)) = (Plot::across(SIZE.0), Plot::upwards(SIZE.1));
    let caption = Caption { id: "curve", title: &of.title, description: &of.up };
    let x = match of.along_unit {
        AlongUnit::Plain => Axis::linear(along, left, right),
        AlongUnit::Gib => {
            points.iter_mut().for_each(|point| point.0 *= GIB);
            let least =
                points.iter().map(|point| point.0).filter(|x| *x > 0.0).fold(along * GIB, f64::min);
            Axis::doublings(least, along * GIB, left, right)
        }
    };
    let y = Axis::linear(up * 1.05, bottom, top);
    let mut plot = Plot::new(&caption, SIZE, (x, &of.along), (y, &of.up));
    plot.line(&points, "series s0");
    section(&escape(&of.title), &figure(&plot.finish(), &escape(&of.up)))
}

#[cfg(test)]
mod tests {
    use super::super::claims::{ClaimCard, ClaimVerdict};
    use super::*;

    #[test]
    fn a_page_is_whole_whatever_it_is_told() {
        let hostile = "<script>\"&'".to_string();
        let told = PlainPage {
            title: hostile.clone(),
            verdict: hostile.clone(),
            headline: hostile.clone(),
            findings: vec![hostile.clone()],
            cautions: vec![hostile.clone()],
            tables: vec![PlainTable {
                title: hostile.clone(),
                heads: vec![hostile.clone()],
                rows: vec![vec![
                    PlainCell::Text(hostile.clone()),
                    PlainCell::Figure(f64::NAN),
                    PlainCell::None,
                ]],
            }],
            curve: Some(PlainCurve {
                title: hostile.clone(),
                along: hostile.clone(),
                along_unit: AlongUnit::Gib,
                up: hostile.clone(),
                points: vec![(0.0, 1.0), (f64::NAN, 2.0), (3.0, 4.0)],
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
    }
}
