//! Monthly prices of volumes, with their currency and date.
//!
//! ```toml
//! currency = "USD"
//! on = "2026-03"
//! region = "us-east-1"
//! gib = 0.08
//! iops = [[3000, 0], [80000, 0.005]]   # up to so many, each costs so much
//! tiers = { P10 = 19.71 }              # of a type with tiers: all of it
//! month = 25.0                         # of a volume without choices: all of it
//! ```

use std::collections::BTreeMap;

use serde::Deserialize;

use super::Knobs;
use crate::Price;

/// The list price of a volume type.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct VolumePrice {
    /// The three-letter currency code, such as USD.
    pub currency: String,
    /// The date of the prices: a year, month or day.
    pub on: String,
    /// The region in which the prices apply.
    pub region: Option<String>,
    /// The monthly price of a volume, for a type without choices.
    month: Option<f64>,
    /// The monthly price of each tier, for a type with tiers.
    #[serde(default)]
    tiers: BTreeMap<String, f64>,
    /// The price per unit of each knob.
    #[serde(flatten)]
    per: BTreeMap<String, PerUnit>,
}

/// The knobs that providers bill.
const PARTS: [&str; 4] = ["gib", "iops", "mibps", "mbps"];

/// What one unit of a knob costs per month.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(untagged, expecting = "expected a price or pairs of a limit and a price")]
enum PerUnit {
    Flat(f64),
    /// Pairs of a limit and the price of each unit up to that limit.
    Tiers(Vec<(f64, f64)>),
}

impl VolumePrice {
    /// Checks the prices of a type that has these knobs and tiers.
    ///
    /// # Errors
    /// Describes the first invalid part.
    pub(super) fn check(&self, knobs: &[&str], tiers: &[&str]) -> Result<(), String> {
        Price::new(0.0, &self.currency, &self.on)?;
        if let Some(month) = self.month {
            check_price("month", month)?;
            if !knobs.is_empty() {
                return Err(format!("got month, expected one of {}", knobs.join(", ")));
            }
        }
        for (tier, price) in &self.tiers {
            if !tiers.contains(&tier.as_str()) {
                return Err(format!("tiers: got '{tier}', expected a tier of the type"));
            }
            check_price(tier, *price)?;
        }
        for (knob, per) in &self.per {
            if !knobs.contains(&knob.as_str()) {
                let knobs = if knobs.is_empty() { &["month"] } else { knobs };
                return Err(format!("got '{knob}', expected one of {}", knobs.join(", ")));
            }
            match per {
                PerUnit::Flat(price) => check_price(knob, *price)?,
                PerUnit::Tiers(steps) => {
                    if !steps.is_sorted_by(|a, b| a.0 < b.0) || steps.is_empty() {
                        return Err(format!("{knob}: got {steps:?}, expected increasing limits"));
                    }
                    steps.iter().try_for_each(|(_, price)| check_price(knob, *price))?;
                }
            }
        }
        Ok(())
    }

    /// Returns the monthly price of a volume with these knobs, in `tier` if its type has tiers.
    /// Returns None if the price of a part is unknown.
    pub(super) fn month(&self, knobs: &Knobs, tier: Option<&str>) -> Option<f64> {
        if self.month.is_some() {
            return self.month;
        }
        let whole = match tier {
            Some(tier) => *self.tiers.get(tier)?,
            None => 0.0,
        };
        // A part whose price is missing is not free; its price is unknown.
        let is_unpriced = |part: &&str| knobs.get(part).is_some() && !self.per.contains_key(*part);
        if tier.is_none() && PARTS.iter().any(is_unpriced) {
            return None;
        }
        let mut sum = whole;
        for (knob, per) in &self.per {
            let units = knobs.get(knob)?;
            sum += match per {
                PerUnit::Flat(price) => units * price,
                PerUnit::Tiers(steps) => stepped(units, steps)?,
            };
        }
        (tier.is_some() || !self.per.is_empty()).then_some(sum)
    }
}

fn check_price(of: &str, price: f64) -> Result<(), String> {
    match (0.0..=1e9).contains(&price) {
        true => Ok(()),
        false => Err(format!("{of}: got {price}, expected a price from 0 to 1e9")),
    }
}

/// Returns the price of `units`, or None if they exceed the last limit.
fn stepped(units: f64, steps: &[(f64, f64)]) -> Option<f64> {
    let (mut sum, mut from) = (0.0, 0.0);
    for &(limit, price) in steps {
        sum += (units.min(limit) - from).max(0.0) * price;
        from = limit;
    }
    (units <= from).then_some(sum)
}
