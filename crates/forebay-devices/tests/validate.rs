//! Validates the available drives of DiskSim's validation set. They are imported, written as device
//! files and read back; then the models' service times must match those measured on the real
//! drives.
//!
//! The set is not part of the repository. Without `../shared/traces`, these tests are skipped.

use std::path::Path;

use forebay_devices::validate::{Arrivals, Validation, read_trace, validate};
use forebay_devices::{DiskSpec, disksim, read_spec, write};
use forebay_testing::recorded;

/// The drives, and the maximum root-mean-square distance of each in ms. DiskSim's own distances are
/// 0.107, 0.090, 0.268 and 0.349, so no model may be farther from its drive than DiskSim's.
const DRIVES: [(&str, f64); 4] =
    [("cheetah9LP", 0.107), ("hp_c2247a", 0.090), ("atlas10k", 0.105), ("barracuda", 0.315)];

fn validation(root: &Path, name: &str, arrivals: Arrivals) -> Validation {
    let folder = root.join(name);
    let imported = disksim::import(&folder.join(format!("{name}.diskspecs"))).unwrap();
    let text = write::text(&imported.name, "a test", &imported.drive);
    let (read, spec) = read_spec(Path::new("drive.toml"), &text).unwrap();
    assert_eq!(read, imported.name);
    assert!(spec == DiskSpec::Drive(Box::new(imported.drive)), "{name}: the file loses something");
    let trace = read_trace(&folder.join(format!("{name}.trace.zst"))).unwrap();
    validate(name, &spec, &trace, arrivals).unwrap()
}

#[test]
fn models_of_real_drives_agree_with_measurements() {
    let Some(root) = recorded("disksim-valid") else { return };
    for (name, most_ms) in DRIVES {
        let figures = validation(&root, name, Arrivals::Simulated);
        assert!((9_999..=10_000).contains(&figures.requests), "{name}: {figures:?}");
        assert!(figures.rms_ms <= most_ms, "{name}: {figures:?}");
        let means = figures.mean_simulated_ms / figures.mean_measured_ms;
        assert!((0.97..1.01).contains(&means), "{name}: {figures:?}");
        assert!(figures.correlation > 0.89, "{name}: {figures:?}");
        assert!(figures.correlation_shuffled.abs() < 0.05, "{name}: {figures:?}");
        // After the first read, the position of the arm is known, regardless of the phase.
        assert!(figures.rms_greatest_ms - figures.rms_least_ms < 0.01, "{name}: {figures:?}");
        assert!((0.005..0.3).contains(&figures.sampling_floor_ms), "{name}: {figures:?}");
    }
}

#[test]
fn measured_arrivals_depend_on_the_phase() {
    let Some(root) = recorded("disksim-valid") else { return };
    let figures = validation(&root, "atlas10k", Arrivals::Measured);
    assert!(figures.rms_ms < 0.15 && figures.correlation > 0.89, "{figures:?}");
    assert!(figures.rms_greatest_ms - figures.rms_least_ms > 0.01, "{figures:?}");
}
