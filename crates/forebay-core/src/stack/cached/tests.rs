//! Tests small caches step by step, and whole runs. The laws of the crate forebay-live test the
//! contents.

use super::*;
use crate::cache::Lru;
use crate::contract::{Completion, Done, Fault, Nanos, Observer};
use crate::device::fixed::Fixed;
use crate::elevator::{BlockLayer, Limits, Noop};
use crate::replay::{Intensity, Open};
use crate::simulate;
use crate::stack::placed::Placed;
use crate::stack::placed::plan::planned;
use std::collections::VecDeque;

const BLOCK: u64 = 4096;
const DISK: Lane = 0;
const FLASH: Lane = 1;

fn request(at: u64, op: Op, offset: u64, len: u64) -> Request {
    let (at, len) = (Nanos(at), len as u32);
    Request { at, offset, id: at.0, len, stream: 0, lane: 0, op, flags: Flags::NONE }
}

fn blocks(at: u64, op: Op, first: u64, count: u64) -> Request {
    request(at, op, first * BLOCK, count * BLOCK)
}

/// Returns the first I/Os of a request.
fn asked<C: Cache>(cached: &mut Cached<C>, request: Request) -> Vec<Planned> {
    planned(|plan| cached.place(0, &request, Bytes::NONE, plan))
}

/// Returns all I/Os of a request, executed one after another, as lane, operation, first block and
/// number of blocks.
fn ios<C: Cache>(cached: &mut Cached<C>, request: Request) -> Vec<(Lane, Op, u64, u64)> {
    let (mut all, mut queue) = (Vec::new(), VecDeque::from(asked(cached, request)));
    while let Some(io) = queue.pop_front() {
        all.push((io.lane, io.op, io.offset / BLOCK, u64::from(io.len) / BLOCK));
        queue.extend(planned(|plan| assert_eq!(cached.done(&io, Ok(()), plan), Ok(()))));
    }
    all
}

#[test]
fn repeated_reads_come_from_the_flash() {
    let mut cached = Cached::new(Lru::new(4), BLOCK as u32, Writing::Back, 1);
    let first = ios(&mut cached, blocks(0, Op::Read, 100, 2));
    assert_eq!(
        first,
        [(DISK, Op::Read, 100, 2), (FLASH, Op::Write, 0, 1), (FLASH, Op::Write, 1, 1)]
    );
    // Two blocks that are adjacent on the flash, and a block that must be read from the disk.
    let second = ios(&mut cached, blocks(0, Op::Read, 100, 3));
    assert_eq!(second[..2], [(FLASH, Op::Read, 0, 2), (DISK, Op::Read, 102, 1)]);
    let figures = cached.figures();
    assert_eq!((figures.blocks_read, figures.blocks_hit, figures.blocks_filled), (5, 2, 3));
}

#[test]
fn dirty_blocks_go_to_the_disk_when_they_are_evicted() {
    let mut cached = Cached::new(Lru::new(1), BLOCK as u32, Writing::Back, 1);
    assert_eq!(ios(&mut cached, blocks(0, Op::Write, 7, 1)), [(FLASH, Op::Write, 0, 1)]);
    let evicting = ios(&mut cached, blocks(0, Op::Write, 8, 1));
    assert_eq!(
        evicting,
        [(FLASH, Op::Read, 0, 1), (FLASH, Op::Write, 1, 1), (DISK, Op::Write, 7, 1)]
    );
    assert_eq!(cached.figures().blocks_destaged, 1);
    // The place of block 7 has been freed and is used next.
    assert_eq!(ios(&mut cached, blocks(0, Op::Write, 9, 1))[1], (FLASH, Op::Write, 0, 1));
}

#[test]
fn a_block_on_its_way_to_the_disk_is_read_from_the_flash() {
    let mut cached = Cached::new(Lru::new(1), BLOCK as u32, Writing::Back, 1);
    ios(&mut cached, blocks(0, Op::Write, 7, 1));
    asked(&mut cached, blocks(0, Op::Write, 8, 1)); // not completed yet
    let plan = asked(&mut cached, blocks(0, Op::Read, 7, 1));
    assert_eq!((plan[0].lane, plan[0].offset), (FLASH, 0));
}

