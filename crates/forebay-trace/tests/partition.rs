//! A trace that is split by volume stays the same trace, even if splitting it was interrupted.

use std::fs;
use std::path::{Path, PathBuf};

use forebay_core::Nanos;
use forebay_trace::partition::{self, Intake, Manifest, Partition, Volumes};
use forebay_trace::{Dictionary, Notes, Record, open};

/// When the trace began on its source's clock, in ns.
const BEGAN_NS: u64 = 5000;

/// Creates a trace with 40 volumes, some of whose names are not valid file names.
fn input(folder: &Path) -> PathBuf {
    let volume = |n: u32| match n % 40 {
        0 => "../up".into(),
        1 => "a/b".into(),
        2 => "a_b".into(),
        3 => "A_B".into(),
        4 => String::new(),
        other => format!("v{other}"),
    };
    let mut text =
        "at_ns,op,offset,len,stream,volume,latency_ns,flags,thread,process,name\n".to_string();
    for n in 0..5000u32 {
        let who = n % 7;
        let volume = volume(n.wrapping_mul(2_654_435_761) >> 20);
        let at_ns = BEGAN_NS + u64::from(n) * 10;
        text += &format!("{at_ns},write,{},4096,{who},{volume},,S,{who},,t{who}\n", n * 512);
    }
    let path = folder.join("in.csv");
    fs::write(&path, text).unwrap();
    path
}

fn read(path: &Path) -> (Vec<Record>, Dictionary, Notes) {
    let mut reader = open::open(path, None).unwrap();
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    loop {
        reader.read(&mut batch).unwrap();
        if batch.is_empty() {
            return (all, reader.dictionary().clone(), reader.notes().clone());
        }
        all.extend_from_slice(&batch);
    }
}

fn begun(folder: &Path, input: &Path) -> Intake {
    match partition::open(folder, input, None).unwrap() {
        Partition::Begun(intake) => intake,
        _ => panic!("not begun"),
    }
}

fn sealed(folder: &Path, input: &Path) -> Volumes {
    let mut intake = begun(folder, input);
    let (records, dictionary, notes) = read(input);
    records.chunks(100).for_each(|batch| intake.add(batch).unwrap());
    intake.seal(&dictionary, &notes).unwrap()
}

/// Records with the names of their submitters and volumes, in a defined order.
type Named = Vec<(Record, Option<u32>, String, String)>;

fn named(records: &[Record], dictionary: &Dictionary, shift: u64) -> Named {
    let name = |r: &Record| {
        let stream = &dictionary.streams[r.stream as usize];
        let volume = dictionary.volumes[r.volume as usize].clone();
        let bare = Record { at: Nanos(r.at.0 + shift), stream: 0, volume: 0, ..*r };
        (bare, stream.thread, stream.name.clone(), volume)
    };
    records.iter().map(name).collect()
}

fn assert_whole(folder: &Path, manifest: &Manifest, input: &Path) {
    let mut all: Named = Vec::new();
    for part in &manifest.parts {
        let (records, dictionary, notes) = read(&folder.join(&part.file));
        assert_eq!(notes.began, Some(Nanos(BEGAN_NS + part.first_ns)), "by the source's clock");
        assert_eq!((records.len() as u64, &dictionary.volumes[0]), (part.requests, &part.volume));
        assert_eq!(records.last().unwrap().at.0, part.last_ns - part.first_ns);
        all.extend(named(&records, &dictionary, part.first_ns));
    }
    let (records, dictionary, _) = read(input);
    let (merged, names, notes) = read(folder);
    assert_eq!(notes.began, Some(Nanos(BEGAN_NS)));
    assert!(named(&merged, &names, 0) == named(&records, &dictionary, 0), "as one trace");
    assert_eq!((names.volumes.len(), names.streams.len()), (40, 7));
    let mut expected = named(&records, &dictionary, 0);
    expected.sort_by_key(|(r, ..)| (r.at, r.offset));
    all.sort_by_key(|(r, ..)| (r.at, r.offset));
    assert!(all == expected);
    let entries = fs::read_dir(folder).unwrap().count();
    assert_eq!(entries, manifest.parts.len() + 1, "the volumes and the manifest, nothing else");
}

#[test]
fn every_record_is_in_the_file_of_its_volume() {
    let place = tempfile::tempdir().unwrap();
    let (input, folder) = (input(place.path()), place.path().join("out"));
    let manifest = sealed(&folder, &input).write(|_| true).unwrap().unwrap();
    assert_eq!(manifest.parts.len(), 40);
    assert_whole(&folder, &manifest, &input);
    match partition::open(&folder, &input, None).unwrap() {
        Partition::Finished(again) => assert_eq!(again, manifest),
        _ => panic!("not finished"),
    }
}

