//! Fits simulated, noisy fio measurements of known disks and checks that the fits recover them.

use super::*;
use crate::DiskSpec;
use forebay_core::device::drive::Drive;
use forebay_core::{Device, DeviceModel, Flags, Nanos, Op, Request};

/// A disk on a host that notices completions 5 to 25 us late, and occasionally 2 ms late.
struct Bench {
    disk: DeviceModel,
    /// The same disk without read-ahead, as after `hdparm -A0`.
    bare: DeviceModel,
    now: u64,
    state: u64,
}

impl Bench {
    fn new(name: &str) -> Bench {
        let DiskSpec::Drive(mut drive) = crate::open_spec(name).unwrap().1 else {
            panic!("no drive")
        };
        drive.controller.buffer = None;
        drive.controller.queue.depth = 1;
        let bare = DeviceModel::Drive(Box::new(Drive::new(&drive).unwrap()));
        let disk = crate::open(&format!("{name}:plain")).unwrap().model;
        Bench { disk, bare, now: 0, state: 7 }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 11) % below.max(1)
    }

    fn read(&mut self, offset: u64, len: u32) -> Sample {
        let io = Request {
            at: Nanos(self.now),
            offset,
            id: 0,
            len,
            stream: 0,
            lane: 0,
            op: Op::Read,
            flags: Flags::NONE,
        };
        self.disk.start(Nanos(self.now), io);
        let done = self.disk.next().unwrap();
        self.disk.finish(done);
        let late = if self.random(500) == 0 { 2_000_000 } else { 5_000 + self.random(20_000) };
        let latency = done.0 - self.now + late;
        self.now = done.0 + late;
        Sample { offset, len, latency_ns: latency as f64 }
    }

    fn measure(&mut self) -> Measurements {
        let size = self.disk.capacity();
        let mut all = Measurements::default();
        for spot in 0..120 {
            let start = size / 120 * spot / 4096 * 4096;
            all.zones
                .push((0..400).map(|block| self.read(start + block * 131_072, 131_072)).collect());
        }
        all.back.push(
            (1..500).map(|block| self.read(size / 8192 * 4096 - block * 4096, 4096)).collect(),
        );
        std::mem::swap(&mut self.disk, &mut self.bare);
        for gap in 1..=60_u64 {
            let start = size / 100 * gap / 4096 * 4096;
            all.near.push(
                (0..40).map(|step| self.read(start + step * (gap + 1) * 4096, 4096)).collect(),
            );
        }
        std::mem::swap(&mut self.disk, &mut self.bare);
        let whole = (0..20_000).map(|_| self.random(size / 4096 - 1) * 4096).collect::<Vec<_>>();
        all.seek.push(whole.into_iter().map(|offset| self.read(offset, 4096)).collect());
        for window in 0..20 {
            let start = size / 21 * window / 4096 * 4096;
            let near: Vec<u64> =
                (0..500).map(|_| start + self.random(size / 100 / 4096) * 4096).collect();
            all.seek.push(near.into_iter().map(|offset| self.read(offset, 4096)).collect());
        }
        all
    }
}

fn recovered(name: &str) -> (Bench, Fitted) {
    let mut bench = Bench::new(name);
    let heads = if name == "sata250" { 4 } else { 2 };
    let known =
        DriveFacts { name: "mine".to_string(), capacity_bytes: bench.disk.capacity(), heads };
    let fitted = fit(&bench.measure(), known).unwrap();
    (bench, fitted)
}

/// Returns the mean service time for a fixed sequence of random reads.
fn mean_service_ms(model: &DeviceModel, size: u64) -> f64 {
    let (disk, bare) = (model.clone(), model.clone());
    let mut bench = Bench { disk, bare, now: 0, state: 99 };
    let mut sum = 0.0;
    for _ in 0..20_000 {
        let offset = bench.random(size / 4096 - 1) * 4096;
        sum += bench.read(offset, 4096).latency_ns;
    }
    sum / 20_000.0 / 1e6
}

