//! fio's latency logs and the fit: four logs parted by lines of `=`, each repeated so that few lines
//! make enough samples. What fits can be written and read, or is refused in one line.
#![no_main]

use forebay_devices as devices;
use forebay_devices::fit::{Known, Measurements, fit, parse};
use libfuzzer_sys::fuzz_target;
use std::path::Path;

fuzz_target!(|data: &[u8]| {
    let mut logs = Vec::new();
    for part in data.split(|&byte| byte == b'=').take(4) {
        match parse(Path::new("lat.log"), part) {
            Ok((samples, _)) => logs.push(vec![samples.repeat(1 + 2_000 / samples.len().max(1))]),
            Err(error) => {
                assert!(error.to_string().lines().count() == 1, "{error}");
                return;
            }
        }
    }
    logs.resize(4, Vec::new());
    let [zones, back, near, seek] = logs.try_into().expect("four logs");
    let measurements = Measurements { zones, back, near, seek, ..Measurements::default() };
    let known = Known { name: "x".into(), capacity_bytes: 1 << 40, heads: 2 };
    match fit(&measurements, known) {
        Ok(fitted) => {
            // Nonsense may fit a disk that the model refuses, but the file is always one.
            if let Err(error) = devices::read(Path::new("x.toml"), &fitted.toml()) {
                let error = error.to_string();
                assert!(error.lines().count() == 1 && !error.contains("TOML parse"), "{error}");
            }
        }
        Err(error) => assert!(error.to_string().lines().count() == 1, "{error}"),
    }
});
