//! The price of a device. It includes the currency, and a date because prices change.

use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::file::{TomlError, toml_error};

/// The price of one device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Price {
    /// The amount in `currency`.
    pub amount: f64,
    /// The three-letter currency code, such as USD.
    pub currency: String,
    /// The date of the price: a year, month or day, such as 2026-03.
    pub on: String,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PriceTable {
    amount: f64,
    currency: String,
    on: String,
}

/// The maximum amount that is accepted.
const AMOUNT_MAX: f64 = 1e12;

impl Price {
    /// Creates a price.
    ///
    /// # Errors
    /// Describes the first invalid argument.
    pub fn new(amount: f64, currency: &str, on: &str) -> Result<Price, String> {
        if !(0.0..=AMOUNT_MAX).contains(&amount) {
            return Err(format!("amount: got {amount}, expected 0 to 1e12"));
        }
        if currency.len() != 3 || !currency.bytes().all(|byte| byte.is_ascii_uppercase()) {
            let got: String = currency.chars().take(20).collect();
            return Err(format!("currency: got '{got}', expected three letters, such as USD"));
        }
        if !is_date(on) {
            let got: String = on.chars().take(20).collect();
            return Err(format!("on: got '{got}', expected a day, month or year, such as 2026-03"));
        }
        Ok(Price { amount, currency: currency.to_string(), on: on.to_string() })
    }
}

/// Returns whether `text` is a year, a month or a day: `2026`, `2026-03` or `2026-03-09`.
fn is_date(text: &str) -> bool {
    let mut parts = text.split('-');
    let mut part = |digits: usize, most: u32| {
        let part = parts.next()?;
        let number: u32 = part.parse().ok()?;
        let is_part = part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit());
        Some(is_part && (1..=most).contains(&number))
    };
    let (year, month, day) = (part(4, 9999), part(2, 12), part(2, 31));
    year == Some(true) && month != Some(false) && day != Some(false) && parts.next().is_none()
}

pub(super) fn checked(table: Option<Spanned<PriceTable>>) -> Result<Option<Price>, TomlError> {
    let Some(table) = table else { return Ok(None) };
    let PriceTable { amount, currency, on } = table.get_ref();
    Price::new(*amount, currency, on).map(Some).map_err(|what| toml_error(table.span(), what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_has_an_amount_a_currency_and_a_day() {
        for on in ["2026", "2026-03", "2026-12-31"] {
            assert!(Price::new(0.0, "USD", on).is_ok(), "{on}");
        }
        for (amount, currency, on, said) in [
            (f64::NAN, "USD", "2026", "amount: got NaN"),
            (-1.0, "USD", "2026", "amount: got -1"),
            (1e13, "USD", "2026", "expected 0 to 1e12"),
            (1.0, "usd", "2026", "currency: got 'usd'"),
            (1.0, "EURO", "2026", "currency: got 'EURO'"),
            (1.0, "USD", "26", "on: got '26'"),
            (1.0, "USD", "2026-13", "on: got '2026-13'"),
            (1.0, "USD", "2026-01-32", "on: got"),
            (1.0, "USD", "2026-01-01-01", "on: got"),
            (1.0, "USD", "+026", "on: got"),
            (1.0, "USD", "", "on: got ''"),
        ] {
            let got = Price::new(amount, currency, on).unwrap_err();
            assert!(got.contains(said), "{got}");
        }
    }
}
