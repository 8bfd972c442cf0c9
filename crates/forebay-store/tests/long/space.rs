//! Tests the use of space and the amount written while values are replaced.

use forebay_core::Nanos;
use forebay_store::{Answer, Config, Key, Operation, OperationError, Value};

use crate::long::Disks;
use crate::long::keys::{Load, Model, Told};

const MIB: u64 = 1 << 20;

fn config() -> Config {
    Config {
        log_bytes: 100_000,
        tunes: false,
        group_bytes: 64 << 10,
        fan_in: 4,
        runs_max: 24,
        segment_bytes: 1 << 20,
        merge_bytes: 2 << 20,
        step_bytes: 256 << 10,
        ..Config::default()
    }
}

/// Returns a load of puts only, eight at a time.
fn load(keys: u32, skew: u64, operations: u64) -> Load {
    Load {
        keys,
        value_bytes: 10_000,
        deletes_one_in: 0,
        writes: 100,
        skew,
        is_bursty: false,
        room: 8,
        end: Nanos::MAX,
        operations,
    }
}

#[test]
fn replacing_values_takes_a_few_times_the_live_data_and_the_logs_of_all_runs() {
    for skew in [0, 90] {
        let (disks, load) = (Disks::new(64 * MIB, config()), load(4000, skew, 40_000));
        let mut model = Model::new(&load, 1);
        let life = disks.live(load, &mut model, true, Nanos::ZERO);
        let (live, peak) = (model.live_bytes(&load), life.figures.segment_bytes_max);
        let logs = config().runs_max as u64 * config().log_bytes;
        let most = 3 * live + logs;
        let written = disks.written() as f64 / life.told.put_bytes as f64;
        println!(
            "skew {skew}: {live} live, {peak} at most, {:.2} times; {written:.2} written a byte put",
            peak as f64 / live as f64
        );
        assert!(peak <= most, "{peak} bytes at most for {live}, expected {most}");
        assert_eq!(life.told.refused, 0);
        assert!(written < 8.0, "{written} bytes written for one put");
    }
}

#[test]
#[ignore = "slow: make test-full"]
fn an_almost_full_store_keeps_working_with_bounded_write_amplification() {
    // The share of the space that one value of every key needs. With 0.9 and no skew, the keys do
    // not all fit.
    for (share, skew) in [(0.7, 0), (0.9, 90), (0.9, 0)] {
        let disks = Disks::new(24 * MIB, config());
        let keys = (disks.room() as f64 * share / 5_050.0) as u32;
        let load = load(keys, skew, u64::from(keys) * 5);
        let mut model = Model::new(&load, 2);
        let life = disks.live(load, &mut model, true, Nanos::ZERO);
        let live = model.live_bytes(&load) as f64 / disks.room() as f64;
        let written = disks.written() as f64 / life.told.put_bytes as f64;
        let Told { writes, refused, .. } = life.told;
        println!(
            "{share} of the space, skew {skew}: {live:.2} live, {writes} put, {refused} refused, \
             {written:.1} written a byte put"
        );
        assert!(written < 20.0, "{written} bytes written for one put");
        let is_full = (share, skew) == (0.9, 0);
        assert!(is_full || refused < writes / 8, "{refused} of {writes} refused");
        assert!(!is_full || live > 0.7, "it is full with {live} of its space live");
        // Reads return the correct values, also after a restart.
        let looks = Load { writes: 0, operations: 2000, ..load };
        let read = disks.live(looks, &mut model, true, life.at).told.read;
        assert!(read > 1500);
    }
}

#[test]
fn full_disks_leave_writes_to_others() {
    let mut disks = Disks::new(64 * MIB, config());
    for layout in &mut disks.layouts[..2] {
        layout.capacity_bytes = layout.segments_at() + MIB;
    }
    let load = load(1500, 0, 3000);
    let mut model = Model::new(&load, 3);
    let life = disks.live(load, &mut model, true, Nanos::ZERO);
    let logging = life.figures.logging + life.figures.merge_delay;
    println!("{} refused, {} stalls, {logging:?}", life.told.refused, life.figures.stalls);
    assert_eq!(life.told.refused, 0);
    assert!(life.figures.stalls < 20, "{} stalls", life.figures.stalls);
    let looks = Load { writes: 0, operations: 2000, ..load };
    assert!(disks.live(looks, &mut model, true, life.at).told.read > 1500);
}

