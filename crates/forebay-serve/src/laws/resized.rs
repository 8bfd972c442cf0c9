//! Tests a volume that stays in use while a drive is removed and another one is added. No client
//! gets an error, and all reads return the correct data, even if two drives fail afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use forebay_core::catalog::build_over_array;
use forebay_core::contract::{VolumeOrder, VolumeState};
use forebay_core::stack::array::{Array, Geometry, Level};
use forebay_core::{Lane, Policy};
use forebay_live::LEN_MAX;
use forebay_rig::{Crash, Medium, Tear};

use super::client::{Client, Does, SECTOR};
use super::kept_up::{policy, sound};
use super::losses::gone;
use super::{longer, serve, serve_reachable};
use crate::front::Order;

/// The number of drives, one more than a unit spans. There is a lane for another one.
const DRIVES: u16 = 7;
const LANES: u16 = DRIVES + 1;
/// The cells of each drive: those of the units if there are only six drives, and spare cells.
const CELLS: u32 = 140;

fn geometry() -> Geometry {
    let sizes = Geometry { lanes: DRIVES, units: 60, ..super::losses::geometry() };
    Geometry::new(sizes, Level::RAID6, 40).unwrap()
}

fn found(away: &[Lane], joined: u16, first: Level) -> Array {
    let is_there = |lane: &Lane| !away.contains(lane) && *lane < DRIVES + joined;
    let number = |lane: Lane| if is_there(&lane) { lane as u8 + 1 } else { 0 };
    let numbers: Vec<u8> = (0..LANES).map(number).collect();
    Array::found(geometry(), first, &numbers).with_cells(&[CELLS; LANES as usize])
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Begins,
    Removing,
    Growing,
    Reading,
}

/// Reads everything on a volume, then stops.
fn read_all(array: Array, media: Vec<Medium>, mut client: Client, seed: u64) -> Client {
    let mut policy = build_over_array("noop", array, LEN_MAX).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    client.does = Does::ReadAll { next: 0 };
    let over = Arc::clone(&stop);
    let meddle = move |_: &mut Crash, client: &mut Client| {
        over.store(client.has_read_all(), Ordering::Relaxed);
    };
    let read = serve(&mut *policy, sound(media, seed), client, stop, Box::new(meddle));
    read.outcome.unwrap();
    assert!(read.client.has_read_all() && read.client.failures == 0);
    read.client
}

#[test]
fn a_drive_is_removed_and_one_is_added_while_a_client_continues() {
    let specs = ["noop", "promised:cmin=100:delta-ms=20:depth=4:over=noop"];
    for seed in 0..longer(4) {
        let first = [Level::RAID6, Level::TRIPLE][seed as usize % 2];
        println!("{first:?}, seed {seed}");
        let media: Vec<Medium> =
            (0..LANES).map(|lane| Medium::new(seed ^ u64::from(lane))).collect();
        let sectors = geometry().capacity_bytes() / SECTOR / 16 * 16;
        let created = Array::created(geometry(), first).with_cells(&[CELLS; DRIVES as usize]);
        let mut made = build_over_array("noop", created, LEN_MAX).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&stop);
        let fill = move |_: &mut Crash, client: &mut Client| {
            if client.answered > 300 {
                client.does = Does::Nothing;
                over.store(client.is_quiet(), Ordering::Relaxed);
            }
        };
        let filled =
            serve(&mut *made, sound(media, seed), Client::new(seed, sectors), stop, Box::new(fill));
        filled.outcome.unwrap();
        let mut client = filled.client;
        client.flushed_all();
        (client.does, client.answered) = (Does::Anything, 0);

        let policy = policy(found(&[], 0, first), specs[seed as usize % 2]);
        let lane = |nth: u64| ((seed + nth) % u64::from(DRIVES)) as Lane;
        let (removed, fails) = (lane(0), [lane(2), lane(5)]);
        let (orders, ordered): (Sender<Order>, Receiver<Order>) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let (over, seen) = (Arc::clone(&stop), std::rc::Rc::clone(&policy));
        let (mut step, mut answers) = (Step::Begins, Vec::<Receiver<Result<(), String>>>::new());
        let meddle = move |crash: &mut Crash, client: &mut Client| {
            answers.retain(|answer| answer.try_recv().map(Result::unwrap).is_err());
            if !answers.is_empty() {
                return;
            }
            let mut order = |order: VolumeOrder| {
                let (done, answer) = channel();
                orders.send(Order::Volume(order, done)).unwrap();
                answers.push(answer);
            };
            let state: VolumeState = seen.borrow().volume().unwrap();
            let is_settled = state.records_left == 0 && state.work.is_none() && !state.is_growing;
            step = match step {
                Step::Begins if client.answered > 150 => {
                    order(VolumeOrder::Retire { member: removed as u8 + 1 });
                    Step::Removing
                }
                Step::Removing if is_settled && state.members.len() == 6 => {
                    let (number, cells) = (LANES as u8, CELLS);
                    order(VolumeOrder::Add { lane: DRIVES, number, cells, is_ssd: false });
                    Step::Growing
                }
                Step::Growing if is_settled && state.members.contains(&(LANES as u8)) => {
                    assert!(state.capacity_bytes > geometry().capacity_bytes(), "{state:?}");
                    crash.trouble(gone(&fails));
                    client.does = Does::ReadAll { next: 0 };
                    Step::Reading
                }
                Step::Reading => {
                    over.store(client.has_read_all(), Ordering::Relaxed);
                    Step::Reading
                }
                step => step,
            };
        };
        let crash = sound(filled.crash.cut(Tear::Sector), seed);
        let served = serve_reachable(&policy, crash, client, stop, Box::new(meddle), ordered);
        served.outcome.unwrap();
        assert!(served.client.has_read_all() && served.client.failures == 0);
        let away = [removed, fails[0], fails[1]];
        read_all(found(&away, 1, first), served.crash.cut(Tear::Sector), served.client, seed);
    }
}
