//! What a device file's times rest on, and how far they were from the drive's.

use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::file::{Fault, fault};
use super::sources::Sources;

/// Where a model's figures come from.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// Each taken from measurements of the drive.
    Measured,
    /// Chosen so that the model does what was measured on the drive.
    Fitted,
    /// The maker's.
    DataSheet,
    /// Usual of such drives.
    Assumed,
}

impl Basis {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Basis::Measured => "measured",
            Basis::Fitted => "fitted",
            Basis::DataSheet => "data sheet",
            Basis::Assumed => "assumed",
        }
    }
}

/// What a device's times rest on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evidence {
    /// Where the figures come from.
    pub basis: Basis,
    /// Which measurements.
    pub from: Option<String>,
    /// Measured rows that the model was compared with.
    pub rows: Option<u32>,
    /// The greatest error of a rate, as a share of the measured one; none where nobody compared.
    pub rate_error_share: Option<f64>,
    /// The greatest error of a 99th percentile.
    pub p99_error_share: Option<f64>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EvidenceTable {
    basis: Basis,
    from: Option<String>,
    rows: Option<u32>,
    rate_error_percent: Option<f64>,
    p99_error_percent: Option<f64>,
}

/// No error is larger.
const PERCENT_MAX: f64 = 1e6;

impl Evidence {
    /// What stands in for a table: the maker's figures, unless most are guessed.
    fn of(sources: &Sources) -> Evidence {
        let guessed = 2 * sources.assumed.len() > sources.figures;
        let basis = if guessed { Basis::Assumed } else { Basis::DataSheet };
        Evidence { basis, from: None, rows: None, rate_error_share: None, p99_error_share: None }
    }

    /// In a few words: `fitted, rates within 4.2 %, p99 within 9.1 %`.
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

/// What the file says, or what its figures' sources do.
pub(super) fn checked(
    table: Option<Spanned<EvidenceTable>>,
    sources: &Sources,
) -> Result<Evidence, Fault> {
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
