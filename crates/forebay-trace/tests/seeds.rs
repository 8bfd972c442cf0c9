//! Checks that the fuzzers' seeds are valid. If the parser rejected a seed, fuzzing would test only
//! the rejection.
//!
//! Every seed of a trace format and of `open` is read to its end. Intentionally invalid are
//! `fuzz/seeds/columns/wrong`, a header that states no unit, and the damaged tar.

use std::fs;
use std::path::{Path, PathBuf};

use forebay_trace::formats::FORMATS;
use forebay_trace::open::{COLUMNS, open};

/// Seeds that must be rejected.
const WRONG: [&str; 3] = ["columns/wrong", "csv/named-unsure", "open/tar-damaged"];

fn seeds(folder: &str) -> Vec<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(folder);
    let entries = fs::read_dir(&path).unwrap_or_else(|_| panic!("no seeds in {}", path.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{folder}");
    paths
}

/// Returns the number of requests in a trace, or why it cannot be read to its end.
fn requests(path: &Path, from: Option<&str>) -> Result<usize, String> {
    let told = |error: forebay_trace::TraceError| error.to_string();
    let (mut reader, mut batch, mut count) = (open(path, from).map_err(told)?, Vec::new(), 0);
    loop {
        reader.read(&mut batch).map_err(told)?;
        if batch.is_empty() {
            return Ok(count);
        }
        count += batch.len();
    }
}

/// Reads `path` as `from`. This must succeed unless the seed is intentionally invalid.
fn holds(path: &Path, seed: &str, from: Option<&str>) {
    match requests(path, from) {
        Ok(count) => assert!(count > 0 && !WRONG.contains(&seed), "{seed}: {count} requests"),
        Err(told) => assert!(WRONG.contains(&seed), "{seed}: {told}"),
    }
}

#[test]
fn every_seed_of_a_format_is_accepted_by_it() {
    let mut found = 0;
    for format in FORMATS {
        // Seeds of Parquet have either of its forms, and the first line of seeds for presets names
        // the format. Sets of files are divided in another test.
        let folder =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(format.name);
        if format.name == "blktrace" || !folder.exists() {
            continue;
        }
        for path in seeds(format.name) {
            let seed = format!("{}/{}", format.name, path.file_name().unwrap().to_string_lossy());
            holds(&path, &seed, Some(format.name));
        }
        found += 1;
    }
    assert!(found >= 14, "{found}");
}

#[test]
fn every_seed_of_open_is_recognized() {
    for path in seeds("open") {
        holds(&path, &format!("open/{}", path.file_name().unwrap().to_string_lossy()), None);
    }
}

/// Seeds in which a choice precedes the trace.
#[test]
fn seeds_with_a_choice_before_them_are_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    for path in seeds("blktrace") {
        let bytes = fs::read(&path).unwrap();
        if bytes[0] == 0 {
            fs::write(&trace, &bytes[1..]).unwrap();
            holds(&trace, &path.display().to_string(), Some("blktrace"));
        }
    }
    for path in seeds("presets") {
        let name = path.file_name().unwrap().to_str().unwrap();
        let (named, rows) = fs::read(&path)
            .map(|bytes| {
                let end = bytes.iter().position(|&byte| byte == b'\n').unwrap();
                (bytes[..end].to_vec(), bytes[end + 1..].to_vec())
            })
            .unwrap();
        assert_eq!(named, name.as_bytes());
        fs::write(&trace, rows).unwrap();
        holds(&trace, name, Some(name));
    }
    for path in seeds("columns") {
        let text = fs::read_to_string(&path).unwrap();
        let (columns, rows) = text.split_once('\n').unwrap();
        fs::write(&trace, rows).unwrap();
        let seed = format!("columns/{}", path.file_name().unwrap().to_string_lossy());
        holds(&trace, &seed, Some(&format!("{COLUMNS}{columns}")));
    }
}
