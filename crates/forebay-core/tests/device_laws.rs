//! Tests the laws that every device model obeys for arbitrary I/Os.
//!
//! Time never runs backwards, energy and busy time never decrease, no I/O takes less than its
//! transfer time, each I/O completes exactly once, and the same calls give the same results. This
//! holds even for I/Os far beyond the end of the device.

use forebay_core::device::failing::Failing;
use forebay_core::device::list::DeviceModel;
use forebay_core::device::ssd::Collection;
use forebay_core::{Completion, Device, Flags, Nanos, Op, Request};
use proptest::prelude::*;

use crate::devices::{drives, flash, models};

/// A call: the pause before it in ns, the operation, the offset (`None`: directly after the
/// previous I/O), and the length.
type Step = (u64, u8, Option<u64>, u32);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let pause = prop_oneof![Just(0), 0..20_000_000_u64];
    let offset = prop_oneof![0..5_000_000_000_u64, any::<u64>()];
    let len = prop_oneof![1..1_000_000_u32, (1..64_u32).prop_map(|pages| pages * 4_096), Just(0)];
    let step = (pause, 0..12_u8, prop::option::of(offset), len);
    prop::collection::vec(step, 1..80)
}

fn request(id: u64, (_, op, offset, len): Step, after: u64) -> Request {
    let op = match op {
        0..=5 => Op::Read,
        6 | 7 => Op::Write,
        8 => Op::Flush,
        9 => Op::Trim,
        _ => Op::Park,
    };
    let offset = offset.unwrap_or(after);
    Request { at: Nanos::ZERO, offset, id, len, stream: 0, lane: 0, op, flags: Flags::NONE }
}

/// Returns everything the device reports about itself and about an I/O.
fn says(device: &impl Device, io: &Request, now: Nanos) -> (Nanos, u32, u64, u32, f64, Nanos) {
    let (floor, joules, busy) = (device.floor(io), device.joules(now), device.busy(now));
    (floor, device.cylinders(), device.capacity(), device.len_max(), joules, busy)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// A box around a device, or a failing device without failures, behaves like the device itself.
    #[test]
    fn device_wrappers_change_nothing(steps in steps()) {
        for (name, mut model) in models().into_iter().chain(drives(3)) {
            let mut failing = Failing::new(model.clone(), 1, &[]);
            let mut boxed = Box::new(model.clone());
            let (mut now, mut after) = (Nanos::ZERO, 0);
            for (id, &step) in steps.iter().enumerate() {
                while !model.room() || (id % 3 == 0 && model.next().is_some()) {
                    now = now.max(model.next().unwrap());
                    prop_assert_eq!((failing.next(), boxed.next()), (model.next(), model.next()));
                    let done = model.finish(now);
                    prop_assert_eq!((failing.finish(now), boxed.finish(now)), (done, done), "{}", name);
                }
                prop_assert!(failing.room() && boxed.room());
                let io = request(id as u64, step, after);
                after = io.end() % model.capacity();
                model.start(now, io);
                failing.start(now, io);
                boxed.start(now, io);
                let said = says(&model, &io, now);
                prop_assert_eq!((says(&failing, &io, now), says(&boxed, &io, now)), (said, said));
                prop_assert_eq!((failing.room(), boxed.room()), (model.room(), model.room()));
            }
        }
    }
}

/// Runs `steps` one at a time and checks the laws.
fn play(name: &str, mut device: DeviceModel, steps: &[Step]) -> Vec<Completion> {
    let mut done: Vec<Completion> = Vec::new();
    let (mut now, mut joules, mut busy, mut after) = (Nanos::ZERO, 0.0, Nanos::ZERO, 0);
    let mut cylinder = 0;
    let mut look = |device: &DeviceModel, now: Nanos| {
        let (joules_now, busy_now) = (device.joules(now), device.busy(now));
        assert!(joules_now >= joules, "{name}: energy falls from {joules} to {joules_now}");
        assert!(busy_now >= busy && busy_now <= now, "{name}: busy {busy}, then {busy_now}");
        (joules, busy) = (joules_now, busy_now);
    };
    for (id, &step) in steps.iter().enumerate() {
        now += Nanos(step.0);
        look(&device, now);
        let io = request(id as u64, step, after);
        assert!(device.room(), "{name}: no room while idle");
        device.start(now, io);
        let at = device.next().expect("something was started");
        assert!(at >= now, "{name}: done at {at}, started at {now}");
        for part in [4, 2] {
            look(&device, now + Nanos((at - now).0 / part));
        }
        look(&device, at);
        let completion = device.finish(at);
        look(&device, at);
        assert_eq!((completion.io, completion.started, completion.at), (io, now, at), "{name}");
        assert_eq!(device.next(), None, "{name}: an I/O finishes twice");
        let parts = completion.mechanics;
        assert!(parts.seek + parts.rotation + parts.transfer <= at - now, "{name}: {parts:?}");
        assert!(parts.cylinder_last < device.cylinders().max(1), "{name}: {parts:?}");
        // Drives with controllers also move the head on their own, to read ahead and to write back.
        let moves_alone = name.starts_with("by ");
        assert!(moves_alone || parts.cylinder_from == cylinder, "{name}: {parts:?} of {io:?}");
        cylinder = parts.cylinder_last;
        assert!(device.floor(&io) <= at - now, "{name}: {io:?} beats its floor");
        now = at;
        after = io.end() % device.capacity();
        done.push(completion);
    }
    done
}

