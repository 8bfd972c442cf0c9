//! Claims from the literature, each with a verdict: confirmed, confirmed in part, not confirmed, or
//! not testable.

use serde::Deserialize;

use forebay_show::html::document::{section, unfolding};
use forebay_show::html::paragraphs::inline;
use forebay_show::html::table::{Mark, named, table};
use forebay_show::html::text::{escape, name};

/// The claims of one publication, with their verdicts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimGroup {
    /// The title of the publication.
    pub title: String,
    /// A summary of the publication's claims in one sentence.
    pub told: String,
    /// The claims, each with its verdict.
    pub claims: Vec<ClaimCard>,
}

/// A claim with its verdict.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimCard {
    /// The verdict on the claim.
    pub verdict: ClaimVerdict,
    /// The claim in words.
    pub says: String,
    /// Where the claim is made in the publication.
    pub source: String,
    /// The figure that is claimed, with its unit.
    pub claimed: String,
    /// The figure that was measured, with its unit.
    pub found: String,
    /// Why the measured result agrees or differs.
    pub reason: String,
    /// All figures of the claim, each as (case, claimed, measured).
    pub figures: Vec<[String; 3]>,
}

/// The verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum ClaimVerdict {
    /// All figures confirm the claim.
    #[serde(rename = "borne out")]
    BorneOut,
    /// Some figures confirm the claim.
    #[serde(rename = "in part")]
    InPart,
    /// No figure confirms the claim.
    #[serde(rename = "not borne out")]
    NotBorneOut,
    /// There is no measurement to compare with the claim.
    #[serde(rename = "not tried")]
    NotTried,
    /// The claim states no number to compare with.
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
    let told = format!("<p class=\"told\">{}</p>", inline(&of.told));
    section(&escape(&of.title), &format!("{told}<div class=\"claims\">{cards}</div>"))
}

fn card(of: &ClaimCard) -> String {
    let reason = match of.reason.as_str() {
        "" => String::new(),
        reason => format!("<p class=\"why\">{}</p>", inline(reason)),
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

/// Formats all figures of a claim as a list, if there are several.
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
