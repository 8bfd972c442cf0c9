//! Volume types: what providers sell, and the limits of hypervisors and kernels, as formulas of a
//! few knobs such as size and provisioned IOPS.
//!
//! A [`VolumeType`] is read from a device file of `kind = "volume"`. [`VolumeType::at`] returns the
//! [`Throttle`] of a volume with given [`Knobs`], and [`VolumeType::price`] its monthly price.

mod bundled;
mod file;
pub mod formula;
mod instances;
mod opened;
mod price;
mod spec;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use forebay_core::device::throttled::{Bucket, Count, Direction, Measure, Queues, Throttle};
use forebay_core::{Nanos, SpecError};

use super::evidence::{self, Evidence};
use super::file::TomlError;
use super::sources::{FigureSource, Sources};
use super::{DevicesError, malformed};
pub(super) use bundled::{is_bundled, names, text_of};
use file::{BucketTable, DirectionName, MeasureName, QueuesName, VolumeFile};
use formula::Formula;
pub use instances::{INSTANCE_LIMITS, instance, instance_names};
pub(super) use opened::open;
pub use opened::{bucket_text, summary};
pub use price::VolumePrice;

/// A whole number that users choose for a volume, such as its size.
#[derive(Clone, Debug, PartialEq)]
pub struct Knob {
    /// The name in formulas, such as `gib`, `iops` or `mibps`.
    pub name: String,
    /// The smallest value allowed.
    pub least: f64,
    /// The largest value allowed.
    pub most: f64,
    /// The default value, or None if users must choose one.
    pub default: Option<f64>,
}

impl Knob {
    /// Returns the key of the knob in specs, which uses hyphens.
    pub fn key(&self) -> String {
        spec::key(&self.name)
    }
}

/// A predefined size that determines all limits of a volume.
#[derive(Clone, Debug, PartialEq)]
pub struct Tier {
    /// The provider's name, such as `P10`.
    pub name: String,
    /// The size of the largest volume in the tier.
    pub gib: f64,
    values: BTreeMap<String, f64>,
}

/// A rule that relates several knobs.
#[derive(Clone, Debug)]
pub(super) struct Limit {
    knob: String,
    relation: Relation,
    bound: Formula,
    span: Range<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Relation {
    AtMost,
    AtLeast,
}

/// The values that a user chose for a volume.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Knobs {
    values: BTreeMap<String, f64>,
    /// The depth of buckets without a documented depth, as the time in ms that their rate takes to
    /// fill them.
    pub depth_ms: Option<f64>,
    /// The share of the credit that is available at the start, for buckets with a documented depth.
    pub start_share: Option<f64>,
    /// The time from the release of a request to its completion, in us.
    pub latency_us: Option<f64>,
    /// Whether sequential requests can be counted as one unit.
    pub merges: Option<bool>,
}

impl Knobs {
    /// Returns the chosen value of a knob, if any.
    pub fn get(&self, knob: &str) -> Option<f64> {
        self.values.get(knob).copied()
    }

    /// Returns these choices with a new value of one knob.
    pub fn with(mut self, knob: &str, value: f64) -> Knobs {
        self.values.insert(knob.to_string(), value);
        self
    }
}

/// The monthly price of a volume.
#[derive(Clone, Debug, PartialEq)]
pub struct MonthlyPrice {
    /// The amount in `currency`.
    pub amount: f64,
    /// The three-letter currency code, such as USD.
    pub currency: String,
    /// The date of the price: a year, month or day.
    pub on: String,
    /// The region in which the price applies.
    pub region: Option<String>,
}

/// A type of volume.
#[derive(Clone, Debug)]
pub struct VolumeType {
    /// The name in specs, such as `ebs-gp3`.
    pub name: String,
    /// The provider and the name of the product.
    pub description: String,
    /// The basis of the limits.
    pub evidence: Evidence,
    /// Which parameters are guesses.
    pub sources: Sources,
    /// Every parameter with its source.
    pub figures: Vec<FigureSource>,
    knobs: Vec<Knob>,
    tiers: Vec<Tier>,
    limits: Vec<Limit>,
    file: std::sync::Arc<VolumeFile>,
    price: Option<VolumePrice>,
}

