//! Tapes: whatever they ask, the policy is asked nothing that it cannot answer.
#![no_main]

use forebay::tape::check_content;
use libfuzzer_sys::fuzz_target;
use std::ops::ControlFlow;
use std::path::Path;

fuzz_target!(|data: &[u8]| {
    match check_content(Path::new("t.tape"), data, |_| ControlFlow::Continue(())) {
        Ok(checked) => {
            assert_eq!(checked.identical, checked.difference.is_none());
            assert!(checked.finished <= checked.requests, "{checked:?}");
        }
        Err(error) => assert!(error.to_string().lines().count() == 1, "{error}"),
    }
});
