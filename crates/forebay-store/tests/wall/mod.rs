//! Tests a store on files in wall time: data that was put can be read, also after the store is
//! reopened, and files that do not belong to the store are reported.

// Allowed because these tests use files and threads.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod served;
mod transactions;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use forebay_rig::holes;
use forebay_store::{
    Answer, Config, Disks, InPlace, Operation, OperationError, Store, StoreError, Transformation,
    Tree, create, find,
};

const MIB: u64 = 1 << 20;

fn config() -> Config {
    Config { log_bytes: 200_000, fan_in: 3, segment_bytes: 1 << 20, ..Config::default() }
}

fn folders(root: &Path, count: usize) -> Vec<PathBuf> {
    let folder = |at| {
        let path = root.join(format!("disk{at}"));
        fs::create_dir_all(&path).unwrap();
        path
    };
    (1..=count).map(folder).collect()
}

fn value(number: u64, len: usize) -> Vec<u8> {
    number.to_le_bytes().into_iter().cycle().take(len).collect()
}

/// Puts, replaces and deletes keys, partly with several threads at a time.
fn work(store: &Store, model: &mut BTreeMap<Vec<u8>, Vec<u8>>, seed: u64) {
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let store = store.clone();
            std::thread::spawn(move || {
                let mut done = BTreeMap::new();
                for turn in 0..150_u64 {
                    let number = (turn * 7919 + seed * 31) % 60;
                    let key = format!("{thread}/{number:04}").into_bytes();
                    if turn % 9 == 8 {
                        store.delete(&key[..]).unwrap();
                        done.insert(key, None);
                    } else {
                        let value = value(turn + seed, 100 + (turn as usize * 37) % 9000);
                        store.put(&key[..], &value[..]).unwrap();
                        done.insert(key, Some(value));
                    }
                }
                done
            })
        })
        .collect();
    for (key, value) in threads.into_iter().flat_map(|thread| thread.join().unwrap()) {
        match value {
            Some(value) => model.insert(key, value),
            None => model.remove(&key),
        };
    }
}

fn is_as(store: &Store, model: &BTreeMap<Vec<u8>, Vec<u8>>) {
    for thread in 0..5 {
        for number in 0..61 {
            let key = format!("{thread}/{number:04}").into_bytes();
            let found = store.get(&key[..]).unwrap();
            assert_eq!(found.as_deref(), model.get(&key).map(|value| &value[..]));
        }
    }
    let all = store.scan(&b""[..], usize::MAX).unwrap();
    let all: Vec<_> = all.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
    let expected: Vec<_> = model.clone().into_iter().collect();
    assert!(all == expected, "{} keys, {} expected", all.len(), expected.len());
    let some = store.scan(&b"1/0020"[..], 7).unwrap();
    let from = model.range(b"1/0020".to_vec()..).take(7);
    assert!(some.iter().map(|(key, _)| &key[..]).eq(from.map(|(key, _)| &key[..])));
}

#[test]
fn puts_are_found() {
    let root = tempfile::tempdir().unwrap();
    let folders = folders(root.path(), 4);
    let store =
        Store::open(create(&folders, 64 * MIB, &config(), false).unwrap(), config()).unwrap();
    let mut model = BTreeMap::new();
    for seed in 0..3 {
        work(&store, &mut model, seed);
        is_as(&store, &model);
    }
    let status = store.status();
    assert!(status.figures.transformations > 10 && status.stages.len() == 4, "{status:?}");
    // Repeats this with the data on the disks. The order of the folders does not matter.
    store.close();
    assert_eq!(store.get(&b"0/0001"[..]), Err(OperationError::Closed));
    let mut turned = folders.clone();
    turned.rotate_left(1);
    for transformation in [Transformation::Enhanced, Transformation::Basic] {
        let config = Config { transformation, read_log: true, ..config() };
        let store = Store::open(find(&turned).unwrap(), config).unwrap();
        is_as(&store, &model);
        work(&store, &mut model, 9);
        is_as(&store, &model);
        store.close();
    }
}