impl VolumeType {
    /// Reads the volume type in `text`, the content of the file at `path`.
    ///
    /// # Errors
    /// Reports the first invalid line.
    pub fn read(path: &Path, text: &str) -> Result<VolumeType, DevicesError> {
        VolumeType::parse(text).map_err(|fault| malformed(path, text, fault))
    }

    fn parse(text: &str) -> Result<VolumeType, TomlError> {
        let mut file = VolumeFile::parse(text)?;
        let sources = Sources::of(text, &[]);
        let evidence = evidence::checked(file.evidence.take(), &sources)?;
        let price = file.price.take().map(toml::Spanned::into_inner);
        Ok(VolumeType {
            name: file.name.clone(),
            description: file.description.clone(),
            evidence,
            sources,
            figures: FigureSource::all(text),
            knobs: file.knobs()?,
            tiers: file.tiers()?,
            limits: file.limits()?,
            file: std::sync::Arc::new(file),
            price,
        })
    }

    /// Returns the knobs, sorted by name.
    pub fn knobs(&self) -> &[Knob] {
        &self.knobs
    }

    /// Returns the tiers from the smallest to the largest. There are none if users choose the size
    /// freely.
    pub fn tiers(&self) -> &[Tier] {
        &self.tiers
    }

    /// Returns the smallest tier that holds `gib`.
    pub fn tier(&self, gib: f64) -> Option<&Tier> {
        self.tiers.iter().find(|tier| tier.gib >= gib)
    }

    /// Returns whether a bucket's depth is undocumented, so that [`Knobs::depth_ms`] has an effect.
    pub fn has_unknown_depth(&self) -> bool {
        self.file.bucket.iter().any(|bucket| bucket.get_ref().depth_ms.is_some())
    }

    /// Returns whether a bucket has a documented credit, so that [`Knobs::start_share`] has an
    /// effect.
    pub fn has_credit(&self) -> bool {
        self.file.bucket.iter().any(|bucket| bucket.get_ref().depth.is_some())
    }

    /// Returns whether operations are counted in units, so that [`Knobs::merges`] has an effect.
    pub fn has_unit(&self) -> bool {
        self.file.count.unit_bytes.is_some() && !self.file.count.fractions
    }

    /// Returns the rules between knobs, as formulas.
    pub fn rules(&self) -> impl Iterator<Item = String> {
        self.limits.iter().map(|limit| {
            let sign = if limit.relation == Relation::AtMost { "<=" } else { ">=" };
            format!("{} {sign} {}", limit.knob, limit.bound.text())
        })
    }

    /// Describes the keys that specs of this type accept in addition to the knobs.
    pub fn options(&self) -> Vec<String> {
        let options = [
            (self.has_unknown_depth(), "depth-ms: how much may pass at once, as time at the rate"),
            (self.has_credit(), "start: the share of the credit at the start, from 0 to 1"),
            (self.has_unit(), "merge: on or off, whether sequential requests share a unit"),
            (true, "latency-us: from the release of a request to its completion"),
        ];
        let is_known = options.into_iter().filter(|(is_known, _)| *is_known);
        is_known.map(|(_, text)| text.to_string()).collect()
    }

    /// Returns the smallest and the largest value of `knob` that the other choices permit, or None
    /// if the type has no such knob or no value is permitted.
    pub fn range(&self, knob: &str, knobs: &Knobs) -> Option<[f64; 2]> {
        let own = self.knobs.iter().find(|own| own.name == knob)?;
        let values = self.values(knobs);
        let (mut least, mut most) = (own.least, own.most);
        for limit in self.limits.iter().filter(|limit| limit.knob == knob) {
            let bound = limit.bound.value(&|name| values.get(name).copied())?;
            match limit.relation {
                Relation::AtMost => most = most.min(bound.floor()),
                Relation::AtLeast => least = least.max(bound.ceil()),
            }
        }
        (least <= most).then_some([least, most])
    }

