//! Tests opening on drives with real records: whatever lives, losses and damage the drives have
//! behind them, reading a part of the records finds the same state as reading all of them.

mod rig;

use forebay_testing::{below, longer};

use super::super::geometry::{Geometry, RECORD, ring_at};
use super::super::level::Level;
use super::super::unit::Unit;
use super::super::{Array, Phase};
use super::Step;
use crate::contract::request::{Flags, Op};
use rig::{Drives, Life, Rig};

const LANES: usize = 6;

fn geometry(units: u64, chunk_bytes: u32) -> Geometry {
    let sizes = Geometry { units, chunk_bytes, ..Geometry::sample(LANES as u16) };
    Geometry::new(sizes, Level::RAID6, 200).unwrap()
}

/// What an opening has taken over.
#[derive(Debug, PartialEq, Eq)]
struct State {
    log: [u64; 5],
    members: Vec<u8>,
    present: Vec<usize>,
    units: Vec<Unit>,
}

fn state(array: &Array) -> Option<State> {
    matches!(array.phase, Phase::Ready).then(|| State {
        log: [array.log.epoch, array.log.sequence, array.log.sum, array.log.page, array.log.base],
        members: array.drives.members().into(),
        present: array.drives.present().collect(),
        units: (0..array.table.units()).map(|at| array.table.get(at)).collect(),
    })
}

/// Opens an array for reading, without changing its drives; returns its state and the bytes read.
fn opened(array: Array, drives: &Drives, seed: u64) -> (Option<State>, u64) {
    let mut rig = Rig::new(array.reading(), drives.clone(), seed);
    rig.run(&mut vec![(Op::Flush, Flags::NONE, 0, 0)], Life::default());
    (state(rig.array()), rig.read_bytes)
}

/// Drives with a history, and the numbers of the drives by lane.
struct History {
    geometry: Geometry,
    drives: Drives,
    numbers: Vec<u8>,
    state: u64,
}

impl History {
    fn random(&mut self, end: u64) -> u64 {
        below(&mut self.state, end)
    }

    fn away(&mut self, most: u64) -> Vec<u8> {
        let mut numbers = self.numbers.clone();
        for _ in 0..self.random(most + 1) {
            numbers[self.random(LANES as u64) as usize] = 0;
        }
        numbers
    }

    /// Opens the array with some drives, one of which may be new, writes, and ends anyhow. Returns
    /// the number of the last record.
    fn live(&mut self, creates: bool) -> u64 {
        let has_losses = self.random(3) == 0;
        let mut numbers = self.away(if creates || !has_losses { 0 } else { 2 });
        if !creates && self.random(8) == 0 {
            let lane = self.random(LANES as u64) as usize;
            self.numbers[lane] = self.numbers.iter().max().unwrap() + 1;
            numbers[lane] = self.numbers[lane];
            self.drives.wipe(lane);
        }
        let array = match creates {
            true => Array::created(self.geometry, Level::TRIPLE),
            false => Array::found(self.geometry, Level::TRIPLE, &numbers),
        };
        let blocks = self.geometry.units * 4;
        let count = [0, 8, 50, 400][self.random(4) as usize];
        let mut requests = Vec::new();
        for _ in 0..count {
            let flags = if self.random(3) == 0 { Flags::NONE } else { Flags::FUA };
            requests.push((Op::Write, flags, self.random(blocks.min(200)), 1));
        }
        requests.push((Op::Flush, Flags::NONE, 0, 0));
        let life = Life {
            cut_after: (self.random(2) == 0).then(|| self.random(60 * count + 40)),
            gone: (0..if has_losses { self.random(4) } else { 0 })
                .map(|_| (self.random(LANES as u64) as u16, self.random(60 * count + 40)))
                .collect(),
        };
        let mut rig = Rig::new(array, std::mem::take(&mut self.drives), self.state);
        if creates {
            // The rings may be full already.
            let until = self.random(2 * self.geometry.ring);
            while rig.array().log.sequence < until {
                rig.owe(1 + self.random(40));
                rig.run(&mut vec![(Op::Flush, Flags::NONE, 0, 0)], Life::default());
            }
        }
        rig.run(&mut requests, life);
        let last = rig.array().log.sequence;
        self.drives = rig.drives;
        last
    }

    /// Returns the drives with some records damaged.
    fn damaged(&mut self) -> Drives {
        let mut drives = self.drives.clone();
        let ring = self.geometry.ring;
        for _ in 0..self.random(4) {
            let (lane, from) = (self.random(LANES as u64) as usize, self.random(ring));
            let count = [1, 3, 40, ring][self.random(4) as usize];
            for place in (from..from + count).map(|at| at % ring) {
                let at = ring_at() + place * u64::from(RECORD) + 4096 * self.random(2);
                drives.damage(lane, at);
            }
        }
        drives
    }

    /// Compares both ways of opening; returns the bytes that they read.
    fn compare(&mut self, numbers: &[u8], drives: &Drives) -> [u64; 2] {
        let found = || Array::found(self.geometry, Level::TRIPLE, numbers);
        let (part, part_bytes) = opened(found().reading_all_records(false), drives, self.state);
        let (all, all_bytes) = opened(found().reading_all_records(true), drives, self.state);
        assert!(part == all, "{part:#?} {all:#?}");
        [part_bytes, all_bytes]
    }
}

