use forebay_core::{DeviceModel, Nanos};
use forebay_live::{Emulated, VirtualClock};

use super::*;

/// Probes a simulated volume, specified by `spec`, in virtual time.
fn probed(spec: &str) -> FittedLimits {
    let device = devices::open(spec).unwrap();
    let capacity_bytes = 100 << 30;
    let mut lanes = Emulated::new(vec![device.model], VirtualClock::default());
    let (stop, mut tell) = (AtomicBool::new(false), |_: String, _: Option<f64>| ());
    measured(&mut lanes, capacity_bytes, &stop, &mut tell).unwrap()
}

fn near(got: f64, expected: f64) {
    assert!((got / expected - 1.0).abs() < 0.02, "{got}, expected {expected}");
}

#[test]
fn rates_and_depths_of_a_volume_are_found() {
    for (depth_ms, depth_s) in [("10", 0.01), ("100", 0.1), ("1000", 1.0)] {
        let found = probed(&format!("ebs-gp3:gib=500:iops=6000:mibps=250:depth-ms={depth_ms}"));
        let (ops, bytes) = (found.ops.unwrap(), found.bytes.unwrap());
        near(ops.rate_per_s, 6000.0);
        near(bytes.rate_per_s, 250.0 * 1_048_576.0);
        assert!((ops.depth / ops.rate_per_s - depth_s).abs() < 0.003, "{ops:?}");
        assert!((bytes.depth / bytes.rate_per_s - depth_s).abs() < 0.003, "{bytes:?}");
        assert!(ops.drift_share < 0.02 && bytes.drift_share < 0.02);
        near(found.base_s, 700e-6);
        assert_eq!((found.unit_bytes, found.merges), (None, Some(false)));
    }
}

#[test]
fn unit_and_merging_are_found_if_operations_decide() {
    let of = |merge: &str| probed(&format!("azure-ultra:gib=500:iops=400:mbps=100:merge={merge}"));
    let (apart, merged) = (of("off"), of("on"));
    near(apart.ops.unwrap().rate_per_s, 400.0);
    // 400 operations of 256 KiB per second are 105 MB/s, so the limit on bytes is hardly
    // noticeable.
    assert_eq!(apart.merges, Some(false));
    assert_eq!(merged.merges, Some(true));
    let found = probed("gcp-hyperdisk-extreme:gib=100:iops=200:merge=on");
    near(found.ops.unwrap().rate_per_s, 200.0);
    assert_eq!(found.merges, Some(true));
}

#[test]
fn a_counting_unit_shows_where_bytes_are_free() {
    let text = "kind = \"volume\"\nname = \"x\"\ndescription = \"y\"\n[count]\nunit_bytes = 262144\n\
                [[bucket]]\nof = \"ops\"\nrate = 400\ndepth = 40\n[latency]\nread_us = 500\n\
                write_us = 500\n";
    let device = devices::read(Path::new("x.toml"), text).unwrap();
    let mut lanes = Emulated::new(vec![device.model], VirtualClock::default());
    let (stop, mut tell) = (AtomicBool::new(false), |_: String, _: Option<f64>| ());
    let found = measured(&mut lanes, 1 << 36, &stop, &mut tell).unwrap();
    assert_eq!((found.unit_bytes, found.bytes), (Some(262_144), None));
    near(found.ops.unwrap().rate_per_s, 400.0);
    assert!((found.ops.unwrap().depth - 40.0).abs() < 1.0);
}

#[test]
fn a_device_without_limits_has_none() {
    let found = probed("iomax");
    assert_eq!((found.ops, found.bytes, found.unit_bytes, found.merges), (None, None, None, None));
    let text = written::toml("free", Path::new("/dev/x"), 1 << 30, &found);
    let device = devices::read(Path::new("free.toml"), &text).unwrap();
    let DeviceModel::Throttled(volume) = &device.model else { panic!("no volume") };
    assert!(volume.throttle().buckets.is_empty());
}

#[test]
fn the_device_file_contains_the_findings() {
    let found = probed("ebs-gp3:gib=500:iops=6000:mibps=250");
    let text = written::toml("db \"1\"", Path::new("/dev/nvme1n1"), 500 << 30, &found);
    let device = devices::read(Path::new("db.toml"), &text).unwrap();
    assert_eq!((device.name.as_str(), device.notes.len()), ("db \"1\"", 0));
    let DeviceModel::Throttled(volume) = &device.model else { panic!("no volume") };
    let throttle = volume.throttle();
    near(throttle.buckets[0].rate_per_s, 6000.0);
    near(throttle.buckets[1].depth, 25.0 * 1_048_576.0);
    assert_eq!((throttle.capacity_bytes, throttle.read_latency), (500 << 30, Nanos(700_000)));
    assert!(written::in_short(&found).contains("IOPS and "), "{}", written::in_short(&found));
    assert_eq!(written::told(&found).len(), 5);
    let unsettled =
        FittedLimits { ops: found.ops.map(|line| Line { drift_share: 0.5, ..line }), ..found };
    assert!(written::notes(&unsettled)[0].contains("had not settled"));
}

#[test]
fn a_probe_stops_on_request() {
    let device = devices::open("iomax").unwrap();
    let mut lanes = Emulated::new(vec![device.model], VirtualClock::default());
    let (stop, mut tell) = (AtomicBool::new(true), |_: String, _: Option<f64>| ());
    let stopped = measured(&mut lanes, 1 << 30, &stop, &mut tell);
    assert!(matches!(stopped, Err(ProbeError::Stopped)));
}

#[test]
fn a_probe_costs_what_the_help_says() {
    let help = "The probe reads for up to 43 s, with pauses in which\n    /// buckets fill, and at most 9.6 GB.";
    assert!(include_str!("../probe.rs").contains(help));
    let cost = cost();
    assert!(cost.contains("up to 43 s, at most 9.6 GB"), "{cost}");
}

#[test]
fn targets_that_cannot_be_probed_are_rejected() {
    let said = |path: &Path| opened(path).unwrap_err().to_string();
    assert!(said(Path::new("/no/such")).contains("expected a block device or a file to read"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small");
    std::fs::write(&path, [0; 8192]).unwrap();
    assert!(said(&path).contains("got 8192 bytes, expected at least 67108864"));
    let sparse = std::fs::File::create(&path).unwrap();
    sparse.set_len(128 << 20).unwrap();
    assert!(said(&path).contains("is a sparse file"));
}