#[test]
fn writes_through_go_to_both_devices_and_writes_around_evict() {
    let mut through = Cached::new(Lru::new(4), BLOCK as u32, Writing::Through, 1);
    let both = [(FLASH, Op::Write, 0, 1), (DISK, Op::Write, 7, 1)];
    assert_eq!(ios(&mut through, blocks(0, Op::Write, 7, 1)), both);
    let mut around = Cached::new(Lru::new(4), BLOCK as u32, Writing::Around, 1);
    ios(&mut around, blocks(0, Op::Read, 7, 1));
    assert_eq!(ios(&mut around, blocks(0, Op::Write, 7, 1)), [(DISK, Op::Write, 7, 1)]);
    assert_eq!(ios(&mut around, blocks(0, Op::Read, 7, 1))[0], (DISK, Op::Read, 7, 1));
}

#[test]
fn parts_of_blocks_go_to_the_disk_unless_their_block_is_cached() {
    let mut cached = Cached::new(Lru::new(4), BLOCK as u32, Writing::Back, 1);
    let part = request(0, Op::Write, 7 * BLOCK + 512, 1024);
    let plan = asked(&mut cached, part);
    assert_eq!((plan[0].lane, plan[0].offset), (DISK, 7 * BLOCK + 512));
    ios(&mut cached, blocks(0, Op::Write, 7, 1));
    let plan = asked(&mut cached, part);
    assert_eq!((plan.len(), plan[0].lane, plan[0].offset), (1, FLASH, 512));
}

#[test]
fn a_write_waits_for_the_first_one_of_its_block() {
    let mut cached = Cached::new(Lru::new(4), BLOCK as u32, Writing::Back, 1);
    let first = asked(&mut cached, blocks(0, Op::Write, 7, 1));
    let part = request(0, Op::Write, 7 * BLOCK + 512, 1024);
    assert_eq!(asked(&mut cached, part), []);
    let read = asked(&mut cached, request(0, Op::Read, 7 * BLOCK, 512));
    assert_eq!(read[0].lane, DISK, "it is not there yet");
    let after = planned(|plan| assert_eq!(cached.done(&first[0], Ok(()), plan), Ok(())));
    assert_eq!((after.len(), after[0].lane, after[0].offset), (1, FLASH, 512));
}

#[test]
fn a_block_that_the_flash_fails_to_write_is_unchanged_until_the_disk_has_it() {
    let media = Err(Fault::Media);
    let mut cached = Cached::new(Lru::new(4), BLOCK as u32, Writing::Back, 1);
    ios(&mut cached, blocks(0, Op::Write, 7, 1));
    let lane = |cached: &mut Cached<_>| asked(cached, blocks(0, Op::Read, 7, 1))[0].lane;
    for (outcome, then) in [(media, FLASH), (Ok(()), DISK)] {
        let write = asked(&mut cached, blocks(0, Op::Write, 7, 1));
        let mend = planned(|plan| assert_eq!(cached.done(&write[0], media, plan), Ok(())));
        assert_eq!((mend.len(), mend[0].lane, mend[0].offset), (1, DISK, 7 * BLOCK));
        assert_eq!(lane(&mut cached), FLASH, "what it was");
        assert_eq!(asked(&mut cached, blocks(0, Op::Write, 7, 1)), [], "a write waits");
        let after = planned(|plan| assert_eq!(cached.done(&mend[0], outcome, plan), outcome));
        assert_eq!((after.len(), after[0].lane), (1, FLASH));
        // Writes wait for the first write to a new place, but not for a write to an existing place.
        assert_eq!(lane(&mut cached), then);
        planned(|plan| assert_eq!(cached.done(&after[0], Ok(()), plan), Ok(())));
    }
}

