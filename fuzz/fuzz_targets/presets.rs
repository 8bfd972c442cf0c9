//! Every preset, the first byte says which: every line but a header is a record or counted.
#![no_main]

use forebay_fuzz::{drain, lines, reader};
use forebay_trace::formats::presets::PRESETS;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((which, text)) = data.split_first() else { return };
    let preset = &PRESETS[usize::from(*which) % PRESETS.len()];
    if let Some(whole) = drain(reader(preset.name, text)) {
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let kept = whole.records + whole.notes.rows_skipped;
        assert!(kept == lines(text) || kept + 1 == lines(text), "{kept} of {}", lines(text));
    }
});
