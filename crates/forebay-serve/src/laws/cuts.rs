//! Tests that data covered by a flush or FUA survives a power cut, as NBD requires. The test covers
//! every kind of policy, with a client that tracks the possible contents of each sector.

use std::sync::Arc;

use forebay_core::catalog::{DeviceSet, build_placed};
use forebay_live::LEN_MAX;
use forebay_rig::{Crash, Lie, Medium, Tear, Troubles};

use super::client::Client;
use super::{longer, serve};

const SECTORS: u64 = 256;

/// Serves a client until the power fails; returns the number of answered requests and the sectors
/// that break a guarantee.
fn cut(policy: &str, seed: u64, lies: Option<Lie>) -> (u64, Vec<u64>) {
    let mut client = Client::new(seed, SECTORS);
    let cut_after = Some(20 + client.draw(600));
    let troubles = Troubles { cut_after, lies, ..Troubles::default() };
    let depth = 1 + client.draw(8) as usize;
    let crash = Crash::new(vec![Medium::new(seed)], 512, depth, seed, troubles);
    let set = DeviceSet { disks: 1, disk_len_max: LEN_MAX, restarts: true, ..DeviceSet::default() };
    let mut policy = build_placed(policy, &set).unwrap();
    let served = serve(&mut *policy, crash, client, Arc::default(), Box::new(|_, _| ()));
    served.outcome.expect_err("the power goes");
    let media = served.crash.cut(Tear::Sector);
    (served.client.answered, served.client.broken(&media[0]))
}

const POLICIES: [&str; 6] =
    ["noop", "none", "mq-deadline", "forebay", "bid", "promised:cmin=100:over=deadline:depth=4"];

/// Returns the number of power cuts per policy; `FOREBAY_LAWS=10` gives 2,000 in total.
fn seeds() -> u64 {
    longer(34)
}

#[test]
fn data_covered_by_flush_or_fua_survive_a_power_cut() {
    let mut answered = 0;
    for policy in POLICIES {
        for seed in 0..seeds() {
            let (count, broken) = cut(policy, seed, None);
            assert!(broken.is_empty(), "{policy}, seed {seed}: sectors {broken:?}");
            answered += count;
        }
    }
    assert!(answered > 50 * seeds(), "{answered} answers are too few to tell anything");
}

#[test]
fn a_disk_that_ignores_flushes_breaks_the_law() {
    for lie in [Lie::Flushes, Lie::Durable] {
        for policy in POLICIES {
            let breaks = |seed| !cut(policy, seed, Some(lie)).1.is_empty();
            assert!((0..40).any(breaks), "{policy}: {lie:?} goes unnoticed");
        }
    }
}
