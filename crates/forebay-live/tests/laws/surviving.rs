//! Tests the laws of contents on placements with a log on their flash: power cuts and kills at any
//! moment, including opening; that omitting any flush or record loses data; and flashes that do not
//! belong to the disk.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, available_parallelism};

use forebay_core::cache::Lru;
use forebay_core::catalog::{DeviceSet, FlashLane, build, build_placed};
use forebay_core::stack::Pairing;
use forebay_core::stack::cached::{Bound, Cached, Writing};
use forebay_core::stack::placed::Placed;
use forebay_core::{Flags, Op, Policy};
use forebay_live::run;
use forebay_rig::{Crash, Lie, Medium, Tear, Troubles};

use crate::laws::oracle::{Mix, Oracle};
use crate::laws::stacks::{Stack, surviving_stacks};
use crate::laws::{longer, random};

type Script = [(Op, Flags, u64, u64)];

const NONE: Flags = Flags::NONE;
const FLUSH: (Op, Flags, u64, u64) = (Op::Flush, NONE, 0, 0);
const SECTORS: u64 = 256;
/// The number of sectors in a block of the cache.
const BLOCK: u64 = 4;
/// The lane of the flash.
const FLASH: u16 = 1;

/// The number of lives of each stack. Each life ends with a power cut or a kill.
const LIVES: u64 = 5;

/// Cuts the power of each stack a few times, or 2000 times in long runs (`make laws`). The stacks
/// are distributed over one thread per CPU.
#[test]
fn acknowledged_placement_survives_a_power_cut_at_any_time() {
    let (seeds, least) = if longer(1) > 1 { (longer(70), 2000) } else { (5, 12) };
    let next = AtomicUsize::new(0);
    let work = || {
        let stacks = surviving_stacks();
        while let Some(stack) = stacks.get(next.fetch_add(1, Ordering::Relaxed)) {
            let lives = |seed| {
                println!("{}, seed {seed}", stack.name);
                lives(stack, seed)
            };
            let cuts: u64 = (0..seeds).map(lives).sum();
            assert!(cuts > least, "{}: {cuts} cuts are too few", stack.name);
            println!("{}: {cuts} cuts", stack.name);
        }
    };
    let threads = available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..threads).for_each(|_| _ = scope.spawn(work)));
}

/// Runs a stack through its lives; returns how many ended with a power cut.
fn lives(stack: &Stack, seed: u64) -> u64 {
    let mut cuts = 0;
    let mut oracle = Oracle::new(crate::laws::mix(stack), 0, seed);
    let (mut media, mut state) = (crate::laws::media(stack, seed), seed);
    for _ in 0..LIVES {
        // In some lives, the power is cut while the log is being opened, or soon afterwards.
        let most = [12, 60, 400, 1500][(random(&mut state) % 4) as usize];
        let troubles = Troubles {
            cut_after: Some(random(&mut state) % most),
            writes_one_in: if seed % 3 == 1 { 30 } else { 0 },
            flushes_one_in: if seed % 3 == 2 { 3 } else { 0 },
            ..Troubles::default()
        };
        let mut lanes = Crash::new(media, stack.block, 4, random(&mut state), troubles);
        oracle.more(2000);
        let told = run(&mut *(stack.build)(), &mut lanes, &mut oracle, &mut ());
        let tear = if seed.is_multiple_of(2) { Tear::Sector } else { Tear::Page };
        let is_killed = random(&mut state).is_multiple_of(4);
        cuts += u64::from(told.is_err() && !is_killed);
        media = if is_killed { lanes.kill() } else { lanes.cut(tear) };
        oracle.cut();
        let mut lanes = Crash::new(media, stack.block, 4, seed, Troubles::default());
        match is_killed {
            true => oracle.settle_killed(),
            false => oracle.settle(),
        }
        crate::laws::drive(stack, &mut *(stack.build)(), &mut lanes, &mut oracle);
        media = if is_killed { lanes.kill() } else { lanes.cut(tear) };
        oracle.cut();
    }
    let mut lanes = Crash::new(media, stack.block, 4, seed, Troubles::default());
    let failed = oracle.failed;
    oracle.settle();
    crate::laws::drive(stack, &mut *(stack.build)(), &mut lanes, &mut oracle);
    assert_eq!(oracle.failed, failed, "{}: all can be read", stack.name);
    cuts
}

