//! Parses the choices in a volume spec such as `ebs-gp3:gib=500:iops=6000:depth-ms=100`.

use forebay_core::{Spec, SpecError};

use super::{Knobs, VolumeType};

/// Returns the key of a knob in specs, which uses hyphens.
pub(super) fn key(knob: &str) -> String {
    knob.replace('_', "-")
}

/// Parses the choices in `changes` and checks the range of each. Rules between knobs are checked
/// when the volume is built.
pub(super) fn knobs(volume: &VolumeType, changes: Option<&Spec>) -> Result<Knobs, SpecError> {
    let Some(spec) = changes else { return Ok(Knobs::default()) };
    let mut knobs = Knobs::default();
    for knob in volume.knobs() {
        let expected = format!("a whole number from {} to {}", knob.least, knob.most);
        if let Some(value) = spec.number(&key(&knob.name), knob.least..=knob.most, &expected)? {
            knobs = knobs.with(&knob.name, value);
        }
    }
    if let Some(gib) = tier_gib(volume, spec)? {
        if knobs.get("gib").is_some() {
            let text = spec.text();
            return Err(SpecError(format!("'{text}': got tier and gib, expected one of them")));
        }
        knobs = knobs.with("gib", gib);
    }
    let number =
        |key: &str, most: f64| spec.number(key, 0.0..=most, &format!("a number from 0 to {most}"));
    if volume.has_unknown_depth() {
        knobs.depth_ms = number("depth-ms", 86_400_000.0)?;
    }
    if volume.has_credit() {
        knobs.start_share = number("start", 1.0)?;
    }
    if volume.has_unit() {
        knobs.merges = spec.chosen("merge", &["on", "off"])?.map(|choice| choice == 0);
    }
    knobs.latency_us = number("latency-us", 1e9)?;
    spec.finish()?;
    Ok(knobs)
}

/// Returns the size of the tier named in `spec`, if any.
fn tier_gib(volume: &VolumeType, spec: &Spec) -> Result<Option<f64>, SpecError> {
    if volume.tiers().is_empty() {
        return Ok(None);
    }
    let names: Vec<&str> = volume.tiers().iter().map(|tier| tier.name.as_str()).collect();
    Ok(spec.chosen("tier", &names)?.map(|index| volume.tiers()[index].gib))
}