/// The result is the same if splitting is interrupted after each volume and within one.
#[test]
fn an_interrupted_split_is_continued() {
    let place = tempfile::tempdir().unwrap();
    let (input, folder) = (input(place.path()), place.path().join("out"));
    let (mut volumes, mut rounds) = (sealed(&folder, &input), 0u64);
    let manifest = loop {
        let mut told = Vec::new();
        let written = volumes.write(|done| {
            told.push(done);
            done <= rounds * 300
        });
        assert!(told.is_sorted() && told.last().is_some(), "{told:?}");
        if let Some(manifest) = written.unwrap() {
            break manifest;
        }
        rounds += 1;
        volumes = match partition::open(&folder, &input, None).unwrap() {
            Partition::Read(volumes) => volumes,
            _ => panic!("not read"),
        };
    };
    assert!(rounds > 10, "{rounds}");
    assert_whole(&folder, &manifest, &input);
}

#[test]
fn a_rerun_starts_over_before_the_seal_and_goes_on_after_it() {
    let place = tempfile::tempdir().unwrap();
    let (input, folder) = (input(place.path()), place.path().join("out"));
    let mut intake = begun(&folder, &input);
    intake.add(&read(&input).0).unwrap();
    drop(intake);
    drop(sealed(&folder, &input));
    // Power fails after two volumes were written.
    let Partition::Read(volumes) = partition::open(&folder, &input, None).unwrap() else {
        panic!("not read");
    };
    let stop = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut count = 0;
        volumes.write(|_| {
            count += 1;
            assert!(count < 2, "the power goes");
            true
        })
    }));
    assert!(stop.is_err());
    let before: Vec<_> = fs::read_dir(&folder).unwrap().map(|e| e.unwrap()).collect();
    assert_eq!(before.len(), 3, "two volumes and the work");
    let changed = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
    let times: Vec<_> = before.iter().map(|e| (e.path(), changed(&e.path()))).collect();
    let Partition::Read(volumes) = partition::open(&folder, &input, None).unwrap() else {
        panic!("not read");
    };
    let manifest = volumes.write(|_| true).unwrap().unwrap();
    assert_whole(&folder, &manifest, &input);
    for (path, time) in times.iter().filter(|(path, _)| path.extension().is_some()) {
        assert_eq!(changed(path), *time, "{} was written again", path.display());
    }
}

#[test]
fn another_input_and_a_foreign_folder_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let (input, folder) = (input(place.path()), place.path().join("out"));
    drop(sealed(&folder, &input));
    let message = |folder: &Path, input: &Path, from| {
        partition::open(folder, input, from).err().unwrap().to_string()
    };
    let other = place.path().join("other.csv");
    fs::copy(&input, &other).unwrap();
    assert!(message(&folder, &other, None).contains("a partition of"));
    assert!(message(&folder, &input, Some("csv")).contains("a partition of"));
    assert!(message(place.path(), &input, None).contains("other files"));
    assert!(message(&input, &input, None).contains("in.csv"));
    fs::write(folder.join(".forebay-partition/sealed.json"), "{").unwrap();
    assert!(message(&folder, &input, None).contains("start over"));
}

#[test]
fn a_folder_that_was_tampered_with_is_no_trace() {
    let place = tempfile::tempdir().unwrap();
    let (input, folder) = (input(place.path()), place.path().join("out"));
    let manifest = sealed(&folder, &input).write(|_| true).unwrap().unwrap();
    let message = || {
        let mut batch = Vec::new();
        open::open(&folder, None)
            .and_then(|mut reader| {
                loop {
                    reader.read(&mut batch)?;
                    if batch.is_empty() {
                        return Ok(());
                    }
                }
            })
            .unwrap_err()
            .to_string()
    };
    let (first, second) = (&manifest.parts[0], &manifest.parts[1]);
    let [to, from] = [first, second].map(|part| folder.join(&part.file));
    let kept = fs::read(&to).unwrap();
    assert_ne!(first.requests, second.requests);
    fs::copy(&from, &to).unwrap();
    let text = message();
    let expected = format!("{}, as manifest.json says", first.requests);
    assert!(text.contains(&first.file) && text.contains(&expected), "{text}");
    fs::remove_file(&to).unwrap();
    assert!(message().contains(&first.file));
    fs::write(&to, kept).unwrap();
    assert_eq!(read(&folder).0.len(), 5000);
}
