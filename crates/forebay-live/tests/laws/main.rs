//! The laws of content, for every policy, placement and stack by itself: what is read is what was last
//! written, whatever is merged, split, reordered, moved or fails; and what a completed flush or FUA write
//! covered is there after the power was cut anywhere.

#![allow(clippy::unwrap_used)]

mod lanes;
mod oracle;
mod stacks;

use forebay_core::{Lane, Policy, Workload};
use forebay_live::{Crash, Medium, Tear, Troubles, run};

use oracle::{Mix, Oracle};
use stacks::{Stack, stacks};

/// The next number of a sequence (SplitMix64).
pub(crate) fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// Runs until the oracle is over, and no request and no buffer is left.
fn drive(stack: &Stack, policy: &mut dyn Policy, lanes: &mut Crash, oracle: &mut Oracle) {
    let told = run(policy, lanes, oracle, &mut ());
    assert!(told.is_ok(), "{}: {told:?}, {} wait", stack.name, oracle.outstanding());
    assert_eq!(oracle.outstanding(), 0, "{}: requests were never answered", stack.name);
}

fn media(stack: &Stack, seed: u64) -> Vec<Medium> {
    (0..stack.lanes).map(|lane| Medium::new(seed ^ u64::from(lane))).collect()
}

fn mix(stack: &Stack) -> Mix {
    Mix { disks: stack.disks, sectors: stack.sectors, unit: 8, trims: true }
}

fn troubles(stack: &Stack, seed: u64) -> Troubles {
    let one_in = if seed % 3 == 1 { 25 } else { 0 };
    let last = stack.lanes as Lane - 1;
    let gone = if seed % 3 == 2 { vec![(last, 2000)] } else { vec![] };
    Troubles { reads_one_in: one_in, writes_one_in: one_in, gone, cut_after: None }
}

/// Seeds of each stack: well, with faults of the media, with the last lane gone.
const SEEDS: u64 = 6;

#[test]
fn what_is_read_is_what_was_last_written() {
    let mut checked = 0;
    for stack in stacks() {
        for seed in 0..SEEDS {
            println!("{}, seed {seed}", stack.name);
            let mut policy = (stack.build)();
            let depth = 1 + seed as usize % 5;
            let mut lanes =
                Crash::new(media(&stack, seed), stack.block, depth, seed, troubles(&stack, seed));
            let mut oracle = Oracle::new(mix(&stack), 700, seed);
            drive(&stack, &mut *policy, &mut lanes, &mut oracle);
            assert!(seed % 3 > 0 || oracle.failed == 0, "{}: nothing fails", stack.name);
            if seed % 3 < 2 {
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

#[test]
fn what_was_durable_is_there_after_a_cut_anywhere() {
    let mut cuts = 0;
    for stack in stacks().into_iter().filter(|stack| stack.restarts) {
        for seed in 0..3 * SEEDS {
            println!("{}, seed {seed}", stack.name);
            let mut oracle = Oracle::new(mix(&stack), 0, seed);
            let mut disks = media(&stack, seed);
            let mut state = seed;
            for _ in 0..3 {
                let mut policy = (stack.build)();
                let one_in = if seed % 3 == 1 { 30 } else { 0 };
                let cut_after = Some(random(&mut state) % 1500);
                let troubles = Troubles { cut_after, writes_one_in: one_in, ..Troubles::default() };
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
