//! Tests a volume that stays in use while its drives fail, data is rebuilt on the remaining drives,
//! drives are replaced, and everything is checked. No client gets an error, and all reads return
//! the correct data.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use forebay_core::catalog::build_over_array;
use forebay_core::contract::{AnyPolicy, VolumeOrder, VolumeState};
use forebay_core::stack::array::{Array, Geometry, Level};
use forebay_core::{Lane, Policy};
use forebay_live::LEN_MAX;
use forebay_rig::{Crash, Medium, Tear, Troubles};

use super::client::{Client, Does, SECTOR};
use super::losses::gone;
use super::{longer, serve, serve_reachable};
use crate::front::Order;

/// The number of drives, which is more than a unit uses. There are lanes for two more.
const DRIVES: u16 = 8;
const LANES: u16 = DRIVES + 2;

fn geometry() -> Geometry {
    let sizes = Geometry { lanes: DRIVES, units: 60, ..super::losses::geometry() };
    Geometry::new(sizes, Level::RAID6, 40).unwrap()
}

fn found(numbers: &[u8], first: Level) -> Array {
    let cells = vec![geometry().cells; numbers.len()];
    Array::found(geometry(), first, numbers).with_cells(&cells)
}

pub(super) fn policy(array: Array, spec: &str) -> Rc<RefCell<AnyPolicy>> {
    Rc::new(RefCell::new(build_over_array(spec, array, LEN_MAX).unwrap()))
}

/// The steps in the life of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Failing,
    Rebuilding,
    Replacing,
    Moving,
    Checking,
    Reading,
}

/// The operator of a volume, who replaces drives and starts checks.
struct Operator {
    policy: Rc<RefCell<AnyPolicy>>,
    orders: Sender<Order>,
    answers: Vec<Receiver<Result<(), String>>>,
    step: Step,
    /// The lanes that fail: first one, and two more after a complete check of the volume.
    fails: [Lane; 3],
    /// The lane of a working drive that is replaced.
    replaced: Lane,
    stop: Arc<AtomicBool>,
}

impl Operator {
    fn order(&mut self, order: VolumeOrder) {
        let (done, answer) = channel();
        self.orders.send(Order::Volume(order, done)).unwrap();
        self.answers.push(answer);
    }

    fn replace(&mut self, new: u16, member: Lane) {
        let (lane, number) = (DRIVES + new, (DRIVES + new) as u8 + 1);
        let cells = geometry().cells;
        self.order(VolumeOrder::Replace { lane, number, cells, member: member as u8 + 1 });
    }

    fn state(&self) -> VolumeState {
        self.policy.borrow().volume().unwrap()
    }

    fn meddle(&mut self, crash: &mut Crash, client: &mut Client) {
        self.answers.retain(|answer| match answer.try_recv() {
            Ok(answer) => {
                answer.unwrap();
                false
            }
            Err(_) => true,
        });
        if !self.answers.is_empty() {
            return;
        }
        let state = self.state();
        let is_whole = state.lacking_chunks == 0 && state.records_left == 0 && state.work.is_none();
        let has = |lane: Lane| state.members.contains(&(lane as u8 + 1));
        let next = match self.step {
            Step::Failing if client.answered > 150 => {
                crash.trouble(gone(&self.fails[..1]));
                Step::Rebuilding
            }
            // Wait until an I/O has noticed the failure.
            Step::Rebuilding if state.drives.iter().any(|it| !it.is_present) && is_whole => {
                self.replace(0, self.fails[0]);
                Step::Replacing
            }
            Step::Replacing if is_whole && has(DRIVES) => {
                assert!(!has(self.fails[0]), "{state:?}");
                self.replace(1, self.replaced);
                Step::Moving
            }
            Step::Moving if is_whole && !has(self.replaced) => {
                self.order(VolumeOrder::Check { bytes_per_s: 50_000_000 });
                Step::Checking
            }
            Step::Checking if state.checks == 1 => {
                crash.trouble(gone(&self.fails));
                client.does = Does::ReadAll { next: 0 };
                Step::Reading
            }
            Step::Reading if client.has_read_all() => {
                self.stop.store(true, Ordering::Relaxed);
                Step::Reading
            }
            step => step,
        };
        self.step = next;
    }
}

