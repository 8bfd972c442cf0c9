//! Tests the laws of contents on arrays whose drives are replaced while in use, both working and
//! failed ones, with power cuts in between.

use forebay_core::catalog::build;
use forebay_core::contract::policy::{AnyPolicy, Cx};
use forebay_core::contract::volume::{VolumeEvent, VolumeOrder, VolumeWork};
use forebay_core::stack::array::{Array, Census, Level};
use forebay_core::stack::placed::Placed;
use forebay_core::{Bytes, Completion, Lane, Nanos, Piece, Policy, Request};
use forebay_live::run;
use forebay_rig::{Crash, Medium, Tear, Troubles};

use crate::laws::array::{SHAPES, Shape, begun, sound};
use crate::laws::oracle::Oracle;
use crate::laws::random;

/// Lanes for new drives.
const NEW: usize = 2;

/// Passes orders to a volume, each at a given number of requests.
pub(crate) struct Ordering {
    pub(crate) volume: Placed<Array, AnyPolicy>,
    orders: Vec<(u64, VolumeOrder)>,
    asked: u64,
    pub(crate) refused: u64,
    pub(crate) events: Vec<VolumeEvent>,
}

impl Ordering {
    pub(crate) fn of(array: Array, orders: Vec<(u64, VolumeOrder)>) -> Ordering {
        let lanes = (0..array.lanes()).map(|_| build("noop", 1 << 20).unwrap()).collect();
        let volume = Placed::over(array, lanes);
        Ordering { volume, orders, asked: 0, refused: 0, events: Vec::new() }
    }

    pub(crate) fn census(&self) -> Census {
        self.volume.placement().census()
    }
}

impl Policy for Ordering {
    fn submit(&mut self, cx: &mut Cx<'_>, request: Request, bytes: Bytes) {
        self.asked += 1;
        let due = self.orders.iter().position(|(at, _)| *at <= self.asked);
        if let Some(due) = due.filter(|_| self.census().is_open) {
            let (_, order) = self.orders.remove(due);
            self.refused += u64::from(self.volume.order(cx.now, &order).is_err());
        }
        self.volume.submit(cx, request, bytes);
    }
    fn dispatch(&mut self, now: Nanos, lane: Lane) -> Option<Request> {
        self.volume.dispatch(now, lane)
    }
    fn complete(&mut self, cx: &mut Cx<'_>, done: &Completion) {
        self.volume.complete(cx, done);
        self.events.extend(self.volume.take_events());
    }
    fn wakeup(&self) -> Option<Nanos> {
        self.volume.wakeup()
    }
    fn wake(&mut self, cx: &mut Cx<'_>) {
        self.volume.wake(cx);
    }
    fn pieces(&self, io: &Request, each: &mut dyn FnMut(Piece)) {
        self.volume.pieces(io, each);
    }
}

/// Returns the existing array, with the number of the drive on each lane.
fn found(shape: &Shape, numbers: &[u8]) -> Array {
    let cells = vec![shape.geometry().cells; numbers.len()];
    shape.ruled(Array::found(shape.geometry(), shape.first, numbers).with_cells(&cells))
}

/// Returns the drive numbers by lane; 0 for missing drives, and for new drives that have not
/// joined.
fn numbers(shape: &Shape, joined: usize, away: &[usize]) -> Vec<u8> {
    let first = usize::from(shape.lanes);
    let is_there = |lane: usize| !away.contains(&lane) && lane < first + joined;
    (0..first + NEW).map(|lane| if is_there(lane) { lane as u8 + 1 } else { 0 }).collect()
}

fn replace(shape: &Shape, new: usize, member: usize) -> VolumeOrder {
    let lane = usize::from(shape.lanes) + new;
    let cells = shape.geometry().cells;
    VolumeOrder::Replace {
        lane: lane as Lane,
        number: lane as u8 + 1,
        cells,
        member: member as u8 + 1,
    }
}

