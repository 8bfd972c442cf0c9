//! Tests that the simulator's loop does not allocate: buffers soon reach their final size and are
//! reused.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use forebay_core::catalog::{
    DeviceSet, FlashLane, Listed, PLACEMENTS, POLICIES, PolicyVisitor, SHAPERS, YARDSTICKS,
    is_yardstick, with_measured, with_placed, with_policy,
};
use forebay_core::device::list::DeviceModel;
use forebay_core::{Done, Nanos, Observer, Policy, simulate};

use crate::load;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator with a counter of allocations.
struct Counting;

// SAFETY: every call is forwarded to the system's allocator unchanged. The counter has a constant
// initial value and no destructor, so accessing it neither allocates nor fails.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller upholds the contract of `realloc`.
        unsafe { System.realloc(block, layout, size) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

/// Records the number of allocations when certain numbers of requests have completed.
#[derive(Default)]
struct Marks {
    finished: u64,
    from: u64,
    to: u64,
}

impl Observer for Marks {
    fn finished(&mut self, _now: Nanos, _done: &Done) {
        self.finished += 1;
        match self.finished {
            100_000 => self.from = allocations(),
            // Before the load ends: as the last requests complete, the free lists grow to their
            // maximum.
            175_000 => self.to = allocations(),
            _ => {}
        }
    }
}

struct Counted;

impl PolicyVisitor for Counted {
    type Out = Marks;
    fn visit<P: Policy + Send + 'static>(self, mut policy: P) -> Marks {
        let mut marks = Marks::default();
        let mut load = load::Streams::new(200_000);
        let mut disks = vec![load::disk(); policy.servers().len().max(1)];
        simulate::run(&mut policy, &mut disks, &mut load, &mut marks);
        marks
    }
}

#[test]
fn a_warm_run_allocates_nothing() {
    let variants = [
        "split:cmin=80:delta-ms=300",
        "wf2q:cmin=80:delta-ms=300",
        "sfq:cmin=80:delta-ms=300",
        "miser:cmin=80:delta-ms=300",
        "promised:cmin=80/0:delta-ms=300",
        "token-bucket:rate=100000",
        "dmclock:reservation=2:limit=5",
    ];
    let listed = [POLICIES, SHAPERS, YARDSTICKS].into_iter().flatten().map(Listed::shortest_spec);
    let lanes = DeviceSet { disks: 1, disk_len_max: u32::MAX, ..DeviceSet::default() };
    let disk = DeviceModel::Hdd(load::disk());
    for spec in listed.chain(variants.map(str::to_string)) {
        let before = allocations();
        let marks = match is_yardstick(&spec) {
            true => with_measured(&spec, &lanes, &disk, Counted).unwrap(),
            false => with_policy(&spec, u32::MAX, Counted).unwrap(),
        };
        assert!(marks.from > before, "the counter counts");
        assert_eq!(marks.finished, 200_000);
        assert_eq!(marks.to - marks.from, 0, "{spec} allocates in its loop");
    }
}

struct Placed;

impl PolicyVisitor for Placed {
    type Out = Marks;
    fn visit<P: Policy + Send + 'static>(self, mut policy: P) -> Marks {
        let mut marks = Marks::default();
        let mut load = load::Streams::new(200_000);
        let mut devices = [DeviceModel::Hdd(load::disk()), DeviceModel::Ssd(load::ssd())];
        simulate::run(&mut policy, &mut devices, &mut load, &mut marks);
        marks
    }
}

/// Mapping tables grow with the number of distinct blocks. They double in size, so growth needs few
/// allocations; nothing else may allocate.
#[test]
fn placements_allocate_only_to_grow_their_tables() {
    let flash = FlashLane { len_max: u32::MAX, capacity_bytes: 32 << 20 };
    let lanes = DeviceSet {
        disks: 1,
        disk_len_max: u32::MAX,
        disk_bytes: 1 << 40,
        flash: Some(flash),
        restarts: false,
        costs: [None; 2],
    };
    let listed = PLACEMENTS.iter().map(|listed| listed.name);
    for spec in listed.chain(["cache:replace=s3fifo"]) {
        let marks = with_placed(spec, &lanes, Placed).unwrap();
        assert_eq!(marks.finished, 200_000);
        // 75,000 requests complete between the two marks.
        assert!(marks.to - marks.from < 60, "{spec}: {} allocations", marks.to - marks.from);
    }
}
