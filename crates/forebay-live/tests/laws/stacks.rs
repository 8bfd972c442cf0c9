//! All stacks to test: policies by name, with the relevant variants and parameters, and
//! combinations of policies.

use forebay_core::cache::{Lru, S3Fifo};
use forebay_core::catalog::{
    DeviceSet, FlashLane, Listed, PLACEMENTS, POLICIES, SHAPERS, build, build_placed,
};
use forebay_core::stack::cached::{Bound, Cached, Writing};
use forebay_core::stack::placed::Placed;
use forebay_core::stack::rearranged::Record;
use forebay_core::stack::{Blocks, Pairing, Rearrange, Rearranged};
use forebay_core::{Lane, Nanos, Policy, Rearrangement};

use crate::laws::draining;

const LEN_MAX: u32 = 64 << 10;
/// The number of sectors of a disk: twice the capacity of a flash of 1 MiB.
const SECTORS: u64 = 4096;

/// The faults that a stack hides from clients.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mends {
    Nothing,
    Writes,
    Everything,
}

pub(crate) struct Stack {
    pub(crate) name: String,
    pub(crate) build: Box<dyn Fn() -> Box<dyn Policy>>,
    pub(crate) disks: Lane,
    pub(crate) lanes: u16,
    /// The number of sectors of each disk that requests use.
    pub(crate) sectors: u64,
    pub(crate) block: u32,
    /// Sectors from here on have arbitrary contents at first.
    pub(crate) anything_from: u64,
    /// The faults of the last lane that the stack must hide.
    pub(crate) mends: Mends,
    /// Whether the stack finds its data after a restart.
    pub(crate) restarts: bool,
}

const SCHEDULERS: &[&str] = &[
    "deadline:form=paper",
    "cfq:form=paper:quantum=2",
    "bid:history=1:wait-ms=0",
    "noop:reads-max=2:writes-max=1:bio-max-kib=4",
    "noop:merge=no",
    "mq-deadline:requests-max=3:writes-max=1:front-merges=no",
    "fcfs:depth=4",
    "fcfs:dependencies=no:depth=3",
    "sfq:cmin=3000/100:delta-ms=5/90:depth=3",
    "miser:cmin=3000:delta-ms=20:depth=2",
    "token-bucket:rate=100000:burst=4",
    "dmclock:reservation=100/0:weight=1/5:depth=2",
    "dmclock:reservation=100/0:weight=1/5:limit=5000:depth=2:capacity=measured",
    "promised:cmin=900/0:delta-ms=5:depth=3:capacity=measured:over=noop",
];

/// Placements that store data elsewhere than on the disk.
const PLACED: &[&str] = &[
    "cache:size-mib=1",
    "cache:size-mib=1:replace=s3fifo:block-kib=8:disk=bid+wait-ms=1:transfer-us=50",
    "bid-hybrid:packing-kib=1024:size-mib=1:transfer-us=100:reads-max=4:writes-max=3",
    "bid-hybrid:migrate=yes:period-s=0.002:hot=1:extent-kib=16:size-mib=1",
    "tier-lba:deviation-mib=1:size-mib=1:migrate=yes:period-s=0.001:extent-kib=4",
    "tier-bcache:cutoff-kib=64:transfer-us=300:disk=cfq:size-mib=1",
    "migrate:period-s=0.001:hot=1:extent-kib=16:size-mib=1:disk=deadline",
    "miser:cmin=3000:delta-ms=20:depth=4:over=cache+size-mib=1+disk=cfq",
    "fcfs:depth=3:dependencies=no:over=bid-hybrid+packing-kib=1024+size-mib=1",
];

/// Placements whose disks contain all data.
const ON_DISK: &[&str] = &[
    "cache:size-mib=1:write=through",
    "cache:size-mib=1:write=around:block-kib=8",
    "sfq:cmin=3000:depth=2:over=cache+write=through+size-mib=1",
    "fcfs:depth=8:over=deadline",
    "token-bucket:rate=20000:burst=2:over=bid+wait-ms=1",
];

