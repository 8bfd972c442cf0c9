//! How much room a store takes and how much it writes while values are replaced.

use forebay_core::Nanos;
use forebay_store::Config;

use crate::Disks;
use crate::keys::{Load, Model, Told};

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

/// Puts alone, eight at a time.
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
        let (live, peak) = (model.live_bytes(&load), life.figures.held_bytes_max);
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
fn a_store_that_is_almost_full_goes_on_and_does_not_write_itself_to_death() {
    // All keys once have this share of the room: all of them fit, or not.
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
            "{share} of the room, skew {skew}: {live:.2} live, {writes} put, {refused} refused, \
             {written:.1} written a byte put"
        );
        assert!(written < 20.0, "{written} bytes written for one put");
        let is_full = (share, skew) == (0.9, 0);
        assert!(is_full || refused < writes / 8, "{refused} of {writes} refused");
        assert!(!is_full || live > 0.7, "it is full with {live} of its room live");
        // What is there is right, after a restart too.
        let looks = Load { writes: 0, operations: 2000, ..load };
        let read = disks.live(looks, &mut model, true, life.at).told.read;
        assert!(read > 1500);
    }
}

#[test]
fn disks_that_are_full_leave_it_to_those_that_have_room() {
    let mut disks = Disks::new(64 * MIB, config());
    for layout in &mut disks.layouts[..2] {
        layout.capacity_bytes = layout.segments_at() + MIB;
    }
    let load = load(1500, 0, 3000);
    let mut model = Model::new(&load, 3);
    let life = disks.live(load, &mut model, true, Nanos::ZERO);
    let logging = life.figures.logging + life.figures.held_back;
    println!("{} refused, {} stalls, {logging:?}", life.told.refused, life.figures.stalls);
    assert_eq!(life.told.refused, 0);
    assert!(life.figures.stalls < 20, "{} stalls", life.figures.stalls);
    let looks = Load { writes: 0, operations: 2000, ..load };
    assert!(disks.live(looks, &mut model, true, life.at).told.read > 1500);
}
