//! The format of device files for volumes.
//!
//! As in files for drives, the names of keys include units, and unknown keys are errors.

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};

use forebay_core::Nanos;
use serde::Deserialize;
use toml::Spanned;

use super::formula::Formula;
use super::price::VolumePrice;
use super::{Knob, Limit, Relation, Tier};
use crate::evidence::EvidenceTable;
use crate::file::{DeviceKind, TomlError, toml_error};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VolumeFile {
    #[allow(dead_code)] // read so that files for other kinds of devices are rejected here
    kind: DeviceKind,
    pub(super) name: String,
    pub(super) description: String,
    #[serde(default)]
    pub(super) queues: QueuesName,
    /// The length of a slice in `blk-throttle`, in ms. Without it, buckets fill evenly.
    slice_ms: Option<Spanned<f64>>,
    #[serde(default)]
    knobs: BTreeMap<String, Spanned<KnobTable>>,
    #[serde(default)]
    tiers: BTreeMap<String, Spanned<BTreeMap<String, f64>>>,
    #[serde(default)]
    limit: Vec<Spanned<LimitTable>>,
    #[serde(default)]
    pub(super) count: CountTable,
    pub(super) bucket: Vec<Spanned<BucketTable>>,
    pub(super) capacity_bytes: Option<Formula>,
    pub(super) latency: Spanned<LatencyTable>,
    pub(super) price: Option<Spanned<VolumePrice>>,
    pub(super) evidence: Option<Spanned<EvidenceTable>>,
}