fn cache(bound: Bound) -> Box<dyn Policy> {
    let cached = Cached::new(Lru::new(6), (BLOCK * 512) as u32, Writing::Back, 1).surviving(bound);
    let lanes = ["noop", "none"].map(|spec| build(spec, 1 << 20).unwrap());
    Box::new(Placed::over(cached, lanes.into()))
}

const PAIRING: Pairing = Pairing { pair: 9 << 64, newest: 0, is_forced: false };
const BOUND: Bound = Bound { id: 5, pairing: PAIRING, disk_bytes: SECTORS * 512, formats: false };
const FORMATS: Bound = Bound { formats: true, ..BOUND };

fn oracle(seed: u64) -> Oracle {
    oracle_of(SECTORS, seed)
}

fn oracle_of(sectors: u64, seed: u64) -> Oracle {
    let mix = Mix { disks: 1, sectors, unit: 8, trims: true, anything_from: sectors };
    Oracle::new(mix, 0, seed)
}

fn sound(media: Vec<Medium>, seed: u64) -> Crash {
    Crash::new(media, 512, 4, seed, Troubles::default())
}

fn write(block: u64) -> (Op, Flags, u64, u64) {
    (Op::Write, NONE, block * BLOCK, BLOCK)
}

/// Checks that all required data is present.
fn check(media: &[Medium], oracle: &Oracle) {
    check_with(&|| cache(BOUND), media, oracle);
}

fn check_with(build: &Build, media: &[Medium], oracle: &Oracle) {
    let (mut oracle, mut lanes) = (oracle.clone(), sound(media.to_vec(), 9));
    let failed = oracle.failed;
    oracle.settle();
    run(&mut *build(), &mut lanes, &mut oracle, &mut ()).unwrap();
    assert_eq!((oracle.failed, oracle.outstanding()), (failed, 0));
}

/// Runs `script` on new media; returns the media after a power cut.
fn begun(build: &Build, script: &Script, oracle: &mut Oracle) -> Vec<Medium> {
    let mut lanes = sound(vec![Medium::new(1), Medium::new(2)], 5);
    oracle.ask(script);
    run(&mut *build(), &mut lanes, oracle, &mut ()).unwrap();
    let media = lanes.cut(Tear::Sector);
    oracle.cut();
    media
}

/// Writes blocks 4 to 9, for which block 3 must be evicted to the disk; gives it time for that,
/// then flushes.
fn others() -> Vec<(Op, Flags, u64, u64)> {
    let mut script: Vec<_> = (4..10).map(write).collect();
    script.extend((0..12).map(|step| (Op::Read, NONE, 100 + step, 1)));
    script.push(FLUSH);
    script
}

/// After a kill, places are reused as soon as they are free. A power cut follows, so the data found
/// after the kill must be durable.
#[test]
fn the_state_found_after_a_kill_is_durable() {
    let mut kills = 0;
    for (seed, passes) in (0..12).flat_map(|seed| (4..48).map(move |passes| (seed, passes))) {
        let mut oracle = oracle(seed);
        let media = begun(&|| cache(FORMATS), &[write(3), FLUSH], &mut oracle);
        let troubles = Troubles { cut_after: Some(passes), ..Troubles::default() };
        let mut lanes = Crash::new(media, 512, 4, seed, troubles);
        oracle.ask(&others());
        kills += u32::from(run(&mut *cache(BOUND), &mut lanes, &mut oracle, &mut ()).is_err());
        let media = lanes.kill();
        oracle.cut();
        let (mut lanes, mut policy) = (sound(media, seed ^ passes), cache(BOUND));
        // Issues as many writes as are possible without a round of the log.
        oracle.ask(&[write(20), write(21)]);
        run(&mut *policy, &mut lanes, &mut oracle, &mut ()).unwrap();
        let media = lanes.cut(Tear::Sector);
        oracle.cut();
        check(&media, &oracle);
    }
    assert!(kills > 300, "{kills} kills");
}

