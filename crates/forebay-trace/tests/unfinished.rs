//! If a trace's writer is killed, everything up to the last checkpoint can be read.

use std::fs;
use std::path::Path;

use forebay_core::{Flags, Nanos, Op};
use forebay_trace::open::open;
use forebay_trace::write::{ProtectedFiles, Writer, create};
use forebay_trace::{Dictionary, Notes, Record, Stream};

fn record(nth: u64) -> Record {
    Record {
        at: Nanos(nth * 1000),
        offset: nth * 4096,
        latency: Some(Nanos(50_000)),
        len: 4096,
        stream: 0,
        volume: 0,
        op: Op::Read,
        flags: Flags::NONE,
    }
}

fn dictionary() -> Dictionary {
    let stream = Stream { thread: None, process: None, name: "a".into() };
    Dictionary { streams: vec![stream], volumes: vec!["disk".into()] }
}

fn add(writer: &mut dyn Writer, rows: std::ops::Range<u64>) {
    writer.write(&rows.map(record).collect::<Vec<_>>(), &dictionary()).unwrap();
}

/// Returns the content of the temporary file.
fn partial(folder: &Path) -> Vec<u8> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_partial = |path: &std::path::PathBuf| path.to_string_lossy().ends_with(".partial");
    fs::read(entries.into_iter().find(is_partial).unwrap()).unwrap()
}

/// Reads a file with this content. Returns its rows and the warnings.
fn read(content: &[u8]) -> Result<(Vec<Record>, Vec<String>), String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut");
    fs::write(&path, content).unwrap();
    let mut reader = open(&path, None).map_err(|error| error.to_string())?;
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    loop {
        reader.read(&mut batch).map_err(|error| error.to_string())?;
        if batch.is_empty() {
            return Ok((all, reader.notes().warnings.clone()));
        }
        all.extend_from_slice(&batch);
    }
}

#[test]
fn a_killed_parquet_trace_is_read_up_to_its_last_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let mut writer = create(&path, None, &ProtectedFiles::default()).unwrap();
    let notes = Notes { began: Some(Nanos(7)), ..Notes::default() };
    // Each step adds enough rows to be worth another footer.
    let ends = [1_000, 40_000, 100_000];
    let mut lengths = Vec::new();
    let mut from = 0;
    for to in ends {
        add(&mut *writer, from..to);
        writer.checkpoint(&dictionary(), &notes).unwrap();
        lengths.push(partial(folder.path()).len());
        from = to;
    }
    let content = partial(folder.path());
    let first = lengths[0];
    // Truncate at every byte around the footers, and at some between them.
    let near = lengths.iter().flat_map(|end| end - 12..=(end + 12).min(content.len()));
    for cut in near.chain((first..content.len()).step_by(997)) {
        let complete = lengths.iter().rposition(|end| *end <= cut);
        match (read(&content[..cut]), complete) {
            (Ok((rows, warnings)), Some(nth)) => {
                assert!(rows.iter().copied().eq((0..ends[nth]).map(record)), "cut at {cut}");
                let is_whole = cut == lengths[nth];
                assert_eq!(warnings.is_empty(), is_whole, "cut at {cut}: {warnings:?}");
                assert!(is_whole || warnings[0].contains("the file has no end"), "{warnings:?}");
            }
            (Err(error), None) => assert!(error.contains("truncated or damaged"), "{error}"),
            (got, _) => panic!("cut at {cut}: {:?}", got.map(|(rows, _)| rows.len())),
        }
    }
    // Frequent checkpoints with few new rows do not fill the file with footers.
    (0..100).for_each(|_| writer.checkpoint(&dictionary(), &notes).unwrap());
    assert_eq!(partial(folder.path()).len(), content.len());
    add(&mut *writer, from..from + 5);
    writer.finish(&dictionary(), &notes).unwrap();
    let (rows, warnings) = read(&fs::read(&path).unwrap()).unwrap();
    assert!(rows.into_iter().eq((0..from + 5).map(record)) && warnings.is_empty());
}

#[test]
fn a_killed_csv_trace_has_the_rows_before_its_last_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    let mut writer = create(&path, None, &ProtectedFiles::default()).unwrap();
    add(&mut *writer, 0..10);
    writer.checkpoint(&dictionary(), &Notes::default()).unwrap();
    let (rows, _) = read(&partial(folder.path())).unwrap();
    assert!(rows.into_iter().eq((0..10).map(record)));
}

#[test]
#[cfg(unix)]
fn a_file_is_private_until_it_is_complete() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let mode = || {
        let entry = fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap();
        entry.metadata().unwrap().permissions().mode() & 0o777
    };
    fs::write(folder.path().join("other"), "").unwrap();
    let usual = mode();
    fs::remove_file(folder.path().join("other")).unwrap();
    let path = folder.path().join("t.csv");
    let mut writer = create(&path, None, &ProtectedFiles::default()).unwrap();
    add(&mut *writer, 0..10);
    assert_eq!(mode(), 0o600);
    writer.finish(&dictionary(), &Notes::default()).unwrap();
    assert_eq!(mode(), usual);
}

#[test]
fn a_file_full_of_ends_is_refused_soon() {
    let content = [&b"PAR1"[..], &b"\x08\0\0\0PAR1".repeat(1 << 20)[..], b"x"].concat();
    assert!(read(&content).unwrap_err().contains("truncated or damaged"));
}
