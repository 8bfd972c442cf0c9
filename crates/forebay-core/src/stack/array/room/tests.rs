//! Tests that everything promised can be written and rewritten, with all levels, rules, hints,
//! drives and flushes. No write fails.

mod configurations;
mod rig;

use super::super::level::{LEVELS, Level, all};
use super::super::{Array, ledger};
use super::*;
use crate::contract::{Flags, Op};
use configurations::{Config, Grow, drawn, every};
use rig::{Rig, reopened};

/// Fills a volume, grows or reopens it, fills what it then promises, and overwrites everything
/// twice.
fn hold_to(config: &Config) {
    println!("{config:?}");
    let mut rig = Rig::new(config.created(), config.seed);
    let units = rig.units();
    rig.write(config.fill(0..units / 2), config);
    if config.loses_one {
        rig.lose(1);
    }
    rig.write(config.fill(units / 2..units), config);
    rig.assert_all_written(config);
    if config.grow == Grow::Not || !config.loses_one {
        rig = rig.reopen(config);
    }
    let all = rig.units();
    assert!(all >= units && (config.grow == Grow::Not || config.loses_one || all > units));
    rig.write(config.fill(units..all), config);
    rig.assert_all_written(config);
    for pass in 0..2 {
        rig.write(config.overwrites(pass, all), config);
        rig.assert_all_written(config);
    }
}

#[test]
fn every_promised_byte_can_be_written_and_overwritten() {
    let configs = match std::env::var("FOREBAY_LAWS") {
        Ok(_) => every(),
        Err(_) => drawn(60),
    };
    configs.iter().for_each(hold_to);
}

/// Returns a volume without a free cell on any drive, as older versions left it.
fn overfull(lanes: u16) -> Array {
    let config = Config::plain(Level::TRIPLE, lanes);
    let mut array = Array::new(config.geometry(), config.level);
    let fits = |array: &mut Array, level: Level| {
        let number = array.levels.iter().sum::<u64>();
        let mut unit = Unit { level: Some(level), ..Unit::EMPTY };
        let roles = all(level.roles(4));
        array.allot_kept(number, &mut unit, level, roles)?;
        array.table.set(number, &unit);
        array.hold(number, &Unit::EMPTY, &unit);
        Some(())
    };
    while fits(&mut array, Level::TRIPLE).is_some() {}
    while fits(&mut array, Level::RAID6).is_some() {}
    for lane in 0..lanes.into() {
        while let Some(place) = array.drives.take(lane) {
            // The unit has a single chunk.
            let number = array.levels.iter().sum::<u64>();
            let mut unit = Unit { level: Some(LEVELS[0]), ..Unit::EMPTY };
            unit.places[0] = place;
            array.table.set(number, &unit);
            array.hold(number, &Unit::EMPTY, &unit);
        }
    }
    array
}

#[test]
fn a_volume_without_any_free_cell_accepts_writes_again() {
    for lanes in [6, 7, 8] {
        let array = overfull(lanes);
        let config = Config::plain(Level::TRIPLE, lanes);
        let written = array.levels.iter().sum::<u64>();
        let mut rig = Rig::new(reopened(&array, &config, &[]), 1);
        rig.may_shed = true;
        let units = rig.units();
        rig.write(vec![(Op::Write, Flags::NONE, 0, 4096)], &config);
        assert!(rig.array().room.sheds > 0, "there was no other way");
        rig.assert_all_written(&config);
        rig.write(config.overwrites(0, written), &config);
        rig.write(config.fill(written..units), &config);
        rig.write(config.overwrites(1, units), &config);
        rig.assert_all_written(&config);
    }
}

/// Fat units shrink before the last cells are needed: no drive ever runs out of cells.
#[test]
fn fat_units_shrink_before_cells_run_out() {
    let config = Config::plain(Level::TRIPLE, 6);
    let mut rig = Rig::new(config.created(), 1);
    let units = rig.units();
    let mut fat = 0;
    for unit in 0..units {
        rig.write(config.fill(unit..unit + 1), &config);
        let array = rig.array();
        fat = fat.max(array.levels[Level::TRIPLE.place()]);
        let free = array.drives.present().map(|lane| array.drives.free(lane)).min();
        assert!(free > Some(0), "after {unit} units");
    }
    assert!(fat > units / 2, "room that nothing needs yet is used: {fat} of {units}");
    let counted = rig.array().levels[Level::TRIPLE.place()];
    assert!(counted < fat, "{counted} of {fat} are fat still");
    assert_eq!(rig.array().room.blocked, 0, "it is never too late");
    ledger::tests::check(rig.array());
}

/// Without one drive, the roles of all units do not fit, but all units fit without some of their
/// roles.
#[test]
fn the_promised_capacity_can_be_written_while_a_drive_is_missing() {
    for (level, lost_at) in [(Level::RAID6, 0), (Level::RAID6, 2), (Level::TRIPLE, 2)] {
        let config = Config { cells: 1000, ..Config::plain(level, 8) };
        let mut rig = Rig::new(config.created(), 3);
        let units = rig.units();
        assert!(units * 6 > 7 * 1000, "{units} would fit on seven drives");
        let first = units * lost_at / 4;
        rig.write(config.fill(0..first), &config);
        rig.lose(1);
        rig.write(config.fill(first..units), &config);
        rig.write(config.overwrites(1, units), &config);
        rig.assert_all_written(&config);
        let is_readable = |at| rig.array().drives.has_all(&rig.array().unit(at), 4);
        assert!((0..units).all(is_readable));
    }
}
