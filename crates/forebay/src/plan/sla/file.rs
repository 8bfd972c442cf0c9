//! The file that defines a promise of several tiers.
//!
//! ```toml
//! [[tier]]
//! fraction = 0.99
//! within_ms = 50
//! ```

use std::path::Path;

use forebay_core::Nanos;
use forebay_trace::whole;
use serde::Deserialize;

use crate::Error;
use forebay_ask::{Share, positive_duration};

/// The syntax of a tier, for error messages.
const FORM: &str = "each [[tier]] with fraction = 0.99 and within_ms = 50";

/// The valid range of a tier's time, for error messages.
const TIME: &str = "expected a time in milliseconds with at most 6 decimals, above 0 and below 500 years, e.g. 0.5";

/// The maximum number of tiers in a promise.
pub const TIERS_MAX: usize = 8;

/// A promise of several tiers, with increasing times and increasing shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sla {
    pub(in crate::plan) tiers: Vec<Tier>,
}

/// A tier, which promises that a share `fraction` of all requests is answered within `within`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::plan) struct Tier {
    pub(in crate::plan) fraction: Share,
    pub(in crate::plan) within: Nanos,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    tier: Vec<TierRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TierRow {
    fraction: f64,
    within_ms: f64,
}

impl Sla {
    /// Yields the times of the tiers.
    pub fn within(&self) -> impl Iterator<Item = Nanos> {
        self.tiers.iter().map(|tier| tier.within)
    }

    /// Reads the file at `path`.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or like [`Sla::read`].
    pub fn open(path: &Path) -> Result<Sla, Error> {
        let text = whole::read_text(path, whole::WRITTEN_MAX, "a promise").map_err(|error| {
            Error::Unfit(format!("{}: cannot read the file of tiers: {error}", path.display()))
        })?;
        Sla::read(path, &text)
    }

    /// Parses `text`. Error messages call it `path`.
    ///
    /// # Errors
    /// Fails if the text is not a promise, or if tiers contradict each other: a tier with a longer
    /// time must promise a larger share.
    pub fn read(path: &Path, text: &str) -> Result<Sla, Error> {
        let wrong = |said: String| Error::Unfit(format!("{}: {said}", path.display()));
        let file: File = toml::from_str(text).map_err(|error| {
            let line = 1 + error
                .span()
                .and_then(|span| text.get(..span.start))
                .map_or(0, |t| t.matches('\n').count());
            wrong(format!("line {line}: {}; expected {FORM}", error.message()))
        })?;
        let rows: Vec<(f64, f64)> =
            file.tier.iter().map(|row| (row.fraction, row.within_ms)).collect();
        Sla::from_rows(&rows).map_err(wrong)
    }

    /// Creates a promise from tiers, given as (share, milliseconds).
    ///
    /// # Errors
    /// Fails like [`Sla::read`].
    pub fn new(rows: &[(f64, f64)]) -> Result<Sla, Error> {
        Sla::from_rows(rows).map_err(Error::Unfit)
    }

    fn from_rows(rows: &[(f64, f64)]) -> Result<Sla, String> {
        if !(1..=TIERS_MAX).contains(&rows.len()) {
            return Err(format!("got {} tiers, expected 1 to {TIERS_MAX}, {FORM}", rows.len()));
        }
        let mut tiers = Vec::new();
        for (number, (fraction, within_ms)) in (1..).zip(rows) {
            // The shortest decimal form of a number equals what the user wrote.
            let fraction = fraction.to_string().parse();
            let fraction = fraction.map_err(|said| format!("tier {number}: {said}"))?;
            let within = positive_duration(&format!("{within_ms}ms"))
                .map_err(|_| format!("tier {number}: got within_ms = {within_ms:?}, {TIME}"))?;
            tiers.push(Tier { fraction, within });
        }
        tiers.sort_by_key(|tier| tier.within);
        for pair in tiers.windows(2) {
            if pair[0].within == pair[1].within || pair[0].fraction >= pair[1].fraction {
                return Err(contradiction(&pair[0], &pair[1]));
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
        assert_eq!(sla.tiers[1].fraction, Share::ALL);
    }

    #[test]
    fn tiers_need_no_file() {
        let file = Sla::read(Path::new("f"), &tiers(&[("0.9", "20"), ("1", "500")])).unwrap();
        assert_eq!(Sla::new(&[(1.0, 500.0), (0.9, 20.0)]).unwrap(), file);
        assert!(
            Sla::new(&[(f64::NAN, 5.0)]).unwrap_err().to_string().contains("tier 1: got 'NaN'")
        );
        assert!(Sla::new(&[]).unwrap_err().to_string().contains("got 0 tiers"));
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
    fn invalid_promises_are_rejected() {
        assert!(said("").contains("got 0 tiers"));
        assert!(said(&tiers(&[("0.9", "0")])).contains("above 0"));
        assert!(said(&tiers(&[("0.9", "1e300")])).contains("got within_ms = 1e300, expected"));
        assert!(said(&tiers(&[("0.9", "0.00000001")])).contains("at most 6 decimals"));
        assert!(said("[tier]\nfraction = 0.9").contains("each [[tier]]"));
        assert!(said(&tiers(&[("0.9", "-5")])).contains("tier 1"));
        assert!(said(&tiers(&[("1.5", "5")])).contains("at most 1"));
        assert!(said(&tiers(&[("nan", "5")])).contains("got 'NaN'"));
        assert!(said(&tiers(&[("0.5", "inf")])).contains("got within_ms = inf"));
        assert!(said("[[tier]]\nfraction = 0.9\nwithin = 5").contains("line 3"));
        assert!(said("[[tier]]\nfraction = 0.9").contains("within_ms"));
        assert!(said("fraction == 3").contains("line 1"));
        assert!(said(&tiers(&[("0.5", "5"); 9])).contains("got 9 tiers"));
    }
}
