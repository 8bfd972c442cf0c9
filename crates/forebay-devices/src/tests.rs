//! Tests the bundled device files, and errors in device files and names.

use super::*;
use forebay_core::Device;

/// A complete device file with explicit zones: the test disk of the paper.
const TEST_DISK: &str = r#"kind = "hdd"
name = "test"
description = "100 sectors a track, 100 tracks"

[geometry]
heads = 1
rpm = 6000

[[zone]]
first_cylinder = 0
last_cylinder = 59
sectors_per_track = 100

[[zone]]
first_cylinder = 60
last_cylinder = 99
sectors_per_track = 100

[seek]
short_ms = 0.5
short_us_per_root = 100
long_ms = 0.9
long_us_per_cylinder = 4
knee_cylinders = 25
write_settle_ms = 0

[switch]
head_ms = 0
cylinder_ms = 1

[command]
overhead_ms = 0.2

[power]
idle_w = 5
seek_w = 9
transfer_w = 7
"#;

fn said(text: &str) -> String {
    read(Path::new("my.toml"), text).unwrap_err().to_string()
}

/// Returns the number before ` UNIT` in a description, as in `250 GB, 7200 rpm`.
fn stated(description: &str, unit: &str) -> Option<f64> {
    let before = description.split_once(&format!(" {unit}"))?.0;
    before.rsplit([' ', ',']).next()?.parse().ok()
}

#[test]
fn bundled_devices_open_by_name_and_hold_what_they_advertise() {
    for (name, text) in BUNDLED {
        let device = open(&name.to_uppercase()).unwrap();
        assert_eq!(&device.name, name);
        let description = &device.description;
        let sizes = [("GB", 1e9), ("TB", 1e12)];
        let of = |(unit, bytes): (&str, f64)| stated(description, unit).map(|size| size * bytes);
        let bytes = sizes.into_iter().find_map(of);
        let bytes = bytes.unwrap_or_else(|| panic!("{name}: no size such as 2 TB: {description}"));
        let share = device.model.capacity() as f64 / bytes;
        assert!((1.0..1.01).contains(&share), "{name}: {share}");
        match stated(description, "rpm") {
            Some(rpm) => assert!(device.summary.contains(&format!("{rpm} rpm")), "{name}"),
            None => assert!(matches!(device.model, DeviceModel::Ssd(_)), "{name}: no speed in rpm"),
        }
        let is_shingled = text.contains("\nshingled = true");
        assert_eq!(
            (device.shingled, device.summary.ends_with(", shingled")),
            (is_shingled, is_shingled),
            "{name}: shingled"
        );
    }
}

#[test]
fn bundled_drives_are_recognized_by_the_names_that_they_report() {
    for (stem, text) in BUNDLED {
        assert!(
            text.contains("\nreported_as = ["),
            "devices/{stem}.toml lacks reported_as, the model names that the drive reports"
        );
        for name in reported::names(text) {
            assert!(reported::plain(&name).len() >= 4, "{stem}: {name} matches other drives too");
            assert_eq!(reported_as(&name), Some(*stem), "{name}");
        }
    }
    for (reported, expected) in [
        ("SAMSUNG SSD 830 Series", Some("samsung-830")),
        ("Samsung SSD 990 PRO 2TB", Some("990-pro")),
        ("ST18000NM000J-2TV103", Some("exos-x18")),
        ("WDC  WUH721818ALE6L4", Some("hc550")),
        ("TOSHIBA MG08ACA16TE", Some("mg08")),
        ("SOLIDIGM SSDPF2KX038T1", Some("d7-p5520")),
        ("ST1000NM0011    ", Some("st1000nm0011")),
        ("KXG6AZNV512G TOSHIBA", Some("kxg6aznv512g")),
        ("ST2000DM008-2FR102", Some("st2000dm008")),
        ("QEMU HARDDISK", None),
        ("", None),
    ] {
        assert_eq!(reported_as(reported), expected, "{reported}");
    }
}