#[test]
fn writes_through_that_overlap_follow_each_other() {
    for order in [[0, 1], [1, 0]] {
        let mut through = Cached::new(Lru::new(4), BLOCK as u32, Writing::Through, 1);
        let both = asked(&mut through, blocks(0, Op::Write, 7, 1));
        assert_eq!(asked(&mut through, request(0, Op::Write, 7 * BLOCK, 512)), []);
        let mut done =
            |at: usize| planned(|plan| assert_eq!(through.done(&both[at], Ok(()), plan), Ok(())));
        assert_eq!(done(order[0]), [], "one of both is not done");
        let after: Vec<Lane> = done(order[1]).iter().map(|io| io.lane).collect();
        assert_eq!(after, [FLASH, DISK]);
    }
}

#[test]
fn a_write_through_that_the_disk_failed_is_not_read_from_the_flash() {
    let mut through = Cached::new(Lru::new(4), BLOCK as u32, Writing::Through, 1);
    let media = Err(Fault::Media);
    for io in asked(&mut through, blocks(0, Op::Write, 7, 1)) {
        let outcome = if io.lane == DISK { media } else { Ok(()) };
        planned(|plan| assert_eq!(through.done(&io, outcome, plan), outcome));
    }
    assert_eq!(asked(&mut through, blocks(0, Op::Read, 7, 1))[0].lane, DISK);
}

#[test]
fn a_flush_goes_to_both_devices_and_may_fail_on_a_flash_without_dirty_data() {
    for (writing, told) in [(Writing::Back, Err(Fault::Gone)), (Writing::Through, Ok(()))] {
        let mut cached = Cached::new(Lru::new(4), BLOCK as u32, writing, 1);
        let flushes = asked(&mut cached, request(0, Op::Flush, 0, 0));
        assert_eq!(flushes.iter().map(|io| io.lane).collect::<Vec<_>>(), [DISK, FLASH]);
        let gone = Err(Fault::Gone);
        planned(|plan| assert_eq!(cached.done(&flushes[0], gone, plan), gone));
        planned(|plan| assert_eq!(cached.done(&flushes[1], gone, plan), told));
    }
}

/// Completes an I/O successfully and returns the I/Os that follow.
fn ended<C: Cache>(cached: &mut Cached<C>, io: &Planned) -> Vec<Planned> {
    planned(|plan| assert_eq!(cached.done(io, Ok(()), plan), Ok(())))
}

#[test]
fn a_read_issued_before_a_write_completed_is_not_copied() {
    let mut cached = Cached::new(Lru::new(1), BLOCK as u32, Writing::Back, 1);
    let write = asked(&mut cached, blocks(0, Op::Write, 7, 1));
    let late = asked(&mut cached, blocks(0, Op::Read, 7, 1));
    assert_eq!(late[0].lane, DISK);
    ended(&mut cached, &write[0]);
    ios(&mut cached, blocks(0, Op::Write, 8, 1)); // evicts block 7
    assert_eq!(asked(&mut cached, blocks(0, Op::Read, 7, 1))[0].lane, DISK);
    assert_eq!(ended(&mut cached, &late[0]), []);
}

#[test]
fn a_block_is_written_back_once_after_its_last_write() {
    let mut cached = Cached::new(Lru::new(1), BLOCK as u32, Writing::Back, 1);
    ios(&mut cached, blocks(0, Op::Write, 7, 1));
    let parts = [0, 512].map(|at| asked(&mut cached, request(0, Op::Write, 7 * BLOCK + at, 512)));
    assert_eq!(asked(&mut cached, blocks(0, Op::Write, 8, 1)).len(), 1, "7 is written to");
    assert_eq!(ended(&mut cached, &parts[0][0]), []);
    let leaves = ended(&mut cached, &parts[1][0]);
    assert_eq!((leaves.len(), leaves[0].op, leaves[0].offset), (1, Op::Read, 0));
    // The block is cached again, written, and evicted again while its old content is being written
    // to the disk.
    let old = ended(&mut cached, &leaves[0]);
    assert_eq!((old.len(), old[0].lane), (1, DISK));
    let part = asked(&mut cached, request(0, Op::Write, 7 * BLOCK, 512));
    ended(&mut cached, &part[0]);
    assert_eq!(asked(&mut cached, blocks(0, Op::Write, 9, 1)).len(), 1, "one at a time");
    let again = ended(&mut cached, &old[0]);
    assert_eq!((again.len(), again[0].op, again[0].lane), (1, Op::Read, FLASH));
}

