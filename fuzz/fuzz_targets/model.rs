//! Models: what is read is drawn from without a panic, keeps to its volumes and never goes back in
//! time; what is not is refused in one line.
#![no_main]

use forebay_core::Nanos;
use forebay_model::Model;
use forebay_model::generate::{GenerateOptions, Generator};
use libfuzzer_sys::fuzz_target;
use std::path::Path;

fuzz_target!(|data: &[u8]| {
    let path = Path::new("a.model");
    // As a file, and as the content that a file has, which no sum guards.
    let _ = Model::from_file(path, data);
    match Model::from_content(path, data) {
        Ok(model) => {
            let options = GenerateOptions { requests: Some(300), ..GenerateOptions::default() };
            let mut last = Nanos::ZERO;
            for record in Generator::new(&model, options) {
                let extent = model.volumes.volumes[record.volume as usize].extent_mib << 20;
                assert!(record.offset + u64::from(record.len) <= extent && record.at >= last);
                last = record.at;
            }
        }
        Err(error) => assert!(error.to_string().lines().count() == 1, "{error}"),
    }
});
