//! `device fit`, `import` and `validate`, on the real binary.

use serde_json::Value;

use crate::command::{Folder, fails, forebay};

#[test]
fn a_fit_names_what_is_missing_or_wrong_and_writes_nothing() {
    let folder = Folder::new();
    let fit = || {
        let mut fit = forebay(&["device", "fit", "--capacity", "1000000000000"]);
        fit.arg(folder.root()).arg("-o").arg(folder.path("mine.toml"));
        fit
    };
    fails(&mut fit(), 2, &["zones*_lat.*.log", "got 0 runs", "measure-a-drive.md"]);
    folder.file("zones_lat.1.log", "5, 2000000, 0, 131072, 0, 0\n6, 2000000, 0, 131072\n");
    fails(&mut fit(), 2, &["zones_lat.1.log, line 2", "got '6, 2", "log_offset=1"]);
    folder.file("zones_lat.1.log", "5, 2000000, 1, 131072, 0, 0\n");
    fails(&mut fit(), 2, &["got 0 runs"]);
    assert!(!folder.path("mine.toml").exists());
    let nowhere = folder.path("nowhere");
    let mut missing = forebay(&["device", "fit", "--capacity", "1", "-o", "x.toml"]);
    fails(missing.arg(nowhere), 2, &["nowhere", "No such file"]);
}

#[test]
fn a_disksim_drive_is_imported_and_validated() {
    let folder = Folder::new();
    let text = include_str!("../../../fuzz/seeds/disksim/beside");
    let specs = folder.file("x.diskspecs", text);
    folder.file("m.model", text);
    let drive = folder.path("x.toml");
    let mut import = forebay(&[]);
    let said =
        import.args(["device", "import"]).arg(&specs).arg("-o").arg(&drive).assert().success();
    let notes = String::from_utf8_lossy(&said.get_output().stderr).into_owned();
    assert!(notes.contains("Oddity = 7 is not modelled"), "{notes}");
    let kept = std::fs::read_to_string(&drive).unwrap();
    let noted = kept.lines().find(|line| line.contains("Oddity")).unwrap();
    assert_eq!(noted, "# x.diskspecs, line 12: Oddity = 7 is not modelled");
    let trace = folder.file("x.trace", "R Hit 10 4 5000.0 2000.0\nW Hit 14 4 900.0 20000.0\n");
    let mut validate = forebay(&[]);
    validate.args(["device", "validate"]).arg(&drive).arg(&trace).args(["--format", "json"]);
    let out = validate.assert().success().get_output().stdout.clone();
    let figures: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!((&figures["requests"], &figures["phases"]), (&2.into(), &20.into()));
    assert!(figures["rms_ms"].as_f64().unwrap() > 0.0);
    let bad = folder.file("bad.trace", "R Hit 10 4\n");
    let mut fails = forebay(&[]);
    let said = fails.args(["device", "validate"]).arg(&drive).arg(&bad).assert().code(2);
    let message = String::from_utf8_lossy(&said.get_output().stderr).into_owned();
    assert!(message.contains("bad.trace, line 1") && message.lines().count() == 1, "{message}");
}