#[test]
fn a_lost_flash_is_used_only_for_dirty_blocks() {
    let gone = Err(Fault::Gone);
    let mut cached = Cached::new(Lru::new(8), BLOCK as u32, Writing::Back, 1);
    for key in 1..=3 {
        ios(&mut cached, blocks(0, Op::Read, key, 1));
    }
    ios(&mut cached, blocks(0, Op::Write, 4, 1));
    // As soon as the flash has reported that it is gone, clean blocks are read from the disk.
    let first = asked(&mut cached, blocks(0, Op::Read, 1, 1));
    assert_eq!(first[0].lane, FLASH);
    let instead = planned(|plan| assert_eq!(cached.done(&first[0], gone, plan), Ok(())));
    assert_eq!((instead[0].lane, ended(&mut cached, &instead[0])), (DISK, vec![]));
    for op in [Op::Read, Op::Write] {
        for key in [2, 3, 9] {
            let io = asked(&mut cached, blocks(0, op, key, 1));
            assert_eq!((io.len(), io[0].lane, ended(&mut cached, &io[0])), (1, DISK, vec![]));
        }
    }
    // Data that was only on the flash is lost, which is reported.
    let lost = asked(&mut cached, blocks(0, Op::Read, 4, 1));
    assert_eq!(lost[0].lane, FLASH);
    assert_eq!(planned(|plan| assert_eq!(cached.done(&lost[0], gone, plan), gone)), []);
    // After the whole block is written again, it is on the disk.
    let again = asked(&mut cached, blocks(0, Op::Write, 4, 1));
    let instead = planned(|plan| assert_eq!(cached.done(&again[0], gone, plan), Ok(())));
    assert_eq!((instead[0].lane, ended(&mut cached, &instead[0])), (DISK, vec![]));
    assert_eq!(asked(&mut cached, blocks(0, Op::Read, 4, 1))[0].lane, DISK);
}

#[test]
fn new_blocks_bypass_the_cache_if_too_many_are_being_written_back() {
    let mut cached = Cached::new(Lru::new(1), BLOCK as u32, Writing::Back, 1);
    // One block is in the cache, and sixteen are on their way to the disk.
    for key in 0..17 {
        asked(&mut cached, blocks(0, Op::Write, key, 1));
    }
    let plan = asked(&mut cached, blocks(0, Op::Write, 99, 1));
    assert_eq!((plan.len(), plan[0].lane, cached.figures().blocks_past), (1, DISK, 1));
}

#[test]
fn writes_of_part_of_a_block_that_is_not_cached_are_counted() {
    let mut cached = Cached::new(Lru::new(4), BLOCK as u32, Writing::Back, 1);
    let part = |key: u64| request(0, Op::Write, key * BLOCK + 512, 512);
    let counted = |cached: &Cached<_>| {
        let figures = cached.figures();
        (figures.blocks_written, figures.blocks_partial)
    };
    assert_eq!(asked(&mut cached, part(7))[0].lane, DISK);
    assert_eq!(counted(&cached), (1, 1));
    // The first and the last block are written in part, the one between them completely.
    asked(&mut cached, request(0, Op::Write, 20 * BLOCK + 512, 2 * BLOCK));
    assert_eq!(counted(&cached), (4, 3));
    let first = asked(&mut cached, blocks(0, Op::Write, 9, 1));
    ended(&mut cached, &first[0]);
    assert_eq!(asked(&mut cached, part(9))[0].lane, FLASH);
    assert_eq!(counted(&cached), (6, 3));
}

