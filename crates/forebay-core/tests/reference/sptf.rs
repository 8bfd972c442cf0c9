//! A reference implementation of shortest positioning time first, which tries every waiting request
//! on a copy of the disk.

use forebay_core::catalog::{DeviceSet, build, build_measured};
use forebay_core::contract::Bare;
use forebay_core::device::hdd::{Hdd, HddSpec};
use forebay_core::device::list::DeviceModel;
use forebay_core::elevator::{BlockLayer, Limits, Sptf};
use forebay_core::{Device, Nanos, Op, Policy, Request, Spec};
use proptest::prelude::*;
use proptest::strategy::ValueTree;

use super::hdd::spec;
use super::{complete, request};

/// Returns the time that `io` takes on a copy of the disk, excluding its transfer.
fn tried(disk: &Hdd, now: Nanos, io: &Request) -> Nanos {
    let mut disk = disk.clone();
    disk.start(now, *io);
    let done = disk.finish(disk.next().unwrap());
    done.at - now - done.mechanics.transfer
}

/// Returns the index of the waiting request to serve next. `waiting` is sorted by age.
fn chosen(disk: &Hdd, now: Nanos, waiting: &[Request], bound: Nanos) -> usize {
    if waiting[0].at + bound <= now {
        return 0;
    }
    let takes = |&at: &usize| (tried(disk, now, &waiting[at]), waiting[at].at);
    (0..waiting.len()).min_by_key(takes).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn sptf_agrees_with_trying_each_request(
        spec in spec(),
        // The requests: a pause in us, then the offset, the length and whether it is a write, for
        // each request.
        steps in prop::collection::vec(
            (0u64..2_000, prop::collection::vec((0u64..800, 1u32..9, any::<bool>()), 0..6)), 1..40,
        ),
        bound in prop_oneof![Just(Nanos::MAX), Just(Nanos::from_millis(4))],
    ) {
        let mut disk = Hdd::new(spec).unwrap();
        let limits = Limits { merging: false, reads_max: 1000, writes_max: 1000, ..Limits::default() };
        let mut layer = BlockLayer::new(Sptf::new(disk.clone(), bound), limits);
        let (mut now, mut waiting, mut id) = (Nanos::ZERO, Vec::new(), 0);
        for (pause_us, come) in steps {
            now += Nanos::from_micros(pause_us);
            for (place, sectors, write) in come {
                let op = if write { Op::Write } else { Op::Read };
                let new = request(id, now, place * 512, sectors * 512, op);
                layer.submit_bare(now, new);
                waiting.push(new);
                id += 1;
            }
            let Some(io) = layer.dispatch(now, 0) else {
                prop_assert!(waiting.is_empty());
                continue;
            };
            let expected = waiting.remove(chosen(&disk, now, &waiting, bound));
            let same = |one: &Request| (tried(&disk, now, one), one.op, one.offset, one.len);
            prop_assert_eq!(same(&io), same(&expected));
            disk.start(now, io);
            now = disk.next().unwrap();
            disk.finish(now);
            complete(&mut layer, now, io);
        }
    }
}

#[test]
fn sptf_needs_a_disk_with_known_positioning() {
    let lanes = DeviceSet { disks: 1, disk_len_max: 4096, ..DeviceSet::default() };
    let server = forebay_core::device::list::build(&Spec::parse("fixed:500").unwrap()).unwrap();
    let said = |spec: &str, disk: &DeviceModel| {
        build_measured(spec, &lanes, disk).map(drop).unwrap_err().0
    };
    let told = said("sptf", &server);
    assert!(told.contains("'sptf'") && told.contains("expected a plain disk"), "{told}");
    let told = build("sptf", 4096).map(drop).unwrap_err().0;
    assert!(told.contains("got a yardstick"), "{told}");
    let disk = DeviceModel::Hdd(Hdd::new(any_spec()).unwrap());
    assert!(build_measured("sptf:bound-ms=5:reads-max=3", &lanes, &disk).is_ok());
    assert!(said("sptf:bound=5", &disk).contains("no parameter 'bound'"));
    let two = DeviceSet { disks: 2, ..lanes };
    assert!(build_measured("sptf", &two, &disk).is_ok());
}

pub(super) fn any_spec() -> HddSpec {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    spec().new_tree(&mut runner).unwrap().current()
}
