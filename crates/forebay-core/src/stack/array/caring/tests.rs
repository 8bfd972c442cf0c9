use super::super::level::Level;
use super::*;
use crate::catalog::build;
use crate::contract::{
    Bytes, Completion, Cx, Fault, Finished, Flags, Lane, Mechanics, Null, Op, Policy, Request,
};
use crate::stack::placed::Placed;

/// The duration of an I/O.
const SERVICE: Nanos = Nanos::from_millis(10);

/// An array above drives that do one I/O at a time. The first drive is gone.
struct Rebuild {
    policy: Placed<Array, Box<dyn Policy + Send>>,
    now: Nanos,
    busy: Vec<Option<(Nanos, Request)>>,
}

impl Rebuild {
    fn new(array: Array) -> Rebuild {
        let lanes = array.lanes();
        let below = (0..lanes).map(|_| build("noop", 1 << 20).unwrap()).collect();
        let policy = Placed::over(array, below);
        Rebuild { policy, now: Nanos::ZERO, busy: vec![None; lanes] }
    }

    fn call(&mut self, call: impl FnOnce(&mut dyn Policy, &mut Cx<'_>)) {
        let (now, mut finished) = (self.now, Finished::new());
        call(&mut self.policy, &mut Cx { now, slots: &mut Null, finished: &mut finished });
        for lane in 0..self.busy.len() {
            if self.busy[lane].is_none() {
                let io = self.policy.dispatch(now, lane as Lane);
                self.busy[lane] = io.map(|io| (now + SERVICE, io));
            }
        }
    }

    /// Runs until nothing is left to do. Returns the time that it took.
    fn run(mut self) -> (Nanos, Array) {
        let unit_bytes = self.policy.placement().geometry().unit_bytes();
        for unit in 0..self.busy.len() as u64 {
            // Reads all of these units, so that some read touches the missing drive.
            let (at, offset, len) = (self.now, unit * unit_bytes, unit_bytes as u32);
            let (op, flags) = (Op::Read, Flags::NONE);
            let read = Request { at, offset, id: unit, len, stream: 0, lane: 0, op, flags };
            self.call(|policy, cx| policy.submit(cx, read, Bytes::NONE));
        }
        loop {
            let ends = self.busy.iter().flatten().map(|(end, _)| *end).min();
            let due = self.policy.wakeup();
            let Some(next) = ends.into_iter().chain(due).min() else { break };
            self.now = self.now.max(next);
            if due.is_some_and(|due| due <= self.now) {
                self.call(|policy, cx| policy.wake(cx));
            }
            for lane in 0..self.busy.len() {
                let Some((end, io)) = self.busy[lane].filter(|(end, _)| *end <= self.now) else {
                    continue;
                };
                self.busy[lane] = None;
                let outcome = if lane == 0 { Err(Fault::Gone) } else { Ok(()) };
                let io = Request { lane: lane as Lane, ..io };
                let (started, mechanics) = (end - SERVICE, Mechanics::default());
                let done = Completion { io, started, at: self.now, mechanics, outcome };
                self.call(|policy, cx| policy.complete(cx, &done));
            }
        }
        let now = self.now;
        (now, self.policy.into_placement())
    }
}

/// Returns a full array on drives of this size, whose capacity leaves out `spares` drives.
fn full(drives: u16, drive_mib: u64, spares: u16) -> Array {
    let sizes = vec![drive_mib << 20; drives.into()];
    let geometry =
        Geometry::sparing(Geometry::sample(drives), Level::RAID6, &sizes, spares).unwrap();
    Array::new(geometry, Level::RAID6).filled(geometry.units)
}

#[test]
fn a_full_array_is_rebuilt_on_its_spare_room_and_faster_on_more_drives() {
    let mut per_chunk = Vec::new();
    for drives in [8, 16, 24] {
        let array = full(drives, 9, 1);
        let chunks = array.named(0);
        let (time, array) = Rebuild::new(array).run();
        assert_eq!(array.room.lacking, 0, "{drives} drives");
        let free = (1..drives.into()).map(|lane| array.drives.free(lane));
        let uneven = free.clone().max().unwrap() - free.min().unwrap();
        assert!(uneven <= 48, "all drives took part: {uneven}");
        per_chunk.push(time.0 / u64::from(chunks));
        println!("{drives} drives: {chunks} chunks in {} ms", time.0 / 1_000_000);
    }
    // Two or four units are in progress at a time, and share some drives.
    assert!(per_chunk[1] * 10 < per_chunk[0] * 6, "{per_chunk:?}");
    assert!(per_chunk[2] * 10 < per_chunk[0] * 5, "{per_chunk:?}");
}

#[test]
fn without_spare_room_a_full_array_waits_for_a_new_drive() {
    let array = full(8, 24, 0);
    let chunks = u64::from(array.named(0));
    let (_, array) = Rebuild::new(array).run();
    assert!(array.room.lacking > chunks / 2, "{} of {chunks}", array.room.lacking);
}