/// Cuts a script at every I/O boundary, including those of the opening before it; returns the
/// number of cuts.
fn cut_everywhere(build: &Build, before: &Script, script: &Script, seed: u64) -> u64 {
    let mut first = oracle_of(4096, 6);
    let media = begun(build, before, &mut first);
    for passes in 0.. {
        let troubles = Troubles { cut_after: Some(passes), ..Troubles::default() };
        let mut lanes = Crash::new(media.clone(), 512, 4, seed, troubles);
        let mut oracle = first.clone();
        oracle.ask(script);
        let is_cut = run(&mut *build(), &mut lanes, &mut oracle, &mut ()).is_err();
        let after = lanes.cut(if passes % 2 == 0 { Tear::Sector } else { Tear::Page });
        oracle.cut();
        check_with(build, &after, &oracle);
        if !is_cut {
            return passes;
        }
    }
    0
}

/// Returns a cache of single sectors, whose table has two pages.
fn sectors() -> Box<dyn Policy> {
    let bound = Bound { disk_bytes: 0, ..FORMATS };
    let cached = Cached::new(Lru::new(900), 512, Writing::Back, 1).surviving(bound);
    let lanes = ["noop", "none"].map(|spec| build(spec, 1 << 20).unwrap());
    Box::new(Placed::over(cached, lanes.into()))
}

#[test]
fn a_table_needs_a_record_of_each_of_its_pages() {
    let mut oracle = oracle_of(4096, 6);
    let media = begun(&sectors, &[(Op::Write, NONE, 0, 400), FLUSH], &mut oracle);
    // The record of the initialization is not needed; the two records of 400 places are.
    for (record, is_needed) in [(1, false), (2, true)] {
        let mut media = media.clone();
        media[1].write(8192 + 8192 * record + 6000, &[1], true);
        let is_wrong = catch_unwind(AssertUnwindSafe(|| check_with(&sectors, &media, &oracle)));
        assert_eq!(is_wrong.is_err(), is_needed, "record {record}");
    }
    check_with(&sectors, &media, &oracle);
}

/// Tests that blocks can move to other places in more changes than one record holds: between the
/// records, no block may have two places.
#[test]
fn a_round_of_several_records_is_cut_at_every_boundary() {
    let (from, count) = (100, 400);
    let all = |op| (op, NONE, from, count);
    let script = [all(Op::Trim), (Op::Write, NONE, from, 1), all(Op::Write), FLUSH];
    let cuts: u64 =
        (0..8).map(|seed| cut_everywhere(&sectors, &[all(Op::Write), FLUSH], &script, seed)).sum();
    assert!(cuts > 100, "{cuts} cuts are too few");
}

type Build = dyn Fn() -> Box<dyn Policy>;

/// Runs `before` without faults, then `script` while omitting one operation, and cuts the power.
/// Returns whether a check failed for any seed, or None if there is nothing more to omit.
fn is_missed(build: &Build, before: &Script, script: &Script, lie: Lie, at: u64) -> Option<bool> {
    let mut is_there = false;
    for seed in 0..60 {
        let mut oracle = oracle(seed);
        let mut lanes = sound(vec![Medium::new(seed), Medium::new(!seed)], seed);
        let mut policy = build();
        oracle.ask(before);
        run(&mut *policy, &mut lanes, &mut oracle, &mut ()).unwrap();
        lanes.trouble(Troubles { lies: Some(lie), lies_at: Some(at), ..Troubles::default() });
        oracle.ask(script);
        run(&mut *policy, &mut lanes, &mut oracle, &mut ()).unwrap();
        if lanes.chances() <= at {
            continue;
        }
        is_there = true;
        let media = lanes.cut(Tear::Page);
        oracle.cut();
        if catch_unwind(AssertUnwindSafe(|| check_with(build, &media, &oracle))).is_err() {
            return Some(true);
        }
    }
    is_there.then_some(false)
}

/// Omits each operation in turn; returns how many there are, all of which must be needed.
fn needed(build: &Build, before: &Script, script: &Script, lie: Lie) -> u64 {
    let mut count = 0;
    while let Some(is_missed) = is_missed(build, before, script, lie, count) {
        assert!(is_missed, "{lie:?} {count} changes nothing");
        count += 1;
    }
    count
}

