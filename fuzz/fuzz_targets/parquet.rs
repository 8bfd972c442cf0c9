//! Parquet, the canonical and the capture form.
#![no_main]

use forebay_fuzz::{Scratch, drain, read_at, spare_caught_panics};
use libfuzzer_sys::fuzz_target;
use std::cell::RefCell;

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::new());
}

fuzz_target!(
    init: spare_caught_panics(),
    |data: &[u8]| {
        let path = SCRATCH.with_borrow_mut(|scratch| scratch.hold(data));
        drain(read_at("parquet", path.clone(), data));
        drain(read_at("hadoop-parquet", path, data));
    }
);
