//! Tests the laws (`forebay_core::laws`) on every listed policy with random requests, and those
//! that apply on policies that move data themselves.

use forebay_core::catalog::{
    self, DeviceSet, FlashLane, Listed, PLACEMENTS, POLICIES, SHAPERS, YARDSTICKS, array_ssds,
    build_measured, build_placed,
};
use forebay_core::contract::policy::AnyPolicy;
use forebay_core::device::list::DeviceModel;
use forebay_core::laws::{
    Bench, Broken, LEN_MAX, List, PLACES, WakeupChecked, Watch, check, laid, same, starves,
};
use forebay_core::stack::{Rearrange, Rearranged, Served};
use forebay_core::tape::Recorder;
use forebay_core::{
    Done, Flags, Lane, Nanos, Observer, Op, Policy, Rearrangement, Request, SpecError, simulate,
};
use proptest::prelude::*;

use crate::devices;

/// Forms and parameters other than the defaults, which must also obey the laws.
const VARIANTS: &[&str] = &[
    "deadline:form=paper",
    "deadline:fifo-batch=1:writes-starved=1:read-expire-ms=0",
    "cfq:form=paper:quantum=2",
    "cfq:slice-idle-ms=0:quantum=1",
    "bid:history=1:wait-ms=0",
    "bid:staging-limit=no:history=32",
    "noop:reads-max=1:writes-max=1:bio-max-kib=4",
    "bid:reads-max=2:writes-max=1:merge=no",
    "anticipatory:antic-expire-ms=0:write-batch-expire-ms=0",
    "forebay:wait-ms=0:hold-ms=0:read-turn-ms=0:write-turn-ms=0",
    "forebay:bound-ms=0:reads-max=2",
    "anticipatory:antic-expire-ms=50:reads-max=2:read-batch-expire-ms=0",
    "none:requests-max=1",
    "bfq:slice-idle-ms=0:timeout-sync-ms=0:low-latency=no",
    "bfq:max-budget-kib=64:requests-max=3:writes-max=1",
    "mq-deadline:requests-max=3:writes-max=1:front-merges=no",
    "kyber:read-target-ms=0:write-target-ms=0:requests-max=1",
    "clook:bound-ms=0:reads-max=2",
    "sptf:bound-ms=0:writes-max=2",
];

/// Parameters of shapers other than the defaults.
const SHAPED: &[&str] = &[
    "fcfs:dependencies=no:depth=4",
    "split:cmin=300/200:delta-ms=20/60:delta-c=50:depth=2",
    "wf2q:cmin=300/100:delta-ms=5/90:dependencies=no",
    "sfq:cmin=700:delta-c=300",
    "sfq:cmin=300/100:delta-ms=5/90:depth=3",
    "miser:cmin=300:delta-ms=20",
    "miser:cmin=200/200:delta-ms=20/60:slack-min=2:depth=3",
    "miser:cmin=300:delta-ms=20:admission=rate:dependencies=no",
    "token-bucket:rate=1000:burst=4",
    "dmclock:reservation=100/0:weight=1/5:limit=0/2000:depth=2",
    "promised:cmin=100/0/300:delta-ms=10/20:weight=1/5:depth=2",
    "promised:cmin=100/0/300:delta-ms=10/20:weight=1/5:depth=2:capacity=measured",
    "promised:cmin=100/0:delta-ms=30:weight=1/5:depth=2:shared=yes:capacity=measured",
    "miser:cmin=300:delta-ms=20:capacity=measured:pace-max-percent=300",
    "sfq:cmin=300/100:delta-ms=5/90:depth=3:capacity=measured",
    "token-bucket:rate=1000:burst=4:capacity=measured:depth=2",
    "dmclock:reservation=100/0:weight=1/5:limit=0/2000:capacity=measured:pace-min-percent=1",
];

