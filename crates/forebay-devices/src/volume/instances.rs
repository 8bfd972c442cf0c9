//! The EBS limits of EC2 instances by name, from a bundled table that states a source for each
//! group.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{ChosenVolume, Knobs, bundled};
use crate::DevicesError;

const TABLE: &str = include_str!("../../devices/volumes/instances.toml");

/// The volume type whose knobs are the limits of an instance.
pub const INSTANCE_LIMITS: &str = "ebs-instance";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    group: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    source: String,
    /// For each instance, the sustained and the highest IOPS, then the sustained and the highest
    /// MB/s.
    instances: BTreeMap<String, [f64; 4]>,
}

fn groups() -> Vec<Group> {
    let table: Table = toml::from_str(TABLE).expect("the bundled table is valid");
    table.group
}

/// Returns the names of all instances in the table.
pub fn instance_names() -> Vec<String> {
    groups().into_iter().flat_map(|group| group.instances.into_keys()).collect()
}

/// Returns the limits of the instance called `name` and their source, or None if the table does not
/// contain it. Throughput is rounded down to whole MB/s.
///
/// # Errors
/// Fails if the bundled type of instance limits is invalid.
pub fn instance(name: &str) -> Result<Option<(ChosenVolume, String)>, DevicesError> {
    let name = name.to_ascii_lowercase();
    let found = groups().into_iter().find_map(|group| {
        let limits = *group.instances.get(&name)?;
        Some((limits, group.source))
    });
    let Some(([baseline_iops, maximum_iops, baseline_mbps, maximum_mbps], source)) = found else {
        return Ok(None);
    };
    let knobs = Knobs::default()
        .with("baseline_iops", baseline_iops)
        .with("maximum_iops", maximum_iops)
        .with("baseline_mbps", baseline_mbps.floor())
        .with("maximum_mbps", maximum_mbps.floor());
    Ok(Some((ChosenVolume { volume: bundled(INSTANCE_LIMITS)?, knobs }, source)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instance_has_limits_that_its_type_permits() {
        let names = instance_names();
        assert!(names.len() > 300);
        let distinct: std::collections::BTreeSet<&String> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());
        for name in names {
            let (chosen, source) = instance(&name).unwrap().unwrap();
            assert!(chosen.volume.at(&chosen.knobs).is_ok() && !source.is_empty(), "{name}");
        }
        let (m7i, _) = instance("M7i.large").unwrap().unwrap();
        let figures = ["baseline_iops", "maximum_iops", "baseline_mbps", "maximum_mbps"];
        let figures = figures.map(|knob| m7i.knobs.get(knob).unwrap());
        assert_eq!(figures, [3600.0, 40_000.0, 81.0, 1250.0]);
        assert!(instance("m99.large").unwrap().is_none());
    }
}