#[test]
fn generic_devices_get_faster_and_every_bundled_disk_can_spin_down() {
    let sizes: Vec<u64> = general().unwrap().iter().map(|device| device.model.capacity()).collect();
    assert!(sizes.len() == GENERAL.len() && sizes.is_sorted(), "{sizes:?}");
    for (stem, text) in BUNDLED {
        let spins = file::kind(text) == DeviceKind::Hdd;
        for key in ["standby_w = ", "spin_up_j = ", "spin_up_s = "].iter().filter(|_| spins) {
            assert!(text.contains(key), "{stem}: no {key}, which every bundled disk has");
        }
        let unsourced =
            |line: &str| line.contains(" = ") && !line.contains('"') && !line.contains('#');
        assert!(!text.lines().any(unsourced), "{stem}: a figure without its source");
    }
}

#[test]
fn the_papers_test_disk_can_be_described() {
    let device = read(Path::new("my.toml"), TEST_DISK).unwrap();
    assert_eq!((device.model.capacity(), device.model.cylinders()), (10_000 * 512, 100));
    assert_eq!(device.model.len_max(), 1 << 30);
    let DeviceModel::Hdd(disk) = &device.model else { panic!("not a disk") };
    assert_eq!(disk.seek_time(4).as_millis_f64(), 0.7);
    assert_eq!(disk.seek_time(99).as_millis_f64(), 1.296);
}

#[test]
fn faults_are_told_with_their_line() {
    let with = |from: &str, to: &str| {
        assert!(TEST_DISK.contains(from), "{from}");
        said(&TEST_DISK.replace(from, to))
    };
    let has = |message: String, parts: &[&str]| {
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
        assert!(message.contains("correct the file") && !message.contains('\n'), "{message}");
    };
    has(with("rpm = 6000", "rpm = \"6000\""), &["my.toml, line 7:", "string", "expected a number"]);
    has(with("rpm", "rotations"), &["line 7:", "`rotations`", "expected one of", "`rpm`"]);
    has(with("\nhead_ms = 0", "\nhead_us = 0"), &["line 28:", "`head_us`", "`head_ms`"]);
    has(with("idle_w = 5\n", ""), &["line 34:", "missing field `idle_w`"]);
    has(with("rpm = 6000", "rpm = 0"), &["line 7:", "rpm: got 0, expected 60"]);
    has(with("= 60\n", "= 59\n"), &["line 15:", "zone 1", "overlaps", "expected 60"]);
    has(with("= 60\n", "= 61\n"), &["line 15:", "zone 1", "leaves a gap"]);
    has(with("long_ms = 0.9", "long_ms = 0.1"), &["line 22:", "curve decreases at the knee"]);
    has(with("knee_cylinders = 25\n", ""), &["line 19:", "expected either track_to_track_ms"]);
    has(with("cylinder_ms = 1\n", "cylinder_ms = -1\n"), &["line 29:", "cylinder_ms: got -1"]);
    has(with("idle_w = 5", "idle_w = -5"), &["line 35:", "idle power: got -5"]);
    let resting = "idle_w = 5\nstandby_w = 1\nspin_up_j = 90\nspin_up_s = ";
    has(with("idle_w = 5", "idle_w = 5\nstandby_w = 1"), &["line 36:", "expected all three"]);
    has(with("idle_w = 5", &format!("{resting}900")), &["line 38:", "spin_up_s: got 900"]);
    assert!(
        read(Path::new("my.toml"), &TEST_DISK.replace("idle_w = 5", &format!("{resting}9")))
            .is_ok()
    );
    has(with("heads = 1", "heads = 0"), &["line 6:", "heads: got 0"]);
    has(with("heads = 1", "heads = -1"), &["line 6:", "-1", "0 to 4294967295"]);
    has(with("kind = \"hdd\"", "kind = \"tape\""), &["line 1:", "`tape`", "`hdd`", "`ssd`"]);
    has(with("kind = \"hdd\"", "kind = \"ssd\""), &["`overhead_ms`", "`interval_us`"]);
    has(with("[power]", "[power"), &["line 34:"]);
    has(with("rpm = 6000", "rpm = 6000\ncapacity_bytes = 1"), &["line 8:", "got `capacity_bytes`"]);
    let rates = |from: &str, to: &str| {
        let text = include_str!("../../../devices/sata250.toml");
        let line = text.lines().find(|line| line.starts_with(from)).unwrap();
        let number = text.lines().position(|other| other == line).unwrap() + 1;
        (said(&text.replace(line, to)), format!("line {number}:"))
    };
    for (from, to, expected) in [
        ("heads = ", "heads = 0", "heads: got 0"),
        ("capacity_bytes = ", "capacity_bytes = 1", "capacity_bytes: got 1, expected"),
        ("capacity_bytes = ", "capacity_bytes = 18446744073709551615", "capacity: got"),
        ("count = ", "count = 0", "zones: got 0"),
        ("outer_sustained_mb_per_s = ", "outer_sustained_mb_per_s = -1", "sectors per track"),
        ("average_ms = ", "average_ms = 900", "expected increasing times"),
    ] {
        let (message, line) = rates(from, to);
        // An error in any of the three seek times is reported at the first of them.
        let line = if from.starts_with("average") { "line " } else { &line };
        has(message, &[line, expected]);
    }
    has(said(""), &["line 1:", "missing field"]);
}

