//! Tests the laws of contents on every policy, placement and stack: reads return the last written
//! data, whatever is merged, split, reordered, moved or fails; and data covered by a completed
//! flush or FUA write survives a power cut at any moment.

mod adding;
mod array;
mod boundaries;
mod draining;
mod growing;
mod in_place;
mod lanes;
mod lost;
mod oracle;
mod rearranged;
mod replacing;
mod returning;
mod sets;
mod stacks;
mod surviving;
mod unreadable;

use forebay_core::{Completion, Flags, Lane, Observer, Policy, Workload};
use forebay_live::{Watch, run};
use forebay_rig::{Crash, Medium, Tear, Troubles};
pub(crate) use forebay_testing::{longer, random};

use self::oracle::{Mix, Oracle};
use self::stacks::{Mends, Stack, stacks};

/// An observer that checks that lanes never receive operations that policies handle themselves.
struct Parted;

impl Observer for Parted {
    fn io(&mut self, done: &Completion) {
        assert!(!done.io.flags.has(Flags::PREFLUSH), "{:?} is not parted", done.io);
    }
}

impl Watch for Parted {}

/// Runs until the oracle is done; afterwards, no request and no buffer may be left.
fn drive(stack: &Stack, policy: &mut dyn Policy, lanes: &mut Crash, oracle: &mut Oracle) {
    let told = run(policy, lanes, oracle, &mut Parted);
    assert!(told.is_ok(), "{}: {told:?}, {} wait", stack.name, oracle.outstanding());
    assert_eq!(oracle.outstanding(), 0, "{}: requests were never answered", stack.name);
}

fn media(stack: &Stack, seed: u64) -> Vec<Medium> {
    (0..stack.lanes).map(|lane| Medium::new(seed ^ u64::from(lane))).collect()
}

fn mix(stack: &Stack) -> Mix {
    let &Stack { disks, sectors, anything_from, .. } = stack;
    Mix { disks, sectors, unit: 8, trims: true, anything_from }
}

/// Returns the fault for a seed: none, media errors, the last lane disappears, media errors on it,
/// or the first lane disappears.
fn troubles(stack: &Stack, seed: u64) -> Troubles {
    let media = |lane| Troubles {
        lane,
        reads_one_in: 25,
        writes_one_in: 25,
        flushes_one_in: 9,
        ..Troubles::default()
    };
    let last = stack.lanes as Lane - 1;
    let gone = |lane| Troubles { gone: vec![(lane, 300 + 100 * seed)], ..Troubles::default() };
    match seed % TROUBLES {
        0 => Troubles::default(),
        1 => media(None),
        2 => gone(last),
        3 if stack.mends == Mends::Writes => {
            Troubles { reads_one_in: 0, flushes_one_in: 0, ..media(Some(last)) }
        }
        3 => media(Some(last)),
        _ => gone(0),
    }
}

/// Returns whether a stack hides the faults for this seed from clients.
fn is_mended(stack: &Stack, seed: u64) -> bool {
    match seed % TROUBLES {
        0 => true,
        2 => stack.mends == Mends::Everything,
        3 => stack.mends != Mends::Nothing,
        _ => false,
    }
}

const TROUBLES: u64 = 5;
/// The number of seeds for each stack. In the second half, requests are concentrated on few places.
const SEEDS: u64 = 2 * TROUBLES;

#[test]
fn reads_return_the_last_write() {
    let mut checked = 0;
    for stack in stacks() {
        for seed in 0..SEEDS {
            println!("{}, seed {seed}", stack.name);
            let mut policy = (stack.build)();
            let depth = 1 + seed as usize % 6;
            let mut lanes =
                Crash::new(media(&stack, seed), stack.block, depth, seed, troubles(&stack, seed));
            let all = mix(&stack);
            let sectors = if seed < TROUBLES { all.sectors } else { all.sectors.min(512) };
            let mut oracle = Oracle::new(Mix { sectors, ..all }, 700, seed);
            drive(&stack, &mut *policy, &mut lanes, &mut oracle);
            let told = oracle.failed > 0 && is_mended(&stack, seed);
            assert!(!told, "{}: {} failures are told", stack.name, oracle.failed);
            if seed % TROUBLES < 2 {
                lanes.soothe();
                let failed = oracle.failed;
                oracle.settle();
                drive(&stack, &mut *policy, &mut lanes, &mut oracle);
                assert!(oracle.failed == failed, "{}: nothing fails any more", stack.name);
            }
            assert_eq!(lanes.pool().live(), 0, "{}: a buffer is left", stack.name);
            checked += oracle.checked;
        }
    }
    assert!(checked > 1_000_000, "{checked} sectors are too few");
}

/// The number of seeds for each stack: without faults, with media errors, and with failing flushes
/// only.
const CUT_SEEDS: u64 = 3;

#[test]
fn durable_data_survive_a_power_cut_anywhere() {
    let mut cuts = 0;
    for stack in stacks().into_iter().filter(|stack| stack.restarts) {
        for seed in 0..longer(CUT_SEEDS) {
            println!("{}, seed {seed}", stack.name);
            let mut oracle = Oracle::new(mix(&stack), 0, seed);
            let mut disks = media(&stack, seed);
            let mut state = seed;
            for _ in 0..3 {
                let mut policy = (stack.build)();
                let cut_after = Some(random(&mut state) % 1500);
                let troubles = Troubles {
                    cut_after,
                    writes_one_in: if seed % 3 == 1 { 30 } else { 0 },
                    flushes_one_in: if seed % 3 == 2 { 3 } else { 0 },
                    ..Troubles::default()
                };
                let mut lanes = Crash::new(disks, stack.block, 4, random(&mut state), troubles);
                oracle.more(2000);
                let told = run(&mut *policy, &mut lanes, &mut oracle, &mut ());
                cuts += u64::from(told.is_err());
                let tear = if seed % 2 == 0 { Tear::Sector } else { Tear::Page };
                disks = lanes.cut(tear);
                oracle.cut();
                let mut policy = (stack.build)();
                let mut lanes = Crash::new(disks, stack.block, 4, seed, Troubles::default());
                oracle.settle();
                drive(&stack, &mut *policy, &mut lanes, &mut oracle);
                disks = lanes.cut(tear);
            }
            assert!(oracle.is_over());
        }
    }
    assert!(cuts > 500, "{cuts} cuts are too few");
}