/// Runs until all work is done.
pub(crate) fn run_out(volume: &mut Ordering, lanes: &mut Crash, oracle: &mut Oracle) {
    run(volume, lanes, oracle, &mut ()).unwrap();
    assert!(volume.volume.is_idle(), "I/Os were never answered");
    assert_eq!(oracle.outstanding(), 0, "requests were never answered");
    assert_eq!(oracle.failed, 0, "failures are told");
}

fn shapes() -> impl Iterator<Item = &'static Shape> {
    // The last of these shapes has more drives than a unit uses.
    [0, 1, 4, 5, 8].into_iter().map(|at| &SHAPES[at])
}

fn assert_whole(volume: &Ordering, shape: &Shape, replaced: u8, new: u8) {
    let census = volume.census();
    assert_eq!(census.members.len(), usize::from(shape.lanes), "{census:?}");
    assert!(census.members.contains(&new) && !census.members.contains(&replaced), "{census:?}");
    assert_eq!((census.degraded_units, census.lost_units), (0, 0), "{census:?}");
    let state = Policy::volume(&volume.volume).unwrap();
    assert_eq!((state.lacking_chunks, state.records_left), (0, 0), "{state:?}");
}

#[test]
fn a_drive_is_replaced_while_clients_read_and_write_and_any_two_others_may_then_fail() {
    for (shape, seed) in shapes().zip(0..) {
        for fails in [false, true] {
            let (member, mut state) = (seed as usize % 3, seed);
            println!("{shape:?}, drive {member} fails: {fails}");
            let mut oracle = Oracle::new(shape.mix(), 0, seed);
            let mut media = begun(shape, seed, &mut oracle, 300);
            media.extend((0..NEW).map(|new| Medium::new(77 + new as u64)));
            let gone = if fails { vec![(member as Lane, 200)] } else { Vec::new() };
            let trouble = Troubles { gone: gone.clone(), ..Troubles::default() };
            let mut lanes = Crash::new(media, 4096, 4, seed, trouble);
            let order = (150, replace(shape, 0, member));
            let mut volume = Ordering::of(found(shape, &numbers(shape, 0, &[])), vec![order]);
            oracle.more(400);
            run_out(&mut volume, &mut lanes, &mut oracle);
            assert_eq!(volume.refused, 0);
            let new = shape.lanes as u8 + 1;
            assert_whole(&volume, shape, member as u8 + 1, new);
            let has = |event: &VolumeEvent| volume.events.contains(event);
            assert!(has(&VolumeEvent::Joined { drive: new }), "{:?}", volume.events);
            assert!(has(&VolumeEvent::Left { drive: member as u8 + 1 }), "{:?}", volume.events);
            let work = if fails { VolumeWork::Rebuild } else { VolumeWork::Move };
            assert!(has(&VolumeEvent::Began(work)), "{:?}", volume.events);
            // The old drive is unplugged. Any two other drives may be missing, and all records must
            // be found.
            let media = lanes.cut(Tear::Sector);
            oracle.cut();
            let mut away = vec![member];
            away.extend([0, 1].map(|_| {
                let lane = (random(&mut state) % (u64::from(shape.lanes) + 1)) as usize;
                if lane == member { usize::from(shape.lanes) } else { lane }
            }));
            println!("without {away:?}");
            let mut lanes = sound(media, seed);
            oracle.settle();
            let mut volume = Ordering::of(found(shape, &numbers(shape, 1, &away)), Vec::new());
            run_out(&mut volume, &mut lanes, &mut oracle);
        }
    }
}

