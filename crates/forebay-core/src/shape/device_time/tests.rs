use super::*;
use crate::contract::Flags;

const WINDOW: Nanos = Nanos::from_millis(20);

fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

/// Returns a device of 100 IOPS, half of which are promised within 40 ms.
fn device() -> DeviceTime {
    let mut device = DeviceTime::new();
    device.set_unit(ms(10), ms(40), Share::of_parts(1, 2));
    device
}

fn io(id: RequestId, op: Op, len: u32) -> Request {
    let (at, offset, stream, lane, flags) = (Nanos::ZERO, 0, 0, 0, Flags::NONE);
    Request { at, offset, id, len, stream, lane, op, flags }
}

fn small(id: RequestId) -> Request {
    io(id, Op::Read, 4096)
}

#[test]
fn nothing_is_held_back_for_ever_for_an_io_that_is_stuck() {
    let mut device = device();
    device.enter(ms(0), &small(1), Some(ms(40)));
    let has_room = |at| device.has_room(at, ms(10), None, Op::Read, WINDOW);
    assert!(has_room(ms(10)), "it is in time behind both");
    assert!(!has_room(ms(21)) && !has_room(ms(60)), "late, but not by as much as it had time");
    let given_up = device.given_up_at(ms(60), WINDOW).unwrap();
    assert!(has_room(given_up) && given_up - ms(80) == Nanos(1), "{given_up}");
}

#[test]
fn a_promised_io_is_reconsidered_when_the_one_before_it_is_late() {
    let mut device = device();
    device.enter(ms(0), &small(1), Some(ms(40)));
    let has_room = |at| device.has_room(at, ms(10), Some(ms(75)), Op::Read, WINDOW);
    assert!(!has_room(ms(35)), "the stuck one would be late");
    let at = device.reconsiders_at(ms(35), ms(75)).unwrap();
    assert!(at == ms(40) + Nanos(1) && has_room(at), "{at}");
}

#[test]
fn without_promises_others_wait_for_one_that_the_drive_passes_over() {
    let mut device = DeviceTime::new();
    device.enter(ms(0), &small(1), None);
    let has_room = |at| device.has_room(at, ms(1), None, Op::Read, WINDOW);
    assert!(has_room(ms(40)) && !has_room(ms(41)) && !has_room(ms(400)));
    assert_eq!(device.given_up_at(ms(41), WINDOW), Some(ms(400) + Nanos(1)));
    assert!(has_room(ms(400) + Nanos(1)), "it may never be answered");
}

#[test]
fn others_get_only_what_promises_leave_while_these_are_inside() {
    let mut device = device();
    device.enter(ms(0), &small(1), Some(ms(1000)));
    let mut entered = 0;
    for at in 0..100 {
        while device.has_room(ms(at), ms(10), None, Op::Read, ms(1000)) {
            entered += 1;
            device.enter(ms(at), &small(2 + entered), None);
        }
    }
    // The device accepts the surplus of 20 ms plus half of 99 ms.
    assert_eq!(entered, 6);
}

#[test]
fn one_stall_is_forgotten() {
    let mut device = device();
    device.enter(ms(0), &io(1, Op::Read, 1 << 20), None);
    device.enter(ms(0), &small(2), Some(ms(40)));
    device.leave(ms(8000), 1, WINDOW);
    device.leave(ms(8000), 2, WINDOW);
    assert_eq!(device.tail(), ms(20), "half of the shortest bound, which it does not exceed");
    let before = device.cost(Op::Read, 1 << 20);
    for nth in 0..1000 {
        let at = ms(8000 + 40 * nth);
        device.enter(at, &small(3 + nth), None);
        device.leave(at + ms(10), 3 + nth, WINDOW);
    }
    assert!(device.tail() < ms(1), "{}", device.tail());
    assert!(device.cost(Op::Read, 1 << 20) <= before.max(ms(21)), "{before}");
    assert_eq!(device.part_bytes(Op::Read, 1 << 20, WINDOW), 512 << 10, "it is tried again");
}