const LIES: [Lie; 3] = [Lie::Flushes, Lie::Lost, Lie::Durable];

#[test]
fn each_flush_and_each_record_of_a_tier_is_needed() {
    let flash = Some(FlashLane { len_max: 1 << 20, capacity_bytes: 1 << 20 });
    let lanes = DeviceSet {
        disks: 1,
        disk_len_max: 1 << 20,
        disk_bytes: 0,
        flash,
        restarts: true,
        costs: [None; 2],
    };
    for spec in ["tier-bcache:format=yes", "tier-bcache:format=yes:disk=cfq:migrate=yes"] {
        let build = move || -> Box<dyn Policy> { build_placed(spec, &lanes).unwrap() };
        let new: &Script = &[(Op::Write, NONE, 13, 5), FLUSH];
        let counts = LIES.map(|lie| needed(&build, &[FLUSH], new, lie));
        assert_eq!(counts, [1, 1, 1]);
        // Overwrites some of the same sectors.
        let again: &Script = &[(Op::Write, NONE, 14, 1), FLUSH];
        assert_eq!(LIES.map(|lie| needed(&build, new, again, lie)), [1, 0, 0]);
        let more: &Script = &[(Op::Write, NONE, 19, 1), FLUSH];
        assert_eq!(LIES.map(|lie| needed(&build, new, more, lie)), [1, 1, 1]);
        let durable: &Script = &[(Op::Write, Flags::FUA, 13, 5)];
        assert_eq!(needed(&build, &[FLUSH], durable, Lie::Lost), 2);
    }
}

/// Tests a disk whose flushes fail while no client waits for one.
#[test]
fn a_failed_internal_flush_is_reported_to_the_next_flush() {
    let (mut oracle, mut policy) = (oracle(8), cache(FORMATS));
    let mut lanes = sound(vec![Medium::new(1), Medium::new(2)], 8);
    let mut before: Vec<_> = (0..6).map(write).collect();
    before.push(FLUSH);
    oracle.ask(&before);
    run(&mut *policy, &mut lanes, &mut oracle, &mut ()).unwrap();
    let failing = Troubles { lane: Some(0), flushes_one_in: 1, ..Troubles::default() };
    lanes.trouble(failing);
    // All six blocks must be evicted, because their places are needed.
    let others: Vec<_> = (10..40).map(write).collect();
    oracle.ask(&others);
    run(&mut *policy, &mut lanes, &mut oracle, &mut ()).unwrap();
    assert_eq!(oracle.failed, 0, "nobody asked");
    lanes.soothe();
    oracle.ask(&[FLUSH, FLUSH]);
    run(&mut *policy, &mut lanes, &mut oracle, &mut ()).unwrap();
    assert_eq!(oracle.failed, 1, "the first is told");
    let media = lanes.cut(Tear::Page);
    oracle.cut();
    check(&media, &oracle);
}

#[test]
fn each_flush_and_each_record_is_needed() {
    let build = || cache(FORMATS);
    // For new data, the flash is flushed, and then a record lists its place.
    let new: &Script = &[write(3), FLUSH];
    let counts = LIES.map(|lie| needed(&build, &[FLUSH], new, lie));
    assert_eq!(counts, [1, 1, 1]);
    // The same place is written again; a record lists it already.
    let again: &Script = &[(Op::Write, NONE, 3 * BLOCK + 1, 1), FLUSH];
    let before: &Script = &[write(3), FLUSH];
    let counts = LIES.map(|lie| needed(&build, before, again, lie));
    assert_eq!(counts, [1, 0, 0]);
    // A write with FUA writes its data, followed by a record.
    let durable: &Script = &[(Op::Write, Flags::FUA, 3 * BLOCK, BLOCK)];
    assert_eq!(needed(&build, &[FLUSH], durable, Lie::Lost), 2);
    // Block 3 is evicted to the disk while other blocks arrive: disk and flash are flushed before
    // the record.
    let leaving = others();
    let counts = LIES.map(|lie| needed(&build, before, &leaving, lie));
    assert_eq!(counts, [2, 1, 1]);
    // If nothing else is written, the flush applies only to the disk, which has received the block.
    let mut past: Vec<_> = vec![(Op::Write, NONE, 100, 1), FLUSH];
    assert_eq!(needed(&build, before, &past, Lie::Flushes), 1);
    past.insert(0, (Op::Trim, NONE, 3 * BLOCK, BLOCK));
    past.insert(1, (Op::Write, NONE, 3 * BLOCK, 1));
    assert_eq!(needed(&build, before, &past, Lie::Lost), 1);
}

