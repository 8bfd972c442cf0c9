//! Tests damaged data on a disk: no read returns an older version of an acknowledged put, and
//! merging continues with the rest.

use forebay_core::{Fault, Lane, Nanos};
use forebay_rig::{Crash, Medium, Troubles};
use forebay_store::{Answer, Checked, Config, Layout, Operation, OperationError, Transformation};

use crate::crash::missing::{Asking, key, told};
use crate::crash::{DISKS, Draw, config, cramped, layouts, longer, media};

const KEYS: usize = 18;

fn put(number: usize) -> Operation {
    Operation::Write(vec![(key(number % KEYS), Some(vec![number as u8; 4000].into()))])
}

/// Runs a store whose logs find no space for segments; returns the contents of its disks.
fn logs(layouts: &[Layout], config: &Config, puts: usize) -> Vec<Medium> {
    let begin = [Operation::Open].into_iter();
    let operations: Vec<_> = begin.chain((0..puts).map(put)).chain([Operation::Close]).collect();
    let (media, answers, _) = told((layouts, config.clone()), media(3, layouts), None, &operations);
    // Closing fails for lack of space, so the records stay in logs.
    assert!(answers[..=puts].iter().all(Result::is_ok), "{answers:?}");
    media
}

#[test]
fn a_rotten_batch_is_reported_and_no_older_value_returned() {
    let mut draw = Draw(3);
    let layouts = layouts(&mut draw);
    let config = Config { log_bytes: 40_000, tunes: false, gap_bytes: 0, ..config(&mut draw) };
    let (layouts, config) = cramped(&layouts, 0, &config);
    let puts = 37;
    let whole = logs(&layouts, &config, puts);
    let looks = [Operation::Open, Operation::Check];
    let looks: Vec<_> = looks
        .into_iter()
        .chain((0..KEYS).map(|at| Operation::Get(key(at))))
        .chain([Operation::Close])
        .collect();
    let (mut refused, mut right) = (0, 0);
    // Nothing else proves the existence of the last batch, nor that of the last log if there are
    // five.
    let mut look = |media: Vec<Medium>, known: usize, bad: Vec<(Lane, u64)>| {
        let mut lanes = Crash::new(media, 4096, 4, 1, Troubles { bad, ..Troubles::default() });
        let work = Asking::new(&looks, Nanos::ZERO);
        let answers = work.of((&layouts, config.clone()), None, &mut lanes).answers;
        let [_, Ok(Answer::Checked(checked)), values @ .., _] = &answers[..] else {
            panic!("{answers:?}");
        };
        for (key, value) in values.iter().enumerate() {
            let last = (0..puts).rfind(|number| number % KEYS == key).unwrap();
            match value {
                Err(OperationError::Lost { first, upto, expected, .. }) => {
                    assert!(first < upto && upto <= expected && !checked.losses.is_empty());
                    refused += 1;
                }
                Err(OperationError::Disk { fault: Fault::Media, .. }) => {
                    assert!(!checked.losses.is_empty());
                    refused += 1;
                }
                Ok(Answer::Value(Some(value))) if value[0] == last as u8 => right += 1,
                _ => assert!(last >= known, "{key}: {value:?}"),
            }
        }
    };
    for disk in 0..usize::from(DISKS) {
        let layout = layouts[disk];
        for frame in 0..layout.log_slots * layout.slot_bytes / 4096 {
            // Damages the frame's kind, or its content.
            for at in [8, 100] {
                let mut media = whole.clone();
                let at = layout.slot_at(0) + frame * 4096 + at;
                let sector = rotten(&media[disk], at);
                media[disk].write(at / 512 * 512, &sector, true);
                look(media, puts - 1, Vec::new());
            }
            // An unreadable block is noticed even in the last batch.
            look(whole.clone(), puts, vec![(disk as Lane, layout.slot_at(0) + frame * 4096)]);
        }
        for slot in 0..layout.log_slots {
            let mut media = whole.clone();
            media[disk].write(layout.slot_at(slot), &[0xA5; 65536], true);
            look(media, puts / 5 * 5, Vec::new());
        }
    }
    println!("{refused} refused, {right} right");
    assert!(refused > 150 && right > 5000, "{refused} refused, {right} right");
}