/// Returns a policy on a disk that takes I/Os of 4096 bytes.
fn short(spec: &'static str) -> Stack {
    let build = move || -> Box<dyn Policy> { build(spec, 4096).unwrap() };
    let name = format!("{spec} in I/Os of 4096 bytes");
    Stack { name, ..stack(Box::new(build)) }
}

fn lanes(disks: u16, restarts: bool) -> DeviceSet {
    let flash = Some(FlashLane { len_max: LEN_MAX, capacity_bytes: 1 << 20 });
    DeviceSet {
        disks,
        disk_len_max: LEN_MAX,
        disk_bytes: 1 << 40,
        flash,
        restarts,
        costs: [None; 2],
    }
}

/// Returns a placement policy by name, on `disks` disks and a flash.
fn named(spec: &str, disks: u16, restarts: bool) -> Stack {
    let text = spec.to_string();
    let build =
        move || -> Box<dyn Policy> { build_placed(&text, &lanes(disks, restarts)).unwrap() };
    let name = format!("{spec} on {disks}");
    let mends = match (restarts, spec.contains("cache")) {
        (true, _) => Mends::Everything,
        (false, true) => Mends::Nothing,
        (false, false) => Mends::Writes,
    };
    let (lanes, block) = (disks + 1, 512);
    Stack { name, mends, disks, lanes, block, restarts, ..stack(Box::new(build)) }
}

/// Returns a stack on one disk, all of which requests may use.
fn stack(build: Box<dyn Fn() -> Box<dyn Policy>>) -> Stack {
    Stack {
        name: String::new(),
        build,
        disks: 1,
        lanes: 1,
        sectors: SECTORS,
        block: 512,
        anything_from: SECTORS,
        mends: Mends::Nothing,
        restarts: true,
    }
}

/// Returns a cache of a few blocks of 2048 bytes, so that blocks are soon evicted and come back.
fn small(writing: Writing, spec: &'static str, s3fifo: bool) -> Stack {
    let build = move || -> Box<dyn Policy> {
        let lane = |spec| build(spec, LEN_MAX).unwrap();
        let lanes = vec![lane(spec), lane(spec), lane("none")];
        match s3fifo {
            true => Box::new(Placed::over(Cached::new(S3Fifo::new(10), 2048, writing, 2), lanes)),
            false => Box::new(Placed::over(Cached::new(Lru::new(6), 2048, writing, 2), lanes)),
        }
    };
    let name = format!("a small cache writing {writing:?} over {spec}, s3fifo: {s3fifo}");
    let restarts = writing != Writing::Back;
    let mends = if restarts { Mends::Everything } else { Mends::Nothing };
    let rest = stack(Box::new(build));
    Stack { name, disks: 2, lanes: 3, sectors: 256, mends, restarts, ..rest }
}

/// Returns a shaper on one disk, unless it needs several servers.
fn shaper(listed: &Listed) -> Option<Stack> {
    let spec = format!("{}:depth=3", listed.shortest_spec());
    build(&spec, LEN_MAX).unwrap().servers().is_empty().then(|| named(&spec, 1, true))
}

/// Returns two policies side by side, one for one lane and one for two.
fn side_by_side() -> Stack {
    let build = || -> Box<dyn Policy> {
        let two = build_placed("deadline", &lanes(2, true)).unwrap();
        let one = build("noop", LEN_MAX).unwrap();
        Box::new(Placed::new(Blocks::new(1024), [(one, 1), (two, 2)]))
    };
    let name = "blocks over one disk and two".to_string();
    Stack { name, disks: 3, lanes: 3, block: 1024, ..stack(Box::new(build)) }
}