fn specs() -> impl Iterator<Item = String> {
    let listed = [POLICIES, YARDSTICKS, SHAPERS].into_iter().flatten().map(Listed::shortest_spec);
    let rest = VARIANTS.iter().chain(SHAPED);
    listed.chain(rest.map(|spec| spec.to_string())).chain([format!("{SERVED}forebay")])
}

/// The prefix of a scheduler behind a server's network path.
const SERVED: &str = "served ";

/// Builds a policy. Yardsticks obey the laws even if the device differs from their model.
pub(crate) fn build(spec: &str, len_max: u32) -> Result<AnyPolicy, SpecError> {
    if let Some(scheduler) = spec.strip_prefix(SERVED) {
        let policy = build(scheduler, len_max)?;
        return Ok(Box::new(Served::new(policy, Nanos::from_micros(31))));
    }
    if !catalog::is_yardstick(spec) {
        return catalog::build(spec, len_max);
    }
    let lanes = DeviceSet { disks: 1, disk_len_max: len_max, ..DeviceSet::default() };
    let models = devices::models();
    let disk = models.iter().find(|(_, model)| matches!(model, DeviceModel::Hdd(_))).unwrap();
    build_measured(spec, &lanes, &disk.1)
}

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let op = prop_oneof![6 => Just(Op::Read), 6 => Just(Op::Write), 1 => Just(Op::Flush), 1 => Just(Op::Trim)];
    let one = (
        op,
        0..PLACES,
        1u32..70,
        0u32..5,
        0u8..32,
        prop_oneof![3 => Just(0), 3 => 0u64..300, 1 => 0u64..40_000],
    );
    prop::collection::vec(one, 1..200).prop_map(laid)
}

