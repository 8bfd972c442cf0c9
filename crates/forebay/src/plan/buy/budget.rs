//! The most that drives may cost, and which rows of the answer cost no more.

use forebay_ask::{Takes, Value, named};
use forebay_show::{Figure, Unit};

use super::{BuyRow, page};
use crate::quantities::percent;

/// The precision of prices in messages.
const CENT: f64 = 0.01;

/// An amount of money, in the currency of the prices if none is given.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    amount: f64,
    currency: Option<String>,
}

impl Value for Budget {
    const WORD: &'static str = "MONEY";
    const TAKES: Takes = Takes::Number;
    const PYTHON: &'static str = "str | float";

    fn parse(text: &str) -> Result<Budget, String> {
        let wrong = || format!("got '{text}', expected an amount above 0, as in 1500 or 1500EUR");
        let is_letter = |c: char| c.is_ascii_alphabetic();
        let (amount, currency) = text.split_at(text.find(is_letter).unwrap_or(text.len()));
        let amount: f64 = amount.trim().parse().map_err(|_| wrong())?;
        let currency = currency.trim();
        let is_code = currency.len() == 3 && currency.bytes().all(|byte| byte.is_ascii_uppercase());
        if !(amount > 0.0 && amount <= 1e12) || !currency.is_empty() && !is_code {
            return Err(wrong());
        }
        Ok(Budget { amount, currency: is_code.then(|| currency.to_string()) })
    }
}

impl Budget {
    /// Returns whether a row keeps the promises for no more money.
    pub(super) fn allows(&self, row: &BuyRow) -> bool {
        self.is_priced(row) && row.price.is_some_and(|price| price <= self.amount + CENT / 2.0)
    }

    /// Puts the rows that cost no more than the budget first, in their present order.
    pub(super) fn rank(&self, rows: &mut [BuyRow]) {
        rows.sort_by_key(|row| !self.allows(row));
    }

    /// Returns whether a row keeps the promises and has a price in the currency of the budget.
    fn is_priced(&self, row: &BuyRow) -> bool {
        let is_same = self.currency.is_none() || row.currency == self.currency;
        row.drives.is_some() && row.price.is_some() && is_same
    }

    /// Says what is lacking, if a row keeps the promises but none is known to fit the budget.
    pub(super) fn lack(&self, rows: &[BuyRow], promise: &str) -> Option<String> {
        let best = rows.first().filter(|row| row.drives.is_some() && !self.allows(row))?;
        // Rows with the headroom come first, in order of their price.
        let Some(row) = rows.iter().find(|row| self.is_priced(row)) else {
            let currency = self.currency.as_ref().map_or(String::new(), |it| format!(" in {it}"));
            return Some(format!(
                "Whether {} buys drives that keep {promise} is unknown: {} has no price{currency}; {} gives it one.",
                self.text(None),
                best.drive,
                named("prices")
            ));
        };
        let currency = row.currency.as_deref();
        let price = row.price.unwrap_or(0.0);
        Some(format!(
            "{} is too little to keep {promise}: the cheapest, {}, costs {}, {} more.",
            self.text(currency),
            page::what(row),
            money(price, currency),
            money(price - self.amount, currency)
        ))
    }

    /// Names the row within the budget whose busiest drive is least busy, unless it is the first.
    /// Flash is left out, because its busy time says little.
    pub(super) fn roomiest(&self, rows: &[BuyRow]) -> Option<String> {
        let is_disk = |row: &&BuyRow| row.written_per_year_tb.is_none() || row.cache_drives > 0;
        let within = rows.iter().filter(|row| self.allows(row)).filter(is_disk);
        let busy = |row: &BuyRow| row.utilisation_max.unwrap_or(1.0);
        let row = within.min_by(|a, b| busy(a).total_cmp(&busy(b)))?;
        let is_first = rows.first().is_some_and(|first| std::ptr::eq(first, row));
        (!is_first && busy(row) < rows.first().map_or(1.0, busy)).then(|| {
            format!(
                "Within the budget, {} {} the most headroom: the busiest drive is busy for {} of the time, for {}.",
                page::what(row),
                if row.drives == Some(1) { "has" } else { "have" },
                percent(busy(row)),
                money(row.price.unwrap_or(0.0), row.currency.as_deref())
            )
        })
    }

    fn text(&self, currency: Option<&str>) -> String {
        money(self.amount, self.currency.as_deref().or(currency))
    }
}

fn money(amount: f64, currency: Option<&str>) -> String {
    match currency.and_then(|code| code.as_bytes().try_into().ok()) {
        Some(code) => Figure::new(amount, Unit::Money(code)).text(),
        None => amount.to_string(),
    }
}