proptest! {
    /// A write with FUA completes when it is programmed, which is the earliest time a flush may
    /// complete.
    #[test]
    fn a_flush_of_flash_waits_for_every_write_before_it(
        writes in prop::collection::vec((0u64..1_500, 1u32..40, 0u64..300_000), 1..4),
        preflush: bool,
    ) {
        let ends = |flags| {
            let mut device = flash(Collection::Greedy, 1.0);
            let mut now = Nanos::ZERO;
            for (id, &(page, pages, pause)) in (0..).zip(&writes) {
                now += Nanos(pause);
                let write = request(id, (0, 6, Some(page * 4096), pages * 4096), 0);
                device.start(now, Request { flags, ..write });
            }
            let last = match preflush {
                false => request(9, (0, 8, None, 0), 0),
                true => Request { flags: Flags::PREFLUSH, ..request(9, (0, 6, Some(0), 4096), 0) },
            };
            device.start(now, last);
            let done = std::iter::from_fn(|| device.next().map(|at| device.finish(at)));
            let (last, writes): (Vec<_>, Vec<_>) = done.partition(|done| done.io.id == 9);
            (last[0].at, writes.iter().map(|done| done.at).max().unwrap())
        };
        let ((flushed, accepted), (_, programmed)) = (ends(Flags::NONE), ends(Flags::FUA));
        prop_assert!(flushed >= programmed && accepted < programmed);
        // A flush, unlike a write with preflush, has nothing else to wait for.
        prop_assert!(preflush || flushed == programmed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_model_keeps_the_laws(steps in steps()) {
        for (name, model) in models().into_iter().chain(drives(1)) {
            let first = play(name, model.clone(), &steps);
            prop_assert_eq!(first.len(), steps.len());
            prop_assert_eq!(first, play(name, model, &steps), "{} is not repeatable", name);
        }
    }

    #[test]
    fn every_queue_keeps_the_laws(steps in steps()) {
        for (name, model) in drives(5) {
            let first = play_queued(name, model.clone(), &steps, 5);
            prop_assert_eq!(first.len(), steps.len());
            prop_assert_eq!(first, play_queued(name, model, &steps, 5), "{} not repeatable", name);
        }
    }
}

/// Runs `steps` as fast as the queue accepts them and checks the laws.
fn play_queued(
    name: &str,
    mut device: DeviceModel,
    steps: &[Step],
    depth: usize,
) -> Vec<Completion> {
    let mut done: Vec<Completion> = Vec::new();
    let (mut now, mut joules, mut busy, mut after) = (Nanos::ZERO, 0.0, Nanos::ZERO, 0);
    let (mut outstanding, mut next, mut floor) = (0, 0, Nanos::ZERO);
    while next < steps.len() || outstanding > 0 {
        assert_eq!(device.room(), outstanding < depth, "{name}: depth is not respected");
        assert_eq!(device.next().is_some(), outstanding > 0, "{name}: something is forgotten");
        let arrival = steps.get(next).map(|step| now + Nanos(step.0 / 8));
        let completion = device.next();
        let take =
            device.room() && arrival.is_some() && completion.is_none_or(|at| arrival <= Some(at));
        now = if take { arrival.unwrap() } else { completion.unwrap() };
        let (joules_now, busy_now) = (device.joules(now), device.busy(now));
        assert!(joules_now >= joules - 1e-9, "{name}: energy falls to {joules_now}");
        assert!(busy_now >= busy && busy_now <= now, "{name}: busy {busy}, then {busy_now}");
        (joules, busy) = (joules_now, busy_now);
        if take {
            let io = request(next as u64, steps[next], after);
            after = io.end() % device.capacity();
            device.start(now, io);
            (outstanding, next) = (outstanding + 1, next + 1);
            assert!(device.next() >= Some(now), "{name}: done before it starts");
        } else {
            let completion = device.finish(now);
            let parts = completion.mechanics;
            let time = completion.at - completion.started;
            assert!(parts.cylinder_last < device.cylinders(), "{name}: {parts:?}");
            assert!(done.iter().all(|other| other.io.id != completion.io.id), "{name}: done twice");
            assert!(parts.transfer <= time, "{name}: {parts:?} in {time}");
            floor += device.floor(&completion.io);
            assert!(device.busy(now) >= floor, "{name}: {:?} beats its floor", completion.io);
            outstanding -= 1;
            done.push(completion);
        }
    }
    done
}