/// Returns the outcome, or panics with the broken law and the policy.
fn kept<T>(spec: &str, outcome: Result<T, Broken>) -> T {
    outcome.unwrap_or_else(|broken| panic!("{spec}: {broken}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn every_policy_keeps_the_laws(requests in requests(), depth in 1usize..5) {
        for spec in specs() {
            kept(&spec, check(|| build(&spec, LEN_MAX).unwrap(), &requests, depth));
        }
    }
}

/// Parameters of placements other than the defaults, which must also obey the laws.
const PLACED_VARIANTS: &[&str] = &[
    "noop",
    "cache:replace=s3fifo:write=through:size-mib=1:block-kib=8",
    "cache:write=around:size-mib=1:disk=bid+wait-ms=1:transfer-us=50",
    "bid-hybrid:packing-kib=0",
    "bid-hybrid:packing-kib=1024:size-mib=1:transfer-us=100:reads-max=2:writes-max=1",
    "bid-hybrid:migrate=yes:period-s=0.002:hot=1:extent-kib=64:size-mib=1",
    "tier-lba:deviation-mib=1:size-mib=1:migrate=yes:period-s=0.001:extent-kib=4",
    "tier-bcache:cutoff-kib=64:transfer-us=300:disk=cfq",
    "migrate:period-s=0.001:hot=1:extent-kib=16:size-mib=1:disk=deadline",
];

fn placed_specs() -> impl Iterator<Item = String> {
    let listed = PLACEMENTS.iter().map(|listed| listed.name.to_string());
    listed.chain(PLACED_VARIANTS.iter().map(|spec| spec.to_string()))
}

fn lanes(disks: u16) -> DeviceSet {
    let flash = Some(FlashLane { len_max: LEN_MAX, capacity_bytes: 4 << 20 });
    DeviceSet {
        disks,
        disk_len_max: LEN_MAX,
        disk_bytes: 1 << 40,
        flash,
        restarts: false,
        costs: [None; 2],
    }
}

/// Like [`check`], for policies that move data between devices and issue their own I/Os.
fn check_placed(spec: &str, disks: u16, requests: &[Request], depth: usize) {
    let build = || build_placed(spec, &lanes(disks)).unwrap();
    // The wakeup is not checked: a wakeup may be due for a lane that is busy.
    let mut policy = Recorder::new(build());
    let mut watch = Watch::default();
    let mut devices: Vec<Bench> = (0..=disks).map(|_| Bench::new(depth)).collect();
    simulate::run(&mut policy, &mut devices, &mut List::of(requests), &mut watch);

    let io_bytes = kept(spec, watch.once(requests));
    let asked: u64 = requests.iter().map(|request| u64::from(request.len)).sum();
    assert!(io_bytes >= asked, "{spec}: I/Os move the bytes asked for");
    let moves = spec.starts_with("cache") || spec.contains("migrate");
    assert!(moves || io_bytes == asked, "{spec}: exactly those");
    kept(spec, same(&mut build(), &policy.calls));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn every_placement_keeps_the_laws(
        mut requests in requests(), disks in 1u16..4, depth in 1usize..5,
    ) {
        for request in &mut requests {
            request.lane = request.stream as u16 % disks;
        }
        for spec in placed_specs() {
            check_placed(&spec, disks, &requests, depth);
        }
    }
}

const ARRAY_SPECS: &[&str] = &[
    "array",
    "array:update=in-place:disk=deadline",
    "array:level=raid10x3:chunk-kib=4:filled-mib=3",
    "array:level=raid5:chunks=3:chunk-kib=8:update=in-place:filled-mib=2",
    "array:level=raid0:chunks=5",
    "array:level=raid10:chunks=2:chunk-kib=16",
    "array:adapt=half-thresholds:chunk-kib=8:filled-mib=3",
    "array:adapt=best:first=write:update=in-place",
    "array:adapt=bonus-malus:costs=ssd:level=raid10x3:filled-mib=3",
    "array:adapt=work-function",
    "array:ssds=6:hints=0-1@ssd/1-2@raid10x3:adapt=bonus-malus:rent-ms=1:period-ms=5",
];

/// Like [`check_placed`], for arrays, which read blocks that were never written without an I/O.
fn check_array(spec: &str, disks: u16, requests: &[Request], depth: usize) {
    // A small array, because the simulator searches its whole table for work to do.
    let flash = Some(FlashLane { len_max: 64 << 10, capacity_bytes: 32 << 20 });
    let lanes = || DeviceSet { disk_bytes: 64 << 20, flash, ..lanes(disks) };
    let build = || build_placed(spec, &lanes()).unwrap();
    let mut policy = Recorder::new(build());
    let mut watch = Watch::of_zeros();
    let drives = disks + array_ssds(spec);
    let mut devices: Vec<Bench> = (0..drives).map(|_| Bench::new(depth)).collect();
    simulate::run(&mut policy, &mut devices, &mut List::of(requests), &mut watch);
    kept(spec, watch.once(requests));
    kept(spec, same(&mut build(), &policy.calls));
    // No trouble is reported without faults, although there are no contents to verify.
    let trouble = ["degraded", "rotten_blocks", "repaired_roles", "drives_failed"];
    let is_trouble = |(name, count): &(&str, f64)| trouble.contains(name) && *count > 0.0;
    assert_eq!(policy.figures().into_iter().find(is_trouble), None, "{spec}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn every_array_keeps_the_laws(
        mut requests in requests(), disks in 6u16..9, depth in 1usize..5,
    ) {
        for request in &mut requests {
            (request.lane, request.offset) = (0, request.offset % (32 << 20));
        }
        for spec in ARRAY_SPECS {
            check_array(spec, disks, &requests, depth);
        }
    }
}

/// Returns a rearrangement that moves parts of the area used by [`requests`] to beyond it, so that
/// requests may be split into several pieces.
fn rearrangement() -> Rearrangement {
    let rows = [(40 * 8192, 20_480), (8192, 8192), (3 * 8192 + 4096, 4096), (90_112, 12_288)];
    Rearrangement::laid(&rows, 1 << 30).unwrap()
}

/// Returns a scheduler on a disk that was rearranged before the run (if `copied_from` is None) or
/// is rearranged during the run.
fn rearranged(spec: &str, copied_from: Option<Nanos>) -> Rearranged<Box<dyn Policy + Send>> {
    let inner = build(spec, LEN_MAX).unwrap();
    let lanes = inner.servers().len() as Lane;
    let placement = match copied_from {
        None => Rearrange::new(rearrangement()),
        Some(from) => Rearrange::moving(rearrangement(), from, LEN_MAX),
    };
    Rearranged::before(placement, inner, lanes)
}

/// Like [`check`], on a rearranged disk, where I/Os also read and write the data that is copied.
fn check_rearranged(spec: &str, copied_from: Option<Nanos>, requests: &[Request], depth: usize) {
    let mut policy = WakeupChecked::new(Recorder::new(rearranged(spec, copied_from)));
    let mut watch = Watch::default();
    let mut devices = Bench::of(&policy, depth);
    simulate::run(&mut policy, &mut devices, &mut List::of(requests), &mut watch);

    let io_bytes = kept(spec, watch.once(requests));
    let asked: u64 = requests.iter().map(|request| u64::from(request.len)).sum();
    let copied = copied_from.map_or(0, |_| 2 * rearrangement().moved_bytes());
    assert!(io_bytes >= asked + copied, "{spec}: the bytes asked for and copied");
    // Blocks written while they are being copied are copied again.
    let changes = requests.iter().any(|it| matches!(it.op, Op::Write | Op::Trim));
    assert!(changes || io_bytes == asked + copied, "{spec}: exactly those");
    kept(spec, policy.broken());
    kept(spec, same(&mut rearranged(spec, copied_from), &policy.calls));
}

/// The completion time of each request, with its class and wait.
#[derive(Default, PartialEq, Debug)]
struct Told(Vec<(Nanos, Done)>);

impl Observer for Told {
    fn finished(&mut self, now: Nanos, done: &Done) {
        self.0.push((now, *done));
    }
}

fn told(mut policy: impl Policy, requests: &[Request]) -> Told {
    let mut told = Told::default();
    let mut devices = Bench::of(&policy, 2);
    simulate::run(&mut policy, &mut devices, &mut List::of(requests), &mut told);
    told
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn rearranging_other_blocks_does_not_affect_a_disk(mut requests in requests()) {
        // Without preflushes, because above another policy a preflush is an I/O of the placement.
        requests.iter_mut().for_each(|request| request.flags.0 &= !Flags::PREFLUSH.0);
        for spec in specs().filter(|spec| !spec.starts_with("split")) {
            let map = Rearrangement::laid(&[(1 << 40, 4096)], 1 << 41).unwrap();
            let inner = build(&spec, LEN_MAX).unwrap();
            let lanes = inner.servers().len() as Lane;
            let above = Rearranged::before(Rearrange::new(map), inner, lanes);
            let plain = told(build(&spec, LEN_MAX).unwrap(), &requests);
            prop_assert_eq!(told(above, &requests), plain, "{}", spec);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn a_rearranged_disk_keeps_the_laws(
        requests in requests(), depth in 1usize..5, from_us in 1u64..20_000,
    ) {
        // Shapers with servers of their own have no single disk to rearrange.
        for spec in specs().filter(|spec| !spec.starts_with("split")) {
            check_rearranged(&spec, None, &requests, depth);
            check_rearranged(&spec, Some(Nanos::from_micros(from_us)), &requests, depth);
        }
    }
}

#[test]
fn nothing_admitted_starves() {
    for spec in specs().chain(placed_specs()) {
        let build = || {
            build(&format!("{spec}:merge=no"), LEN_MAX)
                .or_else(|_| build(&spec, LEN_MAX))
                .or_else(|_| build_placed(&spec, &lanes(1)))
                .unwrap()
        };
        kept(&spec, starves(build));
    }
}
