//! Tests `device probe` on real files: what it rejects, and whether it finds a limit set by the
//! kernel.

use crate::command::{Folder, fails, forebay, json};
use crate::limited::{Limited, number_of_disk};
use crate::served::skipped;

#[test]
fn targets_that_are_no_volumes_are_rejected() {
    let folder = Folder::new();
    folder.holes("holes", 128 << 20);
    let probe = |target: &str, output: &str| {
        let mut command = forebay(&["device", "probe", target, "-o", output]);
        command.current_dir(folder.root());
        command
    };
    fails(&mut probe("none", "v.toml"), 2, &["none: No such file", "a block device or a file"]);
    fails(&mut probe("holes", "v.toml"), 2, &["holes: is a sparse file"]);
    fails(&mut probe("holes", "holes"), 2, &["got an input file as the output"]);
    assert!(!folder.path("v.toml").exists());
}

#[test]
#[ignore = "slow: make test-full"]
fn a_limit_of_the_kernel_is_found() {
    let folder = Folder::new();
    folder.file("disk", vec![7; 256 << 20]);
    let disk = number_of_disk(&folder.path("disk"));
    let limited = match disk.and_then(|disk| Limited::new(&disk, &[("riops", 500)])) {
        Ok(limited) => limited,
        Err(why) => return skipped(&why),
    };
    let mut command = limited.forebay("device probe disk -o v.toml --driver threads");
    let (found, _) = json(command.current_dir(folder.root()));
    let rate = found["ops"]["rate_per_s"].as_f64().unwrap();
    assert!((450.0..550.0).contains(&rate), "{rate}");
}