/// Returns a disk whose blocks were rearranged or, if `moving`, are rearranged during the run. In
/// the latter case, the new places, which count as free, have arbitrary content; requests use them
/// only if `all`.
fn rearranged(spec: &'static str, moving: bool, all: bool) -> Stack {
    let rows = [(40 * 8192, 20_480), (8192, 8192), (3 * 8192 + 4096, 4096), (90_112, 12_288)];
    let to = SECTORS * 512 - (64 << 10);
    let build = move || -> Box<dyn Policy> {
        let map = Rearrangement::laid(&rows, to).unwrap();
        let placement = match moving {
            true => Rearrange::moving(map, Nanos::from_micros(300), 8192),
            false => Rearrange::new(map),
        };
        Box::new(Rearranged::before(placement, build(spec, LEN_MAX).unwrap(), 1))
    };
    let name = format!("{spec}, rearranged, moving: {moving}, all: {all}");
    let sectors = if all { SECTORS } else { to / 512 };
    let anything_from = if moving { to / 512 } else { SECTORS };
    Stack { name, sectors, anything_from, restarts: !moving, ..stack(Box::new(build)) }
}

/// The position of the record of a permanently rearranged disk.
pub(crate) const RECORD: u64 = SECTORS * 512;

/// Returns a disk that is rearranged during the run and finds its blocks after a restart. Requests
/// do not use the new places directly.
pub(crate) fn kept(spec: &'static str) -> Stack {
    let to = RECORD - (64 << 10);
    let build = move || kept_rearranged(spec, to, Some(Nanos::from_micros(300)));
    let name = format!("{spec}, rearranged for good");
    Stack { name, sectors: marker_of(to) / 512, ..stack(Box::new(build)) }
}

/// Returns the position of the copy of the record's head, before the new places.
pub(crate) fn marker_of(to: u64) -> u64 {
    to - 8192
}

/// Returns a policy that follows the record. If there is no record, blocks are rearranged from the
/// time `from` on, if given.
pub(crate) fn kept_rearranged(spec: &str, to: u64, from: Option<Nanos>) -> Box<dyn Policy> {
    let rows = [(40 * 8192, 20_480), (8192, 8192), (3 * 8192 + 4096, 4096), (90_112, 12_288)];
    let map = Rearrangement::laid(&rows, to).filter(|_| from.is_some());
    let placement = Rearrange::kept_at(
        Record { at: RECORD, marker: marker_of(to) },
        map,
        from.unwrap_or_default(),
        8192,
    );
    let set = DeviceSet { flash: None, ..lanes(1, true) };
    Box::new(Rearranged::before(placement, build_placed(spec, &set).unwrap(), 1))
}

/// Placements that store data elsewhere than on the disk, and survive a restart, with other
/// parameters than the defaults.
const SURVIVING: &[&str] = &[
    "cache:size-mib=1:replace=s3fifo:block-kib=8:disk=bid+wait-ms=1:transfer-us=50:format=yes",
    "tier-bcache:cutoff-kib=64:transfer-us=300:disk=cfq:size-mib=1:format=yes",
    "tier-lba:deviation-mib=1:size-mib=1:migrate=yes:period-s=0.001:extent-kib=4:format=yes",
    "bid-hybrid:migrate=yes:period-s=0.002:hot=1:extent-kib=16:size-mib=1:format=yes",
    "bid-hybrid:packing-kib=1024:size-mib=1:reads-max=4:writes-max=3:format=yes",
    "migrate:period-s=0.001:hot=1:extent-kib=16:size-mib=1:format=yes",
];

/// Returns a placement policy by name that survives restarts. Data that is only on its flash is
/// lost with the flash.
fn surviving(spec: &str, disks: u16) -> Stack {
    Stack { mends: Mends::Nothing, ..named(spec, disks, true) }
}

