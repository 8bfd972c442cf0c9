//! Tests the laws of contents on arrays to which drives are added, and from which drives are removed, while they
//! are in use, with power cuts in between.

use forebay_core::contract::volume::{VolumeEvent, VolumeOrder};
use forebay_core::stack::array::{Array, Level};
use forebay_core::{Lane, Policy};
use forebay_live::run;
use forebay_rig::{Crash, Medium, Tear, Troubles};

use crate::laws::array::{SHAPES, Shape, begun, sound};
use crate::laws::oracle::Oracle;
use crate::laws::random;
use crate::laws::replacing::{Ordering, run_out};

/// Lanes for new drives.
const NEW: usize = 2;

/// An array with the number of cells of each drive, which may be larger than when the array was created.
#[derive(Clone, Copy, Debug)]
struct Sized {
    shape: Shape,
    cells: u32,
}

/// Arrays that grow by the new drives.
fn growing() -> [Sized; 3] {
    let shape = Shape { units: 130, ..SHAPES[0] };
    let mirrored = Shape { first: Level::TRIPLE, ..shape };
    let adapting = Shape { units: 130, ..SHAPES[5] };
    [(shape, 260), (mirrored, 400), (adapting, 400)].map(|(shape, cells)| Sized { shape, cells })
}

/// Arrays with enough free space for the data of two drives.
fn roomy() -> [Sized; 3] {
    let wide = Shape { lanes: 8, units: 40, spare: 40, ..SHAPES[0] };
    let mirrored = Shape { first: Level::TRIPLE, ..wide };
    let adapting = Shape { adapts: true, ..wide };
    [(wide, 120), (mirrored, 200), (adapting, 180)].map(|(shape, cells)| Sized { shape, cells })
}

impl Sized {
    /// Returns the existing array with the first `joined` new drives, but without the drives on these lanes.
    fn found(&self, joined: usize, away: &[usize]) -> Array {
        let first = usize::from(self.shape.lanes);
        let is_there = |lane: usize| !away.contains(&lane) && lane < first + joined;
        let number = |lane: usize| if is_there(lane) { lane as u8 + 1 } else { 0 };
        let numbers: Vec<u8> = (0..first + NEW).map(number).collect();
        let array = Array::found(self.shape.geometry(), self.shape.first, &numbers);
        let array = array.with_cells(&vec![self.cells; numbers.len()]);
        // A drive that a record has never named may join only while the order to add it is given.
        self.shape.ruled(array.joined_by(&vec![false; numbers.len()]))
    }

    fn begun(&self, seed: u64, oracle: &mut Oracle) -> Vec<Medium> {
        let mut media = begun(&self.shape, seed, oracle, 300);
        media.extend((0..NEW).map(|new| Medium::new(77 + new as u64)));
        media
    }

    fn add(&self, new: usize) -> VolumeOrder {
        let lane = usize::from(self.shape.lanes) + new;
        let (number, cells) = (lane as u8 + 1, self.cells);
        VolumeOrder::Add { lane: lane as Lane, number, cells, is_ssd: false }
    }
}

/// Returns two random lanes of members.
fn two(members: &[u8], state: &mut u64) -> Vec<usize> {
    let any = |_| usize::from(members[random(state) as usize % members.len()]) - 1;
    [0, 1].map(any).to_vec()
}

/// Runs until all work is done, then cuts the power.
fn ended(
    array: Array,
    orders: Vec<(u64, VolumeOrder)>,
    media: Vec<Medium>,
    oracle: &mut Oracle,
) -> (Ordering, Vec<Medium>) {
    let mut lanes = sound(media, 6);
    let mut volume = Ordering::of(array, orders);
    run_out(&mut volume, &mut lanes, oracle);
    let media = lanes.cut(Tear::Page);
    oracle.cut();
    (volume, media)
}