#[test]
fn a_store_full_of_different_keys_can_be_emptied() {
    let disks = Disks::new(24 * MIB, config());
    let name = |at: usize| -> Key { format!("{at:06}").into_bytes().into() };
    let put = |at: usize| Operation::Write(vec![(name(at), Some(vec![at as u8; 10_000].into()))]);
    let delete = |at: usize| Operation::Write(vec![(name(at), None)]);
    let room = disks.room() as usize / 10_000;
    let filling = disks.ask(1, (0..room).map(put));
    let taken = filling.iter().position(Result::is_err).unwrap();
    assert_eq!(filling[taken], Err(OperationError::Full));
    let refused = filling.iter().filter(|answer| answer.is_err()).count();
    println!("{taken} of {room} taken, then {refused} refused");
    assert!(taken * 10 > room * 7, "{taken} of {room} taken");
    // The store is restarted before each of the two rounds, and within them.
    for from in 0..2 {
        let some: Vec<usize> = (0..room).filter(|at| at % 2 == from).collect();
        let emptied = disks.ask(1, some.iter().map(|at| delete(*at)));
        assert!(emptied.iter().all(Result::is_ok), "{:?}", emptied.iter().find(|a| a.is_err()));
        let again = disks.ask(1, some[..some.len() / 2].iter().map(|at| put(*at)));
        assert!(again.iter().all(Result::is_ok), "{:?}", again.iter().find(|a| a.is_err()));
    }
}

/// Fills a store with the default configuration, empties it, and fills half of it again, with a
/// kill between each step. Most of the space must be usable, and nothing may be refused after the
/// first step.
fn is_not_full_for_good(capacity_mib: u64, value_bytes: usize) {
    let disks = Disks::new(capacity_mib * MIB, Config::default());
    let name = |at: usize| -> Key { format!("{at:06}").into_bytes().into() };
    let value: Value = vec![7; value_bytes].into();
    let put = |at: usize| Operation::Write(vec![(name(at), Some(value.clone()))]);
    let room = disks.room() as usize / value_bytes;
    let filling = disks.ask(1, (0..room).map(put));
    let taken = filling.iter().filter(|answer| answer.is_ok()).count();
    let deleted = disks.ask(1, (0..room).map(|at| Operation::Write(vec![(name(at), None)])));
    assert!(deleted.iter().all(Result::is_ok));
    let again = disks.ask(1, (0..taken / 2).map(put));
    let (share, refused) =
        (taken as f64 / room as f64, again.iter().filter(|answer| answer.is_err()).count());
    println!("{capacity_mib} MiB, {value_bytes} bytes: {share:.2} taken, {refused} refused");
    assert!(share > 0.7 && refused == 0, "{capacity_mib}, {value_bytes}: {share}, {refused}");
}

// There are two tests, so that they run in parallel.
#[test]
#[ignore = "slow: make test-full"]
fn values_of_any_size_leave_no_store_full_for_good() {
    let of_100_mib = [10_000, 1_000_000, 7_000_000, 16_000_000];
    of_100_mib.into_iter().for_each(|value_bytes| is_not_full_for_good(100, value_bytes));
    is_not_full_for_good(200, 1_000_000);
}

#[test]
#[ignore = "slow: make test-full"]
fn values_of_a_tenth_of_the_room_leave_no_store_full_for_good() {
    is_not_full_for_good(200, 20_000_000);
    is_not_full_for_good(300, 33_000_000);
}

/// Fills a store, empties it in another order, and fills half of it again, with a kill between each
/// step. Returns the share of the space that was usable, and how many deletions and puts were
/// refused after the first step.
fn emptied_of(disks: &Disks, value: usize, name: impl Fn(usize) -> Key) -> (f64, usize, usize) {
    let put = |at: usize| Operation::Write(vec![(name(at), Some(vec![at as u8; value].into()))]);
    let room = disks.room() as usize / (name(0).len() + value);
    let refused = |answers: Vec<Result<Answer, OperationError>>| {
        answers.iter().filter(|a| a.is_err()).count()
    };
    let taken = room - refused(disks.ask(16, (0..room).map(put)));
    // Multiplying by a prime visits every key once.
    let delete = |at: usize| Operation::Write(vec![(name(at * 7919 % room), None)]);
    let deletions = refused(disks.ask(16, (0..room).map(delete)));
    let left = disks.ask(16, (0..room).step_by(7).map(|at| Operation::Get(name(at))));
    assert!(deletions > 0 || left.iter().all(|found| *found == Ok(Answer::Value(None))));
    let again = disks.ask(16, (0..taken / 2).map(put));
    let found = disks.ask(16, (0..taken / 2).map(|at| Operation::Get(name(at))));
    for (at, (put, found)) in again.iter().zip(found).enumerate() {
        let value = Some(Value::from(vec![at as u8; value]));
        assert!(put.is_err() || found == Ok(Answer::Value(value)), "{at} is wrong");
    }
    (taken as f64 / room as f64, deletions, refused(again))
}