    /// Returns the values of all names that formulas may use.
    fn values(&self, knobs: &Knobs) -> BTreeMap<String, f64> {
        let mut values: BTreeMap<String, f64> = BTreeMap::new();
        for knob in &self.knobs {
            let value = knobs.get(&knob.name).or(knob.default);
            values.extend(value.map(|value| (knob.name.clone(), value)));
        }
        if let Some(tier) = values.get("gib").and_then(|gib| self.tier(*gib)) {
            values.extend(tier.values.clone());
        }
        values
    }

    /// Returns the values of all names, or an error if one of them is out of range.
    fn checked_values(&self, knobs: &Knobs) -> Result<BTreeMap<String, f64>, SpecError> {
        for knob in &self.knobs {
            let Knob { name, least, most, default } = knob;
            let key = spec::key(name);
            let Some(got) = knobs.get(name).or(*default) else {
                return Err(SpecError(format!(
                    "{key}: expected {least} to {most}, as in {key}={least}"
                )));
            };
            if !(*least..=*most).contains(&got) || got.fract() != 0.0 {
                return Err(SpecError(format!(
                    "{key}: got {got}, expected a whole number from {least} to {most}"
                )));
            }
        }
        let values = self.values(knobs);
        for limit in &self.limits {
            let Some(bound) = limit.bound.value(&|name| values.get(name).copied()) else {
                continue;
            };
            let got = values.get(&limit.knob).copied().unwrap_or_default();
            let (holds, sign, most) = match limit.relation {
                Relation::AtMost => (got <= bound, "<=", "at most"),
                Relation::AtLeast => (got >= bound, ">=", "at least"),
            };
            if !holds {
                let (key, rule) = (spec::key(&limit.knob), limit.bound.text());
                return Err(SpecError(format!(
                    "{key}: got {got}, expected {most} {bound} ({} {sign} {rule})",
                    limit.knob
                )));
            }
        }
        Ok(values)
    }

    /// Returns the throttle of a volume with these choices.
    ///
    /// # Errors
    /// Names the knob that is missing or out of range, or the rule that is violated.
    pub fn at(&self, knobs: &Knobs) -> Result<Throttle, SpecError> {
        let values = self.checked_values(knobs)?;
        let value = |of: &str, formula: &Formula| {
            formula.value(&|name| values.get(name).copied()).ok_or_else(|| {
                SpecError(format!("{of}: '{}' has no finite value here", formula.text()))
            })
        };
        let count = &self.file.count;
        let unit = count.unit_bytes.as_ref().map_or(Ok(0.0), |unit| value("unit_bytes", unit))?;
        let capacity = match &self.file.capacity_bytes {
            Some(capacity) => value("capacity_bytes", capacity)?,
            None => values.get("gib").map_or(f64::INFINITY, |gib| gib * f64::from(1 << 30)),
        };
        let own_latency = self.file.latency.get_ref();
        let latency = |own: f64| Nanos::from_millis_f64(knobs.latency_us.unwrap_or(own) / 1e3);
        let mut throttle = Throttle {
            count: match (unit as u32, count.fractions) {
                (0, _) => Count::Requests,
                (unit_bytes, true) => Count::Fractions { unit_bytes },
                (unit_bytes, false) => Count::Units { unit_bytes },
            },
            whole_units: count.whole_units,
            merges: knobs.merges.unwrap_or(count.merges),
            queues: match self.file.queues {
                QueuesName::Shared => Queues::Shared,
                QueuesName::PerDirection => Queues::PerDirection,
            },
            slice: self.file.slice(),
            read_latency: latency(own_latency.read_us),
            write_latency: latency(own_latency.write_us),
            capacity_bytes: capacity as u64,
            ..Throttle::of(Vec::new())
        };
        for table in self.file.bucket.iter().map(toml::Spanned::get_ref) {
            if table.when.as_ref().map_or(Ok(1.0), |when| value("when", when))? != 0.0 {
                let bucket = bucket(table, knobs, &value)?;
                throttle.buckets.push(bucket);
            }
        }
        throttle.check()?;
        Ok(throttle)
    }