/// Returns a cache with few blocks that survives restarts.
fn small_surviving(spec: &'static str, s3fifo: bool) -> Stack {
    let (pairing, disk_bytes) = (Pairing::default(), 256 * 512);
    let bound = Bound { id: 7, pairing, disk_bytes, formats: true };
    let build = move || -> Box<dyn Policy> {
        let lane = |spec| build(spec, LEN_MAX).unwrap();
        let lanes = vec![lane(spec), lane(spec), lane("none")];
        let back = Writing::Back;
        match s3fifo {
            true => {
                let cached = Cached::new(S3Fifo::new(10), 2048, back, 2);
                Box::new(Placed::over(cached.surviving(bound), lanes))
            }
            false => {
                let cached = Cached::new(Lru::new(6), 2048, back, 2);
                Box::new(Placed::over(cached.surviving(bound), lanes))
            }
        }
    };
    let name = format!("a small cache with a log over {spec}, s3fifo: {s3fifo}");
    Stack { name, disks: 2, lanes: 3, sectors: 256, ..stack(Box::new(build)) }
}

/// Returns a cache of single sectors, whose table has several pages.
fn many_places() -> Stack {
    let bound = Bound { id: 7, pairing: Pairing::default(), disk_bytes: 0, formats: true };
    let build = move || -> Box<dyn Policy> {
        let cached = Cached::new(Lru::new(1200), 512, Writing::Back, 1).surviving(bound);
        let lanes = ["noop", "none"].map(|spec| build(spec, LEN_MAX).unwrap());
        Box::new(Placed::over(cached, lanes.into()))
    };
    let name = "a cache of sectors with a log".to_string();
    Stack { name, lanes: 2, ..stack(Box::new(build)) }
}

/// Returns all placements that survive a restart through their records.
pub(crate) fn surviving_stacks() -> Vec<Stack> {
    let listed = PLACEMENTS.iter().map(|listed| format!("{}:size-mib=1:format=yes", listed.name));
    let mut all: Vec<Stack> = listed.map(|spec| surviving(&spec, 2)).collect();
    all.extend(SURVIVING.iter().map(|spec| surviving(spec, 2)));
    all.extend([false, true].map(|s3fifo| small_surviving("noop", s3fifo)));
    all.push(small_surviving("mq-deadline", false));
    all.push(many_places());
    all.extend([1, 60].map(drained));
    let whole = blocks("cache:size-mib=1:format=yes", 2, true);
    all.push(Stack { mends: Mends::Nothing, ..whole });
    all.extend(POLICIES.iter().map(|listed| kept(listed.name)));
    all.push(kept("bid:wait-ms=1"));
    all.push(kept("promised:cmin=900/0:delta-ms=5:depth=3:over=bfq"));
    all
}

/// Returns a cache that is drained from its `after`-th request on, in each of its lives.
fn drained(after: u64) -> Stack {
    let build = move || if after == 1 { draining::s3fifo(after) } else { draining::lru(after) };
    let name = format!("a cache drained from request {after} on");
    let rest = stack(Box::new(build));
    Stack { name, lanes: 2, sectors: draining::SECTORS, ..rest }
}

/// Returns a stack that converts requests to whole large blocks.
fn blocks(spec: &'static str, disks: u16, restarts: bool) -> Stack {
    let build = move || -> Box<dyn Policy> {
        let policy = build_placed(spec, &lanes(disks, restarts)).unwrap();
        Box::new(Placed::new(Blocks::new(4096), [(policy, disks + 1)]))
    };
    let name = format!("{spec} in blocks of 4096");
    let mends = if restarts { Mends::Everything } else { Mends::Nothing };
    let (lanes, block) = (disks + 1, 4096);
    Stack { name, disks, lanes, block, mends, restarts, ..stack(Box::new(build)) }
}

/// The number of random stacks.
const DRAWN: u64 = 16;