/// Opens a cache; returns the number of failed requests, and whether anything was written.
fn opens(media: Vec<Medium>, bound: Bound, troubles: Troubles) -> (u64, bool) {
    let marks: Vec<u64> = media.iter().map(Medium::mark).collect();
    let mut lanes = Crash::new(media, 512, 4, 3, troubles);
    let mut oracle = oracle(3);
    oracle.ask(&[(Op::Open, NONE, 0, 0), (Op::Read, NONE, 100, 1)]);
    run(&mut *cache(bound), &mut lanes, &mut oracle, &mut ()).unwrap();
    let media = lanes.kill();
    (oracle.failed, media.iter().zip(marks).any(|(medium, mark)| medium.mark() != mark))
}

/// Returns a disk and a flash whose log has some records; two blocks are dirty.
fn used() -> Vec<Medium> {
    let mut oracle = oracle(4);
    let mut lanes = sound(vec![Medium::new(1), Medium::new(2)], 4);
    oracle.ask(&[write(3), FLUSH, write(4), FLUSH, write(3), FLUSH]);
    run(&mut *cache(FORMATS), &mut lanes, &mut oracle, &mut ()).unwrap();
    lanes.cut(Tear::Page)
}

#[test]
fn a_foreign_flash_is_refused_and_not_written() {
    let none = Troubles::default;
    assert_eq!(opens(used(), BOUND, none()), (0, false), "it is the one");
    assert_eq!(opens(used(), Bound { disk_bytes: 0, ..BOUND }, none()), (0, false), "or may be");
    // Both requests are refused in each of these cases.
    let refused = (2, false);
    let blank = || vec![Medium::new(1), Medium::new(2)];
    assert_eq!(opens(blank(), BOUND, none()), refused, "blank");
    assert_eq!(opens(blank(), FORMATS, none()), (0, true), "begun where that is wanted");
    for bound in [BOUND, FORMATS] {
        let other = Bound { id: 6, ..bound };
        assert_eq!(opens(used(), other, none()), refused, "another flash");
        let other = Bound { disk_bytes: 2 * SECTORS * 512, ..bound };
        assert_eq!(opens(used(), other, none()), refused, "another disk");
        let gone = Troubles { gone: vec![(FLASH, 0)], ..none() };
        assert_eq!(opens(used(), bound, gone), refused, "no flash");
        let bad = |at| Troubles { bad: vec![(FLASH, at)], ..none() };
        // Records 2 and 3 were written last, and the next slot could contain a newer one.
        let record = |number: u64| 8192 + number * 8192;
        assert_eq!(opens(used(), bound, bad(0)), refused, "no label to be read");
        assert_eq!(opens(used(), bound, bad(record(3) + 512)), refused, "nor the last record");
        assert_eq!(opens(used(), bound, bad(record(5))), (0, false), "one that does not matter");
        let with = |at: u64, bytes: &[u8]| {
            let mut media = used();
            media[1].write(at, bytes, true);
            media
        };
        assert_eq!(opens(with(0, &[1; 8]), bound, none()), (0, false), "the second label is whole");
        let mut media = with(0, &[1; 8]);
        media[1].write(4096, &[1; 8], true);
        assert_eq!(opens(media, bound, none()), refused, "both labels are damaged");
        let wiped = with(0, &[0; 8192]);
        assert_eq!(opens(wiped, bound, none()), refused, "records without a label");
        let mut media = blank();
        media[1].write(512, &[7], true);
        assert_eq!(opens(media, bound, none()), refused, "data of somebody else's");
    }
    let mut media = used();
    media[1].write(8192, &[0; 18 * 8192], true);
    assert_eq!(opens(media, BOUND, none()), refused, "a label without records");
}

