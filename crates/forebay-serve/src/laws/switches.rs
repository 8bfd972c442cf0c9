//! Tests a policy switch whose preceding flush fails. Nothing changes, clients continue to be
//! served, and once flushes succeed again, the next switch leaves everything acknowledged durable.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use forebay_core::catalog::{DeviceSet, build_placed};
use forebay_core::stack::array::{Array, Level};
use forebay_core::{Nanos, Policy};
use forebay_live::LEN_MAX;
use forebay_rig::{Crash, Medium, Tear, Troubles};

use super::client::{Client, Does, SECTOR};
use super::losses::{DRIVES, geometry, ruled};
use super::{Served, longer, serve_ordered};
use crate::front::{Order, PolicySetup, Streams, Switch, SwitchFailure};

/// The number of answers before the first switch, and between its failure and the next switch.
const ANSWERS: u64 = 120;

fn order(orders: &Sender<Order>) -> Receiver<Result<Nanos, SwitchFailure>> {
    let (done, told) = channel();
    let (spec, streams, exports) = ("noop".to_string(), Streams::Connections, Vec::new());
    let before = PolicySetup { shown: spec.clone(), spec, streams, exports };
    let switch = Switch { next: before.clone(), before, flushes: true, done };
    orders.send(Order::Switch(switch)).unwrap();
    told
}

/// The outcome of the switches.
struct Switched {
    served: Served,
    /// The number of requests that succeeded or failed after the failed switch.
    after: u64,
}

/// Why a flush fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// All flushes fail until the switch has been rejected.
    Once,
    /// All flushes fail from now on.
    Flushes,
    /// Three drives of a volume that tolerates two losses have failed.
    Gone,
}

/// Attempts a switch whose flush fails. If the devices recover, attempts another switch, whose
/// flush succeeds.
fn switch(policy: &mut dyn Policy, lanes: u16, seed: u64, sectors: u64, why: Why) -> Switched {
    let media = (0..lanes).map(|lane| Medium::new(seed ^ u64::from(lane))).collect();
    let block = if lanes > 1 { 4096 } else { 512 };
    let crash = Crash::new(media, block, 1 + (seed % 4) as usize, seed, Troubles::default());
    let (orders, ordered) = channel();
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (over, mut told, mut failed_at) = (Arc::clone(&stop), None, None);
    let (counts, count) = channel();
    let meddle = move |crash: &mut Crash, client: &mut Client| {
        let all = client.answered + client.failures;
        match (&told, failed_at) {
            (None, None) if client.answered >= ANSWERS => {
                let gone = (0..3).map(|lane| (lane, 0)).collect();
                crash.trouble(match why {
                    Why::Gone => Troubles { gone, ..Troubles::default() },
                    Why::Once | Why::Flushes => {
                        Troubles { flushes_one_in: 1, ..Troubles::default() }
                    }
                });
                client.may_fail = true;
                told = Some(order(&orders));
            }
            (Some(answer), None) => {
                if let Ok(outcome) = answer.try_recv() {
                    assert!(outcome.is_err(), "the answer says that nothing was switched");
                    if why == Why::Once {
                        crash.soothe();
                    }
                    failed_at = Some(all);
                }
            }
            (Some(_), Some(at)) if all >= at + ANSWERS => {
                counts.send(all - at).unwrap();
                told = None;
                match why {
                    Why::Once => told = Some(order(&orders)),
                    Why::Flushes | Why::Gone => {
                        over.store(true, std::sync::atomic::Ordering::Relaxed)
                    }
                }
                failed_at = Some(u64::MAX / 2);
                client.does = Does::Nothing;
            }
            _ => {}
        }
    };
    // A request that arrives in pieces may be complete only after the server has stopped accepting
    // requests.
    let mut client = Client::new(seed, sectors);
    client.chunk = if seed.is_multiple_of(2) { usize::MAX } else { 24 };
    let served = serve_ordered(policy, crash, client, stop, Box::new(meddle), ordered);
    Switched { after: count.try_iter().sum(), served }
}

#[test]
fn a_switch_whose_flush_fails_leaves_all_as_it_is_and_the_next_one_has_all_durable() {
    for policy in ["noop", "mq-deadline", "promised:cmin=100:over=deadline:depth=4"] {
        for seed in 0..longer(30) {
            println!("{policy}, seed {seed}");
            let disk_len_max = LEN_MAX;
            let set = DeviceSet { disks: 1, disk_len_max, restarts: true, ..DeviceSet::default() };
            let mut policy = build_placed(policy, &set).unwrap();
            let Switched { served, after } = switch(&mut *policy, 1, seed, 256, Why::Once);
            served.outcome.unwrap();
            assert!(after >= ANSWERS);
            // The flush before the second switch covers everything answered, whether or not clients
            // flushed.
            let mut client = served.client;
            client.flushed_all();
            let media = served.crash.cut(Tear::Sector);
            let broken = client.broken(&media[0]);
            assert!(broken.is_empty(), "sectors {broken:?} after the second switch");
        }
    }
}

#[test]
fn a_volume_whose_flush_fails_at_a_switch_is_served_on() {
    for why in [Why::Gone, Why::Flushes] {
        let mut refused = 0;
        for seed in 0..longer(20) {
            println!("{why:?}, seed {seed}");
            let mut volume = ruled(Array::created(geometry(), Level::RAID6));
            let sectors = geometry().capacity_bytes() / SECTOR / 16 * 16;
            let Switched { served, after } = switch(&mut volume, DRIVES, seed, sectors, why);
            // If everything written is already durable, nothing fails, and the policy is switched.
            let Served { outcome, client, .. } = served;
            let (answered, failures) = (client.answered, client.failures);
            let is_quiet = client.is_quiet();
            assert!(
                after >= ANSWERS || after == 0 && outcome.is_ok(),
                "{after} after the switch: {outcome:?}; {answered} answered, {failures} failed, quiet: {is_quiet}"
            );
            refused += u64::from(after > 0);
        }
        // With three failed drives, the switch is refused only if data acknowledged since the last
        // flush needs one of them.
        let least = if why == Why::Gone { 4 } else { 12 };
        assert!(refused >= longer(least), "{why:?}: {refused} switches were refused");
    }
}
