//! Reads prices of volumes from the user's file.
//!
//! ```toml
//! currency = "EUR"
//! on = "2026-11"
//! region = "eu-central-1"
//! [volume.ebs-gp3]
//! gib = 0.0952
//! iops = [[3000, 0], [80000, 0.006]]     # price per IOPS, up to the given number
//! mibps = [[125, 0], [2000, 0.048]]
//! [volume.azure-premium]
//! tiers = { P10 = 19.71 }                # the whole price of a size
//! [volume.mine]
//! month = 25                             # the whole price of a volume without choices
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use forebay_trace::whole;
use serde::Deserialize;

use super::verb::whole_name;
use crate::Error;
use crate::devices::volume::{VolumePrice, VolumeType};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    currency: String,
    on: String,
    region: Option<String>,
    volume: BTreeMap<String, toml::Table>,
}

/// Replaces the prices of `kinds` by those in the file at `path`. Types that are not in the file
/// lose their prices, so that prices from different regions and dates are never compared.
///
/// # Errors
/// Fails if the file cannot be read, is invalid, or prices a type that is not among `known`.
pub(super) fn replaced(
    path: &Path,
    kinds: Vec<VolumeType>,
    known: &[String],
) -> Result<Vec<VolumeType>, Error> {
    let unfit = |what: String| {
        Error::Unfit(format!("{}: {what}; docs/plan-volume.md shows every key", path.display()))
    };
    let text = whole::read_text(path, whole::WRITTEN_MAX, "a file of prices")
        .map_err(|error| Error::Unfit(format!("{}: {error}", path.display())))?;
    let (prices, none) = parsed(&text, known).map_err(unfit)?;
    let priced = |kind: VolumeType| {
        let name = kind.name.clone();
        let price = prices.get(&name).unwrap_or(&none).clone();
        kind.with_price(price).map_err(|what| unfit(format!("volume.{name}: {what}")))
    };
    kinds.into_iter().map(priced).collect()
}

/// Returns the price of each type in the file, and an unknown price for all other types.
fn parsed(
    text: &str,
    known: &[String],
) -> Result<(BTreeMap<String, VolumePrice>, VolumePrice), String> {
    let file: File = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let line = 1 + text.get(..at).map_or(0, |before| before.matches('\n').count());
        format!("line {line}: {}", error.message().replace('\n', " "))
    })?;
    let File { currency, on, region, volume } = file;
    let priced = |mut table: toml::Table| {
        table.entry("currency").or_insert_with(|| currency.clone().into());
        table.entry("on").or_insert_with(|| on.clone().into());
        if let Some(region) = &region {
            table.entry("region").or_insert_with(|| region.clone().into());
        }
        let price: Result<VolumePrice, toml::de::Error> = table.try_into();
        price.map_err(|error| error.to_string().replace('\n', " "))
    };
    let price = |(name, table): (String, toml::Table)| {
        if !known.contains(&name) {
            let whole = whole_name(&name, known);
            let names: Vec<&str> = known.iter().map(String::as_str).collect();
            let near = match known.contains(&whole) {
                true => format!(" (did you mean {whole}?)"),
                false => forebay_ask::suggestion(&name, &names),
            };
            return Err(format!("volume.{name}: no type of volume has this name{near}"));
        }
        match priced(table) {
            Ok(price) => Ok((name, price)),
            Err(what) => Err(format!("volume.{name}: {what}")),
        }
    };
    Ok((volume.into_iter().map(price).collect::<Result<_, _>>()?, priced(toml::Table::new())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 2] = ["ebs-gp3", "azure-premium"];

    fn parse(text: &str) -> Result<BTreeMap<String, VolumePrice>, String> {
        parsed(text, &KNOWN.map(String::from)).map(|(prices, _)| prices)
    }

    #[test]
    fn every_price_has_the_currency_and_the_day_of_the_file() {
        let text = "currency = \"EUR\"\non = \"2026-11\"\n[volume.ebs-gp3]\ngib = 0.1\n\
                    iops = [[3000, 0], [80000, 0.006]]\n[volume.azure-premium]\n\
                    on = \"2026-10\"\ntiers = { P10 = 19.71 }\n";
        let found = parse(text).unwrap();
        let days = KNOWN.map(|name| (found[name].currency.as_str(), found[name].on.as_str()));
        assert_eq!(days, [("EUR", "2026-11"), ("EUR", "2026-10")]);
    }

    #[test]
    fn errors_name_the_wrong_value() {
        let head = "currency = \"EUR\"\non = \"2026-11\"\n";
        for (text, part) in [
            ("currency = \"EUR\"\n", "missing field `on`"),
            (&format!("{head}[volume.ebs-gp4]\ngib = 1\n"), "did you mean ebs-gp3"),
            (&format!("{head}[volume.gp3]\ngib = 1\n"), "did you mean ebs-gp3?"),
            (&format!("{head}[volume.ebs-gp3]\ngib = \"1\"\n"), "volume.ebs-gp3: "),
            (&format!("{head}[drive.x]\namount = 1\n"), "unknown field `drive`"),
        ] {
            let said = parse(text).unwrap_err();
            assert!(said.contains(part), "{said}");
        }
    }
}
