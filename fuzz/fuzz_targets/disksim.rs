//! DiskSim's drive files. The input is a .diskspecs, and also the text of every file beside it; a
//! drive that is taken over survives being written as a device file.
#![no_main]

use forebay_devices::{DiskSpec, disksim, read_spec, write};
use libfuzzer_sys::fuzz_target;
use std::path::Path;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let path = Path::new("input.diskspecs");
    let imported = match disksim::import_text(path, &text, &|_| Ok(text.clone().into_owned())) {
        Ok(imported) => imported,
        Err(error) => {
            let message = error.to_string();
            assert!(message.lines().count() == 1 && message.len() < 4096, "{message}");
            return;
        }
    };
    let file = write::text(&imported.name, "fuzz", &imported.drive);
    if let Ok((_, spec)) = read_spec(Path::new("drive.toml"), &file) {
        assert!(matches!(spec, DiskSpec::Drive(_)), "no controller");
    }
});
