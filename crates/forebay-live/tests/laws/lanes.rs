//! Tests the laws of contents on lanes that transfer real bytes: files through each driver, and
//! emulated devices with bytes in memory and in files. Also tests wakers.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forebay_core::catalog::{DeviceSet, FlashLane, build, build_placed};
use forebay_core::device::fixed::Fixed;
use forebay_core::stack::Blocks;
use forebay_core::stack::placed::Placed;
use forebay_core::{Flags, Nanos, Op, Policy, Request, Workload};
use forebay_live::{
    Emulated, LEN_MAX, Lanes, Sparse, Store, Target, TargetOptions, Threads, Uring, Waker,
    WallClock, run,
};

use crate::laws::oracle::{Mix, Oracle};

const MIB: u64 = 1 << 20;
/// The number of disks; the flash follows them.
const DISKS: u16 = 2;

const SPECS: &[&str] = &[
    "noop",
    "cfq",
    "cache:size-mib=1",
    "cache:size-mib=1:write=through:block-kib=8",
    "bid-hybrid:migrate=yes:period-s=0.002:hot=1:extent-kib=16:size-mib=1",
    "miser:cmin=30000:delta-ms=20:depth=4:over=cache+size-mib=1+disk=deadline",
];

fn policy(spec: &str) -> Box<dyn Policy> {
    let flash = Some(FlashLane { len_max: LEN_MAX, capacity_bytes: MIB });
    let lanes = DeviceSet {
        disks: DISKS,
        disk_len_max: LEN_MAX,
        disk_bytes: 1 << 40,
        flash,
        restarts: false,
        costs: [None; 2],
    };
    // Files may require larger blocks than those of the oracle.
    let policy = build_placed(spec, &lanes).unwrap();
    Box::new(Placed::new(Blocks::new(4096), [(policy, DISKS + 1)]))
}

/// Creates new files of 2 MiB each; the last one is for the flash.
fn targets(folder: &Path) -> Vec<Target> {
    let how = TargetOptions { writes: true, overwrite: true, need_bytes: 2 * MIB, direct: true };
    let open = |lane| {
        let path = folder.join(format!("lane{lane}"));
        std::fs::write(&path, vec![0; 2 * MIB as usize]).unwrap();
        Target::open(&path, how).unwrap()
    };
    (0..=DISKS).map(open).collect()
}

fn files(folder: &Path) -> Vec<Box<dyn Store>> {
    targets(folder);
    let open = |lane| {
        let mut options = std::fs::File::options();
        options.read(true).write(true).open(folder.join(format!("lane{lane}"))).unwrap()
    };
    (0..=DISKS).map(|lane| Box::new(open(lane)) as Box<dyn Store>).collect()
}

fn emulated(stores: Vec<Box<dyn Store>>) -> Box<dyn Lanes> {
    let devices = (0..=DISKS).map(|_| Fixed::new(50_000.0).unwrap()).collect();
    Box::new(Emulated::new(devices, WallClock::start()).storing(stores))
}

