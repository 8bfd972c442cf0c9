//! Runs the target named by `FUZZ_TARGET` under libFuzzer.
#![no_main]

use std::sync::OnceLock;

use forebay_fuzz::{Target, named, spare_caught_panics};
use libfuzzer_sys::fuzz_target;

static TARGET: OnceLock<&'static Target> = OnceLock::new();

fn begin() {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let Some(target) = named(&name) else { panic!("FUZZ_TARGET={name:?} names no target") };
    TARGET.get_or_init(|| target);
    spare_caught_panics();
}

fuzz_target!(
    init: begin(),
    |data: &[u8]| {
        if let Some(target) = TARGET.get() {
            (target.run)(data);
        }
    }
);
