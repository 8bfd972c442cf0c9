//! A declaration of columns, its line end, and a text of such columns: no row is lost.
#![no_main]

use std::cell::RefCell;

use forebay_fuzz::{INPUT_BYTES_MAX, Scratch, drain};
use forebay_trace::Columns;
use forebay_trace::open::{COLUMNS, open};
use libfuzzer_sys::{Corpus, fuzz_target};

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::new());
}

fuzz_target!(|data: &[u8]| -> Corpus {
    let Some(end) = data.iter().position(|&byte| byte == b'\n') else { return Corpus::Reject };
    let (spec, text) = (&data[..end], &data[end + 1..]);
    let Ok(spec) = std::str::from_utf8(spec) else { return Corpus::Reject };
    if data.len() > INPUT_BYTES_MAX {
        return Corpus::Reject;
    }
    match spec.parse::<Columns>() {
        Ok(columns) => {
            assert_eq!(columns.to_string(), spec);
            let path = SCRATCH.with_borrow_mut(|scratch| scratch.hold(text));
            drain(open(&path, Some(&format!("{COLUMNS}{spec}"))));
            Corpus::Keep
        }
        Err(bad) => {
            assert!(!bad.to_string().trim().is_empty());
            Corpus::Keep
        }
    }
});
