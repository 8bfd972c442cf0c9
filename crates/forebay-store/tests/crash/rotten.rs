//! What rots on a disk: no acknowledged put is answered in an older version, and merging goes on around it.

use forebay_core::Nanos;
use forebay_live::Medium;
use forebay_store::{Answer, Config, Layout, Operation, Transformation, Trouble};

use crate::missing::{key, told};
use crate::{DISKS, Draw, config, layouts, media, seeds};

const KEYS: usize = 18;

fn put(number: usize) -> Operation {
    Operation::Write(vec![(key(number % KEYS), Some(vec![number as u8; 4000].into()))])
}

/// A store whose logs find no room for segments, and what is on its disks after a cut.
fn logs(layouts: &[Layout], config: &Config, puts: usize) -> Vec<Medium> {
    let begin = [Operation::Open].into_iter();
    let operations: Vec<_> = begin.chain((0..puts).map(put)).chain([Operation::Close]).collect();
    let (media, answers, _) = told((layouts, config.clone()), media(3, layouts), None, &operations);
    // It cannot close well: what is in logs stays there.
    assert!(answers[..=puts].iter().all(Result::is_ok), "{answers:?}");
    media
}

#[test]
fn a_batch_that_rots_is_told_and_nothing_older_is_answered() {
    let mut draw = Draw(3);
    let layouts: Vec<Layout> = layouts(&mut draw)
        .into_iter()
        .map(|layout| Layout { capacity_bytes: layout.segments_at() + 8192, ..layout })
        .collect();
    let config = Config {
        log_bytes: 40_000,
        tunes: false,
        gap_bytes: 0,
        transformation: Transformation::Enhanced,
        retry: Nanos::from_secs(1000),
        ..config(&mut draw)
    };
    let puts = 37;
    let whole = logs(&layouts, &config, puts);
    let looks = [Operation::Open, Operation::Check];
    let looks: Vec<_> = looks
        .into_iter()
        .chain((0..KEYS).map(|at| Operation::Get(key(at))))
        .chain([Operation::Close])
        .collect();
    let (mut refused, mut right) = (0, 0);
    // Of the last batch nothing says that it was there, nor of the last log of five.
    let mut look = |media: Vec<Medium>, known: usize| {
        let (_, answers, _) = told((&layouts, config.clone()), media, None, &looks);
        let [_, Ok(Answer::Checked(checked)), values @ .., _] = &answers[..] else {
            panic!("{answers:?}");
        };
        for (key, value) in values.iter().enumerate() {
            let last = (0..puts).rfind(|number| number % KEYS == key).unwrap();
            match value {
                Err(Trouble::Lost { got, expected, .. }) => {
                    assert!(got < expected && !checked.losses.is_empty());
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
            // The frame's kind and its content.
            for at in [8, 100] {
                let mut media = whole.clone();
                let at = layout.slot_at(0) + frame * 4096 + at;
                let sector = rotten(&media[disk], at);
                media[disk].write(at / 512 * 512, &sector, true);
                look(media, puts - 1);
            }
        }
        for slot in 0..layout.log_slots {
            let mut media = whole.clone();
            media[disk].write(layout.slot_at(slot), &[0xA5; 65536], true);
            look(media, puts / 5 * 5);
        }
    }
    println!("{refused} refused, {right} right");
    assert!(refused > 200 && right > 1000, "{refused} refused, {right} right");
}

/// A sector of a disk with one bit of the byte at `at` changed.
fn rotten(medium: &Medium, at: u64) -> Vec<u8> {
    let mut sector = vec![0; 512];
    medium.read(at / 512 * 512, &mut sector);
    sector[(at % 512) as usize] ^= 1;
    sector
}

#[test]
fn merging_goes_on_around_what_rots() {
    let mut most = 0;
    let mut told_of = 0;
    for seed in 0..seeds(20) {
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
        let (mut media, ..) = told(store(), crate::media(seed, &layouts), None, &first);
        let (_, _, healthy) = told(store(), media.clone(), None, &life(400));
        let disk = draw.below(DISKS.into()) as usize;
        for place in 0..3 {
            media[disk].write(layouts[disk].segments_at() + place * 16384, &[0xA5; 512], true);
        }
        let (_, answers, runs) = told(store(), media, None, &life(400));
        let [.., Ok(Answer::Checked(checked)), _] = &answers[..] else { panic!("{answers:?}") };
        told_of += u64::from(!checked.losses.is_empty());
        let refused = answers.iter().filter(|answer| answer.is_err()).count();
        assert_eq!(refused, 0, "seed {seed}");
        most = most.max(runs.saturating_sub(healthy));
    }
    println!("at most {most} runs more, {told_of} told of");
    assert!(most < 40 && told_of > 10, "{most} runs more, {told_of} told of");
}
