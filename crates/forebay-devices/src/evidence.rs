//! The basis of a device file's times, and their errors compared with the real drive.

use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::file::{TomlError, fault};
use super::sources::Sources;

/// The source of a model's figures.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// Each figure was taken from measurements of the drive.
    Measured,
    /// The figures were chosen to reproduce measurements of the drive.
    Fitted,
    /// The figures are the maker's.
    DataSheet,
    /// The figures are typical of such drives.
    Assumed,
}

impl Basis {
    /// Returns the source in words.
    pub fn name(self) -> &'static str {
        match self {
            Basis::Measured => "measured",
            Basis::Fitted => "fitted",
            Basis::DataSheet => "data sheet",
            Basis::Assumed => "assumed",
        }
    }
}

/// The basis of a device's times.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evidence {
    /// The source of the figures.
    pub basis: Basis,
    /// The measurements.
    pub from: Option<String>,
    /// The number of measured rows that the model was compared with.
    pub rows: Option<u32>,
    /// The maximum relative error of a rate; None if there was no comparison.
    pub rate_error_share: Option<f64>,
    /// The maximum relative error of a 99th percentile.
    pub p99_error_share: Option<f64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EvidenceTable {
    basis: Basis,
    from: Option<String>,
    rows: Option<u32>,
    rate_error_percent: Option<f64>,
    p99_error_percent: Option<f64>,
}

/// The maximum error that a file may state.
const PERCENT_MAX: f64 = 1e6;

impl Evidence {
    /// Returns the evidence for a file without a table: the maker's figures, unless most are
    /// guesses.
    fn of(sources: &Sources) -> Evidence {
        let guessed = 2 * sources.assumed.len() > sources.figures;
        let basis = if guessed { Basis::Assumed } else { Basis::DataSheet };
        Evidence { basis, from: None, rows: None, rate_error_share: None, p99_error_share: None }
    }

    /// Describes the evidence in a few words: `fitted, rates within 4.2 %, p99 within 9.1 %`.
    pub fn told(&self) -> String {
        let within = |what: &str, share: Option<f64>| {
            share.map(|share| format!(", {what} within {:.1} %", 100.0 * share))
        };
        let errors = [within("rates", self.rate_error_share), within("p99", self.p99_error_share)];
        let told: String = errors.into_iter().flatten().collect();
        let none = if told.is_empty() { ", never compared with the drive" } else { "" };
        format!("{}{told}{none}", self.basis.name())
    }
}

/// Returns the evidence stated in the file, or else derived from the sources of its figures.
pub(super) fn checked(
    table: Option<Spanned<EvidenceTable>>,
    sources: &Sources,
) -> Result<Evidence, TomlError> {
    let Some(table) = table else { return Ok(Evidence::of(sources)) };
    let said = table.get_ref();
    for (key, percent) in [
        ("rate_error_percent", said.rate_error_percent),
        ("p99_error_percent", said.p99_error_percent),
    ] {
        if let Some(percent) = percent.filter(|percent| !(0.0..=PERCENT_MAX).contains(percent)) {
            let what = format!("{key}: got {percent}, expected 0 to 1000000");
            return Err(fault(table.span(), what));
        }
    }
    let share = |percent: Option<f64>| percent.map(|percent| percent / 100.0);
    Ok(Evidence {
        basis: said.basis,
        from: said.from.clone(),
        rows: said.rows,
        rate_error_share: share(said.rate_error_percent),
        p99_error_share: share(said.p99_error_percent),
    })
}