#[test]
fn reads_on_real_lanes_return_the_last_write() {
    let folder = tempfile::tempdir().unwrap();
    let (mut checked, mut kinds) = (0, 0);
    for (seed, spec) in (0..).zip(SPECS) {
        let mut all: Vec<(&str, Box<dyn Lanes>)> = vec![
            ("threads", Box::new(Threads::new(targets(folder.path()), 8).unwrap())),
            (
                "emulated, in memory",
                emulated(vec![
                    Box::new(Sparse::new()),
                    Box::new(Sparse::new()),
                    Box::new(Sparse::new()),
                ]),
            ),
            ("emulated, in files", emulated(files(folder.path()))),
        ];
        match Uring::new(targets(folder.path()), 8) {
            Ok(uring) => all.push(("io_uring", Box::new(uring))),
            Err((error, _)) => forebay_testing::skipped(&format!("io_uring: {error}")),
        }
        kinds = all.len() as u64;
        for (name, mut lanes) in all {
            if name == "emulated, in files" || name == "io_uring" {
                // The files contain the data of earlier runs, so new ones are created.
                drop(targets(folder.path()));
            }
            let mix =
                Mix { disks: DISKS, sectors: 4096, unit: 8, trims: false, anything_from: 4096 };
            let (mut policy, mut oracle) = (policy(spec), Oracle::new(mix, 600, seed));
            run(&mut *policy, &mut *lanes, &mut oracle, &mut ()).unwrap();
            oracle.settle();
            run(&mut *policy, &mut *lanes, &mut oracle, &mut ()).unwrap();
            assert_eq!((oracle.outstanding(), oracle.failed), (0, 0), "{spec}, {name}");
            checked += oracle.checked;
        }
    }
    assert!(checked > 50_000 * kinds, "{checked} sectors are too few");
}

/// Requests that another thread adds; the workload ends when `over` is set.
struct Brought {
    requests: Arc<Mutex<Vec<Request>>>,
    over: Arc<AtomicBool>,
}

impl Workload for Brought {
    fn peek(&self) -> Option<Nanos> {
        self.requests.lock().unwrap().last().map(|_| Nanos::ZERO)
    }
    fn take(&mut self) -> Request {
        self.requests.lock().unwrap().pop().unwrap()
    }
    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }
}

/// Tests that a run continues as long as its workload does, even if nothing is in flight, and that
/// a waker ends the driver's wait.
#[test]
fn a_workload_from_outside_is_waited_for_and_wakes_the_driver() {
    let folder = tempfile::tempdir().unwrap();
    let mut all: Vec<Box<dyn Lanes>> = vec![
        Box::new(Threads::new(targets(folder.path()), 8).unwrap()),
        emulated(files(folder.path())),
    ];
    all.extend(
        Uring::new(targets(folder.path()), 8).ok().map(|one| Box::new(one) as Box<dyn Lanes>),
    );
    for mut lanes in all {
        let (requests, over) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let waker: Waker = lanes.waker().unwrap();
        let (bring, end) = (Arc::clone(&requests), Arc::clone(&over));
        let outside = std::thread::spawn(move || {
            for id in 0..20 {
                let (at, offset, len, flags) = (Nanos::ZERO, id * 4096, 4096, Flags::NONE);
                let (op, stream, lane) = (Op::Read, 0, 0);
                bring.lock().unwrap().push(Request {
                    at,
                    offset,
                    id,
                    len,
                    stream,
                    lane,
                    op,
                    flags,
                });
                waker.wake();
                std::thread::sleep(Duration::from_millis(1));
            }
            end.store(true, Ordering::SeqCst);
            waker.wake();
        });
        let mut workload = Brought { requests, over };
        let mut seen = Seen(0);
        run(&mut *build("noop", LEN_MAX).unwrap(), &mut *lanes, &mut workload, &mut seen).unwrap();
        outside.join().unwrap();
        assert_eq!(seen.0, 20);
        // Without a waker, this loop would never end.
        let (waker, done) = (lanes.waker().unwrap(), Arc::new(AtomicBool::new(false)));
        let ended = Arc::clone(&done);
        let outside = std::thread::spawn(move || {
            while !ended.load(Ordering::SeqCst) {
                waker.wake();
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        for _ in 0..5 {
            lanes.proceed(Nanos::MAX).unwrap();
            lanes.reap(Nanos::MAX, &mut Vec::new()).unwrap();
        }
        done.store(true, Ordering::SeqCst);
        outside.join().unwrap();
    }
}

struct Seen(u64);

impl forebay_core::Observer for Seen {
    fn finished(&mut self, _now: Nanos, done: &forebay_core::Done) {
        assert_eq!(done.outcome, Ok(()));
        self.0 += 1;
    }
}

impl forebay_live::Watch for Seen {}
