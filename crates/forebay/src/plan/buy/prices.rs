//! Prices and power of drives. Those in the user's file take precedence over those in the device's
//! file.
//!
//! ```toml
//! currency = "EUR"
//! on = "2026-11"
//! [drive.hc550]
//! amount = 329.00
//! watts = 6.5       # mean per drive; defaults to the model's
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use forebay_trace::whole;
use serde::Deserialize;

use crate::Error;
use crate::devices::{self, OpenDevice, Price};

/// The prices and power figures in the user's file.
#[derive(Clone, Debug, Default)]
pub struct Prices {
    of: BTreeMap<String, Figures>,
    currency: Option<String>,
}

/// The price and power of one drive.
#[derive(Clone, Debug)]
struct Figures {
    price: Price,
    watts: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    currency: String,
    on: String,
    #[serde(default)]
    drive: BTreeMap<String, Table>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    amount: f64,
    watts: Option<f64>,
}

/// The maximum power that the file may give for a drive, in watts.
const WATTS_MAX: f64 = 1e6;

impl Prices {
    /// Reads the file at `path`. It may price bundled drives and the drives in `names`.
    ///
    /// # Errors
    /// Fails if the file cannot be read, is invalid, or prices an unknown drive.
    pub fn read(path: &Path, names: &[String]) -> Result<Prices, Error> {
        let text = whole::read_text(path, whole::WRITTEN_MAX, "a file of prices")
            .map_err(|error| Error::Unfit(format!("{}: {error}", path.display())))?;
        Prices::parse(&text, names).map_err(|what| {
            Error::Unfit(format!("{}: {what}; docs/plan-buy.md shows every key", path.display()))
        })
    }

    fn parse(text: &str, names: &[String]) -> Result<Prices, String> {
        let file: File = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let line = 1 + text.get(..at).map_or(0, |before| before.matches('\n').count());
            format!("line {line}: {}", error.message().replace('\n', " "))
        })?;
        Price::new(0.0, &file.currency, &file.on)?;
        let mut of = BTreeMap::new();
        for (name, Table { amount, watts }) in file.drive {
            if !names.contains(&name) && devices::open(&name).is_err() {
                let got: String = name.chars().take(40).collect();
                return Err(format!(
                    "[drive.{got}]: got an unknown drive, expected a drive that is tried, or \
                     one that `forebay devices` lists"
                ));
            }
            let wrong = |what: String| format!("[drive.{name}]: {what}");
            let price = Price::new(amount, &file.currency, &file.on).map_err(wrong)?;
            if let Some(watts) = watts.filter(|watts| !(0.0..=WATTS_MAX).contains(watts)) {
                return Err(wrong(format!("watts: got {watts}, expected 0 to {WATTS_MAX}")));
            }
            of.insert(name.clone(), Figures { price, watts });
        }
        Ok(Prices { of, currency: Some(file.currency) })
    }

    /// Returns the price of one `device`; `None` if it is unknown or in a currency other than the
    /// user's.
    pub(super) fn price(&self, device: &OpenDevice) -> Option<Price> {
        let own = device.price.as_ref();
        let own = own.filter(|price| self.currency.as_ref().is_none_or(|c| *c == price.currency));
        self.of.get(&device.name).map(|figures| &figures.price).or(own).cloned()
    }

    /// Returns the mean power of one `device` in watts, if the user's file states it.
    pub(super) fn watts(&self, device: &OpenDevice) -> Option<f64> {
        self.of.get(&device.name)?.watts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "currency = \"EUR\"\non = \"2026-11\"\n[drive.hc550]\namount = 329.5\nwatts = 6.5\n[drive.mine]\namount = 1\n";

    #[test]
    fn the_users_figures_come_before_the_devices_own() {
        let prices = Prices::parse(WHOLE, &["mine".into()]).unwrap();
        let of = |name: &str| {
            let device = devices::open(name).unwrap();
            (prices.price(&device).map(|price| price.amount), prices.watts(&device))
        };
        assert_eq!(of("hc550"), (Some(329.5), Some(6.5)));
        assert_eq!(of("exos-x18"), (None, None));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine.toml");
        let bundled = concat!(env!("CARGO_MANIFEST_DIR"), "/../../devices/exos-x18.toml");
        let text = std::fs::read_to_string(bundled).unwrap();
        let priced = "\n[price]\namount = 561.75\ncurrency = \"USD\"\non = \"2020-09\"\n";
        std::fs::write(&path, text + priced).unwrap();
        let mine = devices::open(path.to_str().unwrap()).unwrap();
        // The price in the device's own file is in another currency.
        assert_eq!(prices.price(&mine).map(|price| price.amount), None);
        let own = Prices::default().price(&mine).unwrap();
        assert_eq!(
            (own.amount, own.currency.as_str(), own.on.as_str()),
            (561.75, "USD", "2020-09")
        );
    }

    #[test]
    fn nonsensical_prices_are_reported() {
        for (from, to, said) in [
            ("EUR", "euro", "currency: got 'euro'"),
            ("2026-11", "soon", "on: got 'soon'"),
            ("329.5", "-1", "[drive.hc550]: amount: got -1"),
            ("329.5", "nan", "[drive.hc550]: amount: got NaN"),
            ("6.5", "1e9", "watts: got 1000000000, expected 0"),
            ("hc550", "hc551", "[drive.hc551]: got an unknown drive"),
            ("watts", "watt", "line 5: unknown field `watt`"),
            ("currency", "curency", "unknown field `curency`"),
            ("329.5", "\"much\"", "line 4: invalid type"),
        ] {
            let said_now =
                Prices::parse(&WHOLE.replacen(from, to, 1), &["mine".into()]).unwrap_err();
            assert!(said_now.contains(said), "{said_now}");
        }
    }
}
