//! DiskSim's drive files. The input is a .diskspecs, and also the text of every file beside it; a
//! drive that is taken over survives being written as a device file.
#![no_main]

use forebay::devices::{DiskSpec, read_spec, write};
use forebay::disksim;
use libfuzzer_sys::fuzz_target;
use std::path::Path;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let beside = |_: &str| Ok(text.clone().into_owned());
    let imported = match disksim::import_text(Path::new("input.diskspecs"), &text, &beside) {
        Ok(imported) => imported,
        Err(error) => {
            assert!(error.to_string().lines().count() == 1, "{error}");
            return;
        }
    };
    let file = write::text(&imported.name, "fuzz", &imported.drive);
    if let Ok((_, spec)) = read_spec(Path::new("drive.toml"), &file) {
        assert!(matches!(spec, DiskSpec::Drive(_)), "no controller");
    }
});