#[test]
fn long_ios_cost_what_they_take_and_small_ones_a_unit() {
    let mut device = device();
    for nth in 0..400 {
        let (at, long) = (ms(100 * nth), 2 * nth);
        device.enter(at, &io(long, Op::Write, 1 << 20), None);
        device.enter(at, &small(long + 1), None);
        device.leave(at + ms(50), long, WINDOW);
        device.leave(at + ms(60), long + 1, WINDOW);
    }
    let cost = device.cost(Op::Write, 1 << 20);
    assert!((48..53).contains(&(cost.0 / 1_000_000)), "{cost}");
    assert_eq!(
        (device.cost(Op::Read, 4096), device.units(Op::Write, 1 << 20, ms(60))),
        (ms(10), 5)
    );
    // The cost of trims is unknown before the first one.
    device.enter(ms(100_000), &io(9000, Op::Trim, 1 << 30), None);
    device.leave(ms(100_400), 9000, WINDOW);
    assert!(device.cost(Op::Trim, 1 << 30) >= ms(399));
}

#[test]
fn a_device_that_is_slower_than_its_capacity_is_charged_for_what_it_takes() {
    let mut device = device();
    let mut at = ms(0);
    // Each I/O takes 50 ms, however long it is; the capacity says 10 ms for small ones.
    for id in 0..2000 {
        let long = id / 16 % 2 == 0;
        let len = if long { 64 << 10 } else { 4096 };
        device.enter(at, &io(id, Op::Read, len), None);
        at += ms(50);
        device.leave(at, id, WINDOW);
    }
    let (small, long) = (device.charge(Op::Read, 4096), device.charge(Op::Read, 64 << 10));
    assert!((49..=51).contains(&(small.0 / 1_000_000)), "{small}");
    assert!((40..=60).contains(&(long.0 / 1_000_000)), "{long}");
    assert_eq!(device.cost(Op::Read, 4096), ms(10), "promises count units");
    assert_eq!(device.small_iops().map(|(capacity, _)| capacity), Some(100.0));
}

#[test]
fn a_client_that_pauses_between_requests_says_nothing_about_the_rate() {
    let mut device = device();
    for id in 0..100 {
        let at = ms(60 * id);
        device.enter(at, &small(id), None);
        device.leave(at + ms(50), id, WINDOW);
    }
    assert_eq!(device.charge(Op::Read, 4096), ms(10));
}

#[test]
fn what_promised_ios_exceed_without_others_leaves_a_quarter_of_the_window() {
    let leaves = |others: bool| {
        let mut device = device();
        for nth in 0..200 {
            let (at, took) = (ms(100 * nth), if nth % 10 == 0 { ms(60) } else { ms(10) });
            if others {
                device.enter(at, &small(1000), None);
            }
            device.enter(at, &small(nth), Some(at + ms(40)));
            device.leave(at + took, nth, WINDOW);
            device.leave(at + took, 1000, WINDOW);
        }
        assert!(device.tail() > WINDOW, "{}", device.tail());
        device.shortened(WINDOW)
    };
    assert_eq!((leaves(false), leaves(true)), (ms(5), ms(0)));
}

#[test]
fn an_io_without_room_because_of_the_tail_is_held_back_by_caution() {
    let mut device = device();
    device.enter(ms(0), &small(0), None);
    device.enter(ms(0), &small(1), Some(ms(40)));
    device.leave(ms(60), 1, WINDOW);
    device.leave(ms(60), 0, WINDOW);
    assert!(device.shortened(WINDOW) < ms(1), "{}", device.tail());
    device.enter(ms(60), &small(2), None);
    let room = |device: &DeviceTime| {
        let asked = (ms(60), ms(10), None, Op::Read, WINDOW);
        let (now, cost, deadline, op, window) = asked;
        let has_room = device.has_room(now, cost, deadline, op, window);
        (has_room, device.is_cautious(now, cost, deadline, op, window))
    };
    assert_eq!(room(&device), (false, true), "the window is two of them");
    device.enter(ms(60), &small(3), None);
    assert_eq!(room(&device), (false, false), "the window is full");
}

