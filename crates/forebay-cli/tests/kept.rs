//! Checks that no verb overwrites a file that it reads, whichever name refers to it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::command::{Folder, SPC, ends, fails, forebay, sample};

const SAID: &[&str] = &["an input file", "expected another file"];

/// Returns several names for the file at `read`: its own name, a symbolic link, a hard link, and a
/// path through a link to its folder.
fn names(folder: &Folder, read: &Path) -> Vec<PathBuf> {
    let at = |name: &str| folder.path(name);
    let paths = [at("link"), at("hard"), at("round").join(read.file_name().unwrap())];
    for path in [at("link"), at("hard"), at("round")] {
        let _ = fs::remove_file(path);
    }
    symlink(read, &paths[0]).unwrap();
    fs::hard_link(read, &paths[1]).unwrap();
    symlink(read.parent().unwrap(), at("round")).unwrap();
    paths.into_iter().chain([read.to_path_buf()]).collect()
}

/// Asserts that `arguments` with any name of `read` appended are rejected, and that the file stays
/// unchanged.
fn keeps(folder: &Folder, read: &Path, arguments: &[&str]) {
    let before = fs::read(read).unwrap();
    let paths = names(folder, read);
    let there = || fs::read_dir(folder.root()).unwrap().count();
    let count = there();
    for path in paths {
        fails(forebay(arguments).arg(path), 2, SAID);
        assert!(fs::read(read).unwrap() == before, "{arguments:?}");
        assert_eq!(there(), count, "{arguments:?}");
    }
}

#[test]
fn inputs_are_never_overwritten() {
    let folder = Folder::new();
    let trace = folder.file("trace.spc", SPC.repeat(40));
    let other = folder.file("other.spc", SPC);
    let model = folder.path("model.json");
    ends(forebay(&["fit", "--level", "1"]).arg(&trace).arg("-o").arg(&model), 0);
    let (said, _) = ends(&mut forebay(&["devices", "sata250"]), 0);
    assert!(!said.is_empty());
    let drive = folder.file("drive.toml", include_str!("../../../devices/sata250.toml"));
    let [t, o, m, d] = [&trace, &other, &model, &drive].map(|path| path.to_str().unwrap());
    keeps(&folder, &trace, &["advise", t, "-o"]);
    keeps(&folder, &model, &["advise", m, "-o"]);
    keeps(&folder, &drive, &["advise", t, "--device", d, "-o"]);
    keeps(&folder, &drive, &["advise", t, "--device", &format!("{d}:queue-depth=4"), "-o"]);
    keeps(&folder, &trace, &["compare", t, o, "-o"]);
    keeps(&folder, &other, &["compare", t, o, "-o"]);
    keeps(&folder, &drive, &["compare", t, o, "--device", d, "-o"]);
    keeps(&folder, &trace, &["plan", "capacity", t, "-o"]);
    keeps(&folder, &trace, &["fit", t, "-o"]);
    keeps(&folder, &trace, &["convert", t, "--to", "csv"]);
    keeps(&folder, &model, &["generate", m, "--to", "csv", "-o"]);
    keeps(&folder, &model, &["generate", m, "--to", "fio-job", "-o"]);
}

#[test]
fn no_file_of_a_set_is_overwritten() {
    let folder = Folder::new();
    let first = folder.path("sda.blktrace.0");
    let trace = folder.file("t.spc", SPC.repeat(40));
    ends(forebay(&["convert"]).arg(trace).arg(&first), 0);
    let second = folder.path("sda.blktrace.1");
    fs::copy(&first, &second).unwrap();
    let base = folder.path("sda");
    for set in [&base, &first] {
        keeps(&folder, &second, &["convert", set.to_str().unwrap(), "--to", "csv"]);
        keeps(&folder, &second, &["fit", set.to_str().unwrap(), "-o"]);
    }
    let before = fs::read(&second).unwrap();
    let mut play = forebay(&["play", "--overwrite", "--target"]);
    let (_, said) = ends(play.arg(&second).arg(&base), 2);
    assert!(said.contains("sda.blktrace.1: got the trace itself"), "{said}");
    assert!(fs::read(&second).unwrap() == before);
    let parted = folder.path("parted");
    let sample = sample();
    ends(forebay(&["convert", "--partition-by", "volume"]).arg(&sample).arg(&parted), 0);
    let part = fs::read_dir(&parted).unwrap().map(|entry| entry.unwrap().path());
    let part = part.into_iter().find(|path| path.extension().is_some_and(|e| e == "parquet"));
    keeps(&folder, &part.unwrap(), &["fit", parted.to_str().unwrap(), "-o"]);
}

/// A DiskSim drive refers to further files, which are protected too.
#[test]
fn no_input_of_an_import_or_a_fit_is_overwritten() {
    let folder = Folder::new();
    let text = include_str!("../../../fuzz/seeds/disksim/beside");
    let specs = folder.file("x.diskspecs", text);
    let beside = [specs.clone(), folder.file("m.model", text), folder.file("x.parv", text)];
    for read in &beside {
        keeps(&folder, read, &["device", "import", specs.to_str().unwrap(), "-o"]);
    }
    let logs = Folder::new();
    let log = logs.file("zones_lat.1.log", "5, 2000000, 0, 131072, 0, 0\n");
    let root = logs.root().to_str().unwrap();
    keeps(&folder, &log, &["device", "fit", root, "--capacity", "1000000000000", "-o"]);
}