#[test]
fn a_store_full_of_long_keys_and_short_values_can_be_emptied() {
    // All sizes are a tenth of the defaults for disks of 100 MB.
    let config = || Config {
        log_bytes: 500_000,
        log_bytes_max: 5_000_000,
        group_bytes: 100 << 10,
        step_bytes: 100 << 10,
        ..Config::default()
    };
    for (key, value) in [(400, 400), (400, 0)] {
        let disks = Disks::new(10 * MIB, config());
        let name = |at: usize| -> Key { format!("{at:0key$}").into_bytes().into() };
        let (share, deletions, puts) = emptied_of(&disks, value, name);
        println!("{key}, {value}: {share:.2} taken; {deletions} and {puts} refused");
        assert!(share > 0.6 && deletions == 0 && puts == 0, "{share}, {deletions}, {puts}");
    }
}

#[test]
fn puts_do_not_overtake_deletions() {
    let disks = Disks::new(100 * MIB, Config::default());
    let name = |at: usize| -> Key { format!("{at:06}").into_bytes().into() };
    let put = |at: usize| Operation::Write(vec![(name(at), Some(vec![at as u8; 10_000].into()))]);
    let delete = |at: usize| Operation::Write(vec![(name(at), None)]);
    let room = disks.room() as usize / 10_000;
    // Every second operation deletes a missing key.
    let mixed = (0..2 * room).map(|at| if at % 2 == 0 { put(at / 2) } else { delete(room + at) });
    let filled = disks.ask(16, mixed);
    let taken = filled.iter().step_by(2).filter(|answer| answer.is_ok()).count();
    let refused =
        |answers: &[Result<Answer, OperationError>]| answers.iter().filter(|a| a.is_err()).count();
    let deletions: Vec<_> = filled.into_iter().skip(1).step_by(2).collect();
    let emptied = disks.ask(16, (0..room).map(delete));
    let again = disks.ask(16, (0..taken / 2).map(put));
    let refused = [refused(&deletions), refused(&emptied), refused(&again)];
    println!("{taken} of {room} taken; refused {refused:?}");
    assert!(taken * 10 > room * 7 && refused == [0, 0, 0], "{taken} of {room}, {refused:?}");
}

#[test]
fn a_value_that_no_slot_has_room_for_goes_to_disks_that_have_some() {
    let mut disks = Disks::new(200 * MIB, Config::default());
    for layout in &mut disks.layouts[..2] {
        layout.capacity_bytes = layout.segments_at() + MIB;
    }
    let value: Value = vec![7; 20_000_000].into();
    let name = |at: usize| -> Key { format!("{at:06}").into_bytes().into() };
    let put = |at: usize| Operation::Write(vec![(name(at), Some(value.clone()))]);
    let answers = disks.ask(2, (0..9).map(put));
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    let found = disks.ask(1, (0..9).map(|at| Operation::Get(name(at))));
    assert!(found.iter().all(|found| *found == Ok(Answer::Value(Some(value.clone())))));
}

#[test]
fn long_keys_take_little_more_than_their_bytes() {
    // The position of the bytes in which keys differ: early, in the middle, or late.
    for place in [0, 30_000, 59_990] {
        let disks = Disks::new(24 * MIB, config());
        let name = |at: usize| -> Key {
            let mut key = vec![7; 60_000];
            key[place..][..8].copy_from_slice(format!("{at:08}").as_bytes());
            key.into()
        };
        let (share, deletions, puts) = emptied_of(&disks, 1, name);
        println!("differing at {place}: {share:.2} taken; {deletions} and {puts} refused");
        // If keys differ late, the nodes above the leaves contain the long keys once or twice more.
        let least = if place == 0 { 0.8 } else { 0.2 };
        assert!(share > least, "{place}: {share}");
        // Roots store the common prefixes of such keys, so the roots fill up.
        assert!(place > 0 || deletions == 0 && puts == 0, "{place}: {deletions}, {puts}");
    }
}