/// Returns media whose newest record on the flash, number 3, is changed by `change`.
fn damaged(at: u64, change: impl Fn(u8) -> u8) -> Vec<Medium> {
    let mut media = used();
    let at = 8192 + 3 * 8192 + at;
    let mut byte = [0];
    media[1].read(at, &mut byte);
    media[1].write(at, &[change(byte[0])], true);
    media
}

#[test]
fn a_newest_record_that_is_damaged_is_an_error_and_no_older_state() {
    let forced = Bound { pairing: Pairing { is_forced: true, ..PAIRING }, ..BOUND };
    for at in (0..8192).step_by(97).chain([0, 8, 16, 24, 511, 512, 8191]) {
        let media = || damaged(at, |byte| byte ^ 1);
        for bound in [BOUND, FORMATS] {
            assert_eq!(opens(media(), bound, Troubles::default()), (2, false), "byte {at}");
        }
        assert_eq!(opens(media(), forced, Troubles::default()), (0, false), "byte {at}");
    }
    // The slot of the next record contains bytes in its middle, which no power cut leaves.
    let mut media = used();
    media[1].write(8192 + 4 * 8192 + 700, &[1], true);
    assert_eq!(opens(media, BOUND, Troubles::default()), (2, false));
}

#[test]
fn a_flash_older_than_its_disk_says_is_refused() {
    let least = |newest| Bound { pairing: Pairing { newest, ..PAIRING }, ..BOUND };
    assert_eq!(opens(used(), least(3), Troubles::default()), (0, false));
    assert_eq!(opens(used(), least(4), Troubles::default()), (2, false));
    let other = Bound { pairing: Pairing { pair: 8 << 64, ..PAIRING }, ..FORMATS };
    assert_eq!(opens(used(), other, Troubles::default()), (2, false), "another pair");
    let mut media = used();
    media[1].write(0, &[0; 8192], true);
    assert_eq!(opens(media, other, Troubles::default()), (2, false), "its records without a label");
}

#[test]
fn old_data_in_the_record_area_are_wiped() {
    let mut media = vec![Medium::new(1), Medium::new(2)];
    [1, 2, 3, 7].iter().for_each(|slot| media[1].write(8192 + slot * 8192 + 600, &[9; 900], true));
    assert_eq!(opens(media.clone(), BOUND, Troubles::default()), (2, false));
    let mut oracle = oracle(4);
    let mut lanes = sound(media, 4);
    oracle.ask(&[write(3), FLUSH]);
    run(&mut *cache(FORMATS), &mut lanes, &mut oracle, &mut ()).unwrap();
    let media = lanes.cut(Tear::Page);
    oracle.cut();
    check(&media, &oracle);
    for slot in [3, 7] {
        let mut bytes = [1; 8192];
        media[1].read(8192 + slot * 8192, &mut bytes);
        assert!(bytes.iter().all(|byte| *byte == 0), "record {slot}");
    }
}

#[test]
fn a_format_may_be_cut_anywhere() {
    let mut cuts = 0;
    for (passes, seed) in (0..40).flat_map(|passes| (0..20).map(move |seed| (passes, seed))) {
        let troubles = Troubles { cut_after: Some(passes), ..Troubles::default() };
        let mut lanes = Crash::new(vec![Medium::new(1), Medium::new(2)], 512, 4, seed, troubles);
        let mut oracle = oracle(passes);
        oracle.ask(&[FLUSH]);
        cuts += u64::from(run(&mut *cache(FORMATS), &mut lanes, &mut oracle, &mut ()).is_err());
        let mut media = match seed % 2 {
            0 => lanes.cut(Tear::Sector),
            _ => lanes.kill(),
        };
        if seed % 2 == 1 {
            // The cache continues, and the power is cut: data found after the kill need not be
            // durable.
            let mut lanes = sound(media, seed);
            oracle.cut();
            oracle.ask(&[write(3)]);
            run(&mut *cache(FORMATS), &mut lanes, &mut oracle, &mut ()).unwrap();
            media = lanes.cut(Tear::Sector);
        }
        assert_eq!(opens(media, FORMATS, Troubles::default()).0, 0, "after {passes}, seed {seed}");
    }
    assert!((100..800).contains(&cuts), "{cuts} cuts");
}
