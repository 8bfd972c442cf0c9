//! Tests the order of commands: the catch margin, commands chosen ahead, and the order of
//! admission.

use super::*;

/// Returns a drive without a buffer, after `change` was applied to its queue.
fn queued(change: impl FnOnce(&mut QueueSpec)) -> Drive {
    with(|controller| {
        controller.buffer = None;
        controller.queue = queue(8, 1_000_000);
        change(&mut controller.queue);
    })
}

/// Completes all outstanding commands and returns them with their times in us.
fn drain(drive: &mut Drive) -> Vec<(u64, u64)> {
    let mut done = Vec::new();
    while let Some(at) = drive.next() {
        done.push((drive.finish(at).io.id, at.0 / 1_000));
    }
    done
}

fn start(drive: &mut Drive, us: u64, sectors: &[u64]) {
    for &sector in sectors {
        drive.start(Nanos::from_micros(us), io(Op::Read, sector, 1));
    }
}

/// The sectors of cylinder 1 are skewed by 1 ms (ten sectors), which is the time of the seek.
#[test]
fn a_sector_that_comes_within_the_margin_counts_as_a_turn_later() {
    let order = |margin_us: u64| {
        let mut drive = queued(|queue| queue.catch_margin = Nanos::from_micros(margin_us));
        start(&mut drive, 0, &[10, 113, 140]);
        drain(&mut drive)
    };
    // Sector 10 has passed at 1100 us. The arm is at cylinder 1 at 2100 us, and 113 begins at 2300
    // us.
    assert_eq!(order(200), [(10, 1_110), (113, 2_410), (140, 5_110)]);
    // The drive does not expect to catch 113. After 140 has been read, 113 passes as early as
    // possible.
    assert_eq!(order(201), [(10, 1_110), (140, 5_110), (113, 12_410)]);
    // A margin does not delay an access if no other command is waiting.
    let mut drive = queued(|queue| queue.catch_margin = Nanos::from_millis(9));
    start(&mut drive, 0, &[10, 113]);
    assert_eq!(drain(&mut drive), [(10, 1_110), (113, 2_410)]);
}

#[test]
fn an_arm_that_stays_or_goes_on_needs_no_margin() {
    let mut drive = queued(|queue| queue.catch_margin = Nanos::from_millis(3));
    drive.start(Nanos::ZERO, io(Op::Read, 96, 4));
    start(&mut drive, 0, &[230, 115, 100]);
    // Sector 99 has passed at 10 ms. Sector 100 begins at 11 ms, when the arm arrives at cylinder
    // 1, where it stays to read sector 115. With the margin, sector 230 would have been reached at
    // 15 ms, and it is reached at that time in the end.
    assert_eq!(drain(&mut drive), [(96, 10_010), (100, 11_110), (115, 12_610), (230, 15_110)]);
}

#[test]
fn runs_of_the_cache_are_ranked_with_the_margin_too() {
    let order = |margin_us: u64| {
        let mut drive = with(|controller| {
            controller.buffer = None;
            controller.write_cache = Some(places(2, 8));
            controller.queue =
                QueueSpec { catch_margin: Nanos::from_micros(margin_us), ..queue(8, 1_000_000) };
        });
        drive.start(Nanos::ZERO, io(Op::Read, 10, 1));
        for sector in [113, 160] {
            drive.start(Nanos::ZERO, io(Op::Write, sector, 1));
        }
        drain(&mut drive);
        serve(&mut drive, 1_200, io(Op::Flush, 0, 0))
    };
    // Either the runs are written one directly after the other, or the first is written a
    // revolution later.
    assert_eq!(order(0), 7_100);
    assert_eq!(order(300), 12_400);
}

#[test]
fn commands_chosen_ahead_are_not_revised() {
    let order = |ahead| {
        let mut drive = queued(|queue| queue.ahead = ahead);
        start(&mut drive, 0, &[10, 8, 6, 40]);
        drain(&mut drive)
    };
    assert_eq!(order(0), [(10, 1_110), (40, 4_110), (6, 10_710), (8, 10_910)]);
    // The drive committed to sector 8 when that command arrived, because 10 was already at the
    // media.
    assert_eq!(order(1), [(10, 1_110), (8, 10_910), (40, 14_110), (6, 20_710)]);
    assert_eq!(order(2), [(10, 1_110), (8, 10_910), (6, 20_710), (40, 24_110)]);
}

#[test]
fn a_drive_that_waits_for_the_answer_includes_its_time() {
    let order = |ahead, answer_us| {
        let mut drive = queued(|queue| queue.ahead = ahead);
        start(&mut drive, 0, &[10, 5]);
        let first = drive.next().unwrap();
        let id = drive.finish(first).io.id;
        start(&mut drive, answer_us, &[30, 20]);
        (id, drain(&mut drive))
    };
    // Sector 5 is chosen when 10 completes, although the commands sent in response would be reached
    // sooner.
    assert_eq!(order(0, 1_110), (10, vec![(5, 10_610), (20, 12_110), (30, 13_110)]));
    // When two commands arrive at once, the drive has only the first to choose from. When the host
    // responds, it chooses among both responses and the other command.
    assert_eq!(order(-1, 610), (5, vec![(10, 1_110), (20, 2_110), (30, 3_110)]));
    // If the response arrives later, the choice is final.
    assert_eq!(order(-1, 611), (5, vec![(10, 1_110), (20, 2_110), (30, 3_110)]));
    let mut drive = queued(|queue| queue.ahead = -1);
    start(&mut drive, 0, &[10]);
    start(&mut drive, 100, &[5]);
    drive.finish(drive.next().unwrap());
    start(&mut drive, 1_111, &[30]);
    assert_eq!(drain(&mut drive), [(5, 10_610), (30, 13_110)]);
}

#[test]
fn the_last_write_may_get_the_next_place() {
    let order = |admits, starvation_us| {
        let mut drive = with(|controller| {
            controller.buffer = None;
            controller.write_cache = Some(WriteCacheSpec { admits, ..places(1, 8) });
            controller.queue = queue(8, starvation_us);
        });
        for (ns, sector) in (0..).zip([50, 60, 70, 80, 90]) {
            drive.start(Nanos(ns), io(Op::Write, sector, 1));
        }
        drain(&mut drive).into_iter().map(|(id, _)| id).collect::<Vec<_>>()
    };
    // Sector 50 gets the place at once, and 60 gets it when 50 has been written.
    assert_eq!(order(Admits::Oldest, 1_000_000), [50, 60, 70, 80, 90]);
    assert_eq!(order(Admits::Newest, 1_000_000), [50, 60, 90, 80, 70]);
    // After 70 has waited too long, it is served first.
    assert_eq!(order(Admits::Newest, 6_000), [50, 60, 90, 70, 80]);
}
