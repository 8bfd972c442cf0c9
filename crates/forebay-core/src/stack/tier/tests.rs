//! Tests small cases. The laws of the crate forebay-live test contents, with completions in any
//! order.

use super::table::BLOCK;
use super::*;
use crate::contract::{Bare, Fault, Finished, Flags, Nanos, Policy};
use crate::elevator::packing::Packing;
use crate::elevator::{Bid, BidConfig, BlockLayer, Limits, NoScheduler};
use crate::stack::placed::Placed;

type Hybrid = Placed<Tiers<Later>, Tier<BlockLayer<Bid>>>;

fn hybrid(blocks: u64, threshold_bytes: u32, migrate: Option<MigrateConfig>) -> Hybrid {
    let limits = Limits { request_len_max: 64 << 10, ..Limits::default() };
    let disk = || {
        let bid = Bid::hybrid(BidConfig::default(), Packing { threshold_bytes });
        Tier::Disk(BlockLayer::new(bid, limits))
    };
    let flash = Tier::Flash(Box::new(BlockLayer::new(NoScheduler::default(), limits)));
    let tiers = Tiers::new(2, blocks * BLOCK, Later).migrating(migrate);
    Placed::over(tiers, vec![disk(), disk(), flash])
}

fn request(op: Op, lane: Lane, sector: u64, count: u64, stream: u32) -> Request {
    let (at, id, flags) = (Nanos::ZERO, 0, Flags::NONE);
    let (offset, len) = (sector * SECTOR, (count * SECTOR) as u32);
    Request { at, offset, id, len, stream, lane, op, flags }
}

#[test]
fn hot_extents_move_to_the_flash_and_are_counted() {
    let config =
        MigrateConfig { extent_bytes: 64 << 10, period: Nanos::from_secs(1), hot: 3, moves_max: 8 };
    let mut policy = hybrid(1000, 0, Some(config));
    let mut now = Nanos::ZERO;
    for _ in 0..3 {
        policy.submit_bare(now, request(Op::Read, 0, 128, 8, 0));
        settle(&mut policy, &mut now);
    }
    now += Nanos::from_secs(2);
    policy.submit_bare(now, request(Op::Read, 0, 9000, 8, 0));
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
    policy.submit_bare(now, request(Op::Read, 0, 136, 8, 0));
    assert_eq!(settle(&mut policy, &mut now), [(2, Op::Read, 4096, 4096)]);
    let figure = |name| policy.figures().iter().find(|(known, _)| *known == name).unwrap().1;
    assert_eq!((figure("extents_to_flash"), figure("moved_bytes")), (1.0, 65_536.0));
}

#[test]
fn a_move_may_share_its_read_with_a_client() {
    let config =
        MigrateConfig { extent_bytes: 32 << 10, period: Nanos::from_secs(1), hot: 3, moves_max: 8 };
    let mut policy = hybrid(1000, 0, Some(config));
    let mut now = Nanos::ZERO;
    for _ in 0..3 {
        policy.submit_bare(now, request(Op::Read, 0, 64, 8, 0));
        settle(&mut policy, &mut now);
    }
    now += Nanos::from_secs(2);
    // This read also begins the move of the extent that follows it.
    policy.submit_bare(now, request(Op::Read, 0, 56, 8, 0));
    let ios = settle(&mut policy, &mut now);
    assert_eq!(ios, [(0, Op::Read, 56 * SECTOR, 9 * 4096), (2, Op::Write, 0, 32 << 10)]);
    policy.submit_bare(now, request(Op::Read, 0, 56, 16, 0));
    let ios = settle(&mut policy, &mut now);
    assert_eq!(ios, [(2, Op::Read, 0, 4096), (0, Op::Read, 56 * SECTOR, 4096)]);
    assert!(policy.is_idle());
}

#[test]
fn a_write_that_overtakes_a_move_is_not_lost() {
    let config =
        MigrateConfig { extent_bytes: 32 << 10, period: Nanos::from_secs(1), hot: 3, moves_max: 8 };
    let mut policy = hybrid(1000, 0, Some(config));
    let mut now = Nanos::ZERO;
    for _ in 0..3 {
        policy.submit_bare(now, request(Op::Read, 0, 64, 8, 0));
        settle(&mut policy, &mut now);
    }
    now += Nanos::from_secs(2);
    policy.submit_bare(now, request(Op::Read, 0, 9000, 8, 0));
    let copy = loop {
        match policy.dispatch(now, 2) {
            Some(copy) => break copy,
            None => assert_ne!(step(&mut policy, &mut now), None),
        }
    };
    assert_eq!((copy.op, copy.len), (Op::Write, 32 << 10));
    policy.submit_bare(now, request(Op::Write, 0, 72, 8, 0));
    let done = settle(&mut policy, &mut now);
    assert!(done.contains(&(0, Op::Write, 72 * SECTOR, 4096)), "{done:?}");
    complete(&mut policy, now, copy);
    policy.submit_bare(now, request(Op::Read, 0, 64, 16, 0));
    assert_eq!(settle(&mut policy, &mut now), [(0, Op::Read, 64 * SECTOR, 8192)]);
}