#[test]
fn unknown_names_get_a_suggestion() {
    let message = |name: &str| open(name).unwrap_err().to_string();
    let near = "no device 'st1000nm0012' (did you mean st1000nm0011?); `forebay devices` lists all";
    assert_eq!(message("st1000nm0012"), near);
    assert!(message("SATA-250").contains("did you mean sata250?"));
    let far = "no device 'floppy', expected a name that `forebay devices` lists, fixed:RATE or a \
               .toml file";
    assert_eq!(message("floppy"), far);
    assert!(message("no/such.toml").contains("no/such.toml"));
    assert!(message("").contains("no device ''"));
}

#[test]
fn servers_of_constant_rate_open_by_spec() {
    let server = open("fixed:500").unwrap();
    assert_eq!((server.name.as_str(), server.model.cylinders()), ("fixed:500", 0));
    assert!(open("fixed:none").unwrap_err().to_string().contains("as in fixed:500"));
}

#[test]
fn the_documented_example_is_a_device_file() {
    let page = include_str!("../../../docs/device-files.md");
    let example = page.split("```").nth(1).unwrap().strip_prefix("toml\n").unwrap();
    let device = read(Path::new("example.toml"), example).unwrap();
    assert_eq!(device.name, "example");
    assert!(matches!(device.model, DeviceModel::Drive(_)));
    let example = page.split("```").nth(3).unwrap().strip_prefix("toml\n").unwrap();
    let device = read(Path::new("example.toml"), example).unwrap();
    assert!(matches!(device.model, DeviceModel::Ssd(_)));
    let blocks = page.split("```").filter_map(|block| block.strip_prefix("toml\n"));
    let example = blocks.last().unwrap();
    let device = read(Path::new("example.toml"), example).unwrap();
    let DeviceModel::Throttled(volume) = &device.model else { panic!("no volume") };
    assert_eq!((volume.throttle().buckets.len(), volume.throttle().capacity_bytes), (2, 128 << 30));
    let chosen = device.volume.unwrap();
    assert_eq!(chosen.volume.price(&chosen.knobs).unwrap().amount, 9.5);
}

#[test]
fn a_guessed_catch_margin_has_a_range_that_can_be_tried() {
    let of = |name: &str| open(name).unwrap();
    let range = of("sata250").catch_margin_range().unwrap();
    assert_eq!(range.map(|margin| margin.as_millis_f64()), [2.1, 3.75]);
    assert!(of("sata250:queue-depth=4").catch_margin_range().is_some());
    for known in ["sata250:plain", "hdd-500gb", "fixed:100", "990-pro"] {
        assert_eq!(of(known).catch_margin_range(), None, "{known}");
    }
    assert_eq!(of("sata250").plain().unwrap().catch_margin_range(), None);
    let least = of("sata250").at_catch_margin(range[0]).unwrap();
    assert_eq!(least.drive.unwrap().controller.queue.catch_margin, range[0]);
    assert!(least.name.contains("catch margin of"), "{}", least.name);
    assert!(of("sata250:plain").at_catch_margin(range[0]).is_none());
    for device in list().unwrap() {
        let Some(drive) = &device.drive else { continue };
        let margin = drive.controller.queue.catch_margin;
        assert!(margin > Nanos::ZERO && margin.0 * 2 < drive.disk.revolution.0, "{}", device.name);
    }
}

