//! The file that holds a promise.
//!
//! ```toml
//! [[tier]]
//! fraction = 0.99
//! within_ms = 50
//! ```

use std::path::Path;

use forebay_core::Nanos;
use serde::Deserialize;

use crate::error::Error;
use crate::plan::amount::{Fraction, span};

/// Tiers of one promise at most.
pub const TIERS_MAX: usize = 8;

/// A promise: tiers of rising bounds and rising fractions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sla {
    pub(super) tiers: Vec<Tier>,
}

/// At least `fraction` of all requests within `within`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tier {
    pub(super) fraction: Fraction,
    pub(super) within: Nanos,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    tier: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    fraction: f64,
    within_ms: f64,
}

impl Sla {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// A file that cannot be read, or as [`Sla::read`].
    pub fn open(path: &Path) -> Result<Sla, Error> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            Error::Unfit(format!("{}: cannot read the promise: {error}", path.display()))
        })?;
        Sla::read(path, &text)
    }

    /// Reads `text`, which messages call `path`.
    ///
    /// # Errors
    /// What is no promise, and tiers that contradict each other: of two tiers, the longer bound has
    /// to promise the larger fraction.
    pub fn read(path: &Path, text: &str) -> Result<Sla, Error> {
        let wrong = |said: String| Error::Unfit(format!("{}: {said}", path.display()));
        let file: File = toml::from_str(text).map_err(|error| {
            let line = 1 + error
                .span()
                .and_then(|span| text.get(..span.start))
                .map_or(0, |t| t.matches('\n').count());
            wrong(format!("line {line}: {}", error.message()))
        })?;
        if !(1..=TIERS_MAX).contains(&file.tier.len()) {
            let got = file.tier.len();
            let form = "each [[tier]] with fraction = 0.99 and within_ms = 50";
            return Err(wrong(format!("got {got} tiers, expected 1 to {TIERS_MAX}, {form}")));
        }
        let mut tiers = Vec::new();
        for (number, row) in (1..).zip(&file.tier) {
            // Shown as short as can be, a number is what was written.
            let fraction = format!("{}", row.fraction).parse();
            let fraction = fraction.map_err(|said| wrong(format!("tier {number}: {said}")))?;
            let within = span(&format!("{}ms", row.within_ms));
            let within = within.map_err(|said| wrong(format!("tier {number}: {said}")))?;
            tiers.push(Tier { fraction, within });
        }
        tiers.sort_by_key(|tier| tier.within);
        for pair in tiers.windows(2) {
            if pair[0].within == pair[1].within || pair[0].fraction >= pair[1].fraction {
                return Err(wrong(contradiction(&pair[0], &pair[1])));
            }
        }
        Ok(Sla { tiers })
    }
}

fn contradiction(short: &Tier, long: &Tier) -> String {
    format!(
        "tiers contradict each other: got {} within {} and {} within {}, expected a larger fraction \
         for a longer time; leave one of them out",
        short.fraction, short.within, long.fraction, long.within
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> String {
        Sla::read(Path::new("f.toml"), text).unwrap_err().to_string()
    }

    fn tiers(rows: &[(&str, &str)]) -> String {
        rows.iter().map(|(f, w)| format!("[[tier]]\nfraction = {f}\nwithin_ms = {w}\n")).collect()
    }

    #[test]
    fn tiers_are_sorted_and_exact() {
        let sla = Sla::read(Path::new("f"), &tiers(&[("1", "500"), ("0.9995", "0.5")])).unwrap();
        assert_eq!(sla.tiers[0].within, Nanos(500_000));
        assert_eq!(sla.tiers[0].fraction.to_string(), "0.9995");
        assert_eq!(sla.tiers[1].fraction, Fraction::ALL);
    }

    #[test]
    fn contradictions_are_refused() {
        for rows in [
            [("0.99", "20"), ("0.9", "50")],
            [("0.9", "20"), ("0.9", "50")],
            [("0.9", "20"), ("0.99", "20")],
        ] {
            let said = said(&tiers(&rows));
            assert!(said.contains("contradict") && said.starts_with("f.toml: "), "{said}");
        }
    }

    #[test]
    fn what_is_no_promise_is_refused() {
        assert!(said("").contains("got 0 tiers"));
        assert!(said(&tiers(&[("0.9", "0")])).contains("above 0"));
        assert!(said(&tiers(&[("0.9", "-5")])).contains("tier 1"));
        assert!(said(&tiers(&[("1.5", "5")])).contains("at most 1"));
        assert!(said(&tiers(&[("nan", "5")])).contains("got 'NaN'"));
        assert!(said(&tiers(&[("0.5", "inf")])).contains("got 'infms'"));
        assert!(said("[[tier]]\nfraction = 0.9\nwithin = 5").contains("line 3"));
        assert!(said("[[tier]]\nfraction = 0.9").contains("within_ms"));
        assert!(said("fraction == 3").contains("line 1"));
        assert!(said(&tiers(&[("0.5", "5"); 9])).contains("got 9 tiers"));
    }
}