#[test]
fn a_failed_write_back_is_retried_when_a_place_is_needed() {
    let media = Err(Fault::Media);
    // Either the read from the flash or the write to the disk fails.
    for failing in [FLASH, DISK] {
        let mut cached = Cached::new(Lru::new(1), BLOCK as u32, Writing::Back, 1);
        for key in 0..17 {
            for io in asked(&mut cached, blocks(0, Op::Write, key, 1)) {
                let is_destage = io.op == Op::Read;
                let outcome = if is_destage && failing == FLASH { media } else { Ok(()) };
                let next = planned(|plan| assert_eq!(cached.done(&io, outcome, plan), outcome));
                for io in next {
                    assert_eq!((io.lane, failing), (DISK, DISK));
                    planned(|plan| assert_eq!(cached.done(&io, media, plan), media));
                }
            }
        }
        assert_eq!(cached.figures().blocks_past, 0);
        // There is no place for a new block, so the oldest of the remaining blocks are written back
        // again, one at a time.
        let past = asked(&mut cached, blocks(0, Op::Write, 99, 1));
        let (places, lanes): (Vec<u64>, Vec<Lane>) =
            past.iter().map(|io| (io.offset / BLOCK, io.lane)).unzip();
        assert_eq!((places, lanes), (vec![0, 99], vec![FLASH, DISK]));
        let leaves = ended(&mut cached, &past[0]);
        assert_eq!((leaves.len(), leaves[0].lane, leaves[0].offset), (1, DISK, 0));
        ended(&mut cached, &leaves[0]);
        let taken_in = asked(&mut cached, blocks(0, Op::Write, 99, 1));
        let lanes: Vec<Lane> = taken_in.iter().map(|io| io.lane).collect();
        assert!(lanes.iter().all(|&lane| lane == FLASH), "{taken_in:?}");
    }
}

#[test]
fn writes_that_wait_for_one_block_do_not_wait_for_another() {
    let mut cached = Cached::new(Lru::new(4), BLOCK as u32, Writing::Back, 1);
    let first = [7, 8].map(|key| asked(&mut cached, blocks(0, Op::Write, key, 1)));
    let part = |key, at| request(0, Op::Write, key * BLOCK + at, 512);
    for key in [7, 8, 7] {
        assert_eq!(asked(&mut cached, part(key, 512)), []);
    }
    let after = |cached: &mut Cached<_>, io: &Planned| -> Vec<u64> {
        ended(cached, io).iter().map(|io| io.offset).collect()
    };
    assert_eq!(after(&mut cached, &first[1][0]), [BLOCK + 512]);
    assert_eq!(after(&mut cached, &first[0][0]), [512, 512]);
}

#[test]
fn a_store_opens_without_its_flash_unless_it_writes_back() {
    let gone = Err(Fault::Gone);
    for (writing, told) in
        [(Writing::Back, gone), (Writing::Through, Ok(())), (Writing::Around, Ok(()))]
    {
        let mut cached = Cached::new(Lru::new(4), BLOCK as u32, writing, 1);
        let opens = asked(&mut cached, request(0, Op::Open, 0, 0));
        assert_eq!(opens.iter().map(|io| io.lane).collect::<Vec<_>>(), [DISK, FLASH]);
        planned(|plan| assert_eq!(cached.done(&opens[0], gone, plan), gone));
        planned(|plan| assert_eq!(cached.done(&opens[1], gone, plan), told));
    }
}

/// Records finished requests, and counts I/Os by lane.
#[derive(Default)]
struct Count {
    finished: Vec<u64>,
    ios: [u64; 2],
}

impl Observer for Count {
    fn io(&mut self, done: &Completion) {
        self.ios[usize::from(done.io.lane)] += 1;
    }
    fn finished(&mut self, now: Nanos, done: &Done) {
        assert!(done.wait <= now - done.request.at);
        self.finished.push(done.request.id);
    }
}