    /// Returns the monthly price of a volume, or None if the type has no price or part of it is
    /// unknown.
    pub fn price(&self, knobs: &Knobs) -> Option<MonthlyPrice> {
        let price = self.price.as_ref()?;
        let values = self.values(knobs);
        let tier = values.get("gib").and_then(|gib| self.tier(*gib));
        let tier = tier.map(|tier| tier.name.as_str());
        let knobs = Knobs { values: values.clone(), ..Knobs::default() };
        let VolumePrice { currency, on, region, .. } = price.clone();
        Some(MonthlyPrice { amount: price.month(&knobs, tier)?, currency, on, region })
    }

    /// Replaces the prices of the type.
    ///
    /// # Errors
    /// Describes the first invalid part of the prices.
    pub fn with_price(mut self, price: VolumePrice) -> Result<VolumeType, String> {
        let knobs: Vec<&str> = self.knobs.iter().map(|knob| knob.name.as_str()).collect();
        let tiers: Vec<&str> = self.tiers.iter().map(|tier| tier.name.as_str()).collect();
        price.check(&knobs, &tiers)?;
        self.price = Some(price);
        Ok(self)
    }
}

/// A volume type and the choices of a user.
#[derive(Clone, Debug)]
pub struct ChosenVolume {
    /// The volume type.
    pub volume: VolumeType,
    /// The values chosen by the user.
    pub knobs: Knobs,
}

/// Builds a bucket from its table, and applies the choices that override it.
fn bucket(
    table: &BucketTable,
    knobs: &Knobs,
    value: &dyn Fn(&str, &Formula) -> Result<f64, SpecError>,
) -> Result<Bucket, SpecError> {
    let rate_per_s = value("rate", &table.rate)?;
    let (depth, start) = match (&table.depth, table.depth_ms) {
        (Some(depth), _) => (value("depth", depth)?, knobs.start_share.or(table.start)),
        (None, depth_ms) => {
            let depth_ms = knobs.depth_ms.or(depth_ms).unwrap_or_default();
            (rate_per_s * depth_ms / 1e3, table.start)
        }
    };
    Ok(Bucket {
        measure: match table.of {
            MeasureName::Ops => Measure::Ops,
            MeasureName::Bytes => Measure::Bytes,
        },
        direction: match table.direction {
            DirectionName::Both => Direction::Both,
            DirectionName::Read => Direction::Read,
            DirectionName::Write => Direction::Write,
        },
        rate_per_s,
        depth,
        start_share: start.unwrap_or(1.0),
    })
}

/// Returns the bundled volume type called `name`.
///
/// # Errors
/// Fails if there is no such type.
pub fn bundled(name: &str) -> Result<VolumeType, DevicesError> {
    let Some((path, text)) = text_of(name) else {
        return Err(DevicesError::Unknown {
            name: name.to_string(),
            nearest: super::nearest(name),
        });
    };
    VolumeType::read(&path, &text)
}

/// Returns the bundled volume types, sorted by name.
///
/// # Errors
/// Fails if a bundled file is invalid.
pub fn list() -> Result<Vec<VolumeType>, DevicesError> {
    names().map(bundled).collect()
}

/// Returns the volume described by `whole`, a spec such as `ebs-gp3:gib=500`. Each choice is
/// checked separately; [`VolumeType::at`] checks them together.
///
/// # Errors
/// Fails if the type does not exist, or if a choice is unknown or out of range.
pub fn choose(whole: &str) -> Result<ChosenVolume, DevicesError> {
    let (name, changes) = super::name_and_changes(whole.trim())?;
    let (path, text) = super::file_called(name)?;
    let volume = VolumeType::read(&path, &text)?;
    let knobs = spec::knobs(&volume, changes.as_ref())?;
    Ok(ChosenVolume { volume, knobs })
}

/// Returns the volume type if `name` is a type's name or file, or None if it is anything else, such
/// as a type with choices.
///
/// # Errors
/// Fails if the file cannot be read or is invalid.
pub fn named(name: &str) -> Result<Option<VolumeType>, DevicesError> {
    let (name, is_changed) = super::name_of(name.trim());
    if is_changed || !super::is_bundled_or_path(name) {
        return Ok(None);
    }
    let (path, text) = super::file_called(name)?;
    let is_volume = super::file::kind(&text) == super::DeviceKind::Volume;
    is_volume.then(|| VolumeType::read(&path, &text)).transpose()
}