/// Returns a random stack, determined by `number`: whole blocks or not, above a shaper or none,
/// above a placement or none, above a scheduler for each disk.
fn drawn(number: u64) -> Stack {
    const PLACED: &[&str] = &[
        "cache:size-mib=1",
        "cache:size-mib=1:replace=s3fifo:block-kib=8:format=yes",
        "cache:size-mib=1:write=through",
        "cache:size-mib=1:write=around",
        "tier-lba:deviation-mib=1:size-mib=1",
        "tier-bcache:cutoff-kib=32:size-mib=1",
        "migrate:period-s=0.001:hot=1:extent-kib=16:size-mib=1",
        "bid-hybrid:packing-kib=256:size-mib=1:format=yes",
    ];
    const SHAPED: &[&str] = &[
        "fcfs:depth=5",
        "sfq:cmin=3000:depth=3",
        "wf2q:cmin=3000:depth=4",
        "miser:cmin=3000:delta-ms=20:depth=3",
        "token-bucket:rate=50000:burst=4",
        "dmclock:reservation=100/0:weight=1/5:depth=4",
    ];
    let mut state = number;
    let mut below = |count: usize| (crate::laws::random(&mut state) % count as u64) as usize;
    let disk = POLICIES[below(POLICIES.len())].name;
    let (mut spec, mut restarts) = (disk.to_string(), true);
    if below(4) > 0 {
        spec = PLACED[below(PLACED.len())].to_string();
        restarts = spec.contains("write=") || spec.contains("format=yes");
        if !spec.starts_with("bid-hybrid") && !spec.starts_with("tier-lba") {
            spec = format!("{spec}:disk={disk}");
        }
    }
    if below(2) > 0 {
        spec = format!("{}:over={}", SHAPED[below(SHAPED.len())], spec.replace(':', "+"));
    }
    let (disks, block) = (1 + below(2) as u16, [512, 512, 1024, 4096][below(4)]);
    let text = spec.clone();
    let build = move || -> Box<dyn Policy> {
        let policy = build_placed(&text, &lanes(disks, restarts)).unwrap();
        match block {
            512 => policy,
            block => Box::new(Placed::new(Blocks::new(block), [(policy, disks + 1)])),
        }
    };
    let name = format!("drawn {number}: {spec} on {disks} in blocks of {block}");
    let has_all_on_disk = restarts && !spec.contains("format=yes");
    let mends = if has_all_on_disk { Mends::Everything } else { Mends::Nothing };
    Stack { name, disks, lanes: disks + 1, block, mends, restarts, ..stack(Box::new(build)) }
}

pub(crate) fn stacks() -> Vec<Stack> {
    let mut all: Vec<Stack> = Vec::new();
    all.extend(POLICIES.iter().map(|listed| named(listed.name, 1, true)));
    all.extend(SCHEDULERS.iter().map(|spec| named(spec, 1, true)));
    all.extend(SHAPERS.iter().filter_map(shaper));
    all.extend(["noop", "cfq", "bid:wait-ms=1"].map(|spec| named(spec, 2, true)));
    all.extend(["noop", "fcfs:depth=3", "sfq:cmin=3000:depth=2"].map(short));
    all.extend(ON_DISK.iter().map(|spec| named(spec, 2, true)));
    all.extend(PLACEMENTS.iter().map(|listed| named(listed.name, 2, false)));
    all.extend(PLACED.iter().map(|spec| named(spec, 2, false)));
    all.extend(["noop", "deadline"].map(|spec| rearranged(spec, false, true)));
    all.extend(["noop", "deadline"].map(|spec| rearranged(spec, true, false)));
    all.extend(["noop", "cfq"].map(|spec| rearranged(spec, true, true)));
    all.extend([false, true].map(|s3fifo| small(Writing::Back, "noop", s3fifo)));
    all.extend(surviving_stacks());
    all.push(small(Writing::Back, "bid:wait-ms=1", false));
    all.push(small(Writing::Through, "mq-deadline", false));
    all.push(small(Writing::Around, "noop", false));
    all.push(side_by_side());
    all.extend((0..DRAWN).map(drawn));
    all.push(blocks("noop", 1, true));
    all.push(blocks("cache:size-mib=1:write=through", 2, true));
    all.push(blocks("cache:size-mib=1", 2, false));
    all
}