#[test]
fn only_a_margin_that_nobody_states_has_a_range() {
    assert_eq!(open("sata250:queue-depth=1").unwrap().catch_margin_range(), None);
    assert_eq!(open("sata250").unwrap().at_queue_depth(1).unwrap().catch_margin_range(), None);
    assert!(open("sata250").unwrap().at_queue_depth(2).unwrap().catch_margin_range().is_some());
    // A DiskSim file with a queue specifies how its drive chooses commands.
    let whole = include_str!("../../../fuzz/seeds/disksim/hplplus10");
    for (queue, is_stated) in [("Print stats = 1", false), ("Max queue length = 32", true)] {
        let text = whole.replace("Oddity = 7", queue);
        let beside = |_: &str| Err(std::io::ErrorKind::NotFound.into());
        let drive = disksim::import_text(Path::new("x.diskspecs"), &text, &beside).unwrap().drive;
        let text = write::text("x", "here", &drive);
        assert_eq!(read(Path::new("x.toml"), &text).unwrap().catch_margin_range(), None, "{queue}");
        // A drive without a queue does not specify how it would choose commands.
        let deeper = Spec::parse("x.toml:queue-depth=16").unwrap();
        let deeper = read_changed(Path::new("x.toml"), &text, Some(&deeper)).unwrap();
        assert_eq!(deeper.catch_margin_range().is_none(), is_stated, "{queue}");
        let margin = deeper.catch_margin().unwrap().as_secs_f64();
        let turns = margin / deeper.revolution().unwrap().as_secs_f64();
        assert!((turns - if is_stated { 0.0 } else { 0.36 }).abs() < 1e-6, "{turns}");
    }
}

#[test]
fn faults_of_a_queue_name_their_line() {
    let (_, text) = BUNDLED.iter().find(|(name, _)| *name == "sata250").unwrap();
    let with = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        said(&text.replace(from, to))
    };
    let range = "catch_margin_range_ms = [2.1, 3.75]";
    let line = 1 + text.lines().position(|line| line.starts_with(range)).unwrap();
    for wrong in ["[3.75, 2.1]", "[0.1, 2.9]", "[-1.0, 4.0]"] {
        let said = with(range, &format!("catch_margin_range_ms = {wrong}"));
        assert!(said.contains(&format!("line {line}: catch_margin_range_ms: got")), "{said}");
    }
    assert!(with("starvation_ms = 1000", "starvation_ms = 10001").contains("0 to 10000 ms"));
    assert!(with("depth = 32", "ahead = -2\ndepth = 32").contains("got -2 commands ahead"));
    assert!(with("enabled = true", "admits = \"last\"\nenabled = true").contains("`newest`"));
}

#[test]
fn a_model_that_misses_its_own_measurements_has_a_caution() {
    let cautions_with = |errors: &str| {
        let text = format!("{TEST_DISK}\n[evidence]\nbasis = \"fitted\"\nrows = 6\n{errors}");
        let device = read(Path::new("my.toml"), &text).unwrap();
        cautions(&[&device]).join("\n")
    };
    let both = cautions_with("rate_error_percent = 97.4\np99_error_percent = 2916.0");
    let said = "test: the model misses its own measurements: rates by up to 97 %, 99th percentiles by \
        up to 2916 %";
    assert!(both.contains(said), "{both}");
    let one = cautions_with("rate_error_percent = 25\np99_error_percent = 101");
    assert!(one.contains("measurements: 99th percentiles by up to 101 %;"), "{one}");
    let none = cautions_with("rate_error_percent = 24.9\np99_error_percent = 99");
    assert!(!none.contains("misses"), "{none}");
}
