//! A golden table of every scheduler, shaper, placement and device, under a load that exercises all
//! of their rules. Times are exact to the nanosecond, so any change of a decision or of a service
//! time shows. `UPDATE=1` rewrites the table; explain the change in its commit.

mod mix;

use std::fmt::Write;

use forebay_core::catalog::{
    DeviceSet, FlashLane, Listed, PLACEMENTS, POLICIES, SHAPERS, array_ssds, build, build_measured,
    build_placed,
};
use forebay_core::device::hdd::{Hdd, SeekSpec, Zone};
use forebay_core::device::list::DeviceModel;
use forebay_core::device::ssd::Collection;
use forebay_core::stack::{Rearrange, Rearranged};
use forebay_core::{Completion, Device, Done, Nanos, Observer, Policy, Rearrangement, simulate};

use self::mix::Mix;
use crate::devices;
use crate::devices::{drives, flash, hdd};

/// Parameters that enable what is off by default, or make limits apply sooner.
const SCHEDULERS: &[&str] = &[
    "noop:merge=no:reads-max=3:writes-max=2:bio-max-kib=16:request-max-kib=32",
    "clook:bound-ms=15",
    "deadline:fifo-batch=3:read-expire-ms=20:write-expire-ms=60:writes-starved=1",
    "deadline:form=paper:read-expire-ms=20:write-expire-ms=60",
    "cfq:form=paper:quantum=2",
    "cfq:slice-idle-ms=2:slice-sync-ms=20:slice-async-ms=10:quantum=3:fifo-expire-sync-ms=40",
    "cfq:low-latency=no:slice-async-ms=5:back-seek-max-kib=64:back-seek-penalty=3",
    "anticipatory:antic-expire-ms=2:read-batch-expire-ms=60:write-batch-expire-ms=30",
    "anticipatory:read-expire-ms=20:write-expire-ms=40",
    "none:requests-max=4",
    "mq-deadline:fifo-batch=2:read-expire-ms=15:writes-starved=3:front-merges=no:requests-max=6",
    "bfq:slice-idle-ms=3:timeout-sync-ms=30:max-budget-kib=256:requests-max=5",
    "bfq:low-latency=no:fifo-expire-sync-ms=20:fifo-expire-async-ms=40:back-seek-max-kib=64",
    "kyber:read-target-ms=40:write-target-ms=1:requests-max=20:writes-max=9",
    "bid:history=2:wait-ms=3:read-deadline-ms=30:write-deadline-ms=80",
    "bid:history=32:staging-limit=no",
    "forebay:wait-ms=3:hold-ms=4:bound-ms=60",
    "forebay:read-turn-ms=15:write-turn-ms=5",
];

/// Shapers with other parameters than the defaults.
const SHAPED: &[&str] = &[
    "fcfs:depth=4",
    "split:cmin=200:delta-ms=30:delta-c=50",
    "wf2q:cmin=100/60:delta-ms=20/60",
    "sfq:cmin=150:delta-ms=30:depth=3",
    "miser:cmin=150:delta-ms=30",
    "miser:cmin=90/50:delta-ms=20/80:slack-min=2:depth=2:dependencies=no",
    "miser:cmin=100:delta-ms=30:admission=rate",
    "token-bucket:rate=150:burst=5",
    "dmclock:reservation=60/20:weight=1/3:limit=0/90:depth=2",
    "promised:cmin=100/0:delta-ms=30:weight=1/3:depth=2",
    "miser:cmin=300:delta-ms=30:capacity=measured",
    "token-bucket:rate=300:burst=5:capacity=measured:delta-ms=20:depth=2",
    "wf2q:cmin=150:delta-ms=30:over=mq-deadline:depth=4",
];

/// Arrays of six disks.
const ARRAYS: &[&str] = &[
    "array:filled-mib=64",
    "array:level=raid10x3:update=in-place:filled-mib=64",
    "array:level=raid6:update=in-place:filled-mib=64:disk=deadline",
    "array:adapt=bonus-malus:first=write:chunk-kib=16",
    "array:level=raid5:chunks=3:chunk-kib=32",
    "array:ssds=6:hints=0-1@ssd/2-3@raid10x3:adapt=bonus-malus:first=write:rent-ms=1:period-ms=50",
    "miser:cmin=300:depth=16:over=array+chunk-kib=16",
];