#[test]
fn later_changes_do_not_affect_a_snapshot() {
    let root = tempfile::tempdir().unwrap();
    let disks = create(&folders(root.path(), 4), 64 * MIB, &config(), false).unwrap();
    let store = Store::open(disks, config()).unwrap();
    let mut model = BTreeMap::new();
    work(&store, &mut model, 0);
    let (snapshot, then) = (store.snapshot().unwrap(), model.clone());
    // The logs and segments of the snapshot are replaced many times.
    for seed in 1..6 {
        work(&store, &mut model, seed);
    }
    assert!(then != model);
    let found = snapshot.scan(&b""[..], usize::MAX).unwrap();
    assert!(found.iter().map(|(key, _)| &key[..]).eq(then.keys().map(|key| &key[..])));
    assert!(found.iter().map(|(_, value)| &value[..]).eq(then.values().map(|value| &value[..])));
    let paged: Vec<_> = snapshot.records(&b"1/0020"[..]).map(Result::unwrap).collect();
    assert!(found.iter().filter(|(key, _)| key[..] >= b"1/0020"[..]).eq(&paged));
    for (key, value) in &then {
        assert_eq!(snapshot.get(&key[..]).unwrap().as_deref(), Some(&value[..]));
    }
    drop(snapshot);
    is_as(&store, &model);
    let read = Box::new(Operation::Get(b"1".as_slice().into()));
    assert_eq!(store.ask(Operation::At { snapshot: 9999, read }), Err(OperationError::NoSnapshot));
    store.close();
}

#[test]
fn unfindable_keys_are_rejected() {
    let root = tempfile::tempdir().unwrap();
    let disks = create(&folders(root.path(), 4), 64 * MIB, &config(), false).unwrap();
    let config = Config { tree: Tree::InPlace(InPlace::default()), ..config() };
    let refused = Store::open(disks, config).err().unwrap();
    assert!(refused.is_input() && refused.to_string().contains("in place"), "{refused}");
}

#[test]
fn batches_keep_their_order_and_long_entries_are_rejected() {
    let root = tempfile::tempdir().unwrap();
    let disks = create(&folders(root.path(), 4), 64 * MIB, &config(), false).unwrap();
    let store = Store::open(disks, config()).unwrap();
    let key = |key: &str| key.as_bytes().into();
    let put = |value: &str| Some(value.as_bytes().into());
    let batch =
        vec![(key("a"), put("1")), (key("b"), put("2")), (key("a"), None), (key("b"), put("3"))];
    assert_eq!(store.ask(Operation::Write(batch)), Ok(Answer::Done));
    assert_eq!(store.get(&b"a"[..]), Ok(None));
    assert_eq!(store.get(&b"b"[..]).unwrap().as_deref(), Some(&b"3"[..]));
    assert!(matches!(
        store.put(vec![0; 70_000], &b""[..]),
        Err(OperationError::Long { got: 70_000, .. })
    ));
    assert!(matches!(
        store.put(&b"c"[..], vec![0; (64 << 20) + (65 << 10)]),
        Err(OperationError::Long { .. })
    ));
    // This value is longer than a log.
    let long = value(7, 5_000_000);
    store.put(&b"c"[..], &long[..]).unwrap();
    assert_eq!(store.get(&b"c"[..]).unwrap().as_deref(), Some(&long[..]));
    store.put(&b""[..], &b""[..]).unwrap();
    assert_eq!(store.scan(&b""[..], 1).unwrap()[0].0.len(), 0);
    store.close();
}

#[test]
fn a_page_has_as_many_bytes_as_were_asked_for_whatever_values_have() {
    let root = tempfile::tempdir().unwrap();
    let disks = create(&folders(root.path(), 4), 128 * MIB, &config(), false).unwrap();
    let store = Store::open(disks, config()).unwrap();
    // The pages contain one value, several values, or a single value that exceeds the limit.
    let lens = [5_000_000, 0, 900_000, 900_000, 4_500_000, 10, 6_000_000];
    for (number, len) in (0..).zip(lens) {
        store.put([number], value(number.into(), len)).unwrap();
    }
    let (mut from, mut pages) = (Some(forebay_store::Key::from([])), Vec::new());
    while let Some(begin) = from {
        let scan = Operation::Scan { from: begin, count: 100, bytes: 2_000_000 };
        let Ok(Answer::Page(page)) = store.ask(scan) else { panic!("no page") };
        pages.push(page.records.iter().map(|(_, value)| value.len()).collect::<Vec<_>>());
        from = page.next;
    }
    let expected: [&[usize]; 5] =
        [&[5_000_000], &[0, 900_000, 900_000], &[4_500_000], &[10], &[6_000_000]];
    assert_eq!(pages, expected);
    let snapshot = store.snapshot().unwrap();
    // The snapshot does not contain later puts, and its iterators need not be exhausted.
    store.put([9], vec![1; 10]).unwrap();
    let all = snapshot.records(&b""[..]).map(|record| record.unwrap().1.len());
    assert!(all.eq(lens));
    assert_eq!(snapshot.records([4]).next().unwrap().unwrap().1.len(), 4_500_000);
    store.close();
    assert_eq!(snapshot.records([4]).next(), Some(Err(OperationError::Closed)));
}