/// Values of all lengths are put, replaced and deleted in a store that is full most of the time.
#[test]
fn a_full_store_of_values_of_all_lengths_is_right() {
    let mut refused = 0;
    // With values as long as a sixth of a disk, the free space may be in pieces too short for any
    // merge.
    let mut stuck = std::collections::BTreeSet::new();
    for seed in 0..16 {
        let mut draw = 0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(seed + 1);
        let mut below = |count: u64| {
            draw ^= draw << 13;
            draw ^= draw >> 7;
            draw ^= draw << 17;
            draw % count
        };
        let disks = Disks::new(12 * MIB, config());
        let name = |at: u64| -> Key { format!("{at:04}").into_bytes().into() };
        let mut model = std::collections::BTreeMap::new();
        for life in 0..6 {
            let mut asked = Vec::new();
            for number in 0..150 {
                // Lengths from 500 bytes to 2 MB, with equal shares for each octave.
                let len = (500 << below(12)) + below(500);
                let is_put = below(6) > life % 3;
                let value = is_put.then(|| Value::from(vec![number as u8; len as usize]));
                asked.push((below(200), value));
            }
            let write = |(at, value): &(u64, Option<Value>)| {
                Operation::Write(vec![(name(*at), value.clone())])
            };
            let answers = disks.ask(1, asked.iter().map(write));
            for ((at, value), answer) in asked.into_iter().zip(answers) {
                match answer {
                    Ok(_) => drop(model.insert(at, value)),
                    Err(trouble) => {
                        assert!(trouble == OperationError::Full, "{seed}: {trouble}");
                        if value.is_none() {
                            stuck.insert(seed);
                        }
                        refused += 1;
                    }
                }
            }
            let found = disks.ask(1, (0..200).map(|at| Operation::Get(name(at))));
            for (at, found) in found.into_iter().enumerate() {
                let expected = model.get(&(at as u64)).cloned().flatten();
                let found = match found {
                    Ok(Answer::Value(value)) => value,
                    other => panic!("{seed}: {other:?}"),
                };
                assert!(found == expected, "{seed}, life {life}: {at} is wrong");
            }
        }
    }
    println!("{refused} refused; deletions too with seeds {stuck:?}");
    assert!(stuck.len() <= 1, "deletions were refused with seeds {stuck:?}");
    assert!(refused > 100, "{refused}: it was never full");
}

#[test]
fn a_store_full_of_values_of_all_lengths_can_be_emptied() {
    // Lengths up to a fiftieth of a disk, with equal shares for each octave.
    let disks = Disks::new(50 * MIB, config());
    let mut draw = 0x9E37_79B9_7F4A_7C15_u64;
    let mut below = |count: u64| {
        draw ^= draw << 13;
        draw ^= draw >> 7;
        draw ^= draw << 17;
        draw % count
    };
    let name = |at: usize| -> Key { format!("{at:05}").into_bytes().into() };
    let put = |at: usize, len: u64| {
        Operation::Write(vec![(name(at), Some(vec![at as u8; len as usize].into()))])
    };
    let (mut asked, mut bytes) = (Vec::new(), 0);
    while bytes < disks.room() * 11 / 10 {
        let len = (500 << below(11)) + below(500);
        bytes += len;
        asked.push(put(asked.len(), len));
    }
    let all = asked.len();
    let refused = |answers: Vec<Result<Answer, OperationError>>| {
        answers.iter().filter(|a| a.is_err()).count()
    };
    let full = refused(disks.ask(1, asked.into_iter()));
    let deleted =
        refused(disks.ask(1, (0..all).map(|at| Operation::Write(vec![(name(at), None)]))));
    let places = disks.room() as usize / 300_000;
    let again = places - refused(disks.ask(1, (0..places).map(|at| put(at, 300_000))));
    println!("{full} of {all} and {deleted} deletions refused, then {again} of {places} taken");
    assert!(full > 0 && deleted == 0 && again * 10 > places * 8, "{deleted}, {again} of {places}");
}