#[test]
fn a_write_that_the_flash_fails_does_not_race_a_move() {
    let config =
        MigrateConfig { extent_bytes: 32 << 10, period: Nanos::from_secs(1), hot: 3, moves_max: 8 };
    let mut policy = hybrid(8, 16 << 10, Some(config));
    let mut now = Nanos::ZERO;
    policy.submit_bare(now, request(Op::Write, 0, 64, 8, 0));
    assert_eq!(settle(&mut policy, &mut now), [(2, Op::Write, 0, 4096)]);
    for _ in 0..3 {
        policy.submit_bare(now, request(Op::Read, 0, 640, 8, 0));
        settle(&mut policy, &mut now);
    }
    now += Nanos::from_secs(2);
    // The written extent is cold, so it is moved back to make space.
    policy.submit_bare(now, request(Op::Read, 1, 0, 8, 0));
    let back = loop {
        let io = policy.dispatch(now, 0);
        match io.or_else(|| (1..3).find_map(|lane| policy.dispatch(now, lane))) {
            Some(io) if (io.lane, io.op) == (0, Op::Write) => break io,
            Some(io) => complete(&mut policy, now, io),
            None => {
                now = now.max(policy.wakeup().expect("the move goes on"));
                policy.wake_bare(now, &mut Finished::new());
            }
        }
    };
    assert_eq!((back.offset, back.len), (64 * SECTOR, 4096));
    policy.submit_bare(now, request(Op::Write, 0, 66, 2, 0));
    let io = policy.dispatch(now, 2).expect("it is on the flash still");
    let outcome = Err(Fault::Media);
    let failed = Completion { io, started: now, at: now, mechanics: Default::default(), outcome };
    let mut finished = Finished::new();
    policy.complete_bare(now, &failed, &mut finished);
    now += Nanos::from_millis(100);
    policy.wake_bare(now, &mut finished);
    assert_eq!((policy.dispatch(now, 0), finished.len()), (None, 0), "it waits for the move");
    complete(&mut policy, now, back);
    let ios = settle(&mut policy, &mut now);
    // The write is light, so BID-Hybrid tries the flash again.
    assert!(ios.contains(&(2, Op::Write, 1024, 1024)), "{ios:?}");
    assert!(policy.is_idle());
}

/// Starts a write on disk 0 that fails on the flash, and returns the answers.
fn failing(policy: &mut Hybrid, offset: u64, len: u32, fault: Fault) -> Vec<Outcome> {
    let (now, mut finished) = (Nanos::ZERO, Finished::new());
    let write = Request { offset, len, ..request(Op::Write, 0, 0, 0, 0) };
    policy.submit_bare(now, write);
    let io = policy.dispatch(now, 2).expect("it goes to the flash");
    let (started, at, outcome) = (now, now, Err(fault));
    let failed = Completion { io, started, at, mechanics: Default::default(), outcome };
    policy.complete_bare(now, &failed, &mut finished);
    finished.iter().map(|done| done.outcome).collect()
}

#[test]
fn a_failed_write_of_part_of_a_sector_is_reported() {
    let mut policy = hybrid(8, 16 << 10, None);
    policy.submit_bare(Nanos::ZERO, request(Op::Write, 0, 64, 8, 0));
    let mut now = Nanos::ZERO;
    settle(&mut policy, &mut now);
    let (sector, media) = (64 * SECTOR, Err(Fault::Media));
    assert_eq!(failing(&mut policy, sector + 100, 50, Fault::Media), [media], "it is told");
    assert_eq!(failing(&mut policy, sector, 512, Fault::Media), [], "the disk takes it");
}

#[test]
fn nothing_is_placed_on_a_lost_flash() {
    let mut policy = hybrid(8, 16 << 10, None);
    let mut now = Nanos::ZERO;
    policy.submit_bare(now, request(Op::Write, 0, 64, 8, 0));
    settle(&mut policy, &mut now);
    assert_eq!(failing(&mut policy, 64 * SECTOR, 4096, Fault::Gone), []);
    policy.submit_bare(now, request(Op::Write, 0, 640, 8, 0));
    let both = [64, 640].map(|at| (0, Op::Write, at * SECTOR, 4096));
    assert_eq!(settle(&mut policy, &mut now), both);
}

