//! Opens a small store of each on-disk format, as written by the code of that time. An unsupported
//! format is refused by its number.
//!
//! An image contains segments, logs that are not in segments yet, and values that are too long for
//! any slot. `UPDATE=1` creates the image of the current format if it is missing.

// Allowed because this module works with files.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::fs;
use std::path::PathBuf;

use forebay_core::Nanos;
use forebay_rig::{Crash, Medium, Troubles};
use forebay_store::{Answer, Config, Layout, Operation, Transformation, Value};

use crate::crash::missing::{Asking, key, told};
use crate::crash::{Draw, config, layouts, media};

const KEYS: usize = 23;
const PUTS: usize = 78;
/// The number of consecutive zeros that end an extent.
const ZEROS: usize = 64;

fn store() -> (Vec<Layout>, Config) {
    let mut draw = Draw(4);
    let layouts = layouts(&mut draw);
    let config = Config {
        log_bytes: 40_000,
        tunes: false,
        gap_bytes: 0,
        transformation: Transformation::Enhanced,
        ..config(&mut draw)
    };
    (layouts, config)
}

/// Returns the value that a put writes: a deletion, or a value that compresses well.
fn left(number: usize) -> Option<Value> {
    if number % 11 == 10 {
        return None;
    }
    let is_outsize = number == 20 || number == PUTS - 4;
    let mut value = vec![0; if is_outsize { 70_000 } else { 3000 }];
    value[..4].copy_from_slice(&(number as u32).to_le_bytes());
    Some(value.into())
}

fn put(number: usize) -> Operation {
    Operation::Write(vec![(key(number % KEYS), left(number))])
}

fn image(format: u64) -> PathBuf {
    PathBuf::from(format!("{}/tests/images/format{format}", env!("CARGO_MANIFEST_DIR")))
}

/// Encodes the nonzero extents of the disks: for each disk their number, then the position, length
/// and bytes of each.
fn pack(media: &[Medium], layouts: &[Layout]) -> Vec<u8> {
    let mut out = Vec::new();
    for (medium, layout) in media.iter().zip(layouts) {
        let mut bytes = vec![0; layout.capacity_bytes as usize];
        medium.read(0, &mut bytes);
        let mut extents: Vec<(usize, usize)> = Vec::new();
        for (at, _) in bytes.iter().enumerate().filter(|(_, byte)| **byte != 0) {
            match extents.last_mut() {
                Some((_, end)) if at < *end + ZEROS => *end = at + 1,
                _ => extents.push((at, at + 1)),
            }
        }
        out.extend((extents.len() as u32).to_le_bytes());
        for (from, end) in extents {
            out.extend((from as u64).to_le_bytes());
            out.extend(((end - from) as u32).to_le_bytes());
            out.extend_from_slice(&bytes[from..end]);
        }
    }
    out
}

/// Decodes the disks of an image.
fn unpack(mut packed: &[u8], layouts: &[Layout]) -> Vec<Medium> {
    let mut take = |len: usize| {
        let (taken, rest) = packed.split_at(len);
        packed = rest;
        taken
    };
    let unpacked = |layout: &Layout| {
        let mut medium = Medium::new(u64::from(layout.disk));
        for _ in 0..u32::from_le_bytes(take(4).try_into().unwrap()) {
            let at = u64::from_le_bytes(take(8).try_into().unwrap());
            let len = u32::from_le_bytes(take(4).try_into().unwrap()) as usize;
            // Media are written in whole sectors.
            let (from, end) = (at / 512 * 512, (at + len as u64).next_multiple_of(512));
            let mut sectors = vec![0; (end - from) as usize];
            medium.read(from, &mut sectors);
            sectors[(at - from) as usize..][..len].copy_from_slice(take(len));
            medium.write(from, &sectors, true);
        }
        medium
    };
    layouts.iter().map(unpacked).collect()
}

#[test]
fn the_image_of_the_present_format_is_made() {
    let path = image(Layout::FORMAT);
    if path.exists() || std::env::var_os("UPDATE").is_none() {
        return;
    }
    let (layouts, config) = store();
    let puts: Vec<_> = [Operation::Open].into_iter().chain((0..PUTS).map(put)).collect();
    let mut lanes = Crash::new(media(4, &layouts), 4096, 4, 4, Troubles::default());
    let told = Asking::new(&puts, Nanos::ZERO).of((&layouts, config), None, &mut lanes);
    assert!(told.answers.iter().all(Result::is_ok), "{:?}", told.answers);
    drop(told);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, pack(&lanes.kill(), &layouts)).unwrap();
}

/// Returns operations that open and check the store, and read every key.
fn looks() -> Vec<Operation> {
    let first = [Operation::Open, Operation::Check].into_iter();
    first.chain((0..KEYS).map(|at| Operation::Get(key(at)))).collect()
}

fn is_as_it_was(answers: &[Result<Answer, forebay_store::OperationError>]) {
    let [Ok(_), Ok(Answer::Checked(checked)), values @ ..] = answers else {
        panic!("{answers:?}");
    };
    assert!(checked.losses.is_empty() && checked.segments > 0, "{checked:?}");
    for (at, value) in values.iter().enumerate() {
        let last = (0..PUTS).rfind(|number| number % KEYS == at).unwrap();
        assert!(*value == Ok(Answer::Value(left(last))), "key {at}, put {last}");
    }
}

#[test]
fn a_store_of_every_format_that_is_read_opens_with_all_it_has() {
    for format in Layout::FORMAT_MIN..=Layout::FORMAT {
        let (mut layouts, config) = store();
        layouts.iter_mut().for_each(|layout| layout.is_labelled_at_end = format > 4);
        let packed = fs::read(image(format)).unwrap();
        assert!(packed.len() < 200_000, "{} bytes", packed.len());
        let media = unpack(&packed, &layouts);
        // The store must be readable without changes, and accept further writes.
        let reads = Config { read_only: true, ..config.clone() };
        let (_, answers, _) = told((&layouts, reads), media.clone(), None, &looks());
        is_as_it_was(&answers);
        let (media, answers, _) = told((&layouts, config.clone()), media, None, &looks());
        is_as_it_was(&answers);
        let more = [Operation::Open, Operation::Write(vec![(key(0), None)]), Operation::Close];
        let (media, answers, _) = told((&layouts, config.clone()), media, None, &more);
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        let (_, answers, _) = told((&layouts, config), media, None, &looks());
        assert_eq!(answers[2], Ok(Answer::Value(None)));
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    }
}