#[test]
fn deferred_writes_are_paid_even_if_the_device_is_never_empty() {
    let mut device = device();
    device.enter(ms(0), &small(1), Some(ms(40)));
    device.leave(ms(10), 1, WINDOW);
    // Eight writes that are acknowledged immediately add 10 ms of debt each.
    for id in 2..10 {
        device.enter(ms(10), &io(id, Op::Write, 4096), None);
        device.leave(ms(10), id, WINDOW);
    }
    let owed = device.owed;
    assert!((79..=80).contains(&(owed.0 / 1_000_000)), "{owed}");
    assert_eq!(owed - device.paid_until(ms(50)), owed - ms(40), "the device is empty");
    device.enter(ms(50), &small(10), None);
    assert!(device.owed <= device.paid_until(ms(450)), "{}", device.owed);
    assert!(device.room_at(ms(51), Op::Write, ms(10), WINDOW) > ms(51));
    assert_eq!(device.room_at(ms(51), Op::Read, ms(10), WINDOW), ms(51), "reads owe nothing");
}

#[test]
fn promised_writes_whose_times_vary_defer_nothing() {
    let mut device = device();
    (0..8).for_each(|id| device.enter(ms(0), &io(id, Op::Write, 4096), Some(ms(400))));
    (0..4).for_each(|id| device.leave(ms(0), id, WINDOW));
    (4..8).for_each(|id| device.leave(ms(20 * (id - 3)), id, WINDOW));
    assert_eq!(device.room_at(ms(80), Op::Read, ms(10), WINDOW), ms(80));
}

#[test]
fn deferred_writes_are_owed_before_the_first_promised_io() {
    let mut device = device();
    device.enter(ms(0), &io(1, Op::Write, 4096), None);
    device.leave(ms(0), 1, WINDOW);
    assert_eq!(device.owed, ms(10));
}

#[test]
fn the_owed_share_shrinks_slowly_near_one_that_was_too_low() {
    let mut device = device();
    let late = |device: &mut DeviceTime, at: Nanos, id: RequestId| {
        device.enter(at, &small(id), Some(at + ms(40)));
        device.leave(at + ms(30), id, WINDOW);
    };
    let write = |device: &mut DeviceTime, at: Nanos| {
        device.enter(at, &io(1000, Op::Write, 4096), None);
        let before = device.owed;
        device.leave(at, 1000, WINDOW);
        (device.owed - (before - device.paid_until(at))).0 / 100_000
    };
    late(&mut device, ms(0), 1);
    // How much of a debt of 10 ms is added, in tenths of a millisecond. The share shrinks for 20 s.
    assert_eq!([30, 10_030, 15_030].map(|at| write(&mut device, ms(at))), [100, 50, 25]);
    late(&mut device, ms(15_030), 2);
    late(&mut device, ms(15_060), 3);
    // Owing a quarter was not enough, so the share shrinks quickly only to five eighths, and then
    // slowly.
    let then = [15_090, 19_090, 23_090, 31_090, 63_090].map(|at| write(&mut device, ms(at)));
    assert_eq!(then, [100, 79, 62, 59, 49]);
}

#[test]
fn all_others_wait_for_what_promised_writes_defer() {
    let mut device = device();
    for id in 0..3 {
        device.enter(ms(0), &io(id, Op::Write, 4096), Some(ms(40)));
        device.leave(ms(0), id, WINDOW);
    }
    // One of the three writes takes less than the window, and the device is empty.
    for op in [Op::Read, Op::Write] {
        assert_eq!(device.room_at(ms(0), op, ms(10), WINDOW), ms(20), "{op:?}");
    }
    assert!(device.has_room(ms(0), ms(10), Some(ms(40)), Op::Read, WINDOW), "promised ones do not");
}