/// Returns a sector of a disk with one bit of the byte at `at` changed.
fn rotten(medium: &Medium, at: u64) -> Vec<u8> {
    let mut sector = vec![0; 512];
    medium.read(at / 512 * 512, &mut sector);
    sector[(at % 512) as usize] ^= 1;
    sector
}

#[test]
fn merging_continues_around_rot() {
    let mut most = 0;
    let mut told_of = 0;
    for seed in 0..longer(8) {
        let mut draw = Draw(seed ^ 0x207);
        let layouts = layouts(&mut draw);
        let config = Config {
            log_bytes: 8000,
            tunes: false,
            runs_max: 1000,
            transformation: Transformation::Enhanced,
            ..config(&mut draw)
        };
        let write = |number: usize| {
            Operation::Write(vec![(key(number % 37), Some(vec![number as u8; 3000].into()))])
        };
        let life = |puts: usize| -> Vec<Operation> {
            let all = [Operation::Open].into_iter().chain((0..puts).map(write));
            all.chain([Operation::Check, Operation::Close]).collect()
        };
        let store = || (&layouts[..], config.clone());
        let first = life(40);
        let (mut media, ..) = told(store(), crate::crash::media(seed, &layouts), None, &first);
        // Merging continues while everything is checked.
        let checks = [Operation::Check].into_iter().cycle().take(40);
        let quiet: Vec<Operation> =
            [Operation::Open].into_iter().chain(checks).chain([Operation::Close]).collect();
        let (healthy, ..) = told(store(), media.clone(), None, &life(400));
        let (_, _, healthy) = told(store(), healthy, None, &quiet);
        let disk = draw.below(DISKS.into()) as usize;
        for place in 0..3 {
            media[disk].write(layouts[disk].segments_at() + place * 16384, &[0xA5; 512], true);
        }
        let (media, answers, _) = told(store(), media, None, &life(400));
        let [.., Ok(Answer::Checked(checked)), _] = &answers[..] else { panic!("{answers:?}") };
        told_of += u64::from(!checked.losses.is_empty());
        let refused = answers.iter().filter(|answer| answer.is_err()).count();
        assert_eq!(refused, 0, "seed {seed}");
        let (_, _, runs) = told(store(), media, None, &quiet);
        println!("seed {seed}: {runs}, {healthy} where nothing rots");
        most = most.max(runs.saturating_sub(healthy));
    }
    println!("at most {most} runs more, {told_of} told of");
    assert!(most < 25 && told_of > 3, "{most} runs more, {told_of} told of");
}

/// Creates a store with segments and logs; returns it with the contents of its disks after a kill.
fn grown(seed: u64) -> (Vec<Layout>, Config, Vec<Medium>) {
    let mut draw = Draw(seed ^ 0x2007);
    let layouts = layouts(&mut draw);
    let config = Config {
        log_bytes: 8000,
        tunes: false,
        transformation: Transformation::Enhanced,
        step_bytes: 65536,
        ..config(&mut draw)
    };
    let first: Vec<_> = [Operation::Open].into_iter().chain((0..60).map(put)).collect();
    let mut lanes = Crash::new(media(seed, &layouts), 4096, 4, seed, Troubles::default());
    let told = Asking::new(&first, Nanos::ZERO).of((&layouts, config.clone()), None, &mut lanes);
    assert!(told.answers.iter().all(Result::is_ok));
    drop(told);
    (layouts, config, lanes.kill())
}

/// Returns operations that open and check the store, read every key, and put.
fn looks() -> Vec<Operation> {
    let first = [Operation::Open, Operation::Check].into_iter();
    first.chain((0..KEYS).map(|at| Operation::Get(key(at)))).chain([put(61)]).collect()
}

