use forebay_core::DeviceModel;
use forebay_core::device::throttled::{Count, Direction, Measure, Queues, Throttle};

use super::*;

/// Returns the throttle of the volume that `spec` describes.
fn throttle(spec: &str) -> Throttle {
    match crate::open(spec).unwrap().model {
        DeviceModel::Throttled(device) => device.throttle().clone(),
        _ => panic!("'{spec}' is no volume"),
    }
}

fn said(spec: &str) -> String {
    crate::open(spec).unwrap_err().to_string()
}

/// Returns the rate and the depth of each bucket of the volume that `spec` describes.
fn buckets(spec: &str) -> Vec<(f64, f64)> {
    throttle(spec).buckets.iter().map(|bucket| (bucket.rate_per_s, bucket.depth)).collect()
}

const MIB: f64 = 1_048_576.0;

#[test]
fn every_bundled_type_states_the_source_of_every_figure() {
    let types = list().unwrap();
    assert!(types.len() >= 19);
    for volume in types {
        assert_eq!(volume.name, volume.name.to_ascii_lowercase());
        assert!(volume.figures.len() > 3, "{}", volume.name);
        for figure in &volume.figures {
            let is_figure = !["currency", "on", "region"].contains(&figure.key.as_str());
            let is_known = !is_figure || !figure.source.is_empty();
            assert!(is_known, "{}: {} has no source", volume.name, figure.key);
        }
    }
}

/// With a knob at either end of its range, each type has a throttle or an error names the invalid
/// knob.
#[test]
fn every_bundled_type_works_at_the_ends_of_its_ranges() {
    for volume in list().unwrap() {
        let mut worked = 0;
        for ends in 0..1_u64 << volume.knobs().len().min(6) {
            let choose = |knobs: Knobs, (number, knob): (usize, &Knob)| {
                let end = if ends >> number & 1 == 0 { knob.least } else { knob.most };
                knobs.with(&knob.name, end)
            };
            let knobs = volume.knobs().iter().enumerate().fold(Knobs::default(), choose);
            match volume.at(&knobs) {
                Ok(throttle) => worked += usize::from(!throttle.buckets.is_empty()),
                Err(error) => assert!(error.0.contains("expected"), "{}: {error}", volume.name),
            }
        }
        assert!(worked > 0, "{}", volume.name);
    }
}

#[test]
fn flat_types_have_a_bucket_of_operations_and_one_of_bytes() {
    let gp3 = throttle("ebs-gp3:gib=500:iops=6000:mibps=250");
    assert_eq!(gp3.count, Count::Units { unit_bytes: 262_144 });
    assert_eq!((gp3.queues, gp3.capacity_bytes), (Queues::Shared, 500 << 30));
    assert_eq!(
        gp3.buckets.iter().map(|bucket| bucket.measure).collect::<Vec<_>>(),
        [Measure::Ops, Measure::Bytes]
    );
    let of = buckets("ebs-gp3:gib=500:iops=6000:mibps=250");
    assert_eq!(of, [(6000.0, 600.0), (250.0 * MIB, 25.0 * MIB)]);
    assert_eq!(buckets("EBS-gp3:gib=1")[0].0, 3000.0);
    assert_eq!(buckets("ebs-gp3:gib=1:depth-ms=0")[0], (3000.0, 0.0));
    assert_eq!(buckets("ebs-io2:gib=64:iops=64000")[1].0, 4000.0 * MIB);
    assert_eq!(buckets("azure-premium-v2:gib=8:iops=4000:mbps=1000")[1].0, 1e9);
    assert_eq!(buckets("gcp-hyperdisk-throughput:gib=2048:mibps=100")[0].0, 400.0);
}

#[test]
fn credits_follow_from_the_size() {
    assert_eq!(buckets("ebs-gp2:gib=100")[1], (300.0, 5.4e6));
    assert_eq!(buckets("ebs-gp2:gib=10")[1].0, 100.0);
    assert_eq!(buckets("ebs-gp2:gib=8000"), [(16000.0, 1600.0), (250.0 * MIB, 25.0 * MIB)]);
    let st1 = throttle("ebs-st1:gib=1024");
    assert!(st1.whole_units && st1.merges);
    assert_eq!(buckets("ebs-st1:gib=1024")[2], (40.0 * MIB, 2_f64.powi(40)));
    let empty = throttle("ebs-gp2:gib=100:start=0");
    let starts: Vec<f64> = empty.buckets.iter().map(|bucket| bucket.start_share).collect();
    assert_eq!(starts, [1.0, 0.0, 1.0], "a depth that is assumed is full in any case");
}