#[test]
fn drives_are_added_while_clients_read_and_write_and_any_two_may_then_fail() {
    for (all, seed) in growing().into_iter().zip(0..) {
        println!("{all:?}");
        let (mut state, mut oracle) = (seed, Oracle::new(all.shape.mix(), 0, seed));
        let media = all.begun(seed, &mut oracle);
        oracle.more(400);
        let orders = vec![(100, all.add(0)), (150, all.add(1))];
        let (volume, media) = ended(all.found(0, &[]), orders, media, &mut oracle);
        assert_eq!(volume.refused, 0);
        let state_then = Policy::volume(&volume.volume).unwrap();
        let grown = *volume.volume.placement().geometry();
        assert!(grown.units > all.shape.units * 19 / 10, "{grown:?}");
        assert_eq!(state_then.capacity_bytes, grown.capacity_bytes());
        assert!(!state_then.is_growing && state_then.members.len() == 8, "{state_then:?}");
        let joined = |drive| volume.events.contains(&VolumeEvent::Joined { drive });
        assert!(joined(7) && joined(8), "{:?}", volume.events);
        // The new space is used, and any two drives may be missing.
        oracle.widen(grown.capacity_bytes() / 512 / 16 * 16);
        oracle.more(400);
        let (again, media) = ended(all.found(NEW, &[]), Vec::new(), media, &mut oracle);
        assert_eq!(again.volume.placement().geometry().units, grown.units);
        oracle.settle();
        let away = two(&again.census().members, &mut state);
        println!("without {away:?}");
        ended(all.found(NEW, &away), Vec::new(), media, &mut oracle);
    }
}

#[test]
fn adding_is_cut_anywhere_and_continues() {
    let (mut cuts, mut between) = (0, 0);
    let every = if forebay_testing::laws_times().is_some() { 1 } else { 3 };
    for all in growing() {
        for seed in (0..18).step_by(every) {
            println!("{all:?}, seed {seed}");
            let (mut state, mut oracle) = (seed, Oracle::new(all.shape.mix(), 0, seed));
            let media = all.begun(seed, &mut oracle);
            let cut_after = Some(random(&mut state) % 2500);
            let troubles = Troubles { cut_after, ..Troubles::default() };
            let mut lanes = Crash::new(media, 4096, 4, random(&mut state), troubles);
            let orders = vec![(random(&mut state) % 20, all.add(0))];
            let mut volume = Ordering::of(all.found(0, &[]), orders);
            oracle.more(200);
            cuts += u32::from(run(&mut volume, &mut lanes, &mut oracle, &mut ()).is_err());
            let media = lanes.cut(Tear::Page);
            oracle.cut();
            // The volume has all data, whether or not the new drive is a member, even if two members are missing.
            oracle.settle();
            let (volume, media) = ended(all.found(1, &[]), Vec::new(), media, &mut oracle);
            let members = volume.census().members;
            let is_grown = volume.volume.placement().geometry().units > all.shape.units;
            assert!(members.len() == 7 || members.len() == 6 && !is_grown, "{members:?}");
            between += u32::from(members.len() == 7 && !is_grown);
            oracle.settle();
            let away = two(&members, &mut state);
            let (_, media) = ended(all.found(1, &away), Vec::new(), media, &mut oracle);
            // It continues to grow when the order is given again.
            let order = match members.len() {
                7 => VolumeOrder::Grow,
                _ => all.add(0),
            };
            oracle.more(60);
            let joined = members.len() - 6;
            let (volume, media) =
                ended(all.found(joined, &[]), vec![(5, order)], media, &mut oracle);
            let grown = *volume.volume.placement().geometry();
            assert!(grown.units > all.shape.units && volume.refused == 0, "{grown:?}");
            let away = two(&volume.census().members, &mut state);
            oracle.settle();
            ended(all.found(1, &away), Vec::new(), media, &mut oracle);
        }
    }
    println!("{cuts} cuts, {between} of them while it grew");
    assert!(cuts > 8 && between > 1, "{cuts} cuts, {between} while it grew");
}

