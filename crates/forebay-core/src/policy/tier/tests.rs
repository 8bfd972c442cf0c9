//! Contents of both devices in any order of completions, and small cases.

use super::table::BLOCK;
use super::*;
use crate::policy::bid::{Bid, BidConfig};
use crate::policy::contents::{World, play, request, steps};
use crate::policy::hybrid::Packing;
use crate::policy::none::NoScheduler;
use crate::policy::{BlockLayer, Limits};
use proptest::prelude::*;

type Hybrid = Tiers<BlockLayer<Bid>, Later>;

fn hybrid(flash_blocks: u64, threshold_bytes: u32) -> Hybrid {
    let limits = Limits { request_len_max: 64 << 10, ..Limits::default() };
    let disk = || {
        let bid = Bid::hybrid(BidConfig::default(), Packing { threshold_bytes });
        BlockLayer::new(bid, limits)
    };
    let flash = Box::new(BlockLayer::new(NoScheduler::default(), limits));
    Tiers::new(vec![disk(), disk()], flash, flash_blocks * BLOCK, Later)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Any order of arrivals, dispatches and completions, a flash that is large or full at once.
    #[test]
    fn reads_find_what_was_written_last(steps in steps(), blocks in 1u64..80, light in any::<bool>()) {
        let policy = hybrid(blocks, if light { 1 << 20 } else { 16 << 10 });
        let mut world = World::new(policy, 2, |policy, slot| policy.table.owner(slot));
        play(&mut world, &steps);
        let pending = world.policy.table.is_idle();
        prop_assert!(pending, "an I/O to the flash was not told to the table");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// The same while extents move up and down all the time.
    #[test]
    fn moves_lose_nothing(steps in steps(), blocks in 8u64..80, bcache in any::<bool>()) {
        let config = MigrateConfig {
            extent_bytes: 16 << 10,
            period: Nanos::from_millis(2),
            hot: 2,
            moves_max: 3,
        };
        if bcache {
            let limits = Limits { request_len_max: 64 << 10, ..Limits::default() };
            let lane = || -> Scheduler { Box::new(BlockLayer::new(NoScheduler::default(), limits)) };
            let tiers = Tiers::new(vec![lane(), lane()], lane(), blocks * BLOCK, Rolling::new(9000));
            let mut world = World::new(tiers.migrating(Some(config)), 2, |policy, slot| {
                policy.table.owner(slot)
            });
            play(&mut world, &steps);
            prop_assert!(world.policy.table.is_idle());
        } else {
            let policy = hybrid(blocks, 16 << 10).migrating(Some(config));
            let mut world = World::new(policy, 2, |policy, slot| policy.table.owner(slot));
            world.merges_moves = true;
            play(&mut world, &steps);
            prop_assert!(world.policy.table.is_idle());
        }
    }
}

#[test]
fn much_used_extents_move_up_and_are_charged() {
    let config =
        MigrateConfig { extent_bytes: 64 << 10, period: Nanos::from_secs(1), hot: 3, moves_max: 8 };
    let mut policy = hybrid(1000, 0).migrating(Some(config));
    let mut now = Nanos::ZERO;
    for _ in 0..3 {
        policy.submit(now, request(Op::Read, 0, 128, 8, 0));
        settle(&mut policy, &mut now);
    }
    now += Nanos::from_secs(2);
    policy.submit(now, request(Op::Read, 0, 9000, 8, 0));
    let mut ios = settle(&mut policy, &mut now);
    ios.sort_by_key(|io| (io.0, io.1, io.2));
    let extent = 128 * SECTOR;
    assert_eq!(
        ios,
        [
            (0, Op::Read, extent, 65_536),
            (0, Op::Read, 9000 * SECTOR, 4096),
            (2, Op::Write, 0, 65_536),
        ]
    );
    policy.submit(now, request(Op::Read, 0, 136, 8, 0));
    assert_eq!(settle(&mut policy, &mut now), [(2, Op::Read, 4096, 4096)]);
    let figure = |name| policy.figures().iter().find(|(known, _)| *known == name).unwrap().1;
    assert_eq!((figure("extents_to_flash"), figure("moved_bytes")), (1.0, 65_536.0));
}

#[test]
fn a_move_may_share_its_read_with_a_client() {
    let config =
        MigrateConfig { extent_bytes: 32 << 10, period: Nanos::from_secs(1), hot: 3, moves_max: 8 };
    let mut policy = hybrid(1000, 0).migrating(Some(config));
    let mut now = Nanos::ZERO;
    for _ in 0..3 {
        policy.submit(now, request(Op::Read, 0, 64, 8, 0));
        settle(&mut policy, &mut now);
    }
    now += Nanos::from_secs(2);
    // It begins the move of the extent after it.
    policy.submit(now, request(Op::Read, 0, 56, 8, 0));
    let ios = settle(&mut policy, &mut now);
    assert_eq!(ios, [(0, Op::Read, 56 * SECTOR, 9 * 4096), (2, Op::Write, 0, 32 << 10)]);
    policy.submit(now, request(Op::Read, 0, 56, 16, 0));
    let ios = settle(&mut policy, &mut now);
    assert_eq!(ios, [(2, Op::Read, 0, 4096), (0, Op::Read, 56 * SECTOR, 4096)]);
    assert!(policy.clients.is_empty());
}

#[test]
fn a_write_that_overtakes_a_move_is_not_lost() {
    let config =
        MigrateConfig { extent_bytes: 32 << 10, period: Nanos::from_secs(1), hot: 3, moves_max: 8 };
    let mut policy = hybrid(1000, 0).migrating(Some(config));
    let mut now = Nanos::ZERO;
    for _ in 0..3 {
        policy.submit(now, request(Op::Read, 0, 64, 8, 0));
        settle(&mut policy, &mut now);
    }
    now += Nanos::from_secs(2);
    policy.submit(now, request(Op::Read, 0, 9000, 8, 0));
    let copy = loop {
        match policy.dispatch(now, 2) {
            Some(copy) => break copy,
            None => assert_ne!(step(&mut policy, &mut now), None),
        }
    };
    assert_eq!((copy.op, copy.len), (Op::Write, 32 << 10));
    policy.submit(now, request(Op::Write, 0, 72, 8, 0));
    let done = settle(&mut policy, &mut now);
    assert!(done.contains(&(0, Op::Write, 72 * SECTOR, 4096)), "{done:?}");
    complete(&mut policy, now, copy);
    policy.submit(now, request(Op::Read, 0, 64, 16, 0));
    assert_eq!(settle(&mut policy, &mut now), [(0, Op::Read, 64 * SECTOR, 8192)]);
}

/// Runs until nothing is left to do.
fn settle(policy: &mut Hybrid, now: &mut Nanos) -> Vec<(Lane, Op, u64, u32)> {
    let ios = std::iter::from_fn(|| step(policy, now));
    ios.map(|io| (io.lane, io.op, io.offset, io.len)).collect()
}

/// Does the next I/O, if there is one, at once.
fn step(policy: &mut Hybrid, now: &mut Nanos) -> Option<Request> {
    loop {
        if let Some(io) = (0..3).find_map(|lane| policy.dispatch(*now, lane)) {
            complete(policy, *now, io);
            return Some(io);
        }
        *now = (*now).max(policy.wakeup()?);
    }
}

fn complete(policy: &mut Hybrid, now: Nanos, io: Request) {
    let done = Completion { io, started: now, at: now, mechanics: Default::default() };
    policy.complete(now, &done, &mut Finished::new());
}

#[test]
fn light_writes_go_to_the_flash_and_bulky_ones_to_the_disk() {
    let mut policy = hybrid(1000, 16 << 10);
    let mut now = Nanos::ZERO;
    // Stream 0 writes 4 KiB far apart and reads; stream 1 writes 64 KiB in a row.
    let light = [100, 900].map(|sector| request(Op::Write, 0, sector, 8, 0));
    light.into_iter().for_each(|write| policy.submit(now, write));
    policy.submit(now, request(Op::Read, 0, 2000, 8, 0));
    (0..8).for_each(|at| policy.submit(now, request(Op::Write, 0, 5000 + 16 * at, 16, 1)));
    let mut ios = settle(&mut policy, &mut now);
    ios.sort_by_key(|io| (io.0, io.2));
    assert_eq!(
        ios,
        [
            (0, Op::Read, 2000 * SECTOR, 4096),
            (0, Op::Write, 5000 * SECTOR, 65_536),
            (2, Op::Write, 4 * SECTOR, 4096),
            (2, Op::Write, 2 * BLOCK + 4 * SECTOR, 4096),
        ]
    );
    // What is on the flash is read there; a read that spans both is cut and finishes once.
    policy.submit(now, request(Op::Read, 0, 96, 16, 3));
    let mut ios = settle(&mut policy, &mut now);
    ios.sort_by_key(|io| (io.0, io.2));
    assert_eq!(
        ios,
        [
            (0, Op::Read, 96 * SECTOR, 2048),
            (0, Op::Read, 108 * SECTOR, 2048),
            (2, Op::Read, 4 * SECTOR, 4096),
        ]
    );
    // An update, even by a bulky writer, is done where the data are.
    policy.submit(now, request(Op::Write, 0, 100, 8, 1));
    assert_eq!(settle(&mut policy, &mut now), [(2, Op::Write, 4 * SECTOR, 4096)]);
    let figure = |name| policy.figures().iter().find(|(known, _)| *known == name).unwrap().1;
    assert_eq!((figure("offloaded_requests"), figure("offloaded_bytes")), (2.0, 8192.0));
    assert_eq!((figure("flash_updates"), figure("split_requests")), (1.0, 1.0));
}

#[test]
fn without_room_writes_go_to_the_disk_and_are_counted() {
    let mut policy = hybrid(2, 16 << 10);
    let mut now = Nanos::ZERO;
    for at in 0..3 {
        policy.submit(now, request(Op::Write, 0, 1000 * at, 8, 0));
    }
    let lanes: Vec<Lane> = settle(&mut policy, &mut now).iter().map(|io| io.0).collect();
    // Each covers two blocks unless it begins with one: the first does, with sector 0.
    assert_eq!(lanes.iter().filter(|&&lane| lane == 0).count(), 1, "{lanes:?}");
    let figure = |name| policy.figures().iter().find(|(known, _)| *known == name).unwrap().1;
    assert_eq!((figure("exhausted_requests"), figure("exhausted_bytes")), (1.0, 4096.0));
    // A trim makes room again.
    policy.submit(now, request(Op::Trim, 0, 0, 16, 0));
    settle(&mut policy, &mut now);
    policy.submit(now, request(Op::Write, 0, 4000, 8, 0));
    assert_eq!(settle(&mut policy, &mut now).len(), 1);
    assert_eq!(policy.table.used_bytes(), 2 * BLOCK);
}
