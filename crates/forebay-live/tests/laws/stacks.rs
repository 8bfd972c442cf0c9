//! Every stack there is: policies by name with forms and parameters that matter, and combinations.

use forebay_core::placed::Placed;
use forebay_core::policy::{
    Blocks, FlashLane, Lanes, PLACEMENTS, POLICIES, Rearrange, Rearranged, build, build_placed,
};
use forebay_core::{Lane, Nanos, Policy, Rearrangement};

const LEN_MAX: u32 = 64 << 10;
/// Sectors of a disk: twice what a flash of a mebibyte holds.
const SECTORS: u64 = 4096;

pub(crate) struct Stack {
    pub(crate) name: String,
    pub(crate) build: Box<dyn Fn() -> Box<dyn Policy>>,
    pub(crate) disks: Lane,
    pub(crate) lanes: u16,
    /// Sectors of each disk that are asked for.
    pub(crate) sectors: u64,
    pub(crate) block: u32,
    /// Whether it finds its data after a restart.
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
];

/// Placements that hold data where the disk does not have them.
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

/// Placements whose disks have everything.
const ON_DISK: &[&str] = &[
    "cache:size-mib=1:write=through",
    "cache:size-mib=1:write=around:block-kib=8",
    "sfq:cmin=3000:depth=2:over=cache+write=through+size-mib=1",
    "fcfs:depth=8:over=deadline",
];

fn lanes(disks: u16, restarts: bool) -> Lanes {
    let flash = Some(FlashLane { len_max: LEN_MAX, capacity_bytes: 1 << 20 });
    Lanes { disks, disk_len_max: LEN_MAX, flash, restarts }
}

/// A policy by name on some disks and a flash.
fn named(spec: &str, disks: u16, restarts: bool) -> Stack {
    let text = spec.to_string();
    let build =
        move || -> Box<dyn Policy> { build_placed(&text, &lanes(disks, restarts)).unwrap() };
    let name = format!("{spec} on {disks}");
    let (build, sectors) = (Box::new(build), SECTORS);
    Stack { name, build, disks, lanes: disks + 1, sectors, block: 512, restarts }
}

/// A disk whose blocks were rearranged; they move while it works if `moving`. The new places, which
/// are taken for free, are not asked for while they move.
fn rearranged(spec: &'static str, moving: bool) -> Stack {
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
    let (name, build) = (format!("{spec}, rearranged, moving: {moving}"), Box::new(build));
    let sectors = if moving { to / 512 } else { SECTORS };
    Stack { name, build, disks: 1, lanes: 1, sectors, block: 512, restarts: !moving }
}

/// Large blocks beneath.
fn blocks(spec: &'static str, disks: u16, restarts: bool) -> Stack {
    let build = move || -> Box<dyn Policy> {
        let policy = build_placed(spec, &lanes(disks, restarts)).unwrap();
        Box::new(Placed::new(Blocks::new(4096), [(policy, disks + 1)]))
    };
    let (name, build) = (format!("{spec} in blocks of 4096"), Box::new(build));
    Stack { name, build, disks, lanes: disks + 1, sectors: SECTORS, block: 4096, restarts }
}

pub(crate) fn stacks() -> Vec<Stack> {
    let mut all: Vec<Stack> = Vec::new();
    all.extend(POLICIES.iter().map(|listed| named(listed.name, 1, true)));
    all.extend(SCHEDULERS.iter().map(|spec| named(spec, 1, true)));
    all.extend(["noop", "cfq"].map(|spec| named(spec, 2, true)));
    all.extend(ON_DISK.iter().map(|spec| named(spec, 2, true)));
    all.extend(PLACEMENTS.iter().map(|listed| named(listed.name, 2, false)));
    all.extend(PLACED.iter().map(|spec| named(spec, 2, false)));
    all.extend(["noop", "deadline"].map(|spec| rearranged(spec, false)));
    all.extend(["noop", "deadline"].map(|spec| rearranged(spec, true)));
    all.push(blocks("noop", 1, true));
    all.push(blocks("cache:size-mib=1:write=through", 2, true));
    all.push(blocks("cache:size-mib=1", 2, false));
    all
}