#[test]
fn drives_fail_are_rebuilt_and_replaced_and_all_is_checked_while_a_client_continues() {
    let specs = ["noop", "promised:cmin=100:delta-ms=20:depth=4:over=noop"];
    for seed in 0..longer(4) {
        let first = [Level::RAID6, Level::TRIPLE][seed as usize % 2];
        println!("{first:?}, seed {seed}");
        let media: Vec<Medium> =
            (0..LANES).map(|lane| Medium::new(seed ^ u64::from(lane))).collect();
        let numbers: Vec<u8> = (1..=DRIVES as u8).collect();
        let sectors = geometry().capacity_bytes() / SECTOR / 16 * 16;
        let empty = Array::created(geometry(), first);
        let mut made = build_over_array("noop", empty, LEN_MAX).unwrap();
        let (crash, stop) = (sound(media, seed), Arc::new(AtomicBool::new(false)));
        let (over, fill) = (Arc::clone(&stop), Client::new(seed, sectors));
        let fill = serve(
            &mut *made,
            crash,
            fill,
            stop,
            Box::new(move |_: &mut Crash, client: &mut Client| {
                if client.answered > 300 {
                    client.does = Does::Nothing;
                    if client.is_quiet() {
                        over.store(true, Ordering::Relaxed);
                    }
                }
            }),
        );
        fill.outcome.unwrap();
        let mut client = fill.client;
        client.flushed_all();
        client.does = Does::Anything;
        let lanes = [numbers, vec![0, 0]].concat();
        let policy = policy(found(&lanes, first), specs[seed as usize % 2]);
        let (orders, ordered) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let lane = |nth: u64| ((seed + nth) % u64::from(DRIVES)) as Lane;
        let mut operator = Operator {
            policy: Rc::clone(&policy),
            orders,
            answers: Vec::new(),
            step: Step::Failing,
            fails: [lane(0), lane(3), lane(5)],
            replaced: lane(1),
            stop: Arc::clone(&stop),
        };
        let meddle =
            Box::new(move |crash: &mut Crash, client: &mut Client| operator.meddle(crash, client));
        let crash = sound(fill.crash.cut(Tear::Sector), seed);
        client.answered = 0;
        let served = serve_reachable(&policy, crash, client, stop, meddle, ordered);
        served.outcome.unwrap();
        assert!(served.client.has_read_all() && served.client.failures == 0);
        let state = policy.borrow().volume().unwrap();
        assert_eq!((state.lost_units, state.members.len()), (0, DRIVES.into()), "{state:?}");
        // After a power cut, the volume is found without the drives that were replaced or failed.
        let away = [lane(0), lane(1), lane(3), lane(5)];
        let number = |at: u16| if away.contains(&at) { 0 } else { at as u8 + 1 };
        let numbers: Vec<u8> = (0..LANES).map(number).collect();
        let mut again = build_over_array("noop", found(&numbers, first), LEN_MAX).unwrap();
        let (mut client, stop) = (served.client, Arc::new(AtomicBool::new(false)));
        client.does = Does::ReadAll { next: 0 };
        let over = Arc::clone(&stop);
        let crash = sound(served.crash.cut(Tear::Sector), seed);
        let read = serve(
            &mut *again,
            crash,
            client,
            stop,
            Box::new(move |_: &mut Crash, client: &mut Client| {
                if client.has_read_all() {
                    over.store(true, Ordering::Relaxed);
                }
            }),
        );
        read.outcome.unwrap();
        assert!(read.client.has_read_all() && read.client.failures == 0);
    }
}

pub(super) fn sound(media: Vec<Medium>, seed: u64) -> Crash {
    Crash::new(media, 4096, 1 + (seed % 4) as usize, seed, Troubles::default())
}
