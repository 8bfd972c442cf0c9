//! Runs every command of docs/guide.md, in order, in one folder.
//!
//! `sudo` runs its arguments directly, and `/dev/sda` is a loop device. Capturing requires root and
//! an unused tracer. If they are not available, a message says so, and part of the bundled trace
//! replaces the capture.

use std::fs;
use std::path::Path;

use forebay_testing::skipped;

use crate::served;
use crate::shell;
use crate::shell::{blocks, prepared, run};

/// Captures from a loop device while a program uses it, as the page says.
fn capture(folder: &Path, text: &str) -> Result<String, String> {
    let around = format!(
        "head -c 8388608 /dev/zero > image; loop=$(losetup --find --show image)\n\
         trap 'losetup --detach $loop; kill $(jobs -p) 2>/dev/null || true' EXIT\n\
         (for n in 1 2 3 4 5 6; do sleep 0.5; dd if=$loop of=/dev/null bs=64k iflag=direct 2>/dev/null; done) &\n{}",
        text.replace("/dev/sda", "$loop").replace("--for 5s", "--for 4s")
    );
    run(folder, &around)
}

#[test]
#[ignore = "slow: make test-full"]
fn every_command_of_the_guide_does_what_it_says() {
    if !served::have(&["nbdinfo", "nbdcopy"]) {
        return;
    }
    let page = fs::read_to_string(shell::root().join("docs/guide.md")).unwrap();
    let blocks = blocks(&page);
    assert!(blocks.len() >= 7, "{}", blocks.len());
    let folder = tempfile::tempdir().unwrap();
    prepared(folder.path());
    let mut printed = String::new();
    for text in blocks {
        let done = match text.contains("/dev/sda") {
            false => run(folder.path(), text),
            true => capture(folder.path(), text).or_else(|why| {
                skipped(&format!("capture: {why}"));
                run(folder.path(), "cp traces/terasort.parquet mine.parquet")
            }),
        };
        printed += &done.unwrap_or_else(|said| panic!("{text}\n{said}"));
    }
    // The figures that the page quotes. Its sentences may be wrapped anywhere.
    let printed = printed.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in [
        "193 requests per second",
        "streams 119",
        "44.4 %",
        "65.0 %",
        "2 such disks, or 7.54 GiB of flash, would suffice",
        "4740 IOPS",
    ] {
        assert!(printed.contains(said), "no {said:?} in:\n{printed}");
    }
    for file in ["report.html", "mine.html", "asked.parquet"] {
        assert!(folder.path().join(file).exists(), "{file}");
    }
    assert!(!folder.path().join("disk.sock").exists());
}
