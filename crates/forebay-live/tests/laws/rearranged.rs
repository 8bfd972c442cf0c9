//! Tests the laws of contents on a disk that is rearranged permanently: power cuts and kills at
//! every I/O of the copying, of the record and of opening; that omitting any flush or write of the
//! record loses data; and incomplete records.

use forebay_core::stack::rearranged::RECORD_BYTES;
use forebay_core::{Flags, Nanos, Op, Policy};
use forebay_live::{checksum, run};
use forebay_rig::{Crash, Lie, Medium, Tear, Troubles};

use crate::laws::oracle::{Mix, Oracle};
use crate::laws::stacks::{RECORD, kept_rearranged, marker_of};

type Asked = (Op, Flags, u64, u64);

const NONE: Flags = Flags::NONE;
const FLUSH: Asked = (Op::Flush, NONE, 0, 0);
/// The beginning of the new places.
const TO: u64 = RECORD - (64 << 10);

fn policy() -> Box<dyn Policy> {
    kept_rearranged("noop", TO, Some(Nanos::from_micros(300)))
}

/// Returns a policy that does not start a rearrangement.
fn found() -> Box<dyn Policy> {
    kept_rearranged("noop", TO, None)
}

fn oracle(seed: u64) -> Oracle {
    let mix = Mix { disks: 1, sectors: 1024, unit: 8, trims: true, anything_from: 1024 };
    Oracle::new(mix, 0, seed)
}

fn holds(policy: &dyn Policy) -> bool {
    policy.gauges().iter().any(|gauge| gauge.name == "rearranged" && gauge.value == 1.0)
}

/// Returns all moved blocks, and the blocks between them.
fn written() -> Vec<Asked> {
    let write = |first, count| (Op::Write, NONE, first, count);
    vec![write(640, 40), write(16, 16), write(56, 8), write(170, 60), FLUSH]
}

/// Writes to places whose blocks move, during and after the copying; one write is flushed. The
/// reads between them leave time for the copying.
fn script() -> Vec<Asked> {
    let read = |first| (Op::Read, NONE, first, 4);
    let mut script: Vec<Asked> = (0..10).map(|step| read(900 + step)).collect();
    script.push((Op::Write, NONE, 644, 9));
    script.extend((0..30).map(|step| read(800 + step)));
    script.extend([(Op::Write, NONE, 18, 3), (Op::Write, Flags::FUA, 176, 5)]);
    script.extend((0..60).map(|step| read(700 + step)));
    script.extend([(Op::Write, NONE, 642, 4), (Op::Write, NONE, 57, 2), FLUSH, read(650)]);
    script
}

/// Returns a disk with data, after a power cut.
fn begun(oracle: &mut Oracle, seed: u64) -> Vec<Medium> {
    let mut lanes = Crash::new(vec![Medium::new(seed)], 512, 4, seed, Troubles::default());
    oracle.ask(&written());
    let mut policy = forebay_core::catalog::build("noop", 1 << 16).unwrap();
    run(&mut *policy, &mut lanes, oracle, &mut ()).unwrap();
    let media = lanes.cut(Tear::Sector);
    oracle.cut();
    media
}

/// Runs the script with these faults, then cuts the power or kills the process. Returns whether the
/// script was completed, whether the new places are in use, and the media.
fn life(
    media: Vec<Medium>,
    oracle: &mut Oracle,
    seed: u64,
    troubles: Troubles,
) -> (bool, bool, Vec<Medium>) {
    let mut lanes = Crash::new(media, 512, 4, seed, troubles);
    let mut policy = policy();
    oracle.ask(&script());
    let ended = run(&mut *policy, &mut lanes, oracle, &mut ()).is_ok();
    let held = holds(&*policy);
    let media = match seed % 3 {
        0 => lanes.kill(),
        1 => lanes.cut(Tear::Sector),
        _ => lanes.cut(Tear::Page),
    };
    oracle.cut();
    (ended, held, media)
}