#[test]
fn every_request_finishes_once_and_a_warm_cache_relieves_the_disk() {
    let mut state = 1;
    let requests: Vec<Request> = (0..4000)
        .map(|n| {
            let dice = forebay_testing::random(&mut state) >> 8;
            let op = if dice.is_multiple_of(3) { Op::Write } else { Op::Read };
            Request { id: n, ..blocks(n * 100_000, op, (dice >> 8) % 64, 1 + (dice >> 16) % 8) }
        })
        .collect();
    for writing in [Writing::Back, Writing::Through, Writing::Around] {
        let cached = Cached::new(Lru::new(128), BLOCK as u32, writing, 1);
        let lane = || BlockLayer::new(Noop::default(), Limits::default());
        let mut policy = Placed::over(cached, vec![lane(), lane()]);
        let mut devices = [Fixed::new(5e3).unwrap(), Fixed::new(1e5).unwrap()];
        let mut workload = Open::new(requests.clone(), Intensity::RECORDED);
        let mut count = Count::default();
        simulate::run(&mut policy, &mut devices, &mut workload, &mut count);
        count.finished.sort_unstable();
        assert!(count.finished == (0..4000).collect::<Vec<_>>(), "{writing:?}");
        match writing {
            Writing::Back => assert!(count.ios[0] < 100, "{:?}", count.ios),
            Writing::Through => assert!((1000..2000).contains(&count.ios[0]), "{:?}", count.ios),
            Writing::Around => assert!(count.ios[0] > 2000, "{:?}", count.ios),
        }
    }
}

/// Returns a cache with an existing log.
fn surviving(frames: u32) -> Cached<Lru> {
    let cached = Cached::new(Lru::new(frames), BLOCK as u32, Writing::Back, 1);
    let mut cached = cached.surviving(Bound::default());
    cached.survival.as_mut().expect("it has a log").log.open_empty();
    cached
}

/// Executes `request` and everything that follows; flushes of the disk end with `flushes`. Returns
/// the I/Os.
fn all(cached: &mut Cached<Lru>, request: Request, flushes: Outcome) -> Vec<(Lane, Op)> {
    let (mut all, mut queue) = (Vec::new(), VecDeque::from(asked(cached, request)));
    while let Some(io) = queue.pop_front() {
        all.push((io.lane, io.op));
        let outcome = if (io.lane, io.op) == (DISK, Op::Flush) { flushes } else { Ok(()) };
        queue.extend(planned(|plan| {
            let _ = cached.done(&io, outcome, plan);
        }));
    }
    all
}

#[test]
fn blocks_that_a_disk_may_have_lost_are_written_back_again() {
    let mut cached = surviving(1);
    let flush = request(0, Op::Flush, 0, 0);
    all(&mut cached, blocks(0, Op::Write, 7, 1), Ok(()));
    let flushed = all(&mut cached, flush, Ok(()));
    assert_eq!(flushed, [(DISK, Op::Flush), (FLASH, Op::Flush), (FLASH, Op::Write)]);
    let left = all(&mut cached, blocks(0, Op::Write, 8, 1), Ok(()));
    assert_eq!(left, [(FLASH, Op::Read), (FLASH, Op::Write), (DISK, Op::Write)]);
    let state = |cached: &Cached<Lru>| {
        let leaving = cached.leaving.iter();
        leaving.map(|it| (it.key, it.begun, it.copied)).collect::<Vec<_>>()
    };
    assert_eq!(state(&cached), [(7, true, true)], "its place is named still");
    let failed = all(&mut cached, flush, Err(Fault::Media));
    assert_eq!(failed, [(DISK, Op::Flush), (FLASH, Op::Flush)], "and no record");
    assert_eq!(state(&cached), [(7, false, false)]);
    let again = planned(|plan| cached.destage_again(plan));
    assert_eq!((again.len(), again[0].lane, again[0].op), (1, FLASH, Op::Read));
    for io in again {
        let back = planned(|plan| assert_eq!(cached.done(&io, Ok(()), plan), Ok(())));
        planned(|plan| assert_eq!(cached.done(&back[0], Ok(()), plan), Ok(())));
    }
    all(&mut cached, flush, Ok(()));
    assert_eq!((state(&cached), cached.free.len()), (Vec::new(), 1));
}