#[test]
fn a_part_of_the_records_shows_the_same_state_as_all_of_them() {
    let (mut opened, mut less, mut wraps) = (0, 0, 0);
    for seed in 0..longer(5) {
        println!("seed {seed}");
        let units = [12, 60, 3000][seed as usize % 3];
        let geometry = geometry(units, 4096);
        let numbers = (1..=LANES as u8).collect();
        let drives = Drives::new(LANES);
        let mut history = History { geometry, drives, numbers, state: seed };
        history.live(true);
        for _ in 0..6 {
            wraps += u64::from(history.live(false) > geometry.ring);
            for nth in 0..4 {
                let numbers = history.away([0, 0, 1, 3][nth]);
                let drives = if nth % 2 == 0 { history.drives.clone() } else { history.damaged() };
                let [part, all] = history.compare(&numbers, &drives);
                (opened, less) = (opened + 1, less + u64::from(part < all));
            }
        }
    }
    println!("{opened} openings, {less} of which read less; {wraps} after the rings were full");
    assert!(less * 6 > opened, "{less} of {opened} openings read less");
    assert!(wraps > longer(2), "{wraps} rings were full");
}

/// Returns a full table on drives whose rings are full, and the array that wrote it.
fn full(units: u64) -> Rig {
    let geometry = geometry(units, 65_536);
    let mut array = Array::new(geometry, Level::RAID6).filled(units);
    (array.log.epoch, array.log.base) = (1, 1);
    let mut rig = Rig::new(array, Drives::new(LANES), 1);
    while rig.array().log.sequence < geometry.ring + 100 {
        rig.owe(7);
        rig.run(&mut vec![(Op::Flush, Flags::NONE, 0, 0)], Life::default());
    }
    rig
}

/// Opens a full table; returns the bytes that were read, the bytes of records that were kept at
/// most, and the bytes of the table.
fn cost(rig: &Rig, all: bool) -> [u64; 3] {
    let geometry = *rig.array().geometry();
    let array = Array::found(geometry, Level::RAID6, &[1, 2, 3, 4, 5, 6]);
    let array = array.reading().reading_all_records(all);
    let mut opening = Rig::new(array, rig.drives.clone(), 1);
    let mut peak = 0;
    opening.watch = Some(Box::new(move |array| {
        if let Phase::Opening(opening) = &array.phase {
            let walked = if let Step::Walk(walk, _) = &opening.step { walk.bytes() } else { 0 };
            peak = peak.max(walked + opening.heads.bytes());
        }
        peak
    }));
    opening.run(&mut vec![(Op::Flush, Flags::NONE, 0, 0)], Life::default());
    let units = |array: &Array| state(array).map(|state| state.units);
    assert!(units(opening.array()) == units(rig.array()), "the table is there");
    [opening.read_bytes, opening.watched as u64, opening.array().table.bytes() as u64]
}

/// Prints what opening costs, with a part of the records and with all of them.
fn costs(units: u64) -> [[u64; 3]; 2] {
    let rig = full(units);
    let capacity = rig.array().geometry().capacity_bytes();
    [false, true].map(|all| {
        let cost = cost(&rig, all);
        let [read, kept, table] = cost.map(|bytes| bytes as f64 / 1e6);
        let share = 1e12 / capacity as f64;
        println!(
            "all records: {all}; {read:.0} MB read ({:.0} for a terabyte), {kept:.1} MB kept, \
             table of {table:.0} MB ({:.0})",
            read * share,
            table * share
        );
        cost
    })
}

#[test]
fn opening_reads_a_part_of_the_records_and_keeps_little() {
    let [[part, kept, table], [all, ..]] = costs(60_000);
    assert!(
        part * 3 < all && kept < 40 << 20 && table < 60_000 * 57,
        "{part} {all} {kept} {table}"
    );
}

/// Prints what opening costs for each terabyte.
#[test]
#[ignore = "slow: make test-full"]
fn cost_of_opening() {
    costs(500_000);
}

#[test]
fn a_new_drive_gets_all_records() {
    for damages in [false, true] {
        let mut rig = full(3000);
        let geometry = *rig.array().geometry();
        let mut drives = std::mem::take(&mut rig.drives);
        drives.wipe(2);
        if damages {
            // Copies that are damaged only after the table was read are taken from other drives.
            drives.damage_later(0, geometry.record_at(rig.array().log.sequence - 20));
        }
        let numbers = [1, 2, 7, 4, 5, 6];
        let mut rig = Rig::new(Array::found(geometry, Level::RAID6, &numbers), drives, 3);
        rig.run(&mut vec![(Op::Flush, Flags::NONE, 0, 0)], Life::default());
        let expected = state(rig.array());
        let alone = [0, 0, 7, 4, 5, 6];
        let found = Array::found(geometry, Level::RAID6, &alone);
        let mut drives = rig.drives.clone();
        for lane in [3, 4, 5] {
            (0..geometry.ring).for_each(|place| {
                drives.damage(lane, ring_at() + place * u64::from(RECORD));
            });
        }
        let (found, _) = opened(found, &drives, 4);
        let units = |state: Option<State>| state.map(|state| state.units);
        assert!(found.is_some() && units(found) == units(expected), "{damages}");
    }
}