/// The queues in which requests wait.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum QueuesName {
    #[default]
    Shared,
    PerDirection,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KnobTable {
    least: f64,
    most: f64,
    default: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitTable {
    rule: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct CountTable {
    pub(super) unit_bytes: Option<Formula>,
    pub(super) fractions: bool,
    pub(super) whole_units: bool,
    pub(super) merges: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BucketTable {
    pub(super) of: MeasureName,
    #[serde(default)]
    pub(super) direction: DirectionName,
    pub(super) rate: Formula,
    pub(super) depth: Option<Formula>,
    pub(super) depth_ms: Option<f64>,
    pub(super) start: Option<f64>,
    pub(super) when: Option<Formula>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum MeasureName {
    Ops,
    Bytes,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum DirectionName {
    #[default]
    Both,
    Read,
    Write,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LatencyTable {
    pub(super) read_us: f64,
    pub(super) write_us: f64,
}

/// The lengths of a slice.
const SLICE_MS: RangeInclusive<f64> = 1.0..=10_000.0;

/// The largest value that a knob may have.
const KNOB_MAX: f64 = 1e15;

impl VolumeFile {
    /// Returns the length of a slice; `None` if tokens come evenly.
    pub(super) fn slice(&self) -> Option<Nanos> {
        self.slice_ms.as_ref().map(|ms| Nanos::from_millis_f64(*ms.get_ref()))
    }

    pub(super) fn parse(text: &str) -> Result<VolumeFile, TomlError> {
        let file: VolumeFile =
            toml::from_str(text).map_err(|error| (error.span(), error.message().to_string()))?;
        file.check()?;
        Ok(file)
    }

    fn check(&self) -> Result<(), TomlError> {
        let names = self.names()?;
        let check_formula = |key: &str, formula: &Formula, span: Range<usize>| {
            let wrong = formula.names().into_iter().find(|name| !names.contains(name));
            wrong.map_or(Ok(()), |wrong| {
                let known = names.join(", ");
                Err(toml_error(span, format!("{key}: no knob '{wrong}', expected one of {known}")))
            })
        };
        if let Some(slice) = self.slice_ms.as_ref().filter(|ms| !SLICE_MS.contains(ms.get_ref())) {
            let (least, most) = (SLICE_MS.start(), SLICE_MS.end());
            let text = format!("slice_ms: got {}, expected {least} to {most}", slice.get_ref());
            return Err(toml_error(slice.span(), text));
        }
        for limit in self.limits()? {
            check_formula("rule", &limit.bound, limit.span)?;
        }
        for bucket in &self.bucket {
            let (span, table) = (bucket.span(), bucket.get_ref());
            check_formula("rate", &table.rate, span.clone())?;
            for (key, formula) in [("depth", &table.depth), ("when", &table.when)] {
                if let Some(formula) = formula {
                    check_formula(key, formula, span.clone())?;
                }
            }
            let depths = u8::from(table.depth.is_some()) + u8::from(table.depth_ms.is_some());
            if self.slice_ms.is_some() && depths > 0 {
                return Err(toml_error(
                    span,
                    "bucket: expected neither depth nor depth_ms with slice_ms",
                ));
            }
            if self.slice_ms.is_none() && depths != 1 {
                return Err(toml_error(span, "bucket: expected either depth or depth_ms"));
            }
            if let Some(got) = table.depth_ms.filter(|ms| !(0.0..=86_400_000.0).contains(ms)) {
                return Err(toml_error(
                    span,
                    format!("depth_ms: got {got}, expected 0 to 86400000"),
                ));
            }
            if let Some(got) = table.start.filter(|start| !(0.0..=1.0).contains(start)) {
                return Err(toml_error(span, format!("start: got {got}, expected 0 to 1")));
            }
        }
        let LatencyTable { read_us, write_us } = self.latency.get_ref();
        for (key, got) in [("read_us", read_us), ("write_us", write_us)] {
            if !(0.0..=1e9).contains(got) {
                let what = format!("{key}: got {got}, expected 0 to 1e9");
                return Err(toml_error(self.latency.span(), what));
            }
        }
        let whole =
            [("unit_bytes", &self.count.unit_bytes), ("capacity_bytes", &self.capacity_bytes)];
        for (key, formula) in whole {
            if let Some(formula) = formula {
                check_formula(key, formula, 0..0)?;
            }
        }
        self.check_price()
    }

    fn check_price(&self) -> Result<(), TomlError> {
        let Some(price) = &self.price else { return Ok(()) };
        let knobs: Vec<&str> = self.knobs.keys().map(String::as_str).collect();
        let tiers: Vec<&str> = self.tiers.keys().map(String::as_str).collect();
        price.get_ref().check(&knobs, &tiers).map_err(|what| toml_error(price.span(), what))
    }

    /// Returns all names that formulas may use.
    fn names(&self) -> Result<Vec<&str>, TomlError> {
        let mut names: Vec<&str> = self.knobs.keys().map(String::as_str).collect();
        let Some((_, first)) = self.tiers.iter().next() else { return Ok(names) };
        for tier in self.tiers.values() {
            if !tier.get_ref().keys().eq(first.get_ref().keys()) {
                return Err(toml_error(tier.span(), "tiers: expected the same keys in every tier"));
            }
        }
        names.extend(first.get_ref().keys().map(String::as_str));
        Ok(names)
    }

    pub(super) fn knobs(&self) -> Result<Vec<Knob>, TomlError> {
        let knob = |(name, table): (&String, &Spanned<KnobTable>)| {
            let KnobTable { least, most, default } = *table.get_ref();
            let is_range = (0.0..=KNOB_MAX).contains(&least) && (least..=KNOB_MAX).contains(&most);
            if !is_range || default.is_some_and(|default| !(least..=most).contains(&default)) {
                let what = format!(
                    "{name}: got {least} to {most}, expected 0 to 1e15 with the default in between"
                );
                return Err(toml_error(table.span(), what));
            }
            Ok(Knob { name: name.clone(), least, most, default })
        };
        self.knobs.iter().map(knob).collect()
    }

    /// Returns the tiers from the smallest to the largest.
    pub(super) fn tiers(&self) -> Result<Vec<Tier>, TomlError> {
        let mut tiers = Vec::new();
        for (name, table) in &self.tiers {
            let values = table.get_ref();
            let Some(&gib) = values.get("gib").filter(|gib| gib.is_finite()) else {
                return Err(toml_error(table.span(), format!("{name}: expected gib")));
            };
            tiers.push(Tier { name: name.clone(), gib, values: values.clone() });
        }
        tiers.sort_by(|a, b| a.gib.total_cmp(&b.gib));
        Ok(tiers)
    }

    pub(super) fn limits(&self) -> Result<Vec<Limit>, TomlError> {
        let limit = |table: &Spanned<LimitTable>| {
            let rule = &table.get_ref().rule;
            let signs = ["<=", ">="].into_iter();
            let splits = signs.filter_map(|sign| Some((sign, rule.split_once(sign)?)));
            let split = splits.min_by_key(|(_, (knob, _))| knob.len());
            let known = split.filter(|(_, (knob, _))| self.knobs.contains_key(knob.trim()));
            let Some((sign, (knob, bound))) = known else {
                let what = format!(
                    "rule: got '{rule}', expected a knob, <= or >=, and a formula, as in \
                     iops <= 500 * gib"
                );
                return Err(toml_error(table.span(), what));
            };
            let relation = if sign == "<=" { Relation::AtMost } else { Relation::AtLeast };
            let bound =
                Formula::parse(bound.trim()).map_err(|what| toml_error(table.span(), what))?;
            Ok(Limit { knob: knob.trim().to_string(), relation, bound, span: table.span() })
        };
        self.limit.iter().map(limit).collect()
    }
}
