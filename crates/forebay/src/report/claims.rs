//! Claims of others, each with what became of it: borne out, in part, not, or nothing to hold it against.

use serde::Deserialize;

use forebay_show::html::document::{section, unfolding};
use forebay_show::html::paragraphs::said;
use forebay_show::html::table::{Mark, named, table};
use forebay_show::html::text::{escape, name};

/// The claims of one work.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimGroup {
    /// The work.
    pub title: String,
    /// What its claims come to, in a sentence.
    pub told: String,
    /// Each of them.
    pub claims: Vec<ClaimCard>,
}

/// A claim.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimCard {
    /// What became of it.
    pub verdict: ClaimVerdict,
    /// What is claimed.
    pub says: String,
    /// Where.
    pub source: String,
    /// The figure that is claimed, with its unit.
    pub claimed: String,
    /// What was found.
    pub found: String,
    /// Why it was.
    pub reason: String,
    /// Every figure: in which case, claimed, found.
    pub figures: Vec<[String; 3]>,
}

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum ClaimVerdict {
    /// Every figure bears it out.
    #[serde(rename = "borne out")]
    BorneOut,
    /// Some do.
    #[serde(rename = "in part")]
    InPart,
    /// None does.
    #[serde(rename = "not borne out")]
    NotBorneOut,
    /// There is none to hold against it.
    #[serde(rename = "not tried")]
    NotTried,
    /// It has no number that a figure could be held against.
    #[serde(rename = "no number")]
    NoNumber,
}

impl ClaimVerdict {
    fn badge(self) -> &'static str {
        match self {
            ClaimVerdict::BorneOut => "<p class=\"verdict good\">Borne out</p>",
            ClaimVerdict::InPart => "<p class=\"verdict part\">In part</p>",
            ClaimVerdict::NotBorneOut => "<p class=\"verdict bad\">Not borne out</p>",
            ClaimVerdict::NotTried => "<p class=\"verdict none\">Not tried</p>",
            ClaimVerdict::NoNumber => "<p class=\"verdict none\">No number</p>",
        }
    }
}

pub(super) fn group(of: &ClaimGroup) -> String {
    let cards: String = of.claims.iter().map(card).collect();
    let told = format!("<p class=\"told\">{}</p>", said(&of.told));
    section(&escape(&of.title), &format!("{told}<div class=\"claims\">{cards}</div>"))
}

fn card(of: &ClaimCard) -> String {
    let reason = match of.reason.as_str() {
        "" => String::new(),
        reason => format!("<p class=\"why\">{}</p>", said(reason)),
    };
    format!(
        "<article>{}<div class=\"what\"><h3>{}</h3><p class=\"small\">{}</p></div>\
         <dl><div><dt>The paper</dt><dd>{}</dd></div><div><dt>Ours</dt><dd>{}</dd></div></dl>\
         {reason}{}</article>\n",
        of.verdict.badge(),
        escape(&of.says),
        escape(&of.source),
        escape(&of.claimed),
        escape(&of.found),
        figures(of),
    )
}

/// All figures, where there are several.
fn figures(of: &ClaimCard) -> String {
    if of.figures.len() < 2 {
        return String::new();
    }
    let heads = ["case", "the paper", "ours"].map(String::from);
    let row = |row: &[String; 3]| (Mark::Plain, row.iter().map(|cell| name(cell)).collect());
    let rows: Vec<_> = of.figures.iter().map(row).collect();
    let table = named(&escape(&of.says), &table(&heads, &rows));
    unfolding(&format!("All {} figures", of.figures.len()), &table)
}