/// Placements over two disks and a flash device.
const PLACED: &[&str] = &[
    "deadline",
    "cache:size-mib=1:disk=bid+wait-ms=2",
    "cache:size-mib=2:block-kib=16:replace=s3fifo:write=through:transfer-us=30",
    "cache:size-mib=1:block-kib=8:write=around",
    "bid-hybrid:packing-kib=24:size-mib=2",
    "bid-hybrid:packing-kib=256:migrate=yes:period-s=0.05:hot=2:extent-kib=64:moves-max=5",
    "tier-lba:deviation-mib=4:size-mib=3:migrate=yes:period-s=0.08:extent-kib=32",
    "tier-bcache:cutoff-kib=64:transfer-us=40:disk=cfq:size-mib=2",
    "migrate:period-s=0.04:hot=2:extent-kib=128:size-mib=3:moves-max=7:disk=noop",
    "miser:cmin=150:delta-ms=40:depth=6:over=cache+size-mib=1",
];

/// The expected results of a run.
#[derive(Default)]
struct Figures {
    ios: u64,
    moved_bytes: u64,
    seek: Nanos,
    rotation: Nanos,
    transfer: Nanos,
    /// Sums over all client requests, weighted by the order of completion, so that swapping two
    /// requests changes them.
    finished: u64,
    ordered: u64,
    latency: Nanos,
    wait: Nanos,
    classes: u64,
}

impl Observer for Figures {
    fn io(&mut self, done: &Completion) {
        self.ios += 1;
        self.moved_bytes += u64::from(done.io.len);
        self.seek += done.mechanics.seek;
        self.rotation += done.mechanics.rotation;
        self.transfer += done.mechanics.transfer;
    }

    fn finished(&mut self, now: Nanos, done: &Done) {
        self.finished += 1;
        self.ordered += self.finished * done.request.id % 9_973;
        self.latency += now - done.request.at;
        self.wait += done.wait;
        self.classes += u64::from(done.class);
    }
}

fn line(name: &str, mut policy: impl Policy, mut devices: Vec<DeviceModel>, disks: u16) -> String {
    let mut figures = Figures::default();
    let mut mix = Mix::new(disks);
    let end = simulate::run(&mut policy, &mut devices, &mut mix, &mut figures);
    assert_eq!(figures.finished, mix.issued(), "{name}: all are answered");
    let Figures { ios, moved_bytes, seek, rotation, transfer, finished, .. } = figures;
    let Figures { ordered, latency, wait, classes, .. } = figures;
    let mut line = format!("{name}\n  {finished} requests, {ios} I/Os, {moved_bytes} B, ");
    let times = [end, latency, wait, seek, rotation, transfer].map(|time| time.0);
    writeln!(line, "order {ordered}, classes {classes}").unwrap();
    writeln!(line, "  end, latency, wait, seek, rotation, transfer {times:?} ns").unwrap();
    let used = devices.iter().map(|it| (it.busy(end).0, (it.joules(end) * 1e6).round()));
    writeln!(line, "  busy ns, uJ {:?}", used.collect::<Vec<_>>()).unwrap();
    for device in &devices {
        let DeviceModel::Ssd(ssd) = device else { continue };
        let wear = ssd.wear();
        writeln!(line, "  {wear:?}, {:.4} erases a block", wear.erases_mean()).unwrap();
    }
    let told = policy.figures();
    if !told.is_empty() {
        writeln!(line, "  {told:?}").unwrap();
    }
    line
}

fn disk() -> DeviceModel {
    let zone = |first_cylinder, last_cylinder, sectors_per_track| Zone {
        first_cylinder,
        last_cylinder,
        sectors_per_track,
    };
    let zones = vec![zone(0, 7_999, 1_600), zone(8_000, 29_999, 1_100)];
    let seek = SeekSpec::Table(vec![
        (1, Nanos(800_000)),
        (4_000, Nanos(4_000_000)),
        (29_999, Nanos(14_000_000)),
    ]);
    DeviceModel::Hdd(Hdd::new(hdd(4, zones, seek, None)).unwrap())
}

/// Returns the table's lines of schedulers and shapers.
fn schedulers() -> String {
    let listed = POLICIES.iter().map(|listed| listed.name);
    let plain = listed
        .clone()
        .chain(SCHEDULERS.iter().copied())
        .map(|spec| line(spec, build(spec, 1 << 20).unwrap(), vec![disk()], 1));
    let alone = DeviceSet { disks: 1, disk_len_max: 1 << 20, ..DeviceSet::default() };
    let yardsticks = ["sptf", "sptf:bound-ms=15"].map(|spec| {
        let policy = build_measured(spec, &alone, &disk()).unwrap();
        line(spec, policy, vec![disk()], 1)
    });
    let deep = listed.map(|spec| {
        let (_, device) = drives(6).swap_remove(0);
        line(&format!("{spec}, six at a time"), build(spec, 1 << 20).unwrap(), vec![device], 1)
    });
    let plain_shapers = SHAPERS.iter().map(Listed::shortest_spec);
    let shaped = plain_shapers.chain(SHAPED.iter().map(|spec| spec.to_string())).map(|spec| {
        let lanes = DeviceSet {
            disks: 1,
            disk_len_max: 1 << 20,
            disk_bytes: 1 << 40,
            flash: None,
            restarts: false,
            costs: [None; 2],
        };
        let policy = build_placed(&spec, &lanes).unwrap();
        let disks = (0..policy.servers().len().max(1)).map(|_| disk()).collect();
        line(&spec, policy, disks, 1)
    });
    plain.chain(yardsticks).chain(deep).chain(shaped).collect()
}

