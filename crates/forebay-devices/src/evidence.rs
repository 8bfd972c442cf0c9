//! What a device file's times are based on, and how well the model matches the real drive.

use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::file::{TomlError, toml_error};
use super::fit::disk::POOR_FIT;
use super::sources::Sources;

/// Where a model's figures come from.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// Every figure was derived from measurements of the drive.
    Measured,
    /// The figures were chosen to reproduce measurements of the drive.
    Fitted,
    /// The figures come from the manufacturer's data sheet.
    DataSheet,
    /// The figures are typical of drives of this kind.
    Assumed,
}

impl Basis {
    /// Returns the basis in words, for reports.
    pub fn name(self) -> &'static str {
        match self {
            Basis::Measured => "measured",
            Basis::Fitted => "fitted",
            Basis::DataSheet => "data sheet",
            Basis::Assumed => "assumed",
        }
    }
}

/// The evidence for a device's times.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evidence {
    /// Where the figures come from.
    pub basis: Basis,
    /// A description of the measurements.
    pub from: Option<String>,
    /// The number of measured rows that were compared with the model.
    pub rows: Option<u32>,
    /// The largest relative error of a rate; None if rates were not compared.
    pub rate_error_share: Option<f64>,
    /// The largest relative error of a 99th percentile; None if percentiles were not compared.
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

/// The largest error, in percent, that a device file may state.
const PERCENT_MAX: f64 = 1e6;

impl Evidence {
    /// Derives the evidence for a file without an `evidence` table: a data sheet, or assumptions if
    /// most figures are guesses.
    fn of(sources: &Sources) -> Evidence {
        let guessed = 2 * sources.assumed.len() > sources.figures;
        let basis = if guessed { Basis::Assumed } else { Basis::DataSheet };
        Evidence { basis, from: None, rows: None, rate_error_share: None, p99_error_share: None }
    }

    /// Summarizes the evidence, as in `fitted, rates within 4.2 %, p99 within 9.1 %`.
    pub fn summary(&self) -> String {
        let within = |what: &str, share: Option<f64>| {
            share.map(|share| format!(", {what} within {:.1} %", 100.0 * share))
        };
        let errors = [within("rates", self.rate_error_share), within("p99", self.p99_error_share)];
        let told: String = errors.into_iter().flatten().collect();
        let none = if told.is_empty() { ", never compared with the drive" } else { "" };
        format!("{}{told}{none}", self.basis.name())
    }
}

/// Errors of a 99th percentile above this share are far beyond those of any usable model.
const POOR_P99: f64 = 1.0;

impl Evidence {
    /// States by how much the model misses its own measurements, or returns None if the model is
    /// usable.
    pub fn missed(&self) -> Option<String> {
        let above = |what: &str, share: Option<f64>, most: f64| {
            let share = share.filter(|share| *share > most)?;
            Some(format!("{what} by up to {:.0} %", 100.0 * share))
        };
        let rates = above("rates", self.rate_error_share, POOR_FIT);
        let p99s = above("99th percentiles", self.p99_error_share, POOR_P99);
        let missed: Vec<String> = rates.into_iter().chain(p99s).collect();
        (!missed.is_empty()).then(|| {
            format!(
                "the model misses its own measurements: {}; do not rely on its times",
                missed.join(", ")
            )
        })
    }
}

/// Returns the evidence stated in the file. If there is none, derives it from the sources of the
/// figures.
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
            return Err(toml_error(table.span(), what));
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
