//! Any file: unpacked, recognised and read.
#![no_main]

use forebay_fuzz::{INPUT_BYTES_MAX, Scratch, drain, spare_caught_panics};
use forebay_trace::open::open;
use libfuzzer_sys::{Corpus, fuzz_target};
use std::cell::RefCell;

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::new());
}

fuzz_target!(
    init: spare_caught_panics(),
    |data: &[u8]| -> Corpus {
        if data.len() > INPUT_BYTES_MAX {
            return Corpus::Reject;
        }
        let path = SCRATCH.with_borrow_mut(|scratch| scratch.hold(data));
        drain(open(&path, None));
        Corpus::Keep
    }
);
