//! What clients of the store send: whatever it is, a command has no more bytes than came.
#![no_main]

use forebay_store::hostile::command;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    match command(data) {
        Ok(Some((words, used))) => {
            assert!(used > 0 && used <= data.len());
            assert!(words.iter().map(Vec::len).sum::<usize>() <= used);
        }
        Ok(None) => {}
        Err(what) => assert!(!what.is_empty()),
    }
});