#[test]
fn tiers_are_named_or_found_by_size() {
    let p10 = [(3500.0, 350.0), (500.0, 5.4e6), (1.7e8, 1.7e7), (1e8, 1.26e11)];
    assert_eq!(buckets("azure-premium:tier=P10"), p10);
    assert_eq!(buckets("azure-premium:gib=100"), p10);
    assert_eq!(throttle("azure-premium:gib=100").capacity_bytes, 128 << 30);
    assert_eq!(buckets("azure-premium:tier=p30")[0].0, 5000.0);
    assert_eq!(buckets("azure-premium:tier=p30:on-demand=1")[0].0, 30000.0);
    assert!(
        said("azure-premium:tier=P10:on-demand=1").contains("on-demand: got 1, expected at most 0")
    );
    assert!(said("azure-premium:tier=P10:gib=3").contains("expected one of them"));
    assert!(said("azure-premium:tier=P11").contains("got 'P11', expected P1 or P2"));
}

#[test]
fn limits_of_qemu_and_the_kernel_name_a_direction() {
    let spec = "iotune:total-iops-sec=500:total-iops-sec-max=2000:total-iops-sec-max-length=60";
    assert_eq!(buckets(spec), [(500.0, 120_000.0), (2000.0, 200.0)]);
    assert_eq!(buckets("iotune:write-bytes-sec=1000"), [(1000.0, 100.0)]);
    let fractions = throttle("iotune:read-iops-sec=9:size-iops-sec=4096").count;
    assert_eq!(fractions, Count::Fractions { unit_bytes: 4096 });
    let both = said("iotune:total-iops-sec=500:read-iops-sec=3");
    assert!(both.contains("total-iops-sec: got 500, expected at most 0"), "{both}");
    // throttle_is_valid() in QEMU's util/throttle.c rejects the same values.
    for (wrong, key) in [
        ("total-iops-sec-max=2000", "total-iops-sec-max"),
        ("read-bytes-sec-max=2000", "read-bytes-sec-max"),
        ("read-iops-sec=9:write-iops-sec-max=20", "write-iops-sec-max"),
        ("total-iops-sec=500:total-iops-sec-max-length=60", "total-iops-sec-max-length"),
        ("total-iops-sec=500:total-iops-sec-max=400", "total-iops-sec-max"),
        ("size-iops-sec=4096", "size-iops-sec"),
        ("write-bytes-sec=9:size-iops-sec=4096", "size-iops-sec"),
    ] {
        let said = said(&format!("iotune:{wrong}"));
        assert!(said.contains(&format!("{key}: got ")), "{said}");
    }
    let cgroup = throttle("iomax:riops=1000:wbps=10485760");
    assert_eq!((cgroup.queues, cgroup.capacity_bytes), (Queues::PerDirection, u64::MAX));
    let directions: Vec<Direction> = cgroup.buckets.iter().map(|one| one.direction).collect();
    assert_eq!(directions, [Direction::Read, Direction::Write]);
    assert!(throttle("iomax").buckets.is_empty());
}

#[test]
fn spec_errors_name_parameter_and_limit() {
    for (spec, expected) in [
        ("ebs-gp3", "'ebs-gp3': gib: expected 1 to 65536, as in gib=1"),
        ("ebs-gp3:gib=0", "gib: got '0', expected a whole number from 1 to 65536"),
        ("ebs-gp3:gib=nan", "gib: got 'nan'"),
        ("ebs-gp3:gib=1e99", "gib: got '1e99'"),
        ("ebs-gp3:gib=2.5", "gib: got 2.5, expected a whole number"),
        ("ebs-gp3:gib=100:iops=60000", "expected at most 50000 (iops <= max(3000, 500 * gib))"),
        (
            "ebs-gp3:gib=100:mibps=800",
            "mibps: got 800, expected at most 750 (mibps <= 0.25 * iops)",
        ),
        ("ebs-gp3:gib=100:iosp=3", "no parameter 'iosp' (did you mean iops?)"),
        ("ebs-gp3:gib=100:depth-ms=-1", "depth-ms: got '-1'"),
        ("ebs-gp3:gib=100:merge=maybe", "merge: got 'maybe', expected on or off"),
        ("ebs-gp3:gib=100:start=1", "no parameter 'start'"),
        ("ebs-gp2:gib=100:start=2", "start: got '2', expected a number from 0 to 1"),
        ("ebs-gp4:gib=100", "no device 'ebs-gp4' (did you mean ebs-gp"),
        ("gcp-hyperdisk-throughput:gib=32768:mibps=20", "expected at least 320"),
    ] {
        let said = said(spec);
        assert!(said.contains(expected), "{spec}: {said}");
    }
    let of_disks = crate::open_spec("ebs-gp3:gib=100").unwrap_err().to_string();
    assert!(of_disks.contains("got a volume, expected a disk"), "{of_disks}");
}