#[test]
fn drives_are_removed_while_clients_read_and_write_and_any_two_others_may_then_fail() {
    for (all, seed) in roomy().into_iter().zip(0..) {
        println!("{all:?}");
        let (mut state, mut oracle) = (seed, Oracle::new(all.shape.mix(), 0, seed));
        let media = all.begun(seed, &mut oracle);
        oracle.more(500);
        // The last drive has the highest number. Without it and another one, the others are as many as a unit
        // spans, so no third one can be removed.
        let retire = |member| VolumeOrder::Retire { member };
        let orders = vec![(50, retire(8)), (400, retire(3))];
        let (volume, media) = ended(all.found(0, &[]), orders, media, &mut oracle);
        assert_eq!(
            (volume.refused, volume.census().members.len()),
            (0, 6),
            "{:?}",
            volume.census()
        );
        let left = |drive| volume.events.contains(&VolumeEvent::Left { drive });
        assert!(left(8) && left(3), "{:?}", volume.events);
        assert!(volume.volume.placement().removal(1).unwrap_err().contains("space for 0 KiB"));
        // The removed drives are present, but are not used, even if another one is missing.
        oracle.more(100);
        let (again, media) = ended(all.found(0, &[4]), Vec::new(), media, &mut oracle);
        let members = again.census().members;
        assert_eq!(members, [1, 2, 4, 5, 6, 7]);
        let mut away = two(&members, &mut state);
        away.extend([2, 7]);
        println!("without {away:?}");
        oracle.settle();
        let (_, media) = ended(all.found(0, &[]), Vec::new(), media, &mut oracle);
        oracle.settle();
        ended(all.found(0, &away), Vec::new(), media, &mut oracle);
    }
}

#[test]
fn removing_is_cut_anywhere_and_continues() {
    let (mut cuts, mut both) = (0, 0);
    let every = if forebay_testing::laws_times().is_some() { 1 } else { 3 };
    for all in roomy() {
        for seed in (0..18).step_by(every) {
            let (member, fails) = (1 + seed as u8 % 8, seed % 6 >= 4);
            println!("{all:?}, seed {seed}, drive {member} fails: {fails}");
            let (mut state, mut oracle) = (seed, Oracle::new(all.shape.mix(), 0, seed));
            let media = all.begun(seed, &mut oracle);
            let cut_after = Some(random(&mut state) % 5000);
            let lane = Lane::from(member - 1);
            let gone = if fails { vec![(lane, random(&mut state) % 800)] } else { Vec::new() };
            let troubles = Troubles { gone, cut_after, ..Troubles::default() };
            let mut lanes = Crash::new(media, 4096, 4, random(&mut state), troubles);
            let orders = vec![(random(&mut state) % 100, VolumeOrder::Retire { member })];
            let mut volume = Ordering::of(all.found(0, &[]), orders);
            oracle.more(200);
            cuts += u32::from(run(&mut volume, &mut lanes, &mut oracle, &mut ()).is_err());
            let media = lanes.cut(Tear::Page);
            oracle.cut();
            let away = if fails { vec![usize::from(lane)] } else { Vec::new() };
            oracle.settle();
            let (volume, media) = ended(all.found(0, &away), Vec::new(), media, &mut oracle);
            let is_member = volume.census().members.contains(&member);
            both += u32::from(is_member);
            // Another drive fails, too.
            let other = (usize::from(lane) + 1 + random(&mut state) as usize % 6) % 8;
            oracle.settle();
            let some = [vec![other], away.clone()].concat();
            let (_, media) = ended(all.found(0, &some), Vec::new(), media, &mut oracle);
            // The order is given again, also if the drive is missing: its data have been restored.
            let order = is_member.then_some((5, VolumeOrder::Retire { member }));
            oracle.more(100);
            let (volume, media) =
                ended(all.found(0, &away), order.into_iter().collect(), media, &mut oracle);
            let census = volume.census();
            assert!(volume.refused == 0 && !census.members.contains(&member), "{census:?}");
            assert_eq!(census.degraded_units, 0, "{census:?}");
            let mut away = two(&census.members, &mut state);
            away.push(lane.into());
            oracle.settle();
            ended(all.found(0, &away), Vec::new(), media, &mut oracle);
        }
    }
    println!("{cuts} cuts, {both} of them before the drive had left");
    assert!(cuts > 5 && both > 1, "{cuts} cuts, {both} before the drive had left");
}