fn last(key: usize) -> u8 {
    (0..60).rfind(|number| number % KEYS == key).unwrap() as u8
}

#[test]
fn an_unreadable_root_is_known_from_the_other_disks() {
    for seed in 0..longer(1) {
        let (layouts, config, whole) = grown(seed);
        for disk in 0..usize::from(DISKS) {
            let layout = layouts[disk];
            for block in 0..2 * layout.root_bytes / 4096 {
                let bad = vec![(disk as Lane, layout.root_at(0) + block * 4096)];
                let troubles = Troubles { bad, ..Troubles::default() };
                let mut lanes = Crash::new(whole.clone(), 4096, 4, 1, troubles);
                let work = Asking::new(&looks(), Nanos::ZERO);
                let answers = work.of((&layouts, config.clone()), None, &mut lanes).answers;
                let [_, Ok(Answer::Checked(checked)), values @ .., Ok(Answer::Done)] = &answers[..]
                else {
                    panic!("seed {seed}, disk {disk}, block {block}: {answers:?}");
                };
                assert_eq!(checked.losses, [], "seed {seed}, disk {disk}, block {block}");
                for (key, value) in values.iter().enumerate() {
                    let is_right =
                        matches!(value, Ok(Answer::Value(Some(value))) if value[0] == last(key));
                    assert!(is_right, "seed {seed}, disk {disk}, block {block}: {key} {value:?}");
                }
            }
        }
    }
}

#[test]
fn without_two_roots_reads_fail_until_the_loss_is_accepted() {
    let (layouts, config, whole) = grown(5);
    let disks = usize::from(DISKS);
    for gone in 0_u32..1 << disks {
        for missing in (0..disks).map(Some).chain([None]) {
            let mut media = whole.clone();
            for disk in (0..disks).filter(|disk| gone >> disk & 1 == 1) {
                let layout = layouts[disk];
                let zeros = vec![0; 2 * layout.root_bytes as usize];
                media[disk].write(layout.root_at(0), &zeros, true);
            }
            if let Some(missing) = missing {
                media.remove(missing);
            }
            let is_there = |disk: &usize| missing != Some(*disk);
            let gone = (0..disks).filter(|disk| gone >> disk & 1 == 1).filter(is_there).count();
            let is_known = gone == 0 || gone == 1 && missing.is_none();
            if is_known && missing.is_some() {
                continue;
            }
            let store = || (&layouts[..], config.clone());
            let (_, answers, _) = told(store(), media.clone(), missing, &looks());
            let [Ok(_), Ok(Answer::Checked(checked)), values @ ..] = &answers[..] else {
                panic!("{answers:?}");
            };
            if is_known {
                assert!(checked.losses.is_empty() && values.iter().all(Result::is_ok));
                continue;
            }
            let lost = OperationError::Rootless { disks: gone };
            assert!(checked.losses.iter().any(|loss| loss.failure == lost), "{checked:?}");
            assert!(values.iter().all(|value| *value == Err(lost.clone())), "{values:?}");
            // Nothing was written, so reopening the store gives the same answers.
            let (media, again, _) = told(store(), media, missing, &looks());
            assert_eq!(again, answers);
            let repair = [Operation::Open, Operation::Repair, Operation::Check, put(99)];
            let (media, answers, _) = told(store(), media, missing, &repair);
            let [_, Ok(Answer::Checked(given)), Ok(Answer::Checked(Checked { losses, .. })), Ok(_)] =
                &answers[..]
            else {
                panic!("{answers:?}");
            };
            assert!(given.losses.iter().any(|loss| loss.failure == lost) && losses.is_empty());
            let (_, answers, _) = told(store(), media, missing, &looks());
            assert!(answers.iter().all(Result::is_ok), "{answers:?}");
            let at = 2 + 99 % KEYS;
            assert!(matches!(&answers[at], Ok(Answer::Value(Some(value))) if value[0] == 99));
        }
    }
}