#[test]
fn replacing_is_cut_anywhere_and_continues() {
    let (mut cuts, mut both) = (0, 0);
    let every = if forebay_testing::laws_times().is_some() { 1 } else { 4 };
    for shape in shapes() {
        for seed in (0..24).step_by(every) {
            let (member, fails) = (seed as usize % 3, seed % 8 >= 4);
            println!("{shape:?}, seed {seed}, drive {member} fails: {fails}");
            let (mut state, mut oracle) = (seed, Oracle::new(shape.mix(), 0, seed));
            let mut media = begun(shape, seed, &mut oracle, 300);
            media.extend((0..NEW).map(|new| Medium::new(77 + new as u64)));
            let (from, cut) = (random(&mut state) % 100, random(&mut state) % 2500);
            let gone = if fails { vec![(member as Lane, from)] } else { Vec::new() };
            let trouble = Troubles { gone, cut_after: Some(cut), ..Troubles::default() };
            let mut lanes = Crash::new(media, 4096, 4, random(&mut state), trouble);
            let order = (random(&mut state) % 200, replace(shape, 0, member));
            let mut volume = Ordering::of(found(shape, &numbers(shape, 0, &[])), vec![order]);
            oracle.more(300);
            cuts += u32::from(run(&mut volume, &mut lanes, &mut oracle, &mut ()).is_err());
            let media = lanes.cut(Tear::Page);
            oracle.cut();
            // The array is opened with all present drives. The new one was labeled before the
            // order, so it is recognized.
            let away = if fails { vec![member] } else { Vec::new() };
            let mut lanes = sound(media, seed);
            oracle.settle();
            let mut volume = Ordering::of(found(shape, &numbers(shape, 1, &away)), Vec::new());
            run_out(&mut volume, &mut lanes, &mut oracle);
            let members = volume.census().members;
            let (old, new) = (member as u8 + 1, shape.lanes as u8 + 1);
            both += u32::from(members.contains(&old) && members.contains(&new));
            let media = lanes.cut(Tear::Page);
            oracle.cut();
            // A member fails now, and the old drive may be missing too.
            let other = (member + 1 + random(&mut state) as usize % 2) % 6;
            let away = [vec![other], away].concat();
            let mut lanes = sound(media, seed + 1);
            oracle.settle();
            let mut volume = Ordering::of(found(shape, &numbers(shape, 1, &away)), Vec::new());
            run_out(&mut volume, &mut lanes, &mut oracle);
        }
    }
    println!("{cuts} cuts, {both} with both drives");
    assert!(cuts > 9 && both > 0, "{cuts} cuts, {both} with both drives");
}

#[test]
fn a_check_repairs_what_is_wrong_while_clients_continue() {
    for (shape, seed) in shapes().zip(0..) {
        println!("{shape:?}");
        let mut oracle = Oracle::new(shape.mix(), 0, seed);
        let mut media = begun(shape, seed, &mut oracle, 300);
        // One drive is damaged everywhere.
        let bytes = shape.geometry().lane_bytes();
        let from = bytes - u64::from(shape.geometry().cells) * shape.geometry().cell_bytes();
        (from / 4096..bytes / 4096).for_each(|at| media[2].write(at * 4096 + 100, b"rot", true));
        media.extend((0..NEW).map(|new| Medium::new(77 + new as u64)));
        let mut lanes = sound(media, seed);
        let orders = vec![(20, VolumeOrder::Check { bytes_per_s: 0 })];
        let mut volume = Ordering::of(found(shape, &numbers(shape, 0, &[])), orders);
        oracle.more(100);
        run_out(&mut volume, &mut lanes, &mut oracle);
        let state = Policy::volume(&volume.volume).unwrap();
        assert_eq!((state.checks, state.lost_units, state.lacking_chunks), (1, 0, 0), "{state:?}");
        let mended = |event: &&VolumeEvent| matches!(event, VolumeEvent::Mended { drive: 3, .. });
        assert!(volume.events.iter().filter(mended).count() > 5, "{:?}", volume.events);
        // Afterwards, any other two drives may be missing.
        let media = lanes.cut(Tear::Sector);
        oracle.cut();
        let mut lanes = sound(media, seed);
        oracle.settle();
        let mut volume = Ordering::of(found(shape, &numbers(shape, 0, &[0, 4])), Vec::new());
        run_out(&mut volume, &mut lanes, &mut oracle);
    }
}