#[test]
fn a_store_that_is_full_says_so_and_keeps_what_it_has() {
    let root = tempfile::tempdir().unwrap();
    let disks = create(&folders(root.path(), 4), 12 * MIB, &config(), false).unwrap();
    let store = Store::open(disks, config()).unwrap();
    let mut kept = 0;
    let outcome = (0..4000_u64).try_for_each(|number| {
        let put = store.put(&number.to_be_bytes()[..], value(number, 50_000));
        kept += u64::from(put.is_ok());
        put
    });
    assert_eq!(outcome, Err(OperationError::Full));
    assert!(kept > 300, "{kept} puts of 50 kB in some 30 MiB");
    let all = store.scan(&b""[..], usize::MAX).unwrap();
    assert_eq!(all.len() as u64, kept);
    assert!((0..kept).zip(&all).all(|(number, (_, found))| **found == *value(number, 50_000)));
    store.close();
}

fn said(outcome: Result<Disks, StoreError>) -> String {
    match outcome {
        Ok(_) => panic!("it was taken"),
        Err(error) => {
            assert!(error.is_input());
            error.to_string()
        }
    }
}

#[test]
fn disks_that_are_no_store_are_named_and_not_written() {
    let root = tempfile::tempdir().unwrap();
    let folders = folders(root.path(), 5);
    let make = |paths: &[PathBuf], bytes| create(paths, bytes, &config(), false);
    assert!(said(make(&folders[..3], 64 * MIB)).contains("got 3 disks"));
    let twice = [&folders[..3], &folders[..1]].concat();
    assert!(said(make(&twice, 64 * MIB)).contains("named twice"));
    assert!(said(make(&folders[..4], MIB)).contains("a store needs"));
    assert!(said(find(&folders[..4])).contains("No such file"), "nothing half made is left");
    drop(make(&folders[..4], 64 * MIB).unwrap());
    assert!(said(make(&folders[..4], 64 * MIB)).contains("overwrite"));
    assert!(said(find(&folders[..3])).contains("3 of its 4 disks are named"));
    assert!(said(find(&[])).contains("no disks are specified"));
    let copy = folders[4].join("forebay.store");
    fs::copy(folders[0].join("forebay.store"), &copy).unwrap();
    assert!(said(find(&folders)).contains("is disk 1 of the store, and so is"));
    fs::write(&copy, "no label").unwrap();
    assert!(said(find(&folders)).contains("no Forebay label"));
    holes(&copy, 64 * MIB);
    assert!(said(find(&folders)).contains("no Forebay label"));
    let open = find(&folders[..4]).unwrap();
    assert!(said(find(&folders[..4])).contains("in use"));
    drop(open);
    let file = fs::File::options().write(true).open(folders[2].join("forebay.store")).unwrap();
    file.set_len(63 * MIB).unwrap();
    assert!(said(find(&folders[..4])).contains("the store needs"));
}

#[test]
fn a_store_made_over_another_has_the_size_that_was_asked_for() {
    let root = tempfile::tempdir().unwrap();
    let folders = folders(root.path(), 4);
    let file = folders[2].join("forebay.store");
    for (bytes, overwrite) in [(64 * MIB, false), (96 * MIB, true), (32 * MIB, true)] {
        let disks = create(&folders, bytes, &config(), overwrite).unwrap();
        assert!(disks.layouts.iter().all(|layout| layout.capacity_bytes == bytes));
        let found = fs::metadata(&file).unwrap();
        assert_eq!(found.len(), bytes);
        // Either the space is reserved completely, or a note says that it is not.
        assert!(found.blocks() * 512 >= bytes || disks.notes().any(|note| note.contains("aside")));
        let store = Store::open(disks, config()).unwrap();
        store.put(&b"k"[..], &b"1"[..]).unwrap();
        store.close();
    }
    // If there is no space, existing files are unchanged, and no files are created.
    fs::remove_file(&file).unwrap();
    assert!(
        said(create(&folders, u64::MAX / 8, &config(), true)).contains("there is no space for")
    );
    assert!(!file.exists());
    assert_eq!(fs::metadata(folders[1].join("forebay.store")).unwrap().len(), 32 * MIB);
}