/// Runs until no work is left and returns the I/Os.
fn settle(policy: &mut Hybrid, now: &mut Nanos) -> Vec<(Lane, Op, u64, u32)> {
    let ios = std::iter::from_fn(|| step(policy, now));
    ios.map(|io| (io.lane, io.op, io.offset, io.len)).collect()
}

/// Serves the next I/O immediately, if there is one.
fn step(policy: &mut Hybrid, now: &mut Nanos) -> Option<Request> {
    loop {
        if let Some(io) = (0..3).find_map(|lane| policy.dispatch(*now, lane)) {
            complete(policy, *now, io);
            return Some(io);
        }
        *now = (*now).max(policy.wakeup()?);
        policy.wake_bare(*now, &mut Finished::new());
    }
}

fn complete(policy: &mut Hybrid, now: Nanos, io: Request) {
    let done =
        Completion { io, started: now, at: now, mechanics: Default::default(), outcome: Ok(()) };
    policy.complete_bare(now, &done, &mut Finished::new());
}

#[test]
fn light_writes_go_to_the_flash_and_bulky_ones_to_the_disk() {
    let mut policy = hybrid(1000, 16 << 10, None);
    let mut now = Nanos::ZERO;
    // Stream 0 writes 4 KiB in distant places, and reads; stream 1 writes 64 KiB sequentially.
    let light = [100, 900].map(|sector| request(Op::Write, 0, sector, 8, 0));
    light.into_iter().for_each(|write| policy.submit_bare(now, write));
    policy.submit_bare(now, request(Op::Read, 0, 2000, 8, 0));
    (0..8).for_each(|at| policy.submit_bare(now, request(Op::Write, 0, 5000 + 16 * at, 16, 1)));
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
    // Data on the flash is read there. A read that spans both devices is split and finishes once.
    policy.submit_bare(now, request(Op::Read, 0, 96, 16, 3));
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
    // An update goes to where the data is, even if a bulky stream writes it.
    policy.submit_bare(now, request(Op::Write, 0, 100, 8, 1));
    assert_eq!(settle(&mut policy, &mut now), [(2, Op::Write, 4 * SECTOR, 4096)]);
    let figure = |name| policy.figures().iter().find(|(known, _)| *known == name).unwrap().1;
    assert_eq!((figure("offloaded_requests"), figure("offloaded_bytes")), (2.0, 8192.0));
    assert_eq!((figure("flash_updates"), figure("split_requests")), (1.0, 1.0));
}

#[test]
fn parts_of_sectors_go_to_the_disk_and_flushes_to_both() {
    let mut policy = hybrid(1000, 16 << 10, None);
    let mut now = Nanos::ZERO;
    let part = Request { offset: 100, ..request(Op::Write, 0, 0, 8, 0) };
    policy.submit_bare(now, part);
    assert_eq!(settle(&mut policy, &mut now), [(0, Op::Write, 100, 4096)]);
    policy.submit_bare(now, request(Op::Flush, 1, 0, 0, 0));
    let mut ios = settle(&mut policy, &mut now);
    ios.sort_by_key(|io| io.0);
    assert_eq!(ios, [(1, Op::Flush, 0, 0), (2, Op::Flush, 0, 0)]);
}

#[test]
fn without_room_writes_go_to_the_disk_and_are_counted() {
    let mut policy = hybrid(2, 16 << 10, None);
    let mut now = Nanos::ZERO;
    for at in 0..3 {
        policy.submit_bare(now, request(Op::Write, 0, 1000 * at, 8, 0));
    }
    let lanes: Vec<Lane> = settle(&mut policy, &mut now).iter().map(|io| io.0).collect();
    // The flash has space for two of the three writes, each of which covers one block.
    assert_eq!(lanes.iter().filter(|&&lane| lane == 0).count(), 1, "{lanes:?}");
    let figure = |name| policy.figures().iter().find(|(known, _)| *known == name).unwrap().1;
    assert_eq!((figure("exhausted_requests"), figure("exhausted_bytes")), (1.0, 4096.0));
    // A trim makes space again.
    policy.submit_bare(now, request(Op::Trim, 0, 0, 16, 0));
    settle(&mut policy, &mut now);
    policy.submit_bare(now, request(Op::Write, 0, 4000, 8, 0));
    assert_eq!(settle(&mut policy, &mut now).len(), 1);
    assert_eq!(policy.placement().table.used_bytes(), 2 * BLOCK);
}