/// Returns the lines of disks rearranged before the run, and of disks rearranged during the run.
fn rearranged() -> String {
    let page = 4096;
    let extents = [(70, 9), (2, 3), (40, 1), (3 << 20, 500), (6 << 20, 90), (41, 12)];
    let rows = extents.map(|(from, pages)| (from * page, pages * page));
    let map = || Rearrangement::laid(&rows, (10 << 20) * page).unwrap();
    let from = Nanos::from_millis(300);
    let before = ["deadline", "noop:merge=no"].map(|spec| {
        let inner = build(spec, 1 << 20).unwrap();
        let policy = Rearranged::before(Rearrange::new(map()), inner, 1);
        line(&format!("rearranged, {spec}"), policy, vec![disk()], 1)
    });
    let moving = ["cfq", "forebay"].map(|spec| {
        let inner = build(spec, 1 << 20).unwrap();
        let placement = Rearrange::moving(map(), from, 128 << 10);
        let policy = Rearranged::before(placement, inner, 1);
        line(&format!("rearranging, {spec}"), policy, vec![disk()], 1)
    });
    before.into_iter().chain(moving).collect()
}

fn placements() -> String {
    let listed = PLACEMENTS.iter().map(|listed| listed.name);
    let specs = listed.chain(PLACED.iter().copied());
    specs
        .map(|spec| {
            let flash_lane = Some(FlashLane { len_max: 256 << 10, capacity_bytes: 4 << 20 });
            let lanes = DeviceSet {
                disks: 2,
                disk_len_max: 1 << 20,
                disk_bytes: 1 << 40,
                flash: flash_lane,
                restarts: false,
                costs: [None; 2],
            };
            let devices = vec![disk(), disk(), flash(Collection::Greedy, 0.5)];
            line(spec, build_placed(spec, &lanes).unwrap(), devices, 2)
        })
        .collect()
}

/// Returns the lines of arrays of six disks.
fn arrays() -> String {
    let lines = ARRAYS.iter().map(|spec| {
        let lanes = DeviceSet {
            disks: 6,
            disk_len_max: 1 << 20,
            disk_bytes: 1 << 30,
            flash: Some(FlashLane { len_max: 256 << 10, capacity_bytes: 64 << 20 }),
            restarts: false,
            costs: [None; 2],
        };
        let ssds = (0..array_ssds(spec)).map(|_| flash(Collection::Greedy, 0.5));
        let devices = (0..6).map(|_| disk()).chain(ssds).collect();
        line(spec, build_placed(spec, &lanes).unwrap(), devices, 1)
    });
    lines.collect()
}

fn models() -> String {
    let depths = [1, 4].map(drives).into_iter().flatten();
    let rest = devices::models().into_iter().filter(|(name, _)| *name != "one sector");
    let lines = depths.chain(rest).map(|(name, device)| {
        let spec = "mq-deadline:requests-max=12";
        line(&format!("{name}, {spec}"), build(spec, 1 << 20).unwrap(), vec![device], 1)
    });
    lines.collect()
}

/// Compares a part of the table with the contents of its file, or rewrites the file.
fn compare(name: &str, stands: &str, table: &str) {
    let path = format!("{}/tests/golden/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE").is_some() {
        return std::fs::write(path, table).unwrap();
    }
    for (stands, is) in stands.lines().zip(table.lines()) {
        assert_eq!(is, stands, "tests/golden/{name}.txt: UPDATE=1 writes it anew");
    }
    assert_eq!(table.len(), stands.len(), "{name}: lines are new or gone");
}

#[test]
fn schedulers_decide_as_they_did() {
    compare("schedulers", include_str!("golden/schedulers.txt"), &(schedulers() + &rearranged()));
}

#[test]
fn arrays_decide_as_they_did() {
    compare("arrays", include_str!("golden/arrays.txt"), &arrays());
}

#[test]
fn placements_decide_as_they_did() {
    compare("placements", include_str!("golden/placements.txt"), &placements());
}

#[test]
fn devices_take_as_long_as_they_did() {
    compare("devices", include_str!("golden/devices.txt"), &models());
}