#[test]
fn known_disks_are_recovered() {
    for (name, turn_ms) in [("sata250", 60e3 / 7200.0), ("travelstar-5k320", 60e3 / 5400.0)] {
        let (bench, fitted) = recovered(name);
        let near = |what: &str, figure: Figure, truth: f64, slack: f64| {
            let off = (figure.value - truth).abs();
            assert!(off <= 3.0 * figure.error + slack, "{name}: {what} {figure}, truth {truth}");
        };
        near("revolution", fitted.revolution_ms, turn_ms, 0.002);
        near("overhead", fitted.overhead_ms, 0.3, 0.03);
        let DeviceModel::Hdd(disk) = &bench.disk else { panic!("not a disk") };
        let farthest = disk.cylinders() - 1;
        let truth = |distance: u32| disk.seek_time(distance).as_millis_f64();
        near("full stroke", fitted.seek.full_stroke_ms, truth(farthest), 0.1);
        near("third of a stroke", fitted.seek.third_stroke_ms, truth(farthest / 3), 0.1);
        near("track to track", fitted.seek.track_to_track_ms, truth(1), 0.15);
        let misfit = fitted.seek.misfit_ms;
        assert!((0.001..0.3).contains(&misfit), "{name}: misfit {misfit} ms");
        let again = crate::read(Path::new("mine.toml"), &fitted.toml()).unwrap();
        let size = bench.disk.capacity();
        let share = again.model.capacity() as f64 / size as f64;
        assert!((0.999..1.002).contains(&share), "{name}: capacity {share}");
        let size = size.min(again.model.capacity());
        let (was, is) = (mean_service_ms(&bench.disk, size), mean_service_ms(&again.model, size));
        assert!((is / was - 1.0).abs() < 0.01, "{name}: random reads {was} ms, fitted {is} ms");
    }
}

#[test]
fn logs_are_found_by_their_names() {
    let folder = std::env::temp_dir().join(format!("forebay-fit-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let line = "1, 2000000, 0, 4096, 8192, 0\n2, 5, 1, 4096, 0, 0\n";
    for name in ["zones_lat.1.log", "seek-whole_lat.1.log", "seek01_lat.2.log", "back_clat.1.log"] {
        std::fs::write(folder.join(name), line).unwrap();
    }
    let found = Measurements::read(&folder);
    std::fs::create_dir(folder.join("empty")).unwrap();
    let empty = Measurements::read(&folder.join("empty")).unwrap_err().to_string();
    assert!(empty.contains("the folder: got neither fio's results nor its latency"), "{empty}");
    std::fs::remove_dir_all(&folder).unwrap();
    let found = found.unwrap();
    let counts = [&found.zones, &found.back, &found.near, &found.seek].map(Vec::len);
    assert_eq!((counts, found.lines_skipped), ([1, 0, 0, 2], 3));
    assert_eq!(found.paths.len(), 3);
    assert_eq!(found.zones[0], [Sample { offset: 8192, len: 4096, latency_ns: 2e6 }]);
}

#[test]
fn missing_data_are_named() {
    let said = |measurements: &Measurements| {
        let known = DriveFacts { name: "x".to_string(), capacity_bytes: 1 << 40, heads: 2 };
        fit(measurements, known).unwrap_err().to_string()
    };
    assert!(said(&Measurements::default()).contains("zones*_lat.*.log: got 0 sequential runs"));
    let mut bench = Bench::new("sata250");
    let mut whole = bench.measure();
    let sized = |capacity_bytes| {
        let known = DriveFacts { name: "x".to_string(), capacity_bytes, heads: 2 };
        fit(&whole, known).unwrap_err().to_string()
    };
    assert!(sized(4 * bench.disk.capacity()).contains("the logs end at byte"));
    assert!(sized(bench.disk.capacity() / 2).contains("the logs read up to byte"));
    whole.seek.clear();
    assert!(said(&whole).contains("seek*_lat.*.log: got 0 reads"));
    whole.near.clear();
    assert!(said(&whole).contains("near*_lat.*.log"));
    whole.back = vec![vec![Sample { offset: 0, len: 4096, latency_ns: 1e5 }; 100]];
    assert!(said(&whole).contains("no steps back"));
}
