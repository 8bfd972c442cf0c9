//! Tests what `serve --ublk`, `attach` and `detach` reject, as far as this needs no kernel driver.
//! `make guest-serve` tests the devices themselves.

use std::path::Path;

use crate::command::{Folder, fails, forebay};
use crate::served::skipped;

#[test]
fn a_missing_kernel_driver_is_reported_with_the_module_to_load() {
    if Path::new("/dev/ublk-control").exists() {
        return skipped("this kernel has ublk");
    }
    let folder = Folder::new();
    folder.file("serve.toml", "[[disk]]\nname = \"a\"\nfile = \"disk\"\n[[export]]\nname = \"a\"\non = \"a\"\nublk = true\n");
    std::fs::write(folder.path("disk"), [0; 1 << 16]).unwrap();
    for arguments in [&["serve", "disk", "--ublk"][..], &["serve", "serve.toml"]] {
        let mut command = forebay(arguments);
        fails(command.current_dir(folder.root()), 2, &["modprobe ublk_drv", "Linux 6.5"]);
    }
}

#[test]
fn files_that_are_no_devices_are_rejected() {
    fails(&mut forebay(&["attach", "socket", "/dev/sda"]), 2, &["/dev/sda", "/dev/nbd0"]);
    fails(&mut forebay(&["detach", "/dev/sda"]), 2, &["/dev/sda", "/dev/ublkb0"]);
}

#[test]
fn an_option_does_not_go_with_a_configuration() {
    let folder = Folder::new();
    let path = folder.file("serve.toml", "");
    fails(forebay(&["serve"]).arg(path).arg("--ublk"), 2, &["--ublk", "setting in the file"]);
}