/// Returns the position of the newest chain of a disk's roots, if the chain has more than one
/// frame.
fn chain(medium: &Medium, layout: &Layout) -> Option<u64> {
    let blocks = (0..2 * layout.root_bytes / 4096).map(|block| layout.root_at(0) + block * 4096);
    let frame = |at: u64| {
        let mut head = vec![0; 512];
        medium.read(at, &mut head);
        let long = |from: usize| u64::from_le_bytes(head[from..from + 8].try_into().unwrap());
        (&head[8..12] == b"ROOT").then(|| (long(24), long(32), at))
    };
    let frames: Vec<_> = blocks.filter_map(frame).collect();
    let newest = frames.iter().map(|frame| frame.0).max()?;
    let follows = frames.iter().any(|(chain, place, _)| (*chain, *place) == (newest, 1));
    let first = frames.iter().find(|(chain, place, _)| (*chain, *place) == (newest, 0))?;
    follows.then_some(first.2)
}

#[test]
fn contents_of_two_damaged_roots_are_not_forgotten() {
    let (mut refused, mut right) = (0, 0);
    for seed in 0..longer(2) {
        let (layouts, config, whole) = grown(seed);
        for pair in 0..16 {
            let (one, other) = (pair / 4, pair % 4);
            let mut media = whole.clone();
            let mut damaged = 0;
            for disk in if one == other { vec![one] } else { vec![one, other] } {
                let Some(at) = chain(&media[disk], &layouts[disk]) else { continue };
                let sector = rotten(&media[disk], at + 60);
                media[disk].write(at, &sector, true);
                damaged += 1;
            }
            let (_, answers, _) = told((&layouts, config.clone()), media, None, &looks());
            let lost = OperationError::Rootless { disks: 2 };
            for (key, value) in answers[2..2 + KEYS].iter().enumerate() {
                match value {
                    Ok(Answer::Value(Some(value))) if value[0] == last(key) => right += 1,
                    Err(trouble) if damaged == 2 && *trouble == lost => refused += 1,
                    _ => {
                        panic!("seed {seed}, {one} and {other}: {key}, {:?}", value.as_ref().err())
                    }
                }
            }
            assert_eq!(answers[2 + KEYS].is_ok(), damaged < 2, "seed {seed}, {one} and {other}");
        }
    }
    println!("{refused} refused, {right} right");
    assert!(refused > 150 && right > 50, "{refused} refused, {right} right");
}

#[test]
fn a_rotten_label_is_reported_and_rewritten() {
    let (layouts, config, whole) = grown(2);
    for (disk, layout) in layouts.iter().enumerate() {
        let places = [0, 4096, layout.capacity_bytes - 4096];
        for damaged in 1_u32..1 << places.len() {
            let mut media = whole.clone();
            let at = || (0..).zip(places).filter(|(bit, _)| damaged >> bit & 1 == 1);
            at().for_each(|(_, at)| media[disk].write(at, &[0; 512], true));
            let expected: Vec<_> =
                at().map(|(_, offset)| OperationError::Label { disk, offset }).collect();
            let troubles = |answer: &Result<Answer, OperationError>| match answer {
                Ok(Answer::Checked(Checked { losses, .. })) => {
                    losses.iter().map(|loss| loss.failure.clone()).collect::<Vec<_>>()
                }
                other => panic!("{other:?}"),
            };
            let reads = Config { read_only: true, ..config.clone() };
            let (media, answers, _) = told((&layouts, reads), media, None, &looks()[..2]);
            assert_eq!(troubles(&answers[1]), expected, "disk {disk}, {damaged:b}");
            let (media, answers, _) = told((&layouts, config.clone()), media, None, &looks());
            assert_eq!(troubles(&answers[1]), []);
            assert!(answers[2..].iter().all(Result::is_ok), "{answers:?}");
            for at in places {
                let mut block = vec![0; 4096];
                media[disk].read(at, &mut block);
                assert_eq!(Layout::parse(&block), Some(Ok(*layout)), "disk {disk}, byte {at}");
            }
        }
    }
}
