//! Names and units of parameters in Linux's sysfs (`/sys/block/sda/queue`), as in
//! `mq-deadline:fifo_batch=32`.
//!
//! Names with underscores are sysfs names with sysfs units. Forebay's own names have dashes and end
//! with their unit.

/// How to convert a value from sysfs.
#[derive(Clone, Copy)]
enum Value {
    Same,
    /// Divide by this number, because our unit is larger.
    Over(f64),
    /// 1 means yes and 0 means no.
    Switch,
}

/// The sysfs names that differ from ours in their units, or in more than underscores.
const NAMES: [(&str, &str, Value); 21] = [
    ("read_expire", "read-expire-ms", Value::Same),
    ("write_expire", "write-expire-ms", Value::Same),
    ("front_merges", "front-merges", Value::Switch),
    ("async_depth", "writes-max", Value::Same),
    ("slice_idle", "slice-idle-ms", Value::Same),
    ("slice_idle_us", "slice-idle-ms", Value::Over(1e3)),
    ("slice_sync", "slice-sync-ms", Value::Same),
    ("slice_async", "slice-async-ms", Value::Same),
    ("fifo_expire_sync", "fifo-expire-sync-ms", Value::Same),
    ("fifo_expire_async", "fifo-expire-async-ms", Value::Same),
    ("back_seek_max", "back-seek-max-kib", Value::Same),
    ("low_latency", "low-latency", Value::Switch),
    ("timeout_sync", "timeout-sync-ms", Value::Same),
    ("max_budget", "max-budget-kib", Value::Over(2.0)),
    ("read_lat_nsec", "read-target-ms", Value::Over(1e6)),
    ("write_lat_nsec", "write-target-ms", Value::Over(1e6)),
    ("wbt_lat_usec", "wbt-ms", Value::Over(1e3)),
    ("max_sectors_kb", "request-max-kib", Value::Same),
    ("antic_expire", "antic-expire-ms", Value::Same),
    ("read_batch_expire", "read-batch-expire-ms", Value::Same),
    ("write_batch_expire", "write-batch-expire-ms", Value::Same),
];

/// The schedulers with a single pool of requests. For all others, `nr_requests` limits reads and
/// writes separately.
const POOLED: &[&str] = &["clook", "none", "mq-deadline", "bfq", "kyber", "forebay"];

/// Translates a sysfs parameter of `policy` to our names and values. Other parameters are returned
/// unchanged.
pub(super) fn translated(policy: &str, key: String, value: &str) -> Vec<(String, String)> {
    let unchanged = || value.to_owned();
    if key == "nr_requests" {
        return match POOLED.contains(&policy) {
            true => vec![("requests-max".into(), unchanged())],
            false => ["reads-max", "writes-max"].map(|key| (key.into(), unchanged())).into(),
        };
    }
    let Some((_, ours, convert)) = NAMES.iter().find(|(name, ..)| *name == key) else {
        return vec![(key.replace('_', "-"), unchanged())];
    };
    let value = match (convert, value, value.parse::<f64>()) {
        (Value::Over(by), _, Ok(number)) => (number / by).to_string(),
        (Value::Switch, "1", _) => "yes".into(),
        (Value::Switch, "0", _) => "no".into(),
        _ => unchanged(),
    };
    vec![((*ours).into(), value)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{BLOCK_PARAMETERS, Listed, POLICIES, Parameter};

    fn one(policy: &str, key: &str, value: &str) -> String {
        let all = translated(policy, key.into(), value);
        all.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(":")
    }

    #[test]
    fn sysfs_names_and_units_are_translated() {
        for (policy, key, value, ours) in [
            ("mq-deadline", "fifo_batch", "32", "fifo-batch=32"),
            ("mq-deadline", "nr_requests", "256", "requests-max=256"),
            ("deadline", "nr_requests", "256", "reads-max=256:writes-max=256"),
            ("bfq", "slice_idle_us", "2500", "slice-idle-ms=2.5"),
            ("bfq", "max_budget", "1024", "max-budget-kib=512"),
            ("cfq", "slice_idle", "0", "slice-idle-ms=0"),
            ("cfq", "low_latency", "0", "low-latency=no"),
            ("mq-deadline", "front_merges", "1", "front-merges=yes"),
            ("kyber", "read_lat_nsec", "2000000", "read-target-ms=2"),
            ("cfq", "quantum", "4", "quantum=4"),
            ("cfq", "slice_idle", "x", "slice-idle-ms=x"),
        ] {
            assert_eq!(one(policy, key, value), ours);
        }
    }

    #[test]
    fn schedulers_with_one_pool_get_its_size() {
        let has_pool = |listed: &&Listed| listed.parameters().any(|it| it.key == "requests-max");
        let pooled: Vec<&str> = POLICIES.iter().filter(has_pool).map(|it| it.name).collect();
        assert_eq!(pooled, POOLED, "those with the parameter requests-max belong in POOLED");
    }

    #[test]
    fn every_name_is_a_parameter() {
        let keys: Vec<&str> = POLICIES
            .iter()
            .flat_map(|listed| listed.parameters())
            .chain(BLOCK_PARAMETERS)
            .map(|parameter: &Parameter| parameter.key)
            .collect();
        for (name, ours, _) in NAMES {
            assert!(keys.contains(&ours), "{name}");
        }
    }
}