/// Reads everything again; returns whether there was a record, and the media.
fn check(media: Vec<Medium>, oracle: &mut Oracle, killed: bool, seed: u64) -> (bool, Vec<Medium>) {
    let held = refused(media.clone(), found()).0 == 0;
    let mut lanes = Crash::new(media, 512, 4, seed, Troubles::default());
    match killed {
        true => oracle.settle_killed(),
        false => oracle.settle(),
    }
    let failed = oracle.failed;
    run(&mut *policy(), &mut lanes, oracle, &mut ()).unwrap();
    assert_eq!(oracle.failed, failed);
    (held, lanes.cut(Tear::Sector))
}

#[test]
fn a_rearranged_disk_survives_cuts_and_kills_at_every_step() {
    let (mut before, mut after) = (0, 0);
    for seed in 0..9 {
        let mut first = oracle(seed);
        let media = begun(&mut first, seed);
        for passes in 0.. {
            let mut oracle = first.clone();
            let troubles = Troubles { cut_after: Some(passes), ..Troubles::default() };
            let (ended, held, media) = life(media.clone(), &mut oracle, seed, troubles);
            let (holds, media) = check(media, &mut oracle, seed % 3 == 0, passes);
            assert!(holds || !held, "what held holds");
            (before, after) = (before + u64::from(!holds), after + u64::from(holds));
            oracle.cut();
            // A second check, because the data found must be durable.
            assert!(check(media, &mut oracle, false, seed).0 || !holds);
            if ended {
                assert!(held, "it was rearranged in time");
                break;
            }
        }
    }
    assert!(before > 300 && after > 300, "{before}, {after}");
}

#[test]
fn each_flush_and_each_write_of_the_record_is_needed() {
    let wrong = |lie: Lie, at: u64| {
        let mut is_there = false;
        for seed in 0..40 {
            let mut oracle = oracle(seed);
            let media = begun(&mut oracle, seed);
            let troubles = Troubles { lies: Some(lie), lies_at: Some(at), ..Troubles::default() };
            let mut lanes = Crash::new(media, 512, 4, seed, troubles);
            let mut policy = policy();
            let reads: Vec<Asked> = (0..200).map(|step| (Op::Read, NONE, 700 + step, 4)).collect();
            oracle.ask(&reads);
            run(&mut *policy, &mut lanes, &mut oracle, &mut ()).unwrap();
            assert!(holds(&*policy));
            if lanes.chances() <= at {
                continue;
            }
            is_there = true;
            lanes.soothe();
            if lie == Lie::Lost {
                // Data written to new places and flushed is lost if the record is lost.
                oracle.ask(&[(Op::Write, NONE, 644, 9), FLUSH]);
                run(&mut *policy, &mut lanes, &mut oracle, &mut ()).unwrap();
            }
            let media = lanes.cut(Tear::Page);
            oracle.cut();
            let check = || check(media.clone(), &mut oracle.clone(), false, seed);
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(check)).is_err() {
                return Some(true);
            }
        }
        is_there.then_some(false)
    };
    // The first write of the record is needed only if the length of the disk changes, so it is left
    // out here.
    for (lie, first, count) in [(Lie::Flushes, 0, 1), (Lie::Lost, 1, 3)] {
        for at in first..count {
            assert_eq!(wrong(lie, at), Some(true), "{lie:?} {at} changes nothing");
        }
        assert_eq!(wrong(lie, count), None, "{lie:?}: there is one more");
    }
}

/// Returns a disk that has been rearranged.
fn rearranged(seed: u64) -> (Oracle, Vec<Medium>) {
    let mut oracle = oracle(seed);
    let media = begun(&mut oracle, seed);
    let (_, held, media) = life(media, &mut oracle, 1, Troubles::default());
    assert!(held);
    (oracle, media)
}

/// Returns how many of two requests fail on these media, and whether anything was written.
fn refused(media: Vec<Medium>, mut policy: Box<dyn Policy>) -> (u64, bool) {
    let mark = media[0].mark();
    let mut lanes = Crash::new(media, 512, 4, 3, Troubles::default());
    let mut oracle = oracle(3);
    oracle.ask(&[(Op::Open, NONE, 0, 0), (Op::Read, NONE, 1000, 1)]);
    run(&mut *policy, &mut lanes, &mut oracle, &mut ()).unwrap();
    (oracle.failed, lanes.kill()[0].mark() != mark)
}