#[test]
fn prices_follow_tiers_and_are_unknown_beyond_them() {
    let price = |spec: &str| {
        let ChosenVolume { volume, knobs } = choose(spec).unwrap();
        volume.price(&knobs).map(|price| (price.amount * 1000.0).round() / 1000.0)
    };
    assert_eq!(price("ebs-gp3:gib=500"), Some(40.0));
    assert_eq!(price("ebs-gp3:gib=500:iops=8865:mibps=415"), Some(80.925));
    assert_eq!(price("ebs-io2:gib=1000:iops=70000"), Some(125.0 + 2080.0 + 1472.0 + 192.0));
    assert_eq!(price("azure-premium:tier=P10"), Some(19.71));
    assert_eq!(price("azure-premium:tier=P15"), None);
    assert_eq!(price("ebs-st1:gib=500"), None);
    let ChosenVolume { volume, knobs } = choose("ebs-st1:gib=500").unwrap();
    let other = |text: &str| volume.clone().with_price(toml::from_str(text).unwrap());
    let priced = other("currency = \"EUR\"\non = \"2026-11\"\ngib = 0.05\n").unwrap();
    let month = priced.price(&knobs).unwrap();
    assert_eq!(
        (month.amount, month.currency.as_str(), month.on.as_str()),
        (25.0, "EUR", "2026-11")
    );
    let wrong = other("currency = \"EUR\"\non = \"2026-11\"\nmonth = 1\n").unwrap_err();
    assert!(wrong.contains("got month, expected one of gib"), "{wrong}");
    let wrong = other("currency = \"EUR\"\non = \"2026-11\"\niops = 1\n").unwrap_err();
    assert!(wrong.contains("got 'iops', expected one of gib"), "{wrong}");
    let wrong =
        other("currency = \"EUR\"\non = \"2026-11\"\ngib = [[9, 1], [3, 1]]\n").unwrap_err();
    assert!(wrong.contains("expected increasing limits"), "{wrong}");
}

#[test]
fn ranges_follow_from_the_other_choices() {
    let gp3 = bundled("ebs-gp3").unwrap();
    let of = |knob: &str, knobs: &Knobs| gp3.range(knob, knobs);
    let small = Knobs::default().with("gib", 20.0);
    assert_eq!(of("iops", &small), Some([3000.0, 10_000.0]));
    assert_eq!(of("mibps", &small), Some([125.0, 750.0]));
    assert_eq!(of("mibps", &small.with("iops", 8001.0)), Some([125.0, 2000.0]));
    assert_eq!(of("fee", &Knobs::default()), None);
    let throughput = bundled("gcp-hyperdisk-throughput").unwrap();
    let large = Knobs::default().with("gib", 4096.0);
    assert_eq!(throughput.range("mibps", &large), Some([40.0, 2400.0]));
}

#[test]
fn mistakes_in_a_file_name_the_line() {
    let text = "kind = \"volume\"\nname = \"x\"\ndescription = \"y\"\n[knobs]\n\
                gib = { least = 1, most = 9 }\n[[bucket]]\nof = \"ops\"\nrate = \"gib\"\n\
                depth_ms = 100\n[latency]\nread_us = 1\nwrite_us = 1\n";
    assert!(VolumeType::parse(text).is_ok());
    for (from, to, expected, line) in [
        ("rate = \"gib\"", "rate = \"iops\"", "no knob 'iops', expected one of gib", 8),
        ("rate = \"gib\"", "rate = \"gib *\"", "got its end", 8),
        ("depth_ms = 100\n", "", "expected either depth or depth_ms", 6),
        ("depth_ms = 100", "depth_ms = -1", "depth_ms: got -1", 9),
        ("[knobs]", "slice_ms = -5\n[knobs]", "slice_ms: got -5, expected 1 to 10000", 4),
        ("[knobs]", "slice_ms = nan\n[knobs]", "slice_ms: got NaN", 4),
        ("[knobs]", "slice_ms = 100\n[knobs]", "neither depth nor depth_ms with slice_ms", 10),
        ("depth_ms = 100", "depth_ms = 1\nstart = 2", "start: got 2", 10),
        ("most = 9", "most = 0", "gib: got 1 to 0", 5),
        ("read_us = 1", "read_us = -1", "read_us: got -1", 11),
        ("rate = ", "speed = ", "unknown field `speed`", 8),
        ("[latency]", "[[limit]]\nrule = \"iops < 3\"\n[latency]", "expected a knob, <= or >=", 11),
    ] {
        let text = text.replace(from, to);
        assert_ne!(VolumeType::parse(&text).err(), None, "{to}");
        let error = crate::read(Path::new("v.toml"), &text).unwrap_err().to_string();
        assert!(error.contains(expected), "{to}: {error}");
        assert!(error.contains(&format!("line {line}")), "{to}: {error}");
    }
}