#[test]
fn records_of_a_replaced_drive_are_written_to_others() {
    // The table has so many pages that clients' writes do not record all of them.
    let shape = &Shape { units: 8000, ..SHAPES[0] };
    for fails in [false, true] {
        let mix = SHAPES[0].mix();
        let mut oracle = Oracle::new(mix, 0, 3);
        let media = with_many_pages(shape, &mut oracle);
        let gone = if fails { vec![(0, 50)] } else { Vec::new() };
        let trouble = Troubles { gone, ..Troubles::default() };
        let mut lanes = Crash::new(media, 4096, 4, 3, trouble);
        let orders = vec![(20, replace(shape, 0, 0))];
        let mut volume = Ordering::of(found(shape, &numbers(shape, 0, &[])), orders);
        oracle.more(60);
        run_out(&mut volume, &mut lanes, &mut oracle);
        assert_whole(&volume, shape, 1, 7);
        let media = lanes.cut(Tear::Sector);
        oracle.cut();
        for away in [[0, 1, 2], [0, 2, 3], [0, 4, 5], [0, 5, 6], [0, 3, 6]] {
            println!("fails: {fails}, without {away:?}");
            let mut lanes = sound(media.clone(), 3);
            let mut again = oracle.clone();
            again.settle();
            let mut volume = Ordering::of(found(shape, &numbers(shape, 1, &away)), Vec::new());
            run_out(&mut volume, &mut lanes, &mut again);
        }
    }
}

/// Opens the array without any of `members` that may be missing, and reads everything.
fn opens_without_any(shape: &Shape, media: &[Medium], oracle: &Oracle, members: &[usize]) {
    let all = usize::from(shape.lanes) + NEW;
    let left: Vec<usize> = (0..all).filter(|lane| !members.contains(lane)).collect();
    for (at, first) in members.iter().enumerate() {
        let seconds = &members[at..];
        let seconds = if shape.first.tolerates() > 1 { seconds } else { &seconds[..1] };
        for second in seconds {
            let away = [&left[..], &[*first, *second]].concat();
            println!("without {away:?}");
            let mut lanes = sound(media.to_vec(), 3);
            let mut again = oracle.clone();
            again.settle();
            let mut volume = Ordering::of(found(shape, &numbers(shape, NEW, &away)), Vec::new());
            run_out(&mut volume, &mut lanes, &mut again);
        }
    }
}

/// Begins an array whose table has so many pages that clients' writes do not record all of them.
fn with_many_pages(shape: &Shape, oracle: &mut Oracle) -> Vec<Medium> {
    let mut media = begun(shape, 3, oracle, 60);
    media.extend((0..NEW).map(|new| Medium::new(77 + new as u64)));
    media
}

#[test]
fn records_outlast_drives_that_are_replaced_at_the_same_time() {
    let first = Level::Mirrored { copies: 2 };
    // No drive of the mirror stays.
    let mirror = Shape { lanes: 2, chunks: 4, first, units: 24, spare: 80, adapts: false };
    for few in [&mirror, &SHAPES[0]] {
        let shape = &Shape { units: 8000, ..*few };
        let mut oracle = Oracle::new(few.mix(), 0, 3);
        let media = with_many_pages(shape, &mut oracle);
        let mut lanes = sound(media, 3);
        let orders = vec![(20, replace(shape, 0, 0)), (22, replace(shape, 1, 1))];
        let mut volume = Ordering::of(found(shape, &numbers(shape, 0, &[])), orders);
        oracle.more(60);
        run_out(&mut volume, &mut lanes, &mut oracle);
        assert_eq!(volume.refused, 0);
        assert_whole(&volume, shape, 1, shape.lanes as u8 + 1);
        assert_whole(&volume, shape, 2, shape.lanes as u8 + 2);
        let media = lanes.cut(Tear::Sector);
        oracle.cut();
        let members: Vec<usize> = (2..usize::from(shape.lanes) + NEW).collect();
        opens_without_any(shape, &media, &oracle, &members);
    }
}