#[test]
fn a_record_that_is_not_whole_is_refused_and_nothing_is_written() {
    let (_, media) = rearranged(4);
    let with = |at: u64, bytes: &[u8]| {
        let mut media = media.clone();
        media[0].write(RECORD + at, bytes, true);
        media
    };
    for policy in [policy, found] {
        assert_eq!(refused(media.clone(), policy()), (0, false), "it is whole");
        assert_eq!(refused(with(8, b"forebayP"), policy()), (2, false), "something else's");
        assert_eq!(refused(with(24, &[9]), policy()), (2, false), "its number of rows");
        assert_eq!(refused(with(100, &[1]), policy()), (2, false), "bytes after it");
        assert_eq!(refused(with(4096 + 1, &[0x10]), policy()), (2, false), "a row");
        assert_eq!(refused(with(RECORD_BYTES - 1, &[1]), policy()), (0, false), "beyond");
    }
    let blank = || vec![Medium::new(1)];
    assert_eq!(refused(blank(), found()), (2, false), "there is none");
    assert_eq!(refused(blank(), policy()).0, 0, "one is begun");
}

/// Encodes a record of these rows, whose new places begin at `TO`.
fn record(rows: &[(u64, u64)]) -> Vec<u8> {
    let mut record = vec![0; 8192];
    let mut put = |at: usize, word: u64| record[at..at + 8].copy_from_slice(&word.to_le_bytes());
    for (nth, &(from, len)) in rows.iter().enumerate() {
        put(4096 + 16 * nth, from);
        put(4104 + 16 * nth, len);
    }
    let head = [u64::from_le_bytes(*b"forebayR"), 1, rows.len() as u64, TO];
    put(48, RECORD);
    head.into_iter().enumerate().for_each(|(nth, word)| put(8 + 8 * nth, word));
    let sum = checksum(&record[4096..]);
    record[40..48].copy_from_slice(&sum.to_le_bytes());
    let sum = checksum(&record[8..4096]);
    record[..8].copy_from_slice(&sum.to_le_bytes());
    record
}

#[test]
fn a_record_is_as_the_page_says_and_rows_lie_before_their_new_places() {
    let opens = |rows: &[(u64, u64)]| {
        let mut medium = Medium::new(1);
        medium.write(RECORD, &record(rows), true);
        refused(vec![medium], found()).0 == 0
    };
    assert!(opens(&[(8192, 4096), (0, 4096)]));
    assert!(!opens(&[(TO - 2048, 4096)]), "over its new place");
    assert!(!opens(&[(TO + 8192, 4096)]), "behind it");
    assert!(!opens(&[(8192, 4096), (8192, 512)]), "twice");
    assert!(!opens(&[(0, 32 << 10), (64 << 10, 40 << 10)]), "into the record");
    assert!(!opens(&[]), "nothing");
    let (_, media) = rearranged(4);
    let mut bytes = vec![0; 8192];
    media[0].read(RECORD, &mut bytes);
    let rows = [(40 * 8192, 20_480), (8192, 8192), (3 * 8192 + 4096, 4096), (90_112, 12_288)];
    assert_eq!(bytes, record(&rows), "docs/placement-log.md");
    let mut head = vec![0; 4096];
    media[0].read(marker_of(TO), &mut head);
    assert_eq!(head, bytes[..4096]);
}

/// Tests that failures while the record is written are reported, and that nothing durable is lost.
#[test]
fn a_record_that_fails_leaves_the_disk_as_it_is_or_makes_nothing_durable_any_more() {
    let (mut told, mut held) = (0, 0);
    for seed in 0..60 {
        let mut oracle = oracle(seed);
        let media = begun(&mut oracle, seed);
        let troubles = match seed % 3 {
            0 => Troubles { flushes_one_in: 2, ..Troubles::default() },
            1 => Troubles { writes_one_in: 3, ..Troubles::default() },
            _ => Troubles { writes_one_in: 9, flushes_one_in: 4, ..Troubles::default() },
        };
        let (ended, holds, media) = life(media, &mut oracle, seed, troubles);
        assert!(ended);
        (told, held) = (told + u64::from(oracle.failed > 0), held + u64::from(holds));
        check(media, &mut oracle, seed % 3 == 0, seed);
    }
    assert!(told > 20 && (5..55).contains(&held), "{told}, {held}");
}
